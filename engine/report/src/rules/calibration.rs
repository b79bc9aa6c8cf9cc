//! Rules about the generator's limits on its machine, as calibrated: a load near its capacity, and
//! a latency at its floor.

use plan::Model;

use super::rule::Found;
use super::share::percent;
use crate::Report;
use crate::figures::time;
use crate::verdict::Topic;

/// Busy share of a shard below which its core has room, whatever was calibrated: the capacity is
/// for small responses over the loopback, and is higher if a request costs less than there.
const HAS_ROOM: f64 = 0.7;

/// Share of the capacity up to which the generator has room: above it, its run queue grows steeply
/// with the load.
const NEAR_CEILING: f64 = 0.8;
/// Share of corrected p50 that the floor may reach: above it, at most a fifth of the median is the
/// target's.
const BELOW_FLOOR: f64 = 0.8;
/// Share of the capacity above which the calibration itself must be wrong: two runs at capacity
/// differ too.
const ABOVE_CEILING: f64 = 1.05;
/// The cure if a calibration contradicts a run.
const CALIBRATE: &str = "calibrate again: `truetail calibrate`";

/// Near its calibrated capacity, the generator may be the limit instead of the target, and requests
/// wait for its core. The core tells such a run from one whose rate only looks high: it has no room
/// left.
pub(super) fn near_ceiling(report: &Report) -> Option<Found> {
    let plan = &report.config.plan;
    let held = report.calibration.as_ref();
    let figure = held.and_then(|held| held.rate_of_ceiling)?;
    let busy = report.generator.shards.iter().map(|shard| shard.busy).fold(0.0, f64::max);
    if figure <= NEAR_CEILING || busy <= HAS_ROOM {
        return None;
    }
    // A schedule or a pace is kept or missed, which other rules check. A closed loop sends what it
    // can.
    let is_unpaced = plan.model() == Model::Closed && plan.period.is_none();
    let is_above = ABOVE_CEILING < figure;
    let meaning = match is_unpaced {
        _ if is_above => Some(
            "more was sent than this machine can send by its calibration: one of the two is wrong, \
             and how much room the generator had left isn't known",
        ),
        true => Some("the throughput may be the generator's own: the target may be faster"),
        false => None,
    };
    let touches: &[Topic] =
        if is_unpaced { &[Topic::Throughput, Topic::Latency] } else { &[Topic::Latency] };
    let evidence = format!(
        "{:.0}/s were sent, {} of the {} calibrated here, by a core that was busy {} of the time; \
         the limit is {}",
        report.whole.rate.sent,
        percent(figure),
        match plan.model() {
            Model::Open => "open-loop limit",
            Model::Closed => "closed-loop peak",
        },
        percent(busy),
        percent(NEAR_CEILING)
    );
    Some(
        Found::suspect(figure, NEAR_CEILING, evidence)
            .touches(touches)
            .meaning(meaning)
            .cure(is_above.then_some(CALIBRATE)),
    )
}

/// A target that costs nothing has such a latency too: this target's part can't be read from it.
pub(super) fn below_floor(report: &Report) -> Option<Found> {
    let held = report.calibration.as_ref()?;
    let (Some(figure), Some(floor)) = (held.floor_of_p50, held.floor) else { return None };
    if figure <= BELOW_FLOOR {
        return None;
    }
    let p50 = floor / figure;
    let at = match held.calibrated.nearest_to(report.whole.rate.sent) {
        Some(rate) => format!("at {rate:.0}/s, the nearest rate that was calibrated"),
        None => "at that rate".to_owned(),
    };
    // Two runs at the floor differ too.
    let is_below = 1.0 < figure * BELOW_FLOOR;
    let meaning = is_below.then_some(
        "the median is below what this machine showed of a target that costs nothing: one of the \
         two is wrong",
    );
    let evidence = format!(
        "corrected p50 is {}; a target that costs nothing has {} here {at}, {} of it; the limit is \
         {}",
        time(p50),
        time(floor),
        percent(figure),
        percent(BELOW_FLOOR)
    );
    Some(
        Found::suspect(figure, BELOW_FLOOR, evidence)
            .meaning(meaning)
            .cure(is_below.then_some(CALIBRATE)),
    )
}
