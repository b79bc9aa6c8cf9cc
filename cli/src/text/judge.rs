//! What came of a load generator's cases, a row for each figure.

use std::path::Path;

use judge::Finding;
use judge::suite::{CaseResult, Outcome, Suite};

use super::layout::{Column, NO_BREAK, Text, WRITTEN};

/// Case, result, figure, what was found, the truth, and the bounds.
const COLUMNS: [Column; 6] = [
    Column::Left(10),
    Column::Left(13),
    Column::Left(25),
    Column::Right(8),
    Column::Right(8),
    Column::Left(16),
];
/// Columns before a reason.
const REASON: usize = 23;

/// The heading of the table.
pub(crate) fn head(tool: &str, quick: bool) -> String {
    let quick = if quick { ", quick" } else { "" };
    let mut text = Text::new();
    text.line(format!("{tool}{quick}"));
    text.blank();
    text.row(&COLUMNS, &["case", "result", "figure", "found", "truth", "  bounds"]);
    text.done()
}

/// A case: a row for each figure, or why there is none.
pub(crate) fn case(result: &CaseResult) -> String {
    let mut text = Text::new();
    let name = result.case;
    if let Some(why) = &result.why {
        let label = format!("{name:<10}{}", word(result.outcome));
        text.field(REASON, &label, why);
    }
    for (at, finding) in result.findings.iter().enumerate() {
        let outcome = if finding.holds() { Outcome::Held } else { result.outcome };
        text.row(
            &COLUMNS,
            &[
                if at == 0 { name } else { "" },
                word(outcome),
                &finding.figure,
                &short(finding.found),
                &short(finding.truth),
                &format!("  {}", bounds(finding)),
            ],
        );
    }
    text.done()
}

/// What the cases came to, and the file with the result.
pub(crate) fn end(suite: &Suite, written: &Path) -> String {
    let mut text = Text::new();
    text.blank();
    let outcomes =
        [Outcome::Held, Outcome::Failed, Outcome::NotClaimed, Outcome::Unread, Outcome::Disturbed];
    let counts = outcomes.map(|outcome| {
        let count = suite.cases.iter().filter(|result| result.outcome == outcome).count();
        (0 < count).then(|| format!("{count}{NO_BREAK}{}", word(outcome)))
    });
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let version = suite.version.as_deref().unwrap_or(&suite.tool);
    text.wrapped(format!("{version}: {}", counts.join(", ")));
    text.field_whole(WRITTEN, "written", &written.display().to_string());
    text.done()
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Held => "held",
        Outcome::Failed => "FAILED",
        Outcome::NotClaimed => "not claimed",
        Outcome::Unread => "not read",
        Outcome::Disturbed => "disturbed",
    }
}

fn bounds(finding: &Finding) -> String {
    match (finding.low, finding.high) {
        (Some(low), Some(high)) if low == high => short(low),
        (Some(low), Some(high)) => format!("{} to {}", short(low), short(high)),
        (Some(low), None) => format!("≥ {}", short(low)),
        (None, Some(high)) => format!("≤ {}", short(high)),
        (None, None) => String::new(),
    }
}

/// Four digits or more: whole numbers as they are, the rest cut to what fits a column.
fn short(value: f64) -> String {
    let decimals = match value.abs() {
        value if 1_000.0 <= value || value == value.trunc() => 0,
        value if 100.0 <= value => 1,
        value if 10.0 <= value => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(outcome: Outcome, why: Option<&str>, findings: Vec<Finding>) -> CaseResult {
        CaseResult {
            case: "freeze",
            holds: "",
            truth: "",
            tolerance: "",
            outcome,
            why: why.map(str::to_owned),
            command: None,
            findings,
            figures: None,
            target: None,
            late_ms: None,
        }
    }

    #[test]
    fn each_figure_has_a_row_and_a_reason_is_wrapped() {
        let finding = |figure: &str, found, low, high| Finding {
            figure: figure.to_owned(),
            found,
            truth: 940.0,
            low,
            high,
            excused_ms: None,
        };
        let why = "its latency counts from when a request was sent, not from when it was due";
        let findings = vec![
            finding("p95, ms", 951.25, Some(880.5), Some(1_034.2)),
            finding("p99, ms", 1.25, Some(880.5), None),
            finding("answered + failed + open", 12_345.0, Some(12_346.0), Some(12_346.0)),
        ];
        let text = head("wrk2", true)
            + &case(&result(Outcome::Failed, None, findings))
            + &case(&result(Outcome::NotClaimed, Some(why), Vec::new()));
        insta::assert_snapshot!(text, @r"
        wrk2, quick

        case      result       figure                      found   truth  bounds
        freeze    held         p95, ms                     951.2     940  880.5 to 1034
                  FAILED       p99, ms                     1.250     940  ≥ 880.5
                  FAILED       answered + failed + open    12345     940  12346
        freeze    not claimed  its latency counts from when a request was sent, not from
                               when it was due
        ");
    }
}
