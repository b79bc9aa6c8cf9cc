//! The raw samples that agents send: one file an agent, written on a thread of its own.
//!
//! A disk may take its time, and sessions must not wait for it. What isn't written yet is counted,
//! so that no more is taken from an agent than the disk keeps up with.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::{fs, io};

use engine::sys::whole_file::{WholeFile, WholeFileError};

use crate::message::Samples;

/// What may be unwritten before no more is taken from agents, bytes.
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

    /// Its temporary name, to remove it by when the program ends at once.
    pub fn temporary(&self) -> &Path {
        self.file.temporary()
    }
}

/// What became of an agent's file: its path, or why there is none.
pub type Kept = Result<PathBuf, String>;

/// A file that is being written.
struct Filling {
    sink: SampleSink,
    written: u64,
}

impl Filling {
    /// Appends a part; true if the file is whole.
    fn append(&mut self, part: &Samples) -> Result<bool, String> {
        let told = |error: io::Error| format!("{}: {error}", self.sink.path.display());
        if part.offset != self.written {
            let expected = self.written;
            return Err(format!("samples at byte {} came where {expected} was due", part.offset));
        }
        let bytes = part.bytes.as_slice();
        self.sink.file.file().write_all(bytes).map_err(told)?;
        self.written += bytes.len() as u64;
        Ok(part.is_last)
    }
}

/// The files of all agents, and the thread that fills them.
pub(super) struct SampleKeeper {
    parts: Sender<(usize, Samples)>,
    backlog: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<Option<Kept>>>,
}

/// Where one link puts the samples that come.
#[derive(Clone)]
pub(super) struct SampleInlet {
    parts: Sender<(usize, Samples)>,
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

    /// Where parts are put.
    pub(super) fn inlet(&self) -> SampleInlet {
        SampleInlet { parts: self.parts.clone(), backlog: Arc::clone(&self.backlog) }
    }

    /// Waits until all is written; no inlet may be left. What became of each agent's file; `None`
    /// of agents without one.
    pub(super) fn finish(self) -> Vec<Option<Kept>> {
        drop(self.parts);
        self.thread.join().expect("writing samples doesn't panic")
    }
}

impl SampleInlet {
    /// Whether the disk is so far behind that agents have to wait.
    pub(super) fn is_full(&self) -> bool {
        BACKLOG_MAX <= self.backlog.load(Ordering::Relaxed)
    }

    /// Takes a part of an agent's samples.
    pub(super) fn put(&self, agent: usize, part: Samples) {
        self.backlog.fetch_add(part.bytes.as_slice().len(), Ordering::Relaxed);
        self.parts.send((agent, part)).expect("the thread ends after the last inlet");
    }
}

/// Fills the files until no inlet is left.
fn fill(
    sinks: Vec<Option<SampleSink>>,
    incoming: &Receiver<(usize, Samples)>,
    backlog: &AtomicUsize,
) -> Vec<Option<Kept>> {
    let begin = |sink: SampleSink| Filling { sink, written: 0 };
    let mut filling: Vec<Option<Filling>> = sinks.into_iter().map(|sink| sink.map(begin)).collect();
    let incomplete = || Err("the agent was lost before it had sent them all".to_owned());
    let mut kept: Vec<Option<Kept>> =
        filling.iter().map(|file| file.is_some().then(incomplete)).collect();
    for (agent, part) in incoming {
        if let Some(file) = &mut filling[agent] {
            let ended = match file.append(&part) {
                Ok(false) => None,
                Ok(true) => filling[agent].take().map(publish),
                Err(error) => Some(Err(error)),
            };
            if let Some(ended) = ended {
                // What still comes of it has no place.
                filling[agent] = None;
                kept[agent] = Some(ended);
            }
        }
        backlog.fetch_sub(part.bytes.as_slice().len(), Ordering::Relaxed);
    }
    kept
}

/// Gives a whole file its name.
fn publish(file: Filling) -> Kept {
    let path = file.sink.path;
    file.sink.file.publish().map_err(|error| error.to_string())?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(offset: u64, bytes: &[u8], is_last: bool) -> Samples {
        Samples { offset, bytes: bytes.to_vec().into(), is_last }
    }

    #[test]
    fn a_file_appears_when_it_is_whole_and_another_never() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("raw");
        let sink = |name: &str| Some(SampleSink::create(&folder, name).expect("a sink"));
        let keeper = SampleKeeper::start(vec![sink("a.bin"), None, sink("c.bin"), sink("d.bin")]);
        let keeper = keeper.expect("a thread");
        let inlet = keeper.inlet();
        inlet.put(0, part(0, b"one ", false));
        inlet.put(2, part(0, b"half", false));
        inlet.put(3, part(1, b"gap", true));
        inlet.put(3, part(0, b"late", true));
        inlet.put(0, part(4, b"two", true));
        assert!(!inlet.is_full());
        let backlog = Arc::clone(&inlet.backlog);
        drop(inlet);
        let kept = keeper.finish();
        assert_eq!(backlog.load(Ordering::Relaxed), 0);
        assert_eq!(kept[0], Some(Ok(folder.join("a.bin"))));
        assert_eq!(fs::read(folder.join("a.bin")).expect("written"), b"one two");
        assert_eq!(kept[1], None);
        let problem = |number: usize| kept[number].clone().expect("a file").expect_err("a problem");
        assert_eq!(problem(2), "the agent was lost before it had sent them all");
        assert_eq!(problem(3), "samples at byte 1 came where 0 was due");
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1, "nothing else is left");
    }

    #[test]
    fn what_is_unwritten_is_bounded() {
        let keeper = SampleKeeper::start(vec![None]).expect("a thread");
        let inlet = keeper.inlet();
        inlet.backlog.store(BACKLOG_MAX - 1, Ordering::Relaxed);
        assert!(!inlet.is_full());
        inlet.backlog.store(BACKLOG_MAX, Ordering::Relaxed);
        assert!(inlet.is_full());
        // Samples of an agent without a file have no place.
        inlet.put(0, part(0, &[0; 10], true));
        drop(inlet);
        assert_eq!(keeper.finish(), [None]);
    }
}
