//! The experiments: each is a definition, what it computes of what was measured, and its section of
//! the findings.

mod agents;
mod ceiling;
mod coordinated_omission;
mod keep_alive;
mod merge;
mod open_vs_closed;
mod pacing;
mod peers;
mod queue;
mod scale_out;
mod sketches;
mod warm_up;

use crate::lab::result::ExperimentResult;
use crate::lab::{self, Definition, Lab, LabError, Measured, Setup};

/// One experiment.
pub struct Experiment {
    /// The name by which it is run.
    pub name: &'static str,
    /// Its definition: TOML.
    definition: &'static str,
    /// Its section of the findings: a template over its result.
    pub(crate) section: &'static str,
    /// Makes its runs, and computes its figures.
    measure: fn(&mut Lab) -> Result<Measured, LabError>,
}

/// All experiments, in the order of the findings.
pub const ALL: [Experiment; 10] = [
    Experiment {
        name: "open-vs-closed",
        definition: include_str!("experiments/open_vs_closed.toml"),
        section: include_str!("experiments/open_vs_closed.md"),
        measure: open_vs_closed::measure,
    },
    Experiment {
        name: "coordinated-omission",
        definition: include_str!("experiments/coordinated_omission.toml"),
        section: include_str!("experiments/coordinated_omission.md"),
        measure: coordinated_omission::measure,
    },
    Experiment {
        name: "ceiling",
        definition: include_str!("experiments/ceiling.toml"),
        section: include_str!("experiments/ceiling.md"),
        measure: ceiling::measure,
    },
    Experiment {
        name: "scale-out",
        definition: include_str!("experiments/scale_out.toml"),
        section: include_str!("experiments/scale_out.md"),
        measure: scale_out::measure,
    },
    Experiment {
        name: "keep-alive",
        definition: include_str!("experiments/keep_alive.toml"),
        section: include_str!("experiments/keep_alive.md"),
        measure: keep_alive::measure,
    },
    Experiment {
        name: "merge",
        definition: include_str!("experiments/merge.toml"),
        section: include_str!("experiments/merge.md"),
        measure: merge::measure,
    },
    Experiment {
        name: "warm-up",
        definition: include_str!("experiments/warm_up.toml"),
        section: include_str!("experiments/warm_up.md"),
        measure: warm_up::measure,
    },
    Experiment {
        name: "pacing",
        definition: include_str!("experiments/pacing.toml"),
        section: include_str!("experiments/pacing.md"),
        measure: pacing::measure,
    },
    Experiment {
        name: "peers",
        definition: include_str!("experiments/peers.toml"),
        section: include_str!("experiments/peers.md"),
        measure: peers::measure,
    },
    Experiment {
        name: "sketches",
        definition: include_str!("experiments/sketches.toml"),
        section: include_str!("experiments/sketches.md"),
        measure: sketches::measure,
    },
];

impl Experiment {
    /// Its definition.
    ///
    /// # Errors
    /// It is none, or that of another name.
    pub fn definition(&self) -> Result<Definition, LabError> {
        let definition = Definition::read(self.definition)?;
        if definition.name != self.name {
            let other = format!("`{}` defines `{}`", self.name, definition.name);
            return Err(LabError::Definition(other));
        }
        Ok(definition)
    }

    /// Performs it.
    ///
    /// # Errors
    /// Those of [`lab::perform`].
    pub fn perform(&self, setup: &Setup) -> Result<ExperimentResult, LabError> {
        lab::perform(self.definition()?, self.measure, setup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_can_be_read() {
        for experiment in ALL {
            experiment.definition().unwrap_or_else(|error| panic!("{}: {error}", experiment.name));
        }
    }
}
