//! What truetail's own features cost: CPU per request with each of them on against off.

use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::process::Stderr;
use crate::servers::NullTarget;
use crate::summary::{Spread, heading, or_dash, show, table};

/// Connections of the closed loop.
const CONNS: usize = 64;

/// How a run is done.
struct Manner<'a> {
    flags: &'a [&'a str],
    /// On a terminal the progress line is shown.
    stderr: Stderr,
}

/// Prints the table.
pub(crate) fn print(bench: &Bench, quick: bool) -> Result<()> {
    let (length, rounds) =
        if quick { (Duration::from_millis(400), 1) } else { (Duration::from_secs(2), 5) };
    println!("## Cost of features\n");
    println!(
        "Closed loop on {CONNS} connections, runs of {length:?} in pairs ({rounds}); CPU of the \
         whole process in µs per request, medians; the multiple as median (lowest–highest) of the \
         pairs:\n"
    );
    let target = NullTarget::start(bench, CONNS)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("raw.samples").display().to_string();
    let plain = Manner { flags: &[], stderr: Stderr::File };
    let unsampled = Manner { flags: &["--stamp-sends", "off"], ..plain };
    let user = Manner { flags: &["--stamps", "user"], ..plain };
    let pairs = [
        ("`--raw`", Manner { flags: &["--raw", &file], ..plain }, &plain),
        ("`--stamps kernel`", Manner { ..plain }, &user),
        ("`--stamp-sends 1/1000`", Manner { ..plain }, &unsampled),
        ("progress line", Manner { stderr: Stderr::Terminal, ..plain }, &plain),
        ("all three", Manner { flags: &["--raw", &file], stderr: Stderr::Terminal }, &user),
    ];
    let mut rows = Vec::new();
    for (name, with, without) in &pairs {
        let mut on = Vec::new();
        let mut off = Vec::new();
        for round in 0..rounds {
            let cost = |manner: &Manner| cpu_us_per_request(bench, &target.url, manner, length);
            // Either goes first in turn.
            if round % 2 == 0 {
                off.push(cost(without)?);
                on.push(cost(with)?);
            } else {
                on.push(cost(with)?);
                off.push(cost(without)?);
            }
        }
        let ratio = Spread::of(on.iter().zip(&off).map(|(on, off)| on / off));
        let median =
            |values: Vec<f64>| or_dash(Spread::of(values).map(|spread| show(spread.median, 2)));
        let ratio = or_dash(ratio.map(|ratio| ratio.show(3)));
        rows.push(vec![(*name).to_owned(), median(off), median(on), ratio]);
    }
    target.stop()?;
    println!("{}", table(&heading(&["feature", "off", "on", "multiple"]), &rows));
    Ok(())
}

fn cpu_us_per_request(bench: &Bench, url: &str, manner: &Manner, length: Duration) -> Result<f64> {
    let (report, finished) = bench.run_closed(url, CONNS, manner.flags, length, manner.stderr)?;
    Ok(finished.cpu_us / report.whole.counts.answered as f64)
}
