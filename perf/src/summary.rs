//! Medians with their spread, and tables in Markdown.

use std::fmt::Display;

/// The median of some figures, with the lowest and the highest of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// The middle value; of an even number of values, the mean of the two in the middle.
    pub(crate) median: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

impl Spread {
    /// `None` without values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (lowest, highest) = (*sorted.first()?, *sorted.last()?);
        let (below, above) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Spread { median: f64::midpoint(below, above), lowest, highest })
    }

    /// As text: `0.75 (0.71–0.79)`.
    pub(crate) fn show(&self, digits: usize) -> String {
        let Spread { median, lowest, highest } = *self;
        format!("{} ({}–{})", show(median, digits), show(lowest, digits), show(highest, digits))
    }
}

/// A figure with a comma between thousands.
pub(crate) fn show(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, format!(".{fraction}")),
        None => (text.as_str(), String::new()),
    };
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if 0 < at && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + &fraction
}

/// A cell: the text, or a dash where there is none.
pub(crate) fn or_dash(text: Option<impl Display>) -> String {
    text.map_or("–".to_owned(), |text| text.to_string())
}

/// A table in Markdown, aligned for reading as text. The first column is left-aligned, all others
/// right-aligned.
pub(crate) fn table(heading: &[String], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..heading.len())
        .map(|column| {
            let lines = std::iter::once(heading).chain(rows.iter().map(Vec::as_slice));
            lines.map(|line| line[column].chars().count()).max().unwrap_or_default().max(4)
        })
        .collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let rules = widths.iter().enumerate().map(|(column, &width)| {
        if column == 0 { "-".repeat(width) } else { format!("{}:", "-".repeat(width - 1)) }
    });
    let mut text = line(heading);
    text.push_str(&line(&rules.collect::<Vec<_>>()));
    rows.iter().for_each(|row| text.push_str(&line(row)));
    text
}

/// A table's heading.
pub(crate) fn heading(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|&cell| cell.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_of_its_spread() {
        let spread = Spread::of([3.0, 1.0, 2.0]).expect("values");
        assert_eq!(spread, Spread { median: 2.0, lowest: 1.0, highest: 3.0 });
        assert_eq!(Spread::of([3.0, 1.0, 2.0, 9.0]).map(|spread| spread.median), Some(2.5));
        assert_eq!(Spread::of([]), None);
        assert_eq!(spread.show(1), "2.0 (1.0–3.0)");
    }

    #[test]
    fn thousands_are_grouped() {
        let shown = [(0.0, 0), (999.6, 1), (1_000.0, 0), (1_234_567.0, 0), (12_345.678, 2)]
            .map(|(value, digits)| show(value, digits));
        assert_eq!(shown, ["0", "999.6", "1,000", "1,234,567", "12,345.68"]);
    }

    #[test]
    fn columns_line_up() {
        let rows = [heading(&["µs", "1"]), heading(&["longer", "22222"])];
        assert_eq!(
            table(&heading(&["a", "b"]), &rows),
            "| a      |     b |\n| ------ | ----: |\n| µs     |     1 |\n| longer | 22222 |\n"
        );
    }
}
