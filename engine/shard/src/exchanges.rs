//! The unfinished requests of a connection, in the order in which they began.
//!
//! Each is identified by its number: every event, outcome and stamp refers to slot and number.
//! HTTP/1 answers the oldest first, so that one is stored in place and the others queue behind it,
//! and looking it up takes one comparison. HTTP/2 answers in any order, and finds the others by
//! number (`behind`).

use std::collections::VecDeque;
use std::mem::offset_of;

use load::DueRequest;
use record::stamps::Stamps;

use super::behind::Behind;
use super::exchange::Exchange;

/// The requests of a connection.
///
/// The counts and the oldest request, all that a request without others needs, come last: see
/// `Connection`.
#[derive(Debug)]
#[repr(C)]
pub struct Exchanges {
    /// The requests after the oldest, in order.
    behind: Others,
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

/// The requests after the oldest.
#[derive(Debug)]
enum Others {
    /// They end in order.
    InOrder(VecDeque<Exchange>),
    /// They end in any order.
    InAnyOrder(Box<Behind>),
}

impl Others {
    fn pop(&mut self) -> Option<Exchange> {
        match self {
            Others::InOrder(queue) => queue.pop_front(),
            Others::InAnyOrder(behind) => behind.pop(),
        }
    }
}

/// Offset of the data that every request needs.
pub const EXCHANGES_HOT: usize = offset_of!(Exchanges, oldest);

impl Exchanges {
    /// Empty, with room for this many, which end in the order in which they begin.
    pub fn new(most: usize) -> Exchanges {
        Exchanges::with(Others::InOrder(VecDeque::with_capacity(most - 1)))
    }

    /// The same for requests that end in any order.
    pub fn in_any_order(most: usize) -> Exchanges {
        Exchanges::with(Others::InAnyOrder(Box::new(Behind::new(most - 1))))
    }

    fn with(behind: Others) -> Exchanges {
        Exchanges {
            behind,
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
        let behind = match &self.behind {
            Others::InOrder(queue) => queue.iter().find(|exchange| exchange.number == number),
            Others::InAnyOrder(behind) => behind.get(number),
        };
        behind.expect("a request of the connection")
    }

    /// The newest of requests that end in order. If there is none, the last one that there was.
    pub fn last(&self) -> &Exchange {
        match &self.behind {
            Others::InOrder(queue) => queue.back().unwrap_or(&self.oldest),
            Others::InAnyOrder(_) => &self.oldest,
        }
    }

    /// The requests that leave with the next system call, in order.
    #[inline]
    pub fn waiting(&self) -> impl Iterator<Item = &Exchange> {
        let is_first = self.in_flight() == 0 && 0 < self.open;
        let first = is_first.then_some(&self.oldest);
        let (in_order, in_any) = match &self.behind {
            Others::InOrder(queue) => (Some(queue), None),
            Others::InAnyOrder(behind) => (None, Some(behind.queued())),
        };
        let sent = self.in_flight().saturating_sub(1);
        let in_order = in_order.into_iter().flatten().skip(sent);
        first.into_iter().chain(in_order).chain(in_any.into_iter().flatten())
    }

    /// The requests that have been sent, in order.
    pub fn sent(&self) -> impl Iterator<Item = &Exchange> {
        let (in_order, in_any) = match &self.behind {
            Others::InOrder(queue) => (Some(queue), None),
            Others::InAnyOrder(behind) => (None, Some(behind.all())),
        };
        let behind = in_order.into_iter().flatten().chain(in_any.into_iter().flatten());
        std::iter::once(&self.oldest).chain(behind).take(self.in_flight())
    }

    /// Requests that the socket has carried.
    #[inline]
    pub fn served(&self) -> u32 {
        self.served
    }

    /// Begins a request, behind the others.
    #[inline]
    pub fn begin(&mut self, due: DueRequest) {
        let DueRequest { intended_ns, number, step, session, noticed_ns, waited } = due;
        let stamps = Stamps { intended_ns, noticed_ns, sent_ns: 0, waited, step, session };
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
        match &mut self.behind {
            Others::InOrder(queue) => queue.push_back(exchange),
            Others::InAnyOrder(behind) => behind.push(exchange),
        }
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
            _ => match &mut self.behind {
                Others::InOrder(queue) => &mut queue[ahead - 1].stamps,
                Others::InAnyOrder(behind) => {
                    &mut behind.send().expect("it is the first queued one").stamps
                }
            },
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
        let withdrawn = match &mut self.behind {
            Others::InOrder(queue) => queue.remove(behind),
            Others::InAnyOrder(behind) => {
                let number = behind.queued().next().map(|exchange| exchange.number);
                number.and_then(|number| behind.remove(number))
            }
        };
        withdrawn.expect("each request is kept")
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
            self.oldest = self.behind.pop().expect("each request is kept");
        }
        ended.stamps
    }

    #[cold]
    fn take_behind(&mut self, number: u64) -> Stamps {
        let taken = match &mut self.behind {
            Others::InOrder(queue) => {
                let at = queue.iter().position(|exchange| exchange.number == number);
                at.and_then(|at| queue.remove(at))
            }
            Others::InAnyOrder(behind) => behind.remove(number),
        };
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
            exchanges.begin(DueRequest { number, ..due_at(number) });
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
        for mut exchanges in [Exchanges::new(4), Exchanges::in_any_order(4)] {
            end_in_any_order(&mut exchanges);
        }
    }

    fn end_in_any_order(exchanges: &mut Exchanges) {
        begin(exchanges, 1..=4);
        (1..=4).for_each(|sent_ns| exchanges.send().sent_ns = 10 * sent_ns);
        assert!(exchanges.sent().map(|exchange| exchange.number).eq(1..=4));
        for (number, oldest) in [(3, 1), (1, 2), (2, 4)] {
            let stamps = exchanges.end(number);
            assert_eq!((stamps.intended_ns, stamps.sent_ns), (number, 10 * number));
            assert_eq!(exchanges.oldest().number, oldest);
        }
        begin(exchanges, 5..=5);
        exchanges.send().sent_ns = 50;
        assert_eq!([5, 4].map(|number| exchanges.end(number).sent_ns), [50, 40]);
        assert_eq!((exchanges.open(), exchanges.served()), (0, 5));
    }

    #[test]
    fn queued_requests_are_taken_back_in_order_behind_those_that_were_sent() {
        for mut exchanges in [Exchanges::new(4), Exchanges::in_any_order(4)] {
            take_back(&mut exchanges);
        }
    }

    fn take_back(exchanges: &mut Exchanges) {
        begin(exchanges, 1..=1);
        exchanges.send();
        begin(exchanges, 2..=4);
        assert!(exchanges.waiting().map(|exchange| exchange.number).eq(2..=4));
        assert!(exchanges.sent().map(|exchange| exchange.number).eq([1]));
        let taken = [(); 3].map(|()| exchanges.withdraw().stamps.intended_ns);
        assert_eq!((taken, exchanges.open(), exchanges.served()), ([2, 3, 4], 1, 1));
        assert_eq!((exchanges.in_flight(), exchanges.end(1).intended_ns), (1, 1));
        begin(exchanges, 5..=6);
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
