//! Requests with large bodies: sent from a mapped file, in many pieces, and answered early.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use engine::load::share::Share;
use engine::plan::Plan;
use engine::plan::body::SharedBody;
use engine::record::outcome::Cause;
use engine::report::Report;
use engine::run::{Targets, prepare_with};
use engine::sys::units::Nanos;
use tempfile::NamedTempFile;

use crate::support::{self, OK, plan, run};

/// Above the kernel's largest send buffer, and a whole number of neither pages nor sends.
const BODY_BYTES: usize = (6 << 20) + 4_321;
const REFUSED: &[u8] = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// A body in which no two page-sized pieces are alike.
fn body() -> Vec<u8> {
    let words =
        (0_u64..).flat_map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    words.take(BODY_BYTES).collect()
}

fn body_file() -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(&body()).expect("written");
    file
}

fn upload(address: SocketAddr, file: &NamedTempFile, conns: usize) -> Plan {
    Plan {
        method: "POST".to_owned(),
        body: Some(format!("@{}", file.path().display())),
        conns: Some(conns),
        ..plan(address)
    }
}

/// Starts a server that passes each connection, with the bytes read behind the head of its first
/// request, to `serve`, whose results are received.
fn serve<T, F>(serve: F) -> (SocketAddr, Receiver<T>)
where
    T: Send + 'static,
    F: Fn(&mut TcpStream, Vec<u8>, &Sender<T>) + Copy + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (sender, results) = mpsc::channel();
    // The threads end with their connections, the last with the test process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let sender = sender.clone();
            std::thread::spawn(move || {
                if let Some(rest) = read_head(&mut stream, Vec::new()) {
                    serve(&mut stream, rest, &sender);
                }
            });
        }
    });
    (address, results)
}

/// Reads a head that begins with `bytes`; returns what was read behind it.
fn read_head(stream: &mut TcpStream, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end + 2]).into_owned();
            assert!(head.contains(&format!("Content-Length: {BODY_BYTES}\r\n")), "{head}");
            return Some(bytes.split_off(end + 4));
        }
        let mut chunk = [0; 4_096];
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(length) => bytes.extend_from_slice(&chunk[..length]),
        }
    }
}

/// The number of bytes until the peer has gone, `read` of them already read.
fn drain(stream: &mut TcpStream, mut read: usize) -> usize {
    let mut chunk = vec![0; 65_536];
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        read += length;
    }
    read
}

/// Asserts that all responses have this status, nothing fails, and each connection served one
/// request.
fn assert_answered_early(report: &Report, status: u16) {
    let counts = &report.whole.counts;
    assert!(0 < counts.answered, "{counts:?}");
    assert_eq!(counts.status.of(status), counts.answered, "{counts:?}");
    assert_eq!((counts.failed, counts.connection_errors.total()), (0, 0), "{counts:?}");
    assert_eq!(counts.incomplete_uploads, counts.answered, "{counts:?}");
    assert!(counts.answered <= counts.connects, "{counts:?}");
    assert_eq!(counts.sent, counts.answered + counts.timed_out + counts.abandoned, "{counts:?}");
}

#[test]
fn a_large_file_arrives_unchanged_with_every_request() {
    let (address, bodies) = serve(|stream, mut bytes, sender| {
        loop {
            let read = bytes.len();
            bytes.resize(BODY_BYTES, 0);
            if stream.read_exact(&mut bytes[read..]).is_err() {
                return;
            }
            sender.send(std::mem::take(&mut bytes)).expect("the test waits");
            let next = stream.write_all(OK).ok().and_then(|()| read_head(stream, Vec::new()));
            let Some(rest) = next else { return };
            bytes = rest;
        }
    });
    let file = body_file();
    let report = run(upload(address, &file, 3)).report;
    let counts = &report.whole.counts;
    assert!(3 <= counts.answered, "{counts:?}");
    assert_eq!((counts.answered, counts.connects), (counts.sent, 3), "{counts:?}");
    assert_eq!(counts.incomplete_uploads, 0, "{counts:?}");
    let sent = body();
    let arrived: Vec<Vec<u8>> = bodies.try_iter().collect();
    assert_eq!(arrived.len() as u64, counts.answered);
    assert!(arrived.iter().all(|body| *body == sent));
    let shown = report.config.plan.body.as_ref().expect("the request has a body");
    assert!(shown.contains(" sha256:"), "{shown}");
}

#[test]
fn a_request_answered_early_is_cut_off_and_its_connection_replaced() {
    // Nothing is read until the client may have closed: if it hasn't, the rest comes.
    let (address, read) = serve(|stream, rest, sender| {
        stream.write_all(OK).expect("the client waits for it");
        std::thread::sleep(Duration::from_millis(100));
        let _ = sender.send(drain(stream, rest.len()));
    });
    let file = body_file();
    let report = run(upload(address, &file, 16)).report;
    assert_answered_early(&report, 200);
    let counts = &report.whole.counts;
    assert!(16 < counts.connects, "connections were replaced: {counts:?}");
    for _ in 0..counts.answered {
        let read = read.recv_timeout(Duration::from_secs(10)).expect("the client has closed");
        assert!(read < BODY_BYTES, "{read} bytes came after the response");
    }
}

#[test]
fn an_early_response_counts_if_the_server_reads_on() {
    let (address, ends) = serve(|stream, mut rest, sender| {
        let mut next = Some(());
        while next.is_some() && stream.write_all(OK).is_ok() {
            let mut body = (&mut *stream).take((BODY_BYTES - rest.len()) as u64);
            let read = std::io::copy(&mut body, &mut std::io::sink());
            let is_whole = read.is_ok_and(|read| read == (BODY_BYTES - rest.len()) as u64);
            let _ = sender.send(is_whole);
            next = read_head(stream, Vec::new()).filter(|_| is_whole).map(|after| rest = after);
        }
    });
    let file = body_file();
    let report = run(upload(address, &file, 4)).report;
    let counts = &report.whole.counts;
    assert!(0 < counts.answered, "{counts:?}");
    assert_eq!((counts.failed, counts.connection_errors.total()), (0, 0), "{counts:?}");
    // Uploads that the client gave up may have been in the kernel's buffers already.
    let cut = ends.try_iter().filter(|is_whole| !is_whole).count() as u64;
    assert!(cut <= counts.incomplete_uploads, "{cut} requests were cut off: {counts:?}");
    assert!(counts.incomplete_uploads <= counts.answered, "{counts:?}");
}

#[test]
fn an_early_response_counts_if_a_reset_follows_it() {
    // The unread bytes make its close a reset.
    let (address, _reset) = serve(|stream, _, _: &Sender<()>| {
        stream.write_all(REFUSED).expect("the client waits for it");
    });
    let file = body_file();
    assert_answered_early(&run(upload(address, &file, 16)).report, 413);
}

#[test]
fn an_early_response_counts_if_requests_share_a_send() {
    let (address, _sent) = serve(|stream, rest, _: &Sender<()>| {
        stream.write_all(OK).expect("the client waits for it");
        drain(stream, rest.len());
    });
    let file = body_file();
    let report = run(Plan { pipeline: 4, ..upload(address, &file, 4) }).report;
    let counts = &report.whole.counts;
    assert!(0 < counts.answered, "{counts:?}");
    assert_eq!(counts.incomplete_uploads, counts.answered, "{counts:?}");
    assert_eq!(counts.errors.of(Cause::BehindFailed), counts.failed, "{counts:?}");
    assert_eq!(counts.failed, 3 * counts.answered, "each ended the connection of three others");
}

#[test]
fn a_reset_without_a_response_is_a_failure() {
    let (address, _reset) = serve(|_, _, _: &Sender<()>| {});
    let file = body_file();
    let counts = run(upload(address, &file, 4)).report.whole.counts;
    assert!(0 < counts.failed && counts.answered == 0, "{counts:?}");
    // If the send meets the reset first, the receive only sees the end.
    let causes = [Cause::Reset, Cause::WriteFailed, Cause::ClosedBeforeResponse];
    let of_a_reset: u64 = causes.into_iter().map(|cause| counts.errors.of(cause)).sum();
    assert_eq!(of_a_reset, counts.failed, "{counts:?}");
}

#[test]
fn a_response_whose_end_is_a_reset_is_cut_short() {
    let (address, _reset) = serve(|stream, _, _: &Sender<()>| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\npart");
        // The unread body makes this a reset.
    });
    let file = body_file();
    let counts = run(upload(address, &file, 4)).report.whole.counts;
    // A send that a reset stops halfway doesn't report it.
    assert!(10 * counts.answered < counts.failed, "{counts:?}");
    let causes = [Cause::Reset, Cause::WriteFailed, Cause::CutShort, Cause::ClosedBeforeResponse];
    let of_a_reset: u64 = causes.into_iter().map(|cause| counts.errors.of(cause)).sum();
    assert_eq!(of_a_reset, counts.failed, "{counts:?}");
}

#[test]
fn a_response_that_ended_before_a_reset_is_complete() {
    let (address, _reset) = serve(|stream, _, _: &Sender<()>| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nwhole");
        let _ = stream.shutdown(Shutdown::Write);
    });
    let file = body_file();
    let counts = run(upload(address, &file, 4)).report.whole.counts;
    assert!(0 < counts.answered, "{counts:?}");
    assert_eq!(counts.failed, 0, "{counts:?}");
}

#[test]
fn a_file_truncated_during_the_run_fails_the_requests_and_not_the_run() {
    let (address, read) = serve(|stream, rest, sender| {
        let _ = sender.send(drain(stream, rest.len()));
    });
    let file = body_file();
    let plan = Plan { duration: Nanos(300_000_000), ..upload(address, &file, 4) };
    let prepared = engine::run::prepare(plan).unwrap_or_else(|error| panic!("{error}"));
    file.as_file().set_len(1 << 20).expect("cut short");
    let run = engine::run::Run::start(prepared).unwrap_or_else(|error| panic!("{error}"));
    let counts = run.wait().report.whole.counts;
    assert!(0 < counts.failed, "{counts:?}");
    assert_eq!(counts.errors.of(Cause::BodyUnreadable), counts.failed, "{counts:?}");
    for _ in 0..counts.failed {
        let read = read.recv_timeout(Duration::from_secs(10)).expect("the client has closed");
        assert!(read <= 1 << 20, "{read} bytes of 1 MiB");
    }
}

#[test]
fn several_runs_send_the_contents_of_one_pipe_and_keep_their_samples_apart() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(b"abc").expect("room for three bytes");
    drop(writer);
    let folder = tempfile::tempdir().expect("a folder");
    let plan = Plan {
        method: "POST".to_owned(),
        body: Some(format!("@/proc/self/fd/{}", reader.as_raw_fd())),
        duration: Nanos(100_000_000),
        conns: Some(1),
        ..plan(support::serve(support::always_ok))
    };
    let body = SharedBody::default();
    for number in 1..=2 {
        let raw = Some(folder.path().join(format!("r-{number}.bin")));
        let plan = Plan { raw, ..plan.clone() };
        let prepared = prepare_with(plan, &body, Targets::Resolve, Share::whole());
        let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
        let run = engine::run::Run::start(prepared).unwrap_or_else(|error| panic!("{error}"));
        let report = run.wait().report;
        assert!(0 < report.whole.counts.answered, "{:?}", report.whole.counts);
        let shown = report.config.plan.body.as_ref().expect("the request has a body");
        // The first digits of the test vector for "abc" (FIPS 180-4 examples).
        assert!(shown.ends_with(" sha256:ba7816bf8f01cfea"), "{shown}");
    }
    let mut files: Vec<_> = folder.path().read_dir().expect("a folder").flatten().collect();
    files.sort_by_key(std::fs::DirEntry::file_name);
    let names: Vec<_> = files.iter().map(std::fs::DirEntry::file_name).collect();
    assert_eq!(names, ["r-1.bin", "r-2.bin"]);
}
