//! A profile of a run: its stacks, sampled in its window, and the graphs of them.
//!
//! [`Profiler`] takes the samples: `perf record` beside the run, whose stacks go from a shard's
//! turn into the kernel; or, where perf can't be used, a signal handler in the run's own threads,
//! which sees user space only. [`Recording`] is its result, [`Format`] the file formats for it, and
//! [`Difference`] the difference between two such files.
//!
//! **Samples are shares, and the time is the kernel's account of the process.** So a profile's
//! figures per request hold for any event and any number of lost samples.
//!
//! **Polling has a function of its own,** kept from being inlined (`engine/shard/src/polling.rs`),
//! which a profile recognises by name (`names.rs`): `--wait hybrid` at 1,000/s polls for most of
//! its processor time, which divided by requests would be a cost that falls as the rate rises.
#![forbid(unsafe_code)]

mod conditions;
mod cost;
mod difference;
mod format;
mod names;
mod perf;
mod pprof_file;
mod profiler;
mod recording;
mod sampler;
mod stacks;
mod svg;
mod symbols;

pub use conditions::Conditions;
pub use cost::{Cost, NotAProfile};
pub use difference::{Change, Difference, FrameChange};
pub use format::Format;
pub use names::POLLING;
pub use profiler::Profiler;
pub use recording::Recording;
pub use stacks::Stacks;
