//! Two shards do together what one does alone: the same schedule, and numbers that add up.

mod support;

use engine::plan::{Arrivals, Plan};
use engine::sys::placement::allowed_cores;
use engine::sys::units::CoreList;
use support::{always_ok, open, plan, run, serve};

#[test]
fn the_schedule_is_the_same_on_one_shard_and_on_two() {
    let address = serve(always_ok);
    let allowed = allowed_cores();
    if allowed.len() < 2 {
        // One core can't carry two shards; the schedule's own tests hold for any number of them.
        return;
    }
    let one = CoreList::new(allowed[..1].to_vec());
    let two = CoreList::new(allowed[..2].to_vec());
    for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
        let digest = |cores: &CoreList, seed: u64| {
            let plan =
                Plan { cores: Some(cores.clone()), seed, arrivals, ..open(plan(address), "1k") };
            let report = run(plan).report;
            let counts = &report.whole.counts;
            assert_eq!(counts.answered, counts.intended, "{counts:?}");
            (report.config.schedule_digest.expect("an open model has one"), counts.intended)
        };
        assert_eq!(digest(&one, 5), digest(&two, 5), "{arrivals:?}");
        if arrivals == Arrivals::Poisson {
            assert_ne!(digest(&two, 6), digest(&two, 5));
        }
    }
}

#[test]
fn connections_that_do_not_divide_are_all_used() {
    let allowed = allowed_cores();
    let address = serve(always_ok);
    let cores = CoreList::new(allowed.iter().copied().take(2).collect());
    let counts =
        run(Plan { conns: Some(5), cores: Some(cores), ..plan(address) }).report.whole.counts;
    assert_eq!(counts.connects, 5);
}
