//! HTTP/2 as seen by a client: a stream is a request, with the same behaviour and counts as in
//! HTTP/1.1.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::Method;
use rustls::version::TLS13;
use target::{Ledger, Route, TargetConfig};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;

use crate::client::{Client, config, now_ns, socket, start};
use crate::http2_client::{Http2, read, request, run};
use crate::ledger::{assert_closes, ledger_when};
use crate::tls::{start_tls, trusting};

const MS: u64 = 1_000_000;
/// The first bytes of a connection, and settings without any.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[test]
fn a_connection_serves_many_streams_at_once() {
    let target = start(config());
    run(async {
        let mut client = Http2::connect(target.local_addr()).await;
        for _ in 0..3 {
            let mut responses = Vec::new();
            for _ in 0..100 {
                responses.push(client.ask("/").await);
            }
            for response in responses {
                let answer = read(response).await.expect("a response");
                assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 128));
                assert_eq!(answer.fields["content-length"], "128");
                assert_eq!(answer.fields["content-type"], "text/plain");
            }
        }
    });
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    assert_eq!((ledger.received, ledger.answered), (300, 300));
    assert_eq!((ledger.connections.accepted, ledger.connections.http2), (1, 1));
}

#[test]
fn both_protocols_share_a_port_and_a_ledger() {
    let target = start(config());
    let mut old = Client::connect(target.local_addr());
    old.get();
    run(async {
        let mut client = Http2::connect(target.local_addr()).await;
        client.get("/").await;
        let head = read(client.send(Method::HEAD, "/").await.expect("sent")).await;
        let head = head.expect("a response");
        assert_eq!(
            (head.body.len(), &head.fields["content-length"]),
            (0, &"128".parse().expect("a value"))
        );
        let answer = client.get("/__ledger?now").await;
        assert_eq!(answer.fields["content-type"], "application/json");
        let ledger: Ledger = serde_json::from_slice(&answer.body).expect("a ledger");
        assert_eq!((ledger.answered, ledger.ledger_requests), (3, 1));
    });
    old.get();
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    assert_eq!((ledger.answered, ledger.ledger_requests), (4, 1));
    assert_eq!((ledger.connections.accepted, ledger.connections.http2), (2, 1));
}

#[test]
fn the_first_bytes_decide_even_if_they_come_one_by_one() {
    let target = start(config());
    let mut socket = socket(target.local_addr());
    for byte in PREFACE {
        socket.write_all(&[*byte]).expect("sent");
    }
    let mut header = [0; 9];
    socket.read_exact(&mut header).expect("a frame");
    assert_eq!(header[3..], [4, 0, 0, 0, 0, 0], "settings");
    let mut client = Client::connect(target.local_addr());
    for piece in ["P", "OST / HTTP/1.1\r\nHost: a\r\n\r", "\n"] {
        client.send(piece);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.receive().status(), "200");
    let mut client = Client::connect(target.local_addr());
    client.send("PRI * HTTP/2.0\r\n\r\nNO");
    assert_eq!(client.receive().status(), "400");
    let mut client = Client::connect(target.local_addr());
    client.send("PRI");
    client.finish();
    client.assert_closed();
    let ledger = target.stop().expect("a ledger");
    assert_eq!((ledger.answered, ledger.rejected, ledger.connections.http2), (1, 1, 1));
}

#[test]
fn a_stream_waits_for_no_other() {
    let mut config = config();
    let slow = Duration::from_millis(50);
    config.routes = vec![
        Route { base_latency: slow, ..config.route("/slow") },
        Route { status: 503, body_size: 0, ..config.route("/broken") },
    ];
    let target = start(config);
    run(async {
        let mut client = Http2::connect(target.local_addr()).await;
        let sent_ns = now_ns();
        let (sender, mut order) = unbounded_channel();
        for path in ["/slow/1", "/slow/2?a", "/broken", "/"] {
            let (response, sender) = (client.ask(path).await, sender.clone());
            tokio::spawn(async move {
                let answer = read(response).await.expect("a response");
                sender.send((path, answer.status.as_u16(), answer.body.len())).expect("a test");
            });
        }
        let mut fast = [order.recv().await, order.recv().await].map(|next| next.expect("one"));
        fast.sort_unstable();
        assert_eq!(fast, [("/", 200, 128), ("/broken", 503, 0)]);
        let slow = [order.recv().await, order.recv().await].map(|next| next.expect("one").0);
        assert_eq!(slow, ["/slow/1", "/slow/2?a"]);
        assert!(sent_ns + 50 * MS <= now_ns());
    });
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    assert_eq!(ledger.routes.iter().map(|route| route.answered).collect::<Vec<_>>(), [2, 1, 1]);
    assert!(ledger.routes[0].held.min.is_some_and(|min| 50_000.0 <= min));
}

#[test]
fn a_serial_server_takes_one_stream_at_a_time() {
    let base_latency = Duration::from_millis(10);
    let target = start(TargetConfig { base_latency, serial: true, ..config() });
    run(async {
        let mut client = Http2::connect(target.local_addr()).await;
        let sent_ns = now_ns();
        let mut responses = Vec::new();
        for _ in 0..8 {
            responses.push(client.ask("/").await);
        }
        for (k, response) in (1..).zip(responses) {
            read(response).await.expect("a response");
            assert!(sent_ns + k * 10 * MS <= now_ns());
        }
    });
    assert_closes(&target.stop().expect("a ledger"));
}

#[test]
fn request_bodies_are_discarded_and_expectations_met() {
    let target = start(config());
    run(async {
        let client = Http2::connect(target.local_addr()).await;
        let mut posts = Vec::new();
        for length in [0, 5, 300_000] {
            let mut requests = client.requests.clone().ready().await.expect("open");
            let post = request(Method::POST, "/");
            let (response, mut body) = requests.send_request(post, false).expect("sent");
            body.send_data(Bytes::from(vec![b'z'; length]), true).expect("sent");
            posts.push(response);
        }
        for response in posts {
            assert_eq!(read(response).await.expect("a response").body.len(), 128);
        }
        let mut requests = client.requests.clone().ready().await.expect("open");
        let mut post = request(Method::POST, "/");
        post.headers_mut().insert("expect", "100-continue".parse().expect("a value"));
        let (mut response, mut body) = requests.send_request(post, false).expect("sent");
        let interim = std::future::poll_fn(|context| response.poll_informational(context)).await;
        assert_eq!(interim.expect("an interim response").expect("one").status().as_u16(), 100);
        body.send_data(Bytes::from_static(b"ok"), false).expect("sent");
        body.send_trailers(http::HeaderMap::new()).expect("sent");
        assert_eq!(read(response).await.expect("a response").status.as_u16(), 200);
    });
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    assert_eq!((ledger.received, ledger.answered), (4, 4));
}

#[test]
fn a_response_counts_as_answered_only_once_all_of_it_has_left() {
    let target = start(TargetConfig { body_size: 1 << 20, ..config() });
    run(async {
        let mut client = Http2::connect(target.local_addr()).await;
        assert_eq!(client.get("/").await.body.len(), 1 << 20);
        // This one is never read, so it stops at the end of its window.
        let response = client.ask("/").await.await.expect("a head");
        ledger_when(&target, |ledger| (ledger.received, ledger.in_flight) == (2, 1));
        drop(response);
        // Both ends meet again in the next response.
        assert_eq!(client.get("/").await.body.len(), 1 << 20);
        ledger_when(&target, |ledger| ledger.closed_by_peer_unanswered == 1);
    });
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    assert_eq!((ledger.received, ledger.answered), (3, 2));
}

#[test]
fn streams_that_are_reset_while_held_and_lost_connections_are_not_answered() {
    let target = start(TargetConfig { base_latency: Duration::from_millis(300), ..config() });
    run(async {
        let mut client = Http2::connect(target.local_addr()).await;
        let mut requests = client.requests.clone().ready().await.expect("open");
        let (reset, mut stream) =
            requests.send_request(request(Method::GET, "/"), true).expect("sent");
        let kept = client.ask("/").await;
        tokio::task::yield_now().await;
        while target.ledger().expect("a ledger").received < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        stream.send_reset(Reason::CANCEL);
        drop(reset);
        read(kept).await.expect("a response");
        ledger_when(&target, |ledger| ledger.in_flight == 0);
    });
    run(async {
        let mut client = Http2::connect(target.local_addr()).await;
        let _held = [client.ask("/").await, client.ask("/").await];
        while target.ledger().expect("a ledger").received < 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let ledger = ledger_when(&target, |ledger| ledger.in_flight == 0);
    assert_closes(&ledger);
    assert_eq!((ledger.answered, ledger.closed_by_peer_unanswered), (1, 3));
}

#[test]
fn streams_held_at_the_stop_stay_unanswered() {
    let target = start(TargetConfig { base_latency: Duration::from_secs(600), ..config() });
    let ledger = run(async {
        let mut client = Http2::connect(target.local_addr()).await;
        let held = [client.ask("/").await, client.ask("/").await];
        while target.ledger().expect("a ledger").in_flight < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let ledger = target.stop().expect("a ledger");
        for response in held {
            read(response).await.expect_err("the connection has ended");
        }
        ledger
    });
    assert_closes(&ledger);
    assert_eq!((ledger.in_flight, ledger.connections.open), (2, 0));
}

#[test]
fn a_connection_that_breaks_the_protocol_is_rejected() {
    let target = start(config());
    let mut socket = socket(target.local_addr());
    socket.write_all(PREFACE).expect("sent");
    // DATA of no stream.
    socket.write_all(&[0, 0, 1, 0, 0, 0, 0, 0, 0, b'x']).expect("sent");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("an orderly end");
    // Last, a GOAWAY with PROTOCOL_ERROR.
    assert_eq!(answer.windows(4).filter(|part| *part == [0, 0, 0, 1]).count(), 1, "{answer:?}");
    let ledger = ledger_when(&target, |ledger| ledger.connections.open == 0);
    assert_eq!((ledger.rejected, ledger.received), (1, 0));
}

#[test]
fn streams_that_were_reset_before_they_were_read_do_no_harm() {
    // As after a stop of the process: requests, and what their clients gave up meanwhile, come in
    // one read.
    let target = start(config());
    let mut socket = socket(target.local_addr());
    let mut bytes = PREFACE.to_vec();
    let headers = |stream: u8| {
        // GET, http, and the path /: fields with an index of their own.
        [0, 0, 3, 1, 5, 0, 0, 0, stream, 0x82, 0x86, 0x84]
    };
    for stream in (1..200).step_by(2) {
        bytes.extend(headers(stream));
        bytes.extend([0, 0, 4, 3, 0, 0, 0, 0, stream, 0, 0, 0, 8]);
    }
    bytes.extend(headers(201));
    socket.write_all(&bytes).expect("sent");
    let ledger = ledger_when(&target, |ledger| ledger.answered == 1 && ledger.in_flight == 0);
    assert_closes(&ledger);
    assert_eq!((ledger.rejected, ledger.connections.open), (0, 1));
    assert_eq!(ledger.closed_by_peer_unanswered, 100);
}

#[test]
fn it_is_the_same_through_tls() {
    let base_latency = Duration::from_millis(5);
    let (target, root) = start_tls(TargetConfig { base_latency, body_size: 100_000, ..config() });
    let trusting = trusting(&root, &TLS13);
    run(async {
        for _ in 0..2 {
            let mut client = Http2::connect_tls(target.local_addr(), &trusting).await;
            let sent_ns = now_ns();
            // They share the window of the connection, so each must be read.
            let mut responses = JoinSet::new();
            for _ in 0..20 {
                responses.spawn(read(client.ask("/").await));
            }
            for response in responses.join_all().await {
                assert_eq!(response.expect("a response").body.len(), 100_000);
            }
            assert!(sent_ns + 5 * MS <= now_ns());
        }
    });
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    assert_eq!((ledger.answered, ledger.connections.http2), (40, 2));
    assert!(ledger.held.min.is_some_and(|min| 5_000.0 <= min));
}
