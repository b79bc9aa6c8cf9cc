//! Follows the sessions of raw samples through their steps: each step was due when the response
//! before it had been handled and its user had thought, to the nanosecond.

use std::collections::HashMap;

use load::think::think_ns;
use plan::Plan;
use plan::think::Think;
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
    /// Its next step, and when that is due.
    next: u16,
    due_ns: u64,
}

/// The sessions of the samples of a run.
#[derive(Debug)]
pub(super) struct Walks {
    config: RecorderConfig,
    seed: u64,
    /// The think time after each step; `None` for the last of a scenario.
    then: Vec<Option<Think>>,
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
            then: (0..plan.step_count()).map(|step| plan.think_after(step)).collect(),
            open: HashMap::new(),
            later: 0,
            on_time: 0,
        }
    }

    /// When the sample's session was due, ns since the epoch; the request itself, if its scenario
    /// has only one step.
    pub(super) fn began_ns(&mut self, sample: &Sample) -> u64 {
        let is_later =
            !self.config.scenario_firsts.is_empty() && !self.config.is_first(sample.step);
        if !is_later {
            return sample.intended_ns;
        }
        self.later += 1;
        let walk = self.open.get(&sample.number);
        let known = walk.filter(|walk| walk.next == sample.step);
        self.on_time += u64::from(known.is_some_and(|walk| walk.due_ns == sample.intended_ns));
        // A step of no session isn't one of the schedule either.
        known.map_or(sample.intended_ns.saturating_sub(1), |walk| walk.began_ns)
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
        let (began_ns, thought_ns) = match walk.filter(|_| !is_first) {
            Some(walk) => (walk.began_ns, walk.thought_ns),
            None => (intended_ns, 0),
        };
        if let Some(Some(think)) = self.then.get(usize::from(step)).filter(|_| is_good) {
            let think_ns = think_ns(*think, self.seed, number, step + 1);
            let (thought_ns, due_ns) = (thought_ns + think_ns, ending.handled_ns + think_ns);
            self.open.insert(number, Walk { began_ns, thought_ns, next: step + 1, due_ns });
            return None;
        }
        let took_ns = ending.ended_ns().saturating_sub(began_ns + thought_ns);
        let end = SessionEnd::of(step, outcome, is_good, is_first);
        Some((step, end, outcome.has_latency().then_some(took_ns)))
    }

    /// The sessions whose next step is in no sample: they thought when the run ended.
    pub(super) fn unfinished(&mut self) -> Vec<End> {
        let end = |walk: Walk| {
            let took_ns = walk.due_ns - walk.began_ns - walk.thought_ns;
            (walk.next, SessionEnd::Unfinished(walk.next), Some(took_ns))
        };
        self.open.drain().map(|(_, walk)| end(walk)).collect()
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
