//! The table of `flamediff`: what a request costs in two profiles, and the functions whose own time
//! changed most.

use std::fmt::Write as _;

use profile::Difference;

use super::figures::{cell, time};

/// The table.
pub(crate) fn difference(of: &Difference) -> String {
    let Difference { before_us, after_us, change_us, .. } = of;
    let mut text = format!(
        "processor time per request: {}, was {}: {}\n\n",
        time(*after_us),
        time(*before_us),
        match before_us {
            0.0 => signed(*change_us),
            before_us =>
                format!("{} ({:+.1} %)", signed(*change_us), change_us / before_us * 100.0),
        }
    );
    let head = ["before", "after", "change", "± chance"].map(|head| format!("{head:>11}"));
    let _ = writeln!(text, "{}   own time of", head.join(""));
    for frame in &of.frames {
        let kernel = if frame.kernel { " (kernel)" } else { "" };
        let _ = writeln!(
            text,
            "{}{}{}{}   {}{kernel}",
            cell(&time(frame.before_us)),
            cell(&time(frame.after_us)),
            cell(&signed(frame.change_us)),
            cell(&time(frame.chance_us)),
            frame.name
        );
    }
    text
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

    fn change(name: &str, kernel: bool, before_us: f64, after_us: f64) -> FrameChange {
        let (name, change_us) = (name.to_owned(), after_us - before_us);
        FrameChange { name, kernel, before_us, after_us, change_us, chance_us: 0.031 }
    }

    #[test]
    fn the_table_has_a_line_for_each_function() {
        let frames = vec![
            change("__inet_lookup_established", true, 0.12, 0.34),
            change("engine::ring::ring::Ring::enter", false, 12.5, 0.0),
        ];
        let of = Difference {
            before_us: 4.0,
            after_us: 5.0,
            change_us: 1.0,
            one_without_kernel: false,
            frames,
        };
        insta::assert_snapshot!(difference(&of), @r"
        processor time per request: 5.00 µs, was 4.00 µs: +1.00 µs (+25.0 %)

             before      after     change   ± chance   own time of
             120 ns     340 ns    +220 ns      31 ns   __inet_lookup_established (kernel)
            12.5 µs       0 ns   -12.5 µs      31 ns   engine::ring::ring::Ring::enter
        ");
    }
}
