//! Listening sockets, one for each core of a server, bound before any of its threads runs.

#![expect(unsafe_code, reason = "glommio takes over a bound socket only by its descriptor")]

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{FromRawFd, IntoRawFd};

use glommio::net::TcpListener;
use socket2::{Domain, Protocol, Socket, Type};

use crate::TargetError;

/// The most connections waiting to be accepted; the kernel caps it at `net.core.somaxconn`. A full
/// queue costs the peer a second, so it holds as many as a generator would open at once.
const BACKLOG_MAX: i32 = 4_096;

/// A bound and listening socket, not yet owned by an executor.
pub(crate) struct BoundListener(pub(crate) Socket);

/// Listens on one address with `count` sockets; returns them and the address with the actual port.
///
/// # Errors
/// The address isn't this machine's, or something else listens there.
pub fn listen(address: SocketAddr, count: usize) -> Result<(Vec<Socket>, SocketAddr), TargetError> {
    listening(address, count).map_err(|error| {
        let cure = match error.kind() {
            io::ErrorKind::AddrInUse => "stop what listens there, or give another port (0: any)",
            io::ErrorKind::AddrNotAvailable => "give an address of this machine",
            io::ErrorKind::PermissionDenied => "give a port from 1024 up",
            _ => "give another address",
        };
        TargetError::Failed(format!("--listen {address}: {error}; {cure}"))
    })
}

fn listening(address: SocketAddr, count: usize) -> io::Result<(Vec<Socket>, SocketAddr)> {
    // The first is bound alone. Binding a shared port succeeds even if another process of the same
    // user already listens there, and a target that sees half of the load confirms nothing.
    let alone = socket(address, false)?;
    let address = alone.local_addr()?.as_socket().expect("the socket was made for an IP address");
    let sockets = if count == 1 {
        vec![alone]
    } else {
        drop(alone);
        (0..count).map(|_| socket(address, true)).collect::<io::Result<_>>()?
    };
    for socket in &sockets {
        socket.listen(BACKLOG_MAX)?;
    }
    Ok((sockets, address))
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    // Accepted sockets inherit it: a second response mustn't wait for the acknowledgement of the
    // first.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Stops a [`BoundListener`] that an executor has taken over.
pub(crate) struct ListenerHandle(Socket);

impl ListenerHandle {
    /// Stops listening now. Closing the socket isn't enough: the ring of an ended thread keeps its
    /// sockets, and the address in use, until a kernel worker has torn it down.
    pub(crate) fn stop(&self) {
        // It fails only if the socket is no longer listening.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl BoundListener {
    /// A handle that can stop the listener later.
    pub(crate) fn handle(&self) -> io::Result<ListenerHandle> {
        self.0.try_clone().map(ListenerHandle)
    }

    /// Hands the socket to this thread's executor.
    ///
    /// # Panics
    /// Outside a glommio executor.
    pub(crate) fn into_listener(self) -> TcpListener {
        // SAFETY: the descriptor is a listening TCP socket whose ownership `into_raw_fd` gave up.
        unsafe { TcpListener::from_raw_fd(self.0.into_raw_fd()) }
    }
}
