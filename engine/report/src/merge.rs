//! From shards' numbers to the report: adds them up, asserts that the sums match, and lays out the
//! document.
//!
//! Results are added up shard by shard. A shard's decoded results take 24 MB, nearly all of it for
//! histograms over time. So each shard's are decoded, added to the agent's sum and dropped before
//! the next; then the agent's part of the report is made, and its sum is added to the total and
//! dropped as well.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use hdrhistogram::Histogram;
use humantime::format_rfc3339_millis;
use load::curve::Curve;
use load::presence::mean_users;
use load::schedule::{self, Digest};
use load::share::{self, Share};
use plan::redact::Redacted;
use plan::{Model, Plan};
use record::config::RecorderConfig;
use record::littles_law::InFlightIntegral;
use record::outcome::UnsentReason;
use record::recorder::Recorder;
use record::series::Series;
use record::times::Times;
use stats::arrival_proof::{ArrivalProof, Offer};
use stats::arrivals::ArrivalStats;
use stats::distribution::Distribution;
use stats::interval::dependent;
use stats::pieces::Pieces;
use stats::stationarity::Stationarity;
use units::{CoreList, SECOND_NS, seconds_to_ns};

use crate::calibration::{Calibrated, CalibratedOf, HeldAgainst};
use crate::collected::{AgentRun, LostAgent, RunFacts};
use crate::edge::at_the_edge;
use crate::endpoints::{endpoints, listed};
use crate::profile::{Profile, Taken};
use crate::rules::{judge, judge_agent};
use crate::scenarios::scenarios;
use crate::slo;
use crate::slowest::slowest;
use crate::steady::while_steady;
use crate::steps::{mix, parts};
use crate::together::{NotTogether, check_shares, common_plan, unplaced};
use crate::verdict::Verdict;
use crate::{
    AgentConfig, AgentLost, AgentPart, CheckPart, ClientPart, ClientShare, Config,
    DistributionPart, Generator, LittlesLaw, Microseconds, Part, PerSecond, Rates, Report,
    ResponseStamps, SCHEMA, Samples, SeriesPart, Successes,
};
use crate::{streams, tls};

/// The distributions of a whole run, not laid out yet.
#[derive(Clone, Debug)]
pub struct Measured {
    /// `received − sent`.
    pub naive: Distribution,
    /// `received − intended`.
    pub corrected: Distribution,
    /// Sent → left the host, of the sampled requests.
    pub send_path: Distribution,
    /// Received → handled, of responses that the kernel stamped.
    pub receive_lateness: Distribution,
    /// The run over time.
    pub series: Series,
}

/// The runs of agents, added up one after the other.
///
/// All measurements add up, as they do over shards: counts, histograms, the run over time, the
/// evidence of the arrivals. Each agent keeps the figures that the report states for it; its
/// histograms over time, which take megabytes, survive only in the sum.
#[derive(Default)]
pub struct Joined {
    sum: Option<Sum>,
    per_agent: Vec<AgentPart>,
}

/// The sum of all agents' measurements.
struct Sum {
    /// The plan as the first agent placed it.
    plan: Plan,
    /// The latest end of a window, ns since the epoch.
    until_ns: u64,
    recorder: Recorder,
    digest: Digest,
}

impl Joined {
    /// Adds an agent's run.
    ///
    /// # Panics
    /// It has another plan than the first: see [`CollectedHead::is_of`].
    ///
    /// [`CollectedHead::is_of`]: crate::collected::CollectedHead::is_of
    pub fn add(&mut self, agent: AgentRun) {
        let own = agent.head.plan.plan();
        let is_of_one = self.sum.as_ref().is_none_or(|sum| unplaced(&sum.plan) == unplaced(own));
        assert!(is_of_one, "agents of one run have the same plan, but {} has another", agent.name);
        self.per_agent.push(agent_part(&agent));
        let AgentRun { head, recorder, digest, .. } = agent;
        match &mut self.sum {
            None => {
                let (plan, until_ns) = (head.plan.plan().clone(), head.until_ns);
                self.sum = Some(Sum { plan, until_ns, recorder, digest });
            }
            Some(sum) => {
                sum.until_ns = sum.until_ns.max(head.until_ns);
                sum.recorder.merge(recorder);
                sum.digest.merge(digest);
            }
        }
    }

    /// A run of this plan that lost all its agents: nothing was measured.
    pub fn none_left(plan: &Redacted) -> Joined {
        let plan = plan.plan().clone();
        let recorder = Recorder::new(RecorderConfig::of_plan(&plan));
        let sum = Some(Sum { plan, until_ns: 0, recorder, digest: Digest::default() });
        Joined { sum, per_agent: Vec::new() }
    }

    /// True if there is no agent.
    pub fn is_empty(&self) -> bool {
        self.per_agent.is_empty()
    }

    /// The report of all of them. Nothing is substituted for a lost agent.
    ///
    /// # Errors
    /// There is no agent, or two had overlapping parts of the load.
    pub fn report(self, facts: &RunFacts) -> Result<(Report, Measured), NotTogether> {
        let Joined { sum, per_agent } = self;
        let Sum { plan, until_ns, recorder, digest } = sum.ok_or(NotTogether::Nothing)?;
        check_shares(&per_agent, facts)?;
        let plan = common_plan(plan, &per_agent, facts);
        let there = per_agent.iter().map(|agent| &agent.config.share);
        let lost = facts.lost.iter().map(|lost| &lost.share);
        let target = offered_rate(&plan, until_ns, there.chain(lost));
        let WindowFigures { mut part, stationarity, series } =
            window_figures(&recorder, &plan, until_ns, target);
        let times = recorder.times.distributions();
        let window_ns = until_ns.saturating_sub(plan.warmup.0);
        let latencies = recorder.series.pieces(window_ns);
        let window_s = latencies.seconds();
        let slo = slo::judge::judge(&plan, &part, &times.corrected, &latencies, &series, window_s)
            .expect("a part's texts were just written");
        let is_joint = 1 < per_agent.len() || !facts.lost.is_empty();
        let generator = generator(&per_agent, is_joint);
        let traffic = generator.traffic(&part.parts);
        assert_eq!(
            traffic.beside_parts.is_some(),
            !part.parts.is_empty(),
            "parts have no more bytes than the connections carried"
        );
        let environment = facts.controller.clone().filter(|_| is_joint);
        let mut addresses: Vec<&str> =
            per_agent.iter().map(|agent| agent.config.target_address.as_str()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        for (at, endpoint) in part.endpoints.iter_mut().enumerate() {
            let of_agents = per_agent.iter().filter_map(|agent| agent.part.endpoints.get(at));
            endpoint.address = listed(of_agents.map(|of_agent| of_agent.address.clone()));
        }
        let (arrivals, arrivals_line) = proof(&plan, &part, &per_agent, recorder.arrivals.as_ref());
        // A stop that arrived when every agent was done cut nothing short.
        let interrupted = per_agent.iter().any(|agent| agent.interrupted)
            || !facts.lost.is_empty() && (facts.stopped || per_agent.is_empty());
        let mut report = Report {
            verdict: Verdict::valid(),
            schema: SCHEMA,
            started_at: format_rfc3339_millis(facts.began.unwrap_or(UNIX_EPOCH)).to_string(),
            label: None,
            tags: BTreeMap::new(),
            interrupted,
            partial: !facts.lost.is_empty() || facts.resumed && interrupted,
            agent_lost: facts.lost.iter().map(agent_lost).collect(),
            uncollected: None,
            slo,
            config: Config {
                target_address: addresses.join(", "),
                schedule_version: schedule_version(&plan),
                schedule_digest: per_agent.first().and_then(|_| digest_of(&plan, digest)),
                schedule_arrivals: (!per_agent.is_empty() && is_listed(&plan, digest))
                    .then(|| digest.arrivals()),
                schedule_estimated: estimated(digest),
                schedule_until: seconds(until_ns),
                plan,
            },
            environment: environment.unwrap_or_else(|| per_agent[0].environment.clone()),
            whole: part,
            corrected_digest: times.corrected.digest(),
            traffic,
            generator,
            replay: facts.replay.clone(),
            arrivals,
            arrivals_line,
            mix: None,
            littles_law: LittlesLaw::new(0.0, 0.0, 0.0),
            stationarity,
            samples: samples(&per_agent, facts),
            profile: None,
            calibration: None,
            series,
            per_agent,
        };
        report.littles_law = littles_law(&recorder.in_flight, report.unpaced_users());
        report.mix = mix(&report);
        judge_all(&mut report);
        let measured = Measured {
            naive: times.naive,
            corrected: times.corrected,
            send_path: recorder.times.send_path,
            receive_lateness: recorder.times.receive_lateness,
            series: recorder.series,
        };
        Ok((report, measured))
    }
}

/// The report of these agents' run: see [`Joined`].
///
/// # Panics
/// Without an agent, or if they don't belong together.
pub fn report(agents: impl IntoIterator<Item = AgentRun>, facts: &RunFacts) -> (Report, Measured) {
    let mut joined = Joined::default();
    agents.into_iter().for_each(|agent| joined.add(agent));
    joined
        .report(facts)
        .unwrap_or_else(|problem| panic!("agents of one run belong together: {problem}"))
}

/// The rate, per second, that these shares of a plan offer in a window that ended at `until_ns`.
pub fn offered_rate<'a>(
    plan: &Plan,
    until_ns: u64,
    shares: impl Iterator<Item = &'a Share> + Clone,
) -> Option<f64> {
    Some(Curve::window_mean(plan, until_ns)? * share::together(shares))
}

/// An agent's part of the report, without its verdict.
fn agent_part(agent: &AgentRun) -> AgentPart {
    let AgentRun { head, recorder, digest, .. } = agent;
    let plan = head.plan.plan();
    let target = offered_rate(plan, head.until_ns, std::iter::once(&agent.share));
    let window_ns = head.until_ns.saturating_sub(plan.warmup.0);
    let mean = |_| mean_users(plan, plan.warmup.0..head.until_ns, std::iter::once(&agent.share));
    let users = plan.unpaced_users().map(mean);
    let mut part = AgentPart {
        name: agent.name.clone(),
        config: AgentConfig {
            share: agent.share.clone(),
            target_address: listed(head.addresses.iter().map(ToString::to_string)),
            cores: CoreList::new(plan.cores().to_vec()),
            source_addresses: plan.source_addresses.clone(),
            stamps: plan.stamps,
            stamp_sends: plan.stamp_sends,
            schedule_digest: digest_of(plan, *digest),
            schedule_arrivals: is_listed(plan, *digest).then(|| digest.arrivals()),
            schedule_estimated: estimated(*digest),
            schedule_until: seconds(head.until_ns),
        },
        verdict: Verdict::valid(),
        interrupted: head.interrupted,
        synchronization: agent.synchronization,
        findings: agent.findings.clone(),
        start_skew_us: None,
        environment: head.environment.clone(),
        generator: Generator { shards: agent.shards.clone(), machine: Some(head.machine.clone()) },
        arrivals: None,
        arrivals_line: None,
        littles_law: littles_law(&recorder.in_flight, users),
        samples: head.samples.clone(),
        part: part(recorder, plan, window_ns, &recorder.series.pieces(window_ns), target),
    };
    for (endpoint, address) in part.part.endpoints.iter_mut().zip(&head.addresses) {
        endpoint.address = address.to_string();
    }
    part.start_skew_us = part.skew_us();
    let evidence = recorder.arrivals.as_ref();
    (part.arrivals, part.arrivals_line) =
        proof(plan, &part.part, std::slice::from_ref(&part), evidence);
    part
}

fn agent_lost(lost: &LostAgent) -> AgentLost {
    let LostAgent { name, at_s, share, reported } = lost.clone();
    AgentLost { name, at_s, load: share.fraction(), share, reported }
}

/// The generators of these agents. With several machines, each agent has its own part.
fn generator(agents: &[AgentPart], is_joint: bool) -> Generator {
    let shards = agents.iter().flat_map(|agent| &agent.generator.shards);
    let first = agents.first().filter(|_| !is_joint);
    let machine = first.and_then(|agent| agent.generator.machine.clone());
    Generator { shards: shards.cloned().collect(), machine }
}

/// The samples of all agents. They are in a folder if each agent's file is complete.
fn samples(agents: &[AgentPart], facts: &RunFacts) -> Option<Samples> {
    let all: Option<Vec<&Samples>> = agents.iter().map(|agent| agent.samples.as_ref()).collect();
    let all = all.filter(|all| !all.is_empty() || facts.raw.is_some())?;
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

/// The proof of these agents' arrivals, with these counts, and its summary line.
fn proof(
    plan: &Plan,
    part: &Part,
    agents: &[AgentPart],
    evidence: Option<&ArrivalStats>,
) -> (Option<ArrivalProof>, Option<String>) {
    let proof = evidence
        .and_then(|arrivals| Some(arrivals.summary(&offer(plan, part, agents)?, &plan.thresholds)));
    let line = proof.as_ref().map(|proof| proof.line(plan.load_changes()));
    (proof, line)
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
    if let [only] = &mut report.per_agent[..]
        && report.agent_lost.is_empty()
    {
        only.verdict = report.verdict.clone();
    }
}

/// Little's law, with the mean number of users if it is a closed loop without a period.
fn littles_law(in_flight: &InFlightIntegral, users: Option<f64>) -> LittlesLaw {
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

/// Compares a run with a calibration of its machine, and judges it again.
///
/// # Panics
/// If the calibration was made for something else.
pub fn hold_against(report: &mut Report, calibrated: Calibrated) {
    let of = CalibratedOf::of_run(&report.config.plan, &report.environment);
    assert_eq!(of, calibrated.of, "a calibration of something else doesn't apply to this run");
    report.calibration = Some(held_against(report, calibrated));
    judge_all(report);
}

/// The comparison of a run with a calibration.
pub fn held_against(report: &Report, calibrated: Calibrated) -> HeldAgainst {
    let Part { rate, corrected, .. } = &report.whole;
    HeldAgainst::new(calibrated, &report.config.plan, rate.sent, corrected.quantile_us(0.5))
}

/// The schedule version of a plan's arrivals.
pub fn schedule_version(plan: &Plan) -> Option<u32> {
    (plan.model == Some(Model::Open)).then_some(schedule::VERSION)
}

/// The figures of the recorded window, as the report shows them.
#[derive(Clone, Debug)]
pub struct WindowFigures {
    /// Counts, rates and distributions.
    pub part: Part,
    /// The comparison of the window's first quarter with its last.
    pub stationarity: Option<Stationarity>,
    /// The run over time.
    pub series: SeriesPart,
}

/// Lays out the numbers of a recorder, merged over all shards, whose window ended at `until_ns` and
/// whose planned rate was `target` requests per second.
pub fn window_figures(
    recorder: &Recorder,
    plan: &Plan,
    until_ns: u64,
    target: Option<f64>,
) -> WindowFigures {
    let window_ns = until_ns.saturating_sub(plan.warmup.0);
    let pieces = recorder.series.pieces(window_ns);
    WindowFigures {
        part: part(recorder, plan, window_ns, &pieces, target),
        stationarity: while_steady(plan, &pieces),
        series: SeriesPart::new(&recorder.series),
    }
}

fn part(
    recorder: &Recorder,
    plan: &Plan,
    window_ns: u64,
    pieces: &Pieces<Histogram<u64>>,
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
    assert_eq!(
        times.corrected.count(),
        counts.intended - counts.failed - counts.unsent_reasons.of(UnsentReason::Dropped),
        "each request has a corrected latency unless it failed or was dropped"
    );
    assert_eq!(times.pacer_lateness.count(), counts.sent, "each request sent was noticed");
    assert_eq!(times.connection_wait.count(), counts.sent, "each request sent had a connection");
    let per_second = |count: u64| {
        if window_ns == 0 { 0.0 } else { count as f64 * SECOND_NS as f64 / window_ns as f64 }
    };
    // Answers after the window's end are in no interval.
    let answers: u64 = recorder.series.slots().iter().map(|slot| slot.counts.answers).sum();
    let answered_due = per_second(answers);
    let dependent = dependent(pieces);
    let alone = |distribution: &Distribution| DistributionPart::alone(distribution, dependent);
    let Times { successes, .. } = &recorder.times;
    let (success_naive, success_corrected) = (successes.naive(), successes.corrected());
    let differ = success_naive.count() != times.naive.count();
    let corrected = DistributionPart::new(&times.corrected, pieces);
    let naive = alone(&times.naive);
    let naive_of_all = (counts.unsent == 0).then_some(&naive);
    Part {
        client_share: client_share(&recorder.times, &times.corrected, &corrected, naive_of_all),
        rate: Rates {
            unit: PerSecond::PerSecond,
            target,
            intended: per_second(counts.intended),
            sent: per_second(counts.sends_in_window()),
            sent_due: per_second(counts.sent_in_window),
            answered: answered_due + per_second(counts.warmup.answered_in_window),
            answered_due,
        },
        naive,
        corrected,
        pacer_lateness: alone(&times.pacer_lateness),
        connection_wait: alone(&times.connection_wait),
        send_path: alone(&recorder.times.send_path),
        receive_lateness: alone(&recorder.times.receive_lateness),
        connect_time: alone(&recorder.times.connect_time),
        tls: plan.is_https().then(|| {
            let handshake_time = alone(&recorder.times.handshake_time);
            tls::part(&recorder.tls, plan, handshake_time)
        }),
        http2: (!plan.http.is_1()).then(|| streams::part(&recorder.streams, alone)),
        stamps: ResponseStamps::new(plan.stamps(), &counts),
        successes: differ.then(|| Successes {
            naive: alone(&success_naive),
            corrected: alone(&success_corrected),
        }),
        parts: parts(recorder, plan, window_ns),
        endpoints: endpoints(recorder, plan),
        slowest: slowest(&recorder.slowest, plan),
        checks: CheckPart::all(plan, &recorder.checks),
        scenarios: scenarios(&recorder.scenarios, plan),
        bad: counts.bad(),
        counts,
    }
}

/// The generator's own part of the latencies, at the reported quantiles. What it added to the
/// requests at a quantile is a mean, and it can't move a percentile by more than its distance from
/// naive's, if that covers all requests: naive leaves out at least what the generator added to
/// each.
fn client_share(
    times: &Times,
    corrected: &Distribution,
    stated: &DistributionPart,
    naive_of_all: Option<&DistributionPart>,
) -> Option<ClientShare> {
    let opening_us = opening_us(times);
    let at = |q: f64| {
        let whole_us = stated.quantile_us(q)?;
        let corrected_ns = corrected.quantile_ns(q)?;
        let naive_us = naive_of_all.and_then(|naive| naive.quantile_us(q)).unwrap_or(0.0);
        let most_us = (whole_us - naive_us).max(0.0);
        let added = (times.added.mean_at_ns(corrected_ns)? / 1e3).min(most_us);
        Some(ClientPart {
            corrected: whole_us,
            added,
            opening: (times.added.opened_at(corrected_ns) * opening_us).min(most_us - added),
            when_handled: times.corrected_when_handled.quantile_ns(q)? as f64 / 1e3,
        })
    };
    let added_mean = times.added.mean_ns()? / 1e3;
    Some(ClientShare {
        unit: Microseconds::Us,
        added_mean,
        p50: at(0.5)?,
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
    })
}

/// The cost of opening a connection, µs. A lost segment of a connect costs a second, and a
/// handshake waits for a stalling target, neither of which is the pool's fault: hence the median of
/// the connects, and the fastest handshake.
fn opening_us(times: &Times) -> f64 {
    let connect_ns = times.connect_time.quantile_ns(0.5).unwrap_or(0);
    let handshake_ns = times.handshake_time.min_ns().unwrap_or(0);
    (connect_ns + handshake_ns) as f64 / 1e3
}

/// The load that these agents were to offer, with these counts, to compare with the proof of their
/// arrivals; `None` without a schedule, or if only the number of arrivals determines its end.
pub fn offer(plan: &Plan, part: &Part, agents: &[AgentPart]) -> Option<Offer> {
    if agents.iter().any(|agent| agent.config.schedule_digest.is_none()) {
        return None;
    }
    let shards_of = |agent: &AgentPart| agent.generator.shards.len();
    let ends = || agents.iter().map(|agent| agent.config.schedule_until);
    // Agents see a stop at different times; all of them offered load until the first did.
    let until_s = ends().reduce(f64::min)?;
    let window_s = (ends().fold(0.0, f64::max) - plan.warmup.as_secs_f64()).max(0.0);
    Some(Offer {
        curve: Curve::of_plan(plan)?,
        from_ns: plan.warmup.0,
        until_ns: seconds_to_ns(until_s),
        arrivals: plan.arrivals,
        fraction: share::together(agents.iter().map(|agent| &agent.config.share)),
        intended: part.counts.arrivals(),
        sent_in_window: part.counts.arrivals_sent_in_window(),
        unconnected: part.counts.unconnected,
        at_the_edge: at_the_edge(part, window_s, agents.iter().map(shards_of).sum()),
    })
}
