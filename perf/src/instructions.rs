//! User-space instructions, counted by callgrind: of the hot functions, and of a whole request.
//!
//! Unlike time they hardly depend on the machine's other work, so they can gate. This program runs
//! itself under callgrind, which counts only while a given function runs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use engine::plan::{Http, Model, Plan};
use engine::run::{Run, prepare};
use engine::sys::units::Nanos;

use crate::answering;
use crate::hot;

/// The flag to call the functions.
const FUNCTIONS: &str = "--call-functions";
/// The flag to run the closed loop, with its URL.
const REQUESTS: &str = "--request";
/// The flag to run it over HTTP/2, with the streams of its connection.
const STREAMS: &str = "--streams";

/// Calls of each hot function.
const CALLS: u64 = 20_000;

/// Streams of the closed loop over HTTP/2.
const STREAMS_TOGETHER: usize = 10;

/// The closed loop's window.
const WINDOW: Nanos = Nanos::from_secs(1);

/// Runs of the closed loop. The lowest counts: periodic work, such as publishing the progress, adds
/// more per request on a slower machine.
const RUNS: usize = 3;

/// A count with its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) name: String,
    /// Instructions per call.
    pub(crate) instructions: f64,
}

/// Counts everything.
pub(crate) fn count(quick: bool) -> Result<Vec<Counted>> {
    let mut counted = count_functions()?;
    let runs = if quick { 1 } else { RUNS };
    for (loop_of, streams) in [
        ("one connection".to_owned(), None),
        (format!("{STREAMS_TOGETHER} streams of a connection over HTTP/2"), Some(STREAMS_TOGETHER)),
    ] {
        let mut least = f64::INFINITY;
        for _ in 0..runs {
            least = least.min(count_requests(streams)?);
        }
        let name = format!("a request of a closed loop, {loop_of}");
        counted.push(Counted { name, instructions: least });
    }
    Ok(counted)
}

fn count_functions() -> Result<Vec<Counted>> {
    let folder = tempfile::tempdir()?;
    // Each batch ends in a dump of its own, numbered from 1.
    let options = ["--toggle-collect=*::hot::batch", "--dump-after=*::hot::batch"];
    run_counted(&options, &[FUNCTIONS], folder.path())?;
    let names = hot::functions().into_iter().map(|function| function.name);
    let numbered = names.zip(1..).map(|(name, number): (String, usize)| {
        let total = total(&folder.path().join(format!("counts.{number}")))?;
        Ok(Counted { name, instructions: total / CALLS as f64 })
    });
    numbered.collect()
}

/// The server is in this process: valgrind runs one thread at a time, and doesn't know that a
/// turn's system call waits for another.
fn count_requests(streams: Option<usize>) -> Result<f64> {
    let url = answering::start(streams)?;
    let mut arguments = vec![REQUESTS.to_owned(), url];
    arguments.extend(streams.into_iter().flat_map(|it| [STREAMS.to_owned(), it.to_string()]));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let folder = tempfile::tempdir()?;
    let options = ["--toggle-collect=*Shard>::turn"];
    let printed = run_counted(&options, &arguments, folder.path())?;
    let requests: f64 = printed.trim().parse().context("can't parse the number of requests")?;
    Ok(total(&folder.path().join("counts"))? / requests)
}

/// Runs this program under callgrind with these options and arguments. Returns its output.
fn run_counted(options: &[&str], arguments: &[&str], folder: &Path) -> Result<String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", folder.join("counts").display()))
        .args(options)
        .arg(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("can't start valgrind")?;
    if !output.status.success() {
        bail!("under valgrind: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The instructions in one of callgrind's files.
fn total(file: &Path) -> Result<f64> {
    let text =
        fs::read_to_string(file).with_context(|| format!("no counts in {}", file.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let total: f64 = total.context("callgrind wrote no total")?.trim().parse()?;
    ensure!(0.0 < total, "nothing was counted: has the function another name, or is it inlined?");
    Ok(total)
}

/// Calls each hot function, in the process under callgrind.
pub(crate) fn call_functions() {
    hot::functions().iter_mut().for_each(|function| (function.call)(CALLS));
}

/// Runs the closed loop, in the process under callgrind, and prints the number of responses.
pub(crate) fn request(target: String, streams: Option<usize>) -> Result<()> {
    let plan = Plan {
        target,
        model: Some(Model::Closed),
        conns: Some(1),
        http: if streams.is_some() { Http::V2 } else { Http::V1 },
        streams,
        duration: WINDOW,
        warmup: Nanos(0),
        ..Plan::default()
    };
    let prepared = prepare(plan).map_err(|error| anyhow!("{error}"))?;
    let run = Run::start(prepared).map_err(|error| anyhow!("{error}"))?;
    let counts = run.wait().report.whole.counts;
    ensure!(0 < counts.answered && counts.answered == counts.intended, "{counts:?}");
    println!("{}", counts.answered);
    Ok(())
}
