//! The request loop allocates nothing: counted by an allocator that asks the engine whether the thread is sealed.
#![allow(unsafe_code, reason = "a global allocator can't be written without it")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use engine::plan::Plan;
use engine::seal;
use engine::units::Nanos;
use support::{always_ok, open, plan, run, serve};

struct Counting;

static SEALED_ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

fn count() {
    if seal::is_sealed() {
        SEALED_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches an atomic only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(address, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_request_loop_allocates_nothing() {
    // The counter counts: a sealed thread that allocates is seen.
    seal::seal();
    drop(std::hint::black_box(Vec::<u8>::with_capacity(64)));
    seal::unseal();
    assert_eq!(SEALED_ALLOCATIONS.swap(0, Ordering::Relaxed), 1);

    let address = serve(always_ok);
    let plans = [
        open(plan(address), "2k"),
        Plan { conns: Some(8), ..plan(address) },
        Plan { conns: Some(8), period: Some(Nanos(5_000_000)), ..plan(address) },
    ];
    for plan in plans {
        let finished = run(plan.clone());
        assert!(500 < finished.report.whole.counts.answered, "{:?}", finished.report.whole.counts);
        assert_eq!(SEALED_ALLOCATIONS.load(Ordering::Relaxed), 0, "{plan:?}");
    }
}
