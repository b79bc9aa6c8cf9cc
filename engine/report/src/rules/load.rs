//! Rules about the load: whether it was sent as planned, at its rate and in its pattern.

use load::curve::Curve;
use plan::{Arrivals, Model};
use record::counts::CountsBy;
use record::outcome::Cause;
use stats::mix_proof::{MixProof, P_MIN};

use super::rule::Found;
use super::share::{HALF, percent, roughly, share, share_of};
use crate::Report;
use crate::figures::count;
use crate::verdict::Topic;

/// How far the offered rate may be off the plan's, as a share, unless chance explains more; also
/// the share of a paced loop's requests that may be sent after the window's end. A load this close
/// to the plan has the planned load's latencies, unless the target is at its limit.
const OFFERED_OFF_MAX: f64 = 0.02;
/// Share of arrivals that may wait at the cap: above it, the cap affects p99.9.
pub(super) const CAPPED_MAX: f64 = 0.001;

/// The cure if the target answered nothing, from setup to drain.
const NO_ANSWER: &str = "see why the target doesn't answer, with a single request first";

/// Requests weren't sent in time. If none was sent at all, another rule reports it.
pub(super) fn not_sent(report: &Report) -> Option<Found> {
    if is_nothing_sent(report) {
        return None;
    }
    let bounds = &report.config.plan.thresholds;
    let counts = &report.whole.counts;
    let (late, allowed, what, cure) = if report.config.plan.model() == Model::Open {
        (
            unsent_in_window(report),
            (bounds.unsent * counts.intended as f64).max(report.at_the_edge()),
            "were not sent before the window's end",
            (counts.capped == 0 || held_by_generator(report)).then_some(
                "see the causes for what delayed the sends; lower --rate, or add --cores",
            ),
        )
    } else {
        // A paced user who waits for a response is late by design; a request that is never sent
        // isn't.
        (
            counts.unsent,
            bounds.unsent * counts.intended as f64,
            "were never sent",
            Some(
                "see the other reasons for what delayed the sends; use a longer --period, or add \
                 --cores",
            ),
        )
    };
    // Connections that never get an answer delay the sends, and more cores wouldn't help.
    let cure = if counts.answered_ever() == 0 { Some(NO_ANSWER) } else { cure };
    let threshold = share_of(allowed, counts.intended);
    (allowed < late as f64).then(|| {
        Found::invalid(
            share(late, counts.intended),
            threshold,
            unsent_evidence(late, what, report, threshold),
        )
        .cure(cure)
    })
}

/// A user who falls behind sends late, and ever later as the run goes on. A stall just before the
/// window's end leaves only a small backlog.
pub(super) fn behind_their_pace(report: &Report) -> Option<Found> {
    let plan = &report.config.plan;
    plan.period.filter(|_| !is_nothing_sent(report))?;
    let (late, intended) = (unsent_in_window(report), report.whole.counts.intended);
    let allowed = (OFFERED_OFF_MAX * intended as f64).max(report.at_the_edge());
    let threshold = share_of(allowed, intended);
    (allowed < late as f64).then(|| {
        Found::suspect(
            share(late, intended),
            threshold,
            unsent_evidence(late, "were not sent before the window's end", report, threshold),
        )
        .touches(&[Topic::Latency, Topic::Arrivals])
        .meaning(Some(
            "the users fell behind their pace: the target saw less load than planned, and \
             corrected latency depends on --duration, since the backlog grows with it",
        ))
        .cure(Some(match plan.stages_of_users() {
            None => "use a longer --period, and more --conns to keep the rate",
            Some(_) => "use a longer --period, and more users to keep the rate",
        }))
    })
}

/// Intended requests that weren't sent before the window's end. Failed connects are errors, and
/// don't count against the pace.
fn unsent_in_window(report: &Report) -> u64 {
    let counts = &report.whole.counts;
    // The later steps of sessions may be due after it.
    let sent = counts.arrivals_sent_in_window().saturating_add(counts.unconnected);
    counts.arrivals().saturating_sub(sent)
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

pub(super) fn off_the_rate(report: &Report) -> Option<Found> {
    let plan = &report.config.plan;
    let target = Curve::window_mean(plan, plan.end_ns())? * report.offered();
    let counts = &report.whole.counts;
    let intended = counts.arrivals();
    // Later steps of sessions aren't scheduled.
    let scheduled = intended as f64 / counts.intended.max(1) as f64;
    let rate = report.whole.rate.intended * scheduled;
    let off = (rate / target - 1.0).abs();
    // A Poisson count of n varies by 1/√n; up to four times that is chance. With constant arrivals,
    // one more or less may fall into the window.
    let few = intended.max(1) as f64;
    let chance = match plan.arrivals {
        Arrivals::Poisson => 4.0 / few.sqrt(),
        Arrivals::Constant | Arrivals::Log => 1.0 / few,
    };
    let threshold = OFFERED_OFF_MAX.max(chance);
    let is_off = threshold < off && !report.interrupted && !is_nothing_sent(report);
    is_off.then(|| {
        let evidence = format!(
            "{rate:.1}/s were intended, {target:.1}/s were planned: off by {}; the limit is {}",
            percent(off),
            percent(threshold)
        );
        Found::invalid(off, threshold, evidence)
            .meaning(Some("the schedule drew a different rate than the plan's"))
            .cure(Some("use a longer --duration"))
    })
}

/// The failures by cause, in brackets; empty without any.
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

pub(super) fn nothing_sent(report: &Report) -> Option<Found> {
    if !is_nothing_sent(report) {
        return None;
    }
    let counts = &report.whole.counts;
    let intended = counts.intended;
    let warmup = &counts.warmup;
    let found = |evidence| Found::invalid(0.0, 1.0, evidence);
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
            // The number of answers shows which side is at fault.
            match warmup.answered {
                0 => NO_ANSWER,
                _ => "lower --rate, to what the target answers or a shard can send (--cores)",
            },
        ),
        _ if 0 < intended => {
            let evidence = format!(
                "of {} intended requests none was sent{}",
                count(intended),
                causes(&counts.connection_errors)
            );
            return Some(found(evidence));
        }
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
    Some(found(evidence).cure(Some(cure)))
}

/// Arrivals waited at the cap. If the generator kept the connections busy, another cap is no cure,
/// and its share of the latencies is the reason.
pub(super) fn cap_reached(report: &Report) -> Option<Found> {
    let counts = &report.whole.counts;
    let figure = share(counts.capped, counts.intended);
    if figure <= CAPPED_MAX || held_by_generator(report) {
        return None;
    }
    let conns = report.conns();
    let meaning = report.littles_law.held_by_generator().map(|held| {
        format!(
            "naive latency omits that wait; corrected latency includes it, and it depends on the \
             cap and on the generator: for {} of the time that requests were in flight, their \
             response had arrived and waited for it",
            percent(held)
        )
    });
    let holders = report.holders().map(|holders| {
        format!(
            "; {} of these were busy with {} ({} of the requests), and {} of the arrivals were of \
             other routes",
            roughly(holders.share),
            holders.named(),
            roughly(holders.of_requests),
            count(holders.others)
        )
    });
    let plan = &report.config.plan;
    let streams = match report.whole.http2.as_ref().map(|http2| http2.limit) {
        None => String::new(),
        Some(Some(limit)) if limit as usize <= plan.depth() => {
            format!(" with {limit} streams each, the target's limit,")
        }
        Some(_) => format!(" with {} streams each", plan.depth()),
    };
    let evidence = format!(
        "{} arrivals ({}) waited while all {} connections{streams} were busy{}; the limit is {}",
        count(counts.capped),
        percent(figure),
        count(conns as u64),
        waited_for(report) + &holders.unwrap_or_default(),
        percent(CAPPED_MAX)
    );
    Some(Found::suspect(figure, CAPPED_MAX, evidence).meaning(meaning))
}

/// The endpoint for which most of the arrivals at the cap waited, if there are several.
fn waited_for(report: &Report) -> String {
    let most = report.whole.endpoints.iter().max_by_key(|endpoint| endpoint.counts.capped);
    most.map_or_else(String::new, |most| {
        let (capped, name) = (count(most.counts.capped), &most.name);
        format!(", {capped} of them for a connection to {name}")
    })
}

/// True if arrivals found all connections busy mainly because responses waited for the generator.
pub(super) fn held_by_generator(report: &Report) -> bool {
    report.littles_law.held_by_generator().is_some_and(|held| HALF < held)
}

pub(super) fn mix_not_as_planned(report: &Report) -> Option<Found> {
    let MixProof { statistic, degrees, p, unplanned } =
        *report.mix.as_ref().filter(|mix| !mix.is_as_planned())?;
    let evidence = match unplanned {
        0 => format!(
            "the routes' shares of the requests are off their weights: χ² is {statistic:.1} with \
             {degrees} degree{} of freedom, which has a p of {p:.1e}; the limit is {P_MIN:.0e}",
            if degrees == 1 { "" } else { "s" }
        ),
        some => format!("{} requests were of routes with the weight 0", count(some)),
    };
    Some(Found::invalid(if unplanned == 0 { p } else { 0.0 }, P_MIN, evidence))
}

pub(super) fn schedule_not_as_planned(report: &Report) -> Option<Found> {
    let proof = report.arrivals.as_ref()?;
    if proof.as_planned || proof.too_few() {
        return None;
    }
    Some(
        Found::suspect(
            proof.failed.len() as f64,
            0.0,
            report.arrivals_line.clone().unwrap_or_default(),
        )
        .cure(match report.whole.counts.capped {
            0 => None,
            _ if held_by_generator(report) => None,
            _ => Some("lower the rate per core, use --wait spin, or raise --conns"),
        }),
    )
}
