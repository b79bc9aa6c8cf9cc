//! A part over time: counts and latencies by pieces of its stage, in fixed memory.
//!
//! A part's intervals and objectives come from the spread between pieces, as the run's do, and a
//! stall may concern one route alone. So each part has pieces of its own.
//!
//! A plan may have 1,000 parts, so pieces are small. There are fewer than the run has intervals: 36
//! to 72 from a stage of 4.5 s on. They count in 32 bits, and keep latencies from 16 µs on to one
//! digit, so a difference between pieces of less than 6 % doesn't widen an interval.
//!
//! Requests belong to the piece in which they were due. If the end of the window isn't known in
//! advance, pieces double as the run's intervals do, which is exact.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use stats::distribution::{PIECE_DIGITS, VALUE_MAX_NS, empty_histogram};
use stats::encoded::{Encoded, NotLike};
use stats::pieces::Pieces;
use units::SECOND_NS;

use crate::outcome::Outcome;
use crate::series::INTERVAL_FIRST_NS;

/// The most pieces of a part.
pub const PIECES_MAX: usize = 72;
/// The resolution of the shortest latencies, ns.
const UNIT_NS: u64 = 1_024;
/// The largest factor by which a piece may grow.
const DOUBLINGS_MAX: u64 = 1 << 24;

/// The requests of a part that were due in one piece.
#[derive(Clone, Debug, PartialEq)]
pub struct PartPiece {
    /// Requests that were due.
    pub intended: u64,
    /// Of these, answered.
    pub answered: u64,
    /// Of these, with a status that isn't a success.
    pub unexpected_status: u64,
    /// Of these, with a response that failed a check.
    pub failed_checks: u64,
    /// The corrected latencies of those that have one.
    latency: Histogram<u32>,
}

impl PartPiece {
    fn new() -> PartPiece {
        let mut latency = Histogram::new_with_bounds(UNIT_NS, VALUE_MAX_NS, PIECE_DIGITS)
            .expect("the bounds are valid");
        // Touches every page now, since memory mustn't grow during the run.
        latency.reset();
        PartPiece { intended: 0, answered: 0, unexpected_status: 0, failed_checks: 0, latency }
    }

    /// The corrected latencies of those that have one.
    pub fn latency(&self) -> Histogram<u64> {
        let mut all = empty_histogram(PIECE_DIGITS);
        for one in self.latency.iter_recorded() {
            let count = u64::from(one.count_at_value());
            all.record_n(one.value_iterated_to(), count).expect("both have the same bounds");
        }
        all
    }

    fn take_latency(&mut self, latency: &Histogram<u64>) {
        for one in latency.iter_recorded() {
            self.record(one.value_iterated_to(), one.count_at_value());
        }
    }

    /// Records `count` latencies. The part's own distributions count values beyond the range.
    fn record(&mut self, latency_ns: u64, count: u64) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let _ = self.latency.record_n(latency_ns.min(VALUE_MAX_NS), count);
    }

    fn add(&mut self, other: &PartPiece) {
        self.intended += other.intended;
        self.answered += other.answered;
        self.unexpected_status += other.unexpected_status;
        self.failed_checks += other.failed_checks;
        self.latency.add(&other.latency).expect("all pieces have the same bounds");
    }
}

/// The length of a piece, ns, at the end of a stage of this length.
pub fn piece_ns_of(stage_ns: u64) -> u64 {
    let mut piece_ns = INTERVAL_FIRST_NS;
    while piece_ns * (PIECES_MAX as u64) < stage_ns {
        piece_ns *= 2;
    }
    piece_ns
}

/// A part's pieces, from the start of its stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "State", try_from = "State")]
pub struct PartSeries {
    piece_ns: u64,
    pieces: Vec<PartPiece>,
}

/// Serialized pieces, without those after the last request.
#[derive(Serialize, Deserialize)]
struct State {
    piece_ns: u64,
    pieces: Vec<([u64; 4], Encoded)>,
}

/// Serialized pieces whose length or number is invalid.
#[derive(Debug, thiserror::Error)]
enum NotAPart {
    #[error("{0} pieces of {1} ns")]
    Pieces(usize, u64),
    #[error(transparent)]
    Histogram(#[from] NotLike),
}

impl From<PartSeries> for State {
    fn from(series: PartSeries) -> State {
        let state = |piece: &PartPiece| {
            let PartPiece { intended, answered, unexpected_status, failed_checks, .. } = *piece;
            let counts = [intended, answered, unexpected_status, failed_checks];
            (counts, Encoded::new(&piece.latency()))
        };
        State { piece_ns: series.piece_ns, pieces: series.pieces().iter().map(state).collect() }
    }
}

impl TryFrom<State> for PartSeries {
    type Error = NotAPart;

    fn try_from(State { piece_ns, pieces }: State) -> Result<PartSeries, NotAPart> {
        let doublings = piece_ns / INTERVAL_FIRST_NS;
        let is_length = piece_ns % INTERVAL_FIRST_NS == 0 && doublings.is_power_of_two();
        if PIECES_MAX < pieces.len() || !is_length || DOUBLINGS_MAX < doublings {
            return Err(NotAPart::Pieces(pieces.len(), piece_ns));
        }
        let mut series = PartSeries::with_pieces(piece_ns);
        for (piece, state) in series.pieces.iter_mut().zip(pieces) {
            let ([intended, answered, unexpected_status, failed_checks], latency) = state;
            piece.take_latency(&latency.decode(&empty_histogram(PIECE_DIGITS))?);
            (piece.intended, piece.answered) = (intended, answered);
            (piece.unexpected_status, piece.failed_checks) = (unexpected_status, failed_checks);
        }
        Ok(series)
    }
}

impl PartSeries {
    /// Empty pieces for a stage of this length, all allocated; 0 if its length isn't known.
    pub fn new(stage_ns: u64) -> PartSeries {
        PartSeries::with_pieces(piece_ns_of(stage_ns))
    }

    fn with_pieces(piece_ns: u64) -> PartSeries {
        PartSeries { piece_ns, pieces: (0..PIECES_MAX).map(|_| PartPiece::new()).collect() }
    }

    /// The length of a piece, ns.
    pub fn piece_ns(&self) -> u64 {
        self.piece_ns
    }

    /// The pieces up to the last one with a request.
    pub fn pieces(&self) -> &[PartPiece] {
        let len = self.pieces.iter().rposition(|piece| 0 < piece.intended).map_or(0, |at| at + 1);
        &self.pieces[..len]
    }

    /// The latencies of all pieces of a stage of this length.
    pub fn latencies(&self, stage_ns: u64) -> Pieces<Histogram<u64>> {
        let seconds = |ns: u64| ns as f64 / SECOND_NS as f64;
        let all = usize::try_from(stage_ns.div_ceil(self.piece_ns)).unwrap_or(PIECES_MAX);
        // An unpaced user may run slightly past the end of the window.
        let pieces = &self.pieces[..all.max(self.pieces().len()).min(PIECES_MAX)];
        let latencies = pieces.iter().map(PartPiece::latency);
        Pieces::new(latencies.collect(), seconds(self.piece_ns)).lasting(seconds(stage_ns))
    }

    /// A request that was due `at_ns` after the start of the stage ended, `latency_ns` after it was
    /// due.
    pub(super) fn ended(
        &mut self,
        at_ns: u64,
        latency_ns: u64,
        outcome: Outcome,
        is_success: bool,
    ) {
        let piece = self.piece(at_ns);
        piece.intended += 1;
        match outcome {
            Outcome::Answered(_) => {
                piece.answered += 1;
                piece.unexpected_status += u64::from(!is_success);
            }
            Outcome::CheckFailed { .. } => {
                piece.answered += 1;
                piece.failed_checks += 1;
            }
            _ => {}
        }
        if outcome.has_latency() {
            piece.record(latency_ns, 1);
        }
    }

    /// `count` requests that were due at `at_ns` were never sent; `latency_ns` is their age when
    /// they were given up, if that counts as a latency.
    pub(super) fn unsent(&mut self, at_ns: u64, latency_ns: Option<u64>, count: u64) {
        let piece = self.piece(at_ns);
        piece.intended += count;
        if let Some(latency_ns) = latency_ns {
            piece.record(latency_ns, count);
        }
    }

    fn piece(&mut self, at_ns: u64) -> &mut PartPiece {
        while self.piece_ns * PIECES_MAX as u64 <= at_ns {
            self.double();
        }
        &mut self.pieces[usize::try_from(at_ns / self.piece_ns).expect("below their number")]
    }

    /// Doubles the length of the pieces.
    fn double(&mut self) {
        for at in 0..PIECES_MAX / 2 {
            let (before, after) = self.pieces.split_at_mut(2 * at + 1);
            before[2 * at].add(&after[0]);
            self.pieces.swap(at, 2 * at);
        }
        for piece in &mut self.pieces[PIECES_MAX / 2..] {
            (piece.intended, piece.answered) = (0, 0);
            (piece.unexpected_status, piece.failed_checks) = (0, 0);
            piece.latency.reset();
        }
        self.piece_ns *= 2;
    }
}

impl std::ops::AddAssign for PartSeries {
    /// Adds the pieces of another shard or agent; exact, in any order.
    fn add_assign(&mut self, mut other: PartSeries) {
        while self.piece_ns < other.piece_ns {
            self.double();
        }
        while other.piece_ns < self.piece_ns {
            other.double();
        }
        for (mine, theirs) in self.pieces.iter_mut().zip(&other.pieces) {
            mine.add(theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::UnsentReason;

    const LENGTH_NS: u64 = INTERVAL_FIRST_NS;

    #[test]
    fn a_stage_has_enough_pieces_to_compare_from_4500_ms_on() {
        for (stage_ms, pieces) in [(4_500, 36), (9_000, 72), (9_001, 37), (18_000, 72)] {
            let stage_ns: u64 = stage_ms * 1_000_000;
            assert_eq!(stage_ns.div_ceil(piece_ns_of(stage_ns)), pieces, "{stage_ms} ms");
        }
        assert_eq!(piece_ns_of(0), LENGTH_NS);
    }

    #[test]
    fn pieces_that_double_add_up_and_merge_with_shorter_ones() {
        let fill = |every: usize| {
            let mut series = PartSeries::new(0);
            for at in (0..300_u64).step_by(every) {
                series.ended(at * LENGTH_NS, at, Outcome::Answered(200), at % 3 == 0);
            }
            series.unsent(7, Some(9), 5);
            series.ended(8, 1, Outcome::Unsent(UnsentReason::Dropped), false);
            series
        };
        let (mut one, other) = (fill(1), fill(2));
        assert_eq!((one.piece_ns(), one.pieces().len()), (8 * LENGTH_NS, 38));
        let first = &one.pieces()[0];
        assert_eq!((first.intended, first.answered, first.unexpected_status), (14, 8, 5));
        assert_eq!(first.latency().len(), 13);
        let mut short = PartSeries::new(0);
        short.ended(5 * LENGTH_NS, 3, Outcome::Answered(200), true);
        let mut sum = short.clone();
        sum += other.clone();
        one += sum;
        let mut again = fill(1);
        again += other;
        again += short;
        assert_eq!(one, again);
        assert_eq!(one.pieces()[0].intended, 14 + 4 + 6 + 1);
    }

    #[test]
    fn pieces_come_back_from_their_bytes() {
        let mut series = PartSeries::new(0);
        series.ended(3 * LENGTH_NS, 5_000_000, Outcome::Answered(500), false);
        let json = serde_json::to_string(&series).expect("a document");
        assert_eq!(serde_json::from_str::<PartSeries>(&json).expect("comes back"), series);
        let wrong = json.replace(&LENGTH_NS.to_string(), "7");
        assert!(serde_json::from_str::<PartSeries>(&wrong).is_err());
    }
}
