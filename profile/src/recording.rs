//! The samples of a run, by either sampler.

use engine::report::Report;
use engine::report::merge;
use engine::report::profile::{Profile, Sampler as Source, Sampling, Taken};

use crate::stacks::Stacks;
use crate::svg::{self, Caption};

/// The samples of a run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The stacks.
    pub stacks: Stacks,
    pub(crate) sampling: Sampling,
}

impl Recording {
    /// Adds the profile to the report of its run.
    pub fn add_to(&self, report: &mut Report) {
        merge::add_profile(report, self.taken());
    }

    fn taken(&self) -> Taken {
        Taken {
            sampling: self.sampling.clone(),
            samples: self.stacks.samples(),
            kernel: self.stacks.kernel(),
            frames: self.stacks.own(),
        }
    }

    /// The profile of a run that answered this many requests per second.
    pub fn profile(&self, answered_per_s: f64) -> Profile {
        Profile::new(self.taken(), answered_per_s)
    }

    /// The caption of its graph.
    pub(crate) fn caption(&self, profile: &Profile) -> Caption {
        let only = if self.sampling.user_only.is_some() { ", user space only" } else { "" };
        let (title, unit) = match profile.cpu_us_per_request {
            Some(us) => (format!("Processor time per request: {us:.2} µs{only}"), svg::PER_REQUEST),
            None => (format!("Processor time: {:.2} s{only}", profile.sampling.cpu_s), ("µs", 1.0)),
        };
        Caption { title, subtitle: self.described(), unit }
    }

    /// How the samples were taken, and their limits.
    pub(crate) fn described(&self) -> String {
        let sampling = &self.sampling;
        let by = match sampling.source {
            Source::Perf => "perf",
            Source::InProcess => "in-process sampler",
        };
        let mut text = format!(
            "{by}, {} at {} Hz: {} samples in {:.2} s of the window",
            sampling.event,
            sampling.frequency,
            self.stacks.samples(),
            sampling.observed_s
        );
        if let Some(why) = &sampling.user_only {
            text.push_str(&format!("; user space only: {why}"));
        }
        if let Some(why) = &sampling.kernel_unnamed {
            text.push_str(&format!("; kernel functions have no names: {why}"));
        }
        text
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Ten samples of 2 s of processor time in 2 s.
    pub(crate) fn recording() -> Recording {
        let mut stacks = Stacks::default();
        stacks.add("truetail-shard", "turn;enter;send_[k]", 6);
        stacks.add("truetail-shard", "turn;parse_[i]", 4);
        let sampling = Sampling {
            source: Source::Perf,
            user_only: None,
            kernel_unnamed: None,
            event: "cpu-clock".to_owned(),
            frequency: 999,
            observed_s: 2.0,
            cpu_s: 2.0,
        };
        Recording { stacks, sampling }
    }

    #[test]
    fn a_profile_is_per_request_and_its_parts_add_up() {
        let profile = recording().profile(5_000.0);
        assert_eq!(profile.cpu_us_per_request, Some(200.0));
        let kernel = profile.kernel.expect("perf shows it");
        assert_eq!(
            (kernel.samples, kernel.share, kernel.cpu_us_per_request),
            (6, 0.6, Some(120.0))
        );
        assert_eq!((profile.user.samples, profile.user.cpu_us_per_request), (4, Some(80.0)));
        let frames: Vec<_> = profile
            .frames
            .iter()
            .map(|frame| (&*frame.name, frame.kernel, frame.own.cpu_us_per_request))
            .collect();
        assert_eq!(frames, [("send", true, Some(120.0)), ("parse in turn", false, Some(80.0))]);
    }

    #[test]
    fn without_a_request_there_is_no_figure_per_request() {
        let profile = recording().profile(0.0);
        assert_eq!((profile.cpu_us_per_request, profile.user.cpu_us_per_request), (None, None));
        assert_eq!(profile.user.share, 0.4);
    }

    #[test]
    fn a_graph_states_its_subject_and_its_limits() {
        let caption = |recording: &Recording, rate| {
            let caption = recording.caption(&recording.profile(rate));
            format!("{}\n{}", caption.title, caption.subtitle)
        };
        insta::assert_snapshot!(caption(&recording(), 5_000.0), @r"
        Processor time per request: 200.00 µs
        perf, cpu-clock at 999 Hz: 10 samples in 2.00 s of the window
        ");
        let mut signal = recording();
        signal.sampling.source = Source::InProcess;
        "SIGPROF".clone_into(&mut signal.sampling.event);
        signal.sampling.user_only = Some("perf is not installed".to_owned());
        insta::assert_snapshot!(caption(&signal, 0.0), @r"
        Processor time: 2.00 s, user space only
        in-process sampler, SIGPROF at 999 Hz: 10 samples in 2.00 s of the window; user space only: perf is not installed
        ");
        let mut unnamed = recording();
        unnamed.sampling.kernel_unnamed = Some("why".to_owned());
        assert!(unnamed.described().ends_with("; kernel functions have no names: why"));
    }
}
