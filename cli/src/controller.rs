//! The command `controller`: one plan on many agents, one report.

use std::process::ExitCode;

use crate::agent_group::{AgentGroup, Driven, RunFiles, require_for_agents};
use crate::args::{self, ControllerArgs};
use crate::failure::Failure;
use crate::gate::Gate;
use crate::planning;
use crate::run::{check_files, view, write};
use crate::signals::StopRequest;
use crate::sink::Sinks;

/// Runs a plan on agents and writes its results.
pub(crate) fn controller(args: &ControllerArgs) -> Result<ExitCode, Failure> {
    let (mut plan, wanted) = planning::plan(&["controller"], &args.run)?;
    let view = view(&wanted)?;
    let raw = plan.raw.take();
    require_for_agents(&plan)?;
    if !args.agents.are_named() {
        let cure = "give the agents, e.g. --agents host1:7070,host2:7070, or --agents-file, \
                    --agents-dns or --agents-slurm";
        return Err(Failure::Usage(format!("--agents: missing; {cure}")));
    }
    let gate = Gate::new(&plan, &wanted.fail_on, wanted.allow_invalid)?;
    let stop = StopRequest::listen()?;
    check_files(args.run.plan.as_ref(), &plan, &wanted, None)?;
    let agents = AgentGroup::gather(&args.agents, &stop)?;
    let mut sinks = Sinks::open(args::result_files(&wanted), &stop)?;
    let files = RunFiles { raw: raw.as_deref(), sinks: Some(&mut sinks) };
    let Driven { finished, began, failure } = agents.drive(plan, &stop, view, "", files)?;
    let (report, results) = write(finished, began, &wanted, &gate, sinks);
    Ok(match failure {
        Some(failure) => results.exit_code(failure.report()),
        None => results.exit_code(gate.exit_code(&report)),
    })
}
