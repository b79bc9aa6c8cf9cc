//! The latency table: naive beside corrected, with confidence intervals of corrected. An unknown
//! percentile says how many samples there are, and how many it needs.

use engine::report::{ClientPart, ClientShare, DistributionPart};
use engine::stats::interval::{Method, needed};
use engine::stats::percentiles::{PERCENTILES, Percentile, Quantile};

use super::figures::{count, percentile, time};
use super::layout::{Column, Text, aligned};

/// A row of the table: a percentile or the maximum.
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: &'static str,
    /// The quantile; `None` for the maximum.
    quantile: Option<Quantile>,
}

/// The rows of the table; the last one is the maximum.
pub(crate) static ROWS: [Row; 7] = [
    Row::of_quantile(PERCENTILES[0]),
    Row::of_quantile(PERCENTILES[1]),
    Row::of_quantile(PERCENTILES[2]),
    Row::of_quantile(PERCENTILES[3]),
    Row::of_quantile(PERCENTILES[4]),
    Row::of_quantile(PERCENTILES[5]),
    Row { name: "max", quantile: None },
];

impl Row {
    const fn of_quantile(quantile: Quantile) -> Row {
        Row { name: quantile.label, quantile: Some(quantile) }
    }

    /// Its value in a distribution, µs.
    pub(crate) fn of(&self, part: &DistributionPart) -> Option<f64> {
        self.quantile.map_or(part.max, |quantile| part.quantile_us(quantile.q))
    }

    /// What the generator added there, if that is known.
    pub(crate) fn client<'a>(&self, share: &'a ClientShare) -> Option<&'a ClientPart> {
        self.quantile.and_then(|quantile| share.at(quantile.label))
    }

    /// What stands behind it: the confidence interval of corrected, or how many values it takes.
    pub(crate) fn note(&self, corrected: &DistributionPart) -> String {
        match self.of(corrected) {
            None => lack(self, corrected).unwrap_or_default(),
            Some(_) => doubt(self, corrected),
        }
    }

    /// What a distribution states of it, when it is a percentile.
    fn percentile<'a>(&self, part: &'a DistributionPart) -> Option<&'a Percentile> {
        self.quantile.map(|quantile| part.percentiles.at(quantile.q))
    }
}

/// Naive beside corrected, with their means; `title` heads the names of the rows.
pub(crate) fn table(title: &str, naive: &DistributionPart, corrected: &DistributionPart) -> String {
    let mut text = Text::new();
    let columns = [Column::Left(8), Column::Time(11), Column::Time(13)];
    text.line(aligned(
        &[Column::Left(8), Column::Right(11), Column::Right(13)],
        &[title, "naive", "corrected"],
    ));
    for row in &ROWS {
        let [naive, shown] = [naive, corrected].map(|part| percentile(part, row.of(part)));
        let line = aligned(&columns, &[row.name, &naive, &shown]);
        // A note on n/a stands right behind it, a note on a time in a column of its own.
        text.line(match row.of(corrected) {
            None => format!("{} {}", line.trim_end(), row.note(corrected)),
            Some(_) => format!("{line}  {}", row.note(corrected)),
        });
    }
    let [naive_mean, mean] =
        [naive, corrected].map(|part| part.mean.map_or("n/a".to_owned(), time));
    text.row(&columns, &["mean", &naive_mean, &mean]);
    noted(naive, corrected).iter().for_each(|note| text.line(note));
    text.done()
}

/// What is to be known of the table's figures: why some are unknown, and what the brackets mean.
pub(crate) fn noted(naive: &DistributionPart, corrected: &DistributionPart) -> Vec<String> {
    // With equal counts, the note behind corrected's n/a holds for naive too.
    let unsaid = |row: &Row| row.of(corrected).is_some() || naive.count != corrected.count;
    let lacks = lacks("naive", naive, unsaid).map(|lacks| format!("n/a: {lacks}"));
    lacks.into_iter().chain(legend(corrected).map(str::to_owned)).collect()
}

/// What the brackets behind corrected percentiles mean.
fn legend(corrected: &DistributionPart) -> Option<&'static str> {
    let percentiles = &corrected.percentiles;
    match percentiles.method {
        None if percentiles.dependent == Some(true) && percentiles.at(0.5).value.is_some() => Some(
            "[n/a] no interval: these samples are correlated and not kept by pieces of the window",
        ),
        _ if percentiles.iter().all(|(_, percentile)| percentile.interval.is_none()) => None,
        Some(Method::Batches) => {
            Some("[ ] 95 % interval of corrected, from the spread between pieces of the window")
        }
        Some(Method::OrderStatistics) => {
            Some("[ ] 95 % interval of corrected, from ranks: requests don't depend on each other")
        }
        None => None,
    }
}

/// The confidence interval of a known percentile, or how many samples it needs.
fn doubt(row: &Row, part: &DistributionPart) -> String {
    match row.percentile(part) {
        None => String::new(),
        Some(Percentile { interval: Some([low, high]), .. }) => {
            format!("[{}, {}]", time(*low), time(*high))
        }
        Some(Percentile { needed: Some(needed), .. }) => {
            format!("[n/a {}]", few(part.count, *needed))
        }
        Some(Percentile { needed_s: Some(needed_s), .. }) => {
            format!("[n/a (needs {needed_s:.0} s)]")
        }
        Some(_) => "[n/a]".to_owned(),
    }
}

/// The note behind the n/a of a percentile that has too few samples.
fn lack(row: &Row, part: &DistributionPart) -> Option<String> {
    let needed = needed(row.quantile?.q);
    (part.count < needed).then(|| few(part.count, needed))
}

fn few(n: u64, needed: u64) -> String {
    format!("(n = {}, need {})", count(n), count(needed))
}

/// The percentiles with too few samples, among the rows that `picked` picks; `None` if there are
/// none: `naive has n = 100, p99 needs 563, p99.9 needs 5,662`.
pub(crate) fn lacks(
    name: &str,
    part: &DistributionPart,
    picked: impl Fn(&Row) -> bool,
) -> Option<String> {
    let lacking = ROWS.iter().filter(|row| row.of(part).is_none() && picked(row));
    let needs: Vec<String> = lacking
        .filter_map(|row| Some(format!("{} needs {}", row.name, count(needed(row.quantile?.q)))))
        .collect();
    let n = count(part.count);
    (!needs.is_empty()).then(|| format!("{name} has n = {n}, {}", needs.join(", ")))
}

/// The percentiles with these names, in one line: `p50 1.02 ms, p99 n/a (n = 20, need 563)`.
pub(crate) fn listed(part: &DistributionPart, names: &[&str]) -> String {
    let rows = ROWS.iter().filter(|row| names.contains(&row.name));
    let shown = rows.map(|row| {
        let us = row.of(part);
        let lack = lack(row, part).filter(|_| us.is_none());
        let lack = lack.map_or(String::new(), |lack| format!(" {lack}"));
        format!("{} {}{lack}", row.name, percentile(part, us))
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use engine::stats::distribution::Distribution;
    use engine::stats::percentiles::Percentiles;
    use engine::stats::pieces::Pieces;

    use super::super::reports::times;
    use super::*;

    /// Values from 1 ms to `count` ms, by so many pieces of a run; without pieces, independent.
    fn spread(count: u64, pieces: usize) -> DistributionPart {
        let mut whole = Distribution::new();
        let mut parts = vec![Distribution::new().histogram().clone(); pieces];
        for (at, ms) in (1..=count).enumerate() {
            whole.record(ms * 1_000_000);
            if 0 < pieces {
                parts[(17 * at) % pieces].record(ms * 1_000_000).expect("in range");
            }
        }
        match pieces {
            0 => DistributionPart::alone(&whole, Some(false)),
            _ => DistributionPart::new(&whole, &Pieces::new(parts, 0.125)),
        }
    }

    #[test]
    fn percentiles_come_with_their_intervals_and_the_method_once() {
        insta::assert_snapshot!(table("latency", &spread(6_000, 0), &spread(6_000, 40)), @r"
        latency       naive    corrected
        p50         3.00 s       3.00 s   [2.92 s, 3.08 s]
        p75         4.50 s       4.50 s   [4.43 s, 4.57 s]
        p90         5.40 s       5.40 s   [5.35 s, 5.45 s]
        p95         5.70 s       5.70 s   [5.66 s, 5.74 s]
        p99         5.94 s       5.94 s   [5.92 s, 5.96 s]
        p99.9       6.00 s       6.00 s   [5.99 s, 6.00 s]
        max         6.00 s       6.00 s
        mean        3.00 s       3.00 s
        [ ] 95 % interval of corrected, from the spread between pieces of the window
        ");
    }

    #[test]
    fn what_is_not_known_says_how_many_values_it_needs() {
        insta::assert_snapshot!(table("latency", &times(250, 100), &spread(1_000, 0)), @r"
        latency       naive    corrected
        p50          250 µs       500 ms  [469 ms, 532 ms]
        p75          250 µs       750 ms  [723 ms, 778 ms]
        p90          250 µs       900 ms  [881 ms, 920 ms]
        p95          n/a          950 ms  [936 ms, 965 ms]
        p99          n/a          990 ms  [983 ms, 998 ms]
        p99.9        n/a          n/a (n = 1,000, need 5,662)
        max          250 µs      1.00 s
        mean         250 µs       500 ms
        n/a: naive has n = 100, p95 needs 110, p99 needs 563, p99.9 needs 5,662
        [ ] 95 % interval of corrected, from ranks: requests don't depend on each other
        ");
        // Enough for the percentile, too few for its interval, given the spread between batches.
        let mut dependent = spread(6_000, 40);
        let tail = dependent.percentiles.at_mut(0.999);
        (tail.interval, tail.needed_s) = (None, Some(12.0));
        insta::assert_snapshot!(table("latency", &dependent, &dependent), @r"
        latency       naive    corrected
        p50         3.00 s       3.00 s   [2.92 s, 3.08 s]
        p75         4.50 s       4.50 s   [4.43 s, 4.57 s]
        p90         5.40 s       5.40 s   [5.35 s, 5.45 s]
        p95         5.70 s       5.70 s   [5.66 s, 5.74 s]
        p99         5.94 s       5.94 s   [5.92 s, 5.96 s]
        p99.9       6.00 s       6.00 s   [n/a (needs 12 s)]
        max         6.00 s       6.00 s
        mean        3.00 s       3.00 s
        [ ] 95 % interval of corrected, from the spread between pieces of the window
        ");
        let mut alone = spread(6_000, 0);
        alone.percentiles = alone.percentiles.with_intervals_of(&Percentiles::default());
        let mut unknown = alone.clone();
        unknown.percentiles.dependent = Some(true);
        insta::assert_snapshot!(table("successes", &alone, &unknown), @r"
        successes     naive    corrected
        p50         3.00 s       3.00 s   [n/a]
        p75         4.50 s       4.50 s   [n/a]
        p90         5.40 s       5.40 s   [n/a]
        p95         5.70 s       5.70 s   [n/a]
        p99         5.94 s       5.94 s   [n/a]
        p99.9       6.00 s       6.00 s   [n/a]
        max         6.00 s       6.00 s
        mean        3.00 s       3.00 s
        [n/a] no interval: these samples are correlated and not kept by pieces of the window
        ");
        let empty = DistributionPart::alone(&Distribution::new(), Some(false));
        insta::assert_snapshot!(table("successes", &empty, &empty), @r"
        successes     naive    corrected
        p50          n/a          n/a (n = 0, need 8)
        p75          n/a          n/a (n = 0, need 19)
        p90          n/a          n/a (n = 0, need 53)
        p95          n/a          n/a (n = 0, need 110)
        p99          n/a          n/a (n = 0, need 563)
        p99.9        n/a          n/a (n = 0, need 5,662)
        max          n/a          n/a
        mean         n/a          n/a
        ");
    }

    #[test]
    fn percentiles_in_a_line_say_what_they_lack() {
        assert_eq!(listed(&times(250, 600), &["p50", "p99"]), "p50 250 µs, p99 250 µs");
        assert_eq!(
            listed(&times(250, 20), &["p50", "p99"]),
            "p50 250 µs, p99 n/a (n = 20, need 563)"
        );
    }
}
