//! The flags of the commands that make many runs from one plan, beside those of the plan.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Args, Command};
use engine::sys::units::{Nanos, Rate};
use probe::rates::{RateRange, Spacing};

use super::RunArgs;
use super::headings::{RESULTS, SEARCH, SWEEP};
use super::values::{file, whole_number};

/// The most steps of a series.
const STEPS_MAX: usize = 1_000;

/// Arguments of `sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// The plan of each step.
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// Rates to offer, from the first to the last, e.g. 1k..50k
    #[arg(long, value_name = "FIRST..LAST", help_heading = SWEEP)]
    pub(crate) rates: RateRange,

    /// Number of rates, the first and the last included, 2 to 1000
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(2..=STEPS_MAX),
        default_value = "12",
        help_heading = SWEEP
    )]
    pub(crate) steps: usize,

    /// How rates are spaced: by equal factors (geometric) or equal differences (linear)
    #[arg(
        long,
        value_parser = spacing(),
        default_value = "geometric",
        help_heading = SWEEP
    )]
    pub(crate) spacing: Spacing,

    /// Most steps to add, to narrow the knee down to 5 %
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(0..=STEPS_MAX),
        default_value = "4",
        help_heading = SWEEP
    )]
    pub(crate) refine: usize,

    /// Rest between steps, in which the target can work off its backlog
    #[arg(long, value_name = "DURATION", default_value = "1s", help_heading = SWEEP)]
    pub(crate) cooldown: Nanos,

    /// Write a plot of latency against rate
    #[arg(long, value_name = "FILE.svg", value_parser = file(), help_heading = RESULTS)]
    pub(crate) svg: Option<PathBuf>,
}

/// Arguments of `search`.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// The plan of each step.
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// The highest rate to try [default: 100M]
    #[arg(long, value_name = "PER_SECOND", help_heading = SEARCH)]
    pub(crate) max_rate: Option<Rate>,

    /// How wide the answer may be: how far the rate that failed is above the one that passed
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = percentage,
        default_value = "5%",
        help_heading = SEARCH
    )]
    pub(crate) tolerance: f64,

    /// How often both ends of the answer are measured again
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(0..=STEPS_MAX),
        default_value = "1",
        help_heading = SEARCH
    )]
    pub(crate) repeats: usize,

    /// Most steps
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(1..=STEPS_MAX),
        default_value = "40",
        help_heading = SEARCH
    )]
    pub(crate) max_steps: usize,

    /// Rest between steps, in which the target can work off its backlog
    #[arg(long, value_name = "DURATION", default_value = "1s", help_heading = SEARCH)]
    pub(crate) cooldown: Nanos,

    /// Write a plot of latency against rate
    #[arg(long, value_name = "FILE.svg", value_parser = file(), help_heading = RESULTS)]
    pub(crate) svg: Option<PathBuf>,
}

/// Where the first rate of a search is from if no flag gives it.
pub(crate) const FIRST_RATE: &str = "1k";

/// Says what the flags of a plan mean to a series, and hides those that mean nothing to it.
fn of_series(command: Command, hidden: &[&'static str]) -> Command {
    let hidden =
        ["model", "period", "backfill", "raw", "hdr", "allow_invalid"].iter().chain(hidden);
    let help = |text: &'static str| move |arg: Arg| arg.help(text).long_help(None::<&str>);
    hidden
        .fold(command, |command, name| command.mut_arg(*name, |arg| arg.hide(true)))
        .mut_arg("out", help("Write the steps and the answer as JSON"))
        .mut_arg("csv", help("Write the steps as CSV, one row each"))
        .mut_arg(
            "slo",
            help("Objectives of each step, e.g. 'p99<20ms,errors<0.1%'; see `truetail run --help`"),
        )
        .mut_arg("duration", help("Length of each step's recorded window [default: 30s]"))
        .mut_arg("seed", help("Seed of the first step's schedule; each of the others has the next"))
}

/// Adapts the flags of a plan to `sweep`.
pub(super) fn of_sweep(command: Command) -> Command {
    of_series(command, &["rate"])
}

/// Adapts the flags of a plan to `search`.
pub(super) fn of_search(command: Command) -> Command {
    let help = format!("The first rate to try [default: {FIRST_RATE}]");
    of_series(command, &[]).mut_arg("rate", |arg| arg.help(help))
}

fn spacing() -> impl TypedValueParser<Value = Spacing> {
    PossibleValuesParser::new(["geometric", "linear"]).map(|name| match name.as_str() {
        "geometric" => Spacing::Geometric,
        _ => Spacing::Linear,
    })
}

/// A percentage as a share.
fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.map(|percent| percent / 100.0);
    share
        .filter(|share| (0.001..=1.0).contains(share))
        .ok_or_else(|| format!("invalid percentage `{text}`: give one from 0.1% to 100%, e.g. 5%"))
}
