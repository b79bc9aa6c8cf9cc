//! The flags that name agents, of `controller` and of the commands that make many runs.

use std::path::PathBuf;

use agents::agent::PORT;
use agents::controller::address::AgentAddress;
use agents::controller::order::{AGENTS_MAX, OnLoss};
use agents::controller::weights::WEIGHT_MAX;
use agents::key::KEY_VARIABLE;
use agents::run_id::RunId;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use engine::sys::units::Nanos;

use super::given::RunArgs;
use super::headings::AGENTS;
use super::values::{file, name_or_stdout, path, whole_number};

/// Arguments of `controller`.
#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    /// The plan of all agents together.
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// The agents.
    #[command(flatten)]
    pub(crate) agents: AgentGroupArgs,

    /// Run nothing: make the report of this run, whose controller was lost, from what its agents
    /// have kept
    #[arg(
        long,
        value_name = "RUN",
        conflicts_with_all = ["weights", "on_agent_loss"],
        hide_short_help = true,
        help_heading = AGENTS
    )]
    pub(crate) resume: Option<RunId>,
}

/// Which agents generate the load.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AgentGroupArgs {
    /// Agents to load from, e.g. host1:7070,host2:7070
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        conflicts_with_all = ["agents_file", "agents_dns", "agents_slurm"],
        help_heading = AGENTS
    )]
    pub(crate) agents: Vec<AgentAddress>,

    /// Load from the agents that this file lists, or - for standard input: HOST or HOST:PORT a
    /// line; # begins a comment
    #[arg(
        long,
        value_name = "FILE|-",
        value_parser = path(name_or_stdout),
        conflicts_with_all = ["agents_dns", "agents_slurm"],
        hide_short_help = true,
        help_heading = AGENTS
    )]
    pub(crate) agents_file: Option<PathBuf>,

    #[arg(
        long,
        value_name = "NAME[:PORT]",
        conflicts_with = "agents_slurm",
        hide_short_help = true,
        help_heading = AGENTS,
        help = format!("Use every address of this name as an agent [default port: {PORT}]")
    )]
    pub(crate) agents_dns: Option<AgentAddress>,

    #[arg(
        long,
        hide_short_help = true,
        help_heading = AGENTS,
        help = format!(
            "Load from port {PORT} of the nodes in $SLURM_JOB_NODELIST, except the one that this \
             command runs on"
        )
    )]
    pub(crate) agents_slurm: bool,

    /// The least number of agents [default: as many as are named]
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(1..=AGENTS_MAX),
        hide_short_help = true,
        help_heading = AGENTS
    )]
    pub(crate) expect: Option<usize>,

    /// Wait for up to this long until --expect agents are there, and all named ones can be reached
    /// [default: don't wait]
    #[arg(long, value_name = "DURATION", hide_short_help = true, help_heading = AGENTS)]
    pub(crate) agents_wait: Option<Nanos>,

    /// Once --agents-wait is over, begin with the agents that are there, at least one
    #[arg(
        long,
        requires = "agents_wait",
        conflicts_with = "weights",
        hide_short_help = true,
        help_heading = AGENTS
    )]
    pub(crate) allow_fewer: bool,

    /// Parts of the load that the agents take, in their order, e.g. 2,1,1 [default: equal parts]
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        value_parser = whole_number::<u32>(1..=WEIGHT_MAX),
        hide_short_help = true,
        help_heading = AGENTS
    )]
    pub(crate) weights: Vec<u32>,

    #[arg(
        long,
        value_name = "FILE",
        value_parser = file(),
        help_heading = AGENTS,
        help = format!("File with the agents' key [default: ${KEY_VARIABLE}]")
    )]
    pub(crate) key_file: Option<PathBuf>,

    /// If an agent is lost during the load: stop the others, or go on without it [default: abort]
    #[arg(long, value_parser = on_loss(), hide_short_help = true, help_heading = AGENTS)]
    pub(crate) on_agent_loss: Option<OnLoss>,
}

impl AgentGroupArgs {
    /// True if agents generate the load.
    pub(crate) fn are_named(&self) -> bool {
        let is_listed = !self.agents.is_empty() || self.agents_file.is_some();
        is_listed || self.agents_dns.is_some() || self.agents_slurm
    }
}

fn on_loss() -> impl TypedValueParser<Value = OnLoss> {
    PossibleValuesParser::new(["abort", "continue"]).map(|name| match name.as_str() {
        "continue" => OnLoss::Continue,
        _ => OnLoss::Abort,
    })
}
