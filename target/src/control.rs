//! The state that a target's executors share with its owner: the configuration, the stop flag,
//! their heartbeats, and snapshots of their counts.
//!
//! Ledgers are taken while executors run: each publishes a copy of its counts when asked, and the
//! asking thread adds them up and renders them, so an executor only pays for one copy. Executors
//! share nothing else, except for the shop if there is one. Each checks two flags every
//! [`CHECK_INTERVAL`].

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::counts::Counts;
use crate::shop::Shop;
use crate::{Ledger, ShopLedger, TargetConfig, TargetError, system};

/// How often an executor checks whether to stop or to publish its counts.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// How long to wait for the counts of all executors.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the thread that takes a ledger checks whether all have published.
const PUBLISH_POLL: Duration = Duration::from_millis(2);

/// The state visible to all executors of a target: its configuration, which never changes, and the
/// flags.
pub(crate) struct Control {
    /// The configuration, with the cores actually used.
    pub(crate) config: TargetConfig,
    /// The address listened on, with the actual port.
    pub(crate) address: SocketAddr,
    /// When the target started, ns.
    pub(crate) started_ns: u64,
    /// The shop, if it is one.
    pub(crate) shop: Option<Arc<Shop>>,
    stop: AtomicBool,
    /// The number of snapshots asked for.
    asked: AtomicU64,
    snapshots: Vec<Mutex<Snapshot>>,
    heartbeats: Vec<Heartbeat>,
    standstills: AtomicU64,
}

/// Shows that an executor is awake.
#[derive(Default)]
pub(crate) struct Heartbeat {
    beats: AtomicU64,
    /// The kernel's ID of the executor's thread; 0 before the first beat and after the last.
    thread: AtomicI32,
}

impl Heartbeat {
    /// Called by the executor, on its own thread, while it is awake.
    pub(crate) fn beat(&self) {
        self.thread.store(system::thread_id(), Ordering::Relaxed);
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Called by the executor when it ends.
    pub(crate) fn end(&self) {
        self.thread.store(0, Ordering::Relaxed);
    }

    /// The number of beats so far.
    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// The kernel's ID of the executor's thread; `None` before it runs and after it has ended.
    pub(crate) fn thread(&self) -> Option<i32> {
        Some(self.thread.load(Ordering::Relaxed)).filter(|thread| *thread != 0)
    }
}

/// The last published copy of one executor's counts.
struct Snapshot {
    /// The highest value of [`Control::asked`] that it answers.
    asked: u64,
    counts: Option<Counts>,
}

impl Control {
    /// A control block for one executor on each core of the configuration.
    pub(crate) fn new(config: TargetConfig, address: SocketAddr, started_ns: u64) -> Control {
        let snapshots =
            config.cores.iter().map(|_| Mutex::new(Snapshot { asked: 0, counts: None }));
        Control {
            snapshots: snapshots.collect(),
            heartbeats: config.cores.iter().map(|_| Heartbeat::default()).collect(),
            standstills: AtomicU64::new(0),
            // The start tells its values from those of an earlier shop on the same port.
            shop: config.shop.then(|| Arc::new(Shop::new(started_ns))),
            config,
            address,
            started_ns,
            stop: AtomicBool::new(false),
            asked: AtomicU64::new(0),
        }
    }

    /// One heartbeat per executor.
    pub(crate) fn heartbeats(&self) -> &[Heartbeat] {
        &self.heartbeats
    }

    /// Counts an executor that was found stuck.
    pub(crate) fn count_standstill(&self) {
        self.standstills.fetch_add(1, Ordering::Relaxed);
    }

    /// Asks the executors to stop.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// True if the executors have been asked to stop.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Publishes a copy of the executor's counts if one has been asked for since the last.
    pub(crate) fn publish(&self, executor: usize, published: &mut u64, counts: &Counts) {
        let asked = self.asked.load(Ordering::Acquire);
        if *published < asked {
            *published = asked;
            *self.snapshot(executor) = Snapshot { asked, counts: Some(counts.clone()) };
        }
    }

    /// Asks every executor for its counts and adds them up. Blocks for about [`CHECK_INTERVAL`].
    pub(crate) fn ledger(&self) -> Result<Ledger, TargetError> {
        let asked = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let began = Instant::now();
        while !(0..self.snapshots.len()).all(|executor| asked <= self.snapshot(executor).asked) {
            if PUBLISH_TIMEOUT < began.elapsed() {
                return Err(TargetError::Failed(format!(
                    "an executor did not publish its counts within {PUBLISH_TIMEOUT:?}: its core is \
                     stopped or starved; ask again"
                )));
            }
            std::thread::sleep(PUBLISH_POLL);
        }
        let executors = 0..self.snapshots.len();
        let counts = executors.filter_map(|executor| self.snapshot(executor).counts.clone());
        Ok(self.sum(counts.collect()))
    }

    /// The ledger of these counts, one set per executor.
    pub(crate) fn sum(&self, counts: Vec<Counts>) -> Ledger {
        let mut counts = counts.into_iter();
        let mut sum = counts.next().expect("a target has at least one executor");
        for other in counts {
            sum += &other;
        }
        let shop = sum.shop.take();
        let standstills = self.standstills.load(Ordering::Relaxed);
        let ledger =
            Ledger::new(&self.config, self.address, self.started_ns, system::now_ns(), sum);
        let shop = self.shop.as_ref().zip(shop);
        let shop = shop.map(|(shop, counts)| ShopLedger::new(shop.paths(), &counts));
        Ledger { standstills, shop, ..ledger }
    }

    /// A panic under the lock can't leave a snapshot half written: it is one assignment.
    fn snapshot(&self, executor: usize) -> MutexGuard<'_, Snapshot> {
        self.snapshots[executor].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
