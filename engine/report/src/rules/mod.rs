//! The rules of the verdict: each checks one aspect of the report, and adds a reason or a note if
//! it exceeds its threshold.
//!
//! `table.rs` has one row per rule, and `rule.rs` defines the row. A check returns what it found in
//! the report, with its own meaning or cure only if these depend on the run. Code that needs to
//! know more about a reason than its code looks it up in the row.

mod agents;
mod calibration;
mod client;
mod connections;
mod generator;
mod load;
mod machine;
mod numbers;
mod rule;
mod share;
mod table;

pub use client::explains_added;
pub use generator::{GENERATOR_BOUND_MAX, STOPPED_MAX};
pub use rule::{Effect, Follows, More, Of, Rule};
pub use table::{RULES, decided_by};

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::report::{AgentPart, Report};
use super::verdict::{Code, Level, Reason, Topic, Verdict};

/// Judges a report. Pure: the same report gets the same verdict anywhere. With several agents, the
/// verdict is the worst of the whole run's and the agents'.
pub fn judge(report: &Report) -> Verdict {
    if !report.is_joint() {
        return judge_by(report, |_| true);
    }
    let Verdict { mut reasons, mut notes, .. } = judge_by(report, |of| of != Of::Agent);
    let of_agents = || report.per_agent.iter().flat_map(|agent| &agent.verdict.reasons);
    reasons.retain(|found| {
        found.code.rule().of != Of::AgentFirst || of_agents().all(|other| other.code != found.code)
    });
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

fn judge_by(report: &Report, applies: impl Fn(Of) -> bool) -> Verdict {
    let (mut reasons, mut notes) = (Vec::new(), Vec::new());
    for rule in RULES.iter().filter(|rule| applies(rule.of)) {
        let found = worst(rule.find(report));
        if rule.is_effect(report) {
            reasons.extend(found);
        } else {
            notes.extend(found);
        }
    }
    if report.whole.counts.answered == 0 && reasons.iter().any(|one| one.code == Code::Errors) {
        reasons.retain(|one| !one.code.rule().more.needs_answers);
    }
    verdict_of(reasons, notes)
}

fn verdict_of(mut reasons: Vec<Reason>, mut notes: Vec<Reason>) -> Verdict {
    // The stable sort keeps the list's order within a level.
    reasons.sort_by_key(|reason| Reverse(reason.level));
    notes.sort_by_key(|note| Reverse(note.level));
    let level = reasons.first().map_or(Level::Valid, |reason| reason.level);
    Verdict { level, reasons, notes }
}

/// The worst reason of each code: within one level the whole run's, else the agent's with the
/// highest figure. Its evidence names the others, which are in their own verdicts.
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

/// The reason, with the others of its code named in its evidence.
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
    others.into_iter().for_each(|other| add_topics(&mut worst, other.touches));
    worst
}

/// The worst finding of one rule, the first among equals; its evidence mentions the others.
fn worst(mut found: Vec<Reason>) -> Option<Reason> {
    // The stable sort keeps the rule's order within a level.
    found.sort_by_key(|reason| Reverse(reason.level));
    let mut found = found.into_iter();
    let mut worst = found.next()?;
    for other in found {
        let _ = write!(worst.evidence, "; also: {}", other.evidence);
        add_topics(&mut worst, other.touches);
    }
    Some(worst)
}

fn add_topics(reason: &mut Reason, topics: Vec<Topic>) {
    for topic in topics {
        if !reason.touches.contains(&topic) {
            reason.touches.push(topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use plan::thresholds::Thresholds;

    use super::*;

    #[test]
    fn each_code_has_one_row_in_full() {
        let schema = schemars::schema_for!(Code).to_value();
        let variants = schema["oneOf"].as_array().expect("a code is one of several").iter();
        let codes: BTreeSet<&str> = variants.filter_map(|one| one["const"].as_str()).collect();
        let rows: Vec<String> = RULES.iter().map(|rule| rule.code.to_string()).collect();
        assert_eq!(rows.iter().map(String::as_str).collect::<BTreeSet<&str>>(), codes);
        assert_eq!(rows.len(), codes.len(), "{rows:?}");
        for rule in RULES {
            for text in [rule.meaning, rule.cure] {
                let ends = text.is_empty() || text.ends_with(['.', ' ']);
                assert!(!ends, "{}: a text is put into a sentence: {text:?}", rule.code);
            }
            assert!(!rule.touches.is_empty() && !rule.checks.is_empty(), "{}", rule.code);
        }
    }

    #[test]
    fn every_threshold_decides_a_reason_and_every_rule_names_existing_thresholds() {
        let entries = Thresholds::default().entries();
        let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
        for name in &names {
            assert_ne!(decided_by(name), [], "{name}");
        }
        let named = RULES.iter().flat_map(|rule| rule.more.thresholds);
        assert!(named.into_iter().all(|name| names.contains(name)));
    }
}
