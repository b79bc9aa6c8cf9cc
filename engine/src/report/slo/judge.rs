//! Judges the objectives of a run by its figures and their confidence intervals.

use hdrhistogram::Histogram;

use super::{JudgedObjective, Judgement, Slo};
use crate::plan::slo::{LatencyMetric, Objective, Objectives};
use crate::report::{Part, SeriesPart};
use crate::stats::distribution::Distribution;
use crate::stats::interval::{ends, needed};
use crate::stats::ratio::{MEAN_VALUES_MIN, mean_interval, share_interval};

fn judged(objective: &Objective, figures: &Figures) -> JudgedObjective {
    let (unit, bound) = match objective {
        Objective::Latency(_, bound) => ("us", bound.0 as f64 / 1e3),
        Objective::Errors { percent } => ("share", percent / 100.0),
        Objective::Rate { share } => ("share", *share),
    };
    let Estimate { figure, interval, needed } = figures.of(objective);
    let beyond = figures.beyond(objective);
    let unjudged = JudgedObjective {
        metric: objective.metric(),
        unit: unit.to_owned(),
        bound,
        figure,
        interval,
        needed,
        beyond: beyond.map(|beyond| beyond.share),
        beyond_interval: beyond.map(|beyond| beyond.interval),
        judgement: Judgement::Undecided,
    };
    JudgedObjective { judgement: unjudged.judge(), ..unjudged }
}

/// Both ends of an interval, if there is one.
fn both(interval: Option<[f64; 2]>) -> [Option<f64>; 2] {
    interval.map_or([None; 2], |ends| ends.map(Some))
}

/// What is known of a figure.
#[derive(Default)]
struct Estimate {
    figure: Option<f64>,
    interval: [Option<f64>; 2],
    needed: Option<u64>,
}

/// The share of the requests that reached a bound or took longer.
#[derive(Clone, Copy)]
struct Beyond {
    share: f64,
    interval: [f64; 2],
}

/// What objectives are judged by.
pub(crate) struct Figures<'a> {
    /// Counts, mean and maximum.
    pub(crate) part: &'a Part,
    /// The corrected latencies.
    pub(crate) corrected: &'a Distribution,
    /// The same by pieces of the run.
    pub(crate) batches: &'a [Histogram<u64>],
    /// The counts by pieces of the run.
    pub(crate) series: &'a SeriesPart,
}

impl Figures<'_> {
    /// Judges each objective.
    pub(crate) fn judge(&self, slo: &Objectives) -> Slo {
        Slo::new(slo.iter().map(|objective| judged(objective, self)).collect())
    }

    fn of(&self, objective: &Objective) -> Estimate {
        let us = |ns: u64| ns as f64 / 1e3;
        let mean = self.part.corrected.mean;
        match objective {
            Objective::Latency(LatencyMetric::Percentile(percentile), _) => {
                let q = percentile.quantile();
                let count = self.corrected.count();
                let ends = ends(self.corrected, self.batches, q);
                let is_known = needed(q) <= count;
                Estimate {
                    figure: self.corrected.quantile_ns(q).filter(|_| is_known).map(us),
                    interval: [ends.low_ns.map(us), ends.high_ns.map(us)],
                    needed: Some(ends.needed).filter(|needed| count < *needed),
                }
            }
            Objective::Latency(LatencyMetric::Mean, _) => Estimate {
                figure: mean,
                interval: both(mean.and_then(|us| mean_interval(self.corrected, us, self.batches))),
                needed: (self.corrected.count() < MEAN_VALUES_MIN).then_some(MEAN_VALUES_MIN),
            },
            Objective::Latency(LatencyMetric::Max, _) => {
                Estimate { figure: self.part.corrected.max, ..Estimate::default() }
            }
            Objective::Errors { .. } => self.errors(),
            Objective::Rate { .. } => {
                let rate = &self.part.rate;
                let share = (0.0 < rate.intended).then(|| rate.answered / rate.intended);
                Estimate { figure: share, ..Estimate::default() }
            }
        }
    }

    /// Which share of the requests went beyond the bound of a percentile. It is judged by this,
    /// since the percentile's own interval may have no end on the side that matters: where slow
    /// requests come together, it rests on how many such times there were, even if none came near
    /// the bound.
    fn beyond(&self, objective: &Objective) -> Option<Beyond> {
        let Objective::Latency(LatencyMetric::Percentile(_), bound) = objective else {
            return None;
        };
        let (whole, all) = (self.corrected.histogram(), self.corrected.count());
        let below = |histogram: &Histogram<u64>| {
            // What shares a bucket with the bound counts as beyond.
            let high = histogram.lowest_equivalent(bound.0).checked_sub(1);
            high.map_or(0, |high_ns| histogram.count_between(0, high_ns))
        };
        let beyond = all - below(whole);
        let pieces: Vec<(u64, u64)> =
            self.batches.iter().map(|batch| (batch.len() - below(batch), batch.len())).collect();
        let interval = share_interval(beyond, all, &pieces)?;
        Some(Beyond { share: beyond as f64 / all as f64, interval })
    }

    /// Requests without a good answer, by seconds of the run: errors come together where a target
    /// fails for a while.
    fn errors(&self) -> Estimate {
        let (bad, intended) = (self.part.counts.bad(), self.part.counts.intended);
        let pieces = self.series.bad_by_second();
        let share = (0 < intended).then(|| bad as f64 / intended as f64);
        let interval = both(share_interval(bad, intended, &pieces));
        Estimate { figure: share, interval, needed: None }
    }
}
