//! From the configuration to a running target, and from there to the ledger.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use glommio::{ExecutorJoinHandle, LocalExecutorBuilder, Placement};

use crate::executor::{self, LedgerJob};
use crate::ledger_file::LedgerFile;
use crate::listener::{self, Bound};
use crate::publication::Publication;
use crate::tally::Tally;
use crate::{Ledger, TargetConfig, TargetError, holds, system, watch};

/// Locked memory that glommio needs for each executor, bytes.
const MEMLOCK_PER_EXECUTOR: u64 = 512 << 10;
/// Entries of an executor's rings: enough for the polls of thousands of connections without an extra `enter`.
const RING_DEPTH: usize = 1_024;
/// How long a task may run before the executor looks after its I/O again.
const PREEMPT_TIMER: Duration = Duration::from_millis(10);
/// How long an idle executor polls before it sleeps: longer than the holds need to be polled for before their time.
const POLL_BEFORE_PARK: Duration = Duration::from_nanos(holds::POLL_NS + 50_000);

/// A running target. It stops when it is dropped, too.
pub struct Target {
    publication: Arc<Publication>,
    executors: Vec<ExecutorJoinHandle<Tally>>,
    ledger_file: Option<LedgerFile>,
}

/// Starts a target. It listens when this returns. The soft limit of open files is raised to the hard one, for the whole
/// process.
///
/// # Errors
/// When the configuration contradicts itself, a core may not be used, the address can't be listened on, the ledger can't
/// be written, or io_uring is not to be had. Nothing is left running then.
pub fn start(mut config: TargetConfig) -> Result<Target, TargetError> {
    config.check()?;
    config.cores = allowed_cores(&config.cores)?;
    check_memlock(config.cores.len())?;
    // A connection that is not accepted for want of a descriptor looks like a slow service.
    system::raise_open_files();
    let open = |path: &PathBuf| {
        LedgerFile::open(path)
            .map_err(|source| TargetError::LedgerFile { path: path.clone(), source })
    };
    let ledger_file = config.ledger.as_ref().map(open).transpose()?;
    let (bound, address) = listener::bind(config.listen, config.cores.len())
        .map_err(|source| TargetError::Listen { address: config.listen, source })?;

    let publication = Arc::new(Publication::new(config, address, system::now_ns()));
    let (ledger_jobs, jobs) = mpsc::channel();
    let keeper = Arc::clone(&publication);
    std::thread::spawn(move || take_ledgers(&keeper, &jobs));
    system::make_interruptible();
    let watched = Arc::downgrade(&publication);
    std::thread::spawn(move || watch::keep_awake(&watched));

    let mut target = Target { publication, executors: Vec::new(), ledger_file };
    for (index, bound) in bound.into_iter().enumerate() {
        target.start_executor(index, bound, ledger_jobs.clone())?;
    }
    Ok(target)
}

/// Takes the ledgers that are asked for over HTTP, on a thread of its own, as long as there are executors. Adding and
/// rendering take milliseconds, which would be added to every hold of the executor that did it.
fn take_ledgers(publication: &Publication, jobs: &Receiver<LedgerJob>) {
    for job in jobs {
        let document = publication.ledger().map(|ledger| ledger.to_json());
        let document = document.map_err(|error| error.to_string());
        *job.lock().unwrap_or_else(PoisonError::into_inner) = Some(document);
    }
}

impl Target {
    fn start_executor(
        &mut self,
        index: usize,
        bound: Bound,
        ledger_jobs: Sender<LedgerJob>,
    ) -> Result<(), TargetError> {
        let core = self.publication.config.cores[index];
        let failed = |error: glommio::GlommioError<()>| TargetError::Executor {
            core,
            reason: error.to_string(),
        };
        let publication = Arc::clone(&self.publication);
        let (ready, is_ready) = mpsc::channel();
        let handle = LocalExecutorBuilder::new(Placement::Fixed(core))
            .name("target")
            .ring_depth(RING_DEPTH)
            .preempt_timer(PREEMPT_TIMER)
            .spin_before_park(POLL_BEFORE_PARK)
            .spawn(move || executor::run(bound, publication, index, ledger_jobs, ready))
            .map_err(failed)?;
        if is_ready.recv().is_err() {
            // The thread ended before its first task: its result says why.
            return Err(handle.join().map_or_else(failed, |_| TargetError::Executor {
                core,
                reason: "it ended at once".to_owned(),
            }));
        }
        self.executors.push(handle);
        Ok(())
    }

    /// Where the target listens, with the port that was really taken.
    pub fn local_addr(&self) -> SocketAddr {
        self.publication.address
    }

    /// The ledger so far, as `/__ledger` serves it. Blocks for about 20 ms.
    ///
    /// # Errors
    /// When an executor does not answer within 2 s.
    pub fn ledger(&self) -> Result<Ledger, TargetError> {
        self.publication.ledger()
    }

    /// Stops the target, closes its connections, writes the ledger file if one was asked for, and gives the ledger.
    /// Requests that are held at this moment stay unanswered; they are the ledger's `in_flight`.
    ///
    /// # Errors
    /// When an executor ended by itself, or the file can't be written.
    pub fn stop(mut self) -> Result<Ledger, TargetError> {
        self.publication.stop();
        let mut tallies = Vec::new();
        for (index, executor) in std::mem::take(&mut self.executors).into_iter().enumerate() {
            let core = self.publication.config.cores[index];
            let tally = executor.join();
            let tally =
                tally.map_err(|error| TargetError::Executor { core, reason: error.to_string() })?;
            tallies.push(tally);
        }
        let ledger = self.publication.sum(tallies);
        if let (Some(file), Some(path)) = (self.ledger_file.take(), &self.publication.config.ledger)
        {
            file.write(&ledger)
                .map_err(|source| TargetError::LedgerFile { path: path.clone(), source })?;
        }
        Ok(ledger)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.publication.stop();
    }
}

/// The cores asked for, each checked against the affinity mask; when none is asked for, the last of the mask.
fn allowed_cores(asked: &[usize]) -> Result<Vec<usize>, TargetError> {
    let allowed = core_affinity::get_core_ids().filter(|cores| !cores.is_empty());
    let allowed = allowed.ok_or(TargetError::CoresUnknown)?;
    let mut allowed: Vec<usize> = allowed.into_iter().map(|core| core.id).collect();
    allowed.sort_unstable();
    if asked.is_empty() {
        return Ok(allowed[allowed.len() - 1..].to_vec());
    }
    match asked.iter().find(|core| !allowed.contains(core)) {
        Some(core) => Err(TargetError::CoreNotAllowed { core: *core, allowed }),
        None => Ok(asked.to_vec()),
    }
}

fn check_memlock(executors: usize) -> Result<(), TargetError> {
    let need_bytes = MEMLOCK_PER_EXECUTOR * executors as u64;
    let limit_bytes = system::memlock_limit_bytes().unwrap_or(u64::MAX);
    if limit_bytes < need_bytes {
        let need_kib = need_bytes >> 10;
        return Err(TargetError::Memlock { limit_bytes, need_bytes, need_kib, executors });
    }
    Ok(())
}
