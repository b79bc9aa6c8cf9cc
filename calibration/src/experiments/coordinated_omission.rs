//! Coordinated omission: naive and corrected latency of a target that stalls, against arithmetic
//! and the target's ledger; a published pair; and the requests that pauses omit.

use engine::sys::units::us_to_ns;
use serde::Serialize;

use super::queue::{Grid, Served, paced, pausing, pool, quantile_ms};
use crate::lab::latencies::{Latencies, Requests, backfilled, percentiles, quantile};
use crate::lab::plot::{LATENCY, Line, by_percentile};
use crate::lab::{Computed, Lab, LabError, Observed, Plot};
use crate::observed::{PATH_MS, late};
use crate::truth::{BUCKET, Sample, Truth};

/// Upper edges of the latency counts of the published pair, ms; the last count is of requests that
/// took the pause. By arithmetic each edge lies between two latencies, not at one.
const EDGES_MS: [f64; 5] = [5.0, 41.0, 91.0, 141.0, 200.0];
/// Phases of the stalls relative to the arrivals for which a run's percentile is computed.
const PHASES: u32 = 32;
/// From one phase to the next, as a share of a period: the golden ratio spreads any number evenly.
const PHASE_STEP: f64 = 0.618_033_988_75;

#[derive(Serialize)]
struct Figures {
    open: Run,
    capped: Run,
    paced: Run,
    /// The paced users' naive p99 after back-filling.
    paced_backfilled_p99_ms: f64,
    published: Published,
    ten: Ten,
    pauses: Vec<Pause>,
    pauses_off: f64,
}

/// One run against the target that stalls.
#[derive(Serialize)]
struct Run {
    naive: Latencies,
    corrected: Latencies,
    /// How long the target held the requests, by its ledger: p99.
    held_p99_ms: Option<f64>,
    /// The service time outside of stalls in the closed form: as configured if a request holds up
    /// no other, as measured if it does.
    service_ms: f64,
    /// Corrected p99 by the closed form.
    closed_form_ms: f64,
    /// Naive p99 less corrected p99.
    naive_off_ms: f64,
    /// Corrected p99 less the users' p99 without a cap, by arithmetic.
    beyond_users_ms: f64,
    band: Band,
}

/// The corrected p99 that agrees with arithmetic.
#[derive(Clone, Copy, Serialize)]
struct Band {
    low_ms: f64,
    expected_ms: f64,
    high_ms: f64,
}

/// Computes the figures.
pub(super) fn compute(lab: &mut Lab) -> Result<Computed, LabError> {
    let observed = [observe(lab, "open")?, observe(lab, "capped")?, observe(lab, "paced")?];
    let stalls = Stalls::of(lab)?;
    let users = users(&stalls, &observed[0]);
    let capped_conns = lab.setting("capped_conns")?;
    let (paced_conns, paced_period_ms) =
        (lab.setting("paced_conns")?, lab.setting("paced_period_ms")?);
    let capped = band(&observed[1], stalls.base_ms, |service_ms, phase| {
        pool(&stalls.grid(&observed[1], phase), stalls.rate_per_s, whole(capped_conns), service_ms)
    });
    let paced = band(&observed[2], stalls.base_ms, |service_ms, phase| {
        paced(&stalls.grid(&observed[2], phase), paced_period_ms, whole(paced_conns), service_ms)
    });
    let [of_open, of_capped, of_paced] = &observed;
    // At equal gaps each connection gets every `capped_conns`th request.
    let capped_every_ms = capped_conns * 1e3 / stalls.rate_per_s;
    let in_turn = |of: &Of, every_ms| {
        let service_ms = stalls.base_ms.max(of.cycle_ms);
        (service_ms, stalls.in_turn_ms(0.99, every_ms, service_ms))
    };
    let uncapped = (stalls.base_ms, stalls.uncapped_ms(0.99));
    let runs = [
        run(of_open, uncapped, users, users)?,
        run(of_capped, in_turn(of_capped, capped_every_ms), capped, users)?,
        run(of_paced, in_turn(of_paced, paced_period_ms), paced, users)?,
    ];
    let (published, pair) = published(lab)?;
    let ten = ten(lab)?;
    let pauses = pauses(lab)?;
    let plots = vec![stall_plot(&observed)?, pair];
    let [open, capped, paced] = runs;
    let naive = &of_paced.both.report.whole.naive;
    let max_ns = us_to_ns(naive.max.unwrap_or(0.0));
    let interval_ns = of_paced.both.report.config.plan.period.map_or(0, |of| of.0);
    let naive = naive.decode_histogram().map_err(LabError::figures)?;
    let filled = backfilled(&naive, max_ns, interval_ns);
    let paced_backfilled_p99_ms = filled.value_at_quantile(0.99) as f64 / 1e6;
    let pauses_off = pauses.iter().map(|pause| (pause.due as f64 - pause.expected).abs());
    let pauses_off = pauses_off.fold(0.0, f64::max);
    let figures = Figures {
        open,
        capped,
        paced,
        paced_backfilled_p99_ms,
        published,
        ten,
        pauses,
        pauses_off,
    };
    Ok(Computed::new(&figures, plots))
}

/// A run with its raw samples.
struct Of {
    both: Observed,
    requests: Requests,
    /// How late requests were noticed, p99, and how late sends were beyond that.
    late_ms: f64,
    /// How long a request outside of stalls occupied its connection: at the target, on the path and
    /// in the generator.
    cycle_ms: f64,
}

fn observe(lab: &Lab, name: &str) -> Result<Of, LabError> {
    let both = lab.observed(name)?;
    let each = lab.requests(name)?;
    let [requests] = <[Requests; 1]>::try_from(each)
        .map_err(|_| LabError::figures(format!("`{name}` has no samples of its own")))?;
    let whole = &both.report.whole;
    let us = |value: Option<f64>| value.unwrap_or(0.0) / 1e3;
    let late_ms = us(whole.pacer_lateness.quantile_us(0.99)) + PATH_MS;
    let cycle_ms = us(whole.naive.quantile_us(0.5)) + us(whole.receive_lateness.quantile_us(0.5));
    Ok(Of { both, requests, late_ms, cycle_ms })
}

/// The stalls, as they are configured.
struct Stalls {
    base_ms: f64,
    stall_ms: f64,
    period_ms: f64,
    rate_per_s: f64,
}

impl Stalls {
    fn of(lab: &Lab) -> Result<Stalls, LabError> {
        Ok(Stalls {
            base_ms: lab.setting("base_ms")?,
            stall_ms: lab.setting("stall_ms")?,
            period_ms: lab.setting("period_ms")?,
            rate_per_s: lab.setting("rate_per_s")?,
        })
    }

    /// The stalls of this run, the first of which begins this share of a period after the first
    /// arrival.
    fn grid(&self, of: &Of, phase: f64) -> Grid {
        let (period_ms, stall_ms) = (self.period_ms, self.stall_ms);
        let window_ms = of.both.report.config.window_s() * 1e3;
        Grid { first_ms: phase * period_ms, period_ms, stall_ms, window_ms }
    }

    /// For users held up only by the stall: `d + S − P(1 − q)` while that is above d.
    fn uncapped_ms(&self, q: f64) -> f64 {
        let height_ms = self.stall_ms - self.period_ms * (1.0 - q);
        self.base_ms + height_ms.max(0.0)
    }

    /// Where a connection has a request every T: the first one due in a stall is due at any moment
    /// u of its first T and waits until its end, S − u; each later one waits T − d less. So `P(1 −
    /// q) = Σ min(max(y − k(T − d), 0), T)` over k from 0, where y is how far the latency lies
    /// below d + S.
    fn in_turn_ms(&self, q: f64, every_ms: f64, service_ms: f64) -> f64 {
        let beyond_ms = self.period_ms * (1.0 - q);
        let gains_ms = every_ms - service_ms;
        if gains_ms <= 0.0 {
            return f64::INFINITY;
        }
        let above_ms = |y_ms: f64| -> f64 {
            let later = (0..).map(|k| y_ms - f64::from(k) * gains_ms);
            later.take_while(|ms| 0.0 < *ms).map(|ms| ms.min(every_ms)).sum()
        };
        // The sum grows with y, so bisection finds it.
        let (mut low_ms, mut high_ms) = (0.0, self.stall_ms);
        for _ in 0..64 {
            let middle_ms = f64::midpoint(low_ms, high_ms);
            if above_ms(middle_ms) < beyond_ms {
                low_ms = middle_ms;
            } else {
                high_ms = middle_ms;
            }
        }
        service_ms + self.stall_ms - low_ms
    }
}

/// A number of connections.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
fn whole(number: f64) -> usize {
    number as usize
}

/// The p99 of users who come at the plan's rate and never hold each other up.
fn users(stalls: &Stalls, of: &Of) -> Band {
    let report = &of.both.report;
    let truth = Truth::hold(stalls.base_ms, &of.both.ledger.stalls, of.requests.window);
    let arrivals = report.config.plan.arrivals;
    let sample = Sample { count: report.whole.counts.intended, arrivals };
    let band = truth.quantile_band(0.99, sample, &late(report));
    // After a stall the target has the whole backlog to answer at once; its ledger shows how long
    // that takes.
    let held_ms = of.both.ledger.held.p99.unwrap_or(0.0) / 1e3 + of.late_ms;
    Band { low_ms: band.low_ms, expected_ms: band.expected_ms, high_ms: band.high_ms.max(held_ms) }
}

/// The p99 of users who wait for each other, over all possible phases of the stalls: the least if a
/// request takes just the base latency, and the most if it takes its measured time.
fn band(of: &Of, base_ms: f64, serve: impl Fn(f64, f64) -> Vec<Served>) -> Band {
    let p99s = |service_ms: f64| {
        let phases = (0..PHASES).map(|phase| (f64::from(phase) * PHASE_STEP).fract());
        let p99 = |phase| quantile_ms(&serve(service_ms, phase), 0.99, |one| one.corrected_ms);
        phases.map(p99).collect::<Vec<f64>>()
    };
    let (least, most) = (p99s(base_ms), p99s(base_ms.max(of.cycle_ms)));
    Band {
        low_ms: least.iter().copied().fold(f64::INFINITY, f64::min) * (1.0 - BUCKET),
        expected_ms: most.iter().sum::<f64>() / most.len() as f64,
        high_ms: most.iter().copied().fold(0.0, f64::max) * (1.0 + BUCKET) + of.late_ms,
    }
}

/// `closed_form` is the service time in it, and the corrected p99 that it gives, ms.
fn run(of: &Of, closed_form: (f64, f64), band: Band, users: Band) -> Result<Run, LabError> {
    let (service_ms, closed_form_ms) = closed_form;
    let whole = &of.both.report.whole;
    let (naive, corrected) = (Latencies::of(&whole.naive)?, Latencies::of(&whole.corrected)?);
    Ok(Run {
        held_p99_ms: of.both.ledger.held.p99.map(|us| us / 1e3),
        service_ms,
        closed_form_ms,
        naive_off_ms: naive.p99_ms - corrected.p99_ms,
        beyond_users_ms: corrected.p99_ms - users.expected_ms,
        band,
        naive,
        corrected,
    })
}

/// The published pair over real HTTP.
#[derive(Serialize)]
struct Published {
    requests: u64,
    closed: Closed,
    open: Open,
    /// Open p99 over closed p99.
    ratio: f64,
    edges_ms: [f64; EDGES_MS.len()],
}

#[derive(Serialize)]
struct Closed {
    requests: u64,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    fast: u64,
    slow: u64,
    slow_expected: u64,
}

#[derive(Serialize)]
struct Open {
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    /// By arithmetic, with the service time as configured.
    by_arithmetic: [f64; 4],
    p90_low_ms: f64,
    p90_high_ms: f64,
    p99_low_ms: f64,
    p99_high_ms: f64,
    counts: Vec<u64>,
    counts_by_arithmetic: Vec<u64>,
    /// How far the worst count lies beyond the arithmetic's bounds.
    counts_beyond: f64,
}

fn published(lab: &Lab) -> Result<(Published, Plot), LabError> {
    let open = observe(lab, "published-open")?;
    let closed = observe(lab, "published-closed")?;
    let server = |service_ms| -> Result<Vec<Served>, LabError> {
        Ok(pausing(
            lab.setting("published_rate_per_s")?,
            open.requests.requests.len(),
            service_ms,
            (whole(lab.setting("published_every")?), lab.setting("published_pause_ms")?),
        ))
    };
    // As many as the open loop's, unless the machine is too slow for that.
    let count = open.requests.requests.len().min(closed.requests.requests.len());
    let first = closed.requests.requests[..count].iter();
    let of_closed = sorted(first.filter_map(|request| request.naive_ns()));
    let of_open = sorted(open.requests.requests.iter().map(|request| request.corrected_ns()));
    if of_closed.is_empty() {
        return Err(LabError::figures("no request of the published pair was sent"));
    }
    let service_ms = lab.setting("published_service_ms")?;
    let pause_ms = lab.setting("published_pause_ms")?;
    // The actual service time, path included: the closed loop's median.
    let slower_ms = quantile(&of_closed, 0.5).max(service_ms);
    let (as_configured, slower) = (server(service_ms)?, server(slower_ms)?);
    let p = |q| quantile(&of_open, q);
    let sim = |of: &[Served], q| quantile_ms(of, q, |one| one.corrected_ms);
    let low = |q| sim(&as_configured, q) * (1.0 - BUCKET);
    let high = |q| sim(&slower, q) * (1.0 + BUCKET) + open.late_ms;
    let counts = counts(of_open.iter().copied());
    let counts_of = |of: &[Served]| self::counts(of.iter().map(|one| one.corrected_ms));
    let bounds = [counts_of(&as_configured), counts_of(&slower)];
    let slow = of_closed.iter().filter(|ms| pause_ms <= **ms).count() as u64;
    let every = whole(lab.setting("published_every")?);
    let figures = Published {
        requests: of_open.len() as u64,
        ratio: p(0.99) / quantile(&of_closed, 0.99),
        closed: Closed {
            requests: count as u64,
            p50_ms: quantile(&of_closed, 0.5),
            p90_ms: quantile(&of_closed, 0.9),
            p99_ms: quantile(&of_closed, 0.99),
            p999_ms: quantile(&of_closed, 0.999),
            fast: count as u64 - slow,
            slow,
            slow_expected: (count / every) as u64,
        },
        open: Open {
            p50_ms: p(0.5),
            p90_ms: p(0.9),
            p99_ms: p(0.99),
            p999_ms: p(0.999),
            by_arithmetic: [0.5, 0.9, 0.99, 0.999].map(|q| sim(&as_configured, q)),
            p90_low_ms: low(0.9),
            p90_high_ms: high(0.9),
            p99_low_ms: low(0.99),
            p99_high_ms: high(0.99),
            counts_beyond: beyond(&counts, &bounds, (of_open.len() / every) as u64),
            counts,
            counts_by_arithmetic: bounds[0].clone(),
        },
        edges_ms: EDGES_MS,
    };
    let of_lines = [
        Line {
            name: "closed loop",
            points: percentiles(&closed.both.report.whole.naive)?,
            dashed: true,
        },
        Line {
            name: "open loop, corrected",
            points: percentiles(&open.both.report.whole.corrected)?,
            dashed: false,
        },
    ];
    let title = "one server that pauses with every 500th request";
    Ok((figures, by_percentile("published.svg", title, LATENCY, &of_lines)?))
}

/// Latencies in ascending order, ms.
fn sorted(latencies_ns: impl Iterator<Item = u64>) -> Vec<f64> {
    let mut latencies: Vec<f64> = latencies_ns.map(|ns| ns as f64 / 1e6).collect();
    latencies.sort_by(f64::total_cmp);
    latencies
}

/// Counts of the latencies up to each edge, and beyond the last.
fn counts(latencies_ms: impl Iterator<Item = f64>) -> Vec<u64> {
    let mut counts = vec![0; EDGES_MS.len() + 1];
    for latency_ms in latencies_ms {
        // Rounding may leave a sum of fractions slightly too small.
        let beyond = |edge: &&f64| **edge <= latency_ms + 1e-9;
        counts[EDGES_MS.iter().filter(beyond).count()] += 1;
    }
    counts
}

/// How far the worst count lies outside the bounds of the two arithmetics, where each pause may
/// move one request over each edge.
fn beyond(counts: &[u64], bounds: &[Vec<u64>; 2], pauses: u64) -> f64 {
    let each = counts.iter().zip(&bounds[0]).zip(&bounds[1]).map(|((count, one), other)| {
        let reach = 2 * pauses;
        let (low, high) = (one.min(other).saturating_sub(reach), one.max(other) + reach);
        low.saturating_sub(*count).max(count.saturating_sub(high))
    });
    each.max().unwrap_or(0) as f64
}

/// The ten-request example.
#[derive(Serialize)]
struct Ten {
    requests: u64,
    naive_mean_ms: f64,
    naive_expected_ms: f64,
    naive_low_ms: f64,
    naive_high_ms: f64,
    corrected_mean_ms: f64,
    corrected_expected_ms: f64,
    /// The waits of those behind a slow one, by hand.
    waits_ms: Vec<f64>,
    corrected_low_ms: f64,
    corrected_high_ms: f64,
}

fn ten(lab: &Lab) -> Result<Ten, LabError> {
    let observed = lab.observed("ten")?;
    let whole_run = &observed.report.whole;
    let every = whole(lab.setting("ten_every")?);
    let slow_ms = lab.setting("ten_slow_ms")?;
    let period_ms = lab.setting("ten_period_ms")?;
    let served = pausing(1e3 / period_ms, every * 2, lab.setting("ten_fast_ms")?, (every, slow_ms));
    // The second ten begin with the backlog of the first.
    let ten = &served[every..];
    let mean = |of: fn(&Served) -> f64| ten.iter().map(of).sum::<f64>() / ten.len() as f64;
    let (naive_ms, corrected_ms) = (mean(|one| one.naive_ms), mean(|one| one.corrected_ms));
    let (naive, corrected) =
        (Latencies::of(&whole_run.naive)?, Latencies::of(&whole_run.corrected)?);
    // The window may cut the last ten, and four of them wait for the paths of those before.
    let cut_ms = slow_ms * every as f64 / corrected.count as f64;
    Ok(Ten {
        requests: corrected.count,
        naive_mean_ms: naive.mean_ms,
        naive_expected_ms: naive_ms,
        naive_low_ms: naive_ms - cut_ms,
        naive_high_ms: naive_ms + cut_ms + PATH_MS,
        corrected_mean_ms: corrected.mean_ms,
        corrected_expected_ms: corrected_ms,
        waits_ms: ten
            .iter()
            .map(|one| one.corrected_ms - one.naive_ms)
            .filter(|ms| 0.0 < *ms)
            .collect(),
        corrected_low_ms: corrected_ms - cut_ms,
        corrected_high_ms: corrected_ms + cut_ms + 5.0 * PATH_MS,
    })
}

/// Requests due in one pause.
#[derive(Serialize)]
struct Pause {
    pause_s: f64,
    due: u64,
    expected: f64,
}

fn pauses(lab: &Lab) -> Result<Vec<Pause>, LabError> {
    let mut pauses = Vec::new();
    let runs = ["pause-200ms", "pause-2s", "pause-10s"];
    for name in runs.into_iter().filter(|name| lab.has_made(name)) {
        let of = observe(lab, name)?;
        let Some(pause) = of.requests.whole(&of.both.ledger.pauses).first().copied() else {
            return Err(LabError::figures(format!("`{name}`: no pause lies within the window")));
        };
        let pause_s = (pause.end_ns - pause.begin_ns) as f64 / 1e9;
        let expected = lab.setting("published_rate_per_s")? * pause_s;
        pauses.push(Pause { pause_s, due: of.requests.due_in(&[pause]), expected });
    }
    Ok(pauses)
}

fn stall_plot(observed: &[Of; 3]) -> Result<Plot, LabError> {
    let mut of_lines = Vec::new();
    for (of, names) in observed.iter().zip([
        ["uncapped, naive", "uncapped, corrected"],
        ["few connections, naive", "few connections, corrected"],
        ["paced, naive", "paced, corrected"],
    ]) {
        let whole = &of.both.report.whole;
        for (name, part) in names.into_iter().zip([&whole.naive, &whole.corrected]) {
            let dashed = name.ends_with("naive");
            of_lines.push(Line { name, points: percentiles(part)?, dashed });
        }
    }
    let title = "50 ms of stall every second, seen by three generators";
    by_percentile("stall.svg", title, LATENCY, &of_lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_pair_by_arithmetic() {
        let served = pausing(450.0, 13_500, 1.0, (500, 200.0));
        let p = |q| quantile_ms(&served, q, |one| one.corrected_ms);
        let rounded = [0.5, 0.9, 0.99, 0.999].map(|q| (p(q) * 100.0).round() / 100.0);
        // As published, except for the service time beyond a millisecond there.
        assert_eq!(rounded, [1.0, 137.67, 193.89, 200.0]);
        let naive = counts(served.iter().map(|one| one.naive_ms));
        assert_eq!((naive[0], naive[5]), (13_473, 27));
        let corrected = counts(served.iter().map(|one| one.corrected_ms));
        assert_eq!(corrected.iter().sum::<u64>(), 13_500);
        assert_eq!(corrected, [9339, 754, 1066, 1066, 1248, 27]);
    }

    #[test]
    fn ten_requests_by_hand() {
        let served = pausing(100.0, 20, 2.0, (10, 35.0));
        let mean = |of: fn(&Served) -> f64| served[10..].iter().map(of).sum::<f64>() / 10.0;
        assert!((mean(|one| one.naive_ms) - 5.3).abs() < 1e-9);
        assert!((mean(|one| one.corrected_ms) - 10.5).abs() < 1e-9);
    }

    #[test]
    fn a_count_may_differ_by_the_requests_at_its_edges() {
        let bounds = [vec![100, 50], vec![96, 54]];
        assert_eq!(beyond(&[94, 56], &bounds, 1), 0.0);
        assert_eq!(beyond(&[92, 58], &bounds, 1), 2.0);
    }

    #[test]
    fn the_closed_form_of_independent_users() {
        let stalls = Stalls { base_ms: 5.0, stall_ms: 50.0, period_ms: 1e3, rate_per_s: 1e3 };
        assert!((stalls.uncapped_ms(0.99) - 45.0).abs() < 1e-9);
        assert!((stalls.uncapped_ms(0.5) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn the_closed_form_of_users_in_turn_counts_their_requests() {
        let stalls = Stalls { base_ms: 5.0, stall_ms: 50.0, period_ms: 1e3, rate_per_s: 1e3 };
        // Three of a user's requests are affected: y + (y − 2) + (y − 4) = 10.
        assert!((stalls.in_turn_ms(0.99, 7.0, 5.0) - (55.0 - 16.0 / 3.0)).abs() < 1e-9);
        // Slower ones gain less: y + (y − 1.5) + (y − 3) + (y − 4.5) = 10.
        assert!((stalls.in_turn_ms(0.99, 7.0, 5.5) - (55.5 - 19.0 / 4.0)).abs() < 1e-9);
        // A connection that is never free again.
        assert_eq!(stalls.in_turn_ms(0.99, 7.0, 7.0), f64::INFINITY);
    }
}
