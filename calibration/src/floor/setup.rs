//! The setup of a calibration: its target and cores, and the plans of its runs.

use std::net::SocketAddr;
use std::path::PathBuf;

use engine::plan::{Plan, Wait};
use engine::sys::units::{CoreList, Nanos, Rate};

use crate::cases::Size;

/// Connections opened before an open run, so that none is opened in its window.
const PREWARM: usize = 64;

/// The setup of a calibration.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where the null target listens.
    pub null_target: SocketAddr,
    /// The cores of the targets.
    pub target_cores: Vec<usize>,
    /// The generator's cores.
    pub cores: Vec<usize>,
    /// How the generator waits, except in runs that measure that.
    pub wait: Wait,
    /// The size of the calibration.
    pub size: Size,
    /// A file to overwrite, for the cost of raw samples.
    pub raw: PathBuf,
}

/// Where a run's progress is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Display {
    /// The user's terminal, if there is one.
    User,
    /// Nowhere.
    Off,
    /// A terminal that no one sees.
    Hidden,
}

impl Setup {
    /// A plan against the null target, with a window of `full_ms` at full size.
    fn plan(&self, full_ms: u64) -> Plan {
        let window_ms = match self.size {
            Size::Full => full_ms,
            Size::Smoke => (full_ms / 6).max(250),
        };
        Plan {
            target: format!("http://{}/", self.null_target),
            cores: Some(CoreList::new(self.cores.clone())),
            wait: self.wait,
            duration: Nanos(window_ms * 1_000_000),
            warmup: Nanos(200_000_000),
            settle: Nanos(100_000_000),
            ..Plan::default()
        }
    }

    /// An open plan.
    pub(super) fn open(&self, rate: f64, full_ms: u64) -> Plan {
        let rate: Rate = format!("{:.0}", rate.max(1.0)).parse().expect("a whole number");
        Plan { rate: Some(rate), prewarm: Some(PREWARM), ..self.plan(full_ms) }
    }

    /// A closed plan.
    pub(super) fn closed(&self, conns: usize, full_ms: u64) -> Plan {
        Plan { conns: Some(conns), ..self.plan(full_ms) }
    }
}
