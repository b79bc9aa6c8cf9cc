//! The flags of the commands that make many runs from one plan, beside those of the plan.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Args, Command};
use engine::plan::Plan;
use engine::sys::units::{Nanos, Rate};
use probe::rates::{RateRange, Spacing};
use probe::search::SearchPlan;

use super::headings::{REQUEST, RESULTS, SEARCH, SWEEP};
use super::values::{file, whole_number};
use super::{CrewArgs, RunArgs};
use crate::failure::Failure;

/// The most steps of a series.
const STEPS_MAX: usize = 1_000;

/// Arguments of `sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// The plan of each step.
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// The agents that make the steps, if any.
    #[command(flatten)]
    pub(crate) agents: CrewArgs,

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

    /// The agents that make the steps, if any.
    #[command(flatten)]
    pub(crate) agents: CrewArgs,

    /// How far, and how closely.
    #[command(flatten)]
    pub(crate) bracket: BracketArgs,
}

/// Arguments of `ceiling`.
#[derive(Debug, Args)]
pub(crate) struct CeilingArgs {
    /// The plan of each step.
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// The agents that make the steps, if any.
    #[command(flatten)]
    pub(crate) agents: CrewArgs,

    /// Load the null target, which is started on other cores, instead of a URL
    #[arg(long, conflicts_with_all = ["url", "target"], help_heading = REQUEST)]
    pub(crate) null: bool,

    /// How far, and how closely.
    #[command(flatten)]
    pub(crate) bracket: BracketArgs,
}

/// Arguments of what searches for a rate: how far, and how closely.
#[derive(Debug, Args)]
pub(crate) struct BracketArgs {
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
const FIRST_RATE: &str = "1k";

impl BracketArgs {
    /// The search for a rate with this plan.
    ///
    /// # Errors
    /// A highest rate below the first.
    pub(crate) fn search_plan(&self, plan: &Plan) -> Result<SearchPlan, Failure> {
        let constant = |rate: &str| rate.parse().expect("the rate is a constant");
        let first = plan.rate.unwrap_or_else(|| constant(FIRST_RATE));
        let rate_max = self.max_rate.unwrap_or_else(|| constant(&Rate::MAX_PER_SECOND.to_string()));
        if rate_max < first {
            let cure = "raise it, or lower --rate";
            let problem = format!("below the first rate, {first}");
            return Err(Failure::Usage(format!("--max-rate {rate_max}: {problem}; {cure}")));
        }
        Ok(SearchPlan {
            first,
            rate_max,
            tolerance: self.tolerance,
            repeats: self.repeats,
            steps_max: self.max_steps,
            duration: plan.duration,
            seed: plan.seed,
        })
    }
}

/// The plan of a ceiling where neither flags nor a file say more: many steps, so they are short.
pub(crate) fn ceiling_defaults() -> Plan {
    Plan { duration: Nanos::from_secs(5), warmup: Nanos::from_secs(1), ..Plan::default() }
}

/// Says what the flags of a plan mean to a series, and hides those that mean nothing to it.
fn of_series(command: Command, duration: Nanos, hidden: &[&'static str]) -> Command {
    let useless = [
        "model",
        "period",
        "requests",
        "backfill",
        "raw",
        "hdr",
        "label",
        "tags",
        "allow_invalid",
        "on_agent_loss",
        "fail_on",
        "junit",
        "live",
        "ndjson",
        "prom",
    ];
    let hidden = useless.iter().chain(hidden);
    let help = |text: &'static str| move |arg: Arg| arg.help(text).long_help(None::<&str>);
    hidden
        .fold(command, |command, name| command.mut_arg(*name, |arg| arg.hide(true)))
        .mut_arg("out", help("Write the steps and the answer as JSON"))
        .mut_arg("csv", |arg| {
            let columns = probe::csv::columns();
            arg.help("Write the steps as CSV, one row each").long_help(format!(
                "Write the steps as CSV: a header, then one row for each. Columns: {columns}"
            ))
        })
        .mut_arg(
            "slo",
            help("Objectives of each step, e.g. 'p99<20ms,errors<0.1%'; see `truetail run --help`"),
        )
        .mut_arg("duration", |arg| {
            arg.help(format!("Length of each step's recorded window [default: {duration}]"))
        })
        .mut_arg("agents", help("Agents that make the steps instead of this machine"))
        .mut_arg("seed", help("Seed of the first step's schedule; each of the others has the next"))
}

/// Adapts the flags of a plan to `sweep`.
pub(super) fn of_sweep(command: Command) -> Command {
    of_series(command, Plan::default().duration, &["rate", "flamegraph"])
}

/// Adapts the flags of a plan to `search`.
pub(super) fn of_search(command: Command) -> Command {
    let hidden = ["flamegraph"];
    of_series(command, Plan::default().duration, &hidden).mut_arg("rate", first_rate)
}

/// Adapts the flags of a plan to `ceiling`.
pub(super) fn of_ceiling(command: Command) -> Command {
    let Plan { duration, warmup, .. } = ceiling_defaults();
    of_series(command, duration, &["slo", "calibration"])
        .mut_arg("rate", first_rate)
        .mut_arg("warmup", |arg| {
            arg.help(format!(
                "Length of each step's warm-up, which isn't recorded [default: {warmup}]"
            ))
        })
        .mut_arg("tolerance", |arg| arg.default_value("2%"))
        .mut_arg("flamegraph", |arg| {
            arg.help(
                "Profile a run at the rate that passed, and write where the CPU time went: \
                 FILE.svg, FILE.folded or FILE.pb.gz",
            )
        })
}

fn first_rate(arg: Arg) -> Arg {
    arg.help(format!("The first rate to try [default: {FIRST_RATE}]"))
}

fn spacing() -> impl TypedValueParser<Value = Spacing> {
    PossibleValuesParser::new(["geometric", "linear"]).map(|name| match name.as_str() {
        "geometric" => Spacing::Geometric,
        _ => Spacing::Linear,
    })
}

/// A percentage as a share.
pub(super) fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.map(|percent| percent / 100.0);
    share
        .filter(|share| (0.001..=1.0).contains(share))
        .ok_or_else(|| format!("invalid percentage `{text}`: give one from 0.1% to 100%, e.g. 5%"))
}
