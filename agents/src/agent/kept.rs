//! An agent's files: the raw samples of the current run, and reports that no controller collected.
//!
//! The current run's samples have one name per port, so that the next run removes what a killed
//! agent left. Two agents with the same port, in containers that share a folder, would mix theirs,
//! so a lock keeps the second out. A kept report gets a name of its own, with the time, and is
//! never touched again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::iter;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use engine::report::Report;
use engine::samples::{segment_files, segment_path};
use engine::sys::whole_file::{WholeFile, WholeFileError};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::json;

/// The files of one agent.
#[derive(Clone, Debug)]
pub(super) struct Files {
    folder: PathBuf,
    port: u16,
}

/// Why a report isn't on disk.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotKept {
    /// Its file can't be created.
    #[error("{}: {error}", file.display())]
    Place { file: PathBuf, error: WholeFileError },
    /// The disk refused it.
    #[error("{}: {error}", file.display())]
    Disk { file: PathBuf, error: io::Error },
}

impl Files {
    pub(super) fn new(folder: &Path, port: u16) -> Files {
        Files { folder: folder.to_owned(), port }
    }

    /// Keeps other agents from these files until the lock is dropped.
    ///
    /// # Errors
    /// Another agent has it, or the disk's refusal.
    pub(super) fn lock(&self) -> io::Result<File> {
        let file = self.folder.join(format!("agent-{}.lock", self.port));
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(file)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(Errno::WOULDBLOCK) => {
                Err(io::Error::other(format!("another agent of port {} keeps its own", self.port)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The raw samples of the current run.
    pub(super) fn samples(&self) -> PathBuf {
        self.folder.join(format!("agent-{}.samples", self.port))
    }

    /// Removes the raw samples of a run that was collected.
    pub(super) fn forget(&self) {
        for segment in segment_files(&self.samples()) {
            let _ = fs::remove_file(segment);
        }
    }

    /// Names for a kept report and its samples.
    pub(super) fn names(&self) -> (PathBuf, PathBuf) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Milliseconds: two runs of an agent never end in the same one.
        let stem = format!("agent-{}-{}", self.port, since.as_millis());
        (self.folder.join(format!("{stem}.json")), self.folder.join(format!("{stem}.samples")))
    }

    /// Gives the raw samples of the current run a lasting name. The first segment is the last to be
    /// renamed: with its name, all are there.
    ///
    /// # Errors
    /// The disk's refusal.
    pub(super) fn keep_samples(&self, file: &Path) -> io::Result<()> {
        for (at, segment) in segment_files(&self.samples()).iter().enumerate().rev() {
            let number = u32::try_from(at + 1).expect("segments are few");
            fs::rename(segment, segment_path(file, number))?;
        }
        Ok(())
    }

    /// Writes a report.
    ///
    /// # Errors
    /// The disk's refusal.
    pub(super) fn keep(file: &Path, report: &Report) -> Result<(), NotKept> {
        let refused = |error| NotKept::Disk { file: file.to_owned(), error };
        let whole = WholeFile::create(file)
            .map_err(|error| NotKept::Place { file: file.to_owned(), error })?;
        let mut writer = BufWriter::new(whole.file());
        json::write(report, &mut writer).and_then(|()| writer.flush()).map_err(refused)?;
        drop(writer);
        whole.publish().map(drop).map_err(|error| refused(io::Error::other(error)))
    }

    /// Opens the segments of the current run's raw samples; with them their length together, bytes.
    ///
    /// # Errors
    /// The disk's refusal, or there are none.
    pub(super) fn open_samples(&self) -> io::Result<(Vec<File>, u64)> {
        let first = File::open(self.samples())?;
        let later = segment_files(&self.samples()).into_iter().skip(1).map(File::open);
        let segments: Vec<File> = iter::once(Ok(first)).chain(later).collect::<io::Result<_>>()?;
        let lengths = segments.iter().map(|segment| Ok(segment.metadata()?.len()));
        let length = lengths.sum::<io::Result<u64>>()?;
        Ok((segments, length))
    }
}
