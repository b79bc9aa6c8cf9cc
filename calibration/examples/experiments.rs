//! Calibration experiments at full length: predicted, measured and logged latencies in one table,
//! with the band for each. Takes about five minutes on a quiet machine; exits 1 if a figure is
//! outside its band.
//!
//! `cargo run --release -p calibration --example experiments`

use std::process::ExitCode;
use std::time::Duration;

use calibration::experiment::{Comparison, ExperimentError, Observed, observe};
use calibration::truth::Truth;
use engine::plan::{Arrivals, Plan};
use engine::sys::units::Nanos;
use target::{Pause, Stall, TargetConfig};

const QUANTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

fn sample_target(base: Duration) -> TargetConfig {
    TargetConfig { base_latency: base, ..TargetConfig::new(([127, 0, 0, 1], 0).into()) }
}

/// A target that stalls for 50 ms every second.
fn stalling(base: Duration) -> TargetConfig {
    TargetConfig {
        stall: Some(Stall { every: Duration::from_secs(1), hold: Duration::from_millis(50) }),
        ..sample_target(base)
    }
}

fn plan(seconds: u64, rate: Option<&str>, arrivals: Arrivals) -> Plan {
    Plan {
        warmup: Nanos(0),
        duration: Nanos::from_secs(seconds),
        rate: rate.map(|rate| rate.parse().expect("a rate")),
        arrivals,
        ..Plan::default()
    }
}

fn closed(seconds: u64) -> Plan {
    Plan { conns: Some(1), ..plan(seconds, None, Arrivals::Poisson) }
}

fn print_head(title: &str, observed: &Observed) {
    let us = |value: Option<f64>| value.unwrap_or(f64::NAN);
    let (counts, whole) = (&observed.report.whole.counts, &observed.report.whole);
    println!(
        "\n{title}\n  {} intended, {} answered, ledger {}; pacer lateness p99 {:.1} us, \
         connection wait p99 {:.1} us",
        counts.intended,
        counts.answered,
        observed.ledger.answered,
        us(whole.pacer_lateness.quantile_us(0.99)),
        us(whole.connection_wait.quantile_us(0.99)),
    );
}

/// Prints the comparisons; returns whether all hold.
fn print_comparisons(title: &str, observed: &Observed, comparisons: &[Comparison]) -> bool {
    print_head(title, observed);
    println!("          predicted   measured     ledger   band, ms");
    for comparison in comparisons {
        println!(
            "  {:>6} {:>10.3} {:>10.3} {:>10.3}   {:>8.3} .. {:<8.3} {}",
            comparison.name,
            comparison.predicted_ms,
            comparison.measured_ms,
            comparison.held_ms,
            comparison.band_ms.0,
            comparison.band_ms.1,
            if comparison.holds() { "ok" } else { "OUTSIDE" }
        );
    }
    let counts = &observed.report.whole.counts;
    counts.answered == observed.ledger.answered && comparisons.iter().all(Comparison::holds)
}

fn print_closed(title: &str, observed: &Observed) {
    print_head(title, observed);
    let quantiles = QUANTILES.map(|q| {
        let ms = observed.naive.quantile_ns(q).map_or(f64::NAN, |ns| ns as f64 / 1e6);
        format!("p{} {ms:.3}", (q * 1e4).round() / 1e2)
    });
    println!("  measured, ms: {}", quantiles.join("  "));
}

fn main() -> Result<ExitCode, ExperimentError> {
    let ms = Duration::from_millis;
    let mut all_hold = true;

    let observed = observe(stalling(ms(1)), plan(60, Some("2k"), Arrivals::Poisson))?;
    let truth = Truth::hold(1.0, &observed.ledger.stalls, observed.window);
    let comparisons = observed.compare(&truth, &QUANTILES)?;
    all_hold &= print_comparisons("hold, 1 ms, 2,000/s for 60 s", &observed, &comparisons);

    let observed = observe(stalling(ms(1)), closed(10))?;
    print_closed("control: the same target, closed loop on one connection for 10 s", &observed);

    let config = TargetConfig { tail_fraction: 0.005, tail_latency: ms(201), ..stalling(ms(1)) };
    let observed = observe(config, plan(60, Some("2k"), Arrivals::Poisson))?;
    let truth = Truth::hold(1.0, &observed.ledger.stalls, observed.window).with_tail(0.005, 200.0);
    let comparisons = observed.compare(&truth, &QUANTILES)?;
    all_hold &= print_comparisons(
        "hold, with 0.5 % of requests taking 200 ms longer",
        &observed,
        &comparisons,
    );

    for service_us in [200_u32, 400] {
        let service = Duration::from_micros(u64::from(service_us));
        let config = TargetConfig { serial: true, ..stalling(service) };
        let observed = observe(config, plan(60, Some("2k"), Arrivals::Constant))?;
        let service_ms = f64::from(service_us) / 1e3;
        let truth = Truth::serial(service_ms, 2_000.0, &observed.ledger.stalls, observed.window);
        let comparisons = observed.compare(&truth, &QUANTILES)?;
        let title = format!("FIFO, {service_ms} ms, 2,000/s at equal gaps for 60 s");
        all_hold &= print_comparisons(&title, &observed, &comparisons);
    }

    let config = TargetConfig {
        serial: true,
        pause: Some(Pause { every_requests: 500, hold: ms(200) }),
        ..sample_target(ms(1))
    };
    let observed = observe(config.clone(), plan(30, Some("450"), Arrivals::Constant))?;
    let truth = Truth::pausing(1.0, 450.0, &observed.ledger.pauses, observed.window);
    let comparisons = observed.compare(&truth, &QUANTILES)?;
    let title = "published pair, open: 1 ms, 200 ms pause every 500 requests, 450/s for 30 s";
    all_hold &= print_comparisons(title, &observed, &comparisons);
    print_closed("published pair, closed: one connection for 15 s", &observe(config, closed(15))?);

    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
