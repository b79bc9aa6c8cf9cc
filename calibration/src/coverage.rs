//! Coverage: how often a report's interval contains the true value, and how often `compare` calls a
//! change where there is none. Simulated runs of services with independent or correlated latencies.
//!
//! The runs go through the functions that make a report. [`document`] is the study, which `make
//! coverage` writes to `calibration/coverage.md`.

mod process;

use std::fmt::Write as _;

use engine::stats::comparison::{Sample, quantile_ratio};
use engine::stats::percentiles::{PERCENTILES, Percentiles};
use engine::stats::ratio::{mean_interval, share_interval};
use probe::compare::{CONFIDENCE, Change, MARGIN, called};

pub use process::{Process, Run};

/// Lengths of the windows, s.
const WINDOWS_S: [u64; 8] = [2, 3, 5, 10, 30, 60, 120, 300];
/// The services of the study.
const PROCESSES: [Process; 21] = [
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
const FIGURES: [&str; 6] = ["p50", "p90", "p99", "p99.9", "mean", "errors"];
/// Length of the runs that give a service's true figures, s: these must be exact for windows of
/// minutes, less so for short ones.
const TRUTH_S: [u64; 2] = [60_000, 6_000];

/// The text above the tables.
const HEAD: &str = include_str!("coverage/head.md");

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
}

/// Results of a service's runs of one length.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// For each of p50, p90, p99, p99.9, the mean and the share of errors.
    pub figures: [Coverage; FIGURES.len()],
    /// Pairs of runs.
    pub pairs: u64,
    /// Pairs in which a comparison calls a change of a percentile.
    pub called: u64,
}

/// The true figures of a service: percentiles and mean in µs, the share of errors.
fn truth(process: Process, seconds: u64) -> [f64; FIGURES.len()] {
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
        mean_interval(&run.whole, mean_us, &run.latencies).ok(),
        share_interval(run.failed, run.whole.count(), &run.errors).ok(),
    ]
}

/// True if a comparison of two runs calls a percentile of the second higher or lower.
fn is_called(a: &Run, b: &Run) -> bool {
    let error = (1.0 - CONFIDENCE) / (PERCENTILES.len() + 1) as f64;
    let [a, b] = [a, b].map(|run| Sample { whole: &run.whole, pieces: &run.latencies });
    PERCENTILES.iter().any(|quantile| {
        let found = quantile_ratio(a, b, quantile.q, error);
        let change = called(found.map_or([None; 2], |found| found.interval), 1.0 + MARGIN);
        matches!(change, Change::Worse | Change::Better)
    })
}

/// This many runs of a service in windows of this length, up to a minute, compared in pairs.
pub fn cell(process: Process, window_s: u64, runs: u64) -> Cell {
    cell_by(process, window_s, runs, truth(process, TRUTH_S[1]))
}

fn cell_by(process: Process, window_s: u64, runs: u64, truth: [f64; FIGURES.len()]) -> Cell {
    let mut cell = Cell::default();
    let mut last: Option<Run> = None;
    for seed in 0..runs {
        let run = process.run(window_s, seed);
        for ((figure, truth), interval) in cell.figures.iter_mut().zip(truth).zip(intervals(&run)) {
            figure.count(truth, interval);
        }
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

/// The study as Markdown, with this many runs for each service and length.
pub fn document(runs: u64) -> String {
    let tables = tables(runs);
    format!("{HEAD}\n{runs} runs for each cell; `make coverage` writes this page.\n{tables}")
}

fn tables(runs: u64) -> String {
    let cells: Vec<Vec<Cell>> = std::thread::scope(|scope| {
        // One service at a time on each core.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let of_core = |core: usize| {
            move || {
                let mine = PROCESSES.into_iter().enumerate().filter(|(at, _)| at % cores == core);
                let row = |(at, process): (usize, Process)| {
                    let truth = truth(process, TRUTH_S[0]);
                    (at, WINDOWS_S.map(|window_s| cell_by(process, window_s, runs, truth)).to_vec())
                };
                mine.map(row).collect::<Vec<_>>()
            }
        };
        let threads: Vec<_> = (0..cores).map(|core| scope.spawn(of_core(core))).collect();
        let mut rows: Vec<(usize, Vec<Cell>)> =
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
        rows.sort_by_key(|(at, _)| *at);
        rows.into_iter().map(|(_, row)| row).collect()
    });
    let mut text = String::new();
    for (at, figure) in FIGURES.into_iter().enumerate() {
        part(&mut text, figure, &cells, |cell| shown(cell.figures[at]));
    }
    part(&mut text, "pairs called different", &cells, |cell| {
        format!("{:.1} %", 100.0 * cell.called as f64 / cell.pairs as f64)
    });
    text
}

fn part(text: &mut String, title: &str, cells: &[Vec<Cell>], shown: impl Fn(&Cell) -> String) {
    let columns = WINDOWS_S.map(|window_s| format!("{window_s} s")).join(" | ");
    let rule = ["---"; WINDOWS_S.len()].join(" | ");
    let _ = write!(text, "\n### {title}\n\n| | {columns} |\n| --- | {rule} |\n");
    for (process, row) in PROCESSES.iter().zip(cells) {
        let row: Vec<String> = row.iter().map(&shown).collect();
        let _ = writeln!(text, "| {process} | {} |", row.join(" | "));
    }
}

/// The share of the stated intervals that contain the true value; unless nearly all runs state one,
/// followed by the share of runs that do, in brackets.
fn shown(of: Coverage) -> String {
    let stated = of.stated as f64 / of.runs as f64;
    let holds = of.holds as f64 / of.stated.max(1) as f64;
    let mark = if 0.07 < of.wrong() { "**" } else { "" };
    match stated {
        0.0 => "n/a".to_owned(),
        _ if stated < 0.95 => format!("{mark}{holds:.2}{mark} ({:.0} %)", 100.0 * stated),
        _ => format!("{mark}{holds:.2}{mark}"),
    }
}
