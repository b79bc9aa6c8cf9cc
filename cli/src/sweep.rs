//! The command `sweep`: latency against throughput, one open run per step, and the position of the
//! knee.

use std::process::ExitCode;

use probe::document::SweepDocument;
use probe::plot::Mark;
use probe::sweep::{Sweep, SweepPlan};

use crate::args::SweepArgs;
use crate::failure::Failure;
use crate::output::{Results, say};
use crate::series::{self, Ended, Files, Found, Runs, exit_code};
use crate::signals::StopRequest;
use crate::text::extent::Extent;
use crate::text::series as text;

/// Runs the plan at each rate and states the knee.
pub(crate) fn sweep(args: &SweepArgs) -> Result<ExitCode, Failure> {
    let (plan, wanted) = series::plan("sweep", &args.run, &args.agents)?;
    let time = args.series.time(&plan)?;
    let stop = StopRequest::listen()?;
    let runs = Runs::open(plan, &args.agents, &wanted, args.series.cooldown, &stop)?;
    let files = Files::open(&args.run, &runs.plan, &wanted, args.series.svg.as_ref(), &stop)?;
    let sweep_plan = SweepPlan {
        rates: args.rates.spaced(args.steps, args.spacing),
        refine_max: args.refine,
        duration: runs.plan.duration,
        seed: runs.plan.seed,
        time,
    };
    let extent = Extent::of(wanted.details);
    let head = text::sweep_begins(&sweep_plan, extent);
    let mut sweep = Sweep::new(sweep_plan.clone());
    let Ended { made, failure } =
        runs.make(&mut sweep, &head, Sweep::steps, |step, cut_short| {
            text::sweep_row(step, cut_short, extent)
        })?;
    let mut results = Results::default();
    let document = SweepDocument {
        knee: sweep.knee(),
        complete: sweep.is_complete(),
        sweep: sweep_plan,
        made,
    };
    let mark = Mark::of_knee(&document.knee);
    files.write(&document, &document.made, &[], mark.as_ref(), &mut results);
    let said = say(&text::sweep_ends(&document, &results.written));
    results.failures.extend(said.err());
    Ok(exit_code(failure.as_ref(), &document.made, &results, Found::Something))
}
