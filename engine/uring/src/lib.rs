//! io_uring as the request path uses it: every system call between a request and its response.

mod buffers;
mod option;
mod outbox;
mod pages;
mod payload;
pub mod receive_stamps;
mod ring;
pub mod send_stamps;
mod sizes;
pub mod socket;
pub mod token;

pub use outbox::{OUT_BYTES, Out};
pub use payload::Payload;
pub use ring::{Completion, Ring, RingConfig, TOKEN_NONE};
pub use sizes::RingSizes;
