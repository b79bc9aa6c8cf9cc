//! The judgements of a run as JUnit XML, which CI servers show: a test case for the verdict and one
//! for each objective.

use std::io::{self, Write};
use std::time::Duration;

use engine::report::Report;
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use crate::gate::{Gate, Outcome};
use crate::text::slo::{bounded, evidence, judgement};
use crate::text::verdict;

/// Writes the judgements of a run. The time of each case is that of the window, which all of them
/// share.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write(mut writer: impl Write, report: &Report, gate: &Gate) -> io::Result<()> {
    let plan = &report.config.plan;
    let window_s = report.config.window_s();
    let cut_short = if report.interrupted { "interrupted; " } else { "" };
    let headline = format!("{cut_short}{}", verdict::headline(&report.verdict));
    let evidence_of_verdict = verdict::verdict(&report.verdict);
    let verdict = gate.of_verdict(report);
    let mut cases = vec![case("verdict", verdict, &headline, &evidence_of_verdict)];
    for objective in report.slo.iter().flat_map(|slo| &slo.objectives) {
        let judged = format!("{} is {}", objective.metric, judgement(objective.judgement));
        let outcome = gate.of_objective(objective);
        cases.push(case(&bounded(objective), outcome, &judged, &evidence(objective, window_s)));
    }
    let took = Duration::from_secs_f64(window_s);
    let mut suite = TestSuite::new(plan.target.clone());
    suite.set_time(took);
    for mut case in cases {
        case.set_classname("truetail");
        case.set_time(took);
        suite.add_test_case(case);
    }
    let mut document = quick_junit::Report::new("truetail");
    document.add_test_suite(suite);
    document.serialize(&mut writer).map_err(io::Error::other)
}

/// A test case, with its outcome as the message and its evidence as the text.
fn case(name: &str, outcome: Outcome, message: &str, text: &str) -> TestCase {
    let mut status = match outcome {
        Outcome::Passed => {
            let mut case = TestCase::new(name, TestCaseStatus::success());
            case.set_system_out(text);
            return case;
        }
        Outcome::Skipped => TestCaseStatus::skipped(),
        Outcome::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Outcome::Untrusted => TestCaseStatus::non_success(NonSuccessKind::Error),
    };
    status.set_message(message).set_description(text);
    TestCase::new(name, status)
}
