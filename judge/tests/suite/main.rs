//! The tests of the judge: outputs that it reads, commands that it runs, and generators with one bug
//! each that it must convict.

mod adapters;
mod mutants;
mod runner;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A run and its target have the machine for themselves: a target's freeze begins with it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
