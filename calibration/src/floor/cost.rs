//! The cost of features: pairs of runs with and without each.

use serde::{Deserialize, Serialize};

/// The cost of a feature: CPU time of the whole process per request, with and without it, in pairs
/// of consecutive runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The feature.
    pub feature: Feature,
    /// Each pair: with it and without it, µs.
    pub pairs: Vec<[f64; 2]>,
    /// The median of the differences, µs.
    pub median_us: f64,
    /// The lowest and the highest difference, µs.
    pub range_us: [f64; 2],
    /// True if others took so much of the machine in a run of a pair that the figures may not be
    /// its own.
    pub disturbed: bool,
}

impl Cost {
    /// The cost from these pairs; there is at least one.
    pub(super) fn new(feature: Feature, pairs: Vec<[f64; 2]>, disturbed: bool) -> Cost {
        let mut added: Vec<f64> = pairs.iter().map(|[with, without]| with - without).collect();
        added.sort_by(f64::total_cmp);
        let (low, high) = (added[(added.len() - 1) / 2], added[added.len() / 2]);
        let range_us = [added[0], added[added.len() - 1]];
        Cost { feature, pairs, median_us: f64::midpoint(low, high), range_us, disturbed }
    }
}

/// A feature whose cost is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// A file of raw samples.
    Raw,
    /// The kernel's stamps, against the program's.
    KernelStamps,
    /// The progress line.
    Display,
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 3] = [Feature::Raw, Feature::KernelStamps, Feature::Display];

    /// Its name in a text.
    pub fn name(self) -> &'static str {
        match self {
            Feature::Raw => "--raw",
            Feature::KernelStamps => "kernel stamps",
            Feature::Display => "progress line",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_median_of_the_differences_of_its_pairs() {
        let pairs = vec![[5.0, 4.0], [4.5, 4.0], [9.0, 4.0], [3.9, 4.0]];
        let cost = Cost::new(Feature::Raw, pairs, false);
        assert!((cost.median_us - 0.75).abs() < 1e-9, "{cost:?}");
        assert!((cost.range_us[0] + 0.1).abs() < 1e-9 && cost.range_us[1] == 5.0, "{cost:?}");
    }
}
