//! Rules that compare agents: whether one was lost, started late, or saw other latencies than the
//! rest.
//!
//! Agents differ if chance can't explain it: a p99 above 1.2 times the lowest only counts if the
//! two confidence intervals don't overlap, at 5 % divided by the number of agents, since the lowest
//! of many is compared with all. So of the runs whose agents see the same, at most one in twenty
//! calls them different.

use load::share;
use record::series::INTERVAL_FIRST_NS;
use stats::percentiles::Percentile;
use stats::widened::widened;
use units::us_to_ns;

use super::rule::Found;
use super::share::percent;
use crate::figures::time;
use crate::{AgentPart, Report};

/// The ratio of two agents' corrected p99 above which they differ: they see different targets, or
/// the slower one is itself the cause. Paths within one network differ by less; machines of
/// different kinds differ by more.
const DIFFERENT: f64 = 1.2;
/// How many agents the evidence lists besides the first.
pub(super) const OTHERS_SHOWN: usize = 3;

/// An agent was lost: its share of the load is missing, and its measurements are in no number.
pub(super) fn agent_lost(report: &Report) -> Option<Found> {
    let first = report.agent_lost.first()?;
    let figure = share::together(report.agent_lost.iter().map(|lost| &lost.share));
    let shown = report.agent_lost.iter().take(1 + OTHERS_SHOWN).map(|lost| {
        let last = match lost.at_s {
            0.0 => "nothing of it was collected".to_owned(),
            at_s => format!("it was last heard from {at_s:.3} s after the start"),
        };
        let (name, load) = (&lost.name, percent(lost.load));
        format!("agent {name} was lost, and with it {load} of the load; {last}")
    });
    let mut evidence = shown.collect::<Vec<String>>().join("; ");
    if report.agent_lost.len() > 1 + OTHERS_SHOWN {
        evidence.push_str(&and_more(report.agent_lost.len() - 1 - OTHERS_SHOWN));
    }
    if 1 < report.agent_lost.len() {
        evidence.push_str(&format!("; {} of the load in all", percent(figure)));
    }
    Some(Found::invalid(figure, 0.0, evidence).on_agent(&first.name))
}

/// The number of further agents, which the evidence doesn't list.
fn and_more(agents: usize) -> String {
    let plural = if agents == 1 { "" } else { "s" };
    format!("; and {agents} more agent{plural}")
}

/// An agent's p99 is far above another's, by more than chance explains.
pub(super) fn agents_differ(report: &Report) -> Option<Found> {
    let mut all: Vec<P99<'_>> = report.per_agent.iter().filter_map(P99::of).collect();
    // The stable sort keeps the agents' order among equals.
    all.sort_by(|one, other| other.us.total_cmp(&one.us));
    let agents = all.len();
    let fastest = all.pop()?;
    let low = fastest.us;
    all.retain(|slow| DIFFERENT * low < slow.us && slow.is_apart_from(&fastest, agents));
    let (slowest, others) = all.split_first()?;
    let high = slowest.us;
    let times = |us: f64| if low == 0.0 { f64::INFINITY } else { us / low };
    // The ratio to a p99 of 0 is infinite, which no document can express.
    let figure = times(high).min(f64::MAX);
    let mut evidence = format!(
        "corrected p99 is {} on agent {} and {} on agent {}, {:.2} times as much; the limit is \
         {DIFFERENT}",
        time(high),
        slowest.agent.name,
        time(low),
        fastest.agent.name,
        times(high)
    );
    for P99 { agent, us, .. } in others.iter().take(OTHERS_SHOWN) {
        evidence.push_str(&format!("; also: {} on agent {}", time(*us), agent.name));
    }
    if OTHERS_SHOWN < others.len() {
        evidence.push_str(&and_more(others.len() - OTHERS_SHOWN));
    }
    Some(Found::suspect(figure, DIFFERENT, evidence).on_agent(&slowest.agent.name))
}

/// An agent's corrected p99, µs.
struct P99<'a> {
    agent: &'a AgentPart,
    us: f64,
}

impl P99<'_> {
    fn of(agent: &AgentPart) -> Option<P99<'_>> {
        let Percentile { value, .. } = *agent.part.corrected.percentiles.at(0.99);
        Some(P99 { agent, us: value? })
    }

    /// True if it exceeds the lowest by more than chance explains for this many agents: by
    /// confidence intervals at 5 % divided by their number (Bonferroni). If too few requests leave
    /// these unknown, as does one outage that all agents saw, by those of the highest lower
    /// percentile with both.
    fn is_apart_from(&self, lowest: &P99<'_>, agents: usize) -> bool {
        let both = |q| Some((self.ends(q, agents)?[0]?, lowest.ends(q, agents)?[1]?));
        [0.99, 0.9, 0.5].into_iter().find_map(both).is_some_and(|(from_ns, to_ns)| to_ns < from_ns)
    }

    /// The ends, ns, of the interval of quantile `q` at 5 % divided by this many agents.
    fn ends(&self, q: f64, agents: usize) -> Option<[Option<u64>; 2]> {
        let corrected = &self.agent.part.corrected;
        let found = corrected.percentiles.at(q).interval?.map(us_to_ns);
        let values = corrected.decode_histogram().ok()?;
        let tail = 0.025 / agents as f64;
        Some(widened(&values, q, found, corrected.percentiles.method, tail))
    }
}

/// The agents' loads were apart in time, by their first sends and the errors of their clocks.
pub(super) fn start_skew(report: &Report) -> Option<Found> {
    let threshold = INTERVAL_FIRST_NS as f64 / 1e3;
    if report.per_agent.len() < 2 {
        return None;
    }
    let off_us = |agent: &AgentPart| {
        let clock_us = agent.synchronization.map_or(0.0, |clock| clock.error_ns() as f64 / 1e3);
        (agent.start_skew_us.unwrap_or(0.0).abs(), clock_us)
    };
    let all = report.per_agent.iter().map(|agent| (agent, off_us(agent)));
    let sum = |(sent_us, clock_us): (f64, f64)| sent_us + clock_us;
    let worst = all.max_by(|(_, one), (_, other)| sum(*one).total_cmp(&sum(*other)));
    let (agent, off) = worst.filter(|(_, off)| threshold < sum(*off))?;
    let evidence = format!(
        "agent {} sent its first request {:.1} ms after it was due, and its clock was within {:.1} \
         ms of the controller's; the limit is {:.1} ms together",
        agent.name,
        off.0 / 1e3,
        // Rounded up, since it is a bound.
        (off.1 / 100.0).ceil() / 10.0,
        threshold / 1e3
    );
    Some(Found::suspect(sum(off), threshold, evidence).on_agent(&agent.name))
}
