//! When requests are due and which they are: the open model's schedule, the closed models, and the
//! queue for a connection.

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
