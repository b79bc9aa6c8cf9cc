//! Pacer lateness and its CPU cost, for each way of waiting.

use std::time::Duration;

use anyhow::Result;
use engine::plan::CONNS_OPEN_DEFAULT;

use crate::bench::{Bench, milliseconds};
use crate::process::Stderr;
use crate::servers::NullTarget;
use crate::summary::{heading, or_dash, table};

/// Time for the load to find its number of connections.
const WARMUP: Duration = Duration::from_millis(500);

/// Requests per second, Poisson.
const RATE: &str = "20k";

/// Prints the table.
pub(crate) fn print(bench: &Bench, quick: bool) -> Result<()> {
    let (length, waits): (_, &[&str]) = if quick {
        (Duration::from_millis(500), &["hybrid"])
    } else {
        (Duration::from_secs(6), &["sleep", "hybrid", "spin"])
    };
    println!("## Pacer lateness\n");
    println!(
        "{RATE}/s Poisson for {length:?}; lateness in µs, CPU in seconds of the process per \
         second:\n"
    );
    let target = NullTarget::start(bench, CONNS_OPEN_DEFAULT, false)?;
    let mut rows = Vec::new();
    for wait in waits {
        rows.push(row(bench, &target.url, wait, length)?);
    }
    target.stop()?;
    let columns = ["`--wait`", "p50", "p99", "p99.9", "max", "sent of planned", "CPU"];
    println!("{}", table(&heading(&columns), &rows));
    Ok(())
}

fn row(bench: &Bench, url: &str, wait: &str, length: Duration) -> Result<Vec<String>> {
    let (duration, warmup) = (milliseconds(length), milliseconds(WARMUP));
    let flags = ["--rate", RATE, "--wait", wait, "--duration", &duration, "--warmup", &warmup];
    let (report, finished) = bench.run_truetail(url, &flags, WARMUP + length, Stderr::File)?;
    let lateness = &report.whole.pacer_lateness;
    let show = |us: Option<f64>| or_dash(us.map(|us| format!("{us:.2}")));
    Ok(vec![
        format!("`{wait}`"),
        show(lateness.quantile_us(0.5)),
        show(lateness.quantile_us(0.99)),
        show(lateness.quantile_us(0.999)),
        show(lateness.max),
        format!("{:.4}", report.whole.rate.sent_due / report.whole.rate.intended),
        format!("{:.2}", finished.cpu_us / 1e6 / finished.wall.as_secs_f64()),
    ])
}
