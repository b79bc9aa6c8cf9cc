//! Configuration of the target, and its validation.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::TargetError;
use crate::error::list;

/// The longest hold that any one setting may cause: the range of the ledger's histogram.
pub(crate) const HOLD_MAX: Duration = Duration::from_secs(3_600);
/// The largest response body, bytes.
pub(crate) const BODY_SIZE_MAX: usize = 16 << 20;
/// The most routes: each executor keeps a histogram of 250 kB for each.
const ROUTES_MAX: usize = 64;

/// The target's behaviour. Given the arrival times of its requests, everything it does follows from
/// this, including the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetConfig {
    /// Where to listen; with port 0 the kernel picks one, see [`crate::Target::local_addr`].
    pub listen: SocketAddr,
    /// The service time of a request outside the tail; zero answers at once.
    #[serde(rename = "base_latency_ns", with = "duration_ns")]
    pub base_latency: Duration,
    /// The fraction of requests, in `[0, 1]`, whose service time is `tail_latency` instead.
    pub tail_fraction: f64,
    /// The service time of a tail request.
    #[serde(rename = "tail_latency_ns", with = "duration_ns")]
    pub tail_latency: Duration,
    /// Periodic stalls, if any.
    pub stall: Option<Stall>,
    /// Pauses after a number of requests, if any; one core only.
    pub pause: Option<Pause>,
    /// A cold start, in which requests take longer, if any; one core only.
    pub cold: Option<Cold>,
    /// Faulty responses, if any; not of a shop.
    pub fault: Option<Fault>,
    /// Serve one request at a time, in the order they were read; one core only.
    pub serial: bool,
    /// Decides which requests are in the tail: executor `i` draws one number per request from
    /// xoshiro256++, seeded with this and jumped `i` times; for the route of number `r`, from 1,
    /// also long-jumped `r` times.
    pub seed: u64,
    /// Response body size, bytes.
    pub body_size: usize,
    /// One executor is pinned to each of these cores; if empty, one executor runs on the last core
    /// that this process may use.
    pub cores: Vec<usize>,
    /// Whether it uses TLS, with a certificate made at the start.
    pub tls: bool,
    /// How it treats HTTP/2 connections; which protocol a connection speaks is the client's choice.
    #[serde(default)]
    pub http2: Http2,
    /// Whether it is a shop, which checks what users carry from step to step. Its replies have the
    /// latencies of their paths, but neither their body size nor their status.
    #[serde(default)]
    pub shop: bool,
    /// Routes with a behaviour of their own. What stands above describes the server of all other
    /// paths, its pauses and cold start included.
    #[serde(default)]
    pub routes: Vec<Route>,
}

/// How HTTP/2 connections are treated: what a client must cope with. By default, nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http2 {
    /// The most streams that a connection may have open at once (SETTINGS_MAX_CONCURRENT_STREAMS);
    /// without, no limit is set.
    pub max_streams: Option<u32>,
    /// After this many requests of a connection, a graceful GOAWAY.
    pub goaway_every: Option<u64>,
    /// Every stream of a connection whose number is a multiple of this is refused (REFUSED_STREAM).
    pub refuse: Option<u64>,
    /// How many bytes of a request's body a client may send before it must wait for an update
    /// (SETTINGS_INITIAL_WINDOW_SIZE), and of all bodies of a connection if that is more than
    /// 65,535; without, 65,535.
    pub window: Option<u32>,
}

/// The largest window, bytes (RFC 9113, section 6.9.1).
const WINDOW_MAX: u32 = (1 << 31) - 1;

/// A route: a server of its own for one path and everything below it. `/users` also serves
/// `/users/7`, but not `/users2`; the query doesn't matter, and of several that fit, the longest
/// path serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Its path, from the slash on.
    pub path: String,
    /// As [`TargetConfig::base_latency`].
    #[serde(rename = "base_latency_ns", with = "duration_ns")]
    pub base_latency: Duration,
    /// As [`TargetConfig::tail_fraction`].
    pub tail_fraction: f64,
    /// As [`TargetConfig::tail_latency`].
    #[serde(rename = "tail_latency_ns", with = "duration_ns")]
    pub tail_latency: Duration,
    /// As [`TargetConfig::stall`].
    pub stall: Option<Stall>,
    /// As [`TargetConfig::fault`].
    pub fault: Option<Fault>,
    /// As [`TargetConfig::serial`].
    pub serial: bool,
    /// As [`TargetConfig::body_size`].
    pub body_size: usize,
    /// The status of its responses, 200 to 599, which has a body.
    pub status: u16,
}

/// Periodic stalls: stall `k`, from 1, begins `k · every` after the start and lasts `hold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// From the start of one stall to the start of the next.
    #[serde(rename = "every_ns", with = "duration_ns")]
    pub every: Duration,
    /// How long a stall lasts; shorter than `every`.
    #[serde(rename = "hold_ns", with = "duration_ns")]
    pub hold: Duration,
}

/// Pauses: every `every_requests`-th request stops the whole server for `hold` before it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Requests from one pause to the next; the first pause comes with request number
    /// `every_requests`.
    pub every_requests: u64,
    /// How long a pause lasts.
    #[serde(rename = "hold_ns", with = "duration_ns")]
    pub hold: Duration,
}

/// A cold start: the first `requests` since the start of the target take `latency` longer each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cold {
    /// How many requests are cold.
    pub requests: u64,
    /// The extra time that each of them takes.
    #[serde(rename = "latency_ns", with = "duration_ns")]
    pub latency: Duration,
}

/// Faults: every `every`-th request is answered wrongly over HTTP/1.1, which makes no other request
/// wait longer or shorter. Requests over HTTP/2 count, but are answered as without faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What is wrong.
    pub kind: FaultKind,
    /// Requests from one fault to the next, 1 for all; each core counts its own.
    pub every: u64,
}

/// What is wrong with a response. After the first two kinds, the connection's further requests are
/// ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultKind {
    /// It doesn't come: the connection is reset as soon as the request has been read and all before
    /// it are answered.
    Reset,
    /// Its head announces the whole body, half of which follows, and then the connection is closed.
    /// A response to HEAD stays whole, since it has no body.
    Short,
    /// It comes twice in one write, and the connection stays open if the client wants it to.
    Repeat,
}

impl TargetConfig {
    /// A target that answers at once with 128 bytes: no tail, stalls, pauses, cold start or faults.
    pub fn new(listen: SocketAddr) -> TargetConfig {
        TargetConfig {
            listen,
            base_latency: Duration::ZERO,
            tail_fraction: 0.0,
            tail_latency: Duration::ZERO,
            stall: None,
            pause: None,
            cold: None,
            fault: None,
            serial: false,
            seed: 1,
            body_size: 128,
            cores: Vec::new(),
            tls: false,
            http2: Http2::default(),
            shop: false,
            routes: Vec::new(),
        }
    }

    /// A route at `path` with the latencies, stalls, faults and body of the paths without a route:
    /// not serial, and with status 200.
    pub fn route(&self, path: &str) -> Route {
        Route {
            path: path.to_owned(),
            base_latency: self.base_latency,
            tail_fraction: self.tail_fraction,
            tail_latency: self.tail_latency,
            stall: self.stall,
            fault: self.fault,
            serial: false,
            body_size: self.body_size,
            status: 200,
        }
    }

    /// The configuration of a target that serves only this route, to every path.
    pub(crate) fn of(&self, route: &Route) -> TargetConfig {
        TargetConfig {
            base_latency: route.base_latency,
            tail_fraction: route.tail_fraction,
            tail_latency: route.tail_latency,
            stall: route.stall,
            pause: None,
            cold: None,
            fault: route.fault,
            serial: route.serial,
            body_size: route.body_size,
            routes: Vec::new(),
            ..self.clone()
        }
    }

    /// Checks everything that can be checked without touching the machine.
    pub(crate) fn validate(&self) -> Result<(), TargetError> {
        if !(0.0..=1.0).contains(&self.tail_fraction) {
            let fraction = self.tail_fraction;
            return usage(format!(
                "--tail-fraction {fraction}: not a fraction; give a number from 0 to 1, such as 0.01"
            ));
        }
        check_hold("--base-latency", self.base_latency)?;
        check_hold("--tail-latency", self.tail_latency)?;
        if let Some(stall) = self.stall {
            check_hold("--stall-every", stall.every)?;
            let Stall { every, hold } = stall;
            if hold.is_zero() || every <= hold {
                return usage(format!(
                    "--stall-every {every:?} --stall-for {hold:?}: a stall must end before the next \
                     begins; give a --stall-for above zero and below --stall-every"
                ));
            }
        }
        if let Some(pause) = self.pause {
            check_hold("--pause-for", pause.hold)?;
            let Pause { every_requests, hold } = pause;
            if hold.is_zero() || every_requests == 0 {
                return usage(format!(
                    "--pause-every-requests {every_requests} --pause-for {hold:?}: neither can be \
                     zero; give two values above zero"
                ));
            }
        }
        if let Some(cold) = self.cold {
            check_hold("--cold-latency", cold.latency)?;
            let Cold { requests, latency } = cold;
            if latency.is_zero() || requests == 0 {
                return usage(format!(
                    "--cold-requests {requests} --cold-latency {latency:?}: neither can be zero; \
                     give two values above zero"
                ));
            }
        }
        if BODY_SIZE_MAX < self.body_size {
            let size = self.body_size;
            return usage(format!(
                "--body-size {size}: too large; give at most {BODY_SIZE_MAX} bytes"
            ));
        }
        if let Some(fault) = self.fault {
            self.validate_fault(fault)?;
        }
        if 1 < self.cores.len() {
            // The pause comes first: `serial` may be set only for it.
            let pause = self.pause.map(|_| "--pause-every-requests");
            let cold = self.cold.map(|_| "--cold-requests");
            if let Some(flag) = pause.or(cold).or(self.serial.then_some("--serial")) {
                let cores = list(&self.cores);
                return usage(format!(
                    "{flag} with --cores {cores}: it needs a single server, and each core runs one; \
                     give one core"
                ));
            }
        }
        self.http2.validate()?;
        self.validate_routes()?;
        let twice =
            self.cores.iter().enumerate().find(|(at, core)| self.cores[..*at].contains(core));
        match twice {
            Some((_, core)) => {
                usage(format!("--cores: core {core} is listed twice; give each core once"))
            }
            None => Ok(()),
        }
    }

    fn validate_fault(&self, fault: Fault) -> Result<(), TargetError> {
        if fault.every == 0 {
            let problem = "--fault-every 0: no request is the 0th; give a number above zero";
            return usage(problem.to_owned());
        }
        if self.shop {
            let problem = "--fault with --shop: a shop answers without faults; leave one out";
            return usage(problem.to_owned());
        }
        if fault.kind == FaultKind::Short && self.body_size < 2 {
            let size = self.body_size;
            return usage(format!(
                "--fault short with --body-size {size}: it has no half; give at least 2 bytes"
            ));
        }
        Ok(())
    }

    fn validate_routes(&self) -> Result<(), TargetError> {
        let refused =
            |route: &Route, problem: String| usage(format!("--route {}: {problem}", route.path));
        for (at, route) in self.routes.iter().enumerate() {
            let path = route.path.as_str();
            if !path.starts_with('/') || path.contains(['?', '#', ' ']) {
                let problem = "not a path; give one from the slash to the query, such as /search";
                return refused(route, problem.to_owned());
            }
            if self.routes[..at].iter().any(|other| other.path == path) {
                return refused(route, "given twice; give each path once".to_owned());
            }
            // These have no body, so a response with one would be malformed.
            if !(200..=599).contains(&route.status) || matches!(route.status, 204 | 205 | 304) {
                let status = route.status;
                let cure = "give one from 200 to 599 that has a body, so not 204, 205 or 304";
                return refused(route, format!("status={status}: {cure}"));
            }
            if self.shop && route.status != 200 {
                let status = route.status;
                let cure = "a shop's steps decide their status; leave it out";
                return refused(route, format!("status={status} with --shop: {cure}"));
            }
            self.of(route).validate().or_else(|error| refused(route, error.to_string()))?;
        }
        if ROUTES_MAX < self.routes.len() {
            let problem = format!("one too many; give at most {ROUTES_MAX} routes");
            return refused(&self.routes[ROUTES_MAX], problem);
        }
        Ok(())
    }
}

impl Http2 {
    fn validate(self) -> Result<(), TargetError> {
        let counts = [
            ("--max-streams", self.max_streams.map(u64::from)),
            ("--goaway-every", self.goaway_every),
            ("--refuse", self.refuse),
        ];
        if let Some((flag, _)) = counts.iter().find(|(_, count)| *count == Some(0)) {
            return usage(format!("{flag} 0: nothing would be served; give a number above zero"));
        }
        match self.window {
            Some(window) if window == 0 || WINDOW_MAX < window => {
                usage(format!("--window {window}: not a window; give 1 to {WINDOW_MAX} bytes"))
            }
            _ => Ok(()),
        }
    }
}

fn usage(line: String) -> Result<(), TargetError> {
    Err(TargetError::Usage(line))
}

fn check_hold(flag: &str, hold: Duration) -> Result<(), TargetError> {
    if HOLD_MAX < hold {
        return usage(format!("{flag} {hold:?}: too long; give at most {HOLD_MAX:?}"));
    }
    Ok(())
}

/// A duration of at most [`HOLD_MAX`] in ns.
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("validation limits every duration to an hour")
}

/// Durations as whole ns in JSON, so that every configured time in the ledger has the same unit.
mod duration_ns {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, ser::Error};

    pub(super) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let duration_ns = u64::try_from(duration.as_nanos()).map_err(S::Error::custom)?;
        serializer.serialize_u64(duration_ns)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_nanos)
    }
}
