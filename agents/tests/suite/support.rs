//! An agent under test, its target, and a controller that a test drives.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use agents::agent::{AgentConfig, End, Event, serve};
use agents::channel::{Channel, ChannelError};
use agents::key::Key;
use agents::message::{
    Attachment, Hello, HostFacts, Message, Origin, Ping, Prepare, Ready, Results, Start, Wanted,
};
use agents::refusal::Refusal;
use agents::versions::Versions;
use engine::load::share::Share;
use engine::plan::{Arrivals, Plan, Wait};
use engine::record::shard_report::ShardReport;
use engine::run::{Phase, RunProgress};
use engine::sys::clock;
use engine::sys::placement;
use engine::sys::units::{CoreList, Nanos};
use target::{Target, TargetConfig};
use tempfile::TempDir;

/// How long a test waits for anything before it gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How far ahead a test's run begins, ns.
pub const AHEAD_NS: u64 = 700_000_000;

pub fn key() -> Option<Key> {
    Key::find(None, Some("0123456789abcdef0123456789abcdef".as_ref())).expect("a key")
}

/// A server whose ledger shows what reached it.
pub fn target() -> Target {
    let any = "127.0.0.1:0".parse().expect("an address");
    let latency = Duration::from_millis(2);
    target::start(TargetConfig { base_latency: latency, ..TargetConfig::new(any) })
        .expect("a target")
}

/// Two hundred requests per second.
pub fn plan(target: &Target, length: Nanos) -> Plan {
    Plan {
        target: format!("http://{}/", target.local_addr()),
        rate: Some("200".parse().expect("a rate")),
        arrivals: Arrivals::Constant,
        conns: Some(16),
        warmup: Nanos(0),
        duration: length,
        wait: Wait::Sleep,
        ..Plan::default()
    }
}

/// When the last request reached the target, ns; `None` if none has.
pub fn last_arrival_ns(target: &Target) -> Option<u64> {
    let arrivals = target.ledger().expect("a ledger").arrivals_per_ms;
    let at = arrivals.counts.iter().rposition(|count| 0 < *count)?;
    Some((arrivals.first_ms + at as u64 + 1) * 1_000_000)
}

/// When the first request reached the target, ns; `None` if none has.
pub fn first_arrival_ns(target: &Target) -> Option<u64> {
    let arrivals = target.ledger().expect("a ledger").arrivals_per_ms;
    let at = arrivals.counts.iter().position(|count| 0 < *count)?;
    Some((arrivals.first_ms + at as u64 + 1) * 1_000_000)
}

/// An agent in this process.
pub struct Agent {
    pub address: SocketAddr,
    /// Held by a test while the operator reads nothing.
    pub operator: Arc<Mutex<()>>,
    asked: Arc<AtomicBool>,
    events: Receiver<Event>,
    serving: Option<JoinHandle<End>>,
    folder: TempDir,
}

impl Agent {
    /// Starts one without a key that may send to loopback alone.
    pub fn start() -> Agent {
        Agent::start_with(|_| {})
    }

    /// Starts one.
    pub fn start_with(change: impl FnOnce(&mut AgentConfig)) -> Agent {
        let folder = tempfile::tempdir().expect("a folder");
        let last = *placement::allowed_cores().last().expect("a core");
        let mut config = AgentConfig {
            listen: "127.0.0.1:0".parse().expect("an address"),
            key: None,
            admission: Default::default(),
            cores: Some(CoreList::new(vec![last])),
            source_addresses: Vec::new(),
            state_dir: folder.path().to_owned(),
            once: false,
        };
        change(&mut config);
        let asked = Arc::new(AtomicBool::new(false));
        let operator = Arc::new(Mutex::new(()));
        let reads = operator.clone();
        let (is_asked, (sender, events)) = (asked.clone(), mpsc::channel());
        let serving = thread::spawn(move || {
            let is_asked = move || is_asked.load(Ordering::Relaxed);
            // The test may have ended.
            let tell = |_, event: &Event| {
                drop(reads.lock());
                drop(sender.send(event.clone()));
            };
            serve(config, is_asked, tell).expect("it serves")
        });
        let address = match events.recv_timeout(PATIENCE).expect("it listens") {
            Event::Listening { address, .. } => address,
            other => panic!("{other}"),
        };
        Agent { address, operator, asked, events, serving: Some(serving), folder }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits for a line with this text, and returns it.
    pub fn said(&self, text: &str) -> String {
        let mut lines = Vec::new();
        loop {
            let line = match self.events.recv_timeout(PATIENCE) {
                Ok(event) => event.to_string(),
                Err(error) => panic!("{error}, `{text}` isn't in {lines:?}"),
            };
            if line.contains(text) {
                return line;
            }
            lines.push(line);
        }
    }

    /// Waits for the line that refuses this controller, and checks its reason.
    pub fn said_refused(&self, name: &str, refusal: &str) {
        let line = self.said("refused");
        let peer = line.strip_prefix(&format!("refused {name} at 127.0.0.1:"));
        let why = peer.and_then(|peer| peer.split_once(": ")).map(|(_, why)| why);
        assert_eq!(why, Some(refusal), "{line}");
    }

    /// The files in its folder, except its lock.
    pub fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path()).expect("its folder");
        let mut files: Vec<PathBuf> =
            entries.map(|entry| entry.expect("an entry").path()).collect();
        files.retain(|file| file.extension().is_none_or(|ending| ending != "lock"));
        files.sort();
        files
    }

    /// The one report that it kept.
    pub fn kept(&self) -> (PathBuf, serde_json::Value) {
        let files = self.files();
        let is_report = |file: &&PathBuf| file.extension().is_some_and(|ending| ending == "json");
        let reports: Vec<&PathBuf> = files.iter().filter(is_report).collect();
        let [file] = reports.as_slice() else { panic!("{files:?}") };
        (PathBuf::clone(file), document(file))
    }

    /// Asks it to end.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Waits until it has ended by itself.
    pub fn wait(&mut self) -> End {
        self.serving.take().expect("it serves").join().expect("it ends")
    }

    /// Asks it to end, and waits for that.
    pub fn stop(mut self) -> End {
        self.ask();
        self.wait()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.ask();
        if let Some(serving) = self.serving.take() {
            let ended = serving.join();
            assert!(ended.is_ok() || thread::panicking(), "it ends");
        }
    }
}

fn document(file: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON")
}

/// A controller's session. Heartbeats go on in the background until they are stopped.
pub struct Controller {
    wire: Arc<Mutex<Wire>>,
    stream: TcpStream,
    beating: Arc<AtomicBool>,
    unread: Vec<u8>,
}

/// The sending side: frames must leave in the order of their numbers.
struct Wire {
    channel: Channel,
    stream: TcpStream,
}

impl Wire {
    fn flush(&mut self) {
        // The agent may have closed the connection already, which the read shows.
        let _ = self.stream.write_all(&self.channel.take_outgoing());
    }

    fn say(&mut self, message: &Message) {
        self.channel.send(message).expect("short");
        self.flush();
    }
}

impl Controller {
    /// Connects; waits until the agent has said hello.
    pub fn connect(agent: &Agent, name: &str) -> Controller {
        let mut controller = Controller::authenticate(agent, None).expect("a session");
        controller.say(&Message::Hello(hello(name)));
        match controller.hear() {
            Message::Hello(_) => controller,
            other => panic!("{other:?}"),
        }
    }

    /// Connects; waits until it is authenticated.
    pub fn authenticate(agent: &Agent, key: Option<Key>) -> Result<Controller, ChannelError> {
        let stream = TcpStream::connect(agent.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("a socket");
        let channel = Channel::controller(key.as_ref());
        let wire = Wire { channel, stream: stream.try_clone().expect("a socket") };
        let mut controller = Controller {
            wire: Arc::new(Mutex::new(wire)),
            stream,
            beating: Arc::new(AtomicBool::new(false)),
            unread: Vec::new(),
        };
        controller.wire().flush();
        while !controller.wire().channel.is_open() {
            controller.read()?;
            assert_eq!(controller.take()?, None);
        }
        Ok(controller)
    }

    fn wire(&self) -> std::sync::MutexGuard<'_, Wire> {
        self.wire.lock().expect("nothing panics with it")
    }

    /// Sends heartbeats twice a second from now on.
    pub fn beat(&self) {
        self.beating.store(true, Ordering::Relaxed);
        let (wire, beating) = (Arc::downgrade(&self.wire), Arc::downgrade(&self.beating));
        // It holds nothing between two heartbeats, so that a dropped controller is gone.
        let say = move || {
            let (Some(wire), Some(beating)) = (wire.upgrade(), beating.upgrade()) else {
                return false;
            };
            let mut wire = wire.lock().expect("nothing panics with it");
            let goes_on = beating.load(Ordering::Relaxed) && wire.channel.is_open();
            if goes_on {
                wire.say(&Message::Heartbeat);
            }
            goes_on
        };
        thread::spawn(move || {
            while say() {
                thread::sleep(Duration::from_millis(500));
            }
        });
    }

    /// Sends no more heartbeats; returns when that began, ns.
    pub fn fall_silent(&self) -> u64 {
        let _wire = self.wire();
        self.beating.store(false, Ordering::Relaxed);
        clock::now_ns()
    }

    /// Sends a message.
    pub fn say(&self, message: &Message) {
        self.wire().say(message);
    }

    /// Sends these bytes, of a session without a key.
    pub fn send(&self, bytes: &[u8]) {
        self.wire().stream.write_all(bytes).expect("it reads");
    }

    fn read(&mut self) -> Result<(), ChannelError> {
        let mut bytes = [0; 65_536];
        match self.stream.read(&mut bytes) {
            Ok(0) => {
                self.wire().channel.finish()?;
                Err(ChannelError::Cut)
            }
            Ok(read) => {
                self.unread.extend_from_slice(&bytes[..read]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(ChannelError::Cut),
            Err(error) => panic!("the agent doesn't answer: {error}"),
        }
    }

    fn take(&mut self) -> Result<Option<Message>, ChannelError> {
        let unread = std::mem::take(&mut self.unread);
        let mut bytes = unread.as_slice();
        let mut wire = self.wire();
        let message = wire.channel.receive(&mut bytes);
        wire.flush();
        drop(wire);
        self.unread = bytes.to_vec();
        message
    }

    /// The agent's next message, or why there is none.
    pub fn listen(&mut self) -> Result<Message, ChannelError> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            self.read()?;
        }
    }

    /// The agent's next message.
    pub fn hear(&mut self) -> Message {
        self.listen().expect("a session")
    }

    /// The refusal that ends the session; earlier messages are skipped.
    pub fn hear_refusal(&mut self) -> Refusal {
        loop {
            match self.listen() {
                Ok(Message::Refused(refusal)) => return refusal,
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// A round trip: all earlier messages have been handled.
    pub fn ping(&mut self) {
        let sent_ns = clock::now_ns();
        self.say(&Message::Ping(Ping { sent_ns }));
        loop {
            if let Message::Pong(pong) = self.hear() {
                assert_eq!(pong.sent_ns, sent_ns);
                assert!(sent_ns <= pong.received_ns && pong.received_ns <= pong.answered_ns);
                return;
            }
        }
    }

    /// Asks for all of a plan's load, with heartbeats.
    pub fn prepare(&self, plan: &Plan, samples: bool) {
        self.prepare_with(plan, samples, Vec::new());
    }

    /// The same for a plan with files.
    pub fn prepare_with(&self, plan: &Plan, samples: bool, attachments: Vec<Attachment>) {
        let (share, plan) = (Share::whole(), Box::new(plan.clone()));
        let origin = Origin::default();
        self.say(&Message::Prepare(Prepare { share, samples, attachments, origin, plan }));
        self.beat();
    }

    /// Waits until the agent is ready.
    pub fn hear_ready(&mut self) -> Ready {
        match self.hear() {
            Message::Ready(ready) => ready,
            other => panic!("{other:?}"),
        }
    }

    /// Starts the run this far from now; returns its start, ns.
    pub fn start(&self, ahead_ns: u64) -> u64 {
        let at_ns = clock::now_ns() + ahead_ns;
        self.say(&Message::Start(Start { at_ns }));
        at_ns
    }

    /// Prepares and starts a run; returns when it begins, ns.
    pub fn begin(&mut self, plan: &Plan, samples: bool) -> u64 {
        self.prepare(plan, samples);
        self.hear_ready();
        self.start(AHEAD_NS)
    }

    /// The next progress.
    pub fn hear_progress(&mut self) -> RunProgress {
        match self.hear() {
            Message::Progress(progress) => progress,
            other => panic!("{other:?}"),
        }
    }

    /// Adds up the progress until this many requests were answered, or the run has ended.
    pub fn follow(&mut self, answered: u64) -> RunProgress {
        let mut sum = self.hear_progress();
        while sum.phase != Phase::Done && sum.answered < answered {
            sum.follow(&self.hear_progress());
        }
        sum
    }

    /// The results of a run that has ended, and its raw samples.
    pub fn collect(&mut self, samples: bool) -> (Results, Vec<ShardReport>, Vec<u8>) {
        let (results, shards) = self.collect_report();
        let mut file = Vec::new();
        while samples && (file.len() as u64) < results.samples_bytes {
            file.extend(self.part_at(file.len() as u64));
        }
        (results, shards, file)
    }

    /// The results of a run that has ended, without its raw samples.
    pub fn collect_report(&mut self) -> (Results, Vec<ShardReport>) {
        self.say(&Message::Collect);
        self.hear_report()
    }

    /// Waits for them.
    pub fn hear_report(&mut self) -> (Results, Vec<ShardReport>) {
        let mut shards = Vec::new();
        loop {
            match self.hear() {
                Message::Progress(_) => assert!(shards.is_empty()),
                Message::Shard(shard) => shards.push(shard.report().expect("a shard's")),
                Message::Report(results) => {
                    assert_eq!(results.shards as usize, shards.len());
                    return (results, shards);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The part of the raw samples at this offset.
    pub fn part_at(&mut self, offset: u64) -> Vec<u8> {
        self.say(&Message::Wanted(Wanted { number: 0, offset }));
        match self.hear() {
            Message::Part(part) => {
                assert_eq!((part.number, part.offset), (0, offset));
                part.bytes.into_vec()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Says goodbye.
    pub fn leave(mut self) {
        self.say(&Message::Bye);
        loop {
            match self.listen() {
                Ok(Message::Bye) => return,
                Ok(Message::Progress(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A controller's hello.
pub fn hello(name: &str) -> Hello {
    Hello {
        versions: Versions::here(),
        build: "test".to_owned(),
        name: name.to_owned(),
        host: HostFacts::here(),
        findings: Vec::new(),
    }
}

/// Waits for a condition.
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "{what}: never");
        thread::sleep(Duration::from_millis(10));
    }
}
