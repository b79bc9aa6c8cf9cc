//! Reaches an endpoint: finds the address of its host that accepts a connection.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use plan::PlanError;
use plan::address::Address;
use plan::endpoints::PlanEndpoint;
use socket2::{Domain, Protocol, Socket, Type};

/// Timeout of the connection that is opened once before the run.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The addresses of an endpoint's host, in the resolver's order.
///
/// # Errors
/// It has none.
pub fn resolve(endpoint: &PlanEndpoint) -> Result<Vec<SocketAddr>, PlanError> {
    let host = &endpoint.endpoint.host;
    let refuse = |problem: String, cure: &str| endpoint.error(problem, cure);
    let addresses: Vec<SocketAddr> = (host.as_str(), endpoint.endpoint.port)
        .to_socket_addrs()
        .map(Iterator::collect)
        .map_err(|error| {
            let cure = "check the name, or give an IP address";
            refuse(format!("host {host} has no address ({error})"), cure)
        })?;
    if addresses.is_empty() {
        let cure = "start the server, or check host and port";
        return Err(refuse(format!("host {host} has no address"), cure));
    }
    Ok(addresses)
}

/// Why no address of an endpoint accepts a connection.
#[derive(Debug)]
pub enum Unreached {
    /// This machine has no port to connect from.
    NoPort(PlanError),
    /// No address accepts one.
    Refused(PlanError),
}

/// Connects once to each of these addresses of an endpoint until one accepts, and returns that one
/// with its connection, which comes from the source address, if one is given.
///
/// # Errors
/// No address accepts a connection.
///
/// # Panics
/// Without an address.
pub fn reach(
    endpoint: &PlanEndpoint,
    addresses: &[SocketAddr],
    source: Option<IpAddr>,
) -> Result<(SocketAddr, TcpStream), Unreached> {
    let mut last = None;
    for address in addresses {
        let error = match probe(*address, source) {
            Ok(stream) => return Ok((*address, stream)),
            Err(error) => error,
        };
        let refuse = |problem: String, cure: &str| endpoint.error(problem, cure);
        last = Some(if error.kind() == io::ErrorKind::AddrNotAvailable {
            Unreached::NoPort(refuse(
                format!("no local port is free to connect to {address} ({error})"),
                "wait until connections have left TIME_WAIT, connect from more addresses \
                 (--source-addresses), or widen net.ipv4.ip_local_port_range",
            ))
        } else {
            Unreached::Refused(refuse(
                format!("{address} accepts no connection ({error})"),
                "start the server, or check host and port",
            ))
        });
    }
    Err(last.expect("a host has an address"))
}

/// Connects once to the Unix-domain socket of this path, which stands for an endpoint.
///
/// # Errors
/// Nothing listens there.
pub fn reach_unix(endpoint: &PlanEndpoint, path: &Path) -> Result<Address, PlanError> {
    let address = Address::Unix(path.to_owned());
    let probed = address.for_kernel().and_then(|address| {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.connect(&address)
    });
    match probed {
        Ok(()) => Ok(address),
        // Its queue is full, so something listens.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(address),
        Err(error) => {
            let cure = "start the server, or check the path and who may write to it";
            Err(endpoint.error(format!("accepts no connection ({error})"), cure))
        }
    }
}

/// Connects to an address.
fn probe(address: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.connect_timeout(&address.into(), PROBE_TIMEOUT)?;
    Ok(socket.into())
}
