//! Open against closed: the waits of users of a target that stalls, and the requests that a closed
//! loop omits in its stalls.

use serde::Serialize;

use crate::lab::latencies::Requests;
use crate::lab::{Computed, Lab, LabError, Observed};
use crate::observed::{PATH_MS, late};
use crate::truth::{DEVIATIONS, Sample, Truth, highest_ms};

#[derive(Serialize)]
struct Figures {
    stall: Stall,
}

#[derive(Serialize)]
struct Stall {
    truth: Band,
    omitted: Omitted,
}

#[derive(Serialize)]
struct Band {
    p99_ms: f64,
    low_ms: f64,
    high_ms: f64,
}

/// The requests of a stall that a closed loop didn't send.
#[derive(Debug, PartialEq, Serialize)]
struct Omitted {
    stalls_closed: u64,
    stalls_open: u64,
    sent_closed_per_stall: f64,
    sent_open_per_stall: f64,
    counted_per_stall: f64,
    estimated_per_stall: f64,
    low_per_stall: f64,
    high_per_stall: f64,
    counted_in_run: f64,
}

/// Computes the figures of the stalls.
pub(super) fn compute(lab: &mut Lab) -> Result<Computed, LabError> {
    let (base_ms, stall_ms) = (lab.setting("base_ms")?, lab.setting("stall_ms")?);
    let (closed, open) = (lab.observed("closed-stall")?, lab.observed("open-stall")?);
    let of_closed = Requests::read(&lab.file("closed-stall.raw"))?;
    let of_open = Requests::read(&lab.file("open-stall.raw"))?;
    let stalls_closed = of_closed.whole(&closed.ledger.stalls);
    let stalls_open = of_open.whole(&open.ledger.stalls);
    if stalls_closed.is_empty() || stalls_open.is_empty() {
        return Err(LabError::figures("no stall lies within a window"));
    }
    let omitted = omitted(
        (of_closed.sent_in(&stalls_closed), stalls_closed.len() as u64),
        (of_open.sent_in(&stalls_open), stalls_open.len() as u64),
        &Model {
            rate_per_s: open.report.whole.rate.answered,
            conns: closed.report.config.plan.conns() as f64,
            base_ms,
            stall_ms,
        },
    );
    let truth = Truth::hold(base_ms, &open.ledger.stalls, of_open.window);
    let figures = Figures { stall: Stall { truth: band(&truth, &open), omitted } };
    Ok(Computed::new(&figures, Vec::new()))
}

/// The users' p99, from the arithmetic's to the one that the ledger explains: after a stall the
/// target has the whole backlog to answer at once.
fn band(truth: &Truth, open: &Observed) -> Band {
    let arrivals = open.report.config.plan.arrivals;
    let sample = Sample { count: open.report.whole.counts.intended, arrivals };
    let held_ms = open.ledger.held.p99.unwrap_or(0.0) / 1e3;
    let late = late(&open.report);
    let band = truth.quantile_band(0.99, sample, &late);
    Band {
        p99_ms: band.expected_ms,
        low_ms: band.low_ms,
        high_ms: band.high_ms.max(highest_ms(&late, |_| held_ms)),
    }
}

/// The basis of the estimate of omitted requests.
struct Model {
    rate_per_s: f64,
    conns: f64,
    base_ms: f64,
    stall_ms: f64,
}

/// The requests that a closed loop omits in a stall: those the users send in it less those of the
/// loop, each counted over `stalls`; and by arithmetic λS − N.
///
/// The count may differ by chance, with the standard deviation of a Poisson count, and by the
/// connections whose request was in flight as the stall began.
fn omitted(
    (sent_closed, stalls_closed): (u64, u64),
    (sent_open, stalls_open): (u64, u64),
    model: &Model,
) -> Omitted {
    let of_users = model.rate_per_s * model.stall_ms / 1e3;
    let estimated_per_stall = of_users - model.conns;
    let under_way = model.conns * PATH_MS / model.base_ms;
    let reach = DEVIATIONS * (of_users / stalls_open as f64).sqrt() + under_way;
    let sent_closed_per_stall = sent_closed as f64 / stalls_closed as f64;
    let sent_open_per_stall = sent_open as f64 / stalls_open as f64;
    let counted_per_stall = sent_open_per_stall - sent_closed_per_stall;
    Omitted {
        stalls_closed,
        stalls_open,
        sent_closed_per_stall,
        sent_open_per_stall,
        counted_per_stall,
        estimated_per_stall,
        low_per_stall: estimated_per_stall - reach,
        high_per_stall: estimated_per_stall + reach,
        counted_in_run: counted_per_stall * stalls_closed as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_requests_are_the_users_less_the_loops() {
        let model = Model { rate_per_s: 19_100.0, conns: 100.0, base_ms: 5.0, stall_ms: 50.0 };
        let omitted = omitted((12_000, 120), (114_600, 120), &model);
        assert_eq!((omitted.estimated_per_stall, omitted.counted_per_stall), (855.0, 855.0));
        assert_eq!((omitted.sent_closed_per_stall, omitted.counted_in_run), (100.0, 102_600.0));
        // 4·√(955/120), and one connection in 25 with a request in flight.
        assert!((omitted.high_per_stall - 855.0 - 15.284).abs() < 1e-3, "{omitted:?}");
        assert!((omitted.low_per_stall - 855.0 + 15.284).abs() < 1e-3, "{omitted:?}");
    }
}
