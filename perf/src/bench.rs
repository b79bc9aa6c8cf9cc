//! A benchmark's binary and cores, and one run of it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use engine::report::Report;

use crate::process::{Finished, Stderr, run_pinned};

/// The binary and the cores.
pub(crate) struct Bench {
    /// The `truetail` binary.
    pub(crate) truetail: PathBuf,
    /// The core of the target.
    pub(crate) target_core: usize,
    /// The core of the client.
    pub(crate) client_core: usize,
}

impl Bench {
    /// Runs `truetail run` on the client's core with these flags, which make it last for `length`;
    /// returns its report and its cost. On a terminal it shows its progress line.
    pub(crate) fn run_truetail(
        &self,
        url: &str,
        flags: &[&str],
        length: Duration,
        stderr: Stderr,
    ) -> Result<(Report, Finished)> {
        let out = tempfile::Builder::new().suffix(".json").tempfile()?.into_temp_path();
        let program = self.truetail.display().to_string();
        let out_name = out.display().to_string();
        // A run at the ceiling measures the generator, so its verdict is invalid, which is wanted
        // here.
        let mut command = vec![&*program, "run", url, "--allow-invalid", "--out", &out_name];
        command.extend((stderr == Stderr::File).then_some("--quiet"));
        command.extend(flags);
        let command: Vec<String> = command.into_iter().map(str::to_owned).collect();
        let finished = run_pinned(self.client_core, &command, length, stderr)?;
        let text = std::fs::read_to_string(&out).context("can't read the report")?;
        let report: Report = serde_json::from_str(&text).context("can't parse the report")?;
        let counts = &report.whole.counts;
        let (failed, late) = (counts.failed, counts.timed_out + counts.abandoned);
        if counts.answered == 0 || 0 < failed + late {
            bail!("{} requests answered, {failed} failed, {late} not in time", counts.answered);
        }
        Ok((report, finished))
    }

    /// Runs a closed loop on this many connections, without a warm-up.
    pub(crate) fn run_closed(
        &self,
        url: &str,
        conns: usize,
        more: &[&str],
        length: Duration,
        stderr: Stderr,
    ) -> Result<(Report, Finished)> {
        let (conns, duration) = (conns.to_string(), milliseconds(length));
        let mut flags =
            vec!["--model", "closed", "--conns", &conns, "--duration", &duration, "--warmup", "0s"];
        flags.extend(more);
        self.run_truetail(url, &flags, length, stderr)
    }
}

/// The shards' CPU time per request answered in the window, µs. The rest of a process is its setup,
/// whose load isn't counted, and its output.
pub(crate) fn cpu_us_per_request(report: &Report) -> f64 {
    let shards = report.generator.shards.iter();
    let cpu_s: f64 = shards.map(|shard| shard.cpu_user_s + shard.cpu_system_s).sum();
    1e6 * cpu_s / report.whole.counts.answered as f64
}

/// A duration as a flag's value.
pub(crate) fn milliseconds(length: Duration) -> String {
    format!("{}ms", length.as_millis())
}
