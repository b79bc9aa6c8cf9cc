//! The raw samples that agents send: one file per agent, written on a thread of its own.
//!
//! A disk may be slow, and sessions must not wait for it. The backlog is counted, and nothing more
//! is read from an agent than the disk can keep up with.

use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::{fs, io};

use engine::record::samples::{FileError, FileErrorKind, SampleFolder};
use engine::report::Samples;
use engine::sys::whole_file::{PublishError, WholeFile, WholeFileError};

use crate::message;

/// The largest backlog before reading from agents pauses, bytes.
pub(super) const BACKLOG_MAX: usize = 16 << 20;

/// Where one agent's raw samples go: a file that appears under its name when it is whole.
#[derive(Debug)]
pub struct SampleSink {
    file: WholeFile,
    path: PathBuf,
}

impl SampleSink {
    /// Creates a file of this name in a folder, and the folder if it isn't there.
    ///
    /// # Errors
    /// Why the file can't be written.
    pub fn create(folder: &Path, name: &str) -> Result<SampleSink, WholeFileError> {
        fs::create_dir_all(folder)?;
        let path = folder.join(name);
        Ok(SampleSink { file: WholeFile::create(&path)?, path })
    }

    /// Its temporary name, for removal when the program must end at once.
    pub fn temporary(&self) -> &Path {
        self.file.temporary()
    }
}

/// An agent's samples: a whole file, not yet under its name, or why there is none.
pub type Kept = Result<SampleSink, FileError>;

/// The fate of an agent's raw samples, from its own report and from what arrived here: one file
/// with the samples of both, or none and all of them are lost.
pub(super) fn settled(there: Samples, kept: Kept) -> Samples {
    let published = match (there.error, there.file) {
        (Some(error), _) => Err(error),
        (None, None) => {
            let text = "the agent wrote no file".to_owned();
            Err(FileError { kind: FileErrorKind::Place, text, folder: SampleFolder::StateDir })
        }
        (None, Some(_)) => kept.and_then(publish),
    };
    match published {
        Ok(path) => {
            let file = Some(path.display().to_string());
            Samples { file, written: there.written, lost: there.lost, error: None }
        }
        Err(error) => {
            let lost = there.written.saturating_add(there.lost);
            Samples { file: None, written: 0, lost, error: Some(error) }
        }
    }
}

/// The files of all agents, and the thread that fills them.
pub(super) struct SampleKeeper {
    parts: Sender<(usize, message::Samples)>,
    backlog: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<Option<Kept>>>,
}

/// Where one link puts its samples.
#[derive(Clone)]
pub(super) struct SampleInlet {
    parts: Sender<(usize, message::Samples)>,
    backlog: Arc<AtomicUsize>,
}

impl SampleKeeper {
    /// Starts the thread; `sinks` are those of the agents in their order.
    ///
    /// # Errors
    /// The kernel refuses a thread.
    pub(super) fn start(sinks: Vec<Option<SampleSink>>) -> io::Result<SampleKeeper> {
        let (parts, incoming) = mpsc::channel();
        let backlog = Arc::new(AtomicUsize::new(0));
        let unwritten = Arc::clone(&backlog);
        let thread = thread::Builder::new()
            .name("truetail-samples".to_owned())
            .spawn(move || fill(sinks, &incoming, &unwritten))?;
        Ok(SampleKeeper { parts, backlog, thread })
    }

    /// An inlet for parts.
    pub(super) fn inlet(&self) -> SampleInlet {
        SampleInlet { parts: self.parts.clone(), backlog: Arc::clone(&self.backlog) }
    }

    /// Waits until all is written; no inlet may be left. Returns each agent's file or error; `None`
    /// for agents without one.
    pub(super) fn finish(self) -> Vec<Option<Kept>> {
        drop(self.parts);
        self.thread.join().expect("writing samples doesn't panic")
    }
}

impl SampleInlet {
    /// True if the disk is so far behind that agents must wait.
    pub(super) fn is_full(&self) -> bool {
        BACKLOG_MAX <= self.backlog.load(Ordering::Relaxed)
    }

    /// Takes a part of an agent's samples.
    pub(super) fn put(&self, agent: usize, part: message::Samples) {
        self.backlog.fetch_add(part.bytes.as_slice().len(), Ordering::Relaxed);
        self.parts.send((agent, part)).expect("the thread ends after the last inlet");
    }
}

/// Fills the files until no inlet is left.
fn fill(
    mut sinks: Vec<Option<SampleSink>>,
    incoming: &Receiver<(usize, message::Samples)>,
    backlog: &AtomicUsize,
) -> Vec<Option<Kept>> {
    let incomplete = |sink: &SampleSink| {
        let text = format!("{}: the agent was lost before it had sent it", sink.path.display());
        Err(FileError { kind: FileErrorKind::Place, text, folder: SampleFolder::Raw })
    };
    let mut kept: Vec<Option<Kept>> =
        sinks.iter().map(|sink| sink.as_ref().map(incomplete)).collect();
    for (agent, message::Samples { offset, bytes, is_last }) in incoming {
        if let Some(sink) = &sinks[agent] {
            let mut file = sink.file.file();
            // A file of samples has a header.
            let is_none = offset == 0 && is_last && bytes.as_slice().is_empty();
            let ended = match file.write_all(bytes.as_slice()) {
                Ok(()) if is_none => Some(Err(nothing(&sink.path))),
                Ok(()) if is_last => sinks[agent].take().map(Ok),
                Ok(()) => None,
                Err(error) => Some(Err(file_error(&sink.path, error.kind(), &error))),
            };
            if let Some(ended) = ended {
                // There is no place for later parts.
                sinks[agent] = None;
                kept[agent] = Some(ended);
            }
        }
        backlog.fetch_sub(bytes.as_slice().len(), Ordering::Relaxed);
    }
    kept
}

/// The error of an agent that reports no samples.
fn nothing(path: &Path) -> FileError {
    let text = format!("{}: the agent has no file of samples", path.display());
    FileError { kind: FileErrorKind::Place, text, folder: SampleFolder::StateDir }
}

/// Gives a whole file its name.
fn publish(SampleSink { file, path }: SampleSink) -> Result<PathBuf, FileError> {
    match file.publish() {
        Ok(_) => Ok(path),
        Err(error) => {
            let (PublishError::Sync { source, .. } | PublishError::Rename { source, .. }) = &error;
            Err(file_error(&path, source.kind(), &error))
        }
    }
}

fn file_error(path: &Path, kind: ErrorKind, error: &dyn fmt::Display) -> FileError {
    let is_full =
        matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge);
    let kind = if is_full { FileErrorKind::NoRoom } else { FileErrorKind::Disk };
    let text = format!("{}: {error}", path.display());
    FileError { kind, text, folder: SampleFolder::Raw }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(offset: u64, bytes: &[u8], is_last: bool) -> message::Samples {
        message::Samples { offset, bytes: bytes.to_vec().into(), is_last }
    }

    /// An agent's report of its samples.
    fn reported(error: Option<FileError>) -> Samples {
        match error {
            None => Samples { file: Some("there".to_owned()), written: 5, lost: 2, error },
            Some(_) => Samples { file: None, written: 0, lost: 7, error },
        }
    }

    fn full(folder: SampleFolder) -> FileError {
        FileError { kind: FileErrorKind::NoRoom, text: format!("{folder:?}"), folder }
    }

    #[test]
    fn samples_are_in_their_file_or_lost() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.bin");
        let sink = || Ok(SampleSink::create(folder.path(), "a.bin").expect("a sink"));
        let lost = |error| Samples { file: None, written: 0, lost: 7, error: Some(error) };
        let (here, there) = (full(SampleFolder::Raw), full(SampleFolder::StateDir));
        for (reported, kept, expected) in [
            (reported(Some(there.clone())), sink(), lost(there.clone())),
            (reported(None), Err(here.clone()), lost(here.clone())),
            // The first error is named.
            (reported(Some(there.clone())), Err(here), lost(there)),
        ] {
            assert_eq!(settled(reported, kept), expected);
            assert!(!path.exists(), "{expected:?}");
        }
        // A missing file isn't a file without samples.
        let nothing = settled(Samples { file: None, ..reported(None) }, sink());
        assert_eq!((nothing.lost, nothing.file, path.exists()), (7, None, false));
        let all = settled(reported(None), sink());
        assert_eq!(all, Samples { file: Some(path.display().to_string()), ..reported(None) });
        assert!(path.exists());
    }

    #[test]
    fn a_file_appears_only_once_it_is_settled() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("raw");
        let sink = |name: &str| Some(SampleSink::create(&folder, name).expect("a sink"));
        let keeper = SampleKeeper::start(vec![sink("a.bin"), None, sink("c.bin"), sink("d.bin")]);
        let keeper = keeper.expect("a thread");
        let inlet = keeper.inlet();
        inlet.put(0, part(0, b"one ", false));
        inlet.put(2, part(0, b"half", false));
        inlet.put(0, part(4, b"two", true));
        inlet.put(3, part(0, b"", true));
        assert!(!inlet.is_full());
        let backlog = Arc::clone(&inlet.backlog);
        drop(inlet);
        let kept = <[_; 4]>::try_from(keeper.finish()).expect("four");
        let [Some(whole), None, Some(half), Some(nothing)] = kept else {
            panic!("all but the second have a file");
        };
        assert_eq!(backlog.load(Ordering::Relaxed), 0);
        let problem = half.as_ref().expect_err("a problem").text.clone();
        assert!(problem.ends_with("c.bin: the agent was lost before it had sent it"), "{problem}");
        let problem = nothing.as_ref().expect_err("a problem").text.clone();
        assert!(problem.ends_with("d.bin: the agent has no file of samples"), "{problem}");
        let path = folder.join("a.bin");
        assert!(!path.exists(), "the agent may still report it incomplete");
        let file = Some(path.display().to_string());
        assert_eq!(settled(reported(None), whole), Samples { file, ..reported(None) });
        assert_eq!(fs::read(path).expect("written"), b"one two");
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1, "nothing else is left");
    }

    #[test]
    fn the_backlog_is_bounded() {
        let keeper = SampleKeeper::start(vec![None]).expect("a thread");
        let inlet = keeper.inlet();
        inlet.backlog.store(BACKLOG_MAX - 1, Ordering::Relaxed);
        assert!(!inlet.is_full());
        inlet.backlog.store(BACKLOG_MAX, Ordering::Relaxed);
        assert!(inlet.is_full());
        // Samples of an agent without a file are dropped.
        inlet.put(0, part(0, &[0; 10], true));
        drop(inlet);
        assert!(matches!(keeper.finish()[..], [None]));
    }
}
