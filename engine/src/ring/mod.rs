//! io_uring as the request path uses it: every system call between a request and its response.

mod buffers;
mod ring;
pub(crate) mod socket;
pub(crate) mod token;

pub(crate) use ring::RingSizes;
pub use ring::{Completion, Ring, RingConfig, TOKEN_NONE};
