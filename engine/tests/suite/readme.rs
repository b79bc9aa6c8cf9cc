//! README lists the reasons of the verdict, and the thresholds with the reasons that each decides on,
//! as the engine's table of rules does.

use std::fs;
use std::path::Path;

use engine::plan::thresholds::Thresholds;
use engine::report::{Effect, RULES, decided_by};

/// The rows of README's table that begins with this.
fn rows(head: &str) -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = fs::read_to_string(readme).expect("README.md");
    let table = readme.lines().skip_while(|line| !line.starts_with(head));
    table.take_while(|line| line.starts_with('|')).skip(2).map(str::to_owned).collect()
}

#[test]
fn the_table_of_reasons_is_that_of_the_rules() {
    let rows = rows("| reason |");
    let cells = |row: &String| row.split('|').map(|cell| cell.trim().to_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let listed: Vec<&str> = rows.iter().map(|cells| cells[1].as_str()).collect();
    let known: Vec<String> = RULES.iter().map(|rule| format!("`{}`", rule.code)).collect();
    assert_eq!(listed, known, "README.md lists the reasons in the order of the rules");
    for (cells, rule) in rows.iter().zip(RULES) {
        let [_, name, looks_at, bound, _] = &cells[..] else { panic!("three cells: {cells:?}") };
        assert!(!looks_at.is_empty() && !bound.is_empty(), "{name}");
        let (is_note, may_be) = (looks_at.starts_with("a note: "), looks_at.contains("a note"));
        let expected = match rule.effect {
            Effect::Always => (false, false),
            Effect::Where(_) => (false, true),
            Effect::Never => (true, true),
        };
        assert_eq!((is_note, may_be), expected, "{name}: whether it is a note");
    }
}

#[test]
fn the_table_of_thresholds_is_the_engines() {
    let listed: String = rows("| threshold |").iter().map(|row| format!("{row}\n")).collect();
    let row = |(name, _): (String, f64)| {
        let reasons = decided_by(&name).into_iter().map(|code| format!("`{code}`"));
        let reasons: Vec<String> = reasons.collect();
        format!("| `{name}` | {} |\n", reasons.join(", "))
    };
    let known: String = Thresholds::default().entries().into_iter().map(row).collect();
    assert!(listed == known, "the table of thresholds in README.md should read:\n{known}");
}
