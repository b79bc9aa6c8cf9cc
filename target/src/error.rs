//! Errors of the target: each names the flag, its value, the problem and the cure.

use std::net::SocketAddr;
use std::time::Duration;

use glommio::GlommioError;
use thiserror::Error;

use crate::certificate::CertificateError;

/// Why a target couldn't start, or failed while it ran.
#[derive(Debug, Error)]
pub enum TargetError {
    /// The tail fraction is outside `[0, 1]`.
    #[error("--tail-fraction {0}: not a fraction; give a number from 0 to 1, such as 0.01")]
    TailFraction(f64),
    /// A duration exceeds the range of the ledger's histogram.
    #[error("{flag} {hold:?}: too long; give at most {hold_max:?}")]
    HoldTooLong {
        /// The flag.
        flag: &'static str,
        /// The requested duration.
        hold: Duration,
        /// The limit.
        hold_max: Duration,
    },
    /// A stall of length zero, or one that doesn't end before the next.
    #[error(
        "--stall-every {every:?} --stall-for {hold:?}: a stall must end before the next begins; \
         give a --stall-for above zero and below --stall-every"
    )]
    Stall {
        /// From the start of one stall to the start of the next.
        every: Duration,
        /// The length of each.
        hold: Duration,
    },
    /// A pause of length zero, or after every zero requests.
    #[error(
        "--pause-every-requests {every_requests} --pause-for {hold:?}: neither can be zero; give \
         two values above zero"
    )]
    Pause {
        /// Requests from one pause to the next.
        every_requests: u64,
        /// The length of each.
        hold: Duration,
    },
    /// A cold start of no requests, or of no length.
    #[error(
        "--cold-requests {requests} --cold-latency {latency:?}: neither can be zero; give two \
         values above zero"
    )]
    Cold {
        /// How many requests are cold.
        requests: u64,
        /// The extra time that each of them takes.
        latency: Duration,
    },
    /// The response body is too large.
    #[error("--body-size {size}: too large; give at most {size_max} bytes")]
    BodySize {
        /// The requested size, bytes.
        size: usize,
        /// The limit, bytes.
        size_max: usize,
    },
    /// A route that can't be served.
    #[error("--route {path}: {problem}")]
    Route {
        /// Its path.
        path: String,
        /// What is wrong, and the cure.
        problem: String,
    },
    /// A flag that needs a single server, given with several cores.
    #[error(
        "{flag} with --cores {}: it needs a single server, and each core runs one; give one core",
        list(cores)
    )]
    OneServer {
        /// The flag.
        flag: &'static str,
        /// The requested cores.
        cores: Vec<usize>,
    },
    /// A core is listed twice.
    #[error("--cores: core {0} is listed twice; give each core once")]
    CoreTwice(usize),
    /// A core is outside this process's affinity mask.
    #[error(
        "--cores {core}: this process may use only {}; choose from those, or widen the affinity \
         mask (taskset, cpuset)",
        list(allowed)
    )]
    CoreNotAllowed {
        /// The requested core.
        core: usize,
        /// The cores of the affinity mask.
        allowed: Vec<usize>,
    },
    /// The affinity mask can't be read.
    #[error(
        "can't read which cores this process may use; in a container, let seccomp allow \
         sched_getaffinity"
    )]
    CoresUnknown,
    /// The limit on locked memory is too low for glommio.
    #[error(
        "RLIMIT_MEMLOCK {limit_bytes}: too low, {executors} executors need {need_bytes} bytes; \
         raise it with `ulimit -l {need_kib}`, or give fewer --cores"
    )]
    Memlock {
        /// The soft limit, bytes.
        limit_bytes: u64,
        /// What the executors need in total, bytes.
        need_bytes: u64,
        /// The same in KiB, as `ulimit` takes it.
        need_kib: u64,
        /// The number of executors.
        executors: usize,
    },
    /// The address can't be listened on.
    #[error("--listen {address}: {source}; {}", listen_cure(source))]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The kernel's list of cores, needed to place executors, can't be read.
    #[error("core topology: {0}; mount /sys: mount -t sysfs sysfs /sys")]
    Topology(GlommioError<()>),
    /// The kernel refused the executors' rings.
    #[error("io_uring: refused ({0}); `truetail doctor` shows the cause")]
    Rings(std::io::Error),
    /// The kernel refused a thread.
    #[error(
        "threads: refused ({0}); raise the limit of processes (ulimit -u, or the container's pids \
         limit)"
    )]
    Thread(std::io::Error),
    /// An executor couldn't start.
    #[error(
        "--cores {core}: the executor could not start: {source}; `truetail doctor` shows the cause"
    )]
    ExecutorStart {
        /// Its core.
        core: usize,
        /// The runtime's error.
        source: GlommioError<()>,
    },
    /// An executor failed after it had started.
    #[error("the executor on core {core} failed: {source}; its counts are lost, run again")]
    ExecutorFailed {
        /// Its core.
        core: usize,
        /// The runtime's error.
        source: GlommioError<()>,
    },
    /// The target has no certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// An executor didn't publish its counts in time.
    #[error(
        "an executor did not publish its counts within {0:?}: its core is stopped or starved; \
         ask again"
    )]
    LedgerTimeout(Duration),
}

/// Cores in the notation of the flag.
fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

fn listen_cure(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::AddrInUse => "stop what listens there, or give another port (0: any)",
        std::io::ErrorKind::AddrNotAvailable => "give an address of this machine",
        std::io::ErrorKind::PermissionDenied => "give a port from 1024 up",
        _ => "give another address",
    }
}
