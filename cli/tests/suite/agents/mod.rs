//! Many machines, one distribution: agents and a controller as users run them, on the loopback
//! interface and on machines of their own, which are network namespaces.
//!
//! `TEST_AGENTS_SCALE=20` makes windows and rates twenty times as large.

mod attachments;
mod controller;
mod discovery;
mod hosts;
mod losses;
mod network;
pub mod processes;
mod proxy;
mod rebinding;
mod refusals;
mod runs;
mod same_requests;
mod samples;
mod tls;
