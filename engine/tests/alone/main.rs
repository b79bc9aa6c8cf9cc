//! Tests of process-wide state: the global allocator and resource limits. They run one at a time.

#[path = "../suite/http2_server.rs"]
mod http2_server;
#[path = "../suite/support.rs"]
mod support;
#[path = "../suite/tls_server.rs"]
mod tls_server;

mod allocations;
mod lines;
mod open_files;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock held by the test that is running.
fn process() -> MutexGuard<'static, ()> {
    static PROCESS: Mutex<()> = Mutex::new(());
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}
