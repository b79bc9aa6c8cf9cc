//! The hot functions of a request, which `micro` times and `instructions` counts, and its fields,
//! which only `micro` times.

use std::hint::black_box;
use std::sync::Arc;

use engine::load::curve::Curve;
use engine::load::schedule::{Schedule, mix};
use engine::load::share::Share;
use engine::load::values::{Rendering, Site};
use engine::plan::data::{Data, DataFile, Table};
use engine::plan::template::{Compiled, Scope};
use engine::plan::{Arrivals, Plan};
use engine::record::config::RecorderConfig;
use engine::record::outcome::Outcome;
use engine::record::recorder::Recorder;
use engine::record::stamps::{Ending, StampedBy, Stamps};
use engine::stats::distribution::Distribution;
use engine::sys::units::SECOND_NS;
use http1::response::{KnownHead, Progress, ResponseParser};

/// A typical response in one buffer: head, Content-Length and body.
pub(crate) const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: nginx/1.24.0\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 27\r\nConnection: keep-alive\r\n\r\n\
    The quick brown fox jumps.\n";

/// Number of different latencies, which fit in the cache; a power of two.
const LATENCIES: usize = 4_096;

/// A function with the state that it works on.
pub(crate) struct Hot {
    /// Its function and input.
    pub(crate) name: String,
    /// Calls it this many times.
    pub(crate) call: Box<dyn FnMut(u64)>,
}

impl Hot {
    fn new(name: impl Into<String>, mut step: impl FnMut(u64) + 'static) -> Hot {
        Hot { name: name.into(), call: Box::new(move |calls| batch(calls, &mut step)) }
    }
}

/// Never inlined, so that callgrind recognises by its name where counting starts and ends.
#[inline(never)]
fn batch(calls: u64, step: &mut impl FnMut(u64)) {
    for i in 0..calls {
        step(i);
    }
}

/// All of them, in the order of a request.
pub(crate) fn functions() -> Vec<Hot> {
    let mut functions = Vec::new();
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        for rate in ["1k", "20k", "1M"] {
            functions.push(schedule(arrivals, rate, 1));
        }
    }
    for shards in [1, 16, 64, 256] {
        functions.push(schedule(Arrivals::Poisson, "64M", shards));
    }
    functions.extend([feed_new(), feed_known(), distributions(), recorder()]);
    functions
}

/// Requests with eight fields of one kind each, to price one.
pub(crate) fn fields() -> Vec<Hot> {
    let rows: String = (0..1_000).map(|row| format!("{row:012}\n")).collect();
    let of: DataFile = "rows.csv".parse().expect("a data file");
    let table = Table::read("rows", format!("id\n{rows}").as_bytes());
    let table = Arc::new(table.expect("a table"));
    let data = vec![Data { name: "rows".to_owned(), of, table, is_encoded: false }];
    let all = ["seq", "rand 1 1000000", "zipf 1.1 1000", "uuid", "rows.id", "json:rows.id"];
    all.iter().map(|field| rendering(field, &data)).collect()
}

/// Requests with eight of these fields.
fn rendering(field: &str, data: &[Data]) -> Hot {
    let headers = (0..8).map(|number| format!("X-{number}: {{{{{field}}}}}")).collect();
    let plan = Plan { target: "http://h/".to_owned(), headers, ..Plan::default() };
    let compiled = Compiled::new(&plan, Scope { data, ..Scope::default() })
        .expect("known fields")
        .expect("some");
    let head = format!("GET / HTTP/1.1\r\n{}\r\n\r\n", compiled.plan.headers.join("\r\n"));
    let template = compiled.template(head.as_bytes(), b"", data).expect("it is short");
    let rendering = Rendering::new(&template, data, plan.trace, Site::default());
    let mut out = Vec::with_capacity(template.longest());
    Hot::new(format!("Rendering::render, 8 × `{{{{{field}}}}}`"), move |number| {
        rendering.render(1, number, None, black_box(&mut out));
    })
}

/// A response whose head is parsed, since the last one's was different.
fn feed_new() -> Hot {
    let mut next_day = RESPONSE.to_vec();
    let date = RESPONSE.windows(7).position(|bytes| bytes == b"Mon, 01").expect("a date");
    next_day[date..date + 7].copy_from_slice(b"Tue, 02");
    feed("new head", [RESPONSE.to_vec(), next_day])
}

/// A response whose head isn't parsed again, since the last one's was the same, byte for byte.
fn feed_known() -> Hot {
    feed("known head", [RESPONSE.to_vec(), RESPONSE.to_vec()])
}

/// These two responses in turn.
fn feed(head: &str, responses: [Vec<u8>; 2]) -> Hot {
    let (mut parser, mut known) = (ResponseParser::new(), KnownHead::default());
    let name = format!("ResponseParser::feed_with, {head}, a response of {} bytes", RESPONSE.len());
    Hot::new(name, move |i| {
        let response = &responses[usize::from(i % 2 == 1)];
        let progress = parser.feed_with(&mut known, false, black_box(response));
        assert!(
            matches!(black_box(progress), Ok(Progress::Done(_))),
            "it is one complete response"
        );
    })
}

/// Latencies around 100 µs with a tail of a few ms, so that recording touches the same memory as in
/// a run.
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

fn distributions() -> Hot {
    let latencies = latencies();
    let mut four: [Distribution; 4] = std::array::from_fn(|_| Distribution::new());
    Hot::new("Distribution::record ×4, one request", move |i| {
        let value_ns = black_box(latency(&latencies, i));
        let [naive, corrected, pacer, wait] = &mut four;
        naive.record(value_ns);
        corrected.record(value_ns + 1_000);
        pacer.record(value_ns % 10_000);
        wait.record(value_ns % 1_000);
    })
}

fn recorder() -> Hot {
    let latencies = latencies();
    let hour_ns = 3_600 * SECOND_NS;
    let config = RecorderConfig { end_ns: hour_ns, scheduled: true, ..RecorderConfig::default() };
    let mut recorder = Recorder::new(config);
    // Requests are in order across all batches.
    let mut intended_ns = 0;
    Hot::new("Recorder::sent and ended, one request", move |i| {
        let latency_ns = black_box(latency(&latencies, i));
        intended_ns += 50_000;
        let noticed_ns = intended_ns + latency_ns % 10_000;
        let sent_ns = noticed_ns + latency_ns % 1_000;
        let stamps =
            Stamps { intended_ns, noticed_ns, sent_ns, waited: false, step: 0, session: None };
        let received_ns = sent_ns + latency_ns;
        let ending = Ending {
            received_ns,
            handled_ns: received_ns + latency_ns % 10_000,
            stamped_by: StampedBy::Kernel,
        };
        recorder.intended(intended_ns, false);
        recorder.sent(stamps.intended_ns, &stamps, true);
        recorder.ended((0, stamps.intended_ns), &stamps, ending, true, Outcome::Answered(200));
    })
}

/// An arrival of one of the shards that share the rate.
fn schedule(arrivals: Arrivals, rate: &str, shards: usize) -> Hot {
    let process = match arrivals {
        Arrivals::Constant => "constant",
        Arrivals::Poisson => "Poisson",
        Arrivals::Log => "log",
    };
    let owned = if shards == 1 { String::new() } else { format!(", one of {shards} shards") };
    let name = format!("Schedule::next, {process}, {rate}/s{owned}");
    let curve = Curve::constant(rate.parse().expect("a rate"));
    let mut schedule = Schedule::new(curve, arrivals, 1, u64::MAX, Share::equal(0, shards));
    Hot::new(name, move |_| {
        black_box(schedule.next().expect("the schedule lasts for centuries"));
    })
}
