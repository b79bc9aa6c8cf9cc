//! A small server on plain threads, whose every answer the test writes itself, and a way to run a
//! plan against it.
#![allow(dead_code, reason = "each test file uses its own part of the support")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::plan::Plan;
use engine::report::Report;
use engine::run::{self, Finished, Run};
use engine::sys::units::{CoreList, Nanos, Rate};
use socket2::{Domain, Socket, Type};

/// A complete response.
pub const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// Starts a server that passes each request, numbered from 0 over all connections, to `answer`,
/// until that returns that it hangs up.
pub fn serve<F>(answer: F) -> SocketAddr
where
    F: Fn(u64, &mut TcpStream) -> bool + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let answer = Arc::new(answer);
    let served = Arc::new(AtomicU64::new(0));
    // The threads end with their connections, the last with the test process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (answer, served) = (answer.clone(), served.clone());
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let mut chunk = [0; 4_096];
                loop {
                    while let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n")
                    {
                        bytes.drain(..end + 4);
                        if !answer(served.fetch_add(1, Ordering::Relaxed), &mut stream) {
                            return;
                        }
                    }
                    match stream.read(&mut chunk) {
                        Ok(0) | Err(_) => return,
                        Ok(length) => bytes.extend_from_slice(&chunk[..length]),
                    }
                }
            });
        }
    });
    address
}

/// An answer that is always [`OK`].
pub fn always_ok(_: u64, stream: &mut TcpStream) -> bool {
    stream.write_all(OK).is_ok()
}

/// The listener's port refuses connections from now on, until what is returned is dropped: without
/// it, another test's server could get the port.
pub fn refusing(listener: TcpListener) -> Socket {
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    // Connections to the listener may not be over yet.
    socket.set_reuse_address(true).expect("a socket");
    socket.bind(&address.into()).expect("the port was free a moment ago");
    socket
}

/// A short plan on one allowed core, without warm-up.
pub fn plan(address: SocketAddr) -> Plan {
    Plan {
        target: format!("http://{address}/"),
        warmup: Nanos(0),
        duration: Nanos(500_000_000),
        timeout: Nanos::from_secs(2),
        cores: Some(CoreList::new(vec![
            *engine::sys::placement::allowed_cores().last().expect("a core"),
        ])),
        ..Plan::default()
    }
}

/// The plan with an open model.
pub fn open(plan: Plan, rate: &str) -> Plan {
    Plan { rate: Some(rate.parse::<Rate>().expect("a rate")), ..plan }
}

/// Runs a plan to its end.
pub fn run(plan: Plan) -> Finished {
    let prepared = run::prepare(plan).unwrap_or_else(|error| panic!("{error}"));
    Run::start(prepared).unwrap_or_else(|error| panic!("{error}")).wait()
}

/// The codes of the verdict's reasons, as in the document.
pub fn codes(report: &Report) -> Vec<String> {
    report.verdict.reasons.iter().map(|reason| reason.code.to_string()).collect()
}
