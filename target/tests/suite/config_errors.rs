//! Configuration errors name the flag, the value and the cure, and leave nothing behind.

use std::time::Duration;

use crate::client::{Client, config, start};
use target::{Cold, Fault, FaultKind, Http2, Pause, Route, Stall, TargetConfig};

fn check(config: TargetConfig, words: &[&str]) {
    let Err(error) = target::start(config) else { panic!("it started: {words:?}") };
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    for word in words {
        assert!(line.contains(word), "{line:?} lacks {word:?}");
    }
}

#[test]
fn contradictions_are_refused() {
    for tail_fraction in [-0.1, 1.5, f64::NAN] {
        let number = tail_fraction.to_string();
        check(TargetConfig { tail_fraction, ..config() }, &["--tail-fraction", &number, "0.01"]);
    }
    let base_latency = Duration::from_secs(4_000);
    check(TargetConfig { base_latency, ..config() }, &["--base-latency", "4000s", "3600s"]);
    for (every, hold) in [(100, 100), (100, 0), (0, 0)] {
        let (every, hold) = (Duration::from_millis(every), Duration::from_millis(hold));
        let stall = Some(Stall { every, hold });
        check(TargetConfig { stall, ..config() }, &["--stall-every", "--stall-for"]);
    }
    for (every_requests, hold) in [(0, 5), (5, 0)] {
        let pause = Some(Pause { every_requests, hold: Duration::from_millis(hold) });
        check(TargetConfig { pause, ..config() }, &["--pause-every-requests", "--pause-for"]);
    }
    for (requests, latency) in [(0, 5), (5, 0)] {
        let cold = Some(Cold { requests, latency: Duration::from_millis(latency) });
        check(TargetConfig { cold, ..config() }, &["--cold-requests", "--cold-latency", "above"]);
    }
    let cold = Some(Cold { requests: 5, latency: Duration::from_secs(4_000) });
    check(TargetConfig { cold, ..config() }, &["--cold-latency", "4000s", "3600s"]);
    let fault = Some(Fault { kind: FaultKind::Reset, every: 0 });
    check(TargetConfig { fault, ..config() }, &["--fault-every 0", "above zero"]);
    let fault = Some(Fault { kind: FaultKind::Short, every: 1 });
    let words = ["--fault short", "--body-size 1:", "at least 2"];
    check(TargetConfig { fault, body_size: 1, ..config() }, &words);
    check(TargetConfig { fault, shop: true, ..config() }, &["--fault with --shop", "leave one"]);
    let http2 = Http2::default();
    for (http2, flag) in [
        (Http2 { max_streams: Some(0), ..http2 }, "--max-streams 0"),
        (Http2 { goaway_every: Some(0), ..http2 }, "--goaway-every 0"),
        (Http2 { refuse: Some(0), ..http2 }, "--refuse 0"),
        (Http2 { window: Some(0), ..http2 }, "--window 0"),
        (Http2 { window: Some(1 << 31), ..http2 }, "--window 2147483648"),
    ] {
        check(TargetConfig { http2, ..config() }, &[flag, "give"]);
    }
    check(TargetConfig { body_size: 1 << 30, ..config() }, &["--body-size 1073741824", "16777216"]);
    let cores = vec![0, 1];
    check(
        TargetConfig { serial: true, cores: cores.clone(), ..config() },
        &["--serial", "--cores 0,1:", "one core"],
    );
    let cold = Some(Cold { requests: 5, latency: Duration::from_millis(5) });
    check(
        TargetConfig { cold, cores: cores.clone(), ..config() },
        &["--cold-requests", "--cores 0,1:", "one core"],
    );
    let pause = Some(Pause { every_requests: 5, hold: Duration::from_millis(5) });
    for serial in [false, true] {
        let config = TargetConfig { pause, serial, cores: cores.clone(), ..config() };
        check(config, &["--pause-every-requests", "--cores 0,1:", "one core"]);
    }
    check(TargetConfig { cores: vec![0, 0], ..config() }, &["--cores", "core 0 is listed twice"]);
}

#[test]
fn a_route_that_cannot_be_served_is_named() {
    let other = config();
    let route = |path: &str| other.route(path);
    let refused = |routes: Vec<Route>, words: &[&str]| {
        check(TargetConfig { routes, ..config() }, words);
    };
    for path in ["", "search", "/search?q=1", "/a b", "http://a/"] {
        let named = format!("--route {path}:");
        refused(vec![route(path)], &[&named, "not a path", "/search"]);
    }
    refused(vec![route("/a"), route("/b"), route("/a")], &["--route /a:", "twice"]);
    for status in [100, 204, 304, 600] {
        let named = format!("status={status}:");
        refused(vec![Route { status, ..route("/a") }], &["--route /a:", &named, "200 to 599"]);
    }
    let routes = vec![Route { status: 503, ..route("/pay") }];
    let words = ["--route /pay:", "status=503 with --shop"];
    check(TargetConfig { routes, shop: true, ..config() }, &words);
    let base_latency = Duration::from_secs(4_000);
    refused(vec![Route { base_latency, ..route("/a") }], &["--route /a:", "4000s", "3600s"]);
    let fault = Some(Fault { kind: FaultKind::Repeat, every: 0 });
    refused(vec![Route { fault, ..route("/a") }], &["--route /a:", "--fault-every 0"]);
    let cores = vec![0, 1];
    let routes = vec![Route { serial: true, ..route("/a") }];
    let words = ["--route /a:", "--serial", "--cores 0,1:", "one core"];
    check(TargetConfig { routes, cores, ..config() }, &words);
    let many = (0..65).map(|at| route(&format!("/{at}"))).collect();
    refused(many, &["--route /64:", "at most 64"]);
}

#[test]
fn a_disallowed_core_is_named() {
    check(TargetConfig { cores: vec![100_000], ..config() }, &["--cores 100000", "taskset"]);
}

#[test]
fn an_address_in_use_is_named() {
    let first = start(config());
    let listen = first.local_addr();
    let words = ["--listen", &listen.to_string(), "in use", "another port"];
    check(TargetConfig { listen, ..config() }, &words);
    // Several listeners of one target share a port, but not with another target.
    let cores = core_affinity::get_core_ids().expect("an affinity mask");
    let cores = cores.into_iter().map(|core| core.id).take(2).collect();
    check(TargetConfig { listen, cores, ..config() }, &words);
    assert_eq!(Client::connect(listen).get().status(), "200", "the first target still serves");
}

#[test]
fn a_foreign_address_is_named() {
    let listen = "192.0.2.1:0".parse().expect("an address");
    check(TargetConfig { listen, ..config() }, &["--listen 192.0.2.1:0", "of this machine"]);
}
