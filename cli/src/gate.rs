//! Whether a run passes or fails, and its exit code.

use std::process::ExitCode;

use engine::plan::Plan;
use engine::report::Report;
use engine::report::slo::{JudgedObjective, Judgement};
use engine::report::verdict::Level;
use serde::Deserialize;

use crate::failure::{EXIT_INTERRUPTED, EXIT_INVALID, EXIT_MISSED, Failure};

/// Conditions that fail a run besides missed objectives and an invalid verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FailOn {
    /// An objective that is neither met nor missed.
    Undecided,
    /// A suspect verdict.
    Suspect,
}

/// The result of an objective or of the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is as it has to be.
    Passed,
    /// It is undecided, which was not asked to fail.
    Skipped,
    /// It doesn't hold.
    Failed,
    /// The numbers can't be trusted.
    Untrusted,
}

/// The conditions that fail a run.
#[derive(Default)]
pub(crate) struct Gate {
    fail_on: Vec<FailOn>,
    allow_invalid: bool,
}

impl Gate {
    /// The conditions of these flags, which must fit the plan, if it is known.
    ///
    /// # Errors
    /// The flags contradict each other, as a usage error.
    pub(crate) fn new(
        plan: Option<&Plan>,
        fail_on: &[FailOn],
        allow_invalid: bool,
    ) -> Result<Gate, Failure> {
        let gate = Gate { fail_on: fail_on.to_vec(), allow_invalid };
        let has_objectives = plan.is_none_or(|plan| plan.objectives().is_some());
        if gate.fails_on(FailOn::Undecided) && !has_objectives {
            return Err(Failure::Usage(
                "--fail-on undecided: there is no objective; give --slo, e.g. --slo 'p99<20ms'"
                    .to_owned(),
            ));
        }
        if gate.fails_on(FailOn::Suspect) && gate.allow_invalid {
            return Err(Failure::Usage(
                "--fail-on suspect: --allow-invalid lets even an invalid verdict pass; omit one of them"
                    .to_owned(),
            ));
        }
        Ok(gate)
    }

    fn fails_on(&self, what: FailOn) -> bool {
        self.fail_on.contains(&what)
    }

    /// The result of an objective.
    pub(crate) fn of_objective(&self, objective: &JudgedObjective) -> Outcome {
        match objective.judgement {
            Judgement::Met => Outcome::Passed,
            Judgement::Missed => Outcome::Failed,
            Judgement::Undecided if self.fails_on(FailOn::Undecided) => Outcome::Failed,
            Judgement::Undecided => Outcome::Skipped,
        }
    }

    /// The result of the verdict. An interrupted run doesn't decide about the planned one.
    pub(crate) fn of_verdict(&self, report: &Report) -> Outcome {
        match report.verdict.level {
            _ if report.interrupted => Outcome::Untrusted,
            Level::Valid => Outcome::Passed,
            Level::Suspect if self.fails_on(FailOn::Suspect) => Outcome::Failed,
            Level::Suspect => Outcome::Passed,
            Level::Invalid if self.allow_invalid => Outcome::Skipped,
            Level::Invalid => Outcome::Untrusted,
        }
    }

    /// The exit code of a run whose results are written. Untrustworthy numbers take precedence over
    /// their results.
    pub(crate) fn exit_code(&self, report: &Report) -> ExitCode {
        let objectives = report.slo.iter().flat_map(|slo| &slo.objectives);
        let trusted = match self.of_verdict(report) {
            Outcome::Passed | Outcome::Skipped => true,
            Outcome::Failed | Outcome::Untrusted => false,
        };
        let mut failed = objectives.filter(|one| self.of_objective(one) == Outcome::Failed);
        match trusted {
            _ if report.interrupted => ExitCode::from(EXIT_INTERRUPTED),
            false => ExitCode::from(EXIT_INVALID),
            true if failed.next().is_some() => ExitCode::from(EXIT_MISSED),
            true => ExitCode::SUCCESS,
        }
    }
}
