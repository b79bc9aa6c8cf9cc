//! The plan of an access log: its routes with their shares as weights, and its rates as stages.
//!
//! A log has no URL's scheme and usually no host, so the plan has no target: it is for `run` to
//! name, which also keeps a plan from loading what was logged by accident.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

use engine::plan::access_log::{self, Logged, Summary};
use engine::plan::literal;
use engine::plan::route::folded;
use engine::plan::scenario::{Scenario, Step, weights_of};
use engine::plan::stage::Stage;
use engine::plan::{DURATION_MAX, PARTS_MAX};
use engine::sys::units::{Nanos, SECOND_NS};

use super::PlanFile;

/// Seconds of the stages of a long log.
const MINUTE_S: u64 = 60;
/// Those of a shorter one, which would have few stages of a minute; the first that gives no more
/// than [`STAGES_MAX`] is taken.
const SHORTER_S: [u64; 3] = [1, 5, 15];
/// The most stages shorter than a minute.
const STAGES_MAX: u64 = 60;

/// The plan of a log, and what it has and lacks.
#[derive(Debug)]
pub(crate) struct OfLog {
    /// The plan.
    pub(crate) plan: PlanFile,
    /// The log's lines.
    pub(crate) lines: Summary,
    /// The host whose requests the plan has, if the log names one.
    pub(crate) host: Option<String>,
    /// The requests of the plan's routes.
    pub(crate) requests: u64,
    /// The log's length.
    pub(crate) length: Nanos,
    /// The length of each stage, except that the last may be shorter.
    pub(crate) stage: Nanos,
    /// Routes that the plan leaves out, and their requests.
    pub(crate) left_out: (u64, u64),
    /// Hosts that the plan leaves out, and their requests.
    pub(crate) other_hosts: (u64, u64),
    /// The plan's requests that had a body which it lacks, by method.
    pub(crate) without_body: BTreeMap<String, u64>,
}

/// What a log has of one host.
#[derive(Default)]
struct Host {
    requests: u64,
    /// Requests by the second in which they began.
    seconds: BTreeMap<u64, u64>,
    /// By method and URL.
    urls: HashMap<Key, Url>,
}

#[derive(Default)]
struct Url {
    requests: u64,
    body: Option<String>,
}

/// The URLs that are one route.
#[derive(Default)]
struct Route {
    requests: u64,
    /// The most frequent one, which stands for all: its requests, itself and its body.
    usual: (u64, String, Option<String>),
}

/// The plan of the host that the log has most requests of, with at most `routes_max` routes.
///
/// # Errors
/// The problem and its cure: it can't be read, or no plan follows from it.
pub(crate) fn read(log: &mut impl BufRead, fold: bool, routes_max: usize) -> Result<OfLog, String> {
    let mut hosts: HashMap<Option<String>, Host> = HashMap::new();
    let lines = access_log::read(log, |request| {
        let second = request.began_ns() / SECOND_NS;
        let Logged { method, host, path, body, .. } = request;
        let host = hosts.entry(host).or_default();
        host.requests += 1;
        *host.seconds.entry(second).or_default() += 1;
        let url = host.urls.entry((method, path)).or_default();
        url.requests += 1;
        url.body = url.body.take().or(body.map(literal::body));
        Ok(())
    });
    let lines = lines.map_err(|error| format!("can't be read ({error}); name a file"))?;
    let all: u64 = hosts.values().map(|host| host.requests).sum();
    let other_hosts = hosts.len().saturating_sub(1) as u64;
    let largest = hosts
        .into_iter()
        .max_by(|(one, a), (other, b)| a.requests.cmp(&b.requests).then_with(|| other.cmp(one)));
    let Some((name, host)) = largest else { return Err(unreadable(&lines)) };
    let (routes, left_out) = routes(host.urls, fold, routes_max);
    let (stages, stage, length) = stages(&host.seconds, routes.len())?;
    let mut without_body: BTreeMap<String, u64> = BTreeMap::new();
    for ((method, _), route) in &routes {
        if access_log::has_body(method) && route.usual.2.is_none() {
            *without_body.entry(method.clone()).or_default() += route.requests;
        }
    }
    Ok(OfLog {
        requests: routes.iter().map(|(_, route)| route.requests).sum(),
        plan: PlanFile { stage: stages, scenario: scenarios(routes), ..PlanFile::default() },
        lines,
        host: name,
        length,
        stage,
        left_out,
        other_hosts: (other_hosts, all - host.requests),
        without_body,
    })
}

fn unreadable(lines: &Summary) -> String {
    let (problem, cure) = lines.refusal();
    format!("{problem}; {cure}")
}

/// A method, and a URL or the name that a route's URLs share.
type Key = (String, String);

/// The most frequent routes, and how many others there are, with their requests.
fn routes(
    urls: HashMap<Key, Url>,
    fold: bool,
    routes_max: usize,
) -> (Vec<(Key, Route)>, (u64, u64)) {
    let mut routes: HashMap<Key, Route> = HashMap::new();
    for ((method, url), Url { requests, body }) in urls {
        let name = if fold { folded(&url) } else { url.clone() };
        let route = routes.entry((method, name)).or_default();
        route.requests += requests;
        // Of two as frequent ones the first by name, so that the plan is always the same.
        let (most, usual, _) = &route.usual;
        if *most < requests || *most == requests && url < *usual {
            route.usual = (requests, url, body);
        }
    }
    let mut routes: Vec<(Key, Route)> = routes.into_iter().collect();
    routes.sort_by(|(one, a), (other, b)| b.requests.cmp(&a.requests).then_with(|| one.cmp(other)));
    let rest = routes.split_off(routes_max.min(routes.len()));
    (routes, (rest.len() as u64, rest.iter().map(|(_, route)| route.requests).sum()))
}

fn scenarios(routes: Vec<(Key, Route)>) -> Vec<Scenario> {
    let counts: Vec<u64> = routes.iter().map(|(_, route)| route.requests).collect();
    let scenario = |(((method, name), route), weight): ((Key, Route), u32)| {
        let (_, url, body) = route.usual;
        // Names are shown, and a query may hold a secret: `run` finds a name without it.
        let name = if name.contains('?') { String::new() } else { format!("{method} {name}") };
        let step = Step { method: Some(method), url: Some(url), body, ..Step::default() };
        Scenario { name, weight, step: vec![step], ..Scenario::default() }
    };
    routes.into_iter().zip(weights_of(&counts)).map(scenario).collect()
}

/// The rates of these seconds as stages of whole minutes, or of a part of one for a short log, as
/// short as the results of so many routes allow; also the length of a stage, and of all.
fn stages(
    seconds: &BTreeMap<u64, u64>,
    routes: usize,
) -> Result<(Vec<Stage>, Nanos, Nanos), String> {
    let (first, last) = (seconds.keys().next(), seconds.keys().next_back());
    let (first, last) = first.zip(last).expect("there is a request");
    let whole_s = last - first + 1;
    let length = Nanos(whole_s.saturating_mul(SECOND_NS));
    if DURATION_MAX < length {
        return Err(format!(
            "its requests span {length}, and a run takes at most {DURATION_MAX}; give a part of it"
        ));
    }
    let stages_max = (PARTS_MAX / routes) as u64;
    let fits = |length_s: &u64| whole_s.div_ceil(*length_s) <= stages_max.min(STAGES_MAX);
    let minutes = whole_s.div_ceil(MINUTE_S).div_ceil(stages_max);
    let stage_s = SHORTER_S.into_iter().find(fits).unwrap_or(minutes * MINUTE_S);
    let stage = |from: u64| {
        let length_s = stage_s.min(last + 1 - from);
        let requests: u64 = seconds.range(from..from + length_s).map(|(_, count)| count).sum();
        let rate = requests as f64 / length_s as f64;
        format!("{rate:.6}:{length_s}s").parse().expect("a rate and a length")
    };
    let starts = (*first..=*last).step_by(usize::try_from(stage_s).expect("at most a week"));
    Ok((starts.map(stage).collect(), Nanos::from_secs(stage_s), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line at this second of an hour.
    fn line(second: u64, request: &str) -> String {
        let (minute, second) = (second / 60, second % 60);
        format!(
            "- - - [10/Oct/2000:13:{minute:02}:{second:02} +0000] \"{request} HTTP/1.1\" 200 1\n"
        )
    }

    fn of(log: &str, fold: bool, routes_max: usize) -> OfLog {
        read(&mut log.as_bytes(), fold, routes_max).expect("a plan")
    }

    fn texts(plan: &PlanFile) -> Vec<(&str, u32, &str)> {
        let mut texts = Vec::new();
        for Scenario { name, weight, step, .. } in &plan.scenario {
            texts.push((name.as_str(), *weight, step[0].url.as_deref().expect("a URL")));
        }
        texts
    }

    #[test]
    fn routes_have_their_requests_as_weights_and_the_usual_url() {
        let lines =
            [(1, "GET /u/1?a=b"), (3, "GET /u/2"), (2, "GET /"), (2, "POST /u/9"), (1, "PUT /x")];
        let log: String =
            lines.iter().map(|(times, request)| line(0, request).repeat(*times)).collect();
        let all = of(&log, true, 1_000);
        let want = [
            ("GET /u/{id}", 4, "/u/2"),
            ("GET /", 2, "/"),
            ("POST /u/{id}", 2, "/u/9"),
            ("PUT /x", 1, "/x"),
        ];
        assert_eq!(texts(&all.plan), want);
        assert_eq!((all.requests, all.left_out), (9, (0, 0)));
        let bodies: Vec<_> = all.without_body.into_iter().collect();
        assert_eq!(bodies, [("POST".to_owned(), 2), ("PUT".to_owned(), 1)]);
        let few = of(&log, false, 2);
        assert_eq!(texts(&few.plan), [("GET /u/2", 3, "/u/2"), ("GET /", 2, "/")]);
        assert_eq!((few.requests, few.left_out), (5, (3, 4)));
        let exact = of(&log, false, 9);
        let with_query = exact.plan.scenario.iter().find(|it| it.name.is_empty());
        assert_eq!(with_query.and_then(|it| it.step[0].url.as_deref()), Some("/u/1?a=b"));
    }

    #[test]
    fn rates_are_those_of_each_minute_from_the_first_request_on() {
        let counts = [(7, 60), (66, 60), (67, 30), (1_207, 1), (1_226, 1)];
        let log: String =
            counts.iter().map(|(second, times)| line(*second, "GET /").repeat(*times)).collect();
        let all = of(&log, true, 1_000);
        let rates: Vec<String> = all.plan.stage.iter().map(ToString::to_string).collect();
        assert_eq!(rates[..3], ["2:1m", "0.5:1m", "0:1m"]);
        assert_eq!((rates.len(), rates[20].as_str()), (21, "0.1:20s"));
        assert_eq!((all.stage, all.length), (Nanos::from_secs(60), Nanos::from_secs(1_220)));
        // With 400 routes a run has results for two stages.
        let routes: String = (0..400).map(|at| line(at, &format!("GET /r{at}"))).collect();
        let many = of(&routes, true, 1_000);
        assert_eq!((many.plan.stage.len(), many.stage), (2, Nanos::from_secs(240)));
    }

    #[test]
    fn a_short_log_has_short_stages() {
        for (seconds, stages, length_s) in
            [(1, 1, 1), (60, 60, 1), (61, 13, 5), (300, 60, 5), (301, 21, 15), (901, 16, 60)]
        {
            let log = line(0, "GET /") + &line(seconds - 1, "GET /");
            let all = of(&log, true, 1_000);
            let found = (all.plan.stage.len(), all.stage);
            assert_eq!(found, (stages, Nanos::from_secs(length_s)), "{seconds} s");
        }
        // A burst isn't spread over a minute.
        let log = line(0, "GET /").repeat(50) + &line(2, "GET /");
        let rates: Vec<String> =
            of(&log, true, 9).plan.stage.iter().map(ToString::to_string).collect();
        assert_eq!(rates, ["50:1s", "0:1s", "1:1s"]);
    }

    #[test]
    fn a_request_belongs_to_the_second_in_which_it_began() {
        let long = "- - - [10/Oct/2000:13:00:10 +0000] \"GET / HTTP/1.1\" 200 1 9.500\n";
        let short = "- - - [10/Oct/2000:13:00:10 +0000] \"GET / HTTP/1.1\" 200 1 0.000\n";
        assert_eq!(of(&format!("{short}{long}"), true, 9).length, Nanos::from_secs(11));
    }

    #[test]
    fn the_host_with_most_requests_is_kept() {
        let line = |host: &str| {
            format!(
                "{{\"time\":9,\"method\":\"POST\",\"path\":\"/\",\"host\":\"{host}\",\"body\":\"x\"}}\n"
            )
        };
        let all = of(&[line("a"), line("b"), line("b"), line("c")].concat(), true, 9);
        assert_eq!((all.host.as_deref(), all.requests, all.other_hosts), (Some("b"), 2, (2, 2)));
        assert!(all.without_body.is_empty());
        assert_eq!(all.plan.scenario[0].step[0].body.as_deref(), Some("x"));
    }

    #[test]
    fn a_log_without_a_plan_is_refused() {
        let week = line(0, "GET /").replace("2000", "2001");
        for (log, problem) in [
            ("", "is empty; give a log"),
            ("x\ny\n", "has no readable line (line 1: no time in brackets; line 2: no time"),
            (&[line(0, "GET /"), week].concat(), "span 8760h"),
        ] {
            let error = read(&mut log.as_bytes(), true, 9).expect_err(problem);
            assert!(error.contains(problem), "{error}");
        }
    }
}
