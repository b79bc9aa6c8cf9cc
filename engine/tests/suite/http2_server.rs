//! A small HTTP/2 server on plain threads, whose every frame the test writes itself. It decodes no
//! header: a request is a stream, and its response names no field but the status.
#![allow(dead_code, reason = "each test file uses its own part of the support")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::plan::{Http, Plan};

use crate::support::plan;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RESET: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

pub const MAX_STREAMS: u16 = 3;
pub const INITIAL_WINDOW: u16 = 4;

const PREFACE: usize = 24;

/// `:status: 200` in the static table.
const STATUS_200: u8 = 0x88;

/// A frame that the client sent.
#[derive(Clone, Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// True if it ends its request.
    pub fn ends(&self) -> bool {
        matches!(self.kind, HEADERS | DATA) && self.flags & END_STREAM != 0
    }
}

pub trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

/// One connection of the client.
pub struct Peer {
    pub wire: Box<dyn Wire>,
    /// Its number among all connections; the first one is the run's own, before the load.
    pub connection: u64,
    /// How many requests have begun on it.
    pub begun: u64,
    /// Its streams that have no response yet.
    pub open: Vec<u32>,
}

impl Peer {
    /// Sends a frame; false if the client is gone.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.wire.write_all(&frame(kind, flags, stream, payload)).is_ok()
    }

    pub fn settings(&mut self, settings: &[(u16, u32)]) -> bool {
        let bytes =
            |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        let payload: Vec<u8> = settings.iter().flat_map(bytes).collect();
        self.send(SETTINGS, 0, 0, &payload)
    }

    /// Answers a request by 200 without a body.
    pub fn answer(&mut self, stream: u32) -> bool {
        self.open.retain(|open| *open != stream);
        self.send(HEADERS, END_STREAM | END_HEADERS, stream, &[STATUS_200])
    }

    pub fn reset(&mut self, stream: u32, code: u32) -> bool {
        self.open.retain(|open| *open != stream);
        self.send(RESET, 0, stream, &code.to_be_bytes())
    }

    pub fn go_away(&mut self, last: u32) -> bool {
        self.open.retain(|open| *open <= last);
        self.send(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
    }
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Starts a server with these settings. `on` gets each frame of a stream until it returns that the
/// server hangs up.
pub fn serve<F>(settings: &[(u16, u32)], on: F) -> SocketAddr
where
    F: Fn(&mut Peer, Frame) -> bool + Send + Sync + 'static,
{
    serve_over(settings, |stream| Some(Box::new(stream)), on)
}

/// The same over what `secure` makes of a connection.
pub fn serve_over<F>(
    settings: &[(u16, u32)],
    secure: impl Fn(TcpStream) -> Option<Box<dyn Wire>> + Send + Sync + 'static,
    on: F,
) -> SocketAddr
where
    F: Fn(&mut Peer, Frame) -> bool + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let shared = Arc::new((on, secure, settings.to_vec()));
    let connections = AtomicU64::new(0);
    // The threads end with their connections, the last with the test process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let shared = shared.clone();
            let connection = connections.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                let (on, secure, settings) = &*shared;
                stream.set_nodelay(true).expect("a socket");
                stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
                let Some(wire) = secure(stream) else { return };
                let mut peer = Peer { wire, connection, begun: 0, open: Vec::new() };
                speak(&mut peer, settings, on);
            });
        }
    });
    address
}

fn speak(peer: &mut Peer, settings: &[(u16, u32)], on: &impl Fn(&mut Peer, Frame) -> bool) {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 65_536];
    let mut from = PREFACE;
    if !peer.settings(settings) {
        return;
    }
    loop {
        while let Some((frame, length)) = next(&bytes[from.min(bytes.len())..]) {
            from += length;
            let goes_on = match frame.kind {
                SETTINGS if frame.flags & ACK == 0 => peer.send(SETTINGS, ACK, 0, &[]),
                PING if frame.flags & ACK == 0 => peer.send(PING, ACK, 0, &frame.payload),
                _ if frame.stream == 0 => true,
                _ => {
                    if frame.kind == HEADERS {
                        peer.begun += 1;
                        peer.open.push(frame.stream);
                    }
                    on(peer, frame)
                }
            };
            if !goes_on {
                return;
            }
        }
        match peer.wire.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(length) => bytes.extend_from_slice(&chunk[..length]),
        }
        if PREFACE <= bytes.len() && 1 << 20 < from {
            bytes.drain(..from);
            from = 0;
        }
    }
}

/// The first frame of these bytes, and its length, if it is complete.
fn next(bytes: &[u8]) -> Option<(Frame, usize)> {
    let head = bytes.first_chunk::<9>()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let payload = bytes.get(9..9 + length)?.to_vec();
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some((Frame { kind: head[3], flags: head[4], stream, payload }, 9 + length))
}

/// Answers each request once it has come completely, and renews the connection's window.
pub fn always_ok(peer: &mut Peer, frame: Frame) -> bool {
    let length = u32::try_from(frame.payload.len()).expect("short");
    let renewed =
        frame.kind != DATA || length == 0 || peer.send(WINDOW_UPDATE, 0, 0, &length.to_be_bytes());
    renewed && (!frame.ends() || peer.answer(frame.stream))
}

/// A short plan that speaks HTTP/2.
pub fn plan2(address: SocketAddr) -> Plan {
    Plan { http: Http::V2, ..plan(address) }
}
