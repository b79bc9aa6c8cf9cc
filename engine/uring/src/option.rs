//! Socket options that take a number and have no safe form.
#![expect(unsafe_code, reason = "setsockopt takes a pointer")]

use std::io;
use std::os::fd::RawFd;

/// Sets an option of a socket.
///
/// # Errors
/// The kernel's error where it refuses.
pub(super) fn set_option(
    fd: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).expect("four bytes");
    // SAFETY: the pointer and its size are those of a live number.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
