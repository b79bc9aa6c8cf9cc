//! The null target: the cheapest HTTP/1.1 responder that we can write, so that what a run costs is the generator's cost.
//!
//! Every request is answered with the same bytes. Each core has a thread with its own listening socket on the shared
//! port, its own ring and its own connections; nothing is shared while they run but the word that stops them. It
//! understands what a load generator needs and no more: keep-alive, pipelining, HEAD, bodies with a length, and close.
//! It has no chunked request bodies (such a connection is closed after its answer) and no `100 Continue`.

mod answers;
mod requests;
mod responder;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use core_affinity::CoreId;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};

use responder::Responder;

/// Where and on what the null target runs.
#[derive(Clone, Debug)]
pub struct NullConfig {
    /// The address to listen on; port 0 lets the kernel choose one.
    pub listen: SocketAddr,
    /// The cores to run on, one thread each.
    pub cores: Vec<usize>,
    /// Connections that each core holds at most; those beyond are closed at once.
    pub conns_max: usize,
}

/// What the null target did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were answered.
    pub requests: u64,
    /// Connections that were accepted and held.
    pub connections: u64,
}

/// Why the null target could not start: the flag, its value and the cure.
#[derive(Debug, thiserror::Error)]
pub enum NullError {
    /// The address can't be listened on.
    #[error("--listen {listen}: {source}; give an address of this machine with a free port")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The kernel's refusal.
        source: io::Error,
    },
    /// No cores were named.
    #[error("--cores: no core is named; give at least one, such as --cores 0")]
    NoCores,
    /// A core that this process may not use.
    #[error("--cores {core}: this process may not use that core; choose from {allowed:?}")]
    Core {
        /// The core.
        core: usize,
        /// The cores that it may use.
        allowed: Vec<usize>,
    },
    /// More connections than one ring or one process can have.
    #[error("--conns {conns_max}: {problem}; {cure}")]
    Connections {
        /// The number asked for.
        conns_max: usize,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        cure: String,
    },
    /// The kernel refused a ring or a thread.
    #[error("--cores {core}: {source} while building the ring; `truetail doctor` names the cause")]
    Ring {
        /// The core whose thread failed.
        core: usize,
        /// The kernel's refusal.
        source: io::Error,
    },
}

/// Connections of one core, at most: a token has 32 bits for the slot, a ring's queue far fewer entries.
const CONNS_MAX: usize = 100_000;

/// Descriptors beside the connections: listeners, rings, standard streams.
const FILES_SPARE: usize = 64;

/// A null target that runs until it is stopped or dropped.
#[derive(Debug)]
pub struct NullTarget {
    local_addr: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Counts>>,
}

/// Listens, then starts a thread on each core; returns when all of them accept.
///
/// # Errors
/// The first value that can't be had, with its flag and the cure; nothing is left running.
pub fn start(config: NullConfig) -> Result<NullTarget, NullError> {
    check(&config)?;
    let (listeners, local_addr) = listen(config.listen, config.cores.len())
        .map_err(|source| NullError::Listen { listen: config.listen, source })?;

    let mut target =
        NullTarget { local_addr, stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
    let (ready, started) = mpsc::channel();
    for (&core, listener) in config.cores.iter().zip(listeners) {
        let (stop, ready, conns_max) = (target.stop.clone(), ready.clone(), config.conns_max);
        let thread = std::thread::Builder::new()
            .name(format!("null-{core}"))
            .spawn(move || serve(core, listener, conns_max, &stop, &ready))
            .map_err(|source| NullError::Ring { core, source })?;
        target.threads.push(thread);
    }
    for _ in &config.cores {
        started.recv().expect("every thread reports once")?;
    }
    Ok(target)
}

impl NullTarget {
    /// The address that it listens on, with the port that was chosen.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Stops every thread, closes all connections and gives the sums; takes a tenth of a second at most.
    pub fn stop(mut self) -> Counts {
        self.end()
    }

    fn end(&mut self) -> Counts {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Counts::default();
        for thread in self.threads.drain(..) {
            let counts = thread.join().expect("a thread of the null target doesn't panic");
            sum.requests += counts.requests;
            sum.connections += counts.connections;
        }
        sum
    }
}

impl Drop for NullTarget {
    fn drop(&mut self) {
        self.end();
    }
}

/// One core's thread: pin first, so that all its memory is local to the core.
fn serve(
    core: usize,
    listener: Socket,
    conns_max: usize,
    stop: &AtomicBool,
    ready: &mpsc::Sender<Result<(), NullError>>,
) -> Counts {
    let built = if core_affinity::set_for_current(CoreId { id: core }) {
        Responder::new(listener, conns_max)
    } else {
        Err(io::Error::last_os_error())
    };
    // The receiver is gone when another thread has failed; this one is about to be stopped then.
    match built {
        Ok(responder) => {
            let _ = ready.send(Ok(()));
            responder.run(stop)
        }
        Err(source) => {
            let _ = ready.send(Err(NullError::Ring { core, source }));
            Counts::default()
        }
    }
}

fn check(config: &NullConfig) -> Result<(), NullError> {
    if config.cores.is_empty() {
        return Err(NullError::NoCores);
    }
    let allowed: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
    if let Some(&core) = config.cores.iter().find(|core| !allowed.contains(core)) {
        return Err(NullError::Core { core, allowed });
    }
    let conns_max = config.conns_max;
    if conns_max == 0 || CONNS_MAX < conns_max {
        return Err(NullError::Connections {
            conns_max,
            problem: format!("must be between 1 and {CONNS_MAX}"),
            cure: "give the number of connections that a core may hold".to_owned(),
        });
    }
    allow_files(conns_max, config.cores.len())
}

/// Raises the soft limit of open files as far as the connections need.
fn allow_files(conns_max: usize, cores: usize) -> Result<(), NullError> {
    let needed = (conns_max * cores + FILES_SPARE) as u64;
    let limit = getrlimit(Resource::Nofile);
    // No limit at all is `None`.
    if limit.current.is_none_or(|soft| needed <= soft) {
        return Ok(());
    }
    let refused = |problem: String| NullError::Connections {
        conns_max,
        problem,
        cure: format!("give fewer, or raise the limit: ulimit -Hn {needed}"),
    };
    if let Some(hard) = limit.maximum.filter(|hard| *hard < needed) {
        return Err(refused(format!(
            "{cores} cores need {needed} open files, the limit is {hard}"
        )));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .map_err(|error| refused(format!("the limit of open files can't be raised: {error}")))
}

/// Waiting connections of one listener; the kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 4_096;

/// Listens on one address with `count` sockets, and tells the address with the port that was really taken.
fn listen(address: SocketAddr, count: usize) -> io::Result<(Vec<Socket>, SocketAddr)> {
    // The first is bound alone. Sockets that share a port say nothing when another process of the same user has
    // listeners there already, and a null target that answers half of the load is no measure of the generator.
    let alone = bound(address, false)?;
    let local_addr = alone.local_addr()?;
    let local_addr = local_addr.as_socket().expect("a socket for IP has an IP address");
    let sockets = if count == 1 {
        vec![alone]
    } else {
        drop(alone);
        (0..count).map(|_| bound(local_addr, true)).collect::<io::Result<_>>()?
    };
    for socket in &sockets {
        socket.listen(BACKLOG)?;
    }
    Ok((sockets, local_addr))
}

/// A socket on an address, which it shares with the other cores' sockets or with nobody.
fn bound(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    // Accepted sockets inherit it: the last part of a long pipeline must not wait for an acknowledgement.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}
