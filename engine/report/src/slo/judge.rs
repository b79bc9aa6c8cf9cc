//! Judges the objectives of a run by its figures and their confidence intervals.

use hdrhistogram::Histogram;
use plan::slo::{LatencyMetric, Objective, Objectives};
use stats::distribution::Distribution;
use stats::interval::{Missing, ends, needed};
use stats::pieces::Pieces;
use stats::ratio::{mean_interval, mean_may_lie_above, share_interval};

use super::{JudgedObjective, Judgement, Slo};
use crate::{IntervalPart, Part, SeriesPart};

fn judged(objective: &Objective, figures: &Figures) -> JudgedObjective {
    let (unit, bound) = match objective {
        Objective::Latency(_, bound) => ("us", bound.0 as f64 / 1e3),
        Objective::Errors { percent } => ("share", percent / 100.0),
        Objective::Rate { share } => ("share", *share),
    };
    let Estimate { figure, interval, missing, may_lie_above } = figures.of(objective);
    let beyond = figures.beyond(objective);
    // A percentile is judged by the share beyond its bound, so what that share lacks comes first.
    let missing = beyond.and_then(|beyond| beyond.interval.err()).or(missing);
    let (needed, needed_s) = match missing {
        Some(Missing::Samples(needed)) => (Some(needed), None),
        Some(Missing::Seconds(needed_s)) => (None, Some(needed_s)),
        None => (None, None),
    };
    let unjudged = JudgedObjective {
        metric: objective.metric(),
        unit: unit.to_owned(),
        bound,
        figure,
        interval,
        needed,
        needed_s,
        may_lie_above,
        beyond: beyond.map(|beyond| beyond.share),
        beyond_interval: beyond.and_then(|beyond| beyond.interval.ok()),
        judgement: Judgement::Undecided,
    };
    JudgedObjective { judgement: unjudged.judge(), ..unjudged }
}

/// What is known about a figure.
#[derive(Default)]
struct Estimate {
    figure: Option<f64>,
    interval: [Option<f64>; 2],
    missing: Option<Missing>,
    may_lie_above: bool,
}

impl Estimate {
    fn by(interval: Result<[f64; 2], Missing>) -> Estimate {
        Estimate {
            interval: interval.map_or([None; 2], |ends| ends.map(Some)),
            missing: interval.err(),
            ..Estimate::default()
        }
    }
}

/// The share of requests that reached or exceeded a bound.
#[derive(Clone, Copy)]
struct Beyond {
    share: f64,
    interval: Result<[f64; 2], Missing>,
}

/// The figures that objectives are judged by.
pub struct Figures<'a> {
    /// Counts, mean and maximum.
    pub part: &'a Part,
    /// The corrected latencies.
    pub corrected: &'a Distribution,
    /// The same by pieces of the run.
    pub pieces: &'a Pieces<Histogram<u64>>,
    /// The counts by pieces of the run.
    pub series: &'a SeriesPart,
}

impl Figures<'_> {
    /// Judges each objective.
    pub fn judge(&self, slo: &Objectives) -> Slo {
        Slo::new(slo.iter().map(|objective| judged(objective, self)).collect())
    }

    fn of(&self, objective: &Objective) -> Estimate {
        let us = |ns: u64| ns as f64 / 1e3;
        let mean = self.part.corrected.mean;
        match objective {
            Objective::Latency(LatencyMetric::Percentile(percentile), _) => {
                let q = percentile.quantile();
                let count = self.corrected.count();
                let ends = ends(self.corrected, self.pieces, q);
                let is_known = needed(q) <= count;
                Estimate {
                    figure: self.corrected.quantile_ns(q).filter(|_| is_known).map(us),
                    interval: [ends.low_ns.map(us), ends.high_ns.map(us)],
                    missing: ends.missing,
                    ..Estimate::default()
                }
            }
            Objective::Latency(LatencyMetric::Mean, _) => {
                let estimate = self.without_answers(Estimate::by(mean_interval(
                    self.corrected,
                    mean.unwrap_or(0.0),
                    self.pieces,
                )));
                let may_lie_above = mean_may_lie_above(self.corrected);
                let [low, high] = estimate.interval;
                let interval = [low, high.filter(|_| !may_lie_above)];
                Estimate { figure: mean, interval, may_lie_above, ..estimate }
            }
            Objective::Latency(LatencyMetric::Max, _) => {
                let max = self.part.corrected.max;
                let exact = Estimate { figure: max, interval: [max; 2], ..Estimate::default() };
                self.without_answers(exact)
            }
            Objective::Errors { .. } => self.errors(),
            Objective::Rate { .. } => {
                let rate = &self.part.rate;
                let share = (0.0 < rate.intended).then(|| rate.answered_due / rate.intended);
                Estimate { figure: share, ..Estimate::default() }
            }
        }
    }

    /// Requests given up without an answer would have taken longer: the estimate is a lower bound.
    fn without_answers(&self, estimate: Estimate) -> Estimate {
        let [low, high] = estimate.interval;
        let is_answered = self.corrected.count() <= self.part.counts.answered;
        Estimate { interval: [low, high.filter(|_| is_answered)], ..estimate }
    }

    /// The share of requests that exceeded a percentile's bound, or were given up without an
    /// answer, however early. The objective is judged by this, since the percentile's own interval
    /// may be open on the side that matters: where slow requests come in bursts, it depends on the
    /// number of bursts, even if none came near the bound.
    fn beyond(&self, objective: &Objective) -> Option<Beyond> {
        let Objective::Latency(LatencyMetric::Percentile(_), bound) = objective else {
            return None;
        };
        let (whole, all) = (self.corrected.histogram(), self.corrected.count());
        let below = |histogram: &Histogram<u64>| {
            // Values that share a bucket with the bound count as beyond.
            let high = histogram.lowest_equivalent(bound.0).checked_sub(1);
            high.map_or(0, |high_ns| histogram.count_between(0, high_ns))
        };
        let beyond = (all - below(whole)).max(all.saturating_sub(self.part.counts.answered));
        let intervals = self.pieces.iter().zip(&self.series.intervals);
        let of_interval = |(piece, interval): (&Histogram<u64>, &IntervalPart)| {
            let given_up = piece.len().saturating_sub(interval.counts.answered);
            ((piece.len() - below(piece)).max(given_up), piece.len())
        };
        let pieces = Pieces::new(intervals.map(of_interval).collect(), self.series.interval_s)
            .lasting(self.pieces.seconds());
        (0 < all).then(|| Beyond {
            share: beyond as f64 / all as f64,
            interval: share_interval(beyond, all, &pieces),
        })
    }

    /// Requests without a good answer, by pieces of the run: errors come in bursts if a target
    /// fails for a while.
    fn errors(&self) -> Estimate {
        let (bad, intended) = (self.part.counts.bad(), self.part.counts.intended);
        let share = (0 < intended).then(|| bad as f64 / intended as f64);
        let interval =
            share_interval(bad, intended, &self.series.bad_pieces(self.pieces.seconds()));
        Estimate { figure: share, ..Estimate::by(interval) }
    }
}
