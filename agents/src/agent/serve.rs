//! The agent's threads: starts them, and ends them when asked to.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use engine::host;
use engine::sys::units::CoreList;
use glommio::timer::Timer;
use glommio::{LocalExecutorBuilder, Placement};

use super::agent::{Agent, Assignment, LOOK};
use super::attachments::FileCache;
use super::config::{AgentConfig, AgentError};
use super::control_core;
use super::conversation::converse;
use super::event::Event;
use super::job::Over;
use super::kept::Files;
use super::work::work;
use crate::listener::{ListenError, Listener};
use crate::message::Finding;
use crate::session::IO_MEMORY;

/// How often the watcher checks the lease: together with two checks of the shards, a lost lease
/// takes effect within a fraction of a second.
const WATCH: Duration = Duration::from_millis(50);
/// How long sessions may take to end when the agent does.
const GOODBYE_LOOKS: usize = 75;
/// Lines that may wait for the operator. Beyond that, runs and refused sessions wait for the
/// operator too, and strangers are summed up.
const EVENTS_MAX: usize = 1_024;

/// How an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was asked to.
    Asked {
        /// True if that cut a run short.
        cut_short: bool,
    },
    /// It was to serve one run, which ended like this.
    Once(Over),
}

/// Serves controllers until `is_asked` returns true, or until the first run is over if there is to
/// be only one. `tell` receives the events and their times, on the caller's thread.
///
/// # Errors
/// The configuration or the machine doesn't permit it; then nothing was served.
pub fn serve(
    config: AgentConfig,
    is_asked: impl Fn() -> bool + Send + 'static,
    mut tell: impl FnMut(SystemTime, &Event),
) -> Result<End, AgentError> {
    config.check()?;
    host::require_executor().map_err(AgentError::Host)?;
    host::require(1, 0, config.cores.as_ref().map_or(1, CoreList::len))
        .map_err(AgentError::Host)?;
    let cores = config.cores.as_ref().map(CoreList::as_slice);
    let (core, shared) = control_core::choose(cores);
    let checks = host::examine();
    let found = checks.iter().filter(|check| check.is_problem());
    let findings = found.map(Finding::from).chain(shared).collect();

    let (events, happened) = mpsc::sync_channel(EVENTS_MAX);
    let (jobs, orders) = mpsc::channel();
    let agent = Arc::new(Agent::new(config, core, findings, jobs, events));
    let is_over = Arc::new(AtomicBool::new(false));
    let (bound, is_bound) = mpsc::channel();
    let (serving, over) = (agent.clone(), is_over.clone());
    let executor = LocalExecutorBuilder::new(Placement::Fixed(core))
        .name("truetail-control")
        .io_memory(IO_MEMORY)
        .spawn(move || async move {
            control(serving, bound).await;
            over.store(true, Ordering::Relaxed);
        })
        .map_err(|error| AgentError::Thread(error.into()))?;
    let listening = is_bound.recv().expect("the control plane reports whether it listens");
    if let Err(error) = listening {
        executor.join().expect("a control plane that doesn't listen ends");
        return Err(error);
    }
    // Threads inherit their cores, so these aren't started from the control plane.
    let threads = [
        spawn("truetail-run", &agent, &is_over, move |agent, is_over| {
            work_all(agent, is_over, &orders);
            None
        }),
        spawn("truetail-watcher", &agent, &is_over, move |agent, is_over| {
            Some(watch(agent, is_over, is_asked))
        }),
    ];
    if threads.iter().any(Result::is_err) {
        agent.end();
    }
    loop {
        match happened.recv_timeout(WATCH) {
            Ok((at, event)) => tell(at, &event),
            Err(RecvTimeoutError::Timeout) if !is_over.load(Ordering::Relaxed) => {}
            Err(_) => break,
        }
    }
    executor.join().expect("the control plane ends");
    let mut end = None;
    for thread in threads {
        let ended = thread.map_err(AgentError::Thread)?.join().expect("a thread of the agent ends");
        end = end.or(ended);
    }
    // The last run is reported once the agent is free.
    happened.try_iter().for_each(|(at, event)| tell(at, &event));
    Ok(end.expect("the watcher returns how it ended"))
}

/// Starts a thread of the agent.
fn spawn(
    name: &str,
    agent: &Arc<Agent>,
    is_over: &Arc<AtomicBool>,
    job: impl FnOnce(&Agent, &AtomicBool) -> Option<End> + Send + 'static,
) -> io::Result<JoinHandle<Option<End>>> {
    let (agent, is_over) = (agent.clone(), is_over.clone());
    thread::Builder::new().name(name.to_owned()).spawn(move || job(&agent, &is_over))
}

/// Works on one run after another.
fn work_all(agent: &Agent, is_over: &AtomicBool, orders: &Receiver<Assignment>) {
    let mut cache = FileCache::default();
    while !is_over.load(Ordering::Relaxed) {
        // An agent that is over takes no more runs.
        if let Ok((job, prepare)) = orders.recv_timeout(WATCH) {
            let (over, event) = work(agent, &job, prepare, &mut cache);
            agent.release(&job, over, event);
        }
    }
}

/// Ends the load when its lease is lost, or when the agent is asked to end. It waits only for the
/// time.
fn watch(agent: &Agent, is_over: &AtomicBool, is_asked: impl Fn() -> bool) -> End {
    let mut end = None;
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(WATCH);
        agent.watch();
        if end.is_none() && is_asked() {
            end = Some(End::Asked { cut_short: !agent.is_idle() });
            agent.end();
        }
    }
    end.unwrap_or_else(|| End::Once(agent.last().expect("an agent ends after a run or when asked")))
}

/// The control plane: accepts controllers until the agent ends and its run is over.
async fn control(agent: Arc<Agent>, bound: Sender<Result<(), AgentError>>) {
    let (listener, _lock) = match listen(&agent) {
        Ok(listening) => listening,
        Err(error) => return bound.send(Err(error)).expect("its caller waits"),
    };
    bound.send(Ok(())).expect("its caller waits");
    let serving = agent.clone();
    let keys = agent.clone();
    let accepting = glommio::spawn_local(listener.run(
        move || keys.key(),
        move |session| {
            let agent = serving.clone();
            async move {
                match session {
                    Ok(session) => converse(agent, session).await,
                    Err(stranger) => agent.tell_of_stranger(stranger),
                }
            }
        },
    ));
    while !(agent.is_ending() && agent.is_idle()) {
        agent.reads();
        Timer::new(LOOK).await;
    }
    accepting.cancel().await;
    for _ in 0..GOODBYE_LOOKS {
        if agent.is_alone() {
            break;
        }
        Timer::new(LOOK).await;
    }
}

/// Listens, and locks the files of the port.
fn listen(agent: &Agent) -> Result<(Listener, File), AgentError> {
    let listener = Listener::bind(agent.config.listen, agent.config.key.as_ref())?;
    let address = listener
        .local_addr()
        .map_err(|error| ListenError::Address { address: agent.config.listen, error })?;
    let lock = Files::new(&agent.config.state_dir, address.port()).lock();
    let folder = agent.config.state_dir.clone();
    let lock = lock.map_err(|error| AgentError::StateDir { folder, error })?;
    agent.listens_on(address);
    Ok((listener, lock))
}
