//! The cost of a request, stack by stack: a profile in figures that don't depend on the length of
//! the run or its number of requests. Two such profiles can be compared.

use std::collections::BTreeMap;
use std::io::{self, Write};

use engine::report::profile::Profile;

use crate::conditions::Conditions;
use crate::names::{Purpose, purpose};
use crate::stacks::{Stacks, by_function};

/// The processor time of each stack, in picoseconds per request, which is also microseconds per
/// million requests: fine enough that a stack seen once isn't rounded away.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    stacks: BTreeMap<String, u64>,
    conditions: Conditions,
}

/// Why a file isn't a comparable profile.
#[derive(Debug, thiserror::Error)]
pub enum NotAProfile {
    /// Its name has another ending.
    #[error("not a profile by its name; name a .folded or .pb.gz file of `run --flamegraph`")]
    Ending,
    /// It can't be read.
    #[error("can't be read ({0}); name a file written by `run --flamegraph`")]
    Unreadable(io::Error),
    /// Its figures aren't per request.
    #[error(
        "its run had no answers, so it has no cost per request; name one of a run with answers"
    )]
    WithoutRequests,
    /// It has other contents.
    #[error("{0}; name a file written by `run --flamegraph`")]
    Contents(String),
}

impl NotAProfile {
    /// A file that doesn't state its measurement.
    pub(crate) fn of_others() -> NotAProfile {
        NotAProfile::Contents("it doesn't say what its figures are".to_owned())
    }
}

impl Cost {
    /// The cost of sampled stacks, whose shares of the profile's time are those of their samples.
    /// If no request was answered it is the time itself, in microseconds.
    pub(crate) fn new(stacks: &Stacks, profile: &Profile, conditions: Conditions) -> Cost {
        let whole = match profile.cpu_us_per_request {
            Some(us) => us * 1e6,
            None => profile.sampling.cpu_s * 1e6,
        };
        let all = stacks.samples() as f64;
        let cost = |samples: u64| rounded(whole * samples as f64 / all);
        let stacks = stacks.iter().map(|(stack, samples)| (stack.to_owned(), cost(samples)));
        Cost { stacks: stacks.collect(), conditions }
    }

    /// No cost yet, under these conditions.
    pub(crate) fn none(conditions: Conditions) -> Cost {
        Cost { stacks: BTreeMap::new(), conditions }
    }

    /// The conditions of the measurement.
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// The cost in folded stacks.
    ///
    /// # Errors
    /// They have none.
    pub(crate) fn of_folded(text: &str) -> Result<Cost, NotAProfile> {
        let lines = text.lines().enumerate();
        let conditions = text.lines().find_map(Conditions::of_line);
        let mut cost = Cost::none(conditions.ok_or_else(NotAProfile::of_others)?);
        for (at, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let entry = line.rsplit_once(' ');
            let entry = entry.and_then(|(stack, cost)| Some((stack, cost.parse::<u64>().ok()?)));
            let Some((stack, ps)) = entry else {
                let problem = format!("line {} is not `stack;stack number`", at + 1);
                return Err(NotAProfile::Contents(problem));
            };
            cost.add(stack.to_owned(), ps);
        }
        Ok(cost)
    }

    /// Adds the cost of a stack, ps per request.
    pub(crate) fn add(&mut self, stack: String, ps: u64) {
        let cost = self.stacks.entry(stack).or_default();
        *cost = cost.saturating_add(ps);
    }

    /// All of it, ps per request.
    pub fn whole(&self) -> u64 {
        self.stacks.values().fold(0, |sum, ps| sum.saturating_add(*ps))
    }

    /// Each stack with its cost, ps per request.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.stacks.iter().map(|(stack, ps)| (stack.as_str(), *ps))
    }

    /// The own cost of each function, by its name and whether it is the kernel's, of the time spent
    /// on requests.
    pub(crate) fn own(&self) -> BTreeMap<(String, bool), u64> {
        by_function(self.iter().filter(|(stack, _)| purpose(stack) == Purpose::Requests))
    }

    /// The total cost for this purpose, ps per request.
    pub(crate) fn of(&self, part: Purpose) -> u64 {
        let stacks = self.iter().filter(|(stack, _)| purpose(stack) == part);
        stacks.fold(0, |sum, (_, ps)| sum.saturating_add(ps))
    }

    /// The cost of one sample, ps per request.
    pub(crate) fn of_one_sample(&self) -> f64 {
        self.whole() as f64 / self.conditions.samples.max(1) as f64
    }

    /// Writes folded stacks, for the tools that draw them.
    pub(crate) fn write_folded(&self, mut writer: impl Write) -> io::Result<()> {
        writeln!(writer, "{}", self.conditions.line())?;
        self.iter().try_for_each(|(stack, ps)| writeln!(writer, "{stack} {ps}"))
    }
}

/// A weight as the whole number of folded stacks.
#[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
fn rounded(weight: f64) -> u64 {
    weight.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::tests::conditions;
    use crate::recording::tests::recording;

    #[test]
    fn a_stack_costs_its_share_of_what_a_request_costs() {
        let recording = recording();
        // 2 s of processor time for 10,000 requests: 200 µs each, in ten samples.
        let profile = recording.profile(5_000.0);
        let cost = Cost::new(&recording.stacks, &profile, conditions(10));
        let costs: Vec<_> = cost.iter().collect();
        assert_eq!(
            costs,
            [
                ("truetail-shard;turn;enter;send_[k]", 120_000_000),
                ("truetail-shard;turn;parse_[i]", 80_000_000)
            ]
        );
        assert_eq!((cost.whole(), cost.of_one_sample()), (200_000_000, 20_000_000.0));
        // Without a request, it is the time itself.
        let nothing = Cost::new(&recording.stacks, &recording.profile(0.0), conditions(10));
        assert_eq!(nothing.whole(), 2_000_000);
    }
}
