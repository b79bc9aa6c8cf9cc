//! Simulated agents: they send all messages of agents but no load, so that one machine can show the
//! cost of a controller of many agents.
//!
//! Their results are made up: each arrival of an agent's share was sent 2 µs after it was due and
//! answered 1 ms later.

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use agents::agent::PROGRESS_NS;
use agents::key::Key;
use agents::listener::Listener;
use agents::message::{Hello, Message, Ping, Pong, Prepare, Ready, Results, ShardState, Start};
use agents::refusal::Refusal;
use agents::session::{Session, SessionError};
use anyhow::{Context as _, Result, anyhow};
use clap::Parser;
use engine::host::environment;
use engine::load::curve::Curve;
use engine::load::requests;
use engine::load::schedule::{Arrival, Digest, Schedule};
use engine::load::share::Share;
use engine::plan::address::Address;
use engine::plan::body::Body;
use engine::plan::endpoints::Endpoints;
use engine::plan::redact::Redacted;
use engine::plan::{Model, Plan};
use engine::record::config::RecorderConfig;
use engine::record::outcome::Outcome;
use engine::record::recorder::Recorder;
use engine::record::shard_report::ShardReport;
use engine::record::shard_stats::ShardStats;
use engine::record::stamps::{Ending, StampedBy, Stamps};
use engine::report::collected::CollectedHead;
use engine::report::machine::Machine;
use engine::run::{Phase, RunProgress};
use engine::shard::{CoarseHistogram, ShardMeter};
use engine::sys::clock::now_ns;
use engine::sys::placement::allowed_cores;
use glommio::timer::timeout;
use glommio::{GlommioError, LocalExecutorBuilder, Placement};

/// How often to check whether results are made up.
const LOOK_NS: u64 = 10_000_000;
/// How late a made-up request is sent, ns.
const LATE_NS: u64 = 2_000;
/// Its naive latency, ns.
const NAIVE_NS: u64 = 1_000_000;

/// Simulates agents until it is killed; the first line printed has their addresses.
#[derive(Debug, Parser)]
#[command(name = "truetail-agents-sim")]
struct Arguments {
    /// How many agents
    #[arg(long, default_value = "100")]
    agents: usize,
    /// The address to listen on, each on a free port
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    listen: IpAddr,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let key = Key::find(None, std::env::var_os(agents::key::KEY_VARIABLE).as_deref())?;
    let executor = LocalExecutorBuilder::new(Placement::Unbound)
        .name("agents-sim")
        .spawn(move || serve(arguments, key))
        .map_err(|error| anyhow!("no executor: {error}"))?;
    executor.join().map_err(|error| anyhow!("the executor ended: {error}"))?
}

/// Listens for all agents, and serves until the process ends.
async fn serve(arguments: Arguments, key: Option<Key>) -> Result<()> {
    let mut addresses = Vec::new();
    let mut listening = Vec::new();
    for _ in 0..arguments.agents {
        let listener = Listener::bind(SocketAddr::new(arguments.listen, 0), key.as_ref())?;
        let address = listener.local_addr().context("no address")?;
        addresses.push(address.to_string());
        let key = key.clone();
        listening.push(glommio::spawn_local(listener.run(
            move || key.clone(),
            move |session| async move {
                let ended = match session {
                    Ok(session) => {
                        Agent { session, address, run: None, results: None }.converse().await
                    }
                    Err(stranger) => Err(stranger.error),
                };
                match ended {
                    Ok(()) | Err(SessionError::Closed) => {}
                    Err(error) => eprintln!("{address}: {error}"),
                }
            },
        )));
    }
    writeln!(io::stdout(), "listening on {}", addresses.join(","))?;
    for accepting in listening {
        accepting.await;
    }
    Ok(())
}

/// One agent's side of a session.
struct Agent {
    session: Session,
    address: SocketAddr,
    run: Option<Run>,
    /// The results that are being made up.
    results: Option<Receiver<(ShardState, CollectedHead)>>,
}

/// A simulated run.
struct Run {
    plan: Plan,
    share: Share,
    target: SocketAddr,
    schedule: Schedule,
    next_due_ns: Option<u64>,
    /// The epoch on this machine's clock, once it is set.
    epoch_ns: Option<u64>,
    /// When the window ended, ns since the epoch.
    until_ns: u64,
    reported_ns: u64,
    is_done: bool,
}

impl Agent {
    /// Answers until the peer says goodbye.
    async fn converse(mut self) -> Result<(), SessionError> {
        loop {
            let wait_ns = match self.results {
                Some(_) => Some(LOOK_NS),
                None => self.run.as_ref().and_then(Run::wait_ns),
            };
            let received = match wait_ns {
                None => Some(self.session.receive().await),
                Some(wait_ns) => {
                    let message = async { Ok::<_, GlommioError<()>>(self.session.receive().await) };
                    timeout(Duration::from_nanos(wait_ns), message).await.ok()
                }
            };
            let Some(message) = received.transpose()? else {
                self.look().await?;
                continue;
            };
            let received_ns = now_ns();
            match message {
                Message::Hello(_) => {
                    let hello = Hello::here(format!("simulated, {}", self.address), Vec::new());
                    self.session.send(&Message::Hello(hello)).await?;
                }
                Message::Ping(Ping { sent_ns }) => {
                    let pong = Pong { sent_ns, received_ns, answered_ns: now_ns() };
                    self.session.send(&Message::Pong(pong)).await?;
                }
                Message::Heartbeat => {}
                Message::Prepare(prepare) => match Run::new(prepare) {
                    Ok(run) => {
                        self.run = Some(run);
                        self.session.send(&Message::Ready(Ready { settled: None })).await?;
                    }
                    Err(error) => {
                        self.session.refuse(Refusal::Plan(error.to_string())).await;
                        return Ok(());
                    }
                },
                Message::Start(Start { at_ns }) => {
                    self.run.as_mut().expect("prepared").epoch_ns = Some(at_ns);
                }
                Message::Stop => self.stop(),
                Message::Collect => {
                    let run = self.run.take().expect("a run");
                    self.results = Some(run.results(self.address));
                }
                Message::Bye => return self.session.send(&Message::Bye).await,
                other => unreachable!("a controller doesn't say {other:?}"),
            }
        }
    }

    /// Sends whatever is due by itself: the progress of the run, or its results.
    async fn look(&mut self) -> Result<(), SessionError> {
        let Some(results) = &self.results else {
            let progress = self.run.as_mut().map(Run::progress).expect("a run is under way");
            return self.session.send(&Message::Progress(progress)).await;
        };
        let (shard, head) = match results.try_recv() {
            Ok(results) => results,
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Disconnected) => unreachable!("results are made up without fail"),
        };
        self.results = None;
        self.session.send(&Message::Shard(shard)).await?;
        let results = Results { head: Box::new(head), shards: 1, samples_bytes: 0 };
        self.session.send(&Message::Report(results)).await
    }

    /// Ends the run now; one that hasn't begun is dropped.
    fn stop(&mut self) {
        match &mut self.run {
            Some(Run { epoch_ns: Some(epoch_ns), until_ns, .. }) => {
                *until_ns = (*until_ns).min(now_ns().saturating_sub(*epoch_ns));
            }
            run => *run = None,
        }
    }
}

impl Run {
    fn new(prepare: Prepare) -> Result<Run> {
        let Prepare { share, plan, .. } = prepare;
        let endpoints = Endpoints::of(&plan)?;
        let endpoint = &endpoints.each()[0].endpoint;
        let target = format!("{}:{}", endpoint.host, endpoint.port);
        let target = target.parse().with_context(|| format!("{target} isn't an address"))?;
        let mut plan = plan.complete(&allowed_cores())?;
        requests::end_window(&mut plan)?;
        anyhow::ensure!(plan.model() == Model::Open, "only arrivals by a rate are simulated");
        let mut schedule = schedule(&plan, &share);
        let next_due_ns = schedule.next().map(|next| next.due_ns);
        Ok(Run {
            until_ns: plan.end_ns(),
            plan,
            share,
            target,
            schedule,
            next_due_ns,
            epoch_ns: None,
            reported_ns: 0,
            is_done: false,
        })
    }

    /// Time until the next report is due; `None` if there is none.
    fn wait_ns(&self) -> Option<u64> {
        let at_ns = self.epoch_ns? + (self.reported_ns + PROGRESS_NS).min(self.until_ns + NAIVE_NS);
        (!self.is_done).then(|| at_ns.saturating_sub(now_ns()))
    }

    /// The progress since the last time.
    fn progress(&mut self) -> RunProgress {
        let elapsed_ns = now_ns().saturating_sub(self.epoch_ns.expect("it has begun"));
        let phase = match elapsed_ns {
            _ if self.until_ns + NAIVE_NS <= elapsed_ns => Phase::Done,
            _ if elapsed_ns < self.plan.warmup.0 => Phase::Warmup,
            _ => Phase::Steady,
        };
        let (mut intended, mut in_window) = (0, 0);
        let mut latency = CoarseHistogram::default();
        let end_ns = elapsed_ns.min(self.until_ns);
        while let Some(due_ns) = self.next_due_ns.filter(|due_ns| *due_ns < end_ns) {
            intended += 1;
            if self.plan.warmup.0 <= due_ns {
                in_window += 1;
                latency.record(LATE_NS + NAIVE_NS);
            }
            self.next_due_ns = self.schedule.next().map(|next| next.due_ns);
        }
        self.reported_ns = elapsed_ns;
        self.is_done = phase == Phase::Done;
        let warmup = intended - in_window;
        let counts = [in_window, in_window, 0, in_window, 0, 0, 0, 0, 0, warmup, warmup];
        let (answered, errors, in_flight) = (intended, 0, 0);
        RunProgress { phase, elapsed_ns, intended, answered, errors, in_flight, counts, latency }
    }

    /// The results it would have measured. A thread makes them up, since all agents are asked at
    /// once and none may fall silent; one at a time, because each takes much memory.
    fn results(self, address: SocketAddr) -> Receiver<(ShardState, CollectedHead)> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let (done, results) = mpsc::channel();
        thread::spawn(move || {
            let _turn = ONE_AT_A_TIME.lock();
            let (shard, head) = self.made_up(address);
            // The receiver is gone if the session has ended.
            let _ = done.send((ShardState::new(&shard), head));
        });
        results
    }

    fn made_up(self, address: SocketAddr) -> (ShardReport, CollectedHead) {
        let Run { plan, share, target, until_ns, epoch_ns, .. } = self;
        let mut recorder = Recorder::new(RecorderConfig::of_plan(&plan));
        let mut digest = Digest::default();
        let mut in_flight = Vec::new();
        let arrivals = schedule(&plan, &share).take_while(|arrival| arrival.due_ns < until_ns);
        for Arrival { due_ns, number } in arrivals {
            digest.add(due_ns);
            if due_ns < plan.warmup.0 {
                continue;
            }
            let sent_ns = due_ns + LATE_NS;
            let stamps = Stamps {
                intended_ns: due_ns,
                noticed_ns: due_ns,
                sent_ns,
                waited: false,
                step: 0,
                session: None,
            };
            let received_ns = sent_ns + NAIVE_NS;
            let stamped_by = StampedBy::Kernel;
            let ending = Ending { received_ns, handled_ns: received_ns, stamped_by };
            recorder.intended(due_ns, false);
            recorder.sent(stamps.intended_ns, &stamps, sent_ns <= until_ns);
            in_flight.push((stamps, ending, number));
        }
        let sends = in_flight.iter().map(|(stamps, ..)| (stamps.sent_ns, true));
        let ends = in_flight.iter().map(|(_, ending, _)| (ending.handled_ns, false));
        let mut moments: Vec<(u64, bool)> = sends.chain(ends).collect();
        moments.sort_unstable();
        let mut count = 0;
        for (at_ns, is_send) in moments {
            recorder.in_flight.pass(at_ns, count);
            count = if is_send { count + 1 } else { count - 1 };
        }
        for (stamps, ending, number) in in_flight {
            recorder.in_flight.stay(stamps.sent_ns, ending.received_ns, ending.handled_ns);
            let in_window = ending.received_ns <= until_ns;
            recorder.ended(
                (number, stamps.intended_ns),
                &stamps,
                ending,
                in_window,
                Outcome::Answered(200),
            );
        }
        let window_ns = plan.warmup.0..until_ns;
        let observed_s = window_ns.end.saturating_sub(window_ns.start) as f64 / 1e9;
        let core = plan.cores()[0];
        let meter = ShardMeter::new(core, window_ns);
        let stats = ShardStats { observed_s, ..meter.report(&recorder.counts, 0, 0) };
        let head = CollectedHead {
            plan: Redacted::new(&plan, &Body::of_bytes(Vec::new())),
            addresses: vec![Address::Ip(target)],
            environment: environment::environment(&[core], Vec::new(), Some(address)),
            machine: Machine::default(),
            interrupted: until_ns < plan.end_ns(),
            until_ns,
            epoch_ns: epoch_ns.unwrap_or_default(),
            samples: None,
        };
        (ShardReport { recorder, digest, stats, sampled: None }, head)
    }
}

fn schedule(plan: &Plan, share: &Share) -> Schedule {
    let curve = Curve::of_plan(plan).expect("an open plan");
    Schedule::new(curve, plan.arrivals, plan.seed, plan.end_ns(), share.clone())
}
