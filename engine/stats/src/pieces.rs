//! The uncertainty of a sum over a run whose values depend on each other, from comparing the pieces
//! of the run.
//!
//! A queue, a stall, a neighbour on the machine: latencies of a real system are correlated, over
//! milliseconds or over seconds, and for how long isn't known. So the run is cut into 40, 20, 10
//! and 5 pieces of equal length (`CUTS`), and each cut gives an uncertainty of the sum: with Z_b
//! the excess of piece b over its share, the variance is `m/(m−1)·ΣZ_b²`, with Student's t with m−1
//! degrees of freedom. Long pieces contain more of the dependence, short ones estimate their spread
//! better; **the widest counts**. The remaining dependence between neighbouring pieces, in all cuts
//! but that of five, widens it further, by `(1+r)/(1−r)` for their correlation r, as in a
//! first-order autoregression (Bence, *Ecology* 76, 1995), corrected for its bias (Kendall,
//! *Biometrika* 41, 1954). From a limit on (`CUTS`) the run is shorter than the dependence of its
//! values, and the error states how long it would have to be.
//!
//! None of this detects anything that happens less than about three times per run: a run without a
//! stall doesn't show how often there is one. Anything that comes fewer than ten times, such as
//! three stalls, is too rare for a good estimate of its spread. `calibration/coverage.md` has the
//! figures, for each kind of dependence and length of the window; its text has the rejected
//! alternatives.

use hdrhistogram::Histogram;

use super::statistics::student_t_point;

/// The probability that an end of a 95 % interval is wrong.
pub(super) const TAIL: f64 = 0.025;
/// The numbers of pieces into which a run is cut, each cut on its own, and the correlation of
/// neighbouring pieces from which the run is too short. Independent values reach 0.5 by chance in
/// one of ten runs of ten pieces, and 0.8 in one of seventy; for five pieces it isn't known.
const CUTS: [(usize, Option<f64>); 4] =
    [(40, Some(0.5)), (20, Some(0.5)), (10, Some(0.8)), (5, None)];
/// The degrees of freedom by which the width grows for a smaller tail: those of 20 pieces.
const TAIL_DEGREES: u64 = 19;
/// The highest correlation to extrapolate a longer run from: above it, the required length is
/// unknown.
const CORRELATION_READ_MAX: f64 = 0.95;
/// The shortest run to cut, s: 40 eighths of a second.
pub(crate) const RUN_MIN_S: f64 = 5.0;
/// The rounding error of a difference of two times in seconds, s: a window of 5 s qualifies.
const ROUNDING_S: f64 = 1e-6;
/// Its fewest pieces; the last may have been empty.
const PIECES_MIN: usize = 36;
/// The number of runs from which their spread is used, which covers any cause of differences
/// between runs of one target.
pub const RUNS_MIN: usize = 5;

/// Data of runs by consecutive pieces of equal length; each piece is a `T`.
#[derive(Clone, Debug)]
pub struct Pieces<T> {
    runs: Vec<Run<T>>,
}

#[derive(Clone, Debug)]
struct Run<T> {
    pieces: Vec<T>,
    each_s: f64,
    /// Its length: its last pieces may be missing, and the last one cut off.
    length_s: f64,
}

impl<T> Run<T> {
    fn is_cut(&self) -> bool {
        PIECES_MIN <= self.pieces.len() && RUN_MIN_S <= self.length_s + ROUNDING_S
    }
}

impl<T> Pieces<T> {
    /// The pieces of one run, each `each_s` seconds long; the run is as long as they are together.
    pub fn new(pieces: Vec<T>, each_s: f64) -> Pieces<T> {
        let length_s = pieces.len() as f64 * each_s;
        Pieces { runs: vec![Run { pieces, each_s, length_s }] }
    }

    /// The same for a run of this length, s: its last pieces were empty, or the last one was cut
    /// off.
    pub fn lasting(mut self, length_s: f64) -> Pieces<T> {
        self.runs.iter_mut().for_each(|run| run.length_s = length_s);
        self
    }

    /// The pieces of no run.
    pub fn none() -> Pieces<T> {
        Pieces { runs: Vec::new() }
    }

    /// Adds the pieces of other runs.
    pub fn add(&mut self, others: Pieces<T>) {
        self.runs.extend(others.runs);
    }

    /// All pieces, run by run.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.runs.iter().flat_map(|run| &run.pieces)
    }

    /// Maps each piece.
    pub fn map<U>(&self, mut of: impl FnMut(&T) -> U) -> Pieces<U> {
        let runs = self.runs.iter().map(|run| {
            let pieces = run.pieces.iter().map(&mut of).collect();
            Run { pieces, each_s: run.each_s, length_s: run.length_s }
        });
        Pieces { runs: runs.collect() }
    }

    /// The pieces between two points of each run, each a fraction of the whole.
    pub(crate) fn between(&self, start: f64, end: f64) -> Pieces<T>
    where
        T: Clone,
    {
        let runs = self.runs.iter().map(|run| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place")]
            let at = |share: f64| (share * run.pieces.len() as f64).round() as usize;
            let length_s = (end - start) * run.length_s;
            Run { pieces: run.pieces[at(start)..at(end)].to_vec(), each_s: run.each_s, length_s }
        });
        Pieces { runs: runs.collect() }
    }

    /// The pieces that lie completely between two times of a run, s.
    pub fn within(&self, start_s: f64, end_s: f64) -> Pieces<T>
    where
        T: Clone,
    {
        let runs = self.runs.iter().map(|run| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place")]
            let at = |place: f64| (place as usize).min(run.pieces.len());
            let first = at((start_s / run.each_s).ceil());
            let end = at((end_s / run.each_s).floor()).max(first);
            let length_s = (end_s.min(run.length_s) - start_s).max(0.0);
            Run { pieces: run.pieces[first..end].to_vec(), each_s: run.each_s, length_s }
        });
        Pieces { runs: runs.collect() }
    }

    /// The total length of the runs, s.
    pub fn seconds(&self) -> f64 {
        self.runs.iter().map(|run| run.length_s).sum()
    }
}

impl Pieces<Histogram<u64>> {
    /// The pieces joined to full seconds, or as they are if they are longer.
    pub(crate) fn by_second(&self) -> Vec<Histogram<u64>> {
        let mut seconds = Vec::new();
        for run in &self.runs {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 8")]
            let per_second = (1.0 / run.each_s).round().clamp(1.0, 8.0) as usize;
            seconds.extend(run.pieces.chunks(per_second).map(|pieces| {
                let mut second = pieces[0].clone();
                for piece in &pieces[1..] {
                    second.add(piece).expect("all have the same bounds");
                }
                second
            }));
        }
        seconds
    }
}

/// The runs are too short for the dependence of their values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TooShort {
    /// The total length they would need, s.
    pub(crate) needed_s: f64,
}

/// The uncertainty of a sum, by each cut.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spread {
    cuts: Vec<Cut>,
}

/// Variance of a sum, and its degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cut {
    variance: f64,
    degrees: u64,
}

impl Spread {
    /// Half the width of the sum's interval, each end wrong with probability `tail`.
    ///
    /// Which cut is the widest is decided at 95 %. For a smaller tail that width grows as with the
    /// degrees of freedom of 20 pieces: with those of five it would grow beyond use, and the widest
    /// of four is wide enough already.
    pub(super) fn half(&self, tail: f64) -> f64 {
        let half = |cut: &Cut| student_t_point(cut.degrees, TAIL) * cut.variance.sqrt();
        let widest = self.cuts.iter().map(half).fold(0.0, f64::max);
        let most = self.cuts.iter().map(|cut| cut.degrees).max().unwrap_or(1);
        let degrees = most.min(TAIL_DEGREES);
        widest * student_t_point(degrees, tail) / student_t_point(degrees, TAIL)
    }
}

impl Pieces<f64> {
    /// The sum's variance by the shortest pieces of one run, as if these were independent, and its
    /// degrees of freedom; `None` if the run is too short to cut.
    pub(super) fn variance(&self) -> Option<(f64, u64)> {
        let [run] = &self.runs[..] else { return None };
        let numbers = CUTS.into_iter().map(|(number, _)| number);
        let number = numbers.filter(|_| run.is_cut()).find(|number| *number <= run.pieces.len())?;
        let Cut { variance, degrees } = independent(&cut(&run.pieces, number));
        Some((variance, degrees))
    }

    /// The uncertainty of a sum with these pieces, each minus its share of the whole.
    pub(super) fn spread(&self) -> Result<Spread, TooShort> {
        if RUNS_MIN <= self.runs.len() {
            let runs: Vec<f64> = self.runs.iter().map(|run| run.pieces.iter().sum()).collect();
            return Ok(Spread { cuts: vec![independent(&runs)] });
        }
        let seconds = self.seconds();
        if self.runs.is_empty() || !self.runs.iter().all(Run::is_cut) {
            let runs = self.runs.len().max(1);
            return Err(TooShort { needed_s: RUN_MIN_S * runs as f64 });
        }
        let mut cuts: Vec<Cut> = Vec::new();
        let mut longest: Option<f64> = None;
        for (number, limit) in CUTS {
            let of_runs = self.runs.iter().filter(|run| number <= run.pieces.len());
            let of_runs: Result<Vec<Cut>, f64> = of_runs
                .map(|run| correlated(&cut(&centred(&run.pieces, self.runs.len()), number), limit))
                .collect();
            match of_runs {
                Err(longer) => longest = Some(longest.unwrap_or(0.0).max(longer)),
                Ok(of_runs) if of_runs.len() == self.runs.len() => cuts.push(Cut {
                    variance: of_runs.iter().map(|cut| cut.variance).sum(),
                    degrees: of_runs.iter().map(|cut| cut.degrees).sum(),
                }),
                // One run with too few pieces leaves the cut to the others' coarser ones.
                Ok(_) => {}
            }
        }
        if let Some(longer) = longest {
            return Err(TooShort { needed_s: (longer * seconds).ceil() });
        }
        Ok(Spread { cuts })
    }
}

/// The pieces of one of several runs about their own mean: differences between a few runs aren't
/// part of the variation within them.
fn centred(pieces: &[f64], runs: usize) -> Vec<f64> {
    let mean = pieces.iter().sum::<f64>() / pieces.len() as f64;
    let mean = if runs == 1 { 0.0 } else { mean };
    pieces.iter().map(|piece| piece - mean).collect()
}

/// The sums over `number` pieces of equal length, as far as these can be divided.
fn cut(pieces: &[f64], number: usize) -> Vec<f64> {
    let edge = |at: usize| at * pieces.len() / number;
    (0..number).map(|at| pieces[edge(at)..edge(at + 1)].iter().sum()).collect()
}

/// The variance if pieces are independent of each other.
fn independent(pieces: &[f64]) -> Cut {
    let squares: f64 = pieces.iter().map(|piece| piece * piece).sum();
    let degrees = pieces.len() - 1;
    Cut { variance: squares * pieces.len() as f64 / degrees as f64, degrees: degrees as u64 }
}

/// The variance from neighbouring pieces, widened for their correlation; if that is too high, the
/// factor by which the run would have to be longer.
fn correlated(pieces: &[f64], limit: Option<f64>) -> Result<Cut, f64> {
    let cut = independent(pieces);
    let Some(limit) = limit else { return Ok(cut) };
    let r = correlation(pieces);
    if limit <= r {
        // In a first-order autoregression r falls to a power as the pieces grow; the target is
        // somewhat below the limit, so that chance doesn't exceed it again.
        let read = r.min(CORRELATION_READ_MAX);
        return Err((0.8 * limit).ln() / read.ln());
    }
    let widened = (1.0 + r.max(0.0)) / (1.0 - r.max(0.0));
    Ok(Cut { variance: cut.variance * widened, ..cut })
}

/// The correlation of neighbouring pieces, corrected for its bias, which is −(1+3ρ)/m.
fn correlation(pieces: &[f64]) -> f64 {
    let m = pieces.len() as f64;
    let mean = pieces.iter().sum::<f64>() / m;
    let squares: f64 = pieces.iter().map(|piece| (piece - mean).powi(2)).sum();
    let products: f64 = pieces.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum();
    if squares == 0.0 { 0.0 } else { (products / squares + 1.0 / m) / (1.0 - 3.0 / m) }
}

#[cfg(test)]
mod tests {
    use load::schedule::mix;

    use super::*;

    /// Pseudo-random numbers from −1 to 1.
    fn noise(seed: u64, at: u64) -> f64 {
        2.0 * mix(seed ^ (at << 20)) as f64 / u64::MAX as f64 - 1.0
    }

    fn pieces(number: u64, of: impl Fn(u64) -> f64) -> Pieces<f64> {
        let all: Vec<f64> = (0..number).map(of).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        Pieces::new(all.into_iter().map(|piece| piece - mean).collect(), 0.125)
    }

    #[test]
    fn a_run_below_five_seconds_states_the_length_it_needs() {
        let spread = |number, length_s| {
            pieces(number, |at| noise(1, at)).lasting(length_s).spread().map(|_| ())
        };
        for (number, length_s) in [(35, 5.0), (37, 4.6), (40, 4.99)] {
            assert_eq!(spread(number, length_s), Err(TooShort { needed_s: 5.0 }), "{length_s} s");
        }
        // The last half second of five had no request.
        assert_eq!(spread(36, 5.0), Ok(()));
        assert_eq!(Pieces::<f64>::none().spread(), Err(TooShort { needed_s: 5.0 }));
    }

    #[test]
    fn independent_pieces_have_about_the_textbook_width() {
        // Each has a variance of 1/3, so a sum of 80 has 80/3.
        let halves: Vec<f64> = (0..200)
            .filter_map(|seed| Some(pieces(80, |at| noise(seed, at)).spread().ok()?.half(0.025)))
            .collect();
        assert!(190 <= halves.len(), "{} of 200 runs have a width", halves.len());
        let mean = halves.iter().sum::<f64>() / halves.len() as f64;
        let textbook = 1.96 * (80.0_f64 / 3.0).sqrt();
        assert!((1.1..1.5).contains(&(mean / textbook)), "{mean} against {textbook}");
    }

    #[test]
    fn dependence_beyond_a_piece_widens_and_dependence_over_the_run_refuses() {
        let half = |lasting: u64| {
            let run = pieces(480, |at| noise(7, at / lasting) + 0.1 * noise(9, at));
            run.spread().map(|spread| spread.half(0.025))
        };
        let (alone, lasting) = (half(1).expect("a width"), half(12).expect("a width"));
        assert!(1.5 * alone < lasting, "{alone}, {lasting}");
        let trend = pieces(480, |at| at as f64).spread().expect_err("a trend");
        // Its correlation is at the highest that is extrapolated.
        assert!((1_000.0..1_100.0).contains(&trend.needed_s), "{trend:?}");
    }

    #[test]
    fn a_level_that_wanders_under_noise_shows_in_ten_pieces() {
        // A rise over the run, and a noise of 1 that leaves nothing in four of the shortest pieces.
        let noise = |at| if at % 4 < 2 { 1.0 } else { -1.0 };
        let run = pieces(40, |at| 0.04 * at as f64 + noise(at));
        let correlation = |number| correlation(&cut(&run.runs[0].pieces, number));
        assert!(correlation(40) < 0.5 && correlation(20) < 0.5 && 0.8 <= correlation(10));
        let asked = run.spread().expect_err("too short");
        assert!(5.0 < asked.needed_s, "{asked:?}");
    }

    #[test]
    fn a_longer_run_is_asked_for_the_more_it_depends_on_itself() {
        let needed = |lasting: u64| {
            let run = pieces(80, |at| noise(3, at / lasting) + 0.2 * noise(4, at)).spread();
            run.expect_err("too short").needed_s
        };
        assert!(10.0 < needed(16) && needed(16) <= needed(40), "{} {}", needed(16), needed(40));
    }

    #[test]
    fn few_runs_are_judged_by_their_pieces_and_five_by_their_differences() {
        let run = |level: f64, seed| {
            Pieces::new((0..40).map(|at| level + noise(seed, at)).collect(), 0.125)
        };
        let runs = |levels: &[f64]| {
            let mut all = Pieces::none();
            for (seed, level) in levels.iter().enumerate() {
                all.add(run(*level, seed as u64));
            }
            all.spread().expect("a width").half(0.025)
        };
        let (alike, apart) = (runs(&[0.0, 0.0]), runs(&[-9.0, 9.0]));
        assert!((apart / alike - 1.0).abs() < 1e-9, "{alike}, {apart}");
        let five = runs(&[-9.0, 9.0, 0.0, 9.0, -9.0]);
        // Sums of 40 pieces: the runs' own levels, by Student's t of four degrees.
        assert!((900.0..3_000.0).contains(&five), "{five}");
    }
}
