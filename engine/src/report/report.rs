//! What happened: the report of one run, with the plan in it. The JSON document is this structure.
//!
//! Shards and agents merge through the same functions, and the sums are asserted wherever two parts meet:
//! `intended = sent + unsent` and `sent = answered + timed_out + failed + abandoned`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{
    Deserializer as HistogramReader, Serializer as _, V2DeflateSerializer,
};
use serde::{Deserialize, Serialize};

use crate::host::environment::Environment;
use crate::host::watch::Machine;
use crate::plan::Plan;
use crate::record::series::{Series, SeriesInterval};
use crate::record::shard_stats::ShardStats;
use crate::report::verdict::Verdict;
use crate::samples::FileError;
use crate::stats::arrival_proof::ArrivalProof;
use crate::stats::distribution::Distribution;
use crate::stats::interval::{Method, dependent, interval, method, needed};
use crate::stats::stationarity::Stationarity;

/// Version of the document.
pub const SCHEMA: u32 = 1;

/// The whole report of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Whether the numbers can be trusted, and why not.
    pub verdict: Verdict,
    /// Version of the document, [`SCHEMA`].
    pub schema: u32,
    /// Whether the run was ended before its plan was done.
    pub interrupted: bool,
    /// The plan, with what was derived from it.
    pub config: Config,
    /// Where it ran.
    pub environment: Environment,
    /// The whole run.
    #[serde(flatten)]
    pub whole: Part,
    /// How the generator itself fared.
    pub generator: Generator,
    /// What the arrivals of an open model were, beside what they should have been.
    pub arrivals: Option<ArrivalProof>,
    /// The same in one line.
    pub arrivals_line: Option<String>,
    /// The check of the bookkeeping.
    pub littles_law: LittlesLaw,
    /// The first quarter of the window against the last; `None` where the run is too short to tell.
    pub stationarity: Option<Stationarity>,
    /// What became of the raw samples; `None` without `--raw`.
    pub samples: Option<Samples>,
    /// The run over time.
    pub series: SeriesPart,
    /// Each agent's own part; a local run has one.
    pub per_agent: Vec<AgentPart>,
    /// The agents' parts added up: the same as the whole, kept under its own name beside the parts.
    pub merged: Part,
}

/// The plan of the run and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The completed plan.
    #[serde(flatten)]
    pub plan: Plan,
    /// The address that the target's name stood for.
    pub target_address: String,
    /// Digest of every intended time of the schedule up to `schedule_until`, hexadecimal; `None` for a closed model, which
    /// has no schedule.
    pub schedule_digest: Option<String>,
    /// Arrivals of the schedule, warm-up included.
    pub schedule_arrivals: Option<u64>,
    /// Where the schedule ended, seconds since the epoch of the run: the plan's end, or the moment of an interruption.
    pub schedule_until: f64,
    /// What `corrected` was corrected by: `intended`, the intended times; or `backfill`, HdrHistogram's `record_correct`.
    pub corrected_by: String,
}

impl Config {
    /// Length of the recorded window as it was, seconds.
    pub fn window_s(&self) -> f64 {
        (self.schedule_until - self.plan.warmup.as_secs_f64()).max(0.0)
    }
}

impl Report {
    /// How many requests may be between due and sent when the window ends, without anybody's fault: one a shard, or as many
    /// as wait for their own connection to open, which is connects per second times their time (Little's law).
    pub fn at_the_edge(&self) -> f64 {
        let connect = &self.whole.connect_time;
        let connect_s = connect.p99.or(connect.max).unwrap_or(0.0) / 1e6;
        let window_s = self.config.window_s();
        let per_second = if window_s == 0.0 {
            0.0
        } else {
            self.whole.counts.connects_in_window as f64 / window_s
        };
        (per_second * connect_s).max(self.generator.shards.len() as f64)
    }
}

/// How the generator itself fared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Each shard.
    pub shards: Vec<ShardStats>,
    /// The machine under them.
    pub machine: Machine,
}

/// Little's law over the window: see [`crate::record::littles_law`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LittlesLaw {
    /// Mean number of requests on the wire in the window, the live count integrated over time.
    pub in_flight_mean: f64,
    /// Requests per second times their mean stay on the wire within the window, by their stamps.
    pub expected: f64,
    /// How far the two are apart, as a share of the larger.
    pub residual: f64,
}

impl LittlesLaw {
    /// The law's two sides, and how far they are apart.
    pub fn new(in_flight_mean: f64, expected: f64) -> LittlesLaw {
        let larger = in_flight_mean.max(expected);
        let residual = if larger == 0.0 { 0.0 } else { (in_flight_mean - expected).abs() / larger };
        LittlesLaw { in_flight_mean, expected, residual }
    }
}

/// What became of the raw samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// The whole file; `None` when there is none under its name.
    pub file: Option<String>,
    /// Samples in it.
    pub written: u64,
    /// Samples of the window that are missing.
    pub lost: u64,
    /// The first error on the way to the file.
    pub error: Option<FileError>,
}

/// The run over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesPart {
    /// Length of an interval, seconds.
    pub interval_s: f64,
    /// The intervals from the start of the window on.
    pub intervals: Vec<IntervalPart>,
}

/// One interval of the run: the requests that were due in it, and what went on in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntervalPart {
    /// Its start, seconds since the start of the window.
    pub start_s: f64,
    /// Requests that were due.
    pub intended: u64,
    /// Of these, sent.
    pub sent: u64,
    /// Of these, never sent.
    pub unsent: u64,
    /// Of these, answered.
    pub answered: u64,
    /// Of these, timed out, failed or abandoned.
    pub errors: u64,
    /// Sends in it, by their own stamps, of whichever requests of the window. Those after its end stand in no interval.
    pub sends: u64,
    /// Answers that came in it, by their own stamps, to whichever requests of the window. Those after its end stand in no
    /// interval.
    pub answers: u64,
    /// Responses awaited at its end.
    pub in_flight: u64,
    /// Corrected median, microseconds; `None` without values.
    pub p50: Option<f64>,
    /// Corrected 99th percentile.
    pub p99: Option<f64>,
    /// Corrected maximum, to two digits.
    pub max: Option<f64>,
    /// Corrected latencies: HdrHistogram V2 deflate, base64; unit 1 ns, two digits.
    pub histogram: String,
}

impl SeriesPart {
    /// The document's form of a series.
    pub fn new(series: &Series) -> SeriesPart {
        let interval_s = series.interval_ns() as f64 / 1e9;
        let slots = series.slots().iter().enumerate();
        let intervals = slots.map(|(at, slot)| IntervalPart::new(at as f64 * interval_s, slot));
        SeriesPart { interval_s, intervals: intervals.collect() }
    }
}

impl IntervalPart {
    /// The document's form of an interval.
    pub fn new(start_s: f64, slot: &SeriesInterval) -> IntervalPart {
        let us = |ns: u64| (!slot.latency.is_empty()).then_some(ns as f64 / 1e3);
        IntervalPart {
            start_s,
            intended: slot.intended,
            sent: slot.sent,
            unsent: slot.unsent,
            answered: slot.answered,
            errors: slot.errors,
            sends: slot.sends,
            answers: slot.answers,
            in_flight: slot.in_flight,
            p50: us(slot.latency.value_at_quantile(0.5)),
            p99: us(slot.latency.value_at_quantile(0.99)),
            max: us(slot.latency.max()),
            histogram: encode_histogram(&slot.latency),
        }
    }
}

/// One agent's part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentPart {
    /// The agent's name; `local` for a run without agents.
    pub name: String,
    /// Its numbers.
    #[serde(flatten)]
    pub part: Part,
}

/// Counts, rates and distributions of a run or of a part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// How many requests ended how.
    pub counts: Counts,
    /// Requests per second of the recorded window.
    pub rate: Rates,
    /// `received − sent` of all requests sent that did not fail.
    pub naive: DistributionPart,
    /// `received − intended` of all requests that did not fail, the unsent included with their age at the end.
    pub corrected: DistributionPart,
    /// Intended → noticed by the shard, of all requests sent: the generator's own lateness.
    pub pacer_lateness: DistributionPart,
    /// Noticed → sent, of all requests sent: waiting for a connection, and for the system call that carries it.
    pub connection_wait: DistributionPart,
    /// Connect → connected, of connections opened in the window.
    pub connect_time: DistributionPart,
    /// Latencies of successes alone, where they differ from those of all answers.
    pub successes: Option<Successes>,
}

/// Latencies of the requests whose status counts as success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Successes {
    /// `received − sent`.
    pub naive: DistributionPart,
    /// `received − intended`.
    pub corrected: DistributionPart,
}

/// How the intended requests of the window ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests whose intended time lay in the window.
    pub intended: u64,
    /// Handed to the kernel, or failed for want of a connection.
    pub sent: u64,
    /// Of these, handed to the kernel before the end of the window.
    pub sent_in_window: u64,
    /// Of the sent, those that never had a connection: failed, under the cause of the failed connect.
    pub unconnected: u64,
    /// Never sent.
    pub unsent: u64,
    /// The unsent by reason.
    pub unsent_reasons: BTreeMap<String, u64>,
    /// Ended by a whole response, whatever its status.
    pub answered: u64,
    /// Not answered within the timeout.
    pub timed_out: u64,
    /// Ended by a failure of the connection or of the protocol.
    pub failed: u64,
    /// Still in flight when the drain ended.
    pub abandoned: u64,
    /// Arrivals that found no free connection and waited for one.
    pub waited: u64,
    /// Of these, when no further connection could be opened.
    pub capped: u64,
    /// Answered requests whose status is no success.
    pub unexpected_status: u64,
    /// Answered requests by status code.
    pub status: BTreeMap<String, u64>,
    /// Requests that failed or timed out, by cause.
    pub errors: BTreeMap<String, u64>,
    /// Connections that ended with an error while they carried no request of the window, by cause.
    pub connection_errors: BTreeMap<String, u64>,
    /// Connections opened, from set-up to drain.
    pub connects: u64,
    /// Of these, in the window: what the pool had to grow, or to replace, while it measured.
    pub connects_in_window: u64,
    /// Load of the set-up, not recorded anywhere else.
    pub setup: UnrecordedCounts,
    /// Load of the warm-up, not recorded anywhere else.
    pub warmup: UnrecordedCounts,
}

/// What was sent before the recorded window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnrecordedCounts {
    /// Handed to the kernel.
    pub sent: u64,
    /// Ended by a whole response.
    pub answered: u64,
}

/// Requests per second, over the length of the recorded window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// The plan's rate; `None` for a closed model.
    pub target: Option<f64>,
    /// Intended requests of the window.
    pub intended: f64,
    /// Requests of the window sent before its end.
    pub sent: f64,
    /// Requests of the window answered before its end.
    pub answered: f64,
}

/// A distribution as the document shows it: microseconds, and the histogram itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DistributionPart {
    /// Unit of the numbers below: `us`.
    pub unit: String,
    /// Values recorded.
    pub count: u64,
    /// The smallest, exact.
    pub min: Option<f64>,
    /// The mean, exact.
    pub mean: Option<f64>,
    /// Half of the values are at most this. This and the following are `None` below the number of values that they need.
    pub p50: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    pub p999: Option<f64>,
    /// The 99.99th percentile.
    pub p9999: Option<f64>,
    /// Their 95 % confidence intervals.
    pub intervals: Intervals,
    /// The largest, exact.
    pub max: Option<f64>,
    /// Values above 60 s, which the histogram doesn't hold.
    pub overflow: u64,
    /// HdrHistogram V2 deflate, base64; unit 1 ns.
    pub histogram: String,
}

/// 95 % confidence intervals of percentiles, each `[low, high]` in microseconds, and what they rest on.
///
/// Only the corrected latencies are kept by pieces of the run, so only theirs can come from the spread between pieces, and only
/// they can be seen to depend on each other. What stalls one moves the other distributions of the run as well. So where the
/// corrected latencies depend on each other, the others have no intervals: ranks would give them a precision that they
/// don't have. Back-filled values follow from each other and have none either.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// Of the median.
    pub p50: Option<[f64; 2]>,
    /// Of the 90th percentile.
    pub p90: Option<[f64; 2]>,
    /// Of the 99th percentile.
    pub p99: Option<[f64; 2]>,
    /// Of the 99.9th percentile.
    pub p999: Option<[f64; 2]>,
    /// How these were found, or sought where there are none. `batches`: from the spread between pieces of the run;
    /// `order_statistics`: from ranks, as if values were independent. `None`: by no method, because values depend on each
    /// other and this distribution is not kept by pieces.
    pub method: Option<Method>,
    /// Whether the run's latencies depend on each other, by the spread between its pieces; `None` when there are too few of them
    /// to tell.
    pub dependent: Option<bool>,
    /// What is missing where values are too few.
    pub needed: IntervalNeeds,
}

/// How many values an interval would take that there are too few for, at the spread that these show between pieces of the run.
/// `None` where there is an interval, and where no number of values would give one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IntervalNeeds {
    /// Of the median.
    pub p50: Option<u64>,
    /// Of the 90th percentile.
    pub p90: Option<u64>,
    /// Of the 99th percentile.
    pub p99: Option<u64>,
    /// Of the 99.9th percentile.
    pub p999: Option<u64>,
}

impl Intervals {
    /// Of a distribution that the batches hold by pieces of the run; without batches, as if values were independent.
    fn new(distribution: &Distribution, batches: &[Histogram<u64>]) -> Intervals {
        let us = |ns: u64| ns as f64 / 1e3;
        let found = [0.5, 0.9, 0.99, 0.999].map(|p| interval(distribution, batches, p));
        let [p50, p90, p99, p999] =
            found.map(|found| found.ok().map(|found| [us(found.low_ns), us(found.high_ns)]));
        let missing = found.map(|found| found.err().map(|refused| refused.needed));
        Intervals {
            p50,
            p90,
            p99,
            p999,
            method: Some(method(batches)),
            dependent: dependent(batches),
            needed: IntervalNeeds {
                p50: missing[0],
                p90: missing[1],
                p99: missing[2],
                p999: missing[3],
            },
        }
    }

    /// Of a distribution that is not kept by pieces of the run.
    fn alone(distribution: &Distribution, dependent: Option<bool>) -> Intervals {
        if dependent == Some(true) {
            return Intervals { dependent, ..Intervals::default() };
        }
        Intervals { dependent, ..Intervals::new(distribution, &[]) }
    }
}

impl DistributionPart {
    /// The document's form of a distribution; `batches` are the same values by pieces of the run.
    pub fn new(distribution: &Distribution, batches: &[Histogram<u64>]) -> DistributionPart {
        DistributionPart::with(distribution, Intervals::new(distribution, batches))
    }

    /// The document's form of a distribution that is not kept by pieces of the run, whose latencies depend on each other or don't.
    pub fn alone(distribution: &Distribution, dependent: Option<bool>) -> DistributionPart {
        DistributionPart::with(distribution, Intervals::alone(distribution, dependent))
    }

    fn with(distribution: &Distribution, intervals: Intervals) -> DistributionPart {
        let us = |ns: u64| ns as f64 / 1e3;
        let known = |q: f64| needed(q) <= distribution.count();
        let quantile = |q: f64| distribution.quantile_ns(q).filter(|_| known(q)).map(us);
        DistributionPart {
            unit: "us".to_owned(),
            count: distribution.count(),
            min: distribution.min_ns().map(us),
            mean: distribution.mean_ns().map(|ns| ns / 1e3),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: quantile(0.9999),
            intervals,
            max: distribution.max_ns().map(us),
            overflow: distribution.overflow(),
            histogram: encode_histogram(distribution.histogram()),
        }
    }

    /// One of the percentiles that the document states; `None` below the number of values that it needs.
    pub fn quantile_us(&self, q: f64) -> Option<f64> {
        let stated = [
            (0.5, self.p50),
            (0.9, self.p90),
            (0.99, self.p99),
            (0.999, self.p999),
            (0.9999, self.p9999),
        ];
        stated.into_iter().find(|(known, _)| (known - q).abs() < 1e-9).and_then(|(_, value)| value)
    }

    /// The histogram, unit 1 ns.
    ///
    /// # Errors
    /// What is wrong with the text, when it is no histogram.
    pub fn decode_histogram(&self) -> Result<Histogram<u64>, String> {
        decode_histogram(&self.histogram)
    }
}

/// The histogram that a document's text holds, or what is wrong with the text.
pub(crate) fn decode_histogram(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = BASE64.decode(text).map_err(|error| error.to_string())?;
    HistogramReader::new().deserialize(&mut bytes.as_slice()).map_err(|error| error.to_string())
}

fn encode_histogram(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("writing to memory can't fail and the histogram's size is fixed");
    BASE64.encode(bytes)
}

impl Counts {
    /// Panics unless the sums close: a number that doesn't add up must never be shown.
    pub fn assert_sums(&self) {
        assert_eq!(self.intended, self.sent + self.unsent, "intended = sent + unsent: {self:?}");
        assert_eq!(
            self.sent,
            self.answered + self.timed_out + self.failed + self.abandoned,
            "sent = answered + timed_out + failed + abandoned: {self:?}"
        );
        let by_status: u64 = self.status.values().sum();
        assert_eq!(self.answered, by_status, "answered = the sum over statuses: {self:?}");
        let by_reason: u64 = self.unsent_reasons.values().sum();
        assert_eq!(self.unsent, by_reason, "unsent = the sum over reasons: {self:?}");
        let by_cause: u64 = self.errors.values().sum();
        assert_eq!(
            self.timed_out + self.failed,
            by_cause,
            "timed_out + failed = the sum over causes: {self:?}"
        );
    }
}
