//! The one layout of all text: lines, paragraphs, a label with its value, and tables in aligned
//! columns, wrapped to the width of the terminal.

use std::sync::atomic::{AtomicUsize, Ordering};

use textwrap::core::Word;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Columns of a line if the width is unknown.
pub(crate) const WIDTH: usize = 80;
/// Columns before the value of a labelled line of a report.
pub(crate) const LABEL: usize = 17;
/// The same on a report's first screen.
pub(crate) const SCREEN: usize = 13;
/// The same before a file on a line of its own.
pub(crate) const WRITTEN: usize = 9;
/// A space that doesn't break a line.
pub(crate) const NO_BREAK: &str = "\u{a0}";
/// The narrowest supported layout.
const WIDTH_MIN: usize = 40;

/// Columns of a line.
static COLUMNS: AtomicUsize = AtomicUsize::new(WIDTH);

/// Lays out later text for a terminal of this width.
pub(crate) fn fit(columns: usize) {
    COLUMNS.store(columns.max(WIDTH_MIN), Ordering::Relaxed);
}

/// Columns of a line.
pub(crate) fn columns() -> usize {
    COLUMNS.load(Ordering::Relaxed)
}

/// The first of these texts that fits in a line, or the last.
pub(crate) fn fitting(texts: &[String]) -> String {
    let columns = columns();
    let fits = |text: &&String| text.chars().count() <= columns;
    texts.iter().find(fits).or(texts.last()).cloned().unwrap_or_default()
}

/// A text that grows by lines.
#[derive(Debug, Default)]
pub(crate) struct Text(String);

impl Text {
    /// An empty text.
    pub(crate) fn new() -> Text {
        Text::default()
    }

    /// The text.
    pub(crate) fn done(self) -> String {
        self.0
    }

    /// An empty line.
    pub(crate) fn blank(&mut self) {
        self.0.push('\n');
    }

    /// Lines with a finished layout.
    pub(crate) fn add(&mut self, lines: impl AsRef<str>) {
        self.0.push_str(lines.as_ref());
    }

    /// A line that isn't wrapped.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        self.0.push_str(text.as_ref().trim_end());
        self.0.push('\n');
    }

    /// A paragraph, wrapped at its spaces; a word longer than a line is on its own.
    pub(crate) fn wrapped(&mut self, text: impl AsRef<str>) {
        self.0.push_str(&filled(text.as_ref(), options("", "")));
    }

    /// A paragraph that begins after this many columns, its further lines two later.
    pub(crate) fn item(&mut self, indent: usize, text: impl AsRef<str>) {
        let (first, rest) = (" ".repeat(indent), " ".repeat(indent + 2));
        self.0.push_str(&filled(text.as_ref(), options(&first, &rest)));
    }

    /// A label, and its value wrapped in a column of its own, which begins after this many columns.
    pub(crate) fn field(&mut self, width: usize, label: &str, value: impl AsRef<str>) {
        let (first, rest) = (format!("{label:<width$}"), " ".repeat(width));
        self.0.push_str(&filled(value.as_ref(), options(&first, &rest)));
    }

    /// The same, where lists such as `0,2,4` may be broken after a comma.
    pub(crate) fn field_of_lists(&mut self, width: usize, label: &str, value: &str) {
        let (first, rest) = (format!("{label:<width$}"), " ".repeat(width));
        let options = options(&first, &rest).word_separator(WordSeparator::Custom(words));
        self.0.push_str(&filled(value, options));
    }

    /// A label and a value that isn't wrapped, because it names a file.
    pub(crate) fn field_whole(&mut self, width: usize, label: &str, value: &str) {
        self.line(format!("{label:<width$}{value}"));
    }

    /// A row of a table; a cell beyond its columns begins where they end.
    pub(crate) fn row<T: AsRef<str>>(&mut self, columns: &[Column], cells: &[T]) {
        self.line(aligned(columns, cells));
    }

    /// The files with the results, if there are any, each in a line.
    pub(crate) fn written(&mut self, width: usize, files: &[String]) {
        files.iter().for_each(|file| self.field_whole(width, "written", file));
    }
}

/// A paragraph, wrapped.
pub(crate) fn wrap(text: &str) -> String {
    filled(text, options("", ""))
}

/// Sections separated by a blank line; one without lines is left out.
pub(crate) fn sections(all: impl IntoIterator<Item = String>) -> String {
    let all: Vec<String> = all.into_iter().filter(|section| !section.is_empty()).collect();
    all.join("\n")
}

/// A column of a table, with the space before it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// Text from the start of a column of this width.
    Left(usize),
    /// Text up to the end of this many columns.
    Right(usize),
    /// The same for a time, whose unit has two columns of its own: `1.02 ms`, `42.0 s `.
    Time(usize),
}

/// The widest of these texts, to align what comes after them.
pub(crate) fn widest<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    texts.into_iter().map(|text| text.chars().count()).max().unwrap_or(0)
}

/// The cells of a row, each in its column. A cell that is wider than its column takes space from
/// the next, but at least one space separates them.
pub(crate) fn aligned<T: AsRef<str>>(columns: &[Column], cells: &[T]) -> String {
    let (mut line, mut end) = (String::new(), 0_usize);
    for (at, cell) in cells.iter().enumerate() {
        let (mut cell, begin) = (cell.as_ref().to_owned(), end);
        let column = columns.get(at).copied().unwrap_or(Column::Left(0));
        if let Column::Time(_) = column {
            let unit = cell.rsplit_once(' ').map_or(0, |(_, unit)| unit.chars().count() + 1);
            cell.push_str(&" ".repeat(UNIT.saturating_sub(unit)));
        }
        end += match column {
            Column::Left(width) | Column::Right(width) | Column::Time(width) => width,
        };
        let goal = match column {
            Column::Left(_) => begin,
            Column::Right(_) | Column::Time(_) => end.saturating_sub(cell.chars().count()),
        };
        let before = line.chars().count();
        let is_apart =
            line.is_empty() || line.ends_with(' ') || cell.is_empty() || cell.starts_with(' ');
        line.push_str(&" ".repeat(goal.saturating_sub(before).max(usize::from(!is_apart))));
        line.push_str(&cell);
    }
    line
}

/// Columns of a unit, with the space before it.
const UNIT: usize = 3;

/// Fills lines, none of which begins with the unit of a number: the space before it doesn't break.
fn filled(text: &str, options: Options<'_>) -> String {
    let mut joined = String::with_capacity(text.len());
    for word in text.split_inclusive(' ') {
        let number =
            joined.strip_suffix(' ').filter(|rest| rest.ends_with(|c: char| c.is_ascii_digit()));
        if is_unit(word) && number.is_some() {
            joined.pop();
            joined.push_str(NO_BREAK);
        }
        joined.push_str(word);
    }
    textwrap::fill(&joined, options).replace(NO_BREAK, " ") + "\n"
}

/// True if a word is a unit, perhaps with punctuation.
fn is_unit(word: &str) -> bool {
    let bare = word.trim_end_matches(|end: char| !end.is_alphanumeric() && end != '%');
    matches!(bare, "%" | "ns" | "µs" | "ms" | "s")
}

fn words(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    Box::new(line.split_inclusive([' ', ',']).map(Word::from))
}

fn options<'a>(first: &'a str, rest: &'a str) -> Options<'a> {
    // Flags, paths and addresses are never broken.
    Options::new(COLUMNS.load(Ordering::Relaxed))
        .initial_indent(first)
        .subsequent_indent(rest)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: impl Fn(&mut Text)) -> String {
        let mut text = Text::new();
        lines(&mut text);
        text.done()
    }

    #[test]
    fn a_unit_stays_with_its_number() {
        for (number, unit) in [("3.3", "% of it"), ("1.02", "ms, and"), ("60.0", "s)"), ("9", "µs")]
        {
            // The number alone would just fit.
            let before = "x".repeat(WIDTH - number.len() - 1);
            let lines = format!("{before}\n{number} {unit}\n");
            let text = format!("{before} {number} {unit}");
            assert_eq!(wrap(&text), lines);
            assert_eq!(of(|to| to.field_of_lists(0, "", &text)), lines);
        }
        assert_eq!(wrap("it runs for 3 s"), "it runs for 3 s\n");
    }

    #[test]
    fn words_stay_whole_and_lines_within_the_width() {
        let long = "--source-addresses=".repeat(6);
        let text = format!("{} end {long} µs", "warm-up-µs ".repeat(8).trim());
        let lines = [
            format!("> {}", "warm-up-µs ".repeat(7).trim()),
            "  warm-up-µs end".to_owned(),
            format!("  {long}"),
            "  µs\n".to_owned(),
        ];
        assert_eq!(of(|to| to.field(2, "> ", &text)), lines.join("\n"));
    }

    #[test]
    fn cells_are_in_their_columns_and_a_wide_one_takes_from_the_next() {
        use Column::{Left, Right, Time};
        let columns = [Left(6), Right(8), Time(10), Left(6)];
        for (cells, line) in [
            (["p50", "1,000", "1.02 ms", "  ok"], "p50      1,000   1.02 ms  ok"),
            (["p99.999", "7", "42.0 s", ""], "p99.999      7   42.0 s"),
            (["p99.9", "10,000,000,000", "n/a", "ok"], "p99.9 10,000,000,000 n/a   ok"),
            (["p99", "7", "n/a", "  (n = 3)"], "p99          7    n/a     (n = 3)"),
        ] {
            assert_eq!(of(|to| to.row(&columns, &cells)), format!("{line}\n"));
        }
    }

    #[test]
    fn sections_are_apart_by_a_blank_line() {
        let all = ["a\n", "", "b\nc\n"].map(str::to_owned);
        assert_eq!(sections(all), "a\n\nb\nc\n");
    }
}
