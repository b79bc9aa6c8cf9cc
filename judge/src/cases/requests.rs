//! The case on what is open at the end: every request is accounted for.

use std::time::Duration;

use target::TargetConfig;

use super::{Case, Finding, answered, closed_first};
use crate::tool::Load;
use crate::truth::Band;

/// Every request is accounted for.
pub(super) const REQUESTS: Case = Case {
    name: "requests",
    holds: "sent = answered + failed + open: each request has an outcome, also those that are open \
            at the end because the target holds each for 0.4 s.",
    truth: "the requests that the ledger counts as received, and as answered",
    tolerance: "none for the sum; for the answered, the last answer of each connection, which may \
                still be under way",
    reply: "What is open when the time is up is dropped, and the documentation says so.",
    load: Load::at(80.0, 40, 3),
    mode: closed_first,
    figures: &["answered"],
    target: |config, _| TargetConfig { base_latency: Duration::from_millis(400), ..config },
    judge: |of| {
        let received = Band::exactly(of.ledger.received as f64);
        let figures = of.figures;
        let all = [
            figures.sent.map(|sent| Finding::count("sent", sent, received)),
            answered(of, 1.0),
            figures
                .accounted()
                .map(|found| Finding::count("answered + failed + open", found, received)),
        ];
        all.into_iter().flatten().collect()
    },
    ..Case::NONE
};
