//! Two published examples of coordinated omission, reproduced over real HTTP: a server of 1 ms that
//! pauses for 200 ms every 500 requests, under closed and open load; and one slow request in a
//! paced loop.

use std::time::Duration;

use crate::support::{all_hold, alone, check_runs, check_up_to, open, plan, sample_target};
use anyhow::ensure;
use calibration::truth::Truth;
use engine::plan::{Arrivals, Plan};
use engine::sys::units::Nanos;
use target::{Pause, TargetConfig};

fn pausing() -> TargetConfig {
    TargetConfig {
        serial: true,
        pause: Some(Pause { every_requests: 500, hold: Duration::from_millis(200) }),
        ..sample_target(Duration::from_millis(1))
    }
}

/// 4,500 arrivals at equal gaps in 10 s. The model is a FIFO server of 1 ms whose requests 500,
/// 1,000, … take 200 ms each, at the times in the ledger: each later request waits 0.55 ms less per
/// ms, p99 is near 193 ms.
#[test]
fn open_load_waits_behind_the_pauses() {
    let _cores = alone();
    let plan = open("450", plan(Duration::from_secs(10)));
    check_runs(&pausing(), &Plan { arrivals: Arrivals::Constant, ..plan }, |observed| {
        assert_eq!(observed.report.whole.counts.answered, 4_500);
        assert_eq!(observed.ledger.pause_count, 9);
        let truth = Truth::pausing(1.0, 450.0, &observed.ledger.pauses, observed.window);
        let predicted_ms = truth.quantile_ms(0.99);
        assert!((190.0..198.0).contains(&predicted_ms), "{predicted_ms}");
        all_hold(observed, &observed.compare(&truth, &[0.5, 0.9, 0.99, 0.999])?)
    });
}

/// The same server under a closed loop on one connection: one of 500 requests meets the pause, so
/// p99 is the service time.
#[test]
fn a_closed_loop_waits_for_one_request_in_500() {
    let _cores = alone();
    let closed = Plan { conns: Some(1), ..plan(Duration::from_secs(4)) };
    check_runs(&pausing(), &closed, |observed| {
        assert_eq!(observed.ledger.pause_count, observed.ledger.received / 500);
        ensure!(2 <= observed.ledger.pause_count, "{} requests in 4 s", observed.ledger.received);
        let ms = |q| observed.naive.quantile_ns(q).expect("values") as f64 / 1e6;
        let (p99_ms, p999_ms) = (ms(0.99), ms(0.999));
        assert!(1.0 <= p99_ms && 200.0 <= p999_ms, "{p99_ms} {p999_ms}");
        // On a quiet machine p99 is 1.1 ms; a tenth of the open load's p99 leaves room for a busy
        // one.
        ensure!(p99_ms <= 19.3 && p999_ms <= 220.0, "p99 {p99_ms} ms, p99.9 {p999_ms} ms");
        Ok(())
    });
}

/// A request is due every 10 ms for 100 ms; nine take 2 ms and the sixth 35 ms, as a pause every
/// six requests. The naive mean is (9·2 + 35)/10 = 5.3 ms; the four requests behind the slow one
/// wait 27, 19, 11 and 3 ms, so the corrected mean is 105/10 = 10.5 ms.
#[test]
fn one_slow_request_of_a_paced_loop_is_charged_to_those_behind() {
    let _cores = alone();
    let config = TargetConfig {
        serial: true,
        pause: Some(Pause { every_requests: 6, hold: Duration::from_millis(35) }),
        ..sample_target(Duration::from_millis(2))
    };
    let plan = Plan {
        conns: Some(1),
        period: Some(Nanos(10_000_000)),
        ..plan(Duration::from_millis(100))
    };
    check_up_to(200, &config, &plan, |observed| {
        let whole = &observed.report.whole;
        assert_eq!(whole.counts.answered, 10, "{:?}", whole.counts);
        let naive_ms = whole.naive.mean.expect("values") / 1e3;
        let corrected_ms = whole.corrected.mean.expect("values") / 1e3;
        // The target is never early, so neither figure can be lower.
        assert!(5.3 <= naive_ms && 10.5 <= corrected_ms, "{naive_ms} {corrected_ms}");
        let waited = whole.counts.waited;
        ensure!(
            naive_ms <= 5.8 && corrected_ms <= 12.0 && waited == 4,
            "naive mean {naive_ms} ms, corrected mean {corrected_ms} ms, {waited} waited"
        );
        Ok(())
    });
}
