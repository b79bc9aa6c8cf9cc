//! The table of reported percentiles, with their names.

/// A named quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// Its name, in texts and as a key of documents: `p99.9`.
    pub label: &'static str,
    /// The quantile itself, between 0 and 1.
    pub q: f64,
}

/// The percentiles reported for each distribution.
pub const PERCENTILES: [Quantile; 7] = [
    Quantile { label: "p50", q: 0.5 },
    Quantile { label: "p75", q: 0.75 },
    Quantile { label: "p90", q: 0.9 },
    Quantile { label: "p95", q: 0.95 },
    Quantile { label: "p99", q: 0.99 },
    Quantile { label: "p99.9", q: 0.999 },
    Quantile { label: "p99.99", q: 0.9999 },
];

/// How many of them, from the first, have a confidence interval.
pub const WITH_INTERVAL: usize = 6;
