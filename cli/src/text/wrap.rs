//! Paragraphs wrapped to the width of the report.

use std::sync::atomic::{AtomicUsize, Ordering};

use textwrap::core::Word;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Columns of a line where nobody says how many there are.
pub(crate) const WIDTH: usize = 80;
/// A space at which no line is broken.
pub(crate) const NO_BREAK: &str = "\u{a0}";
/// The fewest that a text is laid out for.
const WIDTH_MIN: usize = 40;

/// Columns of a line.
static COLUMNS: AtomicUsize = AtomicUsize::new(WIDTH);

/// Lays out what follows for a terminal of so many columns.
pub(crate) fn fit(columns: usize) {
    COLUMNS.store(columns.max(WIDTH_MIN), Ordering::Relaxed);
}

/// Wraps a paragraph at its spaces; a word longer than a line stands alone.
pub(crate) fn wrap(text: &str) -> String {
    indented("", "", text)
}

/// The same, with `first` before the first line and `rest` before the others.
pub(crate) fn indented(first: &str, rest: &str, text: &str) -> String {
    filled(text, options(first, rest))
}

/// The same, where lists such as `0,2,4` may be broken after a comma.
pub(crate) fn indented_lists(first: &str, rest: &str, text: &str) -> String {
    filled(text, options(first, rest).word_separator(WordSeparator::Custom(words)))
}

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

/// Whether a word is a unit, with what punctuation follows it.
fn is_unit(word: &str) -> bool {
    let bare = word.trim_end_matches(|end: char| !end.is_alphanumeric() && end != '%');
    matches!(bare, "%" | "ns" | "µs" | "ms" | "s")
}

fn words(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    Box::new(line.split_inclusive([' ', ',']).map(Word::from))
}

fn options<'a>(first: &'a str, rest: &'a str) -> Options<'a> {
    // Flags, paths and addresses stay whole.
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

    #[test]
    fn a_unit_stays_with_its_number() {
        for (number, unit) in [("3.3", "% of it"), ("1.02", "ms, and"), ("60.0", "s)"), ("9", "µs")]
        {
            // The number alone would just fit.
            let before = "x".repeat(WIDTH - number.len() - 1);
            let lines = format!("{before}\n{number} {unit}\n");
            assert_eq!(wrap(&format!("{before} {number} {unit}")), lines);
            assert_eq!(indented_lists("", "", &format!("{before} {number} {unit}")), lines);
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
        assert_eq!(indented("> ", "  ", &text), lines.join("\n"));
    }
}
