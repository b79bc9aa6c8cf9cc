//! From shards' numbers to the report: adds them up, asserts that the sums add up, and lays out the
//! document.

use hdrhistogram::Histogram;

use crate::load::schedule;
use crate::plan::{Model, Plan};
use crate::record::littles_law::InFlightIntegral;
use crate::record::outcome::UnsentReason;
use crate::record::recorder::Recorder;
use crate::record::series::Series;
use crate::record::times::Times;
use crate::report::calibration::{Calibrated, CalibratedOf, HeldAgainst};
use crate::report::collected::{AgentRun, Collected, CollectedHead, RunFacts};
use crate::report::profile::{Profile, Taken};
use crate::report::rules::judge;
use crate::report::slo::judge::Figures;
use crate::report::verdict::{Level, Verdict};
use crate::report::{
    AgentPart, ClientPart, ClientShare, Config, DistributionPart, Generator, LittlesLaw, Part,
    Rates, Report, ResponseStamps, SCHEMA, SeriesPart, Successes,
};
use crate::stats::arrival_proof::{ArrivalProof, Offer};
use crate::stats::distribution::Distribution;
use crate::stats::interval::dependent;
use crate::stats::stationarity::{Stationarity, stationarity};
use crate::sys::units::{Rate, SECOND_NS};

/// The distributions of a whole run, not yet laid out.
#[derive(Clone, Debug)]
pub struct Measured {
    /// `received − sent`.
    pub naive: Distribution,
    /// `received − intended`.
    pub corrected: Distribution,
    /// Sent → left the host, of the requests of a sample.
    pub send_path: Distribution,
    /// Received → handled, of responses that the kernel stamped.
    pub receive_lateness: Distribution,
    /// The run over time.
    pub series: Series,
}

/// The report of a run on these agents.
pub fn report(agents: &[AgentRun], facts: &RunFacts) -> (Report, Measured) {
    let (agent, others) = agents.split_first().expect("a run is on at least one agent");
    assert!(others.is_empty(), "the reports of several agents are not merged here");
    let Collected { head, shards } = agent.collected.clone();
    let CollectedHead { plan, address, environment, machine, until_ns, samples, .. } = head;
    let interrupted = facts.stopped || head.interrupted;
    let plan = plan.into_plan();
    let (first, others) = shards.split_first().expect("a run has at least one shard");
    let mut recorder = first.recorder.clone();
    let mut digest = first.digest;
    recorder.counts.assert_sums();
    for shard in others {
        shard.recorder.counts.assert_sums();
        recorder.merge(&shard.recorder);
        digest.merge(shard.digest);
    }
    let WindowFigures { part, stationarity, series } = window_figures(&recorder, &plan, until_ns);
    let times = recorder.times.distributions();
    let slo = plan.slo.as_ref().map(|slo| {
        let (corrected, batches) = (&times.corrected, &recorder.series.batches()[..]);
        Figures { part: &part, corrected, batches, series: &series }.judge(slo)
    });
    let listed = plan.model() == Model::Open && digest.estimated() == 0;
    let littles_law = littles_law(&recorder.in_flight, &plan);
    let mut report = Report {
        verdict: Verdict { level: Level::Valid, reasons: Vec::new() },
        schema: SCHEMA,
        interrupted,
        slo,
        config: Config {
            target_address: address.to_string(),
            schedule_version: schedule_version(&plan),
            schedule_digest: listed.then(|| digest.hex()),
            schedule_arrivals: listed.then(|| digest.arrivals()),
            schedule_estimated: Some(digest.estimated()).filter(|estimated| 0 < *estimated),
            schedule_until: until_ns as f64 / SECOND_NS as f64,
            corrected_by: corrected_by(&plan).to_owned(),
            plan,
        },
        environment,
        whole: part.clone(),
        generator: Generator {
            shards: shards.iter().map(|shard| shard.stats.clone()).collect(),
            machine,
        },
        arrivals_line: None,
        arrivals: None,
        littles_law,
        stationarity,
        samples,
        profile: None,
        calibration: None,
        series,
        per_agent: vec![AgentPart { name: agent.name.clone(), part: part.clone() }],
        merged: part,
    };
    report.arrivals = recorder.arrivals.as_ref().and_then(|arrivals| {
        Some(arrivals.summary(&offer(&report, until_ns)?, &report.config.plan.thresholds))
    });
    report.arrivals_line = report.arrivals.as_ref().map(ArrivalProof::line);
    report.verdict = judge(&report);
    (
        report,
        Measured {
            naive: times.naive,
            corrected: times.corrected,
            send_path: recorder.times.send_path,
            receive_lateness: recorder.times.receive_lateness,
            series: recorder.series,
        },
    )
}

fn littles_law(in_flight: &InFlightIntegral, plan: &Plan) -> LittlesLaw {
    let law = LittlesLaw::new(
        in_flight.in_flight_mean(),
        in_flight.throughput_times_latency(),
        in_flight.at_target_mean(),
    );
    match plan.unpaced_users() {
        Some(users) => law.of_users(users, in_flight.queued_mean()),
        None => law,
    }
}

/// Adds a profile to a report, and judges it again.
pub fn add_profile(report: &mut Report, taken: Taken) {
    report.profile = Some(Profile::new(taken, report.whole.rate.answered));
    report.verdict = judge(report);
}

/// Holds a run against a calibration of its machine, and judges it again.
///
/// # Panics
/// If the calibration is of something else.
pub fn hold_against(report: &mut Report, calibrated: Calibrated) {
    let of = CalibratedOf::of_run(&report.config.plan, &report.environment);
    assert_eq!(of, calibrated.of, "a calibration of something else says nothing of this run");
    report.calibration = Some(held_against(report, calibrated));
    report.verdict = judge(report);
}

/// What follows of a calibration for a run.
pub(crate) fn held_against(report: &Report, calibrated: Calibrated) -> HeldAgainst {
    let Part { rate, corrected, .. } = &report.whole;
    HeldAgainst::new(calibrated, &report.config.plan, rate.sent, corrected.quantile_us(0.5))
}

/// The version of the schedule that a plan's arrivals are of.
pub(crate) fn schedule_version(plan: &Plan) -> Option<u32> {
    (plan.model == Some(Model::Open)).then_some(schedule::VERSION)
}

/// What the corrected distribution of a plan is corrected by.
pub(crate) fn corrected_by(plan: &Plan) -> &'static str {
    if plan.backfill.is_off() { "intended" } else { "backfill" }
}

/// The figures of the recorded window, as the report shows them.
#[derive(Clone, Debug)]
pub(crate) struct WindowFigures {
    /// Counts, rates and distributions.
    pub(crate) part: Part,
    /// The first quarter of the window against the last.
    pub(crate) stationarity: Option<Stationarity>,
    /// The run over time.
    pub(crate) series: SeriesPart,
}

/// Lays out the numbers of a recorder, merged over all shards, whose window ended at `until_ns`.
pub(crate) fn window_figures(recorder: &Recorder, plan: &Plan, until_ns: u64) -> WindowFigures {
    let window_ns = until_ns.saturating_sub(plan.warmup.0);
    let batches = recorder.series.batches();
    WindowFigures {
        part: part(recorder, plan, window_ns, &batches),
        stationarity: stationarity(&recorder.series.latencies(), &batches, &plan.thresholds),
        series: SeriesPart::new(&recorder.series),
    }
}

fn part(recorder: &Recorder, plan: &Plan, window_ns: u64, batches: &[Histogram<u64>]) -> Part {
    let counts = recorder.counts.clone();
    counts.assert_sums();
    let times = recorder.times.distributions();
    assert_eq!(
        times.naive.count(),
        counts.sent - counts.failed,
        "each request sent has a naive latency unless it failed"
    );
    if plan.backfill.is_off() {
        assert_eq!(
            times.corrected.count(),
            counts.intended - counts.failed - counts.unsent_reasons.of(UnsentReason::Dropped),
            "each request has a corrected latency unless it failed or was dropped"
        );
    }
    assert_eq!(times.pacer_lateness.count(), counts.sent, "each request sent was noticed");
    assert_eq!(times.connection_wait.count(), counts.sent, "each request sent had a connection");
    let per_second = |count: u64| {
        if window_ns == 0 { 0.0 } else { count as f64 * SECOND_NS as f64 / window_ns as f64 }
    };
    // Those after the window's end are in no interval.
    let answered_in_window = recorder.series.slots().iter().map(|slot| slot.counts.answers).sum();
    let dependent = dependent(batches);
    let alone = |distribution: &Distribution| DistributionPart::alone(distribution, dependent);
    let Times { successes, .. } = &recorder.times;
    let (success_naive, success_corrected) = (successes.naive(), successes.corrected());
    let differ = success_corrected.count() != times.naive.count();
    let corrected = if plan.backfill.is_off() {
        DistributionPart::new(&times.corrected, batches)
    } else {
        // Back-filled values follow from each other, and no piece of the run holds them.
        DistributionPart::alone(&times.corrected, Some(true))
    };
    Part {
        client_share: client_share(&recorder.times, plan, &times.corrected, &corrected),
        rate: Rates {
            target: plan.rate.map(Rate::per_second),
            intended: per_second(counts.intended),
            sent: per_second(counts.sent_in_window),
            answered: per_second(answered_in_window),
        },
        naive: alone(&times.naive),
        corrected,
        pacer_lateness: alone(&times.pacer_lateness),
        connection_wait: alone(&times.connection_wait),
        send_path: alone(&recorder.times.send_path),
        receive_lateness: alone(&recorder.times.receive_lateness),
        connect_time: alone(&recorder.times.connect_time),
        stamps: ResponseStamps::new(plan.stamps(), &counts),
        successes: differ.then(|| Successes {
            naive: alone(&success_naive),
            corrected: alone(&success_corrected),
        }),
        counts,
    }
}

/// The generator's own part of the latencies, at the quantiles that the report states.
fn client_share(
    times: &Times,
    plan: &Plan,
    corrected: &Distribution,
    stated: &DistributionPart,
) -> Option<ClientShare> {
    if !plan.backfill.is_off() {
        return None;
    }
    let at = |q: f64| {
        Some(ClientPart {
            corrected: stated.quantile_us(q)?,
            added: times.added.mean_at_ns(corrected.quantile_ns(q)?)? / 1e3,
            when_handled: times.corrected_when_handled.quantile_ns(q)? as f64 / 1e3,
        })
    };
    let added_mean = times.added.mean_ns()? / 1e3;
    Some(ClientShare { added_mean, p50: at(0.5)?, p99: at(0.99), p999: at(0.999) })
}

/// What the report says of its arrivals, for their proof to be held against; `None` without a
/// schedule, or where its end is known by its number of arrivals alone.
pub(crate) fn offer(report: &Report, until_ns: u64) -> Option<Offer> {
    let (plan, counts) = (&report.config.plan, &report.whole.counts);
    report.config.schedule_digest.as_ref()?;
    Some(Offer {
        rate: plan.rate.filter(|_| plan.model() == Model::Open)?,
        arrivals: plan.arrivals,
        shards: report.generator.shards.len(),
        until_ns,
        intended: counts.intended,
        sent_in_window: counts.sent_in_window,
        unconnected: counts.unconnected,
        at_the_edge: report.at_the_edge(),
    })
}
