//! The one table of the bounds that a verdict goes by.

use serde::{Deserialize, Serialize};

/// The bounds beyond which a run is suspect or invalid. Shares are of 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// Share of the intended requests that may be missing among the sent ones.
    pub unsent: f64,
    /// How far the offered rate may be off the plan's, as a share; chance is allowed for on top.
    pub offered: f64,
    /// Pacer lateness p99, or the highest percentile known below it, against corrected p50.
    pub lateness: f64,
    /// Pacer lateness p99 that is never held against a run, microseconds. The sends' gaps may be off by what so much lateness
    /// explains.
    pub lateness_floor_us: f64,
    /// Pacer lateness p99.9 against corrected p99.9.
    pub lateness_tail: f64,
    /// Pacer lateness p99.9 that is never held against a run, microseconds.
    pub lateness_tail_floor_us: f64,
    /// The same percentile against that of corrected, from which the tail is the generator's own.
    pub lateness_invalid: f64,
    /// Share of the window in which a shard stood still, for more than 10 ms at a stretch.
    pub stopped: f64,
    /// The same, from which the run is invalid.
    pub stopped_invalid: f64,
    /// Busy share of a shard.
    pub busy: f64,
    /// Busy share of a shard while an open load falls behind, if the planned rate would need more than [`Thresholds::busy`].
    pub busy_behind: f64,
    /// Share of the arrivals that may wait at the cap.
    pub capped: f64,
    /// Probability, of each test of the intended arrivals, below which they are not what the plan says.
    pub schedule_p: f64,
    /// How far the sends' index of dispersion, their gaps' Kolmogorov–Smirnov distance from the intended ones and their lag-1
    /// autocorrelation may be off beyond chance, and beyond what [`Thresholds::lateness_floor_us`] explains.
    pub sends_effect: f64,
    /// Standard deviations of chance that the sends' index of dispersion may be off on top.
    pub sends_deviations: f64,
    /// The distance of the gaps that no lateness explains.
    pub sends_distance: f64,
    /// Residual of Little's law.
    pub littles_law: f64,
    /// Share of the latencies that may lie elsewhere in the window's last quarter than in its first, beyond chance.
    pub drift: f64,
    /// Factor between the p99 of these quarters, in either direction, that counts as a change where their intervals don't meet.
    pub drift_p99: f64,
    /// The percentile that a run has to have samples for.
    pub percentile: f64,
    /// Share of a shard's time that others may take: stolen by the hypervisor, or waiting for its core.
    pub stolen: f64,
    /// The same, from which the run is invalid.
    pub stolen_invalid: f64,
    /// Share of the window for which the control group may be throttled.
    pub throttled: f64,
    /// Share of the intended requests without a good answer.
    pub errors: f64,
    /// The same, from which the run is invalid: its percentiles are those of the few.
    pub errors_invalid: f64,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            unsent: 0.001,
            offered: 0.02,
            lateness: 0.05,
            lateness_floor_us: 20.0,
            lateness_tail: 0.1,
            lateness_tail_floor_us: 1_000.0,
            lateness_invalid: 0.5,
            stopped: 0.01,
            stopped_invalid: 0.1,
            busy: 0.95,
            busy_behind: 0.6,
            capped: 0.001,
            schedule_p: 1e-4,
            sends_effect: 0.05,
            sends_deviations: 3.0,
            sends_distance: 0.5,
            littles_law: 0.01,
            drift: 0.1,
            drift_p99: 1.5,
            percentile: 0.99,
            stolen: 0.01,
            stolen_invalid: 0.1,
            throttled: 0.001,
            errors: 0.01,
            errors_invalid: 0.5,
        }
    }
}

impl Thresholds {
    /// A bound that is beyond what it can be: its name, its value, and what to give instead.
    pub fn misfit(&self) -> Option<(&'static str, f64, &'static str)> {
        let shares = [("percentile", self.percentile), ("schedule_p", self.schedule_p)];
        for (name, value) in shares {
            if !(0.0 < value && value < 1.0) {
                return Some((name, value, "give a number between 0 and 1"));
            }
        }
        let is_factor = 1.0 <= self.drift_p99 && self.drift_p99.is_finite();
        (!is_factor).then_some(("drift_p99", self.drift_p99, "give a number from 1 up"))
    }
}
