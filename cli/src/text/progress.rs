//! The text of the progress line.

use engine::plan::{DURATION_MAX, Plan};
use engine::run::{Phase, RunProgress, Trouble};
use engine::shard::DRAIN_INTERRUPTED_NS;
use engine::sys::units::{Nanos, SECOND_NS};
use probe::SeriesProgress;

use super::figures::{coarse, count, percent, rate, things, time};
use crate::recent::Second;

/// The unit to which a planned length is rounded up, ns.
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

/// The progress of a run of a completed plan in one line, with its figures of the last second.
pub(crate) fn line(plan: &Plan, now: &RunProgress, second: Option<&Second>) -> String {
    let mut parts = vec![phase_of(plan, now)];
    if now.phase != Phase::Setup {
        parts.extend(second.into_iter().flat_map(|second| {
            [
                format!("intended {}/s", rate(second.intended)),
                format!("answered {}/s", rate(second.answered)),
            ]
        }));
        parts.push(format!("{} bad", count(now.bad())));
    }
    if Phase::Warmup < now.phase {
        let shown = |quantile| match second {
            Some(second) => coarse(&second.latency, quantile),
            None => "n/a".to_owned(),
        };
        parts.push(format!("p50 {}", shown(0.5)));
        parts.push(format!("p99 {}", shown(0.99)));
    }
    match now.phase {
        Phase::Steady => {
            parts.extend(second.and_then(|second| second.trouble(plan)).map(generator));
        }
        Phase::Drain => parts.push(format!("{} in flight", count(now.in_flight))),
        Phase::Setup | Phase::Warmup | Phase::Done => {}
    }
    parts.join("  ")
}

/// The phase of a run, its time so far, and the time left, as far as known.
pub(crate) fn phase_of(plan: &Plan, now: &RunProgress) -> String {
    let left = |ns: u64| Nanos::from_secs(ns.saturating_sub(now.elapsed_ns).div_ceil(SECOND_NS));
    let counted = plan.requests.filter(|_| plan.ends_by_count());
    let left = match (now.phase, counted) {
        (Phase::Drain | Phase::Done, _) => String::new(),
        (_, Some(requests)) => {
            let [intended, ..] = now.counts;
            format!(", {} left", things(requests.saturating_sub(intended), "request"))
        }
        (Phase::Setup, None) => {
            let (_, most_ns) = plan.setup_ns();
            format!(", up to {} left", left(most_ns.saturating_add(plan.end_ns())))
        }
        (Phase::Warmup | Phase::Steady, None) => format!(", {} left", left(plan.end_ns())),
    };
    let at = plan.stages().position(|(_, span)| span.contains(&now.elapsed_ns));
    let at = at.filter(|_| now.phase == Phase::Steady && 1 < plan.stage.len());
    let stage =
        at.map_or_else(String::new, |at| format!(", stage {} of {}", at + 1, plan.stage.len()));
    let elapsed_s = now.elapsed_ns as f64 / SECOND_NS as f64;
    format!("{} {elapsed_s:.1} s{stage}{left}", phase(now.phase))
}

/// The state of the generator itself.
pub(crate) fn generator(trouble: Result<(), Trouble>) -> String {
    match trouble {
        Ok(()) => "generator ok".to_owned(),
        Err(Trouble::Stalled { core, for_ns }) => {
            format!("generator stalled: {} on core {core}", time(for_ns as f64 / 1e3))
        }
        Err(Trouble::Busy { core, share }) => {
            format!("generator busy: core {core} for {}", percent(share))
        }
        Err(Trouble::Late { ns }) => format!("generator late: p50 {}", time(ns as f64 / 1e3)),
    }
}

/// The planned length of a run of a completed plan, if its load begins `ahead_ns` after its setup.
pub(crate) fn takes(plan: &Plan, ahead_ns: u64) -> String {
    format!("takes {}: {}", all(plan, ahead_ns, 1), parts(plan, ahead_ns))
}

/// The length of this many runs of a plan.
fn all(plan: &Plan, ahead_ns: u64, runs: u64) -> String {
    let [least_ns, most_ns] = length_ns(plan, ahead_ns).map(|ns| ns.saturating_mul(runs));
    match plan.requests.filter(|_| plan.ends_by_count()) {
        None => span(least_ns, most_ns),
        Some(number) if plan.duration == DURATION_MAX => {
            format!("as long as {}", things(number.saturating_mul(runs), "request"))
        }
        Some(_) => format!("up to {}", tenths(most_ns)),
    }
}

/// The same for a whole series of open runs, given the first one's plan.
pub(crate) fn series_takes(plan: &Plan, ahead_ns: u64, progress: SeriesProgress) -> String {
    let SeriesProgress { steps_max, left, .. } = progress;
    let steps = things(steps_max as u64, "step");
    format!(
        "takes up to {} in all (--within): at most {steps}, each {}",
        tenths(left.0),
        parts(plan, ahead_ns)
    )
}

/// The same for this many consecutive slices of one plan.
pub(crate) fn slices_take(plan: &Plan, slices: u64) -> String {
    let [whole, each] = [slices, 1].map(|runs| all(plan, 0, runs));
    format!("takes {whole} in all: {slices} slices, each {each}: {}", parts(plan, 0))
}

/// The least and the most time of a run, ns: if responses don't come, its drain waits for them.
fn length_ns(plan: &Plan, ahead_ns: u64) -> [u64; 2] {
    let (least_ns, most_ns) = plan.setup_ns();
    let load_ns = ahead_ns.saturating_add(plan.end_ns());
    [least_ns, most_ns.saturating_add(plan.timeout_max().0)].map(|ns| ns.saturating_add(load_ns))
}

/// A planned length, rounded up to tenths of a second, or below one to hundredths.
fn tenths(ns: u64) -> String {
    let unit_ns = if ns < SECOND_NS { TENTH_NS / 10 } else { TENTH_NS };
    Nanos(ns.div_ceil(unit_ns).saturating_mul(unit_ns)).to_string()
}

/// A length between these two.
fn span(least_ns: u64, most_ns: u64) -> String {
    match tenths(least_ns) {
        least if least_ns == most_ns => least,
        least => format!("{least} to {}", tenths(most_ns)),
    }
}

/// The parts of a run with their lengths.
fn parts(plan: &Plan, ahead_ns: u64) -> String {
    let (least_ns, most_ns) = plan.setup_ns();
    let window = tenths(plan.duration.0);
    let window = match plan.requests.filter(|_| plan.ends_by_count()) {
        None => window,
        Some(_) if plan.duration == DURATION_MAX => "until their end".to_owned(),
        Some(number) => format!("{window} or {}", things(number, "request")),
    };
    let before = [
        ("setup", span(least_ns, most_ns), most_ns),
        ("start", tenths(ahead_ns), ahead_ns),
        ("warm-up", tenths(plan.warmup.0), plan.warmup.0),
    ];
    let before = before.into_iter().filter(|(_, _, most_ns)| 0 < *most_ns);
    let parts: String = before.map(|(name, length, _)| format!("{name} {length}, ")).collect();
    format!("{parts}window {window}, drain up to {}", tenths(plan.timeout_max().0))
}

/// The note that an interrupted run waits for responses.
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
    use engine::run::Health;
    use engine::shard::CoarseHistogram;

    use super::*;

    #[test]
    fn the_length_of_all_slices_is_announced() {
        let of = |plan: Plan| {
            let target = "http://127.0.0.1:1/".to_owned();
            slices_take(&Plan { target, ..plan }.complete(&[0]).expect("a plan"), 22)
        };
        let rate = Some("5k".parse().expect("a rate"));
        let (duration, warmup) = (Nanos::from_secs(10), Nanos::from_secs(1));
        let open = Plan { rate, duration, warmup, ..Plan::default() };
        insta::assert_snapshot!(of(open), @"takes 4m24s to 9m32s in all: 22 slices, each 12s to 26s: setup 1s to 5s, warm-up 1s, window 10s, drain up to 10s");
        let closed = Plan { duration, warmup, ..Plan::default() };
        insta::assert_snapshot!(of(closed.clone()), @"takes 4m2s to 7m42s in all: 22 slices, each 11s to 21s: warm-up 1s, window 10s, drain up to 10s");
        let counted = Plan { requests: Some(2_000), warmup: Nanos(0), ..closed };
        insta::assert_snapshot!(of(counted), @"takes up to 7m20s in all: 22 slices, each up to 20s: window 10s or 2,000 requests, drain up to 10s");
    }

    #[test]
    fn an_interrupted_run_shows_what_it_waits_for() {
        insta::assert_snapshot!(awaiting(1_234), @"interrupted: 1,234 requests in flight, responses are awaited for up to 2s; another signal ends it at once, without a report");
    }

    #[test]
    fn the_length_of_a_run_is_announced() {
        let takes = |plan: Plan, ahead_ns| {
            let target = "http://127.0.0.1:1/".to_owned();
            takes(&Plan { target, ..plan }.complete(&[0]).expect("a plan"), ahead_ns)
        };
        let open = || Plan { rate: Some("5k".parse().expect("a rate")), ..Plan::default() };
        insta::assert_snapshot!(takes(open(), 0), @"takes 36s to 50s: setup 1s to 5s, warm-up 5s, window 30s, drain up to 10s");
        insta::assert_snapshot!(takes(open(), 2_000_000_000), @"takes 38s to 52s: setup 1s to 5s, start 2s, warm-up 5s, window 30s, drain up to 10s");
        let warmup = Nanos(0);
        let short = Plan { warmup, duration: Nanos(1_999_000_001), ..open() };
        insta::assert_snapshot!(takes(short, 0), @"takes 2s to 12s: window 2s, drain up to 10s");
        insta::assert_snapshot!(takes(Plan::default(), 0), @"takes 35s to 45s: warm-up 5s, window 30s, drain up to 10s");
        let counted = Plan { warmup, requests: Some(2_000), ..Plan::default() };
        insta::assert_snapshot!(takes(counted, 0), @"takes up to 40s: window 30s or 2,000 requests, drain up to 10s");
        let warmup = Nanos(0);
        let endless =
            Plan { warmup, requests: Some(2_000), duration: DURATION_MAX, ..Plan::default() };
        insta::assert_snapshot!(takes(endless, 0), @"takes as long as 2,000 requests: window until their end, drain up to 10s");
    }

    #[test]
    fn the_length_of_a_series_is_announced() {
        let target = "http://127.0.0.1:1/".to_owned();
        let rate = Some("5k".parse().expect("a rate"));
        let plan = Plan { target, rate, ..Plan::default() }.complete(&[0]).expect("a plan");
        let progress = SeriesProgress { step: 1, steps_max: 10, left: Nanos::from_secs(240) };
        insta::assert_snapshot!(series_takes(&plan, 0, progress), @"takes up to 4m in all (--within): at most 10 steps, each setup 1s to 5s, warm-up 5s, window 30s, drain up to 10s");
    }

    #[test]
    fn the_line_shows_the_phase_of_the_run() {
        let target = "http://127.0.0.1:1/".to_owned();
        let rate = Some("5k".parse().expect("a rate"));
        let plan = Plan { target, rate, ..Plan::default() }.complete(&[0]).expect("a plan");
        let mut latency = CoarseHistogram::default();
        (0..980).for_each(|_| latency.record(250_000));
        (0..20).for_each(|_| latency.record(1_250_000));
        let health = Some(Health::default());
        let second = Second { intended: 5_004.2, answered: 5_000.7, latency, health };
        let now = |phase| RunProgress {
            phase,
            elapsed_ns: 1_250_000_000,
            errors: 1,
            in_flight: 44,
            ..RunProgress::default()
        };
        let line = |phase| line(&plan, &now(phase), Some(&second));
        insta::assert_snapshot!(line(Phase::Setup), @"setup 1.2 s, up to 39s left");
        insta::assert_snapshot!(line(Phase::Warmup), @"warm-up 1.2 s, 34s left  intended 5,004/s  answered 5,001/s  1 bad");
        insta::assert_snapshot!(line(Phase::Steady), @"steady 1.2 s, 34s left  intended 5,004/s  answered 5,001/s  1 bad  p50 254 µs  p99 1.25 ms  generator ok");
        insta::assert_snapshot!(line(Phase::Drain), @"drain 1.2 s  intended 5,004/s  answered 5,001/s  1 bad  p50 254 µs  p99 1.25 ms  44 in flight");
        insta::assert_snapshot!(super::line(&plan, &now(Phase::Steady), None), @"steady 1.2 s, 34s left  1 bad  p50 n/a  p99 n/a");
        let warmup = Nanos(0);
        let plan = Plan { warmup, requests: Some(2_000), ..Plan::default() };
        let counts = [1_500, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let counted = RunProgress { counts, ..now(Phase::Steady) };
        assert_eq!(phase_of(&plan, &counted), "steady 1.2 s, 500 requests left");
        let stage = ["5:1s", "5..9:2s"].map(|stage| stage.parse().expect(stage)).into();
        let staged = Plan { warmup, stage, duration: Nanos::from_secs(3), ..Plan::default() };
        let now = now(Phase::Steady);
        assert_eq!(phase_of(&staged, &now), "steady 1.2 s, stage 2 of 2, 2s left");
    }

    #[test]
    fn the_generators_trouble_is_named() {
        insta::assert_snapshot!(generator(Err(Trouble::Stalled { core: 1, for_ns: 34_000_000 })), @"generator stalled: 34.0 ms on core 1");
        insta::assert_snapshot!(generator(Err(Trouble::Busy { core: 1, share: 0.987 })), @"generator busy: core 1 for 98.7 %");
        insta::assert_snapshot!(generator(Err(Trouble::Late { ns: 320_000 })), @"generator late: p50 320 µs");
    }
}
