//! The change of one figure of a comparison: of a percentile, and of the share of errors.

use engine::stats::comparison::{Ratio, ShareDifference};
use engine::stats::percentiles::Quantile;
use serde::{Deserialize, Serialize};

/// The probability that all intervals of a comparison are right.
pub const CONFIDENCE: f64 = 0.99;
/// A difference of the share of errors that counts as none.
const ERRORS_SAME: f64 = 0.001;

/// The change of a figure from the first side to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Lower, beyond the margin.
    Better,
    /// Within the margin.
    Same,
    /// Any of the others is possible.
    Undecided,
    /// Too few values; such a figure doesn't affect the overall result.
    Unknown,
    /// Higher, beyond the margin.
    Worse,
}

/// The change of a percentile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PercentileChange {
    /// Its name, `p99.9`.
    pub percentile: String,
    /// Unit of the two values: `us`.
    pub unit: String,
    /// On the baseline; `None` with too few values.
    pub a: Option<f64>,
    /// On the other side.
    pub b: Option<f64>,
    /// The second over the first.
    pub ratio: Option<f64>,
    /// The interval of the ratio, each end if known.
    pub interval: [Option<f64>; 2],
    /// The smallest ratio above 1 that would have been called in four comparisons of five.
    pub shows: Option<f64>,
    /// The largest ratio between two runs of one side; `None` if no side has two runs with enough
    /// values each.
    pub noise: Option<f64>,
    /// The window that the interval would need if one is too short for it, s.
    #[serde(default)]
    pub needed_s: Option<f64>,
    /// The number of pairs of slices in which both have enough values; `None` for runs, which
    /// aren't paired.
    pub pairs: Option<usize>,
    /// The change.
    pub change: Change,
}

/// The change of the errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorsChange {
    /// Their share on the baseline; for slices, the mean of theirs.
    pub a: f64,
    /// On the other side.
    pub b: f64,
    /// The second less the first.
    pub difference: f64,
    /// The interval of the difference.
    pub interval: [f64; 2],
    /// The change.
    pub change: Change,
}

impl PercentileChange {
    /// The change of a percentile by its estimated ratio, µs, on sides of which those `known` have
    /// enough values for it. Changes by less than a factor of `least` aren't called.
    pub(crate) fn new(
        quantile: &Quantile,
        found: Option<Ratio>,
        known: [bool; 2],
        least: f64,
        noise: Option<f64>,
    ) -> PercentileChange {
        let value = |at: usize| found.filter(|_| known[at]).map(|found| found.values[at]);
        let interval = found.map_or([None; 2], |found| found.interval);
        let change = match called(interval, least) {
            // One end of an interval may be known without the other.
            Change::Undecided if known != [true; 2] => Change::Unknown,
            change => change,
        };
        PercentileChange {
            percentile: quantile.label.to_owned(),
            unit: "us".to_owned(),
            a: value(0),
            b: value(1),
            ratio: found.filter(|_| known == [true; 2]).map(|found| found.ratio),
            interval,
            shows: found.and_then(|found| found.shows).map(|shows| shows * least),
            noise,
            needed_s: found.and_then(|found| found.needed_s),
            pairs: None,
            change,
        }
    }
}

/// The change by an interval; changes by less than a factor of `least` aren't called.
pub fn called([low, high]: [Option<f64>; 2], least: f64) -> Change {
    match () {
        () if low.is_some_and(|low| least < low) => Change::Worse,
        () if high.is_some_and(|high| high < 1.0 / least) => Change::Better,
        () if low.is_some_and(|low| 1.0 / least <= low)
            && high.is_some_and(|high| high <= least) =>
        {
            Change::Same
        }
        () if low.is_none() && high.is_none() => Change::Unknown,
        () => Change::Undecided,
    }
}

impl PercentileChange {
    /// What its own figures make of it, if changes by less than a factor of `least` aren't called.
    pub(crate) fn again(&self, least: f64) -> Change {
        match called(self.interval, least) {
            Change::Undecided if self.a.is_none() || self.b.is_none() => Change::Unknown,
            change => change,
        }
    }
}

impl ErrorsChange {
    /// The same, as its shares and its interval make it.
    pub(crate) fn again(&self) -> ErrorsChange {
        let ErrorsChange { a, b, interval, .. } = *self;
        errors(ShareDifference { shares: [a, b], difference: b - a, interval })
    }
}

/// The change of the share of requests without a good answer.
pub fn errors(found: ShareDifference) -> ErrorsChange {
    let ShareDifference { shares, difference, interval } = found;
    let interval = interval.map(|end| end.clamp(-1.0, 1.0));
    let [low, high] = interval;
    let change = match () {
        () if ERRORS_SAME < low => Change::Worse,
        () if high < -ERRORS_SAME => Change::Better,
        () if -ERRORS_SAME <= low && high <= ERRORS_SAME => Change::Same,
        () => Change::Undecided,
    };
    ErrorsChange { a: shares[0], b: shares[1], difference, interval, change }
}
