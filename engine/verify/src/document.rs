//! Checks a report against itself: percentiles against histograms, sums against parts, the schedule
//! against the plan.

use hdrhistogram::Histogram;
use plan::flatten::{flatten, value_text};
use record::counts::IntervalCounts;
use record::series::SeriesInterval;
use report::calibration::CalibratedOf;
use report::judge;
use report::merge::held_against;
use report::slo::judge::judge as judge_objectives;
use report::steady::while_steady;
use report::steps::mix;
use report::verdict::Verdict;
use report::{IntervalPart, Report};
use stats::buckets::Buckets;

use super::agents::agents;
use super::compare::compare;
use super::distribution::of_document;
use super::finding::{Finding, summed_up};
use super::paced::{paced, paced_most};
use super::part::{littles_law, part, per_second, requests, samples, taken, until};
use super::planned::{Planned, log};
use super::sound::{DecodedSeries, sound};

/// The most arrivals of a schedule to redraw before a report is used: a fraction of a second.
const DRAWN_MAX: u64 = 1_000_000;

/// Checks everything in a report that follows from the rest of it. The whole run's checks are
/// listed one by one; those of its parts and intervals as one finding each, plus the failures.
pub fn report_alone(report: &Report) -> Vec<Finding> {
    checked(report, true)
}

/// The same for a report that is about to be used for something else, which mustn't wait long: the
/// arrivals of a long schedule aren't redrawn.
pub fn report_in_brief(report: &Report) -> Vec<Finding> {
    let arrivals = report.config.schedule_arrivals.unwrap_or_else(|| paced_most(report));
    checked(report, arrivals <= DRAWN_MAX)
}

/// Checks a report; `draws`: redraw its schedule.
fn checked(report: &Report, draws: bool) -> Vec<Finding> {
    let (mut findings, decoded) = sound(report);
    let Some(decoded) = decoded else { return findings };
    findings.extend(part(report, &report.whole, Some(&decoded.latencies)));
    findings.push(corrected_digest(report));
    let traffic = report.generator.traffic(&report.whole.parts);
    findings.extend(summed_up("traffic", compare("", &traffic, &report.traffic)));
    findings.extend(agents(report, &decoded, draws));
    findings.push(until(report));
    if draws {
        findings.extend(schedule(report, &decoded));
    }
    findings.extend(requests(report));
    findings.extend(series(report, &decoded));
    let expected = while_steady(&report.config.plan, &decoded.latencies);
    findings.extend(compare("stationarity.", &expected, &report.stationarity));
    findings.extend(littles_law(report));
    findings.extend(compare("mix.", &mix(report), &report.mix));
    findings.extend(slo(report, &decoded));
    findings.extend(samples(report));
    findings.extend(profile(report));
    findings.extend(calibration(report));
    findings.extend(verdict(report));
    findings
}

/// The digest of the corrected latencies matches their histogram.
fn corrected_digest(report: &Report) -> Finding {
    let expected = of_document(&report.whole.corrected).map(|whole| whole.digest());
    let expected = expected.unwrap_or_else(|problem| problem.to_string());
    Finding::equal("corrected_digest", expected, report.corrected_digest.clone())
}

/// The plan's schedule compared with what the run took of it, and its arrivals by interval.
fn schedule(report: &Report, decoded: &DecodedSeries) -> Vec<Finding> {
    if !until(report).ok {
        return Vec::new();
    }
    let planned = Planned::new(report, decoded);
    let mut findings = log(report);
    if planned.is_none() && report.config.plan.replay.is_some() {
        // Only the log has its schedule.
        return findings;
    }
    findings.extend(taken(report, planned.as_ref()));
    findings.extend(paced(report));
    if let Some(planned) = &planned {
        let due = |at: usize| planned.per_interval.get(at).copied().unwrap_or(0);
        let intervals = report.series.intervals.iter().enumerate();
        let mut per_interval: Vec<Finding> = intervals
            .map(|(at, interval)| Finding::equal(at.to_string(), due(at), interval.counts.intended))
            .collect();
        per_interval.push(Finding::at_most(
            "intervals with arrivals",
            report.series.intervals.len(),
            planned.per_interval.len(),
        ));
        // Later steps count in the interval of their session's arrival.
        if !report.config.plan.has_sessions() {
            findings.extend(summed_up("series: intended by the schedule", per_interval));
        }
    }
    findings
}

/// One of the counts of an interval.
type CountOf = fn(&IntervalCounts) -> u64;

/// The run over time adds up to the run.
fn series(report: &Report, decoded: &DecodedSeries) -> Vec<Finding> {
    let counts = &report.whole.counts;
    let intervals = &report.series.intervals;
    let sums: [(&str, u64, CountOf); 8] = [
        ("intended", counts.intended, |interval| interval.intended),
        ("sent", counts.sent, |interval| interval.sent),
        ("unsent", counts.unsent, |interval| interval.unsent),
        ("answered", counts.answered, |interval| interval.answered),
        ("unexpected_status", counts.unexpected_status, |interval| interval.unexpected_status),
        ("failed_checks", counts.failed_checks, |interval| interval.failed_checks),
        ("errors", counts.ended_in_error(), |interval| interval.errors),
        ("sends", counts.sent_in_window, |interval| interval.sends),
    ];
    let sum = |number: CountOf| -> u64 {
        intervals.iter().map(|interval| number(&interval.counts)).sum()
    };
    let mut findings: Vec<Finding> = sums
        .into_iter()
        .map(|(what, expected, number)| {
            Finding::equal(format!("series: sum of {what}"), expected, sum(number))
        })
        .collect();
    let answers = per_second(report, sum(|interval| interval.answers));
    let rate = report.whole.rate.answered_due;
    findings.push(Finding::close("series: answers per second", rate, answers));
    let latencies: u64 = decoded.latencies.iter().map(Histogram::len).sum();
    findings.push(Finding::equal("series: latencies", counts.with_latency(), latencies));
    let each = intervals.iter().zip(decoded.latencies.iter()).enumerate();
    let each = each
        .flat_map(|(at, (found, latency))| interval(at, report.series.interval_s, found, latency));
    findings.extend(summed_up("series: intervals", each.collect()));
    findings
}

/// An interval's figures against its own histogram, and its sums.
fn interval(
    at: usize,
    interval_s: f64,
    found: &IntervalPart,
    latency: &Histogram<u64>,
) -> Vec<Finding> {
    let slot = SeriesInterval {
        counts: found.counts,
        in_flight: found.in_flight,
        latency: Buckets::from(latency),
        receive_lateness: Buckets::default(),
    };
    let IntervalCounts { intended, sent, unsent, answered, errors, .. } = found.counts;
    // The document has no histogram of the lateness; the samples rebuild it.
    let expected = IntervalPart {
        receive_lateness_p50: found.receive_lateness_p50,
        receive_lateness_p99: found.receive_lateness_p99,
        receive_lateness_max: found.receive_lateness_max,
        ..IntervalPart::new(at as f64 * interval_s, &slot)
    };
    let mut findings = compare(&format!("{at}."), &expected, found);
    let name = |what: &str| format!("{at}: {what}");
    findings.extend([
        Finding::equal(name("intended = sent + unsent"), sent + unsent, intended),
        Finding::equal(name("sent = answered + errors"), answered + errors, sent),
    ]);
    findings
}

/// Judges the objectives again.
fn slo(report: &Report, decoded: &DecodedSeries) -> Vec<Finding> {
    // An unreadable histogram has its own finding.
    let Ok(corrected) = of_document(&report.whole.corrected) else { return Vec::new() };
    let (plan, series, latencies) = (&report.config.plan, &report.series, &decoded.latencies);
    let window_s = report.config.window_s();
    match judge_objectives(plan, &report.whole, &corrected, latencies, series, window_s) {
        Ok(expected) => compare("slo.", &expected, &report.slo),
        Err(_) => Vec::new(),
    }
}

/// A profile's figures follow from its samples, and its frames fit one profile. How much time the
/// process used, and where its samples fell, can't be recomputed.
fn profile(report: &Report) -> Vec<Finding> {
    let Some(profile) = &report.profile else { return Vec::new() };
    let expected = profile.again(report.whole.rate.answered);
    let mut findings = compare("", &expected, profile);
    let own = |kernel: bool| {
        let frames = profile.frames.iter().filter(|frame| frame.kernel == kernel);
        frames.map(|frame| frame.own.samples).sum::<u64>()
    };
    let in_kernel = profile.kernel.as_ref().map_or(0, |kernel| kernel.samples);
    let sorted = profile.frames.is_sorted_by(|a, b| b.own.samples <= a.own.samples);
    findings.extend([
        Finding::equal("samples", in_kernel + profile.user.samples, profile.samples),
        Finding::at_most("frames: samples in the kernel", in_kernel, own(true)),
        Finding::at_most("frames: samples in user space", profile.user.samples, own(false)),
        Finding::new("frames: order", "the heaviest first", sorted, sorted),
    ]);
    summed_up("profile", findings)
}

/// A calibration matches the run's machine, version and cores, and the comparison with the run is
/// recomputed. The calibration's own figures can't be.
fn calibration(report: &Report) -> Vec<Finding> {
    let Some(found) = &report.calibration else { return Vec::new() };
    let mut calibrated = found.calibrated.clone();
    calibrated.of = CalibratedOf::of_run(&report.config.plan, &report.environment);
    let expected = held_against(report, calibrated);
    let mut findings = compare("", &expected, found);
    let rises = found.calibrated.floors.is_sorted_by(|a, b| a.rate < b.rate);
    findings.push(Finding::new("floors: order", "rates that rise", rises, rises));
    summed_up("calibration", findings)
}

/// The verdict follows from these numbers, to the last word.
fn verdict(report: &Report) -> Vec<Finding> {
    let expected = judge(report);
    let text = |verdict: &Verdict| {
        let words = flatten(verdict).into_iter().filter_map(|(path, leaf)| {
            (path == "level" || path.ends_with(".code")).then(|| value_text(&leaf))
        });
        words.collect::<Vec<String>>().join(" ")
    };
    let mut findings = vec![Finding::equal("verdict", text(&expected), text(&report.verdict))];
    findings
        .extend(summed_up("verdict: words and figures", compare("", &expected, &report.verdict)));
    findings
}
