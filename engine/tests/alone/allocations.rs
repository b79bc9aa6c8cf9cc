//! The request loop allocates nothing: counted by an allocator that checks whether the thread is
//! sealed.
#![allow(unsafe_code, reason = "a global allocator can't be written without it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::plan::scenario::{ConnectionOf, Scenario, Step};
use engine::plan::{Model, Plan, Switch};
use engine::sys::seal;
use engine::sys::units::Nanos;

use crate::http2_server::{
    self, CONTINUATION, END_HEADERS, END_STREAM, HEADERS, MAX_STREAMS, plan2,
};
use crate::lines;
use crate::support::{OK, always_ok, open, plan, run, serve};
use crate::tls_server::{self, Authority, BOTH};

struct Counting;

static SEALED_ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Allocations in library code called by a sealed thread.
static LENT_ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

fn count() {
    if seal::is_sealed() {
        SEALED_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
    if seal::is_lent() {
        LENT_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged; counting and noting allocate
// nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        let address = unsafe { System.alloc(layout) };
        lines::allocated(address, layout.size());
        address
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        lines::freed(address);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        lines::freed(address);
        // SAFETY: the caller's promises are passed on.
        let address = unsafe { System.realloc(address, layout, size) };
        lines::allocated(address, size);
        address
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Heads in two pieces, chunks, statuses, closes, failures and silence, in turn.
fn trouble(number: u64, stream: &mut TcpStream) -> bool {
    let (head, rest) = OK.split_at(20);
    match number % 50 {
        0 => return true,
        1 => return stream.write_all(b"SSH-2.0\r\n").is_err(),
        2 => return stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx").is_err(),
        3 => return stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nuntil the close").is_err(),
        number if number % 3 == 0 => stream.write_all(head).expect("sent"),
        number if number % 3 == 1 => {
            let chunks = b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n\
                3\r\nabc\r\n0\r\nA: b\r\n\r\n";
            return stream.write_all(chunks).is_ok();
        }
        _ => return always_ok(number, stream),
    }
    std::thread::sleep(Duration::from_millis(1));
    stream.write_all(rest).is_ok()
}

#[test]
fn the_request_loop_allocates_nothing() {
    let _process = crate::process();
    // The counter works: an allocation of a sealed thread is counted.
    seal::seal();
    drop(std::hint::black_box(Vec::<u8>::with_capacity(64)));
    seal::unseal();
    assert_eq!(SEALED_ALLOCATIONS.swap(0, Ordering::Relaxed), 1);

    let address = serve(always_ok);
    let troubled = serve(trouble);
    let timeout = Nanos(100_000_000);
    let stamp_sends = Some("1/1".parse().expect("a sample"));
    let scenario = |path: &str| Scenario {
        name: String::new(),
        weight: 1,
        step: vec![Step { url: Some(path.to_owned()), ..Step::default() }],
        ..Scenario::default()
    };
    let routes = Plan { scenario: ["/a", "/b?c", "/"].map(scenario).into(), ..plan(address) };
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    write!(file, "id,name\n1,a\n2,\"b \"\"c\"\"\"\n").expect("written");
    let rows = file.path().to_str().expect("text");
    let fields = Plan {
        scenario: ["/a/{{users.name}}", "/{{seq}}?{{zipf 1.1 1000}}", "/"].map(scenario).into(),
        headers: vec!["X-Id: {{uuid}}{{rand -5 5}}{{users.id}}".to_owned()],
        data: [("users".to_owned(), format!("{rows},zipf=1").parse().expect("data"))].into(),
        trace: Some(1),
        ..plan(address)
    };
    let hundred = (0..100).map(|route| {
        let ids = "{{users.id}}/{{rand 1 99}}/{{zipf 1.1 99}}/{{uuid}}";
        scenario(&format!("/r{route}/{ids}?a={{{{seq}}}}&b={{{{users.name}}}}&c={{{{trace_id}}}}"))
    });
    let hundred = Plan { scenario: hundred.collect(), ..fields.clone() };
    let cookies = serve(|_, stream| {
        let head = "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d; Path=/\r\n";
        stream.write_all(format!("{head}Content-Length: 5\r\n\r\nhello").as_bytes()).is_ok()
    });
    let step = |url: &str, repeat| Step { url: Some(url.to_owned()), repeat, ..Step::default() };
    let captured = [("a", "regex:h(.*)o"), ("b", "header:Set-Cookie"), ("c", "status")];
    let captured = captured.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let first = Step { capture: captured.into(), ..step("/in", None) };
    let second =
        Step { expect_body: Some(vec!["contains l".to_owned()]), ..step("/{{a}}", Some(3)) };
    let third = Step { when: "{{c}} is set".parse().ok(), ..step("/?{{raw:c}}", None) };
    let sessions = Plan {
        scenario: vec![Scenario {
            think: "exp 1ms".parse().ok(),
            deadline: Some(Nanos::from_secs(1)),
            step: vec![first, second, third],
            ..Scenario::default()
        }],
        ..plan(cookies)
    };
    let mut own = sessions.clone();
    own.scenario[0].connection = Some(ConnectionOf::Own);
    let stage = ["2..8:200ms", "0:100ms", "8:200ms"].map(|text| text.parse().expect("a stage"));
    let users = Plan {
        model: Some(Model::Closed),
        stage: stage.into(),
        duration: Plan::default().duration,
        ..plan(address)
    };
    let plans = [
        open(hundred.clone(), "2k"),
        Plan { conns: Some(8), ..hundred },
        open(sessions.clone(), "400"),
        Plan { conns: Some(8), model: Some(Model::Closed), ..sessions },
        open(own.clone(), "200"),
        Plan { conns: Some(8), model: Some(Model::Closed), ..own },
        open(fields.clone(), "2k"),
        Plan { conns: Some(8), ..fields.clone() },
        Plan { conns: Some(8), pipeline: 4, ..fields },
        open(routes.clone(), "2k"),
        Plan { conns: Some(8), ..routes.clone() },
        Plan { conns: Some(8), pipeline: 4, ..routes },
        open(plan(address), "2k"),
        Plan { conns: Some(8), ..plan(address) },
        Plan { conns: Some(8), period: Some(Nanos(5_000_000)), ..plan(address) },
        users.clone(),
        Plan { period: Some(Nanos(5_000_000)), ..users },
        Plan { conns: Some(8), stamp_sends, ..plan(address) },
        Plan { timeout, ..open(plan(troubled), "500") },
        Plan { timeout, stamp_sends, ..open(plan(troubled), "500") },
        Plan { timeout, conns: Some(20), ..plan(troubled) },
    ];
    for plan in plans {
        let counts = run(plan.clone()).report.whole.counts;
        assert!(100 < counts.answered, "{counts:?}");
        let causes: Vec<String> = counts.errors.by_name().into_keys().collect();
        let troubled = ["cut_short", "protocol:not_http", "timed_out"];
        assert_eq!(causes, if plan.timeout == timeout { &troubled[..] } else { &[] }, "{counts:?}");
        assert_eq!(SEALED_ALLOCATIONS.load(Ordering::Relaxed), 0, "{plan:?}");
    }
}

/// Resets, refusals, silence, GOAWAY, a lowered limit and closes, in turn.
fn troubled_streams(peer: &mut http2_server::Peer, frame: http2_server::Frame) -> bool {
    let stream = frame.stream;
    match peer.begun {
        _ if !frame.ends() => true,
        10 => peer.reset(stream, 2),
        20 | 21 => peer.reset(stream, 7),
        30 => true,
        40 => peer.settings(&[(MAX_STREAMS, 3)]) && peer.answer(stream),
        90 if peer.connection.is_multiple_of(2) => peer.go_away(stream) && peer.answer(stream),
        100 => false,
        _ => peer.answer(stream),
    }
}

#[test]
fn over_http_2_the_request_loop_allocates_nothing() {
    let _process = crate::process();
    SEALED_ALLOCATIONS.store(0, Ordering::Relaxed);
    let address = http2_server::serve(&[], http2_server::always_ok);
    let troubled = http2_server::serve(&[], troubled_streams);
    let timeout = Nanos(100_000_000);
    let fields = Plan {
        method: "POST".to_owned(),
        headers: vec!["X-Id: {{uuid}}".to_owned()],
        body: Some("{{seq}}".to_owned()),
        ..plan2(address)
    };
    let body = Some("x".repeat(60_000));
    // Header blocks in several frames, in both directions.
    let long = vec![format!("X-Long: {}", "x".repeat(25_000))];
    let in_pieces = http2_server::serve(&[], |peer, frame| {
        !frame.ends() || {
            peer.open.retain(|open| *open != frame.stream);
            peer.send(HEADERS, END_STREAM, frame.stream, &[0x88])
                && peer.send(CONTINUATION, END_HEADERS, frame.stream, b"\0\x01a\x01b")
        }
    });
    let plans = [
        Plan { headers: long.clone(), ..open(plan2(in_pieces), "500") },
        Plan { headers: long, conns: Some(4), ..plan2(in_pieces) },
        open(plan2(address), "2k"),
        Plan { conns: Some(4), ..plan2(address) },
        Plan { conns: Some(4), streams: Some(1), ..plan2(address) },
        Plan { keepalive: Switch::Off, ..open(plan2(address), "500") },
        open(fields.clone(), "1k"),
        Plan { conns: Some(4), ..fields },
        Plan {
            method: "POST".to_owned(),
            body,
            conns: Some(2),
            streams: Some(4),
            ..plan2(address)
        },
        Plan { timeout, ..open(plan2(troubled), "2k") },
        Plan { timeout, conns: Some(4), streams: Some(10), ..plan2(troubled) },
        Plan {
            timeout,
            conns: Some(4),
            streams: Some(10),
            period: Some(Nanos(2_000_000)),
            ..plan2(troubled)
        },
    ];
    for plan in plans {
        let counts = run(plan.clone()).report.whole.counts;
        assert!(100 < counts.answered, "{counts:?}");
        let is_troubled = plan.timeout == timeout;
        assert_eq!(0 < counts.failed && 0 < counts.requeued, is_troubled, "{counts:?}");
        assert_eq!(SEALED_ALLOCATIONS.load(Ordering::Relaxed), 0, "{plan:?}");
    }
}

/// rustls's allocations for a request and its response of one record each, on a connection whose
/// handshake was done before: two, plus the occasional cost of a ticket from the target: see
/// `tls/src/sessions.rs`.
const RUSTLS_PER_REQUEST: f64 = 2.1;

#[test]
fn through_tls_only_rustls_allocates() {
    let _process = crate::process();
    SEALED_ALLOCATIONS.store(0, Ordering::Relaxed);
    let authority = Authority::new();
    for version in BOTH {
        let address =
            tls_server::serve(authority.server("127.0.0.1", &[version]), |_, peer| peer.send(OK));
        let plans = [
            Plan { conns: Some(8), ..authority.plan(address) },
            Plan { headers: vec!["X-Id: {{uuid}}".to_owned()], ..authority.plan(address) },
            open(authority.plan(address), "2k"),
            Plan { keepalive: Switch::Off, ..open(authority.plan(address), "200") },
        ];
        for plan in plans {
            LENT_ALLOCATIONS.store(0, Ordering::Relaxed);
            let counts = run(plan.clone()).report.whole.counts;
            assert!(50 < counts.answered && counts.failed == 0, "{counts:?}");
            assert_eq!(SEALED_ALLOCATIONS.load(Ordering::Relaxed), 0, "{plan:?}");
            let lent = LENT_ALLOCATIONS.load(Ordering::Relaxed) as f64;
            assert!(0.0 < lent, "rustls isn't counted separately");
            if plan.rate.is_none() {
                let each = lent / counts.answered as f64;
                println!("{version:?}: {each:.2} allocations of rustls for each request");
                assert!(each <= RUSTLS_PER_REQUEST, "{version:?}: {each} for a request");
            }
        }
        // Records that are received and sent in parts, many per receive.
        let long =
            [&b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"[..], &[b'x'; 100_000]].concat();
        let address =
            tls_server::serve(authority.server("127.0.0.1", &[version]), move |_, peer| {
                peer.send(&long)
            });
        let body = Some("x".repeat(50_000));
        let plan = Plan { method: "POST".to_owned(), body, ..authority.plan(address) };
        let counts = run(plan).report.whole.counts;
        assert!(50 < counts.answered && counts.failed == 0, "{counts:?}");
        assert_eq!(SEALED_ALLOCATIONS.load(Ordering::Relaxed), 0, "{version:?}: long bodies");
    }
}
