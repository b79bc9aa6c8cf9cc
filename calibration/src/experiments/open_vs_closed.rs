//! Open against closed: a target with an independent tail, where the two agree, and one that
//! stalls, where they don't.

use engine::report::{ClientPart, Report};
use serde::Serialize;
use target::Ledger;

use crate::lab::latencies::{Latencies, Requests, percentiles};
use crate::lab::plot::{LATENCY, Line, by_percentile};
use crate::lab::{Extra, Lab, LabError, Measured, Observed, Plot};
use crate::observed::PATH_MS;
use crate::truth::{DEVIATIONS, Sample, Truth};

#[derive(Serialize)]
struct Figures {
    tail: Tail,
    stall: Stall,
    /// The largest share of the generator's in an open loop's latency.
    client_share_percent: Option<f64>,
}

#[derive(Serialize)]
struct Tail {
    closed: Side,
    open: Side,
    gaps: Gaps,
}

/// What the open loop reports beyond the closed one, and the range in which that counts as nothing.
#[derive(Serialize)]
struct Gaps {
    p98_ms: f64,
    p99_ms: f64,
    p995_ms: f64,
    low_ms: f64,
    high_ms: f64,
}

#[derive(Serialize)]
struct Stall {
    closed: Side,
    open: Side,
    truth: Band,
    /// The share of the closed loop's requests that meet a stall, by arithmetic.
    slow_closed_percent: f64,
    /// The same, as sent: those of the stalls among all of a period.
    slow_closed_sent_percent: f64,
    /// The same of the users.
    slow_users_percent: f64,
    /// How long the target held the open loop's requests, by its ledger: p99.
    held_p99_ms: f64,
    omitted: Omitted,
}

#[derive(Serialize)]
struct Band {
    p99_ms: f64,
    low_ms: f64,
    high_ms: f64,
}

/// One generator's run.
#[derive(Serialize)]
struct Side {
    conns: Option<u64>,
    rate_per_s: f64,
    rate_off_percent: Option<f64>,
    naive: Latencies,
    corrected: Latencies,
    in_flight: f64,
    /// λW: the rate times the mean naive latency.
    lambda_w: f64,
    /// What λW lacks of the connections, as a share of them: the time that they were not in use.
    little_gap_percent: Option<f64>,
    client_share_p50_percent: Option<f64>,
    client_share_p99_percent: Option<f64>,
    /// The largest of those at p50, p99 and p99.9.
    client_share_percent: Option<f64>,
    /// Requests that the run or the ledger has and the other lacks, or that weren't answered.
    unaccounted: u64,
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

/// Makes the runs.
pub(super) fn measure(lab: &mut Lab) -> Result<Measured, LabError> {
    let tail = pair(lab, "closed-tail", "open-tail")?;
    let stall = pair(lab, "closed-stall", "open-stall")?;

    let (closed, open) = (side(&tail[0])?, side(&tail[1])?);
    let gap = |of: fn(&Latencies) -> f64| of(&open.corrected) - of(&closed.naive);
    let margin_ms = lab.setting("margin")? * (lab.setting("tail_ms")? - lab.setting("base_ms")?);
    let gaps = Gaps {
        p98_ms: gap(|of| of.p98_ms),
        p99_ms: gap(|of| of.p99_ms),
        p995_ms: gap(|of| of.p995_ms),
        low_ms: -margin_ms,
        high_ms: margin_ms,
    };
    let (tail_side, stall_side) = (Tail { closed, open, gaps }, of_stall(lab, &stall)?);
    let shares =
        [tail_side.open.client_share_percent, stall_side.open.client_share_percent].into_iter();
    let figures = Figures {
        client_share_percent: shares.flatten().reduce(f64::max),
        tail: tail_side,
        stall: stall_side,
    };
    let plots = vec![
        plot("tail.svg", "(a) one request in a hundred takes longer", &tail)?,
        plot("stall.svg", "(b) all requests of a stall wait for its end", &stall)?,
    ];
    Ok(Measured::new(&figures, plots))
}

/// A closed loop, and an open one at the rate that it achieved.
fn pair(lab: &mut Lab, closed: &str, open: &str) -> Result<[Observed; 2], LabError> {
    let closed = lab.observe(closed, &Extra::default())?;
    let rate = format!("{:.0}", closed.report.whole.rate.answered);
    let open = lab.observe(open, &Extra::flags([("rate", rate)]))?;
    Ok([closed, open])
}

fn side(observed: &Observed) -> Result<Side, LabError> {
    let Observed { report, ledger } = observed;
    let whole = &report.whole;
    let naive = Latencies::of(&whole.naive)?;
    let lambda_w = whole.rate.answered * naive.mean_ms / 1e3;
    let conns = whole.rate.target.is_none().then(|| report.config.plan.conns() as u64);
    let share = |part: Option<f64>| part.map(|share| share * 100.0);
    let of_client = whole.client_share.as_ref();
    let shares = of_client.map(|of| {
        let above = [&of.p99, &of.p999].into_iter().flatten();
        above.map(ClientPart::share).fold(of.p50.share(), f64::max)
    });
    Ok(Side {
        conns,
        rate_per_s: whole.rate.answered,
        rate_off_percent: whole
            .rate
            .target
            .map(|target| (whole.rate.sent_due / target - 1.0) * 100.0),
        corrected: Latencies::of(&whole.corrected)?,
        in_flight: report.littles_law.in_flight_mean,
        lambda_w,
        little_gap_percent: conns.map(|conns| (1.0 - lambda_w / conns as f64) * 100.0),
        client_share_p50_percent: share(of_client.map(|of| of.p50.share())),
        client_share_p99_percent: share(
            of_client.and_then(|of| of.p99.as_ref()).map(|of| of.share()),
        ),
        client_share_percent: share(shares),
        unaccounted: unaccounted(report, ledger),
        naive,
    })
}

/// Requests that weren't answered, and those that only one side has counted as answered.
pub(super) fn unaccounted(report: &Report, ledger: &Ledger) -> u64 {
    let counts = &report.whole.counts;
    let ever = counts.answered + counts.setup.answered + counts.warmup.answered;
    counts.intended.abs_diff(counts.answered) + ever.abs_diff(ledger.answered)
}

fn of_stall(lab: &Lab, [closed, open]: &[Observed; 2]) -> Result<Stall, LabError> {
    let (base_ms, stall_ms) = (lab.setting("base_ms")?, lab.setting("stall_ms")?);
    let period_ms = lab.setting("period_ms")?;
    let of_closed = Requests::read(&lab.file("closed-stall.raw"))?;
    let of_open = Requests::read(&lab.file("open-stall.raw"))?;
    let stalls_closed = of_closed.whole(&closed.ledger.stalls);
    let stalls_open = of_open.whole(&open.ledger.stalls);
    if stalls_closed.is_empty() || stalls_open.is_empty() {
        return Err(LabError::figures("no stall lies within a window"));
    }
    let (closed_side, open_side) = (side(closed)?, side(open)?);
    let conns = closed_side.conns.unwrap_or_default() as f64;
    let omitted = omitted(
        (of_closed.sent_in(&stalls_closed), stalls_closed.len() as u64),
        (of_open.sent_in(&stalls_open), stalls_open.len() as u64),
        &Model { rate_per_s: open_side.rate_per_s, conns, base_ms, stall_ms },
    );
    let truth = Truth::hold(base_ms, &open.ledger.stalls, of_open.window);
    let late_ms = of_open.observed(open.report.clone(), open.ledger.clone()).lateness_p99_ms();
    let arrivals = open.report.config.plan.arrivals;
    let sample = Sample { count: open.report.whole.counts.intended, arrivals };
    // What the target really took for its requests, the ledger says: after a stall it has all that
    // waited to answer at once.
    let held_ms = open.ledger.held.p99.unwrap_or(0.0) / 1e3;
    let band = truth.quantile_band(0.99, sample, late_ms + PATH_MS);
    Ok(Stall {
        truth: Band {
            p99_ms: band.expected_ms,
            low_ms: band.low_ms,
            high_ms: band.high_ms.max(held_ms + late_ms + PATH_MS),
        },
        slow_closed_percent: 100.0 * slow_share(conns, base_ms, stall_ms, period_ms),
        slow_closed_sent_percent: 100.0 * omitted.sent_closed_per_stall
            / (closed_side.rate_per_s * period_ms / 1e3),
        slow_users_percent: 100.0 * stall_ms / period_ms,
        held_p99_ms: held_ms,
        omitted,
        closed: closed_side,
        open: open_side,
    })
}

/// The share of a closed loop's requests that meet a stall: each connection has one in a stall, and
/// one after the other between stalls.
fn slow_share(conns: f64, base_ms: f64, stall_ms: f64, period_ms: f64) -> f64 {
    let between = conns * (period_ms - stall_ms) / base_ms;
    conns / (conns + between)
}

/// What the estimate of the omitted requests rests on.
struct Model {
    rate_per_s: f64,
    conns: f64,
    base_ms: f64,
    stall_ms: f64,
}

/// The requests that a closed loop omits in a stall: what users send in it less what the loop
/// sends, each counted over so many stalls; and by arithmetic λS − N.
///
/// The count may differ by chance, which has the standard deviation of a Poisson count; and by the
/// connections whose request was on its way as the stall began.
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

fn plot(file: &'static str, title: &str, [closed, open]: &[Observed; 2]) -> Result<Plot, LabError> {
    let closed = percentiles(&closed.report.whole.naive)?;
    let open = percentiles(&open.report.whole.corrected)?;
    let of_lines = [
        Line { name: "closed loop, naive", points: closed, dashed: true },
        Line { name: "open loop, corrected", points: open, dashed: false },
    ];
    by_percentile(file, title, LATENCY, &of_lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_connections_meet_a_stall_with_one_request_each() {
        // 100 in the stall, 19,000 in the other 950 ms.
        assert!((slow_share(100.0, 5.0, 50.0, 1_000.0) - 100.0 / 19_100.0).abs() < 1e-12);
        assert!((slow_share(20.0, 5.0, 50.0, 1_000.0) - 100.0 / 19_100.0).abs() < 1e-12);
    }

    #[test]
    fn omitted_requests_are_those_of_the_users_less_those_of_the_loop() {
        let model = Model { rate_per_s: 19_100.0, conns: 100.0, base_ms: 5.0, stall_ms: 50.0 };
        let omitted = omitted((12_000, 120), (114_600, 120), &model);
        assert_eq!((omitted.estimated_per_stall, omitted.counted_per_stall), (855.0, 855.0));
        assert_eq!((omitted.sent_closed_per_stall, omitted.counted_in_run), (100.0, 102_600.0));
        // 4·√(955/120), and one connection in 25 with a request under way.
        assert!((omitted.high_per_stall - 855.0 - 15.284).abs() < 1e-3, "{omitted:?}");
        assert!((omitted.low_per_stall - 855.0 + 15.284).abs() < 1e-3, "{omitted:?}");
    }
}
