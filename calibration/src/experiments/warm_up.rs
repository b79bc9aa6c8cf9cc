//! The experiment on warm-up: p99 of a window that begins with the first request to a cold target,
//! and of the same samples without their first fifth; and a pool that opens within the window.

use engine::report::Report;
use serde::Serialize;

use crate::lab::latencies::Requests;
use crate::lab::plot::{self, Axis, Line, Scale};
use crate::lab::{Extra, Lab, LabError, Measured, Plot};

/// What a p99 may exceed the prediction by, as a share: a cold request waits its time out, and
/// then only the path and a late wake-up of the target add to it.
const BEYOND: f64 = 0.1;
/// How many times the base latency a warm p99 may be.
const WARM_MAX: f64 = 2.0;
/// Windows in the plot.
const POINTS: usize = 60;

#[derive(Debug, Serialize)]
struct Figures {
    cold: Cold,
    pools: Pools,
}

/// The cold target.
#[derive(Debug, Serialize)]
struct Cold {
    base_ms: f64,
    cold_ms: f64,
    /// How many requests the target was told to take longer for, and how many of the window's.
    requests: f64,
    share_percent: f64,
    by_the_ledger: u64,
    /// What p99 is from the first request on, by arithmetic, and the most that agrees with it.
    predicted_ms: f64,
    predicted_max_ms: f64,
    warm_max_ms: f64,
    warmup_s: f64,
    from_the_first: Window,
    after_warmup: Window,
    /// p99 from the first request on as a multiple of that after the warm-up.
    inflation: f64,
}

/// Some of the requests of a run.
#[derive(Debug, PartialEq, Serialize)]
struct Window {
    requests: usize,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

/// A run that opens its connections in the window, and one that opened them before.
#[derive(Debug, Serialize)]
struct Pools {
    cold: Pool,
    warm: Pool,
    opened_more: i64,
}

#[derive(Debug, Serialize)]
struct Pool {
    opened_in_window: u64,
    waited: u64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    p999_ms: Option<f64>,
    connect_p50_us: Option<f64>,
}

/// Makes its runs, and computes its figures.
pub(super) fn measure(lab: &mut Lab) -> Result<Measured, LabError> {
    let setting = if lab.quick() { "cold_requests_quick" } else { "cold_requests" };
    let cold_requests = lab.setting(setting)?;
    let (base_ms, cold_ms) = (lab.setting("base_ms")?, lab.setting("cold_ms")?);
    let target =
        lab.target_with("cold", &Extra::flags([("cold-requests", format!("{cold_requests:.0}"))]))?;
    lab.run("cold-target", &target.url, &Extra::default())?;
    let ledger = target.stop()?;
    let samples = Requests::read(&lab.file("cold-target.raw"))?;
    let window = samples.window;
    let length_ns = (window.end_ns - window.begin_ns) as f64;
    let warmup_ns = length_ns * lab.setting("warmup_percent")? / 100.0;
    // (due since the window's start, latency), both ns.
    let requests: Vec<(f64, u64)> = samples
        .requests
        .iter()
        .map(|one| ((one.intended_ns - window.begin_ns) as f64, one.corrected_ns()))
        .collect();
    let whole = Window::of(&requests, 0.0, length_ns);
    let after = Window::of(&requests, warmup_ns, length_ns);
    let none = || LabError::figures("no request was due in a part of the window");
    let (from_the_first, after_warmup) = (whole.ok_or_else(none)?, after.ok_or_else(none)?);
    let share = cold_requests / from_the_first.requests as f64;
    let predicted_ms = predicted_p99_ms(base_ms, cold_ms, share);
    let plot = by_length(&requests, warmup_ns, length_ns)?;
    let cold = Cold {
        base_ms,
        cold_ms,
        requests: cold_requests,
        share_percent: share * 100.0,
        by_the_ledger: ledger.map_or(0, |ledger| ledger.cold),
        predicted_ms,
        predicted_max_ms: predicted_ms * (1.0 + BEYOND),
        warm_max_ms: base_ms * WARM_MAX,
        warmup_s: warmup_ns / 1e9,
        inflation: from_the_first.p99_ms / after_warmup.p99_ms,
        from_the_first,
        after_warmup,
    };
    let target = lab.target("warm")?;
    let cold_pool = Pool::of(&lab.run("cold-pool", &target.url, &Extra::default())?);
    let warm_pool = Pool::of(&lab.run("warm-pool", &target.url, &Extra::default())?);
    target.stop()?;
    let opened = |pool: &Pool| i64::try_from(pool.opened_in_window).unwrap_or(i64::MAX);
    let opened_more = opened(&cold_pool) - opened(&warm_pool);
    let pools = Pools { cold: cold_pool, warm: warm_pool, opened_more };
    let figures = Figures { cold, pools };
    Ok(Measured::new(&figures, vec![plot]))
}

/// p99 of requests of which this share takes `cold_ms` longer than the others.
fn predicted_p99_ms(base_ms: f64, cold_ms: f64, share: f64) -> f64 {
    if 0.01 < share { base_ms + cold_ms } else { base_ms }
}

impl Window {
    /// The requests due within these times; `None` if there are none.
    fn of(requests: &[(f64, u64)], begin_ns: f64, end_ns: f64) -> Option<Window> {
        let within = requests.iter().filter(|(due_ns, _)| (begin_ns..end_ns).contains(due_ns));
        let mut latencies: Vec<u64> = within.map(|(_, latency_ns)| *latency_ns).collect();
        latencies.sort_unstable();
        let at = |of_thousand| quantile(&latencies, of_thousand).map(|ns| ns as f64 / 1e6);
        let (p50_ms, p99_ms, max_ms) = (at(500)?, at(990)?, at(1_000)?);
        Some(Window { requests: latencies.len(), p50_ms, p99_ms, max_ms })
    }
}

/// The value below which so many of a thousand sorted values lie, or at which; `None` of none.
fn quantile(sorted: &[u64], of_thousand: usize) -> Option<u64> {
    let rank = (sorted.len() * of_thousand).div_ceil(1_000);
    sorted.get(rank.checked_sub(1)?).copied()
}

impl Pool {
    fn of(report: &Report) -> Pool {
        let whole = &report.whole;
        let ms = |q: f64| whole.corrected.quantile_us(q).map(|us| us / 1e3);
        Pool {
            opened_in_window: whole.counts.connects_in_window,
            waited: whole.counts.waited,
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            p999_ms: ms(0.999),
            connect_p50_us: whole.connect_time.quantile_us(0.5),
        }
    }
}

/// p99 of windows of growing length, from the first request on and after the warm-up.
fn by_length(requests: &[(f64, u64)], warmup_ns: f64, length_ns: f64) -> Result<Plot, LabError> {
    let points = |begin_ns: f64| -> Vec<(f64, f64)> {
        let ends = (1..=POINTS).map(|point| length_ns * point as f64 / POINTS as f64);
        ends.filter_map(|end_ns| {
            let window = Window::of(requests, begin_ns, end_ns)?;
            Some((end_ns / 1e9, window.p99_ms))
        })
        .collect()
    };
    plot::lines(
        "p99-by-length.svg",
        "p99 by the length of the window",
        Axis { name: "end of the window, s", scale: Scale::Linear },
        Axis { name: "p99, ms", scale: Scale::Log },
        &[
            Line { name: "from the first request on", points: points(0.0), dashed: false },
            Line { name: "after the warm-up", points: points(warmup_ns), dashed: true },
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_at_their_rank() {
        let values: Vec<u64> = (1..=200).collect();
        for (of_thousand, value) in [(500, 100), (990, 198), (995, 199), (1_000, 200), (1, 1)] {
            assert_eq!(quantile(&values, of_thousand), Some(value), "{of_thousand}");
        }
        assert_eq!(quantile(&[], 500), None);
        assert_eq!(quantile(&[7], 990), Some(7));
    }

    #[test]
    fn a_window_has_the_requests_that_were_due_in_it() {
        // Ten a second for 10 s; the first 30 take 205 ms, the others 5 ms.
        let requests: Vec<(f64, u64)> = (0..100_u32)
            .map(|k| (f64::from(k) * 1e8, if k < 30 { 205_000_000 } else { 5_000_000 }))
            .collect();
        let whole = Window::of(&requests, 0.0, 1e10).expect("requests");
        assert_eq!((whole.requests, whole.p50_ms, whole.p99_ms), (100, 5.0, 205.0));
        let after = Window::of(&requests, 3e9, 1e10).expect("requests");
        assert_eq!((after.requests, after.p99_ms, after.max_ms), (70, 5.0, 5.0));
        assert_eq!(Window::of(&requests, 1e10, 2e10), None);
    }

    #[test]
    fn p99_is_a_cold_requests_only_if_they_are_over_1_percent() {
        assert!((predicted_p99_ms(5.0, 200.0, 0.02) - 205.0).abs() < 1e-9);
        assert!((predicted_p99_ms(5.0, 200.0, 0.009) - 5.0).abs() < 1e-9);
    }
}
