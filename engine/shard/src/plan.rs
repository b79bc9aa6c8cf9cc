//! A shard's task, as plain data.

use std::num::NonZeroU32;
use std::sync::Arc;

use load::course::Course;
use load::curve::Curve;
use load::mix::Mix;
use load::presence::Presence;
use load::schedule::Schedule;
use load::share::Share;
use load::values::Rendering;
use load::{ClosedLoad, Load, OpenLoad, PacedLoad};
use plan::blocks::Blocks;
use plan::check::Checks;
use plan::{Arrivals, StampSource, Wait};
use record::config::RecorderConfig;
use samples::Lane;
use socket2::SockAddr;
use tls::ClientSetup;
use uring::Payload;

/// The most connections that a shard replaces before they have ended.
const ENDING_MAX: usize = 64;

/// How many of this many connections on so many shards may be ending, by GOAWAY, while others are
/// open in their place.
pub fn ending_max(conns: usize, shards: usize) -> usize {
    conns.min(shards * ENDING_MAX)
}

/// One shard's task, derived from the plan.
#[derive(Clone, Debug)]
pub struct ShardPlan {
    /// Its share of the whole load.
    pub share: Share,
    /// The number of shards that start together.
    pub shards: usize,
    /// The core that it runs on.
    pub core: usize,
    /// What drives the load.
    pub drive: Drive,
    /// When the users of a closed model come and go; `None` if all stay.
    pub presence: Option<Presence>,
    /// Connections of this shard, to all endpoints together; in a closed model its users, each of
    /// whom has a connection to each endpoint.
    pub conns: usize,
    /// Connections of the whole run.
    pub conns_total: usize,
    /// Setup load is offered until no connection has been added for this long, ns; 0 for no setup
    /// load.
    pub settle_ns: u64,
    /// The shortest time for which setup load is offered, ns.
    pub settle_min_ns: u64,
    /// The recorder's settings.
    pub recorder_config: RecorderConfig,
    /// End of the recorded window, ns since the epoch.
    pub end_ns: u64,
    /// The number of requests in the window of unpaced users, who stop after them; the last one
    /// ends the window. `u64::MAX` for no limit.
    pub requests: u64,
    /// How long a connect may take, ns.
    pub connect_max_ns: u64,
    /// The shortest timeout of a step, ns.
    pub timeout_min_ns: u64,
    /// How long the drain may take, ns: the longest timeout of a step.
    pub drain_max_ns: u64,
    /// The shortest deadline of a step, ns; `u64::MAX` if none has one.
    pub deadline_min_ns: u64,
    /// How long after its intended time an arrival without a connection is dropped, ns; `u64::MAX`
    /// for never.
    pub queue_max_ns: u64,
    /// Requests that one connection carries; `u64::MAX` for no limit.
    pub requests_per_connection: u64,
    /// How long a connection carries requests, on average, ns; `None` for no limit.
    pub connection_lifetime_ns: Option<u64>,
    /// The most requests in flight on one connection.
    pub depth: usize,
    /// The requests as HTTP/2 sends them; `None` for HTTP/1.1.
    pub blocks: Option<Arc<Blocks>>,
    /// How to wait.
    pub wait: Wait,
    /// What stamps the arrival of a response.
    pub stamps: StampSource,
    /// Whether the kernel stamps what sockets receive.
    pub kernel_stamps: bool,
    /// One in this many requests gets a kernel stamp of leaving the host.
    pub stamp_sends: Option<NonZeroU32>,
    /// The most sends per system call.
    pub flush: usize,
    /// The requests, by step.
    pub steps: Vec<Step>,
    /// How sessions go through them.
    pub course: Course,
    /// The most sessions at once of an open model.
    pub sessions_max: usize,
    /// The seed of what differs between them.
    pub seed: u64,
    /// The mix of steps.
    pub mix: Mix,
    /// Where the requests go.
    pub endpoints: Vec<Endpoint>,
    /// Local addresses to connect from, in turn; empty if the kernel chooses.
    pub sources: Vec<SockAddr>,
    /// The lane for raw samples.
    pub samples: Option<Lane>,
}

impl ShardPlan {
    /// The load from the epoch on.
    pub(super) fn load(&self) -> Load {
        match &self.drive {
            Drive::Open { curve, arrivals, seed } => {
                let (curve, share) = (curve.clone(), self.share.clone());
                let schedule = Schedule::new(curve, *arrivals, *seed, self.end_ns, share);
                Load::Open(OpenLoad::new(schedule, self.endpoints.len()))
            }
            Drive::Log { due_ns } => {
                let (due_ns, share) = (Arc::clone(due_ns), self.share.clone());
                let schedule = Schedule::of_log(due_ns, self.end_ns, share);
                Load::Open(OpenLoad::new(schedule, self.endpoints.len()))
            }
            Drive::Closed => {
                // A connection that carries fewer requests has no room for more.
                let all = usize::try_from(self.requests_per_connection).unwrap_or(usize::MAX);
                let at_once = self.depth.min(all);
                let all_stay = ClosedLoad::new(&self.share, self.conns, at_once);
                Load::Closed(match &self.presence {
                    None => all_stay,
                    Some(presence) => {
                        all_stay.with_presence(presence.clone(), self.conns_total, &self.share)
                    }
                })
            }
            Drive::Paced { period_ns } => {
                let (total, presence) = (self.conns_total, self.presence.clone());
                let load = PacedLoad::new(*period_ns, total, &self.share, presence);
                let later = usize::from(self.course.is_any());
                let again = if self.blocks.is_some() { self.depth } else { 0 };
                Load::Paced(load.with_again(again + later))
            }
        }
    }
}

impl ShardPlan {
    /// True for a closed model, whose users have connections of their own.
    pub(super) fn has_users(&self) -> bool {
        matches!(self.drive, Drive::Closed | Drive::Paced { .. })
    }

    /// The most connections at once, with those that replace others before these have ended.
    pub(super) fn slots(&self) -> usize {
        match self.drive {
            Drive::Open { .. } | Drive::Log { .. } => self.conns + self.spare_slots(),
            Drive::Closed | Drive::Paced { .. } => self.conns * self.endpoints.len(),
        }
    }

    /// How many connections may be ending, by GOAWAY, while others are open in their place.
    pub(super) fn spare_slots(&self) -> usize {
        match self.drive {
            Drive::Open { .. } | Drive::Log { .. } if self.blocks.is_some() => {
                ending_max(self.conns, 1)
            }
            _ => 0,
        }
    }

    /// The endpoint of the requests of this step.
    #[inline]
    pub(super) fn endpoint_of(&self, step: u16) -> u16 {
        if self.endpoints.len() == 1 {
            return 0;
        }
        self.steps[usize::from(step)].endpoint
    }

    /// True if any response's content is checked.
    pub(super) fn has_checks(&self) -> bool {
        self.steps.iter().any(|step| step.checks.is_some())
    }

    /// The most sessions at once; 0 if there are none.
    pub(super) fn sessions(&self) -> usize {
        match self.has_users() {
            _ if !self.course.is_any() => 0,
            true => self.conns * self.depth,
            false => self.sessions_max,
        }
    }

    /// True if any session carries something from one step to the next.
    pub(super) fn carries(&self) -> bool {
        let mut checks = self.steps.iter().filter_map(|step| step.checks.as_ref());
        self.course.is_any() && checks.any(|checks| checks.are_carried())
    }

    /// True if any endpoint uses TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.tls.is_some())
    }
}

/// One of the hosts and ports that a plan's requests go to.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its address.
    pub address: SockAddr,
    /// The TLS client setup, if it uses TLS.
    pub tls: Option<ClientSetup>,
    /// True if each of its connections is one session's, opened for it and closed after it.
    pub own: bool,
    /// The connections to open before anything is sent.
    pub prewarm: usize,
    /// Idle connections to add after setup, beyond those that the setup load needed.
    pub spare: usize,
}

/// One of a plan's requests.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its bytes; a stand-in of the greatest length if `values` make them. With HTTP/2, those of its
    /// body.
    pub request: Payload,
    /// The index of its endpoint.
    pub endpoint: u16,
    /// Makes its bytes as they leave, if they differ between requests.
    pub values: Option<Arc<Rendering>>,
    /// True for a HEAD, whose response has no body.
    pub head_request: bool,
    /// How long after its sending it times out, ns.
    pub timeout_ns: u64,
    /// How long after its intended time it is given up, ns; `u64::MAX` for never.
    pub deadline_ns: u64,
    /// How long its session's user waits for all of it, without thinking, ns; `u64::MAX` for ever.
    pub session_deadline_ns: u64,
    /// The checks of its response's content, if there are any.
    pub checks: Option<Arc<Checks>>,
}

/// What drives a shard's load, as plain data.
#[derive(Clone, Debug)]
pub enum Drive {
    /// Arrivals by a schedule.
    Open {
        /// Rate over time of the whole run.
        curve: Curve,
        /// How they are spaced.
        arrivals: Arrivals,
        /// Seed of the schedule.
        seed: u64,
    },
    /// Arrivals at a log's times.
    Log {
        /// When each request of the whole run is due, ns since the epoch, in order.
        due_ns: Arc<[u64]>,
    },
    /// Each connection sends again as soon as its response has arrived.
    Closed,
    /// Each connection sends once per period.
    Paced {
        /// The period, ns.
        period_ns: u64,
    },
}

/// The run's first request, due and noticed at this time.
#[cfg(test)]
pub(super) fn due_at(intended_ns: u64) -> load::DueRequest {
    load::DueRequest::noticed(
        load::schedule::Arrival { due_ns: intended_ns, number: 0 },
        intended_ns,
    )
}

#[cfg(test)]
impl Step {
    /// A GET with these bytes.
    pub(super) fn for_test(request: Payload) -> Step {
        Step {
            request,
            endpoint: 0,
            values: None,
            head_request: false,
            timeout_ns: 1_000_000_000,
            deadline_ns: u64::MAX,
            session_deadline_ns: u64::MAX,
            checks: None,
        }
    }
}

#[cfg(test)]
impl ShardPlan {
    /// The same with this deadline.
    pub(super) fn with_deadline(self, deadline_ns: u64) -> ShardPlan {
        let steps = self.steps.into_iter().map(|step| Step { deadline_ns, ..step }).collect();
        ShardPlan { steps, deadline_min_ns: deadline_ns, ..self }
    }

    /// An open load of one request a minute, to `target`, over at most two connections.
    pub(super) fn open_for_test(target: SockAddr) -> ShardPlan {
        let end_ns = 600 * units::SECOND_NS;
        let curve = Curve::constant("0.016".parse().expect("a rate"));
        ShardPlan {
            share: Share::whole(),
            shards: 1,
            core: 0,
            drive: Drive::Open { curve, arrivals: Arrivals::Constant, seed: 1 },
            presence: None,
            conns: 2,
            conns_total: 2,
            settle_ns: 0,
            settle_min_ns: 0,
            recorder_config: RecorderConfig { end_ns, ..RecorderConfig::default() },
            end_ns,
            requests: u64::MAX,
            connect_max_ns: 1_000_000_000,
            timeout_min_ns: 1_000_000_000,
            drain_max_ns: 1_000_000_000,
            deadline_min_ns: u64::MAX,
            queue_max_ns: u64::MAX,
            requests_per_connection: u64::MAX,
            connection_lifetime_ns: None,
            depth: 1,
            blocks: None,
            wait: Wait::Sleep,
            stamps: StampSource::Kernel,
            kernel_stamps: true,
            stamp_sends: None,
            flush: 4,
            steps: vec![Step::for_test(
                Payload::copied(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"", 1).expect("a page"),
            )],
            course: Course::default(),
            sessions_max: 0,
            seed: 1,
            mix: Mix::new(1, &[1]),
            endpoints: vec![Endpoint {
                address: target,
                tls: None,
                own: false,
                prewarm: 0,
                spare: 0,
            }],
            sources: Vec::new(),
            samples: None,
        }
    }
}
