//! Recomputes the plan's arrivals: their digests, their counts per interval, the test of their
//! times, and the proof for a run that sent them.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::iter;
use std::path::Path;
use std::sync::Arc;

use load::mix::Mix;
use load::replay::Replay;
use load::schedule::{Arrival, Digest, Schedule};
use load::share::Share;
use plan::Plan;
use plan::body::SharedBody;
use plan::replay::Spread;
use plan::scenario::Scenario;
use plan::thresholds::Thresholds;
use report::Report;
use report::merge::offer;
use stats::arrival_proof::ArrivalProof;
use stats::arrivals::ArrivalStats;
use units::seconds_to_ns;

use super::compare::compare;
use super::finding::Finding;
use super::rescaled::Rescaled;
use super::slowest::listed;
use super::sound::DecodedSeries;
use super::steps_taken::StepsTaken;

/// The planned arrivals of a report's agents, each until its end.
pub(super) struct Planned {
    /// All of them.
    pub(super) whole: Digest,
    /// Those of the window.
    pub(super) window: Digest,
    /// The step of each of those.
    pub(super) steps: StepsTaken,
    /// When the requests that the report lists were due, ns since the epoch, by their numbers;
    /// `None` for one that never was.
    pub(super) listed: BTreeMap<u64, Option<u64>>,
    /// The number due in each interval of the window.
    pub(super) per_interval: Vec<u64>,
    /// The test of their times.
    pub(super) rescaled: Vec<Finding>,
    /// The proof for a run that sent nothing.
    pub(super) proof: ArrivalProof,
}

impl Planned {
    /// The arrivals of a sound report's agents, counted in its intervals; `None` without a
    /// schedule, or without the log that was replayed. Counting stops once there are more than
    /// the report has.
    pub(super) fn new(report: &Report, decoded: &DecodedSeries) -> Option<Planned> {
        let plan = &report.config.plan;
        let offer = offer(&report.config.plan, &report.whole, &report.per_agent)?;
        let most = most_arrivals(report);
        let window_ns = plan.warmup.0..plan.end_ns();
        let (mut whole, mut window) = (Digest::default(), Digest::default());
        let replay = match plan.replay {
            Some(_) => Some(replayed(report)?),
            None => None,
        };
        let mix = match &replay {
            Some(replay) => Mix::of_log(plan, Arc::clone(&replay.steps)),
            None => Mix::of_plan(plan),
        };
        let mut steps = StepsTaken::new(plan);
        let mut listed: BTreeMap<u64, Option<u64>> =
            listed(&report.whole).map(|slow| (slow.number, None)).collect();
        let mut per_interval = Vec::new();
        let mut rescaled = Rescaled::new(&offer, 0);
        let schedules = report.per_agent.iter().flat_map(|agent| {
            let until_ns = seconds_to_ns(agent.config.schedule_until);
            let (shards, share) = (agent.generator.shards.len(), &agent.config.share);
            let (curve, replay) = (&offer.curve, &replay);
            (0..shards).map(move |shard| {
                let (share, end_ns) = (share.of_shard(shard, shards), plan.end_ns());
                // Where a schedule ends decides how the arrivals just before that are numbered, and
                // those of a run that was stopped have the numbers of the whole run's.
                let schedule = match replay {
                    Some(replay) => Schedule::of_log(Arc::clone(&replay.due_ns), end_ns, share),
                    None => Schedule::new(curve.clone(), plan.arrivals, plan.seed, end_ns, share),
                };
                schedule.take_while(move |arrival| arrival.due_ns < until_ns)
            })
        });
        for Arrival { due_ns, number } in in_order(schedules.collect()).take(most) {
            whole.add(due_ns);
            rescaled.add(due_ns);
            if due_ns < window_ns.start {
                continue;
            }
            window.add(due_ns);
            steps.add(due_ns, mix.step(number));
            if let Some(due) = listed.get_mut(&number) {
                *due = Some(due_ns);
            }
            let at = usize::try_from((due_ns - window_ns.start) / decoded.interval_ns)
                .expect("a window has few intervals");
            if per_interval.len() <= at {
                per_interval.resize(at + 1, 0);
            }
            per_interval[at] += 1;
        }
        let proof = ArrivalStats::new(window_ns).summary(&offer, &plan.thresholds);
        let rescaled = rescaled.findings("schedule");
        Some(Planned { whole, window, steps, listed, per_interval, rescaled, proof })
    }

    /// The proof for a run that sent these arrivals: the dispersion of the sends, and of the same
    /// requests' due times, is taken from `found`; everything else, and what follows from it, is
    /// computed.
    pub(super) fn proof_with_sends_of(
        &self,
        found: &ArrivalProof,
        bounds: &Thresholds,
    ) -> ArrivalProof {
        let mut proof = self.proof.clone();
        for (dispersion, found) in proof.dispersion.iter_mut().zip(&found.dispersion) {
            (dispersion.due, dispersion.sent.value) = (found.due, found.sent.value);
        }
        proof.judge(bounds);
        proof
    }
}

/// The log that a report replayed, if it is still where it was, and the same.
fn replayed(report: &Report) -> Option<Replay> {
    let replay = Replay::read(&report.config.plan, &SharedBody::default()).ok().flatten()?;
    report.replay.as_ref().is_some_and(|log| *log == replay.log).then_some(replay)
}

/// The log that a report replayed, if it can't be opened where it was: then neither what was read
/// of it nor the schedule can be checked.
pub fn missing_log(report: &Report) -> Option<&Path> {
    let log = report.config.plan.replay.as_deref()?;
    File::open(log).is_err().then_some(log)
}

/// What was replayed against the log as it is now, or against the plan if the log isn't there.
pub(super) fn log(report: &Report) -> Vec<Finding> {
    let plan = &report.config.plan;
    let Some(found) = report.replay.as_ref().filter(|_| plan.replay.is_some()) else {
        let reported = |some: bool| if some { "reported" } else { "none" };
        let (asked, found) = (plan.replay.is_some(), report.replay.is_some());
        return vec![Finding::equal("replay", reported(asked), reported(found))];
    };
    if missing_log(report).is_some() {
        let is_spread = found.spread && plan.spread() == Spread::None;
        return vec![
            Finding::at_most("requests of the log", found.requests, plan.requests.unwrap_or(0)),
            Finding::equal("replay.spread against the plan", false, is_spread),
        ];
    }
    match Replay::read(plan, &SharedBody::default()) {
        Ok(now) => {
            let routes = now.iter().map(|now| {
                let mut again = plan.clone();
                now.complete(&mut again);
                Finding::equal("replay: requests of the routes", requests(&again), requests(plan))
            });
            let routes: Vec<Finding> = routes.collect();
            let mut findings = compare("replay.", &now.map(|now| now.log), &report.replay);
            findings.extend(routes);
            findings
        }
        Err(error) => vec![Finding::new("replay", "the log that was replayed", error, false)],
    }
}

/// Method and URL of each scenario.
fn requests(plan: &Plan) -> String {
    let request = |Scenario { step, .. }: &Scenario| {
        let (method, url) = (step[0].method.as_deref(), step[0].url.as_deref());
        format!("{} {}", method.unwrap_or_default(), url.unwrap_or_default())
    };
    plan.scenario.iter().map(request).collect::<Vec<String>>().join(", ")
}

/// All arrivals of these schedules, in order of their due times.
fn in_order<S>(mut schedules: Vec<S>) -> impl Iterator<Item = Arrival>
where
    S: Iterator<Item = Arrival>,
{
    let key = |arrival: Arrival, at| Reverse((arrival.due_ns, arrival.number, at));
    let firsts = schedules.iter_mut().enumerate();
    let firsts = firsts.filter_map(|(at, schedule)| Some(key(schedule.next()?, at)));
    let mut next: BinaryHeap<Reverse<(u64, u64, usize)>> = firsts.collect();
    iter::from_fn(move || {
        let mut first = next.peek_mut()?;
        let Reverse((due_ns, number, at)) = *first;
        match schedules[at].next() {
            Some(later) => *first = key(later, at),
            None => drop(PeekMut::pop(first)),
        }
        Some(Arrival { due_ns, number })
    })
}

/// The digest of the schedule on a single process, until the plan's end; `None` without a schedule,
/// or without the log that was replayed.
pub(super) fn of_one_process(report: &Report) -> Option<Digest> {
    let plan = &report.config.plan;
    let curve = offer(&report.config.plan, &report.whole, &report.per_agent)?.curve;
    let mut whole = Digest::default();
    let (until_ns, share) = (plan.end_ns(), Share::whole());
    let schedule = match plan.replay {
        Some(_) => Schedule::of_log(replayed(report)?.due_ns, until_ns, share),
        None => Schedule::new(curve, plan.arrivals, plan.seed, until_ns, share),
    };
    schedule.times_ns().take(most_arrivals(report)).for_each(|due_ns| whole.add(due_ns));
    Some(whole)
}

/// More arrivals than the report has.
fn most_arrivals(report: &Report) -> usize {
    usize_of(report.config.schedule_arrivals.unwrap_or(0)).saturating_add(1)
}

fn usize_of(arrivals: u64) -> usize {
    usize::try_from(arrivals).unwrap_or(usize::MAX)
}
