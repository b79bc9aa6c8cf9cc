//! One message of each type, two sides of a session, and what they exchange.

use std::sync::LazyLock;

use agents::channel::{Channel, ChannelError};
use agents::frame::{Frame, FrameReader};
use agents::key::Key;
use agents::message::{
    AgentShare, Attachment, Finding, Hello, HostFacts, KeptRun, Message, Origin, Part, Ping, Pong,
    Prepare, Ready, Results, ShardState, Side, Start, Wanted,
};
use agents::refusal::Refusal;
use agents::versions::Versions;
use engine::host::check::Severity;
use engine::load::schedule::Digest;
use engine::load::share::Share;
use engine::plan::Plan;
use engine::plan::address::Address;
use engine::plan::body::Body;
use engine::plan::redact::Redacted;
use engine::plan::scenario::{Scenario, Step};
use engine::record::config::RecorderConfig;
use engine::record::outcome::Outcome;
use engine::record::recorder::Recorder;
use engine::record::samples::Sampled;
use engine::record::shard_report::ShardReport;
use engine::record::stamps::{Ending, Stamps};
use engine::report::collected::CollectedHead;
use engine::report::environment::Environment;
use engine::report::machine::Machine;
use engine::run::{Phase, RunProgress};
use engine::shard::{CoarseHistogram, ShardMeter};
use engine::sys::units::Nanos;

/// A key of the shortest length.
pub fn key() -> Option<Key> {
    named_key("0123456789abcdef0123456789abcdef")
}

pub fn named_key(text: &str) -> Option<Key> {
    Key::find(None, Some(text.as_ref())).expect("a key")
}

pub fn hello() -> Hello {
    let versions = Versions { truetail: "0.1.0".to_owned(), protocol: 1, schedule: 2, report: 3 };
    let host = HostFacts {
        name: "desk".to_owned(),
        kernel: "Linux 6.18".to_owned(),
        architecture: "x86_64".to_owned(),
        cores: 2,
    };
    let findings = vec![Finding { severity: Severity::Warning, text: "swap: is on".to_owned() }];
    let (build, name) = ("release".to_owned(), "ann@desk".to_owned());
    Hello { versions, build, name, host, findings }
}

/// All messages that a side may send to an authenticated peer: every type except the handshake's.
pub fn conversation() -> &'static [(Side, Message)] {
    static CONVERSATION: LazyLock<Vec<(Side, Message)>> = LazyLock::new(made);
    &CONVERSATION
}

/// A plan of one second.
fn plan() -> Plan {
    Plan {
        target: "http://127.0.0.1:8080/".to_owned(),
        rate: Some("9k".parse().expect("a rate")),
        warmup: Nanos(0),
        duration: Nanos(1_000_000_000),
        ..Plan::default()
    }
}

/// A run of two agents.
fn origin() -> Origin {
    let agents = [("a:7070", 0..2), ("b:7070", 2..7)];
    let agents = agents
        .map(|(name, units)| AgentShare { name: name.to_owned(), share: Share::units(units, 7) });
    Origin { run: "0123456789abcdef".parse().expect("a run"), agents: agents.into() }
}

/// A run of it, without its shards.
pub fn head() -> CollectedHead {
    let plan = plan().complete(&[0]).expect("a plan");
    let address = "127.0.0.1:8080".parse().expect("an address");
    CollectedHead {
        plan: Redacted::new(&plan, &Body::of_bytes(Vec::new())),
        addresses: vec![Address::Ip(address)],
        environment: Environment::default(),
        machine: Machine::default(),
        interrupted: false,
        until_ns: 1_000_000_000,
        epoch_ns: 5_000_000_000,
        samples: None,
    }
}

/// The results of a shard with all that a plan can add to them: steps, stages, sessions, hosts and
/// checks.
pub fn shard() -> ShardReport {
    let step = |url: &str| Step {
        url: Some(url.to_owned()),
        expect_body: Some(vec!["contains ok".to_owned()]),
        ..Step::default()
    };
    let scenario =
        |name: &str, step| Scenario { name: name.to_owned(), step, ..Scenario::default() };
    let stages = ["100:1s", "100..300:1s"].map(|stage| stage.parse().expect("a stage"));
    let plan = Plan {
        rate: None,
        duration: Plan::default().duration,
        stage: stages.to_vec(),
        scenario: vec![
            scenario("buy", vec![step("/"), step("/buy")]),
            scenario("look", vec![step("http://127.0.0.2:8080/")]),
        ],
        ..plan()
    };
    let plan = plan.complete(&[0]).expect("a plan");
    let (mut recorder, mut digest) =
        (Recorder::new(RecorderConfig::of_plan(&plan)), Digest::default());
    for number in 0..8_u64 {
        let due_ns = 200_000_000 * (1 + number);
        digest.add(due_ns);
        let stamps = Stamps {
            intended_ns: due_ns,
            noticed_ns: due_ns + 11,
            sent_ns: due_ns + 23,
            waited: false,
            step: 2,
            session: None,
        };
        let outcome = match number {
            5 => Outcome::CheckFailed { status: 200, check: 0 },
            _ => Outcome::Answered(200),
        };
        recorder.intended(due_ns, false);
        recorder.sent(due_ns, &stamps, true);
        recorder.ended((number, due_ns), &stamps, Ending::at(due_ns + 1_000_000), true, outcome);
    }
    let meter = ShardMeter::new(0, 0..plan.end_ns());
    let stats = meter.report(&recorder.counts, 0, 0);
    let sampled = Some(Sampled::default());
    ShardReport { recorder, digest, stats, sampled }
}

fn made() -> Vec<(Side, Message)> {
    use Side::{Agent, Controller};
    let mut latency = CoarseHistogram::default();
    latency.record(5_000);
    vec![
        (Controller, Message::Hello(hello())),
        (Agent, Message::Hello(hello())),
        (Controller, Message::Ping(Ping { sent_ns: 250 })),
        (Agent, Message::Pong(Pong { sent_ns: 250, received_ns: 70_000, answered_ns: 1 << 40 })),
        (Controller, Message::Heartbeat),
        (
            Controller,
            Message::Prepare(Prepare {
                share: Share::units(2..5, 7),
                samples: true,
                attachments: vec![Attachment { name: "f".to_owned(), length: 3, sha256: [7; 32] }],
                origin: origin(),
                plan: Box::new(plan()),
            }),
        ),
        (Agent, Message::Wanted(Wanted { number: 0, offset: 0 })),
        (Controller, Message::Part(Part { number: 0, offset: 0, bytes: vec![6; 3].into() })),
        (Agent, Message::Ready(Ready { settled: Some(true) })),
        (Controller, Message::Start(Start { at_ns: 5_000_000_000 })),
        (
            Agent,
            Message::Progress(RunProgress {
                phase: Phase::Steady,
                elapsed_ns: 250_000_000,
                intended: 300,
                answered: 2,
                errors: 1,
                in_flight: 7,
                counts: [200, 190, 10, 180, 4, 3, 0, 2, 0, 100, 99],
                latency,
            }),
        ),
        (Controller, Message::Stop),
        (Controller, Message::Collect),
        (Agent, Message::Shard(ShardState::of_bytes(vec![8; 3]))),
        (Agent, Message::Report(Results { head: Box::new(head()), shards: 1, samples_bytes: 4 })),
        (Controller, Message::Wanted(Wanted { number: 0, offset: 0 })),
        (Agent, Message::Part(Part { number: 0, offset: 0, bytes: vec![9; 4].into() })),
        (Agent, Message::Refused(Refusal::LeaseLost(Nanos(3_000_000_000)))),
        (Controller, Message::Bye),
        (Agent, Message::Bye),
        (Controller, Message::Resume(origin().run)),
        (
            Agent,
            Message::Kept(KeptRun {
                versions: hello().versions,
                origin: origin(),
                share: Share::units(2..5, 7),
                began_ns: 1_764_000_000_000_000_000,
                replay: None,
            }),
        ),
    ]
}

/// Two sides of a session.
pub struct Pair {
    pub controller: Channel,
    pub agent: Channel,
    /// The bytes that each has sent.
    pub to_agent: Vec<u8>,
    pub to_controller: Vec<u8>,
}

impl Pair {
    pub fn new(controller: Option<Key>, agent: Option<Key>) -> Pair {
        Pair {
            controller: Channel::controller(controller.as_ref()),
            agent: Channel::agent(agent.as_ref()),
            to_agent: Vec::new(),
            to_controller: Vec::new(),
        }
    }

    /// Two sides that are authenticated.
    pub fn open(key: Option<Key>) -> Pair {
        let mut pair = Pair::new(key.clone(), key);
        assert_eq!(pair.exchange(), (Ok(vec![]), Ok(vec![])));
        assert!(pair.controller.is_open() && pair.agent.is_open());
        pair
    }

    /// Passes messages on until both sides are silent; returns what the controller and the agent
    /// received.
    pub fn exchange(&mut self) -> (Received, Received) {
        let (mut controller, mut agent) = (Ok(vec![]), Ok(vec![]));
        loop {
            let sent = self.controller.take_outgoing();
            let answered = self.agent.take_outgoing();
            if sent.is_empty() && answered.is_empty() {
                return (controller, agent);
            }
            agent = join(agent, received(&mut self.agent, &sent));
            controller = join(controller, received(&mut self.controller, &answered));
            self.to_agent.extend(sent);
            self.to_controller.extend(answered);
        }
    }

    /// The bytes of a message of this side: a frame, or with a key its records.
    pub fn sent(&mut self, side: Side, message: &Message) -> Vec<u8> {
        let channel = match side {
            Side::Controller => &mut self.controller,
            Side::Agent => &mut self.agent,
        };
        channel.send(message).expect("it fits");
        channel.take_outgoing()
    }
}

/// The result of receiving bytes.
pub type Received = Result<Vec<Message>, ChannelError>;

fn join(before: Received, after: Received) -> Received {
    let mut messages = before?;
    messages.extend(after?);
    Ok(messages)
}

/// Feeds these bytes to a side.
pub fn received(channel: &mut Channel, mut bytes: &[u8]) -> Received {
    let mut messages = Vec::new();
    while let Some(message) = channel.receive(&mut bytes)? {
        messages.push(message);
    }
    Ok(messages)
}

/// The frames of an unencrypted stream.
pub fn frames(mut stream: &[u8]) -> Vec<Frame> {
    let mut reader = FrameReader::default();
    reader.authenticate();
    let mut frames = Vec::new();
    while let Some(frame) = reader.feed(&mut stream).expect("frames") {
        frames.push(frame);
    }
    assert!(reader.is_between_frames());
    frames
}

/// The records of a stream, each with its length.
pub fn records(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some((length, _)) = stream.split_first_chunk() {
        let (record, rest) = stream.split_at(2 + usize::from(u16::from_be_bytes(*length)));
        records.push(record.to_vec());
        stream = rest;
    }
    assert!(stream.is_empty());
    records
}
