//! Watchdog: wakes an executor that misses its heartbeats.
//!
//! An executor asleep in its ring has been seen to sleep on for minutes with unread requests on all
//! of its connections and a timer long expired (glommio 0.9, Linux 6.18). A wake-up between kernel
//! and runtime was lost, and because the work list is no longer empty, no later event wakes the
//! thread either. A signal does: it interrupts the system call, and the executor finds the work.

use std::sync::Weak;
use std::time::Duration;

use crate::control::{CHECK_INTERVAL, Control};
use crate::system;

/// How often the watchdog checks the heartbeats.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);
/// The number of consecutive checks without a heartbeat after which an executor counts as stuck: it
/// beats every [`CHECK_INTERVAL`].
const MISSED_MAX: u32 = 3;

const _: () = assert!(CHECK_INTERVAL.as_millis() * 5 <= WATCH_INTERVAL.as_millis());

/// Watches the executors until the target is gone.
pub(crate) fn watch(target: &Weak<Control>) {
    let mut seen: Vec<(u64, u32)> = Vec::new();
    while let Some(control) = target.upgrade() {
        seen.resize(control.heartbeats().len(), (0, 0));
        for (heartbeat, (beats, missed)) in control.heartbeats().iter().zip(&mut seen) {
            let now = heartbeat.beats();
            *missed = if now == *beats { *missed + 1 } else { 0 };
            *beats = now;
            if *missed == MISSED_MAX {
                *missed = 0;
                if let Some(thread) = heartbeat.thread() {
                    control.count_standstill();
                    system::interrupt(thread);
                }
            }
        }
        drop(control);
        std::thread::sleep(WATCH_INTERVAL);
    }
}
