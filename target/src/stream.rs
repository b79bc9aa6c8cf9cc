//! A connection's stream, plain or through TLS, and the handshake that begins it.

use std::future::{Future as _, poll_fn};
use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use futures_rustls::server::TlsStream;
use glommio::net::TcpStream;
use glommio::timer::Timer;
use rustls::HandshakeKind;

use crate::executor_state::ExecutorState;

/// How long a closing connection is still read, so that the peer gets the last response: closing
/// with unread bytes would reset the connection and could discard the response (RFC 9112, section
/// 9.6).
const LINGER: Duration = Duration::from_secs(1);

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
        let done = executor.until_stop(|context| Pin::new(&mut handshake).poll(context)).await?;
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

    /// The protocol agreed on in the handshake, if any.
    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        match self {
            Stream::Plain(_) => None,
            Stream::Tls(stream) => stream.get_ref().1.alpn_protocol(),
        }
    }

    /// Closes our side and reads until the peer has closed its side, for at most [`LINGER`].
    pub(crate) async fn linger(&mut self, executor: &ExecutorState) {
        let mut timer = Timer::new(LINGER);
        let mut is_closed = false;
        let mut unused = vec![0; 2 << 10];
        poll_fn(|context| {
            if executor.is_stopping() || Pin::new(&mut timer).poll(context).is_ready() {
                return Poll::Ready(());
            }
            if !is_closed {
                match Pin::new(&mut *self).poll_close(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(())) => is_closed = true,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                }
            }
            // One read per turn: a peer that keeps sending gets no more of the core than others.
            match Pin::new(&mut *self).poll_read(context, &mut unused) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
                Poll::Ready(Ok(_)) => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        })
        .await;
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
