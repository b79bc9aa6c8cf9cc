//! The command `search`: the highest rate at which the objectives hold.

use std::process::ExitCode;

use engine::plan::body::SharedBody;
use engine::sys::units::Rate;
use probe::document::SearchDocument;
use probe::plot::Mark;
use probe::search::{Search, SearchPlan};

use crate::args::{FIRST_RATE, SearchArgs};
use crate::drive::Results;
use crate::failure::{EXIT_MISSED, Failure};
use crate::json;
use crate::output::say;
use crate::saved::Reference;
use crate::series::{self, Ended, Files, Runs, exit_code, write_csv, write_svg};
use crate::signals::StopRequest;
use crate::text::series as text;

/// Runs the plan at rates that come ever closer to the highest that holds.
pub(crate) fn search(args: &SearchArgs) -> Result<ExitCode, Failure> {
    let (plan, wanted) = series::plan(&args.run)?;
    let Some(slo) = plan.slo.as_ref().map(ToString::to_string) else {
        let cure = "give the objectives, e.g. --slo 'p99<20ms,errors<0.1%'";
        return Err(Failure::Usage(format!("--slo: missing; {cure}")));
    };
    let first = plan.rate.unwrap_or_else(|| FIRST_RATE.parse().expect("the rate is a constant"));
    let highest = Rate::MAX_PER_SECOND.to_string().parse().expect("the highest rate is a rate");
    let rate_max = args.max_rate.unwrap_or(highest);
    if rate_max < first {
        let cure = "raise it, or lower --rate";
        let problem = format!("below the first rate, {first}");
        return Err(Failure::Usage(format!("--max-rate {rate_max}: {problem}; {cure}")));
    }
    let reference = Reference::new(wanted.calibration.as_deref())?;
    let stop = StopRequest::listen()?;
    let files = Files::open(&args.run, &plan, &wanted, args.svg.as_ref(), &stop)?;
    let search_plan = SearchPlan {
        first,
        rate_max,
        tolerance: args.tolerance,
        repeats: args.repeats,
        steps_max: args.max_steps,
        duration: plan.duration,
        seed: plan.seed,
    };
    let mut search = Search::new(search_plan.clone());
    say(&text::search_begins(&slo, first))?;
    let (cooldown, progress) = (args.cooldown, !wanted.quiet);
    let body = SharedBody::default();
    let runs = Runs { plan, body, cooldown, progress, reference, stop: &stop };
    let Ended { made, failure } = runs.make(&mut search, Search::steps)?;
    let mut results = Results::default();
    let document = SearchDocument { bracket: search.bracket(), slo, search: search_plan, made };
    if let Some(out) = files.out {
        results.add(out.finish(|writer| json::write(&document, writer)));
    }
    write_csv(files.csv, &document.made.steps, &mut results);
    let mark = Mark::of_bracket(&document.bracket);
    write_svg(files.svg, &document.made, mark.as_ref(), &mut results);
    let said = say(&text::search_ends(&document, &results.written));
    results.failures.extend(said.err());
    let none_passed = document.bracket.passed.is_none();
    let done = if none_passed { ExitCode::from(EXIT_MISSED) } else { ExitCode::SUCCESS };
    Ok(exit_code(failure.as_ref(), &document.made, &results, done))
}
