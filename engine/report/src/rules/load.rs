//! Rules about the load: whether it was sent as planned, at its rate and in its pattern.

use load::curve::Curve;
use plan::{Arrivals, Model};
use record::counts::CountsBy;
use record::outcome::Cause;

use super::share::{HALF, percent, share, share_of};
use crate::Report;
use crate::figures::count;
use crate::verdict::{Code, Level, Reason, Topic, Unit};

/// How far the offered rate may be off the plan's, as a share, unless chance explains more, and
/// which share of a paced loop's requests may be sent after the window's end: a load as near as that
/// to the planned one has its latencies, unless the target is at its limit.
const OFFERED_OFF_MAX: f64 = 0.02;
/// Share of the arrivals that may wait at the cap: if more do, the cap is in p99.9.
pub(super) const CAPPED_MAX: f64 = 0.001;

/// The cure where the target has answered nothing, from setup to drain.
const NO_ANSWER: &str = "see why the target doesn't answer, with a single request first";

pub(super) fn rate_missed(report: &Report, reasons: &mut Vec<Reason>) {
    if is_nothing_sent(report) {
        // That reason says why.
        return;
    }
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
            if counts.capped == 0 || held_by_generator(report) {
                "see the causes for what delayed the sends; lower --rate, or add --cores"
            } else {
                "see the other reasons for what delayed the sends; lower --rate, raise --conns, or \
                 add --cores"
            },
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
    // Connections that never bring an answer delay the sends, and more cores wouldn't help.
    let cure = if counts.answered_ever() == 0 { NO_ANSWER } else { cure };
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
    let allowed = (OFFERED_OFF_MAX * intended as f64).max(report.at_the_edge());
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
    let target = Curve::window_mean(&report.config.plan)? * report.offered();
    let intended = report.whole.counts.intended;
    let off = (report.whole.rate.intended / target - 1.0).abs();
    // A Poisson count of n varies by 1/√n; up to four times that is chance. Of constant arrivals one
    // more or less may fall into the window.
    let few = intended.max(1) as f64;
    let chance = match report.config.plan.arrivals {
        Arrivals::Poisson => 4.0 / few.sqrt(),
        Arrivals::Constant => 1.0 / few,
    };
    let threshold = OFFERED_OFF_MAX.max(chance);
    (threshold < off && !report.interrupted).then(|| Reason {
        code: Code::RateMissed,
        agent: None,
        level: Level::Invalid,
        touches: vec![Topic::Throughput, Topic::Latency, Topic::Arrivals],
        evidence: format!(
            "{:.1}/s were intended, {target:.1}/s were planned: off by {}; the limit is {}",
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

/// What failed, by cause, in brackets; nothing where nothing did.
fn causes(errors: &CountsBy<Cause>) -> String {
    let causes = errors.by_name().into_iter().map(|(cause, n)| format!("{cause}: {}", count(n)));
    match causes.collect::<Vec<String>>().join(", ") {
        none if none.is_empty() => none,
        causes => format!(" ({causes})"),
    }
}

fn is_nothing_sent(report: &Report) -> bool {
    report.whole.counts.sent <= report.whole.counts.unconnected
}

pub(super) fn nothing_sent(report: &Report, reasons: &mut Vec<Reason>) {
    if !is_nothing_sent(report) {
        return;
    }
    let counts = &report.whole.counts;
    let intended = counts.intended;
    let warmup = &counts.warmup;
    let (evidence, cure) = match report.config.plan.model() {
        _ if 0 < intended && counts.errors.total() == 0 && 0 < warmup.sent => (
            format!(
                "of {} intended requests none was sent, since those of the warm-up took all of the \
                 run: the target answered {} of {}{}",
                count(intended),
                if warmup.answered == 0 { "none".to_owned() } else { count(warmup.answered) },
                count(warmup.sent),
                causes(&warmup.errors)
            ),
            // Whose fault it is follows from the answers.
            match warmup.answered {
                0 => NO_ANSWER,
                _ => "lower --rate, to what the target answers or a shard can send (--cores)",
            },
        ),
        _ if 0 < intended => (
            format!(
                "of {} intended requests none was sent{}",
                count(intended),
                causes(&counts.connection_errors)
            ),
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
            format!(
                "no request began in the window: every connection was still waiting for a response \
                 or for the connection itself; of {} requests of the warm-up {} were answered{}",
                count(warmup.sent),
                count(warmup.answered),
                causes(&warmup.errors)
            ),
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

/// Arrivals that waited at the cap. Where the generator kept the connections busy another cap is no
/// cure, and the reason is its share of the latencies.
pub(super) fn cap_reached(report: &Report, reasons: &mut Vec<Reason>) {
    let counts = &report.whole.counts;
    let figure = share(counts.capped, counts.intended);
    if figure <= CAPPED_MAX || held_by_generator(report) {
        return;
    }
    let conns = report.conns();
    let held = report.littles_law.held_by_generator().map_or_else(String::new, |held| {
        format!(
            " and on the generator: for {} of the time that requests were in flight, their response \
             was there and waited for it",
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
            percent(CAPPED_MAX)
        ),
        figure,
        threshold: CAPPED_MAX,
        unit: Unit::Share,
        meaning: format!(
            "naive latency omits that wait; corrected latency includes it, and it depends on the \
             cap{held}"
        ),
        cure: "raise --conns, unless the cap is what you want to measure".to_owned(),
    });
}

/// Whether arrivals found all connections busy rather because responses waited for the generator.
pub(super) fn held_by_generator(report: &Report) -> bool {
    report.littles_law.held_by_generator().is_some_and(|held| HALF < held)
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
        cure: match report.whole.counts.capped {
            0 => "lower the rate per core, or use --wait spin",
            _ if held_by_generator(report) => "lower the rate per core, or use --wait spin",
            _ => "lower the rate per core, use --wait spin, or raise --conns",
        }
        .to_owned(),
    });
}
