//! The output of an experiment: its commands as they start, and its judgements.

use std::fmt::Write as _;
use std::path::Path;

use calibration::judgement::Judgement;
use calibration::lab::result::{ExperimentResult, Judged};

use super::layout::Text;

/// A command that starts.
pub(crate) fn command(command: &str) -> String {
    format!("$ {command}\n")
}

/// The result of an experiment.
pub(crate) fn result(of: &ExperimentResult) -> String {
    let quick = if of.quick { ", quick" } else { "" };
    let head = format!("{}{quick}, {} s: {}", of.name, of.took_s, of.title);
    let mut text = Text::new();
    text.blank();
    text.wrapped(head);
    of.judgements.iter().for_each(|judged| line(&mut text, judged));
    for run in &of.runs {
        for evidence in &run.disturbed {
            text.item(INDENT, format!("not quiet: {}: {evidence}", run.name));
        }
    }
    text.blank();
    text.done()
}

/// Columns before the details of a judgement.
const INDENT: usize = 6;

fn line(text: &mut Text, judged: &Judged) {
    let head = match judged.judgement {
        Judgement::Passed => "pass",
        Judgement::NotJudged => "n/a",
        Judgement::Failed => "FAIL",
    };
    let number = |number: Option<f64>| number.map_or("not measured".to_owned(), short);
    let sentence = judged.what.trim_end_matches('.');
    let mut what = format!("{sentence}: {}", number(judged.value));
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
    text.field(INDENT, head, what);
}

fn short(number: f64) -> String {
    format!("{}", (number * 1e3).round() / 1e3)
}

/// The path of the page.
pub(crate) fn end(page: &Path, interrupted: bool) -> String {
    let interrupted = if interrupted { "interrupted; " } else { "" };
    format!("{interrupted}written  {}\n", page.display())
}

#[cfg(test)]
mod tests {
    use calibration::lab::result::{Machine, RunResult, SCHEMA};
    use engine::report::verdict::Level;

    use super::*;

    #[test]
    fn a_result_shows_each_figure_with_its_limits() {
        let judged = |what: &str, value, from, to, judgement| Judged {
            what: what.to_owned(),
            figure: "open.p99_ms".to_owned(),
            value,
            from,
            to,
            judgement,
            verdict: Some(Level::Suspect),
            disturbed: true,
            criterion: None,
        };
        let (passed, failed) = (Judgement::Passed, Judgement::Failed);
        let of = ExperimentResult {
            schema: SCHEMA,
            name: "open-vs-closed".to_owned(),
            title: "Open against closed: the same rate, two answers to one question".to_owned(),
            question: "Do they agree?".to_owned(),
            judgement: failed,
            quick: true,
            command: "truetail experiment open-vs-closed --quick".to_owned(),
            began: "2026-01-02T03:04:05Z".to_owned(),
            took_s: 24.1,
            machine: Machine::default(),
            definition: Default::default(),
            commands: Vec::new(),
            runs: vec![RunResult {
                name: "open".to_owned(),
                of: "open".to_owned(),
                command: String::new(),
                verdict: Some(Level::Suspect),
                reasons: Vec::new(),
                disturbed: vec!["a shard waited for its core 48.00 % of the time".to_owned()],
            }],
            figures: Default::default(),
            judgements: vec![
                judged("the open loop's p99, ms", Some(45.123_4), Some(38.7), Some(52.0), passed),
                judged("the closed loop's p99, ms", Some(5.1), None, Some(38.7), passed),
                judged("The gap is wide.", Some(3.0), Some(33.0), None, failed),
                judged("over TLS, ms", None, None, Some(1.0), Judgement::NotJudged),
            ],
            plots: Vec::new(),
        };
        let end = end(Path::new("DIR/FINDINGS.md"), true);
        let text = command("truetail target") + &result(&of) + &end;
        insta::assert_snapshot!(text, @r"
        $ truetail target

        open-vs-closed, quick, 24.1 s: Open against closed: the same rate, two answers
        to one question
        pass  the open loop's p99, ms: 45.123 (from 38.7 to 52)
        pass  the closed loop's p99, ms: 5.1 (at most 38.7)
        FAIL  The gap is wide: 3 (at least 33)
        n/a   over TLS, ms: not measured (at most 1)
              not quiet: open: a shard waited for its core 48.00 % of the time

        interrupted; written  DIR/FINDINGS.md
        ");
    }
}
