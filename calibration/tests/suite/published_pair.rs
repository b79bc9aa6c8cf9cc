//! Two cases that others have published or worked out by hand, reproduced over real HTTP: one
//! server of 1 ms that pauses for 200 ms every 500 requests, seen closed and open; and one slow
//! request in a paced loop.

use std::time::Duration;

use calibration::truth::Truth;
use engine::plan::{Arrivals, Plan};
use engine::sys::units::Nanos;
use target::{Pause, TargetConfig};

use crate::support::{alone, judge, open, plan, run, succeed, succeed_once_in, witness};

fn pausing() -> TargetConfig {
    TargetConfig {
        serial: true,
        pause: Some(Pause { every_requests: 500, hold: Duration::from_millis(200) }),
        ..witness(Duration::from_millis(1))
    }
}

/// 4,500 arrivals at equal gaps in 10 s. The model is a FIFO server of 1 ms whose requests 500,
/// 1,000, … take 200 ms each, from beginning to end as the ledger has them: those behind wait 0.55
/// ms less for each ms that they come later, p99 near 193 ms.
#[test]
fn open_load_waits_behind_the_pauses() {
    let _cores = alone();
    succeed(|| {
        let plan = open("450", plan(Duration::from_secs(10)));
        let observed = run(&pausing(), &Plan { arrivals: Arrivals::Constant, ..plan });
        assert_eq!(observed.report.whole.counts.answered, 4_500);
        assert_eq!(observed.ledger.pause_count, 9);
        let truth = Truth::pausing(1.0, 450.0, &observed.ledger.pauses, observed.window);
        let predicted_ms = truth.quantile_ms(0.99);
        assert!((190.0..198.0).contains(&predicted_ms), "{predicted_ms}");
        let findings = observed.findings(&truth, &[0.5, 0.9, 0.99, 0.999]).expect("a histogram");
        judge(&observed, &findings)
    });
}

/// The same server asked by one user who waits for each answer: of 500 requests one meets the
/// pause, so p99 is the service.
#[test]
fn a_closed_loop_waits_for_one_request_in_500() {
    let _cores = alone();
    succeed(|| {
        let observed = run(&pausing(), &Plan { conns: Some(1), ..plan(Duration::from_secs(4)) });
        assert_eq!(observed.ledger.pause_count, observed.ledger.received / 500);
        if observed.ledger.pause_count < 2 {
            return Err(format!("{} requests in 4 s", observed.ledger.received));
        }
        let ms = |q| observed.naive.quantile_ns(q).expect("values") as f64 / 1e6;
        let (p99_ms, p999_ms) = (ms(0.99), ms(0.999));
        assert!(1.0 <= p99_ms && 200.0 <= p999_ms, "{p99_ms} {p999_ms}");
        // On a quiet machine p99 is 1.1 ms; a tenth of what the open load sees leaves room for a
        // busy one.
        if 19.3 < p99_ms || 220.0 < p999_ms {
            return Err(format!("p99 {p99_ms} ms, p99.9 {p999_ms} ms"));
        }
        Ok(())
    });
}

/// A request is due every 10 ms for 100 ms; nine take 2 ms and the sixth 35 ms, as a pause every
/// six requests. The requests' own mean is (9·2 + 35)/10 = 5.3 ms; the users behind wait 27, 19, 11
/// and 3 ms, so theirs is 105/10 = 10.5 ms.
#[test]
fn one_slow_request_of_a_paced_loop_is_charged_to_those_behind() {
    let _cores = alone();
    let config = TargetConfig {
        serial: true,
        pause: Some(Pause { every_requests: 6, hold: Duration::from_millis(35) }),
        ..witness(Duration::from_millis(2))
    };
    let plan = Plan {
        conns: Some(1),
        period: Some(Nanos(10_000_000)),
        ..plan(Duration::from_millis(100))
    };
    succeed_once_in(30, || {
        let whole = run(&config, &plan).report.whole;
        assert_eq!(whole.counts.answered, 10, "{:?}", whole.counts);
        let naive_ms = whole.naive.mean.expect("values") / 1e3;
        let users_ms = whole.corrected.mean.expect("values") / 1e3;
        // The target is never early, so neither figure can be.
        assert!(5.3 <= naive_ms && 10.5 <= users_ms, "{naive_ms} {users_ms}");
        if 5.8 < naive_ms || 12.0 < users_ms || whole.counts.waited != 4 {
            let waited = whole.counts.waited;
            return Err(format!("naive mean {naive_ms} ms, {users_ms} ms with {waited} waiting"));
        }
        Ok(())
    });
}
