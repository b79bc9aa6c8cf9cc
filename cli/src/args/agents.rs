//! The flags that name agents: of `controller`, and of the commands that make many runs.

use std::path::PathBuf;

use agents::controller::address::AgentAddress;
use agents::controller::order::{AGENTS_MAX, OnLoss};
use agents::controller::weights::WEIGHT_MAX;
use agents::key::KEY_VARIABLE;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::RunArgs;
use super::headings::AGENTS;
use super::values::{file, whole_number};

/// Arguments of `controller`.
#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    /// The plan of all agents together.
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// The agents.
    #[command(flatten)]
    pub(crate) agents: AgentGroupArgs,
}

/// Which agents offer the load.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AgentGroupArgs {
    /// The agents that offer the load, e.g. host1:7070,host2:7070
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        conflicts_with = "agents_dns",
        help_heading = AGENTS
    )]
    pub(crate) agents: Vec<AgentAddress>,

    /// All addresses behind this name are agents
    #[arg(long, value_name = "NAME:PORT", help_heading = AGENTS)]
    pub(crate) agents_dns: Option<AgentAddress>,

    /// Read that name again until it has so many addresses, for up to 5 minutes [default: 1]
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(1..=AGENTS_MAX),
        help_heading = AGENTS
    )]
    pub(crate) expect: Option<usize>,

    /// Parts of the load that each agent takes, in the order of the agents, e.g. 2,1,1 [default:
    /// equal parts]
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        value_parser = whole_number::<u32>(1..=WEIGHT_MAX),
        help_heading = AGENTS
    )]
    pub(crate) weights: Vec<u32>,

    #[arg(
        long,
        value_name = "FILE",
        value_parser = file(),
        help_heading = AGENTS,
        help = format!("File with the key that the agents have [default: ${KEY_VARIABLE}]")
    )]
    pub(crate) key_file: Option<PathBuf>,

    /// When an agent is lost while the load runs: stop the others, or go on without it [default:
    /// abort]
    #[arg(long, value_parser = on_loss(), help_heading = AGENTS)]
    pub(crate) on_agent_loss: Option<OnLoss>,
}

impl AgentGroupArgs {
    /// Whether agents are to offer the load.
    pub(crate) fn are_named(&self) -> bool {
        !self.agents.is_empty() || self.agents_dns.is_some()
    }
}

fn on_loss() -> impl TypedValueParser<Value = OnLoss> {
    PossibleValuesParser::new(["abort", "continue"]).map(|name| match name.as_str() {
        "continue" => OnLoss::Continue,
        _ => OnLoss::Abort,
    })
}
