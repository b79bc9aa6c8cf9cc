//! No two shards write to one cache line, and none to a line that all of them read: what a run
//! allocates for 64 shards is compared before and after each of them has used it.
//!
//! What a shard allocates itself is its own. What was allocated for it by the thread that starts
//! the run may lie beside another shard's, and a write to it would take the line from that shard.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use engine::record::outcome::Outcome;
use engine::record::stamps::{Ending, Stamps};
use engine::samples::{BLOCK_RECORDS, BLOCKS, Lane, SampleFile};
use engine::shard::CoarseHistogram;
use engine::shard::progress::{ShardProgress, SharedProgress};
use engine::sys::control::{ByShards, Signals};

/// A pair of lines that is prefetched together, bytes.
const PAIR: usize = 128;
const SHARDS: usize = 64;

thread_local! {
    static NOTES: Cell<bool> = const { Cell::new(false) };
}

/// No allocation.
const NONE: Range<usize> = 0..0;
/// Where the allocations are that were noted.
static NOTED: Mutex<[Range<usize>; 4_096]> = Mutex::new([NONE; 4_096]);

/// Notes an allocation, if this thread's are noted.
pub fn allocated(address: *mut u8, size: usize) {
    if NOTES.get() {
        let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
        let free = noted.iter_mut().find(|range| **range == NONE).expect("few allocations");
        *free = address.addr()..address.addr() + size;
    }
}

/// Forgets an allocation, if this thread's are noted.
pub fn freed(address: *mut u8) {
    if NOTES.get() {
        let mut noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner);
        let of = noted.iter_mut().find(|range| range.start == address.addr());
        of.into_iter().for_each(|range| *range = NONE);
    }
}

/// What a run allocates, as `run/run.rs` does, before its shards begin.
struct Shared {
    signals: Arc<Signals>,
    progress: Vec<Arc<SharedProgress>>,
    file: SampleFile,
}

/// The pairs of lines in which the contents of these addresses differ from the earlier ones, and
/// the contents now.
fn changed(
    noted: &[Range<usize>],
    earlier: &mut BTreeMap<usize, Vec<u8>>,
    memory: &File,
) -> BTreeSet<usize> {
    let mut pairs = BTreeSet::new();
    for range in noted {
        let mut now = vec![0; range.len()];
        memory.read_exact_at(&mut now, range.start as u64).expect("it is this process's memory");
        let before = earlier.insert(range.start, now.clone()).unwrap_or_else(|| now.clone());
        let differ =
            (range.start..).zip(before.iter().zip(&now)).filter(|(_, (one, it))| one != it);
        pairs.extend(differ.map(|(address, _)| address / PAIR));
    }
    pairs
}

/// Writes all that a shard writes to what it shares, and counts its references to it.
fn use_all(shard: usize, shared: &Shared) -> (Arc<SharedProgress>, Arc<Signals>, Lane) {
    let Shared { signals, progress, file } = shared;
    let mut all = CoarseHistogram::default();
    let buckets = 0..all.counts().len();
    buckets.for_each(|bucket| all.record(CoarseHistogram::from_ns(bucket)));
    let mut summary = ShardProgress { intended: 1, answered: 1, errors: 1, ..Default::default() };
    (summary.in_flight, summary.counts) = (1, [1; 11]);
    summary.latency = all.clone();
    let lateness = &mut summary.lateness;
    (lateness.pacer, lateness.send_path, lateness.receive) = (all.clone(), all.clone(), all);
    let time = &mut summary.time;
    (time.at_ns, time.cpu_ns, time.polling_ns, time.stopped_ns) = (1_000_000_000, 1, 1, 1);
    progress[shard].show(&summary);

    let mut sampler = file.lane(shard).sampler();
    let stamps = Stamps::default();
    for number in 0..(BLOCKS * BLOCK_RECORDS) as u64 {
        sampler.push(number, &stamps, Ending::at(1), Outcome::Answered(200));
    }
    assert_eq!(sampler.finish().lost, 0, "each slot of its queues was used");

    let ByShards { ready, settled, unsettled, end_ns, ended } = &signals.by_shards;
    ready.fetch_add(1, Ordering::AcqRel);
    let settles = if shard == 0 { settled } else { unsettled };
    settles.store(true, Ordering::Relaxed);
    end_ns.fetch_max(1 + shard as u64, Ordering::Relaxed);
    ended.fetch_add(1, Ordering::Relaxed);
    (Arc::clone(&progress[shard]), Arc::clone(signals), file.lane(shard))
}

#[test]
fn no_two_shards_write_to_one_line_and_none_to_a_line_that_all_read() {
    let _process = crate::process();
    let folder = tempfile::tempdir().expect("a folder");
    NOTES.set(true);
    let shared = Shared {
        signals: Arc::new(Signals::default()),
        progress: (0..SHARDS).map(|_| Arc::new(SharedProgress::default())).collect(),
        file: SampleFile::create(&folder.path().join("raw"), SHARDS).expect("a file"),
    };
    NOTES.set(false);
    let noted = NOTED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let noted: Vec<Range<usize>> = noted.into_iter().filter(|range| *range != NONE).collect();
    let memory = File::open("/proc/self/mem").expect("procfs");
    let mut contents = BTreeMap::new();
    changed(&noted, &mut contents, &memory);

    let begin = |of: &Signals| std::ptr::from_ref(of).addr();
    let (signals, by_shards) = (begin(&shared.signals), &raw const shared.signals.by_shards);
    let read: BTreeSet<usize> = (signals..by_shards.addr()).map(|address| address / PAIR).collect();
    let told: BTreeSet<usize> = (by_shards.addr()..by_shards.addr() + size_of::<ByShards>())
        .map(|address| address / PAIR)
        .collect();
    // The number of references to the signals lies before them.
    let counted = (signals - 1) / PAIR;

    let mut owners: BTreeMap<usize, usize> = BTreeMap::new();
    let mut kept = Vec::new();
    for shard in 0..SHARDS {
        let used = thread::scope(|scope| scope.spawn(|| use_all(shard, &shared)).join());
        kept.push(used.expect("it uses them"));
        let written = changed(&noted, &mut contents, &memory);
        assert!(written.is_disjoint(&read), "shard {shard} writes beside what all read");
        assert!(told.is_subset(&written) && written.contains(&counted), "writes are seen");
        // Each shard writes there when it is set up and when it has ended, but not in between.
        for pair in written.iter().filter(|pair| !told.contains(pair) && **pair != counted) {
            let owner = *owners.entry(*pair).or_insert(shard);
            assert_eq!(owner, shard, "both write to the lines at {:#x}", pair * PAIR);
        }
    }
    // Its progress has 7 KiB, and each of its two queues 32 slots.
    let progress = size_of::<SharedProgress>() / PAIR;
    let least = SHARDS * (progress - 1 + 2 * BLOCKS);
    assert!(least <= owners.len(), "only {} of {least} pairs of lines were seen", owners.len());
}
