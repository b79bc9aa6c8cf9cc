//! Properties for any bytes: no panic, the same result for every split, bounded memory.

use proptest::prelude::*;

use crate::harness;

/// Starts of responses; valid ones are repeated so that most streams get past them.
const STARTS: [&str; 12] = [
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 200 OK\n",
    "HTTP/1.0 404 Not Found\r\n",
    "HTTP/1.3 200 OK\r\n",
    "HTTP/1.1 204 \r\n",
    "HTTP/1.1 304\r\n",
    "HTTP/1.1 100 Continue\r\n",
    "HTTP/1.1 101 x\r\n",
    "HTTP/2 200\r\n",
    "\r\nHTTP/1.1 200 OK\r\n",
];

/// Header lines.
const FIELDS: [&str; 16] = [
    "Content-Length: 3\r\n",
    "Content-Length: 3\r\n",
    "Content-Length: 3,3\r\n",
    "Content-Length:\r\n 4\r\n",
    "Content-Length: 18446744073709551615\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "A: b\r\n",
    "A: b\n",
    "A: b\r\n folded\r\n",
    "A: b\rc\r\n",
    "A\0: b\r\n",
];

/// Pieces of bodies, plain and chunked.
const BODIES: [&str; 16] = [
    "abc",
    "abc",
    "abcd",
    "0\r\n\r\n",
    "0\r\n\r\n",
    "3\r\nabc\r\n0\r\n\r\n",
    "3\r\nabc\r\n0\r\n\r\n",
    "1\r\nx\r\n",
    "3;a=b\r\nabc\r\n",
    "a \r\n0123456789\r\n",
    "0\r\nA: b\r\n\r\n",
    "0\r\nA: b\n\n",
    "0\r\nno colon\r\n\r\n",
    "3\nabc\r\n",
    "ffffffffffffffff\r\n",
    "",
];

/// The stream of valid and broken responses determined by the choices.
fn responses(choices: &[u8]) -> Vec<u8> {
    let mut choices = choices.iter().copied().map(usize::from);
    let mut stream = String::new();
    while let Some(choice) = choices.next() {
        let mut pick = || choices.next().unwrap_or(0);
        stream.push_str(STARTS[choice % STARTS.len()]);
        for _ in 0..pick() % 4 {
            stream.push_str(FIELDS[pick() % FIELDS.len()]);
        }
        stream.push_str(if pick() % 8 == 0 { "\n" } else { "\r\n" });
        for _ in 0..pick() % 3 {
            stream.push_str(BODIES[pick() % BODIES.len()]);
        }
    }
    stream.into_bytes()
}

/// Any stream of responses.
fn joined() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40).prop_map(|choices| responses(&choices))
}

/// A stream of responses with some bytes overwritten.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
    (joined(), edits).prop_map(|(mut stream, edits)| {
        for (place, byte) in edits {
            if !stream.is_empty() {
                let at = place.index(stream.len());
                stream[at] = byte;
            }
        }
        stream
    })
}

/// Runs the fuzz harness on a stream with the given choice of method and split.
fn run(choice: u8, stream: &[u8]) {
    harness::run(&[&[choice], stream].concat());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_bytes(choice: u8, stream in prop::collection::vec(any::<u8>(), 0..512)) {
        run(choice, &stream);
    }

    #[test]
    fn random_fields(choice: u8, stream in prop::collection::vec(any::<u8>(), 0..512)) {
        run(choice, &[b"HTTP/1.1 200 OK\r\n", &stream[..]].concat());
    }

    #[test]
    fn random_chunks(choice: u8, stream in prop::collection::vec(any::<u8>(), 0..512)) {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        run(choice, &[head, &stream[..]].concat());
    }

    #[test]
    fn joined_responses(choice: u8, stream in joined()) {
        run(choice, &stream);
    }

    #[test]
    fn mutated_responses(choice: u8, stream in mutated()) {
        run(choice, &stream);
    }

    /// A body of any length and chunking is counted to the byte.
    #[test]
    fn any_chunking_counts_the_body(
        sizes in prop::collection::vec(1usize..300, 0..20),
        piece in 1usize..100,
    ) {
        let mut stream = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for size in &sizes {
            stream.extend_from_slice(format!("{size:x}\r\n{}\r\n", "0".repeat(*size)).as_bytes());
        }
        stream.extend_from_slice(b"0\r\n\r\n");
        let expected = format!("200 keep {} @{}; idle", sizes.iter().sum::<usize>(), stream.len());
        prop_assert_eq!(harness::transcript(false, stream.chunks(piece)), expected);
    }
}

/// Runs the fuzz harness on a fixed series of pseudo-random streams, and checks that they reach
/// every part of the parser: streams that all fail at their first bytes would prove nothing.
#[test]
fn the_fuzz_harness_reaches_everything() {
    // Marsaglia's xorshift64.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()
    };
    let mut transcripts = String::new();
    for _ in 0..10_000 {
        let choices = [next(), next(), next(), next()].concat();
        let stream = responses(&choices[..usize::from(next()[0] % 33)]);
        run(next()[0], &stream);
        transcripts.push_str(&harness::transcript(false, std::iter::once(&stream[..])));
        transcripts.push('\n');
    }
    for part in [
        "200 keep 3",
        "200 close 3",
        "404 close 0",
        "204 keep 0",
        "304 keep 0",
        "by close 200",
        "idle",
        "; 200 keep",
        "not_http",
        "version",
        "header_name",
        "header_value",
        "content_lengths_differ",
        "two_framings",
        "chunked_twice",
        "upgrade",
        "chunk_size",
        "chunk_end",
        "trailer",
        "cut_short",
    ] {
        assert!(transcripts.contains(part), "no stream gave {part:?}");
    }
}
