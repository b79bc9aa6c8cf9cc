//! One HTTP/1.1 connection: reads requests, holds them until they are due, answers them in order.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures_io::{AsyncRead, AsyncWrite};

use crate::config::FaultKind;
use crate::executor_state::{ExecutorState, Hold};
use crate::input::Input;
use crate::outcomes::Outcomes;
use crate::preface::Beginning;
use crate::request::{self, Asks, Head};
use crate::responses::{self, Persistence, Rejection};
use crate::shop::Reply;
use crate::stream::Stream;
use crate::system;

/// Requests that may wait on one connection; beyond that it isn't read until one is answered.
const PIPELINE_MAX: usize = 64;
/// Reads and answers in a row before other connections and holds get their turn: a peer that always
/// has more to read mustn't delay the responses to others.
pub(crate) const TURN_EVENTS_MAX: u32 = 16;

/// A connection and its requests.
pub(crate) struct Connection {
    executor: Rc<ExecutorState>,
    stream: Stream,
    waker: Waker,
    input: Input,
    /// The request whose body is being read.
    head: Option<Head>,
    waiting: VecDeque<Waiting>,
    /// True if further requests are taken: not after a close, a rejection, a fault that ends the
    /// connection, or the end of the peer's stream.
    open: bool,
    peer_closed: bool,
    /// When the last bytes were read, ns.
    read_ns: u64,
    /// When the first bytes of the current request were read, ns.
    arrived_ns: u64,
}

/// A response waiting for its due time and its turn.
struct Waiting {
    parsed_ns: u64,
    due_ns: u64,
    answer: Answer,
}

enum Answer {
    Sample { route: usize, persistence: Persistence, head_only: bool },
    Shop { route: usize, persistence: Persistence, reply: Box<Reply> },
    Faulty { route: usize, persistence: Persistence, head_only: bool, kind: FaultKind },
    Ledger { persistence: Persistence, head_only: bool },
    Continue,
    Reject(Rejection),
}

/// The events that a connection may wait for.
enum Event {
    Due,
    Read(usize),
    PeerClosed,
    PeerGone,
    Stop,
}

/// Why a connection answers no more requests.
enum End {
    Served,
    PeerGone,
    Reset,
    Stop,
}

/// How a write ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Whole,
    PeerGone,
    /// The connection was reset instead, as configured.
    Reset,
    Stop,
}

impl Connection {
    /// A connection that has begun, served by the task that `waker` wakes.
    pub(crate) fn new(
        executor: Rc<ExecutorState>,
        stream: Stream,
        beginning: Beginning,
        waker: Waker,
    ) -> Connection {
        let Beginning { input, arrived_ns, read_ns } = beginning;
        Connection {
            executor,
            stream,
            waker,
            input,
            head: None,
            waiting: VecDeque::new(),
            open: true,
            peer_closed: false,
            read_ns,
            arrived_ns,
        }
    }

    /// Serves the connection until it ends.
    pub(crate) async fn serve(mut self) {
        match self.answer_all().await {
            // A TLS peer that has closed only its own side needs a close_notify.
            End::Served if self.peer_closed && matches!(self.stream, Stream::Plain(_)) => {}
            End::Served => self.stream.linger(&self.executor).await,
            End::PeerGone => self.count_unanswered(),
            End::Reset => {}
            // The ring may keep the socket open after it is dropped, so the stream is ended here.
            End::Stop => self.stream.end().await,
        }
    }

    /// Takes and answers requests until no more can come.
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
                    Written::Reset => return End::Reset,
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

    /// Takes the requests that have been read in full.
    fn take_requests(&mut self) {
        while self.open && self.waiting.len() < PIPELINE_MAX {
            match self.take_request() {
                Ok(Some(head)) => self.receive(head),
                Ok(None) => return,
                Err(rejection) => {
                    self.executor.counts.borrow_mut().rejected += 1;
                    self.open = false;
                    self.queue_answer(Answer::Reject(rejection));
                }
            }
        }
    }

    /// The next request, if it has been read in full.
    fn take_request(&mut self) -> Result<Option<Head>, Rejection> {
        let mut head = match self.head.take() {
            Some(head) => head,
            None => match self.parse_head()? {
                None => return Ok(None),
                Some(head) => {
                    self.input.consume(head.len);
                    if head.expects_continue && self.input.bytes().is_empty() {
                        self.queue_answer(Answer::Continue);
                    }
                    head
                }
            },
        };
        let shop = &mut head.shop;
        let keep = |content: &[u8]| shop.iter_mut().for_each(|asked| asked.add_body(content));
        let taken = head.body.take(self.input.bytes(), keep)?;
        self.input.consume(taken);
        if head.body.is_complete() {
            return Ok(Some(head));
        }
        self.head = Some(head);
        Ok(None)
    }

    fn parse_head(&self) -> Result<Option<Head>, Rejection> {
        let executor = &self.executor;
        request::parse(self.input.bytes(), &executor.router, executor.shop.is_some())
    }

    /// Decides when a request will be answered.
    fn receive(&mut self, head: Head) {
        let Head { persistence, head_only, .. } = head;
        self.open = persistence != Persistence::Close;
        match head.asks {
            Asks::Ledger => {
                self.executor.counts.borrow_mut().ledger_requests += 1;
                self.queue_answer(Answer::Ledger { persistence, head_only });
            }
            Asks::Sample(route) => {
                let Hold { parsed_ns, mut due_ns, fault } =
                    self.executor.receive(route, self.arrived_ns, &self.waker);
                let asked = head.shop;
                let reply = asked.and_then(|asked| self.executor.reply(&asked, self.arrived_ns));
                let answer = match (reply, fault) {
                    (Some(reply), _) => Answer::Shop { route, persistence, reply },
                    // A response to HEAD has no body to cut.
                    (None, Some(kind)) if kind != FaultKind::Short || !head_only => {
                        // Requests behind the end of the connection could have no outcome.
                        self.open &= kind == FaultKind::Repeat;
                        if kind == FaultKind::Reset {
                            due_ns = parsed_ns;
                        }
                        Answer::Faulty { route, persistence, head_only, kind }
                    }
                    (None, _) => Answer::Sample { route, persistence, head_only },
                };
                self.waiting.push_back(Waiting { parsed_ns, due_ns, answer });
            }
        }
        // Bytes left over came with the last read, so the next request arrived then.
        self.arrived_ns = self.read_ns;
    }

    /// Queues a response that waits only for those before it.
    fn queue_answer(&mut self, answer: Answer) {
        let parsed_ns = system::now_ns();
        self.waiting.push_back(Waiting { parsed_ns, due_ns: parsed_ns, answer });
    }

    /// Sends the first waiting response.
    async fn answer(&mut self) -> Written {
        let Waiting { parsed_ns, answer, .. } =
            self.waiting.pop_front().expect("a response is due");
        let executor = Rc::clone(&self.executor);
        match answer {
            Answer::Sample { route, persistence, head_only } => {
                let bytes = executor.responses[route].sample(persistence, head_only);
                let held_ns = system::now_ns() - parsed_ns;
                self.write_counted(bytes, route, |outcomes| outcomes.answer(held_ns)).await
            }
            Answer::Shop { route, persistence, reply } => {
                let bytes = responses::shop(&reply, persistence);
                let handed_ns = system::now_ns();
                // Before it is written: the user's next step may come to another executor at once.
                executor.hand_over(&reply, handed_ns);
                let held_ns = handed_ns - parsed_ns;
                self.write_counted(&bytes, route, |outcomes| outcomes.answer(held_ns)).await
            }
            Answer::Faulty { route, kind: FaultKind::Reset, .. } => {
                system::reset(self.stream.socket());
                executor.counts.borrow_mut().outcomes[route].break_off();
                Written::Reset
            }
            Answer::Faulty { route, persistence, kind: FaultKind::Short, .. } => {
                let bytes = executor.responses[route].half(persistence);
                self.write_counted(bytes, route, Outcomes::break_off).await
            }
            Answer::Faulty { route, persistence, head_only, kind: FaultKind::Repeat } => {
                let bytes = executor.responses[route].sample(persistence, head_only).repeat(2);
                let held_ns = system::now_ns() - parsed_ns;
                self.write_counted(&bytes, route, |outcomes| outcomes.repeat(held_ns)).await
            }
            Answer::Ledger { persistence, head_only } => match executor.ledger().await {
                Some(document) => {
                    self.write(&responses::ledger(document, persistence, head_only)).await
                }
                None => Written::Stop,
            },
            Answer::Continue => self.write(responses::CONTINUE).await,
            Answer::Reject(rejection) => self.write(rejection.response()).await,
        }
    }

    /// Writes the response to a request of this route, and counts it with `count` if all of it was
    /// written.
    async fn write_counted(
        &mut self,
        bytes: &[u8],
        route: usize,
        count: impl FnOnce(&mut Outcomes),
    ) -> Written {
        let mut written = self.write(bytes).await;
        // A peer that closed its side may still be reading or be gone: only the socket's error
        // shows which.
        if self.peer_closed && written == Written::Whole && system::has_error(self.stream.socket())
        {
            written = Written::PeerGone;
        }
        let of_route = &mut self.executor.counts.borrow_mut().outcomes[route];
        match written {
            Written::Whole => count(of_route),
            Written::PeerGone => of_route.close_unanswered(),
            Written::Reset | Written::Stop => {}
        }
        written
    }

    /// Writes all of `bytes`, with a single `send` if the socket takes them at once.
    async fn write(&mut self, bytes: &[u8]) -> Written {
        let mut rest = bytes;
        while !rest.is_empty() {
            let stream = &mut self.stream;
            let written = self
                .executor
                .until_stop(|context| Pin::new(&mut *stream).poll_write(context, rest));
            match written.await {
                Some(Ok(len)) => rest = &rest[len..],
                Some(Err(_)) => return Written::PeerGone,
                None => return Written::Stop,
            }
        }
        let stream = &mut self.stream;
        let flushed =
            self.executor.until_stop(|context| Pin::new(&mut *stream).poll_flush(context));
        match flushed.await {
            Some(Ok(())) => Written::Whole,
            Some(Err(_)) => Written::PeerGone,
            None => Written::Stop,
        }
    }

    /// Counts the requests whose peer is gone.
    fn count_unanswered(&mut self) {
        let outcomes = &mut self.executor.counts.borrow_mut().outcomes;
        for waiting in &self.waiting {
            if let Answer::Sample { route, .. }
            | Answer::Shop { route, .. }
            | Answer::Faulty { route, .. } = waiting.answer
            {
                outcomes[route].close_unanswered();
            }
        }
    }
}
