//! Why a target could not start or end: each names the flag, its value and the cure.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// Why a target could not start, or could not be ended in order.
#[derive(Debug, Error)]
pub enum TargetError {
    /// The tail fraction is no fraction.
    #[error("--tail-fraction {0} is not a fraction: give a number from 0 to 1, such as 0.01")]
    TailFraction(f64),
    /// A duration is beyond the ledger's range.
    #[error("{flag} {hold:?} is too long: give at most {hold_max:?}")]
    HoldTooLong {
        /// The flag.
        flag: &'static str,
        /// What was asked.
        hold: Duration,
        /// The limit.
        hold_max: Duration,
    },
    /// A stall that never ends, or none.
    #[error(
        "--stall-every {every:?} --stall-for {hold:?}: a stall must last longer than nothing and end before the next \
         begins; give a --stall-for below --stall-every"
    )]
    Stall {
        /// From one stall to the next.
        every: Duration,
        /// How long each lasts.
        hold: Duration,
    },
    /// A pause without length, or after every zero requests.
    #[error("--pause-every-requests {every_requests} --pause-for {hold:?}: give both above zero")]
    Pause {
        /// Requests from one pause to the next.
        every_requests: u64,
        /// How long each lasts.
        hold: Duration,
    },
    /// The response body is too large.
    #[error("--body-size {size} is too large: give at most {size_max} bytes")]
    BodySize {
        /// What was asked, bytes.
        size: usize,
        /// The limit, bytes.
        size_max: usize,
    },
    /// A flag that describes one server, on several cores.
    #[error(
        "{flag} describes one server, and --cores {} would run several: give one core",
        list(cores)
    )]
    OneServer {
        /// The flag.
        flag: &'static str,
        /// The cores asked for.
        cores: Vec<usize>,
    },
    /// A core is listed twice.
    #[error("--cores lists core {0} twice: give each core once")]
    CoreTwice(usize),
    /// A core is outside this process's affinity mask.
    #[error(
        "--cores {core}: this process may not run there, only on {}: choose among those, or widen the mask (taskset, \
         cpuset)",
        list(allowed)
    )]
    CoreNotAllowed {
        /// The core asked for.
        core: usize,
        /// The cores of the affinity mask.
        allowed: Vec<usize>,
    },
    /// The affinity mask can't be read.
    #[error("the cores that this process may use can't be read (sched_getaffinity failed)")]
    CoresUnknown,
    /// The limit of locked memory is too low for glommio.
    #[error(
        "RLIMIT_MEMLOCK is {limit_bytes} bytes and {executors} executors need {need_bytes}: raise it with \
         `ulimit -l {need_kib}`, or give fewer --cores"
    )]
    Memlock {
        /// The soft limit.
        limit_bytes: u64,
        /// What the executors need together.
        need_bytes: u64,
        /// The same in KiB, as `ulimit` takes it.
        need_kib: u64,
        /// How many executors were asked for.
        executors: usize,
    },
    /// The address can't be listened on.
    #[error("--listen {address}: {source}; {}", listen_cure(source))]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// An executor could not be made.
    #[error(
        "the executor on core {core} could not start: {reason}; io_uring must be allowed (see \
         /proc/sys/kernel/io_uring_disabled, and seccomp where this runs in a container)"
    )]
    Executor {
        /// Its core.
        core: usize,
        /// What glommio said.
        reason: String,
    },
    /// The ledger file can't be written.
    #[error("--ledger {}: {source}; give a file in a folder that exists and can be written", path.display())]
    LedgerFile {
        /// The file asked for.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// An executor did not publish its tally in time: its core is stopped or starved.
    #[error("an executor did not answer within {0:?}: its core is stopped or starved, ask again")]
    LedgerLate(Duration),
}

/// Cores as the flag takes them.
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
