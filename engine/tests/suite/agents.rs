//! Several agents offer together what one process does alone: the same requests, begun at one
//! moment that is given from outside.

use std::time::{Duration, Instant};

use engine::load::share::Share;
use engine::plan::{Arrivals, Model, Plan};
use engine::run::{Finished, Prepared, Run, prepare};
use engine::sys::clock;
use engine::sys::placement::allowed_cores;
use engine::sys::units::{CoreList, Nanos};

use crate::support::{always_ok, open, plan, run, serve};

/// A held run of this share, once it is ready.
fn ready(plan: &Plan, share: Share) -> Run {
    let prepared: Prepared = prepare(plan.clone()).expect("a plan that runs").with_share(share);
    let held = Run::start_held(prepared, None).expect("shards start");
    let begun = Instant::now();
    while !held.is_ready() {
        assert!(begun.elapsed() < Duration::from_secs(30), "set up in time");
        std::thread::sleep(Duration::from_millis(1));
    }
    held
}

/// Runs a plan on three agents with unequal weights, the second with two shards where there are two
/// cores.
fn on_three(plan: &Plan) -> Vec<Finished> {
    let allowed = allowed_cores();
    let on = |cores: usize| {
        let cores = allowed[..cores.min(allowed.len())].to_vec();
        Plan { cores: Some(CoreList::new(cores)), ..plan.clone() }
    };
    let agents: Vec<Run> = [(0..1, 1), (1..3, 2), (3..6, 1)]
        .into_iter()
        .map(|(units, cores)| ready(&on(cores), Share::units(units, 6)))
        .collect();
    let epoch_ns = clock::now_ns() + 200_000_000;
    for agent in &agents {
        assert!(agent.window().is_none(), "nothing begins before it is told to");
        agent.begin_at(epoch_ns).expect("the moment is ahead");
    }
    let finished: Vec<Finished> = agents.into_iter().map(Run::wait).collect();
    assert!(finished.iter().all(|finished| finished.epoch_ns == epoch_ns));
    finished
}

#[test]
fn agents_offer_together_the_schedule_of_one() {
    for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
        let plan = Plan { arrivals, seed: 5, ..open(plan(serve(always_ok)), "1k") };
        let alone = run(plan.clone()).report;
        let digest = |report: &engine::report::Report| {
            let config = &report.config;
            let value = config.schedule_digest.as_deref().expect("an open model has one");
            let value = u128::from_str_radix(value, 16).expect("hexadecimal digits");
            let arrivals = config.schedule_arrivals.expect("an open model has arrivals");
            engine::load::schedule::Digest::from_value(value, arrivals)
        };
        let mut together = engine::load::schedule::Digest::default();
        for finished in on_three(&plan) {
            let counts = &finished.report.whole.counts;
            assert!(0 < counts.intended && counts.answered == counts.intended, "{counts:?}");
            together.merge(digest(&finished.report));
        }
        assert_eq!(together, digest(&alone), "{arrivals:?}");
    }
}

#[test]
fn agents_open_together_as_many_connections_as_one() {
    let closed = Plan { model: Some(Model::Closed), conns: Some(13), ..plan(serve(always_ok)) };
    let period = Some(Nanos(20_000_000));
    for plan in [closed.clone(), Plan { period, ..closed }] {
        let connects = |finished: Finished| finished.report.whole.counts.connects;
        let each: Vec<u64> = on_three(&plan).into_iter().map(connects).collect();
        // Of every six, one, two and three; the thirteenth is the first agent's.
        assert_eq!(each, [3, 4, 6]);
    }
}

#[test]
fn a_moment_that_has_passed_begins_nothing_and_a_held_run_can_be_called_off() {
    let held = ready(&open(plan(serve(always_ok)), "1k"), Share::whole());
    let passed = held.begin_at(clock::now_ns() - 5).expect_err("it has passed");
    assert!(5 <= passed.by_ns, "{passed}");
    assert!(held.window().is_none());
    held.cancel();
}
