//! The proof of arrivals: were requests sent as planned, by goodness of fit, dispersion and
//! autocorrelation, with one line that says so.
//!
//! The **schedule** is arithmetic, so it is tested at a significance of one in 10,000 per
//! test: every run is tested, and at 1 % one honest run in a hundred would be called wrong. The **sends** are bounded by the size of the effect: a generator that
//! batches and wakes up late does shift them, by amounts that follow from its lateness, and with
//! enough requests any shift is significant. They are held against the intended times of the same
//! requests, whatever chance made of these, so chance excuses nothing.
//!
//! Batching and lateness up to a quantum Q count for nothing. At a shard's rate λ, batches of
//! length Q move the distance of the gaps by about λQ/2, and lateness that scatters by Q gives
//! neighbouring gaps a correlation of −v/(1+2v), v = (λQ)², because what one gap gains the next
//! loses.

use std::fmt::Write as _;

use plan::thresholds::Thresholds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arrivals::{ArrivalStats, Moments};
use super::offer::{Offer, mean_rate_per_ns};
use super::statistics::{
    NORMAL_1_PERCENT, chi_squared_point, gaps_correlation, index_of_dispersion, kolmogorov_p,
    ks_between, ks_histogram_gaps, normal_point,
};

/// Probability, in each test of the intended arrivals, below which they don't follow the plan.
const SCHEDULE_P: f64 = 1e-4;
/// How far the sends' index of dispersion, their gaps' Kolmogorov–Smirnov distance from the intended
/// ones and their lag-1 autocorrelation may be off those of the intended times of the same requests,
/// beyond what the lateness that the plan allows explains: a twentieth of a Poisson process's index
/// makes no queue longer that a run could tell.
const SENDS_EFFECT: f64 = 0.05;
/// Standard deviations that such lateness may move the sends' index of dispersion by: one honest
/// window length in 370 moves by more.
const SENDS_DEVIATIONS: f64 = 3.0;
/// The distance of the gaps that no lateness explains: half of them would have moved.
const SENDS_DISTANCE_MAX: f64 = 0.5;
/// Windows of the index of dispersion, ms.
const WINDOWS_MS: [u64; 3] = [1, 10, 100];
/// Arrivals below which nothing is judged.
const ARRIVALS_MIN: u64 = 100;
/// Windows below which an index of dispersion is reported and not judged: with fewer, χ² is too
/// skewed for the sends' symmetric band. Below 600 windows the band is wide but still right: 1 ±
/// 0.48 at 100.
const WINDOWS_MIN: u64 = 100;
/// Arrivals in a window on average below which the schedule's index of dispersion is not judged:
/// with fewer it is no longer χ², and exceeds its point at 1 in 10,000 twenty times as often (at
/// 0.1 in each of 100 windows, by simulation).
const PER_WINDOW_MIN: f64 = 1.0;
/// Constant gaps are whole nanoseconds, so one may be off by less than 1 ns; the rest is for the
/// rounding of this number.
const CONSTANT_GAP_ERROR_MAX_NS: f64 = 1.5;

/// A figure and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// The figure; `None` when there was too little to compute it from.
    pub value: Option<f64>,
    /// The lowest and the highest that it may be; `None` if it is only reported, not judged.
    pub within: Option<[f64; 2]>,
}

/// The index of dispersion of counts over windows of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DispersionProof {
    /// Length of a window, ms.
    pub window_ms: u64,
    /// Whole windows counted, of the last 60 s.
    pub windows: u64,
    /// Of the requests as intended.
    pub intended: Figure,
    /// Of the requests that were sent, as intended: what `sent` is held against.
    pub due: Option<f64>,
    /// Of the requests as sent.
    pub sent: Figure,
}

/// A run's arrivals against those planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArrivalProof {
    /// The process planned.
    pub arrivals: plan::Arrivals,
    /// The rate planned, requests per second over all shards.
    #[serde(rename = "rate_per_s")]
    pub rate: f64,
    /// Shards that the schedule was dealt to.
    pub shards: usize,
    /// The rate of one shard; of shards that differ, the mean over the requests of all.
    #[serde(rename = "shard_rate_per_s")]
    pub shard_rate: f64,
    /// Requests intended in the window.
    pub intended: u64,
    /// Of these, sent before its end.
    pub sent: u64,
    /// Index of dispersion of counts: 1 for Poisson, 0 for constant arrivals.
    pub dispersion: Vec<DispersionProof>,
    /// Kolmogorov–Smirnov distance of the intended gaps of each shard from those of the Poisson
    /// process planned, seen through a window of this length.
    pub schedule_distance: Figure,
    /// Probability of a distance at least as large; judged for Poisson arrivals.
    pub schedule_p: Figure,
    /// Largest difference of an intended gap from the constant gap planned, ns; judged for constant
    /// arrivals.
    pub schedule_gap_error_ns: Figure,
    /// Kolmogorov–Smirnov distance of the sent gaps of each shard from the intended ones of the
    /// same requests.
    pub gaps_distance: Figure,
    /// Lag-1 autocorrelation of the intended gaps; not judged over shards of different rates, whose
    /// gaps are as alike as their rates differ.
    pub lag1_intended: Figure,
    /// Lag-1 autocorrelation of the intended gaps of the requests that were sent: what `lag1_sent`
    /// is held against.
    pub lag1_due: Option<f64>,
    /// Lag-1 autocorrelation of the sent gaps.
    pub lag1_sent: Figure,
    /// What the lag-1 autocorrelation of independent gaps stays below 99 times of 100, `2.576/√n`.
    pub lag1_chance: Option<f64>,
    /// Requests sent before the end of the window, over those intended in it.
    pub sent_over_intended: Figure,
    /// Whether there were enough arrivals to tell, and each judged figure was within its bounds.
    pub as_planned: bool,
    /// What was not as planned, one sentence for each figure. Empty with `as_planned` false: too
    /// few arrivals to tell.
    pub failed: Vec<String>,
}

impl ArrivalStats {
    /// Judges these arrivals, merged over all shards, against the plan.
    pub fn summary(&self, offer: &Offer, bounds: &Thresholds) -> ArrivalProof {
        let Offer { arrivals, .. } = *offer;
        let streams = offer.streams();
        assert!(!streams.is_empty(), "at least one shard recorded");
        let (intended, due, sent) = (self.intended(), self.due(), self.sent());
        let shard_rate_per_ns = mean_rate_per_ns(&streams);
        let gaps = intended.gaps.histogram();
        let pairs = intended.neighbours.pairs() as f64;
        let chance = (0.0 < pairs).then(|| NORMAL_1_PERCENT / pairs.sqrt());
        let window_ns = self.length_ns(offer.until_ns);
        let schedule_distance = ks_histogram_gaps(gaps, &streams, window_ns as f64);
        let schedule_p = schedule_distance.map(|distance| kolmogorov_p(distance, gaps.len()));
        let schedule_lag_mean = gaps_correlation(shard_rate_per_ns * window_ns as f64);
        let schedule_lag = normal_point(SCHEDULE_P / 2.0) / pairs.max(1.0).sqrt();
        let batch = shard_rate_per_ns * bounds.lateness_floor_us * 1e3;
        let gaps_distance_max = (SENDS_EFFECT + batch / 2.0).min(SENDS_DISTANCE_MAX);
        let judged = ARRIVALS_MIN <= offer.intended;
        let poisson = judged && arrivals == plan::Arrivals::Poisson;
        let figure = |value, judged: bool, low, high| Figure {
            value,
            within: judged.then_some([low, high]),
        };

        let mut proof = ArrivalProof {
            arrivals,
            rate: offer.per_second(),
            shards: offer.shards(),
            shard_rate: shard_rate_per_ns * 1e9,
            intended: offer.intended,
            sent: offer.sent_in_window,
            dispersion: WINDOWS_MS
                .iter()
                .map(|window_ms| self.dispersion(*window_ms, offer, judged))
                .collect(),
            schedule_distance: figure(schedule_distance, false, 0.0, 0.0),
            schedule_p: figure(schedule_p, poisson, SCHEDULE_P, 1.0),
            schedule_gap_error_ns: figure(
                self.gap_error_ns(&offer.constant_gaps_ns()),
                judged && !poisson,
                0.0,
                CONSTANT_GAP_ERROR_MAX_NS,
            ),
            gaps_distance: figure(
                ks_between(due.gaps.histogram(), sent.gaps.histogram()),
                poisson,
                0.0,
                gaps_distance_max,
            ),
            lag1_intended: figure(
                intended.neighbours.correlation(),
                poisson && streams.len() == 1,
                schedule_lag_mean - schedule_lag,
                schedule_lag_mean + schedule_lag,
            ),
            lag1_due: due.neighbours.correlation(),
            lag1_sent: figure(sent.neighbours.correlation(), poisson, 0.0, 0.0),
            lag1_chance: chance,
            sent_over_intended: offer.sent_over_intended(judged, bounds.unsent),
            as_planned: false,
            failed: Vec::new(),
        };
        proof.judge(bounds);
        proof
    }

    fn dispersion(&self, window_ms: u64, offer: &Offer, judged: bool) -> DispersionProof {
        let until_ms = self.length_ms(offer.until_ns);
        let intended = index_of_dispersion(self.intended().per_ms.windows(window_ms, until_ms));
        let index = |moments: &Moments| {
            let counts = moments.per_ms.windows(window_ms, until_ms);
            index_of_dispersion(counts).map(|counted| counted.index)
        };
        let (due, sent) = (index(self.due()), index(self.sent()));
        let windows = intended.map_or(0, |counted| counted.windows);
        let judged = judged && WINDOWS_MIN <= windows;
        let mean = offer.per_second() * window_ms as f64 / 1e3;
        let effect = SENDS_EFFECT;
        let (within_intended, within_sent) = match offer.arrivals {
            plan::Arrivals::Poisson => {
                // (m − 1)·index of a Poisson process is χ² with m − 1 degrees of freedom.
                let degrees = windows.max(2) - 1;
                let index_at = |p| chi_squared_point(degrees, p) / degrees as f64;
                let tail = SCHEDULE_P / 2.0;
                (
                    (judged && PER_WINDOW_MIN <= mean)
                        .then_some([index_at(tail), index_at(1.0 - tail)]),
                    judged.then_some([0.0, 0.0]),
                )
            }
            // Equal gaps that don't divide the window give counts that differ by one: f·(1−f)/mean
            // is their index, f the fraction of the mean count. Shorter windows would mostly
            // measure lateness, longer ones would hide it.
            plan::Arrivals::Constant => {
                let judged = judged && window_ms == 10;
                if offer.is_even() {
                    let uneven = mean.fract() * (1.0 - mean.fract()) / mean;
                    let within = judged.then_some([0.0, effect + uneven]);
                    (within, within)
                } else {
                    // The bursts of a share of several units have an index of their own.
                    let index = intended.map_or(0.0, |counted| counted.index);
                    (None, judged.then_some([0.0, index + effect]))
                }
            }
        };
        DispersionProof {
            window_ms,
            windows,
            intended: Figure {
                value: intended.map(|counted| counted.index),
                within: within_intended,
            },
            due,
            sent: Figure { value: sent, within: within_sent },
        }
    }

    /// How far the smallest and the largest intended gap are at most from those planned.
    fn gap_error_ns(&self, planned_ns: &[f64]) -> Option<f64> {
        let gaps = &self.intended().gaps;
        let error = |gap_ns: u64| {
            let errors = planned_ns.iter().map(|planned_ns| (gap_ns as f64 - planned_ns).abs());
            errors.reduce(f64::min)
        };
        Some(error(gaps.min_ns()?)?.max(error(gaps.max_ns()?)?))
    }
}

impl Offer {
    /// `unsent` is the share that may be missing.
    fn sent_over_intended(&self, judged: bool, unsent: f64) -> Figure {
        let intended = self.intended as f64;
        let value = (0.0 < intended).then(|| self.sent_in_window as f64 / intended);
        let missing = (unsent * intended).max(self.at_the_edge) + self.unconnected as f64;
        let within = judged.then(|| [1.0 - missing / intended, 1.0]);
        Figure { value, within }
    }
}

impl Figure {
    /// What is wrong with the figure; `None` when nothing is, or when it is not judged.
    fn failure(&self, name: &str) -> Option<String> {
        let [low, high] = self.within?;
        let value = match self.value {
            Some(value) if low <= value && value <= high => return None,
            Some(value) => short(value),
            None => "unknown".to_owned(),
        };
        Some(format!("{name} is {value}, not within {} to {}", short(low), short(high)))
    }
}

impl ArrivalProof {
    /// Whether there were too few arrivals to tell what they were.
    pub fn too_few(&self) -> bool {
        self.intended < ARRIVALS_MIN
    }

    /// The one line of the report: as planned, with the figures; or not, and which figure says so.
    pub fn line(&self) -> String {
        let process = match self.arrivals {
            plan::Arrivals::Poisson => format!("Poisson({}/s)", self.rate),
            plan::Arrivals::Constant => format!("constant({}/s)", self.rate),
        };
        if self.too_few() {
            return format!(
                "too few arrivals to tell whether they were {process} as planned (n = {}, need {ARRIVALS_MIN})",
                self.intended
            );
        }
        if !self.as_planned {
            return format!("arrivals were not {process} as planned: {}", self.failed.join("; "));
        }
        let mut line = format!("arrivals were {process} as planned: n = {}", self.intended);
        let mut add = |name: &str, figure: Figure| {
            if let Some(value) = figure.value {
                write!(line, ", {name} {}", short(value)).expect("writing to a string can't fail");
            }
        };
        match self.arrivals {
            plan::Arrivals::Poisson => {
                add("gaps p", self.schedule_p);
                add("lag-1", self.lag1_intended);
            }
            plan::Arrivals::Constant => add("gap error (ns)", self.schedule_gap_error_ns),
        }
        for dispersion in &self.dispersion {
            add(&format!("dispersion at {} ms", dispersion.window_ms), dispersion.sent);
        }
        add("KS sent to intended", self.gaps_distance);
        add("sent/intended", self.sent_over_intended);
        line
    }

    /// Judges the figures, those of the sends by when these requests were due: fills in
    /// `as_planned` and `failed`.
    pub fn judge(&mut self, bounds: &Thresholds) {
        if self.arrivals == plan::Arrivals::Poisson {
            self.hold_sends_to_due(bounds);
        }
        self.failed = self.failures();
        self.as_planned = !self.too_few() && self.failed.is_empty();
    }

    fn hold_sends_to_due(&mut self, bounds: &Thresholds) {
        let quantum_s = bounds.lateness_floor_us / 1e6;
        let near = |due: Option<f64>, off: f64| {
            let due = due.unwrap_or(0.0);
            [due - off, due + off]
        };
        for dispersion in &mut self.dispersion {
            // Lateness carries a share q of the arrivals into the next of m windows. Independent of
            // how many there are in each, that moves the index by a deviation of 2·√(2q/m).
            let moved = (quantum_s * 1e3 / dispersion.window_ms as f64).min(1.0);
            let deviation = 2.0 * (2.0 * moved / dispersion.windows.max(1) as f64).sqrt();
            let off = SENDS_EFFECT + SENDS_DEVIATIONS * deviation;
            let [low, high] = near(dispersion.due, off);
            if let Some(within) = &mut dispersion.sent.within {
                *within = [low.max(0.0), high];
            }
        }
        let batch = self.shard_rate * quantum_s;
        let scatter = batch * batch / (1.0 + 2.0 * batch * batch);
        if let Some(within) = &mut self.lag1_sent.within {
            *within = near(self.lag1_due, SENDS_EFFECT + scatter);
        }
    }

    fn failures(&self) -> Vec<String> {
        let mut failed = vec![
            self.schedule_p.failure("p of the intended gaps"),
            self.schedule_gap_error_ns.failure("error of the intended gaps in ns"),
            self.lag1_intended.failure("lag-1 autocorrelation of the intended gaps"),
        ];
        for dispersion in &self.dispersion {
            let name = |of: &str| format!("dispersion of the {of} at {} ms", dispersion.window_ms);
            failed.push(dispersion.intended.failure(&name("schedule")));
            failed.push(dispersion.sent.failure(&name("sends")));
        }
        failed.push(self.gaps_distance.failure("KS distance of the sent gaps from the intended"));
        failed.push(self.lag1_sent.failure("lag-1 autocorrelation of the sent gaps"));
        failed.push(self.sent_over_intended.failure("sent/intended"));
        failed.into_iter().flatten().collect()
    }
}

/// A figure as people read it: four significant digits.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.abs() < 1e-3 {
        return format!("{value:.1e}");
    }
    #[expect(clippy::cast_possible_truncation, reason = "the logarithm of a f64 is below 309")]
    #[expect(clippy::cast_sign_loss, reason = "held at zero")]
    let digits = (3.0 - value.abs().log10().floor()).max(0.0) as usize;
    let text = format!("{value:.digits$}");
    match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use load::curve::Curve;
    use load::schedule::Schedule;
    use load::share::Share;
    use units::SECOND_NS;

    use super::*;

    fn proof(kind: plan::Arrivals, rate: &str, until_ns: u64, late_ns: u64) -> ArrivalProof {
        let (whole, offer) = offered(kind, rate, until_ns, late_ns);
        whole.summary(&offer, &Thresholds::default())
    }

    /// What two shards offer that send everything `late_ns` after it is due.
    fn offered(
        arrivals: plan::Arrivals,
        rate: &str,
        until_ns: u64,
        late_ns: u64,
    ) -> (ArrivalStats, Offer) {
        let curve = Curve::constant(rate.parse().expect("a rate"));
        let mut whole = ArrivalStats::new(0..until_ns);
        let (mut intended, mut sent_in_window) = (0, 0);
        for shard in 0..2 {
            let mut part = ArrivalStats::new(0..until_ns);
            let share = Share::equal(shard, 2);
            for due_ns in Schedule::new(curve.clone(), arrivals, 4, until_ns, share).times_ns() {
                part.record(due_ns, due_ns + late_ns);
                intended += 1;
                sent_in_window += u64::from(due_ns + late_ns <= until_ns);
            }
            whole.merge(&part);
        }
        let offer = Offer {
            curve,
            from_ns: 0,
            arrivals,
            parts: vec![(Share::whole(), 2)],
            until_ns,
            intended,
            sent_in_window,
            unconnected: 0,
            at_the_edge: 2.0,
        };
        (whole, offer)
    }

    #[test]
    fn the_line_says_what_the_arrivals_were() {
        let poisson = proof(plan::Arrivals::Poisson, "2k", 20 * SECOND_NS, 1_000);
        assert!(poisson.as_planned, "{}", poisson.line());
        let line = poisson.line();
        assert!(line.starts_with("arrivals were Poisson(2000/s) as planned: n = "), "{line}");
        for name in [
            "gaps p 0.",
            "lag-1 ",
            "dispersion at 100 ms ",
            "KS sent to intended 0,",
            "sent/intended 1",
        ] {
            assert!(line.contains(name), "{name} in: {line}");
        }
        let constant = proof(plan::Arrivals::Constant, "2k", 20 * SECOND_NS, 1_000);
        assert_eq!(
            constant.line(),
            "arrivals were constant(2000/s) as planned: n = 40000, gap error (ns) 0, dispersion at 1 ms 0, \
             dispersion at 10 ms 0, dispersion at 100 ms 0, KS sent to intended 0, sent/intended 1"
        );
    }

    #[test]
    fn the_line_says_what_failed() {
        let late = proof(plan::Arrivals::Constant, "2k", 20 * SECOND_NS, SECOND_NS / 10);
        assert_eq!(
            late.line(),
            "arrivals were not constant(2000/s) as planned: dispersion of the sends at 10 ms is 0.1001, not within 0 to \
             0.05; sent/intended is 0.995, not within 0.999 to 1"
        );
    }

    #[test]
    fn an_interrupted_run_counts_what_its_report_counts() {
        // Everything is sent 100 ms late, and the run stops after 10 s: what was sent after that is
        // sent before the plan's end, and yet not in the window.
        let (whole, offer) =
            offered(plan::Arrivals::Constant, "2k", 20 * SECOND_NS, SECOND_NS / 10);
        let stopped =
            Offer { until_ns: 10 * SECOND_NS, intended: 20_000, sent_in_window: 19_800, ..offer };
        let proof = whole.summary(&stopped, &Thresholds::default());
        assert_eq!((proof.intended, proof.sent), (20_000, 19_800));
        assert_eq!(proof.sent_over_intended.value, Some(0.99));
    }

    #[test]
    fn what_had_no_connection_or_no_time_is_not_missing() {
        let (whole, offer) = offered(plan::Arrivals::Constant, "2k", 20 * SECOND_NS, 0);
        let figure =
            |offer: &Offer| whole.summary(offer, &Thresholds::default()).sent_over_intended;
        let low = |offer: &Offer| figure(offer).within.expect("judged")[0];
        let fewer = Offer { sent_in_window: 39_000, ..offer };
        assert!(figure(&fewer).value < Some(low(&fewer)));
        assert_eq!(low(&Offer { unconnected: 1_000, ..fewer.clone() }), 1.0 - 1_040.0 / 40_000.0);
        assert_eq!(low(&Offer { at_the_edge: 1_000.0, ..fewer }), 1.0 - 1_000.0 / 40_000.0);
    }

    #[test]
    fn the_schedule_is_held_to_chance_alone() {
        // 60,000 windows of 1 ms and 600 of 100 ms: χ² over its degrees at 5 in 100,000 on either
        // side, by its integral.
        let proof = proof(plan::Arrivals::Poisson, "2k", 60 * SECOND_NS, 1_000);
        for (at, low, high) in [(0, 0.977_69, 1.022_62), (2, 0.790_74, 1.240_70)] {
            let [found_low, found_high] = proof.dispersion[at].intended.within.expect("judged");
            assert!((found_low - low).abs() < 2e-4, "{found_low}, not {low}");
            assert!((found_high - high).abs() < 2e-4, "{found_high}, not {high}");
            // What the sends may be off on top doesn't excuse the schedule.
            let sent = proof.dispersion[at].sent;
            let [_, sent_high] = sent.within.expect("judged");
            assert!(sent.value.expect("sends") + 0.05 < sent_high);
        }
        assert!(proof.as_planned, "{}", proof.line());
    }

    #[test]
    fn windows_of_less_than_one_arrival_are_not_held_against_the_schedule() {
        let proof = proof(plan::Arrivals::Poisson, "50", 60 * SECOND_NS, 0);
        let judged: Vec<bool> =
            proof.dispersion.iter().map(|found| found.intended.within.is_some()).collect();
        assert_eq!(judged, [false, false, true]);
        assert!(proof.dispersion.iter().all(|found| found.sent.within.is_some()));
    }

    /// The failures of sends in a run of 10 s, each window of 100 ms with so many arrivals as
    /// intended and as sent.
    fn failed_sends(counts: impl Fn(u64) -> (u64, u64)) -> Vec<String> {
        let until_ns = 10 * SECOND_NS;
        let window_ns = SECOND_NS / 10;
        let mut stats = ArrivalStats::new(0..until_ns);
        let spread = |count: u64, window: u64| {
            (0..count).map(move |k| window * window_ns + k * window_ns / count)
        };
        let windows = || (0..100).map(|window| (window, counts(window)));
        let intended = windows().flat_map(|(window, (count, _))| spread(count, window));
        let sent = windows().flat_map(|(window, (_, count))| spread(count, window));
        let mut requests = 0;
        for (due_ns, sent_ns) in intended.zip(sent) {
            stats.record(due_ns, sent_ns);
            requests += 1;
        }
        let offer = Offer {
            curve: Curve::constant("100".parse().expect("a rate")),
            from_ns: 0,
            arrivals: plan::Arrivals::Poisson,
            parts: vec![(Share::whole(), 1)],
            until_ns,
            intended: requests,
            sent_in_window: requests,
            unconnected: 0,
            at_the_edge: 1.0,
        };
        let failed = stats.summary(&offer, &Thresholds::default()).failed;
        failed.into_iter().filter(|text| text.starts_with("dispersion of the sends")).collect()
    }

    #[test]
    fn sends_are_held_against_what_the_same_run_intended() {
        // A dispersion of 1.62, which chance may make of a Poisson schedule in 100 windows.
        let uneven = |window: u64| if window.is_multiple_of(2) { 6 } else { 14 };
        let kept = failed_sends(|window| (uneven(window), uneven(window)));
        assert_eq!(kept, [""; 0], "each request was sent when it was due");
        // And one of 1.17, of which the generator made 0.
        let less = |window: u64| {
            if window.is_multiple_of(2) { 8 - window % 4 / 2 } else { 12 + window % 4 / 2 }
        };
        let smoothed = failed_sends(|window| (less(window), 10));
        let found = smoothed.iter().any(|text| text.contains("at 100 ms is 0, not within"));
        assert!(found, "{smoothed:?}");
    }

    #[test]
    fn each_bound_moves_its_figures() {
        let (poisson, offer) = offered(plan::Arrivals::Poisson, "2k", 60 * SECOND_NS, 1_000);
        let judge = |bounds: &Thresholds| poisson.summary(&offer, bounds);
        let widths = |proof: &ArrivalProof| {
            let figures = [
                proof.schedule_p,
                proof.lag1_intended,
                proof.dispersion[1].intended,
                proof.dispersion[1].sent,
                proof.gaps_distance,
                proof.lag1_sent,
                proof.sent_over_intended,
            ];
            figures.map(|figure| figure.within.map_or(0.0, |[low, high]| high - low))
        };
        let usual = Thresholds::default();
        let before = widths(&judge(&usual));
        for (wider, moved) in [
            (Thresholds { lateness_floor_us: 90.0, ..usual.clone() }, [0, 0, 0, 1, 1, 1, 0]),
            (Thresholds { unsent: 0.9, ..usual.clone() }, [0, 0, 0, 0, 0, 0, 1]),
        ] {
            let after = widths(&judge(&wider));
            let found: Vec<u8> = before.iter().zip(after).map(|(b, a)| u8::from(*b < a)).collect();
            assert_eq!(found, moved, "{wider:?}");
        }
        // No lateness explains more.
        let widest = Thresholds { lateness_floor_us: 1e6, ..usual };
        assert_eq!(judge(&widest).gaps_distance.within, Some([0.0, SENDS_DISTANCE_MAX]));
    }

    #[test]
    fn few_arrivals_are_not_judged() {
        let few = proof(plan::Arrivals::Poisson, "10", SECOND_NS, 0);
        assert!(few.too_few() && !few.as_planned && few.failed.is_empty());
        assert!(
            few.line().ends_with(&format!("(n = {}, need 100)", few.intended)),
            "{}",
            few.line()
        );
        let (_, offer) = offered(plan::Arrivals::Poisson, "10", SECOND_NS, 0);
        let offer = Offer { intended: 0, sent_in_window: 0, ..offer };
        let none = ArrivalStats::new(0..SECOND_NS).summary(&offer, &Thresholds::default());
        assert_eq!((none.intended, none.sent_over_intended.value, none.too_few()), (0, None, true));
    }

    #[test]
    fn constant_gaps_that_do_not_divide_a_window_are_constant() {
        // 7/3 requests in 10 ms: the counts are 2 and 3, and their index above 0.05.
        let uneven = proof(plan::Arrivals::Constant, "233.333333", 60 * SECOND_NS, 500);
        let at_10_ms = uneven.dispersion[1];
        assert!(at_10_ms.window_ms == 10 && 0.05 < at_10_ms.sent.value.expect("windows"));
        assert!(uneven.as_planned, "{}", uneven.line());
    }

    #[test]
    fn a_report_keeps_it() {
        for kind in [plan::Arrivals::Poisson, plan::Arrivals::Constant] {
            let written = proof(kind, "2k", 2 * SECOND_NS, 700);
            let text = serde_json::to_string(&written).expect("it serialises");
            let read: ArrivalProof = serde_json::from_str(&text).expect("its own text");
            // The last digit of a fraction may change on the way.
            assert_eq!((read.line(), read.as_planned), (written.line(), written.as_planned));
            assert_eq!((read.intended, read.dispersion.len()), (written.intended, 3));
            assert_eq!(read.schedule_p.within.is_some(), kind == plan::Arrivals::Poisson);
        }
    }

    #[test]
    fn figures_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.99949, "0.9995"),
            (123_456.0, "123456"),
            (0.00042, "4.2e-4"),
            (-0.0123, "-0.0123"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
