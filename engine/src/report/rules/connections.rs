//! Rules about connections: the pool, the users who depend on it, and what arrives on it.

use super::share::{percent, share, share_of};
use crate::plan::Switch;
use crate::record::outcome::Cause;
use crate::report::figures::{count, time};
use crate::report::verdict::{Code, Level, Reason, Topic, Unit};
use crate::report::{DistributionPart, Report};

/// A response that takes this share of the window is slow for it: then users who are served may
/// count as blocked too.
const SLOW_SHARE: f64 = 0.1;
/// Share of pipelined responses that may be noticed as unsolicited before the run is invalid.
const MISTAKEN_MAX: f64 = 0.001;
/// Share of the responses that others may follow at once before the run is invalid: with one
/// request at a time too, nobody knows which of the two answers it.
const TRAILING_MAX: f64 = 0.01;

pub(super) fn starved(report: &Report, reasons: &mut Vec<Reason>) {
    let bounds = &report.config.plan.thresholds;
    let counts = &report.whole.counts;
    let figure = share(counts.users_blocked, counts.users);
    if counts.users_blocked == 0 || figure < bounds.starved {
        return;
    }
    let typical_us = report.whole.naive.quantile_us(0.5).or(report.whole.naive.mean);
    let is_slow = typical_us.is_some_and(|us| SLOW_SHARE * report.config.window_s() < us / 1e6);
    let is_invalid = bounds.starved_invalid <= figure && !is_slow;
    let (meaning, cure) = if is_slow {
        (
            "the window holds few responses of so slow a target, and those that weren't finished \
             in it weigh less than they should",
            "use a longer --duration",
        )
    } else {
        (
            "their waits ended in no answer, or in one that came after the window or to a request \
             from before it: the percentiles hold little of that time",
            "see why the target serves some connections and not others: its limit of connections, \
             its workers, its accept queue",
        )
    };
    reasons.push(Reason {
        code: Code::Starved,
        agent: None,
        level: if is_invalid { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "{} of {} users ({}) were blocked for half of the window or more; the limit is {}",
            count(counts.users_blocked),
            count(counts.users),
            percent(figure),
            percent(bounds.starved)
        ),
        figure,
        threshold: bounds.starved,
        unit: Unit::Share,
        meaning: meaning.to_owned(),
        cure: cure.to_owned(),
    });
}

pub(super) fn not_settled(report: &Report, reasons: &mut Vec<Reason>) {
    let plan = &report.config.plan;
    let counts = &report.whole.counts;
    // Without keep-alive there is no pool that could settle.
    if counts.setup.settled != Some(false) || plan.keepalive == Switch::Off {
        return;
    }
    // An interruption ended the setup, not its limit.
    if report.interrupted && counts.intended == 0 {
        return;
    }
    let bound = plan.thresholds.not_settled_invalid;
    let figure = share(counts.pool_grew, counts.users);
    reasons.push(Reason {
        code: Code::NotSettled,
        agent: None,
        level: if bound < figure { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Latency],
        evidence: format!(
            "the setup ended at its limit while the pool of connections was still growing, and {} \
             of {} connections ({}) were added in the window; the limit is {}",
            count(counts.pool_grew),
            count(counts.users),
            percent(figure),
            percent(bound)
        ),
        figure,
        threshold: bound,
        unit: Unit::Share,
        meaning: "the window began before the load had found its number of connections, so \
                  latencies may include opening them"
            .to_owned(),
        cure: "open connections in advance with --prewarm, or leave some idle with --spare"
            .to_owned(),
    });
}

pub(super) fn pool_grew(report: &Report, reasons: &mut Vec<Reason>) {
    let plan = &report.config.plan;
    let bounds = &plan.thresholds;
    let counts = &report.whole.counts;
    let figure = share(counts.pool_grew, counts.intended);
    let allowed =
        (bounds.pool_grew * counts.intended as f64).max(report.generator.shards.len() as f64);
    if counts.pool_grew as f64 <= allowed {
        return;
    }
    // However well it was set up, a pool grows while the target or the generator stalls. What that
    // costs is the time to connect, of which the stall leaves little in the latencies of those who
    // met it.
    // A handshake also waits for a target that stalls: the fastest one tells what it takes.
    let connect_us = report.whole.connect_time.mean.unwrap_or(0.0);
    let handshake_us = report.whole.tls.as_ref().and_then(|tls| tls.handshake_time.min);
    let slow_us = typical_of_slowest(&report.whole.corrected, counts.pool_grew);
    let opening_us = connect_us + handshake_us.unwrap_or(0.0);
    let is_costly = slow_us.is_some_and(|us| bounds.lateness * us < opening_us);
    let of_handshake = handshake_us
        .map_or_else(String::new, |us| format!(" and a TLS handshake at least {}", time(us)));
    let is_invalid = is_costly && bounds.pool_grew_invalid < figure;
    let of_slowest = slow_us.map_or_else(String::new, |us| {
        format!(
            ", and corrected latency of the slowest as many requests is {} in the median",
            time(us)
        )
    });
    let (meaning, cure) = if is_costly {
        (
            "the requests that these were opened for waited for them: corrected latency includes \
             connect times that a warm pool wouldn't have",
            "open connections in advance with --prewarm, or leave some idle with --spare",
        )
    } else {
        (
            "each was opened because a request was waiting for it, and connecting took little of \
             the latency: what kept the other connections busy matters more",
            "see whether the target or the generator stalled; if neither did, open connections in \
             advance with --prewarm, or leave some idle with --spare",
        )
    };
    reasons.push(Reason {
        code: Code::PoolGrew,
        agent: None,
        level: if is_invalid { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Latency],
        evidence: format!(
            "{} connections were added to the pool in the window, for {} of the requests; the \
             limit is {}; connecting took {} on average{of_handshake}{of_slowest}",
            count(counts.pool_grew),
            percent(figure),
            percent(share_of(allowed, counts.intended)),
            time(connect_us)
        ),
        figure,
        threshold: share_of(allowed, counts.intended),
        unit: Unit::Share,
        meaning: meaning.to_owned(),
        cure: cure.to_owned(),
    });
}

/// The median latency of so many of the slowest requests, µs; `None` without a latency. A request
/// that waited for its connection to open is seldom among the fast ones.
fn typical_of_slowest(corrected: &DistributionPart, requests: u64) -> Option<f64> {
    let histogram = corrected.decode_histogram().ok().filter(|values| !values.is_empty())?;
    let slowest = share(requests.min(histogram.len()), histogram.len());
    Some(histogram.value_at_quantile(1.0 - slowest / 2.0) as f64 / 1e3)
}

pub(super) fn unsolicited(report: &Report, reasons: &mut Vec<Reason>) {
    let counts = &report.whole.counts;
    let early = counts.errors.of(Cause::EarlyResponse);
    // An early response is unsolicited too, and counted as such.
    let all = counts.unsolicited.max(early).saturating_add(counts.trailing);
    if all == 0 {
        return;
    }
    // Pipelined responses belong to requests by their order alone: one too many shifts all that
    // follow it on its connection, and many more than are noticed.
    let is_shifted =
        1 < report.config.plan.pipeline && MISTAKEN_MAX < share(all, counts.answered.max(all));
    let is_doubled = TRAILING_MAX < share(counts.trailing, counts.answered.max(counts.trailing));
    reasons.push(Reason {
        code: Code::Unsolicited,
        agent: None,
        level: if is_shifted || is_doubled { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "bytes that no request asked for came {} times, {} responses were followed by further \
             bytes, and {} requests failed because a response was there before they were sent",
            count(counts.unsolicited),
            count(counts.trailing),
            count(early)
        ),
        figure: all as f64,
        threshold: 0.0,
        unit: Unit::Count,
        meaning: "responses can't be told apart for certain: some may have been counted for a \
                  request that they don't answer"
            .to_owned(),
        cure: "see what the target, or a proxy before it, sends without being asked".to_owned(),
    });
}

pub(super) fn buffers_exhausted(report: &Report, reasons: &mut Vec<Reason>) {
    let bound = report.config.plan.thresholds.buffers;
    let counts = &report.whole.counts;
    let shards = report.generator.shards.iter();
    let times = shards.fold(0, |sum: u64, shard| sum.saturating_add(shard.buffers_exhausted));
    let figure = times as f64 / counts.answered_ever().max(1) as f64;
    if figure <= bound {
        return;
    }
    reasons.push(Reason {
        code: Code::BuffersExhausted,
        agent: None,
        level: Level::Suspect,
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "{} receives found no free buffer, {figure:.3} for each response; the limit is \
             {bound:.3}",
            count(times)
        ),
        figure,
        threshold: bound,
        unit: Unit::Ratio,
        meaning: "responses waited in the kernel for the generator to take them: latency and \
                  throughput include that"
            .to_owned(),
        cure: "add --cores, since each shard has buffers of its own, or lower the load".to_owned(),
    });
}
