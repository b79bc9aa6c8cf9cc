//! The rules of the verdict: each checks one thing in the report, and adds a reason if it crosses
//! its threshold.

mod calibration;
mod client;
mod connections;
mod generator;
mod load;
mod machine;
mod numbers;
mod share;

use std::fmt::Write as _;

use super::report::Report;
use super::verdict::{Level, Reason, Verdict};

/// A rule: checks a report and adds its reasons.
type Rule = fn(&Report, &mut Vec<Reason>);

/// All rules, in the order in which reasons of one level are listed.
const RULES: [Rule; 31] = [
    load::nothing_sent,
    load::rate_missed,
    generator::generator_late,
    client::receive_late,
    client::hardware_clock,
    client::client_share,
    client::clock_stepped,
    generator::core_saturated,
    calibration::near_ceiling,
    calibration::below_floor,
    generator::generator_bound,
    load::cap_reached,
    connections::starved,
    numbers::closed_loop,
    connections::not_settled,
    connections::pool_grew,
    connections::unsolicited,
    connections::buffers_exhausted,
    load::schedule_not_as_planned,
    numbers::littles_law,
    numbers::not_stationary,
    numbers::too_few_samples,
    machine::local_resource,
    machine::cpu_stolen,
    machine::cpu_contended,
    machine::core_shared,
    machine::cpu_throttled,
    numbers::raw_samples_lost,
    numbers::profiled,
    numbers::interrupted,
    numbers::errors,
];

/// Judges a report. Pure: the same report gets the same verdict anywhere.
pub fn judge(report: &Report) -> Verdict {
    let mut reasons = Vec::new();
    for rule in RULES {
        let mut found = Vec::new();
        rule(report, &mut found);
        add_worst(found, &mut reasons);
    }
    // A stable sort keeps the list's order within a level.
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.level));
    let level = reasons.first().map_or(Level::Valid, |reason| reason.level);
    Verdict { level, reasons }
}

/// Adds the reasons that one rule found. Of those with one code it is the worst, the first among
/// equals; its evidence mentions the others.
fn add_worst(mut found: Vec<Reason>, reasons: &mut Vec<Reason>) {
    // A stable sort keeps the rule's order within a level.
    found.sort_by_key(|reason| std::cmp::Reverse(reason.level));
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
