//! The allocation seal: marks when a shard's thread must not allocate.
//!
//! A shard seals its thread once all memory is allocated, and unseals it while it looks up from its
//! requests. An allocator that checks [`is_sealed`], as the one in the tests does, can count
//! violations.

use std::cell::Cell;

thread_local! {
    static SEALED: Cell<bool> = const { Cell::new(false) };
    static LENT: Cell<bool> = const { Cell::new(false) };
}

/// From here on this thread must not allocate.
pub fn seal() {
    SEALED.set(true);
}

/// This thread may allocate again.
pub fn unseal() {
    SEALED.set(false);
}

/// Whether this thread is in a stretch that must not allocate.
pub fn is_sealed() -> bool {
    SEALED.get() && !LENT.get()
}

/// Calls what allocates by itself, a library's code: [`is_lent`] tells its allocations apart.
#[inline]
pub fn lend<T>(call: impl FnOnce() -> T) -> T {
    LENT.set(true);
    let result = call();
    LENT.set(false);
    result
}

/// Whether a sealed thread is in such a call.
pub fn is_lent() -> bool {
    SEALED.get() && LENT.get()
}
