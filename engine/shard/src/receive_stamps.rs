//! Tells which kernel stamps of received data show when all of it had arrived.
//!
//! A receive has the stamp of the segment with its last byte. Segments that wait for an earlier
//! one, lost or overtaken, keep the stamps of their own arrival.

use uring::receive_stamps::out_of_order;

use super::clock::Clock;
use super::socket::Socket;

/// True if segments may have arrived on the socket after the stamped one: it has received some out
/// of order since the last query. It is queried when a stamp is oddly old.
#[inline]
pub(super) fn is_doubted(socket: &mut Socket, clock: &Clock, kernel_ns: Option<u64>) -> bool {
    let Some(kernel_ns) = kernel_ns else { return false };
    if clock.is_oddly_old(kernel_ns) {
        let now = out_of_order(socket.fd);
        if socket.out_of_order < now {
            (socket.out_of_order, socket.out_of_order_ns) = (now, clock.handled_ns());
            socket.reordered = true;
        }
    }
    socket.reordered && kernel_ns < socket.out_of_order_ns
}
