//! Figures that several sections take from a run: percentiles, CPU time per request, and latency
//! and lateness made of them.

use engine::plan::{StampSource, Wait};
use engine::report::{DistributionPart, Report};
use serde::{Deserialize, Serialize};

/// Three percentiles of a distribution, µs; `None` if there are too few values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Three {
    /// The median.
    pub p50: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p999: Option<f64>,
}

impl Three {
    pub(super) fn of(part: &DistributionPart) -> Three {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| part.quantile_us(q));
        Three { p50, p99, p999 }
    }
}

/// CPU time of the shards per answered request, µs, without the time they polled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuPerRequest {
    /// In user space, polling left out.
    pub user_us: f64,
    /// In the kernel.
    pub system_us: f64,
}

impl CpuPerRequest {
    /// From a run; zero if nothing was answered.
    pub fn new(report: &Report) -> CpuPerRequest {
        let shards = &report.generator.shards;
        let sum = |of: fn(&engine::record::shard_stats::ShardStats) -> f64| -> f64 {
            shards.iter().map(of).sum()
        };
        let answered: u64 = report.series.intervals.iter().map(|slot| slot.counts.answers).sum();
        if answered == 0 {
            return CpuPerRequest::default();
        }
        let (user_s, system_s) = (sum(|shard| shard.cpu_user_s), sum(|shard| shard.cpu_system_s));
        // Polling runs in user space and in the kernel; both lose the same share.
        let polled_s = sum(|shard| shard.polling_s).min(user_s + system_s);
        let rest = 1.0 - polled_s / (user_s + system_s).max(f64::MIN_POSITIVE);
        let each_us = |seconds: f64| seconds * rest * 1e6 / answered as f64;
        CpuPerRequest { user_us: each_us(user_s), system_us: each_us(system_s) }
    }

    /// Both together.
    pub fn total_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

/// Lateness of one way of waiting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// The way of waiting.
    pub wait: Wait,
    /// Requests per second.
    pub rate: f64,
    /// Intended to noticed: the wake-up for a due request.
    pub pacer: Three,
    /// Received to handled: the wake-up for a response.
    pub receive: Three,
    /// True if others took enough of the machine to move p99.
    pub disturbed: bool,
}

/// Latency of the null target at a share of the capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// The share.
    pub share: f64,
    /// Requests per second.
    pub rate: f64,
    /// Sent to received.
    pub naive: Three,
    /// Intended to received.
    pub corrected: Three,
    /// CPU time of the shards per request.
    pub cpu: CpuPerRequest,
    /// The source of the responses' stamps.
    pub stamps: StampSource,
    /// True if others took so much of the machine that even the median may not be its own.
    pub disturbed: bool,
    /// True if they took enough to move p99.
    pub tail_disturbed: bool,
}

/// Busy share of the busiest shard.
pub(super) fn busiest(report: &Report) -> f64 {
    report.generator.shards.iter().map(|shard| shard.busy).fold(0.0, f64::max)
}
