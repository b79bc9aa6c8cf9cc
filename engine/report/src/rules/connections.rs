//! Rules about connections: the pool, the users that depend on it, and the bytes received.

use std::collections::BTreeMap;

use plan::{Model, Switch};
use record::outcome::Cause;

use super::rule::Found;
use super::share::{HALF, percent, share, share_of};
use crate::Report;
use crate::figures::{count, things, time};

/// Share of users that may be blocked for half of the window or more: above it, their waits are
/// missing from p99.
const STARVED_MAX: f64 = 0.01;
/// The same bound for an invalid run: their waits are missing from p90.
const STARVED_INVALID: f64 = 0.1;
/// A route of whose requests this share got no answer may itself be why connections were blocked.
const ROUTE_FAILS: f64 = 0.1;
/// The share of all requests without an answer that such routes must have to be the reason.
const ROUTES_EXPLAIN: f64 = 0.9;
/// Requests that the other routes must have to show that connections were served: with fewer, not
/// one failing among them is what chance allows at [`STARVED_MAX`].
const SERVED_MIN: u64 = 500;
/// Receives that may find no free buffer, as a share of all responses: above it, they affect p99.9.
const UNBUFFERED_MAX: f64 = 0.001;
/// Connections by which the pool may grow in the window without a report, as a share of the
/// intended requests; one per shard is always allowed.
const POOL_GREW: f64 = 0.001;
/// A response that takes this share of the window is slow for it: users who do get answers may then
/// count as blocked too.
const SLOW_SHARE: f64 = 0.1;
/// Share of pipelined responses that may be noticed as unsolicited before the run is invalid, or
/// may belong to another request before it is suspect: more would reach p99.9.
const MISTAKEN_MAX: f64 = 0.001;
/// Share of requests that may go to another stream before the run is suspect. A target that ends
/// each connection after a thousand requests, as nginx does, leaves out what is in flight then: up
/// to a tenth, with a hundred streams.
const REQUEUED_MAX: f64 = 0.1;
/// Share of responses that may be followed at once by another before the run is invalid: even with
/// one request at a time, either of the two may be its answer, and more would reach p99.
const TRAILING_MAX: f64 = 0.01;

pub(super) fn starved(report: &Report) -> Option<Found> {
    let counts = &report.whole.counts;
    let figure = share(counts.users_blocked, counts.users);
    let is_closed = report.config.plan.model() == Model::Closed;
    // The arrivals of an open load don't belong to connections: one that got no answer is one of
    // them, however long its connection then waits, and the next takes another connection.
    let unanswered = share(counts.ended_in_error(), counts.sent);
    let reach = if is_closed { figure } else { figure.min(unanswered) };
    if counts.users_blocked == 0 || reach < STARVED_MAX || routes_blocked_them(report) {
        return None;
    }
    let typical_us = report.whole.naive.quantile_us(0.5).or(report.whole.naive.mean);
    let is_slow = typical_us.is_some_and(|us| SLOW_SHARE * report.config.window_s() < us / 1e6);
    let is_invalid = STARVED_INVALID <= reach && !is_slow;
    let meaning = is_slow.then_some(
        "the window holds few responses of so slow a target, and those that weren't finished in it \
         weigh less than they should",
    );
    let are = if is_closed { "users" } else { "connections" };
    let evidence = format!(
        "{} of {} {are} ({}) were blocked for half of the window or more; the limit is {}",
        count(counts.users_blocked),
        count(counts.users),
        percent(figure),
        percent(STARVED_MAX)
    );
    Some(
        Found::suspect(figure, STARVED_MAX, evidence)
            .invalid_if(is_invalid)
            .meaning(meaning)
            .cure(is_slow.then_some("use a longer --duration")),
    )
}

/// True if connections were blocked by what was asked on them: a few routes went unanswered, while
/// the other ones were answered on the same connections. One that the target doesn't serve fails
/// for all routes alike.
fn routes_blocked_them(report: &Report) -> bool {
    // The requests of each route without an answer, and all that were sent.
    let mut routes: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for part in &report.whole.parts {
        let counts = &part.counts;
        let (unanswered, sent) = routes.entry(&part.name).or_default();
        *unanswered += counts.timed_out + counts.failed + counts.abandoned;
        *sent += counts.sent;
    }
    let (mut of_failing, mut of_others) = (0, (0, 0));
    for (unanswered, sent) in routes.into_values() {
        if ROUTE_FAILS <= share(unanswered, sent) {
            of_failing += unanswered;
        } else {
            of_others = (of_others.0 + unanswered, of_others.1 + sent);
        }
    }
    let (unanswered, sent) = of_others;
    // A user who waits since before the window has no request in it, and must not be explained.
    report.whole.counts.users_blocked <= of_failing
        && ROUTES_EXPLAIN <= share(of_failing, of_failing + unanswered)
        && SERVED_MIN <= sent
        && share(unanswered, sent) < STARVED_MAX
}

pub(super) fn not_settled(report: &Report) -> Option<Found> {
    let plan = &report.config.plan;
    let counts = &report.whole.counts;
    // Without keep-alive there is no pool to settle.
    if counts.setup.settled != Some(false) || plan.keepalive == Switch::Off {
        return None;
    }
    // An interruption ended the setup, not its limit.
    if report.interrupted && counts.intended == 0 {
        return None;
    }
    let figure = share(counts.pool_grew, counts.users);
    let evidence = format!(
        "the setup ended at its limit while the pool of connections was still growing, and {} of \
         {} connections ({}) were added in the window",
        count(counts.pool_grew),
        count(counts.users),
        percent(figure)
    );
    Some(Found::suspect(figure, 0.0, evidence))
}

/// The cost to the requests is part of what the generator added.
pub(super) fn pool_grew(report: &Report) -> Option<Found> {
    let counts = &report.whole.counts;
    let figure = share(counts.pool_grew, counts.intended);
    let allowed = (POOL_GREW * counts.intended as f64).max(report.generator.shards.len() as f64);
    if counts.pool_grew as f64 <= allowed {
        return None;
    }
    let connect_us = report.whole.connect_time.mean.unwrap_or(0.0);
    let handshake_us = report.whole.tls.as_ref().and_then(|tls| tls.handshake_time.min);
    let of_handshake = handshake_us
        .map_or_else(String::new, |us| format!(", and a TLS handshake at least {}", time(us)));
    let evidence = format!(
        "{} connections were added to the pool in the window, for {} of the requests; connecting \
         took {} on average{of_handshake}",
        count(counts.pool_grew),
        percent(figure),
        time(connect_us)
    );
    Some(Found::suspect(figure, share_of(allowed, counts.intended), evidence))
}

pub(super) fn unsolicited(report: &Report) -> Option<Found> {
    let counts = &report.whole.counts;
    let early = counts.errors.of(Cause::EarlyResponse);
    // An early response is unsolicited too, and is counted as such.
    let all = counts.unsolicited.max(early).saturating_add(counts.trailing);
    if all == 0 {
        return None;
    }
    // Only order matches pipelined responses to requests: one surplus response shifts all that
    // follow on its connection, many more than are noticed.
    let is_shifted =
        1 < report.config.plan.pipeline && MISTAKEN_MAX < share(all, counts.answered.max(all));
    let is_doubled = TRAILING_MAX < share(counts.trailing, counts.answered.max(counts.trailing));
    let came = [
        (
            counts.unsolicited,
            format!("bytes that no request asked for came {}", things(counts.unsolicited, "time")),
        ),
        (
            counts.trailing,
            format!("further bytes followed {}", things(counts.trailing, "response")),
        ),
        (
            early,
            format!(
                "{} failed because a response arrived before the send",
                things(early, "request")
            ),
        ),
    ];
    let came: Vec<String> =
        came.into_iter().filter(|(n, _)| 0 < *n).map(|(_, words)| words).collect();
    let evidence = came.join(", ");
    Some(Found::suspect(all as f64, 0.0, evidence).invalid_if(is_shifted || is_doubled))
}

pub(super) fn mispaired(report: &Report) -> Option<Found> {
    let counts = &report.whole.counts;
    let figure = share(counts.doubtful, counts.answered);
    if figure <= MISTAKEN_MAX {
        return None;
    }
    let evidence = format!(
        "after {} pipelined answers ({}) their connection ended by a timeout or with a surplus \
         response, and it had not been without a request in flight since; the limit is {}",
        count(counts.doubtful),
        percent(figure),
        percent(MISTAKEN_MAX)
    );
    Some(
        Found::suspect(figure, MISTAKEN_MAX, evidence)
            // At this share even the median may belong to other requests.
            .invalid_if(HALF <= figure),
    )
}

pub(super) fn requeued(report: &Report) -> Option<Found> {
    let counts = &report.whole.counts;
    let figure = share(counts.requeued, counts.sent);
    if figure <= REQUEUED_MAX {
        return None;
    }
    let evidence = format!(
        "{} ({} of the requests sent), a request had to go to another stream: the target ended \
         connections by GOAWAY {}, or refused streams; the limit is {}",
        things(counts.requeued, "time"),
        percent(figure),
        things(counts.goaways, "time"),
        percent(REQUEUED_MAX)
    );
    Some(Found::suspect(figure, REQUEUED_MAX, evidence))
}

pub(super) fn buffers_exhausted(report: &Report) -> Option<Found> {
    let counts = &report.whole.counts;
    let shards = report.generator.shards.iter();
    let times = shards.fold(0, |sum: u64, shard| sum.saturating_add(shard.buffers_exhausted));
    let figure = times as f64 / counts.answered_ever().max(1) as f64;
    (UNBUFFERED_MAX < figure).then(|| {
        let evidence = format!(
            "{} receives found no free buffer, {figure:.3} for each response; the limit is \
             {UNBUFFERED_MAX:.3}",
            count(times)
        );
        Found::suspect(figure, UNBUFFERED_MAX, evidence)
    })
}
