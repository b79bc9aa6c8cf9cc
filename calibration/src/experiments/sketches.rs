//! Sketches: HdrHistogram and t-digest of the same raw samples, pooled and merged.

use std::hint::black_box;
use std::time::Instant;

use engine::stats::distribution::Distribution;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde::Serialize;
use tdigest::TDigest;

use crate::lab::latencies::{Requests, quantile};
use crate::lab::plot::{Axis, Line, lines};
use crate::lab::{Computed, Lab, LabError, Plot};

/// The percentiles that are compared.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
/// Bytes of a centroid: its mean and its weight.
const CENTROID_BYTES: usize = 16;
/// Bytes of a bucket's count.
const COUNT_BYTES: usize = 8;

#[derive(Serialize)]
struct Figures {
    samples: u64,
    rows: Vec<Row>,
    bucket_parts: f64,
    bucket_percent: f64,
    /// The histogram's error of largest magnitude, with its sign.
    hdr_worst_percent: f64,
    hdr_buckets_differ: u64,
    hdr: Cost,
    digest: Cost,
}

/// One percentile: exact, and each sketch's error.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    q: f64,
    exact_ms: f64,
    hdr_ms: f64,
    hdr_off_percent: f64,
    hdr_merged_off_percent: f64,
    digest_ms: f64,
    digest_off_percent: f64,
    digest_merged_off_percent: f64,
}

/// The cost of a sketch.
#[derive(Serialize)]
struct Cost {
    memory_bytes: usize,
    stored_bytes: usize,
    record_ns: f64,
    merge_us: f64,
}

/// Makes the sketches.
pub(super) fn compute(lab: &mut Lab) -> Result<Computed, LabError> {
    let requests = lab.requests("together")?;
    let parts: Vec<Vec<u64>> = requests.iter().map(latencies_ns).collect();
    let mut exact_ms: Vec<f64> = parts.iter().flatten().map(|ns| *ns as f64 / 1e6).collect();
    exact_ms.sort_by(f64::total_cmp);
    if exact_ms.is_empty() {
        return Err(LabError::figures("no request has a latency"));
    }
    let bucket_parts = lab.setting("bucket_parts")?;
    let fills = lab.count("fills")? as usize;
    let (histograms, hdr) = of_histograms(&parts, fills)?;
    let (digests, digest) = of_digests(&parts, lab.count("centroids")? as usize, fills);
    let row = |(name, q): (&'static str, f64)| {
        let exact_ms = quantile(&exact_ms, q);
        let hdr_ms = |of: &Distribution| of.quantile_ns(q).map_or(f64::NAN, |ns| ns as f64 / 1e6);
        let digest_ms = |of: &TDigest| of.estimate_quantile(q).unwrap_or(f64::NAN) / 1e6;
        let off = |ms: f64| (ms / exact_ms - 1.0) * 100.0;
        Row {
            name,
            q,
            exact_ms,
            hdr_ms: hdr_ms(&histograms.pooled),
            hdr_off_percent: off(hdr_ms(&histograms.pooled)),
            hdr_merged_off_percent: off(hdr_ms(&histograms.merged)),
            digest_ms: digest_ms(&digests.pooled),
            digest_off_percent: off(digest_ms(&digests.pooled)),
            digest_merged_off_percent: off(digest_ms(&digests.merged)),
        }
    };
    let rows: Vec<Row> = PERCENTILES.into_iter().map(row).collect();
    let errors = rows.iter().map(|row| row.hdr_off_percent);
    let worst = errors.max_by(|one, other| one.abs().total_cmp(&other.abs()));
    let figures = Figures {
        samples: exact_ms.len() as u64,
        bucket_parts,
        bucket_percent: 100.0 / bucket_parts,
        hdr_worst_percent: worst.unwrap_or(f64::NAN),
        hdr_buckets_differ: differ(&histograms.pooled, &histograms.merged),
        hdr,
        digest,
        rows,
    };
    let plots = vec![plot(&figures.rows)?];
    Ok(Computed::new(&figures, plots))
}

fn latencies_ns(of: &Requests) -> Vec<u64> {
    of.requests.iter().map(|request| request.corrected_ns()).collect()
}

/// A sketch of all samples, and one merged from those of the agents.
struct Sketches<T> {
    pooled: T,
    merged: T,
}

fn of_histograms(
    parts: &[Vec<u64>],
    fills: usize,
) -> Result<(Sketches<Distribution>, Cost), LabError> {
    let fill = |values: &mut dyn Iterator<Item = u64>| {
        let mut distribution = Distribution::new();
        values.for_each(|ns| distribution.record(ns));
        distribution
    };
    let samples = parts.iter().map(Vec::len).sum::<usize>();
    let (pooled, fill_ns) = median_of(fills, || fill(&mut parts.iter().flatten().copied()));
    let each: Vec<Distribution> =
        parts.iter().map(|part| fill(&mut part.iter().copied())).collect();
    let (merged, merge_ns) = median_of(fills, || {
        let mut merged = Distribution::new();
        each.iter().for_each(|one| merged.merge(one));
        merged
    });
    let mut stored = Vec::new();
    V2DeflateSerializer::new()
        .serialize(&merged.histogram(), &mut stored)
        .map_err(|error| LabError::figures(format!("the histogram can't be stored ({error:?})")))?;
    let cost = Cost {
        memory_bytes: merged.histogram().distinct_values() * COUNT_BYTES,
        stored_bytes: stored.len(),
        record_ns: fill_ns / samples as f64,
        merge_us: merge_ns / 1e3,
    };
    Ok((Sketches { pooled, merged }, cost))
}

fn of_digests(parts: &[Vec<u64>], centroids: usize, fills: usize) -> (Sketches<TDigest>, Cost) {
    let fill = |values: &mut dyn Iterator<Item = u64>| {
        let mut digest = TDigest::new_with_size(centroids);
        digest.extend_values(values.map(|ns| ns as f64));
        digest.flush();
        digest
    };
    let samples = parts.iter().map(Vec::len).sum::<usize>();
    let (pooled, fill_ns) = median_of(fills, || fill(&mut parts.iter().flatten().copied()));
    let each: Vec<TDigest> = parts.iter().map(|part| fill(&mut part.iter().copied())).collect();
    let (merged, merge_ns) = median_of(fills, || TDigest::merge_digests(each.clone()));
    let bytes = merged.centroids().len() * CENTROID_BYTES;
    let cost = Cost {
        memory_bytes: bytes,
        stored_bytes: bytes,
        record_ns: fill_ns / samples as f64,
        merge_us: merge_ns / 1e3,
    };
    (Sketches { pooled, merged }, cost)
}

/// The result of `make`, and the median of its times, ns.
fn median_of<T>(times: usize, make: impl Fn() -> T) -> (T, f64) {
    let timed = || {
        let started = Instant::now();
        let made = black_box(make());
        (made, started.elapsed().as_secs_f64() * 1e9)
    };
    let (first, ns) = timed();
    let mut all = vec![ns];
    all.extend((1..times).map(|_| timed().1));
    all.sort_by(f64::total_cmp);
    (first, all[all.len() / 2])
}

/// The number of buckets whose counts differ.
fn differ(one: &Distribution, other: &Distribution) -> u64 {
    let beyond = |one: &Distribution, other: &Distribution| {
        let (one, other) = (one.histogram(), other.histogram());
        one.iter_recorded()
            .filter(|bucket| other.count_at(bucket.value_iterated_to()) != bucket.count_at_value())
            .count() as u64
    };
    beyond(one, other).max(beyond(other, one))
}

fn plot(rows: &[Row]) -> Result<Plot, LabError> {
    let line = |name: &str, dashed, off: fn(&Row) -> f64| {
        let points = rows.iter().map(|row| (1.0 / (1.0 - row.q), off(row).abs()));
        Line { name: name.to_owned(), points: points.collect(), dashed, ..Line::default() }
    };
    let of_lines = vec![
        line("HdrHistogram", false, |row| row.hdr_off_percent),
        line("t-digest", false, |row| row.digest_off_percent),
        line("t-digest, merged", true, |row| row.digest_merged_off_percent),
    ];
    let (x, y) =
        (Axis::percentiles("percentile"), Axis::linear("off from the exact percentile, %"));
    lines("error.svg", "error of two sketches", x, y, of_lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tail of seven octaves.
    fn parts() -> Vec<Vec<u64>> {
        let value = |at: u64| 1_000_000 + at * at * 17;
        (0..3).map(|part| (0..3_000).map(|at| value(at * 3 + part)).collect()).collect()
    }

    #[test]
    fn a_histogram_is_never_below_and_within_a_bucket_merged_or_not() {
        let parts = parts();
        let mut exact: Vec<f64> = parts.iter().flatten().map(|ns| *ns as f64).collect();
        exact.sort_by(f64::total_cmp);
        let (sketches, cost) = of_histograms(&parts, 1).expect("made");
        assert_eq!(differ(&sketches.pooled, &sketches.merged), 0);
        for (name, q) in PERCENTILES {
            let exact = quantile(&exact, q);
            let off = sketches.merged.quantile_ns(q).expect("samples") as f64 / exact - 1.0;
            assert!((0.0..=1.0 / 1_024.0).contains(&off), "{name}: {off}");
        }
        assert!(0 < cost.stored_bytes && cost.stored_bytes < cost.memory_bytes);
    }

    #[test]
    fn a_difference_in_one_value_is_found() {
        let (sketches, _) = of_histograms(&parts(), 1).expect("made");
        let mut other = sketches.merged;
        other.record(123_456_789);
        assert_eq!(differ(&sketches.pooled, &other), 1);
        assert_eq!(differ(&other, &sketches.pooled), 1);
    }

    #[test]
    fn a_digest_keeps_to_its_size_and_finds_the_median() {
        let parts = parts();
        let mut exact: Vec<f64> = parts.iter().flatten().map(|ns| *ns as f64).collect();
        exact.sort_by(f64::total_cmp);
        let (sketches, cost) = of_digests(&parts, 100, 1);
        assert_eq!(sketches.merged.count(), 9_000.0);
        assert!(cost.memory_bytes <= 100 * CENTROID_BYTES, "{}", cost.memory_bytes);
        let median = sketches.merged.estimate_quantile(0.5).expect("samples");
        assert!((median / quantile(&exact, 0.5) - 1.0).abs() < 0.02, "{median}");
    }
}
