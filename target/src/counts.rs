//! One executor's counts, in memory that doesn't grow: counters, those of each route, the ring of
//! arrivals.

use std::collections::VecDeque;
use std::ops::AddAssign;

use crate::TargetConfig;
use crate::arrivals::ArrivalRing;
use crate::handshakes::Handshakes;
use crate::outcomes::Outcomes;
use crate::service::Due;
use crate::shop::ShopCounts;

/// The most stalls and pauses whose start and end are kept; older ones are only counted.
pub(crate) const EDGES_MAX: usize = 4_096;

/// The counts of one executor, or their sum over several.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// Requests, except those for the ledger: those of the paths without a route, then those of
    /// each route.
    pub(crate) outcomes: Vec<Outcomes>,
    /// Arrivals per ms.
    pub(crate) arrivals: ArrivalRing,
    /// Start and end of the last pauses, ns.
    pub(crate) pauses: VecDeque<(u64, u64)>,
    /// The total number of pauses.
    pub(crate) pause_count: u64,
    /// Of those received, the ones that took longer because the target was cold.
    pub(crate) cold: u64,
    /// Connections accepted.
    pub(crate) accepted: u64,
    /// Connections closed, by either side.
    pub(crate) closed: u64,
    /// Connections that spoke HTTP/2.
    pub(crate) http2: u64,
    /// HTTP/2 connections that were sent a GOAWAY as configured.
    pub(crate) goaways: u64,
    /// Failed accepts, for lack of descriptors or memory.
    pub(crate) accept_errors: u64,
    /// TLS handshakes.
    pub(crate) handshakes: Handshakes,
    /// Requests that broke HTTP/1.1, answered with an error and a close, and connections that broke
    /// HTTP/2.
    pub(crate) rejected: u64,
    /// HTTP/2 streams that were refused as configured.
    pub(crate) refused: u64,
    /// Requests for the ledger.
    pub(crate) ledger_requests: u64,
    /// What the shop counts, if there is one.
    pub(crate) shop: Option<ShopCounts>,
}

impl Counts {
    /// Zero counts for a target that started at `started_ns`. All memory is allocated here.
    pub(crate) fn new(config: &TargetConfig, started_ns: u64) -> Counts {
        Counts {
            outcomes: (0..=config.routes.len()).map(|_| Outcomes::new()).collect(),
            arrivals: ArrivalRing::new(started_ns),
            pauses: VecDeque::with_capacity(EDGES_MAX),
            pause_count: 0,
            cold: 0,
            accepted: 0,
            closed: 0,
            http2: 0,
            goaways: 0,
            accept_errors: 0,
            handshakes: Handshakes::default(),
            rejected: 0,
            refused: 0,
            ledger_requests: 0,
            shop: config.shop.then(ShopCounts::new),
        }
    }

    /// Counts a request of this route read in full, whose first bytes arrived at `arrived_ns`.
    pub(crate) fn receive(&mut self, route: usize, arrived_ns: u64, due: Due) {
        self.outcomes[route].receive();
        self.cold += u64::from(due.cold);
        self.arrivals.count(arrived_ns);
        if let Some(edges) = due.pause {
            self.pause_count += 1;
            if self.pauses.len() == EDGES_MAX {
                self.pauses.pop_front();
            }
            self.pauses.push_back(edges);
        }
    }

    /// The sum over all routes.
    pub(crate) fn whole(&self) -> Outcomes {
        let mut whole = self.outcomes[0].clone();
        for route in &self.outcomes[1..] {
            whole += route;
        }
        whole
    }
}

impl AddAssign<&Counts> for Counts {
    /// Adds another executor's counts, which contain neither pauses nor cold requests: these need a
    /// single executor.
    fn add_assign(&mut self, other: &Counts) {
        for (own, others) in self.outcomes.iter_mut().zip(&other.outcomes) {
            *own += others;
        }
        self.arrivals.add(&other.arrivals);
        assert!(other.pauses.is_empty(), "only a single executor pauses");
        assert_eq!(other.cold, 0, "only a single executor starts cold");
        self.accepted += other.accepted;
        self.closed += other.closed;
        self.http2 += other.http2;
        self.goaways += other.goaways;
        self.accept_errors += other.accept_errors;
        self.handshakes += other.handshakes;
        self.rejected += other.rejected;
        self.refused += other.refused;
        self.ledger_requests += other.ledger_requests;
        if let (Some(own), Some(others)) = (&mut self.shop, &other.shop) {
            *own += others;
        }
    }
}
