//! The command `demo`: coordinated omission on one stalling target, measured in a closed loop and
//! by arrival rate.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use engine::plan::body::SharedBody;
use engine::plan::{Plan, Wait};
use engine::report::Report;
use engine::sys::placement;
use engine::sys::topology::{Attachment, Topology};
use engine::sys::units::{CoreList, Nanos};
use target::{Stall, TargetConfig};

use crate::args::DemoArgs;
use crate::drive::drive;
use crate::failure::{EXIT_INTERRUPTED, Failure};
use crate::output::{OutputFile, Results, say};
use crate::progress::View;
use crate::signals::StopRequest;
use crate::text::demo::{Stalls, begins, doubts, explanation, tables};
use crate::{json, target_server};

/// The target's latency between its stalls.
const BASE_LATENCY: Duration = Duration::from_millis(1);
/// From the start of one stall to the start of the next.
const STALL_EVERY: Duration = Duration::from_secs(2);
/// Length of a stall: a tenth of the time, so that p99 is well within it.
const STALL_FOR: Duration = Duration::from_millis(200);
/// The rate of the open run: about what one connection reaches in the closed loop, and far below
/// what the target can handle.
const RATE: &str = "800";
/// Connections of the open run, opened in advance: during a stall 160 requests arrive and wait, and
/// chance may add to them.
const PREWARM: usize = 250;
/// Load before each window, while connections open.
const WARMUP: Nanos = Nanos(500_000_000);

/// Measures the target both ways and explains the difference.
pub(crate) fn demo(args: DemoArgs) -> Result<ExitCode, Failure> {
    fs::create_dir_all(&args.out_dir).map_err(|error| {
        Failure::Usage(format!(
            "--out-dir {}: can't be created ({error}); name a folder where you may write",
            args.out_dir.display()
        ))
    })?;
    let view = View::of(args.progress.shown()?);
    let stop = StopRequest::listen()?;
    let open_file = |name| OutputFile::open("--out-dir", &args.out_dir.join(name), &stop);
    let (closed_file, open_file) = (open_file("closed.json")?, open_file("open.json")?);

    let allowed = placement::allowed_cores();
    let cores = Topology::here().default_cores(&allowed, &Attachment::default());
    let (target_core, run_core) = (allowed[0], cores[cores.len() - 1]);
    let config = TargetConfig {
        base_latency: BASE_LATENCY,
        stall: Some(Stall { every: STALL_EVERY, hold: STALL_FOR }),
        cores: vec![target_core],
        ..TargetConfig::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    };
    let target = target_server::start(config)?;
    let plan = Plan {
        target: format!("http://{}/", target.local_addr()),
        duration: args.duration,
        warmup: WARMUP,
        cores: Some(CoreList::new(vec![run_core])),
        // A polling shard is never late from sleeping; that takes a core of its own.
        wait: if run_core == target_core { Wait::Sleep } else { Wait::Spin },
        ..Plan::default()
    };
    say(&begins(args.duration, RATE))?;
    let closed = Plan { conns: Some(1), ..plan.clone() };
    let rate = Some(RATE.parse().expect("the rate is a constant"));
    let open = Plan { rate, prewarm: Some(PREWARM), ..plan };
    let mut reports = Vec::new();
    let mut results = Results::default();
    for (plan, file) in [(closed, closed_file), (open, open_file)] {
        let (finished, _) = drive(plan, &SharedBody::default(), &stop, view)?;
        results.add(file.finish(|writer| json::write(&finished.report, writer)));
        let interrupted = finished.report.interrupted;
        reports.push(finished.report);
        if interrupted {
            break;
        }
    }
    let stopped = target.stop().map_err(|error| Failure::CouldNotRun(error.to_string()));
    results.failures.extend(stopped.err());
    let written = results.written.join(", ");
    let (said, done) = match &reports[..] {
        [closed, open] if !open.interrupted => {
            let files = if results.failures.is_empty() { "\nReports" } else { "\nWritten" };
            (show(closed, open, &format!("{files}: {written}\n")), ExitCode::SUCCESS)
        }
        _ => {
            let said = say(&format!("interrupted; written so far: {written}\n"));
            (said, ExitCode::from(EXIT_INTERRUPTED))
        }
    };
    results.failures.extend(said.err());
    Ok(results.exit_code(done))
}

fn show(closed: &Report, open: &Report, last: &str) -> Result<(), Failure> {
    let us = |duration: Duration| duration.as_secs_f64() * 1e6;
    let stalls =
        Stalls { every_us: us(STALL_EVERY), hold_us: us(STALL_FOR), base_us: us(BASE_LATENCY) };
    say(&tables(closed, open))?;
    say("\n")?;
    say(&explanation(closed, open, stalls))?;
    if let Some(doubts) = doubts(open) {
        say("\n")?;
        say(&doubts)?;
    }
    say(last)
}
