//! The cases on HTTP/2: targets that end connections, refuse streams or allow few.

use std::time::Duration;

use target::{Http2, TargetConfig};

use super::rate::offered;
use super::{Case, Finding, Judged};
use crate::tool::{Load, Mode};
use crate::truth::Band;

/// After how many requests a connection ends in the case `goaway`.
const GOAWAY_EVERY: u64 = 100;
/// Which streams are refused in the case `refused`.
const REFUSE: u64 = 10;

/// Connections end.
pub(super) const GOAWAY: Case = Case {
    name: "goaway",
    holds: "Each connection is ended gracefully after 100 requests (GOAWAY): as many requests reach \
            the target as the rate asks for, 300 per second, and as many answers are counted as it \
            gave.",
    truth: "rate · duration, and the answers in the target's ledger",
    tolerance: "that of rate; for the answers, the last ones of each connection, which may still be \
                under way",
    reply: "A connection that has ended is the target's decision, and not opened again.",
    load: Load::at(300.0, 4, 4),
    mode: |tool| match tool.has(Mode::Http2) {
        true => Ok(Mode::Http2),
        false => Err("it keeps no rate over HTTP/2".to_owned()),
    },
    figures: &["answered"],
    target: |config, _| {
        behaved(config, Http2 { goaway_every: Some(GOAWAY_EVERY), ..Http2::default() })
    },
    judge: |of| [offered(of)].into_iter().chain(answers(of)).collect(),
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
    judge: |of| answers(of).into_iter().collect(),
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

/// The answers that it counts.
fn answers(of: &Judged) -> Option<Finding> {
    let truth = of.ledger.answered as f64;
    // A handful of streams on each connection may be open at the end.
    let low = truth - 10.0 * f64::from(of.load.connections);
    let band = Band { low, truth, high: truth };
    of.figures.answered.map(|found| Finding::count("answered", found, band))
}
