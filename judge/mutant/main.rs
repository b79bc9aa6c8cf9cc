//! A small load generator for the tests: an open loop at constant arrivals, right, or with one bug.
//!
//! Connections take the next arrival in turn and wait until it is due, so an arrival waits for a
//! connection if all are busy, and its latency counts from when it was due. Its figures, in text:
//! sent, answered, bad, errors, open, and percentiles in ms, of all and of each route.
//!
//! It uses the standard library alone, so that no fault is common to it and what judges it.

mod http1;
mod http2;

use std::env;
use std::fs;
use std::io::{self, Read as _};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// Latency counts from when a connection was free.
    StampsLate,
    /// Latency counts from when the request was sent.
    StampsSent,
    /// At the end, whatever is open is forgotten.
    ForgetsOpen,
    /// After a stall, the schedule starts anew from then.
    Rebases,
    /// Arrivals that are due in a stall are left out.
    Skips,
    /// Latencies are cut to whole ms, and printed with three decimals.
    RoundsToMs,
    /// Responses slower than 2 s count nowhere.
    DropsSlow,
    /// 503s count as good answers.
    CountsFailures,
    /// Requests that failed have a latency too.
    TimesFailures,
    /// A body that ends too early is an answer.
    AcceptsTorn,
    /// What comes behind a response answers the next request.
    TrustsSurplus,
    /// Each latency is filled up with those of users who could have come meanwhile.
    OverCorrects,
    /// A percentile is the mean of those of each connection.
    AveragesPercentiles,
    /// The percentiles of a route are those of all.
    MixesLatencies,
    /// After a stall, what waits is sent at twice the rate.
    CatchesUp,
    /// The rate loses its fraction.
    TruncatesRate,
    /// A connection's part of the rate loses its fraction.
    TruncatesShare,
    /// A ramp has the mean of its rates throughout.
    AveragesRamp,
    /// Arrivals come in batches of ten.
    Batches,
    /// A connection that can't be opened isn't counted.
    HidesConnects,
    /// A connection that is ended is not opened again.
    StopsAtGoaway,
    /// A stream that is refused is an answer.
    CountsRefused,
    /// Streams are opened whatever the target allows.
    IgnoresLimit,
}

const BUGS: [(&str, Bug); 24] = [
    ("none", Bug::None),
    ("stamps-late", Bug::StampsLate),
    ("stamps-sent", Bug::StampsSent),
    ("forgets-open", Bug::ForgetsOpen),
    ("rebases", Bug::Rebases),
    ("skips", Bug::Skips),
    ("rounds-to-ms", Bug::RoundsToMs),
    ("drops-slow", Bug::DropsSlow),
    ("counts-failures", Bug::CountsFailures),
    ("times-failures", Bug::TimesFailures),
    ("accepts-torn", Bug::AcceptsTorn),
    ("trusts-surplus", Bug::TrustsSurplus),
    ("over-corrects", Bug::OverCorrects),
    ("averages-percentiles", Bug::AveragesPercentiles),
    ("mixes-latencies", Bug::MixesLatencies),
    ("catches-up", Bug::CatchesUp),
    ("truncates-rate", Bug::TruncatesRate),
    ("truncates-share", Bug::TruncatesShare),
    ("averages-ramp", Bug::AveragesRamp),
    ("batches", Bug::Batches),
    ("hides-connects", Bug::HidesConnects),
    ("stops-at-goaway", Bug::StopsAtGoaway),
    ("counts-refused", Bug::CountsRefused),
    ("ignores-limit", Bug::IgnoresLimit),
];

/// The plan, and what has been seen so far.
struct Run {
    host: String,
    protocol: Protocol,
    arrivals: Arrivals,
    bug: Bug,
    began: Instant,
    /// The number of the next arrival.
    next: AtomicUsize,
    /// When the next request may be sent at the earliest, to catch up slowly.
    paced: Mutex<Instant>,
    /// How far the schedule has been moved.
    moved: Mutex<Duration>,
    seen: Mutex<Seen>,
}

/// What its connections speak, and which paths they ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
    /// Three requests of one route for one of the other.
    Mix,
}

/// When requests are due.
enum Arrivals {
    /// From one rate to another, requests per second, for so many seconds.
    Ramp { from: f64, to: f64, seconds: f64 },
    /// At these times, s.
    Log(Vec<f64>),
}

#[derive(Default)]
struct Seen {
    sent: u64,
    answered: u64,
    bad: u64,
    errors: u64,
    latencies: Vec<Latency>,
}

#[derive(Clone, Copy)]
struct Latency {
    connection: usize,
    route: &'static str,
    ms: f64,
}

/// A connection that answers one request at a time.
trait Link {
    /// The statuses of the responses to so many requests for this path, sent at once.
    fn exchange(&mut self, path: &str, requests: usize) -> io::Result<Vec<u16>>;
    /// True if it can have no more.
    fn has_ended(&mut self) -> bool;
}

const ROUTES: [&str; 2] = ["fast", "slow"];
const PERCENTS: [f64; 6] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let run = match &args[..] {
        [bug, url, rate, rate_to, connections, seconds, rest @ ..] if rest.len() < 2 => {
            let numbers = [rate, rate_to, connections, seconds].map(|text| text.parse().ok());
            let bug = BUGS.iter().find(|(name, _)| name == bug).map(|(_, bug)| *bug);
            numbers.into_iter().collect::<Option<Vec<f64>>>().zip(bug).map(|(numbers, bug)| {
                Run::new(bug, url, &numbers, rest.first().map_or("", String::as_str))
            })
        }
        _ => None,
    };
    let Some((run, connections)) = run else {
        eprintln!("usage: mutant BUG URL RATE RATE_TO CONNECTIONS SECONDS [h2|mix|LOG]");
        return ExitCode::from(2);
    };
    let run = Arc::new(run);
    let threads: Vec<_> = (0..connections)
        .map(|number| {
            let run = Arc::clone(&run);
            thread::spawn(move || connection(&run, number))
        })
        .collect();
    if run.bug == Bug::ForgetsOpen {
        sleep_until(run.began + Duration::from_secs_f64(run.arrivals.seconds()));
        let mut seen = lock(&run.seen);
        seen.sent = seen.answered;
        print(&seen, run.bug);
        return ExitCode::SUCCESS;
    }
    threads.into_iter().for_each(|thread| drop(thread.join()));
    print(&lock(&run.seen), run.bug);
    ExitCode::SUCCESS
}

impl Run {
    /// The plan of these numbers (rate, rate at the end, connections, seconds), and the connections.
    fn new(bug: Bug, url: &str, numbers: &[f64], mode: &str) -> (Run, usize) {
        let &[from, to, connections, seconds] = numbers else { unreachable!("four numbers") };
        let protocol = match mode {
            "h2" => Protocol::Http2,
            "mix" => Protocol::Mix,
            _ => Protocol::Http1,
        };
        let rates = |of: fn(f64, f64) -> f64| [of(from, to), of(to, from)];
        let [from, to] = match bug {
            Bug::TruncatesRate => [from.floor(), to.floor()],
            Bug::TruncatesShare => {
                [from, to].map(|rate| (rate / connections).floor() * connections)
            }
            Bug::AveragesRamp => rates(f64::midpoint),
            _ => [from, to],
        };
        let arrivals = match mode {
            "" | "h2" | "mix" => Arrivals::Ramp { from, to, seconds },
            file => Arrivals::Log(log_times(&fs::read_to_string(file).unwrap_or_default())),
        };
        // Time for the connections to open.
        let began = Instant::now() + Duration::from_millis(50);
        let run = Run {
            host: url.trim_start_matches("http://").trim_end_matches('/').to_owned(),
            protocol,
            arrivals,
            bug,
            began,
            next: AtomicUsize::new(0),
            paced: Mutex::new(began),
            moved: Mutex::default(),
            seen: Mutex::default(),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is a count"
        )]
        let connections = connections as usize;
        (run, connections)
    }

    fn connect(&self) -> io::Result<Box<dyn Link>> {
        let stream = TcpStream::connect(&self.host)?;
        stream.set_nodelay(true)?;
        Ok(match self.protocol {
            Protocol::Http2 => Box::new(http2::Connection::new(stream, &self.host, self.bug)?),
            Protocol::Http1 | Protocol::Mix => {
                Box::new(http1::Connection::new(stream, &self.host, self.bug))
            }
        })
    }
}

impl Arrivals {
    /// When request `number` is due, s; `None` if there is none.
    fn at(&self, number: usize) -> Option<f64> {
        match *self {
            Arrivals::Ramp { from, to, seconds } => {
                // number = from·t + slope·t²/2.
                let (number, slope) = (number as f64, (to - from) / seconds);
                let root = (from * from + 2.0 * slope * number).sqrt();
                let at = 2.0 * number / (from + root);
                (at < seconds).then_some(at)
            }
            Arrivals::Log(ref times) => times.get(number).copied(),
        }
    }

    fn seconds(&self) -> f64 {
        match self {
            Arrivals::Ramp { seconds, .. } => *seconds,
            Arrivals::Log(times) => times.last().copied().unwrap_or_default(),
        }
    }
}

/// The times of a log's lines from its first second on, those of one second spread over it evenly.
fn log_times(log: &str) -> Vec<f64> {
    let second = |line: &str| {
        let (_, time) = line.split_once(':')?;
        let parts = time.split([':', ' ']).take(3).map(|part| part.parse::<u32>().ok());
        parts
            .collect::<Option<Vec<u32>>>()
            .map(|parts| parts.iter().fold(0, |t, part| t * 60 + part))
    };
    let seconds: Vec<u32> = log.lines().filter_map(second).collect();
    let (Some(first), Some(last)) = (seconds.first(), seconds.last()) else { return Vec::new() };
    let times = (*first..=*last).flat_map(|second| {
        let count = seconds.iter().filter(|of| **of == second).count();
        let begin = f64::from(second - first);
        (0..count).map(move |at| begin + at as f64 / count as f64)
    });
    times.collect()
}

/// Sends the requests that fall to one connection, which it opens anew when it has ended.
fn connection(run: &Run, number: usize) {
    let (mut link, mut requests) = (None, 1);
    if run.bug == Bug::IgnoresLimit {
        requests = 2;
    }
    loop {
        let mut open = match link.take().map_or_else(|| run.connect(), Ok) {
            Ok(open) => open,
            Err(_) => {
                lock(&run.seen).errors += u64::from(run.bug != Bug::HidesConnects);
                return;
            }
        };
        let free = Instant::now();
        let arrival = run.next.fetch_add(requests, Ordering::Relaxed);
        let of_batch = if run.bug == Bug::Batches { arrival / 10 * 10 } else { arrival };
        let Some(after) = run.arrivals.at(of_batch) else { return };
        let due = due(run, Duration::from_secs_f64(after));
        sleep_until(due);
        if run.bug == Bug::Skips && Duration::from_millis(100) < due.elapsed() {
            link = Some(open);
            continue;
        }
        let route = ROUTES[usize::from(arrival % 4 == 3)];
        let path = if run.protocol == Protocol::Mix { format!("/{route}") } else { "/".to_owned() };
        lock(&run.seen).sent += requests as u64;
        // The target, or the judge, may have ended it while it was idle.
        if open.has_ended() {
            let Ok(other) = run.connect() else {
                lock(&run.seen).errors += 1;
                return;
            };
            open = other;
        }
        let from = match run.bug {
            Bug::StampsLate => due.max(free),
            Bug::StampsSent => Instant::now(),
            _ => due,
        };
        let exchanged = open.exchange(&path, requests);
        let ms = from.elapsed().as_secs_f64() * 1e3;
        let latency = Latency { connection: number, route, ms };
        match exchanged {
            Ok(statuses) => {
                statuses.iter().for_each(|status| note(run, *status, latency));
                if run.bug == Bug::StopsAtGoaway && open.has_ended() {
                    return;
                }
                link = (!open.has_ended()).then_some(open);
            }
            Err(_) => {
                let mut seen = lock(&run.seen);
                seen.errors += 1;
                if run.bug == Bug::TimesFailures {
                    seen.latencies.push(latency);
                }
            }
        }
    }
}

/// When an arrival is due; with some bugs later.
fn due(run: &Run, after: Duration) -> Instant {
    let due = run.began + after;
    match run.bug {
        Bug::Rebases => {
            let mut moved = lock(&run.moved);
            let late = Instant::now().saturating_duration_since(due + *moved);
            // Less is only a thread that woke late.
            if Duration::from_millis(100) < late {
                *moved += late;
            }
            due + *moved
        }
        Bug::CatchesUp => {
            let mut paced = lock(&run.paced);
            let send = due.max(*paced).max(Instant::now());
            let number = run.next.load(Ordering::Relaxed);
            let gap = run.arrivals.at(number + 1).zip(run.arrivals.at(number));
            *paced =
                send + Duration::from_secs_f64(gap.map_or(0.0, |(next, at)| (next - at) / 2.0));
            drop(paced);
            sleep_until(send);
            due
        }
        _ => due,
    }
}

/// Notes a response; its status is 0 if the target refused it.
fn note(run: &Run, status: u16, latency: Latency) {
    let mut seen = lock(&run.seen);
    if run.bug == Bug::DropsSlow && 2_000.0 < latency.ms {
        seen.sent -= 1;
        return;
    }
    if status == 0 {
        seen.errors += 1;
        return;
    }
    seen.answered += 1;
    if status != 200 && run.bug != Bug::CountsFailures {
        seen.bad += 1;
        return;
    }
    let ms = if run.bug == Bug::RoundsToMs { latency.ms.floor() } else { latency.ms };
    seen.latencies.push(Latency { ms, ..latency });
    if run.bug == Bug::OverCorrects {
        let gap_ms = run.arrivals.at(1).unwrap_or(1.0) * 1e3;
        let mut missing_ms = ms - gap_ms;
        while gap_ms <= missing_ms {
            seen.latencies.push(Latency { ms: missing_ms, ..latency });
            missing_ms -= gap_ms;
        }
    }
}

fn print(seen: &Seen, bug: Bug) {
    let Seen { sent, answered, bad, errors, latencies } = seen;
    println!("sent {sent}\nanswered {answered}\nbad {bad}\nerrors {errors}");
    println!("open {}", sent.saturating_sub(*answered + *errors));
    let connections = latencies.iter().map(|one| one.connection).max().map_or(0, |last| last + 1);
    for percent in PERCENTS {
        let all = percentile(latencies, percent, |_| true);
        let mean = || {
            let each: Vec<f64> = (0..connections)
                .filter_map(|number| percentile(latencies, percent, |one| one.connection == number))
                .collect();
            each.iter().sum::<f64>() / each.len() as f64
        };
        let Some(all) = all else { continue };
        println!("{percent}% {:.3} ms", if bug == Bug::AveragesPercentiles { mean() } else { all });
        for route in ROUTES {
            let of_route = percentile(latencies, percent, |one| one.route == route);
            let ms = if bug == Bug::MixesLatencies { Some(all) } else { of_route };
            println!("{route} {percent}% {:.3} ms", ms.unwrap_or_default());
        }
    }
}

/// The latency at rank `⌈percent · n⌉` of those that count; `None` if none does.
fn percentile(
    latencies: &[Latency],
    percent: f64,
    counts: impl Fn(&Latency) -> bool,
) -> Option<f64> {
    let mut all: Vec<f64> = latencies.iter().filter(|one| counts(one)).map(|one| one.ms).collect();
    all.sort_unstable_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank fits")]
    let rank = (percent / 100.0 * all.len() as f64).ceil() as usize;
    all.get(rank.saturating_sub(1)).copied()
}

/// More bytes behind these.
fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut chunk = [0; 4_096];
    match stream.read(&mut chunk)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => {
            bytes.extend_from_slice(&chunk[..count]);
            Ok(())
        }
    }
}

fn sleep_until(at: Instant) {
    thread::sleep(at.saturating_duration_since(Instant::now()));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
