//! Latencies from a run's report, and its requests from raw samples, on the same clock as the
//! target's ledger.

use std::path::Path;

use engine::report::{DistributionPart, Report};
use engine::samples::{SampleKind, SampleReader};
use hdrhistogram::Histogram;
use serde::Serialize;
use target::Span;

use super::error::LabError;

/// The lengths of [`Requests::p99_by_length`].
const LENGTHS: usize = 60;

/// One distribution of latencies, ms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latencies {
    /// Requests.
    pub count: u64,
    /// The mean, exact.
    pub mean_ms: f64,
    /// The median.
    pub p50_ms: f64,
    /// The 90th percentile.
    pub p90_ms: f64,
    /// The 95th percentile.
    pub p95_ms: f64,
    /// The 98th percentile.
    pub p98_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The 99.5th percentile.
    pub p995_ms: f64,
    /// The 99.9th percentile.
    pub p999_ms: f64,
    /// The largest, exact.
    pub max_ms: f64,
}

impl Latencies {
    /// The latencies of a distribution in a report.
    ///
    /// # Errors
    /// It is empty, or its histogram can't be read.
    pub fn of(part: &DistributionPart) -> Result<Latencies, LabError> {
        let histogram = part.decode_histogram().map_err(LabError::figures)?;
        let (Some(mean_us), Some(max_us)) = (part.mean, part.max) else {
            return Err(LabError::figures("no request has a latency"));
        };
        let at = |q: f64| (histogram.value_at_quantile(q) as f64 / 1e6).min(max_us / 1e3);
        Ok(Latencies {
            count: part.count,
            mean_ms: mean_us / 1e3,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p95_ms: at(0.95),
            p98_ms: at(0.98),
            p99_ms: at(0.99),
            p995_ms: at(0.995),
            p999_ms: at(0.999),
            max_ms: max_us / 1e3,
        })
    }
}

/// The histogram of naive latencies after back-filling, HdrHistogram's correction: for each latency
/// it adds those of the requests that would have fallen due while it lasted, one per interval.
///
/// It is exact only for a paced closed loop that leaves out late requests, and a stall that holds
/// up every connection. For anything else it adds too many, or counts twice. A value stands for its
/// bucket, except for the largest, `max_ns`, which is exact.
pub fn backfilled(naive: &Histogram<u64>, max_ns: u64, interval_ns: u64) -> Histogram<u64> {
    let mut filled = Histogram::new_from(naive);
    for bucket in naive.iter_recorded() {
        let value_ns = bucket.value_iterated_to().min(max_ns);
        filled
            .record_n_correct(value_ns, bucket.count_since_last_iteration(), interval_ns)
            .expect("no value is above those of the first");
    }
    filled
}

/// Latencies of raw samples, ms: exact, by rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Exact {
    /// Requests.
    pub requests: usize,
    /// The earliest due time among them, seconds since the window's start.
    pub begin_s: f64,
    /// The median.
    pub p50_ms: f64,
    /// The 90th percentile.
    pub p90_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The 99.9th percentile.
    pub p999_ms: f64,
    /// The largest.
    pub max_ms: f64,
}

impl Exact {
    /// The corrected latencies of requests that were due after this share of the window.
    ///
    /// # Errors
    /// There are none.
    pub fn of(requests: &[Requests], after: f64) -> Result<Exact, LabError> {
        let (mut latencies, mut begin_s) = (Vec::new(), 0.0);
        for of in requests {
            let length_ns = (of.window.end_ns - of.window.begin_ns) as f64;
            begin_s = length_ns * after / 1e9;
            let since = |one: &&Request| (one.intended_ns - of.window.begin_ns) as f64;
            let within = of.requests.iter().filter(|one| length_ns * after <= since(one));
            latencies.extend(within.map(|one| one.corrected_ns() as f64 / 1e6));
        }
        if latencies.is_empty() {
            return Err(LabError::figures("no request of a part of the window has a latency"));
        }
        latencies.sort_by(f64::total_cmp);
        let at = |q| quantile(&latencies, q);
        Ok(Exact {
            requests: latencies.len(),
            begin_s,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: at(1.0),
        })
    }
}

/// The requests of a run whose files lie in this folder: those of each agent, or its own.
///
/// # Errors
/// It has no raw samples, or they can't be read.
pub fn read_all(folder: &Path, report: &Report) -> Result<Vec<Requests>, LabError> {
    let agents = report.per_agent.iter().map(|agent| &agent.samples);
    let own = report.per_agent.is_empty().then_some(&report.samples);
    let files = agents.chain(own).map(|samples| samples.as_ref()?.file.as_deref());
    let read = |file: Option<&str>| {
        let file = file.ok_or_else(|| LabError::figures("a run has no raw samples"))?;
        Requests::read(&folder.join(file))
    };
    files.map(read).collect()
}

/// The line of a distribution in a plot of percentiles: for each quantile the number of requests
/// per request beyond it, and its latency, ms.
///
/// # Errors
/// Its histogram can't be read.
pub fn percentiles(part: &DistributionPart) -> Result<Vec<(f64, f64)>, LabError> {
    let histogram = part.decode_histogram().map_err(LabError::figures)?;
    let last = histogram.len() as f64;
    // Twenty points per decade, up to the last request but one.
    let points = (0..=200).map(|step| 10_f64.powf(f64::from(step) / 20.0));
    let points = points.take_while(|beyond| *beyond < last);
    Ok(points
        .map(|beyond| (beyond, histogram.value_at_quantile(1.0 - 1.0 / beyond) as f64 / 1e6))
        .collect())
}

/// The value of rank ⌈q·n⌉ of ascending values.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
pub fn quantile(ascending: &[f64], q: f64) -> f64 {
    let rank = (q * ascending.len() as f64 - 1e-9).ceil() as usize;
    ascending[rank.clamp(1, ascending.len()) - 1]
}

/// One request, ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it was due.
    pub intended_ns: u64,
    /// When it was sent; `None` if it never was.
    pub sent_ns: Option<u64>,
    /// When its latency ended.
    pub ended_ns: u64,
}

impl Request {
    /// From the intended time, ns.
    pub fn corrected_ns(&self) -> u64 {
        self.ended_ns - self.intended_ns
    }

    /// From the send, ns; `None` if it was never sent.
    pub fn naive_ns(&self) -> Option<u64> {
        self.sent_ns.map(|sent_ns| self.ended_ns - sent_ns)
    }
}

/// The requests of a run's window that have a latency.
#[derive(Clone, Debug)]
pub struct Requests {
    /// In the order in which they were due.
    pub requests: Vec<Request>,
    /// The window, ns of CLOCK_MONOTONIC.
    pub window: Span,
}

impl Requests {
    /// Reads raw samples.
    ///
    /// # Errors
    /// The file is damaged, or samples were lost.
    pub fn read(path: &Path) -> Result<Requests, LabError> {
        let unreadable = |problem: String| LabError::Document { path: path.to_owned(), problem };
        let mut reader = SampleReader::open(path).map_err(|error| unreadable(error.to_string()))?;
        let window_begin_ns = reader.header().window_start_ns;
        let mut requests = Vec::new();
        for sample in reader.by_ref() {
            let sample = sample.map_err(|error| unreadable(error.to_string()))?;
            if sample.kind != SampleKind::Failed {
                requests.push(Request {
                    intended_ns: sample.intended_ns,
                    sent_ns: (sample.kind != SampleKind::Unsent).then_some(sample.sent_ns),
                    ended_ns: sample.ending.ended_ns(),
                });
            }
        }
        let end = reader.end().ok_or_else(|| unreadable("it has no end".to_owned()))?;
        if 0 < end.lost() {
            return Err(unreadable(format!("{} samples were lost", end.lost())));
        }
        let at = |ns: u64| ns + end.epoch_ns;
        let window = Span { begin_ns: at(window_begin_ns), end_ns: at(end.until_ns) };
        for request in &mut requests {
            request.intended_ns = at(request.intended_ns);
            request.sent_ns = request.sent_ns.map(at);
            request.ended_ns = at(request.ended_ns);
        }
        requests.sort_by_key(|request| request.intended_ns);
        Ok(Requests { requests, window })
    }

    /// The number of requests due within these spans.
    pub fn due_in(&self, spans: &[Span]) -> u64 {
        self.count(spans, |request| Some(request.intended_ns))
    }

    /// The number of requests sent within these spans.
    pub fn sent_in(&self, spans: &[Span]) -> u64 {
        self.count(spans, |request| request.sent_ns)
    }

    fn count(&self, spans: &[Span], moment: impl Fn(&Request) -> Option<u64>) -> u64 {
        let within = |ns: u64| spans.iter().any(|span| (span.begin_ns..span.end_ns).contains(&ns));
        let moments = self.requests.iter().filter_map(moment);
        moments.filter(|ns| within(*ns)).count() as u64
    }

    /// The spans that lie entirely within the window.
    pub fn whole(&self, spans: &[Span]) -> Vec<Span> {
        let is_whole = |span: &&Span| {
            self.window.begin_ns <= span.begin_ns && span.end_ns <= self.window.end_ns
        };
        spans.iter().filter(is_whole).copied().collect()
    }

    /// The p99 of windows of growing length that begin after this share of the whole: the end of
    /// each, s, and its p99, ms.
    pub fn p99_by_length(&self, after: f64) -> Vec<(f64, f64)> {
        let length_ns = (self.window.end_ns - self.window.begin_ns) as f64;
        let point = |point: usize| {
            let end_ns = length_ns * point as f64 / LENGTHS as f64;
            let within = |one: &&Request| {
                let due_ns = (one.intended_ns - self.window.begin_ns) as f64;
                (length_ns * after..end_ns).contains(&due_ns)
            };
            let due = self.requests.iter().filter(within);
            let mut ms: Vec<f64> = due.map(|one| one.corrected_ns() as f64 / 1e6).collect();
            ms.sort_by(f64::total_cmp);
            (!ms.is_empty()).then(|| (end_ns / 1e9, quantile(&ms, 0.99)))
        };
        (1..=LENGTHS).filter_map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_by_rank_among_requests_due_in_a_part_of_the_window() {
        // Ten a second for 10 s; the first 30 take 205 ms, the others 5 ms.
        let request = |k: u64| {
            let intended_ns = 7 + k * 100_000_000;
            let takes_ns = if k < 30 { 205_000_000 } else { 5_000_000 };
            Request { intended_ns, sent_ns: None, ended_ns: intended_ns + takes_ns }
        };
        let window = Span { begin_ns: 7, end_ns: 10_000_000_007 };
        let of = [Requests { requests: (0..100).map(request).collect(), window }];
        let whole = Exact::of(&of, 0.0).expect("requests");
        assert_eq!((whole.requests, whole.p50_ms, whole.p99_ms), (100, 5.0, 205.0));
        let after = Exact::of(&of, 0.3).expect("requests");
        assert_eq!((after.requests, after.begin_s, after.max_ms), (70, 3.0, 5.0));
        assert!(Exact::of(&of, 1.0).is_err());
    }

    #[test]
    fn requests_are_counted_by_due_and_by_sent_time() {
        let request = |intended_ns, sent_ns| Request { intended_ns, sent_ns, ended_ns: 100 };
        let requests = Requests {
            requests: vec![request(9, Some(12)), request(10, Some(20)), request(19, None)],
            window: Span { begin_ns: 5, end_ns: 50 },
        };
        let spans = [Span { begin_ns: 10, end_ns: 20 }, Span { begin_ns: 40, end_ns: 60 }];
        assert_eq!((requests.due_in(&spans), requests.sent_in(&spans)), (2, 1));
        assert_eq!(requests.whole(&spans), spans[..1]);
    }

    #[test]
    fn a_longer_window_dilutes_its_first_requests() {
        // A hundred a second for 60 s; the first 30 take 205 ms, the others 5 ms.
        let request = |k: u64| {
            let takes_ns = if k < 30 { 205_000_000 } else { 5_000_000 };
            let intended_ns = k * 10_000_000;
            Request { intended_ns, sent_ns: None, ended_ns: intended_ns + takes_ns }
        };
        let window = Span { begin_ns: 0, end_ns: 60_000_000_000 };
        let of = Requests { requests: (0..6_000).map(request).collect(), window };
        let cold = of.p99_by_length(0.0);
        assert_eq!(
            (cold.len(), cold[0], cold[28], cold[29]),
            (60, (1.0, 205.0), (29.0, 205.0), (30.0, 5.0))
        );
        let warm = of.p99_by_length(0.2);
        assert_eq!((warm.len(), warm[0]), (48, (13.0, 5.0)));
    }

    #[test]
    fn back_filling_gives_the_golden_values() {
        let (second_ns, ms_ns) = (1_000_000_000_u64, 1_000_000_u64);
        let mut naive = Histogram::<u64>::new_with_bounds(1, 1_000 * second_ns, 3).expect("bounds");
        naive.record_n(ms_ns, 10_000).expect("in range");
        naive.record(100 * second_ns).expect("in range");
        let filled = backfilled(&naive, 100 * second_ns, 10 * ms_ns);
        assert_eq!((naive.len(), filled.len()), (10_001, 20_000));
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-3;
        for (histogram, q, expected_ns) in [
            (&naive, 0.9999, ms_ns),
            (&naive, 0.99999, 100 * second_ns),
            (&filled, 0.5, ms_ns),
            (&filled, 0.75, 50 * second_ns),
            (&filled, 0.9, 80 * second_ns),
            (&filled, 0.99, 98 * second_ns),
        ] {
            let found_ns = histogram.value_at_quantile(q);
            assert!(near(found_ns as f64, expected_ns as f64), "{q}: {found_ns} ns");
        }
        assert!(near(filled.mean(), 25.0005e9), "{}", filled.mean());
    }
}
