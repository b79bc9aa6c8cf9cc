//! When requests are due and which they are: the open model's schedule, the closed models, and the
//! queue for a connection.
//!
//! Everything here is a function of plan, seed and time, which is an argument. No schedule ever
//! sees a completion, so a slow target can't slow it down: that prevents coordinated omission
//! instead of correcting for it.
//!
//! **Every arrival has a number,** the same for any number of shards and agents. Whatever differs
//! between requests can then be a function of seed and number, which no message carries and
//! `verify` recomputes. The schedule numbers its arrivals (`schedule.rs`); a user's number is how
//! often it has come, times the number of users, plus which user it is. The number stays with a
//! request to its end, and names it on its connection.
//!
//! **A share is an agent's, divided among its shards.** Agents hold units of the whole by their
//! weights, and [`share`] deals everything by the same two functions: coordinates of Poisson
//! arrivals, numbers of constant ones, users and connections. So any weights and any numbers of
//! shards add up to the whole, and no one has to keep track of a remainder.
//!
//! **`--requests` becomes a length of the window where the plan determines it** ([`requests`]).
//! Then digest, shares, proof and merge need to know nothing of a count. A closed loop without a
//! period can't know its length: each shard takes its part of the requests and ends its window when
//! the last is answered, and the run's window is the longest of these.

mod closed;
pub mod curve;
mod due;
mod load;
pub mod mix;
mod paced;
pub mod requests;
pub mod rescaling;
pub mod schedule;
pub mod share;
mod tree;

pub use closed::ClosedLoad;
pub use due::DueRequest;
pub use load::{Load, OpenLoad};
pub use paced::PacedLoad;
