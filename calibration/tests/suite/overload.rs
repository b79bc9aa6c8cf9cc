//! A rate far above what one core offers: the core is the bound, and not the number of connections,
//! all of which are busy since their responses wait for it.

use std::net::SocketAddr;

use calibration::null_target::{NullConfig, start};
use engine::plan::{Arrivals, Plan};
use engine::report::Report;
use engine::report::verdict::{Code, Level};
use engine::run::{Run, prepare};
use engine::sys::placement::allowed_cores;
use engine::sys::units::{CoreList, Nanos};

use crate::support::{alone, note, open, plan};

/// Where others take the target's core, it may be the bound in truth.
const RUNS_MAX: usize = 8;

/// A run of 300 ms at 3 million requests per second from the last core, against a null target on
/// the first.
fn overloaded(warmup: Nanos) -> Report {
    let cores = allowed_cores();
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let on = NullConfig { listen, cores: vec![cores[0]], conns_max: 1_100, tls: false };
    let target = start(on).expect("the null target starts");
    let load = Plan {
        target: format!("http://{}/", target.local_addr()),
        cores: Some(CoreList::new(vec![cores[cores.len() - 1]])),
        conns: Some(1_000),
        arrivals: Arrivals::Constant,
        warmup,
        settle: Nanos(100_000_000),
        duration: Nanos(300_000_000),
        timeout: Nanos::from_secs(1),
        ..open("3M", plan(std::time::Duration::ZERO))
    };
    let run = Run::start(prepare(load).expect("a plan")).expect("it starts");
    let report = run.wait().report;
    target.stop();
    report
}

fn blames_the_core(warmup: Nanos, code: Code) {
    let _cores = alone();
    if allowed_cores().len() < 2 {
        return;
    }
    for _ in 0..RUNS_MAX {
        let report = overloaded(warmup);
        let verdict = &report.verdict;
        assert_eq!((verdict.level, verdict.reasons[0].code), (Level::Invalid, code), "{verdict:?}");
        let held = report.littles_law.held_by_generator();
        if held.is_none_or(|held| held <= 0.5) {
            note(&format!("others took the target's core: responses waited {held:?} of the time"));
            continue;
        }
        assert!(verdict.reasons[0].cure.contains("--cores"), "{verdict:?}");
        assert!(verdict.found().any(|found| found.code == Code::CoreSaturated), "{verdict:?}");
        assert!(verdict.found().all(|found| found.code != Code::CapReached), "{verdict:?}");
        return;
    }
    note("others took the target's core in every run: what the verdict blames was not judged");
}

#[test]
fn requests_that_the_core_could_not_send_are_its_own_doing() {
    blames_the_core(Nanos(0), Code::RateMissed);
}

#[test]
fn a_warm_up_that_took_all_of_the_run_is_the_cores_doing() {
    blames_the_core(Nanos(200_000_000), Code::NothingSent);
}
