//! Benchmarks: the output of `make bench`, as Markdown, and the ratchet of `make check`.
//!
//! Wall time and CPU time on a shared machine are evidence, not a gate: compare figures of one run
//! only. Instruction counts do gate.

mod answering;
mod bench;
mod bodies;
mod closed;
mod contest;
mod hot;
mod http2;
mod instructions;
mod many;
mod micro;
mod open;
mod pacing;
mod pairs;
mod peers;
mod pipelined;
mod process;
mod ratchet;
mod routes;
mod servers;
mod summary;
mod tls;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, ValueEnum};
use engine::host::environment::environment;
use engine::sys::placement::allowed_cores;

use bench::Bench;
use instructions::Load;

/// Benchmarks of truetail; without a PART, all of them.
#[derive(Debug, Parser)]
#[command(name = "truetail-bench")]
struct Arguments {
    /// Run one short round of each part, to see that it works
    #[arg(long)]
    quick: bool,
    /// The binary to measure [default: the one next to this program]
    #[arg(long, value_name = "PATH")]
    truetail: Option<PathBuf>,
    /// The file with the limits of the instruction counts
    #[arg(long, value_name = "FILE", default_value = "perf/instructions.toml")]
    limits: PathBuf,
    /// Count instructions and write them to the file with the limits
    #[arg(long, conflicts_with = "parts")]
    update_limits: bool,
    /// In a process under callgrind: call each hot function
    #[arg(long, hide = true)]
    call_functions: bool,
    /// In a process under callgrind: run a load
    #[arg(long, value_name = "URL", hide = true)]
    request: Option<String>,
    /// A closed loop with this many connections
    #[arg(long, value_name = "N", requires = "request", hide = true)]
    connections: Option<usize>,
    /// One over HTTP/2, with this many streams
    #[arg(long, value_name = "N", requires = "request", hide = true)]
    streams: Option<usize>,
    /// An open loop with this many arrivals per second
    #[arg(long, value_name = "N", requires = "request", hide = true)]
    rate: Option<u32>,
    /// In a process of its own: end a made-up run on so many shards, of so many parts, with so many
    /// requests on each shard
    #[arg(long, num_args = 3, value_names = ["SHARDS", "PARTS", "REQUESTS"], hide = true)]
    end_run: Option<Vec<u32>>,
    /// What to measure
    #[arg(value_name = "PART")]
    parts: Vec<Part>,
}

/// One part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Closed loops on the null target, compared with other load generators
    Closed,
    /// The same with 16 requests in flight on each connection
    Pipelined,
    /// Closed loops over HTTP/2, compared with h2load
    Http2,
    /// Response bodies of 128 B to 1 MiB from nginx, compared with wrk
    Bodies,
    /// Closed loops over TLS compared with wrk, and handshakes per second
    Tls,
    /// The open loop at shares of the closed loop's ceiling
    Open,
    /// Pacer lateness and its CPU cost, for each way of waiting
    Pacing,
    /// The cost of raw samples, stamps, the progress line and the live view
    Pairs,
    /// A hundred routes, with and without fields, against one
    Routes,
    /// Time and memory to add up the results of 1 to 256 shards, and to make their report
    Many,
    /// ns of the hot functions
    Micro,
    /// User-space instructions, by callgrind; fails if one is above its limit
    Instructions,
}

impl Part {
    /// True if it runs the binary.
    fn runs_truetail(self) -> bool {
        !matches!(self, Part::Many | Part::Micro | Part::Instructions)
    }
}

/// The binary to measure: the given one, or the one next to this program.
fn find_truetail(given: Option<PathBuf>) -> Result<PathBuf> {
    match given {
        Some(path) => Ok(path),
        None => Ok(std::env::current_exe()?.with_file_name("truetail")),
    }
}

/// The line that identifies the machine.
fn machine() -> Result<String> {
    let target = "127.0.0.1:80".parse().context("an address")?;
    let here = environment(&[], Vec::new(), Some(target));
    let date = Command::new("date").args(["-u", "+%F"]).output().context("can't start `date`")?;
    Ok(format!(
        "{}, {} cores, {}, {}",
        here.cpu.as_deref().unwrap_or("unknown CPU"),
        here.cores_online,
        here.kernel,
        String::from_utf8_lossy(&date.stdout).trim()
    ))
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.call_functions {
        instructions::call_functions();
        return Ok(());
    }
    if let Some(url) = arguments.request {
        let Arguments { connections, streams, rate, .. } = arguments;
        let load = connections.map(Load::Connections).or(streams.map(Load::Streams));
        let load = load.or(rate.map(Load::Rate)).context("a load has a size")?;
        return instructions::request(url, load);
    }
    if let Some(numbers) = arguments.end_run {
        return many::end(numbers.try_into().expect("it takes three"));
    }
    if arguments.update_limits {
        return ratchet::update(&arguments.limits, arguments.quick);
    }
    let all = Part::value_variants();
    let parts = if arguments.parts.is_empty() { all } else { &arguments.parts };
    let cores = allowed_cores();
    let bench = Bench {
        truetail: find_truetail(arguments.truetail)?,
        target_core: cores[0],
        client_core: *cores.last().expect("there is at least one core"),
    };
    let mut peers = Vec::new();
    if parts.iter().any(|part| part.runs_truetail()) {
        introduce(&bench)?;
        peers = peers::installed();
    }
    for part in parts {
        let quick = arguments.quick;
        match part {
            Part::Closed => closed::print(&bench, &peers, quick)?,
            Part::Pipelined => pipelined::print(&bench, &peers, quick)?,
            Part::Http2 => http2::print(&bench, &peers, quick)?,
            Part::Bodies => bodies::print(&bench, &peers, quick)?,
            Part::Tls => tls::print(&bench, &peers, quick)?,
            Part::Open => open::print(&bench, quick)?,
            Part::Pacing => pacing::print(&bench, quick)?,
            Part::Pairs => pairs::print(&bench, quick)?,
            Part::Routes => routes::print(&bench, quick)?,
            Part::Many => many::print(quick)?,
            Part::Micro => micro::print(quick),
            Part::Instructions => ratchet::check(&arguments.limits, quick)?,
        }
    }
    Ok(())
}

/// Makes sure that processes can be measured, and prints the machine.
fn introduce(bench: &Bench) -> Result<()> {
    if !bench.truetail.is_file() {
        bail!(
            "--truetail {}: no such file; build it with `cargo build --release -p cli`",
            bench.truetail.display()
        );
    }
    process::raise_open_files()?;
    println!(
        "{}. Target on core {}, clients on core {}.\n",
        machine()?,
        bench.target_core,
        bench.client_core
    );
    if bench.target_core == bench.client_core {
        println!("Target and client share one core, so the figures mean little.\n");
    }
    Ok(())
}
