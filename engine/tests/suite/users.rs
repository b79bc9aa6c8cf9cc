//! Users who come and go: how many have a request in flight, what those who leave still get, and
//! that agents and shards have the users of the curve together.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::load::presence::Presence;
use engine::plan::{Model, Plan};
use engine::report::{Report, StageLoad};
use engine::samples::{Sample, SampleReader};
use engine::sys::placement::allowed_cores;
use engine::sys::units::{CoreList, Nanos};
use engine::verify::{report_alone, with_samples};

use crate::agents::on_three;
use crate::sample_run::wrong;
use crate::support::{OK, always_ok, plan, run, serve};

const MS: u64 = 1_000_000;
/// How long the target takes, well above what the generator adds.
const LATENCY: Duration = Duration::from_millis(20);

fn slowly(_: u64, stream: &mut TcpStream) -> bool {
    std::thread::sleep(LATENCY);
    stream.write_all(OK).is_ok()
}

/// A closed plan with these stages.
fn staged(plan: Plan, text: &str) -> Plan {
    let stage = text.split(',').map(|stage| stage.parse().expect(stage)).collect();
    Plan { model: Some(Model::Closed), stage, duration: Plan::default().duration, ..plan }
}

fn samples(path: &Path) -> Vec<Sample> {
    let reader = SampleReader::open(path).expect("a file");
    reader.map(|sample| sample.expect("a sample")).collect()
}

fn sums_close(report: &Report) {
    let counts = &report.whole.counts;
    assert_eq!(counts.intended, counts.sent + counts.unsent, "{counts:?}");
    assert_eq!(counts.sent, counts.answered, "those who leave get their answers: {counts:?}");
    let of_parts: u64 = report.whole.parts.iter().map(|part| part.counts.intended).sum();
    assert_eq!(of_parts, counts.intended);
}

#[test]
fn as_many_requests_are_in_flight_as_there_are_users() {
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("raw");
    let plan = Plan { warmup: Nanos(100 * MS), ..plan(serve(slowly)) };
    let plan = staged(plan, "2:200ms,2..12:500ms,12..4:300ms,0:100ms,4:200ms");
    let report = run(Plan { raw: Some(raw.clone()), ..plan }).report;
    sums_close(&report);
    assert_eq!(report.whole.counts.connects, 12, "each user keeps its connection");
    assert_eq!(report.whole.counts.users, 12);
    let loads: Vec<StageLoad> =
        report.whole.parts.iter().map(|part| part.stage.clone().expect("one").load).collect();
    assert_eq!(loads[1], StageLoad::Users { from: 2, to: 12 });

    let presence = Presence::of_plan(&report.config.plan).expect("they come and go");
    let samples = samples(&raw);
    let in_flight = |at_ns: u64| {
        let is_there = move |of: &&Sample| of.sent_ns <= at_ns && at_ns < of.ending.handled_ns;
        samples.iter().filter(is_there).map(|of| of.sent_ns)
    };
    // Users who send are there, besides those whose requests are still in flight.
    for sample in &samples {
        let at_ns = sample.sent_ns;
        // It came a little before it was sent.
        let since_ns = in_flight(at_ns).min().expect("its own").saturating_sub(20 * MS);
        let most = (since_ns..=at_ns).step_by(100_000).map(|ns| presence.users_at(ns)).max();
        let most = most.expect("a time").max(presence.users_at(at_ns));
        let found = in_flight(at_ns).count() as u64;
        assert!(found <= most, "{found} in flight at {at_ns} with {most} users");
    }
    // And all who are there have a request in flight, nearly all the time.
    let window = report.config.plan.warmup.0..report.config.plan.end_ns();
    let looks: Vec<u64> = window.step_by(5_000_000).collect();
    let is_missing =
        |at_ns: &&u64| (in_flight(**at_ns).count() as u64) + 1 < presence.users_at(**at_ns);
    let missing = looks.iter().filter(is_missing).count();
    assert!(2 * missing < looks.len(), "{missing} of {}", looks.len());
    // All are away for a while, and each of four begins again.
    let first_ns = report.config.plan.warmup.0 + 1_100 * MS;
    let again = samples.iter().filter(|of| first_ns <= of.intended_ns).count();
    assert!(4 <= again, "{again}");
    assert_eq!(wrong(report_alone(&report)), []);
    assert_eq!(wrong(with_samples(&report, &[&raw])), []);
}

#[test]
fn a_target_sees_no_more_users_than_there_are() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (own, highest) = (now.clone(), most.clone());
    let address = serve(move |_, stream| {
        highest.fetch_max(own.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(LATENCY);
        own.fetch_sub(1, Ordering::SeqCst);
        stream.write_all(OK).is_ok()
    });
    let allowed = allowed_cores();
    let cores = Some(CoreList::new(allowed[..allowed.len().min(2)].to_vec()));
    let plan = staged(Plan { cores, ..plan(address) }, "0..9:600ms,9:200ms");
    let report = run(plan).report;
    sums_close(&report);
    assert!([8, 9].contains(&most.load(Ordering::SeqCst)), "{most:?}");
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn paced_users_send_what_is_due_while_they_are_there() {
    let address = serve(always_ok);
    let period = Some(Nanos(50 * MS));
    let plan = staged(Plan { period, ..plan(address) }, "4:200ms,4..12:400ms,6:200ms");
    // Users are spread over the period in the order of their numbers, out of twelve.
    let completed = plan.clone().complete(&allowed_cores()).expect("it runs");
    let presence = Presence::of_plan(&completed).expect("they come and go");
    let mut expected = [0; 3];
    for (round, user) in (0..16_u64).flat_map(|round| (0..12).map(move |user| (round, user))) {
        let due_ns = round * 50 * MS + user * 50 * MS / 12;
        if user < presence.users_at(due_ns) {
            let stage = [200, 600, 800].iter().position(|end_ms| due_ns < end_ms * MS);
            expected[stage.expect("in the window")] += 1;
        }
    }
    let report = run(plan.clone()).report;
    let intended = |report: &Report| -> Vec<u64> {
        report.whole.parts.iter().map(|part| part.counts.intended).collect()
    };
    assert_eq!(intended(&report), expected);
    sums_close(&report);
    assert_eq!(wrong(report_alone(&report)), []);
    // Three agents of unequal weight have the same requests together.
    let mut together = [0; 3];
    for finished in on_three(&plan) {
        intended(&finished.report).iter().zip(&mut together).for_each(|(one, sum)| *sum += one);
        assert_eq!(wrong(report_alone(&finished.report)), []);
    }
    assert_eq!(together, expected);
}

#[test]
fn users_on_several_agents_are_those_of_the_curve() {
    let plan = staged(plan(serve(slowly)), "1..24:500ms,12:300ms");
    let finished = on_three(&plan);
    let mut users = 0;
    for one in &finished {
        sums_close(&one.report);
        assert_eq!(wrong(report_alone(&one.report)), []);
        users += one.report.whole.counts.users;
    }
    assert_eq!(users, 24);
    let means: Vec<f64> =
        finished.iter().map(|one| one.report.unpaced_users().expect("closed")).collect();
    let mean = (12.5 * 0.5 + 12.0 * 0.3) / 0.8;
    assert!((means.iter().sum::<f64>() - mean).abs() < 1e-6, "{means:?}");
    // One unit of six, two, and three.
    for (found, units) in means.iter().zip([1.0, 2.0, 3.0]) {
        assert!((found - mean * units / 6.0).abs() < 1.0, "{means:?}");
    }
}

#[test]
fn a_connection_closed_while_its_user_is_away_is_opened_when_the_user_is_back() {
    // The target closes each connection that has been idle for 300 ms.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let opened: Arc<Mutex<usize>> = Arc::default();
    let count = opened.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            *count.lock().expect("a number") += 1;
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut bytes = [0; 4_096];
                let idle = Some(Duration::from_millis(300));
                stream.set_read_timeout(idle).expect("a socket");
                while let Ok(1..) = std::io::Read::read(&mut stream, &mut bytes) {
                    std::thread::sleep(Duration::from_millis(2));
                    if stream.write_all(OK).is_err() {
                        return;
                    }
                }
            });
        }
    });
    for period in [None, Some(Nanos(20 * MS))] {
        *opened.lock().expect("a number") = 0;
        let plan = staged(Plan { period, ..plan(address) }, "3:100ms,0:900ms,3:200ms");
        let report = run(plan).report;
        let counts = &report.whole.counts;
        assert_eq!((counts.answered, counts.failed), (counts.intended, 0), "{counts:?}");
        let of_stages: Vec<u64> =
            report.whole.parts.iter().map(|part| part.counts.answered).collect();
        assert!(3 <= of_stages[0] && of_stages[1] == 0 && 3 <= of_stages[2], "{of_stages:?}");
        // None is opened for users who are away, which would take three every 300 ms.
        assert!((3..=6).contains(&counts.connects_in_window), "{counts:?}");
        assert_eq!(wrong(report_alone(&report)), []);
    }
}
