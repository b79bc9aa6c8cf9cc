//! The outcomes of requests: every kind of ending is counted under its own cause, and the sums
//! close (the merge asserts them).

use std::io::Write;
use std::net::{Shutdown, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use engine::plan::{Arrivals, Plan};
use engine::record::outcome::{Cause, UnsentReason};
use engine::report::DistributionPart;
use engine::run::{self, PrepareError, Run};
use engine::sys::clock;
use engine::sys::units::Nanos;

use crate::support::{OK, always_ok, open, plan, refusing, run, serve};

#[test]
fn an_open_run_answers_every_arrival() {
    let served = Arc::new(AtomicU64::new(0));
    let counted = served.clone();
    let address = serve(move |number, stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        always_ok(number, stream)
    });
    let finished = run(Plan { warmup: Nanos(100_000_000), ..open(plan(address), "1k") });
    let counts = &finished.report.whole.counts;
    assert_eq!(
        (counts.unsent, counts.failed, counts.timed_out, counts.abandoned),
        (0, 0, 0, 0),
        "{counts:?}"
    );
    assert_eq!(counts.answered, counts.intended);
    assert_eq!(
        counts.answered + counts.warmup.answered + counts.setup.answered,
        served.load(Ordering::Relaxed),
        "the server's own count"
    );
    assert_eq!(counts.status.of(200), counts.answered);
    assert_eq!(
        Some(counts.intended + counts.warmup.sent),
        finished.report.config.schedule_arrivals,
        "the schedule is complete"
    );
}

#[test]
fn constant_arrivals_match_the_rate_exactly() {
    let address = serve(always_ok);
    let plan = Plan { arrivals: Arrivals::Constant, ..open(plan(address), "2k") };
    assert_eq!(run(plan).report.whole.counts.answered, 1_000);
}

#[test]
fn a_closed_run_keeps_each_connection_busy() {
    let address = serve(always_ok);
    let finished = run(Plan { conns: Some(3), ..plan(address) });
    let part = &finished.report.whole;
    assert_eq!(part.counts.connects, 3);
    assert!(100 < part.counts.answered, "{:?}", part.counts);
    let alike = [&part.naive, &part.corrected].map(|of| (of.histogram.as_str(), of.mean, of.max));
    assert_eq!(alike[0], alike[1], "without a pace the intended time is the sent time");
    assert_eq!(finished.report.config.schedule_digest, None);
}

#[test]
fn a_paced_closed_run_keeps_its_period_and_charges_the_wait() {
    let slow = Duration::from_millis(60);
    let address = serve(move |number, stream| {
        if number == 10 {
            std::thread::sleep(slow);
        }
        always_ok(number, stream)
    });
    let plan = Plan { conns: Some(1), period: Some(Nanos(10_000_000)), ..plan(address) };
    let part = run(plan).report.whole;
    assert_eq!(part.counts.intended, 50, "one each 10 ms for 500 ms");
    assert_eq!(part.counts.answered, 50);
    assert!(5 <= part.counts.waited, "those due during the slow one waited: {:?}", part.counts);
    // Only the slow request is late in the naive view; in the corrected one, those behind it are
    // too: 60 + 50 + 40 + … ms.
    let slow_ms = 60.0;
    let lateness_sum_ms = part.corrected.mean.expect("values") * 50.0 / 1e3;
    assert!(slow_ms + 50.0 + 40.0 + 30.0 + 20.0 <= lateness_sum_ms, "{lateness_sum_ms} ms in all");
    assert!(
        part.naive.mean < part.corrected.mean,
        "{:?} {:?}",
        part.naive.mean,
        part.corrected.mean
    );
}

#[test]
fn a_slow_response_never_delays_the_next_send() {
    let address = serve(|number, stream| {
        std::thread::sleep(Duration::from_millis(100));
        always_ok(number, stream)
    });
    let part = run(open(plan(address), "400")).report.whole;
    assert_eq!(part.counts.answered, part.counts.intended);
    assert!(100_000.0 <= part.naive.min.expect("values"));
    // 400/s at 100 ms or more means 40 or more in flight, if none waits for another; a load that
    // waited for answers would have one in flight.
    assert!(20 < part.counts.connects, "{:?}", part.counts);
    assert_eq!(part.counts.capped, 0, "{:?}", part.counts);
}

fn median(distribution: &DistributionPart) -> f64 {
    distribution.quantile_us(0.5).expect("values")
}

#[test]
fn at_the_cap_arrivals_wait_and_the_wait_is_charged() {
    let address = serve(|number, stream| {
        std::thread::sleep(Duration::from_millis(5));
        always_ok(number, stream)
    });
    let plan = Plan { conns: Some(2), timeout: Nanos(300_000_000), ..open(plan(address), "2k") };
    let part = run(plan).report.whole;
    assert!(part.counts.connects <= 2);
    assert!(
        0 < part.counts.unsent,
        "two connections can't carry 2,000/s at 5 ms: {:?}",
        part.counts
    );
    assert!(part.counts.intended - 10 <= part.counts.waited, "{:?}", part.counts);
    assert!(median(&part.naive) * 10.0 < median(&part.corrected));
    assert_eq!(part.corrected.count, part.counts.intended, "the unsent are in the corrected view");
}

#[test]
fn failures_are_counted_by_the_cause_that_the_server_produced() {
    const CAUSES: [&str; 6] =
        ["200", "503", "closed_before_response", "cut_short", "protocol:not_http", "reset"];
    let caused: Arc<[AtomicU64; 6]> = Arc::default();
    let log = caused.clone();
    let address = serve(move |number, stream| {
        let kind = usize::try_from(number % 6).expect("below six");
        log[kind].fetch_add(1, Ordering::Relaxed);
        match CAUSES[kind] {
            "200" => stream.write_all(OK).is_ok(),
            "503" => {
                stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").expect("sent");
                true
            }
            "closed_before_response" => false,
            "cut_short" => {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort")
                    .expect("sent");
                false
            }
            "protocol:not_http" => {
                stream.write_all(b"SSH-2.0-OpenSSH\r\n").expect("sent");
                false
            }
            _ => {
                socket2::SockRef::from(&*stream)
                    .set_linger(Some(Duration::ZERO))
                    .expect("a TCP socket");
                false
            }
        }
    });
    let part = run(open(plan(address), "600")).report.whole;
    let counts = &part.counts;
    assert_eq!((counts.intended, counts.unconnected), (counts.sent, 0));
    for (cause, caused) in CAUSES.iter().zip(caused.iter()) {
        let counted = counts.status.by_name().into_iter().chain(counts.errors.by_name());
        let counted = counted.filter(|(name, _)| name == cause).map(|(_, count)| count);
        assert!(counted.eq([caused.load(Ordering::Relaxed)]), "{cause}: {counts:?}");
    }
    assert_eq!(part.naive.count, counts.answered, "a failure has no latency");
}

#[test]
fn a_request_without_an_answer_times_out_at_the_timeout() {
    let address = serve(|_, _| true);
    let timeout = Nanos(150_000_000);
    let part = run(Plan { timeout, ..open(plan(address), "100") }).report.whole;
    let counts = &part.counts;
    assert!(0 < counts.timed_out, "{counts:?}");
    assert_eq!(counts.timed_out + counts.abandoned, counts.sent, "none is answered: {counts:?}");
    assert_eq!(counts.errors.of(Cause::TimedOut), counts.timed_out);
    assert_eq!(part.naive.max, Some(150_000.0), "recorded at the timeout, not when it was noticed");
    assert!(
        counts.timed_out < counts.connects + 1,
        "each connection that timed out was replaced: {counts:?}"
    );
}

#[test]
fn requests_in_flight_at_the_end_are_abandoned_with_their_age() {
    // The first request holds the only connection for 150 ms. The second, due at 50 ms, is never
    // answered, and its timeout of 400 ms comes after the drain's end, 400 ms after the window's
    // end at 100 ms.
    let address = serve(|number, stream| match number {
        0 => {
            std::thread::sleep(Duration::from_millis(150));
            always_ok(number, stream)
        }
        _ => true,
    });
    let plan = Plan {
        conns: Some(1),
        arrivals: Arrivals::Constant,
        duration: Nanos(100_000_000),
        timeout: Nanos(400_000_000),
        ..open(plan(address), "20")
    };
    let part = run(plan).report.whole;
    let counts = &part.counts;
    assert_eq!((counts.intended, counts.answered, counts.abandoned), (2, 1, 1), "{counts:?}");
    // Due at 50 ms, sent at 150 ms or later, given up at 500 ms: at least this old.
    assert!(450_000.0 <= part.corrected.max.expect("values"), "{:?}", part.corrected);
}

#[test]
fn the_shard_goes_on_after_a_target_vanishes() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let prepared =
        run::prepare(open(plan(address), "500")).unwrap_or_else(|error| panic!("{error}"));
    let _refusing = refusing(listener);
    let part = Run::start(prepared).expect("started").wait().report.whole;
    let counts = &part.counts;
    assert_eq!(counts.errors.of(Cause::ConnectRefused), counts.intended, "{counts:?}");
    assert_eq!((counts.failed, part.naive.count), (counts.intended, 0));
    // None of them was on the wire: they are errors, and don't prove an offered load.
    assert_eq!((counts.unconnected, counts.sent_in_window), (counts.intended, 0));
    assert_eq!(part.rate.sent, 0.0);

    let closed = serve(always_ok);
    let prepared =
        run::prepare(Plan { conns: Some(4), target: format!("http://{closed}/"), ..plan(closed) })
            .expect("prepared");
    let finished = Run::start(prepared).expect("started").wait();
    assert!(0 < finished.report.whole.counts.answered);
}

#[test]
fn connections_that_close_are_replaced() {
    let address = serve(|_, stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi")
            .expect("sent");
        let _ = stream.shutdown(Shutdown::Both);
        false
    });
    for plan in [open(plan(address), "300"), Plan { conns: Some(2), ..plan(address) }] {
        let counts = run(plan).report.whole.counts;
        assert_eq!(counts.answered, counts.intended, "{counts:?}");
        assert!(counts.answered <= counts.connects, "{counts:?}");
    }
}

#[test]
fn a_response_until_the_close_is_answered() {
    let address = serve(|_, stream| {
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nall of this").expect("sent");
        false
    });
    let counts = run(open(plan(address), "300")).report.whole.counts;
    assert_eq!(counts.answered, counts.intended, "{counts:?}");
}

#[test]
fn unsolicited_bytes_end_the_connection_and_not_the_run() {
    let address = serve(|_, stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n\r\n")
            .is_ok()
    });
    let counts = run(open(plan(address), "300")).report.whole.counts;
    assert_eq!(counts.answered, counts.intended, "{counts:?}");
    assert!(
        counts.answered <= counts.connects,
        "none of these connections is used again: {counts:?}"
    );
}

#[test]
fn an_interrupted_run_reports_what_it_did() {
    let (asked, requests) = std::sync::mpsc::channel();
    let address = serve(move |number, stream| {
        // The channel has no receiver after the hundredth.
        let _ = asked.send(number);
        always_ok(number, stream)
    });
    let plan = Plan { duration: Nanos::from_secs(60), ..open(plan(address), "500") };
    let run =
        Run::start(run::prepare(plan).unwrap_or_else(|error| panic!("{error}"))).expect("started");
    assert_eq!(requests.iter().take(100).count(), 100);
    run.stop();
    let report = run.wait().report;
    assert!(report.interrupted);
    assert!(report.config.schedule_until < 60.0, "{}", report.config.schedule_until);
    let counts = &report.whole.counts;
    assert!((90..30_000).contains(&counts.answered), "{counts:?}");
    assert_eq!(Some(counts.intended), report.config.schedule_arrivals);
}

#[test]
fn requests_waiting_for_a_connection_when_a_run_is_stopped_are_not_sent() {
    let ways: [fn(&Run); 2] = [Run::stop, |run| run.hold_until(clock::now_ns())];
    for end in ways {
        let received = Arc::new(AtomicUsize::new(0));
        let counter = received.clone();
        let address = serve(move |number, stream| {
            counter.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            always_ok(number, stream)
        });
        // A tenth of it can be answered.
        let plan =
            Plan { duration: Nanos::from_secs(60), conns: Some(2), ..open(plan(address), "1k") };
        let run = Run::start(run::prepare(plan).expect("a plan")).expect("started");
        let begun = Instant::now();
        while received.load(Ordering::SeqCst) < 50 {
            assert!(begun.elapsed() < Duration::from_secs(20), "it still runs");
            std::thread::sleep(Duration::from_millis(1));
        }
        end(&run);
        while clock::now_ns() < run.window().expect("it has begun").end {
            assert!(begun.elapsed() < Duration::from_secs(20), "it ends");
            std::thread::sleep(Duration::from_millis(1));
        }
        let seen = received.load(Ordering::SeqCst);
        let report = run.wait().report;
        assert!(report.interrupted);
        let counts = &report.whole.counts;
        // The requests on both connections at that time may have been seen later.
        assert!(received.load(Ordering::SeqCst) <= seen + 2, "{seen}: {counts:?}");
        assert!(100 < counts.unsent, "{counts:?}");
        assert_eq!(counts.unsent, counts.unsent_reasons.of(UnsentReason::End), "{counts:?}");
        assert_eq!(counts.intended, counts.sent + counts.unsent, "{counts:?}");
        assert_eq!(Some(counts.intended), report.config.schedule_arrivals);
    }
}

#[test]
fn a_post_carries_its_body_on_ipv6_and_by_name() {
    let listener = TcpListener::bind("[::1]:0").expect("IPv6 loopback");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        // The probe that a run makes before it starts sends nothing.
        for stream in listener.incoming().take(2) {
            let mut stream = stream.expect("accepted");
            std::thread::spawn(move || {
                use std::io::Read;
                let mut bytes = [0; 1_024];
                while let Ok(length) = stream.read(&mut bytes) {
                    if length == 0 {
                        return;
                    }
                    let text = String::from_utf8_lossy(&bytes[..length]);
                    let good = text.starts_with("POST /x?y=z HTTP/1.1\r\n")
                        && text.contains("Content-Length: 4\r\n")
                        && text.ends_with("\r\n\r\nbody");
                    let status = if good { "204 Yes" } else { "400 No" };
                    stream
                        .write_all(
                            format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes(),
                        )
                        .expect("sent");
                }
            });
        }
    });
    let plan = Plan {
        target: format!("http://[::1]:{port}/x?y=z"),
        method: "POST".to_owned(),
        body: Some("body".to_owned()),
        conns: Some(1),
        ..plan("127.0.0.1:1".parse().expect("an address"))
    };
    let counts = run(plan).report.whole.counts;
    assert!(0 < counts.answered, "{counts:?}");
    assert_eq!(counts.status, [(204, counts.answered)].into(), "{counts:?}");
}

#[test]
fn an_unreachable_target_is_reported_before_anything_runs() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let _refusing = refusing(listener);
    for target in [format!("http://{address}/"), "http://no-such-host.invalid/".to_owned()] {
        let plan = Plan { target: target.clone(), ..plan(address) };
        match run::prepare(plan) {
            Err(PrepareError::Target(error)) => {
                assert_eq!((error.flag, &error.value), ("--target", &target));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_run_leaves_no_connection_behind() {
    let (ended, ends) = std::sync::mpsc::channel();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, ended) = (stream.expect("accepted"), ended.clone());
            std::thread::spawn(move || {
                use std::io::Read;
                let mut bytes = [0; 4_096];
                while stream.read(&mut bytes).is_ok_and(|length| 0 < length) {
                    let _ = stream.write_all(OK);
                }
                let _ = ended.send(());
            });
        }
    });
    let counts = run(Plan { conns: Some(5), ..plan(address) }).report.whole.counts;
    // The probe before the run is a connection too.
    for _ in 0..counts.connects + 1 {
        ends.recv_timeout(Duration::from_secs(10))
            .expect("each connection is closed when the run has ended");
    }
}
