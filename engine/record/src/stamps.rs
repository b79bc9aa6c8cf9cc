//! The stamps of one request, ns since the epoch of the run.

use std::num::NonZeroU32;

/// The stamps and flags of a request that has been sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// When it was due.
    pub intended_ns: u64,
    /// When the shard noticed that it was due.
    pub noticed_ns: u64,
    /// When it was sent: just before the system call that carried it.
    pub sent_ns: u64,
    /// True if it had to wait for a connection: the generator isn't to blame for the time from
    /// `noticed_ns` to `sent_ns` then.
    pub waited: bool,
    /// Its step among the plan's.
    pub step: u16,
    /// Its session among those of the shard; `None` if its scenario has only one step.
    pub session: Option<NonZeroU32>,
}

impl Stamps {
    /// The stamps of a request that is never sent.
    pub fn unsent(intended_ns: u64, noticed_ns: u64, step: u16) -> Stamps {
        let (sent_ns, waited, session) = (intended_ns, true, None);
        Stamps { intended_ns, noticed_ns, sent_ns, waited, step, session }
    }

    /// The part of the corrected latency that the generator added before the request was sent or
    /// given up, ns.
    #[inline]
    pub fn added_ns(&self) -> u64 {
        (if self.waited { self.noticed_ns } else { self.sent_ns }) - self.intended_ns
    }
}

/// The source of a response's arrival stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampedBy {
    /// The program: the response arrived at some time before it was handled.
    Program,
    /// The kernel.
    Kernel,
    /// The kernel, although the plan asked for the program's stamps: a control, which shows how far
    /// off these are.
    Control,
}

impl StampedBy {
    /// Its name where samples are printed.
    pub fn name(self) -> &'static str {
        match self {
            StampedBy::Program => "program",
            StampedBy::Kernel => "kernel",
            StampedBy::Control => "control",
        }
    }
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// When the last segment of its response arrived, or when its time ran out.
    pub received_ns: u64,
    /// When the program noticed that; it may notice a timeout late, too.
    pub handled_ns: u64,
    /// The source of `received_ns`.
    pub stamped_by: StampedBy,
}

impl Ending {
    /// An event that the program noticed at this time, without a kernel stamp.
    pub fn at(ns: u64) -> Ending {
        Ending { received_ns: ns, handled_ns: ns, stamped_by: StampedBy::Program }
    }

    /// The end of its latencies, ns.
    #[inline]
    pub fn ended_ns(&self) -> u64 {
        match self.stamped_by {
            StampedBy::Program | StampedBy::Kernel => self.received_ns,
            StampedBy::Control => self.handled_ns,
        }
    }

    /// Received → handled, ns; only known with a kernel stamp.
    #[inline]
    pub fn receive_lateness_ns(&self) -> Option<u64> {
        match self.stamped_by {
            StampedBy::Program => None,
            StampedBy::Kernel | StampedBy::Control => Some(self.handled_ns - self.received_ns),
        }
    }
}
