//! What HTTP/2 clients must cope with: limits, refused streams, GOAWAY, small windows. The ledger
//! equals what the client counts.

use std::future::poll_fn;

use bytes::Bytes;
use h2::Reason;
use http::Method;
use target::{Http2 as Provoked, Target, TargetConfig};

use crate::client::{Client, config, start};
use crate::http2_client::{Http2, read, request, run};
use crate::ledger::assert_closes;

fn provoking(http2: Provoked) -> Target {
    start(TargetConfig { http2, ..config() })
}

#[test]
fn the_limit_of_streams_is_announced_and_kept() {
    let target = provoking(Provoked { max_streams: Some(3), ..Provoked::default() });
    run(async {
        let mut client = Http2::connect(target.local_addr()).await;
        client.get("/").await;
        assert_eq!(client.requests.current_max_send_streams(), 3);
        let mut responses = Vec::new();
        for _ in 0..10 {
            responses.push(client.ask("/").await);
        }
        for response in responses {
            read(response).await.expect("a response");
        }
    });
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    assert_eq!((ledger.answered, ledger.refused), (11, 0));
}

#[test]
fn every_nth_stream_of_a_connection_is_refused_and_not_counted_as_received() {
    let target = provoking(Provoked { refuse: Some(3), ..Provoked::default() });
    let (mut answered, mut refused) = (0, 0);
    run(async {
        for streams in [7, 2] {
            let mut client = Http2::connect(target.local_addr()).await;
            // A ledger is never refused, and not counted.
            client.get("/__ledger").await;
            for number in 1..=streams {
                let mut requests = client.requests.clone().ready().await.expect("open");
                let post = request(Method::POST, "/");
                let (response, mut body) = requests.send_request(post, false).expect("sent");
                // A refused stream may be reset before its body is sent.
                let _ = body.send_data(Bytes::from_static(b"body"), true);
                match read(response).await {
                    Ok(_) => answered += 1,
                    Err(error) => {
                        assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM), "{error}");
                        assert_eq!(number % 3, 0);
                        refused += 1;
                    }
                }
            }
        }
    });
    assert_eq!((answered, refused), (7, 2));
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    assert_eq!((ledger.received, ledger.answered, ledger.refused), (answered, answered, refused));
}

#[test]
fn after_n_requests_a_connection_is_sent_a_goaway_and_its_streams_are_answered() {
    let target = provoking(Provoked { goaway_every: Some(4), ..Provoked::default() });
    let mut answered = 0;
    run(async {
        for _ in 0..3 {
            let mut client = Http2::connect(target.local_addr()).await;
            let mut responses = Vec::new();
            for _ in 0..6 {
                responses.push(client.ask("/").await);
            }
            // More than four were sent before it came: the last stream that it names is a later one.
            for response in responses {
                read(response).await.expect("a response");
                answered += 1;
            }
            client.end.await.expect("a task").expect("an orderly end");
            client.requests.ready().await.expect_err("no stream may be opened");
        }
    });
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    assert_eq!((ledger.received, ledger.answered), (answered, answered));
    assert_eq!((ledger.connections.goaways, ledger.connections.http2), (3, 3));
    assert_eq!(ledger.refused, 0);
}

#[test]
fn a_body_waits_for_the_window() {
    for (window, most) in [(10, 10), (100_000, 100_000)] {
        let target = provoking(Provoked { window: Some(window), ..Provoked::default() });
        run(async {
            let mut client = Http2::connect(target.local_addr()).await;
            client.get("/").await;
            let mut requests = client.requests.clone().ready().await.expect("open");
            let post = request(Method::POST, "/");
            let (response, mut body) = requests.send_request(post, false).expect("sent");
            let mut left = 2 * most;
            while 0 < left {
                body.reserve_capacity(left);
                let granted = poll_fn(|context| body.poll_capacity(context)).await;
                let granted = granted.expect("an open stream").expect("a window");
                assert!(granted <= most, "{granted} of {most}");
                left -= granted;
                body.send_data(Bytes::from(vec![b'x'; granted]), left == 0).expect("sent");
            }
            read(response).await.expect("a response");
        });
        let ledger = target.stop().expect("a ledger");
        assert_closes(&ledger);
        assert_eq!(ledger.answered, 2);
    }
}

#[test]
fn http_1_is_not_provoked() {
    let http2 =
        Provoked { max_streams: Some(1), goaway_every: Some(1), refuse: Some(1), window: Some(1) };
    let target = provoking(http2);
    let mut client = Client::connect(target.local_addr());
    for _ in 0..3 {
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        assert_eq!(client.receive().status(), "200");
    }
    let ledger = target.stop().expect("a ledger");
    assert_closes(&ledger);
    assert_eq!((ledger.answered, ledger.refused, ledger.connections.goaways), (3, 0, 0));
    assert_eq!(ledger.config.http2, http2);
}
