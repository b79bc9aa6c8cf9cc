//! Flattens a document into its leaf values, each with its path.
//!
//! It works on anything that serialises, so a new field of a document appears without further work.

use std::fmt::Display;

use serde::Serialize;
use serde_json::Value;

/// The leaf values of a document, in document order. A path joins field names and list positions,
/// from 0, with dots. A number that isn't finite is null, as in JSON.
pub fn flatten(document: &impl Serialize) -> Vec<(String, Value)> {
    let mut values = Vec::new();
    let document = serde_json::to_value(document).expect("a document is made of names and values");
    walk(String::new(), document, &mut values);
    values
}

fn walk(path: String, value: Value, values: &mut Vec<(String, Value)>) {
    let point = if path.is_empty() { "" } else { "." };
    let below = |name: &dyn Display| format!("{path}{point}{name}");
    match value {
        Value::Object(fields) => {
            fields.into_iter().for_each(|(name, value)| walk(below(&name), value, values));
        }
        Value::Array(elements) => {
            let elements = elements.into_iter().enumerate();
            elements.for_each(|(at, value)| walk(below(&at), value, values));
        }
        value => values.push((path, value)),
    }
}

/// A leaf value as text: numbers with the fewest digits that read back the same, without an
/// exponent, and without a point when whole; `n/a` for null.
pub fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "n/a".to_owned(),
        Value::String(text) => text.clone(),
        value => fraction(value).map_or(value.to_string(), |number| number.to_string()),
    }
}

/// The number, unless its type is an integer.
pub fn fraction(value: &Value) -> Option<f64> {
    value.as_f64().filter(|_| value.is_f64())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Serialize)]
    struct Document {
        truth: bool,
        none: Option<u64>,
        some: Option<u64>,
        choice: Choice,
        share: f64,
        list: Vec<Pair>,
        map: BTreeMap<u16, i64>,
        #[serde(flatten)]
        flat: Pair,
    }

    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Choice {
        OneOfMany,
    }

    #[derive(Serialize)]
    struct Pair {
        one: [f64; 2],
        other: &'static str,
    }

    #[test]
    fn every_leaf_has_its_path() {
        let pair = || Pair { one: [1e-7, 2.0], other: "text" };
        let document = Document {
            truth: true,
            none: None,
            some: Some(u64::MAX),
            choice: Choice::OneOfMany,
            share: 0.9499999999999991,
            list: vec![pair()],
            map: BTreeMap::from([(200, -3)]),
            flat: pair(),
        };
        let lines: Vec<String> = flatten(&document)
            .iter()
            .map(|(path, value)| format!("{path} {}", value_text(value)))
            .collect();
        assert_eq!(
            lines,
            [
                "truth true",
                "none n/a",
                "some 18446744073709551615",
                "choice one_of_many",
                "share 0.9499999999999991",
                "list.0.one.0 0.0000001",
                "list.0.one.1 2",
                "list.0.other text",
                "map.200 -3",
                "one.0 0.0000001",
                "one.1 2",
                "other text",
            ]
        );
    }
}
