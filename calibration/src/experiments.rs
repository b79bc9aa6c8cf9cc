//! The experiments: each is a definition, a section of the findings and a README beside its result,
//! and code for figures that no path into a document can express.
//!
//! An experiment is three files in `calibration/src/experiments`: its definition (TOML: servers,
//! agents and runs as flags, seeds, figures, plots and judgements), and two templates over its
//! result, one for the section, at most a screen, and one for the experiment's own part of the
//! README. A fourth has the code, such as the waits of a queue's users, or a comparison of raw
//! samples with a ledger.
//!
//! To add one: these files, and a row in [`ALL`].

mod coordinated_omission;
mod open_vs_closed;
mod pacing;
mod peers;
mod queue;
mod sketches;
mod warm_up;

use crate::lab::result::ExperimentResult;
use crate::lab::{self, Compute, Definition, LabError, Setup};

/// One experiment.
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its definition: TOML.
    definition: &'static str,
    /// Its section of the page, at most a screen: a template over its result.
    pub(crate) section: &'static str,
    /// Its own part of the README beside its result: a template as well.
    pub(crate) readme: &'static str,
    /// Computes the figures that its definition can't express.
    compute: Option<Compute>,
}

/// All experiments, in the order of the findings.
pub const ALL: [Experiment; 10] = [
    Experiment {
        name: "open-vs-closed",
        definition: include_str!("experiments/open_vs_closed.toml"),
        section: include_str!("experiments/open_vs_closed.md"),
        readme: include_str!("experiments/open_vs_closed_readme.md"),
        compute: Some(open_vs_closed::compute),
    },
    Experiment {
        name: "coordinated-omission",
        definition: include_str!("experiments/coordinated_omission.toml"),
        section: include_str!("experiments/coordinated_omission.md"),
        readme: include_str!("experiments/coordinated_omission_readme.md"),
        compute: Some(coordinated_omission::compute),
    },
    Experiment {
        name: "ceiling",
        definition: include_str!("experiments/ceiling.toml"),
        section: include_str!("experiments/ceiling.md"),
        readme: include_str!("experiments/ceiling_readme.md"),
        compute: None,
    },
    Experiment {
        name: "scale-out",
        definition: include_str!("experiments/scale_out.toml"),
        section: include_str!("experiments/scale_out.md"),
        readme: include_str!("experiments/scale_out_readme.md"),
        compute: None,
    },
    Experiment {
        name: "keep-alive",
        definition: include_str!("experiments/keep_alive.toml"),
        section: include_str!("experiments/keep_alive.md"),
        readme: include_str!("experiments/keep_alive_readme.md"),
        compute: None,
    },
    Experiment {
        name: "merge",
        definition: include_str!("experiments/merge.toml"),
        section: include_str!("experiments/merge.md"),
        readme: include_str!("experiments/merge_readme.md"),
        compute: None,
    },
    Experiment {
        name: "warm-up",
        definition: include_str!("experiments/warm_up.toml"),
        section: include_str!("experiments/warm_up.md"),
        readme: include_str!("experiments/warm_up_readme.md"),
        compute: Some(warm_up::compute),
    },
    Experiment {
        name: "pacing",
        definition: include_str!("experiments/pacing.toml"),
        section: include_str!("experiments/pacing.md"),
        readme: include_str!("experiments/pacing_readme.md"),
        compute: Some(pacing::compute),
    },
    Experiment {
        name: "peers",
        definition: include_str!("experiments/peers.toml"),
        section: include_str!("experiments/peers.md"),
        readme: include_str!("experiments/peers_readme.md"),
        compute: Some(peers::compute),
    },
    Experiment {
        name: "sketches",
        definition: include_str!("experiments/sketches.toml"),
        section: include_str!("experiments/sketches.md"),
        readme: include_str!("experiments/sketches_readme.md"),
        compute: Some(sketches::compute),
    },
];

impl Experiment {
    /// Its definition.
    ///
    /// # Errors
    /// It can't be read, or has another name.
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
        lab::perform(self.definition()?, self.compute, setup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_valid() {
        for experiment in ALL {
            experiment.definition().unwrap_or_else(|error| panic!("{}: {error}", experiment.name));
        }
    }
}
