//! Invariants of a client for any bytes in any split, shared by the fuzz target and the tests.

use http2::client::Client;
use http2::event::{Event, Failure, Request};
use http2::request::{RequestSpec, Requests, Value};

/// The most memory that the buffers of a client may hold, bytes: a payload, a header block and
/// answers, each with the room that a growing buffer may have to spare.
const MEMORY_MAX: usize = 320 * 1024;

/// The length of the body of every third request, bytes.
const BODY_BYTES: u64 = 100_000;

/// What a client does with what it is sent.
pub(crate) struct Conversation {
    client: Client,
    requests: Requests,
    /// The events so far, a line each, without the ends of events that cover nothing.
    pub(crate) transcript: String,
    /// All bytes that it has sent.
    pub(crate) sent: Vec<u8>,
    next_key: u64,
    broken: bool,
}

impl Conversation {
    /// A client that keeps three requests open, once it knows the settings: GET, HEAD and POST in
    /// turn, with the keys 1, 2 and so on.
    pub(crate) fn new(fully: bool) -> Conversation {
        let spec = |method| RequestSpec {
            method,
            scheme: "http",
            authority: Value::Constant("localhost"),
            path: Value::Constant("/"),
            headers: &[],
        };
        let requests = Requests::render(&["GET", "HEAD", "POST"].map(spec)).expect("valid");
        let mut conversation = Conversation {
            client: Client::new(3),
            requests,
            transcript: String::new(),
            sent: Vec::new(),
            next_key: 1,
            broken: false,
        };
        if fully {
            conversation.client.decode_fully();
        }
        conversation.client.start(&mut conversation.sent);
        conversation
    }

    /// Receives bytes.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let (taken, event) = self.client.receive(rest);
            rest = &rest[taken..];
            assert!(self.client.memory_bytes() <= MEMORY_MAX, "memory is bounded");
            if self.broken {
                assert!(matches!(event, Event::Broken(_)), "an error is final");
                return;
            }
            if event == Event::NeedMore {
                assert!(rest.is_empty(), "all bytes are consumed");
                return;
            }
            if matches!(event, Event::Data { .. }) {
                // How many there are depends on the split.
                continue;
            }
            self.tell(event);
            self.send();
        }
    }

    /// The end of what the server sends.
    pub(crate) fn finish(&mut self) {
        self.client.finish();
        self.receive(&[]);
        if !self.broken {
            assert_eq!(self.client.open(), 0, "each request has ended");
        }
    }

    /// Notes an event.
    fn tell(&mut self, event: Event) {
        let Self { transcript, .. } = self;
        let line = match event {
            Event::NeedMore => unreachable!("nothing to tell"),
            Event::Settings => "settings".to_owned(),
            Event::Interim(Request { key, .. }, status) => format!("{key} interim {status}"),
            Event::Head(Request { key, .. }, status) => format!("{key} head {status}"),
            Event::Data { .. } => unreachable!("it isn't noted"),
            Event::Done(Request { key, .. }, response) => {
                assert!(200 <= response.status && 0 < response.frames);
                let http2::event::Response { status, body_bytes, .. } = response;
                format!("{key} {status} {body_bytes}")
            }
            Event::Failed(Request { key, .. }, Failure::Violation(violation)) => {
                format!("{key} {}", violation.code())
            }
            Event::Failed(Request { key, .. }, Failure::Reset(code)) => {
                format!("{key} reset {}", code.name())
            }
            Event::Refused(Request { key, .. }) => format!("{key} refused"),
            Event::GoAway { last_stream, code } => format!("goaway {last_stream} {}", code.name()),
            Event::Unserved(Request { key, .. }) => format!("{key} unserved"),
            Event::WindowOpened => "window".to_owned(),
            Event::Broken(violation) => {
                self.broken = true;
                format!("broken {}", violation.code())
            }
        };
        transcript.push_str(&line);
        transcript.push_str("; ");
    }

    /// Sends what may be sent.
    fn send(&mut self) {
        while self.client.room() != 0 {
            let request = usize::try_from(self.next_key - 1).expect("few") % 3;
            let body_bytes = if request == 2 { BODY_BYTES } else { 0 };
            let key = self.next_key;
            self.client
                .begin(&self.requests, request, &[], body_bytes, key, &mut self.sent)
                .expect("there is room");
            self.next_key += 1;
        }
        while let Some(part) = self.client.next_body_part(50_000) {
            assert!(part.at + u64::from(part.bytes) <= BODY_BYTES);
            assert_eq!(part.last, part.at + u64::from(part.bytes) == BODY_BYTES);
            self.sent.extend_from_slice(&part.head);
            self.sent.extend(std::iter::repeat_n(b'b', part.bytes as usize));
        }
        self.client.write(&mut self.sent);
        assert!(!self.client.wants_write());
    }
}

/// The transcript of what a server sends in these pieces, and the bytes that the client sent.
pub(crate) fn transcript<'a>(
    fully: bool,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (String, Vec<u8>) {
    let mut conversation = Conversation::new(fully);
    pieces.for_each(|piece| conversation.receive(piece));
    let before = conversation.transcript.len();
    conversation.finish();
    conversation.transcript.insert_str(before, "| ");
    (conversation.transcript, conversation.sent)
}

/// Checks one input: its first byte selects the split, the rest is the stream.
///
/// The stream must give the same transcript and the same answers in one piece, byte by byte and in
/// pieces of the selected size; so must a prefix of it. Decoding in full may only find more.
pub(crate) fn run(input: &[u8]) {
    let Some((&choice, stream)) = input.split_first() else { return };
    let length = usize::from(choice).max(2);
    let part = &stream[..stream.len() * usize::from(choice) / 256];
    for bytes in [stream, part] {
        let whole = transcript(false, std::iter::once(bytes));
        assert_eq!(transcript(false, bytes.chunks(1)), whole, "byte by byte");
        assert_eq!(transcript(false, bytes.chunks(length)), whole, "in pieces of {length}");
        let fully = transcript(true, std::iter::once(bytes)).0;
        if !fully.contains("field_value") {
            let heads = |line: &str| {
                line.split("; ").filter(|event| !event.contains("head ")).collect::<String>()
            };
            assert_eq!(heads(&fully), heads(&whole.0), "decoded in full");
        }
    }
}
