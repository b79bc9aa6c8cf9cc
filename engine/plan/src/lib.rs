//! The plan of a run, its defaults and contradictions, and the requests that it makes.
//!
//! Start at [`Plan`], whose fields are named like the flags. [`Plan::complete`] fills in its
//! defaults and refuses every contradiction before anything runs.
//!
//! This room reads no clock and opens no socket. The only files it reads are those that requests
//! are made of: bodies, data and a log that is sent again.

pub mod access_log;
pub mod address;
pub mod blocks;
pub mod body;
mod braces;
pub mod capture;
pub mod check;
mod complete;
pub mod content;
pub mod data;
pub mod endpoint;
pub mod endpoints;
mod error;
pub mod expect;
pub mod flatten;
mod json_pointer;
pub mod literal;
mod objectives;
mod pattern;
mod place;
mod plan;
pub mod redact;
pub mod redirect;
pub mod replay;
mod replayed;
pub mod request;
pub mod route;
pub mod scenario;
pub mod similar;
pub mod slo;
pub mod stage;
mod stages;
pub mod status;
mod steps;
pub mod template;
pub mod think;
pub mod thresholds;
pub mod when;

pub use complete::{
    CONNS_CLOSED_DEFAULT, CONNS_OPEN_DEFAULT, DURATION_MAX, FLUSH_CLOSED_DEFAULT, FLUSH_MAX,
    FLUSH_OPEN_DEFAULT, PIPELINE_MAX, QUEUE_MAX_DEFAULT, SESSIONS_MAX_DEFAULT, SESSIONS_MAX_MAX,
    SETTLE_TIMES_MAX, SLOWEST_DEFAULT, SLOWEST_MAX, STAMP_SENDS_DEFAULT, STREAMS_DEFAULT,
    STREAMS_MAX,
};
pub use endpoints::CONNS_MAX;
pub use error::PlanError;
pub use plan::*;
pub use stages::PARTS_MAX;
