//! Numbers as a plot and the evidence of a bound show them.

/// A number with separators, and with decimals below 10.
pub(crate) fn number(number: f64) -> String {
    if number < 10.0 {
        return format!("{}", (number * 1e3).round() / 1e3);
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if 0 < at && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate per second: as a number, with a decimal where it has one below 1,000.
pub(crate) fn rate(per_second: f64) -> String {
    let tenths = (per_second * 10.0).round() / 10.0;
    if (10.0..1_000.0).contains(&per_second) {
        format!("{tenths}/s")
    } else {
        format!("{}/s", number(per_second))
    }
}

/// A time in its unit.
pub(crate) fn time(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 0.999_5 => (us * 1e3, "ns"),
        us if us < 999.5 => (us, "µs"),
        us if us < 999_500.0 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    format!("{} {unit}", (value * 100.0).round() / 100.0)
}

/// A share as a percentage with one decimal.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_a_unit() {
        assert_eq!((number(1_500.0), number(0.5)), ("1,500".to_owned(), "0.5".to_owned()));
        let rates = [0.5, 12.5, 100.0, 1_414.2].map(rate);
        assert_eq!(rates, ["0.5/s", "12.5/s", "100/s", "1,414/s"]);
        assert_eq!(percent(0.123_4), "12.3 %");
        let times = [0.5, 20.0, 1_000.0, 1_500.0, 2e6].map(time);
        assert_eq!(times, ["500 ns", "20 µs", "1 ms", "1.5 ms", "2 s"]);
    }
}
