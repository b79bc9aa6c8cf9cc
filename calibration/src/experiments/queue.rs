//! Arithmetic of queues: when a target that stalls or pauses serves each request of a known
//! schedule, over a number of connections.
//!
//! Pure: no clock, no chance. Users come at equal gaps; their waits follow, request by request,
//! over all possible phases of the stalls. The closed form beside it counts a connection's turns.

use crate::lab::latencies::quantile;

/// Stalls: each request that arrives in one waits for its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// The start of the first, ms.
    pub(super) first_ms: f64,
    /// From the start of one to the start of the next.
    pub(super) period_ms: f64,
    /// The length of each.
    pub(super) stall_ms: f64,
    /// The window in which requests are counted. It begins a period after the first arrival, when
    /// the backlog no longer depends on the start.
    pub(super) window_ms: f64,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Served {
    /// From when it was sent.
    pub(super) naive_ms: f64,
    /// From when it was due.
    pub(super) corrected_ms: f64,
}

impl Grid {
    /// The first time from `at_ms` on that is in no stall.
    fn free_from(&self, at_ms: f64) -> f64 {
        let since_ms = at_ms - self.first_ms;
        let in_period_ms = since_ms.rem_euclid(self.period_ms);
        if 0.0 <= since_ms && in_period_ms < self.stall_ms {
            at_ms + self.stall_ms - in_period_ms
        } else {
            at_ms
        }
    }
}

/// Users at equal gaps share connections: a request takes the first free one, arrives at once, and
/// is answered `service_ms` after the end of the stall that it arrives in, if any.
pub(super) fn pool(grid: &Grid, rate_per_s: f64, conns: usize, service_ms: f64) -> Vec<Served> {
    let gap_ms = 1e3 / rate_per_s;
    serve(grid, (0..).map(|at| f64::from(at) * gap_ms), conns, service_ms)
}

/// Each user has a connection, and a request due once a period.
pub(super) fn paced(grid: &Grid, period_ms: f64, users: usize, service_ms: f64) -> Vec<Served> {
    let each = (0..users).flat_map(|user| {
        let phase_ms = period_ms * user as f64 / users as f64;
        serve(grid, (0..).map(move |at| phase_ms + f64::from(at) * period_ms), 1, service_ms)
    });
    each.collect()
}

fn serve(
    grid: &Grid,
    arrivals_ms: impl Iterator<Item = f64>,
    conns: usize,
    service_ms: f64,
) -> Vec<Served> {
    let mut free_ms = vec![0.0_f64; conns];
    let end_ms = grid.period_ms + grid.window_ms;
    let mut served = Vec::new();
    for due_ms in arrivals_ms.take_while(|due_ms| *due_ms < end_ms) {
        let first = free_ms.iter_mut().min_by(|one, other| one.total_cmp(other));
        let first = first.expect("there are connections");
        let sent_ms = due_ms.max(*first);
        let done_ms = grid.free_from(sent_ms) + service_ms;
        *first = done_ms;
        if grid.period_ms <= due_ms {
            served.push(Served { naive_ms: done_ms - sent_ms, corrected_ms: done_ms - due_ms });
        }
    }
    served
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
        let begun_ms = due_ms.max(free_ms);
        free_ms = begun_ms + takes_ms;
        Served { naive_ms: takes_ms, corrected_ms: free_ms - due_ms }
    };
    (0..requests).map(of).collect()
}

/// A quantile of the served requests, by rank ⌈q·n⌉.
pub(super) fn quantile_ms(served: &[Served], q: f64, of: impl Fn(&Served) -> f64) -> f64 {
    let mut values: Vec<f64> = served.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    quantile(&values, q)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid =
        Grid { first_ms: 0.0, period_ms: 1_000.0, stall_ms: 50.0, window_ms: 39_000.0 };

    fn p99(served: &[Served], of: fn(&Served) -> f64) -> f64 {
        quantile_ms(served, 0.99, of)
    }

    #[test]
    fn without_a_cap_all_wait_only_for_the_end_of_the_stall() {
        let served = pool(&GRID, 1_000.0, 500, 5.0);
        assert_eq!(p99(&served, |one| one.corrected_ms), 45.0);
        assert_eq!(p99(&served, |one| one.naive_ms), 45.0);
    }

    #[test]
    fn few_connections_hide_the_stall_and_make_a_backlog() {
        // Load 5/6: d + S − (1 − ρ)P(1 − q) = 53.3; six at a time move it by less than a service
        // time.
        let served = pool(&GRID, 1_000.0, 6, 5.0);
        assert_eq!(p99(&served, |one| one.naive_ms), 5.0);
        let corrected = p99(&served, |one| one.corrected_ms);
        assert!((corrected - 53.33).abs() < 5.0, "{corrected}");
    }

    #[test]
    fn paced_users_catch_up_one_by_one() {
        // Each user's first request of a stall waits for its end, and each later one waits 2 ms
        // less than the one before: out of ten in a thousand, the last has 50 ms. The closed form
        // has 52.1, since its users come at every moment.
        let served = paced(&GRID, 7.0, 7, 5.0);
        assert_eq!(p99(&served, |one| one.naive_ms), 5.0);
        assert_eq!(p99(&served, |one| one.corrected_ms), 50.0);
    }

    #[test]
    fn arrivals_at_the_edges_of_a_stall() {
        let grid = Grid { first_ms: 10.0, ..GRID };
        let free = [9.0, 10.0, 59.0, 60.0, 1_010.0].map(|at| grid.free_from(at));
        assert_eq!(free, [9.0, 60.0, 60.0, 60.0, 1_060.0]);
    }
}
