//! Requests with fields at the target: their bytes, which any number of shards and agents makes the
//! same, with each way of sending them.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Arrivals, Plan};
use engine::report::{Bytes, Report};
use engine::run;
use engine::sys::placement::allowed_cores;
use engine::sys::units::{CoreList, Nanos};
use engine::verify::report_alone;

use crate::agents::on_three;
use crate::sample_run::wrong;
use crate::support::{OK, open, plan, run as run_to_its_end};
use crate::tls_server::{Authority, BOTH, Peer, listen};

/// The requests that a server got, whole.
type Seen = Arc<Mutex<Vec<String>>>;

/// Answers each request, whose length its Content-Length alone tells, and keeps it.
fn answer_all(mut stream: impl Read + Write, seen: &Seen) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16_384];
    loop {
        while let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
            if bytes.len() < end + 4 + length {
                break;
            }
            let request: Vec<u8> = bytes.drain(..end + 4 + length).collect();
            seen.lock().expect("a list").push(String::from_utf8(request).expect("text"));
            let body = if head.starts_with("HEAD ") { 0 } else { b"hello".len() };
            let answer = &OK[..OK.len() - b"hello".len() + body];
            if stream.write_all(answer).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(length) => bytes.extend_from_slice(&chunk[..length]),
        }
    }
}

fn server() -> (SocketAddr, Seen) {
    let seen = Seen::default();
    let kept = seen.clone();
    let address = listen(move |_, socket| {
        socket.set_nodelay(true).expect("a socket");
        answer_all(socket, &kept);
    });
    (address, seen)
}

/// What it got since the last time, in order of the bytes.
fn sorted(seen: &Seen) -> Vec<String> {
    let mut seen = std::mem::take(&mut *seen.lock().expect("a list"));
    seen.sort_unstable();
    seen
}

fn csv(rows: impl IntoIterator<Item = String>) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    write!(file, "id,name\n{}", rows.into_iter().collect::<String>()).expect("written");
    file
}

/// Three routes, one without fields, with values of all kinds.
fn routes(address: SocketAddr, file: &tempfile::NamedTempFile) -> Plan {
    let route = |method: &str, url: &str, body: Option<&str>| Scenario {
        name: String::new(),
        weight: 1,
        step: vec![Step {
            method: Some(method.to_owned()),
            url: Some(url.to_owned()),
            body: body.map(str::to_owned),
            ..Step::default()
        }],
        ..Scenario::default()
    };
    let body = "{\"n\":{{seq}},\"name\":\"{{json:users.name}}\",\"r\":{{rand 1 1000000}}}";
    let name = file.path().display();
    Plan {
        scenario: vec![
            route("GET", "/fixed", None),
            route("HEAD", "/users/{{users.id}}?n={{seq}}&hot={{zipf 1.1 1000}}", None),
            route("POST", "/orders/{{users.name}}", Some(body)),
        ],
        headers: vec!["X-Id: {{uuid}}".to_owned()],
        data: [("users".to_owned(), format!("{name},random").parse().expect("a data file"))].into(),
        trace: Some(5),
        ..plan(address)
    }
}

#[test]
fn three_agents_send_the_requests_of_one_machine() {
    let (address, seen) = server();
    let file = csv((0..40).map(|row| format!("{row},\"O'Neil, \"\"{row}\"\" \"\n")));
    for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
        let plan = Plan { arrivals, ..open(routes(address, &file), "1k") };
        let report = run_to_its_end(plan.clone()).report;
        assert_eq!(wrong(report_alone(&report)), []);
        let alone = sorted(&seen);
        assert_eq!(alone.len() as u64, report.whole.counts.answered);
        let mut distinct = alone.clone();
        distinct.dedup();
        assert_eq!(distinct.len(), alone.len(), "each has a UUID");
        let traced = alone.iter().filter(|request| request.contains("\r\ntraceparent: 00-"));
        assert_eq!(traced.count(), alone.len());
        on_three(&plan);
        assert!(alone == sorted(&seen), "they sent others");
    }
}

#[test]
fn a_limited_closed_run_sends_the_same_for_any_shards_and_pipeline() {
    let (address, seen) = server();
    let file = csv((0..40).map(|row| format!("{row},x{row}\n")));
    let cores = allowed_cores();
    let of_run = |conns, pipeline, cores: &[usize]| {
        let cores = Some(CoreList::new(cores.to_vec()));
        let duration = Nanos::from_secs(30);
        let routes = routes(address, &file);
        let plan =
            Plan { conns: Some(conns), pipeline, requests: Some(500), cores, duration, ..routes };
        let counts = run_to_its_end(plan).report.whole.counts;
        assert_eq!((counts.answered, counts.intended), (500, 500), "{counts:?}");
        sorted(&seen)
    };
    let alone = of_run(1, 1, &cores[..1]);
    assert_eq!(alone.len(), 500);
    assert!(alone == of_run(8, 1, &cores[..1]), "more connections");
    assert!(alone == of_run(4, 16, &cores[..1]), "pipelined");
    assert!(alone == of_run(4, 2, &cores[..cores.len().min(2)]), "more shards");
}

/// Four routes in a run that sends only what it records: those of a plan, and a long upload, which
/// leaves as it was rendered.
fn with_upload(plan: Plan) -> Plan {
    let body = Some("x".repeat(40_000));
    let (method, url) = (Some("PUT".to_owned()), Some("/upload".to_owned()));
    let step = vec![Step { method, url, body, ..Step::default() }];
    let mut scenario = plan.scenario;
    scenario.push(Scenario { name: String::new(), weight: 1, step, ..Scenario::default() });
    let duration = Nanos::from_secs(30);
    let (headers, trace, conns, requests) = (Vec::new(), None, Some(4), Some(400));
    Plan { scenario, headers, trace, conns, requests, duration, ..plan }
}

/// Each part has the bytes of the requests that the server saw, and of its responses, and all other
/// bytes are beside them. Returns those.
fn assert_bytes(report: &Report, seen: &Seen) -> Bytes {
    let seen = sorted(seen);
    let requests = report.config.plan.requests();
    assert_eq!(requests.len(), report.whole.parts.len());
    for (part, request) in report.whole.parts.iter().zip(requests) {
        let start = format!("{} ", request.method);
        let own = seen.iter().filter(|seen| seen.starts_with(&start));
        let sent: usize = own.map(String::len).sum();
        assert_eq!(part.sent_bytes, sent as u64, "{}", part.name);
        let answer = if start == "HEAD " { OK.len() - b"hello".len() } else { OK.len() };
        assert_eq!(part.received_bytes, part.counts.answered * answer as u64, "{}", part.name);
        assert!(50 < part.counts.answered, "{}", part.name);
    }
    assert_eq!(wrong(report_alone(report)), []);
    let parts = Bytes::of_parts(&report.whole.parts);
    let beside = report.traffic.beside_parts.expect("several parts");
    assert_eq!(Bytes::of_shards(&report.generator.shards).minus(beside), Some(parts));
    beside
}

#[test]
fn each_route_has_the_bytes_that_its_target_saw() {
    let (address, seen) = server();
    let file = csv((0..40).map(|row| format!("{row},x{row}\n")));
    let routes = with_upload(routes(address, &file));
    let report = run_to_its_end(routes.clone()).report;
    assert_eq!(assert_bytes(&report, &seen), Bytes::default());
    let pipelined = Plan { pipeline: 4, ..routes.clone() };
    assert_eq!(assert_bytes(&run_to_its_end(pipelined).report, &seen), Bytes::default());

    let authority = Authority::new();
    let (config, kept) = (Arc::new(authority.server("127.0.0.1", BOTH)), seen.clone());
    let address = listen(move |_, socket| {
        let Some(Peer { tls, socket, .. }) = Peer::accept(&config, socket) else { return };
        answer_all(rustls::StreamOwned::new(tls, socket), &kept);
    });
    let Plan { target, cacert, .. } = authority.plan(address);
    let encrypted = Plan { target, cacert, ..routes };
    let beside = assert_bytes(&run_to_its_end(encrypted).report, &seen);
    assert!(400 * 20 < beside.received_bytes && 400 * 20 < beside.sent_bytes, "{beside:?}");
}

#[test]
fn requests_longer_than_a_record_are_encrypted_in_parts() {
    let authority = Authority::new();
    let seen = Seen::default();
    for version in BOTH {
        let (config, kept) = (Arc::new(authority.server("127.0.0.1", &[version])), seen.clone());
        let address = listen(move |_, socket| {
            let Some(Peer { tls, socket, .. }) = Peer::accept(&config, socket) else { return };
            answer_all(rustls::StreamOwned::new(tls, socket), &kept);
        });
        for (filler, pipeline) in [(10, 4), (20_000, 1)] {
            let body = Some(format!("{{{{seq}}}}{}{{{{seq}}}}", "x".repeat(filler)));
            let (conns, requests) = (Some(4), Some(100));
            let plan = Plan {
                method: "POST".to_owned(),
                body,
                conns,
                pipeline,
                requests,
                ..authority.plan(address)
            };
            let counts = run_to_its_end(plan).report.whole.counts;
            assert_eq!((counts.answered, counts.failed), (100, 0), "{counts:?}");
            let mut bodies: Vec<String> = sorted(&seen)
                .into_iter()
                .map(|request| request.split_once("\r\n\r\n").expect("a head").1.to_owned())
                .collect();
            let mut expected: Vec<String> =
                (0..100).map(|number| format!("{number}{}{number}", "x".repeat(filler))).collect();
            bodies.sort_unstable();
            expected.sort_unstable();
            assert!(bodies == expected, "{filler} bytes and more");
        }
    }
}

#[test]
fn rows_that_stop_a_run_are_sent_once_each() {
    let (address, seen) = server();
    let file = csv((0..230).map(|row| format!("{row:03},x\n")));
    let of = format!("{},stop", file.path().display()).parse().expect("a data file");
    let plan = Plan {
        target: format!("http://{address}/{{{{users.id}}}}"),
        data: [("users".to_owned(), of)].into(),
        conns: Some(7),
        duration: Nanos::from_secs(30),
        ..plan(address)
    };
    let period = Some(Nanos(20_000_000));
    for plan in [plan.clone(), open(plan.clone(), "1k"), Plan { period, ..plan }] {
        let report = run_to_its_end(plan).report;
        assert_eq!(report.config.plan.requests, Some(230));
        assert_eq!(report.whole.counts.answered, 230);
        assert_eq!(wrong(report_alone(&report)), []);
        let seen = sorted(&seen);
        assert_eq!(seen.len(), 230);
        for (row, request) in seen.iter().enumerate() {
            assert!(request.starts_with(&format!("GET /{row:03} HTTP/1.1\r\n")), "{request}");
        }
    }
}

#[test]
fn rows_that_may_not_suffice_are_refused_before_a_run() {
    let (address, seen) = server();
    let file = csv((0..100).map(|row| format!("{row},x\n")));
    let with = |options: &str, plan: Plan| {
        let of = format!("{}{options}", file.path().display()).parse().expect("a data file");
        let target = format!("http://{address}/{{{{users.id}}}}");
        let plan = Plan { target, data: [("users".to_owned(), of)].into(), ..plan };
        run::prepare(plan).map(|_| ()).map_err(|error| error.to_string())
    };
    let closed = plan(address);
    let (few, many) = (open(closed.clone(), "100"), open(closed.clone(), "1k"));
    assert_eq!(with(",fail", few.clone()), Ok(()), "about 50 in half a second");
    assert_eq!(with(",fail", Plan { requests: Some(100), ..closed.clone() }), Ok(()));
    let of = format!("{},random", file.path().display()).parse().expect("a data file");
    let unused = Plan { data: [("users".to_owned(), of)].into(), ..few.clone() };
    let error = run::prepare(unused).map(|_| ()).expect_err("refused").to_string();
    assert!(error.starts_with("--data users: no request takes a value from it; put"), "{error}");
    let warmed = Plan { warmup: Nanos(1), ..many.clone() };
    for (options, plan, words) in [
        (",fail", many, "--data users: the run needs more than its 100 rows; give more"),
        (",fail", closed, "--data users: whether 100 rows suffice depends on how fast"),
        (",stop", warmed, "each row is taken once, and the warm-up would take the first ones"),
    ] {
        let error = with(options, plan).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(sorted(&seen), [""; 0]);
}
