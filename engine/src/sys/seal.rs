//! The allocation seal: marks when a shard's thread must not allocate.
//!
//! A shard seals its thread once all memory is allocated, and unseals it while it yields to the
//! executor. An allocator that checks [`is_sealed`], as the one in the tests does, can count
//! violations.

use std::cell::Cell;

thread_local! {
    static SEALED: Cell<bool> = const { Cell::new(false) };
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
    SEALED.get()
}
