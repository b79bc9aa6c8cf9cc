//! Several agents together offer the same load as one process: the same requests, begun at a time
//! given from outside, and recorders that are transferred between processes unchanged.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::host::environment::of_controller;
use engine::load::share::Share;
use engine::plan::body::SharedBody;
use engine::plan::stage::Stage;
use engine::plan::{Arrivals, Model, Plan};
use engine::record::config::RecorderConfig;
use engine::record::outcome::{Cause, Outcome, TimeoutKind, UnsentReason};
use engine::record::recorder::Recorder;
use engine::record::stamps::{Ending, Stamps};
use engine::report::collected::{AgentRun, RunFacts};
use engine::report::{Report, merge};
use engine::run::{Finished, Run, Targets, prepare_with};
use engine::samples::SampleFile;
use engine::sys::clock;
use engine::sys::placement::allowed_cores;
use engine::sys::units::{CoreList, Nanos};
use engine::verify::{merge_proof, report_alone, with_samples};

use serde_json::json;

use crate::made_up;
use crate::sample_run::wrong;
use crate::support::{always_ok, open, plan, run, serve};

/// A held run of this share that is ready; its raw samples go to `file`.
fn ready(plan: &Plan, share: Share, file: Option<SampleFile>) -> Run {
    let prepared = prepare_with(plan.clone(), &SharedBody::default(), Targets::Resolve, share)
        .expect("a plan that runs");
    let held = Run::start_held(prepared, file, u64::MAX).expect("shards start");
    assert_eq!(held.set_up_as().is_some(), held.is_ready());
    let begun = Instant::now();
    while !held.is_ready() {
        assert!(begun.elapsed() < Duration::from_secs(30), "set up in time");
        std::thread::sleep(Duration::from_millis(1));
    }
    held
}

/// Runs a plan on three agents with unequal weights, the second with two shards if there are two
/// cores.
pub(crate) fn on_three(plan: &Plan) -> Vec<Finished> {
    let allowed = allowed_cores();
    let on = |cores: usize| {
        let cores = allowed[..cores.min(allowed.len())].to_vec();
        Plan { cores: Some(CoreList::new(cores)), ..plan.clone() }
    };
    let agents: Vec<Run> = [(0..1, 1), (1..3, 2), (3..6, 1)]
        .into_iter()
        .map(|(units, cores)| ready(&on(cores), Share::units(units, 6), None))
        .collect();
    let epoch_ns = clock::now_ns() + 200_000_000;
    for agent in &agents {
        assert!(agent.window().is_none(), "nothing begins before the epoch is set");
        agent.begin_at(epoch_ns).expect("the epoch is ahead");
    }
    let finished: Vec<Finished> = agents.into_iter().map(Run::wait).collect();
    assert!(finished.iter().all(|finished| finished.epoch_ns == epoch_ns));
    finished
}

#[test]
fn agents_offer_together_the_schedule_of_one() {
    let one_rate = open(plan(serve(always_ok)), "1k");
    let stages = ["0..2k:200ms", "2k:100ms", "2k..1k:150ms", "0:70ms", "500:80ms"];
    let stage: Vec<Stage> = stages.map(|text| text.parse().expect(text)).into();
    let five = Plan { stage, rate: None, duration: Plan::default().duration, ..one_rate.clone() };
    for (plan, arrivals) in [
        (&one_rate, Arrivals::Poisson),
        (&one_rate, Arrivals::Constant),
        (&five, Arrivals::Poisson),
        (&five, Arrivals::Constant),
    ] {
        let plan = Plan { arrivals, seed: 5, ..plan.clone() };
        let alone = run(plan.clone()).report;
        let digest = |report: &engine::report::Report| {
            let config = &report.config;
            let value = config.schedule_digest.as_deref().expect("an open model has one");
            let value = u128::from_str_radix(value, 16).expect("hexadecimal digits");
            let arrivals = config.schedule_arrivals.expect("an open model has arrivals");
            engine::load::schedule::Digest::from_value(value, arrivals)
        };
        let mut together = engine::load::schedule::Digest::default();
        for finished in on_three(&plan) {
            let counts = &finished.report.whole.counts;
            assert!(0 < counts.intended && counts.answered == counts.intended, "{counts:?}");
            assert_eq!(wrong(report_alone(&finished.report)), [], "a report of its own");
            together.merge(digest(&finished.report));
        }
        assert_eq!(together, digest(&alone), "{arrivals:?}");
    }
}

#[test]
fn agents_open_together_as_many_connections_as_one() {
    let closed = Plan { model: Some(Model::Closed), conns: Some(13), ..plan(serve(always_ok)) };
    let period = Some(Nanos(20_000_000));
    for plan in [closed.clone(), Plan { period, ..closed }] {
        let connects = |finished: Finished| finished.report.whole.counts.connects;
        let each: Vec<u64> = on_three(&plan).into_iter().map(connects).collect();
        // Of every six, one, two and three; the thirteenth is the first agent's.
        assert_eq!(each, [3, 4, 6]);
    }
}

/// Three agents with unequal weights, all begun at the same time; with a folder, each has its
/// sample file in it.
fn begun(plan: &Plan, folder: Option<&Path>) -> Vec<(Share, Run)> {
    let held: Vec<(Share, Run)> = [0..1, 1..3, 3..6]
        .into_iter()
        .enumerate()
        .map(|(number, units)| {
            let path = folder.map(|folder| folder.join(format!("{number}.samples")));
            let file = path.map(|path| SampleFile::create(&path, 1).expect("a folder of our own"));
            let share = Share::units(units, 6);
            (share.clone(), ready(plan, share, file))
        })
        .collect();
    let epoch_ns = clock::now_ns() + 200_000_000;
    held.iter().for_each(|(_, run)| run.begin_at(epoch_ns).expect("the epoch is ahead"));
    held
}

/// The report of these agents, each of which is checked on its own.
fn merged(runs: Vec<(Share, Run)>, raw: Option<PathBuf>) -> Report {
    let agent = |(number, (share, run)): (usize, (Share, Run))| {
        AgentRun::of(&number.to_string(), share, run.collect())
    };
    let runs = runs.into_iter().enumerate().map(agent);
    let facts = RunFacts { controller: Some(of_controller()), raw, ..RunFacts::default() };
    let (report, _) = merge::report(runs, &facts);
    assert_eq!(wrong(report_alone(&report)), []);
    report
}

#[test]
fn merged_agents_match_their_pooled_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    let slow = |number: u64, stream: &mut TcpStream| {
        std::thread::sleep(Duration::from_micros(number % 20 * 150));
        always_ok(number, stream)
    };
    let plan = Plan { seed: 9, ..open(plan(serve(slow)), "2k") };
    let runs = begun(&plan, Some(folder.path()));
    let report = merged(runs, Some(folder.path().to_owned()));
    let files = [0, 1, 2].map(|number| folder.path().join(format!("{number}.samples")));
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    assert_eq!(wrong(with_samples(&report, &files)), []);
    let alone = run(plan).report;
    assert_eq!(report.config.schedule_digest, alone.config.schedule_digest);
    assert_eq!(report.whole.counts.intended, alone.whole.counts.intended);
    let proof = merge_proof(&report, &files).expect("files").expect("several agents");
    for row in &proof.rows[..2] {
        let merged = row.merged.expect("enough requests");
        assert!(row.off(merged).abs() <= 0.01, "{row:?}");
    }
    let skews = report.per_agent.iter().map(|agent| agent.start_skew_us);
    assert!(skews.into_iter().all(|skew| 0.0 <= skew.expect("each sent some")));
}

#[test]
fn users_of_agents_merge_as_well() {
    let closed = Plan { model: Some(Model::Closed), conns: Some(13), ..plan(serve(always_ok)) };
    let period = Some(Nanos(20_000_000));
    for plan in [closed.clone(), Plan { period, ..closed }] {
        let report = merged(begun(&plan, None), None);
        assert_eq!(report.config.schedule_digest, None);
        assert_eq!((report.conns(), report.whole.counts.connects), (13, 13));
        let answered: u64 = report.per_agent.iter().map(|agent| agent.part.counts.answered).sum();
        assert!(0 < answered && answered == report.whole.counts.answered);
        assert_eq!(report.littles_law.generator_share.is_some(), plan.period.is_none());
    }
}

#[test]
fn agents_that_are_stopped_one_after_the_other_add_up() {
    let plan = Plan { duration: Nanos::from_secs(20), ..open(plan(serve(always_ok)), "1k") };
    let runs = begun(&plan, None);
    for (_, run) in &runs {
        let seen = run.progress().answered;
        let begun = Instant::now();
        while run.progress().answered < seen + 10 {
            assert!(begun.elapsed() < Duration::from_secs(20), "it still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
        run.stop();
    }
    let report = merged(runs, None);
    assert!(report.interrupted && report.config.window_s() < 20.0);
    let ends: Vec<f64> = report.per_agent.iter().map(|agent| agent.config.schedule_until).collect();
    assert!(ends.is_sorted() && ends[0] < ends[2], "{ends:?}");
    assert_eq!(report.config.schedule_until, ends[2]);
}

#[test]
fn requests_have_the_numbers_of_the_whole_schedule_wherever_a_run_is_stopped() {
    // A run ends 0.1 s after it is stopped: here soon after the window has begun, so that most
    // requests are among the slowest, and within a block of the schedule, which has 20 arrivals.
    let (warmup, duration) = (Nanos(98_000_000), Nanos::from_secs(20));
    let plan = open(plan(serve(always_ok)), "20k");
    let held = ready(&Plan { warmup, duration, slowest: Some(100), ..plan }, Share::whole(), None);
    let epoch_ns = clock::now_ns() + 50_000_000;
    held.begin_at(epoch_ns).expect("the epoch is ahead");
    while clock::now_ns() < epoch_ns + 500_000 {
        std::hint::spin_loop();
    }
    held.stop();
    let report = held.wait().report;
    assert!(report.interrupted && !report.whole.slowest.is_empty());
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn a_past_epoch_begins_nothing_and_a_held_run_can_be_cancelled() {
    let held = ready(&open(plan(serve(always_ok)), "1k"), Share::whole(), None);
    let passed = held.begin_at(clock::now_ns() - 5).expect_err("it has passed");
    assert!(5 <= passed.by_ns, "{passed}");
    assert!(held.window().is_none());
    held.cancel();
}

/// A plan of 2,000 requests that never reach a network.
fn made_up_plan() -> Plan {
    let cores = vec![0, 1];
    let nowhere = Plan {
        target: "http://127.0.0.1:1/".to_owned(),
        cores: Some(CoreList::new(cores.clone())),
        duration: Nanos::from_secs(2),
        warmup: Nanos(0),
        ..Plan::default()
    };
    open(nowhere, "1k").complete(&cores).expect("a plan that runs")
}

/// The recordings of two shards of an open plan, with every kind of figure that a recorder keeps.
fn recorded(plan: &Plan) -> Vec<made_up::Recorded> {
    let fate = |due_ns: u64| {
        let mixed = due_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        // Sends keep the order of the arrivals.
        let (noticed_ns, sent_ns) = (due_ns + mixed % 2 * 500, due_ns + 500);
        let waited = noticed_ns < sent_ns;
        let stamps =
            Stamps { intended_ns: due_ns, noticed_ns, sent_ns, waited, step: 0, session: None };
        // Some are beyond the range of a histogram.
        let ending = Ending::at(due_ns + 2_000 + mixed % 1_000 * (mixed % 97) * 1_000_000);
        match mixed % 97 {
            0 => (stamps, ending, Outcome::Failed(Cause::Reset)),
            1 => (stamps, ending, Outcome::TimedOut(TimeoutKind::Timeout)),
            2 => (stamps, ending, Outcome::Answered(503)),
            3 => (stamps, ending, Outcome::Unsent(UnsentReason::Deadline)),
            _ => (stamps, ending, Outcome::Answered(200)),
        }
    };
    (0..2).map(|shard| made_up::record(plan, (shard, 2), fate, |_, _, _| {})).collect()
}

#[test]
fn a_recorder_is_transferred_unchanged() {
    let plan = made_up_plan();
    let before = recorded(&plan);
    let across = |(recorder, digest): &made_up::Recorded| -> made_up::Recorded {
        let bytes = serde_json::to_vec(&(recorder, digest)).expect("a document");
        serde_json::from_slice(&bytes).expect("a recorder")
    };
    let after: Vec<made_up::Recorded> = before.iter().map(across).collect();
    let config = RecorderConfig::of_plan(&plan);
    assert!(after.iter().all(|(recorder, _)| recorder.is_of(&config)));
    let other = RecorderConfig { end_ns: config.end_ns + 1, ..config };
    assert!(!after[0].0.is_of(&other), "another window");
    let (before, after) =
        (made_up::report(&plan, before, None), made_up::report(&plan, after, None));
    assert!(0 < before.whole.corrected.overflow, "some values are beyond the range");
    let document = |report| {
        let mut document = serde_json::to_value(report).expect("a document");
        // The duration of this test isn't one of the recorder's figures.
        document["generator"] = json!(null);
        document
    };
    assert_eq!(document(&after), document(&before));
}

#[test]
fn invalid_recorders_are_refused() {
    let plan = made_up_plan();
    let (recorder, _) = recorded(&plan).swap_remove(0);
    let document = serde_json::to_value(&recorder).expect("a document");
    let refused = |pointer: &str, value: serde_json::Value| {
        let mut wrong = document.clone();
        *wrong.pointer_mut(pointer).expect(pointer) = value;
        serde_json::from_value::<Recorder>(wrong).expect_err(pointer).to_string()
    };
    let histogram = "/times/send_path/histogram";
    assert_eq!(
        refused(histogram, json!([1, 2])),
        "not a histogram of 3 digits from 1 to 60000000000 ns"
    );
    assert_eq!(
        refused("/series/slots/0/latency", document.pointer(histogram).expect("there").clone()),
        "not a histogram of 2 digits from 1 to 60000000000 ns"
    );
    assert_eq!(refused("/times/added", json!([])), "0 buckets, not 976");
    assert_eq!(refused("/series/interval_ns", json!(100)), "16 intervals of 100 ns");
    assert_eq!(
        refused("/arrivals/sent/counts", json!([1])),
        "1 counts of milliseconds up to number 1997"
    );
}
