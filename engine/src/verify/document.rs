//! A report against itself: percentiles against histograms, sums against their parts, the schedule against the plan.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::distribution::{Pieces, distribution};
use super::parts::{same, same_number, sum_of_agents};
use super::{Finding, is_close, seconds_to_ns};
use crate::plan::{Model, Plan};
use crate::proof::interval::dependent;
use crate::report::{
    Counts, DistributionPart, IntervalPart, Part, Report, SCHEMA, decode_histogram,
};
use crate::schedule::{Digest, Schedule};
use crate::units::SECOND_NS;
use crate::verdict::{self, Verdict};

/// Checks all that a report says about itself. The whole run's checks are listed one by one; those of the parts as one
/// finding each, beside what is wrong in them.
pub fn report_alone(report: &Report) -> Vec<Finding> {
    let mut findings = vec![Finding::equal("schema", SCHEMA, report.schema)];
    let batches = batches(report);
    findings.push(Finding::new(
        "series: histograms",
        "readable",
        if batches.is_some() { "readable" } else { "not readable" },
        batches.is_some(),
    ));
    findings.extend(part(report, &report.whole, batches.as_deref()));
    findings.extend(summed_up("merged", part(report, &report.merged, batches.as_deref())));
    for agent in &report.per_agent {
        // The series is that of all agents, so it says nothing about one agent's intervals.
        let checks = part(report, &agent.part, None);
        findings.extend(summed_up(&format!("agent {}", agent.name), checks));
    }
    findings.extend(summed_up("merged is the whole", same(&report.whole, &report.merged)));
    findings.extend(summed_up("merged is the sum of the agents", sum_of_agents(report)));
    findings.extend(schedule(report));
    findings.extend(arrivals(report));
    findings.extend(series(report));
    findings.push(verdict(report));
    findings
}

/// Many checks as one, and those that failed.
fn summed_up(what: &str, findings: Vec<Finding>) -> Vec<Finding> {
    let count = findings.len();
    let failed: Vec<Finding> = findings
        .into_iter()
        .filter(|finding| !finding.ok)
        .map(|finding| Finding { what: format!("{what}: {}", finding.what), ..finding })
        .collect();
    let passed = count - failed.len();
    let whole = Finding::new(
        what,
        format!("{count} checks"),
        format!("{passed} passed"),
        failed.is_empty(),
    );
    std::iter::once(whole).chain(failed).collect()
}

/// The latencies of each full second, or of each interval where that is longer, from the series.
fn batches(report: &Report) -> Option<Vec<Histogram<u64>>> {
    let intervals: Option<Vec<Histogram<u64>>> = report
        .series
        .intervals
        .iter()
        .map(|interval| decode_histogram(&interval.histogram).ok())
        .collect();
    let interval_ns = seconds_to_ns(report.series.interval_s).max(1);
    let per_batch = usize::try_from((SECOND_NS / interval_ns).max(1)).ok()?;
    let add = |chunk: &[Histogram<u64>]| {
        let (first, others) = chunk.split_first()?;
        let mut batch = first.clone();
        others.iter().try_for_each(|other| batch.add(other)).ok()?;
        Some(batch)
    };
    intervals?.chunks(per_batch).map(add).collect()
}

/// Distributions that every part has.
pub(super) const ALWAYS: usize = 5;

/// The distributions of a part, with their names: first those that every part has.
pub(super) fn distributions(part: &Part) -> Vec<(&'static str, &DistributionPart)> {
    let mut all = vec![
        ("naive", &part.naive),
        ("corrected", &part.corrected),
        ("pacer_lateness", &part.pacer_lateness),
        ("connection_wait", &part.connection_wait),
        ("connect_time", &part.connect_time),
    ];
    if let Some(successes) = &part.successes {
        all.push(("successes.naive", &successes.naive));
        all.push(("successes.corrected", &successes.corrected));
    }
    all
}

/// Values that a distribution must have; `None` where the counts don't say.
fn length(name: &str, counts: &Counts, plan: &Plan) -> Option<u64> {
    match name {
        "naive" => Some(counts.sent.saturating_sub(counts.failed)),
        // Back-filled values are more than requests.
        "corrected" if !plan.backfill.is_off() => None,
        "corrected" => Some(counts.intended.saturating_sub(counts.failed)),
        "pacer_lateness" | "connection_wait" => Some(counts.sent),
        "connect_time" => Some(counts.connects_in_window),
        _ => Some(counts.answered.saturating_sub(counts.unexpected_status)),
    }
}

fn part(report: &Report, part: &Part, batches: Option<&[Histogram<u64>]>) -> Vec<Finding> {
    let plan = &report.config.plan;
    let mut findings = sums(&part.counts, plan);
    for (name, document) in distributions(part) {
        if let Some(length) = length(name, &part.counts, plan) {
            findings.push(Finding::equal(format!("{name}.count"), length, document.count));
        }
        // Only the corrected latencies are kept over time, and back-filled ones are no pieces of the run.
        let pieces = match (name, batches) {
            (_, None) => Pieces::Unknown,
            ("corrected", Some(batches)) if plan.backfill.is_off() => Pieces::Batches(batches),
            ("corrected", Some(_)) => Pieces::Alone(Some(true)),
            (_, Some(batches)) => Pieces::Alone(dependent(batches)),
        };
        findings.extend(distribution(name, document, pieces));
    }
    let successes = part.counts.answered.saturating_sub(part.counts.unexpected_status);
    findings.push(Finding::equal(
        "successes apart",
        successes != part.naive.count,
        part.successes.is_some(),
    ));
    findings.extend(rates(report, part));
    findings
}

fn sums(counts: &Counts, plan: &Plan) -> Vec<Finding> {
    let sum = |terms: &[u64]| terms.iter().map(|term| u128::from(*term)).sum::<u128>();
    let of = |map: &BTreeMap<String, u64>| map.values().map(|count| u128::from(*count)).sum();
    let Counts { intended, sent, unsent, answered, timed_out, failed, abandoned, .. } = *counts;
    vec![
        Finding::equal("intended = sent + unsent", sum(&[sent, unsent]), u128::from(intended)),
        Finding::equal(
            "sent = answered + timed_out + failed + abandoned",
            sum(&[answered, timed_out, failed, abandoned]),
            u128::from(sent),
        ),
        Finding::equal("answered = sum of statuses", of(&counts.status), u128::from(answered)),
        Finding::equal(
            "timed_out + failed = sum of errors",
            of(&counts.errors),
            sum(&[timed_out, failed]),
        ),
        Finding::equal("unsent = sum of reasons", of(&counts.unsent_reasons), u128::from(unsent)),
        Finding::equal(
            "unexpected_status",
            unexpected(&counts.status, plan),
            u128::from(counts.unexpected_status),
        ),
        at_most("unconnected", failed, counts.unconnected),
        at_most("capped", counts.waited, counts.capped),
        at_most("connects_in_window", counts.connects, counts.connects_in_window),
        at_most("setup.answered", counts.setup.sent, counts.setup.answered),
        at_most("warmup.answered", counts.warmup.sent, counts.warmup.answered),
    ]
}

fn at_most(what: &str, most: u64, found: u64) -> Finding {
    Finding::new(what, format!("at most {most}"), found, found <= most)
}

/// Answers whose status is no success by the plan.
fn unexpected(status: &BTreeMap<String, u64>, plan: &Plan) -> u128 {
    status
        .iter()
        .filter(|(code, _)| !code.parse().is_ok_and(|code| plan.expect_status.holds(code)))
        .map(|(_, count)| u128::from(*count))
        .sum()
}

/// Rates are counts over the window; those of what happened before its end can't be more than all.
fn rates(report: &Report, part: &Part) -> Vec<Finding> {
    let window_ns =
        seconds_to_ns(report.config.schedule_until).saturating_sub(report.config.plan.warmup.0);
    let per_second = |count: u64| match window_ns {
        0 => 0.0,
        window_ns => count as f64 * SECOND_NS as f64 / window_ns as f64,
    };
    let rate_at_most = |what: &str, count: u64, found: f64| {
        let most = per_second(count);
        let ok = 0.0 <= found && (found <= most || is_close(most, found));
        Finding::new(what, format!("at most {most}"), found, ok)
    };
    vec![
        Finding::close("rate.intended", per_second(part.counts.intended), part.rate.intended),
        Finding::close("rate.sent", per_second(part.counts.sent_in_window), part.rate.sent),
        rate_at_most("rate.answered", part.counts.answered, part.rate.answered),
    ]
}

/// The schedule that the plan means, against the digest that the run took.
fn schedule(report: &Report) -> Vec<Finding> {
    let plan = &report.config.plan;
    let target = plan.rate.map(crate::units::Rate::per_second);
    let mut findings =
        vec![same_number("rate.target".to_owned(), target, report.whole.rate.target)];
    let until_ns = seconds_to_ns(report.config.schedule_until);
    let until_found = Finding::new(
        "schedule_until",
        if report.interrupted { "before the plan's end" } else { "the plan's end" },
        report.config.schedule_until,
        until_ns == plan.end_ns() || (report.interrupted && until_ns < plan.end_ns()),
    );
    let until_ok = until_found.ok;
    findings.push(until_found);
    let text = |digest: Option<&str>| digest.unwrap_or("none").to_owned();
    let found = text(report.config.schedule_digest.as_deref());
    let arrivals = report.config.schedule_arrivals;
    if !until_ok {
        return findings;
    }
    match arrivals_of(plan, until_ns) {
        Some((whole, window)) => {
            findings.push(Finding::equal("schedule_digest", whole.hex(), found));
            findings.push(Finding::equal(
                "schedule_arrivals",
                whole.arrivals(),
                arrivals.unwrap_or_default(),
            ));
            findings.push(Finding::equal(
                "intended = arrivals of the window",
                window.arrivals(),
                report.whole.counts.intended,
            ));
        }
        None => findings.push(Finding::equal("schedule_digest", text(None), found)),
    }
    findings
}

/// The proof of the arrivals speaks of the requests that the report counts.
fn arrivals(report: &Report) -> Vec<Finding> {
    let (Some(proof), counts) = (&report.arrivals, &report.whole.counts) else {
        return Vec::new();
    };
    let share = counts.sent_in_window as f64 / counts.intended as f64;
    vec![
        Finding::equal("arrivals.intended", counts.intended, proof.intended),
        Finding::equal("arrivals.sent", counts.sent_in_window, proof.sent),
        same_number(
            "arrivals.sent_over_intended".to_owned(),
            (0 < counts.intended).then_some(share),
            proof.sent_over_intended.value,
        ),
    ]
}

/// One of the counts of an interval.
type CountOf = fn(&IntervalPart) -> u64;

/// The run over time adds up to the run.
fn series(report: &Report) -> Vec<Finding> {
    let counts = &report.whole.counts;
    let intervals = &report.series.intervals;
    let errors = [counts.timed_out, counts.failed, counts.abandoned];
    let window_s = report.config.window_s();
    let sums: [(&str, u128, CountOf); 6] = [
        ("intended", u128::from(counts.intended), |interval| interval.intended),
        ("sent", u128::from(counts.sent), |interval| interval.sent),
        ("unsent", u128::from(counts.unsent), |interval| interval.unsent),
        ("answered", u128::from(counts.answered), |interval| interval.answered),
        ("errors", errors.map(u128::from).iter().sum(), |interval| interval.errors),
        ("sends", u128::from(counts.sent_in_window), |interval| interval.sends),
    ];
    let sum = |number: CountOf| -> u128 {
        intervals.iter().map(|interval| u128::from(number(interval))).sum()
    };
    let answers = sum(|interval| interval.answers) as f64;
    sums.into_iter()
        .map(|(what, expected, number)| {
            Finding::equal(format!("series: sum of {what}"), expected, sum(number))
        })
        .chain([Finding::close(
            "series: answers per second",
            report.whole.rate.answered,
            if window_s == 0.0 { 0.0 } else { answers / window_s },
        )])
        .chain(summed_up("series: intervals", each_interval(report)))
        .collect()
}

/// Each interval's figures against its own histogram.
fn each_interval(report: &Report) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, interval) in report.series.intervals.iter().enumerate() {
        let Ok(latency) = decode_histogram(&interval.histogram) else { continue };
        let us = |ns: u64| (!latency.is_empty()).then_some(ns as f64 / 1e3);
        let start = Some(at as f64 * report.series.interval_s);
        let numbers = [
            ("start_s", start, Some(interval.start_s)),
            ("p50", us(latency.value_at_quantile(0.5)), interval.p50),
            ("p99", us(latency.value_at_quantile(0.99)), interval.p99),
            ("max", us(latency.max()), interval.max),
        ];
        findings.extend(
            numbers
                .map(|(key, expected, found)| same_number(format!("{at}.{key}"), expected, found)),
        );
    }
    findings
}

/// The verdict is what these numbers lead to.
fn verdict(report: &Report) -> Finding {
    let text = |verdict: &Verdict| {
        let reasons: Vec<String> = verdict
            .reasons
            .iter()
            .map(|reason| format!("{:?} {:?}", reason.level, reason.code).to_lowercase())
            .collect();
        format!("{:?}", verdict.level).to_lowercase() + " " + &reasons.join(", ")
    };
    Finding::equal("verdict", text(&verdict::judge(report)), text(&report.verdict))
}

/// Digests of the plan's arrivals before `until_ns`, all of them and those of the window; `None` without a schedule.
pub(super) fn arrivals_of(plan: &Plan, until_ns: u64) -> Option<(Digest, Digest)> {
    let rate = plan.rate.filter(|_| plan.model == Some(Model::Open))?;
    let mut whole = Digest::default();
    let mut window = Digest::default();
    for due_ns in Schedule::new(rate, plan.arrivals, plan.seed, until_ns, 0, 1) {
        whole.add(due_ns);
        if plan.warmup.0 <= due_ns {
            window.add(due_ns);
        }
    }
    Some((whole, window))
}
