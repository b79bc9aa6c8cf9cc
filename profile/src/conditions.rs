//! How a profile was taken, and the differences between two profiles.
//!
//! A `.folded` file has the conditions as JSON in a line of its own, a comment to other tools,
//! which only this file reads and writes.

use engine::plan::{StampSource, Wait};
use engine::report::Report;
use engine::report::profile::{Profile, Sampler};
use serde::{Deserialize, Serialize};

/// How a profile was taken, and of what run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// True if figures are picoseconds per request. For a run without answers they are microseconds
    /// of processor time.
    pub per_request: bool,
    /// Samples taken.
    pub samples: u64,
    /// The sampler.
    pub sampler: Sampler,
    /// The sampling event.
    pub event: String,
    /// True if samples show the kernel.
    pub shows_kernel: bool,
    /// True if the kernel's functions have names.
    pub names_kernel: bool,
    /// How the shards waited.
    pub wait: Wait,
    /// The source of responses' stamps.
    pub stamps: StampSource,
    /// Requests answered per second.
    pub answered_per_s: f64,
    /// The kernel's release.
    pub kernel: String,
}

/// The start of a file's line of conditions. Tools for folded stacks treat it as a comment.
const BEGINS: &str = "# truetail ";

/// Rates that differ by less are the same.
const RATES_APART: f64 = 1.1;

impl Conditions {
    /// Those of a run's profile.
    pub(crate) fn new(profile: &Profile, report: &Report) -> Conditions {
        let sampling = &profile.sampling;
        Conditions {
            per_request: profile.cpu_us_per_request.is_some(),
            samples: profile.samples,
            sampler: sampling.source,
            event: sampling.event.clone(),
            shows_kernel: sampling.user_only.is_none(),
            names_kernel: sampling.user_only.is_none() && sampling.kernel_unnamed.is_none(),
            wait: report.config.plan.wait,
            stamps: report.config.plan.stamps(),
            answered_per_s: report.whole.rate.answered,
            kernel: report.environment.kernel.clone(),
        }
    }

    /// As a line of a file. It doesn't end with a number, so no tool takes it for a stack.
    pub(crate) fn line(&self) -> String {
        let text = serde_json::to_string(self).expect("names and numbers have a JSON text");
        format!("{BEGINS}{text}")
    }

    /// Parses such a line; `None` for any other.
    pub(crate) fn of_line(line: &str) -> Option<Conditions> {
        serde_json::from_str(line.strip_prefix(BEGINS)?).ok()
    }

    /// The differences of a second profile's conditions from these, each as a clause.
    pub(crate) fn differences(&self, other: &Conditions) -> Vec<String> {
        let both = |what: &str, before: String, after: String| {
            (before != after).then(|| format!("{what}: {before}, then {after}"))
        };
        let kernel = |of: &Conditions| match (of.shows_kernel, of.names_kernel) {
            (true, true) => "shown".to_owned(),
            (true, false) => "shown without names".to_owned(),
            (false, _) => "counted for what called it".to_owned(),
        };
        let sampled = |of: &Conditions| format!("{} by {}", of.event, word(of.sampler));
        let (slow, fast) = (
            self.answered_per_s.min(other.answered_per_s),
            self.answered_per_s.max(other.answered_per_s),
        );
        let rate = |of: &Conditions| format!("{:.0}", of.answered_per_s);
        let rates = both("answers per second", rate(self), rate(other));
        [
            both("wait", word(self.wait), word(other.wait)),
            both("stamps", word(self.stamps), word(other.stamps)),
            rates.filter(|_| slow * RATES_APART < fast),
            both("sampled", sampled(self), sampled(other)),
            both("the kernel's functions", kernel(self), kernel(other)),
            both("kernel", self.kernel.clone(), other.kernel.clone()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The spelling of a variant in files.
fn word(variant: impl Serialize) -> String {
    let value = serde_json::to_value(variant).ok();
    value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Those of a profile with this many samples.
    pub(crate) fn conditions(samples: u64) -> Conditions {
        Conditions {
            per_request: true,
            samples,
            sampler: Sampler::Perf,
            event: "cpu-clock".to_owned(),
            shows_kernel: true,
            names_kernel: true,
            wait: Wait::Hybrid,
            stamps: StampSource::Kernel,
            answered_per_s: 5_000.0,
            kernel: "Linux 6.1".to_owned(),
        }
    }

    #[test]
    fn a_line_reads_back_and_is_no_stack() {
        let line = conditions(10).line();
        assert!(!line.ends_with(|last: char| last.is_ascii_digit()), "{line}");
        assert_eq!(Conditions::of_line(&line), Some(conditions(10)));
        for other in ["main;foo 100", "# truetail ", "# truetail {}", "#"] {
            assert_eq!(Conditions::of_line(other), None, "{other}");
        }
    }

    #[test]
    fn differences_are_named() {
        let before = conditions(10);
        let same = Conditions { samples: 20, answered_per_s: 5_400.0, ..before.clone() };
        assert_eq!(before.differences(&same), [""; 0]);
        let after = Conditions {
            wait: Wait::Sleep,
            stamps: StampSource::User,
            answered_per_s: 50_000.0,
            sampler: Sampler::InProcess,
            event: "SIGPROF".to_owned(),
            shows_kernel: false,
            kernel: "Linux 6.9".to_owned(),
            ..before.clone()
        };
        insta::assert_snapshot!(before.differences(&after).join("\n"), @r"
        wait: hybrid, then sleep
        stamps: kernel, then user
        answers per second: 5000, then 50000
        sampled: cpu-clock by perf, then SIGPROF by in_process
        the kernel's functions: shown, then counted for what called it
        kernel: Linux 6.1, then Linux 6.9
        ");
    }
}
