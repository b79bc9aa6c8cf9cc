//! The instrument's counts against the witness's ledger: for each model, number of shards, with and
//! without warm-up, no request is missing from either and none is counted twice.

use std::time::Duration;

use engine::plan::{Arrivals, Plan};
use engine::sys::placement;
use engine::sys::units::{CoreList, Nanos};
use target::TargetConfig;

use crate::support::{alone, open, plan, run, witness};

/// The plan with each number of shards that the machine has cores for, with and without warm-up,
/// against a witness with a tail: so that requests overtake each other and some are in flight at
/// both edges of the window.
fn check(of_model: &Plan) {
    let _cores = alone();
    let config = TargetConfig {
        tail_fraction: 0.02,
        tail_latency: Duration::from_millis(8),
        ..witness(Duration::from_micros(300))
    };
    let allowed = placement::allowed_cores();
    for shards in 1..=allowed.len().min(2) {
        for warmup_ns in [0, 150_000_000] {
            let plan = Plan {
                warmup: Nanos(warmup_ns),
                settle: Nanos(100_000_000),
                cores: Some(CoreList::new(allowed[allowed.len() - shards..].to_vec())),
                ..of_model.clone()
            };
            let observed = run(&config, &plan);
            let (counts, ledger) = (&observed.report.whole.counts, &observed.ledger);
            counts.assert_sums();
            let clue = format!("{shards} shards, {warmup_ns} ns: {counts:?}");
            let answered = counts.answered + counts.warmup.answered + counts.setup.answered;
            let sent = counts.sent + counts.warmup.sent + counts.setup.sent;
            assert_eq!((answered, sent), (ledger.answered, ledger.received), "{clue}");
            assert_eq!(0 < counts.warmup.sent, 0 < warmup_ns, "{clue}");
            assert!(50 < counts.answered, "{clue}");
            assert_eq!(
                (ledger.in_flight, ledger.closed_by_peer_unanswered, ledger.rejected),
                (0, 0, 0),
                "{clue}"
            );
            let held = ledger.held.decode().expect("a histogram");
            assert_eq!(
                (ledger.held.count, held.len()),
                (ledger.answered, ledger.answered),
                "{clue}"
            );
            // The probe that a run begins with is one connection more.
            assert_eq!(ledger.connections.accepted, counts.connects + 1, "{clue}");
            let arrivals: u64 = ledger.arrivals_per_ms.counts.iter().map(|n| u64::from(*n)).sum();
            assert_eq!(arrivals, ledger.received, "{clue}");
            // The schedule begins with the warm-up: what the set-up sent is not of it.
            let scheduled = observed.report.config.schedule_arrivals;
            let since_epoch = ledger.received - counts.setup.sent;
            assert!(scheduled.is_none_or(|arrivals| arrivals == since_epoch), "{clue}");
        }
    }
}

#[test]
fn both_count_alike_with_poisson_arrivals() {
    check(&open("2k", plan(Duration::from_millis(500))));
}

#[test]
fn both_count_alike_with_equal_gaps() {
    let plan = open("2k", plan(Duration::from_millis(500)));
    check(&Plan { arrivals: Arrivals::Constant, ..plan });
}

#[test]
fn both_count_alike_in_a_closed_loop() {
    check(&Plan { conns: Some(5), ..plan(Duration::from_millis(500)) });
}

#[test]
fn both_count_alike_in_a_paced_closed_loop() {
    let plan = plan(Duration::from_millis(500));
    check(&Plan { conns: Some(5), period: Some(Nanos(5_000_000)), ..plan });
}
