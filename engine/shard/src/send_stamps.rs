//! The sample of requests for which the kernel stamps when they left the host.
//!
//! Each shard takes the first request and then every so many; where several leave in one send, the
//! last of them. The stamp waits in the socket's error queue and is read when its request ends: a
//! response can't come before its request has left. These stamps show how early `sent` is.

use std::num::NonZeroU32;

use uring::receive_stamps::ReceiveStamps;
use uring::send_stamps::{count_bytes, left_at};

use super::clock::Clock;
use super::connection::Connection;
use super::socket::Socket;

/// Which requests are of the sample.
pub(super) struct SendSample {
    /// One in so many; `None` for no sample.
    one_in: Option<NonZeroU32>,
    /// Requests to send before the next.
    before: u64,
}

impl SendSample {
    /// One in so many requests, or none.
    pub(super) fn new(one_in: Option<NonZeroU32>) -> SendSample {
        SendSample { one_in, before: 0 }
    }

    /// A socket is connected, and what it receives is stamped by `receives`: its stamps are to say
    /// which bytes they are of.
    pub(super) fn expect(&self, socket: &Socket, receives: ReceiveStamps) {
        if self.one_in.is_some() {
            // A socket that has already been reset refuses, and its requests are of no use.
            let _ = count_bytes(socket.fd, receives);
        }
    }

    /// Whether a send of so many queued requests, which is about to leave, carries one of the
    /// sample.
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

/// When a request of the sample that has ended left the host, ns since the epoch, where the kernel
/// says so; `None` for one that isn't of the sample.
#[inline]
pub(super) fn read(socket: &mut Socket, clock: &Clock, number: u64) -> Option<Option<u64>> {
    let last = socket.take_sample(number)?;
    Some(left_at(socket.fd, last).and_then(|wall_ns| clock.since_epoch_ns(wall_ns)))
}
