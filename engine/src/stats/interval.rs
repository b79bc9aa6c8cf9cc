//! Confidence intervals of percentiles: 95 %, from ranks, by batches where samples depend on each
//! other.
//!
//! Of n **independent** samples the number below the true quantile p is binomial, so the true
//! quantile lies between the values at ranks `np − z·√(np(1−p))` and `np + 1 + z·√(np(1−p))`,
//! whatever the distribution (Thompson 1936; in this form Le Boudec, *Performance Evaluation of
//! Computer and Communication Systems*, theorem 2.1).
//!
//! Samples of a service that stalls are not independent: one stall makes hundreds slow at once.
//! Then the deviation of the rank comes from the **batches**, consecutive pieces of the run: with
//! X_b of the n_b samples of batch b at or below the pooled quantile, it is `√(m/(m−1)·Σ(X_b −
//! p·n_b)²)`, and z is Student's t with m−1 degrees of freedom. This is Woodruff's interval (*JASA*
//! 47, 1952) with batches as clusters. It turns the uncertainty of a *rank* into values only at the
//! end, so it needs no density, follows a distribution that jumps, and is not symmetric where that
//! isn't. Rejected: the jackknife, which is inconsistent for quantiles unless the pieces left out
//! are large; and averaging the quantiles of the batches, which is biased where a batch has few
//! samples beyond the quantile, and blind to a stall that hits one batch in ten.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::statistics::{chi_squared_point, normal_point, student_t_point};
use crate::stats::distribution::{Distribution, VALUE_MAX_NS, rank};
use crate::stats::quantiles::{PERCENTILES, WITH_INTERVAL};

/// Two-sided 5 % point of the normal distribution, as the sample sizes are usually given with.
pub(super) const NORMAL_5_PERCENT: f64 = 1.96;
/// Batches below which their spread says too little, and samples are taken as independent.
pub(crate) const BATCHES_MIN: usize = 5;
/// Batches above which neighbours are joined: more add little to the estimate of the spread
/// (Schmeiser, *Operations Research* 30, 1982), and longer ones hold more of the dependence inside.
pub(super) const BATCHES_MAX: usize = 30;

/// The 95 % confidence interval of a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Interval {
    /// Lower end, ns: the lower edge of its bucket.
    pub(crate) low_ns: u64,
    /// Upper end, ns: the upper edge of its bucket.
    pub(crate) high_ns: u64,
    /// How it was found.
    pub(crate) method: Method,
}

/// How an interval was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// From the spread between consecutive pieces of the run; holds where samples depend on each
    /// other.
    Batches,
    /// From ranks as if samples were independent; the run had too few pieces to see whether they
    /// are.
    OrderStatistics,
}

/// Too few samples for an interval: its ranks lie beyond them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("n = {count}, need {needed}")]
pub(crate) struct TooFewSamples {
    /// Samples there are.
    pub(crate) count: u64,
    /// Samples needed at the dependence that these samples show.
    pub(crate) needed: u64,
}

/// The fewest independent samples for which quantile `p`, strictly between 0 and 1, has an
/// interval: both ranks among the samples.
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
    // With x samples expected on a side, either condition is x − width·√(x·(1 − share)) ≥ 1, share
    // that of the side.
    let side = |share: f64| {
        let half = width * (1.0 - share).sqrt() / 2.0;
        (half + (half * half + 1.0).sqrt()).powi(2) / share
    };
    (side(p).max(side(1.0 - p)) - 1e-9).ceil() as u64
}

/// Which method finds the intervals of samples in these batches.
pub(crate) fn method(batches: &[Histogram<u64>]) -> Method {
    if BATCHES_MIN <= groups(batches).len() { Method::Batches } else { Method::OrderStatistics }
}

/// Whether samples depend on each other: the pieces of the run differ at one of the usual quantiles
/// by more than those of independent samples do once in 100 runs. Each of k quantiles with enough
/// samples is tested at one in 100·k (Bonferroni). `None` when there are too few pieces or samples
/// to tell.
pub(crate) fn dependent(batches: &[Histogram<u64>]) -> Option<bool> {
    let pooled = pooled(batches);
    let spreads: Vec<Spread> = PERCENTILES[..WITH_INTERVAL]
        .iter()
        .map(|quantile| quantile.q)
        .filter(|p| needed(*p) <= pooled.count())
        .filter_map(|p| spread(&pooled, batches, p))
        .collect();
    let below = 1.0 - 0.01 / spreads.len().max(1) as f64;
    // Σ(X_b − p·n_b)² over its variance is nearly χ².
    let exceeds = |spread: Spread| {
        let degrees = spread.degrees as u64;
        chi_squared_point(degrees, below) < degrees as f64 * spread.index
    };
    spreads.into_iter().map(exceeds).reduce(|one, other| one || other)
}

/// All samples of the batches pooled, each as the highest value of its bucket.
pub(super) fn pooled(batches: &[Histogram<u64>]) -> Distribution {
    let mut pooled = Distribution::new();
    for batch in batches {
        for bucket in batch.iter_recorded() {
            let value_ns = bucket.value_iterated_to();
            pooled
                .record_n(batch.highest_equivalent(value_ns), bucket.count_since_last_iteration());
        }
    }
    pooled
}

/// The interval of quantile `p` of `pooled`, whose samples the `batches` hold in the order of the
/// run, each within an equal piece of it. Batches without a sample are allowed; without enough
/// batches samples are taken as independent, and the interval says so. It is never narrower than
/// independent samples would make it.
///
/// # Errors
/// How many samples there are and how many it would take.
pub(crate) fn interval(
    pooled: &Distribution,
    batches: &[Histogram<u64>],
    p: f64,
) -> Result<Interval, TooFewSamples> {
    let count = pooled.count();
    if count < needed(p) {
        return Err(TooFewSamples { count, needed: needed(p) });
    }
    match ends(pooled, batches, p) {
        Ends { low_ns: Some(low_ns), high_ns: Some(high_ns), .. } => {
            Ok(Interval { low_ns, high_ns, method: method(batches) })
        }
        Ends { needed, .. } => Err(TooFewSamples { count, needed }),
    }
}

/// The ends of an interval, each where its rank lies among the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Lower end, ns: the quantile lies below with a probability of 2.5 %.
    pub(crate) low_ns: Option<u64>,
    /// Upper end, ns: the quantile lies above with a probability of 2.5 %.
    pub(crate) high_ns: Option<u64>,
    /// Samples that both ends take, at the dependence that these show; more than there are where
    /// one end is unknown.
    pub(crate) needed: u64,
}

/// The ends of the 95 % interval of quantile `p`, as `interval` finds both. Of a queue that grows
/// all the time, the last second of a run holds every slow request: no rank is high enough for an
/// upper end, and there is a lower one.
pub(crate) fn ends(pooled: &Distribution, batches: &[Histogram<u64>], p: f64) -> Ends {
    ends_with(pooled, batches, p, 0.025, NORMAL_5_PERCENT)
}

/// The same, each end wrong with a probability of `tail`.
pub(super) fn ends_at(
    pooled: &Distribution,
    batches: &[Histogram<u64>],
    p: f64,
    tail: f64,
) -> Ends {
    ends_with(pooled, batches, p, tail, normal_point(tail))
}

/// The same; `independent` is the normal distribution's point of the tail.
fn ends_with(
    pooled: &Distribution,
    batches: &[Histogram<u64>],
    p: f64,
    tail: f64,
    independent: f64,
) -> Ends {
    let by_batches =
        |spread: Spread| student_t_point(spread.degrees as u64, tail) * spread.index.sqrt();
    let count = pooled.count();
    if count == 0 {
        return Ends { low_ns: None, high_ns: None, needed: needed_with(p, independent) };
    }
    let width = spread(pooled, batches, p).map_or(independent, by_batches).max(independent);
    let n = count as f64;
    let half = width * (n * p * (1.0 - p)).sqrt();
    let (low, high) = ((n * p - half).floor(), (n * p + 1.0 + half).ceil());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to the count"
    )]
    let bucket = |rank: f64| (1.0..=n).contains(&rank).then(|| bucket_at(pooled, rank as u64));
    let (low, high) = (bucket(low), bucket(high));
    let both = low.is_some() && high.is_some();
    Ends {
        low_ns: low.map(|(low_ns, _)| low_ns),
        high_ns: high.map(|(_, high_ns)| high_ns),
        needed: if both {
            needed_with(p, independent)
        } else {
            needed_with(p, width).max(count + 1)
        },
    }
}

/// How much the batches' ranks of a quantile vary.
struct Spread {
    /// Their variance over that of independent samples: about 1 where they are.
    index: f64,
    /// Batches less one.
    degrees: usize,
}

/// How far the batches vary at quantile `p`; `None` when there are too few batches to tell.
fn spread(pooled: &Distribution, batches: &[Histogram<u64>], p: f64) -> Option<Spread> {
    let count: u64 = batches.iter().map(Histogram::len).sum();
    if method(batches) != Method::Batches || count == 0 {
        return None;
    }
    let (bucket_ns, _) = bucket_at(pooled, rank(p, pooled.count()));
    let sides: Vec<Sides> = groups(batches).map(|group| Sides::of(group, bucket_ns)).collect();
    let below: f64 = sides.iter().map(|sides| sides.below).sum();
    let within: f64 = sides.iter().map(|sides| sides.within).sum();
    // The bucket may hold most of all samples, where a service answers in constant time: the same
    // share of each batch's part of it counts as below, so that the shares of all batches add up to
    // p.
    let share = ((p * count as f64 - below) / within.max(1.0)).clamp(0.0, 1.0);
    let excess = |sides: &Sides| sides.below + share * sides.within - p * sides.count;
    let squares: f64 = sides.iter().map(|sides| excess(sides).powi(2)).sum();
    let degrees = sides.len() - 1;
    let variance = squares * sides.len() as f64 / degrees as f64;
    Some(Spread { index: variance / (count as f64 * p * (1.0 - p)), degrees })
}

/// The batches, neighbours joined where there are many.
pub(super) fn groups(batches: &[Histogram<u64>]) -> std::slice::Chunks<'_, Histogram<u64>> {
    batches.chunks(batches.len().div_ceil(BATCHES_MAX).max(1))
}

/// How many samples of a batch lie below the pooled quantile's bucket and within it.
struct Sides {
    below: f64,
    within: f64,
    count: f64,
}

impl Sides {
    /// `bucket_ns` is a value of the pooled bucket. The batches' own buckets may be wider: what
    /// counts as within is all of the one that holds the value, and what counts as below ends where
    /// that one begins.
    fn of(group: &[Histogram<u64>], bucket_ns: u64) -> Sides {
        let sum = |count: &dyn Fn(&Histogram<u64>) -> u64| group.iter().map(count).sum::<u64>();
        let below = |batch: &Histogram<u64>| {
            let below_ns = batch.lowest_equivalent(bucket_ns).checked_sub(1);
            below_ns.map_or(0, |high| batch.count_between(0, high))
        };
        Sides {
            below: sum(&below) as f64,
            within: sum(&|batch| batch.count_at(bucket_ns)) as f64,
            count: sum(&Histogram::len) as f64,
        }
    }
}

/// Lowest and highest value of the bucket that holds the sample of a rank from 1 to the count,
/// within the exact minimum and maximum. Beyond the range it is only known to lie between the end
/// of the range and the maximum.
fn bucket_at(distribution: &Distribution, rank: u64) -> (u64, u64) {
    let histogram = distribution.histogram();
    let (min_ns, max_ns) =
        (distribution.min_ns().unwrap_or(0), distribution.max_ns().unwrap_or(VALUE_MAX_NS));
    let mut seen = 0;
    for bucket in histogram.iter_recorded() {
        seen += bucket.count_since_last_iteration();
        if rank <= seen {
            let value_ns = bucket.value_iterated_to();
            let low_ns = histogram.lowest_equivalent(value_ns).max(min_ns);
            return (low_ns, histogram.highest_equivalent(value_ns).min(max_ns));
        }
    }
    (VALUE_MAX_NS, max_ns)
}

#[cfg(test)]
mod tests;
