//! Runs of several hosts: each has connections of its own, and none holds back another, except by
//! the cap that they share.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Arrivals, Order, Plan};
use engine::record::outcome::Cause;
use engine::report::verdict::Code;
use engine::report::{EndpointPart, Report, StepPart};
use engine::run::{self, Run};
use engine::sys::units::Nanos;
use engine::verify::{report_alone, with_samples};
use rustls::version::{TLS12, TLS13};

use crate::sample_run::wrong;
use crate::support::{OK, always_ok, open, plan, refusing, run, serve};
use crate::tls_server::{self, Authority};

fn scenario(name: &str, weight: u32, url: String) -> Scenario {
    let step = Step { url: Some(url), ..Step::default() };
    Scenario::of_one(name.to_owned(), weight, step)
}

/// A plan of two hosts, `one` and `two`, with these weights.
fn of_two(addresses: [SocketAddr; 2], weights: [u32; 2]) -> Plan {
    let [one, two] = addresses;
    let scenario = vec![
        scenario("one", weights[0], format!("http://{one}/")),
        scenario("two", weights[1], format!("http://{two}/")),
    ];
    Plan { scenario, ..plan(one) }
}

fn part<'a>(report: &'a Report, name: &str) -> &'a StepPart {
    report.whole.parts.iter().find(|part| part.name == name).expect(name)
}

fn endpoints(report: &Report) -> [&EndpointPart; 2] {
    let each: Vec<&EndpointPart> = report.whole.endpoints.iter().collect();
    each.try_into().expect("two endpoints")
}

/// A server that counts the requests that it answers.
fn counting() -> (SocketAddr, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let address = serve(move |_, stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        stream.write_all(OK).is_ok()
    });
    (address, count)
}

#[test]
fn each_host_gets_its_own_requests_on_its_own_connections() {
    let open_plan = |addresses| open(of_two(addresses, [3, 1]), "400");
    let closed = |addresses| Plan { conns: Some(3), ..of_two(addresses, [3, 1]) };
    let loads: [&dyn Fn([SocketAddr; 2]) -> Plan; 5] = [
        &open_plan,
        &|addresses| Plan { pipeline: 4, conns: Some(4), ..open_plan(addresses) },
        &closed,
        &|addresses| Plan { pipeline: 4, ..closed(addresses) },
        &|addresses| Plan { period: Some(Nanos(10_000_000)), ..closed(addresses) },
    ];
    for (number, load) in loads.into_iter().enumerate() {
        let ((one, of_one), (two, of_two)) = (counting(), counting());
        let report = run(load([one, two])).report;
        let counts = &report.whole.counts;
        assert!(100 < counts.intended, "load {number}: {counts:?}");
        assert_eq!(counts.answered, counts.intended, "load {number}: {counts:?}");
        for (name, served) in [("one", of_one), ("two", of_two)] {
            let answered = part(&report, name).counts.answered;
            assert_eq!(answered, served.load(Ordering::Relaxed), "load {number}: {name}");
        }
        let [first, second] = endpoints(&report);
        assert_eq!(first.name, format!("http://{one}"));
        assert_eq!([&first.address, &second.address], [&one.to_string(), &two.to_string()]);
        assert_eq!([first.planned, second.planned], [0.75, 0.25]);
        let opened = first.counts.connects + second.counts.connects;
        assert_eq!(opened, counts.connects, "load {number}");
        if report.config.plan.rate.is_none() {
            // Each user has a connection to each.
            assert_eq!([first.counts.connects, second.counts.connects], [3, 3], "load {number}");
        }
        assert_eq!(wrong(report_alone(&report)), [], "load {number}");
    }
}

#[test]
fn one_host_is_not_listed_apart() {
    let address = serve(always_ok);
    let report = run(open(of_two([address; 2], [1, 1]), "200")).report;
    assert_eq!((report.whole.endpoints.len(), report.whole.parts.len()), (0, 2));
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn a_host_that_refuses_connections_leaves_the_other_alone() {
    let open_plan = |addresses| open(of_two(addresses, [1, 1]), "400");
    let closed = |addresses| Plan { conns: Some(8), ..of_two(addresses, [1, 1]) };
    let paced = |addresses| Plan { period: Some(Nanos(20_000_000)), ..closed(addresses) };
    let loads: [&dyn Fn([SocketAddr; 2]) -> Plan; 3] = [&open_plan, &closed, &paced];
    for (number, load) in loads.into_iter().enumerate() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let prepared = run::prepare(load([serve(always_ok), address])).expect("it listens");
        let _refusing = refusing(listener);
        let report = Run::start(prepared).expect("shards").wait().report;
        let [one, two] = ["one", "two"].map(|name| &part(&report, name).counts);
        assert!(20 < one.intended, "load {number}: {one:?}");
        assert_eq!(one.answered, one.intended, "load {number}: {one:?}");
        assert!(20 < two.intended, "load {number}: {two:?}");
        assert_eq!(two.answered, 0, "load {number}: {two:?}");
        let [first, second] = endpoints(&report);
        assert_eq!(first.counts.connect_failures.total(), 0, "load {number}");
        assert!(0 < second.counts.connect_failures.of(Cause::ConnectRefused), "load {number}");
        assert_eq!(second.counts.connects, 0, "load {number}");
        assert_eq!(wrong(report_alone(&report)), [], "load {number}");
    }
}

#[test]
fn a_wait_at_the_cap_says_for_which_host() {
    // The second host never answers, so its requests hold all connections.
    let stalled = serve(|_, _| {
        std::thread::sleep(Duration::from_secs(10));
        false
    });
    let two = of_two([serve(always_ok), stalled], [1, 3]);
    let report = run(Plan { conns: Some(4), ..open(two, "400") }).report;
    let [first, second] = endpoints(&report).map(|it| &it.counts);
    let counts = &report.whole.counts;
    assert_eq!(first.waited + second.waited, counts.waited);
    assert!(50 < second.capped && 10 < first.capped, "{first:?} {second:?}");
    let reasons = &report.verdict.reasons;
    let capped = reasons.iter().find(|reason| reason.code == Code::CapReached).expect("a reason");
    let words = format!("{} of them for a connection to http://{stalled}", second.capped);
    assert!(capped.evidence.contains(&words), "{capped:?}");
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn an_idle_connection_makes_room_for_another_host() {
    let plan = of_two([serve(always_ok), serve(always_ok)], [1, 1]);
    let in_turn = Plan {
        order: Order::RoundRobin,
        arrivals: Arrivals::Constant,
        conns: Some(1),
        ..open(plan, "40")
    };
    let report = run(in_turn).report;
    let [first, second] = endpoints(&report).map(|it| &it.counts);
    let counts = &report.whole.counts;
    assert_eq!((counts.answered, counts.intended), (20, 20), "{counts:?}");
    // Every request finds the connection of the other host.
    assert!(5 < first.yielded && 5 < second.yielded, "{first:?} {second:?}");
    assert_eq!(first.waited + second.waited, counts.waited);
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn a_busy_host_does_not_starve_another() {
    for pipeline in [1, 2] {
        // The first host has far more to do than two connections carry.
        let busy = serve(|_, stream| {
            std::thread::sleep(Duration::from_millis(10));
            stream.write_all(OK).is_ok()
        });
        let two = of_two([busy, serve(always_ok)], [9, 1]);
        let plan = Plan { conns: Some(2), pipeline, ..open(two, "1k") };
        let report = run(Plan { duration: Nanos::from_secs(1), ..plan }).report;
        let [first, second] = endpoints(&report).map(|it| &it.counts);
        let counts = &part(&report, "two").counts;
        // Those of the second wait about as long as those of the first.
        assert!(counts.intended / 4 < counts.answered, "{counts:?}");
        assert!(0 < first.yielded && second.connects <= 1 + counts.intended, "{first:?}");
        assert_eq!(wrong(report_alone(&report)), []);
    }
}

#[test]
fn each_host_has_its_own_tls_name_and_certificate() {
    let authority = Authority::new();
    let server = |name: &str, version| {
        tls_server::serve(authority.server(name, &[version]), tls_server::always_ok)
    };
    let (one, two, plain) = (server("a.test", &TLS13), server("b.test", &TLS12), serve(always_ok));
    let urls = [
        format!("https://a.test:{}/", one.port()),
        format!("https://b.test:{}/", two.port()),
        format!("http://c.test:{}/", plain.port()),
    ];
    let named = |name: &str, address: SocketAddr| format!("{name}:{}:127.0.0.1", address.port());
    let plan = Plan {
        target: urls[0].clone(),
        resolve: vec![named("a.test", one), named("b.test", two), named("c.test", plain)],
        scenario: urls.iter().map(|url| scenario("", 1, url.clone())).collect(),
        ..authority.plan(one)
    };
    for load in [open(plan.clone(), "300"), Plan { conns: Some(2), ..plan.clone() }] {
        let report = run(load).report;
        let counts = &report.whole.counts;
        assert_eq!((counts.answered, counts.failed), (counts.intended, 0), "{counts:?}");
        assert!(report.whole.parts.iter().all(|part| 10 < part.counts.answered));
        let tls = report.whole.tls.as_ref().expect("TLS");
        assert_eq!(tls.version, "TLS 1.2, TLS 1.3");
        assert_eq!(wrong(report_alone(&report)), []);
    }
    // The second host has the first one's certificate.
    let wrong_name = Plan {
        resolve: Vec::new(),
        connect_to: vec![
            format!("c.test:{0}:127.0.0.1:{0}", plain.port()),
            format!("::127.0.0.1:{}", one.port()),
        ],
        ..plan
    };
    let error = run::prepare(wrong_name).expect_err("another name").to_string();
    assert!(error.starts_with(&format!("--connect-to ::127.0.0.1:{}: ", one.port())), "{error}");
    assert!(error.contains("tls_"), "{error}");
}

#[test]
fn samples_of_several_hosts_verify() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, conns) in [("open.bin", None), ("closed.bin", Some(4))] {
        let file = folder.path().join(name);
        let plan = of_two([serve(always_ok), serve(always_ok)], [1, 2]);
        let plan = Plan { raw: Some(file.clone()), ..plan };
        let plan = match conns {
            None => Plan { conns: Some(2), ..open(plan, "500") },
            conns => Plan { conns, ..plan },
        };
        let report = run(plan).report;
        let json = serde_json::to_string(&report).expect("a document");
        let report: Report = serde_json::from_str(&json).expect("a report");
        assert_eq!(wrong(report_alone(&report)), [], "{name}");
        assert_eq!(wrong(with_samples(&report, &[&file])), [], "{name}");
        let mut other = report.clone();
        other.whole.endpoints[1].counts.connects += 1;
        other.per_agent[0].part = other.whole.clone();
        assert!(!wrong(report_alone(&other)).is_empty(), "{name}");
    }
}
