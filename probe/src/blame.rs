//! The side that bounded a step: the target, or the generator that measures it.
//!
//! A reason of the verdict about the generator is no proof that it was the bound: on a virtual
//! machine few runs are without one. The generator was the bound if its core was full, or if its
//! lateness alone explains the failure: its part of the requests at the percentile that missed. The
//! same percentile of its lateness would be of other requests.
//!
//! A target that stops answering keeps every connection busy, as does a cap that is too low, so it
//! is judged first: no more answers came, and no request due since then was ever answered.
//! Otherwise, busy connections point at the target only if responses take longer than they did
//! while connections were left.
//!
//! A step that met its objectives while others used the machine passes if each request had a good
//! answer: time taken by others only adds to those latencies. But it may remove requests, and hide
//! errors.

use engine::report::slo::{JudgedObjective, Judgement};
use engine::report::verdict::{Code, Level};
use serde::{Deserialize, Serialize};

use crate::step::{Reason, Step};

/// A side of a load test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The target, with the network to it.
    Target,
    /// The generator, with the machine that it runs on.
    Generator,
    /// The connection limit: all were busy, though the target took no longer for that.
    Connections,
}

/// The factor by which responses take longer, on average, if a queue at the target keeps all
/// connections busy.
const TOOK_LONGER: f64 = 1.5;

/// The bound of a step that failed, or fell behind, given the step under the least load. `None` if
/// all connections were busy and no step shows whether the target was slow: then either may be the
/// bound.
///
/// A ceiling's bound is judged by [`crate::bound`], from other evidence: its steps have no
/// objectives to explain, but figures of the machine and trials to compare with, and how much of
/// the generator's core was left matters only if the generator is the bound.
pub(crate) fn bottleneck(step: &Step, lightest: Option<&Step>) -> Option<Side> {
    let is_capped = |step: &Step| has(step, |reason| reason.code == Code::CapReached);
    if step.silent_from_s.is_some() {
        // Unanswered requests keep their connections busy, however many there are.
        return Some(Side::Target);
    }
    let side = side(step);
    if side == Side::Generator || !is_capped(step) {
        return Some(side);
    }
    let slower = took_longer(lightest.filter(|light| !is_capped(light)), step)?;
    Some(if slower { Side::Target } else { Side::Connections })
}

/// Whether responses took longer than under little load; `None` if unknown.
pub(crate) fn took_longer(light: Option<&Step>, heavy: &Step) -> Option<bool> {
    let (light, heavy) = light.and_then(|light| light.naive.mean).zip(heavy.naive.mean)?;
    Some(TOOK_LONGER * light < heavy)
}

/// The side that bounded a step that failed, or fell behind; connections count as the target's.
pub(crate) fn side(step: &Step) -> Side {
    let generator = has(step, |reason| reason.code == Code::CoreSaturated)
        || match missed(step).count() {
            0 if step.backlog.fell_behind == Some(true) => most_is_lateness(step),
            // Only the verdict is against it.
            0 => {
                has(step, |reason| reason.level == Level::Invalid && reason.code.is_of_generator())
            }
            _ => missed(step).all(|objective| explained(step, objective)),
        };
    if generator { Side::Generator } else { Side::Target }
}

/// True if others on the machine may have caused a missed objective: they took so much of its time
/// that the run proves nothing, or enough to explain the miss. A target that falls behind has
/// missed it in any case, and so has one that stops answering.
pub(crate) fn is_disturbed(step: &Step) -> bool {
    step.backlog.fell_behind != Some(true)
        && step.silent_from_s.is_none()
        && (has(step, says_nothing)
            || has(step, |reason| is_taken_time(reason.code)) && taken_time_explains(step))
}

/// The excuse of a failed step: the worst reason of its verdict that excuses it, if any.
pub fn excuse(step: &Step) -> Option<Code> {
    let code_of = |which: fn(&Reason) -> bool| {
        step.verdict.found().find(|reason| which(reason)).map(|reason| reason.code)
    };
    if is_disturbed(step) {
        return code_of(says_nothing).or_else(|| code_of(|reason| is_taken_time(reason.code)));
    }
    let is_own = |reason: &Reason| {
        reason.code == Code::CoreSaturated
            || reason.level == Level::Invalid && reason.code.is_of_generator()
    };
    (side(step) == Side::Generator).then(|| code_of(is_own).unwrap_or(Code::GeneratorLate))
}

/// True if a run is invalid for another reason than time taken by others.
pub(crate) fn is_invalid_beyond_disturbance(step: &Step) -> bool {
    has(step, |reason| reason.level == Level::Invalid && !is_disturbance(reason.code))
}

/// True if lost time may have hidden a miss, in a run that is invalid for nothing else.
///
/// A request that is sent late is never answered earlier, and neither is any behind it at a target
/// that serves in order; its corrected latency is from when it was due. So lost time makes no
/// measured latency smaller. But requests without a good answer have no latency, or one that ends
/// where they were given up: those never sent, dropped, expired or failed. And errors may become
/// fewer: requests due while the target failed were sent when it didn't.
pub(crate) fn may_hide_a_miss(step: &Step) -> bool {
    let mut objectives = step.slo.iter().flat_map(|slo| &slo.objectives);
    let bounds_errors = objectives.any(|objective| objective.metric == "errors");
    let lost_time =
        has(step, |reason| reason.level == Level::Invalid && is_disturbance(reason.code));
    lost_time && (bounds_errors || 0 < step.errors)
}

/// True if a reason is about time that others took from the generator. A full core isn't: that is
/// the generator's bound.
fn is_disturbance(code: Code) -> bool {
    code.is_disturbance() && code != Code::CoreSaturated
}

/// True if a reason is about so much time that the run proves nothing about the target. The limit
/// for a quota is low: the time it took must explain the miss.
fn says_nothing(reason: &Reason) -> bool {
    reason.level == Level::Invalid
        && is_disturbance(reason.code)
        && reason.code != Code::CpuThrottled
}

/// True if a reason is about time that others took from the shards' cores, which is measured.
fn is_taken_time(code: Code) -> bool {
    matches!(code, Code::CpuStolen | Code::CpuContended | Code::CpuThrottled)
}

/// How much longer than the time taken by others its consequences last, as a factor: requests due
/// in it are worked off afterwards.
const WORKED_OFF: f64 = 2.0;

/// True if the time taken by others explains the whole miss: the requests of that time could have
/// been without delay and without error.
fn taken_time_explains(step: &Step) -> bool {
    let taken = step.figures.taken();
    let share = WORKED_OFF * taken;
    // If taken at once, it delays each of them by at most this.
    let delay_us = taken * step.duration_s * 1e6;
    let explains = |objective: &JudgedObjective| {
        let least = objective.interval[0].or(objective.figure);
        match (objective.metric.as_str(), least) {
            ("errors", Some(errors)) => errors - share < objective.bound,
            ("mean", Some(mean)) => mean - share * delay_us < objective.bound,
            ("max", Some(max)) => max - delay_us < objective.bound,
            (name, _) => {
                let percent =
                    name.strip_prefix('p').and_then(|percent| percent.parse::<f64>().ok());
                let allowed = percent.map(|percent| 1.0 - percent / 100.0);
                let beyond = objective.beyond_interval.map(|[low, _]| low);
                beyond.zip(allowed).is_some_and(|(beyond, allowed)| beyond - share < allowed)
            }
        }
    };
    if missed(step).next().is_none() {
        // Then it may fail because of requests that weren't sent.
        let unsent = 1.0 - step.sent_due_per_s / step.intended_per_s;
        return has(step, |reason| reason.code == Code::RateMissed) && unsent < share;
    }
    missed(step).all(explains)
}

fn has(step: &Step, which: impl Fn(&Reason) -> bool) -> bool {
    step.verdict.found().any(which)
}

fn missed(step: &Step) -> impl Iterator<Item = &JudgedObjective> {
    let objectives = step.slo.iter().flat_map(|slo| &slo.objectives);
    objectives.filter(|objective| objective.judgement == Judgement::Missed)
}

/// True if requests spent most of their time waiting for the generator.
pub(crate) fn most_is_lateness(step: &Step) -> bool {
    let means = step.pacer_lateness.mean.zip(step.corrected.mean);
    means.is_some_and(|(lateness, corrected)| corrected / 2.0 < lateness)
}

/// True if a missed objective would have held without the generator's part: in all requests on
/// average, or in those at the percentile. If the report doesn't have that part, nothing is
/// explained.
fn explained(step: &Step, objective: &JudgedObjective) -> bool {
    // The shares are of all requests.
    let shares = step.client_share.as_ref().filter(|_| objective.of.is_none());
    let Some(shares) = shares else { return false };
    let added = match objective.metric.as_str() {
        "mean" => Some(shares.added_mean),
        name => shares.at(name).map(|part| part.added),
    };
    let (Some(figure), Some(added)) = (objective.figure, added) else { return false };
    figure - added < objective.bound
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::{Queue, asked, missed_by};

    #[test]
    fn a_late_generator_is_the_bound_only_where_its_lateness_matters() {
        let step = Queue::serial_ms().run(&asked("500", 10));
        // 25 ms where 20 are allowed: with 1 ms of lateness it is the target's, with 8 it isn't.
        for (late_ms, side_is) in [(1.0, Side::Target), (8.0, Side::Generator)] {
            let step = missed_by(&step, "p99", 20.0, 25.0, late_ms);
            assert_eq!(side(&step), side_is, "{late_ms} ms late");
        }
        let errors = missed_by(&step, "errors", 0.001, 0.5, 8.0);
        assert_eq!(side(&errors), Side::Target);
    }

    #[test]
    fn lateness_of_other_requests_than_those_at_the_percentile_explains_nothing() {
        let step = Queue::serial_ms().run(&asked("500", 10));
        // The fast requests were late by 8 ms at their p99, those at the p99 of latency not at all.
        let mut missed = missed_by(&step, "p99", 20.0, 25.0, 0.0);
        missed.pacer_lateness.percentiles.at_mut(0.99).value = Some(8_000.0);
        assert_eq!(side(&missed), Side::Target);
        // The other way round, it was the generator.
        let mut missed = missed_by(&step, "p99", 20.0, 25.0, 8.0);
        missed.pacer_lateness.percentiles.at_mut(0.99).value = Some(0.0);
        assert_eq!(side(&missed), Side::Generator);
        // Its part at another percentile is unknown.
        assert_eq!(side(&missed_by(&step, "p90", 20.0, 25.0, 8.0)), Side::Target);
    }

    #[test]
    fn a_generator_without_time_is_the_bound() {
        let held = Queue::serial_ms().run(&asked("500", 10));
        let missed = missed_by(&held, "p99", 20.0, 25.0, 1.0);
        let (stolen, full, behind) = (Code::CpuStolen, Code::CoreSaturated, Code::RateMissed);
        for (step, code, level, side_is) in [
            // Only the verdict makes these steps fail.
            (&held, Code::BuffersExhausted, Level::Invalid, Side::Generator),
            (&held, behind, Level::Invalid, Side::Target),
            (&missed, stolen, Level::Invalid, Side::Target),
            (&missed, full, Level::Suspect, Side::Generator),
        ] {
            let mut step = step.clone();
            step.verdict.codes = vec![Reason { code, level }];
            assert_eq!(side(&step), side_is, "{code:?} {level:?}");
        }
    }

    #[test]
    fn a_backlog_is_the_generators_where_requests_wait_for_it() {
        let mut step = Queue::serial_ms().run(&asked("2k", 5));
        let mean = step.corrected.mean.expect("a mean");
        for (lateness, side_is) in [(0.01, Side::Target), (0.9, Side::Generator)] {
            step.pacer_lateness.mean = Some(lateness * mean);
            assert_eq!(side(&step), side_is, "{lateness} of the latency");
        }
    }

    #[test]
    fn lost_time_hides_a_miss_where_requests_or_errors_may_be_missing() {
        let step = Queue::serial_ms().run(&asked("500", 5));
        let met = missed_by(&step, "p99", 20.0, 10.0, 0.0);
        let errors = missed_by(&step, "errors", 0.001, 0.0, 0.0);
        let failed = Step { errors: 1, ..met.clone() };
        for (step, may_hide) in [(&met, false), (&errors, true), (&failed, true)] {
            for (level, lost) in [(Level::Invalid, true), (Level::Suspect, false)] {
                let mut step = step.clone();
                step.verdict.codes = vec![Reason { code: Code::CpuStolen, level }];
                assert_eq!(may_hide_a_miss(&step), may_hide && lost, "{level:?} {may_hide}");
                step.verdict.codes = vec![Reason { code: Code::NotStationary, level }];
                assert!(!may_hide_a_miss(&step));
            }
        }
    }

    /// The step in whose window others took a share of the shard's time, with these reasons.
    fn taken(step: &Step, share: f64, codes: &[(Code, Level)]) -> Step {
        let mut step = step.clone();
        step.figures.steal = Some(share);
        step.verdict.codes =
            codes.iter().map(|(code, level)| Reason { code: *code, level: *level }).collect();
        step
    }

    #[test]
    fn a_suspect_disturbance_excuses_only_a_miss_that_its_time_explains() {
        let held = Queue::serial_ms().run(&asked("500", 10));
        let objective = |metric, bound, figure| missed_by(&held, metric, bound, figure, 0.0);
        let mut p99 = objective("p99", 20.0, 25.0);
        p99.slo.as_mut().expect("objectives").objectives[0].beyond_interval = Some([0.04, 0.06]);
        for step in [
            &p99,
            &objective("errors", 0.001, 0.04),
            // 2 % of 10 s are 200 ms, for 4 % of the requests.
            &objective("mean", 20.0, 25.0),
            &objective("max", 20.0, 150.0),
        ] {
            for (code, level, share, excuses) in [
                (Code::CpuStolen, Level::Suspect, 0.02, true),
                (Code::CpuStolen, Level::Suspect, 0.01, false),
                (Code::CpuThrottled, Level::Invalid, 0.02, true),
                (Code::CpuThrottled, Level::Invalid, 0.01, false),
                (Code::CpuContended, Level::Invalid, 0.0, true),
                (Code::CoreShared, Level::Suspect, 0.02, false),
                (Code::GeneratorLate, Level::Suspect, 0.02, false),
            ] {
                let step = taken(step, share, &[(Code::ClosedLoop, Level::Suspect), (code, level)]);
                assert_eq!(is_disturbed(&step), excuses, "{code:?} {share} {:?}", step.slo);
                assert_eq!(excuse(&step), excuses.then_some(code), "{code:?} {share}");
            }
        }
        let late = missed_by(&held, "p99", 20.0, 25.0, 8.0);
        let (share, full) =
            ((Code::ClientShare, Level::Suspect), (Code::CoreSaturated, Level::Invalid));
        assert_eq!(excuse(&taken(&late, 0.0, &[share])), Some(Code::GeneratorLate));
        assert_eq!(excuse(&taken(&late, 0.0, &[share, full])), Some(Code::CoreSaturated));
    }

    #[test]
    fn requests_that_were_not_sent_are_excused_by_as_much_time() {
        let held = Queue::serial_ms().run(&asked("500", 10));
        let met = missed_by(&held, "p99", 20.0, 10.0, 0.0);
        let (stolen, unsent) =
            ((Code::CpuStolen, Level::Suspect), (Code::RateMissed, Level::Invalid));
        for (share, codes, excuses) in [
            (0.02, &[unsent, stolen][..], true),
            (0.01, &[unsent, stolen], false),
            (0.02, &[unsent], false),
            // Too few samples need a longer window, not another one.
            (0.02, &[stolen], false),
        ] {
            let mut step = taken(&met, share, codes);
            step.sent_due_per_s = 0.97 * step.intended_per_s;
            assert_eq!(is_disturbed(&step), excuses, "{share} {codes:?}");
        }
    }

    #[test]
    fn a_machine_that_others_used_excuses_a_miss_but_no_backlog() {
        let others = Reason { code: Code::CpuContended, level: Level::Invalid };
        let errors = Reason { code: Code::Errors, level: Level::Invalid };
        for (rate, disturbed) in [("500", true), ("2k", false)] {
            let mut step = Queue::serial_ms().run(&asked(rate, 5));
            assert!(!is_disturbed(&step));
            step.verdict.codes = vec![others];
            assert_eq!(is_disturbed(&step), disturbed, "{rate}");
            let silent = Step { silent_from_s: Some(1.0), ..step.clone() };
            assert!(!is_disturbed(&silent), "{rate}");
            assert!(!is_invalid_beyond_disturbance(&step));
            step.verdict.codes.push(errors);
            assert!(is_invalid_beyond_disturbance(&step));
        }
    }
}
