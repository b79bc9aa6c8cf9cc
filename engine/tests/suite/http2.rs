//! Load over HTTP/2: streams, what a target does to them, and what becomes of their requests.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Http, Plan, Switch};
use engine::record::counts::Counts;
use engine::run;
use engine::sys::units::Nanos;
use engine::verify::{report_alone, with_samples};

use crate::http2_server::{
    INITIAL_WINDOW, MAX_STREAMS, Peer, SETTINGS, WINDOW_UPDATE, Wire, always_ok, frame, plan2,
    serve, serve_over,
};
use crate::sample_run::wrong;
use crate::support::{self, open, run as run_plan};
use crate::tls_server::{self, Authority, BOTH};

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
    assert_eq!((counts.users, counts.users_blocked), (10, 0));
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
    let report = run_plan(open(plan, "400")).report;
    let counts = &report.whole.counts;
    assert!(0 < counts.requeued && 3 <= counts.goaways, "{counts:?}");
    assert_eq!(counts.failed, 0, "{counts:?}");
    // What is left at the end never fills a connection.
    assert!(50 < counts.answered, "{counts:?}");
    let naive = report.whole.naive.max.expect("some were answered");
    assert!(20_000.0 <= naive, "{naive}: a request that was sent again began anew");
}

#[test]
fn requeued_counts_the_streams_above_the_last_one_that_goaway_names() {
    const ALL: u64 = 40;
    let left = AtomicU64::new(ALL);
    let address = serve(&[], move |peer, frame| {
        if !frame.ends() || 2 < left.load(Ordering::Relaxed) && peer.open.len() < 4 {
            return true;
        }
        if left.load(Ordering::Relaxed) <= 2 {
            return peer.answer(frame.stream);
        }
        // Of four requests, a connection serves two.
        left.fetch_sub(2, Ordering::Relaxed);
        let served = [peer.open[0], peer.open[1]];
        peer.go_away(served[1]) && served.into_iter().all(|stream| peer.answer(stream))
    });
    let plan = Plan { conns: Some(1), streams: Some(4), requests: Some(ALL), ..plan2(address) };
    let counts = counts(plan);
    assert_eq!((counts.sent, counts.answered), (ALL, ALL), "{counts:?}");
    assert_eq!((counts.requeued, counts.goaways), (ALL - 2, ALL / 2 - 1), "{counts:?}");
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
            let widened = frame.ends() || peer.send(WINDOW_UPDATE, 0, frame.stream, &more);
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
    for (address, problem) in
        [(http1, "not_http2"), (closes, "onnection"), (text, "no settings came in time")]
    {
        let plan = Plan { timeout: Nanos(200_000_000), ..plan2(address) };
        let error = run::prepare(plan).expect_err(problem).to_string();
        assert!(error.contains("it doesn't speak HTTP/2"), "{error}");
        assert!(error.ends_with("give --http 1.1"), "{error}");
        assert!(error.contains(problem), "{error}");
    }
    let none = serve(&[(MAX_STREAMS, 0)], |_, _| true);
    let error = run::prepare(plan2(none)).expect_err("no stream").to_string();
    assert!(error.ends_with("its limit of HTTP/2 streams is 0; give --http 1.1"), "{error}");
}

#[test]
fn a_report_over_http_2_agrees_with_its_samples() {
    let address = serve(&[(MAX_STREAMS, 50)], |peer, frame| {
        if !frame.ends() {
            return true;
        }
        peer.answer(frame.stream) && (peer.begun != 20 || peer.go_away(frame.stream))
    });
    let folder = tempfile::tempdir().expect("a folder");
    for plan in [open(plan2(address), "500"), Plan { conns: Some(2), ..plan2(address) }] {
        let path = folder.path().join("run.raw");
        let plan = Plan { raw: Some(path.clone()), warmup: Nanos(100_000_000), ..plan };
        let report = run_plan(plan).report;
        assert!(0 < report.whole.counts.goaways, "{:?}", report.whole.counts);
        assert_eq!(wrong(report_alone(&report)), []);
        assert_eq!(wrong(with_samples(&report, &[&path])), []);
    }
}

#[test]
fn a_limit_that_is_lowered_to_none_ends_no_request_and_every_run() {
    let address = serve(&[], |peer, frame| {
        if !frame.ends() {
            return true;
        }
        peer.answer(frame.stream) && (peer.begun != 10 || peer.settings(&[(MAX_STREAMS, 0)]))
    });
    let plan = Plan { conns: Some(1), streams: Some(1), requests: Some(35), ..plan2(address) };
    let counts = self::counts(Plan { duration: Nanos::from_secs(60), ..plan });
    assert_eq!((counts.answered, counts.connects), (35, 4), "{counts:?}");
    // All connections but the one before the run take nothing.
    let connections = AtomicU64::new(0);
    let takes = move |mut stream: TcpStream| -> Option<Box<dyn Wire>> {
        if 0 < connections.fetch_add(1, Ordering::Relaxed) {
            let none = [&MAX_STREAMS.to_be_bytes()[..], &[0; 4]].concat();
            stream.write_all(&frame(SETTINGS, 0, 0, &none)).ok()?;
        }
        Some(Box::new(stream))
    };
    let address = serve_over(&[], takes, |_, _| true);
    let plan = Plan { streams: Some(1), requests: Some(3), ..plan2(address) };
    let plan = Plan { conns: Some(1), duration: Nanos::from_secs(60), ..plan };
    let counts = self::counts(Plan { timeout: Nanos(200_000_000), ..plan });
    assert_eq!((counts.answered, counts.failed), (0, 3), "{counts:?}");
    assert_eq!(counts.errors.by_name(), [("settings_timed_out".to_owned(), 3)].into());
}

#[test]
fn a_header_block_that_does_not_fit_one_send_is_refused_with_the_cure() {
    for (filler, fits) in [(30_000, true), (60_000, false)] {
        let address = serve(&[], always_ok);
        let headers = vec![format!("X-Long: {}", "x".repeat(filler))];
        let plan = Plan { headers, requests: Some(10), conns: Some(2), ..plan2(address) };
        if fits {
            assert_eq!(counts(plan).answered, 10);
            continue;
        }
        let error = run::prepare(plan).expect_err("it is too long").to_string();
        assert!(error.starts_with("--header given 1 times: a header block may have"), "{error}");
        assert!(error.ends_with("--http 1.1"), "{error}");
    }
}

/// A TLS server that chooses one of these protocols by ALPN, and speaks HTTP/2.
fn secure(authority: &Authority, protocols: &[&str]) -> SocketAddr {
    let mut config = authority.server("127.0.0.1", BOTH);
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let config = Arc::new(config);
    let secure = move |socket| {
        let tls_server::Peer { tls, socket, .. } = tls_server::Peer::accept(&config, socket)?;
        Some(Box::new(rustls::StreamOwned::new(tls, socket)) as Box<dyn Wire>)
    };
    serve_over(&[(MAX_STREAMS, 8)], secure, |peer, frame| {
        always_ok(peer, frame) && peer.wire.flush().is_ok()
    })
}

#[test]
fn over_tls_the_version_is_agreed_on_by_alpn() {
    let authority = Authority::new();
    let address = secure(&authority, &["h2"]);
    for (http, rate) in [(Http::V2, None), (Http::Auto, None), (Http::V2, Some("1k"))] {
        let plan = Plan { http, conns: Some(2), ..authority.plan(address) };
        let plan = rate.map_or(plan.clone(), |rate| open(plan, rate));
        let report = run_plan(plan).report;
        let (plan, counts) = (&report.config.plan, &report.whole.counts);
        assert!(100 < counts.answered && counts.failed == 0, "{counts:?}");
        assert_eq!((plan.http, plan.streams), (Http::V2, Some(8)));
        let http2 = report.whole.http2.as_ref().expect("it was spoken");
        assert_eq!(http2.limit, Some(8));
        assert!((1..=8).contains(&http2.in_flight_max), "{http2:?}");
    }
}

#[test]
fn auto_is_http_1_where_the_target_chooses_that() {
    let authority = Authority::new();
    let config = authority.server("127.0.0.1", BOTH);
    let address = tls_server::serve(config, tls_server::always_ok);
    let plan = Plan { http: Http::Auto, ..authority.plan(address) };
    let report = run_plan(plan.clone()).report;
    assert!(100 < report.whole.counts.answered, "{:?}", report.whole.counts);
    assert_eq!((report.config.plan.http, report.config.plan.streams), (Http::V1, None));
    assert_eq!(report.whole.http2, None);
    let error = run::prepare(Plan { http: Http::V2, ..plan }).expect_err("it has no h2");
    assert!(error.to_string().contains("--http 1.1"), "{error}");
}

#[test]
fn fields_bodies_and_several_steps_leave_as_streams() {
    let (bytes, ended) = (number(), number());
    let (data, requests) = (bytes.clone(), ended.clone());
    let address = serve(&[], move |peer, frame| {
        if frame.kind == 0 {
            data.fetch_add(frame.payload.len() as u64, Ordering::Relaxed);
        }
        requests.fetch_add(u64::from(frame.ends()), Ordering::Relaxed);
        always_ok(peer, frame)
    });
    let step = |url: &str, method: &str, body: Option<&str>| Scenario {
        name: String::new(),
        weight: 1,
        step: vec![Step {
            url: Some(url.to_owned()),
            method: Some(method.to_owned()),
            body: body.map(str::to_owned),
            ..Step::default()
        }],
        ..Scenario::default()
    };
    let ten = step("/{{seq}}", "POST", Some("{{rand 10 99}}12345678"));
    let scenario = vec![step("/a", "GET", None), step("/b", "HEAD", None), ten];
    for rate in [None, Some("1k")] {
        let plan = Plan {
            scenario: scenario.clone(),
            headers: vec!["X-Id: {{uuid}}".to_owned()],
            conns: Some(2),
            ..plan2(address)
        };
        let plan = rate.map_or(plan.clone(), |rate| open(plan, rate));
        let report = run_plan(plan).report;
        let counts = &report.whole.counts;
        let posts = report.whole.parts[2].counts.answered;
        assert_eq!((counts.answered, counts.failed), (counts.intended, 0), "{counts:?}");
        assert_eq!(ended.swap(0, Ordering::Relaxed), counts.answered);
        assert_eq!(bytes.swap(0, Ordering::Relaxed), 10 * posts);
        assert!(0 < posts, "{counts:?}");
        let findings = report_alone(&report);
        assert!(findings.iter().all(|finding| finding.ok), "{findings:?}");
    }
}

#[test]
fn a_late_start_is_waited_for_and_none_is_a_failed_connection() {
    let address = serve_over(
        &[],
        |stream| {
            std::thread::sleep(Duration::from_millis(50));
            Some(Box::new(stream))
        },
        always_ok,
    );
    let plan = Plan { conns: Some(2), ..plan2(address) };
    let late = counts(Plan { requests: Some(20), ..plan });
    assert_eq!((late.answered, late.connection_errors.total()), (20, 0), "{late:?}");
    let first = number();
    let address = serve_over(
        &[],
        // Only the run's own connection is spoken to.
        move |stream| {
            if first.fetch_add(1, Ordering::Relaxed) == 0 {
                return Some(Box::new(stream));
            }
            std::thread::sleep(Duration::from_secs(1));
            None
        },
        always_ok,
    );
    let plan = Plan { timeout: Nanos(100_000_000), ..plan2(address) };
    let none = counts(open(plan, "50"));
    let causes: Vec<String> = none.errors.by_name().into_keys().collect();
    assert_eq!((none.answered, causes), (0, vec!["settings_timed_out".to_owned()]), "{none:?}");
}

#[test]
fn a_connection_that_ends_is_replaced_at_once_even_at_the_cap() {
    let (elsewhere, in_time) = (number(), number());
    let (other, seen) = (elsewhere.clone(), in_time.clone());
    let address = serve(&[], move |peer, frame| {
        if !frame.ends() {
            return true;
        }
        if peer.connection != 1 {
            other.fetch_add(1, Ordering::Relaxed);
            return peer.answer(frame.stream);
        }
        if peer.begun < 5 {
            return peer.answer(frame.stream);
        }
        // One that was on its way as the connection ended isn't served.
        if 5 < peer.begun {
            return true;
        }
        if !peer.go_away(frame.stream) {
            return false;
        }
        // The answer to the last request waits until another connection has one.
        for _ in 0..200 {
            if 0 < other.load(Ordering::Relaxed) {
                seen.fetch_add(1, Ordering::Relaxed);
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        peer.answer(frame.stream)
    });
    let counts = counts(open(Plan { conns: Some(1), ..plan2(address) }, "200"));
    assert_eq!((counts.answered, counts.failed), (counts.intended, 0), "{counts:?}");
    assert_eq!((in_time.load(Ordering::Relaxed), counts.connects), (1, 2), "{counts:?}");
}

#[test]
fn many_routes_of_two_hosts_are_answered_by_their_hosts() {
    const ROUTES: u32 = 30;
    let counting = || {
        let requests = number();
        let seen = requests.clone();
        let address = serve(&[], move |peer, frame| {
            seen.fetch_add(u64::from(frame.ends()), Ordering::Relaxed);
            always_ok(peer, frame)
        });
        (address, requests)
    };
    let [(one, of_one), (two, of_two)] = [counting(), counting()];
    let route = |number: u32| Scenario {
        name: String::new(),
        weight: 1 + number % 3,
        step: vec![Step {
            url: Some(format!(
                "http://{}/r{number}",
                if number.is_multiple_of(2) { one } else { two }
            )),
            ..Step::default()
        }],
        ..Scenario::default()
    };
    let plan = Plan {
        scenario: (0..ROUTES).map(route).collect(),
        conns: Some(3),
        streams: Some(4),
        ..plan2(one)
    };
    let period = Some(Nanos(5_000_000));
    for plan in [
        open(plan.clone(), "1k"),
        Plan { period, ..plan.clone() },
        Plan { keepalive: Switch::Off, streams: None, ..open(plan.clone(), "200") },
        plan,
    ] {
        let report = run_plan(plan).report;
        let counts = &report.whole.counts;
        assert_eq!((counts.answered, counts.failed), (counts.intended, 0), "{counts:?}");
        let answered = |parity: usize| -> u64 {
            let parts = report.whole.parts.iter().skip(parity).step_by(2);
            parts.map(|part| part.counts.answered).sum()
        };
        let seen = [&of_one, &of_two].map(|count| count.swap(0, Ordering::Relaxed));
        assert_eq!([answered(0), answered(1)], seen, "{counts:?}");
        assert!(seen.iter().all(|count| 20 < *count), "{seen:?}");
        let findings = report_alone(&report);
        assert!(findings.iter().all(|finding| finding.ok), "{findings:?}");
    }
}
