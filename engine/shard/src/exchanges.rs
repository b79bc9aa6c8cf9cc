//! The unfinished requests of a connection, in the order in which they began.
//!
//! Each is identified by its number: every event, outcome and stamp refers to slot and number.
//! HTTP/1 answers the oldest first, so that one is stored in place and the others queue behind it,
//! and looking it up takes one comparison; a protocol that answers in any order finds the others by
//! number.

use std::collections::VecDeque;
use std::mem::offset_of;

use load::DueRequest;
use record::stamps::Stamps;

/// A request on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Its stamps, and its step.
    pub stamps: Stamps,
    /// Its number in the run.
    pub number: u64,
}

/// The requests of a connection.
///
/// The counts and the oldest request, all that a request without others needs, come last: see
/// `Connection`.
#[derive(Debug)]
#[repr(C)]
pub struct Exchanges {
    /// The requests after the oldest, in order.
    behind: VecDeque<Exchange>,
    /// The number of answers in the window that came with other requests in flight, since the
    /// connection was last empty. A response that the target left out, or sent twice, shifts all
    /// these to a neighbouring request.
    shiftable: u64,
    /// The value of `served` when a request last began behind another: if it has grown, the
    /// connection has been empty since.
    crowded: u32,
    /// How many requests its last send carried, if several.
    last_send: u16,
    /// The oldest.
    oldest: Exchange,
    /// Requests that the socket has carried; saturates.
    served: u32,
    /// The number of unfinished requests.
    open: u16,
    /// How many of them, at the end, leave with the next system call.
    queued: u16,
}

/// Offset of the data that every request needs.
pub const EXCHANGES_HOT: usize = offset_of!(Exchanges, oldest);

impl Exchanges {
    /// Empty, with room for this many.
    pub fn new(most: usize) -> Exchanges {
        Exchanges {
            behind: VecDeque::with_capacity(most - 1),
            shiftable: 0,
            crowded: 0,
            last_send: 0,
            oldest: Exchange::default(),
            served: 0,
            open: 0,
            queued: 0,
        }
    }

    /// Starts over for a new socket.
    pub fn reset(&mut self) {
        assert_eq!(self.open, 0, "those of the last socket have ended");
        (self.served, self.shiftable, self.crowded) = (0, 0, 0);
    }

    /// The number of unfinished requests.
    #[inline]
    pub fn open(&self) -> usize {
        usize::from(self.open)
    }

    /// How many of them leave with the next system call.
    #[inline]
    pub fn queued(&self) -> usize {
        usize::from(self.queued)
    }

    /// How many of them have been sent.
    #[inline]
    pub fn in_flight(&self) -> usize {
        usize::from(self.open - self.queued)
    }

    /// The oldest. If there is none, the last one that there was.
    #[inline]
    pub fn oldest(&self) -> &Exchange {
        &self.oldest
    }

    /// The request with this number.
    #[inline(always)]
    pub fn get(&self, number: u64) -> &Exchange {
        if self.oldest.number == number {
            return &self.oldest;
        }
        self.get_behind(number)
    }

    #[cold]
    fn get_behind(&self, number: u64) -> &Exchange {
        let behind = self.behind.iter().find(|exchange| exchange.number == number);
        behind.expect("a request of the connection")
    }

    /// The newest. If there is none, the last one that there was.
    pub fn last(&self) -> &Exchange {
        self.behind.back().unwrap_or(&self.oldest)
    }

    /// The requests that leave with the next system call, in order.
    #[inline]
    pub fn waiting(&self) -> impl Iterator<Item = &Exchange> {
        let all = std::iter::once(&self.oldest).chain(&self.behind);
        all.take(self.open()).skip(self.in_flight())
    }

    /// Requests that the socket has carried.
    #[inline]
    pub fn served(&self) -> u32 {
        self.served
    }

    /// Begins a request of this step, behind the others.
    #[inline]
    pub fn begin(&mut self, due: DueRequest, step: u16) {
        let DueRequest { intended_ns, number, noticed_ns, waited } = due;
        let stamps = Stamps { intended_ns, noticed_ns, sent_ns: 0, waited, step };
        let exchange = Exchange { stamps, number };
        if self.open == 0 {
            self.oldest = exchange;
            self.served = self.served.saturating_add(1);
        } else {
            self.begin_behind(exchange);
        }
        self.open += 1;
        self.queued += 1;
    }

    fn begin_behind(&mut self, exchange: Exchange) {
        if self.crowded != self.served {
            // As many responses as requests have come, and none since.
            self.shiftable = 0;
        }
        self.behind.push_back(exchange);
        self.served = self.served.saturating_add(1);
        self.crowded = self.served;
    }

    /// All queued requests leave now, in one send; returns their number.
    #[inline]
    pub fn leave(&mut self) -> usize {
        if 1 < self.open {
            self.last_send = self.queued;
        }
        self.queued()
    }

    /// True if the last send carried several.
    #[inline]
    pub fn left_together(&self) -> bool {
        1 < self.open && 1 < self.last_send
    }

    /// The first queued request leaves with the next system call; returns its stamps.
    #[inline]
    pub fn send(&mut self) -> &mut Stamps {
        let ahead = self.in_flight();
        self.queued = self.queued.checked_sub(1).expect("only a queued request can be sent");
        match ahead {
            0 => &mut self.oldest.stamps,
            _ => &mut self.behind[ahead - 1].stamps,
        }
    }

    /// The first queued request isn't sent after all; returns it.
    pub fn withdraw(&mut self) -> Exchange {
        let ahead = self.in_flight();
        self.queued = self.queued.checked_sub(1).expect("only a queued request can be withdrawn");
        self.served -= 1;
        self.crowded = self.crowded.min(self.served);
        let Some(behind) = ahead.checked_sub(1) else {
            let oldest = self.oldest;
            self.take(oldest.number);
            return oldest;
        };
        self.open -= 1;
        self.behind.remove(behind).expect("each request is kept")
    }

    /// A sent request has ended; returns its stamps.
    #[inline]
    pub fn end(&mut self, number: u64) -> Stamps {
        assert!(self.queued < self.open, "only a request that was sent can end");
        self.take(number)
    }

    #[inline(always)]
    fn take(&mut self, number: u64) -> Stamps {
        self.open -= 1;
        let ended = self.oldest;
        if ended.number != number {
            return self.take_behind(number);
        }
        if 0 < self.open {
            self.oldest = self.behind.pop_front().expect("each request is kept");
        }
        ended.stamps
    }

    #[cold]
    fn take_behind(&mut self, number: u64) -> Stamps {
        let at = self.behind.iter().position(|exchange| exchange.number == number);
        let taken = at.and_then(|at| self.behind.remove(at));
        taken.expect("only a request of the connection can end").stamps
    }

    /// A request of the window is being answered.
    #[inline]
    pub fn answered(&mut self) {
        // A request alone can't have been mistaken for another.
        if 1 < self.open {
            self.shiftable += 1;
        }
    }

    /// The answers that may belong to other requests, once the connection's responses have turned
    /// out not to match its requests.
    pub fn take_shiftable(&mut self) -> u64 {
        let shiftable = std::mem::take(&mut self.shiftable);
        if self.crowded == self.served { shiftable } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::due_at;

    /// Begins the requests with these numbers, each due at as many ns.
    fn begin(exchanges: &mut Exchanges, numbers: std::ops::RangeInclusive<u64>) {
        for number in numbers {
            exchanges.begin(DueRequest { number, ..due_at(number) }, 0);
        }
    }

    #[test]
    fn requests_end_in_the_order_in_which_they_were_begun() {
        let mut exchanges = Exchanges::new(3);
        begin(&mut exchanges, 1..=2);
        exchanges.send().sent_ns = 10;
        exchanges.send().sent_ns = 20;
        begin(&mut exchanges, 3..=3);
        let ended = |exchanges: &mut Exchanges| {
            let stamps = exchanges.end(exchanges.oldest().number);
            (stamps.intended_ns, stamps.sent_ns)
        };
        assert_eq!((exchanges.open(), exchanges.queued()), (3, 1));
        assert_eq!([ended(&mut exchanges), ended(&mut exchanges)], [(1, 10), (2, 20)]);
        assert_eq!((exchanges.open(), exchanges.in_flight()), (1, 0));
        exchanges.send().sent_ns = 30;
        assert_eq!((ended(&mut exchanges), exchanges.open()), ((3, 30), 0));
    }

    #[test]
    fn requests_end_in_any_order_by_their_numbers() {
        let mut exchanges = Exchanges::new(4);
        begin(&mut exchanges, 1..=4);
        (1..=4).for_each(|sent_ns| exchanges.send().sent_ns = 10 * sent_ns);
        for (number, oldest) in [(3, 1), (1, 2), (2, 4)] {
            let stamps = exchanges.end(number);
            assert_eq!((stamps.intended_ns, stamps.sent_ns), (number, 10 * number));
            assert_eq!(exchanges.oldest().number, oldest);
        }
        begin(&mut exchanges, 5..=5);
        exchanges.send().sent_ns = 50;
        assert_eq!([5, 4].map(|number| exchanges.end(number).sent_ns), [50, 40]);
        assert_eq!((exchanges.open(), exchanges.served()), (0, 5));
    }

    #[test]
    fn queued_requests_are_taken_back_in_order_behind_those_that_were_sent() {
        let mut exchanges = Exchanges::new(4);
        begin(&mut exchanges, 1..=1);
        exchanges.send();
        begin(&mut exchanges, 2..=4);
        let taken = [(); 3].map(|()| exchanges.withdraw().stamps.intended_ns);
        assert_eq!((taken, exchanges.open(), exchanges.served()), ([2, 3, 4], 1, 1));
        assert_eq!((exchanges.in_flight(), exchanges.end(1).intended_ns), (1, 1));
        begin(&mut exchanges, 5..=6);
        let taken = [(); 2].map(|()| exchanges.withdraw().stamps.intended_ns);
        assert_eq!((taken, exchanges.open(), exchanges.served()), ([5, 6], 0, 1));
    }

    #[test]
    fn answers_may_be_shifted_until_a_request_begins_without_others() {
        let mut exchanges = Exchanges::new(3);
        let answer = |exchanges: &mut Exchanges, number| {
            exchanges.answered();
            exchanges.end(number);
        };
        begin(&mut exchanges, 1..=3);
        (0..3).for_each(|_| _ = exchanges.send());
        (1..=2).for_each(|number| answer(&mut exchanges, number));
        begin(&mut exchanges, 4..=4);
        exchanges.send();
        answer(&mut exchanges, 3);
        answer(&mut exchanges, 4);
        assert_eq!((exchanges.take_shiftable(), exchanges.take_shiftable()), (3, 0));
        for last in [6, 5] {
            begin(&mut exchanges, 5..=last);
            (5..=last).for_each(|_| _ = exchanges.send());
            (5..=last).for_each(|number| answer(&mut exchanges, number));
        }
        assert_eq!(exchanges.take_shiftable(), 0, "the last one was alone");
    }
}
