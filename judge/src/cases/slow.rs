//! The case on responses that are slower than a tool waits.

use std::time::Duration;

use target::TargetConfig;

use super::failures::failures;
use super::percentiles::name;
use super::{Case, Finding, Judged, closed_first, connections};
use crate::tool::{Load, PERCENTILES};
use crate::truth::Band;

/// Share and latency of the slow requests, and the least that is slow.
const SHARE: f64 = 0.05;
const HOLD: Duration = Duration::from_millis(2_500);
const FROM: Duration = Duration::from_millis(2_475);

/// Slower than many a tool waits.
pub(super) const SLOW: Case = Case {
    name: "slow",
    holds: "5 % of the requests take 2.5 s, longer than some tools wait by default: they are in the \
            percentiles, or counted as failed.",
    truth: "the hold times in the ledger: the requests held for 2.475 s or more, and those whose \
            connection was closed first",
    tolerance: "p99 of 2.475 s or more; or as many failures, but two that may end with the run, and \
                one for each connection that the end of the run closes",
    reply: "The timeout is documented, and a flag sets it.",
    load: Load::at(200.0, 64, 8),
    mode: closed_first,
    figures: &[PERCENTILES],
    target: |config, _| TargetConfig {
        base_latency: Duration::from_millis(5),
        tail_fraction: SHARE,
        tail_latency: HOLD,
        ..config
    },
    judge: slow,
    ..Case::NONE
};

fn slow(of: &Judged) -> Vec<Finding> {
    let Ok(held) = of.ledger.held.decode() else { return Vec::new() };
    let (low_ns, high_ns) = (FROM.as_nanos(), held.max());
    let answered = u64::try_from(low_ns).map_or(0, |low_ns| held.count_between(low_ns, high_ns));
    let closed = of.ledger.closed_by_peer_unanswered as f64;
    let truth = answered as f64 + closed;
    // Without p99, it can't be known whether the latencies have them.
    let Some(p99) = of.figures.percentile(99.0) else { return Vec::new() };
    let slow_ms = FROM.as_secs_f64() * 1e3;
    // The failures decide only if the percentiles don't have these requests.
    let counts_failures = of.figures.errors.is_some() || of.figures.bad.is_some();
    let finding = match counts_failures && p99.ms + p99.digit_ms < slow_ms {
        true => {
            let low = (answered as f64 - 2.0).max(0.0) + (closed - connections(of)).max(0.0);
            Finding { high: None, ..failures(of, Band { low, truth, high: truth }) }
        }
        false => Finding {
            figure: name(p99),
            found: p99.ms,
            truth: HOLD.as_secs_f64() * 1e3,
            low: Some(slow_ms - p99.digit_ms),
            high: None,
            excused_ms: None,
        },
    };
    vec![finding]
}
