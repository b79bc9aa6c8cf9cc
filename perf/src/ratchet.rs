//! The ratchet: a file with the instruction counts that the code has reached, and must not exceed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::instructions::{self, Counted};
use crate::process::is_installed;
use crate::summary::{heading, or_dash, show, table};

/// A count above the file's by more than this share, or by more than it varies, fails.
const ABOVE_MAX: f64 = 0.01;
/// A count below the file's by more than this share should lower it.
const BELOW_MAX: f64 = 0.02;

const HEADER: &str = "\
# User-space instructions per call, counted by callgrind in the release build. `make check` fails if
# one rises by more than 1 % (requests on 64 connections 3 %, of an open loop 10 %), where
# valgrind and this compiler are installed. `make ratchet` writes this file anew.

";

/// The file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ratchet {
    /// The compiler that the counts are from: another one generates other code.
    compiler: String,
    instructions: BTreeMap<String, f64>,
}

/// Counts, prints the counts with the file's, and fails if one is too high.
pub(crate) fn check(file: &Path, quick: bool) -> Result<()> {
    println!("## User-space instructions\n");
    let Some(counted) = count(quick)? else { return Ok(()) };
    let text = fs::read_to_string(file)
        .with_context(|| format!("can't read {}; `make ratchet` writes it", file.display()))?;
    let ratchet: Ratchet =
        toml::from_str(&text).with_context(|| format!("can't parse {}", file.display()))?;
    println!("{}", shown(&ratchet, &counted));
    let here = compiler()?;
    if here != ratchet.compiler {
        println!(
            "The limits are those of another compiler ({}, here {here}), so they don't hold.\n",
            ratchet.compiler
        );
        return Ok(());
    }
    let found = ratchet.compare(&counted);
    if !found.lower.is_empty() {
        println!(
            "Lower the limits of what became cheaper by `make ratchet`: {}.\n",
            found.lower.join("; ")
        );
    }
    if !found.wrong.is_empty() {
        bail!(
            "{}. If that is the price of something that is worth it, `make ratchet` writes the \
             new limits",
            found.wrong.join("; ")
        );
    }
    Ok(())
}

/// Counts and writes the file.
pub(crate) fn update(file: &Path, quick: bool) -> Result<()> {
    let Some(counted) = count(quick)? else { bail!("without valgrind there are no counts") };
    let rounded = |counted: Counted| (counted.name, (10.0 * counted.instructions).round() / 10.0);
    let ratchet =
        Ratchet { compiler: compiler()?, instructions: counted.into_iter().map(rounded).collect() };
    fs::write(file, format!("{HEADER}{}", toml::to_string(&ratchet)?))
        .with_context(|| format!("can't write {}", file.display()))
}

/// All counts, or `None` with a printed reason.
fn count(quick: bool) -> Result<Option<Vec<Counted>>> {
    if !is_installed("valgrind") {
        println!("Not counted: valgrind is not installed.\n");
        return Ok(None);
    }
    instructions::count(quick).map(Some)
}

fn shown(ratchet: &Ratchet, counted: &[Counted]) -> String {
    let row = |counted: &Counted| {
        let limit = ratchet.instructions.get(&counted.name);
        let share =
            limit.map(|limit| format!("{:+.1} %", 100.0 * (counted.instructions / limit - 1.0)));
        vec![
            counted.name.clone(),
            show(counted.instructions, 1),
            or_dash(limit.map(|limit| show(*limit, 1))),
            or_dash(share),
        ]
    };
    let rows: Vec<_> = counted.iter().map(row).collect();
    table(&heading(&["function", "instructions", "limit", "change"]), &rows)
}

/// The compiler's release and its target.
fn compiler() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("can't start rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let field = |name| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.with_context(|| format!("`rustc -vV` names no {name}"))
    };
    Ok(format!("rustc {}, {}", field("release: ")?, field("host: ")?))
}

/// The differences between counts and the file.
#[derive(Debug, Default, PartialEq)]
struct Comparison {
    /// Counts above their limits, or on one side only.
    wrong: Vec<String>,
    /// Counts so far below their limits that the limits should follow.
    lower: Vec<String>,
}

impl Ratchet {
    fn compare(&self, counted: &[Counted]) -> Comparison {
        let mut found = Comparison::default();
        for Counted { name, instructions, varies } in counted {
            match self.instructions.get(name) {
                None => found.wrong.push(format!("{name}: it has no limit")),
                Some(limit) if limit * (1.0 + ABOVE_MAX.max(*varies)) < *instructions => {
                    found.wrong.push(format!("{name}: {instructions:.1}, the limit is {limit}"));
                }
                Some(limit) if *instructions < limit * (1.0 - BELOW_MAX.max(*varies)) => {
                    found.lower.push(name.clone());
                }
                Some(_) => {}
            }
        }
        let is_counted = |name: &String| counted.iter().any(|counted| counted.name == *name);
        let gone = self.instructions.keys().filter(|name| !is_counted(name));
        found.wrong.extend(gone.map(|name| format!("{name}: it has a limit and is not counted")));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(counts: &[(&str, f64)]) -> Vec<Counted> {
        let count = |&(name, instructions): &(&str, f64)| Counted {
            name: name.to_owned(),
            instructions,
            varies: if name == "varies" { 0.1 } else { 0.0 },
        };
        counts.iter().map(count).collect()
    }

    #[test]
    fn more_instructions_are_refused_and_fewer_lower_the_limit() {
        let ratchet = Ratchet {
            compiler: "rustc".to_owned(),
            instructions: [("a".to_owned(), 100.0), ("b".to_owned(), 200.0)].into(),
        };
        let found = |counts: &[(&str, f64)]| ratchet.compare(&counted(counts));
        assert_eq!(found(&[("a", 101.0), ("b", 196.0)]), Comparison::default());
        assert_eq!(
            found(&[("a", 101.1), ("b", 195.9)]),
            Comparison {
                wrong: vec!["a: 101.1, the limit is 100".to_owned()],
                lower: vec!["b".to_owned()]
            }
        );
        assert_eq!(
            found(&[("a", 100.0), ("c", 1.0)]).wrong,
            ["c: it has no limit", "b: it has a limit and is not counted"]
        );
        let ratchet = Ratchet { instructions: [("varies".to_owned(), 100.0)].into(), ..ratchet };
        let wrong = |count: f64| ratchet.compare(&counted(&[("varies", count)])).wrong.len();
        assert_eq!((wrong(109.0), wrong(111.0)), (0, 1));
    }

    #[test]
    fn the_file_comes_back_as_written() {
        let ratchet = Ratchet {
            compiler: compiler().expect("a compiler"),
            instructions: [("f, ×4".to_owned(), 12.5)].into(),
        };
        let text = format!("{HEADER}{}", toml::to_string(&ratchet).expect("TOML"));
        assert_eq!(toml::from_str::<Ratchet>(&text).expect("it parses"), ratchet);
    }
}
