//! The range of a logarithmic axis, and its ticks.

/// The range of an axis around these numbers; `None` of none.
pub fn around(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let range = |range: Option<(f64, f64)>, number: f64| match range {
        None => Some((number, number)),
        Some((low, high)) => Some((low.min(number), high.max(number))),
    };
    let (low, high) = numbers.fold(None, range)?;
    let margin = (high / low).powf(0.04).max(1.1);
    Some((low / margin, high * margin))
}

/// The most ticks of an axis.
pub const TICKS_MAX: usize = 12;

/// Round numbers within a range: 1, 2 and 5 times powers of ten, or as many of them as there is
/// room for.
pub fn ticks(low: f64, high: f64) -> Vec<f64> {
    let within = |steps: &[f64]| -> Vec<f64> {
        #[expect(clippy::cast_possible_truncation, reason = "a decade of a latency or a rate")]
        let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
        decades
            .flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)))
            .filter(|tick| (low..=high).contains(tick))
            .collect()
    };
    let fine: [&[f64]; 4] =
        [&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    let mut choices = fine.map(within).into_iter();
    choices.find(|ticks| ticks.len() <= TICKS_MAX).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(
            ticks(90.0, 1_100.0),
            [100.0, 150.0, 200.0, 300.0, 400.0, 500.0, 600.0, 800.0, 1_000.0]
        );
        assert_eq!(
            ticks(0.9, 11_000.0),
            [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0]
        );
    }
}
