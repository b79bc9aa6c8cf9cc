//! The rooms of the engine use each other in one direction: each only those above it in the list.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms from the lowest to the highest. A room may use itself and those before it.
const ROOMS: [&str; 12] = [
    "sys", "plan", "ring", "load", "stats", "record", "host", "samples", "shard", "report", "run",
    "verify",
];

/// Every name that follows `crate::` in a source, comments aside, those in a `use crate::{…}` group
/// among them.
fn rooms_used(source: &str) -> Vec<String> {
    let code: String = source
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut used = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        // `$crate::` and names that end in `crate` don't occur; a test below would show them.
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => used.push(word(rest)),
            Some(group) => {
                // Names at the group's own depth, each up to its `::` or comma.
                let (mut depth, mut start) = (0_usize, true);
                for (at, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => start = true,
                        c if start && c.is_alphabetic() => {
                            used.push(word(&group[at..]));
                            start = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    used
}

/// What is wrong with the rooms that a file of `room` uses, each naming both ends.
fn wrong_edges(room: &str, file: &str, source: &str) -> Vec<String> {
    let place = |room: &str| ROOMS.iter().position(|known| *known == room);
    let own = place(room).unwrap_or_else(|| panic!("{file}: `{room}` is not a room"));
    rooms_used(source)
        .into_iter()
        .filter(|used| place(used).is_none_or(|used| own < used))
        .map(|used| format!("{file}: {room} uses {used}, which is not above it"))
        .collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn each_room_uses_only_those_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    sources(&src, &mut found);
    let mut wrong = Vec::new();
    let mut rooms = std::collections::BTreeSet::new();
    for path in found {
        let file = path.strip_prefix(&src).expect("below the sources").display().to_string();
        let Some((room, _)) = file.split_once('/') else {
            assert_eq!(file, "lib.rs", "every file lies in a room");
            continue;
        };
        rooms.insert(room.to_owned());
        let source = fs::read_to_string(&path).expect("a source");
        wrong.extend(wrong_edges(room, &file, &source));
    }
    assert!(wrong.is_empty(), "edges against the order:\n{}", wrong.join("\n"));
    assert_eq!(rooms.len(), ROOMS.len(), "each room of the list is there: {rooms:?}");
}

#[test]
fn an_edge_against_the_order_is_named_with_both_ends() {
    let check = |room, source: &str, want: &[&str]| {
        assert_eq!(wrong_edges(room, "a.rs", source), want, "{source}");
    };
    check("shard", "use crate::plan::Plan;\nuse crate::shard::slots::Slots;", &[]);
    check("plan", "use crate::report::Report;", &["a.rs: plan uses report, which is not above it"]);
    check(
        "load",
        "use crate::{plan::Plan, run::{self, Run}};\nlet x = crate::verify::report_alone;",
        &[
            "a.rs: load uses run, which is not above it",
            "a.rs: load uses verify, which is not above it",
        ],
    );
    check("sys", "use crate::pool;", &["a.rs: sys uses pool, which is not above it"]);
    check("sys", "// crate::report is above\n/// [`crate::run`]", &[]);
}
