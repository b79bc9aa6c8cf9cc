//! What became of the objectives of a run: the words and figures of the report.

pub mod judge;

use plan::slo::PercentileOf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of the objectives of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slo {
    /// Missed if one is missed, else undecided if one is undecided, else met.
    pub judgement: Judgement,
    /// Each objective, in the plan's order.
    pub objectives: Vec<JudgedObjective>,
}

impl Slo {
    /// What became of them together; there is at least one.
    ///
    /// # Panics
    /// Without one.
    pub fn new(objectives: Vec<JudgedObjective>) -> Slo {
        let worst = objectives.iter().map(|objective| objective.judgement).max();
        Slo { judgement: worst.expect("there is at least one objective"), objectives }
    }
}

impl JudgedObjective {
    /// The judgement by its figures: on which side of the bound the interval is.
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
                // No metric of another name is judged.
                let quantile = percentile.map_or(f64::NAN, PercentileOf::quantile);
                match self.beyond_interval {
                    Some(ends) => (ends.map(Some), 1.0 - quantile),
                    // Too short for that share; the percentile may be known on the side that tells.
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

/// Whether an objective holds, at a confidence of 95 %.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// The whole interval is on the right side of the bound; of a percentile, that of the share
    /// beyond.
    Met,
    /// The interval holds the bound, or isn't known on the side that would tell.
    Undecided,
    /// The whole interval is on the wrong side.
    Missed,
}

/// One objective with its figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedObjective {
    /// What is bounded: `p99`, `mean`, `max`, `errors` or `rate`.
    pub metric: String,
    /// Unit of the numbers below: `us`, or `share` of the intended requests; of `rate`, how many of
    /// them were answered before the end of the window.
    pub unit: String,
    /// What it has to stay below; what `rate` has to reach.
    pub bound: f64,
    /// What it was; `None` below the number of values that it takes.
    pub figure: Option<f64>,
    /// Its 95 % confidence interval, `[low, high]`, each end where it is known. A maximum is its
    /// own, and the rate has none: they are those of this run. Above a mean and a maximum nothing
    /// is known where requests were given up without an answer, nor above a mean of which
    /// `may_lie_above` is set.
    pub interval: [Option<f64>; 2],
    /// How many values the whole interval would take where there are too few.
    pub needed: Option<u64>,
    /// How long the window would have to be, s, where it is too short for what the values depend
    /// on.
    pub needed_s: Option<f64>,
    /// Of a mean: so much of the spread is one request's that the true one may lie far above,
    /// however many requests there are.
    pub may_lie_above: bool,
    /// Of a percentile: which share of the requests reached the bound, took longer, or was given up
    /// without an answer.
    pub beyond: Option<f64>,
    /// The 95 % confidence interval of that share, by which a percentile is judged; without one, by
    /// its own.
    pub beyond_interval: Option<[f64; 2]>,
    /// Whether it stayed below its bound, or reached it.
    pub judgement: Judgement,
}
