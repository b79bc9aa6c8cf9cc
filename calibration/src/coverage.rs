//! Coverage: how often a report's interval contains the true value, and how often `compare` calls a
//! change where there is none. Simulated runs of services with independent or correlated latencies.
//!
//! The runs go through the functions that make a report. [`document`] is the study, which `make
//! coverage` writes to `calibration/coverage.md`.

mod process;

use std::fmt::Write as _;

use engine::stats::comparison::{Sample, quantile_ratio};
use engine::stats::percentiles::{PERCENTILES, Percentiles};
use engine::stats::pieces::Pieces;
use engine::stats::ratio::{mean_interval, mean_may_lie_above, share_interval};
use engine::stats::stationarity::stationarity;
use hdrhistogram::Histogram;
use probe::compare::{CONFIDENCE, Change, MARGIN, called};

pub use process::{Process, Run};

/// Lengths of the windows, s.
const WINDOWS_S: [u64; 8] = [2, 3, 5, 10, 30, 60, 120, 300];
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
const OBJECTIVES: [(usize, f64); 2] = [(1, 0.9), (2, 0.99)];
/// The objective's bound as a share of the true percentile.
const BOUND: f64 = 0.98;
/// The part of the latencies that may drift, as in a plan by default.
const DRIFT: f64 = 0.1;
/// The share of runs with a wrong interval that still meets the goal of 5 %, given the chance in a
/// hundred runs.
const WRONG_MAX: f64 = 0.07;
/// How often an event must occur in a window for its spread to be known.
pub const TIMES_MIN: f64 = 10.0;
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
    /// Pairs in which a comparison calls a change of a percentile.
    pub called: u64,
    /// Runs.
    pub runs: u64,
    /// Those that find each of the false objectives met.
    pub met: [u64; OBJECTIVES.len()],
    /// Those that find that latency drifts.
    pub drifts: u64,
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
    let beyond = |histogram: &Histogram<u64>| {
        let high_ns = histogram.lowest_equivalent((bound_us * 1e3) as u64).saturating_sub(1);
        histogram.len() - histogram.count_between(0, high_ns)
    };
    let pieces = run.latencies.iter().map(|piece| (beyond(piece), piece.len()));
    let pieces = Pieces::new(pieces.collect(), run.each_s);
    let found = share_interval(beyond(run.whole.histogram()), run.whole.count(), &pieces);
    found.is_ok_and(|[_, high]| high < 1.0 - q)
}

/// True if a comparison of two runs calls a percentile of the second higher or lower.
fn is_called(a: &Run, b: &Run) -> bool {
    let error = (1.0 - CONFIDENCE) / (PERCENTILES.len() + 1) as f64;
    let [a, b] = [a, b].map(|run| Sample { whole: &run.whole, pieces: Some(&run.latencies) });
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

/// The study as Markdown, with this many runs for each service and length.
pub fn document(runs: u64) -> String {
    let cells = cells(runs);
    let (missed, fewer, tables) = (missed(&cells), fewer(&cells), tables(&cells));
    format!(
        "{HEAD}\n{runs} runs for each cell; `make coverage` writes this page.\n{missed}{fewer}{tables}"
    )
}

/// The cells of each service, by the length of the window.
fn cells(runs: u64) -> Vec<Vec<Cell>> {
    std::thread::scope(|scope| {
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
    })
}

/// How many cells of each figure miss the goal, and how many of them do where what makes latencies
/// depend on each other happens ten times in the window.
fn missed(cells: &[Vec<Cell>]) -> String {
    let mut text = "\n### Cells that miss the goal\n\n\
        | | with intervals | wrong in more than 7 of 100 runs | of these, where it happens ten times |\n\
        | --- | --- | --- | --- |\n"
        .to_owned();
    let mut sums = [0; 3];
    for (at, figure) in FIGURES.into_iter().enumerate() {
        let mut counts = [0; 3];
        for (process, row) in PROCESSES.iter().zip(cells) {
            for (cell, window_s) in row.iter().zip(WINDOWS_S) {
                let is_wrong = WRONG_MAX < cell.figures[at].wrong();
                let is_seen = TIMES_MIN <= process.times(figure, window_s);
                let is_stated = 0 < cell.figures[at].stated;
                let of = [is_stated, is_wrong, is_wrong && is_seen];
                counts.iter_mut().zip(of).for_each(|(count, is)| *count += u64::from(is));
            }
        }
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        let [stated, wrong, seen] = counts;
        let _ = writeln!(text, "| {figure} | {stated} | {wrong} | {seen} |");
    }
    let [stated, wrong, seen] = sums;
    let _ = writeln!(text, "| all | {stated} | {wrong} | {seen} |\n");
    for (place, (at, _)) in OBJECTIVES.into_iter().enumerate() {
        let shares = cells.iter().flatten().map(|cell| cell.met[place] as f64 / cell.runs as f64);
        let (some, many) = shares.fold((0, 0), |(some, many), share| {
            (some + u64::from(0.0 < share), many + u64::from(WRONG_MAX < share))
        });
        let _ = writeln!(
            text,
            "False objectives of {} are met in more than 7 of 100 runs in {many} cells, and in any \
             run in {some}.\n",
            FIGURES[at]
        );
    }
    text
}

/// The cells that state fewer intervals than one of a shorter window.
fn fewer(cells: &[Vec<Cell>]) -> String {
    let mut text = "### Windows that state less than the next shorter one, beyond chance\n\n\
        | | | windows | stated |\n| --- | --- | --- | --- |\n"
        .to_owned();
    for (at, figure) in FIGURES.into_iter().enumerate() {
        for (process, row) in PROCESSES.iter().zip(cells) {
            for (cells, windows_s) in row.windows(2).zip(WINDOWS_S.windows(2)) {
                let [short, long] = [0, 1].map(|of| cells[of].figures[at]);
                if short.states_more_than(long) {
                    let [short, long] = [short, long].map(|of| 100.0 * of.stated_share());
                    let (from, to) = (windows_s[0], windows_s[1]);
                    let _ = writeln!(
                        text,
                        "| {figure} | {process} | {from} s, {to} s | {short:.0} %, {long:.0} % |"
                    );
                }
            }
        }
    }
    text
}

fn tables(cells: &[Vec<Cell>]) -> String {
    let mut text = String::new();
    for (at, figure) in FIGURES.into_iter().enumerate() {
        part(&mut text, figure, cells, |cell| shown(cell.figures[at]));
    }
    let percent = |of: u64, all: u64| format!("{:.1} %", 100.0 * of as f64 / all as f64);
    part(&mut text, "pairs called different", cells, |cell| percent(cell.called, cell.pairs));
    for (place, (at, _)) in OBJECTIVES.into_iter().enumerate() {
        let title = format!("false objectives met, {}", FIGURES[at]);
        part(&mut text, &title, cells, |cell| percent(cell.met[place], cell.runs));
    }
    part(&mut text, "drift found", cells, |cell| percent(cell.drifts, cell.runs));
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
    let stated = of.stated_share();
    let holds = of.holds as f64 / of.stated.max(1) as f64;
    let mark = if WRONG_MAX < of.wrong() { "**" } else { "" };
    match stated {
        0.0 => "n/a".to_owned(),
        _ if stated < 0.95 => format!("{mark}{holds:.2}{mark} ({:.0} %)", 100.0 * stated),
        _ => format!("{mark}{holds:.2}{mark}"),
    }
}
