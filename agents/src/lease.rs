//! The lease: which controller holds an agent, and when the run must stop because none does any
//! more.
//!
//! It begins with a plan, so a second controller may connect, and learns which one holds the agent.
//! A controller that prepares a run holds the agent until the run is over. It sends a heartbeat
//! each second; an agent that receives none for [`SILENCE_MAX_NS`], or whose session ends, stops
//! sending by itself. It is then still held, until its run has drained and its report is kept.
//!
//! Only heartbeats count: the network may still deliver data of a controller that is long gone.
//! Time is an argument, ns of the agent's CLOCK_MONOTONIC.

use engine::shard::DRAIN_INTERRUPTED_NS;
use engine::sys::units::{Nanos, SECOND_NS};
use serde::{Deserialize, Serialize};

/// Interval between a controller's heartbeats, ns.
pub const HEARTBEAT_NS: u64 = SECOND_NS;
/// The longest silence before an agent stops, ns: two heartbeats may be lost.
pub const SILENCE_MAX_NS: u64 = 3 * SECOND_NS;

/// The longest an agent may leave its input unread, ns, before a silence is its own fault.
const UNREAD_MAX_NS: u64 = SECOND_NS;

const _: () = assert!(2 * HEARTBEAT_NS < SILENCE_MAX_NS);

/// A session with a controller, by its number among the agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionId(pub u64);

/// Why a run stops unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No heartbeat came for this long, ns.
    Silence(u64),
    /// The agent itself read nothing for this long, ns, and so no heartbeat.
    Unread(u64),
    /// The session has ended.
    Session,
}

/// The agent works for another controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "{holder} has held the agent for {length}; wait until that run has ended, {} at most if its \
     controller is gone",
    Nanos(SILENCE_MAX_NS + DRAIN_INTERRUPTED_NS)
)]
pub struct HeldBy {
    /// The other controller's name.
    pub holder: String,
    /// For how long, in whole seconds.
    pub length: Nanos,
}

/// Who holds an agent.
#[derive(Clone, Debug, Default)]
pub struct Lease {
    held: Option<Held>,
}

#[derive(Clone, Debug)]
struct Held {
    session: SessionId,
    holder: String,
    since_ns: u64,
    heard_ns: u64,
    /// When the agent last read its input, ns.
    read_ns: u64,
    /// The longest stretch without a read since the last heartbeat, ns.
    unread_ns: u64,
    /// The run is being stopped, and drains.
    is_lost: bool,
}

impl Lease {
    /// The controller of this session, by the name it gave, takes the agent for a run. Returns the
    /// time until which the run may go on without a heartbeat, ns.
    ///
    /// # Errors
    /// Another run isn't over: its holder, which may be this session itself.
    pub fn take(&mut self, session: SessionId, holder: &str, now_ns: u64) -> Result<u64, HeldBy> {
        if let Some(holder) = self.holder(now_ns) {
            return Err(holder);
        }
        let holder = holder.to_owned();
        self.held = Some(Held {
            session,
            holder,
            since_ns: now_ns,
            heard_ns: now_ns,
            read_ns: now_ns,
            unread_ns: 0,
            is_lost: false,
        });
        Ok(now_ns + SILENCE_MAX_NS)
    }

    /// Who holds the agent.
    pub fn holder(&self, now_ns: u64) -> Option<HeldBy> {
        let Held { holder, since_ns, .. } = self.held.as_ref()?;
        let length = Nanos::from_secs(now_ns.saturating_sub(*since_ns) / SECOND_NS);
        Some(HeldBy { holder: holder.clone(), length })
    }

    /// A heartbeat came. Returns the time until which the run may go on, ns; `None` if the session
    /// doesn't hold the agent, or the heartbeat came too late.
    pub fn heartbeat(&mut self, session: SessionId, now_ns: u64) -> Option<u64> {
        if self.expires_ns()? <= now_ns {
            return None;
        }
        let held = self.held.as_mut().filter(|held| held.session == session)?;
        (held.heard_ns, held.read_ns, held.unread_ns) = (now_ns, now_ns, 0);
        self.expires_ns()
    }

    /// The agent reads its input: an unread heartbeat isn't the controller's fault.
    pub fn reads(&mut self, now_ns: u64) {
        if let Some(held) = &mut self.held {
            held.unread_ns = held.unread_ns.max(now_ns.saturating_sub(held.read_ns));
            held.read_ns = now_ns;
        }
    }

    /// When to call `look` next, ns; `None` while no run depends on heartbeats.
    pub fn expires_ns(&self) -> Option<u64> {
        let held = self.held.as_ref().filter(|held| !held.is_lost)?;
        Some(held.heard_ns + SILENCE_MAX_NS)
    }

    /// Checks whether the controller has been silent for too long; if so, returns once why the run
    /// must stop.
    pub fn look(&mut self, now_ns: u64) -> Option<Loss> {
        if now_ns < self.expires_ns()? {
            return None;
        }
        let held = self.held.as_mut()?;
        held.is_lost = true;
        let unread_ns = held.unread_ns.max(now_ns.saturating_sub(held.read_ns));
        Some(if UNREAD_MAX_NS < unread_ns {
            Loss::Unread(unread_ns)
        } else {
            Loss::Silence(now_ns - held.heard_ns)
        })
    }

    /// A session has ended; if it was the holder's, returns once why the run must stop.
    pub fn session_ended(&mut self, session: SessionId) -> Option<Loss> {
        let held = self.held.as_mut().filter(|held| held.session == session && !held.is_lost)?;
        held.is_lost = true;
        Some(Loss::Session)
    }

    /// The run is over, and its report was collected or is kept: the agent is free.
    pub fn release(&mut self) {
        self.held = None;
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;

    const ANN: SessionId = SessionId(1);
    const BEN: SessionId = SessionId(2);
    const NOW_NS: u64 = 100 * SECOND_NS;

    fn held() -> Lease {
        let mut lease = Lease::default();
        lease.take(ANN, "ann@desk", NOW_NS).expect("it is free");
        lease
    }

    /// Keeps reading the agent's input.
    fn read(lease: &mut Lease, during_ns: Range<u64>) {
        during_ns.step_by(500_000_000).for_each(|now_ns| lease.reads(now_ns));
    }

    #[test]
    fn three_seconds_without_a_heartbeat_stop_the_run_once() {
        let mut lease = held();
        let mut heard_ns = NOW_NS;
        for beat in 1..10 {
            heard_ns = NOW_NS + beat * HEARTBEAT_NS;
            assert_eq!(lease.heartbeat(ANN, heard_ns), Some(heard_ns + SILENCE_MAX_NS));
            assert_eq!(lease.look(heard_ns), None);
        }
        let end_ns = heard_ns + SILENCE_MAX_NS;
        assert_eq!(lease.expires_ns(), Some(end_ns));
        read(&mut lease, heard_ns..end_ns);
        assert_eq!(lease.look(end_ns - 1), None);
        // Too late, even if no one has looked meanwhile.
        assert_eq!(lease.heartbeat(ANN, end_ns), None);
        assert_eq!(lease.look(end_ns), Some(Loss::Silence(SILENCE_MAX_NS)));
        assert_eq!((lease.look(end_ns + 1), lease.expires_ns()), (None, None));
        assert_eq!(lease.heartbeat(ANN, end_ns + 1), None);
        assert_eq!((lease.look(u64::MAX), lease.session_ended(ANN)), (None, None));
    }

    #[test]
    fn a_second_controller_learns_the_holder_until_the_run_is_over() {
        let mut lease = held();
        let refused = |lease: &mut Lease, after_s: u64| {
            let error = lease.take(BEN, "ben@lap", NOW_NS + after_s * SECOND_NS);
            error.expect_err("held").to_string()
        };
        let text = "ann@desk has held the agent for 2s; wait until that run has ended, 5s at most \
                    if its controller is gone";
        assert_eq!(refused(&mut lease, 2), text);
        // Messages of the second one don't keep the first one's run alive, or end it.
        assert_eq!(lease.heartbeat(BEN, NOW_NS + 2 * SECOND_NS), None);
        assert_eq!(lease.expires_ns(), Some(NOW_NS + SILENCE_MAX_NS));
        assert_eq!(lease.session_ended(BEN), None);
        assert_eq!(lease.session_ended(ANN), Some(Loss::Session));
        assert!(refused(&mut lease, 3).contains("ann@desk"), "the run drains");
        lease.release();
        assert_eq!(lease.take(BEN, "ben@lap", NOW_NS), Ok(NOW_NS + SILENCE_MAX_NS));
    }

    #[test]
    fn a_silence_is_the_agents_fault_if_it_read_nothing() {
        let end_ns = NOW_NS + SILENCE_MAX_NS;
        // It stalls, and has resumed or not at the next look.
        for comes_to_itself in [false, true] {
            let mut lease = held();
            let still_ns = 2 * SECOND_NS;
            read(&mut lease, NOW_NS..end_ns - still_ns);
            lease.reads(end_ns - still_ns);
            if comes_to_itself {
                lease.reads(end_ns);
            }
            assert_eq!(lease.look(end_ns), Some(Loss::Unread(still_ns)));
        }
        // A stall before a heartbeat doesn't count.
        let mut lease = held();
        let heard_ns = NOW_NS + 2 * SECOND_NS;
        lease.heartbeat(ANN, heard_ns);
        read(&mut lease, heard_ns..heard_ns + SILENCE_MAX_NS);
        let lost = lease.look(heard_ns + SILENCE_MAX_NS);
        assert_eq!(lost, Some(Loss::Silence(SILENCE_MAX_NS)));
    }

    #[test]
    fn a_free_agent_waits_for_nothing() {
        let mut lease = Lease::default();
        assert_eq!(lease.heartbeat(ANN, NOW_NS), None);
        assert_eq!((lease.expires_ns(), lease.look(u64::MAX)), (None, None));
        assert_eq!(lease.session_ended(ANN), None);
    }

    proptest! {
        #[test]
        fn a_run_never_outlives_its_heartbeats(
            gaps_ns in prop::collection::vec(0..2 * SILENCE_MAX_NS, 1..30),
        ) {
            let mut lease = held();
            let mut now_ns = NOW_NS;
            for gap_ns in gaps_ns {
                let is_last = SILENCE_MAX_NS <= gap_ns;
                read(&mut lease, now_ns..now_ns + gap_ns);
                now_ns += gap_ns;
                let lost = lease.look(now_ns);
                prop_assert_eq!(lost, is_last.then_some(Loss::Silence(gap_ns)));
                if is_last {
                    break;
                }
                lease.heartbeat(ANN, now_ns);
            }
        }
    }
}
