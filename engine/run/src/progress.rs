//! The progress of a run, which adds up over agents.

use std::array;

use record::counts::CountsSoFar;
use serde::{Deserialize, Serialize};
use shard::CoarseHistogram;

/// The phase of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Connections are being opened.
    #[default]
    Setup,
    /// Load is offered but not recorded.
    Warmup,
    /// The recorded window.
    Steady,
    /// The load has ended; responses are still awaited.
    Drain,
    /// All shards have ended.
    Done,
}

/// The progress of a run, including the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunProgress {
    /// Its phase.
    pub phase: Phase,
    /// Time since the epoch, ns; during setup, since the start of setup.
    pub elapsed_ns: u64,
    /// Requests that have fallen due.
    pub intended: u64,
    /// Requests with a complete response.
    pub answered: u64,
    /// Requests that timed out, failed or were abandoned.
    pub errors: u64,
    /// Requests awaiting their response.
    pub in_flight: u64,
    /// The report's counts as far as they are known: of the window, and of the warm-up.
    pub counts: CountsSoFar,
    /// Corrected latencies of the window so far.
    pub latency: CoarseHistogram,
}

impl RunProgress {
    /// The progress since `earlier`; the phase stays.
    #[must_use]
    pub fn since(&self, earlier: &RunProgress) -> RunProgress {
        RunProgress {
            phase: self.phase,
            elapsed_ns: self.elapsed_ns,
            intended: self.intended.saturating_sub(earlier.intended),
            answered: self.answered.saturating_sub(earlier.answered),
            errors: self.errors.saturating_sub(earlier.errors),
            in_flight: self.in_flight,
            counts: array::from_fn(|at| self.counts[at].saturating_sub(earlier.counts[at])),
            latency: self.latency.since(&earlier.latency),
        }
    }

    /// Adds another agent's progress. The phase of the sum is the earliest.
    pub fn add(&mut self, other: &RunProgress) {
        self.phase = self.phase.min(other.phase);
        self.elapsed_ns = self.elapsed_ns.min(other.elapsed_ns);
        self.intended = self.intended.saturating_add(other.intended);
        self.answered = self.answered.saturating_add(other.answered);
        self.errors = self.errors.saturating_add(other.errors);
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        self.counts = array::from_fn(|at| self.counts[at].saturating_add(other.counts[at]));
        self.latency.merge(&other.latency);
    }

    /// Adds the progress since the last reading.
    pub fn follow(&mut self, since: &RunProgress) {
        let RunProgress { phase, elapsed_ns, in_flight, .. } = *since;
        self.add(&RunProgress { phase: self.phase, elapsed_ns: self.elapsed_ns, ..since.clone() });
        (self.phase, self.elapsed_ns, self.in_flight) = (phase, elapsed_ns, in_flight);
    }

    /// Requests without a good answer: errors, including those of the warm-up, plus the window's
    /// unsent requests and answers that aren't good.
    pub fn bad(&self) -> u64 {
        let [_, _, unsent, _, _, _, _, unexpected_status, failed_checks, _, _] = self.counts;
        [unsent, unexpected_status, failed_checks]
            .into_iter()
            .fold(self.errors, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(number: u64, latencies_ns: &[u64]) -> RunProgress {
        let mut latency = CoarseHistogram::default();
        latencies_ns.iter().for_each(|latency_ns| latency.record(*latency_ns));
        RunProgress {
            phase: Phase::Steady,
            elapsed_ns: number,
            intended: number,
            answered: number,
            errors: number,
            in_flight: number,
            counts: array::from_fn(|at| number + at as u64),
            latency,
        }
    }

    #[test]
    fn requests_without_a_good_answer_are_bad() {
        let counts = [10, 9, 1, 7, 1, 1, 0, 3, 0, 0, 0];
        assert_eq!(RunProgress { errors: 2, counts, ..RunProgress::default() }.bad(), 6);
    }

    #[test]
    fn the_differences_add_up_to_the_whole() {
        let looks = [after(1, &[5_000]), after(4, &[5_000, 90_000]), after(9, &[5_000, 90_000, 7])];
        let mut seen = looks[0].clone();
        for two in looks.windows(2) {
            seen.follow(&two[1].since(&two[0]));
        }
        assert_eq!(seen, looks[2]);
    }

    #[test]
    fn the_phase_of_several_agents_is_the_earliest() {
        let mut both = after(4, &[5_000]);
        both.add(&RunProgress { phase: Phase::Warmup, ..after(3, &[5_000, 5_000]) });
        let expected = RunProgress {
            phase: Phase::Warmup,
            elapsed_ns: 3,
            counts: array::from_fn(|at| 7 + 2 * at as u64),
            ..after(7, &[5_000, 5_000, 5_000])
        };
        assert_eq!(both, expected);
    }
}
