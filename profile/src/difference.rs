//! The differences between two profiles, per request.
//!
//! All functions are judged at once: the ten largest of hundreds of changes lie outside of most
//! single intervals by chance alone. Samples are counts, mostly small, so their intervals are exact
//! (Garwood), and a change's interval is made from those of both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use engine::report::profile::FRAMES_MAX;
use engine::stats::ratio::count_interval;
use serde::Serialize;

use crate::conditions::Conditions;
use crate::cost::Cost;
use crate::names::{KERNEL, Purpose, innermost, label, purpose};
use crate::svg::{self, Caption};

/// The cost of a request in each of two profiles, and where they differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// All processor time.
    pub whole: Change,
    /// The part in which shards polled while nothing was due: with fewer requests, there is more
    /// per request.
    pub polling: Change,
    /// The part of other threads than the shards', which doesn't depend on the requests either.
    pub other_threads: Change,
    /// The rest: the shards' work on requests.
    pub requests: Change,
    /// The differences between the profiles' conditions.
    pub conditions: Vec<String>,
    /// True if only one of the two shows the kernel: then time in the kernel counts for its callers
    /// in the other, and frames can't be compared.
    pub one_without_kernel: bool,
    /// The number of functions compared. The intervals of all of them hold together, 19 times in
    /// 20, so any that changed beyond chance may be picked.
    pub compared: usize,
    /// The functions with the largest changes of own time for requests, at most [`FRAMES_MAX`]:
    /// first those beyond chance, the largest change first.
    pub frames: Vec<FrameChange>,
}

/// A time in two profiles, microseconds of processor time per request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// In the first profile.
    pub before_us: f64,
    /// In the second.
    pub after_us: f64,
    /// The second less the first.
    pub change_us: f64,
}

/// A function's own time in two profiles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrameChange {
    /// Its name.
    pub name: String,
    /// True for a function of the kernel.
    pub kernel: bool,
    /// Its time.
    #[serde(flatten)]
    pub time: Change,
    /// The interval of the change, given the chance of sampling, microseconds.
    pub interval_us: [f64; 2],
    /// True if that excludes 0.
    pub beyond_chance: bool,
}

impl Change {
    /// From one time to another, ps per request.
    fn new(before_ps: u64, after_ps: u64) -> Change {
        let (before_us, after_us) = (us(before_ps as f64), us(after_ps as f64));
        Change { before_us, after_us, change_us: after_us - before_us }
    }
}

/// How often an interval may miss the true value.
const ERROR: f64 = 0.05;

/// One profile's figures for judging a function.
struct Side {
    own: BTreeMap<(String, bool), u64>,
    /// The cost of one sample, ps per request.
    one: f64,
    /// Computed intervals by number of samples.
    intervals: BTreeMap<u64, [f64; 2]>,
}

impl Side {
    fn new(cost: &Cost) -> Side {
        Side { own: cost.own(), one: cost.of_one_sample(), intervals: BTreeMap::new() }
    }

    /// A function's time with the ends of its interval, ps per request.
    fn of(&mut self, function: &(String, bool), error: f64) -> (u64, [f64; 2]) {
        let ps = self.own.get(function).copied().unwrap_or(0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let samples = (ps as f64 / self.one).round() as u64;
        let ends = self.intervals.entry(samples).or_insert_with(|| count_interval(samples, error));
        (ps, ends.map(|end| end * self.one))
    }
}

impl Difference {
    /// The difference between two profiles.
    pub fn new(before: &Cost, after: &Cost) -> Difference {
        let mut frames = changes(before, after);
        let compared = frames.len();
        // A stable sort keeps equals in the order of their names.
        frames.sort_by(|a, b| {
            let size = |frame: &FrameChange| frame.time.change_us.abs();
            b.beyond_chance.cmp(&a.beyond_chance).then(size(b).total_cmp(&size(a)))
        });
        frames.truncate(FRAMES_MAX);
        let of = |part: Purpose| Change::new(before.of(part), after.of(part));
        let shows_kernel = |cost: &Cost| cost.iter().any(|(stack, _)| stack.ends_with(KERNEL));
        Difference {
            whole: Change::new(before.whole(), after.whole()),
            polling: of(Purpose::Polling),
            other_threads: of(Purpose::Run),
            requests: of(Purpose::Requests),
            conditions: Conditions::differences(before.conditions(), after.conditions()),
            one_without_kernel: shows_kernel(before) != shows_kernel(after),
            compared,
            frames,
        }
    }

    /// Draws the second profile's time for requests, with the stacks that only the first has added,
    /// each function coloured by how its own time changed: red for more, blue for less.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_svg(&self, before: &Cost, after: &Cost, writer: impl Write) -> io::Result<()> {
        let changes = changes(before, after);
        let by_name: BTreeMap<(&str, bool), &FrameChange> =
            changes.iter().map(|change| ((&*change.name, change.kernel), change)).collect();
        let mut stacks: BTreeMap<&str, u64> = before.iter().collect();
        stacks.extend(after.iter());
        stacks.retain(|stack, ps| 0 < *ps && purpose(stack) == Purpose::Requests);
        let mut shades = BTreeMap::new();
        let lines: Vec<String> = stacks
            .into_iter()
            .map(|(stack, ps)| {
                // Frame by frame, since an inlined function's name depends on its surrounding
                // function.
                let ends = stack.match_indices(';').map(|(at, _)| at).chain([stack.len()]);
                let frames = ends.map(|end| {
                    let (name, kernel) = innermost(&stack[..end]);
                    let change = by_name.get(&(&*name, kernel));
                    let shown = shown(&name, kernel, change.copied());
                    shades.insert(shown.clone(), change.map_or(0.0, |change| shade(change)));
                    shown
                });
                format!("{} {ps}", frames.collect::<Vec<String>>().join(";"))
            })
            .collect();
        let Change { before_us, after_us, .. } = self.requests;
        let title = format!("CPU per request: {before_us:.2} µs before, {after_us:.2} µs after");
        let subtitle = "widths: after, and what only before had; a function's own time: red more, \
                        blue less, grey within chance";
        let caption = Caption { title, subtitle: subtitle.to_owned(), unit: svg::PER_REQUEST };
        svg::write_shaded(&lines, &shades, caption, writer)
    }
}

/// The change of each function's own time for requests, in the order of their names.
fn changes(before: &Cost, after: &Cost) -> Vec<FrameChange> {
    let (mut first, mut second) = (Side::new(before), Side::new(after));
    let functions: BTreeSet<(String, bool)> =
        first.own.keys().chain(second.own.keys()).cloned().collect();
    // So that all intervals hold together (Bonferroni).
    let error = ERROR / functions.len().max(1) as f64;
    let change = |function: (String, bool)| {
        let (before, [before_low, before_high]) = first.of(&function, error);
        let (after, [after_low, after_high]) = second.of(&function, error);
        let (x, y) = (before as f64, after as f64);
        // The interval of a difference from those of its sides (Zou and Donner, *Statistics in
        // Medicine* 27, 2008), which holds for a function without a sample as well.
        let low = y - x - (y - after_low).hypot(before_high - x);
        let high = y - x + (after_high - y).hypot(x - before_low);
        FrameChange {
            time: Change::new(before, after),
            interval_us: [us(low), us(high)],
            beyond_chance: 0.0 < low || high < 0.0,
            name: function.0,
            kernel: function.1,
        }
    };
    functions.into_iter().map(change).collect()
}

/// A frame's name in the graph, with the change of its own time if that is beyond chance.
fn shown(name: &str, kernel: bool, change: Option<&FrameChange>) -> String {
    let suffix = if kernel { KERNEL } else { "" };
    let label = match name.split_once(" in ") {
        Some((inlined, outer)) => format!("{} in {}", label(inlined), label(outer)),
        None => label(name).to_owned(),
    };
    match change.filter(|change| change.beyond_chance) {
        Some(change) => format!("{label} {:+.0} ns{suffix}", change.time.change_us * 1e3),
        None => format!("{label}{suffix}"),
    }
}

/// From -1 for a function missing in the second profile to 1 for one only in it; 0 within chance.
/// It is the function's own, so that no outlier fades the others.
fn shade(change: &FrameChange) -> f64 {
    let Change { before_us, after_us, change_us } = change.time;
    if change.beyond_chance { change_us / before_us.max(after_us) } else { 0.0 }
}

/// Picoseconds as microseconds.
fn us(ps: f64) -> f64 {
    ps / 1e6
}

#[cfg(test)]
mod tests {
    use engine::load::schedule::mix;
    use engine::plan::Wait;

    use super::*;
    use crate::conditions::tests::conditions;

    /// A profile with these numbers of samples, each of 10 ns per request.
    fn sampled(stacks: &[(&str, u64)]) -> Cost {
        let mut cost = Cost::none(conditions(stacks.iter().map(|(_, samples)| samples).sum()));
        for (stack, samples) in stacks {
            cost.add(format!("truetail-shard;{stack}"), samples * 10_000);
        }
        cost
    }

    #[test]
    fn changes_beyond_chance_come_first_and_the_largest_before_others() {
        let before = sampled(&[("a", 400), ("a;b_[k]", 100), ("c", 1)]);
        let after = sampled(&[("a", 430), ("x;b_[k]", 200), ("d", 2)]);
        let found = Difference::new(&before, &after);
        let frames: Vec<_> = found
            .frames
            .iter()
            .map(|frame| (&*frame.name, frame.kernel, frame.time.before_us, frame.time.after_us))
            .collect();
        assert_eq!(
            frames,
            [
                ("b", true, 1.0, 2.0),
                ("a", false, 4.0, 4.3),
                ("d", false, 0.0, 0.02),
                ("c", false, 0.01, 0.0)
            ]
        );
        let beyond: Vec<bool> = found.frames.iter().map(|frame| frame.beyond_chance).collect();
        assert_eq!((beyond, found.compared), (vec![true, false, false, false], 4));
        let [low, high] = found.frames[0].interval_us;
        // A quarter of 5 %, so 2.5 deviations of √300 samples.
        assert!((low - 0.57).abs() < 0.05 && (high - 1.45).abs() < 0.05, "{low} to {high}");
        assert!(!found.one_without_kernel && found.conditions.is_empty());
    }

    #[test]
    fn polling_and_other_threads_are_separate_from_requests() {
        const POLL: &str = "turn;shard::polling::poll;clock";
        let mut before = sampled(&[(POLL, 500), ("turn;send_[k]", 100)]);
        before.add("truetail;watch;read_[k]".to_owned(), 3_000_000);
        let after = sampled(&[(POLL, 20), ("turn;send_[k]", 100)]);
        let found = Difference::new(&before, &after);
        let of = |change: Change| (change.before_us, change.after_us);
        assert_eq!(of(found.whole), (9.0, 1.2));
        assert_eq!(of(found.polling), (5.0, 0.2));
        assert_eq!(of(found.other_threads), (3.0, 0.0));
        assert_eq!(of(found.requests), (1.0, 1.0));
        let names: Vec<&str> = found.frames.iter().map(|frame| &*frame.name).collect();
        assert_eq!(names, ["send"]);
    }

    /// A profile of `samples` samples of 200 functions, some of which are frequent and most rare;
    /// the first is `often` times as frequent as in others.
    fn drawn(seed: u64, samples: u64, often: f64) -> Cost {
        let weight =
            |function: u64| (if function == 0 { often } else { 1.0 }) / (function + 5) as f64;
        let whole: f64 = (0..200).map(weight).sum();
        let mut counts = [0_u64; 200];
        for sample in 0..samples {
            let mut left = mix(mix(seed) + sample) as f64 / u64::MAX as f64 * whole;
            let function = (0..199).find(|function| {
                left -= weight(*function);
                left < 0.0
            });
            counts[usize::try_from(function.unwrap_or(199)).expect("small")] += 1;
        }
        let names: Vec<String> = (0..200).map(|function| format!("f{function:03}")).collect();
        let stacks: Vec<(&str, u64)> = std::iter::zip(names.iter().map(String::as_str), counts)
            .filter(|(_, samples)| 0 < *samples)
            .collect();
        sampled(&stacks)
    }

    #[test]
    fn two_profiles_of_the_same_differ_in_no_row_19_times_in_20() {
        let differ = |seed: u64| {
            // With different numbers of samples, a sample stands for different costs.
            let (before, after) = (drawn(2 * seed, 600, 1.0), drawn(2 * seed + 1, 600, 1.0));
            Difference::new(&before, &after).frames.iter().any(|frame| frame.beyond_chance)
        };
        // At most 10 of 200 are expected, with a deviation of 3.
        let rows = (0..200).filter(|seed| differ(*seed)).count();
        assert!(rows <= 20, "{rows} of 200");
        let before = drawn(1, 3_000, 1.0);
        let found = Difference::new(&before, &drawn(2, 3_000, 2.0));
        let first = &found.frames[0];
        assert!(first.name == "f000" && first.beyond_chance, "{first:?}");
    }

    #[test]
    fn a_profile_without_the_kernel_is_recognised() {
        let with = sampled(&[("a;b_[k]", 1)]);
        let without = sampled(&[("a", 1)]);
        assert!(Difference::new(&with, &without).one_without_kernel);
        assert!(Difference::new(&without, &with).one_without_kernel);
        assert!(!Difference::new(&without, &without).one_without_kernel);
    }

    #[test]
    fn differences_of_the_runs_are_named() {
        let mut after = Cost::none(Conditions { wait: Wait::Spin, ..conditions(1) });
        after.add("truetail-shard;a".to_owned(), 1);
        let found = Difference::new(&sampled(&[("a", 1)]), &after);
        assert_eq!(found.conditions, ["wait: hybrid, then spin"]);
    }

    #[test]
    fn an_inlined_function_is_shown_with_its_surrounding_one() {
        assert_eq!(shown("load in a::b::turn", false, None), "load in b::turn");
        assert_eq!(shown("send", true, None), "send_[k]");
    }

    #[test]
    fn the_graph_has_every_frame_of_both_and_no_outlier_fades_the_others() {
        let before = sampled(&[("a", 400), ("gone", 9_000), ("b::c::d", 100), ("e", 50)]);
        let after = sampled(&[("a", 400), ("new_[k]", 200), ("b::c::d", 200), ("e", 51)]);
        let mut svg = Vec::new();
        let difference = Difference::new(&before, &after);
        difference.write_svg(&before, &after, &mut svg).expect("written");
        let svg = String::from_utf8(svg).expect("text");
        assert!(svg.contains("CPU per request: 95.50 µs before, 8.51 µs after"), "{svg}");
        let fill = |frame: &str| {
            let (_, rest) = svg.split_once(&format!("<title>{frame} (")).expect(frame);
            let (_, rest) = rest.split_once("fill=\"").expect("a colour");
            rest.split_once('"').expect("a colour").0.to_owned()
        };
        assert_eq!(fill("gone -90000 ns"), "rgb(80,120,255)");
        assert_eq!(fill("new +2000 ns"), "rgb(255,90,80)");
        assert_eq!(fill("c::d +1000 ns"), "rgb(245,146,140)");
        assert_eq!(fill("a"), fill("e"));
    }
}
