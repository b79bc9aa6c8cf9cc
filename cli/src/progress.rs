//! The progress line on stderr, shown on a terminal only.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use engine::plan::Plan;
use engine::run::{Phase, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::text::progress;

/// How often the line is redrawn. Shards publish on their own schedule: faster shows nothing new.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);

/// A progress line, or nothing if there is no terminal to show it.
pub(crate) struct ProgressLine {
    bar: Option<ProgressBar>,
    label: String,
}

impl ProgressLine {
    /// A line for a run of this plan, if stderr is a terminal and the user wants one; each text
    /// begins with the label.
    pub(crate) fn new(plan: &Plan, wanted: bool, label: &str) -> ProgressLine {
        let bar = (wanted && stderr().is_terminal()).then(|| {
            let length_ms = plan.end_ns() / 1_000_000;
            let bar = ProgressBar::with_draw_target(Some(length_ms), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:20} {wide_msg}");
            bar.set_style(style.expect("the template is a constant"));
            bar
        });
        ProgressLine { bar, label: label.to_owned() }
    }

    /// Redraws the line.
    pub(crate) fn show(&self, now: &Progress) {
        let Some(bar) = &self.bar else { return };
        let elapsed_ns = if now.phase == Phase::Setup { 0 } else { now.elapsed_ns };
        bar.set_position(elapsed_ns / 1_000_000);
        bar.set_message(format!("{}{}", self.label, progress::line(now)));
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
