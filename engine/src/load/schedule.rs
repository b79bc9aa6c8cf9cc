//! The arrival schedule, constant or Poisson: a pure function of plan and seed, never of a clock or
//! a completion.
//!
//! Constant arrivals: request k is due at `k·10⁹/rate`, in integers wide enough never to drift;
//! shard s of S takes k ≡ s (mod S). Of several agents, each takes its units of every `of` requests
//! in a row, and its shards take turns at these.
//!
//! Poisson arrivals: time is cut into blocks of 1 ms, and a tree divides a block's arrivals among
//! the shares. Their union is the same for any number of shards and any shares, each share is
//! itself a Poisson process, and any block can be computed without those before it.

use std::mem;
use std::ops::RangeInclusive;

use rand_distr::Poisson;
use serde::{Deserialize, Serialize};

use super::share::{Numbers, Share};
use super::tree::{self, BLOCK_NS};
use crate::plan::Arrivals;
use crate::sys::units::{Rate, SECOND_NS};

/// Version of the schedule: which arrivals a plan and its seed mean. A change to any arrival of any
/// plan needs a new one.
pub const VERSION: u32 = 2;

/// The most blocks that one refill draws: some µs for blocks without arrivals, of which a low rate
/// has many.
const REFILL_BLOCKS_MAX: usize = 256;

/// The arrivals that one share owns, in order, as ns since the epoch of the run.
#[derive(Clone, Debug)]
pub struct Schedule {
    source: Process,
    until_ns: u64,
    rate: Rate,
    share: Share,
}

#[derive(Clone, Debug)]
enum Process {
    Constant { rate_micro: u128, numbers: Numbers },
    Poisson(Blocks),
}

impl Schedule {
    /// The arrivals before `until_ns` that a share owns. All memory is allocated here.
    pub fn new(rate: Rate, arrivals: Arrivals, seed: u64, until_ns: u64, share: Share) -> Schedule {
        let source = match arrivals {
            Arrivals::Constant => Process::Constant {
                rate_micro: u128::from(rate.micro_per_second()),
                numbers: share.numbers(),
            },
            Arrivals::Poisson => Process::Poisson(Blocks::new(rate, seed, &share)),
        };
        Schedule { source, until_ns, rate, share }
    }

    /// Whether the next arrivals have still to be drawn: then [`Schedule::next`] would do it.
    pub fn wants_refill(&self) -> bool {
        match &self.source {
            Process::Constant { .. } => false,
            Process::Poisson(blocks) => blocks.want_refill(self.until_ns),
        }
    }

    /// Draws the next arrivals ahead, so that [`Schedule::next`] only reads them. It gives the same
    /// arrivals without; a very low rate takes several calls.
    pub fn refill(&mut self) {
        let Process::Poisson(blocks) = &mut self.source else { return };
        for _ in 0..REFILL_BLOCKS_MAX {
            if !blocks.want_refill(self.until_ns) {
                return;
            }
            blocks.draw();
        }
    }

    /// How many arrivals this share owns between the two moments on average, from its part of the
    /// rate.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and a rate is above zero"
    )]
    pub fn expected_between(&self, from_ns: u64, to_ns: u64) -> u64 {
        let seconds = to_ns.saturating_sub(from_ns) as f64 / SECOND_NS as f64;
        (self.rate.per_second() * seconds * self.share.fraction()).round() as u64
    }
}

/// When an arrival is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// When, ns since the epoch.
    pub(super) due_ns: u64,
    /// Whether the next one is due in the same ns.
    pub(super) with_next: bool,
}

impl Schedule {
    /// When arrival `number` of the whole from `from_ns` on is due, counted from 1; `None` if that
    /// is after the end. The blocks before its own are counted without being drawn.
    pub(super) fn nth_from(mut self, from_ns: u64, number: u64) -> Option<Due> {
        assert!(self.share == Share::whole(), "arrivals are numbered in the whole");
        let until_ns = self.until_ns;
        match &mut self.source {
            Process::Constant { rate_micro, .. } => {
                let first = (u128::from(from_ns) * *rate_micro).div_ceil(NS_TIMES_MICRO);
                let nth = u64::try_from(first).ok()?.checked_add(number - 1)?;
                let due_ns = constant_due_ns(nth, *rate_micro);
                let with_next = constant_due_ns(nth + 1, *rate_micro) == due_ns;
                (due_ns < until_ns).then_some(Due { due_ns, with_next })
            }
            Process::Poisson(blocks) => {
                let before = blocks.skip_to(from_ns, number, until_ns);
                let due_ns = self.nth(usize::try_from(before).ok()?)?;
                Some(Due { due_ns, with_next: self.next() == Some(due_ns) })
            }
        }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        match &mut self.source {
            Process::Constant { rate_micro, numbers } => {
                let due_ns = constant_due_ns(numbers.peek(), *rate_micro);
                if self.until_ns <= due_ns {
                    return None;
                }
                numbers.advance();
                Some(due_ns)
            }
            Process::Poisson(blocks) => blocks.next(self.until_ns),
        }
    }
}

/// Due time of arrival `k`, ns: `k·10⁹/rate` rounded down; `u64::MAX` beyond 584 years. 128 bits
/// hold the product for any `k`.
fn constant_due_ns(k: u64, rate_micro: u128) -> u64 {
    u64::try_from(u128::from(k) * NS_TIMES_MICRO / rate_micro).unwrap_or(u64::MAX)
}

/// Nanoseconds of a second, times the millionths that a rate is counted in.
const NS_TIMES_MICRO: u128 = 1_000_000_000_000_000;

/// A share's Poisson arrivals, block by block.
#[derive(Clone, Debug)]
struct Blocks {
    seed: u64,
    coordinates: RangeInclusive<u64>,
    /// How many arrivals a block has. A plan has one rate; for the tree, each block may have its
    /// own.
    count: Poisson<f64>,
    /// Number of the first block that hasn't been drawn.
    undrawn: u64,
    /// The block that is being read, and how far.
    current: Block,
    at: usize,
    /// The next block with arrivals; without any while it has still to be drawn.
    ready: Block,
}

/// The arrivals of a block, in order.
#[derive(Clone, Debug)]
struct Block {
    start_ns: u64,
    offsets_ns: Vec<u32>,
}

impl Blocks {
    fn new(rate: Rate, seed: u64, share: &Share) -> Blocks {
        let mean = rate.per_second() * BLOCK_NS as f64 / 1e9;
        let capacity = block_capacity(mean * share.fraction());
        let empty = || Block { start_ns: 0, offsets_ns: Vec::with_capacity(capacity) };
        Blocks {
            seed,
            coordinates: share.coordinates(),
            count: Poisson::new(mean).expect("a rate is finite and above zero"),
            undrawn: 0,
            current: empty(),
            at: 0,
            ready: empty(),
        }
    }

    #[inline]
    fn next(&mut self, until_ns: u64) -> Option<u64> {
        if self.at == self.current.offsets_ns.len() && !self.turn(until_ns) {
            return None;
        }
        let due_ns = self.current.start_ns + u64::from(self.current.offsets_ns[self.at]);
        self.at += 1;
        // Blocks are whole; the last may reach beyond the end, and what is left of it is beyond as
        // well.
        (due_ns < until_ns).then_some(due_ns)
    }

    /// Goes on to the next block with arrivals; returns whether there is one.
    fn turn(&mut self, until_ns: u64) -> bool {
        while self.want_refill(until_ns) {
            self.draw();
        }
        mem::swap(&mut self.current, &mut self.ready);
        self.ready.offsets_ns.clear();
        self.at = 0;
        !self.current.offsets_ns.is_empty()
    }

    fn want_refill(&self, until_ns: u64) -> bool {
        self.ready.offsets_ns.is_empty() && self.undrawn * BLOCK_NS < until_ns
    }

    /// The key of a block.
    fn key(&self, block: u64) -> u64 {
        mix(mix(self.seed).wrapping_add(block))
    }

    /// Goes on to the block that has arrival `number` of the whole from `from_ns` on, or to the
    /// end; returns how many the block has before it.
    fn skip_to(&mut self, from_ns: u64, number: u64, until_ns: u64) -> u64 {
        self.undrawn = from_ns / BLOCK_NS;
        self.draw();
        let early = |offset_ns: &&u32| self.ready.start_ns + u64::from(**offset_ns) < from_ns;
        let mut before = self.ready.offsets_ns.iter().filter(early).count() as u64 + number - 1;
        self.ready.offsets_ns.clear();
        self.undrawn -= 1;
        while self.undrawn * BLOCK_NS < until_ns {
            let arrivals = tree::arrivals(self.key(self.undrawn), &self.count);
            if before < arrivals {
                break;
            }
            before -= arrivals;
            self.undrawn += 1;
        }
        before
    }

    /// Draws the next block.
    fn draw(&mut self) {
        let key = self.key(self.undrawn);
        let offsets_ns = &mut self.ready.offsets_ns;
        tree::draw(offsets_ns, key, &self.count, &self.coordinates);
        offsets_ns.sort_unstable();
        self.ready.start_ns = self.undrawn * BLOCK_NS;
        self.undrawn += 1;
    }
}

/// Arrivals that a block's memory holds: twelve standard deviations above the mean, which no block
/// of any run exceeds (the probability is below 10⁻³⁰); a block that did would only make the vector
/// grow.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the mean is at most 10^5"
)]
fn block_capacity(mean: f64) -> usize {
    (mean + 12.0 * mean.sqrt()) as usize + 64
}

/// A bijection of 64 bits that spreads every input bit over all output bits (the finaliser of
/// SplitMix64; Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// An order-independent digest of a set of arrivals: the shards' digests add up to that of the
/// whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    sum: u128,
    arrivals: u64,
    /// Further arrivals, of which only the number is known.
    estimated: u64,
}

impl Digest {
    /// Adds one arrival.
    #[inline]
    pub fn add(&mut self, intended_ns: u64) {
        let low = mix(intended_ns);
        let high = mix(low ^ 0x5851_f42d_4c95_7f2d);
        self.sum = self.sum.wrapping_add(u128::from(high) << 64 | u128::from(low));
        self.arrivals += 1;
    }

    /// Adds another set's digest. No run has so many arrivals that their number is held at its
    /// highest, but a document may say so.
    pub fn merge(&mut self, other: Digest) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.arrivals = self.arrivals.saturating_add(other.arrivals);
        self.estimated = self.estimated.saturating_add(other.estimated);
    }

    /// Adds arrivals of which only the number is known; the digest no longer covers the whole set.
    pub fn add_estimated(&mut self, arrivals: u64) {
        self.estimated += arrivals;
    }

    /// How many arrivals the digest leaves out because only their number is known.
    pub fn estimated(&self) -> u64 {
        self.estimated
    }

    /// How many arrivals the set has.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// The digest as a number.
    pub fn value(&self) -> u128 {
        self.sum ^ u128::from(self.arrivals)
    }

    /// The digest with this value and this many arrivals.
    pub fn from_value(value: u128, arrivals: u64) -> Digest {
        Digest { sum: value ^ u128::from(arrivals), arrivals, estimated: 0 }
    }

    /// The digest as text: 32 hexadecimal digits.
    pub fn hex(&self) -> String {
        format!("{:032x}", self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().expect("a rate")
    }

    fn poisson(text: &str, until_ns: u64, share: Share) -> Schedule {
        Schedule::new(rate(text), Arrivals::Poisson, 7, until_ns, share)
    }

    fn equal(shards: usize) -> Vec<Share> {
        (0..shards).map(|shard| Share::equal(shard, shards)).collect()
    }

    /// Neighbouring shares with these borders, the last of which is the number of units.
    fn unequal(borders: &[u32]) -> Vec<Share> {
        let of = borders[borders.len() - 1];
        let share = |pair: &[u32]| Share::units(pair[0]..pair[1], of);
        borders.windows(2).map(share).collect()
    }

    /// The arrivals of all shares, in order, and their digest.
    fn union(
        arrivals: Arrivals,
        text: &str,
        seed: u64,
        until_ns: u64,
        shares: &[Share],
    ) -> (Vec<u64>, String) {
        let mut all = Vec::new();
        let mut whole = Digest::default();
        for share in shares {
            let mut digest = Digest::default();
            let mut last_ns = 0;
            for due_ns in Schedule::new(rate(text), arrivals, seed, until_ns, share.clone()) {
                assert!(last_ns <= due_ns && due_ns < until_ns, "in order and before the end");
                last_ns = due_ns;
                digest.add(due_ns);
                all.push(due_ns);
            }
            whole.merge(digest);
        }
        all.sort_unstable();
        assert_eq!(whole.arrivals(), all.len() as u64);
        (all, whole.hex())
    }

    #[test]
    fn the_union_is_the_same_for_any_shares() {
        // Blocks of 0.2, 5, 2,000 and 64,000 arrivals on average.
        for (text, until_ns) in
            [("200", 2 * SECOND_NS), ("5k", 2 * SECOND_NS), ("2M", 20_000_000), ("64M", 2_500_000)]
        {
            for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
                let one = union(arrivals, text, 7, until_ns, &equal(1));
                assert!(200 < one.0.len());
                for shards in [2, 3, 7, 64, 256] {
                    let found = union(arrivals, text, 7, until_ns, &equal(shards));
                    assert!(found == one, "{arrivals:?}, {text}/s on {shards}");
                }
                for borders in [&[0, 1, 8][..], &[0, 333, 334, 998, 1_000], &[0, 1, u32::MAX]] {
                    let found = union(arrivals, text, 7, until_ns, &unequal(borders));
                    assert!(found == one, "{arrivals:?}, {text}/s, borders {borders:?}");
                }
            }
        }
    }

    #[test]
    fn another_seed_is_another_schedule() {
        let of_seed = |seed| union(Arrivals::Poisson, "5k", seed, SECOND_NS, &equal(1));
        let ((one, digest), (other, other_digest)) = (of_seed(7), of_seed(8));
        assert_ne!(one, other);
        assert_ne!(digest, other_digest);
    }

    #[test]
    fn a_seed_means_the_same_arrivals_until_the_version_changes() {
        let of_rate = |text| union(Arrivals::Poisson, text, 1, 10_000_000, &equal(1));
        let (arrivals, digest) = of_rate("5k");
        assert_eq!((VERSION, &arrivals[..4]), (2, &GOLDEN_ARRIVALS[..]));
        assert_eq!(digest, GOLDEN_DIGEST);
        assert_eq!(of_rate("64M").1, GOLDEN_DIGEST_64M);
    }
    /// What this program computes by version 2. Whoever changes one of these needs a new version,
    /// since old seeds then mean other load.
    const GOLDEN_ARRIVALS: [u64; 4] = [22_125, 98_714, 115_307, 139_932];
    const GOLDEN_DIGEST: &str = "96bb3dddc8b94146a435b1f3d25588b6";
    const GOLDEN_DIGEST_64M: &str = "df0494120331bb83dca0a079322b44ea";

    #[test]
    fn constant_arrivals_never_drift() {
        let rate = rate("333.333333");
        let micro = u128::from(rate.micro_per_second());
        // As many requests as the rate has millionths take 10⁶ s, longer than any run, and the due
        // time is exact.
        assert_eq!(constant_due_ns(rate.micro_per_second(), micro), 1_000_000 * 1_000_000_000);
        let (all, _) = union(Arrivals::Constant, "5k", 1, SECOND_NS, &equal(1));
        assert_eq!(all.len(), 5_000);
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] == 200_000));
    }

    #[test]
    fn constant_arrivals_are_dealt_in_turn() {
        let numbers = |share| -> Vec<u64> {
            let schedule = Schedule::new(rate("1M"), Arrivals::Constant, 1, 12_000, share);
            schedule.map(|due_ns| due_ns / 1_000).collect()
        };
        assert_eq!(numbers(Share::equal(1, 3)), [1, 4, 7, 10]);
        assert_eq!(numbers(Share::units(1..3, 5)), [1, 2, 6, 7, 11]);
    }

    #[test]
    fn a_block_needs_none_before_it() {
        let share = Share::equal(1, 3);
        let all: Vec<u64> = poisson("60k", 50 * BLOCK_NS, share.clone()).collect();
        let within = |due_ns: &&u64| (42 * BLOCK_NS..43 * BLOCK_NS).contains(*due_ns);
        let expected: Vec<u64> = all.iter().filter(within).copied().collect();
        let mut blocks = Blocks::new(rate("60k"), 7, &share);
        blocks.undrawn = 42;
        let alone: Vec<u64> = std::iter::from_fn(|| blocks.next(43 * BLOCK_NS)).collect();
        assert_eq!(alone, expected);
        assert!(10 < alone.len(), "{alone:?}");
    }

    #[test]
    fn arrivals_drawn_ahead_are_the_same_and_only_read() {
        // Most blocks of the lowest rate are empty; in between, some gaps are longer than a refill.
        for (text, until_ns) in [("20", 60 * SECOND_NS), ("5k", SECOND_NS), ("2M", 20 * BLOCK_NS)] {
            let expected: Vec<u64> = poisson(text, until_ns, Share::equal(1, 4)).collect();
            let mut ahead = poisson(text, until_ns, Share::equal(1, 4));
            let mut found = Vec::new();
            loop {
                while ahead.wants_refill() {
                    ahead.refill();
                }
                let undrawn = undrawn(&ahead);
                let Some(due_ns) = ahead.next() else { break };
                assert_eq!(undrawn, self::undrawn(&ahead), "nothing is drawn on the way");
                found.push(due_ns);
            }
            assert_eq!(found, expected, "{text}/s");
        }
        let mut constant = Schedule::new(rate("5k"), Arrivals::Constant, 7, 1, Share::equal(0, 1));
        assert!(!constant.wants_refill());
        constant.refill();
        assert_eq!(constant.collect::<Vec<u64>>(), [0]);
    }

    fn undrawn(schedule: &Schedule) -> u64 {
        match &schedule.source {
            Process::Poisson(blocks) => blocks.undrawn,
            Process::Constant { .. } => panic!("it draws nothing"),
        }
    }

    #[test]
    fn memory_never_grows() {
        for (text, of) in [("1k", 1), ("1k", 256), ("2M", 1), ("2M", 64), ("64M", 256)] {
            let mut schedule = poisson(text, 1_000 * BLOCK_NS, Share::equal(0, of));
            let capacities = |schedule: &Schedule| match &schedule.source {
                Process::Poisson(Blocks { current, ready, .. }) => {
                    let (one, other) = (current.offsets_ns.capacity(), ready.offsets_ns.capacity());
                    (one.min(other), one.max(other))
                }
                Process::Constant { .. } => panic!("it has no memory"),
            };
            let before = capacities(&schedule);
            assert!(0 < schedule.by_ref().count());
            assert_eq!(capacities(&schedule), before, "{text}/s, one of {of}");
        }
    }
}
