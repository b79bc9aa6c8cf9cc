//! io_uring as the request path drives it: all system calls between a request and its response.

mod buffers;
mod ring;
pub mod socket;
pub mod token;

pub use ring::*;
