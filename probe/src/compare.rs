//! Compares the runs of two sides: their latencies percentile by percentile, and their errors.
//!
//! All intervals of a comparison hold together with a probability of [`CONFIDENCE`]: each has an
//! equal part of the rest (Bonferroni). A percentile is called slower or faster if its whole
//! interval lies beyond a margin, and the same if it lies within. A side of at least [`RUNS_MIN`]
//! runs is known by the spread between them, which holds whatever makes runs of one target differ;
//! fewer runs are known by the seconds within them, and the margin is then at least what the runs of
//! one side differ by.

use engine::plan::Plan;
use engine::report::Report;
use engine::report::verdict::Level;
use engine::stats::comparison::{Part, Sample, ShareDifference, quantile_ratio, share_difference};
use engine::stats::distribution::Distribution;
use engine::stats::interval::needed;
use engine::stats::percentiles::{PERCENTILES, Quantile};
use engine::verify::{Finding, compare as compare_values, latencies};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::numbers::percent;

/// The version of the document, raised with every change of its keys.
pub const SCHEMA: u32 = 2;
/// How likely it is that all intervals of a comparison are right.
pub const CONFIDENCE: f64 = 0.99;
/// The change below which nothing is called, unless another is asked for: about what two runs of one
/// target differ by on a quiet machine.
pub const MARGIN: f64 = 0.01;
/// Runs of a side from which on the spread between them is used.
pub const RUNS_MIN: usize = 5;
/// Differences of the share of errors that count as none.
const ERRORS_SAME: f64 = 0.001;

/// Fields of a plan that two sides may differ in: where the target is, when requests are due, what
/// is kept, and what it is judged by.
const MAY_DIFFER: [&str; 9] = [
    "target",
    "connect_to",
    "resolve",
    "unix",
    "seed",
    "raw",
    "slo",
    "thresholds",
    "source_addresses",
];

/// What is compared in spite of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Runs whose verdict is invalid, or that were cut short.
    pub invalid: bool,
    /// Plans that differ.
    pub plans: bool,
}

/// What became of a figure on the second side, seen from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Lower, beyond the margin.
    Better,
    /// Within the margin.
    Same,
    /// Any of these may be.
    Undecided,
    /// Too few values to tell; such a figure says nothing of the whole.
    Unknown,
    /// Higher, beyond the margin.
    Worse,
}

/// The comparison of two sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Worse if a figure is, else better if one is, else the same if all are that can be known.
    pub change: Change,
    /// How likely it is that all intervals are right.
    pub confidence: f64,
    /// The margin, a share.
    pub margin: f64,
    /// The side that is compared with.
    pub a: Side,
    /// The side that is compared.
    pub b: Side,
    /// In what the plans differ: the field, and its value on either side.
    pub plans_differ: Vec<String>,
    /// The percentiles of corrected latency.
    pub percentiles: Vec<PercentileChange>,
    /// The share of the requests without a good answer.
    pub errors: Option<ErrorsChange>,
}

/// One of the sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// What was requested, each once.
    pub targets: Vec<String>,
    /// How many runs there are.
    pub runs: usize,
    /// Their requests, those of all windows.
    pub requests: u64,
}

/// What became of a percentile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PercentileChange {
    /// Its name, `p99.9`.
    pub percentile: String,
    /// Unit of the two values: `us`.
    pub unit: String,
    /// On the side that is compared with; `None` below the number of values that it takes.
    pub a: Option<f64>,
    /// On the side that is compared.
    pub b: Option<f64>,
    /// The second over the first.
    pub ratio: Option<f64>,
    /// The interval of the ratio, each end where it is known.
    pub interval: [Option<f64>; 2],
    /// The smallest ratio above 1 that would have been called in four comparisons of five.
    pub shows: Option<f64>,
    /// The largest ratio between two runs of one side; `None` where no side has two runs with enough
    /// values each.
    pub noise: Option<f64>,
    /// In how many pairs of slices both have enough values; `None` of runs, which aren't paired.
    pub pairs: Option<usize>,
    /// What became of it.
    pub change: Change,
}

/// What became of the errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorsChange {
    /// Their share on the side that is compared with; of slices, the mean of theirs.
    pub a: f64,
    /// On the side that is compared.
    pub b: f64,
    /// The second less the first.
    pub difference: f64,
    /// The interval of the difference.
    pub interval: [f64; 2],
    /// What became of it.
    pub change: Change,
}

/// Why runs can't be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Incomparable {
    /// Nothing on a side.
    #[error("a side has no run")]
    Nothing,
    /// No run wrote this report.
    #[error("{what} is {found}, not {expected}: no run wrote this")]
    Unsound {
        /// Which run, counted over both sides.
        run: usize,
        /// What was checked.
        what: String,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A run whose numbers can't be trusted.
    #[error("{problem}, so its numbers can't be trusted")]
    Invalid {
        /// Which run, counted over both sides.
        run: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// Latencies without an interval.
    #[error("back-filled latencies have no confidence interval")]
    Backfilled {
        /// Which run, counted over both sides.
        run: usize,
    },
    /// Runs of different plans.
    #[error("the plans differ: {}", .0.join("; "))]
    Plans(Vec<String>),
}

impl Incomparable {
    /// Which run it is about, counted over both sides.
    pub fn run(&self) -> Option<usize> {
        match self {
            Incomparable::Unsound { run, .. }
            | Incomparable::Invalid { run, .. }
            | Incomparable::Backfilled { run } => Some(*run),
            Incomparable::Nothing | Incomparable::Plans(_) => None,
        }
    }
}

/// The runs of a side, read.
struct Runs {
    side: Side,
    whole: Distribution,
    each: Vec<Distribution>,
    batches: Vec<Histogram<u64>>,
    bad: u64,
    bad_pieces: Vec<(u64, u64)>,
}

/// Compares side `b` with side `a`.
///
/// # Errors
/// What can't be compared, or isn't allowed to be.
pub fn compare(
    a: &[Report],
    b: &[Report],
    margin: f64,
    allowed: Allowed,
) -> Result<Comparison, Incomparable> {
    let (Some(first), false) = (a.first(), b.is_empty()) else {
        return Err(Incomparable::Nothing);
    };
    let plans_differ = differences(first, a.iter().chain(b).skip(1));
    let (a, b) = (read(a, 0, allowed)?, read(b, a.len(), allowed)?);
    if !plans_differ.is_empty() && !allowed.plans {
        return Err(Incomparable::Plans(plans_differ));
    }
    let percentiles: Vec<PercentileChange> =
        PERCENTILES.iter().map(|quantile| percentile(&a, &b, quantile, margin)).collect();
    let errors = share_difference(a.bad(), b.bad(), error_of_each()).map(errors);
    let comparison = Comparison::new(margin, a.side, b.side, percentiles, errors);
    Ok(Comparison { plans_differ, ..comparison })
}

/// With which probability the interval of one figure is wrong.
pub(crate) fn error_of_each() -> f64 {
    (1.0 - CONFIDENCE) / (PERCENTILES.len() + 1) as f64
}

impl Comparison {
    /// The comparison that these figures are, of runs of one plan.
    pub(crate) fn new(
        margin: f64,
        a: Side,
        b: Side,
        percentiles: Vec<PercentileChange>,
        errors: Option<ErrorsChange>,
    ) -> Comparison {
        let changes: Vec<Change> = percentiles
            .iter()
            .map(|one| one.change)
            .chain(errors.as_ref().map(|errors| errors.change))
            .collect();
        Comparison {
            schema: SCHEMA,
            change: overall(&changes),
            confidence: CONFIDENCE,
            margin,
            a,
            b,
            plans_differ: Vec::new(),
            percentiles,
            errors,
        }
    }

    /// The same without a call.
    pub(crate) fn uncalled(mut self) -> Comparison {
        let percentiles = self.percentiles.iter_mut().map(|one| &mut one.change);
        let errors = self.errors.iter_mut().map(|errors| &mut errors.change);
        for change in percentiles.chain(errors).filter(|change| **change != Change::Unknown) {
            *change = Change::Undecided;
        }
        Comparison { change: Change::Undecided, ..self }
    }
}

/// What became of all figures together.
fn overall(changes: &[Change]) -> Change {
    let has = |change: Change| changes.contains(&change);
    let nothing = changes.iter().all(|change| *change == Change::Unknown);
    match () {
        () if has(Change::Worse) => Change::Worse,
        () if has(Change::Better) => Change::Better,
        () if has(Change::Undecided) || nothing => Change::Undecided,
        () => Change::Same,
    }
}

/// In what the plans of these runs differ from that of the first.
fn differences<'a>(first: &Report, others: impl Iterator<Item = &'a Report>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for other in others {
        let (one, two) = (&first.config.plan, &other.config.plan);
        let mut lines: Vec<String> = differing(one, two)
            .into_iter()
            .map(|of| format!("{} is {} and {}", of.what, of.expected, of.found))
            .collect();
        let parts = [first, other].map(part_of_load);
        if parts[0] != parts[1] {
            lines.push(format!("the part of the load is {} and {}", parts[0], parts[1]));
        }
        lines.retain(|line| !found.contains(line));
        found.append(&mut lines);
    }
    found
}

/// What a report is of its plan's load, agents included that were lost: the whole, unless an agent
/// kept it of its own part.
fn part_of_load(report: &Report) -> String {
    let reported = report.per_agent.iter().map(|agent| agent.config.share.fraction());
    let lost = report.agent_lost.iter().map(|agent| agent.share.fraction());
    percent(reported.chain(lost).sum())
}

fn differing(one: &Plan, two: &Plan) -> Vec<Finding> {
    let may_differ = |path: &str| {
        let field = path.split('.').next().unwrap_or(path);
        MAY_DIFFER.contains(&field)
    };
    let mut findings = compare_values("", one, two);
    findings.retain(|finding| !finding.ok && !may_differ(&finding.what));
    findings
}

fn read(reports: &[Report], before: usize, allowed: Allowed) -> Result<Runs, Incomparable> {
    let mut runs = Runs {
        side: Side { targets: Vec::new(), runs: reports.len(), requests: 0 },
        whole: Distribution::new(),
        each: Vec::new(),
        batches: Vec::new(),
        bad: 0,
        bad_pieces: Vec::new(),
    };
    for (at, report) in reports.iter().enumerate() {
        let run = before + at;
        let cut_short = report.interrupted || report.partial;
        let problem = match report.verdict.level {
            _ if cut_short => Some("the run was cut short"),
            Level::Invalid => Some("its verdict is invalid"),
            Level::Suspect | Level::Valid => None,
        };
        if let (Some(problem), false) = (problem, allowed.invalid) {
            return Err(Incomparable::Invalid { run, problem: problem.to_owned() });
        }
        if !report.config.plan.backfill.is_off() {
            return Err(Incomparable::Backfilled { run });
        }
        let of_run = latencies(report).map_err(|finding| Incomparable::Unsound {
            run,
            what: finding.what,
            expected: finding.expected,
            found: finding.found,
        })?;
        let target = &report.config.plan.target;
        if !runs.side.targets.contains(target) {
            runs.side.targets.push(target.clone());
        }
        runs.side.requests += report.whole.counts.intended;
        runs.bad += report.whole.counts.bad();
        let seconds = report.series.bad_by_second();
        if RUNS_MIN <= reports.len() {
            runs.batches.push(of_run.whole.histogram().clone());
            let sum = |of: fn(&(u64, u64)) -> u64| seconds.iter().map(of).sum();
            runs.bad_pieces.push((sum(|second| second.0), sum(|second| second.1)));
        } else {
            runs.batches.extend(of_run.seconds);
            runs.bad_pieces.extend(seconds);
        }
        runs.whole.merge(&of_run.whole);
        runs.each.push(of_run.whole);
    }
    Ok(runs)
}

impl Runs {
    fn sample(&self) -> Sample<'_> {
        Sample { whole: &self.whole, batches: &self.batches }
    }

    fn bad(&self) -> Part<'_> {
        Part { part: self.bad, whole: self.side.requests, pieces: &self.bad_pieces }
    }

    /// The largest ratio between a percentile of two of the runs, each of which has enough values:
    /// of fewer, it would be what the slowest few requests differ by.
    fn noise(&self, q: f64) -> Option<f64> {
        let value = |run: &Distribution| run.quantile_ns(q).filter(|_| needed(q) <= run.count());
        let values: Option<Vec<u64>> = self.each.iter().map(value).collect();
        let values = values.filter(|values| 1 < values.len())?;
        let (least, most) = (values.iter().min()?, values.iter().max()?);
        (0 < *least).then(|| *most as f64 / *least as f64)
    }
}

fn percentile(a: &Runs, b: &Runs, quantile: &Quantile, margin: f64) -> PercentileChange {
    let noise = [a, b].into_iter().filter_map(|side| side.noise(quantile.q)).reduce(f64::max);
    // With many runs a side, the interval has the noise in it.
    let is_within = [a, b].iter().all(|side| RUNS_MIN <= side.side.runs);
    let least = noise.filter(|_| !is_within).unwrap_or(1.0).max(1.0 + margin);
    let found = quantile_ratio(a.sample(), b.sample(), quantile.q, error_of_each());
    // Below, the quantile is that of a few of the slowest.
    let known = [a, b].map(|side| needed(quantile.q) <= side.whole.count());
    let us = |at: usize| {
        let values_ns = found.filter(|_| known[at])?.values_ns;
        Some(values_ns[at] as f64 / 1e3)
    };
    let interval = found.map_or([None; 2], |found| found.interval);
    let change = match called(interval, least) {
        // One end of an interval may be known where the other isn't.
        Change::Undecided if known != [true; 2] => Change::Unknown,
        change => change,
    };
    PercentileChange {
        percentile: quantile.label.to_owned(),
        unit: "us".to_owned(),
        a: us(0),
        b: us(1),
        ratio: found.filter(|_| known == [true; 2]).map(|found| found.ratio),
        interval,
        shows: found.and_then(|found| found.shows).map(|shows| shows * least),
        noise,
        pairs: None,
        change,
    }
}

/// What an interval says; changes by less than a factor of `least` are called by none.
pub(crate) fn called([low, high]: [Option<f64>; 2], least: f64) -> Change {
    match () {
        () if low.is_some_and(|low| least < low) => Change::Worse,
        () if high.is_some_and(|high| high < 1.0 / least) => Change::Better,
        () if low.is_some_and(|low| 1.0 / least <= low)
            && high.is_some_and(|high| high <= least) =>
        {
            Change::Same
        }
        () if low.is_none() && high.is_none() => Change::Unknown,
        () => Change::Undecided,
    }
}

/// What became of the share of requests without a good answer.
pub(crate) fn errors(found: ShareDifference) -> ErrorsChange {
    let ShareDifference { shares, difference, interval } = found;
    let [low, high] = interval;
    let change = match () {
        () if 0.0 < low => Change::Worse,
        () if high < 0.0 => Change::Better,
        () if -ERRORS_SAME <= low && high <= ERRORS_SAME => Change::Same,
        () => Change::Undecided,
    };
    ErrorsChange { a: shares[0], b: shares[1], difference, interval, change }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_called_only_beyond_the_margin() {
        for (low, high, change) in [
            (1.02, 1.2, Change::Worse),
            (1.005, 1.2, Change::Undecided),
            (0.995, 1.005, Change::Same),
            (0.8, 0.98, Change::Better),
            (0.8, 1.2, Change::Undecided),
        ] {
            assert_eq!(called([Some(low), Some(high)], 1.01), change, "{low} to {high}");
        }
        assert_eq!(called([Some(1.5), None], 1.01), Change::Worse);
        assert_eq!(called([Some(0.9), None], 1.01), Change::Undecided);
        assert_eq!(called([None, None], 1.01), Change::Unknown);
    }

    #[test]
    fn runs_with_too_few_requests_for_a_percentile_have_no_noise_there() {
        let runs_of = |count: u64| {
            let run = |slowest_ns: u64| {
                let mut run = Distribution::new();
                run.record_n(1_000_000, count - 1);
                run.record(slowest_ns);
                run
            };
            Runs {
                side: Side { targets: Vec::new(), runs: 2, requests: 2 * count },
                whole: Distribution::new(),
                each: vec![run(1_000_000), run(50_000_000)],
                batches: Vec::new(),
                bad: 0,
                bad_pieces: Vec::new(),
            }
        };
        let least = needed(0.99);
        assert_eq!(runs_of(least - 1).noise(0.99), None);
        assert!(runs_of(least).noise(0.99).is_some_and(|noise| noise < 1.01));
        // The slowest of a hundred would make it fifty times.
        assert_eq!(runs_of(100).noise(0.999), None);
    }

    #[test]
    fn one_figure_that_is_worse_is_a_regression() {
        use Change::{Better, Same, Undecided, Unknown, Worse};
        for (changes, whole) in [
            (&[Same, Worse, Better][..], Worse),
            (&[Same, Undecided, Better], Better),
            (&[Same, Undecided], Undecided),
            (&[Same, Same], Same),
            // A p99.99 that few requests don't show speaks against nothing.
            (&[Same, Unknown], Same),
            (&[Worse, Unknown], Worse),
            (&[Undecided, Unknown], Undecided),
            (&[Unknown], Undecided),
            (&[], Undecided),
        ] {
            assert_eq!(overall(changes), whole, "{changes:?}");
        }
    }
}
