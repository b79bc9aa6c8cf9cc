//! The text of a report's page: the same figures as in the summary, as rows of tables.

use engine::report::verdict::Verdict;
use engine::report::{DistributionPart, Report, ScenarioPart, StageSpan, StepPart};
use engine::stats::percentiles::PERCENTILES;
use serde::Serialize;

use super::extent::Extent;
use super::figures::{bytes, count, megabytes, percentile, rate, time};
use super::parts::times;
use super::table::{Columns, names, noted};
use super::verdict::{Line, in_order};
use super::{explain, slo, summary as whole, verdict};

/// A name and its value.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Pair {
    /// The name.
    pub(crate) name: String,
    /// The value.
    pub(crate) value: String,
}

/// A reason of the verdict.
#[derive(Debug, Serialize)]
pub(crate) struct Reason {
    /// Its code.
    name: String,
    /// Its evidence, as a sentence.
    evidence: String,
    /// Its effect on the numbers, as a sentence.
    meaning: String,
    /// Its cure, as a sentence.
    cure: String,
}

/// A table of figures.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    /// The headings of the columns.
    head: Vec<String>,
    /// The rows, each beginning with its name.
    rows: Vec<Vec<String>>,
    /// Notes on the figures.
    notes: Vec<String>,
}

impl Table {
    /// True unless it is empty.
    pub(crate) fn has_rows(&self) -> bool {
        !self.rows.is_empty()
    }
}

fn pair(name: &str, value: String) -> Pair {
    Pair { name: name.to_owned(), value }
}

fn words(of: &[&str]) -> Vec<String> {
    of.iter().map(|word| (*word).to_owned()).collect()
}

/// The verdict in one line, and the objectives that aren't met.
pub(crate) fn headline(report: &Report) -> String {
    slo::headline(&verdict::headline(&report.verdict), report.slo.as_ref())
}

/// The reasons why a run isn't valid, and their cures, a sentence each.
pub(crate) fn sentences(verdict: &Verdict) -> Vec<String> {
    verdict::sentences(verdict)
}

/// The reasons of a verdict.
pub(crate) fn reasons(verdict: &Verdict) -> Vec<Reason> {
    let sentence = |text: &str| {
        let mut letters = text.chars();
        let first = letters.next().map(char::to_uppercase);
        format!("{}{}.", first.into_iter().flatten().collect::<String>(), letters.as_str())
    };
    let mut reasons = Vec::new();
    for Line { reason, relation, text } in in_order(verdict) {
        reasons.push(Reason {
            evidence: sentence(&format!(
                "{relation}{}",
                text.strip_prefix(&format!("{}: ", reason.code)).unwrap_or(&text)
            )),
            name: reason.code.to_string(),
            meaning: sentence(&reason.meaning),
            cure: sentence(&reason.cure),
        });
    }
    reasons
}

/// The run, and the counts of its requests.
pub(crate) fn subject(report: &Report) -> Vec<String> {
    whole::subject(report).into()
}

/// Requests per second.
pub(crate) fn rates(report: &Report) -> Vec<Pair> {
    let of = &report.whole.rate;
    let planned = of.target.map(|target| ("planned", target));
    let others = [("intended", of.intended), ("sent", of.sent), ("answered", of.answered)];
    let each = planned.into_iter().chain(others);
    let each = each.map(|(name, per_second)| pair(name, format!("{}/s", rate(per_second))));
    let bytes = [
        ("received", report.traffic.received_bytes_per_s),
        ("sent", report.traffic.sent_bytes_per_s),
    ];
    each.chain(
        bytes
            .map(|(name, per_s)| pair(&format!("bytes {name}"), format!("{}/s", megabytes(per_s)))),
    )
    .collect()
}

/// Naive and corrected in one unit, with the intervals of corrected.
pub(crate) fn latency(report: &Report) -> Table {
    let (naive, corrected) = (&report.whole.naive, &report.whole.corrected);
    let Columns { scale, figures, notes } = Columns::new(&[naive, corrected], corrected);
    let row = |(at, name): (usize, &str)| {
        let shown = figures.iter().map(|column| unbroken(&column[at]));
        let note = notes.get(at).cloned().unwrap_or_default();
        [name.to_owned()].into_iter().chain(shown).chain([note]).collect()
    };
    Table {
        head: words(&[scale.unit, "naive", "corrected", "95 % interval"]),
        rows: names().enumerate().map(row).collect(),
        notes: noted(naive, corrected),
    }
}

/// Requests and corrected latency of each part, in one unit; without rows if there is only one.
pub(crate) fn parts(report: &Report) -> Table {
    let parts = &report.whole.parts;
    let has_stages = parts.iter().any(|part| part.stage.is_some());
    let (labels, quantiles) = shown();
    let (unit, times) = times(parts.iter().map(|part| &part.corrected), &quantiles);
    let stage = |at: &str| has_stages.then(|| at.to_owned());
    let mut head = vec![unit.to_owned()];
    head.extend(stage("stage"));
    head.extend(words(&["requests", "bad"]));
    head.extend(labels);
    head.extend(words(&["max", "received", "sent"]));
    let row = |(part, times): (&StepPart, Vec<String>)| {
        let number = part.stage.as_ref().map_or(String::new(), StageSpan::label);
        let counts = [count(part.counts.intended), count(part.bad)];
        let times = times.iter().map(|cell| unbroken(cell));
        let cells = [part.name.clone()].into_iter().chain(stage(&number)).chain(counts);
        cells.chain(times).chain([part.received_bytes, part.sent_bytes].map(bytes)).collect()
    };
    Table { head, rows: parts.iter().zip(times).map(row).collect(), notes: Vec::new() }
}

/// Sessions of each scenario and their latency, in one unit; without rows if no scenario has several
/// steps.
pub(crate) fn sessions(report: &Report) -> Table {
    let scenarios = &report.whole.scenarios;
    let (labels, quantiles) = shown();
    let (unit, times) = times(scenarios.iter().map(|one| &one.latency), &quantiles);
    let mut head = words(&[unit, "all", "completed", "failed", "unfinished", "unsent"]);
    head.extend(labels);
    head.push("max".to_owned());
    let row = |(one, times): (&ScenarioPart, Vec<String>)| {
        let ended = [one.completed, one.failed(), one.unfinished(), one.unsent];
        let counts = [one.intended].into_iter().chain(ended).map(count);
        let times = times.iter().map(|cell| unbroken(cell));
        [one.name.clone()].into_iter().chain(counts).chain(times).collect()
    };
    Table { head, rows: scenarios.iter().zip(times).map(row).collect(), notes: Vec::new() }
}

/// The percentiles that a page shows of each part and of sessions: their names, and which they are.
fn shown() -> (Vec<String>, Vec<f64>) {
    let shown = PERCENTILES.iter().filter(|of| ["p50", "p90", "p99", "p99.9"].contains(&of.label));
    shown.map(|of| (of.label.to_owned(), of.q)).unzip()
}

/// A cell whose spaces, which a page would drop, are as wide as a figure or a point.
fn unbroken(cell: &str) -> String {
    match cell.contains('.') {
        true => cell.replace(' ', "\u{2007}"),
        false => cell.replacen(' ', "\u{2008}", 1).replace(' ', "\u{2007}"),
    }
}

/// Why naive and corrected latency differ or agree.
pub(crate) fn explanation(report: &Report) -> String {
    explain::difference(report)
}

/// The outcomes of requests, except errors.
pub(crate) fn outcomes(report: &Report) -> Vec<Pair> {
    let counts = &report.whole.counts;
    let mut rows = vec![
        pair("requests intended", count(counts.intended)),
        pair("sent", count(counts.sent)),
        pair("unsent", count(counts.unsent)),
        pair("with a response", count(counts.answered)),
    ];
    let statuses = counts.status.by_name();
    rows.extend(statuses.iter().map(|(status, of)| pair(&format!("status {status}"), count(*of))));
    rows
}

/// Errors by cause, the most frequent first.
pub(crate) fn errors(report: &Report) -> Vec<Pair> {
    let counts = &report.whole.counts;
    let of_status = [
        ("unexpected status".to_owned(), counts.unexpected_status),
        ("failed check".to_owned(), counts.failed_checks),
        ("abandoned at the end".to_owned(), counts.abandoned),
    ];
    let unsent = counts.unsent_reasons.by_name().into_iter();
    let unsent = unsent.map(|(reason, count)| (format!("unsent: {reason}"), count));
    let mut causes: Vec<(String, u64)> =
        counts.errors.by_name().into_iter().chain(of_status).chain(unsent).collect();
    causes.retain(|(_, count)| 0 < *count);
    causes.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    causes.into_iter().map(|(cause, of)| pair(&cause, count(of))).collect()
}

/// The generator's lateness, and how long requests waited for a connection.
pub(crate) fn latenesses(report: &Report) -> Table {
    let part = &report.whole;
    let parts = [
        ("pacer lateness", &part.pacer_lateness),
        ("connection wait", &part.connection_wait),
        ("receive lateness", &part.receive_lateness),
        ("send path", &part.send_path),
        ("connect time", &part.connect_time),
    ];
    let tls = part.tls.as_ref().map(|tls| ("TLS handshake", &tls.handshake_time));
    let shown = |of: &DistributionPart, us: Option<f64>| percentile(of, us);
    let row = |(name, of): (&str, &DistributionPart)| {
        let at = |q| shown(of, of.quantile_us(q));
        let mean = of.mean.map_or("n/a".to_owned(), time);
        vec![name.to_owned(), at(0.5), at(0.99), at(0.999), shown(of, of.max), mean]
    };
    let known = parts.into_iter().chain(tls).filter(|(_, of)| 0 < of.count);
    Table {
        head: words(&["", "p50", "p99", "p99.9", "max", "mean"]),
        rows: known.map(row).collect(),
        notes: Vec::new(),
    }
}

/// The whole summary.
pub(crate) fn summary(report: &Report) -> String {
    whole::summary(report, &[], Extent::Details)
}

#[cfg(test)]
mod tests {
    use engine::record::outcome::{Cause, UnsentReason};

    use super::super::reports::{part, report, sessions as made_up, two_by_two};
    use super::*;

    #[test]
    fn errors_come_by_cause_the_most_frequent_first() {
        let mut part = part(250, 260, 1, 2);
        let counts = &mut part.counts;
        counts.errors = [(Cause::Reset, 3), (Cause::TimedOut, 7)].into();
        counts.unsent_reasons = [(UnsentReason::Dropped, 5)].into();
        counts.unexpected_status = 10;
        let found = errors(&report(true, part));
        let found: Vec<(&str, &str)> =
            found.iter().map(|pair| (pair.name.as_str(), pair.value.as_str())).collect();
        assert_eq!(
            found,
            [
                ("unexpected status", "10"),
                ("timed_out", "7"),
                ("unsent: dropped", "5"),
                ("reset", "3")
            ]
        );
    }

    /// A table's lines, without the spaces that align them.
    fn lines(table: &Table) -> String {
        let lines = [&table.head].into_iter().chain(&table.rows).map(|row| row.join(" | "));
        lines.collect::<Vec<String>>().join("\n").replace(['\u{2007}', '\u{2008}'], "")
    }

    #[test]
    fn each_part_is_a_row() {
        assert!(parts(&report(true, part(1_020, 1_020, 3, 2))).rows.is_empty());
        insta::assert_snapshot!(lines(&parts(&two_by_two())), @r#"
        ms | stage | requests | bad | p50 | p90 | p99 | p99.9 | max | received | sent
        home | 1 | 1,500 | 5 | 1.00 | 1.00 | 1.00 | n/a | 1.00 | 300 kB | 150 kB
        home | 2 | 6,000 | 5 | 2.00 | 2.00 | 2.00 | 2.00 | 2.00 | 1.20 MB | 600 kB
        POST /a, "b" | 1 | 500 | 5 | 4.00 | 4.00 | n/a | n/a | 4.00 | 100 kB | 50.0 kB
        POST /a, "b" | 2 | 2,000 | 5 | 8.00 | 8.00 | 8.00 | n/a | 8.00 | 400 kB | 200 kB
        "#);
    }

    #[test]
    fn the_sessions_of_each_scenario_are_a_row() {
        let mut report = two_by_two();
        assert!(sessions(&report).rows.is_empty());
        report.whole.scenarios = made_up();
        insta::assert_snapshot!(lines(&sessions(&report)), @r#"
        ms | all | completed | failed | unfinished | unsent | p50 | p90 | p99 | p99.9 | max
        shop, "new" | 1,500 | 1,490 | 7 | 1 | 2 | 9.00 | 9.00 | 9.00 | n/a | 9.00
        home | 500 | 500 | 0 | 0 | 0 | 1.00 | 1.00 | n/a | n/a | 1.00
        "#);
    }

    #[test]
    fn a_page_has_the_figures_of_the_table() {
        let report = report(true, part(1_020, 182_000, 3, 181_000));
        let table = latency(&report);
        let p99 = table.rows.iter().find(|row| row[0] == "p99").expect("a row");
        assert_eq!(p99[1..], ["1.02", "182", "[182, 182]"]);
        assert_eq!(unbroken("182   "), "182\u{2008}\u{2007}\u{2007}");
        assert_eq!(table.head[0], "ms");
        assert_eq!(latenesses(&report).rows[0][..3], ["pacer lateness", "3.00 µs", "3.00 µs"]);
        assert_eq!(rates(&report)[0], pair("planned", "5,000/s".to_owned()));
    }
}
