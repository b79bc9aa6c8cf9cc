//! The allocation seal: marks when a shard's thread must not allocate.
//!
//! A shard seals its thread once all memory is allocated, and unseals it while it does anything but
//! serve requests. An allocator that checks [`is_sealed`], such as the one in the tests, can count
//! violations.

use std::cell::Cell;

thread_local! {
    static SEALED: Cell<bool> = const { Cell::new(false) };
    static LENT: Cell<bool> = const { Cell::new(false) };
}

/// From here on this thread mustn't allocate.
pub fn seal() {
    SEALED.set(true);
}

/// This thread may allocate again.
pub fn unseal() {
    SEALED.set(false);
}

/// True if this thread mustn't allocate now.
pub fn is_sealed() -> bool {
    SEALED.get() && !LENT.get()
}

/// Calls library code that allocates; [`is_lent`] tells its allocations apart.
#[inline]
pub fn lend<T>(call: impl FnOnce() -> T) -> T {
    LENT.set(true);
    let result = call();
    LENT.set(false);
    result
}

/// True if a sealed thread is in such a call.
pub fn is_lent() -> bool {
    SEALED.get() && LENT.get()
}
