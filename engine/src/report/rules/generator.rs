//! Rules about the generator: whether its shards were late, stalled, or had no time to spare.

use super::client::mostly_stamped;
use super::share::percent;
use crate::plan::Model;
use crate::record::shard_stats::ShardStats;
use crate::report::figures::time;
use crate::report::verdict::{Code, Level, Reason, Topic, Unit};
use crate::report::{DistributionPart, Report};

/// A core's time that a rate would need is told up to this: what a shard that sent next to nothing
/// would need for the rest is only large.
const NEEDED_SHOWN_MAX: f64 = 10.0;
/// What users could get without waiting for the generator is told up to this share of their time.
const SHARE_SHOWN_MAX: f64 = 0.99;
/// Users who wait for the generator for more than this share of their time wait longer for it than
/// for the target.
const HALF: f64 = 0.5;

pub(super) fn generator_late(report: &Report, reasons: &mut Vec<Reason>) {
    let rules = [late_for_most, stopped, unobserved, late_in_the_tail];
    reasons.extend(rules.into_iter().filter_map(|rule| rule(report)));
}

const OWN_CORES: &str =
    "dedicate cores to the shards (--cores), use --wait spin, or stop what else runs there";

/// The highest known of these quantiles, with its name: p99 if there are enough samples.
fn highest_known(part: &DistributionPart) -> Option<(f64, &'static str, f64)> {
    [(0.99, "p99"), (0.9, "p90"), (0.5, "p50")]
        .into_iter()
        .find_map(|(q, name)| part.quantile_us(q).map(|us| (q, name, us)))
}

fn late_for_most(report: &Report) -> Option<Reason> {
    let bounds = &report.config.plan.thresholds;
    let (lateness, corrected) = (&report.whole.pacer_lateness, &report.whole.corrected);
    let (q, name, figure) = highest_known(lateness)?;
    let typical_us = corrected.quantile_us(0.5).unwrap_or(0.0);
    let threshold = (bounds.lateness * typical_us).max(bounds.lateness_floor_us);
    if figure <= threshold {
        return None;
    }
    let own = corrected.quantile_us(q).is_some_and(|us| bounds.lateness_invalid * us <= figure);
    Some(Reason {
        code: Code::GeneratorLate,
        agent: None,
        level: if own { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Latency, Topic::Arrivals],
        evidence: format!(
            "pacer lateness {name} is {}; the limit is {}",
            time(figure),
            time(threshold)
        ),
        figure,
        threshold,
        unit: Unit::Us,
        meaning:
            "the generator itself sent requests late, and corrected latency includes that lateness"
                .to_owned(),
        cure: OWN_CORES.to_owned(),
    })
}

/// A shard that stalled: a closed loop has no lateness, and a slow open one too few samples of it.
fn stopped(report: &Report) -> Option<Reason> {
    let bounds = &report.config.plan.thresholds;
    let share_of = |shard: &ShardStats| {
        if shard.observed_s == 0.0 { 0.0 } else { shard.stopped_s / shard.observed_s }
    };
    let shards = report.generator.shards.iter();
    let (figure, shard) = shards
        .map(|shard| (share_of(shard), shard))
        .max_by(|one, other| one.0.total_cmp(&other.0))?;
    if figure <= bounds.stopped {
        return None;
    }
    Some(Reason {
        code: Code::GeneratorLate,
        agent: None,
        level: if bounds.stopped_invalid < figure { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "the shard on core {} stalled for {:.3} s ({}), {:.1} ms at a stretch; the limit is {}",
            shard.core,
            shard.stopped_s,
            percent(figure),
            shard.longest_gap_us / 1e3,
            percent(bounds.stopped)
        ),
        figure,
        threshold: bounds.stopped,
        unit: Unit::Share,
        meaning: "during a stall responses were seen late and nothing was sent: latency and \
                  throughput include the generator's own stalls"
            .to_owned(),
        cure: OWN_CORES.to_owned(),
    })
}

/// A shard reads its clocks at the first look after each edge of the window, and looks at least
/// this often unless something stalls it, seconds; both edges together.
const LOOKS_S: f64 = 0.1;

/// A shard whose own figures cover another stretch than the window: it stalled across an edge.
fn unobserved(report: &Report) -> Option<Reason> {
    let bounds = &report.config.plan.thresholds;
    let window_s = report.config.window_s();
    // A shard that has sent its share of a number of requests is done before the others.
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
    (bounds.stopped < figure).then(|| Reason {
        code: Code::GeneratorLate,
        agent: None,
        level: if bounds.stopped_invalid < figure { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "the shard on core {} observed {:.3} s of the window's {window_s:.3} s: off by {}; the \
             limit is {}",
            shard.core,
            shard.observed_s,
            percent(figure),
            percent(bounds.stopped)
        ),
        figure,
        threshold: bounds.stopped,
        unit: Unit::Share,
        meaning: "the shard stalled where the window began or ended, and its own figures don't \
                  cover the window"
            .to_owned(),
        cure: OWN_CORES.to_owned(),
    })
}

fn late_in_the_tail(report: &Report) -> Option<Reason> {
    let bounds = &report.config.plan.thresholds;
    let figure = report.whole.pacer_lateness.quantile_us(0.999)?;
    let tail_us = report.whole.corrected.quantile_us(0.999).unwrap_or(0.0);
    let threshold = (bounds.lateness_tail * tail_us).max(bounds.lateness_tail_floor_us);
    (threshold < figure).then(|| Reason {
        code: Code::GeneratorLate,
        agent: None,
        level: Level::Suspect,
        touches: vec![Topic::Latency],
        evidence: format!(
            "pacer lateness p99.9 is {}; the limit is {}",
            time(figure),
            time(threshold)
        ),
        figure,
        threshold,
        unit: Unit::Us,
        meaning: "the generator paused: corrected p99.9 and above include its pauses, lower \
                  percentiles don't"
            .to_owned(),
        cure: OWN_CORES.to_owned(),
    })
}

pub(super) fn core_saturated(report: &Report, reasons: &mut Vec<Reason>) {
    let bounds = &report.config.plan.thresholds;
    // What a closed loop's users wait for tells which side was the bound, and with the kernel's
    // stamps no latency contains a wait for the generator, unless a response is too long to arrive
    // before the generator reads.
    let share =
        users_share(report).filter(|_| mostly_stamped(report) && !report.has_long_responses());
    if share.is_some_and(|share| share <= bounds.generator_bound) {
        return;
    }
    let Some(Saturated { busiest, threshold, more }) = saturated(report) else { return };
    let (touches, users, meaning) = match share {
        None => (
            vec![Topic::Throughput, Topic::Latency],
            String::new(),
            "the run measured its own generator: the target may be faster than these numbers",
        ),
        Some(share) => (
            vec![Topic::Throughput],
            format!("; users waited for it {} of their time", percent(share)),
            "the generator was the bottleneck, and the target may answer more; latencies end when \
             responses arrive, before they wait for the generator",
        ),
    };
    reasons.push(Reason {
        code: Code::CoreSaturated,
        agent: None,
        level: Level::Invalid,
        touches,
        evidence: format!(
            "the shard on core {} was busy {} of the time{more}; the limit is {}{users}",
            busiest.core,
            percent(busiest.busy),
            percent(threshold)
        ),
        figure: busiest.busy,
        threshold,
        unit: Unit::Share,
        meaning: meaning.to_owned(),
        cure: "add --cores, or lower the load".to_owned(),
    });
}

/// A closed loop whose users waited for the generator while its cores had time to spare: it slept,
/// or was stopped.
pub(super) fn generator_bound(report: &Report, reasons: &mut Vec<Reason>) {
    let threshold = report.config.plan.thresholds.generator_bound;
    let Some(share) = users_share(report).filter(|share| threshold < *share) else { return };
    if saturated(report).is_some() {
        // That reason says it.
        return;
    }
    // With as many users and no wait for the generator, a target that was as fast would answer so
    // many times as much; it may get slower with the load.
    let most = 1.0 / (1.0 - share.min(SHARE_SHOWN_MAX));
    let bottleneck = if HALF < share { "the generator was the bottleneck: " } else { "" };
    let latencies = if mostly_stamped(report) {
        "; latencies end when responses arrive, before they wait for the generator"
    } else {
        ""
    };
    reasons.push(Reason {
        code: Code::GeneratorBound,
        agent: None,
        level: Level::Suspect,
        touches: vec![Topic::Throughput],
        evidence: format!(
            "users waited for the generator {} of their time, from the arrival of a response until \
             their next request was sent; the limit is {}",
            percent(share),
            percent(threshold)
        ),
        figure: share,
        threshold,
        unit: Unit::Share,
        meaning: format!(
            "{bottleneck}without these waits the target would have answered up to {most:.1} times \
             as much{latencies}"
        ),
        cure: OWN_CORES.to_owned(),
    });
}

/// The share of their time for which a closed loop's users waited for the generator.
fn users_share(report: &Report) -> Option<f64> {
    report.littles_law.generator_share
}

/// A shard whose core had no time to spare.
struct Saturated<'a> {
    busiest: &'a ShardStats,
    threshold: f64,
    /// What else speaks for it.
    more: String,
}

fn saturated(report: &Report) -> Option<Saturated<'_>> {
    let bounds = &report.config.plan.thresholds;
    let shards = report.generator.shards.iter();
    let busiest = shards.max_by(|a, b| a.busy.total_cmp(&b.busy))?;
    // A generator that falls behind also waits for responses, so it is rarely busy all the time.
    // Whether its core could have kept up follows from what it spent on what it did send.
    let counts = &report.whole.counts;
    // What waited for `--conns`, or found no connection to be had, didn't wait for the core.
    let elsewhere = counts.capped.saturating_add(counts.unconnected);
    let sent = counts.sent_in_window;
    let short = counts.intended.saturating_sub(sent.saturating_add(elsewhere));
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
        (bounds.busy_behind.min(bounds.busy), more)
    } else {
        (bounds.busy, String::new())
    };
    (threshold < busiest.busy).then_some(Saturated { busiest, threshold, more })
}
