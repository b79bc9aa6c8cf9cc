//! A server that notes what it gets, for tests of what is sent and when.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// The header whose value is noted with each request.
const ID: &str = "X-Id: ";

/// What a server got: when, and the first line; after it the request's id and its body, if it has
/// them.
pub type Got = Arc<Mutex<Vec<(Instant, String)>>>;

/// A server that notes each request and answers at once.
pub fn server() -> (String, Got) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    let got = Got::default();
    let noted = Arc::clone(&got);
    thread::spawn(move || {
        for peer in listener.incoming().take(2_000).flatten() {
            let noted = Arc::clone(&noted);
            thread::spawn(move || answer(peer, &noted));
        }
    });
    (url, got)
}

/// What it got so far, in order of the texts.
pub fn sorted(got: &Got) -> Vec<String> {
    let mut texts: Vec<String> =
        got.lock().expect("notes").iter().map(|(_, text)| text.clone()).collect();
    texts.sort_unstable();
    texts
}

fn answer(mut peer: TcpStream, noted: &Mutex<Vec<(Instant, String)>>) {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4_096]);
    while let Ok(count @ 1..) = peer.read(&mut chunk) {
        let at = Instant::now();
        bytes.extend_from_slice(&chunk[..count]);
        while let Some((length, text)) = first(&bytes) {
            bytes.drain(..length);
            noted.lock().expect("notes").push((at, text));
            if peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    }
}

/// The first request of these bytes if it is complete: its length, and what is noted of it.
fn first(bytes: &[u8]) -> Option<(usize, String)> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let body = value("Content-Length: ").map_or(0, |length| length.parse().expect("a length"));
    let length = head + 4 + body;
    let body = String::from_utf8_lossy(bytes.get(head + 4..length)?);
    let line = text.lines().next().unwrap_or_default();
    let parts = [line, value(ID).unwrap_or_default(), &body];
    Some((length, parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")))
}
