//! The cases on failures: 503s, resets, torn bodies and repeated responses are no good answers.

use std::time::Duration;

use target::{Fault, FaultKind, TargetConfig};

use super::percentiles::{CLIENT_MS, not_below};
use super::tail::{tailed, with_tail};
use super::{Case, Finding, Judged, answered, closed_first, connections};
use crate::tool::{Load, PERCENTILES};
use crate::truth::Band;

/// Which responses of the case `resets` are resets; and base, share and extra latency of the others.
/// With as many latencies of about zero, p90 would be the base.
const RESET_EVERY: u64 = 2;
const RESET_MS: (f64, f64, f64) = (50.0, 0.15, 100.0);
/// What the target holds each request for in the case `repeated`.
const REPEATED_HOLD: Duration = Duration::from_millis(20);

/// Failures are no answers.
pub(super) const FAILURES: Case = Case {
    name: "failures",
    holds: "503s are said to be failures: the target answers each request with one, at once.",
    truth: "the responses that the ledger counts, all of them 503",
    tolerance: "the last answer of each connection, which may still be under way",
    reply: "A 503 is an answer like any other; the status codes are listed.",
    load: Load::at(200.0, 4, 2),
    mode: closed_first,
    figures: &["bad", "errors"],
    target: |config, _| {
        let route = target::Route { status: 503, ..config.route("/") };
        TargetConfig { routes: vec![route], ..config }
    },
    judge: |of| {
        let truth = of.ledger.answered as f64;
        let high = of.ledger.received as f64;
        vec![failures(of, Band { low: truth - connections(of), truth, high })]
    },
    ..Case::NONE
};

/// A reset is a failure, and its latency no answer's.
pub(super) const RESETS: Case = Case {
    name: "resets",
    holds: "The target resets the connection at once instead of every second response; 85 % of the \
            others take 50 ms, and 15 % take 150 ms: resets are failures, and no percentile has \
            them.",
    truth: "the resets in the ledger; F(x) = (1−p)·[x ≥ 50 ms] + p·[x ≥ 150 ms], with p = 15 %",
    tolerance: "one request of each connection, which the end of the run may cut; percentiles upwards \
                5 ms for client and kernel",
    reply: "A request whose connection is reset is sent again, as RFC 9110 allows for a GET.",
    load: Load::at(600.0, 32, 6),
    mode: closed_first,
    figures: &["bad", "errors", PERCENTILES],
    target: |config, _| {
        let fault = Some(Fault { kind: FaultKind::Reset, every: RESET_EVERY });
        TargetConfig { fault, ..with_tail(config, RESET_MS) }
    },
    judge: |of| {
        let percentiles = tailed(of, RESET_MS, CLIENT_MS);
        faults(of, of.ledger.faulty).into_iter().chain(percentiles).collect()
    },
    ..Case::NONE
};

/// A body that ends too early is a failure.
pub(super) const TORN: Case = Case {
    name: "torn",
    holds: "The target closes the connection after half the body of every second response: these \
            are failures.",
    truth: "the torn responses in the ledger",
    tolerance: "one request of each connection, which the end of the run may cut",
    load: Load::at(200.0, 8, 3),
    mode: closed_first,
    figures: &["bad", "errors"],
    target: |config, _| {
        let fault = Some(Fault { kind: FaultKind::Short, every: 2 });
        TargetConfig { base_latency: Duration::from_millis(5), fault, ..config }
    },
    judge: |of| faults(of, of.ledger.faulty).into_iter().collect(),
    ..Case::NONE
};

/// A response that comes twice answers one request.
pub(super) const REPEATED: Case = Case {
    name: "repeated",
    holds: "Every second response comes twice, and the copy answers nothing: no percentile is below \
            the target's shortest hold, and no more answers are counted than it gave.",
    truth: "the answers in the ledger, and their shortest hold time",
    tolerance: "only 0.1 % for a histogram of three digits, and the last printed digit",
    reply: "No server does this; a proxy that loses count of its responses does.",
    load: Load::at(200.0, 8, 3),
    mode: closed_first,
    figures: &["answered", PERCENTILES],
    target: |config, _| {
        let fault = Some(Fault { kind: FaultKind::Repeat, every: 2 });
        TargetConfig { base_latency: REPEATED_HOLD, fault, ..config }
    },
    judge: |of| {
        // A client that ends the connection, and counts what was on it as failed, is right as well.
        let answered = answered(of, 1.0).map(|finding| Finding { low: None, ..finding });
        answered.into_iter().chain(not_below(of)).collect()
    },
    ..Case::NONE
};

/// The failures that it counts, whatever it calls them.
pub(super) fn failures(of: &Judged, band: Band) -> Finding {
    let found = of.figures.bad.unwrap_or(0.0) + of.figures.errors.unwrap_or(0.0);
    Finding::count("failures", found, band)
}

/// The failures that it counts, against so many faults of the target's.
fn faults(of: &Judged, faults: u64) -> Option<Finding> {
    let (truth, reach) = (faults as f64, connections(of));
    let is_counted = of.figures.bad.is_some() || of.figures.errors.is_some();
    let band = Band { low: truth - reach, truth, high: truth + reach };
    is_counted.then(|| failures(of, band))
}
