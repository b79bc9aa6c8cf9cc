//! Pacer lateness and its CPU cost, for each way of waiting.

use std::time::Duration;

use anyhow::Result;
use engine::plan::CONNS_OPEN_DEFAULT;

use crate::process::{Bench, NullTarget};
use crate::summary::table;

/// Requests per second, Poisson.
const RATE: &str = "20k";

/// Prints the table.
pub(crate) fn print(bench: &Bench, quick: bool) -> Result<()> {
    let (seconds, waits): (u64, &[&str]) =
        if quick { (1, &["hybrid"]) } else { (10, &["sleep", "hybrid", "spin"]) };
    println!(
        "pacing: {RATE}/s Poisson for {seconds} s, pacer lateness in µs; CPU is the process's \
         CPU seconds per second"
    );
    let target = NullTarget::start(bench, CONNS_OPEN_DEFAULT)?;
    let mut rows = Vec::new();
    for wait in waits {
        rows.push(row(bench, &target.url, wait, seconds)?);
    }
    target.stop()?;
    let heading = ["wait", "p50", "p99", "p99.9", "max", "sent/intended", "CPU"];
    println!("{}", table(&heading, &rows));
    Ok(())
}

fn row(bench: &Bench, url: &str, wait: &str, seconds: u64) -> Result<Vec<String>> {
    let duration = format!("{seconds}s");
    let flags = ["--rate", RATE, "--wait", wait, "--duration", &duration, "--warmup", "1s"];
    let (report, finished) = bench.run_truetail(url, &flags, Duration::from_secs(seconds + 1))?;
    let lateness = &report.whole.pacer_lateness;
    let show = |us: Option<f64>| us.map_or("-".to_owned(), |us| format!("{us:.1}"));
    Ok(vec![
        wait.to_owned(),
        show(lateness.quantile_us(0.5)),
        show(lateness.quantile_us(0.99)),
        show(lateness.quantile_us(0.999)),
        show(lateness.max),
        format!("{:.4}", report.whole.rate.sent / report.whole.rate.intended),
        format!("{:.2}", finished.cpu_us / 1e6 / finished.wall.as_secs_f64()),
    ])
}
