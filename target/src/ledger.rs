//! The ledger: what the target actually did, as one JSON document.
//!
//! Only this file knows the document's schema. All timestamps are ns of CLOCK_MONOTONIC, so a
//! client on the same machine can compare them with its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::TargetConfig;
use crate::counts::{Counts, EDGES_MAX};
use crate::distribution::Distribution;
use crate::handshakes::Handshakes;
use crate::outcomes::Outcomes;
use crate::service::StallGrid;
use crate::shop::{STEPS, ShopCounts, ShopErrors};

/// The version of the document's schema.
pub const LEDGER_SCHEMA: u32 = 9;

/// What a target actually did, from its start to `taken_ns`.
///
/// These sums are exact: `received = answered + faulty + closed_by_peer_unanswered + in_flight`,
/// `held.count = answered`, `connections.accepted = connections.open + connections.closed`. The same
/// holds for each of the routes, and each count is the sum of theirs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// [`LEDGER_SCHEMA`].
    pub schema: u32,
    /// The address listened on, with the actual port.
    pub address: SocketAddr,
    /// When the target started, ns; stalls are timed from here.
    pub started_ns: u64,
    /// When this ledger was taken, ns.
    pub taken_ns: u64,
    /// Requests read in full, except those for the ledger and those that broke the protocol.
    pub received: u64,
    /// Requests whose complete response was written to the socket.
    pub answered: u64,
    /// Of these, the ones whose response was written twice: [`crate::FaultKind::Repeat`].
    pub repeated: u64,
    /// Requests that were left without a complete response: [`crate::FaultKind::Reset`] and
    /// [`crate::FaultKind::Short`].
    pub faulty: u64,
    /// Requests that couldn't be answered because the peer had closed the connection, or reset the
    /// HTTP/2 stream. If it did so while its request was held, only sending the response shows
    /// that; if its reset arrives after the `send` has returned, as between machines, that one
    /// request counts as answered.
    pub closed_by_peer_unanswered: u64,
    /// Requests that were held when this ledger was taken.
    pub in_flight: u64,
    /// Requests that broke HTTP/1.1, answered with 400 or 431 and a close, and connections that
    /// broke HTTP/2.
    pub rejected: u64,
    /// HTTP/2 streams that were refused because [`crate::Http2::refuse`] says so. They count nowhere
    /// else.
    pub refused: u64,
    /// Requests for `/__ledger`.
    pub ledger_requests: u64,
    /// Times that an executor was stuck for 300 ms or more and had to be woken. Requests that
    /// arrived during that time were received late, which no hold time shows.
    pub standstills: u64,
    /// Connections, including the one that asks for the ledger.
    pub connections: Connections,
    /// Hold times of the answered requests: from reading the last byte of the request to just
    /// before the `send` of its response, so no client can have measured less.
    pub held: Held,
    /// The requests of each route, in the order of the configuration, and then those of all other
    /// paths; empty without routes.
    pub routes: Vec<RouteCounts>,
    /// The last 4,096 stalls of the paths without a route that have begun, oldest first; exactly the
    /// requests that arrived within them were stalled.
    pub stalls: Vec<Span>,
    /// The number of these stalls that have begun.
    pub stall_count: u64,
    /// The last 4,096 pauses that have begun, oldest first.
    pub pauses: Vec<Span>,
    /// The number of pauses that have begun.
    pub pause_count: u64,
    /// Of the requests received, the ones that took `cold.latency` longer.
    pub cold: u64,
    /// Arrivals in the last three minutes. A request arrives when its first bytes are read.
    pub arrivals_per_ms: ArrivalsPerMs,
    /// What the users of the shop did; absent if the target is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shop: Option<ShopLedger>,
    /// The configuration, with the cores actually used.
    pub config: TargetConfig,
}

/// What became of the requests of one route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteCounts {
    /// Its path; `null` for all paths without a route.
    pub path: Option<String>,
    /// As [`Ledger::received`].
    pub received: u64,
    /// As [`Ledger::answered`].
    pub answered: u64,
    /// As [`Ledger::repeated`].
    pub repeated: u64,
    /// As [`Ledger::faulty`].
    pub faulty: u64,
    /// As [`Ledger::closed_by_peer_unanswered`].
    pub closed_by_peer_unanswered: u64,
    /// As [`Ledger::in_flight`].
    pub in_flight: u64,
    /// As [`Ledger::held`].
    pub held: Held,
}

/// Counts of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    /// Accepted since the start.
    pub accepted: u64,
    /// Open now.
    pub open: u64,
    /// Closed, by either side.
    pub closed: u64,
    /// Of those accepted, the ones that spoke HTTP/2.
    pub http2: u64,
    /// Of these, the ones that were sent a GOAWAY because [`crate::Http2::goaway_every`] says so.
    pub goaways: u64,
    /// Failed accepts, for lack of descriptors or memory. Each is retried every 10 ms while the
    /// client waits.
    pub accept_errors: u64,
    /// TLS handshakes; `null` without TLS.
    pub handshakes: Option<Handshakes>,
}

/// The distribution of hold times. A percentile is the value at rank `⌈q · count⌉`: the upper edge
/// of its histogram bucket, clamped to the exact minimum and maximum; `null` if nothing was
/// recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// The unit of the times below: `us`.
    pub unit: String,
    /// Values recorded.
    pub count: u64,
    /// The smallest, exact.
    pub min: Option<f64>,
    /// The mean, exact.
    pub mean: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p999: Option<f64>,
    /// The 99.99th percentile.
    #[serde(rename = "p99.99")]
    pub p9999: Option<f64>,
    /// The largest, exact.
    pub max: Option<f64>,
    /// Values above one hour, which the histogram doesn't hold.
    pub overflow: u64,
    /// The HdrHistogram in ns: V2 deflate, base64.
    pub histogram: String,
}

/// What the users of the shop did. Each login begins a session. While requests come, sessions and
/// paths may be ahead of what is counted by request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShopLedger {
    /// Sessions begun. The last 1,000,000 are remembered, and a token of an older one is wrong.
    pub sessions: u64,
    /// Requests read in full, by step: `login`, `search`, `items`, `basket`, `view` (the GET of the
    /// basket) and `pay`.
    pub requests: BTreeMap<String, u64>,
    /// Of these, the ones that were refused, by kind.
    pub errors: ShopErrors,
    /// How many sessions took which path, as in `login>search>items>basket>pay`: the steps that
    /// were not refused. All paths of more than 21 steps, and those beyond the 1,000 most frequent,
    /// are `other`. The sum is `sessions`.
    pub paths: BTreeMap<String, u64>,
    /// For each step but the login, the time from just before the `send` of the session's last
    /// response until the step's first bytes were read.
    pub think: BTreeMap<String, Think>,
}

/// The distribution of think times, ns. A percentile is as in [`Held`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Think {
    /// Values recorded.
    pub count: u64,
    /// The median, ns.
    pub p50_ns: Option<u64>,
    /// The 99th percentile, ns.
    pub p99_ns: Option<u64>,
    /// The largest, exact, ns.
    pub max_ns: Option<u64>,
}

/// A stall or a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Its start, ns.
    pub begin_ns: u64,
    /// Its end (exclusive), ns; later than the ledger's `taken_ns` if it hasn't ended yet.
    pub end_ns: u64,
}

/// Arrivals per millisecond.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrivalsPerMs {
    /// The ms of CLOCK_MONOTONIC of the first count.
    pub first_ms: u64,
    /// Arrivals in each ms; at most the last 180,000.
    pub counts: Vec<u32>,
}

/// Why a ledger's histogram can't be read.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// The histogram isn't base64.
    #[error("the histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The histogram isn't an HdrHistogram.
    #[error("the histogram is not an HdrHistogram in V2 deflate: {0:?}")]
    Histogram(hdrhistogram::serialization::DeserializeError),
}

impl Ledger {
    /// The ledger of the counts at `taken_ns`.
    ///
    /// # Panics
    /// If the sums don't match: the counts are wrong then, and none of them may be used.
    pub(crate) fn new(
        config: &TargetConfig,
        address: SocketAddr,
        started_ns: u64,
        taken_ns: u64,
        mut counts: Counts,
    ) -> Ledger {
        counts.outcomes.iter().for_each(Outcomes::assert_closes);
        let whole = counts.whole();
        counts.arrivals.advance(taken_ns / 1_000_000);
        let (first_ms, arrivals) = counts.arrivals.span();

        let stalls = StallGrid::new(config, started_ns);
        let stall_count = stalls.map_or(0, |stalls| stalls.begun(taken_ns));
        let stalls_kept = stalls.iter().flat_map(|stalls| {
            let first = stall_count.saturating_sub(EDGES_MAX as u64) + 1;
            (first..=stall_count).map(|k| Span::from(stalls.edges(k)))
        });

        // A serial server schedules a pause when it reads the request, so it may not have begun
        // yet.
        let pauses = counts.pauses.iter().filter(|edges| edges.0 <= taken_ns);
        let pauses: Vec<Span> = pauses.map(|edges| Span::from(*edges)).collect();
        let pauses_scheduled = (counts.pauses.len() - pauses.len()) as u64;

        Ledger {
            schema: LEDGER_SCHEMA,
            address,
            started_ns,
            taken_ns,
            received: whole.received,
            answered: whole.answered,
            repeated: whole.repeated,
            faulty: whole.faulty,
            closed_by_peer_unanswered: whole.closed_by_peer_unanswered,
            in_flight: whole.in_flight,
            rejected: counts.rejected,
            refused: counts.refused,
            ledger_requests: counts.ledger_requests,
            standstills: 0,
            connections: Connections {
                accepted: counts.accepted,
                open: counts.accepted - counts.closed,
                closed: counts.closed,
                http2: counts.http2,
                goaways: counts.goaways,
                accept_errors: counts.accept_errors,
                handshakes: config.tls.then_some(counts.handshakes),
            },
            held: Held::new(&whole.held),
            routes: RouteCounts::all(config, &counts.outcomes),
            stalls: stalls_kept.collect(),
            stall_count,
            pauses,
            pause_count: counts.pause_count - pauses_scheduled,
            cold: counts.cold,
            arrivals_per_ms: ArrivalsPerMs { first_ms, counts: arrivals },
            shop: None,
            config: config.clone(),
        }
    }

    /// The document as JSON, on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("every part of the document has a JSON form")
    }
}

impl RouteCounts {
    /// The counts of each route and of the other paths; none without routes.
    fn all(config: &TargetConfig, outcomes: &[Outcomes]) -> Vec<RouteCounts> {
        if config.routes.is_empty() {
            return Vec::new();
        }
        let paths = config.routes.iter().map(|route| Some(route.path.clone()));
        let outcomes = outcomes[1..].iter().chain(&outcomes[..1]);
        let counts = paths.chain([None]).zip(outcomes).map(|(path, of_route)| RouteCounts {
            path,
            received: of_route.received,
            answered: of_route.answered,
            repeated: of_route.repeated,
            faulty: of_route.faulty,
            closed_by_peer_unanswered: of_route.closed_by_peer_unanswered,
            in_flight: of_route.in_flight,
            held: Held::new(&of_route.held),
        });
        counts.collect()
    }
}

impl From<(u64, u64)> for Span {
    fn from((begin_ns, end_ns): (u64, u64)) -> Span {
        Span { begin_ns, end_ns }
    }
}

impl Held {
    fn new(held: &Distribution) -> Held {
        let us = |value_ns: u64| value_ns as f64 / 1_000.0;
        let count = held.count();
        let some = |value: f64| (0 < count).then_some(value);
        let quantile = |parts: u64, of: u64| some(us(held.quantile_ns(parts, of)));
        Held {
            unit: "us".to_owned(),
            count,
            min: some(us(held.min_ns)),
            mean: some(held.sum_ns as f64 / count as f64 / 1_000.0),
            p50: quantile(50, 100),
            p90: quantile(90, 100),
            p99: quantile(99, 100),
            p999: quantile(999, 1_000),
            p9999: quantile(9_999, 10_000),
            max: some(us(held.max_ns)),
            overflow: held.overflow,
            histogram: encode(&held.histogram),
        }
    }

    /// Decodes the histogram, in ns.
    ///
    /// # Errors
    /// If the text isn't a histogram.
    pub fn decode(&self) -> Result<Histogram<u64>, LedgerError> {
        let bytes = BASE64.decode(&self.histogram)?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(LedgerError::Histogram)
    }
}

impl ShopLedger {
    /// The ledger of a shop with so many sessions on these paths, and these counts.
    pub(crate) fn new(
        (sessions, paths): (u64, BTreeMap<String, u64>),
        counts: &ShopCounts,
    ) -> ShopLedger {
        let requests = STEPS.map(|step| (step.name().to_owned(), counts.requests[step as usize]));
        let after_login = STEPS.iter().zip(&counts.think).skip(1);
        let think = after_login.map(|(step, times)| (step.name().to_owned(), Think::new(times)));
        ShopLedger {
            sessions,
            requests: requests.into(),
            errors: counts.errors,
            paths,
            think: think.collect(),
        }
    }
}

impl Think {
    fn new(times: &Distribution) -> Think {
        let count = times.count();
        let some = |value_ns: u64| (0 < count).then_some(value_ns);
        Think {
            count,
            p50_ns: some(times.quantile_ns(50, 100)),
            p99_ns: some(times.quantile_ns(99, 100)),
            max_ns: some(times.max_ns),
        }
    }
}

fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("writing to memory does not fail, and the counts fit");
    BASE64.encode(bytes)
}
