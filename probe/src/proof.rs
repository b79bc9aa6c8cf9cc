//! What moves the ceiling: runs above it that differ in one thing from the first of them.

use serde::{Deserialize, Serialize};

use crate::step::Step;

/// A change of the throughput below which nothing can be seen, as a share.
const EXPECTED_MIN: f64 = 0.05;

/// What a trial changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changed {
    /// Nothing: what the others are held against.
    Nothing,
    /// The number of shards.
    Shards,
    /// How many connections may be open.
    Conns,
    /// The number of shards, and the rate with it.
    Scaled,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// What it changes.
    pub changed: Changed,
    /// Its shards.
    pub shards: usize,
    /// Connections that may be open.
    pub conns: u64,
    /// Requests per second offered.
    pub rate: f64,
    /// Good answers per second in the second half of the window.
    pub throughput: f64,
    /// The throughput as a multiple of that with nothing changed.
    pub ratio: f64,
    /// What that would be if nothing else were the bound; 1 with nothing changed.
    pub expected: f64,
    /// Whether the change moved the ceiling: by half of what was to be expected, or more. Never if
    /// hardly anything was.
    pub moved: bool,
    /// How often it was made; the run with the highest throughput counts, since others on the
    /// machine only take of it.
    pub runs: usize,
    /// That run.
    pub step: Step,
}

/// What the trials show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The trials, the one with nothing changed first; empty if none was made.
    pub trials: Vec<Trial>,
    /// Whether more shards do more.
    pub scaling: Scaling,
}

/// Whether more shards do more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scaling {
    /// Only one core can be spared, so nothing shows it.
    Unproven,
    /// It was not tried: the generator isn't the bound, or the series ended before.
    NotTried,
    /// Each number of shards, ascending.
    Efficiency(Vec<Scaled>),
}

/// What a number of shards does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaled {
    /// The shards.
    pub shards: usize,
    /// Good answers per second.
    pub throughput: f64,
    /// The same for each shard, as a share of what the smallest number does.
    pub efficiency: f64,
}

impl Trial {
    /// The trials of these runs, each at least one; the first are those with nothing changed.
    pub(crate) fn of(made: &[(Changed, &[Step])]) -> Vec<Trial> {
        let best = |runs: &[Step]| {
            let by_throughput = |one: &&Step, other: &&Step| {
                one.figures.throughput.total_cmp(&other.figures.throughput)
            };
            runs.iter().max_by(by_throughput).cloned()
        };
        let Some(base) = made.first().and_then(|(_, runs)| best(runs)) else { return Vec::new() };
        let trials = made.iter().filter_map(|(changed, runs)| {
            let step = best(runs)?;
            Some(Trial::new(*changed, &base, step, runs.len()))
        });
        trials.collect()
    }

    fn new(changed: Changed, base: &Step, step: Step, runs: usize) -> Trial {
        let (was, is) = (&base.figures, &step.figures);
        let of_base =
            |figure: f64| if was.throughput == 0.0 { 1.0 } else { figure / was.throughput };
        let grown = match changed {
            Changed::Nothing => 1.0,
            Changed::Shards | Changed::Scaled => is.shards.len() as f64 / was.shards.len() as f64,
            Changed::Conns => is.conns as f64 / was.conns as f64,
        };
        let (ratio, expected) = (of_base(is.throughput), of_base(step.rate).min(grown));
        // Where little is to be expected, chance does as much.
        let seen = EXPECTED_MIN <= (expected - 1.0).abs();
        let halfway = f64::midpoint(1.0, expected);
        let moved = seen && if 1.0 < grown { halfway <= ratio } else { ratio <= halfway };
        Trial {
            changed,
            shards: is.shards.len(),
            conns: is.conns,
            rate: step.rate,
            throughput: is.throughput,
            ratio,
            expected,
            moved,
            runs,
            step,
        }
    }
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
    /// By these trials, where so many cores could run a shard.
    pub(crate) fn new(trials: &[Trial], cores: usize) -> Scaling {
        if cores < 2 {
            return Scaling::Unproven;
        }
        let counted = |changed| matches!(changed, Changed::Nothing | Changed::Scaled);
        let mut all: Vec<(usize, f64)> = trials
            .iter()
            .filter(|trial| counted(trial.changed))
            .map(|trial| (trial.shards, trial.throughput))
            .collect();
        all.sort_by_key(|(shards, _)| *shards);
        match all.first() {
            Some((fewest, least)) if 1 < all.len() && 0.0 < *least => {
                let each = least / *fewest as f64;
                let of = |(shards, throughput): (usize, f64)| {
                    let efficiency = throughput / (each * shards as f64);
                    Scaled { shards, throughput, efficiency }
                };
                Scaling::Efficiency(all.iter().copied().map(of).collect())
            }
            _ => Scaling::NotTried,
        }
    }
}
