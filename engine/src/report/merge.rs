//! From shards' numbers to the report: adds them up, asserts that the sums add up, and lays out the
//! document.

use hdrhistogram::Histogram;

use crate::host::watch::Machine;
use crate::load::schedule::{self, Digest};
use crate::load::share::{self, Share};
use crate::plan::{Model, Plan};
use crate::record::littles_law::InFlightIntegral;
use crate::record::outcome::UnsentReason;
use crate::record::recorder::Recorder;
use crate::record::series::Series;
use crate::record::times::Times;
use crate::report::calibration::{Calibrated, CalibratedOf, HeldAgainst};
use crate::report::collected::{AgentRun, Collected, LostAgent, RunFacts};
use crate::report::profile::{Profile, Taken};
use crate::report::rules::{judge, judge_agent};
use crate::report::slo::judge::Figures;
use crate::report::together::{check, common_plan};
use crate::report::verdict::{Level, Verdict};
use crate::report::{
    AgentConfig, AgentLost, AgentPart, ClientPart, ClientShare, Config, DistributionPart,
    Generator, LittlesLaw, Part, Rates, Report, ResponseStamps, SCHEMA, Samples, SeriesPart,
    Successes,
};
use crate::shard::ShardReport;
use crate::stats::arrival_proof::ArrivalProof;
use crate::stats::arrivals::ArrivalStats;
use crate::stats::distribution::Distribution;
use crate::stats::interval::dependent;
use crate::stats::offer::Offer;
use crate::stats::stationarity::{Stationarity, stationarity};
use crate::sys::units::{CoreList, SECOND_NS, seconds_to_ns};

/// The distributions of a whole run, not yet laid out.
#[derive(Clone, Debug)]
pub struct Measured {
    /// `received − sent`.
    pub naive: Distribution,
    /// `received − intended`.
    pub corrected: Distribution,
    /// Sent → left the host, of the requests of a sample.
    pub send_path: Distribution,
    /// Received → handled, of responses that the kernel stamped.
    pub receive_lateness: Distribution,
    /// The run over time.
    pub series: Series,
}

/// The report of a run on these agents, which ran one plan and were to offer different parts of it.
///
/// Whatever was measured adds up, as it does over shards: counts, histograms, the run over time,
/// the evidence of the arrivals. Nothing stands for an agent that was lost.
///
/// # Panics
/// Without an agent, or if they don't belong together: see [`check`].
pub fn report(agents: &[AgentRun], facts: &RunFacts) -> (Report, Measured) {
    if let Err(problem) = check(agents, facts) {
        panic!("agents of one run belong together: {problem}");
    }
    let plan = common_plan(agents, facts);
    let mut per_agent = Vec::new();
    let mut evidence = Vec::new();
    let mut sum: Option<(Recorder, Digest)> = None;
    for agent in agents {
        let (recorder, digest) = over_shards(&agent.collected.shards);
        per_agent.push(agent_part(agent, &plan, &recorder, digest));
        evidence.push(recorder.arrivals.clone());
        match &mut sum {
            None => sum = Some((recorder, digest)),
            Some((whole, arrivals)) => {
                whole.merge(&recorder);
                arrivals.merge(digest);
            }
        }
    }
    let (recorder, digest) = sum.expect("a run is on at least one agent");
    let heads = || agents.iter().map(|agent| &agent.collected.head);
    let until_ns = heads().map(|head| head.until_ns).max().expect("at least one agent");
    let lost = facts.lost.iter().map(|lost| &lost.share);
    let target = offered_rate(&plan, agents.iter().map(|agent| &agent.share).chain(lost));
    let WindowFigures { part, stationarity, series } =
        window_figures(&recorder, &plan, until_ns, target);
    let times = recorder.times.distributions();
    let slo = plan.slo.as_ref().map(|slo| {
        let (corrected, batches) = (&times.corrected, &recorder.series.batches()[..]);
        Figures { part: &part, corrected, batches, series: &series }.judge(slo)
    });
    let generator = generator(agents);
    let is_joint = 1 < agents.len() || !facts.lost.is_empty();
    let environment = facts.controller.clone().filter(|_| is_joint);
    let mut addresses: Vec<String> = heads().map(|head| head.address.to_string()).collect();
    addresses.dedup();
    let mut report = Report {
        verdict: Verdict { level: Level::Valid, reasons: Vec::new() },
        schema: SCHEMA,
        interrupted: facts.stopped || heads().any(|head| head.interrupted),
        partial: !facts.lost.is_empty(),
        agent_lost: facts.lost.iter().map(agent_lost).collect(),
        uncollected: None,
        slo,
        config: Config {
            target_address: addresses.join(", "),
            schedule_version: schedule_version(&plan),
            schedule_digest: digest_of(&plan, digest),
            schedule_arrivals: is_listed(&plan, digest).then(|| digest.arrivals()),
            schedule_estimated: estimated(digest),
            schedule_until: seconds(until_ns),
            corrected_by: corrected_by(&plan).to_owned(),
            plan,
        },
        environment: environment.unwrap_or_else(|| agents[0].collected.head.environment.clone()),
        whole: part.clone(),
        corrected_digest: times.corrected.digest(),
        generator,
        arrivals_line: None,
        arrivals: None,
        littles_law: LittlesLaw::new(0.0, 0.0, 0.0),
        stationarity,
        samples: samples(agents, facts),
        profile: None,
        calibration: None,
        series,
        per_agent,
        merged: part,
    };
    report.littles_law = littles_law(&recorder.in_flight, report.unpaced_users());
    (report.arrivals, report.arrivals_line) = proof(&report, recorder.arrivals.as_ref());
    prove_each(&mut report, &evidence);
    judge_all(&mut report);
    (
        report,
        Measured {
            naive: times.naive,
            corrected: times.corrected,
            send_path: recorder.times.send_path,
            receive_lateness: recorder.times.receive_lateness,
            series: recorder.series,
        },
    )
}

/// What an agent's shards recorded, added up.
fn over_shards(shards: &[ShardReport]) -> (Recorder, Digest) {
    let (first, others) = shards.split_first().expect("a run has at least one shard");
    let (mut recorder, mut digest) = (first.recorder.clone(), first.digest);
    recorder.counts.assert_sums();
    for shard in others {
        shard.recorder.counts.assert_sums();
        recorder.merge(&shard.recorder);
        digest.merge(shard.digest);
    }
    (recorder, digest)
}

/// Requests per second of these shares of a plan.
pub(crate) fn offered_rate<'a>(
    plan: &Plan,
    shares: impl Iterator<Item = &'a Share> + Clone,
) -> Option<f64> {
    plan.rate.map(|rate| rate.per_second() * share::together(shares))
}

/// An agent's part of the report, without its proof and its verdict.
fn agent_part(agent: &AgentRun, plan: &Plan, recorder: &Recorder, digest: Digest) -> AgentPart {
    let Collected { head, .. } = &agent.collected;
    let own = head.plan.plan();
    let target = offered_rate(plan, std::iter::once(&agent.share));
    let window_ns = head.until_ns.saturating_sub(plan.warmup.0);
    let users = plan.unpaced_users().map(|_| agent.share.count(plan.conns()) * plan.pipeline);
    let mut part = AgentPart {
        name: agent.name.clone(),
        config: AgentConfig {
            share: agent.share.clone(),
            target_address: head.address.to_string(),
            cores: CoreList::new(own.cores().to_vec()),
            source_addresses: own.source_addresses.clone(),
            stamps: own.stamps,
            stamp_sends: own.stamp_sends,
            schedule_digest: digest_of(plan, digest),
            schedule_arrivals: is_listed(plan, digest).then(|| digest.arrivals()),
            schedule_estimated: estimated(digest),
            schedule_until: seconds(head.until_ns),
        },
        verdict: Verdict { level: Level::Valid, reasons: Vec::new() },
        interrupted: head.interrupted,
        synchronization: agent.synchronization,
        start_skew_us: None,
        environment: head.environment.clone(),
        generator: generator(std::slice::from_ref(agent)),
        arrivals: None,
        arrivals_line: None,
        littles_law: littles_law(&recorder.in_flight, users),
        samples: head.samples.clone(),
        part: part(recorder, plan, window_ns, &recorder.series.batches(), target),
    };
    part.start_skew_us = part.skew_us();
    part
}

fn agent_lost(lost: &LostAgent) -> AgentLost {
    let LostAgent { name, at_s, share } = lost.clone();
    AgentLost { name, at_s, load: share.fraction(), share }
}

/// What the generators of these agents did. Of several machines, each has its own part.
fn generator(agents: &[AgentRun]) -> Generator {
    let shards = agents.iter().flat_map(|agent| &agent.collected.shards);
    Generator {
        shards: shards.map(|shard| shard.stats.clone()).collect(),
        machine: match agents {
            [only] => only.collected.head.machine.clone(),
            _ => Machine::default(),
        },
    }
}

/// What became of all agents' samples. They are in a folder, if each agent's file is.
fn samples(agents: &[AgentRun], facts: &RunFacts) -> Option<Samples> {
    let all: Option<Vec<&Samples>> =
        agents.iter().map(|agent| agent.collected.head.samples.as_ref()).collect();
    let all = all?;
    if let [only] = &all[..]
        && facts.raw.is_none()
    {
        return Some((*only).clone());
    }
    let folder = facts.raw.as_ref().filter(|_| all.iter().all(|samples| samples.file.is_some()));
    Some(Samples {
        file: folder.map(|folder| folder.display().to_string()),
        written: all.iter().map(|samples| samples.written).sum(),
        lost: all.iter().map(|samples| samples.lost).sum(),
        error: all.iter().find_map(|samples| samples.error.clone()),
    })
}

fn is_listed(plan: &Plan, digest: Digest) -> bool {
    plan.model() == Model::Open && digest.estimated() == 0
}

fn digest_of(plan: &Plan, digest: Digest) -> Option<String> {
    is_listed(plan, digest).then(|| digest.hex())
}

fn estimated(digest: Digest) -> Option<u64> {
    Some(digest.estimated()).filter(|estimated| 0 < *estimated)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / SECOND_NS as f64
}

/// The proof of a report's arrivals, and its line.
fn proof(
    report: &Report,
    evidence: Option<&ArrivalStats>,
) -> (Option<ArrivalProof>, Option<String>) {
    let proof = evidence.and_then(|arrivals| {
        Some(arrivals.summary(&offer(report)?, &report.config.plan.thresholds))
    });
    let line = proof.as_ref().map(ArrivalProof::line);
    (proof, line)
}

/// The proof of each agent's arrivals.
fn prove_each(report: &mut Report, evidence: &[Option<ArrivalStats>]) {
    let is_joint = report.is_joint();
    let prove = |(agent, evidence): (&AgentPart, &Option<ArrivalStats>)| match is_joint {
        true => proof(&report.of_agent(agent), evidence.as_ref()),
        false => (report.arrivals.clone(), report.arrivals_line.clone()),
    };
    let proofs: Vec<_> = report.per_agent.iter().zip(evidence).map(prove).collect();
    for (agent, (proof, line)) in report.per_agent.iter_mut().zip(proofs) {
        (agent.arrivals, agent.arrivals_line) = (proof, line);
    }
}

/// Judges each agent and the run.
fn judge_all(report: &mut Report) {
    if report.is_joint() {
        let verdicts: Vec<Verdict> =
            report.per_agent.iter().map(|agent| judge_agent(report, agent)).collect();
        for (agent, verdict) in report.per_agent.iter_mut().zip(verdicts) {
            agent.verdict = verdict;
        }
    }
    report.verdict = judge(report);
    if let ([only], false) = (&mut report.per_agent[..], !report.agent_lost.is_empty()) {
        only.verdict = report.verdict.clone();
    }
}

/// Little's law, of so many users if their loop is closed and without a period.
fn littles_law(in_flight: &InFlightIntegral, users: Option<usize>) -> LittlesLaw {
    let law = LittlesLaw::new(
        in_flight.in_flight_mean(),
        in_flight.throughput_times_latency(),
        in_flight.at_target_mean(),
    );
    match users {
        Some(users) => law.of_users(users, in_flight.queued_mean()),
        None => law,
    }
}

/// Adds a profile to a report, and judges it again.
pub fn add_profile(report: &mut Report, taken: Taken) {
    report.profile = Some(Profile::new(taken, report.whole.rate.answered));
    judge_all(report);
}

/// Holds a run against a calibration of its machine, and judges it again.
///
/// # Panics
/// If the calibration is of something else.
pub fn hold_against(report: &mut Report, calibrated: Calibrated) {
    let of = CalibratedOf::of_run(&report.config.plan, &report.environment);
    assert_eq!(of, calibrated.of, "a calibration of something else says nothing of this run");
    report.calibration = Some(held_against(report, calibrated));
    judge_all(report);
}

/// What follows of a calibration for a run.
pub(crate) fn held_against(report: &Report, calibrated: Calibrated) -> HeldAgainst {
    let Part { rate, corrected, .. } = &report.whole;
    HeldAgainst::new(calibrated, &report.config.plan, rate.sent, corrected.quantile_us(0.5))
}

/// The version of the schedule that a plan's arrivals are of.
pub(crate) fn schedule_version(plan: &Plan) -> Option<u32> {
    (plan.model == Some(Model::Open)).then_some(schedule::VERSION)
}

/// What the corrected distribution of a plan is corrected by.
pub(crate) fn corrected_by(plan: &Plan) -> &'static str {
    if plan.backfill.is_off() { "intended" } else { "backfill" }
}

/// The figures of the recorded window, as the report shows them.
#[derive(Clone, Debug)]
pub(crate) struct WindowFigures {
    /// Counts, rates and distributions.
    pub(crate) part: Part,
    /// The first quarter of the window against the last.
    pub(crate) stationarity: Option<Stationarity>,
    /// The run over time.
    pub(crate) series: SeriesPart,
}

/// Lays out the numbers of a recorder, merged over all shards, whose window ended at `until_ns`,
/// and who were to offer `target` requests per second.
pub(crate) fn window_figures(
    recorder: &Recorder,
    plan: &Plan,
    until_ns: u64,
    target: Option<f64>,
) -> WindowFigures {
    let window_ns = until_ns.saturating_sub(plan.warmup.0);
    let batches = recorder.series.batches();
    WindowFigures {
        part: part(recorder, plan, window_ns, &batches, target),
        stationarity: stationarity(&recorder.series.latencies(), &batches, &plan.thresholds),
        series: SeriesPart::new(&recorder.series),
    }
}

fn part(
    recorder: &Recorder,
    plan: &Plan,
    window_ns: u64,
    batches: &[Histogram<u64>],
    target: Option<f64>,
) -> Part {
    let counts = recorder.counts.clone();
    counts.assert_sums();
    let times = recorder.times.distributions();
    assert_eq!(
        times.naive.count(),
        counts.sent - counts.failed,
        "each request sent has a naive latency unless it failed"
    );
    if plan.backfill.is_off() {
        assert_eq!(
            times.corrected.count(),
            counts.intended - counts.failed - counts.unsent_reasons.of(UnsentReason::Dropped),
            "each request has a corrected latency unless it failed or was dropped"
        );
    }
    assert_eq!(times.pacer_lateness.count(), counts.sent, "each request sent was noticed");
    assert_eq!(times.connection_wait.count(), counts.sent, "each request sent had a connection");
    let per_second = |count: u64| {
        if window_ns == 0 { 0.0 } else { count as f64 * SECOND_NS as f64 / window_ns as f64 }
    };
    // Those after the window's end are in no interval.
    let answered_in_window = recorder.series.slots().iter().map(|slot| slot.counts.answers).sum();
    let dependent = dependent(batches);
    let alone = |distribution: &Distribution| DistributionPart::alone(distribution, dependent);
    let Times { successes, .. } = &recorder.times;
    let (success_naive, success_corrected) = (successes.naive(), successes.corrected());
    let differ = success_corrected.count() != times.naive.count();
    let corrected = if plan.backfill.is_off() {
        DistributionPart::new(&times.corrected, batches)
    } else {
        // Back-filled values follow from each other, and no piece of the run holds them.
        DistributionPart::alone(&times.corrected, Some(true))
    };
    Part {
        client_share: client_share(&recorder.times, plan, &times.corrected, &corrected),
        rate: Rates {
            target,
            intended: per_second(counts.intended),
            sent: per_second(counts.sent_in_window),
            answered: per_second(answered_in_window),
        },
        naive: alone(&times.naive),
        corrected,
        pacer_lateness: alone(&times.pacer_lateness),
        connection_wait: alone(&times.connection_wait),
        send_path: alone(&recorder.times.send_path),
        receive_lateness: alone(&recorder.times.receive_lateness),
        connect_time: alone(&recorder.times.connect_time),
        stamps: ResponseStamps::new(plan.stamps(), &counts),
        successes: differ.then(|| Successes {
            naive: alone(&success_naive),
            corrected: alone(&success_corrected),
        }),
        counts,
    }
}

/// The generator's own part of the latencies, at the quantiles that the report states.
fn client_share(
    times: &Times,
    plan: &Plan,
    corrected: &Distribution,
    stated: &DistributionPart,
) -> Option<ClientShare> {
    if !plan.backfill.is_off() {
        return None;
    }
    let at = |q: f64| {
        let whole_us = stated.quantile_us(q)?;
        let added_us = times.added.mean_at_ns(corrected.quantile_ns(q)?)? / 1e3;
        Some(ClientPart {
            corrected: whole_us,
            // The mean is of requests about as long, some of them longer.
            added: added_us.min(whole_us),
            when_handled: times.corrected_when_handled.quantile_ns(q)? as f64 / 1e3,
        })
    };
    let added_mean = times.added.mean_ns()? / 1e3;
    Some(ClientShare { added_mean, p50: at(0.5)?, p99: at(0.99), p999: at(0.999) })
}

/// What the report says of its arrivals, for their proof to be held against; `None` without a
/// schedule, or where its end is known by its number of arrivals alone.
pub(crate) fn offer(report: &Report) -> Option<Offer> {
    let (plan, counts) = (&report.config.plan, &report.whole.counts);
    report.config.schedule_digest.as_ref()?;
    let parts = report.per_agent.iter().map(|agent| {
        let shards = agent.generator.shards.len();
        (agent.config.share.clone(), shards)
    });
    // Agents see a stop at different times, and until the first does all of them offered.
    let ends = report.per_agent.iter().map(|agent| agent.config.schedule_until);
    let until_s = ends.reduce(f64::min)?;
    Some(Offer {
        rate: plan.rate.filter(|_| plan.model() == Model::Open)?,
        arrivals: plan.arrivals,
        parts: parts.collect(),
        until_ns: seconds_to_ns(until_s),
        intended: counts.intended,
        sent_in_window: counts.sent_in_window,
        unconnected: counts.unconnected,
        at_the_edge: report.at_the_edge(),
    })
}
