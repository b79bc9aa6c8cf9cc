//! Response bodies from 128 B to 1 MiB: files from nginx, compared with wrk.

use anyhow::Result;

use crate::bench::Bench;
use crate::contest::{Contest, Runs, Target, cells, print_problems};
use crate::peers::{Load, Peer};
use crate::process::is_installed;
use crate::servers::Nginx;
use crate::summary::{or_dash, show, table};

const CONNS: usize = 64;
const SIZES: [usize; 4] = [128, 4 << 10, 64 << 10, 1 << 20];

/// Prints the table.
pub(crate) fn print(bench: &Bench, peers: &[&'static Peer], quick: bool) -> Result<()> {
    let (sizes, seconds, rounds) = if quick { (&SIZES[3..], 1, 1) } else { (&SIZES[..], 2, 3) };
    println!("## Response bodies\n");
    if !is_installed("nginx") {
        println!("Left out: nginx is not installed.\n");
        return Ok(());
    }
    let peers: Vec<&Peer> = peers.iter().copied().filter(|peer| peer.name == "wrk").collect();
    let nginx = Nginx::start(bench, sizes, false)?;
    let mut rows = Vec::new();
    for &size in sizes {
        let url = nginx.url(size);
        let load =
            Load { url: &url, conns: CONNS, seconds, depth: 1, http2: false, wrk_script: None };
        let target = Target::Url(&url);
        let all = Contest { bench, peers: &peers, target, load, rounds }.hold()?;
        print_problems(&format!("{size} bytes"), &all);
        let megabytes = |runs: &Runs| {
            let rate = runs.spread(|figures| figures.requests_per_second);
            or_dash(rate.map(|rate| show(rate.median * size as f64 / 1e6, 0)))
        };
        rows.push(
            [
                vec![show(size as f64, 0)],
                all.iter().map(megabytes).collect(),
                cells(&all, |figures| figures.requests_per_second, 0),
                cells(&all, |figures| figures.cpu_us_per_request, 2),
            ]
            .concat(),
        );
    }
    println!(
        "Files from nginx with one worker, {CONNS} connections. Of truetail the median \
         (lowest–highest) of the runs; of wrk the median, and truetail's figure as a multiple of \
         it, pair by pair:\n"
    );
    let mut columns = vec!["bytes".to_owned()];
    for figure in ["MB/s", "requests/s", "µs CPU per request"] {
        let clients = std::iter::once("truetail").chain(peers.iter().map(|peer| peer.name));
        columns.extend(clients.map(|client| format!("{client} {figure}")));
    }
    println!("{}", table(&columns, &rows));
    Ok(())
}
