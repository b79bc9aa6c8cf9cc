//! Checks the results of each part, a step in a stage: against themselves, the plan, and the whole
//! that they add up to.

use hdrhistogram::Histogram;
use plan::Plan;
use plan::status::StatusSet;
use record::config::RecorderConfig;
use record::counts::Counts;
use record::part_series::{PIECES_MAX, piece_ns_of};
use record::series::INTERVAL_FIRST_NS;
use report::slo::over_time::latencies;
use report::steps::planned;
use report::{DistributionPart, Part, StepCounts, StepPart, StepPiece, StepSeries};
use stats::interval::dependent;
use units::{SECOND_NS, seconds_to_ns};

use super::compare::compare;
use super::distribution::distribution;
use super::finding::{Finding, is_close, summed_up};
use super::planned::Planned;
use super::slowest::{Of, slowest};
use super::sums::outcomes;

/// Checks the parts of a whole, in a window of this length.
pub(super) fn parts(plan: &Plan, whole: &Part, window_s: f64) -> Vec<Finding> {
    let several = RecorderConfig::of_plan(plan).parts();
    let mut findings = vec![Finding::equal("parts", several, whole.parts.len())];
    if several == 0 || !findings[0].ok {
        return findings;
    }
    let mut sum = Counts::default();
    for (planned, part) in planned(plan).into_iter().zip(&whole.parts) {
        let step = u16::try_from(planned.step).unwrap_or(u16::MAX);
        let mut checks = vec![
            Finding::equal("name", &planned.name, &part.name),
            Finding::equal("planned", planned.share, part.planned),
        ];
        checks.extend(compare("stage.", &planned.stage, &part.stage));
        checks.extend(over_time(plan, part));
        checks.extend(alone(plan.expected_of(planned.step), part, window_s));
        let StepPart { counts, naive, corrected, .. } = part;
        let of = Of { step, counts, naive, corrected };
        checks.extend(slowest(plan, &part.slowest, plan.slowest(), &of));
        let stage = planned.stage.map_or(String::new(), |it| format!(", stage {}", it.number));
        findings.extend(summed_up(&format!("part {}{stage}", planned.name), checks));
        sum += part.counts.as_whole();
    }
    let (sum, counts) = (StepCounts::new(&sum), StepCounts::new(&whole.counts));
    findings.extend(summed_up("parts add up to the whole", compare("", &sum, &counts)));
    findings
}

/// Each part had the requests that the plan's mix and stages give it.
pub(super) fn by_schedule(plan: &Plan, whole: &Part, planned: &Planned) -> Vec<Finding> {
    if whole.parts.is_empty() {
        return Vec::new();
    }
    // Only the first step of a scenario follows the schedule.
    let firsts: Vec<usize> = plan.scenario_steps().iter().map(|(first, _)| *first).collect();
    let of_plan = report::steps::planned(plan);
    let parts = whole.parts.iter().enumerate();
    let parts = parts
        .filter(|(at, _)| of_plan.get(*at).is_some_and(|planned| firsts.contains(&planned.step)));
    let check = |(at, part): (usize, &StepPart)| {
        Finding::equal(&*part.name, planned.steps.count(at), part.counts.intended)
    };
    summed_up("parts: intended by the schedule", parts.map(check).collect())
}

/// A part's results against each other.
fn alone(success: &StatusSet, part: &StepPart, window_s: f64) -> Vec<Finding> {
    let counts = part.counts.as_whole();
    let naive = counts.sent.saturating_sub(counts.failed);
    let mut findings = outcomes(&counts, Some(success));
    findings.extend([
        Finding::equal("bad", counts.bad(), part.bad),
        Finding::equal("naive.count by the counts", naive, part.naive.count),
        Finding::equal(
            "corrected.count by the counts",
            counts.with_latency(),
            part.corrected.count,
        ),
    ]);
    let pieces = match latencies(part, window_s) {
        Ok(pieces) => pieces,
        Err(error) => {
            findings.push(Finding::new("series", "readable", error, false));
            return findings;
        }
    };
    findings.push(Finding::equal(
        "series: latencies",
        counts.with_latency(),
        pieces.iter().map(Histogram::len).fold(0, u64::saturating_add),
    ));
    findings.extend(distribution("naive", &part.naive, |whole| {
        DistributionPart::alone(whole, dependent(&pieces))
    }));
    findings.extend(distribution("corrected", &part.corrected, |whole| {
        DistributionPart::new(whole, &pieces)
    }));
    findings
}

/// A part over time adds up to the part, in pieces as long as its stage makes them.
fn over_time(plan: &Plan, part: &StepPart) -> Vec<Finding> {
    let StepSeries { piece_s, pieces } = &part.series;
    let sum = |of: fn(&StepPiece) -> u64| pieces.iter().map(of).fold(0, u64::saturating_add);
    let counts = &part.counts;
    let stage_ns = match &part.stage {
        Some(stage) => seconds_to_ns(stage.duration),
        None => plan.duration.0,
    };
    let doublings = piece_s / INTERVAL_FIRST_NS as f64 * SECOND_NS as f64;
    let is_length = match plan.ends_by_count() {
        // An unpaced user may run slightly past the window's end, for which there may be no room.
        false => [1, 2].iter().any(|more| {
            is_close((more * piece_ns_of(stage_ns)) as f64 / SECOND_NS as f64, *piece_s)
        }),
        true => 1.0 <= doublings && is_close(doublings.log2().round().exp2(), doublings),
    };
    let is_one = pieces.len() <= PIECES_MAX;
    vec![
        Finding::new("series: length of a piece", "that of its stage", piece_s, is_length),
        Finding::new("series: pieces", format!("at most {PIECES_MAX}"), pieces.len(), is_one),
        Finding::equal("series: intended", counts.intended, sum(|piece| piece.intended)),
        Finding::equal("series: answered", counts.answered, sum(|piece| piece.answered)),
        Finding::equal(
            "series: unexpected_status",
            counts.unexpected_status,
            sum(|piece| piece.unexpected_status),
        ),
        Finding::equal(
            "series: failed_checks",
            counts.failed_checks,
            sum(|piece| piece.failed_checks),
        ),
    ]
}
