//! truetail and wrk side by side: throughput and CPU per request on the same target and core.
//!
//! The machine drifts by more than the difference in question, so the two alternate, and the ratio
//! is the median over pairs of consecutive runs.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::process::{self, Bench, NullTarget};
use crate::summary::{median, table};

/// One client's run.
#[derive(Clone, Copy)]
struct Figures {
    requests_per_second: f64,
    cpu_us_per_request: f64,
}

/// The runs of the comparison.
struct Series {
    conns: &'static [usize],
    seconds: u64,
    rounds: usize,
}

/// Descriptors that the null target needs besides the connections of two clients.
const FILES_SPARE: u64 = 128;

/// Prints the table.
pub(crate) fn print(bench: &Bench, quick: bool) -> Result<()> {
    let series = if quick {
        Series { conns: &[16], seconds: 1, rounds: 1 }
    } else {
        Series { conns: &[16, 64, 256, 4_000], seconds: 5, rounds: 5 }
    };
    let has_wrk = process::is_installed("wrk");
    println!(
        "side by side: null target, closed loop, medians of {} runs of {} s; CPU is user and \
         system time of the whole process",
        series.rounds, series.seconds
    );
    if !has_wrk {
        println!("wrk is not installed: only truetail is measured");
    }
    let mut rows = Vec::new();
    for &conns in series.conns {
        if process::files_max() < 2 * conns as u64 + FILES_SPARE {
            println!(
                "{conns} connections: skipped, the limit on open files is {}",
                process::files_max()
            );
            continue;
        }
        rows.push(row(bench, &series, conns, has_wrk)?);
    }
    let heading = [
        "conns",
        "truetail req/s",
        "wrk req/s",
        "ratio",
        "truetail µs CPU/req",
        "wrk µs CPU/req",
        "ratio",
        "null target µs CPU/req",
    ];
    println!("{}", table(&heading, &rows));
    Ok(())
}

fn row(bench: &Bench, series: &Series, conns: usize, has_wrk: bool) -> Result<Vec<String>> {
    let target = NullTarget::start(bench, conns)?;
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for _ in 0..series.rounds {
        ours.push(run_truetail(bench, &target.url, conns, series.seconds)?);
        if has_wrk {
            theirs.push(run_wrk(bench, &target.url, conns, series.seconds)?);
        }
    }
    let cost = target.stop()?;
    let rate = |figures: &Figures| figures.requests_per_second;
    let cpu = |figures: &Figures| figures.cpu_us_per_request;
    Ok(vec![
        conns.to_string(),
        show(0, &ours, rate),
        show(0, &theirs, rate),
        show_ratio(&ours, &theirs, rate),
        show(2, &ours, cpu),
        show(2, &theirs, cpu),
        show_ratio(&ours, &theirs, cpu),
        format!("{:.2}", cost.cpu_us / cost.requests),
    ])
}

/// The median of one figure, or a dash without runs.
fn show(digits: usize, runs: &[Figures], figure: fn(&Figures) -> f64) -> String {
    if runs.is_empty() {
        return "-".to_owned();
    }
    let values: Vec<f64> = runs.iter().map(figure).collect();
    format!("{:.digits$}", median(&values))
}

/// The median over the pairs of truetail's figure divided by wrk's.
fn show_ratio(ours: &[Figures], theirs: &[Figures], figure: fn(&Figures) -> f64) -> String {
    if theirs.is_empty() {
        return "-".to_owned();
    }
    let ratios: Vec<f64> =
        ours.iter().zip(theirs).map(|(ours, theirs)| figure(ours) / figure(theirs)).collect();
    format!("{:.2}", median(&ratios))
}

fn run_truetail(bench: &Bench, url: &str, conns: usize, seconds: u64) -> Result<Figures> {
    let (conns, duration) = (conns.to_string(), format!("{seconds}s"));
    let flags = ["--model", "closed", "--conns", &conns, "--duration", &duration, "--warmup", "0s"];
    let (report, finished) = bench.run_truetail(url, &flags, Duration::from_secs(seconds))?;
    Ok(Figures {
        requests_per_second: report.whole.rate.answered,
        cpu_us_per_request: finished.cpu_us / report.whole.counts.answered as f64,
    })
}

fn run_wrk(bench: &Bench, url: &str, conns: usize, seconds: u64) -> Result<Figures> {
    let command =
        ["wrk", "-t1", &format!("-c{conns}"), &format!("-d{seconds}s"), url].map(str::to_owned);
    let finished = process::run_pinned(bench.client_core, &command, Duration::from_secs(seconds))?;
    parse_wrk(&finished.stdout, finished.cpu_us)
        .with_context(|| format!("can't parse wrk's output:\n{}", finished.stdout))
}

/// Parses wrk's summary and divides its CPU time by its request count.
fn parse_wrk(stdout: &str, cpu_us: f64) -> Option<Figures> {
    let word = |line: &str, at: usize| line.split_whitespace().nth(at)?.parse::<f64>().ok();
    let requests = stdout.lines().find(|line| line.contains(" requests in "))?;
    let rate = stdout.lines().find(|line| line.starts_with("Requests/sec:"))?;
    Some(Figures {
        requests_per_second: word(rate, 1)?,
        cpu_us_per_request: cpu_us / word(requests, 0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrks_summary_is_parsed() {
        let text = "Running 5s test @ http://127.0.0.1:8080/\n  1 threads and 64 connections\n  \
            Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
            Latency   550.00us   99.00us   5.00ms   90.00%\n  \
            559012 requests in 5.00s, 70.00MB read\nRequests/sec: 111799.69\n\
            Transfer/sec:     14.00MB\n";
        let figures = parse_wrk(text, 5_000_000.0).expect("a summary");
        assert_eq!(figures.requests_per_second, 111_799.69);
        assert_eq!(figures.cpu_us_per_request, 5_000_000.0 / 559_012.0);
        assert!(parse_wrk("unable to connect", 1.0).is_none());
    }

    #[test]
    fn ratios_are_medians_over_pairs() {
        let run = |cpu| Figures { requests_per_second: 1.0, cpu_us_per_request: cpu };
        let ours = [run(1.0), run(4.0), run(9.0)];
        let theirs = [run(2.0), run(4.0), run(10.0)];
        assert_eq!(show_ratio(&ours, &theirs, |figures| figures.cpu_us_per_request), "0.90");
        assert_eq!(show_ratio(&ours, &[], |figures| figures.cpu_us_per_request), "-");
    }
}
