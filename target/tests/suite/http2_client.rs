//! A test client of HTTP/2: `h2` on a runtime of one thread.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_rustls::TlsConnector;
use h2::Error;
use h2::client::{self, ResponseFuture, SendRequest};
use http::{HeaderMap, Method, Request, StatusCode};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::compat::{FuturesAsyncReadCompatExt as _, TokioAsyncReadCompatExt as _};

/// A connection.
pub(crate) struct Http2 {
    /// Its requests.
    pub(crate) requests: SendRequest<Bytes>,
    /// How it ends.
    pub(crate) end: JoinHandle<Result<(), Error>>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its status.
    pub(crate) status: StatusCode,
    /// Its header fields.
    pub(crate) fields: HeaderMap,
    /// Its body.
    pub(crate) body: Vec<u8>,
}

/// Runs a test's client, for at most 20 s.
pub(crate) fn run<T>(client: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime
        .block_on(async { timeout(Duration::from_secs(20), client).await })
        .expect("it ends within 20 s")
}

/// A request without a body.
pub(crate) fn request(method: Method, path: &str) -> Request<()> {
    let uri = format!("http://test{path}");
    Request::builder().method(method).uri(uri).body(()).expect("a request")
}

/// Reads a response.
pub(crate) async fn read(response: ResponseFuture) -> Result<Answer, Error> {
    let (head, mut stream) = response.await?.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    Ok(Answer { status: head.status, fields: head.headers, body })
}

impl Http2 {
    /// Connects without TLS, by prior knowledge.
    pub(crate) async fn connect(address: SocketAddr) -> Http2 {
        Http2::on(TcpStream::connect(address).await.expect("the target listens")).await
    }

    /// Connects through TLS and offers HTTP/2 alone.
    pub(crate) async fn connect_tls(address: SocketAddr, config: &Arc<ClientConfig>) -> Http2 {
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let socket = TcpStream::connect(address).await.expect("the target listens");
        let name = "localhost".try_into().expect("a name");
        let tls = TlsConnector::from(Arc::new(config)).connect(name, socket.compat());
        Http2::on(tls.await.expect("a handshake").compat()).await
    }

    async fn on(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Http2 {
        let (requests, connection) = client::handshake(stream).await.expect("a connection");
        Http2 { requests, end: tokio::spawn(connection) }
    }

    /// Sends a request without a body, once a stream is free.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
    ) -> Result<ResponseFuture, Error> {
        let mut requests = self.requests.clone().ready().await?;
        Ok(requests.send_request(request(method, path), true)?.0)
    }

    /// Sends a GET.
    pub(crate) async fn ask(&mut self, path: &str) -> ResponseFuture {
        self.send(Method::GET, path).await.expect("the connection is open")
    }

    /// Sends a GET and reads its response.
    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        read(self.ask(path).await).await.expect("a response")
    }
}
