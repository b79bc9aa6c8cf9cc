//! The file format of raw samples: a written file reads back, and any truncated or corrupted byte
//! is detected.

use engine::load::curve::Curve;
use engine::load::schedule::Schedule;
use engine::load::share::Share;
use engine::samples::{BLOCK_RECORDS, SAMPLE_BYTES, Sample, SampleReader};

use crate::sample_run::{SHARDS, SampledRun, fate, header, plan, refusal};

#[test]
fn a_written_file_reads_back() {
    let plan = plan("5k");
    let run = SampledRun::new(plan.clone());
    let written = run.summary.written;
    assert_eq!(run.summary.file, Some(run.path()));
    assert_eq!((run.summary.lost, run.summary.error.clone()), (0, None));
    assert_eq!(run.summary.bytes, run.bytes().len() as u64);
    assert!(!run.folder.path().join("run.samples.tmp").exists());
    assert!(2 * SHARDS * BLOCK_RECORDS < usize::try_from(written).expect("few"), "several blocks");

    let mut reader = SampleReader::open(&run.path()).expect("a header");
    assert_eq!(*reader.header(), header(&plan));
    let mut intended = Vec::new();
    for sample in &mut reader {
        let sample = sample.expect("a complete file");
        let (stamps, ended_ns, outcome) = fate(sample.intended_ns);
        assert_eq!(sample, Sample::new((sample.shard, sample.number), &stamps, ended_ns, outcome));
        intended.push(sample.intended_ns);
    }
    intended.sort_unstable();
    let due: Vec<u64> = Schedule::new(
        Curve::of_plan(&plan).expect("open"),
        plan.arrivals,
        plan.seed,
        plan.end_ns(),
        Share::equal(0, 1),
    )
    .times_ns()
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
fn a_changed_byte_is_found_anywhere_in_the_samples() {
    let run = SampledRun::new(plan("50"));
    let good = run.bytes();
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
        assert_eq!(run.wrong_with(&bytes).len(), 1, "byte {at}");
    }
}

#[test]
fn read_errors_name_the_offset_and_the_problem() {
    let good = SampledRun::new(plan("50")).bytes();
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        refusal(&bytes)
    };
    let cases = [
        (changed(0, b'X'), "at byte 0: not a file of raw samples"),
        (changed(8, 1), "at byte 0: unknown version 1: this program reads version 5"),
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
    let run = SampledRun::new(plan("50"));
    let good = run.bytes();
    let end = good.len() - (24 + SHARDS * 96 + 4);
    assert!(refusal(&good[..end]).contains("the file is incomplete"));
    for length in [0, 1, 63, 65, 84, 85, 300, end - 1, end + 1, end + 3, end + 4, good.len() - 1] {
        assert!(refusal(&good[..length]).contains("the file ends before"), "{length} bytes");
        assert_eq!(run.wrong_with(&good[..length]).len(), 1, "{length} bytes");
    }
    let longer = [&good[..], b"x"].concat();
    assert!(refusal(&longer).contains("there are bytes after the end block"));
}
