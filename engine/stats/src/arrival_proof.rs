//! The proof of arrivals: whether requests were sent as planned, in number and dispersion, with one
//! line for the report.
//!
//! The digest shows that the schedule is the planned one. The **sends** are compared with the
//! intended times of the same requests, whatever chance made of these, so chance excuses nothing.
//! They are counted per millisecond, and their dispersion is taken about what the curve expects, so
//! that a ramp adds none. They are bounded by effect size: a generator that batches and wakes up
//! late does shift them, by amounts that follow from its lateness, and with enough requests any
//! shift is significant.

use std::fmt::Write as _;

use load::curve::Curve;
use plan::thresholds::Thresholds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arrivals::{ArrivalStats, Dispersed};

/// How far the sends' index of dispersion may be off that of the same requests' intended times,
/// beyond what the plan's permitted lateness explains: a twentieth of a Poisson process's index
/// lengthens no queue noticeably.
const SENDS_EFFECT: f64 = 0.05;
/// Standard deviations by which such lateness may move the sends' index of dispersion: one honest
/// window length in 370 exceeds this.
const SENDS_DEVIATIONS: f64 = 3.0;
/// Windows of the index of dispersion, ms.
const WINDOWS_MS: [u64; 3] = [1, 10, 100];
/// The window length that shows whether constant arrivals were sent evenly: shorter ones would
/// mostly measure lateness, longer ones would hide it.
const EVEN_WINDOW_MS: u64 = 10;
/// The fewest arrivals to judge.
const ARRIVALS_MIN: u64 = 100;
/// The fewest windows whose index of dispersion is judged and not merely reported.
const WINDOWS_MIN: u64 = 100;

/// The planned load of a run, and its report's counts.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Rate over time of the whole plan.
    pub curve: Curve,
    /// Where the window began, ns since the epoch.
    pub from_ns: u64,
    /// Where the schedule ended, ns since the epoch: the plan's end, or that of an interrupted run.
    pub until_ns: u64,
    /// How they were to be spaced.
    pub arrivals: plan::Arrivals,
    /// The share of the whole that was offered: the agents' shares together.
    pub fraction: f64,
    /// Requests intended in the window.
    pub intended: u64,
    /// Of these, sent before its end.
    pub sent_in_window: u64,
    /// Of these, never sent for lack of a connection: errors, and no fault of the pace.
    pub unconnected: u64,
    /// Requests that may be between due and sent when the window ends.
    pub at_the_edge: f64,
}

/// A figure and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// The figure; `None` if there was too little data to compute it.
    pub value: Option<f64>,
    /// The lowest and highest permitted value; `None` if it is only reported, not judged.
    pub within: Option<[f64; 2]>,
}

/// The index of dispersion of counts about the expected ones, over windows of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DispersionProof {
    /// Length of a window, ms.
    pub window_ms: u64,
    /// Whole windows counted, of the last 60 s.
    pub windows: u64,
    /// Index of the sent requests' intended times, to compare `sent` with.
    pub due: Option<f64>,
    /// Index of the times when they were sent.
    pub sent: Figure,
}

/// A run's arrivals compared with the planned ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArrivalProof {
    /// The planned process.
    pub arrivals: plan::Arrivals,
    /// The planned rate, requests per second over all shards; the mean if it changes.
    #[serde(rename = "rate_per_s")]
    pub rate: f64,
    /// Requests intended in the window.
    pub intended: u64,
    /// Of these, sent before its end.
    pub sent: u64,
    /// Index of dispersion of counts: about 1 for Poisson, 0 for constant arrivals.
    pub dispersion: Vec<DispersionProof>,
    /// Requests sent before the end of the window, over those intended in it.
    pub sent_over_intended: Figure,
    /// True if there were enough arrivals to judge, and each judged figure was within its bounds.
    pub as_planned: bool,
    /// The failures, one sentence for each figure. Empty with `as_planned` false if there were too
    /// few arrivals.
    pub failed: Vec<String>,
}

impl ArrivalStats {
    /// Judges these arrivals, merged over all shards, against the plan.
    pub fn summary(&self, offer: &Offer, bounds: &Thresholds) -> ArrivalProof {
        let judged = ARRIVALS_MIN <= offer.intended;
        let expected = |from_ns, to_ns| offer.curve.expected(from_ns, to_ns);
        let dispersion = WINDOWS_MS.map(|window_ms| {
            let found = self.dispersion(window_ms, offer.until_ns, expected);
            let Dispersed { windows, due, sent } = found;
            let is_shown =
                offer.arrivals != plan::Arrivals::Constant || window_ms == EVEN_WINDOW_MS;
            let judged = judged && is_shown && WINDOWS_MIN <= windows;
            let sent = Figure { value: sent, within: judged.then_some([0.0, 0.0]) };
            DispersionProof { window_ms, windows, due, sent }
        });
        let mut proof = ArrivalProof {
            arrivals: offer.arrivals,
            rate: offer.per_second(),
            intended: offer.intended,
            sent: offer.sent_in_window,
            dispersion: dispersion.into(),
            sent_over_intended: offer.sent_over_intended(judged, bounds.unsent),
            as_planned: false,
            failed: Vec::new(),
        };
        proof.judge(bounds);
        proof
    }
}

impl Offer {
    /// The planned requests per second, on average.
    fn per_second(&self) -> f64 {
        self.curve.mean_per_second(self.from_ns, self.until_ns) * self.fraction
    }

    /// `unsent` is the share that may be missing.
    fn sent_over_intended(&self, judged: bool, unsent: f64) -> Figure {
        let intended = self.intended as f64;
        let value = (0.0 < intended).then(|| self.sent_in_window as f64 / intended);
        let missing = (unsent * intended).max(self.at_the_edge) + self.unconnected as f64;
        let within = judged.then(|| [1.0 - missing / intended, 1.0]);
        Figure { value, within }
    }
}

impl Figure {
    /// The figure's failure; `None` if there is none, or if it isn't judged.
    fn failure(&self, name: &str) -> Option<String> {
        let [low, high] = self.within?;
        let value = match self.value {
            Some(value) if low <= value && value <= high => return None,
            Some(value) => short(value),
            None => "unknown".to_owned(),
        };
        Some(format!("{name} is {value}, not within {} to {}", short(low), short(high)))
    }
}

impl ArrivalProof {
    /// True if there were too few arrivals to judge.
    pub fn too_few(&self) -> bool {
        self.intended < ARRIVALS_MIN
    }

    /// The summary line for the report: as planned, with the figures; or not, with the failed ones.
    /// `rate_changes`: the plan has stages of several rates.
    pub fn line(&self, rate_changes: bool) -> String {
        let process = match (self.arrivals, rate_changes) {
            (plan::Arrivals::Poisson, false) => format!("Poisson({}/s)", self.rate),
            (plan::Arrivals::Constant, false) => format!("constant({}/s)", self.rate),
            (plan::Arrivals::Poisson, true) => {
                format!("Poisson at the rates of the stages (mean {}/s)", self.rate)
            }
            (plan::Arrivals::Constant, true) => {
                format!("constant at the rates of the stages (mean {}/s)", self.rate)
            }
            (plan::Arrivals::Log, _) => format!("those of the log ({}/s)", self.rate),
        };
        if self.too_few() {
            return format!(
                "too few arrivals to tell whether they were {process} as planned (n = {}, need {ARRIVALS_MIN})",
                self.intended
            );
        }
        if !self.as_planned {
            return format!("arrivals were not {process} as planned: {}", self.failed.join("; "));
        }
        let mut line = format!("arrivals were {process} as planned: n = {}", self.intended);
        let mut add = |name: &str, figure: Figure| {
            if let Some(value) = figure.value {
                write!(line, ", {name} {}", short(value)).expect("writing to a string can't fail");
            }
        };
        for dispersion in &self.dispersion {
            // By its own, a log's figure tells nothing: any is possible.
            let due = dispersion.due.filter(|_| self.arrivals == plan::Arrivals::Log);
            let beside = due.map_or(String::new(), |due| format!(" (of the log {})", short(due)));
            add(&format!("dispersion at {} ms{beside}", dispersion.window_ms), dispersion.sent);
        }
        add("sent/intended", self.sent_over_intended);
        line
    }

    /// Judges the sends by the intended times of these requests: fills in their bounds,
    /// `as_planned` and `failed`.
    pub fn judge(&mut self, bounds: &Thresholds) {
        let quantum_ms = bounds.lateness_floor_us / 1e3;
        for DispersionProof { window_ms, windows, due, sent } in &mut self.dispersion {
            let due = due.unwrap_or(0.0);
            let within = match self.arrivals {
                // Lateness carries a share q of the arrivals into the next of m windows. However
                // many arrivals each window has, that moves the index with a deviation of
                // 2·√(2q/m).
                plan::Arrivals::Poisson | plan::Arrivals::Log => {
                    let moved = (quantum_ms / *window_ms as f64).min(1.0);
                    let deviation = 2.0 * (2.0 * moved / (*windows).max(1) as f64).sqrt();
                    // A log's bursts are moved as wholes, and shift a large index by more.
                    let off = (SENDS_EFFECT + SENDS_DEVIATIONS * deviation) * due.max(1.0);
                    [(due - off).max(0.0), due + off]
                }
                plan::Arrivals::Constant => [0.0, due + SENDS_EFFECT],
            };
            sent.within = sent.within.map(|_| within);
        }
        self.failed = self.failures();
        self.as_planned = !self.too_few() && self.failed.is_empty();
    }

    fn failures(&self) -> Vec<String> {
        let dispersion = self.dispersion.iter().map(|dispersion| {
            let name = format!("dispersion of the sends at {} ms", dispersion.window_ms);
            dispersion.sent.failure(&name)
        });
        let missing = self.sent_over_intended.failure("sent/intended");
        dispersion.chain([missing]).flatten().collect()
    }
}

/// A figure for people: four significant digits.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.abs() < 1e-3 {
        return format!("{value:.1e}");
    }
    #[expect(clippy::cast_possible_truncation, reason = "the logarithm of a f64 is below 309")]
    #[expect(clippy::cast_sign_loss, reason = "held at zero")]
    let digits = (3.0 - value.abs().log10().floor()).max(0.0) as usize;
    let text = format!("{value:.digits$}");
    match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests;
