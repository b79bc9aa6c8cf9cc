//! Starts a target from its configuration, and stops it and returns its ledger.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use futures_rustls::TlsAcceptor;
use glommio::{
    CpuSet, ExecutorJoinHandle, GlommioError, LocalExecutorBuilder, Placement, PoolPlacement,
};

use crate::control::Control;
use crate::counts::Counts;
use crate::error::list;
use crate::executor_state::LedgerJob;
use crate::listener::{self, BoundListener};
use crate::{
    Certificate, Ledger, TargetConfig, TargetError, executor, hold_queue, system, watchdog,
};

/// Locked memory that glommio needs for each executor, bytes.
const MEMLOCK_PER_EXECUTOR: u64 = 512 << 10;
/// Rings of an executor: glommio's three, and one with which it queries the kernel's features.
const RINGS_PER_EXECUTOR: usize = 4;
/// Entries of an executor's rings: enough to poll thousands of connections without an extra
/// `enter`.
const RING_DEPTH: usize = 1_024;
/// How long a task may run before the executor checks its I/O again.
const PREEMPT_TIMER: Duration = Duration::from_millis(10);
/// How long an idle executor polls before it sleeps: longer than the hold queue needs it to.
const POLL_BEFORE_PARK: Duration = Duration::from_nanos(hold_queue::POLL_NS + 50_000);

/// A running target. Dropping it stops it too.
pub struct Target {
    control: Arc<Control>,
    executors: Vec<ExecutorJoinHandle<Counts>>,
    certificate: Option<Certificate>,
}

/// Starts a target, which is listening when this returns. Raises the soft limit on open files to
/// the hard limit, for the whole process.
///
/// # Errors
/// If the configuration contradicts itself, a core may not be used, the address can't be listened
/// on, or io_uring isn't available. Nothing is left running.
pub fn start(mut config: TargetConfig) -> Result<Target, TargetError> {
    config.validate()?;
    config.cores = allowed_cores(&config.cores)?;
    check_memlock(config.cores.len())?;
    // A connection that can't be accepted for lack of a descriptor looks like slow service.
    system::raise_open_files();
    // Checks beforehand what would make glommio panic.
    CpuSet::online().map_err(|error| {
        let cure = "mount /sys: mount -t sysfs sysfs /sys";
        TargetError::Refused(format!("core topology: {error}; {cure}"))
    })?;
    system::try_rings(RINGS_PER_EXECUTOR * config.cores.len()).map_err(|error| {
        TargetError::Refused(format!(
            "io_uring: refused ({error}); `truetail doctor` shows the cause"
        ))
    })?;
    let (listeners, address) = listener::listen(config.listen, config.cores.len())?;
    let certificate = config.tls.then(|| Certificate::new(address.ip())).transpose()?;
    let tls = certificate.as_ref().map(|certificate| TlsAcceptor::from(certificate.server()));

    let control = Arc::new(Control::new(config, address, system::now_ns()));
    let (ledger_jobs, jobs) = mpsc::channel();
    let asked = Arc::clone(&control);
    start_thread("target-ledger", move || take_ledgers(&asked, &jobs))?;
    system::make_interruptible();
    let watched = Arc::downgrade(&control);
    start_thread("target-watchdog", move || watchdog::watch(&watched))?;

    let mut target = Target { control, executors: Vec::new(), certificate };
    for (index, listener) in listeners.into_iter().enumerate() {
        target.start_executor(index, BoundListener(listener), tls.clone(), ledger_jobs.clone())?;
    }
    Ok(target)
}

/// Starts a thread that ends with the target.
fn start_thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), TargetError> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    started.map(drop).map_err(|error| {
        TargetError::Refused(format!(
            "threads: refused ({error}); raise the limit of processes (ulimit -u, or the \
             container's pids limit)"
        ))
    })
}

/// Takes the ledgers requested over HTTP, on a thread of its own, until all executors have ended.
/// Adding up and rendering take milliseconds, which would delay an executor's requests.
fn take_ledgers(control: &Control, jobs: &Receiver<LedgerJob>) {
    for job in jobs {
        let document = control.ledger().map(|ledger| ledger.to_json());
        *job.lock().unwrap_or_else(PoisonError::into_inner) = Some(document);
    }
}

impl Target {
    fn start_executor(
        &mut self,
        index: usize,
        listener: BoundListener,
        tls: Option<TlsAcceptor>,
        ledger_jobs: Sender<LedgerJob>,
    ) -> Result<(), TargetError> {
        let core = self.control.config.cores[index];
        let failed = |error: GlommioError<()>| {
            TargetError::Refused(format!(
                "--cores {core}: the executor could not start: {error}; `truetail doctor` shows the \
                 cause"
            ))
        };
        let control = Arc::clone(&self.control);
        let (ready, is_ready) = mpsc::channel();
        let handle = LocalExecutorBuilder::new(Placement::Fixed(core))
            .name("target")
            .ring_depth(RING_DEPTH)
            .preempt_timer(PREEMPT_TIMER)
            .spin_before_park(POLL_BEFORE_PARK)
            // Nothing here blocks; without a pool, no thread of it can fail to start.
            .blocking_thread_pool_placement(PoolPlacement::Custom(Vec::new()))
            .spawn(move || executor::run(listener, tls, control, index, ledger_jobs, ready))
            .map_err(failed)?;
        if is_ready.recv().is_err() {
            let error =
                handle.join().expect_err("an executor ends before it is ready on errors only");
            return Err(failed(error));
        }
        self.executors.push(handle);
        Ok(())
    }

    /// The certificate of the issuer of its own, as PEM; `None` without TLS.
    pub fn issuer(&self) -> Option<&str> {
        self.certificate.as_ref().map(Certificate::issuer)
    }

    /// The address listened on, with the actual port.
    pub fn local_addr(&self) -> SocketAddr {
        self.control.address
    }

    /// The ledger so far, as `/__ledger` serves it. Blocks for about 20 ms.
    ///
    /// # Errors
    /// If an executor doesn't publish its counts within 2 s.
    pub fn ledger(&self) -> Result<Ledger, TargetError> {
        self.control.ledger()
    }

    /// Stops the target, closes its connections, and returns the ledger. Requests being held stay
    /// unanswered; they are the ledger's `in_flight`.
    ///
    /// # Errors
    /// If an executor had failed.
    pub fn stop(mut self) -> Result<Ledger, TargetError> {
        self.control.stop();
        let mut counts = Vec::new();
        for (index, executor) in std::mem::take(&mut self.executors).into_iter().enumerate() {
            let core = self.control.config.cores[index];
            let joined = executor.join();
            counts.push(joined.map_err(|error| {
                TargetError::Failed(format!(
                    "the executor on core {core} failed: {error}; its counts are lost, run again"
                ))
            })?);
        }
        Ok(self.control.sum(counts))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.control.stop();
    }
}

/// The requested cores, checked against the affinity mask; without any, the mask's last.
fn allowed_cores(requested: &[usize]) -> Result<Vec<usize>, TargetError> {
    let allowed = core_affinity::get_core_ids().filter(|cores| !cores.is_empty());
    let allowed = allowed.ok_or_else(|| {
        let line = "can't read which cores this process may use; in a container, let seccomp allow \
                    sched_getaffinity";
        TargetError::Failed(line.to_owned())
    })?;
    let mut allowed: Vec<usize> = allowed.into_iter().map(|core| core.id).collect();
    allowed.sort_unstable();
    if requested.is_empty() {
        return Ok(allowed[allowed.len() - 1..].to_vec());
    }
    match requested.iter().find(|core| !allowed.contains(core)) {
        Some(core) => Err(TargetError::Usage(format!(
            "--cores {core}: this process may use only {}; choose from those, or widen the \
             affinity mask (taskset, cpuset)",
            list(&allowed)
        ))),
        None => Ok(requested.to_vec()),
    }
}

fn check_memlock(executors: usize) -> Result<(), TargetError> {
    let need_bytes = MEMLOCK_PER_EXECUTOR * executors as u64;
    let limit_bytes = system::memlock_limit_bytes().unwrap_or(u64::MAX);
    if limit_bytes < need_bytes {
        let need_kib = need_bytes >> 10;
        return Err(TargetError::Failed(format!(
            "RLIMIT_MEMLOCK {limit_bytes}: too low, {executors} executors need {need_bytes} bytes; \
             raise it with `ulimit -l {need_kib}`, or give fewer --cores"
        )));
    }
    Ok(())
}
