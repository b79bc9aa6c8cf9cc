//! Shared by the experiments: the target's configuration, plans, runs, and when a run is repeated
//! because the machine disturbed it.
#![allow(dead_code, reason = "each test file uses its own part of the support")]

use std::fs;
use std::io::{Write as _, stderr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::ensure;
use calibration::observed::{Comparison, Observed, late, observe};
use engine::plan::Plan;
use engine::report::verdict::{Level, Origin, Reason};
use engine::sys::units::Nanos;
use target::TargetConfig;

/// The most runs of an experiment that the machine disturbs.
const RUNS_MAX: usize = 5;
/// The largest share of a run for which the target's thread may wait for its core. Beyond that the
/// machine disturbed it: requests waited where neither the report nor the ledger shows it.
const TARGET_DELAY_MAX: f64 = 0.001;
/// The most failed checks of runs that the kernel's accounts show as undisturbed: they miss a stop
/// of the virtual machine itself, but that doesn't come this often.
const UNDISTURBED_MAX: usize = 3;
/// How often the kernel's account of the target's thread is read.
const ACCOUNT_INTERVAL: Duration = Duration::from_millis(20);

/// Gives a test the cores to itself: the tests of a file run in parallel, experiments must not.
pub fn alone() -> MutexGuard<'static, ()> {
    static CORES: Mutex<()> = Mutex::new(());
    CORES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sample target on a free loopback port.
pub fn sample_target(base: Duration) -> TargetConfig {
    TargetConfig {
        base_latency: base,
        ..TargetConfig::new("127.0.0.1:0".parse().expect("an address"))
    }
}

/// A plan without warm-up.
pub fn plan(duration: Duration) -> Plan {
    let duration = u64::try_from(duration.as_nanos()).expect("seconds");
    Plan { warmup: Nanos(0), duration: Nanos(duration), ..Plan::default() }
}

/// The plan with an arrival rate: an open model.
pub fn open(rate: &str, plan: Plan) -> Plan {
    Plan { rate: Some(rate.parse().expect("a rate")), ..plan }
}

/// One run of an experiment.
pub struct ExperimentRun {
    /// The results of both ends.
    pub observed: Observed,
    /// How long the target's thread was runnable without a core, s.
    pub target_delay_s: f64,
}

/// Runs the plan against the target. Every request must be answered, and counted by both ends.
pub fn run(config: &TargetConfig, plan: &Plan) -> ExperimentRun {
    let over = AtomicBool::new(false);
    let (observed, target_delay_s) = thread::scope(|scope| {
        let account = scope.spawn(|| {
            let mut delay_ns = 0;
            while !over.load(Ordering::Relaxed) {
                delay_ns = target_delay_ns().unwrap_or(delay_ns);
                thread::sleep(ACCOUNT_INTERVAL);
            }
            delay_ns
        });
        let observed = observe(config.clone(), plan.clone());
        over.store(true, Ordering::Relaxed);
        let delay_ns = account.join().expect("reading the account doesn't panic");
        (observed.unwrap_or_else(|error| panic!("{error}")), delay_ns as f64 / 1e9)
    });
    let counts = &observed.report.whole.counts;
    let ledger = &observed.ledger;
    let clue = format!(
        "{counts:?}; the target received {} and answered {} on {:?}",
        ledger.received, ledger.answered, ledger.connections
    );
    assert_eq!(counts.answered, counts.intended, "{clue}");
    let unrecorded = counts.setup.answered + counts.warmup.answered;
    assert_eq!(counts.answered + unrecorded, ledger.answered, "{clue}");
    ExperimentRun { observed, target_delay_s }
}

/// The run-queue delay of the target's thread, ns; `None` if there is no such thread.
fn target_delay_ns() -> Option<u64> {
    let is_target = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("target"))
    };
    let mut tasks = fs::read_dir("/proc/self/task").ok()?.flatten().map(|task| task.path());
    let account = fs::read_to_string(tasks.find(is_target)?.join("schedstat")).ok()?;
    account.split(' ').nth(1)?.parse().ok()
}

impl ExperimentRun {
    /// How the machine disturbed the run: for the generator by its own verdict, for the target by
    /// the kernel's account. `None` if it did not.
    pub fn disturbance(&self) -> Option<String> {
        let mut evidence: Vec<String> =
            self.disturbances().map(|reason| reason.evidence.clone()).collect();
        let window = self.observed.window;
        let share = self.target_delay_s * 1e9 / (window.end_ns - window.begin_ns) as f64;
        if TARGET_DELAY_MAX < share {
            evidence.push(format!("the target waited for its core for {:.2} %", share * 100.0));
        }
        (!evidence.is_empty()).then(|| evidence.join("; "))
    }

    /// True if the hypervisor or other processes took so much of the machine that the verdict calls
    /// the run invalid.
    fn is_invalid(&self) -> bool {
        self.disturbances().any(|reason| {
            reason.level == Level::Invalid && reason.code.rule().origin == Origin::Others
        })
    }

    fn disturbances(&self) -> impl Iterator<Item = &Reason> {
        let reasons = self.observed.report.verdict.found();
        reasons.filter(|reason| reason.code.is_disturbance())
    }
}

/// A check that failed in a run where others may have caused that.
#[derive(Debug, thiserror::Error)]
#[error("not judged: {0}")]
pub struct NotJudged(pub String);

/// Runs the experiment and checks it, at most [`RUNS_MAX`] times while the runs themselves report
/// that the machine disturbed them, and fewer than [`UNDISTURBED_MAX`] times while they don't.
/// Where the machine made every run invalid, or the check is [`NotJudged`] each time, nothing is
/// judged.
pub fn check_runs(
    config: &TargetConfig,
    plan: &Plan,
    check: impl FnMut(&Observed) -> anyhow::Result<()>,
) {
    check_up_to(RUNS_MAX, config, plan, check);
}

/// [`check_runs`] with another limit: short runs need a quiet machine only briefly.
pub fn check_up_to(
    runs_max: usize,
    config: &TargetConfig,
    plan: &Plan,
    mut check: impl FnMut(&Observed) -> anyhow::Result<()>,
) {
    let (mut failed, mut undisturbed, mut not_judged) = (Vec::new(), 0, 0);
    for _ in 0..runs_max {
        let run = run(config, plan);
        let Err(error) = check(&run.observed) else { return };
        let disturbance = run.disturbance();
        undisturbed += usize::from(disturbance.is_none());
        not_judged += usize::from(run.is_invalid() || error.is::<NotJudged>());
        let disturbance = disturbance.unwrap_or_else(|| "nothing disturbed it".to_owned());
        note(&format!("a check failed: {error} ({disturbance})"));
        failed.push(format!("{error} ({disturbance})"));
        assert!(undisturbed < UNDISTURBED_MAX, "{failed:#?}");
    }
    assert_eq!(not_judged, runs_max, "each of {runs_max} runs failed: {failed:#?}");
    note("the machine disturbed every run: nothing was judged");
}

/// Shows a line although the test passes: past the harness, which hides the output of those.
pub fn note(line: &str) {
    writeln!(stderr(), "{line}").expect("stderr");
}

/// Checks that every comparison holds.
pub fn all_hold(observed: &Observed, comparisons: &[Comparison]) -> anyhow::Result<()> {
    for comparison in comparisons {
        ensure!(comparison.holds(), "{comparison:?}, with sends {:?} late", late(&observed.report));
    }
    Ok(())
}
