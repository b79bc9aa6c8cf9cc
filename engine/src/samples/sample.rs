//! A raw sample: one request as a record of 40 bytes.

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::causes;
use super::problem::Problem;
use crate::plan::status::STATUS_MAX;
use crate::record::outcome::{Outcome, TimeoutKind, UnsentReason};
use crate::record::stamps::Stamps;

/// Length of a record, bytes.
pub const SAMPLE_BYTES: usize = size_of::<Record>();

/// A record as it lies in the file.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Record {
    intended_ns: U64,
    noticed_ns: U64,
    sent_ns: U64,
    ended_ns: U64,
    shard: U16,
    status: U16,
    outcome: U16,
    cause: U16,
}

/// One request of the window. Times are ns since the epoch of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was due.
    pub intended_ns: u64,
    /// When the shard saw that it was due.
    pub noticed_ns: u64,
    /// Just before the system call that carried it; 0 when unsent. A request that never had a
    /// connection failed at this time: it equals `ended_ns`.
    pub sent_ns: u64,
    /// When it ended: received, or given up.
    pub ended_ns: u64,
    /// The shard that carried it.
    pub shard: u16,
    /// Status of the response; 0 if not answered.
    pub status: u16,
    /// How it ended.
    pub kind: SampleKind,
    /// Number of the cause of a failure or a timeout, or of the reason why it was never sent, see
    /// [`super::cause_name`]; 0 otherwise.
    pub cause: u16,
}

/// How a request ended, without the detail that a [`Sample`] keeps beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// A whole response came.
    Answered,
    /// No whole response in time.
    TimedOut,
    /// The connection or the protocol failed.
    Failed,
    /// Still in flight when the drain ended.
    Abandoned,
    /// Never sent.
    Unsent,
}

impl SampleKind {
    /// The name by which a report counts it.
    pub fn name(self) -> &'static str {
        match self {
            SampleKind::Answered => "answered",
            SampleKind::TimedOut => "timed_out",
            SampleKind::Failed => "failed",
            SampleKind::Abandoned => "abandoned",
            SampleKind::Unsent => "unsent",
        }
    }

    fn code(self) -> u16 {
        match self {
            SampleKind::Answered => 1,
            SampleKind::TimedOut => 2,
            SampleKind::Failed => 3,
            SampleKind::Abandoned => 4,
            SampleKind::Unsent => 5,
        }
    }

    fn of_code(code: u16) -> Option<SampleKind> {
        [
            SampleKind::Answered,
            SampleKind::TimedOut,
            SampleKind::Failed,
            SampleKind::Abandoned,
            SampleKind::Unsent,
        ]
        .into_iter()
        .find(|kind| kind.code() == code)
    }
}

impl Sample {
    /// The sample of a request that ended.
    #[inline]
    pub fn new(shard: u16, stamps: &Stamps, ended_ns: u64, outcome: Outcome) -> Sample {
        let (kind, status, cause) = match outcome {
            Outcome::Answered(status) => (SampleKind::Answered, status, 0),
            Outcome::TimedOut(kind) => (SampleKind::TimedOut, 0, causes::code(kind.cause())),
            Outcome::Failed(cause) => (SampleKind::Failed, 0, causes::code(cause)),
            Outcome::Abandoned => (SampleKind::Abandoned, 0, 0),
            Outcome::Unsent(reason) => (SampleKind::Unsent, 0, causes::code_of_unsent(reason)),
        };
        Sample {
            intended_ns: stamps.intended_ns,
            noticed_ns: stamps.noticed_ns,
            sent_ns: if kind == SampleKind::Unsent { 0 } else { stamps.sent_ns },
            ended_ns,
            shard,
            status,
            kind,
            cause,
        }
    }

    /// The record.
    #[inline]
    pub fn encode(&self) -> [u8; SAMPLE_BYTES] {
        zerocopy::transmute!(Record {
            intended_ns: self.intended_ns.into(),
            noticed_ns: self.noticed_ns.into(),
            sent_ns: self.sent_ns.into(),
            ended_ns: self.ended_ns.into(),
            shard: self.shard.into(),
            status: self.status.into(),
            outcome: self.kind.code().into(),
            cause: self.cause.into(),
        })
    }

    /// The sample in a record.
    ///
    /// # Errors
    /// What no writer would have written: an unknown outcome or cause, or stamps that run
    /// backwards.
    pub fn decode(bytes: &[u8; SAMPLE_BYTES]) -> Result<Sample, Problem> {
        let record: Record = zerocopy::transmute!(*bytes);
        let outcome = record.outcome.get();
        let sample = Sample {
            intended_ns: record.intended_ns.get(),
            noticed_ns: record.noticed_ns.get(),
            sent_ns: record.sent_ns.get(),
            ended_ns: record.ended_ns.get(),
            shard: record.shard.get(),
            status: record.status.get(),
            kind: SampleKind::of_code(outcome).ok_or(Problem::UnknownOutcome(outcome))?,
            cause: record.cause.get(),
        };
        sample.check()?;
        Ok(sample)
    }

    fn check(&self) -> Result<(), Problem> {
        if self.outcome().is_none() {
            let Sample { status, cause, kind, .. } = *self;
            return Err(Problem::NoSuchOutcome { status, cause, outcome: kind.name() });
        }
        let in_order = match self.kind {
            SampleKind::Unsent => self.sent_ns == 0 && self.noticed_ns <= self.ended_ns,
            _ => self.noticed_ns <= self.sent_ns && self.sent_ns <= self.ended_ns,
        };
        if !in_order || self.noticed_ns < self.intended_ns {
            return Err(Problem::StampsBackwards {
                intended_ns: self.intended_ns,
                noticed_ns: self.noticed_ns,
                sent_ns: self.sent_ns,
                ended_ns: self.ended_ns,
            });
        }
        Ok(())
    }

    /// How it ended, in full; `None` for a status or a cause that no request of its kind has.
    pub fn outcome(&self) -> Option<Outcome> {
        match (self.kind, self.status, self.cause) {
            (SampleKind::Answered, 1.., 0) if usize::from(self.status) < STATUS_MAX => {
                Some(Outcome::Answered(self.status))
            }
            (SampleKind::TimedOut, 0, cause) => [TimeoutKind::Timeout, TimeoutKind::Deadline]
                .into_iter()
                .find(|kind| causes::code(kind.cause()) == cause)
                .map(Outcome::TimedOut),
            (SampleKind::Failed, 0, cause) => causes::cause_of(cause).map(Outcome::Failed),
            (SampleKind::Abandoned, 0, 0) => Some(Outcome::Abandoned),
            (SampleKind::Unsent, 0, reason) => causes::unsent_of(reason).map(Outcome::Unsent),
            _ => None,
        }
    }

    /// Whether it failed because no connection could be had: then it was never on the wire, and
    /// `sent_ns` is when it failed.
    pub(crate) fn is_unconnected(&self) -> bool {
        self.kind == SampleKind::Failed && self.sent_ns == self.ended_ns
    }

    /// `received − sent`, as the report's naive distribution counts it: `None` for what failed or
    /// was never sent.
    pub(crate) fn naive_ns(&self) -> Option<u64> {
        let counted = matches!(
            self.kind,
            SampleKind::Answered | SampleKind::TimedOut | SampleKind::Abandoned
        );
        counted.then(|| self.ended_ns - self.sent_ns)
    }

    /// `received − intended`, as the report's corrected distribution counts it: `None` for what
    /// failed or was dropped.
    pub(crate) fn corrected_ns(&self) -> Option<u64> {
        let dropped = self.cause == causes::code_of_unsent(UnsentReason::Dropped);
        (self.kind != SampleKind::Failed && !dropped).then(|| self.ended_ns - self.intended_ns)
    }

    /// Intended → noticed; `None` when unsent.
    pub(crate) fn pacer_lateness_ns(&self) -> Option<u64> {
        (self.kind != SampleKind::Unsent).then(|| self.noticed_ns - self.intended_ns)
    }

    /// Noticed → sent; `None` when unsent.
    pub(crate) fn connection_wait_ns(&self) -> Option<u64> {
        (self.kind != SampleKind::Unsent).then(|| self.sent_ns - self.noticed_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::outcome::Cause;

    const STAMPS: Stamps = Stamps { intended_ns: 1, noticed_ns: 0x0203, sent_ns: 0x0405 };

    #[test]
    fn a_record_is_laid_out_as_documented() {
        let bytes = Sample::new(7, &STAMPS, 0x0607_0809, Outcome::Answered(404)).encode();
        let want = [
            [1, 0, 0, 0, 0, 0, 0, 0],
            [3, 2, 0, 0, 0, 0, 0, 0],
            [5, 4, 0, 0, 0, 0, 0, 0],
            [9, 8, 7, 6, 0, 0, 0, 0],
            [7, 0, 0x94, 1, 1, 0, 0, 0],
        ];
        assert_eq!(bytes, *want.as_flattened());
    }

    #[test]
    fn every_outcome_comes_back() {
        for outcome in [
            Outcome::Answered(200),
            Outcome::TimedOut(TimeoutKind::Timeout),
            Outcome::Failed(Cause::Reset),
            Outcome::Failed(Cause::Protocol("chunk_end")),
            Outcome::Abandoned,
            Outcome::Unsent(UnsentReason::End),
        ] {
            let sample = Sample::new(3, &STAMPS, 5_000, outcome);
            assert_eq!(Sample::decode(&sample.encode()), Ok(sample), "{outcome:?}");
            assert_eq!(sample.outcome(), Some(outcome));
        }
    }

    #[test]
    fn what_no_writer_writes_is_refused() {
        let good = Sample::new(0, &STAMPS, 5_000, Outcome::Answered(200)).encode();
        for (at, value) in [(36, 0), (36, 6), (38, 1), (24, 0), (8, 0), (34, 0)] {
            let mut bytes = good;
            bytes[at] = value;
            if at == 24 || at == 8 || at == 34 {
                bytes[at + 1] = 0;
            }
            assert!(Sample::decode(&bytes).is_err(), "byte {at} = {value}");
        }
        let sample = Sample::decode(&good).expect("good");
        for wrong in [
            Sample { status: 1_000, ..sample },
            Sample { kind: SampleKind::TimedOut, status: 0, cause: 6, ..sample },
            Sample { kind: SampleKind::Failed, status: 0, cause: 66, ..sample },
            Sample { kind: SampleKind::Unsent, status: 0, sent_ns: 0, cause: 6, ..sample },
        ] {
            assert!(Sample::decode(&wrong.encode()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn latencies_are_those_that_the_recorder_counts() {
        use crate::record::config::RecorderConfig;
        use crate::record::outcome::{Cause, TimeoutKind, UnsentReason};
        use crate::record::recorder::Recorder;
        for outcome in [
            Outcome::Answered(200),
            Outcome::TimedOut(TimeoutKind::Timeout),
            Outcome::Failed(Cause::CutShort),
            Outcome::Abandoned,
            Outcome::Unsent(UnsentReason::End),
            Outcome::Unsent(UnsentReason::Dropped),
        ] {
            let mut recorder = Recorder::new(RecorderConfig::default());
            if !matches!(outcome, Outcome::Unsent(_)) {
                recorder.sent(&STAMPS, true);
            }
            recorder.ended(&STAMPS, 9_000, true, outcome);
            let sample = Sample::new(0, &STAMPS, 9_000, outcome);
            let pairs = [
                (sample.naive_ns(), &recorder.times.naive),
                (sample.corrected_ns(), &recorder.times.corrected),
                (sample.pacer_lateness_ns(), &recorder.times.pacer_lateness),
                (sample.connection_wait_ns(), &recorder.times.connection_wait),
            ];
            for (sampled, recorded) in pairs {
                assert_eq!(sampled, recorded.max_ns(), "{outcome:?}");
            }
        }
    }
}
