//! When requests are due: the schedule of an open model, and what waits for a connection.

mod load;
pub mod schedule;

pub(crate) use load::{DueRequest, Load, OpenLoad, PacedLoad};
