//! A session over TCP: messages in order, within limits of time and memory.
//!
//! There is no queue. The next message is read once the last one was taken, and a sent one is with
//! the kernel when [`Session::send`] returns; a peer has at most 3 s without progress for that. So
//! a flood, or a peer that reads nothing, costs no more than one frame.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::ops::Range;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use engine::sys::units::Nanos;
use futures_io::{AsyncRead as _, AsyncWrite as _};
use glommio::net::TcpStream;
use glommio::timer::Timer;

use crate::channel::{Channel, ChannelError};
use crate::frame::{FrameError, TooLong};
use crate::key::Key;
use crate::message::Message;
use crate::refusal::Refusal;

/// How long a peer may take to connect, and then to be authenticated.
pub const AUTHENTICATION_MAX: Duration = Duration::from_secs(3);
/// Memory that the executor of a control plane registers, bytes: sockets don't use it.
pub(crate) const IO_MEMORY: usize = 64 << 10;
/// How long a peer may leave sent data unread.
pub const STALL_MAX: Duration = Duration::from_secs(3);
/// How long input from a refused peer is still read, so that it gets the reason: a close with
/// unread bytes would reset the connection and could discard it.
const LINGER_MAX: Duration = Duration::from_secs(1);
/// How many reads that may take: a peer that sends without end mustn't hold the executor.
const LINGER_READS_MAX: usize = 64;
/// Bytes per read.
const INPUT_BYTES: usize = 16 << 10;

/// Why a session ended, or didn't begin.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The peer can't be reached, or the connection broke.
    #[error("the connection failed: {0}")]
    Connection(io::Error),
    /// The frames weren't those of a peer with the same key and version.
    #[error("{0}")]
    Channel(#[from] ChannelError),
    /// The message is longer than its type allows.
    #[error("{0}")]
    TooLong(#[from] TooLong),
    /// The peer wasn't authenticated in time.
    #[error("not authenticated within {0}", Nanos::from_secs(AUTHENTICATION_MAX.as_secs()))]
    TooSlow,
    /// The peer reads nothing.
    #[error("the peer read nothing for {0}", Nanos::from_secs(STALL_MAX.as_secs()))]
    Stalled,
    /// This many others came later and aren't authenticated yet, or have a session.
    #[error("{0} other connections are served, which is the most")]
    Crowded(usize),
    /// The peer has closed the connection between two frames.
    #[error("the peer closed the connection")]
    Closed,
}

/// A session with an authenticated peer. Its methods must be called within a glommio executor; a
/// future of [`Session::receive`] may be dropped without loss.
pub struct Session {
    stream: TcpStream,
    channel: Channel,
    input: Box<[u8]>,
    /// The part of `input` that isn't consumed yet.
    unread: Range<usize>,
    /// Bytes to send.
    outgoing: Vec<u8>,
    /// How many of these are sent.
    written: usize,
    /// A message that came together with the end of the handshake.
    early: Option<Message>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Session {
    /// Connects to the agent at `address`.
    ///
    /// # Errors
    /// It can't be reached, or authenticated.
    pub async fn connect(address: SocketAddr, key: Option<Key>) -> Result<Session, SessionError> {
        let stream = TcpStream::connect_timeout(address, AUTHENTICATION_MAX)
            .await
            .map_err(|error| SessionError::Connection(error.into()))?;
        let mut session = Session::new(stream, Channel::controller(key.as_ref()));
        session.authenticate(&|_| ()).await?;
        Ok(session)
    }

    /// The agent's side of a connection that was accepted, to be authenticated.
    pub(crate) fn accepted(stream: TcpStream, key: Option<Key>) -> Session {
        Session::new(stream, Channel::agent(key.as_ref()))
    }

    fn new(stream: TcpStream, channel: Channel) -> Session {
        // Otherwise a short message could wait for the acknowledgement of the last. It fails only
        // if the peer is already gone, and then so does the first read.
        let _ = stream.set_nodelay(true);
        Session {
            stream,
            channel,
            input: vec![0; INPUT_BYTES].into(),
            unread: 0..0,
            outgoing: Vec::new(),
            written: 0,
            early: None,
        }
    }

    /// Authenticates the peer, before anything else is done. `opened` gets its proper opening.
    ///
    /// # Errors
    /// The peer can't be authenticated. It has been sent the reason, where that helps.
    pub(crate) async fn authenticate(
        &mut self,
        opened: &dyn Fn(Vec<u8>),
    ) -> Result<(), SessionError> {
        match within(AUTHENTICATION_MAX, self.open(opened)).await {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => {
                let is_foreign = matches!(
                    error,
                    SessionError::Channel(ChannelError::Frame(FrameError::Foreign))
                );
                if !is_foreign {
                    self.linger().await;
                }
                Err(error)
            }
            None => {
                let limit = Nanos::from_secs(AUTHENTICATION_MAX.as_secs());
                self.refuse(Refusal::TooSlow(limit)).await;
                Err(SessionError::TooSlow)
            }
        }
    }

    async fn open(&mut self, opened: &dyn Fn(Vec<u8>)) -> Result<(), SessionError> {
        loop {
            self.early = self.take().await?;
            self.channel.take_opening().into_iter().for_each(opened);
            if self.channel.is_open() {
                return Ok(());
            }
            self.fill().await?;
        }
    }

    /// The peer's address.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr().map_err(io::Error::from)
    }

    /// The peer's next message.
    ///
    /// # Errors
    /// The session has ended. The peer has been sent the reason, where that helps.
    pub async fn receive(&mut self) -> Result<Message, SessionError> {
        if let Some(early) = self.early.take() {
            return Ok(early);
        }
        loop {
            if let Some(message) = self.take().await? {
                return Ok(message);
            }
            self.fill().await?;
        }
    }

    /// The peer's next message; `None` if none comes within `limit`.
    ///
    /// # Errors
    /// Those of [`Session::receive`].
    pub async fn receive_within(
        &mut self,
        limit: Duration,
    ) -> Result<Option<Message>, SessionError> {
        within(limit, self.receive()).await.transpose()
    }

    /// Sends a message; it is with the kernel when this returns.
    ///
    /// # Errors
    /// The message is too long, which leaves the session as it was; or the connection broke, or the
    /// peer reads nothing.
    pub async fn send(&mut self, message: &Message) -> Result<(), SessionError> {
        self.channel.send(message)?;
        self.flush().await
    }

    /// Sends the peer the reason why it isn't served any more, and ends the session.
    pub async fn refuse(&mut self, refusal: Refusal) {
        self.channel.refuse(refusal);
        // If sending fails, the peer is gone, as intended.
        if self.flush().await.is_ok() {
            self.linger().await;
        }
    }

    /// Ends the session after a goodbye, after the peer if possible: the side that closes first
    /// keeps the connection's port for a minute.
    pub async fn close(mut self) {
        self.read_out().await;
    }

    /// Consumes input up to the end of a message, and answers where the channel does.
    async fn take(&mut self) -> Result<Option<Message>, SessionError> {
        let mut bytes = &self.input[self.unread.clone()];
        let message = self.channel.receive(&mut bytes);
        self.unread.start = self.unread.end - bytes.len();
        let flushed = self.flush().await;
        let message = message?;
        flushed?;
        Ok(message)
    }

    /// Reads once; all earlier input is consumed.
    async fn fill(&mut self) -> Result<(), SessionError> {
        // A peer that sends without end must leave the others their turn.
        glommio::executor().yield_if_needed().await;
        let (stream, input) = (&mut self.stream, &mut self.input);
        let read = poll_fn(|context| Pin::new(&mut *stream).poll_read(context, input)).await;
        match read.map_err(SessionError::Connection)? {
            0 => {
                self.channel.finish()?;
                Err(SessionError::Closed)
            }
            read => {
                self.unread = 0..read;
                Ok(())
            }
        }
    }

    /// Hands the outgoing bytes to the kernel.
    async fn flush(&mut self) -> Result<(), SessionError> {
        self.outgoing.append(&mut self.channel.take_outgoing());
        while self.written < self.outgoing.len() {
            let (stream, rest) = (&mut self.stream, &self.outgoing[self.written..]);
            let write = poll_fn(|context| Pin::new(&mut *stream).poll_write(context, rest));
            let written = within(STALL_MAX, write).await.ok_or(SessionError::Stalled)?;
            self.written += written.map_err(SessionError::Connection)?;
        }
        // The memory of a long message isn't kept.
        (self.outgoing, self.written) = (Vec::new(), 0);
        Ok(())
    }

    /// Ends this side of the connection, and reads on until the peer ends its own.
    async fn linger(&mut self) {
        // It fails only if the peer is gone.
        let _ = self.stream.shutdown(Shutdown::Write).await;
        self.read_out().await;
    }

    /// Reads on until the peer ends its side, for a while.
    async fn read_out(&mut self) {
        let rest = async {
            let (stream, input) = (&mut self.stream, &mut self.input);
            for _ in 0..LINGER_READS_MAX {
                let read = poll_fn(|context| Pin::new(&mut *stream).poll_read(context, input));
                if !matches!(read.await, Ok(1..)) {
                    return;
                }
            }
        };
        within(LINGER_MAX, rest).await;
    }
}

/// The value of a future, or `None` if it takes longer than `limit`.
async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut timer = pin!(Timer::new(limit));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => timer.as_mut().poll(context).map(|_| None),
    })
    .await
}
