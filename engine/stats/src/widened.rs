//! A confidence interval at a higher confidence than the reported 95 %, from the reported interval
//! alone.
//!
//! An interval is computed in ranks (see [`super::interval`]), and the histogram gives the ranks of
//! its ends back. Another confidence stretches them around the quantile's own rank, by the points
//! of the distribution that they come from.

use hdrhistogram::Histogram;

use super::interval::Method;
use super::statistics::{normal_point, student_t_point};

/// The fewest degrees of freedom of a spread between pieces of a run: those of five pieces. The
/// report doesn't state how many there were, and fewer stretch an interval further.
const DEGREES_MIN: u64 = 4;
/// The probability that an end of a 95 % interval is wrong.
const TAIL: f64 = 0.025;

/// The ends of the interval of quantile `p` of these values, ns, each wrong with probability
/// `tail`, from those at 95 %; `None` for an end whose rank is beyond the values.
pub fn widened(
    values: &Histogram<u64>,
    p: f64,
    [low_ns, high_ns]: [u64; 2],
    method: Option<Method>,
    tail: f64,
) -> [Option<u64>; 2] {
    let point = |tail| match method {
        Some(Method::OrderStatistics) => normal_point(tail),
        Some(Method::Batches) | None => student_t_point(DEGREES_MIN, tail),
    };
    let stretch = point(tail) / point(TAIL);
    let n = values.len() as f64;
    // An end stands for its bucket, and may be any of its values: the farthest counts.
    let below = if low_ns == 0 { 0 } else { values.count_between(0, low_ns - 1) } as f64;
    let up_to = values.count_between(0, high_ns) as f64;
    let stretched = |rank: f64| n * p + stretch * (rank - n * p);
    let at = |rank: f64| {
        let is_there = 1.0 <= rank && rank <= n;
        is_there.then(|| values.value_at_quantile((rank - 0.5) / n))
    };
    let (low, high) = (at(stretched(below).floor()), at(stretched(up_to).ceil()));
    [low.map(|ns| values.lowest_equivalent(ns)), high.map(|ns| values.highest_equivalent(ns))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;

    /// A thousand values from 1 to 1,000 µs, each once, and the interval between two of them.
    fn values([low_us, high_us]: [u64; 2]) -> (Histogram<u64>, [u64; 2]) {
        let mut all = Distribution::new();
        (1..=1_000).for_each(|us| all.record(us * 1_000));
        let all = all.histogram();
        let ends = [all.lowest_equivalent(low_us * 1_000), all.highest_equivalent(high_us * 1_000)];
        (all, ends)
    }

    /// The ranks 500 ± 1.96·√250, and 990 ± 1.96·√9.9.
    const OF_P50: [u64; 2] = [469, 532];
    const OF_P99: [u64; 2] = [983, 998];

    #[test]
    fn the_same_confidence_is_the_same_interval() {
        let (all, [low_ns, high_ns]) = values(OF_P50);
        let ends = widened(&all, 0.5, [low_ns, high_ns], Some(Method::OrderStatistics), TAIL);
        let [low, high] = ends.map(|end| end.expect("far from the ends"));
        assert!(low <= low_ns && low_ns - low <= 2_000, "{low} {low_ns}");
        assert!(high_ns <= high && high - high_ns <= 2_000, "{high} {high_ns}");
    }

    #[test]
    fn more_confidence_is_a_wider_interval_and_finally_none() {
        let (all, found) = values(OF_P50);
        let half = |method, tail| {
            let [low, high] = widened(&all, 0.5, found, Some(method), tail);
            low.zip(high).map(|(low, high)| (high - low) as f64 / 2e3)
        };
        // 31 ranks, and 3.48·√250 = 55 with a tail of 5 % among a hundred.
        let ranks = half(Method::OrderStatistics, 0.000_25).expect("far from the ends");
        assert!((54.0..59.0).contains(&ranks), "{ranks}");
        assert!(half(Method::Batches, 0.000_25).is_some_and(|of_five| 1.5 * ranks < of_five));
        let (all, found) = values(OF_P99);
        assert_eq!(widened(&all, 0.99, found, Some(Method::Batches), 0.000_25)[1], None);
    }
}
