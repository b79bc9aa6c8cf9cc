//! Judges the objectives of a run by its figures and their confidence intervals.

use hdrhistogram::Histogram;
use plan::slo::{Clause, LatencyMetric, Objective};
use plan::{Model, Plan};
use record::counts::Counts;
use stats::distribution::{Distribution, omitted_beyond};
use stats::encoded::HistogramError;
use stats::interval::{Missing, ends, needed};
use stats::pieces::Pieces;
use stats::ratio::{beyond_interval, mean_interval, mean_may_lie_above, share_interval};

use super::over_time::{Piece, of_parts, of_whole};
use super::{JudgedObjective, Judgement, Slo};
use crate::{Part, Rates, SeriesPart, StepPart};

/// Judges all objectives of a plan by the whole run and its parts, in a window of this length, s;
/// `None` if it has none. The latencies are those of the series.
///
/// # Errors
/// A text of a part isn't a histogram.
pub fn judge(
    plan: &Plan,
    whole: &Part,
    corrected: &Distribution,
    latencies: &Pieces<Histogram<u64>>,
    series: &SeriesPart,
    window_s: f64,
) -> Result<Option<Slo>, HistogramError> {
    let Some(objectives) = plan.objectives() else { return Ok(None) };
    let judged = objectives.iter().map(|Clause { of, objective }| {
        let is_of = |name: &str, part: &StepPart| {
            let stage = part.stage.as_ref().and_then(|stage| stage.name.as_deref());
            part.name == name || stage == Some(name)
        };
        let named = |part: &&StepPart| of.as_ref().is_some_and(|name| is_of(name, part));
        let parts: Vec<&StepPart> = whole.parts.iter().filter(named).collect();
        // The only scenario, or the only stage, is the whole, and no part has its name.
        let figures = match parts.is_empty() {
            false => Figures::of_parts(&parts, window_s)?,
            true => Figures {
                counts: whole.counts.clone(),
                rate: Some(whole.rate.clone()),
                mean: whole.corrected.mean,
                max: whole.corrected.max,
                corrected: corrected.clone(),
                pieces: of_whole(latencies, series),
            },
        };
        let mut judged = judged(objective, &figures);
        if plan.model() != Model::Open && plan.period.is_none() {
            figures.add_left_out(objective, &mut judged);
        }
        Ok(JudgedObjective { of: of.clone(), ..judged })
    });
    Ok(Some(Slo::new(judged.collect::<Result<_, HistogramError>>()?)))
}

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
        of: None,
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
    fn by(interval: Result<[f64; 2], Option<Missing>>) -> Estimate {
        Estimate {
            interval: interval.map_or([None; 2], |ends| ends.map(Some)),
            missing: interval.err().flatten(),
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

/// The figures of some requests, by which an objective for them is judged.
struct Figures {
    counts: Counts,
    /// `None` for a part, whose answers in the window aren't counted.
    rate: Option<Rates>,
    /// Mean and maximum of the corrected latencies, µs.
    mean: Option<f64>,
    max: Option<f64>,
    corrected: Distribution,
    /// The requests by pieces of the run.
    pieces: Pieces<Piece>,
}

impl Figures {
    /// The figures of these parts together.
    fn of_parts(parts: &[&StepPart], window_s: f64) -> Result<Figures, HistogramError> {
        let (mut counts, mut corrected) = (Counts::default(), Distribution::new());
        let mut sum = 0.0;
        for part in parts {
            counts += part.counts.as_whole();
            let own = &part.corrected;
            corrected.merge(&own.of_histogram(own.decode_histogram()?));
            sum += own.mean.unwrap_or(0.0) * own.count as f64;
        }
        let all = corrected.count();
        Ok(Figures {
            counts,
            rate: None,
            mean: (0 < all).then(|| sum / all as f64),
            max: parts.iter().filter_map(|part| part.corrected.max).reduce(f64::max),
            corrected,
            pieces: of_parts(parts, window_s)?,
        })
    }

    fn latencies(&self) -> Pieces<Histogram<u64>> {
        self.pieces.map(|piece| piece.latency.clone())
    }

    fn of(&self, objective: &Objective) -> Estimate {
        let us = |ns: u64| ns as f64 / 1e3;
        match objective {
            Objective::Latency(LatencyMetric::Percentile(percentile), _) => {
                let q = percentile.quantile();
                let count = self.corrected.count();
                let ends = ends(&self.corrected, &self.latencies(), q);
                let is_known = needed(q) <= count;
                Estimate {
                    figure: self.corrected.quantile_ns(q).filter(|_| is_known).map(us),
                    interval: [ends.low_ns.map(us), ends.high_ns.map(us)],
                    missing: ends.missing,
                    ..Estimate::default()
                }
            }
            Objective::Latency(LatencyMetric::Mean, _) => {
                let mean = self.mean;
                let estimate = self.without_answers(Estimate::by(mean_interval(
                    &self.corrected,
                    mean.unwrap_or(0.0),
                    &self.latencies(),
                )));
                let may_lie_above = mean_may_lie_above(&self.corrected);
                let [low, high] = estimate.interval;
                let interval = [low, high.filter(|_| !may_lie_above)];
                Estimate { figure: mean, interval, may_lie_above, ..estimate }
            }
            Objective::Latency(LatencyMetric::Max, _) => {
                let max = self.max;
                let exact = Estimate { figure: max, interval: [max; 2], ..Estimate::default() };
                self.without_answers(exact)
            }
            Objective::Errors { .. } => self.errors(),
            Objective::Rate { .. } => {
                let rate = self.rate.as_ref().filter(|rate| 0.0 < rate.intended);
                let share = rate.map(|rate| rate.answered_due / rate.intended);
                Estimate { figure: share, ..Estimate::default() }
            }
        }
    }

    /// Requests given up without an answer would have taken longer: the estimate is a lower bound.
    fn without_answers(&self, estimate: Estimate) -> Estimate {
        let [low, high] = estimate.interval;
        let is_answered = self.corrected.count() <= self.counts.answered;
        Estimate { interval: [low, high.filter(|_| is_answered)], ..estimate }
    }

    /// The share of requests that exceeded a percentile's bound, or were given up without an
    /// answer, however early. The objective is judged by this, since it counts requests that the
    /// percentile doesn't: those without an answer.
    fn beyond(&self, objective: &Objective) -> Option<Beyond> {
        let Objective::Latency(LatencyMetric::Percentile(percentile), bound) = objective else {
            return None;
        };
        let (whole, all) = (self.corrected.histogram(), self.corrected.count());
        let below = |histogram: &Histogram<u64>| {
            // Values that share a bucket with the bound count as beyond.
            let high = histogram.lowest_equivalent(bound.0).checked_sub(1);
            high.map_or(0, |high_ns| histogram.count_between(0, high_ns))
        };
        let beyond = (all - below(&whole)).max(all.saturating_sub(self.counts.answered));
        let pieces = self.pieces.map(|Piece { latency, answered, .. }| {
            let given_up = latency.len().saturating_sub(*answered);
            ((latency.len() - below(latency)).max(given_up), latency.len())
        });
        let samples = (&self.corrected, &self.latencies());
        let judged = (percentile.quantile(), bound.0);
        (0 < all).then(|| Beyond {
            share: beyond as f64 / all as f64,
            interval: beyond_interval((beyond, &pieces), samples, judged),
        })
    }

    /// Adds the requests that a closed loop left out, since users waited for slow responses, to the
    /// upper end of what exceeds a percentile's bound. How many there would have been is an
    /// estimate, so they can't make it missed.
    fn add_left_out(&self, objective: &Objective, judged: &mut JudgedObjective) {
        let Objective::Latency(LatencyMetric::Percentile(percentile), bound) = objective else {
            return;
        };
        let all = self.corrected.count();
        let left_out = omitted_beyond(&self.corrected.histogram(), bound.0);
        let Some(share) = judged.beyond.filter(|_| 0 < left_out) else { return };
        let most = (share * all as f64 + left_out as f64) / (all + left_out) as f64;
        match &mut judged.beyond_interval {
            Some([_, high]) => *high = high.max(most),
            None if 1.0 - percentile.quantile() <= most => judged.interval[1] = None,
            None => {}
        }
        judged.judgement = judged.judge();
    }

    /// Requests without a good answer, by pieces of the run: errors come in bursts if a target
    /// fails for a while.
    fn errors(&self) -> Estimate {
        let (bad, intended) = (self.counts.bad(), self.counts.intended);
        let share = (0 < intended).then(|| bad as f64 / intended as f64);
        let pieces = self.pieces.map(|piece| (piece.bad(), piece.intended));
        let interval = share_interval(bad, intended, &pieces);
        Estimate { figure: share, ..Estimate::by(interval.map_err(Some)) }
    }
}
