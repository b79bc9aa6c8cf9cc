//! The raw samples that agents send: one file per agent, written on a thread of its own.
//!
//! A disk may be slow, and sessions must not wait for it. So a part is asked for only if there is
//! room for it among those that were asked for and aren't written yet.

use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::{fs, io};

use engine::record::samples::{FileError, FileErrorKind, SampleFolder};
use engine::report::Samples;
use engine::sys::whole_file::{PublishError, WholeFile, WholeFileError};

use crate::bytes::Bytes;
use crate::message::PART_BYTES;

/// The most that may have been asked of all agents and isn't written yet, bytes.
pub(super) const BACKLOG_MAX: usize = 16 << 20;

const _: () = assert!(PART_BYTES <= BACKLOG_MAX);

/// The next bytes of a file of samples; none at all if the agent has no file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) bytes: Bytes,
    /// True if the file ends with them.
    pub(super) is_last: bool,
}

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
pub type Stored = Result<SampleSink, FileError>;

/// The fate of an agent's raw samples, from its own report and from what arrived here: one file
/// with the samples of both, or none and all of them are lost.
pub(super) fn settled(there: Samples, stored: Stored) -> Samples {
    let published = match (&there.error, there.file) {
        (Some(error), None) => Err(error.clone()),
        (None, None) => {
            let text = "the agent wrote no file".to_owned();
            Err(FileError { kind: FileErrorKind::Place, text, folder: SampleFolder::StateDir })
        }
        // After an error, the segments before it are there.
        (_, Some(_)) => stored.and_then(publish),
    };
    match published {
        Ok(path) => {
            let file = Some(path.display().to_string());
            Samples { file, written: there.written, lost: there.lost, error: there.error }
        }
        Err(error) => {
            let lost = there.written.saturating_add(there.lost);
            Samples { file: None, written: 0, lost, error: Some(error) }
        }
    }
}

/// The files of all agents, and the thread that fills them.
pub(super) struct SampleWriter {
    chunks: Sender<(usize, Chunk)>,
    state: Arc<State>,
    thread: JoinHandle<Vec<Option<Stored>>>,
}

/// What the thread and the links know of each other.
struct State {
    /// Bytes that were asked for and aren't written yet.
    backlog: AtomicUsize,
    /// The agents whose file takes no more.
    closed: Vec<AtomicBool>,
}

/// Where one link puts its samples.
#[derive(Clone)]
pub(super) struct SampleInlet {
    chunks: Sender<(usize, Chunk)>,
    state: Arc<State>,
}

/// Whether there is room for a part of an agent's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is, and it is taken.
    Taken,
    /// There will be once the disk has caught up.
    Later,
    /// There won't be any: the agent's file has failed.
    Never,
}

impl SampleWriter {
    /// Starts the thread; `sinks` are those of the agents in their order.
    ///
    /// # Errors
    /// The kernel refuses a thread.
    pub(super) fn start(sinks: Vec<Option<SampleSink>>) -> io::Result<SampleWriter> {
        let (chunks, incoming) = mpsc::channel();
        let closed = sinks.iter().map(|sink| AtomicBool::new(sink.is_none())).collect();
        let state = Arc::new(State { backlog: AtomicUsize::new(0), closed });
        let known = Arc::clone(&state);
        let thread = thread::Builder::new()
            .name("truetail-samples".to_owned())
            .spawn(move || fill(sinks, &incoming, &known))?;
        Ok(SampleWriter { chunks, state, thread })
    }

    /// An inlet for chunks.
    pub(super) fn inlet(&self) -> SampleInlet {
        SampleInlet { chunks: self.chunks.clone(), state: Arc::clone(&self.state) }
    }

    /// Waits until all is written; no inlet may be left. Returns each agent's file or error; `None`
    /// for agents without one.
    pub(super) fn finish(self) -> Vec<Option<Stored>> {
        drop(self.chunks);
        self.thread.join().expect("writing samples doesn't panic")
    }
}

impl SampleInlet {
    /// Takes room for this many bytes of an agent's samples, if there is any. Only one thread takes
    /// room, that of the links.
    pub(super) fn room(&self, agent: usize, bytes: usize) -> Room {
        let backlog = &self.state.backlog;
        if self.state.closed[agent].load(Ordering::Relaxed) {
            return Room::Never;
        }
        if BACKLOG_MAX < backlog.load(Ordering::Relaxed) + bytes {
            return Room::Later;
        }
        backlog.fetch_add(bytes, Ordering::Relaxed);
        Room::Taken
    }

    /// Gives back room for bytes that won't come.
    pub(super) fn give_back(&self, bytes: usize) {
        self.state.backlog.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes the next bytes of an agent's samples, for which there is room.
    pub(super) fn put(&self, agent: usize, chunk: Chunk) {
        self.chunks.send((agent, chunk)).expect("the thread ends after the last inlet");
    }
}

/// Fills the files until no inlet is left.
fn fill(
    mut sinks: Vec<Option<SampleSink>>,
    incoming: &Receiver<(usize, Chunk)>,
    state: &State,
) -> Vec<Option<Stored>> {
    let incomplete = |sink: &SampleSink| {
        let text = format!("{}: the agent was lost before it had sent it", sink.path.display());
        Err(FileError { kind: FileErrorKind::Place, text, folder: SampleFolder::Raw })
    };
    let mut stored: Vec<Option<Stored>> =
        sinks.iter().map(|sink| sink.as_ref().map(incomplete)).collect();
    for (agent, Chunk { bytes, is_last }) in incoming {
        if let Some(sink) = &sinks[agent] {
            let mut file = sink.file.file();
            let ended = match file.write_all(bytes.as_slice()) {
                // A file of samples has a header.
                Ok(()) if bytes.as_slice().is_empty() => Some(Err(nothing(&sink.path))),
                Ok(()) if is_last => sinks[agent].take().map(Ok),
                Ok(()) => None,
                Err(error) => Some(Err(file_error(&sink.path, error.kind(), &error))),
            };
            if let Some(ended) = ended {
                // There is no place for more.
                sinks[agent] = None;
                state.closed[agent].store(true, Ordering::Relaxed);
                stored[agent] = Some(ended);
            }
        }
        state.backlog.fetch_sub(bytes.as_slice().len(), Ordering::Relaxed);
    }
    stored
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

    impl SampleInlet {
        /// Puts these bytes, for which there must be room.
        fn take(&self, agent: usize, bytes: &[u8], is_last: bool) {
            assert_eq!(self.room(agent, bytes.len()), Room::Taken);
            self.put(agent, Chunk { bytes: bytes.to_vec().into(), is_last });
        }
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
        for (reported, stored, expected) in [
            (reported(Some(there.clone())), sink(), lost(there.clone())),
            (reported(None), Err(here.clone()), lost(here.clone())),
            // The first error is named.
            (reported(Some(there.clone())), Err(here), lost(there)),
        ] {
            assert_eq!(settled(reported, stored), expected);
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
        let writer = SampleWriter::start(vec![sink("a.bin"), None, sink("c.bin"), sink("d.bin")]);
        let writer = writer.expect("a thread");
        let inlet = writer.inlet();
        inlet.take(0, b"one ", false);
        inlet.take(2, b"half", false);
        inlet.take(0, b"two", true);
        inlet.take(3, b"", true);
        let state = Arc::clone(&inlet.state);
        drop(inlet);
        let stored = <[_; 4]>::try_from(writer.finish()).expect("four");
        let [Some(whole), None, Some(half), Some(nothing)] = stored else {
            panic!("all but the second have a file");
        };
        assert_eq!(state.backlog.load(Ordering::Relaxed), 0);
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
    fn of_a_disk_that_is_behind_no_more_is_asked_than_fits_and_of_a_failed_file_nothing() {
        let root = tempfile::tempdir().expect("a folder");
        let sink = SampleSink::create(root.path(), "a.bin").expect("a sink");
        // The thread is the disk: it takes nothing before it runs.
        let (chunks, incoming) = mpsc::channel();
        let closed = [false, true].map(AtomicBool::new).into();
        let state = Arc::new(State { backlog: AtomicUsize::new(0), closed });
        let inlet = SampleInlet { chunks, state: Arc::clone(&state) };
        let fits = BACKLOG_MAX / PART_BYTES;
        for number in 0..fits {
            let byte = u8::try_from(number).expect("a few parts");
            inlet.take(0, &vec![byte; PART_BYTES], number + 1 == fits);
        }
        assert_eq!(inlet.room(0, PART_BYTES), Room::Later);
        assert_eq!(inlet.room(1, PART_BYTES), Room::Never, "there is no file");
        // What a lost agent won't send makes room.
        let rest = BACKLOG_MAX - fits * PART_BYTES;
        assert_eq!(inlet.room(0, rest), Room::Taken);
        inlet.give_back(rest);
        let again = inlet.clone();
        drop(inlet);
        let (done, is_done) = mpsc::channel();
        let disk = thread::spawn(move || {
            let stored = fill(vec![Some(sink), None], &incoming, &state);
            done.send(()).expect("the test waits");
            stored
        });
        while again.room(0, PART_BYTES) == Room::Later {
            thread::yield_now();
        }
        // The file is whole, and takes no more.
        while again.room(0, 0) != Room::Never {
            thread::yield_now();
        }
        drop(again);
        is_done.recv().expect("it ends");
        let stored = <[_; 2]>::try_from(disk.join().expect("it ends")).expect("two");
        let [Some(Ok(sink)), None] = stored else { panic!("the first is whole") };
        let written = fs::read(sink.temporary()).expect("written");
        assert_eq!(written.len(), fits * PART_BYTES);
        let in_order = written.chunks(PART_BYTES).zip(0_u8..);
        assert!(in_order.into_iter().all(|(part, byte)| part.iter().all(|found| *found == byte)));
    }
}
