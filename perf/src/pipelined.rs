//! Pipelining: 16 requests in flight on each connection, on the null target.

use std::io::Write as _;

use anyhow::Result;

use crate::bench::Bench;
use crate::contest::{Contest, Target, cells, print_problems};
use crate::peers::{Load, Peer};
use crate::summary::{heading, table};

const CONNS: usize = 64;
const DEPTH: usize = 16;

/// Prints the table.
pub(crate) fn print(bench: &Bench, peers: &[&'static Peer], quick: bool) -> Result<()> {
    let (seconds, rounds) = if quick { (1, 1) } else { (3, 5) };
    println!("## Pipelined\n");
    let peers: Vec<&Peer> = peers.iter().copied().filter(|peer| peer.pipelines).collect();
    let mut script = tempfile::NamedTempFile::new()?;
    script.write_all(include_bytes!("pipeline.lua"))?;
    let wrk_script = Some(script.path());
    let load = Load { url: "", conns: CONNS, seconds, depth: DEPTH, http2: false, wrk_script };
    let target = Target::Null { conns: CONNS, tls: false };
    let all = Contest { bench, peers: &peers, target, load, rounds }.hold()?;
    print_problems(&format!("{DEPTH} requests deep"), &all);
    println!("{CONNS} connections with {DEPTH} requests in flight on each:\n");
    let names = peers.iter().map(|peer| peer.name);
    let clients: Vec<&str> = ["", "truetail"].into_iter().chain(names).collect();
    let row = |name: &str, cells| [vec![name.to_owned()], cells].concat();
    let rows = [
        row("µs CPU per request", cells(&all, |figures| figures.cpu_us_per_request, 3)),
        row("requests/s", cells(&all, |figures| figures.requests_per_second, 0)),
    ];
    println!("{}", table(&heading(&clients), &rows));
    Ok(())
}
