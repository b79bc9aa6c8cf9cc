//! Receive stamps: when the kernel took in the last segment of the data that a receive returns.
//!
//! Latencies that end at this stamp contain neither the generator's wake-up nor its queue.
//! `SO_TIMESTAMPING` is set on the socket, and a multishot `recvmsg` has room for one control
//! message: each buffer then begins with a header and that message. See the kernel's
//! Documentation/networking/timestamping.rst.
#![expect(unsafe_code, reason = "recvmsg has no safe form that gives receive stamps")]

use std::io;
use std::os::fd::RawFd;

use units::SECOND_NS;
use zerocopy::{FromBytes, Immutable};

use super::option::set_option;

/// The data of one receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The bytes; empty if the peer has closed its side.
    pub bytes: &'a [u8],
    /// When their last segment arrived, ns of CLOCK_REALTIME; `None` if the kernel didn't stamp it.
    pub wall_ns: Option<u64>,
}

/// How many segments a socket has received out of order. The stamp of a receive is that of the
/// segment with the last byte, even if an earlier one arrived later, after a loss.
pub fn out_of_order(fd: RawFd) -> u32 {
    // SAFETY: all of its fields are numbers, which may be zero.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of_val(&info)).expect("some hundred bytes");
    let (value, size) = ((&raw mut info).cast(), &raw mut length);
    // SAFETY: the pointers are those of a live structure and of its size.
    let result = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, value, size) };
    if result == 0 { info.tcpi_rcv_ooopack } else { 0 }
}

/// What stamps the data that a socket receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveStamps {
    /// Nothing.
    Off,
    /// The kernel.
    Software,
}

impl ReceiveStamps {
    /// The socket's flags.
    pub(super) fn flags(self) -> u32 {
        match self {
            ReceiveStamps::Off => 0,
            ReceiveStamps::Software => {
                libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE
            }
        }
    }
}

/// The data before the bytes in the buffer of a stamped receive: `struct io_uring_recvmsg_out`,
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

/// The control message with a stamp.
#[derive(FromBytes, Immutable)]
#[repr(C)]
pub(super) struct StampMessage {
    length: u64,
    level: i32,
    kind: i32,
    software: Time,
    // The kernel's second time is unused; the third is the interface's.
    others: [Time; 2],
}

/// `struct timespec`.
#[derive(FromBytes, Immutable)]
#[repr(C)]
struct Time {
    seconds: i64,
    ns: i64,
}

/// The header of a stamped receive: no name, one control message. Boxed by its owner, since the
/// kernel reads it whenever the receive is armed.
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
    let is_there = usize::try_from(preamble.control_length) == Ok(size_of::<StampMessage>());
    let message = is_there.then_some(&preamble.control);
    Chunk { bytes: &payload[..length], wall_ns: message.and_then(StampMessage::wall_ns) }
}

impl StampMessage {
    /// The kernel's stamp, ns of CLOCK_REALTIME; `None` if this is another message, or has no
    /// stamp.
    #[inline]
    pub(super) fn wall_ns(&self) -> Option<u64> {
        let is_stamp = self.level == libc::SOL_SOCKET && self.kind == libc::SCM_TIMESTAMPING;
        self.software.ns().filter(|_| is_stamp)
    }
}

impl Time {
    /// The whole time in ns; `None` if it is zero.
    #[inline]
    fn ns(&self) -> Option<u64> {
        let whole_ns = u64::try_from(self.seconds).ok()?.checked_mul(SECOND_NS)?;
        let ns = whole_ns.checked_add(u64::try_from(self.ns).ok()?)?;
        Some(ns).filter(|ns| 0 < *ns)
    }
}

/// Receives from a socket without a ring; returns whether the kernel stamped the data.
///
/// # Errors
/// The kernel's error.
pub fn receive_is_stamped(fd: RawFd) -> io::Result<bool> {
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

/// Has the data that a socket receives stamped.
///
/// # Errors
/// The kernel's error if it can't.
pub fn stamp_receives(fd: RawFd, stamps: ReceiveStamps) -> io::Result<()> {
    let flags = libc::c_int::try_from(stamps.flags()).expect("a few low bits");
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL_NS: u64 = 1_700_000_000_000_000_123;

    /// The contents that the kernel writes into a buffer: a header, a control message with this
    /// stamp, and a payload.
    fn buffer(software_ns: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [0_u32, 64, 5, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(64_u64.to_ne_bytes());
        bytes.extend(libc::SOL_SOCKET.to_ne_bytes());
        bytes.extend(libc::SCM_TIMESTAMPING.to_ne_bytes());
        for ns in [software_ns, 0, 0] {
            bytes.extend((ns / SECOND_NS).to_ne_bytes());
            bytes.extend((ns % SECOND_NS).to_ne_bytes());
        }
        bytes.extend(b"bytes");
        bytes
    }

    #[test]
    fn a_buffer_is_taken_apart_into_its_stamps_and_its_bytes() {
        let none = Chunk { bytes: b"bytes", wall_ns: None };
        assert_eq!(chunk(&buffer(WALL_NS)), Chunk { wall_ns: Some(WALL_NS), ..none });
        assert_eq!(chunk(&buffer(0)), none, "no stamp");
        let mut other = buffer(WALL_NS);
        other[28..32].copy_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
        assert_eq!(chunk(&other), none, "another control message");
        let mut short = buffer(WALL_NS);
        short[4..8].copy_from_slice(&0_u32.to_ne_bytes());
        assert_eq!(chunk(&short), none, "no control message");
    }
}
