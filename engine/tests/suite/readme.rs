//! README lists the thresholds and the reasons that each decides on, as the engine does.

use std::fs;
use std::path::Path;

use engine::plan::thresholds::Thresholds;
use engine::report::decided_by;

#[test]
fn the_table_of_thresholds_is_the_engines() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = fs::read_to_string(readme).expect("README.md");
    let rows = readme
        .lines()
        .skip_while(|line| !line.starts_with("| threshold |"))
        .take_while(|line| line.starts_with('|'))
        .skip(2);
    let listed = rows.map(|row| format!("{row}\n")).collect::<String>();
    let row = |(name, _): (String, f64)| {
        let reasons = decided_by(&name).into_iter().map(|code| format!("`{code}`"));
        let reasons: Vec<String> = reasons.collect();
        format!("| `{name}` | {} |\n", reasons.join(", "))
    };
    let known: String = Thresholds::default().entries().into_iter().map(row).collect();
    assert!(listed == known, "the table of thresholds in README.md should read:\n{known}");
}
