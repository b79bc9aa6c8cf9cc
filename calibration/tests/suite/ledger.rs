//! The report's counts compared with the target's ledger: for each model and number of shards, with
//! and without warm-up, no request is missing from either and none is counted twice.

use std::time::Duration;

use crate::support::{alone, open, plan, run, sample_target};
use engine::plan::{Arrivals, Http, Plan, Switch};
use engine::sys::placement;
use engine::sys::units::{CoreList, Nanos};
use target::{Http2, TargetConfig};

/// Runs the plan on one and, if there are cores, on two shards, with and without warm-up. The
/// target has a tail, so that requests overtake each other and some are in flight at both edges of
/// the window.
fn check(of_model: &Plan) {
    check_with(Http2::default(), of_model);
}

/// The same with a target that treats HTTP/2 connections like this.
fn check_with(http2: Http2, of_model: &Plan) {
    let _cores = alone();
    let config = TargetConfig {
        http2,
        tail_fraction: 0.02,
        tail_latency: Duration::from_millis(8),
        ..sample_target(Duration::from_micros(300))
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
            let observed = run(&config, &plan).observed;
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
            // The probe at the start of a run is one more connection. Where the target ends
            // connections, others may still be opening at the end.
            let (accepted, opened) = (ledger.connections.accepted, counts.connects + 1);
            let ends = http2.goaway_every.is_some();
            assert!(accepted == opened || ends && opened < accepted, "{accepted}, {clue}");
            assert_eq!(0 < counts.goaways, ends, "{clue}");
            assert!(ends || counts.requeued == 0, "{clue}");
            let arrivals: u64 = ledger.arrivals_per_ms.counts.iter().map(|n| u64::from(*n)).sum();
            assert_eq!(arrivals, ledger.received, "{clue}");
            // The schedule begins with the warm-up, so requests of the setup are not part of it.
            let scheduled = observed.report.config.schedule_arrivals;
            let since_epoch = ledger.received - counts.setup.sent;
            assert!(scheduled.is_none_or(|arrivals| arrivals == since_epoch), "{clue}");
        }
    }
}

#[test]
fn open_with_poisson_arrivals() {
    check(&open("2k", plan(Duration::from_millis(500))));
}

#[test]
fn open_with_arrivals_at_equal_gaps() {
    let plan = open("2k", plan(Duration::from_millis(500)));
    check(&Plan { arrivals: Arrivals::Constant, ..plan });
}

#[test]
fn closed() {
    check(&Plan { conns: Some(5), ..plan(Duration::from_millis(500)) });
}

#[test]
fn closed_with_a_period() {
    let plan = plan(Duration::from_millis(500));
    check(&Plan { conns: Some(5), period: Some(Nanos(5_000_000)), ..plan });
}

#[test]
fn open_over_http_2() {
    let plan = Plan { http: Http::V2, ..plan(Duration::from_millis(500)) };
    check(&open("2k", plan.clone()));
    check(&Plan { keepalive: Switch::Off, ..open("300", plan.clone()) });
    let stages = ["300:200ms", "300..1200:300ms"].map(|text| text.parse().expect("a stage"));
    check(&Plan { stage: stages.to_vec(), ..plan });
}

#[test]
fn closed_over_http_2() {
    let plan = Plan { http: Http::V2, conns: Some(5), ..plan(Duration::from_millis(500)) };
    check(&Plan { streams: Some(3), ..plan.clone() });
    check(&Plan { keepalive: Switch::Off, ..plan.clone() });
    check(&Plan { period: Some(Nanos(5_000_000)), streams: Some(3), ..plan });
}

#[test]
fn over_http_2_to_a_target_that_ends_connections() {
    let http2 = Http2 { goaway_every: Some(20), ..Http2::default() };
    let plan = Plan { http: Http::V2, conns: Some(5), ..plan(Duration::from_millis(500)) };
    check_with(http2, &open("2k", plan.clone()));
    check_with(http2, &Plan { streams: Some(10), ..plan });
}
