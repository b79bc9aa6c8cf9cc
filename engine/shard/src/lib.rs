//! One pinned core's request loop; one pass of it is a turn.
//!
//! A shard shares nothing: a [`ShardPlan`] goes in and a `ShardReport` comes out, both plain data.
//! Only the shard with its meter reads a clock; everything it calls takes time as an argument. Once
//! all memory is allocated, the loop allocates nothing (`sys::seal`).
//!
//! # Where to start
//!
//! | file | what it does |
//! | --- | --- |
//! | `request` | the turn, and one request from its due time to its one outcome: start at `turn` |
//! | `wire` | what it hands to the kernel: connect, send, receive, close; the `sent` stamp |
//! | `http1`, `http2`, `protocol` | what received bytes mean, and for which request |
//! | `streams` | HTTP/2: what happens to streams, the requests that are sent again (`requeue`), and
//! the frames that leave |
//! | `users` | the users of a closed model: each has its connection, or waits for it |
//! | `connect`, `connections` | opens connections where one is missing; which have room |
//! | `connection` | one of them: a `socket`, its `exchanges`, its `protocol` and its `output` |
//! | `secure` | TLS, between the ring and the requests |
//! | `setup`, `life` | what comes before the turns, and after them |
//! | `recording`, `meter`, `progress` | its results, its own resource use, and the progress that
//! others see |
//!
//! # Decisions
//!
//! - **A shard is a thread that drives its own ring.** An executor's streams make a system call for
//!   every send and receive, and a shard has nothing else to do in the meantime. glommio's also
//!   leaks a descriptor when it ends, since a task's memory is freed without the executor handle in
//!   it: an agent that serves many runs would leak one per shard and run.
//! - **A shard's memory is on its own node without a policy.** The thread moves to its core before
//!   it builds the shard, and Linux puts a page on the node of the thread that first touches it:
//!   receive buffers are populated when they are mapped, blocks of raw samples are written once.
//!   `numactl` still overrides this.
//! - **Its numbers, phases, clock and pool are separate types** (`recording`, `phases`, `clock`,
//!   `connections`). Each keeps private what only it may change, so that a phase ends, or the
//!   completions' clock advances, through a named method.

mod behind;
mod checked;
mod clock;
mod connect;
mod connection;
mod connections;
mod content;
mod deadlines;
mod event;
mod exchange;
mod exchanges;
mod http1;
mod http2;
mod life;
mod meter;
#[cfg(test)]
mod mixed;
mod output;
mod own;
mod phases;
mod plan;
mod polling;
pub mod progress;
mod protocol;
mod receive_stamps;
mod recording;
mod request;
mod requeue;
mod roaming;
mod secure;
mod send_stamps;
mod sessions;
mod setup;
mod shard;
mod slots;
mod socket;
mod streams;
mod users;
mod wire;

pub use self::http2::REQUEST_BLOCK_MAX;
pub use self::plan::{Drive, Endpoint, ShardPlan, Step, ending_max};
pub use self::shard::SEND_SILENT_MAX;
pub use self::shard::Shard;
pub use life::DRAIN_INTERRUPTED_NS;
pub use life::EPOCH_AHEAD_NS;
pub use meter::{ShardMeter, ShardTime};
pub use progress::{CoarseHistogram, Lateness};
