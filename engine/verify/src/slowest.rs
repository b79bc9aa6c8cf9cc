//! Checks the lists of slowest requests: against their part's latencies, and their numbers against
//! what follows from them.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use load::mix::Mix;
use plan::Plan;
use record::slowest::SlowError;
use report::slowest::{SlowRequest, trace_id_of};
use report::steps::planned;
use report::{DistributionPart, Part, StepCounts};
use stats::distribution::VALUE_MAX_NS;
use units::us_to_ns;

use super::finding::{Finding, is_close};

/// All listed requests of a part.
pub(super) fn listed(whole: &Part) -> impl Iterator<Item = &SlowRequest> {
    whole.slowest.iter().chain(whole.parts.iter().flat_map(|part| &part.slowest))
}

/// What the requests of a list belong to.
pub(super) struct Of<'a> {
    /// Their step.
    pub(super) step: u16,
    /// How many requests ended how.
    pub(super) counts: &'a StepCounts,
    /// Their naive latencies.
    pub(super) naive: &'a DistributionPart,
    /// Their corrected latencies.
    pub(super) corrected: &'a DistributionPart,
}

/// A list of at most `most` of these requests.
pub(super) fn slowest(plan: &Plan, list: &[SlowRequest], most: usize, of: &Of<'_>) -> Vec<Finding> {
    let Of { step, corrected, .. } = *of;
    let length = corrected.count.min(most as u64);
    let mut findings = vec![Finding::equal("slowest", length, list.len() as u64)];
    if let Some(first) = list.first() {
        let max = corrected.max.unwrap_or(0.0);
        findings.push(Finding::close("slowest: the first is the maximum", max, first.corrected_us));
    }
    let key = |slow: &SlowRequest| (-slow.corrected_us, slow.due_s, slow.number);
    let in_order = list.is_sorted_by_key(key);
    findings.push(Finding::equal("slowest: in order", true, in_order));
    let mix = Mix::of_plan(plan);
    let traces = |slow: &SlowRequest| slow.trace_id == trace_id_of(plan, slow.number);
    let is_right = |slow: &SlowRequest| {
        slow.naive_us.is_none_or(|us| us <= slow.corrected_us || is_close(us, slow.corrected_us))
            && slow.status.is_some() != slow.error.is_some()
            // A replayed log has the steps of its requests, not their weights.
            && (plan.replay.is_some() || mix.step(slow.number) == plan.first_of(step))
    };
    let right = list.iter().filter(|slow| is_right(slow)).count();
    findings.push(Finding::equal("slowest: possible requests", list.len(), right));
    let traced = list.iter().filter(|slow| traces(slow)).count();
    findings.push(Finding::equal("slowest: trace ids by number", list.len(), traced));
    findings.extend(outcomes(list, of.counts));
    findings.extend(latencies(list, of));
    findings
}

/// No outcome is listed more often than it was counted.
fn outcomes(list: &[SlowRequest], counts: &StepCounts) -> Vec<Finding> {
    let mut listed: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for slow in list {
        let (name, most) = match (slow.status, slow.error) {
            (Some(status), _) => (status.to_string(), counts.status.of(status)),
            (None, Some(SlowError::TimedOut)) => ("timed_out".to_owned(), counts.timed_out),
            (None, Some(SlowError::Abandoned)) => ("abandoned".to_owned(), counts.abandoned),
            (None, Some(SlowError::Unsent)) => ("unsent".to_owned(), counts.unsent),
            (None, None) => continue,
        };
        listed.entry(name).or_insert((most, 0)).1 += 1;
    }
    let check =
        |(name, (most, found))| Finding::at_most(format!("slowest: of {name}"), most, found);
    listed.into_iter().map(check).collect()
}

/// The histograms have each listed latency. One that can't be read has its own finding.
fn latencies(list: &[SlowRequest], of: &Of<'_>) -> Vec<Finding> {
    let naive = list.iter().filter_map(|slow| slow.naive_us).collect();
    let corrected = list.iter().map(|slow| slow.corrected_us).collect();
    let all: [(&str, &DistributionPart, Vec<f64>); 2] =
        [("naive", of.naive, naive), ("corrected", of.corrected, corrected)];
    let check = |(name, part, listed): (&str, &DistributionPart, Vec<f64>)| {
        if listed.is_empty() {
            return None;
        }
        let histogram = part.decode_histogram().ok()?;
        let found = listed.iter().filter(|us| has(&histogram, **us)).count();
        Some(Finding::equal(format!("slowest: {name} in the histogram"), listed.len(), found))
    };
    all.into_iter().filter_map(check).collect()
}

fn has(histogram: &Histogram<u64>, us: f64) -> bool {
    // Those beyond the highest value are counted apart.
    let ns = us_to_ns(us);
    VALUE_MAX_NS < ns || 0 < histogram.count_at(ns)
}

/// Each listed request was due when the schedule says; `due_ns` has the arrivals by their numbers.
pub(super) fn by_schedule(
    plan: &Plan,
    whole: &Part,
    due_ns: &BTreeMap<u64, Option<u64>>,
) -> Vec<Finding> {
    let check = |slow: &SlowRequest| {
        let planned = due_ns.get(&slow.number).copied().flatten();
        let due_s = planned.map(|ns| ns.saturating_sub(plan.warmup.0) as f64 / 1e9);
        let text = |s: Option<f64>| s.map_or("none".to_owned(), |s| s.to_string());
        Finding::equal(format!("request {}", slow.number), text(due_s), text(Some(slow.due_s)))
    };
    // Only arrivals follow the schedule, and not the later steps of a session.
    let of_parts = planned(plan).into_iter().zip(&whole.parts).filter(|(planned, _)| {
        let step = u16::try_from(planned.step).expect("a step's number has 16 bits");
        plan.first_of(step) == step
    });
    let of_parts = of_parts.flat_map(|(_, part)| &part.slowest);
    whole.slowest.iter().chain(of_parts).map(check).collect()
}
