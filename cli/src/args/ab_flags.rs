//! The flags of `ab`, beside those of the plan.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Args, Command};
use engine::plan::Plan;
use engine::sys::units::Nanos;
use probe::ab::PAIRS_MIN;

use super::headings::{COMPARISON, RESULTS};
use super::series_flags::percentage;
use super::values::{file, whole_number};
use super::{FailOn, RunArgs};

/// The most slices of either side.
pub(crate) const SLICES_MAX: usize = 1_000;

/// Arguments of `ab`.
#[derive(Debug, Args)]
pub(crate) struct AbArgs {
    /// The plan of each slice, with the URL of side A.
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// The URL of side B; all else of the plan is the same
    #[arg(value_name = "URL-B", index = 2)]
    pub(crate) url_b: String,

    /// Slices of either side, 5 to 1000
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(PAIRS_MIN..=SLICES_MAX),
        default_value = "10",
        help_heading = COMPARISON
    )]
    pub(crate) slices: usize,

    /// The least change that counts
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = percentage,
        default_value = "1%",
        help_heading = COMPARISON
    )]
    pub(crate) margin: f64,

    /// Write the report of each slice in this folder: a-01.json, b-01.json and so on
    #[arg(long, value_name = "DIR", value_parser = file(), help_heading = RESULTS)]
    pub(crate) reports: Option<PathBuf>,
}

/// The plan of a slice where neither flags nor a file say more: many slices, so they are short.
pub(crate) fn ab_defaults() -> Plan {
    Plan { duration: Nanos::from_secs(10), warmup: Nanos::from_secs(1), ..Plan::default() }
}

/// Says what the flags of a plan mean to a comparison by slices, and hides those that mean nothing
/// to it.
pub(super) fn of_ab(command: Command) -> Command {
    let Plan { duration, warmup, .. } = ab_defaults();
    let help = |text: String| move |arg: Arg| arg.help(text).long_help(None::<&str>);
    let useless = [
        "target",
        "backfill",
        "slo",
        "raw",
        "csv",
        "hdr",
        "junit",
        "live",
        "ndjson",
        "prom",
        "flamegraph",
    ];
    useless
        .iter()
        .fold(command, |command, name| command.mut_arg(*name, |arg| arg.hide(true)))
        .mut_arg("url", |arg| {
            // What is adapted goes to the end of all arguments, behind the other URL.
            arg.index(1)
                .value_name("URL-A")
                .required(true)
                .help("The URL of side A, http://HOST[:PORT]/PATH")
        })
        .mut_arg(
            "duration",
            help(format!("Length of each slice's recorded window [default: {duration}]")),
        )
        .mut_arg(
            "warmup",
            help(format!(
                "Length of each slice's warm-up, which isn't recorded [default: {warmup}, none \
                 with --requests]"
            )),
        )
        .mut_arg("requests", help("End each slice's window after N intended requests".to_owned()))
        .mut_arg(
            "seed",
            help(format!(
                "Open model: seed of the warm-up's schedule; each pair of slices has the next \
                 [default: {}]",
                Plan::default().seed
            )),
        )
        .mut_arg("out", help("Write the comparison as JSON; - for standard output".to_owned()))
        .mut_arg("label", help("What to call each slice in its report [default: nothing]".into()))
        .mut_arg("allow_invalid", help("Count slices whose verdict is invalid as well".to_owned()))
        .mut_arg("fail_on", |arg| {
            help("Exit 4 if a percentile is slower, or there are more errors".to_owned())(arg)
                .value_name("WHAT")
                .value_parser(regression())
                .help_heading(COMPARISON)
        })
}

fn regression() -> impl TypedValueParser<Value = FailOn> {
    PossibleValuesParser::new(["regression"]).map(|_| FailOn::Regression)
}
