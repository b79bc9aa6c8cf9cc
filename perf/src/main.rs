//! Is it fast: what `make bench` prints.
//!
//! Four parts: ns of the hot functions, truetail beside wrk against the null target, the lateness of the pacer, and the
//! cost of raw samples.
//! Wall time and CPU time of a shared machine are evidence and no gate: compare within one run only.

mod micro;
mod pacing;
mod process;
mod raw;
mod side_by_side;
mod summary;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use engine::sys::placement::allowed_cores;

const USAGE: &str = "\
usage: truetail-bench [--quick] [--truetail PATH] [micro] [side-by-side] [pacing] [raw]
  --quick           one short round of each part, to see that it works
  --truetail PATH   the binary to measure [default: the one beside this program]
  without a part's name, all parts run";

/// What to run, and how long.
struct Arguments {
    quick: bool,
    truetail: Option<PathBuf>,
    parts: Vec<String>,
}

const PARTS: [&str; 4] = ["micro", "side-by-side", "pacing", "raw"];

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Arguments> {
    let mut parsed = Arguments { quick: false, truetail: None, parts: Vec::new() };
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--quick") => parsed.quick = true,
            Some("--truetail") => {
                let path = arguments.next().context("--truetail: no path follows; give one")?;
                parsed.truetail = Some(path.into());
            }
            Some(part) if PARTS.contains(&part) => parsed.parts.push(part.to_owned()),
            _ => bail!("{}: not understood\n{USAGE}", argument.display()),
        }
    }
    if parsed.parts.is_empty() {
        parsed.parts = PARTS.map(str::to_owned).to_vec();
    }
    Ok(parsed)
}

/// The binary to measure: as given, else beside this program.
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
    let arguments = parse(std::env::args_os().skip(1))?;
    let wants = |part: &str| arguments.parts.iter().any(|wanted| wanted == part);
    if wants("micro") {
        micro::print(arguments.quick);
    }
    if !PARTS[1..].iter().any(|part| wants(part)) {
        return Ok(());
    }
    let truetail = find_truetail(arguments.truetail.clone())?;
    process::allow_files()?;
    let cores = allowed_cores();
    let bench = process::Bench {
        truetail,
        target_core: cores[0],
        client_core: *cores.last().expect("there is at least one core"),
    };
    println!("target on core {}, client on core {}", bench.target_core, bench.client_core);
    if bench.target_core == bench.client_core {
        println!("one core for both: they take turns, so the figures say little");
    }
    println!();
    if wants("side-by-side") {
        side_by_side::print(&bench, arguments.quick)?;
    }
    if wants("pacing") {
        pacing::print(&bench, arguments.quick)?;
    }
    if wants("raw") {
        raw::print(&bench, arguments.quick)?;
    }
    Ok(())
}
