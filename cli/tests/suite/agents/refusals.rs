//! An agent's refusals, each with its own message; it goes on serving.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use agents::versions::PROTOCOL;
use serde_json::Value;

use super::processes::{Agent, Ended, KEY, LONGEST, Place, Process, Target, controller, key_file};
use crate::support::{binary, document, said};

const OTHER_KEY: &str = "0123456789abcdef0123456789abcdeX";
/// A short run.
const SHORT: [&str; 11] = [
    "--conns",
    "50",
    "--rate",
    "200",
    "--duration",
    "300ms",
    "--warmup",
    "0s",
    "--wait",
    "sleep",
    "--allow-invalid",
];
/// The type and the payload of a controller's first frame, which has its part of the handshake.
const OPEN: u8 = 0;
const OPEN_PAYLOAD: usize = 51;
/// The position of a frame's length, and the length of its header.
const LENGTH_AT: usize = 7;
const HEADER: usize = 11;
/// The controller's frames in the clear; records follow.
const HANDSHAKE_FRAMES: usize = 2;

/// A frame before authentication, with a claimed length.
fn opening(version: u16, length: u32) -> Vec<u8> {
    let mut frame = b"TTAG".to_vec();
    frame.extend(version.to_le_bytes());
    frame.push(OPEN);
    frame.extend(length.to_le_bytes());
    // A part of 48 bytes.
    frame.extend([OPEN, 1, 48]);
    frame.extend([7; OPEN_PAYLOAD - 3]);
    frame
}

/// The answer to a stranger that sends these bytes.
fn answer(agent: &Agent, said: &[u8]) -> String {
    let mut stream = TcpStream::connect(agent.address).expect("it listens");
    stream.set_read_timeout(Some(LONGEST)).expect("a socket");
    // It may have been closed before all was sent.
    let _ = stream.write_all(said);
    let mut answer = Vec::new();
    let mut buffer = [0; 1 << 12];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        answer.extend_from_slice(&buffer[..length]);
        assert!(answer.len() < 1 << 12, "a stranger learns little");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn run(target: &Target, agent: SocketAddr, more: &[&str]) -> Ended {
    let (url, agent) = (target.url(), agent.to_string());
    let args = [&[&url, "--agents", &agent], &SHORT[..], more].concat();
    controller(Place::Here, &args).ends_within(LONGEST)
}

/// Asserts that the controller was refused with these words, in one line that names the agent.
fn assert_refused(ended: &Ended, agent: SocketAddr, words: &str) {
    assert_eq!(ended.code, Some(5), "{ended:?}");
    // A run that doesn't begin has announced its length.
    let lines = ended.stderr.lines().filter(|line| !line.starts_with("takes "));
    assert_eq!(lines.count(), 1, "{ended:?}");
    assert!(ended.stderr.contains(&agent.to_string()), "{agent}: {ended:?}");
    assert!(ended.stderr.contains(words), "`{words}` is missing: {ended:?}");
}

#[test]
fn errors_of_the_plan_are_reported_before_any_agent_is_contacted() {
    // Nothing listens there.
    let agents = "127.0.0.1:9,127.0.0.1:10";
    let folder = tempfile::tempdir().expect("a folder");
    let long = folder.path().join("plan.toml");
    fs::write(&long, format!("rate = 10\nbody = '{}'\n", "x".repeat(1 << 20))).expect("written");
    let long = long.display().to_string();
    for (load, words) in [
        (&["--rate", "10"][..], "the URL is missing"),
        (&["gopher://127.0.0.1:1/", "--rate", "10"], "the scheme is neither http nor https"),
        (&["http://127.0.0.1:1/", "--rate", "10", "--conns", "1"], "--conns 1: leaves an agent"),
        (&["http://127.0.0.1:1/", "--plan", &long], "--body of 1048576 bytes: the plan takes 1049"),
    ] {
        let args = [&["--agents", agents, "--duration", "1s"], load].concat();
        let ended = controller(Place::Here, &args).ends_within(LONGEST);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(words), "`{words}` is missing: {ended:?}");
    }
}

#[test]
fn a_target_that_is_down_is_reported_as_by_a_run() {
    let agent = Agent::start(Place::Here, &[]);
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let (url, agent) = (format!("http://{free}/"), agent.address.to_string());
    let args = [&[&url, "--agents", &agent], &SHORT[..]].concat();
    let ended = controller(Place::Here, &args).ends_within(LONGEST);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("accepts no connection"), "{ended:?}");
}

#[test]
fn an_agent_with_two_names_is_named_once() {
    let agent = Agent::start(Place::Here, &[]);
    let target = Target::start(Place::Here);
    let also = format!("localhost:{}", agent.address.port());
    let both = format!("{},{also}", agent.address);
    let url = target.url();
    let args = [&[&url, "--agents", &both], &SHORT[..]].concat();
    let ended = controller(Place::Here, &args).ends_within(LONGEST);
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.stderr.contains("is an agent of this run already"), "{ended:?}");
}

/// Relays one session between a controller and an agent, and keeps the controller's messages.
struct Relay {
    address: SocketAddr,
    heard: JoinHandle<io::Result<Vec<u8>>>,
}

impl Relay {
    /// If `repeated` is the number of a frame or record of the controller's, it is sent twice.
    fn start(agent: SocketAddr, repeated: Option<usize>) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let heard = thread::spawn(move || {
            let (mut controller, _) = listener.accept()?;
            let mut agent = TcpStream::connect(agent)?;
            let (mut from, mut to) = (agent.try_clone()?, controller.try_clone()?);
            let back = thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
            let mut heard = Vec::new();
            let mut number = 0;
            loop {
                let read = if number < HANDSHAKE_FRAMES { read_frame } else { read_record };
                let Ok(sent) = read(&mut controller) else { break };
                let times = if repeated == Some(number) { 2 } else { 1 };
                for _ in 0..times {
                    agent.write_all(&sent)?;
                }
                heard.extend(sent);
                number += 1;
            }
            let _ = agent.shutdown(std::net::Shutdown::Write);
            back.join().expect("it doesn't panic");
            Ok(heard)
        });
        Relay { address, heard }
    }
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; HEADER];
    stream.read_exact(&mut frame)?;
    let length = u32::from_le_bytes(frame[LENGTH_AT..LENGTH_AT + 4].try_into().expect("4 bytes"));
    frame.resize(HEADER + length as usize, 0);
    stream.read_exact(&mut frame[HEADER..])?;
    Ok(frame)
}

fn read_record(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut record = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut record)?;
    Ok([&length[..], &record].concat())
}

fn agent(folder: &Path, more: &[&str]) -> (Agent, String) {
    let key = key_file(folder, "key", KEY);
    let agent = Agent::start(Place::Here, &[&["--key-file", &key], more].concat());
    (agent, key)
}

#[test]
fn a_controller_without_the_key_learns_it_and_the_next_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let (agent, key) = agent(folder.path(), &[]);
    let address = agent.address;
    let other = key_file(folder.path(), "other", OTHER_KEY);
    assert_refused(&run(&target, address, &[]), address, "this side has a key and yours has none");
    let ended = run(&target, address, &["--key-file", &other]);
    assert_refused(&ended, address, "the keys differ");
    assert_eq!(target.received(), 0);
    let ended = run(&target, address, &["--key-file", &key]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(0 < target.received());
}

#[test]
fn a_replay_ends_only_its_own_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let (mut agent, key) = agent(folder.path(), &[]);
    let with_key = ["--key-file", key.as_str()];

    // A whole session, recorded on its way and sent again.
    let relay = Relay::start(agent.address, None);
    let ended = run(&target, relay.address, &with_key);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let heard = relay.heard.join().expect("it doesn't panic").expect("a session");
    let received = target.received();
    assert!(0 < received);
    let url = target.url();
    let is_heard = heard.windows(url.len()).any(|part| part == url.as_bytes());
    assert!(!is_heard, "the plan isn't in the clear");
    answer(&agent, &heard);
    let why = "the peer has another key";
    agent.process.wait_until("it is refused", |agent| agent.stdout().contains(why));
    assert_eq!(target.received(), received, "nothing runs again");

    // One record of a session, twice.
    let relay = Relay::start(agent.address, Some(4));
    let ended = run(&target, relay.address, &with_key);
    assert_refused(&ended, relay.address, "altered, repeated, reordered or lost");
    let ended = run(&target, agent.address, &with_key);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn strangers_are_refused_by_the_frame_or_not_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let (agent, key) = agent(folder.path(), &[]);
    let payload = u32::try_from(OPEN_PAYLOAD).expect("short");
    for (said, message) in [
        (opening(PROTOCOL, u32::MAX), "4294967295 bytes, at most"),
        (opening(PROTOCOL + 1, payload), "update the older side"),
        (opening(PROTOCOL, payload - 1), "malformed open"),
        (opening(PROTOCOL, payload), "WrongKey"),
    ] {
        let answer = answer(&agent, &said);
        assert!(answer.contains(message), "`{message}` is missing: {answer}");
    }
    // Bytes that aren't the protocol's get no answer.
    let random: Vec<u8> =
        (0..4_096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_eq!(answer(&agent, &random), "");
    assert_eq!(answer(&agent, b"GET / HTTP/1.1\r\n\r\n"), "");
    let ended = run(&target, agent.address, &["--key-file", &key]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn an_agent_does_only_what_its_operator_allows() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let caps = ["--max-rate", "300", "--max-conns", "50", "--max-duration", "10s"];
    let (agent, key) = agent(folder.path(), &caps);
    let with = |more: &[&str]| run(&target, agent.address, &[&["--key-file", &key], more].concat());
    for (more, words) in [
        (&["--rate", "301"][..], "above its --max-rate 300"),
        (&["--conns", "51"], "above its --max-conns 50"),
        (&["--duration", "11s"], "above this agent's --max-duration 10s"),
    ] {
        // A flag can't be given twice.
        let short: Vec<&str> =
            SHORT.chunks(2).filter(|flag| flag[0] != more[0]).flatten().copied().collect();
        let (url, address) = (target.url(), agent.address.to_string());
        let args = [&[&url, "--agents", &address, "--key-file", &key], &short[..], more].concat();
        let ended = controller(Place::Here, &args).ends_within(LONGEST);
        assert_refused(&ended, agent.address, words);
    }
    // A name of a machine that isn't allowed, which is never connected to.
    let elsewhere = "http://192.0.2.1:8080/";
    let address = agent.address.to_string();
    let args = [&[elsewhere, "--agents", &address, "--key-file", &key], &SHORT[..]].concat();
    let ended = controller(Place::Here, &args).ends_within(LONGEST);
    assert_refused(&ended, agent.address, "it allows loopback alone");
    assert_eq!(target.received(), 0);
    let ended = with(&[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn an_agent_that_others_can_reach_needs_a_key() {
    let ended = Process::start(Place::Here.binary().args(["agent", "--listen", "0.0.0.0:0"]))
        .ends_within(LONGEST);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("an agent that others can reach needs a key"), "{ended:?}");
}

/// The first bytes of a TLS client.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x00\xc4\x01\x00\x00\xc0\x03\x03";
/// How many strangers of each kind come during a run.
const STRANGERS: usize = 300;

/// Disturbs an agent until all strangers have come, or until it is to stop.
fn disturb(address: SocketAddr, stop: &AtomicBool) {
    let connect = || TcpStream::connect_timeout(&address, LONGEST).ok();
    let say = |bytes: &'static [u8]| {
        move || {
            let mut stream = connect()?;
            // It may have been turned away already.
            let _ = stream.write_all(bytes);
            let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
            let _ = stream.read(&mut [0; 64]);
            Some(())
        }
    };
    let port_scan = || connect().map(drop);
    let (tls, http) = (say(CLIENT_HELLO), say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    let garbage = say(&[0x5a; 600]);
    let kinds: [&(dyn Fn() -> Option<()> + Sync); 4] = [&port_scan, &tls, &http, &garbage];
    thread::scope(|scope| {
        for kind in kinds {
            scope.spawn(move || {
                for _ in (0..STRANGERS).take_while(|_| !stop.load(Ordering::Relaxed)) {
                    kind().expect("it listens");
                    thread::sleep(Duration::from_millis(2));
                }
            });
        }
        // More than it has places for, each a byte of a proper opening at a time.
        scope.spawn(|| {
            let frame = opening(PROTOCOL, u32::try_from(OPEN_PAYLOAD).expect("short"));
            let mut slow: Vec<TcpStream> = (0..100).filter_map(|_| connect()).collect();
            for byte in frame.iter().take_while(|_| !stop.load(Ordering::Relaxed)) {
                for stream in &mut slow {
                    let _ = stream.write_all(&[*byte]);
                }
                thread::sleep(Duration::from_millis(40));
            }
        });
    });
}

#[test]
fn strangers_of_every_kind_do_not_change_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let (agent, key) = agent(folder.path(), &[]);
    let (url, address) = (target.url(), agent.address.to_string());
    let report = folder.path().join("report.json");
    let run = |disturbs: bool| {
        let args = [&url, "--agents", &address, "--key-file", &key, "--rate", "300", "--duration"];
        let more = ["4s", "--warmup", "0s", "--wait", "sleep", "--allow-invalid", "--out"];
        let before = target.received();
        let args = [&args[..], &more, &[report.to_str().expect("text")]].concat();
        let mut process = controller(Place::Here, &args);
        process.wait_until("requests come", |_| before + 30 < target.received());
        if disturbs {
            let stop = AtomicBool::new(false);
            disturb(agent.address, &stop);
            assert!(process.is_running(), "they come while it runs");
        }
        let ended = process.ends_within(LONGEST);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let verified = binary().args(["verify", "-q"]).arg(&report).output().expect("it runs");
        assert_eq!((verified.status.code(), said(&verified)), (Some(0), String::new()));
        document(&report)
    };
    // Other programs disturb a run too, so one of three pairs has to be alike.
    let is_alike = |_| {
        let [alone, disturbed] = [run(false), run(true)];
        for figure in ["intended", "sent", "answered"] {
            assert_eq!(alone["counts"][figure], disturbed["counts"][figure], "{figure}");
        }
        let figure = |at: &str| {
            [&alone, &disturbed].map(|report| report.pointer(at).and_then(Value::as_f64))
        };
        let [busy, lateness] = ["/generator/shards/0/busy", "/pacer_lateness/p99"].map(figure);
        println!("busy {busy:?}, lateness {lateness:?} µs, {}", disturbed["verdict"]["level"]);
        let is_near = |[alone, disturbed]: [Option<f64>; 2], more: f64| {
            disturbed.expect("a figure") < 1.5 * alone.expect("a figure") + more
        };
        let is_valid = |report: &Value| report["verdict"]["level"] != "invalid";
        is_near(busy, 0.05) && is_near(lateness, 1_000.0) && is_valid(&disturbed)
    };
    assert!((0..3).any(is_alike), "strangers change it");
}

#[test]
fn a_key_is_replaced_while_an_agent_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let [one, two] =
        [("one", KEY), ("two", OTHER_KEY)].map(|(name, key)| key_file(folder.path(), name, key));
    let secret = folder.path().join("secret");
    let replace = |by: &str| {
        let link = folder.path().join("link");
        symlink(by, &link).expect("a link");
        fs::rename(link, &secret).expect("renamed");
    };
    replace("one");
    let mut agent = Agent::start(Place::Here, &["--key-file", secret.to_str().expect("text")]);
    let (url, address) = (target.url(), agent.address.to_string());
    let args = [&url, "--agents", &address, "--key-file", &one, "--rate", "200", "--wait", "sleep"];
    let more = ["--duration", "3s", "--warmup", "0s", "--allow-invalid"];
    let mut running = controller(Place::Here, &[&args[..], &more].concat());
    running.wait_until("requests come", |_| 10 < target.received());
    replace("two");
    let ended = run(&target, agent.address, &["--key-file", &one]);
    assert_refused(&ended, agent.address, "the keys differ");
    assert!(running.is_running(), "a run that has begun goes on");
    let ended = running.ends_within(LONGEST);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let with_the_new_one = || {
        let ended = run(&target, agent.address, &["--key-file", &two]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    };
    with_the_new_one();
    // Without a key in its file, the last one stays.
    fs::remove_file(&secret).expect("it is ours");
    with_the_new_one();
    with_the_new_one();
    let words = ["the key was replaced, and new sessions need", "No such file or directory"];
    agent.process.wait_until("it says so", |agent| agent.stdout().contains(words[1]));
    let printed = agent.process.stdout();
    for words in words {
        assert_eq!(printed.matches(words).count(), 1, "{printed}");
    }
    assert!(printed.contains("; the last key stays in use"), "{printed}");
}

#[test]
fn a_second_controller_learns_which_one_holds_the_agent() {
    let target = Target::start(Place::Here);
    let agent = Agent::start(Place::Here, &[]);
    let (url, address) = (target.url(), agent.address.to_string());
    let args =
        [&url, "--agents", &address, "--rate", "100", "--duration", "60s", "--wait", "sleep"];
    let mut first = controller(Place::Here, &args);
    first.wait_until("requests come", |_| 10 < target.received());
    let ended = run(&target, agent.address, &[]);
    assert_refused(&ended, agent.address, "has held the agent for");
    let user = std::env::var("USER").unwrap_or_default();
    assert!(ended.stderr.contains(&user), "{ended:?}");
    let before = target.received();
    first.wait_until("it goes on", |_| before + 10 < target.received());
    first.signal("INT");
    assert_eq!(first.ends_within(LONGEST).code, Some(130));
    let ended = run(&target, agent.address, &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
