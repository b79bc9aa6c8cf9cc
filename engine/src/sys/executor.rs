//! The glommio executor that a shard runs in.

use std::io;
use std::time::Duration;

use glommio::{ExecutorJoinHandle, LocalExecutorBuilder, Placement, PoolPlacement};

/// Memory that glommio registers per executor, which our own ring doesn't use.
pub(crate) const EXECUTOR_IO_MEMORY: usize = 64 * 1024;

/// Starts an executor on a core, with the future that it runs.
///
/// # Errors
/// The kernel's refusal of its thread or its rings, or a core that doesn't exist.
///
/// # Panics
/// Where the cores' topology can't be read or io_uring is refused: the checks before a run come
/// first.
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

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getcpu;

    use super::*;
    use crate::sys::placement::allowed_cores;

    #[test]
    fn what_an_executor_runs_is_made_on_its_core() {
        for core in allowed_cores() {
            let made = || {
                let made_on = sched_getcpu();
                async move { (made_on, sched_getcpu()) }
            };
            let ended = start(core, made).expect("an executor").join().expect("it ends");
            assert_eq!(ended, (core, core), "the memory of a shard follows its first touch");
        }
    }
}
