//! A raw sample: one request as a record of 48 bytes.

use plan::check::CHECKS_MAX;
use plan::status::STATUS_MAX;
use record::outcome::{Cause, Outcome, TimeoutKind, UnsentReason};
use record::stamps::{Ending, StampedBy, Stamps};
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, TryFromBytes};

use super::causes;

/// Length of a record, bytes.
pub const SAMPLE_BYTES: usize = size_of::<Record>();
/// Length of a time in a record, bytes: 2⁵⁶ ns are two years.
const TIME_BYTES: usize = 7;

/// The layout of a record in the file.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Record {
    /// Intended, noticed, sent, received and handled.
    times: [[u8; TIME_BYTES]; 5],
    /// From the lowest bit: three of the outcome, two of the stamp, one for a request that waited.
    flags: u8,
    step: U16,
    /// The status or the cause, depending on the outcome.
    detail: U16,
    /// Its number in the run, or its session's.
    number: [u8; TIME_BYTES],
    /// Always 0.
    reserved: u8,
}

/// One request of the window. Times are ns since the epoch of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was due.
    pub intended_ns: u64,
    /// When the shard noticed that it was due.
    pub noticed_ns: u64,
    /// When it was sent: just before the system call that carried it; 0 if unsent. A request that
    /// never had a connection failed at this time, which equals that of its ending.
    pub sent_ns: u64,
    /// When it ended: received, or given up.
    pub ending: Ending,
    /// True if it had to wait for a connection.
    pub waited: bool,
    /// The shard that carried it; each block holds one shard's records.
    pub shard: u16,
    /// Its step among the plan's.
    pub step: u16,
    /// Its number in the run: that of its session, if its scenario has several steps.
    pub number: u64,
    /// Status of the response; 0 if not answered.
    pub status: u16,
    /// Which of its step's checks the response failed, from 0; 0 too if it failed none.
    pub check: u8,
    /// How it ended.
    pub kind: SampleKind,
    /// Number of the cause of a failure or a timeout, or of the reason why it was never sent, see
    /// [`super::cause_name`]; 0 otherwise.
    pub cause: u16,
}

/// How a request ended, without the details that a [`Sample`] has in other fields; with its number
/// in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes)]
#[repr(u8)]
pub enum SampleKind {
    /// A complete response came.
    Answered = 1,
    /// No complete response in time.
    TimedOut = 2,
    /// The connection or the protocol failed.
    Failed = 3,
    /// Still in flight when the drain ended.
    Abandoned = 4,
    /// Never sent.
    Unsent = 5,
    /// A complete response came, with a status that is a success, and failed a check.
    CheckFailed = 6,
}

impl SampleKind {
    /// True if a complete response came.
    pub fn is_answered(self) -> bool {
        matches!(self, SampleKind::Answered | SampleKind::CheckFailed)
    }

    /// The name by which a report counts it.
    pub fn name(self) -> &'static str {
        match self {
            SampleKind::Answered => "answered",
            SampleKind::TimedOut => "timed_out",
            SampleKind::Failed => "failed",
            SampleKind::Abandoned => "abandoned",
            SampleKind::Unsent => "unsent",
            SampleKind::CheckFailed => "check_failed",
        }
    }
}

/// The number of flag bits below those of the stamp.
const STAMP_SHIFT: u32 = 3;
/// The number of flag bits below that of a request that waited.
const WAITED_SHIFT: u32 = 5;

/// The number of bits of the detail below those of a check: statuses have three digits.
const CHECK_SHIFT: u32 = 10;
const _: () = assert!(STATUS_MAX <= 1 << CHECK_SHIFT && CHECKS_MAX <= 1 << (16 - CHECK_SHIFT));

const STAMPED_BY: [StampedBy; 3] = [StampedBy::Program, StampedBy::Kernel, StampedBy::Control];

impl Sample {
    /// The sample of a request that ended.
    #[inline]
    pub fn new(
        (shard, number): (u16, u64),
        stamps: &Stamps,
        ending: Ending,
        outcome: Outcome,
    ) -> Sample {
        let check = match outcome {
            Outcome::CheckFailed { check, .. } => check,
            _ => 0,
        };
        let (kind, status, cause) = match outcome {
            Outcome::Answered(status) => (SampleKind::Answered, status, 0),
            Outcome::CheckFailed { status, .. } => (SampleKind::CheckFailed, status, 0),
            Outcome::TimedOut(kind) => (SampleKind::TimedOut, 0, kind.cause().number()),
            Outcome::Failed(cause) => (SampleKind::Failed, 0, cause.number()),
            Outcome::Abandoned => (SampleKind::Abandoned, 0, 0),
            Outcome::Unsent(reason) => (SampleKind::Unsent, 0, causes::code_of_unsent(reason)),
        };
        Sample {
            intended_ns: stamps.intended_ns,
            noticed_ns: stamps.noticed_ns,
            sent_ns: if kind == SampleKind::Unsent { 0 } else { stamps.sent_ns },
            ending,
            waited: stamps.waited,
            shard,
            step: stamps.step,
            number,
            status,
            check,
            kind,
            cause,
        }
    }

    /// True if a complete response came.
    pub fn is_answered(&self) -> bool {
        self.kind.is_answered()
    }

    /// The record.
    #[inline]
    pub fn encode(&self) -> [u8; SAMPLE_BYTES] {
        let stamped_by = match self.ending.stamped_by {
            StampedBy::Program => 0,
            StampedBy::Kernel => 1,
            StampedBy::Control => 2,
        };
        let waited = u8::from(self.waited);
        zerocopy::transmute!(Record {
            times: [
                self.intended_ns,
                self.noticed_ns,
                self.sent_ns,
                self.ending.received_ns,
                self.ending.handled_ns,
            ]
            .map(time_bytes),
            flags: self.kind as u8 | stamped_by << STAMP_SHIFT | waited << WAITED_SHIFT,
            step: self.step.into(),
            detail: match self.is_answered() {
                true => self.status | u16::from(self.check) << CHECK_SHIFT,
                false => self.cause,
            }
            .into(),
            number: time_bytes(self.number),
            reserved: 0,
        })
    }

    /// Decodes the sample from a record of this shard.
    ///
    /// # Errors
    /// Nothing that a writer would have written: an unknown outcome or cause, or stamps that run
    /// backwards.
    pub fn decode(shard: u16, bytes: &[u8; SAMPLE_BYTES]) -> Result<Sample, String> {
        let record: Record = zerocopy::transmute!(*bytes);
        let flags = record.flags;
        let outcome = flags & ((1 << STAMP_SHIFT) - 1);
        let kind = SampleKind::try_read_from_bytes(&[outcome])
            .map_err(|_| format!("unknown outcome {outcome}"))?;
        let stamp = flags >> STAMP_SHIFT & 0b11;
        let is_clean = flags >> 6 == 0 && record.reserved == 0;
        let stamped_by = STAMPED_BY.get(usize::from(stamp)).filter(|_| is_clean);
        let [intended_ns, noticed_ns, sent_ns, received_ns, handled_ns] = record.times.map(time_ns);
        let stamped_by = *stamped_by.ok_or_else(|| format!("unknown flags {flags:#010b}"))?;
        let detail = record.detail.get();
        let is_answered = kind.is_answered();
        let sample = Sample {
            intended_ns,
            noticed_ns,
            sent_ns,
            ending: Ending { received_ns, handled_ns, stamped_by },
            waited: flags >> WAITED_SHIFT & 1 == 1,
            shard,
            step: record.step.get(),
            number: time_ns(record.number),
            status: if is_answered { detail & ((1 << CHECK_SHIFT) - 1) } else { 0 },
            check: if is_answered { (detail >> CHECK_SHIFT) as u8 } else { 0 },
            kind,
            cause: if is_answered { 0 } else { detail },
        };
        sample.check()?;
        Ok(sample)
    }

    fn check(&self) -> Result<(), String> {
        if self.outcome().is_none() {
            let Sample { status, cause, kind, .. } = *self;
            let outcome = kind.name();
            return Err(format!("status {status} and cause {cause} of outcome {outcome}"));
        }
        let Ending { received_ns, handled_ns, stamped_by } = self.ending;
        let in_order = match self.kind {
            SampleKind::Unsent => self.sent_ns == 0 && self.noticed_ns <= received_ns,
            _ => self.noticed_ns <= self.sent_ns && self.sent_ns <= received_ns,
        };
        // A response without the kernel's stamp arrived when it was handled, and only responses are
        // stamped. A timeout may be noticed late.
        let by_program = stamped_by == StampedBy::Program;
        let ends = match self.kind {
            SampleKind::Answered | SampleKind::CheckFailed if !by_program => {
                received_ns <= handled_ns
            }
            SampleKind::TimedOut => by_program && received_ns <= handled_ns,
            _ => by_program && received_ns == handled_ns,
        };
        if !in_order || !ends || self.noticed_ns < self.intended_ns {
            let Sample { intended_ns, noticed_ns, sent_ns, .. } = *self;
            return Err(format!(
                "stamps run backwards: intended {intended_ns}, noticed {noticed_ns}, sent \
                 {sent_ns}, received {received_ns}, handled {handled_ns}"
            ));
        }
        Ok(())
    }

    /// The stamps up to the send, as the recorder takes them.
    pub fn stamps(&self) -> Stamps {
        Stamps {
            intended_ns: self.intended_ns,
            noticed_ns: self.noticed_ns,
            sent_ns: if self.kind == SampleKind::Unsent { self.intended_ns } else { self.sent_ns },
            waited: self.waited,
            step: self.step,
            session: None,
        }
    }

    /// Its complete outcome; `None` for a status or a cause that no request of its kind has.
    pub fn outcome(&self) -> Option<Outcome> {
        let Sample { status, check, .. } = *self;
        match (self.kind, status, self.cause) {
            (SampleKind::Answered, 1.., 0) if usize::from(status) < STATUS_MAX && check == 0 => {
                Some(Outcome::Answered(status))
            }
            (SampleKind::CheckFailed, 1.., 0) if usize::from(status) < STATUS_MAX => {
                Some(Outcome::CheckFailed { status, check })
            }
            (SampleKind::TimedOut, 0, cause) => [TimeoutKind::Timeout, TimeoutKind::Deadline]
                .into_iter()
                .find(|kind| kind.cause().number() == cause)
                .map(Outcome::TimedOut),
            (SampleKind::Failed, 0, cause) => Cause::from_number(cause).map(Outcome::Failed),
            (SampleKind::Abandoned, 0, 0) => Some(Outcome::Abandoned),
            (SampleKind::Unsent, 0, reason) => causes::unsent_of(reason).map(Outcome::Unsent),
            _ => None,
        }
    }

    /// True if it failed for lack of a connection: it was never on the wire then, and `sent_ns` is
    /// when it failed.
    pub fn is_unconnected(&self) -> bool {
        self.kind == SampleKind::Failed && self.sent_ns == self.ending.ended_ns()
    }

    /// `received − sent`, as in the report's naive distribution: `None` if it failed or was never
    /// sent.
    pub fn naive_ns(&self) -> Option<u64> {
        let counted =
            self.is_answered() || matches!(self.kind, SampleKind::TimedOut | SampleKind::Abandoned);
        counted.then(|| self.ending.ended_ns() - self.sent_ns)
    }

    /// `received − intended`, as in the report's corrected distribution: `None` if it failed or was
    /// dropped.
    pub fn corrected_ns(&self) -> Option<u64> {
        let dropped = self.cause == causes::code_of_unsent(UnsentReason::Dropped);
        (self.kind != SampleKind::Failed && !dropped)
            .then(|| self.ending.ended_ns() - self.intended_ns)
    }

    /// Intended → noticed; `None` when unsent.
    pub fn pacer_lateness_ns(&self) -> Option<u64> {
        (self.kind != SampleKind::Unsent).then(|| self.noticed_ns - self.intended_ns)
    }

    /// Noticed → sent; `None` when unsent.
    pub fn connection_wait_ns(&self) -> Option<u64> {
        (self.kind != SampleKind::Unsent).then(|| self.sent_ns - self.noticed_ns)
    }
}

fn time_bytes(ns: u64) -> [u8; TIME_BYTES] {
    let bytes = ns.to_le_bytes();
    assert_eq!(bytes[TIME_BYTES], 0, "no run lasts two years");
    std::array::from_fn(|at| bytes[at])
}

fn time_ns(bytes: [u8; TIME_BYTES]) -> u64 {
    let mut all = [0; size_of::<u64>()];
    all[..TIME_BYTES].copy_from_slice(&bytes);
    u64::from_le_bytes(all)
}

#[cfg(test)]
mod tests {
    use http1::response::Violation;

    use super::*;

    const STAMPS: Stamps = Stamps {
        intended_ns: 1,
        noticed_ns: 0x0203,
        sent_ns: 0x0405,
        waited: true,
        step: 0x0102,
        session: None,
    };
    const KERNEL: Ending = Ending {
        received_ns: 0x0607_0809,
        handled_ns: 0x0006_0708_090a_0b0c,
        stamped_by: StampedBy::Kernel,
    };

    #[test]
    fn a_record_is_laid_out_as_documented() {
        let sample = Sample::new((7, 0x0504_0302_0109), &STAMPS, KERNEL, Outcome::Answered(404));
        let bytes = sample.encode();
        let want = [
            [1, 0, 0, 0, 0, 0, 0],
            [3, 2, 0, 0, 0, 0, 0],
            [5, 4, 0, 0, 0, 0, 0],
            [9, 8, 7, 6, 0, 0, 0],
            [0x0c, 0x0b, 0x0a, 9, 8, 7, 6],
        ];
        assert_eq!(bytes[..35], *want.as_flattened());
        assert_eq!(bytes[35..], [0b10_1001, 2, 1, 0x94, 1, 9, 1, 2, 3, 4, 5, 0, 0]);
        let failed = Outcome::CheckFailed { status: 404, check: 5 };
        let bytes = Sample::new((7, 0), &STAMPS, KERNEL, failed).encode();
        assert_eq!(bytes[35..40], [0b10_1110, 2, 1, 0x94, 0b1_0101]);
    }

    #[test]
    fn every_outcome_is_read_as_written() {
        for outcome in [
            Outcome::Answered(200),
            Outcome::TimedOut(TimeoutKind::Timeout),
            Outcome::Failed(Cause::Reset),
            Outcome::Failed(Cause::Protocol(Violation::ChunkEnd)),
            Outcome::Abandoned,
            Outcome::Unsent(UnsentReason::End),
        ] {
            let sample = Sample::new((3, 9), &STAMPS, Ending::at(5_000), outcome);
            assert_eq!(Sample::decode(3, &sample.encode()), Ok(sample), "{outcome:?}");
            assert_eq!(sample.outcome(), Some(outcome));
        }
        for stamped_by in STAMPED_BY.into_iter().skip(1) {
            let ending = Ending { stamped_by, ..KERNEL };
            let sample = Sample::new((3, 9), &STAMPS, ending, Outcome::Answered(200));
            assert_eq!(Sample::decode(3, &sample.encode()), Ok(sample), "{stamped_by:?}");
        }
    }

    #[test]
    fn records_that_no_writer_writes_are_refused() {
        let good = Sample::new((0, 9), &STAMPS, Ending::at(5_000), Outcome::Answered(200)).encode();
        // In turn: no outcome, outcome 7, stamp 3, a flag beyond all, received before sent, noticed
        // before intended, no status, and two ends by one stamp.
        for (at, value) in
            [(35, 0), (35, 7), (35, 25), (35, 0x41), (22, 0), (8, 0), (38, 0), (29, 1)]
        {
            let mut bytes = good;
            bytes[at] = value;
            if at == 8 {
                bytes[at - 1] = 0;
            }
            assert!(Sample::decode(0, &bytes).is_err(), "byte {at} = {value}");
        }
        let sample = Sample::decode(0, &good).expect("good");
        for wrong in [
            Sample { status: 1_000, ..sample },
            Sample { ending: KERNEL, sent_ns: u64::from(u32::MAX), ..sample },
            Sample { kind: SampleKind::TimedOut, status: 0, cause: 6, ..sample },
            Sample { kind: SampleKind::Failed, status: 0, cause: 66, ..sample },
            Sample { kind: SampleKind::Unsent, status: 0, sent_ns: 0, cause: 6, ..sample },
        ] {
            assert!(Sample::decode(0, &wrong.encode()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn latencies_are_the_same_as_the_recorders() {
        use record::config::RecorderConfig;
        use record::outcome::{Cause, TimeoutKind, UnsentReason};
        use record::recorder::Recorder;
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
                recorder.sent(STAMPS.intended_ns, &STAMPS, true);
            }
            recorder.ended((0, STAMPS.intended_ns), &STAMPS, Ending::at(9_000), true, outcome);
            let sample = Sample::new((0, 9), &STAMPS, Ending::at(9_000), outcome);
            let times = recorder.times.distributions();
            let pairs = [
                (sample.naive_ns(), &times.naive),
                (sample.corrected_ns(), &times.corrected),
                (sample.pacer_lateness_ns(), &times.pacer_lateness),
                (sample.connection_wait_ns(), &times.connection_wait),
            ];
            for (sampled, recorded) in pairs {
                assert_eq!(sampled, recorded.max_ns(), "{outcome:?}");
            }
        }
    }
}
