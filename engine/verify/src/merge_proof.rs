//! The proof that merging histograms is right: percentiles of all agents' pooled requests, of the
//! merged histogram, and the mean of the agents' percentiles, compared.

use std::path::Path;

use report::Report;
use samples::ReadError;
use stats::distribution::rank;
use stats::percentiles::PERCENTILES;

use super::replay::sorted;

/// Corrected percentiles of several agents, computed in three ways.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeProof {
    /// The number of agents.
    pub agents: usize,
    /// The number of all agents' requests with a latency.
    pub requests: u64,
    /// p50, p99 and p99.9.
    pub rows: Vec<MergeRow>,
}

/// One percentile, microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeRow {
    /// Its name, such as `p99`.
    pub label: &'static str,
    /// The exact percentile of all agents' pooled requests.
    pub pooled: f64,
    /// That of the merged histogram; `None` if there are too few values.
    pub merged: Option<f64>,
    /// The mean of the agents' own percentiles; `None` if one has too few values.
    pub mean: Option<f64>,
}

impl MergeRow {
    /// The relative deviation of a figure from the pooled one.
    pub fn off(&self, figure: f64) -> f64 {
        if self.pooled == 0.0 { 0.0 } else { figure / self.pooled - 1.0 }
    }
}

/// Pools the samples of all agents of a report, one file each; `None` if there is only one agent,
/// or no request with a latency.
///
/// # Errors
/// A file can't be read.
pub fn merge_proof(report: &Report, files: &[&Path]) -> Result<Option<MergeProof>, ReadError> {
    if report.per_agent.len() < 2 {
        return Ok(None);
    }
    let plan = &report.config.plan;
    let values = sorted(files, plan, |sample, _, each| {
        sample.corrected_ns().into_iter().for_each(each);
    })?;
    if values.is_empty() {
        return Ok(None);
    }
    let agents = report.per_agent.len();
    let row = |(label, q): (&'static str, f64)| {
        let at = usize::try_from(rank(q, values.len() as u64) - 1).expect("a rank is an index");
        let own = report.per_agent.iter().map(|agent| agent.part.corrected.quantile_us(q));
        let sum: Option<f64> = own.sum();
        MergeRow {
            label,
            pooled: values[at] as f64 / 1e3,
            merged: report.whole.corrected.quantile_us(q),
            mean: sum.map(|sum| sum / agents as f64),
        }
    };
    let shown = [0.5, 0.99, 0.999];
    let rows = PERCENTILES.iter().filter(|quantile| shown.contains(&quantile.q));
    let rows = rows.map(|quantile| row((quantile.label, quantile.q))).collect();
    Ok(Some(MergeProof { agents, requests: values.len() as u64, rows }))
}
