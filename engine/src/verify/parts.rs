//! Checks that the agents' parts add up to the merged part.

use std::collections::BTreeMap;

use serde_json::Value;

use super::compare::{compare, compare_leaves};
use super::distribution::{distributions, of_document};
use super::finding::Finding;
use crate::record::counts::Counts;
use crate::report::{DistributionPart, Part, Report};
use crate::stats::distribution::Distribution;
use crate::sys::leaves::leaves;

/// Distributions that every part has, first among those of [`distributions`].
const ALWAYS: usize = 7;

/// Counts, rates and histograms add, means weigh by their counts.
pub(super) fn sum_of_agents(report: &Report) -> Vec<Finding> {
    let parts: Vec<&Part> = report.per_agent.iter().map(|agent| &agent.part).collect();
    let merged = &report.merged;
    let mut counts = Counts::default();
    parts.iter().for_each(|part| counts += part.counts.clone());
    let mut findings = compare("counts.", &counts, &merged.counts);
    let rates = added(parts.iter().flat_map(|part| leaves(&part.rate)));
    findings.extend(compare_leaves("rate.", rates, leaves(&merged.rate)));
    for (at, (name, merged)) in distributions(merged).into_iter().enumerate().take(ALWAYS) {
        let parts = parts.iter().map(|part| distributions(part)[at].1);
        findings.extend(compare(&format!("{name}."), &sum(parts, merged), merged));
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

/// The parts' distributions as one. Its intervals are those of `merged`: they come from a series
/// that the parts don't show.
fn sum<'a>(
    parts: impl Iterator<Item = &'a DistributionPart>,
    merged: &DistributionPart,
) -> DistributionPart {
    let mut whole = Distribution::new();
    let mut sum = 0.0;
    for part in parts {
        // One that can't be read has a finding of its own.
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
