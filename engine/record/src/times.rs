//! How long things took: the distributions of one shard.
//!
//! Each value is recorded once. Values that several distributions of the report share are added to
//! them at the end, which is exact.

use derive_more::AddAssign;
use serde::{Deserialize, Serialize};
use stats::distribution::Distribution;

use crate::added::Added;
use crate::counts::Counts;
use crate::outcome::UnsentReason;
use crate::stamps::Stamps;

/// The distributions of the report that share values.
#[derive(Clone, Debug)]
pub struct Distributions {
    /// `received − sent`; timed-out and abandoned requests count with the time they lasted.
    pub naive: Distribution,
    /// `received − intended`; unsent requests count with their age when they were given up, except
    /// dropped ones.
    pub corrected: Distribution,
    /// Intended → noticed.
    pub pacer_lateness: Distribution,
    /// Noticed → sent.
    pub connection_wait: Distribution,
}

/// The latencies of a part of the requests.
#[derive(AddAssign, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latencies {
    /// Of requests sent at their intended time: naive and corrected are equal.
    on_time: Distribution,
    /// `received − sent`, of the others.
    naive: Distribution,
    /// `received − intended`, of the others.
    corrected: Distribution,
}

impl Latencies {
    /// A request that was sent ended.
    #[inline]
    pub(super) fn record(&mut self, naive_ns: u64, corrected_ns: u64) {
        if naive_ns == corrected_ns {
            self.on_time.record(naive_ns);
        } else {
            self.naive.record(naive_ns);
            self.corrected.record(corrected_ns);
        }
    }

    /// This many requests were given up unsent, at this age.
    pub(super) fn record_unsent(&mut self, age_ns: u64, requests: u64) {
        self.corrected.record_n(age_ns, requests);
    }

    /// `received − sent`.
    pub fn naive(&self) -> Distribution {
        self.with_on_time(&self.naive)
    }

    /// `received − intended`.
    pub fn corrected(&self) -> Distribution {
        self.with_on_time(&self.corrected)
    }

    /// The approximate naive quantile `q`, without an allocation: that of the requests sent on
    /// time, or of the others if they are more.
    pub fn naive_about_ns(&self, q: f64) -> Option<u64> {
        let is_more = self.naive.count() <= self.on_time.count();
        (if is_more { &self.on_time } else { &self.naive }).quantile_ns(q)
    }

    fn with_on_time(&self, of_others: &Distribution) -> Distribution {
        let mut whole = of_others.clone();
        whole.merge(&self.on_time);
        whole
    }
}

/// How long things took.
#[derive(AddAssign, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Times {
    /// The latencies of successes.
    pub successes: Latencies,
    /// The latencies of all other requests that have one.
    pub others: Latencies,
    /// Requests sent at their intended time: each stands for a zero in both of the next two.
    on_time: u64,
    /// Intended → noticed, of the others.
    pacer_lateness: Distribution,
    /// Noticed → sent, of the others.
    connection_wait: Distribution,
    /// The generator's part of `corrected` before the request was sent or given up.
    pub added: Added,
    /// Sent → left the host, of the sampled requests.
    pub send_path: Distribution,
    /// Received → handled, of responses that the kernel stamped.
    pub receive_lateness: Distribution,
    /// `handled − intended`: what `corrected` would be by the program's stamps alone.
    pub corrected_when_handled: Distribution,
    /// Connect → connected, of connections opened during the window.
    pub connect_time: Distribution,
    /// TCP connection established → TLS handshake done, of the same.
    pub handshake_time: Distribution,
}

impl Times {
    /// A request was sent.
    #[inline]
    pub(super) fn sent(&mut self, stamps: &Stamps) {
        if stamps.sent_ns == stamps.intended_ns {
            self.on_time += 1;
        } else {
            self.pacer_lateness.record(stamps.noticed_ns - stamps.intended_ns);
            self.connection_wait.record(stamps.sent_ns - stamps.noticed_ns);
        }
    }

    /// True if these are the times of this many requests, each with the values that its outcome
    /// implies.
    pub fn are_of(&self, counts: &Counts) -> bool {
        let sum = |of: fn(&Latencies) -> &Distribution| {
            [&self.successes, &self.others].into_iter().fold(0_u64, |sum, latencies| {
                let own = latencies.on_time.count().saturating_add(of(latencies).count());
                sum.saturating_add(own)
            })
        };
        let with_zeros = |of: &Distribution| of.count().saturating_add(self.on_time);
        let not_failed = |count: u64| count.checked_sub(counts.failed);
        let dropped = counts.unsent_reasons.of(UnsentReason::Dropped);
        let with_latency = not_failed(counts.intended).and_then(|rest| rest.checked_sub(dropped));
        not_failed(counts.sent) == Some(sum(|latencies| &latencies.naive))
            && with_latency == Some(sum(|latencies| &latencies.corrected))
            && with_zeros(&self.pacer_lateness) == counts.sent
            && with_zeros(&self.connection_wait) == counts.sent
    }

    /// The distributions that share values.
    pub fn distributions(&self) -> Distributions {
        let with_zeros = |distribution: &Distribution| {
            let mut whole = distribution.clone();
            whole.record_n(0, self.on_time);
            whole
        };
        let mut all = self.successes.clone();
        all += self.others.clone();
        Distributions {
            naive: all.naive(),
            corrected: all.corrected(),
            pacer_lateness: with_zeros(&self.pacer_lateness),
            connection_wait: with_zeros(&self.connection_wait),
        }
    }
}
