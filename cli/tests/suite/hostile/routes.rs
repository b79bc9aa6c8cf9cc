//! One of several routes misbehaves: what happens to it is counted with it, the others are answered,
//! and the counts of each close.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;

/// What the server does to a request of the route `/bad`.
#[derive(Clone, Copy)]
enum Bad {
    /// It resets the connection.
    Resets,
    /// It never answers.
    Hangs,
    /// It answers 500.
    Fails,
    /// It announces more body than it sends, and closes.
    CutsShort,
    /// It answers with what isn't HTTP.
    Malformed,
    /// It sends a head field by field, and never ends it.
    DripsHead,
}

/// The pause before each field of [`Bad::DripsHead`].
const DRIP: Duration = Duration::from_millis(50);

/// The requests read, by path.
type Log = Arc<Mutex<BTreeMap<String, u64>>>;

/// Starts a server that answers every path but `/bad`. Its threads end with their clients, and the
/// one that accepts with the test's process.
fn serve(bad: Bad) -> (u16, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let log = Log::default();
    let shared = Arc::clone(&log);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let log = Arc::clone(&shared);
            thread::spawn(move || answer_each(stream, bad, &log));
        }
    });
    (port, log)
}

fn answer_each(mut stream: TcpStream, bad: Bad, log: &Mutex<BTreeMap<String, u64>>) {
    stream.set_nodelay(true).expect("an option");
    let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
    loop {
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &String| !line.trim_end().is_empty()) {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(1..) => lines.push(line),
                Ok(0) | Err(_) => return,
            }
        }
        let path = lines[0].split(' ').nth(1).expect("a request line").to_owned();
        *log.lock().expect("no thread panics").entry(path.clone()).or_default() += 1;
        thread::sleep(Duration::from_millis(2));
        let response: &[u8] = match bad {
            _ if path != "/bad" => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            Bad::Malformed => b"SSH-2.0\r\n",
            Bad::DripsHead => {
                // The client closes the connection when the time is up.
                let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\n");
                while sent.is_ok() {
                    thread::sleep(DRIP);
                    sent = stream.write_all(b"X: y\r\n");
                }
                return;
            }
            Bad::Fails => b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n",
            Bad::CutsShort => {
                // The end of the stream ends the body.
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart");
                return;
            }
            Bad::Resets => {
                let socket = SockRef::from(&stream);
                socket.set_linger(Some(Duration::ZERO)).expect("an option");
                return;
            }
            Bad::Hangs => continue,
        };
        if stream.write_all(response).is_err() {
            return;
        }
    }
}

/// Loads two good routes and the bad one, in both models, and checks each route's counts: `ended`
/// names the count and the cause or status of every request to the bad one.
fn check(bad: Bad, ended: &str, how: (&str, &str)) {
    for load in [["--rate", "200"], ["--conns", "8"]] {
        let (port, log) = serve(bad);
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("urls"), "/good\n/bad\n/other\n").expect("writable");
        let output = Command::new(env!("CARGO_BIN_EXE_truetail"))
            // The user's saved calibrations are out of its reach.
            .env("XDG_CACHE_HOME", "/dev/null")
            .args(["run", &format!("http://127.0.0.1:{port}/"), "--targets", "urls"])
            .args(["--quiet", "--out", "report.json", "--wait", "sleep", "--warmup", "0s"])
            .args(["--duration", "600ms", "--timeout", "300ms", "--allow-invalid"])
            .args(load)
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .output()
            .expect("the binary runs");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(folder.path().join("report.json")).expect("a report");
        let report: Value = serde_json::from_str(&text).expect("it is JSON");
        let log = log.lock().expect("no thread panics");
        let parts = report["parts"].as_array().expect("parts");
        assert_eq!(parts.len(), 3);
        let total = |name: &str| {
            let counts = parts.iter().map(|part| part["counts"][name].as_u64().expect("a count"));
            counts.sum::<u64>()
        };
        for name in ["intended", "sent", "unsent", "answered", "timed_out", "failed", "abandoned"] {
            assert_eq!(report["counts"][name], total(name), "{load:?} {name}");
        }
        for part in parts {
            let count = |name: &str| part["counts"][name].as_u64().expect("a count");
            let name = part["name"].as_str().expect("a name");
            let path = name.trim_start_matches("GET ");
            let outcomes = ["answered", "timed_out", "failed", "abandoned"].map(count);
            assert_eq!(count("sent"), outcomes.iter().sum::<u64>(), "{load:?} {part}");
            assert_eq!(count("intended"), count("sent") + count("unsent"), "{load:?} {part}");
            assert_eq!(log.get(path), Some(&count("sent")), "{load:?} {part}");
            if path != "/bad" {
                assert_eq!(count("answered"), count("sent"), "{load:?} {part}");
                assert_eq!(part["bad"].as_u64(), Some(count("unsent")), "{load:?} {part}");
                continue;
            }
            // At the end, a request that is never answered may be in flight.
            let ended = count(ended) + count("abandoned");
            assert_eq!(ended, count("sent"), "{load:?} {part}");
            let (by, name) = how;
            let named = part["counts"][by][name].as_u64().unwrap_or_default();
            assert_eq!(named + count("abandoned"), count("sent"), "{load:?} {part}");
        }
    }
}

#[test]
fn one_route_resets() {
    check(Bad::Resets, "failed", ("errors", "reset"));
}

#[test]
fn one_route_never_answers() {
    check(Bad::Hangs, "timed_out", ("errors", "timed_out"));
}

#[test]
fn one_route_answers_500() {
    check(Bad::Fails, "answered", ("status", "500"));
}

#[test]
fn one_route_cuts_its_bodies_short() {
    check(Bad::CutsShort, "failed", ("errors", "cut_short"));
}

#[test]
fn one_route_is_malformed() {
    check(Bad::Malformed, "failed", ("errors", "protocol:not_http"));
}

#[test]
fn one_route_drips_its_heads() {
    check(Bad::DripsHead, "timed_out", ("errors", "timed_out"));
}
