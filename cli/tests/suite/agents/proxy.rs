//! A bad link to an agent: a TCP proxy that delays, loses and cuts.
//!
//! It needs no module of the kernel, such as netem, and no privileges. TCP repeats what a network
//! loses, so its users see a loss as a wait, in which all that follows waits too. That is what this
//! proxy makes of one.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// The most bytes of a segment on an Ethernet.
const SEGMENT_BYTES: usize = 1_448;
/// How long a sender waits before it repeats a lost segment: Linux waits for 200 ms and a round
/// trip.
const RETRANSMISSION: Duration = Duration::from_millis(300);
/// How often a link that is cut is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A link, until its test ends.
pub struct Proxy {
    /// Where it listens for the controller.
    pub address: SocketAddr,
    link: Arc<Link>,
}

/// The state of a link.
struct Link {
    /// How long each way takes.
    delay: Duration,
    /// One segment in so many is lost; 0 for none.
    lost_one_in: u64,
    is_cut: AtomicBool,
    segments: AtomicU64,
    lost: AtomicU64,
}

impl Proxy {
    /// A link to this agent.
    pub fn start(agent: SocketAddr, delay: Duration, lost_one_in: u64) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let link = Arc::new(Link {
            delay,
            lost_one_in,
            is_cut: AtomicBool::new(false),
            segments: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        });
        let known = Arc::clone(&link);
        thread::spawn(move || {
            for controller in listener.incoming() {
                let controller = controller.expect("a connection");
                let agent = TcpStream::connect(agent).expect("the agent listens");
                let copy = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
                carry(copy(&controller), copy(&agent), Arc::clone(&known));
                carry(agent, controller, Arc::clone(&known));
            }
        });
        Proxy { address, link }
    }

    /// From now on nothing gets through, and no side is notified.
    pub fn cut(&self) {
        self.link.is_cut.store(true, Ordering::Relaxed);
    }

    /// What was sent meanwhile gets through after all, as TCP sends it again.
    pub fn restore(&self) {
        self.link.is_cut.store(false, Ordering::Relaxed);
    }

    /// How many segments it has carried, and how many of them were lost at first.
    pub fn segments(&self) -> (u64, u64) {
        let Link { segments, lost, .. } = &*self.link;
        (segments.load(Ordering::Relaxed), lost.load(Ordering::Relaxed))
    }
}

/// Carries one way of a connection to its end.
fn carry(mut from: TcpStream, to: TcpStream, link: Arc<Link>) {
    to.set_nodelay(true).expect("it is TCP");
    let (segments, arriving) = mpsc::channel();
    let arrives = Arc::clone(&link);
    thread::spawn(move || deliver(to, &arriving, &arrives));
    thread::spawn(move || {
        let mut buffer = [0; SEGMENT_BYTES];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let number = link.segments.fetch_add(1, Ordering::Relaxed) + 1;
            let is_lost = number.is_multiple_of(link.lost_one_in);
            link.lost.fetch_add(is_lost.into(), Ordering::Relaxed);
            let again = if is_lost { RETRANSMISSION } else { Duration::ZERO };
            let due = Instant::now() + link.delay + again;
            // The other end may be gone.
            if segments.send((due, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
}

/// Delivers segments in order, each not before it is due.
fn deliver(mut to: TcpStream, arriving: &Receiver<(Instant, Vec<u8>)>, link: &Link) {
    for (due, segment) in arriving {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        while link.is_cut.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
        if to.write_all(&segment).is_err() {
            return;
        }
    }
    // It may be gone already.
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn a_bad_link_delays_and_loses_nothing() {
    const DELAY: Duration = Duration::from_millis(20);
    let agent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let proxy = Proxy::start(agent.local_addr().expect("it is bound"), DELAY, 2);
    let mut controller = TcpStream::connect(proxy.address).expect("it listens");
    let (mut agent, _) = agent.accept().expect("a connection");
    let mut took = |controller: &mut TcpStream, byte: u8| {
        let began = Instant::now();
        controller.write_all(&[byte]).expect("sent");
        let mut arrived = [0];
        agent.read_exact(&mut arrived).expect("received");
        assert_eq!(arrived, [byte]);
        began.elapsed()
    };
    let first = took(&mut controller, 1);
    assert!(DELAY <= first, "{first:?}");
    assert!(DELAY + RETRANSMISSION <= took(&mut controller, 2), "the second is lost");
    assert_eq!(proxy.segments(), (2, 1));
    proxy.cut();
    controller.write_all(&[3]).expect("sent");
    thread::sleep(2 * DELAY);
    proxy.restore();
    controller.shutdown(Shutdown::Write).expect("it is open");
    let mut rest = Vec::new();
    agent.read_to_end(&mut rest).expect("received");
    assert_eq!(rest, [3]);
}
