//! The kernel's stamps of received and sent packets: checks that this machine has them, and
//! switches them on for a run.
//!
//! The kernel stamps received packets only while a socket asks for it, and switches that on in the
//! background when the first one asks, which takes a busy machine up to half a second. So a run
//! asks before its shards do, and waits until it sees a stamp.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use uring::receive_stamps::{ReceiveStamps, receive_is_stamped, stamp_receives};
use uring::send_stamps::{count_bytes, left_at, send_stamped};

use super::check::{Check, Severity};

/// How long a connection of this machine to itself may take: where a packet filter drops its
/// packets, or the loopback interface is down, there is none.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// How long to wait for the first stamp.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two bytes that might be stamped.
const PAUSE: Duration = Duration::from_millis(1);

/// Keeps the kernel's receive stamps on while it lives.
#[derive(Debug)]
pub struct Stamping {
    _asking: TcpStream,
    _other: TcpStream,
}

impl Stamping {
    /// Switches the stamps on, and waits until they work.
    ///
    /// # Errors
    /// The finding if the kernel doesn't stamp.
    pub fn on() -> Result<Stamping, Check> {
        let refused = |error| {
            finding(
                "receive stamps",
                Severity::Missing,
                error,
                "the kernel doesn't stamp what sockets receive",
                "omit --stamps: latencies then include the client's wake-up and queue",
            )
        };
        Stamping::first_stamp().map_err(refused)
    }

    fn first_stamp() -> Result<Stamping, NoStamp> {
        let (asking, mut other) = pair().map_err(NoStamp::Unconnected)?;
        stamp_receives(asking.as_raw_fd(), ReceiveStamps::Software)?;
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            other.write_all(b"?")?;
            // Not through a ring: its memory would still be locked when the shards allocate theirs.
            if receive_is_stamped(asking.as_raw_fd())? {
                return Ok(Stamping { _asking: asking, _other: other });
            }
            std::thread::sleep(PAUSE);
        }
        Err(io::Error::from(io::ErrorKind::TimedOut).into())
    }
}

/// Why no packet was seen stamped.
#[derive(Debug)]
enum NoStamp {
    /// This machine can't connect to itself.
    Unconnected(io::Error),
    /// The kernel doesn't stamp.
    Refused(io::Error),
}

impl From<io::Error> for NoStamp {
    fn from(error: io::Error) -> NoStamp {
        NoStamp::Refused(error)
    }
}

/// What was found, with this cause and cure if the kernel refused.
fn finding(name: &'static str, severity: Severity, why: NoStamp, cause: &str, cure: &str) -> Check {
    match why {
        NoStamp::Refused(error) => {
            Check::bad(name, severity, format!("refused ({error})"), cause, cure)
        }
        NoStamp::Unconnected(error) => Check::bad(
            name,
            severity,
            format!("unknown: no connection to 127.0.0.1 ({error})"),
            "packets of this host to itself are dropped, or its loopback interface is down",
            "ip link set lo up; let packet filters accept what comes from lo",
        ),
    }
}

/// Both ends of a connection from this machine to itself.
pub(super) fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let asking = TcpStream::connect_timeout(&listener.local_addr()?, CONNECT_MAX)?;
    let (other, _) = listener.accept()?;
    other.set_nodelay(true)?;
    Ok((asking, other))
}

/// Checks that the kernel stamps what is received.
pub(super) fn check_receive_stamps() -> Check {
    let name = "receive stamps";
    match Stamping::first_stamp() {
        Ok(_) => Check::good(name, "by the kernel, in software"),
        Err(why) => finding(
            name,
            Severity::Warning,
            why,
            "latencies include the client's wake-up and queue",
            "allow setsockopt with SO_TIMESTAMPING, which a seccomp filter may block",
        ),
    }
}

/// Checks that the kernel stamps what is sent, with a byte to this host.
///
/// # Errors
/// The finding if it doesn't.
pub fn require_send_stamps() -> Result<(), Check> {
    first_send_stamp().map_err(|why| {
        let cause = "the kernel doesn't report when a request leaves the host";
        finding("send stamps", Severity::Missing, why, cause, "omit --stamp-sends")
    })
}

fn first_send_stamp() -> Result<(), NoStamp> {
    let (asking, mut other) = pair().map_err(NoStamp::Unconnected)?;
    count_bytes(asking.as_raw_fd(), ReceiveStamps::Off)?;
    send_stamped(asking.as_raw_fd(), b"?")?;
    // What has arrived has also left.
    other.read_exact(&mut [0])?;
    let left = left_at(asking.as_raw_fd(), 0).map(drop);
    left.ok_or_else(|| io::Error::from(io::ErrorKind::TimedOut).into())
}

/// Checks that the kernel stamps what is sent.
pub(super) fn check_send_stamps() -> Check {
    match require_send_stamps() {
        Ok(()) => Check::good("send stamps", "by the kernel, in software"),
        Err(check) => Check { severity: Severity::Warning, ..check },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_stamps_what_arrives_and_what_leaves() {
        for check in [check_receive_stamps(), check_send_stamps()] {
            assert_eq!((check.severity, check.cause), (Severity::Good, None), "{}", check.name);
        }
    }
}
