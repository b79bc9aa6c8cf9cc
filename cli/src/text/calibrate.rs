//! The cases of `calibrate`: predicted, measured, and the band between which a measurement agrees.

use std::fmt::Write as _;

use calibration::cases::Outcome;
use calibration::experiment::Comparison;

use super::figures::{count, things};
use super::wrap::indented;

/// One case, as it ended.
pub(crate) fn case(outcome: &Outcome) -> String {
    let head = if outcome.passed { "pass  " } else { "FAIL  " };
    let mut text = indented(head, "      ", &outcome.name);
    let Outcome { intended, answered, ledger, comparisons, disturbed, .. } = outcome;
    let (intended, answered) = (count(*intended), count(*answered));
    let counts =
        format!("{intended} intended, {answered} answered, {} by the ledger", count(*ledger));
    text.push_str(&indented("      ", "      ", &counts));
    let _ = writeln!(
        text,
        "      {:<11}{:>10}{:>10}{:>10}{:>10}  to, ms",
        "", "predicted", "measured", "ledger", "from"
    );
    for comparison in comparisons {
        text.push_str(&row(comparison, outcome.is_control));
    }
    for evidence in disturbed {
        text.push_str(&indented("      ", "        ", &format!("not quiet: {evidence}")));
    }
    text.push('\n');
    text
}

fn row(comparison: &Comparison, is_control: bool) -> String {
    let Comparison { name, predicted_ms, measured_ms, held_ms, band_ms: (from, to) } = comparison;
    let note = match comparison.holds() {
        true => "",
        false if is_control && comparison.is_below() => "  below, as it must",
        false => "  OUTSIDE",
    };
    let numbers = format!("{predicted_ms:>10.3}{measured_ms:>10.3}{held_ms:>10.3}{from:>10.3}");
    format!("      {name:<11}{numbers}{to:>9.3}{note}\n")
}

/// What all of them came to.
pub(crate) fn sum(outcomes: &[Outcome], planned: usize, written: &[String]) -> String {
    let passed = outcomes.iter().filter(|outcome| outcome.passed).count();
    let mut text = format!("{passed} of {} passed", things(planned as u64, "case"));
    if outcomes.len() < planned {
        let _ = write!(text, ", interrupted after {}", outcomes.len());
    }
    text.push('\n');
    let disturbed = outcomes.iter().filter(|outcome| !outcome.disturbed.is_empty()).count();
    if 0 < disturbed {
        let _ = writeln!(
            text,
            "The machine was not quiet in {}: what disturbed it is named above.",
            things(disturbed as u64, "case")
        );
    }
    for file in written {
        let _ = writeln!(text, "written  {file}");
    }
    text
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
        Outcome {
            name: "each request in a stall waits for its end; 2,000/s for 60 s".to_owned(),
            is_control,
            passed: if is_control { comparison.is_below() } else { comparison.holds() },
            intended: 120_000,
            answered: 120_000,
            ledger: 120_000,
            comparisons: vec![comparison],
            disturbed: disturbed.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    #[test]
    fn a_case_shows_what_was_predicted_and_what_was_not_met() {
        let taken = "other processes ran for 48.00 % of the cores' time; the limit is 1.00 %";
        let outcomes =
            [outcome(false, 41.1, &[]), outcome(false, 44.0, &[taken]), outcome(true, 1.0, &[])];
        let mut text: String = outcomes.iter().map(case).collect();
        text.push_str(&sum(&outcomes, 9, &["truth.json".to_owned()]));
        insta::assert_snapshot!(text, @r"
        pass  each request in a stall waits for its end; 2,000/s for 60 s
              120,000 intended, 120,000 answered, 120,000 by the ledger
                          predicted  measured    ledger      from  to, ms
              p99            41.000    41.100    41.070    39.800   42.300

        FAIL  each request in a stall waits for its end; 2,000/s for 60 s
              120,000 intended, 120,000 answered, 120,000 by the ledger
                          predicted  measured    ledger      from  to, ms
              p99            41.000    44.000    41.070    39.800   42.300  OUTSIDE
              not quiet: other processes ran for 48.00 % of the cores' time; the limit is 1.00 %

        pass  each request in a stall waits for its end; 2,000/s for 60 s
              120,000 intended, 120,000 answered, 120,000 by the ledger
                          predicted  measured    ledger      from  to, ms
              p99            41.000     1.000    41.070    39.800   42.300  below, as it must

        2 of 9 cases passed, interrupted after 3
        The machine was not quiet in 1 case: what disturbed it is named above.
        written  truth.json
        ");
    }
}
