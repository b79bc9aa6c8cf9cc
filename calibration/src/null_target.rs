//! The null target: the cheapest server of HTTP/1.1 and HTTP/2 that we can write, so that a run
//! against it shows the generator's own cost.
//!
//! Every request gets the same response. Each core has a thread with its own listening socket on
//! the shared port, its own ring and its own connections; the threads share only the stop flag. It
//! supports what a load generator needs and no more: keep-alive, pipelining, HEAD, bodies with a
//! Content-Length, close, and TLS. It supports neither chunked request bodies (such a connection is
//! closed after its response) nor `100 Continue`. Over HTTP/2, which a connection's first bytes
//! choose, it reads no header fields at all, so a HEAD is answered like a GET.

mod frames;
mod protocol;
mod requests;
mod responder;
mod responses;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use core_affinity::CoreId;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::ServerConfig;
use socket2::Socket;
use target::{Certificate, TargetError};

pub use responder::Counts;
use responder::Responder;

/// Where the null target listens and which cores it uses.
#[derive(Clone, Debug)]
pub struct NullConfig {
    /// The address to listen on; with port 0 the kernel picks one.
    pub listen: SocketAddr,
    /// The cores to run on, one thread each.
    pub cores: Vec<usize>,
    /// The most connections per core; those beyond are closed at once.
    pub conns_max: usize,
    /// True for TLS, with a certificate made at the start.
    pub tls: bool,
}

/// The most connections of one core: a token has 32 bits for the slot, a ring's queue far fewer
/// entries.
const CONNS_MAX: usize = 100_000;

/// Descriptors besides the connections: listeners, rings, standard streams.
const FILES_SPARE: usize = 64;

/// A running null target. Dropping it stops it too.
#[derive(Debug)]
pub struct NullTarget {
    local_addr: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Counts>>,
    certificate: Option<Certificate>,
}

/// Listens, then starts a thread on each core; returns when all of them accept connections.
///
/// # Errors
/// If a core may not be used, the address can't be listened on, or a limit is too low. Nothing is
/// left running.
pub fn start(config: NullConfig) -> Result<NullTarget, TargetError> {
    validate(&config)?;
    let (listeners, local_addr) = target::listen(config.listen, config.cores.len())?;
    let certificate = config.tls.then(|| Certificate::new(local_addr.ip())).transpose()?;
    let tls = certificate.as_ref().map(Certificate::server);

    let stop = Arc::new(AtomicBool::new(false));
    let mut target = NullTarget { local_addr, stop, threads: Vec::new(), certificate };
    let (ready, started) = mpsc::channel();
    for (&core, listener) in config.cores.iter().zip(listeners) {
        let (stop, ready, conns_max) = (target.stop.clone(), ready.clone(), config.conns_max);
        let tls = tls.clone();
        let thread = std::thread::Builder::new()
            .name(format!("null-{core}"))
            .spawn(move || serve(core, listener, tls, conns_max, &stop, &ready))
            .map_err(|error| refused(core, &error))?;
        target.threads.push(thread);
    }
    for _ in &config.cores {
        started.recv().expect("every thread reports once")?;
    }
    Ok(target)
}

impl NullTarget {
    /// The address listened on, with the real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The certificate of the issuer of its own, as PEM; `None` without TLS.
    pub fn issuer(&self) -> Option<&str> {
        self.certificate.as_ref().map(Certificate::issuer)
    }

    /// Stops every thread, closes all connections and returns the total counts; takes at most 0.1
    /// s.
    pub fn stop(mut self) -> Counts {
        self.end()
    }

    fn end(&mut self) -> Counts {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Counts::default();
        for thread in self.threads.drain(..) {
            let counts = thread.join().expect("the null target's threads don't panic");
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

/// One core's thread. It is pinned first, so that its memory is local to the core.
fn serve(
    core: usize,
    listener: Socket,
    tls: Option<Arc<ServerConfig>>,
    conns_max: usize,
    stop: &AtomicBool,
    ready: &mpsc::Sender<Result<(), TargetError>>,
) -> Counts {
    let built = if core_affinity::set_for_current(CoreId { id: core }) {
        Responder::new(listener, tls, conns_max)
    } else {
        Err(io::Error::last_os_error())
    };
    // If the receiver is gone, another thread has failed and this one is about to be stopped.
    match built {
        Ok(responder) => {
            let _ = ready.send(Ok(()));
            responder.run(stop)
        }
        Err(source) => {
            let _ = ready.send(Err(refused(core, &source)));
            Counts::default()
        }
    }
}

fn refused(core: usize, error: &io::Error) -> TargetError {
    TargetError::Refused(format!(
        "--cores {core}: can't set up the ring: {error}; `truetail doctor` shows the cause"
    ))
}

fn usage(line: impl Into<String>) -> Result<(), TargetError> {
    Err(TargetError::Usage(line.into()))
}

fn validate(config: &NullConfig) -> Result<(), TargetError> {
    if config.cores.is_empty() {
        return usage("--cores: the list is empty; give at least one core, such as --cores 0");
    }
    let allowed: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
    if let Some(&core) = config.cores.iter().find(|core| !allowed.contains(core)) {
        return usage(format!(
            "--cores {core}: this process may not use that core; choose from {allowed:?}"
        ));
    }
    let conns_max = config.conns_max;
    if conns_max == 0 || CONNS_MAX < conns_max {
        return usage(format!(
            "--conns {conns_max}: out of range; give 1 to {CONNS_MAX} connections per core"
        ));
    }
    raise_open_files(conns_max, config.cores.len())
}

/// Raises the soft limit on open files as far as the connections need.
fn raise_open_files(conns_max: usize, cores: usize) -> Result<(), TargetError> {
    let needed = (conns_max * cores + FILES_SPARE) as u64;
    let limit = getrlimit(Resource::Nofile);
    // `None` means unlimited.
    if limit.current.is_none_or(|soft| needed <= soft) {
        return Ok(());
    }
    if let Some(limit) = limit.maximum.filter(|hard| *hard < needed) {
        return usage(format!(
            "--conns {conns_max}: {cores} cores need {needed} open files, the limit is {limit}; give \
             fewer, or raise the limit with `ulimit -Hn {needed}`"
        ));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum }).or_else(
        |error| {
            usage(format!(
                "--conns {conns_max}: can't raise the limit on open files: {error}; give fewer, or \
                 raise it with `ulimit -n {needed}`"
            ))
        },
    )
}
