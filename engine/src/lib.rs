//! The load generator: a plan goes in, shards offer its load and measure, a report comes out.
//!
//! It prints nothing and parses no arguments; its errors are values. This crate holds no code: each
//! room of the engine is a crate in a folder beside these sources, so that the compiler limits each
//! to the rooms that its manifest names. This crate gathers them under one name.
//!
//! # Where to start
//!
//! - **What a run does**, as data: [`plan::Plan`].
//! - **The life of a run**, from its plan to its report: [`run::Run`], in `run/src/run.rs`.
//! - **One request**, from its due time to its outcome: `Shard::turn`, in `shard/src/request.rs`.
//! - **What a run found:** [`report::Report`], whose structure is that of the JSON document.
//! - **Why a run is suspect or invalid:** the table of rules, [`report::RULES`].
//!
//! # The rooms
//!
//! A room may import the rooms above it in this list, as far as its manifest names them.
//!
//! | room | its job |
//! | --- | --- |
//! | [`sys::units`] | numbers with units, in the notation people use |
//! | [`plan`] | what to do: the plan, its defaults and contradictions, and the requests it makes |
//! | [`load`] | when requests are due, and which request each of them is |
//! | [`stats`] | histograms, confidence intervals, stationarity, the proof of arrivals as planned |
//! | [`record`] | outcomes become numbers: counters, distributions, the run over time |
//! | [`report`] | shards' numbers merged, laid out as a document, and judged |
//! | [`sys`] | the clocks, CPU placement, and what the threads of a run share |
//! | [`uring`] | io_uring: every system call between a request and its response |
//! | `tls` | the TLS client; not exported, since only the engine uses it |
//! | [`samples`] | raw samples: one record per request, written by a thread of its own |
//! | [`host`] | the generator's machine: checks before a run, and the watch during it |
//! | [`shard`] | one pinned core's request loop |
//! | [`run`] | the life of a run: from a plan to its report |
//! | [`verify`] | recomputes a report from itself and from raw samples |
//!
//! ARCHITECTURE.md, in the repository's root, follows one request through six files, lists the
//! invariants that span rooms, and shows where to add things. What concerns one room stands in the
//! documentation of that room and of its files.

/// The clocks, CPU placement, what a run's threads share, and numbers with units.
pub mod sys {
    pub use ::sys::*;
    pub use units;
}

pub use {host, load, plan, record, report, run, samples, shard, stats, uring, verify};
