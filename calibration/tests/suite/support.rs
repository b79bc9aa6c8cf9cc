//! What the experiments of the tests have in common: the witness's settings, a plan, and how often
//! a busy machine may try.
#![allow(dead_code, reason = "each test file uses its own part of the support")]

use std::io::{Write as _, stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use calibration::experiment::{Finding, Observed, observe};
use engine::plan::Plan;
use engine::sys::units::Nanos;
use target::TargetConfig;

/// A machine shared with others stops a run now and then; an instrument that lies does so each
/// time.
const ATTEMPTS_MAX: usize = 3;
/// The sends of a run that says something about latencies of milliseconds are not later than this,
/// p99.
const LATENESS_MAX_MS: f64 = 10.0;

/// Experiments need the cores for themselves, and the tests of a file run at once.
pub fn alone() -> MutexGuard<'static, ()> {
    static CORES: Mutex<()> = Mutex::new(());
    CORES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A witness on a free port of the loopback.
pub fn witness(base: Duration) -> TargetConfig {
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

/// The plan as an open one.
pub fn open(rate: &str, plan: Plan) -> Plan {
    Plan { rate: Some(rate.parse().expect("a rate")), ..plan }
}

/// Runs the experiment; every request of it must be answered, and counted so by both ends.
pub fn run(config: &TargetConfig, plan: &Plan) -> Observed {
    let observed = observe(config.clone(), plan.clone()).unwrap_or_else(|error| panic!("{error}"));
    let counts = &observed.report.whole.counts;
    let ledger = &observed.ledger;
    let clue = format!(
        "{counts:?}; the target received {} and answered {} on {:?}",
        ledger.received, ledger.answered, ledger.connections
    );
    assert_eq!(counts.answered, counts.intended, "{clue}");
    let unrecorded = counts.setup.answered + counts.warmup.answered;
    assert_eq!(counts.answered + unrecorded, ledger.answered, "{clue}");
    observed
}

/// Whether all findings hold, with the sends not too late to say so.
pub fn judge(observed: &Observed, findings: &[Finding]) -> Result<(), String> {
    let lateness_ms = observed.lateness_p99_ms();
    if LATENESS_MAX_MS < lateness_ms {
        return Err(format!("sends were late by {lateness_ms} ms"));
    }
    match findings.iter().find(|finding| !finding.holds()) {
        None => Ok(()),
        Some(finding) => Err(format!("{finding:?}, sends late by {lateness_ms} ms")),
    }
}

/// Panics when the attempt fails each time, with what it said.
pub fn succeed(attempt: impl FnMut() -> Result<(), String>) {
    succeed_once_in(ATTEMPTS_MAX, attempt);
}

/// The same with another number of attempts: a short one needs a machine that is quiet for a short
/// time only.
pub fn succeed_once_in(attempts_max: usize, mut attempt: impl FnMut() -> Result<(), String>) {
    let mut problems = Vec::new();
    for number in 1..=attempts_max {
        match attempt() {
            Ok(()) => return,
            Err(problem) => {
                // Written past the harness, which hides the output of tests that pass: a retry must
                // not hide an intermittent fault.
                writeln!(stderr(), "attempt {number} of {attempts_max}: {problem}")
                    .expect("stderr");
                problems.push(problem);
            }
        }
    }
    panic!("each of {attempts_max} attempts failed: {problems:#?}");
}
