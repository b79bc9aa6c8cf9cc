//! What the experiments take from a run: latencies from its report, and its requests from raw
//! samples, on the clock that the target's ledger has as well.

use std::path::Path;

use engine::report::{DistributionPart, Report};
use engine::samples::{SampleKind, SampleReader};
use engine::stats::distribution::Distribution;
use serde::Serialize;
use target::{Ledger, Span};

use super::error::LabError;
use crate::observed;

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
    /// Those of a distribution in a report.
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

/// The line of a distribution in a plot of percentiles: each quantile by how many requests there
/// are for one beyond it, and its latency, ms.
///
/// # Errors
/// Its histogram can't be read.
pub fn percentiles(part: &DistributionPart) -> Result<Vec<(f64, f64)>, LabError> {
    let histogram = part.decode_histogram().map_err(LabError::figures)?;
    let last = histogram.len() as f64;
    // Twenty points a decade, up to the last request but one.
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

    /// From when it was sent, ns; `None` if it never was.
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

    /// How many were due within these spans.
    pub fn due_in(&self, spans: &[Span]) -> u64 {
        self.count(spans, |request| Some(request.intended_ns))
    }

    /// How many were sent within these spans.
    pub fn sent_in(&self, spans: &[Span]) -> u64 {
        self.count(spans, |request| request.sent_ns)
    }

    fn count(&self, spans: &[Span], moment: impl Fn(&Request) -> Option<u64>) -> u64 {
        let within = |ns: u64| spans.iter().any(|span| (span.begin_ns..span.end_ns).contains(&ns));
        let moments = self.requests.iter().filter_map(moment);
        moments.filter(|ns| within(*ns)).count() as u64
    }

    /// The spans that lie within the window as a whole.
    pub fn whole(&self, spans: &[Span]) -> Vec<Span> {
        let is_whole = |span: &&Span| {
            self.window.begin_ns <= span.begin_ns && span.end_ns <= self.window.end_ns
        };
        spans.iter().filter(is_whole).copied().collect()
    }

    /// The run as one that was observed, to be compared with the truth.
    pub fn observed(&self, report: Report, ledger: Ledger) -> observed::Observed {
        let (mut corrected, mut naive) = (Distribution::new(), Distribution::new());
        for request in &self.requests {
            corrected.record(request.corrected_ns());
            if let Some(naive_ns) = request.naive_ns() {
                naive.record(naive_ns);
            }
        }
        observed::Observed { report, corrected, naive, ledger, window: self.window }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_where_they_were_due_and_where_they_were_sent() {
        let request = |intended_ns, sent_ns| Request { intended_ns, sent_ns, ended_ns: 100 };
        let requests = Requests {
            requests: vec![request(9, Some(12)), request(10, Some(20)), request(19, None)],
            window: Span { begin_ns: 5, end_ns: 50 },
        };
        let spans = [Span { begin_ns: 10, end_ns: 20 }, Span { begin_ns: 40, end_ns: 60 }];
        assert_eq!((requests.due_in(&spans), requests.sent_in(&spans)), (2, 1));
        assert_eq!(requests.whole(&spans), spans[..1]);
    }
}
