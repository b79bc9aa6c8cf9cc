//! The latency of a target by closed form, and the band in which an honest percentile lies.

/// Standard deviations by which a percentile may differ from the truth: one in 16,000 differs by
/// more by chance.
const DEVIATIONS: f64 = 4.0;
/// The share by which a percentile may differ: a histogram's bucket.
const BUCKET: f64 = 0.01;

/// A target that holds each request for `base_ms`, a share of them `extra_ms` longer, and those that
/// arrive in a freeze of `freeze_ms` first until its end. Arrivals are spread evenly over
/// `length_ms`.
///
/// With `G(w) = 1 − max(0, S − w)/T` for the wait for the freeze's end, `F(x) = (1−p)·G(x − base) +
/// p·G(x − base − extra)`. Without a tail, `R_q = base` for `q ≤ 1 − S/T`, else `base + S − T(1−q)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hold {
    /// d0, ms.
    pub base_ms: f64,
    /// p.
    pub tail_fraction: f64,
    /// D, ms.
    pub extra_ms: f64,
    /// S, ms.
    pub freeze_ms: f64,
    /// T, ms.
    pub length_ms: f64,
}

/// The range in which an estimate agrees with the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// The lowest.
    pub low: f64,
    /// The truth.
    pub truth: f64,
    /// The highest.
    pub high: f64,
}

impl Band {
    /// No other value is right.
    pub fn exactly(truth: f64) -> Band {
        Band { low: truth, truth, high: truth }
    }
}

impl Hold {
    /// The share of requests answered within `latency_ms`; `waited` is the share of them that waits
    /// at most so many ms for freezes.
    fn share_within(&self, latency_ms: f64, waited: impl Fn(f64) -> f64) -> f64 {
        let waited = |wait_ms: f64| if wait_ms < 0.0 { 0.0 } else { waited(wait_ms) };
        let wait_ms = latency_ms - self.base_ms;
        (1.0 - self.tail_fraction) * waited(wait_ms)
            + self.tail_fraction * waited(wait_ms - self.extra_ms)
    }

    /// The latency at quantile `q`, ms.
    pub fn quantile_ms(&self, q: f64) -> f64 {
        let frozen = |wait_ms: f64| 1.0 - (self.freeze_ms - wait_ms).max(0.0) / self.length_ms;
        self.quantile_of_waits_ms(q, frozen)
    }

    /// The same if requests don't wait for one freeze: `waited` is the share of them that waits at
    /// most so many ms, and none waits longer than `freeze_ms`. By bisection, since a tail leaves no
    /// closed inverse.
    pub fn quantile_of_waits_ms(&self, q: f64, waited: impl Fn(f64) -> f64) -> f64 {
        let share_within = |latency_ms| self.share_within(latency_ms, &waited);
        // The least difference of two ranks that isn't rounding.
        let rank = q.clamp(0.0, 1.0) - 1e-12;
        let (mut low_ms, mut high_ms) =
            (self.base_ms, self.base_ms + self.extra_ms + self.freeze_ms);
        if rank <= share_within(low_ms) {
            return low_ms;
        }
        // 100 halvings leave less than a double can hold.
        for _ in 0..100 {
            let middle_ms = low_ms.midpoint(high_ms);
            if rank <= share_within(middle_ms) {
                high_ms = middle_ms;
            } else {
                low_ms = middle_ms;
            }
        }
        high_ms
    }

    /// The band of quantile `q` of this many requests: the quantiles at both ends of the score
    /// interval (Wilson) of its rank, which unlike `q ± 4·sqrt(q(1−q)/n)` holds for few requests
    /// beyond `q` as well, and a histogram's bucket.
    pub fn band(&self, q: f64, requests: f64) -> Band {
        let z2 = DEVIATIONS * DEVIATIONS / requests;
        let middle = (q + z2 / 2.0) / (1.0 + z2);
        let reach = (z2 * q * (1.0 - q) + z2 * z2 / 4.0).sqrt() / (1.0 + z2);
        Band {
            low: self.quantile_ms(middle - reach) * (1.0 - BUCKET),
            truth: self.quantile_ms(q),
            high: self.quantile_ms(middle + reach) * (1.0 + BUCKET),
        }
    }
}

/// The index of dispersion of counts, variance over mean, in windows of this many counts; and how
/// many windows there were.
pub(crate) fn dispersion(counts: &[u32], window: usize) -> (f64, usize) {
    let sums: Vec<f64> = counts
        .chunks_exact(window)
        .map(|chunk| chunk.iter().map(|count| f64::from(*count)).sum())
        .collect();
    let n = sums.len() as f64;
    let mean = sums.iter().sum::<f64>() / n;
    let variance = sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (variance / mean, sums.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREEZE: Hold = Hold {
        base_ms: 1.0,
        tail_fraction: 0.0,
        extra_ms: 0.0,
        freeze_ms: 50.0,
        length_ms: 1_000.0,
    };

    fn check(hold: Hold, expected: [(f64, f64); 5]) {
        for (q, ms) in expected {
            let found = hold.quantile_ms(q);
            assert!((found - ms).abs() < 6e-4, "{hold:?} at {q}: {found}, not {ms}");
        }
    }

    #[test]
    fn a_freeze_alone_and_with_a_tail_has_the_known_quantiles() {
        check(FREEZE, [(0.5, 1.0), (0.9, 1.0), (0.95, 1.0), (0.99, 41.0), (0.999, 50.0)]);
        let tail = Hold { tail_fraction: 0.005, extra_ms: 200.0, ..FREEZE };
        check(tail, [(0.5, 1.0), (0.9, 1.0), (0.95, 5.774), (0.99, 45.975), (0.999, 201.0)]);
    }

    #[test]
    fn a_band_reaches_four_deviations_to_both_sides() {
        // On the ramp, a deviation is P·sqrt(q(1−q)/n): 0.287 ms at p99 of 120,000.
        let band = FREEZE.band(0.99, 120_000.0);
        let deviations = |ms: f64| (ms - 41.0) / 0.287_2;
        assert!((-5.8..-5.2).contains(&deviations(band.low)), "{band:?}");
        assert!((5.1..5.7).contains(&deviations(band.high)), "{band:?}");
        // Where all requests take the same time, chance moves nothing.
        assert_eq!(FREEZE.band(0.5, 1_000.0), Band { low: 0.99, truth: 1.0, high: 1.01 });
    }

    #[test]
    fn dispersion_is_none_at_equal_gaps_and_the_size_of_a_batch() {
        assert_eq!(dispersion(&[1; 1_000], 10), (0.0, 100));
        // Ten at once in every tenth window: the variance is nearly nine times the mean.
        let batches: Vec<u32> = (0..1_000).map(|at| if at % 10 == 0 { 10 } else { 0 }).collect();
        let (index, windows) = dispersion(&batches, 1);
        assert!((8.9..9.1).contains(&index) && windows == 1_000, "{index}");
    }
}
