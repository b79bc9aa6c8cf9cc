//! Load over a Unix-domain socket, and what is refused with it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

use engine::plan::{Plan, StampSource, Switch};
use engine::run::prepare;

use crate::support::{OK, codes, open, plan, run};

/// Answers every request on a socket at this path.
fn serve(path: &Path) {
    let listener = UnixListener::bind(path).expect("a free path");
    // The threads end with their connections, the last with the test process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let (mut bytes, mut chunk) = (Vec::new(), [0; 4_096]);
                while let Ok(length @ 1..) = stream.read(&mut chunk) {
                    bytes.extend_from_slice(&chunk[..length]);
                    while let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                        assert!(bytes.starts_with(b"GET /x HTTP/1.1\r\nHost: api.test"));
                        bytes.drain(..end + 4);
                        if stream.write_all(OK).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
}

/// A short plan over this socket, for a URL whose host is never resolved.
fn over(path: &Path) -> Plan {
    let address = "127.0.0.1:1".parse().expect("an address");
    let target = "http://api.test/x".to_owned();
    Plan { target, unix: Some(path.to_owned()), ..plan(address) }
}

#[test]
fn requests_use_the_socket_and_the_report_shows_the_consequences() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.sock");
    serve(&path);
    for plan in [
        open(over(&path), "500"),
        Plan { conns: Some(8), ..over(&path) },
        Plan { conns: Some(4), keepalive: Switch::Off, ..over(&path) },
        Plan { conns: Some(4), pipeline: 4, ..over(&path) },
    ] {
        let report = run(plan.clone()).report;
        let counts = &report.whole.counts;
        assert!(100 < counts.answered && counts.failed == 0, "{plan:?}: {counts:?}");
        assert_eq!(counts.stamped_by_kernel, 0);
        assert_eq!(report.config.target_address, format!("unix:{}", path.display()));
        assert_eq!(report.config.plan.stamps, Some(StampSource::User));
        assert_eq!(report.environment.network.target_on_this_host, Some(true));
        assert_eq!(report.environment.network.interface, None);
        assert!(codes(&report).contains(&"client_share".to_owned()), "{:?}", codes(&report));
    }
}

#[test]
fn a_vanished_listener_fails_requests_and_not_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.sock");
    serve(&path);
    let plan = Plan { keepalive: Switch::Off, ..open(over(&path), "500") };
    let prepared = prepare(plan).expect("it listens");
    std::fs::remove_file(&path).expect("it was there");
    let started = engine::run::Run::start(prepared).expect("it starts");
    let counts = started.wait().report.whole.counts;
    assert!(0 < counts.intended && counts.unconnected == counts.intended, "{counts:?}");
    assert_eq!(counts.failed, counts.intended);
}

#[test]
fn settings_without_a_meaning_there_are_refused() {
    let socket = Path::new("/nonexistent/app.sock");
    let of =
        |change: fn(Plan) -> Plan| prepare(change(over(socket))).expect_err("refused").to_string();
    let long = |plan: Plan| Plan { unix: Some("x".repeat(200).into()), ..plan };
    for (message, start) in [
        (of(|plan| plan), "--unix /nonexistent/app.sock: accepts no connection (No such file"),
        (of(long), "--unix xxx"),
        (
            of(|plan| Plan { connect_to: vec!["h:80".to_owned()], ..plan }),
            "--connect-to h:80: --unix already sets where to connect to; omit one",
        ),
        (
            of(|plan| Plan { resolve: vec!["h:80:::1".to_owned()], ..plan }),
            "--resolve h:80:::1: --unix already sets",
        ),
        (
            of(|plan| Plan { source_addresses: vec!["::1".parse().expect("an address")], ..plan }),
            "--source-addresses ::1: a Unix-domain socket has no address to connect from; omit it",
        ),
        (
            of(|plan| Plan { stamps: Some(StampSource::Kernel), ..plan }),
            "--stamps kernel: the kernel has no timestamps for a Unix-domain socket; omit",
        ),
        (
            of(|plan| Plan { stamp_sends: Some("1/10".parse().expect("a sample")), ..plan }),
            "--stamp-sends 1/10: the kernel has no timestamps",
        ),
    ] {
        assert!(message.starts_with(start), "{message}");
    }
}
