//! Lays out the results of each part, a step in a stage, if a plan has several.

use hdrhistogram::Histogram;
use plan::stage::Stage;
use plan::{Model, Order, Plan};
use record::counts::Counts;
use record::part_series::{PartPiece, PartSeries};
use record::recorder::Recorder;
use stats::distribution::Distribution;
use stats::encoded::to_text;
use stats::interval::dependent;
use stats::mix_proof::MixProof;
use stats::pieces::Pieces;
use units::SECOND_NS;

use super::report::{
    DistributionPart, Report, StageLoad, StageSpan, StepCounts, StepPart, StepPiece, StepSeries,
};
use super::slowest::slowest;

/// A part of a plan.
pub struct PlannedPart {
    /// Its step.
    pub step: usize,
    /// The name of its scenario.
    pub name: String,
    /// Its planned share of all requests.
    pub share: f64,
    /// Its stage; `None` if there is only one.
    pub stage: Option<StageSpan>,
}

/// The parts of a completed plan, in the order in which they are recorded: all stages of the first
/// step, then of the next.
pub fn planned(plan: &Plan) -> Vec<PlannedPart> {
    let stages = stages(plan);
    let parts = steps(plan).into_iter().enumerate().flat_map(|(step, (name, of_step))| {
        let part = move |(stage, of_stage): &(Option<StageSpan>, f64)| PlannedPart {
            step,
            name: name.clone(),
            share: of_step * of_stage,
            stage: stage.clone(),
        };
        stages.iter().map(part).collect::<Vec<PlannedPart>>()
    });
    parts.collect()
}

/// The steps of a plan, each with its share of the requests, if every session is completed.
fn steps(plan: &Plan) -> Vec<(String, f64)> {
    let weights = plan.step_weights();
    let total: u64 = weights.iter().copied().map(u64::from).sum();
    let shares = weights.into_iter().map(|weight| f64::from(weight) / total as f64);
    plan.step_names().into_iter().zip(shares).collect()
}

/// The stages of a plan, each with its share of the requests.
fn stages(plan: &Plan) -> Vec<(Option<StageSpan>, f64)> {
    if plan.stage.len() < 2 {
        return vec![(None, 1.0)];
    }
    let seconds = |ns: u64| ns as f64 / SECOND_NS as f64;
    // Of a load that changes evenly, the mean is that of its ends.
    let load = |stage: &Stage| {
        let ends = stage.from.per_second() + stage.to.per_second();
        ends / 2.0 * stage.duration.as_secs_f64()
    };
    let whole: f64 = plan.stage.iter().map(load).sum();
    let stages = plan.stages().zip(1..).map(|((stage, ns), number)| {
        let span = StageSpan {
            number,
            name: Some(stage.name.clone()).filter(|name| !name.is_empty()),
            load: match (plan.model(), stage.users()) {
                (Model::Open, _) => {
                    let (from, to) = (stage.from.per_second(), stage.to.per_second());
                    StageLoad::Rates { from, to }
                }
                (Model::Closed, (from, to)) => StageLoad::Users { from, to },
            },
            start: seconds(ns.start - plan.warmup.0),
            duration: stage.duration.as_secs_f64(),
        };
        (Some(span), load(stage) / whole)
    });
    stages.collect()
}

/// Lays out the parts of a recorder, for a window of this length.
///
/// # Panics
/// If they don't add up to the whole.
pub fn parts(recorder: &Recorder, plan: &Plan, window_ns: u64) -> Vec<StepPart> {
    if recorder.parts.is_empty() {
        return Vec::new();
    }
    let mut sum = Counts::default();
    recorder.parts.iter().for_each(|part| sum += part.counts.clone());
    assert_eq!(sum.outcomes(), recorder.counts.outcomes(), "parts add up to the whole");
    assert_eq!(sum.capped, recorder.counts.capped, "parts add up to the whole");
    let until_ns = plan.warmup.0 + window_ns;
    let mut lengths_ns: Vec<u64> =
        plan.stages().map(|(_, span)| span.end.min(until_ns).saturating_sub(span.start)).collect();
    if lengths_ns.is_empty() {
        lengths_ns.push(window_ns);
    }
    let each = planned(plan).into_iter().zip(&recorder.parts).zip(lengths_ns.iter().cycle());
    let each = each.map(|((planned, part), length_ns)| {
        part.counts.assert_sums();
        let (naive, corrected) = with_intervals(
            &part.latencies.naive(),
            &part.latencies.corrected(),
            &part.series.latencies(*length_ns),
        );
        StepPart {
            name: planned.name,
            stage: planned.stage,
            planned: planned.share,
            counts: StepCounts::new(&part.counts),
            bad: part.counts.bad(),
            received_bytes: part.received_bytes,
            sent_bytes: part.sent_bytes,
            held: part.held,
            naive,
            corrected,
            series: StepSeries::new(&part.series),
            slowest: slowest(&part.slowest, plan),
        }
    });
    each.collect()
}

/// The test of a run's mix of scenarios; `None` if it has only one, or too few requests, or if a log
/// has them, where nothing is drawn. Agents take turns at the requests, so the steps in turn of some
/// of them alone aren't those of the weights.
pub fn mix(report: &Report) -> Option<MixProof> {
    let plan = &report.config.plan;
    let is_part = report.partial || report.offered() < 1.0;
    if plan.replay.is_some() || plan.order == Order::RoundRobin && is_part {
        return None;
    }
    let firsts = plan.scenario_steps();
    let mut scenarios: Vec<(u64, u32)> = plan.weights().into_iter().map(|it| (0, it)).collect();
    for (planned, part) in planned(plan).iter().zip(&report.whole.parts) {
        // Only its first step is drawn.
        if let Some(at) = firsts.iter().position(|(first, _)| *first == planned.step) {
            scenarios[at].0 += part.counts.intended;
        }
    }
    MixProof::new(&scenarios)
}

/// A part's distributions, with intervals by the pieces of its corrected latencies.
pub fn with_intervals(
    naive: &Distribution,
    corrected: &Distribution,
    pieces: &Pieces<Histogram<u64>>,
) -> (DistributionPart, DistributionPart) {
    let naive = DistributionPart::alone(naive, dependent(pieces));
    (naive, DistributionPart::new(corrected, pieces))
}

impl StepSeries {
    fn new(series: &PartSeries) -> StepSeries {
        let piece = |piece: &PartPiece| {
            let latency = piece.latency();
            StepPiece {
                intended: piece.intended,
                answered: piece.answered,
                unexpected_status: piece.unexpected_status,
                failed_checks: piece.failed_checks,
                histogram: if latency.is_empty() { String::new() } else { to_text(&latency) },
            }
        };
        StepSeries {
            piece_s: series.piece_ns() as f64 / SECOND_NS as f64,
            pieces: series.pieces().iter().map(piece).collect(),
        }
    }
}
