//! Takes a profile of a run: prepared before it, begun and ended with its window.

use std::ops::Range;
use std::time::Duration;

use engine::plan::Plan;
use engine::report::profile::{Sampler as Source, Sampling};
use engine::sys::clock;
use rustix::time::{ClockId, clock_gettime};

use crate::perf::{self, Perf};
use crate::recording::Recording;
use crate::sampler::Sampler;
use crate::stacks::{self, Stacks};
use crate::symbols::Symbols;

/// A profiler of this process.
pub struct Profiler {
    by: By,
    /// Why it isn't perf.
    user_only: Option<String>,
    frequency: u32,
    state: State,
}

enum By {
    Perf(Box<Perf>),
    Signal(Sampler),
}

enum State {
    /// The window hasn't begun.
    Ready,
    /// Samples are taken, since these moments.
    Sampling { now_ns: u64, cpu_ns: u64 },
    /// The window has ended; samples were taken over this long.
    Sampled { observed_s: f64, cpu_s: f64, symbols: Symbols },
    /// No samples could be taken.
    Failed(String),
}

/// How often to look for the start of the window before it is known.
const LOOK: Duration = Duration::from_millis(2);

/// Enough samples: for a part with 5 % of the time, 20,000 samples show the share to 0.3 %.
const SAMPLES_ENOUGH: f64 = 20_000.0;
/// Frequencies, per second of a core's time: no divisors of a program's possible timers.
const FREQUENCIES: [u32; 6] = [999, 499, 249, 99, 49, 19];

impl Profiler {
    /// Prepares to profile a run of this completed plan. It must be called before the run is
    /// started.
    ///
    /// # Errors
    /// Why neither perf nor the signal can be used.
    pub fn new(plan: &Plan) -> Result<Profiler, String> {
        let cores = plan.cores();
        let frequency = frequency(cores.len() as f64 * plan.duration.as_secs_f64());
        let (by, user_only) = match Perf::start(frequency, cores) {
            Ok(perf) => (By::Perf(Box::new(perf)), None),
            Err(why) => (By::Signal(Sampler::new(frequency)?), Some(why)),
        };
        Ok(Profiler { by, user_only, frequency, state: State::Ready })
    }

    /// Begins or ends with the run's window, which is `None` before it is known. Returns how long
    /// the caller may sleep until the next call, at most `pause`.
    pub fn follow(&mut self, window: Option<Range<u64>>, pause: Duration) -> Duration {
        let left = |now_ns: u64, until_ns: u64| {
            pause.min(Duration::from_nanos(until_ns.saturating_sub(now_ns)))
        };
        let now_ns = clock::now_ns();
        match (&self.state, window) {
            (State::Ready, None) => pause.min(LOOK),
            (State::Ready, Some(window)) if now_ns < window.start => left(now_ns, window.start),
            (State::Ready, Some(window)) if now_ns < window.end => {
                self.begin();
                left(clock::now_ns(), window.end)
            }
            (State::Sampling { .. }, Some(window)) if now_ns < window.end => {
                left(now_ns, window.end)
            }
            (State::Sampling { .. }, _) => {
                self.end();
                pause
            }
            _ => pause,
        }
    }

    fn begin(&mut self) {
        let begun = match &mut self.by {
            By::Perf(perf) => perf.enable(),
            By::Signal(sampler) => sampler.start(),
        };
        self.state = match begun {
            Ok(()) => State::Sampling { now_ns: clock::now_ns(), cpu_ns: cpu_ns() },
            Err(why) => State::Failed(why),
        };
    }

    fn end(&mut self) {
        let State::Sampling { now_ns, cpu_ns: begun_ns } = self.state else { return };
        let observed_s = (clock::now_ns() - now_ns) as f64 / 1e9;
        let cpu_s = cpu_ns().saturating_sub(begun_ns) as f64 / 1e9;
        let ended = match &mut self.by {
            By::Perf(perf) => perf.disable(),
            By::Signal(sampler) => sampler.stop(),
        };
        self.state = match ended {
            // Its threads may end soon.
            Ok(()) => State::Sampled { observed_s, cpu_s, symbols: Symbols::of_this_process() },
            Err(why) => State::Failed(why),
        };
    }

    /// Ends the profile, and reads the samples.
    ///
    /// # Errors
    /// Why there is no profile.
    pub fn finish(mut self) -> Result<Recording, String> {
        self.end();
        let (observed_s, cpu_s, mut symbols) = match self.state {
            State::Sampled { observed_s, cpu_s, symbols } => (observed_s, cpu_s, symbols),
            State::Failed(why) => return Err(why),
            State::Ready | State::Sampling { .. } => {
                return Err("the window was never reached".to_owned());
            }
        };
        let mut user_only = self.user_only;
        let (stacks, source, event) = match self.by {
            By::Perf(perf) => {
                let script = perf.finish()?;
                let stacks = Stacks::of_perf_script(&script, &mut symbols);
                let stacks = stacks.map_err(|error| format!("perf's output is odd ({error})"))?;
                let event = stacks::event(&script).unwrap_or("unknown").to_owned();
                if stacks.kernel() == 0 {
                    user_only = Some("perf was not shown any of the kernel's stacks".to_owned());
                }
                (stacks, Source::Perf, event)
            }
            By::Signal(sampler) => (sampler.finish(), Source::InProcess, "SIGPROF".to_owned()),
        };
        if stacks.samples() == 0 {
            return Err(format!(
                "no sample was taken in {cpu_s:.4} s of processor time; profile a longer window or \
                 more load"
            ));
        }
        let kernel_unnamed = user_only.is_none().then(perf::kernel_unnamed).flatten();
        let frequency = self.frequency;
        let sampling =
            Sampling { source, user_only, kernel_unnamed, event, frequency, observed_s, cpu_s };
        Ok(Recording { stacks, sampling })
    }
}

/// Processor time of this process so far, ns.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// The frequency that gives enough samples over this many seconds of the cores' time.
fn frequency(cores_s: f64) -> u32 {
    let enough = FREQUENCIES.into_iter().find(|each| f64::from(*each) * cores_s <= SAMPLES_ENOUGH);
    enough.unwrap_or(FREQUENCIES[FREQUENCIES.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_on_many_cores_are_sampled_less_often() {
        for (cores_s, hz) in
            [(0.1, 999), (20.0, 999), (21.0, 499), (100.0, 99), (1_000.0, 19), (1e9, 19)]
        {
            assert_eq!(frequency(cores_s), hz, "{cores_s}");
        }
    }
}
