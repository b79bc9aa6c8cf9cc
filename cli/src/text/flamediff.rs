//! The tables of `flamediff`: what a request costs in two profiles, and the functions whose own
//! time changed most.

use std::fmt::Write as _;

use profile::{Change, Difference};

use super::figures::{cell, count, time};
use super::wrap::wrap;

/// In what the runs differ, where the time went, and the functions.
pub(crate) fn difference(of: &Difference) -> String {
    let mut text = String::new();
    if !of.conditions.is_empty() {
        text.push_str("the runs differ, and with them what is compared:\n");
        of.conditions.iter().for_each(|clause| text.push_str(&format!("  {clause}\n")));
        text.push('\n');
    }
    let _ = writeln!(text, "{}", head(&["before", "after", "change"]));
    let share = match of.whole.before_us {
        0.0 => String::new(),
        before_us => format!(" ({:+.1} %)", of.whole.change_us / before_us * 100.0),
    };
    let parts = [
        (of.polling, "of it polling while nothing was due"),
        (of.other_threads, "of it on other threads than the shards'"),
        (of.requests, "of it the shards' work on requests"),
    ];
    let _ = writeln!(text, "{}   processor time per request{share}", cells(&of.whole));
    for (change, what) in parts {
        let _ = writeln!(text, "{}   {what}", cells(&change));
    }
    let columns = ["before", "after", "change", "at least", "at most"];
    let _ = writeln!(text, "\n{}   own time of, in that work", head(&columns));
    for frame in &of.frames {
        let [low, high] = frame.interval_us.map(|us| cell(&signed(us)));
        let kernel = if frame.kernel { " (kernel)" } else { "" };
        let chance = if frame.beyond_chance { "" } else { ", within chance" };
        let name = &frame.name;
        let _ = writeln!(text, "{}{low}{high}   {name}{kernel}{chance}", cells(&frame.time));
    }
    let functions = count(u64::try_from(of.compared).unwrap_or(u64::MAX));
    text.push('\n');
    text.push_str(&wrap(&format!(
        "The bounds hold for all {functions} functions at once, 19 times in 20, as far as it is chance \
         where samples fall; they don't tell how much runs of the same plan differ."
    )));
    text
}

fn head(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:>11}")).collect()
}

/// Before, after and change.
fn cells(of: &Change) -> String {
    [time(of.before_us), time(of.after_us), signed(of.change_us)].map(|time| cell(&time)).concat()
}

/// A change of time, with its sign.
fn signed(us: f64) -> String {
    let sign = if us < 0.0 { "-" } else { "+" };
    format!("{sign}{}", time(us.abs()))
}

#[cfg(test)]
mod tests {
    use profile::FrameChange;

    use super::*;

    fn change(before_us: f64, after_us: f64) -> Change {
        Change { before_us, after_us, change_us: after_us - before_us }
    }

    #[test]
    fn the_tables_tell_polling_from_work_and_chance_from_change() {
        let frame = |name: &str, kernel, time, interval_us: [f64; 2]| FrameChange {
            name: name.to_owned(),
            kernel,
            time,
            interval_us,
            beyond_chance: 0.0 < interval_us[0] || interval_us[1] < 0.0,
        };
        let frames = vec![
            frame("__inet_lookup_established", true, change(0.12, 0.34), [0.15, 0.29]),
            frame("uring::ring::Ring::enter", false, change(2.5, 2.0), [-1.1, 0.1]),
        ];
        let of = Difference {
            whole: change(55.4, 18.4),
            polling: change(42.3, 5.1),
            other_threads: change(7.1, 0.8),
            requests: change(6.0, 12.5),
            conditions: vec!["wait: hybrid, then sleep".to_owned()],
            one_without_kernel: false,
            compared: 157,
            frames,
        };
        insta::assert_snapshot!(difference(&of), @r"
        the runs differ, and with them what is compared:
          wait: hybrid, then sleep

             before      after     change
            55.4 µs    18.4 µs   -37.0 µs   processor time per request (-66.8 %)
            42.3 µs    5.10 µs   -37.2 µs   of it polling while nothing was due
            7.10 µs     800 ns   -6.30 µs   of it on other threads than the shards'
            6.00 µs    12.5 µs   +6.50 µs   of it the shards' work on requests

             before      after     change   at least    at most   own time of, in that work
             120 ns     340 ns    +220 ns    +150 ns    +290 ns   __inet_lookup_established (kernel)
            2.50 µs    2.00 µs    -500 ns   -1.10 µs    +100 ns   uring::ring::Ring::enter, within chance

        The bounds hold for all 157 functions at once, 19 times in 20, as far as it is
        chance where samples fall; they don't tell how much runs of the same plan
        differ.
        ");
    }
}
