//! What no run may hide: users who were never served, surplus bytes, waits for a connection, and
//! timeouts noticed late.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Plan, Switch};
use engine::record::counts::{CountsBy, WarmupCounts};
use engine::record::outcome::Cause;
use engine::report::verdict::{Code, Reason};
use engine::report::{Rates, Report};
use engine::samples::SampleReader;
use engine::sys::units::Nanos;
use socket2::{Domain, Socket, Type};

use crate::support::{OK, always_ok, codes, open, plan, run, serve};

/// Answers after `delay` on the first `served` connections with requests, and never on any other.
fn serve_the_first(served: u64, delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let asked = Arc::new(AtomicU64::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let asked = asked.clone();
            std::thread::spawn(move || {
                let mut chunk = [0; 4_096];
                let mut is_served = None;
                while let Ok(1..) = stream.read(&mut chunk) {
                    let is_served = *is_served
                        .get_or_insert_with(|| asked.fetch_add(1, Ordering::Relaxed) < served);
                    if is_served {
                        std::thread::sleep(delay);
                        if stream.write_all(OK).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    address
}

#[test]
fn users_who_are_never_answered_are_counted_as_blocked() {
    // Their requests began in the warm-up and belong to no window: nothing else shows them.
    let address = serve_the_first(4, Duration::ZERO);
    let warm = Plan { warmup: Nanos(200_000_000), conns: Some(16), ..plan(address) };
    let report = run(Plan { timeout: Nanos::from_secs(1), ..warm }).report;
    let counts = &report.whole.counts;
    assert_eq!((counts.users, counts.users_blocked), (16, 12), "{counts:?}");
    assert!(1_000 < counts.answered, "{counts:?}");
}

#[test]
fn connections_of_an_open_run_that_are_never_answered_are_blocked() {
    // Four connections carry at most 200/s, so the others are needed too.
    let address = serve_the_first(4, Duration::from_millis(20));
    let plan = Plan { timeout: Nanos::from_secs(1), conns: Some(16), ..plan(address) };
    let counts = run(open(plan, "2k")).report.whole.counts;
    assert_eq!((counts.users, counts.users_blocked), (16, 12), "{counts:?}");
}

#[test]
fn users_who_are_answered_after_the_window_are_blocked_in_it() {
    // Four of 16 users are answered at once, the others 400 ms after the end of the window.
    let address = serve(|number, stream| {
        if (4..16).contains(&number) {
            std::thread::sleep(Duration::from_millis(900));
        }
        always_ok(number, stream)
    });
    let report = run(Plan { conns: Some(16), ..plan(address) }).report;
    let counts = &report.whole.counts;
    assert_eq!((counts.users, counts.users_blocked), (16, 12), "{counts:?}");
    assert!(codes(&report).contains(&"starved".to_owned()), "{:?}", report.verdict);
}

#[test]
fn an_open_run_is_not_starved_by_two_requests_that_got_no_answer() {
    // They hold two of the few connections that this rate needs for most of the window.
    let address = serve(|number, stream| {
        std::thread::sleep(Duration::from_millis(if [5, 50].contains(&number) {
            3_000
        } else {
            3
        }));
        always_ok(number, stream)
    });
    let plan = Plan { duration: Nanos::from_secs(2), conns: Some(50), ..plan(address) };
    let report = run(open(plan, "300")).report;
    let counts = &report.whole.counts;
    assert!(counts.users < 10 * counts.users_blocked, "{counts:?}");
    assert!(!codes(&report).contains(&"starved".to_owned()), "{:?}", report.verdict);
}

#[test]
fn answers_repeated_while_the_next_request_waits_show_at_the_end() {
    // Each answer is repeated, so the target is one answer ahead: the next request is answered by
    // the repetition, and only the last leaves a surplus one.
    let address = serve(|number, stream| {
        std::thread::sleep(Duration::from_millis(10));
        always_ok(number, stream) && {
            std::thread::sleep(Duration::from_millis(10));
            always_ok(number, stream)
        }
    });
    let counts = run(Plan { conns: Some(1), ..plan(address) }).report.whole.counts;
    assert!(0 < counts.unsolicited + counts.trailing, "{counts:?}");
}

#[test]
fn users_who_never_get_a_connection_are_blocked() {
    // The kernel drops what the backlog has no room for.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    socket.bind(&any.into()).expect("a free port");
    socket.listen(0).expect("listens");
    let address = socket.local_addr().expect("bound").as_socket().expect("an IP address");
    let plan = Plan { conns: Some(8), timeout: Nanos(300_000_000), ..plan(address) };
    let report = run(plan).report;
    let counts = &report.whole.counts;
    assert_eq!((counts.users, counts.users_blocked), (8, 8), "{counts:?}");
    assert_eq!(counts.answered, 0);
}

#[test]
fn users_of_a_slow_service_are_not_blocked() {
    let address = serve(|number, stream| {
        std::thread::sleep(Duration::from_millis(100));
        always_ok(number, stream)
    });
    let plan = Plan { warmup: Nanos(50_000_000), conns: Some(8), ..plan(address) };
    let counts = run(plan).report.whole.counts;
    assert_eq!((counts.users, counts.users_blocked), (8, 0), "{counts:?}");
}

#[test]
fn users_who_work_off_the_warm_ups_backlog_are_not_blocked() {
    let address = serve(|number, stream| {
        std::thread::sleep(Duration::from_millis(20));
        always_ok(number, stream)
    });
    // Four requests fall due while one is answered: everything answered in the window was due
    // before it.
    let (warmup, period) = (Nanos(400_000_000), Some(Nanos(5_000_000)));
    let report = run(Plan { warmup, period, conns: Some(4), ..plan(address) }).report;
    let counts = &report.whole.counts;
    assert_eq!((counts.users, counts.users_blocked), (4, 0), "{counts:?}");
    assert!(!codes(&report).contains(&"starved".to_owned()), "{:?}", report.verdict);
}

/// Answers all requests but those for `/hung`.
fn serve_all_but_hung() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut chunk = [0; 4_096];
                while let Ok(length @ 1..) = stream.read(&mut chunk) {
                    let is_hung = chunk[..length].starts_with(b"GET /hung");
                    if !is_hung && stream.write_all(OK).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A plan with two routes, one of which asks for `/hung`.
fn two_routes(plan: Plan) -> Plan {
    let route = |path: &str| Scenario {
        name: path.to_owned(),
        weight: 1,
        step: vec![Step { url: Some(path.to_owned()), ..Step::default() }],
        ..Scenario::default()
    };
    Plan { scenario: vec![route("/fine"), route("/hung")], ..plan }
}

#[test]
fn connections_that_wait_for_a_route_that_hangs_are_not_starved() {
    let address = serve_all_but_hung();
    let plan = Plan {
        timeout: Nanos(200_000_000),
        duration: Nanos::from_secs(2),
        conns: Some(300),
        ..plan(address)
    };
    let report = run(two_routes(open(plan, "800"))).report;
    let counts = &report.whole.counts;
    // They did wait, but each of them also got answers.
    assert!(counts.users < 10 * counts.users_blocked, "{counts:?}");
    assert!(!codes(&report).contains(&"starved".to_owned()), "{:?}", report.verdict);
}

#[test]
fn connections_that_are_never_answered_are_starved_whatever_the_route() {
    let address = serve_the_first(4, Duration::from_millis(20));
    let plan = Plan { timeout: Nanos(100_000_000), conns: Some(16), ..plan(address) };
    let report = run(two_routes(open(plan, "2k"))).report;
    assert!(codes(&report).contains(&"starved".to_owned()), "{:?}", report.verdict);
}

#[test]
fn an_answer_that_comes_twice_is_counted_as_unsolicited() {
    let address = serve(|number, stream| {
        let mut again = stream.try_clone().expect("a second handle");
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            let _ = again.write_all(OK);
        });
        always_ok(number, stream)
    });
    // Idle for 30 ms after each answer: bytes that come then answer nothing.
    let plan = Plan { conns: Some(1), period: Some(Nanos(30_000_000)), ..plan(address) };
    let report = run(plan).report;
    let counts = &report.whole.counts;
    assert!(0 < counts.unsolicited, "{counts:?}");
}

#[test]
fn two_answers_in_one_are_counted_as_trailing_bytes() {
    let address = serve(|_, stream| stream.write_all(&[OK, OK].concat()).is_ok());
    let counts = run(Plan { conns: Some(2), ..plan(address) }).report.whole.counts;
    assert!(0 < counts.trailing && counts.trailing <= counts.answered, "{counts:?}");
}

#[test]
fn without_keep_alive_a_users_wait_contains_the_connect() {
    let address = serve(always_ok);
    let closing = Plan { conns: Some(2), keepalive: Switch::Off, ..plan(address) };
    let part = run(closing).report.whole;
    let (connect, wait) = (part.connect_time.mean, part.connection_wait.mean);
    let (connect, wait) = (connect.expect("values"), wait.expect("values"));
    assert!(0.9 * connect <= wait, "connects took {connect} µs, users waited {wait} µs");
    let (naive, corrected) = (part.naive.mean, part.corrected.mean);
    let apart = corrected.expect("values") - naive.expect("values");
    assert!(0.9 * connect <= apart, "corrected is {apart} µs above naive");
    assert_eq!(part.counts.intended, part.counts.sent + part.counts.unsent);
}

#[test]
fn an_answer_before_the_end_of_the_upload_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'x'; 8 << 20]).expect("written");
    // The head is enough for an answer; the body isn't read after it.
    let address = serve(|number, stream| {
        always_ok(number, stream) && {
            std::thread::sleep(Duration::from_millis(20));
            false
        }
    });
    let upload = Plan {
        method: "POST".to_owned(),
        body: Some(format!("@{}", body.display())),
        conns: Some(1),
        ..plan(address)
    };
    let counts = run(upload).report.whole.counts;
    assert!(0 < counts.answered, "{counts:?}");
    assert_eq!(counts.incomplete_uploads, counts.answered, "{counts:?}");
}

#[test]
fn timeouts_that_are_noticed_late_leave_no_residual_of_littles_law() {
    let address = serve(|number, stream| {
        std::thread::sleep(Duration::from_millis(5));
        always_ok(number, stream)
    });
    let plan = Plan { conns: Some(64), timeout: Nanos(2_000_000), ..plan(address) };
    let report = run(plan).report;
    assert!(100 < report.whole.counts.timed_out, "{:?}", report.whole.counts);
    assert!(report.littles_law.residual < 0.001, "{:?}", report.littles_law);
    assert!(!codes(&report).contains(&"littles_law".to_owned()), "{:?}", report.verdict);
}

#[test]
fn after_a_stall_longer_than_the_deadline_each_paced_request_counts_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("raw.bin");
    let address = serve(|number, stream| {
        if number == 5 {
            std::thread::sleep(Duration::from_millis(150));
        }
        always_ok(number, stream)
    });
    let paced = Plan {
        conns: Some(2),
        period: Some(Nanos(4_000_000)),
        deadline: Some(Nanos(30_000_000)),
        raw: Some(raw.clone()),
        ..plan(address)
    };
    let counts = run(paced).report.whole.counts;
    assert_eq!(counts.intended, 250, "two users, each once in 4 ms for 500 ms");
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    let reader = SampleReader::open(&raw).expect("a file of samples");
    for sample in reader {
        *times.entry(sample.expect("a sample").intended_ns).or_default() += 1;
    }
    // The users take turns, one request every 2 ms: each time once.
    let expected = (0..250).map(|k| (2_000_000 * k, 1)).collect();
    assert_eq!(times, expected);
}

#[test]
fn a_setup_that_does_not_settle_is_reported_and_later_growth_is_counted() {
    // Each answer takes longer than the previous one: the pool never has enough.
    let address = serve(|number, stream| {
        std::thread::sleep(Duration::from_millis(2 * number.min(900)));
        always_ok(number, stream)
    });
    let growing = Plan {
        warmup: Nanos(50_000_000),
        settle: Nanos(400_000_000),
        conns: Some(600),
        duration: Nanos(1_200_000_000),
        ..plan(address)
    };
    let report = run(open(growing, "200")).report;
    let counts = &report.whole.counts;
    assert_eq!(counts.setup.settled, Some(false), "{counts:?}");
    assert!(0 < counts.pool_grew && counts.pool_grew <= counts.connects_in_window, "{counts:?}");
    let verdict = &report.verdict;
    for code in [Code::NotSettled, Code::PoolGrew] {
        assert!(verdict.notes.iter().any(|note| note.code == code), "{verdict:?}");
        assert!(verdict.reasons.iter().all(|reason| reason.code != code), "{verdict:?}");
    }
    let findings = engine::verify::report_alone(&report);
    let wrong: Vec<_> = findings.iter().filter(|finding| !finding.ok).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_cost_of_opening_is_added_to_requests_that_each_need_a_connection() {
    // No answer comes in the window, so that no connection is free for a second request. It takes
    // no longer than that, or the cost of opening one would be less than a histogram can resolve.
    let address = serve(|number, stream| {
        std::thread::sleep(Duration::from_millis(25));
        always_ok(number, stream)
    });
    let cold =
        Plan { warmup: Nanos(0), conns: Some(600), duration: Nanos(20_000_000), ..plan(address) };
    let is_added = || {
        let report = run(open(cold.clone(), "2k")).report;
        let share = report.whole.client_share.as_ref().expect("responses");
        let opening: Vec<f64> = share.parts().map(|(_, part)| part.opening).collect();
        let connect_us = report.whole.connect_time.quantile_us(0.5).expect("many connects");
        assert!(!opening.is_empty(), "{share:?}");
        assert!(opening.iter().all(|us| *us <= connect_us), "{opening:?}, {connect_us}");
        opening.iter().any(|us| 0.0 < *us)
    };
    // A generator whose core is taken adds all of a latency itself, and nothing is left for that.
    assert!((0..10).any(|_| is_added()));
}

#[test]
fn a_target_that_never_answers_is_blamed_and_not_the_generator() {
    // The warm-up has more requests than are sent and given up in the whole run.
    let warm = Plan {
        warmup: Nanos(200_000_000),
        settle: Nanos(100_000_000),
        conns: Some(4),
        duration: Nanos(300_000_000),
        timeout: Nanos(600_000_000),
        ..plan(serve(|_, _| true))
    };
    let report = run(open(warm, "500")).report;
    let counts = &report.whole.counts;
    let (setup, warmup) = (&counts.setup, &counts.warmup);
    // A busy machine may begin a second round, which the end of the setup cuts short.
    let timed_out = setup.errors.of(Cause::TimedOut);
    assert!(0 < timed_out && timed_out + setup.abandoned == setup.sent, "{setup:?}");
    assert!(4 <= warmup.errors.of(Cause::TimedOut) && 50 < warmup.unsent, "{warmup:?}");
    assert!(!codes(&report).contains(&"rate_missed".to_owned()), "{:?}", report.verdict);
    // Others may have taken the generator's core meanwhile, which is a reason too.
    let mut reasons = report.verdict.reasons.iter();
    let Reason { evidence, cure, .. } =
        reasons.find(|one| one.code == Code::NothingSent).expect("the target is blamed");
    let message = [" the target answered none of ", "(timed_out: "];
    assert!(message.iter().all(|words| evidence.contains(words)), "{evidence}");
    assert!(cure.contains("the target") && !cure.contains("--cores"), "{cure}");
    assert_sound(&report);
}

#[test]
fn a_setup_without_connections_has_not_settled() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    // The connection of the checks before the run is accepted, and then the listener is gone.
    std::thread::spawn(move || drop(listener.accept()));
    let warm = Plan {
        warmup: Nanos(100_000_000),
        settle: Nanos(100_000_000),
        duration: Nanos(100_000_000),
        ..plan(address)
    };
    let report = run(open(warm, "200")).report;
    let counts = &report.whole.counts;
    assert_eq!((counts.setup.settled, counts.connects), (Some(false), 0), "{counts:?}");
    let refused = |errors: &CountsBy<Cause>| errors.of(Cause::ConnectRefused);
    let (setup, warmup) = (&counts.setup, &counts.warmup);
    assert!(10 < setup.sent && refused(&setup.errors) == setup.sent, "{setup:?}");
    assert!(0 < warmup.sent && refused(&warmup.errors) == warmup.sent, "{warmup:?}");
    assert_sound(&report);
}

#[test]
fn answers_in_the_window_count_whenever_they_were_due() {
    // 200 a second: the backlog of the warm-up is more than the target answers in the window.
    let address = serve(|number, stream| {
        std::thread::sleep(Duration::from_millis(5));
        always_ok(number, stream)
    });
    let warm = Plan {
        warmup: Nanos(300_000_000),
        settle: Nanos(100_000_000),
        conns: Some(1),
        duration: Nanos(400_000_000),
        timeout: Nanos(1_000_000_000),
        ..plan(address)
    };
    let report = run(open(warm, "2k")).report;
    let Rates { sent, sent_due, answered, answered_due, .. } = report.whole.rate;
    assert_eq!((sent_due, answered_due), (0.0, 0.0));
    // At most one more than fits into 400 ms one after the other, and as few as a busy machine
    // manages.
    assert!((10.0..=210.0).contains(&answered), "{answered}/s");
    assert!((answered - sent).abs() < 2.6, "one of 400 ms: {sent}/s sent, {answered}/s answered");
    let Reason { code, evidence, cure, .. } = &report.verdict.reasons[0];
    assert_eq!(*code, Code::NothingSent, "{:?}", report.verdict);
    let WarmupCounts { sent, answered, .. } = &report.whole.counts.warmup;
    let told = format!("the target answered {answered} of {sent}");
    assert!(0 < *answered && evidence.contains(&told), "{evidence}");
    assert!(cure.contains("--rate") && cure.contains("what the target answers"), "{cure}");
    assert_sound(&report);
}

/// Asserts that a report adds up.
fn assert_sound(report: &Report) {
    let findings = engine::verify::report_alone(report);
    let wrong: Vec<_> = findings.iter().filter(|finding| !finding.ok).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn spare_connections_are_left_over_by_the_setup() {
    let address = serve(always_ok);
    let warm = Plan {
        warmup: Nanos(50_000_000),
        settle: Nanos(100_000_000),
        settle_min: Some(Nanos(150_000_000)),
        spare: Some(20),
        ..plan(address)
    };
    let counts = run(open(warm, "100")).report.whole.counts;
    assert_eq!(counts.setup.settled, Some(true));
    assert_eq!((counts.pool_grew, counts.connects_in_window), (0, 0), "{counts:?}");
    assert!(20 < counts.connects, "{counts:?}");
}

#[test]
fn a_rate_far_beyond_any_machine_ends_soon_after_an_interruption() {
    let address = serve(always_ok);
    let endless = Plan { conns: Some(10), duration: Nanos::from_secs(600), ..plan(address) };
    let prepared = engine::run::prepare(open(endless, "100M")).expect("a plan");
    let run = engine::run::Run::start(prepared).expect("it starts");
    while run.progress().elapsed_ns < 1_000_000_000 || run.progress().answered == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    run.stop();
    let report = run.wait().report;
    let counts = &report.whole.counts;
    // The load of one second, give or take the time of the interruption.
    assert!(90_000_000 < counts.intended, "{counts:?}");
    assert_eq!(counts.intended, counts.sent + counts.unsent);
    // Too many to go through one by one: the digest would cover only a part.
    assert_eq!(report.config.schedule_digest, None);
    assert!(report.config.schedule_estimated.is_some_and(|estimated| estimated < counts.unsent));
    let findings = engine::verify::report_alone(&report);
    let wrong: Vec<_> = findings.iter().filter(|finding| !finding.ok).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn such_a_rate_may_be_interrupted_in_the_warm_up() {
    let endless = Plan {
        conns: Some(10),
        warmup: Nanos::from_secs(600),
        deadline: Some(Nanos(1_000_000)),
        ..plan(serve(always_ok))
    };
    let prepared = engine::run::prepare(open(endless, "30M")).expect("a plan");
    let run = engine::run::Run::start(prepared).expect("it starts");
    while run.progress().elapsed_ns < 500_000_000 {
        std::thread::sleep(Duration::from_millis(10));
    }
    run.stop();
    let report = run.wait().report;
    assert!(report.interrupted);
    assert_eq!((report.whole.counts.intended, report.whole.counts.unsent), (0, 0));
}

#[test]
fn few_connections_with_large_bodies_have_buffers_enough() {
    let body = Arc::new(vec![b'x'; 1 << 20]);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let address = serve(move |_, stream| {
        stream.write_all(head.as_bytes()).is_ok() && stream.write_all(&body).is_ok()
    });
    let report = run(Plan { conns: Some(16), ..plan(address) }).report;
    assert!(10 < report.whole.counts.answered, "{:?}", report.whole.counts);
    let exhausted = report.generator.shards[0].buffers_exhausted;
    assert!(exhausted <= report.whole.counts.answered / 100, "{exhausted} times");
}
