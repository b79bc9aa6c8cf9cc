//! Service model: when each request is due, as arithmetic on the time it was read.
//!
//! It reads no clock, so it is tested to the nanosecond. The crate's documentation states the
//! rules. The resulting latency distributions are those of a hold target, whose latency during a
//! stall is the rest of the stall plus the base latency, and of a FIFO server frozen during stalls.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::config::{Fault, FaultKind, TargetConfig, ns};

/// Periodic stalls: stall `k`, from 1, begins at `start + k · every` and ends just before `hold`
/// later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StallGrid {
    started_ns: u64,
    every_ns: u64,
    hold_ns: u64,
}

impl StallGrid {
    /// The configured stalls, if any, of a target that started at `started_ns`.
    pub(crate) fn new(config: &TargetConfig, started_ns: u64) -> Option<StallGrid> {
        let stall = config.stall?;
        Some(StallGrid { started_ns, every_ns: ns(stall.every), hold_ns: ns(stall.hold) })
    }

    /// The number of stalls that have begun by `now_ns`.
    pub(crate) fn begun(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.started_ns) / self.every_ns
    }

    /// Start and end of stall `k`.
    pub(crate) fn edges(&self, k: u64) -> (u64, u64) {
        let begin_ns = self.started_ns + k * self.every_ns;
        (begin_ns, begin_ns + self.hold_ns)
    }

    /// The first time from `at_ns` on that is outside all stalls.
    fn free_from(&self, at_ns: u64) -> u64 {
        let k = self.begun(at_ns);
        if k == 0 { at_ns } else { at_ns.max(self.edges(k).1) }
    }

    /// When work of `work_ns`, begun at `begin_ns` and frozen during stalls, is done.
    fn done(&self, begin_ns: u64, work_ns: u64) -> u64 {
        if work_ns == 0 {
            return self.free_from(begin_ns);
        }
        // The work is done right after its last nanosecond, which is outside every stall; so work
        // that ends exactly where a stall begins is done before the stall.
        self.moment(self.worked(begin_ns) + work_ns - 1) + 1
    }

    /// Time outside stalls between the start and `at_ns`, ns.
    fn worked(&self, at_ns: u64) -> u64 {
        let since_ns = at_ns.saturating_sub(self.started_ns);
        let periods = since_ns / self.every_ns;
        if periods == 0 {
            return since_ns;
        }
        let in_period_ns = (since_ns % self.every_ns).saturating_sub(self.hold_ns);
        self.every_ns + (periods - 1) * (self.every_ns - self.hold_ns) + in_period_ns
    }

    /// The inverse of [`StallGrid::worked`]: the time outside stalls that is preceded by
    /// `worked_ns` outside stalls.
    fn moment(&self, worked_ns: u64) -> u64 {
        if worked_ns < self.every_ns {
            return self.started_ns + worked_ns;
        }
        let open_ns = self.every_ns - self.hold_ns;
        let beyond_ns = worked_ns - self.every_ns;
        let periods = 1 + beyond_ns / open_ns;
        self.started_ns + periods * self.every_ns + self.hold_ns + beyond_ns % open_ns
    }
}

/// When a request is due, the pause that it causes, and its fault, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// When its response is sent, ns.
    pub(crate) due_ns: u64,
    /// Start and end of the pause, ns.
    pub(crate) pause: Option<(u64, u64)>,
    /// True if the target is still cold.
    pub(crate) cold: bool,
    /// What is to be wrong with its response.
    pub(crate) fault: Option<FaultKind>,
}

/// The server's behaviour and its state: the random generator, and the end of its current work.
#[derive(Debug)]
pub(crate) struct Service {
    base_ns: u64,
    tail_ns: u64,
    tail_fraction: f64,
    random: Xoshiro256PlusPlus,
    stalls: Option<StallGrid>,
    pause_every_requests: u64,
    pause_ns: u64,
    cold_requests: u64,
    cold_ns: u64,
    fault: Option<Fault>,
    serial: bool,
    requests: u64,
    /// The server starts nothing before this: the end of the last pause or, if serial, of the last
    /// service.
    busy_until_ns: u64,
}

impl Service {
    /// The services of executor number `executor` of a target that started at `started_ns`: that
    /// of all other paths, then one for each route.
    pub(crate) fn all(config: &TargetConfig, executor: usize, started_ns: u64) -> Vec<Service> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(config.seed);
        for _ in 0..executor {
            random.jump();
        }
        let mut services = vec![Service::new(config, random.clone(), started_ns)];
        for route in &config.routes {
            random.long_jump();
            services.push(Service::new(&config.of(route), random.clone(), started_ns));
        }
        services
    }

    fn new(config: &TargetConfig, random: Xoshiro256PlusPlus, started_ns: u64) -> Service {
        Service {
            base_ns: ns(config.base_latency),
            tail_ns: ns(config.tail_latency),
            tail_fraction: config.tail_fraction,
            random,
            stalls: StallGrid::new(config, started_ns),
            pause_every_requests: config.pause.map_or(u64::MAX, |pause| pause.every_requests),
            pause_ns: config.pause.map_or(0, |pause| ns(pause.hold)),
            cold_requests: config.cold.map_or(0, |cold| cold.requests),
            cold_ns: config.cold.map_or(0, |cold| ns(cold.latency)),
            fault: config.fault,
            serial: config.serial,
            requests: 0,
            busy_until_ns: started_ns,
        }
    }

    /// When the next request, read in full at `parsed_ns`, is due. Calls must be in order of time.
    pub(crate) fn next(&mut self, parsed_ns: u64) -> Due {
        self.requests += 1;
        let mut service_ns =
            if self.draw() < self.tail_fraction { self.tail_ns } else { self.base_ns };
        let mut begin_ns = parsed_ns.max(self.busy_until_ns);
        let mut pause = None;
        if self.requests.is_multiple_of(self.pause_every_requests) {
            let pause_begin_ns = self.stalls.map_or(begin_ns, |stalls| stalls.free_from(begin_ns));
            begin_ns = pause_begin_ns + self.pause_ns;
            pause = Some((pause_begin_ns, begin_ns));
            self.busy_until_ns = begin_ns;
            if self.serial {
                // This request takes the pause itself: 200 ms in all, not 200 plus its service.
                service_ns = 0;
            }
        }
        let cold = self.requests <= self.cold_requests;
        if cold {
            service_ns += self.cold_ns;
        }
        let due_ns = match self.stalls {
            None => begin_ns + service_ns,
            Some(stalls) if self.serial => stalls.done(begin_ns, service_ns),
            Some(stalls) => stalls.free_from(begin_ns) + service_ns,
        };
        if self.serial {
            self.busy_until_ns = due_ns;
        }
        let fault = self.fault.filter(|fault| self.requests.is_multiple_of(fault.every));
        Due { due_ns, pause, cold, fault: fault.map(|fault| fault.kind) }
    }

    /// A number in `[0, 1)` from the upper 53 bits of one output; each request draws exactly one.
    fn draw(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Cold, Pause, Route, Stall};

    const START_NS: u64 = 7_000_000_123;
    const MS: u64 = 1_000_000;

    fn config() -> TargetConfig {
        TargetConfig::new("127.0.0.1:0".parse().expect("an address"))
    }

    fn stalled(serial: bool) -> TargetConfig {
        TargetConfig {
            base_latency: Duration::from_millis(1),
            stall: Some(Stall {
                every: Duration::from_millis(100),
                hold: Duration::from_millis(20),
            }),
            serial,
            ..config()
        }
    }

    /// The service of the paths without a route.
    fn first(config: &TargetConfig, executor: usize) -> Service {
        Service::all(config, executor, START_NS).swap_remove(0)
    }

    /// Due times of requests read at `read_ms`; both are ms after the start.
    fn due_ms(config: &TargetConfig, read_ms: &[u64]) -> Vec<u64> {
        let mut service = first(config, 0);
        let due = |at: &u64| (service.next(START_NS + at * MS).due_ns - START_NS) / MS;
        read_ms.iter().map(due).collect()
    }

    #[test]
    fn a_stall_delays_only_the_requests_that_arrive_in_it() {
        let read = [0, 5, 99, 100, 110, 119, 120, 200, 219, 250];
        let due = [1, 6, 100, 121, 121, 121, 121, 221, 221, 251];
        assert_eq!(due_ms(&stalled(false), &read), due);
    }

    #[test]
    fn a_serial_server_makes_no_progress_in_a_stall() {
        let mut config = stalled(true);
        config.base_latency = Duration::from_millis(4);
        // The request read at 98 gets 2 of its 4 ms before 100 and the rest after 120.
        assert_eq!(due_ms(&config, &[98, 98, 110, 150]), [122, 126, 130, 154]);
        // Work that ends where a stall begins is done before it.
        assert_eq!(due_ms(&config, &[96]), [100]);
    }

    #[test]
    fn a_serial_server_crosses_many_stalls_in_one_service() {
        let mut config = stalled(true);
        config.base_latency = Duration::from_millis(250);
        // Time outside stalls: 100 ms, then 80 ms per period: 100 + 80 + 70.
        assert_eq!(due_ms(&config, &[0]), [290]);
    }

    #[test]
    fn worked_time_and_its_moments_are_inverse() {
        let grid = StallGrid::new(&stalled(true), START_NS).expect("a grid");
        for worked_ns in (0..1_000 * MS).step_by(777_777) {
            let moment_ns = grid.moment(worked_ns);
            assert_eq!(grid.worked(moment_ns), worked_ns);
            assert_eq!(grid.free_from(moment_ns), moment_ns);
        }
    }

    #[test]
    fn every_nth_request_takes_the_serial_server_as_long_as_the_pause() {
        let config = TargetConfig {
            base_latency: Duration::from_millis(1),
            pause: Some(Pause { every_requests: 3, hold: Duration::from_millis(200) }),
            serial: true,
            ..config()
        };
        assert_eq!(due_ms(&config, &[0, 0, 0, 0, 300, 600]), [1, 2, 202, 203, 301, 800]);
    }

    #[test]
    fn the_first_requests_take_longer() {
        let mut config = TargetConfig {
            base_latency: Duration::from_millis(1),
            cold: Some(Cold { requests: 3, latency: Duration::from_millis(20) }),
            ..config()
        };
        assert_eq!(due_ms(&config, &[0, 5, 5, 5, 30]), [21, 26, 26, 6, 31]);
        // Served one after the other, the cold ones delay those behind them.
        config.serial = true;
        assert_eq!(due_ms(&config, &[0, 5, 5, 5, 90]), [21, 42, 63, 64, 91]);
        let mut service = first(&config, 0);
        let cold: Vec<bool> = (0..5).map(|at| service.next(START_NS + at).cold).collect();
        assert_eq!(cold, [true, true, true, false, false]);
    }

    #[test]
    fn faults_change_no_due_time() {
        let plain = TargetConfig { base_latency: Duration::from_millis(4), ..stalled(true) };
        let fault = Some(Fault { kind: FaultKind::Reset, every: 3 });
        let faulty = TargetConfig { fault, ..plain.clone() };
        let read = [0, 0, 0, 98, 98, 110, 150];
        assert_eq!(due_ms(&faulty, &read), due_ms(&plain, &read));
        let mut service = first(&faulty, 0);
        let faults = (1..=7).filter(|at| service.next(START_NS + at).fault.is_some());
        assert_eq!(faults.collect::<Vec<_>>(), [3, 6]);
    }

    #[test]
    fn a_pause_without_serial_holds_the_requests_that_arrive_in_it() {
        let config = TargetConfig {
            base_latency: Duration::from_millis(1),
            pause: Some(Pause { every_requests: 2, hold: Duration::from_millis(50) }),
            ..config()
        };
        // Request 2 pauses from 10 to 60; request 4 pauses again right after.
        assert_eq!(due_ms(&config, &[0, 10, 20, 59, 70]), [1, 61, 61, 111, 111]);
    }

    #[test]
    fn the_seed_alone_decides_which_requests_are_in_the_tail() {
        let mut config = config();
        config.tail_fraction = 0.2;
        config.tail_latency = Duration::from_millis(9);
        let read: Vec<u64> = (0..10_000).collect();
        let tails = |config: &TargetConfig, executor: usize| -> Vec<bool> {
            let mut service = first(config, executor);
            let read = read.iter().map(|at| START_NS + at * MS);
            read.map(|at_ns| service.next(at_ns).due_ns == at_ns + 9 * MS).collect()
        };
        let first = tails(&config, 0);
        assert_eq!(first, tails(&config, 0));
        assert_ne!(first, tails(&config, 1), "each executor draws from its own stretch");
        // 160 is four standard deviations of a binomial with n = 10,000 and p = 0.2.
        let count = first.iter().filter(|tail| **tail).count();
        assert!((1_840..=2_160).contains(&count), "{count} in the tail, 2,000 expected");
        config.seed += 1;
        assert_ne!(first, tails(&config, 0));
    }

    #[test]
    fn a_route_is_a_server_of_its_own() {
        let mut config = TargetConfig {
            tail_fraction: 0.2,
            tail_latency: Duration::from_millis(9),
            ..stalled(true)
        };
        let slow = Duration::from_millis(30);
        config.routes = vec![
            Route {
                base_latency: slow,
                stall: None,
                tail_fraction: 0.0,
                serial: true,
                ..config.route("/slow")
            },
            config.route("/alike"),
        ];
        let mut services = Service::all(&config, 0, START_NS);
        let mut due_ms = |number: usize, read_ms: u64| {
            (services[number].next(START_NS + read_ms * MS).due_ns - START_NS) / MS
        };
        // Neither the stall of the others nor their queue delays it, only its own queue.
        assert_eq!([due_ms(1, 110), due_ms(1, 111), due_ms(1, 112)], [140, 170, 200]);
        assert!((121..=129).contains(&due_ms(0, 115)), "the others wait for the end of the stall");
        // Of two routes that behave alike, each draws its own tail.
        let mut tails = |number: usize| -> Vec<bool> {
            let service = &mut services[number];
            service.stalls = None;
            let read_ns = (0..1_000).map(|at| START_NS + (1_000 + 10 * at) * MS);
            read_ns.map(|at_ns| service.next(at_ns).due_ns == at_ns + 9 * MS).collect()
        };
        let (others, alike) = (tails(0), tails(2));
        assert_ne!(others, alike);
        // 51 is four standard deviations of a binomial with n = 1,000 and p = 0.2.
        let count = alike.iter().filter(|tail| **tail).count();
        assert!((149..=251).contains(&count), "{count} in the tail, 200 expected");
    }
}
