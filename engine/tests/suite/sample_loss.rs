//! Lost raw samples are counted and explained, and the report is complete without them.

use std::fs;

use engine::load::schedule::Digest;
use engine::record::config::RecorderConfig;
use engine::record::outcome::Outcome;
use engine::record::recorder::Recorder;
use engine::record::samples::{FileError, FileErrorKind, SampleFolder};
use engine::record::stamps::{Ending, Stamps};
use engine::report::Samples;
use engine::report::judge;
use engine::report::verdict::Code;
use engine::samples::{BLOCK_RECORDS, BLOCKS, Header, SampleFile, SampleReader, ShardEnd};
use engine::verify::{report_alone, with_samples};

use crate::sample_run::{SHARDS, SampledRun, fate, header, path_in, plan, wrong};

#[test]
fn lost_samples_are_counted_and_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = SampleFile::create(&path_in(&folder), 1).expect("a folder of our own");
    let mut sampler = file.lane(0).sampler();
    let mut recorder = Recorder::new(RecorderConfig::default());
    // The writer takes no blocks before the run begins: samples beyond their room are lost.
    let room = (BLOCKS * BLOCK_RECORDS) as u64;
    for intended_ns in 1_000_000_000..1_000_000_000 + room + 10 {
        let stamps = Stamps {
            intended_ns,
            noticed_ns: intended_ns,
            sent_ns: intended_ns,
            waited: false,
            step: 0,
            session: None,
        };
        let ending = Ending::at(intended_ns + 5);
        recorder.counts.intended += 1;
        recorder.sent(stamps.intended_ns, &stamps, true);
        recorder.ended((0, stamps.intended_ns), &stamps, ending, true, Outcome::Answered(200));
        sampler.push(0, &stamps, ending, Outcome::Answered(200));
    }
    let end = (sampler.finish(), ShardEnd::new(&recorder, Digest::default()));
    let header = Header { shards: 1, ..header(&plan("50")) };
    let summary = file.begin(header, &[]).expect("a thread").finish(vec![end], 1, 77);
    assert_eq!((summary.written, summary.lost, summary.error), (room, 10, None));
    let path = summary.file.expect("the file is complete");
    let mut reader = SampleReader::open(&path).expect("a header");
    assert_eq!(reader.by_ref().filter(Result::is_ok).count() as u64, room);
    assert_eq!(reader.end().expect("whole").lost(), 10);
    let report = SampledRun::new(plan("50")).report;
    let findings = wrong(with_samples(&report, &[&path]));
    assert!(findings.iter().any(|finding| finding.what == "samples: lost"));
}

#[test]
fn a_vanished_file_is_reported_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(path_in(&folder), "of an earlier run").expect("written");
    let file = SampleFile::create(&path_in(&folder), SHARDS).expect("a folder of our own");
    let temporary = file.temporary().to_owned();
    fs::remove_file(&temporary).expect("it was there");
    let run = SampledRun::with(plan("50"), folder, file, fate);
    assert_eq!((run.summary.written, run.summary.lost), (0, run.report.whole.counts.intended));
    let error = run.summary.error.clone().expect("an error");
    assert_eq!(error.kind, FileErrorKind::Place);
    assert_eq!(fs::read(run.path()).expect("still there"), b"of an earlier run");
    let names =
        format!("renaming {} to {}: No such file", temporary.display(), run.path().display());
    assert!(error.text.starts_with(&names), "{error:?}");
    assert_eq!(wrong(report_alone(&run.report)), [], "the report is complete");
}

#[test]
fn lost_samples_have_the_cure_of_their_cause() {
    let mut report = SampledRun::new(plan("50")).report;
    let mut reason = |error: Option<(FileErrorKind, SampleFolder)>| {
        let text = "writing it: no".to_owned();
        let error = error.map(|(kind, folder)| FileError { kind, text, folder });
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
    for (kind, folder, words) in [
        (FileErrorKind::NoRoom, SampleFolder::Raw, ["--raw", "more room"]),
        (FileErrorKind::Disk, SampleFolder::Raw, ["--raw", "another disk"]),
        (FileErrorKind::Place, SampleFolder::Raw, ["touch the file", "--raw"]),
        (FileErrorKind::NoRoom, SampleFolder::StateDir, ["the agent a --state-dir", "more room"]),
        (FileErrorKind::Disk, SampleFolder::StateDir, ["the agent a --state-dir", "another disk"]),
        (FileErrorKind::Place, SampleFolder::StateDir, ["touch", "the agent's --state-dir"]),
    ] {
        let (evidence, cure) = reason(Some((kind, folder)));
        assert!(evidence.ends_with("the run lost 7 raw samples: writing it: no"), "{evidence}");
        assert!(words.iter().all(|word| cure.contains(word)), "{cure}");
    }
}
