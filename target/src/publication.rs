//! How a ledger is taken while executors run: each publishes a copy of its tally when asked, and the asker adds them up.
//!
//! Nothing else is shared. An executor looks at two flags every [`LOOK_INTERVAL`]; between two askings it touches no
//! memory of another. The adding and the rendering happen on the asker's thread, so an executor pays for one copy.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::tally::Tally;
use crate::{Ledger, TargetConfig, TargetError, system};

/// How often an executor looks whether it shall stop or publish.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long an asker waits for all executors.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(2);

/// What all executors of a target can see: its configuration, which never changes, and the flags.
pub(crate) struct Publication {
    /// What the target was asked to do, with the cores it really uses.
    pub(crate) config: TargetConfig,
    /// Where it really listens.
    pub(crate) address: SocketAddr,
    /// When it started.
    pub(crate) started_ns: u64,
    stop: AtomicBool,
    asked: AtomicU64,
    copies: Vec<Mutex<Published>>,
    pulses: Vec<Pulse>,
    standstills: AtomicU64,
}

/// What shows that an executor is awake.
#[derive(Default)]
pub(crate) struct Pulse {
    beats: AtomicU64,
    /// The kernel's number of its thread; 0 before the first beat and after the last.
    thread: AtomicI32,
}

impl Pulse {
    /// The executor, on whose thread this is called, is awake.
    pub(crate) fn beat(&self) {
        self.thread.store(system::thread_id(), Ordering::Relaxed);
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// The executor ends.
    pub(crate) fn end(&self) {
        self.thread.store(0, Ordering::Relaxed);
    }

    /// How often it has beaten.
    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// The kernel's number of the executor's thread; `None` before it runs and when it has ended.
    pub(crate) fn thread(&self) -> Option<i32> {
        Some(self.thread.load(Ordering::Relaxed)).filter(|thread| *thread != 0)
    }
}

/// The last copy of one executor's tally, and the asking that it answers.
struct Published {
    asking: u64,
    tally: Option<Tally>,
}

impl Publication {
    /// For one executor on each core of the configuration.
    pub(crate) fn new(config: TargetConfig, address: SocketAddr, started_ns: u64) -> Publication {
        let copies = config.cores.iter().map(|_| Mutex::new(Published { asking: 0, tally: None }));
        Publication {
            copies: copies.collect(),
            pulses: config.cores.iter().map(|_| Pulse::default()).collect(),
            standstills: AtomicU64::new(0),
            config,
            address,
            started_ns,
            stop: AtomicBool::new(false),
            asked: AtomicU64::new(0),
        }
    }

    /// The pulse of each executor.
    pub(crate) fn pulses(&self) -> &[Pulse] {
        &self.pulses
    }

    /// An executor stood still.
    pub(crate) fn count_standstill(&self) {
        self.standstills.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells the executors to stop.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Whether the executors shall stop.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Publishes a copy of the executor's tally, if one was asked for since the last.
    pub(crate) fn publish(&self, executor: usize, published: &mut u64, tally: &Tally) {
        let asked = self.asked.load(Ordering::Acquire);
        if *published < asked {
            *published = asked;
            *self.copy(executor) = Published { asking: asked, tally: Some(tally.clone()) };
        }
    }

    /// Asks every executor for its tally and adds them up. Blocks its thread, for about [`LOOK_INTERVAL`].
    pub(crate) fn ledger(&self) -> Result<Ledger, TargetError> {
        let asking = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let began = Instant::now();
        while !(0..self.copies.len()).all(|executor| asking <= self.copy(executor).asking) {
            if PUBLISH_TIMEOUT < began.elapsed() {
                return Err(TargetError::LedgerLate(PUBLISH_TIMEOUT));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let tallies =
            (0..self.copies.len()).filter_map(|executor| self.copy(executor).tally.clone());
        Ok(self.sum(tallies.collect()))
    }

    /// The ledger of these tallies, one of each executor.
    pub(crate) fn sum(&self, tallies: Vec<Tally>) -> Ledger {
        let mut tallies = tallies.into_iter();
        let mut sum = tallies.next().expect("a target has at least one executor");
        for tally in tallies {
            sum.add(&tally);
        }
        let standstills = self.standstills.load(Ordering::Relaxed);
        let ledger =
            Ledger::new(&self.config, self.address, self.started_ns, system::now_ns(), sum);
        Ledger { standstills, ..ledger }
    }

    /// A panic while the lock is held can't leave a copy half written: it is stored in one assignment.
    fn copy(&self, executor: usize) -> MutexGuard<'_, Published> {
        self.copies[executor].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
