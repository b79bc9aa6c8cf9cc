//! Writes the study of interval coverage, as Markdown, to the file named by its first argument; the
//! second is the number of runs for each service and length of the window.

mod process;
mod study;

use std::fmt::Write as _;

use process::Process;
use study::{Cell, Coverage, FIGURES, OBJECTIVES, PROCESSES, TIMES_MIN, cell, truth};

/// Lengths of the windows, s.
const WINDOWS_S: [u64; 8] = [2, 3, 5, 10, 30, 60, 120, 300];
/// The share of runs with a wrong interval that still meets the goal of 5 %, given the chance in a
/// hundred runs.
const WRONG_MAX: f64 = 0.07;
/// Length of the runs that give a service's true figures, s: exact enough for windows of minutes.
const TRUTH_S: u64 = 60_000;

/// The text above the tables.
const HEAD: &str = include_str!("head.md");

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or_else(|| std::io::Error::other("give a file to write to"))?;
    let runs = arguments.next().and_then(|runs| runs.parse().ok()).unwrap_or(100);
    std::fs::write(path, document(runs))
}

/// The study as Markdown, with this many runs for each service and length.
fn document(runs: u64) -> String {
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
                    let truth = truth(process, TRUTH_S);
                    (at, WINDOWS_S.map(|window_s| cell(process, window_s, runs, truth)).to_vec())
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
