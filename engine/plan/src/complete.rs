//! Completes a plan: fills in defaults and refuses every contradiction before anything runs. It
//! also decides which keys of a plan file a flag overrides.

use std::num::NonZeroU32;
use std::path::PathBuf;

use units::{CoreList, Nanos, OneIn, Rate, SECOND_NS};

use super::data::End;
use super::endpoints::{CONNS_MAX, Endpoints};
use super::error::PlanError;
use super::plan::{Arrivals, Http, Model, Overload, Plan, StampSource, Switch};
use super::scenario::Scenario;
use super::slo::{Clause, Objective, Objectives};
use crate::address::Address;

/// How long an arrival may wait with [`Overload::Drop`] by default: time to open a connection.
pub const QUEUE_MAX_DEFAULT: Nanos = Nanos(100_000_000);
/// The most sessions at once on a shard if the plan doesn't say. Each takes 48 bytes, and the time
/// of its next step 16.
pub const SESSIONS_MAX_DEFAULT: usize = 10_000;
/// The largest such number.
pub const SESSIONS_MAX_MAX: usize = 1_000_000;
/// Default in-flight cap of an open model: fits the common soft limit of 1,024 open files.
pub const CONNS_OPEN_DEFAULT: usize = 1_000;
/// Default number of connections of a closed model.
pub const CONNS_CLOSED_DEFAULT: usize = 64;
/// Default sends per system call of an open model. Below the ceiling few arrivals coincide, so this
/// only bounds the stamp error in a burst: the fourth of four requests leaves about 10 µs after its
/// stamp.
pub const FLUSH_OPEN_DEFAULT: usize = 4;
/// Default sends per system call of a closed model. At 64 connections against the null target,
/// 1, 4, 8, 16 and 32 cost 3.72, 3.54, 3.51, 3.49 and 3.60 µs of CPU per request (medians of three
/// runs of 2 s, Linux 6.18): beyond 8 nothing is gained, and the stamps get worse.
pub const FLUSH_CLOSED_DEFAULT: usize = 8;
/// Default sample of requests that the kernel stamps as they leave: small enough not to show in the
/// CPU time per request.
pub const STAMP_SENDS_DEFAULT: OneIn = OneIn::new(NonZeroU32::new(1_000).expect("not zero"));
/// How many of the slowest requests of each part are listed by default.
pub const SLOWEST_DEFAULT: usize = 5;
/// The most of them.
pub const SLOWEST_MAX: usize = 100;
/// The most requests that one connection may have in flight at once.
pub const PIPELINE_MAX: usize = 64;
/// Default streams of an HTTP/2 connection: the limit that servers usually set.
pub const STREAMS_DEFAULT: usize = 100;
/// The most streams of one connection.
pub const STREAMS_MAX: usize = 1_000;
/// The most sends that one system call may submit.
pub const FLUSH_MAX: usize = 64;
/// Setup load ends after this many settling times even if it hasn't settled: with a target that
/// closes its connections, new ones would be added forever.
pub const SETTLE_TIMES_MAX: u64 = 5;
/// The longest duration that a plan may name.
pub const DURATION_MAX: Nanos = Nanos::from_secs(7 * 24 * 3_600);

impl Plan {
    /// Drops the values that contradict flags before the flags override the plan; `flags` is a plan
    /// of the flags alone. Otherwise the user would get an error about a flag that was never given.
    pub fn drop_conflicts(&mut self, flags: &Plan) {
        let had_users = self.asks_for_users();
        let Plan { model, rate, stage, requests, duration, period, .. } = self;
        let Plan { overload, queue_max, prewarm, spare, .. } = self;
        let is_open = flags.rate.is_some() || flags.replay.is_some();
        let is_log = self.arrivals == Arrivals::Log;
        let sets_load = is_open || !flags.stage.is_empty() || flags.model == Some(Model::Closed);
        if flags.replay.is_some() || is_log && sets_load {
            self.arrivals = Plan::default().arrivals;
        }
        match (flags.model, is_open, flags.period) {
            (Some(Model::Open), _, _) | (None, true, None) => {
                (*model, *period) = (None, None);
                if had_users {
                    stage.clear();
                }
            }
            (Some(Model::Closed), _, _) | (None, false, Some(_)) => {
                (*model, *rate, *overload) = (None, None, Overload::Queue);
                (*queue_max, *prewarm, *spare) = (None, None, None);
                if !had_users {
                    stage.clear();
                }
                (self.replay, self.speed, self.spread) = (None, None, None);
            }
            (None, ..) => {}
        }
        if flags.rate.is_some() || flags.replay.is_some() {
            stage.clear();
        }
        if flags.replay.is_some() {
            (*rate, *requests) = (None, None);
        } else if is_open || !flags.stage.is_empty() {
            (self.replay, self.speed, self.spread) = (None, None, None);
        }
        if !flags.stage.is_empty() {
            (*rate, *requests, *duration) = (None, None, Plan::default().duration);
            if had_users {
                // Their number is that of the stages.
                self.conns = None;
            }
        }
        if !flags.http.is_1() {
            self.pipeline = 1;
        }
        if 1 < flags.pipeline {
            (self.http, self.streams) = (Http::V1, None);
        }
        if flags.keepalive == Switch::Off {
            (self.requests_per_connection, self.pipeline, self.streams) = (None, 1, None);
            self.connection_lifetime = None;
        }
        if flags.connection_lifetime.is_some() {
            self.keepalive = Switch::On;
        }
        let is_deep = 1 < flags.pipeline || flags.streams.is_some_and(|streams| 1 < streams);
        if flags.requests_per_connection.is_some() || is_deep {
            self.keepalive = Switch::On;
        }
        let fewer = |requests: u64, pipeline: usize| requests < pipeline as u64;
        if let Some(requests) = flags.requests_per_connection {
            if fewer(requests, self.pipeline) {
                self.pipeline = 1;
            }
            self.streams = self.streams.filter(|streams| !fewer(requests, *streams));
        }
        if let Some(streams) = flags.streams {
            self.requests_per_connection =
                self.requests_per_connection.filter(|requests| !fewer(*requests, streams));
        }
        if 1 < flags.pipeline {
            self.requests_per_connection =
                self.requests_per_connection.filter(|requests| !fewer(*requests, flags.pipeline));
        }
    }

    /// Fills in the defaults, given the cores that this process may use, and refuses
    /// contradictions. Nothing else is known about these cores, so the default is all but the
    /// first, and at least one.
    ///
    /// # Errors
    /// The first value that can't be run, with its flag and the cure.
    pub fn complete(mut self, allowed_cores: &[usize]) -> Result<Plan, PlanError> {
        self.complete_replay()?;
        self.complete_stages()?;
        let has_stages = !self.stage.is_empty() && !self.asks_for_users();
        let has_rate = self.rate.is_some() || has_stages || self.replay.is_some();
        let model = *self.model.get_or_insert(if has_rate { Model::Open } else { Model::Closed });
        match (model, self.rate) {
            (Model::Open, None) if !has_rate => {
                return Err(PlanError::new(
                    "--model",
                    "open",
                    "an open model needs a rate",
                    "add --rate, e.g. --rate 5k, or --stages, or use --model closed",
                ));
            }
            (Model::Closed, Some(rate)) => {
                return Err(PlanError::new(
                    "--rate",
                    rate,
                    "a closed model has no rate: its connections wait for responses",
                    "omit it, or use --model open; --period paces a closed model",
                ));
            }
            _ => {}
        }
        if let (Model::Open, Some(period)) = (model, self.period) {
            return Err(PlanError::new(
                "--period",
                period,
                "only a closed model has a period",
                "omit it, or use --model closed without --rate",
            ));
        }
        let conns = *self.conns.get_or_insert(match model {
            Model::Open => CONNS_OPEN_DEFAULT,
            Model::Closed => CONNS_CLOSED_DEFAULT,
        });
        if conns == 0 || CONNS_MAX < conns {
            return Err(PlanError::new(
                "--conns",
                conns,
                format!("must be between 1 and {CONNS_MAX}"),
                "give the number of connections",
            ));
        }
        self.check_durations(conns)?;
        self.check_policies(model, conns)?;
        self.complete_cores(allowed_cores, conns)?;
        self.complete_http()?;
        self.complete_scenarios()?;
        self.check_checks()?;
        self.check_own_connections(model)?;
        self.complete_sessions(model)?;
        self.check_order()?;
        self.check_data()?;
        self.check_objectives()?;
        self.complete_unix()?;
        self.check_tls()?;
        self.stamps.get_or_insert(StampSource::Kernel);
        let flush = *self.flush.get_or_insert(match model {
            Model::Open => FLUSH_OPEN_DEFAULT,
            Model::Closed => FLUSH_CLOSED_DEFAULT,
        });
        if flush == 0 || FLUSH_MAX < flush {
            return Err(PlanError::new(
                "--flush",
                flush,
                format!("must be between 1 and {FLUSH_MAX}"),
                "omit it to use the measured default",
            ));
        }
        Ok(self)
    }

    /// How many of the slowest requests of each part are listed.
    pub fn slowest(&self) -> usize {
        self.slowest.unwrap_or(SLOWEST_DEFAULT)
    }

    /// True if some of its rows are taken once: then there is no load before the window, which
    /// would take them unrecorded.
    pub fn takes_rows_once(&self) -> bool {
        self.data.values().any(|data| data.end != End::Wrap)
    }

    /// Refuses an order of requests where there is one request, or a log, which has an order.
    fn check_order(&self) -> Result<(), PlanError> {
        let (problem, cure) = match self.replay {
            _ if self.order.is_weighted() => return Ok(()),
            Some(_) => ("the log of --replay has the order", "omit one of the two"),
            None if !self.scenario.is_empty() => return Ok(()),
            None => (
                "the plan has one request, which needs no order",
                "omit it, or list several requests with --targets",
            ),
        };
        Err(PlanError::new("--order", "round-robin", problem, cure))
    }

    /// Refuses data whose names can't be in a field, and rows that end where they can't.
    fn check_data(&self) -> Result<(), PlanError> {
        for (name, data) in &self.data {
            let refuse =
                |problem: &str, cure: &str| Err(PlanError::new("--data", name, problem, cure));
            let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            if name.is_empty() || !name.bytes().all(in_name) {
                return refuse("the name isn't of letters, digits, - and _", "give NAME=FILE.csv");
            }
            if data.end == End::Stop && !self.stage.is_empty() {
                let problem = "the stages set the length of the window";
                return refuse(problem, "omit `,stop`, or give `,fail`");
            }
            if data.end != End::Wrap && 0 < self.warmup.0 {
                let problem = "each row is taken once, and the warm-up would take the first ones";
                return refuse(problem, "give --warmup 0s");
            }
        }
        Ok(())
    }

    /// Completes a plan with a Unix-domain socket, which has no addresses and no kernel stamps.
    fn complete_unix(&mut self) -> Result<(), PlanError> {
        let Some(path) = &self.unix else { return Ok(()) };
        if self.is_https() {
            let problem = "TLS works only over TCP";
            let cure = "give an http URL, or omit it";
            return Err(PlanError::new("--unix", path.display(), problem, cure));
        }
        if let Err(error) = Address::Unix(path.clone()).for_kernel() {
            let problem = format!("not a path of a socket ({error})");
            let cure = "give one of 1 to 107 bytes, such as a link to the socket";
            return Err(PlanError::new("--unix", path.display(), problem, cure));
        }
        let refuse = |flag, value, problem| {
            Err(PlanError::new(flag, value, problem, "omit it, or load a TCP port without --unix"))
        };
        if let Some(address) = self.source_addresses.first() {
            let problem = "a Unix-domain socket has no address to connect from";
            return refuse("--source-addresses", address.to_string(), problem);
        }
        let problem = "the kernel has no timestamps for a Unix-domain socket";
        match self.stamps {
            Some(StampSource::Kernel) => return refuse("--stamps", "kernel".to_owned(), problem),
            Some(StampSource::User) | None => self.stamps = Some(StampSource::User),
        }
        match self.stamp_sends {
            Some(one_in) if one_in != OneIn::OFF => {
                return refuse("--stamp-sends", one_in.to_string(), problem);
            }
            _ => self.stamp_sends = Some(OneIn::OFF),
        }
        Ok(())
    }

    /// Refuses TLS flags for an http URL, and those that contradict each other.
    fn check_tls(&self) -> Result<(), PlanError> {
        let file = |file: &Option<PathBuf>| file.as_ref().map(|file| file.display().to_string());
        let session = (!self.tls_session.is_full()).then(|| "resume".to_owned());
        let insecure = self.insecure.then(|| "on".to_owned());
        let [cacert, cert, key] = [&self.cacert, &self.cert, &self.key].map(file);
        let given = [
            ("--cacert", &cacert),
            ("--cert", &cert),
            ("--key", &key),
            ("--insecure", &insecure),
            ("--tls-session", &session),
        ];
        let given = given.into_iter().find_map(|(flag, value)| Some((flag, value.clone()?)));
        if let Some((flag, value)) = given.filter(|_| !self.is_https()) {
            let problem = "the URL's scheme is http, without TLS";
            return Err(PlanError::new(flag, value, problem, "omit it, or give an https URL"));
        }
        match (cert, key) {
            (Some(cert), None) => {
                let problem = "a certificate needs its key";
                return Err(PlanError::new("--cert", cert, problem, "add --key FILE"));
            }
            (None, Some(key)) => {
                let problem = "a key needs its certificate";
                return Err(PlanError::new("--key", key, problem, "add --cert FILE"));
            }
            _ => {}
        }
        if let Some(cacert) = cacert.filter(|_| self.insecure) {
            let problem = "--insecure accepts certificates of any issuer";
            return Err(PlanError::new("--cacert", cacert, problem, "omit one of the two"));
        }
        Ok(())
    }

    /// True if the setup of a completed plan offers load until its connection pool has settled.
    pub fn settles(&self) -> bool {
        self.model() == Model::Open && 0 < self.warmup.0 && self.keepalive == Switch::On
    }

    /// The shortest and longest time this setup load takes, ns; 0 without setup load.
    pub fn setup_ns(&self) -> (u64, u64) {
        if !self.settles() {
            return (0, 0);
        }
        let least_ns = self.settle_min.map_or(0, |least| least.0);
        let longest_ns = self.settle.0.saturating_mul(SETTLE_TIMES_MAX);
        (least_ns.max(self.settle.0), least_ns.saturating_add(longest_ns))
    }

    fn check_durations(&self, conns: usize) -> Result<(), PlanError> {
        if self.duration.0 == 0 {
            return Err(PlanError::new(
                "--duration",
                self.duration,
                "an empty window records nothing",
                "give the length of the window, e.g. --duration 10s",
            ));
        }
        if self.requests == Some(0) {
            return Err(PlanError::new(
                "--requests",
                0,
                "a window without requests records nothing",
                "give how many, or omit it to run for --duration",
            ));
        }
        if self.timeout.0 == 0 {
            return Err(PlanError::new(
                "--timeout",
                self.timeout,
                "every request would time out as it is sent",
                "give the longest a response may take, e.g. --timeout 10s",
            ));
        }
        if self.period == Some(Nanos(0)) {
            return Err(PlanError::new(
                "--period",
                "0s",
                "must be above zero",
                "omit it to send as soon as the last response has arrived",
            ));
        }
        if let Some(period) = self.period
            && u128::from(period.0) * u128::from(Rate::MAX_PER_SECOND)
                < conns as u128 * u128::from(SECOND_NS)
        {
            return Err(PlanError::new(
                "--period",
                period,
                format!(
                    "{conns} connections would send more than {} requests per second",
                    Rate::MAX_PER_SECOND
                ),
                "give a longer period or fewer --conns",
            ));
        }
        let lengths = [
            ("--duration", Some(self.duration)),
            ("--warmup", Some(self.warmup)),
            ("--timeout", Some(self.timeout)),
            ("--period", self.period),
            ("--queue-max", self.queue_max),
            ("--deadline", self.deadline),
            ("--settle", Some(self.settle)),
            ("--settle-min", self.settle_min),
        ];
        for (flag, length) in lengths {
            if let Some(length) = length.filter(|length| DURATION_MAX < *length) {
                return Err(PlanError::new(
                    flag,
                    length,
                    format!("must be at most {DURATION_MAX}"),
                    "give a shorter one",
                ));
            }
        }
        Ok(())
    }

    fn check_pipeline(&self) -> Result<(), PlanError> {
        let pipeline = self.pipeline;
        let refused = |problem: &str, cure| PlanError::new("--pipeline", pipeline, problem, cure);
        if pipeline == 0 || PIPELINE_MAX < pipeline {
            let problem = format!("must be between 1 and {PIPELINE_MAX}");
            return Err(refused(&problem, "give the requests in flight on one connection"));
        }
        if pipeline == 1 {
            return Ok(());
        }
        if self.keepalive == Switch::Off {
            return Err(refused(
                "without keep-alive, a connection carries one request",
                "omit it or --keepalive off",
            ));
        }
        if let Some(requests) = self.requests_per_connection
            && requests < pipeline as u64
        {
            let problem = format!("a connection carries no more than {requests} requests in all");
            return Err(refused(&problem, "lower it, or raise --requests-per-connection"));
        }
        Ok(())
    }

    /// Completes the number of streams, and refuses what only the other version of HTTP has.
    fn complete_http(&mut self) -> Result<(), PlanError> {
        let requests = match self.keepalive {
            Switch::Off => 1,
            Switch::On => self.requests_per_connection.unwrap_or(u64::MAX),
        };
        let most = usize::try_from(requests).unwrap_or(usize::MAX);
        let most = if self.stages_of_users().is_some() { 1 } else { most };
        if self.http.is_1() {
            let Some(streams) = self.streams else { return Ok(()) };
            let problem = "only HTTP/2 has streams";
            return Err(PlanError::new("--streams", streams, problem, "add --http 2, or omit it"));
        }
        if self.http == Http::Auto && !self.is_all_https() {
            let problem = "an http URL has no TLS, by which the version would be agreed on";
            let cure = "give --http 2 or --http 1.1, or only https URLs";
            return Err(PlanError::new("--http", "auto", problem, cure));
        }
        if 1 < self.pipeline {
            let problem = "HTTP/2 has streams instead";
            let cure = "omit it: --streams N sets the requests in flight on one connection";
            return Err(PlanError::new("--pipeline", self.pipeline, problem, cure));
        }
        let streams = *self.streams.get_or_insert(STREAMS_DEFAULT.min(most));
        let refused = |problem: String, cure| PlanError::new("--streams", streams, problem, cure);
        if streams == 0 || STREAMS_MAX < streams {
            let problem = format!("must be between 1 and {STREAMS_MAX}");
            return Err(refused(problem, "give the requests in flight on one connection"));
        }
        if streams <= most {
            return Ok(());
        }
        Err(match self.keepalive {
            _ if self.stages_of_users().is_some() => refused(
                "users who come and go have one request in flight each".to_owned(),
                "omit it, or give --conns instead of --stages",
            ),
            Switch::Off => refused(
                "without keep-alive, a connection carries one request".to_owned(),
                "omit it or --keepalive off",
            ),
            Switch::On => refused(
                format!("a connection carries no more than {most} requests in all"),
                "lower it, or raise --requests-per-connection",
            ),
        })
    }

    /// Limits each connection to one request, for a plan with its own `Connection: close` header:
    /// the client sends nothing after that request (RFC 9112, section 9.6).
    ///
    /// # Errors
    /// The plan has several requests on one connection.
    pub fn close_each(&mut self) -> Result<(), PlanError> {
        self.keepalive = Switch::Off;
        (self.requests_per_connection, self.connection_lifetime) = (None, None);
        if self.pipeline == 1 {
            return Ok(());
        }
        let problem = "with `Connection: close`, a connection carries one request";
        Err(PlanError::new("--pipeline", self.pipeline, problem, "omit it or that header"))
    }

    /// Refuses what doesn't go with sessions, and their number without them.
    fn complete_sessions(&mut self, model: Model) -> Result<(), PlanError> {
        let refuse = |flag, value: String, problem: &str, cure: &str| {
            Err(PlanError::new(flag, value, problem, cure))
        };
        if !self.has_sessions() {
            let Some(most) = self.sessions_max else { return Ok(()) };
            let problem = "no scenario has several steps, so there are no sessions";
            return refuse("--sessions-max", most.to_string(), problem, "omit it");
        }
        if model == Model::Closed {
            if let Some(most) = self.sessions_max {
                let problem = "each user of a closed model has one session at a time";
                return refuse(
                    "--sessions-max",
                    most.to_string(),
                    problem,
                    "omit it, or add --rate",
                );
            }
        } else {
            let most = *self.sessions_max.get_or_insert(SESSIONS_MAX_DEFAULT);
            if !(1..=SESSIONS_MAX_MAX).contains(&most) {
                let problem = format!("must be from 1 to {SESSIONS_MAX_MAX}");
                return refuse("--sessions-max", most.to_string(), &problem, "give another number");
            }
        }
        let is_rate = |clause: &Clause| matches!(clause.objective, Objective::Rate { .. });
        if let Some(slo) = self.slo.as_ref().filter(|slo| slo.iter().any(is_rate)) {
            let problem = "sessions go on after the window, so not all their steps are due in it";
            return refuse("--slo", slo.to_string(), problem, "omit `rate`");
        }
        if model == Model::Closed {
            if let Some(requests) = self.requests {
                let problem = "a closed loop of sessions doesn't end by a number of requests";
                return refuse("--requests", requests.to_string(), problem, "give --duration");
            }
            let endpoints = Endpoints::of(self)?.each().len();
            if 1 < endpoints {
                let problem = "users of a closed model go through several steps on one host";
                return refuse(self.scenario_key(), endpoints.to_string(), problem, "give --rate");
            }
        }
        Ok(())
    }

    /// Refuses connections of sessions' own where they couldn't be that.
    fn check_own_connections(&self, model: Model) -> Result<(), PlanError> {
        let is_own = |scenario: &Scenario| scenario.has_own_connections();
        let Some(at) = self.scenario.iter().position(is_own) else { return Ok(()) };
        let refuse = |at: usize, problem: &str, cure: &str| {
            Err(PlanError::new(self.scenario_key(), format!("#{}", at + 1), problem, cure))
        };
        if self.keepalive == Switch::Off {
            let problem = "without keep-alive, a connection carries one request of a session";
            return refuse(at, problem, "omit --keepalive off, or `connection`");
        }
        if model == Model::Closed {
            if !self.scenario.iter().all(is_own) {
                let problem = "users of a closed model keep one connection for all scenarios";
                return refuse(at, problem, "give all `connection = \"own\"`, or add --rate");
            }
            if 1 < self.depth() {
                let problem = "users of a closed model would have several sessions on a connection";
                return refuse(at, problem, "give --streams 1, or omit --pipeline");
            }
        }
        let endpoints = Endpoints::of(self)?;
        let mut of_steps = endpoints.of_steps();
        for (at, scenario) in self.scenario.iter().enumerate() {
            let (own, rest) = of_steps.split_at(scenario.step.len());
            of_steps = rest;
            if is_own(scenario) && !scenario.has_sessions() {
                let problem = "it has one request, so a connection of its own carries no other";
                return refuse(at, problem, "omit `connection`, or use --keepalive off");
            }
            if is_own(scenario) && own.iter().any(|endpoint| *endpoint != own[0]) {
                let problem = "its steps go to several hosts, but its session has one connection";
                return refuse(at, problem, "give it one host, or omit `connection`");
            }
        }
        Ok(())
    }

    fn check_policies(&mut self, model: Model, conns: usize) -> Result<(), PlanError> {
        match (self.overload, self.queue_max) {
            (Overload::Drop, None) => self.queue_max = Some(QUEUE_MAX_DEFAULT),
            (Overload::Queue, Some(longest)) => {
                return Err(PlanError::new(
                    "--queue-max",
                    longest,
                    "only --overload drop bounds the wait for a connection",
                    "add --overload drop, or omit it",
                ));
            }
            _ => {}
        }
        if self.overload == Overload::Drop && model == Model::Closed {
            return Err(PlanError::new(
                "--overload",
                "drop",
                "a closed model has no arrivals to drop",
                "omit it, or add --rate",
            ));
        }
        self.thresholds.validate()?;
        self.check_pipeline()?;
        if self.deadline == Some(Nanos(0)) {
            return Err(PlanError::new(
                "--deadline",
                "0s",
                "every request would expire before it is sent",
                "omit it for no deadline",
            ));
        }
        if self.requests_per_connection == Some(0) {
            return Err(PlanError::new(
                "--requests-per-connection",
                0,
                "must be at least 1",
                "omit it for no limit",
            ));
        }
        if self.keepalive == Switch::Off
            && self.requests_per_connection.is_some_and(|requests| 1 < requests)
        {
            return Err(PlanError::new(
                "--requests-per-connection",
                self.requests_per_connection.unwrap_or(0),
                "without keep-alive, a connection carries one request",
                "omit it or --keepalive off",
            ));
        }
        if let Some(lifetime) = self.connection_lifetime {
            let refused = |problem, cure| {
                Err(PlanError::new("--connection-lifetime", lifetime, problem, cure))
            };
            if lifetime == Nanos(0) {
                return refused("must be above 0", "omit it for no limit");
            }
            if self.keepalive == Switch::Off {
                let problem = "without keep-alive, a connection ends after one request";
                return refused(problem, "omit it or --keepalive off");
            }
        }
        for (flag, count) in [("--prewarm", self.prewarm), ("--spare", self.spare)] {
            let Some(count) = count else { continue };
            if model == Model::Closed {
                return Err(PlanError::new(
                    flag,
                    count,
                    "needs an open model: a closed one opens all its connections at the start",
                    "omit it, or add --rate",
                ));
            }
            if conns < count {
                return Err(PlanError::new(
                    flag,
                    count,
                    format!("exceeds the cap of --conns {conns}"),
                    "lower it, or raise --conns",
                ));
            }
        }
        let bounds_rate = |slo: &Objectives| {
            let is_rate = |it: &Clause| matches!(it.objective, Objective::Rate { .. });
            slo.iter().any(is_rate)
        };
        if let (Model::Closed, None, Some(slo)) =
            (model, self.period, self.slo.as_ref().filter(|slo| bounds_rate(slo)))
        {
            return Err(PlanError::new(
                "--slo",
                slo,
                "a closed loop has no requested rate, so `rate` has nothing to compare with",
                "omit it, or give --rate or --period",
            ));
        }
        Ok(())
    }

    /// Places this completed plan's shards on these cores, at most one for each of the `conns`
    /// connections here: a shard without a connection couldn't send anything.
    pub fn place(&mut self, cores: &[usize], conns: usize) {
        let last = &cores[cores.len().saturating_sub(conns)..];
        self.cores = Some(CoreList::new(last.to_vec()));
    }

    fn complete_cores(&mut self, allowed_cores: &[usize], conns: usize) -> Result<(), PlanError> {
        match &self.cores {
            None => {
                // The first core is left to the target and the rest of the machine. The run, which
                // knows the topology, chooses among the others.
                let others = allowed_cores.get(1..).filter(|others| !others.is_empty());
                self.place(others.unwrap_or(allowed_cores), conns);
            }
            Some(cores) => {
                if let Some(core) =
                    cores.as_slice().iter().find(|core| !allowed_cores.contains(core))
                {
                    return Err(PlanError::new(
                        "--cores",
                        cores,
                        format!("core {core} is not available to this process"),
                        format!("choose from {}", CoreList::new(allowed_cores.to_vec())),
                    ));
                }
                if conns < cores.len() {
                    return Err(PlanError::new(
                        "--conns",
                        conns,
                        format!("{} cores need at least one connection each", cores.len()),
                        "raise it, or use fewer --cores",
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Order;
    use crate::thresholds::Thresholds;

    fn plan() -> Plan {
        Plan { target: "http://127.0.0.1:1/".to_owned(), ..Plan::default() }
    }

    fn open() -> Plan {
        Plan { rate: Some("5k".parse().expect("a rate")), ..plan() }
    }

    #[test]
    fn a_rate_makes_it_open_and_no_rate_closed() {
        assert_eq!(open().complete(&[0, 1]).expect("runs").model(), Model::Open);
        let closed = plan().complete(&[0, 1]).expect("runs");
        assert_eq!((closed.model(), closed.conns()), (Model::Closed, CONNS_CLOSED_DEFAULT));
    }

    #[test]
    fn default_cores_leave_one_free_and_give_each_a_connection() {
        for (allowed, conns, want) in [
            (vec![0], None, vec![0]),
            (vec![0, 1], None, vec![1]),
            (vec![0, 1, 2, 3], None, vec![1, 2, 3]),
            (vec![0, 1, 2, 3], Some(2), vec![2, 3]),
        ] {
            let plan = Plan { conns, ..plan() }.complete(&allowed).expect("runs");
            assert_eq!(plan.cores(), want);
        }
    }

    #[test]
    fn contradictions_name_the_flag() {
        let cases = [
            (Plan { model: Some(Model::Open), ..plan() }, "--model"),
            (Plan { model: Some(Model::Closed), ..open() }, "--rate"),
            (Plan { period: Some(Nanos(1)), ..open() }, "--period"),
            (Plan { period: Some(Nanos(0)), ..plan() }, "--period"),
            (Plan { period: Some(Nanos(639)), ..plan() }, "--period"),
            (Plan { duration: Nanos(0), ..open() }, "--duration"),
            (Plan { requests: Some(0), ..open() }, "--requests"),
            (Plan { timeout: Nanos(0), ..open() }, "--timeout"),
            (Plan { conns: Some(0), ..open() }, "--conns"),
            (Plan { conns: Some(1), cores: Some(CoreList::new(vec![0, 1])), ..open() }, "--conns"),
            (Plan { cores: Some(CoreList::new(vec![7])), ..open() }, "--cores"),
            (Plan { flush: Some(0), ..open() }, "--flush"),
            (Plan { order: Order::RoundRobin, ..open() }, "--order"),
            (
                Plan {
                    thresholds: Thresholds { percentile: 99.0, ..Thresholds::default() },
                    ..open()
                },
                "--threshold",
            ),
            (
                Plan { thresholds: Thresholds { busy: -0.5, ..Thresholds::default() }, ..open() },
                "--threshold",
            ),
            (
                Plan {
                    thresholds: Thresholds { errors: f64::INFINITY, ..Thresholds::default() },
                    ..open()
                },
                "--threshold",
            ),
            (Plan { warmup: Nanos::from_secs(1_000_000), ..open() }, "--warmup"),
        ];
        for (plan, flag) in cases {
            let error = plan.clone().complete(&[0, 1]).expect_err(flag);
            assert_eq!(error.flag, flag, "{plan:?}");
        }
    }

    #[test]
    fn only_http_2_has_streams_and_it_has_no_pipeline() {
        let http2 = || Plan { http: Http::V2, ..plan() };
        let secure = "https://127.0.0.1:1/".to_owned();
        let users = vec!["1:1s".parse().expect("a stage")];
        for (plan, flag, cure) in [
            (Plan { streams: Some(5), ..plan() }, "--streams", "--http 2"),
            (Plan { pipeline: 2, ..http2() }, "--pipeline", "--streams"),
            (Plan { streams: Some(0), ..http2() }, "--streams", "in flight"),
            (Plan { streams: Some(STREAMS_MAX + 1), ..http2() }, "--streams", "in flight"),
            (Plan { http: Http::Auto, ..plan() }, "--http", "--http 2"),
            (
                Plan { streams: Some(2), keepalive: Switch::Off, ..http2() },
                "--streams",
                "--keepalive off",
            ),
            (
                Plan { streams: Some(3), requests_per_connection: Some(2), ..http2() },
                "--streams",
                "--requests-per-connection",
            ),
            (
                Plan {
                    streams: Some(2),
                    stage: users.clone(),
                    model: Some(Model::Closed),
                    ..http2()
                },
                "--streams",
                "--stages",
            ),
        ] {
            let error = plan.clone().complete(&[0, 1]).expect_err(flag);
            assert_eq!(error.flag, flag, "{plan:?}");
            assert!(error.to_string().contains(cure), "{error}");
        }
        for (plan, depth) in [
            (plan(), 1),
            (Plan { pipeline: 4, ..plan() }, 4),
            (http2(), STREAMS_DEFAULT),
            (Plan { target: secure, http: Http::Auto, ..plan() }, STREAMS_DEFAULT),
            (Plan { streams: Some(7), ..http2() }, 7),
            (Plan { keepalive: Switch::Off, ..http2() }, 1),
            (Plan { requests_per_connection: Some(9), ..http2() }, 9),
            (Plan { stage: users, model: Some(Model::Closed), ..http2() }, 1),
        ] {
            assert_eq!(plan.clone().complete(&[0, 1]).expect("runs").depth(), depth, "{plan:?}");
        }
    }

    #[test]
    fn connections_in_advance_belong_to_an_open_model_and_stay_below_its_cap() {
        let refused = |plan: Plan| plan.complete(&[0, 1]).expect_err("refused").to_string();
        for (flag, plan) in [
            ("--spare 5: ", Plan { spare: Some(5), conns: Some(2), ..plan() }),
            ("--prewarm 5: ", Plan { prewarm: Some(5), conns: Some(2), ..plan() }),
        ] {
            let closed = refused(plan.clone());
            assert!(closed.starts_with(flag) && closed.contains("an open model"), "{closed}");
            assert!(closed.contains("add --rate") && !closed.contains("raise"), "{closed}");
            let open = refused(Plan { rate: open().rate, ..plan });
            assert!(open.starts_with(flag) && open.ends_with("or raise --conns"), "{open}");
        }
    }

    #[test]
    fn flags_reset_what_contradicts_them() {
        let open = Plan {
            model: Some(Model::Open),
            overload: Overload::Drop,
            queue_max: Some(Nanos(1)),
            prewarm: Some(3),
            ..open()
        };
        let closed =
            Plan { model: Some(Model::Closed), period: Some(Nanos::from_secs(1)), ..plan() };
        let once = Plan { keepalive: Switch::Off, ..plan() };
        let often = Plan { requests_per_connection: Some(7), ..plan() };
        let pipelined = Plan { pipeline: 4, ..plan() };
        let streams = Plan { http: Http::V2, streams: Some(7), ..plan() };
        let none = Plan::default();
        let rate = open.rate;
        let stage = vec!["5:7s".parse().expect("a stage")];
        let staged = Plan { stage: stage.clone(), ..plan() };
        let users = Plan { model: Some(Model::Closed), ..staged.clone() };
        let period = Some(Nanos(1));
        let long = Plan { duration: Nanos::from_secs(9), requests: Some(7), ..open.clone() };
        for (file, flags, kept) in [
            (&staged, Plan { rate, ..none.clone() }, plan()),
            (&staged, Plan { period: Some(Nanos(1)), ..none.clone() }, plan()),
            (&staged, none.clone(), staged.clone()),
            (
                &long,
                Plan { stage: stage.clone(), ..none.clone() },
                Plan { rate: None, ..open.clone() },
            ),
            (&closed, Plan { stage, ..none.clone() }, closed.clone()),
            (&users, Plan { model: Some(Model::Open), ..none.clone() }, plan()),
            (&users, Plan { period, ..none.clone() }, Plan { model: None, ..users.clone() }),
            (&users, Plan { rate, ..none.clone() }, plan()),
            (&open, Plan { model: Some(Model::Closed), ..none.clone() }, plan()),
            (&open, Plan { period: Some(Nanos(1)), ..none.clone() }, plan()),
            (&open, Plan { rate, ..none.clone() }, Plan { model: None, ..open.clone() }),
            (&open, Plan { rate, period: Some(Nanos(1)), ..none.clone() }, open.clone()),
            (&closed, Plan { model: Some(Model::Open), ..none.clone() }, plan()),
            (&closed, Plan { rate, ..none.clone() }, plan()),
            (&closed, none.clone(), closed.clone()),
            (&often, Plan { keepalive: Switch::Off, ..none.clone() }, plan()),
            (&once, Plan { requests_per_connection: Some(7), ..none.clone() }, plan()),
            (&once, Plan { pipeline: 4, ..none.clone() }, plan()),
            (&once, Plan { pipeline: 1, ..none.clone() }, once.clone()),
            (&pipelined, Plan { keepalive: Switch::Off, ..none.clone() }, plan()),
            (&pipelined, Plan { requests_per_connection: Some(3), ..none.clone() }, plan()),
            (
                &pipelined,
                Plan { requests_per_connection: Some(4), ..none.clone() },
                pipelined.clone(),
            ),
            (&pipelined, Plan { http: Http::V2, ..none.clone() }, plan()),
            (&streams, Plan { pipeline: 4, ..none.clone() }, plan()),
            (
                &streams,
                Plan { keepalive: Switch::Off, ..none.clone() },
                Plan { http: Http::V2, ..plan() },
            ),
            (&often, Plan { pipeline: 8, ..none.clone() }, plan()),
            (&often, Plan { pipeline: 7, ..none.clone() }, often.clone()),
        ] {
            let mut file = file.clone();
            file.drop_conflicts(&flags);
            assert_eq!(file, kept, "{flags:?}");
        }
    }
}
