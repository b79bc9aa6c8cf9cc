//! What the target asks of the kernel directly: the clock, the timer slack, its limits, a socket's error.

#![expect(unsafe_code, reason = "the kernel is reached through libc")]

use std::os::fd::{AsRawFd, BorrowedFd};

use glommio::net::TcpStream;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::SockRef;

/// The time on CLOCK_MONOTONIC, ns.
pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec of this frame, and the call keeps none of it.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    assert_eq!(status, 0, "every Linux has CLOCK_MONOTONIC");
    let seconds = u64::try_from(time.tv_sec).expect("CLOCK_MONOTONIC never goes below zero");
    let rest_ns = u64::try_from(time.tv_nsec).expect("the kernel gives ns in [0, 10⁹)");
    seconds * 1_000_000_000 + rest_ns
}

/// Sets this thread's timer slack to 1 ns; the default of 50 µs would make every hold late by up to as much.
pub(crate) fn set_timer_slack() {
    // SAFETY: PR_SET_TIMERSLACK takes one number and touches no memory of ours. It fails only for threads under a
    // real-time policy, which have no slack to begin with.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64) };
}

/// The soft limit of locked memory, bytes; `None` when there is none.
pub(crate) fn memlock_limit_bytes() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Raises the soft limit of open files, of this whole process, to the hard one.
pub(crate) fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Where that is refused, each connection that finds no descriptor is counted as it comes.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Whether the kernel has noted an error on the socket since it was last asked, such as a reset by the peer.
pub(crate) fn has_error(stream: &TcpStream) -> bool {
    // SAFETY: the stream owns the descriptor and outlives the borrow, which ends with this function.
    let fd = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
    !matches!(SockRef::from(&fd).take_error(), Ok(None))
}
