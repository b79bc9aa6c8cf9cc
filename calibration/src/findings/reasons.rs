//! The reasons to doubt runs behind the acceptance criteria, a few words for each kind: provoked by
//! an experiment, or caused by the machine.

use std::collections::BTreeSet;

use engine::report::verdict::Level;
use serde::Serialize;

use crate::experiments;
use crate::judgement::Judgement;
use crate::lab::LabError;
use crate::lab::result::ExperimentResult;

/// A kind of reason: a part of its evidence, and its name on the page.
type Kind = (&'static str, &'static str);

/// Provoked by experiments.
const PROVOKED: [Kind; 4] = [
    ("waited for a response before its next request", "closed loops that wait for responses"),
    ("connections were busy", "too few connections"),
    ("users waited for", "a generator at its limit"),
    ("times as much", "agents with unequal servers"),
];
/// Caused by the machine.
const MACHINE: [Kind; 6] = [
    ("pacer lateness", "late sends"),
    ("the generator added", "late sends"),
    ("arrivals were not", "uneven gaps between sends"),
    ("latency in the last quarter", "latency that drifts"),
    ("waited for its core", "time lost to other processes"),
    ("the hypervisor took", "time lost to the hypervisor"),
];

/// The reasons, each kind once.
#[derive(Debug, Default, Serialize)]
pub(super) struct Reasons {
    provoked: BTreeSet<&'static str>,
    machine: BTreeSet<&'static str>,
    /// The evidence of any other reason.
    others: BTreeSet<String>,
}

/// The reasons of the runs behind the criteria that passed; `None` if all runs are valid.
///
/// # Errors
/// A definition can't be read.
pub(super) fn behind_criteria(results: &[ExperimentResult]) -> Result<Option<Reasons>, LabError> {
    let mut reasons = None;
    for experiment in experiments::ALL {
        let Some(result) = results.iter().find(|result| result.name == experiment.name) else {
            continue;
        };
        let definition = experiment.definition()?;
        let passed = result
            .judgements
            .iter()
            .filter(|judged| judged.criterion.is_some() && judged.judgement == Judgement::Passed);
        for judged in passed {
            let expected = definition.judgements.iter().find(|one| one.figure == judged.figure);
            let runs = expected.map_or(&[][..], |expected| &expected.runs);
            let behind = |of: &String| runs.is_empty() || runs.contains(of);
            for run in result.runs.iter().filter(|run| behind(&run.of)) {
                if run.verdict.is_some_and(|verdict| verdict != Level::Valid) {
                    let reasons = reasons.get_or_insert_with(Reasons::default);
                    run.reasons.iter().for_each(|evidence| reasons.add(evidence));
                }
            }
        }
    }
    Ok(reasons)
}

impl Reasons {
    fn add(&mut self, evidence: &str) {
        let find = |kinds: &[Kind]| {
            kinds.iter().find(|(part, _)| evidence.contains(part)).map(|(_, words)| *words)
        };
        match (find(&PROVOKED), find(&MACHINE)) {
            (Some(words), _) => drop(self.provoked.insert(words)),
            (None, Some(words)) => drop(self.machine.insert(words)),
            (None, None) => drop(self.others.insert(evidence.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::findings;

    #[test]
    fn each_reason_behind_the_committed_criteria_has_a_kind() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../findings");
        let results = findings::results(&folder).expect("results");
        let reasons = behind_criteria(&results).expect("definitions").expect("reasons");
        assert_eq!(reasons.others, BTreeSet::new());
        assert!(!reasons.provoked.is_empty() && !reasons.machine.is_empty(), "{reasons:?}");
    }
}
