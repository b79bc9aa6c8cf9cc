//! Rules about the load: whether it was sent as planned, at its rate and in its pattern.

use super::share::{percent, share, share_of};
use crate::plan::Model;
use crate::report::Report;
use crate::report::figures::count;
use crate::report::verdict::{Code, Level, Reason, Topic, Unit};

pub(super) fn rate_missed(report: &Report, reasons: &mut Vec<Reason>) {
    let rules = [not_sent, behind_their_pace, off_the_rate];
    reasons.extend(rules.into_iter().filter_map(|rule| rule(report)));
}

fn not_sent(report: &Report) -> Option<Reason> {
    let bounds = &report.config.plan.thresholds;
    let counts = &report.whole.counts;
    let (late, allowed, what, cure) = if report.config.plan.model() == Model::Open {
        (
            unsent_in_window(report),
            (bounds.unsent * counts.intended as f64).max(report.at_the_edge()),
            "were not sent before the window's end",
            "see the other reasons for what delayed the sends; lower --rate, raise --conns, or add \
             --cores",
        )
    } else {
        // A paced user who waits for a response is late by design; a request never sent is not.
        (
            counts.unsent,
            bounds.unsent * counts.intended as f64,
            "were never sent",
            "see the other reasons for what delayed the sends; use a longer --period, or add \
             --cores",
        )
    };
    let threshold = share_of(allowed, counts.intended);
    (allowed < late as f64).then(|| Reason {
        code: Code::RateMissed,
        agent: None,
        level: Level::Invalid,
        touches: vec![Topic::Throughput, Topic::Latency, Topic::Arrivals],
        evidence: unsent_evidence(late, what, report, threshold),
        figure: share(late, counts.intended),
        threshold,
        unit: Unit::Share,
        meaning: "the target saw less load than planned: these latencies belong to a lower rate"
            .to_owned(),
        cure: cure.to_owned(),
    })
}

/// A user who falls behind sends late what was due, and the longer the run, the later. A stall just
/// before the window's end leaves over little.
fn behind_their_pace(report: &Report) -> Option<Reason> {
    let plan = &report.config.plan;
    plan.period?;
    let (late, intended) = (unsent_in_window(report), report.whole.counts.intended);
    let allowed = (plan.thresholds.offered * intended as f64).max(report.at_the_edge());
    let threshold = share_of(allowed, intended);
    (allowed < late as f64).then(|| Reason {
        code: Code::RateMissed,
        agent: None,
        level: Level::Suspect,
        touches: vec![Topic::Latency, Topic::Arrivals],
        evidence: unsent_evidence(late, "were not sent before the window's end", report, threshold),
        figure: share(late, intended),
        threshold,
        unit: Unit::Share,
        meaning: "the users fell behind their pace: the target saw less load than planned, and \
                  corrected latency depends on --duration, since the backlog grows with it"
            .to_owned(),
        cure: "use a longer --period, and more --conns to keep the rate".to_owned(),
    })
}

/// Intended requests that weren't sent before the window's end. Those that failed to connect are
/// errors, and don't count against the pace.
fn unsent_in_window(report: &Report) -> u64 {
    let counts = &report.whole.counts;
    counts.intended.saturating_sub(counts.sent_in_window.saturating_add(counts.unconnected))
}

fn unsent_evidence(late: u64, what: &str, report: &Report, threshold: f64) -> String {
    let intended = report.whole.counts.intended;
    format!(
        "{} of {} intended requests ({}) {what}; the limit is {}",
        count(late),
        count(intended),
        percent(share(late, intended)),
        percent(threshold)
    )
}

fn off_the_rate(report: &Report) -> Option<Reason> {
    let target = report.config.plan.rate?.per_second() * report.offered();
    let intended = report.whole.counts.intended;
    let off = (report.whole.rate.intended / target - 1.0).abs();
    // A Poisson count of n varies by 1/√n; up to four times that is chance.
    let chance = 4.0 / (intended.max(1) as f64).sqrt();
    let threshold = report.config.plan.thresholds.offered.max(chance);
    (threshold < off && !report.interrupted).then(|| Reason {
        code: Code::RateMissed,
        agent: None,
        level: Level::Invalid,
        touches: vec![Topic::Throughput, Topic::Latency, Topic::Arrivals],
        evidence: format!(
            "{:.1}/s were intended, {target}/s were planned: off by {}; the limit is {}",
            report.whole.rate.intended,
            percent(off),
            percent(threshold)
        ),
        figure: off,
        threshold,
        unit: Unit::Share,
        meaning: "the schedule drew a different rate than the plan's".to_owned(),
        cure: "use a longer --duration".to_owned(),
    })
}

pub(super) fn nothing_sent(report: &Report, reasons: &mut Vec<Reason>) {
    let counts = &report.whole.counts;
    if counts.unconnected < counts.sent {
        return;
    }
    let intended = counts.intended;
    let (evidence, cure) = match report.config.plan.model() {
        _ if 0 < intended && counts.errors.total() == 0 && 0 < counts.warmup.sent => (
            format!(
                "of {} intended requests none was sent: the shard was still busy with those of the \
                 warm-up",
                count(intended)
            ),
            "lower --rate, or add --cores",
        ),
        _ if 0 < intended => (
            format!("of {} intended requests none was sent", count(intended)),
            "see the errors by cause and the other reasons for what kept them",
        ),
        _ if report.interrupted && report.config.window_s() == 0.0 => {
            ("the run was interrupted before its window began".to_owned(), "let the run finish")
        }
        Model::Open if report.interrupted => {
            ("no request was due before the interruption".to_owned(), "let the run finish")
        }
        Model::Open => (
            "no request was due in the window".to_owned(),
            "use a longer --duration or a higher --rate",
        ),
        Model::Closed => (
            "no request began in the window: every connection was still waiting for a response or \
             for the connection itself"
                .to_owned(),
            if report.interrupted {
                "see whether the target answers, and let the run finish"
            } else {
                "see whether the target answers, or use a longer --duration"
            },
        ),
    };
    reasons.push(Reason {
        code: Code::NothingSent,
        agent: None,
        level: Level::Invalid,
        touches: vec![Topic::Throughput, Topic::Latency, Topic::Arrivals],
        evidence,
        figure: 0.0,
        threshold: 1.0,
        unit: Unit::Count,
        meaning: "the run says nothing about the target".to_owned(),
        cure: cure.to_owned(),
    });
}

pub(super) fn cap_reached(report: &Report, reasons: &mut Vec<Reason>) {
    let bounds = &report.config.plan.thresholds;
    let counts = &report.whole.counts;
    let figure = share(counts.capped, counts.intended);
    if bounds.capped < figure {
        let conns = report.conns();
        let held = report.littles_law.held_by_generator().map_or_else(String::new, |held| {
            format!(
                " and on the generator: for {} of the time that requests were in flight, their \
                 response was there and waited for it",
                percent(held)
            )
        });
        reasons.push(Reason {
            code: Code::CapReached,
            agent: None,
            level: Level::Suspect,
            touches: vec![Topic::Latency, Topic::Arrivals],
            evidence: format!(
                "{} arrivals ({}) waited while all {} connections were busy; the limit is {}",
                count(counts.capped),
                percent(figure),
                count(conns as u64),
                percent(bounds.capped)
            ),
            figure,
            threshold: bounds.capped,
            unit: Unit::Share,
            meaning: format!(
                "naive latency omits that wait; corrected latency includes it, and it depends on \
                 the cap{held}"
            ),
            cure: "raise --conns, unless the cap is what you want to measure".to_owned(),
        });
    }
}

pub(super) fn schedule_not_as_planned(report: &Report, reasons: &mut Vec<Reason>) {
    let Some(proof) = &report.arrivals else { return };
    if proof.as_planned || proof.too_few() {
        return;
    }
    reasons.push(Reason {
        code: Code::ScheduleNotAsPlanned,
        agent: None,
        level: Level::Suspect,
        touches: vec![Topic::Latency, Topic::Arrivals],
        evidence: report.arrivals_line.clone().unwrap_or_default(),
        figure: proof.failed.len() as f64,
        threshold: 0.0,
        unit: Unit::Count,
        meaning: "the target saw a different arrival pattern than planned, with different bursts"
            .to_owned(),
        cure: "lower the rate per core, use --wait spin, or raise --conns if arrivals waited for \
               connections"
            .to_owned(),
    });
}
