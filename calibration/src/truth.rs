//! Ground truth: the latency distribution that follows, by arithmetic, from the sample target's
//! configuration and the stalls in its ledger.
//!
//! Pure: no clock, no I/O, no target and no generator. Arrivals are spread evenly over a window, as
//! a Poisson process or at equal gaps. A stall then adds a *ramp*: an arrival at its start waits
//! for all of it, and each later one for less. Without queueing (a hold target) the added wait
//! falls by 1 ms per ms and is zero at the end of the stall. Behind a FIFO server of load ρ < 1 it
//! falls by 1 − ρ ms per ms, because requests that arrived earlier are served first. A distribution
//! is a list of ramps.
//!
//! Deliberately absent: random queueing. A FIFO server with Poisson arrivals has queues without any
//! stall.

use std::time::Duration;

use engine::plan::Arrivals;
use judge::Hold;
use serde::Serialize;
use target::Span;

const MS_NS: f64 = 1e6;
/// Standard deviations by which an estimate may differ from the truth: one in 16,000 differs by
/// more by chance.
pub(crate) const DEVIATIONS: f64 = 4.0;
/// The largest relative width of a bucket in a histogram with 3 significant digits, which splits
/// each octave into 1,024.
pub(crate) const BUCKET: f64 = 1.0 / 1_024.0;

/// The wait that one stall adds: `height_ms` for an arrival at its start, falling by `fall` ms per
/// ms for `length_ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ramp {
    height_ms: f64,
    length_ms: f64,
    fall: f64,
}

impl Ramp {
    /// The ramp of a stall, clipped to the window. Arrivals begin with the window, so a stall that
    /// began earlier counts from there. `None` for a stall outside the window.
    fn of(stall: Span, window: Span, fall: f64) -> Option<Ramp> {
        let begin_ns = stall.begin_ns.max(window.begin_ns);
        if stall.end_ns <= begin_ns || window.end_ns <= begin_ns {
            return None;
        }
        let height_ms = (stall.end_ns - begin_ns) as f64 / MS_NS;
        let rest_ms = (window.end_ns - begin_ns) as f64 / MS_NS;
        Some(Ramp { height_ms, length_ms: (height_ms / fall).min(rest_ms), fall })
    }

    /// How long arrivals wait more than `wait_ms`, ms.
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
    /// The target, with the longest wait as its freeze, and the window.
    hold: Hold,
    ramps: Vec<Ramp>,
}

/// The sample that an estimate is based on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Requests.
    pub count: u64,
    /// Their arrival process.
    pub arrivals: Arrivals,
}

/// How late requests were: all but a share of them by at most this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Late {
    /// ms.
    pub ms: f64,
    /// The share of requests that may have been later.
    pub beyond: f64,
}

/// The highest value that a quantile may have if requests are this late, ms; `at` is the value, were
/// none late, of the quantile whose rank is this much higher.
///
/// Those that are later than a [`Late`] may be any requests, and are most often those at the edge of
/// a stall, whose burst of responses delays the next sends: their share adds to the rank. Each of
/// `late` is true, so the lowest bound counts.
pub fn highest_ms(late: &[Late], at: impl Fn(f64) -> f64) -> f64 {
    late.iter().map(|late| at(late.beyond) + late.ms).fold(f64::INFINITY, f64::min)
}

/// The range in which an estimate agrees with the truth, ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Band {
    /// The lowest estimate.
    pub low_ms: f64,
    /// The truth.
    pub expected_ms: f64,
    /// The highest estimate.
    pub high_ms: f64,
}

impl Band {
    /// True if an estimate is in the band.
    pub fn contains(&self, estimate_ms: f64) -> bool {
        self.low_ms <= estimate_ms && estimate_ms <= self.high_ms
    }
}

impl Truth {
    /// A target that holds each request for `base_ms`, and before that for the rest of the stall if
    /// it arrives in one.
    ///
    /// With stalls of length S every period P: `R_q = base` for `q ≤ 1 − S/P`, else `base + S −
    /// P(1−q)`; mean `base + S²/(2P)`.
    pub fn hold(base_ms: f64, stalls: &[Span], window: Span) -> Truth {
        Truth::new(base_ms, 1.0, stalls, window)
    }

    /// The same with an independent tail: a `fraction` of all requests is held `extra_ms` longer.
    ///
    /// With G the distribution of the time waited for stalls: `F(x) = (1−p)·G(x − base) + p·G(x −
    /// base − extra)`.
    pub fn with_tail(self, fraction: f64, extra_ms: f64) -> Truth {
        Truth { hold: Hold { tail_fraction: fraction, extra_ms, ..self.hold }, ..self }
    }

    /// One server that takes requests in order, `service_ms` each, and makes no progress during a
    /// stall; `per_second` arrivals at equal gaps.
    ///
    /// With load ρ and stalls of length S every period P: `R_q = service + S − (1−ρ)P(1−q)` while
    /// that is above the service time.
    ///
    /// # Panics
    /// If the load is 1 or more, or a backlog lasts into the next stall: this distribution covers
    /// neither.
    pub fn serial(service_ms: f64, per_second: f64, stalls: &[Span], window: Span) -> Truth {
        let load = service_ms * per_second / 1e3;
        assert!(load < 1.0, "a server of load {load} never clears a backlog");
        let fall = 1.0 - load;
        for pair in stalls.windows(2) {
            let length_ns = (pair[0].end_ns - pair[0].begin_ns) as f64;
            let gone_ns = pair[0].begin_ns as f64 + length_ns / fall;
            assert!(gone_ns <= pair[1].begin_ns as f64, "a backlog lasts into the next stall");
        }
        Truth::new(service_ms, fall, stalls, window)
    }

    /// The same server with pauses instead of stalls: some requests take a whole pause each,
    /// instead of the service time.
    ///
    /// # Panics
    /// As [`Truth::serial`]; and if a pause is shorter than the service time.
    pub fn pausing(service_ms: f64, per_second: f64, pauses: &[Span], window: Span) -> Truth {
        let service_ns = Duration::from_secs_f64(service_ms / 1e3).as_nanos();
        let service_ns = u64::try_from(service_ns).expect("a service time in u64 ns");
        // A request that takes a pause equals one that waits for the pause less its service time,
        // and is then served.
        let frozen = |pause: &Span| {
            assert!(
                pause.begin_ns + service_ns <= pause.end_ns,
                "{pause:?} is shorter than the service time"
            );
            Span { end_ns: pause.end_ns - service_ns, ..*pause }
        };
        let frozen: Vec<Span> = pauses.iter().map(frozen).collect();
        Truth::serial(service_ms, per_second, &frozen, window)
    }

    fn new(base_ms: f64, fall: f64, stalls: &[Span], window: Span) -> Truth {
        let ramps: Vec<Ramp> =
            stalls.iter().filter_map(|stall| Ramp::of(*stall, window, fall)).collect();
        let hold = Hold {
            base_ms,
            tail_fraction: 0.0,
            extra_ms: 0.0,
            freeze_ms: ramps.iter().map(|ramp| ramp.height_ms).fold(0.0, f64::max),
            length_ms: (window.end_ns - window.begin_ns) as f64 / MS_NS,
        };
        Truth { hold, ramps }
    }

    /// The latency at quantile `q`, ms, with `q` clamped to [0, 1].
    pub fn quantile_ms(&self, q: f64) -> f64 {
        let above_ms = |wait_ms| self.ramps.iter().map(|ramp| ramp.above_ms(wait_ms)).sum::<f64>();
        self.hold.quantile_of_waits_ms(q, |wait_ms| 1.0 - above_ms(wait_ms) / self.hold.length_ms)
    }

    /// The mean latency, ms.
    pub fn mean_ms(&self) -> f64 {
        self.hold.base_ms + self.hold.tail_fraction * self.hold.extra_ms + self.wait_mean_ms()
    }

    /// The mean wait for the ends of stalls, ms.
    pub fn wait_mean_ms(&self) -> f64 {
        self.ramps.iter().map(Ramp::area).sum::<f64>() / self.hold.length_ms
    }

    /// The standard deviation of one request's latency, ms.
    fn spread_ms(&self) -> f64 {
        let Hold { tail_fraction, extra_ms, length_ms, .. } = self.hold;
        let squares = self.ramps.iter().map(Ramp::square).sum::<f64>() / length_ms;
        let tail = tail_fraction * (1.0 - tail_fraction) * extra_ms.powi(2);
        (squares - self.wait_mean_ms().powi(2) + tail).sqrt()
    }

    /// The standard error of a sample's mean, ms.
    pub fn mean_deviation_ms(&self, count: u64) -> f64 {
        self.spread_ms() / (count as f64).sqrt()
    }

    /// The band for an estimate of quantile `q` if requests are this late.
    ///
    /// It reaches to the quantiles `DEVIATIONS` standard deviations of the rank to either side,
    /// which on a ramp are as many standard errors and stay correct where the distribution jumps. A
    /// histogram bucket widens it on both sides and the lateness only upwards, because no request
    /// is answered early. At equal gaps, chance only decides how many whole arrivals each ramp
    /// gets.
    pub fn quantile_band(&self, q: f64, sample: Sample, late: &[Late]) -> Band {
        let reach = match sample.arrivals {
            Arrivals::Poisson | Arrivals::Log => DEVIATIONS * rank_deviation(q, sample.count),
            Arrivals::Constant => self.ramps.len() as f64 / sample.count as f64,
        };
        let high_ms = |beyond| self.quantile_ms(q + reach + beyond) * (1.0 + BUCKET);
        Band {
            low_ms: self.quantile_ms(q - reach) * (1.0 - BUCKET),
            expected_ms: self.quantile_ms(q),
            high_ms: highest_ms(late, high_ms),
        }
    }

    /// The band for a sample's mean if requests are up to `late_ms` late.
    pub fn mean_band(&self, sample: Sample, late_ms: f64) -> Band {
        let reach_ms = match sample.arrivals {
            Arrivals::Poisson | Arrivals::Log => DEVIATIONS * self.mean_deviation_ms(sample.count),
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

/// The standard deviation of the share of a sample below the true quantile `q`.
fn rank_deviation(q: f64, count: u64) -> f64 {
    (q * (1.0 - q) / count as f64).sqrt()
}

#[cfg(test)]
mod tests;
