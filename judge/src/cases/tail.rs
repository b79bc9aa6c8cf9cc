//! The cases on independent latencies: nothing may be added to them, or averaged away.

use std::time::Duration;

use target::TargetConfig;

use super::percentiles::{CLIENT_MS, plain, within};
use super::{Case, Finding, Judged, closed_first, connections, corrected_first};
use crate::tool::{Load, PERCENTILES};
use crate::truth::Hold;

/// Base, share and extra latency of the case `tail`. A closed loop of its connections then leaves
/// target and machine idle for most of the time, so that neither queues.
const TAIL_MS: (f64, f64, f64) = (20.0, 0.03, 200.0);
/// How much each request of a burst delays the last one, ms.
const BURST_MS: f64 = 0.2;
/// Base, share and extra latency of the case `bimodal`.
const BIMODAL_MS: (f64, f64, f64) = (100.0, 0.04, 300.0);

/// An independent tail.
pub(super) const TAIL: Case = Case {
    name: "tail",
    holds: "3 % of the requests take 200 ms longer and the target never freezes: nothing is added \
            for users who never waited.",
    truth: "F(x) = (1−p)·[x ≥ d0] + p·[x ≥ d0 + D], with d0 = 20 ms, p = 3 %, D = 200 ms",
    tolerance: "upwards 5 ms for client and kernel",
    reply: "A correction takes each slow request for a stall in which more would have come.",
    load: Load::at(500.0, 32, 6),
    mode: corrected_first,
    figures: &[PERCENTILES],
    target: |config, _| with_tail(config, TAIL_MS),
    judge: |of| tailed(of, TAIL_MS, CLIENT_MS),
    ..Case::NONE
};

/// Two known latencies.
pub(super) const BIMODAL: Case = Case {
    name: "bimodal",
    holds: "96 % of the requests take 100 ms and 4 % take 400 ms: each printed percentile is one or \
            the other.",
    truth: "F(x) = (1−p)·[x ≥ 100 ms] + p·[x ≥ 400 ms], with p = 4 %",
    tolerance: "upwards 5 ms for client and kernel, and 0.2 ms for each connection, since a closed loop \
                sends on all of them at once",
    reply: "Percentiles are interpolated between the two latencies, or are means of the threads'.",
    load: Load::at(300.0, 128, 6),
    mode: closed_first,
    target: |config, _| with_tail(config, BIMODAL_MS),
    judge: |of| tailed(of, BIMODAL_MS, CLIENT_MS + BURST_MS * connections(of)),
    ..TAIL
};

/// A target with this base, share and extra latency.
pub(super) fn with_tail(
    config: TargetConfig,
    (base_ms, tail_fraction, extra_ms): (f64, f64, f64),
) -> TargetConfig {
    let [base_latency, tail_latency] =
        [base_ms, base_ms + extra_ms].map(|ms| Duration::from_secs_f64(ms / 1e3));
    TargetConfig { base_latency, tail_fraction, tail_latency, ..config }
}

/// The percentiles of its answers; upwards widened by `late_ms`.
pub(super) fn tailed(
    of: &Judged,
    (base_ms, tail_fraction, extra_ms): (f64, f64, f64),
    late_ms: f64,
) -> Vec<Finding> {
    let truth = Hold { tail_fraction, extra_ms, ..plain(base_ms) };
    within(of.figures.of_all(), &truth, of.ledger.answered as f64, late_ms)
}
