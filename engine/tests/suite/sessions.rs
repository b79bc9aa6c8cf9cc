//! Scenarios of several steps: sessions whose every step a server sees in order and on time, counted
//! and timed as a whole.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Arrivals, Model, Overload, Plan};
use engine::report::Report;
use engine::report::verdict::Level;
use engine::run::{Run, prepare};
use engine::sys::units::{CoreList, Nanos};
use engine::verify::{report_alone, with_samples};

use crate::sample_run::wrong;
use crate::support::{codes, open, plan, run};

/// What a server saw of one session: each step, when its request came and when its response left.
type Walk = Vec<(String, Instant, Instant)>;
/// The same of all sessions, by the number in their requests.
type Walks = Arc<Mutex<HashMap<u64, Walk>>>;

/// A server that notes the steps of each session, in paths like `/step?s=7`, and answers by `status`
/// after `delay`.
fn shop(
    status: impl Fn(&str, u64) -> u16 + Send + Sync + 'static,
    delay: impl Fn(&str) -> Duration + Send + Sync + 'static,
) -> (SocketAddr, Walks) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let walks: Walks = Arc::default();
    let (seen, answer) = (walks.clone(), Arc::new((status, delay)));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), seen, answer) = (stream, seen.clone(), answer.clone()) else {
                return;
            };
            std::thread::spawn(move || serve(&mut stream, &seen, &answer.0, &answer.1));
        }
    });
    (address, walks)
}

fn serve(
    stream: &mut TcpStream,
    walks: &Walks,
    status: &impl Fn(&str, u64) -> u16,
    delay: &impl Fn(&str) -> Duration,
) {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4_096]);
    loop {
        while let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let came = Instant::now();
            let head = String::from_utf8(bytes.drain(..end + 4).collect()).expect("text");
            let path = head.split(' ').nth(1).expect("a request line");
            let (step, number) = path.trim_start_matches('/').split_once("?s=").expect("a session");
            let number: u64 = number.parse().expect("a number");
            std::thread::sleep(delay(step));
            let status = status(step, number);
            let response = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nok");
            let left = Instant::now();
            let seen = (step.to_owned(), came, left);
            walks.lock().expect("no panic").entry(number).or_default().push(seen);
            if stream.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(length) => bytes.extend_from_slice(&chunk[..length]),
        }
    }
}

fn step(name: &str, think: Option<&str>) -> Step {
    Step {
        name: name.to_owned(),
        url: Some(format!("/{name}?s={{{{seq}}}}")),
        think: think.map(|think| think.parse().expect("a think time")),
        ..Step::default()
    }
}

/// A scenario of three steps: the second after 20 ms, the third at once.
fn buy() -> Scenario {
    Scenario {
        name: "buy".to_owned(),
        weight: 3,
        think: "20ms".parse().ok(),
        step: vec![step("login", None), step("cart", None), step("pay", Some("0s"))],
        ..Scenario::default()
    }
}

fn look() -> Scenario {
    Scenario::of_one("look".to_owned(), 1, step("look", None))
}

fn counts(report: &Report, name: &str) -> (u64, u64, u64, u64, u64) {
    let of = report.whole.scenarios.iter().find(|one| one.name == name).expect("it is listed");
    (of.intended, of.completed, of.failed(), of.unfinished(), of.unsent)
}

#[test]
fn each_session_walks_through_its_steps_in_order_and_thinks_in_between() {
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("run.raw");
    let (address, walks) = shop(|_, _| 200, |_| Duration::from_millis(1));
    let plan = Plan {
        raw: Some(raw.clone()),
        scenario: vec![buy(), look()],
        arrivals: Arrivals::Poisson,
        ..plan(address)
    };
    let report = run(open(plan, "400")).report;
    let whole = &report.whole;
    assert_eq!(whole.counts.bad(), 0, "{:?}", whole.counts);
    let names: Vec<&str> = whole.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["buy/login", "buy/cart", "buy/pay", "look"]);
    let walks = walks.lock().expect("no panic");
    let (mut bought, mut looked) = (0, 0);
    for (number, walk) in walks.iter() {
        let steps: Vec<&str> = walk.iter().map(|(step, ..)| step.as_str()).collect();
        match steps[..] {
            ["login", "cart", "pay"] => bought += 1,
            ["look"] => looked += 1,
            _ => panic!("session {number}: {steps:?}"),
        }
        if let [(.., left), (_, came, _), ..] = walk[..] {
            let thought = came - left;
            assert!(Duration::from_millis(20) <= thought, "session {number}: {thought:?}");
        }
    }
    assert_eq!(counts(&report, "buy"), (bought, bought, 0, 0, 0));
    assert_eq!(counts(&report, "look"), (looked, looked, 0, 0, 0));
    assert_eq!(whole.counts.later_steps, 2 * bought);
    assert_eq!(Some(bought + looked), report.config.schedule_arrivals);
    // Three responses of 1 ms and more, without the think time.
    let took = &whole.scenarios[0].latency;
    assert!(took.quantile_us(0.5).is_some_and(|us| (3_000.0..20_000.0).contains(&us)), "{took:?}");
    assert_eq!(wrong(report_alone(&report)), []);
    assert_eq!(wrong(with_samples(&report, &[&raw])), []);
}

#[test]
fn a_session_ends_with_the_first_step_that_is_not_answered_well() {
    let (address, walks) = shop(
        |step, number| if step == "cart" && number.is_multiple_of(4) { 500 } else { 200 },
        |_| Duration::ZERO,
    );
    let report = run(open(Plan { scenario: vec![buy()], ..plan(address) }, "300")).report;
    let walks = walks.lock().expect("no panic");
    let failed = walks.iter().filter(|(number, _)| number.is_multiple_of(4)).count() as u64;
    let all = walks.len() as u64;
    assert_eq!(counts(&report, "buy"), (all, all - failed, failed, 0, 0));
    let steps: Vec<u64> = report.whole.scenarios[0].steps.iter().map(|one| one.failed).collect();
    assert_eq!(steps, [0, failed, 0]);
    assert!(
        walks
            .iter()
            .all(|(number, walk)| { walk.len() == if number.is_multiple_of(4) { 2 } else { 3 } })
    );
    assert_eq!(report.whole.bad, failed);
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn sessions_of_the_warm_up_reach_into_the_window_and_are_not_counted() {
    let (address, walks) = shop(|_, _| 200, |_| Duration::ZERO);
    let think = "100ms".parse().ok();
    let scenario = vec![Scenario { think, ..buy() }];
    let plan = Plan { scenario, warmup: Nanos(300_000_000), settle: Nanos(0), ..plan(address) };
    let report = run(open(plan, "200")).report;
    let (all, completed, ..) = counts(&report, "buy");
    assert_eq!((all, completed), (report.whole.counts.intended / 3, all));
    let walks = walks.lock().expect("no panic").len() as u64;
    assert_eq!(Some(walks), report.config.schedule_arrivals);
    assert!(all + 30 < walks, "{all} of {walks} began in the window");
    assert_eq!(report.whole.counts.warmup.sent, 3 * (walks - all));
}

#[test]
fn sessions_that_are_not_done_when_the_drain_ends_are_unfinished() {
    let (address, _) = shop(|_, _| 200, |_| Duration::ZERO);
    let scenario = vec![Scenario { think: "1s".parse().ok(), ..buy() }];
    let plan = Plan { scenario, timeout: Nanos(200_000_000), ..plan(address) };
    let report = run(open(plan, "100")).report;
    let (all, completed, failed, unfinished, unsent) = counts(&report, "buy");
    assert_eq!((completed, failed, unsent), (0, 0, 0));
    assert_eq!((all, unfinished), (report.whole.counts.intended, all));
    assert_eq!(report.whole.scenarios[0].steps[1].unfinished, all, "they think before it");
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn no_more_sessions_are_open_than_there_may_be() {
    let (address, walks) = shop(|_, _| 200, |_| Duration::ZERO);
    let scenario = vec![Scenario { think: "50ms".parse().ok(), ..buy() }];
    // Four at once, each 50 ms long, are 80/s.
    let plan = Plan { scenario, sessions_max: Some(4), ..plan(address) };
    let report = run(open(plan, "200")).report;
    let (all, completed, _, _, unsent) = counts(&report, "buy");
    assert_eq!(all, completed + unsent);
    let walks = walks.lock().expect("no panic").len() as u64;
    assert!(completed <= walks && 20 < unsent + completed, "{completed}, {unsent}, {walks}");
    let waited = report.whole.scenarios[0].latency.quantile_us(0.9).expect("a latency");
    assert!(50_000.0 < waited, "arrivals wait for a place: {waited} µs");
}

#[test]
fn users_of_a_closed_model_go_through_one_session_after_the_other() {
    let (address, walks) = shop(|_, _| 200, |_| Duration::from_millis(1));
    let plan =
        Plan { scenario: vec![buy()], conns: Some(3), model: Some(Model::Closed), ..plan(address) };
    let few = prepare(Plan { sessions_max: Some(2), ..plan.clone() });
    let error = few.map(|_| ()).expect_err("it is refused").to_string();
    assert!(error.contains("each user of a closed model has one session at a time"), "{error}");
    let finished = Run::start(prepare(plan).expect("it runs")).expect("a run").wait();
    let report = finished.report;
    let walks = walks.lock().expect("no panic");
    for (number, walk) in walks.iter() {
        let steps: Vec<&str> = walk.iter().map(|(step, ..)| step.as_str()).collect();
        assert!(["login", "cart", "pay"].starts_with(&steps), "session {number}: {steps:?}");
    }
    let (all, completed, failed, unfinished, unsent) = counts(&report, "buy");
    assert_eq!((all, failed, unsent), (completed + unfinished, 0, 0));
    // By three users, each of whom begins at most 22 sessions of 23 ms in 500 ms.
    assert!((20..=66).contains(&completed), "{completed}");
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn paced_users_begin_a_session_each_period_unless_the_last_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("run.raw");
    // A session takes 23 ms, or 73 if its user waits for the second step.
    let slow = |step: &str| Duration::from_millis(if step == "cart" { 50 } else { 1 });
    for late in [false, true] {
        let (address, walks) =
            shop(|_, _| 200, move |step| if late { slow(step) } else { Duration::from_millis(1) });
        let plan = Plan {
            raw: Some(raw.clone()),
            scenario: vec![buy()],
            conns: Some(3),
            period: Some(Nanos(50_000_000)),
            ..plan(address)
        };
        let report = run(plan).report;
        let (all, completed, failed, unfinished, unsent) = counts(&report, "buy");
        // Each of three users is due ten times in 500 ms.
        assert_eq!((all, completed, failed, unfinished, unsent), (30, 30, 0, 0, 0), "{late}");
        // Of the tenth session of a user: it begins 207 ms late, and has two steps of 1 ms and one
        // of 50 ms.
        let longest = report.whole.scenarios[0].latency.max.expect("a latency");
        assert_eq!(200_000.0 < longest, late, "{longest} µs");
        let walks = walks.lock().expect("no panic");
        for (number, walk) in walks.iter() {
            let steps: Vec<&str> = walk.iter().map(|(step, ..)| step.as_str()).collect();
            assert_eq!(steps, ["login", "cart", "pay"], "session {number}");
        }
        // A user has one session at a time.
        for user in 0..3 {
            let own = walks.iter().filter(|(number, _)| *number % 3 == user);
            let mut spans: Vec<_> = own.map(|(_, walk)| (walk[0].1, walk[2].1)).collect();
            spans.sort_unstable();
            assert!(spans.windows(2).all(|two| two[0].1 <= two[1].0), "user {user}");
        }
        assert_eq!(wrong(report_alone(&report)), []);
        assert_eq!(wrong(with_samples(&report, &[&raw])), []);
    }
}

#[test]
fn any_number_of_shards_offers_the_same_sessions() {
    let cores = engine::sys::placement::allowed_cores();
    let of_cores = |cores: &[usize]| {
        let (address, walks) = shop(|_, _| 200, |_| Duration::ZERO);
        let plan = Plan {
            scenario: vec![buy(), look()],
            cores: Some(CoreList::new(cores.to_vec())),
            ..plan(address)
        };
        let report = run(open(plan, "300")).report;
        assert_eq!(report.whole.counts.bad(), 0, "{:?}", report.whole.counts);
        let walks = walks.lock().expect("no panic");
        let steps = |walk: &Walk| walk.iter().map(|(step, ..)| step.clone()).collect::<Vec<_>>();
        walks.iter().map(|(number, walk)| (*number, steps(walk))).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(of_cores(&cores[..1]), of_cores(&cores[..cores.len().min(3)]));
}

#[test]
fn a_slow_scenario_limits_no_other_and_sessions_that_could_not_begin_invalidate_the_run() {
    // Of two scenarios, one has a step that takes 300 ms, or none has.
    let of = |slow_ms: u64| {
        let slow =
            move |step: &str| Duration::from_millis(if step == "wait" { slow_ms } else { 0 });
        let (address, walks) = shop(|_, _| 200, slow);
        let scenario = |name: &str, steps: [&str; 2]| Scenario {
            name: name.to_owned(),
            step: steps.map(|name| step(name, None)).into(),
            ..Scenario::default()
        };
        let scenario = vec![scenario("slow", ["ask", "wait"]), scenario("fast", ["see", "again"])];
        let plan = Plan { scenario, timeout: Nanos(2_000_000_000), ..plan(address) };
        (plan, walks)
    };
    let (plan, walks) = of(300);
    let report = run(open(plan, "200")).report;
    let fast = &report.whole.scenarios[1];
    let p50_us = fast.latency.quantile_us(0.5).expect("a latency");
    assert!(p50_us < 100_000.0, "a third of what the other one takes: {p50_us} µs");
    let walks_of = |walks: &Walks| {
        let walks = walks.lock().expect("no panic");
        let steps = |walk: &Walk| walk.iter().map(|(step, ..)| step.clone()).collect::<Vec<_>>();
        walks.iter().map(|(number, walk)| (*number, steps(walk))).collect::<BTreeMap<_, _>>()
    };
    let (plan, same) = of(0);
    run(open(plan, "200"));
    assert_eq!(walks_of(&walks), walks_of(&same), "each session that was due, with all its steps");

    // Of 200/s, a place for ten is enough for at most 10 / 0.3 s of the slow ones.
    let (plan, _) = of(300);
    let few = Plan {
        sessions_max: Some(10),
        overload: Overload::Drop,
        queue_max: Some(Nanos(10_000_000)),
        ..plan
    };
    let report = run(open(few, "200")).report;
    let missed: u64 = report.whole.scenarios.iter().map(|scenario| scenario.unsent).sum();
    assert!(10 < missed, "{missed}");
    assert_eq!(report.verdict.level, Level::Invalid, "{:?}", report.verdict.reasons);
    assert!(codes(&report).contains(&"rate_missed".to_owned()), "{:?}", codes(&report));
}
