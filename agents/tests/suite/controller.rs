//! A controller and agents that follow a script: no load, and every kind of trouble.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agents::clock::START_AHEAD_MIN_NS;
use agents::controller::fault::Fault;
use agents::controller::live::AgentLive;
use agents::controller::order::{OnLoss, Order, Placed};
use agents::controller::run::{ControlPlane, Controlled, Ended, Unreadable};
use agents::controller::sample_file::SampleSink;
use agents::controller::weights::shares;
use agents::lease::SILENCE_MAX_NS;
use agents::listener::Listener;
use agents::message::{
    Hello, Message, PART_BYTES, Part, Ping, Pong, Ready, Results, ShardState, Start, Wanted,
};
use agents::refusal::Refusal;
use agents::session::Session;
use agents::versions::Versions;
use engine::load::share::Share;
use engine::plan::body::SharedBody;
use engine::plan::{Plan, PlanError};
use engine::report::Samples as RawSamples;
use engine::report::collected::CollectedHead;
use engine::run::{Phase, RunProgress};
use engine::shard::CoarseHistogram;
use engine::sys::clock::now_ns;
use engine::sys::units::Nanos;
use glommio::timer::Timer;
use glommio::{ExecutorJoinHandle, LocalExecutorBuilder, Placement};

use crate::examples::{head, key};

/// How long a test waits for anything before it gives up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the agents' pretended load takes.
const RUN: Duration = Duration::from_millis(1_500);

/// A fault of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// It is of another version.
    OldVersion,
    /// It doesn't take the plan.
    RefusesPlan,
    /// It isn't ready until it is stopped.
    NeverReady,
    /// It ends the connection amid the run.
    Dies,
    /// It falls silent amid the run.
    FallsSilent,
    /// It omits a shard.
    LosesAShard,
}

/// The messages an agent has received, and when by its clock.
type Heard = Arc<Mutex<Vec<(Message, u64)>>>;

/// An agent that follows its script until it is dropped.
struct Agent {
    address: SocketAddr,
    heard: Heard,
    stopped: Arc<AtomicBool>,
    executor: Option<ExecutorJoinHandle<()>>,
}

impl Agent {
    fn start(trouble: Trouble) -> Agent {
        let (ready, address) = mpsc::channel();
        let stopped = Arc::new(AtomicBool::new(false));
        let heard = Heard::default();
        let (stop, hearing) = (Arc::clone(&stopped), Arc::clone(&heard));
        let executor = LocalExecutorBuilder::new(Placement::Unbound)
            .spawn(move || async move {
                let any = "127.0.0.1:0".parse().expect("an address");
                let listener = Listener::bind(any, key().as_ref()).expect("a free port");
                ready.send(listener.local_addr().expect("an address")).expect("a test");
                let accepting = glommio::spawn_local(listener.run(key, move |session| {
                    let heard = Arc::clone(&hearing);
                    async move {
                        let mut script =
                            Script { trouble, heard, has_samples: false, began_ns: None };
                        if let Ok(session) = session {
                            script.follow(session).await;
                        }
                    }
                }));
                while !stop.load(Ordering::Relaxed) {
                    Timer::new(Duration::from_millis(5)).await;
                }
                accepting.cancel().await;
            })
            .expect("an executor");
        let address = address.recv_timeout(PATIENCE).expect("an agent");
        Agent { address, heard, stopped, executor: Some(executor) }
    }

    /// When it first received a message of this kind.
    fn heard_at(&self, is_it: impl Fn(&Message) -> bool) -> Option<u64> {
        let heard = self.heard.lock().expect("a list");
        heard.iter().find(|(message, _)| is_it(message)).map(|(_, at_ns)| *at_ns)
    }

    fn count(&self, is_it: impl Fn(&Message) -> bool) -> usize {
        self.heard.lock().expect("a list").iter().filter(|(message, _)| is_it(message)).count()
    }

    /// The start that it was given, by its clock.
    fn start_ns(&self) -> u64 {
        let heard = self.heard.lock().expect("a list");
        let start = heard.iter().find_map(|(message, _)| match message {
            Message::Start(Start { at_ns }) => Some(*at_ns),
            _ => None,
        });
        start.expect("it was given a start")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let joined = self.executor.take().expect("an executor").join();
        assert!(joined.is_ok() || std::thread::panicking(), "it ends");
    }
}

/// One session of an agent.
struct Script {
    trouble: Trouble,
    heard: Heard,
    has_samples: bool,
    /// When the run begins; later, when it ended.
    began_ns: Option<u64>,
}

impl Script {
    async fn follow(&mut self, mut session: Session) {
        let mut last = Phase::Setup;
        loop {
            let message = next(&mut session, Duration::from_millis(50)).await;
            let answers = match message {
                Some(None) => return,
                Some(Some(message)) => {
                    self.heard.lock().expect("a list").push((message.clone(), now_ns()));
                    self.answer(message)
                }
                None => vec![],
            };
            let mut said = answers;
            if let Some(began_ns) = self.began_ns {
                let elapsed_ns = now_ns().saturating_sub(began_ns);
                let amid = u64::try_from(RUN.as_nanos()).expect("short") / 3;
                match self.trouble {
                    Trouble::Dies if amid < elapsed_ns => return,
                    Trouble::FallsSilent if amid < elapsed_ns => return silence(session).await,
                    _ => {}
                }
                let is_over = RUN.as_nanos() <= u128::from(elapsed_ns);
                let phase = if is_over { Phase::Done } else { Phase::Steady };
                if last != Phase::Done && 0 < elapsed_ns {
                    said.push(Message::Progress(progress(phase, elapsed_ns)));
                    last = phase;
                }
            }
            for message in said {
                if session.send(&message).await.is_err() {
                    return;
                }
            }
        }
    }

    fn answer(&mut self, message: Message) -> Vec<Message> {
        match message {
            Message::Hello(_) => {
                let mut hello = Hello::here("script".to_owned(), Vec::new());
                // Of another build, which a controller takes.
                hello.versions.truetail = "9.9.9".to_owned();
                if self.trouble == Trouble::OldVersion {
                    hello.versions = Versions { schedule: 0, ..hello.versions };
                }
                vec![Message::Hello(hello)]
            }
            Message::Ping(Ping { sent_ns }) => {
                let received_ns = now_ns();
                vec![Message::Pong(Pong { sent_ns, received_ns, answered_ns: now_ns() })]
            }
            Message::Prepare(prepare) => {
                self.has_samples = prepare.samples;
                let ready = Ready { settled: Some(true) };
                match self.trouble {
                    Trouble::RefusesPlan => {
                        vec![Message::Refused(Refusal::Plan("--rate 9: too high".to_owned()))]
                    }
                    Trouble::NeverReady => vec![],
                    _ => vec![Message::Ready(ready)],
                }
            }
            Message::Start(Start { at_ns }) => {
                self.began_ns = Some(at_ns);
                vec![]
            }
            Message::Stop => {
                // Its pretended load ends at once.
                self.began_ns = self.began_ns.map(|_| 1);
                vec![]
            }
            Message::Collect => {
                let shards = if self.trouble == Trouble::LosesAShard { 1 } else { 2 };
                let states = (0..shards).map(|n| Message::Shard(ShardState::of_bytes(vec![n; 9])));
                let head = CollectedHead { samples: raw_samples(self.has_samples), ..head() };
                let samples_bytes = if self.has_samples { SAMPLES_BYTES as u64 } else { 0 };
                let results = Results { head: Box::new(head), shards: 2, samples_bytes };
                states.chain([Message::Report(results)]).collect()
            }
            Message::Wanted(Wanted { number, offset }) => {
                let at = usize::try_from(offset).expect("a few parts");
                let bytes = samples()[at..(at + PART_BYTES).min(SAMPLES_BYTES)].to_vec().into();
                vec![Message::Part(Part { number, offset, bytes })]
            }
            Message::Bye => vec![Message::Bye],
            _ => vec![],
        }
    }
}

/// The length of an agent's raw samples: ten parts and a bit.
const SAMPLES_BYTES: usize = 10 * PART_BYTES + 7;

/// An agent's raw samples.
fn samples() -> Vec<u8> {
    (0..SAMPLES_BYTES).map(|at| (at / 100).to_le_bytes()[0]).collect()
}

/// An agent's report of its raw samples, if they are wanted.
fn raw_samples(wanted: bool) -> Option<RawSamples> {
    let file = Some("there".to_owned());
    wanted.then_some(RawSamples { file, written: 0, lost: 0, error: None })
}

/// The next message; `Some(None)` if the session has ended, `None` if nothing came for so long.
async fn next(session: &mut Session, limit: Duration) -> Option<Option<Message>> {
    let mut timer = std::pin::pin!(Timer::new(limit));
    let mut receive = std::pin::pin!(session.receive());
    std::future::poll_fn(|context| {
        if let std::task::Poll::Ready(message) = receive.as_mut().poll(context) {
            return std::task::Poll::Ready(Some(message.ok()));
        }
        timer.as_mut().poll(context).map(|_| None)
    })
    .await
}

/// Keeps the connection, but neither reads nor sends.
async fn silence(session: Session) {
    Timer::new(Duration::from_nanos(2 * SILENCE_MAX_NS)).await;
    drop(session);
}

fn progress(phase: Phase, elapsed_ns: u64) -> RunProgress {
    let (counts, latency) = (Default::default(), CoarseHistogram::default());
    let (intended, answered, errors, in_flight) = (10, 9, 1, 2);
    RunProgress { phase, elapsed_ns, intended, answered, errors, in_flight, counts, latency }
}

/// Agents with these troubles.
fn agents(troubles: &[Trouble]) -> Vec<Agent> {
    troubles.iter().map(|trouble| Agent::start(*trouble)).collect()
}

fn plan() -> Plan {
    Plan {
        target: "http://127.0.0.1:8080/".to_owned(),
        rate: Some("90".parse().expect("a rate")),
        warmup: Nanos(0),
        duration: Nanos(u64::try_from(RUN.as_nanos()).expect("short")),
        ..Plan::default()
    }
}

/// Starts a run on these agents, with their samples in a folder.
fn start(agents: &[Agent], on_loss: OnLoss, raw: Option<&std::path::Path>) -> Controlled {
    let shares = shares(&vec![1; agents.len()]);
    let placed = agents.iter().zip(shares).enumerate().map(|(number, (agent, share))| Placed {
        address: agent.address.to_string().parse().expect("an address"),
        share,
        samples: raw.map(|raw| SampleSink::create(raw, &format!("{number}.bin")).expect("a sink")),
    });
    let agents = placed.collect();
    let (files, name) = (SharedBody::default(), "ann@desk".to_owned());
    let order = Order { agents, key: key(), plan: plan(), files, on_loss, name };
    control(order).expect("it starts")
}

fn control(order: Order) -> Result<Controlled, PlanError> {
    Controlled::start(&ControlPlane::start().expect("a thread"), order)
}

/// Waits for the end of a run, which must come.
fn end(controlled: Controlled) -> Ended {
    let begun = Instant::now();
    while !controlled.is_finished() {
        assert!(begun.elapsed() < PATIENCE, "it never ends");
        std::thread::sleep(Duration::from_millis(5));
    }
    controlled.wait().expect("a control plane")
}

fn is_start(message: &Message) -> bool {
    matches!(message, Message::Start(_))
}

fn is_stop(message: &Message) -> bool {
    *message == Message::Stop
}

/// Waits until a condition holds.
fn wait_until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "it never came so far");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn agents_are_set_up_begin_together_and_report() {
    let agents = agents(&[Trouble::None; 3]);
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("raw");
    let controlled = start(&agents, OnLoss::Abort, Some(&raw));
    let is_ready = |agent: &AgentLive| agent.ready == Some(Ready { settled: Some(true) });
    wait_until(|| controlled.live().iter().all(is_ready));
    wait_until(|| controlled.live().iter().all(|agent| agent.total.is_some()));
    let ended = end(controlled);
    assert_eq!((ended.agents.len(), ended.lost.len(), ended.stopped), (3, 0, false));
    let began_ns = ended.began_ns.expect("the load began");
    let last_prepared_ns =
        agents.iter().filter_map(|agent| agent.heard_at(|it| matches!(it, Message::Prepare(_))));
    let last_prepared_ns = last_prepared_ns.max().expect("all were");
    for (number, (agent, collected)) in agents.iter().zip(&ended.agents).enumerate() {
        let share = agent.heard.lock().expect("a list").iter().find_map(|(it, _)| match it {
            Message::Prepare(prepare) => Some(prepare.share.clone()),
            _ => None,
        });
        let number = u32::try_from(number).expect("three");
        assert_eq!(share, Some(Share::units(number..number + 1, 3)));
        assert_eq!(Some(&collected.share), share.as_ref());
        let head = CollectedHead { samples: raw_samples(true), ..head() };
        assert_eq!((collected.name.clone(), &collected.head), (agent.address.to_string(), &head));
        assert_eq!(collected.shards, [0, 1].map(|n| ShardState::of_bytes(vec![n; 9])));
        // No agent begins before all are set up, and its start is ahead when it learns of it,
        // however long a busy machine took to deliver it.
        let heard_ns = agent.heard_at(is_start).expect("it began");
        assert!(last_prepared_ns < heard_ns);
        assert!(heard_ns + START_AHEAD_MIN_NS / 2 < agent.start_ns());
        // They are on one machine: their clocks are the controller's.
        let synchronization = collected.synchronization.expect("its clock is read");
        assert_eq!(synchronization.pings, 16);
        assert!(agent.start_ns().abs_diff(began_ns) <= synchronization.offset_error_ns);
        let beats = agent.count(|it| *it == Message::Heartbeat);
        assert!(3 <= beats, "{beats} heartbeats in more than 3 s");
        let pings = agent.count(|it| matches!(it, Message::Ping(_)));
        assert!(16 < pings, "pings go on");
        assert!(agent.heard_at(is_stop).is_none());
        assert_eq!(agent.count(|it| *it == Message::Bye), 1);
        let sink = collected.samples.as_ref().expect("wanted").as_ref().expect("whole");
        assert!(std::fs::read(sink.temporary()).expect("written") == samples());
    }
    // These agents' reports are made up, and of another plan than the one they were given.
    let mut agents = ended.agents.into_iter();
    let theirs = agents.next().expect("three").head.plan;
    for (plan, is_theirs) in [(&ended.plan, false), (&theirs, true)] {
        let error = agents.next().expect("three").run(plan).expect_err("made up");
        assert_eq!(matches!(error, Unreadable::Shard(_)), is_theirs, "{error}");
        assert_eq!(error == Unreadable::OtherPlan, !is_theirs, "{error}");
    }
}

#[test]
fn one_that_cannot_be_used_is_named_and_no_load_begins() {
    for (trouble, words) in [
        (Trouble::OldVersion, "refused: versions differ: schedule"),
        (Trouble::RefusesPlan, "refused: --rate 9: too high"),
    ] {
        let agents = agents(&[Trouble::None, trouble]);
        let ended = end(start(&agents, OnLoss::Continue, None));
        assert_eq!((ended.began_ns, ended.agents.len()), (None, 0), "{trouble:?}");
        let [lost] = ended.lost.as_slice() else { panic!("one is lost: {:?}", ended.lost) };
        assert_eq!(lost.name, agents[1].address.to_string());
        assert!(lost.fault.to_string().starts_with(words), "{}", lost.fault);
        assert!(agents.iter().all(|agent| agent.heard_at(is_start).is_none()));
        wait_until(|| agents[0].count(|it| *it == Message::Bye) == 1);
    }
}

#[test]
fn all_unreachable_agents_are_named_together() {
    let mut agents = agents(&[Trouble::None; 3]);
    let gone = [0, 2].map(|number: usize| agents[number].address.to_string());
    for number in [0, 2] {
        // Its port is free again.
        let address = agents[number].address;
        agents[number] = Agent::start(Trouble::None);
        agents[number].address = address;
    }
    let ended = end(start(&agents, OnLoss::Abort, None));
    let names: Vec<&str> = ended.lost.iter().map(|lost| lost.name.as_str()).collect();
    assert_eq!(names, gone);
    assert!(ended.lost.iter().all(|lost| matches!(lost.fault, Fault::Unreachable(_))));
    assert!(agents[1].heard_at(|it| matches!(it, Message::Prepare(_))).is_none());
}

#[test]
fn a_loss_stops_the_others_or_they_go_on() {
    for on_loss in [OnLoss::Abort, OnLoss::Continue] {
        let agents = agents(&[Trouble::None, Trouble::Dies, Trouble::None]);
        let folder = tempfile::tempdir().expect("a folder");
        let ended = end(start(&agents, on_loss, Some(folder.path())));
        let ended_ns = now_ns();
        assert_eq!(ended.agents.len(), 2, "{on_loss:?}");
        let [lost] = ended.lost.as_slice() else { panic!("one is lost: {:?}", ended.lost) };
        assert!(matches!(lost.fault, Fault::Left), "{:?}", lost.fault);
        assert_eq!(
            (&lost.name, &lost.share),
            (&agents[1].address.to_string(), &Share::units(1..2, 3))
        );
        assert!(ended.began_ns < Some(lost.at_ns));
        assert!(ended_ns < lost.at_ns + 5_000_000_000, "the others don't take long");
        for agent in [&agents[0], &agents[2]] {
            assert_eq!(agent.heard_at(is_stop).is_some(), on_loss == OnLoss::Abort);
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
    }
}

#[test]
fn one_that_falls_silent_is_lost() {
    let agents = agents(&[Trouble::FallsSilent, Trouble::None]);
    let ended = end(start(&agents, OnLoss::Continue, None));
    let [lost] = ended.lost.as_slice() else { panic!("one is lost: {:?}", ended.lost) };
    assert!(matches!(lost.fault, Fault::Silent), "{:?}", lost.fault);
    // It was lost when it was last heard from, long before it was given up.
    assert!(agents[0].start_ns() <= lost.at_ns && lost.at_ns + SILENCE_MAX_NS <= now_ns());
    assert_eq!(ended.agents.len(), 1);
}

#[test]
fn incomplete_results_are_not_used() {
    let agents = agents(&[Trouble::None, Trouble::LosesAShard]);
    let ended = end(start(&agents, OnLoss::Abort, None));
    let [lost] = ended.lost.as_slice() else { panic!("one is lost: {:?}", ended.lost) };
    assert!(matches!(lost.fault, Fault::Results(_)), "{:?}", lost.fault);
    assert_eq!(ended.agents.len(), 1, "the other's are here");
}

#[test]
fn a_run_that_the_user_stops_has_results() {
    let agents = agents(&[Trouble::None; 2]);
    let controlled = start(&agents, OnLoss::Abort, None);
    wait_until(|| controlled.live().iter().all(|agent| agent.total.is_some()));
    controlled.stop();
    let ended = end(controlled);
    assert!(ended.stopped && ended.began_ns.is_some());
    assert_eq!((ended.agents.len(), ended.lost.len()), (2, 0));
    assert!(agents.iter().all(|agent| agent.heard_at(is_stop).is_some()));
}

#[test]
fn a_user_stops_a_run_before_it_begins() {
    let agents = agents(&[Trouble::None, Trouble::NeverReady]);
    let controlled = start(&agents, OnLoss::Abort, None);
    wait_until(|| agents.iter().all(|a| 1 <= a.count(|it| matches!(it, Message::Prepare(_)))));
    controlled.stop();
    let ended = end(controlled);
    assert_eq!((ended.began_ns, ended.agents.len(), ended.lost.len()), (None, 0, 0));
    assert!(agents.iter().all(|agent| agent.heard_at(is_start).is_none()));
    // Agents that were set up are stopped.
    wait_until(|| agents.iter().all(|agent| agent.heard_at(is_stop).is_some()));
}

#[test]
fn an_agent_of_another_key_cannot_be_used() {
    let agents = agents(&[Trouble::None]);
    let address = agents[0].address.to_string().parse().expect("an address");
    let placed = vec![Placed { address, share: Share::whole(), samples: None }];
    let name = "ann@desk".to_owned();
    let (files, on_loss) = (SharedBody::default(), OnLoss::Abort);
    let order = Order { agents: placed, key: None, plan: plan(), files, on_loss, name };
    let ended = end(control(order).expect("it starts"));
    let fault = ended.lost[0].fault.to_string();
    assert!(
        fault.starts_with("refused: --key-file: this side has a key and yours has none"),
        "{fault}"
    );
}

#[test]
fn a_plan_that_no_agent_could_run_is_refused_at_once() {
    let plan = Plan { duration: Nanos(0), ..plan() };
    let name = "ann@desk".to_owned();
    let (files, on_loss) = (SharedBody::default(), OnLoss::Abort);
    let order = Order { agents: Vec::new(), key: None, plan, files, on_loss, name };
    let error = control(order).err().expect("refused").to_string();
    assert!(error.starts_with("--duration 0s: an empty window"), "{error}");
}
