//! The open loop at shares of the closed loop's ceiling: its cost and its pacer lateness.

use std::time::Duration;

use anyhow::Result;
use engine::plan::CONNS_OPEN_DEFAULT;
use engine::report::Report;
use engine::report::verdict::Level;

use crate::bench::{Bench, cpu_us_per_request, milliseconds};
use crate::process::Stderr;
use crate::servers::NullTarget;
use crate::summary::{Spread, heading, or_dash, show, table};

/// Connections of the closed loop.
const CONNS: usize = 64;

/// Time for the open loop to find its number of connections.
const WARMUP: Duration = Duration::from_millis(500);

/// Shares of the ceiling to offer, each with enough connections.
const OFFERS: [(f64, usize); 3] =
    [(0.5, CONNS_OPEN_DEFAULT), (0.85, CONNS_OPEN_DEFAULT), (0.85, CONNS)];

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
    let target = NullTarget::start(bench, CONNS_OPEN_DEFAULT, false)?;
    let (mut ceiling, mut closed_cpu) = (Vec::new(), Vec::new());
    let mut offers = OFFERS.map(|_| Runs::default());
    for _ in 0..rounds {
        let (report, _) = bench.run_closed(&target.url, CONNS, &[], length, Stderr::File)?;
        let per_second = report.whole.rate.answered;
        let closed_us = cpu_us_per_request(&report);
        ceiling.push(per_second);
        closed_cpu.push(closed_us);
        for ((share, most), runs) in OFFERS.iter().zip(&mut offers) {
            let (rate, duration) = (format!("{:.0}", share * per_second), milliseconds(length));
            let most = most.to_string();
            let load = ["--rate", &rate, "--duration", &duration, "--warmup", &warmup];
            let flags = [&load[..], &["--conns", &most]].concat();
            let (report, _) =
                bench.run_truetail(&target.url, &flags, WARMUP + length, Stderr::File)?;
            runs.add(&report, closed_us);
        }
    }
    target.stop()?;
    println!(
        "The ceiling is that of a closed loop on {CONNS} connections: {}/s at {} µs CPU per \
         request. Shares of it are offered over at most so many connections, 1,000 being the default. \
         CPU is that of the shard within the window, and the multiple is of the closed loop's; \
         pacer lateness in µs; all as median (lowest–highest):\n",
        or_dash(Spread::of(ceiling).map(|spread| spread.show(0))),
        or_dash(Spread::of(closed_cpu).map(|spread| spread.show(2))),
    );
    let rows = OFFERS.iter().zip(offers);
    let rows: Vec<_> = rows.map(|((share, most), runs)| runs.row(*share, *most, rounds)).collect();
    let columns = [
        "share",
        "connections",
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

impl Runs {
    fn add(&mut self, report: &Report, closed_us: f64) {
        let cpu_us = cpu_us_per_request(report);
        let (rate, lateness) = (&report.whole.rate, &report.whole.pacer_lateness);
        self.rate.push(rate.sent);
        self.sent_share.push(rate.sent_due / rate.intended);
        self.cpu_us.push(cpu_us);
        self.to_closed.push(cpu_us / closed_us);
        self.lateness_p50.extend(lateness.quantile_us(0.5));
        self.lateness_p99.extend(lateness.quantile_us(0.99));
        self.invalid += usize::from(report.verdict.level == Level::Invalid);
    }

    fn row(self, share: f64, most: usize, rounds: usize) -> Vec<String> {
        let cell = |values: Vec<f64>, digits| {
            or_dash(Spread::of(values).map(|spread| spread.show(digits)))
        };
        vec![
            show(share, 2),
            show(most as f64, 0),
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
