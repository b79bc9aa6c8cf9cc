//! Arithmetic of queues: when a target that stalls or pauses serves each request of a known
//! schedule, over a number of connections.
//!
//! Pure: no clock, no chance. Users come at equal gaps; their waits follow, request by request,
//! over all possible phases of the stalls. The closed form beside it counts a connection's turns.

use serde::{Deserialize, Serialize};

use super::latencies::quantile;
use crate::truth::{BUCKET, Band};

/// Phases of the stalls relative to the arrivals for which a run's percentile is computed.
const PHASES: u32 = 32;
/// From one phase to the next, as a share of a period: the golden ratio spreads any number evenly.
const PHASE_STEP: f64 = 0.618_033_988_75;

/// Users who wait for each other at a target that stalls. All numbers are as the definition of an
/// experiment has them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Queue {
    /// From the start of one stall to the start of the next.
    period_ms: f64,
    /// The length of each; a request that arrives in one waits for its end.
    stall_ms: f64,
    /// The window in which requests are counted. It begins a period after the first arrival, when
    /// the backlog no longer depends on the start.
    window_s: f64,
    /// The users, each with connections of its own.
    users: f64,
    /// The connections of each.
    conns: f64,
    /// From one request of a user to the next.
    gap_ms: f64,
    /// How long a request takes outside of stalls: as configured, and as measured.
    service_ms: [f64; 2],
    /// How late requests may be beyond that.
    late_ms: f64,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Served {
    /// From when it was due to when it was sent.
    pub(super) waited_ms: f64,
    /// From when it was sent.
    pub(super) naive_ms: f64,
    /// From when it was due.
    pub(super) corrected_ms: f64,
}

impl Served {
    fn new(due_ms: f64, sent_ms: f64, done_ms: f64) -> Served {
        Served {
            waited_ms: sent_ms - due_ms,
            naive_ms: done_ms - sent_ms,
            corrected_ms: done_ms - due_ms,
        }
    }
}

impl Queue {
    /// The corrected p99 over all possible phases of the stalls: the least if a request takes just
    /// what is configured, and the most if it takes its measured time.
    pub(super) fn p99(&self) -> Band {
        let p99s = self.service_ms.map(|service_ms| {
            let phases = (0..PHASES).map(|phase| (f64::from(phase) * PHASE_STEP).fract());
            let p99 = |phase| {
                let served = self.served(phase * self.period_ms, service_ms);
                p99_ms(&served, |one| one.corrected_ms)
            };
            phases.map(p99).collect::<Vec<f64>>()
        });
        let [least, most] = &p99s;
        Band {
            low_ms: least.iter().copied().fold(f64::INFINITY, f64::min) * (1.0 - BUCKET),
            expected_ms: most.iter().sum::<f64>() / most.len() as f64,
            high_ms: most.iter().copied().fold(0.0, f64::max) * (1.0 + BUCKET) + self.late_ms,
        }
    }

    /// The requests of the window, if the first stall begins at this time: a request takes the
    /// first free connection of its user, arrives at once, and is answered after the end of the
    /// stall that it arrives in, if any. The users' requests are spread evenly.
    fn served(&self, first_ms: f64, service_ms: f64) -> Vec<Served> {
        let end_ms = self.period_ms + self.window_s * 1e3;
        let mut served = Vec::new();
        for user in 0..whole(self.users) {
            let mut free_ms = vec![0.0_f64; whole(self.conns)];
            let phase_ms = self.gap_ms * user as f64 / self.users;
            let due_ms = (0..).map(|at| phase_ms + f64::from(at) * self.gap_ms);
            for due_ms in due_ms.take_while(|due_ms| *due_ms < end_ms) {
                let first = free_ms.iter_mut().min_by(|one, other| one.total_cmp(other));
                let first = first.expect("there are connections");
                let sent_ms = due_ms.max(*first);
                *first = self.free_from(first_ms, sent_ms) + service_ms;
                if self.period_ms <= due_ms {
                    served.push(Served::new(due_ms, sent_ms, *first));
                }
            }
        }
        served
    }

    /// The first time from `at_ms` on that is in no stall.
    fn free_from(&self, first_ms: f64, at_ms: f64) -> f64 {
        let since_ms = at_ms - first_ms;
        let in_period_ms = since_ms.rem_euclid(self.period_ms);
        if 0.0 <= since_ms && in_period_ms < self.stall_ms {
            at_ms + self.stall_ms - in_period_ms
        } else {
            at_ms
        }
    }
}

/// The p99 where a connection has a request every T: the first one due in a stall is due at any
/// moment u of its first T and waits until its end, S − u; each later one waits T − d less. So `P(1
/// − q) = Σ min(max(y − k(T − d), 0), T)` over k from 0, where y is how far the latency lies below
/// d + S.
pub(super) fn closed_form_ms(period_ms: f64, stall_ms: f64, every_ms: f64, service_ms: f64) -> f64 {
    let beyond_ms = period_ms * 0.01;
    let gains_ms = every_ms - service_ms;
    if gains_ms <= 0.0 {
        return f64::INFINITY;
    }
    let above_ms = |y_ms: f64| -> f64 {
        let later = (0..).map(|k| y_ms - f64::from(k) * gains_ms);
        later.take_while(|ms| 0.0 < *ms).map(|ms| ms.min(every_ms)).sum()
    };
    // The sum grows with y, so bisection finds it.
    let (mut low_ms, mut high_ms) = (0.0, stall_ms);
    for _ in 0..64 {
        let middle_ms = f64::midpoint(low_ms, high_ms);
        if above_ms(middle_ms) < beyond_ms {
            low_ms = middle_ms;
        } else {
            high_ms = middle_ms;
        }
    }
    service_ms + stall_ms - low_ms
}

/// A number of users or connections.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
fn whole(number: f64) -> usize {
    number as usize
}

/// One server, in order: `service_ms` per request, but every `every`th takes a pause. Users at
/// equal gaps; a request is sent when the one before it is answered.
pub(super) fn pausing(
    rate_per_s: f64,
    requests: usize,
    service_ms: f64,
    (every, pause_ms): (usize, f64),
) -> Vec<Served> {
    let mut free_ms = 0.0_f64;
    let of = |at: usize| {
        let due_ms = at as f64 * 1e3 / rate_per_s;
        let takes_ms = if (at + 1).is_multiple_of(every) { pause_ms } else { service_ms };
        let sent_ms = due_ms.max(free_ms);
        free_ms = sent_ms + takes_ms;
        Served::new(due_ms, sent_ms, free_ms)
    };
    (0..requests).map(of).collect()
}

fn p99_ms(served: &[Served], of: impl Fn(&Served) -> f64) -> f64 {
    let mut values: Vec<f64> = served.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.99)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users at 1,000 a second together.
    fn queue(users: f64, conns: f64) -> Queue {
        Queue {
            period_ms: 1_000.0,
            stall_ms: 50.0,
            window_s: 39.0,
            users,
            conns,
            gap_ms: users,
            service_ms: [5.0, 5.0],
            late_ms: 0.0,
        }
    }

    #[test]
    fn without_a_cap_all_wait_only_for_the_end_of_the_stall() {
        let served = queue(1.0, 500.0).served(0.0, 5.0);
        assert_eq!(p99_ms(&served, |one| one.corrected_ms), 45.0);
        assert_eq!(p99_ms(&served, |one| one.naive_ms), 45.0);
    }

    #[test]
    fn few_connections_hide_the_stall_and_make_a_backlog() {
        // Load 5/6: d + S − (1 − ρ)P(1 − q) = 53.3; six at a time move it by less than a service
        // time.
        let served = queue(1.0, 6.0).served(0.0, 5.0);
        assert_eq!(p99_ms(&served, |one| one.naive_ms), 5.0);
        let corrected = p99_ms(&served, |one| one.corrected_ms);
        assert!((corrected - 53.33).abs() < 5.0, "{corrected}");
    }

    #[test]
    fn paced_users_catch_up_one_by_one() {
        // Each user's first request of a stall waits for its end, and each later one waits 2 ms
        // less than the one before: out of ten in a thousand, the last has 50 ms. The closed form
        // has 52.1, since its users come at every moment.
        let served = queue(7.0, 1.0).served(0.0, 5.0);
        assert_eq!(p99_ms(&served, |one| one.naive_ms), 5.0);
        assert_eq!(p99_ms(&served, |one| one.corrected_ms), 50.0);
    }

    #[test]
    fn arrivals_at_the_edges_of_a_stall() {
        let queue = queue(1.0, 1.0);
        let free = [9.0, 10.0, 59.0, 60.0, 1_010.0].map(|at| queue.free_from(10.0, at));
        assert_eq!(free, [9.0, 60.0, 60.0, 60.0, 1_060.0]);
    }

    #[test]
    fn the_closed_form_of_users_in_turn_counts_their_requests() {
        let p99_ms = |service_ms| closed_form_ms(1_000.0, 50.0, 7.0, service_ms);
        // Three of a user's requests are affected: y + (y − 2) + (y − 4) = 10.
        assert!((p99_ms(5.0) - (55.0 - 16.0 / 3.0)).abs() < 1e-9);
        // Slower ones gain less: y + (y − 1.5) + (y − 3) + (y − 4.5) = 10.
        assert!((p99_ms(5.5) - (55.5 - 19.0 / 4.0)).abs() < 1e-9);
        // A connection that is never free again.
        assert_eq!(p99_ms(7.0), f64::INFINITY);
    }
}
