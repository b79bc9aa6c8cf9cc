//! `docs/verdict.md` has the reasons of the verdict, and the thresholds with the reasons that each
//! decides, in tables generated from the rules.

use std::path::Path;
use std::{env, fs};

use engine::plan::thresholds::Thresholds;
use engine::report::{Effect, RULES, decided_by};

/// Set to regenerate the tables after a change to the rules.
const UPDATE: &str = "UPDATE_DOCS";

/// The page with these rows in place of the lines between the two marks with this name: comments,
/// which aren't visible on the page.
fn replaced(page: &str, name: &str, rows: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no {end}"));
    format!("{before}{begin}{rows}{end}{after}")
}

/// The rules' subjects, limits and cures, in the order in which reasons are listed.
fn reasons() -> String {
    let rows = RULES.iter().map(|rule| {
        let note = if matches!(rule.effect, Effect::Never) { "a note: " } else { "" };
        format!("| `{}` | {note}{} | {} | {} |\n", rule.code, rule.looks_at, rule.limit, rule.cure)
    });
    let head = "| reason | what it looks at | limit | cure |\n| --- | --- | --- | --- |\n";
    head.to_owned() + &rows.collect::<String>()
}

/// The thresholds that a plan may change, and the reasons that each decides.
fn thresholds() -> String {
    let rows = Thresholds::default().entries().into_iter().map(|(name, default)| {
        let reasons = decided_by(&name).into_iter().map(|code| format!("`{code}`"));
        let reasons: Vec<String> = reasons.collect();
        format!("| `{name}` | {default} | {} |\n", reasons.join(", "))
    });
    let head = "| threshold | default | reasons |\n| --- | ---: | --- |\n";
    head.to_owned() + &rows.collect::<String>()
}

#[test]
fn the_tables_of_the_verdicts_page_match_the_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/verdict.md");
    let page = fs::read_to_string(&path).expect("docs/verdict.md");
    let generated = replaced(&page, "the rules", &reasons());
    let generated = replaced(&generated, "the thresholds", &thresholds());
    if env::var_os(UPDATE).is_some() {
        fs::write(&path, &generated).expect("it is written");
    }
    let page = fs::read_to_string(&path).expect("docs/verdict.md");
    assert!(
        page == generated,
        "docs/verdict.md doesn't match the rules; regenerate it: \
         {UPDATE}=1 cargo test -p engine --test suite verdict_page"
    );
}

#[test]
fn a_rule_that_may_produce_a_note_states_when() {
    for rule in RULES {
        let may_be = matches!(rule.effect, Effect::Where(_));
        assert_eq!(rule.looks_at.contains("a note"), may_be, "{}", rule.code);
        assert!(!rule.looks_at.contains('|') && !rule.limit.contains('|'), "{}", rule.code);
    }
}
