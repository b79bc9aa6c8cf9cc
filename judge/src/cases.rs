//! The cases: each a target, a load, and what must hold of the figures that a tool prints.

mod arrivals;
mod failures;
mod floor;
mod freeze;
mod http2;
mod mix;
mod own;
mod percentiles;
mod ramp;
mod rate;
mod replay;
mod requests;
mod slow;
mod tail;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use target::{Ledger, TargetConfig};

pub(crate) use own::said;
pub(crate) use replay::log;

use crate::figures::Figures;
use crate::process::Conditions;
use crate::quiet::Noise;
use crate::tool::{Load, Mode, Tool};
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
    /// What the maintainers of a tool could reply; may be empty.
    pub reply: &'static str,
    /// The load.
    pub load: Load,
    /// Which of its commands a tool runs, or why it isn't judged.
    pub mode: fn(&Tool) -> Result<Mode, String>,
    /// The figures without which nothing can be said, of which one is enough; none if the target's
    /// ledger alone decides.
    pub figures: &'static [&'static str],
    /// The target, for a run of so many seconds.
    pub target: fn(TargetConfig, f64) -> TargetConfig,
    /// What the tool is run under, for a run of so many seconds.
    pub conditions: fn(f64) -> Conditions,
    /// True if a tool that exits with an error says what the case is about.
    pub may_fail: bool,
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
    /// True if it printed that its figures are in doubt.
    pub warned: bool,
    /// How long it was stopped, each time.
    pub stopped: &'a [Duration],
}

/// A figure, the truth, and the bounds within which the figure is right.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// If it is out of its bounds: how late the machine must have been to be the reason, ms; `None`
    /// if it can't be.
    #[serde(skip)]
    pub excused_ms: Option<f64>,
}

/// How long before the first request the first second begins, ms.
const BEFORE_MS: usize = 10;

/// All cases, in the order of the table.
pub static CASES: [Case; 24] = [
    rate::RATE,
    rate::LOW_RATE,
    arrivals::ARRIVALS,
    ramp::RAMP,
    mix::MIX,
    replay::REPLAY,
    requests::REQUESTS,
    failures::FAILURES,
    failures::RESETS,
    failures::TORN,
    failures::REPEATED,
    freeze::FREEZE,
    freeze::PAUSES,
    tail::TAIL,
    tail::BIMODAL,
    floor::FLOOR,
    floor::NULL,
    slow::SLOW,
    own::STOPPED,
    own::QUOTA,
    own::FILES,
    http2::GOAWAY,
    http2::ONE_STREAM,
    http2::REFUSED,
];

impl Case {
    /// What a case is unless it has its own: any tool, closed first, a target that answers at once.
    const NONE: Case = Case {
        name: "",
        holds: "",
        truth: "",
        tolerance: "",
        reply: "",
        load: Load::at(0.0, 0, 0),
        mode: closed_first,
        figures: &[],
        target: |config, _| config,
        conditions: |_| Conditions::default(),
        may_fail: false,
        judge: |_| Vec::new(),
    };
}

impl Judged<'_> {
    /// When the first request arrived, ms of the ledger's clock.
    fn first_ms(&self) -> u64 {
        let arrivals = &self.ledger.arrivals_per_ms;
        let before = arrivals.counts.iter().take_while(|count| **count == 0).count();
        arrivals.first_ms + before as u64
    }

    /// The requests that arrived in a second against a truth; a machine that is late moves them to
    /// the next. Seconds count from a little before the first request, so that one that comes after
    /// others of its moment begins none.
    fn in_second(&self, second: u32, truth: f64, reach: f64) -> Finding {
        let arrivals = &self.ledger.arrivals_per_ms;
        let first = usize::try_from(self.first_ms() - arrivals.first_ms).unwrap_or_default();
        let begin = first.saturating_sub(BEFORE_MS) + second as usize * 1_000;
        let counts = arrivals.counts.iter().skip(begin).take(1_000);
        let found = f64::from(counts.sum::<u32>());
        let band = Band { low: (truth - reach).max(0.0), truth, high: truth + reach };
        let excused_ms = Some(((found - truth).abs() - reach) / found.max(truth) * 1e3);
        let figure = format!("requests in second {}", second + 1);
        Finding { excused_ms, ..Finding::count(&figure, found, band) }
    }
}

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
        self.low.is_none_or(|low| low <= self.found)
            && self.high.is_none_or(|high| self.found <= high)
    }

    /// True if it is out of its bounds, and this noise may be why.
    pub fn may_be_disturbed(&self, noise: &Noise) -> bool {
        !self.holds() && self.excused_ms.is_some_and(|excused_ms| noise.may_delay(excused_ms))
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

/// A rate, if its latencies count from when requests were due.
fn at_intended_times(tool: &Tool) -> Result<Mode, String> {
    let why = match (tool.has(Mode::Open), tool.is_corrected) {
        (true, true) => return Ok(Mode::Open),
        (true, false) => {
            "its latency counts from when a request was sent, not from when it was due: its \
             percentiles leave out that users wait"
        }
        (false, _) => {
            "a closed loop sends nothing while it waits: its percentiles are those of its \
             connections, not of users who come at a rate"
        }
    };
    Err(why.to_owned())
}

/// The mode, if the tool has it.
fn needs(tool: &Tool, mode: Mode, why_not: &str) -> Result<Mode, String> {
    tool.has(mode).then_some(mode).ok_or_else(|| why_not.to_owned())
}

/// The answers that it counts, of which so many last ones of each connection may still be under way.
fn answered(of: &Judged, open_each: f64) -> Option<Finding> {
    let truth = of.ledger.answered as f64;
    let low = truth - open_each * connections(of);
    let band = Band { low, truth, high: truth };
    of.figures.answered.map(|found| Finding::count("answered", found, band))
}

fn connections(of: &Judged) -> f64 {
    f64::from(of.load.connections)
}
