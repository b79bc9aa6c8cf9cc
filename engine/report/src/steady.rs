//! Drift of the latency while the load stays constant: in the whole window, or within its stages.

use hdrhistogram::Histogram;
use plan::Plan;
use stats::pieces::Pieces;
use stats::stationarity::{Stationarity, stationarity};
use units::SECOND_NS;

/// The first quarter of the window compared with the last. If the load changes, which would look
/// like the target's doing, the stage of one load that drifted most. `None` if none is long
/// enough.
pub fn while_steady(plan: &Plan, pieces: &Pieces<Histogram<u64>>) -> Option<Stationarity> {
    let drift = plan.thresholds.drift;
    if !plan.load_changes() {
        return stationarity(pieces, drift);
    }
    let steady = plan.stages().zip(1..).filter(|((stage, _), _)| !stage.is_ramp());
    let each = steady.filter_map(|((_, span), number)| {
        let seconds = |ns: u64| (ns - plan.warmup.0) as f64 / SECOND_NS as f64;
        let own = pieces.within(seconds(span.start), seconds(span.end));
        Some(Stationarity { stage: Some(number), ..stationarity(&own, drift)? })
    });
    let by_drift = |found: &Stationarity| (!found.stationary, found.distance / found.distance_max);
    each.max_by(|one, other| {
        let ((one, by), (other, than)) = (by_drift(one), by_drift(other));
        one.cmp(&other).then(by.total_cmp(&than))
    })
}
