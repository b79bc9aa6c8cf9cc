//! Rules about the generator's own part of the latencies: before the send, and after the response
//! has arrived.
//!
//! Requests that waited for a connection may have waited for responses that had arrived but hadn't
//! been handled yet (see `record/added.rs` for why that isn't in the client share). The verdict
//! reports this if requests did wait: for a paced loop as `client_share`; for an open load together
//! with the cap, or as `client_share` alone if it is over half, since the generator then keeps the
//! connections busy and another cap is no cure. A pipelined request doesn't wait for the generator
//! before it is sent.

use plan::StampSource;
use stats::interval::ends_by_ranks;
use stats::percentiles::Quantile;

use super::load::{CAPPED_MAX, held_by_generator};
use super::machine::cores_taken;
use super::rule::Found;
use super::share::{HALF, percent, share};
use crate::figures::{things, time};
use crate::verdict::{Code, Reason, Topic};
use crate::{ClientPart, Report};

/// Share of responses that may lack the kernel's stamp, such as those that end when the target
/// closes the connection.
const UNSTAMPED_MAX: f64 = 0.01;
/// Share of responses whose stamp may lie outside the request's time: the two clocks are read one
/// after the other.
const CLAMPED_MAX: f64 = 0.01;
/// Share of a paced loop's requests that must have waited for their connection for the cause of the
/// wait to matter.
const WAITED_MIN: f64 = 0.001;

/// How the evidence names what opening connections added.
const BY_OPENING: &str = "by opening connections";
/// The cure if opening them is all that it added.
pub(super) const OPEN_AHEAD: &str =
    "open connections in advance with --prewarm, or leave some idle with --spare";

/// True if a note may explain what the generator added: a note on the pool of connections explains
/// the part from opening them, any other note the rest.
pub fn explains_added(note: Code, added: &Reason) -> bool {
    match note {
        Code::NotSettled | Code::PoolGrew => added.evidence.contains(BY_OPENING),
        _ => added.cure != OPEN_AHEAD,
    }
}

/// True if most responses have the kernel's stamp.
pub(super) fn mostly_stamped(report: &Report) -> bool {
    share(report.whole.stamps.program, report.whole.counts.answered) <= HALF
}

/// True if the generator's effect on latencies and throughput is measured: the only wait for the
/// generator in a latency is the one before the send, unless a response is too long to arrive
/// before the generator reads.
pub(super) fn is_measured(report: &Report) -> bool {
    mostly_stamped(report) && !report.has_long_responses()
}

/// True if that effect is unknown.
pub(super) fn is_unmeasured(report: &Report) -> bool {
    !is_measured(report)
}

/// Latencies end when the program handled the response, and the kernel-stamped responses show how
/// late that was.
pub(super) fn receive_late(report: &Report) -> Option<Found> {
    let bound = report.config.plan.thresholds.client_share;
    let part = &report.whole;
    let unstamped = share(part.stamps.program, part.counts.answered);
    if unstamped <= UNSTAMPED_MAX {
        return None;
    }
    let worst = [(0.5, "p50"), (0.99, "p99")].into_iter().filter_map(|(q, name)| {
        let (late, naive) = (part.receive_lateness.quantile_us(q)?, part.naive.quantile_us(q)?);
        Some((if naive == 0.0 { 0.0 } else { late / naive }, name, late, naive))
    });
    let (figure, name, late, naive) = worst.max_by(|one, two| one.0.total_cmp(&two.0))?;
    if figure <= bound {
        return None;
    }
    let evidence = format!(
        "{} of the responses have the program's stamp; those with the kernel's were handled {} \
         late at {name}, {} of naive {}; the limit is {}",
        percent(unstamped),
        time(late),
        percent(figure),
        time(naive),
        percent(bound)
    );
    Some(Found::suspect(figure, bound, evidence))
}

/// Requests that waited for connections kept busy by the generator: the reported generator share
/// omits that wait.
pub(super) fn held_connections(report: &Report) -> Option<Found> {
    let plan = &report.config.plan;
    let bound = plan.thresholds.client_share;
    let counts = &report.whole.counts;
    // An open load waits for connections only at the cap. The rule for the cap reports that, unless
    // mostly the generator kept them busy.
    let at_the_cap = CAPPED_MAX < share(counts.capped, counts.intended);
    let (requests, least) = match plan.period {
        Some(_) => (counts.waited, WAITED_MIN),
        None if at_the_cap && held_by_generator(report) => (counts.capped, 0.0),
        None => (0, 0.0),
    };
    let waited = share(requests, counts.intended);
    let held = report.littles_law.held_by_generator()?;
    (least < waited && bound < held).then(|| {
        let evidence = format!(
            "{} ({}) waited until a connection was free, and for {} of the time that \
             requests were in flight their response had arrived and waited for the generator; \
             the limit is {}",
            things(requests, "request"),
            percent(waited),
            percent(held),
            percent(bound)
        );
        Found::suspect(held, bound, evidence)
            .meaning(Some(
                "corrected latency contains such waits, and the generator's reported \
                 share doesn't",
            ))
            .cure(Some("use --wait hybrid or spin, more cores, or a lower load"))
    })
}

/// Responses without the kernel's stamp, which hide what the generator added.
pub(super) fn unstamped(report: &Report) -> Option<Found> {
    let plan = &report.config.plan;
    let unstamped = share(report.whole.stamps.program, report.whole.counts.answered);
    if unstamped <= HALF {
        return None;
    }
    let (because, cure) = match (plan.stamps(), &report.environment.unstamped) {
        (StampSource::User, _) if plan.unix.is_some() => (
            "the kernel stamps nothing that passes a Unix-domain socket".to_owned(),
            "to know that share, load the server's TCP port",
        ),
        (StampSource::User, None) => ("--stamps user".to_owned(), "use --stamps kernel"),
        (StampSource::User, Some(why)) => (
            format!("the kernel's stamps were {why}"),
            "run where `truetail doctor` finds receive stamps",
        ),
        (StampSource::Kernel, _) => (
            format!(
                "{} of them; the kernel has no stamp for the end of a response that ends when the \
                 target closes the connection, and none that counts for one whose segments came \
                 out of order",
                percent(unstamped)
            ),
            "let the target send Content-Length, or chunks; or fix packet loss on the path",
        ),
    };
    let evidence = format!("responses are stamped by the program when it handles them ({because})");
    Some(
        Found::suspect(unstamped, plan.thresholds.client_share, evidence)
            .meaning(Some("the generator's share of each latency is unknown"))
            .cure(Some(cure)),
    )
}

/// Impossible stamps were moved to the nearest possible time.
pub(super) fn stamps_clamped(report: &Report) -> Option<Found> {
    let counts = &report.whole.counts;
    let figure = share(counts.stamps_clamped, counts.answered);
    if figure <= CLAMPED_MAX || report.config.plan.stamps() == StampSource::User {
        return None;
    }
    let evidence = format!(
        "{} ({}) stamped before the request was sent, or after the program handled it; the limit \
         is {}",
        things(counts.stamps_clamped, "response"),
        percent(figure),
        percent(CLAMPED_MAX)
    );
    Some(Found::suspect(figure, CLAMPED_MAX, evidence))
}

/// The percentiles that the generator shifted too far.
pub(super) fn added(report: &Report) -> Option<Found> {
    let bounds = &report.config.plan.thresholds;
    let is_off = |(quantile, part): &(Quantile, &ClientPart)| {
        let floor_us = if quantile.q <= 0.5 { 0.0 } else { bounds.lateness_floor_us };
        floor_us < part.whole() && bounds.client_share < part.share()
    };
    let parts = report.whole.client_share.iter().flat_map(|share| share.parts());
    let mut off: Vec<(Quantile, &ClientPart)> = parts.filter(is_off).collect();
    if !off.is_empty() {
        let by_chance_us = by_chance_us(report);
        off.retain(|(quantile, part)| {
            HALF <= part.share() || by_chance_us(quantile.q) < part.whole()
        });
    }
    let (worst, _) = off
        .iter()
        .enumerate()
        .max_by(|(_, (_, one)), (_, (_, other))| one.share().total_cmp(&other.share()))?;
    let figure = off[worst].1.share();
    // Only a few requests are at p99.9; the lower percentiles still show the target.
    let is_of_the_tail = |quantile: &Quantile| 0.999 <= quantile.q;
    let mostly_own =
        off.iter().any(|(quantile, part)| !is_of_the_tail(quantile) && HALF <= part.share());
    let is_opening = off.iter().all(|(_, part)| part.added < part.opening);
    let is_tail_alone = off.iter().all(|(quantile, _)| is_of_the_tail(quantile));
    let shown = |(quantile, part): &(Quantile, &ClientPart)| {
        let opening = match part.opening {
            0.0 => String::new(),
            opening => format!(", {} of it {BY_OPENING}", time(opening)),
        };
        format!(
            "{} of the {} at {} ({}{opening})",
            time(part.whole()),
            time(part.corrected),
            quantile.label,
            percent(part.share())
        )
    };
    let others = off.iter().enumerate().filter(|(at, _)| *at != worst);
    let others: Vec<String> = others.map(|(_, one)| shown(one)).collect();
    let others = match others.as_slice() {
        [] => String::new(),
        others => format!("; also {}", others.join(", ")),
    };
    let evidence = format!(
        "the generator added {}; the limit is {}{others}{}",
        shown(&off[worst]),
        percent(bounds.client_share),
        cores_taken(report)
    );
    Some(
        Found::suspect(figure, bounds.client_share, evidence)
            .invalid_if(mostly_own)
            .touches(if is_tail_alone { &[Topic::Tail] } else { &[Topic::Latency] })
            .cure(is_opening.then_some(OPEN_AHEAD)),
    )
}

/// How far chance alone moves a quantile of the corrected latencies, µs: down to the lower end of
/// its 95 % interval by ranks. With ten requests above p99.9, that is more than the limit on what
/// the generator adds.
fn by_chance_us(report: &Report) -> impl Fn(f64) -> f64 {
    let corrected = &report.whole.corrected;
    let known =
        corrected.decode_histogram().ok().map(|histogram| corrected.of_histogram(histogram));
    move |q| {
        let ends =
            known.as_ref().and_then(|all| all.quantile_ns(q).zip(ends_by_ranks(all, q).low_ns));
        ends.map_or(0.0, |(at_ns, low_ns)| at_ns.saturating_sub(low_ns) as f64 / 1e3)
    }
}

/// The wall clock was set during the run.
pub(super) fn clock_stepped(report: &Report) -> Option<Found> {
    // Every shard notices the same step.
    let shards = &report.generator.shards;
    let steps = shards.iter().map(|shard| shard.clock_steps).max().unwrap_or(0);
    if steps == 0 || report.config.plan.stamps() == StampSource::User {
        return None;
    }
    let times = if steps == 1 { "once".to_owned() } else { format!("{steps} times") };
    let evidence = format!(
        "the wall clock was set {times} during the run; the program stamped {}",
        things(report.whole.stamps.program, "response")
    );
    Some(Found::suspect(steps as f64, 0.0, evidence))
}
