//! The cases: each a target, a load, and what must hold of the figures that a tool prints.

mod counts;
mod latencies;
mod spacing;

use serde::Serialize;
use target::{Ledger, TargetConfig};

use crate::figures::Figures;
use crate::tool::{Load, Mode, PERCENTILES, Tool};
use crate::truth::Band;

/// A case. All times of its target follow from the length of its run, so that a quick one is the
/// same at half the length.
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// What must hold.
    pub holds: &'static str,
    /// How the truth is known.
    pub truth: &'static str,
    /// How far a figure may be from it, and why.
    pub tolerance: &'static str,
    /// The load.
    pub load: Load,
    /// Which of its commands a tool runs, or why it isn't judged.
    pub mode: fn(&Tool) -> Result<Mode, String>,
    /// The figures without which nothing can be said; one of them is enough.
    pub figures: &'static [&'static str],
    /// The target, for a run of so many seconds.
    pub target: fn(TargetConfig, f64) -> TargetConfig,
    /// Holds the figures against the truth.
    pub judge: fn(&Judged) -> Vec<Finding>,
}

/// A run that is judged.
pub struct Judged<'a> {
    /// The tool.
    pub tool: &'a Tool,
    /// What it was asked for.
    pub load: Load,
    /// What it printed.
    pub figures: &'a Figures,
    /// What the target did.
    pub ledger: &'a Ledger,
}

/// A figure, the truth, and the bounds within which the figure is right.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Which figure, with its unit.
    pub figure: String,
    /// What the tool said or did.
    pub found: f64,
    /// The truth.
    pub truth: f64,
    /// The lowest that is right; `null` if none is too low.
    pub low: Option<f64>,
    /// The highest that is right; `null` if none is too high.
    pub high: Option<f64>,
    /// If it is too high: how late the machine must have been to be the reason, ms; `None` if it
    /// can't be.
    #[serde(skip)]
    pub excused_ms: Option<f64>,
}

/// All cases, in the order of the table.
pub static CASES: [Case; 10] = [
    counts::RATE,
    counts::LOW_RATE,
    spacing::ARRIVALS,
    counts::REQUESTS,
    counts::FAILURES,
    latencies::FREEZE,
    latencies::TAIL,
    latencies::BIMODAL,
    latencies::FLOOR,
    latencies::SLOW,
];

impl Finding {
    fn count(figure: &str, found: f64, band: Band) -> Finding {
        Finding {
            figure: figure.to_owned(),
            found,
            truth: band.truth,
            low: Some(band.low),
            high: Some(band.high),
            excused_ms: None,
        }
    }

    /// True if the figure is within its bounds.
    pub fn holds(&self) -> bool {
        self.low.is_none_or(|low| low <= self.found) && !self.is_above()
    }

    fn is_above(&self) -> bool {
        self.high.is_some_and(|high| high < self.found)
    }

    /// True if it is out of its bounds, and the machine, which was so late, may be why.
    pub fn may_be_disturbed(&self, late_ms: f64) -> bool {
        self.is_above() && self.excused_ms.is_some_and(|excused_ms| excused_ms <= late_ms)
    }
}

/// A rate, if the tool can keep one.
fn at_a_rate(tool: &Tool) -> Result<Mode, String> {
    if tool.has(Mode::Open) { Ok(Mode::Open) } else { Err("it keeps no rate".to_owned()) }
}

/// A closed loop if the tool has one, else a rate.
fn closed_first(tool: &Tool) -> Result<Mode, String> {
    Ok(if tool.has(Mode::Closed) { Mode::Closed } else { Mode::Open })
}

/// What its users would see: a rate if its latencies are corrected, else as `closed_first`.
fn corrected_first(tool: &Tool) -> Result<Mode, String> {
    if tool.is_corrected && tool.has(Mode::Open) { Ok(Mode::Open) } else { closed_first(tool) }
}

/// The only figures of the cases on latency.
const LATENCY: &[&str] = &[PERCENTILES];
