//! The cost of many routes: CPU per request and memory of a hundred of them, with and without
//! fields, against one route at the same rate.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use engine::plan::CONNS_OPEN_DEFAULT;

use crate::bench::{Bench, cpu_us_per_request, milliseconds};
use crate::process::Stderr;
use crate::servers::NullTarget;
use crate::summary::{Spread, heading, or_dash, table};

/// Routes of the loads with many.
const ROUTES: usize = 100;
/// Time for the open loop to find its number of connections.
const WARMUP: Duration = Duration::from_millis(500);

/// The request of a route: one of constant bytes, and one of about that length with eight fields.
const CONSTANT: &str = "/items/4711/of/17?name=Ann%20B.&n=123456&hot=42&at=3&k=7&\
    id=01234567-89ab-cdef-0123-456789abcdef";
const EIGHT_FIELDS: &str = "/items/{{rand 1 9999}}/of/{{users.id}}?name={{users.name}}&n={{seq}}&\
    hot={{zipf 1.1 1000}}&at={{rand 1 9}}&k={{zipf 1 9}}&id={{uuid}}";

/// A load: its name in the table, its number of routes, and their requests.
const LOADS: [(&str, usize, &str); 3] = [
    ("one route", 1, CONSTANT),
    ("100 routes", ROUTES, CONSTANT),
    ("100 routes of eight fields", ROUTES, EIGHT_FIELDS),
];

/// The figures of the runs of a load.
#[derive(Default)]
struct Runs {
    cpu_us: Vec<f64>,
    /// As a multiple of the first load's in the same round.
    multiple: Vec<f64>,
    memory_mib: Vec<f64>,
    sent_share: Vec<f64>,
}

/// Prints the table.
pub(crate) fn print(bench: &Bench, quick: bool) -> Result<()> {
    let (rate, length, rounds) = match quick {
        true => ("1k", Duration::from_millis(400), 1),
        false => ("50k", Duration::from_secs(3), 5),
    };
    println!("## Many routes\n");
    println!(
        "Open loop at {rate}/s, runs of {length:?} in turn ({rounds}), on one shard that sleeps \
         between arrivals. CPU per request is that of the shard within the window, in µs; the \
         multiple is of one route's in the same round; memory is the most that the process \
         held, in MiB; all as median (lowest–highest):\n"
    );
    let folder = tempfile::tempdir()?;
    let users = folder.path().join("users.csv");
    let rows = (0..10_000).map(|row| format!("{row},Ann {row}\n"));
    fs::write(&users, format!("id,name\n{}", rows.collect::<String>()))?;
    let files = LOADS.map(|(name, routes, url)| (folder.path().join(name), targets(routes, url)));
    files.iter().try_for_each(|(file, text)| fs::write(file, text))?;

    let target = NullTarget::start(bench, CONNS_OPEN_DEFAULT, false)?;
    let mut loads = LOADS.map(|_| Runs::default());
    for round in 0..rounds {
        let mut cpu_us = LOADS.map(|_| 0.0);
        // They take turns at going first.
        for load in (0..LOADS.len()).map(|at| (round + at) % LOADS.len()) {
            let file = &files[load].0;
            // Data that no request takes a value from is refused.
            let users = LOADS[load].2.contains("{{users.").then_some(&*users);
            cpu_us[load] = loads[load].add(bench, &target.url, file, users, rate, length)?;
        }
        let multiples = cpu_us.map(|of_load| of_load / cpu_us[0]);
        loads.iter_mut().zip(multiples).for_each(|(runs, it)| runs.multiple.push(it));
    }
    target.stop()?;
    let rows: Vec<_> = LOADS.iter().zip(loads).map(|((name, ..), runs)| runs.row(name)).collect();
    let columns = ["load", "µs CPU per request", "multiple", "memory", "sent of planned"];
    println!("{}", table(&heading(&columns), &rows));
    Ok(())
}

/// A file of this many routes, whose weights are 1 to 10.
fn targets(routes: usize, url: &str) -> String {
    let mut text = String::new();
    for route in 0..routes {
        let weight = 1 + route % 10;
        let _ = writeln!(text, r#"{{"name": "r{route}", "weight": {weight}, "url": "{url}"}}"#);
    }
    text
}

impl Runs {
    /// Adds a run, and returns its CPU time per request, µs.
    fn add(
        &mut self,
        bench: &Bench,
        url: &str,
        targets: &Path,
        users: Option<&Path>,
        rate: &str,
        length: Duration,
    ) -> Result<f64> {
        let targets = targets.display().to_string();
        let data = users.map(|users| format!("users={}", users.display()));
        let (duration, warmup) = (milliseconds(length), milliseconds(WARMUP));
        let flags = [
            ["--targets", &targets],
            ["--rate", rate],
            ["--wait", "sleep"],
            ["--duration", &duration],
            ["--warmup", &warmup],
        ];
        let data = data.iter().flat_map(|data| ["--data", data]);
        let flags: Vec<&str> = flags.concat().into_iter().chain(data).collect();
        let (report, finished) = bench.run_truetail(url, &flags, WARMUP + length, Stderr::File)?;
        let cpu_us = cpu_us_per_request(&report);
        self.cpu_us.push(cpu_us);
        self.memory_mib.push(finished.memory_mib);
        self.sent_share.push(report.whole.rate.sent_due / report.whole.rate.intended);
        Ok(cpu_us)
    }

    fn row(self, name: &str) -> Vec<String> {
        let cell = |values: Vec<f64>, digits| {
            or_dash(Spread::of(values).map(|spread| spread.show(digits)))
        };
        vec![
            name.to_owned(),
            cell(self.cpu_us, 2),
            cell(self.multiple, 3),
            cell(self.memory_mib, 1),
            cell(self.sent_share, 4),
        ]
    }
}
