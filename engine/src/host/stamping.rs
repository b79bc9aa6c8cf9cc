//! The kernel's receive stamps: whether this machine has them, and switched on for a run.
//!
//! The kernel stamps what arrives only while a socket asks for it, and it switches that on in the
//! background, which takes a busy machine up to half a second. So a run asks before its shards do,
//! and waits until it sees a stamp.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use super::check::{Check, Severity};
use crate::ring::stamps::{receive_is_stamped, stamp_receives};

/// How long to wait for the first stamp.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two bytes that might be stamped.
const PAUSE: Duration = Duration::from_millis(1);

/// While it lives, the kernel stamps what arrives.
#[derive(Debug)]
pub(crate) struct Stamping {
    _asking: TcpStream,
    _other: TcpStream,
}

impl Stamping {
    /// Switches the stamps on, and waits until they are.
    ///
    /// # Errors
    /// The finding where the kernel doesn't stamp.
    pub(crate) fn on() -> Result<Stamping, Check> {
        let refused = |error: io::Error| {
            Check::bad(
                NAME,
                Severity::Missing,
                format!("refused ({error})"),
                "the kernel doesn't stamp what sockets receive",
                "use --stamps user, whose latencies include the client's wake-up and queue",
            )
        };
        Stamping::first_stamp().map_err(refused)
    }

    fn first_stamp() -> io::Result<Stamping> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let asking = TcpStream::connect(listener.local_addr()?)?;
        let (mut other, _) = listener.accept()?;
        other.set_nodelay(true)?;
        stamp_receives(asking.as_raw_fd())?;
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            other.write_all(b"?")?;
            // Not by a ring: its memory would still be locked when the shards make theirs.
            if receive_is_stamped(asking.as_raw_fd())? {
                return Ok(Stamping { _asking: asking, _other: other });
            }
            std::thread::sleep(PAUSE);
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

const NAME: &str = "receive stamps";

/// Whether the kernel stamps what arrives.
pub(super) fn check_stamps() -> Check {
    match Stamping::on() {
        Ok(_) => Check::good(NAME, "by the kernel, in software"),
        Err(check) => Check { severity: Severity::Warning, ..check },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_stamps_what_arrives() {
        let check = check_stamps();
        assert_eq!((check.severity, check.cause), (Severity::Good, None));
    }
}
