//! The progress of a run, on stderr: on the whole screen, in a line that is redrawn, or in a plain
//! line every ten seconds.

use std::io::{IsTerminal as _, stderr};
use std::thread;
use std::time::{Duration, Instant};

use agents::controller::live::AgentLive;
use console::Term;
use engine::plan::Plan;
use engine::run::{Health, Phase, RunProgress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use probe::SeriesProgress;
use serde::Deserialize;

use crate::failure::{Failure, complain, tell};
use crate::live::Live;
use crate::recent::Recent;
use crate::text::agents::live;
use crate::text::progress as text;

/// How often the line is redrawn. Shards publish on their own schedule: faster shows nothing new.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);

/// The most redraws per second, as on a user's terminal.
const HERTZ: u8 = 20;

/// Time from one plain line to the next.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The progress display that the user asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Progress {
    /// A bar on a terminal, else lines.
    #[default]
    Auto,
    /// A redrawn line with a bar.
    Bar,
    /// A line every ten seconds.
    Lines,
    /// Nothing.
    Off,
}

impl Progress {
    /// The names of all.
    pub(crate) const NAMES: [&str; 4] = ["auto", "bar", "lines", "off"];

    /// The progress display for this choice, and perhaps `--quiet`.
    ///
    /// # Errors
    /// A bar needs a terminal, as a usage error.
    pub(crate) fn shown(given: Option<Progress>, quiet: bool) -> Result<Shown, Failure> {
        let is_terminal = stderr().is_terminal();
        match given.unwrap_or_default() {
            _ if quiet => Ok(Shown::Nothing),
            Progress::Auto if is_terminal => Ok(Shown::Bar),
            Progress::Auto | Progress::Lines => Ok(Shown::Lines),
            Progress::Bar if is_terminal => Ok(Shown::Bar),
            Progress::Bar => Err(Failure::Usage(
                "--progress bar: standard error isn't a terminal; give lines, or omit it"
                    .to_owned(),
            )),
            Progress::Off => Ok(Shown::Nothing),
        }
    }
}

/// The progress display of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// A redrawn line on stderr, which is a terminal.
    Bar,
    /// Plain lines.
    Lines,
    /// Nothing.
    Nothing,
}

/// The announced duration before a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Announce {
    /// Nothing.
    #[default]
    Nothing,
    /// The length of the run.
    Run,
    /// The length of the series that begins with it.
    Series(SeriesProgress),
}

impl Announce {
    /// The line for a completed plan whose load begins `ahead_ns` after its setup, if one is
    /// printed.
    pub(crate) fn line(self, plan: &Plan, ahead_ns: u64) -> Option<String> {
        match self {
            Announce::Nothing => None,
            Announce::Run => Some(text::takes(plan, ahead_ns)),
            Announce::Series(progress) => Some(text::series_takes(plan, ahead_ns, progress)),
        }
    }
}

/// The display of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    /// True for the whole screen, until the user leaves it.
    pub(crate) live: bool,
    /// During the run.
    pub(crate) shown: Shown,
    /// The prefix of each text then.
    pub(crate) label: &'a str,
    /// Before the run.
    pub(crate) announce: Announce,
}

impl View<'_> {
    /// A display with nothing to announce.
    pub(crate) fn of(shown: Shown) -> View<'static> {
        View { live: false, shown, label: "", announce: Announce::Nothing }
    }
}

/// The place of the text.
enum Place {
    /// The whole screen, taken once there is something to show.
    Screen(Option<Box<Live>>),
    Bar(ProgressBar),
    /// Standard error, in lines; `next` is when one is due, from the start.
    Lines {
        next: Duration,
    },
    Nowhere,
}

impl Place {
    /// The place for a run that began then.
    fn of(shown: Shown, plan: &Plan, began: Instant) -> Place {
        match shown {
            Shown::Bar => Place::Bar(bar(plan, ProgressDrawTarget::stderr())),
            Shown::Lines => Place::Lines { next: began.elapsed() + LINE_EVERY },
            Shown::Nothing => Place::Nowhere,
        }
    }
}

/// The progress of a run, shown to the user.
pub(crate) struct ProgressLine {
    place: Place,
    /// The display once the user has left the screen.
    shown: Shown,
    label: String,
    plan: Plan,
    recent: Recent,
    began: Instant,
}

impl ProgressLine {
    /// For a run of this completed plan; each text begins with the label.
    pub(crate) fn new(plan: &Plan, view: View<'_>) -> ProgressLine {
        let View { live, shown, label, .. } = view;
        let began = Instant::now();
        let place = if live { Place::Screen(None) } else { Place::of(shown, plan, began) };
        let (label, plan, recent) = (label.to_owned(), plan.clone(), Recent::default());
        ProgressLine { place, shown, label, plan, recent, began }
    }

    /// A bar on this terminal.
    pub(crate) fn on(plan: &Plan, term: Term) -> ProgressLine {
        let place = Place::Bar(bar(plan, ProgressDrawTarget::term(term, HERTZ)));
        ProgressLine { place, ..ProgressLine::new(plan, View::of(Shown::Nothing)) }
    }

    /// Shows the progress of a run on this machine.
    pub(crate) fn show(&mut self, now: &RunProgress, health: impl FnOnce() -> Health) {
        if matches!(self.place, Place::Nowhere) {
            return;
        }
        let health = health();
        self.recent.look(now, Some(health.clone()));
        let second = self.recent.second();
        if let Place::Screen(live) = &mut self.place {
            let opened = match live.take() {
                Some(live) => Ok(live),
                None => Live::open(self.plan.cores()).map(Box::new),
            };
            let drawn = opened.and_then(|mut opened| {
                opened.draw(&self.plan, now, &health, second.as_ref())?;
                *live = Some(opened);
                Ok(())
            });
            if let Err(error) = drawn {
                self.leave_screen();
                complain(&format!("--live: the terminal can't be drawn on ({error})"));
            }
        }
        self.draw(now, |line| text::line(&line.plan, now, second.as_ref()));
    }

    /// Waits this long, or until the user leaves the screen.
    pub(crate) fn pause(&mut self, pause: Duration) {
        match &self.place {
            Place::Screen(Some(live)) => {
                if live.wait(pause) {
                    self.leave_screen();
                }
            }
            _ => thread::sleep(pause),
        }
    }

    /// Goes on without the screen, if it was taken.
    pub(crate) fn leave_screen(&mut self) {
        if let Place::Screen(_) = &self.place {
            self.place = Place::of(self.shown, &self.plan, self.began);
        }
    }

    /// Shows each agent's progress, and the total once they reported.
    pub(crate) fn show_agents(&mut self, agents: &[AgentLive], all: Option<&RunProgress>) {
        let setup = RunProgress::default();
        let now = all.unwrap_or(&setup);
        self.recent.look(now, None);
        self.draw(now, |line| match line.place {
            Place::Bar(_) => live(agents, all),
            _ if all.is_none() => "setting up".to_owned(),
            _ => text::line(&line.plan, now, line.recent.second().as_ref()),
        });
    }

    fn draw(&mut self, now: &RunProgress, text: impl FnOnce(&ProgressLine) -> String) {
        match &mut self.place {
            Place::Bar(_) => {}
            Place::Lines { next } if *next <= self.began.elapsed() => {
                *next = next_line(*next, self.began.elapsed());
            }
            Place::Screen(_) | Place::Lines { .. } | Place::Nowhere => return,
        }
        let text = format!("{}{}", self.label, text(self));
        match &self.place {
            Place::Bar(bar) => {
                let loaded_ns = if now.phase == Phase::Setup { 0 } else { now.elapsed_ns };
                let [intended, ..] = now.counts;
                let by_count = self.plan.ends_by_count();
                bar.set_position(if by_count { intended } else { loaded_ns / 1_000_000 });
                bar.set_message(text);
            }
            _ => tell(&text),
        }
    }

    /// Prints text above the bar, or in its place.
    pub(crate) fn say(&self, text: &str) {
        self.above(|| complain(text));
    }

    /// Writes above the bar, or in its place.
    pub(crate) fn above<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.place {
            Place::Bar(bar) => bar.suspend(write),
            _ => write(),
        }
    }

    /// Removes the bar, or leaves the screen.
    pub(crate) fn clear(&mut self) {
        if let Place::Bar(bar) = &self.place {
            bar.finish_and_clear();
        }
        self.place = Place::Nowhere;
    }
}

/// The time of the line after the one due at `next`: lines missed in a pause are skipped.
fn next_line(mut next: Duration, elapsed: Duration) -> Duration {
    while next <= elapsed {
        next += LINE_EVERY;
    }
    next
}

fn bar(plan: &Plan, target: ProgressDrawTarget) -> ProgressBar {
    let counted = plan.requests.filter(|_| plan.ends_by_count());
    let length = counted.unwrap_or(plan.end_ns() / 1_000_000);
    let bar = ProgressBar::with_draw_target(Some(length), target);
    let style = ProgressStyle::with_template("{bar:20} {msg}");
    bar.set_style(style.expect("the template is a constant"));
    bar
}

#[cfg(test)]
mod tests {
    use engine::sys::units::Nanos;

    use super::*;

    #[test]
    fn a_pause_is_followed_by_one_line() {
        let seconds = Duration::from_secs;
        for (elapsed_s, next_s) in [(10, 20), (19, 20), (70, 80), (79, 80)] {
            assert_eq!(next_line(seconds(10), seconds(elapsed_s)), seconds(next_s));
        }
    }

    #[test]
    fn the_bar_of_a_counted_run_counts_no_warm_up() {
        let requests = Some(100);
        let plan = Plan { requests, warmup: Nanos::from_secs(1), ..Plan::default() };
        let mut line = ProgressLine::new(&plan, View::of(Shown::Nothing));
        line.place = Place::Bar(bar(&plan, ProgressDrawTarget::hidden()));
        let counts = [25, 0, 0, 0, 0, 0, 0, 0, 0, 40, 40];
        let now =
            RunProgress { phase: Phase::Steady, intended: 65, counts, ..RunProgress::default() };
        line.draw(&now, |_| String::new());
        let Place::Bar(bar) = &line.place else { panic!("a bar") };
        assert_eq!((bar.length(), bar.position()), (Some(100), 25));
    }

    #[test]
    fn quiet_hides_it_and_a_bar_needs_a_terminal() {
        for given in [None, Some(Progress::Auto), Some(Progress::Bar), Some(Progress::Lines)] {
            assert_eq!(Progress::shown(given, true).expect("shown"), Shown::Nothing);
        }
        for (given, shown) in [(Progress::Lines, Shown::Lines), (Progress::Off, Shown::Nothing)] {
            assert_eq!(Progress::shown(Some(given), false).expect("shown"), shown);
        }
        if !stderr().is_terminal() {
            assert_eq!(Progress::shown(None, false).expect("shown"), Shown::Lines);
            let refused = Progress::shown(Some(Progress::Bar), false).expect_err("no terminal");
            assert!(refused.to_string().starts_with("--progress bar: "), "{refused}");
        }
    }
}
