//! The command `sweep`: latency against throughput, one open run a step, and where the knee is.

use std::process::ExitCode;

use engine::plan::body::SharedBody;
use probe::document::SweepDocument;
use probe::plot::Mark;
use probe::sweep::{Sweep, SweepPlan};

use crate::args::SweepArgs;
use crate::drive::Results;
use crate::failure::Failure;
use crate::output::say;
use crate::progress::Progress;
use crate::saved::Reference;
use crate::series::{self, Ended, Files, Found, Runs, exit_code};
use crate::signals::StopRequest;
use crate::text::series as text;

/// Runs the plan at each rate and states the knee.
pub(crate) fn sweep(args: &SweepArgs) -> Result<ExitCode, Failure> {
    let (plan, wanted) = series::plan(&args.run)?;
    if let Some(rate) = plan.rate {
        let cure = "omit it: --rates gives the rates of all steps";
        return Err(Failure::Usage(format!("--rate {rate}: a sweep has many rates; {cure}")));
    }
    let shown = Progress::shown(wanted.progress, wanted.quiet)?;
    let stop = StopRequest::listen()?;
    let crew = series::crew(&args.agents, &plan, &wanted, &stop)?;
    let reference = match &crew {
        // A calibration is of one machine.
        Some(_) => None,
        None => Some(Reference::new(wanted.calibration.as_deref())?),
    };
    let files = Files::open(&args.run, &plan, &wanted, args.svg.as_ref(), &stop)?;
    let sweep_plan = SweepPlan {
        rates: args.rates.spaced(args.steps, args.spacing),
        refine_max: args.refine,
        duration: plan.duration,
        seed: plan.seed,
    };
    let head = text::sweep_begins(&sweep_plan);
    let mut sweep = Sweep::new(sweep_plan.clone());
    let (cooldown, announced) = (args.cooldown, !wanted.quiet);
    let body = SharedBody::default();
    let runs = Runs { plan, body, cooldown, shown, announced, reference, crew, stop: &stop };
    let Ended { made, failure } = runs.make(&mut sweep, &head, Sweep::steps, text::sweep_row)?;
    let mut results = Results::default();
    let document = SweepDocument { knee: sweep.knee(), sweep: sweep_plan, made };
    let mark = Mark::of_knee(&document.knee);
    files.write(&document, &document.made, &[], mark.as_ref(), &mut results);
    let said = say(&text::sweep_ends(&document, &results.written));
    results.failures.extend(said.err());
    Ok(exit_code(failure.as_ref(), &document.made, &results, Found::Something))
}
