//! Checks a report against its raw samples: every number is recomputed from the requests
//! themselves.
//!
//! The records go through a recorder as they did in the shards, and its figures are compared with
//! the report value by value. The files are read as streams: once for that, then once for each
//! distribution, whose values are sorted in memory, 8 bytes per request, for quantiles that don't
//! depend on a histogram; the intended times are sorted too, to be tested in order.

use std::path::Path;

use load::schedule::Digest;
use plan::{DURATION_MAX, Plan};
use record::config::RecorderConfig;
use record::counts::Counts;
use record::endpoint::EndpointCounts;
use record::littles_law::InFlightIntegral;
use record::outcome::Outcome;
use record::recorder::Recorder;
use report::merge::{WindowFigures, offer, window_figures};
use report::slowest::SlowRequest;
use report::{AgentPart, ClientShare, DistributionPart, Part, Rates, Report};
use samples::{End, Header, ReadError, Sample, SampleKind, SampleReader, plan_digest};
use stats::arrival_proof::{ArrivalProof, Offer};
use stats::distribution::{Distribution, VALUE_MAX_NS, rank};
use stats::percentiles::Quantile;
use units::{seconds_to_ns, us_to_ns};

use super::compare::compare;
use super::finding::{Finding, is_close, summed_up};
use super::part::target;
use super::planned::Planned;
use super::rescaled::Rescaled;
use super::sound::{DecodedSeries, sound};
use super::steps_taken::StepsTaken;
use super::unsound::Unsound;
use super::walks::Walks;

/// How far a reported percentile may be from the exact one: 1 %, or one bucket of its histogram.
const QUANTILE_TOLERANCE: f64 = 0.01;

/// Checks a report against the samples of its run, the first file of each agent; later segments are
/// beside it. One that is damaged, missing or lacks samples ends the checks, after each segment
/// was checked alone: a part proves nothing.
pub fn with_samples(report: &Report, files: &[&Path]) -> Vec<Finding> {
    let (findings, decoded) = sound(report);
    let Some(decoded) = decoded else { return summed_up("a report to compare with", findings) };
    let mut findings = Vec::new();
    let mut replay = Replay::new(report);
    let (mut written, mut lost) = (0, 0);
    if files.len() != report.per_agent.len() {
        let (agents, files) = (report.per_agent.len(), files.len());
        return vec![Finding::equal("samples: a file for each agent", agents, files)];
    }
    for (agent, file) in report.per_agent.iter().zip(files) {
        match replay.read(agent, file) {
            Ok((header, end)) => {
                findings.extend(belonging(report, agent, file, &header, &end));
                written += end.written();
                lost += end.lost();
            }
            Err(error) => {
                findings.push(Finding::new(file.display().to_string(), "whole", error, false));
                findings.extend(segments(file));
                return findings;
            }
        }
    }
    let reported = report.samples.as_ref().map(|samples| (samples.written, samples.lost));
    let text = |reported: Option<(u64, u64)>| match reported {
        Some((written, lost)) => format!("{written} written, {lost} lost"),
        None => "no samples".to_owned(),
    };
    findings.push(Finding::equal(
        "samples: in the files",
        text(Some((written, lost))),
        text(reported),
    ));
    findings.push(Finding::equal("samples: lost", 0, lost));
    if 0 < lost {
        return findings;
    }
    findings.extend(replay.schedule(&decoded));
    findings.extend(replay.walks.findings());
    findings.extend(replay.littles_law());
    findings.extend(replay.rescaled());
    let checks = compare("", &replay.arrivals(), &report.arrivals);
    findings.extend(summed_up("samples: arrivals", checks));
    findings.extend(against(replay.figures(&decoded), report));
    if report.is_joint() {
        for (agent, file) in report.per_agent.iter().zip(files) {
            let checks = alone(report, agent, file, &decoded);
            findings.extend(summed_up(&format!("samples: agent {}", agent.name), checks));
        }
    }
    for (name, document, measure) in measured(&report.whole) {
        match sorted(files, &report.config.plan, measure) {
            Ok(values) => findings.extend(quantiles(name, document, &values)),
            Err(error) => findings.push(Finding::new(name, "a readable file", error, false)),
        }
    }
    findings
}

/// Each segment alone, if there are several: of damaged samples, these are the whole ones.
fn segments(file: &Path) -> Vec<Finding> {
    let Ok(first) = SampleReader::open(file) else { return Vec::new() };
    let last = samples::last_segment(file);
    let of_run = (1..=last).filter(|_| 1 < last).map(|segment| {
        let path = samples::segment_path(file, segment);
        let name = format!("{}: segment {segment}", path.display());
        match first.check_segment(&path, segment) {
            Ok(()) => Finding::new(name, "whole", "whole", true),
            Err(error) => Finding::new(name, "whole", error, false),
        }
    });
    of_run.collect()
}

/// An agent's part against its own samples, like a report of that agent alone.
fn alone(report: &Report, agent: &AgentPart, file: &Path, decoded: &DecodedSeries) -> Vec<Finding> {
    let view = Report { series: report.series.clone(), ..report.of_agent(agent) };
    let mut replay = Replay::new(&view);
    if let Err(error) = replay.read(agent, file) {
        return vec![Finding::new("file", "whole", error, false)];
    }
    let mut findings = replay.littles_law();
    findings.extend(replay.rescaled());
    findings.extend(compare("arrivals.", &replay.arrivals(), &agent.arrivals));
    // Its intervals depend on its number of seconds: the run's, unless it stalled at the run's end.
    let of_its_own = part_against(replay.window_figures().part, &agent.part);
    let of_the_run = part_against(replay.figures(decoded).part, &agent.part);
    let is_right = of_its_own.iter().all(|finding| finding.ok);
    findings.extend(if is_right { of_its_own } else { of_the_run });
    findings
}

/// Checks that a file belongs to this run's plan, and to this agent's part of it.
fn belonging(
    report: &Report,
    agent: &AgentPart,
    file: &Path,
    header: &Header,
    end: &End,
) -> Vec<Finding> {
    let plan = &agent.config.placed(&report.config.plan);
    let hex = |digest: u64| format!("{digest:016x}");
    let name = |what: &str| format!("{}: {what}", file.display());
    vec![
        Finding::equal(name("plan"), hex(plan_digest(plan)), hex(header.plan_digest)),
        Finding::equal(name("seed"), plan.seed, header.seed),
        Finding::equal(name("window start, ns"), plan.warmup.0, header.window_start_ns),
        Finding::equal(name("window end, ns"), plan.end_ns(), header.window_end_ns),
        Finding::equal(
            name("end of the schedule, ns"),
            seconds_to_ns(agent.config.schedule_until),
            end.until_ns,
        ),
        Finding::equal(
            name("schedule"),
            agent.config.schedule_digest.clone().unwrap_or_default(),
            agent.config.schedule_digest.as_ref().map(|_| taken(end).hex()).unwrap_or_default(),
        ),
    ]
}

/// The arrivals that the shards of a file took from their schedules.
fn taken(end: &End) -> Digest {
    let mut taken = Digest::default();
    for shard in &end.shards {
        taken.merge(Digest::from_value(shard.schedule_digest, shard.schedule_arrivals));
    }
    taken
}

/// The sum of the samples of all files.
struct Replay<'a> {
    report: &'a Report,
    plan: &'a Plan,
    until_ns: u64,
    recorder: Recorder,
    taken: Digest,
    intended: Digest,
    /// When the requests were due.
    due_ns: Vec<u64>,
    steps: StepsTaken,
    walks: Walks,
}

impl<'a> Replay<'a> {
    fn new(report: &'a Report) -> Replay<'a> {
        let plan = &report.config.plan;
        let until_ns = seconds_to_ns(report.config.schedule_until);
        let mut recorder = Recorder::new(RecorderConfig::of_plan(plan));
        recorder.in_flight = InFlightIntegral::new(plan.warmup.0, until_ns);
        Replay {
            report,
            plan,
            until_ns,
            recorder,
            taken: Digest::default(),
            intended: Digest::default(),
            due_ns: Vec::new(),
            steps: StepsTaken::new(plan),
            walks: Walks::new(plan),
        }
    }

    fn read(&mut self, agent: &AgentPart, file: &Path) -> Result<(Header, End), Unsound> {
        self.until_ns = seconds_to_ns(agent.config.schedule_until);
        let mut reader = SampleReader::open(file)?;
        let header = *reader.header();
        for sample in &mut reader {
            self.add(&sample?)?;
        }
        for (step, end, latency_ns) in self.walks.unfinished() {
            self.recorder.session_ended(step, end, latency_ns);
        }
        let end = reader.end().expect("a file read without an error has its end").clone();
        self.taken.merge(taken(&end));
        Ok((header, end))
    }

    /// Records a sample as its shard recorded the request.
    fn add(&mut self, sample: &Sample) -> Result<(), Unsound> {
        let Sample { intended_ns, ending, .. } = *sample;
        if !(self.plan.warmup.0..self.plan.end_ns() + DURATION_MAX.0).contains(&intended_ns) {
            return Err(Unsound::Due(intended_ns));
        }
        let steps = self.plan.step_count();
        if steps <= usize::from(sample.step) {
            return Err(Unsound::Step(sample.step, steps));
        }
        let outcome = sample.outcome().expect("the reader checks it");
        let began_ns = self.walks.goes_on(sample);
        if let Outcome::CheckFailed { check, .. } = outcome {
            let checks = self.recorder.config().checks_of(sample.step);
            if checks <= usize::from(check) {
                return Err(Unsound::Check(sample.step, check, checks));
            }
        }
        let is_sent = sample.kind != SampleKind::Unsent && !sample.is_unconnected();
        let stamps = sample.stamps();
        let sent_ns = stamps.sent_ns;
        let is_arrival = began_ns == intended_ns;
        self.recorder.intended(began_ns, !is_arrival);
        if is_sent {
            self.recorder.sent(began_ns, &stamps, sent_ns <= self.until_ns);
        } else if sample.is_unconnected() {
            self.recorder.unconnected(began_ns, &stamps);
        }
        let request = (sample.number, began_ns);
        let in_window = ending.ended_ns() <= self.until_ns;
        let is_good = self.recorder.ended(request, &stamps, ending, in_window, outcome);
        if let Some((step, end, latency_ns)) = self.walks.ended(sample, outcome, is_good) {
            self.recorder.session_ended(step, end, latency_ns);
        }
        if is_sent {
            self.recorder.in_flight.stay(sent_ns, ending.received_ns, ending.handled_ns);
        }
        if is_arrival {
            self.intended.add(intended_ns);
            self.due_ns.push(intended_ns);
            self.steps.add(intended_ns, sample.step);
        }
        Ok(())
    }

    /// The samples' intended times against the plan's arrivals of the window.
    fn schedule(&self, decoded: &DecodedSeries) -> Vec<Finding> {
        let Some(planned) = Planned::new(self.report, decoded) else {
            return Vec::new();
        };
        let found = self.report.config.schedule_digest.clone().unwrap_or("none".to_owned());
        let taken = self.taken.hex();
        let (steps, taken_steps) = (planned.steps.hex(), self.steps.hex());
        vec![
            Finding::equal("samples: schedule_digest by the shards' ends", taken.clone(), found),
            Finding::equal("samples: whole schedule", planned.whole.hex(), taken),
            Finding::equal("samples: intended times", planned.window.hex(), self.intended.hex()),
            Finding::equal("samples: steps by the schedule", steps, taken_steps),
        ]
    }

    /// Little's law: requests from before the window that reached into it are in no sample.
    fn littles_law(&self) -> Vec<Finding> {
        if self.report.interrupted {
            // The shards stop within a yield of each other, and the longest window is the whole's.
            return Vec::new();
        }
        let law = &self.report.littles_law;
        let in_flight = &self.recorder.in_flight;
        let finding = |(name, least, found)| {
            let what = format!("samples: littles_law.{name}");
            if self.plan.warmup.0 == 0 {
                return Finding::close(what, least, found);
            }
            let ok = least <= found || is_close(least, found);
            Finding::new(what, format!("at least {least}"), found, ok)
        };
        [
            ("expected", in_flight.throughput_times_latency(), law.expected),
            ("at_target_mean", in_flight.at_target_mean(), law.at_target_mean),
        ]
        .map(finding)
        .into()
    }

    /// The test of the intended times.
    fn rescaled(&mut self) -> Vec<Finding> {
        let Some(offer) = self.offer() else { return Vec::new() };
        let mut due_ns = std::mem::take(&mut self.due_ns);
        due_ns.sort_unstable();
        let mut rescaled = Rescaled::new(&offer, offer.from_ns);
        due_ns.into_iter().for_each(|due_ns| rescaled.add(due_ns));
        rescaled.findings("samples: intended times")
    }

    /// The proof of the arrivals.
    fn arrivals(&self) -> Option<ArrivalProof> {
        let arrivals = self.recorder.arrivals.as_ref()?;
        Some(arrivals.summary(&self.offer()?, &self.plan.thresholds))
    }

    fn offer(&self) -> Option<Offer> {
        offer(self.plan, &self.report.whole, &self.report.per_agent)
    }

    /// The recorder's figures.
    fn figures(mut self, decoded: &DecodedSeries) -> WindowFigures {
        // The number in flight isn't in the samples. It is taken from the report, starting with the
        // last, which brings the intervals to the report's length.
        for (at, interval) in self.report.series.intervals.iter().enumerate().rev() {
            self.recorder.series.in_flight(at as u64 * decoded.interval_ns, interval.in_flight);
        }
        self.window_figures()
    }

    fn window_figures(&self) -> WindowFigures {
        let until_ns = seconds_to_ns(self.report.config.schedule_until);
        window_figures(&self.recorder, self.plan, until_ns, target(self.report))
    }
}

/// Compares the report with the figures of the samples.
fn against(figures: WindowFigures, report: &Report) -> Vec<Finding> {
    let WindowFigures { part, stationarity, series } = figures;
    let mut findings = part_against(part, &report.whole);
    findings.extend(summed_up("samples: series", compare("", &series, &report.series)));
    let found = &report.stationarity;
    findings.extend(compare("samples: stationarity.", &stationarity, found));
    findings
}

/// Compares a part with that of the samples. What samples don't show is filled in from the report.
fn part_against(part: Part, whole: &Part) -> Vec<Finding> {
    let counts = Counts {
        sends_sampled: whole.counts.sends_sampled,
        sends_stamped: whole.counts.sends_stamped,
        waited: whole.counts.waited,
        capped_sessions: whole.counts.capped_sessions,
        capped: whole.counts.capped,
        connection_errors: whole.counts.connection_errors.clone(),
        connects: whole.counts.connects,
        connects_in_window: whole.counts.connects_in_window,
        pool_grew: whole.counts.pool_grew,
        users: whole.counts.users,
        users_blocked: whole.counts.users_blocked,
        unsolicited: whole.counts.unsolicited,
        trailing: whole.counts.trailing,
        shared_sends: whole.counts.shared_sends,
        shared_receives: whole.counts.shared_receives,
        incomplete_uploads: whole.counts.incomplete_uploads,
        requeued: whole.counts.requeued,
        goaways: whole.counts.goaways,
        stamps_clamped: whole.counts.stamps_clamped,
        doubtful: whole.counts.doubtful,
        setup: whole.counts.setup.clone(),
        warmup: whole.counts.warmup.clone(),
        ..part.counts
    };
    // The warm-up's backlog is in no sample.
    let rate = Rates { sent: whole.rate.sent, answered: whole.rate.answered, ..part.rate };
    let (send_path, connect_time) = (whole.send_path.clone(), whole.connect_time.clone());
    let (tls, http2) = (whole.tls.clone(), whole.http2.clone());
    let mut part = Part { counts, rate, send_path, connect_time, tls, http2, ..part };
    // Of what is counted for an endpoint, samples show the longest wait alone.
    for (found, reported) in part.endpoints.iter_mut().zip(&whole.endpoints) {
        found.address.clone_from(&reported.address);
        let wait_max_ns = found.counts.wait_max_ns;
        found.counts = EndpointCounts { wait_max_ns, ..reported.counts.clone() };
    }
    if let (Some(found), Some(reported)) = (&mut part.client_share, &whole.client_share) {
        let ClientShare { p50, p90, p99, p999, .. } = found;
        p50.opening = reported.p50.opening;
        for (found, reported) in
            [(p90, &reported.p90), (p99, &reported.p99), (p999, &reported.p999)]
        {
            if let (Some(found), Some(reported)) = (found, reported) {
                found.opening = reported.opening;
            }
        }
    }
    number(&mut part.slowest, &whole.slowest);
    for (found, reported) in part.parts.iter_mut().zip(&whole.parts) {
        number(&mut found.slowest, &reported.slowest);
        found.counts.capped = reported.counts.capped;
        found.held = reported.held;
        (found.received_bytes, found.sent_bytes) = (reported.received_bytes, reported.sent_bytes);
    }
    compare("samples: ", &part, whole)
}

/// Gives requests from samples, which have no numbers, those of the reported ones.
fn number(found: &mut [SlowRequest], reported: &[SlowRequest]) {
    for (found, reported) in found.iter_mut().zip(reported) {
        (found.number, found.trace_id) = (reported.number, reported.trace_id.clone());
    }
}

/// Yields the values that a sample adds to one of the report's distributions.
pub(super) type Measure = fn(&Sample, &Plan, &mut dyn FnMut(u64));

/// A distribution of the report that samples can rebuild.
type Measurement<'a> = (&'static str, &'a DistributionPart, Measure);

/// The measurement of each.
fn measured(whole: &Part) -> Vec<Measurement<'_>> {
    let mut all: Vec<Measurement<'_>> = vec![
        ("naive", &whole.naive, |sample, _, each| sample.naive_ns().into_iter().for_each(each)),
        ("corrected", &whole.corrected, |sample, _, each| {
            sample.corrected_ns().into_iter().for_each(each);
        }),
        ("pacer_lateness", &whole.pacer_lateness, |sample, _, each| {
            sample.pacer_lateness_ns().into_iter().for_each(each);
        }),
        ("connection_wait", &whole.connection_wait, |sample, _, each| {
            sample.connection_wait_ns().into_iter().for_each(each);
        }),
        ("receive_lateness", &whole.receive_lateness, |sample, _, each| {
            sample.ending.receive_lateness_ns().into_iter().for_each(each);
        }),
    ];
    if let Some(successes) = &whole.successes {
        all.push(("successes.naive", &successes.naive, |sample, plan, each| {
            sample.naive_ns().filter(|_| is_success(sample, plan)).into_iter().for_each(each);
        }));
        all.push(("successes.corrected", &successes.corrected, |sample, plan, each| {
            sample.corrected_ns().filter(|_| is_success(sample, plan)).into_iter().for_each(each);
        }));
    }
    all
}

fn is_success(sample: &Sample, plan: &Plan) -> bool {
    let success = plan.expected_of(usize::from(sample.step));
    sample.kind == SampleKind::Answered && success.holds(sample.status)
}

/// The values of one measure over all files, in order.
pub(super) fn sorted(
    files: &[&Path],
    plan: &Plan,
    measure: Measure,
) -> Result<Vec<u64>, ReadError> {
    let mut values = Vec::new();
    for file in files {
        for sample in SampleReader::open(file)? {
            measure(&sample?, plan, &mut |value_ns| values.push(value_ns));
        }
    }
    values.sort_unstable();
    Ok(values)
}

/// The reported percentiles against the exact ones.
fn quantiles(name: &str, document: &DistributionPart, values: &[u64]) -> Vec<Finding> {
    let histogram = Distribution::new();
    let bucket_ns = |value_ns: u64| histogram.histogram().equivalent_range(value_ns);
    let mut findings = Vec::new();
    for (Quantile { label, q }, percentile) in document.percentiles.iter() {
        let Some(found) = percentile.value else { continue };
        let what = format!("samples: {name}.{label}, exact");
        if values.is_empty() {
            findings.push(Finding::new(what, "n/a", found, false));
            continue;
        }
        let at = usize::try_from(rank(q, values.len() as u64) - 1).expect("a rank is an index");
        let exact_ns = values[at];
        let found_ns = us_to_ns(found);
        // Beyond the histogram's range the report states the end of the range, a lower bound.
        let expected_ns = exact_ns.min(VALUE_MAX_NS);
        let off = found_ns.abs_diff(expected_ns);
        let ok =
            off as f64 <= QUANTILE_TOLERANCE * expected_ns as f64 || off <= bucket_ns(expected_ns);
        findings.push(Finding::new(what, exact_ns as f64 / 1e3, found, ok));
    }
    findings
}
