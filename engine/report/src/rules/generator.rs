//! Rules about the generator: whether its shards stalled, or had no time to spare.

use plan::Model;
use record::shard_stats::ShardStats;

use super::client::{is_measured, mostly_stamped};
use super::share::{HALF, percent};
use crate::Report;
use crate::verdict::{Code, Level, Reason, Topic, Unit};

/// Share of the window for which a shard may have stalled: what was due in a longer stall is in p99.
pub const STOPPED_MAX: f64 = 0.01;
/// The same, beyond which the run is invalid: it is in p90 then.
const STOPPED_INVALID: f64 = 0.1;
/// Busy share from which a core is full while an open load falls behind and its planned rate would
/// need more than the plan's `busy`: who falls behind also waits for responses, and is rarely busy
/// all the time.
const BUSY_BEHIND: f64 = 0.6;
/// Share of their time for which a closed loop's users may wait for the generator: without such
/// waits they would have been answered 1.1 times as much at most.
pub const GENERATOR_BOUND_MAX: f64 = 0.1;
/// A core's time that a rate would need is told up to this: what a shard that sent next to nothing
/// would need for the rest is only large.
const NEEDED_SHOWN_MAX: f64 = 10.0;
/// What users could get without waiting for the generator is told up to this share of their time.
const SHARE_SHOWN_MAX: f64 = 0.99;

pub(super) fn generator_late(report: &Report, reasons: &mut Vec<Reason>) {
    let rules = [stopped, unobserved];
    reasons.extend(rules.into_iter().filter_map(|rule| rule(report)));
}

const OWN_CORES: &str =
    "dedicate cores to the shards (--cores), use --wait spin, or stop what else runs there";

/// A shard that stalled. Nothing was sent meanwhile, which no latency of a closed loop tells; and if
/// the whole machine stood still, the kernel stamped late what came.
fn stopped(report: &Report) -> Option<Reason> {
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
    Some(Reason {
        code: Code::GeneratorLate,
        agent: None,
        level: if STOPPED_INVALID < figure { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "the shard on core {} stalled for {:.3} s ({}), {:.1} ms at a stretch; the limit is {}",
            shard.core,
            shard.stopped_s,
            percent(figure),
            shard.longest_gap_us / 1e3,
            percent(STOPPED_MAX)
        ),
        figure,
        threshold: STOPPED_MAX,
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
    (STOPPED_MAX < figure).then(|| Reason {
        code: Code::GeneratorLate,
        agent: None,
        level: if STOPPED_INVALID < figure { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "the shard on core {} observed {:.3} s of the window's {window_s:.3} s: off by {}; the \
             limit is {}",
            shard.core,
            shard.observed_s,
            percent(figure),
            percent(STOPPED_MAX)
        ),
        figure,
        threshold: STOPPED_MAX,
        unit: Unit::Share,
        meaning: "the shard stalled where the window began or ended, and its own figures don't \
                  cover the window"
            .to_owned(),
        cure: OWN_CORES.to_owned(),
    })
}

/// A core without time to spare whose effect is on a closed loop's throughput, or isn't measured.
pub(super) fn core_saturated(report: &Report, reasons: &mut Vec<Reason>) {
    reasons.extend(full_core(report, true));
}

/// A core without time to spare whose effect, if there is one, is measured: what it sent late or
/// not at all.
pub(super) fn core_busy(report: &Report, notes: &mut Vec<Reason>) {
    notes.extend(full_core(report, false));
}

/// A core without time to spare, if it `is_effect` or only a cause.
fn full_core(report: &Report, is_effect: bool) -> Option<Reason> {
    // What a closed loop's users wait for tells which side was the bound, and latencies are what
    // they are.
    let share = users_share(report).filter(|_| is_measured(report));
    if share.is_some_and(|share| share <= GENERATOR_BOUND_MAX) {
        return None;
    }
    if is_effect != (share.is_some() || !is_measured(report)) {
        return None;
    }
    let Saturated { busiest, threshold, more } = saturated(report)?;
    let (touches, users, meaning) = match share {
        Some(share) => (
            vec![Topic::Throughput],
            format!("; users waited for it {} of their time", percent(share)),
            "the generator was the bottleneck, and the target may answer more; latencies end when \
             responses arrive, before they wait for the generator",
        ),
        None if is_effect => (
            vec![Topic::Throughput, Topic::Latency],
            String::new(),
            "the run measured its own generator: the target may be faster than these numbers",
        ),
        None => (
            vec![Topic::Throughput, Topic::Latency, Topic::Arrivals],
            String::new(),
            "the generator had no time to spare: what it sent late or not at all is its own doing",
        ),
    };
    Some(Reason {
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
    })
}

/// A closed loop whose users waited for the generator while its cores had time to spare: it slept,
/// or was stopped.
pub(super) fn generator_bound(report: &Report, reasons: &mut Vec<Reason>) {
    let is_bound = |share: &f64| GENERATOR_BOUND_MAX < *share;
    let Some(share) = users_share(report).filter(is_bound) else { return };
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
            percent(GENERATOR_BOUND_MAX)
        ),
        figure: share,
        threshold: GENERATOR_BOUND_MAX,
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
    // What waited for `--conns`, or found no connection to be had, didn't wait for the core: but
    // for the part that connections were busy because their response waited for it.
    let held = report.littles_law.held_by_generator().unwrap_or(0.0);
    let capped = (1.0 - held) * counts.capped as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "part of a count")]
    let elsewhere = (capped as u64).saturating_add(counts.unconnected);
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
        (BUSY_BEHIND.min(bounds.busy), more)
    } else {
        (bounds.busy, String::new())
    };
    (threshold < busiest.busy).then_some(Saturated { busiest, threshold, more })
}
