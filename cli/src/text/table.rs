//! The table of latencies: naive beside corrected, with the uncertainty of the corrected ones.

use engine::proof::interval::{Method, needed};
use engine::report::{DistributionPart, Intervals};

use super::figures::{cell, count, percentile, time};

/// A line of the table.
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: &'static str,
    /// The quantile; `None` for the maximum.
    quantile: Option<f64>,
    /// Where a distribution keeps it, µs.
    pub(crate) of: fn(&DistributionPart) -> Option<f64>,
    /// Where its interval is kept, µs.
    interval: fn(&Intervals) -> Option<[f64; 2]>,
}

/// The table's lines; the last one is the maximum.
pub(crate) static ROWS: [Row; 5] = [
    Row { name: "p50", quantile: Some(0.5), of: |part| part.p50, interval: |all| all.p50 },
    Row { name: "p90", quantile: Some(0.9), of: |part| part.p90, interval: |all| all.p90 },
    Row { name: "p99", quantile: Some(0.99), of: |part| part.p99, interval: |all| all.p99 },
    Row { name: "p99.9", quantile: Some(0.999), of: |part| part.p999, interval: |all| all.p999 },
    Row { name: "max", quantile: None, of: |part| part.max, interval: |_| None },
];

/// Naive beside corrected; `title` stands over the names of the lines.
pub(crate) fn table(title: &str, naive: &DistributionPart, corrected: &DistributionPart) -> String {
    let mut text = format!("{title:<9}{:>10}  {:>11}\n", "naive", "corrected");
    for row in &ROWS {
        let shown = |part| cell(&percentile(part, (row.of)(part)));
        let line = format!("{:<8}{}  {}", row.name, shown(naive), shown(corrected));
        let line = match doubt(row, corrected) {
            // What stands behind n/a belongs to it, what stands behind a time has a column of its own.
            Some(needs) if (row.of)(corrected).is_none() => {
                format!("{} {needs}", line.trim_end())
            }
            Some(interval) => format!("{line}  {interval}"),
            None => line,
        };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let given = ROWS.iter().any(|row| (row.interval)(&corrected.intervals).is_some());
    match corrected.intervals.method.filter(|_| given) {
        Some(Method::Batches) => {
            text.push_str("[ ] 95 % interval of corrected, from batches of the window's seconds\n")
        }
        Some(Method::OrderStatistics) => text.push_str(
            "[ ] 95 % interval of corrected, from ranks as if requests were independent\n",
        ),
        None => {}
    }
    text
}

/// How sure a percentile is: its interval, or how many values it would need.
fn doubt(row: &Row, part: &DistributionPart) -> Option<String> {
    if let Some([low, high]) = (row.interval)(&part.intervals) {
        return Some(format!("[{}, {}]", time(low), time(high)));
    }
    let needed = needed(row.quantile?);
    if part.count < needed {
        return Some(format!("(n = {}, need {})", count(part.count), count(needed)));
    }
    // Samples that depend on each other may be enough for a percentile and too few for its interval.
    part.intervals.method.map(|_| "[n/a]".to_owned())
}

#[cfg(test)]
mod tests {
    use engine::distribution::Distribution;

    use super::super::reports::times;
    use super::*;

    /// Values from 1 ms to `count` ms.
    fn spread(count: u64, batches: usize) -> DistributionPart {
        let mut whole = Distribution::new();
        let mut parts = vec![Distribution::new().histogram().clone(); batches];
        for (at, ms) in (1..=count).enumerate() {
            whole.record(ms * 1_000_000);
            if 0 < batches {
                parts[at % batches].record(ms * 1_000_000).expect("in range");
            }
        }
        DistributionPart::new(&whole, &parts)
    }

    #[test]
    fn percentiles_come_with_their_intervals_and_the_method_once() {
        insta::assert_snapshot!(table("latency", &spread(6_000, 0), &spread(6_000, 10)), @r"
        latency       naive    corrected
        p50         3.00 s       3.00 s   [2.92 s, 3.08 s]
        p90         5.40 s       5.40 s   [5.35 s, 5.45 s]
        p99         5.94 s       5.94 s   [5.92 s, 5.96 s]
        p99.9       6.00 s       6.00 s   [5.99 s, 6.00 s]
        max         6.00 s       6.00 s
        [ ] 95 % interval of corrected, from batches of the window's seconds
        ");
    }

    #[test]
    fn what_is_not_known_says_how_many_values_it_needs() {
        insta::assert_snapshot!(table("latency", &times(250, 100), &spread(1_000, 0)), @r"
        latency       naive    corrected
        p50          250 µs       500 ms  [469 ms, 532 ms]
        p90          250 µs       900 ms  [881 ms, 920 ms]
        p99          n/a          990 ms  [983 ms, 998 ms]
        p99.9        n/a          n/a (n = 1,000, need 5,662)
        max          250 µs      1.00 s
        [ ] 95 % interval of corrected, from ranks as if requests were independent
        ");
        let mut dependent = spread(6_000, 10);
        dependent.intervals.p999 = None;
        let text = table("latency", &dependent, &dependent);
        assert!(text.contains("p99.9       6.00 s       6.00 s   [n/a]\n"), "{text}");
        let empty = DistributionPart::new(&Distribution::new(), &[]);
        insta::assert_snapshot!(table("successes", &empty, &empty), @r"
        successes     naive    corrected
        p50          n/a          n/a (n = 0, need 8)
        p90          n/a          n/a (n = 0, need 53)
        p99          n/a          n/a (n = 0, need 563)
        p99.9        n/a          n/a (n = 0, need 5,662)
        max          n/a          n/a
        ");
    }
}
