//! HTTP/1.1 for a client: render a request once, parse its responses as they arrive.
//!
//! There is no socket and no clock here, so everything is tested with plain byte strings, and
//! typical responses are parsed without allocating. The rules are those of RFC 9110 and RFC 9112;
//! where they leave a choice, the module that makes it gives the reason.

#![forbid(unsafe_code)]

pub mod request;
pub mod response;
mod syntax;
