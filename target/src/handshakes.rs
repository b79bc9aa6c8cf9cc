//! The TLS handshakes of clients, by outcome.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Counts of TLS handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handshakes {
    /// With a certificate and a new key exchange.
    pub full: u64,
    /// That resumed an earlier session.
    pub resumed: u64,
    /// That failed, for any reason.
    pub failed: u64,
}

impl AddAssign for Handshakes {
    fn add_assign(&mut self, other: Handshakes) {
        self.full += other.full;
        self.resumed += other.resumed;
        self.failed += other.failed;
    }
}
