//! The sample of requests for which the kernel stamps when they left the host.
//!
//! Each shard samples the first request and then one in N; if several leave in one send, the last
//! of them. The stamp waits in the socket's error queue and is read when its request ends: a
//! response can't come before its request has left. These stamps show how early `sent` is.

use std::num::NonZeroU32;

use uring::receive_stamps::ReceiveStamps;
use uring::send_stamps::{count_bytes, left_at};

use super::clock::Clock;
use super::connection::Connection;
use super::socket::Socket;

/// Picks the sampled requests.
pub(super) struct SendSample {
    /// The N of one in N; `None` for no sample.
    one_in: Option<NonZeroU32>,
    /// Requests to skip before the next sampled one.
    before: u64,
}

impl SendSample {
    /// Samples one in N requests, or none.
    pub(super) fn new(one_in: Option<NonZeroU32>) -> SendSample {
        SendSample { one_in, before: 0 }
    }

    /// A socket is connected, and `receives` stamps what it receives: has its send stamps
    /// identified by byte.
    pub(super) fn expect(&self, socket: &Socket, receives: ReceiveStamps) {
        if self.one_in.is_some() {
            // A socket that has already been reset refuses, and its requests are of no use.
            let _ = count_bytes(socket.fd, receives);
        }
    }

    /// True if a send of this many queued requests, which is about to leave, carries a sampled one.
    #[inline]
    pub(super) fn take(&mut self, connection: &mut Connection, requests: usize) -> bool {
        let Some(one_in) = self.one_in else { return false };
        let requests = requests as u64;
        let is_sampled = self.before < requests;
        if is_sampled {
            self.before += u64::from(one_in.get());
            let Connection { socket, exchanges, .. } = connection;
            socket.sample(exchanges.last().number);
        }
        self.before = self.before.saturating_sub(requests);
        is_sampled
    }
}

/// When a sampled request that has ended left the host, ns since the epoch, or `None` inside if the
/// kernel didn't stamp it; `None` for a request that isn't sampled.
#[inline]
pub(super) fn read(socket: &mut Socket, clock: &Clock, number: u64) -> Option<Option<u64>> {
    let last = socket.take_sample(number)?;
    Some(left_at(socket.fd, last).and_then(|wall_ns| clock.since_epoch_ns(wall_ns)))
}
