//! Tests of the parser's work and memory, which need its private state.
//!
//! Work is counted in bytes read, not in time: a byte of a head may be read three times (in place,
//! on the way into the buffer, and when the head is complete), a byte of the chunked framing and of
//! the trailers once.

use super::{BUFFER_MIN, HEAD_MAX, INTERIM_MAX, KnownHead, Progress, ResponseParser, Violation};

/// How often a byte may be read.
const LOOKS_MAX: u64 = 3;

/// Feeds a stream in pieces to its end and checks the work and the memory.
fn check_work(stream: &[u8], piece: usize) -> Result<Progress, Violation> {
    let mut parser = ResponseParser::new();
    let mut last = Ok(Progress::NeedMore);
    for bytes in stream.chunks(piece) {
        last = parser.feed(false, bytes);
        if !matches!(last, Ok(Progress::NeedMore)) {
            break;
        }
    }
    let ended = matches!(last, Ok(Progress::NeedMore)).then(|| parser.finish());
    assert!(
        parser.looked_at <= LOOKS_MAX * stream.len() as u64,
        "{} looks at {} bytes in pieces of {piece}",
        parser.looked_at,
        stream.len()
    );
    assert!(parser.buffer_capacity() <= HEAD_MAX);
    match ended {
        Some(result) => result.map(Progress::Done),
        None => last,
    }
}

#[test]
fn a_million_chunks_of_one_byte_are_linear() {
    let mut stream = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..1_000_000 {
        stream.extend_from_slice(b"1\r\nx\r\n");
    }
    stream.extend_from_slice(b"0\r\n\r\n");
    for piece in [1, 7, 4096, stream.len()] {
        let Ok(Progress::Done(response)) = check_work(&stream, piece) else {
            panic!("a million chunks are a response");
        };
        assert_eq!(response.body_bytes, 1_000_000);
    }
}

#[test]
fn long_heads_and_trailers_are_linear_and_bounded() {
    let long_value = [b"HTTP/1.1 200 OK\r\nX: ", "a".repeat(2 * HEAD_MAX).as_bytes()].concat();
    let many_folds = [b"HTTP/1.1 200 OK\r\nX: a", "\r\n a".repeat(HEAD_MAX).as_bytes()].concat();
    let trailers = [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        "a".repeat(HEAD_MAX).as_bytes(),
    ]
    .concat();
    let unfinished = &long_value[..HEAD_MAX - 1];
    for piece in [1, 13, 4096, HEAD_MAX - 1, HEAD_MAX, HEAD_MAX + 1, 4 * HEAD_MAX] {
        assert_eq!(check_work(&long_value, piece), Err(Violation::HeadTooLarge));
        assert_eq!(check_work(&many_folds, piece), Err(Violation::HeadTooLarge));
        assert_eq!(check_work(&trailers, piece), Err(Violation::TrailersTooLarge));
        assert_eq!(check_work(unfinished, piece), Err(Violation::CutShort));
    }
}

#[test]
fn interim_responses_are_linear_and_bounded() {
    let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(INTERIM_MAX as usize);
    let allowed = [&interim[..], b"HTTP/1.1 204 \r\n\r\n"].concat();
    let refused = [&interim[..], b"HTTP/1.1 100 \r\n\r\n", b"HTTP/1.1 204 \r\n\r\n"].concat();
    for piece in [1, 10, 4096] {
        assert!(
            matches!(check_work(&allowed, piece), Ok(Progress::Done(done)) if done.status == 204)
        );
        assert_eq!(check_work(&refused, piece), Err(Violation::TooManyInterim));
    }
}

#[test]
fn whole_heads_and_short_ones_in_pieces_allocate_nothing() {
    let streams: [&[u8]; 4] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 304 Not Modified\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
    ];
    let mut parser = ResponseParser::new();
    for stream in streams {
        let result = parser.feed(false, stream).expect("a good response");
        if result == Progress::NeedMore {
            parser.finish().expect("the close ends it");
        }
    }
    parser.feed(false, b"HTTP/1.1 200 OK\r\nContent-").expect("a good beginning");
    parser.feed(false, b"Length: 0\r\n\r\n").expect("a good response");
    assert_eq!(parser.buffer_capacity(), BUFFER_MIN);
}

#[test]
fn a_body_is_never_read() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
    let stream = [&head[..], &vec![b'x'; 1_000_000]].concat();
    let mut parser = ResponseParser::new();
    let progress = parser.feed(false, &stream).expect("a good response");
    assert!(matches!(progress, Progress::Done(done) if done.consumed == stream.len()));
    assert_eq!(parser.looked_at, head.len() as u64);
}

#[test]
fn memory_is_kept_for_the_next_connection() {
    let mut parser = ResponseParser::new();
    let head = [b"HTTP/1.1 200 OK\r\nX: ", "a".repeat(3000).as_bytes()].concat();
    parser.feed(false, &head).expect("a good beginning");
    assert_eq!(parser.buffer_capacity(), 4096);
    assert!(!parser.is_idle());
    parser.reset();
    assert!(parser.is_idle());
    assert_eq!(parser.buffer_capacity(), 4096);
    assert_eq!(parser.finish(), Err(Violation::ClosedBeforeResponse));
}

#[test]
fn each_response_answers_a_request_of_its_own_method() {
    let (head, get) = (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"ok");
    let whole = [&head[..], get].concat();
    let mut known = KnownHead::default();
    let mut parser = ResponseParser::new();
    for head_request in [true, false, true, true, false, false] {
        let stream = if head_request { &head[..] } else { &whole };
        for known in [None, Some(&mut known)] {
            let progress = match known {
                None => parser.feed(head_request, stream),
                Some(known) => parser.feed_with(known, head_request, stream),
            };
            let Ok(Progress::Done(response)) = progress else { panic!("{progress:?}") };
            assert_eq!(response.consumed, stream.len(), "HEAD: {head_request}");
        }
        // In two pieces; only the second completes the head.
        let (first, last) = stream.split_at(20);
        assert_eq!(parser.feed(head_request, first), Ok(Progress::NeedMore));
        let progress = parser.feed(head_request, last);
        assert!(matches!(progress, Ok(Progress::Done(_))), "HEAD: {head_request}, {progress:?}");
    }
}
