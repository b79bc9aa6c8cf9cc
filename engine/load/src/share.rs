//! The part of the load that one shard offers: of a schedule's arrivals, and of the connections.

use std::ops::{Range, RangeInclusive};

use plan::{Model, Plan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A shard's part of the whole load. The whole is cut into equal units; an agent owns some of them,
/// and divides them equally among its shards. Agents that together hold each unit once offer, with
/// all their shards, exactly the whole.
///
/// Only an agent's share can be serialized; how it is divided among shards is the agent's own
/// affair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Units", into = "Units")]
pub struct Share {
    units: Range<u32>,
    of: u32,
    shard: u32,
    shards: u32,
}

/// An agent's share as serialized, or as read before it is checked.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Units {
    units: Range<u32>,
    of: u32,
}

/// Units of a share that don't lie within the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("units {first} to {end} of {of} aren't a part of the whole")]
struct NotAPart {
    first: u32,
    end: u32,
    of: u32,
}

impl From<Share> for Units {
    fn from(share: Share) -> Units {
        assert!(share.shards == 1, "an agent divides its share itself");
        Units { units: share.units, of: share.of }
    }
}

impl TryFrom<Units> for Share {
    type Error = NotAPart;

    fn try_from(Units { units, of }: Units) -> Result<Share, NotAPart> {
        if units.start < units.end && units.end <= of {
            return Ok(Share::units(units, of));
        }
        Err(NotAPart { first: units.start, end: units.end, of })
    }
}

impl Share {
    /// The whole load.
    pub fn whole() -> Share {
        Share::units(0..1, 1)
    }

    /// These of `of` units.
    pub fn units(units: Range<u32>, of: u32) -> Share {
        assert!(units.start < units.end && units.end <= of, "a share has units of the whole");
        Share { units, of, shard: 0, shards: 1 }
    }

    /// The share of shard `shard` of `shards` when there are no other agents: numbered item k goes
    /// to shard k mod S.
    pub fn equal(shard: usize, shards: usize) -> Share {
        Share::whole().of_shard(shard, shards)
    }

    /// The part of shard `shard` out of `shards` that divide this agent's share.
    pub fn of_shard(&self, shard: usize, shards: usize) -> Share {
        assert!(self.shards == 1 && shard < shards, "an agent divides its share once");
        let number = |number: usize| u32::try_from(number).expect("shards are numbered in 32 bits");
        Share { shard: number(shard), shards: number(shards), ..self.clone() }
    }

    /// Its units.
    pub fn range(&self) -> Range<u32> {
        self.units.clone()
    }

    /// The number of units in the whole.
    pub fn of(&self) -> u32 {
        self.of
    }

    /// Its fraction of the whole.
    pub fn fraction(&self) -> f64 {
        self.len() as f64 / f64::from(self.of) / f64::from(self.shards)
    }

    /// True if the two have a unit in common.
    pub fn overlaps(&self, other: &Share) -> bool {
        let before = |one: u32, of: u32, two: u32, other_of: u32| {
            u64::from(one) * u64::from(other_of) < u64::from(two) * u64::from(of)
        };
        before(self.units.start, self.of, other.units.end, other.of)
            && before(other.units.start, other.of, self.units.end, self.of)
    }

    /// Its part of an amount, rounded up.
    pub(super) fn part_of(&self, whole: u64) -> u64 {
        let parts = u128::from(self.of) * u128::from(self.shards);
        let part = (u128::from(whole) * u128::from(self.len())).div_ceil(parts);
        u64::try_from(part).expect("a part is at most the whole")
    }

    /// The most that this agent's share has of so many items in a row, in millionths, when items
    /// are dealt in turn: all of them if it has as many units.
    pub(super) fn most_of(&self, items_micro: u64) -> u64 {
        assert!(self.shards == 1, "an agent's shards take turns at its items");
        let micro = |units: u64| u128::from(units) * 1_000_000;
        let (len, of) = (micro(self.len()), micro(self.of.into()));
        let items = u128::from(items_micro);
        let most = items / of * len + (items % of).min(len);
        u64::try_from(most).expect("at most all items")
    }

    /// The number of this share's item `n` when items are dealt in turn: an agent takes its units
    /// out of every `of` items, and its shards take turns at these.
    pub(crate) fn nth(&self, n: u64) -> u64 {
        let of_agent = n * u64::from(self.shards) + u64::from(self.shard);
        let (round, unit) = (of_agent / self.len(), of_agent % self.len());
        round * u64::from(self.of) + u64::from(self.units.start) + unit
    }

    /// The numbers of all its items, in order, as in `Share::nth`.
    pub(super) fn numbers(&self) -> Numbers {
        let (len, of, shards) = (self.len(), u64::from(self.of), u64::from(self.shards));
        Numbers {
            next: self.nth(0),
            unit: u64::from(self.shard) % len,
            step: shards / len * of + shards % len,
            units: shards % len,
            len,
            others: of - len,
        }
    }

    /// How many of the first `items` it has when items are dealt in turn, as in `Share::nth`.
    pub fn count(&self, items: usize) -> usize {
        let wide = |number: u32| usize::try_from(number).expect("an address has 64 bits");
        let (start, len, of) =
            (wide(self.units.start), wide(self.units.end - self.units.start), wide(self.of));
        let of_agent = items / of * len + (items % of).saturating_sub(start).min(len);
        let (shard, shards) = (wide(self.shard), wide(self.shards));
        of_agent / shards + usize::from(shard < of_agent % shards)
    }

    /// The same for a number that may exceed the address range.
    pub fn count_of(&self, items: u64) -> u64 {
        let items = usize::try_from(items).expect("an address has 64 bits");
        self.count(items) as u64
    }

    /// The numbers of its users out of `total`, in order. Agents take turns in proportion to their
    /// units, and an agent's shards at its users. So an agent has its share of the first users too,
    /// give or take three, however many these are.
    pub fn users(&self, total: usize) -> impl Iterator<Item = u64> + use<> {
        let (shard, shards) = (self.shard as usize, self.shards as usize);
        (0..total as u64).filter(self.is_agents()).skip(shard).step_by(shards)
    }

    /// How many [`Share::users`] are, without a look at each: a run asks for each of its shards.
    fn users_count(&self, total: usize) -> usize {
        let (total, of) = (total as u64, u64::from(self.of));
        let of_agent =
            total / of * self.len() + (0..total % of).filter(self.is_agents()).count() as u64;
        let (shard, shards) = (u64::from(self.shard), u64::from(self.shards));
        let users = of_agent / shards + u64::from(shard < of_agent % shards);
        usize::try_from(users).expect("at most all users")
    }

    /// Whether a user is the agent's, by its number.
    fn is_agents(&self) -> impl Fn(&u64) -> bool + use<> {
        let (units, of, stride) = (self.units.clone(), u64::from(self.of), stride(self.of));
        move |user| {
            let unit = user % of * stride % of;
            (u64::from(units.start)..u64::from(units.end)).contains(&unit)
        }
    }

    fn len(&self) -> u64 {
        (self.units.end - self.units.start).into()
    }

    /// Its owner coordinates, in units of 2⁻⁶⁴. Each border is computed as one fraction, so
    /// neighbours meet exactly, whether shards or agents.
    pub(super) fn coordinates(&self) -> RangeInclusive<u64> {
        let parts = u128::from(self.of) * u128::from(self.shards);
        let before = |shard: u32| {
            let of_agent = u128::from(self.units.start) * u128::from(self.shards);
            of_agent + u128::from(self.len()) * u128::from(shard)
        };
        let border = |shard: u32| (before(shard) << 64) / parts;
        let coordinate = |border| u64::try_from(border).expect("a coordinate is below 2^64");
        coordinate(border(self.shard))..=coordinate(border(self.shard + 1) - 1)
    }
}

/// The number of a completed plan's connections that the holder of this share opens: in a closed
/// model one for each of its users.
pub fn connections(plan: &Plan, share: &Share) -> usize {
    match plan.model() {
        Model::Open => share.count(plan.conns()),
        Model::Closed => share.users_count(plan.conns()),
    }
}

/// A step through `of` units that visits each once, and divides those visited first as evenly as it
/// can: about the golden ratio of them, without a large quotient in its continued fraction.
fn stride(of: u32) -> u64 {
    let golden = u64::from(of) * 618_034 / 1_000_000;
    let near = (golden.max(1)..).map(|step| step % u64::from(of)).take(200);
    let by_quotient = near.filter_map(|step| Some((largest_quotient(of.into(), step)?, step)));
    by_quotient.min_by_key(|(quotient, _)| *quotient).map_or(1, |(_, step)| step)
}

/// The largest quotient of the continued fraction of `step / of`; `None` if the two have a divisor
/// in common.
fn largest_quotient(of: u64, step: u64) -> Option<u64> {
    let (mut one, mut other, mut largest) = (of, step, 0);
    while other != 0 {
        largest = largest.max(one / other);
        (one, other) = (other, one % other);
    }
    (one == 1).then_some(largest)
}

/// The fraction of the whole that these shares cover, exactly 1 for all of it.
pub fn together<'a>(shares: impl Iterator<Item = &'a Share> + Clone) -> f64 {
    let of = shares.clone().next().map_or(1, |share| share.of);
    if shares.clone().all(|share| share.of == of && share.shards == 1) {
        let units: u64 = shares.map(Share::len).sum();
        return units as f64 / f64::from(of);
    }
    shares.map(Share::fraction).sum()
}

/// The numbers of a share's items, each computed from the previous one without a division.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    next: u64,
    /// The next item's unit among the agent's.
    unit: u64,
    /// The step from one item to the next while it stays within the agent's units.
    step: u64,
    /// The number of units by which the next item advances.
    units: u64,
    len: u64,
    /// The number of other agents' units between two rounds.
    others: u64,
}

impl Numbers {
    /// The next number.
    #[inline]
    pub(super) fn peek(&self) -> u64 {
        self.next
    }

    /// The increments of the number after the next one: within the agent's units, and across other
    /// agents' units.
    pub(super) fn steps(&self) -> [u64; 2] {
        [self.step, self.step + self.others]
    }

    /// Moves to the next number; returns true if other agents' units lie in between.
    #[inline]
    pub(super) fn advance(&mut self) -> bool {
        self.next += self.step;
        self.unit += self.units;
        let others = self.len <= self.unit;
        if others {
            self.unit -= self.len;
            self.next += self.others;
        }
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares of agents with these weights and numbers of shards.
    fn agents(weights: &[(u32, usize)]) -> Vec<Share> {
        let of = weights.iter().map(|(weight, _)| weight).sum();
        let mut start = 0;
        let of_agent = |(weight, shards): &(u32, usize)| {
            let agent = Share::units(start..start + weight, of);
            start += weight;
            let shards = *shards;
            (0..shards).map(move |shard| agent.of_shard(shard, shards)).collect::<Vec<_>>()
        };
        weights.iter().flat_map(of_agent).collect()
    }

    /// Agents: the weight of each, and its number of shards.
    const WEIGHTS: [&[(u32, usize)]; 5] = [
        &[(1, 1)],
        &[(1, 3)],
        &[(1, 2), (1, 1), (1, 4)],
        &[(3, 2), (5, 1), (2, 7)],
        &[(1, 1), (999, 64)],
    ];

    #[test]
    fn neighbours_meet_exactly() {
        for of in [1, 2, 3, 7, 64, 256, 1_000, u32::MAX] {
            let last = Share::units(of - 1..of, of).coordinates();
            assert_eq!(*last.end(), u64::MAX, "{of}");
            assert_eq!(*Share::units(0..1, of).coordinates().start(), 0, "{of}");
            for unit in 1..of.min(1_000) {
                let (one, next) = (Share::units(unit - 1..unit, of), Share::units(unit..of, of));
                assert_eq!(one.coordinates().end() + 1, *next.coordinates().start(), "{of}");
            }
        }
    }

    #[test]
    fn shares_of_the_same_part_are_the_same() {
        let (third, six_units) = (Share::equal(1, 3), Share::units(6..12, 18));
        assert_eq!(third.coordinates(), six_units.coordinates());
        assert_eq!(third.fraction(), six_units.fraction());
    }

    #[test]
    fn whatever_the_weights_each_item_and_each_coordinate_has_one_owner() {
        for weights in WEIGHTS.into_iter().chain([&[(u32::MAX - 1, 3), (1, 2)][..]]) {
            let shares = agents(weights);
            for items in [0, 1, 7, 100, 1_003] {
                let mut owned: Vec<u64> = Vec::new();
                for share in &shares {
                    let count = share.count(items) as u64;
                    owned.extend((0..count).map(|n| share.nth(n)));
                    let mut numbers = share.numbers();
                    for n in 0..=count {
                        assert_eq!(numbers.peek(), share.nth(n), "{weights:?}");
                        let steps = numbers.steps();
                        let others = numbers.advance();
                        let step = numbers.peek() - share.nth(n);
                        assert_eq!(step, steps[usize::from(others)], "{weights:?}");
                    }
                    assert!(items as u64 <= share.nth(count), "the next isn't among them");
                }
                owned.sort_unstable();
                let all: Vec<u64> = (0..items as u64).collect();
                assert_eq!(owned, all, "{weights:?}");
            }
            let mut next = 0_u128;
            for share in &shares {
                let coordinates = share.coordinates();
                assert_eq!(u128::from(*coordinates.start()), next, "{weights:?}");
                next = u128::from(*coordinates.end()) + 1;
            }
            assert_eq!(next, 1 << 64, "{weights:?}");
            let whole: f64 = shares.iter().map(Share::fraction).sum();
            assert!((whole - 1.0).abs() < 1e-12, "{weights:?}");
        }
    }

    #[test]
    fn each_user_has_one_owner_and_the_first_ones_are_divided_like_all() {
        for weights in WEIGHTS.into_iter().chain([&[(500, 2), (300, 1), (200, 3)][..]]) {
            let shares = agents(weights);
            for total in [0, 1, 7, 100, 1_003] {
                let of = |share: &Share| share.users(total).collect::<Vec<u64>>();
                let owned: Vec<Vec<u64>> = shares.iter().map(of).collect();
                let counted = shares.iter().map(|share| share.users_count(total));
                assert!(counted.eq(owned.iter().map(Vec::len)), "{weights:?}, {total}");
                let mut all = owned.concat();
                all.sort_unstable();
                assert_eq!(all, (0..total as u64).collect::<Vec<u64>>(), "{weights:?}");
                for (share, owned) in shares.iter().zip(&owned) {
                    assert!(owned.is_sorted(), "{weights:?}");
                    for first in 0..total as u64 {
                        let found = owned.iter().filter(|user| **user < first).count();
                        let off = found as f64 - share.fraction() * first as f64;
                        assert!(off.abs() <= 3.5, "{weights:?}: {found} of the first {first}");
                    }
                }
            }
        }
        // A local run's shards take turns, as at numbers.
        let shard = Share::equal(2, 5);
        let numbers: Vec<u64> = (0..20).map(|n| shard.nth(n)).collect();
        assert_eq!(shard.users(100).collect::<Vec<u64>>(), numbers);
    }

    #[test]
    fn shares_overlap_where_they_have_a_unit_in_common() {
        for (one, other, overlap) in [
            (Share::units(0..1, 2), Share::units(1..2, 2), false),
            (Share::units(0..2, 3), Share::units(1..3, 3), true),
            (Share::units(0..1, 2), Share::units(2..3, 4), false),
            (Share::units(0..1, 2), Share::units(1..2, 4), true),
            (Share::whole(), Share::units(6..7, 7), true),
        ] {
            assert_eq!((one.overlaps(&other), other.overlaps(&one)), (overlap, overlap), "{one:?}");
        }
    }

    #[test]
    fn parts_of_an_amount_are_rounded_up() {
        for (units, of, whole, part) in [
            (0..1, 1, 10, 10),
            (1..2, 3, 10, 4),
            (0..2, 3, 9, 6),
            (0..u32::MAX, u32::MAX, u64::MAX, u64::MAX),
            (4..5, 7, 0, 0),
        ] {
            assert_eq!(Share::units(units, of).part_of(whole), part, "of {whole}");
        }
    }

    #[test]
    fn the_most_in_a_row_depends_on_how_many_units_come_one_after_the_other() {
        for (units, of, items_micro, most) in [
            (0..1, 1, 300_500_000, 300_500_000),
            (0..1, 2, 600_000_000, 300_000_000),
            (1..2, 3, 100_000_000, 34_000_000),
            (0..300, 600, 600_000_000, 300_000_000),
            (0..300, 600, 900_000_000, 600_000_000),
            // Half of them, but all of a million in a row.
            (0..1_000_000, 2_000_000, 600_000_000, 600_000_000),
            (0..u32::MAX, u32::MAX, u64::MAX, u64::MAX),
        ] {
            assert_eq!(Share::units(units, of).most_of(items_micro), most, "of {items_micro}");
        }
    }

    #[test]
    fn a_share_is_read_only_if_it_is_a_part() {
        let share = Share::units(2..5, 7);
        let text = serde_json::to_string(&share).expect("text");
        assert_eq!(serde_json::from_str::<Share>(&text).expect("comes back"), share);
        for (first, end, of) in [(0, 0, 0), (1, 1, 2), (2, 1, 2), (0, 3, 2)] {
            let text = format!(r#"{{"units": {{"start": {first}, "end": {end}}}, "of": {of}}}"#);
            let error = serde_json::from_str::<Share>(&text).expect_err("not a part").to_string();
            let found = format!("units {first} to {end} of {of} aren't a part");
            assert!(error.starts_with(&found), "{error}");
        }
    }
}
