//! Parts of a report against each other: the merged one is the whole, and the sum of the agents' parts.

use std::collections::BTreeMap;

use super::distribution::{buckets, stated};
use super::document::{ALWAYS, distributions};
use super::{Finding, QUANTILES, is_close};
use crate::report::{Counts, DistributionPart, Part, Report};

/// Whether two parts say the same.
pub(super) fn same(one: &Part, other: &Part) -> Vec<Finding> {
    let mut findings = counts(&one.counts, &other.counts);
    findings.push(Finding::equal(
        "distributions",
        distributions(one).len(),
        distributions(other).len(),
    ));
    let rates = [
        ("rate.target", one.rate.target, other.rate.target),
        ("rate.intended", Some(one.rate.intended), Some(other.rate.intended)),
        ("rate.sent", Some(one.rate.sent), Some(other.rate.sent)),
        ("rate.answered", Some(one.rate.answered), Some(other.rate.answered)),
    ];
    findings.extend(rates.map(|(what, one, other)| same_number(what.to_owned(), one, other)));
    for ((name, one), (_, other)) in distributions(one).into_iter().zip(distributions(other)) {
        findings.push(Finding::equal(format!("{name}.count"), one.count, other.count));
        findings.push(Finding::equal(format!("{name}.overflow"), one.overflow, other.overflow));
        findings.push(Finding::new(
            format!("{name}.histogram"),
            "the same buckets",
            "others",
            one.histogram == other.histogram || buckets(one) == buckets(other),
        ));
        let numbers = [
            ("min", one.min, other.min),
            ("mean", one.mean, other.mean),
            ("max", one.max, other.max),
        ];
        findings.extend(
            numbers.map(|(key, one, other)| same_number(format!("{name}.{key}"), one, other)),
        );
        findings.extend(QUANTILES.map(|(key, _)| {
            same_number(format!("{name}.{key}"), stated(one, key), stated(other, key))
        }));
    }
    findings
}

pub(super) fn same_number(what: String, one: Option<f64>, other: Option<f64>) -> Finding {
    let text = |value: Option<f64>| value.map_or("n/a".to_owned(), |value| value.to_string());
    let ok = match (one, other) {
        (Some(one), Some(other)) => is_close(one, other),
        (one, other) => one.is_none() && other.is_none(),
    };
    Finding::new(what, text(one), text(other), ok)
}

fn counts(expected: &Counts, found: &Counts) -> Vec<Finding> {
    let numbers = |counts: &Counts| {
        [
            ("intended", counts.intended),
            ("sent", counts.sent),
            ("sent_in_window", counts.sent_in_window),
            ("unconnected", counts.unconnected),
            ("unsent", counts.unsent),
            ("answered", counts.answered),
            ("timed_out", counts.timed_out),
            ("failed", counts.failed),
            ("abandoned", counts.abandoned),
            ("waited", counts.waited),
            ("capped", counts.capped),
            ("unexpected_status", counts.unexpected_status),
            ("connects", counts.connects),
            ("connects_in_window", counts.connects_in_window),
            ("setup.sent", counts.setup.sent),
            ("setup.answered", counts.setup.answered),
            ("warmup.sent", counts.warmup.sent),
            ("warmup.answered", counts.warmup.answered),
        ]
    };
    let maps = [
        ("unsent_reasons", &expected.unsent_reasons, &found.unsent_reasons),
        ("status", &expected.status, &found.status),
        ("errors", &expected.errors, &found.errors),
        ("connection_errors", &expected.connection_errors, &found.connection_errors),
    ];
    numbers(expected)
        .into_iter()
        .zip(numbers(found))
        .map(|((what, expected), (_, found))| Finding::equal(what, expected, found))
        .chain(maps.map(|(what, expected, found)| same_map(what, expected, found)))
        .collect()
}

/// Whether two counts by name are the same.
pub(super) fn same_map(
    what: &str,
    expected: &BTreeMap<String, u64>,
    found: &BTreeMap<String, u64>,
) -> Finding {
    let text = |map: &BTreeMap<String, u64>| {
        let entries: Vec<String> = map.iter().map(|(name, n)| format!("{name} {n}")).collect();
        if entries.is_empty() { "none".to_owned() } else { entries.join(", ") }
    };
    Finding::new(what, text(expected), text(found), expected == found)
}

/// One of the rates of a part.
type RateOf = fn(&Part) -> Option<f64>;

/// The agents' parts added up, against the merged part: counts, rates and histograms add, means weigh by their counts.
pub(super) fn sum_of_agents(report: &Report) -> Vec<Finding> {
    let mut sum = Counts::default();
    for agent in &report.per_agent {
        add_counts(&mut sum, &agent.part.counts);
    }
    let mut findings = counts(&sum, &report.merged.counts);
    let rates: [(&str, RateOf); 4] = [
        ("rate.target", |part| part.rate.target),
        ("rate.intended", |part| Some(part.rate.intended)),
        ("rate.sent", |part| Some(part.rate.sent)),
        ("rate.answered", |part| Some(part.rate.answered)),
    ];
    for (what, rate) in rates {
        let sum = report
            .per_agent
            .iter()
            .filter_map(|agent| rate(&agent.part))
            .reduce(|one, other| one + other);
        findings.push(same_number(what.to_owned(), sum, rate(&report.merged)));
    }
    for (at, (name, merged)) in distributions(&report.merged).into_iter().enumerate().take(ALWAYS) {
        let parts: Vec<&DistributionPart> =
            report.per_agent.iter().map(|agent| distributions(&agent.part)[at].1).collect();
        let total = |number: fn(&DistributionPart) -> u64| -> u128 {
            parts.iter().map(|part| u128::from(number(part))).sum()
        };
        findings.push(Finding::equal(
            format!("{name}.count"),
            total(|part| part.count),
            u128::from(merged.count),
        ));
        findings.push(Finding::equal(
            format!("{name}.overflow"),
            total(|part| part.overflow),
            u128::from(merged.overflow),
        ));
        let mut added: BTreeMap<u64, u64> = BTreeMap::new();
        for part in &parts {
            for (value_ns, count) in buckets(part).unwrap_or_default() {
                let bucket = added.entry(value_ns).or_default();
                *bucket = bucket.saturating_add(count);
            }
        }
        findings.push(Finding::new(
            format!("{name}.histogram"),
            "the sum of the agents' buckets",
            "others",
            Some(added) == buckets(merged),
        ));
        let min = parts.iter().filter_map(|part| part.min).reduce(f64::min);
        let max = parts.iter().filter_map(|part| part.max).reduce(f64::max);
        let sum: Option<f64> = parts
            .iter()
            .filter_map(|part| part.mean.map(|mean| mean * part.count as f64))
            .reduce(|one, other| one + other);
        let mean = sum.map(|sum| sum / merged.count.max(1) as f64);
        findings.push(same_number(format!("{name}.min"), min, merged.min));
        findings.push(same_number(format!("{name}.max"), max, merged.max));
        findings.push(same_number(format!("{name}.mean"), mean, merged.mean));
    }
    findings
}

fn add_counts(sum: &mut Counts, part: &Counts) {
    let numbers = [
        (&mut sum.intended, part.intended),
        (&mut sum.sent, part.sent),
        (&mut sum.sent_in_window, part.sent_in_window),
        (&mut sum.unconnected, part.unconnected),
        (&mut sum.unsent, part.unsent),
        (&mut sum.answered, part.answered),
        (&mut sum.timed_out, part.timed_out),
        (&mut sum.failed, part.failed),
        (&mut sum.abandoned, part.abandoned),
        (&mut sum.waited, part.waited),
        (&mut sum.capped, part.capped),
        (&mut sum.unexpected_status, part.unexpected_status),
        (&mut sum.connects, part.connects),
        (&mut sum.connects_in_window, part.connects_in_window),
        (&mut sum.setup.sent, part.setup.sent),
        (&mut sum.setup.answered, part.setup.answered),
        (&mut sum.warmup.sent, part.warmup.sent),
        (&mut sum.warmup.answered, part.warmup.answered),
    ];
    for (sum, number) in numbers {
        *sum = sum.saturating_add(number);
    }
    let maps = [
        (&mut sum.unsent_reasons, &part.unsent_reasons),
        (&mut sum.status, &part.status),
        (&mut sum.errors, &part.errors),
        (&mut sum.connection_errors, &part.connection_errors),
    ];
    for (sum, map) in maps {
        for (name, count) in map {
            let total = sum.entry(name.clone()).or_default();
            *total = total.saturating_add(*count);
        }
    }
}
