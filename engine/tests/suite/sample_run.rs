//! Made-up runs with raw samples: the recorders and the sample file get the same requests.

use std::fs;
use std::path::PathBuf;

use engine::load::schedule::mix;
use engine::plan::Plan;
use engine::plan::scenario::{Scenario, Step};
use engine::plan::thresholds::Thresholds;
use engine::record::outcome::{Cause, Outcome, TimeoutKind, UnsentReason};
use engine::record::stamps::{Ending, StampedBy, Stamps};
use engine::report::{Report, Samples};
use engine::samples::{Header, SampleFile, SampleReader, SamplesSummary, ShardEnd, plan_digest};
use engine::sys::units::{CoreList, Nanos};
use engine::verify::{Finding, with_samples};
use tempfile::TempDir;

use crate::made_up::{self, Fate};

/// Shards of each made-up run.
pub const SHARDS: usize = 2;

/// A threshold whose last digit an imprecise JSON reader loses.
pub const BUSY: f64 = 0.9499999999999991;

/// The plan of a run of 5 s at this rate.
pub fn plan(rate: &str) -> Plan {
    plan_of(rate, Vec::new())
}

/// The same over two routes; the first is taken twice as often.
pub fn routes(rate: &str) -> Plan {
    plan_of(rate, scenarios())
}

/// Two routes; the first is taken twice as often.
pub fn scenarios() -> Vec<Scenario> {
    let scenario = |(path, weight): (&str, u32)| Scenario {
        name: path.to_owned(),
        weight,
        step: vec![Step { url: Some(path.to_owned()), ..Step::default() }],
        ..Scenario::default()
    };
    [("/a", 2), ("/b", 1)].map(scenario).into()
}

fn plan_of(rate: &str, scenario: Vec<Scenario>) -> Plan {
    Plan {
        scenario,
        target: "http://127.0.0.1:1/".to_owned(),
        rate: Some(rate.parse().expect("a rate")),
        duration: Nanos::from_secs(5),
        warmup: Nanos::from_secs(1),
        seed: 42,
        cores: Some(CoreList::new(vec![0, 1])),
        raw: Some("run.samples".into()),
        slo: Some("p99<20ms,mean<7ms,max<1m,errors<3%".parse().expect("objectives")),
        thresholds: Thresholds { busy: BUSY, ..Thresholds::default() },
        ..Plan::default()
    }
    .complete(&[0, 1])
    .expect("a plan that runs")
}

/// A request's fate, from its intended time: every outcome occurs, and one time in a thousand is
/// beyond the histograms' range. The kernel stamped all but one in 64 responses. A shard sends in
/// the order intended, one batch every 100 µs.
pub fn fate(intended_ns: u64) -> Fate {
    let random = mix(intended_ns);
    let noticed_ns = intended_ns + random % 3_000;
    let sent_ns = (intended_ns + 3_000).next_multiple_of(100_000);
    let ended_ns = sent_ns + 500_000 + (random >> 24) % 9_000_000;
    let waited = random.is_multiple_of(8);
    let stamps = Stamps { intended_ns, noticed_ns, sent_ns, waited, step: 0, session: None };
    let given_up = Ending::at(ended_ns);
    let outcome = match (random >> 32) % 1_000 {
        0..5 => Outcome::TimedOut(TimeoutKind::Timeout),
        5..10 => Outcome::Failed(Cause::Reset),
        10..15 => Outcome::Failed(made_up::broken_chunk()),
        15..20 => Outcome::Abandoned,
        // It got no connection: it failed when it would have been sent.
        40..45 => return (stamps, Ending::at(sent_ns), Outcome::Failed(Cause::ConnectRefused)),
        20..25 => Outcome::Unsent(UnsentReason::End),
        25 => {
            let ending = Ending::at(ended_ns + 70_000_000_000);
            return (stamps, ending, Outcome::TimedOut(TimeoutKind::Timeout));
        }
        26..40 => Outcome::Answered(503),
        45..50 => Outcome::Unsent(UnsentReason::Dropped),
        _ => Outcome::Answered(200),
    };
    let stamps = match outcome {
        Outcome::Unsent(_) => Stamps::unsent(intended_ns, noticed_ns, 0),
        _ => stamps,
    };
    let ending = match outcome {
        Outcome::Answered(_) if !(random >> 16).is_multiple_of(64) => Ending {
            received_ns: ended_ns,
            handled_ns: ended_ns + (random >> 8) % 200_000,
            stamped_by: StampedBy::Kernel,
        },
        _ => given_up,
    };
    (stamps, ending, outcome)
}

/// A run and its sample file.
pub struct SampledRun {
    /// The folder of the file.
    pub folder: TempDir,
    /// The run's report.
    pub report: Report,
    /// The outcome of the samples.
    pub summary: SamplesSummary,
}

impl SampledRun {
    /// The run of this plan, with its file in a folder of its own.
    pub fn new(plan: Plan) -> SampledRun {
        SampledRun::of(plan, fate)
    }

    /// The same for requests with this fate.
    pub fn of(plan: Plan, fate: impl Fn(u64) -> Fate) -> SampledRun {
        let folder = tempfile::tempdir().expect("a folder");
        let file = SampleFile::create(&path_in(&folder), SHARDS).expect("a folder of our own");
        SampledRun::with(plan, folder, file, fate)
    }

    /// A run of this plan, with this file and requests of this fate.
    pub fn with(
        plan: Plan,
        folder: TempDir,
        file: SampleFile,
        fate: impl Fn(u64) -> Fate,
    ) -> SampledRun {
        let mut recorded = Vec::new();
        let mut ends = Vec::new();
        for shard in 0..SHARDS {
            let mut sampler = file.lane(shard).sampler();
            let push = |stamps: &Stamps, ending, outcome| sampler.push(0, stamps, ending, outcome);
            let (mut recorder, digest) = made_up::record(&plan, (shard, SHARDS), &fate, push);
            recorder.series.in_flight(plan.duration.0 - 1, 3);
            ends.push((sampler.finish(), ShardEnd::new(&recorder, digest)));
            recorded.push((recorder, digest));
        }
        let writer = file.begin(header(&plan), &[1]).expect("a thread");
        let summary = writer.finish(ends, plan.end_ns(), 77);
        let samples = Samples {
            file: summary.file.as_ref().map(|file| file.display().to_string()),
            written: summary.written,
            lost: summary.lost,
            error: summary.error.clone(),
        };
        let report = made_up::report(&plan, recorded, Some(samples));
        SampledRun { folder, report, summary }
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        path_in(&self.folder)
    }

    /// The contents of the file.
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).expect("the file is there")
    }

    /// The failed findings, with these bytes as the file.
    pub fn wrong_with(&self, bytes: &[u8]) -> Vec<Finding> {
        let path = self.folder.path().join("changed");
        fs::write(&path, bytes).expect("written");
        wrong(with_samples(&self.report, &[&path]))
    }
}

/// The path of a run's file in its folder.
pub fn path_in(folder: &TempDir) -> PathBuf {
    folder.path().join("run.samples")
}

/// The header of the file written by a run of this plan.
pub fn header(plan: &Plan) -> Header {
    Header {
        shards: u32::try_from(SHARDS).expect("few"),
        plan_digest: plan_digest(plan),
        seed: plan.seed,
        window_start_ns: plan.warmup.0,
        window_end_ns: plan.end_ns(),
    }
}

/// The failed findings.
pub fn wrong(findings: Vec<Finding>) -> Vec<Finding> {
    findings.into_iter().filter(|finding| !finding.ok).collect()
}

/// A reader's error for bytes that aren't a complete file.
pub fn refusal(bytes: &[u8]) -> String {
    match SampleReader::new(bytes) {
        Err(error) => error.to_string(),
        Ok(mut reader) => {
            let error = reader.find_map(Result::err).expect("an error").to_string();
            assert!(reader.end().is_none(), "an incomplete file has no end");
            assert!(reader.next().is_none(), "nothing follows an error");
            error
        }
    }
}
