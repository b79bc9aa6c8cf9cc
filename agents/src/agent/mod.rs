//! The agent: offers load on its machine as a controller says, within what its operator permits.
//!
//! It lives in a few threads, so that none waits for what another does:
//!
//! - the *control plane*, a glommio executor on a core without a shard where there is one: accepts
//!   connections, answers, and sends what the others have ready (`conversation`);
//! - the *run's thread*, one run after another: holds, begins, collects, keeps (`work`);
//! - a thread that prepares the run, and may wait for a name server (`prepare`);
//! - the *watcher*: ends the load when the lease is lost or the agent is asked to end (`serve`);
//! - the shards, which know of none of these;
//! - the caller of [`serve`], which is told what happens.
//!
//! What they share is the `Agent` with its lease, and the `Job`, which is one run.

mod agent;
mod config;
mod control_core;
mod conversation;
mod event;
mod job;
mod kept;
mod prepare;
mod serve;
mod work;

pub use config::{AgentConfig, AgentError};
pub use conversation::PROGRESS_NS;
pub use event::Event;
pub use job::Over;
pub use serve::{End, serve};
