//! Requests to a server that speaks HTTP/2 in the clear, and what became of them.
//!
//! `cargo run -p http2 --example fetch -- 127.0.0.1:8080 /index.html REQUESTS STREAMS BODY [FILE]`
//!
//! BODY is the length of each request's body, 0 for GET. FILE gets all that the server sent, in
//! hexadecimal, as the tests read it. All fields are decoded in both ways. When the server ends the
//! connection, another one goes on with what it left.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::io::{Error, Read, Write};
use std::net::TcpStream;

use http2::client::Client;
use http2::event::{Event, Failure};
use http2::request::{RequestSpec, Requests, Value};

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, path, numbers @ ..] = arguments.as_slice() else {
        return Err(Error::other("usage: fetch ADDRESS PATH REQUESTS STREAMS BODY [FILE]"));
    };
    let number = |place: usize| {
        let number = numbers.get(place).and_then(|number| number.parse::<u64>().ok());
        number.ok_or_else(|| Error::other("REQUESTS, STREAMS and BODY are numbers"))
    };
    let (requests, streams, body_bytes) = (number(0)?, number(1)?, number(2)?);
    let length = body_bytes.to_string();
    let method = if body_bytes == 0 { "GET" } else { "POST" };
    let length = [("content-length", Value::Constant(length.as_str()))];
    let spec = RequestSpec {
        method,
        scheme: "http",
        authority: Value::Constant(address),
        path: Value::Constant(path),
        headers: if body_bytes == 0 { &[] } else { &length },
    };
    let mut fetch = Fetch {
        requests: Requests::render(&[spec]).map_err(|(_, error)| Error::other(error))?,
        body_bytes,
        left: requests,
        client: Client::new(usize::try_from(streams).map_err(Error::other)?),
        received: Vec::new(),
        counts: BTreeMap::new(),
    };
    fetch.client.decode_fully();
    let mut connections = 0;
    while 0 < fetch.left {
        let before = fetch.left;
        fetch.connection(address)?;
        connections += 1;
        if fetch.left == before {
            return Err(Error::other(format!("nothing was answered: {:?}", fetch.counts)));
        }
    }
    println!("{requests} requests on {connections} connections: {:?}", fetch.counts);
    if let Some(file) = numbers.get(3) {
        let hex: String = fetch.received.iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::write(file, hex)?;
    }
    Ok(())
}

/// Requests that are made, and what came of those that were.
struct Fetch {
    client: Client,
    requests: Requests,
    body_bytes: u64,
    /// How many have no response yet.
    left: u64,
    received: Vec<u8>,
    counts: BTreeMap<String, u64>,
}

impl Fetch {
    /// Sends requests on one connection until all are answered, or the server ends it.
    fn connection(&mut self, address: &str) -> Result<(), Error> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        self.client.reset();
        let (mut out, mut buffer) = (Vec::new(), vec![0; 256 * 1024]);
        self.client.start(&mut out);
        loop {
            while 0 < self.client.room() && (self.client.open() as u64) < self.left {
                let begun = self.client.begin(&self.requests, 0, &[], self.body_bytes, 0, &mut out);
                begun.expect("there is room");
            }
            while let Some(part) = self.client.next_body_part(u32::MAX) {
                out.extend_from_slice(&part.head);
                out.extend(std::iter::repeat_n(b'b', part.bytes as usize));
            }
            self.client.write(&mut out);
            stream.write_all(&out)?;
            out.clear();
            if self.left == 0 || self.client.is_drained() {
                self.client.close();
                self.client.write(&mut out);
                return stream.write_all(&out);
            }
            let length = stream.read(&mut buffer)?;
            self.received.extend_from_slice(&buffer[..length]);
            if length == 0 {
                self.client.finish();
            }
            if !self.take(&buffer[..length]) || length == 0 {
                return Ok(());
            }
        }
    }

    /// Takes what the server sent; false if it broke a rule.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        loop {
            let (taken, event) = self.client.receive(rest);
            rest = &rest[taken..];
            let name = match event {
                Event::NeedMore => return true,
                Event::Done(_, response) => {
                    self.left -= 1;
                    format!("{} with {} bytes", response.status, response.body_bytes)
                }
                Event::Failed(_, Failure::Violation(violation)) => violation.code().to_owned(),
                Event::Failed(_, Failure::Reset(code)) => format!("reset {}", code.name()),
                Event::GoAway { code, .. } => format!("goaway {}", code.name()),
                Event::Broken(violation) => format!("broken {}", violation.code()),
                Event::Settings => "settings".to_owned(),
                Event::Refused(_) => "refused".to_owned(),
                Event::Unserved(_) => "unserved".to_owned(),
                Event::Interim(_, status) => format!("interim {status}"),
                Event::Head(..) | Event::Data { .. } | Event::WindowOpened => continue,
            };
            *self.counts.entry(name).or_default() += 1;
            if matches!(event, Event::Broken(_)) {
                return false;
            }
        }
    }
}
