//! The format of figures: times in a fitting unit, counts with separators, rates.

use std::collections::BTreeMap;

use engine::record::counts::{CountsBy, Key};
use engine::report::DistributionPart;
use engine::shard::CoarseHistogram;
pub(crate) use probe::numbers::{count, number, percent, rate, things, time};

/// The largest time in a histogram, µs. A percentile there is a lower bound if there are larger
/// values.
pub(super) const HISTOGRAM_MAX_US: f64 = engine::stats::distribution::VALUE_MAX_NS as f64 / 1e3;

/// One of a distribution's times: `n/a` if unknown, `≥ 60.0 s` if it is above the histogram.
pub(crate) fn percentile(of: &DistributionPart, us: Option<f64>) -> String {
    match us {
        None => "n/a".to_owned(),
        Some(us) if us == HISTOGRAM_MAX_US && 0 < of.overflow => format!("≥ {}", time(us)),
        Some(us) => time(us),
    }
}

/// A percentile of a run in progress: `n/a` with too few values, `< 1.15 µs` in the first bucket,
/// which has all shorter times.
pub(crate) fn coarse(of: &CoarseHistogram, quantile: f64) -> String {
    let first_ns = CoarseHistogram::from_ns(1);
    match of.known_ns(quantile) {
        None => "n/a".to_owned(),
        Some(ns) if ns < first_ns => format!("< {}", time(first_ns as f64 / 1e3)),
        Some(ns) => time(ns as f64 / 1e3),
    }
}

/// Bytes, to three figures: `1.62 MB`.
pub(crate) fn megabytes(bytes: f64) -> String {
    let megabytes = bytes / 1e6;
    let digits = match megabytes {
        few if few < 9.995 => 2,
        some if some < 99.95 => 1,
        _ => 0,
    };
    format!("{megabytes:.digits$} MB")
}

/// Bytes, to three figures in a fitting unit: `950 B`, `1.62 MB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let (number, unit) = match bytes as f64 {
        few if few < 999.5 => return format!("{bytes} B"),
        some if some < 999.5e3 => (some / 1e3, "kB"),
        some if some < 999.5e6 => (some / 1e6, "MB"),
        many => (many / 1e9, "GB"),
    };
    let digits = match number {
        few if few < 9.995 => 2,
        some if some < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$} {unit}")
}

/// Names and counts, the largest first.
pub(super) fn listed<K: Key>(counts: &CountsBy<K>) -> String {
    largest_first(counts.by_name())
}

/// The same of counts by name.
pub(super) fn largest_first(named: BTreeMap<String, u64>) -> String {
    if named.is_empty() {
        return "none".to_owned();
    }
    let mut named: Vec<(String, u64)> = named.into_iter().collect();
    // A stable sort keeps the names of equal counts in order.
    named.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let texts: Vec<String> =
        named.into_iter().map(|(name, number)| format!("{name}: {}", count(number))).collect();
    texts.join(", ")
}

/// The ratio of `larger` to `smaller`: `1.4`, `182`.
pub(crate) fn ratio(larger: f64, smaller: f64) -> String {
    let ratio = larger / smaller;
    if ratio < 9.95 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_in_progress_is_only_as_exact_as_its_buckets() {
        let mut histogram = CoarseHistogram::default();
        assert_eq!(coarse(&histogram, 0.5), "n/a");
        (0..20).for_each(|_| histogram.record(0));
        assert_eq!([0.5, 0.99].map(|quantile| coarse(&histogram, quantile)), ["< 1.15 µs", "n/a"]);
        (0..2_000).for_each(|_| histogram.record(250_000));
        assert_eq!(coarse(&histogram, 0.99), "254 µs");
    }

    #[test]
    fn rates_are_readable() {
        for (per_second, text) in
            [(0.0, "0"), (0.5, "0.5"), (333.33, "333.3"), (500.02, "500"), (20_000.6, "20,001")]
        {
            assert_eq!(rate(per_second), text);
        }
        assert_eq!((ratio(182.4, 1.0), ratio(1.41, 1.0)), ("182".to_owned(), "1.4".to_owned()));
        assert_eq!((things(1, "error"), things(2, "error")), ("1 error".into(), "2 errors".into()));
    }
}
