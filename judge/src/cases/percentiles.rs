//! The cases on latency: printed percentiles against closed forms and the target's hold times.

use std::time::Duration;

use target::{Stall, TargetConfig};

use super::{Case, Finding, Judged, LATENCY, closed_first, corrected_first};
use crate::figures::Percentile;
use crate::tool::{Load, Mode};
use crate::truth::{Band, Hold};

/// What client and kernel may add to a latency under a rate, ms: what these cases look for is
/// twenty times as long.
const CLIENT_MS: f64 = 5.0;
/// A percentile is judged if so many requests are beyond it: fewer say nothing.
const BEYOND_MIN: f64 = 10.0;
/// What the target holds each request for, ms.
const BASE_MS: f64 = 1.0;
/// Base, share and extra latency of the case `tail`. A closed loop of its connections then leaves
/// target and machine idle for most of the time, so that neither queues.
const TAIL_MS: (f64, f64, f64) = (20.0, 0.03, 200.0);
/// Base, share and extra latency of the case `bimodal`.
const BIMODAL_MS: (f64, f64, f64) = (100.0, 0.04, 300.0);
/// Share and latency of the slow requests of the case `slow`, and the least that is slow.
const SLOW_SHARE: f64 = 0.05;
const SLOW_HOLD: Duration = Duration::from_millis(2_500);
const SLOW_FROM: Duration = Duration::from_millis(2_475);

/// One freeze.
pub(super) const FREEZE: Case = Case {
    name: "freeze",
    holds: "The target answers nothing for a sixth of the run: percentiles are those of users who \
            came at the rate, 500 per second.",
    truth: "R_q = d0 for q ≤ 1 − S/T, else d0 + S − T(1−q), with d0 = 1 ms, S the freeze that the \
            ledger logged and T the run",
    tolerance: "4 standard deviations of the rank (a score interval), 1 %, the last printed digit; \
                upwards 5 ms for client and kernel, and 2·d0 for each request that a connection \
                must carry of those that waited",
    load: Load { rate: 500.0, connections: 20, seconds: 6 },
    mode: |tool| {
        if !tool.has(Mode::Open) {
            let line = "a closed loop sends nothing while it waits: its percentiles are those of \
                        its connections, not of users who come at a rate";
            return Err(line.to_owned());
        }
        match tool.is_corrected {
            true => Ok(Mode::Open),
            false => Err("its latency counts from when a request was sent, not from when it was \
                          due: its percentiles leave out that users wait"
                .to_owned()),
        }
    },
    figures: LATENCY,
    // The target starts shortly before the tool; the next freeze would come after the end.
    target: |config, seconds| {
        let every = Duration::from_secs_f64(seconds * 2.0 / 3.0);
        let hold = Duration::from_secs_f64(seconds / 6.0);
        let stall = Some(Stall { every, hold });
        TargetConfig { base_latency: Duration::from_millis(1), stall, ..config }
    },
    judge: |of| {
        let stall = of.ledger.stalls.first();
        let freeze_ms = stall.map_or(0.0, |stall| (stall.end_ns - stall.begin_ns) as f64 / 1e6);
        let length_ms = f64::from(of.load.seconds) * 1e3;
        let truth = Hold { freeze_ms, length_ms, ..plain(BASE_MS) };
        let waiting = of.load.rate * freeze_ms / 1e3 / f64::from(of.load.connections);
        let requests = of.load.rate * f64::from(of.load.seconds);
        percentiles(of, &truth, requests, CLIENT_MS + waiting * 2.0 * BASE_MS)
    },
};

/// An independent tail.
pub(super) const TAIL: Case = Case {
    name: "tail",
    holds: "3 % of the requests take 200 ms longer and the target never freezes: percentiles are \
            those of the requests, and nothing is added for users who never waited.",
    truth: "F(x) = (1−p)·[x ≥ d0] + p·[x ≥ d0 + D], with d0 = 20 ms, p = 3 %, D = 200 ms",
    tolerance: "4 standard deviations of the rank (a score interval), 1 %, the last printed digit; \
                upwards 5 ms for client and kernel",
    load: Load { rate: 500.0, connections: 32, seconds: 6 },
    mode: corrected_first,
    figures: LATENCY,
    target: |config, _| with_tail(config, TAIL_MS),
    judge: |of| tailed(of, TAIL_MS, CLIENT_MS),
};

/// Two known latencies.
pub(super) const BIMODAL: Case = Case {
    name: "bimodal",
    holds: "96 % of the requests take 100 ms and 4 % take 400 ms: each printed percentile is one or \
            the other.",
    truth: "F(x) = (1−p)·[x ≥ 100 ms] + p·[x ≥ 400 ms], with p = 4 %",
    tolerance: "1 %, the last printed digit, 4 standard deviations of the rank (a score interval)",
    load: Load { rate: 300.0, connections: 64, seconds: 6 },
    mode: closed_first,
    figures: LATENCY,
    target: |config, _| with_tail(config, BIMODAL_MS),
    judge: |of| tailed(of, BIMODAL_MS, 0.0),
};

/// Nothing is faster than the target.
pub(super) const FLOOR: Case = Case {
    name: "floor",
    holds: "No printed percentile is below what the target held every request for, 1.2 ms.",
    truth: "the shortest hold time in the ledger, which no client can undercut",
    tolerance: "the last printed digit, and 0.1 % for a histogram of three digits",
    load: Load { rate: 200.0, connections: 4, seconds: 3 },
    mode: closed_first,
    figures: LATENCY,
    target: |config, _| TargetConfig { base_latency: Duration::from_micros(1_200), ..config },
    judge: |of| {
        let Some(shortest_us) = of.ledger.held.min else { return Vec::new() };
        let truth = shortest_us / 1e3;
        let find = |printed: &Percentile| Finding {
            figure: name(printed),
            found: printed.ms,
            truth,
            low: Some(truth * 0.999 - printed.digit_ms),
            high: None,
            excused_ms: None,
        };
        of.figures.percentiles.iter().map(find).collect()
    },
};

/// Slower than many a tool waits.
pub(super) const SLOW: Case = Case {
    name: "slow",
    holds: "5 % of the requests take 2.5 s, longer than some tools wait by default: they are in the \
            percentiles, or counted as failed.",
    truth: "the hold times in the ledger: the requests held for 2.475 s or more, and those whose \
            connection was closed first",
    tolerance: "p99 of 2.475 s or more; or as many failures, but two that may end with the run, and \
                one for each connection that the end of the run closes",
    load: Load { rate: 200.0, connections: 64, seconds: 8 },
    mode: closed_first,
    figures: LATENCY,
    target: |config, _| TargetConfig {
        base_latency: Duration::from_millis(5),
        tail_fraction: SLOW_SHARE,
        tail_latency: SLOW_HOLD,
        ..config
    },
    judge: slow,
};

fn slow(of: &Judged) -> Vec<Finding> {
    let Ok(held) = of.ledger.held.decode() else { return Vec::new() };
    let (low_ns, high_ns) = (SLOW_FROM.as_nanos(), held.max());
    let answered = u64::try_from(low_ns).map_or(0, |low_ns| held.count_between(low_ns, high_ns));
    let closed = of.ledger.closed_by_peer_unanswered as f64;
    let truth = answered as f64 + closed;
    // Without p99, it can't be known whether the latencies have them.
    let Some(p99) = of.figures.percentile(99.0) else { return Vec::new() };
    let slow_ms = SLOW_FROM.as_secs_f64() * 1e3;
    // The failures decide only if the percentiles don't have these requests.
    let finding = match of.figures.errors {
        Some(errors) if p99.ms + p99.digit_ms < slow_ms => {
            let connections = f64::from(of.load.connections);
            let low = (answered as f64 - 2.0).max(0.0) + (closed - connections).max(0.0);
            let figure = "failures".to_owned();
            Finding { figure, found: errors, truth, low: Some(low), high: None, excused_ms: None }
        }
        _ => Finding {
            figure: name(&p99),
            found: p99.ms,
            truth: SLOW_HOLD.as_secs_f64() * 1e3,
            low: Some(slow_ms - p99.digit_ms),
            high: None,
            excused_ms: None,
        },
    };
    vec![finding]
}

/// A target with this base, share and extra latency.
fn with_tail(
    config: TargetConfig,
    (base_ms, tail_fraction, extra_ms): (f64, f64, f64),
) -> TargetConfig {
    let [base_latency, tail_latency] =
        [base_ms, base_ms + extra_ms].map(|ms| Duration::from_secs_f64(ms / 1e3));
    TargetConfig { base_latency, tail_fraction, tail_latency, ..config }
}

/// The percentiles of its answers; upwards widened by `late_ms`.
fn tailed(
    of: &Judged,
    (base_ms, tail_fraction, extra_ms): (f64, f64, f64),
    late_ms: f64,
) -> Vec<Finding> {
    let truth = Hold { tail_fraction, extra_ms, ..plain(base_ms) };
    percentiles(of, &truth, of.ledger.answered as f64, late_ms)
}

/// A target that holds each request for so long.
fn plain(base_ms: f64) -> Hold {
    Hold { base_ms, tail_fraction: 0.0, extra_ms: 0.0, freeze_ms: 0.0, length_ms: 1.0 }
}

fn name(printed: &Percentile) -> String {
    format!("p{}, ms", printed.percent)
}

/// Each printed percentile that enough requests decide, against its band; upwards widened by
/// `late_ms`.
fn percentiles(of: &Judged, truth: &Hold, requests: f64, late_ms: f64) -> Vec<Finding> {
    let is_decided = |printed: &&Percentile| {
        let beyond = requests * (1.0 - printed.percent / 100.0);
        BEYOND_MIN <= beyond
    };
    let find = |printed: &Percentile| {
        let Band { low, truth, high } = truth.band(printed.percent / 100.0, requests);
        let high = high + printed.digit_ms + late_ms;
        Finding {
            figure: name(printed),
            found: printed.ms,
            truth,
            low: Some(low - printed.digit_ms),
            high: Some(high),
            excused_ms: Some(printed.ms - high),
        }
    };
    of.figures.percentiles.iter().filter(is_decided).map(find).collect()
}
