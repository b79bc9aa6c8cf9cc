//! The outcomes and latencies of the requests of one step in one stage.
//!
//! Parts are recorded beside the whole, and only if there are several, so one request on one route
//! at one rate pays nothing for them. Every report checks the sum of the parts against the whole.
//! `PARTS_MAX` of the plan bounds their memory.

use derive_more::AddAssign;
use serde::{Deserialize, Serialize};

use crate::counts::Counts;
use crate::outcome::{Outcome, UnsentReason};
use crate::part_series::PartSeries;
use crate::slowest::Slowest;
use crate::times::Latencies;

/// The requests of one step that were due in one stage of the window; the whole contains them too.
#[derive(AddAssign, Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// Counts of outcomes, and of arrivals at the cap; what doesn't belong to single requests, such
    /// as connects, is counted only in the whole.
    pub counts: Counts,
    /// Bytes of responses to these requests, complete or not, with their heads and without TLS.
    pub received_bytes: u64,
    /// Bytes of those of the requests that were sent completely, with their heads and without TLS.
    pub sent_bytes: u64,
    /// How many of these requests each arrival at the cap found in flight, added up over all
    /// arrivals at the cap. Wraps while requests are in flight, since what left is taken off
    /// before the next arrival adds it.
    pub held: u64,
    /// The latencies of those that have one.
    pub latencies: Latencies,
    /// The same over time.
    pub series: PartSeries,
    /// The slowest of these.
    pub slowest: Slowest,
}

impl Part {
    /// No requests of a stage of this length, ns, or 0 if it isn't known, with room for so many slow
    /// ones; all memory for recording is allocated.
    pub fn new(stage_ns: u64, slowest: usize) -> Part {
        Part {
            counts: Counts::preallocated(),
            received_bytes: 0,
            sent_bytes: 0,
            held: 0,
            latencies: Latencies::default(),
            series: PartSeries::new(stage_ns),
            slowest: Slowest::of_at_most(slowest),
        }
    }

    /// Records a request's end, which implies that it was intended, and sent; it was due `at_ns`
    /// after the start of the stage.
    #[inline]
    pub(super) fn ended(
        &mut self,
        at_ns: u64,
        naive_ns: u64,
        corrected_ns: u64,
        outcome: Outcome,
        is_success: bool,
    ) {
        self.series.ended(at_ns, corrected_ns, outcome, is_success);
        self.counts.intended += 1;
        self.counts.ended(outcome);
        if let Outcome::Answered(_) = outcome {
            self.counts.unexpected_status += u64::from(!is_success);
        }
        match outcome {
            Outcome::Unsent(_) if outcome.has_latency() => {
                self.latencies.record_unsent(corrected_ns, 1);
            }
            Outcome::Unsent(_) => {}
            _ => {
                self.counts.sent += 1;
                if outcome.has_latency() {
                    self.latencies.record(naive_ns, corrected_ns);
                }
            }
        }
    }

    /// A request takes a connection after `capped` arrivals at the cap. The arrivals that find it
    /// in flight are those counted between this and [`Part::freed`], so subtracting the count here
    /// and adding it there needs no memory per request.
    pub(super) fn taken(&mut self, capped: u64) {
        self.held = self.held.wrapping_sub(capped);
    }

    /// A request no longer needs its connection, after `capped` arrivals at the cap.
    pub(super) fn freed(&mut self, capped: u64) {
        self.held = self.held.wrapping_add(capped);
    }

    /// Records `count` requests given up unsent, with this age if it counts as a latency; they were
    /// due `at_ns` after the start of the stage.
    pub(super) fn unsent(
        &mut self,
        at_ns: u64,
        age_ns: Option<u64>,
        reason: UnsentReason,
        count: u64,
    ) {
        self.counts.unsent_n(reason, count);
        self.series.unsent(at_ns, age_ns, count);
        if let Some(age_ns) = age_ns {
            self.latencies.record_unsent(age_ns, count);
        }
    }
}
