//! The plan's settings besides its load: overload, deadlines, the life of connections, the setup,
//! successes, the series.

use std::io::Write;
use std::time::Duration;

use engine::plan::{Arrivals, Overload, Plan, Switch};
use engine::record::counts::IntervalCounts;
use engine::record::outcome::{Cause, UnsentReason};
use engine::report::Report;
use engine::sys::units::Nanos;

use crate::support::{OK, always_ok, codes, open, plan, run, serve};

fn slow(_: u64, stream: &mut std::net::TcpStream) -> bool {
    std::thread::sleep(Duration::from_millis(5));
    always_ok(0, stream)
}

/// Asserts that the sums of the series match the counts, and that Little's law holds.
fn assert_consistent(report: &Report) {
    let counts = &report.whole.counts;
    let sum = |of: fn(&IntervalCounts) -> u64| -> u64 {
        report.series.intervals.iter().map(|interval| of(&interval.counts)).sum()
    };
    assert_eq!(sum(|counts| counts.intended), counts.intended);
    assert_eq!(sum(|counts| counts.sent), counts.sent);
    assert_eq!(sum(|counts| counts.unsent), counts.unsent);
    assert_eq!(sum(|counts| counts.answered), counts.answered);
    assert_eq!(sum(|counts| counts.errors), counts.timed_out + counts.failed + counts.abandoned);
    assert_eq!(sum(|counts| counts.sends), counts.sent_in_window);
    if let Some(proof) = &report.arrivals {
        assert_eq!((proof.intended, proof.sent), (counts.intended, counts.sent_in_window));
    }
    assert!(sum(|counts| counts.answers) <= counts.answered);
    assert!(report.littles_law.residual < 1e-9, "{:?}", report.littles_law);
}

#[test]
fn with_drop_an_arrival_without_a_connection_in_time_is_unsent() {
    let address = serve(slow);
    let plan = Plan {
        conns: Some(2),
        overload: Overload::Drop,
        queue_max: Some(Nanos(20_000_000)),
        ..open(plan(address), "2k")
    };
    let report = run(plan).report;
    let part = &report.whole;
    assert_consistent(&report);
    assert!(0 < part.counts.unsent, "{:?}", part.counts);
    assert_eq!(
        part.counts.unsent_reasons.of(UnsentReason::Dropped),
        part.counts.unsent,
        "{:?}",
        part.counts
    );
    assert_eq!(part.counts.intended, part.counts.sent + part.counts.unsent);
    // Dropped arrivals have no latency: it would look like an answer after 20 ms. Few are answered
    // sooner than in 20 ms and 5 ms, since all wait for as long as they may.
    assert_eq!(part.corrected.count, part.counts.sent, "{:?}", part.counts);
    assert!(20_000.0 < part.corrected.quantile_us(0.5).expect("values"), "{:?}", part.corrected);
}

#[test]
fn a_target_that_stops_shows_as_a_gap_in_the_answers() {
    // The 20th request is held for 300 ms, and with it the only connection: even if it is sent
    // late, up to the middle of the run, one interval is empty.
    let address = serve(|number, stream| {
        std::thread::sleep(Duration::from_millis(if number == 20 { 300 } else { 0 }));
        always_ok(number, stream)
    });
    let report = run(Plan { conns: Some(1), ..open(plan(address), "1k") }).report;
    assert_consistent(&report);
    let intervals = &report.series.intervals;
    let gaps = intervals
        .iter()
        .filter(|interval| interval.counts.answers == 0 && interval.counts.sends == 0);
    assert!(1 <= gaps.count(), "300 ms cover an interval of 125 ms: {intervals:?}");
    // By intended time none of them is empty.
    assert!(intervals.iter().all(|interval| 0 < interval.counts.answered), "{intervals:?}");
}

#[test]
fn a_deadline_counts_from_intended_and_apart_from_the_timeout() {
    let address = serve(slow);
    let deadline = Some(Nanos(50_000_000));
    let plan = Plan { conns: Some(1), deadline, ..open(plan(address), "1k") };
    let report = run(plan).report;
    let counts = &report.whole.counts;
    assert_consistent(&report);
    assert!(0 < counts.unsent_reasons.of(UnsentReason::Deadline), "{counts:?}");
    assert_eq!(counts.errors.of(Cause::TimedOut), 0, "{counts:?}");
    assert_eq!(counts.timed_out, counts.errors.of(Cause::Deadline), "{counts:?}");
    // Requests that gave up count with the time they were willing to wait, whenever the shard
    // noticed.
    assert_eq!(report.whole.naive.count, counts.sent);
    let given_up = counts.timed_out + counts.unsent_reasons.of(UnsentReason::Deadline);
    assert!(counts.answered < given_up, "most of 1,000/s at 5 ms give up: {counts:?}");
    assert!(
        49_900.0 < report.whole.corrected.quantile_us(0.9).expect("values"),
        "{:?}",
        report.whole.corrected
    );
}

#[test]
fn without_keep_alive_each_request_has_a_connection_of_its_own() {
    let address = serve(|_, stream| {
        // The server would keep the connection: the client closes it.
        stream.write_all(OK).is_ok()
    });
    let plan = Plan { keepalive: Switch::Off, ..open(plan(address), "500") };
    let report = run(plan).report;
    let counts = &report.whole.counts;
    assert_consistent(&report);
    assert_eq!(counts.answered, counts.intended, "{counts:?}");
    assert_eq!(counts.connects, counts.answered);
    assert_eq!(report.whole.connect_time.count, counts.connects_in_window);
    let machine = report.generator.machine.as_ref().expect("one machine");
    let ports = machine.ports.as_ref().expect("the kernel lists its sockets");
    // Each connection leaves its port in TIME_WAIT; other programs' ports don't count.
    let taken = ports.in_use_max + ports.time_wait_max;
    assert!(0 < taken && ports.range - taken <= ports.headroom, "{ports:?}");
    assert!(ports.in_use_max <= counts.connects && ports.headroom < ports.range, "{ports:?}");
}

#[test]
fn a_connection_carries_as_many_requests_as_planned() {
    let address = serve(always_ok);
    let plan = Plan { conns: Some(1), requests_per_connection: Some(10), ..plan(address) };
    let counts = run(plan).report.whole.counts;
    // After a tenth request at the very end, the next connection is already open.
    let used = counts.answered.div_ceil(10);
    assert!((used..=used + 1).contains(&counts.connects), "{counts:?}");
}

#[test]
fn connections_end_after_their_lifetime_and_lose_no_request() {
    let address = serve(always_ok);
    let plan = Plan {
        conns: Some(20),
        connection_lifetime: Some(Nanos(100_000_000)),
        warmup: Nanos(0),
        duration: Nanos::from_secs(1),
        ..plan(address)
    };
    let counts = run(plan).report.whole.counts;
    assert_eq!((counts.answered, counts.pool_grew), (counts.intended, 0), "{counts:?}");
    // In a second each is renewed about ten times, or half as often if each waits for a core.
    assert!((100..400).contains(&counts.connects), "{counts:?}");
}

#[test]
fn connections_are_bound_to_the_source_addresses() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (seen, peers) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let _ = seen.send(stream.peer_addr().expect("connected").ip());
            std::thread::spawn(move || {
                use std::io::Read;
                let mut bytes = [0; 4_096];
                while stream.read(&mut bytes).is_ok_and(|length| 0 < length)
                    && always_ok(0, &mut stream)
                {}
            });
        }
    });
    let sources = ["127.0.0.2", "127.0.0.3"].map(|text| text.parse().expect("an address"));
    let plan = Plan { conns: Some(4), source_addresses: sources.to_vec(), ..plan(address) };
    assert!(0 < run(plan).report.whole.counts.answered);
    let peers: Vec<std::net::IpAddr> = peers.try_iter().collect();
    // The probe before the run comes from the first of them.
    let from = |source| peers.iter().filter(|peer| **peer == source).count();
    assert_eq!(sources.map(from), [3, 2], "{peers:?}");
}

#[test]
fn the_setup_opens_the_connections_that_the_window_needs() {
    let address = serve(slow);
    let plan = Plan {
        warmup: Nanos(300_000_000),
        settle: Nanos(200_000_000),
        arrivals: Arrivals::Constant,
        ..open(plan(address), "400")
    };
    let report = run(plan).report;
    let counts = &report.whole.counts;
    assert_consistent(&report);
    assert!(0 < counts.setup.sent, "load was offered before the warm-up: {counts:?}");
    assert_eq!(Some(counts.intended + counts.warmup.sent), report.config.schedule_arrivals);

    let prewarmed = Plan { prewarm: Some(30), ..open(crate::support::plan(address), "100") };
    let counts = run(prewarmed).report.whole.counts;
    assert_eq!((counts.connects, counts.connects_in_window), (30, 0), "{counts:?}");
    assert_eq!(
        (counts.setup.sent, counts.warmup.sent),
        (0, 0),
        "without a warm-up nothing is sent before the window"
    );
}

#[test]
fn unsuccessful_statuses_are_answers_and_counted_separately() {
    let address = serve(|number, stream| {
        if number.is_multiple_of(4) {
            stream.write_all(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n").is_ok()
        } else {
            always_ok(number, stream)
        }
    });
    let base = Plan { arrivals: Arrivals::Constant, ..open(plan(address), "400") };
    let part = run(base.clone()).report.whole;
    assert_eq!(part.counts.answered, 200);
    assert_eq!(part.counts.unexpected_status, part.counts.status.of(500));
    let successes = part.successes.expect("they differ from all answers");
    assert_eq!(successes.corrected.count, part.counts.status.of(200));

    let expected = Plan { expect_status: "200,500".parse().expect("a set"), ..base };
    let part = run(expected).report.whole;
    assert_eq!((part.counts.unexpected_status, part.successes), (0, None));
}

#[test]
fn raw_samples_are_one_for_each_request_of_the_window() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.samples");
    let address = serve(always_ok);
    let plan = Plan {
        raw: Some(file.clone()),
        warmup: Nanos(200_000_000),
        settle: Nanos(0),
        ..open(plan(address), "2k")
    };
    let report = run(plan).report;
    let samples = report.samples.as_ref().expect("asked for");
    assert_eq!((samples.written, samples.lost), (report.whole.counts.intended, 0), "{samples:?}");
    let findings = engine::verify::with_samples(&report, &[&file]);
    let wrong: Vec<_> = findings.iter().filter(|finding| !finding.ok).collect();
    assert!(!findings.is_empty() && wrong.is_empty(), "{wrong:?}");
}

#[test]
fn the_users_own_connection_close_is_honoured() {
    // The server would keep the connection, but a client that announces the close may send nothing
    // more on it (RFC 9112, section 9.6).
    let address = serve(always_ok);
    let plan = Plan {
        headers: vec!["Connection: close".to_owned()],
        requests_per_connection: Some(5),
        duration: Nanos(200_000_000),
        ..open(plan(address), "200")
    };
    let report = run(plan).report;
    let counts = &report.whole.counts;
    assert_eq!((counts.answered, counts.connects), (counts.intended, counts.intended));
    let plan = &report.config.plan;
    assert_eq!(plan.clone().complete(plan.cores()).as_ref(), Ok(plan), "it contradicts nothing");
}

#[test]
fn arrivals_beyond_the_queue_are_counted_as_waiting_and_cost_no_turns() {
    let address = serve(|number, stream| {
        std::thread::sleep(Duration::from_millis(100));
        always_ok(number, stream)
    });
    // 200,000 arrivals in a second, of which a shard holds 65,536; one connection answers ten.
    let plan = Plan {
        conns: Some(1),
        duration: Nanos::from_secs(1),
        timeout: Nanos(200_000_000),
        arrivals: Arrivals::Constant,
        ..open(plan(address), "200k")
    };
    let report = run(plan).report;
    let counts = &report.whole.counts;
    assert_eq!(counts.intended, 200_000);
    assert!(counts.intended - 5 <= counts.capped, "{counts:?}");
    let codes = codes(&report);
    assert!(codes.contains(&"cap_reached".to_owned()), "{codes:?}");
}
