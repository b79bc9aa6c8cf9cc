//! Checks the agents' parts of a report: each against itself, and all of them against the whole.

use std::collections::BTreeMap;

use load::schedule::Digest;
use plan::flatten::flatten;
use record::counts::Counts;
use report::{
    AgentConfig, AgentLost, AgentPart, AgentReported, Bytes, DistributionPart, Part, Report,
    Samples, StepCounts, StepPart, judge_agent,
};
use serde_json::Value;
use stats::distribution::Distribution;
use stats::interval::Method;
use stats::percentiles::{Percentile, Percentiles, Quantile};
use units::seconds_to_ns;

use super::compare::{compare, compare_values};
use super::distribution::{distributions, of_document};
use super::endpoints;
use super::finding::{Finding, summed_up};
use super::part;
use super::planned::{Planned, of_one_process};
use super::sound::{self, DecodedSeries};

/// How often an agent reports its progress, seconds.
const REPORT_INTERVAL_S: f64 = 0.25;

/// The number of distributions that every part has, the first of those of [`distributions`].
const ALWAYS: usize = 7;

/// A single agent's part is the whole. Each of several agents' parts matches a report of that agent
/// alone, and they add up to the whole. `draws`: redraw the arrivals of their schedules.
pub(super) fn agents(report: &Report, decoded: &DecodedSeries, draws: bool) -> Vec<Finding> {
    let has_lost = !report.agent_lost.is_empty();
    // An interrupted run may have lost its controller.
    let is_right = report.partial == has_lost || report.partial && report.interrupted;
    let mut findings = vec![Finding::new("partial", has_lost, report.partial, is_right)];
    if let [only] = &report.per_agent[..]
        && !report.is_joint()
    {
        let checks = compare("", &as_agent(report, only), only);
        findings.extend(summed_up("the agent is the whole", checks));
        return findings;
    }
    let machine = if report.generator.machine.is_some() { "one" } else { "of each agent" };
    findings.push(Finding::equal("generator.machine", "of each agent", machine));
    findings.extend(shares(report));
    findings.extend(reported(report));
    findings.extend(summed_up("merged is the sum of the agents", sum_of_agents(report)));
    if draws {
        findings.extend(schedules(report));
    }
    findings.extend(samples(report));
    let stopped = report.per_agent.iter().any(|agent| agent.interrupted);
    // The user may also have stopped a run after it had lost an agent.
    let expected =
        if has_lost && !stopped { "true or false".to_owned() } else { stopped.to_string() };
    let is_right = report.interrupted == stopped || has_lost && !stopped;
    findings.push(Finding::new("interrupted", expected, report.interrupted, is_right));
    for agent in &report.per_agent {
        let checks = one(report, agent, decoded, draws);
        findings.extend(summed_up(&format!("agent {}", agent.name), checks));
    }
    findings
}

/// The part that the only agent of a report must have.
fn as_agent(report: &Report, only: &AgentPart) -> AgentPart {
    // If the samples were collected from several agents, the report names the folder.
    let samples = report.samples.as_ref().zip(only.samples.as_ref()).map(|(all, own)| {
        let file = if all.file.is_some() { own.file.clone() } else { None };
        Samples { file, ..all.clone() }
    });
    let local = report.local_agent();
    AgentPart {
        name: only.name.clone(),
        config: AgentConfig { share: only.config.share.clone(), ..local.config },
        synchronization: only.synchronization,
        findings: only.findings.clone(),
        samples: samples.or(local.samples),
        ..local
    }
}

/// Each part of the load belonged to one agent, present or lost.
fn shares(report: &Report) -> Vec<Finding> {
    let there = report.per_agent.iter().map(|agent| (&agent.name, &agent.config.share));
    let lost = report.agent_lost.iter().map(|lost| (&lost.name, &lost.share));
    let mut all: Vec<_> = there.chain(lost).collect();
    let of = all.first().map_or(1, |(_, share)| share.of());
    all.sort_by_key(|(_, share)| share.range().start);
    let mut next = 0;
    let mut findings: Vec<Finding> = all
        .iter()
        .map(|(name, share)| {
            let expected = format!("from {next} of {of}");
            let found = format!("from {} of {}", share.range().start, share.of());
            next = share.range().end;
            Finding::equal(format!("share of {name}"), expected, found)
        })
        .collect();
    findings.push(Finding::equal("all shares", of, next));
    findings.extend(report.agent_lost.iter().map(|lost| {
        Finding::close(format!("load of {}", lost.name), lost.share.fraction(), lost.load)
    }));
    summed_up("the agents' shares are the load", findings)
}

/// The last progress reports of lost agents can't be recomputed, only checked: they must predate
/// the loss, and their figures must be possible together.
fn reported(report: &Report) -> Vec<Finding> {
    let mut findings = Vec::new();
    for AgentLost { name, at_s, reported, .. } in &report.agent_lost {
        let Some(reported) = reported else { continue };
        let AgentReported { until_s, intended, answered, errors, p50, p99, .. } = reported;
        let name = |what: &str| format!("{name}: {what}");
        let last_s = at_s + REPORT_INTERVAL_S;
        let ok = (0.0..=last_s).contains(until_s);
        findings.push(Finding::new(name("until_s"), format!("by {last_s}"), until_s, ok));
        let ended = answered.saturating_add(*errors);
        let ok = ended <= *intended;
        let expected = format!("{intended} at most");
        findings.push(Finding::new(name("answered and errors"), expected, ended, ok));
        let ok = p50.is_some() == p99.is_some() && p50 <= p99;
        let found = format!("{p50:?} and {p99:?}");
        findings.push(Finding::new(name("p50 and p99"), "in order", found, ok));
    }
    if findings.is_empty() {
        return findings;
    }
    summed_up("what lost agents had reported", findings)
}

/// Counts, rates and histograms add up, means are weighted by their counts.
fn sum_of_agents(report: &Report) -> Vec<Finding> {
    let parts: Vec<&Part> = report.per_agent.iter().map(|agent| &agent.part).collect();
    let merged = &report.whole;
    let mut counts = Counts::default();
    parts.iter().for_each(|part| counts += part.counts.clone());
    let mut findings = compare("counts.", &counts, &merged.counts);
    let ends = || report.per_agent.iter().map(|agent| agent.config.schedule_until);
    // Windows that ended apart have rates that don't add up, and a lost agent has none.
    if report.agent_lost.is_empty() && ends().all(|end| end == report.config.schedule_until) {
        let rates = added(parts.iter().flat_map(|part| flatten(&part.rate)));
        findings.extend(compare_values("rate.", rates, flatten(&merged.rate)));
    }
    for (at, (name, merged)) in distributions(merged).into_iter().enumerate().take(ALWAYS) {
        let parts = parts.iter().map(|part| distributions(part)[at].1);
        findings.extend(compare(&format!("{name}."), &sum(parts, merged), merged));
    }
    findings.extend(sum_of_steps(&parts, merged));
    findings.extend(endpoints::sum(&parts, merged));
    let shards = report.per_agent.iter().flat_map(|agent| &agent.generator.shards);
    let shards: Vec<_> = shards.collect();
    findings.extend(compare(
        "generator.shards.",
        &shards,
        &report.generator.shards.iter().collect(),
    ));
    let last = ends().fold(0.0, f64::max);
    findings.push(Finding::close("schedule_until", last, report.config.schedule_until));
    findings
}

/// Each step's counts and histograms add up as well.
fn sum_of_steps(parts: &[&Part], merged: &Part) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, merged) in merged.parts.iter().enumerate() {
        let name = &merged.name;
        let of_agents: Vec<&StepPart> =
            parts.iter().filter_map(|part| part.parts.get(at)).collect();
        let mut counts = Counts::default();
        of_agents.iter().for_each(|step| counts += step.counts.as_whole());
        let counts = StepCounts::new(&counts);
        findings.extend(compare(&format!("part {name}: counts."), &counts, &merged.counts));
        let held = of_agents.iter().map(|step| step.held).fold(0, u64::saturating_add);
        findings.push(Finding::equal(format!("part {name}: held"), held, merged.held));
        let bytes = Bytes::of_parts(of_agents.iter().copied());
        let found = Bytes::of_parts([merged]);
        findings.extend(compare(&format!("part {name}: "), &bytes, &found));
        let naive = sum(of_agents.iter().map(|step| &step.naive), &merged.naive);
        findings.extend(compare(&format!("part {name}: naive."), &naive, &merged.naive));
        let corrected = sum(of_agents.iter().map(|step| &step.corrected), &merged.corrected);
        findings.extend(compare(
            &format!("part {name}: corrected."),
            &corrected,
            &merged.corrected,
        ));
    }
    findings
}

fn added(parts: impl Iterator<Item = (String, Value)>) -> Vec<(String, Value)> {
    let mut sums: BTreeMap<String, Value> = BTreeMap::new();
    for (path, leaf) in parts {
        let sum = match sums.get(&path) {
            Some(sum) => plus(sum, &leaf).unwrap_or(leaf),
            None => leaf,
        };
        sums.insert(path, sum);
    }
    sums.into_iter().collect()
}

fn plus(one: &Value, other: &Value) -> Option<Value> {
    match (one.as_u64(), other.as_u64()) {
        (Some(one), Some(other)) => Some((one + other).into()),
        _ => Some((one.as_f64()? + other.as_f64()?).into()),
    }
}

/// The parts' distributions added up. Its intervals are those of `merged`: they come from a series
/// that the parts don't contain.
fn sum<'a>(
    parts: impl Iterator<Item = &'a DistributionPart>,
    merged: &DistributionPart,
) -> DistributionPart {
    let mut whole = Distribution::new();
    let mut sum = 0.0;
    for part in parts {
        // An unreadable one has a finding of its own.
        if let Ok(part) = of_document(part) {
            whole.merge(&part);
        }
        sum += part.mean.unwrap_or(0.0) * part.count as f64;
    }
    let alone = DistributionPart::alone(&whole, None);
    DistributionPart {
        mean: (0 < whole.count()).then(|| sum / whole.count() as f64),
        percentiles: alone.percentiles.with_intervals_of(&merged.percentiles),
        ..alone
    }
}

/// The intervals of an agent's corrected latencies. They come from the pieces of its run, which
/// only its samples show; without these, the check is that they are no narrower than its ranks make
/// them.
fn intervals(agent: &AgentPart) -> Vec<Finding> {
    // An unreadable histogram has a finding of its own.
    let Ok(corrected) = of_document(&agent.part.corrected) else { return Vec::new() };
    let by_ranks = Percentiles::independent(&corrected);
    let found = &agent.part.corrected.percentiles;
    let dependent = agent.part.naive.percentiles.dependent;
    let mut findings = compare("corrected.intervals.dependent", &dependent, &found.dependent);
    let method = Some(Method::Batches);
    findings.extend(compare("corrected.intervals.method", &method, &found.method));
    for ((Quantile { label, .. }, ranks), (_, found)) in by_ranks.iter().zip(found.iter()) {
        let ok = match (ranks.interval, found.interval) {
            (None, _) => Percentile { value: found.value, ..ranks } == found,
            (Some(_), None) => {
                found.needed.is_none() && found.needed_s.is_some_and(|needed_s| 0.0 < needed_s)
            }
            (Some([least, most]), Some([low, high])) => {
                low <= least && most <= high && (found.needed, found.needed_s) == (None, None)
            }
        };
        let text = |of: Percentile| match (of.interval, of.needed, of.needed_s) {
            (Some([low, high]), None, None) => format!("{low} to {high}"),
            (None, Some(needed), None) => format!("none below {needed} values"),
            (None, None, Some(needed_s)) => format!("none below {needed_s} s"),
            _ => "none".to_owned(),
        };
        let expected = format!("{}, or wider", text(ranks));
        let what = format!("corrected.intervals.{label}");
        findings.push(Finding::new(what, expected, text(found), ok));
    }
    findings
}

/// The agents' digests add up to the whole's and, if no part is missing, to that of the schedule on
/// a single process.
fn schedules(report: &Report) -> Vec<Finding> {
    let config = &report.config;
    if config.schedule_digest.is_none() {
        return Vec::new();
    }
    let mut sum = Digest::default();
    for AgentPart { config, .. } in &report.per_agent {
        let digits = config.schedule_digest.as_deref().unwrap_or_default();
        // An unreadable one makes the sum differ.
        let value = u128::from_str_radix(digits, 16).unwrap_or(0);
        sum.merge(Digest::from_value(value, config.schedule_arrivals.unwrap_or(0)));
    }
    let found = config.schedule_digest.clone().unwrap_or_default();
    let mut findings =
        vec![Finding::equal("schedule_digest: sum of the agents'", sum.hex(), found.clone())];
    let ends = report.per_agent.iter().map(|agent| seconds_to_ns(agent.config.schedule_until));
    let is_whole = report.agent_lost.is_empty() && ends.min() == Some(config.plan.end_ns());
    if let Some(one) = of_one_process(report).filter(|_| is_whole) {
        findings.push(Finding::equal("schedule_digest: as of one process", one.hex(), found));
    }
    findings
}

/// The samples of all agents together.
fn samples(report: &Report) -> Vec<Finding> {
    let all: Option<Vec<&Samples>> =
        report.per_agent.iter().map(|agent| agent.samples.as_ref()).collect();
    let all = all.filter(|all| !all.is_empty() || report.samples.is_some());
    let sum = |number: fn(&Samples) -> u64| -> Option<u64> {
        all.as_ref().map(|all| all.iter().map(|samples| number(samples)).sum())
    };
    let found = report.samples.as_ref();
    let mut findings = compare(
        "samples.written: sum of the agents'",
        &sum(|it| it.written),
        &found.map(|it| it.written),
    );
    findings.extend(compare(
        "samples.lost: sum of the agents'",
        &sum(|it| it.lost),
        &found.map(|it| it.lost),
    ));
    findings
}

/// Checks an agent's part like a report of that agent alone, as far as possible.
fn one(report: &Report, agent: &AgentPart, decoded: &DecodedSeries, draws: bool) -> Vec<Finding> {
    let view = report.of_agent(agent);
    let mut findings = vec![sound::plan(&view), sound::cores(&view)];
    findings.push(part::until(&view));
    if findings.iter().any(|finding| !finding.ok) {
        return findings;
    }
    findings.extend(part::part(&view, &agent.part, None));
    findings.extend(intervals(agent));
    if draws {
        let planned = Planned::new(&view, decoded);
        findings.extend(part::taken(&view, planned.as_ref()));
    }
    findings.extend(part::littles_law(&view));
    findings.extend(part::samples(&view));
    findings.extend(compare("start_skew_us", &agent.skew_us(), &agent.start_skew_us));
    findings.extend(compare("verdict.", &judge_agent(report, agent), &agent.verdict));
    findings
}
