//! What a user of the witness waits for, as arithmetic: the distribution of latency that follows from its settings and from
//! the stalls that it logged.
//!
//! Pure: no clock, no I/O, no target and no generator. Arrivals are spread evenly over a window, by chance or at equal gaps.
//! A stall then adds a *ramp*: the arrival at its beginning waits for all of it, and each later one for less. Where nobody
//! queues (a hold target) the added wait falls by 1 ms a ms and is gone at the end of the stall. Behind a FIFO server of load
//! ρ < 1 it falls by 1 − ρ ms a ms, because those who came meanwhile are served first. A distribution is a list of ramps.
//!
//! Deliberately absent: queueing by chance. A FIFO server with arrivals by chance has queues without any stall.

use std::time::Duration;

use engine::plan::Arrivals;
use target::Span;

const MS_NS: f64 = 1e6;
/// Standard deviations that an estimate may be away from the truth: one in 16,000 is further away by chance.
const DEVIATIONS: f64 = 4.0;
/// A bucket of a histogram with 3 significant digits is at most this part of its value wide: such a histogram splits each
/// octave into 1,024.
const BUCKET: f64 = 1.0 / 1_024.0;
/// Ranks closer than this are the same: it covers the rounding of sums of times divided by the window.
const RANK_ROUNDING: f64 = 1e-12;

/// The wait that one stall adds: `height_ms` for an arrival at its beginning, falling by `fall` ms a ms for `length_ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ramp {
    height_ms: f64,
    length_ms: f64,
    fall: f64,
}

impl Ramp {
    /// The ramp of a stall, cut to the window; arrivals begin with the window, so a stall that has begun before it adds as
    /// if it began there. `None` for a stall outside the window.
    fn of(stall: Span, window: Span, fall: f64) -> Option<Ramp> {
        let begin_ns = stall.begin_ns.max(window.begin_ns);
        if stall.end_ns <= begin_ns || window.end_ns <= begin_ns {
            return None;
        }
        let height_ms = (stall.end_ns - begin_ns) as f64 / MS_NS;
        let rest_ms = (window.end_ns - begin_ns) as f64 / MS_NS;
        Some(Ramp { height_ms, length_ms: (height_ms / fall).min(rest_ms), fall })
    }

    /// For how long arrivals wait more than `wait_ms`.
    fn above_ms(&self, wait_ms: f64) -> f64 {
        ((self.height_ms - wait_ms) / self.fall).clamp(0.0, self.length_ms)
    }

    /// ∫ wait dt.
    fn area(&self) -> f64 {
        self.length_ms * (self.height_ms - self.fall * self.length_ms / 2.0)
    }

    /// ∫ wait² dt.
    fn square(&self) -> f64 {
        let last_ms = self.height_ms - self.fall * self.length_ms;
        (self.height_ms.powi(3) - last_ms.powi(3)) / (3.0 * self.fall)
    }
}

/// The distribution of latency over a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    base_ms: f64,
    tail_fraction: f64,
    tail_extra_ms: f64,
    window_ms: f64,
    ramps: Vec<Ramp>,
}

/// What an estimate was made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Requests.
    pub count: u64,
    /// How they were spaced.
    pub arrivals: Arrivals,
}

/// Where an estimate may lie, ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// The least.
    pub low_ms: f64,
    /// What the truth is.
    pub expected_ms: f64,
    /// The most.
    pub high_ms: f64,
}

impl Band {
    /// Whether an estimate lies in the band.
    pub fn contains(&self, estimate_ms: f64) -> bool {
        self.low_ms <= estimate_ms && estimate_ms <= self.high_ms
    }
}

impl Truth {
    /// A target that holds each request for `base_ms`, and one that arrives in a stall for the rest of the stall before that.
    ///
    /// With stalls of length S each period P: `R_q = base` for `q ≤ 1 − S/P`, else `base + S − P(1−q)`; mean
    /// `base + S²/(2P)`.
    pub fn hold(base_ms: f64, stalls: &[Span], window: Span) -> Truth {
        Truth::new(base_ms, 1.0, stalls, window)
    }

    /// The same with an independent tail: the part `fraction` of all requests is held `extra_ms` longer.
    ///
    /// With G the distribution of the wait for stalls: `F(x) = (1−p)·G(x − base) + p·G(x − base − extra)`.
    pub fn with_tail(self, fraction: f64, extra_ms: f64) -> Truth {
        Truth { tail_fraction: fraction, tail_extra_ms: extra_ms, ..self }
    }

    /// One server that takes requests in order, `service_ms` each, and makes no progress in a stall; `per_second` arrivals
    /// at equal gaps.
    ///
    /// With load ρ and stalls of length S each period P: `R_q = service + S − (1−ρ)P(1−q)` while that is above the service.
    ///
    /// # Panics
    /// When the load is 1 or more, or a backlog is not gone before the next stall: neither has this distribution.
    pub fn serial(service_ms: f64, per_second: f64, stalls: &[Span], window: Span) -> Truth {
        let load = service_ms * per_second / 1e3;
        assert!(load < 1.0, "a server of load {load} never works off a backlog");
        let fall = 1.0 - load;
        for pair in stalls.windows(2) {
            let length_ns = (pair[0].end_ns - pair[0].begin_ns) as f64;
            let gone_ns = pair[0].begin_ns as f64 + length_ns / fall;
            assert!(gone_ns <= pair[1].begin_ns as f64, "a backlog meets the next stall");
        }
        Truth::new(service_ms, fall, stalls, window)
    }

    /// The same server when it pauses instead of stalling: some requests take a whole pause each, instead of the service.
    ///
    /// # Panics
    /// As [`Truth::serial`]; and when a pause is shorter than the service.
    pub fn pausing(service_ms: f64, per_second: f64, pauses: &[Span], window: Span) -> Truth {
        let service_ns = Duration::from_secs_f64(service_ms / 1e3).as_nanos();
        let service_ns = u64::try_from(service_ns).expect("a service of less than centuries");
        // A request that takes a pause is one that waits for the pause but its service, and is then served.
        let frozen = |pause: &Span| {
            assert!(pause.begin_ns + service_ns <= pause.end_ns, "{pause:?} is no pause");
            Span { end_ns: pause.end_ns - service_ns, ..*pause }
        };
        let frozen: Vec<Span> = pauses.iter().map(frozen).collect();
        Truth::serial(service_ms, per_second, &frozen, window)
    }

    fn new(base_ms: f64, fall: f64, stalls: &[Span], window: Span) -> Truth {
        Truth {
            base_ms,
            tail_fraction: 0.0,
            tail_extra_ms: 0.0,
            window_ms: (window.end_ns - window.begin_ns) as f64 / MS_NS,
            ramps: stalls.iter().filter_map(|stall| Ramp::of(*stall, window, fall)).collect(),
        }
    }

    /// The latency of a request that meets nothing, ms.
    pub fn base_ms(&self) -> f64 {
        self.base_ms
    }

    /// The part of all requests whose latency is at most `latency_ms`.
    pub fn share_within(&self, latency_ms: f64) -> f64 {
        let wait_ms = latency_ms - self.base_ms;
        (1.0 - self.tail_fraction) * self.stalled_within(wait_ms)
            + self.tail_fraction * self.stalled_within(wait_ms - self.tail_extra_ms)
    }

    /// The part of all requests whose wait for stalls is at most `wait_ms`.
    fn stalled_within(&self, wait_ms: f64) -> f64 {
        if wait_ms < 0.0 {
            return 0.0;
        }
        let above_ms: f64 = self.ramps.iter().map(|ramp| ramp.above_ms(wait_ms)).sum();
        1.0 - above_ms / self.window_ms
    }

    /// The least latency that the part `q` of all requests does not exceed, ms; `q` beyond [0, 1] is taken as the nearer end.
    /// Found by halving, because a distribution with a tail has no inverse in closed form.
    pub fn quantile_ms(&self, q: f64) -> f64 {
        let rank = q.clamp(0.0, 1.0) - RANK_ROUNDING;
        let (mut low_ms, mut high_ms) = (self.base_ms, self.max_ms());
        if rank <= self.share_within(low_ms) {
            return low_ms;
        }
        // Halving an interval of doubles ends when nothing lies between its ends; 200 times is more than that takes.
        for _ in 0..200 {
            let middle_ms = low_ms.midpoint(high_ms);
            if rank <= self.share_within(middle_ms) {
                high_ms = middle_ms;
            } else {
                low_ms = middle_ms;
            }
        }
        high_ms
    }

    fn max_ms(&self) -> f64 {
        let height_ms = self.ramps.iter().map(|ramp| ramp.height_ms).fold(0.0, f64::max);
        self.base_ms + self.tail_extra_ms + height_ms
    }

    /// The mean latency, ms.
    pub fn mean_ms(&self) -> f64 {
        self.base_ms + self.tail_fraction * self.tail_extra_ms + self.wait_mean_ms()
    }

    fn wait_mean_ms(&self) -> f64 {
        self.ramps.iter().map(Ramp::area).sum::<f64>() / self.window_ms
    }

    /// Standard deviation of one request's latency, ms.
    fn spread_ms(&self) -> f64 {
        let squares = self.ramps.iter().map(Ramp::square).sum::<f64>() / self.window_ms;
        let tail = self.tail_fraction * (1.0 - self.tail_fraction) * self.tail_extra_ms.powi(2);
        (squares - self.wait_mean_ms().powi(2) + tail).sqrt()
    }

    /// Standard deviation of the mean of a sample by chance, ms.
    pub fn mean_deviation_ms(&self, count: u64) -> f64 {
        self.spread_ms() / (count as f64).sqrt()
    }

    /// Standard deviation of quantile `q` of a sample by chance, ms: half of what lies between the quantiles one standard
    /// deviation of the rank, `√(q(1−q)/n)`, to both sides. On a ramp of a hold target that is `P·√(q(1−q)/n)`.
    pub fn quantile_deviation_ms(&self, q: f64, count: u64) -> f64 {
        let deviation = rank_deviation(q, count);
        (self.quantile_ms(q + deviation) - self.quantile_ms(q - deviation)) / 2.0
    }

    /// Where the estimate of quantile `q` may lie that was made in a world late by up to `late_ms`.
    ///
    /// The quantiles `DEVIATIONS` standard deviations of the rank to both sides, which on a ramp is as many of the estimate
    /// and stays right where the distribution jumps; a histogram's bucket; and the lateness, upwards only: no request is
    /// answered before its time. Equal gaps leave no chance but a whole number of arrivals on each ramp.
    pub fn quantile_band(&self, q: f64, sample: Sample, late_ms: f64) -> Band {
        let reach = match sample.arrivals {
            Arrivals::Poisson => DEVIATIONS * rank_deviation(q, sample.count),
            Arrivals::Constant => self.ramps.len() as f64 / sample.count as f64,
        };
        let (low_ms, high_ms) = (self.quantile_ms(q - reach), self.quantile_ms(q + reach));
        Band {
            low_ms: low_ms * (1.0 - BUCKET),
            expected_ms: self.quantile_ms(q),
            high_ms: high_ms * (1.0 + BUCKET) + late_ms,
        }
    }

    /// Where the mean of a sample may lie that was made in a world late by up to `late_ms`.
    pub fn mean_band(&self, sample: Sample, late_ms: f64) -> Band {
        let reach_ms = match sample.arrivals {
            Arrivals::Poisson => DEVIATIONS * self.mean_deviation_ms(sample.count),
            // One arrival more or less on each ramp.
            Arrivals::Constant => {
                let heights_ms: f64 = self.ramps.iter().map(|ramp| ramp.height_ms).sum();
                heights_ms / sample.count as f64
            }
        };
        let expected_ms = self.mean_ms();
        Band {
            low_ms: expected_ms - reach_ms,
            expected_ms,
            high_ms: expected_ms + reach_ms + late_ms,
        }
    }
}

/// Standard deviation of the part of a sample that lies below the true quantile `q`.
fn rank_deviation(q: f64, count: u64) -> f64 {
    (q * (1.0 - q) / count as f64).sqrt()
}

#[cfg(test)]
mod tests;
