//! A run observed from both ends: the engine drives load at the sample target, each on its own core
//! if there are two, and the report is compared with the target's ledger and with arithmetic.
//!
//! Both ends run in one process and share only the loopback; the plan's window and the ledger are
//! on the same clock.

use engine::plan::Plan;
use engine::report::{DistributionPart, Report};
use engine::run::{self, Finished, PrepareError, Run, RunError};
use engine::stats::distribution::Distribution;
use engine::sys::placement;
use engine::sys::units::CoreList;
use hdrhistogram::Histogram;
use serde::Serialize;
use target::{Ledger, LedgerError, Span, TargetConfig, TargetError};
use thiserror::Error;

use crate::truth::{Band, Late, Sample, Truth, highest_ms};

/// Time for a request and its response to cross the loopback and wake both ends: 14 µs on a quiet
/// machine, several times that if a virtual machine's core has to be woken.
pub(crate) const PATH_MS: f64 = 0.2;

/// The results of both ends of one run.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The engine's report.
    pub report: Report,
    /// The corrected latency.
    pub corrected: Distribution,
    /// The naive latency.
    pub naive: Distribution,
    /// The target's ledger.
    pub ledger: Ledger,
    /// The steady phase, ns of CLOCK_MONOTONIC.
    pub window: Span,
}

/// Why a run could not be observed.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// The target did not start or stop.
    #[error("the target: {0}")]
    Target(#[from] TargetError),
    /// The target's ledger can't be read.
    #[error("the target's ledger: {0}")]
    Ledger(#[from] LedgerError),
    /// The plan does not fit the machine.
    #[error("{0}")]
    Prepare(#[from] PrepareError),
    /// A shard failed.
    #[error("{0}")]
    Run(#[from] RunError),
}

/// Runs a plan against a sample target, whose URL replaces the plan's. Unless they name their
/// cores, the target takes the first core that this process may use and the plan the last.
///
/// # Errors
/// If either could not start.
pub fn observe(config: TargetConfig, plan: Plan) -> Result<Observed, ObserveError> {
    observe_with(config, plan, |plan| Ok(Run::start(run::prepare(plan)?)?.wait()))
}

/// [`observe`], with the run made by the caller.
///
/// # Errors
/// If the target could not start or stop, and those of `drive`.
pub fn observe_with<E: From<ObserveError>>(
    config: TargetConfig,
    plan: Plan,
    drive: impl FnOnce(Plan) -> Result<Finished, E>,
) -> Result<Observed, E> {
    let allowed = placement::allowed_cores();
    let (first, last) = (allowed[0], allowed[allowed.len() - 1]);
    let mut config = config;
    if config.cores.is_empty() {
        config.cores = vec![first];
    }
    let scheme = if config.tls { "https" } else { "http" };
    let target = target::start(config).map_err(ObserveError::Target)?;
    let plan = Plan {
        target: format!("{scheme}://{}/", target.local_addr()),
        cores: Some(plan.cores.unwrap_or_else(|| CoreList::new(vec![last]))),
        ..plan
    };
    let (warmup_ns, end_ns) = (plan.warmup.0, plan.end_ns());
    let finished = drive(plan)?;
    let epoch_ns = finished.epoch_ns;
    let ledger = target.stop().map_err(ObserveError::Target)?;
    Ok(Observed {
        report: finished.report,
        corrected: finished.measured.corrected,
        naive: finished.measured.naive,
        ledger,
        window: Span { begin_ns: epoch_ns + warmup_ns, end_ns: epoch_ns + end_ns },
    })
}

/// A measured figure beside its prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The figure's name: `p99`, `mean`.
    pub name: String,
    /// The arithmetic's figure, ms.
    pub predicted_ms: f64,
    /// The engine's figure, ms.
    pub measured_ms: f64,
    /// The figure of the target's ledger, ms: how long it really held its requests.
    pub held_ms: f64,
    /// The lowest and highest measurement that agree with the prediction, ms.
    pub band_ms: (f64, f64),
}

impl Comparison {
    /// True if the measured figure is in its band.
    pub fn holds(&self) -> bool {
        !self.is_below() && self.measured_ms <= self.band_ms.1
    }

    /// True if the measured figure is lower than any that agrees with the prediction.
    pub fn is_below(&self) -> bool {
        self.measured_ms < self.band_ms.0
    }
}

/// How late a run's requests were sent and took their path, by the percentiles that are known: pacer
/// lateness, plus connection wait, plus the path.
pub fn late(report: &Report) -> Vec<Late> {
    let at = |q: f64| {
        let ms = |part: &DistributionPart| part.quantile_us(q).map(|us| us / 1e3);
        let whole = &report.whole;
        let ms = ms(&whole.pacer_lateness)? + ms(&whole.connection_wait)? + PATH_MS;
        // Those beyond the one and those beyond the other may be different requests.
        Some(Late { ms, beyond: 2.0 * (1.0 - q) })
    };
    [0.99, 0.999].into_iter().filter_map(at).collect()
}

/// The same in the mean, ms.
fn late_mean_ms(report: &Report) -> f64 {
    let mean_us = |part: &DistributionPart| part.mean.unwrap_or(f64::INFINITY);
    let whole = &report.whole;
    (mean_us(&whole.pacer_lateness) + mean_us(&whole.connection_wait)) / 1e3 + PATH_MS
}

fn sample(report: &Report) -> Sample {
    Sample { count: report.whole.counts.intended, arrivals: report.config.plan.arrivals }
}

/// The band of a percentile of corrected latency that agrees with its prediction: it may be longer
/// by an amount that chance, one histogram bucket, late sends and the path explain. If the target
/// held its requests for longer than configured, as the backlog after a stall, its ledger raises
/// the upper end.
pub fn band(truth: &Truth, report: &Report, held: &Histogram<u64>, q: f64) -> Band {
    let late = late(report);
    let band = truth.quantile_band(q, sample(report), &late);
    let held_ms = |beyond| high_ms(held, q + beyond);
    Band { high_ms: band.high_ms.max(highest_ms(&late, held_ms)), ..band }
}

/// The upper end of the bucket of a quantile, ms.
fn high_ms(held: &Histogram<u64>, q: f64) -> f64 {
    held.highest_equivalent(held.value_at_quantile(q.min(1.0))) as f64 / 1e6
}

/// Raises the upper end of the mean's band, the last of these comparisons, where the requests that a
/// stall holds up are handled one after the other outside the hold, as by TLS or on one connection
/// of HTTP/2: each waits for the paths of all that wait with it. By Little's law these are, in the
/// mean over all requests, the rate times the mean wait.
pub fn allow_for_paths(comparisons: &mut [Comparison], truth: &Truth, rate_per_ms: f64) {
    let mean = comparisons.last_mut().expect("the mean comes last");
    mean.band_ms.1 += rate_per_ms * truth.wait_mean_ms() * PATH_MS;
}

impl Observed {
    /// Compares the corrected latency with its prediction, at these quantiles and in the mean.
    ///
    /// A percentile must lie in its [`band`], and not below the ledger's, because no response came
    /// earlier.
    ///
    /// # Errors
    /// If the ledger's histogram can't be read.
    pub fn compare(
        &self,
        truth: &Truth,
        quantiles: &[f64],
    ) -> Result<Vec<Comparison>, LedgerError> {
        let held = self.ledger.held.decode()?;
        let mut comparisons = Vec::new();
        for q in quantiles {
            let band = band(truth, &self.report, &held, *q);
            let held_low_ns = held.lowest_equivalent(held.value_at_quantile(*q));
            comparisons.push(Comparison {
                name: format!("p{}", (q * 1e4).round() / 1e2),
                predicted_ms: band.expected_ms,
                measured_ms: self.corrected.quantile_ns(*q).map_or(f64::NAN, |ns| ns as f64 / 1e6),
                held_ms: high_ms(&held, *q),
                band_ms: (band.low_ms.max(held_low_ns as f64 / 1e6), band.high_ms),
            });
        }
        let late_ms = late_mean_ms(&self.report);
        let band = truth.mean_band(sample(&self.report), late_ms);
        let held_ms = self.ledger.held.mean.unwrap_or(f64::NAN) / 1e3;
        comparisons.push(Comparison {
            name: "mean".to_owned(),
            predicted_ms: band.expected_ms,
            measured_ms: self.corrected.mean_ns().map_or(f64::NAN, |ns| ns / 1e6),
            held_ms,
            band_ms: (band.low_ms.max(held_ms), band.high_ms.max(held_ms + late_ms)),
        });
        Ok(comparisons)
    }
}
