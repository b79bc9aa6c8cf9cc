//! The findings of `verify`: the differences, one per line, and the sum; on demand all findings,
//! and what was not checked.

use engine::verify::{Finding, MergeProof};

use super::extent::Extent;
use super::figures::{things, time};
use super::layout::Column::{Left, Right};
use super::layout::{Text, sections, widest};

/// Characters shown of a correct value; more would add nothing.
const SHOWN_MAX: usize = 40;

/// What wasn't checked of a document, for lack of data.
pub(crate) struct Unchecked {
    /// In a line; empty if only the details have it.
    pub(crate) brief: &'static str,
    /// All of it.
    pub(crate) whole: String,
}

/// The differences (all findings with details), then a summary with what the checks show if all of
/// them pass, or else the second of these texts; then what was `unchecked`.
pub(crate) fn findings(
    findings: &[Finding],
    [holds, differs]: &[String; 2],
    unchecked: &Unchecked,
    extent: Extent,
) -> String {
    let shown = match extent {
        Extent::Screen => differing(findings),
        Extent::Details => table(&findings.iter().collect::<Vec<_>>()),
    };
    let mut sum = Text::new();
    let checks = things(findings.len() as u64, "check");
    sum.wrapped(match findings.iter().filter(|finding| !finding.ok).count() {
        0 => format!("{checks}, no difference: {holds}"),
        1 => format!("{checks}, 1 DIFFERS: {differs}"),
        number => format!("{checks}, {number} DIFFER: {differs}"),
    });
    match extent {
        Extent::Screen if unchecked.brief.is_empty() => {}
        Extent::Screen => sum.line(format!("not checked: {} (--details: all)", unchecked.brief)),
        Extent::Details => {
            sum.wrapped(format!("not checked, for lack of data: {}", unchecked.whole));
        }
    }
    sections([shown, sum.done()])
}

/// Only the differences.
pub(crate) fn differing(findings: &[Finding]) -> String {
    table(&findings.iter().filter(|finding| !finding.ok).collect::<Vec<_>>())
}

fn table(findings: &[&Finding]) -> String {
    let width = widest(findings.iter().map(|finding| &*finding.what));
    let mut text = Text::new();
    for Finding { what, expected, found, ok } in findings {
        let (word, found) = match ok {
            true => ("ok", cut(found)),
            false => ("DIFFERS", format!("{found}, expected {expected}")),
        };
        text.row(&[Left(9), Left(width + 2)], &[word, what, &found]);
    }
    text.done()
}

/// The proof that merging is right: percentiles of all requests pooled, of the merged histogram,
/// and the mean of the agents' percentiles, which isn't a percentile of anything.
pub(crate) fn merge_proof(proof: &MergeProof) -> String {
    let (requests, agents) =
        (things(proof.requests, "request"), things(proof.agents as u64, "agent"));
    let columns = [Left(6), Right(13), Right(13), Right(10), Right(17), Right(10)];
    let mut text = Text::new();
    text.line(format!("{requests} of {agents} pooled, corrected latency"));
    text.blank();
    text.row(&columns, &["", "pooled, exact", "merged", "off by", "mean of agents'", "off by"]);
    for row in &proof.rows {
        let figure = |us: Option<f64>| us.map_or("n/a".to_owned(), time);
        let off = |us: Option<f64>| {
            us.map_or(String::new(), |us| format!("{:+.2} %", row.off(us) * 100.0))
        };
        let (pooled, merged, mean) = (time(row.pooled), figure(row.merged), figure(row.mean));
        let (merged_off, mean_off) = (off(row.merged), off(row.mean));
        text.row(&columns, &[row.label, &pooled, &merged, &merged_off, &mean, &mean_off]);
    }
    text.blank();
    text.line("A mean of percentiles isn't a percentile; it is shown to reveal its error.");
    text.done()
}

fn cut(value: &str) -> String {
    if value.chars().count() <= SHOWN_MAX {
        return value.to_owned();
    }
    let start: String = value.chars().take(SHOWN_MAX - 1).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use engine::verify::{MergeRow, UNCHECKED};

    use super::*;

    fn finding(what: &str, expected: &str, found: &str) -> Finding {
        let ok = expected == found;
        let [what, expected, found] = [what, expected, found].map(str::to_owned);
        Finding { what, expected, found, ok }
    }

    #[test]
    fn a_mean_of_percentiles_is_shown_with_the_right_values() {
        let row = |label, pooled, merged, mean| MergeRow { label, pooled, merged, mean };
        let rows = vec![
            row("p50", 1_000.25, Some(1_000.4), Some(1_090.0)),
            row("p99", 48_112.0, Some(48_130.0), Some(17_500.0)),
            row("p99.9", 51_000.0, None, None),
        ];
        let proof = MergeProof { agents: 3, requests: 540_000, rows };
        let text = merge_proof(&proof);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text, @r"
        540,000 requests of 3 agents pooled, corrected latency

              pooled, exact       merged    off by  mean of agents'    off by
        p50         1.00 ms      1.00 ms   +0.01 %          1.09 ms   +8.97 %
        p99         48.1 ms      48.1 ms   +0.04 %          17.5 ms  -63.63 %
        p99.9       51.0 ms          n/a                        n/a

        A mean of percentiles isn't a percentile; it is shown to reveal its error.
        ");
    }

    #[test]
    fn a_difference_shows_both_values() {
        let long = "0123456789".repeat(5);
        let all = [
            finding("schema", "2", "2"),
            finding("corrected.p99", "41000.5", "1000.25"),
            finding("histogram", &long, &long),
        ];
        let checked = ["what holds", "what doesn't"].map(str::to_owned);
        let unchecked = Unchecked { brief: "label and start", whole: UNCHECKED.to_owned() };
        let shown = |all: &[Finding]| findings(all, &checked, &unchecked, Extent::Screen);
        insta::assert_snapshot!(shown(&all), @r"
        DIFFERS  corrected.p99  1000.25, expected 41000.5

        3 checks, 1 DIFFERS: what doesn't
        not checked: label and start (--details: all)
        ");
        insta::assert_snapshot!(findings(&all, &checked, &unchecked, Extent::Details), @r"
        ok       schema         2
        DIFFERS  corrected.p99  1000.25, expected 41000.5
        ok       histogram      012345678901234567890123456789012345678…

        3 checks, 1 DIFFERS: what doesn't
        not checked, for lack of data: label, tags, when the run began, and the samples'
        file; the environment and the address; the figures of the generator and the
        machine; connections, users, connect times, bodies that weren't sent whole, and
        the errors of idle connections; which arrivals waited, and for which requests;
        the load before the window; how many requests were in flight; agents' names,
        clocks and findings; and when one was lost, and what it had reported
        ");
        let unchecked = "not checked: label and start (--details: all)\n";
        let sum = format!("1 check, no difference: what holds\n{unchecked}");
        assert_eq!(shown(&all[..1]), sum);
        let sum = format!("\n2 checks, 2 DIFFER: what doesn't\n{unchecked}");
        assert!(shown(&[all[1].clone(), all[1].clone()]).ends_with(&sum));
    }
}
