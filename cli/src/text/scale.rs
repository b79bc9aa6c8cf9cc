//! The times of one table in one unit, for comparison at a glance: the unit, the numbers to three
//! digits, and columns with aligned decimal points.

use engine::report::DistributionPart;

use super::figures::{HISTOGRAM_MAX_US, count};

/// The units, the largest first, with their µs.
const UNITS: [(&str, f64); 3] = [("s", 1e6), ("ms", 1e3), ("µs", 1.0)];
/// The smallest number for a time of a table in a unit, unless there is no smaller unit.
const SMALLEST: f64 = 0.05;
/// Stands for an unknown time.
const UNKNOWN: &str = "n/a";

/// The unit of a table's times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    /// Its name.
    pub(super) unit: &'static str,
    us: f64,
}

/// For tables whose rows are printed one by one, before all times are known.
pub(super) const MILLISECONDS: Scale = Scale { unit: "ms", us: 1e3 };
/// The most characters of a time in such a row, from the decimal point on.
const BEHIND_MAX: usize = 5;

impl Scale {
    /// The largest unit, in µs, that one of these times reaches and in which none is below
    /// [`SMALLEST`]; the smallest unit if there is none.
    pub(super) fn of(times: impl IntoIterator<Item = f64>) -> Scale {
        let times: Vec<f64> = times.into_iter().filter(|us| 0.0 < *us).collect();
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        let most = times.iter().copied().fold(0.0, f64::max);
        let fits = |(_, us): &&(&str, f64)| *us <= most && SMALLEST * us <= least;
        let (unit, us) = UNITS.iter().find(fits).unwrap_or(&UNITS[UNITS.len() - 1]);
        Scale { unit, us: *us }
    }

    /// A time without its unit, to at least three digits: `0.0523`, `12.3`, `1,234`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 3")]
    pub(super) fn number(&self, us: f64) -> String {
        let number = us / self.us;
        // Just below a power of ten, three digits round up into it.
        let magnitude = if number == 0.0 { 2.0 } else { (number * 1.000_5).log10().floor() };
        let digits = (2.0 - magnitude).clamp(0.0, self.us.log10() + 3.0) as usize;
        match digits {
            0 => count(number.round() as u64),
            digits => format!("{number:.digits$}"),
        }
    }

    /// One of a distribution's times: `n/a` if unknown, `≥ 60,000` if above the histogram's range.
    pub(super) fn percentile(&self, of: &DistributionPart, us: Option<f64>) -> String {
        match us {
            None => UNKNOWN.to_owned(),
            Some(us) if us == HISTOGRAM_MAX_US && 0 < of.overflow => {
                format!("≥ {}", self.number(us))
            }
            Some(us) => self.number(us),
        }
    }
}

/// A time in a row that is printed alone, padded so that the decimal points of all rows align.
pub(super) fn alone(us: Option<f64>) -> String {
    let cell = us.map_or(UNKNOWN.to_owned(), |us| MILLISECONDS.number(us));
    let behind = cell.split_once('.').map_or(0, |(_, digits)| 1 + digits.len());
    cell + &" ".repeat(BEHIND_MAX.saturating_sub(behind))
}

/// The cells of a column, padded so that their decimal points align where the cells end in one
/// column.
pub(super) fn at_the_point(cells: &mut [String]) {
    let behind = |cell: &str| cell.split_once('.').map_or(0, |(_, digits)| 1 + digits.len());
    let most = cells.iter().map(|cell| behind(cell)).max().unwrap_or(0);
    for cell in cells {
        cell.push_str(&" ".repeat(most - behind(cell)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_largest_unit_that_shows_its_smallest_time() {
        for (times, unit) in [
            (&[250.0, 1_200_000.0][..], "ms"),
            (&[52.0, 182_000.0], "ms"),
            (&[20.0, 182_000.0], "µs"),
            (&[0.0, 700.0], "µs"),
            (&[20_000.0, 2_000_000.0], "ms"),
            (&[1_000_000.0, 60_000_000.0], "s"),
            (&[0.0, 0.0], "µs"),
            (&[], "µs"),
        ] {
            assert_eq!(Scale::of(times.iter().copied()).unit, unit, "{times:?}");
        }
    }

    #[test]
    fn numbers_have_three_figures_and_no_less_than_a_nanosecond() {
        let scale = Scale { unit: "ms", us: 1e3 };
        for (us, text) in [
            (0.0, "0"),
            (52.3, "0.0523"),
            (250.0, "0.250"),
            (999.8, "1.00"),
            (1_023.0, "1.02"),
            (9_996.0, "10.0"),
            (182_400.0, "182"),
            (1_234_567.0, "1,235"),
        ] {
            assert_eq!(scale.number(us), text);
        }
        let scale = Scale { unit: "µs", us: 1.0 };
        assert_eq!([scale.number(0.012), scale.number(7.0)], ["0.012", "7.00"]);
    }

    #[test]
    fn decimal_points_are_aligned() {
        let cells = [Some(52.3), Some(182_400.0), None].map(alone);
        assert_eq!(cells, ["0.0523", "182     ", "n/a     "]);
        let mut cells = ["0.0523", "12.3", "1,234", "n/a"].map(str::to_owned);
        at_the_point(&mut cells);
        assert_eq!(cells, ["0.0523", "12.3   ", "1,234     ", "n/a     "]);
    }
}
