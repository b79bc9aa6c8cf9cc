//! The open loop at shares of the closed loop's ceiling: its cost and its pacer lateness.

use std::time::Duration;

use anyhow::Result;
use engine::plan::CONNS_OPEN_DEFAULT;
use engine::report::Report;
use engine::report::verdict::Level;

use crate::bench::{Bench, milliseconds};
use crate::process::Stderr;
use crate::servers::NullTarget;
use crate::summary::{Spread, heading, or_dash, show, table};

/// Connections of the closed loop.
const CONNS: usize = 64;

/// Time for the open loop to find its number of connections.
const WARMUP: Duration = Duration::from_millis(500);

/// Shares of the ceiling that are offered.
const SHARES: [f64; 2] = [0.5, 0.85];

/// The open loop's runs at one share.
#[derive(Default)]
struct Runs {
    rate: Vec<f64>,
    cpu_us: Vec<f64>,
    to_closed: Vec<f64>,
    lateness_p50: Vec<f64>,
    lateness_p99: Vec<f64>,
    sent_share: Vec<f64>,
    invalid: usize,
}

/// Prints the table.
pub(crate) fn print(bench: &Bench, quick: bool) -> Result<()> {
    let (length, rounds) =
        if quick { (Duration::from_millis(500), 1) } else { (Duration::from_secs(3), 5) };
    println!("## Open loop at shares of the closed loop's ceiling\n");
    let warmup = milliseconds(WARMUP);
    let target = NullTarget::start(bench, CONNS_OPEN_DEFAULT)?;
    let (mut ceiling, mut closed_cpu) = (Vec::new(), Vec::new());
    let mut shares = SHARES.map(|_| Runs::default());
    for _ in 0..rounds {
        let (report, _) = bench.run_closed(&target.url, CONNS, &[], length, Stderr::File)?;
        let per_second = report.whole.rate.answered;
        let closed_us = cpu_us_per_request(&report);
        ceiling.push(per_second);
        closed_cpu.push(closed_us);
        for (share, runs) in SHARES.iter().zip(&mut shares) {
            let (rate, duration) = (format!("{:.0}", share * per_second), milliseconds(length));
            let flags = ["--rate", &rate, "--duration", &duration, "--warmup", &warmup];
            let (report, _) =
                bench.run_truetail(&target.url, &flags, WARMUP + length, Stderr::File)?;
            runs.add(&report, closed_us);
        }
    }
    target.stop()?;
    println!(
        "The ceiling is that of a closed loop on {CONNS} connections: {}/s at {} µs CPU per \
         request. Shares of it are offered with the default settings. CPU is that of the shard \
         within the window, and the multiple is of the closed loop's; pacer lateness in µs; all as \
         median (lowest–highest):\n",
        or_dash(Spread::of(ceiling).map(|spread| spread.show(0))),
        or_dash(Spread::of(closed_cpu).map(|spread| spread.show(2))),
    );
    let rows: Vec<_> =
        SHARES.iter().zip(shares).map(|(share, runs)| runs.row(*share, rounds)).collect();
    let columns = [
        "share",
        "sent/s",
        "sent of planned",
        "µs CPU per request",
        "multiple",
        "lateness p50",
        "lateness p99",
        "invalid runs",
    ];
    println!("{}", table(&heading(&columns), &rows));
    Ok(())
}

/// Of the shard within the window: the rest of an open loop's process is mostly the load of its
/// setup, which is in no count.
fn cpu_us_per_request(report: &Report) -> f64 {
    let shards = report.generator.shards.iter();
    let cpu_s: f64 = shards.map(|shard| shard.cpu_user_s + shard.cpu_system_s).sum();
    1e6 * cpu_s / report.whole.counts.answered as f64
}

impl Runs {
    fn add(&mut self, report: &Report, closed_us: f64) {
        let cpu_us = cpu_us_per_request(report);
        let (rate, lateness) = (&report.whole.rate, &report.whole.pacer_lateness);
        self.rate.push(rate.sent);
        self.sent_share.push(rate.sent / rate.intended);
        self.cpu_us.push(cpu_us);
        self.to_closed.push(cpu_us / closed_us);
        self.lateness_p50.extend(lateness.quantile_us(0.5));
        self.lateness_p99.extend(lateness.quantile_us(0.99));
        self.invalid += usize::from(report.verdict.level == Level::Invalid);
    }

    fn row(self, share: f64, rounds: usize) -> Vec<String> {
        let cell = |values: Vec<f64>, digits| {
            or_dash(Spread::of(values).map(|spread| spread.show(digits)))
        };
        vec![
            show(share, 2),
            cell(self.rate, 0),
            cell(self.sent_share, 4),
            cell(self.cpu_us, 2),
            cell(self.to_closed, 2),
            cell(self.lateness_p50, 2),
            cell(self.lateness_p99, 2),
            format!("{} of {rounds}", self.invalid),
        ]
    }
}
