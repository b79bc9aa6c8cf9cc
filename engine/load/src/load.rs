//! What drives a shard's load, and the open model: the schedule, and the arrivals that wait, in a
//! queue for each endpoint, so that none is behind another endpoint's.
//!
//! Loads hold due and waiting requests, and know neither the ring nor the clock.

use std::collections::VecDeque;

use crate::closed::ClosedLoad;
use crate::due::DueRequest;
use crate::paced::PacedLoad;
use crate::schedule::{Arrival, Digest, Schedule};

/// The driver of a shard's load.
#[expect(clippy::large_enum_variant, reason = "a shard has one, in place")]
pub enum Load {
    /// Arrivals by the schedule.
    Open(OpenLoad),
    /// Each connection sends again as soon as its response has arrived.
    Closed(ClosedLoad),
    /// Each connection sends once per period, or as soon as a late response has arrived.
    Paced(PacedLoad),
}

impl Load {
    /// True if users send without a schedule: a request is intended when it is sent.
    #[inline]
    pub fn is_unpaced(&self) -> bool {
        matches!(self, Load::Closed(_))
    }
}

/// How many due arrivals are queued with the time they were noticed. Beyond that the schedule
/// itself is the queue: such an arrival counts as noticed when it was due, since only the backlog
/// delayed it. All queues together have this limit, so the backlog of one endpoint delays the
/// others only beyond it.
const WAITING_MAX: usize = 1 << 16;

/// The open model: the schedule, and the queue of due arrivals that found no connection.
pub struct OpenLoad {
    schedule: Schedule,
    next: Option<Arrival>,
    /// The arrivals that wait, by endpoint.
    waiting: Vec<VecDeque<DueRequest>>,
    /// How many they are.
    waiting_len: usize,
    digest: Digest,
    /// True if the queue has been full since the last arrival was taken, so that later ones weren't
    /// noticed on time.
    lagging: bool,
}

impl OpenLoad {
    /// A load with this shard's schedule, for this many endpoints.
    pub fn new(mut schedule: Schedule, endpoints: usize) -> OpenLoad {
        let next = schedule.next();
        OpenLoad {
            schedule,
            next,
            waiting: (0..endpoints).map(|_| VecDeque::with_capacity(WAITING_MAX)).collect(),
            waiting_len: 0,
            digest: Digest::default(),
            lagging: false,
        }
    }

    /// When the next arrival that hasn't been taken is due.
    #[inline]
    pub fn next_due_ns(&self) -> Option<u64> {
        self.next.map(|next| next.due_ns)
    }

    /// Takes the next arrival, if it is due at `now_ns` and before `end_ns`, and there is room in
    /// the queue.
    #[inline]
    pub fn take_due(&mut self, now_ns: u64, end_ns: u64) -> Option<DueRequest> {
        let arrival = self.next?;
        let due_ns = arrival.due_ns;
        if now_ns < due_ns || end_ns <= due_ns {
            self.lagging = false;
            return None;
        }
        if self.is_full() {
            self.lagging = true;
            return None;
        }
        let noticed_ns = if self.lagging { due_ns } else { now_ns };
        self.advance(due_ns);
        Some(DueRequest::noticed(arrival, noticed_ns))
    }

    /// The next arrival can't be taken at this time: if it is due, only the backlog delays it.
    pub fn lag(&mut self, now_ns: u64) {
        self.lagging |= self.next.is_some_and(|next| next.due_ns <= now_ns);
    }

    fn advance(&mut self, due_ns: u64) {
        self.digest.add(due_ns);
        self.next = self.schedule.next();
    }

    /// The schedule, if its next arrivals still have to be drawn.
    pub fn refillable(&mut self) -> Option<&mut Schedule> {
        Some(&mut self.schedule).filter(|schedule| schedule.wants_refill())
    }

    /// Takes the next arrival before `end_ns`, due or not, to count it as unsent.
    pub fn take_unsent(&mut self, end_ns: u64) -> Option<DueRequest> {
        let arrival = self.next.filter(|next| next.due_ns < end_ns)?;
        self.advance(arrival.due_ns);
        Some(if self.lagging {
            DueRequest { waited: true, ..DueRequest::noticed(arrival, arrival.due_ns) }
        } else {
            DueRequest::unnoticed(arrival)
        })
    }

    /// True if arrivals aren't noticed on time because the queue is full, not because the shard is
    /// late.
    pub fn is_lagging(&self) -> bool {
        self.lagging
    }

    /// Takes all remaining arrivals before `end_ns` at once, counted by the rate. Returns how many
    /// lie in the window, and the midpoints, ns, of this many stretches of it with equal expected
    /// arrivals.
    pub fn take_rest(
        &mut self,
        window_ns: u64,
        end_ns: u64,
        stretches: u64,
    ) -> Option<(u64, Vec<u64>)> {
        let first_ns =
            self.next.take().map(|next| next.due_ns).filter(|due_ns| *due_ns < end_ns)?;
        let from_ns = first_ns.max(window_ns);
        let count = self.schedule.expected_between(from_ns, end_ns);
        self.digest.add_estimated(count.max(1));
        Some((count, self.schedule.middles(from_ns..end_ns, stretches)))
    }

    /// Queues an arrival for a connection to its endpoint.
    pub fn wait(&mut self, arrival: DueRequest, endpoint: usize) {
        self.waiting[endpoint].push_back(DueRequest { waited: true, ..arrival });
        self.waiting_len += 1;
    }

    /// Queues an arrival that has been sent before and has to be sent again: before those that were
    /// due later.
    pub fn wait_again(&mut self, due: DueRequest, endpoint: usize) {
        let waiting = &mut self.waiting[endpoint];
        let place = waiting.partition_point(|other| other.intended_ns <= due.intended_ns);
        waiting.insert(place, due);
        self.waiting_len += 1;
    }

    /// The arrival that has waited longest for this endpoint.
    pub fn pop_waiting(&mut self, endpoint: usize) -> Option<DueRequest> {
        let due = self.waiting[endpoint].pop_front()?;
        self.waiting_len -= 1;
        Some(due)
    }

    /// The arrival that has waited longest of all.
    pub fn pop_longest(&mut self) -> Option<DueRequest> {
        let (_, endpoint) = self.longest()?;
        self.pop_waiting(endpoint)
    }

    /// The arrival that is the next for this endpoint.
    pub fn first_waiting(&self, endpoint: usize) -> Option<&DueRequest> {
        self.waiting[endpoint].front()
    }

    /// When the arrival that has waited longest of all was due, and its endpoint.
    pub fn longest(&self) -> Option<(u64, usize)> {
        if self.waiting_len == 0 {
            return None;
        }
        let due_ns = |endpoint| Some((self.first_waiting_ns(endpoint)?, endpoint));
        (0..self.waiting.len()).filter_map(due_ns).min()
    }

    /// When the arrival that has waited longest for this endpoint was due.
    pub fn first_waiting_ns(&self, endpoint: usize) -> Option<u64> {
        self.first_waiting(endpoint).map(|waiting| waiting.intended_ns)
    }

    /// True if the queues are full: the next arrival stays in the schedule until there is room.
    pub fn is_full(&self) -> bool {
        WAITING_MAX <= self.waiting_len
    }

    /// The number of waiting arrivals.
    pub fn waiting_len(&self) -> usize {
        self.waiting_len
    }

    /// The number of arrivals that wait for this endpoint.
    #[inline]
    pub fn waiting_for(&self, endpoint: usize) -> usize {
        self.waiting[endpoint].len()
    }

    /// Digest of the arrivals taken.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}
