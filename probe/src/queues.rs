//! Servers that exist only as arithmetic, for tests: Poisson arrivals, shards that take time,
//! connections, a queue, some servers, and their faults.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use engine::report::slo::{JudgedObjective, Judgement, Slo};
use engine::report::verdict::{Code, Level};
use engine::report::{ClientPart, ClientShare, Microseconds};
use engine::stats::distribution::{Distribution, VALUE_MAX_NS};
use engine::stats::percentiles::Percentiles;
use engine::stats::pieces::Pieces;
use engine::stats::ratio::beyond_interval;
use engine::sys::units::{Nanos, SECOND_NS};
use hdrhistogram::Histogram;
use rand_distr::{Distribution as _, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;

use crate::backlog::{Backlog, Interval};
use crate::figures::{Figures, ShardTime};
use crate::search::SearchPlan;
use crate::step::{Latency, Reason, Step, Trust, errors_interval};
use crate::within::Within;
use crate::{Ask, Change};

/// Load before the window, ns.
const WARMUP_NS: u64 = 2 * SECOND_NS;
/// How long after the window responses are awaited, ns.
const DRAIN_NS: u64 = 10 * SECOND_NS;
/// The answer time of requests that are never answered.
const NEVER_NS: u64 = u64::MAX / 4;
/// The rest before each run, seconds.
const REST_S: f64 = 1.0;
/// Intervals per second of the series.
const INTERVALS: u64 = 8;
/// Length of one, s.
const EACH_S: f64 = 1.0 / INTERVALS as f64;

/// Enough time for anything.
pub(crate) const AMPLE: Within =
    Within { within: Nanos::from_secs(1_000_000), around: Nanos::from_secs(1) };

/// A search from one rate to another, with windows of this length.
pub(crate) fn search_plan(first: &str, rate_max: &str, seconds: u64) -> SearchPlan {
    SearchPlan {
        first: first.parse().expect("a rate"),
        rate_max: rate_max.parse().expect("a rate"),
        tolerance: 0.05,
        repeats: 1,
        steps_max: 60,
        duration: Nanos::from_secs(seconds),
        seed: 1,
        time: AMPLE,
    }
}

/// First come, first served.
#[derive(Clone)]
pub(crate) struct Queue {
    /// Time for which a request occupies a server, ns.
    pub(crate) service_ns: u64,
    /// True if that time is the mean of an exponential distribution.
    pub(crate) exponential: bool,
    /// Servers behind one queue.
    pub(crate) servers: usize,
    /// The additional time of each response, ns.
    pub(crate) base_ns: u64,
    /// The bound on p99, if there is one.
    pub(crate) slo_ms: Option<f64>,
    /// Shards in front of it, unless a run asks for another number.
    pub(crate) shards: usize,
    /// A shard's time per request, ns.
    pub(crate) shard_ns: u64,
    /// Connections to it, unless a run asks for another number.
    pub(crate) conns: usize,
    /// The period and the length of stalls, in which no server works, ns.
    pub(crate) stall: Option<(u64, u64)>,
    /// Share of the answers whose status is an error.
    pub(crate) bad_status: f64,
    /// When a burst of errors starts and ends, ns since the start of the warm-up: the status of each
    /// answer to a request that comes in it is one.
    pub(crate) bad_burst_ns: Option<(u64, u64)>,
    /// Share of the requests that fail at once.
    pub(crate) refused: f64,
    /// When it disappears, ns since the start of the warm-up: later requests fail.
    pub(crate) gone_ns: Option<u64>,
    /// When it stops answering, on the same clock.
    pub(crate) silent_ns: Option<u64>,
}

/// A run at this rate.
pub(crate) fn asked(rate: &str, seconds: u64) -> Ask {
    let (rate, duration) = (rate.parse().expect("a rate"), Nanos::from_secs(seconds));
    Ask { rate, duration, seed: 1, change: Change::None, rest: Nanos(0) }
}

impl Queue {
    /// One request at a time, in 1 ms, from a shard that costs nothing.
    pub(crate) fn serial_ms() -> Queue {
        Queue {
            service_ns: 1_000_000,
            exponential: false,
            servers: 1,
            base_ns: 0,
            slo_ms: None,
            shards: 1,
            shard_ns: 0,
            conns: 100_000,
            stall: None,
            bad_status: 0.0,
            bad_burst_ns: None,
            refused: 0.0,
            gone_ns: None,
            silent_ns: None,
        }
    }

    /// The result of a run against it.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times in ns")]
    pub(crate) fn run(&self, ask: &Ask) -> Step {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(ask.seed);
        let mut luck = Xoshiro256PlusPlus::seed_from_u64(ask.seed ^ 1);
        let mut chance = |share: f64| -> bool {
            let waited: f64 = Exp1.sample(&mut luck);
            waited < -(1.0 - share).ln()
        };
        let mut exponential = || -> f64 { Exp1.sample(&mut random) };
        let rate = ask.rate.per_second();
        let end_ns = WARMUP_NS + ask.duration.0;
        let shards = if let Change::Cores(cores) = &ask.change { cores.len() } else { self.shards };
        let conns = if let Change::Conns(conns) = ask.change { conns } else { self.conns };
        let mut free_ns = vec![0_u64; self.servers];
        let mut shards_free_ns = vec![0_u64; shards];
        let mut conns_free_ns = BinaryHeap::from(vec![Reverse(0_u64); conns]);
        let (mut requests, mut errors, mut capped, mut sent, mut at_target_ns) =
            (0_u64, 0, 0, 0, 0_u64);
        let (mut sent_of_any, mut answers_of_any) = (0, 0);
        let mut lateness = Distribution::new();
        let (mut due_ns, mut corrected, mut naive) =
            (0.0, Distribution::new(), Distribution::new());
        let histogram = || Histogram::new_with_bounds(1, 60 * SECOND_NS, 2).expect("bounds");
        let windows = (ask.duration.0 * INTERVALS).div_ceil(SECOND_NS) as usize;
        let mut intervals = vec![Interval::default(); windows];
        let mut latencies: Vec<Histogram<u64>> = (0..windows).map(|_| histogram()).collect();
        let place = |at_ns: u64| ((at_ns - WARMUP_NS) * INTERVALS / SECOND_NS) as usize;
        let (given_up_ns, mut last_ns) = (end_ns + DRAIN_NS, 0);
        let mut bad = vec![(0, 0); windows];
        loop {
            due_ns += exponential() / rate * SECOND_NS as f64;
            let arrival_ns = due_ns as u64;
            if end_ns <= arrival_ns {
                break;
            }
            let service_ns =
                self.service_ns as f64 * if self.exponential { exponential() } else { 1.0 };
            let in_window = WARMUP_NS <= arrival_ns;
            requests += u64::from(in_window);
            let shard = shards_free_ns.iter_mut().min().expect("at least one shard");
            *shard = arrival_ns.max(*shard) + self.shard_ns;
            let noticed_ns = *shard;
            if self.gone_ns.is_some_and(|gone_ns| gone_ns <= arrival_ns) || chance(self.refused) {
                if in_window {
                    errors += 1;
                    bad[place(arrival_ns)].0 += 1;
                    bad[place(arrival_ns)].1 += 1;
                }
                continue;
            }
            let Reverse(conn_free_ns) = conns_free_ns.pop().expect("at least one connection");
            let sent_ns = noticed_ns.max(conn_free_ns);
            let server = free_ns.iter_mut().min().expect("at least one server");
            *server = self.works_from(sent_ns.max(*server)) + service_ns as u64;
            let is_answered =
                |done_ns: &u64| self.silent_ns.is_none_or(|silent_ns| *done_ns < silent_ns);
            let done_ns = Some(*server + self.base_ns).filter(is_answered).unwrap_or(NEVER_NS);
            conns_free_ns.push(Reverse(done_ns));
            at_target_ns += done_ns.min(end_ns).saturating_sub(sent_ns.max(WARMUP_NS));
            sent_of_any += u64::from((WARMUP_NS..end_ns).contains(&sent_ns));
            answers_of_any += u64::from((WARMUP_NS..end_ns).contains(&done_ns));
            if !in_window {
                continue;
            }
            capped += u64::from(noticed_ns < conn_free_ns);
            lateness.record(noticed_ns - arrival_ns);
            sent += u64::from(sent_ns < end_ns);
            let in_burst = self
                .bad_burst_ns
                .is_some_and(|(start_ns, end_ns)| (start_ns..end_ns).contains(&arrival_ns));
            let is_bad = u64::from(chance(self.bad_status) || in_burst || done_ns == NEVER_NS);
            errors += is_bad;
            bad[place(arrival_ns)].0 += is_bad;
            bad[place(arrival_ns)].1 += 1;
            intervals[place(arrival_ns)].due += 1.0;
            if done_ns < end_ns {
                intervals[place(done_ns)].answers += 1;
            }
            last_ns = last_ns.max(done_ns);
            let latency_ns = done_ns.min(given_up_ns) - arrival_ns;
            corrected.record(latency_ns);
            naive.record(done_ns.min(given_up_ns).saturating_sub(sent_ns));
            latencies[place(arrival_ns)].record(latency_ns.min(VALUE_MAX_NS)).expect("in range");
        }
        for (interval, latencies) in intervals.iter_mut().zip(&latencies) {
            let median = latencies.value_at_quantile(0.5) as f64 / SECOND_NS as f64;
            interval.latency_s = (!latencies.is_empty()).then_some(median);
        }
        let window_s = ask.duration.as_secs_f64();
        let due: f64 = intervals.iter().map(|interval| interval.due).sum();
        let offered = rate / INTERVALS as f64 * due / requests.max(1) as f64;
        let whole = (ask.duration.0 * INTERVALS / SECOND_NS) as usize;
        let answers: u64 = intervals.iter().map(|interval| interval.answers).sum();
        let latency = |of: &Distribution| Latency {
            unit: Microseconds::Us,
            count: of.count(),
            mean: of.mean_ns().map(|ns| ns / 1e3),
            percentiles: Percentiles::new(of, &Pieces::new(latencies.clone(), EACH_S)),
            max: of.quantile_ns(1.0).map(|ns| ns as f64 / 1e3),
        };
        let slo = self.slo_ms.map(|ms| {
            let bound_ns = (ms * 1e6) as u64;
            let beyond: Vec<(u64, u64)> = latencies
                .iter()
                .map(|piece| (piece.len() - piece.count_between(0, bound_ns), piece.len()))
                .collect();
            let all = beyond.iter().map(|piece| piece.0).sum();
            let beyond = Pieces::new(beyond, EACH_S);
            let own = Pieces::new(latencies.clone(), EACH_S);
            let share = beyond_interval((all, &beyond), (&corrected, &own), (0.99, bound_ns)).ok();
            let p99 = corrected.quantile_ns(0.99).map(|ns| ns as f64 / 1e3);
            judged("p99", ms * 1e3, p99, share)
        });
        let late = &intervals[intervals.len() / 2..];
        let late_answers: u64 = late.iter().map(|interval| interval.answers).sum();
        let busy = (rate * self.shard_ns as f64 / SECOND_NS as f64 / shards as f64).min(1.0);
        let of_shard =
            |core| ShardTime { core, busy, user: busy / 4.0, system: busy, ..ShardTime::default() };
        let figures = Figures {
            throughput_per_s: late_answers as f64 * 2.0 / window_s,
            shards: (0..shards).map(of_shard).collect(),
            steal: Some(0.0),
            conns: conns as u64,
            capped,
            at_target: at_target_ns as f64 / ask.duration.0 as f64,
            ..Figures::default()
        };
        let is_capped = 0.001 < capped as f64 / requests as f64;
        let (code, level) = (Code::CapReached, Level::Suspect);
        let codes = if is_capped { vec![Reason { code, level }] } else { Vec::new() };
        Step {
            rate_per_s: rate,
            duration_s: window_s,
            took_s: (given_up_ns.min(last_ns.max(end_ns)) as f64 / SECOND_NS as f64) + REST_S,
            seed: ask.seed,
            intended_per_s: requests as f64 / window_s,
            sent_per_s: sent_of_any as f64 / window_s,
            sent_due_per_s: sent as f64 / window_s,
            answered_per_s: answers_of_any as f64 / window_s,
            answered_due_per_s: answers as f64 / window_s,
            requests,
            errors,
            errors_interval: errors_interval(errors, requests, &Pieces::new(bad, EACH_S)),
            backlog: Backlog::new(&intervals[..whole], 1.0 / INTERVALS as f64, offered),
            silent_from_s: self
                .silent_ns
                .filter(|silent_ns| *silent_ns < end_ns)
                .map(|silent_ns| silent_ns.saturating_sub(WARMUP_NS) as f64 / SECOND_NS as f64),
            naive: latency(&naive),
            corrected: latency(&corrected),
            pacer_lateness: latency(&lateness),
            client_share: None,
            verdict: Trust {
                level: if is_capped { level } else { Level::Valid },
                codes,
                notes: Vec::new(),
            },
            slo,
            cpu_us_per_request: Some(4.0),
            busy,
            in_flight: figures.at_target,
            figures,
            outcome: None,
        }
    }

    /// When a free server works again.
    fn works_from(&self, at_ns: u64) -> u64 {
        match self.stall {
            Some((every_ns, stall_ns)) if at_ns % every_ns < stall_ns => {
                at_ns - at_ns % every_ns + stall_ns
            }
            _ => at_ns,
        }
    }
}

/// An objective judged as in a report.
fn judged(metric: &str, bound: f64, figure: Option<f64>, beyond: Option<[f64; 2]>) -> Slo {
    let unit = if metric == "errors" { "share" } else { "us" };
    // A percentile is judged by the share.
    let own = figure.filter(|_| !metric.starts_with('p'));
    let (metric, unit) = (metric.to_owned(), unit.to_owned());
    let one = JudgedObjective {
        of: None,
        metric,
        unit,
        bound,
        figure,
        interval: [own; 2],
        needed: None,
        needed_s: None,
        may_lie_above: false,
        beyond: None,
        beyond_interval: beyond,
        judgement: Judgement::Undecided,
    };
    Slo::new(vec![JudgedObjective { judgement: one.judge(), ..one }])
}

/// The step with an objective that has this bound and figure, without doubt, and a generator that
/// added `late_ms` to each request; times in ms.
pub(crate) fn missed_by(step: &Step, metric: &str, bound: f64, figure: f64, late_ms: f64) -> Step {
    let us = if metric == "errors" { 1.0 } else { 1e3 };
    let (bound, figure) = (bound * us, figure * us);
    let share = if figure < bound { 0.0 } else { 1.0 };
    let slo = Some(judged(metric, bound, Some(figure), Some([share; 2])));
    let added = late_ms * 1e3;
    let part = ClientPart { corrected: figure, added, opening: 0.0, when_handled: figure };
    let (p99, p999) = (Some(part.clone()), Some(part.clone()));
    let client_share = Some(ClientShare {
        unit: Microseconds::Us,
        added_mean: added,
        p50: part,
        p90: None,
        p99,
        p999,
    });
    Step { slo, client_share, ..step.clone() }
}

/// `P(W ≤ t)` of M/D/1 with D = 1: Erlang's sum.
fn md1_waits_at_most(t: f64, rho: f64) -> f64 {
    let mut sum = 0.0;
    let mut k = 0.0;
    while k <= t {
        // (ρ(k−t))^k / k!, one factor at a time.
        let mut term = (rho * (t - k)).exp();
        let mut factor = 1.0;
        while factor <= k {
            term *= rho * (k - t) / factor;
            factor += 1.0;
        }
        sum += term;
        k += 1.0;
    }
    (1.0 - rho) * sum
}

/// The highest rate per second of M/D/1 with D = 1 ms at which this share waits at most `wait_ms`.
pub(crate) fn md1_rate(share: f64, wait_ms: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let rho = (low + high) / 2.0;
        if share <= md1_waits_at_most(wait_ms, rho) { low = rho } else { high = rho }
    }
    low * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulation_agrees_with_the_formula() {
        // By hand: no request waits with probability 1 − ρ; at most D with (1 − ρ)·e^ρ.
        assert!((md1_waits_at_most(0.0, 0.8) - 0.2).abs() < 1e-12);
        assert!((md1_waits_at_most(0.999_999, 0.8) - 0.2 * 0.8_f64.exp()).abs() < 1e-5);
        let step = Queue::serial_ms().run(&asked("800", 1_000));
        let p99_ms = step.corrected.percentiles.at(0.99).value.expect("many requests") / 1e3;
        let share = md1_waits_at_most(p99_ms - 1.0, 0.8);
        assert!((share - 0.99).abs() < 1e-3, "{p99_ms} ms has {share}");
    }
}
