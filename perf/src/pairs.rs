//! The cost of truetail's own features: CPU per request with each of them on and off.

use std::time::Duration;

use anyhow::Result;

use crate::bench::{Bench, cpu_us_per_request};
use crate::process::Stderr;
use crate::servers::NullTarget;
use crate::summary::{Spread, heading, or_dash, show, table};

/// Connections of the closed loop.
const CONNS: usize = 64;

/// A header, and the same with fields.
const HEADED: [&str; 2] = ["-H", "X-Id: 0123456789abcdef0123456789abcdef0123456789abcdef"];
const ONE_FIELD: [&str; 2] = ["-H", "X-Id: 0123456789abcdef0123456789abcdef0123456789{{seq}}"];
const EIGHT_FIELDS: [&str; 2] = [
    "-H",
    "X-Id: {{seq}}{{rand 1 99}}{{zipf 1 99}}{{seq}}{{rand 1 99}}{{zipf 1 99}}{{seq}}{{rand 1 9}}",
];

/// The manner of a run.
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
         pairs, of the process and of its shards alone:\n"
    );
    let target = NullTarget::start(bench, CONNS, false)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("raw.samples").display().to_string();
    let plain = Manner { flags: &[], stderr: Stderr::File };
    let unsampled = Manner { flags: &["--stamp-sends", "off"], ..plain };
    let user = Manner { flags: &["--stamps", "user"], ..plain };
    let headed = Manner { flags: &HEADED, ..plain };
    let pairs = [
        ("`--raw`", Manner { flags: &["--raw", &file], ..plain }, &plain),
        ("`--stamps kernel`", Manner { ..plain }, &user),
        ("`--stamp-sends 1/1000`", Manner { ..plain }, &unsampled),
        ("progress line", Manner { stderr: Stderr::Terminal, ..plain }, &plain),
        ("all three", Manner { flags: &["--raw", &file], stderr: Stderr::Terminal }, &user),
        ("a header of one field", Manner { flags: &ONE_FIELD, ..plain }, &headed),
        ("a header of eight fields", Manner { flags: &EIGHT_FIELDS, ..plain }, &headed),
        ("`--trace`", Manner { flags: &["--trace"], ..plain }, &plain),
        ("`--live`", Manner { flags: &["--live"], stderr: Stderr::Terminal }, &plain),
    ];
    let mut rows = Vec::new();
    for (name, with, without) in &pairs {
        let mut on = Vec::new();
        let mut off = Vec::new();
        for round in 0..rounds {
            let cost = |manner: &Manner| Cost::of_a_run(bench, &target.url, manner, length);
            // They take turns at going first.
            if round % 2 == 0 {
                off.push(cost(without)?);
                on.push(cost(with)?);
            } else {
                on.push(cost(with)?);
                off.push(cost(without)?);
            }
        }
        let multiple = |of: fn(&Cost) -> f64| {
            let ratio = Spread::of(on.iter().zip(&off).map(|(on, off)| of(on) / of(off)));
            or_dash(ratio.map(|ratio| ratio.show(3)))
        };
        let multiples = [multiple(|cost| cost.process_us), multiple(|cost| cost.shards_us)];
        let median = |costs: &[Cost]| {
            let spread = Spread::of(costs.iter().map(|cost| cost.process_us));
            or_dash(spread.map(|spread| show(spread.median, 2)))
        };
        let row = vec![(*name).to_owned(), median(&off), median(&on)];
        rows.push([row, multiples.into()].concat());
    }
    target.stop()?;
    let columns = ["feature", "off", "on", "multiple", "of the shards"];
    println!("{}", table(&heading(&columns), &rows));
    Ok(())
}

/// CPU time per request of a run, µs.
struct Cost {
    /// Of the whole process.
    process_us: f64,
    /// Of its shards within the window.
    shards_us: f64,
}

impl Cost {
    fn of_a_run(bench: &Bench, url: &str, manner: &Manner, length: Duration) -> Result<Cost> {
        let (report, finished) =
            bench.run_closed(url, CONNS, manner.flags, length, manner.stderr)?;
        let answered = report.whole.counts.answered as f64;
        Ok(Cost { process_us: finished.cpu_us / answered, shards_us: cpu_us_per_request(&report) })
    }
}
