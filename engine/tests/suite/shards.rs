//! Two shards do together what one does alone: the same schedule, and numbers that add up.

use engine::load::schedule::{Digest, Schedule};
use engine::plan::{Arrivals, Plan};
use engine::sys::placement::allowed_cores;
use engine::sys::units::CoreList;

use crate::support::{always_ok, open, plan, run, serve};

/// The digest and the number of arrivals of a plan's schedule, as so many shards share it.
fn planned(plan: &Plan, shards: usize) -> (String, u64) {
    let rate = plan.rate.expect("an open plan");
    let mut whole = Digest::default();
    for shard in 0..shards {
        let mut part = Digest::default();
        Schedule::new(rate, plan.arrivals, plan.seed, plan.end_ns(), shard, shards)
            .for_each(|due_ns| part.add(due_ns));
        whole.merge(part);
    }
    (whole.hex(), whole.arrivals())
}

#[test]
fn the_schedule_is_the_same_on_any_number_of_shards() {
    let address = serve(always_ok);
    let allowed = allowed_cores();
    for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
        let of_seed = |seed| Plan { seed, arrivals, ..open(plan(address), "1k") };
        let expected = planned(&of_seed(5), 1);
        for shards in 2..=4 {
            assert_eq!(planned(&of_seed(5), shards), expected, "{arrivals:?} on {shards}");
        }
        if arrivals == Arrivals::Poisson {
            assert_ne!(planned(&of_seed(6), 2), expected);
        }
        // Two cores, or the one that there is.
        for cores in [1, allowed.len().min(2)] {
            let cores = Some(CoreList::new(allowed[..cores].to_vec()));
            let report = run(Plan { cores, ..of_seed(5) }).report;
            let counts = &report.whole.counts;
            assert_eq!(counts.answered, counts.intended, "{counts:?}");
            let digest = report.config.schedule_digest.expect("an open model has one");
            assert_eq!((digest, counts.intended), expected, "{arrivals:?}");
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
