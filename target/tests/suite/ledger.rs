//! The ledger: its sums match, it holds the configuration, and HTTP and the API agree.

use std::time::{Duration, Instant};

use crate::client::{Client, GET, config, start};
use target::{LEDGER_SCHEMA, Ledger, RouteCounts, Target, TargetConfig};

pub(crate) fn assert_closes(ledger: &Ledger) {
    let unanswered = ledger.faulty + ledger.closed_by_peer_unanswered + ledger.in_flight;
    assert_eq!(ledger.received, ledger.answered + unanswered);
    assert_eq!(ledger.held.count, ledger.answered);
    for route in &ledger.routes {
        let unanswered = route.faulty + route.closed_by_peer_unanswered + route.in_flight;
        assert_eq!(route.received, route.answered + unanswered);
        assert_eq!(route.held.count, route.answered);
        let histogram = route.held.decode().expect("a histogram");
        assert_eq!(histogram.len() + route.held.overflow, route.answered);
    }
    if !ledger.routes.is_empty() {
        let sum = |count: fn(&RouteCounts) -> u64| ledger.routes.iter().map(count).sum::<u64>();
        assert_eq!(ledger.received, sum(|route| route.received));
        assert_eq!(ledger.answered, sum(|route| route.answered));
        assert_eq!(ledger.repeated, sum(|route| route.repeated));
        assert_eq!(ledger.faulty, sum(|route| route.faulty));
    }
    let connections = ledger.connections;
    assert_eq!(connections.accepted, connections.open + connections.closed);
    let arrivals: u64 = ledger.arrivals_per_ms.counts.iter().map(|count| u64::from(*count)).sum();
    assert_eq!(arrivals, ledger.received, "the test takes less than the three minutes kept");
    let histogram = ledger.held.decode().expect("a histogram");
    assert_eq!(histogram.len() + ledger.held.overflow, ledger.answered);
    assert_eq!(ledger.schema, LEDGER_SCHEMA);
}

fn over_http(target: &Target) -> Ledger {
    let mut client = Client::connect(target.local_addr());
    client.send("GET /__ledger HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let response = client.receive();
    assert_eq!(response.status(), "200");
    client.assert_closed();
    serde_json::from_slice(&response.body).expect("a ledger")
}

/// Takes ledgers until one is as expected, for at most a minute.
pub(crate) fn ledger_when(target: &Target, expected: impl Fn(&Ledger) -> bool) -> Ledger {
    let began = Instant::now();
    loop {
        let ledger = target.ledger().expect("a ledger");
        if expected(&ledger) {
            return ledger;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "not as expected within a minute: {}",
            ledger.to_json()
        );
    }
}

#[test]
fn http_and_api_give_the_same_ledger() {
    let target = start(TargetConfig { seed: 42, ..config() });
    let mut client = Client::connect(target.local_addr());
    for _ in 0..10 {
        client.get();
    }
    let served = over_http(&target);
    assert_closes(&served);
    assert_eq!((served.received, served.answered, served.ledger_requests), (10, 10, 1));
    assert_eq!((served.connections.accepted, served.connections.open), (2, 2));
    assert_eq!(served.address, target.local_addr());
    assert_eq!(served.config.seed, 42);
    assert_eq!(served.config.cores.len(), 1, "the ledger names the core actually used");

    let called = target.ledger().expect("a ledger");
    assert_eq!((called.held.clone(), called.received), (served.held, 10));
    let stopped = target.stop().expect("a ledger");
    assert_closes(&stopped);
    assert_eq!(stopped.connections.open, 0);
    let read: Ledger = serde_json::from_str(&stopped.to_json()).expect("a ledger");
    assert_eq!(read, stopped);
}

#[test]
fn an_empty_ledger_has_no_percentiles() {
    let ledger = start(config()).stop().expect("a ledger");
    assert_closes(&ledger);
    let held = &ledger.held;
    assert_eq!(
        (held.min, held.mean, held.p50, held.p9999, held.max),
        (None, None, None, None, None)
    );
    let document: serde_json::Value = serde_json::from_str(&ledger.to_json()).expect("JSON");
    assert!(document["held"]["p99"].is_null());
}

#[test]
fn the_json_names_times_in_ns_and_quantiles_in_us() {
    let base_latency = Duration::from_millis(2);
    let target = start(TargetConfig { base_latency, ..config() });
    Client::connect(target.local_addr()).get();
    let document = target.stop().expect("a ledger").to_json();
    let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    assert_eq!(document["config"]["base_latency_ns"], 2_000_000);
    assert_eq!(document["held"]["unit"], "us");
    let p50 = document["held"]["p50"].as_f64().expect("a number");
    assert!((2_000.0..2_000_000.0).contains(&p50), "{p50}");
}

#[test]
fn a_peer_that_disconnects_is_not_answered() {
    // Long enough for a slow machine to close the connection first; the target notices only when it
    // sends the response.
    let target = start(TargetConfig { base_latency: Duration::from_secs(2), ..config() });
    let mut client = Client::connect(target.local_addr());
    client.send([GET, GET, GET].concat());
    ledger_when(&target, |ledger| ledger.received == 3);
    drop(client);
    let ledger = ledger_when(&target, |ledger| ledger.in_flight == 0);
    assert_closes(&ledger);
    assert_eq!((ledger.answered, ledger.closed_by_peer_unanswered), (0, 3));
}

#[test]
fn requests_held_at_the_stop_stay_unanswered_and_the_port_is_free() {
    let held = TargetConfig { base_latency: Duration::from_secs(600), ..config() };
    let target = start(held.clone());
    let address = target.local_addr();
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        client.send(GET);
    }
    ledger_when(&target, |ledger| ledger.in_flight == 3);
    // Clients waiting for a ledger mustn't delay the stop: one behind a held request, one alone.
    clients[0].send("GET /__ledger HTTP/1.1\r\nHost: a\r\n\r\n");
    ledger_when(&target, |ledger| ledger.ledger_requests == 1);
    let mut asks = Client::connect(address);
    asks.send("GET /__ledger HTTP/1.1\r\nHost: a\r\n\r\n");
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    assert_eq!((ledger.received, ledger.in_flight), (3, 3));
    for client in &mut clients {
        client.assert_closed();
    }
    let again = start(TargetConfig { listen: address, ..config() });
    assert_eq!(again.local_addr(), address);
    assert_eq!(Client::connect(address).get().status(), "200");
}

#[test]
fn several_cores_give_one_ledger() {
    let cores: Vec<usize> = core_affinity::get_core_ids()
        .expect("an affinity mask")
        .into_iter()
        .map(|core| core.id)
        .take(2)
        .collect();
    let target = start(TargetConfig { cores: cores.clone(), ..config() });
    let mut clients: Vec<Client> = (0..40).map(|_| Client::connect(target.local_addr())).collect();
    for client in &mut clients {
        for _ in 0..5 {
            client.get();
        }
    }
    // One core serves the request, but the ledger covers both.
    let served = over_http(&target);
    assert_closes(&served);
    assert_eq!((served.received, served.connections.accepted), (200, 41));
    assert_eq!(served.config.cores, cores);
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    assert_eq!((ledger.answered, ledger.connections.closed), (200, 41));
}
