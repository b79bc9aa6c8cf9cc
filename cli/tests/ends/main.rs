//! How the binary ends where something is in its way: signals, limits, what the machine refuses.
//! The result is whole or absent, nothing is left behind, and one line says why.

#[path = "../suite/support.rs"]
mod support;

mod agent;
mod limits;
mod live;
mod outputs;
mod phases;
mod profiles;
mod refusals;
mod secrets;
mod signals;
