//! How counts and times are written, in verdicts and wherever a report is shown.

/// A whole number with thousands separators: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if 0 < at && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and its noun: `1 request`, `2,000 requests`.
pub fn things(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(number))
}

/// A time to three figures in a fitting unit: `250 ns`, `1.02 ms`, `12.3 s`.
pub fn time(us: f64) -> String {
    // Three figures round up into the next unit at these edges.
    let (number, unit) = match us {
        us if us < 0.000_5 => return "0 ns".to_owned(),
        us if us < 0.999_5 => (us * 1e3, "ns"),
        us if us < 999.5 => (us, "µs"),
        us if us < 999_500.0 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let digits = match number {
        _ if unit == "ns" => 0,
        number if number < 9.995 => 2,
        number if number < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular() {
        assert_eq!(
            [0, 1, 1_000].map(|n| things(n, "sample")),
            ["0 samples", "1 sample", "1,000 samples"]
        );
    }

    #[test]
    fn counts_are_readable() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn times_have_three_figures_and_a_fitting_unit() {
        for (us, text) in [
            (0.0, "0 ns"),
            (0.25, "250 ns"),
            (0.999_6, "1.00 µs"),
            (9.996, "10.0 µs"),
            (99.96, "100 µs"),
            (999.6, "1.00 ms"),
            (1_023.0, "1.02 ms"),
            (181_000.0, "181 ms"),
            (999_600.0, "1.00 s"),
            (75_000_000.0, "75.0 s"),
        ] {
            assert_eq!(time(us), text);
        }
    }
}
