//! Where an agent listens: accepts connections, and bounds how many there are.
//!
//! A stranger costs a connection, one frame of memory and [`AUTHENTICATION_MAX`] at most, and their
//! number is bounded. Beyond that, a new one displaces one from the machine with the most
//! connections here, so a crowd displaces itself and no controller elsewhere. Of that machine's,
//! one that hasn't opened with a proper frame goes first, then the oldest: a peer with the key
//! needs two round trips, and one without may wait for ever. The opening of an earlier connection
//! is a recording, and no proper one. None of them delays an open session.
//!
//! An agent's address is tried before glommio listens on it, since glommio's listeners share
//! theirs: a second agent would get half of the first one's connections.
//!
//! [`AUTHENTICATION_MAX`]: crate::session::AUTHENTICATION_MAX

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use glommio::net::TcpListener;
use glommio::timer::Timer;

use crate::key::{Key, KeyError, require_key};
use crate::refusal::Refusal;
use crate::session::{Session, SessionError};

/// The most connections that aren't authenticated.
pub const STRANGERS_MAX: usize = 64;
/// The most sessions that are open.
pub const SESSIONS_MAX: usize = 16;
/// The most openings that are known again; only a peer with the key adds one.
const OPENINGS_MAX: usize = 4_096;
/// How long to wait before the next accept when no descriptors are left.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);
/// How long a listening agent may take to accept.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// Why an agent can't listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Others could reach it, and it has no key.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// The address is taken, or isn't this machine's.
    #[error("--listen {address}: {error}; give another address or port")]
    Address {
        /// The address.
        address: SocketAddr,
        /// The kernel's refusal.
        error: io::Error,
    },
}

/// An agent's listening socket.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
}

impl Listener {
    /// Listens on `address`. Must be called within a glommio executor.
    ///
    /// # Errors
    /// Others could reach it without a key, or the kernel refuses the address.
    pub fn bind(address: SocketAddr, key: Option<&Key>) -> Result<Listener, ListenError> {
        require_key(address, key)?;
        let refused = |error| ListenError::Address { address, error };
        // glommio's listeners share their address with others, so a second agent would get half of
        // the first one's connections. This one shares nothing.
        let address = match std::net::TcpListener::bind(address) {
            Ok(free) => free.local_addr().map_err(refused)?,
            // Connections of an agent that ended a moment ago hold the port, but not against this
            // one.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && !is_listening(address) => {
                address
            }
            Err(error) => return Err(refused(error)),
        };
        let listener = TcpListener::bind(address).map_err(|error| refused(error.into()))?;
        Ok(Listener { listener })
    }

    /// The address listened on, with the real port.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr().map_err(io::Error::from)
    }

    /// Accepts connections until it is cancelled. Each needs the key that there is when it comes.
    /// `serve` is called for each, in a task of its own: with its session once the peer is
    /// authenticated, or with the reason why it has none.
    pub async fn run<F>(
        self,
        key: impl Fn() -> Option<Key>,
        serve: impl Fn(Result<Session, Stranger>) -> F + 'static,
    ) where
        F: Future<Output = ()> + 'static,
    {
        let serve = Rc::new(serve);
        let (strangers, sessions) = (Strangers::default(), Places::new(SESSIONS_MAX));
        // Displaced peers get a reason only while these are few.
        let displaced = Places::new(STRANGERS_MAX);
        loop {
            let Ok(stream) = self.listener.accept().await else {
                Timer::new(ACCEPT_RETRY).await;
                continue;
            };
            let (serve, key) = (Rc::clone(&serve), key());
            // A peer that is gone already has no address any more.
            let peer = stream.peer_addr().ok();
            let stay = strangers.come(peer.map(|peer| machine(peer.ip())));
            let (sessions, displaced) = (sessions.clone(), displaced.clone());
            glommio::spawn_local(async move {
                let mut session = Session::accepted(stream, key);
                let opened = |opening| stay.opened(opening);
                let authenticated = stay.unless_displaced(session.authenticate(&opened)).await;
                drop(stay);
                let admitted = match authenticated {
                    Some(Ok(())) => admit(&mut session, &sessions).await,
                    Some(Err(error)) => Err(error),
                    None => {
                        let place = displaced.take();
                        if place.is_some() {
                            session.refuse(Refusal::Crowded(STRANGERS_MAX)).await;
                        }
                        Err(SessionError::Crowded(STRANGERS_MAX))
                    }
                };
                match admitted {
                    Ok(_place) => serve(Ok(session)).await,
                    Err(error) => {
                        drop(session);
                        serve(Err(Stranger { peer, error })).await;
                    }
                }
            })
            .detach();
            // Thousands may connect at once, which must not delay open sessions.
            glommio::executor().yield_task_queue_now().await;
        }
    }
}

/// True if something listens on this address.
fn is_listening(mut address: SocketAddr) -> bool {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    // A listener with a full queue doesn't answer.
    let probed = std::net::TcpStream::connect_timeout(&address, PROBE_MAX);
    !probed.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// A place for a session, if there is one.
async fn admit(session: &mut Session, sessions: &Places) -> Result<Place, SessionError> {
    match sessions.take() {
        Some(place) => Ok(place),
        None => {
            session.refuse(Refusal::Crowded(SESSIONS_MAX)).await;
            Err(SessionError::Crowded(SESSIONS_MAX))
        }
    }
}

/// A connection that got no session.
#[derive(Debug)]
pub struct Stranger {
    /// Where it came from; `None` if it was gone at once.
    pub peer: Option<SocketAddr>,
    /// Why it got none.
    pub error: SessionError,
}

/// The machine of an address: an IPv6 network of 64 bits counts as one.
fn machine(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip => ip,
    }
}

/// The connections that aren't authenticated.
#[derive(Clone, Default)]
struct Strangers {
    /// In the order in which they came.
    here: Rc<RefCell<VecDeque<Rc<Unauthenticated>>>>,
    /// The last openings, those of all other connections included.
    openings: Rc<RefCell<VecDeque<Vec<u8>>>>,
}

#[derive(Default)]
struct Unauthenticated {
    /// The machine that it came from; `None` if it was gone at once.
    machine: Option<IpAddr>,
    /// True once it has opened with a proper frame that isn't a recording.
    has_opened: Cell<bool>,
    /// Set once its place went to another, and the task to wake then.
    is_displaced: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

/// A stranger's place until this is dropped, or until the place goes to another.
struct Stay {
    strangers: Strangers,
    stranger: Rc<Unauthenticated>,
}

impl Strangers {
    /// Admits another; if all places are taken, it displaces one.
    fn come(&self, machine: Option<IpAddr>) -> Stay {
        let mut here = self.here.borrow_mut();
        let stranger = Rc::new(Unauthenticated { machine, ..Unauthenticated::default() });
        here.push_back(stranger.clone());
        if STRANGERS_MAX < here.len() {
            let of = |machine| here.iter().filter(|other| other.machine == machine).count();
            let before = here.iter().take(STRANGERS_MAX).enumerate();
            let first = before.min_by_key(|(_, stranger)| {
                (Reverse(of(stranger.machine)), stranger.has_opened.get())
            });
            let first = first.map(|(at, _)| at).and_then(|at| here.remove(at));
            let first = first.expect("all places are taken");
            first.is_displaced.set(true);
            first.waker.take().into_iter().for_each(Waker::wake);
        }
        Stay { strangers: self.clone(), stranger }
    }
}

impl Stay {
    /// Takes note of its proper opening; without a key, all are the same.
    fn opened(&self, opening: Vec<u8>) {
        let mut known = self.strangers.openings.borrow_mut();
        let is_recording = known.contains(&opening);
        self.stranger.has_opened.set(!is_recording);
        if !is_recording && !opening.is_empty() {
            if known.len() == OPENINGS_MAX {
                known.pop_front();
            }
            known.push_back(opening);
        }
    }

    /// The value of a future, or `None` if the place goes to another first.
    async fn unless_displaced<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|context| {
            if self.stranger.is_displaced.get() {
                return Poll::Ready(None);
            }
            self.stranger.waker.set(Some(context.waker().clone()));
            future.as_mut().poll(context).map(Some)
        })
        .await
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.strangers.here.borrow_mut().retain(|other| !Rc::ptr_eq(other, &self.stranger));
    }
}

/// A number of places for one connection each.
#[derive(Clone)]
struct Places {
    free: Rc<Cell<usize>>,
}

/// A place, taken until this is dropped.
struct Place {
    free: Rc<Cell<usize>>,
}

impl Places {
    fn new(count: usize) -> Places {
        Places { free: Rc::new(Cell::new(count)) }
    }

    fn take(&self) -> Option<Place> {
        self.free.set(self.free.get().checked_sub(1)?);
        Some(Place { free: Rc::clone(&self.free) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.free.set(self.free.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(ip: &str) -> Option<IpAddr> {
        Some(machine(ip.parse().expect("an address")))
    }

    #[test]
    fn a_crowd_from_one_machine_displaces_itself_and_no_controller_elsewhere() {
        for (controller, crowd) in [
            ("10.0.0.9", "10.0.0.1"),
            ("2001:db8::9", "10.0.0.1"),
            ("2001:db8:0:1::9", "2001:db8::"),
        ] {
            let strangers = Strangers::default();
            let controller = strangers.come(from(controller));
            let crowd: Vec<Stay> = (1..20 * STRANGERS_MAX)
                .map(|number| {
                    let ip = if crowd.ends_with(':') {
                        format!("{crowd}{number:x}")
                    } else {
                        crowd.to_owned()
                    };
                    let stay = strangers.come(from(&ip));
                    // These open with a proper frame.
                    stay.stranger.has_opened.set(true);
                    stay
                })
                .collect();
            assert!(!controller.stranger.is_displaced.get());
            let here = crowd.iter().filter(|stay| !stay.stranger.is_displaced.get());
            assert_eq!(here.count(), STRANGERS_MAX - 1);
            assert_eq!(strangers.here.borrow().len(), STRANGERS_MAX);
        }
    }

    #[test]
    fn of_one_machine_s_strangers_the_silent_go_first_and_then_the_oldest() {
        let strangers = Strangers::default();
        let come = |_| strangers.come(from("10.0.0.1"));
        let first: Vec<Stay> = (0..STRANGERS_MAX).map(come).collect();
        first[0].stranger.has_opened.set(true);
        let more: Vec<Stay> = (1..STRANGERS_MAX).map(come).collect();
        let gone = |stay: &Stay| stay.stranger.is_displaced.get();
        assert!(!gone(&first[0]) && first[1..].iter().all(gone) && !more.iter().any(gone));
        more.iter().for_each(|stay| stay.stranger.has_opened.set(true));
        let last = come(0);
        assert!(gone(&first[0]) && !more.iter().any(gone) && !gone(&last));
    }

    #[test]
    fn recorded_openings_from_many_machines_displace_no_controller() {
        let strangers = Strangers::default();
        // A controller's, long ago.
        strangers.come(from("10.0.0.9")).opened(vec![1; 48]);
        let controller = strangers.come(from("10.0.0.9"));
        controller.opened(vec![2; 48]);
        let crowd: Vec<Stay> = (0..3 * STRANGERS_MAX)
            .map(|number| {
                let stay = strangers.come(from(&format!("10.0.{}.1", 1 + number)));
                stay.opened(vec![1; 48]);
                stay
            })
            .collect();
        assert!(!controller.stranger.is_displaced.get());
        // Without a key, an opening is empty, and none is a recording.
        crowd.iter().for_each(|stay| stay.opened(Vec::new()));
        assert!(crowd.iter().all(|stay| stay.stranger.has_opened.get()));
        // The oldest are forgotten.
        let stay = strangers.come(from("10.0.0.9"));
        (0..OPENINGS_MAX).for_each(|number| stay.opened(number.to_le_bytes().to_vec()));
        assert_eq!(strangers.openings.borrow().len(), OPENINGS_MAX);
        stay.opened(vec![1; 48]);
        assert!(stay.stranger.has_opened.get());
    }
}
