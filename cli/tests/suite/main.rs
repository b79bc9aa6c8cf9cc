//! The binary as its users run it, and the allowed imports between crates.

mod support;

mod ab;
mod agent;
mod agents;
mod bad_workloads;
mod ceiling;
#[cfg(feature = "comparisons")]
mod comparisons;
mod deploy;
mod documents;
mod edges;
mod experiment;
mod exports;
mod floor;
mod forged;
mod gates;
mod habits;
mod hostile;
mod hosts;
mod imports;
mod judge;
mod limits;
mod live;
mod named_objectives;
mod noting_server;
mod outputs;
mod pauses;
mod phases;
mod profiles;
#[cfg(feature = "real-servers")]
mod real_servers;
mod refusals;
mod replayed_urls;
mod replays;
mod routes;
mod runs;
mod schema;
mod secrets;
mod series;
mod signals;
mod stages;
mod tls;
mod usage;
