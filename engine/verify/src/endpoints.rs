//! Checks the counts of each endpoint: against the plan, and against the whole that they add up to.

use plan::Plan;
use record::endpoint::EndpointCounts;
use report::endpoints::planned;
use report::{EndpointPart, Part};

use super::compare::compare;
use super::finding::{Finding, summed_up};

/// A distribution's greatest value may be below the exact one by this factor.
const MAX_ERROR: f64 = 1.01;

/// The connections of a whole that use TLS, and whether all do.
pub(super) fn secure(whole: &Part) -> (u64, bool) {
    let is_secure = |endpoint: &&EndpointPart| endpoint.name.starts_with("https:");
    let secure = whole.endpoints.iter().filter(is_secure).map(|endpoint| endpoint.counts.connects);
    if whole.endpoints.iter().all(|endpoint| is_secure(&endpoint)) {
        return (whole.counts.connects, true);
    }
    (secure.fold(0, u64::saturating_add), false)
}

/// Checks the endpoints of a whole.
pub(super) fn endpoints(plan: &Plan, whole: &Part) -> Vec<Finding> {
    let planned = planned(plan);
    let mut findings = vec![Finding::equal("endpoints", planned.len(), whole.endpoints.len())];
    if planned.is_empty() || !findings[0].ok {
        return findings;
    }
    let mut sum = EndpointCounts::default();
    for ((name, share), EndpointPart { name: found, planned, counts, .. }) in
        planned.iter().zip(&whole.endpoints)
    {
        findings.extend([
            Finding::equal("name", name, found),
            Finding::equal(format!("{name}: planned"), share, planned),
            Finding::at_most(format!("{name}: capped"), counts.waited, counts.capped),
            Finding::at_most(format!("{name}: yielded"), counts.connects, counts.yielded),
        ]);
        // A document may hold any numbers.
        sum.connects = sum.connects.saturating_add(counts.connects);
        sum.waited = sum.waited.saturating_add(counts.waited);
        sum.capped = sum.capped.saturating_add(counts.capped);
        sum.wait_max_ns = sum.wait_max_ns.max(counts.wait_max_ns);
    }
    findings.extend([
        Finding::equal("connects", whole.counts.connects, sum.connects),
        Finding::equal("waited", whole.counts.waited, sum.waited),
        Finding::equal("capped", whole.counts.capped, sum.capped),
    ]);
    // Only a wait that was recorded can be the longest: some have no time to be in a distribution.
    let longest = whole.connection_wait.max.unwrap_or(0.0);
    let found = sum.wait_max_ns as f64 / 1e3;
    let ok = found <= longest * MAX_ERROR;
    findings.push(Finding::new("wait_max_ns", format!("at most {longest} µs"), found, ok));
    summed_up("endpoints add up to the whole", findings)
}

/// The endpoints of several agents add up to those of all.
pub(super) fn sum(parts: &[&Part], merged: &Part) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, merged) in merged.endpoints.iter().enumerate() {
        let mut sum = EndpointCounts::default();
        let mut addresses: Vec<&str> = Vec::new();
        for part in parts.iter().filter_map(|part| part.endpoints.get(at)) {
            sum += part.counts.clone();
            if !addresses.contains(&part.address.as_str()) {
                addresses.push(&part.address);
            }
        }
        let name = &merged.name;
        findings.extend(compare(&format!("endpoint {name}: "), &sum, &merged.counts));
        let addresses = addresses.join(", ");
        findings.push(Finding::equal(
            format!("endpoint {name}: address"),
            &addresses,
            &merged.address,
        ));
    }
    findings
}
