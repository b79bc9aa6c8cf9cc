//! Rules about the numbers: whether they add up, are enough, and stand for the whole run.

use plan::Model;
use samples::{FileErrorKind, SampleFolder};
use stats::distribution::omitted;
use stats::interval::needed;

use super::generator::{core_saturated, generator_bound, generator_late};
use super::machine::{cpu_contended, cpu_stolen, cpu_throttled};
use super::share::{percent, roughly, share};
use crate::Report;
use crate::figures::count;
use crate::profile::Sampler;
use crate::verdict::{Code, Level, Reason, Topic, Unit};

/// Residual that Little's law may have: both sides count the same requests, so that only what an
/// edge of the window cuts in two is between them.
const RESIDUAL_MAX: f64 = 0.01;
/// Share of the requests without a good answer beyond which the run is invalid: its percentiles are
/// those of the few.
const ERRORS_INVALID: f64 = 0.5;

pub(super) fn closed_loop(report: &Report, reasons: &mut Vec<Reason>) {
    let plan = &report.config.plan;
    let counts = &report.whole.counts;
    if plan.model() == Model::Open || plan.period.is_some() || counts.sent == 0 {
        return;
    }
    let pipeline = match plan.pipeline {
        1 => String::new(),
        pipeline => format!(" and --pipeline {pipeline}"),
    };
    let naive = &report.whole.naive;
    let left_out = naive.decode_histogram().map_or(0, |histogram| omitted(&histogram));
    let mut disturbances = Vec::new();
    for rule in
        [generator_late, core_saturated, generator_bound, cpu_stolen, cpu_contended, cpu_throttled]
    {
        rule(report, &mut disturbances);
    }
    let (more, meaning) = match left_out {
        // None took twice the median.
        0 => (
            "no response took long enough to hold up another request at the median pace".to_owned(),
            "had the target stalled, these latencies would leave out the requests that met it \
             (coordinated omission); the throughput is that of so many connections"
                .to_owned(),
        ),
        left_out => (
            format!(
                "users who keep the median pace whatever a response takes would have sent about \
                 {} more requests ({} of those sent)",
                count(left_out),
                roughly(share(left_out, counts.sent))
            ),
            format!(
                "these latencies leave out the requests that would have met {} (coordinated \
                 omission); the throughput is that of so many connections",
                slow_ones(&disturbances)
            ),
        ),
    };
    reasons.push(Reason {
        code: Code::ClosedLoop,
        agent: None,
        level: Level::Suspect,
        touches: vec![Topic::Latency],
        evidence: format!(
            "with --conns {}{pipeline}, each connection waited for a response before its next \
             request; {more}",
            plan.conns()
        ),
        figure: left_out as f64,
        threshold: 0.0,
        unit: Unit::Count,
        meaning,
        cure: "measure latency with --rate; add --period if your users do wait for a response"
            .to_owned(),
    });
}

/// What requests that a closed loop left out would have met.
fn slow_ones(disturbances: &[Reason]) -> String {
    let mut codes: Vec<String> =
        disturbances.iter().map(|reason| reason.code.to_string()).collect();
    codes.dedup();
    if codes.is_empty() {
        return "a slow target".to_owned();
    }
    let codes = codes.join(", ");
    format!("slow responses, which may be the generator's or its machine's doing ({codes})")
}

pub(super) fn littles_law(report: &Report, reasons: &mut Vec<Reason>) {
    let law = &report.littles_law;
    if RESIDUAL_MAX < law.residual {
        reasons.push(Reason {
            code: Code::LittlesLaw,
            agent: None,
            level: Level::Invalid,
            touches: vec![Topic::Throughput, Topic::Latency],
            evidence: format!(
                "the mean in flight was {:.3}, throughput times latency is {:.3}: off by {}; the \
                 limit is {}",
                law.in_flight_mean,
                law.expected,
                percent(law.residual),
                percent(RESIDUAL_MAX)
            ),
            figure: law.residual,
            threshold: RESIDUAL_MAX,
            unit: Unit::Share,
            meaning:
                "requests were lost or counted twice, or were sent and handled at other times \
                      than recorded"
                    .to_owned(),
            cure: "this is a bug in truetail: keep the report and file an issue".to_owned(),
        });
    }
}

pub(super) fn not_stationary(report: &Report, reasons: &mut Vec<Reason>) {
    let Some(found) = report.stationarity.as_ref().filter(|found| !found.stationary) else {
        return;
    };
    let (figure, back) = match found.distance_recurring {
        None => (found.distance, String::new()),
        Some(distance) => (distance, format!(", {distance:.3} to what is most alike elsewhere")),
    };
    reasons.push(Reason {
        code: Code::NotStationary,
        agent: None,
        level: Level::Suspect,
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "latency in the last quarter differs from the first: KS distance {:.3}{back} (limit \
             {:.3}), p99 ratio {:.2}",
            found.distance, found.distance_max, found.p99_ratio
        ),
        figure,
        threshold: found.distance_max,
        unit: Unit::KsDistance,
        meaning: "percentiles over the whole window mix two states and describe neither".to_owned(),
        cure: "use a longer --warmup, or find what changed in the series (--csv)".to_owned(),
    });
}

pub(super) fn too_few_samples(report: &Report, reasons: &mut Vec<Reason>) {
    let p = report.config.plan.thresholds.percentile;
    let (samples, least) = (report.whole.corrected.count, needed(p));
    if samples < least {
        reasons.push(Reason {
            code: Code::TooFewSamples,
            agent: None,
            level: Level::Suspect,
            touches: vec![Topic::Latency],
            evidence: format!(
                "p{} has {} samples and needs {}",
                p * 100.0,
                count(samples),
                count(least)
            ),
            figure: samples as f64,
            threshold: least as f64,
            unit: Unit::Count,
            meaning: if samples < needed(0.5) {
                "no percentile is known: only the counts say something"
            } else {
                "percentiles marked n/a are unknown"
            }
            .to_owned(),
            cure: match report.config.plan.model() {
                _ if report.interrupted => "let the run finish",
                Model::Open => "use a longer --duration or a higher --rate",
                Model::Closed => "use a longer --duration or more --conns",
            }
            .to_owned(),
        });
    }
}

pub(super) fn raw_samples_lost(report: &Report, reasons: &mut Vec<Reason>) {
    let Some(samples) = report.samples.as_ref().filter(|samples| 0 < samples.lost) else { return };
    // What was counted by the rate alone has no samples, whatever the disk does.
    let uncounted = report.config.schedule_estimated.unwrap_or(0).min(samples.lost);
    let why = match &samples.error {
        Some(error) => error.text.clone(),
        None if uncounted == 0 => "the disk could not keep up".to_owned(),
        None => {
            let by_disk = match samples.lost - uncounted {
                0 => String::new(),
                lost => format!("; {} more because the disk could not keep up", count(lost)),
            };
            format!(
                "{} arrivals were counted by the rate, not one by one{by_disk}",
                count(uncounted)
            )
        }
    };
    let error = samples.error.as_ref().map(|error| (error.kind, error.folder));
    let cure = match error {
        None if uncounted == samples.lost => {
            "lower --rate: the other reasons say what kept the arrivals from being sent"
        }
        None if report.per_agent.iter().any(|agent| agent.synchronization.is_some()) => {
            "give the agent a --state-dir on a faster disk, or lower the load"
        }
        None => "write --raw to a faster disk, or lower the load",
        Some((FileErrorKind::NoRoom, SampleFolder::Raw)) => "write --raw to a disk with more room",
        Some((FileErrorKind::NoRoom, SampleFolder::StateDir)) => {
            "give the agent a --state-dir on a disk with more room"
        }
        Some((FileErrorKind::Disk, SampleFolder::Raw)) => {
            "write --raw to another disk; the kernel log (dmesg) says what is wrong with this one"
        }
        Some((FileErrorKind::Disk, SampleFolder::StateDir)) => {
            "give the agent a --state-dir on another disk; its kernel log (dmesg) says what is \
             wrong with this one"
        }
        Some((FileErrorKind::Place, SampleFolder::Raw)) => {
            "let no other program touch the file of --raw, its .tmp or its folder during the run"
        }
        Some((FileErrorKind::Place, SampleFolder::StateDir)) => {
            "let no other program touch the agent's --state-dir during the run"
        }
    };
    reasons.push(Reason {
        code: Code::RawSamplesLost,
        agent: None,
        level: Level::Suspect,
        touches: vec![Topic::Samples],
        evidence: format!("{} raw samples were lost: {why}", count(samples.lost)),
        figure: samples.lost as f64,
        threshold: 0.0,
        unit: Unit::Count,
        meaning: "the report is complete, but the samples aren't and can't verify it".to_owned(),
        cure: cure.to_owned(),
    });
}

pub(super) fn profiled(report: &Report, reasons: &mut Vec<Reason>) {
    let Some(profile) = &report.profile else { return };
    let by = match profile.sampling.source {
        Sampler::Perf => "perf",
        Sampler::InProcess => "a signal handler in its own threads",
    };
    reasons.push(Reason {
        code: Code::Profiled,
        agent: None,
        level: Level::Suspect,
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "{by} took {} samples of its stacks in {:.3} s of processor time",
            count(profile.samples),
            profile.sampling.cpu_s
        ),
        figure: profile.samples as f64,
        threshold: 0.0,
        unit: Unit::Count,
        meaning: "each sample stops a thread for microseconds: requests cost more, and some are \
                  late"
            .to_owned(),
        cure: "take the numbers from a run without --flamegraph, the profile from this one"
            .to_owned(),
    });
}

pub(super) fn interrupted(report: &Report, reasons: &mut Vec<Reason>) {
    if report.interrupted {
        let planned_s = report.config.plan.duration.as_secs_f64();
        reasons.push(Reason {
            code: Code::Interrupted,
            agent: None,
            level: Level::Suspect,
            touches: vec![Topic::Throughput, Topic::Latency],
            evidence: if report.config.window_s() < planned_s {
                format!("the window lasted {:.3} s of {planned_s} s", report.config.window_s())
            } else {
                "the drain after the window was cut short".to_owned()
            },
            figure: report.config.window_s(),
            threshold: planned_s,
            unit: Unit::S,
            meaning: "the numbers cover only the part that ran".to_owned(),
            cure: "let the run finish".to_owned(),
        });
    }
}

pub(super) fn errors(report: &Report, reasons: &mut Vec<Reason>) {
    let threshold = report.config.plan.thresholds.errors;
    let counts = &report.whole.counts;
    let (failed, unexpected) = (counts.ended_in_error(), counts.unexpected_status);
    let redirects = counts.redirects(&report.config.plan.expect_status);
    let bad = failed + unexpected;
    let figure = share(bad, counts.intended);
    if figure <= threshold {
        return;
    }
    let level = if ERRORS_INVALID < figure { Level::Invalid } else { Level::Suspect };
    let meaning = if counts.answered == 0 && report.whole.corrected.count == 0 {
        "nothing was answered, and no latency is known"
    } else if counts.answered == 0 {
        "nothing was answered: the only latencies are those of requests that were given up"
    } else if report.whole.successes.is_some() {
        "the percentiles mix good and bad responses; the successes have a table of their own"
    } else {
        "failed requests have no latency: the percentiles cover only the others"
    };
    reasons.push(Reason {
        code: Code::Errors,
        agent: None,
        level,
        touches: vec![Topic::Throughput, Topic::Latency],
        evidence: format!(
            "{} of {} requests ({}) had no good answer: errors {}, unexpected statuses {}{}; the \
             limit is {}",
            count(bad),
            count(counts.intended),
            percent(figure),
            count(failed),
            count(unexpected),
            match redirects {
                0 => String::new(),
                redirects => format!(" (3xx: {}, not followed)", count(redirects)),
            },
            percent(threshold)
        ),
        figure,
        threshold,
        unit: Unit::Share,
        meaning: meaning.to_owned(),
        cure: match redirects {
            0 => "look at the errors by cause; list the statuses you expect with --expect-status",
            _ => {
                "load the URL that the redirects lead to; if they are what you measure, give \
                  --expect-status 2xx,3xx"
            }
        }
        .to_owned(),
    });
}
