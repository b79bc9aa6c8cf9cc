//! Compares two targets that are measured in turn, slice by slice: what the slices are, and what
//! follows from them.
//!
//! Slices alternate, A B B A A B …, so that what drifts on the machine hits both sides alike. The
//! two slices of a pair have the same arrivals, and each percentile is compared by the ratios of
//! its values in the pairs ([`engine::stats::paired`]). What is called follows the rules of
//! [`crate::compare`], whose document this one extends.

use engine::host::environment::Environment;
use engine::plan::Plan;
use engine::report::Report;
use engine::report::verdict::Level;
use engine::stats::comparison::Part;
use engine::stats::paired::{PairedRatio, paired_ratio};
use engine::stats::percentiles::{PERCENTILES, Quantile};
use serde::{Deserialize, Serialize};

use crate::compare::{Comparison, PercentileChange, RUNS_MIN, Side, called, error_of_each, errors};
use crate::step::{Latency, Trust};

/// The fewest pairs that are judged: Student's t of fewer calls nothing.
pub const PAIRS_MIN: usize = RUNS_MIN;

/// Which of the two targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Name {
    /// The one that is compared with.
    A,
    /// The one that is compared.
    B,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Which pair the slice is of, from 1; 0 of the warm-up, which isn't compared.
    pub pair: usize,
    /// Whose slice it is.
    pub of: Name,
}

/// The slices of so many pairs in their order, behind a warm-up of both targets.
pub fn turns(pairs: usize) -> impl Iterator<Item = Turn> {
    (0..=pairs).flat_map(|pair| {
        let names = if pair % 2 == 0 { [Name::A, Name::B] } else { [Name::B, Name::A] };
        names.map(|of| Turn { pair, of })
    })
}

/// What one slice gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Which pair it is of, from 1.
    pub pair: usize,
    /// Whose it is.
    pub of: Name,
    /// What was requested.
    pub target: String,
    /// When its load began, RFC 3339.
    pub started_at: String,
    /// The seed of its schedule, that of both slices of its pair.
    pub seed: u64,
    /// Requests intended in its window.
    pub requests: u64,
    /// Of these, those without a good answer.
    pub errors: u64,
    /// `received − intended`, microseconds.
    pub corrected: Latency,
    /// How far its numbers can be trusted.
    pub verdict: Trust,
}

impl Slice {
    /// Of the report of its run.
    pub fn new(turn: Turn, report: &Report) -> Slice {
        let counts = &report.whole.counts;
        Slice {
            pair: turn.pair,
            of: turn.of,
            target: report.config.plan.target.clone(),
            started_at: report.started_at.clone(),
            seed: report.config.plan.seed,
            requests: counts.intended,
            errors: counts.bad(),
            corrected: Latency::new(&report.whole.corrected),
            verdict: Trust::new(&report.verdict),
        }
    }
}

/// What a comparison by slices found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AbDocument {
    /// The comparison, of the pairs that count.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Why nothing is called, if too few pairs count.
    pub not_judged: Option<String>,
    /// The pairs that count.
    pub pairs: Vec<usize>,
    /// Whether slices whose verdict is invalid count.
    pub allow_invalid: bool,
    /// Whether it ended before it was done: by a signal, or because a slice failed.
    pub interrupted: bool,
    /// Why a slice failed, if one did.
    pub error: Option<String>,
    /// The plan of the first slice, as its report shows it; `None` without a slice.
    pub plan: Option<Plan>,
    /// Where it ran; `None` without a slice.
    pub environment: Option<Environment>,
    /// The slices in the order in which they were made, without the warm-up.
    pub slices: Vec<Slice>,
}

/// What is asked of a comparison by slices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AbPlan {
    /// How many pairs there are to be.
    pub pairs: usize,
    /// The least change that counts, a share.
    pub margin: f64,
    /// Whether slices whose verdict is invalid count.
    pub allow_invalid: bool,
}

impl AbDocument {
    /// What these slices say. A pair counts if both of its slices were made and none has an invalid
    /// verdict, unless that is allowed.
    ///
    /// Nothing is judged if fewer than [`PAIRS_MIN`] pairs count, or fewer than half of those that
    /// were asked for: where slices of one side are invalid again and again, those that aren't
    /// would speak for all.
    pub fn new(asked: &AbPlan, slices: Vec<Slice>) -> AbDocument {
        let both = |pair: usize| {
            let of = |name: Name| slices.iter().find(|one| one.pair == pair && one.of == name);
            let counts = |one: &&Slice| asked.allow_invalid || one.verdict.level != Level::Invalid;
            Some([of(Name::A).filter(counts)?, of(Name::B).filter(counts)?])
        };
        let found = (1..=asked.pairs).filter_map(|pair| Some((pair, both(pair)?)));
        let (pairs, slices_of): (Vec<usize>, Vec<[&Slice; 2]>) = found.unzip();
        let least = PAIRS_MIN.max(asked.pairs.div_ceil(2));
        let not_judged = (pairs.len() < least).then(|| {
            format!("{} of {} pairs count, and it takes {least}", pairs.len(), asked.pairs)
        });
        let target =
            |name: Name| slices.iter().find(|one| one.of == name).map(|one| one.target.clone());
        let targets = [Name::A, Name::B].map(target);
        let comparison = compare(asked, targets, &slices_of, not_judged.is_none());
        AbDocument {
            comparison,
            not_judged,
            pairs,
            allow_invalid: asked.allow_invalid,
            interrupted: false,
            error: None,
            plan: None,
            environment: None,
            slices,
        }
    }

    /// The slices whose verdict keeps their pair from counting.
    pub fn left_out(&self) -> impl Iterator<Item = &Slice> {
        let counts = |slice: &Slice| self.allow_invalid || slice.verdict.level != Level::Invalid;
        self.slices.iter().filter(move |slice| !counts(slice))
    }
}

/// The comparison of these pairs, in which nothing is called unless it is judged.
fn compare(
    asked: &AbPlan,
    targets: [Option<String>; 2],
    pairs: &[[&Slice; 2]],
    judged: bool,
) -> Comparison {
    let side = |at: usize| Side {
        targets: targets[at].iter().cloned().collect(),
        runs: pairs.len(),
        requests: pairs.iter().map(|pair| pair[at].requests).sum(),
    };
    let compared = if judged { pairs } else { &[] };
    let percentiles = PERCENTILES
        .iter()
        .map(|quantile| percentile(compared, quantile, 1.0 + asked.margin))
        .collect();
    let bad = |at: usize| -> Vec<(u64, u64)> {
        compared.iter().map(|pair| (pair[at].errors, pair[at].requests)).collect()
    };
    let (bad_a, bad_b) = (bad(0), bad(1));
    Comparison::new(asked.margin, side(0), side(1), percentiles, errors(part(&bad_a), part(&bad_b)))
}

fn part(pieces: &[(u64, u64)]) -> Part<'_> {
    let sum = |of: fn(&(u64, u64)) -> u64| pieces.iter().map(of).sum();
    Part { part: sum(|piece| piece.0), whole: sum(|piece| piece.1), pieces }
}

/// What became of a percentile; changes by less than a factor of `least` are called by none.
fn percentile(pairs: &[[&Slice; 2]], quantile: &Quantile, least: f64) -> PercentileChange {
    let value = |slice: &Slice| slice.corrected.percentiles.at(quantile.q).value;
    // Both slices of a pair have the same arrivals, so which pairs have enough of them for this
    // percentile doesn't depend on what they measured.
    let values: Vec<[f64; 2]> =
        pairs.iter().filter_map(|[a, b]| Some([value(a)?, value(b)?])).collect();
    let enough = Some(values).filter(|values| PAIRS_MIN <= values.len());
    let noise = |at: usize, values: &[[f64; 2]]| {
        let of_side = values.iter().map(|pair| pair[at]);
        of_side.clone().fold(0.0, f64::max) / of_side.fold(f64::MAX, f64::min)
    };
    let noise = enough.as_ref().map(|values| noise(0, values).max(noise(1, values)));
    let found = enough.and_then(|values| paired_ratio(&values, error_of_each()));
    let interval = found.and_then(|PairedRatio { interval, .. }| interval);
    let interval = interval.map_or([None; 2], |ends| ends.map(Some));
    PercentileChange {
        percentile: quantile.label.to_owned(),
        unit: "us".to_owned(),
        a: found.map(|found| found.values[0]),
        b: found.map(|found| found.values[1]),
        ratio: found.map(|found| found.ratio),
        interval,
        shows: found.and_then(|found| found.shows).map(|shows| shows * least),
        noise,
        change: called(interval, least),
    }
}

#[cfg(test)]
mod tests {
    use engine::report::verdict::Code;
    use engine::stats::percentiles::Percentiles;

    use super::*;
    use crate::compare::Change;
    use crate::step::Reason;

    const ASKED: usize = 10;

    fn asked() -> AbPlan {
        AbPlan { pairs: ASKED, margin: 0.01, allow_invalid: false }
    }

    /// All slices of ten pairs with this p99, µs, each of 1,000 requests.
    fn slices(p99: impl Fn(Turn) -> f64) -> Vec<Slice> {
        let slice = |turn: Turn| {
            let mut percentiles = Percentiles::default();
            percentiles.at_mut(0.99).value = Some(p99(turn));
            Slice {
                pair: turn.pair,
                of: turn.of,
                target: format!("http://{:?}/", turn.of),
                started_at: String::new(),
                seed: turn.pair as u64,
                requests: 1_000,
                errors: 0,
                corrected: Latency { percentiles, ..Latency::default() },
                verdict: Trust { level: Level::Valid, codes: Vec::new() },
            }
        };
        turns(ASKED).filter(|turn| 0 < turn.pair).map(slice).collect()
    }

    /// 5 ms, with some scatter, on a machine that slows down by a tenth in each pair.
    fn drifting(turn: Turn) -> f64 {
        let scatter = [3.0, 7.0, 1.0, 9.0, 5.0, 2.0, 8.0][turn.pair % 7];
        let own = if turn.of == Name::A { scatter } else { 10.0 - scatter };
        (5_000.0 + own) * 1.1_f64.powi(i32::try_from(turn.pair).expect("small"))
    }

    fn p99(document: &AbDocument) -> &PercentileChange {
        let mut all = document.comparison.percentiles.iter();
        all.find(|one| one.percentile == "p99").expect("a percentile")
    }

    #[test]
    fn slices_alternate_so_that_a_steady_drift_cancels() {
        let order: String = turns(3).map(|turn| format!("{:?}{} ", turn.of, turn.pair)).collect();
        assert_eq!(order, "A0 B0 B1 A1 A2 B2 B3 A3 ");
    }

    #[test]
    fn a_drift_of_both_sides_is_no_change_and_hides_none() {
        let same = AbDocument::new(&asked(), slices(drifting));
        let one = p99(&same);
        assert_eq!((one.change, &same.not_judged), (Change::Same, &None), "{one:?}");
        assert!(one.noise.is_some_and(|noise| 2.0 < noise));
        assert_eq!((same.pairs.len(), same.comparison.a.requests), (ASKED, 10_000));
        assert_eq!(same.comparison.b.targets, ["http://B/"]);
        let slower = |turn: Turn| drifting(turn) * if turn.of == Name::B { 1.05 } else { 1.0 };
        let slower = AbDocument::new(&asked(), slices(slower));
        assert_eq!(p99(&slower).change, Change::Worse, "{:?}", p99(&slower));
        assert_eq!(slower.comparison.change, Change::Worse);
        let ratio = p99(&slower).ratio.expect("values");
        assert!((1.049..1.051).contains(&ratio), "{ratio}");
    }

    #[test]
    fn more_errors_are_a_regression() {
        let mut made = slices(drifting);
        made.iter_mut().filter(|slice| slice.of == Name::B).for_each(|slice| slice.errors = 20);
        let document = AbDocument::new(&asked(), made);
        let errors = document.comparison.errors.as_ref().expect("requests");
        assert_eq!((errors.b, errors.change), (0.02, Change::Worse));
        assert_eq!(document.comparison.change, Change::Worse);
    }

    #[test]
    fn a_pair_with_an_invalid_slice_is_left_out_and_too_few_pairs_are_not_judged() {
        let slower = |turn: Turn| drifting(turn) * if turn.of == Name::B { 2.0 } else { 1.0 };
        let with_invalid = |last: usize| {
            let mut made = slices(slower);
            let spoilt = |slice: &&mut Slice| slice.of == Name::B && slice.pair <= last;
            made.iter_mut().filter(spoilt).for_each(|slice| {
                let reason = Reason { code: Code::GeneratorLate, level: Level::Invalid };
                slice.verdict = Trust { level: Level::Invalid, codes: vec![reason] };
            });
            made
        };
        let few = AbDocument::new(&asked(), with_invalid(3));
        assert_eq!(
            (few.pairs.as_slice(), few.left_out().count()),
            (&[4, 5, 6, 7, 8, 9, 10][..], 3)
        );
        assert_eq!((few.comparison.change, &few.not_judged), (Change::Worse, &None));
        let many = AbDocument::new(&asked(), with_invalid(6));
        let why = many.not_judged.as_deref();
        assert_eq!(why, Some("4 of 10 pairs count, and it takes 5"));
        assert_eq!(many.comparison.change, Change::Undecided);
        assert_eq!((p99(&many).ratio, &many.comparison.errors), (None, &None));
        let allowed = AbPlan { allow_invalid: true, ..asked() };
        let all = AbDocument::new(&allowed, with_invalid(6));
        assert_eq!((all.pairs.len(), all.left_out().count()), (ASKED, 0));
        assert_eq!(all.comparison.change, Change::Worse);
        // A slice whose partner was never made is in no pair.
        let mut cut = slices(slower);
        cut.truncate(13);
        assert_eq!(AbDocument::new(&asked(), cut).pairs, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn half_of_the_pairs_at_least_have_to_count() {
        let twenty = AbPlan { pairs: 20, ..asked() };
        let document = AbDocument::new(&twenty, slices(drifting).split_off(2));
        let why = document.not_judged.as_deref();
        assert_eq!(why, Some("9 of 20 pairs count, and it takes 10"));
    }
}
