//! The progress line on stderr, shown on a terminal only.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use console::Term;
use engine::plan::Plan;
use engine::run::{Phase, Tally};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::complain;
use crate::text::progress;

/// How often the line is redrawn. Shards publish on their own schedule: faster shows nothing new.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);

/// Redraws per second at most, as on a user's terminal.
const HERTZ: u8 = 20;

/// A progress line, or nothing if there is no terminal to show it.
pub(crate) struct ProgressLine {
    bar: Option<ProgressBar>,
    label: String,
    /// Whether the bar shows requests; otherwise time.
    counts: bool,
}

impl ProgressLine {
    /// A line for a run of this plan, if stderr is a terminal and the user wants one; each text
    /// begins with the label.
    pub(crate) fn new(plan: &Plan, wanted: bool, label: &str) -> ProgressLine {
        let shown = wanted && stderr().is_terminal();
        let bar = shown.then(|| bar(plan, ProgressDrawTarget::stderr()));
        ProgressLine { bar, label: label.to_owned(), counts: plan.ends_by_count() }
    }

    /// A line on this terminal.
    pub(crate) fn on(plan: &Plan, term: Term) -> ProgressLine {
        let bar = Some(bar(plan, ProgressDrawTarget::term(term, HERTZ)));
        ProgressLine { bar, label: String::new(), counts: plan.ends_by_count() }
    }

    /// Redraws the line.
    pub(crate) fn show(&self, now: &Tally) {
        let elapsed_ns = if now.phase == Phase::Setup { 0 } else { now.elapsed_ns };
        self.show_text(elapsed_ns, now.intended, || progress::line(now));
    }

    /// Redraws it with another text, which may have several lines, so long after the epoch, when so
    /// many requests have been due.
    pub(crate) fn show_text(&self, elapsed_ns: u64, intended: u64, text: impl FnOnce() -> String) {
        let Some(bar) = &self.bar else { return };
        bar.set_position(if self.counts { intended } else { elapsed_ns / 1_000_000 });
        bar.set_message(format!("{}{}", self.label, text()));
    }

    /// Says something above the line, or where it would be.
    pub(crate) fn say(&self, text: &str) {
        self.above(|| complain(text));
    }

    /// Writes something above the line, or where it would be.
    pub(crate) fn above<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(plan: &Plan, target: ProgressDrawTarget) -> ProgressBar {
    let counted = plan.requests.filter(|_| plan.ends_by_count());
    let length = counted.unwrap_or(plan.end_ns() / 1_000_000);
    let bar = ProgressBar::with_draw_target(Some(length), target);
    let style = ProgressStyle::with_template("{bar:20} {msg}");
    bar.set_style(style.expect("the template is a constant"));
    bar
}
