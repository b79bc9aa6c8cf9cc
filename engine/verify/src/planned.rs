//! Recomputes the plan's arrivals: their digests, their counts per interval, and the proof of the
//! schedule.

use load::schedule::{Digest, Schedule};
use load::share::Share;
use plan::thresholds::Thresholds;
use report::Report;
use report::merge::offer;
use stats::arrival_proof::ArrivalProof;
use stats::arrivals::ArrivalStats;
use units::seconds_to_ns;

use super::sound::DecodedSeries;

/// The arrivals of an open plan that a report's agents were to offer, each until its end.
pub(super) struct Planned {
    /// All of them.
    pub(super) whole: Digest,
    /// Those of the window.
    pub(super) window: Digest,
    /// How many are due in each interval of the window.
    pub(super) per_interval: Vec<u64>,
    /// Their proof, of a run in which nothing was sent.
    pub(super) proof: ArrivalProof,
}

impl Planned {
    /// The arrivals of a sound report's agents, counted in its intervals; `None` without a
    /// schedule. Of more than the report has it is enough to know that there are more.
    pub(super) fn new(report: &Report, decoded: &DecodedSeries) -> Option<Planned> {
        let plan = &report.config.plan;
        let offer = offer(&report.config.plan, &report.whole, &report.per_agent)?;
        let most = most_arrivals(report);
        let window_ns = plan.warmup.0..plan.end_ns();
        let (mut whole, mut window) = (Digest::default(), Digest::default());
        let mut per_interval = Vec::new();
        let mut intended = ArrivalStats::new(window_ns.clone());
        for agent in &report.per_agent {
            let until_ns = seconds_to_ns(agent.config.schedule_until).min(plan.end_ns());
            let shards = agent.generator.shards.len();
            for shard in 0..shards {
                let mut part = ArrivalStats::new(window_ns.clone());
                let share = agent.config.share.of_shard(shard, shards);
                let curve = offer.curve.clone();
                let schedule = Schedule::new(curve, plan.arrivals, plan.seed, until_ns, share);
                let left = most.saturating_sub(usize_of(whole.arrivals()));
                for due_ns in schedule.times_ns().take(left) {
                    whole.add(due_ns);
                    if due_ns < window_ns.start {
                        continue;
                    }
                    window.add(due_ns);
                    part.record_unsent(due_ns);
                    let at = usize::try_from((due_ns - window_ns.start) / decoded.interval_ns)
                        .expect("a window has few intervals");
                    if per_interval.len() <= at {
                        per_interval.resize(at + 1, 0);
                    }
                    per_interval[at] += 1;
                }
                intended.merge(&part);
            }
        }
        let proof = intended.summary(&offer, &plan.thresholds);
        Some(Planned { whole, window, per_interval, proof })
    }

    /// The proof of a run that sent these arrivals as `found` says: the figures of how the sends
    /// were distributed, and of when those requests were due, are taken from it; all else, and what
    /// follows from them, is computed.
    pub(super) fn proof_with_sends_of(
        &self,
        found: &ArrivalProof,
        bounds: &Thresholds,
    ) -> ArrivalProof {
        let mut proof = self.proof.clone();
        for (dispersion, found) in proof.dispersion.iter_mut().zip(&found.dispersion) {
            (dispersion.due, dispersion.sent.value) = (found.due, found.sent.value);
        }
        proof.gaps_distance.value = found.gaps_distance.value;
        (proof.lag1_due, proof.lag1_sent.value) = (found.lag1_due, found.lag1_sent.value);
        proof.judge(bounds);
        proof
    }
}

/// The digest of the schedule that a single process would offer, until the plan's end; `None`
/// without a schedule.
pub(super) fn of_one_process(report: &Report) -> Option<Digest> {
    let plan = &report.config.plan;
    let curve = offer(&report.config.plan, &report.whole, &report.per_agent)?.curve;
    let mut whole = Digest::default();
    let schedule = Schedule::new(curve, plan.arrivals, plan.seed, plan.end_ns(), Share::whole());
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
