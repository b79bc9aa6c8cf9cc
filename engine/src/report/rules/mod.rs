//! The rules of the verdict: each checks one thing in the report, and adds a reason if it crosses
//! its threshold.

mod agents;
mod calibration;
mod client;
mod connections;
mod generator;
mod load;
mod machine;
mod numbers;
mod share;

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::report::{AgentPart, Report};
use super::verdict::{Level, Reason, Verdict};

/// A rule: checks a report and adds its reasons.
type Rule = fn(&Report, &mut Vec<Reason>);

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

/// All rules, in the order in which reasons of one level are listed.
const RULES: [(Of, Rule); 34] = [
    (Of::Whole, agents::agent_lost),
    (Of::Both, load::nothing_sent),
    (Of::Both, load::rate_missed),
    (Of::Agent, generator::generator_late),
    (Of::Agent, client::receive_late),
    (Of::Agent, client::hardware_clock),
    (Of::Agent, client::client_share),
    (Of::Agent, client::clock_stepped),
    (Of::Agent, generator::core_saturated),
    (Of::Whole, calibration::near_ceiling),
    (Of::Whole, calibration::below_floor),
    (Of::Agent, generator::generator_bound),
    (Of::Both, load::cap_reached),
    (Of::Both, connections::starved),
    (Of::Whole, numbers::closed_loop),
    (Of::Both, connections::not_settled),
    (Of::Both, connections::pool_grew),
    (Of::Both, connections::unsolicited),
    (Of::Agent, connections::buffers_exhausted),
    (Of::Both, load::schedule_not_as_planned),
    (Of::Both, numbers::littles_law),
    (Of::Whole, numbers::not_stationary),
    (Of::Whole, numbers::too_few_samples),
    (Of::Agent, machine::local_resource),
    (Of::Agent, machine::cpu_stolen),
    (Of::Agent, machine::cpu_contended),
    (Of::Agent, machine::core_shared),
    (Of::Agent, machine::cpu_throttled),
    (Of::Agent, numbers::raw_samples_lost),
    (Of::Whole, numbers::profiled),
    (Of::Whole, numbers::interrupted),
    (Of::Both, numbers::errors),
    (Of::Whole, agents::agents_differ),
    (Of::Whole, agents::start_skew),
];

/// Judges a report. Pure: the same report gets the same verdict anywhere. Of several agents, it is
/// the worst of what the whole run shows and of the agents' verdicts.
pub fn judge(report: &Report) -> Verdict {
    if !report.is_joint() {
        return judge_by(report, |_| true);
    }
    let mut reasons = judge_by(report, |of| of != Of::Agent).reasons;
    for agent in &report.per_agent {
        let own = agent.verdict.reasons.iter().cloned();
        reasons.extend(own.map(|reason| Reason { agent: Some(agent.name.clone()), ..reason }));
    }
    verdict_of(worst_of_agents(reasons))
}

/// Judges one agent of several by its own part of the report.
pub fn judge_agent(report: &Report, agent: &AgentPart) -> Verdict {
    judge_by(&report.of_agent(agent), |of| of != Of::Whole)
}

fn judge_by(report: &Report, applies: impl Fn(Of) -> bool) -> Verdict {
    let mut reasons = Vec::new();
    for (of, rule) in RULES {
        let mut found = Vec::new();
        if applies(of) {
            rule(report, &mut found);
        }
        add_worst(found, &mut reasons);
    }
    verdict_of(reasons)
}

fn verdict_of(mut reasons: Vec<Reason>) -> Verdict {
    // A stable sort keeps the list's order within a level.
    reasons.sort_by_key(|reason| Reverse(reason.level));
    let level = reasons.first().map_or(Level::Valid, |reason| reason.level);
    Verdict { level, reasons }
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
    let (shown, rest) = names.split_at(names.len().min(agents::OTHERS_TOLD));
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
