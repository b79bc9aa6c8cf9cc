//! When requests are due and which they are: the open model's schedule, the closed models, and the
//! queue for a connection.
//!
//! Everything here is a function of plan, seed and time, which is an argument. No schedule ever
//! sees a completion, so a slow target can't slow it down: this prevents coordinated omission
//! instead of correcting for it.
//!
//! **Every arrival has a number,** the same for any number of shards and agents. Whatever differs
//! between requests can then be a function of seed and number, which no message carries and
//! `verify` recomputes. The schedule numbers its arrivals (`schedule.rs`), and users their
//! requests: with a period in the order in which these are due, without one in the order in which
//! they come, with the shards taking turns. So a run of N requests has the numbers below N. A
//! request keeps its number to the end, and is known by it on its connection.
//!
//! **A share is an agent's, divided among its shards.** Agents hold units of the whole by their
//! weights, and [`share`] deals everything by the same three functions: coordinates of Poisson
//! arrivals, numbers of constant ones and connections, users. So any weights and any numbers of
//! shards add up to the whole, and there is no remainder to track.
//!
//! **Users come and go by their numbers** ([`presence`]): the first ones are there first, and stay
//! last. Agents take turns at them, so that each has its share of them at any time. A paced user's
//! requests have the numbers that they would have if all users were there all the time: the numbers
//! of those who are away are left out.
//!
//! **`--requests` becomes a window length where the plan determines it** ([`requests`]). Digest,
//! shares, proof and merge then need no count. The length of a closed loop without a period isn't
//! known in advance: each shard takes its part of the requests and ends its window when the last is
//! answered; the run's window is the longest of these.

pub mod carried;
mod closed;
pub mod cookies;
pub mod course;
pub mod curve;
mod due;
mod load;
pub mod mix;
mod paced;
pub mod presence;
pub mod replay;
pub mod requests;
pub mod rescaling;
mod routes;
pub mod schedule;
pub mod share;
pub mod think;
mod tree;
pub mod values;

pub use closed::ClosedLoad;
pub use due::DueRequest;
pub use load::{Load, OpenLoad};
pub use paced::PacedLoad;
