//! The sessions of a shard: users on the way through scenarios of several steps.
//!
//! An arrival whose scenario has several steps begins a session. Its first step is due when the
//! arrival is, and each later one when the response before it was handled, plus the think time;
//! which one that is follows from the course and from what the session has captured. So
//! within a session the load is closed, as a real user's is, and between sessions it is open. A
//! session ends with its last step, or with the first that isn't answered well.
//!
//! Each session has at most one request at a time. So a request is known by its session's number on
//! its connection, and the steps that are due later than now are as many as the sessions that
//! think. All memory is allocated before the run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;

use load::DueRequest;
use load::course::{At, Course};
use record::stamps::Stamps;

use super::plan::ShardPlan;

/// A user on the way through a scenario.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    /// Its number in the run.
    number: u64,
    /// When it was due, ns since the epoch.
    began_ns: u64,
    /// How long its user has thought, ns.
    thought_ns: u64,
    /// The slot of its user in a closed model.
    user: u32,
    /// The step that it has reached.
    at: At,
    /// What it has captured, a bit for each value.
    captured: u64,
    /// True until it ends.
    is_open: bool,
}

/// A connection that is one session's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Own {
    /// Its slot.
    pub slot: u32,
    /// Which of the slot's sockets it is.
    pub generation: u32,
}

/// The sessions of a shard.
#[derive(Debug)]
pub(super) struct Sessions {
    course: Course,
    seed: u64,
    each: Vec<Session>,
    /// The places of those that have ended.
    free: Vec<NonZeroU32>,
    /// The number of open sessions of each user of a closed model.
    of_users: Vec<u32>,
    /// When the next steps of sessions that think are due, each with the session and the step.
    later: BinaryHeap<Reverse<(u64, NonZeroU32, u16)>>,
    /// The connection of each that has one of its own; empty if none of the plan's have.
    own: Vec<Option<Own>>,
    /// Connections of sessions that are over, or have another one.
    released: Vec<Own>,
}

/// What comes after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Another step of the session.
    Step,
    /// Nothing: it was the last.
    End,
}

impl Sessions {
    /// No sessions yet, with memory for as many as the plan allows.
    pub(super) fn new(plan: &ShardPlan) -> Sessions {
        let most = plan.sessions();
        let owning = if plan.endpoints.iter().any(|endpoint| endpoint.own) { most } else { 0 };
        let mut sessions = Sessions {
            course: plan.course.clone(),
            seed: plan.seed,
            each: vec![Session::default(); most],
            free: Vec::with_capacity(most),
            of_users: vec![0; if 0 < most && plan.has_users() { plan.slots() } else { 0 }],
            later: BinaryHeap::with_capacity(most),
            own: vec![None; owning],
            released: Vec::with_capacity(owning),
        };
        sessions.clear();
        sessions
    }

    /// All sessions are over: the setup has ended.
    pub(super) fn clear(&mut self) {
        self.later.clear();
        self.own.fill(None);
        self.released.clear();
        self.of_users.fill(0);
        self.free.clear();
        self.each.fill(Session::default());
        let places = u32::try_from(self.each.len()).expect("sessions are numbered in 32 bits");
        self.free.extend((1..=places).rev().filter_map(NonZeroU32::new));
    }

    /// True if some scenario has several steps.
    #[inline]
    pub(super) fn are_used(&self) -> bool {
        !self.each.is_empty()
    }

    /// True if no more can begin.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty() && self.are_used()
    }

    /// The number of open sessions.
    pub(super) fn open(&self) -> usize {
        self.each.len() - self.free.len()
    }

    /// The request of an arrival begins a session, which is returned, if its scenario has several
    /// steps.
    #[inline(never)]
    pub(super) fn begin(&mut self, due: &DueRequest, user: u32) -> Option<NonZeroU32> {
        if !self.course.goes_on(due.step) {
            return None;
        }
        let place = self.free.pop().expect("there is room for another session");
        let (number, began_ns) = (due.number, due.intended_ns);
        if let Some(of_user) = self.of_users.get_mut(user as usize) {
            *of_user += 1;
        }
        let at = At::first(due.step);
        self.each[index(place)] =
            Session { number, began_ns, user, at, is_open: true, ..Session::default() };
        Some(place)
    }

    /// The session of an unpaced user begins when its first request is sent.
    #[cold]
    pub(super) fn begin_at(&mut self, place: NonZeroU32, sent_ns: u64) {
        self.each[index(place)].began_ns = sent_ns;
    }

    /// When a request's session began, ns since the epoch; for one without, when it was due.
    #[inline(always)]
    pub(super) fn began_ns(&self, session: Option<NonZeroU32>, intended_ns: u64) -> u64 {
        match session {
            None => intended_ns,
            Some(place) => self.began_ns_of(place),
        }
    }

    // A request without a session shouldn't pay for a longer function.
    #[cold]
    #[inline(never)]
    fn began_ns_of(&self, place: NonZeroU32) -> u64 {
        self.each[index(place)].began_ns
    }

    /// How long the request's user has thought so far, ns.
    pub(super) fn thought_ns(&self, place: NonZeroU32) -> u64 {
        self.each[index(place)].thought_ns
    }

    /// When the session's user, who waits this long in all, gives up, ns since the epoch.
    pub(super) fn over_ns(&self, place: NonZeroU32, deadline_ns: u64) -> u64 {
        let Session { began_ns, thought_ns, .. } = self.each[index(place)];
        (began_ns + thought_ns).saturating_add(deadline_ns)
    }

    /// The slot of the session's user in a closed model.
    pub(super) fn user(&self, place: NonZeroU32) -> u32 {
        self.each[index(place)].user
    }

    /// True if the session's request isn't repeated any more.
    pub(super) fn is_last_round(&self, place: NonZeroU32) -> bool {
        self.course.is_last_round(self.each[index(place)].at)
    }

    /// A session has captured these values, a bit for each.
    pub(super) fn captured(&mut self, place: NonZeroU32, captured: u64) {
        self.each[index(place)].captured = captured;
    }

    /// A step was answered well at this time: the next one is due after the think time.
    pub(super) fn answered(&mut self, stamps: &Stamps, handled_ns: u64) -> After {
        let Some(place) = stamps.session else { return After::End };
        let session = &mut self.each[index(place)];
        let Some(next) = self.course.after(session.at, session.captured) else {
            return After::End;
        };
        let think_ns = self.course.think_ns(self.seed, session.number, next);
        session.thought_ns += think_ns;
        session.at = next;
        self.later.push(Reverse((handled_ns + think_ns, place, next.step)));
        After::Step
    }

    /// A session is over.
    pub(super) fn end(&mut self, place: NonZeroU32) {
        let session = &mut self.each[index(place)];
        assert!(session.is_open, "a session ends once");
        session.is_open = false;
        if let Some(of_user) = self.of_users.get_mut(session.user as usize) {
            *of_user -= 1;
        }
        self.released.extend(self.own.get_mut(index(place)).and_then(Option::take));
        self.free.push(place);
    }

    /// A session has this connection for its own from now on.
    pub(super) fn own(&mut self, place: NonZeroU32, own: Own) {
        let before = self.own[index(place)].replace(own);
        self.released.extend(before.filter(|before| *before != own));
    }

    /// A session's own connection, if it has had a request.
    pub(super) fn own_of(&self, place: NonZeroU32) -> Option<Own> {
        self.own.get(index(place)).copied().flatten()
    }

    /// Takes a connection whose session is over, or has another one.
    pub(super) fn take_released(&mut self) -> Option<Own> {
        self.released.pop()
    }

    /// The number of open sessions of this user of a closed model.
    #[inline]
    pub(super) fn of_user(&self, user: usize) -> usize {
        self.of_users.get(user).map_or(0, |of_user| *of_user as usize)
    }

    /// When the next step of a session that thinks is due; `u64::MAX` if none is.
    #[inline]
    pub(super) fn next_due_ns(&self) -> u64 {
        self.later.peek().map_or(u64::MAX, |Reverse((due_ns, ..))| *due_ns)
    }

    /// Takes the next step of a session, if one is due at this time.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<DueRequest> {
        if now_ns < self.next_due_ns() {
            return None;
        }
        let Reverse((intended_ns, place, step)) = self.later.pop()?;
        let number = self.each[index(place)].number;
        let session = Some(place);
        Some(DueRequest { intended_ns, number, step, session, noticed_ns: now_ns, waited: false })
    }

    /// A session that neither thinks nor has a request, after the end: when it began, ns since the
    /// epoch, and the step that it had reached.
    pub(super) fn first_stuck(&self) -> Option<(u64, NonZeroU32, u16)> {
        let at = self.each.iter().position(|session| session.is_open)?;
        let place = u32::try_from(at + 1).ok().and_then(NonZeroU32::new)?;
        let Session { began_ns, at, .. } = self.each[at];
        Some((began_ns, place, at.step))
    }

    /// Takes a session that thinks, after the end: when its next step would have been due, ns since
    /// the epoch, and the session and the step.
    pub(super) fn take_thinking(&mut self) -> Option<(u64, NonZeroU32, u16)> {
        self.later.pop().map(|Reverse(thinking)| thinking)
    }
}

/// The index of a place.
fn index(place: NonZeroU32) -> usize {
    place.get() as usize - 1
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use load::schedule::Arrival;
    use plan::Plan;
    use plan::scenario::{Scenario, Step};

    use super::*;

    /// Sessions of two steps, with a think time of 5 ns in between, and single requests.
    fn sessions(most: usize) -> Sessions {
        let address: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        let plan = ShardPlan::open_for_test(address.into());
        let think = Some("5ns".parse().expect("a think time"));
        let several = Scenario { think, step: vec![Step::default(); 2], ..Scenario::default() };
        let single = Scenario::of_one(String::new(), 1, Step::default());
        let course = Course::of_plan(&Plan { scenario: vec![several, single], ..Plan::default() });
        Sessions::new(&ShardPlan { course, sessions_max: most, ..plan })
    }

    fn arrival(number: u64, step: u16) -> DueRequest {
        let arrival = Arrival { due_ns: 100 * number, number };
        DueRequest { step, ..DueRequest::noticed(arrival, 100 * number) }
    }

    fn begin(sessions: &mut Sessions, due: DueRequest) -> DueRequest {
        DueRequest { session: sessions.begin(&due, 0), ..due }
    }

    fn stamps(due: DueRequest) -> Stamps {
        let DueRequest { intended_ns, step, session, .. } = due;
        Stamps { intended_ns, step, session, ..Stamps::default() }
    }

    #[test]
    fn each_step_is_due_after_the_response_before_it_and_the_think_time() {
        let mut sessions = sessions(2);
        let first = begin(&mut sessions, arrival(3, 0));
        assert_eq!(sessions.open(), 1);
        assert_eq!(sessions.answered(&stamps(first), 1_000), After::Step);
        assert_eq!((sessions.next_due_ns(), sessions.take_due(1_004)), (1_005, None));
        let second = sessions.take_due(1_007).expect("it is due");
        assert_eq!((second.intended_ns, second.noticed_ns), (1_005, 1_007));
        assert_eq!((second.number, second.step, second.session), (3, 1, first.session));
        assert_eq!(sessions.began_ns(second.session, second.intended_ns), 300);
        assert_eq!(sessions.thought_ns(second.session.expect("a session")), 5);
        assert_eq!(sessions.answered(&stamps(second), 2_000), After::End);
        sessions.end(second.session.expect("a session"));
        assert_eq!((sessions.open(), sessions.next_due_ns()), (0, u64::MAX));
    }

    #[test]
    fn a_scenario_of_one_step_has_no_session() {
        let mut sessions = sessions(2);
        let single = begin(&mut sessions, arrival(3, 2));
        assert_eq!((single.session, sessions.open()), (None, 0));
        assert_eq!(sessions.began_ns(None, single.intended_ns), single.intended_ns);
        assert_eq!(sessions.answered(&stamps(single), 1_000), After::End);
    }

    #[test]
    fn as_many_sessions_are_open_as_there_may_be() {
        let mut sessions = sessions(2);
        let both = [1, 2].map(|number| begin(&mut sessions, arrival(number, 0)));
        assert!(sessions.is_full());
        sessions.end(both[0].session.expect("a session"));
        assert!(!sessions.is_full());
        let third = begin(&mut sessions, arrival(3, 0));
        assert_eq!(third.session, both[0].session);
        assert_eq!(sessions.began_ns(both[1].session, 0), 200);
        sessions.answered(&stamps(third), 1_000);
        assert_eq!(sessions.take_thinking().map(|(.., step)| step), Some(1));
        sessions.clear();
        assert_eq!((sessions.open(), sessions.is_full()), (0, false));
    }
}
