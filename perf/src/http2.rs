//! HTTP/2: closed loops by connections and streams, on the null target and on nghttpd, compared with
//! h2load.

use anyhow::Result;

use crate::bench::Bench;
use crate::contest::{Contest, Figures, Target, cells, print_problems};
use crate::peers::{Load, Peer};
use crate::process::is_installed;
use crate::servers::Nghttpd;
use crate::summary::table;

const CONNS: [usize; 3] = [1, 16, 64];
/// Requests in flight on each connection.
const STREAMS: [usize; 3] = [1, 10, 100];
/// The file of nghttpd, bytes: as long as the null target's body.
const BODY: usize = 27;

/// Prints the tables.
pub(crate) fn print(bench: &Bench, peers: &[&'static Peer], quick: bool) -> Result<()> {
    println!("## HTTP/2\n");
    let peers: Vec<&Peer> = peers.iter().copied().filter(|peer| peer.name == "h2load").collect();
    println!(
        "In the clear, by prior knowledge. User space is the part of the CPU time that isn't in \
         the kernel. Of truetail the median (lowest–highest) of the runs; of h2load the median, \
         and truetail's figure as a multiple of it, pair by pair:\n"
    );
    print_on(bench, &peers, None, quick)?;
    if is_installed("nghttpd") {
        println!("The same on nghttpd with one worker, a file of {BODY} bytes:\n");
        let nghttpd = Nghttpd::start(bench, BODY)?;
        print_on(bench, &peers, Some(&nghttpd.url), quick)?;
    } else {
        println!("nghttpd left out: it is not installed.\n");
    }
    Ok(())
}

/// Prints the table of a server, or of null targets.
fn print_on(bench: &Bench, peers: &[&'static Peer], url: Option<&str>, quick: bool) -> Result<()> {
    let (seconds, rounds) = if quick { (1, 1) } else { (2, 3) };
    let both = CONNS.iter().flat_map(|conns| STREAMS.map(|streams| (*conns, streams)));
    let mut rows = Vec::new();
    for (conns, depth) in both.filter(|both| !quick || *both == (16, 10)) {
        let target = url.map_or(Target::Null { conns, tls: false }, Target::Url);
        let load = Load { url: "", conns, seconds, depth, http2: true, wrk_script: None };
        let all = Contest { bench, peers, target, load, rounds }.hold()?;
        let what = format!("{conns} × {depth}");
        print_problems(&what, &all);
        let mut row = vec![what];
        row.extend(cells(&all, |figures| figures.cpu_us_per_request, 3));
        row.extend(cells(&all, |figures| figures.user_us_per_request, 3));
        row.extend(cells(&all, |figures| figures.requests_per_second, 0));
        if url.is_none() {
            let us = |figures: &Figures| figures.target_us_per_request.unwrap_or(f64::NAN);
            row.push(all[0].median(us, 3));
        }
        rows.push(row);
    }
    let mut columns = vec!["connections × streams".to_owned()];
    for figure in ["µs CPU per request", "µs in user space", "requests/s"] {
        let clients = std::iter::once("truetail").chain(peers.iter().map(|peer| peer.name));
        columns.extend(clients.map(|client| format!("{client} {figure}")));
    }
    columns.extend(url.is_none().then(|| "null target µs CPU".to_owned()));
    println!("{}", table(&columns, &rows));
    Ok(())
}
