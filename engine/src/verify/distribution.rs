//! A distribution of a report against its histogram.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::{Finding, QUANTILES, is_close, to_ns};
use crate::distribution::{Distribution, VALUE_MAX_NS, rank};
use crate::proof::interval::needed;
use crate::report::{DistributionPart, Intervals};

/// What the intervals of a distribution rest on.
#[derive(Clone, Copy)]
pub(super) enum Pieces<'a> {
    /// The same values by pieces of the run.
    Batches(&'a [Histogram<u64>]),
    /// None of its own, and whether the run's latencies depend on each other.
    Alone(Option<bool>),
    /// Not to be had: the intervals can't be checked.
    Unknown,
}

/// A distribution's numbers against its histogram, and its intervals where what they rest on is known.
pub(super) fn distribution(
    name: &str,
    document: &DistributionPart,
    pieces: Pieces<'_>,
) -> Vec<Finding> {
    let histogram = match document.decode_histogram() {
        Ok(histogram) => histogram,
        Err(error) => {
            return vec![Finding::new(format!("{name}.histogram"), "a histogram", error, false)];
        }
    };
    let counted = histogram.len().saturating_add(document.overflow);
    let mut findings = vec![
        Finding::equal(format!("{name}.unit"), "us", document.unit.as_str()),
        Finding::equal(format!("{name}.histogram"), document.count, counted),
    ];
    let name_of = |key: &str| format!("{name}.{key}");
    let (Some(min), Some(mean), Some(max)) = (document.min, document.mean, document.max) else {
        let none = document.count == 0
            && document.min.or(document.mean).or(document.max).is_none()
            && QUANTILES.iter().all(|(key, _)| stated(document, key).is_none());
        findings.push(Finding::new(name_of("min, mean, max"), "numbers", "null", none));
        return findings;
    };
    findings.extend(extremes(name, document, &histogram, (min, mean, max)));
    for (key, q) in QUANTILES {
        let expected = quantile_ns(&histogram, document.count, q)
            .map(|edge_ns| edge_ns.clamp(to_ns(min).min(to_ns(max)), to_ns(max)));
        let found = stated(document, key);
        // Below the sample size that it needs, a percentile isn't given.
        let expected = expected.filter(|_| needed(q) <= document.count);
        findings.push(match (expected, found) {
            (Some(expected), Some(found)) => {
                Finding::close(name_of(key), expected as f64 / 1e3, found)
            }
            (Some(expected), None) => {
                Finding::new(name_of(key), expected as f64 / 1e3, "n/a", false)
            }
            (None, None) => Finding::new(name_of(key), "n/a", "n/a", true),
            (None, Some(found)) => Finding::new(name_of(key), "n/a", found, false),
        });
    }
    let ends = (to_ns(min), to_ns(max));
    let whole = Distribution::of_document(histogram, document.overflow, ends);
    let expected = match pieces {
        Pieces::Batches(batches) => DistributionPart::new(&whole, batches),
        Pieces::Alone(dependent) => DistributionPart::alone(&whole, dependent),
        Pieces::Unknown => return findings,
    };
    findings.push(intervals(name, &expected.intervals, &document.intervals));
    findings
}

/// Whether the confidence intervals are those that the histogram and the batches lead to.
fn intervals(name: &str, expected: &Intervals, found: &Intervals) -> Finding {
    let ends = |all: &Intervals| [all.p50, all.p90, all.p99, all.p999];
    let text = |all: &Intervals| {
        let texts = ends(all).map(|ends| match ends {
            Some([low, high]) => format!("{low}-{high}"),
            None => "n/a".to_owned(),
        });
        let needed = [all.needed.p50, all.needed.p90, all.needed.p99, all.needed.p999];
        let needed =
            needed.map(|needed| needed.map_or("-".to_owned(), |needed| needed.to_string()));
        let (method, dependent) = (all.method, all.dependent);
        format!("{} needed {} {method:?} {dependent:?}", texts.join(" "), needed.join(" "))
    };
    let close = ends(expected).into_iter().zip(ends(found)).all(|pair| match pair {
        (Some([low, high]), Some([found_low, found_high])) => {
            is_close(low, found_low) && is_close(high, found_high)
        }
        (expected, found) => expected.is_none() && found.is_none(),
    });
    let ok = close
        && (expected.method, expected.dependent, &expected.needed)
            == (found.method, found.dependent, &found.needed);
    Finding::new(format!("{name}.intervals"), text(expected), text(found), ok)
}

/// Minimum, mean and maximum, which are exact, against the buckets that they must lie in.
fn extremes(
    name: &str,
    document: &DistributionPart,
    histogram: &Histogram<u64>,
    (min, mean, max): (f64, f64, f64),
) -> Vec<Finding> {
    let mut low = 0.0;
    let mut high = document.overflow as f64 * max * 1e3;
    let mut first = None;
    let mut last = None;
    for bucket in histogram.iter_recorded() {
        let value_ns = bucket.value_iterated_to();
        let count = bucket.count_since_last_iteration() as f64;
        let edges = (histogram.lowest_equivalent(value_ns), histogram.highest_equivalent(value_ns));
        low += edges.0 as f64 * count;
        high += edges.1 as f64 * count;
        first.get_or_insert(edges);
        last = Some(edges);
    }
    let beyond = (VALUE_MAX_NS, u64::MAX);
    if 0 < document.overflow {
        low += VALUE_MAX_NS as f64 * document.overflow as f64;
        last = Some(beyond);
    }
    let first = first.unwrap_or(beyond);
    let last = last.unwrap_or(beyond);
    let within = |key: &str, (low_ns, high_ns): (u64, u64), found: f64| {
        let found_ns = to_ns(found);
        Finding::new(
            format!("{name}.{key}"),
            format!("{} to {}", low_ns as f64 / 1e3, high_ns as f64 / 1e3),
            found,
            low_ns <= found_ns && found_ns <= high_ns && 0.0 <= found,
        )
    };
    let count = document.count.max(1) as f64;
    let (low, high) = (low / count / 1e3, high / count / 1e3);
    vec![
        within("min", first, min),
        within("max", last, max),
        Finding::new(
            format!("{name}.mean"),
            format!("{low:.3} to {high:.3}"),
            mean,
            (low <= mean || is_close(low, mean)) && (mean <= high || is_close(high, mean)),
        ),
    ]
}

/// A percentile that a document states.
pub(super) fn stated(document: &DistributionPart, key: &str) -> Option<f64> {
    match key {
        "p50" => document.p50,
        "p90" => document.p90,
        "p99" => document.p99,
        "p999" => document.p999,
        "p9999" => document.p9999,
        _ => None,
    }
}

/// The upper edge of the bucket with the rank of `q` among `count` values; [`VALUE_MAX_NS`] for a rank beyond the histogram.
fn quantile_ns(histogram: &Histogram<u64>, count: u64, q: f64) -> Option<u64> {
    if count == 0 {
        return None;
    }
    let rank = rank(q, count);
    let mut seen = 0;
    let bucket = histogram.iter_recorded().find(|bucket| {
        seen += bucket.count_since_last_iteration();
        rank <= seen
    });
    Some(
        bucket.map_or(VALUE_MAX_NS, |bucket| {
            histogram.highest_equivalent(bucket.value_iterated_to())
        }),
    )
}

/// A distribution's buckets and their counts; `None` when its histogram can't be read.
pub(super) fn buckets(document: &DistributionPart) -> Option<BTreeMap<u64, u64>> {
    document.decode_histogram().ok().map(|histogram| buckets_of(&histogram))
}

/// The buckets of a histogram by their values, and their counts.
pub(super) fn buckets_of(histogram: &Histogram<u64>) -> BTreeMap<u64, u64> {
    histogram
        .iter_recorded()
        .map(|bucket| {
            let value_ns = histogram.highest_equivalent(bucket.value_iterated_to());
            (value_ns, bucket.count_since_last_iteration())
        })
        .collect()
}
