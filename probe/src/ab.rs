//! Compares two targets that are measured in turn, slice by slice: what the slices are, and what
//! follows from them.
//!
//! Slices alternate, A B B A A B …, so that what drifts on the machine hits both sides alike. By
//! arrival rate, the two slices of a pair have the same arrivals. Each percentile is compared by
//! the ratios of its values in the pairs, errors by the differences of their shares
//! ([`engine::stats::paired`]). What is called follows the rules of [`crate::compare`], whose
//! document this one extends.

use engine::host::environment::Environment;
use engine::plan::Plan;
use engine::report::Report;
use engine::report::verdict::{Code, Level, Origin};
use engine::stats::paired::{PairedRatio, paired_difference, paired_ratio};
use engine::stats::percentiles::{PERCENTILES, Quantile};
use serde::{Deserialize, Serialize};

use crate::compare::{
    Change, Comparison, PercentileChange, RUNS_MIN, Side, called, error_of_each, errors,
};
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
    /// The seed of both slices of its pair, which gives an open model the same arrivals.
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

    /// Whether it is invalid.
    fn is_invalid(&self) -> bool {
        self.verdict.level == Level::Invalid
    }

    /// Whether the generator or its machine made it invalid: then its latencies aren't the
    /// target's.
    fn is_spoilt(&self) -> bool {
        self.has_invalid(|code| code.origin() != Origin::Elsewhere)
    }

    /// Whether the target may have made it invalid. Where processor time was missing, that explains
    /// the rest, but no errors.
    fn is_suspicious(&self) -> bool {
        let lacked_time = self.verdict.codes.iter().any(|reason| reason.code.is_disturbance());
        self.has_invalid(|code| match code {
            Code::Errors => true,
            _ => code.origin() == Origin::Elsewhere && !lacked_time,
        })
    }

    fn has_invalid(&self, which: impl Fn(Code) -> bool) -> bool {
        let mut codes = self.verdict.codes.iter();
        codes.any(|reason| reason.level == Level::Invalid && which(reason.code))
    }
}

/// What a comparison by slices found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AbDocument {
    /// The comparison: errors of all pairs, latencies of those that count.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Why nothing is called, if too few pairs count or the target may have made slices invalid.
    pub not_judged: Option<String>,
    /// The pairs whose latencies count.
    pub pairs: Vec<usize>,
    /// Whether slices count whatever their verdict.
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
    /// Whether slices count whatever their verdict.
    pub allow_invalid: bool,
}

impl AbDocument {
    /// What these slices say. The errors of each pair count of which both slices were made; its
    /// latencies do unless the generator or its machine made one of the slices invalid, and that
    /// isn't allowed.
    ///
    /// Of fewer than [`PAIRS_MIN`] pairs nothing is called, nor of fewer than half of those that
    /// were asked for. Where the target may have made a slice invalid, nothing is called but that
    /// side B is worse.
    pub fn new(asked: &AbPlan, slices: Vec<Slice>) -> AbDocument {
        let both = |pair: usize| {
            let of = |name: Name| slices.iter().find(|one| one.pair == pair && one.of == name);
            Some([of(Name::A)?, of(Name::B)?])
        };
        let made = (1..=asked.pairs).filter_map(both);
        let made: Vec<[&Slice; 2]> = made.collect();
        let is_left_out = |slice: &&Slice| !asked.allow_invalid && slice.is_spoilt();
        let count = made.iter().copied().filter(|pair| !pair.iter().any(is_left_out));
        let count: Vec<[&Slice; 2]> = count.collect();
        let pairs: Vec<usize> = count.iter().map(|[a, _]| a.pair).collect();
        let least = PAIRS_MIN.max(asked.pairs.div_ceil(2));
        let target =
            |name: Name| slices.iter().find(|one| one.of == name).map(|one| one.target.clone());
        let targets = [Name::A, Name::B].map(target);
        let comparison = compare(asked, targets, &made, &count, least);
        let suspicious = made.iter().flatten().filter(|slice| slice.is_suspicious()).count();
        let not_judged = match () {
            () if comparison.change == Change::Worse => None,
            () if 0 < suspicious && !asked.allow_invalid => Some(format!(
                "{suspicious} of {} slices are invalid, and the target may be the cause",
                2 * made.len()
            )),
            () if pairs.len() < least => {
                let (count, all) = (pairs.len(), asked.pairs);
                Some(format!("only {count} of {all} pairs count; at least {least} must"))
            }
            () => None,
        };
        let comparison = if not_judged.is_some() { comparison.uncalled() } else { comparison };
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

    /// The slices whose verdict keeps the latencies of their pair from counting.
    pub fn left_out(&self) -> impl Iterator<Item = &Slice> {
        let is_left_out = |slice: &&Slice| !self.allow_invalid && slice.is_spoilt();
        self.slices.iter().filter(is_left_out)
    }

    /// The other slices whose verdict is invalid.
    pub fn doubtful(&self) -> impl Iterator<Item = &Slice> {
        let is_doubtful =
            |slice: &&Slice| !self.allow_invalid && slice.is_invalid() && !slice.is_spoilt();
        self.slices.iter().filter(is_doubtful)
    }
}

/// The comparison of the pairs that were made, by the latencies of those that count. Nothing is
/// called of fewer than `least`.
fn compare(
    asked: &AbPlan,
    targets: [Option<String>; 2],
    made: &[[&Slice; 2]],
    pairs: &[[&Slice; 2]],
    least: usize,
) -> Comparison {
    let side = |at: usize| Side {
        targets: targets[at].iter().cloned().collect(),
        runs: made.len(),
        requests: made.iter().map(|pair| pair[at].requests).sum(),
    };
    let percentiles = PERCENTILES
        .iter()
        .map(|quantile| percentile(pairs, quantile, least, 1.0 + asked.margin))
        .collect();
    // A slice without a request has no share of errors.
    let bad = made.iter().map(|pair| pair.map(|slice| (slice.errors, slice.requests)));
    let bad: Vec<[(u64, u64); 2]> =
        bad.filter(|pair| pair.iter().all(|(_, requests)| 0 < *requests)).collect();
    let judged = Some(bad).filter(|bad| least <= bad.len());
    let errors = judged.and_then(|bad| paired_difference(&bad, error_of_each())).map(errors);
    Comparison::new(asked.margin, side(0), side(1), percentiles, errors)
}

/// What became of a percentile that at least `fewest` pairs have; changes by less than a factor of
/// `least` are called by none.
///
/// Which pairs have it depends on what they measured: what fails has no latency, and a closed loop
/// has fewer requests where they are slow. So most pairs have to have it, as most have to count.
fn percentile(
    pairs: &[[&Slice; 2]],
    quantile: &Quantile,
    fewest: usize,
    least: f64,
) -> PercentileChange {
    let value = |slice: &Slice| slice.corrected.percentiles.at(quantile.q).value;
    let values: Vec<[f64; 2]> =
        pairs.iter().filter_map(|[a, b]| Some([value(a)?, value(b)?])).collect();
    let count = values.len();
    let enough = Some(values).filter(|_| fewest <= count);
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
        pairs: Some(count),
        change: called(interval, least),
    }
}

#[cfg(test)]
mod tests {
    use engine::stats::percentiles::Percentiles;

    use super::*;
    use crate::step::Reason;

    const ASKED: usize = 10;

    fn asked() -> AbPlan {
        AbPlan { pairs: ASKED, margin: 0.01, allow_invalid: false }
    }

    /// All slices of ten pairs with this p99, µs, each of 1,000 requests.
    fn slices(p99: impl Fn(Turn) -> f64) -> Vec<Slice> {
        slices_of(ASKED, p99)
    }

    fn slices_of(pairs: usize, p99: impl Fn(Turn) -> f64) -> Vec<Slice> {
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
        turns(pairs).filter(|turn| 0 < turn.pair).map(slice).collect()
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
        assert!((errors.b - 0.02).abs() < 1e-9, "{errors:?}");
        assert_eq!(errors.change, Change::Worse);
        assert_eq!(document.comparison.change, Change::Worse);
    }

    #[test]
    fn errors_that_drift_on_both_sides_hide_no_difference() {
        // Up to half of all requests, and each time one in fifty more of B's.
        let mut made = slices(drifting);
        for slice in &mut made {
            let more = if slice.of == Name::B { 20_000 } else { 0 };
            (slice.errors, slice.requests) = (50_000 * slice.pair as u64 + more, 1_000_000);
        }
        let document = AbDocument::new(&asked(), made);
        let errors = document.comparison.errors.as_ref().expect("requests");
        assert_eq!(errors.change, Change::Worse, "{errors:?}");
        assert!((errors.difference - 0.02).abs() < 1e-9, "{errors:?}");
    }

    /// B's slices of the first pairs, invalid for this, with so many errors.
    fn spoil(slices: &mut [Slice], pairs: usize, codes: &[Code], errors: u64) {
        for slice in slices.iter_mut().filter(|one| one.of == Name::B && one.pair <= pairs) {
            let reason = |code: &Code| Reason { code: *code, level: Level::Invalid };
            slice.verdict =
                Trust { level: Level::Invalid, codes: codes.iter().map(reason).collect() };
            slice.errors = errors;
        }
    }

    #[test]
    fn the_machines_doing_leaves_latencies_out_and_too_few_pairs_are_not_judged() {
        let slower = |turn: Turn| drifting(turn) * if turn.of == Name::B { 2.0 } else { 1.0 };
        let late = |pairs: usize| {
            let mut made = slices(slower);
            spoil(&mut made, pairs, &[Code::GeneratorLate, Code::RateMissed], 0);
            made
        };
        let few = AbDocument::new(&asked(), late(3));
        assert_eq!(
            (few.pairs.as_slice(), few.left_out().count(), few.doubtful().count()),
            (&[4, 5, 6, 7, 8, 9, 10][..], 3, 0)
        );
        assert_eq!((few.comparison.change, &few.not_judged), (Change::Worse, &None));
        let many = AbDocument::new(&asked(), late(6));
        let why = many.not_judged.as_deref();
        assert_eq!(why, Some("only 4 of 10 pairs count; at least 5 must"));
        assert_eq!(many.comparison.change, Change::Undecided);
        assert_eq!(p99(&many).ratio, None);
        // The errors of all ten are known.
        let errors = many.comparison.errors.as_ref().expect("requests");
        assert_eq!((errors.change, many.comparison.b.requests), (Change::Undecided, 10_000));
        let allowed = AbPlan { allow_invalid: true, ..asked() };
        let all = AbDocument::new(&allowed, late(6));
        assert_eq!((all.pairs.len(), all.left_out().count()), (ASKED, 0));
        assert_eq!(all.comparison.change, Change::Worse);
        // A slice whose partner was never made is in no pair.
        let mut cut = slices(slower);
        cut.truncate(13);
        assert_eq!(AbDocument::new(&asked(), cut).pairs, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_target_that_is_down_is_worse_or_not_judged_however_seldom() {
        for down in 1..=ASKED {
            for codes in [
                &[Code::Errors, Code::RateMissed][..],
                // What leaves a slice out hides none of its errors.
                &[Code::GeneratorLate, Code::Errors, Code::RateMissed],
            ] {
                let mut made = slices(drifting);
                spoil(&mut made, down, codes, 1_000);
                let found = AbDocument::new(&asked(), made.clone());
                let change = found.comparison.change;
                let judged = found.not_judged.is_none();
                assert_eq!((change == Change::Worse), judged, "{down}, {codes:?}: {change:?}");
                assert_eq!(judged, 8 <= down, "{down}, {codes:?}: {:?}", found.comparison.errors);
                let called = p99(&found).change;
                assert!(judged || called != Change::Same, "{down}, {codes:?}: {called:?}");
                let errors = found.comparison.errors.as_ref().expect("requests");
                assert!((errors.b - 0.1 * down as f64).abs() < 1e-9, "{errors:?}");
                let allowed = AbPlan { allow_invalid: true, ..asked() };
                assert_eq!(AbDocument::new(&allowed, made).not_judged, None);
            }
        }
    }

    #[test]
    fn what_missing_time_explains_counts_and_keeps_nothing_from_being_called() {
        let mut made = slices(drifting);
        spoil(&mut made, 2, &[Code::RateMissed], 0);
        let alone = AbDocument::new(&asked(), made.clone());
        let why = "2 of 20 slices are invalid, and the target may be the cause";
        assert_eq!(alone.not_judged.as_deref(), Some(why));
        assert_eq!((alone.pairs.len(), alone.doubtful().count()), (ASKED, 2));
        let stolen = Reason { code: Code::CpuStolen, level: Level::Suspect };
        made.iter_mut().for_each(|slice| slice.verdict.codes.push(stolen));
        let found = AbDocument::new(&asked(), made);
        assert_eq!((found.pairs.len(), found.doubtful().count()), (ASKED, 2));
        assert_eq!((p99(&found).change, &found.not_judged), (Change::Same, &None));
    }

    #[test]
    fn a_percentile_that_most_pairs_lack_is_not_called() {
        let slower = |turn: Turn| drifting(turn) * if turn.of == Name::B { 1.05 } else { 1.0 };
        let with = |pairs: usize| {
            let twenty = AbPlan { pairs: 20, ..asked() };
            let mut made = slices_of(20, slower);
            // Where B answers nothing it has no latency: those pairs would speak for the others.
            let silent = |slice: &&mut Slice| slice.of == Name::B && pairs < slice.pair;
            made.iter_mut().filter(silent).for_each(|slice| slice.corrected = Latency::default());
            let document = AbDocument::new(&twenty, made);
            let p99 = p99(&document);
            (p99.pairs, p99.ratio.is_some(), p99.change)
        };
        assert_eq!(with(10), (Some(10), true, Change::Worse));
        assert_eq!(with(9), (Some(9), false, Change::Unknown));
    }

    #[test]
    fn half_of_the_pairs_at_least_have_to_count() {
        let twenty = AbPlan { pairs: 20, ..asked() };
        let document = AbDocument::new(&twenty, slices(drifting).split_off(2));
        let why = document.not_judged.as_deref();
        assert_eq!(why, Some("only 9 of 20 pairs count; at least 10 must"));
    }
}
