//! What came of a load generator's cases, a row for each figure, and the cells of the page of several
//! generators.

use std::path::{Path, PathBuf};

use judge::suite::{CaseResult, Outcome, Suite};
use judge::{Finding, Load, Noise};

use super::figures::{number, rate, things};
use super::layout::{Column, NO_BREAK, Text, WRITTEN};

/// Case, result, figure, what was found, the truth, and the bounds.
const COLUMNS: [Column; 6] = [
    Column::Left(11),
    Column::Left(12),
    Column::Left(25),
    Column::Right(8),
    Column::Right(8),
    Column::Left(16),
];
/// Columns before a reason.
const REASON: usize = 23;

/// The cell of a case that isn't in a result.
pub(crate) const NOT_RUN: &str = "not run";

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
    let name = result.case.as_str();
    if !result.flags.is_empty() {
        text.line(format!("with {}:", result.flags));
    }
    let why = why(result);
    if let Some(why) = &why {
        let label = format!("{name:<11}{}", word(result.outcome));
        text.field(REASON, &label, why);
    }
    for (at, finding) in result.findings.iter().enumerate() {
        let outcome = if finding.holds() { Outcome::Held } else { result.outcome };
        text.row(
            &COLUMNS,
            &[
                if at == 0 && why.is_none() { name } else { "" },
                word(outcome),
                &finding.figure,
                &short(finding.found),
                &short(finding.truth),
                &format!("  {}", bounds(finding, short)),
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

/// The files of a page.
pub(crate) fn page(written: &[PathBuf]) -> String {
    let mut text = Text::new();
    for path in written {
        text.field_whole(WRITTEN, "written", &path.display().to_string());
    }
    text.done()
}

/// A tool's version as it says it.
pub(crate) fn version(suite: &Suite) -> &str {
    suite.version.as_deref().unwrap_or("no version")
}

/// Where a tool was judged, and by which version.
pub(crate) fn place(suite: &Suite) -> String {
    let machine = &suite.machine;
    let cores = things(machine.cores as u64, "core");
    let processor = machine.processor.as_deref().unwrap_or("an unknown processor");
    let mut place =
        format!("{cores} of {processor}, Linux {}, by truetail {}", machine.kernel, suite.judge);
    if suite.quick {
        place.push_str(" with --quick");
    }
    if suite.interrupted {
        place.push_str(", interrupted");
    }
    place
}

/// The load of a case.
pub(crate) fn load(load: &Load) -> String {
    let Load { rate: from, rate_to, connections, seconds } = *load;
    let connections = things(connections.into(), "connection");
    let to = if from == rate_to { String::new() } else { format!(" to {}", rate(rate_to)) };
    format!("{}{to} per second, {connections}, {seconds} s", rate(from))
}

/// The bounds of a figure, for a cell: `880.5–1,034`.
pub(crate) fn range(finding: &Finding) -> String {
    bounds(finding, brief_number).replace(" to ", "–")
}

/// A case in few words: if it failed, its worst figure.
pub(crate) fn brief(result: &CaseResult) -> String {
    let outside = result.findings.iter().filter(|finding| !finding.holds());
    let worst = outside.max_by(|one, other| excess(one).total_cmp(&excess(other)));
    let worst = worst.map(|of| format!("{}, not {}", found(of), bounds(of, brief_number)));
    match (result.outcome, worst) {
        (Outcome::Failed, Some(worst)) => worst,
        (Outcome::Disturbed, Some(worst)) => format!("{}: {worst}", word(Outcome::Disturbed)),
        (outcome, _) => word(outcome).to_owned(),
    }
}

/// Why a case has no figures, or is disturbed.
pub(crate) fn why(result: &CaseResult) -> Option<String> {
    let noise = || {
        let Noise { late_ms, others } =
            result.noise.filter(|_| result.outcome == Outcome::Disturbed)?;
        let (late, others) = (brief_number(late_ms), short(others));
        Some(format!(
            "this machine was up to {late} ms late, and other programs took {others} cores of it"
        ))
    };
    result.why.clone().or_else(noise)
}

/// How far a figure is outside of its bounds, relative to these or the truth.
fn excess(finding: &Finding) -> f64 {
    let undercut = finding.low.filter(|low| finding.found < *low);
    let bound = undercut.or(finding.high).unwrap_or(finding.found);
    (finding.found - bound).abs() / bound.abs().max(finding.truth.abs())
}

/// A figure for a cell: `p99 951.2 ms`, `sent: 1,200`.
pub(crate) fn found(finding: &Finding) -> String {
    let found = brief_number(finding.found);
    match finding.figure.strip_suffix(", ms") {
        Some(name) => format!("{name} {found} ms"),
        None => format!("{}: {found}", finding.figure),
    }
}

/// What an outcome is called.
pub(crate) fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Held => "held",
        Outcome::Failed => "FAILED",
        Outcome::NotClaimed => "not claimed",
        Outcome::Unread => "not read",
        Outcome::Disturbed => "disturbed",
    }
}

fn bounds(finding: &Finding, shown: fn(f64) -> String) -> String {
    match (finding.low, finding.high) {
        (Some(low), Some(high)) if low == high => shown(low),
        (Some(low), Some(high)) => format!("{} to {}", shown(low), shown(high)),
        (Some(low), None) => format!("≥ {}", shown(low)),
        (None, Some(high)) => format!("≤ {}", shown(high)),
        (None, None) => String::new(),
    }
}

/// The same digits outside of columns: with separators, and without zeros at the end.
fn brief_number(value: f64) -> String {
    if 1_000.0 <= value {
        return number(value);
    }
    let text = short(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
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
            case: "freeze".to_owned(),
            holds: String::new(),
            truth: String::new(),
            tolerance: String::new(),
            reply: String::new(),
            flags: String::new(),
            outcome,
            why: why.map(str::to_owned),
            command: None,
            findings,
            figures: None,
            target: None,
            noise: None,
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
            + &case(&result(Outcome::NotClaimed, Some(why), Vec::new()))
            + &case(&CaseResult {
                flags: "--timeout 5s".to_owned(),
                ..result(Outcome::NotClaimed, Some(why), Vec::new())
            });
        insta::assert_snapshot!(text, @r"
        wrk2, quick

        case       result      figure                      found   truth  bounds
        freeze     held        p95, ms                     951.2     940  880.5 to 1034
                   FAILED      p99, ms                     1.250     940  ≥ 880.5
                   FAILED      answered + failed + open    12345     940  12346
        freeze     not claimed its latency counts from when a request was sent, not from
                               when it was due
        with --timeout 5s:
        freeze     not claimed its latency counts from when a request was sent, not from
                               when it was due
        ");
    }
}
