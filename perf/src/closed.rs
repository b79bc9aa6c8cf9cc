//! Closed loops: throughput and CPU per request on the null target, compared with the peers.

use anyhow::Result;

use crate::bench::Bench;
use crate::contest::{Contest, Runs, Target, cells, print_problems};
use crate::peers::{Load, Peer};
use crate::process::files_max;
use crate::servers::FILES_SPARE;
use crate::summary::{heading, or_dash, show, table};

/// The runs on a number of connections.
struct Level {
    conns: usize,
    seconds: u64,
    rounds: usize,
}

/// The last window is longer, since wrk connects within it, which takes about 5 s.
const LEVELS: [Level; 5] = [
    Level { conns: 16, seconds: 3, rounds: 5 },
    Level { conns: 64, seconds: 3, rounds: 5 },
    Level { conns: 256, seconds: 3, rounds: 5 },
    Level { conns: 4_000, seconds: 3, rounds: 5 },
    Level { conns: 20_000, seconds: 7, rounds: 3 },
];

const QUICK: [Level; 1] = [Level { conns: 16, seconds: 1, rounds: 1 }];

/// Prints the tables.
pub(crate) fn print(bench: &Bench, peers: &[&'static Peer], quick: bool) -> Result<()> {
    println!("## Closed loop\n");
    let levels: &[Level] = if quick { &QUICK } else { &LEVELS };
    let mut cpu = Vec::new();
    let mut rate = Vec::new();
    let mut beyond = Vec::new();
    for level in levels {
        let Some(conns) = allowed(level.conns) else { continue };
        let load = Load {
            url: "",
            conns,
            seconds: level.seconds,
            depth: 1,
            http2: false,
            wrk_script: None,
        };
        let target = Target::Null { conns, tls: false };
        let all = Contest { bench, peers, target, load, rounds: level.rounds }.hold()?;
        print_problems(&format!("{conns} connections"), &all);
        let row = |cells| [vec![show(conns as f64, 0)], cells].concat();
        let mut costs = cells(&all, |figures| figures.cpu_us_per_request, 2);
        costs.push(all[0].median(|figures| figures.target_us_per_request.unwrap_or(f64::NAN), 2));
        cpu.push(row(costs));
        rate.push(row(cells(&all, |figures| figures.requests_per_second, 0)));
        let seconds = |runs: &Runs| or_dash(runs.spread(|run| run.beyond_s).map(|s| s.show(2)));
        beyond.push(row(all.iter().map(seconds).collect()));
    }
    let clients: Vec<&str> =
        ["connections", "truetail"].into_iter().chain(peers.iter().map(|peer| peer.name)).collect();
    println!(
        "CPU per request in µs, user and system time of the whole process. Of truetail the median \
         (lowest–highest) of the runs; of each peer the median, and truetail's cost as a multiple \
         of it, pair by pair:\n"
    );
    println!("{}", table(&[heading(&clients), heading(&["null target"])].concat(), &cpu));
    println!("Requests per second, in the same way:\n");
    println!("{}", table(&heading(&clients), &rate));
    println!(
        "Seconds that the process ran beyond its window, to open and close connections (wrk opens \
         them within its window), median (lowest–highest):\n"
    );
    println!("{}", table(&heading(&clients), &beyond));
    Ok(())
}

/// This many connections, or slightly fewer if the limit on open files is slightly lower; `None` if
/// it is much lower.
fn allowed(conns: usize) -> Option<usize> {
    let most = files_max().saturating_sub(FILES_SPARE);
    if conns <= most {
        return Some(conns);
    }
    let limit = files_max();
    let nearly = conns - conns / 10 <= most;
    let instead = if nearly { format!("{most}") } else { "skipped".to_owned() };
    println!("{conns} connections: {instead}, for the limit on open files is {limit}.\n");
    nearly.then_some(most)
}
