//! The end of a run on many cores: the time and the memory that it takes to add up the shards'
//! results and to make the report, with made-up shards.

use std::fs;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use engine::host::environment::environment;
use engine::load::curve::Curve;
use engine::load::mix::Mix;
use engine::load::schedule::{Arrival, Digest, Schedule, mix};
use engine::load::share::Share;
use engine::plan::address::Address;
use engine::plan::body::Body;
use engine::plan::redact::Redacted;
use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Arrivals, Plan};
use engine::record::config::RecorderConfig;
use engine::record::outcome::Outcome;
use engine::record::recorder::Recorder;
use engine::record::shard_report::ShardReport;
use engine::record::stamps::{Ending, StampedBy, Stamps};
use engine::report::collected::{AgentRun, Collected, CollectedHead, LOCAL, RunFacts};
use engine::report::machine::Machine;
use engine::report::merge;
use engine::shard::ShardMeter;
use engine::sys::units::{CoreList, Nanos};

use crate::summary::{heading, or_dash, show, table};

/// A window with nearly as many intervals as a run can have.
const WINDOW: Nanos = Nanos::from_secs(60);
/// More than a shard's results take, bytes: a row for which there isn't that much isn't measured.
const SHARD_MAX: u64 = 40 << 20;
/// The flag to end one run, with its shards, its parts and the requests of a shard.
const END: &str = "--end-run";
const COLUMNS: [&str; 7] =
    ["shards", "MiB a shard", "MiB above", "add up", "report", "write", "document, KiB"];

/// Prints the table.
pub(crate) fn print(quick: bool) -> Result<()> {
    let (shards, requests): (&[u32], u32) =
        if quick { (&[1, 4], 2_000) } else { (&[1, 16, 64, 256], 200_000) };
    println!("## Many shards\n");
    println!(
        "The end of a run of {WINDOW}, with arrivals and a series, of {} requests on each shard: a \
         shard's results and the most memory above those of all shards, in MiB, and the time to \
         add them up, to make the report and to write it, in ms:\n",
        show(f64::from(requests), 0)
    );
    let mut rows = Vec::new();
    for parts in [1, 10] {
        for &shards in shards {
            let unit = if parts == 1 { "part" } else { "parts" };
            let mut row = vec![format!("{shards} × {parts} {unit}")];
            let fits = SHARD_MAX * u64::from(shards) <= memory("MemAvailable", "meminfo")?;
            let figures = if fits { in_a_process([shards, parts, requests])? } else { Vec::new() };
            let cell = |at| or_dash(figures.get(at).map(|figure| show(*figure, 1)));
            row.extend((0..COLUMNS.len() - 1).map(cell));
            rows.push(row);
        }
    }
    println!("{}", table(&heading(&COLUMNS), &rows));
    Ok(())
}

/// A row's figures from a process of its own: freed memory may stay with a process.
fn in_a_process(numbers: [u32; 3]) -> Result<Vec<f64>> {
    let output = Command::new(std::env::current_exe()?)
        .arg(END)
        .args(numbers.map(|number| number.to_string()))
        .output()
        .context("can't start this program again")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let figures: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
    Ok(figures?)
}

/// Ends a made-up run, in a process of its own, and prints the figures of its row.
pub(crate) fn end([shards, parts, requests]: [u32; 3]) -> Result<()> {
    let plan = plan(shards, parts, requests)?;
    let before = memory("VmRSS", "self/status")?;
    let body = Body::of_bytes(Vec::new());
    let address = "127.0.0.1:1".parse()?;
    let collected = Collected {
        shards: (0..plan.cores().len()).map(|shard| made_up(&plan, shard, requests)).collect(),
        head: CollectedHead {
            plan: Redacted::with_bodies(&plan, &body, &vec![&body; plan.step_count()]),
            addresses: vec![Address::Ip(address)],
            environment: environment(plan.cores(), Vec::new(), Some(address)),
            machine: Machine::default(),
            interrupted: false,
            until_ns: plan.end_ns(),
            epoch_ns: 0,
            samples: None,
        },
    };
    // From here on, the kernel keeps the most again.
    fs::write("/proc/self/clear_refs", "5")?;
    let own = memory("VmRSS", "self/status")?;
    let begun = Instant::now();
    let agent = AgentRun::of(LOCAL, Share::whole(), collected);
    let merged = begun.elapsed();
    let most = memory("VmHWM", "self/status")?;
    let (report, _measured) = merge::report([agent], &RunFacts::default());
    let reported = begun.elapsed();
    let document = serde_json::to_vec(&report)?;
    let written = begun.elapsed();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{} {} {} {} {} {}",
        mib(own.saturating_sub(before)) / f64::from(shards),
        mib(most.saturating_sub(own)),
        1e3 * merged.as_secs_f64(),
        1e3 * (reported - merged).as_secs_f64(),
        1e3 * (written - reported).as_secs_f64(),
        document.len() as f64 / 1_024.0
    );
    Ok(())
}

/// An open plan with a schedule, whose rate gives each shard so many requests.
fn plan(shards: u32, parts: u32, requests: u32) -> Result<Plan> {
    let rate = f64::from(requests) * f64::from(shards) / WINDOW.as_secs_f64();
    let route = |part| {
        let step = Step { url: Some(format!("/{part}")), ..Step::default() };
        Scenario { name: format!("r{part}"), weight: 1, step: vec![step], ..Scenario::default() }
    };
    let cores: Vec<usize> = (0..shards as usize).collect();
    let plan = Plan {
        target: "http://127.0.0.1:1/".to_owned(),
        rate: Some(format!("{rate:.3}").parse()?),
        arrivals: Arrivals::Poisson,
        duration: WINDOW,
        warmup: Nanos(0),
        cores: Some(CoreList::new(cores.clone())),
        scenario: if parts == 1 { Vec::new() } else { (0..parts).map(route).collect() },
        ..Plan::default()
    };
    Ok(plan.complete(&cores)?)
}

/// The results of a shard whose requests took about 100 µs, and some of them milliseconds.
fn made_up(plan: &Plan, shard: usize, requests: u32) -> ShardReport {
    let shards = plan.cores().len();
    let (mut recorder, mut digest) =
        (Recorder::new(RecorderConfig::of_plan(plan)), Digest::default());
    let curve = Curve::of_plan(plan).expect("an open plan");
    let share = Share::equal(shard, shards);
    let schedule = Schedule::new(curve, plan.arrivals, plan.seed, plan.end_ns(), share);
    let steps = Mix::of_plan(plan);
    for Arrival { due_ns, number } in schedule {
        digest.add(due_ns);
        let random = mix(number);
        let tail_ns = if random.is_multiple_of(100) { random % 5_000_000 } else { 0 };
        let noticed_ns = due_ns + random % 1_000;
        let sent_ns = noticed_ns + random % 300;
        let received_ns = sent_ns + 50_000 + random % 100_000 + tail_ns;
        let step = steps.step(number);
        let stamps =
            Stamps { intended_ns: due_ns, noticed_ns, sent_ns, waited: false, step, session: None };
        let handled_ns = received_ns + random % 10_000;
        let ending = Ending { received_ns, handled_ns, stamped_by: StampedBy::Kernel };
        recorder.intended(due_ns, false);
        recorder.sent(due_ns, &stamps, sent_ns <= plan.end_ns());
        let in_window = received_ns <= plan.end_ns();
        recorder.ended((number, due_ns), &stamps, ending, in_window, Outcome::Answered(200));
    }
    let (counted, expected) = (recorder.counts.intended as f64, f64::from(requests));
    assert!((counted - expected).abs() < 10.0 * expected.sqrt(), "{counted} requests on a shard");
    let meter = ShardMeter::new(plan.cores()[shard], 0..plan.end_ns());
    let stats = meter.report(&recorder.counts, 0, 0);
    ShardReport { recorder, digest, stats, sampled: None }
}

/// A figure of a file of procfs that counts KiB, in bytes.
fn memory(name: &str, file: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib: u64 = kib.with_context(|| format!("no {name} in {file}"))?.parse()?;
    Ok(kib << 10)
}
