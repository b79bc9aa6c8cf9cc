//! A small load generator for the tests: an open loop at constant arrivals, right, or with one bug.
//!
//! Connections take the next arrival in turn and wait until it is due, so an arrival waits for a
//! connection if all are busy, and its latency counts from when it was due. Its figures, in text:
//! sent, answered, bad, errors, open, and percentiles in ms.
//!
//! It uses the standard library alone, so that no fault is common to it and what judges it.

use std::env;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// Latency counts from when a connection was free.
    StampsLate,
    /// At the end, whatever is open is forgotten.
    ForgetsOpen,
    /// After a stall, the schedule starts anew from then.
    Rebases,
    /// Latencies are cut to whole ms, and printed with three decimals.
    RoundsToMs,
    /// Responses slower than 2 s count nowhere.
    DropsSlow,
    /// 503s count as good answers.
    CountsFailures,
    /// Each latency is filled up with those of users who could have come meanwhile.
    OverCorrects,
    /// After a stall, what waits is sent at twice the rate.
    CatchesUp,
    /// The rate loses its fraction.
    TruncatesRate,
    /// Arrivals come in batches of ten.
    Batches,
}

const BUGS: [(&str, Bug); 11] = [
    ("none", Bug::None),
    ("stamps-late", Bug::StampsLate),
    ("forgets-open", Bug::ForgetsOpen),
    ("rebases", Bug::Rebases),
    ("rounds-to-ms", Bug::RoundsToMs),
    ("drops-slow", Bug::DropsSlow),
    ("counts-failures", Bug::CountsFailures),
    ("over-corrects", Bug::OverCorrects),
    ("catches-up", Bug::CatchesUp),
    ("truncates-rate", Bug::TruncatesRate),
    ("batches", Bug::Batches),
];

/// The plan, and what has been seen so far.
struct Run {
    address: String,
    rate: f64,
    seconds: f64,
    bug: Bug,
    began: Instant,
    /// The number of the next arrival.
    next: AtomicU64,
    /// When the next request may be sent at the earliest, to catch up slowly.
    paced: Mutex<Instant>,
    /// How far the schedule has been moved.
    moved: Mutex<Duration>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    sent: u64,
    answered: u64,
    bad: u64,
    errors: u64,
    latencies_ms: Vec<f64>,
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let [url, rate, connections, seconds, bug] = &args[..] else {
        eprintln!("usage: mutant URL RATE CONNECTIONS SECONDS BUG");
        return ExitCode::from(2);
    };
    let bug = BUGS.iter().find(|(name, _)| name == bug);
    let (Some((_, bug)), Ok(rate), Ok(connections), Ok(seconds)) =
        (bug, rate.parse::<f64>(), connections.parse::<usize>(), seconds.parse::<f64>())
    else {
        eprintln!("mutant: {args:?}: not a load");
        return ExitCode::from(2);
    };
    // Time for the connections to open.
    let began = Instant::now() + Duration::from_millis(50);
    let run = Arc::new(Run {
        address: url.trim_start_matches("http://").trim_end_matches('/').to_owned(),
        rate: if *bug == Bug::TruncatesRate { rate.floor() } else { rate },
        seconds,
        bug: *bug,
        began,
        next: AtomicU64::new(0),
        paced: Mutex::new(began),
        moved: Mutex::default(),
        seen: Mutex::default(),
    });
    let threads: Vec<_> = (0..connections)
        .map(|_| {
            let run = Arc::clone(&run);
            thread::spawn(move || {
                if connection(&run).is_err() {
                    lock(&run.seen).errors += 1;
                }
            })
        })
        .collect();
    if run.bug == Bug::ForgetsOpen {
        thread::sleep(began + Duration::from_secs_f64(seconds) - Instant::now());
        let mut seen = lock(&run.seen);
        seen.sent = seen.answered;
        print(&mut seen);
        return ExitCode::SUCCESS;
    }
    threads.into_iter().for_each(|thread| drop(thread.join()));
    print(&mut lock(&run.seen));
    ExitCode::SUCCESS
}

fn connection(run: &Run) -> io::Result<()> {
    let mut stream = TcpStream::connect(&run.address)?;
    stream.set_nodelay(true)?;
    loop {
        let free = Instant::now();
        let number = run.next.fetch_add(1, Ordering::Relaxed);
        let number = if run.bug == Bug::Batches { number / 10 * 10 } else { number };
        let after = Duration::from_secs_f64(number as f64 / run.rate);
        if run.seconds <= after.as_secs_f64() {
            return Ok(());
        }
        let due = due(run, after);
        sleep_until(due);
        lock(&run.seen).sent += 1;
        let from = if run.bug == Bug::StampsLate { due.max(free) } else { due };
        let status = exchange(&mut stream, &run.address)?;
        note(run, status, from.elapsed());
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
            *paced = send + Duration::from_secs_f64(0.5 / run.rate);
            drop(paced);
            sleep_until(send);
            due
        }
        _ => due,
    }
}

fn note(run: &Run, status: u16, latency: Duration) {
    let mut seen = lock(&run.seen);
    if run.bug == Bug::DropsSlow && Duration::from_secs(2) < latency {
        seen.sent -= 1;
        return;
    }
    seen.answered += 1;
    let is_bad = status != 200;
    if is_bad && run.bug != Bug::CountsFailures {
        seen.bad += 1;
        return;
    }
    let ms = latency.as_secs_f64() * 1e3;
    seen.latencies_ms.push(if run.bug == Bug::RoundsToMs { ms.floor() } else { ms });
    if run.bug == Bug::OverCorrects {
        let gap_ms = 1e3 / run.rate;
        let mut missing_ms = ms - gap_ms;
        while gap_ms <= missing_ms {
            seen.latencies_ms.push(missing_ms);
            missing_ms -= gap_ms;
        }
    }
}

/// One request and its response, whose status is returned.
fn exchange(stream: &mut TcpStream, host: &str) -> io::Result<u16> {
    write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4_096]);
    loop {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let lengths = head.lines().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        if lengths.sum::<usize>() <= body.len() {
            let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
            return status.ok_or(io::ErrorKind::InvalidData.into());
        }
    }
}

fn print(seen: &mut Seen) {
    let Seen { sent, answered, bad, errors, latencies_ms } = seen;
    println!("sent {sent}\nanswered {answered}\nbad {bad}\nerrors {errors}");
    println!("open {}", sent.saturating_sub(*answered + *errors));
    latencies_ms.sort_unstable_by(f64::total_cmp);
    for percent in [50.0, 75.0, 90.0, 95.0, 99.0, 99.9] {
        let rank = (percent / 100.0 * latencies_ms.len() as f64).ceil();
        #[expect(clippy::cast_possible_truncation, reason = "a rank is within the list")]
        let rank = rank as usize;
        if let Some(ms) = latencies_ms.get(rank.saturating_sub(1)) {
            println!("{percent}% {ms:.3} ms");
        }
    }
}

fn sleep_until(at: Instant) {
    thread::sleep(at.saturating_duration_since(Instant::now()));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
