//! The arrival schedule, constant, Poisson or a log's: a pure function of plan, seed and log, never
//! of a clock or a completion.
//!
//! Constant arrivals: request k is due when k are expected, at a constant rate at `k·10⁹/rate`, in
//! integers wide enough never to drift; shard s of S takes k ≡ s (mod S). With several agents, each
//! takes its units out of every `of` consecutive requests, and its shards take turns at these.
//!
//! Poisson arrivals: time is cut into blocks of 1 ms. A block's mean is the number of arrivals
//! expected in it, spread evenly, so a changing rate moves in steps of 1 ms. A tree (`tree.rs`)
//! divides a block's arrivals among the shares. Their union is the same for any number of shards
//! and any shares, and each share is itself a Poisson process. A block depends on earlier blocks
//! only through their number of arrivals.
//!
//! Arrivals are numbered 0, 1, 2, … over the whole, across all shards: constant ones in order,
//! Poisson ones block by block, and within a block by their rank in its tree. So numbers follow
//! time from block to block, but not within one. A block cut short by the end is numbered without
//! gaps as well: its arrivals beyond the end are found when the schedule is made.
//!
//! A shard draws the next block before it waits, after its queue has been sent, so that no drawing
//! comes between noticing an arrival and sending it.
//!
//! A replayed log's arrivals are its requests (`replay.rs`), numbered by time and dealt out like
//! constant ones.
//!
//! The schedule has a version, [`VERSION`], which is in the report beside the schedule's digest.
//! Changing any arrival of any plan requires a new version, and `verify` refuses a report with
//! another one. The digest is a sum of hashes, so the shards' digests add up to the digest of the
//! whole, in any order.

use std::mem;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use plan::Arrivals;
use rand_distr::Poisson;
use serde::{Deserialize, Serialize};
use units::SECOND_NS;

use super::curve::{Curve, EvenGaps, Gap};
use super::share::{Numbers, Share};
use super::tree::{self, BLOCK_NS, Drawn};

/// Version of the schedule, i.e. of the arrivals that a plan and a seed produce. Changing any
/// arrival of any plan requires a new one.
pub const VERSION: u32 = 2;

/// The most blocks that one refill draws: a few µs for empty blocks, of which a low rate has many.
const REFILL_BLOCKS_MAX: usize = 256;

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// When it is due, ns since the epoch of the run.
    pub due_ns: u64,
    /// Its number in the whole run, from 0, the same for any shares.
    pub number: u64,
}

/// One share's arrivals, in order of time.
#[derive(Clone, Debug)]
pub struct Schedule {
    source: Process,
    until_ns: u64,
    share: Share,
}

#[derive(Clone, Debug)]
enum Process {
    Constant(Constant),
    Poisson(Blocks),
    Log(OfLog),
}

impl Schedule {
    /// A share's arrivals before `until_ns`. All memory is allocated here.
    ///
    /// # Panics
    /// If they are a log's, which [`Schedule::of_log`] takes.
    pub fn new(
        curve: Curve,
        arrivals: Arrivals,
        seed: u64,
        until_ns: u64,
        share: Share,
    ) -> Schedule {
        let source = match arrivals {
            Arrivals::Constant => Process::Constant(Constant::new(curve, share.numbers())),
            Arrivals::Poisson => Process::Poisson(Blocks::new(curve, seed, until_ns, &share)),
            Arrivals::Log => panic!("a log has times of its own"),
        };
        Schedule { source, until_ns, share }
    }

    /// A share's arrivals before `until_ns` out of a log's, which are due at these times, in order.
    pub fn of_log(due_ns: Arc<[u64]>, until_ns: u64, share: Share) -> Schedule {
        let source = Process::Log(OfLog { due_ns, numbers: share.numbers() });
        Schedule { source, until_ns, share }
    }

    /// True if the next arrivals still have to be drawn, which [`Schedule::next`] would then do.
    pub fn wants_refill(&self) -> bool {
        match &self.source {
            Process::Constant(_) | Process::Log(_) => false,
            Process::Poisson(blocks) => blocks.want_refill(),
        }
    }

    /// Draws the next arrivals in advance, so that [`Schedule::next`] only reads them. The arrivals
    /// are the same without it; a very low rate takes several calls.
    pub fn refill(&mut self) {
        let Process::Poisson(blocks) = &mut self.source else { return };
        for _ in 0..REFILL_BLOCKS_MAX {
            if !blocks.want_refill() {
                return;
            }
            blocks.draw();
        }
    }

    /// The most of an agent's arrivals in any second, in millionths; of Poisson ones, which differ
    /// from second to second, as many as are expected.
    pub fn most_per_second_micro(&self) -> u64 {
        let peak_micro = |curve: &Curve| curve.peak().micro_per_second();
        match &self.source {
            Process::Constant(arrivals) => self.share.most_of(peak_micro(&arrivals.curve)),
            Process::Poisson(blocks) => self.share.part_of(peak_micro(&blocks.counts.curve)),
            Process::Log(_) => {
                let due_ns: Vec<u64> = self.clone().times_ns().collect();
                let within_second = |from: usize| {
                    let until_ns = due_ns[from].saturating_add(SECOND_NS);
                    due_ns[from..].partition_point(|due_ns| *due_ns < until_ns)
                };
                let most = (0..due_ns.len()).map(within_second).max().unwrap_or(0);
                most as u64 * 1_000_000
            }
        }
    }

    /// The expected number of this share's arrivals between two times; a log's are known.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and a rate is above zero"
    )]
    pub fn expected_between(&self, from_ns: u64, to_ns: u64) -> u64 {
        match self.source.curve_or_log() {
            Ok(curve) => (curve.expected(from_ns, to_ns) * self.share.fraction()).round() as u64,
            Err(log) => {
                let [before, until] =
                    [from_ns, to_ns].map(|at_ns| self.share.count(log.before(at_ns)));
                (until - before) as u64
            }
        }
    }
}

impl Schedule {
    /// The midpoints of this many stretches between two times, with equal expected arrivals in
    /// each.
    pub fn middles(&self, within_ns: Range<u64>, stretches: u64) -> Vec<u64> {
        let source = self.source.curve_or_log();
        let middle = |at| match source {
            Ok(curve) => curve.reaches(within_ns.clone(), 2 * at + 1, 2 * stretches),
            Err(log) => log.reaches(within_ns.clone(), 2 * at + 1, 2 * stretches),
        };
        (0..stretches).map(middle).collect()
    }

    /// When the arrivals are due, ns since the epoch of the run.
    pub fn times_ns(self) -> impl Iterator<Item = u64> {
        self.map(|arrival| arrival.due_ns)
    }
}

/// When an arrival is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// When, in ns since the epoch.
    pub(super) due_ns: u64,
    /// True if the next one is due in the same ns.
    pub(super) with_next: bool,
}

impl Schedule {
    /// When arrival `number` of the whole from `from_ns` on is due, counted from 1; `None` if that
    /// is after the end. Earlier blocks are counted without being drawn.
    pub(super) fn nth_from(mut self, from_ns: u64, number: u64) -> Option<Due> {
        assert!(self.share == Share::whole(), "arrivals are numbered in the whole");
        let until_ns = self.until_ns;
        match &mut self.source {
            Process::Constant(Constant { curve, .. }) => {
                let nth = curve.first_from(from_ns).checked_add(number - 1)?;
                let due_ns = curve.due_ns(nth);
                let with_next = curve.due_ns(nth.checked_add(1)?) == due_ns;
                (due_ns < until_ns).then_some(Due { due_ns, with_next })
            }
            Process::Log(_) => None,
            Process::Poisson(blocks) => {
                let before = blocks.skip_to(from_ns, number);
                let due_ns = self.nth(usize::try_from(before).ok()?)?.due_ns;
                let with_next = self.next().is_some_and(|next| next.due_ns == due_ns);
                Some(Due { due_ns, with_next })
            }
        }
    }
}

impl Iterator for Schedule {
    type Item = Arrival;

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        match &mut self.source {
            Process::Constant(arrivals) => arrivals.next(self.until_ns),
            Process::Poisson(blocks) => blocks.next(),
            Process::Log(arrivals) => arrivals.next(self.until_ns),
        }
    }
}

impl Process {
    /// The rate over time, or the log that has times instead.
    fn curve_or_log(&self) -> Result<&Curve, &OfLog> {
        match self {
            Process::Constant(arrivals) => Ok(&arrivals.curve),
            Process::Poisson(blocks) => Ok(&blocks.counts.curve),
            Process::Log(log) => Err(log),
        }
    }
}

/// A share's arrivals out of a log's.
#[derive(Clone, Debug)]
struct OfLog {
    /// When each request of the whole log is due, in order.
    due_ns: Arc<[u64]>,
    numbers: Numbers,
}

impl OfLog {
    #[inline]
    fn next(&mut self, until_ns: u64) -> Option<Arrival> {
        let number = self.numbers.peek();
        let due_ns = *self.due_ns.get(usize::try_from(number).ok()?)?;
        if until_ns <= due_ns {
            return None;
        }
        self.numbers.advance();
        Some(Arrival { due_ns, number })
    }

    /// The number of the whole log's requests before this time.
    fn before(&self, at_ns: u64) -> usize {
        self.due_ns.partition_point(|due_ns| *due_ns < at_ns)
    }

    /// When `of` of `parts` equal parts of the requests between two times have come.
    fn reaches(&self, within_ns: Range<u64>, of: u64, parts: u64) -> u64 {
        let (first, end) = (self.before(within_ns.start), self.before(within_ns.end));
        let part = u128::from(of) * (end - first) as u128 / u128::from(parts);
        let at = first + usize::try_from(part).expect("a part of a log");
        self.due_ns.get(at).copied().unwrap_or(within_ns.end).min(within_ns.end)
    }
}

/// A share's constant arrivals: each follows from its number and, while the rate is constant, from
/// the previous arrival without a division.
#[derive(Clone, Debug)]
struct Constant {
    curve: Curve,
    numbers: Numbers,
    /// When the next one is due.
    due_ns: u64,
    /// The gaps to the one after it, without and with other agents' units in between; `None` where
    /// the rate is changing.
    even: Option<(EvenGaps, [Gap; 2])>,
}

impl Constant {
    fn new(curve: Curve, numbers: Numbers) -> Constant {
        let mut arrivals = Constant { curve, numbers, due_ns: 0, even: None };
        arrivals.look_up();
        arrivals
    }

    /// Computes when the next one is due, and the gaps that follow.
    fn look_up(&mut self) {
        let number = self.numbers.peek();
        self.due_ns = self.curve.due_ns(number);
        let steps = self.numbers.steps();
        self.even = self.curve.even_gaps(number).map(|gaps| (gaps, steps.map(|to| gaps.gap(to))));
    }

    #[inline]
    fn next(&mut self, until_ns: u64) -> Option<Arrival> {
        let arrival = Arrival { due_ns: self.due_ns, number: self.numbers.peek() };
        if until_ns <= arrival.due_ns {
            return None;
        }
        let others = self.numbers.advance();
        match &mut self.even {
            Some((gaps, each)) if gaps.have(self.numbers.peek()) => {
                self.due_ns = gaps.after(arrival.due_ns, each[usize::from(others)]);
            }
            _ => self.look_up(),
        }
        Some(arrival)
    }
}

/// A share's Poisson arrivals, block by block.
#[derive(Clone, Debug)]
struct Blocks {
    seed: u64,
    counts: Counts,
    coordinates: RangeInclusive<u64>,
    until_ns: u64,
    /// The block in which the schedule ends, and below it the ranks, in order, of all shares'
    /// arrivals in that block that would be due after the end. The rest of the block is numbered
    /// without gaps.
    last: u64,
    beyond: Vec<u64>,
    /// Number of the first block that hasn't been drawn.
    undrawn: u64,
    /// Number of its first arrival: the total of all shares' arrivals in earlier blocks.
    first: u64,
    /// The current block, and the position in it.
    current: Block,
    at: usize,
    /// The next block with arrivals; empty while it still has to be drawn.
    ready: Block,
}

/// A share's arrivals in one block, in order of time.
#[derive(Clone, Debug)]
struct Block {
    start_ns: u64,
    /// Number of the block's first arrival, of all shares.
    first: u64,
    drawn: Vec<Drawn>,
}

impl Blocks {
    fn new(curve: Curve, seed: u64, until_ns: u64, share: &Share) -> Blocks {
        let most = curve.peak().per_second() * BLOCK_NS as f64 / 1e9;
        let capacity = block_capacity(most * share.fraction());
        let empty = || Block { start_ns: 0, first: 0, drawn: Vec::with_capacity(capacity) };
        let mut blocks = Blocks {
            seed,
            counts: Counts::new(curve),
            coordinates: share.coordinates(),
            until_ns,
            last: until_ns / BLOCK_NS,
            beyond: Vec::new(),
            undrawn: 0,
            first: 0,
            current: empty(),
            at: 0,
            ready: empty(),
        };
        blocks.cut();
        blocks
    }

    /// Finds the arrivals beyond the end.
    fn cut(&mut self) {
        let end_ns = self.until_ns % BLOCK_NS;
        let mut counts = self.counts.clone();
        let Some(count) = counts.of_block(self.last).filter(|_| 0 < end_ns) else { return };
        let mut drawn = Vec::new();
        tree::draw(&mut drawn, self.key(self.last), count, &(0..=u64::MAX));
        let beyond = drawn.into_iter().filter(|drawn| end_ns <= drawn.offset_ns());
        self.beyond = beyond.map(Drawn::rank).collect();
    }

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        loop {
            if let Some(drawn) = self.current.drawn.get(self.at) {
                self.at += 1;
                let Block { start_ns, first, .. } = self.current;
                let (due_ns, number) = (start_ns + drawn.offset_ns(), first + drawn.rank());
                return Some(Arrival { due_ns, number });
            }
            if !self.turn() {
                return None;
            }
        }
    }

    /// Moves to the next block with arrivals; returns false if there is none.
    fn turn(&mut self) -> bool {
        while self.want_refill() {
            self.draw();
        }
        mem::swap(&mut self.current, &mut self.ready);
        self.ready.drawn.clear();
        self.at = 0;
        !self.current.drawn.is_empty()
    }

    fn want_refill(&self) -> bool {
        self.ready.drawn.is_empty() && self.undrawn * BLOCK_NS < self.until_ns
    }

    /// The random key of a block.
    fn key(&self, block: u64) -> u64 {
        mix(mix(self.seed).wrapping_add(block))
    }

    /// Moves to the block that has arrival `number` of the whole from `from_ns` on, counted from 1,
    /// or to the end; returns how many arrivals of the block come before it. Blocks before `from_ns`
    /// aren't counted, so the arrivals' own numbers are wrong from now on.
    fn skip_to(&mut self, from_ns: u64, number: u64) -> u64 {
        self.undrawn = from_ns / BLOCK_NS;
        self.draw();
        let early = |drawn: &&Drawn| self.ready.start_ns + drawn.offset_ns() < from_ns;
        let mut before = self.ready.drawn.iter().filter(early).count() as u64 + number - 1;
        self.ready.drawn.clear();
        self.undrawn -= 1;
        while self.undrawn * BLOCK_NS < self.until_ns {
            let key = self.key(self.undrawn);
            let count = self.counts.of_block(self.undrawn);
            let arrivals = count.map_or(0, |count| tree::arrivals(key, count));
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
        let block = self.undrawn;
        let key = self.key(block);
        self.undrawn += 1;
        let Some(count) = self.counts.of_block(block) else { return };
        let drawn = &mut self.ready.drawn;
        let arrivals = tree::draw(drawn, key, count, &self.coordinates);
        (self.ready.start_ns, self.ready.first) = (block * BLOCK_NS, self.first);
        self.first += arrivals;
        if block == self.last {
            let end_ns = self.until_ns % BLOCK_NS;
            drawn.retain(|drawn| drawn.offset_ns() < end_ns);
            for drawn in drawn.iter_mut() {
                let beyond = self.beyond.partition_point(|rank| *rank < drawn.rank());
                *drawn = Drawn::new(drawn.offset_ns(), drawn.rank() - beyond as u64);
            }
        }
        drawn.sort_unstable();
    }
}

/// The number of arrivals in each block.
#[derive(Clone, Debug)]
struct Counts {
    curve: Curve,
    /// The distribution for the last block asked for; `None` if it has no arrivals.
    count: Option<Poisson<f64>>,
    /// Blocks before this one have the same distribution as the last one asked for.
    same_until: u64,
}

impl Counts {
    fn new(curve: Curve) -> Counts {
        Counts { curve, count: None, same_until: 0 }
    }

    /// The distribution of this block's number of arrivals; for the whole block even if the
    /// schedule ends within it. Blocks must be asked for in order.
    #[inline]
    fn of_block(&mut self, block: u64) -> Option<&Poisson<f64>> {
        if self.same_until <= block {
            self.look_up(block);
        }
        self.count.as_ref()
    }

    fn look_up(&mut self, block: u64) {
        let start_ns = block * BLOCK_NS;
        let mean = self.curve.expected(start_ns, start_ns.saturating_add(BLOCK_NS));
        self.count = (0.0 < mean).then(|| Poisson::new(mean).expect("a rate has a limit"));
        self.same_until = self.curve.steady_until_ns(start_ns) / BLOCK_NS;
    }
}

/// Capacity of a block, in arrivals: twelve standard deviations above the mean, which no block of
/// any run exceeds (the probability is below 10⁻³⁰). If one did, the vector would grow.
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
    /// Further arrivals, known only by their number.
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

    /// Adds another set's digest. No run has enough arrivals to saturate the count, but a document
    /// may claim so.
    pub fn merge(&mut self, other: Digest) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.arrivals = self.arrivals.saturating_add(other.arrivals);
        self.estimated = self.estimated.saturating_add(other.estimated);
    }

    /// Adds arrivals known only by their number; the digest no longer covers the whole set.
    pub fn add_estimated(&mut self, arrivals: u64) {
        self.estimated += arrivals;
    }

    /// The number of arrivals that the digest doesn't cover.
    pub fn estimated(&self) -> u64 {
        self.estimated
    }

    /// The number of arrivals in the set.
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
    use units::{Nanos, Rate};

    use super::super::curve::Segment;
    use super::*;

    fn constant(text: &str) -> Curve {
        Curve::constant(text.parse().expect("a rate"))
    }

    /// A ramp up from zero, a plateau, a ramp down, a pause and a jump, none of them whole ms.
    fn five_segments(unit: u64) -> Curve {
        let rate = |per_second: u64| match per_second {
            0 => Rate::ZERO,
            _ => per_second.to_string().parse().expect("a rate"),
        };
        let segments = [(0, 20, 501), (20, 20, 302), (20, 1, 203), (0, 0, 104), (7, 7, 100)];
        let segment = |(from, to, thousandths): (u64, u64, u64)| Segment {
            from: rate(from * unit),
            to: rate(to * unit),
            length: Nanos(thousandths * SECOND_NS / 1_000 + 123_456),
        };
        Curve::new(&segments.map(segment))
    }

    fn poisson(text: &str, until_ns: u64, share: Share) -> Schedule {
        Schedule::new(constant(text), Arrivals::Poisson, 7, until_ns, share)
    }

    fn equal(shards: usize) -> Vec<Share> {
        (0..shards).map(|shard| Share::equal(shard, shards)).collect()
    }

    /// Neighbouring shares with these borders; the last border is the number of units.
    fn unequal(borders: &[u32]) -> Vec<Share> {
        let of = borders[borders.len() - 1];
        let share = |pair: &[u32]| Share::units(pair[0]..pair[1], of);
        borders.windows(2).map(share).collect()
    }

    /// The arrivals of all shares by their numbers, which have no gaps, and their digest.
    fn union(
        arrivals: Arrivals,
        curve: &Curve,
        seed: u64,
        until_ns: u64,
        shares: &[Share],
    ) -> (Vec<u64>, String) {
        let mut all = Vec::new();
        let mut whole = Digest::default();
        for share in shares {
            let mut digest = Digest::default();
            let mut last_ns = 0;
            for arrival in Schedule::new(curve.clone(), arrivals, seed, until_ns, share.clone()) {
                let due_ns = arrival.due_ns;
                assert!(last_ns <= due_ns && due_ns < until_ns, "in order and before the end");
                last_ns = due_ns;
                digest.add(due_ns);
                all.push((arrival.number, due_ns));
            }
            whole.merge(digest);
        }
        all.sort_unstable();
        let (numbers, times_ns): (Vec<u64>, Vec<u64>) = all.into_iter().unzip();
        assert!(numbers.into_iter().eq(0..times_ns.len() as u64), "each number once");
        assert_eq!(whole.arrivals(), times_ns.len() as u64);
        (times_ns, whole.hex())
    }

    #[test]
    fn each_number_is_due_at_the_same_time_for_any_shares() {
        // Blocks of 0.2, 5, 2,000 and 64,000 arrivals on average; the last may be cut short.
        for (text, until_ns) in [
            ("200", 2 * SECOND_NS),
            ("5k", 2 * SECOND_NS - 1),
            ("2M", 20_000_000),
            ("2M", 20_000_001),
            ("64M", 2_500_000),
        ] {
            for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
                let one = the_same_for_any_shares(arrivals, &constant(text), until_ns);
                assert!(200 < one.0.len(), "{text}/s");
            }
        }
    }

    #[test]
    fn a_curve_of_five_segments_has_the_same_numbers_and_times_for_any_shares() {
        let mut digests = Vec::new();
        // Blocks of up to 0.2, 20 and 2,000 arrivals.
        for unit in [10, 1_000, 100_000] {
            let curve = five_segments(unit);
            let until_ns = 1_200 * BLOCK_NS + 500_000;
            for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
                let (times_ns, digest) = the_same_for_any_shares(arrivals, &curve, until_ns);
                digests.push((digest, numbered(&times_ns)));
                let expected = curve.expected(0, until_ns);
                let off = (times_ns.len() as f64 - expected).abs();
                let most = if arrivals == Arrivals::Constant { 1.0 } else { 4.0 * expected.sqrt() };
                assert!(off <= most, "{arrivals:?}: {} of {expected}", times_ns.len());
            }
        }
        let golden = GOLDEN_OF_FIVE.map(|(digest, numbered)| (digest.to_owned(), numbered));
        assert_eq!((VERSION, &digests[..]), (2, &golden[..]));
    }
    /// Golden values of version 2, constant and Poisson in turn.
    const GOLDEN_OF_FIVE: [(&str, u64); 6] = [
        ("66c9f327e80eeff9cd89bf6c74b60482", 18_414_623_074_923_290_046),
        ("66cdb92c3a86b63bf74bd6a79ddaf822", 1_270_827_370_016_363_666),
        ("f3186506d533d2f8e7ab9db61e9944dd", 7_944_507_888_198_015_505),
        ("8b6eb0f4eebbb887c33b3a3c578785f7", 1_529_891_140_307_064_163),
        ("b7987026f6a1e678b8535b41a5da0015", 13_189_214_584_966_234_557),
        ("580906f5e729da00cb8e434db67aed7c", 13_441_441_739_592_396_159),
    ];

    /// A hash of the due times in order of their numbers: unlike [`Digest`], it changes if two
    /// arrivals swap numbers.
    fn numbered(times_ns: &[u64]) -> u64 {
        times_ns.iter().fold(1, |digest, due_ns| mix(digest ^ due_ns))
    }

    /// Checks that any shards and agents together have the same arrivals with the same numbers, and
    /// returns these and their digest.
    fn the_same_for_any_shares(
        arrivals: Arrivals,
        curve: &Curve,
        until_ns: u64,
    ) -> (Vec<u64>, String) {
        let one = union(arrivals, curve, 7, until_ns, &equal(1));
        for shards in [2, 3, 7, 64, 256] {
            let found = union(arrivals, curve, 7, until_ns, &equal(shards));
            assert!(found == one, "{arrivals:?}, {curve:?} on {shards}");
        }
        for borders in [&[0, 1, 8][..], &[0, 333, 334, 998, 1_000], &[0, 1, u32::MAX]] {
            let found = union(arrivals, curve, 7, until_ns, &unequal(borders));
            assert!(found == one, "{arrivals:?}, {curve:?}, borders {borders:?}");
        }
        one
    }

    #[test]
    fn another_seed_is_another_schedule() {
        let of_seed = |seed| union(Arrivals::Poisson, &constant("5k"), seed, SECOND_NS, &equal(1));
        let ((one, digest), (other, other_digest)) = (of_seed(7), of_seed(8));
        assert_ne!(one, other);
        assert_ne!(digest, other_digest);
    }

    #[test]
    fn a_seed_means_the_same_arrivals_until_the_version_changes() {
        let of = |arrivals, text| union(arrivals, &constant(text), 1, 10_000_000, &equal(1));
        let (mut first, _) = of(Arrivals::Poisson, "5k");
        first.sort_unstable();
        assert_eq!((VERSION, &first[..4]), (2, &GOLDEN_ARRIVALS[..]));
        let all = GOLDEN_OF_ONE.map(|(arrivals, text, ..)| {
            let (times_ns, digest) = of(arrivals, text);
            (digest, numbered(&times_ns))
        });
        assert_eq!(
            all,
            GOLDEN_OF_ONE.map(|(.., digest, by_number)| (digest.to_owned(), by_number))
        );
    }
    /// Golden values of version 2. A change to any of these needs a new version, since old seeds
    /// would then produce other load.
    const GOLDEN_ARRIVALS: [u64; 4] = [22_125, 98_714, 115_307, 139_932];
    const GOLDEN_OF_ONE: [(Arrivals, &str, &str, u64); 4] = [
        (Arrivals::Constant, "5k", "5b94d714c1513c886f4051cf11305ff1", 17_946_638_536_479_493_062),
        (Arrivals::Constant, "64M", "3cecbfc6e178d1f730131ee74f6c1577", 13_626_326_039_109_814_127),
        (Arrivals::Poisson, "5k", "96bb3dddc8b94146a435b1f3d25588b6", 16_022_293_605_469_922_654),
        (Arrivals::Poisson, "64M", "df0494120331bb83dca0a079322b44ea", 10_417_027_195_283_847_262),
    ];

    #[test]
    fn constant_arrivals_never_drift() {
        // In 10⁶ s, longer than any run, there are as many requests as the rate has millionths, and
        // the due time is exact.
        assert_eq!(constant("333.333333").due_ns(333_333_333), 1_000_000 * SECOND_NS);
        let (all, _) = union(Arrivals::Constant, &constant("5k"), 1, SECOND_NS, &equal(1));
        assert_eq!(all.len(), 5_000);
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] == 200_000));
    }

    #[test]
    fn constant_arrivals_are_dealt_in_turn() {
        let numbers = |share| -> Vec<u64> {
            let schedule = Schedule::new(constant("1M"), Arrivals::Constant, 1, 12_000, share);
            let number = |Arrival { due_ns, number }| {
                assert_eq!(number, due_ns / 1_000);
                number
            };
            schedule.map(number).collect()
        };
        assert_eq!(numbers(Share::equal(1, 3)), [1, 4, 7, 10]);
        assert_eq!(numbers(Share::units(1..3, 5)), [1, 2, 6, 7, 11]);
    }

    #[test]
    fn no_second_has_more_than_the_most_whatever_units_a_share_has() {
        let busiest = |schedule: Schedule| {
            let due_ns: Vec<u64> = schedule.times_ns().collect();
            let within_second = |from: &u64| {
                let second = *from..from + SECOND_NS;
                due_ns.iter().filter(|at| second.contains(*at)).count() as u64
            };
            due_ns.iter().map(within_second).max().unwrap_or(0)
        };
        let shares =
            [(0..1, 1), (1..2, 3), (0..3, 7), (0..400, 1_000), (9..u32::MAX / 2, u32::MAX)];
        for (units, of) in shares {
            let of = |curve: Curve, arrivals| {
                let share = Share::units(units.clone(), of);
                Schedule::new(curve, arrivals, 7, 4 * SECOND_NS, share)
            };
            let even = of(constant("700"), Arrivals::Constant);
            assert_eq!(even.most_per_second_micro(), busiest(even) * 1_000_000, "{units:?}");
            let uneven = of(five_segments(30), Arrivals::Constant);
            assert!(busiest(uneven.clone()) * 1_000_000 <= uneven.most_per_second_micro());
            let random = of(constant("700"), Arrivals::Poisson);
            let off = random.most_per_second_micro() as f64 - random.share.fraction() * 700e6;
            assert!(off.abs() < 1.5, "{units:?}: {off}");
            // Six arrivals within a second, half a second after three.
            let due_ns = [0, 1, 2, 5, 6, 6, 7, 8, 14, 15, 40].map(|tenths| tenths * SECOND_NS / 10);
            let share = random.share.clone();
            let log = Schedule::of_log(due_ns.into(), 20 * SECOND_NS, share);
            assert_eq!(log.most_per_second_micro(), busiest(log) * 1_000_000, "{units:?}");
        }
    }

    #[test]
    fn a_block_needs_none_before_it() {
        let share = Share::equal(1, 3);
        let all: Vec<u64> = poisson("60k", 50 * BLOCK_NS, share.clone()).times_ns().collect();
        let within = |due_ns: &&u64| (42 * BLOCK_NS..43 * BLOCK_NS).contains(*due_ns);
        let expected: Vec<u64> = all.iter().filter(within).copied().collect();
        let mut blocks = Blocks::new(constant("60k"), 7, 43 * BLOCK_NS, &share);
        blocks.undrawn = 42;
        let next = || blocks.next().map(|arrival| arrival.due_ns);
        let alone: Vec<u64> = std::iter::from_fn(next).collect();
        assert_eq!(alone, expected);
        assert!(10 < alone.len(), "{alone:?}");
    }

    #[test]
    fn arrivals_drawn_ahead_are_the_same_and_only_read() {
        // Most blocks of the lowest rate are empty; in between, some gaps are longer than a refill.
        for (text, until_ns) in [("20", 60 * SECOND_NS), ("5k", SECOND_NS), ("2M", 20 * BLOCK_NS)] {
            let expected: Vec<Arrival> = poisson(text, until_ns, Share::equal(1, 4)).collect();
            let mut ahead = poisson(text, until_ns, Share::equal(1, 4));
            let mut found = Vec::new();
            loop {
                while ahead.wants_refill() {
                    ahead.refill();
                }
                let undrawn = undrawn(&ahead);
                let Some(arrival) = ahead.next() else { break };
                assert_eq!(undrawn, self::undrawn(&ahead), "nothing is drawn on the way");
                found.push(arrival);
            }
            assert_eq!(found, expected, "{text}/s");
        }
        let mut constant =
            Schedule::new(constant("5k"), Arrivals::Constant, 7, 1, Share::equal(0, 1));
        assert!(!constant.wants_refill());
        constant.refill();
        assert_eq!(constant.collect::<Vec<Arrival>>(), [Arrival { due_ns: 0, number: 0 }]);
    }

    fn undrawn(schedule: &Schedule) -> u64 {
        match &schedule.source {
            Process::Poisson(blocks) => blocks.undrawn,
            Process::Constant(_) | Process::Log(_) => panic!("it draws nothing"),
        }
    }

    #[test]
    fn memory_never_grows() {
        for (text, of) in [("1k", 1), ("1k", 256), ("2M", 1), ("2M", 64), ("64M", 256)] {
            let mut schedule = poisson(text, 1_000 * BLOCK_NS, Share::equal(0, of));
            let capacities = |schedule: &Schedule| match &schedule.source {
                Process::Poisson(Blocks { current, ready, .. }) => {
                    let (one, other) = (current.drawn.capacity(), ready.drawn.capacity());
                    (one.min(other), one.max(other))
                }
                Process::Constant(_) | Process::Log(_) => panic!("it has no memory"),
            };
            let before = capacities(&schedule);
            assert!(0 < schedule.by_ref().count());
            assert_eq!(capacities(&schedule), before, "{text}/s, one of {of}");
        }
    }
}
