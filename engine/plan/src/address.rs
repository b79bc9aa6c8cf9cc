//! Where a target listens: on a port of an address, or on a socket in the file system.
//!
//! A Unix-domain socket is another kind of address, not another request path: connects, sends and
//! receives are the same ring operations. It has no IP address and therefore no stamps, ports or
//! route; flags that ask for these are refused.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use socket2::SockAddr;

/// Where a target listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Address {
    /// An IP address and a TCP port.
    Ip(SocketAddr),
    /// A Unix-domain socket of this machine, by its path.
    Unix(PathBuf),
}

impl Address {
    /// The IP address and port; `None` for a Unix-domain socket.
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            Address::Ip(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }

    /// The address in the form the kernel takes.
    ///
    /// # Errors
    /// The path is longer than the kernel's 107 bytes.
    pub fn for_kernel(&self) -> io::Result<SockAddr> {
        match self {
            Address::Ip(address) => Ok((*address).into()),
            Address::Unix(path) => SockAddr::unix(path),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Ip(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_and_read_again() {
        let ip: SocketAddr = "[::1]:80".parse().expect("an address");
        for (address, shown, json) in [
            (Address::from(ip), "[::1]:80", "\"[::1]:80\""),
            (Address::Unix("/run/app.sock".into()), "unix:/run/app.sock", "\"/run/app.sock\""),
        ] {
            assert_eq!(address.to_string(), shown);
            assert_eq!(serde_json::to_string(&address).expect("text"), json);
            assert_eq!(serde_json::from_str::<Address>(json).expect("an address"), address);
            assert_eq!(address.for_kernel().expect("short").is_unix(), address.ip().is_none());
        }
        assert!(Address::Unix("x".repeat(200).into()).for_kernel().is_err());
    }
}
