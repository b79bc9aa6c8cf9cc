//! Compares the runs of two sides: their latencies percentile by percentile, and their errors.
//!
//! All intervals of a comparison hold together with a probability of [`CONFIDENCE`], since a user
//! who compares with every commit looks at eight figures each time, and at eight more of each part:
//! all have parts of the rest ([`crate::parts`], Bonferroni). A percentile is called slower or
//! faster if its whole interval is beyond a margin, and the same if it is within: two runs of one
//! target on one machine differ by part of that margin, and no interval from within the runs
//! includes it.
//!
//! A side of at least [`RUNS_MIN`] runs is judged by the spread between them, so its interval
//! includes everything that makes runs of one target differ. With fewer, that would rest on a
//! Student's t with a few degrees of freedom and call nothing, so each run is cut into pieces, and
//! the margin is then at least the difference between the runs of one side. For the same reason a
//! gate (`--fail-on regression`) on one run per side must be confirmed (`--accept-one-run`).
//!
//! No raw samples are needed: reports have a histogram for each eighth of a second or longer
//! interval, of the whole and of each part, a step in a stage. Those of a part are coarse, so with
//! [`RUNS_MIN`] runs a side its whole distributions are compared, each run as one piece.

use std::path::PathBuf;

use engine::plan::{Arrivals, Model, Plan};
use engine::record::counts::Counts;
use engine::report::slo::over_time::{Piece, of_parts};
use engine::report::verdict::Level;
use engine::report::{HistogramError, Report, StepPart};
use engine::stats::comparison::{Part, Sample, quantile_ratio, share_difference};
use engine::stats::distribution::Distribution;
use engine::stats::interval::needed;
use engine::stats::percentiles::{PERCENTILES, Quantile};
use engine::stats::pieces::{Pieces, RUNS_MIN};
use engine::verify::{Finding, compare as compare_values, latencies};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use crate::change::{CONFIDENCE, Change, ErrorsChange, PercentileChange, called, errors};
use crate::numbers::percent;
use crate::parts::{Matched, PartChange, PartName, errors_of_each, matched};
use crate::step::Trust;

/// The version of the document, raised with every change of its keys.
pub const SCHEMA: u32 = 5;
/// The change below which nothing is called by default: about the difference between two runs of
/// one target on a quiet machine.
pub const MARGIN: f64 = 0.01;
/// Fields of a plan in which two sides may differ: the target, when requests are due, the results
/// to keep, and the judgement.
const MAY_DIFFER: [&str; 10] = [
    "target",
    "connect_to",
    "resolve",
    "unix",
    "seed",
    "raw",
    "slowest",
    "slo",
    "thresholds",
    "source_addresses",
];

/// Runs and plans that are compared nevertheless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Runs whose verdict is invalid, or that were interrupted.
    pub invalid: bool,
    /// Plans that differ.
    pub plans: bool,
}

/// The comparison of two sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Worse if a figure of the whole or of a part is, else better if one is, else the same if all
    /// known ones are.
    pub change: Change,
    /// The probability that all intervals are right.
    pub confidence: f64,
    /// The margin, a share.
    pub margin: f64,
    /// The baseline.
    pub a: Side,
    /// The side compared with it.
    pub b: Side,
    /// The differences of the plans: the field, and its value on either side.
    pub plans_differ: Vec<String>,
    /// The percentiles of corrected latency.
    pub percentiles: Vec<PercentileChange>,
    /// The share of requests without a good answer, among those for which the target is
    /// responsible.
    pub errors: Option<ErrorsChange>,
    /// The change of each part that both sides have; empty if a side has only one step and stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartChange>,
}

/// One of the sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The URLs, each once.
    pub targets: Vec<String>,
    /// The number of runs.
    pub runs: usize,
    /// The files of their reports, as the user named them; empty for slices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<PathBuf>,
    /// The requests of all windows.
    pub requests: u64,
    /// The requests that were never sent, which aren't errors of the target.
    pub unsent: u64,
    /// The requests that failed for lack of ports, files or memory on the generator's machine, or
    /// of the body to send; these aren't errors of the target either.
    pub failed_here: u64,
    /// The runs whose verdict isn't valid; empty for slices, which list theirs.
    pub doubted: Vec<Doubted>,
    /// The parts that the other side lacks, which aren't compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmatched: Vec<PartName>,
}

/// A run whose verdict isn't valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Doubted {
    /// Its number on its side, from 1.
    pub run: usize,
    /// How far its numbers can be trusted.
    pub verdict: Trust,
}

/// Why runs can't be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Incomparable {
    /// A side is empty.
    #[error("a side has no run")]
    Nothing,
    /// No run wrote this report.
    #[error("{what} is {found}, not {expected}: no run wrote this")]
    Unsound {
        /// The run, counted over both sides.
        run: usize,
        /// The figure that was checked.
        what: String,
        /// The expected value.
        expected: String,
        /// The actual value.
        found: String,
    },
    /// A run whose numbers can't be trusted.
    #[error("{problem}, so its numbers can't be trusted")]
    Invalid {
        /// The run, counted over both sides.
        run: usize,
        /// The problem.
        problem: String,
    },
    /// Runs of one side whose random arrivals are the same: they would differ too little.
    #[error("run {with} of its side has the same --seed {seed}, and so the same arrivals")]
    SameSeed {
        /// The run, counted over both sides.
        run: usize,
        /// The earlier one, counted on its side from 1.
        with: usize,
        /// Their seed.
        seed: u64,
    },
    /// Runs of different plans.
    #[error("the plans differ: {}", .0.join("; "))]
    Plans(Vec<String>),
}

impl Incomparable {
    /// The run that it concerns, counted over both sides.
    pub fn run(&self) -> Option<usize> {
        match self {
            Incomparable::Unsound { run, .. }
            | Incomparable::Invalid { run, .. }
            | Incomparable::SameSeed { run, .. } => Some(*run),
            Incomparable::Nothing | Incomparable::Plans(_) => None,
        }
    }
}

/// The runs of a side, read. The parts are read one after the other, since there may be a thousand
/// of them, each with all its pieces.
struct Runs<T> {
    side: Side,
    whole: Figures,
    parts: Vec<(PartName, T)>,
}

/// A part in one run of a side.
struct PartOfRun<'a> {
    run: usize,
    part: &'a StepPart,
    window_s: f64,
}

/// The latencies and errors of one side's runs: of the whole, or of a part.
struct Figures {
    latencies: Distribution,
    each: Vec<Distribution>,
    /// The latencies by pieces of the runs.
    pieces: Pieces<Histogram<u64>>,
    /// The requests without a good answer, and all.
    bad: (u64, u64),
    bad_pieces: Pieces<(u64, u64)>,
}

/// The figures of a comparison's whole, or of a part.
pub(crate) struct Changes {
    /// The percentiles of corrected latency.
    pub(crate) percentiles: Vec<PercentileChange>,
    /// The errors.
    pub(crate) errors: Option<ErrorsChange>,
}

/// Compares side `b` with side `a`.
///
/// # Errors
/// The runs can't be compared, or not without being allowed to.
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
    check_seeds(a, 0)?;
    check_seeds(b, a.len())?;
    let (a, b) = (read(a, 0, allowed)?, read(b, a.len(), allowed)?);
    if !plans_differ.is_empty() && !allowed.plans {
        return Err(Incomparable::Plans(plans_differ));
    }
    Ok(Comparison { plans_differ, ..of_sides(a, b, margin, of_part)? })
}

/// Checks that the runs of a side have arrivals of their own, if these are random: else the spread
/// between the runs lacks what chance adds to it. `before` is the number of runs before them.
fn check_seeds(runs: &[Report], before: usize) -> Result<(), Incomparable> {
    let plan = |at: usize| &runs[at].config.plan;
    for at in 0..runs.len() {
        let (one, seed) = (plan(at), plan(at).seed);
        let is_random = one.model() == Model::Open && one.arrivals == Arrivals::Poisson;
        let same = (0..at).find(|other| plan(*other).seed == seed);
        if let Some(with) = same.filter(|_| is_random) {
            return Err(Incomparable::SameSeed { run: before + at, with: with + 1, seed });
        }
    }
    Ok(())
}

fn of_sides<T>(
    mut a: Runs<T>,
    mut b: Runs<T>,
    margin: f64,
    read: impl Fn(T) -> Result<Figures, Incomparable>,
) -> Result<Comparison, Incomparable> {
    let Matched { both, unmatched } = matched(a.parts, b.parts);
    [a.side.unmatched, b.side.unmatched] = unmatched;
    let (of_whole, of_each) = errors_of_each(both.len());
    let whole = changes(&a.whole, &b.whole, margin, of_whole);
    let parts = both.into_iter().map(|(name, [a, b])| {
        let (a, b) = (read(a)?, read(b)?);
        Ok(PartChange::new(name, [a.bad.1, b.bad.1], changes(&a, &b, margin, of_each)))
    });
    let parts = parts.collect::<Result<Vec<PartChange>, Incomparable>>()?;
    Ok(Comparison::new(margin, a.side, b.side, whole, parts))
}

/// The changes between two sides, each of whose intervals is wrong with this probability.
fn changes(a: &Figures, b: &Figures, margin: f64, error: f64) -> Changes {
    let percentiles = PERCENTILES.iter();
    Changes {
        percentiles: percentiles.map(|of| percentile(a, b, of, margin, error)).collect(),
        errors: share_difference(a.bad(), b.bad(), error).map(errors),
    }
}

impl Changes {
    /// Worse if a figure is, else better if one is, else undecided if one is, else the same if a
    /// percentile is known: errors alone don't make two sides the same.
    pub(crate) fn overall(&self) -> Change {
        let latencies = self.percentiles.iter().map(|one| one.change);
        let errors = self.errors.as_ref().map(|errors| errors.change);
        let all: Vec<Change> = latencies.clone().chain(errors).collect();
        let called = [Change::Worse, Change::Better, Change::Undecided];
        let called = called.into_iter().find(|change| all.contains(change));
        let nothing = latencies.into_iter().all(|change| change == Change::Unknown);
        called.unwrap_or(if nothing { Change::Unknown } else { Change::Same })
    }
}

impl PartChange {
    /// The change of this part with these figures, and so many requests on either side.
    pub(crate) fn new(part: PartName, requests: [u64; 2], found: Changes) -> PartChange {
        let change = found.overall();
        let Changes { percentiles, errors } = found;
        PartChange { part, requests, change, percentiles, errors }
    }
}

/// The change by those of the whole and of the parts. A part of which nothing is known doesn't
/// object.
pub(crate) fn overall(whole: Change, parts: impl Iterator<Item = Change> + Clone) -> Change {
    let has = |change| whole == change || parts.clone().any(|part| part == change);
    match () {
        () if has(Change::Worse) => Change::Worse,
        () if has(Change::Better) => Change::Better,
        () if has(Change::Undecided) || whole == Change::Unknown => Change::Undecided,
        () => Change::Same,
    }
}

impl Comparison {
    /// The comparison with these figures, of runs of one plan.
    pub(crate) fn new(
        margin: f64,
        a: Side,
        b: Side,
        whole: Changes,
        parts: Vec<PartChange>,
    ) -> Comparison {
        let change = overall(whole.overall(), parts.iter().map(|part| part.change));
        let Changes { percentiles, errors } = whole;
        Comparison {
            schema: SCHEMA,
            change,
            confidence: CONFIDENCE,
            margin,
            a,
            b,
            plans_differ: Vec::new(),
            percentiles,
            errors,
            parts,
        }
    }

    /// True if a side is one run: then the difference between two runs of its target is unknown.
    pub fn has_one_run_on_a_side(&self) -> bool {
        self.a.runs == 1 || self.b.runs == 1
    }

    /// True if nothing is known of the latencies, since no percentile has an interval: any
    /// difference is possible, whatever the errors show.
    pub fn tells_nothing(&self) -> bool {
        self.percentiles.iter().all(|one| one.change == Change::Unknown)
    }

    /// The same without calling a change.
    pub(crate) fn uncalled(mut self) -> Comparison {
        for part in &mut self.parts {
            uncall(&mut part.percentiles, part.errors.as_mut());
            uncall_one(&mut part.change);
        }
        uncall(&mut self.percentiles, self.errors.as_mut());
        Comparison { change: Change::Undecided, ..self }
    }
}

fn uncall(percentiles: &mut [PercentileChange], errors: Option<&mut ErrorsChange>) {
    percentiles.iter_mut().for_each(|one| uncall_one(&mut one.change));
    errors.into_iter().for_each(|errors| uncall_one(&mut errors.change));
}

fn uncall_one(change: &mut Change) {
    if *change != Change::Unknown {
        *change = Change::Undecided;
    }
}

/// The differences of these runs' plans from the first one's.
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

/// A report's part of its plan's load, including lost agents: the whole, unless an agent kept a
/// report of its own part.
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
    // Each run has trace ids of its own.
    let untraced = |plan: &Plan| Plan { trace: plan.trace.map(|_| 0), ..plan.clone() };
    let mut findings = compare_values("", &untraced(one), &untraced(two));
    findings.retain(|finding| !finding.ok && !may_differ(&finding.what));
    findings
}

fn read(
    reports: &[Report],
    before: usize,
    allowed: Allowed,
) -> Result<Runs<Vec<PartOfRun<'_>>>, Incomparable> {
    let mut side = Side { runs: reports.len(), ..Side::default() };
    let (mut whole, mut parts) = (Figures::none(), Vec::<(PartName, Vec<PartOfRun>)>::new());
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
        let of_run = latencies(report).map_err(|finding| Incomparable::Unsound {
            run,
            what: finding.what,
            expected: finding.expected,
            found: finding.found,
        })?;
        let target = &report.config.plan.target;
        if !side.targets.contains(target) {
            side.targets.push(target.clone());
        }
        if report.verdict.level != Level::Valid {
            side.doubted.push(Doubted { run: at + 1, verdict: Trust::new(&report.verdict) });
        }
        let counts = &report.whole.counts;
        side.requests += counts.intended;
        side.unsent += counts.unsent_here();
        side.failed_here += counts.failed_here();
        let window_s = report.config.window_s();
        whole.add(Recorded {
            latencies: of_run.whole,
            bad: counts.of_target(),
            pieces: of_run.pieces,
            bad_pieces: report.series.of_target_pieces(window_s, counts),
        });
        for (name, part) in PartName::each(report) {
            let at = parts.iter().position(|(other, _)| *other == name).unwrap_or(parts.len());
            if at == parts.len() {
                parts.push((name, Vec::new()));
            }
            parts[at].1.push(PartOfRun { run, part, window_s });
        }
    }
    Ok(Runs { side, whole, parts })
}

/// The figures of a part in these runs.
fn of_part(runs: Vec<PartOfRun<'_>>) -> Result<Figures, Incomparable> {
    let mut figures = Figures::none();
    for PartOfRun { run, part, window_s } in runs {
        let recorded = Recorded::of_part(part, window_s);
        figures.add(recorded.map_err(|problem| Incomparable::Unsound {
            run,
            what: format!("part {}: corrected", part.name),
            expected: "readable".to_owned(),
            found: problem.to_string(),
        })?);
    }
    Ok(figures.by_run())
}

/// The latencies and errors of one run: of the whole, or of a part.
struct Recorded {
    latencies: Distribution,
    bad: (u64, u64),
    pieces: Pieces<Histogram<u64>>,
    bad_pieces: Pieces<(u64, u64)>,
}

impl Recorded {
    fn of_part(part: &StepPart, window_s: f64) -> Result<Recorded, HistogramError> {
        let counts = part.counts.as_whole();
        let pieces = of_parts(&[part], window_s)?;
        Ok(Recorded {
            latencies: part.corrected.of_histogram(part.corrected.decode_histogram()?),
            bad: counts.of_target(),
            bad_pieces: of_target(&pieces, &counts),
            pieces: pieces.map(|piece| piece.latency.clone()),
        })
    }
}

/// The requests without a good answer, and all requests, of each piece of a part, as far as they
/// reflect on the target. A piece doesn't keep the reasons for which requests had no answer: it is
/// assumed to have the same part of each as the whole part, whose counts these are.
fn of_target(pieces: &Pieces<Piece>, counts: &Counts) -> Pieces<(u64, u64)> {
    let unanswered = counts.intended.saturating_sub(counts.answered);
    let own = counts.unsent_here().saturating_add(counts.failed_here());
    let share = own as f64 / unanswered.max(1) as f64;
    pieces.map(|piece| {
        let unanswered = piece.intended.saturating_sub(piece.answered);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part")]
        let own = (unanswered as f64 * share).round() as u64;
        (piece.bad().saturating_sub(own), piece.intended.saturating_sub(own))
    })
}

impl Figures {
    /// Those of no run.
    fn none() -> Figures {
        Figures {
            latencies: Distribution::new(),
            each: Vec::new(),
            pieces: Pieces::none(),
            bad: (0, 0),
            bad_pieces: Pieces::none(),
        }
    }

    fn add(&mut self, run: Recorded) {
        self.latencies.merge(&run.latencies);
        self.each.push(run.latencies);
        self.bad = (self.bad.0 + run.bad.0, self.bad.1 + run.bad.1);
        self.pieces.add(run.pieces);
        self.bad_pieces.add(run.bad_pieces);
    }

    /// Those of a part, with the latencies of each run as one piece if there are enough runs.
    fn by_run(self) -> Figures {
        if self.each.len() < RUNS_MIN {
            return self;
        }
        let each_s = self.pieces.seconds() / self.each.len() as f64;
        let mut pieces = Pieces::none();
        self.each.iter().for_each(|run| pieces.add(Pieces::new(vec![run.clamped()], each_s)));
        Figures { pieces, ..self }
    }

    fn sample(&self) -> Sample<'_> {
        Sample { whole: &self.latencies, pieces: &self.pieces }
    }

    fn bad(&self) -> Part<'_> {
        Part { part: self.bad.0, whole: self.bad.1, pieces: Some(&self.bad_pieces) }
    }

    /// The largest ratio between a percentile of two runs, each of which has enough values: with
    /// fewer, it would be the difference of the slowest few requests.
    fn noise(&self, q: f64) -> Option<f64> {
        let value = |run: &Distribution| run.quantile_ns(q).filter(|_| needed(q) <= run.count());
        let values = self.each.iter().map(|run| value(run).map(|ns| ns as f64));
        apart(&values.collect::<Option<Vec<f64>>>()?)
    }
}

/// The largest ratio between two of these; `None` with fewer than two, or if one is zero.
pub(crate) fn apart(values: &[f64]) -> Option<f64> {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    (1 < values.len() && 0.0 < least).then(|| most / least)
}

fn percentile(
    a: &Figures,
    b: &Figures,
    quantile: &Quantile,
    margin: f64,
    error: f64,
) -> PercentileChange {
    let noise = [a, b].into_iter().filter_map(|side| side.noise(quantile.q)).reduce(f64::max);
    // With many runs per side, the interval includes the noise.
    let is_within = [a, b].iter().all(|side| RUNS_MIN <= side.each.len());
    let least = noise.filter(|_| !is_within).unwrap_or(1.0).max(1.0 + margin);
    let found = quantile_ratio(a.sample(), b.sample(), quantile.q, error);
    // With fewer, the quantile is that of a few of the slowest.
    let known = [a, b].map(|side| needed(quantile.q) <= side.latencies.count());
    let change = PercentileChange::new(quantile, found, known, least, noise);
    // With many runs, more of them help, not longer ones.
    PercentileChange { needed_s: change.needed_s.filter(|_| !is_within), ..change }
}

#[cfg(test)]
mod tests {
    use engine::load::schedule::mix;
    use engine::record::counts::IntervalCounts;
    use engine::record::outcome::Cause;
    use engine::report::{IntervalPart, Microseconds, SeriesPart};
    use engine::stats::distribution::{PIECE_DIGITS, empty_histogram};

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
    fn runs_may_have_trace_ids_of_their_own() {
        let traced = |trace| Plan { trace, ..Plan::default() };
        assert_eq!(differing(&traced(Some(1)), &traced(Some(2))), []);
        assert_ne!(differing(&traced(Some(1)), &traced(None)), []);
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
            Figures { each: vec![run(1_000_000), run(50_000_000)], ..Figures::none() }
        };
        let least = needed(0.99);
        assert_eq!(runs_of(least - 1).noise(0.99), None);
        assert!(runs_of(least).noise(0.99).is_some_and(|noise| noise < 1.01));
        // With the slowest of a hundred it would be fifty times as long.
        assert_eq!(runs_of(100).noise(0.999), None);
    }

    #[test]
    fn unsent_and_locally_failed_requests_are_in_no_piece() {
        let interval = |at: u32, counts: IntervalCounts| IntervalPart {
            start_s: f64::from(at),
            counts,
            in_flight: 0,
            p50: None,
            p99: None,
            max: None,
            histogram: String::new(),
            receive_lateness_p50: None,
            receive_lateness_p99: None,
            receive_lateness_max: None,
        };
        let counts = |unsent: u64, errors: u64, unexpected_status: u64| IntervalCounts {
            intended: 100,
            sent: 100 - unsent,
            unsent,
            answered: 100 - unsent - errors,
            unexpected_status,
            errors,
            ..IntervalCounts::default()
        };
        let intervals = [counts(0, 0, 5), counts(60, 0, 0), counts(0, 40, 0)];
        let intervals = (0..).zip(intervals).map(|(at, counts)| interval(at, counts)).collect();
        let series = SeriesPart { unit: Microseconds::Us, interval_s: 1.0, intervals };
        // Three of four failures are the generator's.
        let errors = [(Cause::NoLocalPort, 30), (Cause::Reset, 10)].into();
        let whole = Counts {
            intended: 300,
            sent: 240,
            unsent: 60,
            answered: 200,
            unexpected_status: 5,
            failed: 40,
            errors,
            ..Counts::default()
        };
        assert_eq!(whole.of_target(), (15, 210));
        let of_target: Vec<_> = series.of_target_pieces(1.0, &whole).iter().copied().collect();
        assert_eq!(of_target, [(5, 100), (0, 40), (10, 70)]);
        let all: Vec<_> = series.bad_pieces(1.0).iter().copied().collect();
        assert_eq!(all, [(5, 100), (60, 100), (40, 100)]);
    }

    #[test]
    fn the_errors_of_a_part_are_the_targets_in_each_piece() {
        let piece = |answered, unexpected_status| {
            let latency = empty_histogram(PIECE_DIGITS);
            Piece { latency, intended: 100, answered, not_good: unexpected_status }
        };
        let pieces = Pieces::new(vec![piece(100, 5), piece(40, 0), piece(60, 0)], 1.0);
        // Nine of ten without an answer are the generator's.
        let counts = Counts {
            intended: 300,
            sent: 240,
            unsent: 60,
            answered: 200,
            unexpected_status: 5,
            failed: 40,
            errors: [(Cause::NoLocalPort, 30), (Cause::Reset, 10)].into(),
            ..Counts::default()
        };
        assert_eq!(counts.of_target(), (15, 210));
        let found: Vec<(u64, u64)> = of_target(&pieces, &counts).iter().copied().collect();
        assert_eq!(found, [(5, 100), (6, 46), (4, 64)]);
    }

    /// The comparison of two sides whose parts are read.
    fn of_figures(a: Runs<Figures>, b: Runs<Figures>, margin: f64) -> Comparison {
        of_sides(a, b, margin, Ok).expect("all are read")
    }

    fn changes_of(latencies: &[Change], errors: Option<Change>) -> Changes {
        let quantile = PERCENTILES[0];
        let of = |change: &Change| PercentileChange {
            change: *change,
            ..PercentileChange::new(&quantile, None, [false; 2], 1.0, None)
        };
        let errors = errors.map(|change| ErrorsChange {
            a: 0.0,
            b: 0.0,
            difference: 0.0,
            interval: [0.0; 2],
            change,
        });
        Changes { percentiles: latencies.iter().map(of).collect(), errors }
    }

    #[test]
    fn one_figure_that_is_worse_is_a_regression() {
        use Change::{Better, Same, Undecided, Unknown, Worse};
        for (changes, whole) in [
            (&[Same, Worse, Better][..], Worse),
            (&[Same, Undecided, Better], Better),
            (&[Same, Undecided], Undecided),
            (&[Same, Same], Same),
            // A p99.99 without enough requests is no objection.
            (&[Same, Unknown], Same),
            (&[Worse, Unknown], Worse),
            (&[Undecided, Unknown], Undecided),
            (&[Unknown], Unknown),
            (&[], Unknown),
        ] {
            assert_eq!(changes_of(changes, None).overall(), whole, "{changes:?}");
        }
        assert_eq!(changes_of(&[Unknown], Some(Same)).overall(), Unknown);
        assert_eq!(changes_of(&[Same, Unknown], Some(Worse)).overall(), Worse);
        for (whole, parts, all) in [
            (Same, &[][..], Same),
            (Unknown, &[], Undecided),
            (Same, &[Same, Worse], Worse),
            (Better, &[Worse], Worse),
            (Same, &[Better, Undecided], Better),
            (Same, &[Same, Undecided], Undecided),
            // Nor is a rare route.
            (Same, &[Same, Unknown], Same),
            (Unknown, &[Same], Undecided),
        ] {
            assert_eq!(overall(whole, parts.iter().copied()), all, "{whole:?} {parts:?}");
        }
    }

    const ROUTES: usize = 20;
    const REQUESTS: u64 = 500;
    const PIECES: u64 = 40;

    /// A number from 0 to 1 for each seed.
    fn unit(seed: u64) -> f64 {
        mix(seed) as f64 / u64::MAX as f64
    }

    /// A side of this many runs of 10 s with 20 routes of 5 to 6 ms, one response in fifty bad. Its
    /// runs differ by up to the share `apart`, and the first route takes `slower` times as long.
    fn side(seed: u64, runs: u64, apart: f64, slower: f64) -> Runs<Figures> {
        side_with(seed, runs, apart, |route, _| if route == 0 { slower } else { 1.0 })
    }

    /// The same, with a factor for each route in each piece of a run.
    fn side_with(
        seed: u64,
        runs: u64,
        apart: f64,
        factor: impl Fn(usize, u64) -> f64,
    ) -> Runs<Figures> {
        let mut whole = Figures::none();
        let mut parts: Vec<Figures> = (0..ROUTES).map(|_| Figures::none()).collect();
        for run in 0..runs {
            let own = mix(mix(seed) ^ run);
            for (route, part) in parts.iter_mut().enumerate() {
                let of_route = run_of(|at, piece| {
                    let request = own ^ mix(((route as u64) << 32) | at);
                    let factor = factor(route, piece) * (1.0 + apart * unit(own));
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "ns"
                    )]
                    let ns = (5e6 * factor * (1.0 + 0.2 * unit(request))) as u64;
                    (ns, unit(request ^ 0xbad) < 0.02)
                });
                part.add(of_route);
            }
            // Of all requests, those of one route that doesn't differ.
            whole.add(run_of(|at, _| (5_000_000 + mix(at) % 1_000_000, at % 50 == 0)));
        }
        let parts = parts.into_iter().enumerate().map(|(route, part)| {
            (PartName { name: Some(route.to_string()), stage: None }, part.by_run())
        });
        let parts = parts.collect();
        Runs { side: Side::default(), whole, parts }
    }

    /// A run of one route: the latency of each request, ns, by its number and its piece, and
    /// whether its response is bad.
    fn run_of(request: impl Fn(u64, u64) -> (u64, bool)) -> Recorded {
        let mut latencies = Distribution::new();
        let mut pieces: Vec<Histogram<u64>> =
            (0..PIECES).map(|_| empty_histogram(PIECE_DIGITS)).collect();
        let mut bad_pieces = vec![(0, 0); pieces.len()];
        for at in 0..REQUESTS {
            let piece = at * PIECES / REQUESTS;
            let (ns, is_bad) = request(at, piece);
            latencies.record(ns);
            let piece = usize::try_from(piece).expect("few");
            pieces[piece].record(ns).expect("in range");
            bad_pieces[piece].0 += u64::from(is_bad);
            bad_pieces[piece].1 += 1;
        }
        let bad = bad_pieces.iter().map(|piece| piece.0).sum();
        Recorded {
            latencies,
            bad: (bad, REQUESTS),
            pieces: Pieces::new(pieces, 0.25),
            bad_pieces: Pieces::new(bad_pieces, 0.25),
        }
    }

    /// How many of these comparisons call a route of two sides that don't differ.
    fn false_alarms(comparisons: u64, runs: u64, apart: f64) -> usize {
        let called = (0..comparisons).filter(|pair| {
            let [a, b] = [0, 1].map(|of| side(1_000 + 2 * pair + of, runs, apart, 1.0));
            let found = of_figures(a, b, 0.0);
            let is_called =
                |part: &PartChange| matches!(part.change, Change::Worse | Change::Better);
            assert_eq!(found.parts.len(), ROUTES);
            // Some need more runs, or a longer one, at so small an error.
            let known = found.parts.iter().filter(|part| part.percentiles[0].interval != [None; 2]);
            let known = known.count();
            assert!(ROUTES / 2 < known, "{known}");
            found.parts.iter().any(is_called)
        });
        called.count()
    }

    #[test]
    fn twenty_routes_without_a_difference_are_called_as_rarely_as_one() {
        // One comparison in 200 may call a route. Of 100, more than three would be beyond chance
        // (one time in 500), and of 20 more than one (one in 200).
        let one_run = false_alarms(100, 1, 0.0);
        assert!(one_run <= 3, "{one_run} of 100");
        let five_runs = false_alarms(20, 5, 0.02);
        assert!(five_runs <= 1, "{five_runs} of 20");
    }

    #[test]
    fn one_slower_route_of_twenty_is_a_regression_of_that_route() {
        for (runs, slower) in [(1, 1.1), (5, 1.5)] {
            let [a, b] = [(1, 1.0), (2, slower)].map(|(seed, by)| side(seed, runs, 0.02, by));
            let found = of_figures(a, b, MARGIN);
            let worse = found.parts.iter().filter(|part| part.change == Change::Worse);
            let names: Vec<String> = worse.map(|part| part.part.to_string()).collect();
            assert_eq!((found.change, names), (Change::Worse, vec!["0".to_owned()]), "{runs}");
            assert_eq!(found.parts[0].requests, [runs * REQUESTS; 2]);
        }
    }

    #[test]
    fn the_intervals_of_a_thousand_parts_are_wide_but_right() {
        let (_, error) = errors_of_each(1_000);
        for runs in [1, 5] {
            let [a, b] = [1, 2].map(|seed| side(seed, runs, 0.02, 1.0));
            let parts = a.parts.iter().zip(&b.parts);
            let mut all = parts.map(|((_, a), (_, b))| changes(a, b, 0.0, error));
            // By chance, a run may seem too short. Five runs are too few for a thousand percentiles.
            let is_known = |found: &Changes| {
                found.errors.is_some() && (1 < runs || found.percentiles[0].interval != [None; 2])
            };
            let found = all.find(is_known).expect("some are long enough");
            let [low, high] = found.errors.expect("known").interval;
            assert!(low < 0.0 && 0.0 < high && high - low < 1.9, "{runs}: {low} to {high}");
            let [low, high] = found.percentiles[0].interval;
            assert!(low.is_none_or(|low| low < 1.0) && high.is_none_or(|high| 1.0 < high));
            assert!(low.is_some() && high.is_some() || 1 < runs, "{low:?} to {high:?}");
        }
    }

    #[test]
    fn a_part_that_only_one_side_has_is_named() {
        let mut b = side(2, 1, 0.0, 1.0);
        b.parts.truncate(1);
        b.parts[0].0.stage = Some("1".to_owned());
        let found = of_figures(side(1, 1, 0.0, 1.0), b, MARGIN);
        assert!(found.parts.is_empty());
        assert_eq!((found.a.unmatched.len(), found.b.unmatched.len()), (ROUTES, 1));
        assert_eq!(found.b.unmatched[0].to_string(), "0, stage 1");
    }

    #[test]
    fn a_stall_of_one_route_is_no_regression_of_few_runs() {
        // 1 s of the run's 10 s, in which that route takes 40 times as long: by ranks alone, its
        // p95 would be slower beyond all doubt. One stall shows nothing about the next run.
        let stalled = side_with(2, 1, 0.0, |route, piece| match (route, piece) {
            (0, 12..16) => 40.0,
            _ => 1.0,
        });
        let found = of_figures(side(1, 1, 0.0, 1.0), stalled, MARGIN);
        let p95 = found.parts[0].percentiles.iter().find(|one| one.percentile == "p95");
        let p95 = p95.expect("a percentile");
        assert!(p95.ratio.is_some_and(|ratio| 10.0 < ratio), "{p95:?}");
        assert!(p95.interval[0].is_none_or(|low| low < 1.0), "{p95:?}");
        assert_ne!(found.parts[0].change, Change::Worse, "{:?}", found.parts[0]);
        assert!(10.0 < found.parts[0].percentiles.iter().find_map(|one| one.needed_s).expect("s"));
    }
}
