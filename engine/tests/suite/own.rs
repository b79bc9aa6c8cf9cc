//! Sessions with a connection of their own: a server sees each of them on one connection, from its
//! first step to its last, and nothing else on it.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use engine::plan::scenario::{ConnectionOf, Scenario, Step};
use engine::plan::{Http, Model, Plan};
use engine::report::Report;
use engine::run::prepare;
use engine::sys::units::Nanos;
use engine::verify::{report_alone, with_samples};

use crate::http2_server::{self, Frame, Peer, plan2};
use crate::sample_run::wrong;
use crate::support::{open, plan, run};

/// The requests of each connection, and whether the client closed it.
type Seen = Arc<Mutex<Vec<(Vec<String>, bool)>>>;

/// A server that notes what each connection carries, and closes it after an answer if `closes` with
/// this path says so.
fn server(closes: impl Fn(&str) -> bool + Send + Sync + 'static) -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let seen: Seen = Arc::default();
    let (all, closes) = (seen.clone(), Arc::new(closes));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(stream), all, closes) = (stream, all.clone(), closes.clone()) else { return };
            let at = {
                let mut all = all.lock().expect("no panic");
                all.push((Vec::new(), false));
                all.len() - 1
            };
            std::thread::spawn(move || serve(&stream, at, &all, &*closes));
        }
    });
    (address, seen)
}

fn serve(stream: &TcpStream, at: usize, all: &Seen, closes: &impl Fn(&str) -> bool) {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    let mut path = String::new();
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|length| 0 < length) {
        if line == "\r\n" {
            all.lock().expect("no panic")[at].0.push(path.clone());
            let is_last = closes(&path);
            let close = if is_last { "Connection: close\r\n" } else { "" };
            let response = format!("HTTP/1.1 200 OK\r\n{close}Content-Length: 2\r\n\r\nok");
            if writer.write_all(response.as_bytes()).is_err() || is_last {
                return;
            }
        } else if let Some(rest) = line.strip_prefix("GET ") {
            path = rest.split(' ').next().expect("a path").to_owned();
        }
        line.clear();
    }
    all.lock().expect("no panic")[at].1 = true;
}

fn step(name: &str) -> Step {
    let url = Some(format!("/{name}?s={{{{seq}}}}"));
    Step { name: name.to_owned(), url, ..Step::default() }
}

/// A scenario of three steps with a connection for each session.
fn buy() -> Scenario {
    Scenario {
        name: "buy".to_owned(),
        weight: 3,
        think: "5ms".parse().ok(),
        connection: Some(ConnectionOf::Own),
        step: ["login", "cart", "pay"].map(step).into(),
        ..Scenario::default()
    }
}

fn look() -> Scenario {
    Scenario::of_one("look".to_owned(), 1, step("look"))
}

/// The steps of each session, by connection in order of their numbers.
fn walks(seen: &Seen) -> HashMap<String, Vec<Vec<String>>> {
    let mut walks: HashMap<String, Vec<Vec<String>>> = HashMap::new();
    for (paths, _) in seen.lock().expect("no panic").iter() {
        let mut on_this: HashMap<String, Vec<String>> = HashMap::new();
        for path in paths {
            let (step, session) = path.trim_start_matches('/').split_once("?s=").expect("both");
            on_this.entry(session.to_owned()).or_default().push(step.to_owned());
        }
        on_this.into_iter().for_each(|(session, steps)| {
            walks.entry(session).or_default().push(steps);
        });
    }
    walks
}

fn completed(report: &Report) -> u64 {
    report.whole.scenarios.iter().find(|one| one.name == "buy").expect("it is listed").completed
}

#[test]
fn each_session_has_one_connection_and_no_other_uses_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("run.raw");
    let (address, seen) = server(|_| false);
    let scenario = vec![buy(), look()];
    // The setup has sessions too, whose connections don't reach into the run.
    let warmup = Nanos(200_000_000);
    let plan = Plan { raw: Some(raw.clone()), scenario, warmup, ..plan(address) };
    let report = run(open(plan, "300")).report;
    let counts = &report.whole.counts;
    assert_eq!((report.whole.counts.bad(), counts.pool_grew), (0, 0), "{counts:?}");
    assert!(0 < counts.setup.answered, "{counts:?}");
    let all = seen.lock().expect("no panic");
    let of_buy =
        all.iter().filter(|(paths, _)| paths.iter().any(|path| !path.starts_with("/look")));
    let mut sessions = 0;
    for (paths, closed) in of_buy {
        let numbers: Vec<&str> = paths.iter().filter_map(|path| path.split('=').nth(1)).collect();
        assert!(numbers.iter().all(|number| *number == numbers[0]), "{paths:?}");
        let steps: Vec<&str> = paths
            .iter()
            .filter_map(|path| path.trim_start_matches('/').split('?').next())
            .collect();
        // Those of the setup end with it.
        assert!(["login", "cart", "pay"].starts_with(&steps), "{paths:?}");
        assert!(*closed, "{paths:?}");
        sessions += u64::from(paths.len() == 3);
    }
    assert!(completed(&report) <= sessions && 50 < completed(&report), "{sessions}");
    // Its requests have an endpoint of their own, with as many connects as sessions.
    let own = &report.whole.endpoints[0];
    assert!(own.name.ends_with("(own connections)"), "{}", own.name);
    let connects = own.counts.connects;
    assert!(completed(&report) <= connects && connects <= all.len() as u64, "{:?}", own.counts);
    assert_eq!(wrong(report_alone(&report)), []);
    assert_eq!(wrong(with_samples(&report, &[&raw])), []);
}

#[test]
fn a_session_whose_connection_the_target_closes_goes_on_with_another() {
    let (address, seen) = server(|path| path.starts_with("/cart"));
    let report = run(open(Plan { scenario: vec![buy()], ..plan(address) }, "200")).report;
    assert_eq!(report.whole.counts.bad(), 0, "{:?}", report.whole.counts);
    for (session, connections) in walks(&seen) {
        let want = [&["login", "cart"][..], &["pay"]];
        assert_eq!(connections, want, "session {session}");
    }
    assert!(50 < completed(&report));
}

#[test]
fn sessions_wait_for_a_connection_of_their_own_below_the_cap() {
    let (address, seen) = server(|_| false);
    let scenario = vec![buy(), look()];
    // Two at once, each 10 ms long, are 200/s of the 225/s due.
    let plan = Plan { scenario, conns: Some(2), ..plan(address) };
    let report = run(open(plan, "300")).report;
    let counts = &report.whole.counts;
    assert!(0 < counts.capped && counts.failed == 0, "{counts:?}");
    assert!(walks(&seen).values().all(|connections| connections.len() == 1));
    assert!(50 < completed(&report));
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn users_of_a_closed_model_have_a_new_connection_for_each_session() {
    for period in [None, Some(Nanos(25_000_000))] {
        let (address, seen) = server(|_| false);
        let plan = Plan {
            scenario: vec![buy()],
            conns: Some(3),
            model: Some(Model::Closed),
            period,
            ..plan(address)
        };
        let report = run(plan).report;
        assert_eq!(report.whole.counts.failed, 0, "{:?}", report.whole.counts);
        for (paths, _) in seen.lock().expect("no panic").iter() {
            assert!(paths.len() <= 3, "{period:?}: {paths:?}");
        }
        assert!(walks(&seen).values().all(|connections| connections.len() == 1));
        assert!(50 < completed(&report), "{period:?}: {}", completed(&report));
        assert_eq!(wrong(report_alone(&report)), []);
    }
}

#[test]
fn over_http2_a_session_has_its_own_connection_too() {
    let begun: Arc<Mutex<HashMap<u64, u64>>> = Arc::default();
    let seen = begun.clone();
    let address = http2_server::serve(&[], move |peer: &mut Peer, frame: Frame| {
        seen.lock().expect("no panic").insert(peer.connection, peer.begun);
        http2_server::always_ok(peer, frame)
    });
    let plan = Plan { scenario: vec![buy()], streams: Some(8), ..plan2(address) };
    let report = run(open(plan.clone(), "200")).report;
    assert_eq!(report.whole.counts.bad(), 0, "{:?}", report.whole.counts);
    let all = std::mem::take(&mut *begun.lock().expect("no panic"));
    assert!(all.values().all(|requests| *requests == 3), "{all:?}");
    assert_eq!(all.len() as u64, completed(&report));
    let closed = Plan { model: Some(Model::Closed), conns: Some(2), streams: Some(1), ..plan };
    let report = run(closed).report;
    assert_eq!(report.whole.counts.failed, 0, "{:?}", report.whole.counts);
    let all = begun.lock().expect("no panic");
    assert!(all.values().all(|requests| *requests <= 3), "{all:?}");
    assert!(20 < completed(&report));
}

#[test]
fn connections_of_their_own_are_refused_where_they_could_not_be_that() {
    let refused = |plan: Plan| prepare(plan).map(|_| ()).expect_err("refused").to_string();
    let plan = plan("127.0.0.1:1".parse().expect("an address"));
    let own = Plan { scenario: vec![buy()], ..plan.clone() };
    let closed = Plan { model: Some(Model::Closed), ..own.clone() };
    let single = Scenario { connection: Some(ConnectionOf::Own), ..look() };
    let mut hosts = buy();
    hosts.step[2].url = Some("http://127.0.0.2:1/pay".to_owned());
    for (plan, part) in [
        (Plan { scenario: vec![single], ..plan }, "one request"),
        (open(Plan { scenario: vec![hosts], ..own.clone() }, "10"), "several hosts"),
        (open(Plan { keepalive: engine::plan::Switch::Off, ..own.clone() }, "10"), "keep-alive"),
        (Plan { scenario: vec![buy(), look()], ..closed.clone() }, "one connection for all"),
        (Plan { pipeline: 4, ..closed.clone() }, "several sessions"),
        (Plan { http: Http::V2, ..closed }, "several sessions"),
    ] {
        let error = refused(plan);
        assert!(error.contains(part), "{part}: {error}");
    }
}
