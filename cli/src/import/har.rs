//! The plan of a HAR file, as browsers save it: a scenario for each different request, weighted by
//! how often it was sent. Pages also load other hosts than the first request's; those may not be
//! the user's to load, so they are listed.

use std::collections::BTreeMap;
use std::io::Read;

use engine::plan::endpoint::Endpoint;
use engine::plan::literal;
use engine::plan::scenario::{SCENARIOS_MAX, Scenario, Step};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::PlanFile;
use crate::args::unsendable;
use crate::json;

/// Headers that belong to the browser's connection, cache or page, not to the request.
const DROPPED: [&str; 17] = [
    "cache-control",
    "connection",
    "content-length",
    "dnt",
    "expect",
    "host",
    "keep-alive",
    "pragma",
    "priority",
    "proxy-connection",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "http2-settings",
];
/// The same for groups of headers; a colon begins the pseudo-headers of HTTP/2.
const DROPPED_PREFIXES: [&str; 4] = [":", "if-", "proxy-", "sec-"];

/// The plan of a HAR file, and what it has and lacks.
#[derive(Debug)]
pub(crate) struct OfHar {
    /// The plan.
    pub(crate) plan: PlanFile,
    /// The requests in the file.
    pub(crate) entries: u64,
    /// Scheme and host of each other URL than the first request's, with its requests.
    pub(crate) other_hosts: BTreeMap<String, u64>,
    /// Those that the plan leaves out, by reason.
    pub(crate) left_out: BTreeMap<&'static str, u64>,
    /// The headers of the plan that may hold a secret, by name.
    pub(crate) secrets: Vec<String>,
}

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Header>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    text: Option<String>,
    #[serde(default)]
    params: Vec<IgnoredAny>,
}

/// The plan of a file.
///
/// # Errors
/// The problem and its cure: it isn't a HAR file, or no plan follows from it.
pub(crate) fn read(har: impl Read) -> Result<OfHar, String> {
    let Har { log: Log { entries } } = json::read(har).map_err(|error| {
        // A message about a value would show it.
        let place = format!("line {}, column {}", error.line(), error.column());
        format!("not a HAR file (at {place}); save one from a browser's network panel")
    })?;
    let mut all = OfHar {
        plan: PlanFile::default(),
        entries: entries.len() as u64,
        other_hosts: BTreeMap::new(),
        left_out: BTreeMap::new(),
        secrets: Vec::new(),
    };
    let mut scenarios: Vec<Scenario> = Vec::new();
    for Entry { request } in entries {
        match step(request, &mut all.plan.target, &mut all.other_hosts) {
            Err(reason) => *all.left_out.entry(reason).or_default() += 1,
            Ok(step) => match scenarios.iter_mut().find(|it| it.step[0] == step) {
                Some(same) => same.weight += 1,
                None => scenarios.push(Scenario {
                    name: String::new(),
                    weight: 1,
                    step: vec![step],
                    ..Scenario::default()
                }),
            },
        }
    }
    if scenarios.is_empty() {
        return Err("has no request that can be loaded; save one of a page".to_owned());
    }
    if SCENARIOS_MAX < scenarios.len() {
        let found = scenarios.len();
        return Err(format!(
            "has {found} different requests, and a plan at most {SCENARIOS_MAX}; save less"
        ));
    }
    all.plan.headers = take_shared(&mut scenarios);
    let lines = scenarios.iter().flat_map(|it| &it.step[0].headers).chain(&all.plan.headers);
    all.secrets = super::secrets(lines);
    all.plan.scenario = scenarios;
    Ok(all)
}

/// The step of a request: a path on the target's host, or a URL on another one, which is counted.
/// The first request decides the target.
fn step(
    request: Request,
    target: &mut Option<String>,
    other_hosts: &mut BTreeMap<String, u64>,
) -> Result<Step, &'static str> {
    let Request { method, url, headers, post_data } = request;
    let url = literal::url(url);
    let Ok(endpoint) = Endpoint::parse(&url) else {
        return Err("not an http or https URL");
    };
    let host = endpoint.origin().to_ascii_lowercase();
    let text = |data: &PostData| data.text.clone().filter(|text| !text.is_empty());
    let body = post_data.as_ref().and_then(text).map(literal::body);
    if body.is_none() && post_data.is_some_and(|data| !data.params.is_empty()) {
        // Whether its values are encoded, and where its files end, isn't in the file.
        return Err("a form without the text of its body");
    }
    let is_dropped = |name: &str| {
        DROPPED.contains(&name) || DROPPED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let headers = headers
        .into_iter()
        .filter(|header| !is_dropped(&header.name.to_ascii_lowercase()))
        .map(|header| format!("{}: {}", header.name, header.value));
    let headers: Vec<String> = headers.collect();
    if !headers.iter().all(|line| literal::is_literal(line)) {
        return Err("a header with double braces, which a plan takes for a field");
    }
    let step = Step { method: Some(method), url: Some(url), headers, body, ..Step::default() };
    if unsendable(&step).is_some() {
        return Err("a method, URL or header that a plan can't have");
    }
    let is_first = *target.get_or_insert_with(|| format!("{host}/")) == format!("{host}/");
    let url = if is_first { endpoint.path } else { format!("{host}{}", endpoint.path) };
    if !is_first {
        *other_hosts.entry(host).or_default() += 1;
    }
    Ok(Step { url: Some(url), ..step })
}

/// Takes the headers that all requests share out of them.
fn take_shared(scenarios: &mut [Scenario]) -> Vec<String> {
    let (first, rest) = scenarios.split_first().expect("there is a request");
    let shared: Vec<String> = first.step[0]
        .headers
        .iter()
        .filter(|line| rest.iter().all(|other| other.step[0].headers.contains(line)))
        .cloned()
        .collect();
    // A step replaces all of the plan's headers of a name, so one with several lines stays there.
    let name = |line: &str| line.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let is_single = |line: &String| {
        let same = |step: &Step| step.headers.iter().filter(|it| name(it) == name(line)).count();
        scenarios.iter().all(|it| same(&it.step[0]) == 1)
    };
    let shared: Vec<String> = shared.into_iter().filter(is_single).collect();
    for scenario in scenarios {
        scenario.step[0].headers.retain(|line| !shared.contains(line));
    }
    shared
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(method: &str, url: &str, headers: &[(&str, &str)], body: Option<&str>) -> Value {
        let header = |(name, value): &(&str, &str)| json!({"name": name, "value": value});
        let headers: Vec<Value> = headers.iter().map(header).collect();
        let mut request = json!({"method": method, "url": url, "headers": headers});
        if let Some(text) = body {
            request["postData"] = json!({"mimeType": "text/plain", "text": text});
        }
        json!({"startedDateTime": "2026-01-01T00:00:00Z", "request": request, "response": {}})
    }

    fn of(entries: &[Value]) -> Result<OfHar, String> {
        read(json!({"log": {"version": "1.2", "entries": entries}}).to_string().as_bytes())
    }

    #[test]
    fn requests_become_scenarios_on_their_hosts() {
        let common = [(":authority", "h"), ("Accept", "*/*"), ("Cookie", "a=b"), ("sec-x", "y")];
        let json = [("Accept", "*/*"), ("Cookie", "c=d"), ("Content-Type", "application/json")];
        let mut form = entry("POST", "https://h:8443/form", &common, None);
        form["request"]["postData"] = json!({"mimeType": "x", "params": [{"name": "a"}]});
        let all = of(&[
            entry("GET", "https://H:8443/?q=1#top", &common, None),
            entry("GET", "https://cdn.test/x.js", &common, None),
            entry("GET", "data:text/css,x", &[], None),
            entry("POST", "https://h:8443/o", &json, Some("{\"a\":1}")),
            entry("POST", "https://h:8443/{{o}}", &json, Some("@x")),
            entry("GET", "https://h:8443/", &[("X-Template", "{{o}}")], None),
            entry("GET", "https://h:8443/?q=1", &common, None),
            entry("GET", "http://h:8443/", &common, None),
            entry("GET", "https://h:8443/é", &common, None),
            form,
        ]);
        let OfHar { plan, entries, other_hosts, left_out, secrets } = all.expect("a plan");
        let toml = toml::to_string(&plan).expect("TOML");
        let want = "target = \"https://h:8443/\"\nheaders = [\"Accept: */*\"]\n\n\
            [[scenario]]\nweight = 2\n\n[[scenario.step]]\nmethod = \"GET\"\nurl = \"/?q=1\"\n\
            headers = [\"Cookie: a=b\"]\n\n[[scenario]]\nweight = 1\n\n[[scenario.step]]\n\
            method = \"GET\"\nurl = \"https://cdn.test/x.js\"\nheaders = [\"Cookie: a=b\"]\n\n\
            [[scenario]]\nweight = 1\n\n[[scenario.step]]\nmethod = \"POST\"\nurl = \"/o\"\n\
            headers = [\"Cookie: c=d\", \"Content-Type: application/json\"]\n\
            body = '{\"a\":1}'\n\n\
            [[scenario]]\nweight = 1\n\n[[scenario.step]]\nmethod = \"POST\"\n\
            url = \"/%7B%7Bo%7D%7D\"\nheaders = [\"Cookie: c=d\", \
            \"Content-Type: application/json\"]\nbody = \"@data:;base64,QHg=\"\n\n\
            [[scenario]]\nweight = 1\n\n[[scenario.step]]\nmethod = \"GET\"\n\
            url = \"http://h:8443/\"\nheaders = [\"Cookie: a=b\"]\n";
        assert_eq!(toml, want);
        assert_eq!(entries, 10);
        let left_out: Vec<(&str, u64)> = left_out.into_iter().collect();
        assert_eq!(
            left_out,
            [
                ("a form without the text of its body", 1),
                ("a header with double braces, which a plan takes for a field", 1),
                ("a method, URL or header that a plan can't have", 1),
                ("not an http or https URL", 1),
            ]
        );
        let others: Vec<(String, u64)> = other_hosts.into_iter().collect();
        let want = [("http://h:8443", 1), ("https://cdn.test", 1)];
        assert_eq!(others, want.map(|(host, requests)| (host.to_owned(), requests)));
        assert_eq!(secrets, ["Cookie"]);
    }

    #[test]
    fn a_header_with_two_lines_stays_with_its_request() {
        let two = [("A", "1"), ("A", "2"), ("B", "1")];
        let all =
            of(&[entry("GET", "http://h/", &two, None), entry("GET", "http://h/b", &two, None)]);
        let plan = all.expect("a plan").plan;
        assert_eq!(plan.headers, ["B: 1"]);
        assert!(plan.scenario.iter().all(|it| it.step[0].headers == ["A: 1", "A: 2"]));
    }

    #[test]
    fn a_file_without_a_plan_is_refused_without_its_text() {
        let error = of(&[]).expect_err("no entry");
        assert!(error.starts_with("has no request that can be loaded"), "{error}");
        for text in ["", "pa55", "{\"log\": {\"entries\": \"pa55\"}}", "{\"pa55\": 1}"] {
            let error = read(text.as_bytes()).expect_err(text);
            assert!(error.starts_with("not a HAR file (at line 1, column "), "{error}");
            assert!(!error.contains("pa55"), "{error}");
        }
    }
}
