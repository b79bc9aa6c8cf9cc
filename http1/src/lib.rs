//! Bytes to meaning: render an HTTP/1.1 request once, parse its responses as they arrive.
//!
//! There is no socket and no clock here, so everything can be tested with plain byte strings, and
//! nothing is allocated for the common response. The rules are those of RFC 9110 and RFC 9112;
//! where they leave a choice, the module that makes it says why.

#![forbid(unsafe_code)]

pub mod request;
pub mod response;
mod syntax;
