//! SIGINT and SIGTERM: the first asks the program to finish, the second ends it at once.
//!
//! A thread waits for them instead of a handler, because ending at once still has work to do:
//! it removes unfinished files.

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
use tempfile::NamedTempFile;

use crate::failure::{EXIT_INTERRUPTED, Failure};

/// Whether the user asked the program to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopRequest {
    asked: Arc<AtomicBool>,
    /// Files under temporary names, removed when the program ends at once.
    unfinished: Arc<Mutex<Vec<PathBuf>>>,
}

impl StopRequest {
    /// Starts listening for both signals.
    ///
    /// # Errors
    /// The kernel refused a handler or a thread.
    pub(crate) fn listen() -> Result<StopRequest, Failure> {
        let refuse = |error: io::Error| {
            Failure::CouldNotRun(format!("can't handle SIGINT and SIGTERM ({error})"))
        };
        let request = StopRequest::default();
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(refuse)?;
        let listener = request.clone();
        thread::Builder::new()
            .name("truetail-signals".to_owned())
            .spawn(move || {
                for _ in signals.forever() {
                    listener.received();
                }
            })
            .map_err(refuse)?;
        Ok(request)
    }

    fn received(&self) {
        if !self.asked.swap(true, Ordering::Relaxed) {
            return;
        }
        let unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        for file in &*unfinished {
            // It may have its final name already, or may never have been created.
            let _ = fs::remove_file(file);
        }
        // Still under the lock, and without exit handlers: nothing may create another file now.
        low_level::exit(i32::from(EXIT_INTERRUPTED));
    }

    /// Registers a temporary file that is yet to be created, to be removed when the program ends
    /// at once.
    pub(crate) fn covers(&self, temporary: PathBuf) {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner).push(temporary);
    }

    /// Creates a temporary file and registers it in one step: a signal that ends the program
    /// comes either before the file exists or when it is known.
    ///
    /// # Errors
    /// Those of `create`.
    pub(crate) fn covering(
        &self,
        create: impl FnOnce() -> io::Result<NamedTempFile>,
    ) -> io::Result<NamedTempFile> {
        let mut unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        let file = create()?;
        unfinished.push(file.path().to_owned());
        Ok(file)
    }

    /// Whether a signal has come.
    pub(crate) fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Waits for a signal.
    pub(crate) fn wait(&self) {
        while !self.asked() {
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// How long a waiting program takes to notice a signal, at most.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);
