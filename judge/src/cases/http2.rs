//! The cases on HTTP/2: targets that end connections, refuse streams or allow few.

use std::time::Duration;

use target::{Http2, TargetConfig};

use super::rate::offered;
use super::{Case, answered, needs};
use crate::tool::{Load, Mode};

/// After how many requests a connection ends in the case `goaway`.
const GOAWAY_EVERY: u64 = 100;
/// Which streams are refused in the case `refused`.
const REFUSE: u64 = 10;
/// The most streams of a connection whose last answers may still be under way.
const OPEN_EACH: f64 = 10.0;

/// Connections end.
pub(super) const GOAWAY: Case = Case {
    name: "goaway",
    holds: "Each connection is ended gracefully after 100 requests (GOAWAY): as many requests reach \
            the target as the rate asks for, 300 per second, and as many answers are counted as it \
            gave.",
    truth: "rate · duration, and the answers in the target's ledger",
    tolerance: "that of rate; for the answers, the last ones of each connection, which may still be \
                under way, at most 10",
    reply: "A connection that has ended is the target's decision, and not opened again.",
    load: Load::at(300.0, 4, 4),
    mode: |tool| needs(tool, Mode::Http2, "it keeps no rate over HTTP/2"),
    figures: &["answered"],
    target: |config, _| {
        behaved(config, Http2 { goaway_every: Some(GOAWAY_EVERY), ..Http2::default() })
    },
    judge: |of| [offered(of)].into_iter().chain(answered(of, OPEN_EACH)).collect(),
    ..Case::NONE
};

/// Streams are refused.
pub(super) const REFUSED: Case = Case {
    name: "refused",
    holds: "Every tenth stream is refused (REFUSED_STREAM): no more answers are counted than the \
            target gave.",
    truth: "the answers in the target's ledger, which counts refused streams apart",
    tolerance: "the last answers of each connection, which may still be under way",
    reply: "",
    target: |config, _| behaved(config, Http2 { refuse: Some(REFUSE), ..Http2::default() }),
    judge: |of| answered(of, OPEN_EACH).into_iter().collect(),
    ..GOAWAY
};

/// One stream at a time.
pub(super) const ONE_STREAM: Case = Case {
    name: "one-stream",
    holds: "The same if each connection may have one stream open (SETTINGS_MAX_CONCURRENT_STREAMS).",
    reply: "",
    target: |config, _| behaved(config, Http2 { max_streams: Some(1), ..Http2::default() }),
    ..GOAWAY
};

fn behaved(config: TargetConfig, http2: Http2) -> TargetConfig {
    TargetConfig { base_latency: Duration::from_millis(2), http2, ..config }
}
