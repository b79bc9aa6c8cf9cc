//! How many requests ended how: every counter of a shard, a report and an interval, defined once.
//!
//! To add a counter, add a field here and count it. Shards and agents are added field by field, and
//! the report shows the fields as they are. Counting is a plain addition: the document's maps are
//! built when it is written.

use std::collections::BTreeMap;

use derive_more::AddAssign;
use http1::response::Violation;
use http2::violation::Violation as Violation2;
use plan::status::{STATUS_MAX, StatusSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::{Cause, Outcome, RESETS_MAX, UnsentReason};

/// How the intended requests of the window ended.
#[derive(AddAssign, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Requests whose intended time lay in the window.
    pub intended: u64,
    /// Handed to the kernel, or failed because no connection could be opened.
    pub sent: u64,
    /// Of these, handed to the kernel before the end of the window.
    pub sent_in_window: u64,
    /// Of the sent, those that never had a connection: failed, with the cause of the failed
    /// connect.
    pub unconnected: u64,
    /// Of the intended, the later steps of sessions: each was due when its user had thought, and
    /// not by the schedule.
    pub later_steps: u64,
    /// Of those handed to the kernel in the window, the same.
    pub later_steps_in_window: u64,
    /// Arrivals that waited since as many sessions as the plan allows were open.
    pub capped_sessions: u64,
    /// Never sent.
    pub unsent: u64,
    /// The unsent by reason.
    pub unsent_reasons: CountsBy<UnsentReason>,
    /// Ended by a complete response, with any status.
    pub answered: u64,
    /// Not answered within the timeout or the deadline.
    pub timed_out: u64,
    /// Ended by a failure of the connection or of the protocol.
    pub failed: u64,
    /// Still in flight when the drain ended.
    pub abandoned: u64,
    /// Arrivals that found no free connection and waited for one.
    pub waited: u64,
    /// Of these, when no further connection could be opened.
    pub capped: u64,
    /// Answered requests whose response was stamped by the kernel when it arrived; the others have
    /// the time at which the program handled it.
    pub stamped_by_kernel: u64,
    /// Of the answered, those whose stamp was earlier than the sending of the request or later than
    /// the handling of the response, and was moved to that time.
    pub stamps_clamped: u64,
    /// Of the sent, the sampled ones for which a kernel stamp of leaving the host was requested.
    pub sends_sampled: u64,
    /// Of these, those that the kernel stamped.
    pub sends_stamped: u64,
    /// Answered requests whose status is not a success.
    pub unexpected_status: u64,
    /// Answered requests whose status is a success, and whose response failed a check.
    pub failed_checks: u64,
    /// Answered requests by status code.
    pub status: CountsBy<u16>,
    /// Requests that failed or timed out, by cause.
    pub errors: CountsBy<Cause>,
    /// Connections that failed while they carried no request of the window, by cause.
    pub connection_errors: CountsBy<Cause>,
    /// Connections opened, from setup to drain.
    pub connects: u64,
    /// Of these, in the window: pool growth and replacements under measurement.
    pub connects_in_window: u64,
    /// Of these, those that replaced no other connection: pool growth under measurement. 0 without
    /// keep-alive, where every request opens its own.
    pub pool_grew: u64,
    /// Users: in a closed model its users, over HTTP/2 one for each stream of each connection; in an
    /// open one the connections that were open, or being opened, in the window.
    pub users: u64,
    /// Of these, those that spent half of the window or more without result: waiting for a response
    /// or a connection, or on requests that failed.
    pub users_blocked: u64,
    /// How often bytes arrived while no request was waiting for any.
    pub unsolicited: u64,
    /// Responses that were followed by further bytes.
    pub trailing: u64,
    /// Of the sent, those that left in one send with others of their connection.
    pub shared_sends: u64,
    /// Of the answered, those whose response came in one receive with others of their connection,
    /// and so shares their arrival stamp.
    pub shared_receives: u64,
    /// Of the answered, those that may have the latency of another request of their connection:
    /// pipelined requests since the connection was last empty, if it ended by a timeout or with a
    /// surplus response.
    pub doubtful: u64,
    /// Of the answered, those whose response came before the request was completely sent.
    pub incomplete_uploads: u64,
    /// How often a request had to go to another stream: its own was above the last stream of a
    /// GOAWAY, or hadn't begun when that came, or was refused. It keeps its intended time and counts
    /// as sent once.
    pub requeued: u64,
    /// GOAWAYs of the target, in the whole run.
    pub goaways: u64,
    /// Counts of the setup load, which is recorded nowhere else.
    pub setup: SetupCounts,
    /// Counts of the warm-up's load, which is recorded nowhere else.
    pub warmup: WarmupCounts,
}

/// Counts of a run in progress: see [`Counts::so_far`].
pub type CountsSoFar = [u64; 11];

/// The outcomes of the requests due in the warm-up.
#[derive(AddAssign, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WarmupCounts {
    /// Handed to the kernel, or failed because no connection could be opened.
    pub sent: u64,
    /// Of these, handed to the kernel in the window: the backlog of the load before it.
    pub sent_in_window: u64,
    /// Of the sent, those ended by a complete response.
    pub answered: u64,
    /// Of these, those whose response came in the window.
    pub answered_in_window: u64,
    /// Of the sent, those that failed or timed out, by cause.
    pub errors: CountsBy<Cause>,
    /// Of the sent, those given up in flight.
    pub abandoned: u64,
    /// Never sent.
    pub unsent: u64,
}

impl WarmupCounts {
    /// Counts a request's outcome; `in_window`: within the window.
    pub fn ended(&mut self, outcome: Outcome, in_window: bool) {
        match outcome {
            Outcome::Answered(_) | Outcome::CheckFailed { .. } => {
                self.answered += 1;
                self.answered_in_window += u64::from(in_window);
            }
            Outcome::TimedOut(kind) => self.errors.add(kind.cause()),
            Outcome::Failed(cause) => self.errors.add(cause),
            Outcome::Abandoned => self.abandoned += 1,
            Outcome::Unsent(_) => self.unsent += 1,
        }
    }
}

/// Counts from before the epoch of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetupCounts {
    /// Handed to the kernel, or failed because no connection could be opened.
    pub sent: u64,
    /// Of these, those ended by a complete response.
    pub answered: u64,
    /// Of the sent, those that failed or timed out, by cause.
    pub errors: CountsBy<Cause>,
    /// Of the sent, those given up in flight when setup ended.
    pub abandoned: u64,
    /// True if the connection pool had settled on all shards when setup ended; `None` for a setup
    /// that doesn't wait for that. A pool without a connection hasn't settled.
    pub settled: Option<bool>,
}

impl SetupCounts {
    /// Counts a request's outcome. Unsent requests aren't counted: setup load has no plan to keep.
    pub fn ended(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Answered(_) | Outcome::CheckFailed { .. } => self.answered += 1,
            Outcome::TimedOut(kind) => self.errors.add(kind.cause()),
            Outcome::Failed(cause) => self.errors.add(cause),
            Outcome::Abandoned => self.abandoned += 1,
            Outcome::Unsent(_) => {}
        }
    }
}

impl std::ops::AddAssign for SetupCounts {
    fn add_assign(&mut self, other: SetupCounts) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.errors += other.errors;
        self.abandoned += other.abandoned;
        self.settled = match (self.settled, other.settled) {
            (Some(one), Some(other)) => Some(one && other),
            (one, other) => one.or(other),
        };
    }
}

/// Counts of one interval of the run: first of the requests that were due in it, then of what
/// happened in it to requests of the window, whenever they were due.
#[derive(
    AddAssign, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
pub struct IntervalCounts {
    /// Requests that were due.
    pub intended: u64,
    /// Of these, sent.
    pub sent: u64,
    /// Of these, never sent.
    pub unsent: u64,
    /// Of these, answered.
    pub answered: u64,
    /// Of these, with a status that isn't a success.
    pub unexpected_status: u64,
    /// Of these, with a response that failed a check.
    pub failed_checks: u64,
    /// Of those sent, timed out, failed or abandoned.
    pub errors: u64,
    /// Requests due in the window that were sent in this interval. Requests sent after the window's
    /// end are in no interval, and neither are the warm-up's.
    pub sends: u64,
    /// Requests due in the window whose complete response, of any status, came in this interval.
    /// Requests answered after the window's end are in no interval, and neither are the warm-up's.
    pub answers: u64,
}

impl IntervalCounts {
    /// Answered requests whose answer isn't good.
    pub fn not_good(&self) -> u64 {
        self.unexpected_status.saturating_add(self.failed_checks)
    }
}

/// True if a status redirects; 304 doesn't.
pub fn leads_elsewhere(status: u16) -> bool {
    (300..400).contains(&status) && status != 304
}

impl Counts {
    /// No requests, with all memory for counting allocated.
    pub fn preallocated() -> Counts {
        Counts {
            unsent_reasons: CountsBy::preallocated(),
            status: CountsBy::preallocated(),
            errors: CountsBy::preallocated(),
            connection_errors: CountsBy::preallocated(),
            setup: SetupCounts { errors: CountsBy::preallocated(), ..SetupCounts::default() },
            warmup: WarmupCounts { errors: CountsBy::preallocated(), ..WarmupCounts::default() },
            ..Counts::default()
        }
    }

    /// Requests without a good answer.
    pub fn bad(&self) -> u64 {
        self.intended.saturating_sub(self.good())
    }

    /// Requests with a good answer: one with a status that is a success, which met all checks.
    pub fn good(&self) -> u64 {
        self.answered.saturating_sub(self.not_good())
    }

    /// Answered requests whose answer isn't good.
    pub fn not_good(&self) -> u64 {
        self.unexpected_status.saturating_add(self.failed_checks)
    }

    /// Requests that the schedule or its user made due: all but the later steps of sessions.
    pub fn arrivals(&self) -> u64 {
        self.intended.saturating_sub(self.later_steps)
    }

    /// The same, of those handed to the kernel in the window.
    pub fn arrivals_sent_in_window(&self) -> u64 {
        self.sent_in_window.saturating_sub(self.later_steps_in_window)
    }

    /// Answers whose status isn't in `expected`.
    pub fn unexpected(&self, expected: &StatusSet) -> u64 {
        let unexpected = self.status.iter().filter(|(status, _)| !expected.holds(*status));
        unexpected.fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// Requests with a corrected latency: all but failed and dropped ones.
    pub fn with_latency(&self) -> u64 {
        let dropped = self.unsent_reasons.of(UnsentReason::Dropped);
        self.intended.saturating_sub(self.failed).saturating_sub(dropped)
    }

    /// Requests that failed because the generator's machine lacked something: ports, files, memory,
    /// or the body to send.
    pub fn failed_here(&self) -> u64 {
        let here = Cause::LOCAL.into_iter().chain([Cause::BodyUnreadable]);
        here.fold(0, |sum, cause| sum.saturating_add(self.errors.of(cause)))
    }

    /// Unsent requests that aren't the target's fault: all but those dropped while the target kept
    /// every connection busy, which have no latency either.
    pub fn unsent_here(&self) -> u64 {
        let dropped = self.unsent_reasons.of(UnsentReason::Dropped);
        self.unsent.saturating_sub(dropped.min(self.capped))
    }

    /// The requests without a good answer, and all requests, as far as they reflect on the target:
    /// neither includes requests that failed here or were unsent here ([`Counts::unsent_here`]).
    pub fn of_target(&self) -> (u64, u64) {
        let own = self.unsent_here().saturating_add(self.failed_here());
        (self.bad().saturating_sub(own), self.intended.saturating_sub(own))
    }

    /// Requests that were sent and ended in an error: failed, timed out or abandoned.
    pub fn ended_in_error(&self) -> u64 {
        self.timed_out + self.failed + self.abandoned
    }

    /// Redirects, which the client didn't follow, except those with a status in `expected`, which
    /// are successes.
    pub fn redirects(&self, expected: &StatusSet) -> u64 {
        let redirects = self
            .status
            .iter()
            .filter(|(status, _)| leads_elsewhere(*status) && !expected.holds(*status));
        redirects.fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// Counts this many requests as intended and given up unsent.
    pub fn unsent_n(&mut self, reason: UnsentReason, count: u64) {
        self.intended += count;
        self.unsent += count;
        self.unsent_reasons.add_n(reason, count);
    }

    /// Counts a request's outcome. That it was intended and sent is counted when it happens.
    #[inline]
    pub fn ended(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Answered(status) => {
                self.answered += 1;
                self.status.add(status);
            }
            Outcome::CheckFailed { status, .. } => {
                self.answered += 1;
                self.failed_checks += 1;
                self.status.add(status);
            }
            Outcome::TimedOut(kind) => {
                self.timed_out += 1;
                self.errors.add(kind.cause());
            }
            Outcome::Failed(cause) => {
                self.failed += 1;
                self.errors.add(cause);
            }
            Outcome::Abandoned => self.abandoned += 1,
            Outcome::Unsent(reason) => {
                self.unsent += 1;
                self.unsent_reasons.add(reason);
            }
        }
    }

    /// The number of requests and of each outcome: intended, sent, unsent, answered, timed out,
    /// failed, abandoned.
    pub fn outcomes(&self) -> [u64; 7] {
        [
            self.intended,
            self.sent,
            self.unsent,
            self.answered,
            self.timed_out,
            self.failed,
            self.abandoned,
        ]
    }

    /// The counts shown during the run: [`Counts::outcomes`], answers whose status isn't a success,
    /// answers that failed a check, and the warm-up's sent and answered requests. None of them ever
    /// decreases.
    pub fn so_far(&self) -> CountsSoFar {
        let [intended, sent, unsent, answered, timed_out, failed, abandoned] = self.outcomes();
        let WarmupCounts { sent: warmup_sent, answered: warmup_answered, .. } = self.warmup;
        [
            intended,
            sent,
            unsent,
            answered,
            timed_out,
            failed,
            abandoned,
            self.unexpected_status,
            self.failed_checks,
            warmup_sent,
            warmup_answered,
        ]
    }

    /// Counts with only these known, in the order of [`Counts::outcomes`].
    pub fn of_outcomes(outcomes: [u64; 7]) -> Counts {
        let [intended, sent, unsent, answered, timed_out, failed, abandoned] = outcomes;
        Counts {
            intended,
            sent,
            unsent,
            answered,
            timed_out,
            failed,
            abandoned,
            ..Counts::default()
        }
    }

    /// True if each intended request was sent or not, and each sent one ended: `intended = sent +
    /// unsent` and `sent = answered + timed_out + failed + abandoned`.
    pub fn every_request_ended(&self) -> bool {
        let ended = [self.answered, self.timed_out, self.failed, self.abandoned]
            .iter()
            .try_fold(0_u64, |sum, count| sum.checked_add(*count));
        self.sent.checked_add(self.unsent) == Some(self.intended) && ended == Some(self.sent)
    }

    /// Requests handed to the kernel in the window, whenever they were due.
    pub fn sends_in_window(&self) -> u64 {
        self.sent_in_window.saturating_add(self.warmup.sent_in_window)
    }

    /// Responses of the whole run: in setup, the warm-up and the window.
    pub fn answered_ever(&self) -> u64 {
        let before = self.warmup.answered.saturating_add(self.setup.answered);
        self.answered.saturating_add(before)
    }

    /// Requests sent, those of setup and warm-up included.
    pub fn sent_ever(&self) -> u64 {
        let before = self.warmup.sent.saturating_add(self.setup.sent);
        self.sent.saturating_add(before)
    }

    /// Requests sent before the window and their outcomes, which must be equal: in setup, and in
    /// the warm-up.
    pub fn before_the_window(&self) -> [(u64, u64); 2] {
        let SetupCounts { sent, answered, errors, abandoned, .. } = &self.setup;
        let warmup = &self.warmup;
        [
            (*sent, [*answered, *abandoned, errors.total()]),
            (warmup.sent, [warmup.answered, warmup.abandoned, warmup.errors.total()]),
        ]
        .map(|(sent, ended)| (sent, ended.into_iter().fold(0, u64::saturating_add)))
    }

    /// True if all sums add up.
    pub fn adds_up(&self) -> bool {
        self.every_request_ended()
            && self.before_the_window().iter().all(|(sent, ended)| sent == ended)
            && self.answered == self.status.total()
            && self.unsent == self.unsent_reasons.total()
            && self.timed_out + self.failed == self.errors.total()
    }

    /// Panics unless the sums add up: a number that doesn't must never be shown.
    pub fn assert_sums(&self) {
        assert!(
            self.every_request_ended(),
            "intended = sent + unsent, sent = answered + timed_out + failed + abandoned: {self:?}"
        );
        let equal = [
            ("answered = the sum over statuses", self.answered, self.status.total()),
            ("unsent = the sum over reasons", self.unsent, self.unsent_reasons.total()),
            (
                "timed_out + failed = the sum over causes",
                self.timed_out + self.failed,
                self.errors.total(),
            ),
        ];
        let [setup, warmup] = self.before_the_window();
        let before = [("setup: sent = ended", setup), ("warm-up: sent = ended", warmup)];
        let before = before.map(|(what, (sent, ended))| (what, sent, ended));
        for (what, whole, sum) in equal.into_iter().chain(before) {
            assert_eq!(whole, sum, "{what}: {self:?}");
        }
    }
}

/// A key that counts are kept by.
pub trait Key: Copy + PartialEq {
    /// The kind of key, in words.
    const WHAT: &'static str;
    /// The maximum number of different keys.
    const MAX: usize;

    /// The key's name in a document.
    fn name(&self) -> String;

    /// The key with this name.
    fn from_name(name: &str) -> Option<Self>;
}

impl Key for UnsentReason {
    const WHAT: &'static str = "reason";
    const MAX: usize = UnsentReason::ALL.len();

    fn name(&self) -> String {
        UnsentReason::name(*self).to_owned()
    }

    fn from_name(name: &str) -> Option<UnsentReason> {
        UnsentReason::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

impl Key for Cause {
    const WHAT: &'static str = "cause";
    const MAX: usize =
        Cause::PLAIN.len() + Violation::ALL.len() + Violation2::ALL.len() + RESETS_MAX;

    fn name(&self) -> String {
        Cause::name(*self)
    }

    fn from_name(name: &str) -> Option<Cause> {
        Cause::from_name(name)
    }
}

/// A status code.
impl Key for u16 {
    const WHAT: &'static str = "status";
    const MAX: usize = STATUS_MAX;

    fn name(&self) -> String {
        self.to_string()
    }

    fn from_name(name: &str) -> Option<u16> {
        let is_known = |status: &u16| usize::from(*status) < STATUS_MAX && status.name() == name;
        name.parse().ok().filter(is_known)
    }
}

/// Counts by name, as in documents; zeros are left out.
type ByName = BTreeMap<String, u64>;

/// Counts by key. It is searched from the start, in order of first occurrence: a run has one
/// status, or a few.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(into = "ByName", try_from = "ByName", bound = "K: Key")]
#[schemars(bound = "")]
pub struct CountsBy<K>(Vec<(K, u64)>);

impl<K: Key> CountsBy<K> {
    /// Empty, with room for all keys, so that counting doesn't allocate.
    pub(super) fn preallocated() -> CountsBy<K> {
        CountsBy(Vec::with_capacity(K::MAX))
    }

    /// Counts one.
    #[inline]
    pub fn add(&mut self, key: K) {
        self.add_n(key, 1);
    }

    /// Counts `count` of this key.
    #[inline]
    pub fn add_n(&mut self, key: K, count: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known += count,
            None => self.0.push((key, count)),
        }
    }

    /// The count of this key.
    pub fn of(&self, key: K) -> u64 {
        self.0.iter().find(|(known, _)| *known == key).map_or(0, |(_, count)| *count)
    }

    /// The keys and their counts, in order of first occurrence.
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> {
        self.0.iter().copied()
    }

    /// The sum of all counts; saturates, since a document may hold any numbers.
    pub fn total(&self) -> u64 {
        self.iter().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// The counts by name.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        self.iter().map(|(key, count)| (key.name(), count)).collect()
    }
}

impl<K> Default for CountsBy<K> {
    fn default() -> CountsBy<K> {
        CountsBy(Vec::new())
    }
}

impl<K: Key> PartialEq for CountsBy<K> {
    fn eq(&self, other: &CountsBy<K>) -> bool {
        self.by_name() == other.by_name()
    }
}

impl<K: Key> Eq for CountsBy<K> {}

impl<K: Key> std::ops::AddAssign for CountsBy<K> {
    fn add_assign(&mut self, other: CountsBy<K>) {
        for (key, count) in other.0 {
            self.add_n(key, count);
        }
    }
}

impl<K: Key, const N: usize> From<[(K, u64); N]> for CountsBy<K> {
    fn from(counts: [(K, u64); N]) -> CountsBy<K> {
        CountsBy(counts.into())
    }
}

impl<K: Key> From<CountsBy<K>> for ByName {
    fn from(counts: CountsBy<K>) -> ByName {
        counts.by_name()
    }
}

/// A name in a document that isn't known here.
#[derive(Debug, thiserror::Error)]
#[error("unknown {what} `{name}`")]
pub struct UnknownName {
    what: &'static str,
    name: String,
}

impl<K: Key> TryFrom<ByName> for CountsBy<K> {
    type Error = UnknownName;

    fn try_from(named: ByName) -> Result<CountsBy<K>, UnknownName> {
        let counts = named.into_iter().map(|(name, count)| match K::from_name(&name) {
            Some(key) => Ok((key, count)),
            None => Err(UnknownName { what: K::WHAT, name }),
        });
        Ok(CountsBy(counts.collect::<Result<_, UnknownName>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::TimeoutKind;

    fn counted(outcomes: &[Outcome]) -> Counts {
        let mut counts = Counts::preallocated();
        for outcome in outcomes {
            counts.intended += 1;
            counts.sent += u64::from(!matches!(outcome, Outcome::Unsent(_)));
            counts.ended(*outcome);
        }
        counts.assert_sums();
        counts
    }

    const OUTCOMES: [Outcome; 7] = [
        Outcome::Answered(200),
        Outcome::Answered(503),
        Outcome::TimedOut(TimeoutKind::Timeout),
        Outcome::TimedOut(TimeoutKind::Deadline),
        Outcome::Failed(Cause::Reset),
        Outcome::Abandoned,
        Outcome::Unsent(UnsentReason::End),
    ];

    #[test]
    fn every_outcome_is_counted_once_by_its_cause() {
        let counts = counted(&OUTCOMES);
        assert_eq!(counts.outcomes(), [7, 6, 1, 2, 2, 1, 1]);
        assert_eq!((counts.status.of(200), counts.status.of(404)), (1, 0));
        let causes = [("deadline", 1), ("reset", 1), ("timed_out", 1)];
        assert_eq!(counts.errors.by_name(), causes.map(|(name, n)| (name.to_owned(), n)).into());
        assert_eq!(counts.unsent_reasons.of(UnsentReason::End), 1);
        assert_eq!(Counts::of_outcomes(counts.outcomes()).outcomes(), counts.outcomes());
    }

    #[test]
    fn what_was_never_sent_or_failed_here_is_not_the_targets() {
        let own = [
            Outcome::Failed(Cause::NoLocalPort),
            Outcome::Failed(Cause::NoFile),
            Outcome::Failed(Cause::LocalResource),
            Outcome::Failed(Cause::BodyUnreadable),
            Outcome::Unsent(UnsentReason::Dropped),
        ];
        let mut counts = counted(&OUTCOMES);
        counts.unexpected_status = 1;
        assert_eq!((counts.bad(), counts.failed_here(), counts.of_target()), (6, 0, (5, 6)));
        counts += counted(&own);
        assert_eq!((counts.bad(), counts.failed_here(), counts.of_target()), (11, 4, (5, 6)));
        // Dropped while all connections were busy: the target's fault, as far as the cap was
        // reached.
        counts.capped = 9;
        assert_eq!((counts.unsent_here(), counts.of_target()), (1, (6, 7)));
    }

    #[test]
    fn adding_up_is_counting_all() {
        for cut in 0..OUTCOMES.len() {
            let mut sum = counted(&OUTCOMES[cut..]);
            sum += counted(&OUTCOMES[..cut]);
            assert_eq!(sum, counted(&OUTCOMES), "cut at {cut}");
        }
    }

    #[test]
    fn a_setup_has_settled_when_every_shard_has() {
        let of = |settled| SetupCounts { settled, ..SetupCounts::default() };
        for (one, other, both) in [
            (None, None, None),
            (None, Some(true), Some(true)),
            (Some(true), Some(true), Some(true)),
            (Some(true), Some(false), Some(false)),
            (Some(false), None, Some(false)),
        ] {
            let mut sum = of(one);
            sum += of(other);
            assert_eq!(sum, of(both));
        }
    }

    #[test]
    fn sums_that_do_not_add_up_are_detected() {
        let counts = counted(&OUTCOMES);
        assert!(counts.every_request_ended());
        assert!(!Counts { answered: 3, ..counts.clone() }.every_request_ended());
        let overflow = Counts { answered: u64::MAX, ..counts };
        assert!(!overflow.every_request_ended(), "an overflow must not match");
    }

    #[test]
    fn a_document_holds_what_was_counted_and_nothing_unknown() {
        let counts = counted(&OUTCOMES);
        let document = serde_json::to_value(&counts).expect("a document");
        assert_eq!(document["status"], serde_json::json!({ "200": 1, "503": 1 }));
        assert_eq!(document["unsent_reasons"], serde_json::json!({ "end_of_run": 1 }));
        assert_eq!(serde_json::from_value::<Counts>(document.clone()).expect("counts"), counts);
        for (field, name, problem) in [
            ("status", "1000", "unknown status `1000`"),
            ("status", "0200", "unknown status `0200`"),
            ("errors", "gone", "unknown cause `gone`"),
            ("unsent_reasons", "later", "unknown reason `later`"),
        ] {
            let mut wrong = document.clone();
            wrong[field] = serde_json::json!({ name: 1 });
            let error = serde_json::from_value::<Counts>(wrong).expect_err(problem).to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
