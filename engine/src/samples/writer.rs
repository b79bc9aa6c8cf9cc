//! The writer thread of raw samples, and the file's atomic publication: `FILE.tmp`, sync, rename.
//!
//! A disk error ends the writing, not the run: blocks are still taken and given back, and their
//! samples are lost.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use tempfile::TempPath;
use zerocopy::IntoBytes as _;

use super::frame::{BlockHead, End, Header, ShardEnd};
use super::sampler::{Lane, Sampled};
use crate::plan::PlanError;
use crate::sys::placement::leave_cores;

/// How long the writer sleeps when no block was full: even at the highest rate the shards' blocks
/// last a hundred times longer.
const PAUSE: Duration = Duration::from_millis(5);

/// `FILE.tmp`: removed when dropped, unless it was renamed to `FILE` before.
#[derive(Debug)]
struct Temporary {
    file: File,
    path: TempPath,
    name: PathBuf,
}

impl Temporary {
    fn create(name: &Path) -> Result<Temporary, PlanError> {
        let refuse = |problem: String| {
            PlanError::new("--raw", name.display(), problem, "name a file in a writable folder")
        };
        if name.file_name().is_none() {
            return Err(refuse("isn't the name of a file".to_owned()));
        }
        if name.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err(refuse("exists and isn't a regular file".to_owned()));
        }
        // A link stays a link: the file behind it is the one to replace.
        let name = std::fs::canonicalize(name).unwrap_or(name.to_owned());
        // An older file is replaced at the end. Opening it for appending changes nothing and shows
        // whether it may be written.
        match OpenOptions::new().append(true).open(&name) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(refuse(format!("the existing file can't be written: {error}")));
            }
            _ => {}
        }
        let mut path = name.as_os_str().to_owned();
        path.push(".tmp");
        let path = PathBuf::from(path);
        let created =
            File::create(&path).and_then(|file| Ok((file, TempPath::try_from_path(&path)?)));
        let (file, path) = created
            .map_err(|error| refuse(format!("{} can't be created: {error}", path.display())))?;
        let temporary = Temporary { file, path, name };
        for file in [&*temporary.path, &*temporary.name] {
            if !may_be_removed(file) {
                let file = file.display();
                return Err(refuse(format!("{file} belongs to another user, in a sticky folder")));
            }
        }
        Ok(temporary)
    }

    /// Makes the bytes durable, then gives the file its name.
    fn publish(self) -> Result<PathBuf, FileError> {
        let Temporary { file, path, name } = self;
        let temporary = path.display().to_string();
        file.sync_all()
            .map_err(|error| FileError::of_disk(&format!("syncing {temporary}"), &error))?;
        path.persist(&name).map_err(|failed| {
            let step = format!("renaming {temporary} to {}", name.display());
            FileError::of_place(&step, &failed.error)
        })?;
        // The file stands whole under its name. That the name outlasts a power cut is asked for
        // where the folder can be read, which writing to it doesn't need; a refusal costs no
        // sample.
        let _ = File::open(folder_of(&name)).and_then(|folder| folder.sync_all());
        Ok(name)
    }
}

/// Why samples could not be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileError {
    /// What failed.
    pub kind: FileErrorKind,
    /// The step that failed, with its file, and why.
    pub text: String,
}

/// What was wrong when samples could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileErrorKind {
    /// The disk or the user's quota of it was full, or the file as large as it may be.
    NoRoom,
    /// The disk failed.
    Disk,
    /// The file or its folder was changed, moved or removed by another program during the run.
    Place,
}

impl FileError {
    /// An error while writing bytes.
    fn of_disk(step: &str, error: &Error) -> FileError {
        let kind = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                FileErrorKind::NoRoom
            }
            _ => FileErrorKind::Disk,
        };
        FileError { kind, text: format!("{step}: {error}") }
    }

    /// An error while creating, renaming or removing.
    fn of_place(step: &str, error: &Error) -> FileError {
        FileError { kind: FileErrorKind::Place, text: format!("{step}: {error}") }
    }
}

/// Whether a file, where there is one, can be removed from its folder, to which this process may
/// write. From a sticky one, such as /tmp, only the owner of the file or of the folder removes it.
fn may_be_removed(file: &Path) -> bool {
    let (Ok(folder), Ok(file)) = (folder_of(file).metadata(), file.metadata()) else { return true };
    let own = geteuid();
    let owners = [file.uid(), folder.uid()];
    folder.mode() & libc::S_ISVTX == 0 || own.is_root() || owners.contains(&own.as_raw())
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Checks before a run that samples can be written to `path`, leaving nothing behind.
///
/// # Errors
/// Why not, with the flag and the cure.
pub fn check_writable(path: &Path) -> Result<(), PlanError> {
    Temporary::create(path).map(drop)
}

/// The file of a run that has not begun. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct SampleFile {
    file: Temporary,
    lanes: Vec<Lane>,
}

impl SampleFile {
    /// Creates `FILE.tmp` for the samples of `shards` shards.
    ///
    /// # Errors
    /// Why it can't be created, with the flag and the cure.
    pub fn create(path: &Path, shards: usize) -> Result<SampleFile, PlanError> {
        let file = Temporary::create(path)?;
        let lane = |shard| Lane::new(u16::try_from(shard).expect("a machine has fewer cores"));
        Ok(SampleFile { file, lanes: (0..shards).map(lane).collect() })
    }

    /// The way from one shard to the file; [`Lane::sampler`] makes its shard's end of it.
    pub fn lane(&self, shard: usize) -> Lane {
        self.lanes[shard].clone()
    }

    /// Starts the thread that writes, on cores other than `busy_cores` where there are any. An
    /// older file of the same name is removed: from here on the name means this run's samples, or
    /// none.
    pub fn begin(self, header: Header, busy_cores: &[usize]) -> SampleWriter {
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
        if let Err(error) = std::fs::remove_file(&output.file.name)
            && error.kind() != ErrorKind::NotFound
        {
            let step = format!("removing the older {}", output.file.name.display());
            output.error = Some(FileError::of_place(&step, &error));
        }
        let finishing = Arc::new(AtomicBool::new(false));
        let busy_cores = busy_cores.to_vec();
        let finish = finishing.clone();
        let thread = std::thread::Builder::new()
            .name("truetail-samples".to_owned())
            .spawn(move || {
                leave_cores(&busy_cores);
                output.put(&header.encode());
                write_all(&mut output, &lanes, &finish);
                output
            })
            .expect("a process with shards may have one more thread");
        SampleWriter { thread, finishing }
    }
}

/// Writes blocks until told to finish and nothing is left.
fn write_all(output: &mut Output, lanes: &[Lane], finishing: &AtomicBool) {
    loop {
        // Read before the lanes: what was handed over before the word was given is then seen.
        let last = finishing.load(Ordering::Acquire);
        let mut idle = true;
        for (shard, lane) in lanes.iter().enumerate() {
            while let Some(block) = lane.take_full() {
                idle = false;
                output.put_block(shard, block.as_flattened());
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

/// The file being written, and what became of the samples.
struct Output {
    file: Temporary,
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
        match self.file.file.write_all(bytes) {
            Ok(()) => self.bytes += bytes.len() as u64,
            Err(error) => {
                let step = format!("writing {}", self.file.path.display());
                self.error = Some(FileError::of_disk(&step, &error));
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

/// How the samples of a run ended up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplesSummary {
    /// Samples in the file.
    pub written: u64,
    /// Samples of the window that are not in the file, for whatever reason.
    pub lost: u64,
    /// Length of the file, bytes.
    pub bytes: u64,
    /// The first error.
    pub error: Option<FileError>,
    /// The whole file, under its own name; `None` when there is none.
    pub file: Option<PathBuf>,
}

impl SampleWriter {
    /// Writes what is left and the end block, and gives the file its name. To be called when every
    /// shard has finished its sampler; `ends` are the shards in order, `until_ns` is the end of the
    /// window as it was, `epoch_ns` the epoch of the run on CLOCK_MONOTONIC.
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
            None => output.file.publish(),
        };
        match published {
            Ok(file) => SamplesSummary {
                written: end.written(),
                lost: end.lost(),
                bytes: output.bytes,
                error: None,
                file: Some(file),
            },
            // What was written is removed with its file.
            Err(error) => SamplesSummary {
                lost: end.written() + end.lost(),
                error: Some(error),
                ..SamplesSummary::default()
            },
        }
    }
}
