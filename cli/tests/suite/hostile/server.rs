//! A server with one fault at a time that keeps its own log.
//!
//! One thread accepts and each connection has one of its own; it shares nothing with the engine or
//! the target except TCP. A thread ends when its client disconnects, or when the server stops, so
//! the log is complete once [`Server::stop`] returns. Connection 0 is the one with which the client
//! checks that the server listens.

mod broken;
mod closes;
mod connection;
mod endless;
mod fault;
mod http2;
mod log;
mod replies;
mod timing;

use std::io::ErrorKind;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use connection::Connection;
pub use endless::DRIPPED;
pub use fault::Fault;
pub use http2::{ConnectionRule, Flood, Http2, StreamRule};
pub use log::Log;
pub use timing::SLOW;

/// A pause before each response: it bounds the load of a closed loop.
pub const THINK: Duration = Duration::from_millis(2);
/// How long the port is closed during [`Fault::Restart`].
const DOWN: Duration = Duration::from_millis(200);
/// How often the accepting thread checks whether it must stop.
const ACCEPT_POLL: Duration = Duration::from_millis(5);
/// The most connections of a server: more than any row can need.
const ACCEPTED_MAX: u64 = 50_000;
/// A connection queue of two, for servers that don't accept.
const BACKLOG_SMALL: i32 = 1;

/// A whole response that keeps the connection.
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// A whole response after which the server closes.
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
/// The refusal of a large request, after which the server closes.
const REFUSED: &[u8] = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// A running server.
pub struct Server {
    /// Where it listens.
    pub port: u16,
    shared: Arc<Shared>,
    accepting: thread::JoinHandle<()>,
}

struct Shared {
    fault: Fault,
    log: Mutex<Log>,
    state: Mutex<State>,
    changed: Condvar,
}

/// State shared by a server's threads.
#[derive(Default)]
struct State {
    stopped: bool,
    /// Set once in its life, to close the port for a while.
    down: bool,
    went_down: bool,
    /// Connections to close when the server goes down.
    open: Vec<TcpStream>,
}

impl Server {
    /// Starts a server on a free port.
    pub fn start(fault: Fault) -> Server {
        let listener = listen(0, fault);
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            fault,
            log: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = thread::spawn({
            let shared = Arc::clone(&shared);
            move || thread::scope(|scope| shared.accept(scope, listener, port))
        });
        Server { port, shared, accepting }
    }

    /// Stops a server whose clients have disconnected, and returns its log.
    pub fn stop(self) -> Log {
        self.shared.state.lock().expect("no thread panics").stopped = true;
        self.shared.changed.notify_all();
        self.accepting.join().expect("the server never panics");
        self.shared.log.lock().expect("no thread panics").clone()
    }
}

/// Listens on a port, 0 for any.
fn listen(port: u16, fault: Fault) -> TcpListener {
    let small = matches!(fault, Fault::StopAccepting(_));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("an option");
    socket.set_read_timeout(Some(ACCEPT_POLL)).expect("an option");
    if fault == Fault::NeverRead {
        socket.set_recv_buffer_size(4_096).expect("an option");
    }
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], port)).into()).expect("a free port");
    socket.listen(if small { BACKLOG_SMALL } else { 1_024 }).expect("it listens");
    socket.into()
}

impl Shared {
    fn note(&self, note: impl FnOnce(&mut Log)) {
        note(&mut self.log.lock().expect("no thread panics"));
    }

    fn is_stopped(&self) -> bool {
        self.state.lock().expect("no thread panics").stopped
    }

    /// Waits until the server is stopped.
    fn park(&self) {
        let state = self.state.lock().expect("no thread panics");
        drop(self.changed.wait_while(state, |state| !state.stopped).expect("no thread panics"));
    }

    /// Accepts until the server is stopped and no connection is waiting.
    fn accept<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        mut listener: TcpListener,
        port: u16,
    ) {
        for number in 0.. {
            assert!(number < ACCEPTED_MAX, "{:?} accepted too many", self.fault);
            if self.fault == Fault::StopAccepting(number) {
                return self.park();
            }
            let stream = loop {
                match listener.accept() {
                    Ok((stream, _)) => break stream,
                    Err(error) => {
                        let idle = matches!(
                            error.kind(),
                            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                        );
                        assert!(
                            idle || error.kind() == ErrorKind::ConnectionAborted,
                            "accept: {error}"
                        );
                    }
                }
                if std::mem::take(&mut self.state.lock().expect("no thread panics").down) {
                    drop(listener);
                    thread::sleep(DOWN);
                    listener = listen(port, self.fault);
                }
                if self.is_stopped() {
                    return;
                }
            };
            self.note(|log| log.accepted += 1);
            if let Fault::Restart(_) = self.fault {
                let clone = stream.try_clone().expect("a descriptor");
                self.state.lock().expect("no thread panics").open.push(clone);
            }
            scope.spawn(move || {
                Connection { stream, server: self, buffer: Vec::new() }.serve(number)
            });
            match self.fault {
                Fault::AcceptSlowly => thread::sleep(Duration::from_millis(20)),
                Fault::FinOnAccept | Fault::AnswerOnAccept => thread::sleep(THINK),
                _ => {}
            }
        }
    }

    /// Goes down at the request of this number: closes all connections, and the port.
    fn go_down_at(&self, number: u64) -> bool {
        let read = self.log.lock().expect("no thread panics").requests;
        let mut state = self.state.lock().expect("no thread panics");
        if read < number || state.went_down {
            return false;
        }
        (state.down, state.went_down) = (true, true);
        for stream in state.open.drain(..) {
            // Its client may have closed it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        true
    }
}
