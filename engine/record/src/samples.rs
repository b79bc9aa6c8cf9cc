//! What became of the raw samples: how many a shard handed over, and why they could not be written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one shard handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// Samples handed to the writer.
    pub taken: u64,
    /// Samples lost because no block was empty.
    pub lost: u64,
}

/// Why samples could not be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileError {
    /// What failed.
    pub kind: FileErrorKind,
    /// The step that failed, with its file, and why.
    pub text: String,
    /// Where the file was.
    #[serde(default)]
    pub folder: SampleFolder,
}

/// Where a file of samples is, by the flag that says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SampleFolder {
    /// Where `--raw` says, on the machine where the report is made.
    #[default]
    Raw,
    /// An agent's `--state-dir`, from which the controller collects it.
    StateDir,
}

/// What was wrong when samples could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileErrorKind {
    /// The disk or the user's quota of it was full, or the file as large as it may be.
    NoRoom,
    /// The disk failed.
    Disk,
    /// The file or its folder was changed, moved or removed by another program during the run.
    Place,
}
