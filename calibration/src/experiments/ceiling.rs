//! The experiment on the ceiling: the highest rate of one generator with its bound and its profile,
//! and the latency of a saturated closed loop by whose queue it is.

use std::fs;

use engine::report::Report;
use engine::report::profile::Profile;
use probe::bound::lacks_core;
use probe::ceiling::Answer;
use probe::document::CeilingDocument;
use serde::Serialize;

use crate::floor::CpuPerRequest;
use crate::lab::{Extra, Lab, LabError, Measured, Plot};

/// The closed loops by their connections.
const CLOSED: [&str; 3] = ["closed-1", "closed-64", "closed-1024"];
/// The flamegraph that the search writes.
const FLAMEGRAPH: &str = "ceiling.svg";

#[derive(Debug, Serialize)]
struct Figures {
    ceiling: CeilingFigures,
    held: Held,
    closed: Vec<Closed>,
    largest: Closed,
}

/// What a search for a ceiling found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CeilingFigures {
    passed_per_s: Option<f64>,
    failed_per_s: Option<f64>,
    bound: String,
    evidence: String,
    /// Whether the trials confirm the bound; `None` where the ceiling isn't judged, or where it
    /// lacks a core.
    proven: Option<bool>,
    /// Whether there is no core for the trial that would prove the bound: a run with one more shard.
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

/// One agent at a planned rate.
#[derive(Debug, Serialize)]
struct Held {
    planned_per_s: Option<f64>,
    sent_per_s: f64,
    answered_per_s: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    busy_percent: f64,
    cpu_us: f64,
}

/// A saturated closed loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Closed {
    conns: usize,
    answered_per_s: f64,
    kernel_p50_us: Option<f64>,
    kernel_p99_us: Option<f64>,
    program_p50_us: Option<f64>,
    program_p99_us: Option<f64>,
    /// How much of the median by the program's stamps passed in the generator.
    own_queue_percent: Option<f64>,
    /// How many of the users were at the target, on average, and how many waited for the generator.
    at_target: f64,
    at_generator: f64,
    busy_percent: f64,
    cpu_us: f64,
    residual_percent: f64,
}

/// Makes its runs, and computes its figures.
pub(super) fn measure(lab: &mut Lab) -> Result<Measured, LabError> {
    let target = lab.target("null")?;
    let document = lab.ceiling("ceiling", &target.url, &Extra::default())?;
    target.stop()?;
    let agent = lab.agent("one")?;
    let target = lab.target("null")?;
    let agents = Extra::flags([("agents", agent.address.to_string())]);
    let held = Held::of(&lab.run("held", &target.url, &agents)?);
    agent.stop()?;
    let mut closed = Vec::new();
    for name in CLOSED {
        closed.push(Closed::of(&lab.run(name, &target.url, &Extra::default())?));
    }
    target.stop()?;
    let largest = closed[CLOSED.len() - 1].clone();
    let mut plots = Vec::new();
    // It isn't there where nothing on the machine can take samples.
    if let Ok(svg) = fs::read_to_string(lab.file(FLAMEGRAPH)) {
        let title = "CPU time of a request at the ceiling".to_owned();
        plots.push(Plot { file: FLAMEGRAPH, title, svg });
    }
    let figures = Figures { ceiling: CeilingFigures::of(&document), held, closed, largest };
    Ok(Measured::new(&figures, plots))
}

impl CeilingFigures {
    /// What a document says.
    pub(super) fn of(document: &CeilingDocument) -> CeilingFigures {
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

/// Busy share of the busiest shard, percent.
pub(super) fn busiest_percent(report: &Report) -> f64 {
    let shards = report.generator.shards.iter();
    shards.map(|shard| shard.busy * 100.0).fold(0.0, f64::max)
}

impl Held {
    fn of(report: &Report) -> Held {
        let whole = &report.whole;
        Held {
            planned_per_s: whole.rate.target,
            sent_per_s: whole.rate.sent,
            answered_per_s: whole.rate.answered,
            p50_us: whole.corrected.quantile_us(0.5),
            p99_us: whole.corrected.quantile_us(0.99),
            busy_percent: busiest_percent(report),
            cpu_us: CpuPerRequest::new(report).total_us(),
        }
    }
}

impl Closed {
    fn of(report: &Report) -> Closed {
        let whole = &report.whole;
        let law = &report.littles_law;
        let share = whole.client_share.as_ref();
        let kernel_p50_us = whole.naive.quantile_us(0.5);
        let program_p50_us = share.map(|share| share.p50.when_handled);
        let held = (law.in_flight_mean - law.at_target_mean).max(0.0);
        Closed {
            conns: report.config.plan.conns(),
            answered_per_s: whole.rate.answered,
            kernel_p50_us,
            kernel_p99_us: whole.naive.quantile_us(0.99),
            program_p50_us,
            program_p99_us: share.and_then(|share| Some(share.p99.as_ref()?.when_handled)),
            own_queue_percent: own_queue_percent(kernel_p50_us, program_p50_us),
            at_target: law.at_target_mean,
            at_generator: held + law.queued_mean.unwrap_or(0.0),
            busy_percent: busiest_percent(report),
            cpu_us: CpuPerRequest::new(report).total_us(),
            residual_percent: law.residual * 100.0,
        }
    }
}

/// How much of what the program's stamps call latency isn't by the kernel's, percent.
fn own_queue_percent(kernel_us: Option<f64>, program_us: Option<f64>) -> Option<f64> {
    let (kernel_us, program_us) = (kernel_us?, program_us?);
    (0.0 < program_us).then(|| (1.0 - kernel_us / program_us) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generators_queue_is_what_the_kernels_stamps_leave_out() {
        assert_eq!(own_queue_percent(Some(50.0), Some(200.0)), Some(75.0));
        assert_eq!(own_queue_percent(Some(50.0), Some(40.0)), Some(-25.0));
        assert_eq!(own_queue_percent(None, Some(40.0)), None);
        assert_eq!(own_queue_percent(Some(0.0), Some(0.0)), None);
    }

    #[test]
    fn codes_are_called_as_in_documents() {
        assert_eq!(text_of(probe::bound::Code::GeneratorCore), "generator_core");
        assert_eq!(text_of(probe::proof::Changed::Conns), "conns");
    }
}
