//! What a run passes or fails by, and the exit code for it.

use std::process::ExitCode;

use engine::plan::Plan;
use engine::report::Report;
use engine::report::slo::{JudgedObjective, Judgement};
use engine::report::verdict::Level;
use serde::Deserialize;

use crate::failure::{EXIT_INTERRUPTED, EXIT_INVALID, EXIT_MISSED, Failure};

/// What fails a run beside missed objectives and an invalid verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FailOn {
    /// An objective that is neither met nor missed.
    Undecided,
    /// A suspect verdict.
    Suspect,
}

/// What became of an objective or of the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is as it has to be.
    Passed,
    /// It says nothing, and nobody asked for more.
    Skipped,
    /// It isn't as it has to be.
    Failed,
    /// The numbers can't be trusted.
    Untrusted,
}

/// What a run passes or fails by.
#[derive(Default)]
pub(crate) struct Gate {
    fail_on: Vec<FailOn>,
    allow_invalid: bool,
}

impl Gate {
    /// What was asked for.
    ///
    /// # Errors
    /// Flags that contradict each other, as a usage error.
    pub(crate) fn new(
        plan: &Plan,
        fail_on: &[FailOn],
        allow_invalid: bool,
    ) -> Result<Gate, Failure> {
        let gate = Gate { fail_on: fail_on.to_vec(), allow_invalid };
        if gate.fails_on(FailOn::Undecided) && plan.slo.is_none() {
            return Err(Failure::Usage(
                "--fail-on undecided: there is no objective; give --slo, e.g. --slo 'p99<20ms'"
                    .to_owned(),
            ));
        }
        if gate.fails_on(FailOn::Suspect) && gate.allow_invalid {
            return Err(Failure::Usage(
                "--fail-on suspect: --allow-invalid lets pass what is worse; omit one of them"
                    .to_owned(),
            ));
        }
        Ok(gate)
    }

    fn fails_on(&self, what: FailOn) -> bool {
        self.fail_on.contains(&what)
    }

    /// What an objective's judgement means.
    pub(crate) fn of_objective(&self, objective: &JudgedObjective) -> Outcome {
        match objective.judgement {
            Judgement::Met => Outcome::Passed,
            Judgement::Missed => Outcome::Failed,
            Judgement::Undecided if self.fails_on(FailOn::Undecided) => Outcome::Failed,
            Judgement::Undecided => Outcome::Skipped,
        }
    }

    /// What the verdict means. A run that was cut short says nothing of the one that was asked for.
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

    /// The exit code of a run whose results are written. What can't be trusted comes before what
    /// its numbers say.
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
