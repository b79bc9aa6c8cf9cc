//! ARCHITECTURE names the files in which one request can be followed, with their lengths.

use std::fs;
use std::path::Path;

/// The heading of the table in ARCHITECTURE.
const HEADING: &str = "## One request: six files";
/// The most files, and the most lines in all, that a reader should need.
const FILES_MAX: usize = 6;
const LINES_MAX: usize = 2_000;

/// Lines before the unit tests.
fn production_lines(source: &str) -> usize {
    source.lines().take_while(|line| *line != "#[cfg(test)]").count()
}

/// The rows of the first table under the heading: file, lines, and what happens there.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let (_, section) = text.split_once(HEADING).expect("the heading of the table");
    section
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

#[test]
fn the_reader_s_path_is_as_long_as_architecture_says() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(engine.join("../ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let rows = rows(&text);
    let (mut told, mut right, mut total) = (String::new(), String::new(), 0);
    for row in &rows {
        let [file, lines, job] = row[..] else { panic!("three columns: {row:?}") };
        let source = fs::read_to_string(engine.join("src").join(file.trim_matches('`')))
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        let counted = production_lines(&source);
        told += &format!("| {file} | {lines} | {job} |\n");
        right += &format!("| {file} | {counted} | {job} |\n");
        total += counted;
    }
    assert!(told == right, "the table in ARCHITECTURE.md should read:\n{right}");
    assert!(!rows.is_empty() && rows.len() <= FILES_MAX, "{} files", rows.len());
    assert!(total <= LINES_MAX, "{total} lines, which is more than {LINES_MAX}");
}

#[test]
fn lines_of_unit_tests_do_not_count() {
    assert_eq!(production_lines("a\n\nb\n#[cfg(test)]\nmod tests {}\n"), 3);
    assert_eq!(production_lines("a\n    #[cfg(test)]\nb\n"), 3, "only a module's own tests end it");
}
