//! The listening sockets: bound before any executor runs, handed to one executor each.

#![expect(unsafe_code, reason = "glommio takes over a bound socket only by its descriptor")]

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{FromRawFd, IntoRawFd};

use glommio::net::TcpListener;
use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`. A full queue costs the peer a
/// second, so it holds as many as a generator would open at once.
const BACKLOG_MAX: i32 = 4_096;

/// A bound and listening socket, not yet owned by an executor.
pub(crate) struct Bound(Socket);

/// Binds `count` listeners to one address, and tells the address with the port that was really taken.
pub(crate) fn bind(address: SocketAddr, count: usize) -> io::Result<(Vec<Bound>, SocketAddr)> {
    // The first is bound alone. Sockets that share a port say nothing when another process of the same user has
    // listeners there already, and a witness that sees half of the load is none.
    let alone = socket(address, false)?;
    let address = local_address(&alone)?;
    if count == 1 {
        alone.listen(BACKLOG_MAX)?;
        return Ok((vec![Bound(alone)], address));
    }
    drop(alone);
    let sockets: io::Result<Vec<Socket>> = (0..count).map(|_| socket(address, true)).collect();
    let sockets = sockets?;
    for socket in &sockets {
        socket.listen(BACKLOG_MAX)?;
    }
    Ok((sockets.into_iter().map(Bound).collect(), address))
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn local_address(socket: &Socket) -> io::Result<SocketAddr> {
    let address = socket.local_addr()?;
    Ok(address.as_socket().expect("the socket was made for an IP address"))
}

/// Ends the listening of a [`Bound`] that an executor has taken over.
pub(crate) struct Unlisten(Socket);

impl Unlisten {
    /// Stops listening now. Closing alone would leave that to the kernel's own time: the ring of a thread that ended
    /// keeps its sockets until a worker has taken it apart, and whoever binds the address meanwhile finds it in use.
    pub(crate) fn now(&self) {
        // It fails only for a socket that does not listen any more.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Bound {
    /// What ends the listening later.
    pub(crate) fn unlisten(&self) -> io::Result<Unlisten> {
        self.0.try_clone().map(Unlisten)
    }

    /// Hands the socket to the executor of this thread.
    ///
    /// # Panics
    /// Outside a glommio executor.
    pub(crate) fn into_listener(self) -> TcpListener {
        // SAFETY: the descriptor is a listening TCP socket, and `into_raw_fd` gave its ownership up just now.
        unsafe { TcpListener::from_raw_fd(self.0.into_raw_fd()) }
    }
}
