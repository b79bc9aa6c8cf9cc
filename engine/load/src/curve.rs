//! Rate over time: how many requests are expected up to any time, and when each of them is due.
//!
//! A curve is a row of segments, in each of which the rate is constant or changes linearly.
//! Everything else follows from its integral, the number of requests expected since the epoch: it
//! is the mean of a Poisson schedule's counts, and constant arrival k is due when it reaches k.
//! That time is computed in integers, on a ramp too, so every machine finds the same nanosecond:
//! doubles guess it, and integers correct the guess.
//!
//! This is the only type for rate over time: the schedule, the setup (which offers the peak), an
//! agent's admission and the verdict all use it. A plan's rate is a curve of one segment, each
//! stage is one segment, and only `Curve::of_plan` decides this. Before the stages, the warm-up
//! runs at the initial rate of the first one, so the rate doesn't jump when the window begins; the
//! setup has opened connections for the peak rate.

use std::ops::Range;

use plan::stage::Stage;
use plan::{Model, Plan};
use units::{Nanos, Rate};

/// A stretch of time in which the rate is constant or changes linearly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The rate at its start.
    pub from: Rate,
    /// The rate at its end.
    pub to: Rate,
    /// Its length.
    pub length: Nanos,
}

/// The rate over the time since the run's epoch. After the last segment its end rate continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// In order; the last one is constant and endless.
    pieces: Vec<Piece>,
}

/// A segment and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    start_ns: u64,
    segment: Segment,
    /// Requests expected before it, in units of 1/[`PARTS`] request.
    before: u128,
}

/// Parts per request. The unit is half a millionth of a request per second, times a nanosecond: a
/// piece's mean rate is half the sum of two rates, which are in millionths.
const PARTS: u128 = 2_000_000_000_000_000;

impl Curve {
    /// The curve of these segments.
    ///
    /// # Panics
    /// Without a segment, or with one that has no length.
    pub fn new(segments: &[Segment]) -> Curve {
        let (mut start_ns, mut before) = (0, 0);
        let mut pieces: Vec<Piece> = Vec::with_capacity(segments.len() + 1);
        for segment in segments {
            assert!(0 < segment.length.0, "a segment has a length");
            match pieces.last_mut().map(|piece| &mut piece.segment) {
                // A constant rate means constant gaps between arrivals.
                Some(last) if [last.to, segment.from, segment.to] == [last.from; 3] => {
                    last.length.0 += segment.length.0;
                }
                _ => pieces.push(Piece { start_ns, segment: *segment, before }),
            }
            start_ns += segment.length.0;
            before += segment.parts();
        }
        let last = pieces.last_mut().expect("a curve has a segment");
        let endless = |start_ns: u64| Nanos(u64::MAX - start_ns);
        if last.segment.is_constant() {
            last.segment.length = endless(last.start_ns);
        } else {
            let from = last.segment.to;
            let segment = Segment { from, to: from, length: endless(start_ns) };
            pieces.push(Piece { start_ns, segment, before });
        }
        Curve { pieces }
    }

    /// A constant rate.
    pub fn constant(rate: Rate) -> Curve {
        Curve::new(&[Segment { from: rate, to: rate, length: Nanos(1) }])
    }

    /// The curve of a plan; `None` if responses drive its load. During the warm-up the rate is the
    /// first stage's initial rate.
    pub fn of_plan(plan: &Plan) -> Option<Curve> {
        if plan.model == Some(Model::Closed) {
            return None;
        }
        if plan.replay.is_some() {
            return Curve::of_log(plan.requests?, plan.duration);
        }
        let Some(first) = plan.stage.first() else { return plan.rate.map(Curve::constant) };
        let warmup = Segment { from: first.from, to: first.from, length: plan.warmup };
        let of_stage =
            |stage: &Stage| Segment { from: stage.from, to: stage.to, length: stage.duration };
        let segments = std::iter::once(warmup).chain(plan.stage.iter().map(of_stage));
        let segments = segments.filter(|segment| 0 < segment.length.0);
        Some(Curve::new(&segments.collect::<Vec<Segment>>()))
    }

    /// The mean rate of a replayed log, whose schedule has its own times; `None` if it has none.
    fn of_log(requests: u64, length: Nanos) -> Option<Curve> {
        let per_second = requests as f64 / length.as_secs_f64();
        format!("{per_second:.6}").parse().ok().map(Curve::constant)
    }

    /// The mean rate, per second, of a plan's window if it ends here, ns since the epoch.
    pub fn window_mean(plan: &Plan, until_ns: u64) -> Option<f64> {
        let until_ns = until_ns.clamp(plan.warmup.0, plan.end_ns());
        Some(Curve::of_plan(plan)?.mean_per_second(plan.warmup.0, until_ns))
    }

    /// The highest rate.
    pub fn peak(&self) -> Rate {
        let rates = self.pieces.iter().flat_map(|piece| [piece.segment.from, piece.segment.to]);
        rates.max().expect("a curve has a segment")
    }

    /// The mean rate between two times, per second; where the rate is constant, exactly that rate.
    pub fn mean_per_second(&self, from_ns: u64, to_ns: u64) -> f64 {
        let mut requests_e9 = 0.0;
        for piece in &self.pieces[self.at(from_ns)..] {
            let (first_ns, last_ns) = (from_ns.max(piece.start_ns), to_ns.min(piece.end_ns()));
            // The mean of a linear change is the value in the middle.
            let middle_ns = (first_ns - piece.start_ns) as f64 / 2.0
                + last_ns.saturating_sub(piece.start_ns) as f64 / 2.0;
            let mean = piece.segment.per_second(middle_ns);
            if first_ns == from_ns && to_ns <= piece.end_ns() {
                return mean;
            }
            if to_ns <= first_ns {
                break;
            }
            requests_e9 += mean * (last_ns - first_ns) as f64;
        }
        requests_e9 / (to_ns - from_ns) as f64
    }

    /// The number of requests expected between two times.
    pub fn expected(&self, from_ns: u64, to_ns: u64) -> f64 {
        if to_ns <= from_ns {
            return 0.0;
        }
        self.mean_per_second(from_ns, to_ns) * (to_ns - from_ns) as f64 / 1e9
    }

    /// When `of` of `parts` equal parts of the arrivals expected between two times have come.
    pub(super) fn reaches(&self, within_ns: Range<u64>, of: u64, parts: u64) -> u64 {
        let whole = self.expected(within_ns.start, within_ns.end);
        let part = whole * (of as f64 / parts as f64);
        let (mut low, mut high) = (within_ns.start, within_ns.end);
        while low < high {
            let middle = low.midpoint(high);
            if self.expected(within_ns.start, middle) < part {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Until when the rate stays as it is at this time; this time itself if the rate is changing.
    pub(super) fn steady_until_ns(&self, at_ns: u64) -> u64 {
        let piece = &self.pieces[self.at(at_ns)];
        if piece.segment.is_constant() { piece.end_ns() } else { at_ns }
    }

    /// When `number` requests are expected, rounded down to whole ns: the last such time, so that
    /// no arrival is due while the rate is zero. `u64::MAX` if that is never, or beyond 584 years.
    pub fn due_ns(&self, number: u64) -> u64 {
        let (piece, rest) = self.holding(number);
        let since_start = match piece.segment.is_constant() {
            true => {
                rest.checked_div(piece.segment.parts_per_ns()).and_then(|ns| ns.try_into().ok())
            }
            false => Some(piece.segment.reaches(rest)),
        };
        since_start.and_then(|ns: u64| piece.start_ns.checked_add(ns)).unwrap_or(u64::MAX)
    }

    /// The number of the first arrival due at this time or later.
    pub(super) fn first_from(&self, at_ns: u64) -> u64 {
        // Doubles give the neighbourhood; the due times decide.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, and nothing expected is negative"
        )]
        let mut first = self.expected(0, at_ns) as u64;
        while 0 < first && at_ns <= self.due_ns(first - 1) {
            first -= 1;
        }
        while self.due_ns(first) < at_ns {
            first += 1;
        }
        first
    }

    /// The run of equal gaps that arrival `number` belongs to; `None` if the rate is changing, or
    /// zero.
    pub(super) fn even_gaps(&self, number: u64) -> Option<EvenGaps> {
        let (piece, rest) = self.holding(number);
        let per_ns = u64::try_from(piece.segment.parts_per_ns()).expect("a rate has a limit");
        if !piece.segment.is_constant() || per_ns == 0 {
            return None;
        }
        let next = self.pieces.iter().find(|next| piece.before < next.before);
        let until = next.map(|next| next.before.div_ceil(PARTS));
        let left = u64::try_from(rest % u128::from(per_ns)).expect("less than its divisor");
        let until = until.and_then(|until| until.try_into().ok()).unwrap_or(u64::MAX);
        Some(EvenGaps { per_ns, left, until })
    }

    /// The piece in which this number is due, and the parts left for it there.
    fn holding(&self, number: u64) -> (&Piece, u128) {
        let parts = u128::from(number) * PARTS;
        let after = self.pieces.partition_point(|piece| piece.before <= parts);
        let piece = &self.pieces[after - 1];
        (piece, parts - piece.before)
    }

    /// The index of the piece that contains this time.
    fn at(&self, at_ns: u64) -> usize {
        self.pieces.partition_point(|piece| piece.start_ns <= at_ns) - 1
    }
}

impl Piece {
    fn end_ns(&self) -> u64 {
        self.start_ns + self.segment.length.0
    }
}

impl Segment {
    fn is_constant(&self) -> bool {
        self.from == self.to
    }

    /// The rate this long after its start.
    fn per_second(&self, since_start_ns: f64) -> f64 {
        let (from, to) = (self.from.per_second(), self.to.per_second());
        from + (to - from) * (since_start_ns / self.length.0 as f64)
    }

    /// Parts per nanosecond at the start.
    fn parts_per_ns(&self) -> u128 {
        2 * u128::from(self.from.micro_per_second())
    }

    /// Parts in the whole segment.
    fn parts(&self) -> u128 {
        let sum = self.from.micro_per_second() + self.to.micro_per_second();
        u128::from(sum) * u128::from(self.length.0)
    }

    /// Parts until `ns` after the start, rounded up: `2·from·t + (to − from)·t²/length`.
    fn parts_until(&self, ns: u64) -> u128 {
        let (from, to) = (self.from.micro_per_second(), self.to.micro_per_second());
        let (ns, length) = (u128::from(ns), u128::from(self.length.0));
        // The square doesn't fit into 128 bits, so it is divided before the product is complete.
        let product = u128::from(from.abs_diff(to)) * ns;
        let (whole, rest) = (product / length * ns, product % length * ns);
        let even = self.parts_per_ns() * ns;
        if from < to { even + whole + rest.div_ceil(length) } else { even - whole - rest / length }
    }

    /// The last whole ns after the start until which there are at most this many parts.
    fn reaches(&self, parts: u128) -> u64 {
        let (from, to) = (self.from.micro_per_second() as f64, self.to.micro_per_second() as f64);
        let half = parts as f64 / 2.0;
        // A guess that is off by about a ns, unless the rate is close to zero there.
        let root = (from * from + 2.0 * (to - from) * half / self.length.0 as f64).max(0.0).sqrt();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "held within the length"
        )]
        let mut low = ((2.0 * half / (from + root)) as u64).min(self.length.0);
        let mut step = 1;
        while parts < self.parts_until(low) {
            low = low.saturating_sub(step);
            step *= 2;
        }
        step = 1;
        while low + step <= self.length.0 && self.parts_until(low + step) <= parts {
            low += step;
            step *= 2;
        }
        let mut high = (low + step).min(self.length.0 + 1);
        while low + 1 < high {
            let middle = low.midpoint(high);
            if self.parts_until(middle) <= parts {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Arrivals with equal gaps: steps from one to a later one without a division that depends on their
/// numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct EvenGaps {
    /// Parts per nanosecond.
    per_ns: u64,
    /// Parts by which the current arrival's exact time exceeds its whole ns.
    left: u64,
    /// The first number that isn't among them.
    until: u64,
}

/// The distance to an arrival a given number of arrivals later.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gap {
    whole_ns: u64,
    left: u64,
}

impl EvenGaps {
    /// The gap to an arrival this many numbers later, at most 584 years.
    pub(super) fn gap(&self, numbers: u64) -> Gap {
        let parts = u128::from(numbers) * PARTS;
        let per_ns = u128::from(self.per_ns);
        let left = u64::try_from(parts % per_ns).expect("less than its divisor");
        Gap { whole_ns: u64::try_from(parts / per_ns).unwrap_or(u64::MAX), left }
    }

    /// True if this number is among them.
    #[inline]
    pub(super) fn have(&self, number: u64) -> bool {
        number < self.until
    }

    /// Steps over a gap: the time of the arrival there, from that of the current one.
    #[inline]
    pub(super) fn after(&mut self, due_ns: u64, gap: Gap) -> u64 {
        self.left += gap.left;
        let carry = self.per_ns <= self.left;
        if carry {
            self.left -= self.per_ns;
        }
        due_ns.saturating_add(gap.whole_ns).saturating_add(u64::from(carry))
    }
}

#[cfg(test)]
mod tests {
    use units::SECOND_NS;

    use super::*;

    pub(super) fn rate(text: &str) -> Rate {
        if text == "0" { Rate::ZERO } else { text.parse().expect("a rate") }
    }

    /// Segments written as `from..to:length`, or `rate:length`.
    fn curve(texts: &[&str]) -> Curve {
        let segment = |text: &&str| {
            let (rates, length) = text.split_once(':').expect("a length");
            let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
            let length = length.parse().expect("a length");
            Segment { from: rate(from), to: rate(to), length }
        };
        Curve::new(&texts.iter().map(segment).collect::<Vec<Segment>>())
    }

    /// A ramp up, a plateau, a ramp down, a pause, and a jump.
    const FIVE: [&str; 5] = ["0..2000:1s", "2000:1500ms", "2000..0:333ms", "0:500ms", "700.5:1s"];

    #[test]
    fn a_constant_rate_is_one_segment_of_any_length() {
        let constant = Curve::constant(rate("20k"));
        assert_eq!(constant, curve(&["20k:1s"]));
        assert_eq!(constant, curve(&["20k:7ns"]));
        assert_eq!(constant.pieces.len(), 1);
        assert_eq!(constant.peak(), rate("20k"));
        for (from_ns, to_ns) in [(0, 1), (0, 1_000_000), (SECOND_NS, 86_400 * SECOND_NS)] {
            assert_eq!(constant.mean_per_second(from_ns, to_ns), 20_000.0);
        }
        assert_eq!(constant.expected(SECOND_NS, 2 * SECOND_NS), 20_000.0);
        assert_eq!(constant.due_ns(3), 150_000);
        // k·10⁹/rate rounded down, in integers, for the lowest rate and the highest.
        for text in ["0.000001", "333.333333", "100M"] {
            let micro = u128::from(rate(text).micro_per_second());
            let curve = Curve::constant(rate(text));
            for k in [0, 1, 2, 12_345, u64::from(u32::MAX), u64::MAX] {
                let exact = u128::from(k) * 1_000_000_000_000_000 / micro;
                assert_eq!(curve.due_ns(k), u64::try_from(exact).unwrap_or(u64::MAX), "{text} {k}");
            }
        }
    }

    #[test]
    fn neighbours_of_one_rate_are_one_segment() {
        assert_eq!(curve(&["5:1s", "5:3s", "5:7ms"]), Curve::constant(rate("5")));
        let ramps = ["5..6:1s", "6..7:1s", "7:1s", "7:1s", "7..7:1s"];
        assert_eq!(curve(&ramps).pieces.len(), 3);
        assert_eq!(curve(&ramps).expected(0, 4 * SECOND_NS), 5.5 + 6.5 + 7.0 + 7.0);
    }

    #[test]
    fn a_plans_stages_follow_a_warmup_at_the_first_ones_first_rate() {
        let stage = |text: &str| text.parse().expect("a stage");
        let stages = vec![stage("100..300:2s"), stage("300:1s")];
        let plan = Plan { stage: stages, warmup: Nanos::from_secs(5), ..Plan::default() };
        let of_plan = |plan: &Plan| Curve::of_plan(plan).expect("an open plan");
        assert_eq!(of_plan(&plan), curve(&["100:5s", "100..300:2s", "300:1s"]));
        let at_once = Plan { warmup: Nanos(0), ..plan };
        assert_eq!(of_plan(&at_once), curve(&["100..300:2s", "300:1s"]));
        let end_ns = at_once.end_ns();
        // The mean of a window that was cut short covers only the part that ran.
        let of_two = Plan { duration: Nanos::from_secs(3), ..at_once };
        let mean = |until_ns| Curve::window_mean(&of_two, until_ns).expect("open");
        assert_eq!((mean(SECOND_NS), mean(2 * SECOND_NS)), (150.0, 200.0));
        assert!((mean(end_ns) - 700.0 / 3.0).abs() < 1e-9);
        // A single stage is equivalent to a plan with its rate.
        let single = Plan { stage: vec![stage("20k:9s")], ..Plan::default() };
        assert_eq!(of_plan(&single), Curve::constant(rate("20k")));
    }

    #[test]
    fn what_is_expected_is_the_area_under_the_curve() {
        let five = curve(&FIVE);
        assert_eq!(five.peak(), rate("2000"));
        let ms = |ms: u64| ms * 1_000_000;
        for (from_ms, to_ms, expected) in [
            (0, 1_000, 1_000.0),
            (0, 500, 250.0),
            (500, 1_000, 750.0),
            (900, 1_100, 190.0 + 200.0),
            (0, 2_833, 1_000.0 + 3_000.0 + 333.0),
            (2_833, 3_333, 0.0),
            (2_900, 3_433, 70.05),
            (0, 5_333, 4_333.0 + 2.0 * 700.5),
            (3_000, 3_000, 0.0),
        ] {
            let found = five.expected(ms(from_ms), ms(to_ms));
            assert!((found - expected).abs() < 1e-6, "{from_ms} to {to_ms}: {found}");
        }
        assert_eq!(five.steady_until_ns(ms(500)), ms(500));
        assert_eq!(five.steady_until_ns(ms(1_000)), ms(2_500));
        assert_eq!(five.steady_until_ns(ms(9_000)), u64::MAX);
    }

    #[test]
    fn equal_parts_of_what_is_expected_take_longer_where_the_rate_is_low() {
        let ms = |ms: u64| ms * 1_000_000;
        let two = curve(&["100:1s", "300:1s"]);
        let at = |of| two.reaches(ms(0)..ms(2_000), of, 4);
        assert_eq!([0, 1, 2, 4].map(at), [0, ms(1_000), ms(1_000) + 333_333_334, ms(2_000)]);
        let ramp = curve(&["0..200:2s", "0:1s"]);
        let half = ramp.reaches(ms(0)..ms(3_000), 1, 2);
        assert!(half.abs_diff(1_414_213_562) < 10, "{half}");
    }

    #[test]
    fn arrival_k_is_due_when_k_are_expected() {
        for texts in [&FIVE[..], &["0..1:10h"], &["100M..1:1s"], &["1..1.000001:24h"], &["7:1s"]] {
            let curve = curve(texts);
            let mut last_ns = 0;
            for k in (0..6_000).chain([1_000_000, 40_000_000]) {
                let due_ns = curve.due_ns(k);
                assert!(last_ns <= due_ns, "{texts:?}: {k}");
                last_ns = due_ns;
                let error = curve.expected(0, due_ns) - k as f64;
                let per_ns = curve.mean_per_second(due_ns, due_ns + 1) / 1e9;
                // At most the ns lost to rounding down, plus the error of doubles.
                assert!(-per_ns * 1.01 - 1e-6 < error && error < 1e-6, "{texts:?} {k}: {error}");
            }
        }
    }

    #[test]
    fn nothing_is_due_while_the_rate_is_zero() {
        let paused = curve(&["100:1s", "0:1s", "50:1s"]);
        assert_eq!([99, 100, 101].map(|k| paused.due_ns(k) / 1_000_000), [990, 2_000, 2_020]);
        let ends = curve(&["0:1s", "100:1s", "0:1s"]);
        assert_eq!([0, 1, 99].map(|k| ends.due_ns(k) / 1_000_000), [1_000, 1_010, 1_990]);
        assert_eq!(ends.due_ns(100), u64::MAX, "nothing comes after the end");
    }

    #[test]
    fn the_moment_is_exact_to_the_ns() {
        for texts in [["0..100M:1s"], ["100M..0:1h"], ["3..5:1h"], ["0.000001..100M:24h"]] {
            let curve = curve(&texts);
            let segment = curve.pieces[0].segment;
            let whole = segment.parts() / PARTS;
            for step in 0..=1_000_u128 {
                let number = u64::try_from(whole * step / 1_000).expect("few");
                let (parts, due_ns) = (u128::from(number) * PARTS, curve.due_ns(number));
                if segment.length.0 <= due_ns {
                    continue;
                }
                assert!(segment.parts_until(due_ns) <= parts, "{texts:?} {number}");
                assert!(parts < segment.parts_until(due_ns + 1), "{texts:?} {number}");
            }
        }
    }

    #[test]
    fn even_gaps_lead_to_the_same_moments() {
        let curve = curve(&["333.333333:2s", "0:100ms", "700.5:1s", "700.5..1:1s", "64M:1s"]);
        for steps in [[1, 1], [3, 5], [1, 1_000], [64, 65]] {
            let (mut number, mut at) = (0, 0);
            while number < 3_000 {
                let Some(mut gaps) = curve.even_gaps(number) else {
                    number += 1;
                    continue;
                };
                let each = steps.map(|step| gaps.gap(step));
                let mut due_ns = curve.due_ns(number);
                while gaps.have(number) && number < 100_000 {
                    assert_eq!(due_ns, curve.due_ns(number), "{steps:?} {number}");
                    due_ns = gaps.after(due_ns, each[at % 2]);
                    number += steps[at % 2];
                    at += 1;
                }
            }
        }
    }
}
