//! The rules of the verdict: each checks one thing in the report, and adds a reason or a note if it
//! crosses its threshold.

mod agents;
mod calibration;
mod client;
mod connections;
mod generator;
mod load;
mod machine;
mod numbers;
mod share;

pub use generator::{GENERATOR_BOUND_MAX, STOPPED_MAX};

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::report::{AgentPart, Report};
use super::verdict::{Code, Level, Reason, Verdict};

/// Checks a report and adds the reasons that it finds.
type Check = fn(&Report, &mut Vec<Reason>);

/// A rule: what it is about, the code of its reasons, and the thresholds of the plan that it holds
/// the report to.
type Rule = (Of, Code, Check, &'static [&'static str]);

/// What a rule is about in a run of several agents; without agents, the run is its one agent's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// The run as a whole: what no agent's part can tell, or all parts tell alike.
    Whole,
    /// Each agent's generator and machine.
    Agent,
    /// Numbers that the run has, and each agent's part of it.
    Both,
}

/// The rules that find effects on numbers, or what hides them, in the order in which reasons of one
/// level are listed.
const EFFECTS: [Rule; 30] = [
    (Of::Whole, Code::AgentLost, agents::agent_lost, &[]),
    (Of::Both, Code::NothingSent, load::nothing_sent, &[]),
    (Of::Both, Code::RateMissed, load::rate_missed, &["unsent"]),
    (Of::Agent, Code::GeneratorLate, generator::generator_late, &[]),
    (Of::Agent, Code::ReceiveLate, client::receive_late, &["client_share"]),
    (Of::Agent, Code::ClientShare, client::client_share, &["lateness_floor_us", "client_share"]),
    (Of::Agent, Code::ClockStepped, client::clock_stepped, &[]),
    (Of::Agent, Code::StampsClamped, client::stamps_clamped, &[]),
    (Of::Agent, Code::CoreSaturated, generator::core_saturated, &["unsent", "busy"]),
    (Of::Whole, Code::NearCeiling, calibration::near_ceiling, &[]),
    (Of::Whole, Code::BelowFloor, calibration::below_floor, &[]),
    (Of::Agent, Code::GeneratorBound, generator::generator_bound, &[]),
    (Of::Both, Code::CapReached, load::cap_reached, &[]),
    (Of::Both, Code::Starved, connections::starved, &[]),
    (Of::Whole, Code::ClosedLoop, numbers::closed_loop, &[]),
    (Of::Both, Code::Unsolicited, connections::unsolicited, &[]),
    (Of::Both, Code::Mispaired, connections::mispaired, &[]),
    (Of::Agent, Code::BuffersExhausted, connections::buffers_exhausted, &[]),
    (
        Of::Both,
        Code::ScheduleNotAsPlanned,
        load::schedule_not_as_planned,
        &["unsent", "lateness_floor_us"],
    ),
    (Of::Both, Code::LittlesLaw, numbers::littles_law, &[]),
    (Of::Whole, Code::NotStationary, numbers::not_stationary, &["drift"]),
    (Of::Whole, Code::TooFewSamples, numbers::too_few_samples, &["percentile"]),
    (Of::Agent, Code::LocalResource, machine::local_resource, &[]),
    // The kernel's stamps come as late as the generator.
    (Of::Agent, Code::CpuStolen, machine::cpu_stolen, &["stolen"]),
    (Of::Agent, Code::RawSamplesLost, numbers::raw_samples_lost, &[]),
    (Of::Whole, Code::Profiled, numbers::profiled, &[]),
    (Of::Whole, Code::Interrupted, numbers::interrupted, &[]),
    (Of::Both, Code::Errors, numbers::errors, &["errors"]),
    (Of::Whole, Code::AgentsDiffer, agents::agents_differ, &[]),
    (Of::Whole, Code::StartSkew, agents::start_skew, &[]),
];

/// The rules that find causes whose effects are measured, in the order in which notes of one level
/// are listed.
const CAUSES: [Rule; 8] = [
    (Of::Agent, Code::CoreSaturated, generator::core_busy, &["unsent", "busy"]),
    (Of::Whole, Code::NearCeiling, calibration::close_ceiling, &[]),
    (Of::Both, Code::NotSettled, connections::not_settled, &[]),
    (Of::Both, Code::PoolGrew, connections::pool_grew, &[]),
    (Of::Agent, Code::BuffersExhausted, connections::buffers_short, &[]),
    (Of::Agent, Code::CpuContended, machine::cpu_contended, &["stolen"]),
    (Of::Agent, Code::CoreShared, machine::core_shared, &["stolen"]),
    (Of::Agent, Code::CpuThrottled, machine::cpu_throttled, &[]),
];

/// What follows where nothing is answered, and has no cure of its own.
const WITHOUT_ANSWERS: [Code; 3] =
    [Code::CapReached, Code::ScheduleNotAsPlanned, Code::NotStationary];

/// Judges a report. Pure: the same report gets the same verdict anywhere. Of several agents, it is
/// the worst of what the whole run shows and of the agents' verdicts.
pub fn judge(report: &Report) -> Verdict {
    if !report.is_joint() {
        return judge_by(report, |_| true);
    }
    let Verdict { mut reasons, mut notes, .. } = judge_by(report, |of| of != Of::Agent);
    for AgentPart { name, verdict, .. } in &report.per_agent {
        let named = |found: &Reason| Reason { agent: Some(name.clone()), ..found.clone() };
        reasons.extend(verdict.reasons.iter().map(named));
        notes.extend(verdict.notes.iter().map(named));
    }
    verdict_of(worst_of_agents(reasons), worst_of_agents(notes))
}

/// Judges one agent of several by its own part of the report.
pub fn judge_agent(report: &Report, agent: &AgentPart) -> Verdict {
    judge_by(&report.of_agent(agent), |of| of != Of::Whole)
}

/// The reasons that a threshold of the plan decides on.
pub fn decided_by(threshold: &str) -> Vec<Code> {
    let mut codes = Vec::new();
    for (_, code, _, thresholds) in EFFECTS.iter().chain(&CAUSES) {
        if thresholds.contains(&threshold) && !codes.contains(code) {
            codes.push(*code);
        }
    }
    codes
}

fn judge_by(report: &Report, applies: impl Fn(Of) -> bool) -> Verdict {
    let found_by = |rules: &[Rule]| {
        let mut all = Vec::new();
        for (_, code, check, _) in rules.iter().filter(|(of, ..)| applies(*of)) {
            let mut found = Vec::new();
            check(report, &mut found);
            assert!(found.iter().all(|reason| reason.code == *code), "a rule has one code");
            add_worst(found, &mut all);
        }
        all
    };
    let mut effects = found_by(&EFFECTS);
    if report.whole.counts.answered == 0 && effects.iter().any(|one| one.code == Code::Errors) {
        effects.retain(|one| !WITHOUT_ANSWERS.contains(&one.code));
    }
    verdict_of(effects, found_by(&CAUSES))
}

fn verdict_of(mut reasons: Vec<Reason>, mut notes: Vec<Reason>) -> Verdict {
    // A stable sort keeps the list's order within a level.
    reasons.sort_by_key(|reason| Reverse(reason.level));
    notes.sort_by_key(|note| Reverse(note.level));
    let level = reasons.first().map_or(Level::Valid, |reason| reason.level);
    Verdict { level, reasons, notes }
}

/// Of the reasons with one code the worst: among those of one level that of the whole run, else the
/// agent's with the highest figure. Its evidence names the others; theirs is in their own verdicts.
fn worst_of_agents(reasons: Vec<Reason>) -> Vec<Reason> {
    let is_worse = |one: &Reason, other: &Reason| {
        let of_agents = one.agent.is_some() && other.agent.is_some();
        other.level < one.level
            || (one.level == other.level && of_agents && other.figure < one.figure)
    };
    let mut codes: Vec<(Reason, Vec<Reason>)> = Vec::new();
    for reason in reasons {
        match codes.iter_mut().find(|(worst, _)| worst.code == reason.code) {
            Some((worst, others)) if is_worse(&reason, worst) => {
                others.push(std::mem::replace(worst, reason));
            }
            Some((_, others)) => others.push(reason),
            None => codes.push((reason, Vec::new())),
        }
    }
    codes.into_iter().map(|(worst, others)| named(worst, others)).collect()
}

/// A reason whose evidence names the others with its code.
fn named(mut worst: Reason, others: Vec<Reason>) -> Reason {
    if others.iter().any(|other| other.agent.is_none()) {
        worst.evidence.push_str("; also over all agents");
    }
    let names: Vec<&str> = others.iter().filter_map(|other| other.agent.as_deref()).collect();
    let (shown, rest) = names.split_at(names.len().min(agents::OTHERS_SHOWN));
    if !shown.is_empty() {
        let plural = if names.len() == 1 { "" } else { "s" };
        let _ = write!(worst.evidence, "; also on agent{plural} {}", shown.join(", "));
    }
    if !rest.is_empty() {
        let _ = write!(worst.evidence, " and {} more", rest.len());
    }
    for topic in others.into_iter().flat_map(|other| other.touches) {
        if !worst.touches.contains(&topic) {
            worst.touches.push(topic);
        }
    }
    worst
}

/// Adds the reasons that one rule found. Of those with one code it is the worst, the first among
/// equals; its evidence mentions the others.
fn add_worst(mut found: Vec<Reason>, reasons: &mut Vec<Reason>) {
    // A stable sort keeps the rule's order within a level.
    found.sort_by_key(|reason| Reverse(reason.level));
    let begin = reasons.len();
    for reason in found {
        match reasons[begin..].iter_mut().find(|worst| worst.code == reason.code) {
            Some(worst) => {
                let _ = write!(worst.evidence, "; also: {}", reason.evidence);
                for topic in reason.touches {
                    if !worst.touches.contains(&topic) {
                        worst.touches.push(topic);
                    }
                }
            }
            None => reasons.push(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use plan::thresholds::Thresholds;

    use super::*;

    #[test]
    fn every_threshold_decides_on_a_reason_and_every_rule_names_thresholds_that_there_are() {
        let entries = Thresholds::default().entries();
        let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
        for name in &names {
            assert_ne!(decided_by(name), [], "{name}");
        }
        let named = EFFECTS.iter().chain(&CAUSES).flat_map(|(.., thresholds)| *thresholds);
        assert!(named.into_iter().all(|name| names.contains(name)));
    }
}
