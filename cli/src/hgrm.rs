//! The percentiles of a run's corrected latencies in HdrHistogram's text format
//! (`outputPercentileDistribution`, five ticks per half distance), which its plotters read.
//!
//! Values are in µs. A line has the upper edge of the first bucket that reaches its share of the
//! values. A value above 60 s counts as 60 s.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use engine::stats::distribution::Distribution;

use crate::output;

/// Lines per halving of the distance to 100 %, as in the standard tools.
const TICKS: u32 = 5;

/// Nanoseconds of the unit of the values.
const UNIT_NS: f64 = 1e3;

/// The file next to an interval log; a device or a pipe has none.
pub(crate) fn path(hlog: &Path) -> Option<PathBuf> {
    (!output::is_written_through(hlog)).then(|| hlog.with_extension("hgrm"))
}

/// Writes the percentiles of a distribution.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write(mut writer: impl Write, distribution: &Distribution) -> io::Result<()> {
    let histogram = distribution.clamped();
    writeln!(
        writer,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS) {
        total += step.count_since_last_iteration();
        let value = step.value_iterated_to() as f64 / UNIT_NS;
        let quantile = step.quantile_iterated_to();
        write!(writer, "{value:12.3} {quantile:2.12} {total:10}")?;
        match quantile < 1.0 {
            true => writeln!(writer, " {:14.2}", 1.0 / (1.0 - quantile))?,
            false => writeln!(writer)?,
        }
    }
    let us = |ns: f64| ns / UNIT_NS;
    // Enough to tell values apart that differ by one in the last significant digit.
    let sub_buckets = (2 * 10_u64.pow(histogram.sigfig().into())).next_power_of_two();
    writeln!(
        writer,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n\
         #[Max     = {:12.3}, Total count    = {:12}]\n\
         #[Buckets = {:12}, SubBuckets     = {:12}]",
        us(histogram.mean()),
        us(histogram.stdev()),
        us(histogram.max() as f64),
        histogram.len(),
        histogram.buckets(),
        sub_buckets
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(distribution: &Distribution) -> String {
        let mut bytes = Vec::new();
        write(&mut bytes, distribution).expect("writing to memory succeeds");
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn the_text_equals_that_of_the_standard_tools() {
        let mut distribution = Distribution::new();
        distribution.record_n(1_000_000, 2);
        distribution.record(100_000_000_000);
        insta::assert_snapshot!(text(&distribution), @r"
               Value     Percentile TotalCount 1/(1-Percentile)

            1000.447 0.000000000000          2           1.00
            1000.447 0.100000000000          2           1.11
            1000.447 0.200000000000          2           1.25
            1000.447 0.300000000000          2           1.43
            1000.447 0.400000000000          2           1.67
            1000.447 0.500000000000          2           2.00
            1000.447 0.550000000000          2           2.22
            1000.447 0.600000000000          2           2.50
            1000.447 0.650000000000          2           2.86
        60028878.847 0.700000000000          3           3.33
        60028878.847 1.000000000000          3
        #[Mean    = 20004700.672, StdDeviation   = 28289504.516]
        #[Max     = 60028878.847, Total count    =            3]
        #[Buckets =           26, SubBuckets     =         2048]
        ");
    }

    #[test]
    fn an_empty_distribution_is_an_empty_table() {
        let text = text(&Distribution::new());
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 2, "{text}");
        assert!(text.contains("Total count    =            0]"), "{text}");
    }
}
