//! A log as a schedule: when each of its requests is due again, and which step it takes.
//!
//! Times are absolute: request k is due as long after the window's start as it came after the log's
//! first one, divided by the speed. Nothing moves them, so a target that stalls delays answers and
//! erases no arrival. Requests are numbered by their time, from 0, and shares take the numbers of
//! constant arrivals: any number of shards sends the same union.
//!
//! Most logs know only the second of a line. Such a second's lines are spread over it: each is put
//! into one of as many equal cells, at a place in it that follows from the seed. Sent together they
//! would be a burst that the log doesn't have. A line that is stamped at its request's end is
//! spread first, and then moved back by the time that the request took.
//!
//! Paths and bodies are data, by the requests' numbers, as if they were in a file of `--data`
//! called `log`: each route is a scenario whose URL is a field (`values.rs`). So a log may have any
//! number of them. A line takes 18 bytes besides its path and its body, and up to three times as
//! much while the log is read.

use std::collections::{HashMap, HashSet};
use std::io::BufReader;
use std::sync::Arc;

use plan::access_log::{self, Logged, Summary, has_body};
use plan::body::SharedBody;
use plan::data::{Data, DataFile, End, Pick, Table};
use plan::endpoint::Endpoint;
use plan::replay::{LOG, Spread};
use plan::scenario::{SCENARIOS_MAX, Scenario, Step, weights_of};
use plan::{DURATION_MAX, Plan, PlanError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Nanos, SECOND_NS};

use super::routes::{Route, Routes};
use super::schedule::mix;

/// Gives the places within a second values independent of the schedule's.
const SPREAD_SEED: u64 = 0x7370_7265_6164_0000;
/// The window is rounded up to whole milliseconds.
const END_NS: u64 = 1_000_000;
/// How long the window lasts after the log's last request, so that a burst at its end is sent, and
/// answered by all but slow targets, within it.
const TAIL_NS: u64 = SECOND_NS;
/// The most bytes of a path, and of a body: both and the headers have to fit a request with fields.
const TEXT_MAX: usize = 12_288;
/// How much of a log is read at once, bytes.
const READ_BYTES: usize = 1 << 18;

/// A log that is sent again.
#[derive(Clone, Debug)]
pub struct Replay {
    /// When each request is due, ns since the window's start, in order.
    pub due_ns: Arc<[u64]>,
    /// The step of each, as an index into the scenarios.
    pub steps: Arc<[u16]>,
    /// The path of each, without its first slash, and its body.
    pub data: Data,
    /// The routes, each of which is a scenario.
    routes: Vec<Route>,
    /// What was read.
    pub log: ReplayedLog,
}

/// A log that was sent again, as a report has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayedLog {
    /// How its lines are written.
    pub format: String,
    /// Lines that are requests.
    pub requests: u64,
    /// Lines that can't be read, and weren't sent.
    pub unreadable: u64,
    /// The first few of these, each with its number and what is wrong.
    pub problems: Vec<String>,
    /// True if the log has only whole seconds, and their requests were spread over them.
    pub spread: bool,
    /// Its different routes: methods, and paths with their ids folded.
    pub routes: u64,
    /// Its different hosts. All its requests were sent to that of the plan.
    pub hosts: u64,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
}

/// A request of the log, while it is read.
struct Line {
    /// The time of its line, ns since the Unix epoch.
    stamped_ns: u64,
    /// True if that is written in whole seconds.
    is_whole: bool,
    /// How long it took before, ns.
    took_ns: u64,
    /// Its route, as it was found.
    route: u32,
    /// The row of its path and body.
    row: u32,
}

impl Line {
    fn began_ns(&self) -> u64 {
        self.stamped_ns.saturating_sub(self.took_ns)
    }
}

/// The lines of a log, in their order.
struct Lines {
    all: Vec<Line>,
    texts: Table,
    routes: Routes,
    hosts: HashSet<String>,
}

impl Lines {
    fn add(&mut self, logged: Logged) -> Result<(), &'static str> {
        let Logged { stamped_ns, is_whole, took_ns, method, host, path, body } = logged;
        // Where a GET has no body, some logs have an empty one.
        let body = body.filter(|body| !body.is_empty() || has_body(&method));
        let text = body.as_deref().unwrap_or_default();
        if TEXT_MAX < path.len().max(text.len()) {
            return Err("the path or the body has more than 12288 bytes");
        }
        let route = self.routes.add(&method, &path, body.is_some());
        let row = u32::try_from(self.all.len()).expect("a line has more than a byte");
        self.all.push(Line { stamped_ns, is_whole, took_ns, route, row });
        self.texts.push([path.strip_prefix('/').unwrap_or(&path), text]);
        if let Some(host) = host.filter(|host| !self.hosts.contains(host)) {
            self.hosts.insert(host);
        }
        Ok(())
    }
}

fn columns() -> Table {
    Table::new(["path", "body"].map(str::to_owned).to_vec())
}

impl Replay {
    /// Reads a plan's log, which `files` has or reads; `None` if it replays none.
    ///
    /// # Errors
    /// It can't be read, has no request, or takes too long.
    pub fn read(plan: &Plan, files: &SharedBody) -> Result<Option<Replay>, PlanError> {
        let Some(file) = &plan.replay else { return Ok(None) };
        let refuse = |problem: String, cure: &str| {
            Err(PlanError::new("--replay", file.display(), problem, cure))
        };
        let contents = files.file("--replay", &file.to_string_lossy())?;
        let reader = BufReader::with_capacity(READ_BYTES, contents.reader());
        let mut lines = Lines {
            all: Vec::new(),
            texts: columns(),
            routes: Routes::default(),
            hosts: HashSet::new(),
        };
        let summary = match access_log::read(reader, |logged| lines.add(logged)) {
            Ok(summary) => summary,
            Err(error) => {
                return refuse(format!("can't be read ({error})"), "name a readable log");
            }
        };
        if summary.format.is_none() {
            let (problem, cure) = summary.refusal();
            return refuse(problem, cure);
        }
        let format = summary.format_text();
        let Summary { requests, unreadable, problems, .. } = summary;
        let spread = plan.spread() == Spread::Even && lines.all.iter().all(|line| line.is_whole);
        if spread {
            spread_seconds(&mut lines.all, plan.seed);
        }
        let log = ReplayedLog {
            format,
            requests,
            unreadable,
            problems,
            spread,
            routes: lines.routes.found() as u64,
            hosts: lines.hosts.len() as u64,
            sha256: contents.sha256().iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let of = DataFile { file: file.clone(), pick: Pick::ByNumber, end: End::Wrap };
        let replay = Replay::of_lines(lines, of, plan.speed().micro(), log);
        let length = Nanos(replay.end_ns());
        if DURATION_MAX < length {
            let problem =
                format!("its requests take {length}, and a window at most {DURATION_MAX}");
            return refuse(problem, "raise --speed, or give a part of the log");
        }
        if SCENARIOS_MAX < replay.routes.len() {
            let problem = format!(
                "its requests have so many methods that they are {} routes, and a run has at most \
                 {SCENARIOS_MAX}",
                replay.routes.len()
            );
            return refuse(problem, "leave out those of the rarest methods");
        }
        Ok(Some(replay))
    }

    fn of_lines(lines: Lines, of: DataFile, speed_micro: u64, log: ReplayedLog) -> Replay {
        let Lines { mut all, texts, routes, .. } = lines;
        // Lines of the same time stay in their order.
        all.sort_by_key(Line::began_ns);
        let first_ns = all.first().map_or(0, Line::began_ns);
        let due = |line: &Line| {
            let since =
                u128::from(line.began_ns() - first_ns) * 1_000_000 / u128::from(speed_micro);
            u64::try_from(since).unwrap_or(u64::MAX)
        };
        let mut table = columns();
        for Line { row, .. } in &all {
            table.push([0, 1].map(|column| texts.value(u64::from(*row), column)));
        }
        let (routes, results) = routes.into_results();
        // More than a plan may have are refused before any is taken.
        let step = |line: &Line| u16::try_from(results[line.route as usize]).unwrap_or(u16::MAX);
        Replay {
            due_ns: all.iter().map(due).collect(),
            steps: all.iter().map(step).collect(),
            data: Data { name: LOG.to_owned(), of, table: table.into(), is_encoded: true },
            routes,
            log,
        }
    }

    /// Completes a plan by what only the log knows: the length of the window, which a shorter
    /// duration cuts, the number of requests in it, and a scenario for each route.
    pub fn complete(&self, plan: &mut Plan) {
        plan.duration = plan.duration.min(Nanos(self.end_ns()));
        let requests = self.requests_before(plan.duration.0);
        plan.requests = Some(requests);
        let mut counts = vec![0; self.routes.len()];
        let within = usize::try_from(requests).expect("they are in memory");
        self.steps[..within].iter().for_each(|step| counts[usize::from(*step)] += 1);
        // A path of the URL comes before each of the log's.
        let prefix = Endpoint::parse(&plan.target).map_or(String::new(), |target| target.path);
        let url = format!("{}/{{{{{LOG}.path}}}}", prefix.trim_end_matches('/'));
        let scenario = |(route, weight): (&Route, u32)| {
            let Route { name, method, has_body: is_logged } = route.clone();
            let body = match is_logged {
                true => Some(format!("{{{{{LOG}.body}}}}")),
                // The plan's body is for the methods that have one.
                false => plan.body.as_ref().filter(|_| !has_body(&method)).map(|_| String::new()),
            };
            let url = Some(url.clone());
            let step = Step { method: Some(method), url, body, ..Step::default() };
            Scenario::of_one(name, weight, step)
        };
        plan.scenario = self.routes.iter().zip(weights_of(&counts)).map(scenario).collect();
    }

    /// Where the window of the whole log ends, ns since its start: a second after its last request.
    pub fn end_ns(&self) -> u64 {
        let last_ns = self.due_ns.last().copied().unwrap_or(0);
        (last_ns / END_NS + 1).saturating_mul(END_NS).saturating_add(TAIL_NS)
    }

    /// The number of requests due before this time, ns since the window's start.
    pub fn requests_before(&self, end_ns: u64) -> u64 {
        self.due_ns.partition_point(|due_ns| *due_ns < end_ns) as u64
    }
}

/// Spreads the lines of each second over it.
fn spread_seconds(lines: &mut [Line], seed: u64) {
    let mut counts: HashMap<u64, (u64, u64)> = HashMap::new();
    for line in &*lines {
        counts.entry(line.stamped_ns).or_default().0 += 1;
    }
    let seed = mix(seed ^ SPREAD_SEED);
    for (line, number) in lines.iter_mut().zip(0_u64..) {
        let (count, before) = counts.get_mut(&line.stamped_ns).expect("each was counted");
        // The place within its cell, in parts of 2⁶⁴.
        let place = (u128::from(*before) << 64) + u128::from(mix(number ^ seed));
        let within = (place / u128::from(*count) * u128::from(SECOND_NS)) >> 64;
        line.stamped_ns += u64::try_from(within).expect("within a second");
        *before += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use plan::replay::Speed;
    use tempfile::NamedTempFile;

    use super::super::routes::ROUTES_MAX;
    use super::super::schedule::{Arrival, Schedule};
    use super::super::share::Share;
    use super::*;

    /// A plan that replays this text; the file lives as long as its handle.
    fn plan(text: &str) -> (Plan, NamedTempFile) {
        let mut file = NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        let plan = Plan {
            target: "http://h/".to_owned(),
            replay: Some(file.path().to_owned()),
            warmup: Nanos(0),
            duration: DURATION_MAX,
            ..Plan::default()
        };
        (plan, file)
    }

    fn replay(text: &str, change: impl Fn(Plan) -> Plan) -> Replay {
        let (plan, _file) = plan(text);
        Replay::read(&change(plan), &SharedBody::default()).expect("a log").expect("a replay")
    }

    fn json(time: &str, method: &str, path: &str) -> String {
        format!("{{\"time\":{time},\"method\":\"{method}\",\"path\":\"{path}\"}}\n")
    }

    /// The paths of all requests, by their numbers.
    fn paths(replay: &Replay) -> Vec<&str> {
        replay.data.table.values(0).collect()
    }

    fn at_speed(text: &str) -> impl Fn(Plan) -> Plan {
        let speed: Speed = text.parse().expect("a speed");
        move |plan| Plan { speed: Some(speed), ..plan }
    }

    #[test]
    fn requests_are_due_as_long_after_the_first_as_they_came() {
        let log = [
            json("1700000002.5", "GET", "/c"),
            json("1700000000.25", "POST", "/a?x"),
            json("1700000000.25", "GET", "/b"),
        ]
        .concat();
        let whole = replay(&log, |plan| plan);
        assert_eq!(whole.due_ns[..], [0, 0, 2_250_000_000]);
        assert_eq!(paths(&whole), ["a?x", "b", "c"]);
        let taken = whole.steps.iter().map(|step| whole.routes[usize::from(*step)].name.as_str());
        assert_eq!(taken.collect::<Vec<_>>(), ["POST /a", "GET /b", "GET /c"]);
        assert_eq!((whole.end_ns(), whole.log.spread), (3_251_000_000, false));
        assert_eq!(replay(&log, at_speed("2x")).due_ns[..], [0, 0, 1_125_000_000]);
        assert_eq!(replay(&log, at_speed("0.3x")).due_ns[2], 7_500_000_000);
    }

    #[test]
    fn the_lines_of_a_whole_second_are_spread_over_it() {
        let log = json("1700000000", "GET", "/").repeat(1_000) + &json("1700000003", "GET", "/");
        let spread = replay(&log, |plan| plan);
        assert!(spread.log.spread);
        let cell = |at: usize| spread.due_ns[0] + spread.due_ns[at];
        for at in 1..1_000 {
            // The first is due at 0, which is up to a cell after the second's start.
            let from = (at as u64 - 1) * 1_000_000;
            assert!((from..from + 2_000_000).contains(&cell(at)), "{at}: {}", cell(at));
        }
        assert!((2_998_000_000..4_000_000_000).contains(&spread.due_ns[1_000]));
        let gaps: Vec<u64> = spread.due_ns.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(gaps.iter().any(|gap| *gap != gaps[0]), "places differ");
        let again = replay(&log, |plan| plan);
        assert_eq!(spread.due_ns, again.due_ns);
        let other = replay(&log, |plan| Plan { seed: 2, ..plan });
        assert_ne!(spread.due_ns, other.due_ns);
        let none = |plan| Plan { spread: Some(Spread::None), ..plan };
        for together in [replay(&log, none), replay(&log.replace("0,", "0.000,"), |plan| plan)] {
            assert!(!together.log.spread);
            assert!(together.due_ns[..1_000].iter().all(|due_ns| *due_ns == 0));
        }
    }

    #[test]
    fn a_line_stamped_at_the_end_is_moved_back_by_its_requests_time() {
        let line = |second: u64, took: &str| {
            let record = json(&(1_700_000_000 + second).to_string(), "GET", "/");
            record.replace('}', &format!(",\"request_time\":{took}}}"))
        };
        let log = [line(5, "0.000"), line(9, "8.500")].concat();
        let spread = replay(&log, |plan| plan);
        // 9 s and a part of a second, minus 8.5 s, comes before 5 s.
        assert!(spread.log.spread);
        assert!((3_500_000_000..5_500_000_000).contains(&spread.due_ns[1]), "{spread:?}");
    }

    #[test]
    fn any_shares_send_the_same_union() {
        let log: String = (0..1_003).map(|at| json(&format!("{}.5", at / 7), "GET", "/")).collect();
        let due_ns = replay(&log, |plan| plan).due_ns;
        let until_ns = 100_000_000_000;
        let of = |share| Schedule::of_log(Arc::clone(&due_ns), until_ns, share);
        let whole: Vec<Arrival> = of(Share::whole()).collect();
        assert_eq!(whole.len(), due_ns.partition_point(|due_ns| *due_ns < until_ns));
        assert!(whole.iter().zip(0..).all(|(arrival, number)| arrival.number == number));
        for shards in [1, 2, 7] {
            let shares: Vec<Share> = (0..shards).map(|shard| Share::equal(shard, shards)).collect();
            let mut union: Vec<Arrival> = shares.iter().cloned().flat_map(of).collect();
            union.sort_unstable_by_key(|arrival| arrival.number);
            assert_eq!(union, whole);
            let (from, to) = (10_000_000_000, 60_000_000_000);
            let known = |share: &Share| of(share.clone()).expected_between(from, to);
            let within = |arrival: &&Arrival| (from..to).contains(&arrival.due_ns);
            let expected = whole.iter().filter(within).count() as u64;
            assert_eq!(shares.iter().map(known).sum::<u64>(), expected);
        }
    }

    /// This plan, completed with its log.
    fn completed(plan: Plan) -> Plan {
        let mut plan = plan.complete(&[0]).expect("it runs");
        let replay = Replay::read(&plan, &SharedBody::default()).expect("a log").expect("a replay");
        replay.complete(&mut plan);
        plan.complete(&[0]).expect("it still runs")
    }

    #[test]
    fn the_log_completes_the_plan() {
        let log = [json("1.5", "GET", "/7?a"), json("2.5", "POST", "/"), json("3.5", "GET", "/8")];
        let (plan, _file) = plan(&log.concat());
        let whole = completed(Plan { body: Some("x".to_owned()), ..plan.clone() });
        assert_eq!((whole.requests, whole.duration), (Some(3), Nanos(3_001_000_000)));
        let steps: Vec<_> =
            whole.requests().into_iter().map(|plan| (plan.method, plan.body)).collect();
        let bodies = [("GET", ""), ("POST", "x")];
        assert_eq!(steps, bodies.map(|(method, body)| (method.to_owned(), Some(body.to_owned()))));
        assert_eq!(
            (whole.weights(), whole.step_names()),
            (vec![2, 1], names(["GET /{id}", "POST /"]))
        );
        assert!(whole.requests().iter().all(|plan| plan.target == "http://h/{{log.path}}"));
        let again = completed(whole.clone());
        assert_eq!(again, whole, "the plan of a report is the same plan");
        for (target, sent) in [
            ("http://h", "http://h/{{log.path}}"),
            ("http://h/api", "http://h/api/{{log.path}}"),
            ("http://h/api/v2/", "http://h/api/v2/{{log.path}}"),
        ] {
            let below = completed(Plan { target: target.to_owned(), ..plan.clone() });
            assert!(below.requests().iter().all(|plan| plan.target == sent), "{target}");
        }
        let cut = completed(Plan { duration: Nanos::from_secs(1), ..plan });
        assert_eq!((cut.requests, cut.weights()), (Some(1), vec![1, 0]));
    }

    fn names(names: [&str; 2]) -> Vec<String> {
        names.map(str::to_owned).to_vec()
    }

    #[test]
    fn each_request_has_its_own_path_and_body() {
        let with_body = |line: String, body: &str| {
            line.replace("\"}\n", &format!("\",\"body\":\"{body}\"}}\n"))
        };
        let log = [
            with_body(json("3", "POST", "/orders/7"), "@{{seq}}"),
            with_body(json("1", "GET", "//a b?c={{d}}"), ""),
            with_body(json("2", "GET", "http://H/8"), "e"),
        ];
        let (plan, _file) = plan(&log.concat());
        let plan = Plan { spread: Some(Spread::None), ..plan };
        let whole = Replay::read(&plan, &SharedBody::default()).expect("a log").expect("a replay");
        assert_eq!(paths(&whole), ["/a%20b?c=%7B%7Bd%7D%7D", "8", "orders/7"]);
        assert_eq!(whole.data.table.values(1).collect::<Vec<_>>(), ["", "e", "@{{seq}}"]);
        let of_log = Some("{{log.body}}");
        let bodies: Vec<_> = completed(plan).requests().into_iter().map(|it| it.body).collect();
        let bodies: Vec<_> = bodies.iter().map(Option::as_deref).collect();
        assert_eq!(bodies, [None, of_log, of_log], "{:?}", whole.routes);
        assert_eq!((whole.log.routes, whole.log.hosts), (3, 1));
    }

    #[test]
    fn a_log_may_have_any_number_of_urls() {
        let line = |at: u32| json(&format!("{}.5", at / 1_000), "GET", &format!("/u/{at}/x-{at}"));
        let log: String = (0..3_000).map(line).collect();
        let whole = replay(&log, |plan| plan);
        assert_eq!((whole.log.routes, whole.routes.len()), (3_000, ROUTES_MAX + 1));
        assert_eq!(whole.routes[ROUTES_MAX].name, "other GET routes");
        let other = whole.steps.iter().filter(|step| usize::from(**step) == ROUTES_MAX).count();
        assert_eq!(other, 3_000 - ROUTES_MAX);
        assert_eq!(paths(&whole)[2_999], "u/2999/x-2999");
    }

    #[test]
    fn a_path_that_no_request_with_fields_can_have_is_unreadable() {
        let path = |bytes: usize| format!("/{}", "x".repeat(bytes - 1));
        let log = json("1.5", "GET", &path(TEXT_MAX)) + &json("2.5", "GET", &path(TEXT_MAX + 1));
        let whole = replay(&log, |plan| plan);
        assert_eq!((whole.log.requests, whole.log.unreadable), (1, 1));
        let problem = format!("line 2: the path or the body has more than {TEXT_MAX} bytes");
        assert_eq!(whole.log.problems, [problem]);
    }

    #[test]
    fn a_route_may_have_an_objective() {
        let (plan, _file) = plan(&[json("1.5", "GET", "/7"), json("1.6", "PUT", "/")].concat());
        let with = |slo: &str| Plan { slo: slo.parse().ok(), ..plan.clone() };
        assert!(completed(with("GET /{id}: p99<1s")).objectives().is_some());
        let mut unknown = with("GET /7: p99<1s").complete(&[0]).expect("the log isn't read yet");
        let replay = Replay::read(&unknown, &SharedBody::default()).expect("a log");
        replay.expect("a replay").complete(&mut unknown);
        let error = unknown.complete(&[0]).expect_err("no such route").to_string();
        assert!(
            error.starts_with("--slo GET /7: neither") && error.contains("GET /{id}"),
            "{error}"
        );
    }

    #[test]
    fn a_log_that_cannot_be_sent_again_is_refused() {
        for (text, problem) in [
            ("", "is empty; give a log"),
            ("pa55\n", "has no readable line (line 1: no time in brackets); give a log"),
            (
                &[json("1", "GET", "/"), json("1000001", "GET", "/")].concat(),
                "s, and a window at most 168h; raise --speed",
            ),
        ] {
            let (plan, _file) = plan(text);
            let read = Replay::read(&plan, &SharedBody::default());
            let error = read.expect_err(problem).to_string();
            assert!(error.starts_with("--replay /") && error.contains(problem), "{error}");
            assert!(!error.contains("pa55"), "{error}");
        }
        let missing = Plan { replay: Some("/nowhere.log".into()), ..Plan::default() };
        let read = |plan: &Plan| Replay::read(plan, &SharedBody::default());
        let error = read(&missing).expect_err("missing").to_string();
        assert!(error.starts_with("--replay /nowhere.log: can't read the file ("), "{error}");
        assert!(read(&Plan::default()).expect("no log").is_none());
    }
}
