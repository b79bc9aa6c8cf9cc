//! Runs that go as their controllers want.

use std::fs;
use std::net::SocketAddr;

use agents::admission::Admission;
use agents::agent::{AgentConfig, End, Over, serve};
use agents::channel::ChannelError;
use agents::lease::SILENCE_MAX_NS;
use agents::message::Message;
use engine::plan::{Plan, Wait};
use engine::report::environment::ControlCore;
use engine::run::Phase;
use engine::samples::SampleReader;
use engine::sys::clock;
use engine::sys::placement::allowed_cores;
use engine::sys::units::{CoreList, Nanos};

use crate::support::{AHEAD_NS, Agent, Controller, first_arrival_ns, plan, target, wait_until};

const SECOND: Nanos = Nanos::from_secs(1);
const MINUTE: Nanos = Nanos::from_secs(60);

#[test]
fn a_run_begins_at_its_moment_and_all_of_it_is_collected() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.prepare(&plan(&target, SECOND), true);
    let ready = controller.hear_ready();
    assert_eq!(ready.settled, None);
    assert_eq!(target.ledger().expect("a ledger").received, 0, "nothing before the start");
    let at_ns = controller.start(AHEAD_NS);
    let progress = controller.follow(u64::MAX);
    assert_eq!((progress.phase, progress.intended), (Phase::Done, 200));
    assert_eq!((progress.answered, progress.errors, progress.in_flight), (200, 0, 0));
    let (results, shards, samples) = controller.collect(true);
    assert_eq!(results.head.epoch_ns, at_ns);
    assert!(!results.head.interrupted);
    let environment = &results.head.environment;
    let control = environment.control_core.expect("an agent's");
    assert_eq!(control.shared, environment.cores_used.contains(&control.core));
    let first_ns = first_arrival_ns(&target).expect("requests");
    assert!(at_ns <= first_ns, "the first came {} ns early", at_ns - first_ns);
    let sums = shards.iter().map(|shard| shard.recorder.counts.answered);
    assert_eq!(sums.sum::<u64>(), 200);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("samples");
    fs::write(&file, samples).expect("written");
    let read = SampleReader::open(&file).expect("raw samples").map(|sample| sample.expect("whole"));
    assert_eq!(read.count(), 200);
    controller.ping();
    controller.leave();
    let accepted = agent.said("run accepted for ann@desk at 127.0.0.1:");
    let demand =
        ": 100 % of the load, at most 200 per second on 16 connections for at most 1s, to 127.";
    assert!(accepted.contains(demand), "{accepted}");
    agent.said("run begun for ann@desk");
    agent.said("run ended for ann@desk: 200 sent, 200 answered, report collected");
    wait_until("the samples are forgotten", || agent.files().is_empty());
    assert_eq!(target.stop().expect("a ledger").received, 200);
    assert_eq!(agent.stop(), End::Asked { cut_short: false });
}

#[test]
fn one_session_may_have_many_runs() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    for run in 1..=3 {
        controller.begin(&plan(&target, Nanos(300_000_000)), false);
        controller.follow(u64::MAX);
        let (_, _, samples) = controller.collect(false);
        assert!(samples.is_empty());
        assert_eq!(target.ledger().expect("a ledger").received, 60 * run);
    }
    controller.leave();
    assert!(agent.files().is_empty());
    // A controller may return as soon as it has the goodbye.
    for _ in 0..5 {
        let mut controller = Controller::connect(&agent, "ann@desk");
        controller.prepare(&plan(&target, SECOND), true);
        controller.hear_ready();
        controller.say(&Message::Stop);
        controller.leave();
    }
}

#[test]
fn a_controller_stops_its_run_and_collects_what_there_is() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.begin(&plan(&target, MINUTE), true);
    let before = controller.follow(20).answered;
    controller.say(&Message::Stop);
    // A stop may be repeated, and the run collected before it has ended.
    controller.say(&Message::Stop);
    let (results, shards, _) = controller.collect(true);
    assert!(results.head.interrupted && results.head.until_ns < MINUTE.0);
    let counts = &shards[0].recorder.counts;
    assert!(before <= counts.answered && counts.answered < 2_000, "{counts:?}");
    assert_eq!(target.ledger().expect("a ledger").received, counts.sent);
    controller.leave();
    wait_until("nothing is kept", || agent.files().is_empty());
}

#[test]
fn a_run_that_is_stopped_between_start_and_epoch_sends_nothing_and_is_collected() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    for (ahead_ns, conns) in
        [(30_000_000_000, None), (300_000_000, None), (30_000_000_000, Some(4))]
    {
        let mut plan = plan(&target, MINUTE);
        if conns.is_some() {
            (plan.rate, plan.conns) = (None, conns);
        }
        controller.prepare(&plan, false);
        controller.hear_ready();
        controller.start(ahead_ns);
        controller.say(&Message::Stop);
        let (results, shards, _) = controller.collect(false);
        assert!(results.head.interrupted, "{ahead_ns} {conns:?}");
        let counts = &shards[0].recorder.counts;
        // A stop that comes after the shards' notice of the epoch takes effect right after it.
        let most = if ahead_ns < 1_000_000_000 { 40 } else { 0 };
        assert!(counts.sent <= most, "{counts:?}");
    }
    controller.leave();
}

#[test]
fn a_run_is_called_off_before_its_start_by_a_stop_and_the_next_one_is_served() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    let plan = plan(&target, MINUTE);
    for is_ready in [true, false] {
        controller.prepare(&plan, true);
        if is_ready {
            controller.hear_ready();
        }
        controller.say(&Message::Stop);
        agent.said("run called off for ann@desk: its controller stopped it");
    }
    controller.prepare(&plan, true);
    controller.hear_ready();
    controller.leave();
    agent.said("run called off for ann@desk: the controller's session ended");
    assert_eq!(target.ledger().expect("a ledger").received, 0);
    wait_until("nothing is kept", || agent.files().is_empty());
}

#[test]
fn a_run_without_samples_has_no_file_of_them() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.begin(&plan(&target, Nanos(200_000_000)), false);
    controller.follow(u64::MAX);
    let (results, _, samples) = controller.collect(true);
    assert!(samples.is_empty() && results.head.samples.is_none());
    controller.leave();
}

#[test]
fn shards_that_never_sleep_on_all_cores_leave_the_agent_alive() {
    let target = target();
    let all = CoreList::new(allowed_cores());
    let agent = Agent::start_with(|config| config.cores = Some(all.clone()));
    let mut controller = Controller::connect(&agent, "ann@desk");
    let plan = Plan { wait: Wait::Spin, ..plan(&target, Nanos::from_secs(3)) };
    let at_ns = controller.begin(&plan, false);
    while clock::now_ns() < at_ns + 2 * SECOND.0 {
        let asked_ns = clock::now_ns();
        controller.ping();
        let waited_ns = clock::now_ns() - asked_ns;
        assert!(waited_ns < SILENCE_MAX_NS, "it looked dead for {waited_ns} ns");
    }
    controller.follow(u64::MAX);
    let (results, shards, _) = controller.collect(false);
    assert_eq!(shards.len(), all.len());
    let last = *allowed_cores().last().expect("a core");
    let control = results.head.environment.control_core.expect("an agent's");
    assert_eq!(control, ControlCore { core: last, shared: true });
    controller.leave();
}

#[test]
fn an_agent_that_is_started_again_has_its_port_and_a_second_one_has_not() {
    let agent = Agent::start();
    let listen = agent.address;
    // This side closes last, so the agent's connection lingers on its port.
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.say(&Message::Stop);
    controller.say(&Message::Collect);
    controller.hear_refusal();
    assert!(matches!(controller.listen(), Err(ChannelError::Cut)));
    drop(controller);
    let folder = tempfile::tempdir().expect("a folder");
    let second = AgentConfig {
        listen,
        key: None,
        admission: Admission::default(),
        cores: None,
        source_addresses: Vec::new(),
        state_dir: folder.path().to_owned(),
        once: false,
    };
    let refused = |config| serve(config, || false, |_, _| {}).expect_err("refused").to_string();
    let error = refused(second.clone());
    assert!(error.starts_with(&format!("--listen {listen}: Address already in use")), "{error}");
    // On another machine its port would be free, and its folder may be the same.
    let elsewhere = SocketAddr::new("127.0.0.7".parse().expect("an address"), listen.port());
    let folder = agent.folder().to_owned();
    let error = refused(AgentConfig { listen: elsewhere, state_dir: folder.clone(), ..second });
    assert_eq!(
        error,
        format!(
            "--state-dir {}: can't be written (another agent of port {} keeps its own); name \
             another folder",
            folder.display(),
            listen.port()
        )
    );
    Controller::connect(&agent, "ann@desk").leave();
    agent.stop();
    let again = Agent::start_with(|config| config.listen = listen);
    assert_eq!(again.address, listen);
    Controller::connect(&again, "ann@desk").leave();
}

#[test]
fn an_agent_for_one_run_ends_after_it_and_not_before() {
    let target = target();
    let mut agent = Agent::start_with(|config| config.once = true);
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.prepare(&plan(&target, SECOND), false);
    controller.say(&Message::Stop);
    controller.begin(&plan(&target, Nanos(200_000_000)), false);
    controller.follow(u64::MAX);
    controller.collect(false);
    controller.leave();
    assert_eq!(agent.wait(), End::Once(Over::Collected));

    let mut agent = Agent::start_with(|config| config.once = true);
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.begin(&plan(&target, MINUTE), false);
    controller.follow(10);
    drop(controller);
    assert_eq!(agent.wait(), End::Once(Over::Kept));
    agent.kept();
}

#[test]
fn an_agent_that_is_asked_to_end_stops_its_run_and_keeps_it() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.begin(&plan(&target, MINUTE), true);
    controller.follow(10);
    agent.ask();
    let refusal = controller.hear_refusal().to_string();
    assert_eq!(refusal, "the agent is ending; start it again");
    let line = agent.said("run ended for ann@desk: the agent was asked to end; ");
    let (file, report) = agent.kept();
    assert!(line.contains(&file.display().to_string()), "{line}");
    assert_eq!(report["interrupted"], true);
    assert_eq!(agent.files().len(), 3, "the report, its samples, and the same for a controller");
    assert_eq!(agent.stop(), End::Asked { cut_short: true });
}

#[test]
fn pings_are_answered_at_any_time_and_a_collect_needs_a_run() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.ping();
    let before_ns = clock::now_ns();
    controller.prepare(&plan(&target, SECOND), false);
    controller.say(&Message::Heartbeat);
    controller.hear_ready();
    (0..16).for_each(|_| controller.ping());
    assert!(before_ns < controller.start(AHEAD_NS));
    (0..3).for_each(|_| controller.ping());
    controller.follow(u64::MAX);
    controller.collect(false);
    controller.ping();
    controller.say(&Message::Collect);
    assert_eq!(controller.hear_refusal().to_string(), "collect is out of turn");
}
