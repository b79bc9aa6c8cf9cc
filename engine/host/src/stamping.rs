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
        let refused = |error: io::Error| {
            Check::bad(
                "receive stamps",
                Severity::Missing,
                format!("refused ({error})"),
                "the kernel doesn't stamp what sockets receive",
                "omit --stamps: latencies then include the client's wake-up and queue",
            )
        };
        Stamping::first_stamp().map_err(refused)
    }

    fn first_stamp() -> io::Result<Stamping> {
        let (asking, mut other) = pair()?;
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
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// Both ends of a connection from this machine to itself.
pub(super) fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let asking = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    other.set_nodelay(true)?;
    Ok((asking, other))
}

/// Checks that the kernel stamps what is received.
pub(super) fn check_receive_stamps() -> Check {
    match Stamping::on() {
        Ok(_) => Check::good("receive stamps", "by the kernel, in software"),
        Err(check) => Check::bad(
            check.name,
            Severity::Warning,
            check.found,
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
    first_send_stamp().map_err(|error| {
        let why = format!("refused ({error})");
        let cause = "the kernel doesn't report when a request leaves the host";
        Check::bad("send stamps", Severity::Missing, why, cause, "omit --stamp-sends")
    })
}

fn first_send_stamp() -> io::Result<()> {
    let (asking, mut other) = pair()?;
    count_bytes(asking.as_raw_fd(), ReceiveStamps::Off)?;
    send_stamped(asking.as_raw_fd(), b"?")?;
    // What has arrived has also left.
    other.read_exact(&mut [0])?;
    left_at(asking.as_raw_fd(), 0).map(drop).ok_or_else(|| io::ErrorKind::TimedOut.into())
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
