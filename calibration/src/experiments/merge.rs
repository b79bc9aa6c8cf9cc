//! Merging: the percentiles of three agents' pooled samples, of their merged histograms, and the
//! means of their percentiles.

use engine::report::{AgentPart, DistributionPart};
use serde::Serialize;
use target::Ledger;

use super::agents::{Together, latencies_ms, together};
use crate::lab::latencies::{Latencies, percentiles, quantile};
use crate::lab::plot::{Line, by_percentile};
use crate::lab::{Lab, LabError, Measured, Plot};
use crate::observed::PATH_MS;

#[derive(Serialize)]
struct Figures {
    agents: Vec<Agent>,
    p50: Row,
    p90: Row,
    p99: Row,
    p999: Row,
    merged_off_max_percent: f64,
    bucket_percent: f64,
    far_ms: f64,
    pooled_high_ms: f64,
    /// The mean of the p99s by arithmetic.
    mean_expected_ms: f64,
    near_requests: u64,
    far_requests: u64,
    missing: u64,
    unaccounted: u64,
}

#[derive(Serialize)]
struct Agent {
    server: &'static str,
    latencies: Latencies,
}

/// One percentile, three ways.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    pooled_ms: f64,
    merged_ms: f64,
    mean_ms: f64,
    merged_off_percent: f64,
    mean_off_percent: f64,
}

/// Makes the run.
pub(super) fn measure(lab: &mut Lab) -> Result<Measured, LabError> {
    let run = together(lab, "together")?;
    let Together { report, requests, near, far } = &run;
    let pooled = latencies_ms(&requests.iter().collect::<Vec<_>>());
    let corrected = &report.whole.corrected;
    let each: Vec<&DistributionPart> =
        report.per_agent.iter().map(|agent| &agent.part.corrected).collect();
    let row = |q| row(q, &pooled, corrected, &each);
    let rows = [row(0.5)?, row(0.9)?, row(0.99)?, row(0.999)?];
    let worst = rows.iter().map(|row| row.merged_off_percent);
    // The farthest from nothing, with its sign.
    let worst = worst.max_by(|one, other| one.abs().total_cmp(&other.abs())).unwrap_or(f64::NAN);
    let us = |part: &DistributionPart| part.quantile_us(0.99).unwrap_or(0.0) / 1e3;
    let late_ms = us(&report.whole.pacer_lateness) + us(&report.whole.connection_wait) + PATH_MS;
    let (near_ms, far_ms) = (lab.setting("near_ms")?, lab.setting("far_ms")?);
    let counts = &report.whole.counts;
    let answered = counts.answered + counts.setup.answered + counts.warmup.answered;
    let of_agents: u64 = each.iter().map(|part| part.count).sum();
    let [p50, p90, p99, p999] = rows;
    let figures = Figures {
        agents: report.per_agent.iter().map(agent).collect::<Result<_, _>>()?,
        p50,
        p90,
        p99,
        p999,
        merged_off_max_percent: worst,
        bucket_percent: lab.setting("bucket_percent")?,
        far_ms,
        // A server's timers may be late as well: what is beyond the pooled p99 is three times as
        // large a share of what the far server held.
        pooled_high_ms: far_ms.max(held_ms(far, 1.0 - 3.0 * (1.0 - 0.99))?) + late_ms,
        mean_expected_ms: (2.0 * near_ms + lab.setting("far_tail_ms")?) / 3.0,
        near_requests: near.answered,
        far_requests: far.answered,
        missing: of_agents.abs_diff(corrected.count)
            + corrected.count.abs_diff(pooled.len() as u64),
        unaccounted: counts.intended.abs_diff(counts.answered)
            + answered.abs_diff(near.answered + far.answered),
    };
    let plots = vec![plot(&run)?];
    Ok(Measured::new(&figures, plots))
}

/// How long a server held its requests, by its ledger: quantile `q`.
fn held_ms(of: &Ledger, q: f64) -> Result<f64, LabError> {
    let histogram = of.held.decode().map_err(LabError::figures)?;
    Ok(histogram.value_at_quantile(q) as f64 / 1e6)
}

fn agent(of: &AgentPart) -> Result<Agent, LabError> {
    let is_far = !of.config.source_addresses.is_empty();
    let server = if is_far { "far" } else { "near" };
    Ok(Agent { server, latencies: Latencies::of(&of.part.corrected)? })
}

fn row(
    q: f64,
    pooled: &[f64],
    merged: &DistributionPart,
    each: &[&DistributionPart],
) -> Result<Row, LabError> {
    let at = |part: &DistributionPart| -> Result<f64, LabError> {
        let histogram = part.decode_histogram().map_err(LabError::figures)?;
        let max_ms = part.max.unwrap_or(f64::INFINITY) / 1e3;
        Ok((histogram.value_at_quantile(q) as f64 / 1e6).min(max_ms))
    };
    let of_agents = each.iter().map(|part| at(part)).collect::<Result<Vec<_>, _>>()?;
    Ok(Row::new(quantile(pooled, q), at(merged)?, &of_agents))
}

impl Row {
    fn new(pooled_ms: f64, merged_ms: f64, of_agents: &[f64]) -> Row {
        let mean_ms = of_agents.iter().sum::<f64>() / of_agents.len() as f64;
        let off = |ms: f64| (ms / pooled_ms - 1.0) * 100.0;
        Row {
            pooled_ms,
            merged_ms,
            mean_ms,
            merged_off_percent: off(merged_ms),
            mean_off_percent: off(mean_ms),
        }
    }
}

fn plot(run: &Together) -> Result<Plot, LabError> {
    let names = ["agent one", "agent two", "agent three, far"];
    let mut of_lines = Vec::new();
    for (name, agent) in names.into_iter().zip(&run.report.per_agent) {
        of_lines.push(Line { name, points: percentiles(&agent.part.corrected)?, dashed: true });
    }
    let merged = percentiles(&run.report.whole.corrected)?;
    of_lines.push(Line { name: "merged", points: merged, dashed: false });
    let title = "three agents and their merged distribution";
    by_percentile("agents.svg", title, "corrected latency, ms", &of_lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_of_percentiles_is_not_one() {
        // Two agents near, one far: of its requests 2 % take 500 ms, which is 0.67 % of all, so the
        // pooled p99 is among its usual requests.
        let row = Row::new(20.0, 20.01, &[1.0, 1.0, 500.0]);
        assert!((row.mean_ms - 167.333).abs() < 1e-3);
        assert!((row.mean_off_percent - 736.667).abs() < 1e-3);
        assert!((row.merged_off_percent - 0.05).abs() < 1e-9);
    }
}
