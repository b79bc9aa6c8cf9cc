//! Paragraphs wrapped to the width of the report.

use textwrap::core::Word;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Columns of a line.
const WIDTH: usize = 100;

/// Wraps a paragraph at its spaces; a word longer than a line stands alone.
pub(crate) fn wrap(text: &str) -> String {
    indented("", "", text)
}

/// The same, with `first` before the first line and `rest` before the others.
pub(crate) fn indented(first: &str, rest: &str, text: &str) -> String {
    indented_to(WIDTH, first, rest, text)
}

/// The same at `width` columns.
pub(crate) fn indented_to(width: usize, first: &str, rest: &str, text: &str) -> String {
    filled(text, options(width, first, rest))
}

/// The same at `width` columns, where lists such as `0,2,4` may be broken after a comma.
pub(crate) fn indented_lists(width: usize, first: &str, rest: &str, text: &str) -> String {
    filled(text, options(width, first, rest).word_separator(WordSeparator::Custom(words)))
}

/// Fills lines, none of which begins with a percent sign: its space doesn't break.
fn filled(text: &str, options: Options<'_>) -> String {
    const NO_BREAK: char = '\u{a0}';
    let joined = text.replace(" %", &format!("{NO_BREAK}%"));
    textwrap::fill(&joined, options).replace(NO_BREAK, " ") + "\n"
}

fn words(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    Box::new(line.split_inclusive([' ', ',']).map(Word::from))
}

fn options<'a>(width: usize, first: &'a str, rest: &'a str) -> Options<'a> {
    // Flags, paths and addresses stay whole.
    Options::new(width)
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
    fn a_percent_sign_stays_with_its_number() {
        let text = "a backlog that grew by 3.3 % of arrivals";
        let lines = "a backlog that grew by\n3.3 % of arrivals\n";
        assert_eq!(indented_to(26, "", "", text), lines);
        assert_eq!(indented_lists(26, "", "", text), lines);
    }

    #[test]
    fn words_stay_whole_and_lines_within_the_width() {
        let long = "--source-addresses=".repeat(6);
        let text = format!("{} end {long} µs", "warm-up-µs ".repeat(10).trim());
        let lines = [
            format!("> {}", "warm-up-µs ".repeat(9).trim()),
            "  warm-up-µs end".to_owned(),
            format!("  {long}"),
            "  µs\n".to_owned(),
        ];
        assert_eq!(indented("> ", "  ", &text), lines.join("\n"));
    }
}
