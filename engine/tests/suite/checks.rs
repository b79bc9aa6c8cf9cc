//! Checks of responses: what fails one is bad, with a latency, under the check's name, over both
//! protocols, however the response arrives.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Http, Plan};
use engine::report::Report;
use engine::verify::{report_alone, with_samples};

use crate::http2_server::{self, DATA, END_HEADERS, END_STREAM, HEADERS, Peer, frame};
use crate::sample_run::wrong;
use crate::support::{open, plan, run, serve};

/// The kinds of answers that the servers give in turn, and the check that each fails.
const ANSWERS: [(&str, Option<&str>); 6] = [
    ("{\"ok\": true}", None),
    ("{\"ok\": false}", Some("body json:/ok = true")),
    ("no JSON, but ok", Some("body json:/ok = true")),
    ("LONG", Some("body_too_long")),
    ("GZIP", Some("body_encoded")),
    ("NAMELESS {\"ok\": true}", Some("header X-Name: regex ^a+$")),
];
const LONG: usize = 100;

/// A body and its header lines.
fn answer(kind: &str) -> (String, String) {
    let encoding = if kind == "GZIP" { "Content-Encoding: gzip\r\n" } else { "" };
    let name = if kind.starts_with("NAMELESS") { "X-Name: b" } else { "X-Name: aaa" };
    let body = if kind == "LONG" { "x".repeat(LONG + 1) } else { kind.replace("NAMELESS ", "") };
    (format!("{name}\r\n{encoding}"), body)
}

/// Each answer in turn; with a fixed length in one piece, or chunked and cut.
fn serve_in_turn() -> (SocketAddr, Arc<[AtomicU64; ANSWERS.len()]>) {
    let served: Arc<[AtomicU64; ANSWERS.len()]> = Arc::default();
    let counts = served.clone();
    let address = serve(move |number, stream: &mut TcpStream| {
        let place = usize::try_from(number).expect("few") % ANSWERS.len();
        counts[place].fetch_add(1, Ordering::Relaxed);
        let (head, body) = answer(ANSWERS[place].0);
        let length = body.len();
        if (number / 7).is_multiple_of(2) {
            let head = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {length}\r\n\r\n");
            return stream.write_all((head + &body).as_bytes()).is_ok();
        }
        let (first, rest) = body.split_at(length / 2);
        let pieces = [
            "HTTP/1.1 200 OK\r\n".to_owned(),
            format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{first}", first.len()),
            format!("\r\n{:x}\r\n", rest.len()),
            format!("{rest}\r\n0\r\n\r\n"),
        ];
        pieces.iter().all(|piece| stream.write_all(piece.as_bytes()).is_ok())
    });
    (address, served)
}

fn checked(plan: Plan) -> Plan {
    Plan {
        expect_body: vec!["json:/ok = true".to_owned()],
        expect_header: vec!["X-Name: regex ^a+$".to_owned()],
        body_max: Some(LONG as u64),
        ..plan
    }
}

/// The report's checks hold what the server gave.
fn is_as_served(report: &Report, served: &[AtomicU64; ANSWERS.len()]) {
    let counts = &report.whole.counts;
    let of = |check: &str| {
        let failed = report.whole.checks.iter().find(|one| one.check == check);
        failed.expect("it is listed").failed
    };
    let served = served.iter().map(|served| served.load(Ordering::Relaxed));
    let served: Vec<u64> = served.collect();
    assert_eq!(counts.answered, served.iter().sum::<u64>());
    for check in ["body_too_long", "body_encoded", "header X-Name: regex ^a+$"] {
        let expected = ANSWERS.iter().zip(&served).filter(|((_, fails), _)| *fails == Some(check));
        assert_eq!(of(check), expected.map(|(_, served)| served).sum::<u64>(), "{check}");
    }
    assert_eq!(of("body json:/ok = true"), served[1] + served[2]);
    assert_eq!(counts.failed_checks, counts.answered - served[0]);
    assert_eq!((counts.unexpected_status, counts.failed), (0, 0));
    assert_eq!(report.whole.bad, counts.intended - served[0]);
    assert_eq!(report.whole.naive.count, counts.answered, "each has a latency");
    let successes = report.whole.successes.as_ref().expect("they are apart");
    assert_eq!(successes.naive.count, served[0]);
    let over_time = report.series.intervals.iter().map(|it| it.counts.failed_checks);
    assert_eq!(over_time.sum::<u64>(), counts.failed_checks);
}

#[test]
fn responses_are_checked_however_they_arrive() {
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("run.raw");
    let (address, served) = serve_in_turn();
    let plan = Plan { raw: Some(raw.clone()), conns: Some(8), ..checked(plan(address)) };
    let report = run(open(plan, "1k")).report;
    is_as_served(&report, &served);
    assert_eq!(wrong(report_alone(&report)), []);
    assert_eq!(wrong(with_samples(&report, &[&raw])), []);
    let mut forged = report;
    forged.whole.checks[0].failed += 1;
    forged.whole.checks[1].failed -= 1;
    assert_ne!(wrong(with_samples(&forged, &[&raw])), []);
}

#[test]
fn each_step_has_its_own_checks() {
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("run.raw");
    let address = serve(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").is_ok()
    });
    let scenario = |name: &str, check: &[&str]| Scenario {
        name: name.to_owned(),
        weight: 1,
        step: vec![Step {
            expect_body: Some(check.iter().map(|check| (*check).to_owned()).collect()),
            ..Step::default()
        }],
        ..Scenario::default()
    };
    let plan = Plan {
        raw: Some(raw.clone()),
        scenario: vec![
            scenario("good", &["contains hell"]),
            scenario("none", &[]),
            scenario("bad", &["regex ^h.*o$", "contains heaven"]),
        ],
        ..plan(address)
    };
    let report = run(open(plan, "500")).report;
    let failed: Vec<(&str, &str, u64)> = report
        .whole
        .checks
        .iter()
        .map(|one| (one.name.as_str(), one.check.as_str(), one.failed))
        .collect();
    let of_bad = report.whole.parts[2].counts.intended;
    assert_eq!(
        failed,
        [
            ("good", "body_too_long", 0),
            ("good", "body_encoded", 0),
            ("good", "body contains hell", 0),
            ("bad", "body_too_long", 0),
            ("bad", "body_encoded", 0),
            ("bad", "body regex ^h.*o$", 0),
            ("bad", "body contains heaven", of_bad),
        ]
    );
    let bad: Vec<u64> = report.whole.parts.iter().map(|part| part.bad).collect();
    assert_eq!(bad, [0, 0, of_bad]);
    assert_eq!(wrong(report_alone(&report)), []);
    assert_eq!(wrong(with_samples(&report, &[&raw])), []);
}

#[test]
fn responses_over_http_2_are_checked_stream_by_stream() {
    let served: Arc<[AtomicU64; ANSWERS.len()]> = Arc::default();
    let counts = served.clone();
    let next = AtomicU64::new(0);
    let address = http2_server::serve(&[], move |peer: &mut Peer, request| {
        if !request.ends() {
            return true;
        }
        let place = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).expect("few");
        let place = place % ANSWERS.len();
        counts[place].fetch_add(1, Ordering::Relaxed);
        let (head, body) = answer(ANSWERS[place].0);
        let mut block = vec![0x88];
        // More than a head of HTTP/1.1 may have.
        let others = (0..130).map(|at| format!("X-Other-{at}: {at}"));
        for line in others.chain(head.lines().map(str::to_owned)) {
            let (name, value) = line.split_once(": ").expect("a header");
            let name = name.to_ascii_lowercase();
            // A literal without indexing, in plain text.
            block.push(0);
            for text in [name.as_str(), value] {
                block.push(u8::try_from(text.len()).expect("short"));
                block.extend_from_slice(text.as_bytes());
            }
        }
        let (first, rest) = body.as_bytes().split_at(body.len() / 2);
        let padded = [&[3], rest, &[0; 3]].concat();
        const PADDED: u8 = 8;
        let frames = [
            frame(HEADERS, END_HEADERS, request.stream, &block),
            frame(DATA, 0, request.stream, first),
            frame(DATA, END_STREAM | PADDED, request.stream, &padded),
        ];
        peer.wire.write_all(&frames.concat()).is_ok()
    });
    let plan = checked(Plan { http: Http::V2, streams: Some(10), ..plan(address) });
    let report = run(open(plan, "1k")).report;
    is_as_served(&report, &served);
    assert_eq!(wrong(report_alone(&report)), []);
}
