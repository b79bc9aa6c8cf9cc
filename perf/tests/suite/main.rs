//! The benchmarks and the simulated agents, so that they keep working.

mod agents;
mod bench;
mod support;
