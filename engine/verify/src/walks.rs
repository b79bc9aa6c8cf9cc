//! Follows the sessions of raw samples through their steps: each step was due when the response
//! before it had been handled and its user had thought, to the nanosecond.

use std::collections::HashMap;

use load::course::{At, Course};
use plan::Plan;
use record::config::RecorderConfig;
use record::outcome::Outcome;
use record::scenario::SessionEnd;
use samples::Sample;

use super::finding::Finding;

/// A session so far.
#[derive(Clone, Copy, Debug)]
struct Walk {
    /// When it was due, ns since the epoch.
    began_ns: u64,
    /// How long its user has thought, ns.
    thought_ns: u64,
    /// Its last request, and when it had ended and been handled.
    at: At,
    ended_ns: u64,
    handled_ns: u64,
}

/// The sessions of the samples of a run.
#[derive(Debug)]
pub(super) struct Walks {
    config: RecorderConfig,
    seed: u64,
    course: Course,
    /// When no later step is sent any more, ns since the epoch.
    over_ns: u64,
    open: HashMap<u64, Walk>,
    /// Later steps, and those that were due when they had to be.
    later: u64,
    on_time: u64,
}

/// The end of a session: its last step, how it ended, and its latency, ns.
type End = (u16, SessionEnd, Option<u64>);

impl Walks {
    /// None yet.
    pub(super) fn new(plan: &Plan) -> Walks {
        Walks {
            config: RecorderConfig::of_plan(plan),
            seed: plan.seed,
            course: Course::of_plan(plan),
            over_ns: plan.end_ns().saturating_add(plan.timeout_max().0),
            open: HashMap::new(),
            later: 0,
            on_time: 0,
        }
    }

    /// Takes its session on to the sample's request, and returns when the session was due, ns since
    /// the epoch; the request itself, if its scenario has only one step.
    pub(super) fn goes_on(&mut self, sample: &Sample) -> u64 {
        let is_later =
            !self.config.scenario_firsts.is_empty() && !self.config.is_first(sample.step);
        if !is_later {
            return sample.intended_ns;
        }
        self.later += 1;
        let none = sample.intended_ns.saturating_sub(1);
        // A step of no session isn't one of the schedule either.
        let Some(walk) = self.open.get_mut(&sample.number) else { return none };
        let (may, _) = self.course.may_follow(walk.at);
        let Some(at) = may.into_iter().find(|at| at.step == sample.step) else { return none };
        let think_ns = self.course.think_ns(self.seed, sample.number, at);
        self.on_time += u64::from(walk.handled_ns.saturating_add(think_ns) == sample.intended_ns);
        (walk.at, walk.thought_ns) = (at, walk.thought_ns.saturating_add(think_ns));
        walk.began_ns
    }

    /// The sample's request ended, with a good answer or without: returns the end of its session,
    /// unless that goes on.
    pub(super) fn ended(
        &mut self,
        sample: &Sample,
        outcome: Outcome,
        is_good: bool,
    ) -> Option<End> {
        if self.config.scenario_firsts.is_empty() {
            return None;
        }
        let Sample { step, number, intended_ns, ending, .. } = *sample;
        let walk = self.open.remove(&number);
        let is_first = self.config.is_first(step);
        let (ended_ns, handled_ns) = (ending.ended_ns(), ending.handled_ns);
        let first = At::first(step);
        let new = Walk { began_ns: intended_ns, thought_ns: 0, at: first, ended_ns, handled_ns };
        let walk = walk.filter(|_| !is_first).unwrap_or(new);
        let Walk { began_ns, thought_ns, at, .. } = walk;
        let goes_on = |at: At| !self.course.may_follow(at).0.is_empty();
        if is_good && at.step == step && goes_on(at) {
            self.open.insert(number, Walk { ended_ns, handled_ns, ..walk });
            return None;
        }
        let took_ns = ended_ns.saturating_sub(began_ns).saturating_sub(thought_ns);
        let end = SessionEnd::of(step, outcome, is_good, is_first);
        Some((step, end, outcome.has_latency().then_some(took_ns)))
    }

    /// The sessions whose next step is in no sample: they thought when the run ended, or had
    /// completed, if all steps that were left need a value.
    pub(super) fn unfinished(&mut self) -> Vec<End> {
        let Walks { course, seed, over_ns, open, .. } = self;
        let end = |(number, walk): (u64, Walk)| {
            let Walk { began_ns, thought_ns, at, ended_ns, handled_ns } = walk;
            let (may, may_end) = course.may_follow(at);
            let due_ns = |at: &At| handled_ns.saturating_add(course.think_ns(*seed, number, *at));
            let took_ns =
                |until_ns: u64| Some(until_ns.saturating_sub(began_ns).saturating_sub(thought_ns));
            // One that was due before the end would have been sent.
            match may.iter().find(|at| !may_end || *over_ns <= due_ns(at)) {
                Some(next) => (next.step, SessionEnd::Unfinished(next.step), took_ns(handled_ns)),
                None => (at.step, SessionEnd::Completed, took_ns(ended_ns)),
            }
        };
        open.drain().map(end).collect()
    }

    /// Whether each later step was due when it had to be.
    pub(super) fn findings(&self) -> Vec<Finding> {
        if self.config.scenario_firsts.is_empty() {
            return Vec::new();
        }
        let what = "samples: steps due when their user had thought";
        vec![Finding::equal(what, self.later, self.on_time)]
    }
}
