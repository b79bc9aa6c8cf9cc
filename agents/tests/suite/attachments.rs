//! Files of a plan: they come from the controller, once, and otherwise than announced they are
//! refused. What isn't sent isn't read: see `refusals`.

use std::thread;
use std::time::{Duration, Instant};

use agents::message::{ATTACHMENT_MAX, Attachment, Message, PART_BYTES, Part, Wanted};
use agents::refusal::Refusal;
use engine::plan::Plan;
use engine::plan::body::Body;
use engine::plan::redact::Redacted;
use engine::sys::units::Nanos;

use crate::support::{Agent, Controller, PATIENCE, plan, target};

const MINUTE: Nanos = Nanos::from_secs(60);

/// A file of two parts.
fn file() -> Vec<u8> {
    (0..PART_BYTES + 1_000).map(|at| at.to_le_bytes()[0]).collect()
}

/// How a controller announces these bytes.
fn announced(name: &str, bytes: &[u8]) -> Attachment {
    let sha256 = *Body::of_bytes(bytes.to_vec()).sha256();
    Attachment { name: name.to_owned(), length: bytes.len() as u64, sha256 }
}

fn part(number: u32, offset: usize, bytes: &[u8]) -> Message {
    Message::Part(Part { number, offset: offset as u64, bytes: bytes.to_vec().into() })
}

/// A controller that has asked for a plan whose body is this file, and the answer, once the agent
/// doesn't hold a run of before.
fn asking(agent: &Agent, plan: &Plan, attachment: &Attachment) -> (Controller, Message) {
    let plan = Plan { body: Some(format!("@{}", attachment.name)), ..plan.clone() };
    let began = Instant::now();
    loop {
        let mut controller = Controller::connect(agent, "ann@desk");
        controller.prepare_with(&plan, false, vec![attachment.clone()]);
        let answer = controller.hear();
        let Message::Refused(refusal @ Refusal::Held(_)) = &answer else {
            return (controller, answer);
        };
        agent.said_refused("ann@desk", &refusal.to_string());
        assert!(began.elapsed() < PATIENCE, "the run of before never ends");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The file and the offset from which an agent wants it.
fn wanted(answer: Message) -> (u32, u64) {
    match answer {
        Message::Wanted(Wanted { number, offset }) => (number, offset),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_sent_to_an_agent_once_and_is_what_its_requests_carry() {
    let (agent, target) = (Agent::start(), target());
    let bytes = file();
    let short = plan(&target, Nanos(200_000_000));
    for run in 0..3 {
        // Another name for the same bytes is the same file.
        let name = if run < 2 { "f" } else { "g" };
        let (mut controller, mut answer) = asking(&agent, &short, &announced(name, &bytes));
        if run == 0 {
            assert_eq!(wanted(answer), (0, 0));
            controller.say(&part(0, 0, &bytes[..PART_BYTES]));
            assert_eq!(wanted(controller.hear()), (0, PART_BYTES as u64));
            controller.say(&part(0, PART_BYTES, &bytes[PART_BYTES..]));
            answer = controller.hear();
        }
        assert!(matches!(answer, Message::Ready(_)), "{answer:?}");
        controller.start(crate::support::AHEAD_NS);
        controller.follow(u64::MAX);
        let (results, ..) = controller.collect(false);
        let plan = results.head.plan.plan();
        let body = Body::of_bytes(bytes.clone());
        let sent = Plan { body: Some(format!("@{name}")), ..plan.clone() };
        assert_eq!(Redacted::new(&sent, &body).plan().body, plan.body, "the digest of its bytes");
        controller.leave();
        agent.said("40 answered, report collected");
    }
    assert_eq!(target.stop().expect("a ledger").answered, 3 * 40);
}

#[test]
fn a_file_that_comes_otherwise_than_announced_is_refused() {
    let (agent, target) = (Agent::start(), target());
    let plan = plan(&target, MINUTE);
    let bytes = file();
    let first = &bytes[..PART_BYTES];
    for (parts, words) in [
        (vec![part(0, PART_BYTES, first)], "of file 0, bytes from 196608 came, and those of"),
        (vec![part(1, 0, first)], "of file 1, bytes from 0 came, and those of \"f\" from 0 were"),
        (vec![part(0, 0, &first[1..])], "196607 bytes of the file \"f\" came, and 196608 were"),
        (
            vec![part(0, 0, first), part(0, PART_BYTES, first)],
            "196608 bytes of the file \"f\" came, and 1000 were due: it has 197608 in all",
        ),
        (
            vec![part(0, 0, first), part(0, PART_BYTES, &[0; 1_000])],
            "the file \"f\" doesn't have the announced SHA-256",
        ),
    ] {
        let (mut controller, mut answer) = asking(&agent, &plan, &announced("f", &bytes));
        for (at, part) in parts.iter().enumerate() {
            if 0 < at {
                answer = controller.hear();
            }
            wanted(answer.clone());
            controller.say(part);
        }
        let refusal = controller.hear_refusal();
        assert!(matches!(refusal, Refusal::Attachment(_)), "{refusal:?}");
        assert!(refusal.to_string().starts_with(words), "{refusal}");
        agent.said_refused("ann@desk", &refusal.to_string());
    }
    // None of it was kept, and the agent serves on.
    let (controller, answer) = asking(&agent, &plan, &announced("f", &bytes));
    assert_eq!(wanted(answer), (0, 0));
    controller.say(&Message::Stop);
    controller.leave();
    assert_eq!(target.stop().expect("a ledger").received, 0);
}

#[test]
fn files_above_the_operators_limit_are_refused_before_they_are_sent() {
    let target = target();
    let agent = Agent::start_with(|config| config.admission.files_max = Some(2 << 20));
    let plan = plan(&target, MINUTE);
    for (length, words) in [
        (ATTACHMENT_MAX + 1, "the file \"f\" has 67108865 bytes, and an agent takes 67108864"),
        (
            (2 << 20) + 1,
            "the plan's files have 2097153 bytes, above this agent's --max-files 2 MiB",
        ),
    ] {
        let attachment = Attachment { length, ..announced("f", b"") };
        let (_, answer) = asking(&agent, &plan, &attachment);
        let Message::Refused(refusal @ Refusal::Attachment(_)) = answer else {
            panic!("{answer:?}");
        };
        assert!(refusal.to_string().starts_with(words), "{refusal}");
    }
}

#[test]
fn a_file_that_stops_coming_frees_the_agent() {
    let (agent, target) = (Agent::start(), target());
    let (mut controller, answer) = asking(&agent, &plan(&target, MINUTE), &announced("f", &file()));
    wanted(answer);
    // Its heartbeats go on.
    let refusal = controller.hear_refusal().to_string();
    assert_eq!(
        refusal,
        "nothing of the file \"f\" came for 10s, after 0 of 197608 bytes; check the network \
         between the two machines"
    );
    agent.said("run called off for ann@desk");
}
