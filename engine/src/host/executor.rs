//! The glommio executor that a shard runs in.

use std::io;
use std::time::Duration;

use glommio::{ExecutorJoinHandle, LocalExecutorBuilder, Placement, PoolPlacement};

use super::limits::EXECUTOR_IO_MEMORY;

/// Starts an executor on a core, with the future that it runs.
///
/// # Errors
/// The kernel's refusal of its thread or its rings, or a core that doesn't exist.
///
/// # Panics
/// Where the cores' topology can't be read or io_uring is refused: [`super::require`] comes first.
pub(crate) fn start<T, F, G>(core: usize, make: G) -> io::Result<ExecutorJoinHandle<T>>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
    G: FnOnce() -> F + Send + 'static,
{
    LocalExecutorBuilder::new(Placement::Fixed(core))
        .name("truetail-shard")
        .io_memory(EXECUTOR_IO_MEMORY)
        // The request loop never parks its executor; what little runs beside it needs no early
        // wake-up.
        .preempt_timer(Duration::from_millis(100))
        // A shard never blocks, and without a thread for that none can fail to start.
        .blocking_thread_pool_placement(PoolPlacement::Custom(Vec::new()))
        .spawn(make)
        .map_err(io::Error::from)
}
