//! Compares a run with the last calibration of its machine: how close it came to the generator's
//! own capacity, and how much of its latency is the generator's own floor.
//!
//! The command line finds the calibration and passes its figures as [`Calibrated`], which is added
//! to the report after the run, like a profile. So the engine reads no calibration files, and
//! `verify` recomputes the comparison from the report alone. A calibration isn't part of the plan:
//! it changes nothing about the load.
//!
//! A run at several rates isn't compared, since its mean rate was never offered. The calibrated
//! capacity is for small responses over the loopback, where a send does the receiver's work as
//! well; over an interface a core may get further, so a run only counts as near its capacity if a
//! core was busy too. A floor is interpolated between the measured rates: on a virtual machine,
//! cores that sleep between requests triple it from 20,000 to 1,000 requests per second.

use plan::{Model, Plan, StampSource, Wait};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;

/// The generator's limits, measured on this machine against a target that costs nothing. They hold
/// for one version of truetail, these cores and this way of waiting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibrated {
    /// When it was measured, seconds since 1970.
    pub began_s: u64,
    /// What it was measured with.
    #[serde(flatten)]
    pub of: CalibratedOf,
    /// The source of the responses' stamps.
    pub stamps: StampSource,
    /// The limit of open loops, requests per second: the highest rate that one kept up with; `None`
    /// if none did, or if other processes interfered.
    #[serde(rename = "ceiling_open_per_s")]
    pub ceiling_open: Option<f64>,
    /// The peak of closed loops, requests per second: the best that one of them reached; `None` if
    /// the generator's core wasn't the bottleneck.
    #[serde(rename = "ceiling_closed_per_s")]
    pub ceiling_closed: Option<f64>,
    /// The latency of a target that costs nothing, at ascending rates.
    pub floors: Vec<FloorAt>,
}

/// What a calibration was measured with. It doesn't apply to a run that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CalibratedOf {
    /// The version of truetail.
    pub tool_version: String,
    /// Kernel name and release.
    pub kernel: String,
    /// The processor's model name.
    pub cpu: Option<String>,
    /// The generator's cores.
    pub cores: Vec<usize>,
    /// How the generator waited.
    pub wait: Wait,
}

/// The latency of a target that costs nothing, at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FloorAt {
    /// Requests per second.
    #[serde(rename = "rate_per_s")]
    pub rate: f64,
    /// The corrected median, µs.
    #[serde(rename = "p50_us")]
    pub p50: f64,
}

/// A run compared with the last calibration of its machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldAgainst {
    /// The calibration.
    #[serde(flatten)]
    pub calibrated: Calibrated,
    /// The rate that the run sent, as a share of the calibrated capacity: of the limit for an open
    /// model, of the peak for a closed one. `None` if that is unknown or, with pipelining, not
    /// comparable.
    pub rate_of_ceiling: Option<f64>,
    /// The floor at the run's rate, µs; `None` if it is unknown, or was measured with other stamps.
    #[serde(rename = "floor_us")]
    pub floor: Option<f64>,
    /// The floor as a share of the run's corrected median.
    pub floor_of_p50: Option<f64>,
}

impl CalibratedOf {
    /// What a calibration for a run of this completed plan, in this environment, has to match.
    pub fn of_run(plan: &Plan, environment: &Environment) -> CalibratedOf {
        CalibratedOf {
            tool_version: environment.tool_version.clone(),
            kernel: environment.kernel.clone(),
            cpu: environment.cpu.clone(),
            cores: plan.cores().to_vec(),
            wait: plan.wait,
        }
    }
}

/// The factor above the highest measured rate up to which its floor still holds.
const HIGHER_MAX: f64 = 1.25;
/// The widest step, as a factor, between two rates for interpolating the floor: a decade, the
/// widest step of a calibration, plus rounding. If the rate between them is missing, the floor
/// isn't linear even in logarithms.
const STEP_MAX: f64 = 11.0;

impl Calibrated {
    /// True if it has no figure to compare a run with.
    pub fn is_empty(&self) -> bool {
        self.ceiling_open.is_none() && self.ceiling_closed.is_none() && self.floors.is_empty()
    }

    /// The latency of a target that costs nothing at this rate, µs: interpolated by logarithm
    /// between two measured rates, unless these are far apart, and otherwise that of the nearest.
    /// Below the lowest rate the floor is no lower, since cores fall asleep; above the highest it
    /// may be, so that one only holds for slightly higher rates.
    fn floor_at(&self, rate: f64) -> Option<f64> {
        let above = self.floors.iter().position(|floor| rate <= floor.rate);
        let Some(above) = above else {
            let highest = self.floors.last().filter(|floor| rate <= HIGHER_MAX * floor.rate)?;
            return Some(highest.p50);
        };
        let high = self.floors[above];
        let Some(low) = above.checked_sub(1).map(|below| self.floors[below]) else {
            return Some(high.p50);
        };
        if STEP_MAX * low.rate < high.rate && rate != high.rate {
            return None;
        }
        let part = (rate / low.rate).ln() / (high.rate / low.rate).ln();
        Some(low.p50 * (high.p50 / low.p50).powf(part))
    }

    /// The nearest rate with a measured floor, if this rate lies outside all of them.
    pub fn nearest_to(&self, rate: f64) -> Option<f64> {
        let (first, last) = (self.floors.first()?.rate, self.floors.last()?.rate);
        (rate < first).then_some(first).or_else(|| (last < rate).then_some(last))
    }
}

impl HeldAgainst {
    /// Compares a run of this completed plan, which sent at this rate and has this corrected
    /// median, µs, with this calibration.
    pub fn new(calibrated: Calibrated, plan: &Plan, sent: f64, p50_us: Option<f64>) -> HeldAgainst {
        let ceiling = match plan.model() {
            _ if plan.depth() != 1 || !plan.http.is_1() || plan.load_changes() => None,
            Model::Open => calibrated.ceiling_open,
            Model::Closed => calibrated.ceiling_closed,
        };
        // A file named by the user may contain anything.
        let known = |figure: &f64| 0.0 < *figure && figure.is_finite();
        let ceiling = ceiling.filter(known);
        // The mean of changing rates was never offered to the machine.
        let is_alike = plan.stamps() == calibrated.stamps && 0.0 < sent && !plan.load_changes();
        let floor = calibrated.floor_at(sent).filter(|_| is_alike).filter(known);
        let p50 = p50_us.filter(known);
        HeldAgainst {
            rate_of_ceiling: ceiling.map(|ceiling| sent / ceiling),
            floor,
            floor_of_p50: floor.zip(p50).map(|(floor, p50)| floor / p50),
            calibrated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of() -> CalibratedOf {
        CalibratedOf {
            tool_version: String::new(),
            kernel: String::new(),
            cpu: None,
            cores: vec![0],
            wait: Wait::Hybrid,
        }
    }

    #[test]
    fn impossible_figures_are_not_compared_with() {
        let plan = Plan { target: "http://x/".to_owned(), conns: Some(1), ..Plan::default() };
        let plan = plan.complete(&[0]).expect("a plan that runs");
        let at = |rate, p50| FloorAt { rate, p50 };
        let calibrated = |ceiling, floors: [FloorAt; 2]| Calibrated {
            began_s: 0,
            of: of(),
            stamps: StampSource::Kernel,
            ceiling_open: None,
            ceiling_closed: Some(ceiling),
            floors: floors.to_vec(),
        };
        let sound = calibrated(2_000.0, [at(500.0, 10.0), at(2_000.0, 10.0)]);
        let held = HeldAgainst::new(sound, &plan, 1_000.0, Some(20.0));
        let found = (held.rate_of_ceiling, held.floor_of_p50);
        assert_eq!(found, (Some(0.5), Some(0.5)));
        for (ceiling, p50) in [(0.0, 0.0), (-1.0, -1.0)] {
            let wrong = calibrated(ceiling, [at(500.0, p50), at(2_000.0, 10.0)]);
            let held = HeldAgainst::new(wrong, &plan, 1_000.0, Some(20.0));
            let found = (held.rate_of_ceiling, held.floor, held.floor_of_p50);
            assert_eq!(found, (None, None, None), "{ceiling} {p50}");
        }
    }

    #[test]
    fn a_floor_lies_between_those_of_the_rates_around_it() {
        let at = |rate, p50| FloorAt { rate, p50 };
        let calibrated = Calibrated {
            began_s: 0,
            of: of(),
            stamps: StampSource::Kernel,
            ceiling_open: None,
            ceiling_closed: None,
            floors: vec![at(1_000.0, 40.0), at(10_000.0, 10.0), at(50_000.0, 20.0)],
        };
        for (rate, p50) in [
            (1.0, 40.0),
            (1_000.0, 40.0),
            (3_162.277_660_168_379, 20.0),
            (10_000.0, 10.0),
            (50_000.0, 20.0),
            (60_000.0, 20.0),
        ] {
            let floor = calibrated.floor_at(rate).expect("there are floors");
            assert!((floor - p50).abs() < 1e-9, "{rate}: {floor}");
        }
        for (rate, nearest) in
            [(999.0, Some(1_000.0)), (1_000.0, None), (50_000.0, None), (50_001.0, Some(50_000.0))]
        {
            assert_eq!(calibrated.nearest_to(rate), nearest, "{rate}");
        }
        assert_eq!(calibrated.floor_at(80_000.0), None, "at that rate it may be lower");
        let mut disturbed = calibrated.clone();
        disturbed.floors.remove(1);
        let between = [1_000.0, 2_000.0, 49_000.0, 50_000.0].map(|rate| disturbed.floor_at(rate));
        assert_eq!(between, [Some(40.0), None, None, Some(20.0)], "the step is too wide");
        assert_eq!(Calibrated { floors: Vec::new(), ..calibrated }.floor_at(1.0), None);
    }
}
