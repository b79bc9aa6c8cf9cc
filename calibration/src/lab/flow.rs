//! Arrivals at a target that stalls, by its ledger, against those that were due.

use serde::Serialize;
use target::{ArrivalsPerMs, Ledger, Span};

use super::error::LabError;
use super::latencies::{Requests, quantile};

/// Width of the plot before and after the stall, ms.
const AROUND_MS: u64 = 100;
/// Width of a bar in the plot, ms.
const BIN_MS: u64 = 10;

/// A run against a target that stalls.
#[derive(Debug, Serialize)]
pub(super) struct Stalled {
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
    /// Arrivals in each bin of time around the first of them; ms since 100 before it.
    around: Vec<(f64, f64)>,
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

impl Stalled {
    /// The figures of a run, whose backlog is searched for in its stalls and this long after each.
    ///
    /// # Errors
    /// The ledger's arrivals don't reach back to the start, or no stall lies in the window.
    pub(super) fn new(of: &Requests, ledger: &Ledger, after_ms: u64) -> Result<Stalled, LabError> {
        let sent = of.requests.iter().filter(|one| one.sent_ns.is_some());
        let flow = Flow::new(sent.map(|one| one.intended_ns), &ledger.arrivals_per_ms)
            .ok_or_else(|| LabError::figures("the ledger's arrivals begin after the run"))?;
        let after_ns = after_ms * 1_000_000;
        let with_after = |stall: &Span| Span { end_ns: stall.end_ns + after_ns, ..*stall };
        let with_after: Vec<Span> = ledger.stalls.iter().map(with_after).collect();
        let in_ms = |span: Span| (span.begin_ns / 1_000_000, span.end_ns / 1_000_000 - after_ms);
        let stalls: Vec<(u64, u64)> = of.whole(&with_after).into_iter().map(in_ms).collect();
        let Some((begin_ms, end_ms)) = stalls.first().copied() else {
            return Err(LabError::figures("no stall lies in the window with what follows it"));
        };
        let mean = |of: &dyn Fn(u64, u64) -> u64| {
            let sum: u64 = stalls.iter().map(|(begin, end)| of(*begin, *end)).sum();
            sum as f64 / stalls.len() as f64
        };
        let backlog = |stall: &(u64, u64)| flow.backlog_within(stall.0, stall.1 + after_ms) as f64;
        let mut backlogs: Vec<f64> = stalls.iter().map(backlog).collect();
        backlogs.sort_by(f64::total_cmp);
        Ok(Stalled {
            ahead_max: flow.ahead_max(),
            backlog_max: flow.backlog_max(),
            backlog_of_stall: quantile(&backlogs, 0.5),
            stalls: stalls.len(),
            arrived_in_stall: mean(&|begin, end| flow.arrived_within(begin, end)),
            arrived_after: mean(&|_, end| flow.arrived_within(end, end + after_ms)),
            around: flow.around(begin_ms, end_ms),
        })
    }
}

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
    fn around(&self, begin_ms: u64, end_ms: u64) -> Vec<(f64, f64)> {
        let from = begin_ms.saturating_sub(AROUND_MS).max(self.first_ms);
        let bins = (from..end_ms + AROUND_MS).step_by(usize::try_from(BIN_MS).expect("a few"));
        bins.map(|ms| {
            let since = ms as f64 + BIN_MS as f64 / 2.0 - from as f64;
            (since, self.arrived_within(ms, ms + BIN_MS) as f64)
        })
        .collect()
    }
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
