//! Recomputes which requests of paced users were due in the window: in all, and in each part.

use load::PacedLoad;
use load::mix::Mix;
use load::presence::Presence;
use report::steps::planned;
use report::{Report, StepPart};
use units::seconds_to_ns;

use super::finding::{Finding, summed_up};
use super::steps_taken::StepsTaken;

/// The most requests to count: a second or two. No run of hours with thousands of users has more.
const COUNTED_MAX: u64 = 100_000_000;

/// How many requests have to be counted for [`paced`], at most, for any document.
pub(super) fn paced_most(report: &Report) -> u64 {
    let plan = &report.config.plan;
    let Some(period) = plan.period else { return 0 };
    let load_ns = plan.warmup.0.saturating_add(plan.duration.0);
    let rounds = load_ns / period.0.max(1) + 1;
    rounds.saturating_mul(plan.conns.unwrap_or(0) as u64)
}

/// The intended requests of users with a period; none for other plans, and for a run that was ended
/// early.
pub(super) fn paced(report: &Report) -> Vec<Finding> {
    let plan = &report.config.plan;
    let mut ends_ns = report.per_agent.iter().map(|of| seconds_to_ns(of.config.schedule_until));
    let ends_as_planned = ends_ns.all(|end_ns| end_ns == plan.end_ns());
    let is_counted = ends_as_planned && !report.interrupted && paced_most(report) <= COUNTED_MAX;
    let Some(period) = plan.period.filter(|_| is_counted) else { return Vec::new() };
    let (mix, presence) = (Mix::of_plan(plan), Presence::of_plan(plan));
    let mut steps = StepsTaken::new(plan);
    let mut due = 0_u64;
    for agent in &report.per_agent {
        let (share, end_ns) = (&agent.config.share, plan.end_ns());
        if share.users(plan.conns()).next().is_none() {
            continue;
        }
        let mut load = PacedLoad::new(period.0, plan.conns(), share, presence.clone());
        while let Some((_, request)) = load.take_due(end_ns, end_ns) {
            if plan.warmup.0 <= request.due_ns {
                due += 1;
                steps.add(request.due_ns, mix.step(request.number));
            }
        }
    }
    let mut findings =
        vec![Finding::equal("intended by the period", due, report.whole.counts.arrivals())];
    let firsts: Vec<usize> = plan.scenario_firsts().into_iter().map(usize::from).collect();
    let steps_of = planned(plan);
    // Later steps of sessions aren't due by the period.
    let is_due = |at: usize| {
        firsts.is_empty() || steps_of.get(at).is_some_and(|of| firsts.contains(&of.step))
    };
    let parts = report.whole.parts.iter().enumerate().filter(|(at, _)| is_due(*at));
    let check = |(at, part): (usize, &StepPart)| {
        Finding::equal(&*part.name, steps.count(at), part.counts.intended)
    };
    findings.extend(summed_up("parts: intended by the period", parts.map(check).collect()));
    findings
}
