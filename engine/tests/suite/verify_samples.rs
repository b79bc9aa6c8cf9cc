//! `verify` with raw samples: it recomputes the report's numbers from the file and finds each
//! difference.

use engine::plan::{Arrivals, Plan};
use engine::record::counts::IntervalCounts;
use engine::record::stamps::{Ending, StampedBy};
use engine::report::Report;
use engine::samples::{SAMPLE_BYTES, Sample, SampleKind};
use engine::sys::units::Nanos;
use engine::verify::{report_alone, with_samples};

use crate::sample_run::{BUSY, SHARDS, SampledRun, plan, refusal, wrong};

#[test]
fn a_true_report_passes_with_and_without_samples() {
    // The first is so long that its intervals have doubled, and the second has no warm-up.
    let long = Plan { duration: Nanos::from_secs(100), ..plan("50") };
    let constant = Plan { arrivals: Arrivals::Constant, warmup: Nanos(0), ..plan("70") };
    let mut findings = Vec::new();
    for plan in [long, constant, plan("5k")] {
        let run = SampledRun::new(plan);
        let json = serde_json::to_string(&run.report).expect("a document");
        let report: Report = serde_json::from_str(&json).expect("a report");
        assert_eq!(report.config.plan.thresholds.busy, BUSY);
        assert_eq!(wrong(report_alone(&report)), []);
        findings = with_samples(&report, &[&run.path()]);
        assert_eq!(wrong(findings.clone()), []);
    }
    for what in [
        "samples: naive.p99.9, exact",
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

/// Recomputes the checksums of the first block and of the segment's end, as a program that writes wrong samples would.
fn seal_first_block(bytes: &mut [u8]) {
    let records = u32::from_le_bytes(bytes[76..80].try_into().expect("four bytes")) as usize;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[64..80]);
    hasher.update(&bytes[84..84 + records * SAMPLE_BYTES]);
    bytes[80..84].copy_from_slice(&hasher.finalize().to_le_bytes());
    let (mut end, mut checksums) = (64, crc32fast::Hasher::new());
    while bytes[end..].starts_with(b"BLCK") {
        let records = u32::from_le_bytes(bytes[end + 12..end + 16].try_into().expect("four bytes"));
        checksums.update(&bytes[end + 16..end + 20]);
        end += 20 + records as usize * SAMPLE_BYTES;
    }
    bytes[end + 4..end + 8].copy_from_slice(&checksums.finalize().to_le_bytes());
    let last = end + 8 + 8 * SHARDS;
    let checksum = crc32fast::hash(&bytes[end..last]);
    bytes[last..last + 4].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn wrong_samples_with_correct_checksums_are_found() {
    let run = SampledRun::new(plan("50"));
    let good = run.bytes();
    let (at, record) = answered(&good);
    let put = |sample: Sample| {
        let mut bytes = good.clone();
        bytes[at..at + SAMPLE_BYTES].copy_from_slice(&sample.encode());
        seal_first_block(&mut bytes);
        bytes
    };
    let with = |change: &dyn Fn(&mut Ending)| {
        let mut ending = record.ending;
        change(&mut ending);
        Sample { ending, ..record }
    };
    let received = |by_ns: i64| {
        with(&|ending| ending.received_ns = ending.received_ns.strict_add_signed(by_ns))
    };
    let handled = |by_ns: u64| with(&|ending| ending.handled_ns += by_ns);
    let stamped_by = |stamped_by| with(&|ending| ending.stamped_by = stamped_by);
    let changes = [
        ("intended", Sample { intended_ns: record.intended_ns - 1, ..record }, "intended times"),
        ("received", received(-400_000), "naive.histogram"),
        ("received by 1 ns", received(-1), "naive.mean"),
        ("handled by 1 ns", handled(1), "receive_lateness.mean"),
        ("stamped by", stamped_by(StampedBy::Control), "stamps.kernel"),
        ("waited", Sample { waited: !record.waited, ..record }, "client_share.added_mean"),
        ("noticed", Sample { noticed_ns: record.sent_ns, ..record }, "pacer_lateness.histogram"),
        ("status", Sample { status: 201, ..record }, "counts.status.201"),
    ];
    for (what, sample, finding) in changes {
        let wrong = run.wrong_with(&put(sample));
        let want = format!("samples: {finding}");
        assert!(wrong.iter().any(|found| found.what == want), "{what}: {wrong:?}");
    }
    // Another outcome contradicts the file's own end block.
    let abandoned = Sample {
        kind: SampleKind::Abandoned,
        status: 0,
        ending: Ending::at(record.ending.handled_ns),
        ..record
    };
    assert!(refusal(&put(abandoned)).contains("shard 0 counted"));
    // A record that no request can have caused isn't a sample.
    let backwards = Sample { sent_ns: record.ending.received_ns + 1, ..record };
    assert!(refusal(&put(backwards)).starts_with(&format!("at byte {at}: stamps run backwards")));
    // Nor is one that can't belong to this run, or that its shard couldn't have produced.
    let wrong = run.wrong_with(&put(Sample { intended_ns: 0, ..record }));
    assert!(wrong[0].found.contains("was due 0 ns after the epoch"), "{wrong:?}");
    let late_ns = record.ending.handled_ns + 4_000_000_000;
    let wrong =
        run.wrong_with(&put(Sample { sent_ns: late_ns, ending: Ending::at(late_ns), ..record }));
    assert!(wrong.iter().any(|found| found.what == "samples: arrivals"), "{wrong:?}");
}

/// The first record of an answered request in the first block, and its offset.
fn answered(bytes: &[u8]) -> (usize, Sample) {
    let offsets = (84..).step_by(SAMPLE_BYTES);
    let mut samples = offsets.map(|at| {
        let record = bytes[at..at + SAMPLE_BYTES].try_into().expect("a record");
        (at, Sample::decode(0, record).expect("a sample"))
    });
    samples.find(|(_, sample)| sample.kind == SampleKind::Answered).expect("one was answered")
}

#[test]
fn counts_moved_to_another_interval_are_found() {
    let run = SampledRun::new(plan("500"));
    let moves: [fn(&mut IntervalCounts) -> &mut u64; 7] = [
        |counts| &mut counts.intended,
        |counts| &mut counts.sent,
        |counts| &mut counts.unsent,
        |counts| &mut counts.answered,
        |counts| &mut counts.errors,
        |counts| &mut counts.sends,
        |counts| &mut counts.answers,
    ];
    let only_by_samples = 5;
    for (at, count) in moves.into_iter().enumerate() {
        let mut report = run.report.clone();
        let intervals = &mut report.series.intervals;
        let from = intervals
            .iter_mut()
            .position(|interval| 0 < *count(&mut interval.counts))
            .expect("one");
        *count(&mut intervals[from].counts) -= 1;
        *count(&mut intervals[from + 1].counts) += 1;
        assert_eq!(wrong(report_alone(&report)).is_empty(), only_by_samples <= at, "{at}");
        let wrong = wrong(with_samples(&report, &[&run.path()]));
        assert_eq!(wrong[0].what, "samples: series", "{wrong:?}");
    }
    // Two intervals that change places: the plan's arrivals were due in others.
    let mut report = run.report.clone();
    let intervals = &mut report.series.intervals;
    intervals.swap(3, 4);
    for at in [3, 4] {
        intervals[at].start_s = at as f64 * report.series.interval_s;
    }
    assert_ne!(wrong(report_alone(&report)), []);
}

#[test]
fn the_samples_of_another_run_are_found() {
    let run = SampledRun::new(plan("50"));
    let other = SampledRun::new(Plan { seed: 43, ..plan("50") });
    let wrong = wrong(with_samples(&run.report, &[&other.path()]));
    for what in ["plan", "seed"] {
        assert!(wrong.iter().any(|finding| finding.what.ends_with(what)), "{what}: {wrong:?}");
    }
    let twice = run.path();
    assert_ne!(self::wrong(with_samples(&run.report, &[&twice, &twice])), []);
    assert_ne!(self::wrong(with_samples(&run.report, &[])), []);
}
