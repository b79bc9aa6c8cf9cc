//! Results of the judge as a page, tools across and cases down: HTML that loads nothing, and the
//! same as Markdown, which has the cases on a page of their own.
//!
//! The folder `judge` has the hand-written texts, as Markdown. What a case asks is its own text.

use judge::suite::{CaseResult, Outcome, Suite};
use judge::{CASES, Case, SHIPPED};
use minijinja::{Value, context};
use pulldown_cmark::{Options, Parser, html};

use super::{STYLE, templates};
use crate::text::judge as text;

/// The files, with their templates. The name of a page makes the template engine escape its input.
const PAGES: [(&str, &str); 3] = [
    ("judge.html", include_str!("judge/judge.html")),
    ("judge.md", include_str!("judge/judge.md")),
    ("judge-cases.md", include_str!("judge/judge-cases.md")),
];
/// What is said of all cases.
const GENERAL: &str = include_str!("judge/cases.md");
/// What a tool's maintainer could say, and how to add a tool.
const END: &str = include_str!("judge/end.md");

/// The pages of these results, by the names of their files.
pub(crate) fn pages(suites: &[Suite]) -> Vec<(&'static str, String)> {
    rendered(suites).expect("the templates know what they are given")
}

fn rendered(suites: &[Suite]) -> Result<Vec<(&'static str, String)>, minijinja::Error> {
    let mut templates = templates()?;
    templates.add_filter("cell", cell_of_markdown);
    let place = usual_place(suites);
    let has_run = |case: &&Case| suites.iter().any(|suite| results(suite, case).next().is_some());
    let rows = CASES.iter().filter(has_run).map(|case| {
        let cells: Vec<Value> = suites.iter().map(|suite| cell(suite, case)).collect();
        context! { case => case.name, cells }
    });
    let cases = CASES.iter().map(|case| {
        let &Case { name, holds, truth, tolerance, reply, load, .. } = case;
        context! { name, holds, truth, tolerance, reply, load => text::load(&load) }
    });
    let values = context! {
        tools => suites.iter().map(|suite| tool(suite, &place)).collect::<Vec<Value>>(),
        rows => rows.collect::<Vec<Value>>(),
        cases => cases.collect::<Vec<Value>>(),
        known => SHIPPED.map(|(name, _)| name),
        place,
        version => env!("CARGO_PKG_VERSION"),
        style => STYLE,
    };
    let mut pages = Vec::new();
    for (name, template) in PAGES {
        let shown = |markdown: &str| match name.ends_with(".html") {
            true => as_html(markdown),
            false => markdown.trim_end().to_owned(),
        };
        let texts = context! { general => shown(GENERAL), end => shown(END), ..values.clone() };
        pages.push((name, templates.render_named_str(name, template, texts)?));
    }
    Ok(pages)
}

/// Where most of the tools were judged, which is named once.
fn usual_place(suites: &[Suite]) -> String {
    let places: Vec<String> = suites.iter().map(text::place).collect();
    let tools_at = |place: &&String| places.iter().filter(|other| other == place).count();
    places.iter().max_by_key(tools_at).cloned().unwrap_or_default()
}

fn tool(suite: &Suite, usual_place: &str) -> Value {
    let commands = suite.cases.iter().filter_map(|result| {
        let line = result.command.as_deref()?;
        Some(context! { case => result.case.as_str(), line })
    });
    context! {
        name => suite.tool.as_str(),
        version => text::version(suite),
        is_elsewhere => text::place(suite) != usual_place,
        place => text::place(suite),
        commands => commands.collect::<Vec<Value>>(),
    }
}

/// What came of a case, and what with flags that change it.
fn results<'a>(suite: &'a Suite, case: &Case) -> impl Iterator<Item = &'a CaseResult> {
    suite.cases.iter().filter(|result| result.case == case.name)
}

fn cell(suite: &Suite, case: &Case) -> Value {
    let tool = suite.tool.as_str();
    let runs: Vec<Value> = results(suite, case).map(|result| run(tool, result)).collect();
    context! { tool, runs, not_run => text::NOT_RUN }
}

fn run(tool: &str, result: &CaseResult) -> Value {
    let class = match result.outcome {
        Outcome::Held => "valid",
        Outcome::Disturbed => "suspect",
        Outcome::Failed | Outcome::Unread => "invalid",
        Outcome::NotClaimed => "not-claimed",
    };
    let figures = result.findings.iter().map(|finding| {
        let (found, range) = (text::found(finding), text::range(finding));
        context! { found, range, holds => finding.holds() }
    });
    context! {
        flags => (!result.flags.is_empty()).then(|| format!("{tool} {}", result.flags)),
        class,
        word => text::word(result.outcome),
        brief => text::brief(result),
        figures => figures.collect::<Vec<Value>>(),
        why => text::why(result),
    }
}

/// A text from a result within a table or a list, where a bar or a line's end would end it.
fn cell_of_markdown(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('<', "&lt;").replace('|', "\\|")
}

fn as_html(markdown: &str) -> String {
    let mut text = String::new();
    html::push_html(&mut text, Parser::new_ext(markdown, Options::ENABLE_TABLES));
    text
}

#[cfg(test)]
mod tests {
    use judge::suite::{Machine, SCHEMA};
    use judge::{Finding, Noise};

    use super::*;

    fn result(case: &str, outcome: Outcome, findings: Vec<Finding>) -> CaseResult {
        let why = findings.is_empty().then(|| "it exited with 9: <script>".to_owned());
        CaseResult {
            case: case.to_owned(),
            holds: String::new(),
            truth: String::new(),
            tolerance: String::new(),
            reply: String::new(),
            flags: String::new(),
            outcome,
            why,
            command: Some(format!("load '{case}' <url>")),
            findings,
            figures: None,
            target: None,
            noise: Some(Noise { late_ms: 12.34, others: 0.5 }),
        }
    }

    fn finding(figure: &str, found: f64, low: Option<f64>, high: Option<f64>) -> Finding {
        let truth = low.or(high).unwrap_or_default();
        Finding { figure: figure.to_owned(), found, truth, low, high, excused_ms: None }
    }

    fn suites() -> [Suite; 2] {
        let count = |found| finding("requests at the target", found, Some(2_611.0), Some(2_639.0));
        let suite = Suite {
            schema: SCHEMA,
            tool: "one".to_owned(),
            version: Some("one 4.1 <$Id|$>".to_owned()),
            judge: "0.1.0".to_owned(),
            quick: false,
            machine: Machine { kernel: "6.1".to_owned(), processor: None, cores: 1 },
            interrupted: false,
            cases: vec![
                result("rate", Outcome::Held, vec![count(2_625.0)]),
                result(
                    "freeze",
                    Outcome::Failed,
                    vec![
                        finding("p50, ms", 1.25, Some(0.98), Some(7.01)),
                        finding("p95, ms", 640.0, Some(641.5), Some(700.25)),
                        finding("p99, ms", 1.25, Some(880.5), Some(1_034.2)),
                    ],
                ),
                result("floor", Outcome::Failed, vec![finding("p50, ms", 1.0, Some(1.199), None)]),
                CaseResult {
                    flags: "--timeout 5s".to_owned(),
                    ..result(
                        "floor",
                        Outcome::Held,
                        vec![finding("p50, ms", 1.3, Some(1.199), None)],
                    )
                },
            ],
        };
        let mut other = suite.clone();
        (other.tool, other.version, other.quick) = ("o|<b>".to_owned(), None, true);
        other.cases = vec![
            result("rate", Outcome::Disturbed, vec![count(2_640.0)]),
            result("freeze", Outcome::NotClaimed, Vec::new()),
            result("failures", Outcome::Unread, Vec::new()),
        ];
        [suite, other]
    }

    #[test]
    fn the_table_has_what_is_furthest_outside_and_the_cases_their_own_texts() {
        let pages = pages(&suites());
        let [_, (_, page), (_, cases)] = &pages[..] else { panic!("three pages") };
        let (_, results) = page.split_once("## Results\n\n").expect("a section");
        let (results, _) = results.split_once("\n\n## ").expect("an end");
        for line in [
            "| case | one | o\\|&lt;b> |",
            "| rate | held | disturbed: requests at the target: 2,640, not 2,611 to 2,639 |",
            "| freeze | p99 1.25 ms, not 880.5 to 1,034 | – |",
            "| failures | not run | not read |",
            "| floor | p50 1 ms, not ≥ 1.199; with `one --timeout 5s`: held | not run |",
        ] {
            assert!(results.lines().any(|found| found == line), "`{line}` in {results}");
        }
        for case in &CASES {
            for text in [case.name, case.holds, case.truth, case.tolerance, case.reply] {
                assert!(cases.contains(text), "{text}");
            }
        }
        let same = rendered(&[suites()[0].clone()]).expect("pages").swap_remove(1).1;
        let once = "\n\nEach on 1 core of an unknown processor, Linux 6.1, by truetail 0.1.0, unless \
                    its line says otherwise.\n\n## ";
        assert_eq!(same.matches(once).count(), 1, "{same}");
    }

    /// The elements of a page that nothing closes.
    fn open(page: &str) -> Vec<&str> {
        let mut open = Vec::new();
        for tag in page.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').expect("a tag ends");
            let name = tag.split([' ', '\n']).next().expect("a name");
            match name.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "closed"),
                None if ["!DOCTYPE", "meta"].contains(&name) => {}
                None => open.push(name),
            }
        }
        open
    }

    #[test]
    fn the_page_has_each_figure_and_loads_nothing() {
        let suites = suites();
        let page = pages(&suites).swap_remove(0).1;
        assert_eq!(open(&page), Vec::<&str>::new());
        let results = suites.iter().flat_map(|suite| &suite.cases);
        for finding in results.flat_map(|result| &result.findings) {
            let (found, range) = (text::found(finding), text::range(finding));
            assert!(page.contains(&format!("<div>{found} <span>({range})&nbsp;")), "{finding:?}");
        }
        for part in [
            "<div>p99 1.25 ms <span>(880.5–1,034)&nbsp;<b class=\"invalid\">✗</b></span></div>",
            "2,640 <span>(2,611–2,639)&nbsp;<b class=\"suspect\">✗",
            "this machine was up to 12.34 ms late, and other programs took 0.500 cores of it",
            "<div>with <code>one --timeout 5s</code>:</div>",
            "<small>it exited with 9: &lt;script&gt;</small>",
            "data-of=\"o|&lt;b&gt;\"><b class=\"not-claimed\">not run</b>",
            "load &#x27;rate&#x27; &lt;url&gt;",
            "one 4.1 &lt;$Id|$&gt;",
            "by truetail 0.1.0 with --quick",
            "<h3 id=\"freeze\">",
            "<td>the command for a rate, if it has one</td>",
            "prefers-color-scheme: dark",
            "default-src 'none'",
        ] {
            assert!(page.contains(part), "`{part}` is missing in: {page}");
        }
        for word in ["http://", "https://", "<script", "<link", "@import", " src="] {
            assert!(!page.contains(word), "`{word}` in: {page}");
        }
    }
}
