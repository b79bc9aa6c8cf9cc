//! Receive stamps: when the kernel took in the last segment of what a receive returns.
//!
//! `SO_TIMESTAMPING` on the socket, and a multishot `recvmsg` with room for one control message:
//! each buffer then begins with a header and that message. See the kernel's
//! Documentation/networking/timestamping.rst.
#![expect(unsafe_code, reason = "recvmsg has no safe form that gives receive stamps")]

use std::io;
use std::os::fd::RawFd;

use zerocopy::{FromBytes, Immutable};

use super::option::set_option;
use crate::sys::units::SECOND_NS;

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The bytes; none where the peer has closed its side.
    pub bytes: &'a [u8],
    /// When their last segment arrived, ns of CLOCK_REALTIME; `None` where the kernel didn't say.
    pub wall_ns: Option<u64>,
}

/// What stands before the bytes in the buffer of a stamped receive: `struct io_uring_recvmsg_out`,
/// then a control message that holds `struct scm_timestamping`.
#[derive(FromBytes, Immutable)]
#[repr(C)]
struct Preamble {
    name_length: u32,
    control_length: u32,
    payload_length: u32,
    flags: u32,
    control: StampMessage,
}

#[derive(FromBytes, Immutable)]
#[repr(C)]
struct StampMessage {
    length: u64,
    level: i32,
    kind: i32,
    software_s: i64,
    software_ns: i64,
    unused: [i64; 2],
    hardware: [i64; 2],
}

/// The header that a stamped receive asks for: no name, one control message. Boxed by its owner,
/// since the kernel reads it whenever the receive is armed.
pub(super) fn message_header() -> libc::msghdr {
    // SAFETY: all zeroes is a message header without name, buffers or control message.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_controllen = size_of::<StampMessage>();
    header
}

/// Takes apart a buffer that a stamped receive filled.
#[inline]
pub(super) fn chunk(buffer: &[u8]) -> Chunk<'_> {
    let (preamble, payload) =
        Preamble::read_from_prefix(buffer).expect("the kernel writes the preamble first");
    let length = usize::try_from(preamble.payload_length).expect("a part of the buffer");
    Chunk { bytes: &payload[..length], wall_ns: stamp(&preamble) }
}

#[inline]
fn stamp(preamble: &Preamble) -> Option<u64> {
    let is_there = usize::try_from(preamble.control_length) == Ok(size_of::<StampMessage>());
    if is_there { preamble.control.wall_ns() } else { None }
}

impl StampMessage {
    /// The stamp, ns of CLOCK_REALTIME; `None` if it is another message, or has none.
    #[inline]
    fn wall_ns(&self) -> Option<u64> {
        let is_stamp = self.level == libc::SOL_SOCKET && self.kind == libc::SCM_TIMESTAMPING;
        let seconds = u64::try_from(self.software_s).ok().filter(|_| is_stamp)?;
        let wall_ns = seconds.checked_mul(SECOND_NS)? + u64::try_from(self.software_ns).ok()?;
        Some(wall_ns).filter(|wall_ns| 0 < *wall_ns)
    }
}

/// Receives from a socket without a ring, and says whether the kernel stamped what came.
///
/// # Errors
/// The kernel's error.
pub(crate) fn receive_is_stamped(fd: RawFd) -> io::Result<bool> {
    let mut bytes = [0_u8; 64];
    // Words, because a control message is aligned to them.
    let mut control = [0_u64; size_of::<StampMessage>() / size_of::<u64>()];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut header = message_header();
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    // SAFETY: the header points to the buffers above, of the lengths that it states, and they live
    // until the call returns.
    if unsafe { libc::recvmsg(fd, &raw mut header, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let message: StampMessage = zerocopy::transmute!(control);
    Ok(header.msg_controllen == size_of::<StampMessage>() && message.wall_ns().is_some())
}

const _: () = assert!(size_of::<StampMessage>() == 64);

/// Asks the kernel to stamp what a socket receives.
///
/// # Errors
/// The kernel's error where it can't.
pub(crate) fn stamp_receives(fd: RawFd) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    let flags = libc::c_int::try_from(flags).expect("two low bits");
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)
}
