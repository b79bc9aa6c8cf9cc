//! Micro benchmarks: ns per call of the hot functions.
//!
//! Each function runs in batches after a warm-up. The figure is the median of the batches; the
//! fastest and the slowest show how quiet the machine was.

use std::hint::black_box;
use std::time::Instant;

use engine::load::schedule::{Schedule, mix};
use engine::load::share::Share;
use engine::plan::Arrivals;
use engine::record::config::RecorderConfig;
use engine::record::outcome::Outcome;
use engine::record::recorder::Recorder;
use engine::record::stamps::{Ending, StampedBy, Stamps};
use engine::stats::distribution::Distribution;
use engine::sys::units::SECOND_NS;
use http1::response::{Progress, ResponseParser};

use crate::summary::{median, table};

/// A typical response in one buffer: head, Content-Length and body.
const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: nginx/1.24.0\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 27\r\nConnection: keep-alive\r\n\r\n\
    The quick brown fox jumps.\n";

/// Number of different latencies, which fit in the cache; a power of two.
const LATENCIES: usize = 4_096;

/// How many calls are measured.
#[derive(Clone, Copy)]
struct Batches {
    count: usize,
    calls: u64,
}

/// Prints the table.
pub(crate) fn print(quick: bool) {
    let batches = if quick {
        Batches { count: 3, calls: 1_000 }
    } else {
        Batches { count: 21, calls: 500_000 }
    };
    let mut rows = vec![feed(batches), distributions(batches), recorder(batches)];
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        for rate in ["1k", "20k", "1M"] {
            rows.push(schedule(batches, arrivals, rate, 1));
        }
    }
    for shards in [1, 16, 64, 256] {
        rows.push(schedule(batches, Arrivals::Poisson, "64M", shards));
    }
    println!(
        "micro: ns per call, median of {} batches of {} calls after a warm-up",
        batches.count, batches.calls
    );
    println!("{}", table(&["function", "median", "fastest", "slowest"], &rows));
}

/// One row: the cost of one call of `step`.
fn measure(batches: Batches, name: &str, mut step: impl FnMut(u64)) -> Vec<String> {
    let mut batch = || {
        let start = Instant::now();
        for i in 0..batches.calls {
            step(i);
        }
        start.elapsed().as_secs_f64() * 1e9 / batches.calls as f64
    };
    // The first batch fills caches and trains the branch predictor.
    batch();
    let ns: Vec<f64> = (0..batches.count).map(|_| batch()).collect();
    let fastest = ns.iter().copied().fold(f64::INFINITY, f64::min);
    let slowest = ns.iter().copied().fold(0.0, f64::max);
    let show = |ns: f64| format!("{ns:.1}");
    vec![name.to_owned(), show(median(&ns)), show(fastest), show(slowest)]
}

fn feed(batches: Batches) -> Vec<String> {
    let mut parser = ResponseParser::new(false);
    let name = format!("ResponseParser::feed, a response of {} bytes", RESPONSE.len());
    measure(batches, &name, |_| {
        let progress = parser.feed(black_box(RESPONSE));
        assert!(
            matches!(black_box(progress), Ok(Progress::Done(_))),
            "it is one complete response"
        );
    })
}

/// Latencies around 100 µs with a tail of a few ms, so that recording touches the memory that a run
/// touches.
fn latencies() -> Vec<u64> {
    (0..LATENCIES as u64)
        .map(|i| {
            let random = mix(i);
            let tail = if random.is_multiple_of(100) { 5_000_000 } else { 0 };
            50_000 + random % 100_000 + tail
        })
        .collect()
}

fn latency(latencies: &[u64], i: u64) -> u64 {
    latencies[usize::try_from(i).expect("64-bit machine") % LATENCIES]
}

fn distributions(batches: Batches) -> Vec<String> {
    let latencies = latencies();
    let mut four: [Distribution; 4] = std::array::from_fn(|_| Distribution::new());
    let row = measure(batches, "Distribution::record ×4, one request", |i| {
        let value_ns = black_box(latency(&latencies, i));
        let [naive, corrected, pacer, wait] = &mut four;
        naive.record(value_ns);
        corrected.record(value_ns + 1_000);
        pacer.record(value_ns % 10_000);
        wait.record(value_ns % 1_000);
    });
    black_box(four);
    row
}

fn recorder(batches: Batches) -> Vec<String> {
    let latencies = latencies();
    let hour_ns = 3_600 * SECOND_NS;
    let config = RecorderConfig { end_ns: hour_ns, scheduled: true, ..RecorderConfig::default() };
    let mut recorder = Recorder::new(config);
    // Requests are in order across all batches.
    let mut intended_ns = 0;
    let row = measure(batches, "Recorder::sent and ended, one request", |i| {
        let latency_ns = black_box(latency(&latencies, i));
        intended_ns += 50_000;
        let noticed_ns = intended_ns + latency_ns % 10_000;
        let sent_ns = noticed_ns + latency_ns % 1_000;
        let stamps = Stamps { intended_ns, noticed_ns, sent_ns, waited: false };
        let received_ns = sent_ns + latency_ns;
        let ending = Ending {
            received_ns,
            handled_ns: received_ns + latency_ns % 10_000,
            stamped_by: StampedBy::Kernel,
        };
        recorder.intended(intended_ns);
        recorder.sent(&stamps, true);
        recorder.ended(&stamps, ending, true, Outcome::Answered(200));
    });
    black_box(recorder);
    row
}

/// An arrival of one of the shards that share the rate.
fn schedule(batches: Batches, arrivals: Arrivals, rate: &str, shards: usize) -> Vec<String> {
    let process = match arrivals {
        Arrivals::Constant => "constant",
        Arrivals::Poisson => "Poisson",
    };
    let owned = if shards == 1 { String::new() } else { format!(", one of {shards} shards") };
    let name = format!("Schedule::next, {process}, {rate}/s{owned}");
    let rate = rate.parse().expect("a rate");
    let mut schedule = Schedule::new(rate, arrivals, 1, u64::MAX, Share::equal(0, shards));
    measure(batches, &name, |_| {
        black_box(schedule.next().expect("the schedule lasts for centuries"));
    })
}
