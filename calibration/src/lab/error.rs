//! Why an experiment has no result.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Its definition is wrong.
    #[error("the definition: {0}")]
    Definition(String),
    /// Its definition can't be read.
    #[error("the definition: {0}")]
    Toml(#[from] toml::de::Error),
    /// A command failed.
    #[error("`{command}`: {problem}")]
    Command {
        /// The command line.
        command: String,
        /// The problem.
        problem: String,
    },
    /// A file can't be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// A file isn't the expected document.
    #[error("{}: {problem}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The results can't be evaluated.
    #[error("{0}")]
    Figures(String),
    /// The findings can't be written from the results.
    #[error("the findings: {0:#}")]
    Template(#[from] minijinja::Error),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// A command that failed.
    pub(crate) fn ended(command: &str, problem: impl fmt::Display) -> LabError {
        let problem = problem.to_string().trim_end().to_owned();
        LabError::Command { command: command.to_owned(), problem }
    }

    /// A file that can't be read or written.
    pub(crate) fn file(path: &Path, error: impl Into<std::io::Error>) -> LabError {
        LabError::File { path: path.to_owned(), error: error.into() }
    }

    /// Results that can't be evaluated.
    pub(crate) fn figures(problem: impl fmt::Display) -> LabError {
        LabError::Figures(problem.to_string())
    }
}
