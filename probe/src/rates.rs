//! The rates of a series: ranges, spacing, and round numbers.

use std::fmt;
use std::str::FromStr;

use engine::sys::units::{InvalidRate, Rate};
use thiserror::Error;

/// A range of rates, `1k..50k`: the first is below the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRange {
    /// The lowest.
    pub first: Rate,
    /// The highest.
    pub last: Rate,
}

/// Not a range of rates.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidRange {
    /// It isn't two rates with two dots between them.
    #[error("invalid range `{0}`: give two rates, e.g. 1k..50k")]
    Malformed(String),
    /// One of them isn't a rate.
    #[error("invalid range `{0}`: {1}")]
    Rate(String, InvalidRate),
    /// The first isn't below the last.
    #[error("invalid range `{0}`: the first rate must be below the last, e.g. 1k..50k")]
    Order(String),
}

impl FromStr for RateRange {
    type Err = InvalidRange;

    fn from_str(text: &str) -> Result<RateRange, InvalidRange> {
        let malformed = || InvalidRange::Malformed(text.to_owned());
        let (first, last) = text.split_once("..").ok_or_else(malformed)?;
        let rate = |part: &str| {
            part.trim().parse().map_err(|error| InvalidRange::Rate(text.to_owned(), error))
        };
        let (first, last): (Rate, Rate) = (rate(first)?, rate(last)?);
        if last <= first {
            return Err(InvalidRange::Order(text.to_owned()));
        }
        Ok(RateRange { first, last })
    }
}

impl fmt::Display for RateRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.last)
    }
}

/// How the rates of a range are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Each is the same multiple of the one before.
    Geometric,
    /// Each is as much above the one before.
    Linear,
}

impl RateRange {
    /// This many rates from the first to the last, ascending, each to four digits except for these
    /// two. If they are closer than that, there are fewer.
    ///
    /// # Panics
    /// Below two rates.
    pub fn spaced(self, steps: usize, spacing: Spacing) -> Vec<Rate> {
        assert!(2 <= steps, "a range has two ends");
        let (first, last) = (self.first.per_second(), self.last.per_second());
        let mut rates = vec![self.first];
        for at in 1..steps - 1 {
            let part = at as f64 / (steps - 1) as f64;
            let rate = four_figures(match spacing {
                Spacing::Geometric => first * (last / first).powf(part),
                Spacing::Linear => first + (last - first) * part,
            });
            if rates[rates.len() - 1] < rate && rate < self.last {
                rates.push(rate);
            }
        }
        rates.push(self.last);
        rates
    }
}

/// The geometric mean of two rates, to four figures.
pub(crate) fn between(one: f64, other: f64) -> Rate {
    four_figures((one * other).sqrt())
}

/// The exact rate of a step, to repeat it: it has the same name, whatever the rounding.
pub(crate) fn exactly(per_second: f64) -> Rate {
    format!("{per_second}").parse().expect("a rate within the range of rates")
}

/// A rate to four figures, from a millionth per second to the highest of a plan.
pub(crate) fn four_figures(per_second: f64) -> Rate {
    let per_second = per_second.clamp(1e-6, Rate::MAX_PER_SECOND as f64);
    let digits = 3.0 - per_second.log10().floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 6")]
    let decimals = digits.clamp(0.0, 6.0) as usize;
    let unit = 10_f64.powf(-digits);
    let rounded = (per_second / unit).round() * unit;
    format!("{rounded:.decimals$}").parse().expect("a number within the range of rates")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spaced(range: &str, steps: usize, spacing: Spacing) -> Vec<f64> {
        let range: RateRange = range.parse().expect("a range");
        range.spaced(steps, spacing).into_iter().map(Rate::per_second).collect()
    }

    #[test]
    fn a_range_is_divided_by_factors_or_by_differences() {
        assert_eq!(spaced("1k..8k", 4, Spacing::Geometric), [1_000.0, 2_000.0, 4_000.0, 8_000.0]);
        assert_eq!(spaced("1k..4k", 4, Spacing::Linear), [1_000.0, 2_000.0, 3_000.0, 4_000.0]);
        assert_eq!(spaced("1k..50k", 2, Spacing::Geometric), [1_000.0, 50_000.0]);
        assert_eq!(spaced("1k..50k", 12, Spacing::Geometric)[1], 1_427.0);
        assert_eq!(spaced("1..1.0001", 9, Spacing::Linear), [1.0, 1.0001]);
    }

    #[test]
    fn an_invalid_range_is_refused_with_its_cure() {
        for (text, problem) in [
            ("1k", "invalid range `1k`: give two rates, e.g. 1k..50k"),
            ("1k-50k", "invalid range `1k-50k`: give two rates"),
            ("0..5", "invalid range `0..5`: invalid rate `0`: must be above 0"),
            ("1k..", "invalid range `1k..`: invalid rate ``: give"),
            ("5k..1k", "invalid range `5k..1k`: the first rate must be below the last"),
            ("1k..1k", "invalid range `1k..1k`: the first rate must be below the last"),
        ] {
            let error = text.parse::<RateRange>().expect_err(text).to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }

    #[test]
    fn rates_have_four_figures() {
        for (per_second, rounded) in [
            (1_234.56, 1_235.0),
            (98_765_432.0, 98_770_000.0),
            (0.123_456, 0.1235),
            (9.999_96, 10.0),
            (1e12, 100_000_000.0),
            (0.0, 0.000_001),
        ] {
            assert_eq!(four_figures(per_second).per_second(), rounded);
        }
        assert_eq!(between(100.0, 400.0).per_second(), 200.0);
    }
}
