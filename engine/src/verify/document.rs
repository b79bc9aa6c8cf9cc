//! Checks a report against itself: percentiles against histograms, sums against parts, the schedule
//! against the plan.

use hdrhistogram::Histogram;

use super::compare::compare;
use super::distribution::{distribution, distributions, of_document};
use super::finding::{Finding, is_close, summed_up};
use super::parts::sum_of_agents;
use super::planned::Planned;
use super::sound::{Pieces, sound};
use super::units::seconds_to_ns;
use crate::plan::{Model, Plan, StampSource};
use crate::record::counts::{Counts, CountsBy, IntervalCounts};
use crate::record::outcome::UnsentReason;
use crate::record::series::SeriesInterval;
use crate::report::calibration::CalibratedOf;
use crate::report::judge;
use crate::report::merge::{corrected_by, held_against};
use crate::report::slo::judge::Figures;
use crate::report::verdict::Verdict;
use crate::report::{
    DistributionPart, IntervalPart, LittlesLaw, Part, Rates, Report, ResponseStamps,
};
use crate::stats::arrival_proof::ArrivalProof;
use crate::stats::distribution::{LATENESS_DIGITS, interval_histogram};
use crate::stats::interval::dependent;
use crate::stats::stationarity::stationarity;
use crate::sys::leaves::{leaf_text, leaves};
use crate::sys::units::{OneIn, Rate, SECOND_NS};

/// Checks everything in a report that follows from the rest of it. The whole run's checks are
/// listed one by one; those of its parts and intervals as one finding each, beside what is wrong in
/// them.
pub fn report_alone(report: &Report) -> Vec<Finding> {
    let (mut findings, pieces) = sound(report);
    let Some(pieces) = pieces else { return findings };
    findings.extend(part(report, &report.whole, Some(&pieces.batches)));
    findings.extend(summed_up("merged is the whole", compare("", &report.whole, &report.merged)));
    findings.extend(agents(report));
    let correction = corrected_by(&report.config.plan);
    let corrected_by = report.config.corrected_by.as_str();
    findings.push(Finding::equal("config.corrected_by", correction, corrected_by));
    findings.extend(schedule(report, &pieces));
    findings.extend(series(report, &pieces));
    let intervals: Vec<&Histogram<u64>> = pieces.histograms.iter().collect();
    let expected = stationarity(&intervals, &pieces.batches, &report.config.plan.thresholds);
    findings.extend(compare("stationarity.", &expected, &report.stationarity));
    let law = &report.littles_law;
    let mut expected = LittlesLaw::new(law.in_flight_mean, law.expected, law.at_target_mean);
    if let Some(users) = report.config.plan.unpaced_users() {
        // Each user's request is ready, or in flight, or neither.
        let most = (users as f64 - law.in_flight_mean).max(0.0);
        let queued = law.queued_mean.unwrap_or(0.0);
        let ok = 0.0 <= queued && (queued <= most || is_close(queued, most));
        let most = format!("at most {most}");
        findings.push(Finding::new("littles_law.queued_mean", most, queued, ok));
        expected = expected.of_users(users, queued);
    }
    findings.extend(compare("littles_law.", &expected, law));
    // A response is handled after it has arrived.
    let (at_target, on_the_wire) = (law.at_target_mean, law.expected);
    let ok = 0.0 <= at_target && (at_target <= on_the_wire || is_close(at_target, on_the_wire));
    let most = format!("at most {on_the_wire}");
    findings.push(Finding::new("littles_law.at_target_mean", most, at_target, ok));
    findings.extend(slo(report, &pieces));
    findings.extend(samples(report));
    findings.extend(profile(report));
    findings.extend(calibration(report));
    findings.extend(verdict(report));
    findings
}

/// Values that a distribution must have; `None` where the counts don't say.
fn length(name: &str, counts: &Counts, plan: &Plan) -> Option<u64> {
    match name {
        "naive" => Some(counts.sent.saturating_sub(counts.failed)),
        // Back-filled values are more than requests.
        "corrected" if !plan.backfill.is_off() => None,
        "corrected" => Some(with_latency(counts)),
        "pacer_lateness" | "connection_wait" => Some(counts.sent),
        "connect_time" => Some(counts.connects_in_window),
        "send_path" => Some(counts.sends_stamped),
        // With the program's stamps, those of a few are a control.
        "receive_lateness" if plan.stamps() == StampSource::User => None,
        "receive_lateness" => Some(counts.stamped_by_kernel),
        _ => Some(counts.answered.saturating_sub(counts.unexpected_status)),
    }
}

/// Requests that have a corrected latency: those that failed or were dropped have none.
fn with_latency(counts: &Counts) -> u64 {
    let dropped = counts.unsent_reasons.of(UnsentReason::Dropped);
    counts.intended.saturating_sub(counts.failed).saturating_sub(dropped)
}

/// A part against itself; with the batches of its series, its intervals as well.
fn part(report: &Report, part: &Part, batches: Option<&[Histogram<u64>]>) -> Vec<Finding> {
    let plan = &report.config.plan;
    let dependent = batches.and_then(dependent);
    let mut findings = sums(&part.counts, plan);
    for (name, document) in distributions(part) {
        if let Some(length) = length(name, &part.counts, plan) {
            findings.push(Finding::equal(
                format!("{name}.count by the counts"),
                length,
                document.count,
            ));
        }
        // Only the corrected latencies are kept over time, and back-filled ones are no pieces of
        // the run.
        findings.extend(distribution(name, document, |whole| match (name, batches) {
            ("corrected", Some(batches)) if plan.backfill.is_off() => {
                DistributionPart::new(whole, batches)
            }
            ("corrected", Some(_)) => DistributionPart::alone(whole, Some(true)),
            (_, Some(_)) => DistributionPart::alone(whole, dependent),
            (_, None) => {
                let alone = DistributionPart::alone(whole, None);
                let percentiles = alone.percentiles.with_intervals_of(&document.percentiles);
                DistributionPart { percentiles, ..alone }
            }
        }));
    }
    findings.push(sampled(report, part));
    let stamps = ResponseStamps::new(plan.stamps(), &part.counts);
    findings.extend(compare("stamps.", &stamps, &part.stamps));
    if let Some(share) = &part.client_share {
        let found = Some(share.p50.corrected);
        findings.push(compared("client_share.p50", part.corrected.quantile_us(0.5), found));
        for (what, q, at) in
            [("client_share.p99", 0.99, &share.p99), ("client_share.p999", 0.999, &share.p999)]
        {
            let found = at.as_ref().map(|part| part.corrected);
            findings.push(compared(what, part.corrected.quantile_us(q), found));
        }
    }
    let successes = part.counts.answered.saturating_sub(part.counts.unexpected_status);
    findings.push(Finding::equal(
        "successes apart",
        successes != part.naive.count,
        part.successes.is_some(),
    ));
    findings.extend(rates(report, part));
    findings
}

fn compared(what: &str, expected: Option<f64>, found: Option<f64>) -> Finding {
    let text = |us: Option<f64>| us.map_or("none".to_owned(), |us| us.to_string());
    Finding::equal(what, text(expected), text(found))
}

fn sums(counts: &Counts, plan: &Plan) -> Vec<Finding> {
    let Counts { intended, sent, unsent, answered, timed_out, failed, abandoned, .. } = *counts;
    let shared = |most| if plan.pipeline == 1 { 0 } else { most };
    vec![
        Finding::equal("intended = sent + unsent", sent + unsent, intended),
        Finding::equal(
            "sent = answered + timed_out + failed + abandoned",
            answered + timed_out + failed + abandoned,
            sent,
        ),
        Finding::equal("answered = sum of statuses", counts.status.total(), answered),
        Finding::equal(
            "timed_out + failed = sum of errors",
            counts.errors.total(),
            timed_out + failed,
        ),
        Finding::equal("unsent = sum of reasons", counts.unsent_reasons.total(), unsent),
        Finding::equal(
            "unexpected_status",
            unexpected(&counts.status, plan),
            counts.unexpected_status,
        ),
        Finding::at_most("unconnected", failed, counts.unconnected),
        Finding::at_most(
            "sent_in_window + unconnected",
            sent,
            counts.sent_in_window + counts.unconnected,
        ),
        Finding::at_most("stamped_by_kernel", answered, counts.stamped_by_kernel),
        Finding::at_most(
            "stamped_by_hardware",
            if plan.stamps() == StampSource::Hardware { counts.stamped_by_kernel } else { 0 },
            counts.stamped_by_hardware,
        ),
        Finding::at_most("sends_stamped", counts.sends_sampled, counts.sends_stamped),
        Finding::at_most("waited", intended, counts.waited),
        // A user of a closed model waits for its own connection.
        Finding::at_most(
            "capped",
            if plan.model() == Model::Open { counts.waited } else { 0 },
            counts.capped,
        ),
        Finding::at_most("connects_in_window", counts.connects, counts.connects_in_window),
        Finding::at_most("pool_grew", counts.connects_in_window, counts.pool_grew),
        Finding::at_most("users_blocked", counts.users, counts.users_blocked),
        Finding::at_most("incomplete_uploads", counts.answered, counts.incomplete_uploads),
        Finding::at_most("shared_sends", shared(counts.sent), counts.shared_sends),
        Finding::at_most("shared_receives", shared(counts.answered), counts.shared_receives),
        Finding::at_most("setup.answered", counts.setup.sent, counts.setup.answered),
        Finding::at_most("warmup.answered", counts.warmup.sent, counts.warmup.answered),
    ]
}

/// The sample of the sends: of the requests that each shard sent one in so many, the last of those
/// that left together. The shards counted them from setup on, and requests that were in flight as
/// the window began needn't follow each other.
fn sampled(report: &Report, part: &Part) -> Finding {
    let Counts { sent, unconnected, sends_sampled: found, .. } = part.counts;
    let plan = &report.config.plan;
    let Some(one_in) = plan.stamp_sends.and_then(OneIn::count) else {
        return Finding::equal("sends_sampled", 0, found);
    };
    let (one_in, sent) = (u64::from(one_in.get()), sent.saturating_sub(unconnected));
    let (edge, shards) = (plan.conns() * plan.pipeline, report.generator.shards.len() as u64);
    let least = sent.saturating_sub(edge as u64) / one_in.max(plan.pipeline as u64);
    let least = least.saturating_sub(shards);
    let most = (sent + edge as u64) / one_in + shards;
    let ok = (least..=most).contains(&found);
    Finding::new("sends_sampled", format!("{least} to {most}"), found, ok)
}

/// Answers whose status the plan doesn't count as success.
fn unexpected(status: &CountsBy<u16>, plan: &Plan) -> u64 {
    let unexpected = status.iter().filter(|(code, _)| !plan.expect_status.holds(*code));
    unexpected.fold(0, |sum, (_, count)| sum.saturating_add(count))
}

/// A count over the length of the window.
fn per_second(report: &Report, count: u64) -> f64 {
    let until_ns = seconds_to_ns(report.config.schedule_until);
    match until_ns.saturating_sub(report.config.plan.warmup.0) {
        0 => 0.0,
        window_ns => count as f64 * SECOND_NS as f64 / window_ns as f64,
    }
}

/// Rates are counts over the window; answers before its end can't be more than all.
fn rates(report: &Report, part: &Part) -> Vec<Finding> {
    let Part { counts, rate, .. } = part;
    let expected = Rates {
        target: report.config.plan.rate.map(Rate::per_second),
        intended: per_second(report, counts.intended),
        sent: per_second(report, counts.sent_in_window),
        answered: rate.answered,
    };
    let mut findings = compare("rate.", &expected, rate);
    let most = per_second(report, counts.answered);
    let ok = 0.0 <= rate.answered && (rate.answered <= most || is_close(most, rate.answered));
    let most = format!("at most {most}");
    findings.push(Finding::new("rate.answered by the counts", most, rate.answered, ok));
    findings
}

/// A single agent's part is the whole. Of several, the series doesn't tell one's intervals, and the
/// sum is the whole.
fn agents(report: &Report) -> Vec<Finding> {
    if let [only] = &report.per_agent[..] {
        return summed_up("the agent is the whole", compare("", &report.whole, &only.part));
    }
    let mut findings = summed_up("merged is the sum of the agents", sum_of_agents(report));
    for agent in &report.per_agent {
        let checks = part(report, &agent.part, None);
        findings.extend(summed_up(&format!("agent {}", agent.name), checks));
    }
    findings
}

/// The schedule that the plan means, against what the run took of it, and in which intervals.
fn schedule(report: &Report, pieces: &Pieces) -> Vec<Finding> {
    let config = &report.config;
    let plan = &config.plan;
    let until_ns = seconds_to_ns(config.schedule_until);
    let until = Finding::new(
        "schedule_until",
        if report.interrupted { "the plan's end, or before" } else { "the plan's end" },
        config.schedule_until,
        (until_ns == plan.end_ns() || (report.interrupted && until_ns < plan.end_ns()))
            && is_close(until_ns as f64 / SECOND_NS as f64, config.schedule_until),
    );
    if !until.ok {
        return vec![until];
    }
    let planned = Planned::new(report, until_ns, pieces);
    let mut findings = vec![until];
    findings.extend(compare(
        "schedule_digest",
        &planned.as_ref().map(|planned| planned.whole.hex()),
        &config.schedule_digest,
    ));
    findings.extend(compare(
        "schedule_arrivals",
        &planned.as_ref().map(|planned| planned.whole.arrivals()),
        &config.schedule_arrivals,
    ));
    if let Some(planned) = &planned {
        let due = planned.window.arrivals();
        let counts = &report.whole.counts;
        findings.push(Finding::equal("intended by the schedule", due, counts.intended));
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
        findings.extend(summed_up("series: intended by the schedule", per_interval));
    }
    findings.extend(arrivals(report, planned.as_ref()));
    findings
}

/// The proof of the arrivals: all that follows from the plan, and what the figures of the sends
/// make of it.
fn arrivals(report: &Report, planned: Option<&Planned>) -> Vec<Finding> {
    let bounds = &report.config.plan.thresholds;
    let found = report.arrivals.as_ref();
    let expected = match (planned, found) {
        (Some(planned), Some(found)) => Some(planned.proof_with_sends_of(found, bounds)),
        (planned, _) => planned.map(|planned| planned.proof.clone()),
    };
    let line = expected.as_ref().map(ArrivalProof::line);
    let mut findings = summed_up("arrivals", compare("", &expected, &report.arrivals));
    findings.extend(compare("arrivals_line", &line, &report.arrivals_line));
    findings
}

/// One of the counts of an interval.
type CountOf = fn(&IntervalCounts) -> u64;

/// The run over time adds up to the run.
fn series(report: &Report, pieces: &Pieces) -> Vec<Finding> {
    let counts = &report.whole.counts;
    let intervals = &report.series.intervals;
    let sums: [(&str, u64, CountOf); 7] = [
        ("intended", counts.intended, |interval| interval.intended),
        ("sent", counts.sent, |interval| interval.sent),
        ("unsent", counts.unsent, |interval| interval.unsent),
        ("answered", counts.answered, |interval| interval.answered),
        ("unexpected_status", counts.unexpected_status, |interval| interval.unexpected_status),
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
    let rate = report.whole.rate.answered;
    findings.push(Finding::close("series: answers per second", rate, answers));
    let latencies: u64 = pieces.histograms.iter().map(Histogram::len).sum();
    findings.push(Finding::equal("series: latencies", with_latency(counts), latencies));
    let each = intervals.iter().zip(&pieces.histograms).enumerate();
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
        latency: latency.clone(),
        receive_lateness: interval_histogram(LATENESS_DIGITS),
    };
    let IntervalCounts { intended, sent, unsent, answered, unexpected_status, errors, .. } =
        found.counts;
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
        // Of errors and of what was never sent, some have a latency and some have none.
        Finding::at_most(name("latencies"), intended, latency.len()),
        Finding::at_most(name("answered"), latency.len(), answered),
        Finding::at_most(name("unexpected_status"), answered, unexpected_status),
    ]);
    findings
}

/// The objectives, judged again.
fn slo(report: &Report, pieces: &Pieces) -> Vec<Finding> {
    // A histogram that can't be read has its own finding.
    let Ok(corrected) = of_document(&report.whole.corrected) else { return Vec::new() };
    let (part, batches) = (&report.whole, &pieces.batches[..]);
    let figures = Figures { part, corrected: &corrected, batches, series: &report.series };
    let expected = report.config.plan.slo.as_ref().map(|slo| figures.judge(slo));
    compare("slo.", &expected, &report.slo)
}

/// What became of the raw samples, against the plan and the counts.
fn samples(report: &Report) -> Vec<Finding> {
    let reported = |some: bool| if some { "reported" } else { "none" };
    let asked = report.config.plan.raw.is_some();
    let mut findings =
        vec![Finding::equal("samples", reported(asked), reported(report.samples.is_some()))];
    if let Some(samples) = &report.samples {
        let intended = report.whole.counts.intended;
        findings.extend([
            Finding::equal(
                "intended = samples written + lost",
                samples.written + samples.lost,
                intended,
            ),
            Finding::equal("samples.file", samples.error.is_none(), samples.file.is_some()),
            Finding::new(
                "samples.written",
                if samples.file.is_some() { "some" } else { "0" },
                samples.written,
                samples.file.is_some() || samples.written == 0,
            ),
        ]);
    }
    findings
}

/// What a profile says follows from its samples, and its frames can be those of one profile. How
/// much time the process used, and where its samples fell, is the profiler's word.
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

/// A calibration is of the machine, the version and the cores of the run, and what follows from its
/// figures for the run is computed. The figures themselves are the calibration's word.
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

/// The verdict is what these numbers lead to, to the last word.
fn verdict(report: &Report) -> Vec<Finding> {
    let expected = judge(report);
    let text = |verdict: &Verdict| {
        let words = leaves(verdict).into_iter().filter_map(|(path, leaf)| {
            (path == "level" || path.ends_with(".code")).then(|| leaf_text(&leaf))
        });
        words.collect::<Vec<String>>().join(" ")
    };
    let mut findings = vec![Finding::equal("verdict", text(&expected), text(&report.verdict))];
    findings
        .extend(summed_up("verdict: words and figures", compare("", &expected, &report.verdict)));
    findings
}
