//! What moves the ceiling: runs above it that differ in one thing from the first of them.
//!
//! The bound of a ceiling is tested, not only read. Busy shares and latencies of one run name a
//! suspect, but a full core in front of a full target looks like a full core. So each run changes
//! one thing, and a change that moves the throughput was the bound.
//!
//! - The runs are overloaded by a quarter, so that a change shows beyond the scatter of runs; a
//!   change that couldn't show proves nothing.
//! - A resource with room in the unchanged run can't have been the bound, whatever the others show
//!   by chance. If the generator woke up late, trials in which it didn't can't prove another bound.
//! - A trial's best run counts. Others on the machine only take throughput away, so a disturbed
//!   trial is repeated, and the higher of the two is the path's capacity.
//! - On agents no other number of shards is tried, since cores are the agents'. The proof then
//!   rests on the trials with other numbers of connections.

use serde::{Deserialize, Serialize};

use crate::step::Step;

/// The smallest change of the throughput that can be seen, as a share.
pub const EXPECTED_MIN: f64 = 0.05;

/// The change of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changed {
    /// None: the base of the others.
    Nothing,
    /// The number of shards.
    Shards,
    /// The limit of connections.
    Conns,
    /// The number of shards, and the rate with it.
    Scaled,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its change.
    pub changed: Changed,
    /// Its shards.
    pub shards: usize,
    /// The limit of connections.
    pub conns: u64,
    /// Requests per second offered.
    pub rate_per_s: f64,
    /// Good answers per second in the second half of the window.
    pub throughput_per_s: f64,
    /// The throughput as a multiple of the base's.
    pub ratio: f64,
    /// The expected ratio if nothing else were the bound; 1 for the base.
    pub expected: f64,
    /// True if the change moved the ceiling, by at least half of the expected change. `None` for
    /// the base, and if less than [`EXPECTED_MIN`] was expected.
    pub moved: Option<bool>,
    /// Its runs, in the order in which they were made. The one with the highest throughput counts,
    /// since others on the machine only take some away.
    pub steps: Vec<Step>,
}

/// The result of the trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The trials, the base first; empty if none was made.
    pub trials: Vec<Trial>,
    /// Whether more shards do more.
    pub scaling: Scaling,
}

/// Whether more shards do more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scaling {
    /// Only one core can run a shard, so it can't be tested.
    Unproven,
    /// It was not tried: the generator isn't the bound, the highest rate left no room, or the
    /// series ended before.
    NotTried,
    /// Each number of shards, ascending.
    Efficiency(Vec<Scaled>),
}

/// The result of a number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaled {
    /// The shards.
    pub shards: usize,
    /// Good answers per second.
    pub throughput_per_s: f64,
    /// The throughput per shard, as a share of the smallest number's.
    pub efficiency: f64,
}

impl Trial {
    /// The trials of these runs, at least one each; the first are the base's.
    pub(crate) fn of(made: &[(Changed, &[Step])]) -> Vec<Trial> {
        let Some(base) = made.first().and_then(|(_, runs)| best(runs)) else { return Vec::new() };
        made.iter().filter_map(|(changed, runs)| Trial::new(*changed, base, runs)).collect()
    }

    /// The run that counts; `None` for a document without one.
    pub(crate) fn counted(&self) -> Option<&Step> {
        best(&self.steps)
    }

    /// `None` without a run.
    fn new(changed: Changed, base: &Step, runs: &[Step]) -> Option<Trial> {
        let step = best(runs)?;
        let (was, is) = (&base.figures, &step.figures);
        let of_base = |figure: f64| {
            if was.throughput_per_s == 0.0 { 1.0 } else { figure / was.throughput_per_s }
        };
        let grown = match changed {
            Changed::Nothing => 1.0,
            Changed::Shards | Changed::Scaled => is.shards.len() as f64 / was.shards.len() as f64,
            Changed::Conns => is.conns as f64 / was.conns as f64,
        };
        let (ratio, expected) = (of_base(is.throughput_per_s), of_base(step.rate_per_s).min(grown));
        let is_more = 1.0 < grown;
        // If little is expected, chance does as much.
        let visible = if is_more { expected - 1.0 } else { 1.0 - expected };
        let is_clear =
            changed != Changed::Nothing && 0.0 < was.throughput_per_s && EXPECTED_MIN <= visible;
        let halfway = f64::midpoint(1.0, expected);
        let moved = is_clear.then_some(if is_more { halfway <= ratio } else { ratio <= halfway });
        Some(Trial {
            changed,
            shards: is.shards.len(),
            conns: is.conns,
            rate_per_s: step.rate_per_s,
            throughput_per_s: is.throughput_per_s,
            ratio,
            expected,
            moved,
            steps: runs.to_vec(),
        })
    }
}

/// The run with the highest throughput.
fn best(runs: &[Step]) -> Option<&Step> {
    let of = |step: &Step| step.figures.throughput_per_s;
    runs.iter().max_by(|one, other| of(one).total_cmp(&of(other)))
}

impl Proof {
    /// The trial with another number of shards.
    pub(crate) fn shards(&self) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.changed == Changed::Shards)
    }

    /// The trial with more connections.
    pub(crate) fn more_conns(&self) -> Option<&Trial> {
        let base = self.trials.first()?;
        let more = |trial: &&Trial| trial.changed == Changed::Conns && base.conns < trial.conns;
        self.trials.iter().find(more)
    }

    /// The trial with fewer connections.
    pub(crate) fn fewer_conns(&self) -> Option<&Trial> {
        let base = self.trials.first()?;
        let fewer = |trial: &&Trial| trial.changed == Changed::Conns && trial.conns < base.conns;
        self.trials.iter().find(fewer)
    }
}

impl Scaling {
    /// From these trials, with this many cores for shards.
    pub(crate) fn new(trials: &[Trial], cores: usize) -> Scaling {
        if cores < 2 {
            return Scaling::Unproven;
        }
        let counted = |changed| matches!(changed, Changed::Nothing | Changed::Scaled);
        let mut all: Vec<(usize, f64)> = trials
            .iter()
            .filter(|trial| counted(trial.changed))
            .map(|trial| (trial.shards, trial.throughput_per_s))
            .collect();
        all.sort_by_key(|(shards, _)| *shards);
        match all.first() {
            Some((fewest, least)) if 1 < all.len() && 0.0 < *least => {
                let each = least / *fewest as f64;
                let of = |(shards, throughput): (usize, f64)| {
                    let efficiency = throughput / (each * shards as f64);
                    Scaled { shards, throughput_per_s: throughput, efficiency }
                };
                Scaling::Efficiency(all.iter().copied().map(of).collect())
            }
            _ => Scaling::NotTried,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::ShardTime;
    use crate::queues::{Queue, asked};

    #[test]
    fn a_trial_proves_nothing_if_its_change_could_not_be_seen() {
        let base = Queue { service_ns: 500_000, ..Queue::serial_ms() }.run(&asked("2500", 1));
        let with = |rate: f64, shards: usize, throughput: f64| {
            let mut step = Step { rate_per_s: rate, ..base.clone() };
            step.figures.shards = vec![ShardTime::default(); shards];
            step.figures.throughput_per_s = throughput;
            step
        };
        for (before, after, moved) in [
            (with(2_500.0, 1, 2_000.0), with(2_500.0, 2, 2_000.0), Some(false)),
            (with(2_500.0, 1, 2_000.0), with(2_500.0, 2, 2_500.0), Some(true)),
            (with(2_500.0, 2, 2_000.0), with(2_500.0, 1, 1_000.0), Some(true)),
            // One shard more than 25 is 4 %.
            (with(2_500.0, 25, 2_000.0), with(2_500.0, 26, 2_000.0), None),
            // The rate has no room for more, or the base has already done more than was due.
            (with(2_040.0, 1, 2_000.0), with(2_040.0, 2, 2_040.0), None),
            (with(2_500.0, 1, 2_700.0), with(2_500.0, 2, 2_700.0), None),
            (with(2_500.0, 2, 0.0), with(2_500.0, 1, 0.0), None),
        ] {
            let made = [(Changed::Nothing, &[before][..]), (Changed::Shards, &[after][..])];
            let trials = Trial::of(&made);
            let moves: Vec<Option<bool>> = trials.iter().map(|trial| trial.moved).collect();
            assert_eq!(moves, [None, moved], "{trials:?}");
        }
    }
}
