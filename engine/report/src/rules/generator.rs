//! Rules about the generator: whether its shards stalled or had no time to spare.
//!
//! A closed loop's generator is judged by its users' time, not by its core's. A core may be full
//! although the target keeps the users waiting, and half idle while it is stopped. With the
//! kernel's stamps, users who wait for the generator distort only the throughput. If they do so for
//! a share s of their time, a generator without these waits would reach at most 1/(1 − s) times the
//! throughput: the same number of users would then load the target more, and it wouldn't answer
//! faster.

use plan::Model;
use record::shard_stats::ShardStats;

use super::client::{is_measured, mostly_stamped};
use super::rule::Found;
use super::share::{HALF, percent};
use crate::Report;
use crate::verdict::Topic;

/// Share of the window for which a shard may stall: requests due in a longer stall are in p99.
pub const STOPPED_MAX: f64 = 0.01;
/// The same bound for an invalid run: they are then in p90.
const STOPPED_INVALID: f64 = 0.1;
/// Busy share from which a core counts as full if an open load falls behind and its planned rate
/// would need more than the plan's `busy`: a shard that falls behind also waits for responses, and
/// is rarely busy all the time.
const BUSY_BEHIND: f64 = 0.6;
/// Share of their time for which a closed loop's users may wait for the generator: without such
/// waits the throughput would be at most 1.1 times as high.
pub const GENERATOR_BOUND_MAX: f64 = 0.1;
/// The highest core time to report for a rate: extrapolated from a shard that sent next to nothing,
/// it is merely large.
const NEEDED_SHOWN_MAX: f64 = 10.0;
/// The highest share of waiting time to extrapolate the users' throughput from.
const SHARE_SHOWN_MAX: f64 = 0.99;

/// A shard stalled. Nothing was sent during the stall, which no latency of a closed loop shows; and
/// if the whole machine stood still, the kernel stamped late.
pub(super) fn stopped(report: &Report) -> Option<Found> {
    let share_of = |shard: &ShardStats| {
        if shard.observed_s == 0.0 { 0.0 } else { shard.stopped_s / shard.observed_s }
    };
    let shards = report.generator.shards.iter();
    let (figure, shard) = shards
        .map(|shard| (share_of(shard), shard))
        .max_by(|one, other| one.0.total_cmp(&other.0))?;
    if figure <= STOPPED_MAX {
        return None;
    }
    let evidence = format!(
        "the shard on core {} stalled for {:.3} s ({}), {:.1} ms at a stretch; the limit is {}",
        shard.core,
        shard.stopped_s,
        percent(figure),
        shard.longest_gap_us / 1e3,
        percent(STOPPED_MAX)
    );
    Some(Found::suspect(figure, STOPPED_MAX, evidence).invalid_if(STOPPED_INVALID < figure))
}

/// A shard reads its clocks at the first look after each edge of the window, and looks at least
/// this often unless it stalls, seconds; for both edges together.
const LOOKS_S: f64 = 0.1;

/// A shard's own statistics cover another time than the window: it stalled across an edge.
pub(super) fn unobserved(report: &Report) -> Option<Found> {
    let window_s = report.config.window_s();
    // With a number of requests, a shard that has sent its part is done before the others.
    let may_end_early = report.config.plan.ends_by_count();
    let off_s = |shard: &ShardStats| {
        let off_s = shard.observed_s - window_s;
        if may_end_early { off_s.max(0.0) } else { off_s.abs() }
    };
    let shard = report
        .generator
        .shards
        .iter()
        .max_by(|one, other| off_s(one).total_cmp(&off_s(other)))
        .filter(|shard| LOOKS_S <= off_s(shard))?;
    let figure = if window_s == 0.0 { 0.0 } else { off_s(shard) / window_s };
    (STOPPED_MAX < figure).then(|| {
        let evidence = format!(
            "the shard on core {} observed {:.3} s of the window's {window_s:.3} s: off by {}; the \
             limit is {}",
            shard.core,
            shard.observed_s,
            percent(figure),
            percent(STOPPED_MAX)
        );
        Found::suspect(figure, STOPPED_MAX, evidence).invalid_if(STOPPED_INVALID < figure).meaning(
            Some(
                "the shard stalled where the window began or ended, and its own figures don't \
                 cover the window",
            ),
        )
    })
}

/// True if a core without time to spare has an effect that no other reason covers: on a closed
/// loop's throughput, or one that isn't measured. Otherwise it shows in what was sent late or not
/// at all.
pub(super) fn has_effect(report: &Report) -> bool {
    users_share(report).is_some() || !is_measured(report)
}

/// A core had no time to spare.
pub(super) fn core_saturated(report: &Report) -> Option<Found> {
    // What a closed loop's users waited for shows which side was the bottleneck; the latencies are
    // right either way.
    let share = users_share(report).filter(|_| is_measured(report));
    if share.is_some_and(|share| share <= GENERATOR_BOUND_MAX) {
        return None;
    }
    let Saturated { busiest, threshold, more } = saturated(report)?;
    let users = share.map_or_else(String::new, |share| {
        format!("; users waited for it {} of their time", percent(share))
    });
    let evidence = format!(
        "the shard on core {} was busy {} of the time{more}; the limit is {}{users}",
        busiest.core,
        percent(busiest.busy),
        percent(threshold)
    );
    let found = Found::invalid(busiest.busy, threshold, evidence);
    Some(match share {
        Some(_) => found.touches(&[Topic::Throughput]).meaning(Some(
            "the generator was the bottleneck, and the target may answer more; latencies end when \
             responses arrive, before they wait for the generator",
        )),
        None if has_effect(report) => found,
        None => found.touches(&[Topic::Throughput, Topic::Latency, Topic::Arrivals]).meaning(Some(
            "the generator had no time to spare: what it sent late or not at all is its own doing",
        )),
    })
}

/// A closed loop's users waited for the generator while its cores had time to spare: it slept, or
/// was stopped.
pub(super) fn generator_bound(report: &Report) -> Option<Found> {
    let is_bound = |share: &f64| GENERATOR_BOUND_MAX < *share;
    let share = users_share(report).filter(is_bound)?;
    if saturated(report).is_some() {
        // `core_saturated` reports it.
        return None;
    }
    // With as many users and no wait for the generator, an equally fast target would answer this
    // many times as much; it may slow down under the load.
    let most = 1.0 / (1.0 - share.min(SHARE_SHOWN_MAX));
    let bottleneck = if HALF < share { "the generator was the bottleneck: " } else { "" };
    let latencies = if mostly_stamped(report) {
        "; latencies end when responses arrive, before they wait for the generator"
    } else {
        ""
    };
    let evidence = format!(
        "users waited for the generator {} of their time, from the arrival of a response until \
         their next request was sent; the limit is {}",
        percent(share),
        percent(GENERATOR_BOUND_MAX)
    );
    Some(Found::suspect(share, GENERATOR_BOUND_MAX, evidence).meaning(Some(format!(
        "{bottleneck}without these waits the target would have answered up to {most:.1} times as \
         much{latencies}"
    ))))
}

/// The share of their time for which a closed loop's users waited for the generator.
fn users_share(report: &Report) -> Option<f64> {
    report.littles_law.generator_share
}

/// A shard whose core had no time to spare.
struct Saturated<'a> {
    busiest: &'a ShardStats,
    threshold: f64,
    /// Further evidence for it.
    more: String,
}

fn saturated(report: &Report) -> Option<Saturated<'_>> {
    let bounds = &report.config.plan.thresholds;
    let shards = report.generator.shards.iter();
    let busiest = shards.max_by(|a, b| a.busy.total_cmp(&b.busy))?;
    // A generator that falls behind also waits for responses, so it is rarely busy all the time.
    // Whether its core could have kept up is extrapolated from the cost of what it did send.
    let counts = &report.whole.counts;
    // Arrivals that waited at `--conns`, or got no connection, didn't wait for the core, except for
    // the part of that time in which connections were busy because their response waited for it.
    let held = report.littles_law.held_by_generator().unwrap_or(0.0);
    let capped = (1.0 - held) * counts.capped as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "part of a count")]
    let elsewhere = (capped as u64).saturating_add(counts.unconnected);
    let sent = counts.sent_in_window;
    let arrivals = counts.arrivals_sent_in_window().saturating_add(elsewhere);
    let short = counts.arrivals().saturating_sub(arrivals);
    let behind = report.config.plan.model() == Model::Open
        && bounds.unsent * (counts.intended as f64) < short as f64;
    let needed = busiest.busy * (sent + short) as f64 / sent.max(1) as f64;
    let (threshold, more) = if behind && bounds.busy < needed {
        let needed = if needed < NEEDED_SHOWN_MAX {
            percent(needed)
        } else {
            format!("over {}", percent(NEEDED_SHOWN_MAX))
        };
        let rate = if elsewhere == 0 {
            "the planned rate needs"
        } else {
            "what was planned and didn't wait for a connection needs"
        };
        let more = format!(" while it fell behind, and {rate} {needed}");
        (BUSY_BEHIND.min(bounds.busy), more)
    } else {
        (bounds.busy, String::new())
    };
    (threshold < busiest.busy).then_some(Saturated { busiest, threshold, more })
}
