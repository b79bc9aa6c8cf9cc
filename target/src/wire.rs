//! A connection's stream as `h2` reads and writes it: through the traits of tokio, beginning with
//! the bytes that were read to find out the protocol.

use std::cell::{RefCell, RefMut};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_io::{AsyncRead as _, AsyncWrite as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http1::TURN_EVENTS_MAX;
use crate::input::Input;
use crate::preface::Beginning;
use crate::sent_frames::SentFrames;
use crate::stream::Stream;
use crate::system;

/// The stream, shared by the connection and `h2`.
#[derive(Clone)]
pub(crate) struct Wire(Rc<RefCell<Shared>>);

struct Shared {
    stream: Stream,
    beginning: Input,
    /// When the last bytes were read, ns.
    read_ns: u64,
    /// How many more reads this turn may have.
    reads_left: u32,
    sent: SentFrames,
    /// True if everything written has left our buffers, those of TLS included.
    flushed: bool,
}

impl Wire {
    /// A stream, and what was already read from it.
    pub(crate) fn new(stream: Stream, beginning: Beginning) -> Wire {
        Wire(Rc::new(RefCell::new(Shared {
            stream,
            beginning: beginning.input,
            read_ns: beginning.read_ns,
            reads_left: TURN_EVENTS_MAX,
            sent: SentFrames::default(),
            flushed: true,
        })))
    }

    /// Begins a turn: a peer that always has more to read waits for the next one, since it mustn't
    /// delay the responses to others.
    pub(crate) fn begin_turn(&self) {
        self.0.borrow_mut().reads_left = TURN_EVENTS_MAX;
    }

    /// When the last bytes were read, ns.
    pub(crate) fn read_ns(&self) -> u64 {
        self.0.borrow().read_ns
    }

    /// The streams whose response has left since the last call.
    pub(crate) fn take_ended(&self) -> Vec<u32> {
        let mut shared = self.0.borrow_mut();
        if shared.flushed { shared.sent.take_ended() } else { Vec::new() }
    }

    /// The stream, once `h2` has given it up.
    pub(crate) fn into_stream(self) -> Stream {
        let Ok(shared) = Rc::try_unwrap(self.0) else { panic!("`h2` still has the stream") };
        shared.into_inner().stream
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut shared = self.0.borrow_mut();
        let first = shared.beginning.bytes();
        if !first.is_empty() {
            let len = first.len().min(room.remaining());
            room.put_slice(&first[..len]);
            shared.beginning.consume(len);
            return Poll::Ready(Ok(()));
        }
        if shared.reads_left == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = Pin::new(&mut shared.stream).poll_read(context, room.initialize_unfilled());
        read.map_ok(|len| {
            room.advance(len);
            shared.reads_left -= 1;
            shared.read_ns = system::now_ns();
        })
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut shared: RefMut<'_, Shared> = self.0.borrow_mut();
        let written = Pin::new(&mut shared.stream).poll_write(context, bytes);
        written.map_ok(|len| {
            shared.flushed = false;
            shared.sent.follow(&bytes[..len]);
            len
        })
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.0.borrow_mut();
        let flushed = Pin::new(&mut shared.stream).poll_flush(context);
        flushed.map_ok(|()| shared.flushed = true)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().stream).poll_close(context)
    }
}
