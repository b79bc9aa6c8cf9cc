//! Marks the stretch of a shard's life in which it must not allocate.
//!
//! The shard seals its thread when all memory is built and opens the seal where it yields to the executor. An allocator
//! that asks [`is_sealed`], as the tests' one does, can count what breaks the rule.

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
