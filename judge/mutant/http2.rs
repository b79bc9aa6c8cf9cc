//! Its connections over HTTP/2: as much of RFC 9113 as its requests and the judge's target need.

use std::io::{self, Write as _};
use std::net::TcpStream;

use crate::{Bug, Link, read_more};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// Of SETTINGS and PING.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200` in the static table of RFC 7541.
const OK: u8 = 0x88;

/// A connection.
pub(crate) struct Connection {
    stream: TcpStream,
    host: String,
    bug: Bug,
    bytes: Vec<u8>,
    /// The number of the next stream.
    next: u32,
    has_ended: bool,
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Connection {
    /// Begins HTTP/2 on a connection that is open.
    pub(crate) fn new(mut stream: TcpStream, host: &str, bug: Bug) -> io::Result<Connection> {
        stream.write_all(PREFACE)?;
        let (host, bytes) = (host.to_owned(), Vec::new());
        let mut connection = Connection { stream, host, bug, bytes, next: 1, has_ended: false };
        connection.write(SETTINGS, 0, 0, &[])?;
        Ok(connection)
    }

    fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
        let mut frame = length.to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame)
    }

    fn read(&mut self) -> io::Result<Frame> {
        loop {
            if let Some((head, rest)) = self.bytes.split_at_checked(9) {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                if let Some(payload) = rest.get(..length) {
                    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                    let (kind, flags, payload) = (head[3], head[4], payload.to_vec());
                    self.bytes.drain(..9 + length);
                    return Ok(Frame { kind, flags, stream, payload });
                }
            }
            read_more(&mut self.stream, &mut self.bytes)?;
        }
    }

    /// Sends a request for this path; returns its stream.
    fn request(&mut self, path: &str) -> io::Result<u32> {
        let stream = self.next;
        self.next += 2;
        // GET and http are in the static table; path and authority are literals with names from it.
        let mut block = vec![0x82, 0x86];
        for (name, value) in [(4, path), (1, &self.host)] {
            let length = u8::try_from(value.len()).map_err(io::Error::other)?;
            block.extend([name, length]);
            block.extend(value.as_bytes());
        }
        self.write(HEADERS, END_HEADERS | END_STREAM, stream, &block)?;
        Ok(stream)
    }
}

impl Link for Connection {
    fn exchange(&mut self, path: &str, requests: usize) -> io::Result<Vec<u16>> {
        let streams: io::Result<Vec<u32>> = (0..requests).map(|_| self.request(path)).collect();
        let mut open = streams?;
        let mut statuses = Vec::new();
        while !open.is_empty() {
            let Frame { kind, flags, stream, payload } = self.read()?;
            match kind {
                SETTINGS if flags & ACK == 0 => self.write(SETTINGS, ACK, 0, &[])?,
                PING if flags & ACK == 0 => self.write(PING, ACK, 0, &payload)?,
                GOAWAY => self.has_ended = true,
                HEADERS if payload.first() != Some(&OK) => statuses.push(503),
                HEADERS => statuses.push(200),
                DATA if !payload.is_empty() => {
                    let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
                    self.write(WINDOW_UPDATE, 0, 0, &length.to_be_bytes())?;
                }
                RST_STREAM => {
                    statuses.push(if self.bug == Bug::CountsRefused { 200 } else { 0 });
                    open.retain(|one| *one != stream);
                }
                _ => {}
            }
            if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                open.retain(|one| *one != stream);
            }
        }
        Ok(statuses)
    }

    fn has_ended(&mut self) -> bool {
        self.has_ended
    }
}
