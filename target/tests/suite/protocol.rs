//! HTTP/1.1 as seen by a client: framing, persistence, order, rejected requests.

use crate::client::{Client, GET, config, start};

#[test]
fn a_connection_serves_many_requests() {
    let target = start(config());
    let mut client = Client::connect(target.local_addr());
    for _ in 0..50 {
        let response = client.get();
        assert_eq!(response.status(), "200");
        assert_eq!(response.body.len(), 128);
        assert!(!response.head.contains("Connection:"), "{}", response.head);
    }
    let ledger = target.stop().expect("a ledger");
    assert_eq!((ledger.received, ledger.answered), (50, 50));
    assert_eq!(ledger.connections.accepted, 1);
}

#[test]
fn the_body_has_the_size_asked_for() {
    for body_size in [0, 1, 3_000_000] {
        let target = start(target::TargetConfig { body_size, ..config() });
        let mut client = Client::connect(target.local_addr());
        for _ in 0..2 {
            assert_eq!(client.get().body.len(), body_size);
        }
        assert_eq!(target.stop().expect("a ledger").answered, 2);
    }
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let target = start(config());
    let mut client = Client::connect(target.local_addr());
    let head = "HEAD / HTTP/1.1\r\nHost: test\r\n\r\n";
    let ledger = "GET /__ledger HTTP/1.1\r\nHost: test\r\n\r\n";
    client.send([GET, ledger, head, GET].concat());
    let sample = client.receive();
    let document = client.receive();
    let bare = client.receive_head();
    assert_eq!(sample.body.len(), 128);
    assert!(document.head.contains("application/json"), "{}", document.head);
    assert_eq!(bare.content_length(), 128);
    assert_eq!(client.receive().body, sample.body);
}

#[test]
fn more_pipelined_requests_than_may_wait_are_all_answered() {
    let target = start(config());
    let mut client = Client::connect(target.local_addr());
    client.send(GET.repeat(1_000));
    for _ in 0..1_000 {
        assert_eq!(client.receive().status(), "200");
    }
    assert_eq!(target.stop().expect("a ledger").answered, 1_000);
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let target = start(config());
    let mut client = Client::connect(target.local_addr());
    for byte in GET.bytes() {
        client.send([byte]);
    }
    assert_eq!(client.receive().status(), "200");
    assert_eq!(target.stop().expect("a ledger").received, 1);
}

#[test]
fn a_head_larger_than_the_first_buffer_is_read() {
    let target = start(config());
    let mut client = Client::connect(target.local_addr());
    let field = format!("X: {}\r\n", "y".repeat(4_000));
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n{GET}", field.repeat(3)));
    assert_eq!(client.receive().status(), "200");
    assert_eq!(client.receive().status(), "200");
}

#[test]
fn close_is_honoured() {
    let target = start(config());
    let check = |request: &str, announced: Option<&str>, closes: bool| {
        let mut client = Client::connect(target.local_addr());
        client.send(request);
        let response = client.receive();
        assert_eq!(response.status(), "200");
        assert_eq!(response.body.len(), 128);
        let connection = response.head.lines().find_map(|line| line.strip_prefix("Connection: "));
        assert_eq!(connection, announced, "{request:?}");
        if closes {
            client.assert_closed();
        } else {
            client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            assert_eq!(client.receive().status(), "200");
            client.assert_closed();
        }
    };
    check(GET, None, false);
    check("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", Some("close"), true);
    check("GET / HTTP/1.0\r\n\r\n", Some("close"), true);
    check("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Some("keep-alive"), false);
}

#[test]
fn requests_after_a_close_are_ignored() {
    let target = start(config());
    let mut client = Client::connect(target.local_addr());
    client.send(["GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", GET, GET].concat());
    assert_eq!(client.receive().status(), "200");
    client.finish();
    client.assert_closed();
    assert_eq!(target.stop().expect("a ledger").received, 1);
}

#[test]
fn request_bodies_are_discarded() {
    let target = start(config());
    let mut client = Client::connect(target.local_addr());
    let bodies = [
        "Content-Length: 5\r\n\r\nGET /".to_owned(),
        "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nTrailer: x\r\n\r\n".to_owned(),
        format!("Content-Length: 200000\r\n\r\n{}", "z".repeat(200_000)),
        format!(
            "Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
            "4000\r\n".to_owned() + &"z".repeat(0x4000) + "\r\n"
        ),
    ];
    for body in &bodies {
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{body}{GET}"));
        assert_eq!(client.receive().status(), "200");
        assert_eq!(client.receive().status(), "200");
    }
    let ledger = target.stop().expect("a ledger");
    assert_eq!((ledger.received, ledger.rejected), (8, 0));
}

#[test]
fn expect_100_continue_is_answered() {
    let target = start(config());
    let mut client = Client::connect(target.local_addr());
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(client.receive_head().status(), "100");
    client.send("ok");
    assert_eq!(client.receive().status(), "200");
    assert_eq!(target.stop().expect("a ledger").answered, 1);
}

#[test]
fn a_half_closed_client_gets_its_responses() {
    let target = start(config());
    let mut client = Client::connect(target.local_addr());
    client.send([GET, GET].concat());
    client.finish();
    assert_eq!(client.receive().status(), "200");
    assert_eq!(client.receive().status(), "200");
    client.assert_closed();
    let ledger = target.stop().expect("a ledger");
    assert_eq!((ledger.answered, ledger.closed_by_peer_unanswered), (2, 0));
}

#[test]
fn malformed_requests_are_rejected_and_the_connection_closed() {
    let target = start(config());
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(20_000));
    let cases = [
        ("no request\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "400"),
        (long.as_str(), "431"),
    ];
    for (request, status) in cases {
        let mut client = Client::connect(target.local_addr());
        client.send([GET, request].concat());
        assert_eq!(client.receive().status(), "200", "the request before it is answered first");
        assert_eq!(client.receive().status(), status, "{request:?}");
        client.finish();
        client.assert_closed();
    }
    let ledger = target.stop().expect("a ledger");
    assert_eq!((ledger.rejected, ledger.answered), (5, 5));
}
