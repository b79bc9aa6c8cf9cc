//! The last second of a run in progress: the difference of two snapshots.

use std::collections::VecDeque;

use engine::plan::Plan;
use engine::run::{Health, Phase, RunProgress, Trouble};
use engine::shard::CoarseHistogram;
use engine::sys::units::SECOND_NS;

/// The most snapshots kept: more frequent ones cover a shorter time.
const LOOKS_MAX: usize = 32;

/// This long after its start, ns, the shards' published numbers are of the load, not of the setup.
const LOADED_NS: u64 = 100_000_000;

/// A snapshot of a run whose load has begun.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// When its numbers were published, perhaps a little before the snapshot.
    as_of_ns: u64,
    progress: RunProgress,
    health: Option<Health>,
}

impl Look {
    /// A snapshot of a run, with its generator's health if known; `None` before the load.
    pub(crate) fn new(now: &RunProgress, health: Option<Health>) -> Option<Look> {
        if now.phase == Phase::Setup || now.elapsed_ns < LOADED_NS {
            return None;
        }
        let as_of_ns = health.as_ref().map_or(now.elapsed_ns, Health::as_of_ns);
        Some(Look { as_of_ns, progress: now.clone(), health })
    }

    /// When its numbers were published, ns.
    pub(crate) fn as_of_ns(&self) -> u64 {
        self.as_of_ns
    }

    /// The difference from an earlier snapshot; `None` if nothing was published since.
    pub(crate) fn since(&self, before: &Look) -> Option<Second> {
        let span_ns = self.as_of_ns.checked_sub(before.as_of_ns).filter(|span_ns| 0 < *span_ns)?;
        let since = self.progress.since(&before.progress);
        let per_second = |count: u64| count as f64 * SECOND_NS as f64 / span_ns as f64;
        let health = self.health.as_ref().zip(before.health.as_ref());
        Some(Second {
            intended: per_second(since.intended),
            answered: per_second(since.answered),
            latency: since.latency,
            health: health.map(|(now, before)| now.since(before)),
        })
    }
}

/// The snapshots of the last second, beginning with the load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    looks: VecDeque<Look>,
}

/// A run's figures over about a second.
#[derive(Clone, Debug)]
pub(crate) struct Second {
    /// Requests per second that were due.
    pub(crate) intended: f64,
    /// Requests per second that were answered.
    pub(crate) answered: f64,
    /// Corrected latencies of the window's requests that ended.
    pub(crate) latency: CoarseHistogram,
    /// The generator's health; `None` where it is unknown.
    pub(crate) health: Option<Health>,
}

impl Recent {
    /// Adds a snapshot of a run, with its generator's health if known.
    pub(crate) fn look(&mut self, now: &RunProgress, health: Option<Health>) {
        let Some(look) = Look::new(now, health) else { return };
        // The last snapshot before the stretch is where it begins.
        while LOOKS_MAX <= self.looks.len()
            || self.looks.get(1).is_some_and(|second| second.as_of_ns + SECOND_NS <= look.as_of_ns)
        {
            self.looks.pop_front();
        }
        self.looks.push_back(look);
    }

    /// The figures of the last second or so; `None` before the second snapshot.
    pub(crate) fn second(&self) -> Option<Second> {
        self.looks.back()?.since(self.looks.front()?)
    }
}

impl Second {
    /// The generator's trouble, or `Ok` if there is none; `None` where its health is unknown.
    pub(crate) fn trouble(&self, plan: &Plan) -> Option<Result<(), Trouble>> {
        let health = self.health.as_ref()?;
        Some(health.trouble(plan, &self.latency).map_or(Ok(()), Err))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(phase: Phase, elapsed_ms: u64, count: u64) -> RunProgress {
        let mut latency = CoarseHistogram::default();
        (0..count).for_each(|number| latency.record(number * 1_000));
        let elapsed_ns = elapsed_ms * 1_000_000;
        let (intended, answered) = (2 * count, count);
        RunProgress { phase, elapsed_ns, intended, answered, latency, ..RunProgress::default() }
    }

    #[test]
    fn a_second_is_the_last_one_however_long_the_run_was() {
        let mut recent = Recent::default();
        recent.look(&progress(Phase::Setup, 9_000, 70), None);
        assert!(recent.second().is_none());
        recent.look(&progress(Phase::Warmup, 100, 0), None);
        assert!(recent.second().is_none(), "one look has no length");
        recent.look(&progress(Phase::Warmup, 600, 50), None);
        let second = recent.second().expect("half a second");
        assert_eq!((second.intended, second.answered), (200.0, 100.0));
        for look in 1..=1_000_u64 {
            recent.look(&progress(Phase::Steady, 600 + 200 * look, 50 + 10 * look), None);
        }
        let second = recent.second().expect("a second");
        assert_eq!((second.intended, second.answered, second.latency.count()), (100.0, 50.0, 50));
        assert!(second.trouble(&Plan::default()).is_none(), "nothing is known of the generator");
        assert!(recent.looks.len() <= 6);
        for _ in 0..1_000 {
            recent.look(&progress(Phase::Steady, 300_000, 10_050), None);
        }
        assert_eq!(recent.looks.len(), LOOKS_MAX, "endless snapshots take no more memory");
    }

    #[test]
    fn numbers_at_the_start_may_be_of_the_setup() {
        let mut recent = Recent::default();
        recent.look(&progress(Phase::Warmup, 30, 10_000), None);
        recent.look(&progress(Phase::Warmup, 230, 20), None);
        assert!(recent.second().is_none());
        recent.look(&progress(Phase::Warmup, 430, 40), None);
        assert_eq!(recent.second().map(|second| second.answered), Some(100.0));
    }
}
