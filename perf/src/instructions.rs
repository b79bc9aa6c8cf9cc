//! User-space instructions, counted by callgrind: of the hot functions, and of a whole request.
//!
//! Unlike time they hardly depend on the machine's other work, so they can gate. This program runs
//! itself under callgrind, which counts only while a given function runs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use engine::plan::{Arrivals, Http, Model, Plan, Wait};
use engine::run::{Run, prepare};
use engine::sys::units::Nanos;

use crate::answering;
use crate::hot;

/// The flag to call the functions.
const FUNCTIONS: &str = "--call-functions";
/// The flag to run a load, with its URL.
const REQUESTS: &str = "--request";

/// Calls of each hot function.
const CALLS: u64 = 20_000;

/// A load's window.
const WINDOW: Nanos = Nanos::from_secs(1);

/// Runs of each load. The lowest counts: periodic work, such as publishing the progress, adds more
/// per request on a slower machine.
const RUNS: usize = 3;

/// The loads of which a request is counted. Under callgrind a request takes some 20 times as long,
/// so the open loop has that much less to do: 20,000/s would be an overload.
const LOADS: [Load; 4] =
    [Load::Connections(1), Load::Connections(64), Load::Streams(10), Load::Rate(1_000)];

/// What a counted run offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// A closed loop of so many connections, which are answered together.
    Connections(usize),
    /// One over HTTP/2, of a connection with so many streams, which are answered together.
    Streams(usize),
    /// An open loop of so many constant arrivals per second.
    Rate(u32),
}

impl Load {
    /// What a request of it is called in the file of limits.
    fn name(self) -> String {
        match self {
            Load::Connections(1) => "a request of a closed loop, one connection".to_owned(),
            Load::Connections(count) => format!("a request of a closed loop, {count} connections"),
            Load::Streams(count) => {
                format!("a request of a closed loop, {count} streams of a connection over HTTP/2")
            }
            Load::Rate(rate) => format!("a request of an open loop, {rate}/s"),
        }
    }

    /// The share by which its count varies: which events come in one turn is a matter of time.
    fn varies(self) -> f64 {
        match self {
            Load::Connections(1) | Load::Streams(_) => 0.0,
            Load::Connections(_) => 0.03,
            Load::Rate(_) => 0.1,
        }
    }

    /// The arguments by which the process under callgrind offers it.
    fn arguments(self) -> [String; 2] {
        let (flag, value) = match self {
            Load::Connections(count) => ("--connections", count.to_string()),
            Load::Streams(count) => ("--streams", count.to_string()),
            Load::Rate(rate) => ("--rate", rate.to_string()),
        };
        [flag.to_owned(), value]
    }

    fn plan(self, target: String) -> Result<Plan> {
        let plan = Plan { target, duration: WINDOW, warmup: Nanos(0), ..Plan::default() };
        let closed = Plan { model: Some(Model::Closed), conns: Some(1), ..plan.clone() };
        Ok(match self {
            Load::Connections(count) => Plan { conns: Some(count), ..closed },
            Load::Streams(count) => Plan { http: Http::V2, streams: Some(count), ..closed },
            // Without a wait in which it reads the clock as often as it can.
            Load::Rate(rate) => Plan {
                rate: Some(rate.to_string().parse()?),
                arrivals: Arrivals::Constant,
                wait: Wait::Sleep,
                ..plan
            },
        })
    }
}

/// A count with its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) name: String,
    /// Instructions per call.
    pub(crate) instructions: f64,
    /// The share by which they vary from count to count.
    pub(crate) varies: f64,
}

/// Counts everything.
pub(crate) fn count(quick: bool) -> Result<Vec<Counted>> {
    let mut counted = count_functions()?;
    let runs = if quick { 1 } else { RUNS };
    for load in LOADS {
        let mut least = f64::INFINITY;
        for _ in 0..runs {
            least = least.min(count_requests(load)?);
        }
        counted.push(Counted { name: load.name(), instructions: least, varies: load.varies() });
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
        Ok(Counted { name, instructions: total / CALLS as f64, varies: 0.0 })
    });
    numbered.collect()
}

/// The server is in this process: valgrind runs one thread at a time, and doesn't know that a
/// turn's system call waits for another.
fn count_requests(load: Load) -> Result<f64> {
    let url = answering::start(load)?;
    let [flag, value] = load.arguments();
    let arguments = [REQUESTS, &url, &flag, &value];
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

/// Runs a load, in the process under callgrind, and prints the number of responses.
pub(crate) fn request(target: String, load: Load) -> Result<()> {
    let plan = load.plan(target)?;
    let prepared = prepare(plan).map_err(|error| anyhow!("{error}"))?;
    let run = Run::start(prepared).map_err(|error| anyhow!("{error}"))?;
    let counts = run.wait().report.whole.counts;
    ensure!(0 < counts.answered && counts.answered == counts.intended, "{counts:?}");
    println!("{}", counts.answered);
    Ok(())
}
