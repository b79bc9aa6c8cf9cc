//! Where the CPU time of a run's window went, by a profiler's stack samples.
//!
//! The time itself comes from the kernel's accounting of the process; samples only divide it. So
//! figures per request don't depend on how many samples were taken or lost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most frames that a profile lists.
pub const FRAMES_MAX: usize = 10;

/// Where the CPU time went, over the profiled part of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// How it was sampled.
    #[serde(flatten)]
    pub sampling: Sampling,
    /// Samples taken.
    pub samples: u64,
    /// CPU time per request answered, microseconds; `None` if none was.
    pub cpu_us_per_request: Option<f64>,
    /// The part in the kernel; `None` if samples show user space only.
    pub kernel: Option<Sampled>,
    /// The part in user space.
    pub user: Sampled,
    /// The frames with the most self time, excluding their callees, at most [`FRAMES_MAX`];
    /// heaviest first.
    pub frames: Vec<ProfiledFrame>,
}

/// How a run was sampled, and what the samples don't show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sampling {
    /// The sampler.
    pub source: Sampler,
    /// Why samples show user space only, if they do: kernel time then counts for the function that
    /// called into it.
    pub user_only: Option<String>,
    /// Why kernel functions have no names, if they don't.
    pub kernel_unnamed: Option<String>,
    /// The sampling event, in the profiler's own words: `cpu-clock`, `cycles`, `SIGPROF`.
    pub event: String,
    /// Requested sampling rate, per second of CPU time.
    #[serde(rename = "frequency_hz")]
    pub frequency: u32,
    /// Length of the profiled stretch, seconds: the window, to within milliseconds.
    pub observed_s: f64,
    /// CPU time of the process in that stretch, all threads, seconds.
    pub cpu_s: f64,
}

/// The sampler of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sampler {
    /// `perf record`, a process beside the run.
    Perf,
    /// A signal handler in the run's own threads.
    InProcess,
}

/// A part of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sampled {
    /// Its samples.
    pub samples: u64,
    /// Their share of all.
    pub share: f64,
    /// Its CPU time per request answered, microseconds.
    pub cpu_us_per_request: Option<f64>,
}

/// A function with its self time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfiledFrame {
    /// Its name, without generic arguments.
    pub name: String,
    /// True for a kernel function.
    pub kernel: bool,
    /// Samples with this as the innermost function.
    #[serde(flatten)]
    pub own: Sampled,
}

/// The raw sample counts: everything in a [`Profile`] that isn't computed from the rest.
#[derive(Clone, Debug)]
pub struct Taken {
    /// How it was sampled.
    pub sampling: Sampling,
    /// See [`Profile::samples`].
    pub samples: u64,
    /// Samples in the kernel.
    pub kernel: u64,
    /// Function names, whether each is the kernel's, and the samples with it as the innermost
    /// function; heaviest first.
    pub frames: Vec<(String, bool, u64)>,
}

impl Profile {
    /// The profile of a run with this many answers per second.
    pub fn new(taken: Taken, answered_per_s: f64) -> Profile {
        let Taken { sampling, samples: all, kernel, frames } = taken;
        let answered = answered_per_s * sampling.observed_s;
        let per_request = |cpu_s: f64| (0.0 < answered).then(|| cpu_s * 1e6 / answered);
        let sampled = |samples: u64| {
            let share = if samples == 0 { 0.0 } else { samples as f64 / all as f64 };
            Sampled { samples, share, cpu_us_per_request: per_request(share * sampling.cpu_s) }
        };
        let frame = |(name, kernel, samples)| ProfiledFrame { name, kernel, own: sampled(samples) };
        Profile {
            samples: all,
            cpu_us_per_request: per_request(sampling.cpu_s),
            kernel: sampling.user_only.is_none().then(|| sampled(kernel)),
            user: sampled(all.saturating_sub(kernel)),
            frames: frames.into_iter().take(FRAMES_MAX).map(frame).collect(),
            sampling,
        }
    }

    /// The same profile, recomputed from the raw counts.
    pub fn again(&self, answered_per_s: f64) -> Profile {
        let taken = |frame: &ProfiledFrame| (frame.name.clone(), frame.kernel, frame.own.samples);
        let taken = Taken {
            sampling: self.sampling.clone(),
            samples: self.samples,
            kernel: self.kernel.as_ref().map_or(0, |kernel| kernel.samples),
            frames: self.frames.iter().map(taken).collect(),
        };
        Profile::new(taken, answered_per_s)
    }
}
