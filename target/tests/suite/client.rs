//! A test client on plain blocking sockets, and the clock that the ledger uses.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use rustls::{ClientConnection, StreamOwned};
use target::{Target, TargetConfig};

/// A request without a body.
pub(crate) const GET: &str = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";

/// The default configuration on a free loopback port.
pub(crate) fn config() -> TargetConfig {
    TargetConfig::new("127.0.0.1:0".parse().expect("an address"))
}

/// Starts a target; panics if that fails.
pub(crate) fn start(config: TargetConfig) -> Target {
    target::start(config).expect("the target starts")
}

/// The clock of the ledger, ns.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).expect("not below zero");
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).expect("not below zero")
}

/// A connection to a target.
pub(crate) struct Client {
    stream: BufReader<Box<dyn Stream>>,
    socket: TcpStream,
}

/// A client's byte stream.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A socket with a read timeout.
pub(crate) fn socket(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the target listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout above zero");
    stream.set_nodelay(true).expect("a TCP socket");
    stream
}

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    /// The status line and the fields.
    pub(crate) head: String,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Connects, with a read timeout so that a test ends even if a response never comes.
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let socket = socket(address);
        let stream = socket.try_clone().expect("a descriptor");
        Client { stream: BufReader::new(Box::new(stream)), socket }
    }

    /// The same through TLS; `tls` hasn't begun its handshake.
    pub(crate) fn connect_tls(address: SocketAddr, tls: ClientConnection) -> Client {
        let socket = socket(address);
        let stream = StreamOwned::new(tls, socket.try_clone().expect("a descriptor"));
        Client { stream: BufReader::new(Box::new(stream)), socket }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).expect("the target reads");
    }

    /// Reads one response with the body that its length announces.
    pub(crate) fn receive(&mut self) -> Response {
        let head = self.receive_head();
        let mut body = vec![0; head.content_length()];
        self.stream.read_exact(&mut body).expect("a whole body");
        Response { head: head.head, body }
    }

    /// Reads one response without a body, whatever its length.
    pub(crate) fn receive_head(&mut self) -> Response {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let len = self.stream.read_line(&mut head).expect("a line");
            assert!(0 < len, "the connection ended within a head: {head:?}");
        }
        Response { head, body: Vec::new() }
    }

    /// Sends a GET and reads its response.
    pub(crate) fn get(&mut self) -> Response {
        self.send(GET);
        self.receive()
    }

    /// Closes the sending side.
    pub(crate) fn finish(&mut self) {
        self.socket.shutdown(std::net::Shutdown::Write).expect("an open socket");
    }

    /// Resets the connection.
    pub(crate) fn reset(self) {
        let socket = socket2::SockRef::from(&self.socket);
        socket.set_linger(Some(Duration::ZERO)).expect("an open socket");
    }

    /// Reads until the target closes the connection.
    pub(crate) fn receive_rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).expect("an orderly end");
        rest
    }

    /// Asserts that the target resets the connection and sends nothing more.
    pub(crate) fn assert_reset(&mut self) {
        let error = self.stream.read(&mut [0]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }

    /// Asserts that the target closes the connection and sends nothing more.
    pub(crate) fn assert_closed(&mut self) {
        let rest = self.receive_rest();
        assert!(
            rest.is_empty(),
            "{:?} came after the last response",
            String::from_utf8_lossy(&rest)
        );
    }
}

impl Response {
    /// The status.
    pub(crate) fn status(&self) -> &str {
        self.head.split(' ').nth(1).expect("a status line")
    }

    /// The value of Content-Length, 0 if absent.
    pub(crate) fn content_length(&self) -> usize {
        let line = self.head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        line.map_or(0, |length| length.parse().expect("a number"))
    }
}
