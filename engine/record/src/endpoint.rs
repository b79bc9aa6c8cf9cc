//! The connections of one endpoint, and the arrivals that waited for one.
//!
//! Endpoints are counted beside the whole, and only if there are several, so a run of one host pays
//! nothing for them.

use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::counts::CountsBy;
use crate::outcome::Cause;

/// What is counted for one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointCounts {
    /// Connections opened, from setup to drain.
    pub connects: u64,
    /// Attempts to open one that failed, from setup to drain, by cause.
    pub connect_failures: CountsBy<Cause>,
    /// Connections without a request that were closed so that another endpoint gets one.
    pub yielded: u64,
    /// Arrivals of the window that found no free connection and waited for one.
    pub waited: u64,
    /// Of these, when no further connection could be opened.
    pub capped: u64,
    /// The longest wait for a connection of a request that got one, ns.
    pub wait_max_ns: u64,
}

impl EndpointCounts {
    /// Nothing yet, with all memory for counting allocated.
    pub fn preallocated() -> EndpointCounts {
        EndpointCounts { connect_failures: CountsBy::preallocated(), ..EndpointCounts::default() }
    }
}

impl AddAssign for EndpointCounts {
    fn add_assign(&mut self, other: EndpointCounts) {
        self.connects += other.connects;
        self.connect_failures += other.connect_failures;
        self.yielded += other.yielded;
        self.waited += other.waited;
        self.capped += other.capped;
        self.wait_max_ns = self.wait_max_ns.max(other.wait_max_ns);
    }
}
