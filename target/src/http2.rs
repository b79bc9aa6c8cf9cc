//! One HTTP/2 connection: each stream is a request, held until it is due and answered then, in any
//! order. `h2` speaks the protocol.

use std::collections::{BTreeMap, HashMap};
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::header::EXPECT;
use http::{Method, Request, Response, StatusCode};
use tokio::io::BufWriter;

use crate::config::Http2;
use crate::executor_state::{ExecutorState, Hold};
use crate::preface::Beginning;
use crate::request::{self, Asks};
use crate::responses;
use crate::shop::{Asked, Reply};
use crate::stream::Stream;
use crate::system;
use crate::wire::Wire;

/// The output of one turn that leaves in one write, bytes.
const OUTPUT_LEN: usize = 32 << 10;
/// The longest header list of a request, bytes, as RFC 9113 counts them; `h2` answers a longer one
/// with 431.
const HEADER_LIST_MAX: u32 = 16 << 10;
/// The window of a connection before any update, bytes (RFC 9113, section 6.9.2).
const CONNECTION_WINDOW: u32 = 65_535;
/// Streams that the peer may reset before they are seen: more than a client resets after a stop of
/// the process, and few enough for memory.
const RESETS_MAX: usize = 1 << 20;

/// A connection and its streams.
struct Connection {
    executor: Rc<ExecutorState>,
    wire: Wire,
    h2: server::Connection<BufWriter<Wire>, Bytes>,
    /// Streams so far, refused ones included, but not those for the ledger.
    streams: u64,
    /// Of these, the ones that were taken.
    requests: u64,
    /// Requests whose body is being read.
    reading: Vec<Incoming>,
    /// Requests read in full, by due time and, if that is the same, in the order in which they were
    /// read.
    waiting: BTreeMap<(u64, u64), Waiting>,
    /// Requests whose response was given to `h2`, by stream.
    leaving: HashMap<u32, Leaving>,
    /// Requests that have been read in full.
    received: u64,
}

/// A request that isn't read in full yet.
struct Incoming {
    asks: Asks,
    head_only: bool,
    /// The step of the shop's users that it is, if it is one.
    shop: Option<Box<Asked>>,
    /// When its first bytes were read, ns.
    arrived_ns: u64,
    body: RecvStream,
    respond: SendResponse<Bytes>,
}

/// A response waiting for its due time.
struct Waiting {
    route: usize,
    head_only: bool,
    parsed_ns: u64,
    /// The shop's reply, if it has one.
    reply: Option<Box<Reply>>,
    respond: SendResponse<Bytes>,
}

/// A response that hasn't been written to the socket in full.
struct Leaving {
    route: usize,
    held_ns: u64,
    /// What remains of the body. The end of a stream isn't given to `h2` before the window has
    /// room for it, because then `h2` no longer shows whether the peer resets the stream.
    body: Bytes,
    stream: SendStream<Bytes>,
}

/// Why a connection answers no more requests.
enum End {
    Served,
    PeerGone,
    Malformed,
    Stop,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(executor: Rc<ExecutorState>, stream: Stream, beginning: Beginning) {
    let wire = Wire::new(stream, beginning);
    let end = serve_streams(&executor, &wire).await;
    if matches!(end, End::Malformed) {
        executor.counts.borrow_mut().rejected += 1;
    }
    let mut stream = wire.into_stream();
    match end {
        End::Served | End::Malformed => stream.linger(&executor).await,
        End::PeerGone => {}
        // The ring may keep the socket open after it is dropped, so the stream is ended here.
        End::Stop => stream.end().await,
    }
}

async fn serve_streams(executor: &Rc<ExecutorState>, wire: &Wire) -> End {
    let output = BufWriter::with_capacity(OUTPUT_LEN, wire.clone());
    let mut handshake = pin!(builder(&executor.http2).handshake(output));
    let h2 = match executor.until_stop(|context| handshake.as_mut().poll(context)).await {
        Some(Ok(h2)) => h2,
        Some(Err(error)) => return End::of(&error),
        None => return End::Stop,
    };
    executor.counts.borrow_mut().http2 += 1;
    let mut connection = Connection {
        executor: Rc::clone(executor),
        wire: wire.clone(),
        h2,
        streams: 0,
        requests: 0,
        reading: Vec::new(),
        waiting: BTreeMap::new(),
        leaving: HashMap::new(),
        received: 0,
    };
    let end = poll_fn(|context| connection.poll(context)).await;
    connection.count_left();
    if !matches!(end, End::Stop) {
        connection.count_unanswered();
    }
    end
}

/// The protocol's settings.
fn builder(config: &Http2) -> server::Builder {
    let mut builder = server::Builder::new();
    builder
        .max_header_list_size(HEADER_LIST_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(None);
    if let Some(streams) = config.max_streams {
        builder.max_concurrent_streams(streams);
    }
    if let Some(window) = config.window {
        builder.initial_window_size(window);
        builder.initial_connection_window_size(window.max(CONNECTION_WINDOW));
    }
    builder
}

impl End {
    fn of(error: &h2::Error) -> End {
        if error.is_io() || error.is_remote() { End::PeerGone } else { End::Malformed }
    }
}

impl Connection {
    /// Takes and answers all that it can now; ready if no more requests can come.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        if self.executor.is_stopping() {
            return Poll::Ready(End::Stop);
        }
        self.wire.begin_turn();
        loop {
            // This also writes what was answered before.
            loop {
                match self.h2.poll_accept(context) {
                    Poll::Ready(Some(Ok((request, respond)))) => {
                        self.accept(request, respond, context);
                    }
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(End::of(&error)),
                    Poll::Ready(None) => return Poll::Ready(End::Served),
                    Poll::Pending => break,
                }
            }
            self.read_bodies(context);
            self.count_left();
            let answered = self.answer();
            self.send_bodies(context);
            if !answered {
                return Poll::Pending;
            }
        }
    }

    /// Takes a new stream, or refuses it.
    fn accept(
        &mut self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
        context: &mut Context<'_>,
    ) {
        let asks = Asks::of(request.uri().path(), &self.executor.router);
        if matches!(asks, Asks::Sample(_)) {
            let config = self.executor.http2;
            self.streams += 1;
            if config.refuse.is_some_and(|every| self.streams.is_multiple_of(every)) {
                self.executor.counts.borrow_mut().refused += 1;
                respond.send_reset(Reason::REFUSED_STREAM);
                return;
            }
            self.requests += 1;
            if config.goaway_every == Some(self.requests) {
                self.executor.counts.borrow_mut().goaways += 1;
                self.h2.graceful_shutdown();
            }
        }
        let mut expected = request.headers().get_all(EXPECT).iter();
        let head_only = request.method() == Method::HEAD;
        if expected.any(|value| request::expects_continue(value.as_bytes()))
            && !request.body().is_end_stream()
        {
            let mut interim = Response::new(());
            *interim.status_mut() = StatusCode::CONTINUE;
            // It fails only if the stream has ended, which reading the body shows too.
            let _ = respond.send_informational(interim);
        }
        let arrived_ns = self.wire.read_ns();
        let shop = self.executor.shop.is_some().then(|| asked(&request)).flatten();
        let body = request.into_body();
        let mut incoming = Incoming { asks, head_only, shop, arrived_ns, body, respond };
        match incoming.poll_end(context) {
            Poll::Ready(true) => self.receive(incoming, context),
            Poll::Ready(false) => {}
            Poll::Pending => self.reading.push(incoming),
        }
    }

    /// Reads the bodies that are not complete yet.
    fn read_bodies(&mut self, context: &mut Context<'_>) {
        let mut at = 0;
        while at < self.reading.len() {
            match self.reading[at].poll_end(context) {
                Poll::Ready(true) => {
                    let incoming = self.reading.remove(at);
                    self.receive(incoming, context);
                }
                Poll::Ready(false) => drop(self.reading.remove(at)),
                Poll::Pending => at += 1,
            }
        }
    }

    /// Decides when a request will be answered.
    fn receive(&mut self, incoming: Incoming, context: &mut Context<'_>) {
        let Incoming { asks, head_only, shop, arrived_ns, respond, .. } = incoming;
        match asks {
            Asks::Ledger => {
                self.executor.counts.borrow_mut().ledger_requests += 1;
                let executor = Rc::clone(&self.executor);
                glommio::spawn_local(answer_ledger(executor, respond, head_only)).detach();
            }
            Asks::Sample(route) => {
                let Hold { parsed_ns, due_ns, .. } =
                    self.executor.receive(route, arrived_ns, context.waker());
                self.received += 1;
                let reply = shop.and_then(|asked| self.executor.reply(&asked, arrived_ns));
                let waiting = Waiting { route, head_only, parsed_ns, reply, respond };
                self.waiting.insert((due_ns, self.received), waiting);
            }
        }
    }

    /// Answers the requests that are due; returns whether there were any.
    fn answer(&mut self) -> bool {
        let mut any = false;
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= system::now_ns()
        {
            any = true;
            let Waiting { route, head_only, parsed_ns, reply, mut respond } = first.remove();
            let (head, body) = match &reply {
                None => self.executor.responses[route].parts(head_only),
                Some(reply) => responses::shop_parts(reply),
            };
            let id = respond.stream_id().as_u32();
            let handed_ns = system::now_ns();
            reply.iter().for_each(|reply| self.executor.hand_over(reply, handed_ns));
            match respond.send_response(head, body.is_empty()) {
                Ok(stream) => {
                    let held_ns = handed_ns - parsed_ns;
                    self.leaving.insert(id, Leaving { route, held_ns, body, stream });
                }
                Err(_) => self.count_gone(route),
            }
        }
        any
    }

    /// Counts the requests whose response has left.
    fn count_left(&mut self) {
        let outcomes = &mut self.executor.counts.borrow_mut().outcomes;
        for stream in self.wire.take_ended() {
            if let Some(Leaving { route, held_ns, .. }) = self.leaving.remove(&stream) {
                outcomes[route].answer(held_ns);
            }
        }
    }

    /// Gives `h2` as much of the bodies as their windows have room for, and counts the requests
    /// whose stream was reset before all of the response had left.
    fn send_bodies(&mut self, context: &mut Context<'_>) {
        let outcomes = &mut self.executor.counts.borrow_mut().outcomes;
        self.leaving.retain(|_, leaving| {
            let is_open = leaving.send(context);
            if !is_open {
                outcomes[leaving.route].close_unanswered();
            }
            is_open
        });
    }

    /// Counts all requests that are left when the connection has ended.
    fn count_unanswered(&self) {
        let waiting = self.waiting.values().map(|waiting| waiting.route);
        let leaving = self.leaving.values().map(|leaving| leaving.route);
        waiting.chain(leaving).for_each(|route| self.count_gone(route));
    }

    /// Counts a request whose stream or connection is gone.
    fn count_gone(&self, route: usize) {
        self.executor.counts.borrow_mut().outcomes[route].close_unanswered();
    }
}

impl Incoming {
    /// Reads the body, which only the shop keeps; ready once it is complete, or false if the stream
    /// was reset.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        while let Some(data) = ready!(self.body.poll_data(context)) {
            let Ok(data) = data else { return Poll::Ready(false) };
            self.shop.iter_mut().for_each(|asked| asked.add_body(&data));
            // It fails only for more bytes than were received.
            let _ = self.body.flow_control().release_capacity(data.len());
        }
        self.body.poll_trailers(context).map(|trailers| trailers.is_ok())
    }
}

impl Leaving {
    /// Sends as much of the body as the windows have room for; returns false if the peer has reset
    /// the stream.
    fn send(&mut self, context: &mut Context<'_>) -> bool {
        while !self.body.is_empty() {
            self.stream.reserve_capacity(self.body.len());
            let room = match self.stream.poll_capacity(context) {
                Poll::Ready(Some(Ok(room))) => room,
                Poll::Ready(_) => return false,
                Poll::Pending => break,
            };
            let part = self.body.split_to(room.min(self.body.len()));
            if self.stream.send_data(part, self.body.is_empty()).is_err() {
                return false;
            }
        }
        self.stream.poll_reset(context).is_pending()
    }
}

/// The step of the shop's users that a request is, if it is one.
fn asked(request: &Request<RecvStream>) -> Option<Box<Asked>> {
    let uri = request.uri();
    let fields = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let method = request.method().as_str();
    Asked::of(method, uri.path(), uri.query().unwrap_or_default(), fields).map(Box::new)
}

/// Answers a request for the ledger, unless the target stops first.
async fn answer_ledger(
    executor: Rc<ExecutorState>,
    mut respond: SendResponse<Bytes>,
    head_only: bool,
) {
    if let Some(document) = executor.ledger().await {
        let (head, body) = responses::ledger_parts(document, head_only);
        // Both fail only if the peer has gone.
        if let Ok(mut stream) = respond.send_response(head, body.is_empty())
            && !body.is_empty()
        {
            let _ = stream.send_data(body, true);
        }
    }
}
