//! The experiments: each is a definition, a section of the findings and a README beside its result.
//!
//! An experiment is three files in `calibration/src/experiments`: its definition (TOML: servers,
//! agents and runs as flags, seeds, figures, plots and judgements), and two templates over its
//! result, one for the section, at most a screen, and one for the experiment's own part of the
//! README. Two have code as well: one runs other programs, and one makes another kind of summary of
//! the same samples.
//!
//! To add one: these files, and a row in [`ALL`]. A figure that takes more than arithmetic on
//! documents is a function of expressions: `lab/functions.rs`.

mod peers;
mod sketches;

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

/// An experiment: its name, that of its files, and its code.
macro_rules! experiment {
    ($name:literal, $files:literal, $compute:expr) => {
        Experiment {
            name: $name,
            definition: include_str!(concat!("experiments/", $files, ".toml")),
            section: include_str!(concat!("experiments/", $files, ".md")),
            readme: include_str!(concat!("experiments/", $files, "_readme.md")),
            compute: $compute,
        }
    };
}

/// All experiments, in the order of the findings.
pub const ALL: [Experiment; 11] = [
    experiment!("open-vs-closed", "open_vs_closed", None),
    experiment!("coordinated-omission", "coordinated_omission", None),
    experiment!("ceiling", "ceiling", None),
    experiment!("scale-out", "scale_out", None),
    experiment!("keep-alive", "keep_alive", None),
    experiment!("http2", "http2", None),
    experiment!("merge", "merge", None),
    experiment!("warm-up", "warm_up", None),
    experiment!("pacing", "pacing", None),
    experiment!("peers", "peers", Some(peers::compute)),
    experiment!("sketches", "sketches", Some(sketches::compute)),
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
    use crate::lab::functions::is_known;

    #[test]
    fn every_definition_is_valid() {
        for experiment in ALL {
            experiment.definition().unwrap_or_else(|error| panic!("{}: {error}", experiment.name));
        }
    }

    /// Figures are found after all runs: a function that isn't there would cost these.
    #[test]
    fn every_function_that_a_definition_calls_is_there() {
        for experiment in ALL {
            for line in experiment.definition.lines().filter(|line| line.contains(['"', '\''])) {
                for (at, _) in line.match_indices('(') {
                    let before = &line[..at];
                    let is_of_a_word = |letter: char| letter.is_alphanumeric() || letter == '_';
                    let from = before.rfind(|letter| !is_of_a_word(letter)).map_or(0, |at| at + 1);
                    let is_filter = before[..from].trim_end().ends_with('|');
                    let name = &before[from..];
                    let is_call = name.starts_with(|letter: char| letter.is_ascii_lowercase());
                    assert!(
                        !is_call || is_filter || is_known(name),
                        "{}: {name} in {line}",
                        experiment.name
                    );
                }
            }
        }
        assert!(!is_known("nothing"));
    }
}
