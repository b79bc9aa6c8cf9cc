//! Direct system calls: clock, timer slack, signals, resource limits, socket errors and resets.

#![expect(unsafe_code, reason = "the kernel is reached through libc")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use glommio::net::TcpStream;
use rustix::net::connect_unspec;
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

/// Sets this thread's timer slack to 1 ns; the default of 50 µs would make every hold up to 50 µs
/// late.
pub(crate) fn set_timer_slack() {
    // SAFETY: PR_SET_TIMERSLACK takes one number and touches no memory of ours. It fails only for
    // threads under a real-time policy, which have no slack to begin with.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64) };
}

/// Makes SIGURG interrupt a thread's current system call, and do nothing else. By default it is
/// ignored and interrupts nothing, so a stray one does no harm.
pub(crate) fn make_interruptible() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: a zeroed sigaction has no flags, mask or restorer; the handler touches nothing, so it
    // may run at any time on any thread; the pointer is to a live value of this frame.
    let status = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut())
    };
    assert_eq!(status, 0, "SIGURG may be handled");
}

/// The kernel's ID of this thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: the call takes nothing and can't fail.
    unsafe { libc::gettid() }
}

/// Interrupts the system call of a thread of this process; does nothing if the thread has ended.
pub(crate) fn interrupt(thread: i32) {
    // SAFETY: the call takes three numbers and touches no memory of ours; if the thread is gone, it
    // fails.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGURG) };
}

/// The soft limit on locked memory, bytes; `None` if unlimited.
pub(crate) fn memlock_limit_bytes() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Creates this many rings at once and closes them: shows whether the kernel allows a process that
/// many.
///
/// # Errors
/// The kernel's refusal of one of them.
pub(crate) fn try_rings(count: usize) -> io::Result<()> {
    /// The size of the kernel's `struct io_uring_params`, in words of 32 bits.
    const PARAMS_WORDS: usize = 30;
    let ring = |_| {
        let mut params = [0_u32; PARAMS_WORDS];
        // SAFETY: the kernel reads and writes the parameters, which live in this frame, and nothing
        // else of ours.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) };
        let fd = RawFd::try_from(fd).expect("a descriptor, or -1");
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    (0..count).map(ring).collect::<io::Result<Vec<OwnedFd>>>().map(drop)
}

/// Raises this process's soft limit on open files to the hard limit.
pub(crate) fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If that fails, each connection that gets no descriptor is counted.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Whether the socket has a pending error, such as a reset by the peer. Clears it.
pub(crate) fn has_error(stream: &TcpStream) -> bool {
    !matches!(SockRef::from(&descriptor(stream)).take_error(), Ok(None))
}

/// Resets the connection, now. Closing a socket that doesn't linger would reset it too, but only
/// once the ring lets go of it.
pub(crate) fn reset(stream: &TcpStream) {
    connect_unspec(descriptor(stream)).expect("a TCP socket can be disconnected");
}

fn descriptor(stream: &TcpStream) -> BorrowedFd<'_> {
    // SAFETY: the stream owns the descriptor and outlives the borrow.
    unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_interrupted_thread_leaves_its_system_call() {
        make_interruptible();
        let (sender, receiver) = mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            sender.send(thread_id()).expect("the receiver is alive");
            // SAFETY: no descriptors are passed, so no memory of ours is touched.
            let status = unsafe { libc::poll(std::ptr::null_mut(), 0, 60_000) };
            (status, std::io::Error::last_os_error().kind())
        });
        let thread = receiver.recv().expect("a thread ID");
        // The thread may not have entered the call yet.
        while !sleeper.is_finished() {
            interrupt(thread);
            std::thread::yield_now();
        }
        assert_eq!(sleeper.join().expect("the thread ends"), (-1, std::io::ErrorKind::Interrupted));
        interrupt(thread);
    }
}
