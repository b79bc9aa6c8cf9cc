//! The table of percentiles that reports state, by the names of each.

/// A quantile by its names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// Its key in a document: `p999`.
    pub key: &'static str,
    /// Its name in a text: `p99.9`.
    pub label: &'static str,
    /// The quantile itself, between 0 and 1.
    pub q: f64,
}

/// The percentiles that a report states of each distribution.
pub const PERCENTILES: [Quantile; 7] = [
    Quantile { key: "p50", label: "p50", q: 0.5 },
    Quantile { key: "p75", label: "p75", q: 0.75 },
    Quantile { key: "p90", label: "p90", q: 0.9 },
    Quantile { key: "p95", label: "p95", q: 0.95 },
    Quantile { key: "p99", label: "p99", q: 0.99 },
    Quantile { key: "p999", label: "p99.9", q: 0.999 },
    Quantile { key: "p9999", label: "p99.99", q: 0.9999 },
];

/// How many of them, from the first, come with a confidence interval.
pub const WITH_INTERVAL: usize = 6;
