//! New sockets for the ring, TCP or Unix-domain: options set, bound to a source address if the plan
//! names one, not yet connected.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::option::set_option;
use super::receive_stamps::{ReceiveStamps, stamp_receives};

/// A kernel option that the libc crate doesn't name: first and last port of the socket's range, in
/// the lower and the upper half of a number.
const IP_LOCAL_PORT_RANGE: libc::c_int = 51;

/// Every port that the kernel may choose: the socket's range is clipped to the machine's.
const ANY_PORT: libc::c_int = 0xffff_0001_u32.cast_signed();

/// A socket that can be connected to `target`, from `source` if given, with these stamps on what it
/// receives.
///
/// # Errors
/// The kernel's error: no descriptor or memory left, the source isn't an address of this machine,
/// or there are no stamps.
pub fn new_socket(
    target: &SockAddr,
    source: Option<&SockAddr>,
    stamps: ReceiveStamps,
) -> io::Result<RawFd> {
    if target.is_unix() {
        return Ok(Socket::new(Domain::UNIX, Type::STREAM, None)?.into_raw_fd());
    }
    let domain = if target.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    // A request is a single send: Nagle's algorithm would only delay it.
    socket.set_tcp_nodelay(true)?;
    // With a range of its own, even the whole one, the kernel tries each port in turn. Without, it
    // tries every second one first: as soon as those are taken, each connect searches half the
    // range in vain. Kernels before 6.3 refuse the option.
    let _ = set_option(socket.as_raw_fd(), libc::IPPROTO_IP, IP_LOCAL_PORT_RANGE, ANY_PORT);
    if stamps != ReceiveStamps::Off {
        stamp_receives(socket.as_raw_fd(), stamps)?;
    }
    if let Some(source) = source {
        // The kernel picks the port at connect time, when the target is known: each target then has
        // the whole port range.
        set_option(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        socket.bind(source)?;
    }
    Ok(socket.into_raw_fd())
}
