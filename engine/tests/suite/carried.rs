//! What sessions carry from step to step: captured values and cookies, over both protocols.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::plan::Plan;
use engine::plan::scenario::{Redirect, Scenario, Step};
use engine::report::{Report, ScenarioPart};
use engine::sys::units::Nanos;
use engine::verify::{report_alone, with_samples};

use crate::sample_run::wrong;
use crate::support::{open, plan, run};

/// A request that the server received: its line, its cookies, and its body.
#[derive(Clone, Debug)]
struct Seen {
    line: String,
    cookies: Option<String>,
    authorized: bool,
    body: String,
}

/// A server that answers each request by the status line, headers and body that `answer` makes of
/// it, and notes it.
fn serve(
    answer: impl Fn(&Seen) -> (String, String) + Send + Sync + 'static,
) -> (SocketAddr, Arc<Mutex<Vec<Seen>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let all: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let (noted, answer) = (all.clone(), Arc::new(answer));
    // The threads end with their connections, the last with the test process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), noted, answer) = (stream, noted.clone(), answer.clone()) else {
                return;
            };
            std::thread::spawn(move || {
                let (mut bytes, mut chunk) = (Vec::new(), [0; 65_536]);
                loop {
                    while let Some((seen, length)) = next(&bytes) {
                        bytes.drain(..length);
                        noted.lock().expect("no panic").push(seen.clone());
                        let (head, body) = answer(&seen);
                        let length = body.len();
                        let text = format!("HTTP/1.1 {head}Content-Length: {length}\r\n\r\n{body}");
                        if stream.write_all(text.as_bytes()).is_err() {
                            return;
                        }
                    }
                    match stream.read(&mut chunk) {
                        Ok(0) | Err(_) => return,
                        Ok(length) => bytes.extend_from_slice(&chunk[..length]),
                    }
                }
            });
        }
    });
    (address, all)
}

/// The first request of these bytes, and its length, if it is complete.
fn next(bytes: &[u8]) -> Option<(Seen, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
    let value = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
    };
    let length: usize = value("Content-Length").map_or(0, |text| text.parse().expect("a length"));
    let body = String::from_utf8(bytes.get(end..end + length)?.to_vec()).expect("text");
    let line = head.lines().next().expect("a request line").to_owned();
    let authorized = value("Authorization").is_some();
    Some((Seen { line, cookies: value("Cookie"), authorized, body }, end + length))
}

fn step(name: &str, url: &str) -> Step {
    Step { name: name.to_owned(), url: Some(url.to_owned()), ..Step::default() }
}

fn captures(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn ended_in(report: &Report, step: &str) -> u64 {
    let steps = &report.whole.scenarios[0].steps;
    steps.iter().find(|one| one.name == step).expect("it is listed").failed
}

/// Runs sessions of these steps for half a second, verified with their samples.
fn sessions(address: SocketAddr, step: Vec<Step>) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("run.raw");
    let scenario = vec![Scenario { name: "s".to_owned(), step, ..Scenario::default() }];
    let plan = Plan { raw: Some(raw.clone()), scenario, ..plan(address) };
    let report = run(open(plan, "200")).report;
    assert_eq!(wrong(report_alone(&report)), []);
    assert_eq!(wrong(with_samples(&report, &[&raw])), []);
    report
}

#[test]
fn captured_values_go_where_they_are_used_as_they_fit_there() {
    let (address, seen) = serve(|seen| match seen.line.split(' ').nth(1) {
        Some("/a") => {
            let body = "{\"text\": \"a b/\\\"\", \"path\": \"/x/y?z=1 2\"}".to_owned();
            ("201 Created\r\nX-Id: 7\r\n".to_owned(), body)
        }
        _ => ("200 OK\r\n".to_owned(), String::new()),
    });
    let first = Step {
        capture: captures(&[
            ("text", "json:/text"),
            ("path", "json:/path"),
            ("id", "header:x-id"),
            ("code", "status"),
        ]),
        ..step("first", "/a")
    };
    let second = Step {
        method: Some("POST".to_owned()),
        body: Some("{{text}}|{{json:text}}|{{id}}|{{code}}".to_owned()),
        ..step("second", "/b/{{text}}?path={{path}}")
    };
    let third = step("third", "/{{raw:path}}");
    let report = sessions(address, vec![first, second, third]);
    assert_eq!(report.whole.counts.bad(), 0, "{:?}", report.whole.counts);
    let seen = seen.lock().expect("no panic");
    let all = seen.len() / 3;
    let count = |line: &str| seen.iter().filter(|one| one.line == line).count();
    assert!(30 < all, "{all} sessions");
    assert_eq!(count("POST /b/a%20b%2F%22?path=%2Fx%2Fy%3Fz%3D1%202 HTTP/1.1"), all);
    assert_eq!(count("GET /x/y?z=1%202 HTTP/1.1"), all);
    let bodies = seen.iter().filter(|one| one.line.starts_with("POST"));
    assert!(bodies.into_iter().all(|one| one.body == "a b/\"|a b/\\\"|7|201"), "{seen:?}");
}

#[test]
fn a_session_ends_with_the_step_whose_value_is_missing_too_long_or_unfit() {
    let (address, _) = serve(|seen| {
        let number: u64 = seen.line.split(['=', ' ']).nth(2).expect("it").parse().unwrap_or(0);
        let body = match number % 6 {
            0 => "{}".to_owned(),
            1 => format!("{{\"x\": \"{}\"}}", "x".repeat(4_097)),
            2 => "{\"x\": \"a\\r\\nB: c\"}".to_owned(),
            3 => format!("{{\"x\": \"{}\"}}", "x".repeat(70_000)),
            4 => format!("{{\"x\": {}1{}}}", "[".repeat(1_000), "]".repeat(1_000)),
            _ => "{\"x\": 1}".to_owned(),
        };
        ("200 OK\r\n".to_owned(), body)
    });
    let first =
        Step { capture: captures(&[("x", "json:/x")]), ..step("first", "/first?n={{seq}}") };
    let second = Step { headers: vec!["X: {{x}}".to_owned()], ..step("second", "/?n=5") };
    let report = sessions(address, vec![first, second]);
    let failed: BTreeMap<&str, u64> =
        report.whole.checks.iter().map(|one| (one.check.as_str(), one.failed)).collect();
    let all = report.whole.scenarios[0].intended;
    let each = all / 6;
    for (check, times) in [
        ("capture_missing x", 1),
        ("capture_too_long x", 1),
        ("capture_unfit x", 1),
        ("body_too_long", 1),
    ] {
        assert!(failed[check].abs_diff(times * each) <= times, "{check}: {failed:?} of {all}");
    }
    assert_eq!(ended_in(&report, "s/first"), report.whole.counts.failed_checks);
    assert_eq!(report.whole.counts.failed_checks + report.whole.scenarios[0].completed, all);
    // The report alone shows that its sessions were changed.
    let forgeries: [fn(&mut ScenarioPart); 4] = [
        |part| (part.steps[0].failed, part.completed) = (0, part.completed + part.steps[0].failed),
        |part| part.steps.swap(0, 1),
        |part| part.steps[0].failed -= 1,
        |part| part.latency.max = part.latency.max.map(|us| us + 1.0),
    ];
    for (number, forge) in forgeries.into_iter().enumerate() {
        let mut forged = report.clone();
        forge(&mut forged.whole.scenarios[0]);
        assert_ne!(wrong(report_alone(&forged)), [], "forgery {number}");
    }
}

#[test]
fn all_values_of_a_session_are_bounded() {
    let (address, _) = serve(|_| {
        let mut body = "{".to_owned();
        for name in ["a", "b", "c", "d", "e"] {
            write!(body, "\"{name}\": \"{}\",", "x".repeat(4_000)).expect("memory");
        }
        ("200 OK\r\n".to_owned(), body + "\"f\": 1}")
    });
    let of = ["a", "b", "c", "d", "e"].map(|name| (name.to_owned(), format!("json:/{name}")));
    let first = Step { capture: of.into(), ..step("first", "/") };
    let report = sessions(address, vec![first, step("second", "/")]);
    let failed: Vec<&str> = report
        .whole
        .checks
        .iter()
        .filter(|one| 0 < one.failed)
        .map(|one| one.check.as_str())
        .collect();
    assert_eq!(failed, ["capture_too_long e"], "the fifth has no room");
    assert_eq!(report.whole.counts.failed_checks, report.whole.scenarios[0].intended);
}

#[test]
fn steps_are_repeated_and_left_out_as_their_session_has_it() {
    let (address, seen) = serve(|seen| {
        let number: u64 = seen.line.split(['=', ' ']).nth(2).expect("it").parse().expect("it");
        let next = if number.is_multiple_of(3) { "{}" } else { "{\"next\": \"n\"}" };
        ("200 OK\r\n".to_owned(), next.to_owned())
    });
    let first =
        Step { capture: captures(&[("next", "json:/next")]), ..step("first", "/first?n={{seq}}") };
    let second = Step {
        when: "{{next}} is set".parse().ok(),
        think: "5ms".parse().ok(),
        ..step("second", "/{{next}}?n={{seq}}")
    };
    let third =
        Step { repeat: Some(3), think: "2ms".parse().ok(), ..step("third", "/3?n={{seq}}") };
    let last = Step { when: "{{next}} is set".parse().ok(), ..step("last", "/last?n={{seq}}") };
    let report = sessions(address, vec![first, second, third, last]);
    let all = report.whole.scenarios[0].intended;
    assert_eq!(report.whole.scenarios[0].completed, all);
    let mut walks: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for one in seen.lock().expect("no panic").iter() {
        let mut words = one.line.split(['=', ' ']);
        let (path, number) = (words.nth(1).expect("it"), words.next().expect("it"));
        let path = path.trim_end_matches("?n").to_owned();
        walks.entry(number.parse().expect("a number")).or_default().push(path);
    }
    assert_eq!(walks.len() as u64, all);
    for (number, walk) in walks {
        let expected = match number % 3 {
            0 => vec!["/first", "/3", "/3", "/3"],
            _ => vec!["/first", "/n", "/3", "/3", "/3", "/last"],
        };
        assert_eq!(walk, expected, "session {number}");
    }
}

#[test]
fn a_first_step_that_is_repeated_is_due_once_by_its_arrival() {
    let (address, _) = serve(|_| ("200 OK\r\n".to_owned(), String::new()));
    let poll = Step { repeat: Some(4), think: "1ms".parse().ok(), ..step("poll", "/") };
    let report = sessions(address, vec![poll]);
    let parts: Vec<(&str, u64)> =
        report.whole.parts.iter().map(|part| (part.name.as_str(), part.counts.answered)).collect();
    let all = report.whole.scenarios[0].completed;
    assert_eq!(parts, [("s/poll", all), ("s/poll again", 3 * all)]);
}

#[test]
fn cookies_are_kept_sent_replaced_and_bounded() {
    let (address, seen) = serve(|seen| {
        let lines = match seen.line.split(['?', ' ']).nth(1) {
            Some("/in") => "Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2; Path=/deep\r\n".to_owned(),
            Some("/deep") => "Set-Cookie: a=3; Path=/\r\n".to_owned(),
            Some("/out") => "Set-Cookie: a=; Path=/; Max-Age=0\r\n".to_owned(),
            Some("/bomb") => {
                (0..100).map(|number| format!("Set-Cookie: c{number}=x\r\n")).collect()
            }
            _ => String::new(),
        };
        (format!("200 OK\r\n{lines}"), String::new())
    });
    let urls = ["/in?n={{seq}}", "/deep", "/deep", "/", "/out", "/", "/bomb", "/"];
    let steps = urls.iter().zip(1..).map(|(url, at): (_, u32)| step(&at.to_string(), url));
    let report = sessions(address, steps.collect());
    let mut sent: BTreeMap<(String, Option<String>), u64> = BTreeMap::new();
    for one in seen.lock().expect("no panic").iter() {
        let path = one.line.split(['?', ' ']).nth(1).expect("a path").to_owned();
        *sent.entry((path, one.cookies.clone())).or_default() += 1;
    }
    let all = report.whole.scenarios[0].intended;
    let of = |path: &str, cookies: Option<&str>| (path.to_owned(), cookies.map(str::to_owned));
    let expected = [
        of("/", Some("a=3")),
        of("/", None),
        of("/bomb", None),
        of("/deep", Some("b=2; a=1")),
        of("/deep", Some("b=2; a=3")),
        of("/in", None),
        of("/out", Some("a=3")),
    ];
    assert_eq!(sent, expected.map(|one| (one, all)).into());
    let failed = report.whole.checks.iter().filter(|one| 0 < one.failed);
    let failed: Vec<(&str, u64)> = failed.map(|one| (one.check.as_str(), one.failed)).collect();
    assert_eq!(failed, [("too_many_cookies", all)]);
    assert_eq!(ended_in(&report, "s/7"), all);
}

#[test]
fn redirects_are_followed_each_as_a_request_of_its_own() {
    let (address, seen) = serve(|seen| {
        let path = seen.line.split([' ', '?']).nth(1).expect("a path").to_owned();
        let location = match path.as_str() {
            "/in" => "Set-Cookie: a=b; Path=/\r\nLocation: on/1\r\n",
            "/on/1" => "Location: /on/2?x=y\r\n",
            "/loop" => "Location: /loop\r\n",
            "/away" => "Location: http://other.test/\r\n",
            "/again" => "Location: /on/2\r\n",
            "/lost" => "",
            _ => return ("200 OK\r\n".to_owned(), "{\"token\": \"t\"}".to_owned()),
        };
        let status = if path == "/again" { 307 } else { 302 };
        (format!("{status} Found\r\n{location}"), String::new())
    });
    let follows = |step: Step| Step { redirect: Some(Redirect::Follow), ..step };
    let first = Step {
        method: Some("POST".to_owned()),
        body: Some("user={{seq}}".to_owned()),
        expect_body: Some(vec!["contains token".to_owned()]),
        capture: captures(&[("token", "json:/token")]),
        ..follows(step("in", "/in"))
    };
    let second = follows(step("end", "/end/{{token}}"));
    let report = sessions(address, vec![first, second]);
    let all = report.whole.scenarios[0].intended;
    assert_eq!(report.whole.scenarios[0].completed, all, "{:?}", report.whole.checks);
    let parts: BTreeMap<&str, u64> =
        report.whole.parts.iter().map(|it| (it.name.as_str(), it.counts.answered)).collect();
    let expected =
        [("s/in", all), ("s/in redirect", 2 * all), ("s/end", all), ("s/end redirect", 0)];
    assert_eq!(parts, expected.into());
    let seen = seen.lock().expect("no panic");
    for (line, cookies, body) in [
        ("GET /on/1 HTTP/1.1", Some("a=b"), ""),
        ("GET /on/2?x=y HTTP/1.1", Some("a=b"), ""),
        ("GET /end/t HTTP/1.1", Some("a=b"), ""),
    ] {
        let same = seen.iter().filter(|one| {
            (one.line.as_str(), one.cookies.as_deref(), one.body.as_str()) == (line, cookies, body)
        });
        assert_eq!(same.count() as u64, all, "{line}");
    }
    drop(seen);
    for (url, method, check, at) in [
        ("/loop", "GET", "too_many_redirects", "s/x redirect"),
        ("/away", "GET", "redirect_elsewhere", "s/x"),
        ("/again", "POST", "redirect_unfit", "s/x"),
        ("/lost", "GET", "redirect_unfit", "s/x"),
    ] {
        let method = Some(method.to_owned());
        let report = sessions(address, vec![Step { method, ..follows(step("x", url)) }]);
        let all = report.whole.scenarios[0].intended;
        let failed = report.whole.checks.iter().filter(|one| 0 < one.failed);
        let failed: Vec<(&str, u64)> = failed.map(|one| (one.check.as_str(), one.failed)).collect();
        assert_eq!((failed, ended_in(&report, at)), (vec![(check, all)], all), "{url}");
        let hops = report.whole.parts[1].counts.answered;
        assert_eq!(hops, if url == "/loop" { 5 * all } else { 0 }, "{url}");
    }
}

#[test]
fn redirects_lead_to_any_host_of_the_plan_and_to_no_other() {
    let ok = || ("200 OK\r\n".to_owned(), "{}".to_owned());
    let to = |location: &str| (format!("302 Found\r\nLocation: {location}\r\n"), String::new());
    // Each is redirected to the other one, whose address the first doesn't know as it starts.
    let shop_of: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
    let shop_at = shop_of.clone();
    let (sso, at_sso) = serve(move |seen| {
        let shop = shop_at.lock().expect("no panic").expect("it is known");
        match seen.line.split([' ', '?']).nth(1).expect("a path") {
            "/sso" => to("/sso/2"),
            "/sso/2" => to(&format!("http://{shop}/back?a=b")),
            "/for/ever" => to(&format!("http://{shop}/for/ever")),
            _ => ok(),
        }
    });
    let (shop, at_shop) =
        serve(move |seen| match seen.line.split([' ', '?']).nth(1).expect("a path") {
            "/in" => to(&format!("//{sso}/sso?c=d")),
            "/back" => to("/done"),
            "/for/ever" => to(&format!("http://{sso}/for/ever")),
            "/away" => to("http://127.0.0.2:9/"),
            _ => ok(),
        });
    *shop_of.lock().expect("no panic") = Some(shop);
    let any = |step: Step| Step { redirect: Some(Redirect::Any), ..step };
    let headers = vec!["Authorization: secret".to_owned(), "X-Kept: yes".to_owned()];
    let first = any(Step { headers, ..step("in", "/in") });
    // It makes the other host one of the plan's.
    let last = step("profile", &format!("http://{sso}/profile"));
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("run.raw");
    let step_of = |first: Step| vec![first, last.clone()];
    let scenario = |step| Scenario { name: "s".to_owned(), step, ..Scenario::default() };
    let of = |step| Plan { raw: Some(raw.clone()), scenario: vec![scenario(step)], ..plan(shop) };
    let report = run(open(of(step_of(first)), "100")).report;
    let all = report.whole.scenarios[0].intended;
    assert_eq!(report.whole.scenarios[0].completed, all, "{:?}", report.whole.checks);
    let parts: BTreeMap<String, u64> =
        report.whole.parts.iter().map(|it| (it.name.clone(), it.counts.answered)).collect();
    let expected = [
        ("s/in".to_owned(), all),
        ("s/in redirect".to_owned(), 2 * all),
        (format!("s/in redirect to http://{sso}"), 2 * all),
        ("s/profile".to_owned(), all),
    ];
    assert_eq!(parts, expected.into());
    let lines = |seen: &Mutex<Vec<Seen>>, line: &str| {
        seen.lock().expect("no panic").iter().filter(|one| one.line == line).count() as u64
    };
    for (seen, line) in [
        (&at_shop, "GET /in HTTP/1.1"),
        (&at_sso, "GET /sso?c=d HTTP/1.1"),
        (&at_sso, "GET /sso/2 HTTP/1.1"),
        (&at_shop, "GET /back?a=b HTTP/1.1"),
        (&at_shop, "GET /done HTTP/1.1"),
        (&at_sso, "GET /profile HTTP/1.1"),
    ] {
        assert_eq!(lines(seen, line), all, "{line}");
    }
    let secret = |seen: &Mutex<Vec<Seen>>| {
        seen.lock().expect("no panic").iter().filter(|one| one.authorized).count() as u64
    };
    assert_eq!((secret(&at_shop), secret(&at_sso)), (3 * all, 0), "it stays on its host");
    assert_eq!(wrong(report_alone(&report)), []);
    assert_eq!(wrong(with_samples(&report, &[&raw])), []);
    for (url, check) in
        [("/for/ever", "too_many_redirects".to_owned()), ("/away", "redirect_elsewhere".to_owned())]
    {
        let report = run(open(of(step_of(any(step("x", url)))), "100")).report;
        let all = report.whole.scenarios[0].intended;
        let failed = report.whole.checks.iter().filter(|one| 0 < one.failed);
        let failed: Vec<(&str, u64)> = failed.map(|one| (one.check.as_str(), one.failed)).collect();
        assert_eq!(failed, [(check.as_str(), all)], "{url}");
        let hops: u64 = report.whole.parts[1..3].iter().map(|part| part.counts.answered).sum();
        assert_eq!(hops, if url == "/away" { 0 } else { 5 * all }, "{url}");
    }
}

#[test]
fn a_user_gives_up_at_the_deadline_of_a_step_or_of_all() {
    let (address, seen) = serve(|seen| {
        let slow = if seen.line.contains("slow") { 60 } else { 15 };
        std::thread::sleep(Duration::from_millis(slow));
        ("200 OK\r\n".to_owned(), String::new())
    });
    // The second step takes 60 ms, and the user waits 40.
    let second = Step { deadline: Some(Nanos(40_000_000)), ..step("second", "/slow") };
    let report = sessions(address, vec![step("first", "/1"), second, step("third", "/3")]);
    let all = report.whole.scenarios[0].intended;
    assert_eq!((ended_in(&report, "s/second"), all), (all, all));
    assert_eq!(report.whole.counts.errors.by_name(), [("deadline".to_owned(), all)].into());
    // In all the user waits 40 ms, which the third step of 15 ms is beyond, however long the user
    // thinks.
    seen.lock().expect("no panic").clear();
    let think = "50ms".parse().ok();
    let step = ["1", "2", "3", "4"].map(|name| step(name, &format!("/{name}"))).to_vec();
    let deadline = Some(Nanos(40_000_000));
    let scenario = Scenario { name: "s".to_owned(), deadline, think, step, ..Scenario::default() };
    let plan = Plan { scenario: vec![scenario], ..plan(address) };
    let report = run(open(plan, "100")).report;
    let all = report.whole.scenarios[0].intended;
    // A session that a stall of this machine held up from the start sends nothing.
    let unsent = report.whole.scenarios[0].unsent;
    let late = ended_in(&report, "s/1") + ended_in(&report, "s/2") + unsent;
    // Nor is an answer lost that came while a stall held up the end of the user's patience: then the
    // next step is one too many.
    let out_of_time = ended_in(&report, "s/3") + ended_in(&report, "s/4");
    assert_eq!(out_of_time + late, all, "{:?}", report.whole.scenarios[0].steps);
    assert!(ended_in(&report, "s/4") <= all / 5, "{:?}", report.whole.scenarios[0].steps);
    assert!(late <= all / 5, "{late} of {all}: steps of 15 ms are answered in 20");
    let longest = report.whole.scenarios[0].latency.max.expect("they have latencies");
    assert!((40_000.0..60_000.0).contains(&longest), "{longest} µs");
}

#[test]
fn what_a_session_cannot_have_is_refused_with_the_cure() {
    let refused =
        |plan: Plan| engine::run::prepare(plan).map(|_| ()).expect_err("it is refused").to_string();
    let of = |step: Vec<Step>, headers: &[&str]| Plan {
        scenario: vec![Scenario { step, ..Scenario::default() }],
        headers: headers.iter().map(|line| (*line).to_owned()).collect(),
        timeout: Nanos::from_secs(1),
        ..plan("127.0.0.1:9".parse().expect("an address"))
    };
    let first = Step { capture: captures(&[("token", "status")]), ..step("first", "/") };
    let error = refused(of(vec![first.clone(), step("second", "/{{tokn}}")], &[]));
    assert!(error.contains("the nearest known is {{token}}"), "{error}");
    let error = refused(of(vec![step("second", "/{{token}}"), first.clone()], &[]));
    assert!(error.contains("{{token}} may not have been captured before"), "{error}");
    let error = refused(of(vec![first, step("second", "/")], &["Cookie: a=b"]));
    assert!(error.contains("omit it, or give the scenario `cookies = false`"), "{error}");
    let one = Scenario { cookies: Some(true), step: vec![step("", "/")], ..Scenario::default() };
    let error = refused(Plan { scenario: vec![one], ..of(Vec::new(), &[]) });
    assert!(
        error.contains("it has no second step to send cookies with; omit `cookies`"),
        "{error}"
    );
}
