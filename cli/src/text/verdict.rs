//! The verdict, above everything else: one line that says whether the numbers can be trusted, then
//! each reason why not.

use std::fmt::Write as _;

use engine::report::verdict::{Level, Reason, Verdict};

use super::wrap::indented;

/// The lines of the verdict.
pub(crate) fn verdict(verdict: &Verdict) -> String {
    let mut text = headline(verdict);
    text.push('\n');
    for reason in &verdict.reasons {
        text.push_str(&indented("  ", "    ", &sentences(reason, verdict.level)));
    }
    text
}

/// The verdict in one line: `valid`, `suspect: generator_late`, `INVALID: core_saturated`.
pub(crate) fn headline(verdict: &Verdict) -> String {
    let mut text = match verdict.level {
        Level::Valid => "valid",
        Level::Suspect => "suspect",
        Level::Invalid => "INVALID",
    }
    .to_owned();
    let mut names: Vec<String> = verdict.reasons.iter().map(name).collect();
    names.dedup();
    if !names.is_empty() {
        let _ = write!(text, ": {}", names.join(", "));
    }
    text
}

/// A reason's code as in the report.
fn name(reason: &Reason) -> String {
    let word = toml::Value::try_from(reason.code).expect("a code is a word");
    word.as_str().expect("a code is a word").to_owned()
}

/// Evidence, meaning and cure. A reason milder than the verdict says so.
fn sentences(reason: &Reason, level: Level) -> String {
    let milder = if reason.level < level { " (suspect only)" } else { "" };
    let Reason { evidence, meaning, cure, .. } = reason;
    format!("{}{milder}: {evidence}. Meaning: {meaning}. Cure: {cure}.", name(reason))
}

#[cfg(test)]
mod tests {
    use engine::report::verdict::Code;

    use super::*;

    fn reason(code: Code, level: Level, evidence: &str) -> Reason {
        Reason {
            code,
            level,
            evidence: evidence.to_owned(),
            figure: 2.0,
            threshold: 1.0,
            meaning:
                "the run measured its own generator: the target could have answered more, or sooner"
                    .to_owned(),
            cure: "add --cores, or lower the load".to_owned(),
        }
    }

    #[test]
    fn nothing_against_it_is_one_word() {
        let nothing = Verdict { level: Level::Valid, reasons: Vec::new() };
        assert_eq!(verdict(&nothing), "valid\n");
    }

    #[test]
    fn each_reason_comes_with_evidence_meaning_and_cure() {
        let missed = |evidence| reason(Code::RateMissed, Level::Invalid, evidence);
        let judged = Verdict {
            level: Level::Invalid,
            reasons: vec![
                missed("5 of 100 intended requests (5.00 %) were not sent before the window's end"),
                missed("90.0/s were intended, 100/s were asked for"),
                reason(Code::GeneratorLate, Level::Suspect, "pacer lateness p99 is 85.0 µs"),
            ],
        };
        insta::assert_snapshot!(verdict(&judged), @r"
        INVALID: rate_missed, generator_late
          rate_missed: 5 of 100 intended requests (5.00 %) were not sent before the window's end. Meaning:
            the run measured its own generator: the target could have answered more, or sooner. Cure: add
            --cores, or lower the load.
          rate_missed: 90.0/s were intended, 100/s were asked for. Meaning: the run measured its own
            generator: the target could have answered more, or sooner. Cure: add --cores, or lower the load.
          generator_late (suspect only): pacer lateness p99 is 85.0 µs. Meaning: the run measured its own
            generator: the target could have answered more, or sooner. Cure: add --cores, or lower the load.
        ");
        let mild = Verdict { level: Level::Suspect, reasons: judged.reasons[2..].to_vec() };
        assert_eq!(headline(&mild), "suspect: generator_late");
        assert!(!verdict(&mild).contains("only"));
    }
}
