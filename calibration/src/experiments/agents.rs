//! Three agents, of which the last reaches a server of its own: both servers listen on one port, at
//! different addresses, and the URL leads each agent to the address that it connects from.

use std::fs;

use engine::report::{AgentPart, Report};
use target::Ledger;

use crate::lab::latencies::Requests;
use crate::lab::{Extra, Lab, LabError};

/// The address of this machine that the far server has, and the agent that reaches it.
const FAR: &str = "127.0.0.3";
/// The address that leads each connection to where it comes from.
const ANY: &str = "0.0.0.0";

/// What the agents and the servers measured.
pub(super) struct Together {
    pub(super) report: Report,
    /// Each agent's requests, in the order of the report's agents.
    pub(super) requests: Vec<Requests>,
    pub(super) near: Ledger,
    pub(super) far: Ledger,
}

/// Makes the run of this name.
pub(super) fn together(lab: &mut Lab, run: &str) -> Result<Together, LabError> {
    let near = lab.target("near")?;
    let port = near.address.port();
    let far = lab.target_with("far", &Extra::flags([("listen", format!("{FAR}:{port}"))]))?;
    let allowed = Extra::flags([("allow-target", format!("{ANY}:{port}"))]);
    let agents = ["one", "two", "three"].map(|name| lab.agent_with(name, &allowed));
    let agents = agents.into_iter().collect::<Result<Vec<_>, _>>()?;
    let addresses: Vec<String> = agents.iter().map(|agent| agent.address.to_string()).collect();
    let folder = lab.file(&lab.flag(run, "raw")?);
    fs::create_dir_all(&folder).map_err(|error| LabError::file(&folder, error))?;
    let named = Extra::flags([("agents", addresses.join(","))]);
    let report = lab.run(run, &format!("http://{ANY}:{port}/"), &named)?;
    let requests = report.per_agent.iter().map(|agent| requests(lab, agent));
    let requests = requests.collect::<Result<Vec<_>, _>>()?;
    for agent in agents {
        agent.stop()?;
    }
    let ledger = |of: Option<Ledger>| of.ok_or_else(|| LabError::figures("a server has no ledger"));
    Ok(Together { report, requests, near: ledger(near.stop()?)?, far: ledger(far.stop()?)? })
}

fn requests(lab: &Lab, agent: &AgentPart) -> Result<Requests, LabError> {
    let file = agent.samples.as_ref().and_then(|samples| samples.file.as_deref());
    let file = file.ok_or_else(|| LabError::figures(format!("{} has no samples", agent.name)))?;
    Requests::read(&lab.file(file))
}

/// The corrected latencies of these requests, ms, in ascending order.
pub(super) fn latencies_ms(of: &[&Requests]) -> Vec<f64> {
    let each = of.iter().flat_map(|one| &one.requests);
    let mut latencies: Vec<f64> = each.map(|one| one.corrected_ns() as f64 / 1e6).collect();
    latencies.sort_by(f64::total_cmp);
    latencies
}
