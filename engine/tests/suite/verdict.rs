//! The verdict as a function of the report: each reason appears if its figure exceeds its bound,
//! and only then.

use engine::load::replay::ReplayedLog;
use engine::plan::{Arrivals, Model, Plan, StampSource, Switch};
use engine::record::counts::Counts;
use engine::record::outcome::{Cause, Outcome};
use engine::record::stamps::{Ending, StampedBy, Stamps};
use engine::report::environment::Core;
use engine::report::judge;
use engine::report::machine::Contender;
use engine::report::machine::Ports;
use engine::report::machine::{CoreTime, Machine};
use engine::report::merge::{add_profile, hold_against};
use engine::report::verdict::{Code, Level, Reason, Topic, Verdict};
use engine::report::{
    ClientPart, ClientShare, DistributionPart, Follows, LittlesLaw, Microseconds, Report, Samples,
};
use engine::stats::distribution::Distribution;
use engine::stats::stationarity::Stationarity;
use engine::sys::units::{CoreList, Nanos};

use crate::made_up;
use crate::support::{always_ok, open, plan, run, serve};

/// The report of a made-up run without any reason: about 1,000 requests in half a second.
fn clean() -> Report {
    let plan = Plan {
        target: "http://127.0.0.1:1/".to_owned(),
        duration: Nanos(500_000_000),
        warmup: Nanos(0),
        cores: Some(CoreList::new(vec![0])),
        ..open(Plan::default(), "2k")
    };
    let plan = plan.complete(&[0]).expect("a plan that runs");
    let answered = |due_ns: u64| {
        let stamps = Stamps {
            intended_ns: due_ns,
            noticed_ns: due_ns + 100,
            sent_ns: due_ns + 200,
            waited: false,
            step: 0,
            session: None,
        };
        let ending = Ending {
            received_ns: due_ns + 100_000,
            handled_ns: due_ns + 120_000,
            stamped_by: StampedBy::Kernel,
        };
        (stamps, ending, Outcome::Answered(200))
    };
    let recorded = made_up::record(&plan, (0, 1), answered, |_, _, _| {});
    let mut report = made_up::report(&plan, vec![recorded], None);
    for shard in &mut report.generator.shards {
        (shard.observed_s, shard.busy) = (0.5, 0.5);
        // Left over from the thread that made the report.
        shard.run_queue_delay_s = 0.0;
    }
    let machine = machine(&mut report);
    (machine.observed_s, machine.steal, machine.throttled_s) = (0.5, Some(0.0), Some(0.0));
    // As in a run that is long enough for the judged percentiles.
    let part = &mut report.whole;
    part.corrected.count = 10_000;
    for (p50, p99, p999, of) in
        [(100.0, 500.0, 900.0, &mut part.corrected), (0.2, 10.0, 40.0, &mut part.pacer_lateness)]
    {
        for (q, us) in [(0.5, p50), (0.99, p99), (0.999, p999)] {
            state(of, q, Some(us));
        }
    }
    report
}

/// Sets a quantile of a distribution to this value, µs.
fn state(distribution: &mut DistributionPart, q: f64, us: Option<f64>) {
    distribution.percentiles.at_mut(q).value = us;
}

type Change = fn(&mut Report);

#[test]
fn each_reason_has_its_cause_and_cure() {
    let clean = clean();
    let verdict = judge(&clean);
    assert_eq!(verdict, Verdict::valid());

    // About 1,000 requests were intended, so that one may be missing, and chance is allowed 12 % of
    // them.
    let beyond: &[(Code, Level, Change)] = &[
        (Code::Profiled, Level::Suspect, |report| add_profile(report, made_up::profile())),
        (Code::ReceiveLate, Level::Suspect, |report| by_the_program(report, 0.03, 6.0)),
        (Code::ClientShare, Level::Suspect, |report| added(report, "p50", 5.1)),
        (Code::ClientShare, Level::Suspect, |report| added(report, "p90", 20.1)),
        (Code::ClientShare, Level::Suspect, |report| added(report, "p99", 30.0)),
        (Code::ClientShare, Level::Suspect, |report| added(report, "p99.9", 900.0)),
        (Code::ClientShare, Level::Invalid, |report| added(report, "p50", 50.0)),
        (Code::ClientShare, Level::Invalid, |report| added(report, "p99", 250.0)),
        (Code::ClientShare, Level::Suspect, |report| {
            // Connections that a warm pool would have had.
            added(report, "p99", 10.0);
            share_at(report, "p99").opening = 15.1;
        }),
        (Code::ClientShare, Level::Suspect, |report| {
            report.config.plan.stamps = Some(StampSource::User);
            by_the_program(report, 1.0, 4.9);
        }),
        (Code::ClientShare, Level::Suspect, |report| {
            // The kernel was to stamp them, and their connections were closed at their end.
            let part = &mut report.whole;
            (part.stamps.kernel, part.stamps.program) = (0, part.counts.answered);
            for q in [0.5, 0.99] {
                state(&mut part.receive_lateness, q, None);
            }
        }),
        (Code::ClockStepped, Level::Suspect, |report| report.generator.shards[0].clock_steps = 1),
        (Code::StampsClamped, Level::Suspect, |report| {
            of_answers(report, |counts| (&mut counts.stamps_clamped, 11))
        }),
        (Code::Mispaired, Level::Suspect, |report| {
            of_answers(report, |counts| (&mut counts.doubtful, 2))
        }),
        (Code::Starved, Level::Suspect, |report| blocked(report, 1, 64)),
        (Code::Starved, Level::Suspect, |report| blocked(report, 6, 64)),
        (Code::Starved, Level::Invalid, |report| blocked(report, 56, 64)),
        (Code::Starved, Level::Suspect, |report| {
            // Each response takes half of the window, and every waiting user is blocked.
            blocked(report, 64, 64);
            state(&mut report.whole.naive, 0.5, Some(250_000.0));
        }),
        (Code::Unsolicited, Level::Suspect, |report| report.whole.counts.unsolicited = 1),
        (Code::Unsolicited, Level::Suspect, |report| trailing(report, 10)),
        (Code::Unsolicited, Level::Invalid, |report| trailing(report, 11)),
        (Code::Unsolicited, Level::Invalid, |report| {
            (report.config.plan.pipeline, report.whole.counts.unsolicited) = (2, 5);
        }),
        (Code::Unsolicited, Level::Suspect, |report| {
            report.whole.counts.errors.add(Cause::EarlyResponse);
        }),
        (Code::BuffersExhausted, Level::Suspect, |report| {
            // A target with a long response waits until the generator has read a part of it.
            report.generator.shards[0].buffers_exhausted = 2;
            long_responses(report);
        }),
        (Code::GeneratorLate, Level::Suspect, |report| observed(report, 1.0, 10.0)),
        (Code::GeneratorLate, Level::Suspect, |report| observed(report, -1.0, 10.0)),
        (Code::GeneratorLate, Level::Invalid, |report| observed(report, -1.01, 10.0)),
        (Code::GeneratorLate, Level::Invalid, |report| observed(report, -0.5, 0.5)),
        (Code::NothingSent, Level::Invalid, nothing_sent),
        (Code::NothingSent, Level::Invalid, |report| {
            // All of them failed for lack of a connection.
            nothing_sent(report);
            (report.whole.counts.sent, report.whole.counts.unconnected) = (1, 1);
        }),
        (Code::RateMissed, Level::Invalid, |report| report.whole.counts.sent_in_window -= 3),
        (Code::RateMissed, Level::Invalid, |report| {
            report.whole.rate.intended = 1.14 * 2_000.0;
        }),
        (Code::GeneratorLate, Level::Suspect, |report| stopped(report, 0.011)),
        (Code::GeneratorLate, Level::Invalid, |report| stopped(report, 0.11)),
        (Code::BelowFloor, Level::Suspect, |report| calibrated(report, 0.1, 0.81)),
        (Code::BelowFloor, Level::Suspect, |report| calibrated(report, 0.1, 2.0)),
        (Code::CoreSaturated, Level::Invalid, |report| users_waited(report, 0.11, 0.951)),
        (Code::CoreSaturated, Level::Invalid, |report| {
            // Responses that arrive as fast as they are read don't show waits.
            users_waited(report, 0.0, 0.951);
            long_responses(report);
        }),
        (Code::CoreSaturated, Level::Invalid, |report| {
            report.generator.shards[0].busy = 0.951;
            long_responses(report);
        }),
        (Code::NearCeiling, Level::Suspect, |report| {
            calibrated(report, 0.81, 0.1);
            report.generator.shards[0].busy = 0.71;
            long_responses(report);
        }),
        (Code::GeneratorBound, Level::Suspect, |report| users_waited(report, 0.11, 0.95)),
        (Code::CapReached, Level::Suspect, |report| report.whole.counts.capped = 3),
        (Code::ClientShare, Level::Suspect, |report| {
            // Responses waited for the generator, and kept the connections busy.
            report.whole.counts.capped = 3;
            report.littles_law = LittlesLaw::new(1_000.0, 1_000.0, 10.0);
        }),
        (Code::LittlesLaw, Level::Invalid, |report| report.littles_law.residual = 0.011),
        (Code::NotStationary, Level::Suspect, |report| report.stationarity = Some(shifted(0.11))),
        (Code::TooFewSamples, Level::Suspect, |report| report.whole.corrected.count = 562),
        (Code::LocalResource, Level::Suspect, |report| {
            let counts = &mut report.whole.counts;
            for of in [&mut counts.intended, &mut counts.sent, &mut counts.sent_in_window] {
                *of += 1_000;
            }
            counts.connection_errors.add(Cause::LocalResource);
        }),
        (Code::LocalResource, Level::Invalid, |report| {
            (0..2).for_each(|_| report.whole.counts.connection_errors.add(Cause::LocalResource));
        }),
        (Code::LocalResource, Level::Invalid, |report| report.generator.shards[0].cq_overflows = 1),
        (Code::CpuStolen, Level::Suspect, |report| machine(report).steal = Some(0.011)),
        (Code::CpuStolen, Level::Invalid, |report| machine(report).steal = Some(0.11)),
        (Code::RawSamplesLost, Level::Suspect, |report| {
            report.samples = Some(Samples { file: None, written: 0, lost: 1, error: None });
        }),
        (Code::Errors, Level::Suspect, |report| {
            report.whole.counts.unexpected_status = report.whole.counts.intended / 50
        }),
        (Code::Errors, Level::Invalid, |report| {
            report.whole.counts.unexpected_status = report.whole.counts.intended
        }),
    ];
    for &(code, level, change) in beyond {
        let mut report = clean.clone();
        change(&mut report);
        let verdict = judge(&report);
        let found: Vec<(Code, Level)> =
            verdict.reasons.iter().map(|reason| (reason.code, reason.level)).collect();
        assert_eq!((verdict.level, found), (level, vec![(code, level)]));
        assert_eq!(verdict.notes, [], "an effect isn't a note");
        let reason = &verdict.reasons[0];
        assert!(
            !reason.evidence.is_empty() && !reason.meaning.is_empty() && !reason.cure.is_empty(),
            "{reason:?}"
        );
        assert!(!reason.touches.is_empty(), "{reason:?}");
        let crossed = match code {
            Code::TooFewSamples | Code::NothingSent => reason.figure < reason.threshold,
            _ => reason.threshold < reason.figure,
        };
        assert!(crossed, "{reason:?}");
    }
}

#[test]
fn a_cause_without_an_effect_is_a_note() {
    let clean = clean();
    let causes: &[(Code, Level, Change)] = &[
        (Code::CoreSaturated, Level::Invalid, |report| report.generator.shards[0].busy = 0.951),
        (Code::NearCeiling, Level::Suspect, |report| {
            calibrated(report, 0.81, 0.1);
            report.generator.shards[0].busy = 0.71;
        }),
        (Code::NotSettled, Level::Suspect, |report| {
            report.whole.counts.setup.settled = Some(false);
        }),
        (Code::NotSettled, Level::Suspect, |report| {
            report.whole.counts.setup.settled = Some(false);
            (report.whole.counts.users, report.whole.counts.pool_grew) = (1, 1);
        }),
        (Code::PoolGrew, Level::Suspect, |report| report.whole.counts.pool_grew = 2),
        (Code::PoolGrew, Level::Suspect, |report| {
            report.whole.counts.pool_grew = report.whole.counts.intended;
        }),
        (Code::BuffersExhausted, Level::Suspect, |report| {
            report.generator.shards[0].buffers_exhausted = 2;
        }),
        (Code::CpuContended, Level::Suspect, |report| waited_for_its_core(report, 0.011)),
        (Code::CpuContended, Level::Invalid, |report| waited_for_its_core(report, 0.11)),
        (Code::CoreShared, Level::Suspect, |report| sibling_busy(report, 0.11)),
        (Code::CoreShared, Level::Suspect, |report| sibling_busy(report, 1.0)),
        (Code::CoreShared, Level::Suspect, |report| interrupted_core(report, 0.011)),
        (Code::CpuThrottled, Level::Invalid, |report| machine(report).throttled_s = Some(0.1)),
        // The generator was late at times, and little of it is in any percentile.
        (Code::CpuContended, Level::Suspect, |report| {
            waited_for_its_core(report, 0.02);
            state(&mut report.whole.pacer_lateness, 0.99, Some(134.0));
            state(&mut report.whole.pacer_lateness, 0.999, Some(5_000.0));
            added(report, "p99", 19.9);
        }),
        (Code::PoolGrew, Level::Suspect, |report| {
            report.whole.counts.pool_grew = 2;
            added(report, "p99", 0.0);
            share_at(report, "p99").opening = 20.0;
        }),
    ];
    for &(code, level, change) in causes {
        let mut report = clean.clone();
        change(&mut report);
        let Verdict { level: of_all, reasons, notes } = judge(&report);
        let [note] = &notes[..] else { panic!("{code:?}: one note: {reasons:?}, {notes:?}") };
        assert_eq!(
            (of_all, &reasons[..], note.code, note.level),
            (Level::Valid, &[][..], code, level)
        );
        for text in [&note.evidence, &note.meaning, &note.cure] {
            assert!(!text.is_empty(), "{note:?}");
        }
    }
}

#[test]
fn latency_added_only_to_the_tail_leaves_the_other_percentiles_trusted() {
    let touched = |others: &[&str]| {
        let mut report = clean();
        added(&mut report, "p99.9", 899.0);
        others.iter().for_each(|label| share_at(&mut report, label).added = 100.0);
        let reasons = judge(&report).reasons;
        let [reason] = &reasons[..] else { panic!("one reason: {reasons:?}") };
        reason.touches.clone()
    };
    assert_eq!(touched(&[]), [Topic::Tail]);
    assert_eq!(touched(&["p90"]), [Topic::Latency]);
}

#[test]
fn what_chance_moves_a_percentile_by_as_well_is_no_reason() {
    let is_reason = |requests: u64, added_us: f64| {
        let mut report = clean();
        added(&mut report, "p99.9", 0.0);
        // A tail so long that p99.9, 100 ms, is a hundred times p99.
        let mut corrected = Distribution::new();
        (0..requests).for_each(|n| corrected.record(100 * (requests / (requests - n)).pow(2)));
        report.whole.corrected = DistributionPart::alone(&corrected, None);
        let part = share_at(&mut report, "p99.9");
        (part.corrected, part.added) = (100_000.0, added_us);
        judge(&report).reasons.iter().any(|reason| reason.code == Code::ClientShare)
    };
    // Its 95 % interval by ranks begins 52 ms lower with 10,000 requests, 11 ms with a million.
    assert!(!is_reason(10_000, 20_000.0));
    assert!(is_reason(1_000_000, 20_000.0));
    assert!(is_reason(10_000, 50_000.0), "half of it counts in any case");
}

#[test]
fn a_cause_stays_a_note_where_its_effect_is_a_reason() {
    let mut report = clean();
    waited_for_its_core(&mut report, 0.11);
    added(&mut report, "p99", 30.0);
    let Verdict { level, reasons, notes } = judge(&report);
    let codes = |all: &[Reason]| all.iter().map(|one| one.code).collect::<Vec<Code>>();
    assert_eq!(
        (codes(&reasons), codes(&notes)),
        (vec![Code::ClientShare], vec![Code::CpuContended])
    );
    assert_eq!(level, Level::Suspect, "set by the effect, which is milder than its cause could be");
    assert!(reasons[0].evidence.starts_with("the generator added 30.0 µs of the 500 µs at p99"));
}

#[test]
fn a_figure_at_its_bound_is_no_reason() {
    let clean = clean();
    let within: &[Change] = &[
        |report| of_answers(report, |counts| (&mut counts.stamps_clamped, 10)),
        |report| of_answers(report, |counts| (&mut counts.doubtful, 1)),
        |report| {
            // The kernel's stamps are a control here, and in no latency.
            of_answers(report, |counts| (&mut counts.stamps_clamped, 100));
            (report.config.plan.stamps, report.whole.stamps.program) = (Some(StampSource::User), 0);
        },
        |report| blocked(report, 0, 64),
        |report| blocked(report, 1, 101),
        |report| {
            // One request of a thousand got no answer, and held one of ten connections.
            let counts = &mut report.whole.counts;
            (counts.users_blocked, counts.users, counts.abandoned) = (1, 10, 1);
        },
        |report| report.whole.counts.pool_grew = 1,
        |report| {
            report.generator.shards[0].buffers_exhausted = 1;
            report.whole.counts.answered = 1_000;
        },
        |report| report.whole.counts.setup.settled = Some(true),
        |report| {
            // Without keep-alive there is no pool.
            report.whole.counts.setup.settled = Some(false);
            report.config.plan.keepalive = Switch::Off;
        },
        |report| observed(report, -0.09, 0.5),
        |report| observed(report, 0.15, 20.0),
        |report| report.whole.counts.sent_in_window -= 1,
        |report| {
            // They got no connection: errors, which have a bound of their own.
            report.whole.counts.sent_in_window -= 5;
            report.whole.counts.unconnected = 5;
        },
        |report| report.whole.rate.intended *= 1.02,
        // Chance explains 12.6 % of 1,000 requests.
        |report| report.whole.rate.intended = 1.12 * 2_000.0,
        // However late some requests were, only their part of the latencies counts.
        |report| state(&mut report.whole.pacer_lateness, 0.99, Some(134.0)),
        |report| state(&mut report.whole.pacer_lateness, 0.999, Some(1e6)),
        |report| by_the_program(report, 0.01, 60.0),
        |report| by_the_program(report, 0.5, 4.9),
        |report| added(report, "p50", 5.0),
        |report| added(report, "p90", 20.0),
        |report| added(report, "p99", 25.0),
        |report| added(report, "p99.9", 45.0),
        |report| {
            // Nothing was stamped, so a clock step affects nothing.
            report.config.plan.stamps = Some(StampSource::User);
            report.whole.counts.answered = 0;
            report.generator.shards[0].clock_steps = 1;
        },
        |report| stopped(report, 0.0099),
        |report| report.generator.shards[0].busy = 0.95,
        |report| {
            calibrated(report, 0.8, 0.8);
            report.generator.shards[0].busy = 0.95;
        },
        // A core that has room isn't near its ceiling, whatever was calibrated.
        |report| {
            calibrated(report, 1.5, 0.1);
            report.generator.shards[0].busy = 0.7;
        },
        // Many requests per segment cost less than those of the calibration.
        |report| {
            report.config.plan.pipeline = 16;
            calibrated(report, 5.0, 0.1);
            report.generator.shards[0].busy = 0.95;
        },
        // A floor with other stamps doesn't apply.
        |report| {
            calibrated(report, 0.1, 2.0);
            let mut held = report.calibration.take().expect("it was held").calibrated;
            held.stamps = StampSource::User;
            hold_against(report, held);
        },
        |report| users_waited(report, 0.1, 0.5),
        // The target kept them waiting.
        |report| users_waited(report, 0.1, 1.0),
        |report| report.littles_law.residual = 0.01,
        |report| report.stationarity = Some(shifted(0.1)),
        |report| report.whole.corrected.count = 563,
        |report| machine(report).steal = Some(0.01),
        |report| waited_for_its_core(report, 0.0099),
        |report| sibling_busy(report, 0.1),
        |report| interrupted_core(report, 0.01),
        |report| {
            // Interrupts of other devices, and of a target on this host.
            interrupted_core(report, 0.5);
            report.environment.network.interrupt_cores = None;
        },
        |report| {
            // A core of its own, which the shard keeps busy.
            sibling_busy(report, 1.0);
            report.environment.cores[0].siblings = Some(vec![0]);
        },
        |report| {
            report.whole.counts.unexpected_status = report.whole.counts.intended / 200;
            report.whole.counts.capped = report.whole.counts.intended / 2_000;
        },
    ];
    for (number, change) in within.iter().enumerate() {
        let mut report = clean.clone();
        change(&mut report);
        let verdict = judge(&report);
        assert_eq!(verdict, Verdict::valid(), "change {number}");
    }
}

/// Compares it with a calibration: it sent this share of the ceiling, and the floor is this share
/// of its median.
fn calibrated(report: &mut Report, rate_of_ceiling: f64, floor_of_p50: f64) {
    let mut calibrated = made_up::calibrated(report);
    let ceiling = Some(report.whole.rate.sent / rate_of_ceiling);
    (calibrated.ceiling_open, calibrated.ceiling_closed) = (ceiling, ceiling);
    let p50 = report.whole.corrected.quantile_us(0.5).expect("a median");
    calibrated.floors.iter_mut().for_each(|floor| floor.p50 = floor_of_p50 * p50);
    hold_against(report, calibrated);
}

fn nothing_sent(report: &mut Report) {
    let counts = &mut report.whole.counts;
    (counts.sent, counts.sent_in_window, counts.intended) = (0, 0, 0);
    report.whole.rate.intended = 2_000.0;
}

/// Makes a shard observe this much more or less than the window, both in seconds.
fn observed(report: &mut Report, more_s: f64, window_s: f64) {
    report.config.schedule_until = window_s;
    report.generator.shards[0].observed_s = window_s + more_s;
}

/// Counts this many of 1,000 answers.
fn of_answers(report: &mut Report, counted: fn(&mut Counts) -> (&mut u64, u64)) {
    report.whole.counts.answered = 1_000;
    let (count, number) = counted(&mut report.whole.counts);
    *count = number;
}

fn blocked(report: &mut Report, blocked: u64, users: u64) {
    // The arrivals of an open load have no users.
    let plan = &mut report.config.plan;
    (plan.model, plan.rate, plan.period) = (Some(Model::Closed), None, Some(Nanos(1_000_000)));
    (report.whole.counts.users_blocked, report.whole.counts.users) = (blocked, users);
}

/// A run in which this share of responses has the program's stamp, and the others were handled this
/// late, µs. Naive latency is 100 µs.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count")]
fn by_the_program(report: &mut Report, share: f64, late_us: f64) {
    let part = &mut report.whole;
    part.stamps.program = (share * part.counts.answered as f64) as u64;
    state(&mut part.naive, 0.5, Some(100.0));
    state(&mut part.receive_lateness, 0.5, Some(late_us));
    state(&mut part.receive_lateness, 0.99, None);
}

/// A run whose generator added this much, µs, to the requests at a percentile: corrected latency is
/// 100 µs at p50, 400 µs at p90, 500 µs at p99 and 900 µs at p99.9.
fn added(report: &mut Report, label: &str, us: f64) {
    let part = |corrected: f64| ClientPart {
        corrected,
        added: 0.0,
        opening: 0.0,
        when_handled: corrected,
    };
    report.whole.client_share = Some(ClientShare {
        unit: Microseconds::Us,
        added_mean: us,
        p50: part(100.0),
        p90: Some(part(400.0)),
        p99: Some(part(500.0)),
        p999: Some(part(900.0)),
    });
    share_at(report, label).added = us;
    // Naive latencies without the added time.
    for q in [0.5, 0.9, 0.99, 0.999] {
        state(&mut report.whole.naive, q, Some(0.1));
    }
}

/// The generator's part at a percentile.
fn share_at<'a>(report: &'a mut Report, label: &str) -> &'a mut ClientPart {
    let share = report.whole.client_share.as_mut().expect("an open model");
    let above = match label {
        "p50" => return &mut share.p50,
        "p90" => &mut share.p90,
        "p99" => &mut share.p99,
        _ => &mut share.p999,
    };
    above.as_mut().expect("enough requests")
}

/// Responses above 64 KiB, which arrive as fast as they are read.
fn long_responses(report: &mut Report) {
    let answered = report.whole.counts.answered_ever();
    report.generator.shards[0].received_bytes = 65_537 * answered;
}

/// A thousand responses; this many were followed by further bytes.
fn trailing(report: &mut Report, responses: u64) {
    let counts = &mut report.whole.counts;
    (counts.answered, counts.trailing) = (1_000, responses);
}

fn stopped(report: &mut Report, share: f64) {
    let shard = &mut report.generator.shards[0];
    shard.stopped_s = share * shard.observed_s;
}

/// A closed loop whose users waited for the generator this share of their time, while its core was
/// busy for the share `busy`.
fn users_waited(report: &mut Report, share: f64, busy: f64) {
    report.littles_law.generator_share = Some(share);
    report.generator.shards[0].busy = busy;
}

#[test]
fn a_generator_that_limits_a_closed_loop_limits_only_its_throughput() {
    let judged = |share: f64, busy: f64, stamps_by_program: f64| {
        let mut report = clean();
        users_waited(&mut report, share, busy);
        by_the_program(&mut report, stamps_by_program, 0.0);
        let mut reasons = judge(&report).reasons;
        reasons.retain(|reason| reason.code != Code::ClientShare);
        assert_eq!(reasons.len(), 1, "reported once: {reasons:?}");
        reasons.remove(0)
    };
    let bound = judged(0.6, 0.7, 0.0);
    assert_eq!(bound.touches, [Topic::Throughput]);
    assert!(bound.meaning.contains("was the bottleneck"), "{bound:?}");
    assert!(bound.meaning.contains("up to 2.5 times as much"), "{bound:?}");
    assert!(bound.meaning.contains("latencies end when responses arrive"), "{bound:?}");
    let held_up = judged(0.2, 0.7, 1.0);
    assert!(!held_up.meaning.contains("bottleneck"), "{held_up:?}");
    assert!(!held_up.meaning.contains("latencies"), "{held_up:?}");
    let saturated = judged(0.6, 0.99, 0.0);
    assert_eq!(
        (saturated.code, &saturated.touches[..]),
        (Code::CoreSaturated, &[Topic::Throughput][..])
    );
    assert!(saturated.evidence.contains("users waited for it 60.00 %"), "{saturated:?}");
    // With the program's stamps, latencies contain the wait.
    let saturated = judged(0.6, 0.99, 1.0);
    assert_eq!(saturated.touches, [Topic::Throughput, Topic::Latency]);
}

/// A last quarter whose distribution is this far from the first's.
fn shifted(distance: f64) -> Stationarity {
    let distance_max = 0.1;
    Stationarity {
        stage: None,
        distance,
        distance_max,
        distance_recurring: None,
        p99_first_ns: 500_000,
        p99_last_ns: 500_000,
        p99_ratio: 1.0,
        stationary: distance <= distance_max,
    }
}

/// Core 1 is a sibling of the shard's core and was busy for this share of the time.
fn sibling_busy(report: &mut Report, share: f64) {
    report.environment.cores[0].siblings = Some(vec![0, 1]);
    let time = |core, busy| CoreTime { core, busy, interrupts: 0.0, soft_interrupts: 0.0 };
    machine(report).cores = vec![time(0, 1.0), time(1, share)];
}

/// The only generator's machine.
fn machine(report: &mut Report) -> &mut Machine {
    report.generator.machine.as_mut().expect("one machine")
}

/// The shard's core serves the interrupts of eth0, which took this share of its time.
fn interrupted_core(report: &mut Report, share: f64) {
    let network = &mut report.environment.network;
    (network.interface, network.interrupt_cores) = (Some("eth0".to_owned()), Some(vec![0, 5]));
    machine(report).cores =
        vec![CoreTime { core: 0, busy: 1.0, interrupts: share, soft_interrupts: share }];
}

fn waited_for_its_core(report: &mut Report, share: f64) {
    let shard = &mut report.generator.shards[0];
    shard.run_queue_delay_s = share * shard.observed_s;
}

#[test]
fn an_interruption_and_a_broken_schedule_are_reported() {
    let mut report = clean();
    report.interrupted = true;
    report.arrivals.as_mut().expect("an open model").failed =
        vec!["sent/intended is 0.5".to_owned()];
    report.arrivals.as_mut().expect("an open model").as_planned = false;
    let codes: Vec<Code> = judge(&report).reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(codes, [Code::ScheduleNotAsPlanned, Code::Interrupted]);
}

#[test]
fn a_core_that_could_not_offer_the_rate_is_saturated_even_if_it_waited_at_times() {
    let codes = |busy: f64, sent_share: f64| -> Vec<Code> {
        let mut report = clean();
        report.generator.shards[0].busy = busy;
        let counts = &mut report.whole.counts;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a count is a count"
        )]
        let sent = (counts.intended as f64 * sent_share) as u64;
        counts.sent_in_window = sent;
        judge(&report).found().map(|found| found.code).collect()
    };
    let both = vec![Code::RateMissed, Code::CoreSaturated];
    assert_eq!(codes(0.8, 0.5), both, "the rate needs 160 % of the core");
    assert_eq!(codes(0.8, 0.9), [Code::RateMissed], "the rate needs 89 %");
    assert_eq!(codes(0.3, 0.1), [Code::RateMissed], "an idle generator waits for its target");
    assert_eq!(codes(0.8, 1.0), []);
}

#[test]
fn if_the_warm_up_takes_the_whole_run_the_full_core_may_be_why() {
    let mut report = clean();
    nothing_sent(&mut report);
    report.generator.shards[0].busy = 0.92;
    let counts = &mut report.whole.counts;
    (counts.intended, counts.warmup.sent, counts.warmup.answered) = (1_000, 500, 500);
    let found = judge(&report);
    let codes: Vec<Code> = found.found().map(|found| found.code).collect();
    assert_eq!(codes, [Code::NothingSent, Code::CoreSaturated]);
    let reason = &found.reasons[0];
    assert!(reason.evidence.contains("the warm-up took all of the run"), "{reason:?}");
    assert_eq!(reason.code.rule().more.follows, Follows::Notes, "the other explains it");
}

#[test]
fn arrivals_that_waited_for_a_connection_are_not_held_against_the_core() {
    let judged = |capped_share: f64, unconnected_share: f64| -> Vec<(Code, String)> {
        let mut report = clean();
        report.generator.shards[0].busy = 0.61;
        let counts = &mut report.whole.counts;
        let half = counts.intended / 2;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a count is a count"
        )]
        let of_half = |share: f64| (half as f64 * share).ceil() as u64;
        counts.sent_in_window = counts.intended - half;
        (counts.capped, counts.unconnected) = (of_half(capped_share), of_half(unconnected_share));
        judge(&report).found().map(|found| (found.code, found.evidence.clone())).collect()
    };
    let codes = |found: &[(Code, String)]| found.iter().map(|one| one.0).collect::<Vec<Code>>();
    let own = judged(0.0, 0.0);
    assert_eq!(codes(&own), [Code::RateMissed, Code::CoreSaturated]);
    assert!(own[1].1.contains("the planned rate needs 12"), "{own:?}");
    // The target takes half of the offered load, and all connections are busy with that.
    assert_eq!(codes(&judged(1.0, 0.0)), [Code::RateMissed, Code::CapReached]);
    assert_eq!(codes(&judged(0.0, 1.0)), [], "errors have a bound of their own");
    // The rest of the shortfall needs 1.9 times the core's 61 %.
    let most = judged(0.1, 0.0);
    assert_eq!(codes(&most), [Code::RateMissed, Code::CapReached, Code::CoreSaturated]);
    assert!(most[2].1.contains("didn't wait for a connection needs 11"), "{most:?}");
}

#[test]
fn a_generator_that_keeps_its_connections_busy_is_the_limit_and_not_their_number() {
    // The state that a rate far above the core's capacity leaves: responses lie in the kernel.
    let mut report = clean();
    report.generator.shards[0].busy = 0.92;
    report.littles_law = LittlesLaw::new(1_000.0, 1_000.0, 10.0);
    let counts = &mut report.whole.counts;
    counts.sent_in_window = counts.intended / 8;
    counts.capped = counts.intended - counts.sent_in_window;
    let Verdict { level, reasons, notes } = judge(&report);
    assert_eq!(level, Level::Invalid);
    let [missed, held] = &reasons[..] else { panic!("two effects: {reasons:?}") };
    assert_eq!((missed.code, held.code), (Code::RateMissed, Code::ClientShare));
    assert!(held.evidence.contains("and for 99.00 % of the time that requests"), "{held:?}");
    let codes: Vec<Code> = notes.iter().map(|note| note.code).collect();
    assert_eq!(codes, [Code::CoreSaturated]);
    assert!(
        notes[0].evidence.contains("and what was planned and didn't wait for a connection needs")
    );
    for cure in [&missed.cure, &held.cure, &notes[0].cure] {
        assert!(!cure.contains("--conns") && cure.contains("cores"), "{cure}");
    }
}

#[test]
fn a_shared_core_is_named_with_its_competitor() {
    let evidence = |change: Change| -> String {
        let mut report = clean();
        change(&mut report);
        let notes = judge(&report).notes;
        let [note] = &notes[..] else { panic!("one note: {notes:?}") };
        assert_eq!(note.code, Code::CoreShared);
        note.evidence.clone()
    };
    let message = evidence(|report| sibling_busy(report, 0.5));
    assert!(
        message.contains("core 0 shares its physical core with core 1, which was busy 50.00 %"),
        "{message}"
    );
    let message = evidence(|report| {
        sibling_busy(report, 0.5);
        let other = Core { core: 1, ..report.environment.cores[0].clone() };
        report.environment.cores.push(other);
    });
    assert!(message.contains("which runs a shard too"), "{message}");
    let message = evidence(|report| {
        sibling_busy(report, 0.5);
        let times = std::mem::take(&mut machine(report).cores);
        interrupted_core(report, 0.4);
        machine(report).cores.push(times[1].clone());
    });
    assert!(
        message.contains("; also: core 0 runs a shard and serves interrupts of eth0"),
        "{message}"
    );
}

#[test]
fn a_wait_that_the_quota_explains_is_not_blamed_on_others() {
    let judged = |throttled_s: Option<f64>| {
        let mut report = clean();
        for shard in &mut report.generator.shards {
            (shard.observed_s, shard.run_queue_delay_s) = (0.5, 0.35);
        }
        machine(&mut report).throttled_s = throttled_s;
        judge(&report).notes
    };
    let codes = |throttled_s: Option<f64>| -> Vec<Code> {
        judged(throttled_s).iter().map(|reason| reason.code).collect()
    };
    assert_eq!(codes(Some(0.0)), [Code::CpuContended]);
    assert_eq!(codes(Some(0.35)), [Code::CpuThrottled]);
    assert_eq!(codes(Some(1.4)), [Code::CpuThrottled], "the sum of four cores");
    assert_eq!(codes(Some(0.2)), [Code::CpuContended, Code::CpuThrottled], "the rest is others'");
    let unknown = judged(None);
    assert_eq!(unknown[0].code, Code::CpuContended);
    assert!(unknown[0].evidence.contains("by a quota, which is not known"), "{unknown:?}");
}

#[test]
fn waking_an_idle_core_takes_time_that_no_other_process_had() {
    let with = |others: f64, interrupts: f64, named_s: f64, throttled_s: Option<f64>| -> Verdict {
        let mut report = clean();
        waited_for_its_core(&mut report, 0.035);
        added(&mut report, "p99", 100.0);
        let shard = &report.generator.shards[0];
        let own = (shard.cpu_user_s + shard.cpu_system_s) / shard.observed_s;
        let (core, busy, cpu_s) = (shard.core, own + others + interrupts, named_s);
        machine(&mut report).cores =
            vec![CoreTime { core, busy, interrupts, soft_interrupts: interrupts }];
        machine(&mut report).contenders =
            vec![Contender { name: "cc1plus".to_owned(), pid: 123, cpu_s, core }];
        machine(&mut report).throttled_s = throttled_s;
        judge(&report)
    };
    let judged = |others: f64, interrupts: f64, named_s: f64| -> Vec<(Code, f64)> {
        let [known, unknown] =
            [Some(0.0), None].map(|quota| with(others, interrupts, named_s, quota).notes);
        let of = |notes: &[Reason]| -> Vec<(Code, f64)> {
            notes.iter().map(|note| (note.code, (note.figure * 1e3).round())).collect()
        };
        assert_eq!(of(&known), of(&unknown), "what others used is known without the quota");
        of(&known)
    };
    assert_eq!(judged(0.005, 0.0, 0.0), []);
    assert_eq!(judged(0.005, 0.15, 0.0), []);
    assert_eq!(judged(0.02, 0.0, 0.0), [(Code::CpuContended, 20.0)]);
    assert_eq!(judged(0.5, 0.0, 0.0), [(Code::CpuContended, 35.0)]);
    assert_eq!(judged(0.0, 0.0, 0.5), [(Code::CpuContended, 35.0)], "a process that was named");
    for (others, waited) in [(0.0, None), (0.02, Some("2.00 %")), (0.5, Some("3.50 %"))] {
        let evidence = &with(others, 0.0, 0.0, Some(0.0)).reasons[0].evidence;
        let told = evidence.split("; a shard waited for its core ").nth(1);
        let told = told.and_then(|rest| rest.strip_suffix(" of the time"));
        assert_eq!(told, waited, "{evidence}");
    }
}

#[test]
fn a_few_slow_connects_do_not_excuse_missing_sends() {
    // 1,000 connects of 10 ms on average in half a second: 20 are in progress at any time.
    let mut report = clean();
    report.whole.counts.connects_in_window = 1_000;
    let connect = &mut report.whole.connect_time;
    (connect.count, connect.mean, connect.max) = (1_000, Some(10_000.0), Some(1e6));
    state(connect, 0.99, Some(1e6));
    let edge = report.at_the_edge();
    assert!((edge - (20.0 + 4.0 * 20_f64.sqrt())).abs() < 1e-9, "{edge}");
    report.whole.counts.sent_in_window -= 100;
    let codes: Vec<Code> = judge(&report).reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(codes, [Code::RateMissed]);
}

#[test]
fn other_processes_are_not_the_hypervisor() {
    let mut report = clean();
    waited_for_its_core(&mut report, 0.43);
    machine(&mut report).contenders =
        vec![Contender { name: "cc1plus".to_owned(), pid: 123, cpu_s: 0.2, core: 0 }];
    let [note] = &judge(&report).notes[..] else { panic!("one note") };
    assert_eq!((note.code, note.level), (Code::CpuContended, Level::Invalid));
    assert!(note.evidence.contains("by cc1plus (process 123, 0.20 s"), "{note:?}");
    assert!(!note.evidence.contains("hypervisor"), "{note:?}");
    machine(&mut report).steal = Some(0.011);
    let codes: Vec<Code> = judge(&report).found().map(|found| found.code).collect();
    assert_eq!(codes, [Code::CpuStolen, Code::CpuContended], "each with its own evidence");
}

#[test]
fn a_resource_that_ran_out_is_named_with_its_own_cure() {
    let judged = |failed: &[Cause], overflows: u64| {
        let mut report = clean();
        for cause in failed {
            report.whole.counts.connection_errors.add(*cause);
        }
        let (range, sources, headroom) = (100, 1, 90);
        machine(&mut report).ports = Some(Ports { range, sources, headroom, ..Ports::default() });
        report.generator.shards[0].cq_overflows = overflows;
        let [reason] = &judge(&report).reasons[..] else { panic!("one reason") };
        assert_eq!(reason.code, Code::LocalResource);
        (reason.evidence.clone(), reason.cure.clone())
    };
    let (port, file, memory) = (Cause::NoLocalPort, Cause::NoFile, Cause::LocalResource);
    let all = [
        ("local port", "--source-addresses"),
        ("file descriptor", "ulimit -n"),
        ("or memory", "free memory"),
        ("queue overflowed", "lower --conns"),
    ];
    for (failed, overflows, message) in [
        (&[port][..], 0, &[0][..]),
        (&[file], 0, &[1]),
        (&[memory], 0, &[2]),
        (&[], 1, &[3]),
        (&[memory, file, port], 1, &[0, 1, 2, 3]),
    ] {
        let (evidence, cure) = judged(failed, overflows);
        for (at, (what, with)) in all.iter().enumerate() {
            assert_eq!(evidence.contains(what), message.contains(&at), "{what}: {evidence}");
            assert_eq!(cure.contains(with), message.contains(&at), "{with}: {cure}");
        }
    }
}

#[test]
fn samples_of_uncounted_requests_are_not_blamed_on_the_disk() {
    let judged = |estimated: Option<u64>| {
        let mut report = clean();
        report.config.schedule_estimated = estimated;
        report.samples = Some(Samples { file: None, written: 0, lost: 50, error: None });
        let [reason] = &judge(&report).reasons[..] else { panic!("one reason") };
        assert_eq!(reason.code, Code::RawSamplesLost);
        (reason.evidence.clone(), reason.cure.clone())
    };
    let (evidence, cure) = judged(None);
    assert!(evidence.contains("the disk could not keep up") && cure.contains("faster disk"));
    let (evidence, cure) = judged(Some(50));
    assert!(evidence.contains("counted by the rate") && !evidence.contains("disk"), "{evidence}");
    assert!(cure.contains("--rate") && !cure.contains("disk"), "{cure}");
    let (evidence, cure) = judged(Some(40));
    assert!(evidence.contains("10 more because the disk could not keep up"), "{evidence}");
    assert!(cure.contains("faster disk"), "{cure}");
}

#[test]
fn the_plan_may_move_a_bound() {
    let mut report = clean();
    report.whole.counts.unexpected_status = report.whole.counts.intended / 2;
    assert_eq!(judge(&report).level, Level::Suspect);
    report.config.plan.thresholds.errors = 0.6;
    assert_eq!(judge(&report).level, Level::Valid);
}

#[test]
fn the_worst_reason_comes_first_and_sets_the_level() {
    let mut report = clean();
    report.whole.counts.unexpected_status = report.whole.counts.intended;
    machine(&mut report).steal = Some(0.011);
    report.whole.counts.sent_in_window = 0;
    let verdict = judge(&report);
    let codes: Vec<Code> = verdict.reasons.iter().map(|reason| reason.code).collect();
    let sorted = vec![Code::RateMissed, Code::Errors, Code::CpuStolen];
    assert_eq!((verdict.level, codes), (Level::Invalid, sorted));
}

/// The report of a made-up closed loop: all responses but one of a second took 1 ms.
fn closed(period: Option<Nanos>) -> Report {
    let plan = Plan {
        target: "http://127.0.0.1:1/".to_owned(),
        duration: Nanos::from_secs(2),
        warmup: Nanos(0),
        conns: Some(1),
        cores: Some(CoreList::new(vec![0])),
        period,
        ..Plan::default()
    };
    let plan = plan.complete(&[0]).expect("a plan that runs");
    // As many as end within the window: a thousand.
    let took_ns = |number| if number == 500 { 1_000_000_000 } else { 1_000_000 };
    let recorded = made_up::one_after_another(&plan, 1_999_000_000, took_ns);
    made_up::report(&plan, vec![recorded], None)
}

#[test]
fn with_a_number_of_requests_a_shard_may_finish_before_the_others() {
    for (requests, more_s, late) in
        [(None, -1.0, true), (Some(1_000), -1.0, false), (Some(1_000), 1.0, true)]
    {
        let mut report = closed(None);
        report.config.plan.requests = requests;
        observed(&mut report, more_s, 10.0);
        let message =
            judge(&report).reasons.iter().any(|reason| reason.code == Code::GeneratorLate);
        assert_eq!(message, late, "{requests:?} {more_s}");
    }
}

#[test]
fn a_closed_loop_is_suspect_for_the_latencies_that_it_leaves_out() {
    let verdict = judge(&closed(None));
    let [reason] = &verdict.reasons[..] else { panic!("one reason: {verdict:?}") };
    assert_eq!((reason.code, reason.level), (Code::ClosedLoop, Level::Suspect));
    assert_eq!(reason.touches, [Topic::Latency], "throughput is right");
    // A user every millisecond would have come 999 more times during the second.
    assert!((990.0..1_001.0).contains(&reason.figure), "{reason:?}");
    let (_, more) = reason.evidence.rsplit_once(" would have sent about ").expect("there are some");
    assert_eq!(more, "998 more requests (100 % of those sent)");
    assert!(reason.meaning.contains("would have met a slow target"), "{reason:?}");
    let mut stopped = closed(None);
    waited_for_its_core(&mut stopped, 0.5);
    let verdict = judge(&stopped);
    let reason = verdict.reasons.iter().find(|reason| reason.code == Code::ClosedLoop);
    let meaning = &reason.expect("it is a closed loop").meaning;
    let message =
        "slow responses, which may be the generator's or its machine's doing (cpu_contended)";
    assert!(meaning.contains(message) && !meaning.contains("slow target"), "{meaning}");
    assert_eq!(verdict.reasons.len(), 1, "{verdict:?}");
    let mut even = closed(None);
    even.whole.naive = even.whole.pacer_lateness.clone();
    let verdict = judge(&even);
    let [reason] = &verdict.reasons[..] else { panic!("one reason: {verdict:?}") };
    assert!(!reason.evidence.contains("more requests"), "there are none: {reason:?}");
    assert!(reason.meaning.starts_with("had the target stalled"), "{reason:?}");
    let paced = judge(&closed(Some(Nanos(1_000_000))));
    assert_eq!(paced.reasons, [], "users with a pace do wait");
}

#[test]
fn a_closed_loop_near_the_ceiling_may_owe_it_its_throughput() {
    let near = |period| {
        let mut report = closed(period);
        calibrated(&mut report, 0.9, 0.1);
        report.generator.shards[0].busy = 0.9;
        let notes = judge(&report).notes;
        let near = notes.into_iter().find(|note| note.code == Code::NearCeiling);
        near.expect("it is near").touches
    };
    assert_eq!(near(None), [Topic::Throughput, Topic::Latency]);
    assert_eq!(near(Some(Nanos(1_000_000))), [Topic::Latency]);
}

#[test]
fn more_than_the_ceiling_asks_for_another_calibration() {
    for (rate_of_ceiling, cure) in [(1.04, "add --cores"), (1.06, "calibrate again: `")] {
        let mut report = clean();
        report.generator.shards[0].busy = 0.9;
        calibrated(&mut report, rate_of_ceiling, 0.1);
        let notes = judge(&report).notes;
        let near = notes.into_iter().find(|note| note.code == Code::NearCeiling);
        let near = near.expect("it is near");
        assert!(near.cure.starts_with(cure), "{rate_of_ceiling}: {near:?}");
    }
}

#[test]
fn a_median_below_the_floor_asks_for_another_calibration() {
    for (floor_of_p50, cure) in [(0.9, "take what exceeds"), (1.2, "take"), (1.3, "calibrate")] {
        let mut report = clean();
        calibrated(&mut report, 0.1, floor_of_p50);
        let reason = &report.verdict.reasons[0];
        assert!(reason.cure.starts_with(cure), "{floor_of_p50}: {reason:?}");
    }
}

#[test]
fn a_floor_at_another_rate_is_stated_with_that_rate() {
    let evidence = |sent: f64| {
        let mut report = clean();
        report.whole.rate.sent = sent;
        calibrated(&mut report, 0.1, 0.9);
        report.verdict.reasons[0].evidence.clone()
    };
    let message =
        " has 90.0 µs here at 1000/s, the nearest rate that was calibrated, 90.00 % of it";
    assert!(evidence(999.0).contains(message), "{}", evidence(999.0));
    assert!(evidence(2_000.0).contains(" has 90.0 µs here at that rate, "), "{}", evidence(2e3));
    let message = " here at 50000/s, the nearest rate";
    assert!(evidence(60_000.0).contains(message), "{}", evidence(60_000.0));
}

#[test]
fn users_who_fall_behind_their_pace_are_suspect_and_requests_never_sent_invalid() {
    let missed = |period: Option<Nanos>, change: Change| {
        let mut report = closed(period);
        change(&mut report);
        let mut reasons = judge(&report).reasons;
        reasons.retain(|reason| reason.code == Code::RateMissed);
        reasons.pop()
    };
    let paced = Some(Nanos(1_000_000));
    // 1,000 requests were intended, so that 20 may be left over at the end.
    assert_eq!(missed(paced, |report| report.whole.counts.sent_in_window -= 20), None);
    fn behind(report: &mut Report) {
        report.whole.counts.sent_in_window -= 21;
    }
    let reason = missed(paced, behind).expect("they fell behind");
    assert_eq!(reason.level, Level::Suspect);
    assert_eq!(reason.touches, [Topic::Latency, Topic::Arrivals], "answers per second are true");
    let want = "21 of 1,000 intended requests (2.10 %) were not sent before the window's end; the \
                limit is 2.00 %";
    assert_eq!(reason.evidence, want);
    assert!(reason.meaning.contains("fell behind their pace"), "{reason:?}");
    assert!(reason.meaning.contains("depends on --duration"), "{reason:?}");

    assert_eq!(missed(None, behind), None, "users without a pace can't fall behind");
    let unconnected: Change = |report| {
        behind(report);
        report.whole.counts.unconnected = 21;
    };
    assert_eq!(missed(paced, unconnected), None, "these are errors");
    let never_sent: Change = |report| {
        behind(report);
        report.whole.counts.unsent = 2;
    };
    let reason = missed(paced, never_sent).expect("these were never sent");
    assert_eq!(reason.level, Level::Invalid);
    assert!(reason.evidence.starts_with("2 of 1,000 intended"), "{reason:?}");
    assert!(reason.evidence.contains("; also: 21 of 1,000 intended"), "{reason:?}");
    assert!(!reason.cure.contains("--rate"), "a paced loop has none: {reason:?}");
}

#[test]
fn a_target_slower_than_the_pace_is_noticed() {
    let address = serve(|number, stream| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        always_ok(number, stream)
    });
    let paced = Plan { conns: Some(2), period: Some(Nanos(2_000_000)), ..plan(address) };
    let report = run(paced).report;
    assert_eq!(report.whole.counts.unsent, 0, "{:?}", report.whole.counts);
    let mut found = report.verdict.reasons.iter();
    let missed = found.find(|reason| reason.code == Code::RateMissed);
    let missed = missed.unwrap_or_else(|| panic!("{:?}", report.verdict));
    assert_eq!(missed.level, Level::Suspect);
    assert!(0.5 < missed.figure, "{missed:?}");
}

#[test]
fn a_smoke_test_of_ten_requests_is_suspect_and_not_invalid() {
    let mut report = clean();
    let counts = &mut report.whole.counts;
    (counts.intended, counts.sent, counts.sent_in_window, counts.answered) = (10, 10, 10, 10);
    report.whole.corrected.count = 10;
    let reasons = judge(&report).reasons;
    let [reason] = &reasons[..] else { panic!("one reason: {reasons:?}") };
    assert_eq!((reason.code, reason.level), (Code::TooFewSamples, Level::Suspect));
}

#[test]
fn an_interrupted_setup_blames_neither_side() {
    let judged = |until_s: f64, intended: u64| {
        let mut report = clean();
        nothing_sent(&mut report);
        report.interrupted = true;
        (report.config.schedule_until, report.generator.shards[0].observed_s) = (until_s, until_s);
        let counts = &mut report.whole.counts;
        (counts.setup.settled, counts.intended) = (Some(false), intended);
        judge(&report)
    };
    let is_named = |verdict: &Verdict| verdict.notes.iter().any(|it| it.code == Code::NotSettled);
    assert!(is_named(&judged(0.1, 1)), "the setup had ended by itself");
    for (until_s, evidence) in [(0.0, "before its window began"), (0.001, "no request was due")] {
        let verdict = judged(until_s, 0);
        assert!(!is_named(&verdict), "{verdict:?}");
        let reasons = verdict.reasons;
        let codes: Vec<Code> = reasons.iter().map(|reason| reason.code).collect();
        assert_eq!(codes, [Code::NothingSent, Code::Interrupted]);
        assert!(reasons[0].evidence.contains(evidence), "{reasons:?}");
        assert_eq!(reasons[0].cure, "let the run finish");
    }
}

#[test]
fn too_few_samples_are_cured_by_what_the_plan_can_change() {
    let cure = |mut report: Report, interrupted: bool| {
        (report.interrupted, report.whole.corrected.count) = (interrupted, 10);
        let mut reasons = judge(&report).reasons.into_iter();
        let few = reasons.find(|reason| reason.code == Code::TooFewSamples);
        few.expect("ten are too few").cure
    };
    assert_eq!(cure(clean(), false), "use a longer --duration or a higher --rate");
    assert_eq!(cure(clean(), true), "let the run finish");
    assert_eq!(cure(closed(None), false), "use a longer --duration or more --conns");
    let of = |change: &dyn Fn(&mut Report)| {
        let mut report = clean();
        change(&mut report);
        cure(report, false)
    };
    let intended = clean().whole.counts.intended;
    let counted = |requests: u64| {
        move |report: &mut Report| {
            report.config.plan.requests = Some(requests);
        }
    };
    assert_eq!(of(&counted(intended)), "give more --requests");
    let ends_first = of(&counted(intended + 1));
    assert_eq!(ends_first, "use a longer --duration or a higher --rate");
    let staged = |report: &mut Report| {
        report.config.plan.rate = None;
        report.config.plan.stage = vec!["500:1s".parse().expect("a stage")];
    };
    assert_eq!(of(&staged), "use longer stages, or higher rates");
    let replayed = |requests: u64| {
        move |report: &mut Report| {
            let plan = &mut report.config.plan;
            (plan.rate, plan.replay) = (None, Some("access.log".into()));
            plan.requests = Some(intended);
            report.replay = Some(ReplayedLog {
                format: String::new(),
                requests,
                unreadable: 0,
                problems: Vec::new(),
                spread: false,
                routes: 1,
                hosts: 1,
                sha256: String::new(),
            });
        }
    };
    assert_eq!(of(&replayed(intended)), "use a longer log");
    let part = "use a longer --duration, to send more of the log";
    assert_eq!(of(&replayed(intended + 1)), part);
}

#[test]
fn the_generator_adds_at_most_the_difference_of_corrected_and_naive() {
    // Sends that keep their order, however long the previous requests took.
    let plan = Plan { arrivals: Arrivals::Constant, ..clean().config.plan };
    // Requests of one bucket, whose mean is above their median.
    let answered = |due_ns: u64| {
        let received_ns = due_ns + if due_ns / 500_000 % 5 < 3 { 98_400 } else { 102_300 };
        let sent_ns = received_ns - 100;
        let stamps = Stamps {
            intended_ns: due_ns,
            noticed_ns: sent_ns,
            sent_ns,
            waited: false,
            step: 0,
            session: None,
        };
        (stamps, Ending::at(received_ns), Outcome::Answered(200))
    };
    let recorded = made_up::record(&plan, (0, 1), answered, |_, _, _| {});
    let report = made_up::report(&plan, vec![recorded], None);
    let p50 = report.whole.client_share.expect("an open plan").p50;
    let naive_us = report.whole.naive.quantile_us(0.5).expect("a median");
    assert!(p50.corrected < 99.0 && 0.0 < naive_us, "{p50:?}");
    assert_eq!(p50.whole(), p50.corrected - naive_us);
}

#[test]
fn a_cap_is_not_the_only_reason_if_responses_waited_for_the_generator() {
    let meaning = |at_target: f64| {
        let mut report = clean();
        report.littles_law = LittlesLaw::new(0.616, 0.616, at_target);
        report.whole.counts.capped = 1_000;
        let reasons = judge(&report).reasons;
        let [reason] = &reasons[..] else { panic!("one reason: {reasons:?}") };
        assert!(reason.evidence.starts_with("1,000 arrivals ("), "{reason:?}");
        reason.meaning.clone()
    };
    let message = "depends on the cap and on the generator: for 42.69 % of the time";
    assert!(meaning(0.353).contains(message), "{}", meaning(0.353));
    assert!(meaning(0.59).ends_with("depends on the cap"), "{}", meaning(0.59));
}

#[test]
fn a_paced_user_who_waited_for_the_generator_is_reported() {
    let evidence = |period: Option<Nanos>, waited: u64, at_target: f64| {
        let mut report = closed(period);
        report.littles_law = LittlesLaw::new(0.616, 0.616, at_target);
        report.whole.counts.waited = waited;
        let reasons = judge(&report).reasons.into_iter();
        let mut own = reasons.filter(|reason| reason.code == Code::ClientShare);
        own.next().map(|reason| reason.evidence)
    };
    let period = Some(Nanos(5_000_000));
    let message = evidence(period, 100, 0.353).expect("a reason");
    assert!(message.starts_with("100 requests ("), "{message}");
    assert!(
        message.contains("and for 42.69 % of the time that requests were in flight"),
        "{message}"
    );
    assert_eq!(evidence(period, 0, 0.353), None, "no request waited");
    assert_eq!(evidence(period, 100, 0.59), None, "they waited for the target");
    assert_eq!(evidence(None, 100, 0.353), None, "an unpaced user is due when its request is sent");
}

#[test]
fn errors_without_an_answer_show_whether_a_latency_is_known() {
    let meaning = |latencies: u64| {
        let mut report = clean();
        let counts = &mut report.whole.counts;
        (counts.answered, counts.unexpected_status) = (0, counts.intended);
        report.whole.corrected.count = latencies;
        let reasons = judge(&report).reasons;
        let errors = reasons.into_iter().find(|reason| reason.code == Code::Errors);
        errors.expect("nothing was answered").meaning
    };
    assert_eq!(meaning(0), "nothing was answered, and no latency is known");
    assert!(meaning(10).ends_with("the only latencies are those of requests that were given up"));
}

#[test]
fn a_cap_below_the_need_is_named() {
    let address = serve(|number, stream| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        always_ok(number, stream)
    });
    let report = run(Plan { conns: Some(2), ..open(plan(address), "2k") }).report;
    let codes: Vec<Code> = report.verdict.reasons.iter().map(|reason| reason.code).collect();
    assert!(codes.contains(&Code::CapReached), "{:?}", report.verdict);
    assert!(report.verdict.level != Level::Valid);
}

#[test]
fn without_answers_the_number_of_connections_is_no_limit() {
    let codes = |answered: u64| {
        let mut report = clean();
        let counts = &mut report.whole.counts;
        (counts.answered, counts.timed_out) = (answered, counts.sent - answered);
        counts.capped = counts.intended;
        let reasons = judge(&report).reasons;
        reasons.into_iter().map(|reason| reason.code).collect::<Vec<Code>>()
    };
    assert!(codes(100).contains(&Code::CapReached));
    let silent = codes(0);
    assert!(silent.contains(&Code::Errors) && !silent.contains(&Code::CapReached), "{silent:?}");
}

#[test]
fn more_cores_do_not_cure_a_target_that_answers_nothing() {
    let cure = |change: Change| {
        let mut report = clean();
        report.whole.counts.sent_in_window -= 100;
        change(&mut report);
        let reasons = judge(&report).reasons;
        let missed = reasons.into_iter().find(|reason| reason.code == Code::RateMissed);
        missed.expect("requests were not sent").cure
    };
    assert!(cure(|_| ()).contains("--cores"));
    let none = cure(|report| {
        let counts = &mut report.whole.counts;
        (counts.answered, counts.warmup.answered, counts.setup.answered) = (0, 0, 0);
    });
    assert!(none.contains("the target") && !none.contains("--cores"), "{none}");
    assert!(
        cure(|report| {
            let counts = &mut report.whole.counts;
            (counts.answered, counts.warmup.answered) = (0, 1);
        })
        .contains("--cores")
    );
}
