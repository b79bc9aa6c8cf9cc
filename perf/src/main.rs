//! Benchmarks: what `make bench` prints.
//!
//! Four parts: ns of the hot functions, truetail and wrk side by side against the null target,
//! pacer lateness, and the cost of raw samples. Wall time and CPU time on a shared machine are
//! evidence, not a gate: compare figures of one run only.

mod micro;
mod pacing;
mod process;
mod raw;
mod side_by_side;
mod summary;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use engine::sys::placement::allowed_cores;

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
    /// What to measure
    #[arg(value_name = "PART")]
    parts: Vec<Part>,
}

/// One part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// ns of the hot functions
    Micro,
    /// truetail and wrk against the null target
    SideBySide,
    /// Pacer lateness and its CPU cost, for each way of waiting
    Pacing,
    /// The CPU cost of raw samples
    Raw,
}

/// The binary to measure: the given one, or the one next to this program.
fn find_truetail(given: Option<PathBuf>) -> Result<PathBuf> {
    let path = match given {
        Some(path) => path,
        None => std::env::current_exe()?.with_file_name("truetail"),
    };
    if !path.is_file() {
        bail!(
            "--truetail {}: no such file; build it with `cargo build --release -p cli`",
            path.display()
        );
    }
    Ok(path)
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let wants = |part| arguments.parts.is_empty() || arguments.parts.contains(&part);
    if wants(Part::Micro) {
        micro::print(arguments.quick);
    }
    if !Part::value_variants().iter().any(|part| *part != Part::Micro && wants(*part)) {
        return Ok(());
    }
    let truetail = find_truetail(arguments.truetail.clone())?;
    process::raise_open_files()?;
    let cores = allowed_cores();
    let bench = process::Bench {
        truetail,
        target_core: cores[0],
        client_core: *cores.last().expect("there is at least one core"),
    };
    println!("target on core {}, client on core {}", bench.target_core, bench.client_core);
    if bench.target_core == bench.client_core {
        println!("target and client share one core, so the figures say little");
    }
    println!();
    if wants(Part::SideBySide) {
        side_by_side::print(&bench, arguments.quick)?;
    }
    if wants(Part::Pacing) {
        pacing::print(&bench, arguments.quick)?;
    }
    if wants(Part::Raw) {
        raw::print(&bench, arguments.quick)?;
    }
    Ok(())
}
