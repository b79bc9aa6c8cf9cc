//! Servers in this process for a client under callgrind: they answer each request with the same
//! bytes.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;

use crate::hot::RESPONSE;
use crate::instructions::Load;

/// The client's first bytes over HTTP/2, before its frames.
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
/// A frame's length, type, flags and stream.
const FRAME_HEADER: usize = 9;
/// Types of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
/// Flags: the last frame of a stream, an acknowledgement, and the last frame of a header block.
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
/// The response's header block as nginx writes it, without a table of its own: `:status: 200`,
/// then `server`, `date`, `content-type` and `content-length`, by the numbers of their names.
const BLOCK: &[u8] = b"\x88\x0f\x27\x05nginx\x0f\x12\x1dMon, 01 Jan 2024 00:00:00 GMT\
    \x0f\x10\x0atext/plain\x0f\x0d\x0227";
/// The body.
const BODY: &[u8] = b"The quick brown fox jumps.\n";
/// After this time an open loop has ended the turn of the request, so that the answer is always a
/// turn of its own.
const AFTER_TURN: Duration = Duration::from_micros(300);
/// How long a server waits for requests that don't come, since a run has ended.
const LAST: Duration = Duration::from_millis(200);

/// The connections of requests over HTTP/1.1 that wait for their answers.
type Waiting = Arc<Mutex<Vec<Arc<TcpStream>>>>;

/// Serves this load; returns the URL.
pub(crate) fn start(load: Load) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/", listener.local_addr()?);
    let waiting = Waiting::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let waiting = Arc::clone(&waiting);
            // A connection that ends in a failure has ended.
            std::thread::spawn(move || match load {
                Load::Connections(1) => serve(stream, Duration::ZERO),
                Load::Rate(_) => serve(stream, AFTER_TURN),
                Load::Connections(count) => drop(serve_together(stream, &waiting, count)),
                Load::Streams(count) => drop(serve_http2(stream, count)),
            });
        }
    });
    Ok(url)
}

/// Answers each request of a connection, which come one by one, after this time.
fn serve(mut stream: TcpStream, after: Duration) {
    let mut request = [0; 4_096];
    while let Ok(1..) = stream.read(&mut request) {
        std::thread::sleep(after);
        if stream.write_all(RESPONSE).is_err() {
            return;
        }
    }
}

/// Answers a connection's requests with those of the others, once there are `together` of them, or
/// when no more come.
fn serve_together(
    stream: TcpStream,
    waiting: &Mutex<Vec<Arc<TcpStream>>>,
    together: usize,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(LAST))?;
    let stream = Arc::new(stream);
    let mut request = [0; 4_096];
    loop {
        let is_over = match (&*stream).read(&mut request) {
            Ok(0) => return Ok(()),
            Ok(_) => false,
            Err(error) if is_late(&error) => true,
            Err(error) => return Err(error),
        };
        let mut waiting = waiting.lock().expect("no thread panics");
        if !is_over {
            waiting.push(Arc::clone(&stream));
        }
        if together <= waiting.len() || is_over {
            for stream in waiting.drain(..) {
                (&*stream).write_all(RESPONSE)?;
            }
        }
    }
}

/// True if nothing came in time.
fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Answers requests once there are `together` of them, so that each turn of a client handles as
/// many; the last ones when no more come.
fn serve_http2(mut stream: TcpStream, together: usize) -> std::io::Result<()> {
    stream.read_exact(&mut [0; PREFACE])?;
    stream.write_all(&frame(SETTINGS, 0, [0; 4], &[]))?;
    stream.set_read_timeout(Some(LAST))?;
    let (mut unread, mut buffer) = (Vec::new(), [0; 16 << 10]);
    let (mut answers, mut requests) = (Vec::new(), 0);
    loop {
        let is_over = match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                unread.extend_from_slice(&buffer[..length]);
                false
            }
            Err(error) if is_late(&error) => true,
            Err(error) => return Err(error),
        };
        while let Some((header, rest)) = unread.split_first_chunk::<FRAME_HEADER>() {
            let [high, middle, low, kind, flags, id @ ..] = *header;
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            if rest.len() < length {
                break;
            }
            match kind {
                SETTINGS if flags & ACK == 0 => {
                    stream.write_all(&frame(SETTINGS, ACK, [0; 4], &[]))?;
                }
                HEADERS => {
                    answers.extend(frame(HEADERS, END_HEADERS, id, BLOCK));
                    answers.extend(frame(DATA, END_STREAM, id, BODY));
                    requests += 1;
                }
                _ => {}
            }
            unread.drain(..FRAME_HEADER + length);
        }
        if together <= requests || is_over {
            stream.write_all(&answers)?;
            answers.clear();
            requests = 0;
        }
    }
}

fn frame(kind: u8, flags: u8, stream: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload").to_be_bytes();
    let header = [&length[1..], &[kind, flags], &stream];
    [header.concat().as_slice(), payload].concat()
}
