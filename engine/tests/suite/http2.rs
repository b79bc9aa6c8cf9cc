//! Load over HTTP/2: streams, what a target does to them, and what becomes of their requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::plan::{Http, Plan, Switch};
use engine::record::counts::Counts;
use engine::run;
use engine::sys::units::Nanos;

use crate::http2_server::{
    INITIAL_WINDOW, MAX_STREAMS, Peer, WINDOW_UPDATE, always_ok, plan2, serve, serve_over,
};
use crate::support::{self, open, run as run_plan};

fn counts(plan: Plan) -> Counts {
    let counts = run_plan(plan).report.whole.counts;
    counts.assert_sums();
    counts
}

/// A number that the server's threads share.
fn number() -> Arc<AtomicU64> {
    Arc::default()
}

#[test]
fn an_open_load_is_answered_over_one_connection_with_room() {
    let requests = number();
    let seen = requests.clone();
    let address = serve(&[], move |peer, frame| {
        seen.fetch_add(1, Ordering::Relaxed);
        always_ok(peer, frame)
    });
    let counts = counts(open(plan2(address), "2k"));
    assert_eq!((counts.answered, counts.failed), (counts.intended, 0), "{counts:?}");
    assert_eq!(counts.answered, requests.load(Ordering::Relaxed));
    assert!(500 < counts.answered && counts.connects < 20, "{counts:?}");
}

#[test]
fn a_closed_load_has_each_stream_of_each_connection_in_flight() {
    let (now, most) = (number(), number());
    let (in_flight, seen) = (now.clone(), most.clone());
    let address = serve(&[], move |peer: &mut Peer, frame| {
        if !frame.ends() {
            return true;
        }
        let together = in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        seen.fetch_max(together, Ordering::Relaxed);
        // All streams of the connection are answered at once, the newest first.
        if peer.open.len() < 5 {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
        let mut streams = peer.open.clone();
        streams.reverse();
        in_flight.fetch_sub(streams.len() as u64, Ordering::Relaxed);
        streams.into_iter().all(|stream| peer.answer(stream))
    });
    let plan =
        Plan { conns: Some(2), streams: Some(5), timeout: Nanos(300_000_000), ..plan2(address) };
    let report = run_plan(plan).report;
    let counts = &report.whole.counts;
    assert_eq!(most.load(Ordering::Relaxed), 10, "{counts:?}");
    assert!(50 < counts.answered && counts.failed + counts.timed_out == 0, "{counts:?}");
    assert_eq!(report.unpaced_users(), Some(10.0));
}

#[test]
fn the_targets_limit_is_kept_when_it_is_lowered_and_raised() {
    let problem = Arc::new(Mutex::new(None));
    let found = problem.clone();
    let address = serve(&[(MAX_STREAMS, 4)], move |peer, frame| {
        if !frame.ends() {
            return true;
        }
        // From the twentieth request on, the limit is two; requests that were on their way are
        // answered first.
        let limit = if peer.begun < 40 { 4 } else { 2 };
        if limit < peer.open.len() {
            *found.lock().expect("no panic") = Some((peer.begun, peer.open.len()));
        }
        if peer.begun == 20 && !peer.settings(&[(MAX_STREAMS, 2)]) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
        peer.answer(frame.stream)
    });
    let plan = Plan { conns: Some(1), streams: Some(9), ..plan2(address) };
    let report = run_plan(plan).report;
    let counts = &report.whole.counts;
    assert_eq!(*problem.lock().expect("no panic"), None);
    assert!(60 < counts.answered && counts.failed == 0, "{counts:?}");
    assert_eq!(report.config.plan.streams, Some(4), "the plan says what was possible");
}

#[test]
fn requests_that_goaway_leaves_out_go_to_another_connection_at_their_intended_time() {
    let address = serve(&[], |peer, frame| {
        if !frame.ends() {
            return true;
        }
        // Each connection serves ten, and leaves out what came meanwhile.
        if peer.begun < 10 {
            return true;
        }
        if peer.begun == 10 {
            std::thread::sleep(Duration::from_millis(20));
            let mut streams = peer.open.clone();
            streams.truncate(7);
            let last = streams.last().copied().unwrap_or(0);
            return peer.go_away(last) && streams.into_iter().all(|stream| peer.answer(stream));
        }
        true
    });
    let plan = Plan { conns: Some(20), timeout: Nanos(900_000_000), ..plan2(address) };
    let report = run_plan(Plan { requests: Some(200), ..open(plan, "400") }).report;
    let counts = &report.whole.counts;
    assert!(0 < counts.requeued && 10 <= counts.goaways, "{counts:?}");
    assert_eq!(counts.failed, 0, "{counts:?}");
    // What is left at the end never fills a connection.
    assert!(150 < counts.answered, "{counts:?}");
    assert_eq!(counts.answered + counts.timed_out, counts.intended, "{counts:?}");
    let naive = report.whole.naive.max.expect("some were answered");
    assert!(20_000.0 <= naive, "{naive}: a request that was sent again began anew");
}

#[test]
fn a_refused_stream_is_tried_once_more() {
    for (every, refusals) in [(5, 1), (5, 2)] {
        let left = Arc::new(Mutex::new(0));
        let address = serve(&[], move |peer, frame| {
            if !frame.ends() {
                return true;
            }
            let mut left = left.lock().expect("no panic");
            if peer.begun % every == 0 {
                *left = refusals;
            }
            if *left == 0 {
                return peer.answer(frame.stream);
            }
            *left -= 1;
            peer.reset(frame.stream, 7)
        });
        let plan = Plan { conns: Some(1), streams: Some(1), ..plan2(address) };
        let counts = counts(Plan { requests: Some(100), ..plan });
        let failed = counts.errors.by_name();
        assert!(0 < counts.requeued, "{counts:?}");
        assert_eq!(counts.intended, 100);
        match refusals {
            1 => assert_eq!((counts.answered, failed.len()), (100, 0), "{counts:?}"),
            _ => assert_eq!(failed.into_keys().collect::<Vec<_>>(), ["refused_stream"]),
        }
        assert_eq!(counts.connects, 1, "the connection lives on");
    }
}

#[test]
fn a_stream_that_is_reset_or_broken_or_late_leaves_the_others_alone() {
    let address = serve(&[], |peer, frame| {
        if !frame.ends() {
            return true;
        }
        match peer.begun % 10 {
            1 => peer.reset(frame.stream, 2),
            // A response without a status.
            2 => {
                peer.open.retain(|open| *open != frame.stream);
                peer.send(1, 5, frame.stream, &[])
            }
            // Never answered.
            3 => true,
            _ => peer.answer(frame.stream),
        }
    });
    let plan = Plan {
        conns: Some(1),
        streams: Some(8),
        requests: Some(200),
        timeout: Nanos(100_000_000),
        ..plan2(address)
    };
    let counts = counts(plan);
    let causes = counts.errors.by_name();
    let causes: Vec<(&str, u64)> = causes.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    let expected =
        [("http2:status_missing", 20), ("stream_reset:internal_error", 20), ("timed_out", 20)];
    assert_eq!(causes, expected, "{counts:?}");
    assert_eq!((counts.answered, counts.connects), (140, 1), "{counts:?}");
}

#[test]
fn a_connection_that_closes_fails_all_its_streams() {
    let address = serve(&[], |peer, frame| {
        !frame.ends() || peer.open.len() < 4 && (peer.begun < 20 || peer.answer(frame.stream))
    });
    let plan = Plan { conns: Some(1), streams: Some(4), requests: Some(40), ..plan2(address) };
    let counts = counts(plan);
    let causes: Vec<String> = counts.errors.by_name().into_keys().collect();
    assert_eq!(causes, ["behind_failed", "closed_before_response"], "{counts:?}");
    assert_eq!((counts.failed, counts.connects), (40, 10), "{counts:?}");
}

#[test]
fn a_body_waits_for_the_window_and_leaves_other_streams_alone() {
    const BODY: usize = 100_000;
    let received = number();
    let bytes = received.clone();
    let address = serve(&[(INITIAL_WINDOW, 10_000)], move |peer, frame| {
        if frame.kind == 0 {
            let length = u32::try_from(frame.payload.len()).expect("short");
            bytes.fetch_add(u64::from(length), Ordering::Relaxed);
            let more = length.to_be_bytes();
            let widened = length == 0
                || peer.send(WINDOW_UPDATE, 0, 0, &more)
                    && (frame.ends() || peer.send(WINDOW_UPDATE, 0, frame.stream, &more));
            if !widened {
                return false;
            }
        }
        always_ok(peer, frame)
    });
    let plan = Plan {
        conns: Some(2),
        streams: Some(3),
        requests: Some(60),
        method: "POST".to_owned(),
        body: Some("x".repeat(BODY)),
        ..plan2(address)
    };
    let counts = counts(plan);
    assert_eq!((counts.answered, counts.incomplete_uploads), (60, 0), "{counts:?}");
    assert_eq!(received.load(Ordering::Relaxed), 60 * BODY as u64);
}

#[test]
fn without_keep_alive_each_request_has_a_connection() {
    let address = serve(&[], always_ok);
    let plan = Plan { conns: Some(3), requests: Some(30), ..plan2(address) };
    let once = counts(Plan { keepalive: Switch::Off, ..plan.clone() });
    assert_eq!((once.answered, once.failed), (30, 0), "{once:?}");
    assert!(30 <= once.connects, "{once:?}");
    let few = counts(Plan { requests_per_connection: Some(5), streams: Some(2), ..plan });
    assert_eq!((few.answered, few.failed), (30, 0), "{few:?}");
    assert!((6..=9).contains(&few.connects), "{few:?}");
}

#[test]
fn a_target_that_speaks_only_http_1_is_refused_with_the_cure() {
    let http1 = support::serve(support::always_ok);
    let closes = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || listener.incoming().for_each(drop));
        address
    };
    let text = support::serve(|_, _| true);
    for (address, problem) in [(http1, "not_http2"), (closes, "onnection"), (text, "temporarily")] {
        let plan = Plan { timeout: Nanos(200_000_000), ..plan2(address) };
        let error = run::prepare(plan).expect_err(problem).to_string();
        assert!(error.contains("it doesn't speak HTTP/2"), "{error}");
        assert!(error.ends_with("give --http 1.1"), "{error}");
        assert!(problem == "temporarily" || error.contains(problem), "{error}");
    }
}
