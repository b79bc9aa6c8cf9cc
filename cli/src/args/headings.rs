//! The headings under which the help lists flags.

/// Of `run`: what is requested.
pub(super) const REQUEST: &str = "Request";
/// Of `run`: how often, and for how long.
pub(super) const LOAD: &str = "Load";
/// Of `run`: over which connections.
pub(super) const CONNECTIONS: &str = "Connections";
/// Of `run`: certificates and handshakes.
pub(super) const TLS: &str = "TLS";
/// Of `controller` and others: which agents generate the load.
pub(super) const AGENTS: &str = "Agents";
/// Of `run`: where it runs, and how.
pub(super) const MACHINE: &str = "Machine";
/// Of `run`: what it is judged by.
pub(super) const VERDICT: &str = "Verdict";
/// Of `run`: which files it writes.
pub(super) const RESULTS: &str = "Results";
/// Of `sweep`, `search` and `ceiling`: which rates, how closely, and for how long.
pub(super) const STEPS: &str = "Steps";
/// Of `ab` and `compare`: how much, and what counts.
pub(super) const COMPARISON: &str = "Comparison";
/// Of `target`: how long its responses take.
pub(super) const LATENCY: &str = "Latency";
/// Of `target`: when it stops.
pub(super) const STALLS: &str = "Stalls";
/// Of `agent`: what no controller can exceed.
pub(super) const LIMITS: &str = "Limits";
