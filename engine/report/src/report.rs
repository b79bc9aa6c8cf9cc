//! The report of one run, with the plan in it. The JSON document has this structure.
//!
//! Shards and agents merge through the same functions, and the sums are asserted wherever two parts
//! meet: `intended = sent + unsent` and `sent = answered + timed_out + failed + abandoned`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hdrhistogram::Histogram;
use load::replay::ReplayedLog;
use load::share::Share;
use plan::{Plan, StampSource, TlsSession};
use record::counts::{Counts, CountsBy, IntervalCounts};
use record::endpoint::EndpointCounts;
use record::outcome::{Cause, UnsentReason};
use record::samples::FileError;
use record::series::{Series, SeriesInterval};
use record::shard_stats::ShardStats;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::arrival_proof::ArrivalProof;
use stats::distribution::{Distribution, SIGNIFICANT_DIGITS, histogram_of_text};

use crate::calibration::HeldAgainst;
use crate::environment::Environment;
use crate::machine::Machine;
use crate::machine::Ports;
use crate::profile::Profile;
use crate::slo::Slo;
use crate::slowest::SlowRequest;
use crate::verdict::Verdict;
pub use stats::encoded::HistogramError;
use stats::encoded::to_text;
use stats::mix_proof::MixProof;
use stats::percentiles::{PERCENTILES, Percentiles, Quantile};
use stats::pieces::Pieces;
use stats::stationarity::Stationarity;
use units::{CoreList, OneIn, us_to_ns};

/// Version of the document. Adding, dropping or redefining a field requires a new one.
pub const SCHEMA: u32 = 18;

/// The name of the only agent in a run without agents.
pub const LOCAL: &str = "local";

/// The whole report of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
pub struct Report {
    /// Whether the numbers can be trusted, and why not.
    pub verdict: Verdict,
    /// Version of the document, [`SCHEMA`].
    pub schema: u32,
    /// When the load began, including the warm-up: RFC 3339, in UTC, to the millisecond.
    pub started_at: String,
    /// The user's name for the run; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The user's other notes on the run, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// True if the run was stopped before its plan was done.
    pub interrupted: bool,
    /// True if a part of the run is in no number, and nothing replaces it: that of a lost agent, or
    /// what a run that was resumed hadn't sent when its controller was lost.
    pub partial: bool,
    /// The agents that were lost.
    pub agent_lost: Vec<AgentLost>,
    /// Why an agent kept this report, which reached no controller; `None` for any other report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncollected: Option<String>,
    /// The judgement of the plan's objectives; `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,
    /// The plan, with what was derived from it.
    pub config: Config,
    /// Where it ran; with several agents, where the controller ran.
    pub environment: Environment,
    /// The whole run.
    #[serde(flatten)]
    pub whole: Part,
    /// Digest of the corrected latencies as counted, the sum of the agents' histograms:
    /// hexadecimal, see [`Distribution::digest`].
    pub corrected_digest: String,
    /// The generator's own statistics.
    pub generator: Generator,
    /// Bytes over all connections, in the window.
    pub traffic: Traffic,
    /// The log that was replayed; `None` for any other load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayedLog>,
    /// The arrivals of an open model compared with the planned ones.
    pub arrivals: Option<ArrivalProof>,
    /// The same as one line.
    pub arrivals_line: Option<String>,
    /// The requests of each scenario compared with the planned weights; `None` if there is only one
    /// scenario, or too few requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<MixProof>,
    /// The check of the bookkeeping by Little's law.
    pub littles_law: LittlesLaw,
    /// The first quarter of the window compared with the last; if the rate changes, the same within
    /// the constant-rate stage that drifted most. `None` if the run, or each such stage, is too
    /// short.
    pub stationarity: Option<Stationarity>,
    /// The raw samples of all agents; `None` without `--raw`.
    pub samples: Option<Samples>,
    /// Where the CPU time went; `None` for a run that wasn't profiled.
    pub profile: Option<Profile>,
    /// The run compared with the last calibration of its machine; `None` if none applies.
    pub calibration: Option<HeldAgainst>,
    /// The run over time.
    pub series: SeriesPart,
    /// Each agent's figures. A run without agents counts as one agent, which the document doesn't
    /// repeat.
    #[serde(default, skip_serializing_if = "is_local")]
    pub per_agent: Vec<AgentPart>,
}

/// True for the single agent of a run without agents.
fn is_local(agents: &[AgentPart]) -> bool {
    matches!(agents, [only] if only.name == LOCAL)
}

/// A response of this many bytes can't arrive completely before the generator reads: Linux grants a
/// new connection half of its 128 KiB of receive memory as a window (tcp(7), tcp_rmem).
const WINDOW_BYTES: u64 = 65_536;

impl Report {
    /// True if responses are so long, on average, that they arrive only as fast as the generator
    /// reads them.
    pub fn has_long_responses(&self) -> bool {
        let shards = self.generator.shards.iter();
        let bytes = shards.fold(0, |sum: u64, shard| sum.saturating_add(shard.received_bytes));
        WINDOW_BYTES < bytes / self.whole.counts.answered_ever().max(1)
    }
}

/// The plan of the run and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    /// The completed plan.
    #[serde(flatten)]
    pub plan: Plan,
    /// The address that the target's name resolved to; with several endpoints, those of all.
    pub target_address: String,
    /// Version of the schedule, [`load::schedule::VERSION`]: with another one, the same plan and
    /// seed mean other arrivals. `None` for a closed model, which has no schedule.
    pub schedule_version: Option<u32>,
    /// Digest of every intended time of the schedule up to `schedule_until`, hexadecimal; `None`
    /// without a schedule, or if its end was only estimated.
    pub schedule_digest: Option<String>,
    /// Arrivals of the schedule, including the warm-up.
    pub schedule_arrivals: Option<u64>,
    /// Arrivals that were counted by the rate instead of one by one, since no machine could follow
    /// that rate; the schedule has no digest then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_estimated: Option<u64>,
    /// Where the schedule ended, seconds since the epoch of the run: the plan's end, or the time of
    /// an interruption.
    #[serde(rename = "schedule_until_s")]
    pub schedule_until: f64,
}

impl Config {
    /// Actual length of the recorded window, seconds.
    pub fn window_s(&self) -> f64 {
        (self.schedule_until - self.plan.warmup.as_secs_f64()).max(0.0)
    }
}

/// The generator's own statistics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// Each shard; with several agents, those of the first come first.
    pub shards: Vec<ShardStats>,
    /// Its machine; `None` for several agents, each of which has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}

/// Bytes over all connections to the target in the window, requests and responses with their heads,
/// without TCP and IP overhead. Each shard's window is that of its other statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received per second.
    pub received_bytes_per_s: f64,
    /// Bytes sent per second.
    pub sent_bytes_per_s: f64,
    /// From setup to drain, the bytes of no request in `parts`, which are the rest of what all
    /// shards received and sent; `None` without parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside_parts: Option<Bytes>,
}

/// Bytes in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bytes {
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

impl Bytes {
    /// Those of these shards from setup to drain.
    pub fn of_shards<'a>(shards: impl IntoIterator<Item = &'a ShardStats>) -> Bytes {
        let of = |shard: &ShardStats| Bytes {
            received_bytes: shard.received_bytes,
            sent_bytes: shard.sent_bytes,
        };
        shards.into_iter().map(of).fold(Bytes::default(), Bytes::plus)
    }

    /// Those of these parts' requests.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a StepPart>) -> Bytes {
        let of = |part: &StepPart| Bytes {
            received_bytes: part.received_bytes,
            sent_bytes: part.sent_bytes,
        };
        parts.into_iter().map(of).fold(Bytes::default(), Bytes::plus)
    }

    fn plus(self, other: Bytes) -> Bytes {
        Bytes {
            received_bytes: self.received_bytes.saturating_add(other.received_bytes),
            sent_bytes: self.sent_bytes.saturating_add(other.sent_bytes),
        }
    }

    /// What is left of these without the others; `None` if there aren't as many.
    pub fn minus(self, other: Bytes) -> Option<Bytes> {
        Some(Bytes {
            received_bytes: self.received_bytes.checked_sub(other.received_bytes)?,
            sent_bytes: self.sent_bytes.checked_sub(other.sent_bytes)?,
        })
    }
}

impl Generator {
    /// The bytes of all its shards in the window, and those beside these parts' requests.
    pub fn traffic(&self, parts: &[StepPart]) -> Traffic {
        let several = Some(parts).filter(|parts| !parts.is_empty());
        let beside_parts =
            several.and_then(|parts| Bytes::of_shards(&self.shards).minus(Bytes::of_parts(parts)));
        let traffic = Traffic { beside_parts, ..Traffic::default() };
        self.shards.iter().fold(traffic, |sum, shard| {
            let (received, sent) = (shard.window_received_bytes, shard.window_sent_bytes);
            let per_s = |bytes: u64| match shard.observed_s {
                0.0 => 0.0,
                observed_s => bytes as f64 / observed_s,
            };
            Traffic {
                received_bytes: sum.received_bytes.saturating_add(received),
                sent_bytes: sum.sent_bytes.saturating_add(sent),
                received_bytes_per_s: sum.received_bytes_per_s + per_s(received),
                sent_bytes_per_s: sum.sent_bytes_per_s + per_s(sent),
                ..sum
            }
        })
    }

    /// Share of its cores' time that the hypervisor took; `None` if unknown.
    pub fn steal(&self) -> Option<f64> {
        self.machine.as_ref()?.steal
    }

    /// The ephemeral ports used by connections to the target; `None` if unknown.
    pub fn ports(&self) -> Option<&Ports> {
        self.machine.as_ref()?.ports.as_ref()
    }
}

/// Little's law over the window: see [`record::littles_law`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LittlesLaw {
    /// Mean number of requests on the wire in the window, the live count integrated over time.
    pub in_flight_mean: f64,
    /// Requests per second times their mean stay on the wire within the window, from their stamps.
    pub expected: f64,
    /// The difference of the two, as a share of the larger.
    pub residual: f64,
    /// Mean number of requests at the target or on the wire: a stay there ends when the response
    /// arrives, in the live count when it is handled.
    pub at_target_mean: f64,
    /// Mean number of requests of a closed loop without a period that were ready but not sent;
    /// `None` for other models.
    pub queued_mean: Option<f64>,
    /// The share of their time for which the users of such a loop waited for the generator: from
    /// the arrival of a response until the next request was sent. A lower bound if responses have
    /// the program's stamp.
    pub generator_share: Option<f64>,
}

/// The ratio of requests in flight to requests at the target from which it is worth reporting.
const HELD_MIN: f64 = 1.05;

impl LittlesLaw {
    /// The two sides of the law and their difference.
    pub fn new(in_flight_mean: f64, expected: f64, at_target_mean: f64) -> LittlesLaw {
        let larger = in_flight_mean.max(expected);
        let residual = if larger == 0.0 { 0.0 } else { (in_flight_mean - expected).abs() / larger };
        LittlesLaw {
            in_flight_mean,
            expected,
            residual,
            at_target_mean,
            queued_mean: None,
            generator_share: None,
        }
    }

    /// The share of their stay on the wire for which requests had their response and it waited for
    /// the generator, if that exceeds 5 % of their time at the target. Unknown if responses have
    /// the program's stamp.
    pub fn held_by_generator(&self) -> Option<f64> {
        (HELD_MIN * self.at_target_mean < self.in_flight_mean)
            .then(|| 1.0 - self.at_target_mean / self.in_flight_mean)
    }

    /// The same with this many users on average, each of whom sends as soon as its response has
    /// arrived.
    #[must_use]
    pub fn of_users(self, users: f64, queued_mean: f64) -> LittlesLaw {
        let waiting = (self.in_flight_mean - self.at_target_mean).max(0.0) + queued_mean;
        let generator_share = (0.0 < users).then(|| waiting / users);
        LittlesLaw { queued_mean: Some(queued_mean), generator_share, ..self }
    }
}

/// The outcome of the raw samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Samples {
    /// The file of the first segment, beside which the others are; `None` if there is none.
    pub file: Option<String>,
    /// Samples in all segments.
    pub written: u64,
    /// Samples missing from the window.
    pub lost: u64,
    /// The first error while writing them.
    pub error: Option<FileError>,
}

/// The run over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesPart {
    /// Unit of the latencies and of the lateness of each interval: `us`.
    pub unit: Microseconds,
    /// Length of an interval, seconds.
    pub interval_s: f64,
    /// The intervals from the start of the window.
    pub intervals: Vec<IntervalPart>,
}

/// One interval of the run: the outcomes of the requests due in it, and the events in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalPart {
    /// Its start, seconds since the start of the window.
    pub start_s: f64,
    /// The counters of an interval, flattened into fields.
    #[serde(flatten)]
    pub counts: IntervalCounts,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Corrected median, microseconds; `None` without values.
    pub p50: Option<f64>,
    /// Corrected 99th percentile.
    pub p99: Option<f64>,
    /// Corrected maximum, to two digits.
    pub max: Option<f64>,
    /// Corrected latencies: HdrHistogram V2 deflate, base64; unit 1 ns, two digits.
    pub histogram: String,
    /// Median receive lateness of their responses, microseconds, to one digit; `None` without
    /// kernel stamps.
    pub receive_lateness_p50: Option<f64>,
    /// The 99th percentile of the same.
    pub receive_lateness_p99: Option<f64>,
    /// The largest of the same.
    pub receive_lateness_max: Option<f64>,
}

impl SeriesPart {
    /// The document's form of a series.
    pub fn new(series: &Series) -> SeriesPart {
        let interval_s = series.interval_ns() as f64 / 1e9;
        let slots = series.slots().iter().enumerate();
        let intervals = slots.map(|(at, slot)| IntervalPart::new(at as f64 * interval_s, slot));
        SeriesPart { unit: Microseconds::Us, interval_s, intervals: intervals.collect() }
    }
}

impl SeriesPart {
    /// For each interval of a window of this length, the requests without a good answer and all
    /// requests due.
    pub fn bad_pieces(&self, window_s: f64) -> Pieces<(u64, u64)> {
        self.pieces(window_s, |counts| {
            let good = counts.answered.saturating_sub(counts.not_good());
            (counts.intended.saturating_sub(good), counts.intended)
        })
    }

    /// The same as far as it reflects on the target ([`Counts::of_target`]); `whole` holds the
    /// counts of the run. Neither local failures nor the reasons for unsent requests are kept by
    /// interval: each interval is assumed to have the same part of them in its errors or unsent
    /// requests as the whole.
    pub fn of_target_pieces(&self, window_s: f64, whole: &Counts) -> Pieces<(u64, u64)> {
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        let failed_here = share(whole.failed_here(), whole.ended_in_error());
        let dropped = share(whole.unsent - whole.unsent_here(), whole.unsent);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part")]
        let part = |count: u64, share: f64| (count as f64 * share).round() as u64;
        self.pieces(window_s, |counts| {
            let failed_here = part(counts.errors, failed_here);
            let dropped = part(counts.unsent, dropped);
            let errors = counts.errors.saturating_sub(failed_here).saturating_add(dropped);
            (
                errors.saturating_add(counts.not_good()),
                counts.sent.saturating_add(dropped).saturating_sub(failed_here),
            )
        })
    }

    /// Two numbers per interval.
    fn pieces(
        &self,
        window_s: f64,
        of: impl Fn(&IntervalCounts) -> (u64, u64),
    ) -> Pieces<(u64, u64)> {
        let each = self.intervals.iter().map(|interval| of(&interval.counts));
        Pieces::new(each.collect(), self.interval_s).lasting(window_s)
    }
}

impl IntervalPart {
    /// The document's form of an interval.
    pub fn new(start_s: f64, slot: &SeriesInterval) -> IntervalPart {
        let (latency, late) = (slot.latency.histogram(), slot.receive_lateness.histogram());
        let us = |ns: u64| (!latency.is_empty()).then_some(ns as f64 / 1e3);
        let late_us = |ns: u64| (!late.is_empty()).then_some(ns as f64 / 1e3);
        IntervalPart {
            start_s,
            counts: slot.counts,
            in_flight: slot.in_flight,
            p50: us(latency.value_at_quantile(0.5)),
            p99: us(latency.value_at_quantile(0.99)),
            max: us(latency.max()),
            histogram: to_text(&latency),
            receive_lateness_p50: late_us(late.value_at_quantile(0.5)),
            receive_lateness_p99: late_us(late.value_at_quantile(0.99)),
            receive_lateness_max: late_us(late.max()),
        }
    }
}

/// An agent that was lost during the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentLost {
    /// Its name.
    pub name: String,
    /// When it was last heard from, seconds since the epoch of the run.
    pub at_s: f64,
    /// Its planned share of the whole load: 0.25 for a quarter.
    pub load: f64,
    /// The units of that share.
    pub share: Share,
    /// Its last progress report, which is in no other number; `None` if there was none.
    #[serde(default)]
    pub reported: Option<AgentReported>,
}

/// The last progress report of a lost agent, including the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentReported {
    /// Unit of the latencies: `us`.
    pub unit: Microseconds,
    /// The time of the report, seconds since the epoch of the run.
    pub until_s: f64,
    /// Requests that had fallen due.
    pub intended: u64,
    /// Requests with a complete response.
    pub answered: u64,
    /// Requests that timed out, failed or were abandoned.
    pub errors: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Corrected median of the window's requests, microseconds, within 6.25 %; `None` without any.
    pub p50: Option<f64>,
    /// Corrected 99th percentile of the same.
    pub p99: Option<f64>,
}

/// One agent's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentPart {
    /// The agent's name; `local` for a run without agents.
    pub name: String,
    /// Its task and its placement.
    pub config: AgentConfig,
    /// Whether its numbers can be trusted. With several agents, rules that need the whole run
    /// aren't applied to each.
    pub verdict: Verdict,
    /// True if it was stopped before its plan was done.
    pub interrupted: bool,
    /// How its clock compared with the controller's; `None` for a run without agents.
    pub synchronization: Option<Synchronization>,
    /// The problems that `truetail doctor` finds there, one line each with cause and cure; empty
    /// for a run without agents.
    #[serde(default)]
    pub findings: Vec<String>,
    /// How late its first request was sent by its own clock and the schedule, including the
    /// warm-up, microseconds; `None` if it sent none.
    pub start_skew_us: Option<f64>,
    /// Where it ran.
    pub environment: Environment,
    /// Its generator's statistics.
    pub generator: Generator,
    /// Its arrivals compared with its share of the planned ones.
    pub arrivals: Option<ArrivalProof>,
    /// The same as one line.
    pub arrivals_line: Option<String>,
    /// The check of its bookkeeping by Little's law.
    pub littles_law: LittlesLaw,
    /// Its raw samples; `None` without `--raw`.
    pub samples: Option<Samples>,
    /// Its numbers.
    #[serde(flatten)]
    pub part: Part,
}

/// How an agent's clock compared with the controller's. The start of the run is exact on the
/// agent's clock; on the controller's it is known to within these errors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Synchronization {
    /// Pings that were answered before the start.
    pub pings: u64,
    /// The most by which the agent's clock, as used to compute the start, may have been off, ns.
    pub offset_error_ns: u64,
    /// The same at the end of the run, including the clocks' drift until then; `None` without a
    /// ping after the start.
    pub end_error_ns: Option<u64>,
    /// How much faster the agent's clock ran than the controller's, parts per million; `None`
    /// without a ping after the start.
    pub drift_ppm: Option<f64>,
    /// The error of that. If it exceeds the drift, no drift is known.
    #[serde(default)]
    pub drift_error_ppm: Option<f64>,
}

impl Synchronization {
    /// The most by which the agent's clock may have been off from the controller's during the run,
    /// ns.
    pub fn error_ns(&self) -> u64 {
        self.offset_error_ns.max(self.end_error_ns.unwrap_or(0))
    }
}

/// The connections of one endpoint of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndpointPart {
    /// Scheme, host and, unless it is the scheme's own, port.
    pub name: String,
    /// The address that was connected to; with agents that differ in it, those of all.
    pub address: String,
    /// Its planned share of all requests.
    pub planned: f64,
    /// What was counted.
    #[serde(flatten)]
    pub counts: EndpointCounts,
}

/// One agent's task and placement; settings that all agents share aren't repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentConfig {
    /// Its share of the whole load.
    pub share: Share,
    /// The address that the target's name resolved to.
    pub target_address: String,
    /// The cores that it ran on, one shard each.
    pub cores: CoreList,
    /// Local addresses that it connected from, in turn; empty if the kernel chose.
    pub source_addresses: Vec<IpAddr>,
    /// The source of the responses' stamps.
    pub stamps: Option<StampSource>,
    /// The sample of requests for which the kernel stamped when they left the host.
    pub stamp_sends: Option<OneIn>,
    /// Digest of every intended time of its share up to `schedule_until`, hexadecimal; `None`
    /// without a schedule, or if its end was only estimated.
    pub schedule_digest: Option<String>,
    /// Arrivals of its share, including the warm-up.
    pub schedule_arrivals: Option<u64>,
    /// Arrivals that were counted by the rate.
    pub schedule_estimated: Option<u64>,
    /// Where its schedule ended, seconds since the epoch of the run.
    #[serde(rename = "schedule_until_s")]
    pub schedule_until: f64,
}

/// Counts, rates and distributions of a run or of a part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// How many requests ended how.
    pub counts: Counts,
    /// Requests without a good answer: no response, or one whose status is not a success.
    pub bad: u64,
    /// Requests per second of the recorded window.
    pub rate: Rates,
    /// `received − sent` of all sent requests that didn't fail.
    pub naive: DistributionPart,
    /// `received − intended` of all requests that didn't fail, including unsent ones with their age
    /// when they were given up, but not dropped ones.
    pub corrected: DistributionPart,
    /// Intended → noticed by the shard, of all requests sent: the generator's own lateness.
    pub pacer_lateness: DistributionPart,
    /// Noticed → sent, of all requests sent: waiting for a connection, and for the system call that
    /// carries the request.
    pub connection_wait: DistributionPart,
    /// Sent → left the host, of the sampled requests that the kernel stamped as the interface's
    /// driver took their last byte.
    pub send_path: DistributionPart,
    /// Received → handled, of the responses that the kernel stamped when they arrived: generator
    /// lateness that no latency includes.
    pub receive_lateness: DistributionPart,
    /// Connect → connected, of connections opened in the window; the TLS handshake is in `tls`.
    pub connect_time: DistributionPart,
    /// TLS counts and times; `None` without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsPart>,
    /// HTTP/2 counts and times; `None` with HTTP/1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<StreamsPart>,
    /// The source of the responses' stamps.
    pub stamps: ResponseStamps,
    /// The generator's own part of the latencies; `None` if there are no latencies by intended
    /// time.
    pub client_share: Option<ClientShare>,
    /// Latencies of successes alone; `None` if all requests with a latency are successes.
    pub successes: Option<Successes>,
    /// The requests of each step in each stage; empty if there is only one step and one stage,
    /// which is the whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<StepPart>,
    /// The connections of each endpoint, in the order of the plan's requests; empty if there is
    /// only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<EndpointPart>,
    /// The slowest requests by corrected latency, the slowest first; empty if the parts have lists
    /// of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<SlowRequest>,
    /// The checks of responses, in the order of the plan; empty without any. Their failures add up
    /// to `failed_checks`, since a response is counted by the first check that it fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckPart>,
    /// The sessions of each scenario; empty if no scenario has several steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<ScenarioPart>,
}

/// The sessions of one scenario: users on the way through its steps. Arrivals start sessions, so
/// between sessions the load is open; within one, each step waits for the response before it, as a
/// real user does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioPart {
    /// The scenario's name.
    pub name: String,
    /// Its planned share of all sessions, by the plan's weights.
    pub planned: f64,
    /// Sessions that were due in the window: `completed + unsent`, and those that ended in a step.
    pub intended: u64,
    /// Those with a good answer to every step.
    pub completed: u64,
    /// Those whose first step was never sent.
    pub unsent: u64,
    /// Where the others ended, a row for each of its steps.
    pub steps: Vec<ScenarioStep>,
    /// From when a session was due to its last response, without think times: of those that were
    /// completed, and of all others whose last request has a latency, with the time until then.
    pub latency: DistributionPart,
}

/// The sessions that ended in a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioStep {
    /// The name of the step's results.
    pub name: String,
    /// Its request had no good answer; the step's results have the causes.
    pub failed: u64,
    /// It was in flight, or still to be sent, when the run ended.
    pub unfinished: u64,
}

impl ScenarioPart {
    /// Sessions that failed in any step.
    pub fn failed(&self) -> u64 {
        self.steps.iter().map(|step| step.failed).fold(0, u64::saturating_add)
    }

    /// Sessions that were unfinished in any step.
    pub fn unfinished(&self) -> u64 {
        self.steps.iter().map(|step| step.unfinished).fold(0, u64::saturating_add)
    }
}

/// A check of responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckPart {
    /// The name of its scenario, or of the plan's only request.
    pub name: String,
    /// The check, as the plan has it: `body contains ok`; or `body_too_long` and `body_encoded`,
    /// for bodies that can't be checked.
    pub check: String,
    /// Responses with a status that is a success that failed it first.
    pub failed: u64,
}

impl CheckPart {
    /// The checks of a completed plan, with how many responses failed each.
    pub fn all(plan: &Plan, failed: &[u64]) -> Vec<CheckPart> {
        let names = plan.step_names().into_iter().zip(plan.check_names());
        let each = names
            .flat_map(|(name, checks)| checks.into_iter().map(move |check| (name.clone(), check)));
        let part = |((name, check), failed): ((String, String), &u64)| CheckPart {
            name,
            check,
            failed: *failed,
        };
        each.zip(failed).map(part).collect()
    }
}

/// The requests of one step that were due in one stage. These add up to the whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepPart {
    /// The name of its scenario, or of the plan's only request.
    pub name: String,
    /// The stage that they were due in; `None` if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageSpan>,
    /// Its planned share of all requests, by the plan's weights and its rate or number of users.
    pub planned: f64,
    /// How many of its requests ended how.
    pub counts: StepCounts,
    /// Requests without a good answer: no response, or one whose status is not a success.
    pub bad: u64,
    /// Bytes of the responses to its requests, complete or not, with their heads, without TLS.
    pub received_bytes: u64,
    /// Bytes of those of its requests that were sent completely, with their heads, without TLS.
    pub sent_bytes: u64,
    /// How many of its requests each arrival counted in `capped`, of any part, found in flight,
    /// added up over these arrivals: the larger, the more others waited for this part.
    pub held: u64,
    /// `received − sent` of its sent requests that didn't fail.
    pub naive: DistributionPart,
    /// `received − intended` of its requests that didn't fail, as for the whole.
    pub corrected: DistributionPart,
    /// The same over time, by which its intervals are found and its objectives judged.
    pub series: StepSeries,
    /// The slowest of its requests by corrected latency, the slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<SlowRequest>,
}

/// The requests of a part over time, from the start of its stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepSeries {
    /// Length of a piece, seconds.
    pub piece_s: f64,
    /// The pieces up to the last one in which a request was due.
    pub pieces: Vec<StepPiece>,
}

/// The requests of a part that were due in one piece of its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepPiece {
    /// Requests that were due.
    pub intended: u64,
    /// Of these, answered.
    pub answered: u64,
    /// Of these, with a status that isn't a success.
    pub unexpected_status: u64,
    /// Of these, with a response that failed a check.
    pub failed_checks: u64,
    /// Corrected latencies: HdrHistogram V2 deflate, base64; unit 1 ns, one digit. Empty without
    /// any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub histogram: String,
}

/// A stage of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageSpan {
    /// Its number, from 1.
    pub number: usize,
    /// Its name; `None` if the plan gives it none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The load of the whole plan in it.
    #[serde(flatten)]
    pub load: StageLoad,
    /// Its start, seconds since the start of the window.
    #[serde(rename = "start_s")]
    pub start: f64,
    /// Its length, seconds.
    #[serde(rename = "duration_s")]
    pub duration: f64,
}

/// The load at the start and at the end of a stage. If they differ, its percentiles mix loads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StageLoad {
    /// Rates: requests per second.
    Rates {
        /// At its start.
        #[serde(rename = "from_per_s")]
        from: f64,
        /// At its end.
        #[serde(rename = "to_per_s")]
        to: f64,
    },
    /// Users, each with one request at a time.
    Users {
        /// At its start.
        #[serde(rename = "from_users")]
        from: u64,
        /// At its end.
        #[serde(rename = "to_users")]
        to: u64,
    },
}

impl StageSpan {
    /// Its name, or its number if the plan gives it none.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.number.to_string())
    }

    /// True if its load changes.
    pub fn is_ramp(&self) -> bool {
        match self.load {
            StageLoad::Rates { from, to } => from != to,
            StageLoad::Users { from, to } => from != to,
        }
    }
}

/// The outcomes of a part's requests, counted as for the whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepCounts {
    /// Requests whose intended time lay in the window.
    pub intended: u64,
    /// Handed to the kernel, or failed because no connection could be opened.
    pub sent: u64,
    /// Never sent.
    pub unsent: u64,
    /// The unsent by reason.
    pub unsent_reasons: CountsBy<UnsentReason>,
    /// Ended by a complete response, with any status.
    pub answered: u64,
    /// Not answered within the timeout or the deadline.
    pub timed_out: u64,
    /// Ended by a failure of the connection or of the protocol.
    pub failed: u64,
    /// Still in flight when the drain ended.
    pub abandoned: u64,
    /// Arrivals that waited because no connection was free and no further one could be opened.
    pub capped: u64,
    /// Answered requests whose status is not a success.
    pub unexpected_status: u64,
    /// Answered requests whose status is a success, and whose response failed a check.
    pub failed_checks: u64,
    /// Answered requests by status code.
    pub status: CountsBy<u16>,
    /// Requests that failed or timed out, by cause.
    pub errors: CountsBy<Cause>,
}

impl StepCounts {
    /// The counts of one part.
    pub fn new(counts: &Counts) -> StepCounts {
        StepCounts {
            intended: counts.intended,
            sent: counts.sent,
            unsent: counts.unsent,
            unsent_reasons: counts.unsent_reasons.clone(),
            answered: counts.answered,
            timed_out: counts.timed_out,
            failed: counts.failed,
            abandoned: counts.abandoned,
            capped: counts.capped,
            unexpected_status: counts.unexpected_status,
            failed_checks: counts.failed_checks,
            status: counts.status.clone(),
            errors: counts.errors.clone(),
        }
    }

    /// The same, as counts of a whole.
    pub fn as_whole(&self) -> Counts {
        let StepCounts { intended, sent, unsent, answered, .. } = *self;
        let StepCounts { timed_out, failed, abandoned, capped, .. } = *self;
        let StepCounts { unexpected_status, failed_checks, .. } = *self;
        Counts {
            intended,
            sent,
            unsent,
            unsent_reasons: self.unsent_reasons.clone(),
            answered,
            timed_out,
            failed,
            abandoned,
            capped,
            unexpected_status,
            failed_checks,
            status: self.status.clone(),
            errors: self.errors.clone(),
            ..Counts::default()
        }
    }
}

/// HTTP/2 counts and times, of the whole run unless they say otherwise. What `counts` has about
/// connections holds for HTTP/2 too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamsPart {
    /// The fewest streams that the target took on a connection; `None` if it set no limit.
    pub limit: Option<u32>,
    /// Streams in flight on the connection of a request as it is sent, itself included: the mean
    /// over all requests.
    pub in_flight_mean: f64,
    /// The most streams in flight on one connection.
    pub in_flight_max: u64,
    /// HEADERS and DATA frames of requests.
    pub frames_sent: u64,
    /// Frames of responses.
    pub frames_received: u64,
    /// Header blocks of requests.
    pub request_header_bytes: u64,
    /// Names and values of requests' headers.
    pub request_header_bytes_uncompressed: u64,
    /// Header blocks of responses.
    pub response_header_bytes: u64,
    /// Names and values of responses' headers.
    pub response_header_bytes_uncompressed: u64,
    /// Noticed → sent, of the requests of the window that waited for a connection to be opened.
    pub connection_wait: DistributionPart,
    /// Noticed → sent, of those that waited for a stream of a connection that was open.
    pub stream_wait: DistributionPart,
    /// From a request's head to the end of its body, of bodies that didn't leave with the head: the
    /// target's window was closed, or they are long.
    pub window_wait: DistributionPart,
}

/// TLS counts and times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsPart {
    /// The TLS version; all of them if there are several.
    pub version: String,
    /// The cipher suite; all of them if there are several.
    pub cipher: String,
    /// The key exchange group; all of them if there are several. Empty if every handshake resumed a
    /// TLS 1.2 session, which has none.
    pub group: String,
    /// True if any certificate was accepted.
    pub insecure: bool,
    /// Whether handshakes were full or resumed a session.
    pub session: TlsSession,
    /// Handshakes with a new key exchange and the target's certificate, from setup to drain.
    pub full: u64,
    /// Handshakes that resumed the session of an earlier connection.
    pub resumed: u64,
    /// Connections that the target closed without a close_notify.
    pub truncated: u64,
    /// Of the answered, those whose response came in one receive with the target's close_notify:
    /// their latency ends when that arrived, which may be a segment later.
    pub ended_together: u64,
    /// Time the generator spent on handshakes in the window, outside the kernel, seconds.
    pub handshake_work_s: f64,
    /// Connected → handshake done, of connections opened in the window, by the program's clock:
    /// with many at once it includes the generator's own cryptography for the others.
    pub handshake_time: DistributionPart,
}

impl Part {
    /// Mean time to open a connection in the window, including the handshake, microseconds; 0
    /// without one.
    pub fn opening_us(&self) -> f64 {
        let handshake_us = self.tls.as_ref().and_then(|tls| tls.handshake_time.mean);
        self.connect_time.mean.unwrap_or(0.0) + handshake_us.unwrap_or(0.0)
    }
}

/// The source of the responses' stamps in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResponseStamps {
    /// The planned source.
    pub source: StampSource,
    /// Responses stamped by the kernel when they arrived.
    pub kernel: u64,
    /// Responses stamped by the program when it handled them.
    pub program: u64,
}

impl ResponseStamps {
    /// The sources of these responses' stamps.
    pub fn new(source: StampSource, counts: &Counts) -> ResponseStamps {
        let kernel = counts.stamped_by_kernel;
        let program = counts.answered.saturating_sub(kernel);
        ResponseStamps { source, kernel, program }
    }
}

/// The generator's own part of the latencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientShare {
    /// Unit of the numbers below: `us`.
    pub unit: Microseconds,
    /// What the generator added to the corrected latencies before requests were sent: the exact
    /// mean, microseconds.
    pub added_mean: f64,
    /// At the median of the corrected latencies.
    pub p50: ClientPart,
    /// At their 90th percentile; `None` if there are too few values.
    #[serde(default)]
    pub p90: Option<ClientPart>,
    /// At the 99th.
    pub p99: Option<ClientPart>,
    /// At the 99.9th.
    #[serde(rename = "p99.9")]
    pub p999: Option<ClientPart>,
}

impl ClientShare {
    /// The part at each reported quantile.
    pub fn parts(&self) -> impl Iterator<Item = (Quantile, &ClientPart)> {
        PERCENTILES.into_iter().filter_map(|quantile| Some((quantile, self.at(quantile.label)?)))
    }

    /// The part at a quantile, by its name, if it is reported.
    pub fn at(&self, label: &str) -> Option<&ClientPart> {
        match label {
            "p50" => Some(&self.p50),
            "p90" => self.p90.as_ref(),
            "p99" => self.p99.as_ref(),
            "p99.9" => self.p999.as_ref(),
            _ => None,
        }
    }
}

/// The generator's part at one quantile, microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientPart {
    /// The corrected latency.
    pub corrected: f64,
    /// What the generator added to requests that took about that long, before they were sent or
    /// given up: a mean, see [`record::added`]. Its delay after a response has arrived is in no
    /// latency, except with the program's stamps, where it is unknown.
    pub added: f64,
    /// What opening a connection added to these requests, as a mean: the share of them that waited
    /// for a connection missing from the pool, times the usual cost of opening one on this machine,
    /// excluding waits for a stalling target.
    #[serde(default)]
    pub opening: f64,
    /// The same quantile of the corrected latencies by the program's stamps.
    pub when_handled: f64,
}

impl ClientPart {
    /// The total that the generator added, microseconds.
    pub fn whole(&self) -> f64 {
        (self.added + self.opening).min(self.corrected)
    }

    /// What the generator added as a share of the corrected latency.
    pub fn share(&self) -> f64 {
        if self.corrected == 0.0 { 0.0 } else { self.whole() / self.corrected }
    }
}

/// Latencies of the requests whose status counts as a success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Successes {
    /// `received − sent`.
    pub naive: DistributionPart,
    /// `received − intended`.
    pub corrected: DistributionPart,
}

/// Requests per second, over the length of the recorded window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Unit of the numbers below: `1/s`.
    pub unit: PerSecond,
    /// The plan's mean rate in the window, or an agent's share of it; `None` for a closed model.
    pub target: Option<f64>,
    /// Intended requests of the window.
    pub intended: f64,
    /// Requests sent in the window, whenever they were due.
    pub sent: f64,
    /// Of these, those due in it.
    pub sent_due: f64,
    /// Responses that came in the window, whenever their requests were due: the target's
    /// throughput.
    pub answered: f64,
    /// Of these, those to requests due in it.
    pub answered_due: f64,
}

/// The unit of times whose names don't include one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Microseconds {
    /// Microseconds.
    #[default]
    #[serde(rename = "us")]
    Us,
}

/// The unit of rates whose names don't include one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PerSecond {
    /// Per second.
    #[default]
    #[serde(rename = "1/s")]
    PerSecond,
}

/// A distribution as the document shows it: microseconds, and the histogram itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DistributionPart {
    /// Unit of the numbers below: `us`.
    pub unit: Microseconds,
    /// Values recorded.
    pub count: u64,
    /// The smallest, exact.
    pub min: Option<f64>,
    /// The mean, exact.
    pub mean: Option<f64>,
    /// The percentiles with their confidence intervals.
    #[serde(flatten)]
    pub percentiles: Percentiles,
    /// The largest, exact.
    pub max: Option<f64>,
    /// Values above 60 s, beyond the range of the histogram.
    pub overflow: u64,
    /// HdrHistogram V2 deflate, base64; unit 1 ns.
    pub histogram: String,
}

impl DistributionPart {
    /// The document's form of a distribution; the pieces hold its values in the order of the run.
    pub fn new(distribution: &Distribution, pieces: &Pieces<Histogram<u64>>) -> DistributionPart {
        DistributionPart::with(distribution, Percentiles::new(distribution, pieces))
    }

    /// The document's form of a distribution that isn't kept by pieces of the run, and whether its
    /// values depend on each other.
    pub fn alone(distribution: &Distribution, dependent: Option<bool>) -> DistributionPart {
        DistributionPart::with(distribution, Percentiles::alone(distribution, dependent))
    }

    fn with(distribution: &Distribution, percentiles: Percentiles) -> DistributionPart {
        let us = |ns: u64| ns as f64 / 1e3;
        DistributionPart {
            unit: Microseconds::Us,
            count: distribution.count(),
            min: distribution.min_ns().map(us),
            mean: distribution.mean_ns().map(|ns| ns / 1e3),
            percentiles,
            max: distribution.max_ns().map(us),
            overflow: distribution.overflow(),
            histogram: to_text(&distribution.histogram()),
        }
    }

    /// The value of quantile `q`, one of the reported percentiles, microseconds; `None` if there
    /// are too few values.
    pub fn quantile_us(&self, q: f64) -> Option<f64> {
        self.percentiles.at(q).value
    }

    /// The distribution that this describes, given its decoded histogram.
    pub fn of_histogram(&self, histogram: Histogram<u64>) -> Distribution {
        if histogram.is_empty() && self.overflow == 0 {
            // Without values there is no minimum to compare with.
            return Distribution::new();
        }
        let max_ns = self.max.map_or(0, us_to_ns);
        let min_ns = self.min.map_or(u64::MAX, us_to_ns).min(max_ns);
        Distribution::of_document(&histogram, self.overflow, (min_ns, max_ns))
    }

    /// The sum of several, without intervals; the mean is that of the histogram.
    ///
    /// # Errors
    /// A text isn't a histogram.
    pub fn added<'a>(
        parts: impl IntoIterator<Item = &'a DistributionPart>,
    ) -> Result<DistributionPart, HistogramError> {
        let mut sum = Distribution::new();
        for part in parts {
            sum.merge(&part.of_histogram(part.decode_histogram()?));
        }
        Ok(DistributionPart::alone(&sum, None))
    }

    /// The histogram, unit 1 ns.
    ///
    /// # Errors
    /// The text isn't a histogram.
    pub fn decode_histogram(&self) -> Result<Histogram<u64>, HistogramError> {
        histogram_of_text(&self.histogram, SIGNIFICANT_DIGITS)
    }
}
