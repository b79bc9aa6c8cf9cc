//! Which scenarios had the connections while arrivals waited at the cap: with a shared cap, a
//! target that stalls on one route makes the requests of all others wait.

use crate::{Part, Report, StepPart};

/// The most scenarios that are named; many with a little each are no cause.
const NAMED_MAX: usize = 3;
/// The share of the connections that the named ones must have had.
const MOST: f64 = 0.5;

/// The scenarios that had most of the connections while arrivals waited at the cap.
#[derive(Clone, Debug, PartialEq)]
pub struct Holders<'a> {
    /// Their names, the one with the most first.
    pub names: Vec<&'a str>,
    /// Their share of the requests that those arrivals found in flight.
    pub share: f64,
    /// Their share of all requests of the window.
    pub of_requests: f64,
    /// The arrivals of other scenarios at the cap, which waited for them.
    pub others: u64,
}

/// A scenario, over all stages.
#[derive(Default)]
struct Scenario<'a> {
    name: &'a str,
    held: u64,
    capped: u64,
    intended: u64,
}

impl Report {
    /// The scenarios that had most of the connections while arrivals waited at the cap. `None` if
    /// no arrival did, if there is only one scenario, if no few of them had most, or if the
    /// connections waited mainly for the generator.
    pub fn holders(&self) -> Option<Holders<'_>> {
        let held = self.littles_law.held_by_generator();
        if held.is_some_and(|held| MOST < held) {
            return None;
        }
        holders(&self.whole)
    }
}

fn holders(part: &Part) -> Option<Holders<'_>> {
    let mut scenarios: Vec<Scenario<'_>> = Vec::new();
    for StepPart { name, held, counts, .. } in &part.parts {
        let known = scenarios.iter().position(|known| known.name == name);
        let at = known.unwrap_or_else(|| {
            scenarios.push(Scenario { name, ..Scenario::default() });
            scenarios.len() - 1
        });
        let known = &mut scenarios[at];
        known.held = known.held.saturating_add(*held);
        known.capped = known.capped.saturating_add(counts.capped);
        known.intended = known.intended.saturating_add(counts.intended);
    }
    scenarios.sort_by_key(|one| std::cmp::Reverse(one.held));
    let sum = |of: fn(&Scenario<'_>) -> u64, scenarios: &[Scenario<'_>]| {
        scenarios.iter().map(of).fold(0, u64::saturating_add)
    };
    let share = |of: fn(&Scenario<'_>) -> u64, named: &[Scenario<'_>]| {
        sum(of, named) as f64 / sum(of, &scenarios).max(1) as f64
    };
    let few = 1..=NAMED_MAX.min(scenarios.len().saturating_sub(1));
    let named = few.map(|few| &scenarios[..few]);
    let named = named.into_iter().find(|named| MOST <= share(|one| one.held, named))?;
    Some(Holders {
        names: named.iter().map(|one| one.name).collect(),
        share: share(|one| one.held, named),
        of_requests: share(|one| one.intended, named),
        others: sum(|one| one.capped, &scenarios[named.len()..]),
    })
}

impl Holders<'_> {
    /// Their names in a sentence.
    pub fn named(&self) -> String {
        match self.names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        }
    }
}
