//! Controllers that go away: the load ends, the results are kept, the next controller is served.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use agents::message::{Message, Origin};
use agents::refusal::Refusal;
use agents::run_id::RunId;
use agents::session::STALL_MAX;
use engine::load::share::Share;
use engine::plan::{Http, Plan};
use engine::run::Phase;
use engine::sys::clock;
use engine::sys::units::{Nanos, SECOND_NS};

use crate::support::{Agent, Controller, key, last_arrival_ns, plan, target, wait_until};

const SECOND: Nanos = Nanos::from_secs(1);
const MINUTE: Nanos = Nanos::from_secs(60);
/// A silent controller loses its agent after three seconds; the load is over a second later.
const SILENT_MAX_NS: u64 = 4 * SECOND_NS;

/// Runs briefly for another controller.
fn serves_another(agent: &Agent, target: &target::Target) {
    let before = target.ledger().expect("a ledger").received;
    let mut next = Controller::connect(agent, "ben@lap");
    next.begin(&plan(target, Nanos(200_000_000)), false);
    assert_eq!(next.follow(u64::MAX).answered, 40);
    next.collect(false);
    next.leave();
    assert_eq!(target.ledger().expect("a ledger").received, before + 40);
}

#[test]
fn a_controller_that_falls_silent_has_lost_its_run_and_the_report_is_kept() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    let at_ns = controller.begin(&plan(&target, MINUTE), true);
    // Longer than the longest silence.
    while clock::now_ns() < at_ns + SILENT_MAX_NS {
        assert_eq!(controller.hear_progress().phase, Phase::Steady);
    }
    let silent_ns = controller.fall_silent();
    // Other messages don't count.
    for _ in 0..5 {
        controller.ping();
        thread::sleep(Duration::from_millis(200));
    }
    let refusal = controller.hear_refusal().to_string();
    assert_eq!(refusal, "the run was stopped: no heartbeat came for 3s");
    agent.said("run ended for ann@desk: no heartbeat came for 3s; ");
    let last_ns = last_arrival_ns(&target).expect("requests");
    assert!(silent_ns < last_ns && last_ns <= silent_ns + SILENT_MAX_NS);
    let (_, report) = agent.kept();
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["uncollected"], "no heartbeat came for 3s");
    let received = target.ledger().expect("a ledger").received;
    assert_eq!(report["counts"]["sent"], received);
    let samples = report["samples"]["file"].as_str().expect("a file");
    assert!(agent.files().iter().any(|file| file.to_str() == Some(samples)), "{samples}");
    assert_eq!(report["samples"]["written"], report["counts"]["intended"]);
    serves_another(&agent, &target);
    assert_eq!(target.ledger().expect("a ledger").received, received + 40);
}

#[test]
fn a_controller_whose_session_ends_has_lost_its_run_at_once() {
    for http in [Http::V1, Http::V2] {
        let (agent, target) = (Agent::start(), target());
        let mut controller = Controller::connect(&agent, "ann@desk");
        controller.begin(&Plan { http, ..plan(&target, MINUTE) }, false);
        controller.follow(10);
        drop(controller);
        let gone_ns = clock::now_ns();
        agent.said("run ended for ann@desk: the controller's session ended; ");
        let last_ns = last_arrival_ns(&target).expect("requests");
        assert!(last_ns < gone_ns + SECOND_NS, "{} ns later", last_ns - gone_ns);
        let (_, report) = agent.kept();
        assert_eq!(report["interrupted"], true);
        assert_eq!(report["counts"]["sent"], target.ledger().expect("a ledger").received);
        let files = agent.files();
        let is_samples = |file: &PathBuf| file.extension() == Some(OsStr::new("samples"));
        assert!(files.len() == 2 && !files.iter().any(is_samples), "not wanted: {files:?}");
        serves_another(&agent, &target);
    }
}

#[test]
fn a_controller_that_says_goodbye_during_its_run_has_lost_it() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.begin(&plan(&target, MINUTE), false);
    controller.follow(10);
    controller.leave();
    agent.said("run ended for ann@desk: the controller's session ended; ");
    agent.kept();
    serves_another(&agent, &target);
}

#[test]
fn a_silent_controller_loses_a_run_that_waits_for_its_start_and_nothing_was_sent() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.prepare(&plan(&target, MINUTE), true);
    controller.hear_ready();
    controller.start(30 * SECOND_NS);
    controller.fall_silent();
    agent.said("run called off for ann@desk: no heartbeat came for 3s");
    assert_eq!(target.ledger().expect("a ledger").received, 0);
    wait_until("nothing is kept", || agent.files().is_empty());
    serves_another(&agent, &target);
}

#[test]
fn a_controller_that_leaves_right_before_the_start_leaves_nothing_behind() {
    const SHARDS_KNOW_NS: u64 = 450_000_000;
    const IN_TIME_NS: u64 = 250_000_000;
    for _ in 0..10 {
        let (agent, target) = (Agent::start(), target());
        let mut controller = Controller::connect(&agent, "ann@desk");
        controller.prepare(&plan(&target, MINUTE), true);
        controller.hear_ready();
        let at_ns = controller.start(SECOND_NS);
        wait_until("its shards know of the start", || at_ns < clock::now_ns() + SHARDS_KNOW_NS);
        drop(controller);
        // On a busy machine it may be too late.
        if at_ns < clock::now_ns() + IN_TIME_NS {
            continue;
        }
        agent.said("run called off for ann@desk: the controller's session ended");
        assert_eq!(target.ledger().expect("a ledger").received, 0);
        wait_until("nothing is kept", || agent.files().is_empty());
        return;
    }
    panic!("this machine is too busy for this test");
}

#[test]
fn a_report_that_was_sent_but_not_acknowledged_is_kept() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.begin(&plan(&target, SECOND), true);
    controller.follow(u64::MAX);
    controller.collect(true);
    drop(controller);
    agent.said("run ended for ann@desk: the controller's session ended; ");
    let (_, report) = agent.kept();
    assert_eq!(report["interrupted"], false);
    assert_eq!(report["uncollected"], "the controller's session ended");
    assert_eq!(report["counts"]["answered"], 200);
}

#[test]
fn a_slow_disk_at_the_controller_delays_only_the_samples() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.begin(&plan(&target, SECOND), true);
    controller.follow(u64::MAX);
    let (results, shards) = controller.collect_report();
    assert_eq!(shards[0].recorder.counts.answered, 200);
    // Longer than a peer may leave data unread: none is sent.
    thread::sleep(STALL_MAX + Duration::from_secs(1));
    controller.ping();
    let mut samples = Vec::new();
    while (samples.len() as u64) < results.samples_bytes {
        samples.extend(controller.part_at(samples.len() as u64));
    }
    assert!(200 * 48 < samples.len(), "{} bytes", samples.len());
    // There is no more.
    controller.ping();
    controller.leave();
    agent.said("200 answered, report collected");
    wait_until("nothing is kept", || agent.files().is_empty());
}

#[test]
fn samples_for_which_the_controller_has_no_room_are_kept() {
    let (agent, target) = (Agent::start(), target());
    for next in [false, true] {
        let mut controller = Controller::connect(&agent, "ann@desk");
        controller.begin(&plan(&target, SECOND), true);
        controller.follow(u64::MAX);
        let (results, _) = controller.collect_report();
        if next {
            controller.prepare(&plan(&target, SECOND), false);
            controller.hear_ready();
            controller.say(&Message::Stop);
        } else {
            controller.leave();
        }
        let line =
            agent.said("its controller had no room for the raw samples; 200 sent, report kept in");
        let (_, file) = line.split_once("report kept in ").expect("a file");
        let (file, _) = file.split_once(", ").expect("a file");
        let file = Path::new(file).with_extension("samples");
        let kept = fs::metadata(file).expect("its samples").len();
        assert!(0 < kept && kept == results.samples_bytes);
    }
}

#[test]
fn kept_results_are_sent_to_each_controller_that_resumes_the_run() {
    let (agent, target) = (Agent::start(), target());
    let run = Origin::default().run;
    let mut early = Controller::connect(&agent, "ann@desk");
    early.say(&Message::Resume(run));
    assert_eq!(early.hear_refusal(), Refusal::NotKept(run));
    let mut controller = Controller::connect(&agent, "ann@desk");
    let at_ns = controller.begin(&plan(&target, MINUTE), true);
    controller.follow(10);
    // One that comes before the run is over waits for that.
    let mut waiting = Controller::connect(&agent, "ben@lap");
    waiting.say(&Message::Resume(run));
    waiting.ping();
    drop(controller);
    let said = agent.said("run ended for ann@desk: the controller's session ended; ");
    assert!(said.ends_with(&format!("`truetail controller --agents … --resume {run}`")), "{said}");
    let received = target.ledger().expect("a ledger").received;
    let then = Controller::connect(&agent, "cat@lab");
    then.say(&Message::Resume(run));
    for mut resuming in [waiting, then] {
        let kept = match resuming.hear() {
            Message::Kept(kept) => kept,
            other => panic!("{other:?}"),
        };
        assert_eq!((kept.origin, kept.share), (Origin::default(), Share::whole()));
        let (results, shards) = resuming.hear_report();
        assert!(results.head.interrupted && results.head.epoch_ns == at_ns);
        assert_eq!(shards[0].recorder.counts.sent, received);
        let mut samples = 0;
        while samples < results.samples_bytes {
            samples += resuming.part_at(samples).len() as u64;
        }
        assert!(received * 20 < samples, "{samples} bytes");
        resuming.leave();
    }
    let mut sent = [(); 2].map(|()| agent.said(&format!("kept results of run {run} sent to ")));
    sent.sort();
    assert!(sent[0].contains("ben@lap at 127.0.0.1:"), "{sent:?}");
    assert!(sent[1].contains("cat@lab at 127.0.0.1:"), "{sent:?}");
    serves_another(&agent, &target);
}

#[test]
fn kept_results_that_are_not_as_they_were_are_refused() {
    let (agent, target) = (Agent::start(), target());
    let run = Origin::default().run;
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.begin(&plan(&target, MINUTE), true);
    controller.follow(10);
    drop(controller);
    agent.said("report kept in");
    let port = agent.address.port();
    let file_of = |run: RunId| agent.folder().join(format!("agent-{port}-{run}.results"));
    let bytes = fs::read(file_of(run)).expect("the results");
    let refusal = |run: RunId, bytes: &[u8]| {
        fs::write(file_of(run), bytes).expect("a folder of its own");
        let mut later = Controller::connect(&agent, "ben@lap");
        later.say(&Message::Resume(run));
        later.hear_refusal().to_string()
    };
    let other: RunId = "00000000000000ff".parse().expect("a name");
    let said = refusal(other, &bytes);
    assert!(said.contains("it is of run 0000000000000000"), "{said}");
    for length in [0, 31, 40, bytes.len() / 2, bytes.len() - 1] {
        let said = refusal(run, &bytes[..length]);
        assert!(said.contains("cut short"), "{length}: {said}");
    }
    for at in [20, bytes.len() / 2, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let said = refusal(run, &changed);
        assert!(said.contains("it was changed or cut short"), "{at}: {said}");
    }
    // Samples that aren't all there are lost; the rest holds.
    fs::write(file_of(run), &bytes).expect("a folder of its own");
    let (report, _) = agent.kept();
    let samples = fs::File::options().write(true).open(report.with_extension("samples"));
    samples.expect("the samples").set_len(1_000).expect("a shorter file");
    let mut later = Controller::connect(&agent, "ben@lap");
    later.say(&Message::Resume(run));
    assert!(matches!(later.hear(), Message::Kept(_)));
    let (results, _) = later.hear_report();
    let samples = results.head.samples.expect("they were wanted");
    assert_eq!((results.samples_bytes, samples.written), (0, 0));
    assert!(0 < samples.lost);
}

#[test]
fn the_load_ends_though_its_controller_stops_reading() {
    let (agent, target) = (Agent::start(), target());
    let mut controller = Controller::connect(&agent, "ann@desk");
    controller.begin(&plan(&target, MINUTE), true);
    controller.follow(10);
    controller.say(&Message::Stop);
    controller.say(&Message::Collect);
    let silent_ns = controller.fall_silent();
    agent.said("report kept in");
    let last_ns = last_arrival_ns(&target).expect("requests");
    assert!(last_ns <= silent_ns + SECOND_NS);
    agent.kept();
    serves_another(&agent, &target);
}

#[test]
fn a_thousand_strangers_neither_end_nor_change_a_run() {
    let target = target();
    let agent = Agent::start_with(|config| config.key = key());
    let mut controller = Controller::authenticate(&agent, key()).expect("a session");
    controller.say(&Message::Hello(crate::support::hello("ann@desk")));
    controller.hear();
    controller.begin(&plan(&target, Nanos::from_secs(3)), false);
    controller.follow(10);
    let send_garbage = |number: u64| {
        let garbage: Vec<u8> =
            (0..64).map(|at| (number * 31 + at * 7).to_le_bytes()[0] | 0x80).collect();
        let mut stranger = TcpStream::connect(agent.address).expect("it listens");
        // It may have been turned away already.
        let _ = stranger.write_all(&garbage);
    };
    (0..1_000).for_each(send_garbage);
    assert_eq!(controller.follow(u64::MAX).phase, Phase::Done);
    let (results, shards, _) = controller.collect(false);
    assert!(!results.head.interrupted);
    let counts = &shards[0].recorder.counts;
    assert_eq!((counts.intended, counts.answered), (600, 600), "{counts:?}");
    controller.leave();
    // A summary line has only the last one's reason, and among a thousand that may be that all
    // places were taken.
    send_garbage(1_000);
    agent.said("the peer doesn't speak truetail's protocol");
}
