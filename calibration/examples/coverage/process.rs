//! Services with simulated latencies: independent ones, queues, correlation, stalls.

use std::fmt;

use engine::stats::distribution::{Distribution, VALUE_MAX_NS};
use engine::stats::pieces::Pieces;
use hdrhistogram::Histogram;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Exp1, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Requests per second, Poisson, of all services but queues.
const RATE: f64 = 200.0;
/// Service time of a queue's server, s.
const SERVICE_S: f64 = 0.003;
/// The most pieces of a run, and the shortest length of a piece, s, as in a series.
const PIECES_MAX: u64 = 512;
const PIECE_S: f64 = 0.125;
/// Significant digits of a piece's latencies, as in a series.
const DIGITS: u8 = 2;
/// The time between two spells of errors as a multiple of the level's correlation time, roughly:
/// requests fail in one of 44 moments, for a while shorter than that time.
const FAILING_EVERY: f64 = 10.0;
/// Share of the requests that fail, unless the service decides it.
const FAILED: f64 = 0.01;

/// A service.
#[derive(Clone, Copy, Debug)]
pub enum Process {
    /// Exponential latencies.
    Independent,
    /// Latencies with a Pareto tail of this exponent.
    Pareto {
        /// P(X > x) = x^−tail.
        tail: f64,
    },
    /// One server, 3 ms a request, first come, first served (M/D/1).
    Queue {
        /// Requests per service time.
        load: f64,
    },
    /// The logarithm is noise of 0.3 plus a first-order autoregression.
    Correlated {
        /// Time in which the correlation falls to 1/e, s.
        over_s: f64,
        /// The autoregression's standard deviation.
        by: f64,
    },
    /// Requests that come during a stall wait for its end, and one in five of them fails; stalls
    /// come at random.
    Stalls {
        /// The mean time between them, s.
        every_s: f64,
        /// Their length, s.
        long_s: f64,
    },
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Process::Independent => write!(f, "independent, exponential"),
            Process::Pareto { tail } => write!(f, "independent, Pareto tail {tail}"),
            Process::Queue { load } => write!(f, "queue, load {load}"),
            Process::Correlated { over_s, by } => write!(f, "correlated over {over_s} s, by {by}"),
            Process::Stalls { every_s, long_s } => {
                write!(f, "stalls of {long_s} s, one in {every_s} s")
            }
        }
    }
}

/// A run of a service.
#[derive(Debug)]
pub struct Run {
    /// All latencies.
    pub whole: Distribution,
    /// The length of a piece, s.
    pub each_s: f64,
    /// The same by piece.
    pub latencies: Pieces<Histogram<u64>>,
    /// Requests that failed. Each has a latency as well, so that one run shows both.
    pub failed: u64,
    /// Failed requests and all requests, by piece.
    pub errors: Pieces<(u64, u64)>,
}

/// A run while it is simulated.
struct Recorder {
    each_s: f64,
    whole: Distribution,
    latencies: Vec<Histogram<u64>>,
    errors: Vec<(u64, u64)>,
}

impl Recorder {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a run's times")]
    fn record(&mut self, at_s: f64, latency_s: f64, fails: bool) {
        let ns = (latency_s * 1e9) as u64;
        self.whole.record(ns);
        let piece = (at_s / self.each_s) as usize;
        // Latencies beyond the range are only in `whole`.
        let _ = self.latencies[piece].record(ns);
        let errors = &mut self.errors[piece];
        *errors = (errors.0 + u64::from(fails), errors.1 + 1);
    }
}

fn piece() -> Histogram<u64> {
    Histogram::new_with_bounds(1, VALUE_MAX_NS, DIGITS).expect("bounds")
}

impl Process {
    /// The mean, µs, where a formula gives it exactly.
    pub fn mean_us(self) -> Option<f64> {
        match self {
            Process::Independent => Some(1e3),
            Process::Pareto { tail } => Some(1e3 * tail / (tail - 1.0)),
            Process::Queue { load } => Some(1e6 * SERVICE_S * (1.0 + load / (2.0 * (1.0 - load)))),
            Process::Correlated { by, .. } => Some(5e3 * ((by * by + 0.09) / 2.0).exp()),
            Process::Stalls { .. } => None,
        }
    }

    /// How often the source of a figure's dependence occurs in a window: a stall, the correlation
    /// time of a queue or level, or, for the errors of a wandering level, a spell of errors.
    pub fn times(self, figure: &str, window_s: u64) -> f64 {
        let every_s = match self {
            Process::Independent | Process::Pareto { .. } => 0.0,
            Process::Queue { .. } if figure == "errors" => 0.0,
            Process::Queue { load } => SERVICE_S / (1.0 - load).powi(2),
            Process::Correlated { over_s, .. } if figure == "errors" => FAILING_EVERY * over_s,
            Process::Correlated { over_s, .. } => over_s,
            Process::Stalls { every_s, .. } => every_s,
        };
        window_s as f64 / every_s
    }

    /// A run of this length, different for each seed.
    pub fn run(self, window_s: u64, seed: u64) -> Run {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ (window_s << 40));
        let mut each_s = PIECE_S;
        while PIECES_MAX as f64 * each_s < window_s as f64 {
            each_s *= 2.0;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to 512")]
        let pieces = (window_s as f64 / each_s).ceil() as usize;
        let mut recorder = Recorder {
            each_s,
            whole: Distribution::new(),
            latencies: (0..pieces).map(|_| piece()).collect(),
            errors: vec![(0, 0); pieces],
        };
        self.draw(window_s as f64, &mut random, &mut recorder);
        Run {
            failed: recorder.errors.iter().map(|piece| piece.0).sum(),
            whole: recorder.whole,
            each_s,
            latencies: Pieces::new(recorder.latencies, each_s),
            errors: Pieces::new(recorder.errors, each_s),
        }
    }

    fn draw(self, window_s: f64, random: &mut Xoshiro256PlusPlus, run: &mut Recorder) {
        let exponential = |random: &mut Xoshiro256PlusPlus| -> f64 { Exp1.sample(random) };
        let normal = |random: &mut Xoshiro256PlusPlus| -> f64 { StandardNormal.sample(random) };
        let fails = |random: &mut Xoshiro256PlusPlus| random.random::<f64>() < FAILED;
        let rate = match self {
            Process::Queue { load } => load / SERVICE_S,
            _ => RATE,
        };
        // A queue is in its steady state when the window begins.
        let mut at_s = match self {
            Process::Queue { load } => -30.0 * SERVICE_S / (1.0 - load).powi(2),
            _ => 0.0,
        };
        let mut free_s = at_s;
        let (mut level, mut level_s) = (normal(random), at_s);
        let (mut stalled_until_s, mut stall_s) = (f64::MIN, -10.0);
        if let Process::Stalls { every_s, .. } = self {
            stall_s = -exponential(random) * every_s;
        }
        loop {
            at_s += exponential(random) / rate;
            if window_s <= at_s {
                return;
            }
            match self {
                Process::Independent => {
                    run.record(at_s, 1e-3 * exponential(random), fails(random));
                }
                Process::Pareto { tail } => {
                    let latency_s = 1e-3 * (1.0 - random.random::<f64>()).powf(-1.0 / tail);
                    run.record(at_s, latency_s, fails(random));
                }
                Process::Queue { .. } => {
                    free_s = at_s.max(free_s) + SERVICE_S;
                    if 0.0 <= at_s {
                        run.record(at_s, free_s - at_s, fails(random));
                    }
                }
                Process::Correlated { over_s, by } => {
                    let kept = (-(at_s - level_s) / over_s).exp();
                    level = level * kept + normal(random) * (1.0 - kept * kept).sqrt();
                    level_s = at_s;
                    let latency_s = 5e-3 * (by * level + 0.3 * normal(random)).exp();
                    // Requests fail while the level is this high: one in 44.
                    run.record(at_s, latency_s, 2.0 < level);
                }
                Process::Stalls { every_s, long_s } => {
                    while stall_s <= at_s {
                        stalled_until_s = stalled_until_s.max(stall_s + long_s);
                        stall_s += exponential(random) * every_s;
                    }
                    let held_s = (stalled_until_s - at_s).max(0.0);
                    let latency_s = 1e-3 + 1e-3 * exponential(random) + held_s;
                    run.record(at_s, latency_s, 0.0 < held_s && random.random::<f64>() < 0.2);
                }
            }
        }
    }
}
