//! The rules of the verdict: each looks at one thing in the report, and gives a reason when it is beyond its bound.

use super::report::{DistributionPart, Report};
use super::verdict::{Code, Level, Reason, Verdict};
use crate::plan::Model;
use crate::record::shard_stats::ShardStats;
use crate::samples::FileErrorKind;
use crate::stats::interval::needed;

/// What a rule does: looks at a report, and adds its reasons.
type Rule = fn(&Report, &mut Vec<Reason>);

/// All rules, in the order in which reasons of one level are told.
const RULES: [Rule; 14] = [
    rate_missed,
    generator_late,
    core_saturated,
    cap_reached,
    schedule_not_as_planned,
    littles_law,
    not_stationary,
    too_few_samples,
    local_resource,
    cpu_stolen,
    cpu_throttled,
    raw_samples_lost,
    interrupted,
    errors,
];

/// Judges a report. Pure: the same report gets the same verdict anywhere.
pub fn judge(report: &Report) -> Verdict {
    let mut reasons = Vec::new();
    for rule in RULES {
        rule(report, &mut reasons);
    }
    // A stable sort keeps the list's order within a level.
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.level));
    let level = reasons.first().map_or(Level::Valid, |reason| reason.level);
    Verdict { level, reasons }
}

fn share(part: u64, whole: u64) -> f64 {
    share_of(part as f64, whole)
}

fn share_of(part: f64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part / whole as f64 }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn rate_missed(report: &Report, reasons: &mut Vec<Reason>) {
    let bounds = &report.config.plan.thresholds;
    let counts = &report.whole.counts;
    let plan = &report.config.plan;
    let (late, allowed, what) = if plan.model() == Model::Open {
        // Requests that no connection could be had for are errors, and no fault of the pace.
        let sent = counts.sent_in_window + counts.unconnected;
        (
            counts.intended.saturating_sub(sent),
            (bounds.unsent * counts.intended as f64).max(report.at_the_edge()),
            "were not sent before the window's end",
        )
    } else {
        // A paced user who waits for an answer is late by design; a request that never left is not.
        (counts.unsent, bounds.unsent * counts.intended as f64, "were never sent")
    };
    let figure = share(late, counts.intended);
    if allowed < late as f64 {
        reasons.push(Reason {
            code: Code::RateMissed,
            level: Level::Invalid,
            evidence: format!(
                "{late} of {} intended requests ({}) {what}; allowed are {}",
                counts.intended,
                percent(figure),
                percent(share_of(allowed, counts.intended))
            ),
            figure,
            threshold: share_of(allowed, counts.intended),
            meaning: "the target saw less load than the plan says, so its latencies belong to another, lower rate".to_owned(),
            cure: "see the other reasons for what held the sends up; lower --rate, raise --conns, or add --cores".to_owned(),
        });
    }
    if let Some(target) = report.whole.rate.target {
        let off = (report.whole.rate.intended / target - 1.0).abs();
        // A Poisson count of n scatters by 1/√n; four of these are chance.
        let threshold = bounds.offered.max(4.0 / (counts.intended.max(1) as f64).sqrt());
        if threshold < off && !report.interrupted {
            reasons.push(Reason {
                code: Code::RateMissed,
                level: Level::Invalid,
                evidence: format!(
                    "{:.1}/s were intended, {target}/s were asked for: off by {}; allowed are {}",
                    report.whole.rate.intended,
                    percent(off),
                    percent(threshold)
                ),
                figure: off,
                threshold,
                meaning: "the schedule offered another rate than the plan's".to_owned(),
                cure: "use a longer --duration".to_owned(),
            });
        }
    }
}

fn generator_late(report: &Report, reasons: &mut Vec<Reason>) {
    let found =
        late_for_most(report).or_else(|| stopped(report)).or_else(|| late_in_the_tail(report));
    reasons.extend(found);
}

const OWN_CORES: &str =
    "give the shards cores of their own (--cores), use --wait spin, or stop what else runs there";

/// The highest of the quantiles that is known, with its name: p99 where there are samples for it.
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
        evidence: format!("pacer lateness {name} is {figure:.1} µs; allowed are {threshold:.1} µs"),
        figure,
        threshold,
        meaning: "requests left late by the generator's own fault; corrected latencies contain that lateness".to_owned(),
        cure: OWN_CORES.to_owned(),
    })
}

/// A shard that stood still: a closed loop knows no lateness, and a slow open one has too few samples to show it.
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
        evidence: format!(
            "the shard on core {} looked at nothing for {:.3} s ({}), {:.1} ms at a stretch; allowed are {}",
            shard.core,
            shard.stopped_s,
            percent(figure),
            shard.longest_gap_us / 1e3,
            percent(bounds.stopped)
        ),
        figure,
        threshold: bounds.stopped,
        meaning: "answers that came meanwhile were seen late, and what was to be sent wasn't: latencies and throughput contain the generator's own stops".to_owned(),
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
        evidence: format!("pacer lateness p99.9 is {figure:.1} µs; allowed are {threshold:.1} µs"),
        figure,
        threshold,
        meaning: "the generator paused; corrected p99.9 and above contain its pauses, lower percentiles don't".to_owned(),
        cure: OWN_CORES.to_owned(),
    })
}

fn core_saturated(report: &Report, reasons: &mut Vec<Reason>) {
    let bounds = &report.config.plan.thresholds;
    let Some(busiest) = report.generator.shards.iter().max_by(|a, b| a.busy.total_cmp(&b.busy))
    else {
        return;
    };
    // A generator that falls behind waits for responses in between, so it is rarely busy all the time. Whether its core could
    // have offered the plan's rate follows from what it spent on the part that it did offer.
    let counts = &report.whole.counts;
    let behind = report.config.plan.model() == Model::Open
        && (counts.sent_in_window as f64) < (1.0 - bounds.unsent) * counts.intended as f64;
    let needed = busiest.busy * counts.intended as f64 / counts.sent_in_window.max(1) as f64;
    let (threshold, more) = if behind && bounds.busy < needed {
        let more =
            format!(" while it fell behind, and the planned rate needs {} of it", percent(needed));
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
        evidence: format!(
            "the shard on core {} was busy for {} of the window{more}; allowed are {}",
            busiest.core,
            percent(busiest.busy),
            percent(threshold)
        ),
        figure: busiest.busy,
        threshold,
        meaning:
            "the run measured its own generator: the target could have answered more, or sooner"
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
            evidence: format!(
                "{} arrivals ({}) waited because all {conns} connections were busy; allowed are {}",
                counts.capped,
                percent(figure),
                percent(bounds.capped)
            ),
            figure,
            threshold: bounds.capped,
            meaning: "naive latencies leave that wait out; corrected ones contain it, and it depends on the cap".to_owned(),
            cure: "raise --conns, unless the cap is what you mean to measure".to_owned(),
        });
    }
}

fn schedule_not_as_planned(report: &Report, reasons: &mut Vec<Reason>) {
    let Some(proof) = &report.arrivals else { return };
    if proof.as_planned || proof.too_few() {
        return;
    }
    reasons.push(Reason {
        code: Code::ScheduleNotAsPlanned,
        level: Level::Suspect,
        evidence: report.arrivals_line.clone().unwrap_or_default(),
        figure: proof.failed.len() as f64,
        threshold: 0.0,
        meaning: "the target saw arrivals of another shape than the plan's, with other bursts".to_owned(),
        cure: "lower --rate per core, use --wait spin, or raise --conns if arrivals waited for connections".to_owned(),
    });
}

fn littles_law(report: &Report, reasons: &mut Vec<Reason>) {
    let threshold = report.config.plan.thresholds.littles_law;
    let law = &report.littles_law;
    if threshold < law.residual {
        reasons.push(Reason {
            code: Code::LittlesLaw,
            level: Level::Invalid,
            evidence: format!(
                "{:.3} requests were in flight on average, throughput times latency gives {:.3}: off by {}; allowed are {}",
                law.in_flight_mean,
                law.expected,
                percent(law.residual),
                percent(threshold)
            ),
            figure: law.residual,
            threshold,
            meaning: "requests were lost, counted twice or given a latency that they didn't have".to_owned(),
            cure: "this is a fault of truetail: keep the report and tell its authors".to_owned(),
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
        evidence: format!(
            "the last quarter's latencies differ from the first's: KS distance {:.3} (up to {:.3} passes), p99 {:.2} times",
            found.distance, found.distance_max, found.p99_ratio
        ),
        figure: found.distance,
        threshold: found.distance_max,
        meaning: "percentiles of the whole window mix two states and describe neither".to_owned(),
        cure: "use a longer --warmup, or look at the series for what changed".to_owned(),
    });
}

fn too_few_samples(report: &Report, reasons: &mut Vec<Reason>) {
    let p = report.config.plan.thresholds.percentile;
    let (count, least) = (report.whole.corrected.count, needed(p));
    if count < least {
        reasons.push(Reason {
            code: Code::TooFewSamples,
            level: Level::Suspect,
            evidence: format!("p{} has {count} samples; it needs {least}", p * 100.0),
            figure: count as f64,
            threshold: least as f64,
            meaning: "percentiles marked n/a are not known".to_owned(),
            cure: "use a longer --duration or a higher --rate".to_owned(),
        });
    }
}

fn local_resource(report: &Report, reasons: &mut Vec<Reason>) {
    let counts = &report.whole.counts;
    let of = |errors: &std::collections::BTreeMap<String, u64>| {
        errors.get("local_resource").copied().unwrap_or(0)
    };
    let failed = of(&counts.errors) + of(&counts.connection_errors);
    let overflows: u64 = report.generator.shards.iter().map(|shard| shard.cq_overflows).sum();
    if failed + overflows == 0 {
        return;
    }
    let taken = match &report.generator.machine.ports {
        None => "how many ports were taken is not known".to_owned(),
        Some(ports) => format!(
            "towards the target at most {} of {} ports were in use and {} in TIME_WAIT, {} left",
            ports.in_use_max,
            ports.range.saturating_mul(ports.sources),
            ports.time_wait_max,
            ports.headroom
        ),
    };
    reasons.push(Reason {
        code: Code::LocalResource,
        level: Level::Invalid,
        evidence: format!(
            "{failed} connections failed for lack of a local port, file or memory, the completion queue overflowed {overflows} times; {taken}"
        ),
        figure: (failed + overflows) as f64,
        threshold: 0.0,
        meaning: "this machine failed, not the target".to_owned(),
        cure: "connect from more addresses (--source-addresses 127.0.0.2,127.0.0.3), keep connections alive, \
               or widen net.ipv4.ip_local_port_range"
            .to_owned(),
    });
}

fn cpu_stolen(report: &Report, reasons: &mut Vec<Reason>) {
    let bounds = &report.config.plan.thresholds;
    let delays = report.generator.shards.iter().filter(|shard| 0.0 < shard.observed_s);
    let waited = delays.map(|shard| shard.run_queue_delay_s / shard.observed_s).fold(0.0, f64::max);
    // A shard whose group is held back waits for its core as well, and to the kernel it is the same wait. That part is the
    // quota's, which has a reason of its own with another cure; where several cores were held back, more than that part is
    // taken off, since the kernel gives their sum.
    let throttled = throttled(report);
    let waited = (waited - throttled.unwrap_or(0.0)).max(0.0);
    let steal = report.generator.machine.steal;
    let figure = steal.unwrap_or(0.0).max(waited);
    if figure <= bounds.stolen {
        return;
    }
    let beside = match throttled {
        None => ", by others or by a quota, which is not known here",
        Some(throttled) if 0.0 < throttled => " beyond what its quota explains",
        Some(_) => "",
    };
    reasons.push(Reason {
        code: Code::CpuStolen,
        level: if bounds.stolen_invalid < figure { Level::Invalid } else { Level::Suspect },
        evidence: format!(
            "the hypervisor took {} of the cores' time, and a shard waited for its core for {} of the window{beside}; allowed are {}",
            steal.map_or("an unknown share".to_owned(), percent),
            percent(waited),
            percent(bounds.stolen)
        ),
        figure,
        threshold: bounds.stolen,
        meaning: "the generator stood still while others ran; what it sent and saw then is late".to_owned(),
        cure: "measure on a machine of your own, and keep other processes, a local target included, off the shards' cores"
            .to_owned(),
    });
}

/// Time for which the control group was held back against the stretch that it was watched for, cores added up; `None`
/// where it isn't known.
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
            evidence: format!(
                "the control group was held back for {throttled_s:.3} s in {:.3} s ({}); allowed are {}",
                report.generator.machine.observed_s,
                percent(figure),
                percent(threshold)
            ),
            figure,
            threshold,
            meaning: "the generator stood still whenever its quota was used up".to_owned(),
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
            "write --raw to another disk; the kernel's log (dmesg) says what is wrong with this one"
        }
        Some(FileErrorKind::Place) => {
            "let no other program touch the file of --raw, its .tmp or their folder during the run"
        }
    };
    reasons.push(Reason {
        code: Code::RawSamplesLost,
        level: Level::Suspect,
        evidence: format!("{} raw samples were lost: {why}", samples.lost),
        figure: samples.lost as f64,
        threshold: 0.0,
        meaning: "the report is whole; the file of samples isn't, and can't prove it".to_owned(),
        cure: cure.to_owned(),
    });
}

fn interrupted(report: &Report, reasons: &mut Vec<Reason>) {
    if report.interrupted {
        let planned_s = report.config.plan.duration.as_secs_f64();
        reasons.push(Reason {
            code: Code::Interrupted,
            level: Level::Suspect,
            evidence: if report.config.window_s() < planned_s {
                format!("the window lasted {:.3} s of {planned_s} s", report.config.window_s())
            } else {
                "the drain after the window was cut short".to_owned()
            },
            figure: report.config.window_s(),
            threshold: planned_s,
            meaning: "the numbers are those of the part that was run".to_owned(),
            cure: "let the run end by itself".to_owned(),
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
        "nothing was answered: what latencies there are, are those of requests that were given up"
    } else if report.whole.successes.is_some() {
        "the percentiles of all answers mix good and bad ones; those of successes stand beside them"
    } else {
        "failed requests have no latency: the percentiles are those of the others"
    };
    reasons.push(Reason {
        code: Code::Errors,
        level,
        evidence: format!(
            "{bad} of {} requests ({}) had no good answer; allowed are {}",
            counts.intended,
            percent(figure),
            percent(bounds.errors)
        ),
        figure,
        threshold: bounds.errors,
        meaning: meaning.to_owned(),
        cure: "look at the errors by cause; name statuses that are meant with --expect-status"
            .to_owned(),
    });
}
