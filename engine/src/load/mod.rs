//! When requests are due: the schedule of an open model, and what waits for a connection.

mod load;
pub mod schedule;

pub use load::*;
