//! An agent's refusals and their texts; it serves the next controller afterwards.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use agents::admission::Admission;
use agents::channel::ChannelError;
use agents::message::{Message, Origin, Part, Prepare, Results, Side, Start};
use agents::refusal::Refusal;
use agents::versions::Versions;
use engine::load::share::Share;
use engine::plan::Plan;
use engine::plan::scenario::{Scenario, Step};
use engine::sys::clock;
use engine::sys::units::{Nanos, SECOND_NS};

use crate::examples::{Pair, head, received};
use crate::support::{Agent, Controller, PATIENCE, hello, key, plan, target, wait_until};

const MINUTE: Nanos = Nanos::from_secs(60);

/// The agent's refusal of this plan.
fn refused(agent: &Agent, plan: &Plan) -> String {
    refused_share(agent, plan, Share::whole())
}

fn refused_share(agent: &Agent, plan: &Plan, share: Share) -> String {
    let mut controller = Controller::connect(agent, "ann@desk");
    let plan = Box::new(plan.clone());
    let attachments = Vec::new();
    let (samples, origin) = (false, Origin::default());
    controller.say(&Message::Prepare(Prepare { share, samples, attachments, origin, plan }));
    let refusal = controller.hear_refusal().to_string();
    agent.said_refused("ann@desk", &refusal);
    refusal
}

/// A scenario for each of two URLs.
fn two_hosts(one: &str, two: &str) -> Vec<Scenario> {
    let scenario = |url: &str| Scenario {
        name: String::new(),
        weight: 1,
        step: vec![Step { url: Some(url.to_owned()), ..Step::default() }],
        ..Scenario::default()
    };
    [one, two].map(scenario).to_vec()
}

/// Checks that a controller is served, now or once the last one's run is gone.
fn serves(agent: &Agent, plan: &Plan) {
    let began = Instant::now();
    loop {
        let mut next = Controller::connect(agent, "ben@lap");
        next.prepare(plan, false);
        match next.hear() {
            Message::Ready(_) => {
                next.leave();
                agent.said("run called off for ben@lap");
                return;
            }
            Message::Refused(Refusal::Held(held)) if held.holder == "ann@desk" => {}
            other => panic!("{other:?}"),
        }
        assert!(began.elapsed() < PATIENCE, "ann@desk's run never ends");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn each_forbidden_plan_is_refused_with_its_reason() {
    let target = target();
    let named = target.local_addr().to_string().parse().expect("a target");
    let agent = Agent::start_with(|config| {
        config.admission = Admission {
            targets: vec!["10.1.0.0/16".parse().expect("a network"), named],
            rate_max: Some("300".parse().expect("a rate")),
            conns_max: Some(20),
            duration_max: Some(Nanos::from_secs(90)),
            files_max: None,
        };
    });
    let good = plan(&target, MINUTE);
    let shown = target.local_addr();
    for (plan, words) in [
        (
            Plan { target: "http://192.0.2.1:81/".to_owned(), ..good.clone() },
            "--target 192.0.2.1:81: it stands for 192.0.2.1, which this agent may not send to: it \
             allows 10.1.0.0/16, 127.0.0.1:",
        ),
        (
            Plan { target: "http://127.0.0.1:81/".to_owned(), ..good.clone() },
            "--target 127.0.0.1:81: it stands for 127.0.0.1, which this agent may not send to: it",
        ),
        (
            // The first host is allowed, the second isn't.
            Plan { scenario: two_hosts(&good.target, "http://192.0.2.1:81/"), ..good.clone() },
            "--target 192.0.2.1:81: it stands for 192.0.2.1, which this agent may not send to: it",
        ),
        (
            Plan { rate: Some("301".parse().expect("a rate")), ..good.clone() },
            "--rate 301: this agent's part of it is 301 per second, above its --max-rate 300",
        ),
        (
            Plan { conns: Some(21), ..good.clone() },
            "--conns 21: this agent's part of them is 21, above its --max-conns 20",
        ),
        (
            Plan { duration: Nanos::from_secs(91), ..good.clone() },
            "--duration 1m31s: with setup and warm-up the load may take 1m31s, above this agent's",
        ),
        (
            Plan { cores: Some("0".parse().expect("a core")), ..good.clone() },
            "--cores 0: it is the agent's own",
        ),
        (
            Plan { source_addresses: vec!["127.0.0.9".parse().expect("one")], ..good.clone() },
            "--source-addresses 127.0.0.9: it is the agent's own",
        ),
        (
            Plan { raw: Some("/tmp/raw".into()), ..good.clone() },
            "--raw /tmp/raw: it is the agent's",
        ),
        (
            Plan { body: Some("@/etc/passwd".to_owned()), ..good.clone() },
            "--body @/etc/passwd: this file didn't come with the plan, and no other is read",
        ),
        (
            Plan { target: "http://no-such-host.invalid/".to_owned(), ..good.clone() },
            "--target http://no-such-host.invalid/: host no-such-host.invalid has no address",
        ),
        (Plan { rate: None, ..good.clone() }, "--model closed: nothing bounds its rate"),
        (Plan { duration: Nanos(0), ..good.clone() }, "--duration 0s: an empty window"),
    ] {
        let refusal = refused(&agent, &plan);
        assert!(refusal.starts_with(words), "{refusal}");
        serves(&agent, &good);
    }
    let share = Share::units(19..20, 20);
    let refusal = refused_share(&agent, &good, share);
    assert!(refusal.starts_with("--conns 16: "), "{refusal}");
    target.stop().expect("a ledger");
    let refusal = refused(&agent, &good);
    assert!(
        refusal.starts_with(&format!("--target http://{shown}/: {shown} accepts no")),
        "{refusal}"
    );
}

#[test]
fn whatever_a_controller_claims_the_arrivals_of_this_agent_are_counted() {
    let target = target();
    let agent = Agent::start_with(|config| config.admission.rate_max = "300".parse().ok());
    let good = plan(&target, MINUTE);
    let constant = Plan { rate: "600".parse().ok(), ..good.clone() };
    let stages = |text: &str| text.split(',').map(|it| it.parse().expect("a stage")).collect();
    let steps = vec![Step::default(), Step::default(), Step::default()];
    let scenario =
        vec![Scenario { step: steps, ..two_hosts(&good.target, &good.target).remove(0) }];
    let closed = Plan { rate: None, ..good.clone() };
    let half = Share::units(1..2, 2);
    // It is dealt a million requests in a row, and then none of as many.
    let in_a_row = Share::units(0..1_000_000, 2_000_000);
    for (plan, share, words) in [
        (constant.clone(), in_a_row, "--rate 600: this agent's part of it is 600 per second"),
        (
            Plan { stage: stages("100:59s,601:1s"), ..closed.clone() },
            half.clone(),
            "--stages 100:59s,601:1s: this agent's part of the highest rate is 301 per second",
        ),
        (
            Plan { scenario: scenario.clone(), ..good.clone() },
            Share::whole(),
            "--rate 200: this agent's part of it is 600 per second",
        ),
        (
            Plan { scenario, period: Some(Nanos(100_000_000)), ..closed.clone() },
            Share::whole(),
            "--period 100ms: this agent's 16 users send 480 per second",
        ),
        (closed, half.clone(), "--model closed: nothing bounds its rate"),
    ] {
        let refusal = refused_share(&agent, &plan, share);
        assert!(refusal.starts_with(words), "{refusal}");
    }
    let mut controller = Controller::connect(&agent, "ann@desk");
    let (samples, attachments, plan) = (false, Vec::new(), Box::new(constant));
    let (share, origin) = (half, Origin::default());
    controller.say(&Message::Prepare(Prepare { share, samples, attachments, origin, plan }));
    controller.hear_ready();
    assert_eq!(target.stop().expect("a ledger").received, 0);
}

#[test]
fn a_second_controller_learns_the_holder_and_changes_nothing() {
    let (agent, target) = (Agent::start(), target());
    let plan = plan(&target, Nanos::from_secs(2));
    let mut first = Controller::connect(&agent, "ann@desk, process 4711");
    first.begin(&plan, false);
    for message in [
        Message::Prepare(Prepare {
            share: Share::whole(),
            samples: false,
            attachments: Vec::new(),
            origin: Origin::default(),
            plan: Box::new(plan.clone()),
        }),
        Message::Start(Start { at_ns: clock::now_ns() + SECOND_NS }),
        Message::Collect,
    ] {
        let mut second = Controller::connect(&agent, "ben@lap");
        second.say(&Message::Heartbeat);
        second.say(&Message::Stop);
        second.say(&message);
        let refusal = second.hear_refusal();
        match message {
            Message::Prepare(_) => {
                let words = "ann@desk, process 4711 has held the agent for ";
                assert!(refusal.to_string().starts_with(words), "{refusal}");
            }
            _ => assert!(matches!(refusal, Refusal::OutOfTurn(_)), "{refusal}"),
        }
    }
    assert_eq!(first.follow(u64::MAX).answered, 400);
    let (results, ..) = first.collect(false);
    assert!(!results.head.interrupted);
    first.leave();
}

#[test]
fn a_start_that_has_passed_or_is_far_ahead_is_refused() {
    let (agent, target) = (Agent::start(), target());
    let plan = plan(&target, MINUTE);
    for (offset_ns, words) in [
        (-1_000_000_000, "the start was 1"),
        (5_000_000, "too late by "),
        (100_000_000_000, "the start is 99."),
    ] {
        let mut controller = Controller::connect(&agent, "ann@desk");
        controller.prepare(&plan, false);
        controller.hear_ready();
        let at_ns = clock::now_ns().checked_add_signed(offset_ns).expect("a moment");
        controller.say(&Message::Start(Start { at_ns }));
        let refusal = controller.hear_refusal().to_string();
        // 5 ms may have passed already.
        let may_have_passed = offset_ns == 5_000_000 && refusal.starts_with("the start was ");
        assert!(refusal.starts_with(words) || may_have_passed, "{offset_ns}: {refusal}");
        serves(&agent, &plan);
    }
    assert_eq!(target.stop().expect("a ledger").received, 0);
}

/// The state of a session when a message out of turn is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Greeting,
    Idle,
    Ready,
    Running,
    Reported,
}

#[test]
fn a_message_out_of_turn_ends_the_session_and_its_run() {
    let (agent, target) = (Agent::start(), target());
    let short = plan(&target, Nanos(200_000_000));
    let prepare = || {
        Message::Prepare(Prepare {
            share: Share::whole(),
            samples: false,
            attachments: Vec::new(),
            origin: Origin::default(),
            plan: Box::new(short.clone()),
        })
    };
    let start = || Message::Start(Start { at_ns: clock::now_ns() + SECOND_NS });
    let collect = || Message::Collect;
    let hello = || Message::Hello(hello("ann@desk"));
    let part = || Message::Part(Part { number: 0, offset: 0, bytes: vec![1].into() });
    for (at, message) in [
        (At::Greeting, prepare()),
        (At::Greeting, Message::Heartbeat),
        (At::Greeting, Message::Stop),
        (At::Idle, hello()),
        (At::Idle, start()),
        (At::Idle, collect()),
        (At::Idle, part()),
        (At::Ready, part()),
        (At::Ready, hello()),
        (At::Ready, prepare()),
        (At::Ready, collect()),
        (At::Running, prepare()),
        (At::Running, start()),
        (At::Reported, start()),
        (At::Reported, collect()),
    ] {
        let mut controller = match at {
            At::Greeting => Controller::authenticate(&agent, None).expect("a session"),
            _ => Controller::connect(&agent, "ann@desk"),
        };
        if matches!(at, At::Ready | At::Running | At::Reported) {
            controller.prepare(&short, false);
            controller.hear_ready();
        }
        if matches!(at, At::Running | At::Reported) {
            controller.start(600_000_000);
        }
        if at == At::Reported {
            controller.follow(u64::MAX);
            controller.collect(false);
        }
        controller.say(&message);
        let refusal = controller.hear_refusal();
        assert!(matches!(refusal, Refusal::OutOfTurn(_)), "{at:?}, {message:?}: {refusal}");
        serves(&agent, &short);
    }
}

#[test]
fn a_controller_of_another_version_is_served_unless_the_two_would_misread_each_other() {
    type Change = fn(&mut Versions);
    let (agent, target) = (Agent::start(), target());
    let other = |change: Change| {
        let controller = Controller::authenticate(&agent, None).expect("a session");
        let mut hello = hello("ann@desk");
        hello.versions.truetail = "9.9.9".to_owned();
        change(&mut hello.versions);
        controller.say(&Message::Hello(hello));
        controller
    };
    let Versions { truetail, protocol, schedule, report } = Versions::here();
    let changes: [(Change, String); 3] = [
        (|there| there.protocol += 1, format!("protocol {protocol} here, {} there", protocol + 1)),
        (|there| there.schedule += 1, format!("schedule {schedule} here, {} there", schedule + 1)),
        (|there| there.report -= 1, format!("report {report} here, {} there", report - 1)),
    ];
    for (change, differs) in changes {
        let refusal = other(change).hear_refusal().to_string();
        let more = format!("(truetail {truetail} here, 9.9.9 there); update the older side");
        assert_eq!(refusal, format!("versions differ: {differs} {more}"));
        agent.said_refused("ann@desk", &refusal);
    }
    let mut controller = other(|_| {});
    assert!(matches!(controller.hear(), Message::Hello(_)));
    controller.begin(&plan(&target, Nanos(200_000_000)), false);
    assert_eq!(controller.follow(u64::MAX).answered, 40);
    controller.collect(false);
    controller.leave();
}

#[test]
fn a_plan_with_a_field_that_this_build_does_not_know_is_refused_and_the_agent_serves_on() {
    let (agent, target) = (Agent::start(), target());
    let plan = plan(&target, MINUTE);
    let (share, attachments, origin) = (Share::whole(), Vec::new(), Origin::default());
    let (samples, sent) = (false, Box::new(plan.clone()));
    let prepare = Prepare { share, samples, attachments, origin, plan: sent };
    let mut pair = Pair::open(None);
    let frame = pair.sent(Side::Controller, &Message::Prepare(prepare));
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.send(&with_field(&frame));
    let refusal = controller.hear_refusal().to_string();
    assert_eq!(
        refusal,
        "protocol: malformed prepare: unknown field `of_next_year`; the sides are different builds \
         of truetail, update the older one"
    );
    let line = agent.said("refused ann@desk at 127.0.0.1:");
    assert!(refusal.ends_with(line.split_once(": ").expect("a reason").1), "{line}");
    serves(&agent, &plan);
    // A controller does the same with a report.
    let report = Message::Report(Results { head: Box::new(head()), shards: 1, samples_bytes: 0 });
    let report = with_field(&pair.sent(Side::Agent, &report));
    let error = received(&mut pair.controller, &report).expect_err("another build's");
    let words = "malformed report: unknown field `of_next_year`; the sides are different builds";
    assert!(error.to_string().starts_with(words), "{error}");
}

/// A frame whose document has one more field.
fn with_field(frame: &[u8]) -> Vec<u8> {
    const FIELD: &[u8] = br#""of_next_year":1,"#;
    let more = u16::try_from(FIELD.len()).expect("short");
    let begins = |bytes: &[u8]| bytes == b"{\"target\"" || bytes == b"{\"plan\":{";
    let at = frame.windows(9).position(begins).expect("a document");
    let mut frame = frame.to_vec();
    // The document's length, after the number that announces 16 bits; and the payload's.
    assert_eq!(frame[at - 3], 251);
    let length = u16::from_le_bytes([frame[at - 2], frame[at - 1]]) + more;
    frame[at - 2..at].copy_from_slice(&length.to_le_bytes());
    let length = u32::from_le_bytes(frame[7..11].try_into().expect("4 bytes")) + u32::from(more);
    frame[7..11].copy_from_slice(&length.to_le_bytes());
    frame.splice(at + 1..at + 1, FIELD.iter().copied());
    frame
}

#[test]
fn keys_that_differ_are_refused_and_reported_to_the_operator() {
    let target = target();
    let agent = Agent::start_with(|config| config.key = key());
    let error = Controller::authenticate(&agent, None).err();
    assert_eq!(error, Some(ChannelError::Refused(Refusal::KeyNeeded)));
    let line = agent.said("refused a connection from 127.0.0.1:");
    let why = "--key-file: the peer has no key and this side has one";
    assert!(line.contains(why), "{line}");
    let mut controller = Controller::authenticate(&agent, key()).expect("a session");
    controller.say(&Message::Hello(hello("ann@desk")));
    controller.hear();
    controller.prepare(&plan(&target, MINUTE), false);
    controller.hear_ready();
    controller.leave();
}

#[test]
fn the_operator_learns_of_each_refusal_though_they_read_nothing_for_a_while() {
    /// More than an agent keeps for its operator.
    const REFUSALS: usize = 1_100;
    const KEPT: usize = 1_024;
    let agent = Agent::start();
    let (refused, held) = (AtomicUsize::new(0), Barrier::new(2));
    let operator = agent.operator.clone();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _reads_nothing = operator.lock().expect("no test panics with it");
            held.wait();
            wait_until("its places are taken", || KEPT <= refused.load(Ordering::Relaxed));
            thread::sleep(Duration::from_millis(200));
            assert!(refused.load(Ordering::Relaxed) < REFUSALS, "a session waits for the operator");
        });
        held.wait();
        for _ in 0..REFUSALS {
            let mut controller = Controller::authenticate(&agent, None).expect("a session");
            controller.say(&Message::Heartbeat);
            controller.hear_refusal();
            refused.fetch_add(1, Ordering::Relaxed);
        }
    });
    (0..REFUSALS).for_each(|_| drop(agent.said("heartbeat is out of turn")));
}

#[test]
fn a_silent_session_loses_its_place() {
    let agent = Agent::start();
    let mut controller = Controller::connect(&agent, "ann\u{1b}[2J@desk");
    let refusal = controller.hear_refusal().to_string();
    assert_eq!(refusal, "nothing was heard for 10s; connect again");
    // No controls for the terminal.
    agent.said_refused("ann[2J@desk", &refusal);
}
