//! When requests are due: the open model's schedule, the paced closed model, and the queue for a
//! connection.

mod due;
mod load;
mod paced;
pub mod requests;
pub mod schedule;
pub mod share;
mod tree;

pub(crate) use due::DueRequest;
pub(crate) use load::{Load, OpenLoad};
pub(crate) use paced::PacedLoad;
