//! One connection: reads requests, holds them until they are due, answers them in the order they came.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use glommio::net::TcpStream;
use glommio::timer::Timer;

use crate::executor::Executor;
use crate::replies::{self, Persistence};
use crate::request::{self, HEAD_LEN_MAX, Head, Refusal};
use crate::system;

/// Requests that one connection may have waiting; beyond that it is not read from until one is answered.
const PIPELINE_MAX: usize = 64;
/// Reads and answers in a row before the other connections and holds have their turn: a peer that always has more to
/// read must not keep others from being answered in time.
const TURN_EVENTS_MAX: u32 = 16;
/// The first size of a connection's buffer, bytes: a usual head. It grows to [`HEAD_LEN_MAX`] when one needs it.
const INPUT_LEN_FIRST: usize = 2 << 10;
/// How long a closing connection is still read from, so that the peer gets the last response: a close with unread
/// bytes would reset the connection and could take the response with it (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(1);

/// A connection and its requests.
pub(crate) struct Connection {
    executor: Rc<Executor>,
    stream: TcpStream,
    waker: Waker,
    input: Input,
    /// The request whose body is being read.
    head: Option<Head>,
    waiting: VecDeque<Waiting>,
    /// Whether further requests are taken: not after a close, a refusal, or the end of the peer's stream.
    open: bool,
    peer_closed: bool,
    /// When the last bytes were read, ns.
    read_ns: u64,
    /// When the first bytes of the current request were read, ns.
    arrived_ns: u64,
}

/// An answer that waits for its time and its turn.
struct Waiting {
    parsed_ns: u64,
    due_ns: u64,
    answer: Answer,
}

enum Answer {
    Sample { persistence: Persistence, head_only: bool },
    Ledger { persistence: Persistence, head_only: bool },
    Continue,
    Refuse(Refusal),
}

/// What a connection waits for.
enum Event {
    Due,
    Read(usize),
    PeerClosed,
    PeerGone,
    Stop,
}

/// Why a connection takes and answers no more requests.
enum End {
    Served,
    PeerGone,
    Stop,
}

/// How a write ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Whole,
    PeerGone,
    Stop,
}

impl Connection {
    /// A connection just accepted, served by the task that `waker` wakes.
    pub(crate) fn new(executor: Rc<Executor>, stream: TcpStream, waker: Waker) -> Connection {
        Connection {
            executor,
            stream,
            waker,
            input: Input::new(),
            head: None,
            waiting: VecDeque::new(),
            open: true,
            peer_closed: false,
            read_ns: 0,
            arrived_ns: 0,
        }
    }

    /// Serves the connection to its end.
    pub(crate) async fn serve(mut self) {
        match self.answer_all().await {
            End::Served if self.peer_closed => {}
            End::Served => self.linger().await,
            End::PeerGone => self.lose(),
            End::Stop => {
                // The ring may keep the socket open after it is dropped, so the peer is told here. A failure means that
                // the peer knows already.
                let _ = self.stream.shutdown(Shutdown::Both).await;
            }
        }
    }

    /// Takes and answers requests as long as there can be any.
    async fn answer_all(&mut self) -> End {
        let mut events: u32 = 0;
        loop {
            self.take_requests();
            if !self.open && self.waiting.is_empty() {
                return End::Served;
            }
            match poll_fn(|context| self.poll_event(context)).await {
                Event::Due => match self.answer().await {
                    Written::Whole => {}
                    Written::PeerGone => return End::PeerGone,
                    Written::Stop => return End::Stop,
                },
                Event::Read(len) => self.note_read(len),
                Event::PeerClosed => {
                    self.open = false;
                    self.peer_closed = true;
                }
                Event::PeerGone => return End::PeerGone,
                Event::Stop => return End::Stop,
            }
            events = events.wrapping_add(1);
            if events.is_multiple_of(TURN_EVENTS_MAX) {
                glommio::executor().yield_now().await;
            }
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        if self.executor.is_stopping() {
            return Poll::Ready(Event::Stop);
        }
        if let Some(first) = self.waiting.front()
            && first.due_ns <= system::now_ns()
        {
            return Poll::Ready(Event::Due);
        }
        if !self.open || self.waiting.len() == PIPELINE_MAX {
            return Poll::Pending;
        }
        match Pin::new(&mut self.stream).poll_read(context, self.input.unfilled()) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(0)) => Poll::Ready(Event::PeerClosed),
            Poll::Ready(Ok(len)) => Poll::Ready(Event::Read(len)),
            Poll::Ready(Err(_)) => Poll::Ready(Event::PeerGone),
        }
    }

    fn note_read(&mut self, len: usize) {
        self.read_ns = system::now_ns();
        if self.head.is_none() && self.input.bytes().is_empty() {
            self.arrived_ns = self.read_ns;
        }
        self.input.fill(len);
    }

    /// Takes the requests that have been read whole.
    fn take_requests(&mut self) {
        while self.open && self.waiting.len() < PIPELINE_MAX {
            match self.take_request() {
                Ok(Some(head)) => self.receive(&head),
                Ok(None) => return,
                Err(refusal) => {
                    self.executor.tally.borrow_mut().rejected += 1;
                    self.open = false;
                    self.wait_for_turn(Answer::Refuse(refusal));
                }
            }
        }
    }

    /// The next request, if it has been read whole.
    fn take_request(&mut self) -> Result<Option<Head>, Refusal> {
        let mut head = match self.head.take() {
            Some(head) => head,
            None => match request::parse(self.input.bytes())? {
                None => return Ok(None),
                Some(head) => {
                    self.input.consume(head.len);
                    if head.expects_continue && self.input.bytes().is_empty() {
                        self.wait_for_turn(Answer::Continue);
                    }
                    head
                }
            },
        };
        let taken = head.body.take(self.input.bytes())?;
        self.input.consume(taken);
        if head.body.is_whole() {
            return Ok(Some(head));
        }
        self.head = Some(head);
        Ok(None)
    }

    /// Decides when a request is answered.
    fn receive(&mut self, head: &Head) {
        let Head { persistence, head_only, .. } = *head;
        self.open = persistence != Persistence::Close;
        if head.asks_ledger {
            self.executor.tally.borrow_mut().ledger_requests += 1;
            self.wait_for_turn(Answer::Ledger { persistence, head_only });
        } else {
            let parsed_ns = system::now_ns();
            let due = self.executor.service.borrow_mut().next(parsed_ns);
            self.executor.tally.borrow_mut().receive(self.arrived_ns, due.pause);
            if parsed_ns < due.due_ns {
                self.executor.holds.add(due.due_ns, self.waker.clone());
            }
            let answer = Answer::Sample { persistence, head_only };
            self.waiting.push_back(Waiting { parsed_ns, due_ns: due.due_ns, answer });
        }
        // What is left was read last, and with it the first bytes of the next request.
        self.arrived_ns = self.read_ns;
    }

    /// An answer that is held by nothing but those before it.
    fn wait_for_turn(&mut self, answer: Answer) {
        let parsed_ns = system::now_ns();
        self.waiting.push_back(Waiting { parsed_ns, due_ns: parsed_ns, answer });
    }

    /// Answers the first of those that wait.
    async fn answer(&mut self) -> Written {
        let Waiting { parsed_ns, answer, .. } = self.waiting.pop_front().expect("an answer is due");
        let executor = Rc::clone(&self.executor);
        match answer {
            Answer::Sample { persistence, head_only } => {
                let bytes = executor.replies.sample(persistence, head_only);
                let handed_ns = system::now_ns();
                let mut written = self.write(bytes).await;
                // A peer that closed its side may still read, or be gone: only the socket's error tells them apart.
                if self.peer_closed && written == Written::Whole && system::has_error(&self.stream)
                {
                    written = Written::PeerGone;
                }
                match written {
                    Written::Whole => executor.tally.borrow_mut().answer(handed_ns - parsed_ns),
                    Written::PeerGone => executor.tally.borrow_mut().lose(1),
                    Written::Stop => {}
                }
                written
            }
            Answer::Ledger { persistence, head_only } => match executor.ledger().await {
                Some(document) => {
                    self.write(&replies::ledger(document, persistence, head_only)).await
                }
                None => Written::Stop,
            },
            Answer::Continue => self.write(replies::CONTINUE).await,
            Answer::Refuse(Refusal::Malformed) => self.write(replies::BAD_REQUEST).await,
            Answer::Refuse(Refusal::HeadTooLarge) => self.write(replies::HEAD_TOO_LARGE).await,
        }
    }

    /// Writes all of `bytes`, with one `send` where the socket takes them at once.
    async fn write(&mut self, bytes: &[u8]) -> Written {
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = poll_fn(|context| {
                if self.executor.is_stopping() {
                    return Poll::Ready(None);
                }
                Pin::new(&mut self.stream).poll_write(context, rest).map(Some)
            });
            match written.await {
                Some(Ok(len)) => rest = &rest[len..],
                Some(Err(_)) => return Written::PeerGone,
                None => return Written::Stop,
            }
        }
        Written::Whole
    }

    /// Counts the requests that nobody waits for any more.
    fn lose(&mut self) {
        let samples = self.waiting.iter().filter(|w| matches!(w.answer, Answer::Sample { .. }));
        self.executor.tally.borrow_mut().lose(samples.count() as u64);
    }

    /// Closes our side and reads until the peer has closed its own, for at most [`LINGER`].
    async fn linger(&mut self) {
        if self.stream.shutdown(Shutdown::Write).await.is_err() {
            return;
        }
        let mut timer = Timer::new(LINGER);
        poll_fn(|context| {
            if self.executor.is_stopping() || Pin::new(&mut timer).poll(context).is_ready() {
                return Poll::Ready(());
            }
            // One read a turn: a peer that keeps sending gets no more of the core than any other.
            self.input.clear();
            match Pin::new(&mut self.stream).poll_read(context, self.input.unfilled()) {
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
}

/// Bytes read and not yet taken.
struct Input {
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Input {
    fn new() -> Input {
        Input { buffer: vec![0; INPUT_LEN_FIRST], begin: 0, end: 0 }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    fn consume(&mut self, len: usize) {
        self.begin += len;
        assert!(self.begin <= self.end, "only bytes that were read can be taken");
    }

    fn clear(&mut self) {
        (self.begin, self.end) = (0, 0);
    }

    /// Room to read into, never empty: whoever takes bytes refuses a line or head that fills [`HEAD_LEN_MAX`].
    fn unfilled(&mut self) -> &mut [u8] {
        if self.begin == self.end {
            self.clear();
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
            if self.end == self.buffer.len() {
                assert!(self.end < HEAD_LEN_MAX, "a head of this length has been refused");
                self.buffer.resize(HEAD_LEN_MAX, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    fn fill(&mut self, len: usize) {
        self.end += len;
        assert!(self.end <= self.buffer.len(), "no more can be read than there is room");
    }
}
