//! Compares two targets measured in alternating slices: the slices, and the comparison.
//!
//! Each slice is a run of its own, with a report, a verdict and raw counts as any other, so the
//! engine knows nothing of slices. They alternate, A B B A A B …, which cancels a drift that is
//! linear over two pairs. By arrival rate, the two slices of a pair have the same arrivals, so
//! chance gives neither more bursts. Each percentile is compared by the ratios of its values in the
//! pairs, errors by the differences of their shares ([`engine::stats::paired`]). Changes are called
//! by the rules of [`crate::compare`], whose document this one extends.
//!
//! - A percentile of a slice takes as many requests as one of a report. With fewer, its ratio would
//!   still be right if nothing changed, but would belong to another percentile if something did.
//! - A pair's latencies are left out only if the generator is to blame, the target's errors never:
//!   a target that is down makes its slices invalid, and leaving them out would hide that. Requests
//!   that were never sent, or failed for lack of something on the generator's machine, count in no
//!   slice, neither as errors nor as requests.
//! - Half of the pairs must count, and half must have a percentile. Which ones do depends on the
//!   measurements, so a few don't represent the rest.

use std::path::PathBuf;

use engine::plan::Plan;
use engine::record::counts::Counts;
use engine::report::environment::Environment;
use engine::report::verdict::{Code, Level, Origin};
use engine::report::{DistributionPart, Report};
use engine::stats::paired::{paired_difference, paired_ratio};
use engine::stats::percentiles::{PERCENTILES, Quantile};
use engine::stats::pieces::RUNS_MIN;
use serde::{Deserialize, Serialize};

use crate::change::errors;
use crate::compare::{Change, Changes, Comparison, ErrorsChange, PercentileChange, Side, apart};
use crate::parts::{PartChange, PartName, errors_of_each};
use crate::step::{Latency, Trust};

/// The fewest pairs that are judged: with fewer, Student's t calls nothing.
pub const PAIRS_MIN: usize = RUNS_MIN;

/// One of the two targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Name {
    /// The baseline.
    A,
    /// The one compared with it.
    B,
}

/// A slice's place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its pair, from 1; 0 for the warm-up, which isn't compared.
    pub pair: usize,
    /// Its target.
    pub of: Name,
}

/// The slices of this many pairs in their order, after a warm-up of both targets.
pub fn turns(pairs: usize) -> impl Iterator<Item = Turn> {
    (0..=pairs).flat_map(|pair| {
        let names = if pair % 2 == 0 { [Name::A, Name::B] } else { [Name::B, Name::A] };
        names.map(|of| Turn { pair, of })
    })
}

/// The results of one slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Its pair, from 1.
    pub pair: usize,
    /// Its target.
    pub of: Name,
    /// The URL.
    pub target: String,
    /// When its load began, RFC 3339.
    pub started_at: String,
    /// The seed of both slices of its pair, which gives an open model the same arrivals.
    pub seed: u64,
    /// All its requests.
    #[serde(flatten)]
    pub whole: Measured,
    /// Those of each part, a step in a stage; empty if there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<SlicePart>,
    /// How far its numbers can be trusted.
    pub verdict: Trust,
}

/// The results of a slice's requests: of all, or of those of one part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Requests intended in its window.
    pub requests: u64,
    /// The requests that were never sent, in which the target had no part.
    pub unsent: u64,
    /// The requests that failed for lack of something on the generator's machine.
    pub failed_here: u64,
    /// The remaining requests without a good answer.
    pub errors: u64,
    /// `received − intended`, microseconds.
    pub corrected: Latency,
}

/// The results of one part in one slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlicePart {
    /// What it is of.
    #[serde(flatten)]
    pub part: PartName,
    /// Its requests.
    #[serde(flatten)]
    pub of: Measured,
}

impl Measured {
    fn new(counts: &Counts, corrected: &DistributionPart) -> Measured {
        Measured {
            requests: counts.intended,
            unsent: counts.unsent_here(),
            failed_here: counts.failed_here(),
            errors: counts.of_target().0,
            corrected: Latency::new(corrected),
        }
    }

    /// The requests without a good answer and all, as far as the target is responsible.
    fn of_target(&self) -> (u64, u64) {
        let own = self.unsent.saturating_add(self.failed_here);
        (self.errors, self.requests.saturating_sub(own))
    }
}

impl Slice {
    /// From the report of its run.
    pub fn new(turn: Turn, report: &Report) -> Slice {
        let parts = PartName::each(report).map(|(part, of)| SlicePart {
            part,
            of: Measured::new(&of.counts.as_whole(), &of.corrected),
        });
        Slice {
            pair: turn.pair,
            of: turn.of,
            target: report.config.plan.target.clone(),
            started_at: report.started_at.clone(),
            seed: report.config.plan.seed,
            whole: Measured::new(&report.whole.counts, &report.whole.corrected),
            parts: parts.collect(),
            verdict: Trust::new(&report.verdict),
        }
    }

    /// True if it is invalid.
    fn is_invalid(&self) -> bool {
        self.verdict.level == Level::Invalid
    }

    /// True if the generator or its machine made it invalid: then its latencies aren't the
    /// target's.
    fn is_spoilt(&self) -> bool {
        self.is_invalid() && self.has_invalid(|code| code.is_of_generator())
    }

    /// True if the target may have made it invalid. Missing processor time explains the rest if it
    /// is a reason and no mere note, but no errors of the target.
    fn is_suspicious(&self) -> bool {
        let lacked_time = self.verdict.codes.iter().any(|reason| reason.code.is_disturbance());
        self.has_invalid(|code| match code.rule().origin {
            Origin::Answers => 0 < self.whole.errors,
            Origin::Elsewhere => !lacked_time,
            Origin::Others | Origin::ShortOfTime | Origin::Generator => false,
        })
    }

    fn has_invalid(&self, which: impl Fn(Code) -> bool) -> bool {
        let mut codes = self.verdict.found();
        codes.any(|reason| reason.level == Level::Invalid && which(reason.code))
    }
}

/// The result of a comparison by slices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AbDocument {
    /// The comparison: errors of all pairs, latencies of those that count.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Why nothing is called, if too few pairs count or the target may have made slices invalid.
    pub not_judged: Option<String>,
    /// The number of pairs asked for.
    pub pairs_asked: usize,
    /// The pairs whose latencies count.
    pub pairs: Vec<usize>,
    /// True if slices count whatever their verdict.
    pub allow_invalid: bool,
    /// True if it ended early: by a signal, or because a slice failed.
    pub interrupted: bool,
    /// Why a slice failed, if one did.
    pub error: Option<String>,
    /// The plan of the first slice, as its report shows it; `None` without a slice.
    pub plan: Option<Plan>,
    /// Where it ran; `None` without a slice.
    pub environment: Option<Environment>,
    /// The folder with the slices' reports, as the user named it; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reports: Option<PathBuf>,
    /// The slices in the order in which they were made, without the warm-up.
    pub slices: Vec<Slice>,
}

/// The parameters of a comparison by slices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AbPlan {
    /// The number of pairs.
    pub pairs: usize,
    /// The smallest change that counts, a share.
    pub margin: f64,
    /// True if slices count whatever their verdict.
    pub allow_invalid: bool,
}

impl AbDocument {
    /// The comparison of these slices. A pair's errors count if both slices were made; its
    /// latencies count, too, unless the generator or its machine made one of the slices invalid,
    /// and that isn't allowed.
    ///
    /// With fewer than [`PAIRS_MIN`] pairs nothing is called, nor with fewer than half of those
    /// asked for; while pairs are still to be made, the estimates so far are given all the same. If
    /// the target may have made a slice invalid, the only change called is that side B is worse.
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
            pairs_asked: asked.pairs,
            pairs,
            allow_invalid: asked.allow_invalid,
            interrupted: false,
            error: None,
            plan: None,
            environment: None,
            reports: None,
            slices,
        }
    }

    /// The slices whose verdict excludes the latencies of their pair.
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

/// The comparison of the pairs that were made, by the latencies of those that count. It is unknown
/// with fewer than `least`, unless pairs are still to be made.
fn compare(
    asked: &AbPlan,
    targets: [Option<String>; 2],
    made: &[[&Slice; 2]],
    pairs: &[[&Slice; 2]],
    least: usize,
) -> Comparison {
    let side = |at: usize| {
        let sum = |of: fn(&Measured) -> u64| made.iter().map(|pair| of(&pair[at].whole)).sum();
        Side {
            targets: targets[at].iter().cloned().collect(),
            runs: made.len(),
            requests: sum(|of| of.requests),
            unsent: sum(|of| of.unsent),
            failed_here: sum(|of| of.failed_here),
            ..Side::default()
        }
    };
    let is_whole = made.len() == asked.pairs;
    let fewest = if is_whole { least } else { made.len().div_ceil(2) };
    let needed = Needed { fewest, least };
    let changes = |of: &dyn Fn(&Slice) -> Option<Measured>, error| {
        let each = |pairs: &[[&Slice; 2]]| -> Vec<[Measured; 2]> {
            pairs.iter().filter_map(|[a, b]| Some([of(a)?, of(b)?])).collect()
        };
        changes(&each(made), &each(pairs), needed, 1.0 + asked.margin, error)
    };
    // All slices are of one plan, and have the same parts.
    let names = made.first().map_or(&[][..], |[a, _]| &a.parts);
    let (of_whole, of_part) = errors_of_each(names.len());
    let parts = names.iter().map(|SlicePart { part, .. }| {
        let of = |slice: &Slice| {
            slice.parts.iter().find(|one| one.part == *part).map(|one| one.of.clone())
        };
        let requests = |at: usize| {
            let requests = made.iter().filter_map(|pair| of(pair[at]));
            requests.map(|of| of.requests).sum()
        };
        PartChange::new(part.clone(), [requests(0), requests(1)], changes(&of, of_part))
    });
    let parts = parts.collect();
    let whole = changes(&|slice| Some(slice.whole.clone()), of_whole);
    Comparison::new(asked.margin, side(0), side(1), whole, parts)
}

/// The changes by the errors of the pairs that were made and the latencies of those that count,
/// each interval wrong with this probability.
fn changes(
    made: &[[Measured; 2]],
    count: &[[Measured; 2]],
    needed: Needed,
    least: f64,
    error: f64,
) -> Changes {
    let percentiles = PERCENTILES.iter();
    let percentiles = percentiles.map(|of| percentile(count, of, needed, least, error)).collect();
    // A slice in which the target is responsible for no request has no share of errors.
    let bad = made.iter().map(|[a, b]| [a.of_target(), b.of_target()]);
    let bad: Vec<[(u64, u64); 2]> =
        bad.filter(|pair| pair.iter().all(|(_, requests)| 0 < *requests)).collect();
    let count = bad.len();
    let known = Some(bad).filter(|_| needed.fewest <= count);
    let found = known.and_then(|bad| paired_difference(&bad, error)).map(errors);
    let errors =
        found.map(|found| ErrorsChange { change: needed.of_so_many(count, found.change), ..found });
    Changes { percentiles, errors }
}

/// How many pairs must have a figure.
#[derive(Clone, Copy)]
struct Needed {
    /// For an estimate.
    fewest: usize,
    /// For a call.
    least: usize,
}

impl Needed {
    /// The change that this many pairs may call, given the one that they suggest.
    fn of_so_many(self, pairs: usize, change: Change) -> Change {
        match change {
            Change::Unknown => Change::Unknown,
            _ if pairs < self.least => Change::Undecided,
            change => change,
        }
    }
}

/// The change of a percentile, if enough pairs have it; changes by less than a factor of `least`
/// aren't called.
///
/// Which pairs have it depends on the measurements: failed requests have no latency, and a closed
/// loop has fewer requests where they are slow. So most pairs must have it, as most must count.
fn percentile(
    pairs: &[[Measured; 2]],
    quantile: &Quantile,
    needed: Needed,
    least: f64,
    error: f64,
) -> PercentileChange {
    let value = |of: &Measured| of.corrected.percentiles.at(quantile.q).value;
    let values: Vec<[f64; 2]> =
        pairs.iter().filter_map(|[a, b]| Some([value(a)?, value(b)?])).collect();
    let count = values.len();
    let enough = Some(values).filter(|_| needed.fewest <= count);
    let noise = enough.as_ref().and_then(|values| {
        let of_side = |at: usize| values.iter().map(|pair| pair[at]).collect::<Vec<f64>>();
        Some(apart(&of_side(0))?.max(apart(&of_side(1))?))
    });
    let found = enough.and_then(|values| paired_ratio(&values, error));
    let change = PercentileChange::new(quantile, found, [true; 2], least, noise);
    let called = needed.of_so_many(count, change.change);
    PercentileChange { pairs: Some(count), change: called, ..change }
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
                whole: Measured {
                    requests: 1_000,
                    corrected: Latency { percentiles, ..Latency::default() },
                    ..Measured::default()
                },
                parts: Vec::new(),
                verdict: Trust { level: Level::Valid, codes: Vec::new(), notes: Vec::new() },
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
        made.iter_mut()
            .filter(|slice| slice.of == Name::B)
            .for_each(|slice| slice.whole.errors = 20);
        let document = AbDocument::new(&asked(), made);
        let errors = document.comparison.errors.as_ref().expect("requests");
        assert!((errors.b - 0.02).abs() < 1e-9, "{errors:?}");
        assert_eq!(errors.change, Change::Worse);
        assert_eq!(document.comparison.change, Change::Worse);
    }

    #[test]
    fn errors_that_drift_on_both_sides_hide_no_difference() {
        // Up to half of all requests, and each time one in fifty more for B.
        let mut made = slices(drifting);
        for slice in &mut made {
            let more = if slice.of == Name::B { 20_000 } else { 0 };
            (slice.whole.errors, slice.whole.requests) =
                (50_000 * slice.pair as u64 + more, 1_000_000);
        }
        let document = AbDocument::new(&asked(), made);
        let errors = document.comparison.errors.as_ref().expect("requests");
        assert_eq!(errors.change, Change::Worse, "{errors:?}");
        assert!((errors.difference - 0.02).abs() < 1e-9, "{errors:?}");
    }

    /// Makes B's slices of the first pairs invalid with these codes and this many errors.
    fn spoil(slices: &mut [Slice], pairs: usize, codes: &[Code], errors: u64) {
        for slice in slices.iter_mut().filter(|one| one.of == Name::B && one.pair <= pairs) {
            let reason = |code: &Code| Reason { code: *code, level: Level::Invalid };
            slice.verdict = Trust {
                level: Level::Invalid,
                codes: codes.iter().map(reason).collect(),
                notes: Vec::new(),
            };
            slice.whole.errors = errors;
        }
    }

    #[test]
    fn disturbed_latencies_are_left_out_and_too_few_pairs_are_not_judged() {
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
                // The reason for leaving a slice out hides none of its errors.
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
    fn slices_explained_by_missing_time_count() {
        let mut made = slices(drifting);
        spoil(&mut made, 2, &[Code::RateMissed], 0);
        let alone = AbDocument::new(&asked(), made.clone());
        let why = "2 of 20 slices are invalid, and the target may be the cause";
        assert_eq!(alone.not_judged.as_deref(), Some(why));
        assert_eq!((alone.pairs.len(), alone.doubtful().count()), (ASKED, 2));
        let stolen = Reason { code: Code::CpuStolen, level: Level::Suspect };
        let with = |of: fn(&mut Trust) -> &mut Vec<Reason>| {
            let mut made = made.clone();
            made.iter_mut().for_each(|slice| of(&mut slice.verdict).push(stolen));
            AbDocument::new(&asked(), made)
        };
        // A note about the machine doesn't clear the target.
        assert_eq!(with(|verdict| &mut verdict.notes).not_judged.as_deref(), Some(why));
        let found = with(|verdict| &mut verdict.codes);
        assert_eq!((found.pairs.len(), found.doubtful().count()), (ASKED, 2));
        assert_eq!((p99(&found).change, &found.not_judged), (Change::Same, &None));
    }

    #[test]
    fn a_percentile_that_most_pairs_lack_is_not_called() {
        let slower = |turn: Turn| drifting(turn) * if turn.of == Name::B { 1.05 } else { 1.0 };
        let with = |pairs: usize| {
            let twenty = AbPlan { pairs: 20, ..asked() };
            let mut made = slices_of(20, slower);
            // Where B answers nothing it has no latency: those pairs would represent the others.
            let silent = |slice: &&mut Slice| slice.of == Name::B && pairs < slice.pair;
            made.iter_mut()
                .filter(silent)
                .for_each(|slice| slice.whole.corrected = Latency::default());
            let document = AbDocument::new(&twenty, made);
            let p99 = p99(&document);
            (p99.pairs, p99.ratio.is_some(), p99.change)
        };
        assert_eq!(with(10), (Some(10), true, Change::Worse));
        assert_eq!(with(9), (Some(9), false, Change::Unknown));
    }

    #[test]
    fn requests_that_the_generator_failed_to_send_make_b_no_worse() {
        for codes in [&[][..], &[Code::LocalResource, Code::Errors], &[Code::RateMissed]] {
            let mut made = slices(drifting);
            if !codes.is_empty() {
                spoil(&mut made, ASKED, codes, 0);
            }
            for slice in made.iter_mut().filter(|slice| slice.of == Name::B) {
                (slice.whole.unsent, slice.whole.failed_here) = (300, 200);
            }
            let found = AbDocument::new(&asked(), made.clone());
            let errors = found.comparison.errors.as_ref().expect("requests");
            assert_eq!((errors.b, errors.difference), (0.0, 0.0), "{codes:?}");
            assert_ne!(found.comparison.change, Change::Worse, "{codes:?}");
            let side = &found.comparison.b;
            assert_eq!((side.requests, side.unsent, side.failed_here), (10_000, 3_000, 2_000));
            // The target left two in a hundred of the others without a good answer.
            let of_b = made.iter_mut().filter(|slice| slice.of == Name::B);
            of_b.for_each(|slice| slice.whole.errors = 10);
            let found = AbDocument::new(&asked(), made);
            let errors = found.comparison.errors.as_ref().expect("requests");
            assert!((errors.b - 0.02).abs() < 1e-9, "{errors:?}");
            assert_eq!(errors.change, Change::Worse, "{codes:?}");
        }
    }

    #[test]
    fn pairs_so_far_are_estimated_and_fewer_than_five_call_nothing() {
        let slower = |turn: Turn| drifting(turn) * if turn.of == Name::B { 2.0 } else { 1.0 };
        let after = |slices: usize| {
            let mut made = slices_of(ASKED, slower);
            made.truncate(slices);
            AbDocument::new(&asked(), made)
        };
        assert_eq!((p99(&after(0)).ratio, p99(&after(1)).ratio), (None, None));
        let one = after(3);
        assert_eq!((p99(&one).interval, p99(&one).change), ([None; 2], Change::Unknown));
        assert!(p99(&one).ratio.is_some_and(|ratio| 1.9 < ratio), "{:?}", p99(&one));
        let four = after(9);
        let (p99_of_four, errors) = (p99(&four), four.comparison.errors.as_ref());
        assert!(p99_of_four.interval[0].is_some_and(|low| 1.9 < low), "{p99_of_four:?}");
        assert_eq!(p99_of_four.change, Change::Undecided);
        assert_eq!(errors.map(|errors| errors.change), Some(Change::Undecided));
        let why = four.not_judged.as_deref();
        assert_eq!(why, Some("only 4 of 10 pairs count; at least 5 must"));
        assert_eq!(four.comparison.change, Change::Undecided);
        let five = after(11);
        assert_eq!((p99(&five).change, &five.not_judged), (Change::Worse, &None));
    }

    #[test]
    fn at_least_half_of_the_pairs_must_count() {
        let twenty = AbPlan { pairs: 20, ..asked() };
        let document = AbDocument::new(&twenty, slices(drifting).split_off(2));
        let why = document.not_judged.as_deref();
        assert_eq!(why, Some("only 9 of 20 pairs count; at least 10 must"));
    }

    /// The slices with parts: each request in one of two routes, the second of which takes this
    /// many times as long on side B.
    fn with_routes(slower: f64) -> Vec<Slice> {
        let mut made = slices(drifting);
        for slice in &mut made {
            // Enough to rule out a difference of errors.
            slice.whole.requests = 200_000;
            let of = |name: &str, factor: f64| {
                let mut of = slice.whole.clone();
                let p99 = of.corrected.percentiles.at_mut(0.99);
                p99.value = p99.value.map(|us| us * factor);
                of.requests /= 2;
                SlicePart { part: PartName { name: Some(name.to_owned()), stage: None }, of }
            };
            let slower = if slice.of == Name::B { slower } else { 1.0 };
            slice.parts = vec![of("home", 1.0), of("search", slower)];
        }
        made
    }

    #[test]
    fn a_slower_route_is_a_regression_of_that_route() {
        let of = |made| AbDocument::new(&asked(), made).comparison;
        let same = of(with_routes(1.0));
        assert_eq!(same.change, Change::Same, "{same:?}");
        assert_eq!(
            same.parts.iter().map(|part| part.requests).collect::<Vec<_>>(),
            [[1_000_000; 2]; 2]
        );
        let slower = of(with_routes(1.05));
        let changes: Vec<(String, Change)> =
            slower.parts.iter().map(|part| (part.part.to_string(), part.change)).collect();
        let expected = [("home", Change::Same), ("search", Change::Worse)];
        assert_eq!(changes, expected.map(|(name, change)| (name.to_owned(), change)));
        let p99 = slower.percentiles.iter().find(|one| one.percentile == "p99");
        assert_eq!(p99.map(|one| one.change), Some(Change::Same), "the whole is the same");
        assert_eq!(slower.change, Change::Worse);
        // With too few pairs, nothing is called of a part either.
        let mut few = with_routes(1.05);
        few.truncate(8);
        let few = AbDocument::new(&asked(), few);
        assert!(few.not_judged.is_some());
        assert!(few.comparison.parts.iter().all(|part| part.change == Change::Undecided));
    }

    #[test]
    fn errors_of_a_route_are_its_own() {
        let mut made = with_routes(1.0);
        for slice in made.iter_mut().filter(|slice| slice.of == Name::B) {
            slice.parts[1].of.errors = 1_000;
        }
        let found = AbDocument::new(&asked(), made).comparison;
        let errors = |at: usize| found.parts[at].errors.as_ref().map(|errors| errors.change);
        assert_eq!(errors(1), Some(Change::Worse));
        assert_ne!(errors(0), Some(Change::Worse));
        assert_eq!((found.parts[1].change, found.change), (Change::Worse, Change::Worse));
    }
}
