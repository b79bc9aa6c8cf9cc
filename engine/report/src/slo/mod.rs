//! The judgement of a run's objectives, as the report states it.

pub mod judge;
pub mod over_time;

use plan::slo::PercentileOf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The judgement of a run's objectives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slo {
    /// Missed if one is missed, else undecided if one is undecided, else met.
    pub judgement: Judgement,
    /// Each objective: the plan's in their order, then those of its scenarios.
    pub objectives: Vec<JudgedObjective>,
}

impl Slo {
    /// Combines their judgements; there is at least one.
    ///
    /// # Panics
    /// Without one.
    pub fn new(objectives: Vec<JudgedObjective>) -> Slo {
        let worst = objectives.iter().map(|objective| objective.judgement).max();
        Slo { judgement: worst.expect("there is at least one objective"), objectives }
    }
}

impl JudgedObjective {
    /// The judgement by its figures: which side of the bound the interval is on.
    pub fn judge(&self) -> Judgement {
        let ([low, high], below) = match self.metric.as_str() {
            "rate" => {
                let reached = self.figure.map(|share| self.bound <= share);
                return match reached {
                    Some(true) => Judgement::Met,
                    Some(false) => Judgement::Missed,
                    None => Judgement::Undecided,
                };
            }
            "max" | "mean" | "errors" => (self.interval, self.bound),
            name => {
                let percentile = name.strip_prefix('p').and_then(|number| number.parse().ok());
                // No metric with another name has one.
                let quantile = percentile.map_or(f64::NAN, PercentileOf::quantile);
                match self.beyond_interval {
                    Some(ends) => (ends.map(Some), 1.0 - quantile),
                    // The run is too short for that share; the percentile may still be known on the
                    // side that matters.
                    None => (self.interval, self.bound),
                }
            }
        };
        if high.is_some_and(|high| high < below) {
            Judgement::Met
        } else if low.is_some_and(|low| below <= low) {
            Judgement::Missed
        } else {
            Judgement::Undecided
        }
    }
}

/// Whether an objective is met, at a confidence of 95 %.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// The whole interval is on the right side of the bound; for a percentile, the interval of the
    /// share beyond it.
    Met,
    /// The interval contains the bound, or is unknown on the side that decides.
    Undecided,
    /// The whole interval is on the wrong side.
    Missed,
}

/// One objective with its figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedObjective {
    /// The name of the scenario or the stage whose requests must meet it; `None` for all requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The metric: `p99`, `mean`, `max`, `errors` or `rate`.
    pub metric: String,
    /// Unit of the numbers below: `us`, or `share` of the intended requests; for `rate`, the share
    /// of them answered before the end of the window.
    pub unit: String,
    /// The value to stay below; for `rate`, the value to reach.
    pub bound: f64,
    /// The measured value; `None` if there are too few values.
    pub figure: Option<f64>,
    /// Its 95 % confidence interval, `[low, high]`, each end where it is known. A maximum is its
    /// own interval, and the rate has none: they describe only this run. A mean and a maximum have
    /// no known upper end if requests were given up without an answer, nor has a mean with
    /// `may_lie_above`. A mean has none, and lacks nothing, if latencies were above 60 s: how much
    /// these differ isn't known.
    pub interval: [Option<f64>; 2],
    /// The number of values that the whole interval takes, if there are too few.
    pub needed: Option<u64>,
    /// The window length, s, that the whole interval takes, if it is too short for values that
    /// depend on each other.
    pub needed_s: Option<f64>,
    /// For a mean: a single request makes up so much of the spread that the true mean may lie far
    /// above, however many requests there are.
    pub may_lie_above: bool,
    /// For a percentile: the share of requests that reached or exceeded the bound, or were given up
    /// without an answer.
    pub beyond: Option<f64>,
    /// The 95 % confidence interval of that share, by which a percentile is judged; without one, it
    /// is judged by its own. Its upper end is 1 if the percentile has none, unless all requests were
    /// far below the bound. In a closed loop it includes the requests left out by users who waited
    /// for slow responses, as far as these would have exceeded the bound.
    pub beyond_interval: Option<[f64; 2]>,
    /// The judgement.
    pub judgement: Judgement,
}
