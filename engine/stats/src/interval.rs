//! Confidence intervals of percentiles: 95 %, from ranks, by pieces of the run, since samples
//! depend on each other.
//!
//! Of n **independent** samples the number below the true quantile p is binomial, so the true
//! quantile lies between the values at ranks `np − z·√(np(1−p))` and `np + 1 + z·√(np(1−p))`,
//! whatever the distribution (Thompson 1936; in this form Le Boudec, *Performance Evaluation of
//! Computer and Communication Systems*, theorem 2.1).
//!
//! Samples of a service that queues or stalls are not independent: one stall makes hundreds slow at
//! once. The deviation of the rank then comes from the pieces of the run ([`super::pieces`]), whose
//! sums are each piece's excess below the pooled quantile, X_b − p·n_b. This is Woodruff's interval
//! (*JASA* 47, 1952) with pieces as clusters. It turns the uncertainty of a *rank* into values only
//! at the end, so it needs no density, follows a distribution that jumps, and is as asymmetric as
//! the distribution. Rejected: the jackknife, which is inconsistent for quantiles unless the pieces
//! left out are large; and averaging the quantiles of the pieces, which is biased if a piece has
//! few samples beyond the quantile, and blind to a stall that hits one piece in ten.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pieces::{Pieces, TAIL, TooShort};
use super::statistics::{chi_squared_point, normal_point};
use crate::buckets::Bucket;
use crate::distribution::{Distribution, VALUE_MAX_NS, rank};
use crate::quantiles::{PERCENTILES, WITH_INTERVAL};

/// Two-sided 5 % point of the normal distribution, in the precision usual for sample sizes.
pub const NORMAL_5_PERCENT: f64 = 1.96;

/// The 95 % confidence interval of a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Lower end, ns: the lower edge of its bucket.
    pub low_ns: u64,
    /// Upper end, ns: the upper edge of its bucket.
    pub high_ns: u64,
}

/// The method of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// From the spread between consecutive pieces of the run; valid if samples depend on each
    /// other.
    Batches,
    /// From ranks, since the run's samples don't depend on each other.
    OrderStatistics,
}

/// What an interval lacks, in the unit of its cure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Missing {
    /// This many samples: its ranks would exceed the existing ones even if they were independent.
    Samples(u64),
    /// A window of this many seconds: the samples depend on something that lasts too long for this
    /// one.
    Seconds(f64),
}

impl From<TooShort> for Missing {
    fn from(TooShort { needed_s }: TooShort) -> Missing {
        Missing::Seconds(needed_s)
    }
}

/// The fewest independent samples for which quantile `p`, strictly between 0 and 1, has an
/// interval: both ranks are among the samples.
pub fn needed(p: f64) -> u64 {
    needed_with(p, NORMAL_5_PERCENT)
}

/// The fewest samples n with `1 ≤ np − width·√(np(1−p))` and `np + 1 + width·√(np(1−p)) ≤ n`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "held above zero; saturates"
)]
fn needed_with(p: f64, width: f64) -> u64 {
    assert!(0.0 < p && p < 1.0, "a quantile lies between 0 and 1");
    // With x samples expected on a side, either condition is x − width·√(x·(1 − share)) ≥ 1, where
    // share is that of the side.
    let side = |share: f64| {
        let half = width * (1.0 - share).sqrt() / 2.0;
        (half + (half * half + 1.0).sqrt()).powi(2) / share
    };
    (side(p).max(side(1.0 - p)) - 1e-9).ceil() as u64
}

/// Whether samples depend on each other: the pieces of the run differ at one of the usual quantiles
/// by more than those of independent samples do once in 100 runs. Each of k quantiles with enough
/// samples is tested at one in 100·k (Bonferroni). `None` if the run is too short or has too few
/// samples.
pub fn dependent(pieces: &Pieces<Histogram<u64>>) -> Option<bool> {
    let pooled = pooled(pieces.iter());
    let known: Vec<f64> = PERCENTILES[..WITH_INTERVAL]
        .iter()
        .map(|quantile| quantile.q)
        .filter(|p| needed(*p) <= pooled.count())
        .collect();
    let below = 1.0 - 0.01 / known.len().max(1) as f64;
    // Σ(X_b − p·n_b)² over its variance is nearly χ².
    let exceeds = |p: f64| {
        let (variance, degrees) = excess(&pooled, pieces, p).variance()?;
        let index = variance / (pooled.count() as f64 * p * (1.0 - p));
        Some(chi_squared_point(degrees, below) < degrees as f64 * index)
    };
    known.into_iter().filter_map(exceeds).reduce(|one, other| one || other)
}

/// All samples of the pieces, pooled, each as the highest value of its bucket.
pub(super) fn pooled<'a>(pieces: impl Iterator<Item = &'a Histogram<u64>>) -> Distribution {
    let mut pooled = Distribution::new();
    for piece in pieces {
        for bucket in piece.iter_recorded() {
            let value_ns = bucket.value_iterated_to();
            pooled
                .record_n(piece.highest_equivalent(value_ns), bucket.count_since_last_iteration());
        }
    }
    pooled
}

/// The interval of quantile `p` of `pooled`, whose samples the `pieces` hold in the order of the
/// run. Pieces without a sample are allowed. It is never narrower than for independent samples.
///
/// # Errors
/// What it lacks.
pub fn interval(
    pooled: &Distribution,
    pieces: &Pieces<Histogram<u64>>,
    p: f64,
) -> Result<Interval, Missing> {
    ends(pooled, pieces, p).both()
}

/// The interval of quantile `p` of independent samples.
///
/// # Errors
/// The number of samples it takes.
pub(crate) fn interval_by_ranks(pooled: &Distribution, p: f64) -> Result<Interval, Missing> {
    ends_by_ranks(pooled, p).both()
}

/// The same, each end on its own. It takes the samples for independent: if they aren't, their
/// interval by pieces is no narrower than this one.
pub fn ends_by_ranks(pooled: &Distribution, p: f64) -> Ends {
    by_width(pooled, p, NORMAL_5_PERCENT, |width| Missing::Samples(needed_with(p, width)))
}

/// The ends of an interval, each if its rank is among the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ends {
    /// Lower end, ns: the quantile is below it with a probability of 2.5 %.
    pub low_ns: Option<u64>,
    /// Upper end, ns: the quantile is above it with a probability of 2.5 %.
    pub high_ns: Option<u64>,
    /// What the unknown ends lack.
    pub missing: Option<Missing>,
}

impl Ends {
    fn both(self) -> Result<Interval, Missing> {
        match (self.low_ns, self.high_ns, self.missing) {
            (Some(low_ns), Some(high_ns), None) => Ok(Interval { low_ns, high_ns }),
            (_, _, missing) => Err(missing.expect("an unknown end lacks something")),
        }
    }
}

/// The ends of the 95 % interval of quantile `p`, as in `interval`, but each on its own. If a queue
/// grows all the time, every slow request is in the last second of the run: no rank is high enough
/// for an upper end, but there is a lower one.
pub fn ends(pooled: &Distribution, pieces: &Pieces<Histogram<u64>>, p: f64) -> Ends {
    ends_with(pooled, pieces, p, TAIL, NORMAL_5_PERCENT)
}

/// The same, each end wrong with a probability of `tail`.
pub(super) fn ends_at(
    pooled: &Distribution,
    pieces: &Pieces<Histogram<u64>>,
    p: f64,
    tail: f64,
) -> Ends {
    ends_with(pooled, pieces, p, tail, normal_point(tail))
}

/// The same as `ends_at`; `independent` is the normal distribution's point for the tail.
fn ends_with(
    pooled: &Distribution,
    pieces: &Pieces<Histogram<u64>>,
    p: f64,
    tail: f64,
    independent: f64,
) -> Ends {
    let (count, least) = (pooled.count(), needed_with(p, independent));
    let lacking = |missing| if count < least { Missing::Samples(least) } else { missing };
    match excess(pooled, pieces, p).spread() {
        Err(short) => Ends { low_ns: None, high_ns: None, missing: Some(lacking(short.into())) },
        Ok(spread) => {
            let deviation = (count as f64 * p * (1.0 - p)).sqrt();
            let width = (spread.half(tail) / deviation.max(f64::MIN_POSITIVE)).max(independent);
            by_width(pooled, p, width, |width| {
                // The share of the samples that both ends take stays the same in a longer run.
                let longer = needed_with(p, width) as f64 / count.max(1) as f64;
                lacking(Missing::Seconds((pieces.seconds() * longer).ceil()))
            })
        }
    }
}

/// The ends, given the deviation of the rank as a multiple of that of independent samples.
fn by_width(
    pooled: &Distribution,
    p: f64,
    width: f64,
    missing: impl FnOnce(f64) -> Missing,
) -> Ends {
    let n = pooled.count() as f64;
    let half = width * (n * p * (1.0 - p)).sqrt();
    let (low, high) = ((n * p - half).floor(), (n * p + 1.0 + half).ceil());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to the count"
    )]
    let bucket = |rank: f64| (1.0..=n).contains(&rank).then(|| bucket_at(pooled, rank as u64));
    let (low, high) = (bucket(low), bucket(high));
    let is_whole = low.is_some() && high.is_some();
    Ends {
        low_ns: low.map(|(low_ns, _)| low_ns),
        high_ns: high.map(|(_, high_ns)| high_ns),
        missing: (!is_whole).then(|| missing(width)),
    }
}

/// Each piece's excess below quantile `p`.
fn excess(pooled: &Distribution, pieces: &Pieces<Histogram<u64>>, p: f64) -> Pieces<f64> {
    if pooled.count() == 0 {
        return pieces.map(|_| 0.0);
    }
    let (bucket_ns, _) = bucket_at(pooled, rank(p, pooled.count()));
    let sides = pieces.map(|piece| Sides::of(piece, bucket_ns));
    let sum = |of: fn(&Sides) -> f64| sides.iter().map(of).sum::<f64>();
    let (below, within) = (sum(|sides| sides.below), sum(|sides| sides.within));
    let count = sum(|sides| sides.count);
    // The bucket may hold most of all samples if a service answers in constant time: the same share
    // of each piece's part of it counts as below, so that the shares of all pieces add up to p.
    let share = ((p * count - below) / within.max(1.0)).clamp(0.0, 1.0);
    sides.map(|sides| sides.below + share * sides.within - p * sides.count)
}

/// How many samples of a piece lie below the pooled quantile's bucket, and within it.
struct Sides {
    below: f64,
    within: f64,
    count: f64,
}

impl Sides {
    /// `bucket_ns` is a value in the pooled bucket. The piece's own buckets may be wider: "within"
    /// is the whole bucket that holds the value, and "below" ends where that begins.
    fn of(piece: &Histogram<u64>, bucket_ns: u64) -> Sides {
        let below_ns = piece.lowest_equivalent(bucket_ns).checked_sub(1);
        let below = below_ns.map_or(0, |high| piece.count_between(0, high));
        Sides {
            below: below as f64,
            within: piece.count_at(bucket_ns) as f64,
            count: piece.len() as f64,
        }
    }
}

/// Lowest and highest value of the bucket that holds the sample of a rank from 1 to the count,
/// clamped to the exact minimum and maximum. A sample beyond the range is only known to lie between
/// the end of the range and the maximum.
fn bucket_at(distribution: &Distribution, rank: u64) -> (u64, u64) {
    let (min_ns, max_ns) =
        (distribution.min_ns().unwrap_or(0), distribution.max_ns().unwrap_or(VALUE_MAX_NS));
    let mut seen = 0;
    for Bucket { low_ns, high_ns, count } in distribution.counts().iter() {
        seen += count;
        if rank <= seen {
            return (low_ns.max(min_ns), high_ns.min(max_ns));
        }
    }
    (VALUE_MAX_NS, max_ns)
}

#[cfg(test)]
mod tests;
