//! A row's expectation, one run of the binary against its server, and the comparison.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::sys::placement::allowed_cores;
use serde_json::Value;

use super::server::{Fault, Log, Server};

/// The source of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Arrivals by a schedule.
    Open,
    /// Users without a pace.
    Closed,
    /// Users with a pace.
    Paced,
    /// Users without a pace and with a new connection for each request.
    NoKeepalive,
}

/// All models, in the order of a row's outcomes.
const MODELS: [Model; 4] = [Model::Open, Model::Closed, Model::Paced, Model::NoKeepalive];

/// One row of the table: a server's fault, how it is loaded, and the outcome.
pub struct Row {
    /// The server's fault.
    pub fault: Fault,
    /// The load.
    pub load: LoadShape,
    /// The outcome in the open, closed, paced and no-keepalive models. A single one holds for every
    /// model: only the open one runs, or all at full size.
    pub expected: Vec<Expected>,
}

/// The load of a row's server.
#[derive(Clone, Copy)]
pub struct LoadShape {
    /// True if the request has a body that no kernel buffer holds, and comes less often.
    pub large: bool,
    /// Users of the closed models.
    pub users: u64,
    /// The period of each user of the paced model, ms.
    pub period_ms: u64,
    /// Length of the warm-up, ms.
    pub warmup_ms: u64,
    /// Shortest window, ms.
    pub window_ms: u64,
    /// The timeout.
    pub timeout: Timeout,
}

/// The longest time of a request.
#[derive(Clone, Copy)]
pub enum Timeout {
    /// This long, ms.
    Ms(u64),
    /// Longer than the warm-up and the window.
    BeyondWindow,
}

/// How many of the sent requests had some outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// None of them.
    None,
    /// At least one.
    Some,
    /// All.
    All,
    /// Any number: the timing decides.
    Any,
}

/// A number in the report that equals one in the server's log, including connections and requests
/// of the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equality {
    /// Requests sent, once more if the server refused them once = requests that it read to their
    /// end.
    SentWereRead,
    /// Answered = whole responses to requests, status by status.
    AnsweredWereWritten,
    /// Failed = responses that the server broke, or resets in place of one.
    FailedWereBroken,
    /// Timed out or abandoned = requests read that got nothing.
    TimedOutWereIgnored,
    /// Timed out or abandoned = responses begun and never ended.
    TimedOutWereUnended,
    /// Connections opened = connections accepted, except for the first, which only tests the port.
    ConnectsWereAccepted,
    /// Failed, without those that had no connection = requests read that got nothing.
    FailedWereIgnored,
    /// Requeued, or failed since they were refused twice = requests that the server refused.
    RequeuedWereRefused,
    /// The same, but some that hadn't left when the server ended the connection are requeued too.
    RefusedWereRequeued,
    /// No stream began before the settings, or beyond their limit.
    NoneOverLimit,
}

/// A fault of the target that the report must count, and use against the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Users who were blocked for half of the window or more.
    StarvedUsers,
    /// Bytes without a request.
    UnaskedBytes,
    /// Responses followed by further bytes: all of them.
    TrailingBytes,
    /// A response that arrives before its request is no answer, but an outcome of its own or
    /// unsolicited bytes: as many as the server wrote before a request came.
    EarlyResponses,
    /// Answers to requests that weren't completely sent: a count, but no reason of the verdict.
    IncompleteUploads,
    /// A window without a request.
    NothingSent,
    /// More requests that were given up than connections: they end only their streams.
    ConnectionsLiveOn,
}

/// The outcome of a run.
#[derive(Clone, Copy)]
pub struct Expected {
    answered: Amount,
    timed_out: Amount,
    failed: Amount,
    causes: &'static [&'static str],
    equal: &'static [Equality],
    codes: &'static [&'static str],
    clean: bool,
    shown: &'static [Shown],
    fastest: Duration,
}

impl Expected {
    const NOTHING: Expected = Expected {
        answered: Amount::None,
        timed_out: Amount::None,
        failed: Amount::None,
        causes: &[],
        equal: &[],
        codes: &[],
        clean: false,
        shown: &[],
        fastest: Duration::ZERO,
    };

    /// Every request is answered.
    pub const fn answered() -> Expected {
        Expected { answered: Amount::All, ..Expected::NOTHING }
    }

    /// Every request times out, or is still in flight at the end.
    pub const fn timed_out() -> Expected {
        Expected { timed_out: Amount::All, codes: &["errors"], ..Expected::NOTHING }
    }

    /// Every request fails by one of these causes.
    pub const fn failed(causes: &'static [&'static str]) -> Expected {
        Expected { failed: Amount::All, causes, codes: &["errors"], ..Expected::NOTHING }
    }

    /// Some are answered, some time out, and some fail by one of these causes, in these amounts.
    pub const fn mixed(
        answered: Amount,
        timed_out: Amount,
        failed: Amount,
        causes: &'static [&'static str],
    ) -> Expected {
        Expected { answered, timed_out, failed, causes, ..Expected::NOTHING }
    }

    /// These numbers equal the server's.
    pub const fn equal(self, equal: &'static [Equality]) -> Expected {
        Expected { equal, ..self }
    }

    /// The verdict has these reasons, among others.
    pub const fn codes(self, codes: &'static [&'static str]) -> Expected {
        Expected { codes, ..self }
    }

    /// The verdict has no reason that blames the target.
    pub const fn clean(self) -> Expected {
        Expected { clean: true, ..self }
    }

    /// The report shows this.
    pub const fn shown(self, shown: &'static [Shown]) -> Expected {
        Expected { shown, ..self }
    }

    /// No latency can be shorter than this.
    pub const fn fastest(self, fastest: Duration) -> Expected {
        Expected { fastest, ..self }
    }
}

/// Reasons that blame the target.
const ACCUSATIONS: [&str; 4] = ["errors", "starved", "unsolicited", "nothing_sent"];
/// Reasons that are wrong for any target: they blame truetail or its machine for something that no
/// server here can cause.
const WRONG: [&str; 3] = ["littles_law", "local_resource", "buffers_exhausted"];
/// Reasons of a run that the machine disturbed.
const DISTURBED: [&str; 5] =
    ["generator_late", "core_saturated", "cpu_stolen", "cpu_contended", "cpu_throttled"];
/// The most runs of a row that the machine disturbs.
const RUNS_MAX: usize = 3;
/// The most memory of a run, which its plan decides and no server, KiB.
const MEMORY_MAX_KIB: u64 = 96 * 1024;
/// The streams of an HTTP/2 connection.
const STREAMS: &str = "4";
/// A run that takes longer than its plan by this much is killed.
const RUN_SLACK: Duration = Duration::from_secs(30);

/// The factor on a run's small window, from the environment; 1 by default.
fn scale() -> u64 {
    std::env::var("TEST_HOSTILE_SCALE")
        .map_or(1, |scale| scale.parse().expect("TEST_HOSTILE_SCALE is a whole number"))
}

/// Runs a row in its models, all at once, and panics with any difference.
pub fn check(row: &Row) {
    let expected = match row.expected[..] {
        [of_every_model] if 1 < scale() => &[of_every_model; MODELS.len()],
        _ => &row.expected[..],
    };
    let differences = thread::scope(|scope| {
        let runs: Vec<_> = MODELS
            .into_iter()
            .zip(expected)
            .map(|(model, expected)| scope.spawn(move || compare(row, model, expected)))
            .collect();
        runs.into_iter().flat_map(|run| run.join().expect("a run")).collect::<Vec<_>>()
    });
    assert!(
        differences.is_empty(),
        "{} of {} runs differ:\n{}",
        differences.len(),
        expected.len(),
        differences.join("\n")
    );
}

/// The length of a body that can't be completely sent before a server reads it: above the kernel's
/// largest send buffer, or above a window of HTTP/2.
fn large_body(fault: Fault) -> usize {
    if matches!(fault, Fault::Http2(_)) {
        return 256 * 1024;
    }
    let sizes = fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").expect("Linux has it");
    let largest = sizes.split_whitespace().last().expect("three sizes");
    largest.parse::<usize>().expect("bytes") + (1 << 20)
}

/// The results of a run.
struct Ran {
    report: Value,
    log: Log,
    /// The most memory that it had, KiB.
    memory_kib: u64,
    code: Option<i32>,
    stderr: String,
}

fn run(row: &Row, model: Model) -> Ran {
    static CORE: AtomicUsize = AtomicUsize::new(0);
    let cores = allowed_cores();
    let core = cores[CORE.fetch_add(1, Ordering::Relaxed) % cores.len()];
    let folder = tempfile::tempdir().expect("a folder");
    let LoadShape { large, users, period_ms, warmup_ms, window_ms, timeout } = row.load;
    let window_ms = window_ms * scale();
    let timeout_ms = match timeout {
        Timeout::Ms(ms) => ms,
        Timeout::BeyondWindow => warmup_ms + window_ms + 1_000,
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_truetail"));
    // The user's saved calibrations are out of its reach.
    command.env("XDG_CACHE_HOME", "/dev/null");
    let server = Server::start(row.fault);
    command
        .arg("run")
        .arg(format!("http://127.0.0.1:{}/", server.port))
        .args(["--quiet", "--out", "report.json", "--wait", "sleep"])
        .args(["--warmup", &format!("{warmup_ms}ms")])
        .args(["--duration", &format!("{window_ms}ms")])
        .args(["--timeout", &format!("{timeout_ms}ms")])
        .args(["--cores", &core.to_string()])
        .args(
            match model {
                Model::Open if large => "--rate 30 --conns 64".to_owned(),
                Model::Open => "--rate 200 --conns 256".to_owned(),
                Model::Closed => format!("--conns {users}"),
                Model::Paced => format!("--conns {users} --period {period_ms}ms"),
                Model::NoKeepalive => format!("--conns {users} --keepalive off"),
            }
            .split(' '),
        )
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.path().join("stderr")).expect("a file"));
    if large {
        fs::write(folder.path().join("body"), vec![b'x'; large_body(row.fault)]).expect("writable");
        command.args(["--method", "POST", "--body", "@body"]);
    }
    if matches!(row.fault, Fault::Http2(_)) {
        command.args(["--http", "2"]);
        if model != Model::NoKeepalive {
            command.args(["--streams", STREAMS]);
        }
    }
    let mut child = command.spawn().expect("the binary runs");
    let began = Instant::now();
    let run_max = Duration::from_millis(warmup_ms + window_ms + timeout_ms) + RUN_SLACK;
    let mut memory_kib = 0;
    let code = loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            break status.code();
        }
        memory_kib = memory_of(child.id()).unwrap_or(memory_kib);
        if run_max < began.elapsed() {
            child.kill().expect("it is ours");
            child.wait().expect("it ends");
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let log = server.stop();
    let read = |name: &str| fs::read_to_string(Path::new(folder.path()).join(name));
    let report = read("report.json").ok().and_then(|text| serde_json::from_str(&text).ok());
    Ran {
        report: report.unwrap_or(Value::Null),
        log,
        memory_kib,
        code,
        stderr: read("stderr").expect("a file"),
    }
}

/// The most memory that a running process has had, KiB; `None` once it has ended.
fn memory_of(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Runs a row in one model; returns its differences, if any. As elsewhere, a failure is final
/// unless the run itself reports a disturbance.
fn compare(row: &Row, model: Model, expected: &Expected) -> Option<String> {
    let mut last = None;
    for _ in 0..RUNS_MAX {
        let ran = run(row, model);
        let wrong = judge(&ran, expected);
        let shown = format!(
            "{:?}, {model:?}: {}\n  counts {}\n  verdict {}; naive latency {} to {} us\n  log \
             {:?}\n  {} KiB; exit code {:?} {}",
            row.fault,
            if wrong.claims.is_empty() {
                "as expected".to_owned()
            } else {
                wrong.claims.join("; ")
            },
            ran.report["counts"],
            Codes::of(&ran.report),
            ran.report["naive"]["min"],
            ran.report["naive"]["max"],
            ran.log,
            ran.memory_kib,
            ran.code,
            ran.stderr
        );
        println!("{shown}");
        if wrong.claims.is_empty() {
            return None;
        }
        let found = Codes::of(&ran.report);
        let disturbed = found.codes.iter().chain(&found.notes).any(|code| DISTURBED.contains(code));
        last = Some(shown);
        if wrong.is_final || !disturbed {
            break;
        }
    }
    last
}

/// The differences of a run from its expectation.
#[derive(Default)]
struct Wrong {
    claims: Vec<String>,
    /// True if no disturbance excuses it.
    is_final: bool,
}

impl Wrong {
    /// A condition that the machine may disturb.
    fn unless(&mut self, holds: bool, words: impl Into<String>) {
        if !holds {
            self.claims.push(words.into());
        }
    }

    /// A condition that holds on any machine.
    fn always(&mut self, holds: bool, words: impl Into<String>) {
        self.unless(holds, words);
        self.is_final |= !holds;
    }
}

/// The verdict in a few words.
struct Codes<'report> {
    level: &'report str,
    codes: Vec<&'report str>,
    notes: Vec<&'report str>,
}

impl Codes<'_> {
    fn of(report: &Value) -> Codes<'_> {
        let codes = |of: &str| {
            let all = report["verdict"][of].as_array().map_or(&[][..], Vec::as_slice);
            all.iter().filter_map(|one| one["code"].as_str()).collect()
        };
        let level = report["verdict"]["level"].as_str().unwrap_or("none");
        Codes { level, codes: codes("reasons"), notes: codes("notes") }
    }
}

impl std::fmt::Display for Codes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}; notes: {}", self.level, self.codes.join(", "), self.notes.join(", "))
    }
}

fn judge(ran: &Ran, expected: &Expected) -> Wrong {
    let mut wrong = Wrong::default();
    if ran.code.is_none() || ran.report.is_null() {
        wrong.always(false, "there is no report");
        return wrong;
    }
    let counts = Counts::of(&ran.report);
    let verdict = Codes::of(&ran.report);

    let panicked = ran.stderr.contains("panicked") || ran.stderr.contains("RUST_BACKTRACE");
    wrong.always(!panicked, "it panicked");
    wrong.always(ran.stderr.is_empty(), "stderr isn't empty");
    let memory = ran.memory_kib;
    wrong.always(memory <= MEMORY_MAX_KIB, format!("{memory} KiB of memory"));
    let code = if verdict.level == "invalid" { 3 } else { 0 };
    wrong.always(ran.code == Some(code), format!("the exit code isn't {code}"));
    for (left, right, sum) in counts.sums() {
        wrong.always(left == right, format!("{sum}: {left} and {right}"));
    }
    wrong.always(
        0 < counts.answered || verdict.level == "invalid",
        "without an answer it isn't invalid",
    );
    for code in WRONG {
        let is_named = verdict.codes.iter().chain(&verdict.notes).any(|named| *named == code);
        wrong.always(!is_named, code);
    }

    let given_up = counts.timed_out + counts.abandoned;
    for (name, count, amount) in [
        ("answered", counts.answered, expected.answered),
        ("timed out", given_up, expected.timed_out),
        ("failed", counts.failed, expected.failed),
    ] {
        let holds = match amount {
            Amount::None => count == 0,
            Amount::Some => 0 < count,
            Amount::All => count == counts.sent && 0 < count,
            Amount::Any => true,
        };
        wrong.unless(holds, format!("{name}: {count} of {} sent, not {amount:?}", counts.sent));
    }
    for cause in counts.causes.keys().filter(|cause| *cause != "timed_out") {
        wrong.unless(expected.causes.contains(&cause.as_str()), format!("failed by {cause}"));
    }
    for equality in expected.equal {
        for (left, right) in equality.sides(&counts, &ran.log) {
            wrong.unless(left == right, format!("{equality:?}: {left} and {right}"));
        }
    }
    let shown = expected.shown.iter().filter_map(|shown| shown.code(&ran.log));
    for code in expected.codes.iter().copied().chain(shown) {
        wrong.unless(verdict.codes.contains(&code), format!("not {code}"));
    }
    if expected.clean {
        for code in ACCUSATIONS {
            wrong.unless(!verdict.codes.contains(&code), code);
        }
    }
    for shown in expected.shown {
        wrong.unless(shown.is_counted(&counts, &ran.log), format!("{shown:?} not counted"));
    }
    // A request that is abandoned took at least as long as shown.
    let fastest = ran.report["naive"]["min"].as_f64().filter(|_| counts.abandoned == 0);
    let fastest = fastest.unwrap_or(f64::INFINITY);
    let least = expected.fastest.as_secs_f64() * 1e6;
    wrong.unless(least <= fastest, format!("the fastest took {fastest} us, not {least}"));
    wrong
}

/// The counts of a report.
struct Counts {
    intended: u64,
    sent: u64,
    unsent: u64,
    unconnected: u64,
    answered: u64,
    timed_out: u64,
    failed: u64,
    abandoned: u64,
    connects: u64,
    /// Requests sent and answered before the window.
    sent_before: u64,
    answered_before: u64,
    status: BTreeMap<String, u64>,
    causes: BTreeMap<String, u64>,
    unsolicited: u64,
    trailing: u64,
    incomplete_uploads: u64,
    requeued: u64,
    users: u64,
    users_blocked: u64,
}

impl Counts {
    fn of(report: &Value) -> Counts {
        let counts = &report["counts"];
        let of = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no count in {counts}"));
        let map = |value: &Value| {
            let entries = value.as_object().expect("an object").iter();
            entries.map(|(name, count)| (name.clone(), of(count))).collect()
        };
        let before = |name: &str| of(&counts["setup"][name]) + of(&counts["warmup"][name]);
        Counts {
            intended: of(&counts["intended"]),
            sent: of(&counts["sent"]),
            unsent: of(&counts["unsent"]),
            unconnected: of(&counts["unconnected"]),
            answered: of(&counts["answered"]),
            timed_out: of(&counts["timed_out"]),
            failed: of(&counts["failed"]),
            abandoned: of(&counts["abandoned"]),
            connects: of(&counts["connects"]),
            sent_before: before("sent"),
            answered_before: before("answered"),
            status: map(&counts["status"]),
            causes: map(&counts["errors"]),
            unsolicited: of(&counts["unsolicited"]),
            trailing: of(&counts["trailing"]),
            incomplete_uploads: of(&counts["incomplete_uploads"]),
            requeued: of(&counts["requeued"]),
            users: of(&counts["users"]),
            users_blocked: of(&counts["users_blocked"]),
        }
    }

    /// Requests that failed since the server refused them twice.
    fn refused_twice(&self) -> u64 {
        self.causes.get("refused_stream").copied().unwrap_or_default()
    }

    /// Sums that close in every report.
    fn sums(&self) -> [(u64, u64, &'static str); 4] {
        let ended = self.answered + self.timed_out + self.failed + self.abandoned;
        [
            (self.intended, self.sent + self.unsent, "intended = sent + unsent"),
            (self.sent, ended, "sent = answered + timed_out + failed + abandoned"),
            (self.answered, self.status.values().sum(), "answered = the sum over statuses"),
            (
                self.timed_out + self.failed,
                self.causes.values().sum(),
                "timed_out + failed = the sum over causes",
            ),
        ]
    }
}

impl Equality {
    /// The report's number and the log's.
    fn sides(self, counts: &Counts, log: &Log) -> Vec<(u64, u64)> {
        let given_up = counts.timed_out + counts.abandoned;
        // The answers to some that were abandoned may have been on their way.
        let late = |here: u64, written: u64| written.saturating_sub(here).min(counts.abandoned);
        match self {
            Equality::SentWereRead => {
                let once = counts.sent - counts.unconnected + counts.sent_before;
                vec![(once + log.refused, log.requests + counts.refused_twice())]
            }
            Equality::AnsweredWereWritten if counts.sent_before == 0 => {
                let by_status = |status: &u16| {
                    counts.status.get(&status.to_string()).copied().unwrap_or_default()
                };
                let each = log.answers.iter().map(|(status, count)| (by_status(status), *count));
                let all = each.chain([(counts.answered, log.answered())]);
                all.map(|(here, written)| (here + late(here, written), written)).collect()
            }
            Equality::AnsweredWereWritten => {
                vec![(counts.answered + counts.answered_before, log.answered())]
            }
            Equality::FailedWereBroken => vec![(counts.failed - counts.unconnected, log.broken)],
            Equality::TimedOutWereIgnored => vec![(given_up, log.ignored)],
            Equality::TimedOutWereUnended => {
                vec![(given_up - late(counts.answered, log.answered()), log.broken)]
            }
            Equality::ConnectsWereAccepted => vec![(counts.connects + 1, log.accepted)],
            Equality::FailedWereIgnored => vec![(counts.failed - counts.unconnected, log.ignored)],
            Equality::RequeuedWereRefused => {
                vec![(counts.requeued + counts.refused_twice(), log.refused)]
            }
            Equality::RefusedWereRequeued => {
                let requeued = counts.requeued + counts.refused_twice();
                vec![(requeued.min(log.refused), log.refused)]
            }
            Equality::NoneOverLimit => vec![(0, log.over_limit)],
        }
    }
}

impl Shown {
    /// The expected reason of the verdict.
    fn code(self, log: &Log) -> Option<&'static str> {
        match self {
            Shown::StarvedUsers => Some("starved"),
            // A server without a core comes too late to be early.
            Shown::EarlyResponses if log.unasked < 2 => None,
            Shown::UnaskedBytes | Shown::TrailingBytes | Shown::EarlyResponses => {
                Some("unsolicited")
            }
            Shown::NothingSent => Some("nothing_sent"),
            Shown::IncompleteUploads | Shown::ConnectionsLiveOn => None,
        }
    }

    fn is_counted(self, counts: &Counts, log: &Log) -> bool {
        match self {
            Shown::StarvedUsers => 0 < counts.users_blocked,
            Shown::UnaskedBytes => 0 < counts.unsolicited,
            // A response and the bytes after it may come in two pieces.
            Shown::TrailingBytes => counts.trailing + counts.unsolicited == counts.answered,
            Shown::EarlyResponses => {
                // A request may be on its way when the server looks for one.
                log.unasked.min(counts.users) <= 2 * counts.unsolicited + 1
            }
            // A server that reads on may see the end of a request whose sender didn't know that it
            // was complete.
            Shown::IncompleteUploads if 0 < log.requests + log.requests_cut => {
                (log.requests_cut..=log.early).contains(&counts.incomplete_uploads)
            }
            Shown::IncompleteUploads => counts.incomplete_uploads == log.early,
            Shown::NothingSent => counts.sent == 0,
            Shown::ConnectionsLiveOn => log.accepted < 1 + counts.timed_out + counts.abandoned,
        }
    }
}
