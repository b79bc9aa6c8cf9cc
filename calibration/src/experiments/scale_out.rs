//! The experiment on scaling out: ever more agents at one rate each, until the target is the bound;
//! the control that proves whose bound it was; and the ceiling of all agents together.

use engine::report::Report;
use engine::sys::placement;
use serde::Serialize;

use super::ceiling::{CeilingFigures, busiest_percent};
use crate::lab::plot::{Axis, Line, Scale, lines};
use crate::lab::{Extra, Lab, LabError, Measured, Plot, Server};
use crate::truth::DEVIATIONS;

/// The agents.
const AGENTS: [&str; 5] = ["a", "b", "c", "d", "e"];
/// How far a capacity may be off, as a share: the target answers a little late.
const OFF: f64 = 0.01;

#[derive(Debug, Serialize)]
struct Figures {
    capacity_per_s: f64,
    one: Step,
    three: Step,
    five: Step,
    control: Step,
    merge_difference: u64,
    ceiling: CeilingFigures,
}

/// Some agents before a target.
#[derive(Debug, Serialize)]
struct Step {
    agents: usize,
    planned_per_s: f64,
    sent_per_s: f64,
    answered_per_s: f64,
    expected_per_s: f64,
    expected_min_per_s: f64,
    expected_max_per_s: f64,
    errors: u64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// The mean by the queue's formula where there is a steady one; and as measured.
    mean_by_formula_ms: Option<f64>,
    mean_ms: Option<f64>,
    in_flight: f64,
    busy_percent: f64,
    per_agent_per_s: Vec<f64>,
    #[serde(skip)]
    difference: u64,
}

/// Makes its runs, and computes its figures.
pub(super) fn measure(lab: &mut Lab) -> Result<Measured, LabError> {
    let each = lab.setting("rate_per_agent")?;
    let service_us = lab.setting("service_us")?;
    let capacity = 1e6 / service_us;
    let (allowed, count) = (placement::allowed_cores(), AGENTS.len());
    let mut agents = Vec::new();
    for (name, core) in AGENTS.into_iter().zip(cores_of_agents(&allowed, count)) {
        agents.push(lab.agent_with(name, &Extra::flags([("cores", core.to_string())]))?);
    }
    let step = |lab: &mut Lab, run: &str, target: &str, count: usize, capacity: f64| {
        let target = lab.target(target)?;
        let report = lab.run(run, &target.url, &with_agents(&agents[..count]))?;
        target.stop()?;
        Ok::<Step, LabError>(Step::of(&report, each * count as f64, capacity, service_us))
    };
    let one = step(lab, "one", "serial", 1, capacity)?;
    let three = step(lab, "three", "serial", 3, capacity)?;
    let five = step(lab, "five", "serial", count, capacity)?;
    let control = step(lab, "five-on-null", "null", count, f64::INFINITY)?;
    let target = lab.target("null")?;
    let document = lab.ceiling("ceiling", &target.url, &with_agents(&agents))?;
    target.stop()?;
    for agent in agents {
        agent.stop()?;
    }
    let steps = [&one, &three, &five, &control];
    let merge_difference = steps.iter().map(|step| step.difference).sum();
    let ceiling = CeilingFigures::of(&document);
    let plots = vec![plot([&one, &three, &five], capacity)?];
    let figures =
        Figures { capacity_per_s: capacity, one, three, five, control, merge_difference, ceiling };
    Ok(Measured::new(&figures, plots))
}

/// What is offered and what is answered by the number of agents.
fn plot(steps: [&Step; 3], capacity_per_s: f64) -> Result<Plot, LabError> {
    let points = |per_s: &dyn Fn(&Step) -> f64| -> Vec<(f64, f64)> {
        steps.map(|step| (step.agents as f64, per_s(step))).to_vec()
    };
    let of_lines = [
        Line { name: "offered", points: points(&|step| step.planned_per_s), dashed: false },
        Line { name: "answered", points: points(&|step| step.answered_per_s), dashed: false },
        Line { name: "capacity of the target", points: points(&|_| capacity_per_s), dashed: true },
    ];
    let x = Axis { name: "agents", scale: Scale::Linear };
    let y = Axis { name: "requests per second", scale: Scale::Linear };
    let title = "load and answers by the number of agents";
    lines("agents.svg", title, x, y, &of_lines)
}

/// The flag that names these agents.
fn with_agents(agents: &[Server]) -> Extra {
    let addresses: Vec<String> = agents.iter().map(|agent| agent.address.to_string()).collect();
    Extra::flags([("agents", addresses.join(","))])
}

/// A core for each agent: of those allowed all but the first, which the target has, in turn.
fn cores_of_agents(allowed: &[usize], agents: usize) -> Vec<usize> {
    let cores = if allowed.len() < 2 { allowed } else { &allowed[1..] };
    cores.iter().copied().cycle().take(agents).collect()
}

impl Step {
    fn of(report: &Report, planned_per_s: f64, capacity_per_s: f64, service_us: f64) -> Step {
        let whole = &report.whole;
        let window_s = report.config.window_s();
        let (min, expected, max) = expected(planned_per_s, capacity_per_s, window_s);
        let sent = report.per_agent.iter().map(|agent| agent.part.counts.sent).sum::<u64>();
        let counts = &whole.counts;
        let load = planned_per_s / capacity_per_s;
        let ms = |us: f64| us / 1e3;
        Step {
            agents: report.per_agent.len(),
            planned_per_s,
            sent_per_s: whole.rate.sent,
            answered_per_s: answered_per_s(report, planned_per_s < capacity_per_s),
            expected_per_s: expected,
            expected_min_per_s: min,
            expected_max_per_s: max,
            errors: counts.ended_in_error() + counts.unsent,
            p50_ms: whole.corrected.quantile_us(0.5).map(ms),
            p99_ms: whole.corrected.quantile_us(0.99).map(ms),
            mean_by_formula_ms: mean_us(service_us, load).map(ms),
            mean_ms: whole.corrected.mean.map(ms),
            in_flight: report.littles_law.in_flight_mean,
            busy_percent: busiest_percent(report),
            per_agent_per_s: report.per_agent.iter().map(|agent| agent.part.rate.sent).collect(),
            difference: counts.sent.abs_diff(sent),
        }
    }
}

/// Answers per second: of a target that keeps up, those to the window's requests within the window;
/// of one that doesn't, those of the window's second half by their own stamps, since before them it
/// answers requests of the warm-up.
fn answered_per_s(report: &Report, keeps_up: bool) -> f64 {
    if keeps_up {
        return report.whole.rate.answered;
    }
    let intervals = &report.series.intervals;
    let half = &intervals[intervals.len() / 2..];
    let answers: u64 = half.iter().map(|interval| interval.counts.answers).sum();
    let seconds = half.len() as f64 * report.series.interval_s;
    if seconds == 0.0 { 0.0 } else { answers as f64 / seconds }
}

/// What is answered of an offer, per second, in a window of this length: the least, the expected,
/// and the most that chance and a late target explain.
fn expected(offered_per_s: f64, capacity_per_s: f64, window_s: f64) -> (f64, f64, f64) {
    let expected = offered_per_s.min(capacity_per_s);
    let chance = if offered_per_s < capacity_per_s {
        DEVIATIONS * (offered_per_s / window_s).sqrt()
    } else {
        0.0
    };
    (expected * (1.0 - OFF) - chance, expected, expected * (1.0 + OFF) + chance)
}

/// The mean time in a system of one server with a constant service time and Poisson arrivals
/// (Pollaczek and Khinchine), µs; `None` if it never settles.
fn mean_us(service_us: f64, load: f64) -> Option<f64> {
    (0.0 < load && load < 1.0).then(|| service_us * (1.0 + load / (2.0 * (1.0 - load))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_answers_what_is_offered_up_to_its_capacity() {
        let (min, middle, max) = expected(1_500.0, 2_000.0, 60.0);
        assert!((middle - 1_500.0).abs() < 1e-9);
        // 1 % and four deviations of a Poisson count of a minute: 4 · √(1,500 / 60) = 20.
        assert!((max - 1_535.0).abs() < 1e-6 && (min - 1_465.0).abs() < 1e-6, "{min} {max}");
        let (min, middle, max) = expected(2_500.0, 2_000.0, 120.0);
        assert_eq!((min, middle, max), (1_980.0, 2_000.0, 2_020.0));
        assert!((expected(2_500.0, f64::INFINITY, 120.0).1 - 2_500.0).abs() < 1e-9);
    }

    #[test]
    fn a_queue_has_its_mean_until_it_is_full() {
        assert!(mean_us(500.0, 0.75).is_some_and(|us| (us - 1_250.0).abs() < 1e-9));
        assert!(mean_us(500.0, 0.25).is_some_and(|us| (us - 583.333).abs() < 0.001));
        assert_eq!((mean_us(500.0, 1.25), mean_us(500.0, 0.0)), (None, None));
    }

    #[test]
    fn agents_share_the_cores_that_the_target_leaves() {
        assert_eq!(cores_of_agents(&[0, 1], 3), [1, 1, 1]);
        assert_eq!(cores_of_agents(&[0, 1, 2, 3], 5), [1, 2, 3, 1, 2]);
        assert_eq!(cores_of_agents(&[7], 2), [7, 7]);
    }
}
