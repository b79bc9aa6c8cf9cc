//! The findings: a page with a section for each experiment, and READMEs beside the results with all
//! the rest. They are written from the results of all experiments, and from nothing else.
//!
//! Each is a function of the results, so its text can change without a run, and the test of the
//! committed ones is an equality. The tests check them word by word: every word that begins with a
//! digit must be a number of its section's result, rounded, so no number can be typed into a
//! template.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};

use crate::experiments;
use crate::lab::result::ExperimentResult;
use crate::lab::{LabError, files};

/// The name of the page, which by default lies in the folder of all experiments.
pub const FILE: &str = "FINDINGS.md";
/// The name of the page beside the results.
const README: &str = "README.md";
/// The page around the experiments' sections.
const PAGE: &str = include_str!("findings.md");
/// The README of an experiment, around the experiment's own part.
const OF_EXPERIMENT: &str = include_str!("findings/experiment.md");
/// The README of all experiments.
const OF_ALL: &str = include_str!("findings/readme.md");
/// The width of a plot on the page, so that a section fits on a screen; no result has this number.
const WIDTH: &str = "width=\"560\"";

/// The texts written from results.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// The page.
    pub page: String,
    /// The README of all experiments, in the folder of the results.
    pub readme: String,
    /// The README of each experiment that has a result, by its name.
    pub readmes: BTreeMap<String, String>,
}

/// The results in a folder, in the order of the experiments.
///
/// # Errors
/// One can't be read.
pub fn results(folder: &Path) -> Result<Vec<ExperimentResult>, LabError> {
    let each = experiments::ALL.iter().map(|one| ExperimentResult::load(&folder.join(one.name)));
    Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Judges the figures of all results in a folder anew, by the experiments' current definitions,
/// whose limits and texts may have changed since.
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

/// True if a folder can take the README of all experiments: it has none, or an earlier one of
/// these.
pub fn can_take_readme(folder: &Path) -> bool {
    let title = OF_ALL.lines().next().expect("it has a title");
    fs::read_to_string(folder.join(README)).map_or_else(
        |error| error.kind() == std::io::ErrorKind::NotFound,
        |text| text.lines().next() == Some(title),
    )
}

/// The start of links from a page in one folder to files in another; both paths are absolute.
fn links(from: &Path, to: &Path) -> String {
    let pairs = from.components().zip(to.components());
    let shared = pairs.take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| "../".to_owned());
    up.chain(to.components().skip(shared).map(|part| link(part.as_os_str()) + "/")).collect()
}

/// A part of a link: a space would end it.
fn link(name: &OsStr) -> String {
    name.to_string_lossy().replace(' ', "%20")
}

impl Findings {
    /// The findings from the results in a folder; `page` is the file of the page.
    ///
    /// # Errors
    /// A result can't be read, or one of the folders isn't there.
    pub fn of_folder(folder: &Path, page: &Path) -> Result<Findings, LabError> {
        let absolute =
            |path: &Path| fs::canonicalize(path).map_err(|error| LabError::file(path, error));
        let of_page = page.parent().filter(|folder| *folder != Path::new(""));
        let of_page = absolute(of_page.unwrap_or(Path::new(".")))?;
        let of_results = absolute(folder)?;
        let name = link(page.file_name().unwrap_or(OsStr::new(FILE)));
        let back = links(&of_results, &of_page) + &name;
        Findings::new(&results(folder)?, &links(&of_page, &of_results), &back)
    }

    /// The findings from results, with the links from the page to their folder (nothing, or a path
    /// that ends with `/`) and from that folder to the page.
    ///
    /// # Errors
    /// A template names a figure that its result doesn't have.
    pub fn new(
        results: &[ExperimentResult],
        links: &str,
        page: &str,
    ) -> Result<Findings, LabError> {
        let templates = templates()?;
        let named = |name: &str, values| templates.get_template(name)?.render(values);
        let around = |template: &str, values| templates.render_str(template, values);
        let mut sections = Vec::new();
        let mut readmes = BTreeMap::new();
        for result in results {
            let name = &result.name;
            let folder = format!("{links}{name}/");
            let of_result = minijinja::Value::from(Serde(result));
            let text = named(&section(name), context! { folder, ..of_result.clone() })?;
            sections.push(context! { result => of_result.clone(), text => text.trim() });
            let text = named(&readme(name), of_result.clone())?;
            let page = format!("../{page}");
            let values = context! { text => text.trim(), page, ..of_result };
            readmes.insert(name.clone(), around(OF_EXPERIMENT, values)?);
        }
        let by_name = results.iter().map(|result| (result.name.replace('-', "_"), result));
        let by_name: BTreeMap<_, _> = by_name.collect();
        let quick = results.iter().any(|result| result.quick);
        let missing = experiments::ALL.iter().map(|one| one.name);
        let missing: Vec<_> =
            missing.filter(|name| results.iter().all(|result| result.name != *name)).collect();
        let by_name = Serde(by_name);
        Ok(Findings {
            page: around(PAGE, context! { sections, by_name, quick, missing, links })?,
            readme: around(OF_ALL, context! { results => Serde(results), page })?,
            readmes,
        })
    }

    /// Writes the READMEs into the folder of the results.
    ///
    /// # Errors
    /// One can't be written.
    pub fn store_readmes(&self, folder: &Path) -> Result<(), LabError> {
        self.beside(folder).iter().try_for_each(|(path, text)| files::write(path, text))
    }

    /// The READMEs by their paths, for results in a folder.
    pub fn beside(&self, folder: &Path) -> Vec<(PathBuf, &str)> {
        let of_each = self.readmes.iter();
        let of_each = of_each.map(|(name, text)| (folder.join(name).join(README), text.as_str()));
        iter::once((folder.join(README), self.readme.as_str())).chain(of_each).collect()
    }
}

/// The name of the template of an experiment's section.
fn section(experiment: &str) -> String {
    format!("{experiment}, section")
}

/// The name of the template of an experiment's own part of its README.
fn readme(experiment: &str) -> String {
    format!("{experiment}, readme")
}

/// All templates.
fn templates() -> Result<Environment<'static>, LabError> {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_auto_escape_callback(|_| AutoEscape::None);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    templates.set_syntax(syntax.build()?);
    templates.add_filter("fixed", fixed);
    templates.add_filter("count", count);
    templates.add_filter("short", short);
    templates.add_filter("to", limits);
    let words = context! { passed => "passed", not_judged => "not judged", failed => "FAILED" };
    templates.add_global("words", words);
    templates.add_global("width", WIDTH);
    for experiment in experiments::ALL {
        templates.add_template_owned(section(experiment.name), experiment.section)?;
        templates.add_template_owned(readme(experiment.name), experiment.readme)?;
    }
    Ok(templates)
}

/// Stands for a number that wasn't measured or doesn't exist.
const NONE: &str = "–";

/// A number with this many decimals.
fn fixed(number: minijinja::Value, decimals: usize) -> Result<String, minijinja::Error> {
    if number.is_none() {
        return Ok(NONE.to_owned());
    }
    let text = format!("{:.decimals$}", f64::try_from(number)?);
    // Zero has no sign.
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

/// The permitted range of a figure, from its limits.
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

/// Digits with thousands separators.
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
    use super::*;

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
    fn limits_read_as_text() {
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
    fn findings_without_results_list_what_is_missing() {
        let of_none = Findings::new(&[], "", FILE).expect("findings");
        assert!(of_none.page.contains("Not in these results: open-vs-closed"), "{}", of_none.page);
        assert!(of_none.readmes.is_empty());
    }

    #[test]
    fn only_a_readme_of_experiments_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(can_take_readme(folder.path()));
        let of_none = Findings::new(&[], "", FILE).expect("findings");
        of_none.store_readmes(folder.path()).expect("written");
        assert!(can_take_readme(folder.path()));
        fs::write(folder.path().join(README), "# My project\n").expect("written");
        assert!(!can_take_readme(folder.path()));
    }
}
