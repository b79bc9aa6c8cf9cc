//! The agents' progress, to be shown while they run.
//!
//! Progress comes as differences of what the local progress line shows, except for the generator's
//! health, which is judged for each agent at the end. Each agent has one total, to which its frames
//! are added, and the frames of the last second. So neither memory nor work grows with the length
//! of the run or its rate. For a lost agent, only that total is left: the report has it in
//! `agent_lost[].reported`, and in no other number.

use std::collections::VecDeque;

use engine::report::{AgentReported, Microseconds};
use engine::run::{Phase, RunProgress};
use engine::sys::units::SECOND_NS;

use crate::message::Ready;

/// The window of a displayed rate, ns.
const RATE_OVER_NS: u64 = SECOND_NS;
/// The most frames kept for that: an agent that sends them faster shows a shorter window.
const RECENT_MAX: usize = 16;

/// The progress of one agent.
#[derive(Clone, Debug)]
pub struct AgentLive {
    /// Its name.
    pub name: String,
    /// How it was set up; `None` until it is.
    pub ready: Option<Ready>,
    /// Its progress so far, only of the load once that has begun; `None` before its first frame.
    pub total: Option<RunProgress>,
    /// Why it can't be used any longer.
    pub lost: Option<String>,
    /// When frames of the last second came, ns since the epoch, and the requests answered by then.
    recent: VecDeque<(u64, u64)>,
}

impl AgentLive {
    /// An agent of this name that has done nothing yet.
    pub fn new(name: String) -> AgentLive {
        AgentLive { name, ready: None, total: None, lost: None, recent: VecDeque::new() }
    }

    /// Adds its progress since its last frame.
    pub fn add(&mut self, since: &RunProgress) {
        let total = match self.total.take() {
            Some(mut total) if (total.phase == Phase::Setup) == (since.phase == Phase::Setup) => {
                total.follow(since);
                total
            }
            // This is the first frame, or setup is over and time begins again.
            _ => {
                self.recent.clear();
                since.clone()
            }
        };
        let RunProgress { elapsed_ns, answered, .. } = total;
        self.total = Some(total);
        let is_old = |(at_ns, _): &(u64, u64)| at_ns + RATE_OVER_NS < elapsed_ns;
        // The last frame before the window is where it begins.
        while self.recent.get(1).is_some_and(is_old) || RECENT_MAX <= self.recent.len() {
            self.recent.pop_front();
        }
        self.recent.push_back((elapsed_ns, answered));
    }

    /// Responses per second over the last second or so.
    pub fn answered_per_s(&self) -> f64 {
        match (self.recent.front(), self.recent.back()) {
            (Some((from_ns, before)), Some((to_ns, after)))
                if from_ns < to_ns && self.lost.is_none() =>
            {
                (after - before) as f64 * SECOND_NS as f64 / (to_ns - from_ns) as f64
            }
            _ => 0.0,
        }
    }

    /// Its reported progress in the load; `None` if that hasn't begun. It is all that is left of a
    /// lost agent.
    pub(super) fn reported(&self) -> Option<AgentReported> {
        let total = self.total.as_ref().filter(|total| total.phase != Phase::Setup)?;
        let us = |quantile| total.latency.quantile_ns(quantile).map(|ns| ns as f64 / 1e3);
        Some(AgentReported {
            unit: Microseconds::Us,
            until_s: total.elapsed_ns as f64 / SECOND_NS as f64,
            intended: total.intended,
            answered: total.answered,
            errors: total.errors,
            in_flight: total.in_flight,
            p50: us(0.5),
            p99: us(0.99),
        })
    }

    /// Requests awaiting their response; unknown for a lost agent.
    pub fn in_flight(&self) -> u64 {
        let total = self.total.as_ref().filter(|_| self.lost.is_none());
        total.map_or(0, |total| total.in_flight)
    }
}

/// The progress of all agents; `None` before the first frame of one that isn't lost.
pub fn total(agents: &[AgentLive]) -> Option<RunProgress> {
    let (lost, used): (Vec<&AgentLive>, Vec<&AgentLive>) =
        agents.iter().filter(|agent| agent.total.is_some()).partition(|agent| agent.lost.is_some());
    let mut totals = used.iter().filter_map(|agent| agent.total.as_ref());
    let mut total = totals.next()?.clone();
    totals.for_each(|other| total.add(other));
    for lost in lost.iter().filter_map(|agent| agent.total.as_ref()) {
        // A lost agent's work counts, but not its phase.
        let RunProgress { phase, elapsed_ns, .. } = total;
        total.add(&RunProgress { phase, elapsed_ns, in_flight: 0, ..lost.clone() });
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use engine::shard::CoarseHistogram;

    use super::*;

    fn frame(phase: Phase, elapsed_ms: u64, answered: u64) -> RunProgress {
        let elapsed_ns = elapsed_ms * 1_000_000;
        let (intended, latency) = (answered + 1, CoarseHistogram::default());
        let (errors, in_flight, counts) = (0, 3, Default::default());
        RunProgress { phase, elapsed_ns, intended, answered, errors, in_flight, counts, latency }
    }

    #[test]
    fn a_rate_is_of_the_last_second_however_long_the_run_was() {
        let mut live = AgentLive::new("a".to_owned());
        assert_eq!(live.answered_per_s(), 0.0);
        live.add(&frame(Phase::Setup, 900, 50));
        assert_eq!(live.answered_per_s(), 0.0);
        for tick in 1..=4_000 {
            live.add(&frame(Phase::Steady, 250 * tick, if tick < 2_000 { 10 } else { 25 }));
        }
        assert_eq!(live.answered_per_s(), 100.0);
        assert!(live.recent.len() <= 6, "{:?}", live.recent);
        assert_eq!(live.total.as_ref().map(|total| total.answered), Some(1_999 * 10 + 2_001 * 25));
        // Endless frames take no more memory.
        for _ in 0..100 {
            live.add(&frame(Phase::Steady, 1_000_000, 1));
        }
        assert!(live.recent.len() <= RECENT_MAX);
    }

    #[test]
    fn only_the_load_counts_as_reported() {
        let mut live = AgentLive::new("a".to_owned());
        live.add(&frame(Phase::Setup, 900, 50));
        assert_eq!(live.reported(), None, "no load yet");
        live.add(&frame(Phase::Warmup, 250, 5));
        let mut last = frame(Phase::Steady, 1_000, 7);
        (0..7).for_each(|_| last.latency.record(80_000_000));
        live.add(&last);
        live.lost = Some("the session ended".to_owned());
        let reported = live.reported().expect("some");
        let AgentReported { until_s, intended, answered, in_flight, p50, .. } = reported;
        assert_eq!((until_s, intended, answered, in_flight), (1.0, 14, 12, 3));
        assert!((75_000.0..85_000.0).contains(&p50.expect("values")), "{p50:?}");
    }

    #[test]
    fn the_total_covers_all_and_the_slowest_decides_the_phase() {
        let mut agents: Vec<AgentLive> =
            ["a", "b", "c"].map(|name| AgentLive::new(name.to_owned())).to_vec();
        agents[0].add(&frame(Phase::Steady, 1_000, 10));
        agents[1].add(&frame(Phase::Warmup, 990, 20));
        agents[2].add(&frame(Phase::Warmup, 400, 5));
        agents[2].lost = Some("the session ended".to_owned());
        assert!(total(&agents[..0]).is_none());
        let all = total(&agents).expect("two agents run");
        assert_eq!((all.phase, all.elapsed_ns), (Phase::Warmup, 990_000_000));
        assert_eq!((all.answered, all.intended, all.in_flight), (35, 38, 6));
    }
}
