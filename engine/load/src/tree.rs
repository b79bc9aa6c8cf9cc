//! Draws a share's Poisson arrivals of one block with a tree, so that a shard's cost grows with its
//! own arrivals and the path to them, not with the arrivals of others.
//!
//! Every arrival has an owner coordinate in [0, 1) and belongs to the share that holds it. A node
//! of the tree stands for the coordinates that begin with the same bits. The root has all of the
//! block's arrivals; a node with n arrivals gives Binomial(n, ½) to its left half. A node with few
//! arrivals is a leaf: it draws the offset of each and the rest of its coordinate. Whether a node
//! is a leaf depends only on its number of arrivals, and its random numbers come from a generator
//! seeded by schedule, block and node, so every share draws the same. A share descends only to
//! nodes that hold some of its coordinates; where its border cuts through a leaf, both neighbours
//! draw the whole leaf and each keeps its own arrivals.
//!
//! A coordinate thus has fair and independent bits, and is independent of the offset: each share is
//! a Poisson process with its part of the rate, and shares are independent. Dealing the arrivals of
//! one process in turn would give neither.
//!
//! An arrival's rank is the number of arrivals to its left: those of whole nodes, known without
//! drawing them, and those in its own leaf.

use std::ops::{Range, RangeInclusive};

use rand::{Rng as _, SeedableRng as _};
use rand_distr::{Binomial, Distribution as _, Poisson};
use rand_xoshiro::SplitMix64;

/// Length of a block, ns.
pub(super) const BLOCK_NS: u64 = 1_000_000;

/// The most arrivals in a leaf. A lower limit makes each arrival dearer, since a node costs more
/// than an arrival; a higher one makes borders dearer, since both neighbours draw the whole leaf.
const LEAF_MAX: u64 = 16;
/// The most fair bits to count; beyond, one draw from their distribution is faster.
const BITS_MAX: u64 = 1_024;
/// Depth of the smallest nodes, which are always leaves. Their numbers just fit into 64 bits.
const DEPTH_MAX: u32 = 63;
/// The root's number. The halves of node k are 2k and 2k + 1.
const ROOT: u64 = 1;
/// The number for drawing the block's number of arrivals; no node has it.
const BLOCK: u64 = 0;

/// An arrival of a block: its due time from the block's start, and its rank in the tree. Arrivals
/// sort by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Drawn(u64);

impl Drawn {
    /// Both are far below 2³².
    #[inline]
    pub(super) fn new(offset_ns: u64, rank: u64) -> Drawn {
        Drawn(offset_ns << 32 | rank)
    }

    /// When it is due, ns from the block's start.
    #[inline]
    pub(super) fn offset_ns(self) -> u64 {
        self.0 >> 32
    }

    /// How many arrivals of the block, of all shares, lie to its left in the tree.
    #[inline]
    pub(super) fn rank(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }
}

/// Draws the arrivals of the block with this key whose coordinates are in the share, and appends
/// them to `drawn` in no particular order. The block's number of arrivals has the distribution
/// `count`, which may differ from block to block. Returns that number, for all shares.
pub(super) fn draw(
    drawn: &mut Vec<Drawn>,
    key: u64,
    count: &Poisson<f64>,
    share: &RangeInclusive<u64>,
) -> u64 {
    let arrivals = arrivals(key, count);
    Tree { key, share, drawn }.descend(ROOT, 0..arrivals);
    arrivals
}

/// The number of arrivals, of all shares, in the block with this key.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count near its mean, at most 10^5"
)]
pub(super) fn arrivals(key: u64, count: &Poisson<f64>) -> u64 {
    count.sample(&mut generator(key, BLOCK)) as u64
}

/// The random generator of a node. The seed is mixed once more than the generator mixes its
/// numbers, since node numbers are consecutive.
fn generator(key: u64, node: u64) -> SplitMix64 {
    let mut seed = SplitMix64::seed_from_u64(key.wrapping_add(node));
    SplitMix64::seed_from_u64(seed.next_u64())
}

/// The tree of one block, as seen by one share.
struct Tree<'a> {
    key: u64,
    share: &'a RangeInclusive<u64>,
    drawn: &'a mut Vec<Drawn>,
}

impl Tree<'_> {
    /// Draws the share's part of a node whose arrivals have these ranks.
    fn descend(&mut self, node: u64, ranks: Range<u64>) {
        let depth = node.ilog2();
        let (first, last) = coordinates(node, depth);
        if ranks.is_empty() || last < *self.share.start() || *self.share.end() < first {
            return;
        }
        let arrivals = ranks.end - ranks.start;
        if arrivals <= LEAF_MAX || depth == DEPTH_MAX {
            return self.leaf(node, ranks);
        }
        let middle = ranks.start + half_of(arrivals, &mut generator(self.key, node));
        self.descend(2 * node, ranks.start..middle);
        self.descend(2 * node + 1, middle..ranks.end);
    }

    fn leaf(&mut self, node: u64, ranks: Range<u64>) {
        let depth = node.ilog2();
        let (first, last) = coordinates(node, depth);
        let whole = self.share.contains(&first) && self.share.contains(&last);
        let mut random = generator(self.key, node);
        for rank in ranks {
            let offset_ns = (u128::from(random.next_u64()) * u128::from(BLOCK_NS)) >> 64;
            let offset_ns = u64::try_from(offset_ns).expect("below a block's length");
            let coordinate = first | (random.next_u64() >> depth);
            if whole || self.share.contains(&coordinate) {
                self.drawn.push(Drawn::new(offset_ns, rank));
            }
        }
    }
}

/// The first and the last coordinate of a node: its number without the leading one, followed by
/// zeros or ones.
fn coordinates(node: u64, depth: u32) -> (u64, u64) {
    let first = (node << (DEPTH_MAX - depth)) << 1;
    (first, first | (u64::MAX >> depth))
}

/// Binomial(n, ½): how many of n fair bits are set.
fn half_of(n: u64, random: &mut SplitMix64) -> u64 {
    if BITS_MAX < n {
        return Binomial::new(n, 0.5).expect("a half is a probability").sample(random);
    }
    let mut set = 0;
    for _ in 0..n / 64 {
        set += random.next_u64().count_ones();
    }
    let rest = random.next_u64() & ((1 << (n % 64)) - 1);
    u64::from(set + rest.count_ones())
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{
        Binomial as Halves, ChiSquared, ContinuousCDF as _, DiscreteCDF as _,
    };

    use super::*;

    /// The share's part of a node.
    fn drawn(share: RangeInclusive<u64>, node: u64, arrivals: u64) -> Vec<Drawn> {
        let mut drawn = Vec::new();
        Tree { key: 11, share: &share, drawn: &mut drawn }.descend(node, 0..arrivals);
        drawn
    }

    #[test]
    fn a_node_gives_each_arrival_to_its_left_half_by_a_fair_coin() {
        const NODES: u64 = 20_000;
        for n in [1, 9, 63, 64, 65, 1_000, 1_100, 5_000, 64_000] {
            let (mut sum, mut squares) = (0.0, 0.0);
            for node in 1..=NODES {
                let half = n as f64 / 2.0;
                let beyond = half_of(n, &mut generator(5, node)) as f64 - half;
                assert!(beyond.abs() <= half, "at most all of them");
                sum += beyond;
                squares += beyond * beyond;
            }
            let (mean, variance) = (sum / NODES as f64, squares / NODES as f64);
            let expected = n as f64 / 4.0;
            let z = mean / (expected / NODES as f64).sqrt();
            assert!(z.abs() < 4.0, "{n}: z of the mean {z}");
            // The fourth central moment of Binomial(n, ½) is n·(3n − 2)/16.
            let fourth = n as f64 * (3.0 * n as f64 - 2.0) / 16.0;
            let deviation = ((fourth - expected * expected) / NODES as f64).sqrt();
            let beyond = (variance - expected).abs();
            assert!(beyond <= 4.0 * deviation, "{n}: variance {variance}");
        }
    }

    #[test]
    fn halves_have_the_binomial_distribution() {
        const NODES: u64 = 100_000;
        for n in [17, 64, 1_000, 1_100, 10_000, 64_000] {
            // 20 classes between three deviations below the mean and three above it, the outermost
            // with the tails.
            let (mean, deviation) = (n as f64 / 2.0, (n as f64).sqrt() / 2.0);
            let mut bounds: Vec<f64> =
                (1..20).map(|at| (mean + (at as f64 * 0.3 - 3.0) * deviation).floor()).collect();
            bounds.dedup();
            let mut found = vec![0.0; bounds.len() + 1];
            for node in 1..=NODES {
                let left = half_of(n, &mut generator(6, node)) as f64;
                found[bounds.partition_point(|bound| *bound < left)] += 1.0;
            }
            let halves = Halves::new(0.5, n).expect("a distribution");
            let below = |at: usize| match bounds.get(at) {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "whole"
                )]
                Some(bound) => halves.cdf(*bound as u64),
                None => 1.0,
            };
            let mut chi_squared = 0.0;
            for (at, found) in found.iter().enumerate() {
                let p = if at == 0 { below(0) } else { below(at) - below(at - 1) };
                let expected = NODES as f64 * p;
                chi_squared += (found - expected) * (found - expected) / expected;
            }
            let freedom = ChiSquared::new(bounds.len() as f64).expect("a distribution");
            let p = freedom.sf(chi_squared);
            assert!(1e-3 < p, "{n}: chi-squared {chi_squared}, p = {p}");
        }
    }

    #[test]
    fn nodes_halve_the_coordinates() {
        assert_eq!(coordinates(ROOT, 0), (0, u64::MAX));
        for node in [1_u64, 2, 5, 1 << 40, u64::MAX / 2] {
            let (first, last) = coordinates(node, node.ilog2());
            let (left, right) = (2 * node, 2 * node + 1);
            let ((start, middle), (next, end)) =
                (coordinates(left, left.ilog2()), coordinates(right, right.ilog2()));
            assert_eq!((start, middle.checked_add(1), end), (first, Some(next), last), "{node}");
        }
    }

    #[test]
    fn the_smallest_nodes_are_leaves_however_many_arrivals_they_have() {
        for node in [1 << 63, (1 << 63) + 12_345, u64::MAX] {
            let (first, last) = coordinates(node, 63);
            assert_eq!(last - first, 1);
            let (left, right) =
                (drawn(first..=first, node, 1_000), drawn(last..=last, node, 1_000));
            assert_eq!(left.len() + right.len(), 1_000);
            assert!(400 < left.len() && left.len() < 600, "{}", left.len());
            assert_eq!(drawn(0..=u64::MAX, node, 1_000).len(), 1_000);
        }
    }

    #[test]
    fn a_border_through_a_leaf_splits_it() {
        let whole = drawn(0..=u64::MAX, ROOT, LEAF_MAX);
        assert_eq!(whole.len() as u64, LEAF_MAX);
        let mut lengths = std::collections::BTreeSet::new();
        for border in (1..64).map(|border| border << 58) {
            let left = drawn(0..=border - 1, ROOT, LEAF_MAX);
            lengths.insert(left.len());
            let mut both = [left, drawn(border..=u64::MAX, ROOT, LEAF_MAX)].concat();
            both.sort_unstable();
            let mut expected = whole.clone();
            expected.sort_unstable();
            assert_eq!(both, expected, "{border:x}");
        }
        assert!(4 < lengths.len(), "arrivals lie on both sides: {lengths:?}");
    }
}
