//! The check of the findings: every number in them is in a result, in one of its texts or as a
//! figure that rounds to it.
//!
//! A number is a word that begins with a digit; a word ends at any character that is neither a
//! letter, a digit, a point, a comma nor an underscore. So `5ms` and `1,273` are numbers, and `p99`
//! is a name.

use std::collections::BTreeSet;

use serde_json::Value;

/// The numbers of one or more results.
#[derive(Clone, Debug, Default)]
pub struct Known {
    texts: BTreeSet<String>,
    figures: Vec<f64>,
}

impl Known {
    /// Adds the numbers of a document.
    pub fn add(&mut self, document: &Value) {
        match document {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => self.figures.extend(number.as_f64().map(f64::abs)),
            Value::String(text) => self.texts.extend(numbers(text)),
            Value::Array(values) => values.iter().for_each(|value| self.add(value)),
            Value::Object(fields) => fields.values().for_each(|value| self.add(value)),
        }
    }

    /// The unknown numbers in a text.
    pub fn unknown_in(&self, text: &str) -> Vec<String> {
        numbers(text).into_iter().filter(|number| !self.knows(number)).collect()
    }

    fn knows(&self, number: &str) -> bool {
        let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        self.texts.contains(number)
            || self.figures.iter().any(|figure| format!("{figure:.decimals$}") == number)
    }
}

/// The numbers in a text, without thousands separators and units.
fn numbers(text: &str) -> Vec<String> {
    let is_word = |letter: char| letter.is_alphanumeric() || ".,_".contains(letter);
    let words = text.split(|letter| !is_word(letter));
    words.filter_map(number).collect()
}

/// The number at the start of a word; `None` if it begins with a letter.
fn number(word: &str) -> Option<String> {
    let word = word.trim_start_matches(['.', ',']);
    let digits = word.find(|letter: char| !letter.is_ascii_digit() && !".,".contains(letter));
    let digits = word[..digits.unwrap_or(word.len())].trim_end_matches(['.', ',']);
    let begins = digits.starts_with(|letter: char| letter.is_ascii_digit());
    begins.then(|| digits.replace(',', ""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_words_that_begin_with_a_digit() {
        let text = "p99 is 41.00 ms (1,273 of 13,500), R_q at 5ms; `--rate 2k`, 0.5 %.";
        assert_eq!(numbers(text), ["41.00", "1273", "13500", "5", "2", "0.5"]);
        assert!(numbers("x86_64, HdrHistogram, ρ < λs").is_empty());
    }

    #[test]
    fn a_number_is_known_if_a_figure_rounds_to_it_or_a_text_has_it() {
        let mut known = Known::default();
        known
            .add(&json!({ "p99_ms": 41.0034, "list": [13_500, -2.5], "command": "run --rate 2k" }));
        let known_all = "41.003, 41.00, 41, 13,500, 2.5, 2k";
        assert!(known.unknown_in(known_all).is_empty(), "{:?}", known.unknown_in(known_all));
        assert_eq!(known.unknown_in("41.01 and 13,501, 42"), ["41.01", "13501", "42"]);
    }
}
