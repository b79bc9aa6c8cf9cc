//! Reports as a page: one HTML file with its charts embedded, which loads nothing.

mod charts;
pub(crate) mod judge;

use engine::report::environment::Environment;
use engine::report::verdict::Level;
use engine::report::{HistogramError, Report};
use engine::sys::units::CoreList;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{UndefinedBehavior, context};
use serde::Serialize;

use crate::text::page as text;
use crate::text::slo::shown_as;

/// The page's template. Its name makes the template engine escape its input.
const PAGE: (&str, &str) = ("page.html", include_str!("page/page.html"));
/// What the pages look alike in.
const STYLE: &str = include_str!("page/style.css");

/// A report with its name on the page.
pub(crate) struct Named {
    /// The name of its file.
    pub(crate) name: String,
    /// The report.
    pub(crate) report: Report,
}

/// A chart as a file of its own.
pub(crate) struct Plot {
    /// Its kind, for the name of the file.
    pub(crate) name: &'static str,
    /// SVG.
    pub(crate) svg: String,
}

/// A report's part of the page.
#[derive(Serialize)]
struct Shown {
    name: String,
    level: &'static str,
    headline: String,
    sentences: Vec<String>,
    reasons: Vec<text::Reason>,
    subject: Vec<String>,
    rates: Vec<text::Pair>,
    latency: text::Table,
    explanation: String,
    parts: text::Table,
    sessions: text::Table,
    charts: Vec<ShownChart>,
    outcomes: Vec<text::Pair>,
    errors: Vec<text::Pair>,
    latenesses: text::Table,
    environments: Vec<ShownEnvironment>,
    summary: String,
}

#[derive(Serialize)]
struct ShownChart {
    title: &'static str,
    /// Empty if there is nothing to draw.
    svg: String,
}

#[derive(Serialize)]
struct ShownEnvironment {
    /// The agent's name; empty for a run without agents.
    of: String,
    rows: Vec<text::Pair>,
}

/// The page of these reports, side by side.
///
/// # Errors
/// A histogram of a report can't be read.
pub(crate) fn page(reports: &[Named]) -> Result<String, HistogramError> {
    let charts = drawn(reports)?;
    let shown: Vec<Shown> =
        reports.iter().zip(charts).map(|(named, charts)| Shown::new(named, charts)).collect();
    Ok(rendered(&shown).expect("the template knows what it is given"))
}

/// The non-empty charts of each report, for files of their own.
///
/// # Errors
/// A histogram of a report can't be read.
pub(crate) fn plots(reports: &[Named]) -> Result<Vec<Vec<Plot>>, HistogramError> {
    let each = drawn(reports)?.into_iter();
    let file = |(name, chart): (&'static str, ShownChart)| {
        (!chart.svg.is_empty()).then_some(Plot { name, svg: chart.svg })
    };
    Ok(each.map(|charts| charts.into_iter().filter_map(file).collect()).collect())
}

fn drawn(reports: &[Named]) -> Result<Vec<Vec<(&'static str, ShownChart)>>, HistogramError> {
    let reports: Vec<&Report> = reports.iter().map(|named| &named.report).collect();
    let drawn = |drawing: charts::Drawing| {
        let charts::Drawing { name, title, chart } = drawing;
        let svg = match chart.is_empty() {
            true => String::new(),
            false => chart.svg().expect("what isn't empty can be drawn"),
        };
        (name, ShownChart { title, svg })
    };
    let each = charts::charts(&reports)?.into_iter();
    Ok(each.map(|drawings| drawings.into_iter().map(drawn).collect()).collect())
}

fn rendered(reports: &[Shown]) -> Result<String, minijinja::Error> {
    let mut templates = templates()?;
    templates.add_template(PAGE.0, PAGE.1)?;
    let version = env!("CARGO_PKG_VERSION");
    let has_parts = reports.iter().any(|report| report.parts.has_rows());
    let has_sessions = reports.iter().any(|report| report.sessions.has_rows());
    let page = templates.get_template(PAGE.0)?;
    let style = STYLE;
    page.render(context! { reports => Serde(reports), has_parts, has_sessions, style, version })
}

/// The template engine, without a template.
fn templates() -> Result<minijinja::Environment<'static>, minijinja::Error> {
    let mut templates = minijinja::Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    templates.set_syntax(syntax.build()?);
    Ok(templates)
}

impl Shown {
    fn new(named: &Named, charts: Vec<(&'static str, ShownChart)>) -> Shown {
        let report = &named.report;
        let environments: Vec<ShownEnvironment> = if report.is_joint() {
            let agents = report.per_agent.iter();
            agents
                .map(|agent| ShownEnvironment::new(agent.name.clone(), &agent.environment))
                .collect()
        } else {
            vec![ShownEnvironment::new(String::new(), &report.environment)]
        };
        Shown {
            name: named.name.clone(),
            level: match shown_as(report.verdict.level, report.slo.as_ref()) {
                Level::Valid => "valid",
                Level::Suspect => "suspect",
                Level::Invalid => "invalid",
            },
            headline: text::headline(report),
            sentences: text::sentences(&report.verdict),
            reasons: text::reasons(&report.verdict),
            subject: text::subject(report),
            rates: text::rates(report),
            latency: text::latency(report),
            explanation: text::explanation(report),
            parts: text::parts(report),
            sessions: text::sessions(report),
            charts: charts.into_iter().map(|(_, chart)| chart).collect(),
            outcomes: text::outcomes(report),
            errors: text::errors(report),
            latenesses: text::latenesses(report),
            environments,
            summary: text::summary(report),
        }
    }
}

impl ShownEnvironment {
    fn new(of: String, environment: &Environment) -> ShownEnvironment {
        let list = |cores: &[usize]| CoreList::new(cores.to_vec()).to_string();
        let network = &environment.network;
        let virtualisation = &environment.virtualisation;
        let machine = match virtualisation.virtual_machine {
            Some(true) => virtualisation.hypervisor.clone().or(Some("virtual".to_owned())),
            Some(false) => Some("physical".to_owned()),
            None => None,
        };
        let governors = environment.cores.iter().filter_map(|core| core.governor.clone());
        let mut governors: Vec<String> = governors.collect();
        governors.sort_unstable();
        governors.dedup();
        let governor = (!governors.is_empty()).then(|| governors.join(", "));
        let mitigations: Vec<String> =
            environment.mitigations.iter().map(|(name, how)| format!("{name}: {how}")).collect();
        let known = [
            ("truetail", Some(environment.tool_version.clone())),
            ("kernel", Some(environment.kernel.clone())),
            ("processor", environment.cpu.clone()),
            ("machine", machine),
            ("cores online", Some(environment.cores_online.to_string())),
            ("cores allowed", Some(list(&environment.cores_allowed))),
            ("cores of shards", Some(list(&environment.cores_used))),
            ("SMT", environment.smt.clone()),
            ("governor", governor),
            ("clock source", environment.clock_source.clone()),
            ("target on this host", network.target_on_this_host.map(yes_or_no)),
            ("interface", network.interface.clone()),
            ("driver", network.driver.clone()),
            ("congestion control", network.congestion_control.clone()),
            ("io_uring", Some(environment.ring_features.join(", "))),
            ("without kernel stamps", environment.unstamped.clone()),
            ("kernel parameters", environment.kernel_command_line.clone()),
            ("mitigations", Some(mitigations.join("; "))),
        ];
        let known = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let rows = known
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| text::Pair { name: name.to_owned(), value })
            .collect();
        ShownEnvironment { of, rows }
    }
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests {
    use engine::record::outcome::Cause;
    use probe::chart::{COLOURS, GRID, INK, PAPER};

    use super::*;
    use crate::text::reports::{part, report, sessions, two_by_two};

    fn named(name: &str, report: Report) -> Named {
        Named { name: name.to_owned(), report }
    }

    #[test]
    fn a_page_has_all_its_parts_and_loads_nothing() {
        let mut bad = part(250, 260, 1, 2);
        bad.counts.errors = [(Cause::Reset, 3)].into();
        bad.counts.failed = 3;
        let mut second = report(true, bad);
        second.environment.kernel = "Linux 6.1".to_owned();
        second.config.plan.target = "http://h/?a=1&b=<script>".to_owned();
        let reports = [
            named("a <b>.json", report(true, part(1_020, 182_000, 3, 181_000))),
            named("second", second),
        ];
        let page = page(&reports).expect("the histograms can be read");
        for part in [
            "a &lt;b&gt;.json",
            "a=1&amp;b=&lt;script&gt;",
            "class=\"verdict valid\"",
            "Latency by percentile",
            "corrected, 95 % interval",
            "Latenesses by percentile",
            "reset",
            "p99.9",
            "Linux",
            "prefers-color-scheme: dark",
            "default-src 'none'",
        ] {
            assert!(page.contains(part), "`{part}` is missing in: {page}");
        }
        assert_eq!(page.matches("corrected, 95 % interval").count(), 2, "side by side");
        // Names of XML, and the target of the run as text.
        let outside = page.replace("http://www.w3.org/2000/svg", "").replace("http://h/", "");
        let outside = outside.replace("http://127.0.0.1:8080/", "");
        for word in ["http://", "https://", "<script", "<link", "@import", " src="] {
            assert!(!outside.contains(word), "`{word}` in: {outside}");
        }
    }

    #[test]
    fn parts_are_on_the_page_of_a_run_that_has_them() {
        let heading = "<h2>Each route and stage</h2>";
        let single = || named("single", report(true, part(250, 260, 1, 2)));
        let alone = page(&[single()]).expect("the histograms can be read");
        assert!(!alone.contains(heading) && !alone.contains("longest tails"), "{alone}");
        let several = [named("several", two_by_two()), single()];
        let both = page(&several).expect("the histograms can be read");
        assert_eq!(both.matches(heading).count(), 1, "{both}");
        assert!(both.contains("POST &#x2f;a, &quot;b&quot;"), "{both}");
        assert!(both.contains("\nhome, stage 2\n"), "in the chart: {both}");
        let plots = plots(&several).expect("they can be read");
        let names = |at: usize| plots[at].iter().map(|plot| plot.name).collect::<Vec<&str>>();
        assert!(names(0).contains(&"parts") && !names(1).contains(&"parts"));
    }

    #[test]
    fn sessions_are_on_the_page_of_a_run_that_has_them() {
        let heading = "<h2>Sessions of each scenario</h2>";
        let parts = named("parts", two_by_two());
        let alone = page(&[parts]).expect("the histograms can be read");
        assert!(!alone.contains(heading), "{alone}");
        let mut shop = two_by_two();
        shop.whole.scenarios = sessions();
        let both = [named("shop", shop), named("parts", two_by_two())];
        let both = page(&both).expect("the histograms can be read");
        assert_eq!(both.matches(heading).count(), 1, "{both}");
        assert_eq!(both.matches("<th>shop, &quot;new&quot;</th>").count(), 1, "{both}");
    }

    #[test]
    fn each_colour_of_the_charts_has_a_dark_one() {
        let colours = COLOURS.into_iter().chain([INK, GRID, PAPER]);
        for colour in colours.map(|of| format!("#{:02X}{:02X}{:02X}", of.0, of.1, of.2)) {
            assert!(PAGE.1.contains(&format!("=\"{colour}\"]")), "{colour}");
        }
    }

    #[test]
    fn charts_of_a_kind_have_the_same_axes() {
        let short = report(true, part(100, 100, 1, 1));
        let long = report(true, part(100, 900_000, 1, 1));
        let both = plots(&[named("a", short), named("b", long)]).expect("they can be read");
        let spectrum = |of: &[Plot]| {
            of.iter().find(|plot| plot.name == "spectrum").is_some_and(|plot| {
                plot.svg.contains(">\n1 s\n<") && plot.svg.contains(">\n100 µs\n<")
            })
        };
        assert!(both.iter().all(|plots| spectrum(plots)));
    }
}
