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

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

use plan::access_log::{self, Logged, Summary, has_body};
use plan::replay::Spread;
use plan::scenario::{SCENARIOS_MAX, Scenario, Step, weights_of};
use plan::{DURATION_MAX, Plan, PlanError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use units::{Nanos, SECOND_NS};

use super::schedule::mix;

/// Gives the places within a second values independent of the schedule's.
const SPREAD_SEED: u64 = 0x7370_7265_6164_0000;
/// The window ends with the millisecond of its last request.
const END_NS: u64 = 1_000_000;

/// A log that is sent again.
#[derive(Clone, Debug)]
pub struct Replay {
    /// When each request is due, ns since the window's start, in order.
    pub due_ns: Arc<[u64]>,
    /// The step of each, as a position in `steps`.
    pub taken: Arc<[u16]>,
    /// The log's different requests, each a method and a URL, in the order in which they first
    /// come.
    steps: Vec<Step>,
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
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
}

impl Replay {
    /// Reads a plan's log; `None` if it replays none.
    ///
    /// # Errors
    /// It can't be read, has no request, or takes too long.
    pub fn read(plan: &Plan) -> Result<Option<Replay>, PlanError> {
        let Some(file) = &plan.replay else { return Ok(None) };
        let refuse = |problem: String, cure: &str| {
            Err(PlanError::new("--replay", file.display(), problem, cure))
        };
        let mut lines = Vec::new();
        let read = File::open(file).and_then(|file| {
            let mut hashing = Hashing { file, hash: Sha256::new() };
            let read = access_log::read(BufReader::new(&mut hashing), |line| lines.push(line))?;
            Ok((read, hashing.hash.finalize()))
        });
        let (summary, hash) = match read {
            Ok(read) => read,
            Err(error) => {
                return refuse(format!("can't be read ({error})"), "name a readable log");
            }
        };
        let Some(format) = summary.format else {
            let (problem, cure) = summary.refusal();
            return refuse(problem, cure);
        };
        let Summary { requests, unreadable, problems, .. } = summary;
        let is_whole = |line: &Logged| line.stamped_ns.is_multiple_of(SECOND_NS);
        let spread = plan.spread() == Spread::Even && lines.iter().all(is_whole);
        if spread {
            spread_seconds(&mut lines, plan.seed);
        }
        let log = ReplayedLog {
            format: format.to_string(),
            requests,
            unreadable,
            problems,
            spread,
            sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let replay = Replay::of_lines(lines, plan.speed().micro(), log);
        let length = Nanos(replay.end_ns());
        if DURATION_MAX < length {
            let problem =
                format!("its requests take {length}, and a window at most {DURATION_MAX}");
            return refuse(problem, "raise --speed, or give a part of the log");
        }
        if SCENARIOS_MAX < replay.steps.len() {
            let problem = format!(
                "it has {} different URLs, and a run at most {SCENARIOS_MAX}",
                replay.steps.len()
            );
            return refuse(problem, "give a part of it, or use `truetail import`");
        }
        Ok(Some(replay))
    }

    fn of_lines(mut lines: Vec<Logged>, speed_micro: u64, log: ReplayedLog) -> Replay {
        // Lines of the same time stay in their order.
        lines.sort_by_key(Logged::began_ns);
        let first_ns = lines.first().map_or(0, Logged::began_ns);
        let due = |line: &Logged| {
            let since =
                u128::from(line.began_ns() - first_ns) * 1_000_000 / u128::from(speed_micro);
            u64::try_from(since).unwrap_or(u64::MAX)
        };
        let due_ns = lines.iter().map(due).collect();
        let mut known: HashMap<(String, String), usize> = HashMap::new();
        let (mut taken, mut steps) = (Vec::new(), Vec::new());
        for Logged { method, path, body, .. } in lines {
            // In a plan, a body that begins with @ names a file.
            let body = body.filter(|body| !body.starts_with('@'));
            let step = *known.entry((method, path)).or_insert_with_key(|(method, path)| {
                let (method, url) = (Some(method.clone()), Some(path.clone()));
                steps.push(Step { method, url, body, ..Step::default() });
                steps.len() - 1
            });
            taken.push(u16::try_from(step).unwrap_or(u16::MAX));
        }
        Replay { due_ns, taken: taken.into(), steps, log }
    }

    /// Completes a plan by what only the log knows: the length of the window, which a shorter
    /// duration cuts, the number of requests in it, and a scenario for each different request.
    pub fn complete(&self, plan: &mut Plan) {
        plan.duration = plan.duration.min(Nanos(self.end_ns()));
        let requests = self.requests_before(plan.duration.0);
        plan.requests = Some(requests);
        let mut counts = vec![0; self.steps.len()];
        let within = usize::try_from(requests).expect("they are in memory");
        self.taken[..within].iter().for_each(|step| counts[usize::from(*step)] += 1);
        let scenario = |(step, weight): (&Step, u32)| {
            let mut step = step.clone();
            let method = step.method.as_deref().unwrap_or_default();
            // The plan's body is for the methods that have one.
            if plan.body.is_some() && step.body.is_none() && !has_body(method) {
                step.body = Some(String::new());
            }
            Scenario { name: String::new(), weight, step: [step] }
        };
        plan.scenario = self.steps.iter().zip(weights_of(&counts)).map(scenario).collect();
    }

    /// Where the window of the whole log ends, ns since its start.
    pub fn end_ns(&self) -> u64 {
        let last_ns = self.due_ns.last().copied().unwrap_or(0);
        (last_ns / END_NS + 1).saturating_mul(END_NS)
    }

    /// The number of requests due before this time, ns since the window's start.
    pub fn requests_before(&self, end_ns: u64) -> u64 {
        self.due_ns.partition_point(|due_ns| *due_ns < end_ns) as u64
    }
}

/// Spreads the lines of each second over it.
fn spread_seconds(lines: &mut [Logged], seed: u64) {
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

/// Hashes what is read from a file.
struct Hashing {
    file: File,
    hash: Sha256,
}

impl Read for Hashing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use plan::replay::Speed;
    use tempfile::NamedTempFile;

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
        Replay::read(&change(plan)).expect("a log").expect("a replay")
    }

    fn json(time: &str, method: &str, path: &str) -> String {
        format!("{{\"time\":{time},\"method\":\"{method}\",\"path\":\"{path}\"}}\n")
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
        let urls: Vec<_> = whole.steps.iter().map(|step| step.url.as_deref()).collect();
        assert_eq!(
            (&urls[..], &whole.taken[..]),
            (&[Some("/a?x"), Some("/b"), Some("/c")][..], &[0, 1, 2][..])
        );
        assert_eq!((whole.end_ns(), whole.log.spread), (2_251_000_000, false));
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
        let together = replay(&log, |plan| Plan { spread: Some(Spread::None), ..plan });
        assert!(together.due_ns[..1_000].iter().all(|due_ns| *due_ns == 0));
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

    #[test]
    fn the_log_completes_the_plan() {
        let log = [json("1.5", "GET", "/"), json("2.5", "POST", "/"), json("3.5", "GET", "/")];
        let (plan, _file) = plan(&log.concat());
        let completed = |plan: Plan| {
            let mut plan = plan.complete(&[0]).expect("it runs");
            Replay::read(&plan).expect("a log").expect("a replay").complete(&mut plan);
            plan.complete(&[0]).expect("it still runs")
        };
        let whole = completed(Plan { body: Some("x".to_owned()), ..plan.clone() });
        assert_eq!((whole.requests, whole.duration), (Some(3), Nanos(2_001_000_000)));
        let steps: Vec<_> =
            whole.requests().into_iter().map(|plan| (plan.method, plan.body)).collect();
        let bodies = [("GET", ""), ("POST", "x")];
        assert_eq!(steps, bodies.map(|(method, body)| (method.to_owned(), Some(body.to_owned()))));
        assert_eq!((whole.weights(), whole.step_names()[1].as_str()), (vec![2, 1], "POST /"));
        let again = completed(whole.clone());
        assert_eq!(again, whole, "the plan of a report is the same plan");
        let cut = completed(Plan { duration: Nanos::from_secs(1), ..plan });
        assert_eq!((cut.requests, cut.weights()), (Some(1), vec![1, 0]));
    }

    #[test]
    fn a_log_that_cannot_be_sent_again_is_refused() {
        for (text, problem) in [
            ("", "has no line; give a log"),
            ("pa55\n", "has no readable line (line 1: no time in brackets); give a log"),
            (
                &[json("1", "GET", "/"), json("1000001", "GET", "/")].concat(),
                "s, and a window at most 168h; raise --speed",
            ),
        ] {
            let (plan, _file) = plan(text);
            let error = Replay::read(&plan).expect_err(problem).to_string();
            assert!(error.starts_with("--replay /") && error.contains(problem), "{error}");
            assert!(!error.contains("pa55"), "{error}");
        }
        let missing = Plan { replay: Some("/nowhere.log".into()), ..Plan::default() };
        let error = Replay::read(&missing).expect_err("missing").to_string();
        assert!(error.starts_with("--replay /nowhere.log: can't be read ("), "{error}");
        assert!(Replay::read(&Plan::default()).expect("no log").is_none());
    }
}
