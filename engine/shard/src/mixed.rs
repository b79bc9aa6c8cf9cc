//! Tests of a shard whose requests have several steps.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ::plan::Arrivals;
use ::plan::status::StatusSet;
use load::curve::Curve;
use load::mix::Mix;
use record::config::RecorderConfig;
use record::outcome::Outcome;
use record::stamps::{Ending, Stamps};
use uring::Payload;

use super::*;

/// Each step's request, copies, weight and response status. The HEAD's response has a length and no
/// body.
const STEPS: [(&str, usize, u32, u16); 4] = [
    ("GET /a", 0, 5, 200),
    ("HEAD /b", 0, 3, 404),
    ("POST /c", 3, 1, 201),
    ("PUT /d", 40_000, 1, 202),
];

/// Requests by step, as seen by the target over all its connections.
type Seen = Arc<Mutex<[u64; 4]>>;

/// A target that answers each step's requests with that step's status, as soon as each is complete.
fn target() -> (TcpListener, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let seen = Seen::default();
    let (accepting, counted) = (listener.try_clone().expect("a listener"), Arc::clone(&seen));
    thread::spawn(move || {
        for peer in accepting.incoming().take(64).flatten() {
            let seen = Arc::clone(&counted);
            thread::spawn(move || answer(peer, &seen));
        }
    });
    (listener, seen)
}

fn answer(mut peer: TcpStream, seen: &Mutex<[u64; 4]>) {
    peer.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 65_536];
    while let Ok(count @ 1..) = peer.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..count]);
        let mut answers = Vec::new();
        while let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let step = STEPS.iter().position(|(line, ..)| bytes.starts_with(line.as_bytes()));
            let step = step.expect("one of the requests");
            let (_, body, _, status) = STEPS[step];
            if bytes.len() < head + 4 + body {
                break;
            }
            assert!(bytes[head + 4..head + 4 + body].iter().all(|byte| *byte == b'x'), "its body");
            bytes.drain(..head + 4 + body);
            seen.lock().expect("counts")[step] += 1;
            let body = if step == 1 { "" } else { "ok" };
            write!(answers, "HTTP/1.1 {status} S\r\nContent-Length: 2\r\n\r\n{body}")
                .expect("memory");
        }
        if peer.write_all(&answers).is_err() {
            return;
        }
    }
}

fn steps(pipeline: usize) -> Vec<Step> {
    let step = |(line, body, ..): &(&str, usize, u32, u16)| {
        let head = format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {body}\r\n\r\n");
        let copies = if pipeline * (head.len() + body) <= SEND_SILENT_MAX { pipeline } else { 1 };
        let request = Payload::copied(head.as_bytes(), &vec![b'x'; *body], copies).expect("pages");
        let head_request = line.starts_with("HEAD");
        let timeout_ns = u64::MAX / 2;
        Step { head_request, timeout_ns, ..Step::for_test(request) }
    };
    STEPS.iter().map(step).collect()
}

/// Runs an open load of 2,000 requests, and compares the counts of the shard and the target.
fn run(pipeline: usize, drive: Drive) {
    let (listener, seen) = target();
    let end_ns = 1_000_000_000;
    let mix = Mix::new(7, &STEPS.map(|(_, _, weight, _)| weight));
    let scheduled = matches!(drive, Drive::Open { .. });
    let plan = ShardPlan {
        drive,
        conns: 8,
        conns_total: 8,
        depth: pipeline,
        steps: steps(pipeline),
        mix: mix.clone(),
        recorder_config: RecorderConfig {
            end_ns,
            scheduled,
            success_of_others: vec![StatusSet::default(); 3],
            ..RecorderConfig::default()
        },
        end_ns,
        stamp_sends: std::num::NonZeroU32::new(7),
        ..ShardPlan::open_for_test(listener.local_addr().expect("bound").into())
    };
    let shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
    let report = shard.run().expect("the run isn't cancelled");
    let counts = &report.recorder.counts;
    assert_eq!((counts.answered, counts.trailing), (counts.intended, 0), "{counts:?}");
    assert!(scheduled || 100 < counts.answered, "{counts:?}");
    let seen = *seen.lock().expect("counts");
    let mut sum = 0;
    for (number, part) in report.recorder.parts.iter().enumerate() {
        let counts = &part.counts;
        assert_eq!((counts.answered, counts.intended), (seen[number], seen[number]), "{number}");
        assert_eq!(counts.status.of(STEPS[number].3), seen[number], "{counts:?}");
        assert_eq!(part.latencies.corrected().count(), counts.answered);
        sum += counts.answered;
    }
    assert_eq!(sum, counts.answered);
    assert_eq!(counts.unexpected_status, counts.status.of(404));
    if scheduled {
        let mut planned = [0; 4];
        (0..counts.intended).for_each(|number| planned[usize::from(mix.step(number))] += 1);
        assert_eq!(seen, planned, "the step follows from the number");
    }
    assert!(0 < counts.sends_stamped, "{counts:?}");
    assert_eq!(
        counts.sends_sampled, counts.sends_stamped,
        "each stamp is of its request's last byte"
    );
}

fn open() -> Drive {
    let curve = Curve::constant("2000".parse().expect("a rate"));
    Drive::Open { curve, arrivals: Arrivals::Poisson, seed: 3 }
}

#[test]
fn each_response_belongs_to_its_requests_step() {
    run(1, open());
    run(1, Drive::Closed);
}

#[test]
fn each_pipelined_response_belongs_to_its_requests_step() {
    run(4, open());
    run(4, Drive::Closed);
}

#[test]
fn a_hundred_steps_take_less_than_100_megabytes() {
    const STEPS: u16 = 100;
    const ALONE: &str = "TEST_MEMORY";
    if std::env::var_os(ALONE).is_none() {
        // Memory that other tests allocate in the meantime mustn't count.
        let name = thread::current().name().expect("a test's name").to_owned();
        let is_small = || {
            let mut process = Command::new(std::env::current_exe().expect("this test"));
            process.args([&name, "--exact", "--nocapture"]).env(ALONE, "1");
            process.status().expect("it runs").success()
        };
        // The kernel may add a few pages of its own.
        assert!((0..3).any(|_| is_small()));
        return;
    }
    let (listener, _) = target();
    let step = |_| steps(1)[0].clone();
    let end_ns = 600_000_000_000;
    let plan = ShardPlan {
        steps: (0..STEPS).map(step).collect(),
        mix: Mix::new(1, &[1; STEPS as usize]),
        recorder_config: RecorderConfig {
            end_ns,
            success_of_others: vec![StatusSet::default(); usize::from(STEPS) - 1],
            ..RecorderConfig::default()
        },
        end_ns,
        ..ShardPlan::open_for_test(listener.local_addr().expect("bound").into())
    };
    let resident_bytes = || {
        let status = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
        let pages = status.split(' ').nth(1).expect("resident").parse::<u64>().expect("a number");
        pages * rustix::param::page_size() as u64
    };
    let before = resident_bytes();
    let mut shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
    // Latencies from 1 µs to 10 s on each, so that each touches all the memory that it may.
    let mut answer = |step, latency_ns: u64, late_ns| {
        let stamps = Stamps {
            intended_ns: 0,
            noticed_ns: 0,
            sent_ns: late_ns,
            waited: true,
            step,
            session: None,
        };
        let ending = Ending::at(late_ns + latency_ns);
        let recorder = shard.recording.recorder_mut();
        recorder.intended(0, false);
        recorder.sent(stamps.intended_ns, &stamps, true);
        recorder.ended((0, stamps.intended_ns), &stamps, ending, true, Outcome::Answered(200));
    };
    for step in 0..STEPS {
        let mut latency_ns = 1_000;
        while latency_ns < 10_000_000_000 {
            answer(step, latency_ns, 0);
            answer(step, latency_ns, latency_ns);
            latency_ns += latency_ns / 16;
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    println!("{:.1} MB", grown as f64 / 1e6);
    assert!((1..100_000_000).contains(&grown), "{grown} bytes");
}
