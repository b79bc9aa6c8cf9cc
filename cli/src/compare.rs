//! The command `compare`: tests whether one side's runs are slower than the other's.

use std::path::PathBuf;
use std::process::ExitCode;

use engine::report::Report;
use probe::compare::{Allowed, Change, Incomparable};

use crate::args::CompareArgs;
use crate::failure::{EXIT_INVALID, EXIT_MISSED, Failure, complain};
use crate::output::{OutputFile, Results, require_distinct, say};
use crate::report::read;
use crate::signals::StopRequest;
use crate::text::extent::Extent;
use crate::{json, text};

/// Compares the reports of two sides.
pub(crate) fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let (a, b) = sides(args)?;
    if let Some(out) = &args.out {
        for report in a.iter().chain(b) {
            require_distinct(&[("REPORT", report.clone()), ("--out", out.clone())])?;
        }
    }
    let read = |side: &[PathBuf]| {
        side.iter().map(|path| read(path)).collect::<Result<Vec<Report>, Failure>>()
    };
    let (runs_a, runs_b) = (read(a)?, read(b)?);
    require_distinct_runs([a, b], [&runs_a, &runs_b])?;
    let allowed = Allowed { invalid: args.allow_invalid, plans: args.allow_different_plans };
    let comparison = match probe::compare::compare(&runs_a, &runs_b, args.change.margin, allowed) {
        Ok(mut comparison) => {
            comparison.a.reports = a.to_vec();
            comparison.b.reports = b.to_vec();
            comparison
        }
        Err(problem) => {
            let of = problem.run().and_then(|run| a.iter().chain(b).nth(run));
            let path = of.map_or(String::new(), |path| format!("REPORT {}: ", path.display()));
            let line = format!("{path}{problem}; {}", cure(&problem));
            return match problem {
                Incomparable::Invalid { .. } => {
                    complain(&line);
                    Ok(ExitCode::from(EXIT_INVALID))
                }
                _ => Err(Failure::Usage(line)),
            };
        }
    };
    let out = match &args.out {
        Some(out) => Some(OutputFile::open("--out", out, &StopRequest::default())?),
        None => None,
    };
    let mut results = Results::default();
    if let Some(out) = out {
        results.add(out.finish(|writer| json::write(&comparison, writer)));
    }
    let plans = runs_a.iter().chain(&runs_b).map(|run| &run.config.plan);
    let text = text::compare::comparison(&comparison, [a, b], plans, Extent::of(args.details));
    if let Some(differ) = text::compare::machines_differ([&runs_a, &runs_b]) {
        complain(&differ);
    }
    let said = say(&text);
    results.failures.extend(said.err());
    Ok(results.exit_code(ExitCode::from(match () {
        () if args.change.fail_on.is_none() => 0,
        () if comparison.has_one_run_on_a_side() && !args.accept_one_run => {
            complain(ONE_RUN);
            EXIT_INVALID
        }
        () if comparison.change == Change::Worse => EXIT_MISSED,
        () if comparison.tells_nothing() => {
            complain(&text::compare::gate_lacks(&comparison));
            EXIT_INVALID
        }
        () => 0,
    })))
}

/// The fewest requests of which two runs never have the same latencies to the last bucket.
const SAME_MIN: u64 = 100;

/// Why one run per side can't decide a pipeline.
const ONE_RUN: &str = "--fail-on regression: one run per side can't tell a regression from the \
                       normal difference between runs; give several per side (--with), compare \
                       with `truetail ab`, or add --accept-one-run";

/// The files of either side.
fn sides(args: &CompareArgs) -> Result<(&[PathBuf], &[PathBuf]), Failure> {
    match (args.reports.as_slice(), args.with.as_slice()) {
        ([a, b], []) => Ok((std::slice::from_ref(a), std::slice::from_ref(b))),
        (reports, []) => Err(Failure::Usage(format!(
            "REPORT: {} given; give two, or name those of side B with --with",
            reports.len()
        ))),
        (a, b) => Ok((a, b)),
    }
}

/// Fails if a run is given twice: on one side it would agree with itself, and on both it would be
/// compared with itself.
fn require_distinct_runs(files: [&[PathBuf]; 2], runs: [&[Report]; 2]) -> Result<(), Failure> {
    let is_same = |one: &Report, other: &Report| {
        // Two runs may well have the same few latencies, but not the same many, ns each.
        let enough = if one.started_at == other.started_at { 1 } else { SAME_MIN };
        enough <= one.whole.corrected.count && one.corrected_digest == other.corrected_digest
    };
    let given: Vec<(&PathBuf, &Report)> =
        files.into_iter().flatten().zip(runs.into_iter().flatten()).collect();
    for (at, (file, run)) in given.iter().enumerate() {
        let Some(first) = given[..at].iter().position(|(_, other)| is_same(run, other)) else {
            continue;
        };
        let is_across = first < files[0].len() && files[0].len() <= at;
        let problem = match is_across {
            true => "the same run on both sides; name reports of two runs",
            false => "the same run twice on one side; name it once",
        };
        let (first, file) = (given[first].0.display(), file.display());
        return Err(Failure::Usage(format!("REPORT {first} and {file}: {problem}")));
    }
    Ok(())
}

/// The cure for a problem.
fn cure(problem: &Incomparable) -> &'static str {
    match problem {
        Incomparable::Nothing => "give two",
        Incomparable::Unsound { .. } => "see `truetail verify`",
        Incomparable::Invalid { .. } => "run it again, or add --allow-invalid",
        Incomparable::SameSeed { .. } => {
            "repeat each run of a side with its own: --seed 1, --seed 2, …"
        }
        Incomparable::Plans(_) => "run one again, or add --allow-different-plans",
    }
}
