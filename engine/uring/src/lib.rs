//! io_uring as the request path uses it: every system call between a request and its response.
//!
//! [`Ring`] is one shard's ring, on the shard's own thread. It knows sockets, bytes and tokens, and
//! nothing of HTTP or requests. All memory that the kernel may touch belongs to it, and the
//! engine's `unsafe` code is in this room's files, each block with the reason why it is sound.

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
