//! Compares two documents of one kind, value by value.

use std::collections::BTreeMap;

use plan::flatten::{flatten, fraction, value_text};
use serde::Serialize;
use serde_json::Value;
use stats::distribution::{INTERVAL_DIGITS, SIGNIFICANT_DIGITS, histogram_of_text};

use super::finding::Finding;

/// A finding for each value in either document, named by its path after `prefix`.
pub fn compare<T: Serialize>(prefix: &str, expected: &T, found: &T) -> Vec<Finding> {
    compare_values(prefix, flatten(expected), flatten(found))
}

/// The same for documents that have been flattened.
pub(super) fn compare_values(
    prefix: &str,
    expected: Vec<(String, Value)>,
    found: Vec<(String, Value)>,
) -> Vec<Finding> {
    let mut rest: BTreeMap<String, Value> = found.into_iter().collect();
    let mut findings: Vec<Finding> = expected
        .into_iter()
        .map(|(path, expected)| {
            let found = rest.remove(&path);
            one(prefix, &path, Some(expected), found)
        })
        .collect();
    findings.extend(rest.into_iter().map(|(path, found)| one(prefix, &path, None, Some(found))));
    findings
}

fn one(prefix: &str, path: &str, expected: Option<Value>, found: Option<Value>) -> Finding {
    // A document that is a single value, such as an absent one, has no path.
    let what = format!("{prefix}{path}").trim_end_matches('.').to_owned();
    let text = |leaf: &Option<Value>| leaf.as_ref().map_or("nothing".to_owned(), value_text);
    let (expected_text, found_text) = (text(&expected), text(&found));
    let number = |leaf: &Option<Value>| leaf.as_ref().and_then(fraction);
    if let (Some(expected), Some(found)) = (number(&expected), number(&found)) {
        return Finding::close(what, expected, found);
    }
    match (&expected, &found) {
        (Some(Value::String(expected)), Some(Value::String(found)))
            if path.ends_with("histogram") =>
        {
            // The compressed bytes of a histogram may differ.
            let same = expected == found
                || [SIGNIFICANT_DIGITS, INTERVAL_DIGITS].into_iter().any(|digits| {
                    match (histogram_of_text(expected, digits), histogram_of_text(found, digits)) {
                        (Ok(expected), Ok(found)) => expected == found,
                        _ => false,
                    }
                });
            let found = if same { "equal in every bucket" } else { "not equal" };
            Finding::equal(what, "equal in every bucket", found)
        }
        (expected, found) => Finding::new(what, expected_text, found_text, expected == found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_of_either_is_compared() {
        let document = |pairs: &[(&'static str, Option<f64>)]| -> BTreeMap<&str, Option<f64>> {
            pairs.iter().copied().collect()
        };
        let expected = document(&[("a", Some(1.0)), ("b", None), ("c", Some(0.1))]);
        let found = document(&[("a", Some(1.0 + 1e-13)), ("b", Some(2.0)), ("d", None)]);
        let texts: Vec<(String, String, String, bool)> = compare("x.", &expected, &found)
            .into_iter()
            .map(|finding| (finding.what, finding.expected, finding.found, finding.ok))
            .collect();
        let row = |what: &str, expected: &str, found: &str, ok: bool| {
            (what.to_owned(), expected.to_owned(), found.to_owned(), ok)
        };
        assert_eq!(
            texts,
            [
                row("x.a", "1", "1.0000000000001", true),
                row("x.b", "n/a", "2", false),
                row("x.c", "0.1", "nothing", false),
                row("x.d", "nothing", "n/a", false),
            ]
        );
    }
}
