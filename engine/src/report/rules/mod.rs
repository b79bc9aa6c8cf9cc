//! The rules of the verdict: each checks one thing in the report, and adds a reason if it crosses
//! its threshold.

mod client;
mod share;

use std::fmt::Write as _;

use self::share::{percent, share, share_of};
use super::report::{DistributionPart, Report};
use super::verdict::{Code, Level, Reason, Topic, Verdict};
use crate::host::watch::CoreTime;
use crate::plan::{Model, Switch};
use crate::record::counts::CountsBy;
use crate::record::outcome::Cause;
use crate::record::shard_stats::ShardStats;
use crate::samples::FileErrorKind;
use crate::stats::distribution::omitted;
use crate::stats::interval::needed;

/// A rule: checks a report and adds its reasons.
type Rule = fn(&Report, &mut Vec<Reason>);

/// All rules, in the order in which reasons of one level are listed.
const RULES: [Rule; 26] = [
    nothing_sent,
    rate_missed,
    generator_late,
    client::receive_late,
    client::client_share,
    client::clock_stepped,
    core_saturated,
    cap_reached,
    starved,
    closed_loop,
    not_settled,
    pool_grew,
    unsolicited,
    buffers_exhausted,
    schedule_not_as_planned,
    littles_law,
    not_stationary,
    too_few_samples,
    local_resource,
    cpu_stolen,
    cpu_contended,
    core_shared,
    cpu_throttled,
    raw_samples_lost,
    interrupted,
    errors,
];

/// Judges a report. Pure: the same report gets the same verdict anywhere.
pub fn judge(report: &Report) -> Verdict {
    let mut reasons = Vec::new();
    for rule in RULES {
        let mut found = Vec::new();
        rule(report, &mut found);
        add_worst(found, &mut reasons);
    }
    // A stable sort keeps the list's order within a level.
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.level));
    let level = reasons.first().map_or(Level::Valid, |reason| reason.level);
    Verdict { level, reasons }
}

/// Adds the reasons that one rule found. Of those with one code it is the worst, the first among
/// equals; its evidence mentions the others.
fn add_worst(mut found: Vec<Reason>, reasons: &mut Vec<Reason>) {
    // A stable sort keeps the rule's order within a level.
    found.sort_by_key(|reason| std::cmp::Reverse(reason.level));
    let begin = reasons.len();
    for reason in found {
        match reasons[begin..].iter_mut().find(|worst| worst.code == reason.code) {
            Some(worst) => {
                let _ = write!(worst.evidence, "; also: {}", reason.evidence);
                for topic in reason.touches {
                    if !worst.touches.contains(&topic) {
                        worst.touches.push(topic);
                    }
                }
            }
            None => reasons.push(reason),
        }
    }
}

fn rate_missed(report: &Report, reasons: &mut Vec<Reason>) {
    let rules = [not_sent, behind_their_pace, off_the_rate];
    reasons.extend(rules.into_iter().filter_map(|rule| rule(report)));
}

fn not_sent(report: &Report) -> Option<Reason> {
    let bounds = &report.config.plan.thresholds;
    let counts = &report.whole.counts;
    let (late, allowed, what, cure) = if report.config.plan.model() == Model::Open {
        (
            unsent_in_window(report),
            (bounds.unsent * counts.intended as f64).max(report.at_the_edge()),
            "were not sent before the window's end",
            "see the other reasons for what delayed the sends; lower --rate, raise --conns, or add \
             --cores",
        )
    } else {
        // A paced user who waits for a response is late by design; a request never sent is not.
        (
            counts.unsent,
            bounds.unsent * counts.intended as f64,
            "were never sent",
            "see the other reasons for what delayed the sends; use a longer --period, or add \
             --cores",
        )
    };
    let threshold = share_of(allowed, counts.intended);
    (allowed < late as f64).then(|| Reason {
        code: Code::RateMissed,
        level: Level::Invalid,
        touches: vec![Topic::Throughput, Topic::Latency, Topic::Arrivals],
        evidence: unsent_evidence(late, what, report, threshold),
        figure: share(late, counts.intended),
        threshold,
        meaning: "the target saw less load than planned: these latencies belong to a lower rate"
            .to_owned(),
        cure: cure.to_owned(),
    })
}

/// A user who falls behind sends late what was due, and the longer the run, the later. A stall just
/// before the window's end leaves over little.
fn behind_their_pace(report: &Report) -> Option<Reason> {
    let plan = &report.config.plan;
    plan.period?;
    let (late, intended) = (unsent_in_window(report), report.whole.counts.intended);
    let allowed = (plan.thresholds.offered * intended as f64).max(report.at_the_edge());
    let threshold = share_of(allowed, intended);
    (allowed < late as f64).then(|| Reason {
        code: Code::RateMissed,
        level: Level::Suspect,
        touches: vec![Topic::Latency, Topic::Arrivals],
        evidence: unsent_evidence(late, "were not sent before the window's end", report, threshold),
        figure: share(late, intended),
        threshold,
        meaning: "the users fell behind their pace: the target saw less load than planned, and \
                  corrected latency depends on --duration, since the backlog grows with it"
            .to_owned(),
        cure: "use a longer --period, and more --conns to keep the rate".to_owned(),
    })
}

/// Intended requests that weren't sent before the window's end. Those that failed to connect are
/// errors, and don't count against the pace.
fn unsent_in_window(report: &Report) -> u64 {
    let counts = &report.whole.counts;
    counts.intended.saturating_sub(counts.sent_in_window.saturating_add(counts.unconnected))
}

fn unsent_evidence(late: u64, what: &str, report: &Report, threshold: f64) -> String {
    let intended = report.whole.counts.intended;
    format!(
        "{late} of {intended} intended requests ({}) {what}; the limit is {}",
        percent(share(late, intended)),
        percent(threshold)
    )
}

fn off_the_rate(report: &Report) -> Option<Reason> {
    let target = report.whole.rate.target?;
    let intended = report.whole.counts.intended;
    let off = (report.whole.rate.intended / target - 1.0).abs();
    // A Poisson count of n varies by 1/√n; up to four times that is chance.
    let chance = 4.0 / (intended.max(1) as f64).sqrt();
    let threshold = report.config.plan.thresholds.offered.max(chance);
    (threshold < off && !report.interrupted).then(|| Reason {
        code: Code::RateMissed,
        level: Level::Invalid,
        touches: vec![Topic::Throughput, Topic::Latency, Topic::Arrivals],
        evidence: format!(
            "{:.1}/s were intended, {target}/s were planned: off by {}; the limit is {}",
            report.whole.rate.intended,
            percent(off),
            percent(threshold)
        ),
        figure: off,
        threshold,
        meaning: "the schedule drew a different rate than the plan's".to_owned(),
        cure: "use a longer --duration".to_owned(),
    })
}

fn nothing_sent(report: &Report, reasons: &mut Vec<Reason>) {
    let counts = &report.whole.counts;
    if counts.unconnected < counts.sent {
        return;
    }
    let intended = counts.intended;
    let (evidence, cure) = match report.config.plan.model() {
        _ if 0 < intended => (
            format!("of {intended} intended requests none was sent"),
            "see the errors by cause and the other reasons for what kept them",
        ),
        _ if report.interrupted && report.config.window_s() == 0.0 => {
            ("the run was interrupted before its window began".to_owned(), "let the run finish")
        }
        Model::Open if report.interrupted => {
            ("no request was due before the interruption".to_owned(), "let the run finish")
        }
        Model::Open => (
            "no request was due in the window".to_owned(),
            "use a longer --duration or a higher --rate",
        ),
        Model::Closed => (
            "no request began in the window: every connection was still waiting for a response or \
             for the connection itself"
                .to_owned(),
            if report.interrupted {
                "see whether the target answers, and let the run finish"
            } else {
                "see whether the target answers, or use a longer --duration"
            },
        ),
    };
    reasons.push(Reason {
        code: Code::NothingSent,
        level: Level::Invalid,
        touches: vec![Topic::Throughput, Topic::Latency, Topic::Arrivals],
        evidence,
        figure: 0.0,
        threshold: 1.0,
        meaning: "the run says nothing about the target".to_owned(),
        cure: cure.to_owned(),
    });
}

fn generator_late(report: &Report, reasons: &mut Vec<Reason>) {
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
        level: if own { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Latency, Topic::Arrivals],
        evidence: format!(
            "pacer lateness {name} is {figure:.1} µs; the limit is {threshold:.1} µs"
        ),
        figure,
        threshold,
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
    let off_s = |shard: &ShardStats| (shard.observed_s - window_s).abs();
    let shard = report
        .generator
        .shards
        .iter()
        .max_by(|one, other| off_s(one).total_cmp(&off_s(other)))
        .filter(|shard| LOOKS_S <= off_s(shard))?;
    let figure = if window_s == 0.0 { 0.0 } else { off_s(shard) / window_s };
    (bounds.stopped < figure).then(|| Reason {
        code: Code::GeneratorLate,
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
        level: Level::Suspect,
        touches: vec![Topic::Latency],
        evidence: format!("pacer lateness p99.9 is {figure:.1} µs; the limit is {threshold:.1} µs"),
        figure,
        threshold,
        meaning: "the generator paused: corrected p99.9 and above include its pauses, lower \
                  percentiles don't"
            .to_owned(),
        cure: OWN_CORES.to_owned(),
    })
}

fn core_saturated(report: &Report, reasons: &mut Vec<Reason>) {
    let bounds = &report.config.plan.thresholds;
    let Some(busiest) = report.generator.shards.iter().max_by(|a, b| a.busy.total_cmp(&b.busy))
    else {
        return;
    };
    // A generator that falls behind also waits for responses, so it is rarely busy all the time.
    // Whether its core could have kept up follows from what it spent on what it did send.
    let counts = &report.whole.counts;
    let behind = report.config.plan.model() == Model::Open
        && (counts.sent_in_window as f64) < (1.0 - bounds.unsent) * counts.intended as f64;
    let needed = busiest.busy * counts.intended as f64 / counts.sent_in_window.max(1) as f64;
    let (threshold, more) = if behind && bounds.busy < needed {
        let more = format!(" while it fell behind, and the planned rate needs {}", percent(needed));
        (bounds.busy_behind.min(bounds.busy), more)
    } else {
        (bounds.busy, String::new())
    };
    if busiest.busy <= threshold {
        return;
    }
    reasons.push(Reason {
        code: Code::CoreSaturated,
        level: Level::Invalid,
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "the shard on core {} was busy {} of the time{more}; the limit is {}",
            busiest.core,
            percent(busiest.busy),
            percent(threshold)
        ),
        figure: busiest.busy,
        threshold,
        meaning: "the run measured its own generator: the target may be faster than these numbers"
            .to_owned(),
        cure: "add --cores, or lower the load".to_owned(),
    });
}

fn cap_reached(report: &Report, reasons: &mut Vec<Reason>) {
    let bounds = &report.config.plan.thresholds;
    let counts = &report.whole.counts;
    let figure = share(counts.capped, counts.intended);
    if bounds.capped < figure {
        let conns = report.config.plan.conns();
        reasons.push(Reason {
            code: Code::CapReached,
            level: Level::Suspect,
            touches: vec![Topic::Latency, Topic::Arrivals],
            evidence: format!(
                "{} arrivals ({}) waited while all {conns} connections were busy; the limit is {}",
                counts.capped,
                percent(figure),
                percent(bounds.capped)
            ),
            figure,
            threshold: bounds.capped,
            meaning: "naive latency omits that wait; corrected latency includes it, and it \
                      depends on the cap"
                .to_owned(),
            cure: "raise --conns, unless the cap is what you want to measure".to_owned(),
        });
    }
}

/// A response that takes this share of the window is slow for it: then users who are served may
/// count as blocked too.
const SLOW_SHARE: f64 = 0.1;

fn starved(report: &Report, reasons: &mut Vec<Reason>) {
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
            "these users got no answer, or hardly one, and stand in the percentiles once or not at \
             all: the numbers are those of the others",
            "see why the target serves some connections and not others: its limit of connections, \
             its workers, its accept queue",
        )
    };
    reasons.push(Reason {
        code: Code::Starved,
        level: if is_invalid { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "{} of {} users ({}) were blocked for half of the window or more; the limit is {}",
            counts.users_blocked,
            counts.users,
            percent(figure),
            percent(bounds.starved)
        ),
        figure,
        threshold: bounds.starved,
        meaning: meaning.to_owned(),
        cure: cure.to_owned(),
    });
}

fn not_settled(report: &Report, reasons: &mut Vec<Reason>) {
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
        level: if bound < figure { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Latency],
        evidence: format!(
            "the setup ended at its limit while the pool of connections was still growing, and {} \
             of {} connections ({}) were added in the window; the limit is {}",
            counts.pool_grew,
            counts.users,
            percent(figure),
            percent(bound)
        ),
        figure,
        threshold: bound,
        meaning: "the window began before the load had found its number of connections, so \
                  latencies may include opening them"
            .to_owned(),
        cure: "open connections in advance with --prewarm, or leave some idle with --spare"
            .to_owned(),
    });
}

fn pool_grew(report: &Report, reasons: &mut Vec<Reason>) {
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
    // costs is the time to connect.
    let corrected = &report.whole.corrected;
    let (name, typical_us) = match corrected.quantile_us(0.5) {
        Some(us) => ("p50", us),
        None => ("mean", corrected.mean.unwrap_or(0.0)),
    };
    let connect_us = report.whole.connect_time.mean.unwrap_or(0.0);
    let is_costly = bounds.lateness * typical_us < connect_us;
    let is_invalid = is_costly && bounds.pool_grew_invalid < figure;
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
        level: if is_invalid { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Latency],
        evidence: format!(
            "{} connections were added to the pool in the window, for {} of the requests; the \
             limit is {}; connecting took {connect_us:.1} µs on average, and corrected {name} is \
             {typical_us:.1} µs",
            counts.pool_grew,
            percent(figure),
            percent(share_of(allowed, counts.intended))
        ),
        figure,
        threshold: share_of(allowed, counts.intended),
        meaning: meaning.to_owned(),
        cure: cure.to_owned(),
    });
}

fn unsolicited(report: &Report, reasons: &mut Vec<Reason>) {
    let counts = &report.whole.counts;
    let early = counts.errors.of(Cause::EarlyResponse);
    // An early response is unsolicited too, and counted as such.
    let all = counts.unsolicited.max(early).saturating_add(counts.trailing);
    if all == 0 {
        return;
    }
    reasons.push(Reason {
        code: Code::Unsolicited,
        level: Level::Suspect,
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "bytes that no request asked for came {} times, {} responses were followed by further \
             bytes, and {early} requests failed because a response was there before they were \
             sent",
            counts.unsolicited, counts.trailing
        ),
        figure: all as f64,
        threshold: 0.0,
        meaning: "responses can't be told apart for certain: some may have been counted for a \
                  request that they don't answer"
            .to_owned(),
        cure: "see what the target, or a proxy before it, sends without being asked".to_owned(),
    });
}

fn buffers_exhausted(report: &Report, reasons: &mut Vec<Reason>) {
    let bound = report.config.plan.thresholds.buffers;
    let counts = &report.whole.counts;
    let shards = report.generator.shards.iter();
    let times = shards.fold(0, |sum: u64, shard| sum.saturating_add(shard.buffers_exhausted));
    let phases = [counts.answered, counts.warmup.answered, counts.setup.answered];
    let answers = phases.into_iter().fold(0, u64::saturating_add);
    let figure = times as f64 / answers.max(1) as f64;
    if figure <= bound {
        return;
    }
    reasons.push(Reason {
        code: Code::BuffersExhausted,
        level: Level::Suspect,
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "{times} receives found no free buffer, {figure:.3} for each response; the limit is \
             {bound:.3}"
        ),
        figure,
        threshold: bound,
        meaning: "responses waited in the kernel for the generator to take them: latency and \
                  throughput include that"
            .to_owned(),
        cure: "add --cores, since each shard has buffers of its own, or lower the load".to_owned(),
    });
}

fn closed_loop(report: &Report, reasons: &mut Vec<Reason>) {
    let plan = &report.config.plan;
    let counts = &report.whole.counts;
    if plan.model() == Model::Open || plan.period.is_some() || counts.sent == 0 {
        return;
    }
    let naive = &report.whole.naive;
    let left_out = naive.decode_histogram().map_or(0, |histogram| omitted(&histogram));
    reasons.push(Reason {
        code: Code::ClosedLoop,
        level: Level::Suspect,
        touches: vec![Topic::Latency],
        evidence: format!(
            "with --conns {}, each connection waited for a response before its next request; users \
             who keep the median pace whatever a response takes would have sent about {left_out} \
             more requests ({} of those sent)",
            plan.conns(),
            percent(share(left_out, counts.sent))
        ),
        figure: left_out as f64,
        threshold: 0.0,
        meaning: "these latencies leave out the requests that would have met a slow target \
                  (coordinated omission); the throughput is that of so many connections"
            .to_owned(),
        cure: "measure latency with --rate; add --period if your users do wait for a response"
            .to_owned(),
    });
}

fn schedule_not_as_planned(report: &Report, reasons: &mut Vec<Reason>) {
    let Some(proof) = &report.arrivals else { return };
    if proof.as_planned || proof.too_few() {
        return;
    }
    reasons.push(Reason {
        code: Code::ScheduleNotAsPlanned,
        level: Level::Suspect,
        touches: vec![Topic::Latency, Topic::Arrivals],
        evidence: report.arrivals_line.clone().unwrap_or_default(),
        figure: proof.failed.len() as f64,
        threshold: 0.0,
        meaning: "the target saw a different arrival pattern than planned, with different bursts"
            .to_owned(),
        cure: "lower the rate per core, use --wait spin, or raise --conns if arrivals waited for \
               connections"
            .to_owned(),
    });
}

fn littles_law(report: &Report, reasons: &mut Vec<Reason>) {
    let threshold = report.config.plan.thresholds.littles_law;
    let law = &report.littles_law;
    if threshold < law.residual {
        reasons.push(Reason {
            code: Code::LittlesLaw,
            level: Level::Invalid,
            touches: vec![Topic::Throughput, Topic::Latency],
            evidence: format!(
                "the mean in flight was {:.3}, throughput times latency is {:.3}: off by {}; the \
                 limit is {}",
                law.in_flight_mean,
                law.expected,
                percent(law.residual),
                percent(threshold)
            ),
            figure: law.residual,
            threshold,
            meaning: "requests were lost, counted twice or given a wrong latency".to_owned(),
            cure: "this is a bug in truetail: keep the report and file an issue".to_owned(),
        });
    }
}

fn not_stationary(report: &Report, reasons: &mut Vec<Reason>) {
    let Some(found) = report.stationarity.as_ref().filter(|found| !found.stationary) else {
        return;
    };
    reasons.push(Reason {
        code: Code::NotStationary,
        level: Level::Suspect,
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "latency in the last quarter differs from the first: KS distance {:.3} (limit {:.3}), \
             p99 ratio {:.2}",
            found.distance, found.distance_max, found.p99_ratio
        ),
        figure: found.distance,
        threshold: found.distance_max,
        meaning: "percentiles over the whole window mix two states and describe neither".to_owned(),
        cure: "use a longer --warmup, or find what changed in the series (--csv)".to_owned(),
    });
}

fn too_few_samples(report: &Report, reasons: &mut Vec<Reason>) {
    let p = report.config.plan.thresholds.percentile;
    let (count, least) = (report.whole.corrected.count, needed(p));
    if count < least {
        reasons.push(Reason {
            code: Code::TooFewSamples,
            level: Level::Suspect,
            touches: vec![Topic::Latency],
            evidence: format!("p{} has {count} samples and needs {least}", p * 100.0),
            figure: count as f64,
            threshold: least as f64,
            meaning: if count < needed(0.5) {
                "no percentile is known: only the counts say something"
            } else {
                "percentiles marked n/a are unknown"
            }
            .to_owned(),
            cure: if report.interrupted {
                "let the run finish"
            } else {
                "use a longer --duration or a higher --rate"
            }
            .to_owned(),
        });
    }
}

fn local_resource(report: &Report, reasons: &mut Vec<Reason>) {
    let counts = &report.whole.counts;
    let of = |errors: &CountsBy<Cause>| errors.of(Cause::LocalResource);
    let failed = of(&counts.errors) + of(&counts.connection_errors);
    let overflows: u64 = report.generator.shards.iter().map(|shard| shard.cq_overflows).sum();
    if failed + overflows == 0 {
        return;
    }
    let taken = match &report.generator.machine.ports {
        None => "how many local ports were in use is unknown".to_owned(),
        Some(ports) => format!(
            "of {} local ports at most {} were in use and {} in TIME_WAIT, {} left",
            ports.range.saturating_mul(ports.sources),
            ports.in_use_max,
            ports.time_wait_max,
            ports.headroom
        ),
    };
    reasons.push(Reason {
        code: Code::LocalResource,
        level: Level::Invalid,
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "{failed} connections failed for lack of a local port, file descriptor or memory, and \
             the completion queue overflowed {overflows} times; {taken}"
        ),
        figure: (failed + overflows) as f64,
        threshold: 0.0,
        meaning: "the generator's machine hit a limit, not the target".to_owned(),
        cure: "connect from more addresses (--source-addresses 127.0.0.2,127.0.0.3), keep \
               connections alive, or widen net.ipv4.ip_local_port_range"
            .to_owned(),
    });
}

fn cpu_stolen(report: &Report, reasons: &mut Vec<Reason>) {
    let bounds = &report.config.plan.thresholds;
    let Some(figure) = report.generator.machine.steal.filter(|steal| bounds.stolen < *steal) else {
        return;
    };
    reasons.push(Reason {
        code: Code::CpuStolen,
        level: if bounds.stolen_invalid < figure { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Throughput, Topic::Latency, Topic::Arrivals],
        evidence: format!(
            "the hypervisor took {} of the cores' time; the limit is {}",
            percent(figure),
            percent(bounds.stolen)
        ),
        figure,
        threshold: bounds.stolen,
        meaning: NO_CORE.to_owned(),
        cure: "use a dedicated machine, or one whose processors aren't shared".to_owned(),
    });
}

const NO_CORE: &str = "the generator could not run while others did: it sent and received late";

fn cpu_contended(report: &Report, reasons: &mut Vec<Reason>) {
    let bounds = &report.config.plan.thresholds;
    let delays = report.generator.shards.iter().filter(|shard| 0.0 < shard.observed_s);
    let waited = delays.map(|shard| shard.run_queue_delay_s / shard.observed_s).fold(0.0, f64::max);
    // A throttled shard waits for its core too, and the kernel counts both waits as one. The part
    // of the quota has a reason of its own with another cure, so it is subtracted; with several
    // cores throttled that is too much, because the kernel reports their sum.
    let throttled = throttled(report);
    let figure = (waited - throttled.unwrap_or(0.0)).max(0.0);
    if figure <= bounds.stolen {
        return;
    }
    let beside = match throttled {
        None => ", held by others or by a quota, which is not known here",
        Some(throttled) if 0.0 < throttled => " beyond what its quota explains",
        Some(_) => "",
    };
    let contenders = report.generator.machine.contenders.iter().map(|other| {
        format!(
            "{} (process {}, {:.2} s of processor time, seen on core {})",
            other.name, other.pid, other.cpu_s, other.core
        )
    });
    let contenders = contenders.collect::<Vec<String>>().join(", ");
    let who = match contenders.as_str() {
        "" => "which processes used it is not known".to_owned(),
        names => format!("the shards' cores were also used by {names}"),
    };
    reasons.push(Reason {
        code: Code::CpuContended,
        level: if bounds.stolen_invalid < figure { Level::Invalid } else { Level::Suspect },
        touches: vec![Topic::Throughput, Topic::Latency, Topic::Arrivals],
        evidence: format!(
            "a shard waited for its core {} of the time{beside}; the limit is {}; {who}",
            percent(figure),
            percent(bounds.stolen)
        ),
        figure,
        threshold: bounds.stolen,
        meaning: NO_CORE.to_owned(),
        cure: "keep other processes, including a local target, off the shards' cores (--cores)"
            .to_owned(),
    });
}

/// What was busy beside a shard: a sibling leaves it less than a whole core's speed, interrupts
/// take its core's time.
fn core_shared(report: &Report, reasons: &mut Vec<Reason>) {
    reasons.extend([busy_sibling, interrupted_core].into_iter().filter_map(|rule| rule(report)));
}

/// What took a core's time, if that is known.
fn time_of(report: &Report, core: usize) -> Option<&CoreTime> {
    report.generator.machine.cores.iter().find(|time| time.core == core)
}

fn busy_sibling(report: &Report) -> Option<Reason> {
    let used = &report.environment.cores;
    let beside = used.iter().flat_map(|shard| {
        let siblings = shard.siblings.iter().flatten().filter(|core| **core != shard.core);
        siblings.filter_map(|core| Some((shard.core, time_of(report, *core)?)))
    });
    let (shard, sibling) = beside.max_by(|one, other| one.1.busy.total_cmp(&other.1.busy))?;
    // A busy sibling takes a part of the core's speed, not its time: it matters from a higher
    // share on than what takes the core itself.
    let threshold = report.config.plan.thresholds.stolen_invalid;
    let what = match used.iter().any(|other| other.core == sibling.core) {
        true => ", which runs a shard too and was",
        false => ", which was",
    };
    (threshold < sibling.busy).then(|| Reason {
        code: Code::CoreShared,
        level: Level::Suspect,
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "the shard on core {shard} shares its physical core with core {}{what} busy {} of the \
             time; the limit is {}",
            sibling.core,
            percent(sibling.busy),
            percent(threshold)
        ),
        figure: sibling.busy,
        threshold,
        meaning: "two hardware threads of one physical core slow each other down: the shard took \
                  longer to send and to receive"
            .to_owned(),
        cure: "name one hardware thread per physical core with --cores, and keep other processes, \
               including a local target, off its siblings"
            .to_owned(),
    })
}

fn interrupted_core(report: &Report) -> Option<Reason> {
    let network = &report.environment.network;
    let serving = network.interrupt_cores.as_deref().unwrap_or_default();
    let shards = report.environment.cores.iter().map(|shard| shard.core);
    let time = shards
        .filter(|core| serving.contains(core))
        .filter_map(|core| time_of(report, core))
        .max_by(|one, other| one.interrupts.total_cmp(&other.interrupts))?;
    let threshold = report.config.plan.thresholds.stolen;
    let interface = network.interface.as_deref().unwrap_or("the interface");
    (threshold < time.interrupts).then(|| Reason {
        code: Code::CoreShared,
        level: Level::Suspect,
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "core {} runs a shard and serves interrupts of {interface}; interrupts took {} of its \
             time; the limit is {}",
            time.core,
            percent(time.interrupts),
            percent(threshold)
        ),
        figure: time.interrupts,
        threshold,
        meaning:
            "the shard stood still while its core served interrupts: it sent and received late"
                .to_owned(),
        cure: format!(
            "name other --cores, or let {interface} use fewer: ethtool -L, or smp_affinity_list of \
             its interrupts in /proc/irq"
        ),
    })
}

/// Throttled time of the control group, summed over cores, as a share of the time observed; `None`
/// if unknown.
fn throttled(report: &Report) -> Option<f64> {
    let machine = &report.generator.machine;
    let throttled_s = machine.throttled_s?;
    (0.0 < machine.observed_s).then(|| throttled_s / machine.observed_s)
}

fn cpu_throttled(report: &Report, reasons: &mut Vec<Reason>) {
    let threshold = report.config.plan.thresholds.throttled;
    let (Some(figure), Some(throttled_s)) =
        (throttled(report), report.generator.machine.throttled_s)
    else {
        return;
    };
    if threshold < figure {
        reasons.push(Reason {
            code: Code::CpuThrottled,
            level: Level::Invalid,
            touches: vec![Topic::Throughput, Topic::Latency, Topic::Arrivals],
            evidence: format!(
                "the control group was throttled for {throttled_s:.3} s in {:.3} s ({}); the limit \
                 is {}",
                report.generator.machine.observed_s,
                percent(figure),
                percent(threshold)
            ),
            figure,
            threshold,
            meaning: "the generator stopped whenever it had used up its CPU quota".to_owned(),
            cure: "raise the container's CPU quota, or run without one".to_owned(),
        });
    }
}

fn raw_samples_lost(report: &Report, reasons: &mut Vec<Reason>) {
    let Some(samples) = report.samples.as_ref().filter(|samples| 0 < samples.lost) else { return };
    let why = samples.error.as_ref().map_or("the disk could not keep up", |error| &error.text);
    let cure = match samples.error.as_ref().map(|error| error.kind) {
        None => "write --raw to a faster disk, or lower the load",
        Some(FileErrorKind::NoRoom) => "write --raw to a disk with more room",
        Some(FileErrorKind::Disk) => {
            "write --raw to another disk; the kernel log (dmesg) says what is wrong with this one"
        }
        Some(FileErrorKind::Place) => {
            "let no other program touch the file of --raw, its .tmp or its folder during the run"
        }
    };
    reasons.push(Reason {
        code: Code::RawSamplesLost,
        level: Level::Suspect,
        touches: vec![Topic::Samples],
        evidence: format!("{} raw samples were lost: {why}", samples.lost),
        figure: samples.lost as f64,
        threshold: 0.0,
        meaning: "the report is complete, but the samples aren't and can't verify it".to_owned(),
        cure: cure.to_owned(),
    });
}

fn interrupted(report: &Report, reasons: &mut Vec<Reason>) {
    if report.interrupted {
        let planned_s = report.config.plan.duration.as_secs_f64();
        reasons.push(Reason {
            code: Code::Interrupted,
            level: Level::Suspect,
            touches: vec![Topic::Throughput, Topic::Latency],
            evidence: if report.config.window_s() < planned_s {
                format!("the window lasted {:.3} s of {planned_s} s", report.config.window_s())
            } else {
                "the drain after the window was cut short".to_owned()
            },
            figure: report.config.window_s(),
            threshold: planned_s,
            meaning: "the numbers cover only the part that ran".to_owned(),
            cure: "let the run finish".to_owned(),
        });
    }
}

fn errors(report: &Report, reasons: &mut Vec<Reason>) {
    let bounds = &report.config.plan.thresholds;
    let counts = &report.whole.counts;
    let bad = counts.failed + counts.timed_out + counts.abandoned + counts.unexpected_status;
    let figure = share(bad, counts.intended);
    if figure <= bounds.errors {
        return;
    }
    let level = if bounds.errors_invalid < figure { Level::Invalid } else { Level::Suspect };
    let meaning = if counts.answered == 0 {
        "nothing was answered: the only latencies are those of requests that were given up"
    } else if report.whole.successes.is_some() {
        "the percentiles mix good and bad responses; the successes have a table of their own"
    } else {
        "failed requests have no latency: the percentiles cover only the others"
    };
    reasons.push(Reason {
        code: Code::Errors,
        level,
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "{bad} of {} requests ({}) failed or had an unexpected status; the limit is {}",
            counts.intended,
            percent(figure),
            percent(bounds.errors)
        ),
        figure,
        threshold: bounds.errors,
        meaning: meaning.to_owned(),
        cure: "look at the errors by cause; list the statuses you expect with --expect-status"
            .to_owned(),
    });
}
