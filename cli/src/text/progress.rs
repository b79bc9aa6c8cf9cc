//! The text of the progress line.

use engine::plan::{DURATION_MAX, Plan};
use engine::run::{Phase, Tally};
use engine::shard::DRAIN_INTERRUPTED_NS;
use engine::sys::units::Nanos;

use super::figures::{count, things, time};

/// To what a length that is known in advance is rounded up, ns.
const TENTH_NS: u64 = 100_000_000;

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
pub(crate) fn line(now: &Tally) -> String {
    let phase = phase(now.phase);
    let shown = |ns: Option<u64>| ns.map_or("n/a".to_owned(), |ns| time(ns as f64 / 1e3));
    format!(
        "{phase} {:.1} s  intended {}  answered {}  {}  p50 {}  p99 {}  {} in flight",
        now.elapsed_ns as f64 / 1e9,
        count(now.intended),
        count(now.answered),
        things(now.errors, "error"),
        shown(now.quantile_ns(0.5)),
        shown(now.quantile_ns(0.99)),
        count(now.in_flight)
    )
}

/// How long a run of a completed plan takes, as far as that is known before, if its load begins
/// `ahead_ns` after its setup.
pub(crate) fn takes(plan: &Plan, ahead_ns: u64) -> String {
    let shown = |ns: u64| Nanos(ns.div_ceil(TENTH_NS).saturating_mul(TENTH_NS)).to_string();
    let span = |least_ns: u64, most_ns: u64| match shown(least_ns) {
        least if least_ns == most_ns => least,
        least => format!("{least} to {}", shown(most_ns)),
    };
    let (least_ns, most_ns) = plan.setup_ns();
    let load_ns = ahead_ns.saturating_add(plan.end_ns());
    let [least_all_ns, most_all_ns] = [least_ns, most_ns].map(|ns| ns.saturating_add(load_ns));
    let window = shown(plan.duration.0);
    let counted = plan.requests.filter(|_| plan.ends_by_count());
    let (all, window) = match counted {
        None => (span(least_all_ns, most_all_ns), window),
        Some(number) if plan.duration == DURATION_MAX => {
            (format!("as long as {}", things(number, "request")), "until their end".to_owned())
        }
        Some(number) => (
            format!("up to {}", shown(most_all_ns)),
            format!("{window} or {}", things(number, "request")),
        ),
    };
    let before = [
        ("setup", span(least_ns, most_ns), most_ns),
        ("start", shown(ahead_ns), ahead_ns),
        ("warm-up", shown(plan.warmup.0), plan.warmup.0),
    ];
    let before = before.into_iter().filter(|(_, _, most_ns)| 0 < *most_ns);
    let parts: String = before.map(|(name, length, _)| format!("{name} {length}, ")).collect();
    format!("takes {all}: {parts}window {window}")
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
    use engine::shard::CoarseHistogram;

    use super::*;

    #[test]
    fn an_interrupted_run_says_what_it_waits_for() {
        insta::assert_snapshot!(awaiting(1_234), @"interrupted: 1,234 requests in flight, responses are awaited for up to 2s; another signal ends it at once, without a report");
    }

    #[test]
    fn a_run_says_how_long_it_takes() {
        let takes = |plan: Plan, ahead_ns| {
            let target = "http://127.0.0.1:1/".to_owned();
            takes(&Plan { target, ..plan }.complete(&[0]).expect("a plan"), ahead_ns)
        };
        let open = || Plan { rate: Some("5k".parse().expect("a rate")), ..Plan::default() };
        insta::assert_snapshot!(takes(open(), 0), @"takes 36s to 40s: setup 1s to 5s, warm-up 5s, window 30s");
        insta::assert_snapshot!(takes(open(), 2_000_000_000), @"takes 38s to 42s: setup 1s to 5s, start 2s, warm-up 5s, window 30s");
        let warmup = Nanos(0);
        let short = Plan { warmup, duration: Nanos(1_999_000_001), ..open() };
        insta::assert_snapshot!(takes(short, 0), @"takes 2s: window 2s");
        insta::assert_snapshot!(takes(Plan::default(), 0), @"takes 35s: warm-up 5s, window 30s");
        let counted = Plan { warmup, requests: Some(2_000), ..Plan::default() };
        insta::assert_snapshot!(takes(counted, 0), @"takes up to 30s: window 30s or 2,000 requests");
        let warmup = Nanos(0);
        let endless =
            Plan { warmup, requests: Some(2_000), duration: DURATION_MAX, ..Plan::default() };
        insta::assert_snapshot!(takes(endless, 0), @"takes as long as 2,000 requests: window until their end");
    }

    #[test]
    fn the_line_says_where_the_run_is() {
        let mut now = Tally {
            phase: Phase::Warmup,
            elapsed_ns: 1_250_000_000,
            intended: 12_345,
            answered: 12_300,
            errors: 1,
            in_flight: 44,
            counts: Default::default(),
            latency: CoarseHistogram::default(),
        };
        insta::assert_snapshot!(line(&now), @"warm-up 1.2 s  intended 12,345  answered 12,300  1 error  p50 n/a  p99 n/a  44 in flight");
        now.phase = Phase::Steady;
        (0..98).for_each(|_| now.latency.record(250_000));
        (0..2).for_each(|_| now.latency.record(1_250_000));
        insta::assert_snapshot!(line(&now), @"steady 1.2 s  intended 12,345  answered 12,300  1 error  p50 254 µs  p99 1.25 ms  44 in flight");
    }
}
