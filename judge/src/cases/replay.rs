//! The case on an access log: its requests come at its times, whatever the target does.

use std::fmt::Write as _;
use std::time::Duration;

use target::{Stall, TargetConfig};

use super::rate::BASE;
use super::{Case, Finding, Judged, needs};
use crate::tool::{Load, Mode};
use crate::truth::Band;

/// Requests in each second of the log, again and again.
const PER_SECOND: [u32; 4] = [30, 60, 0, 120];
/// How long after the freeze requests may still come late.
const CATCH_UP_MS: u64 = 500;

/// A log.
pub(super) const REPLAY: Case = Case {
    name: "replay",
    holds: "A log of 30, 60, 0 and 120 requests in its seconds and so on is sent again over 20 \
            connections, while the target answers nothing for a fifth of the run: each second has the \
            log's requests, and those that came in the freeze are sent after it.",
    truth: "the log's lines of each second, against the ledger's arrivals",
    tolerance: "none for the sum; for each second that the freeze doesn't hold up, a thirtieth of it \
                or of the next, since the first request may come so much later, and 2 requests",
    reply: "",
    load: Load::at(52.5, 20, 8),
    mode: |tool| needs(tool, Mode::Replay, "it replays no log"),
    // In the last second, which has the most requests.
    target: |config, seconds| {
        let stall = Stall {
            every: Duration::from_secs_f64(seconds * 0.78),
            hold: Duration::from_secs_f64(seconds * 0.2),
        };
        TargetConfig { base_latency: BASE, stall: Some(stall), ..config }
    },
    judge: replayed,
    ..Case::NONE
};

/// The log of a run of so many seconds, in the combined format.
pub(crate) fn log(seconds: u32) -> String {
    let mut log = String::new();
    for (second, count) in counts(seconds) {
        for number in 0..count {
            let time = format!("28/Nov/2026:12:00:{second:02} +0000");
            let line = format!("\"GET /{second}/{number} HTTP/1.1\" 200 128 \"-\" \"-\"");
            writeln!(log, "192.0.2.1 - - [{time}] {line}").expect("a text takes all");
        }
    }
    log
}

fn counts(seconds: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..seconds).zip(PER_SECOND.into_iter().cycle())
}

fn replayed(of: &Judged) -> Vec<Finding> {
    let all = counts(of.load.seconds).map(|(_, count)| f64::from(count)).sum();
    let received = of.ledger.received as f64;
    let sum = Finding::count("requests at the target", received, Band::exactly(all));
    let next = counts(of.load.seconds).skip(1).map(|(_, count)| count).chain([0]);
    let seconds = counts(of.load.seconds).zip(next);
    let seconds = seconds.filter(|((second, _), _)| !is_held_up(of, *second));
    let seconds = seconds.map(|((second, count), next)| {
        let reach = f64::from(count.max(next)) / f64::from(PER_SECOND[0]) + 2.0;
        of.in_second(second, f64::from(count), reach)
    });
    [sum].into_iter().chain(seconds).collect()
}

/// True of a second in which requests came later than the log has them, since all connections
/// waited: from the freeze until they have caught up.
fn is_held_up(of: &Judged, second: u32) -> bool {
    let begin_ms = of.first_ms() + u64::from(second) * 1_000;
    of.ledger.stalls.iter().any(|stall| {
        let end_ms = stall.end_ns / 1_000_000 + CATCH_UP_MS;
        begin_ms < end_ms && stall.begin_ns / 1_000_000 < begin_ms + 1_000
    })
}
