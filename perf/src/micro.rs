//! Micro benchmarks: ns per call of the hot functions.
//!
//! Each function runs in batches after a warm-up. The figure is the median of the batches; the
//! fastest and the slowest show how quiet the machine was.

use std::time::Instant;

use crate::hot::{self, Hot};
use crate::summary::{Spread, heading, show, table};

/// Prints the table.
pub(crate) fn print(quick: bool) {
    let (batches, calls) = if quick { (3, 1_000) } else { (21, 200_000) };
    println!("## Hot functions\n");
    println!("ns per call, of {batches} batches of {calls} calls after a warm-up:\n");
    let all = hot::functions().into_iter().chain(hot::fields());
    let rows: Vec<_> = all.map(|function| row(function, batches, calls)).collect();
    println!("{}", table(&heading(&["function", "median", "fastest", "slowest"]), &rows));
}

fn row(function: Hot, batches: usize, calls: u64) -> Vec<String> {
    let Hot { name, mut call } = function;
    // The first batch fills caches and trains the branch predictor.
    call(calls);
    let batch = |_| {
        let start = Instant::now();
        call(calls);
        start.elapsed().as_secs_f64() * 1e9 / calls as f64
    };
    let Spread { median, lowest, highest } =
        Spread::of((0..batches).map(batch)).expect("there are batches");
    let mut row = vec![name];
    row.extend([median, lowest, highest].map(|ns| show(ns, 1)));
    row
}
