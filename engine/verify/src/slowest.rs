//! Checks the lists of slowest requests: against their part's latencies, and their numbers against
//! what follows from them.

use std::collections::BTreeMap;

use load::mix::Mix;
use plan::Plan;
use report::slowest::{SlowRequest, trace_id_of};
use report::{DistributionPart, Part};

use super::finding::{Finding, is_close};

/// All listed requests of a part.
pub(super) fn listed(whole: &Part) -> impl Iterator<Item = &SlowRequest> {
    whole.slowest.iter().chain(whole.parts.iter().flat_map(|part| &part.slowest))
}

/// A list of at most `most` requests of this step, with these corrected latencies in all.
pub(super) fn slowest(
    plan: &Plan,
    list: &[SlowRequest],
    step: u16,
    most: usize,
    corrected: &DistributionPart,
) -> Vec<Finding> {
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
            && (plan.replay.is_some() || mix.step(slow.number) == step)
    };
    let right = list.iter().filter(|slow| is_right(slow)).count();
    findings.push(Finding::equal("slowest: possible requests", list.len(), right));
    let traced = list.iter().filter(|slow| traces(slow)).count();
    findings.push(Finding::equal("slowest: trace ids by number", list.len(), traced));
    findings
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
    listed(whole).map(check).collect()
}
