//! An agent's files: the raw samples of the current run, and what no controller collected.
//!
//! The current run's samples have one name per port, so that the next run removes what a killed
//! agent left. Two agents with the same port, in containers that share a folder, would mix theirs,
//! so a lock keeps the second out. A kept report gets a name of its own, with the time, and is
//! never touched again. Beside it lies the same as the frames that its controller would have got,
//! and their SHA-256, under the run's name, for a controller that resumes the run.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use engine::record::samples::{FileError, FileErrorKind, SampleFolder};
use engine::report::{Report, Samples};
use engine::samples::{segment_files, segment_path};
use engine::sys::whole_file::{WholeFile, WholeFileError};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::outgoing::{Outgoing, RawFile};
use crate::frame::{self, FrameReader};
use crate::json;
use crate::message::{Message, Results};
use crate::refusal::Refusal;
use crate::run_id::RunId;

/// The files of one agent.
#[derive(Clone, Debug)]
pub(super) struct Files {
    folder: PathBuf,
    port: u16,
}

/// Length of a SHA-256, bytes.
const DIGEST_BYTES: usize = 32;

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

    /// The kept results of a run.
    fn results(&self, run: RunId) -> PathBuf {
        self.folder.join(format!("agent-{}-{run}.results", self.port))
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
        write(file, |writer| json::write(report, writer))
    }

    /// Writes the results of a run, as messages.
    ///
    /// # Errors
    /// The disk's refusal.
    pub(super) fn keep_results(
        &self,
        run: RunId,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<(), NotKept> {
        write(&self.results(run), |writer| {
            let mut digest = Sha256::new();
            for message in messages {
                let (_, bytes) = frame::render(&message).map_err(io::Error::other)?;
                digest.update(&bytes);
                writer.write_all(&bytes)?;
            }
            writer.write_all(&digest.finalize())
        })
    }

    /// The kept results of a run, with its raw samples if they are here.
    ///
    /// # Errors
    /// None are here, or they can't be read.
    pub(super) fn kept_results(&self, run: RunId) -> Result<Outgoing, Refusal> {
        let file = self.results(run);
        let unreadable =
            |why: String| Refusal::Run(format!("{} can't be read ({why})", file.display()));
        let bytes = match fs::read(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(Refusal::NotKept(run)),
            read => read.map_err(|error| unreadable(error.to_string()))?,
        };
        let whole = bytes.split_last_chunk::<DIGEST_BYTES>();
        let whole = whole.filter(|(bytes, digest)| Sha256::digest(bytes)[..] == digest[..]);
        let Some((bytes, _)) = whole else {
            return Err(unreadable("it was changed or cut short".to_owned()));
        };
        let (mut messages, mut samples) = (Vec::new(), None);
        let (mut reader, mut rest) = (FrameReader::default(), bytes);
        reader.authenticate();
        let mut next = || reader.feed(&mut rest)?.map(|frame| frame.message()).transpose();
        while let Some(mut message) = next().map_err(|error| unreadable(error.to_string()))? {
            match &mut message {
                Message::Kept(kept) if kept.origin.run != run => {
                    return Err(unreadable(format!("it is of run {}", kept.origin.run)));
                }
                Message::Report(results) => samples = self.open_kept(results),
                _ => {}
            }
            messages.push(message);
        }
        Ok(Outgoing::new(messages, samples))
    }

    /// Opens kept raw samples; if they aren't all here, they are lost.
    fn open_kept(&self, results: &mut Results) -> Option<RawFile> {
        let part = results.head.samples.as_mut()?;
        // The folder may have been moved since.
        let file = self.folder.join(Path::new(part.file.as_ref()?).file_name()?);
        let problem = match RawFile::open(&file) {
            Ok(opened) if opened.length == results.samples_bytes => return Some(opened),
            Ok(RawFile { length, .. }) => {
                format!("{} has {length} bytes, not {}", file.display(), results.samples_bytes)
            }
            Err(error) => format!("opening {}: {error}", file.display()),
        };
        results.samples_bytes = 0;
        lose(part, problem);
        None
    }
}

/// Writes a whole file.
fn write(
    file: &Path,
    fill: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<(), NotKept> {
    let refused = |error| NotKept::Disk { file: file.to_owned(), error };
    let whole =
        WholeFile::create(file).map_err(|error| NotKept::Place { file: file.to_owned(), error })?;
    let mut writer = BufWriter::new(whole.file());
    fill(&mut writer).and_then(|()| writer.flush()).map_err(refused)?;
    drop(writer);
    whole.publish().map(drop).map_err(|error| refused(io::Error::other(error)))
}

/// Marks an agent's samples as lost, with the reason.
pub(super) fn lose(part: &mut Samples, text: String) {
    let (kind, folder) = (FileErrorKind::Place, SampleFolder::StateDir);
    let lost = part.written + part.lost;
    let error = Some(FileError { kind, text, folder });
    *part = Samples { file: None, written: 0, lost, error };
}
