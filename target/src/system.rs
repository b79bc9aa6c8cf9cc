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

/// Makes SIGURG end the system call that a thread is in, and do nothing else. By default it is ignored, and what is ignored
/// interrupts nothing; so nobody who sends it by mistake does harm.
pub(crate) fn make_interruptible() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: a sigaction of zeros is one without flags, mask or restorer; the handler touches nothing, so it may run at any
    // time on any thread; the pointer is to a live value of this frame.
    let status = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut())
    };
    assert_eq!(status, 0, "SIGURG may be handled");
}

/// The kernel's number of this thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: the call takes nothing and can't fail.
    unsafe { libc::gettid() }
}

/// Interrupts a thread of this process in its system call; nothing happens when it has ended.
pub(crate) fn interrupt(thread: i32) {
    // SAFETY: the call takes three numbers and touches no memory of ours; a thread that has gone makes it fail.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGURG) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_interrupted_thread_leaves_its_system_call() {
        make_interruptible();
        let (tell, told) = mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            tell.send(thread_id()).expect("somebody listens");
            // SAFETY: no descriptors are given, so nothing of ours is touched.
            let status = unsafe { libc::poll(std::ptr::null_mut(), 0, 60_000) };
            (status, std::io::Error::last_os_error().kind())
        });
        let thread = told.recv().expect("its number");
        // It may not have come to its call yet.
        while !sleeper.is_finished() {
            interrupt(thread);
            std::thread::yield_now();
        }
        assert_eq!(sleeper.join().expect("ends"), (-1, std::io::ErrorKind::Interrupted));
        interrupt(thread);
    }
}
