//! The parts of two sides, each a step in a stage: which belong together, and the change of each.
//!
//! Parts add intervals to a comparison, which all have to hold together ([`CONFIDENCE`]). The whole
//! keeps half of what may go wrong and the parts share the other half equally, so many routes widen
//! the intervals of the whole no more than a few.

use std::fmt;

use engine::report::{Report, StageSpan, StepPart};
use engine::stats::percentiles::PERCENTILES;
use serde::{Deserialize, Serialize};

use crate::change::{CONFIDENCE, Change, ErrorsChange, PercentileChange};

/// What a part is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartName {
    /// Its scenario; `None` if the plan has only one request, whose URL the sides may differ in.
    pub name: Option<String>,
    /// The name of its stage, or its number if it has none; `None` if there is only one.
    pub stage: Option<String>,
}

impl PartName {
    /// Each part of a report, with its name.
    pub(crate) fn each(report: &Report) -> impl Iterator<Item = (PartName, &StepPart)> {
        let is_named = !report.config.plan.scenario.is_empty();
        report.whole.parts.iter().map(move |part| {
            let name = is_named.then(|| part.name.clone());
            (PartName { name, stage: part.stage.as_ref().map(StageSpan::label) }, part)
        })
    }
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, &self.stage) {
            (Some(name), Some(stage)) => write!(f, "{name}, stage {stage}"),
            (Some(name), None) => f.write_str(name),
            (None, Some(stage)) => write!(f, "stage {stage}"),
            (None, None) => f.write_str("all requests"),
        }
    }
}

/// The change of a part from the first side to the second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartChange {
    /// What it is of.
    #[serde(flatten)]
    pub part: PartName,
    /// The requests of either side.
    pub requests: [u64; 2],
    /// Worse if a figure is, else better if one is, else undecided if one is, else the same;
    /// unknown if no percentile is known.
    pub change: Change,
    /// The percentiles of corrected latency.
    pub percentiles: Vec<PercentileChange>,
    /// The share of requests without a good answer, as for the whole.
    pub errors: Option<ErrorsChange>,
}

impl PartChange {
    /// True if nothing of it can be judged: no percentile has an interval, and no change was found
    /// in the errors.
    pub fn tells_nothing(&self) -> bool {
        let is_called = matches!(self.change, Change::Worse | Change::Better);
        !is_called && self.percentiles.iter().all(|one| one.change == Change::Unknown)
    }
}

/// The parts of both sides.
pub(crate) struct Matched<T> {
    /// Those that both have.
    pub(crate) both: Vec<(PartName, [T; 2])>,
    /// Those that only one has.
    pub(crate) unmatched: [Vec<PartName>; 2],
}

/// The parts that belong together, in the order of the first side.
pub(crate) fn matched<T>(a: Vec<(PartName, T)>, mut b: Vec<(PartName, T)>) -> Matched<T> {
    let (mut both, mut only_a) = (Vec::new(), Vec::new());
    for (name, of_a) in a {
        match b.iter().position(|(other, _)| *other == name) {
            Some(at) => both.push((name, [of_a, b.remove(at).1])),
            None => only_a.push(name),
        }
    }
    let only_b = b.into_iter().map(|(name, _)| name).collect();
    Matched { both, unmatched: [only_a, only_b] }
}

/// The probabilities that the interval of one figure is wrong: of the whole, and of each of this
/// many parts.
pub(crate) fn errors_of_each(parts: usize) -> (f64, f64) {
    let of_figure = (1.0 - CONFIDENCE) / (PERCENTILES.len() + 1) as f64;
    match parts {
        0 => (of_figure, of_figure),
        parts => (0.5 * of_figure, 0.5 * of_figure / parts as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, stage: usize) -> PartName {
        PartName { name: Some(name.to_owned()), stage: Some(stage.to_string()) }
    }

    #[test]
    fn parts_belong_together_by_name_and_stage() {
        let of = |names: [(&str, usize); 3]| {
            names.map(|(name, stage)| (named(name, stage), name.len() * stage)).to_vec()
        };
        let found =
            matched(of([("a", 1), ("a", 2), ("old", 1)]), of([("a", 2), ("b", 1), ("a", 1)]));
        assert_eq!(found.both, [(named("a", 1), [1, 1]), (named("a", 2), [2, 2])]);
        assert_eq!(found.unmatched, [vec![named("old", 1)], vec![named("b", 1)]]);
    }

    #[test]
    fn all_figures_together_are_wrong_as_rarely_as_stated() {
        let figures = (PERCENTILES.len() + 1) as f64;
        let mut before = 1.0;
        for parts in [0, 1, 20, 1_000] {
            let (whole, part) = errors_of_each(parts);
            let sum = figures * (whole + part * parts as f64);
            assert!((sum - 0.01).abs() < 1e-12, "{parts}: {sum}");
            assert!(part < before, "{parts}: {part}");
            before = part;
        }
        assert_eq!(errors_of_each(2).0, errors_of_each(1_000).0);
    }
}
