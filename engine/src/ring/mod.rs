//! io_uring as the request path uses it: every system call between a request and its response.

mod buffers;
mod option;
mod outbox;
mod pages;
mod payload;
pub(crate) mod receive_stamps;
mod ring;
pub(crate) mod send_stamps;
mod sizes;
pub(crate) mod socket;
pub(crate) mod token;

pub use outbox::{OUT_BYTES, Out};
pub use payload::Payload;
pub use ring::{Completion, Ring, RingConfig, TOKEN_NONE};
pub(crate) use sizes::RingSizes;
