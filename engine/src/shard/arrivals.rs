//! The second step of a turn: what is due is sent, waits for a connection, or is given up as the plan's policy says.

use super::Shard;
use crate::load::{Load, Waiting};
use crate::record::outcome::{Outcome, UnsentReason};
use crate::record::stamps::Stamps;
use crate::shard::connection::State;

/// Arrivals that one turn takes at most: what the ring has completed meanwhile has to be looked at.
const ADMITTED_MAX: usize = 4_096;
/// Beyond this an arrival counts as noticed late, ns: well above what a turn takes.
const NOTICED_LATE_NS: u64 = 1_000_000;

impl Shard {
    /// Sends what is due, or lets it wait for a connection.
    pub(super) fn admit(&mut self) {
        let mut now_ns = self.now_ns();
        self.drop_overdue(now_ns);
        let deadline_ns = self.plan.deadline_ns;
        for _ in 0..ADMITTED_MAX {
            match &mut self.load {
                Load::Closed => return,
                Load::Open(load) => {
                    let Some(arrival) = load.take_due(now_ns, self.end_ns) else { return };
                    let intended_ns = arrival.intended_ns;
                    let nobody_waits = load.waiting_len() == 0;
                    if nobody_waits && deadline_ns <= now_ns - intended_ns {
                        self.give_up(intended_ns);
                    } else if nobody_waits && let Some(slot) = self.slots.take_idle() {
                        self.intended(intended_ns);
                        self.begin(slot, arrival);
                    } else {
                        load.wait(arrival);
                        self.intended(intended_ns);
                        self.open_for_waiting(now_ns);
                        self.count_waited(intended_ns, self.is_capped());
                    }
                }
                Load::Paced(load) => {
                    let Some((user, intended_ns)) = load.take_due(now_ns, self.end_ns) else {
                        return;
                    };
                    let slot = u32::try_from(user).expect("connections are numbered in 32 bits");
                    if deadline_ns <= now_ns - intended_ns {
                        self.give_up(intended_ns);
                    } else if self.slots[slot].state == State::Idle {
                        self.slots.leave_idle(slot);
                        self.intended(intended_ns);
                        self.begin(slot, Waiting { intended_ns, noticed_ns: now_ns });
                    } else if self.plan.recorder_config.backfill_ns.is_none() {
                        // Back-filling stands for these requests: sending them late as well would count them twice.
                        load.wait(user, intended_ns, now_ns);
                        self.intended(intended_ns);
                        self.count_waited(intended_ns, false);
                    }
                }
            }
            now_ns = self.now_ns();
        }
    }

    /// A request was noticed after its user had gone: it is not sent.
    fn give_up(&mut self, intended_ns: u64) {
        self.intended(intended_ns);
        self.skip(intended_ns, intended_ns + self.plan.deadline_ns, UnsentReason::Deadline);
    }

    /// Whether an arrival that waits does so because no further connection is allowed: none can be opened, and none is being
    /// opened for it.
    fn is_capped(&self) -> bool {
        let waiting = match &self.load {
            Load::Open(load) => load.waiting_len(),
            Load::Closed | Load::Paced(_) => return false,
        };
        self.slots.is_full() && self.slots.connecting() < waiting
    }

    /// A connection is free for a request.
    pub(super) fn ready(&mut self, slot: u32) {
        match self.next_for(slot) {
            Some(waiting) => {
                self.slots.leave_idle(slot);
                self.begin(slot, waiting);
            }
            None => self.slots.enter_idle(slot),
        }
    }

    /// The next request for a connection that is free, if one is due.
    fn next_for(&mut self, slot: u32) -> Option<Waiting> {
        let now_ns = self.now_ns();
        loop {
            let waiting = match &mut self.load {
                Load::Open(load) => load.pop_waiting()?,
                Load::Paced(load) => load.pop_waiting(slot as usize)?,
                Load::Closed if self.running && now_ns < self.end_ns => {
                    return Some(Waiting { intended_ns: now_ns, noticed_ns: now_ns });
                }
                Load::Closed => return None,
            };
            let (over_ns, reason) = self.patience_of(waiting.intended_ns);
            if now_ns < over_ns {
                return Some(self.blamed(waiting, now_ns));
            }
            self.skip(waiting.intended_ns, over_ns, reason);
        }
    }

    /// An arrival that was noticed late came together with all others of that time. That connections had to be opened for so
    /// many at once is no backlog of the target's: unless the cap is reached, its wait is the generator's lateness too.
    fn blamed(&self, waiting: Waiting, now_ns: u64) -> Waiting {
        let late = NOTICED_LATE_NS < waiting.noticed_ns - waiting.intended_ns;
        match self.load {
            Load::Open(_) if late && !self.slots.is_full() => {
                Waiting { noticed_ns: now_ns, ..waiting }
            }
            _ => waiting,
        }
    }

    /// Until when a due request may wait for a connection, and why no longer.
    fn patience_of(&self, intended_ns: u64) -> (u64, UnsentReason) {
        if self.plan.queue_max_ns < self.plan.deadline_ns {
            (intended_ns.saturating_add(self.plan.queue_max_ns), UnsentReason::Dropped)
        } else {
            (intended_ns.saturating_add(self.plan.deadline_ns), UnsentReason::Deadline)
        }
    }

    /// Gives up the arrivals that have waited for a connection too long.
    fn drop_overdue(&mut self, now_ns: u64) {
        while let Load::Open(load) = &mut self.load
            && let Some(intended_ns) = load.first_waiting_ns()
        {
            let (over_ns, reason) = self.patience_of(intended_ns);
            if now_ns < over_ns {
                return;
            }
            let Load::Open(load) = &mut self.load else { return };
            load.pop_waiting();
            self.skip(intended_ns, over_ns, reason);
        }
    }

    /// When the next waiting arrival will have waited too long.
    pub(super) fn next_drop_ns(&self) -> u64 {
        match &self.load {
            Load::Open(load) => load
                .first_waiting_ns()
                .map_or(u64::MAX, |intended_ns| self.patience_of(intended_ns).0),
            Load::Closed | Load::Paced(_) => u64::MAX,
        }
    }

    fn skip(&mut self, intended_ns: u64, over_ns: u64, reason: UnsentReason) {
        // Requests are recorded in the order of their intended times: those queued came before this one.
        self.stamp_queued();
        let stamps = Stamps { intended_ns, noticed_ns: intended_ns, sent_ns: intended_ns };
        self.record(&stamps, over_ns.max(intended_ns), Outcome::Unsent(reason));
    }

    pub(super) fn intended(&mut self, intended_ns: u64) {
        self.progress.intended += 1;
        if self.window_ns <= intended_ns {
            self.recorder.intended(intended_ns);
        }
    }

    fn count_waited(&mut self, intended_ns: u64, at_the_cap: bool) {
        if self.window_ns <= intended_ns {
            self.recorder.waited += 1;
            self.recorder.capped += u64::from(at_the_cap);
        }
    }

    /// Whether a due request waits for this very connection.
    pub(super) fn has_waiting(&self, slot: u32) -> bool {
        match &self.load {
            Load::Paced(load) => load.is_waiting(slot as usize),
            Load::Open(_) | Load::Closed => false,
        }
    }

    /// Counts what was due and never sent, after the end; `capped` says that all connections were busy then.
    pub(super) fn count_unsent(&mut self, now_ns: u64, capped: bool) {
        loop {
            let (waiting, known) = match &mut self.load {
                Load::Open(load) => match load.pop_waiting() {
                    Some(waiting) => (Some(waiting.intended_ns), true),
                    None => (load.take_unsent(self.end_ns), false),
                },
                Load::Paced(load) => match load.pop_any_waiting() {
                    Some(waiting) => (Some(waiting.intended_ns), true),
                    None => {
                        (load.take_due(self.end_ns, self.end_ns).map(|(_, due_ns)| due_ns), false)
                    }
                },
                Load::Closed => (None, false),
            };
            let Some(intended_ns) = waiting else { return };
            if !known {
                self.intended(intended_ns);
                self.count_waited(intended_ns, capped);
            }
            self.skip(intended_ns, now_ns, UnsentReason::End);
        }
    }
}
