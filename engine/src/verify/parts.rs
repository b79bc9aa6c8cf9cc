//! The agents' parts added up, against the merged part.

use std::collections::BTreeMap;

use super::Finding;
use super::compare::{compare, compare_leaves};
use super::distribution::of_document;
use super::document::distributions;
use crate::report::{DistributionPart, Part, Report};
use crate::stats::distribution::Distribution;
use crate::sys::leaves::{Leaf, leaves};

/// Distributions that every part has, first among those of [`distributions`].
const ALWAYS: usize = 5;

/// Counts, rates and histograms add, means weigh by their counts.
pub(super) fn sum_of_agents(report: &Report) -> Vec<Finding> {
    let parts: Vec<&Part> = report.per_agent.iter().map(|agent| &agent.part).collect();
    let merged = &report.merged;
    let counts = added(parts.iter().flat_map(|part| leaves(&part.counts)));
    let mut findings = compare_leaves("counts.", counts, leaves(&merged.counts));
    let rates = added(parts.iter().flat_map(|part| leaves(&part.rate)));
    findings.extend(compare_leaves("rate.", rates, leaves(&merged.rate)));
    for (at, (name, merged)) in distributions(merged).into_iter().enumerate().take(ALWAYS) {
        let parts = parts.iter().map(|part| distributions(part)[at].1);
        findings.extend(compare(&format!("{name}."), &sum(parts, merged), merged));
    }
    findings
}

fn added(parts: impl Iterator<Item = (String, Leaf)>) -> Vec<(String, Leaf)> {
    let mut sums: BTreeMap<String, Leaf> = BTreeMap::new();
    for (path, leaf) in parts {
        match (sums.get_mut(&path), leaf) {
            (Some(Leaf::Whole(sum)), Leaf::Whole(number)) => *sum += number,
            (Some(Leaf::Fraction(sum)), Leaf::Fraction(number)) => *sum += number,
            (_, leaf) => drop(sums.insert(path, leaf)),
        }
    }
    sums.into_iter().collect()
}

/// The parts' distributions as one. Its intervals are those of `merged`: they come from a series that the parts don't show.
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
    DistributionPart {
        mean: (0 < whole.count()).then(|| sum / whole.count() as f64),
        intervals: merged.intervals.clone(),
        ..DistributionPart::alone(&whole, None)
    }
}
