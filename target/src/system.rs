//! What the target asks of the kernel directly: the clock, the timer slack, the limit of locked memory, a socket's error.

#![expect(unsafe_code, reason = "the kernel is reached through libc")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use glommio::net::TcpStream;
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

/// The soft limit of locked memory, bytes.
pub(crate) fn memlock_limit_bytes() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit of this frame, and the call keeps none of it.
    let status = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    if status == 0 { Ok(limit.rlim_cur) } else { Err(io::Error::last_os_error()) }
}

/// Whether the kernel has noted an error on the socket since it was last asked, such as a reset by the peer.
pub(crate) fn has_error(stream: &TcpStream) -> bool {
    // SAFETY: the stream owns the descriptor and outlives the borrow, which ends with this function.
    let fd = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
    !matches!(SockRef::from(&fd).take_error(), Ok(None))
}
