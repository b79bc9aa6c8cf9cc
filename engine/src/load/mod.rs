//! When requests are due: the open model's schedule, the paced closed model, and the queue for a
//! connection.

mod load;
pub mod schedule;

pub(crate) use load::{DueRequest, Load, OpenLoad, PacedLoad};
