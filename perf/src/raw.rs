//! CPU cost of raw samples: the shard thread's CPU time per request, alternating runs with and
//! without `--raw`.

use std::time::Duration;

use anyhow::Result;

use crate::process::{Bench, NullTarget};
use crate::summary::{median, table};

/// Connections of the closed loop.
const CONNS: usize = 64;

/// Prints the table.
pub(crate) fn print(bench: &Bench, quick: bool) -> Result<()> {
    let (seconds, rounds) = if quick { (1, 1) } else { (4, 7) };
    println!(
        "raw samples: closed loop on {CONNS} connections, {rounds} pairs of runs of {seconds} \
         s; the shard thread's CPU time in µs per request"
    );
    let target = NullTarget::start(bench, CONNS)?;
    let folder = std::env::temp_dir().join(format!("truetail-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("raw.samples").display().to_string();
    let mut without = Vec::new();
    let mut with = Vec::new();
    for _ in 0..rounds {
        without.push(shard_cpu(bench, &target.url, &[], seconds)?);
        with.push(shard_cpu(bench, &target.url, &["--raw", &file], seconds)?);
    }
    target.stop()?;
    std::fs::remove_dir_all(&folder)?;
    let ratios: Vec<f64> =
        with.iter().zip(&without).map(|(with, without)| with / without).collect();
    let row =
        [median(&without), median(&with), median(&ratios)].map(|figure| format!("{figure:.3}"));
    println!("{}", table(&["without", "with --raw", "ratio"], &[row.to_vec()]));
    Ok(())
}

fn shard_cpu(bench: &Bench, url: &str, more: &[&str], seconds: u64) -> Result<f64> {
    let (conns, duration) = (CONNS.to_string(), format!("{seconds}s"));
    let mut flags =
        vec!["--model", "closed", "--conns", &conns, "--duration", &duration, "--warmup", "0s"];
    flags.extend(more);
    let (report, _) = bench.run_truetail(url, &flags, Duration::from_secs(seconds))?;
    let cpu_s: f64 =
        report.generator.shards.iter().map(|shard| shard.cpu_user_s + shard.cpu_system_s).sum();
    Ok(cpu_s * 1e6 / report.whole.counts.answered as f64)
}
