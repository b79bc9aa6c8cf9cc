//! The cases of `calibrate --truth`: predicted, measured, and the band within which they agree.

use calibration::cases::Outcome;
use calibration::judgement::Judgement;
use calibration::observed::Comparison;

use super::figures::{count, things};
use super::layout::Column::{self, Left, Right};
use super::layout::{Text, WRITTEN};

/// The note on a case that wasn't judged.
const NOT_JUDGED: &str = "not judged: the disturbance may be the cause, so this isn't evidence \
    against the measurement";

/// One case, as it ended.
pub(crate) fn case(outcome: &Outcome) -> String {
    let head = match outcome.judgement {
        Judgement::Passed => "pass",
        Judgement::NotJudged => "n/a",
        Judgement::Failed => "FAIL",
    };
    let mut text = Text::new();
    text.field(INDENT, head, &outcome.name);
    let Outcome { intended, answered, ledger, comparisons, disturbed, generator, .. } = outcome;
    let (intended, answered) = (count(*intended), count(*answered));
    let ledger = count(*ledger);
    let counts = format!("{intended} intended, {answered} answered, {ledger} by the ledger");
    text.field(INDENT, "", counts);
    text.row(&COLUMNS[..6], &["", "", "predicted", "measured", "ledger", "from", "  to, ms"]);
    for comparison in comparisons {
        text.row(&COLUMNS, &row(comparison, outcome.is_control));
    }
    for evidence in disturbed {
        text.item(INDENT, format!("not quiet: {evidence}"));
    }
    for evidence in generator {
        text.item(INDENT, format!("generator: {evidence}"));
    }
    if outcome.judgement == Judgement::NotJudged {
        text.field(INDENT, "", NOT_JUDGED);
    }
    text.blank();
    text.done()
}

/// Columns before the details of a case.
const INDENT: usize = 6;
/// The columns of a case's figures.
const COLUMNS: [Column; 7] =
    [Left(INDENT), Left(11), Right(10), Right(10), Right(10), Right(10), Right(9)];

fn row(comparison: &Comparison, is_control: bool) -> [String; 8] {
    let Comparison { name, predicted_ms, measured_ms, held_ms, band_ms: (from, to) } = comparison;
    let note = match comparison.holds() {
        true => "",
        false if is_control && comparison.is_below() => "  as expected",
        false => "  OUTSIDE",
    };
    let [predicted, measured, held, from, to] =
        [predicted_ms, measured_ms, held_ms, from, to].map(|ms| format!("{ms:.3}"));
    let name = name.clone();
    [String::new(), name, predicted, measured, held, from, to, note.to_owned()]
}

/// The sum of all cases.
pub(crate) fn sum(outcomes: &[Outcome], planned: usize, written: &[String]) -> String {
    let of = |judgement| outcomes.iter().filter(|outcome| outcome.judgement == judgement).count();
    let passed = of(Judgement::Passed);
    let mut counts = format!("{passed} of {} passed", things(planned as u64, "case"));
    for (judgement, what) in [(Judgement::Failed, "failed"), (Judgement::NotJudged, "not judged")] {
        match of(judgement) {
            0 => {}
            some => counts.push_str(&format!(", {some} {what}")),
        }
    }
    if outcomes.len() < planned {
        counts.push_str(&format!(", interrupted after {}", outcomes.len()));
    }
    let mut text = Text::new();
    text.line(counts);
    let disturbed = outcomes.iter().filter(|outcome| !outcome.disturbed.is_empty()).count();
    if 0 < disturbed {
        let cases = things(disturbed as u64, "case");
        text.line(format!(
            "The machine was not quiet in {cases}: what disturbed it is named above."
        ));
    }
    text.written(WRITTEN, written);
    text.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(is_control: bool, measured_ms: f64, disturbed: &[&str]) -> Outcome {
        let comparison = Comparison {
            name: "p99".to_owned(),
            predicted_ms: 41.0,
            measured_ms,
            held_ms: 41.07,
            band_ms: (39.8, 42.3),
        };
        let as_it_must = if is_control { comparison.is_below() } else { comparison.holds() };
        Outcome {
            name: "each request in a stall waits for its end; 2,000/s for 60 s".to_owned(),
            is_control,
            judgement: match (as_it_must, disturbed.is_empty()) {
                (true, _) => Judgement::Passed,
                (false, true) => Judgement::Failed,
                (false, false) => Judgement::NotJudged,
            },
            intended: 120_000,
            answered: 120_000,
            ledger: 120_000,
            comparisons: vec![comparison],
            disturbed: disturbed.iter().map(|text| (*text).to_owned()).collect(),
            generator: Vec::new(),
        }
    }

    #[test]
    fn a_case_shows_its_prediction_and_its_misses() {
        let taken = "other processes ran for 48.00 % of the cores' time; the limit is 1.00 %";
        let late = Outcome {
            generator: vec!["pacer lateness p99 is 85.0 µs; the limit is 51.0 µs".to_owned()],
            ..outcome(false, 44.0, &[])
        };
        let outcomes = [
            outcome(false, 41.1, &[]),
            outcome(false, 44.0, &[taken]),
            late,
            outcome(true, 1.0, &[]),
        ];
        let mut text: String = outcomes.iter().map(case).collect();
        text.push_str(&sum(&outcomes, 9, &["truth.json".to_owned()]));
        insta::assert_snapshot!(text, @r"
        pass  each request in a stall waits for its end; 2,000/s for 60 s
              120,000 intended, 120,000 answered, 120,000 by the ledger
                          predicted  measured    ledger      from  to, ms
              p99            41.000    41.100    41.070    39.800   42.300

        n/a   each request in a stall waits for its end; 2,000/s for 60 s
              120,000 intended, 120,000 answered, 120,000 by the ledger
                          predicted  measured    ledger      from  to, ms
              p99            41.000    44.000    41.070    39.800   42.300  OUTSIDE
              not quiet: other processes ran for 48.00 % of the cores' time; the limit
                is 1.00 %
              not judged: the disturbance may be the cause, so this isn't evidence
              against the measurement

        FAIL  each request in a stall waits for its end; 2,000/s for 60 s
              120,000 intended, 120,000 answered, 120,000 by the ledger
                          predicted  measured    ledger      from  to, ms
              p99            41.000    44.000    41.070    39.800   42.300  OUTSIDE
              generator: pacer lateness p99 is 85.0 µs; the limit is 51.0 µs

        pass  each request in a stall waits for its end; 2,000/s for 60 s
              120,000 intended, 120,000 answered, 120,000 by the ledger
                          predicted  measured    ledger      from  to, ms
              p99            41.000     1.000    41.070    39.800   42.300  as expected

        2 of 9 cases passed, 1 failed, 1 not judged, interrupted after 4
        The machine was not quiet in 1 case: what disturbed it is named above.
        written  truth.json
        ");
    }
}
