//! The plan of one run, as it appears in flags, plan files and reports.
//!
//! A plan is plain data. [`Plan::complete`] fills in its defaults and refuses what can't be run;
//! only then do the accessors below have values to return.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Not;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{CoreList, Nanos, OneIn, Rate};

use crate::data::DataFile;
use crate::replay::{Speed, Spread};
use crate::scenario::Scenario;
use crate::slo::Objectives;
use crate::stage::Stage;
use crate::status::StatusSet;
use crate::thresholds::Thresholds;

/// The plan of one run. Its fields are named like the flags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// The URL to request, `http://host[:port]/path?query` or the same with `https`.
    pub target: String,
    /// Whether arrivals or responses drive the load. Default: open if a rate or stages of rates are
    /// given, else closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// Open model: requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// A load that changes over time: rates in an open model, numbers of users in a closed one. The
    /// window is as long as all stages together; the warm-up has the initial load of the first one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stage: Vec<Stage>,
    /// Open model: an access log whose requests are sent again when they came. It decides the
    /// window's length, which `duration` may shorten, and the number of `requests`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<PathBuf>,
    /// How much faster than in the log requests come. Default: not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
    /// How the requests of one second are spread, in a log that has only whole seconds. Default:
    /// evenly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Open model: how arrivals are spaced.
    pub arrivals: Arrivals,
    /// The seed of the schedule.
    pub seed: u64,
    /// Connections: the in-flight cap of an open model, the number of users of a closed one.
    /// Default: [`super::CONNS_OPEN_DEFAULT`], and the most users of a stage or
    /// [`super::CONNS_CLOSED_DEFAULT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conns: Option<usize>,
    /// The most requests in flight on one connection. A closed model keeps that many in flight on
    /// each.
    pub pipeline: usize,
    /// The version of HTTP to speak.
    #[serde(skip_serializing_if = "Http::is_1")]
    pub http: Http,
    /// HTTP/2: the most requests in flight on one connection, each in a stream; fewer if the target
    /// takes fewer. A closed model keeps that many in flight on each. Default:
    /// [`super::STREAMS_DEFAULT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<usize>,
    /// Closed model: each connection starts one request per period. Default: as soon as the last
    /// one has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<Nanos>,
    /// Number of intended requests in the window, which ends after them or after `duration`,
    /// whichever comes first. Default: as many as `duration` allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Length of the recorded (steady) window.
    pub duration: Nanos,
    /// Length of the load before the window, which isn't recorded.
    pub warmup: Nanos,
    /// Longest time from sending a request to the end of its response; a request that takes longer
    /// has timed out. The longest of the plan's and its steps' also bounds the final drain.
    pub timeout: Nanos,
    /// The request's method.
    pub method: String,
    /// The request's headers, each `Name: value`.
    pub headers: Vec<String>,
    /// The request's body: literal text, `@FILE`, or `@data:;base64,` and bytes as base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Scenarios; each request picks one, as `order` says. Default: the single request described by
    /// the fields above.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scenario: Vec<Scenario>,
    /// True if they are tables of a plan file, which errors about them then name instead of
    /// `--targets`. No document has it.
    #[serde(skip)]
    pub has_tables: bool,
    /// How the scenarios follow each other.
    #[serde(skip_serializing_if = "Order::is_weighted")]
    pub order: Order,
    /// The files whose values URLs, headers and bodies use, by name: `users.csv` called `users` has
    /// the fields `{{users.COLUMN}}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, DataFile>,
    /// The number that makes this run's trace ids differ from those of others with its seed. With
    /// it, each request has a `traceparent` header. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<u64>,
    /// How many of the slowest requests of each part are listed. Default:
    /// [`super::SLOWEST_DEFAULT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowest: Option<usize>,
    /// The cores to run on, one shard each. Default: those of
    /// `sys::topology::Topology::default_cores`, at most one for each connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<CoreList>,
    /// How a shard waits for the next arrival.
    pub wait: Wait,
    /// What stamps the arrival of a response. Default: the kernel, or the program where the kernel
    /// has no stamps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamps: Option<StampSource>,
    /// The sample of requests that the kernel stamps as they leave the host. Default:
    /// [`super::STAMP_SENDS_DEFAULT`] if the kernel stamps responses and outgoing packets and a
    /// send leaves as a whole; else none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp_sends: Option<OneIn>,
    /// The most sends that one system call may submit, each with one connection's requests: more
    /// are cheaper, fewer keep the `sent` stamps exact. Default: [`super::FLUSH_OPEN_DEFAULT`] and
    /// [`super::FLUSH_CLOSED_DEFAULT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<usize>,
    /// What happens to an arrival that finds no free connection.
    pub overload: Overload,
    /// With [`Overload::Drop`]: how long an arrival may wait for a connection.
    /// Default: [`super::QUEUE_MAX_DEFAULT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_max: Option<Nanos>,
    /// Scenarios of several steps: the most sessions at once on each shard. An arrival beyond that
    /// waits as for a connection. Default: [`super::SESSIONS_MAX_DEFAULT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions_max: Option<usize>,
    /// Longest time from a request's due time to the end of its response; a request that takes
    /// longer has expired. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Nanos>,
    /// Whether connections are reused.
    pub keepalive: Switch,
    /// Requests after which a connection is closed. Default: when the target closes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u64>,
    /// How long a connection carries requests, on average; each lives for a half to one and a half
    /// times as long, so that they don't end together. Default: until the target closes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_lifetime: Option<Nanos>,
    /// Where to connect to, `host:port`, or `host:port:host:port` for the URLs of the first host
    /// and port. Default: the URL's host and port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connect_to: Vec<String>,
    /// The addresses of URLs' hosts and ports, `host:port:address`. Default: the resolver's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resolve: Vec<String>,
    /// The Unix-domain socket of this machine to connect to, instead of the URL's host and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix: Option<PathBuf>,
    /// A PEM file with certificates of issuers to trust besides the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cacert: Option<PathBuf>,
    /// A PEM file with the client's certificate and those of its issuers. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// The PEM file with the key of `cert`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Whether to accept any certificate of the target.
    #[serde(skip_serializing_if = "Not::not")]
    pub insecure: bool,
    /// Whether a connection's handshake is full or resumes a session.
    #[serde(skip_serializing_if = "TlsSession::is_full")]
    pub tls_session: TlsSession,
    /// Local addresses to connect from, in turn. Default: the kernel chooses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source_addresses: Vec<IpAddr>,
    /// Open model with a warm-up: setup load is offered until no connection has been added for this
    /// long.
    pub settle: Nanos,
    /// The shortest time for which setup load is offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_min: Option<Nanos>,
    /// Open model: connections to open before the first request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prewarm: Option<usize>,
    /// Open model: idle connections to add after setup, beyond those that the setup load needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spare: Option<usize>,
    /// The status codes that count as success.
    pub expect_status: StatusSet,
    /// Checks of a response's headers, each `Name`, `Name: VALUE`, `Name: contains TEXT` or
    /// `Name: regex PATTERN`. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expect_header: Vec<String>,
    /// Checks of a response's body, each `contains TEXT`, `regex PATTERN`, `json:/POINTER`,
    /// `json:/POINTER = VALUE` or `sha256 HEX`. Default: none, and no body is kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expect_body: Vec<String>,
    /// The longest body that is kept for its checks, bytes; a longer one fails them. Default:
    /// [`super::check::BODY_MAX_DEFAULT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_max: Option<u64>,
    /// Whether a body that is compressed with gzip is decompressed for its checks; it fails them
    /// else.
    #[serde(skip_serializing_if = "Not::not")]
    pub decompress: bool,
    /// The objectives to meet. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo: Option<Objectives>,
    /// A file for the raw samples: the stamps of every request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<PathBuf>,
    /// The bounds beyond which a run is suspect or invalid.
    pub thresholds: Thresholds,
}

/// What drives the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// Arrivals by the schedule, no matter what the target does.
    Open,
    /// A fixed number of users, each waiting for its response before the next request.
    Closed,
}

/// The version of HTTP that connections speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Http {
    /// HTTP/1.1.
    #[serde(rename = "1.1")]
    V1,
    /// HTTP/2: over TLS by ALPN, else by prior knowledge.
    #[serde(rename = "2")]
    V2,
    /// HTTP/2 if all hosts choose it by ALPN, else HTTP/1.1.
    #[serde(rename = "auto")]
    Auto,
}

impl Http {
    /// True if only HTTP/1.1 is spoken.
    pub fn is_1(&self) -> bool {
        *self == Http::V1
    }
}

/// How the scenarios of a plan follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Each request draws one by weight, independently of the others.
    Weighted,
    /// In turn, each as often as it weighs.
    RoundRobin,
}

impl Order {
    /// True if each is drawn.
    pub fn is_weighted(&self) -> bool {
        *self == Order::Weighted
    }
}

/// How the arrivals of the open model are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Independent arrivals: exponential gaps.
    Poisson,
    /// Equal gaps.
    Constant,
    /// As in the log that is replayed.
    Log,
}

/// How a shard waits for the next arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Sleep in the kernel until it is due: the least CPU, late by the wake-up latency.
    Sleep,
    /// Sleep until shortly before it is due, then poll; earlier where wake-ups are late.
    Hybrid,
    /// Poll all the time: uses a whole core.
    Spin,
}

/// What stamps the arrival of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StampSource {
    /// The kernel, at the response's last segment: latencies exclude the generator.
    Kernel,
    /// The program, when it handles the response: latencies include wake-up and queueing.
    User,
}

/// What happens to an arrival that finds no free connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Overload {
    /// It waits and is sent late; its corrected latency includes the wait.
    Queue,
    /// It waits for at most `queue_max`, then counts as unsent.
    Drop,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}

/// How the TLS handshake of a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TlsSession {
    /// With nothing: each handshake is full, like a new client's.
    Full,
    /// With the session of an earlier connection, if the target offered one.
    Resume,
}

impl TlsSession {
    /// True if each handshake is full.
    pub fn is_full(&self) -> bool {
        *self == TlsSession::Full
    }
}

impl Switch {
    /// True if it is off.
    pub fn is_off(&self) -> bool {
        *self == Switch::Off
    }
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            target: String::new(),
            model: None,
            rate: None,
            stage: Vec::new(),
            replay: None,
            speed: None,
            spread: None,
            arrivals: Arrivals::Poisson,
            seed: 1,
            conns: None,
            pipeline: 1,
            http: Http::V1,
            streams: None,
            period: None,
            requests: None,
            duration: Nanos::from_secs(30),
            warmup: Nanos::from_secs(5),
            timeout: Nanos::from_secs(10),
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: None,
            scenario: Vec::new(),
            has_tables: false,
            order: Order::Weighted,
            data: BTreeMap::new(),
            trace: None,
            slowest: None,
            cores: None,
            wait: Wait::Hybrid,
            stamps: None,
            stamp_sends: None,
            flush: None,
            overload: Overload::Queue,
            queue_max: None,
            sessions_max: None,
            deadline: None,
            keepalive: Switch::On,
            requests_per_connection: None,
            connection_lifetime: None,
            connect_to: Vec::new(),
            resolve: Vec::new(),
            unix: None,
            cacert: None,
            cert: None,
            key: None,
            insecure: false,
            tls_session: TlsSession::Full,
            source_addresses: Vec::new(),
            settle: Nanos::from_secs(1),
            settle_min: None,
            prewarm: None,
            spare: None,
            expect_status: StatusSet::default(),
            expect_header: Vec::new(),
            expect_body: Vec::new(),
            body_max: None,
            decompress: false,
            slo: None,
            raw: None,
            thresholds: Thresholds::default(),
        }
    }
}

impl Plan {
    /// True if the URL of any of its requests is https.
    pub fn is_https(&self) -> bool {
        self.urls().iter().any(|url| is_https(url))
    }

    /// True if the URLs of all its requests are https.
    pub(super) fn is_all_https(&self) -> bool {
        self.urls().iter().all(|url| is_https(url))
    }

    /// The model of a completed plan.
    pub fn model(&self) -> Model {
        self.model.expect("the plan was completed")
    }

    /// The most requests in flight on one connection of a completed plan.
    pub fn depth(&self) -> usize {
        self.streams.unwrap_or(self.pipeline)
    }

    /// The connections of a completed plan.
    pub fn conns(&self) -> usize {
        self.conns.expect("the plan was completed")
    }

    /// The number of users, or the most if they come and go, if a completed plan is a closed loop
    /// without a period, in which each user sends as soon as its response has arrived.
    pub fn unpaced_users(&self) -> Option<usize> {
        let is_unpaced = self.model() == Model::Closed && self.period.is_none();
        is_unpaced.then(|| self.conns() * self.depth())
    }

    /// True if the window of a closed loop without a period ends after a number of requests, so
    /// that its end isn't known in advance.
    pub fn ends_by_count(&self) -> bool {
        self.requests.is_some()
            && self.rate.is_none()
            && self.stage.is_empty()
            && self.replay.is_none()
            && self.period.is_none()
    }

    /// The cores of a completed plan.
    pub fn cores(&self) -> &[usize] {
        self.cores.as_ref().expect("the plan was completed").as_slice()
    }

    /// What stamps the responses of a completed plan.
    pub fn stamps(&self) -> StampSource {
        self.stamps.expect("the plan was completed")
    }

    /// Sends per system call of a completed plan.
    pub fn flush(&self) -> usize {
        self.flush.expect("the plan was completed")
    }

    /// The end of the recorded window, which follows the warm-up, ns since the run's epoch.
    pub fn end_ns(&self) -> u64 {
        self.warmup.0 + self.duration.0
    }
}

/// True if a URL is https.
fn is_https(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("https"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_file_is_read_and_written() {
        let text = "target = 'http://[::1]:8080/x'\nrate = '20k'\narrivals = 'constant'\n\
            duration = '10s'\ncores = '0-1'\nheaders = ['A: b']\n";
        let plan: Plan = toml::from_str(text).expect("a plan");
        assert_eq!(plan.rate.map(Rate::per_second), Some(20_000.0));
        assert_eq!((plan.arrivals, plan.duration), (Arrivals::Constant, Nanos::from_secs(10)));
        let back: Plan =
            toml::from_str(&toml::to_string(&plan).expect("text")).expect("comes back");
        assert_eq!(back, plan);
        assert!(toml::from_str::<Plan>("rats = 5").is_err(), "an unknown key is refused");
    }
}
