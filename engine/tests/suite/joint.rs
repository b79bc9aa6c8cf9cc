//! Reports of several agents: merged, they are the report of one run, and each agent's part is its
//! own report.

use std::path::{Path, PathBuf};

use engine::host::environment::of_controller;
use engine::load::schedule::mix;
use engine::load::share::Share;
use engine::plan::body::SharedBody;
use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Arrivals, Order, Plan, StampSource};
use engine::record::config::RecorderConfig;
use engine::record::outcome::Outcome;
use engine::record::recorder::Recorder;
use engine::record::samples::{FileError, FileErrorKind, SampleFolder};
use engine::record::shard_report::ShardReport;
use engine::record::stamps::{Ending, StampedBy, Stamps};
use engine::record::times::Times;
use engine::report::collected::{AgentRun, Collected, LostAgent, RunFacts, Synchronization};
use engine::report::machine::Machine;
use engine::report::merge::{self, Joined};
use engine::report::verdict::{Code, Level, Reason};
use engine::report::{
    AgentPart, AgentReported, Microseconds, NotOfPlan, NotTogether, Report, Samples, StepPart,
    judge,
};
use engine::run;
use engine::samples::{Header, SampleFile, ShardEnd};
use engine::sys::units::{CoreList, Nanos};
use engine::verify::{Finding, merge_proof, report_alone, with_samples};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::made_up::{self, Fate};
use crate::sample_run::{self, fate, wrong};

/// The plan of all agents, not placed.
fn plan(arrivals: Arrivals, rate: &str, seconds: u64) -> Plan {
    Plan {
        target: "http://127.0.0.1:1/".to_owned(),
        rate: Some(rate.parse().expect("a rate")),
        arrivals,
        duration: Nanos::from_secs(seconds),
        warmup: Nanos::from_secs(1),
        seed: 11,
        slo: Some("p99<20ms".parse().expect("objectives")),
        ..Plan::default()
    }
}

/// The plan as placed by an agent with this many shards.
fn placed(plan: &Plan, shards: usize) -> Plan {
    let cores: Vec<usize> = (0..shards).collect();
    let placed = Plan { cores: Some(CoreList::new(cores.clone())), ..plan.clone() };
    placed.complete(&cores).expect("a plan that runs")
}

/// Every request is answered within 1 to 2 ms, on every agent.
fn well(due_ns: u64) -> Fate {
    let noticed_ns = due_ns + 1_000;
    let stamps = Stamps {
        intended_ns: due_ns,
        noticed_ns,
        sent_ns: noticed_ns,
        waited: false,
        step: 0,
        session: None,
    };
    let received_ns = noticed_ns + 1_000_000 + mix(due_ns) % 1_000_000;
    let ending =
        Ending { received_ns, handled_ns: received_ns + 500, stamped_by: StampedBy::Kernel };
    (stamps, ending, Outcome::Answered(200))
}

/// The shares of agents with these weights.
fn shares(weights: &[u32]) -> Vec<Share> {
    let of = weights.iter().sum();
    let mut start = 0;
    let share = |weight: &u32| {
        start += weight;
        Share::units(start - weight..start, of)
    };
    weights.iter().map(share).collect()
}

/// An agent named by its number, with this many shards.
fn agent(
    plan: &Plan,
    number: usize,
    (share, shards): (&Share, usize),
    fate: fn(u64) -> Fate,
) -> AgentRun {
    let plan = placed(plan, shards);
    let recorded = (0..shards)
        .map(|shard| {
            made_up::record_share(&plan, share.of_shard(shard, shards), fate, |_, _, _| {})
        })
        .collect();
    made_up::agent(&plan, (&format!("agent-{number}"), share.clone()), recorded, None)
}

/// Agents with these weights and numbers of shards.
fn agents(plan: &Plan, weights: &[(u32, usize)], fate: fn(u64) -> Fate) -> Vec<AgentRun> {
    let of_weights: Vec<u32> = weights.iter().map(|(weight, _)| *weight).collect();
    let all = shares(&of_weights);
    let all = all.iter().zip(weights).enumerate();
    all.map(|(number, (share, (_, shards)))| agent(plan, number, (share, *shards), fate)).collect()
}

fn facts() -> RunFacts {
    RunFacts { controller: Some(of_controller()), ..RunFacts::default() }
}

fn joint(agents: &[AgentRun]) -> Report {
    merge::report(agents.to_vec(), &facts()).0
}

fn alone(plan: &Plan, fate: fn(u64) -> Fate) -> Report {
    joint(&agents(plan, &[(1, 2)], fate))
}

const WEIGHTS: [(u32, usize); 3] = [(1, 1), (2, 2), (3, 1)];

#[test]
fn agents_together_match_a_single_run() {
    for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
        let plan = plan(arrivals, "2k", 10);
        let one = alone(&plan, fate);
        let report = joint(&agents(&plan, &WEIGHTS, fate));
        assert_eq!(wrong(report_alone(&report)), [], "{arrivals:?}");
        assert_eq!(report.config.schedule_digest, one.config.schedule_digest);
        assert_eq!(report.corrected_digest, one.corrected_digest);
        assert_eq!(report.whole.rate, one.whole.rate);
        assert_eq!(report.whole.counts, one.whole.counts);
        assert_eq!((&report.series, &report.slo), (&one.series, &one.slo));
        assert_eq!(report.stationarity, one.stationarity);
        let sum: u64 = report.per_agent.iter().map(|agent| agent.part.counts.intended).sum();
        assert_eq!(sum, report.whole.counts.intended);
        // One, two and three sixths.
        let intended: Vec<u64> =
            report.per_agent.iter().map(|agent| 6 * agent.part.counts.intended / sum).collect();
        assert!(intended[0] <= 1 && (1..=2).contains(&intended[1]), "{intended:?}");
        assert_eq!(report.generator.shards.len(), 4);
        assert_eq!((report.config.plan.cores.as_ref(), report.partial), (None, false));
        let document = serde_json::to_value(&report).expect("a document");
        assert_eq!(document["generator"].get("machine"), None, "there are three");
        assert!(document["per_agent"][0]["generator"]["machine"].is_object());
    }
}

#[test]
fn each_agents_sends_are_proved_by_its_own_rate() {
    for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
        let report = joint(&agents(&plan(arrivals, "3k", 20), &WEIGHTS, well));
        let whole = report.arrivals.as_ref().expect("an open model has arrivals");
        assert!(whole.as_planned, "{}", whole.line(false));
        assert_eq!((whole.rate, report.generator.shards.len()), (3_000.0, 4));
        for (agent, rate) in report.per_agent.iter().zip([500.0, 1_000.0, 1_500.0]) {
            let own = agent.arrivals.as_ref().expect("its share's");
            assert!((own.rate - rate).abs() < 1e-9, "{}", own.rate);
            assert!(own.as_planned, "{}: {}", agent.name, own.line(false));
            assert_eq!(agent.part.rate.target, Some(own.rate));
        }
        assert_eq!(report.verdict.level, Level::Valid, "{:?}", report.verdict);
    }
}

#[test]
fn a_schedule_dealt_wrongly_is_found() {
    let plan = plan(Arrivals::Poisson, "3k", 20);
    // All requests are there, but three of four shards got as many each as the fourth.
    let mut wrongly_dealt = agents(&plan, &[(1, 1), (1, 1), (1, 1), (1, 1)], well);
    for (agent, units) in wrongly_dealt.iter_mut().zip([0..1, 1..2, 2..3, 3..10]) {
        agent.share = Share::units(units, 10);
    }
    let found = wrong(report_alone(&joint(&wrongly_dealt)));
    for agent in ["agent-0", "agent-3"] {
        let of_agent = |finding: &&Finding| finding.what.starts_with(&format!("agent {agent}: "));
        let digest = found.iter().filter(of_agent).any(|it| it.what.contains("schedule_digest"));
        assert!(digest, "{agent}: {found:?}");
    }
}

#[test]
fn the_worst_verdict_counts_and_names_its_agent() {
    fn late(due_ns: u64) -> Fate {
        let (stamps, ending, outcome) = well(due_ns);
        let noticed_ns = due_ns + 700_000;
        (Stamps { noticed_ns, sent_ns: noticed_ns, ..stamps }, ending, outcome)
    }
    let plan = plan(Arrivals::Poisson, "2k", 10);
    let all = shares(&[1, 1, 1]);
    let mut runs = agents(&plan, &[(1, 1), (1, 1), (1, 1)], well);
    runs[1] = agent(&plan, 1, (&all[1], 1), late);
    let report = joint(&runs);
    assert_eq!(wrong(report_alone(&report)), []);
    let levels: Vec<Level> = report.per_agent.iter().map(|agent| agent.verdict.level).collect();
    assert_eq!((levels[0], levels[2]), (Level::Valid, Level::Valid));
    assert!(Level::Valid < levels[1]);
    assert_eq!(report.verdict.level, levels[1]);
    let of = |code| report.verdict.reasons.iter().find(|reason| reason.code == code);
    let reason = of(Code::ClientShare).expect("it was late");
    assert_eq!(reason.agent.as_deref(), Some("agent-1"));
    assert!(report.per_agent[1].verdict.reasons.iter().all(|reason| reason.agent.is_none()));
    // Two of them were late, and one is named first.
    runs[2] = agent(&plan, 2, (&all[2], 1), late);
    let report = joint(&runs);
    assert_eq!(wrong(report_alone(&report)), []);
    let reasons = &report.verdict.reasons;
    let reason = reasons.iter().find(|reason| reason.code == Code::ClientShare);
    let reason = reason.expect("both were late");
    assert!(reason.agent.is_some() && reason.evidence.contains("; also on agent agent-"));
}

#[test]
fn what_all_agents_added_is_found_where_chance_hides_it_in_each() {
    // A tail so heavy that chance moves p99.9 of one agent's requests by more than a ninth of it,
    // which is what the generator adds there.
    fn tailed(due_ns: u64) -> Fate {
        let (stamps, ..) = well(due_ns);
        let rank = mix(due_ns) % 100_000_000;
        let took_ns = 10_000_000_000 / (rank + 100).isqrt();
        let late_ns = if rank < 200_000 { took_ns / 8 } else { 1_000 };
        let sent_ns = due_ns + late_ns;
        let received_ns = sent_ns + took_ns;
        let ending =
            Ending { received_ns, handled_ns: received_ns + 500, stamped_by: StampedBy::Kernel };
        (Stamps { noticed_ns: sent_ns, sent_ns, ..stamps }, ending, Outcome::Answered(200))
    }
    let plan = Plan { slo: None, ..plan(Arrivals::Poisson, "12k", 10) };
    let report = joint(&agents(&plan, &[(1, 1); 20], tailed));
    assert_eq!(wrong(report_alone(&report)), []);
    let is_added = |reasons: &[Reason]| reasons.iter().any(|it| it.code == Code::ClientShare);
    let agents = report.per_agent.iter().filter(|agent| is_added(&agent.verdict.reasons)).count();
    assert_eq!((agents, is_added(&report.verdict.reasons)), (0, true), "{:?}", report.verdict);
}

#[test]
fn an_agent_that_saw_another_target_is_named() {
    fn slow(due_ns: u64) -> Fate {
        let (stamps, ending, outcome) = well(due_ns);
        let more = 800_000;
        let ending = Ending {
            received_ns: ending.received_ns + more,
            handled_ns: ending.handled_ns + more,
            ..ending
        };
        (stamps, ending, outcome)
    }
    let plan = plan(Arrivals::Poisson, "2k", 10);
    let differs = |runs: &[AgentRun]| {
        let report = joint(runs);
        assert_eq!(wrong(report_alone(&report)), []);
        report.verdict.reasons.into_iter().find(|reason| reason.code == Code::AgentsDiffer)
    };
    let mut runs = agents(&plan, &WEIGHTS, well);
    assert_eq!(differs(&runs), None);
    runs[2] = agent(&plan, 2, (&shares(&[1, 2, 3])[2], 1), slow);
    let reason = differs(&runs).expect("1.4 times as slow");
    assert_eq!((reason.agent.as_deref(), reason.level), (Some("agent-2"), Level::Suspect));
    assert!((1.3..1.5).contains(&reason.figure), "{}", reason.evidence);
}

#[test]
fn agents_with_the_same_target_are_called_different_at_most_as_often_as_stated() {
    /// Each is answered after the square of an exponential time: by chance alone, two agents' p99
    /// are often apart.
    fn drawn(due_ns: u64) -> Fate {
        let (stamps, ending, outcome) = well(due_ns);
        let even = (mix(due_ns) as f64 + 1.0) / 2.0_f64.powi(64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
        let received_ns = stamps.sent_ns + (1e6 * even.ln().powi(2)) as u64;
        (stamps, Ending { received_ns, handled_ns: received_ns + 500, ..ending }, outcome)
    }
    // One run in twenty may be, whatever the number of agents. More than `most` of so many runs are
    // then beyond chance (less than one time in a thousand). Each agent has 600 requests.
    for (number, rate, runs, most) in [(2, "120", 100, 13), (100, "6k", 10, 4)] {
        let (mut apart, mut called) = (0, 0);
        for seed in 0..runs {
            let plan = Plan { seed, ..plan(Arrivals::Poisson, rate, 10) };
            let report = joint(&agents(&plan, &vec![(1, 1); number], drawn));
            let p99 = |agent: &AgentPart| agent.part.corrected.percentiles.at(0.99).value;
            let p99: Vec<f64> = report.per_agent.iter().filter_map(p99).collect();
            let ends = [f64::min, f64::max].map(|end| p99.iter().copied().reduce(end));
            let [low, high] = ends.map(Option::unwrap_or_default);
            apart += u32::from(low * 1.2 < high);
            let mut codes = report.verdict.reasons.iter().map(|reason| reason.code);
            called += u32::from(codes.any(|code| code == Code::AgentsDiffer));
        }
        println!("{number} agents: of {runs} runs {apart} apart, {called} called different");
        // Otherwise the factor alone would keep them from being called different.
        assert!(most < apart && called <= most, "{number} agents: {apart}, {called} of {runs}");
    }
}

#[test]
fn one_outage_of_slightly_different_length_per_agent_is_no_difference() {
    fn until(due_ns: u64, end_ns: u64) -> Fate {
        let (stamps, ending, outcome) = well(due_ns);
        let is_out = (5_000_000_000..5_150_000_000).contains(&due_ns);
        let more = if is_out { end_ns - due_ns } else { 0 };
        let ending = Ending {
            received_ns: ending.received_ns + more,
            handled_ns: ending.handled_ns + more,
            ..ending
        };
        (stamps, ending, outcome)
    }
    let plan = plan(Arrivals::Poisson, "2k", 10);
    let mut runs = agents(&plan, &WEIGHTS, |due_ns| until(due_ns, 5_150_000_000));
    let longer = |due_ns| until(due_ns, 5_250_000_000);
    runs[2] = agent(&plan, 2, (&shares(&[1, 2, 3])[2], 1), longer);
    let report = joint(&runs);
    let p99 = |agent: usize| report.per_agent[agent].part.corrected.percentiles.at(0.99);
    let times = p99(2).value.expect("many") / p99(0).value.expect("many");
    assert!(1.2 < times && p99(2).interval.is_none(), "{times}: one event is too few");
    let codes: Vec<_> = report.verdict.reasons.iter().map(|reason| reason.code).collect();
    assert!(!codes.contains(&Code::AgentsDiffer), "{codes:?}");
}

/// An agent's last progress report before it was lost.
fn reported() -> AgentReported {
    AgentReported {
        unit: Microseconds::Us,
        until_s: 4.25,
        intended: 1_700,
        answered: 1_650,
        errors: 17,
        in_flight: 33,
        p50: Some(1_500.0),
        p99: Some(2_000.0),
    }
}

#[test]
fn a_lost_agents_progress_report_is_checked_as_far_as_possible() {
    let plan = plan(Arrivals::Poisson, "2k", 10);
    let mut runs = agents(&plan, &[(1, 1), (1, 1)], well);
    let AgentRun { name, share, .. } = runs.remove(1);
    let found = |change: fn(&mut AgentReported)| {
        let mut reported = reported();
        change(&mut reported);
        let (name, share, reported) = (name.clone(), share.clone(), Some(reported));
        let lost = LostAgent { name, at_s: 4.25, share, reported };
        let facts = RunFacts { lost: vec![lost], ..facts() };
        wrong(report_alone(&merge::report(runs.clone(), &facts).0)).len()
    };
    assert_eq!(found(|_| {}), 0);
    let changes: [fn(&mut AgentReported); 5] = [
        // Later than the loss, and later than it can have been.
        |reported| reported.until_s = 4.75,
        |reported| reported.until_s = -0.25,
        |reported| reported.errors = 51,
        |reported| reported.p99 = Some(1_000.0),
        |reported| reported.p50 = None,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        assert_ne!(found(change), 0, "{number}");
    }
}

#[test]
fn a_lost_agent_is_marked_and_not_replaced() {
    let plan = plan(Arrivals::Poisson, "2k", 10);
    let mut runs = agents(&plan, &WEIGHTS, well);
    let whole = joint(&runs);
    let AgentRun { name, share, .. } = runs.remove(1);
    let lost = vec![LostAgent { name, at_s: 4.25, share, reported: Some(reported()) }];
    let report = merge::report(runs.clone(), &RunFacts { lost: lost.clone(), ..facts() }).0;
    assert_eq!(wrong(report_alone(&report)), []);
    assert!(report.partial && report.agent_lost[0].name == "agent-1");
    assert!((report.agent_lost[0].load - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(report.whole.rate.target, Some(2_000.0), "as it was planned");
    let there = [&whole.per_agent[0].part, &whole.per_agent[2].part];
    let sum: u64 = there.iter().map(|part| part.counts.intended).sum();
    assert_eq!(report.whole.counts.intended, sum);
    assert_eq!(report.per_agent[1].part, *there[1], "the rest is exact");
    let reason = &report.verdict.reasons[0];
    assert_eq!((reason.code, reason.level), (Code::AgentLost, Level::Invalid));
    assert_eq!(reason.agent.as_deref(), Some("agent-1"));
    assert!(reason.evidence.contains("4.250 s") && reason.evidence.contains("33.33 %"));
    let codes: Vec<Code> = report.verdict.reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(codes, [Code::AgentLost], "there are no other reasons");
    // All but one are lost.
    runs.truncate(1);
    let share = shares(&[1, 2, 3]).swap_remove(2);
    let also = LostAgent { name: "agent-2".to_owned(), at_s: 1.0, share, reported: None };
    let facts = RunFacts { lost: [lost, vec![also]].concat(), ..facts() };
    let report = merge::report(runs, &facts).0;
    assert_eq!(wrong(report_alone(&report)), []);
    assert!(report.is_joint() && report.verdict.level == Level::Invalid);
}

#[test]
fn a_run_that_lost_all_agents_counts_nothing_and_keeps_their_progress_reports() {
    for (arrivals, raw) in [(Arrivals::Poisson, None), (Arrivals::Constant, Some("raw".into()))] {
        let lost = |number: u32| LostAgent {
            name: number.to_string(),
            at_s: 4.25,
            share: Share::units(number..number + 1, 2),
            reported: (number == 0).then(reported),
        };
        let facts = RunFacts { lost: vec![lost(0), lost(1)], raw, ..facts() };
        let plan =
            run::common(plan(arrivals, "1k", 20), &SharedBody::default()).expect("a plan").plan;
        let (report, _) = Joined::none_left(&plan).report(&facts).expect("a report");
        assert!(report.partial && report.interrupted && report.per_agent.is_empty());
        assert_eq!((report.verdict.level, report.whole.counts.intended), (Level::Invalid, 0));
        assert_eq!(report.agent_lost[0].reported, Some(reported()));
        let document = serde_json::to_value(&report).expect("JSON");
        let report: Report = serde_json::from_value(document.clone()).expect("a report");
        assert_eq!(serde_json::to_value(&report).expect("JSON"), document);
        assert_eq!(wrong(report_alone(&report)), []);
    }
}

#[test]
fn what_one_of_several_agents_kept_is_a_report_like_any_other() {
    let routes = ["/a", "/b"].map(|url| Scenario {
        name: url.to_owned(),
        weight: 1,
        step: vec![Step { url: Some(url.to_owned()), ..Step::default() }],
        ..Scenario::default()
    });
    let (scenario, order) = (routes.to_vec(), Order::RoundRobin);
    let plan = plan(Arrivals::Constant, "2k", 10);
    let plan = Plan { scenario, order, requests: Some(20_000), slo: None, ..plan };
    let all = agents(&plan, &[(1, 1), (1, 1)], well);
    let whole = joint(&all);
    assert!(whole.mix.is_some() && whole.whole.counts.intended == 20_000);
    assert_eq!(wrong(report_alone(&whole)), []);
    // The agents take turns at the requests, so each sends one route.
    let (kept, _) = merge::report([all[0].clone()], &RunFacts::default());
    assert_eq!((kept.mix.as_ref(), kept.whole.counts.intended), (None, 10_000));
    assert_eq!(wrong(report_alone(&kept)), []);
    assert_eq!(kept.verdict.level, Level::Valid, "{:?}", kept.verdict);
}

#[test]
fn agents_that_started_apart_are_named() {
    let plan = plan(Arrivals::Poisson, "2k", 5);
    let mut runs = agents(&plan, &WEIGHTS, well);
    let clock = Synchronization {
        pings: 16,
        offset_error_ns: 40_000,
        end_error_ns: Some(50_000),
        drift_ppm: Some(2.0),
        drift_error_ppm: Some(3.0),
    };
    for run in &mut runs {
        run.synchronization = Some(clock);
        let stats = &mut run.shards[0];
        (stats.first_due_us, stats.first_sent_us) = (Some(300.0), Some(350.0));
    }
    let report = joint(&runs);
    assert_eq!(wrong(report_alone(&report)), []);
    assert_eq!(report.per_agent[0].start_skew_us, Some(50.0));
    assert_eq!(report.verdict.level, Level::Valid);
    let far = Synchronization { offset_error_ns: 130_000_000, ..clock };
    runs[1].synchronization = Some(far);
    let report = joint(&runs);
    let reason = &report.verdict.reasons[0];
    assert_eq!((reason.code, reason.agent.as_deref()), (Code::StartSkew, Some("agent-1")));
    assert_eq!(wrong(report_alone(&report)), []);
    // The effect of a noisy drift estimate on a window isn't counted.
    let noisy = Synchronization { drift_ppm: Some(1e5), drift_error_ppm: Some(1e5), ..clock };
    runs[1].synchronization = Some(noisy);
    assert_eq!(joint(&runs).verdict.level, Level::Valid);
    // The clocks have drifted apart by the end.
    runs[1].synchronization = Some(Synchronization { end_error_ns: Some(125_000_000), ..clock });
    assert_eq!(joint(&runs).verdict.reasons[0].code, Code::StartSkew);
    // A single agent can't be apart from others.
    let mut alone = agent(&plan, 0, (&Share::whole(), 1), well);
    alone.synchronization = Some(far);
    assert_eq!(joint(&[alone]).verdict.level, Level::Valid);
}

#[test]
fn an_agent_whose_kernel_does_not_stamp_reports_it_for_itself() {
    let plan = plan(Arrivals::Poisson, "2k", 5);
    let mut runs = agents(&plan, &WEIGHTS, well);
    let unstamped = Plan { stamps: Some(StampSource::User), ..plan };
    runs[0] = agent(&unstamped, 0, (&runs[0].share, 1), well);
    let report = joint(&runs);
    assert_eq!(wrong(report_alone(&report)), []);
    let sources = report.per_agent.iter().map(|agent| agent.part.stamps.source);
    let [user, kernel] = [StampSource::User, StampSource::Kernel];
    assert_eq!(sources.collect::<Vec<StampSource>>(), [user, kernel, kernel]);
    assert_eq!(report.whole.stamps.source, kernel, "the others' kernels still do");
}

#[test]
fn agents_that_do_not_belong_together_are_refused() {
    let plan = plan(Arrivals::Poisson, "2k", 2);
    let runs = agents(&plan, &WEIGHTS, well);
    let joined = |runs: &[AgentRun], lost: Vec<LostAgent>| {
        let mut joined = Joined::default();
        runs.iter().for_each(|run| joined.add(run.clone()));
        joined.report(&RunFacts { lost, ..facts() })
    };
    let refused = |runs: &[AgentRun], lost| joined(runs, lost).expect_err("not one run");
    assert!(joined(&runs, vec![]).is_ok());
    assert_eq!(refused(&[], vec![]), NotTogether::Nothing);
    let shares = |one: &str, other: &str| NotTogether::Shares(one.to_owned(), other.to_owned());
    let twice = [runs[0].clone(), runs[0].clone()];
    assert_eq!(refused(&twice, vec![]), shares("agent-0", "agent-0"));
    let share = runs[1].share.clone();
    let lost = LostAgent { name: "gone".to_owned(), at_s: 1.0, share, reported: None };
    assert_eq!(refused(&runs, vec![lost]), shares("gone", "agent-1"));
}

#[test]
fn an_agents_plan_is_compared_with_the_common_one() {
    let common = |plan: Plan| run::common(plan, &SharedBody::default()).expect("a plan").plan;
    let plan = plan(Arrivals::Poisson, "2k", 2);
    let head = |plan: &Plan| agent(plan, 0, (&Share::whole(), 2), well).head;
    assert!(head(&plan).is_of(&common(plan.clone())));
    // If its kernel doesn't stamp, the agent does so itself.
    let unstamped = Plan { stamps: Some(StampSource::User), ..plan.clone() };
    assert!(head(&unstamped).is_of(&common(plan.clone())));
    for other in [
        Plan { seed: 12, ..plan.clone() },
        Plan { rate: Some("2001".parse().expect("a rate")), ..plan.clone() },
        Plan { headers: vec!["Accept: a".to_owned()], ..plan.clone() },
    ] {
        assert!(!head(&plan).is_of(&common(other)));
    }
}

#[test]
fn shards_that_are_not_of_their_plan_are_refused() {
    let plan = placed(&plan(Arrivals::Poisson, "2k", 2), 2);
    let recorded: Vec<_> =
        (0..2).map(|shard| made_up::record(&plan, (shard, 2), well, |_, _, _| {})).collect();
    let added = |change: fn(&mut Vec<ShardReport>)| {
        let Collected { head, mut shards } = made_up::collected(&plan, recorded.clone(), None);
        change(&mut shards);
        let shards = shards.into_iter().map(Ok);
        AgentRun::new("ann".to_owned(), Share::whole(), head, shards).map(|run| run.shards.len())
    };
    let other_window = |shards: &mut Vec<ShardReport>| {
        let config = RecorderConfig { scheduled: true, end_ns: 9, ..RecorderConfig::default() };
        shards[1].recorder = Recorder::new(config);
    };
    assert_eq!(added(|_| {}), Ok(2));
    let changes: [fn(&mut Vec<ShardReport>); 6] = [
        |shards| shards[1].recorder.counts.sent += 1,
        |shards| shards[1].recorder.times = Times::default(),
        |shards| drop(shards.pop()),
        |shards| shards.swap(0, 1),
        |shards| shards.clear(),
        other_window,
    ];
    for change in changes {
        assert_eq!(added(change), Err(NotOfPlan));
    }
    let Collected { mut head, shards } = made_up::collected(&plan, recorded.clone(), None);
    head.until_ns += 1;
    let shards = shards.into_iter().map(Ok::<_, NotOfPlan>);
    assert!(AgentRun::new("ann".to_owned(), Share::whole(), head, shards).is_err());
}

type StepChange = fn(&mut StepPart);

#[test]
fn the_steps_of_agents_add_up() {
    let plan = Plan { scenario: sample_run::scenarios(), ..plan(Arrivals::Poisson, "500", 5) };
    let report = joint(&agents(&plan, &WEIGHTS, fate));
    assert_eq!(wrong(report_alone(&report)), []);
    let changes: [(&str, StepChange); 3] = [
        ("counts.intended", |step| step.counts.intended += 1),
        ("naive.mean", |step| step.naive.mean = Some(1.0)),
        ("corrected.count", |step| step.corrected.count += 1),
    ];
    for (what, change) in changes {
        let mut changed = report.clone();
        change(&mut changed.whole.parts[1]);
        let found = wrong(report_alone(&changed));
        let what = format!("merged is the sum of the agents: part /b: {what}");
        assert!(found.iter().any(|finding| finding.what == what), "{what}: {found:?}");
    }
}

#[test]
fn a_changed_value_of_an_agents_part_is_found() {
    let report = joint(&agents(&plan(Arrivals::Poisson, "500", 5), &WEIGHTS, fate));
    assert_eq!(wrong(report_alone(&report)), []);
    let document = serde_json::to_value(&report).expect("a document");
    let changed = |path: &str, value: Value| {
        let mut changed = document.clone();
        *changed.pointer_mut(path).unwrap_or_else(|| panic!("no {path}")) = value;
        let report: Report = serde_json::from_value(changed).expect("a report");
        assert_ne!(wrong(report_alone(&report)), [], "{path}");
    };
    // Called interrupted, a run is held to less.
    let mut forged = Report { interrupted: true, partial: true, ..report.clone() };
    forged.verdict = judge(&forged);
    let found = wrong(report_alone(&forged));
    assert!(found.iter().any(|finding| finding.what == "interrupted"), "{found:?}");
    let digest = "00000000000000000000000000000000";
    for (path, value) in [
        ("/corrected_digest", digest.into()),
        ("/config/schedule_digest", digest.into()),
        ("/config/schedule_until_s", 5.5.into()),
        ("/partial", true.into()),
        ("/per_agent/1/config/schedule_digest", digest.into()),
        ("/per_agent/1/config/schedule_arrivals", 7.into()),
        ("/per_agent/1/config/schedule_until_s", 5.5.into()),
        ("/per_agent/1/config/cores", "0".into()),
        ("/per_agent/1/config/share/units/start", 2.into()),
        ("/per_agent/1/arrivals/intended", 7.into()),
        ("/per_agent/1/arrivals_line", "as planned".into()),
        ("/per_agent/1/littles_law/residual", 0.5.into()),
        ("/per_agent/1/start_skew_us", 5.0.into()),
        ("/per_agent/1/counts/intended", 7.into()),
        ("/per_agent/1/corrected/p99", 7.0.into()),
        ("/per_agent/1/corrected/intervals/p75/0", 1e6.into()),
        ("/per_agent/1/corrected/intervals/p75/1", 7.0.into()),
        ("/per_agent/1/corrected/intervals/needed/p99.9", 7.into()),
        ("/per_agent/1/corrected/intervals/dependent", Value::Null),
        ("/per_agent/1/corrected/intervals/method", "order_statistics".into()),
        ("/per_agent/1/naive/intervals/dependent", Value::Null),
        ("/per_agent/1/pacer_lateness/intervals/p50", json!([7.0, 8.0])),
        ("/per_agent/1/rate/target", 2_000.0.into()),
        ("/per_agent/1/interrupted", true.into()),
        ("/per_agent/1/verdict/level", "valid".into()),
        ("/generator/shards/3/core", 7.into()),
        ("/verdict/level", "valid".into()),
    ] {
        changed(path, value);
    }
    let mut of_one = report.clone();
    of_one.generator.machine = Some(Machine::default());
    assert_ne!(wrong(report_alone(&of_one)), []);
    let mut fewer = report.clone();
    fewer.per_agent.pop();
    assert_ne!(wrong(report_alone(&fewer)), []);
}

#[test]
fn no_agents_part_makes_verify_panic() {
    let report = joint(&agents(&plan(Arrivals::Poisson, "100", 2), &[(1, 1), (2, 1)], fate));
    let document = serde_json::to_value(&report).expect("a document");
    let mut paths = Vec::new();
    for part in ["per_agent/1", "agent_lost", "partial", "corrected_digest", "generator"] {
        value_paths(&format!("/{part}"), &document, &mut paths);
    }
    let odd = [json!(0), json!(u64::MAX), json!(-1e300), json!(null), json!("x"), json!([])];
    let mut read = 0;
    let judged = paths.iter().filter(|path| !path.contains("/environment/"));
    // Each value gets two of them, the next one others.
    let mut odd = odd.iter().cycle();
    for path in judged {
        for value in odd.by_ref().take(2) {
            let mut changed = document.clone();
            *changed.pointer_mut(path).expect("a value") = value.clone();
            if let Ok(report) = serde_json::from_value::<Report>(changed) {
                assert!(!report_alone(&report).is_empty());
                read += 1;
            }
        }
    }
    assert!(150 < read, "{read} reports were read");
}

/// The paths of a value and of all values below it.
fn value_paths(path: &str, document: &Value, found: &mut Vec<String>) {
    match document.pointer(path).expect("a path of the document") {
        Value::Object(fields) => {
            fields.keys().for_each(|key| value_paths(&format!("{path}/{key}"), document, found));
        }
        Value::Array(values) => {
            (0..values.len()).for_each(|at| value_paths(&format!("{path}/{at}"), document, found));
        }
        _ => found.push(path.to_owned()),
    }
}

/// Three agents whose requests have every fate, each with its sample file in a folder.
fn sampled(folder: &TempDir) -> (Report, Vec<PathBuf>) {
    let raw = folder.path().to_owned();
    let plan = Plan { raw: Some(raw.clone()), ..plan(Arrivals::Poisson, "2k", 10) };
    let mut files = Vec::new();
    let mut runs = Vec::new();
    for (number, (share, (_, shards))) in shares(&[1, 2, 3]).iter().zip(WEIGHTS).enumerate() {
        let plan = placed(&plan, shards);
        let path = raw.join(format!("agent-{number}.samples"));
        let file = SampleFile::create(&path, shards).expect("a folder of our own");
        let (mut recorded, mut ends) = (Vec::new(), Vec::new());
        for shard in 0..shards {
            let mut sampler = file.lane(shard).sampler();
            let push = |stamps: &Stamps, ending, outcome| sampler.push(0, stamps, ending, outcome);
            let share = share.of_shard(shard, shards);
            let (recorder, digest) = made_up::record_share(&plan, share, fate, push);
            ends.push((sampler.finish(), ShardEnd::new(&recorder, digest)));
            recorded.push((recorder, digest));
        }
        let header =
            Header { shards: u32::try_from(shards).expect("few"), ..sample_run::header(&plan) };
        let summary = file.begin(header, &[1]).expect("a thread").finish(ends, plan.end_ns(), 77);
        let samples = Samples {
            file: summary.file.as_ref().map(|file| file.display().to_string()),
            written: summary.written,
            lost: summary.lost,
            error: summary.error.clone(),
        };
        let named = (&*format!("agent-{number}"), share.clone());
        runs.push(made_up::agent(&plan, named, recorded, Some(samples)));
        files.push(path);
    }
    (merge::report(runs, &RunFacts { raw: Some(raw), ..facts() }).0, files)
}

#[test]
fn pooled_samples_prove_the_merged_histogram() {
    let folder = tempfile::tempdir().expect("a folder");
    let (report, files) = sampled(&folder);
    assert_eq!(wrong(report_alone(&report)), []);
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    assert_eq!(wrong(with_samples(&report, &files)), []);
    let proof = merge_proof(&report, &files).expect("files").expect("several agents");
    assert_eq!((proof.agents, proof.requests), (3, report.whole.corrected.count));
    for row in &proof.rows {
        let merged = row.merged.expect("enough requests");
        assert!(row.off(merged).abs() <= 0.01, "{row:?}");
    }
    // A disk that fills after the first segment leaves that where it is.
    let mut short = report.clone();
    let error = Some(FileError {
        kind: FileErrorKind::NoRoom,
        text: "full".to_owned(),
        folder: SampleFolder::StateDir,
    });
    short.per_agent[0].samples.as_mut().expect("some").error.clone_from(&error);
    short.samples.as_mut().expect("some").error = error;
    let found = wrong(report_alone(&short));
    assert!(found.iter().all(|finding| finding.what != "samples.file"), "{found:?}");
    // Wider intervals come from stalls, and the samples show that there were none.
    let mut wider = report.clone();
    let p50 = wider.per_agent[1].part.corrected.percentiles.at_mut(0.5);
    let [low, _] = p50.interval.as_mut().expect("enough requests");
    *low *= 0.9;
    assert_eq!(wrong(report_alone(&wider)), []);
    assert_ne!(wrong(with_samples(&wider, &files)), []);
    // Files of other agents, and too few files.
    let swapped = [files[1], files[0], files[2]];
    assert_ne!(wrong(with_samples(&report, &swapped)), []);
    assert_ne!(wrong(with_samples(&report, &files[..2])), []);
    let twice = [files[0], files[1], files[1]];
    assert_ne!(wrong(with_samples(&report, &twice)), []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn merging_is_exact_for_any_weights_and_in_any_order(
        weights in proptest::collection::vec((1_u32..9, 1_usize..4), 2..6),
        constant in any::<bool>(),
        seed in any::<u64>(),
        turn in any::<usize>(),
    ) {
        let arrivals = if constant { Arrivals::Constant } else { Arrivals::Poisson };
        let plan = Plan { seed, ..plan(arrivals, "400", 2) };
        let one = alone(&plan, fate);
        let mut runs = agents(&plan, &weights, fate);
        let shift = turn % runs.len();
        runs.rotate_left(shift);
        let report = joint(&runs);
        prop_assert_eq!(wrong(report_alone(&report)), []);
        prop_assert_eq!(&report.config.schedule_digest, &one.config.schedule_digest);
        prop_assert_eq!(&report.corrected_digest, &one.corrected_digest);
        prop_assert_eq!(&report.whole.counts, &one.whole.counts);
        prop_assert_eq!(&report.series, &one.series);
        prop_assert_eq!(report.whole.corrected.quantile_us(0.99), one.whole.corrected.quantile_us(0.99));
        for agent in &report.per_agent {
            prop_assert!(agent.verdict.level <= report.verdict.level);
        }
    }
}
