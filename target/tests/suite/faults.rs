//! Faults: each kind does what it says, to exactly every Nth request, and the ledger counts it.

use std::time::Duration;

use rustls::version::TLS13;
use target::{Fault, FaultKind, Route, Target, TargetConfig};

use crate::client::{Client, GET, config, now_ns, start};
use crate::http2_client::{Http2, run};
use crate::ledger::{assert_closes, ledger_when};
use crate::tls::{start_tls, tls, trusting};

const HOLD: Duration = Duration::from_millis(20);
const HEAD: &str = "HEAD / HTTP/1.1\r\nHost: test\r\n\r\n";

/// A target of one route whose requests are held for 20 ms.
fn faulty(kind: FaultKind, every: u64) -> Target {
    let fault = Some(Fault { kind, every });
    start(TargetConfig { fault, base_latency: HOLD, ..config() })
}

/// The outcomes in a target's ledger: received, answered, repeated, faulty.
fn outcomes(target: Target) -> [u64; 4] {
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    [ledger.received, ledger.answered, ledger.repeated, ledger.faulty]
}

#[test]
fn every_nth_request_gets_a_reset() {
    let target = faulty(FaultKind::Reset, 3);
    let mut client = Client::connect(target.local_addr());
    for number in 1..=10 {
        client.send(GET);
        if number % 3 == 0 {
            client.assert_reset();
            client = Client::connect(target.local_addr());
        } else {
            assert_eq!(client.receive().body.len(), 128);
        }
    }
    assert_eq!(outcomes(target), [10, 7, 0, 3]);
}

#[test]
fn a_reset_is_not_held_and_closes_the_connection() {
    let fault = Some(Fault { kind: FaultKind::Reset, every: 1 });
    // A held response would come long after the client has stopped waiting.
    let base_latency = Duration::from_secs(600);
    let target = start(TargetConfig { fault, base_latency, ..config() });
    for _ in 0..5 {
        let mut client = Client::connect(target.local_addr());
        client.send(GET);
        client.assert_reset();
    }
    ledger_when(&target, |ledger| ledger.connections.closed == 5);
    assert_eq!(outcomes(target), [5, 0, 0, 5]);
}

#[test]
fn a_reset_comes_after_the_responses_before_it_and_ends_the_requests_behind_it() {
    let target = faulty(FaultKind::Reset, 3);
    let mut client = Client::connect(target.local_addr());
    client.send(GET.repeat(5));
    for _ in 0..2 {
        assert_eq!(client.receive().body.len(), 128);
    }
    client.assert_reset();
    assert_eq!(outcomes(target), [3, 2, 0, 1]);
}

#[test]
fn a_reset_is_one_through_tls_too() {
    let fault = Some(Fault { kind: FaultKind::Reset, every: 2 });
    let (target, root) = start_tls(TargetConfig { fault, ..config() });
    let tls = tls(&trusting(&root, &TLS13), "localhost");
    let mut client = Client::connect_tls(target.local_addr(), tls);
    client.get();
    client.send(GET);
    client.assert_reset();
    assert_eq!(outcomes(target), [2, 1, 0, 1]);
}

#[test]
fn every_nth_response_is_cut_short() {
    let target = faulty(FaultKind::Short, 2);
    let mut whole = Vec::new();
    for _ in 0..3 {
        let mut client = Client::connect(target.local_addr());
        whole = client.get().body;
        let sent_ns = now_ns();
        client.send(GET.repeat(2));
        assert_eq!(client.receive_head().content_length(), 128);
        assert_eq!(client.receive_rest(), whole[..64]);
        assert!(HOLD.as_nanos() <= u128::from(now_ns() - sent_ns));
    }
    assert_eq!(whole.len(), 128);
    assert_eq!(outcomes(target), [6, 3, 0, 3]);
}

#[test]
fn a_response_without_a_body_is_not_cut() {
    let target = faulty(FaultKind::Short, 1);
    let mut client = Client::connect(target.local_addr());
    client.send([HEAD, HEAD].concat());
    for _ in 0..2 {
        assert_eq!(client.receive_head().content_length(), 128);
    }
    client.send(GET);
    client.receive_head();
    assert_eq!(client.receive_rest().len(), 64);
    assert_eq!(outcomes(target), [3, 2, 0, 1]);
}

#[test]
fn every_nth_response_comes_twice() {
    let target = faulty(FaultKind::Repeat, 2);
    let mut client = Client::connect(target.local_addr());
    for number in 1..=5 {
        let sent_ns = now_ns();
        let first = client.get();
        assert!(HOLD.as_nanos() <= u128::from(now_ns() - sent_ns));
        if number % 2 == 0 {
            let second = client.receive();
            assert_eq!((second.head, second.body), (first.head, first.body));
        }
    }
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let (first, second) = (client.receive(), client.receive());
    assert_eq!(first.body, second.body);
    client.assert_closed();
    assert_eq!(outcomes(target), [6, 6, 3, 0]);
}

#[test]
fn a_peer_that_has_gone_before_a_short_response_is_not_faulty() {
    let fault = Some(Fault { kind: FaultKind::Short, every: 2 });
    let base_latency = Duration::from_secs(2);
    let target = start(TargetConfig { fault, base_latency, ..config() });
    let mut client = Client::connect(target.local_addr());
    client.send([GET, GET].concat());
    ledger_when(&target, |ledger| ledger.in_flight == 2);
    client.reset();
    let ledger = ledger_when(&target, |ledger| ledger.in_flight == 0);
    assert_closes(&ledger);
    assert_eq!((ledger.faulty, ledger.closed_by_peer_unanswered), (0, 2));
}

#[test]
fn each_route_counts_its_own_requests_to_its_own_faults() {
    let config = config();
    let fault = |kind, every| Some(Fault { kind, every });
    let routes = vec![
        Route { fault: fault(FaultKind::Short, 4), ..config.route("/short") },
        Route { fault: fault(FaultKind::Repeat, 5), ..config.route("/repeat") },
    ];
    let target = start(TargetConfig { fault: fault(FaultKind::Reset, 3), routes, ..config });
    for number in 1..=20 {
        let ask = |path: &str| {
            let mut client = Client::connect(target.local_addr());
            client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"));
            client
        };
        let mut short = ask("/short/7");
        short.receive_head();
        assert_eq!(short.receive_rest().len(), if number % 4 == 0 { 64 } else { 128 });
        let mut repeat = ask("/repeat");
        let len = repeat.receive_rest().len();
        let mut other = ask("/other");
        if number % 3 == 0 {
            other.assert_reset();
        } else {
            let response = other.receive();
            let times = if number % 5 == 0 { 2 } else { 1 };
            assert_eq!(len, times * (response.head.len() + response.body.len()));
        }
    }
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    let of = |at: usize| {
        let route = &ledger.routes[at];
        [route.received, route.answered, route.repeated, route.faulty]
    };
    assert_eq!([of(0), of(1), of(2)], [[20, 15, 0, 5], [20, 20, 4, 0], [20, 14, 0, 6]]);
    assert_eq!((ledger.repeated, ledger.faulty), (4, 11));
}

#[test]
fn http2_is_answered_without_faults() {
    for kind in [FaultKind::Reset, FaultKind::Short, FaultKind::Repeat] {
        let target = faulty(kind, 1);
        run(async {
            let mut client = Http2::connect(target.local_addr()).await;
            for _ in 0..3 {
                let sent_ns = now_ns();
                assert_eq!(client.get("/").await.body.len(), 128);
                assert!(HOLD.as_nanos() <= u128::from(now_ns() - sent_ns));
            }
        });
        assert_eq!(outcomes(target), [3, 3, 0, 0]);
    }
}
