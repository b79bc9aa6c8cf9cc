//! The command `search`: the highest rate at which the objectives hold.

use std::process::ExitCode;

use engine::plan::scenario::Scenario;
use engine::plan::slo::{Clause, Objective};
use probe::document::SearchDocument;
use probe::plot::Mark;
use probe::rule::Rule;
use probe::search::Search;

use crate::args::{FIRST_RATE, SearchArgs};
use crate::failure::Failure;
use crate::output::{Results, say};
use crate::series::{self, Ended, Files, Found, Runs, exit_code};
use crate::signals::StopRequest;
use crate::text::extent::Extent;
use crate::text::series as text;

/// The implied objective of a search without a bound on errors: a target could otherwise meet the
/// others by refusing what it can't serve.
const IMPLIED_ERRORS: &str = "errors<1%";

/// Runs the plan at rates that converge on the highest that holds.
pub(crate) fn search(args: &SearchArgs) -> Result<ExitCode, Failure> {
    let (mut plan, wanted) = series::plan("search", &args.run, &args.agents)?;
    let Some(given) = plan.objectives() else {
        let cure = "give the objectives, e.g. --slo 'p99<20ms,errors<0.1%'";
        return Err(Failure::Usage(format!("--slo: missing; {cure}")));
    };
    if given.iter().any(|one| matches!(one.objective, Objective::Rate { .. })) {
        let problem = "a search judges by the backlog whether the target keeps up";
        return Err(Failure::Usage(format!("--slo {given}: {problem}; omit `rate`")));
    }
    let has_no_name =
        |it: &Scenario| it.name.is_empty() && it.step.iter().any(|step| step.slo.is_some());
    if plan.scenario.iter().any(has_no_name) {
        let problem = "a search lists its objectives by the names of their scenarios";
        return Err(Failure::Usage(format!("--targets: {problem}; name each one with an slo")));
    }
    let bounds_errors =
        |one: &Clause| one.of.is_none() && matches!(one.objective, Objective::Errors { .. });
    let implied = (!given.iter().any(bounds_errors)).then_some(IMPLIED_ERRORS);
    let own = plan.slo.as_ref().map(ToString::to_string);
    let own: Vec<String> = own.into_iter().chain(implied.map(str::to_owned)).collect();
    plan.slo = own.join(",").parse().ok();
    let slo = plan.objectives().expect("they were given").to_string();
    let search_plan = args.bracket.search_plan(&plan, FIRST_RATE)?;
    let first = search_plan.first;
    let stop = StopRequest::listen()?;
    let runs = Runs::open(plan, &args.agents, &wanted, args.bracket.series.cooldown, &stop)?;
    let files =
        Files::open(&args.run, &runs.plan, &wanted, args.bracket.series.svg.as_ref(), &stop)?;
    let mut search = Search::new(search_plan.clone(), Rule::Objectives);
    let extent = Extent::of(wanted.details);
    let head = text::search_begins(&slo, implied, first, extent);
    let Ended { made, failure } =
        runs.make(&mut search, &head, Search::steps, |step, cut_short| {
            text::search_row(step, cut_short, extent)
        })?;
    let mut results = Results::default();
    let (bracket, ended_by) = (search.bracket(), search.ended_by());
    let document = SearchDocument { bracket, ended_by, slo, search: search_plan, made };
    let mark = Mark::of_bracket("holds up to", &document.bracket);
    files.write(&document, &document.made, &[], mark.as_ref(), &mut results);
    let said = say(&text::search_ends(&document, &results.written));
    results.failures.extend(said.err());
    let found = document.bracket.passed_per_s.map_or(Found::Nothing, |_| Found::Something);
    Ok(exit_code(failure.as_ref(), &document.made, &results, found))
}
