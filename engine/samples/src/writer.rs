//! The writer thread of raw samples, and the file that it writes.
//!
//! A disk error ends the writing, not the run: blocks are still taken and returned, and their
//! samples are lost.

use std::io::{self, Error, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use plan::PlanError;
use record::samples::{FileError, FileErrorKind, SampleFolder, Sampled};
use sys::placement::leave_cores;
use sys::whole_file::{PublishError, WholeFile};
use zerocopy::IntoBytes as _;

use super::frame::{BlockHead, End, Header, ShardEnd};
use super::sampler::Lane;

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

/// The file of a run that hasn't begun. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct SampleFile {
    file: WholeFile,
    lanes: Vec<Lane>,
}

impl SampleFile {
    /// Creates the file for the samples of `shards` shards, under a temporary name.
    ///
    /// # Errors
    /// It can't be created, with the flag and the cure.
    pub fn create(path: &Path, shards: usize) -> Result<SampleFile, PlanError> {
        let file = open(path)?;
        let lane = |shard| Lane::new(u16::try_from(shard).expect("a machine has fewer cores"));
        Ok(SampleFile { file, lanes: (0..shards).map(lane).collect() })
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
        let SampleFile { file, lanes } = self;
        assert_eq!(lanes.len(), header.shards as usize, "the header counts the shards");
        let mut output = Output {
            error: None,
            bytes: 0,
            written: vec![0; lanes.len()],
            lost: vec![0; lanes.len()],
            blocks: vec![0; lanes.len()],
            file,
        };
        let finishing = Arc::new(AtomicBool::new(false));
        let busy_cores = busy_cores.to_vec();
        let finish = finishing.clone();
        let thread =
            std::thread::Builder::new().name("truetail-samples".to_owned()).spawn(move || {
                leave_cores(&busy_cores);
                output.put(&header.encode());
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

/// The file being written, and the state of the samples.
struct Output {
    file: WholeFile,
    error: Option<FileError>,
    bytes: u64,
    written: Vec<u64>,
    lost: Vec<u64>,
    blocks: Vec<u32>,
}

impl Output {
    fn put(&mut self, bytes: &[u8]) {
        if self.error.is_some() {
            return;
        }
        match self.file.file().write_all(bytes) {
            Ok(()) => self.bytes += bytes.len() as u64,
            Err(error) => {
                let step = format!("writing {}", self.file.temporary().display());
                self.error = Some(disk_error(&step, &error));
            }
        }
    }

    fn put_block(&mut self, shard: usize, records: &[u8]) {
        let count = (records.len() / super::SAMPLE_BYTES) as u64;
        if count == 0 {
            return;
        }
        let number = u16::try_from(shard).expect("lanes are numbered in 16 bits");
        if self.error.is_none() {
            self.put(BlockHead::new(number, self.blocks[shard], records).as_bytes());
            self.put(records);
        }
        if self.error.is_none() {
            self.written[shard] += count;
            self.blocks[shard] += 1;
        } else {
            self.lost[shard] += count;
        }
    }
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
    /// Samples in the file.
    pub written: u64,
    /// Samples of the window that aren't in the file, for any reason.
    pub lost: u64,
    /// Length of the file, bytes.
    pub bytes: u64,
    /// The first error.
    pub error: Option<FileError>,
    /// The complete file, under its own name; `None` if there is none.
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
        let mut shards = Vec::new();
        for (shard, (sampled, end)) in ends.into_iter().enumerate() {
            let (written, dropped) = (output.written[shard], output.lost[shard]);
            assert_eq!(sampled.taken, written + dropped, "shard {shard}: taken = written + lost");
            let lost = sampled.lost + dropped;
            assert_eq!(end.counts.intended, written + lost, "shard {shard}: one sample a request");
            shards.push(ShardEnd { written, lost, ..end });
        }
        let end = End { until_ns, epoch_ns, shards };
        output.put(&end.encode());
        let published = match output.error {
            Some(error) => Err(error),
            None => output.file.publish().map_err(|error| publish_error(&error)),
        };
        match published {
            Ok(file) => SamplesSummary {
                written: end.written(),
                lost: end.lost(),
                bytes: output.bytes,
                error: None,
                file: Some(file),
            },
            // The written part is removed with its file.
            Err(error) => SamplesSummary {
                lost: end.written() + end.lost(),
                error: Some(error),
                ..SamplesSummary::default()
            },
        }
    }
}
