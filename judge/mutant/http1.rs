//! Its connections over HTTP/1.1.

use std::io::{self, Write as _};
use std::net::TcpStream;

use crate::{Bug, Link, read_more};

/// A connection.
pub(crate) struct Connection {
    stream: TcpStream,
    host: String,
    bug: Bug,
    /// What came behind the last response.
    surplus: Vec<u8>,
}

impl Connection {
    /// A connection that is open.
    pub(crate) fn new(stream: TcpStream, host: &str, bug: Bug) -> Connection {
        Connection { stream, host: host.to_owned(), bug, surplus: Vec::new() }
    }

    /// A response: its status.
    fn response(&mut self) -> io::Result<u16> {
        loop {
            if let Some((length, status)) = self.head()
                && length <= self.surplus.len()
            {
                self.surplus.drain(..length);
                return Ok(status);
            }
            if let Err(error) = read_more(&mut self.stream, &mut self.surplus) {
                let head = self.head();
                return match head {
                    Some((_, status)) if self.bug == Bug::AcceptsTorn => Ok(status),
                    _ => Err(error),
                };
            }
        }
    }

    /// The length of the response whose head is there, and its status.
    fn head(&self) -> Option<(usize, u16)> {
        let text = String::from_utf8_lossy(&self.surplus);
        let (head, _) = text.split_once("\r\n\r\n")?;
        let lengths = head.lines().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((head.len() + 4 + lengths.sum::<usize>(), status))
    }
}

impl Link for Connection {
    fn exchange(&mut self, path: &str, requests: usize) -> io::Result<Vec<u16>> {
        let host = &self.host;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        self.stream.write_all(request.repeat(requests).as_bytes())?;
        (0..requests).map(|_| self.response()).collect()
    }

    fn has_ended(&mut self) -> bool {
        if self.bug == Bug::TrustsSurplus {
            return false;
        }
        // What comes without a request, be it the end, answers none.
        let is_quiet = self.stream.set_nonblocking(true).is_ok()
            && read_more(&mut self.stream, &mut self.surplus)
                .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        !(self.stream.set_nonblocking(false).is_ok() && is_quiet && self.surplus.is_empty())
    }
}
