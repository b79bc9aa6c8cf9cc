//! Routes: each has its own latency, response and counts, and the counts add up.

use std::time::Duration;

use crate::client::{Client, config, now_ns, start};
use crate::ledger::{assert_closes, ledger_when};
use target::{Route, TargetConfig};

const MS: u64 = 1_000_000;

/// Requests a path and returns the response's status, its length, and how long it took.
fn get(client: &mut Client, path: &str) -> (String, usize, u64) {
    let sent_ns = now_ns();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
    let response = client.receive();
    (response.status().to_owned(), response.body.len(), now_ns() - sent_ns)
}

#[test]
fn each_route_answers_in_its_own_way_and_counts_its_own_requests() {
    let config = config();
    let slow = Duration::from_millis(20);
    let routes = vec![
        Route { base_latency: slow, ..config.route("/slow") },
        Route { status: 503, body_size: 7, ..config.route("/slow/broken") },
    ];
    let target = start(TargetConfig { routes: routes.clone(), ..config });
    let mut client = Client::connect(target.local_addr());
    for _ in 0..5 {
        let (status, length, took_ns) = get(&mut client, "/slow/7?a=/slow/broken");
        assert_eq!((status.as_str(), length), ("200", 128));
        assert!(20 * MS <= took_ns);
    }
    for path in ["/", "/slower", "/", "/?slow"] {
        assert_eq!(get(&mut client, path).1, 128, "{path}");
    }
    for _ in 0..3 {
        let (status, length, _) = get(&mut client, "/slow/broken");
        assert_eq!((status.as_str(), length), ("503", 7));
    }
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    let paths: Vec<Option<&str>> = ledger.routes.iter().map(|it| it.path.as_deref()).collect();
    assert_eq!(paths, [Some("/slow"), Some("/slow/broken"), None]);
    assert_eq!(ledger.routes.iter().map(|it| it.answered).collect::<Vec<_>>(), [5, 3, 4]);
    let held = |at: usize| ledger.routes[at].held.min.expect("it was answered");
    assert!(20_000.0 <= held(0));
    assert!(held(1).min(held(2)) < 20_000.0, "the slow route doesn't delay the others");
    assert_eq!(ledger.config.routes, routes);
}

#[test]
fn a_request_that_is_never_answered_is_counted_with_its_route() {
    let mut config = config();
    let never = Duration::from_secs(3_600);
    config.routes = vec![Route { base_latency: never, ..config.route("/never") }];
    let target = start(config);
    let ask = "GET /never HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut staying = Client::connect(target.local_addr());
    staying.send(ask);
    let mut leaving = Client::connect(target.local_addr());
    // Two requests at once: both are counted when their client resets the connection.
    leaving.send(ask.repeat(2));
    ledger_when(&target, |ledger| ledger.routes[0].in_flight == 3);
    leaving.reset();
    ledger_when(&target, |ledger| ledger.routes[0].closed_by_peer_unanswered == 2);
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    let counts = &ledger.routes[0];
    assert_eq!((counts.received, counts.answered, counts.in_flight), (3, 0, 1));
    assert_eq!(ledger.routes[1].received, 0);
}

#[test]
fn without_routes_the_ledger_lists_none() {
    let target = start(config());
    Client::connect(target.local_addr()).get();
    assert!(target.stop().expect("a ledger").routes.is_empty());
}
