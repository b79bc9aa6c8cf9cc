//! Sanity checks before any other: numbers of a plausible size, a plan that can be run, a series
//! that can be decoded.
//!
//! All other checks compute with what is checked here, so they run only if these pass.

use hdrhistogram::Histogram;
use plan::Plan;
use plan::flatten::{flatten, value_text};
use record::series::{SLOTS_MAX, interval_ns_of};
use report::merge::schedule_version;
use report::{Report, SCHEMA};
use serde_json::Value;
use stats::distribution::INTERVAL_DIGITS;
use stats::pieces::Pieces;
use units::{CoreList, SECOND_NS, seconds_to_ns};

use super::distribution::{NUMBER_MAX, decode};
use super::finding::{Finding, is_close, summed_up};
use super::unsound::Unsound;

/// The series of a sound report, decoded.
pub(super) struct DecodedSeries {
    /// Length of an interval, ns.
    pub(super) interval_ns: u64,
    /// The latencies of each interval.
    pub(super) latencies: Pieces<Histogram<u64>>,
}

/// Checks what must hold before any number of the report is used; returns the decoded series if all
/// of it holds.
pub(super) fn sound(report: &Report) -> (Vec<Finding>, Option<DecodedSeries>) {
    let mut findings = vec![Finding::equal("schema", SCHEMA, report.schema)];
    findings.push(version(report));
    findings.extend(summed_up("numbers that a run can have", numbers(report)));
    let agents = report.per_agent.len() + report.agent_lost.len();
    findings.push(Finding::new("agents", "at least one", agents, 0 < agents));
    findings.push(plan(report));
    findings.push(cores(report));
    if findings.iter().any(|finding| !finding.ok) {
        return (findings, None);
    }
    let decoded = decoded(report);
    let readable = decoded.as_ref().err().map_or("readable".to_owned(), Unsound::to_string);
    findings.push(Finding::equal("series", "readable".to_owned(), readable));
    (findings, decoded.ok())
}

fn numbers(report: &Report) -> Vec<Finding> {
    // The plan has bounds of its own, and the environment isn't used in computations.
    let own = |path: &str| {
        let of_agent = path.strip_prefix("per_agent.").and_then(|rest| rest.split_once('.'));
        let path = of_agent.map_or(path, |(_, path)| path);
        !path.starts_with("config.") && !path.starts_with("environment.")
    };
    let check = |(path, leaf): (String, Value)| {
        let Value::Number(number) = &leaf else { return None };
        // JSON has no number that isn't finite.
        let ok = number.is_f64() || number.as_u64().is_some_and(|number| number <= NUMBER_MAX);
        Some(Finding::new(path, format!("at most {NUMBER_MAX}"), value_text(&leaf), ok))
    };
    flatten(report).into_iter().filter(|(path, _)| own(path)).filter_map(check).collect()
}

/// The plan is complete, and could be run as it is.
pub(super) fn plan(report: &Report) -> Finding {
    let plan = &report.config.plan;
    let completed = match plan.cores.as_ref().map(CoreList::as_slice) {
        // The cores are the agents', and don't affect anything else here.
        None if report.is_joint() => plan
            .clone()
            .complete(&[0])
            .map(|placed| Plan { cores: None, ..placed })
            .map_err(|error| error.to_string()),
        None | Some([]) => Err("it names no cores".to_owned()),
        Some(cores) => plan.clone().complete(cores).map_err(|error| error.to_string()),
    };
    let found = match completed {
        Ok(completed) if completed == *plan => "complete".to_owned(),
        Ok(_) => "not complete".to_owned(),
        Err(problem) => problem,
    };
    Finding::equal("plan", "complete".to_owned(), found)
}

/// The arrivals have the version that is computed here.
fn version(report: &Report) -> Finding {
    let text = |version: Option<u32>| version.map_or("none".to_owned(), |it| it.to_string());
    let expected = schedule_version(&report.config.plan);
    Finding::equal("schedule_version", text(expected), text(report.config.schedule_version))
}

/// One shard on each of the plan's cores; with several agents, each has its own.
pub(super) fn cores(report: &Report) -> Finding {
    let shards: Vec<usize> = report.generator.shards.iter().map(|shard| shard.core).collect();
    if report.is_joint() {
        let agents: usize = report.per_agent.iter().map(|agent| agent.generator.shards.len()).sum();
        let some = report.per_agent.iter().all(|agent| !agent.generator.shards.is_empty());
        let ok = some && agents == shards.len();
        return Finding::new("generator.shards: of the agents", agents, shards.len(), ok);
    }
    let planned = report.config.plan.cores.clone().unwrap_or_default();
    let found = CoreList::new(shards.clone());
    let ok = planned == found && shards.len() == planned.len();
    Finding::new("generator.shards: cores", planned, found, ok)
}

fn decoded(report: &Report) -> Result<DecodedSeries, Unsound> {
    let series = &report.series;
    let interval_ns = seconds_to_ns(series.interval_s);
    // An unpaced user may run slightly past the window's end, for which the last interval may just
    // lack room.
    let plan = &report.config.plan;
    let first_ns = interval_ns_of(plan.duration.0);
    let is_length = match plan.ends_by_count() {
        false => [first_ns, 2 * first_ns].contains(&interval_ns),
        // It doubled as the run went on: as often as its last event required.
        true => {
            let until_ns = seconds_to_ns(report.config.schedule_until).min(plan.end_ns());
            let longest_ns = 2 * interval_ns_of(until_ns.saturating_sub(plan.warmup.0));
            interval_ns <= longest_ns
                && interval_ns_of(interval_ns * SLOTS_MAX as u64) == interval_ns
        }
    };
    if !is_length || !is_close(interval_ns as f64 / SECOND_NS as f64, series.interval_s) {
        return Err(Unsound::IntervalLength(series.interval_s));
    }
    if SLOTS_MAX < series.intervals.len() {
        return Err(Unsound::Intervals(series.intervals.len()));
    }
    let histograms: Vec<Histogram<u64>> = series
        .intervals
        .iter()
        .enumerate()
        .map(|(at, interval)| {
            decode(&interval.histogram, INTERVAL_DIGITS)
                .map_err(|problem| Unsound::Interval { at, problem: Box::new(problem) })
        })
        .collect::<Result<_, Unsound>>()?;
    let latencies = Pieces::new(histograms, series.interval_s).lasting(report.config.window_s());
    Ok(DecodedSeries { interval_ns, latencies })
}
