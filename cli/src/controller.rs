//! The command `controller`: one plan on many agents, one report.

use std::process::ExitCode;

use crate::args::ControllerArgs;
use crate::crew::{Crew, Driven, Meanwhile, require_for_agents};
use crate::drive::Results;
use crate::failure::Failure;
use crate::gate::Gate;
use crate::output::say;
use crate::planning;
use crate::progress::{Announce, Progress, View};
use crate::run::{Outputs, check_files, note};
use crate::signals::StopRequest;
use crate::text::summary::summary;
use crate::text::verdict::coloured;

/// Runs a plan on agents and writes its results.
pub(crate) fn controller(args: &ControllerArgs) -> Result<ExitCode, Failure> {
    let (mut plan, wanted) = planning::plan(&args.run)?;
    let shown = Progress::shown(wanted.progress, wanted.quiet)?;
    let announce = if wanted.quiet { Announce::Nothing } else { Announce::Run };
    let view = View { live: wanted.live, shown, label: "", announce };
    let raw = plan.raw.take();
    require_for_agents(&plan, &wanted)?;
    if !args.agents.are_named() {
        let cure = "give the agents, e.g. --agents host1:7070,host2:7070, or --agents-dns";
        return Err(Failure::Usage(format!("--agents: missing; {cure}")));
    }
    let gate = Gate::new(&plan, &wanted)?;
    let stop = StopRequest::listen()?;
    check_files(args.run.plan.as_ref(), &plan, &wanted, None)?;
    let crew = Crew::gather(&args.agents, &stop)?;
    let mut outputs = Outputs::open(&wanted, &stop)?;
    let meanwhile = Meanwhile { raw: raw.as_deref(), ndjson: outputs.ndjson.as_mut() };
    let Driven { mut finished, began, failure } = crew.drive(plan, &stop, view, "", meanwhile)?;
    note(&mut finished.report, &wanted);
    let report = &finished.report;
    let mut results = Results::default();
    outputs.write(&finished, began, &gate, &mut results);
    let text = summary(report, &results.written);
    let said = say(&coloured(&text, report.verdict.level));
    results.failures.extend(said.err());
    Ok(match failure {
        Some(failure) => results.exit_code(failure.report()),
        None => results.exit_code(gate.exit_code(report)),
    })
}
