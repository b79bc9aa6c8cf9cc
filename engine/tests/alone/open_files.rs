//! Open files: the limit is raised from soft to hard before a run, and a run leaves none behind.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use engine::host;
use engine::plan::Plan;
use engine::sys::units::Nanos;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::{always_ok, open, plan, run, serve};

#[test]
fn the_soft_limit_of_open_files_is_raised_to_the_hard_one() {
    let _process = crate::process();
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(128), maximum: hard })
        .expect("lowering needs no privilege");

    assert_eq!(host::require(300, 0, 1), Ok(()), "300 connections fit under the hard limit");
    assert_eq!(getrlimit(Resource::Nofile).current, hard);
}

#[test]
fn the_runs_of_one_process_leave_no_descriptor_and_no_thread_behind() {
    let _process = crate::process();
    let count = |of: &str| fs::read_dir(format!("/proc/self/{of}")).expect("a list").count();
    let there = || (count("fd"), count("task"));
    let address = serve(always_ok);
    let short = || Plan { duration: Nanos(50_000_000), ..open(plan(address), "100") };
    // What the first run opens permanently stays open.
    run(short());
    let before = there();
    for _ in 0..8 {
        run(short());
    }
    // The server's threads end when they see that their connections have.
    let begun = Instant::now();
    while there() != before {
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}, {before:?} before", there());
        thread::sleep(Duration::from_millis(10));
    }
}
