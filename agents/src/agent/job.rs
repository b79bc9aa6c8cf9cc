//! One run, shared by its thread, its session and the watcher.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use engine::run::{Run, RunProgress};
use engine::sys::units::Nanos;

use super::attachments::Missing;
use super::outgoing::Outgoing;
use crate::lease::Loss;
use crate::message::Ready;
use crate::refusal::Refusal;
use crate::run_id::RunId;

/// The longest that the run's thread sleeps before it checks again.
const LOOK: Duration = Duration::from_millis(20);

/// The reason for a run that its controller stopped before its start.
pub(super) const STOPPED: &str = "its controller stopped it";

/// One run. Its lock is never held during a wait, so the watcher never waits for it.
pub(super) struct Job {
    /// Its name.
    pub(super) run: RunId,
    /// The controller's name.
    pub(super) holder: String,
    /// The controller's address.
    pub(super) address: String,
    state: Mutex<State>,
    changed: Condvar,
}

/// The state of a run, and its controller's requests.
#[derive(Default)]
pub(super) struct State {
    pub(super) stage: Stage,
    /// Present from the start of its shards until they have ended.
    pub(super) run: Option<Run>,
    /// The files that it lacked, once they have come.
    pub(super) arrived: Option<Vec<Vec<u8>>>,
    /// When its load is to begin, ns.
    pub(super) start_ns: Option<u64>,
    /// When its load ends unless a heartbeat comes before, ns.
    pub(super) held_until_ns: u64,
    /// True if its controller ended it.
    pub(super) is_stopped: bool,
    /// Why it lost its controller, and therefore stops.
    pub(super) lost: Option<Why>,
    /// True if its controller has the report.
    pub(super) is_collected: bool,
    /// The results for the controller.
    pub(super) outgoing: Option<Outgoing>,
    /// Its progress when its shards had ended.
    last: Option<RunProgress>,
}

/// How far a run has got.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Stage {
    /// The plan is checked, and connections are opened.
    #[default]
    Preparing,
    /// It lacks these files of the plan.
    Lacks(Vec<Missing>),
    /// It waits for its start.
    Ready(Ready),
    /// It won't run.
    Refused(Refusal),
    /// Its shards have ended, and their results are there.
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
    /// No controller collected its report, which is on disk or couldn't be written.
    Kept,
}

/// Why a run has lost its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// No heartbeat came for this long, ns.
    Silence(u64),
    /// The agent read nothing for this long, ns, and so no heartbeat.
    Unread(u64),
    /// Its session ended.
    Session,
    /// This agent was asked to end.
    Ending,
    /// Its controller has the report, but not all raw samples.
    SamplesLeft,
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
    /// In words, for the operator and for the report.
    pub(super) fn words(self) -> String {
        match self {
            Why::Silence(ns) => format!("no heartbeat came for {}", rounded(ns)),
            Why::Unread(ns) => format!("the agent stood still for {}", rounded(ns)),
            Why::Session => "the controller's session ended".to_owned(),
            Why::Ending => "the agent was asked to end".to_owned(),
            Why::SamplesLeft => "its controller had no room for the raw samples".to_owned(),
        }
    }

    /// The refusal for the controller, if it still listens.
    pub(super) fn refusal(self) -> Refusal {
        match self {
            Why::Silence(ns) => Refusal::LeaseLost(rounded(ns)),
            Why::Unread(ns) => Refusal::StoodStill(rounded(ns)),
            Why::Session | Why::Ending | Why::SamplesLeft => Refusal::Ending,
        }
    }
}

/// A length of time in whole tenths of a second.
fn rounded(ns: u64) -> Nanos {
    const TENTH_NS: u64 = 100_000_000;
    Nanos(ns / TENTH_NS * TENTH_NS)
}

impl State {
    /// True if the run must not begin at all.
    pub(super) fn is_called_off(&self) -> bool {
        self.is_stopped || self.lost.is_some()
    }
}

impl Job {
    pub(super) fn new(run: RunId, holder: String, address: String, held_until_ns: u64) -> Job {
        let state = Mutex::new(State { held_until_ns, ..State::default() });
        Job { run, holder, address, state, changed: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds a run's lock")
    }

    /// Waits until `look` returns something, which may take as long as the run.
    pub(super) fn wait<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&mut state) {
                return found;
            }
            // The run itself doesn't signal that it is ready or finished.
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.expect("no thread panics while it holds a run's lock").0;
        }
    }

    /// Changes the state and wakes all that wait.
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

    /// A heartbeat came: the load may go on until `until_ns`.
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

    /// It has lost its controller: nothing more is sent. If it was collected before, it stays so.
    pub(super) fn lose(&self, why: Why) {
        self.change(|state| {
            if !state.is_collected {
                state.lost.get_or_insert(why);
                state.run.iter().for_each(Run::stop);
            }
        });
    }

    /// The value of `produce`, run on a thread of this name; `None` if the run is called off first,
    /// and then no one waits for the thread.
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

    /// Hands over the run, whose shards have ended.
    pub(super) fn take_ended(&self) -> Run {
        let run = self.wait(|state| {
            let is_finished = state.run.as_ref().is_some_and(Run::is_finished);
            is_finished.then(|| state.run.take()).flatten()
        });
        let last = run.progress();
        self.change(|state| state.last = Some(last));
        run
    }

    /// Its progress so far; `None` before its shards are started, and for a moment while they end.
    pub(super) fn progress(&self) -> Option<RunProgress> {
        let state = self.lock();
        state.run.as_ref().map(Run::progress).or_else(|| state.last.clone())
    }

    /// The results for its controller, once it has ended.
    pub(super) fn take_outgoing(&self) -> Outgoing {
        self.lock().outgoing.take().expect("a run that has ended is collected once")
    }

    /// Its controller has the report.
    pub(super) fn collected(&self) {
        // A run that was lost meanwhile is kept nevertheless.
        self.change(|state| state.is_collected = state.lost.is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job::new(RunId::new(), "ann@desk".to_owned(), "10.0.0.9:1".to_owned(), u64::MAX)
    }

    #[test]
    fn a_silent_name_server_delays_no_run_from_ending() {
        type Ends = fn(&Job);
        for end in [Job::stop as Ends, |job| job.lose(Why::Ending)] {
            let job = job();
            let (answer, answered) = mpsc::channel::<()>();
            let (asked, is_asked) = mpsc::channel();
            let brought = thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    job.unless_called_off("resolves", move || {
                        asked.send(()).expect("the test waits");
                        // Blocks until the test has seen that no one waits for it.
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
    fn a_value_in_time_is_returned() {
        let job = job();
        assert_eq!(job.unless_called_off("adds", || 2 + 2).expect("a thread"), Some(4));
        job.stop();
        assert_eq!(job.unless_called_off("adds", || 2 + 2).expect("a thread"), None);
    }
}
