//! The flags of `ab` that aren't part of the plan, and those that it shares with `compare`.

use std::convert::Infallible;
use std::path::PathBuf;

use clap::Args;
use probe::ab::PAIRS_MIN;

use super::given::RunArgs;
use super::headings::{COMPARISON, REQUEST, RESULTS};
use super::series_flags::percentage;
use super::values::{file, url, whole_number};

/// The most slices of each side.
pub(crate) const SLICES_MAX: usize = 1_000;

/// Arguments of `ab`.
#[derive(Debug, Args)]
pub(crate) struct AbArgs {
    /// The plan of each slice, with the URL of side A.
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// The URL of side B; all else is the same
    #[arg(
        value_name = "URL-B",
        index = 2,
        display_order = 0,
        help_heading = REQUEST,
        value_parser = |given: &str| Ok::<_, Infallible>(url(given)),
    )]
    pub(crate) url_b: String,

    /// The size of a change that counts.
    #[command(flatten)]
    pub(crate) change: ChangeArgs,

    /// Slices of each side, 5 to 1000
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(PAIRS_MIN..=SLICES_MAX),
        default_value = "10",
        help_heading = COMPARISON
    )]
    pub(crate) slices: usize,

    /// Write each slice's report to this folder: a-01.json, …
    #[arg(long, value_name = "DIR", value_parser = file(), help_heading = RESULTS)]
    pub(crate) reports: Option<PathBuf>,
}

/// The size of a change that counts, for `ab` and `compare`.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Exit 4 if a percentile is slower or errors rise
    #[arg(
        long,
        value_name = "regression",
        value_parser = ["regression"],
        hide_possible_values = true,
        help_heading = COMPARISON
    )]
    pub(crate) fail_on: Option<String>,

    /// Smallest change that counts
    ///
    /// It is for percentiles; for the share of errors it is always 0.1 points.
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = percentage,
        default_value = "1%",
        help_heading = COMPARISON
    )]
    pub(crate) margin: f64,
}
