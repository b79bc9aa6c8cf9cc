//! How one intended request ended, and the causes of failures.

use http1::response::Violation;

/// How one intended request ended: each ends in exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A whole response came, with this status.
    Answered(u16),
    /// No whole response within the timeout or the deadline.
    TimedOut(TimeoutKind),
    /// The connection or the protocol failed.
    Failed(Cause),
    /// Sent, and still in flight when the drain ended.
    Abandoned,
    /// Never sent.
    Unsent(UnsentReason),
}

impl Outcome {
    /// Whether the time that it took counts as a latency. That of a failure doesn't, nor that of an arrival that was dropped:
    /// a short one would make the percentiles look better than they were.
    pub fn has_latency(self) -> bool {
        !matches!(self, Outcome::Failed(_) | Outcome::Unsent(UnsentReason::Dropped))
    }
}

/// Whose patience ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// The timeout, counted from sent.
    Timeout,
    /// The user's deadline, counted from intended.
    Deadline,
}

impl TimeoutKind {
    /// The cause under which such a request is counted.
    pub fn cause(self) -> Cause {
        match self {
            TimeoutKind::Timeout => Cause::TimedOut,
            TimeoutKind::Deadline => Cause::Deadline,
        }
    }
}

/// Why a request was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsentReason {
    /// It found no connection within the longest wait, and the plan says to drop such.
    Dropped,
    /// Its deadline passed while it waited for a connection.
    Deadline,
    /// It still waited when the drain ended.
    End,
}

impl UnsentReason {
    /// The reason's name in a report.
    pub fn name(self) -> &'static str {
        match self {
            UnsentReason::Dropped => "dropped",
            UnsentReason::Deadline => "deadline",
            UnsentReason::End => "end_of_run",
        }
    }
}

/// Why a request failed, or why a connection without a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The target's host answered that nobody listens.
    ConnectRefused,
    /// The connection wasn't established within the timeout.
    ConnectTimedOut,
    /// No route to the target.
    ConnectUnreachable,
    /// Connecting failed otherwise.
    ConnectFailed,
    /// This machine had no port, descriptor, buffer or memory left: always the generator's fault.
    LocalResource,
    /// The peer reset the connection.
    Reset,
    /// The peer closed the connection before the first byte of a response.
    ClosedBeforeResponse,
    /// The connection ended in the middle of a response.
    CutShort,
    /// Receiving failed otherwise.
    ReadFailed,
    /// Sending failed.
    WriteFailed,
    /// No whole response within the timeout, counted from sent.
    TimedOut,
    /// No whole response within the deadline, counted from intended.
    Deadline,
    /// Bytes came that no request asked for.
    Unsolicited,
    /// The response broke a rule of the protocol: the rule's short name.
    Protocol(&'static str),
}

impl Cause {
    /// The cause's name in a report.
    pub fn name(self) -> String {
        match self {
            Cause::ConnectRefused => "connect_refused",
            Cause::ConnectTimedOut => "connect_timed_out",
            Cause::ConnectUnreachable => "connect_unreachable",
            Cause::ConnectFailed => "connect_failed",
            Cause::LocalResource => "local_resource",
            Cause::Reset => "reset",
            Cause::ClosedBeforeResponse => "closed_before_response",
            Cause::CutShort => "cut_short",
            Cause::ReadFailed => "read_failed",
            Cause::WriteFailed => "write_failed",
            Cause::TimedOut => "timed_out",
            Cause::Deadline => "deadline",
            Cause::Unsolicited => "unsolicited_bytes",
            Cause::Protocol(rule) => return format!("protocol:{rule}"),
        }
        .to_owned()
    }

    /// The cause behind a failed connect's errno.
    pub fn of_connect(errno: i32) -> Cause {
        match errno {
            libc::ECONNREFUSED => Cause::ConnectRefused,
            libc::ETIMEDOUT => Cause::ConnectTimedOut,
            libc::ENETUNREACH | libc::EHOSTUNREACH => Cause::ConnectUnreachable,
            libc::ECONNRESET => Cause::Reset,
            errno if is_local(errno) => Cause::LocalResource,
            _ => Cause::ConnectFailed,
        }
    }

    /// The cause behind a failed receive's errno.
    pub fn of_receive(errno: i32) -> Cause {
        match errno {
            libc::ECONNRESET => Cause::Reset,
            errno if is_local(errno) => Cause::LocalResource,
            _ => Cause::ReadFailed,
        }
    }

    /// The cause behind a failed send's errno.
    pub fn of_send(errno: i32) -> Cause {
        match errno {
            libc::ECONNRESET => Cause::Reset,
            errno if is_local(errno) => Cause::LocalResource,
            _ => Cause::WriteFailed,
        }
    }

    /// The cause behind a response that isn't one.
    pub fn of_violation(violation: &Violation) -> Cause {
        match violation {
            Violation::ClosedBeforeResponse => Cause::ClosedBeforeResponse,
            Violation::CutShort => Cause::CutShort,
            rule => Cause::Protocol(rule.code()),
        }
    }
}

/// Whether an errno says that this machine, not the target, ran out of something.
fn is_local(errno: i32) -> bool {
    matches!(
        errno,
        libc::EADDRNOTAVAIL | libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM
    )
}

/// How often each cause occurred. Its memory holds more causes than there are, so counting never allocates.
#[derive(Clone, Debug, Default)]
pub struct CauseCounts {
    counts: Vec<(Cause, u64)>,
}

/// Causes with a count of their own; more than the enumeration and all rules of the protocol have.
const CAUSES_MAX: usize = 64;

impl CauseCounts {
    /// No cause yet.
    pub fn new() -> CauseCounts {
        CauseCounts { counts: Vec::with_capacity(CAUSES_MAX) }
    }

    /// Counts one.
    pub fn add(&mut self, cause: Cause) {
        match self.counts.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((cause, 1)),
        }
    }

    /// Adds another count.
    pub fn merge(&mut self, other: &CauseCounts) {
        for (cause, count) in other.iter() {
            match self.counts.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, mine)) => *mine += count,
                None => self.counts.push((cause, count)),
            }
        }
    }

    /// Causes and their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Cause, u64)> {
        self.counts.iter().copied()
    }
}
