//! The command `controller`: one plan on many agents, one report. With `--resume`, the report of a
//! run whose controller was lost.

use std::process::ExitCode;

use agents::run_id::RunId;
use engine::plan::Plan;
use engine::plan::body::SharedBody;
use engine::plan::redact::Redacted;
use engine::run::common;

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
    let resumed = args.resume.map(|run| given_plan(run, &plan).map(|given| (run, given)));
    let resumed = resumed.transpose()?;
    // The objectives of a run that is only named are in its plan, which its agents have.
    let known = if matches!(resumed, Some((_, None))) { None } else { Some(&plan) };
    let gate = Gate::new(known, &wanted.fail_on, wanted.allow_invalid)?;
    let stop = StopRequest::listen()?;
    check_files(args.run.plan.as_ref(), &plan, &wanted, None)?;
    let agents = AgentGroup::gather(&args.agents, &stop)?;
    let mut sinks = Sinks::open(args::result_files(&wanted), &stop)?;
    let Driven { finished, began, failure } = match resumed {
        Some((run, given)) => agents.resume(run, given.as_ref(), raw.as_deref(), &stop)?,
        None => {
            let files = RunFiles { raw: raw.as_deref(), sinks: Some(&mut sinks) };
            agents.drive(plan, &stop, view, "", files)?
        }
    };
    let (report, results) = write(finished, began, &wanted, &gate, sinks);
    Ok(match failure {
        Some(failure) => results.exit_code(failure.report()),
        None => results.exit_code(gate.exit_code(&report)),
    })
}

/// The plan that the user repeats for a run that is resumed, completed; `None` if only the run is
/// named.
///
/// # Errors
/// It is wrong, or only a part.
fn given_plan(run: RunId, plan: &Plan) -> Result<Option<Redacted>, Failure> {
    if *plan == args::defaults("controller") {
        return Ok(None);
    }
    if plan.target.is_empty() {
        return Err(Failure::Usage(format!(
            "--resume {run}: its plan is kept; omit all flags of the plan, or repeat the run's \
             command line"
        )));
    }
    let common = common(plan.clone(), &SharedBody::default());
    let common = common.map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(Some(common.plan))
}
