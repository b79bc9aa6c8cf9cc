//! The way to the target: the address behind its host that accepts a connection.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::plan::PlanError;
use crate::plan::endpoint::{Endpoint, shown};

/// Timeout of the connection that is opened once before the run.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Connects once to each address of the host, in the resolver's order, until one accepts, and
/// returns that one. The connection comes from the first of `sources` of the same IP version,
/// as those of the run will.
///
/// # Errors
/// The host has no address, or none that accepts a connection.
pub(crate) fn reach(
    endpoint: &Endpoint,
    url: &str,
    sources: &[IpAddr],
) -> Result<SocketAddr, PlanError> {
    let addresses: Vec<SocketAddr> = (endpoint.host.as_str(), endpoint.port)
        .to_socket_addrs()
        .map(Iterator::collect)
        .map_err(|error| {
            let problem = format!("host {} has no address ({error})", endpoint.host);
            let cure = "check the name, or give an IP address";
            PlanError::new("--target", shown(url), problem, cure)
        })?;
    let mut problem = format!("host {} has no address", endpoint.host);
    let mut cure = "start the server, or check host and port";
    for address in addresses {
        let source = sources.iter().find(|source| source.is_ipv6() == address.is_ipv6());
        match probe(address, source.copied()) {
            Ok(()) => return Ok(address),
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                problem = format!("no local port is free to connect to {address} ({error})");
                cure = "wait until connections have left TIME_WAIT, connect from more \
                        addresses (--source-addresses), or widen net.ipv4.ip_local_port_range";
            }
            Err(error) => problem = format!("{address} accepts no connection ({error})"),
        }
    }
    Err(PlanError::new("--target", shown(url), problem, cure))
}

/// Connects to an address and closes the connection.
fn probe(address: SocketAddr, source: Option<IpAddr>) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.connect_timeout(&address.into(), PROBE_TIMEOUT)
}
