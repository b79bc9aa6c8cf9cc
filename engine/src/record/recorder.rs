//! Where outcomes become numbers: the distributions and counters of one shard.
//!
//! The recorder decides nothing and reads no clock: the shard hands it the stamps and the outcome of a request of the
//! window, exactly once each.

use crate::plan::status::{STATUS_MAX, StatusSet};
use crate::plan::{Model, Plan};
use crate::record::littles_law::InFlightIntegral;
use crate::record::outcome::{CauseCounts, Outcome};
use crate::record::series::Series;
use crate::record::stamps::Stamps;
use crate::stats::arrivals::ArrivalStats;
use crate::stats::distribution::Distribution;

/// How a recorder looks at what it is given: plain data from the plan.
#[derive(Clone, Debug, Default)]
pub struct RecorderConfig {
    /// Start of the window, ns since the epoch.
    pub window_ns: u64,
    /// End of the window as planned, ns since the epoch.
    pub end_ns: u64,
    /// Whether the requests come by a schedule, in order: then their arrivals are kept as evidence.
    pub scheduled: bool,
    /// Which statuses are successes.
    pub success: StatusSet,
    /// Back-fill the corrected distribution with this interval, instead of using the intended times.
    pub backfill_ns: Option<u64>,
}

impl RecorderConfig {
    /// How a completed plan's requests are looked at.
    pub fn of_plan(plan: &Plan) -> RecorderConfig {
        RecorderConfig {
            window_ns: plan.warmup.0,
            end_ns: plan.end_ns(),
            scheduled: plan.model() == Model::Open,
            success: plan.expect_status.clone(),
            backfill_ns: plan.period.filter(|_| !plan.backfill.is_off()).map(|period| period.0),
        }
    }
}

/// The numbers of one shard.
#[derive(Clone, Debug)]
pub struct Recorder {
    config: RecorderConfig,
    /// `received − sent`; timed out and abandoned requests with the time they had lasted.
    pub naive: Distribution,
    /// `received − intended`; the unsent as well, with their age at the end, except those that were dropped.
    pub corrected: Distribution,
    /// Intended → noticed.
    pub pacer_lateness: Distribution,
    /// Noticed → sent.
    pub connection_wait: Distribution,
    /// Connect → connected, of connections opened during the window.
    pub connect_time: Distribution,
    /// The naive latencies of successes.
    pub success_naive: Distribution,
    /// The corrected latencies of successes.
    pub success_corrected: Distribution,
    /// The run over time.
    pub series: Series,
    /// The requests in flight over the window, those of the warm-up that reached into it included.
    pub in_flight: InFlightIntegral,
    /// Evidence of the arrivals of an open model.
    pub arrivals: Option<ArrivalStats>,
    /// Requests due in the window.
    pub intended: u64,
    /// Requests handed to the kernel, or failed for want of a connection.
    pub sent: u64,
    /// Of these, handed to the kernel before the end of the window.
    pub sent_in_window: u64,
    /// Of the sent, those that never had a connection.
    pub unconnected: u64,
    /// Requests never sent.
    pub unsent: u64,
    /// Requests with a whole response.
    pub answered: u64,
    /// Of these, before the end of the window.
    pub answered_in_window: u64,
    /// Requests over at their timeout.
    pub timed_out: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests in flight when the drain ended.
    pub abandoned: u64,
    /// ArrivalStats that found no free connection.
    pub waited: u64,
    /// Of these, when no further connection could be opened.
    pub capped: u64,
    /// Answered requests whose status is no success.
    pub unexpected_status: u64,
    /// Unsent requests by reason: dropped, past their deadline, left at the end.
    pub unsent_reasons: [u64; 3],
    /// Failures and timeouts of requests by cause.
    pub errors: CauseCounts,
    /// Ends of connections that carried no request of the window, by cause.
    pub connection_errors: CauseCounts,
    /// Answered requests by status.
    pub status: Box<[u64; STATUS_MAX]>,
    /// Connections opened.
    pub connects: u64,
    /// Of these, during the window.
    pub connects_in_window: u64,
    /// Requests sent in the set-up.
    pub setup_sent: u64,
    /// Of these, answered.
    pub setup_answered: u64,
    /// Requests sent in the warm-up.
    pub warmup_sent: u64,
    /// Of these, answered.
    pub warmup_answered: u64,
}

impl Recorder {
    /// An empty recorder; all its memory is allocated here.
    pub fn new(config: RecorderConfig) -> Recorder {
        let arrivals = config.scheduled.then(|| ArrivalStats::new(config.window_ns..config.end_ns));
        let series = Series::for_window(config.end_ns.saturating_sub(config.window_ns));
        let in_flight = InFlightIntegral::new(config.window_ns, config.end_ns);
        Recorder {
            config,
            naive: Distribution::new(),
            corrected: Distribution::new(),
            pacer_lateness: Distribution::new(),
            connection_wait: Distribution::new(),
            connect_time: Distribution::new(),
            success_naive: Distribution::new(),
            success_corrected: Distribution::new(),
            series,
            in_flight,
            arrivals,
            intended: 0,
            sent: 0,
            sent_in_window: 0,
            unconnected: 0,
            unsent: 0,
            answered: 0,
            answered_in_window: 0,
            timed_out: 0,
            failed: 0,
            abandoned: 0,
            waited: 0,
            capped: 0,
            unexpected_status: 0,
            unsent_reasons: [0; 3],
            errors: CauseCounts::new(),
            connection_errors: CauseCounts::new(),
            status: Box::new([0; STATUS_MAX]),
            connects: 0,
            connects_in_window: 0,
            setup_sent: 0,
            setup_answered: 0,
            warmup_sent: 0,
            warmup_answered: 0,
        }
    }

    /// A request of the window was due.
    #[inline]
    pub fn intended(&mut self, intended_ns: u64) {
        self.intended += 1;
        self.series.intended(intended_ns - self.config.window_ns);
    }

    /// A request of the window was handed to the kernel.
    #[inline]
    pub fn sent(&mut self, stamps: &Stamps, in_window: bool) {
        self.tried(stamps);
        if in_window {
            self.sent_in_window += 1;
            self.series.send(stamps.sent_ns - self.config.window_ns);
        }
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.record(stamps.intended_ns, stamps.sent_ns);
        }
    }

    /// A request of the window had no connection, because none could be opened: it is about to fail, at `stamps.sent_ns`, and
    /// no arrival at the target.
    pub fn unconnected(&mut self, stamps: &Stamps) {
        self.tried(stamps);
        self.unconnected += 1;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.record_unsent(stamps.intended_ns);
        }
    }

    #[inline]
    fn tried(&mut self, stamps: &Stamps) {
        self.sent += 1;
        self.pacer_lateness.record(stamps.noticed_ns - stamps.intended_ns);
        self.connection_wait.record(stamps.sent_ns - stamps.noticed_ns);
        self.series.sent(stamps.intended_ns - self.config.window_ns);
    }

    /// A request of the window ended at `ended_ns`.
    #[inline]
    pub fn ended(&mut self, stamps: &Stamps, ended_ns: u64, in_window: bool, outcome: Outcome) {
        let corrected_ns = ended_ns - stamps.intended_ns;
        self.series.ended(stamps.intended_ns - self.config.window_ns, corrected_ns, outcome);
        if let Outcome::Unsent(reason) = outcome {
            self.unsent += 1;
            self.unsent_reasons[reason as usize] += 1;
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.record_unsent(stamps.intended_ns);
            }
            if outcome.has_latency() {
                self.corrected.record(corrected_ns);
            }
            return;
        }
        let naive_ns = ended_ns - stamps.sent_ns;
        match outcome {
            Outcome::Answered(status) => {
                self.answered += 1;
                if in_window {
                    self.answered_in_window += 1;
                    self.series.answer(ended_ns - self.config.window_ns);
                }
                self.status[usize::from(status)] += 1;
                if self.config.success.holds(status) {
                    self.success_naive.record(naive_ns);
                    self.success_corrected.record(corrected_ns);
                } else {
                    self.unexpected_status += 1;
                }
            }
            Outcome::TimedOut(patience) => {
                self.timed_out += 1;
                self.errors.add(patience.cause());
            }
            Outcome::Abandoned => self.abandoned += 1,
            Outcome::Failed(cause) => {
                self.failed += 1;
                self.errors.add(cause);
                return;
            }
            Outcome::Unsent(_) => unreachable!("handled above"),
        }
        self.naive.record(naive_ns);
        match self.config.backfill_ns {
            None => self.corrected.record(corrected_ns),
            Some(interval_ns) => self.corrected.record_backfilled(naive_ns, interval_ns),
        }
    }

    /// A connection that began at `since_ns` is open at `at_ns`; with `in_window` the load's growth opened it then.
    pub fn connected(&mut self, since_ns: u64, at_ns: u64, in_window: bool) {
        self.connects += 1;
        if in_window {
            self.connects_in_window += 1;
            self.connect_time.record(at_ns - since_ns);
        }
    }

    /// Adds another shard's numbers: exact, in any order.
    pub fn merge(&mut self, other: &Recorder) {
        self.naive.merge(&other.naive);
        self.corrected.merge(&other.corrected);
        self.pacer_lateness.merge(&other.pacer_lateness);
        self.connection_wait.merge(&other.connection_wait);
        self.connect_time.merge(&other.connect_time);
        self.success_naive.merge(&other.success_naive);
        self.success_corrected.merge(&other.success_corrected);
        self.series.merge(&other.series);
        self.in_flight.merge(&other.in_flight);
        if let (Some(mine), Some(theirs)) = (&mut self.arrivals, &other.arrivals) {
            mine.merge(theirs);
        }
        self.intended += other.intended;
        self.sent += other.sent;
        self.sent_in_window += other.sent_in_window;
        self.unconnected += other.unconnected;
        self.unsent += other.unsent;
        self.answered += other.answered;
        self.answered_in_window += other.answered_in_window;
        self.timed_out += other.timed_out;
        self.failed += other.failed;
        self.abandoned += other.abandoned;
        self.waited += other.waited;
        self.capped += other.capped;
        self.unexpected_status += other.unexpected_status;
        for (mine, theirs) in self.unsent_reasons.iter_mut().zip(other.unsent_reasons) {
            *mine += theirs;
        }
        self.errors.merge(&other.errors);
        self.connection_errors.merge(&other.connection_errors);
        for (mine, theirs) in self.status.iter_mut().zip(other.status.iter()) {
            *mine += theirs;
        }
        self.connects += other.connects;
        self.connects_in_window += other.connects_in_window;
        self.setup_sent += other.setup_sent;
        self.setup_answered += other.setup_answered;
        self.warmup_sent += other.warmup_sent;
        self.warmup_answered += other.warmup_answered;
    }
}
