//! Two shards together do the same as one: the same schedule, and numbers that add up.

use engine::load::curve::Curve;
use engine::load::schedule::{Digest, Schedule};
use engine::load::share::Share;
use engine::plan::{Arrivals, Plan};
use engine::record::outcome::{Cause, Outcome, TimeoutKind};
use engine::record::stamps::{Ending, Stamps};
use engine::report::Traffic;
use engine::report::machine::Machine;
use engine::run::prepare;
use engine::sys::placement::allowed_cores;
use engine::sys::topology::{Attachment, Topology};
use engine::sys::units::{CoreList, Nanos};
use engine::verify::report_alone;

use crate::made_up;
use crate::support::{always_ok, open, plan, run, serve};

/// The digest and the number of arrivals of a plan's schedule, shared by this many shards.
fn planned(plan: &Plan, shards: usize) -> (String, u64) {
    let curve = Curve::of_plan(plan).expect("an open plan");
    let mut whole = Digest::default();
    for shard in 0..shards {
        let mut part = Digest::default();
        let share = Share::equal(shard, shards);
        Schedule::new(curve.clone(), plan.arrivals, plan.seed, plan.end_ns(), share)
            .times_ns()
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
        // Two cores, or the only one.
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

#[test]
fn a_plan_without_cores_gets_the_default_ones_of_the_topology() {
    let address = serve(always_ok);
    let topology = Topology::here();
    let cores = topology.default_cores(&allowed_cores(), &Attachment::default());
    let prepared = prepare(Plan { cores: None, ..plan(address) }).expect("a plan that runs");
    assert_eq!(prepared.plan().cores(), cores, "the loopback is near all cores");
    let one = Plan { cores: None, conns: Some(1), ..plan(address) };
    let prepared = prepare(one).expect("a plan that runs");
    assert_eq!(prepared.plan().cores(), &cores[cores.len() - 1..], "one connection, one shard");
}

#[test]
fn the_report_shows_how_the_shards_cores_and_siblings_spent_their_time() {
    let report = run(plan(serve(always_ok))).report;
    let core = report.config.plan.cores()[0];
    let siblings = Topology::here().siblings(core).map_or(vec![core], <[usize]>::to_vec);
    let times = &report.generator.machine.as_ref().expect("one machine").cores;
    let message: Vec<usize> = times.iter().map(|time| time.core).collect();
    assert_eq!(message, siblings);
    for time in times {
        assert!((0.0..=1.0).contains(&time.busy), "{time:?}");
        assert!((0.0..=time.busy).contains(&time.interrupts), "{time:?}");
        assert!((0.0..=time.interrupts).contains(&time.soft_interrupts), "{time:?}");
    }
    // The shard polled for responses all the time.
    let own = times.iter().find(|time| time.core == core).expect("the shard's core");
    assert!(0.0 < own.busy, "{own:?}");
    assert_eq!(report.environment.network.interrupt_cores, None, "the loopback has none");
}

#[test]
fn the_report_shows_the_network_traffic() {
    let report = run(plan(serve(always_ok))).report;
    let Machine { interface, tcp, .. } = report.generator.machine.as_ref().expect("one machine");
    let (interface, tcp) = (interface.as_ref().expect("known"), tcp.as_ref().expect("known"));
    // On the loopback everything sent is received; other tests use it as well.
    let least = 2 * report.whole.counts.sent_in_window;
    assert_eq!((interface.name.as_str(), interface.speed_mbit), ("lo", None));
    assert!(0 < least && 40 * least <= interface.sent_bytes.min(interface.received_bytes));
    assert!(report.whole.counts.sent_in_window <= tcp.segments_sent, "{tcp:?}");
    // The shards count only their connections, exactly within their window.
    let Traffic { received_bytes, sent_bytes, .. } = report.traffic;
    assert!(least <= received_bytes && received_bytes <= interface.received_bytes);
    assert!(least <= sent_bytes && sent_bytes <= interface.sent_bytes);
    let shard = &report.generator.shards[0];
    assert!(sent_bytes <= shard.sent_bytes && received_bytes <= shard.received_bytes, "{shard:?}");
}

#[test]
fn sixty_four_merged_shards_match_a_single_one() {
    let cores = (0..64).collect::<Vec<_>>();
    let plan = |shards: usize| Plan {
        cores: Some(CoreList::new(cores[..shards].to_vec())),
        duration: Nanos::from_secs(2),
        warmup: Nanos(100_000_000),
        ..open(Plan { target: "http://127.0.0.1:1/".to_owned(), ..Plan::default() }, "64k")
    };
    // Latencies from 1 µs to 130 ms, and each kind of outcome but those of a connection.
    let fate = |due_ns: u64| {
        let mixed = due_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        // Sends keep the order of the arrivals.
        let (noticed_ns, sent_ns) = (due_ns + mixed % 2 * 500, due_ns + 500);
        let waited = noticed_ns < sent_ns;
        let stamps =
            Stamps { intended_ns: due_ns, noticed_ns, sent_ns, waited, step: 0, session: None };
        let ending = Ending::at(sent_ns + 1_000 + mixed % 1_000 * (mixed % 131));
        match mixed % 97 {
            0 => (stamps, ending, Outcome::Failed(Cause::Reset)),
            1 => (stamps, ending, Outcome::TimedOut(TimeoutKind::Timeout)),
            2 => (stamps, ending, Outcome::Answered(503)),
            3 => (stamps, ending, Outcome::Abandoned),
            _ => (stamps, ending, Outcome::Answered(200)),
        }
    };
    let merged = |shards: usize| {
        let plan = plan(shards).complete(&cores).expect("a plan that runs");
        let shard = |shard| made_up::record(&plan, (shard, shards), fate, |_, _, _| {});
        made_up::report(&plan, (0..shards).map(shard).collect(), None)
    };
    let one = merged(1);
    assert!(100_000 < one.whole.counts.intended, "{:?}", one.whole.counts);
    for shards in [2, 16, 64] {
        let many = merged(shards);
        assert_eq!(many.whole, one.whole, "{shards} shards");
        assert_eq!(many.config.schedule_digest, one.config.schedule_digest, "{shards} shards");
        let wrong = report_alone(&many).into_iter().filter(|finding| !finding.ok);
        assert_eq!(wrong.collect::<Vec<_>>(), [], "{shards} shards");
    }
}
