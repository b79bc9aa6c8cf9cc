//! What an import found in its source, and what its plan lacks.

use std::path::Path;

use crate::import::curl::OfCurl;
use crate::import::har::OfHar;
use crate::import::log::OfLog;

use super::figures::{count, things};
use super::layout::Text;

/// Columns before the value of a line.
const LABEL: usize = 13;

/// A text from a log.
pub(crate) fn log(name: &Path, of: &OfLog) -> String {
    let mut text = Text::new();
    let format = of.lines.format_text();
    let requests = things(of.lines.requests, "request");
    text.field(LABEL, "log", format!("{}: {format}, {requests} in {}", name.display(), of.length));
    if 0 < of.lines.unreadable {
        let problems = of.lines.problems.join("; ");
        let lines = things(of.lines.unreadable, "line");
        text.field(LABEL, "unreadable", format!("{lines} ({problems})"));
    }
    let routes = things(of.plan.scenario.len() as u64, "route");
    let stages = things(of.plan.stage.len() as u64, "stage");
    let of_requests = things(of.requests, "request");
    text.field(
        LABEL,
        "plan",
        format!(
            "{routes} of {of_requests}, {stages} of at most {}, over which bursts are spread",
            of.stage
        ),
    );
    let (hosts, requests) = of.other_hosts;
    if 0 < hosts {
        let hosts = things(hosts, "other host");
        let requests = things(requests, "request");
        let kept = match &of.host {
            Some(host) => format!("those of {host}"),
            None => "the lines that name no host".to_owned(),
        };
        text.field(LABEL, "left out", format!("{requests} of {hosts}: the plan has {kept}"));
    }
    let (routes, requests) = of.left_out;
    if 0 < routes {
        let (routes, requests) = (things(routes, "rarer route"), things(requests, "request"));
        let problem = "the rates include them";
        text.field(LABEL, "left out", format!("{requests} of {routes}; {problem}"));
    }
    if !of.without_body.is_empty() {
        let methods =
            of.without_body.iter().map(|(name, number)| format!("{} {name}", count(*number)));
        let methods = methods.collect::<Vec<String>>().join(", ");
        let cure = "the log has no bodies; give their steps one";
        text.field(LABEL, "without body", format!("{methods}: {cure}"));
    }
    text.done()
}

/// A text from a HAR file.
pub(crate) fn har(name: &Path, of: &OfHar) -> String {
    let mut text = Text::new();
    let requests = things(of.entries, "request");
    text.field(LABEL, "HAR file", format!("{}: {requests}", name.display()));
    let scenarios = things(of.plan.scenario.len() as u64, "different request");
    let target = of.plan.target.as_deref().unwrap_or_default();
    let others = match of.other_hosts.len() {
        0 => String::new(),
        hosts => format!(" and {}", things(hosts as u64, "other host")),
    };
    text.field(LABEL, "plan", format!("{scenarios} to {target}{others}"));
    for (host, requests) in &of.other_hosts {
        let requests = things(*requests, "request");
        let cure = "take its scenarios out unless you may load it";
        text.field(LABEL, "other host", format!("{host}, {requests}: {cure}"));
    }
    for (reason, number) in &of.left_out {
        text.field(LABEL, "left out", format!("{}: {reason}", things(*number, "request")));
    }
    secrets(&mut text, &of.secrets);
    text.done()
}

/// That the plan has the values of what may be secrets.
fn secrets(text: &mut Text, names: &[String]) {
    if !names.is_empty() {
        let names = names.join(", ");
        text.field(LABEL, "secrets", format!("the plan has the values of {names}"));
    }
}

/// A text from a curl line.
pub(crate) fn curl(of: &OfCurl) -> String {
    let mut text = Text::new();
    of.notes.iter().for_each(|note| text.field(LABEL, "note", note));
    secrets(&mut text, &of.secrets);
    text.done()
}

/// What was found, the plan's file, and how to run it.
pub(crate) fn written(found: &str, file: &Path, without_url: bool) -> String {
    let mut text = Text::new();
    text.add(found);
    let file = file.display();
    text.field_whole(LABEL, "written", &file.to_string());
    let url = if without_url { "URL " } else { "" };
    text.field_whole(LABEL, "next", &format!("truetail run {url}--plan {file}"));
    text.done()
}

#[cfg(test)]
mod tests {
    use engine::plan::access_log::{Format, Summary};
    use engine::sys::units::Nanos;

    use super::*;
    use crate::import::PlanFile;

    #[test]
    fn a_log_is_shown_with_what_its_plan_lacks() {
        let lines = Summary {
            format: Some(Format::Timed),
            requests: 100_000,
            timed: 0,
            unreadable: 7,
            problems: vec!["line 3: no time in brackets".to_owned()],
        };
        let mut of = OfLog {
            plan: PlanFile { stage: vec!["5:1m".parse().expect("a stage")], ..PlanFile::default() },
            lines,
            host: Some("a.test".to_owned()),
            requests: 98_000,
            length: Nanos::from_secs(3_600),
            stage: Nanos::from_secs(120),
            left_out: (31, 1_990),
            other_hosts: (1, 10),
            without_body: [("POST".to_owned(), 1_234), ("PUT".to_owned(), 5)].into(),
        };
        let path = Path::new("access.log");
        insta::assert_snapshot!(written(&log(path, &of), Path::new("plan.toml"), true), @r"
        log          access.log: common or combined format with request times, 100,000
                     requests in 1h
        unreadable   7 lines (line 3: no time in brackets)
        plan         0 routes of 98,000 requests, 1 stage of at most 2m, over which
                     bursts are spread
        left out     10 requests of 1 other host: the plan has those of a.test
        left out     1,990 requests of 31 rarer routes; the rates include them
        without body 1,234 POST, 5 PUT: the log has no bodies; give their steps one
        written      plan.toml
        next         truetail run URL --plan plan.toml
        ");
        of.lines.unreadable = 0;
        (of.left_out, of.other_hosts) = ((0, 0), (0, 0));
        of.without_body.clear();
        assert_eq!(log(path, &of).lines().count(), 4);
    }

    #[test]
    fn a_har_file_is_shown_with_what_its_plan_lacks() {
        let of = OfHar {
            plan: PlanFile { target: Some("https://h/".to_owned()), ..PlanFile::default() },
            entries: 40,
            other_hosts: [("https://cdn.test".to_owned(), 12)].into(),
            left_out: [("not an http or https URL", 2)].into(),
            secrets: vec!["Authorization".to_owned(), "Cookie".to_owned()],
        };
        let found = har(Path::new("a.har"), &of);
        insta::assert_snapshot!(written(&found, Path::new("plan.toml"), false), @r"
        HAR file     a.har: 40 requests
        plan         0 different requests to https://h/ and 1 other host
        other host   https://cdn.test, 12 requests: take its scenarios out unless you
                     may load it
        left out     2 requests: not an http or https URL
        secrets      the plan has the values of Authorization, Cookie
        written      plan.toml
        next         truetail run --plan plan.toml
        ");
    }
}
