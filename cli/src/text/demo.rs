//! The text of the demonstration: both tables side by side, and a paragraph that explains them.

use engine::report::verdict::{Level, Origin, Reason};
use engine::report::{Follows, Report};
use engine::sys::units::Nanos;

use super::figures::{count, percentile, ratio, time};
use super::layout::Column::{self, Left, Right, Time};
use super::layout::{LABEL, Text, wrap};
use super::table::{ROWS, lacks, listed};
use super::verdict::headline;

/// The announcement.
pub(crate) fn begins(duration: Nanos, rate: &str) -> String {
    let message = format!(
        "Measuring one target twice for {duration}: in a closed loop with one connection, then at \
         {rate} requests per second."
    );
    wrap(&message) + "\n"
}

/// The behaviour of the demonstration's target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stalls {
    /// From the start of one stall to the start of the next, µs.
    pub(crate) every_us: f64,
    /// The length of each, µs.
    pub(crate) hold_us: f64,
    /// The latency between them, µs.
    pub(crate) base_us: f64,
}

/// Both runs side by side, followed by the verdict on each.
pub(crate) fn tables(closed: &Report, open: &Report) -> String {
    let (left, right) = (&closed.whole, &open.whole);
    let columns =
        |figure: fn(usize) -> Column| [Left(8), figure(11), figure(13), figure(15), figure(13)];
    let mut text = Text::new();
    text.row(&[Left(13), Left(23)], &["", "closed loop", "     by arrival rate"]);
    text.row(&columns(Right), &["latency", "naive", "corrected", "naive", "corrected"]);
    for line in &ROWS {
        let shown = [&left.naive, &left.corrected, &right.naive, &right.corrected]
            .map(|distribution| percentile(distribution, line.of(distribution)));
        let [naive, corrected, of_rate, corrected_of_rate] = &shown;
        text.row(&columns(Time), &[line.name, naive, corrected, of_rate, corrected_of_rate]);
    }
    let [closed_of, open_of] = [left, right].map(|part| count(part.counts.intended));
    text.row(&columns(Right), &["requests", &closed_of, "", &open_of]);
    for (run, part) in [("closed loop", left), ("by arrival rate", right)] {
        for (name, of) in [("naive", &part.naive), ("corrected", &part.corrected)] {
            if let Some(lacks) = lacks(name, of, |_| true) {
                text.line(format!("n/a: {run}, {lacks}"));
            }
        }
    }
    text.blank();
    for (name, report) in [("closed loop", closed), ("by arrival rate", open)] {
        text.field_whole(LABEL, name, &headline(&report.verdict));
    }
    text.done()
}

/// The explanation of the tables, from the figures of these two runs.
pub(crate) fn explanation(closed: &Report, open: &Report, stalls: Stalls) -> String {
    let p99 = |report: &Report| report.whole.corrected.quantile_us(0.99);
    let (Some(closed_us), Some(open_us)) = (p99(closed), p99(open)) else {
        return wrap(&format!(
            "There is no p99 to compare: the closed loop has {}, the run by arrival rate {}.",
            listed(&closed.whole.corrected, &["p99"]),
            listed(&open.whole.corrected, &["p99"])
        ));
    };
    let target = format!(
        "The target answers in {} but stalls for {} every {}: of the users who arrive independently, \
         {:.0} % arrive during a stall and wait for its end.",
        time(stalls.base_us),
        time(stalls.hold_us),
        time(stalls.every_us),
        100.0 * stalls.hold_us / stalls.every_us
    );
    let lie = format!(
        "The closed loop leaves them out, which is called coordinated omission: during a stall its \
         one connection waits for one response and sends none of the requests that users would have \
         sent, so its p99 is {}.",
        time(closed_us)
    );
    let truth = if closed_us < open_us {
        format!(
            "Sending each request when it is due, whatever the target does, gives a p99 of {}, {} \
             times as long: that is how long users wait.",
            time(open_us),
            ratio(open_us, closed_us)
        )
    } else {
        format!(
            "Sending each request when it is due gives a p99 of {}, which isn't longer: these runs \
             were too short, or too disturbed, to show the difference.",
            time(open_us)
        )
    };
    wrap(&format!("{target} {lie} {truth}"))
}

/// Why the open run isn't valid, as it would be on a quiet machine; `None` if it is.
pub(crate) fn doubts(open: &Report) -> Option<String> {
    // The cause of lost processor time explains more than its effects.
    let rank = |reason: &Reason| {
        let rule = reason.code.rule();
        match (rule.origin, rule.more.follows) {
            (Origin::Others, _) => Some(0),
            (Origin::ShortOfTime, _) => Some(1),
            (_, Follows::Notes | Follows::NotesAnd(_)) => Some(2),
            (_, Follows::Nothing) => None,
        }
    };
    if open.verdict.level == Level::Valid {
        return None;
    }
    let ranked = open.verdict.found().filter_map(|reason| Some((rank(reason)?, reason)));
    let (what, reason, cure) = match ranked.min_by_key(|(rank, _)| *rank) {
        Some((_, disturbance)) => (
            "This machine isn't quiet; on a quiet one the run by arrival rate is valid.",
            disturbance,
            "Stop other programs on it and try again",
        ),
        None => (
            "The run by arrival rate isn't valid either.",
            open.verdict.reasons.first()?,
            "Try again with a longer --duration",
        ),
    };
    Some(wrap(&format!("{what} Here {}. {cure}.", reason.evidence)))
}

#[cfg(test)]
mod tests {
    use super::super::reports::{part, report, times};
    use super::*;

    const STALLS: Stalls = Stalls { every_us: 2e6, hold_us: 2e5, base_us: 1e3 };

    #[test]
    fn both_runs_are_side_by_side() {
        let closed = report(false, part(1_020, 1_020, 0, 0));
        let open = report(true, part(1_020, 181_000, 0, 0));
        insta::assert_snapshot!(tables(&closed, &open), @r"
                     closed loop                 by arrival rate
        latency       naive    corrected          naive    corrected
        p50         1.02 ms      1.02 ms        1.02 ms       181 ms
        p75         1.02 ms      1.02 ms        1.02 ms       181 ms
        p90         1.02 ms      1.02 ms        1.02 ms       181 ms
        p95         1.02 ms      1.02 ms        1.02 ms       181 ms
        p99         1.02 ms      1.02 ms        1.02 ms       181 ms
        p99.9       1.02 ms      1.02 ms        1.02 ms       181 ms
        max         1.02 ms      1.02 ms        1.02 ms       181 ms
        requests     10,000                      10,000

        closed loop      valid
        by arrival rate  valid
        ");
        insta::assert_snapshot!(explanation(&closed, &open, STALLS), @r"
        The target answers in 1.00 ms but stalls for 200 ms every 2.00 s: of the users
        who arrive independently, 10 % arrive during a stall and wait for its end. The
        closed loop leaves them out, which is called coordinated omission: during a
        stall its one connection waits for one response and sends none of the requests
        that users would have sent, so its p99 is 1.02 ms. Sending each request when it
        is due, whatever the target does, gives a p99 of 181 ms, 177 times as long: that
        is how long users wait.
        ");
    }

    #[test]
    fn a_short_demonstration_shows_what_is_missing() {
        let closed = report(false, part(1_020, 1_020, 0, 0));
        let mut open = part(1_020, 181_000, 0, 0);
        (open.naive, open.corrected) = (times(1_020, 60), times(181_000, 60));
        let open = report(true, open);
        let text = tables(&closed, &open);
        assert!(
            text.contains(
                "n/a: by arrival rate, naive has n = 60, p95 needs 110, p99 needs 563, p99.9 needs \
                 5,662\n"
            ),
            "{text}"
        );
        assert!(!text.contains("n/a: closed loop"), "{text}");
        let explained = explanation(&closed, &open, STALLS).replace('\n', " ");
        assert!(
            explained.contains(
                "closed loop has p99 1.02 ms, the run by arrival rate p99 n/a (n = 60, need 563)"
            ),
            "{explained}"
        );
    }

    #[test]
    fn a_machine_that_is_not_quiet_is_named() {
        let quiet = report(true, part(1_020, 181_000, 0, 0));
        assert_eq!(doubts(&quiet), None);
        let mut open = report(true, part(1_020, 181_000, 40_000, 0));
        open.whole.rate.intended = 5_000.0;
        open.verdict = engine::report::judge(&open);
        let text = doubts(&open).expect("not valid").replace('\n', " ");
        assert!(text.starts_with("This machine isn't quiet"), "{text}");
        let mut short = report(true, part(1_020, 181_000, 0, 0));
        short.whole.corrected = times(181_000, 60);
        short.whole.rate.intended = 5_000.0;
        short.verdict = engine::report::judge(&short);
        let text = doubts(&short).expect("not valid").replace('\n', " ");
        assert!(
            text.contains("p99 has 60 samples and needs 563. Try again with a longer"),
            "{text}"
        );
    }

    #[test]
    fn a_disturbed_demonstration_claims_nothing() {
        let closed = report(false, part(181_000, 181_000, 0, 0));
        let open = report(true, part(1_020, 1_020, 0, 0));
        let text = explanation(&closed, &open, STALLS).replace('\n', " ");
        assert!(text.contains("which isn't longer"), "{text}");
    }
}
