//! Numbers as shown in tables, plots and the evidence of a bound.

pub use engine::report::figures::{count, things, time};

/// A rate per second: whole from 1,000 up, else with one decimal unless it is zero.
#[expect(clippy::cast_possible_truncation, reason = "a rate is far below 2^63")]
#[expect(clippy::cast_sign_loss, reason = "a rate is never negative")]
pub fn rate(per_second: f64) -> String {
    let tenths = (per_second * 10.0).round();
    if 1_000.0 <= per_second || tenths % 10.0 == 0.0 {
        count(per_second.round() as u64)
    } else {
        format!("{per_second:.1}")
    }
}

/// A share as a percentage with one decimal.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A rate with its unit: `47.6/s`.
pub(crate) fn per_second(of: f64) -> String {
    format!("{}/s", rate(of))
}

/// A number with separators, and with decimals below 10.
#[expect(clippy::cast_possible_truncation, reason = "what is counted is far below 2^63")]
#[expect(clippy::cast_sign_loss, reason = "a number of things is never negative")]
pub fn number(number: f64) -> String {
    if number < 10.0 {
        return format!("{}", (number * 1e3).round() / 1e3);
    }
    count(number.round() as u64)
}

/// A time that was chosen, not measured, so without redundant digits: `1 ms`, `1.5 ms`.
pub fn plain_time(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 0.999_5 => (us * 1e3, "ns"),
        us if us < 999.5 => (us, "µs"),
        us if us < 999_500.0 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    format!("{} {unit}", (value * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_times_are_written_as_briefly_as_they_were_chosen() {
        let times = [0.5, 20.0, 1_000.0, 1_500.0, 2e6].map(plain_time);
        assert_eq!(times, ["500 ns", "20 µs", "1 ms", "1.5 ms", "2 s"]);
    }

    #[test]
    fn numbers_are_short_and_have_a_unit() {
        assert_eq!((number(1_500.0), number(0.5)), ("1,500".to_owned(), "0.5".to_owned()));
        let rates = [0.5, 9.56, 12.5, 100.0, 999.97, 1_414.2].map(per_second);
        assert_eq!(rates, ["0.5/s", "9.6/s", "12.5/s", "100/s", "1,000/s", "1,414/s"]);
        assert_eq!(percent(0.123_4), "12.3 %");
    }
}
