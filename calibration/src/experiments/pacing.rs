//! Pacing: arrivals at a target that stalls, by its ledger, against those that were due.

use std::time::Duration;

use serde::Serialize;
use target::{ArrivalsPerMs, Span};

use crate::lab::latencies::{Requests, quantile};
use crate::lab::plot::{self, Axis, Line, Scale};
use crate::lab::{Computed, Lab, LabError, Plot};

/// Width of the plot before and after the stall, ms.
const AROUND_MS: u64 = 100;
/// Width of a bar in the plot, ms.
const BIN_MS: u64 = 10;

#[derive(Debug, Serialize)]
struct Figures {
    uncapped: Stalled,
    queue: Stalled,
    drop: Stalled,
}

/// One policy against a target that stalls.
#[derive(Debug, Serialize)]
struct Stalled {
    ahead_max: i64,
    backlog_max: i64,
    /// The largest backlog of arrivals in a stall or right after it: the median over the stalls,
    /// since a machine that freezes for a moment makes one of them late.
    backlog_of_stall: f64,
    /// Stalls that lie in the window together with what follows them.
    stalls: usize,
    /// Means over those.
    arrived_in_stall: f64,
    arrived_after: f64,
    unsent_per_stall: f64,
}

/// Arrivals at the target against those that were due, ms by ms.
#[derive(Clone, Debug, PartialEq)]
struct Flow {
    first_ms: u64,
    /// Requests due, of those that were sent.
    due: Vec<u32>,
    /// Requests that arrived.
    arrived: Vec<u32>,
}

/// Computes figures from the ledger's arrivals.
pub(super) fn compute(lab: &mut Lab) -> Result<Computed, LabError> {
    let (uncapped, of_uncapped) = stalled(lab, "uncapped")?;
    let (queue, of_queue) = stalled(lab, "queue")?;
    let (drop, of_drop) = stalled(lab, "drop")?;
    let plot =
        around_a_stall(&[("uncapped", of_uncapped), ("queue", of_queue), ("drop", of_drop)])?;
    Ok(Computed::new(&Figures { uncapped, queue, drop }, vec![plot]))
}

/// Figures of the run under a policy, and its arrivals around the first stall.
fn stalled(lab: &Lab, name: &str) -> Result<(Stalled, Around), LabError> {
    let observed = lab.observed(name)?;
    let samples = Requests::read(&lab.file(&format!("{name}.raw")))?;
    let sent = samples.requests.iter().filter(|one| one.sent_ns.is_some());
    let due_ns = sent.map(|one| one.intended_ns);
    let flow = Flow::new(due_ns, &observed.ledger.arrivals_per_ms)
        .ok_or_else(|| LabError::figures("the ledger's arrivals don't reach back to the start"))?;
    let after_ms = Duration::from_secs_f64(lab.setting("after_ms")? / 1e3).as_millis();
    let after_ms = u64::try_from(after_ms).map_err(LabError::figures)?;
    let after_ns = after_ms * 1_000_000;
    let with_after: Vec<Span> = observed
        .ledger
        .stalls
        .iter()
        .map(|stall| Span { end_ns: stall.end_ns + after_ns, ..*stall })
        .collect();
    let whole = samples.whole(&with_after);
    let count = whole.len();
    let mean = |sum: u64| sum as f64 / count.max(1) as f64;
    let stalls: Vec<(u64, u64)> = whole
        .iter()
        .map(|span| (span.begin_ns / 1_000_000, (span.end_ns - after_ns) / 1_000_000))
        .collect();
    if stalls.is_empty() {
        return Err(LabError::figures("no stall lies in the window with what follows it"));
    }
    let sum = |of: &dyn Fn(&(u64, u64)) -> u64| stalls.iter().map(of).sum::<u64>();
    let mut backlogs: Vec<f64> = stalls
        .iter()
        .map(|stall| flow.backlog_within(stall.0, stall.1 + after_ms) as f64)
        .collect();
    backlogs.sort_by(f64::total_cmp);
    let counts = &observed.report.whole.counts;
    let ended = samples.whole(&observed.ledger.stalls).len();
    let figures = Stalled {
        ahead_max: flow.ahead_max(),
        backlog_max: flow.backlog_max(),
        backlog_of_stall: quantile(&backlogs, 0.5),
        stalls: count,
        arrived_in_stall: mean(sum(&|stall| flow.arrived_within(stall.0, stall.1))),
        arrived_after: mean(sum(&|stall| flow.arrived_within(stall.1, stall.1 + after_ms))),
        unsent_per_stall: counts.unsent as f64 / ended.max(1) as f64,
    };
    let (begin_ms, end_ms) = stalls[0];
    Ok((figures, flow.around(begin_ms, end_ms)))
}

/// Arrivals in each bin of time around a stall; ms since the plot's start, 100 before the stall.
type Around = Vec<(f64, f64)>;

impl Flow {
    /// Requests due at these times, ns, and arrivals; `None` if a request was due before the
    /// ledger's first ms.
    fn new(due_ns: impl Iterator<Item = u64>, arrivals: &ArrivalsPerMs) -> Option<Flow> {
        let first_ms = arrivals.first_ms;
        let mut due = vec![0; arrivals.counts.len()];
        for at_ns in due_ns {
            let at = usize::try_from((at_ns / 1_000_000).checked_sub(first_ms)?).ok()?;
            // Requests due after the last ms haven't arrived by then.
            if let Some(count) = due.get_mut(at) {
                *count += 1;
            }
        }
        Some(Flow { first_ms, due, arrived: arrivals.counts.clone() })
    }

    /// The most requests by which arrivals were ahead of the schedule: above zero only if requests
    /// came early.
    fn ahead_max(&self) -> i64 {
        self.outstanding().map(|outstanding| -outstanding).max().unwrap_or(0)
    }

    /// The most requests by which arrivals were behind.
    fn backlog_max(&self) -> i64 {
        self.outstanding().max().unwrap_or(0)
    }

    /// The same within a range of ms.
    fn backlog_within(&self, from_ms: u64, to_ms: u64) -> i64 {
        let (from, to) = (self.index(from_ms), self.index(to_ms));
        self.outstanding().take(to).skip(from).max().unwrap_or(0)
    }

    /// Requests that were due and hadn't arrived, at the end of each ms.
    fn outstanding(&self) -> impl Iterator<Item = i64> {
        self.due.iter().zip(&self.arrived).scan(0, |outstanding, (due, arrived)| {
            *outstanding += i64::from(*due) - i64::from(*arrived);
            Some(*outstanding)
        })
    }

    fn arrived_within(&self, from_ms: u64, to_ms: u64) -> u64 {
        let (from, to) = (self.index(from_ms), self.index(to_ms));
        self.arrived[from..to.max(from)].iter().map(|count| u64::from(*count)).sum()
    }

    /// The index of a ms in the counts, or their end.
    fn index(&self, ms: u64) -> usize {
        let index = usize::try_from(ms.saturating_sub(self.first_ms)).unwrap_or(usize::MAX);
        index.min(self.arrived.len())
    }

    /// Arrivals in each bin around this stall.
    fn around(&self, begin_ms: u64, end_ms: u64) -> Around {
        let from = begin_ms.saturating_sub(AROUND_MS).max(self.first_ms);
        let bins = (from..end_ms + AROUND_MS).step_by(usize::try_from(BIN_MS).expect("a few"));
        bins.map(|ms| {
            let since = ms as f64 + BIN_MS as f64 / 2.0 - from as f64;
            (since, self.arrived_within(ms, ms + BIN_MS) as f64)
        })
        .collect()
    }
}

fn around_a_stall(runs: &[(&str, Around)]) -> Result<Plot, LabError> {
    let title = "Arrivals at the target around a stall";
    let lines: Vec<Line> = runs
        .iter()
        .map(|(name, points)| Line { name, points: points.clone(), dashed: *name == "drop" })
        .collect();
    let x =
        Axis { name: "time, ms; the stall begins at 100 and ends at 400", scale: Scale::Linear };
    let y = Axis { name: "arrivals in 10 ms", scale: Scale::Linear };
    plot::lines("arrivals.svg", title, x, y, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn flow(due_ms: &[u64], arrived: &[u32]) -> Flow {
        let arrivals = ArrivalsPerMs { first_ms: 500, counts: arrived.to_vec() };
        Flow::new(due_ms.iter().map(|ms| (500 + ms) * MS + 999_999), &arrivals).expect("a flow")
    }

    #[test]
    fn a_backlog_is_due_and_has_not_arrived() {
        // One a ms; from 2 on nothing arrives, until the whole backlog does at 6.
        let flow = flow(&[0, 1, 2, 3, 4, 5, 6, 7], &[1, 1, 0, 0, 0, 0, 5, 1]);
        assert_eq!((flow.ahead_max(), flow.backlog_max()), (0, 4));
        assert_eq!((flow.arrived_within(502, 506), flow.arrived_within(506, 600)), (0, 6));
        assert_eq!((flow.backlog_within(500, 502), flow.backlog_within(502, 506)), (0, 4));
    }

    #[test]
    fn an_early_request_is_ahead() {
        assert_eq!(flow(&[0, 2], &[1, 1, 0]).ahead_max(), 1);
        assert_eq!(flow(&[0, 1], &[1, 1, 1]).ahead_max(), 1, "one that was never due");
        assert_eq!(flow(&[0, 1], &[0, 2, 0]).ahead_max(), 0);
    }

    #[test]
    fn a_ledger_that_misses_the_start_gives_no_flow() {
        let arrivals = ArrivalsPerMs { first_ms: 500, counts: vec![1] };
        assert_eq!(Flow::new([499 * MS].into_iter(), &arrivals), None);
    }
}
