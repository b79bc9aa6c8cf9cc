//! Which reasons of the verdict each threshold moves the bounds of.

use super::verdict::Code;

/// Each threshold's name and the reasons that it decides on, in the order of the thresholds.
pub const MOVES: [(&str, &[Code]); 35] = [
    ("unsent", &[Code::RateMissed, Code::CoreSaturated, Code::ScheduleNotAsPlanned]),
    ("offered", &[Code::RateMissed]),
    ("lateness", &[Code::GeneratorLate, Code::PoolGrew]),
    ("lateness_floor_us", &[Code::GeneratorLate, Code::ClientShare, Code::ScheduleNotAsPlanned]),
    ("lateness_tail", &[Code::GeneratorLate]),
    ("lateness_tail_floor_us", &[Code::GeneratorLate]),
    ("lateness_invalid", &[Code::GeneratorLate]),
    ("client_share", &[Code::ReceiveLate, Code::ClientShare]),
    ("stopped", &[Code::GeneratorLate]),
    ("stopped_invalid", &[Code::GeneratorLate]),
    ("busy", &[Code::CoreSaturated]),
    ("busy_behind", &[Code::CoreSaturated]),
    ("near_ceiling", &[Code::NearCeiling]),
    ("below_floor", &[Code::BelowFloor]),
    ("generator_bound", &[Code::GeneratorBound, Code::CoreSaturated]),
    ("capped", &[Code::CapReached]),
    ("schedule_p", &[Code::ScheduleNotAsPlanned]),
    ("sends_effect", &[Code::ScheduleNotAsPlanned]),
    ("sends_deviations", &[Code::ScheduleNotAsPlanned]),
    ("sends_distance", &[Code::ScheduleNotAsPlanned]),
    ("littles_law", &[Code::LittlesLaw]),
    ("drift", &[Code::NotStationary]),
    ("drift_p99", &[Code::NotStationary]),
    ("percentile", &[Code::TooFewSamples]),
    ("stolen", &[Code::CpuStolen, Code::CpuContended, Code::CoreShared]),
    ("stolen_invalid", &[Code::CpuStolen, Code::CpuContended, Code::CoreShared]),
    ("throttled", &[Code::CpuThrottled]),
    ("starved", &[Code::Starved]),
    ("starved_invalid", &[Code::Starved]),
    ("pool_grew", &[Code::PoolGrew]),
    ("pool_grew_invalid", &[Code::PoolGrew]),
    ("not_settled_invalid", &[Code::NotSettled]),
    ("buffers", &[Code::BuffersExhausted]),
    ("errors", &[Code::Errors]),
    ("errors_invalid", &[Code::Errors]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::thresholds::Thresholds;

    #[test]
    fn every_threshold_moves_a_reason() {
        let names: Vec<String> =
            Thresholds::default().entries().into_iter().map(|(name, _)| name).collect();
        assert_eq!(MOVES.map(|(name, _)| name).to_vec(), names);
        assert!(MOVES.iter().all(|(_, reasons)| !reasons.is_empty()));
    }
}
