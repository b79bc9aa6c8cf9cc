//! Test statistics: Kolmogorov–Smirnov distance, autocorrelation, index of dispersion, and points
//! of the usual distributions.
//!
//! Pure functions, each with its formula and source.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF as _, Normal, StudentsT};
use statrs::function::beta::beta_reg;
use statrs::function::gamma::gamma_li;

use super::offer::Streams;

/// Critical value of `√n·D` at 1 %, two-sided, for large n (Smirnov 1948): [`kolmogorov_p`] gives
/// 0.01 there.
pub(super) const KOLMOGOROV_1_PERCENT: f64 = 1.628;
/// Two-sided 1 % point of the normal distribution: `|r|·√n` of independent values stays below it 99
/// times of 100.
pub(super) const NORMAL_1_PERCENT: f64 = 2.576;

/// Probability that `n` values of the supposed distribution lie at least `distance` away from it.
///
/// Kolmogorov's limit at `λ = (√n + 0.12 + 0.11/√n)·D`, Stephens' correction for finite n (Stephens
/// 1970), good from n = 5: `2·Σ (−1)^(j−1)·e^(−2j²λ²)`, and for small λ, where that series
/// converges slowly, the same function in its other form, `1 − √(2π)/λ · Σ e^(−(2j−1)²π²/(8λ²))`.
pub(super) fn kolmogorov_p(distance: f64, n: u64) -> f64 {
    let root = (n as f64).sqrt();
    let lambda = (root + 0.12 + 0.11 / root) * distance;
    // Below this the probability differs from 1 by less than 10⁻¹².
    if lambda < 0.2 {
        return 1.0;
    }
    // Four terms of either form are exact to double precision on their side of the border.
    let p = if lambda < 1.18 {
        let exponent = std::f64::consts::PI.powi(2) / (8.0 * lambda * lambda);
        let terms: f64 = [1.0_f64, 3.0, 5.0, 7.0].iter().map(|j| (-j * j * exponent).exp()).sum();
        1.0 - (2.0 * std::f64::consts::PI).sqrt() / lambda * terms
    } else {
        let term = |j: f64| (-2.0 * j * j * lambda * lambda).exp();
        2.0 * (term(1.0) - term(2.0) + term(3.0) - term(4.0))
    };
    p.clamp(0.0, 1.0)
}

/// Sums over pairs of neighbours in one or more streams of whole numbers, for their lag-1
/// autocorrelation.
///
/// The sums are integers, so that merging is exact in any order and a year of gaps loses no digit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PairSums {
    pairs: u64,
    first: u128,
    second: u128,
    first_squares: u128,
    second_squares: u128,
    products: u128,
}

impl PairSums {
    /// Adds a value and its successor.
    #[inline]
    pub(super) fn add(&mut self, first: u64, second: u64) {
        let (first, second) = (u128::from(first), u128::from(second));
        self.pairs += 1;
        self.first += first;
        self.second += second;
        self.first_squares += first * first;
        self.second_squares += second * second;
        self.products += first * second;
    }

    /// Adds another stream's pairs.
    pub(super) fn merge(&mut self, other: &PairSums) {
        self.pairs += other.pairs;
        self.first += other.first;
        self.second += other.second;
        self.first_squares += other.first_squares;
        self.second_squares += other.second_squares;
        self.products += other.products;
    }

    /// How many pairs were added.
    pub(super) fn pairs(&self) -> u64 {
        self.pairs
    }

    /// Pearson's correlation of a value with its successor. `None` without pairs, or when all
    /// values are the same.
    pub(super) fn correlation(&self) -> Option<f64> {
        let first = self.centred(self.first_squares, self.first, self.first)?;
        let second = self.centred(self.second_squares, self.second, self.second)?;
        let both = self.centred(self.products, self.first, self.second)?;
        (0.0 < first && 0.0 < second).then(|| both / (first.sqrt() * second.sqrt()))
    }

    /// `Σxy − Σx·Σy/n`, rounded to one; subtracted as integers, because the two are close to each
    /// other.
    fn centred(&self, products: u128, one: u128, other: u128) -> Option<f64> {
        let expected = (one * other).checked_div(u128::from(self.pairs))?;
        Some(if expected <= products {
            (products - expected) as f64
        } else {
            -((expected - products) as f64)
        })
    }
}

/// How far counts in equal windows vary beyond or below chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dispersion {
    /// Windows counted.
    pub windows: u64,
    /// Variance of the counts over their mean: 1 for a Poisson process, 0 for a constant one.
    pub index: f64,
}

/// The index of dispersion of counts, `s²/x̄` (Fisher 1925; Cox and Lewis 1966, for point
/// processes). `None` below two windows or when nothing was counted.
///
/// Under a Poisson process `(m−1)·index` is nearly χ² with m−1 degrees of freedom, so the index has
/// a standard deviation of [`dispersion_deviation`].
pub fn index_of_dispersion(counts: impl IntoIterator<Item = u64>) -> Option<Dispersion> {
    let (mut windows, mut sum, mut squares) = (0_u64, 0_u128, 0_u128);
    for count in counts {
        windows += 1;
        sum += u128::from(count);
        squares += u128::from(count) * u128::from(count);
    }
    if windows < 2 || sum == 0 {
        return None;
    }
    let spread = u128::from(windows) * squares - sum * sum;
    Some(Dispersion { windows, index: spread as f64 / ((windows - 1) as f64 * sum as f64) })
}

/// Standard deviation of the index of dispersion of a Poisson process over `windows` windows:
/// `√(2/(m−1))`.
pub fn dispersion_deviation(windows: u64) -> f64 {
    (2.0 / (windows as f64 - 1.0)).sqrt()
}

/// The point of the standard normal distribution that is exceeded with probability `p`.
pub(super) fn normal_point(p: f64) -> f64 {
    -Normal::standard().inverse_cdf(p)
}

/// The point of Student's t with so many degrees of freedom that is exceeded with probability `p`.
pub(super) fn student_t_point(degrees: u64, p: f64) -> f64 {
    let t = StudentsT::new(0.0, 1.0, degrees as f64).expect("at least one degree of freedom");
    -t.inverse_cdf(p)
}

/// The point of the beta distribution with these shapes, both above 0, below which it stays with
/// probability `p`: by bisection, since the inverse that `statrs` has bounds its steps by nothing.
pub(super) fn beta_point(a: f64, b: f64, p: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // The shares of errors that a run can tell from 0 are far above 2⁻⁶⁴.
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if beta_reg(a, b, middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The point of χ² with so many degrees of freedom below which it stays with probability `p`.
pub(super) fn chi_squared_point(degrees: u64, p: f64) -> f64 {
    ChiSquared::new(degrees as f64).expect("at least one degree of freedom").inverse_cdf(p)
}

/// The recorded buckets of a histogram: lowest value, highest value and count of each.
fn buckets(histogram: &Histogram<u64>) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
    histogram.iter_recorded().map(|bucket| {
        let value = bucket.value_iterated_to();
        (
            histogram.lowest_equivalent(value),
            histogram.highest_equivalent(value),
            bucket.count_since_last_iteration(),
        )
    })
}

/// Largest difference of two histograms' distribution functions, at the edges of their buckets
/// (Smirnov's two-sample distance, short by what hides within one bucket). `None` when either is
/// empty.
pub(super) fn ks_between(one: &Histogram<u64>, other: &Histogram<u64>) -> Option<f64> {
    if one.is_empty() || other.is_empty() {
        return None;
    }
    let mut ones = buckets(one).peekable();
    let mut others = buckets(other).peekable();
    let (mut one_seen, mut other_seen, mut distance) = (0, 0, 0.0_f64);
    loop {
        let edge = match (ones.peek(), others.peek()) {
            (Some((_, a, _)), Some((_, b, _))) => *a.min(b),
            (Some((_, edge, _)), None) | (None, Some((_, edge, _))) => *edge,
            (None, None) => return Some(distance),
        };
        if let Some((_, _, count)) = ones.next_if(|(_, high, _)| *high == edge) {
            one_seen += count;
        }
        if let Some((_, _, count)) = others.next_if(|(_, high, _)| *high == edge) {
            other_seen += count;
        }
        let difference =
            one_seen as f64 / one.len() as f64 - other_seen as f64 / other.len() as f64;
        distance = distance.max(difference.abs());
    }
}

/// Kolmogorov's distance of a histogram of gaps between the events of Poisson processes with these
/// rates, which were watched for `within`, at the edges of its buckets. `None` when it is empty.
///
/// A gap is seen only if both of its events are within the watch, which cuts long ones off: the
/// density of the gaps seen is `∝ (T − x)·e^(−λx)`, and that of all gaps only where T is infinite.
/// Of processes with different rates, each has the part of the gaps that it has on average,
/// `∝ λT − 1 + e^(−λT)`.
///
/// A gap of h whole units stands for one between h − ½ and h + ½. What hides within a bucket makes
/// the distance too small by at most 0.0004 (the largest share that a bucket 0.1 % wide has of an
/// exponential distribution), so its p-value errs towards the schedule.
pub(super) fn ks_histogram_gaps(
    histogram: &Histogram<u64>,
    streams: &[Streams],
    within: f64,
) -> Option<f64> {
    let n = histogram.len() as f64;
    let gaps = |stream: &Streams| {
        let events = stream.per_ns * within;
        stream.shards as f64 * (events + (-events).exp_m1())
    };
    let all: f64 = streams.iter().map(gaps).sum();
    let cdf = |x: f64| match streams {
        [only] => gaps_cdf(x, only.per_ns, within),
        several => several
            .iter()
            .map(|stream| gaps(stream) / all * gaps_cdf(x, stream.per_ns, within))
            .sum(),
    };
    let (mut seen, mut distance) = (0, None);
    for (low, high, count) in buckets(histogram) {
        let before = cdf(low as f64 - 0.5) - seen as f64 / n;
        seen += count;
        let after = seen as f64 / n - cdf(high as f64 + 0.5);
        distance = Some(distance.unwrap_or(0.0_f64).max(before.abs()).max(after.abs()));
    }
    distance
}

/// `∫₀ˣ (T − u)·e^(−λu) du` over the same up to T.
fn gaps_cdf(x: f64, rate: f64, within: f64) -> f64 {
    let events = rate * within;
    let y = rate * x.clamp(0.0, within);
    let below = (1.0 - 1.0 / events) * -(-y).exp_m1() + y / events * (-y).exp();
    below / (1.0 - 1.0 / events + (-events).exp() / events)
}

/// The correlation of neighbouring gaps between the events of Poisson processes that are watched
/// for as long as `events` of them take on average. Of a pair with the sum s the watch sees
/// `∝ T − s`: a long gap leaves less room for its neighbour. 0 without a watch.
pub(super) fn gaps_correlation(events: f64) -> f64 {
    if events <= 0.0 || !events.is_finite() {
        return 0.0;
    }
    // The sum of two gaps has the density s·(t − s)·e⁻ˢ; each of the two is uniform within it.
    let moment = |k: f64| events * gamma_li(k + 2.0, events) - gamma_li(k + 3.0, events);
    let (mean, squares) = (moment(1.0) / moment(0.0), moment(2.0) / moment(0.0));
    let square = mean * mean / 4.0;
    (squares / 6.0 - square) / (squares / 3.0 - square)
}

#[cfg(test)]
mod tests;
