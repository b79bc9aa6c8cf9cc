//! What needs a process of its own: an allocator that counts.

mod allocations;
