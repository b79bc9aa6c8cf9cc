//! The flags of the commands that make many runs from one plan, besides the plan's own.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Command};
use engine::plan::{Model, Plan};
use engine::sys::units::{Nanos, Rate};
use probe::rates::{RateRange, Spacing};
use probe::search::SearchPlan;
use probe::within::Within;

use super::agents::AgentGroupArgs;
use super::given::RunArgs;
use super::headings::{REQUEST, RESULTS, STEPS};
use super::values::{file, whole_number};
use crate::failure::Failure;

/// The most steps of a series.
const STEPS_MAX: usize = 1_000;

/// The flags of every series: how long it may take, and its plot.
#[derive(Debug, Args)]
pub(crate) struct SeriesArgs {
    /// Longest time for all steps together
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "4m",
        help_heading = STEPS,
        long_help = "Longest time for all steps together, with setup, warm-ups, last responses and \
            pauses; only the last responses of a step, if they are slower than those before, may \
            exceed it"
    )]
    pub(crate) within: Nanos,

    /// Pause between steps, in which the target can work off its backlog
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "1s",
        hide_short_help = true,
        help_heading = STEPS
    )]
    pub(crate) cooldown: Nanos,

    /// Write a plot of latency against rate
    #[arg(long, value_name = "FILE.svg", value_parser = file(), help_heading = RESULTS)]
    pub(crate) svg: Option<PathBuf>,
}

impl SeriesArgs {
    /// The time that the steps of this plan may take.
    ///
    /// # Errors
    /// It is shorter than one step.
    pub(crate) fn time(&self, plan: &Plan) -> Result<Within, Failure> {
        let within = self.within;
        let open = Plan { model: Some(Model::Open), ..plan.clone() };
        let (least_ns, most_ns) = open.setup_ns();
        let step_ns = least_ns.saturating_add(plan.end_ns());
        if within.0 < step_ns {
            let problem = format!("a step takes at least {}", Nanos(step_ns));
            let cure = "raise it, or lower --duration or --warmup";
            return Err(Failure::Usage(format!("--within {within}: {problem}; {cure}")));
        }
        let around_ns = [most_ns, plan.warmup.0, plan.timeout_max().0, self.cooldown.0];
        let around = Nanos(around_ns.into_iter().fold(0, u64::saturating_add));
        Ok(Within { within, around })
    }
}

/// Arguments of `sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// The plan of each step.
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// The agents that run the steps, if any.
    #[command(flatten)]
    pub(crate) agents: AgentGroupArgs,

    /// Rates, from the first to the last, e.g. 1k..50k
    #[arg(long, value_name = "FIRST..LAST", help_heading = STEPS)]
    pub(crate) rates: RateRange,

    /// Number of rates, 2 to 1000
    #[arg(
        long,
        long_help = "Number of rates, the first and the last included, 2 to 1000",
        value_name = "N",
        value_parser = whole_number::<usize>(2..=STEPS_MAX),
        default_value = "12",
        help_heading = STEPS
    )]
    pub(crate) steps: usize,

    /// How rates are spaced: by equal factors (geometric) or equal differences (linear)
    #[arg(
        long,
        value_parser = spacing(),
        default_value = "geometric",
        hide_short_help = true,
        help_heading = STEPS
    )]
    pub(crate) spacing: Spacing,

    /// Most steps to add, to locate the knee within 5 %
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(0..=STEPS_MAX),
        default_value = "4",
        hide_short_help = true,
        help_heading = STEPS
    )]
    pub(crate) refine: usize,

    /// The flags of every series.
    #[command(flatten)]
    pub(crate) series: SeriesArgs,
}

/// Arguments of `search`.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// The plan of each step.
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// The agents that run the steps, if any.
    #[command(flatten)]
    pub(crate) agents: AgentGroupArgs,

    /// The range and precision of the search.
    #[command(flatten)]
    pub(crate) bracket: BracketArgs,
}

/// Arguments of `ceiling`.
#[derive(Debug, Args)]
pub(crate) struct CeilingArgs {
    /// The plan of each step.
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// The agents that run the steps, if any.
    #[command(flatten)]
    pub(crate) agents: AgentGroupArgs,

    /// Load the null target, started on other cores
    #[arg(long, conflicts_with_all = ["url", "target"], help_heading = REQUEST)]
    pub(crate) null: bool,

    /// The range and precision of the search.
    #[command(flatten)]
    pub(crate) bracket: BracketArgs,
}

/// The flags of a search for a rate: its range, and its precision.
#[derive(Debug, Args)]
pub(crate) struct BracketArgs {
    /// The highest rate to try [default: 100M]
    #[arg(long, value_name = "PER_SECOND", help_heading = STEPS)]
    pub(crate) max_rate: Option<Rate>,

    /// How close the answer must be
    #[arg(
        long,
        long_help = "How close the answer must be: how far the rate that failed may be above the \
            one that passed",
        value_name = "PERCENT",
        value_parser = percentage,
        default_value = "5%",
        help_heading = STEPS
    )]
    pub(crate) tolerance: f64,

    /// How often to repeat the steps at both ends of the answer
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(0..=STEPS_MAX),
        default_value = "1",
        hide_short_help = true,
        help_heading = STEPS
    )]
    pub(crate) repeats: usize,

    /// Most steps
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(1..=STEPS_MAX),
        default_value = "40",
        hide_short_help = true,
        help_heading = STEPS
    )]
    pub(crate) max_steps: usize,

    /// The flags of every series.
    #[command(flatten)]
    pub(crate) series: SeriesArgs,
}

impl BracketArgs {
    /// The search for a rate with this plan, starting at the plan's rate or else at `first`.
    ///
    /// # Errors
    /// The highest rate is below the first.
    pub(crate) fn search_plan(&self, plan: &Plan, first: &str) -> Result<SearchPlan, Failure> {
        let constant = |rate: &str| rate.parse().expect("the rate is a constant");
        let first = plan.rate.unwrap_or_else(|| constant(first));
        let rate_max = self.max_rate.unwrap_or_else(|| constant(&Rate::MAX_PER_SECOND.to_string()));
        if rate_max < first {
            let cure = "raise it, or lower --rate";
            let problem = format!("below the first rate, {first}");
            return Err(Failure::Usage(format!("--max-rate {rate_max}: {problem}; {cure}")));
        }
        let time = self.series.time(plan)?;
        Ok(SearchPlan {
            time,
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

/// Adapts the flags of agents to a series.
pub(super) fn of_series(command: Command) -> Command {
    let help = "Agents that run the steps instead of this machine";
    command
        .mut_arg("agents", |arg| arg.help(help).hide_short_help(true))
        .mut_arg("key_file", |arg| arg.hide_short_help(true))
        .mut_arg("on_agent_loss", |arg| arg.hide(true))
}

/// Adapts these flags to a ceiling, which needs more precision.
pub(super) fn of_ceiling(command: Command) -> Command {
    of_series(command).mut_arg("tolerance", |arg| arg.default_value("2%"))
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
