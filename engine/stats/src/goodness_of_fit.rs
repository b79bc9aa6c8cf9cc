//! Goodness of fit of raw samples: how far they lie from a distribution. Only tests need it; a run
//! has histograms.

/// Critical value at 1 % of [`anderson_darling_exponential`] (Stephens 1974; D'Agostino and
/// Stephens 1986, table 4.14).
pub(super) const ANDERSON_DARLING_1_PERCENT: f64 = 1.957;

/// Kolmogorov's one-sample distance `D = max(i/n − F(xᵢ), F(xᵢ) − (i−1)/n)` of sorted values from
/// the distribution function `cdf` (Kolmogorov 1933). `None` when there are no values.
pub(super) fn ks_distance(sorted: &[f64], cdf: impl Fn(f64) -> f64) -> Option<f64> {
    let n = sorted.len() as f64;
    let distance = |(before, value): (usize, &f64)| {
        let expected = cdf(*value);
        ((before as f64 + 1.0) / n - expected).max(expected - before as f64 / n)
    };
    sorted.iter().enumerate().map(distance).reduce(f64::max)
}

/// [`ks_distance`] from the exponential distribution `F(x) = 1 − e^(−rate·x)` of a known rate.
pub(super) fn ks_exponential(sorted: &[f64], rate: f64) -> Option<f64> {
    ks_distance(sorted, |x| -(-rate * x.max(0.0)).exp_m1())
}

/// [`ks_distance`] from the uniform distribution on [low, high].
pub(super) fn ks_uniform(sorted: &[f64], low: f64, high: f64) -> Option<f64> {
    ks_distance(sorted, |x| ((x - low) / (high - low)).clamp(0.0, 1.0))
}

/// Anderson and Darling's A² of sorted values, all above zero, from the exponential distribution
/// whose scale is their mean, times `1 + 0.6/n` (Stephens 1974, case of the estimated scale): `A² =
/// −n − (1/n)·Σ (2i−1)·(ln F(xᵢ) + ln(1 − F(xₙ₊₁₋ᵢ)))`. `None` when there are no values.
pub(super) fn anderson_darling_exponential(sorted: &[f64]) -> Option<f64> {
    if sorted.is_empty() {
        return None;
    }
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    let weighted = |(before, (low, high)): (usize, (&f64, &f64))| {
        // ln(1 − F(x)) of the exponential is −x/mean.
        (2 * before + 1) as f64 * ((-(-low / mean).exp_m1()).ln() - high / mean)
    };
    let sum: f64 = sorted.iter().zip(sorted.iter().rev()).enumerate().map(weighted).sum();
    Some((-n - sum / n) * (1.0 + 0.6 / n))
}
