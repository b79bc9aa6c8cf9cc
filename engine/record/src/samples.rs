//! Raw samples as a shard counts them: how many it handed over, and why they couldn't be written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One shard's raw samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// Samples handed to the writer.
    pub taken: u64,
    /// Samples lost because no block was free.
    pub lost: u64,
}

/// Why samples could not be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileError {
    /// The kind of failure.
    pub kind: FileErrorKind,
    /// The step that failed, with its file and the reason.
    pub text: String,
    /// Where the file was.
    #[serde(default)]
    pub folder: SampleFolder,
}

/// The place of a sample file, by the flag that sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SampleFolder {
    /// The path given to `--raw`, on the machine where the report is made.
    #[default]
    Raw,
    /// An agent's `--state-dir`, from which the controller collects the file.
    StateDir,
}

/// The kind of failure that prevented samples from being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileErrorKind {
    /// The disk or the user's quota was full, or the file had reached its maximum size.
    NoRoom,
    /// The disk failed.
    Disk,
    /// Another program changed, moved or removed the file or its folder during the run.
    Place,
}
