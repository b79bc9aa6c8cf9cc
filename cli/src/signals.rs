//! SIGINT and SIGTERM: the first asks the program to end, the second ends it at once.
//!
//! A thread of its own hears them, not a handler, because leaving at once has something to do: files that are not whole go.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::failure::{EXIT_INTERRUPTED, Failure};

/// Whether the program was asked to end.
#[derive(Clone, Debug)]
pub(crate) struct StopRequest {
    asked: Arc<AtomicBool>,
    /// Files under temporary names, which nobody needs when the program leaves at once.
    unfinished: Arc<Mutex<Vec<PathBuf>>>,
}

impl StopRequest {
    /// From now on the two signals are heard.
    ///
    /// # Errors
    /// The kernel refused a handler or a thread.
    pub(crate) fn listen() -> Result<StopRequest, Failure> {
        let refuse = |error: io::Error| {
            Failure::CouldNotRun(format!("no handler for signals could be set ({error})"))
        };
        let request = StopRequest { asked: Arc::default(), unfinished: Arc::default() };
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(refuse)?;
        let hearing = request.clone();
        thread::Builder::new()
            .name("truetail-signals".to_owned())
            .spawn(move || {
                for _ in signals.forever() {
                    hearing.heard();
                }
            })
            .map_err(refuse)?;
        Ok(request)
    }

    fn heard(&self) {
        if !self.asked.swap(true, Ordering::Relaxed) {
            return;
        }
        let unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        for file in &*unfinished {
            // It may have its final name already, or may never have been made.
            let _ = fs::remove_file(file);
        }
        // With the lock held and nothing run at exit: what is under way must not make another file.
        low_level::exit(i32::from(EXIT_INTERRUPTED));
    }

    /// A file under a temporary name, to be removed when the program leaves at once.
    pub(crate) fn covers(&self, temporary: PathBuf) {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner).push(temporary);
    }

    /// Whether one of the signals has come.
    pub(crate) fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Waits until one of them comes.
    pub(crate) fn wait(&self) {
        while !self.asked() {
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// How long after a signal a waiting program notices it, at most.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);
