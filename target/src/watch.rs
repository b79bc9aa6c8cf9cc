//! Wakes executors that stand still.
//!
//! An executor asleep in its ring was seen to sleep on for minutes with unread requests on all of its connections and a timer
//! long over (glommio 0.9, Linux 6.18): a wake-up between kernel and runtime was lost, and with the list of work no longer
//! empty no later event wakes the thread either. A signal does: it ends the system call, and the work is found.

use std::sync::Weak;
use std::time::Duration;

use crate::publication::{LOOK_INTERVAL, Publication};
use crate::system;

/// How often the watch looks.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);
/// So many looks in a row without a beat are a standstill: an executor beats every [`LOOK_INTERVAL`].
const LOOKS_MAX: u32 = 3;

const _: () = assert!(LOOK_INTERVAL.as_millis() * 5 <= WATCH_INTERVAL.as_millis());

/// Looks after the executors until the target is gone.
pub(crate) fn keep_awake(target: &Weak<Publication>) {
    let mut seen: Vec<(u64, u32)> = Vec::new();
    while let Some(publication) = target.upgrade() {
        seen.resize(publication.pulses().len(), (0, 0));
        for (pulse, (beats, looks)) in publication.pulses().iter().zip(&mut seen) {
            let now = pulse.beats();
            *looks = if now == *beats { *looks + 1 } else { 0 };
            *beats = now;
            if *looks == LOOKS_MAX {
                *looks = 0;
                if let Some(thread) = pulse.thread() {
                    publication.count_standstill();
                    system::interrupt(thread);
                }
            }
        }
        drop(publication);
        std::thread::sleep(WATCH_INTERVAL);
    }
}
