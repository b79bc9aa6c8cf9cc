//! The check of the findings: every number in them is in a result, in one of its texts or as a
//! figure that rounds to it.
//!
//! A number is a word that begins with a digit; a word ends at any character that is neither a
//! letter, a digit, a point, a comma nor an underscore. So `5ms` and `1,273` are numbers, and `p99`
//! is a name.

use std::collections::{BTreeMap, BTreeSet};

use calibration::findings::Findings;
use calibration::lab::result::ExperimentResult;
use serde_json::Value;

/// The width of a plot on the page; no result has this number.
const WIDTH: &str = "width=\"560\"";
/// The start of a section; the name follows, an experiment's or another.
const ANCHOR: &str = "<a id=\"";

/// The numbers that are in none of the results, each with its experiment or section. An
/// experiment's own texts may only have those of its result.
pub(crate) fn unfounded(found: &Findings, results: &[ExperimentResult]) -> Vec<String> {
    let mut all = Known::default();
    let mut each = BTreeMap::new();
    for result in results {
        let document = serde_json::to_value(result).expect("a result has a JSON form");
        all.add(&document);
        let mut known = Known::default();
        known.add(&document);
        each.insert(result.name.as_str(), known);
    }
    let sections = found.page.split(ANCHOR).chain(found.readme.split(ANCHOR));
    let sections = sections.map(|section| (section.split('"').next().unwrap_or_default(), section));
    let readmes = found.readmes.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let mut unfounded = Vec::new();
    for (name, text) in sections.chain(readmes) {
        let numbers = each.get(name).unwrap_or(&all).unknown_in(&text.replace(WIDTH, ""));
        unfounded.extend(numbers.iter().map(|number| format!("{name}: {number}")));
    }
    unfounded
}

/// The numbers of one or more results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    texts: BTreeSet<String>,
    figures: Vec<f64>,
}

impl Known {
    /// Adds the numbers of a document.
    pub(crate) fn add(&mut self, document: &Value) {
        match document {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => self.figures.extend(number.as_f64().map(f64::abs)),
            Value::String(text) => self.texts.extend(numbers(text)),
            Value::Array(values) => values.iter().for_each(|value| self.add(value)),
            Value::Object(fields) => fields.values().for_each(|value| self.add(value)),
        }
    }

    /// The unknown numbers in a text.
    pub(crate) fn unknown_in(&self, text: &str) -> Vec<String> {
        numbers(text).into_iter().filter(|number| !self.knows(number)).collect()
    }

    fn knows(&self, number: &str) -> bool {
        let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        self.texts.contains(number)
            || self.figures.iter().any(|figure| format!("{figure:.decimals$}") == number)
    }
}

/// The numbers in a text, without thousands separators and units.
pub(crate) fn numbers(text: &str) -> Vec<String> {
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
