//! TLS: CPU per request of closed loops compared with wrk, and handshakes per second with and
//! without resumption.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::bench::Bench;
use crate::contest::{Contest, Runs, Target, cells, print_problems};
use crate::peers::{Load, Peer};
use crate::process::{Stderr, is_installed};
use crate::servers::{Nginx, NullTarget};
use crate::summary::{Spread, heading, or_dash, table};

const CONNS: [usize; 3] = [16, 64, 256];
/// The long responses, bytes, and their connections.
const BODY: usize = 64 << 10;
const BODY_CONNS: usize = 64;
/// Connections with concurrent handshakes.
const SHAKING: usize = 64;

/// Prints the tables.
pub(crate) fn print(bench: &Bench, peers: &[&'static Peer], quick: bool) -> Result<()> {
    println!("## TLS\n");
    let wrk: Vec<&Peer> = peers.iter().copied().filter(|peer| peer.name == "wrk").collect();
    let (conns, seconds, rounds) = if quick { (&CONNS[..1], 1, 1) } else { (&CONNS[..], 3, 5) };
    let mut rows = Vec::new();
    let mut add = |what: String, all: &[Runs]| {
        print_problems(&what, all);
        let cpu = cells(all, |figures| figures.cpu_us_per_request, 2);
        let rate = cells(all, |figures| figures.requests_per_second, 0);
        rows.push([vec![what], cpu, rate].concat());
    };
    for &conns in conns {
        let load = Load { url: "", conns, seconds, depth: 1, http2: false, wrk_script: None };
        let target = Target::Null { conns, tls: true };
        let all = Contest { bench, peers: &wrk, target, load, rounds }.hold()?;
        add(format!("null target, {conns}"), &all);
    }
    if is_installed("nginx") {
        let nginx = Nginx::start(bench, &[BODY], true)?;
        let url = nginx.url(BODY);
        let load = Load {
            url: &url,
            conns: BODY_CONNS,
            seconds,
            depth: 1,
            http2: false,
            wrk_script: None,
        };
        let target = Target::Url(&url);
        let all = Contest { bench, peers: &wrk, target, load, rounds }.hold()?;
        add(format!("nginx, 64 KiB, {BODY_CONNS}"), &all);
    } else {
        println!("64 KiB left out: nginx is not installed.\n");
    }
    println!(
        "Closed loops, nobody's certificate is checked. Of truetail the median (lowest–highest) of \
         the runs; of wrk the median, and truetail's figure as a multiple of it, pair by pair:\n"
    );
    let mut columns = vec!["connections".to_owned()];
    for figure in ["µs CPU per request", "requests/s"] {
        let clients = std::iter::once("truetail").chain(wrk.iter().map(|peer| peer.name));
        columns.extend(clients.map(|client| format!("{client} {figure}")));
    }
    println!("{}", table(&columns, &rows));
    handshakes(bench, seconds, rounds)
}

/// Prints the cost of handshakes.
fn handshakes(bench: &Bench, seconds: u64, rounds: usize) -> Result<()> {
    let ways = ["full", "resume"];
    let mut runs = ways.map(|_| Vec::new());
    for round in 0..rounds {
        for at in 0..ways.len() {
            // They take turns at going first.
            let at = (at + round) % ways.len();
            let target = NullTarget::start(bench, SHAKING, true)?;
            let flags = ["--insecure", "--keepalive", "off", "--tls-session", ways[at]];
            let length = Duration::from_secs(seconds);
            let (report, finished) =
                bench.run_closed(&target.url, SHAKING, &flags, length, Stderr::File)?;
            target.stop()?;
            let tls = report.whole.tls.context("a report of TLS")?;
            let handshakes = (tls.full + tls.resumed) as f64;
            let cpu_us = finished.cpu_us / handshakes;
            let work_us = tls.handshake_work_s * 1e6 / tls.handshake_time.count as f64;
            runs[at].push([
                tls.handshake_time.count as f64 / report.config.window_s(),
                cpu_us,
                // Each per handshake: the work is that of the window, the CPU of the process.
                100.0 * work_us / cpu_us,
                100.0 * tls.resumed as f64 / handshakes,
            ]);
        }
    }
    println!(
        "Handshakes, one for each request:\n\n{SHAKING} connections, with the null target; CPU is \
         of the whole process and has the request in it, the handshake's part of it is user time \
         alone; medians (lowest–highest):\n"
    );
    let rows: Vec<Vec<String>> = ways
        .iter()
        .zip(&runs)
        .map(|(way, runs)| {
            let cell = |at: usize, digits| {
                or_dash(Spread::of(runs.iter().map(|run| run[at])).map(|it| it.show(digits)))
            };
            let name = format!("`--tls-session {way}`");
            vec![name, cell(0, 0), cell(1, 1), cell(2, 0), cell(3, 0)]
        })
        .collect();
    let columns = ["", "handshakes/s", "µs CPU each", "% of it in the handshake", "% resumed"];
    println!("{}", table(&heading(&columns), &rows));
    Ok(())
}
