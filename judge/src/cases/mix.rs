//! The case on routes: each has its share of the requests, and percentiles of its own.

use std::time::Duration;

use target::{Route, TargetConfig};

use super::percentiles::{CLIENT_MS, plain, within};
use super::{Case, Finding, Judged, needs};
use crate::tool::{Load, Mode, ROUTES};
use crate::truth::Band;

/// What the routes hold their requests for, ms.
const HOLDS_MS: [u64; 2] = [2, 50];
/// The share of the first.
const SHARE: f64 = 0.75;

/// Two routes.
pub(super) const MIX: Case = Case {
    name: "mix",
    holds: "Three requests of /fast, which takes 2 ms, for one of /slow, which takes 50 ms: both \
            have their share at the target, and percentiles printed by route are that route's.",
    truth: "three quarters of the ledger's requests; the routes' hold times",
    tolerance: "4·√(p(1−p)/n) for the share, since routes may be drawn at random; percentiles upwards \
                5 ms for client and kernel",
    reply: "",
    load: Load::at(400.0, 64, 4),
    mode: |tool| needs(tool, Mode::Mix, "it has no routes with weights"),
    target: |config, _| {
        let route = |(route, ms): (&str, u64)| Route {
            base_latency: Duration::from_millis(ms),
            ..config.route(&format!("/{route}"))
        };
        let routes = ROUTES.into_iter().zip(HOLDS_MS).map(route).collect();
        TargetConfig { routes, ..config }
    },
    judge: mixed,
    ..Case::NONE
};

fn mixed(of: &Judged) -> Vec<Finding> {
    let received = |route: usize| of.ledger.routes.get(route).map_or(0, |counts| counts.received);
    let (fast, n) = (received(0) as f64, of.ledger.received.max(1) as f64);
    let reach = 4.0 * (SHARE * (1.0 - SHARE) / n).sqrt();
    let band = Band { low: SHARE - reach, truth: SHARE, high: SHARE + reach };
    let share = Finding::count("share of /fast", fast / n, band);
    let percentiles = ROUTES.into_iter().zip(HOLDS_MS).enumerate().flat_map(|(at, (route, ms))| {
        let printed =
            of.figures.percentiles.iter().filter(|one| one.route.as_deref() == Some(route));
        within(printed, &plain(ms as f64), received(at) as f64, CLIENT_MS)
    });
    [share].into_iter().chain(percentiles).collect()
}
