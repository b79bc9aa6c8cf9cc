//! The writer thread of raw samples, and the segments that it writes.
//!
//! A full segment gets its name while the run goes on. The disk may take seconds to sync it, so a
//! thread of its own waits for that, while the writer fills the next one.
//!
//! A disk error ends the writing, not the run: blocks are still taken and returned, and their
//! samples are lost. Segments that were complete before stay.

use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Error, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use plan::PlanError;
use record::samples::{FileError, FileErrorKind, SampleFolder, Sampled};
use sys::placement::leave_cores;
use sys::whole_file::{PublishError, WholeFile, WholeFileError};
use zerocopy::IntoBytes as _;

use super::frame::{BLOCK_HEAD_BYTES, BlockHead, End, Header, Place, SegmentEnd, ShardEnd};
use super::reader::SampleReader;
use super::sampler::Lane;
use super::segments::{SEGMENT_BYTES_MAX, segment_files, segment_path};

/// How long the writer sleeps when no block was full: even at the highest rate the shards' blocks
/// last a hundred times longer.
const PAUSE: Duration = Duration::from_millis(5);

/// An error while writing bytes.
fn disk_error(step: &str, error: &Error) -> FileError {
    let kind = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            FileErrorKind::NoRoom
        }
        _ => FileErrorKind::Disk,
    };
    FileError { kind, text: format!("{step}: {error}"), folder: SampleFolder::Raw }
}

/// An error while the file is given its name.
fn publish_error(error: &PublishError) -> FileError {
    match error {
        PublishError::Sync { temporary, source } => {
            disk_error(&format!("syncing {temporary}"), source)
        }
        PublishError::Rename { .. } => FileError {
            kind: FileErrorKind::Place,
            text: error.to_string(),
            folder: SampleFolder::Raw,
        },
    }
}

/// Opens the file for the samples of a run, under its temporary name.
fn open(path: &Path) -> Result<WholeFile, PlanError> {
    WholeFile::create(path).map_err(|error| {
        let cure = "name a file in a writable folder";
        PlanError::new("--raw", path.display(), error.to_string(), cure)
    })
}

/// Checks before a run that samples can be written to `path`, leaving nothing behind.
///
/// # Errors
/// The path isn't writable, with the flag and the cure.
pub fn check_writable(path: &Path) -> Result<(), PlanError> {
    open(path).map(drop)
}

/// The first file of a run that hasn't begun. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct SampleFile {
    path: PathBuf,
    file: WholeFile,
    lanes: Vec<Lane>,
    segment_bytes_max: u64,
}

impl SampleFile {
    /// Creates the file for the samples of `shards` shards, under a temporary name.
    ///
    /// # Errors
    /// It can't be created, with the flag and the cure.
    pub fn create(path: &Path, shards: usize) -> Result<SampleFile, PlanError> {
        let file = open(path)?;
        let lane = |shard| Lane::new(u16::try_from(shard).expect("a machine has fewer cores"));
        let (path, lanes) = (path.to_owned(), (0..shards).map(lane).collect());
        Ok(SampleFile { path, file, lanes, segment_bytes_max: SEGMENT_BYTES_MAX })
    }

    /// The same with segments of at most this many bytes, so that a test crosses many.
    #[must_use]
    pub fn in_segments_of(self, segment_bytes_max: u64) -> SampleFile {
        SampleFile { segment_bytes_max, ..self }
    }

    /// The file's name until it is complete, for removing it if the program ends without dropping
    /// it.
    pub fn temporary(&self) -> &Path {
        self.file.temporary()
    }

    /// The lane from one shard to the file; [`Lane::sampler`] creates its shard's end.
    pub fn lane(&self, shard: usize) -> Lane {
        self.lanes[shard].clone()
    }

    /// Starts the writer thread, on cores other than `busy_cores` if there are any. An older file
    /// of the same name stays until the new one is complete.
    ///
    /// # Errors
    /// The kernel's refusal of the thread; nothing is left behind.
    pub fn begin(self, header: Header, busy_cores: &[usize]) -> io::Result<SampleWriter> {
        let SampleFile { path, file, lanes, segment_bytes_max } = self;
        assert_eq!(lanes.len(), header.shards as usize, "the header counts the shards");
        let mut output = Output {
            path,
            segment_bytes_max,
            header,
            // The standard library has no other random numbers.
            run: RandomState::new().build_hasher().finish(),
            segment: None,
            syncing: None,
            file: None,
            error: None,
            segments: 0,
            bytes: 0,
            written: vec![0; lanes.len()],
            lost: vec![0; lanes.len()],
        };
        let finishing = Arc::new(AtomicBool::new(false));
        let busy_cores = busy_cores.to_vec();
        let finish = finishing.clone();
        let thread =
            std::thread::Builder::new().name("truetail-samples".to_owned()).spawn(move || {
                leave_cores(&busy_cores);
                output.begin(file);
                write_all(&mut output, &lanes, &finish);
                output
            })?;
        Ok(SampleWriter { thread, finishing })
    }
}

/// Writes blocks until asked to finish and nothing is left.
fn write_all(output: &mut Output, lanes: &[Lane], finishing: &AtomicBool) {
    loop {
        // Read before the lanes, so that everything handed over before the request is seen.
        let last = finishing.load(Ordering::Acquire);
        let mut idle = true;
        for (shard, lane) in lanes.iter().enumerate() {
            while let Some(block) = lane.take_full() {
                idle = false;
                output.put_block(shard, block.bytes());
                lane.give_back(block);
            }
        }
        if last {
            return;
        }
        if idle {
            std::thread::sleep(PAUSE);
        }
    }
}

/// A segment that is being written.
struct Segment {
    file: WholeFile,
    bytes: u64,
    blocks: Vec<u32>,
    records: Vec<u64>,
    blocks_checksum: crc32fast::Hasher,
}

/// A segment that is whole, and waits for the disk: its records and length come with its name.
type Syncing = JoinHandle<(Result<PathBuf, PublishError>, Vec<u64>, u64)>;

/// The segments, and the state of the samples.
struct Output {
    path: PathBuf,
    segment_bytes_max: u64,
    header: Header,
    run: u64,
    segment: Option<Segment>,
    syncing: Option<Syncing>,
    /// The file of the first segment, once it has its name.
    file: Option<PathBuf>,
    error: Option<FileError>,
    /// The segments that have their names, their length, and their records of each shard.
    segments: u32,
    bytes: u64,
    written: Vec<u64>,
    lost: Vec<u64>,
}

impl Output {
    /// The number of the segment that is being written.
    fn number(&self) -> u32 {
        self.segments + u32::from(self.syncing.is_some()) + 1
    }

    /// Begins the next segment, in this file.
    fn begin(&mut self, file: WholeFile) {
        let place = Place { run: self.run, segment: self.number() };
        let shards = self.written.len();
        self.segment = Some(Segment {
            file,
            bytes: 0,
            blocks: vec![0; shards],
            records: vec![0; shards],
            blocks_checksum: crc32fast::Hasher::new(),
        });
        self.put(&self.header.encode(place));
    }

    /// Begins the next segment, in a file of its own.
    fn begin_next(&mut self) {
        let path = segment_path(&self.path, self.number());
        match WholeFile::create(&path) {
            Ok(file) => self.begin(file),
            Err(WholeFileError::Unwritable(error)) => {
                self.fail(disk_error(&format!("creating {}", path.display()), &error));
            }
            Err(error) => self.fail(FileError {
                kind: FileErrorKind::Place,
                text: format!("creating {}: {error}", path.display()),
                folder: SampleFolder::Raw,
            }),
        }
    }

    /// Removes the segment that is being written; its samples are lost.
    fn fail(&mut self, error: FileError) {
        if let Some(segment) = self.segment.take() {
            add(&mut self.lost, &segment.records);
        }
        self.error.get_or_insert(error);
    }

    fn put(&mut self, bytes: &[u8]) {
        let Some(segment) = &mut self.segment else { return };
        match segment.file.file().write_all(bytes) {
            Ok(()) => segment.bytes += bytes.len() as u64,
            Err(error) => {
                let step = format!("writing {}", segment.file.temporary().display());
                self.fail(disk_error(&step, &error));
            }
        }
    }

    fn put_block(&mut self, shard: usize, records: &[u8]) {
        let count = (records.len() / super::SAMPLE_BYTES) as u64;
        if count == 0 {
            return;
        }
        let ends = SegmentEnd::length(self.written.len()) + End::length(self.header.shards);
        let length = (BLOCK_HEAD_BYTES + records.len() + ends) as u64;
        let written = self.segment.as_ref().map_or(0, |segment| segment.bytes);
        if self.segment_bytes_max < written + length {
            self.next_segment();
        }
        if let Some(segment) = &mut self.segment {
            let number = u16::try_from(shard).expect("lanes are numbered in 16 bits");
            let head = BlockHead::new(number, segment.blocks[shard], records);
            segment.blocks_checksum.update(&head.checksum.get().to_le_bytes());
            self.put(head.as_bytes());
            self.put(records);
        }
        match &mut self.segment {
            Some(segment) => {
                segment.records[shard] += count;
                segment.blocks[shard] += 1;
            }
            None => self.lost[shard] += count,
        }
    }

    /// Ends the segment, and begins the next one while the disk syncs it.
    fn next_segment(&mut self) {
        self.put_end(false);
        // Only one is synced at a time: a disk that is slower than the samples loses some.
        self.settle();
        let Some(Segment { file, records, bytes, .. }) = self.segment.take() else { return };
        let of_it = records.clone();
        let thread = std::thread::Builder::new().name("truetail-sync".to_owned());
        match thread.spawn(move || (file.publish(), records, bytes)) {
            Ok(syncing) => self.syncing = Some(syncing),
            Err(error) => {
                add(&mut self.lost, &of_it);
                return self.fail(disk_error("starting a thread that syncs a segment", &error));
            }
        }
        self.begin_next();
    }

    /// Writes the end of the segment.
    fn put_end(&mut self, is_last: bool) {
        let Some(segment) = &self.segment else { return };
        let end = SegmentEnd {
            is_last,
            blocks_checksum: segment.blocks_checksum.clone().finalize(),
            records: segment.records.clone(),
        };
        self.put(&end.encode());
    }

    /// Waits until the disk has the segment before this one. If it hasn't, this one would be of no
    /// use.
    fn settle(&mut self) {
        let Some(syncing) = self.syncing.take() else { return };
        let (published, records, bytes) = syncing.join().expect("syncing doesn't panic");
        self.named(published, &records, bytes);
    }

    /// Counts a segment that got its name, or didn't.
    fn named(&mut self, name: Result<PathBuf, PublishError>, records: &[u64], bytes: u64) {
        match name {
            Ok(path) => {
                self.file.get_or_insert(path);
                self.segments += 1;
                self.bytes += bytes;
                add(&mut self.written, records);
            }
            Err(error) => {
                add(&mut self.lost, records);
                self.fail(publish_error(&error));
            }
        }
    }

    /// Ends the last segment with these ends of the shards, which then have what was written and
    /// lost. After an error, a segment without records ends the ones that are complete.
    fn finish(&mut self, ends: Vec<(Sampled, ShardEnd)>, until_ns: u64, epoch_ns: u64) -> End {
        self.settle();
        if self.segment.is_none() && 0 < self.segments {
            self.begin_next();
        }
        let records = self.segment.as_ref().map(|segment| segment.records.clone());
        let records = records.unwrap_or(vec![0; self.written.len()]);
        let mut shards = Vec::new();
        for (shard, (sampled, end)) in ends.into_iter().enumerate() {
            let (written, dropped) = (self.written[shard] + records[shard], self.lost[shard]);
            assert_eq!(sampled.taken, written + dropped, "shard {shard}: taken = written + lost");
            let lost = sampled.lost + dropped;
            assert_eq!(end.counts.intended, written + lost, "shard {shard}: one sample a request");
            shards.push(ShardEnd { written, lost, ..end });
        }
        let mut end = End { until_ns, epoch_ns, shards };
        self.put_end(true);
        self.put(&end.encode());
        if let Some(Segment { file, records, bytes, .. }) = self.segment.take() {
            self.named(file.publish(), &records, bytes);
        }
        for (shard, end) in end.shards.iter_mut().enumerate() {
            end.lost += end.written - self.written[shard];
            end.written = self.written[shard];
        }
        end
    }

    /// Removes the later segments of an older run of the same name, whose first one is gone.
    fn remove_older(&self) {
        for path in segment_files(&self.path).iter().skip(self.segments as usize) {
            if SampleReader::open(path).is_ok_and(|older| older.segment() != 1) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn add(sums: &mut [u64], numbers: &[u64]) {
    sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
}

/// The thread that writes the samples of a run.
#[derive(Debug)]
pub struct SampleWriter {
    thread: JoinHandle<Output>,
    finishing: Arc<AtomicBool>,
}

/// The outcome of a run's samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplesSummary {
    /// Samples in the files.
    pub written: u64,
    /// Samples of the window that aren't in them, for any reason.
    pub lost: u64,
    /// Length of all segments, bytes.
    pub bytes: u64,
    /// The first error.
    pub error: Option<FileError>,
    /// The file of the first segment, under its own name; `None` if there is none.
    pub file: Option<PathBuf>,
}

impl SampleWriter {
    /// Ends the thread of a run that couldn't start. Its file leaves nothing behind.
    pub fn cancel(self) {
        self.finishing.store(true, Ordering::Release);
        drop(self.thread.join().expect("the writer doesn't panic"));
    }

    /// Writes the remaining blocks and the end block, and gives the file its name. Call it when
    /// every shard has finished its sampler; `ends` has the shards in order, `until_ns` is the
    /// actual end of the window, `epoch_ns` the epoch of the run on CLOCK_MONOTONIC.
    pub fn finish(
        self,
        ends: Vec<(Sampled, ShardEnd)>,
        until_ns: u64,
        epoch_ns: u64,
    ) -> SamplesSummary {
        self.finishing.store(true, Ordering::Release);
        let mut output = self.thread.join().expect("the writer doesn't panic");
        let end = output.finish(ends, until_ns, epoch_ns);
        if output.file.is_some() {
            output.remove_older();
        }
        SamplesSummary {
            written: end.written(),
            lost: end.lost(),
            bytes: output.bytes,
            error: output.error,
            file: output.file,
        }
    }
}
