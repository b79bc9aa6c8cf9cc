//! The agent: offers load on its machine for a controller, within what its operator permits.
//!
//! It has a few threads, so that none waits for another's work:
//!
//! - the *control plane*, a glommio executor on a core without a shard where there is one: accepts
//!   connections, answers, and sends what the others have ready (`conversation`);
//! - the *run's thread*, one run after another: holds, begins, collects, keeps (`work`);
//! - a thread that prepares the run, and may wait for a name server (`prepare`);
//! - the *watcher*: ends the load when the lease is lost or the agent is asked to end (`serve`);
//! - the shards, which know of none of these;
//! - the caller of [`serve()`], which receives the agent's events.
//!
//! They share the `Agent` with its lease, and the `Job`, which is one run.
//!
//! **Nothing leaves an agent after its lease,** although its process may stall at any moment and
//! resume later. Its shards read a fresh clock before each system call that sends, and take back
//! what was queued for it.
//!
//! **What ends an agent's load waits for nothing.** The watcher checks the lease every 50 ms and
//! stops the run; the control plane, which reads and sends, the run's thread, which writes files,
//! and the operator's terminal may all be stuck meanwhile. No lock is held during a wait.
//!
//! **A run's report ends up in one place.** It is delivered when the controller confirms it, with a
//! goodbye or the next plan: bytes that the kernel has taken may never arrive. An undelivered
//! report is kept on the agent's disk, with the reason in its field `uncollected`, and so is what
//! its controller would have got, for another one that resumes the run.

mod agent;
mod attachments;
mod config;
mod control_core;
mod conversation;
mod event;
mod job;
mod kept;
mod outgoing;
mod prepare;
mod serve;
mod work;

pub use config::{AgentConfig, AgentError, PORT};
pub use conversation::PROGRESS_NS;
pub use event::Event;
pub use job::Over;
pub use serve::{End, serve};
