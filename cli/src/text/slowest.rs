//! The slowest requests of a run, a line each.

use engine::record::slowest::SlowError;
use engine::report::Part;
use engine::report::slowest::SlowRequest;

use super::figures::count;
use super::layout::Column::{Left, Right};
use super::layout::Text;
use super::parts::Names;
use super::scale::Scale;

/// The most lines.
const ROWS_MAX: usize = 20;
/// The width of the first column if requests have no names.
const UNNAMED: usize = 12;

/// A line for each of a part's slowest requests, with the name of its scenario if there are
/// several; empty without one.
pub(super) fn slowest(of: &Part) -> String {
    let alone = of.slowest.iter().map(|slow| ("", slow));
    let parts = of.parts.iter();
    let named = parts.flat_map(|part| part.slowest.iter().map(|slow| (&*part.name, slow)));
    let mut all: Vec<(&str, &SlowRequest)> = alone.chain(named).collect();
    all.sort_by(|(_, one), (_, other)| {
        let later = one.due_s.total_cmp(&other.due_s);
        other.corrected_us.total_cmp(&one.corrected_us).then(later)
    });
    let others = all.len().saturating_sub(ROWS_MAX);
    all.truncate(ROWS_MAX);
    if all.is_empty() {
        return String::new();
    }
    let times =
        all.iter().flat_map(|(_, slow)| slow.naive_us.into_iter().chain([slow.corrected_us]));
    let scale = Scale::of(times);
    let mut text = Text::new();
    let names = Names::of_scenarios(all.iter().map(|(name, _)| *name), true);
    let first = if of.parts.is_empty() { Left(UNNAMED) } else { names.column() };
    let columns = [first, Right(13), Right(9), Right(9), Right(11), Right(11)];
    let title = format!("slowest, {}", scale.unit);
    text.row(&columns, &[&*title, "number", "due, s", "naive", "corrected", "status"]);
    for (name, slow) in all {
        let status = match (slow.status, slow.error) {
            (Some(status), _) => status.to_string(),
            (None, Some(SlowError::TimedOut)) => "timed out".to_owned(),
            (None, Some(SlowError::Abandoned)) => "abandoned".to_owned(),
            (None, Some(SlowError::Unsent)) => "unsent".to_owned(),
            (None, None) => "unknown".to_owned(),
        };
        let cells = [
            names.cell(name, &mut text),
            count(slow.number),
            format!("{:.3}", slow.due_s),
            slow.naive_us.map_or("n/a".to_owned(), |us| scale.number(us)),
            scale.number(slow.corrected_us),
            status,
        ];
        text.row(&columns, &cells);
        if let Some(trace_id) = &slow.trace_id {
            text.line(format!("  trace {trace_id}"));
        }
    }
    if 0 < others {
        text.line(format!("and {others} others: see `slowest` in the report"));
    }
    text.done()
}

#[cfg(test)]
mod tests {
    use super::super::reports::part;
    use super::*;

    fn slow(number: u64, corrected_us: f64) -> SlowRequest {
        SlowRequest {
            number,
            due_s: number as f64 / 1e3,
            naive_us: Some(corrected_us / 2.0),
            corrected_us,
            status: Some(200),
            error: None,
            trace_id: None,
        }
    }

    #[test]
    fn the_slowest_comes_first_with_its_number_and_trace() {
        let mut whole = part(1_020, 1_020, 0, 0);
        assert_eq!(slowest(&whole), "");
        let unsent = SlowRequest {
            naive_us: None,
            status: None,
            error: Some(SlowError::Unsent),
            ..slow(1_234_567, 10_000_000.0)
        };
        let traced = SlowRequest {
            trace_id: Some("0af7651916cd43dd8448eb211c80319c".into()),
            ..slow(7, 52_300.0)
        };
        whole.slowest = vec![unsent, traced];
        insta::assert_snapshot!(slowest(&whole), @r"
        slowest, ms        number   due, s    naive  corrected     status
                        1,234,567 1234.567      n/a     10,000     unsent
                                7    0.007     26.1       52.3        200
          trace 0af7651916cd43dd8448eb211c80319c
        ");
        whole.slowest = (0..23).map(|number| slow(number, 1e3)).collect();
        let text = slowest(&whole);
        assert!(text.ends_with("and 3 others: see `slowest` in the report\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
