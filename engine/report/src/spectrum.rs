//! The percentile spectrum: a distribution from its median to its maximum, with the confidence
//! interval of each point that has enough values for one.

use hdrhistogram::Histogram;
use stats::distribution::{Distribution, INTERVAL_DIGITS, histogram_of_text};
use stats::interval::interval;
use stats::percentiles::PERCENTILES;
use stats::pieces::Pieces;
use units::us_to_ns;

use super::report::{DistributionPart, HistogramError, Report};

/// Points per decade, such as from p90 to p99.
const PER_DECADE: i32 = 12;

/// One point of a spectrum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The percentile as one request in so many that takes longer: 100 for p99. At the maximum, the
    /// total number of requests.
    pub one_in: f64,
    /// Its latency, microseconds.
    pub us: f64,
    /// Its 95 % confidence interval, microseconds; `None` if there are too few values, or if the
    /// report has no intervals for this distribution.
    pub interval: Option<[f64; 2]>,
}

/// The spectrum of one of a report's distributions, without intervals.
///
/// # Errors
/// Its histogram can't be decoded.
pub fn spectrum(part: &DistributionPart) -> Result<Vec<Point>, HistogramError> {
    points(part, None)
}

impl Report {
    /// The spectrum of the corrected latencies, with intervals as the report states them.
    ///
    /// # Errors
    /// A histogram of the distribution or of the run over time can't be decoded.
    pub fn corrected_spectrum(&self) -> Result<Vec<Point>, HistogramError> {
        let part = &self.whole.corrected;
        if part.percentiles.method.is_none() {
            return points(part, None);
        }
        let intervals = self.series.intervals.iter();
        let intervals =
            intervals.map(|interval| histogram_of_text(&interval.histogram, INTERVAL_DIGITS));
        let intervals: Vec<Histogram<u64>> = intervals.collect::<Result<_, HistogramError>>()?;
        let pieces = Pieces::new(intervals, self.series.interval_s);
        points(part, Some(&pieces.lasting(self.config.window_s())))
    }
}

/// The points of a distribution, with intervals if the pieces of its run are given.
fn points(
    part: &DistributionPart,
    pieces: Option<&Pieces<Histogram<u64>>>,
) -> Result<Vec<Point>, HistogramError> {
    let (Some(min), Some(max)) = (part.min, part.max) else { return Ok(Vec::new()) };
    let ends = (us_to_ns(min), us_to_ns(max));
    let whole = Distribution::of_document(&part.decode_histogram()?, part.overflow, ends);
    let all = part.count as f64;
    let steps = (0..).map(|step| 10_f64.powf(f64::from(step) / f64::from(PER_DECADE)));
    let stated = PERCENTILES.iter().map(|known| 1.0 / (1.0 - known.q));
    let mut places: Vec<f64> = steps.take_while(|one_in| *one_in < all).collect();
    places.extend(stated.filter(|one_in| *one_in < all));
    places.sort_by(f64::total_cmp);
    // A reported percentile replaces the step that it coincides with.
    places.dedup_by(|one, other| (*one / *other - 1.0).abs() < 1e-6);
    let us = |ns: u64| ns as f64 / 1e3;
    let point = |one_in: f64| {
        let q = 1.0 - 1.0 / one_in;
        // The smallest value has no interval.
        let pieces = pieces.filter(|_| 0.0 < q);
        let found = pieces.and_then(|pieces| interval(&whole, pieces, q).ok());
        let interval = found.map(|found| [us(found.low_ns), us(found.high_ns)]);
        whole.quantile_ns(q).map(|ns| Point { one_in, us: us(ns), interval })
    };
    let maximum = Point { one_in: all, us: max, interval: None };
    Ok(places.into_iter().filter_map(point).chain([maximum]).collect())
}

#[cfg(test)]
mod tests {
    use stats::distribution::empty_histogram;

    use super::*;

    /// Values from 1 µs to `count` µs.
    fn ascending(count: u64) -> DistributionPart {
        let mut whole = Distribution::new();
        (1..=count).for_each(|us| whole.record(us * 1_000));
        DistributionPart::alone(&whole, Some(false))
    }

    #[test]
    fn it_rises_to_the_exact_maximum() {
        let points = spectrum(&ascending(100_000)).expect("it is a histogram");
        let last = *points.last().expect("a point");
        assert_eq!(last, Point { one_in: 1e5, us: 1e5, interval: None });
        assert!(points.is_sorted_by(|one, other| one.one_in < other.one_in && one.us <= other.us));
        for (one_in, us) in [(2.0, 50_000.0), (10.0, 90_000.0), (1e3, 99_900.0), (1e4, 99_990.0)] {
            let near = points.iter().find(|point| (point.one_in / one_in - 1.0).abs() < 1e-6);
            let near = near.unwrap_or_else(|| panic!("1 in {one_in} has a point"));
            assert!((near.us / us - 1.0).abs() < 1e-3, "{near:?}");
        }
    }

    #[test]
    fn few_values_are_a_short_spectrum_and_none_is_none() {
        assert_eq!(spectrum(&ascending(1)).expect("it is a histogram").len(), 1);
        assert_eq!(spectrum(&ascending(0)).expect("it is a histogram"), []);
        let broken = DistributionPart { histogram: "?".to_owned(), ..ascending(5) };
        assert!(spectrum(&broken).is_err());
    }

    #[test]
    fn points_have_the_intervals_that_are_stated() {
        let mut whole = Distribution::new();
        let mut pieces = vec![empty_histogram(INTERVAL_DIGITS); 40];
        for us in 1..=10_000 {
            whole.record(us * 1_000);
            let piece = &mut pieces[usize::try_from(us % 40).expect("small")];
            piece.record(us * 1_000).expect("in range");
        }
        let pieces = Pieces::new(pieces, 0.125);
        let part = DistributionPart::new(&whole, &pieces);
        let points = points(&part, Some(&pieces)).expect("it is a histogram");
        for (quantile, stated) in part.percentiles.iter().filter(|(_, of)| of.interval.is_some()) {
            let one_in = 1.0 / (1.0 - quantile.q);
            let point = points.iter().find(|point| (point.one_in / one_in - 1.0).abs() < 1e-6);
            let found = point.and_then(|point| point.interval);
            assert_eq!(found, stated.interval, "{}", quantile.label);
        }
        assert!(points.last().is_some_and(|point| point.interval.is_none()), "{points:?}");
    }
}
