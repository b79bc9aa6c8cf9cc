//! A connection's stream, plain or through TLS, and the handshake that begins it.

use std::future::{Future as _, poll_fn};
use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};
use futures_rustls::server::TlsStream;
use glommio::net::TcpStream;
use rustls::HandshakeKind;

use crate::executor_state::ExecutorState;

/// A connection's byte stream.
pub(crate) enum Stream {
    /// The socket itself.
    Plain(TcpStream),
    /// Through TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// The stream of an accepted socket, once its handshake is done; `None` if that failed, or the
    /// target stops.
    pub(crate) async fn open(executor: &ExecutorState, socket: TcpStream) -> Option<Stream> {
        let Some(tls) = &executor.tls else { return Some(Stream::Plain(socket)) };
        let mut handshake = tls.accept(socket);
        let done = poll_fn(|context| {
            if executor.is_stopping() {
                return Poll::Ready(None);
            }
            Pin::new(&mut handshake).poll(context).map(Some)
        });
        let done = done.await?;
        let counts = &mut executor.counts.borrow_mut().handshakes;
        let Ok(stream) = done else {
            counts.failed += 1;
            return None;
        };
        match stream.get_ref().1.handshake_kind() {
            Some(HandshakeKind::Resumed) => counts.resumed += 1,
            _ => counts.full += 1,
        }
        Some(Stream::Tls(Box::new(stream)))
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Ends it in both directions, now. A failure means that the peer has already ended it.
    pub(crate) async fn end(&mut self) {
        // One attempt: a peer that doesn't read mustn't delay the stop.
        let _ = poll_fn(|context| Poll::Ready(Pin::new(&mut *self).poll_close(context))).await;
        let _ = self.socket().shutdown(Shutdown::Both).await;
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_read(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, bytes),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_close(context),
            Stream::Tls(stream) => Pin::new(stream).poll_close(context),
        }
    }
}
