//! The load generators that truetail is compared with.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use judge::{Figures, Tool};

use crate::bench::Bench;
use crate::process::{Finished, Stderr, is_installed, run_pinned};

/// A closed loop.
pub(crate) struct Load<'a> {
    /// The URL to request.
    pub(crate) url: &'a str,
    pub(crate) conns: usize,
    pub(crate) seconds: u64,
    /// Requests in flight on each connection.
    pub(crate) depth: usize,
    /// True over HTTP/2, where each of these is a stream.
    pub(crate) http2: bool,
    /// The script that makes wrk pipeline, for a depth above 1.
    pub(crate) wrk_script: Option<&'a Path>,
}

/// Another load generator.
pub(crate) struct Peer {
    /// The program's name, and the judge's for how its output is read.
    pub(crate) name: &'static str,
    /// Its command line for a load, on one thread.
    command: fn(&Load) -> String,
    /// True if it can have several requests in flight on a connection.
    pub(crate) pipelines: bool,
    /// True if it takes part in the first rounds only.
    pub(crate) is_brief: bool,
}

/// A client's work, and its cost.
pub(crate) struct Answered {
    pub(crate) requests: f64,
    pub(crate) requests_per_second: f64,
    pub(crate) finished: Finished,
}

/// All known peers, in the order of the tables.
pub(crate) const PEERS: [Peer; 6] = [
    Peer {
        name: "wrk",
        command: |load| {
            let Load { url, conns, seconds, depth, wrk_script, .. } = load;
            let script = wrk_script.map_or(String::new(), |path| format!("-s {}", path.display()));
            format!("wrk -t1 -c{conns} -d{seconds}s {script} {url} -- {depth}")
        },
        pipelines: true,
        is_brief: false,
    },
    Peer {
        name: "gcannon",
        command: |Load { url, conns, seconds, depth, .. }| {
            format!("gcannon {url} -c {conns} -t 1 -d {seconds}s -p {depth} --json")
        },
        pipelines: true,
        is_brief: false,
    },
    Peer {
        name: "h2load",
        command: |Load { url, conns, seconds, depth, http2, .. }| {
            let version = if *http2 { "" } else { "--h1" };
            format!("h2load {version} -t1 -c{conns} -m{depth} -D{seconds} {url}")
        },
        pipelines: true,
        is_brief: false,
    },
    Peer {
        name: "hey",
        command: |Load { url, conns, seconds, .. }| {
            format!("env GOMAXPROCS=1 hey -c {conns} -z {seconds}s {url}")
        },
        pipelines: false,
        is_brief: true,
    },
    Peer {
        name: "ab",
        // -t stops after 50,000 requests unless -n follows with more, for which ab allocates
        // memory.
        command: |Load { url, conns, seconds, .. }| {
            format!("ab -q -k -c {conns} -t {seconds} -n 10000000 {url}")
        },
        pipelines: false,
        is_brief: true,
    },
    Peer {
        name: "oha",
        command: |Load { url, conns, seconds, .. }| {
            format!("env TOKIO_WORKER_THREADS=1 oha --no-tui -c {conns} -z {seconds}s {url}")
        },
        pipelines: false,
        is_brief: true,
    },
];

/// The peers that are installed; names the others.
pub(crate) fn installed() -> Vec<&'static Peer> {
    let (installed, missing): (Vec<_>, Vec<_>) =
        PEERS.iter().partition(|peer| is_installed(peer.name));
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|peer| peer.name).collect();
        println!("Not installed, so left out: {}.\n", names.join(", "));
    }
    installed
}

impl Peer {
    /// Runs it on the client's core.
    ///
    /// # Errors
    /// Its error message if it failed, or that it printed no figures.
    pub(crate) fn run(&self, bench: &Bench, load: &Load) -> Result<Answered> {
        let command = (self.command)(load);
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let length = Duration::from_secs(load.seconds);
        let finished = run_pinned(bench.client_core, &command, length, Stderr::File)?;
        let figures = Figures::read(&Tool::find(self.name)?, &finished.stdout)?;
        let (requests, requests_per_second) =
            figures.answered.zip(figures.per_s).context("no figures in its output")?;
        Ok(Answered { requests, requests_per_second, finished })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_knows_each_peer() {
        for peer in PEERS {
            assert!(Tool::find(peer.name).is_ok(), "{}", peer.name);
        }
    }
}
