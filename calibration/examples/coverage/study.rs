//! Coverage: how often a report's interval contains the true value, and how often `compare` calls a
//! change where there is none, in simulated runs of services with independent or correlated
//! latencies. The runs go through the functions that make a report.

use engine::stats::comparison::{Part, Sample, quantile_ratio, share_difference};
use engine::stats::percentiles::{PERCENTILES, Percentiles};
use engine::stats::pieces::Pieces;
use engine::stats::ratio::{beyond_interval, mean_interval, mean_may_lie_above, share_interval};
use engine::stats::stationarity::stationarity;
use hdrhistogram::Histogram;
use probe::compare::{CONFIDENCE, Change, MARGIN, called, errors};

use super::process::{Process, Run};

/// The services of the study.
pub const PROCESSES: [Process; 21] = [
    Process::Independent,
    Process::Pareto { tail: 2.5 },
    Process::Pareto { tail: 1.5 },
    Process::Queue { load: 0.5 },
    Process::Queue { load: 0.7 },
    Process::Queue { load: 0.8 },
    Process::Queue { load: 0.9 },
    Process::Queue { load: 0.95 },
    Process::Correlated { over_s: 0.1, by: 0.3 },
    Process::Correlated { over_s: 0.3, by: 0.3 },
    Process::Correlated { over_s: 1.0, by: 0.3 },
    Process::Correlated { over_s: 2.0, by: 0.3 },
    Process::Correlated { over_s: 5.0, by: 0.3 },
    Process::Correlated { over_s: 10.0, by: 0.3 },
    Process::Correlated { over_s: 2.0, by: 0.1 },
    Process::Correlated { over_s: 10.0, by: 0.1 },
    Process::Stalls { every_s: 1.0, long_s: 0.05 },
    Process::Stalls { every_s: 2.0, long_s: 0.1 },
    Process::Stalls { every_s: 5.0, long_s: 0.2 },
    Process::Stalls { every_s: 10.0, long_s: 0.3 },
    Process::Stalls { every_s: 20.0, long_s: 0.5 },
];
/// The figures of a report that have an interval here.
pub const FIGURES: [&str; 6] = ["p50", "p90", "p99", "p99.9", "mean", "errors"];
/// Percentiles with an objective that the service misses: the index among the figures, and the
/// quantile.
pub const OBJECTIVES: [(usize, f64); 2] = [(1, 0.9), (2, 0.99)];
/// The objective's bound as a share of the true percentile.
const BOUND: f64 = 0.98;
/// The part of the latencies that may drift, as in a plan by default.
const DRIFT: f64 = 0.1;
/// How often an event must occur in a window for its spread to be known.
pub const TIMES_MIN: f64 = 10.0;

/// Coverage of one figure's intervals over many runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Runs.
    pub runs: u64,
    /// Runs that state an interval.
    pub stated: u64,
    /// Runs whose interval contains the true value.
    pub holds: u64,
}

impl Coverage {
    fn count(&mut self, truth: f64, interval: Option<[f64; 2]>) {
        let holds = |[low, high]: [f64; 2]| (low..=high).contains(&truth);
        self.runs += 1;
        self.stated += u64::from(interval.is_some());
        self.holds += u64::from(interval.is_some_and(holds));
    }

    /// The share of all runs whose stated interval misses the true value.
    pub fn wrong(self) -> f64 {
        (self.stated - self.holds) as f64 / self.runs as f64
    }

    /// The share of all runs that state an interval.
    pub fn stated_share(self) -> f64 {
        self.stated as f64 / self.runs as f64
    }

    /// Whether a longer window states fewer intervals, beyond what chance makes of so many runs
    /// once in 700 times.
    pub fn states_more_than(self, longer: Coverage) -> bool {
        let variance =
            |of: Coverage| of.stated_share() * (1.0 - of.stated_share()) / of.runs as f64;
        let chance = 3.0 * (variance(self) + variance(longer)).sqrt();
        chance < self.stated_share() - longer.stated_share()
    }
}

/// Results of a service's runs of one length.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// For each of p50, p90, p99, p99.9, the mean and the share of errors.
    pub figures: [Coverage; FIGURES.len()],
    /// Pairs of runs.
    pub pairs: u64,
    /// Pairs in which a comparison calls a change.
    pub called: u64,
    /// Runs.
    pub runs: u64,
    /// Those that find each of the false objectives met.
    pub met: [u64; OBJECTIVES.len()],
    /// Those that find that latency drifts.
    pub drifts: u64,
}

/// The true figures of a service: percentiles and mean in µs, the share of errors; from a run of
/// this length, unless a formula gives them.
pub fn truth(process: Process, seconds: u64) -> [f64; FIGURES.len()] {
    let run = process.run(seconds, u64::MAX);
    let mut truth = [0.0; FIGURES.len()];
    for (of, q) in truth.iter_mut().zip([0.5, 0.9, 0.99, 0.999]) {
        *of = run.whole.quantile_ns(q).expect("values") as f64 / 1e3;
    }
    truth[4] = process.mean_us().or(run.whole.mean_ns().map(|ns| ns / 1e3)).expect("values");
    truth[5] = run.failed as f64 / run.whole.count() as f64;
    truth
}

/// The intervals of a run's figures.
fn intervals(run: &Run) -> [Option<[f64; 2]>; FIGURES.len()] {
    let percentiles = Percentiles::new(&run.whole, &run.latencies);
    let of = |q: f64| percentiles.at(q).interval;
    let mean_us = run.whole.mean_ns().unwrap_or(0.0) / 1e3;
    [
        of(0.5),
        of(0.9),
        of(0.99),
        of(0.999),
        // A mean that may lie above its interval has no upper end, for an objective either.
        mean_interval(&run.whole, mean_us, &run.latencies)
            .ok()
            .filter(|_| !mean_may_lie_above(&run.whole)),
        share_interval(run.failed, run.whole.count(), &run.errors).ok(),
    ]
}

/// True if the objective that a quantile is below the bound is found met, judged as in a report: by
/// the share beyond the bound.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a latency")]
fn is_met(run: &Run, q: f64, bound_us: f64) -> bool {
    let bound_ns = (bound_us * 1e3) as u64;
    let beyond = |histogram: &Histogram<u64>| {
        let high_ns = histogram.lowest_equivalent(bound_ns).saturating_sub(1);
        histogram.len() - histogram.count_between(0, high_ns)
    };
    let pieces = run.latencies.iter().map(|piece| (beyond(piece), piece.len()));
    let pieces = Pieces::new(pieces.collect(), run.each_s);
    let of_whole = (beyond(&run.whole.histogram()), &pieces);
    let found = beyond_interval(of_whole, (&run.whole, &run.latencies), (q, bound_ns));
    found.is_ok_and(|[_, high]| high < 1.0 - q)
}

/// True if a comparison of two runs calls a percentile of the second, or its share of errors,
/// higher or lower.
fn is_called(a: &Run, b: &Run) -> bool {
    let error = (1.0 - CONFIDENCE) / (PERCENTILES.len() + 1) as f64;
    let [before, after] = [a, b].map(|run| Part {
        part: run.failed,
        whole: run.whole.count(),
        pieces: Some(&run.errors),
    });
    let is_call = |change| matches!(change, Change::Worse | Change::Better);
    let of_errors = share_difference(before, after, error).map(errors);
    if of_errors.is_some_and(|found| is_call(found.change)) {
        return true;
    }
    let [a, b] = [a, b].map(|run| Sample { whole: &run.whole, pieces: &run.latencies });
    PERCENTILES.iter().any(|quantile| {
        let found = quantile_ratio(a, b, quantile.q, error);
        let change = called(found.map_or([None; 2], |found| found.interval), 1.0 + MARGIN);
        is_call(change)
    })
}

/// This many runs of a service in windows of this length, held against its true figures and
/// compared in pairs.
pub fn cell(process: Process, window_s: u64, runs: u64, truth: [f64; FIGURES.len()]) -> Cell {
    let mut cell = Cell::default();
    let mut last: Option<Run> = None;
    for seed in 0..runs {
        let run = process.run(window_s, seed);
        for ((figure, truth), interval) in cell.figures.iter_mut().zip(truth).zip(intervals(&run)) {
            figure.count(truth, interval);
        }
        cell.runs += 1;
        for (met, (at, q)) in cell.met.iter_mut().zip(OBJECTIVES) {
            *met += u64::from(is_met(&run, q, BOUND * truth[at]));
        }
        let drift = stationarity(&run.latencies, DRIFT);
        cell.drifts += u64::from(drift.is_some_and(|drift| !drift.stationary));
        last = match last {
            None => Some(run),
            Some(before) => {
                cell.pairs += 1;
                cell.called += u64::from(is_called(&before, &run));
                None
            }
        };
    }
    cell
}
