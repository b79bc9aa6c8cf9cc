//! The ledger: what the target really did, as one JSON document.
//!
//! This file alone knows the document's shape. All stamps are ns of CLOCK_MONOTONIC, so a client on the same machine
//! can lay them beside its own.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::TargetConfig;
use crate::service::StallGrid;
use crate::tally::{EDGES_MAX, Tally};

/// The version of the document's shape.
pub const LEDGER_SCHEMA: u32 = 1;

/// What a target really did, from its start to `taken_ns`.
///
/// Sums that close: `received = answered + closed_by_peer_unanswered + in_flight`, `held.count = answered`,
/// `connections.accepted = connections.open + connections.closed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// [`LEDGER_SCHEMA`].
    pub schema: u32,
    /// The address that was listened on, with the port that was really taken.
    pub address: SocketAddr,
    /// When the target started: the zero of its stall grid.
    pub started_ns: u64,
    /// When this ledger was taken.
    pub taken_ns: u64,
    /// Requests read whole; those for the ledger and those that broke the protocol are counted apart.
    pub received: u64,
    /// Requests whose response went to the socket whole.
    pub answered: u64,
    /// Requests that could not be answered because the peer went away. A peer that closed while its request was held
    /// is only found out by the answer; where its refusal takes longer than the `send`, as between machines, that
    /// one request counts as answered.
    pub closed_by_peer_unanswered: u64,
    /// Requests that were held when this ledger was taken.
    pub in_flight: u64,
    /// Requests that broke the protocol, answered with 400 or 431 and a close.
    pub rejected: u64,
    /// Requests for `/__ledger`.
    pub ledger_requests: u64,
    /// Times that an executor looked at nothing for 300 ms or more, and was woken: what came meanwhile was received late, which
    /// no hold shows.
    pub standstills: u64,
    /// Connections.
    pub connections: Connections,
    /// How long each answered request was really held: from read whole to its response handed to the socket. It ends
    /// just before the `send`, so no client can have seen less.
    pub held: Held,
    /// The last 4,096 stalls that have begun, oldest first, with the edges that decided which requests were held.
    pub stalls: Vec<Span>,
    /// All stalls that have begun.
    pub stall_count: u64,
    /// The last 4,096 pauses that have begun, oldest first.
    pub pauses: Vec<Span>,
    /// All pauses that have begun.
    pub pause_count: u64,
    /// Arrivals of the last minute. A request arrives when its first bytes are read.
    pub arrivals_per_ms: Arrivals,
    /// What the target was asked to do.
    pub config: TargetConfig,
}

/// Connections, the one that asks for the ledger among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    /// Accepted since the start.
    pub accepted: u64,
    /// Open now.
    pub open: u64,
    /// Closed, by either side.
    pub closed: u64,
    /// Times that a connection could not be accepted, for want of descriptors or memory. It is tried again every 10 ms,
    /// and the client waits meanwhile.
    pub accept_errors: u64,
}

/// A distribution of times. A quantile is the value at rank `⌈q · count⌉`: the upper edge of its histogram bucket, held
/// within the exact minimum and maximum; `null` when nothing was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// The unit of the times beside it: `us`.
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
    pub p999: Option<f64>,
    /// The 99.99th percentile.
    pub p9999: Option<f64>,
    /// The largest, exact.
    pub max: Option<f64>,
    /// Values of more than an hour, which the histogram does not hold.
    pub overflow: u64,
    /// An HdrHistogram in ns, V2 deflate, base64.
    pub histogram: String,
}

/// A stall or a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Its first moment, ns.
    pub begin_ns: u64,
    /// The first moment after it, ns; later than the ledger's `taken_ns` for one that is still going on.
    pub end_ns: u64,
}

/// Arrivals by ms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// The ms of CLOCK_MONOTONIC that the first count is for.
    pub first_ms: u64,
    /// Arrivals in each ms; at most the last 60,000.
    pub counts: Vec<u32>,
}

/// Why a ledger can't be used.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// The histogram is not base64.
    #[error("the histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The histogram is not an HdrHistogram.
    #[error("the histogram is not an HdrHistogram in V2 deflate: {0:?}")]
    Histogram(hdrhistogram::serialization::DeserializeError),
}

impl Ledger {
    /// The ledger of a tally taken at `taken_ns`.
    ///
    /// # Panics
    /// When the sums do not close: the tally is wrong then, and no number of it may be used.
    pub(crate) fn new(
        config: &TargetConfig,
        address: SocketAddr,
        started_ns: u64,
        taken_ns: u64,
        mut tally: Tally,
    ) -> Ledger {
        assert_eq!(
            tally.received,
            tally.answered + tally.closed_by_peer_unanswered + tally.in_flight,
            "every request received has exactly one outcome"
        );
        assert_eq!(tally.held.len() + tally.held_overflow, tally.answered, "one hold an answer");
        tally.arrivals.advance(taken_ns / 1_000_000);
        let (first_ms, counts) = tally.arrivals.span();

        let stalls = StallGrid::new(config, started_ns);
        let stall_count = stalls.map_or(0, |stalls| stalls.begun(taken_ns));
        let stalls_kept = stalls.iter().flat_map(|stalls| {
            let first = stall_count.saturating_sub(EDGES_MAX as u64) + 1;
            (first..=stall_count).map(|k| Span::from(stalls.edges(k)))
        });

        // A serial server sets a pause when it reads the request, so the pause may be still to come.
        let pauses = tally.pauses.iter().filter(|edges| edges.0 <= taken_ns);
        let pauses: Vec<Span> = pauses.map(|edges| Span::from(*edges)).collect();
        let pauses_to_come = (tally.pauses.len() - pauses.len()) as u64;

        Ledger {
            schema: LEDGER_SCHEMA,
            address,
            started_ns,
            taken_ns,
            received: tally.received,
            answered: tally.answered,
            closed_by_peer_unanswered: tally.closed_by_peer_unanswered,
            in_flight: tally.in_flight,
            rejected: tally.rejected,
            ledger_requests: tally.ledger_requests,
            standstills: 0,
            connections: Connections {
                accepted: tally.accepted,
                open: tally.accepted - tally.closed,
                closed: tally.closed,
                accept_errors: tally.accept_errors,
            },
            held: Held::new(&tally),
            stalls: stalls_kept.collect(),
            stall_count,
            pauses,
            pause_count: tally.pause_count - pauses_to_come,
            arrivals_per_ms: Arrivals { first_ms, counts },
            config: config.clone(),
        }
    }

    /// The document, on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("the document holds only numbers, strings and lists")
    }
}

impl From<(u64, u64)> for Span {
    fn from((begin_ns, end_ns): (u64, u64)) -> Span {
        Span { begin_ns, end_ns }
    }
}

impl Held {
    fn new(tally: &Tally) -> Held {
        let us = |value_ns: u64| value_ns as f64 / 1_000.0;
        let count = tally.answered;
        let some = |value: f64| (0 < count).then_some(value);
        let quantile = |parts: u64, of: u64| some(us(quantile_ns(tally, parts, of)));
        Held {
            unit: "us".to_owned(),
            count,
            min: some(us(tally.held_min_ns)),
            mean: some(tally.held_sum_ns as f64 / count as f64 / 1_000.0),
            p50: quantile(50, 100),
            p90: quantile(90, 100),
            p99: quantile(99, 100),
            p999: quantile(999, 1_000),
            p9999: quantile(9_999, 10_000),
            max: some(us(tally.held_max_ns)),
            overflow: tally.held_overflow,
            histogram: encode(&tally.held),
        }
    }

    /// The histogram, in ns.
    ///
    /// # Errors
    /// When the text is no histogram.
    pub fn decode(&self) -> Result<Histogram<u64>, LedgerError> {
        let bytes = BASE64.decode(&self.histogram)?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(LedgerError::Histogram)
    }
}

/// The value at quantile `parts / of`, ns: by integers, so that no rounding of the quantile can move the rank.
fn quantile_ns(tally: &Tally, parts: u64, of: u64) -> u64 {
    let rank = (u128::from(tally.answered) * u128::from(parts)).div_ceil(u128::from(of)).max(1);
    let mut seen = 0;
    for bucket in tally.held.iter_recorded() {
        seen += u128::from(bucket.count_since_last_iteration());
        if rank <= seen {
            let edge_ns = tally.held.highest_equivalent(bucket.value_iterated_to());
            return edge_ns.clamp(tally.held_min_ns, tally.held_max_ns);
        }
    }
    // The rank lies among the holds beyond the range, of which only the longest is known.
    tally.held_max_ns
}

fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("writing to memory does not fail, and the counts fit");
    BASE64.encode(bytes)
}
