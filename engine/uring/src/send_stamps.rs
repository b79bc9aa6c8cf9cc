//! Send stamps: when the last byte of a request left the host, requested from the kernel for single
//! requests.
//!
//! A send with a control message makes the kernel put a stamp into the socket's error queue as the
//! driver takes its last byte. On a socket that counts its bytes, the stamp identifies that byte.
//! See the kernel's Documentation/networking/timestamping.rst.
//!
//! The stamp is there when the response is, and is read then, with a system call of its own, which
//! by default one request in a thousand pays for. The ring's command for it
//! (`SOCKET_URING_OP_TX_TIMESTAMP`, Linux 6.16) needs completions of 32 bytes, and the `io-uring`
//! crate doesn't mix sizes: every completion would pay, and a separate ring would cost a system
//! call again. A stamp that waits in the error queue wakes a poll of the socket, but leaves a
//! multishot receive armed, which a test checks.
#![expect(unsafe_code, reason = "the error queue is read by recvmsg, which has no safe form")]

use std::io;
use std::os::fd::RawFd;

use zerocopy::{FromBytes, Immutable};

use super::option::set_option;
use super::payload::Payload;
use super::receive_stamps::{ReceiveStamps, StampMessage, message_header};

/// The most messages to take from an error queue at once: a retransmitted request is stamped again.
const READS_MAX: usize = 16;
/// Words of a buffer for the control messages of a stamp, including the sender's address, which the
/// kernel appends.
const CONTROL_WORDS: usize = 24;
/// The stamp is of the time when the driver took the byte, not an earlier or a later one.
const SCM_TSTAMP_SND: u32 = 0;

/// Sends of each payload once, twice, and so on, each with the control message that asks for a
/// stamp. They never change, so any number of operations may use them at a time.
#[derive(Default)]
pub(super) struct StampedSends(Vec<Box<[StampedSend]>>);

/// One of them. The header points to the other two, so it must stay where it is.
struct StampedSend {
    header: libc::msghdr,
    part: libc::iovec,
    control: Asking,
}

/// The control message that asks for a stamp.
#[repr(C)]
struct Asking {
    length: usize,
    level: i32,
    kind: i32,
    flags: u32,
    padding: u32,
}

impl StampedSends {
    /// Sends of these payloads, in every number of copies. The payloads must stay where they are as
    /// long as the sends are used.
    pub(super) fn new(payloads: &[Payload]) -> StampedSends {
        StampedSends(payloads.iter().map(StampedSends::of).collect())
    }

    fn of(payload: &Payload) -> Box<[StampedSend]> {
        let send = |times: usize| {
            let (bytes, length) = payload.part(0..times * payload.len());
            let control = Asking {
                length: std::mem::offset_of!(Asking, padding),
                level: libc::SOL_SOCKET,
                kind: libc::SO_TIMESTAMPING,
                flags: libc::SOF_TIMESTAMPING_TX_SOFTWARE,
                padding: 0,
            };
            let iov_len = usize::try_from(length).expect("a pointer has 64 bits");
            let part = libc::iovec { iov_base: bytes.cast_mut().cast(), iov_len };
            StampedSend { header: message_header(), part, control }
        };
        let mut sends: Box<[StampedSend]> = (1..=payload.copies()).map(send).collect();
        for send in &mut sends {
            send.header.msg_iov = &raw mut send.part;
            send.header.msg_iovlen = 1;
            send.header.msg_control = (&raw mut send.control).cast();
            send.header.msg_controllen = size_of::<Asking>();
        }
        sends
    }

    /// The header for sending `count` copies of payload number `of`; it is valid as long as this
    /// value.
    pub(super) fn header(&self, of: u16, count: usize) -> *const libc::msghdr {
        &raw const self.0[usize::from(of)][count - 1].header
    }
}

/// The contents of a stamp's control messages: the times, then `struct sock_extended_err`.
#[derive(FromBytes, Immutable)]
#[repr(C)]
struct SendMessage {
    times: StampMessage,
    length: u64,
    level: i32,
    kind: i32,
    errno: u32,
    origin: u8,
    unused: [u8; 3],
    info: u32,
    data: u32,
}

impl SendMessage {
    /// The byte that left the host, and when, ns of CLOCK_REALTIME; `None` for another message.
    fn stamp(&self) -> Option<(u32, u64)> {
        let is_error = [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)]
            .contains(&(self.level, self.kind));
        let is_send = self.origin == libc::SO_EE_ORIGIN_TIMESTAMPING && self.info == SCM_TSTAMP_SND;
        Some((self.data, self.times.wall_ns().filter(|_| is_error && is_send)?))
    }
}

/// Makes a connected socket that hasn't sent anything yet count its bytes, so that a stamp
/// identifies its byte; what it receives is stamped as before, by `receives`.
///
/// # Errors
/// The kernel's error if it can't, or if the socket is no longer connected.
pub fn count_bytes(fd: RawFd, receives: ReceiveStamps) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY
        | receives.flags();
    let flags = libc::c_int::try_from(flags).expect("a few low bits");
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)
}

/// Sends bytes without a ring, and has the kernel stamp the last.
///
/// # Errors
/// The kernel's error.
pub fn send_stamped(fd: RawFd, bytes: &[u8]) -> io::Result<()> {
    let payloads = [Payload::copied(bytes, b"", 1)?];
    let sends = StampedSends::new(&payloads);
    // SAFETY: the header points to the payload and to parts of `sends`, all of which live until the
    // call returns; the kernel only reads them.
    let result = unsafe { libc::sendmsg(fd, sends.header(0, 1), libc::MSG_NOSIGNAL) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// When a byte of a socket first left the host, ns of CLOCK_REALTIME; `None` if the kernel hasn't
/// stamped it. Bytes count from 0, modulo 2^32. Stamps of other bytes are dropped: those of earlier
/// ones that were retransmitted.
pub fn left_at(fd: RawFd, byte: u32) -> Option<u64> {
    for _ in 0..READS_MAX {
        let mut control = [0_u64; CONTROL_WORDS];
        let mut header = message_header();
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the header points to the control buffer above, of the length that it states, and
        // both live until the call returns.
        if unsafe { libc::recvmsg(fd, &raw mut header, flags) } < 0 {
            return None;
        }
        let message = SendMessage::read_from_prefix(zerocopy::IntoBytes::as_bytes(&control));
        let (message, _) = message.expect("the buffer is longer");
        if let Some((_, wall_ns)) = message.stamp().filter(|(of, _)| *of == byte) {
            return Some(wall_ns);
        }
    }
    None
}
