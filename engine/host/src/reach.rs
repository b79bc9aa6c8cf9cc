//! Reaches the target: finds the address of its host that accepts a connection.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use plan::address::Address;
use plan::endpoint::{Endpoint, named};
use plan::{Plan, PlanError};
use socket2::{Domain, Protocol, Socket, Type};

/// Timeout of the connection that is opened once before the run.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The addresses of the plan's host, in the resolver's order.
///
/// # Errors
/// It has none.
pub fn resolve(endpoint: &Endpoint, plan: &Plan) -> Result<Vec<SocketAddr>, PlanError> {
    let host = &endpoint.host;
    let (flag, value) = named(plan);
    let refuse = |problem: String, cure: &str| PlanError::new(flag, &value, problem, cure);
    let addresses: Vec<SocketAddr> = (host.as_str(), endpoint.port)
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

/// Why no address of the target accepts a connection.
#[derive(Debug)]
pub enum Unreached {
    /// This machine has no port to connect from.
    NoPort(PlanError),
    /// No address accepts one.
    Refused(PlanError),
}

/// Connects once to each of the host's addresses until one accepts, and returns that one with its
/// connection. The connection comes from the first source address of the plan, if it names any.
///
/// # Errors
/// No address accepts a connection.
///
/// # Panics
/// Without an address.
pub fn reach(addresses: &[SocketAddr], plan: &Plan) -> Result<(SocketAddr, TcpStream), Unreached> {
    let (flag, value) = named(plan);
    let source = plan.source_addresses.first().copied();
    let mut last = None;
    for address in addresses {
        let error = match probe(*address, source) {
            Ok(stream) => return Ok((*address, stream)),
            Err(error) => error,
        };
        let refuse = |problem, cure| PlanError::new(flag, &value, problem, cure);
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

/// Connects once to the plan's Unix-domain socket.
///
/// # Errors
/// Nothing listens there.
pub fn reach_unix(path: &Path, plan: &Plan) -> Result<Address, PlanError> {
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
            let (flag, value) = named(plan);
            let cure = "start the server, or check the path and who may write to it";
            Err(PlanError::new(flag, value, format!("accepts no connection ({error})"), cure))
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
