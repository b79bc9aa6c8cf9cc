//! What a search for a ceiling found: its bound, its proof and its profile.

use std::fs;

use engine::report::profile::Profile;
use probe::bound::lacks_core;
use probe::ceiling::Answer;
use probe::document::CeilingDocument;
use serde::Serialize;

use crate::lab::{Computed, Lab, LabError, Plot};

/// The flamegraph that the search writes.
const FLAMEGRAPH: &str = "ceiling.svg";

#[derive(Debug, Serialize)]
struct Figures {
    ceiling: CeilingFigures,
}

/// What a search for a ceiling found.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct CeilingFigures {
    passed_per_s: Option<f64>,
    failed_per_s: Option<f64>,
    bound: String,
    evidence: String,
    /// Whether the trials confirm the bound; `None` where the ceiling isn't judged, or where it
    /// lacks a core.
    proven: Option<bool>,
    /// Whether there is no core for the trial that would prove the bound: a run with one more
    /// shard.
    lacks_core: bool,
    /// Why the ceiling isn't judged, in words.
    not_judged: Option<String>,
    trials: Vec<TrialFigures>,
    steps: usize,
    profile: Option<ProfileFigures>,
}

/// One trial above the ceiling.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct TrialFigures {
    changed: String,
    shards: usize,
    conns: u64,
    offered_per_s: f64,
    answered_per_s: f64,
    ratio: f64,
    expected: f64,
    moved: Option<bool>,
}

/// Where the processor time of a request goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ProfileFigures {
    sampled_by: String,
    cpu_us: Option<f64>,
    kernel_percent: Option<f64>,
    user_percent: f64,
    frames: Vec<Frame>,
}

/// A function with the time of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Frame {
    name: String,
    kernel: bool,
    percent: f64,
    us: Option<f64>,
}

/// Finds them in the document of the run `ceiling`.
pub(super) fn compute(lab: &mut Lab) -> Result<Computed, LabError> {
    let document: CeilingDocument = lab.document("ceiling")?;
    let mut plots = Vec::new();
    // It isn't there where nothing on the machine can take samples, or where none were asked for.
    if let Ok(svg) = fs::read_to_string(lab.file(FLAMEGRAPH)) {
        let title = "CPU time of a request at the ceiling".to_owned();
        plots.push(Plot { file: FLAMEGRAPH.to_owned(), title, svg });
    }
    Ok(Computed::new(&Figures { ceiling: CeilingFigures::of(&document) }, plots))
}

impl CeilingFigures {
    /// What a document says.
    fn of(document: &CeilingDocument) -> CeilingFigures {
        let Answer { bracket, not_judged, bound, proof, .. } = &document.answer;
        let trials = proof.trials.iter().map(|trial| TrialFigures {
            changed: text_of(trial.changed),
            shards: trial.shards,
            conns: trial.conns,
            offered_per_s: trial.rate_per_s,
            answered_per_s: trial.throughput_per_s,
            ratio: trial.ratio,
            expected: trial.expected,
            moved: trial.moved,
        });
        let lacks_core = not_judged.is_none() && lacks_core(bound, proof);
        CeilingFigures {
            passed_per_s: bracket.passed_per_s,
            failed_per_s: bracket.failed_per_s,
            bound: text_of(bound.code),
            evidence: bound.evidence.clone(),
            proven: (not_judged.is_none() && !lacks_core).then_some(bound.proven),
            lacks_core,
            not_judged: not_judged.as_ref().map(probe::ceiling::NotJudged::words),
            trials: trials.collect(),
            steps: document.made.steps.len(),
            profile: document.profile.as_ref().map(ProfileFigures::of),
        }
    }
}

/// The name that a document has for it.
fn text_of(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("a unit variant has a name: {other:?}"),
    }
}

impl ProfileFigures {
    fn of(profile: &Profile) -> ProfileFigures {
        let percent = |share: f64| share * 100.0;
        let frames = profile.frames.iter().map(|frame| Frame {
            name: frame.name.clone(),
            kernel: frame.kernel,
            percent: percent(frame.own.share),
            us: frame.own.cpu_us_per_request,
        });
        ProfileFigures {
            sampled_by: text_of(profile.sampling.source),
            cpu_us: profile.cpu_us_per_request,
            kernel_percent: profile.kernel.as_ref().map(|kernel| percent(kernel.share)),
            user_percent: percent(profile.user.share),
            frames: frames.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_called_as_in_documents() {
        assert_eq!(text_of(probe::bound::Code::GeneratorCore), "generator_core");
        assert_eq!(text_of(probe::proof::Changed::Conns), "conns");
    }
}
