//! The arrival schedule, constant or Poisson: a pure function of plan and seed, never of a clock or
//! a completion.
//!
//! Constant arrivals: request k is due at `k·10⁹/rate`, in integers wide enough never to drift;
//! shard s of S takes k ≡ s (mod S). Poisson arrivals: time is cut into blocks of 1 ms; block b
//! seeds its own generator from (seed, b), draws its number of arrivals from Poisson(rate · 1 ms),
//! then for each an offset and an owner. Every shard replays the block and keeps what it owns, so
//! the union is the same set of arrivals for any number of shards, each shard's part is itself a
//! Poisson process, and any block can be computed without those before it.

use rand::distr::Distribution as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::Poisson;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::plan::Arrivals;
use crate::sys::units::{Rate, SECOND_NS};

/// Length of a block of Poisson arrivals, ns.
const BLOCK_NS: u64 = 1_000_000;

/// The arrivals that one shard owns, in order, as ns since the epoch of the run.
#[derive(Clone, Debug)]
pub struct Schedule {
    source: Process,
    until_ns: u64,
    rate: Rate,
    shard: u64,
    shards: u64,
}

#[derive(Clone, Debug)]
enum Process {
    Constant { rate_micro: u128, next: u64 },
    Poisson { seed: u64, count: Poisson<f64>, block: u64, due_ns: Vec<u64>, at: usize },
}

impl Schedule {
    /// The arrivals before `until_ns` that shard `shard` of `shards` owns. All memory is allocated
    /// here.
    pub fn new(
        rate: Rate,
        arrivals: Arrivals,
        seed: u64,
        until_ns: u64,
        shard: usize,
        shards: usize,
    ) -> Schedule {
        assert!(shard < shards, "shards are numbered from 0");
        let source = match arrivals {
            Arrivals::Constant => Process::Constant {
                rate_micro: u128::from(rate.micro_per_second()),
                next: shard as u64,
            },
            Arrivals::Poisson => {
                let mean = rate.per_second() * BLOCK_NS as f64 / 1e9;
                Process::Poisson {
                    seed,
                    count: Poisson::new(mean).expect("a rate is finite and above zero"),
                    block: 0,
                    due_ns: Vec::with_capacity(block_capacity(mean)),
                    at: 0,
                }
            }
        };
        Schedule { source, until_ns, rate, shard: shard as u64, shards: shards as u64 }
    }

    /// How many arrivals this shard owns between the two moments on average, from its share of the
    /// rate.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and a rate is above zero"
    )]
    pub fn expected_between(&self, from_ns: u64, to_ns: u64) -> u64 {
        let seconds = to_ns.saturating_sub(from_ns) as f64 / SECOND_NS as f64;
        (self.rate.per_second() * seconds / self.shards as f64).round() as u64
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

impl Iterator for Schedule {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        match &mut self.source {
            Process::Constant { rate_micro, next } => {
                let due_ns = constant_due_ns(*next, *rate_micro);
                if self.until_ns <= due_ns {
                    return None;
                }
                *next += self.shards;
                Some(due_ns)
            }
            Process::Poisson { seed, count, block, due_ns, at } => {
                while due_ns.len() <= *at {
                    if self.until_ns <= *block * BLOCK_NS {
                        return None;
                    }
                    fill_block(due_ns, *seed, *block, count, self.shard, self.shards);
                    *block += 1;
                    *at = 0;
                }
                let due = due_ns[*at];
                *at += 1;
                // Blocks are whole; the last may reach beyond the end, and what is left of it is
                // beyond as well.
                (due < self.until_ns).then_some(due)
            }
        }
    }
}

/// Due time of arrival `k`, ns: `k·10⁹/rate` rounded down. 128 bits hold any `k` of a week at the
/// highest rate.
#[expect(clippy::cast_possible_truncation, reason = "k/rate is the time, at most some weeks in ns")]
fn constant_due_ns(k: u64, rate_micro: u128) -> u64 {
    (u128::from(k) * 1_000_000_000_000_000 / rate_micro) as u64
}

/// The due times of the block's arrivals that `shard` owns, sorted.
fn fill_block(
    due_ns: &mut Vec<u64>,
    seed: u64,
    block: u64,
    count: &Poisson<f64>,
    shard: u64,
    shards: u64,
) {
    due_ns.clear();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(mix(mix(seed).wrapping_add(block)));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count near its mean, at most 10^5"
    )]
    let arrivals = count.sample(&mut random) as u64;
    for _ in 0..arrivals {
        let offset_ns = random.random_range(0..BLOCK_NS);
        // The owner is drawn even when there is one shard: the draws must not depend on the number
        // of shards.
        let owner = random.random::<u64>();
        if owner % shards == shard {
            due_ns.push(block * BLOCK_NS + offset_ns);
        }
    }
    due_ns.sort_unstable();
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// Adds another set's digest.
    pub fn merge(&mut self, other: Digest) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.arrivals += other.arrivals;
        self.estimated += other.estimated;
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

    fn union(arrivals: Arrivals, seed: u64, shards: usize, until_ns: u64) -> (Vec<u64>, String) {
        let rate = "5k".parse().expect("a rate");
        let mut all = Vec::new();
        let mut whole = Digest::default();
        for shard in 0..shards {
            let mut digest = Digest::default();
            let mut last_ns = 0;
            for due_ns in Schedule::new(rate, arrivals, seed, until_ns, shard, shards) {
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
    fn the_union_is_the_same_for_any_number_of_shards() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let one = union(arrivals, 7, 1, 2_000_000_000);
            for shards in [2, 3, 8] {
                assert_eq!(
                    union(arrivals, 7, shards, 2_000_000_000),
                    one,
                    "{arrivals:?} on {shards}"
                );
            }
        }
    }

    #[test]
    fn another_seed_is_another_schedule() {
        let (one, digest) = union(Arrivals::Poisson, 7, 1, 1_000_000_000);
        let (other, other_digest) = union(Arrivals::Poisson, 8, 1, 1_000_000_000);
        assert_ne!(one, other);
        assert_ne!(digest, other_digest);
    }

    #[test]
    fn a_seed_means_the_same_arrivals_in_every_version() {
        let (arrivals, digest) = union(Arrivals::Poisson, 1, 1, 10_000_000);
        assert_eq!(arrivals[..4], GOLDEN_ARRIVALS);
        assert_eq!(digest, GOLDEN_DIGEST);
    }
    /// What this program computed when the schedule was defined; a change means that old seeds mean
    /// other load.
    const GOLDEN_ARRIVALS: [u64; 4] = [183_460, 348_348, 1_120_869, 1_255_721];
    const GOLDEN_DIGEST: &str = "55e5d87984e62f2a665b9d1249795e9b";

    #[test]
    fn constant_arrivals_never_drift() {
        let rate: Rate = "333.333333".parse().expect("a rate");
        let micro = u128::from(rate.micro_per_second());
        // As many requests as the rate has millionths take 10⁶ s, longer than any run, and the due
        // time is exact.
        assert_eq!(constant_due_ns(rate.micro_per_second(), micro), 1_000_000 * 1_000_000_000);
        let (all, _) = union(Arrivals::Constant, 1, 1, 1_000_000_000);
        assert_eq!(all.len(), 5_000);
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] == 200_000));
    }

    #[test]
    fn a_block_needs_none_before_it() {
        let rate: Rate = "20k".parse().expect("a rate");
        let all: Vec<u64> =
            Schedule::new(rate, Arrivals::Poisson, 3, 50 * BLOCK_NS, 0, 1).collect();
        let count = Poisson::new(20.0).expect("a mean");
        let mut block = Vec::new();
        fill_block(&mut block, 3, 42, &count, 0, 1);
        let within = |due_ns: &&u64| (42 * BLOCK_NS..43 * BLOCK_NS).contains(*due_ns);
        assert_eq!(all.iter().filter(within).copied().collect::<Vec<u64>>(), block);
    }
}
