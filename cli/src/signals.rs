//! Signals that end a program: the first asks it to finish, the second ends it at once.
//!
//! A thread waits for them instead of a handler, because ending at once still has work to do:
//! it removes unfinished files.

use std::ffi::c_int;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use calibration::lab::END_WITH_PARENT;
use engine::run::RunError;
use rustix::process::{Signal, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::failure::{EXIT_INTERRUPTED, Failure};
use crate::live;

/// Signals from users and their terminals. Under `nohup` SIGHUP is ignored, and remains so.
const USERS: [c_int; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
/// Signals that the kernel sends again and again when a limit is reached: they never end the
/// program at once.
const LIMITS: [c_int; 2] = [SIGXFSZ, SIGXCPU];

/// True if this process was started with a signal ignored, according to the kernel.
fn is_ignored(signal: c_int) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The user's request to stop the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopRequest {
    asked: Arc<AtomicBool>,
    /// Files under temporary names, removed when the program ends at once.
    unfinished: Arc<Mutex<Vec<PathBuf>>>,
}

impl StopRequest {
    /// Starts listening for the signals.
    ///
    /// # Errors
    /// The kernel refused a handler or a thread.
    pub(crate) fn listen() -> Result<StopRequest, Failure> {
        let request = StopRequest::default();
        let heeded = USERS.into_iter().chain(LIMITS);
        let heeded = heeded.filter(|signal| *signal != SIGHUP || !is_ignored(SIGHUP));
        let mut signals = Signals::new(heeded).map_err(RunError::Thread)?;
        let listener = request.clone();
        thread::Builder::new()
            .name("truetail-signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    listener.received(signal);
                }
            })
            .map_err(RunError::Thread)?;
        Ok(request)
    }

    fn received(&self, signal: c_int) {
        if !self.asked.swap(true, Ordering::Relaxed) || LIMITS.contains(&signal) {
            return;
        }
        let unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        for file in &*unfinished {
            // It may have its final name already, or may never have been created.
            let _ = fs::remove_file(file);
        }
        live::leave_screen_at_last();
        // Still under the lock, and without exit handlers: nothing may create another file now.
        low_level::exit(i32::from(EXIT_INTERRUPTED));
    }

    /// Creates a file or the like, and registers its temporary name, if any, in one step: a signal
    /// that ends the program comes either before the file exists or when its name is known.
    ///
    /// # Errors
    /// Those of `create`.
    pub(crate) fn covering<T, E>(
        &self,
        create: impl FnOnce() -> Result<(T, Option<PathBuf>), E>,
    ) -> Result<T, E> {
        let mut unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        let (created, temporary) = create()?;
        unfinished.extend(temporary);
        Ok(created)
    }

    /// True if a signal has come.
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

/// If wanted, has the kernel ask this process to end when the one that started it does.
///
/// # Errors
/// The kernel refused.
pub(crate) fn end_with_parent(wanted: bool) -> Result<(), Failure> {
    if wanted {
        set_parent_process_death_signal(Some(Signal::TERM))
            .map_err(|error| Failure::CouldNotRun(format!("{END_WITH_PARENT}: {error}")))?;
    }
    Ok(())
}

/// The longest that a waiting program takes to notice a signal.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);
