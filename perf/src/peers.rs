//! The load generators that truetail is compared with.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

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
    /// The program's name.
    pub(crate) name: &'static str,
    /// Its command line for a load, on one thread.
    command: fn(&Load) -> String,
    /// The position of the number of answered requests in its output.
    requests: Figure,
    /// The position of the number per second in its output.
    rate: Figure,
    /// True if it can have several requests in flight on a connection.
    pub(crate) pipelines: bool,
    /// True if it takes part in the first rounds only.
    pub(crate) is_brief: bool,
}

/// A number in a program's output: a word, counted from 0, of the first line with this text.
struct Figure {
    line: &'static str,
    word: usize,
}

/// A client's work, and its cost.
pub(crate) struct Answered {
    pub(crate) requests: f64,
    pub(crate) requests_per_second: f64,
    pub(crate) finished: Finished,
}

/// All known peers, in the order of the tables.
pub(crate) const PEERS: [Peer; 5] = [
    Peer {
        name: "wrk",
        command: |load| {
            let Load { url, conns, seconds, depth, wrk_script, .. } = load;
            let script = wrk_script.map_or(String::new(), |path| format!("-s {}", path.display()));
            format!("wrk -t1 -c{conns} -d{seconds}s {script} {url} -- {depth}")
        },
        requests: Figure { line: " requests in ", word: 0 },
        rate: Figure { line: "Requests/sec:", word: 1 },
        pipelines: true,
        is_brief: false,
    },
    Peer {
        name: "h2load",
        command: |Load { url, conns, seconds, depth, http2, .. }| {
            let version = if *http2 { "" } else { "--h1" };
            format!("h2load {version} -t1 -c{conns} -m{depth} -D{seconds} {url}")
        },
        requests: Figure { line: " succeeded,", word: 7 },
        rate: Figure { line: "finished in ", word: 3 },
        pipelines: true,
        is_brief: false,
    },
    Peer {
        name: "hey",
        command: |Load { url, conns, seconds, .. }| {
            format!("env GOMAXPROCS=1 hey -c {conns} -z {seconds}s {url}")
        },
        requests: Figure { line: "[200]", word: 1 },
        rate: Figure { line: "Requests/sec:", word: 1 },
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
        requests: Figure { line: "Complete requests:", word: 2 },
        rate: Figure { line: "Requests per second:", word: 3 },
        pipelines: false,
        is_brief: true,
    },
    Peer {
        name: "oha",
        command: |Load { url, conns, seconds, .. }| {
            format!("env TOKIO_WORKER_THREADS=1 oha --no-tui -c {conns} -z {seconds}s {url}")
        },
        requests: Figure { line: "[200]", word: 1 },
        rate: Figure { line: "Requests/sec:", word: 1 },
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
        let (requests, requests_per_second) =
            self.parse(&finished.stdout).context("no figures in its output")?;
        Ok(Answered { requests, requests_per_second, finished })
    }

    /// Requests answered, in total and per second.
    fn parse(&self, stdout: &str) -> Option<(f64, f64)> {
        Some((self.requests.find(stdout)?, self.rate.find(stdout)?))
    }
}

impl Figure {
    fn find(&self, text: &str) -> Option<f64> {
        let line = text.lines().find(|line| line.contains(self.line))?;
        line.split_whitespace().nth(self.word)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRK: &str = "Running 5s test @ http://127.0.0.1:8080/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   550.00us   99.00us   5.00ms   90.00%
  559012 requests in 5.00s, 70.00MB read
Requests/sec: 111799.69
Transfer/sec:     14.00MB
";
    const H2LOAD: &str = "finished in 2.00s, 146110.00 req/s, 17.00MB/s
requests: 292220 total, 292284 started, 292220 done, 292219 succeeded, 1 failed, 0 errored, 0 timeout
status codes: 292220 2xx, 0 3xx, 0 4xx, 0 5xx
";
    const HEY: &str = "
Summary:
  Total:\t2.0009 secs
  Requests/sec:\t46204.3842

Status code distribution:
  [200]\t92451 responses
";
    const AB: &str = "Concurrency Level:      64
Time taken for tests:   2.000 seconds
Complete requests:      75361
Failed requests:        0
Requests per second:    37675.28 [#/sec] (mean)
";
    const OHA: &str = "Summary:
  Success rate:\t100.00%
  Total:\t2.0 secs
  Requests/sec:\t51234.5

Status code distribution:
  [200] 102469 responses
";

    #[test]
    fn every_summary_is_parsed() {
        let cases = [
            (WRK, (559_012.0, 111_799.69)),
            (H2LOAD, (292_219.0, 146_110.0)),
            (HEY, (92_451.0, 46_204.384_2)),
            (AB, (75_361.0, 37_675.28)),
            (OHA, (102_469.0, 51_234.5)),
        ];
        for (peer, (text, figures)) in PEERS.iter().zip(cases) {
            assert_eq!(peer.parse(text), Some(figures), "{}", peer.name);
            assert_eq!(peer.parse("unable to connect"), None, "{}", peer.name);
        }
    }
}
