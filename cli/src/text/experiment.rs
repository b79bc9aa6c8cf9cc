//! What an experiment prints: its commands as they start, and what was judged.

use std::fmt::Write as _;
use std::path::Path;

use calibration::judgement::Judgement;
use calibration::lab::result::{ExperimentResult, Judged};

use super::wrap::indented;

/// A command that starts.
pub(crate) fn command(command: &str) -> String {
    format!("$ {command}\n")
}

/// What an experiment found.
pub(crate) fn result(of: &ExperimentResult) -> String {
    let quick = if of.quick { ", quick" } else { "" };
    let mut text = format!("\n{}{quick}, {} s: {}\n", of.name, of.took_s, of.title);
    for judged in &of.judgements {
        text.push_str(&line(judged));
    }
    for evidence in &of.disturbed {
        text.push_str(&indented("      ", "        ", &format!("not quiet: {evidence}")));
    }
    text.push('\n');
    text
}

fn line(judged: &Judged) -> String {
    let head = match judged.judgement {
        Judgement::Passed => "pass  ",
        Judgement::NotJudged => "n/a   ",
        Judgement::Failed => "FAIL  ",
    };
    let number = |number: Option<f64>| number.map_or("not measured".to_owned(), short);
    let mut what = format!("{}: {}", judged.what, number(judged.value));
    match (judged.from, judged.to) {
        (Some(from), Some(to)) => {
            let _ = write!(what, " (from {} to {})", short(from), short(to));
        }
        (Some(from), None) => {
            let _ = write!(what, " (at least {})", short(from));
        }
        (None, Some(to)) => {
            let _ = write!(what, " (at most {})", short(to));
        }
        (None, None) => {}
    }
    indented(head, "      ", &what)
}

fn short(number: f64) -> String {
    format!("{}", (number * 1e3).round() / 1e3)
}

/// Where all of it is.
pub(crate) fn end(page: &Path, interrupted: bool) -> String {
    let interrupted = if interrupted { "interrupted; " } else { "" };
    format!("{interrupted}written  {}\n", page.display())
}
