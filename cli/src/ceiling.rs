//! The command `ceiling`: the highest rate that generator and target sustain, and its bound.

use std::process::ExitCode;

use engine::plan::{CONNS_MAX, Plan};
use engine::report::profile::Profile;
use engine::sys::placement;
use engine::sys::topology::{Attachment, Topology};
use engine::sys::units::{CoreList, Nanos};
use probe::bound::Code;
use probe::ceiling::{Answer, Ceiling, CeilingPlan};
use probe::document::{CeilingDocument, Made, SCHEMA};
use probe::plot::Mark;
use probe::proof::Trial;
use probe::{Ask, Change};

use crate::args::{CeilingArgs, FIRST_RATE_OF_CEILING, NULL_CONNS};
use crate::drive::{Extras, drive_with_extras};
use crate::failure::{Failure, Lack, complain};
use crate::flamegraph::Flamegraph;
use crate::gate::Gate;
use crate::null_process::{NullTarget, cores_apart};
use crate::output::{Results, say};
use crate::progress::View;
use crate::series::{self, Ended, Files, Found, Runs, exit_code};
use crate::signals::StopRequest;
use crate::sink::{EndedRun, Sinks};
use crate::text::ceiling as text;
use crate::text::extent::Extent;

/// Runs the plan at rates that converge on the ceiling, then with changes that may move it.
pub(crate) fn ceiling(args: &CeilingArgs) -> Result<ExitCode, Failure> {
    let (plan, wanted) = series::plan("ceiling", &args.run, &args.agents)?;
    if args.null && !plan.target.is_empty() {
        let problem = "the plan file names a target";
        return Err(Failure::Usage(format!("--null: {problem}; omit one of them")));
    }
    if !args.null && plan.target.is_empty() {
        let cure = "give http://HOST[:PORT]/PATH, or --null for the null target";
        return Err(Failure::Usage(format!("--target: the URL is missing; {cure}")));
    }
    if args.null && args.agents.are_named() {
        let problem = "the null target serves this machine alone";
        let cure = "start `truetail null-target` on a machine of its own and give its URL";
        return Err(Failure::Usage(format!("--null: {problem}; {cure}")));
    }
    let search = args.bracket.search_plan(&plan, FIRST_RATE_OF_CEILING)?;
    let first = search.first;
    let cooldown = args.bracket.series.cooldown;
    let stop = StopRequest::listen()?;
    // A calibration is checked against its steps, not the other way round.
    let mut runs =
        Runs { reference: None, ..Runs::open(plan, &args.agents, &wanted, cooldown, &stop)? };
    let files =
        Files::open(&args.run, &runs.plan, &wanted, args.bracket.series.svg.as_ref(), &stop)?;
    let flamegraph = wanted.files.get("flamegraph");
    let flamegraph = flamegraph.map(|path| Flamegraph::alone(path, &stop)).transpose()?;
    let mut cores = if runs.agents.is_some() { Vec::new() } else { shard_cores(&runs.plan) };
    let mut conns_max = CONNS_MAX as u64;
    let null_target = if args.null {
        let (ours, targets) = cores_apart(runs.plan.cores.as_ref())?;
        let topology = Topology::here();
        let targets =
            shared(&ours, &mut cores, targets, |one, other| topology.are_siblings(one, other));
        conns_max = null_conns(targets.len());
        runs.plan.cores = Some(CoreList::new(ours));
        Some(NullTarget::start(&targets)?)
    } else {
        None
    };
    if let Some(null_target) = &null_target {
        runs.plan.target = format!("http://{}/", null_target.address);
    }
    let extent = Extent::of(wanted.details);
    let head = text::begins(args.null, first, extent);
    let ceiling_plan = CeilingPlan { search, cores, conns_max };
    let mut ceiling = Ceiling::new(ceiling_plan.clone());
    let Ended { mut made, mut failure } =
        match runs.make(&mut ceiling, &head, Ceiling::steps, |step, cut_short| {
            text::row(step, cut_short, extent)
        }) {
            // A shortage of ports or files before the first run is an answer as well.
            Err(failure @ Failure::Lacks(..)) => {
                Ended { made: nothing(&failure, cooldown), failure: Some(failure) }
            }
            ended => ended?,
        };
    let mut answer = ceiling.answer();
    if let Some(Failure::Lacks(lack, line)) = &failure {
        let code = match lack {
            Lack::Ports => Code::Ports,
            Lack::Files => Code::Files,
        };
        answer.bound = answer.bound.of_refusal(code, line);
    }
    let mut results = Results::default();
    let mut profile = None;
    if let (Some(flamegraph), false) = (flamegraph, made.interrupted) {
        match profiled(&runs, &answer, &made, flamegraph, &mut results) {
            Ok(taken) => profile = taken,
            Err(Failure::Interrupted) => made.interrupted = true,
            Err(error) => failure = Some(error),
        }
    }
    let document = CeilingDocument { answer, ceiling: ceiling_plan, profile, made };
    let CeilingDocument { answer, made, .. } = &document;
    let mark = Mark::of_bracket("ceiling", &answer.bracket);
    files.write(&document, made, &answer.proof.trials, mark.as_ref(), &mut results);
    let said = say(&text::ends(&document, &results.written, extent));
    results.failures.extend(said.err());
    let found = match (&answer.not_judged, &answer.bracket.passed_per_s) {
        (Some(_), _) => Found::NotJudged,
        (None, Some(_)) => Found::Something,
        (None, None) => Found::Nothing,
    };
    Ok(exit_code(failure.as_ref(), made, &results, found))
}

/// The cores available to shards: the plan's, and those of a run that names none.
fn shard_cores(plan: &Plan) -> Vec<usize> {
    let named = plan.cores.as_ref().map_or(&[][..], CoreList::as_slice);
    let topology = Topology::here();
    let usual = topology.default_cores(&placement::allowed_cores(), &Attachment::default());
    CoreList::new(named.iter().copied().chain(usual).collect()).as_slice().to_vec()
}

/// The cores of the null target, chosen from `targets`: as many as the generator's where there are
/// enough. The rest remain in `cores`, which shards can use besides `ours`.
fn shared(
    ours: &[usize],
    cores: &mut Vec<usize>,
    targets: Vec<usize>,
    are_siblings: impl Fn(usize, usize) -> bool,
) -> Vec<usize> {
    let spare: Vec<usize> = cores.iter().copied().filter(|core| !ours.contains(core)).collect();
    let others = targets.iter().filter(|core| !spare.contains(core)).count();
    let half = (ours.len() + spare.len() + others).div_ceil(2);
    let kept = &spare[..spare.len().min(half.saturating_sub(ours.len()))];
    let is_free =
        |core: &usize| !kept.iter().any(|kept| kept == core || are_siblings(*kept, *core));
    let left: Vec<usize> = targets.iter().copied().filter(is_free).collect();
    let targets = if left.is_empty() { targets } else { left };
    cores.retain(|core| !targets.contains(core));
    targets
}

/// The null target's limit of connections on this many cores.
fn null_conns(cores: usize) -> u64 {
    let each: u64 = NULL_CONNS.parse().expect("the number is a constant");
    each * cores as u64
}

/// A series that ended before its first run.
fn nothing(failure: &Failure, cooldown: Nanos) -> Made {
    Made {
        schema: SCHEMA,
        interrupted: true,
        error: Some(failure.to_string()),
        plan: None,
        environment: None,
        cooldown,
        steps: Vec::new(),
        unfinished: None,
    }
}

/// A seed after those of all runs, so that the profiled run has arrivals of its own.
fn profile_seed(first: u64, made: &Made, trials: &[Trial]) -> u64 {
    let trials = trials.iter().flat_map(|trial| &trial.steps);
    let used = made.steps.iter().chain(trials).map(|step| step.seed.wrapping_sub(first));
    first.wrapping_add(used.max().map_or(0, |last| last + 1))
}

/// Profiles a run at the rate that passed, and writes the samples.
///
/// # Errors
/// The run can't be made, or a signal ended it.
fn profiled(
    runs: &Runs<'_>,
    answer: &Answer,
    made: &Made,
    mut flamegraph: Sinks,
    results: &mut Results,
) -> Result<Option<Profile>, Failure> {
    let Some(passed) = answer.bracket.passed_per_s else {
        complain("--flamegraph: not written, since no rate passed");
        return Ok(None);
    };
    if !runs.rest(Nanos(0)) {
        return Err(Failure::Interrupted);
    }
    let ask = Ask {
        rate: format!("{passed}").parse().expect("a rate that was offered"),
        duration: runs.plan.duration,
        seed: profile_seed(runs.plan.seed, made, &answer.proof.trials),
        change: Change::None,
        rest: Nanos(0),
    };
    let plan = runs.plan_of(&ask);
    let label = text::profiling(passed, Nanos(plan.end_ns()));
    let extras = Extras { sinks: Some(&mut flamegraph), ..Extras::default() };
    let (finished, began) = drive_with_extras(
        plan,
        &runs.body,
        runs.stop,
        View { label: &label, ..View::of(runs.shown) },
        extras,
    )?;
    flamegraph.finish(&EndedRun { finished: &finished, began, gate: &Gate::default() }, results);
    let report = finished.report;
    if report.interrupted { Err(Failure::Interrupted) } else { Ok(report.profile) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_null_target_leaves_cores_to_more_shards() {
        // Sibling hardware threads are 8 apart.
        let siblings = |one: usize, other: usize| one.abs_diff(other) == 8;
        for (ours, cores, targets, left, shared_by) in [
            (vec![1], vec![1], vec![0], vec![1], vec![0]),
            (vec![0], vec![0, 1], vec![1], vec![0], vec![1]),
            (vec![1], vec![1, 2], vec![0, 2], vec![1, 2], vec![0]),
            (vec![1, 2, 3], vec![1, 2, 3], vec![0], vec![1, 2, 3], vec![0]),
            (vec![1], vec![1, 2, 3, 4], vec![0, 2, 3, 4], vec![1, 2, 3], vec![0, 4]),
            (vec![1], vec![1, 2, 3], vec![0, 2, 3, 8, 10, 11], vec![1, 2, 3], vec![0, 8]),
        ] {
            let mut cores: Vec<usize> = cores;
            let targets = shared(&ours, &mut cores, targets, siblings);
            assert_eq!((cores, targets), (left, shared_by), "--cores {ours:?}");
        }
    }
}
