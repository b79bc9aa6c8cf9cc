//! The text of the progress line.

use engine::run::{Phase, Progress};
use engine::shard::DRAIN_INTERRUPTED_NS;
use engine::sys::units::Nanos;

use super::figures::{count, things, time};

/// The name of a phase.
pub(crate) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Setup => "setup",
        Phase::Warmup => "warm-up",
        Phase::Steady => "steady",
        Phase::Drain => "drain",
        Phase::Done => "done",
    }
}

/// How far the run is, in one line.
pub(crate) fn line(now: &Progress) -> String {
    let phase = phase(now.phase);
    let shown = |ns: Option<u64>| ns.map_or("n/a".to_owned(), |ns| time(ns as f64 / 1e3));
    format!(
        "{phase} {:.1} s  intended {}  answered {}  {}  p50 {}  p99 {}  {} in flight",
        now.elapsed_ns as f64 / 1e9,
        count(now.intended),
        count(now.answered),
        things(now.errors, "error"),
        shown(now.p50_ns),
        shown(now.p99_ns),
        count(now.in_flight)
    )
}

/// What an interrupted run waits for.
pub(crate) fn awaiting(in_flight: u64) -> String {
    let longest = Nanos(DRAIN_INTERRUPTED_NS);
    format!(
        "interrupted: {} in flight, responses are awaited for up to {longest}; another signal ends \
         it at once, without a report",
        things(in_flight, "request")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_run_says_what_it_waits_for() {
        insta::assert_snapshot!(awaiting(1_234), @"interrupted: 1,234 requests in flight, responses are awaited for up to 2s; another signal ends it at once, without a report");
    }

    #[test]
    fn the_line_says_where_the_run_is() {
        let mut now = Progress {
            phase: Phase::Warmup,
            elapsed_ns: 1_250_000_000,
            intended: 12_345,
            answered: 12_300,
            errors: 1,
            in_flight: 44,
            p50_ns: None,
            p99_ns: None,
        };
        insta::assert_snapshot!(line(&now), @"warm-up 1.2 s  intended 12,345  answered 12,300  1 error  p50 n/a  p99 n/a  44 in flight");
        now = Progress {
            phase: Phase::Steady,
            p50_ns: Some(250_000),
            p99_ns: Some(1_250_000),
            ..now
        };
        insta::assert_snapshot!(line(&now), @"steady 1.2 s  intended 12,345  answered 12,300  1 error  p50 250 µs  p99 1.25 ms  44 in flight");
    }
}
