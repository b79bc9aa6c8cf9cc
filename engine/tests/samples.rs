//! Raw samples and what `verify` makes of them: a run's numbers come back from its file, and no changed byte and no
//! changed number goes unseen.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::thread;

use engine::host;
use engine::host::watch::Machine;
use engine::load::schedule::{Digest, Schedule, mix};
use engine::plan::redact::Redacted;
use engine::plan::thresholds::Thresholds;
use engine::plan::{Arrivals, Plan};
use engine::record::outcome::{Cause, Outcome, TimeoutKind, UnsentReason};
use engine::record::recorder::{Recorder, RecorderConfig};
use engine::record::shard_stats::ShardMeter;
use engine::record::stamps::Stamps;
use engine::report::merge::{self, RunContext};
use engine::report::{DistributionPart, IntervalPart, Report, Samples};
use engine::report::{judge, verdict::Code};
use engine::samples::{
    BLOCK_RECORDS, BLOCKS, FileError, FileErrorKind, Header, SAMPLE_BYTES, Sample, SampleFile,
    SampleKind, SampleReader, Sampler, SamplesSummary, ShardEnd, check_writable, plan_digest,
};
use engine::shard::ShardReport;
use engine::stats::distribution::Distribution;
use engine::sys::units::{CoreList, Nanos};
use engine::verify::{Finding, report_alone, with_samples};
use rustix::process::{Uid, geteuid};
use serde_json::Value;
use tempfile::TempDir;

const SHARDS: usize = 2;

/// A threshold whose last digit an imprecise reader of JSON loses.
const BUSY: f64 = 0.9499999999999991;

fn plan(rate: &str) -> Plan {
    Plan {
        target: "http://127.0.0.1:1/".to_owned(),
        rate: Some(rate.parse().expect("a rate")),
        duration: Nanos::from_secs(5),
        warmup: Nanos::from_secs(1),
        seed: 42,
        cores: Some(CoreList::new(vec![0, 1])),
        raw: Some("run.samples".into()),
        thresholds: Thresholds { busy: BUSY, ..Thresholds::default() },
        ..Plan::default()
    }
    .complete(&[0, 1])
    .expect("a plan that runs")
}

/// A request's fate, made up from its intended time: every outcome occurs, and one time in a thousand is beyond the
/// histograms' range. A shard sends in the order intended, a batch every 100 µs.
fn fate(intended_ns: u64) -> (Stamps, u64, Outcome) {
    let random = mix(intended_ns);
    let noticed_ns = intended_ns + random % 3_000;
    let sent_ns = (intended_ns + 3_000).next_multiple_of(100_000);
    let ended_ns = sent_ns + 500_000 + (random >> 24) % 9_000_000;
    let stamps = Stamps { intended_ns, noticed_ns, sent_ns };
    let outcome = match (random >> 32) % 1_000 {
        0..5 => Outcome::TimedOut(TimeoutKind::Timeout),
        5..10 => Outcome::Failed(Cause::Reset),
        10..15 => Outcome::Failed(Cause::Protocol("chunk_end")),
        15..20 => Outcome::Abandoned,
        // No connection could be had: it failed where it would have been sent.
        40..45 => return (stamps, sent_ns, Outcome::Failed(Cause::ConnectRefused)),
        20..25 => Outcome::Unsent(UnsentReason::End),
        25 => return (stamps, ended_ns + 70_000_000_000, Outcome::TimedOut(TimeoutKind::Timeout)),
        26..40 => Outcome::Answered(503),
        45..50 => Outcome::Unsent(UnsentReason::Dropped),
        _ => Outcome::Answered(200),
    };
    (stamps, ended_ns, outcome)
}

/// A run without a network: the same requests go to the recorders and to the samples.
struct Made {
    folder: TempDir,
    report: Report,
    summary: SamplesSummary,
}

impl Made {
    fn new(plan: Plan) -> Made {
        let folder = tempfile::tempdir().expect("a folder");
        let file = SampleFile::create(&path_in(&folder), SHARDS).expect("a folder of our own");
        Made::with(plan, folder, file)
    }

    fn with(plan: Plan, folder: TempDir, file: SampleFile) -> Made {
        let mut shards = Vec::new();
        let mut ends = Vec::new();
        for shard in 0..SHARDS {
            let mut sampler = file.lane(shard).sampler();
            let (recorder, digest) = recorded(&plan, shard, &mut sampler);
            ends.push((sampler.finish(), ShardEnd::new(&recorder, digest)));
            let vitals = ShardMeter::new(shard).report(0, 0);
            shards.push(ShardReport { recorder, digest, stats: vitals, sampled: None });
        }
        let summary = file.begin(header(&plan), &[1]).finish(ends, plan.end_ns(), 77);
        let address = "127.0.0.1:1".parse().expect("an address");
        let environment = host::environment::environment(&[0, 1], Vec::new(), address);
        let run = RunContext {
            plan: Redacted::new(&plan, b""),
            address,
            environment,
            machine: Machine::default(),
            interrupted: false,
            until_ns: plan.end_ns(),
            samples: Some(Samples {
                file: summary.file.as_ref().map(|file| file.display().to_string()),
                written: summary.written,
                lost: summary.lost,
                error: summary.error.clone(),
            }),
        };
        let (report, _) = merge::report(run, &shards);
        Made { folder, report, summary }
    }

    fn path(&self) -> PathBuf {
        path_in(&self.folder)
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).expect("the file is there")
    }

    /// The findings that are not in order, with these bytes as the file.
    fn wrong_with(&self, bytes: &[u8]) -> Vec<Finding> {
        let path = self.folder.path().join("changed");
        fs::write(&path, bytes).expect("written");
        wrong(with_samples(&self.report, &[&path]))
    }
}

/// What a shard does with its requests: it sends them in the order intended, and they end in another.
fn recorded(plan: &Plan, shard: usize, sampler: &mut Sampler) -> (Recorder, Digest) {
    let mut recorder = Recorder::new(RecorderConfig::of_plan(plan));
    let mut digest = Digest::default();
    let mut in_flight = Vec::new();
    let rate = plan.rate.expect("an open plan");
    for due_ns in Schedule::new(rate, plan.arrivals, plan.seed, plan.end_ns(), shard, SHARDS) {
        digest.add(due_ns);
        if due_ns < plan.warmup.0 {
            continue;
        }
        let (stamps, ended_ns, outcome) = fate(due_ns);
        recorder.intended(due_ns);
        if !matches!(outcome, Outcome::Unsent(_)) && stamps.sent_ns < ended_ns {
            recorder.sent(&stamps, stamps.sent_ns <= plan.end_ns());
            in_flight.push((ended_ns, stamps, outcome));
            continue;
        }
        if !matches!(outcome, Outcome::Unsent(_)) {
            recorder.unconnected(&stamps);
        }
        recorder.ended(&stamps, ended_ns, ended_ns <= plan.end_ns(), outcome);
        sampler.push(&stamps, ended_ns, outcome);
    }
    let began = in_flight.iter().map(|(_, stamps, _)| (stamps.sent_ns, true));
    let ended = in_flight.iter().map(|(ended_ns, _, _)| (*ended_ns, false));
    let mut moments: Vec<(u64, bool)> = began.chain(ended).collect();
    moments.sort_unstable();
    let mut count = 0;
    for (at_ns, began) in moments {
        recorder.in_flight.pass(at_ns, count);
        count = if began { count + 1 } else { count - 1 };
    }
    in_flight.sort_by_key(|(ended_ns, _, _)| *ended_ns);
    for (ended_ns, stamps, outcome) in in_flight {
        recorder.in_flight.stay(stamps.sent_ns, ended_ns);
        recorder.ended(&stamps, ended_ns, ended_ns <= plan.end_ns(), outcome);
        sampler.push(&stamps, ended_ns, outcome);
    }
    recorder.series.in_flight(plan.duration.0 - 1, 3);
    (recorder, digest)
}

fn path_in(folder: &TempDir) -> PathBuf {
    folder.path().join("run.samples")
}

fn header(plan: &Plan) -> Header {
    Header {
        shards: u32::try_from(SHARDS).expect("few"),
        plan_digest: plan_digest(plan),
        seed: plan.seed,
        window_start_ns: plan.warmup.0,
        window_end_ns: plan.end_ns(),
    }
}

fn wrong(findings: Vec<Finding>) -> Vec<Finding> {
    findings.into_iter().filter(|finding| !finding.ok).collect()
}

/// What a reader says of bytes that are no whole file.
fn refusal(bytes: &[u8]) -> String {
    match SampleReader::new(bytes) {
        Err(error) => error.to_string(),
        Ok(mut reader) => {
            let error = reader.find_map(Result::err).expect("an error").to_string();
            assert!(reader.end().is_none(), "a file that is not whole has no end");
            assert!(reader.next().is_none(), "nothing follows an error");
            error
        }
    }
}

/// Recomputes the checksum of the first block, as a program that writes wrong samples would.
fn seal_first_block(bytes: &mut [u8]) {
    let records = u32::from_le_bytes(bytes[76..80].try_into().expect("four bytes")) as usize;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[64..80]);
    hasher.update(&bytes[84..84 + records * SAMPLE_BYTES]);
    bytes[80..84].copy_from_slice(&hasher.finalize().to_le_bytes());
}

#[test]
fn what_was_handed_over_is_read_back() {
    let plan = plan("5k");
    let made = Made::new(plan.clone());
    let written = made.summary.written;
    assert_eq!(made.summary.file, Some(made.path()));
    assert_eq!((made.summary.lost, made.summary.error.clone()), (0, None));
    assert_eq!(made.summary.bytes, made.bytes().len() as u64);
    assert!(!made.folder.path().join("run.samples.tmp").exists());
    assert!(2 * SHARDS * BLOCK_RECORDS < usize::try_from(written).expect("few"), "several blocks");

    let mut reader = SampleReader::open(&made.path()).expect("a header");
    assert_eq!(*reader.header(), header(&plan));
    let mut intended = Vec::new();
    for sample in &mut reader {
        let sample = sample.expect("a whole file");
        let (stamps, ended_ns, outcome) = fate(sample.intended_ns);
        assert_eq!(sample, Sample::new(sample.shard, &stamps, ended_ns, outcome));
        intended.push(sample.intended_ns);
    }
    intended.sort_unstable();
    let due: Vec<u64> =
        Schedule::new(plan.rate.expect("open"), plan.arrivals, plan.seed, plan.end_ns(), 0, 1)
            .filter(|due_ns| plan.warmup.0 <= *due_ns)
            .collect();
    assert_eq!(intended, due);
    let end = reader.end().expect("whole");
    assert_eq!(
        (end.written(), end.lost(), end.until_ns, end.epoch_ns),
        (written, 0, plan.end_ns(), 77)
    );
    assert_eq!(end.shards.len(), SHARDS);
}

#[test]
fn a_true_report_passes_with_and_without_samples() {
    // The second is so long that its intervals have doubled, and the third knows nothing before its window.
    let long = Plan { duration: Nanos::from_secs(100), ..plan("50") };
    let constant = Plan { arrivals: Arrivals::Constant, warmup: Nanos(0), ..plan("70") };
    let mut findings = Vec::new();
    for plan in [long, constant, plan("5k")] {
        let made = Made::new(plan);
        let json = serde_json::to_string(&made.report).expect("a document");
        let report: Report = serde_json::from_str(&json).expect("a report");
        assert_eq!(report.config.plan.thresholds.busy, BUSY);
        assert_eq!(wrong(report_alone(&report)), []);
        findings = with_samples(&report, &[&made.path()]);
        assert_eq!(wrong(findings.clone()), []);
    }
    for what in [
        "samples: naive.p999, exact",
        "samples: successes.naive.p99",
        "samples: intended times",
        "samples: counts.unsent_reasons.dropped",
        "samples: counts.unconnected",
        "samples: series",
        "samples: arrivals",
        "samples: stationarity.p99_last_ns",
        "samples: littles_law.expected",
    ] {
        assert!(findings.iter().any(|finding| finding.what == what), "{what} was not checked");
    }
}

#[test]
fn a_changed_byte_of_the_samples_is_found_anywhere() {
    let made = Made::new(plan("50"));
    let good = made.bytes();
    let block = 20 + SAMPLE_BYTES;
    let end = good.len() - (24 + SHARDS * 96 + 4);
    let positions = (0..64 + 2 * block).chain((1_000..end).step_by(97)).chain(end..good.len());
    for at in positions {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        let error = refusal(&bytes);
        assert!(error.starts_with("at byte "), "byte {at}: {error}");
    }
    for at in [0, 70, 81, 84, 200, end, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        assert_eq!(made.wrong_with(&bytes).len(), 1, "byte {at}");
    }
}

#[test]
fn errors_say_where_and_what() {
    let good = Made::new(plan("50")).bytes();
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        refusal(&bytes)
    };
    let cases = [
        (changed(0, b'X'), "at byte 0: this is no file of raw samples"),
        (changed(8, 2), "at byte 0: version 2 is not 1"),
        (changed(30, 1), "at byte 0: the checksum of the header"),
        (changed(64, b'X'), "at byte 64: neither a block nor the end block"),
        (changed(68, 1), "at byte 64: the checksum of the block"),
        (changed(79, 0xff), "at byte 64: a block can't have"),
        (changed(90, 0xff), "at byte 64: the checksum of the block"),
        (refusal(&good[..10]), "at byte 0: the file ends before the header"),
        (refusal(&good[..64]), "at byte 64: the file ends before the end block: the file is incom"),
        (refusal(&good[..100]), "at byte 64: the file ends before the rest of a block"),
    ];
    for (found, want) in cases {
        assert!(found.starts_with(want), "{found} instead of {want}");
    }
}

#[test]
fn a_file_without_its_end_is_incomplete() {
    let made = Made::new(plan("50"));
    let good = made.bytes();
    let end = good.len() - (24 + SHARDS * 96 + 4);
    assert!(refusal(&good[..end]).contains("the file is incomplete"));
    for length in [0, 1, 63, 65, 84, 85, 300, end - 1, end + 1, end + 3, end + 4, good.len() - 1] {
        assert!(refusal(&good[..length]).contains("the file ends before"), "{length} bytes");
        assert_eq!(made.wrong_with(&good[..length]).len(), 1, "{length} bytes");
    }
    let longer = [&good[..], b"x"].concat();
    assert!(refusal(&longer).contains("something follows the end block"));
}

#[test]
fn wrong_samples_with_right_checksums_are_found() {
    let made = Made::new(plan("50"));
    let good = made.bytes();
    let (at, record) = answered(&good);
    let put = |sample: Sample| {
        let mut bytes = good.clone();
        bytes[at..at + SAMPLE_BYTES].copy_from_slice(&sample.encode());
        seal_first_block(&mut bytes);
        bytes
    };
    let changes = [
        ("intended", Sample { intended_ns: record.intended_ns - 1, ..record }, "intended times"),
        ("ended", Sample { ended_ns: record.ended_ns + 1_000_000, ..record }, "naive.histogram"),
        ("ended by 1 ns", Sample { ended_ns: record.ended_ns + 1, ..record }, "naive.mean"),
        ("noticed", Sample { noticed_ns: record.sent_ns, ..record }, "pacer_lateness.histogram"),
        ("status", Sample { status: 201, ..record }, "counts.status.201"),
    ];
    for (what, sample, finding) in changes {
        let wrong = made.wrong_with(&put(sample));
        let want = format!("samples: {finding}");
        assert!(wrong.iter().any(|found| found.what == want), "{what}: {wrong:?}");
    }
    // Another outcome contradicts the file's own end block.
    let abandoned = Sample { kind: SampleKind::Abandoned, status: 0, ..record };
    assert!(refusal(&put(abandoned)).contains("shard 0 counted"));
    // What no request can have been like is no sample.
    let backwards = Sample { sent_ns: record.ended_ns + 1, ..record };
    assert!(refusal(&put(backwards)).starts_with(&format!("at byte {at}: stamps run backwards")));
    // Nor is what can't have been of this run, or what its shard would not have done.
    let wrong = made.wrong_with(&put(Sample { intended_ns: 0, ..record }));
    assert!(wrong[0].found.contains("was due 0 ns after the epoch"), "{wrong:?}");
    let late_ns = record.ended_ns + 4_000_000_000;
    let wrong = made.wrong_with(&put(Sample { sent_ns: late_ns, ended_ns: late_ns, ..record }));
    assert!(wrong.iter().any(|found| found.what == "samples: sends"), "{wrong:?}");
}

/// The first record of an answered request in the first block, and its offset.
fn answered(bytes: &[u8]) -> (usize, Sample) {
    let offsets = (84..).step_by(SAMPLE_BYTES);
    let mut samples = offsets.map(|at| {
        let record = bytes[at..at + SAMPLE_BYTES].try_into().expect("a record");
        (at, Sample::decode(record).expect("a sample"))
    });
    samples.find(|(_, sample)| sample.kind == SampleKind::Answered).expect("one was answered")
}

#[test]
fn counts_moved_to_another_interval_are_found() {
    let made = Made::new(plan("500"));
    let moves: [fn(&mut IntervalPart) -> &mut u64; 7] = [
        |interval| &mut interval.intended,
        |interval| &mut interval.sent,
        |interval| &mut interval.unsent,
        |interval| &mut interval.answered,
        |interval| &mut interval.errors,
        |interval| &mut interval.sends,
        |interval| &mut interval.answers,
    ];
    let only_by_samples = 5;
    for (at, count) in moves.into_iter().enumerate() {
        let mut report = made.report.clone();
        let intervals = &mut report.series.intervals;
        let from = intervals.iter_mut().position(|interval| 0 < *count(interval)).expect("one");
        *count(&mut intervals[from]) -= 1;
        *count(&mut intervals[from + 1]) += 1;
        assert_eq!(wrong(report_alone(&report)).is_empty(), only_by_samples <= at, "{at}");
        let wrong = wrong(with_samples(&report, &[&made.path()]));
        assert_eq!(wrong[0].what, "samples: series", "{wrong:?}");
    }
    // Two intervals that change places: the arrivals of the plan were due in others.
    let mut report = made.report.clone();
    let intervals = &mut report.series.intervals;
    intervals.swap(3, 4);
    for at in [3, 4] {
        intervals[at].start_s = at as f64 * report.series.interval_s;
    }
    assert_ne!(wrong(report_alone(&report)), []);
}

#[test]
fn the_samples_of_another_run_are_found() {
    let made = Made::new(plan("50"));
    let other = Made::new(Plan { seed: 43, ..plan("50") });
    let wrong = wrong(with_samples(&made.report, &[&other.path()]));
    for what in ["plan", "seed"] {
        assert!(wrong.iter().any(|finding| finding.what.ends_with(what)), "{what}: {wrong:?}");
    }
    let twice = made.path();
    assert_ne!(self::wrong(with_samples(&made.report, &[&twice, &twice])), []);
    assert_ne!(self::wrong(with_samples(&made.report, &[])), []);
}

/// The paths of a report's document, of values and of what holds them. Of many that are alike there are a few.
fn paths(document: &Value) -> Vec<String> {
    fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        match value {
            Value::Object(map) => {
                map.iter().for_each(|(key, value)| walk(value, &format!("{path}/{key}"), found));
            }
            Value::Array(list) => {
                let values = list.iter().enumerate();
                values.for_each(|(at, value)| walk(value, &format!("{path}/{at}"), found));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let few = |path: &str, all: &str, few: &[&str]| {
        path.strip_prefix(all).is_none_or(|rest| few.iter().any(|few| rest.starts_with(few)))
    };
    let mut found = Vec::new();
    walk(document, "", &mut found);
    found.retain(|path| {
        few(path, "/series/intervals/", &["3/", "17/"])
            && few(path, "/environment/", &["cpu"])
            && !path.starts_with("/merged")
            && !path.starts_with("/per_agent")
    });
    found
}

/// A value that looks as good as this one; `None` for what holds others.
fn another(value: &Value, path: &str) -> Option<Value> {
    let other =
        |text: &str, one: &str, other: &str| Value::from(if text == one { other } else { one });
    Some(match value {
        Value::Null => Value::from(0.5),
        Value::Bool(truth) => Value::from(!truth),
        Value::Number(number) => match number.as_u64() {
            Some(count) => Value::from(count + 1),
            None => Value::from(number.as_f64().expect("a number") * 1.02 + 0.001),
        },
        Value::String(text) if path.ends_with("/level") => other(text, "valid", "suspect"),
        Value::String(text) if path.ends_with("/code") => other(text, "errors", "interrupted"),
        Value::String(text) if path.ends_with("intervals/method") => {
            other(text, "batches", "order_statistics")
        }
        Value::String(text) => Value::from(format!("{text}0")),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

/// The report with one value changed in each of the places where it stands, for the whole is a part that stands thrice.
/// `None` when that is no report any more.
fn changed(document: &Value, path: &str, value: &Value) -> Option<Report> {
    let mut changed = document.clone();
    for part in ["", "/merged", "/per_agent/0"] {
        if let Some(place) = changed.pointer_mut(&format!("{part}{path}")) {
            *place = value.clone();
        }
    }
    serde_json::from_value(changed).ok()
}

/// Values that nothing in a report or in its samples contradicts.
const UNCHECKED: [&str; 11] = [
    "/config/raw",
    "/config/target_address",
    "/counts/connects",
    "/counts/setup/sent",
    "/counts/waited",
    "/counts/warmup/sent",
    "/environment/",
    "/generator/machine/",
    "/generator/shards/",
    "/samples/file",
    "/series/intervals/",
];

#[test]
fn a_changed_value_of_the_report_is_found() {
    let made = Made::new(plan("500"));
    let document = serde_json::to_value(&made.report).expect("a document");
    let mut reports = 0;
    let mut unseen = Vec::new();
    for path in paths(&document) {
        let value = another(document.pointer(&path).expect("a value"), &path);
        let report = value.and_then(|value| changed(&document, &path, &value));
        let Some(report) = report else { continue };
        reports += 1;
        if !wrong(report_alone(&report)).is_empty() {
            continue;
        }
        if wrong(with_samples(&report, &[&made.path()])).is_empty() {
            assert!(!path.starts_with("/series/") || path.ends_with("/in_flight"), "{path}");
            unseen.push(path);
            continue;
        }
        // What only the samples show: the words of the plan, and how the sends were distributed.
        assert!(path.starts_with("/config/") || path.starts_with("/arrivals/"), "{path}");
    }
    assert!(250 < reports, "all values: {reports}");
    for path in &unseen {
        assert!(UNCHECKED.iter().any(|known| path.starts_with(known)), "{path} was not found");
    }
    for known in UNCHECKED {
        assert!(unseen.iter().any(|path| path.starts_with(known)), "{known} is found now");
    }
}

#[test]
fn parts_that_differ_are_found() {
    let made = Made::new(plan("500"));
    let document = serde_json::to_value(&made.report).expect("a document");
    for path in [
        "/counts/waited",
        "/counts/warmup/sent",
        "/merged/counts/connects",
        "/merged/naive/p50",
        "/per_agent/0/counts/waited",
        "/per_agent/0/corrected/intervals/p99/0",
    ] {
        let mut changed = document.clone();
        let place = changed.pointer_mut(path).expect("a number");
        *place = another(place, path).expect("a value");
        let report: Report = serde_json::from_value(changed).expect("a report");
        assert_ne!(wrong(report_alone(&report)), [], "{path}");
    }
    // As if of two agents: a part that is not the sum.
    let mut report = made.report.clone();
    report.per_agent.push(report.per_agent[0].clone());
    assert_ne!(wrong(report_alone(&report)), []);
}

#[test]
fn a_changed_text_of_the_report_is_found() {
    let made = Made::new(plan("500"));
    let document = serde_json::to_value(&made.report).expect("a document");
    let other = Value::from(made.report.whole.pacer_lateness.histogram.clone());
    for (path, value) in [
        ("/naive/histogram", other),
        ("/config/schedule_digest", Value::from("00000000000000000000000000000000")),
        ("/config/arrivals", Value::from("constant")),
        ("/config/rate", Value::from("501")),
        ("/config/corrected_by", Value::from("backfill")),
        // A percentile that enough samples back can't be withheld, nor can what became of the samples.
        ("/naive/p99", Value::Null),
        ("/samples", Value::Null),
        ("/stationarity", Value::Null),
        ("/arrivals", Value::Null),
        ("/arrivals_line", Value::Null),
        ("/verdict/reasons", Value::Array(Vec::new())),
    ] {
        let report = changed(&document, path, &value).expect("a report");
        assert_ne!(wrong(report_alone(&report)), [], "{path} = {value}");
    }
    let report = changed(&document, "/verdict/reasons/0/code", &Value::from("littles_law"));
    let found = wrong(report_alone(&report.expect("a report")));
    let (expected, found) = (&found[0].expected, &found[0].found);
    assert!(expected.starts_with("invalid rate_missed "), "{expected}");
    assert_eq!(*found, expected.replace("rate_missed", "littles_law"));
}

/// Values that no run has: each has to be a finding, or no report at all, and never the end of the program.
fn nasty(document: &Value) -> Vec<Value> {
    let other_bounds = document.pointer("/series/intervals/3/histogram").expect("a histogram");
    vec![
        Value::Null,
        Value::from(0),
        Value::from(-1),
        Value::from(1.5),
        Value::from(1e300),
        Value::from(-1e300),
        Value::from(1_u64 << 47),
        Value::from(u64::MAX),
        Value::from(""),
        Value::from("168h"),
        Value::from("5124095h"),
        Value::from("0-65535"),
        other_bounds.clone(),
        Value::from(histogram_of(1 << 62)),
        Value::Array(Vec::new()),
        Value::Array(vec![Value::from(0.0), Value::from(f64::MAX)]),
        Value::Object(serde_json::Map::new()),
        Value::Object([("1000".to_owned(), Value::from(7))].into_iter().collect()),
    ]
}

/// The text of a histogram with the bounds of a run's and one value so often.
fn histogram_of(count: u64) -> String {
    let mut distribution = Distribution::new();
    distribution.record_n(1_000_000, count);
    DistributionPart::alone(&distribution, None).histogram
}

#[test]
fn no_document_ends_the_program() {
    let made = Made::new(plan("500"));
    let document = serde_json::to_value(&made.report).expect("a document");
    let nasty = nasty(&document);
    let mut reports = 0;
    // Each value gets three of them, the next one others.
    let mut nasty = nasty.iter().cycle();
    for path in paths(&document) {
        for value in nasty.by_ref().take(3) {
            let Some(report) = changed(&document, &path, value) else { continue };
            reports += 1;
            report_alone(&report);
            with_samples(&report, &[&made.path()]);
        }
    }
    assert!(100 < reports, "{reports}");
    let path = "/config/thresholds/percentile";
    let report = changed(&document, path, &Value::from(1.5)).expect("a report");
    let wrong = wrong(report_alone(&report));
    assert!(wrong[0].found.starts_with("--threshold percentile=1.5: "), "{wrong:?}");
}

#[test]
fn lost_samples_are_counted_and_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = SampleFile::create(&path_in(&folder), 1).expect("a folder of our own");
    let mut sampler = file.lane(0).sampler();
    let mut recorder = Recorder::new(RecorderConfig::default());
    // Nobody takes blocks before the run begins: what they don't hold is lost.
    let room = (BLOCKS * BLOCK_RECORDS) as u64;
    for intended_ns in 1_000_000_000..1_000_000_000 + room + 10 {
        let stamps = Stamps { intended_ns, noticed_ns: intended_ns, sent_ns: intended_ns };
        recorder.intended += 1;
        recorder.sent(&stamps, true);
        recorder.ended(&stamps, intended_ns + 5, true, Outcome::Answered(200));
        sampler.push(&stamps, intended_ns + 5, Outcome::Answered(200));
    }
    let end = (sampler.finish(), ShardEnd::new(&recorder, Digest::default()));
    let header = Header { shards: 1, ..header(&plan("50")) };
    let summary = file.begin(header, &[]).finish(vec![end], 1, 77);
    assert_eq!((summary.written, summary.lost, summary.error), (room, 10, None));
    let path = summary.file.expect("what was written is whole");
    let mut reader = SampleReader::open(&path).expect("a header");
    assert_eq!(reader.by_ref().filter(Result::is_ok).count() as u64, room);
    assert_eq!(reader.end().expect("whole").lost(), 10);
    let report = Made::new(plan("50")).report;
    let findings = wrong(with_samples(&report, &[&path]));
    assert!(findings.iter().any(|finding| finding.what == "samples: lost"));
}

#[test]
fn a_full_disk_costs_samples_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = path_in(&folder);
    fs::write(&path, "of an earlier run").expect("written");
    // Writing to this device always fails for want of space.
    std::os::unix::fs::symlink("/dev/full", folder.path().join("run.samples.tmp")).expect("a link");
    let file = SampleFile::create(&path, SHARDS).expect("the device opens");
    let made = Made::with(plan("5k"), folder, file);
    let counts = &made.report.whole.counts;
    assert_eq!((made.summary.written, made.summary.lost), (0, counts.intended));
    let error = made.summary.error.clone().expect("an error");
    assert_eq!(error.kind, FileErrorKind::NoRoom);
    assert!(error.text.starts_with("writing /"), "{error:?}");
    assert!(error.text.contains("run.samples.tmp: No space left on device"), "{error:?}");
    assert_eq!(made.summary.file, None);
    assert_eq!(fs::read_dir(made.folder.path()).expect("the folder").count(), 0);
    assert_eq!(wrong(report_alone(&made.report)), [], "the report is whole");
}

#[test]
fn a_file_that_vanished_is_told_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = SampleFile::create(&path_in(&folder), SHARDS).expect("a folder of our own");
    let temporary = folder.path().join("run.samples.tmp");
    fs::remove_file(&temporary).expect("it was there");
    let made = Made::with(plan("50"), folder, file);
    assert_eq!((made.summary.written, made.summary.lost), (0, made.report.whole.counts.intended));
    let error = made.summary.error.clone().expect("an error");
    assert_eq!(error.kind, FileErrorKind::Place);
    let names =
        format!("renaming {} to {}: No such file", temporary.display(), made.path().display());
    assert!(error.text.starts_with(&names), "{error:?}");
}

#[test]
fn lost_samples_have_the_cure_of_their_cause() {
    let mut report = Made::new(plan("50")).report;
    let mut reason = |error: Option<FileErrorKind>| {
        let error = error.map(|kind| FileError { kind, text: "writing it: no".to_owned() });
        report.samples = Some(Samples { file: None, written: 0, lost: 7, error });
        let mut reasons = judge(&report).reasons;
        reasons.retain(|reason| reason.code == Code::RawSamplesLost);
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        (reasons[0].evidence.clone(), reasons[0].cure.clone())
    };
    let (evidence, cure) = reason(None);
    assert!(
        evidence.ends_with("could not keep up") && cure.contains("faster"),
        "{evidence}; {cure}"
    );
    for (kind, word) in [
        (FileErrorKind::NoRoom, "more room"),
        (FileErrorKind::Disk, "another disk"),
        (FileErrorKind::Place, "touch the file"),
    ] {
        let (evidence, cure) = reason(Some(kind));
        assert!(evidence.ends_with("7 raw samples were lost: writing it: no"), "{evidence}");
        assert!(cure.contains(word), "{cure}");
    }
}

/// A user who is nobody in particular.
const SOMEBODY: u32 = 54_321;

/// Runs as somebody, who owns the folder, where the tests are root's; else as whoever runs them. Ids and the rights that
/// come with them are a thread's own, and those of the threads that it starts.
fn as_somebody<T: Send>(folder: &Path, run: impl FnOnce() -> T + Send) -> T {
    let is_root = geteuid().is_root();
    if is_root {
        chown(folder, Some(SOMEBODY), None).expect("root may");
    }
    thread::scope(|scope| {
        let ran = scope.spawn(|| {
            if is_root {
                let uid = Uid::from_raw(SOMEBODY);
                rustix::thread::set_thread_res_uid(uid, uid, uid).expect("root may");
            }
            run()
        });
        ran.join().expect("it runs to its end")
    })
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn a_folder_that_cannot_be_read_costs_no_sample() {
    let folder = tempfile::tempdir().expect("a folder");
    set_mode(folder.path(), 0o333);
    let path = folder.path().to_owned();
    let made = as_somebody(&path, || {
        fs::read_dir(folder.path()).expect_err("the folder can't be read");
        let file = SampleFile::create(&path_in(&folder), SHARDS).expect("it can be written to");
        Made::with(plan("50"), folder, file)
    });
    set_mode(made.folder.path(), 0o755);
    let counted = made.report.whole.counts.intended;
    assert_eq!((made.summary.written, made.summary.lost), (counted, 0), "{:?}", made.summary);
    assert_eq!(made.summary.file, Some(made.path()));
    assert_eq!(wrong(with_samples(&made.report, &[&made.path()])), []);
}

#[test]
fn an_older_file_that_cannot_be_replaced_is_found_before_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let older = path_in(&folder);
    fs::write(&older, "of an earlier run").expect("written");
    let refusal = |expected: &str| {
        let error = as_somebody(folder.path(), || check_writable(&older)).expect_err("refused");
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(fs::read(&older).expect("still there"), b"of an earlier run");
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1, "nothing is left");
    };
    set_mode(&older, 0o444);
    refusal("the older file can't be written");
    if !geteuid().is_root() {
        return; // Files of other users are root's to make.
    }
    set_mode(&older, 0o666);
    as_somebody(folder.path(), || check_writable(&older)).expect("the folder is somebody's own");
    let inside = folder.path().join("sticky");
    fs::create_dir(&inside).expect("a folder");
    set_mode(&inside, 0o1777);
    for (file, kept) in [("run.samples", "run.samples"), ("other", "other.tmp")] {
        let kept = inside.join(kept);
        fs::write(&kept, "root's").expect("written");
        set_mode(&kept, 0o666);
        let file = inside.join(file);
        let error = as_somebody(folder.path(), || check_writable(&file)).expect_err("refused");
        assert!(error.to_string().contains(&kept.display().to_string()), "{error}");
        assert!(kept.exists());
        check_writable(&file).expect("root may");
    }
}

#[test]
fn what_cannot_be_written_is_refused_before_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("missing/run.samples");
    for (path, problem) in [
        (folder.path(), "is no regular file"),
        (inside.as_path(), "can't be created"),
        (Path::new("/dev/null"), "is no regular file"),
        (Path::new("/"), "is no name of a file"),
    ] {
        let error = check_writable(path).expect_err("refused");
        assert_eq!(error.flag, "--raw");
        assert!(error.to_string().contains(problem), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    check_writable(&path_in(&folder)).expect("a folder of our own");
    drop(SampleFile::create(&path_in(&folder), 1).expect("a folder of our own"));
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0, "nothing is left");
}
