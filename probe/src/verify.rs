//! Verifies the document of a sweep, of a search or of a ceiling: the answer follows from its
//! steps, and so does each step from those before it, since the decisions are repeated without a
//! network.

use engine::plan::slo::{Clause, Objective, Objectives};
use engine::report::slo::{JudgedObjective, Slo};
use engine::report::verdict::Level;
use engine::sys::units::{CoreList, Rate};
use engine::verify::{Finding, compare, summed_up};
use serde::Serialize;

use crate::backlog::{Backlog, falls_behind};
use crate::bound::Bound;
use crate::ceiling::{Answer, Ceiling};
use crate::document::{CeilingDocument, Made, SCHEMA, SearchDocument, SweepDocument};
use crate::proof::Trial;
use crate::rule::Rule;
use crate::search::Search;
use crate::step::{Latency, Step};
use crate::sweep::Sweep;
use crate::{Change, Series};

/// What a document of many runs doesn't contain.
pub const UNCHECKED: &str = "the environment; and of each step, whose own report isn't kept, its \
    counts, its distributions, the reasons of its verdict, and what the generator itself did";

/// What a ceiling's document doesn't contain.
pub const UNCHECKED_OF_CEILING: &str = "the environment and the profile; what a run was refused \
    for, if one was; and of each step, whose own report isn't kept, its counts, its distributions, \
    the reasons of its verdict, and what the generator itself did";

/// The most steps that are examined: twice the maximum of a sweep.
const STEPS_MAX: usize = 4_000;

/// Checks a sweep's document.
pub fn sweep(document: &SweepDocument) -> Vec<Finding> {
    let made = &document.made;
    let mut findings = sound(made, &[]);
    if findings.iter().any(|finding| !finding.ok) {
        return findings;
    }
    findings.extend(planned_first(made, None));
    let mut sweep = Sweep::new(document.sweep.clone());
    findings.extend(steps(&mut sweep, made, &[], None, None));
    findings.extend(compare("knee.", &sweep.knee(), &document.knee));
    findings.push(Finding::equal("complete", sweep.is_complete(), document.complete));
    findings
}

/// Checks a search's document.
pub fn search(document: &SearchDocument) -> Vec<Finding> {
    let made = &document.made;
    let mut findings = sound(made, &[]);
    let slo = document.slo.parse::<Objectives>();
    let read = slo.as_ref().map_or_else(ToString::to_string, ToString::to_string);
    findings.push(Finding::equal("slo", document.slo.clone(), read));
    let Ok(slo) = slo else { return findings };
    if findings.iter().any(|finding| !finding.ok) {
        return findings;
    }
    findings.extend(planned_first(made, Some(&document.slo)));
    let mut search = Search::new(document.search.clone(), Rule::Objectives);
    findings.extend(steps(&mut search, made, &[], Some(Rule::Objectives), Some(&slo)));
    findings.extend(compare("", &search.bracket(), &document.bracket));
    findings.extend(compare("ended_by", &search.ended_by(), &document.ended_by));
    findings
}

/// Checks a ceiling's document.
pub fn ceiling(document: &CeilingDocument) -> Vec<Finding> {
    let CeilingDocument { answer, ceiling: plan, made, .. } = document;
    let trials = &answer.proof.trials;
    let mut findings = sound(made, trials);
    if findings.iter().any(|finding| !finding.ok) {
        return findings;
    }
    findings.extend(planned_first(made, None));
    let mut ceiling = Ceiling::new(plan.clone());
    findings.extend(steps(&mut ceiling, made, trials, Some(Rule::Load), None));
    findings.push(Finding::equal("steps of the search", ceiling.steps().len(), made.steps.len()));
    let mut expected = ceiling.answer();
    if is_of_refusal(&answer.bound, made) {
        expected.bound = expected.bound.of_refusal(answer.bound.code, &answer.bound.evidence);
    }
    let runs =
        |answer: &Answer| answer.proof.trials.iter().map(|trial| trial.steps.len()).collect();
    let (made, planned): (Vec<usize>, Vec<usize>) = (runs(answer), runs(&expected));
    findings.extend(summed_up("runs of each trial", compare("", &planned, &made)));
    findings.extend(compare("", &without_steps(expected), &without_steps(answer.clone())));
    findings
}

/// True if a bound is that of a refused run, which no step shows.
fn is_of_refusal(bound: &Bound, made: &Made) -> bool {
    bound.code.is_lack() && made.error.as_ref() == Some(&bound.evidence)
}

/// The answer without the runs of its trials, which are checked one by one.
fn without_steps(mut answer: Answer) -> Answer {
    for trial in &mut answer.proof.trials {
        trial.steps.clear();
    }
    answer
}

/// The conditions for any decision from these steps and the trials' runs.
fn sound(made: &Made, trials: &[Trial]) -> Vec<Finding> {
    let runs = || made.steps.iter().chain(trials.iter().flat_map(|trial| &trial.steps));
    let count = runs().count();
    let mut findings = vec![
        Finding::equal("schema", SCHEMA, made.schema),
        Finding::at_most("steps", STEPS_MAX, count),
    ];
    let is_rate = |step: &&Step| format!("{}", step.rate_per_s).parse::<Rate>().is_ok();
    let sound = runs().filter(is_rate).filter(|step| 0.0 < step.duration_s).count();
    findings.push(Finding::equal("steps with a rate and a window", count, sound));
    findings
}

/// Each step, and each run of a trial, is the one decided on from those before it, has its outcome
/// by the rule of its series, and agrees with itself. An interrupted series may have had more to
/// make.
fn steps(
    series: &mut impl Series,
    made: &Made,
    trials: &[Trial],
    rule: Option<Rule>,
    slo: Option<&Objectives>,
) -> Vec<Finding> {
    let (mut asked, mut within) = (Vec::new(), Vec::new());
    let steps = made.steps.iter().enumerate();
    let steps = steps.map(|(at, step)| ((at + 1).to_string(), step));
    let runs = trials.iter().enumerate().flat_map(|(trial, Trial { steps, .. })| {
        let runs = steps.iter().enumerate();
        runs.map(move |(run, step)| (format!("trial {}, run {}", trial + 1, run + 1), step))
    });
    for (number, step) in steps.chain(runs) {
        let name = |what: &str| format!("{number}: {what}");
        match series.next() {
            None => {
                asked.push(Finding::new(name("rate"), "no further step", step.rate_per_s, false))
            }
            Some(ask) => {
                asked.extend([
                    Finding::close(name("rate"), ask.rate.per_second(), step.rate_per_s),
                    Finding::close(name("duration_s"), ask.duration.as_secs_f64(), step.duration_s),
                    Finding::equal(name("seed"), ask.seed, step.seed),
                ]);
                let planned = planned(&ask.change, made.steps.first().unwrap_or(step));
                asked.extend(compare(&name(""), &planned, &Ran::of(step)));
            }
        }
        within.extend(compare(&name("outcome"), &rule.map(|rule| rule.judge(step)), &step.outcome));
        within.extend(one(step, slo).into_iter().map(|finding| {
            let what = name(&finding.what);
            Finding { what, ..finding }
        }));
        series.take(step.clone());
    }
    if !made.interrupted {
        let left = series.next().map_or("none".to_owned(), |ask| format!("{}/s", ask.rate));
        asked.push(Finding::equal("steps left", "none".to_owned(), left));
    }
    let mut findings = summed_up("steps as decided", asked);
    findings.extend(summed_up("steps in themselves", within));
    findings
}

/// The possible differences of a run from the others, besides its rate and window.
#[derive(Debug, Serialize)]
struct Ran {
    /// The cores of its shards.
    cores: CoreList,
    conns: u64,
}

impl Ran {
    fn of(step: &Step) -> Ran {
        let cores = step.figures.shards.iter().map(|shard| shard.core).collect();
        Ran { cores: CoreList::new(cores), conns: step.figures.conns }
    }
}

/// The configuration of a run with this change, given the first step.
fn planned(change: &Change, first: &Step) -> Ran {
    let ran = Ran::of(first);
    match change {
        Change::None => ran,
        Change::Cores(cores) => Ran { cores: CoreList::new(cores.clone()), ..ran },
        Change::Conns(conns) => Ran { conns: *conns as u64, ..ran },
    }
}

/// A step agrees with itself.
fn one(step: &Step, slo: Option<&Objectives>) -> Vec<Finding> {
    let mut findings = vec![
        Finding::close("intended", step.requests as f64 / step.duration_s, step.intended_per_s),
        Finding::at_most("errors", step.requests, step.errors),
    ];
    findings.extend(counts(step));
    findings.extend(backlog(&step.backlog));
    findings.extend(silence(step));
    let worst = step.verdict.codes.iter().map(|reason| reason.level).max();
    findings.extend(compare("verdict.level", &worst.unwrap_or(Level::Valid), &step.verdict.level));
    for (name, latency) in [
        ("naive", &step.naive),
        ("corrected", &step.corrected),
        ("pacer_lateness", &step.pacer_lateness),
    ] {
        findings.push(rises(name, latency));
    }
    findings.extend(objectives(step, slo));
    findings.extend(shares(step));
    findings
}

/// The largest ratio of requests answered to requests sent in the window: stamps of two clocks may
/// put its end on either side of a request.
const EDGE_MAX: f64 = 1.001;

/// Sent requests were due, answered ones were sent, and latencies belong to requests. A request
/// waits for its send as well, so naive latency is never the longer one.
fn counts(step: &Step) -> Vec<Finding> {
    let mut findings = vec![
        Finding::at_most("sent_due", step.intended_per_s, step.sent_due_per_s),
        Finding::at_most("sent", step.sent_per_s, step.sent_due_per_s),
        Finding::at_most("answered_due", EDGE_MAX * step.sent_due_per_s, step.answered_due_per_s),
        Finding::at_most("answered", step.answered_per_s, step.answered_due_per_s),
        Finding::at_most("corrected.count", step.requests, step.corrected.count),
        Finding::at_most("naive.count", step.corrected.count, step.naive.count),
        Finding::at_most("pacer_lateness.count", step.requests, step.pacer_lateness.count),
    ];
    // Otherwise some were given up before they were sent, and have no naive latency.
    if step.naive.count == step.corrected.count {
        let (naive, corrected) = (&step.naive, &step.corrected);
        let quantiles = naive.percentiles.iter().zip(corrected.percentiles.iter());
        let quantiles = quantiles.map(|((at, one), (_, other))| (at.label, one.value, other.value));
        let others = [("mean", naive.mean, corrected.mean), ("max", naive.max, corrected.max)];
        for (name, naive, corrected) in quantiles.chain(others) {
            if let (Some(naive), Some(corrected)) = (naive, corrected) {
                // A sum in another order.
                let most = corrected * (1.0 + 1e-9);
                findings.push(Finding::at_most(format!("naive.{name}"), most, naive));
            }
        }
    }
    findings
}

/// Shares are between 0 and 1, and the busiest shard is one of them.
fn shares(step: &Step) -> Vec<Finding> {
    let busiest = step.figures.shards.iter().map(|shard| shard.busy).fold(0.0, f64::max);
    let mut findings = vec![Finding::close("busy", busiest, step.busy)];
    for objective in step.slo.iter().flat_map(|slo| &slo.objectives) {
        let JudgedObjective { metric, beyond, beyond_interval, .. } = objective;
        let ends = beyond_interval.iter().flatten().copied();
        for share in beyond.iter().copied().chain(ends) {
            let ok = (0.0..=1.0).contains(&share);
            findings.push(Finding::new(format!("slo: beyond of {metric}"), "0 to 1", share, ok));
        }
    }
    findings
}

/// The plan is that of the first step, with the objectives of the series.
fn planned_first(made: &Made, slo: Option<&str>) -> Vec<Finding> {
    let (Some(plan), Some(first)) = (&made.plan, made.steps.first()) else { return Vec::new() };
    let mut findings = vec![Finding::equal("plan.seed", first.seed, plan.seed)];
    if let Some(rate) = plan.rate {
        findings.push(Finding::close("plan.rate", first.rate_per_s, rate.per_second()));
    }
    if let Some(slo) = slo {
        let found = plan.objectives().map_or("none".to_owned(), |all| all.to_string());
        findings.push(Finding::equal("plan.slo", slo.to_owned(), found));
    }
    findings
}

/// Unanswered requests are errors, and the silence begins within the window.
fn silence(step: &Step) -> Vec<Finding> {
    let Some(from_s) = step.silent_from_s else { return Vec::new() };
    let least = if from_s == 0.0 { step.requests } else { 1 };
    let errors = Finding::new(
        "silent_from_s: errors",
        format!("at least {least}"),
        step.errors,
        least <= step.errors,
    );
    vec![Finding::at_most("silent_from_s", step.duration_s, from_s), errors]
}

/// The interval contains the growth, and decides whether it fell behind.
fn backlog(found: &Backlog) -> Vec<Finding> {
    let Backlog { growth, interval, fell_behind } = *found;
    let reported = fell_behind.map_or("undecided".to_owned(), |fell| fell.to_string());
    let is = |expected: &str, ok| Finding::new("backlog.fell_behind", expected, &reported, ok);
    let Some([low, high]) = interval else {
        return vec![is("undecided", fell_behind.is_none())];
    };
    let (range, within) = (format!("{low} to {high}"), low <= growth && growth <= high);
    let judged = match falls_behind([low, high]) {
        Some(true) => is("true", fell_behind == Some(true)),
        // Responses may have taken longer than half of the window.
        Some(false) => is("false or undecided", fell_behind != Some(true)),
        None => is("undecided", fell_behind.is_none()),
    };
    vec![Finding::new("backlog.interval", format!("around {growth}"), range, within), judged]
}

/// Percentiles rise up to the maximum, each within its interval.
pub(crate) fn rises(name: &str, latency: &Latency) -> Finding {
    let known = latency.percentiles.iter().filter_map(|(_, one)| Some((one.value?, one.interval)));
    let (mut last, mut ok) = (0.0, true);
    for (value, interval) in known {
        ok &= last <= value && interval.is_none_or(|[low, high]| low <= value && value <= high);
        last = value;
    }
    // A histogram's bucket may end beyond the exact maximum.
    ok &= latency.max.is_none_or(|max| last <= max * 1.001 + 0.001);
    Finding::new(format!("{name}: percentiles"), "rising", if ok { "rising" } else { "not" }, ok)
}

/// The objectives are those of the series, with the step's figures, and judged by them.
fn objectives(step: &Step, slo: Option<&Objectives>) -> Vec<Finding> {
    let Some(found) = &step.slo else {
        return vec![Finding::equal("slo", slo.is_some(), false)];
    };
    let expected: Vec<JudgedObjective> = found
        .objectives
        .iter()
        .map(|objective| {
            // A step has the figures of the whole run only.
            let own = figure(step, &objective.metric).filter(|_| objective.of.is_none());
            let figure = own.unwrap_or(objective.figure);
            let objective = JudgedObjective { figure, ..objective.clone() };
            JudgedObjective { judgement: objective.judge(), ..objective }
        })
        .collect();
    if expected.is_empty() {
        return vec![Finding::new("slo", "objectives", "none", false)];
    }
    let mut findings = compare("slo.", &Slo::new(expected), found);
    if let Some(slo) = slo {
        let planned: Vec<(Option<String>, String, f64)> = slo
            .iter()
            .map(|Clause { of, objective }| (of.clone(), objective.metric(), bound(objective)))
            .collect();
        let judged: Vec<(Option<String>, String, f64)> = found
            .objectives
            .iter()
            .map(|one| (one.of.clone(), one.metric.clone(), one.bound))
            .collect();
        findings.extend(compare("slo.bounds.", &planned, &judged));
    }
    findings
}

/// The bound in a step's unit.
fn bound(objective: &Objective) -> f64 {
    match objective {
        Objective::Latency(_, bound) => bound.0 as f64 / 1e3,
        Objective::Errors { percent } => percent / 100.0,
        Objective::Rate { share } => *share,
    }
}

/// A figure that the step contains elsewhere as well; `None` if it doesn't.
fn figure(step: &Step, metric: &str) -> Option<Option<f64>> {
    match metric {
        "errors" => Some((0 < step.requests).then(|| step.errors as f64 / step.requests as f64)),
        "rate" => {
            Some((0.0 < step.intended_per_s).then(|| step.answered_due_per_s / step.intended_per_s))
        }
        "mean" => Some(step.corrected.mean),
        "max" => Some(step.corrected.max),
        name => {
            let mut known = step.corrected.percentiles.iter();
            known.find(|(quantile, _)| quantile.label == name).map(|(_, one)| one.value)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::ops::ControlFlow;

    use engine::plan::Plan;
    use engine::report::slo::Judgement;
    use engine::sys::units::Nanos;

    use super::*;
    use crate::blame::Side;
    use crate::bound::Code;
    use crate::ceiling::{CeilingPlan, NotJudged};
    use crate::proof::Scaling;
    use crate::queues::{AMPLE, Queue, search_plan};
    use crate::rates::Spacing;
    use crate::search::SearchPlan;
    use crate::step::Outcome;
    use crate::sweep::SweepPlan;
    use crate::{Ask, make_runs};

    fn made(steps: &[Step]) -> Made {
        Made {
            schema: SCHEMA,
            interrupted: false,
            error: None,
            plan: None,
            environment: None,
            cooldown: Nanos::from_secs(1),
            steps: steps.to_vec(),
            unfinished: None,
        }
    }

    fn run(series: &mut impl Series, queue: &Queue) {
        let run = |ask: &Ask, _| Ok::<_, Infallible>(ControlFlow::Continue(queue.run(ask)));
        assert_eq!(make_runs(series, run), Ok(ControlFlow::Continue(())));
    }

    fn swept() -> SweepDocument {
        let range: crate::rates::RateRange = "200..5k".parse().expect("a range");
        let plan = SweepPlan {
            rates: range.spaced(6, Spacing::Geometric),
            refine_max: 3,
            duration: Nanos::from_secs(2),
            seed: 1,
            time: AMPLE,
        };
        let mut sweep = Sweep::new(plan.clone());
        run(&mut sweep, &Queue::serial_ms());
        let (knee, complete) = (sweep.knee(), sweep.is_complete());
        SweepDocument { knee, complete, sweep: plan, made: made(sweep.steps()) }
    }

    fn searched() -> SearchDocument {
        let plan =
            SearchPlan { tolerance: 0.2, steps_max: 40, seed: 3, ..search_plan("200", "100k", 5) };
        let mut search = Search::new(plan.clone(), Rule::Objectives);
        run(&mut search, &Queue { slo_ms: Some(20.0), ..Queue::serial_ms() });
        SearchDocument {
            bracket: search.bracket(),
            ended_by: search.ended_by(),
            slo: "p99<20ms".to_owned(),
            search: plan,
            made: made(search.steps()),
        }
    }

    /// A ceiling of a serial target, with a trial that others disturbed at first.
    fn ceiled() -> CeilingDocument {
        let search =
            SearchPlan { tolerance: 0.1, steps_max: 40, seed: 3, ..search_plan("1k", "100k", 5) };
        let plan = CeilingPlan { search, cores: vec![0, 1], conns_max: 1_000_000 };
        let mut ceiling = Ceiling::new(plan.clone());
        let queue =
            Queue { service_ns: 500_000, shard_ns: 10_000, conns: 1_000, ..Queue::serial_ms() };
        let mut disturbed = 0;
        let run = |ask: &Ask, _| {
            let mut step = queue.run(ask);
            if ask.change == Change::Conns(2_000) && disturbed == 0 {
                disturbed += 1;
                step.figures.steal = Some(0.5);
            }
            Ok::<_, Infallible>(ControlFlow::Continue(step))
        };
        assert_eq!(make_runs(&mut ceiling, run), Ok(ControlFlow::Continue(())));
        let (answer, made) = (ceiling.answer(), made(ceiling.steps()));
        CeilingDocument { answer, ceiling: plan, profile: None, made }
    }

    type Tampering<T> = fn(&mut T);

    /// The names of the differences.
    fn wrong(findings: Vec<Finding>) -> Vec<String> {
        findings.into_iter().filter(|finding| !finding.ok).map(|finding| finding.what).collect()
    }

    #[test]
    fn the_answer_follows_from_the_steps() {
        assert_eq!(wrong(sweep(&swept())), [""; 0]);
        assert_eq!(wrong(search(&searched())), [""; 0]);
        assert_eq!(wrong(ceiling(&ceiled())), [""; 0]);
        // An interrupted one may have had more to do.
        let mut document = searched();
        let whole = document.made.steps.len();
        document.made.steps.truncate(whole - 1);
        assert!(wrong(search(&document)).iter().any(|what| what.ends_with("steps left")));
        document.made.interrupted = true;
        assert!(!wrong(search(&document)).iter().any(|what| what.contains("steps")));
    }

    #[test]
    fn a_changed_figure_of_a_sweep_is_named() {
        let changes: [(&str, Tampering<SweepDocument>); 24] = [
            ("knee.rate", |of| of.knee.rate_per_s = of.knee.rate_per_s.map(|rate| rate + 1.0)),
            ("knee.from", |of| of.knee.from_per_s = None),
            ("knee.bound", |of| of.knee.bound = Some(Side::Generator)),
            ("knee.answered_beyond", |of| of.knee.answered_beyond_per_s = Some(5.0)),
            ("2: rate", |of| of.made.steps[1].rate_per_s += 1.0),
            ("1: seed", |of| of.made.steps[0].seed += 1),
            ("1: intended", |of| of.made.steps[0].intended_per_s += 1.0),
            ("1: backlog.fell_behind", |of| of.made.steps[0].backlog.fell_behind = Some(true)),
            ("1: corrected: percentiles", |of| {
                of.made.steps[0].corrected.percentiles.at_mut(0.5).value = Some(9e9);
            }),
            ("steps with a rate", |of| of.made.steps[0].rate_per_s = -1.0),
            ("1: silent_from_s: errors", |of| of.made.steps[0].silent_from_s = Some(0.0)),
            ("1: silent_from_s", |of| of.made.steps[0].silent_from_s = Some(2.5)),
            ("2: conns", |of| of.made.steps[1].figures.conns += 1),
            ("1: sent_due", |of| {
                of.made.steps[0].sent_due_per_s = 1.01 * of.made.steps[0].intended_per_s
            }),
            ("1: sent", |of| of.made.steps[0].sent_per_s *= 0.9),
            ("1: answered_due", |of| {
                of.made.steps[0].answered_due_per_s = 1.01 * of.made.steps[0].sent_due_per_s
            }),
            ("1: answered", |of| of.made.steps[0].answered_per_s *= 0.9),
            ("1: corrected.count", |of| of.made.steps[0].corrected.count *= 2),
            ("1: naive.count", |of| of.made.steps[0].naive.count += 1),
            ("1: pacer_lateness.count", |of| of.made.steps[0].pacer_lateness.count *= 2),
            ("1: naive.p50", |of| {
                let p50 = of.made.steps[0].corrected.percentiles.at(0.5).value;
                of.made.steps[0].naive.percentiles.at_mut(0.5).value = p50.map(|us| us + 1.0);
            }),
            ("1: naive.mean", |of| of.made.steps[0].naive.mean = Some(9e9)),
            ("1: busy", |of| of.made.steps[0].busy += 0.1),
            ("plan.seed", |of| {
                of.made.plan = Some(Plan { seed: 5, ..Plan::default() });
            }),
        ];
        let document = swept();
        for (name, change) in changes {
            let mut document = document.clone();
            change(&mut document);
            let wrong = wrong(sweep(&document));
            assert!(wrong.iter().any(|what| what.contains(name)), "{name}: {wrong:?}");
        }
    }

    #[test]
    fn a_changed_figure_of_a_search_is_named() {
        let changes: [(&str, Tampering<SearchDocument>); 15] = [
            ("passed", |of| {
                of.bracket.passed_per_s = of.bracket.passed_per_s.map(|rate| rate * 1.01)
            }),
            ("failed", |of| of.bracket.failed_per_s = None),
            ("ended_by", |of| of.ended_by = Some(Side::Generator)),
            ("complete", |of| of.bracket.complete = !of.bracket.complete),
            ("slo.bounds", |of| of.slo = "p99<21ms".to_owned()),
            ("slo", |of| of.slo = "p99".to_owned()),
            ("1: slo.objectives.0.judgement", |of| {
                let slo = of.made.steps[0].slo.as_mut().expect("objectives");
                slo.objectives[0].judgement = Judgement::Missed;
            }),
            ("1: slo.objectives.0.figure", |of| {
                let slo = of.made.steps[0].slo.as_mut().expect("objectives");
                slo.objectives[0].figure = Some(1.0);
            }),
            ("1: verdict.level", |of| of.made.steps[0].verdict.level = Level::Invalid),
            ("steps as decided", |of| of.search.tolerance = 0.001),
            ("1: outcome", |of| of.made.steps[0].outcome = Some(Outcome::Failed)),
            ("1: slo: beyond of p99", |of| {
                let slo = of.made.steps[0].slo.as_mut().expect("objectives");
                slo.objectives[0].beyond_interval = Some([0.0, 1.31]);
            }),
            ("plan.slo", |of| of.made.plan.as_mut().expect("a plan").slo = None),
            ("plan.seed", |of| of.made.plan.as_mut().expect("a plan").seed += 1),
            ("plan.rate", |of| of.made.plan.as_mut().expect("a plan").rate = "7".parse().ok()),
        ];
        let mut document = searched();
        let first = &document.made.steps[0];
        document.made.plan = Some(Plan {
            rate: Some(document.search.first),
            seed: first.seed,
            slo: document.slo.parse().ok(),
            ..Plan::default()
        });
        assert_eq!(wrong(search(&document)), [""; 0]);
        for (name, change) in changes {
            let mut document = document.clone();
            change(&mut document);
            let wrong = wrong(search(&document));
            assert!(wrong.iter().any(|what| what.contains(name)), "{name}: {wrong:?}");
        }
    }

    #[test]
    fn a_changed_figure_of_a_ceiling_is_named() {
        let changes: [(&str, Tampering<CeilingDocument>); 21] = [
            ("passed", |of| {
                of.answer.bracket.passed_per_s =
                    of.answer.bracket.passed_per_s.map(|rate| rate * 1.01)
            }),
            ("failed", |of| of.answer.bracket.failed_per_s = None),
            ("complete", |of| of.answer.bracket.complete = false),
            ("passed_by.growth", |of| {
                of.answer.passed_by.as_mut().expect("some pass").growth = 0.5;
            }),
            ("failed_by.broke", |of| of.answer.failed_by.as_mut().expect("some").broke.clear()),
            ("not_judged", |of| {
                let (rates, steal) = (vec![2_000.0], Some(0.1));
                of.answer.not_judged =
                    Some(NotJudged { rates_per_s: rates, steal, waited: 0.0, throttled: None });
            }),
            ("bound.code", |of| of.answer.bound.code = Code::Cap),
            ("bound.code", |of| of.answer.bound.code = Code::Ports),
            ("bound.evidence", |of| of.answer.bound.evidence.push('.')),
            ("bound.proven", |of| of.answer.bound.proven = false),
            ("bound.heavy.at_target", |of| {
                of.answer.bound.heavy.as_mut().expect("it failed").at_target += 1.0;
            }),
            ("proof.trials.1.ratio", |of| of.answer.proof.trials[1].ratio += 0.1),
            ("proof.trials.1.moved", |of| of.answer.proof.trials[1].moved = Some(true)),
            ("proof.scaling", |of| of.answer.proof.scaling = Scaling::Unproven),
            ("trial 2, run 1: seed", |of| of.answer.proof.trials[1].steps[0].seed += 1),
            ("trial 2, run 1: cores", |of| {
                of.answer.proof.trials[1].steps[0].figures.shards.pop();
            }),
            ("trial 1, run 1: outcome", |of| of.answer.proof.trials[0].steps[0].outcome = None),
            ("runs of each trial", |of| of.answer.proof.trials[2].steps.truncate(1)),
            ("1: rate", |of| of.made.steps[0].rate_per_s += 1.0),
            ("1: outcome", |of| of.made.steps[0].outcome = Some(Outcome::Excused)),
            ("steps as decided", |of| of.ceiling.conns_max = 1_000),
        ];
        let document = ceiled();
        let runs: Vec<usize> =
            document.answer.proof.trials.iter().map(|trial| trial.steps.len()).collect();
        assert_eq!(runs, [1, 1, 2, 1]);
        for (name, change) in changes {
            let mut document = document.clone();
            change(&mut document);
            let wrong = wrong(ceiling(&document));
            assert!(wrong.iter().any(|what| what.contains(name)), "{name}: {wrong:?}");
        }
    }

    #[test]
    fn the_bound_of_a_refusal_is_that_of_the_error() {
        let mut document = ceiled();
        document.answer.proof.trials.clear();
        document.answer.bracket.complete = false;
        let refusal = "no local port is left";
        (document.made.interrupted, document.made.error) = (true, Some(refusal.to_owned()));
        document.answer.bound = document.answer.bound.of_refusal(Code::Ports, refusal);
        assert_eq!(wrong(ceiling(&document)), [""; 0]);
        let mut proven = document.clone();
        proven.answer.bound.proven = false;
        assert_eq!(wrong(ceiling(&proven)), ["bound.proven"]);
        document.answer.bound.evidence.push('.');
        assert!(wrong(ceiling(&document)).contains(&"bound.evidence".to_owned()));
        // Where not even the first run was made.
        let search = ceiled().ceiling;
        let none = Ceiling::new(search.clone());
        let mut answer = none.answer();
        answer.bound = answer.bound.of_refusal(Code::Files, refusal);
        let (interrupted, error) = (true, Some(refusal.to_owned()));
        let made = Made { interrupted, error, ..made(&[]) };
        let document = CeilingDocument { answer, ceiling: search, profile: None, made };
        assert_eq!(wrong(ceiling(&document)), [""; 0]);
    }
}
