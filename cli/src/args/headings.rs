//! The headings under which the help lists flags.

/// Of `run`: the request.
pub(super) const REQUEST: &str = "Request";
/// Of `run`: how often, and for how long.
pub(super) const LOAD: &str = "Load";
/// Of `run`: the connections.
pub(super) const CONNECTIONS: &str = "Connections";
/// Of `run`: certificates and handshakes.
pub(super) const TLS: &str = "TLS";
/// Of `controller` and others: the agents that generate the load.
pub(super) const AGENTS: &str = "Agents";
/// Of `run`: the machine that it runs on.
pub(super) const MACHINE: &str = "Machine";
/// Of `run`: its judgement.
pub(super) const VERDICT: &str = "Verdict";
/// Of `run`: the files that it writes.
pub(super) const RESULTS: &str = "Results";
/// Of `sweep`, `search` and `ceiling`: the rates, their spacing, and the length.
pub(super) const STEPS: &str = "Steps";
/// Of `ab` and `compare`: how many slices, and the size of a change that counts.
pub(super) const COMPARISON: &str = "Comparison";
/// Of `target`: the length of its responses.
pub(super) const LATENCY: &str = "Latency";
/// Of `target`: its stalls.
pub(super) const STALLS: &str = "Stalls";
/// Of `target`: its faulty responses.
pub(super) const FAULTS: &str = "Faults";
/// Of `target`: what HTTP/2 clients must cope with.
pub(super) const HTTP2: &str = "HTTP/2";
/// Of `target`: paths with a behaviour of their own.
pub(super) const ROUTES: &str = "Routes";
/// Of `agent`: limits that no controller can exceed.
pub(super) const LIMITS: &str = "Limits";
