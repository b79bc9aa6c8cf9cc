//! The cases on a generator that is itself held up: its figures have it, or it says so.

use std::time::Duration;

use super::freeze::FREEZE;
use super::percentiles::frozen;
use super::rate::prompt;
use super::{Case, Finding, Judged, at_intended_times, closed_first};
use crate::process::{Conditions, Stops};
use crate::tool::{Load, PERCENTILES};
use crate::truth::Band;

/// A limit to half a core: for how long the generator runs, and is stopped.
const HALF: Duration = Duration::from_millis(50);
/// The files that it may open in the case `files`, and its connections there.
const FILES_MAX: u32 = 48;
const CONNECTIONS: u32 = 64;

/// The generator is stopped once.
pub(super) const STOPPED: Case = Case {
    name: "stopped",
    holds: "The tool itself is stopped for a quarter of the run (SIGSTOP): percentiles are those of \
            users who came at the rate, 500 per second, or it says that they are in doubt.",
    truth: "that of freeze, with S the time for which the judge stopped it; or what its description \
            names as a warning",
    tolerance: FREEZE.tolerance,
    reply: "A generator that is stopped measures nothing, and its user knows.",
    load: Load::at(500.0, 20, 6),
    mode: at_intended_times,
    figures: &[PERCENTILES],
    target: prompt,
    conditions: |seconds| {
        let [after, hold] = [seconds / 3.0, seconds / 4.0].map(Duration::from_secs_f64);
        Conditions { stops: Some(Stops { after, hold, every: None }), ..Conditions::default() }
    },
    judge: |of| held_up(of, f64::from(of.load.seconds) * 1e3),
    ..Case::NONE
};

/// The generator has half a core.
pub(super) const QUOTA: Case = Case {
    name: "quota",
    holds: "The same for 50 ms of every 100 ms, as by a limit of its processor time to a half.",
    truth: "that of freeze, with S the mean time for which the judge stopped it and T = 100 ms; or \
            what its description names as a warning",
    reply: "A container's limit is the user's choice.",
    conditions: |_| {
        let stops = Stops { after: HALF, hold: HALF, every: Some(2 * HALF) };
        Conditions { stops: Some(stops), ..Conditions::default() }
    },
    judge: |of| held_up(of, 2e3 * HALF.as_secs_f64()),
    ..STOPPED
};

/// The generator may open fewer files than it needs.
pub(super) const FILES: Case = Case {
    name: "files",
    holds: "The tool may open 48 files and is asked for 64 connections: it opens them, or fails, \
            counts errors or warns.",
    truth: "the connections that the ledger counts, the tool's exit code, its errors, and what its \
            description names as a warning",
    tolerance: "none",
    reply: "It opens connections as it needs them, and needed fewer.",
    load: Load::at(500.0, CONNECTIONS, 2),
    mode: |tool| {
        let mode = closed_first(tool)?;
        let takes = tool.takes_connections(mode).then_some(mode);
        takes.ok_or_else(|| "its command takes no number of connections".to_owned())
    },
    target: prompt,
    conditions: |_| Conditions { files_max: Some(FILES_MAX), ..Conditions::default() },
    may_fail: true,
    judge: |of| {
        // Every request that arrives is answered well.
        let failed = [of.figures.errors, of.figures.bad].into_iter().flatten().sum::<f64>();
        if of.warned || 0.0 < failed {
            return vec![said()];
        }
        let opened = of.ledger.connections.accepted as f64;
        let asked = f64::from(of.load.connections);
        let connections = Finding::count("connections", opened, Band::exactly(asked));
        // With half of its files as connections at most, it didn't need more; but it needs one.
        let is_few = 0.0 < opened && opened <= f64::from(FILES_MAX) / 2.0;
        let low = connections.low.filter(|_| !is_few);
        vec![Finding { low, high: None, ..connections }]
    },
    ..Case::NONE
};

/// That the tool says so.
pub(crate) fn said() -> Finding {
    Finding::count("warnings", 1.0, Band::exactly(1.0))
}

/// The percentiles of users who come while it is stopped once in each of these times, ms; or, if they
/// aren't right, that it says so.
fn held_up(of: &Judged, length_ms: f64) -> Vec<Finding> {
    let total: Duration = of.stopped.iter().sum();
    let stop_ms = total.as_secs_f64() * 1e3 / of.stopped.len().max(1) as f64;
    let requests = of.load.rate * f64::from(of.load.seconds);
    let percentiles = frozen(of, requests, (stop_ms, length_ms));
    match of.warned && !percentiles.iter().all(Finding::holds) {
        true => vec![said()],
        false => percentiles,
    }
}
