//! What the target is asked to do, and the check that it can be done.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::TargetError;

/// The longest time that any one setting may hold a request: the range of the ledger's histogram.
pub(crate) const HOLD_MAX: Duration = Duration::from_secs(3_600);
/// The largest response body, bytes.
pub(crate) const BODY_SIZE_MAX: usize = 16 << 20;

/// How the target behaves. Everything it does follows from this, the seed included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetConfig {
    /// Where to listen; port 0 takes a free port, which [`crate::Target::local_addr`] tells.
    pub listen: SocketAddr,
    /// The service time of a request that is no tail; zero answers at once.
    #[serde(rename = "base_latency_ns", with = "duration_ns")]
    pub base_latency: Duration,
    /// The part of all requests, in `[0, 1]`, whose service time is `tail_latency` instead.
    pub tail_fraction: f64,
    /// The service time of a tail request.
    #[serde(rename = "tail_latency_ns", with = "duration_ns")]
    pub tail_latency: Duration,
    /// Stalls on a grid of time, if any.
    pub stall: Option<Stall>,
    /// Pauses by number of requests, if any; one core only.
    pub pause: Option<Pause>,
    /// One server that serves one request at a time, in the order they were read; one core only.
    pub serial: bool,
    /// Chooses which requests are tails: executor `i` draws one number a request from xoshiro256++ seeded with this and
    /// jumped `i` times.
    pub seed: u64,
    /// Bytes in a response body.
    pub body_size: usize,
    /// One executor is pinned to each of these cores; when empty, one executor on the last core that this process may
    /// use.
    pub cores: Vec<usize>,
    /// Where [`crate::Target::stop`] writes the ledger, as JSON.
    pub ledger: Option<PathBuf>,
}

/// Stalls: number `k`, from 1, begins `k · every` after the start and lasts `hold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// From the beginning of one stall to the beginning of the next.
    #[serde(rename = "every_ns", with = "duration_ns")]
    pub every: Duration,
    /// How long a stall lasts; shorter than `every`.
    #[serde(rename = "hold_ns", with = "duration_ns")]
    pub hold: Duration,
}

/// Pauses: before its service, every `every_requests`-th request stops the whole server for `hold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Requests from one pause to the next; the first pause comes with request number `every_requests`.
    pub every_requests: u64,
    /// How long a pause lasts.
    #[serde(rename = "hold_ns", with = "duration_ns")]
    pub hold: Duration,
}

impl TargetConfig {
    /// A target that answers at once with 128 bytes: no tails, no stalls, no pauses, no ledger file.
    pub fn new(listen: SocketAddr) -> TargetConfig {
        TargetConfig {
            listen,
            base_latency: Duration::ZERO,
            tail_fraction: 0.0,
            tail_latency: Duration::ZERO,
            stall: None,
            pause: None,
            serial: false,
            seed: 1,
            body_size: 128,
            cores: Vec::new(),
            ledger: None,
        }
    }

    /// Checks what can be judged without touching the machine.
    pub(crate) fn check(&self) -> Result<(), TargetError> {
        if !(0.0..=1.0).contains(&self.tail_fraction) {
            return Err(TargetError::TailFraction(self.tail_fraction));
        }
        check_hold("--base-latency", self.base_latency)?;
        check_hold("--tail-latency", self.tail_latency)?;
        if let Some(stall) = self.stall {
            check_hold("--stall-every", stall.every)?;
            if stall.hold.is_zero() || stall.every <= stall.hold {
                return Err(TargetError::Stall { every: stall.every, hold: stall.hold });
            }
        }
        if let Some(pause) = self.pause {
            check_hold("--pause-for", pause.hold)?;
            if pause.hold.is_zero() || pause.every_requests == 0 {
                return Err(TargetError::Pause {
                    every_requests: pause.every_requests,
                    hold: pause.hold,
                });
            }
        }
        if BODY_SIZE_MAX < self.body_size {
            return Err(TargetError::BodySize { size: self.body_size, size_max: BODY_SIZE_MAX });
        }
        if 1 < self.cores.len() {
            // The pause comes first: whoever asks for one may have set `serial` only for its sake.
            let pause = self.pause.map(|_| "--pause-every-requests");
            if let Some(flag) = pause.or(self.serial.then_some("--serial")) {
                return Err(TargetError::OneServer { flag, cores: self.cores.clone() });
            }
        }
        let twice =
            self.cores.iter().enumerate().find(|(at, core)| self.cores[..*at].contains(core));
        match twice {
            Some((_, core)) => Err(TargetError::CoreTwice(*core)),
            None => Ok(()),
        }
    }
}

fn check_hold(flag: &'static str, hold: Duration) -> Result<(), TargetError> {
    if HOLD_MAX < hold {
        return Err(TargetError::HoldTooLong { flag, hold, hold_max: HOLD_MAX });
    }
    Ok(())
}

/// A duration of at most [`HOLD_MAX`] in ns.
pub(crate) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("the check holds every duration below an hour")
}

/// Durations as whole ns in JSON, so that every time in the ledger has the same unit.
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
