//! Rules about the numbers: whether they add up, are enough, and represent the whole run.

use plan::Model;
use plan::data::End;
use record::samples::{FileErrorKind, SampleFolder};
use stats::distribution::omitted;
use stats::interval::needed;

use super::generator::{core_saturated, generator_bound, stopped, unobserved};
use super::machine::{cpu_contended, cpu_stolen, cpu_throttled};
use super::rule::{Check, Found};
use super::share::{percent, roughly, share};
use crate::figures::{count, things};
use crate::profile::Sampler;
use crate::steps::{PlannedPart, planned};
use crate::verdict::Code;
use crate::{Report, StepPart};

/// Allowed residual of Little's law: both sides count the same requests, so they differ only by
/// what the window's edges cut in two.
const RESIDUAL_MAX: f64 = 0.01;
/// Share of requests without a good answer beyond which the run is invalid: its percentiles
/// describe a minority.
const ERRORS_INVALID: f64 = 0.5;

pub(super) fn closed_loop(report: &Report) -> Option<Found> {
    let plan = &report.config.plan;
    let counts = &report.whole.counts;
    if plan.model() == Model::Open || plan.period.is_some() || counts.sent == 0 {
        return None;
    }
    let pipeline = match plan.depth() {
        1 => String::new(),
        depth if plan.http.is_1() => format!(" and --pipeline {depth}"),
        depth => format!(" and --streams {depth}"),
    };
    let naive = &report.whole.naive;
    let left_out = naive.decode_histogram().map_or(0, |histogram| omitted(&histogram));
    // No response delayed another request if none took twice the median.
    let more = match left_out {
        0 => "no response took long enough to delay another request at the median pace".to_owned(),
        left_out => format!(
            "users who kept the median pace, however long a response took, would have sent about \
             {} ({} of those sent)",
            things(left_out, "more request"),
            roughly(share(left_out, counts.sent))
        ),
    };
    let meaning = (0 < left_out).then(|| {
        format!(
            "these latencies leave out the requests that would have met {} (coordinated omission); \
             the throughput holds for this number of {}{}",
            slow_ones(report),
            if plan.stages_of_users().is_some() { "users" } else { "connections" },
            if report.slo.is_some() {
                "; no percentile's objective is met unless it holds with \
             them"
            } else {
                ""
            }
        )
    });
    let evidence = match plan.stages_of_users() {
        None => format!(
            "with --conns {}{pipeline}, each connection waited for a response before its next \
             request; {more}",
            plan.conns()
        ),
        Some(_) => format!(
            "each of up to {} users waited for a response before its next request; {more}",
            plan.conns()
        ),
    };
    Some(Found::suspect(left_out as f64, 0.0, evidence).meaning(meaning))
}

/// The slow target or slow responses that the requests left out by a closed loop would have met.
fn slow_ones(report: &Report) -> String {
    let disturbances: [(Code, Check); 7] = [
        (Code::GeneratorLate, stopped),
        (Code::GeneratorLate, unobserved),
        (Code::CoreSaturated, core_saturated),
        (Code::GeneratorBound, generator_bound),
        (Code::CpuStolen, cpu_stolen),
        (Code::CpuContended, cpu_contended),
        (Code::CpuThrottled, cpu_throttled),
    ];
    let found = disturbances.iter().filter(|(_, check)| check(report).is_some());
    let mut codes: Vec<String> = found.map(|(code, _)| code.to_string()).collect();
    codes.dedup();
    if codes.is_empty() {
        return "a slow target".to_owned();
    }
    let codes = codes.join(", ");
    format!("slow responses, which may be the generator's or its machine's doing ({codes})")
}

pub(super) fn littles_law(report: &Report) -> Option<Found> {
    let law = &report.littles_law;
    (RESIDUAL_MAX < law.residual).then(|| {
        let evidence = format!(
            "the mean in flight was {:.3}, throughput times latency is {:.3}: off by {}; the limit \
             is {}",
            law.in_flight_mean,
            law.expected,
            percent(law.residual),
            percent(RESIDUAL_MAX)
        );
        Found::invalid(law.residual, RESIDUAL_MAX, evidence)
    })
}

pub(super) fn not_stationary(report: &Report) -> Option<Found> {
    let found = report.stationarity.as_ref().filter(|found| !found.stationary)?;
    let (figure, back) = match found.distance_recurring {
        None => (found.distance, String::new()),
        Some(distance) => (distance, format!(", {distance:.3} to what is most alike elsewhere")),
    };
    let of_stage = found.stage.map_or(String::new(), |number| {
        format!(" of stage {}", report.config.plan.stage_label(number))
    });
    let evidence = format!(
        "latency in the last quarter{of_stage} differs from the first: KS distance {:.3}{back} \
         (limit {:.3}), p99 ratio {:.2}",
        found.distance, found.distance_max, found.p99_ratio
    );
    let of_stage = found.stage.is_some();
    let meaning = "percentiles over the whole stage mix two states and describe neither";
    let cure = "use a longer stage, or find what changed in the series (--csv)";
    let found = Found::suspect(figure, found.distance_max, evidence);
    Some(found.meaning(of_stage.then_some(meaning)).cure(of_stage.then_some(cure)))
}

pub(super) fn too_few_samples(report: &Report) -> Option<Found> {
    let p = report.config.plan.thresholds.percentile;
    let (samples, least) = (report.whole.corrected.count, needed(p));
    (samples < least).then(|| {
        let evidence =
            format!("p{} has {} and needs {}", p * 100.0, things(samples, "sample"), count(least));
        Found::suspect(samples as f64, least as f64, evidence)
            .meaning(
                (samples < needed(0.5))
                    .then_some("no percentile is known: only the counts are of use"),
            )
            .cure(more_samples(report))
    })
}

/// What gives a run of this plan more samples, if that isn't a longer duration or a higher rate.
fn more_samples(report: &Report) -> Option<&'static str> {
    let plan = &report.config.plan;
    let intended = report.whole.counts.intended;
    let is_counted = plan.requests.is_some_and(|requests| requests <= intended);
    match plan.model() {
        _ if report.interrupted => Some("let the run finish"),
        // `requests` are then those that the window has of it.
        _ if plan.replay.is_some() => Some(match &report.replay {
            Some(log) if intended < log.requests => {
                "use a longer --duration, to send more of the log"
            }
            _ => "use a longer log",
        }),
        // Rows of data that end the run are its `requests`.
        _ if is_counted && plan.data.values().any(|data| data.end == End::Stop) => {
            Some("give more --requests, or more rows of --data")
        }
        _ if is_counted => Some("give more --requests"),
        Model::Open if !plan.stage.is_empty() => Some("use longer stages, or higher rates"),
        Model::Open => None,
        Model::Closed if plan.stages_of_users().is_some() => {
            Some("use longer stages, or more users")
        }
        Model::Closed => Some("use a longer --duration or more --conns"),
    }
}

pub(super) fn raw_samples_lost(report: &Report) -> Option<Found> {
    let samples = report.samples.as_ref().filter(|samples| 0 < samples.lost)?;
    // Arrivals counted by the rate alone have no samples, whatever the disk does.
    let uncounted = report.config.schedule_estimated.unwrap_or(0).min(samples.lost);
    let why = match &samples.error {
        Some(error) => error.text.clone(),
        None if uncounted == 0 => "the disk could not keep up".to_owned(),
        None => {
            let by_disk = match samples.lost - uncounted {
                0 => String::new(),
                lost => format!("; {} more because the disk could not keep up", count(lost)),
            };
            let arrivals = things(uncounted, "arrival");
            format!("{arrivals} counted by the rate, not one by one{by_disk}")
        }
    };
    let evidence = format!("the run lost {}: {why}", things(samples.lost, "raw sample"));
    let found = Found::suspect(samples.lost as f64, 0.0, evidence);
    let error = samples.error.as_ref().map(|error| (error.kind, error.folder));
    let cure = match error {
        None if uncounted == samples.lost => {
            "lower --rate: the other reasons show what kept the arrivals from being sent"
        }
        None if report.per_agent.iter().any(|agent| agent.synchronization.is_some()) => {
            "give the agent a --state-dir on a faster disk, or lower the load"
        }
        None => return Some(found),
        Some((FileErrorKind::NoRoom, SampleFolder::Raw)) => "write --raw to a disk with more room",
        Some((FileErrorKind::NoRoom, SampleFolder::StateDir)) => {
            "give the agent a --state-dir on a disk with more room"
        }
        Some((FileErrorKind::Disk, SampleFolder::Raw)) => {
            "write --raw to another disk; the kernel log (dmesg) shows the fault of this one"
        }
        Some((FileErrorKind::Disk, SampleFolder::StateDir)) => {
            "give the agent a --state-dir on another disk; its kernel log (dmesg) shows the \
             fault of this one"
        }
        Some((FileErrorKind::Place, SampleFolder::Raw)) => {
            "let no other program touch the file of --raw, its .tmp or its folder during the run"
        }
        Some((FileErrorKind::Place, SampleFolder::StateDir)) => {
            "let no other program touch the agent's --state-dir during the run"
        }
    };
    Some(found.cure(Some(cure)))
}

pub(super) fn profiled(report: &Report) -> Option<Found> {
    let profile = report.profile.as_ref()?;
    let by = match profile.sampling.source {
        Sampler::Perf => "perf",
        Sampler::InProcess => "a signal handler in its own threads",
    };
    let evidence = format!(
        "{by} took {} of its stacks in {:.3} s of processor time",
        things(profile.samples, "sample"),
        profile.sampling.cpu_s
    );
    Some(Found::suspect(profile.samples as f64, 0.0, evidence))
}

pub(super) fn interrupted(report: &Report) -> Option<Found> {
    let planned_s = report.config.plan.duration.as_secs_f64();
    let window_s = report.config.window_s();
    report.interrupted.then(|| {
        let evidence = if window_s < planned_s {
            format!("the window lasted {window_s:.3} s of {planned_s} s")
        } else {
            "the drain after the window was cut short".to_owned()
        };
        Found::suspect(window_s, planned_s, evidence)
    })
}

/// Redirects that weren't followed, and that their step doesn't expect.
fn redirects(report: &Report) -> u64 {
    let (plan, whole) = (&report.config.plan, &report.whole);
    if whole.parts.is_empty() {
        return whole.counts.redirects(plan.expected_of(0));
    }
    let of_part = |(planned, part): (PlannedPart, &StepPart)| {
        part.counts.as_whole().redirects(plan.expected_of(planned.step))
    };
    planned(plan).into_iter().zip(&whole.parts).map(of_part).sum()
}

pub(super) fn errors(report: &Report) -> Option<Found> {
    let threshold = report.config.plan.thresholds.errors;
    let counts = &report.whole.counts;
    let (failed, unexpected) = (counts.ended_in_error(), counts.unexpected_status);
    let redirects = redirects(report);
    let bad = failed + counts.not_good();
    let figure = share(bad, counts.intended);
    if figure <= threshold {
        return None;
    }
    let meaning = if counts.answered == 0 && report.whole.corrected.count == 0 {
        Some("nothing was answered, and no latency is known")
    } else if counts.answered == 0 {
        Some("nothing was answered: the only latencies are those of requests that were given up")
    } else if report.whole.successes.is_some() {
        Some("the percentiles mix good and bad responses; the successes have a table of their own")
    } else {
        None
    };
    let cure = if 0 < redirects {
        Some(
            "load the URL that the redirects lead to; if they are what you measure, give \
             --expect-status 2xx,3xx",
        )
    } else if bad < 2 * counts.failed_checks {
        Some("look at a response that fails the check, and mend the target or the check")
    } else {
        None
    };
    let evidence = format!(
        "{} of {} requests ({}) had no good answer: errors {}, unexpected statuses {}{}{}; \
         the limit is {}",
        count(bad),
        count(counts.intended),
        percent(figure),
        count(failed),
        count(unexpected),
        match redirects {
            0 => String::new(),
            redirects => format!(" (3xx: {}, not followed)", count(redirects)),
        },
        match counts.failed_checks {
            0 => String::new(),
            failed => format!(", failed checks {}", count(failed)),
        },
        percent(threshold)
    );
    Some(
        Found::suspect(figure, threshold, evidence)
            .invalid_if(ERRORS_INVALID < figure)
            .meaning(meaning)
            .cure(cure),
    )
}
