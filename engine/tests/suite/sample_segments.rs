//! Raw samples in segments: pooled they are the run's, each is checked alone, and what is damaged or
//! missing is named.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use engine::record::outcome::Outcome;
use engine::record::samples::FileErrorKind;
use engine::record::stamps::{Ending, Stamps};
use engine::samples::{
    BLOCK_RECORDS, Header, Sample, SampleFile, SampleReader, segment_files, segment_path,
};
use engine::verify::{Finding, report_alone, with_samples};
use tempfile::TempDir;

use crate::sample_run::{SHARDS, SampledRun, fate, header, path_in, plan, wrong};

/// Room for two full blocks.
const SEGMENT_BYTES: u64 = 400_000;

/// A run whose samples are several segments.
fn run_in(folder: TempDir) -> SampledRun {
    let file = SampleFile::create(&path_in(&folder), SHARDS).expect("a folder of our own");
    SampledRun::with(plan("5k"), folder, file.in_segments_of(SEGMENT_BYTES), fate)
}

fn run() -> SampledRun {
    run_in(tempfile::tempdir().expect("a folder"))
}

fn read(path: &Path) -> Vec<Sample> {
    let reader = SampleReader::open(path).expect("a header");
    reader.map(|sample| sample.expect("whole")).collect()
}

/// The failed checks of a run, and those of its segments.
fn checked(run: &SampledRun) -> (Vec<Finding>, Vec<Finding>) {
    let findings = with_samples(&run.report, &[&run.path()]);
    let of_segments = findings.iter().filter(|finding| finding.what.contains(": segment "));
    (wrong(findings.clone()), of_segments.cloned().collect())
}

#[test]
fn segments_are_bounded_and_pool_to_the_run() {
    let run = run();
    let files = segment_files(&run.path());
    assert!(3 < files.len(), "{files:?}");
    let lengths = files.iter().map(|file| fs::metadata(file).expect("there").len());
    let lengths: Vec<u64> = lengths.collect();
    assert!(lengths.iter().all(|length| *length <= SEGMENT_BYTES), "{lengths:?}");
    assert_eq!(lengths.iter().sum::<u64>(), run.summary.bytes);
    assert_eq!(run.summary.file, Some(run.path()));
    assert_eq!(wrong(report_alone(&run.report)), []);
    assert_eq!(checked(&run), (vec![], vec![]));
    let all = read(&run.path());
    assert_eq!(all.len() as u64, run.summary.written);
    let first = SampleReader::open(&run.path()).expect("a header");
    for (segment, file) in (1..).zip(&files) {
        assert_eq!(first.check_segment(file, segment), Ok(()), "{segment}");
    }
    // One file with all of them reads the same.
    let bytes: Vec<u8> = files.iter().flat_map(|file| fs::read(file).expect("there")).collect();
    assert_eq!(run.wrong_with(&bytes), []);
    let longer = [&bytes[..], b"x"].concat();
    assert_eq!(run.wrong_with(&longer).len(), 1);
}

#[test]
fn what_is_missing_or_damaged_is_named_and_the_rest_is_readable() {
    /// Changes the second of the segments.
    type Change = fn(&[PathBuf]);
    let changes: [(Change, &str); 5] = [
        (|files| fs::remove_file(&files[1]).expect("there"), "it is missing"),
        (|files| change(&files[1], 5_000), "the checksum of the block"),
        (|files| cut(&files[1], 150_000), "the file ends before"),
        (
            |files| {
                fs::copy(&files[2], &files[1]).expect("there");
            },
            "segment 3 is in its place",
        ),
        (
            |files| {
                let other = run();
                fs::copy(segment_path(&other.path(), 2), &files[1]).expect("there");
            },
            "it is of another run",
        ),
    ];
    for (change, problem) in changes {
        let run = run();
        let files = segment_files(&run.path());
        let all = read(&run.path());
        let third = read(&files[2]);
        assert_eq!(third, all[all.len() - third.len()..], "it goes on to the end");
        change(&files);
        let (wrong, of_segments) = checked(&run);
        let found = wrong[0].found.clone();
        assert!(found.starts_with("segment 2, at byte ") && found.contains(problem), "{found}");
        // The run, and the one segment.
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[1].what.ends_with(": segment 2"), "{wrong:?}");
        assert_eq!(of_segments.len(), files.len());
        assert_eq!(read(&files[2]), third, "what remains is readable");
    }
    // Without the last, the run isn't whole.
    let run = run();
    let files = segment_files(&run.path());
    fs::remove_file(files.last().expect("several")).expect("there");
    assert!(checked(&run).0[0].found.contains("it is missing"));
}

fn change(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("there");
    bytes[at] ^= 0x10;
    fs::write(path, bytes).expect("written");
}

fn cut(path: &Path, length: usize) {
    let bytes = fs::read(path).expect("there");
    fs::write(path, &bytes[..length]).expect("written");
}

#[test]
fn a_crash_costs_the_last_segment_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = path_in(&folder);
    let file = SampleFile::create(&path, 1).expect("a folder of our own");
    // Room for one block.
    let file = file.in_segments_of(SEGMENT_BYTES / 2);
    let mut sampler = file.lane(0).sampler();
    let writer = file.begin(Header { shards: 1, ..header(&plan("50")) }, &[]).expect("a thread");
    for due_ns in 0..3 * BLOCK_RECORDS as u64 + 1 {
        let stamps = Stamps {
            intended_ns: due_ns,
            noticed_ns: due_ns,
            sent_ns: due_ns,
            waited: false,
            step: 0,
            session: None,
        };
        sampler.push(due_ns, &stamps, Ending::at(due_ns + 5), Outcome::Answered(200));
    }
    // The third block begins the third segment, and the run goes on.
    for _ in 0..2_000 {
        if 2 <= segment_files(&path).len() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(segment_files(&path).len(), 2);
    writer.cancel();
    let reader = SampleReader::open(&path).expect("a header");
    let (whole, rest): (Vec<_>, Vec<_>) = reader.partition(Result::is_ok);
    assert_eq!(whole.len(), 2 * BLOCK_RECORDS);
    let [Err(error)] = &rest[..] else { panic!("{rest:?}") };
    assert!(error.to_string().starts_with("segment 3, at byte 0: it is missing: "), "{error}");
}

#[test]
fn an_error_keeps_the_segments_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let third = segment_path(&path_in(&folder), 3);
    fs::create_dir(&third).expect("made");
    let run = run_in(folder);
    let error = run.summary.error.clone().expect("an error");
    assert_eq!(error.kind, FileErrorKind::Place);
    assert!(error.text.ends_with("run.samples.0003: is a folder"), "{error:?}");
    let counted = run.report.whole.counts.intended;
    assert_eq!(run.summary.written + run.summary.lost, counted);
    assert_eq!(run.summary.file, Some(run.path()));
    assert_eq!(wrong(report_alone(&run.report)), [], "the report is complete");
    let whole = SampleReader::open(&run.path()).expect("a header").filter(Result::is_ok);
    assert_eq!(whole.count() as u64, run.summary.written);
    assert!(2 * BLOCK_RECORDS as u64 <= run.summary.written);
}

#[test]
fn a_new_run_removes_the_later_segments_of_an_older_one() {
    let SampledRun { folder, .. } = run();
    let path = path_in(&folder);
    let older = segment_files(&path).len();
    // The user's own file, which is no segment.
    let own = segment_path(&path, u32::try_from(older).expect("few") + 1);
    fs::write(&own, "own").expect("written");
    let file = SampleFile::create(&path, SHARDS).expect("a folder of our own");
    let run = SampledRun::with(plan("5k"), folder, file, fate);
    assert_eq!(segment_files(&path), [path]);
    assert_eq!(fs::read(own).expect("there"), b"own");
    assert_eq!(checked(&run), (vec![], vec![]));
}

#[test]
fn a_file_of_the_version_without_segments_is_readable() {
    let run = SampledRun::new(plan("5k"));
    let mut bytes = run.bytes();
    bytes[8] = 4;
    bytes[48..60].fill(0);
    let checksum = crc32fast::hash(&bytes[..60]);
    bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
    let end = bytes.len() - (24 + SHARDS * 96 + 4);
    bytes.drain(end - (8 + 8 * SHARDS + 4)..end);
    assert_eq!(run.wrong_with(&bytes), []);
    // The version with segments needs its end.
    let mut bytes = run.bytes();
    bytes.drain(end - (8 + 8 * SHARDS + 4)..end);
    assert_eq!(run.wrong_with(&bytes).len(), 1);
}
