//! Was the machine quiet: how late this process woke from short sleeps while a tool ran.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const SLEEP: Duration = Duration::from_millis(1);

/// A thread that sleeps a millisecond at a time, and notes how long that took.
pub(crate) struct Sleeper {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Sleeper {
    /// Starts it.
    pub(crate) fn start() -> Sleeper {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut latest = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                let began = Instant::now();
                thread::sleep(SLEEP);
                latest = latest.max(began.elapsed().saturating_sub(SLEEP));
            }
            latest
        });
        Sleeper { stop, thread }
    }

    /// The latest that it woke, ms.
    pub(crate) fn latest_ms(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_or(f64::INFINITY, |latest| latest.as_secs_f64() * 1e3)
    }
}
