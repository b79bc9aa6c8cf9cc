//! Where outcomes become numbers: the times and counters of one shard.
//!
//! The recorder decides nothing and reads no clock: the shard passes the stamps and the outcome of
//! each request of the window, exactly once each. `began_ns` is when the request's session was due,
//! or the request itself if it has none: it decides in which interval and stage the request counts,
//! so that a session is in one. Latencies are by the request's own times.

use serde::{Deserialize, Serialize};
use stats::arrivals::ArrivalStats;

use crate::config::RecorderConfig;
use crate::counts::Counts;
use crate::endpoint::EndpointCounts;
use crate::littles_law::InFlightIntegral;
use crate::outcome::{Cause, Outcome, UnsentReason};
use crate::part::Part;
use crate::scenario::{ScenarioCounts, SessionEnd};
use crate::series::Series;
use crate::slowest::Slowest;
use crate::stamps::{Ending, StampedBy, Stamps};
use crate::streams::StreamCounts;
use crate::times::Times;
use crate::tls::TlsCounts;

/// The numbers of one shard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recorder {
    config: RecorderConfig,
    /// How long things took.
    pub times: Times,
    /// The run over time.
    pub series: Series,
    /// Requests in flight over the window, including those of the warm-up that reached into it.
    pub in_flight: InFlightIntegral,
    /// When requests of an open model were due and sent.
    pub arrivals: Option<ArrivalStats>,
    /// How many requests ended how.
    pub counts: Counts,
    /// What TLS did; empty without TLS.
    pub tls: TlsCounts,
    /// What HTTP/2 did; empty without it.
    pub streams: StreamCounts,
    /// The requests of each step in each stage, first all stages of the first step; empty if there
    /// is only one step and one stage, which the rest of the recorder describes.
    pub parts: Vec<Part>,
    /// The connections of each endpoint; empty if there is only one.
    pub endpoints: Vec<EndpointCounts>,
    /// The slowest requests, if there are no parts to list them.
    pub slowest: Slowest,
    /// How many responses failed each check, those of the first step first.
    pub checks: Vec<u64>,
    /// How sessions ended; empty if no scenario has several steps.
    pub scenarios: ScenarioCounts,
}

impl Recorder {
    /// An empty recorder; all its memory is allocated here.
    pub fn new(config: RecorderConfig) -> Recorder {
        let arrivals = config.scheduled.then(|| ArrivalStats::new(config.window_ns..config.end_ns));
        let series = Series::for_window(config.end_ns.saturating_sub(config.window_ns));
        let in_flight = InFlightIntegral::new(config.window_ns, config.end_ns);
        let slowest = config.slowest;
        let new = |stage_ns| Part::new(stage_ns, slowest);
        let parts: Vec<Part> = config.part_lengths_ns().map(new).collect();
        let endpoints = (0..config.endpoints()).map(|_| EndpointCounts::preallocated()).collect();
        Recorder {
            checks: vec![0; config.checks()],
            scenarios: ScenarioCounts::new(config.scenario_firsts.len(), config.steps()),
            config,
            endpoints,
            slowest: Slowest::of_at_most(if parts.is_empty() { slowest } else { 0 }),
            parts,
            times: Times::default(),
            series,
            in_flight,
            arrivals,
            counts: Counts::preallocated(),
            tls: TlsCounts::preallocated(),
            streams: StreamCounts::default(),
        }
    }

    /// A request of the window was due, or one of a session that was.
    #[inline]
    pub fn intended(&mut self, began_ns: u64, is_later: bool) {
        self.counts.intended += 1;
        self.counts.later_steps += u64::from(is_later);
        self.series.intended(began_ns - self.config.window_ns);
    }

    /// A request of the window was handed to the kernel.
    #[inline]
    pub fn sent(&mut self, began_ns: u64, stamps: &Stamps, in_window: bool) {
        self.tried(began_ns, stamps);
        if stamps.waited
            && let Some(of) = self.endpoint_of(stamps.step)
        {
            of.wait_max_ns = of.wait_max_ns.max(stamps.sent_ns - stamps.noticed_ns);
        }
        if in_window {
            self.counts.sent_in_window += 1;
            self.series.send(stamps.sent_ns - self.config.window_ns);
            // Only arrivals follow the schedule.
            if began_ns != stamps.intended_ns {
                self.counts.later_steps_in_window += 1;
            } else if let Some(arrivals) = &mut self.arrivals {
                arrivals.record(stamps.intended_ns, stamps.sent_ns);
            }
        }
    }

    /// A request of the window got no connection, because none could be opened: it fails at
    /// `stamps.sent_ns` and never reaches the target.
    pub fn unconnected(&mut self, began_ns: u64, stamps: &Stamps) {
        self.tried(began_ns, stamps);
        self.counts.unconnected += 1;
    }

    #[inline]
    fn tried(&mut self, began_ns: u64, stamps: &Stamps) {
        self.counts.sent += 1;
        self.times.sent(stamps);
        self.series.sent(began_ns - self.config.window_ns);
    }

    /// The settings that it records with.
    pub fn config(&self) -> &RecorderConfig {
        &self.config
    }

    /// True if requests are recorded by parts too.
    #[inline]
    pub fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// The part of the requests of this step that were due at this time, in the window or before
    /// it; there must be parts.
    fn part(&mut self, step: u16, due_ns: u64) -> &mut Part {
        &mut self.parts[self.config.part(step, due_ns)]
    }

    /// A request, of the window or before it, takes a connection; there must be parts.
    pub fn connection_taken(&mut self, began_ns: u64, step: u16) {
        let capped = self.counts.capped;
        if 0 < capped {
            self.part(step, began_ns).taken(capped);
        }
    }

    /// A request that took a connection has ended; there must be parts.
    pub fn connection_freed(&mut self, began_ns: u64, step: u16) {
        let capped = self.counts.capped;
        if 0 < capped {
            self.part(step, began_ns).freed(capped);
        }
    }

    /// Bytes of a request of the window have left; there must be parts.
    pub fn bytes_sent(&mut self, began_ns: u64, step: u16, bytes: usize) {
        self.part(step, began_ns).sent_bytes += bytes as u64;
    }

    /// Bytes of the response to a request of the window have arrived; there must be parts.
    pub fn bytes_received(&mut self, began_ns: u64, step: u16, bytes: usize) {
        self.part(step, began_ns).received_bytes += bytes as u64;
    }

    /// The request with this number, of the window, ended; `in_window`: before the end of the
    /// window. Returns whether it has a good answer.
    #[inline]
    pub fn ended(
        &mut self,
        (number, began_ns): (u64, u64),
        stamps: &Stamps,
        ending: Ending,
        in_window: bool,
        outcome: Outcome,
    ) -> bool {
        let ended_ns = ending.ended_ns();
        let corrected_ns = ended_ns - stamps.intended_ns;
        let at_ns = began_ns - self.config.window_ns;
        let late_ns = ending.receive_lateness_ns();
        self.series.ended(at_ns, corrected_ns, outcome, late_ns);
        self.counts.ended(outcome);
        let is_success = if self.has_parts() {
            self.part_ended((number, began_ns), stamps, ended_ns, outcome)
        } else {
            self.slowest.look(number, stamps, ended_ns, outcome);
            matches!(outcome, Outcome::Answered(status) if self.config.success.holds(status))
        };
        if let Outcome::Unsent(_) = outcome {
            if outcome.has_latency() {
                self.times.others.record_unsent(corrected_ns, 1);
                self.times.corrected_when_handled.record(corrected_ns);
                self.times.added.record(corrected_ns, stamps.added_ns());
            }
            return false;
        }
        let naive_ns = ended_ns - stamps.sent_ns;
        let mut latencies = &mut self.times.others;
        if let Outcome::CheckFailed { check, .. } = outcome {
            self.checks[self.config.check(stamps.step, check)] += 1;
        }
        if outcome.status().is_some() {
            if in_window {
                self.series.answer(ended_ns - self.config.window_ns);
            }
            if is_success {
                latencies = &mut self.times.successes;
            } else if let Outcome::Answered(_) = outcome {
                self.counts.unexpected_status += 1;
                self.series.unexpected(at_ns);
            }
            self.counts.stamped_by_kernel += u64::from(ending.stamped_by == StampedBy::Kernel);
            if let Some(late_ns) = late_ns {
                self.times.receive_lateness.record(late_ns);
            }
        }
        if !outcome.has_latency() {
            return false;
        }
        latencies.record(naive_ns, corrected_ns);
        self.times.corrected_when_handled.record(ending.handled_ns - stamps.intended_ns);
        self.times.added.record(corrected_ns, stamps.added_ns());
        is_success
    }

    /// A session of the window ended, whose last request was of this step; `latency_ns` is `None`
    /// if that has none.
    pub fn session_ended(&mut self, step: u16, end: SessionEnd, latency_ns: Option<u64>) {
        let scenario = self.config.scenario_of(step);
        self.scenarios.ended(scenario, end, latency_ns);
    }

    /// True if a scenario has several steps.
    #[inline]
    pub fn has_scenarios(&self) -> bool {
        !self.scenarios.sessions.is_empty()
    }

    /// Records a request's end in its part; returns whether its status is a success for its step.
    // One request on one route at one rate shouldn't pay for a longer function.
    #[inline(never)]
    fn part_ended(
        &mut self,
        (number, began_ns): (u64, u64),
        stamps: &Stamps,
        ended_ns: u64,
        outcome: Outcome,
    ) -> bool {
        let success = self.config.success_of(stamps.step);
        let is_success = matches!(outcome, Outcome::Answered(status) if success.holds(status));
        let at_ns = self.config.in_stage_ns(began_ns);
        let naive_ns = ended_ns - stamps.sent_ns;
        let part = self.part(stamps.step, began_ns);
        part.ended(at_ns, naive_ns, ended_ns - stamps.intended_ns, outcome, is_success);
        part.slowest.look(number, stamps, ended_ns, outcome);
        is_success
    }

    /// A sampled request of the window ended; it left the host `path_ns` after it was sent, if the
    /// kernel stamped that.
    pub fn left(&mut self, path_ns: Option<u64>) {
        self.counts.sends_sampled += 1;
        if let Some(path_ns) = path_ns {
            self.counts.sends_stamped += 1;
            self.times.send_path.record(path_ns);
        }
    }

    /// `count` requests of the window, all with these stamps, were given up unsent at `over_ns`:
    /// the same as [`Recorder::intended`] and [`Recorder::ended`] for each.
    pub fn unsent(&mut self, stamps: &Stamps, over_ns: u64, reason: UnsentReason, count: u64) {
        let due_ns = stamps.intended_ns;
        let age_ns = over_ns.saturating_sub(due_ns);
        let has_latency = Outcome::Unsent(reason).has_latency();
        if has_latency {
            self.times.others.record_unsent(age_ns, count);
            self.times.corrected_when_handled.record_n(age_ns, count);
            self.times.added.record_n(age_ns, stamps.added_ns(), count);
        }
        let age_ns = has_latency.then_some(age_ns);
        self.series.unsent(due_ns - self.config.window_ns, age_ns, count);
        self.counts.unsent_n(reason, count);
        if self.has_parts() {
            let at_ns = self.config.in_stage_ns(due_ns);
            self.part(stamps.step, due_ns).unsent(at_ns, age_ns, reason, count);
        }
        if self.has_scenarios() {
            let scenario = self.config.scenario_of(stamps.step);
            self.scenarios.unsent(scenario, age_ns, count);
        }
    }

    /// `count` requests of this step, of sessions due at this time in the window, wait for
    /// connections;
    /// `at_the_cap`: all are in use, and no further one to their endpoint could be opened.
    pub fn waited(&mut self, step: u16, due_ns: u64, count: u64, at_the_cap: bool) {
        let capped = if at_the_cap { count } else { 0 };
        self.counts.waited += count;
        self.counts.capped += capped;
        if let Some(of) = self.endpoint_of(step) {
            of.waited += count;
            of.capped += capped;
        }
        if at_the_cap && self.has_parts() {
            self.part(step, due_ns).counts.capped += capped;
        }
    }

    /// The endpoint that requests of this step go to, if there are several.
    fn endpoint_of(&mut self, step: u16) -> Option<&mut EndpointCounts> {
        let endpoint = *self.config.endpoint_of_steps.get(usize::from(step))?;
        self.endpoints.get_mut(usize::from(endpoint))
    }

    /// A connection to this endpoint couldn't be opened.
    pub fn not_connected(&mut self, endpoint: usize, cause: Cause) {
        if let Some(of) = self.endpoints.get_mut(endpoint) {
            of.connect_failures.add(cause);
        }
    }

    /// A connection to this endpoint, without a request, was closed for another one's sake.
    pub fn yielded(&mut self, endpoint: usize) {
        if let Some(of) = self.endpoints.get_mut(endpoint) {
            of.yielded += 1;
        }
    }

    /// A connection to this endpoint begun at `since_ns` is open at `at_ns`; `in_window`: the load
    /// needed it during the measurement.
    pub fn connected(&mut self, endpoint: usize, since_ns: u64, at_ns: u64, in_window: bool) {
        self.counts.connects += 1;
        if let Some(of) = self.endpoints.get_mut(endpoint) {
            of.connects += 1;
        }
        if in_window {
            self.counts.connects_in_window += 1;
            self.times.connect_time.record(at_ns - since_ns);
        }
    }

    /// True if these numbers were recorded with this config; others can't be added to them.
    pub fn is_of(&self, config: &RecorderConfig) -> bool {
        let window_ns = config.window_ns..config.end_ns;
        let arrivals = self.arrivals.as_ref().map(ArrivalStats::window_ns);
        self.config == *config
            && arrivals == config.scheduled.then_some(window_ns)
            && self.parts.len() == config.parts()
            && self.endpoints.len() == config.endpoints()
            && self.checks.len() == config.checks()
            && self.scenarios.are_of(config.scenario_firsts.len(), config.steps())
            && self.parts.iter().all(|part| part.slowest.is_of(config.slowest))
            && self.slowest.is_of(if self.parts.is_empty() { config.slowest } else { 0 })
    }

    /// Adds another shard's numbers; exact, in any order.
    pub fn merge(&mut self, other: Recorder) {
        self.times += other.times;
        self.series.merge(&other.series);
        self.in_flight.merge(&other.in_flight);
        if let (Some(mine), Some(theirs)) = (&mut self.arrivals, &other.arrivals) {
            mine.merge(theirs);
        }
        self.counts += other.counts;
        self.tls += other.tls;
        self.streams += other.streams;
        for (mine, theirs) in self.parts.iter_mut().zip(other.parts) {
            *mine += theirs;
        }
        for (mine, theirs) in self.endpoints.iter_mut().zip(other.endpoints) {
            *mine += theirs;
        }
        self.slowest += other.slowest;
        self.scenarios.merge(other.scenarios);
        for (mine, theirs) in self.checks.iter_mut().zip(other.checks) {
            *mine += theirs;
        }
    }
}
