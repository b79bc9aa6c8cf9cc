//! Tests intended times by time rescaling, for any curve: on a clock that advances by one per
//! expected arrival, Poisson arrivals are a process of rate 1, and constant ones come at whole
//! numbers.
//!
//! The times are a function of plan and seed, so a sound schedule must practically never fail.
//! Poisson arrivals are tested in stretches of a million, each figure against a bound that one
//! stretch in a billion exceeds: of schedules of a billion arrivals, a test rejects fewer than one
//! in a million.

use std::ops::Range;

use super::finding::Finding;
use load::curve::Curve;
use load::rescaling::Rescaling;
use plan::Arrivals;
use stats::arrival_proof::Offer;
use stats::unit_process::UnitProcess;

/// Expected arrivals in a stretch.
const STRETCH: f64 = 1e6;
/// Expected arrivals below which a stretch, always the last one, isn't tested.
const STRETCH_MIN: f64 = 100.0;
/// Constant arrivals are due in whole ns; the excess is for the rounding of this number.
const ROUNDING_NS: f64 = 1.01;

/// The test of an offer, whose arrivals come in order.
pub(super) struct Rescaled {
    test: Test,
    until_ns: u64,
}

enum Test {
    /// A log's times follow no curve.
    None,
    Constant(Constant),
    Poisson(Stretches),
}

struct Constant {
    curve: Curve,
    /// The number of the last arrival.
    last: Option<f64>,
    /// The number of arrivals that aren't due at a whole number, or at one that has come before.
    off: u64,
}

struct Stretches {
    rescaling: Rescaling,
    /// The share of the whole that is offered.
    fraction: f64,
    /// The start of the current stretch, on the rescaled clock, and its arrivals.
    start: f64,
    times: Vec<f64>,
    /// The worst figures of the completed stretches.
    worst: Option<UnitProcess>,
}

impl Rescaled {
    /// A test of arrivals from `from_ns` until the offer's end.
    pub(super) fn new(offer: &Offer, from_ns: u64) -> Rescaled {
        let curve = offer.curve.clone();
        let test = match offer.arrivals {
            Arrivals::Log => Test::None,
            Arrivals::Constant => Test::Constant(Constant { curve, last: None, off: 0 }),
            Arrivals::Poisson => {
                let mut rescaling = Rescaling::new(curve);
                let (fraction, times) = (offer.fraction, Vec::new());
                let start = rescaling.at(from_ns) * fraction;
                Test::Poisson(Stretches { rescaling, fraction, start, times, worst: None })
            }
        };
        Rescaled { test, until_ns: offer.until_ns }
    }

    /// Adds the next arrival.
    pub(super) fn add(&mut self, due_ns: u64) {
        if self.until_ns <= due_ns {
            return;
        }
        match &mut self.test {
            Test::None => {}
            Test::Constant(constant) => constant.add(due_ns),
            Test::Poisson(stretches) => stretches.add(due_ns),
        }
    }

    /// The findings, named after `what`; none if there are too few arrivals.
    pub(super) fn findings(self, what: &str) -> Vec<Finding> {
        match self.test {
            Test::None => Vec::new(),
            Test::Constant(Constant { off, .. }) => {
                vec![Finding::equal(format!("{what}: arrivals off the rate"), 0, off)]
            }
            Test::Poisson(stretches) => {
                let worst = stretches.end(self.until_ns).map(|worst| worst.figures());
                let bounds = UnitProcess::IMPOSSIBLE.figures();
                let each = worst.into_iter().flatten().zip(bounds);
                let finding = |((name, found), (_, most)): ((&str, f64), (_, f64))| {
                    let (what, found_text) = (format!("{what}: {name}"), format!("{found:.3}"));
                    Finding::new(what, format!("at most {most}"), found_text, found <= most)
                };
                each.map(finding).collect()
            }
        }
    }
}

impl Constant {
    fn add(&mut self, due_ns: u64) {
        let expected = self.curve.expected(0, due_ns);
        // The precision of doubles over a long schedule.
        let rounding = (expected * 1e-14).max(1e-6);
        let number = (expected - rounding).ceil();
        let per_ns = self.curve.expected(due_ns, due_ns + 1);
        let is_due = number - expected <= per_ns * ROUNDING_NS + rounding;
        if !is_due || self.last.is_some_and(|last| number <= last) {
            self.off += 1;
        }
        self.last = Some(number);
    }
}

impl Stretches {
    fn add(&mut self, due_ns: u64) {
        let time = self.rescaling.arrival(due_ns) * self.fraction;
        // If none came for longer than a stretch, one long stretch has too few.
        let passed = ((time - self.start) / STRETCH).floor();
        if 1.0 <= passed {
            self.close(self.start + passed * STRETCH);
        }
        self.times.push(time);
    }

    fn close(&mut self, end: f64) {
        let stretch: Range<f64> = self.start..end;
        let found = UnitProcess::new(&mut self.times, &stretch);
        self.worst = Some(self.worst.map_or(found, |worst| worst.or_worse(&found)));
        self.times.clear();
        self.start = end;
    }

    fn end(mut self, until_ns: u64) -> Option<UnitProcess> {
        let end = self.rescaling.at(until_ns) * self.fraction;
        if self.start + STRETCH_MIN <= end {
            self.close(end);
        }
        self.worst
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use load::curve::Segment;
    use load::schedule::Schedule;
    use load::share::Share;
    use units::{Nanos, Rate, SECOND_NS};

    /// Up, level, down, a pause, and a jump; 22,500 arrivals, then 5,000 a second.
    fn five_segments() -> Curve {
        let rate = |text: &str| text.parse().expect("a rate");
        let segment = |from: Rate, to: Rate, ms: u64| Segment {
            from,
            to,
            length: Nanos(ms * SECOND_NS / 1_000),
        };
        Curve::new(&[
            segment(Rate::ZERO, rate("10k"), 1_500),
            segment(rate("10k"), rate("10k"), 1_000),
            segment(rate("10k"), Rate::ZERO, 1_000),
            segment(Rate::ZERO, Rate::ZERO, 500),
            segment(rate("5k"), rate("5k"), 1),
        ])
    }

    fn offer(curve: Curve, arrivals: Arrivals, fraction: f64) -> Offer {
        Offer {
            curve,
            from_ns: 0,
            until_ns: 8 * SECOND_NS + 123_456,
            arrivals,
            fraction,
            intended: 0,
            sent_in_window: 0,
            unconnected: 0,
            at_the_edge: 0.0,
        }
    }

    /// The failed checks of an offer's arrivals, each changed by `change`, from this time on.
    fn failed(
        offer: &Offer,
        share: Share,
        from_ns: u64,
        change: impl Fn(u64) -> u64,
    ) -> Vec<Finding> {
        let Offer { curve, arrivals, until_ns, .. } = offer.clone();
        let schedule = Schedule::new(curve, arrivals, 7, until_ns, share);
        let mut rescaled = Rescaled::new(offer, from_ns);
        let times_ns = schedule.times_ns().filter(|due_ns| from_ns <= *due_ns);
        times_ns.for_each(|due_ns| rescaled.add(change(due_ns)));
        let mut findings = rescaled.findings("schedule");
        assert_eq!(findings.len(), if offer.arrivals == Arrivals::Poisson { 5 } else { 1 });
        findings.retain(|finding| !finding.ok);
        findings
    }

    #[test]
    fn the_generators_arrivals_pass_on_any_curve_and_for_any_part() {
        for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
            for curve in [Curve::constant("333.333333".parse().expect("a rate")), five_segments()] {
                for (share, from_ns) in [
                    (Share::whole(), 0),
                    (Share::whole(), SECOND_NS + 1),
                    (Share::units(2..7, 10), 0),
                ] {
                    let offer = offer(curve.clone(), arrivals, share.fraction());
                    let found = failed(&offer, share, from_ns, |due_ns| due_ns);
                    assert_eq!(found, [], "{arrivals:?} {curve:?}");
                }
            }
        }
    }

    #[test]
    fn a_schedule_of_several_stretches_passes_and_loses_none_of_them() {
        let curve = Curve::constant("300k".parse().expect("a rate"));
        let offer = offer(curve, Arrivals::Poisson, 1.0);
        assert_eq!(failed(&offer, Share::whole(), 0, |due_ns| due_ns), []);
        // In the second of three, a second's arrivals come a second late.
        let moved = |due_ns: u64| due_ns + if due_ns / SECOND_NS == 4 { SECOND_NS } else { 0 };
        assert_ne!(failed(&offer, Share::whole(), 0, moved), []);
        // The first two stretches are empty.
        assert_ne!(
            failed(&Offer { from_ns: 0, ..offer }, Share::whole(), 0, |due_ns| {
                due_ns.max(7 * SECOND_NS)
            }),
            []
        );
    }

    #[test]
    fn other_arrivals_fail() {
        let names = |offer: &Offer, change: fn(u64) -> u64| -> Vec<String> {
            let found = failed(offer, Share::whole(), 0, change);
            found.into_iter().map(|finding| finding.what).collect()
        };
        for curve in [Curve::constant("5k".parse().expect("a rate")), five_segments()] {
            let poisson = offer(curve.clone(), Arrivals::Poisson, 1.0);
            let whole_ms = names(&poisson, |due_ns| due_ns.next_multiple_of(1_000_000));
            assert!(3 <= whole_ms.len(), "{whole_ms:?}");
            let slow = names(&poisson, |due_ns| due_ns / 10 * 11);
            assert!(slow.contains(&"schedule: number, in deviations".to_owned()), "{slow:?}");
            let constant = offer(curve, Arrivals::Constant, 1.0);
            let late = names(&constant, |due_ns| due_ns + 2);
            assert_eq!(late, ["schedule: arrivals off the rate"]);
            let twice = names(&constant, |due_ns| due_ns / 1_000_000 * 1_000_000);
            assert_eq!(twice, ["schedule: arrivals off the rate"]);
        }
    }

    #[test]
    fn arrivals_delayed_by_a_tenth_of_a_gap_fail() {
        const MS_NS: u64 = SECOND_NS / 1_000;
        for curve in [Curve::constant("5k".parse().expect("a rate")), five_segments()] {
            // A tenth of the mean gap at that time.
            let tenth_ns = |due_ns: u64| {
                let per_ms = curve.expected(due_ns, due_ns + MS_NS);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "at most ten seconds"
                )]
                let gap_ns = (MS_NS as f64 / per_ms.max(1e-4)) as u64;
                gap_ns / 10
            };
            let constant = offer(curve.clone(), Arrivals::Constant, 1.0);
            let late = failed(&constant, Share::whole(), 0, |due_ns| due_ns + tenth_ns(due_ns));
            assert_eq!(late.len(), 1, "{curve:?}");
            // Random ones that keep this distance from the one before.
            let poisson = offer(curve.clone(), Arrivals::Poisson, 1.0);
            let before_ns = Cell::new(0);
            let apart = failed(&poisson, Share::whole(), 0, |due_ns| {
                before_ns.set(due_ns.max(before_ns.get() + tenth_ns(due_ns)));
                before_ns.get()
            });
            let names: Vec<&str> = apart.iter().map(|finding| &*finding.what).collect();
            assert!(names.contains(&"schedule: gaps, √n·D from exponential"), "{names:?}");
        }
    }

    #[test]
    fn too_few_arrivals_are_not_tested() {
        let offer = offer(Curve::constant("10".parse().expect("a rate")), Arrivals::Poisson, 1.0);
        assert_eq!(Rescaled::new(&offer, 0).findings("schedule"), []);
    }
}
