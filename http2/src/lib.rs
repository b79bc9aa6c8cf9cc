//! HTTP/2 for a client: frames, HPACK, streams and windows, on bytes.
//!
//! There is no socket and no clock here, so everything is tested with plain byte strings, at every
//! split. A request is copied and a response parsed without allocating, and no body is kept. The
//! rules are those of RFC 9113 and RFC 7541; where they leave a choice, the module that makes it
//! gives the reason.
//!
//! Start at [`client::Client`], the one connection. [`request::Requests`] renders what it sends,
//! [`hpack`] reads what comes back, and [`violation::Violation`] lists every rule that a server can
//! break, with its scope.
//!
//! What is deliberately absent: pushes, which are refused; priorities, which RFC 9113 deprecates
//! and which are ignored; CONNECT and upgrades, whose bytes can't be measured as responses.

#![forbid(unsafe_code)]

pub mod client;
pub mod code;
pub mod event;
pub mod hpack;
pub mod request;
pub mod settings;
pub mod violation;

mod block;
mod connection;
mod control;
mod flood;
mod frame;
mod reader;
mod stream;
mod streams;
mod uploads;
mod window;
