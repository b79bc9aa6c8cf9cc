//! The null target over HTTP/2, with `h2` as the client.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use calibration::null_target::{Counts, NullTarget};
use futures_rustls::TlsConnector;
use h2::client::{self, ResponseFuture, SendRequest};
use http::{Method, Request};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::compat::{FuturesAsyncReadCompatExt as _, TokioAsyncReadCompatExt as _};

use crate::null_target::{BODY, config, null_target, null_target_tls};
use crate::support::alone;

/// The most requests on their way at once.
const STREAMS: usize = 100;

/// Runs a test's client, for at most 20 s.
fn run(client: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    let within = async { timeout(Duration::from_secs(20), client).await };
    runtime.block_on(within).expect("it ends within 20 s");
}

async fn connect(target: &NullTarget) -> TcpStream {
    TcpStream::connect(target.local_addr()).await.expect("connects")
}

async fn open(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> SendRequest<Bytes> {
    let (requests, connection) = client::handshake(stream).await.expect("a connection");
    tokio::spawn(connection);
    requests
}

/// Sends a request with a body of this length.
async fn send(requests: &SendRequest<Bytes>, body_len: usize) -> ResponseFuture {
    let mut requests = requests.clone().ready().await.expect("the connection is open");
    let request = Request::builder().method(Method::POST).uri("http://a/path").body(());
    let request = request.expect("a request");
    let (response, mut body) = requests.send_request(request, body_len == 0).expect("sent");
    if 0 < body_len {
        body.send_data(Bytes::from(vec![b'x'; body_len]), true).expect("sent");
    }
    response
}

async fn read(response: ResponseFuture) {
    let (head, mut stream) = response.await.expect("a response").into_parts();
    assert_eq!(head.status.as_u16(), 200);
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data.expect("data");
        stream.flow_control().release_capacity(data.len()).expect("it was received");
        body.extend_from_slice(&data);
    }
    assert_eq!(body, BODY);
}

/// Sends so many requests, up to [`STREAMS`] at once, and reads all responses.
async fn ask(requests: &SendRequest<Bytes>, count: usize, body_len: usize) {
    let mut reading = JoinSet::new();
    for _ in 0..count {
        if reading.len() == STREAMS {
            reading.join_next().await.expect("one").expect("it was read");
        }
        reading.spawn(read(send(requests, body_len).await));
    }
    reading.join_all().await;
}

#[test]
fn streams_are_answered_and_counted() {
    let _cores = alone();
    let target = null_target();
    run(async {
        // Together they have more bytes than the initial window of the connection, both ways.
        for _ in 0..2 {
            let requests = open(connect(&target).await).await;
            ask(&requests, 5_000, 0).await;
            ask(&requests, 100, 1_000).await;
            ask(&requests, 2, 1_000_000).await;
        }
    });
    assert_eq!(target.stop(), Counts { requests: 2 * 5_102, connections: 2 });
}

#[test]
fn streams_are_answered_through_tls() {
    let _cores = alone();
    let (target, client) = null_target_tls(config(64));
    run(async {
        let mut client = ClientConfig::clone(&client);
        client.alpn_protocols = vec![b"h2".to_vec()];
        let socket = connect(&target).await.compat();
        let name = "localhost".try_into().expect("a name");
        let tls = TlsConnector::from(Arc::new(client)).connect(name, socket).await;
        let tls = tls.expect("a handshake");
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let requests = open(tls.compat()).await;
        ask(&requests, 5_000, 0).await;
        ask(&requests, 10, 100_000).await;
    });
    assert_eq!(target.stop(), Counts { requests: 5_010, connections: 1 });
}

#[test]
fn an_end_of_the_client_closes_the_connection() {
    let _cores = alone();
    let target = null_target();
    run(async {
        let (requests, connection) =
            client::handshake::<_>(connect(&target).await).await.expect("a connection");
        let connection = tokio::spawn(connection);
        ask(&requests, 10, 0).await;
        // With its last request gone, the client says goodbye and waits for the end.
        drop(requests);
        connection.await.expect("a task").expect("an orderly end");
    });
    assert_eq!(target.stop(), Counts { requests: 10, connections: 1 });
}
