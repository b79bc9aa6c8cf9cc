//! Several requests in flight on one connection: in order, each with its own outcome.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Arrivals, Plan};
use engine::record::counts::Counts;
use engine::record::outcome::{Cause, Outcome};
use engine::samples::SampleReader;
use engine::sys::units::Nanos;
use engine::verify::{report_alone, with_samples};

use crate::support::{OK, always_ok, codes, open, plan, run, serve};

/// A closed plan with one connection.
fn one_connection(address: std::net::SocketAddr, pipeline: usize) -> Plan {
    Plan { conns: Some(1), pipeline, ..plan(address) }
}

/// Answers the requests before number `first`, which it answers by closing the connection.
fn serve_until(first: u64) -> std::net::SocketAddr {
    serve(move |number, stream| number != first && stream.write_all(OK).is_ok())
}

fn failed_behind(counts: &Counts) -> u64 {
    counts.errors.of(Cause::BehindFailed)
}

#[test]
fn responses_belong_to_requests_in_the_order_sent() {
    const STATUSES: u64 = 290;
    let address = serve(|number, stream| {
        let status = 200 + number % STATUSES;
        // Otherwise an answer waits for the acknowledgement of the previous one.
        stream.set_nodelay(true).expect("a socket");
        write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").is_ok()
    });
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("run.samples");
    let plan = Plan {
        pipeline: 16,
        raw: Some(raw.clone()),
        expect_status: "2xx,3xx,4xx".parse().expect("a set"),
        ..open(Plan { conns: Some(1), ..plan(address) }, "10k")
    };
    let counts = run(plan).report.whole.counts;
    assert_eq!(counts.answered, counts.intended, "{counts:?}");
    // The samples are in the order of the responses.
    let reader = SampleReader::open(&raw).expect("samples");
    let mut last_ns = (0, 0);
    let mut number = 0;
    for sample in reader {
        let sample = sample.expect("a sample");
        assert!(last_ns <= (sample.intended_ns, sample.sent_ns), "request {number}");
        last_ns = (sample.intended_ns, sample.sent_ns);
        let status = u16::try_from(200 + number % STATUSES).expect("small");
        assert_eq!(sample.outcome(), Some(Outcome::Answered(status)), "request {number}");
        number += 1;
    }
    assert_eq!(number, counts.answered);
}

#[test]
fn a_failed_connection_fails_the_requests_behind_with_their_own_cause() {
    let address = serve_until(100);
    let counts = run(one_connection(address, 8)).report.whole.counts;
    let first = [Cause::Reset, Cause::ClosedBeforeResponse].map(|cause| counts.errors.of(cause));
    assert_eq!(first.into_iter().sum::<u64>(), 1, "{counts:?}");
    // Of the eight in flight some may have been answered with the last answer.
    assert_eq!(failed_behind(&counts), counts.failed - 1, "{counts:?}");
    assert!((2..=8).contains(&counts.failed), "{counts:?}");
    assert_eq!(counts.connects, 2, "{counts:?}");
}

#[test]
fn an_answer_that_closes_the_connection_counts_and_requests_behind_it_fail() {
    let address = serve(|number, stream| match number {
        50 => {
            let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
            assert!(stream.write_all(last).is_ok());
            false
        }
        _ => always_ok(number, stream),
    });
    let counts = run(one_connection(address, 4)).report.whole.counts;
    assert_eq!(failed_behind(&counts), counts.failed, "{counts:?}");
    assert!((1..=3).contains(&counts.failed), "{counts:?}");
    assert_eq!(counts.connects, 2, "{counts:?}");
}

#[test]
fn requests_lost_with_their_connection_as_they_are_sent_are_verified_as_sent() {
    // Each connection is closed in the middle of what it carries, over and over.
    let address = serve(|number, stream| number % 5 != 4 && stream.write_all(OK).is_ok());
    let folder = tempfile::tempdir().expect("a folder");
    for (what, plan) in [
        ("open", open(Plan { conns: Some(8), ..plan(address) }, "3k")),
        ("closed", Plan { conns: Some(8), ..plan(address) }),
    ] {
        let raw = folder.path().join(what);
        let report = run(Plan { pipeline: 8, raw: Some(raw.clone()), ..plan }).report;
        assert!(0 < failed_behind(&report.whole.counts), "{what}: {:?}", report.whole.counts);
        let findings = with_samples(&report, &[&raw]);
        let wrong: Vec<_> = findings.iter().filter(|finding| !finding.ok).collect();
        assert!(wrong.is_empty(), "{what}: {wrong:?}");
    }
}

#[test]
fn users_who_are_answered_between_failures_are_not_blocked() {
    let address = serve(|number, stream| {
        // Most of what a connection carries at once is answered.
        std::thread::sleep(Duration::from_millis(5));
        number % 10 != 9 && stream.write_all(OK).is_ok()
    });
    let counts = run(Plan { conns: Some(4), pipeline: 8, ..plan(address) }).report.whole.counts;
    assert!(2 * counts.failed < 3 * counts.answered && 10 < counts.failed, "{counts:?}");
    assert_eq!(counts.users_blocked, 0, "{counts:?}");
}

#[test]
fn a_request_that_times_out_ends_those_behind_it() {
    let address = serve(|number, stream| {
        if number == 20 {
            std::thread::sleep(Duration::from_millis(400));
        }
        always_ok(number, stream)
    });
    let plan = Plan { timeout: Nanos(100_000_000), ..one_connection(address, 4) };
    let report = run(plan).report;
    let counts = &report.whole.counts;
    assert_eq!(counts.errors.of(Cause::TimedOut), 1, "{counts:?}");
    assert!((1..=3).contains(&failed_behind(counts)), "{counts:?}");
    // A failure has no latency.
    assert_eq!(report.whole.naive.count, counts.answered + 1, "{counts:?}");
}

#[test]
fn an_open_load_has_no_more_in_flight_than_connections_and_pipeline_allow() {
    let slow = |number, stream: &mut TcpStream| {
        std::thread::sleep(Duration::from_millis(2));
        always_ok(number, stream)
    };
    let plan = Plan { pipeline: 3, ..open(Plan { conns: Some(2), ..plan(serve(slow)) }, "2k") };
    let report = run(plan).report;
    let (counts, law) = (&report.whole.counts, &report.littles_law);
    // The target serves half of that: the pipelines are full, and the rest waits.
    assert!(5.0 < law.in_flight_mean && law.in_flight_mean <= 6.0, "{law:?}");
    assert!(law.residual < 1e-9, "{law:?}");
    assert!(0 < counts.capped && counts.connects == 2, "{counts:?}");
}

#[test]
fn requests_that_share_a_send_or_a_receive_are_counted() {
    let alone = run(one_connection(serve(always_ok), 1)).report.whole.counts;
    assert_eq!((alone.shared_sends, alone.shared_receives), (0, 0), "{alone:?}");
    // Four answers leave in one write.
    let address =
        serve(|number, stream| number % 4 != 3 || stream.write_all(&OK.repeat(4)).is_ok());
    let counts = run(one_connection(address, 4)).report.whole.counts;
    assert!(100 < counts.answered && counts.answered == counts.sent, "{counts:?}");
    assert_eq!(counts.shared_sends, counts.sent, "{counts:?}");
    assert_eq!(counts.shared_receives, counts.answered, "{counts:?}");
}

/// The counts and reason codes of a run whose target leaves out every 500th answer.
fn with_answers_left_out(plan: impl Fn(std::net::SocketAddr) -> Plan) -> (Counts, Vec<String>) {
    let address = serve(|number, stream| {
        stream.set_nodelay(true).expect("a socket");
        number % 500 == 499 || always_ok(number, stream)
    });
    let report = run(plan(address)).report;
    let codes = codes(&report);
    (report.whole.counts, codes)
}

#[test]
fn answers_behind_one_that_the_target_left_out_are_in_doubt() {
    let short = |plan| Plan { timeout: Nanos(300_000_000), ..plan };
    let loads: [(&str, &dyn Fn(std::net::SocketAddr) -> Plan); 3] = [
        ("open", &|address| open(short(one_connection(address, 8)), "4k")),
        ("warm", &|address| {
            let warmup = Nanos(300_000_000);
            Plan { warmup, ..open(short(one_connection(address, 8)), "4k") }
        }),
        ("closed", &|address| short(one_connection(address, 4))),
    ];
    for (what, plan) in loads {
        let (counts, codes) = with_answers_left_out(plan);
        assert!(counts.answered < 4 * counts.doubtful, "{what}: {counts:?}");
        assert!(counts.doubtful <= counts.answered, "{what}: {counts:?}");
        assert!(codes.contains(&"mispaired".to_owned()), "{what}: {codes:?}");
    }
    // With one request in flight, a missing answer is a timeout, and can't be another request's.
    let (counts, codes) =
        with_answers_left_out(|address| open(short(one_connection(address, 1)), "2k"));
    assert!(0 < counts.timed_out && counts.doubtful == 0, "{counts:?}");
    assert!(!codes.contains(&"mispaired".to_owned()), "{codes:?}");
}

#[test]
fn a_healthy_pipelined_run_leaves_no_answer_in_doubt() {
    let quick = || {
        serve(|number, stream| {
            stream.set_nodelay(true).expect("a socket");
            always_ok(number, stream)
        })
    };
    for plan in [open(one_connection(quick(), 8), "4k"), one_connection(quick(), 8)] {
        let counts = run(plan).report.whole.counts;
        assert!(500 < counts.answered && counts.doubtful == 0, "{counts:?}");
    }
}

#[test]
fn a_timeout_with_one_request_in_flight_leaves_none_in_doubt() {
    // Ten requests a second, each alone; the third is never answered.
    let address = serve(|number, stream| number == 2 || always_ok(number, stream));
    let timeout = Nanos(90_000_000);
    let plan = Plan { timeout, arrivals: Arrivals::Constant, ..one_connection(address, 8) };
    let counts = run(open(plan, "10")).report.whole.counts;
    assert_eq!((counts.timed_out, counts.doubtful), (1, 0), "{counts:?}");
}

#[test]
fn a_paced_user_sends_on_time_while_its_pipeline_has_room() {
    // Each answer takes two periods. Only a user who waits for it falls behind.
    let serve_late = || {
        serve(|number, stream: &mut TcpStream| {
            let mut stream = stream.try_clone().expect("a socket");
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(40));
                always_ok(number, &mut stream)
            });
            true
        })
    };
    let period = Some(Nanos(20_000_000));
    let counts = |pipeline| {
        let plan = Plan { period, ..one_connection(serve_late(), pipeline) };
        run(plan).report.whole.counts
    };
    let (waiting, pipelined) = (counts(1), counts(8));
    assert!(10 < waiting.waited, "{waiting:?}");
    assert_eq!((pipelined.waited, pipelined.answered), (0, pipelined.intended), "{pipelined:?}");
}

/// Answers complete requests with a body of `length` bytes, one every 3 ms, and hangs up if one
/// doesn't start where the last ended.
fn serve_bodies(length: usize) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            let mut whole = || -> std::io::Result<()> {
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if stream.read_line(&mut head)? == 0 || !head.starts_with("POST / ") {
                        return Err(std::io::ErrorKind::InvalidData.into());
                    }
                }
                stream.read_exact(&mut vec![0; length])?;
                std::thread::sleep(Duration::from_millis(3));
                stream.get_mut().write_all(OK)
            };
            while whole().is_ok() {}
        }
    });
    address
}

#[test]
fn large_requests_never_mix_their_bytes() {
    // Eight of them are more than both sockets' buffers hold.
    let body = "x".repeat(1_500_000);
    let address = serve_bodies(body.len());
    let plan = Plan { method: "POST".to_owned(), body: Some(body), ..one_connection(address, 8) };
    let counts = run(plan).report.whole.counts;
    assert!(8 < counts.answered && counts.answered == counts.sent, "{counts:?}");
    assert_eq!((counts.incomplete_uploads, counts.connects), (0, 1), "{counts:?}");
}

#[test]
fn an_impossible_pipeline_is_refused() {
    let plan = plan("127.0.0.1:1".parse().expect("an address"));
    let refused = |plan: Plan| plan.complete(&[0]).expect_err("refused").to_string();
    for pipeline in [0, 65] {
        assert!(refused(Plan { pipeline, ..plan.clone() }).starts_with("--pipeline"));
    }
    let plan = Plan { pipeline: 4, ..plan };
    let few = refused(Plan { requests_per_connection: Some(3), ..plan.clone() });
    assert!(few.contains("no more than 3 requests"), "{few}");
    let once = refused(Plan { keepalive: engine::plan::Switch::Off, ..plan });
    assert!(once.contains("--keepalive"), "{once}");
}

#[test]
fn requests_that_only_together_exceed_a_silent_send_leave_alone_or_together() {
    // Four of them are above 16 KiB. Answers to several requests come together and let as many
    // waiting ones leave at once.
    const BODY: usize = 5_000;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().take(8).flatten() {
            std::thread::spawn(move || {
                let socket = stream.try_clone().expect("a socket");
                let mut reader = BufReader::with_capacity(8 * BODY, socket);
                let mut line = String::new();
                let mut unanswered = 0;
                while reader.read_line(&mut line).is_ok_and(|length| 0 < length) {
                    if line == "\r\n" {
                        let mut body = [0; BODY];
                        reader.read_exact(&mut body).expect("a body");
                        assert!(body.iter().all(|byte| *byte == b'x'), "the body of this request");
                        unanswered += 1;
                        if reader.buffer().is_empty() {
                            std::thread::sleep(Duration::from_millis(3));
                            stream.write_all(&OK.repeat(unanswered)).expect("it takes the answers");
                            unanswered = 0;
                        }
                    }
                    line.clear();
                }
            });
        }
    });
    let body = Some("x".repeat(BODY));
    let plan =
        Plan { method: "POST".to_owned(), body, conns: Some(2), pipeline: 4, ..plan(address) };
    let counts = run(open(plan, "3k")).report.whole.counts;
    // A busy machine may leave some unsent, but none broken.
    assert_eq!((counts.failed, counts.timed_out), (0, 0), "{counts:?}");
    assert!(100 < counts.answered && 0 < counts.shared_sends, "{counts:?}");
}

#[test]
fn pipelined_requests_of_several_scenarios_are_verified() {
    let address = serve(always_ok);
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = |path: &str| Scenario {
        name: String::new(),
        weight: 1,
        step: vec![Step { url: Some(path.to_owned()), ..Step::default() }],
        ..Scenario::default()
    };
    let routes = Plan { scenario: ["/a", "/b?c"].map(scenario).into(), ..plan(address) };
    for (what, plan) in [
        ("open", open(Plan { conns: Some(4), ..routes.clone() }, "3k")),
        ("closed", Plan { conns: Some(4), ..routes }),
    ] {
        let raw = folder.path().join(what);
        let report = run(Plan { pipeline: 8, raw: Some(raw.clone()), ..plan }).report;
        assert_eq!(report.whole.parts.len(), 2);
        let findings = with_samples(&report, &[&raw]);
        let wrong: Vec<_> =
            findings.iter().chain(&report_alone(&report)).filter(|it| !it.ok).cloned().collect();
        assert!(wrong.is_empty(), "{what}: {wrong:?}");
    }
}
