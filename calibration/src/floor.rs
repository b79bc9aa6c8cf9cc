//! The floor of the generator on this machine: the cost of its clocks, waiting, requests and
//! features, the latency it adds, and the most load it can offer.
//!
//! All of it is measured at the null target on other cores, except for the proof of the overhead,
//! which takes the sample target and its ledger. The plans are made here, and the caller runs them.

mod bracket;
mod capacity;
mod clocks;
mod cost;
mod disturbance;
mod figures;
mod late;
mod measuring;
mod overhead;
mod setup;

use std::time::SystemTime;

use engine::host::environment::environment;
use engine::plan::{Plan, StampSource, Wait};
use engine::report::calibration::{Calibrated, CalibratedOf, FloorAt};
use engine::report::profile::Profile;
use engine::run::Finished;
use serde::{Deserialize, Serialize};

pub use bracket::{Bracket, GROWTH_MAX, SENT_MIN, Tried};
pub use capacity::{Bound, Capacity, Closed};
pub use clocks::Clocks;
pub use cost::{Cost, Feature};
pub use disturbance::Disturbance;
pub use figures::{CpuPerRequest, Floor, Lateness, Three};
pub use late::{Late, Taken};
pub use overhead::{AGREE_SHARE, AGREE_US, Overhead, OverheadAt, Path, SHARE_MAX};

use crate::cases::Size;
use crate::judgement::Judgement;
use crate::observed::ObserveError;
pub use measuring::{CONNS, SHARES};
use measuring::{End, Measuring};
pub use setup::{Display, Setup};

/// Version of the document.
pub const SCHEMA: u32 = 6;

/// Length of the profiled window, ms at full size.
const PLATEAU_MS: u64 = 3_000;

/// The measurements, in the order in which they are made. Each may use results of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The clocks.
    Clocks,
    /// Lateness by the way of waiting.
    Waits,
    /// The capacity: the closed loops' peak, and the limit of open runs.
    Capacity,
    /// Latency at shares of the capacity.
    Floors,
    /// The cost of features.
    Costs,
    /// The overhead proof.
    Overhead,
}

impl Section {
    /// All of them.
    pub const ALL: [Section; 6] = [
        Section::Clocks,
        Section::Waits,
        Section::Capacity,
        Section::Floors,
        Section::Costs,
        Section::Overhead,
    ];
}

/// The floor of the generator on this machine. Sections that weren't reached are empty or `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// [`SCHEMA`].
    pub schema: u32,
    /// True if a signal or an error ended it early.
    pub interrupted: bool,
    /// True if it took a fraction of the time, so that its figures scatter more.
    pub quick: bool,
    /// When it began, seconds since 1970.
    pub began_s: u64,
    /// The version of the program.
    pub tool_version: String,
    /// Kernel name and release.
    pub kernel: String,
    /// The processor's model name.
    pub cpu: Option<String>,
    /// The generator's cores.
    pub cores: Vec<usize>,
    /// The cores of the targets. If one of the generator's is among them, all figures are from a
    /// shared core.
    pub target_cores: Vec<usize>,
    /// How the generator waited, except in `waits`.
    pub wait: Wait,
    /// The clocks.
    pub clocks: Option<Clocks>,
    /// Lateness by the way of waiting, at 1,000 requests per second.
    pub waits: Vec<Lateness>,
    /// The most load that the generator can offer.
    pub capacity: Option<Capacity>,
    /// Where the CPU time of the best closed loop went; `None` unless it was asked for.
    pub profile: Option<Profile>,
    /// Latency of the null target at shares of the capacity.
    pub floors: Vec<Floor>,
    /// The cost of features.
    pub costs: Vec<Cost>,
    /// The generator's share of a known latency.
    pub overhead: Option<Overhead>,
    /// Runs that were made.
    pub runs: usize,
    /// How the machine disturbed them, by their verdicts.
    pub disturbed: Vec<Disturbance>,
}

impl Calibration {
    /// Nothing measured yet.
    pub fn new(setup: &Setup) -> Calibration {
        let environment = environment(&setup.cores, Vec::new(), Some(setup.null_target));
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Calibration {
            schema: SCHEMA,
            interrupted: false,
            quick: setup.size == Size::Smoke,
            began_s: since.map_or(0, |since| since.as_secs()),
            tool_version: environment.tool_version,
            kernel: environment.kernel,
            cpu: environment.cpu,
            cores: setup.cores.clone(),
            target_cores: setup.target_cores.clone(),
            wait: setup.wait,
            clocks: None,
            waits: Vec::new(),
            capacity: None,
            profile: None,
            floors: Vec::new(),
            costs: Vec::new(),
            overhead: None,
            runs: 0,
            disturbed: Vec::new(),
        }
    }

    /// The overhead must be small enough, and both ways of measuring the path must agree.
    pub fn judgement(&self) -> Judgement {
        let path = |path: &Path| path.judgement;
        self.overhead.as_ref().map_or(Judgement::Failed, |overhead| {
            overhead.judgement.max(overhead.path.as_ref().map_or(Judgement::Failed, path))
        })
    }

    /// The figures for later runs. A figure that others disturbed, or for which generator and
    /// target shared a core, is left out, and so is a capacity that was the target's.
    pub fn calibrated(&self) -> Calibrated {
        let is_own = |capacity: &&Capacity| capacity.bound == Bound::Generator;
        let usable = self.capacity.as_ref().filter(is_own).filter(|_| self.is_apart());
        let floors = self.floors.iter().filter(|floor| self.is_apart() && !floor.disturbed);
        let floor_at =
            |floor: &Floor| floor.corrected.p50.map(|p50| FloorAt { rate: floor.rate, p50 });
        Calibrated {
            began_s: self.began_s,
            of: CalibratedOf {
                tool_version: self.tool_version.clone(),
                kernel: self.kernel.clone(),
                cpu: self.cpu.clone(),
                cores: self.cores.clone(),
                wait: self.wait,
            },
            stamps: self.floors.first().map_or(StampSource::Kernel, |floor| floor.stamps),
            ceiling_open: usable
                .filter(|capacity| !capacity.is_open_disturbed())
                .and_then(|capacity| capacity.bracket.passed),
            ceiling_closed: usable.map(|capacity| capacity.closed_rate),
            floors: floors.filter_map(floor_at).collect(),
        }
    }

    /// True if the targets had cores of their own.
    pub fn is_apart(&self) -> bool {
        self.target_cores.iter().all(|core| !self.cores.contains(core))
    }

    /// The best closed loop once more, for a profile: sampling costs CPU, so it has a run of its
    /// own. `None` before the capacity was measured.
    pub fn plateau(&self, setup: &Setup) -> Option<Plan> {
        self.capacity.as_ref().map(|capacity| setup.closed(capacity.closed_conns, PLATEAU_MS))
    }

    /// Measures one section. An interrupted run ends it, and earlier results stay.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn measure<E: From<ObserveError>>(
        &mut self,
        section: Section,
        setup: &Setup,
        run: impl FnMut(Plan, Display) -> Result<Finished, E>,
    ) -> Result<(), E> {
        let is_restless = !self.disturbed.is_empty();
        let (runs, disturbed) = (self.runs, Vec::new());
        let mut measuring = Measuring { setup, run, is_restless, runs, disturbed };
        let ended = match section {
            Section::Clocks => {
                self.clocks = Some(clocks::measure(setup.cores[0]));
                Ok(())
            }
            Section::Waits => measuring.waits(&mut self.waits),
            Section::Capacity => measuring.capacity(&mut self.capacity),
            Section::Floors => {
                let capacity = self.capacity.as_ref().map_or(0.0, Capacity::rate);
                measuring.floors(capacity, &mut self.floors)
            }
            Section::Costs => {
                let conns =
                    self.capacity.as_ref().map_or(CONNS[1], |capacity| capacity.closed_conns);
                measuring.costs(conns, &mut self.costs)
            }
            Section::Overhead => measuring.overhead(&mut self.overhead),
        };
        self.runs = measuring.runs;
        self.disturbed.append(&mut measuring.disturbed);
        match ended {
            Ok(()) => Ok(()),
            Err(End::Interrupted) => {
                self.interrupted = true;
                Ok(())
            }
            Err(End::Failed(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::bracket::tests::tried;
    use super::*;

    #[test]
    fn only_the_generators_own_figures_are_kept_for_runs() {
        let closed = Closed {
            conns: 64,
            rate: 1.2e5,
            busy: 0.99,
            stolen: 0.0,
            cpu: CpuPerRequest::default(),
            disturbed: false,
        };
        let three = |p50| Three { p50: Some(p50), ..Three::default() };
        let floor = |rate, p50, disturbed| Floor {
            share: 0.1,
            rate,
            naive: three(p50),
            corrected: three(p50),
            cpu: CpuPerRequest::default(),
            stamps: StampSource::Kernel,
            disturbed,
            tail_disturbed: disturbed,
        };
        let setup = Setup {
            null_target: ([127, 0, 0, 1], 1).into(),
            target_cores: vec![0],
            cores: vec![1],
            wait: Wait::Hybrid,
            size: Size::Smoke,
            raw: PathBuf::new(),
        };
        let capacity = |closed| {
            let mut capacity = Capacity::new(vec![closed]).expect("one");
            capacity.bracket.passed = Some(1e5);
            Some(capacity)
        };
        let whole = Calibration {
            capacity: capacity(closed.clone()),
            floors: vec![floor(1e3, 30.0, false), floor(1e4, 90.0, true), floor(5e4, 12.0, false)],
            ..Calibration::new(&setup)
        };
        let known = |of: &Calibration| {
            let known = of.calibrated();
            let rates = known.floors.iter().map(|floor| floor.rate).collect::<Vec<f64>>();
            (known.ceiling_open, known.ceiling_closed, rates)
        };
        assert_eq!(known(&whole), (Some(1e5), Some(1.2e5), vec![1e3, 5e4]));
        assert!(!whole.calibrated().is_empty());
        for other in [Closed { busy: 0.6, ..closed.clone() }, Closed { disturbed: true, ..closed }]
        {
            let of = Calibration { capacity: capacity(other), ..whole.clone() };
            assert_eq!(known(&of), (None, None, vec![1e3, 5e4]), "the bound was another");
        }
        for (second_disturbed, open) in [(true, None), (false, Some(1e5))] {
            let mut of = whole.clone();
            let capacity = of.capacity.as_mut().expect("one");
            capacity.open = vec![
                Tried { disturbed: true, ..tried(1e5, true) },
                Tried { disturbed: true, ..tried(1.3e5, false) },
                Tried { disturbed: second_disturbed, ..tried(1.3e5, false) },
            ];
            capacity.bracket = Bracket::new(&capacity.open);
            assert_eq!(known(&of), (open, Some(1.2e5), vec![1e3, 5e4]));
        }
        let shared = Calibration { target_cores: vec![1], ..whole };
        assert_eq!(known(&shared), (None, None, Vec::new()));
        assert!(shared.calibrated().is_empty());
    }
}
