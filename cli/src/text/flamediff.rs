//! The tables of `flamediff`: the cost of a request in two profiles, and the functions whose own
//! time changed most.

use profile::{Change, Difference};

use super::figures::{count, time};
use super::layout::Column::{Right, Time};
use super::layout::Text;

/// The difference between the runs, the time by kind, and the functions.
pub(crate) fn difference(of: &Difference) -> String {
    let mut text = Text::new();
    if !of.conditions.is_empty() {
        text.line("the runs differ, and with them what is compared:");
        of.conditions.iter().for_each(|clause| text.line(format!("  {clause}")));
        text.blank();
    }
    let heads = ["before", "after", "change", "at least", "at most"];
    text.row(&[Right(11); 3], &heads[..3]);
    let share = match of.whole.before_us {
        0.0 => String::new(),
        before_us => format!(" ({:+.1} %)", of.whole.change_us / before_us * 100.0),
    };
    for (change, what) in [
        (of.whole, format!("processor time per request{share}")),
        (of.polling, "of it polling while nothing was due".to_owned()),
        (of.other_threads, "of it on other threads than the shards'".to_owned()),
        (of.requests, "of it the shards' work on requests".to_owned()),
    ] {
        let [before, after, changed] = cells(&change);
        text.row(&[Time(11); 3], &[before, after, changed, format!("   {what}")]);
    }
    text.blank();
    let [first, second, third, fourth, fifth] = heads;
    let own = "   own time of, in that work";
    text.row(&[Right(11); 5], &[first, second, third, fourth, fifth, own]);
    for frame in &of.frames {
        let [low, high] = frame.interval_us.map(signed);
        let kernel = if frame.kernel { " (kernel)" } else { "" };
        let chance = if frame.beyond_chance { "" } else { ", within chance" };
        let name = format!("   {}{kernel}{chance}", frame.name);
        let [before, after, changed] = cells(&frame.time);
        text.row(&[Time(11); 5], &[before, after, changed, low, high, name]);
    }
    let functions = count(u64::try_from(of.compared).unwrap_or(u64::MAX));
    text.blank();
    text.wrapped(format!(
        "The bounds hold for all {functions} functions at once, 19 times in 20, as far as \
         sampling goes; they don't include the difference between runs of the same plan."
    ));
    text.done()
}

/// Before, after and change.
fn cells(of: &Change) -> [String; 3] {
    [time(of.before_us), time(of.after_us), signed(of.change_us)]
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
    fn the_tables_separate_polling_from_work_and_chance_from_change() {
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

        The bounds hold for all 157 functions at once, 19 times in 20, as far as
        sampling goes; they don't include the difference between runs of the same plan.
        ");
    }
}
