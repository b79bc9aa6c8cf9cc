//! Test statistics: the index of dispersion, and points of the usual distributions.
//!
//! Pure functions, each with its formula and source.

use statrs::distribution::{ChiSquared, ContinuousCDF as _, Normal, StudentsT};
use statrs::function::beta::beta_reg;

/// Critical value of `√n·D` at 1 %, two-sided, for large n (Smirnov 1948).
pub(super) const KOLMOGOROV_1_PERCENT: f64 = 1.628;
/// Two-sided 1 % point of the normal distribution: `|r|·√n` of independent values stays below it 99
/// times in 100.
pub(super) const NORMAL_1_PERCENT: f64 = 2.576;

/// How counts in equal windows vary compared with chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dispersion {
    /// The number of windows.
    pub windows: u64,
    /// Variance of the counts over their mean: 1 for a Poisson process, 0 for a constant one.
    pub index: f64,
}

/// The index of dispersion of counts in windows, each with its expected count, or a number
/// proportional to it: `Σ(n − ê)²/(m−1)` over the mean count, ê the expected counts scaled to the
/// total. If all windows expect the same, that is `s²/x̄` (Fisher 1925; Cox and Lewis 1966, for
/// point processes). `None` below two windows, or if nothing was expected or counted.
///
/// For a Poisson process `(m−1)·index` is nearly χ² with m−1 degrees of freedom, so the index has a
/// standard deviation of [`dispersion_deviation`], somewhat more if the rate changes.
pub fn index_of_dispersion(windows: &[(u64, f64)]) -> Option<Dispersion> {
    let counted: u64 = windows.iter().map(|(count, _)| count).sum();
    let expected: f64 = windows.iter().map(|(_, expected)| expected).sum();
    if windows.len() < 2 || counted == 0 || expected <= 0.0 {
        return None;
    }
    let counted = counted as f64;
    let square = |(count, each): &(u64, f64)| (*count as f64 - counted * each / expected).powi(2);
    let squares: f64 = windows.iter().map(square).sum();
    let m = windows.len() as f64;
    let index = squares / (m - 1.0) / (counted / m);
    Some(Dispersion { windows: windows.len() as u64, index })
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

/// The point of Student's t with these degrees of freedom that is exceeded with probability `p`.
pub(super) fn student_t_point(degrees: u64, p: f64) -> f64 {
    let t = StudentsT::new(0.0, 1.0, degrees as f64).expect("at least one degree of freedom");
    -t.inverse_cdf(p)
}

/// The `p` quantile of the beta distribution with these shapes, both above 0: by bisection, since
/// `statrs`'s inverse doesn't bound its steps.
pub(super) fn beta_point(a: f64, b: f64, p: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // The error shares that a run can tell from 0 are far above 2⁻⁶⁴.
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

/// The `p` quantile of χ² with these degrees of freedom.
pub(super) fn chi_squared_point(degrees: u64, p: f64) -> f64 {
    ChiSquared::new(degrees as f64).expect("at least one degree of freedom").inverse_cdf(p)
}

/// The probability that χ² with these degrees of freedom exceeds a value.
pub(super) fn chi_squared_tail(degrees: u64, value: f64) -> f64 {
    ChiSquared::new(degrees as f64).expect("at least one degree of freedom").sf(value)
}

#[cfg(test)]
mod tests;
