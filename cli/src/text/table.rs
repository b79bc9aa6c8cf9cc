//! The latency table: naive and corrected in one unit, with confidence intervals of corrected. An
//! unknown percentile shows how many requests it needs.

use engine::report::{ClientPart, ClientShare, DistributionPart};
use engine::stats::interval::{Method, needed};
use engine::stats::percentiles::{PERCENTILES, Percentile, Quantile};

use super::figures::{count, percentile, things};
use super::layout::{Column, Text, widest};
use super::scale::{Scale, at_the_point};

/// Columns of the heading of the rows' names.
const TITLE: usize = 13;
/// The space before a column.
const GAP: usize = 3;

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

    /// The generator's part at this row, if known.
    pub(crate) fn client<'a>(&self, share: &'a ClientShare) -> Option<&'a ClientPart> {
        self.quantile.and_then(|quantile| share.at(quantile.label))
    }

    /// The note at its end in a table with this unit of time: the confidence interval of corrected,
    /// or the requests or time needed for one.
    fn note(&self, corrected: &DistributionPart, scale: &Scale) -> String {
        let needs = |needed: u64| format!("needs {}", things(needed, "request"));
        match (self.of(corrected), self.percentile(corrected)) {
            (None, _) => self
                .quantile
                .map(|quantile| needed(quantile.q))
                .filter(|needed| corrected.count < *needed)
                .map_or_else(String::new, needs),
            (Some(_), None) => String::new(),
            (Some(_), Some(Percentile { interval: Some([low, high]), .. })) => {
                format!("[{}, {}]", scale.number(*low), scale.number(*high))
            }
            (Some(_), Some(Percentile { needed: Some(needed), .. })) => needs(*needed),
            (Some(_), Some(Percentile { needed_s: Some(needed_s), .. })) => {
                format!("needs {needed_s:.0} s")
            }
            (Some(_), Some(_)) => "unknown".to_owned(),
        }
    }

    /// The distribution's figures for it, if it is a percentile.
    fn percentile<'a>(&self, part: &'a DistributionPart) -> Option<&'a Percentile> {
        self.quantile.map(|quantile| part.percentiles.at(quantile.q))
    }
}

/// The columns of a table, all in one unit: a cell for each row and one for the mean.
pub(super) struct Columns {
    /// Their unit.
    pub(super) scale: Scale,
    /// The latencies of each distribution, padded so that the decimal points line up.
    pub(super) figures: Vec<Vec<String>>,
    /// The notes at the ends of the rows.
    pub(super) notes: Vec<String>,
}

impl Columns {
    /// The columns of these distributions, with the intervals of corrected.
    pub(super) fn new(parts: &[&DistributionPart], corrected: &DistributionPart) -> Columns {
        let known = parts.iter().flat_map(|part| ROWS.iter().filter_map(|row| row.of(part)));
        let scale = Scale::of(known);
        let cells = |part: &&DistributionPart| {
            let rows = ROWS.iter().map(|row| scale.percentile(part, row.of(part)));
            let mean = part.mean.map_or("n/a".to_owned(), |us| scale.number(us));
            let mut cells: Vec<String> = rows.chain([mean]).collect();
            at_the_point(&mut cells);
            cells
        };
        let figures = parts.iter().map(cells).collect();
        let notes = ROWS.iter().map(|row| row.note(corrected, &scale)).collect();
        Columns { scale, figures, notes }
    }
}

/// The names of a table's rows and of the mean below them.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name).chain(["mean"])
}

/// Latencies in one unit: naive, if given, and corrected with its intervals, and their means;
/// `title` heads the names of the rows.
pub(crate) fn table(
    title: &str,
    naive: Option<&DistributionPart>,
    corrected: &DistributionPart,
) -> String {
    let parts: Vec<&DistributionPart> = naive.into_iter().chain([corrected]).collect();
    let Columns { scale, figures, notes } = Columns::new(&parts, corrected);
    let heads: &[&str] = match naive {
        Some(_) => &["naive", "corrected"],
        None => &[scale.unit],
    };
    let under = |(head, cells): (&&str, Vec<String>)| {
        [(*head).to_owned()].into_iter().chain(cells).collect::<Vec<String>>()
    };
    let columns: Vec<Vec<String>> = heads.iter().zip(figures).map(under).collect();
    let title = match naive {
        Some(_) => format!("{title}, {}", scale.unit),
        None => title.to_owned(),
    };
    let is_noted = notes.iter().any(|note| !note.is_empty());
    let head = if is_noted { "95 % interval" } else { "" };
    let notes = [head.to_owned()].into_iter().chain(notes).chain([String::new()]);
    let mut all: Vec<&str> = names().collect();
    all.insert(0, &title);
    let width = |column: &Vec<String>| GAP + widest(column.iter().map(String::as_str));
    let mut layout = vec![Column::Left(TITLE)];
    layout.extend(columns.iter().map(|column| Column::Right(width(column))));
    layout.push(Column::Left(GAP));
    let mut text = Text::new();
    for (at, (name, note)) in all.into_iter().zip(notes).enumerate() {
        let mut cells = vec![name];
        cells.extend(columns.iter().map(|column| &*column[at]));
        cells.extend(["", &note]);
        text.row(&layout, &cells);
    }
    text.done()
}

/// Notes on the table's figures: why some are unknown, and what the brackets mean.
pub(crate) fn noted(naive: &DistributionPart, corrected: &DistributionPart) -> Vec<String> {
    // With equal counts, the note on corrected's n/a holds for naive too.
    let unsaid = |row: &Row| row.of(corrected).is_some() || naive.count != corrected.count;
    let lacks = lacks("naive", naive, unsaid).map(|lacks| format!("n/a: {lacks}"));
    lacks.into_iter().chain(legend(corrected).map(str::to_owned)).collect()
}

/// The meaning of the brackets after corrected percentiles.
fn legend(corrected: &DistributionPart) -> Option<&'static str> {
    let percentiles = &corrected.percentiles;
    match percentiles.method {
        None if percentiles.dependent == Some(true) && percentiles.at(0.5).value.is_some() => {
            Some("unknown: these samples are correlated and not kept by pieces of the window")
        }
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

/// The note after the n/a of a percentile that has too few samples.
fn lack(row: &Row, part: &DistributionPart) -> Option<String> {
    let needed = needed(row.quantile?.q);
    let few = || format!("(n = {}, need {})", count(part.count), count(needed));
    (part.count < needed).then(few)
}

/// The percentiles with too few samples, among the rows that `picked` selects; `None` if there are
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

/// These percentiles, in one line: `p50 1.02 ms, p99 n/a (n = 20, need 563)`.
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

    /// Values from 1 ms to `count` ms, in this many pieces of a run; without pieces, independent.
    fn spread(count: u64, pieces: usize) -> DistributionPart {
        let mut whole = Distribution::new();
        let mut parts = vec![Distribution::new().histogram(); pieces];
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
    fn percentiles_come_with_their_intervals_in_one_unit() {
        insta::assert_snapshot!(table("latency", Some(&spread(6_000, 0)), &spread(6_000, 40)), @r"
        latency, s      naive   corrected   95 % interval
        p50              3.00        3.00   [2.92, 3.08]
        p75              4.50        4.50   [4.43, 4.57]
        p90              5.40        5.40   [5.35, 5.45]
        p95              5.70        5.70   [5.66, 5.74]
        p99              5.94        5.94   [5.92, 5.96]
        p99.9            6.00        6.00   [5.99, 6.00]
        max              6.00        6.00
        mean             3.00        3.00
        ");
        // Naive is left out if it repeats corrected.
        insta::assert_snapshot!(table("latency", None, &spread(6_000, 40)), @r"
        latency            s   95 % interval
        p50             3.00   [2.92, 3.08]
        p75             4.50   [4.43, 4.57]
        p90             5.40   [5.35, 5.45]
        p95             5.70   [5.66, 5.74]
        p99             5.94   [5.92, 5.96]
        p99.9           6.00   [5.99, 6.00]
        max             6.00
        mean            3.00
        ");
    }

    #[test]
    fn an_unknown_percentile_shows_how_many_requests_it_needs() {
        insta::assert_snapshot!(table("latency", Some(&times(250, 100)), &spread(1_000, 0)), @r"
        latency, ms       naive   corrected   95 % interval
        p50               0.250         500   [469, 532]
        p75               0.250         750   [723, 778]
        p90               0.250         900   [881, 920]
        p95             n/a             950   [936, 965]
        p99             n/a             990   [983, 998]
        p99.9           n/a             n/a   needs 5,662 requests
        max               0.250       1,000
        mean              0.250         501
        ");
        // Enough for the percentile, too few for its interval, given the spread between batches.
        let mut dependent = spread(6_000, 40);
        let tail = dependent.percentiles.at_mut(0.999);
        (tail.interval, tail.needed_s) = (None, Some(12.0));
        insta::assert_snapshot!(table("latency", Some(&dependent), &dependent), @r"
        latency, s      naive   corrected   95 % interval
        p50              3.00        3.00   [2.92, 3.08]
        p75              4.50        4.50   [4.43, 4.57]
        p90              5.40        5.40   [5.35, 5.45]
        p95              5.70        5.70   [5.66, 5.74]
        p99              5.94        5.94   [5.92, 5.96]
        p99.9            6.00        6.00   needs 12 s
        max              6.00        6.00
        mean             3.00        3.00
        ");
        let mut alone = spread(6_000, 0);
        alone.percentiles = alone.percentiles.with_intervals_of(&Percentiles::default());
        let mut unknown = alone.clone();
        unknown.percentiles.dependent = Some(true);
        insta::assert_snapshot!(table("successes", Some(&alone), &unknown), @r"
        successes, s    naive   corrected   95 % interval
        p50              3.00        3.00   unknown
        p75              4.50        4.50   unknown
        p90              5.40        5.40   unknown
        p95              5.70        5.70   unknown
        p99              5.94        5.94   unknown
        p99.9            6.00        6.00   unknown
        max              6.00        6.00
        mean             3.00        3.00
        ");
        let empty = DistributionPart::alone(&Distribution::new(), Some(false));
        insta::assert_snapshot!(table("successes", Some(&empty), &empty), @r"
        successes, µs   naive   corrected   95 % interval
        p50               n/a         n/a   needs 8 requests
        p75               n/a         n/a   needs 19 requests
        p90               n/a         n/a   needs 53 requests
        p95               n/a         n/a   needs 110 requests
        p99               n/a         n/a   needs 563 requests
        p99.9             n/a         n/a   needs 5,662 requests
        max               n/a         n/a
        mean              n/a         n/a
        ");
    }

    #[test]
    fn percentiles_in_a_line_show_what_they_lack() {
        assert_eq!(listed(&times(250, 600), &["p50", "p99"]), "p50 250 µs, p99 250 µs");
        assert_eq!(
            listed(&times(250, 20), &["p50", "p99"]),
            "p50 250 µs, p99 n/a (n = 20, need 563)"
        );
    }
}
