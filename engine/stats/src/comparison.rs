//! Compares two samples: the ratio of their quantiles and the difference of their shares, each with
//! an interval that holds even if values depend on each other.
//!
//! A quantile's own interval comes from ranks by pieces ([`super::interval`]), so it follows the
//! dependence within each side, needs no density and is as asymmetric as the distribution. The
//! interval of a ratio combines the two by **MOVER** (method of variance estimates recovery; Zou
//! and Donner, *Statistics in Medicine* 27, 2008) on the logarithms: with a and b the logarithms of
//! the quantiles, in [l_a, u_a] and [l_b, u_b], and d = b − a,
//!
//! L = d − √((b − l_b)² + (u_a − a)²), U = d + √((u_b − b)² + (a − l_a)²).
//!
//! The difference of two shares is the case that Newcombe tried first (*Statistics in Medicine* 17,
//! 1998, method 10). Rejected: a block bootstrap over seconds, whose draws of a p99.9 repeat the
//! few slowest requests, and which would give another answer each time.
//!
//! The two sides are independent, since they are different runs. Differences between runs of one
//! target are in no interval of two runs; only several runs per side show them.

use hdrhistogram::Histogram;

use super::interval::{Missing, ends_at};
use super::pieces::Pieces;
use super::ratio::share_interval_at;
use super::statistics::normal_point;
use crate::distribution::Distribution;

/// The probability of detecting a change that counts as just detectable: four comparisons in five.
pub(super) const POWER: f64 = 0.8;

/// One of the two samples.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// All values.
    pub whole: &'a Distribution,
    /// The same by pieces of the runs.
    pub pieces: &'a Pieces<Histogram<u64>>,
}

/// The ratio of two sides' values, the second over the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The value of each side: a quantile, µs; for pairs the geometric mean, in their unit.
    pub values: [f64; 2],
    /// The ratio.
    pub ratio: f64,
    /// The ends of its interval, if known.
    pub interval: [Option<f64>; 2],
    /// The smallest ratio above 1 that such samples, or as many pairs with this scatter, detect
    /// four times in five, with a margin of zero.
    pub shows: Option<f64>,
    /// How long the windows would have to be, s, if they are too short for an end.
    pub needed_s: Option<f64>,
}

/// The ratio of the samples' quantiles `q`, with an interval that is wrong with probability
/// `error`; `None` if a side has no value, or 0 ns, there.
pub fn quantile_ratio(before: Sample<'_>, after: Sample<'_>, q: f64, error: f64) -> Option<Ratio> {
    let [a, b] = [before, after].map(|side| logarithms(side, q, error));
    let (a, b) = (a?, b?);
    let step = b.at - a.at;
    let root = |one: Option<f64>, other: Option<f64>| Some(one?.hypot(other?));
    let down = root(b.down(), a.up());
    let up = root(b.up(), a.down());
    let z = normal_point(error / 2.0);
    let shows = down.map(|down| (down * (1.0 + normal_point(1.0 - POWER) / z)).exp());
    Some(Ratio {
        values: [a.value_ns, b.value_ns].map(|ns| ns as f64 / 1e3),
        ratio: step.exp(),
        interval: [down.map(|down| (step - down).exp()), up.map(|up| (step + up).exp())],
        shows,
        needed_s: a.needed_s.into_iter().chain(b.needed_s).reduce(f64::max),
    })
}

/// The logarithm of a quantile, and how far it may be off below and above.
struct Logarithm {
    value_ns: u64,
    at: f64,
    low: Option<f64>,
    high: Option<f64>,
    needed_s: Option<f64>,
}

impl Logarithm {
    fn down(&self) -> Option<f64> {
        self.low.map(|low| (self.at - low).max(0.0))
    }

    fn up(&self) -> Option<f64> {
        self.high.map(|high| (high - self.at).max(0.0))
    }
}

fn logarithms(side: Sample<'_>, q: f64, error: f64) -> Option<Logarithm> {
    let value_ns = side.whole.quantile_ns(q).filter(|value_ns| 0 < *value_ns)?;
    let ends = ends_at(side.whole, side.pieces, q, error / 2.0);
    let log = |ns: u64| (ns.max(1) as f64).ln();
    Some(Logarithm {
        value_ns,
        at: log(value_ns),
        low: ends.low_ns.map(log),
        high: ends.high_ns.map(log),
        needed_s: match ends.missing {
            Some(Missing::Seconds(needed_s)) => Some(needed_s),
            Some(Missing::Samples(_)) | None => None,
        },
    })
}

/// A count and its total, both also by pieces of the run.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The count.
    pub part: u64,
    /// The total.
    pub whole: u64,
    /// Both by pieces of the runs; `None` for independent events.
    pub pieces: Option<&'a Pieces<(u64, u64)>>,
}

/// The difference of two shares, the second minus the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareDifference {
    /// Both shares.
    pub shares: [f64; 2],
    /// The difference.
    pub difference: f64,
    /// Its interval.
    pub interval: [f64; 2],
}

/// The difference of two shares, with an interval that is wrong with probability `error`; `None` if
/// a side's total is 0, or its runs are too short.
pub fn share_difference(before: Part<'_>, after: Part<'_>, error: f64) -> Option<ShareDifference> {
    let known = |side: Part<'_>| {
        let ends = share_interval_at(side.part, side.whole, side.pieces, error / 2.0).ok()?;
        Some((side.part as f64 / side.whole as f64, ends))
    };
    let ((a, [low_a, high_a]), (b, [low_b, high_b])) = (known(before)?, known(after)?);
    let difference = b - a;
    Some(ShareDifference {
        shares: [a, b],
        difference,
        interval: [
            difference - (b - low_b).hypot(high_a - a),
            difference + (high_b - b).hypot(a - low_a),
        ],
    })
}

#[cfg(test)]
mod tests {
    use load::schedule::mix;

    use super::*;
    use crate::distribution::{INTERVAL_DIGITS, empty_histogram};
    use crate::quantiles::PERCENTILES;

    /// A run: its values and its pieces.
    struct Run(Distribution, Pieces<Histogram<u64>>);

    impl Run {
        fn sample(&self) -> Sample<'_> {
            Sample { whole: &self.0, pieces: &self.1 }
        }
    }

    /// A number from 0 to 1 for each seed.
    fn unit(seed: u64) -> f64 {
        mix(seed) as f64 / u64::MAX as f64
    }

    /// A run of `seconds` at 200 requests per second, of 5 to 6 ms. In each second all of them take
    /// longer by up to the share `together`, so that they depend on each other; every hundredth
    /// takes twice as long, times `tail`.
    fn run(seed: u64, seconds: u64, together: f64, tail: f64) -> Run {
        let mut whole = Distribution::new();
        let pieces = (0..seconds).map(|second| {
            let shared = 1.0 + together * unit(mix(seed) ^ (second << 32));
            let mut batch = empty_histogram(INTERVAL_DIGITS);
            for at in 0..200 {
                let own = unit(mix(seed ^ 0x5eed) ^ (second << 20) ^ at);
                let slow = unit(mix(seed ^ 0x7a11) ^ (second << 20) ^ at) < 0.01;
                let ms = (5.0 + own) * shared * if slow { 2.0 * tail } else { 1.0 };
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ms")]
                let ns = (ms * 1e6) as u64;
                whole.record(ns);
                batch.record(ns).expect("in range");
            }
            batch
        });
        let pieces = Pieces::new(pieces.collect(), 1.0);
        Run(whole, pieces)
    }

    /// How many of these comparisons of runs of one target have an interval without 1.
    fn false_calls(pairs: u64, together: f64, q: f64, error: f64) -> u64 {
        let calls = (0..pairs).filter(|pair| {
            let (a, b) = (run(2 * pair, 40, together, 1.0), run(2 * pair + 1, 40, together, 1.0));
            let found = quantile_ratio(a.sample(), b.sample(), q, error).expect("values");
            let [low, high] = found.interval;
            low.is_some_and(|low| 1.0 < low) || high.is_some_and(|high| high < 1.0)
        });
        calls.count() as u64
    }

    #[test]
    fn intervals_leave_one_out_as_rarely_as_stated() {
        // Of 100 comparisons that are each wrong one time in twenty, more than 12 would be beyond
        // chance (one time in 600).
        for (together, q) in [(0.0, 0.5), (0.0, 0.99), (0.3, 0.5), (0.3, 0.99)] {
            let calls = false_calls(100, together, q, 0.05);
            assert!(calls <= 12, "{together} together at {q}: {calls} of 100");
        }
    }

    #[test]
    fn twenty_pairs_of_one_target_and_a_tail_that_takes_a_tenth_longer() {
        // As in a comparison: eight figures, all of them right 99 times in 100.
        let quantiles = PERCENTILES.map(|quantile| quantile.q);
        let error = 0.01 / 8.0;
        let calls = |a: &Run, b: &Run| {
            let ratios = quantiles.map(|q| quantile_ratio(a.sample(), b.sample(), q, error));
            let beyond = |found: &Ratio| {
                let [low, high] = found.interval;
                low.is_some_and(|low| 1.01 < low) || high.is_some_and(|high| high < 1.0 / 1.01)
            };
            ratios.iter().flatten().any(beyond)
        };
        for together in [0.0, 0.1] {
            let pair = |at: u64| (run(1_000 + 2 * at, 300, together, 1.0), 1_001 + 2 * at);
            let called = (0..20).filter(|at| {
                let (a, seed) = pair(*at);
                calls(&a, &run(seed, 300, together, 1.0))
            });
            let called = called.count();
            assert!(called <= 1, "{together} together: {called} of 20");
            // One request in a hundred takes 10 % longer, in runs of 60,000.
            let (a, seed) = pair(20);
            assert!(calls(&a, &run(seed, 300, together, 1.1)), "{together} together");
        }
    }

    #[test]
    fn a_detectable_change_is_found_four_times_in_five() {
        // The detectable ratio of one pair is itself uncertain: the median of pairs is used.
        let mut shows: Vec<f64> = (0..20_u64)
            .filter_map(|pair| {
                let (a, b) = (run(2 * pair, 60, 0.1, 1.0), run(2 * pair + 1, 60, 0.1, 1.0));
                quantile_ratio(a.sample(), b.sample(), 0.995, 0.01)?.shows
            })
            .collect();
        shows.sort_by(f64::total_cmp);
        let shows = shows[shows.len() / 2];
        assert!((1.0..1.2).contains(&shows), "{shows}");
        let found = (0..50_u64)
            .filter(|pair| {
                let a = run(100 + 2 * pair, 60, 0.1, 1.0);
                let b = run(101 + 2 * pair, 60, 0.1, shows);
                let found = quantile_ratio(a.sample(), b.sample(), 0.995, 0.01).expect("values");
                found.interval[0].is_some_and(|low| 1.0 < low)
            })
            .count();
        // 40 on average.
        assert!(30 <= found, "{found} of 50");
    }

    #[test]
    fn the_interval_combines_both_sides() {
        let (a, b) = (run(7, 40, 0.0, 1.0), run(8, 40, 0.0, 1.0));
        let found = quantile_ratio(a.sample(), b.sample(), 0.5, 0.05).expect("values");
        let ends = |run: &Run| {
            let ends = ends_at(&run.0, &run.1, 0.5, 0.025);
            let at = run.0.quantile_ns(0.5).expect("values") as f64;
            [at, ends.low_ns.expect("low") as f64, ends.high_ns.expect("high") as f64]
        };
        let ([a, low_a, high_a], [b, low_b, high_b]) = (ends(&a), ends(&b));
        let down = ((b / low_b).ln().powi(2) + (high_a / a).ln().powi(2)).sqrt();
        let up = ((high_b / b).ln().powi(2) + (a / low_a).ln().powi(2)).sqrt();
        let close = |found: Option<f64>, known: f64| (found.expect("an end") - known).abs() < 1e-12;
        assert!(close(found.interval[0], b / a * (-down).exp()), "{found:?}");
        assert!(close(found.interval[1], b / a * up.exp()), "{found:?}");
    }

    #[test]
    fn a_side_with_too_few_values_has_no_interval() {
        let (few, many) = (run(1, 1, 0.0, 1.0), run(2, 60, 0.0, 1.0));
        let found = quantile_ratio(few.sample(), many.sample(), 0.999, 0.05).expect("values");
        assert_eq!((found.interval[0], found.shows), (None, None));
        let none = Run(Distribution::new(), Pieces::none());
        assert_eq!(quantile_ratio(none.sample(), many.sample(), 0.5, 0.05), None);
    }

    #[test]
    fn the_difference_of_shares_is_close_to_the_textbooks() {
        // 56 of 70 against 48 of 80: 0.2, from 0.0524 to 0.3339 by Wilson's intervals (Newcombe's
        // example). Clopper and Pearson's are a little wider.
        let part = |part, whole| Part { part, whole, pieces: None };
        let found = share_difference(part(48, 80), part(56, 70), 0.05).expect("shares");
        assert!((found.difference - 0.2).abs() < 1e-12);
        let [low, high] = found.interval;
        assert!((0.03..0.0524).contains(&low) && (0.3339..0.36).contains(&high), "{low} {high}");
        assert_eq!(share_difference(part(0, 0), part(1, 2), 0.05), None);
    }
}
