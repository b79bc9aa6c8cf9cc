//! A shard's results: each outcome goes to the recorder, the raw samples and the progress; a
//! request due before the window is only counted.

use std::num::NonZeroU32;
use std::sync::Arc;

use load::DueRequest;
use load::schedule::Digest;
use record::counts::Counts;
use record::littles_law::InFlightIntegral;
use record::outcome::{Cause, Outcome, UnsentReason};
use record::recorder::Recorder;
use record::scenario::SessionEnd;
use record::shard_report::ShardReport;
use record::stamps::{Ending, Stamps};
use record::streams::StreamCounts;
use record::times::Latencies;
use record::tls::{Agreed, TlsCounts};
use samples::{Lane, Sampler};
use uring::Ring;

use super::clock::Clock;
use super::meter::ShardMeter;
use super::phases::Phases;
use super::plan::ShardPlan;
use super::progress::{ShardProgress, SharedProgress};
use super::sessions::{After, Own, Sessions};

/// A shard's numbers.
pub(super) struct Recording {
    /// The window's numbers.
    recorder: Recorder,
    meter: ShardMeter,
    /// The progress so far.
    progress: ShardProgress,
    sampler: Option<Sampler>,
    shared: Arc<SharedProgress>,
    /// The sessions: when a request's session began decides whether it is recorded, and in which
    /// stage.
    sessions: Sessions,
    /// Twice the window's naive p99, ns, once it has been asked for.
    slow_ns: Option<u64>,
}

impl Recording {
    /// Empty; the progress is published in `shared`.
    pub(super) fn new(plan: &ShardPlan, shared: Arc<SharedProgress>) -> Recording {
        Recording {
            recorder: Recorder::new(plan.recorder_config.clone()),
            meter: ShardMeter::new(plan.core, plan.recorder_config.window_ns..plan.end_ns),
            progress: ShardProgress::default(),
            sampler: plan.samples.clone().map(Lane::sampler),
            shared,
            sessions: Sessions::new(plan),
            slow_ns: None,
        }
    }

    /// How the shard spends its time.
    #[inline]
    pub(super) fn meter(&mut self) -> &mut ShardMeter {
        &mut self.meter
    }

    /// The counts so far.
    #[inline]
    pub(super) fn counts(&self) -> &Counts {
        &self.recorder.counts
    }

    /// The counters, for events that are counted where they happen.
    #[inline]
    pub(super) fn counts_mut(&mut self) -> &mut Counts {
        &mut self.recorder.counts
    }

    /// The counts of TLS, and the time of its handshakes.
    #[inline]
    pub(super) fn tls_mut(&mut self) -> &mut TlsCounts {
        &mut self.recorder.tls
    }

    /// What HTTP/2 did.
    #[inline]
    pub(super) fn streams_mut(&mut self) -> &mut StreamCounts {
        &mut self.recorder.streams
    }

    /// Whether a request has fallen due, in the setup or since the epoch.
    pub(super) fn has_begun(&self) -> bool {
        0 < self.progress.intended
    }

    /// Setup is over: discards its numbers.
    pub(super) fn restart(&mut self, plan: &ShardPlan) {
        self.slow_ns = None;
        self.sessions.clear();
        self.progress = ShardProgress::default();
        self.recorder.in_flight =
            InFlightIntegral::new(plan.recorder_config.window_ns, plan.end_ns);
    }

    /// The window ends at this time, unless it ends earlier.
    pub(super) fn stop_at(&mut self, end_ns: u64) {
        self.recorder.in_flight.stop_at(end_ns);
        self.meter.stop_at(end_ns);
    }

    /// The sessions.
    #[inline]
    pub(super) fn sessions(&mut self) -> &mut Sessions {
        &mut self.sessions
    }

    /// A session's own connection, if it has had a request.
    pub(super) fn own_of(&self, place: NonZeroU32) -> Option<Own> {
        self.sessions.own_of(place)
    }

    /// When the session's user, who waits this long in all, gives up, ns since the epoch.
    pub(super) fn session_over_ns(&self, place: NonZeroU32, deadline_ns: u64) -> u64 {
        self.sessions.over_ns(place, deadline_ns)
    }

    /// An arrival waited since no more sessions could begin.
    pub(super) fn waited_for_session(&mut self, phases: &Phases, due: &DueRequest) {
        if phases.is_recorded(due.intended_ns) {
            self.recorder.counts.capped_sessions += 1;
        }
    }

    /// True if some scenario has several steps.
    #[inline]
    pub(super) fn uses_sessions(&self) -> bool {
        self.sessions.are_used()
    }

    /// True if no more sessions can begin.
    #[inline]
    pub(super) fn has_all_sessions(&self) -> bool {
        self.sessions.is_full()
    }

    /// The number of open sessions of this user of a closed model.
    pub(super) fn sessions_of(&self, user: usize) -> usize {
        self.sessions.of_user(user)
    }

    /// The number of open sessions.
    pub(super) fn open_sessions(&self) -> usize {
        self.sessions.open()
    }

    /// When the request's session was due, or the request itself if it has none, ns since the
    /// epoch.
    #[inline]
    fn began_ns(&self, stamps: &Stamps) -> u64 {
        self.sessions.began_ns(stamps.session, stamps.intended_ns)
    }

    /// True if a request with these stamps is recorded.
    #[inline]
    pub(super) fn is_recorded(&self, phases: &Phases, stamps: &Stamps) -> bool {
        phases.is_recorded(self.began_ns(stamps))
    }

    /// A request fell due: at this time, or in this session.
    #[inline]
    pub(super) fn intended(
        &mut self,
        phases: &Phases,
        (intended_ns, session): (u64, Option<NonZeroU32>),
    ) {
        self.progress.intended += 1;
        let began_ns = self.sessions.began_ns(session, intended_ns);
        if phases.is_recorded(began_ns) {
            self.recorder.intended(began_ns, began_ns != intended_ns);
        }
    }

    /// A connection to this endpoint was opened from `since_ns` to `socket_ns`.
    pub(super) fn connected(
        &mut self,
        endpoint: u16,
        since_ns: u64,
        socket_ns: u64,
        in_window: bool,
    ) {
        self.recorder.connected(usize::from(endpoint), since_ns, socket_ns, in_window);
    }

    /// A connection to this endpoint couldn't be opened.
    pub(super) fn not_connected(&mut self, endpoint: u16, cause: Cause) {
        self.recorder.not_connected(usize::from(endpoint), cause);
    }

    /// A connection to this endpoint makes room for one to another.
    pub(super) fn yielded(&mut self, endpoint: u16) {
        self.recorder.yielded(usize::from(endpoint));
    }

    /// A handshake ended; `took_ns` is its length if it was in the window.
    pub(super) fn shook_hands(&mut self, agreed: Agreed, resumed: bool, took_ns: Option<u64>) {
        self.recorder.tls.shook_hands(agreed, resumed);
        if let Some(took_ns) = took_ns {
            self.recorder.times.handshake_time.record(took_ns);
        }
    }

    /// A request with this corrected latency waited for the generator to open its connection.
    pub(super) fn opened(&mut self, latency_ns: u64) {
        self.recorder.times.added.opened(latency_ns);
    }

    /// The number of requests in flight at this moment.
    #[inline]
    pub(super) fn in_flight(&mut self, now_ns: u64, in_flight: usize) {
        self.recorder.in_flight.pass(now_ns, in_flight);
    }

    /// A request's stay on the wire has ended.
    #[inline]
    pub(super) fn stayed(&mut self, sent_ns: u64, received_ns: u64, handled_ns: u64) {
        self.recorder.in_flight.stay(sent_ns, received_ns, handled_ns);
    }

    /// A user's request was ready at `ready_ns`, and is sent at `sent_ns`.
    #[inline]
    pub(super) fn queued(&mut self, ready_ns: u64, sent_ns: u64) {
        self.recorder.in_flight.queued(ready_ns, sent_ns);
    }

    /// `count` requests with these stamps were never sent, and aren't handled one by one: they
    /// waited for connections, at the cap or not, and have no raw samples.
    pub(super) fn unsent(
        &mut self,
        stamps: &Stamps,
        over_ns: u64,
        reason: UnsentReason,
        (count, at_the_cap): (u64, bool),
    ) {
        self.progress.intended += count;
        self.recorder.unsent(stamps, over_ns, reason, count);
        self.recorder.waited(stamps.step, stamps.intended_ns, count, at_the_cap);
        if let Some(sampler) = &mut self.sampler {
            sampler.lose(count);
        }
    }

    /// A request waits for a connection; `at_the_cap` if none can be opened for it.
    pub(super) fn waited(&mut self, phases: &Phases, due: &DueRequest, at_the_cap: bool) {
        let began_ns = self.sessions.began_ns(due.session, due.intended_ns);
        if phases.is_recorded(began_ns) {
            self.recorder.waited(due.step, began_ns, 1, at_the_cap);
        }
    }

    /// True if requests are recorded by parts too.
    #[inline]
    pub(super) fn has_parts(&self) -> bool {
        self.recorder.has_parts()
    }

    /// A request is sent, and has its connection from now on; there must be parts.
    pub(super) fn connection_taken(&mut self, stamps: &Stamps) {
        self.recorder.connection_taken(self.began_ns(stamps), stamps.step);
    }

    /// A request that was sent has ended; there must be parts.
    pub(super) fn connection_freed(&mut self, stamps: &Stamps) {
        self.recorder.connection_freed(self.began_ns(stamps), stamps.step);
    }

    /// Bytes of a request have left; there must be parts.
    pub(super) fn bytes_sent(&mut self, phases: &Phases, stamps: &Stamps, bytes: usize) {
        let began_ns = self.began_ns(stamps);
        if phases.is_recorded(began_ns) {
            self.recorder.bytes_sent(began_ns, stamps.step, bytes);
        }
    }

    /// Bytes of the response to a request have arrived; there must be parts.
    pub(super) fn bytes_received(&mut self, phases: &Phases, stamps: &Stamps, bytes: usize) {
        let began_ns = self.began_ns(stamps);
        if phases.is_recorded(began_ns) {
            self.recorder.bytes_received(began_ns, stamps.step, bytes);
        }
    }

    /// A request was sent, `together` with others of its connection.
    pub(super) fn sent(&mut self, phases: &Phases, stamps: &Stamps, together: bool) {
        if phases.running() {
            self.meter.sent(stamps.intended_ns, stamps.sent_ns);
        }
        let began_ns = self.began_ns(stamps);
        if phases.is_recorded(began_ns) {
            self.recorder.sent(began_ns, stamps, stamps.sent_ns <= phases.end_ns());
            self.recorder.counts.shared_sends += u64::from(together);
        } else {
            self.unrecorded_sent(phases, Some(stamps.sent_ns));
        }
    }

    /// A request had no connection, because none could be opened.
    pub(super) fn unconnected(&mut self, phases: &Phases, stamps: &Stamps) {
        let began_ns = self.began_ns(stamps);
        if phases.is_recorded(began_ns) {
            self.recorder.unconnected(began_ns, stamps);
        } else {
            self.unrecorded_sent(phases, None);
        }
    }

    /// A sampled request has ended; it left the host at `left_ns`, if the kernel stamped that.
    pub(super) fn left(&mut self, phases: &Phases, stamps: &Stamps, left_ns: Option<u64>) {
        // Read before the window too, or their stamps would queue ahead of the window's.
        if !self.is_recorded(phases, stamps) {
            return;
        }
        // The two clocks are read one after the other, so the stamp may appear slightly early.
        let path_ns = left_ns.map(|left_ns| left_ns.saturating_sub(stamps.sent_ns));
        self.recorder.left(path_ns);
        if let Some(path_ns) = path_ns {
            self.progress.lateness.send_path.record(path_ns);
        }
    }

    /// The request with this number got its outcome.
    pub(super) fn ended(
        &mut self,
        phases: &Phases,
        number: u64,
        stamps: &Stamps,
        ending: Ending,
        outcome: Outcome,
    ) {
        let began_ns = self.began_ns(stamps);
        let due_in_window = phases.is_recorded(began_ns);
        self.progress.ended(stamps, ending, outcome, due_in_window);
        let mut is_good = false;
        if due_in_window {
            let in_window = ending.ended_ns() <= phases.end_ns();
            let request = (number, began_ns);
            is_good = self.recorder.ended(request, stamps, ending, in_window, outcome);
            if let Some(sampler) = &mut self.sampler {
                sampler.push(number, stamps, ending, outcome);
            }
        } else {
            self.unrecorded_ended(phases, ending, outcome);
        }
        if self.sessions.are_used() {
            self.step_ended(stamps, (began_ns, due_in_window), ending, outcome, is_good);
        }
    }

    /// A request that may be a session's got its outcome: the session goes on, or ends.
    // A request without sessions shouldn't pay for a longer function.
    #[inline(never)]
    fn step_ended(
        &mut self,
        stamps: &Stamps,
        (began_ns, is_recorded): (u64, bool),
        ending: Ending,
        outcome: Outcome,
        mut is_good: bool,
    ) {
        let Stamps { step, session, .. } = *stamps;
        let config = self.recorder.config();
        if !is_recorded && let Outcome::Answered(status) = outcome {
            is_good = config.success_of(step).holds(status);
        }
        if is_good && self.sessions.answered(stamps, ending.handled_ns) == After::Step {
            return;
        }
        if is_recorded {
            let end = SessionEnd::of(step, outcome, is_good, config.is_first(step));
            let thought_ns = session.map_or(0, |place| self.sessions.thought_ns(place));
            let took_ns = || ending.ended_ns().saturating_sub(began_ns + thought_ns);
            self.recorder.session_ended(step, end, outcome.has_latency().then(took_ns));
        }
        if let Some(place) = session {
            self.sessions.end(place);
        }
    }

    /// The run is over: the sessions that still think don't go on. Each counts with the time that
    /// it took so far.
    pub(super) fn end_sessions(&mut self, phases: &Phases) {
        while let Some((due_ns, place, step)) = self.sessions.take_thinking() {
            let began_ns = self.sessions.began_ns(Some(place), due_ns);
            if phases.is_recorded(began_ns) {
                let took_ns = due_ns - began_ns - self.sessions.thought_ns(place);
                self.recorder.session_ended(step, SessionEnd::Unfinished(step), Some(took_ns));
            }
            self.sessions.end(place);
        }
        // Those whose step was withdrawn as the lease ended; a first one was never due.
        while let Some((began_ns, place, step)) = self.sessions.first_stuck() {
            if phases.is_recorded(began_ns) && !self.recorder.config().is_first(step) {
                self.recorder.session_ended(step, SessionEnd::Unfinished(step), None);
            }
            self.sessions.end(place);
        }
    }

    /// Counts a request that was due before the window as sent; `sent_ns` is `None` if it never had
    /// a connection.
    fn unrecorded_sent(&mut self, phases: &Phases, sent_ns: Option<u64>) {
        let counts = &mut self.recorder.counts;
        if phases.running() {
            let in_window = sent_ns.is_some_and(|sent_ns| is_in_window(phases, sent_ns));
            counts.warmup.sent += 1;
            counts.warmup.sent_in_window += u64::from(in_window);
        } else {
            counts.setup.sent += 1;
        }
    }

    fn unrecorded_ended(&mut self, phases: &Phases, ending: Ending, outcome: Outcome) {
        let counts = &mut self.recorder.counts;
        if phases.running() {
            counts.warmup.ended(outcome, is_in_window(phases, ending.ended_ns()));
        } else {
            counts.setup.ended(outcome);
        }
    }

    /// About twice the window's naive p99, ns; 0 without a response. For use after the window.
    pub(super) fn slow_ns(&mut self) -> u64 {
        let times = &self.recorder.times;
        *self.slow_ns.get_or_insert_with(|| {
            let most_ns = |latencies: &Latencies| latencies.naive_about_ns(0.99);
            2 * most_ns(&times.successes).or_else(|| most_ns(&times.others)).unwrap_or(0)
        })
    }

    /// Publishes the progress, with this number of requests in flight.
    pub(super) fn show(&mut self, clock: &Clock, phases: &Phases, now_ns: u64, in_flight: usize) {
        let in_flight = in_flight as u64;
        self.progress.in_flight = in_flight;
        self.progress.counts = self.recorder.counts.so_far();
        self.progress.time = self.meter.time(clock.monotonic_ns(now_ns));
        self.shared.show(&self.progress);
        if phases.window_ns() <= now_ns && now_ns < phases.end_ns() {
            self.recorder.series.in_flight(now_ns - phases.window_ns(), in_flight);
        }
    }

    /// The shard's report, with the counts of the ring and the clock.
    pub(super) fn report(mut self, digest: Digest, ring: &Ring, clock: &Clock) -> ShardReport {
        self.meter.buffers_exhausted = ring.buffers_exhausted();
        let stats = self.meter.report(&self.recorder.counts, ring.overflows(), clock.steps());
        let sampled = self.sampler.map(Sampler::finish);
        ShardReport { recorder: self.recorder, digest, stats, sampled }
    }

    #[cfg(test)]
    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    #[cfg(test)]
    pub(super) fn recorder_mut(&mut self) -> &mut Recorder {
        &mut self.recorder
    }
}

fn is_in_window(phases: &Phases, at_ns: u64) -> bool {
    phases.window_ns() <= at_ns && at_ns <= phases.end_ns()
}
