//! Whether a process is Poisson of rate 1: goodness of fit of its count, gaps and times, and the
//! dependence of neighbouring gaps.

use std::ops::Range;

/// How far a stretch of a process is from Poisson of rate 1: figures of about 1, larger is worse,
/// infinite if they can't be computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitProcess {
    /// Its number of events minus the length of the stretch, in standard deviations.
    pub number: f64,
    /// √n times the Kolmogorov distance of its gaps from the exponential distribution of mean 1.
    pub gaps: f64,
    /// Anderson and Darling's A² of its gaps from the exponential distribution of any mean.
    pub shape: f64,
    /// √n times the Kolmogorov distance of its times from the uniform distribution over the
    /// stretch, which the times of a Poisson process have, given their number.
    pub uniform: f64,
    /// √n times the absolute correlation of each gap with the next, by their probabilities: the
    /// variance of the gaps themselves would come from a few long ones.
    pub lag1: f64,
}

/// Gaps between equal doubles are replaced by this.
const SHORTEST_GAP: f64 = 1e-9;

impl UnitProcess {
    /// A process beyond these figures isn't Poisson. In a stretch of 100 events or more, one that
    /// is exceeds each of them with a probability of at most about 10⁻⁹: by Massart's bound
    /// 2·e^(−2x²) of √n·D at any n, by the normal and the Poisson distribution, and for A² by its
    /// limit's tail, which falls as e^(−2.16·x) and is 10⁻¹² at 12.
    pub const IMPOSSIBLE: UnitProcess =
        UnitProcess { number: 7.0, gaps: 3.3, shape: 12.0, uniform: 3.3, lag1: 6.2 };

    /// The figures of these times in a stretch, in any order; they are sorted in place.
    pub fn new(times: &mut [f64], stretch: &Range<f64>) -> UnitProcess {
        times.sort_unstable_by(f64::total_cmp);
        let length = stretch.end - stretch.start;
        let gap = |pair: &[f64]| (pair[1] - pair[0]).max(SHORTEST_GAP);
        let mut gaps: Vec<f64> = times.windows(2).map(gap).collect();
        let scores: Vec<f64> = gaps.iter().map(|gap| exponential(*gap)).collect();
        let lag1 = correlation(scores.iter().copied().zip(scores.iter().copied().skip(1)));
        gaps.sort_unstable_by(f64::total_cmp);
        let root = (gaps.len() as f64).sqrt();
        let uniform = ks_distance(times, |time| ((time - stretch.start) / length).clamp(0.0, 1.0));
        UnitProcess {
            number: (times.len() as f64 - length).abs() / length.sqrt(),
            gaps: ks_distance(&gaps, exponential).map_or(f64::INFINITY, |distance| root * distance),
            shape: anderson_darling_exponential(&gaps).unwrap_or(f64::INFINITY),
            uniform: uniform
                .map_or(f64::INFINITY, |distance| (times.len() as f64).sqrt() * distance),
            lag1: lag1.map_or(f64::INFINITY, |r| root * r.abs()),
        }
    }

    /// The worse of each figure.
    pub fn or_worse(&self, other: &UnitProcess) -> UnitProcess {
        UnitProcess {
            number: self.number.max(other.number),
            gaps: self.gaps.max(other.gaps),
            shape: self.shape.max(other.shape),
            uniform: self.uniform.max(other.uniform),
            lag1: self.lag1.max(other.lag1),
        }
    }

    /// The figures by name.
    pub fn figures(&self) -> [(&'static str, f64); 5] {
        [
            ("number, in deviations", self.number),
            ("gaps, √n·D from exponential", self.gaps),
            ("gaps, A² from exponential", self.shape),
            ("times, √n·D from uniform", self.uniform),
            ("lag-1 autocorrelation, √n·r", self.lag1),
        ]
    }
}

/// The probability of a gap up to this length, `1 − e⁻ˣ`.
fn exponential(gap: f64) -> f64 {
    -(-gap).exp_m1()
}

/// Kolmogorov's one-sample distance `D = max(i/n − F(xᵢ), F(xᵢ) − (i−1)/n)` of sorted values from
/// the distribution function `cdf` (Kolmogorov 1933). `None` without values.
fn ks_distance(sorted: &[f64], cdf: impl Fn(f64) -> f64) -> Option<f64> {
    let n = sorted.len() as f64;
    let distance = |(before, value): (usize, &f64)| {
        let expected = cdf(*value);
        ((before as f64 + 1.0) / n - expected).max(expected - before as f64 / n)
    };
    sorted.iter().enumerate().map(distance).reduce(f64::max)
}

/// Anderson and Darling's A² of sorted values, all above zero, from the exponential distribution
/// whose scale is their mean, times `1 + 0.6/n` (Stephens 1974, case of the estimated scale): `A² =
/// −n − (1/n)·Σ (2i−1)·(ln F(xᵢ) + ln(1 − F(xₙ₊₁₋ᵢ)))`. `None` without values.
fn anderson_darling_exponential(sorted: &[f64]) -> Option<f64> {
    if sorted.is_empty() {
        return None;
    }
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    let weighted = |(before, (low, high)): (usize, (&f64, &f64))| {
        // ln(1 − F(x)) of the exponential is −x/mean.
        (2 * before + 1) as f64 * (exponential(low / mean).ln() - high / mean)
    };
    let sum: f64 = sorted.iter().zip(sorted.iter().rev()).enumerate().map(weighted).sum();
    Some((-n - sum / n) * (1.0 + 0.6 / n))
}

/// Pearson's correlation. `None` without pairs, or if one side doesn't vary.
fn correlation(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Option<f64> {
    let n = pairs.clone().count() as f64;
    let sum = |(ones, others), (one, other)| (ones + one, others + other);
    let (ones, others) = pairs.clone().fold((0.0, 0.0), sum);
    let (one_mean, other_mean) = (ones / n, others / n);
    let (mut ones, mut others, mut both) = (0.0, 0.0, 0.0);
    for (one, other) in pairs {
        let (one, other) = (one - one_mean, other - other_mean);
        ones += one * one;
        others += other * other;
        both += one * other;
    }
    (0.0 < ones && 0.0 < others).then(|| both / (ones.sqrt() * others.sqrt()))
}

#[cfg(test)]
mod generator_tests;
#[cfg(test)]
mod tests;
