//! The stamps of one request, ns since the epoch of the run.

/// What is known of a request once it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// When it was due.
    pub intended_ns: u64,
    /// When the shard saw that it was due.
    pub noticed_ns: u64,
    /// Just before the system call that carried it.
    pub sent_ns: u64,
    /// Whether it had to wait for a connection: then the generator isn't to blame for the time from
    /// `noticed_ns` to `sent_ns`.
    pub waited: bool,
    /// What it asks for: which of the plan's steps.
    pub step: u16,
}

impl Stamps {
    /// Those of a request that is never sent.
    pub fn unsent(intended_ns: u64, noticed_ns: u64, step: u16) -> Stamps {
        Stamps { intended_ns, noticed_ns, sent_ns: intended_ns, waited: true, step }
    }

    /// The part of the corrected latency that the generator added before the request was sent, or
    /// given up, ns.
    #[inline]
    pub fn added_ns(&self) -> u64 {
        (if self.waited { self.noticed_ns } else { self.sent_ns }) - self.intended_ns
    }
}

/// Whose stamp a response's arrival has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampedBy {
    /// The program's: it arrived at some time before it was handled.
    Program,
    /// The kernel's.
    Kernel,
    /// The kernel's too, but the plan asked for the program's: a control, which shows how far off
    /// those are.
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
    /// When the last segment of its response arrived, or when its time was over.
    pub received_ns: u64,
    /// When the program saw that: it may notice a timeout late, too.
    pub handled_ns: u64,
    /// Whose stamp `received_ns` is.
    pub stamped_by: StampedBy,
}

impl Ending {
    /// What the program saw at this time, with no stamp of the kernel's.
    pub fn at(ns: u64) -> Ending {
        Ending { received_ns: ns, handled_ns: ns, stamped_by: StampedBy::Program }
    }

    /// Where its latencies end, ns.
    #[inline]
    pub fn ended_ns(&self) -> u64 {
        match self.stamped_by {
            StampedBy::Program | StampedBy::Kernel => self.received_ns,
            StampedBy::Control => self.handled_ns,
        }
    }

    /// Received → handled, ns, where the kernel's stamp tells it.
    #[inline]
    pub fn receive_lateness_ns(&self) -> Option<u64> {
        match self.stamped_by {
            StampedBy::Program => None,
            StampedBy::Kernel | StampedBy::Control => Some(self.handled_ns - self.received_ns),
        }
    }
}
