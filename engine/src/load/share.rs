//! Which part of a schedule's arrivals a shard owns.

use std::ops::{Range, RangeInclusive};

/// A part of a schedule: some of the equal units into which the whole is cut. Shares that hold each
/// unit once have together the arrivals of the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    units: Range<u32>,
    of: u32,
}

impl Share {
    /// What shard `shard` of `shards` owns when all own as much: unit s of S.
    pub fn equal(shard: usize, shards: usize) -> Share {
        let number = |number: usize| u32::try_from(number).expect("shards are numbered in 32 bits");
        Share::units(number(shard)..number(shard + 1), number(shards))
    }

    /// These of `of` units.
    pub fn units(units: Range<u32>, of: u32) -> Share {
        assert!(units.start < units.end && units.end <= of, "a share has units of the whole");
        Share { units, of }
    }

    /// How much of the whole it is.
    pub fn fraction(&self) -> f64 {
        self.len() as f64 / f64::from(self.of)
    }

    /// Its first unit.
    pub(super) fn first(&self) -> u64 {
        self.units.start.into()
    }

    /// How many units it has.
    pub(super) fn len(&self) -> u64 {
        (self.units.end - self.units.start).into()
    }

    /// How many units the whole has.
    pub(super) fn of(&self) -> u64 {
        self.of.into()
    }

    /// Its owner coordinates, in units of 2⁻⁶⁴. A border is computed from its unit alone, so
    /// neighbours meet exactly.
    pub(super) fn coordinates(&self) -> RangeInclusive<u64> {
        let border = |unit: u32| (u128::from(unit) << 64) / u128::from(self.of);
        let coordinate = |border| u64::try_from(border).expect("a coordinate is below 2^64");
        coordinate(border(self.units.start))..=coordinate(border(self.units.end) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
