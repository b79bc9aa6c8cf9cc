//! One run, as its thread, its session and the watcher share it.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use engine::run::{Run, RunProgress};
use engine::sys::units::Nanos;

use crate::lease::Loss;
use crate::message::{Ready, Results, ShardState};
use crate::refusal::Refusal;

/// How long the run's thread sleeps at most before it looks again.
const LOOK: Duration = Duration::from_millis(20);

/// Why a run was called off that its controller stopped before its start.
pub(super) const STOPPED: &str = "its controller stopped it";

/// One run. Nobody holds its lock while it waits for anything, so the watcher never waits for it.
pub(super) struct Job {
    /// The controller's name.
    pub(super) holder: String,
    state: Mutex<State>,
    changed: Condvar,
}

/// How far a run has got, and what its controller asked.
#[derive(Default)]
pub(super) struct State {
    pub(super) stage: Stage,
    /// From when its shards are started until they have ended.
    pub(super) run: Option<Run>,
    /// When its load is to begin, ns.
    pub(super) start_ns: Option<u64>,
    /// When its load ends unless a heartbeat comes before, ns.
    pub(super) held_until_ns: u64,
    /// Whether its controller ended it.
    pub(super) is_stopped: bool,
    /// Why it goes on without its controller, and so not at all.
    pub(super) lost: Option<Why>,
    /// Whether its controller has the report.
    pub(super) is_collected: bool,
    /// What the controller collects.
    pub(super) brought: Option<Brought>,
    /// Its progress when its shards had ended.
    last: Option<RunProgress>,
}

/// How far a run has got.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Stage {
    /// The plan is checked, connections are opened.
    #[default]
    Preparing,
    /// It waits for its start.
    Ready(Ready),
    /// It won't be run.
    Refused(Refusal),
    /// Its shards have ended, and what they measured is there.
    Ended,
    /// Nothing of it is left here.
    Over(Over),
}

/// How a run ended for this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It was refused.
    Refused,
    /// It was called off before its load began.
    CalledOff,
    /// Its controller has the report.
    Collected,
    /// Nobody collected its report, which is on disk, or couldn't be put there.
    Kept,
}

/// Why a run has no controller any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// No heartbeat came for so long, ns.
    Silence(u64),
    /// This agent read nothing for so long, ns, and so no heartbeat.
    Unread(u64),
    /// Its session ended.
    Session,
    /// This agent was asked to end.
    Ending,
}

impl From<Loss> for Why {
    fn from(lost: Loss) -> Why {
        match lost {
            Loss::Silence(ns) => Why::Silence(ns),
            Loss::Unread(ns) => Why::Unread(ns),
            Loss::Session => Why::Session,
        }
    }
}

impl Why {
    /// In words, for the operator and for whoever reads the report.
    pub(super) fn words(self) -> String {
        match self {
            Why::Silence(ns) => format!("no heartbeat came for {}", rounded(ns)),
            Why::Unread(ns) => format!("the agent stood still for {}", rounded(ns)),
            Why::Session => "the controller's session ended".to_owned(),
            Why::Ending => "the agent was asked to end".to_owned(),
        }
    }

    /// What the controller is told, if it still listens.
    pub(super) fn refusal(self) -> Refusal {
        match self {
            Why::Silence(ns) => Refusal::LeaseLost(rounded(ns)),
            Why::Unread(ns) => Refusal::StoodStill(rounded(ns)),
            Why::Session | Why::Ending => Refusal::Ending,
        }
    }
}

/// A length of time in whole tenths of a second.
fn rounded(ns: u64) -> Nanos {
    const TENTH_NS: u64 = 100_000_000;
    Nanos(ns / TENTH_NS * TENTH_NS)
}

/// What a controller collects, ready to be sent.
pub(super) struct Brought {
    /// The file with the raw samples, if the controller asked for them.
    pub(super) samples: Option<std::fs::File>,
    pub(super) shards: Vec<ShardState>,
    pub(super) results: Results,
}

impl State {
    /// Whether the run isn't to begin at all.
    pub(super) fn is_called_off(&self) -> bool {
        self.is_stopped || self.lost.is_some()
    }
}

impl Job {
    pub(super) fn new(holder: String, held_until_ns: u64) -> Job {
        let state = Mutex::new(State { held_until_ns, ..State::default() });
        Job { holder, state, changed: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds a run's lock")
    }

    /// Waits until `look` finds what it looks for, which may take as long as the run.
    pub(super) fn wait<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&mut state) {
                return found;
            }
            // The run itself tells nobody that it is ready or finished.
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.expect("no thread panics while it holds a run's lock").0;
        }
    }

    /// Changes the state and tells whoever waits.
    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    pub(super) fn stage(&self) -> Stage {
        self.lock().stage.clone()
    }

    pub(super) fn lost(&self) -> Option<Why> {
        self.lock().lost
    }

    /// A heartbeat came: its load goes on until then.
    pub(super) fn hold_until(&self, until_ns: u64) {
        self.change(|state| {
            state.held_until_ns = until_ns;
            state.run.iter().for_each(|run| run.hold_until(until_ns));
        });
    }

    /// The controller ends it: nothing more is sent.
    pub(super) fn stop(&self) {
        self.change(|state| {
            state.is_stopped = true;
            state.run.iter().for_each(Run::stop);
        });
    }

    /// It has no controller any more: nothing more is sent. That it was collected before stands.
    pub(super) fn lose(&self, why: Why) {
        self.change(|state| {
            if !state.is_collected {
                state.lost.get_or_insert(why);
                state.run.iter().for_each(Run::stop);
            }
        });
    }

    /// What `produce` brings, on a thread of this name; `None` if the run is called off before
    /// that: then nobody waits for it any more.
    ///
    /// # Errors
    /// The kernel refuses a thread.
    pub(super) fn unless_called_off<T: Send + 'static>(
        &self,
        name: &str,
        produce: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Option<T>> {
        let (bring, brought) = mpsc::sync_channel(1);
        thread::Builder::new().name(name.to_owned()).spawn(move || drop(bring.send(produce())))?;
        loop {
            let found = brought.recv_timeout(LOOK);
            if self.lock().is_called_off() {
                return Ok(None);
            }
            match found {
                Ok(found) => return Ok(Some(found)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("{name} ended without a word"),
            }
        }
    }

    /// Its shards have ended: their run is the caller's.
    pub(super) fn take_ended(&self) -> Run {
        let run = self.wait(|state| {
            let is_finished = state.run.as_ref().is_some_and(Run::is_finished);
            is_finished.then(|| state.run.take()).flatten()
        });
        let last = run.progress();
        self.change(|state| state.last = Some(last));
        run
    }

    /// What it has done so far; `None` before its shards are started, and for the moment in which
    /// they end.
    pub(super) fn progress(&self) -> Option<RunProgress> {
        let state = self.lock();
        state.run.as_ref().map(Run::progress).or_else(|| state.last.clone())
    }

    /// What its controller collects, once it has ended.
    pub(super) fn take_brought(&self) -> Brought {
        self.lock().brought.take().expect("a run that has ended is collected once")
    }

    /// Its controller has the report.
    pub(super) fn collected(&self) {
        // One that was lost meanwhile is kept nevertheless.
        self.change(|state| state.is_collected = state.lost.is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_server_that_is_silent_keeps_no_run_from_its_end() {
        type Ends = fn(&Job);
        for end in [Job::stop as Ends, |job| job.lose(Why::Ending)] {
            let job = Job::new("ann@desk".to_owned(), u64::MAX);
            let (answer, answered) = mpsc::channel::<()>();
            let (asked, is_asked) = mpsc::channel();
            let brought = thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    job.unless_called_off("resolves", move || {
                        asked.send(()).expect("the test waits");
                        // Until the test has seen that nobody waits for it.
                        answered.recv()
                    })
                });
                is_asked.recv().expect("it was started");
                end(&job);
                waiting.join().expect("it ends")
            });
            assert_eq!(brought.expect("a thread"), None);
            answer.send(()).expect("it still waits");
        }
    }

    #[test]
    fn what_is_there_in_time_is_brought() {
        let job = Job::new("ann@desk".to_owned(), u64::MAX);
        assert_eq!(job.unless_called_off("adds", || 2 + 2).expect("a thread"), Some(4));
        job.stop();
        assert_eq!(job.unless_called_off("adds", || 2 + 2).expect("a thread"), None);
    }
}
