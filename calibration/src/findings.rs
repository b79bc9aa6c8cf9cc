//! The findings: one page from the results of all experiments, and from nothing else.
//!
//! The page is a function of the results, so its words can change without a run, and the test of
//! the committed page is an equality. It is checked word by word: every word that begins with a
//! digit must be a number of its section's result, rounded, so no number can be typed into a
//! template.

mod numbers;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};

use self::numbers::Known;
use crate::experiments;
use crate::lab::LabError;
use crate::lab::result::ExperimentResult;

/// The name of the page, which by default lies in the folder of all experiments.
pub const FILE: &str = "FINDINGS.md";
/// The page around the experiments' sections.
const PAGE: &str = include_str!("findings.md");
/// What begins a section; the name follows, an experiment's or another.
const ANCHOR: &str = "<a id=\"";

/// The results in a folder, in the order of the experiments.
///
/// # Errors
/// One can't be read.
pub fn results(folder: &Path) -> Result<Vec<ExperimentResult>, LabError> {
    let each = experiments::ALL.iter().map(|one| ExperimentResult::load(&folder.join(one.name)));
    Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Judges the figures of all results in a folder anew, by the experiments' definitions as they are
/// now: their limits and their words may have changed since.
///
/// # Errors
/// A result can't be read or written, or lacks a figure that is judged now.
pub fn judge_anew(folder: &Path) -> Result<(), LabError> {
    for experiment in experiments::ALL {
        let folder = folder.join(experiment.name);
        if let Some(mut result) = ExperimentResult::load(&folder)? {
            result.judge(&experiment.definition()?)?;
            result.store(&folder)?;
        }
    }
    Ok(())
}

/// The page of the results in a folder, to be a file in `page_folder`.
///
/// # Errors
/// A result can't be read, or one of the folders isn't there.
pub fn page_of(folder: &Path, page_folder: &Path) -> Result<String, LabError> {
    let absolute =
        |path: &Path| fs::canonicalize(path).map_err(|error| LabError::file(path, error));
    page(&results(folder)?, &links(&absolute(page_folder)?, &absolute(folder)?))
}

/// What links from a page in one folder to files in another begin with; both paths are absolute.
fn links(from: &Path, to: &Path) -> String {
    let pairs = from.components().zip(to.components());
    let shared = pairs.take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| "../".to_owned());
    // A space would end the link.
    let name = |name: &OsStr| name.to_string_lossy().replace(' ', "%20") + "/";
    up.chain(to.components().skip(shared).map(|part| name(part.as_os_str()))).collect()
}

/// The page, whose links to files of the results begin with `links`: nothing, or a path that ends
/// with `/`.
///
/// # Errors
/// A section names a figure that its result doesn't have.
pub fn page(results: &[ExperimentResult], links: &str) -> Result<String, LabError> {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_auto_escape_callback(|_| AutoEscape::None);
    templates.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    templates.add_filter("fixed", fixed);
    templates.add_filter("count", count);
    templates.add_filter("short", short);
    templates.add_filter("to", limits);
    templates.add_template("page", PAGE)?;
    for experiment in experiments::ALL {
        templates.add_template(experiment.name, experiment.section)?;
    }
    let mut sections = Vec::new();
    for result in results {
        let text = templates.get_template(&result.name)?.render(Serde(result))?;
        sections.push(context! { result => Serde(result), text => text.trim() });
    }
    let by_name = results.iter().map(|result| (result.name.replace('-', "_"), result));
    let by_name: BTreeMap<_, _> = by_name.collect();
    let quick = results.iter().any(|result| result.quick);
    let missing = experiments::ALL.iter().map(|one| one.name);
    let missing: Vec<_> =
        missing.filter(|name| results.iter().all(|result| result.name != *name)).collect();
    let words = context! { passed => "passed", not_judged => "not judged", failed => "FAILED" };
    Ok(templates
        .get_template("page")?
        .render(context! { sections, by_name => Serde(by_name), quick, missing, words, links })?)
}

/// The numbers of a page that stand in none of the results, each with its section. In the section
/// of an experiment, only that one's result counts.
pub fn unfounded(page: &str, results: &[ExperimentResult]) -> Vec<String> {
    let mut all = Known::default();
    let mut each = Vec::new();
    for result in results {
        let document = serde_json::to_value(result).expect("a result has a JSON form");
        all.add(&document);
        let mut known = Known::default();
        known.add(&document);
        each.push((result.name.as_str(), known));
    }
    let mut unfounded = Vec::new();
    for part in page.split(ANCHOR) {
        let name = part.split('"').next().unwrap_or_default();
        let own = each.iter().find(|(result, _)| *result == name);
        let known = own.map_or(&all, |(_, known)| known);
        unfounded.extend(known.unknown_in(part).iter().map(|number| format!("{name}: {number}")));
    }
    unfounded
}

/// What stands for a number that wasn't measured, or that there is none of.
const NONE: &str = "–";

/// A number with so many decimals.
fn fixed(number: minijinja::Value, decimals: usize) -> Result<String, minijinja::Error> {
    if number.is_none() {
        return Ok(NONE.to_owned());
    }
    let text = format!("{:.decimals$}", f64::try_from(number)?);
    // Nothing has no sign.
    let text = match text.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|byte| b"0.".contains(&byte)) => digits.to_owned(),
        _ => text,
    };
    Ok(match text.split_once('.') {
        Some((whole, decimals)) => format!("{}.{decimals}", separated(whole)),
        None => separated(&text),
    })
}

/// A whole number.
fn count(number: minijinja::Value) -> Result<String, minijinja::Error> {
    fixed(number, 0)
}

/// A number with four significant digits and no zeros at its end.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 6")]
fn short(number: minijinja::Value) -> Result<String, minijinja::Error> {
    if number.is_none() {
        return Ok(NONE.to_owned());
    }
    let value = f64::try_from(number.clone())?;
    let decimals = if value == 0.0 { 0.0 } else { 3.0 - value.abs().log10().floor() };
    let text = fixed(number, decimals.clamp(0.0, 6.0) as usize)?;
    Ok(match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    })
}

/// What a figure must be, from its limits.
fn limits(from: minijinja::Value, to: minijinja::Value) -> Result<String, minijinja::Error> {
    let (no_least, no_most) = (from.is_none(), to.is_none());
    let (from, to) = (short(from)?, short(to)?);
    Ok(match (no_least, no_most) {
        (true, true) => NONE.to_owned(),
        (true, false) => format!("at most {to}"),
        (false, true) => format!("at least {from}"),
        (false, false) if from == to => from,
        (false, false) => format!("{from} to {to}"),
    })
}

/// Digits with separators of thousands.
fn separated(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if 0 < at && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::judgement::Judgement;
    use crate::lab::result::{Machine, SCHEMA};

    #[test]
    fn numbers_are_written_in_one_way() {
        let number = |value: f64| minijinja::Value::from(value);
        let fixed = |value, decimals| fixed(number(value), decimals).expect("a text");
        assert_eq!((fixed(13_473.0, 0), fixed(-1_234.5, 2)), ("13,473".into(), "-1,234.50".into()));
        let short = |value| short(number(value)).expect("a text");
        assert_eq!(
            [41.003_4, 0.097_66, 13_500.0, 1.0, 0.0, -182.43].map(short),
            ["41", "0.09766", "13,500", "1", "0", "-182.4"]
        );
        assert_eq!(count(minijinja::Value::from(())).expect("a text"), NONE);
        assert_eq!((fixed(-0.004, 2), fixed(-0.006, 2)), ("0.00".into(), "-0.01".into()));
    }

    #[test]
    fn limits_are_said_in_words() {
        let limits =
            |from: Option<f64>, to: Option<f64>| limits(from.into(), to.into()).expect("a text");
        assert_eq!(limits(Some(-2.0), Some(2.0)), "-2 to 2");
        assert_eq!(limits(Some(0.0), Some(0.0)), "0");
        assert_eq!(limits(None, Some(41.561)), "at most 41.56");
        assert_eq!(limits(Some(20_000.0), None), "at least 20,000");
        assert_eq!(limits(None, None), NONE);
    }

    #[test]
    fn links_lead_from_the_page_to_the_results() {
        let links = |from, to| links(Path::new(from), Path::new(to));
        assert_eq!(links("/a/b", "/a/b"), "");
        assert_eq!(links("/a", "/a/b c/d"), "b%20c/d/");
        assert_eq!(links("/a/page", "/a/results"), "../results/");
        assert_eq!(links("/", "/results"), "results/");
    }

    #[test]
    fn a_page_without_results_says_what_is_missing() {
        let page = page(&[], "").expect("a page");
        assert!(page.contains("Not in these results: open-vs-closed"), "{page}");
    }

    #[test]
    fn every_number_of_a_section_must_stand_in_its_own_result() {
        let result = |name: &str, p99_ms: f64| ExperimentResult {
            schema: SCHEMA,
            name: name.to_owned(),
            title: String::new(),
            question: String::new(),
            judgement: Judgement::Passed,
            quick: true,
            command: "truetail experiment x --rate 2k".to_owned(),
            began: "2026-01-02T03:04:05Z".to_owned(),
            took_s: 7.5,
            machine: Machine::default(),
            definition: Value::Null,
            commands: Vec::new(),
            runs: Vec::new(),
            figures: json!({ "p99_ms": p99_ms }),
            judgements: Vec::new(),
            plots: Vec::new(),
        };
        let results = [result("merge", 41.03), result("sketches", 0.098)];
        let page = "41.0 and 0.098\n<a id=\"merge\"></a>\np99 41.03 ms, in 7.5 s\n";
        assert!(unfounded(page, &results).is_empty());
        let page = format!("{page}0.098, 42\n<a id=\"sketches\"></a>\n2k, 0.1, 41\n");
        assert_eq!(unfounded(&page, &results), ["merge: 0.098", "merge: 42", "sketches: 41"]);
    }

    #[test]
    fn the_page_around_the_results_has_no_numbers_but_those_of_formulas() {
        let page = page(&[], "").expect("a page");
        let others = unfounded(&page, &[]);
        let others: Vec<_> = others
            .iter()
            .filter(|one| ![": 0", ": 1", ": 2"].iter().any(|of| one.ends_with(of)))
            .collect();
        assert!(others.is_empty(), "{others:?}");
    }
}
