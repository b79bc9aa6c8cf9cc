//! Requests by pieces of time, as objectives are judged by: of the whole run, or of parts of it.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use record::part_series::PIECES_MAX;
use stats::distribution::{PIECE_DIGITS, empty_histogram, histogram_of_text};
use stats::encoded::HistogramError;
use stats::pieces::Pieces;

use crate::{SeriesPart, StepPart, StepPiece, StepSeries};

/// The requests that were due in one piece.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Their corrected latencies.
    pub latency: Histogram<u64>,
    /// How many there were.
    pub intended: u64,
    /// Of these, answered.
    pub answered: u64,
    /// Of these, with an answer that isn't good.
    pub not_good: u64,
}

impl Piece {
    fn empty() -> Piece {
        let latency = empty_histogram(PIECE_DIGITS);
        Piece { latency, intended: 0, answered: 0, not_good: 0 }
    }

    fn read(piece: &StepPiece) -> Result<Piece, HistogramError> {
        let latency = match piece.histogram.as_str() {
            "" => empty_histogram(PIECE_DIGITS),
            text => histogram_of_text(text, PIECE_DIGITS)?,
        };
        let StepPiece { intended, answered, unexpected_status, failed_checks, .. } = *piece;
        let not_good = unexpected_status.saturating_add(failed_checks);
        Ok(Piece { latency, intended, answered, not_good })
    }

    fn add(&mut self, other: &Piece) {
        self.latency.add(&other.latency).expect("all have the same bounds");
        self.intended = self.intended.saturating_add(other.intended);
        self.answered = self.answered.saturating_add(other.answered);
        self.not_good = self.not_good.saturating_add(other.not_good);
    }

    /// Requests without a good answer.
    pub fn bad(&self) -> u64 {
        let good = self.answered.saturating_sub(self.not_good);
        self.intended.saturating_sub(good)
    }
}

/// The whole run, with the latencies of its series.
pub fn of_whole(latencies: &Pieces<Histogram<u64>>, series: &SeriesPart) -> Pieces<Piece> {
    let each = latencies.iter().zip(&series.intervals).map(|(latency, interval)| {
        let counts = &interval.counts;
        Piece {
            latency: latency.clone(),
            intended: counts.intended,
            answered: counts.answered,
            not_good: counts.not_good(),
        }
    });
    Pieces::new(each.collect(), series.interval_s).lasting(latencies.seconds())
}

/// The latencies of one part by pieces of its stage, in a window of this length, s.
///
/// # Errors
/// A text isn't a histogram.
pub fn latencies(part: &StepPart, window_s: f64) -> Result<Pieces<Histogram<u64>>, HistogramError> {
    Ok(of_parts(&[part], window_s)?.map(|piece| piece.latency.clone()))
}

/// Parts in a window of this length, s: those of one stage added up, and the stages one after the
/// other, in pieces as long as those of the longest.
///
/// # Errors
/// A text isn't a histogram.
pub fn of_parts(parts: &[&StepPart], window_s: f64) -> Result<Pieces<Piece>, HistogramError> {
    let piece_s = parts.iter().map(|part| part.series.piece_s).fold(0.0, f64::max);
    let mut stages: BTreeMap<usize, (f64, Vec<Piece>)> = BTreeMap::new();
    for part in parts {
        let (number, length_s) = match &part.stage {
            None => (0, window_s),
            Some(stage) => (stage.number, stage.duration.min(window_s - stage.start).max(0.0)),
        };
        let own = in_pieces_of(piece_s, &part.series, length_s)?;
        let (_, sum) = stages.entry(number).or_insert_with(|| (length_s, Vec::new()));
        for (at, piece) in own.iter().enumerate() {
            match sum.get_mut(at) {
                Some(sum) => sum.add(piece),
                None => sum.push(piece.clone()),
            }
        }
    }
    let length_s = stages.values().map(|(length_s, _)| length_s).sum();
    let pieces = stages.into_values().flat_map(|(_, pieces)| pieces);
    Ok(Pieces::new(pieces.collect(), piece_s).lasting(length_s))
}

/// A part's pieces, those without a request included, joined to pieces of this length, s, which is
/// a multiple of their own.
fn in_pieces_of(
    piece_s: f64,
    series: &StepSeries,
    length_s: f64,
) -> Result<Vec<Piece>, HistogramError> {
    let own = series.pieces.iter().take(PIECES_MAX).map(Piece::read);
    let mut own: Vec<Piece> = own.collect::<Result<_, HistogramError>>()?;
    // A report that was tampered with may have any lengths.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let [all, joined] =
        [(length_s / series.piece_s - 1e-6).ceil(), (piece_s / series.piece_s).round()]
            .map(|number| number as usize);
    own.resize_with(own.len().max(all.min(PIECES_MAX)), Piece::empty);
    let join = |pieces: &[Piece]| {
        let mut sum = pieces[0].clone();
        pieces[1..].iter().for_each(|piece| sum.add(piece));
        sum
    };
    Ok(own.chunks(joined.max(1)).map(join).collect())
}
