//! What differs between two profiles, per request.

use std::collections::BTreeSet;
use std::io::{self, Write};

use engine::report::profile::FRAMES_MAX;
use inferno::differential;
use serde::Serialize;

use crate::Cost;
use crate::names::KERNEL;
use crate::svg::{self, Caption};

/// What a request costs in each of two profiles, and where the difference lies. All figures are
/// microseconds of processor time per request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// In the first profile.
    pub before_us: f64,
    /// In the second.
    pub after_us: f64,
    /// How much more in the second.
    pub change_us: f64,
    /// Whether only one of the two shows the kernel: then time in the kernel counts for its callers
    /// in the other, and frames can't be compared.
    pub one_without_kernel: bool,
    /// The functions whose own time changed most, at most [`FRAMES_MAX`], the largest change first.
    pub frames: Vec<FrameChange>,
}

/// A function's own time in two profiles, microseconds per request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrameChange {
    /// Its name.
    pub name: String,
    /// Whether it is a function of the kernel.
    pub kernel: bool,
    /// In the first profile.
    pub before_us: f64,
    /// In the second.
    pub after_us: f64,
    /// How much more in the second.
    pub change_us: f64,
    /// Up to this much, 19 times in 20, is the chance of where samples fall.
    pub chance_us: f64,
}

impl Difference {
    /// What differs from one profile to another.
    pub fn new(before: &Cost, after: &Cost) -> Difference {
        let (own_before, own_after) = (before.own(), after.own());
        let (one_before, one_after) = (before.of_one_sample(), after.of_one_sample());
        let names: BTreeSet<_> = own_before.keys().chain(own_after.keys()).collect();
        let mut frames: Vec<FrameChange> = names
            .into_iter()
            .map(|key| {
                let cost =
                    |own: &std::collections::BTreeMap<_, u64>| own.get(key).copied().unwrap_or(0);
                let (before, after) = (cost(&own_before), cost(&own_after));
                // n samples vary by √n, each of them worth one sample's cost.
                let variance = before as f64 * one_before as f64 + after as f64 * one_after as f64;
                FrameChange {
                    name: key.0.clone(),
                    kernel: key.1,
                    before_us: us(before),
                    after_us: us(after),
                    change_us: us(after) - us(before),
                    chance_us: 1.96 * variance.sqrt() / 1e6,
                }
            })
            .collect();
        // A stable sort keeps equals in the order of their names.
        frames.sort_by(|a, b| b.change_us.abs().total_cmp(&a.change_us.abs()));
        frames.truncate(FRAMES_MAX);
        let shows_kernel = |cost: &Cost| cost.iter().any(|(stack, _)| stack.ends_with(KERNEL));
        Difference {
            before_us: us(before.whole()),
            after_us: us(after.whole()),
            change_us: us(after.whole()) - us(before.whole()),
            one_without_kernel: shows_kernel(before) != shows_kernel(after),
            frames,
        }
    }

    /// Draws the second profile, with what costs more than in the first in red and what costs less
    /// in blue.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_svg(&self, before: &Cost, after: &Cost, writer: impl Write) -> io::Result<()> {
        let folded = |cost: &Cost| {
            let mut text = Vec::new();
            cost.write_folded(&mut text).map(|()| text)
        };
        let mut lines = Vec::new();
        let options = differential::Options::default();
        let (before, after) = (folded(before)?, folded(after)?);
        differential::from_readers(options, before.as_slice(), after.as_slice(), &mut lines)?;
        let text = String::from_utf8_lossy(&lines);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        // They come in the order of a hash.
        lines.sort_unstable();
        let title = format!(
            "Processor time per request: {:.2} µs, was {:.2} µs",
            self.after_us, self.before_us
        );
        let subtitle = "widths: the second profile; red: more than in the first, blue: less";
        let subtitle = subtitle.to_owned();
        let caption = Caption { title, subtitle, unit: UNSCALED };
        svg::write_difference(&lines, caption, writer)
    }
}

/// inferno computes the percentages of a difference from figures that aren't scaled.
const UNSCALED: (&str, f64) = ("ps per request", 1.0);

/// Picoseconds as microseconds.
fn us(ps: u64) -> f64 {
    ps as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(stacks: &[(&str, u64)]) -> Cost {
        let mut cost = Cost::default();
        stacks.iter().for_each(|(stack, ps)| cost.add((*stack).to_owned(), *ps));
        cost
    }

    #[test]
    fn the_largest_change_comes_first_with_what_chance_may_do() {
        let before = cost(&[("s;a", 4_000_000), ("s;a;b_[k]", 1_000_000), ("s;c", 10_000)]);
        let after = cost(&[("s;a", 4_100_000), ("s;x;b_[k]", 3_000_000), ("s;d", 20_000)]);
        let found = Difference::new(&before, &after);
        assert_eq!((found.before_us, found.after_us), (5.01, 7.12));
        assert!((found.change_us - 2.11).abs() < 1e-9, "{found:?}");
        let frames: Vec<_> = found
            .frames
            .iter()
            .map(|frame| (&*frame.name, frame.kernel, frame.before_us, frame.after_us))
            .collect();
        assert_eq!(
            frames,
            [
                ("b", true, 1.0, 3.0),
                ("a", false, 4.0, 4.1),
                ("d", false, 0.0, 0.02),
                ("c", false, 0.01, 0.0)
            ]
        );
        // 100 samples of 10 ns, then 150 of 20 ns: 1.96 √(100·10² + 150·20²) ns.
        let chance_us = 1.96 * (100.0 * 100.0 + 150.0 * 400.0_f64).sqrt() / 1e3;
        assert!((found.frames[0].chance_us - chance_us).abs() < 1e-9, "{found:?}");
        assert!(!found.one_without_kernel);
    }

    #[test]
    fn a_profile_without_the_kernel_is_told_apart() {
        let with = cost(&[("s;a;b_[k]", 1)]);
        let without = cost(&[("s;a", 1)]);
        assert!(Difference::new(&with, &without).one_without_kernel);
        assert!(Difference::new(&without, &with).one_without_kernel);
        assert!(!Difference::new(&without, &without).one_without_kernel);
    }

    #[test]
    fn the_graph_names_both_costs_and_every_frame_of_the_second() {
        let before = cost(&[("s;a", 4_000_000), ("s;gone", 1_000_000)]);
        let after = cost(&[("s;a", 3_000_000), ("s;new_[k]", 2_000_000)]);
        let mut svg = Vec::new();
        let difference = Difference::new(&before, &after);
        difference.write_svg(&before, &after, &mut svg).expect("written");
        let svg = String::from_utf8(svg).expect("text");
        for words in [
            "Processor time per request: 5.00 µs, was 5.00 µs",
            "new (2,000,000 ps per request, 40.00%; +40.00%)",
            "60.00%; -20.00%",
        ] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
    }
}
