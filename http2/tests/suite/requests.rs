//! What requests look like to a server.

use http2::client::Client;
use http2::hpack::full::Full;
use http2::request::{RequestError, RequestSpec, Requests, Value};

use crate::frames::{CONTINUATION, END_HEADERS, END_STREAM, HEADERS, ok, sent, settings};

const HOST: Value = Value::Constant("example.com");

fn spec<'a>(
    method: &'a str,
    path: Value<'a>,
    headers: &'a [(&'a str, Value<'a>)],
) -> RequestSpec<'a> {
    RequestSpec { method, scheme: "http", authority: HOST, path, headers }
}

/// A client and a server's decoder.
struct Both {
    client: Client,
    requests: Requests,
    server: Full,
    key: u64,
}

impl Both {
    /// The server has these settings.
    fn new(specs: &[RequestSpec], server: &[(u16, u32)]) -> Both {
        let requests = Requests::render(specs).expect("valid");
        let mut client = Client::new(100);
        client.receive(&settings(server));
        Both { client, requests, server: Full::new(), key: 0 }
    }

    /// Sends a request, and returns its block's length and its fields.
    fn send(&mut self, request: usize, values: &[&str]) -> (usize, Vec<String>) {
        let mut out = http2::client::PREFACE.to_vec();
        let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
        self.key += 1;
        let body_bytes = 0;
        let Both { client, requests, .. } = self;
        client.begin(requests, request, &values, body_bytes, self.key, &mut out).expect("room");
        let frames = sent(&out, HEADERS);
        let [(flags, _, block)] = frames.as_slice() else { panic!("one frame: {frames:?}") };
        assert_eq!(*flags, END_HEADERS | END_STREAM);
        let total: usize = values.iter().map(|value| value.len()).sum();
        assert!(block.len() <= requests.block_bytes_max(request, total));
        self.server.decode(block).expect("valid");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let line = |field: &http2::hpack::full::Field| {
            format!("{}: {}", text(&field.name), text(&field.value))
        };
        (block.len(), self.server.fields().iter().map(line).collect())
    }
}

const HEADERS_GIVEN: [(&str, Value); 3] = [
    ("User-Agent", Value::Constant("truetail")),
    ("x-token", Value::Constant("abcdef")),
    ("accept", Value::Constant("*/*")),
];

const FIELDS_SENT: [&str; 7] = [
    ":method: GET",
    ":scheme: http",
    ":authority: example.com",
    ":path: /search?q=1",
    "user-agent: truetail",
    "x-token: abcdef",
    "accept: */*",
];

#[test]
fn a_request_is_a_few_constant_bytes_after_the_first() {
    let path = Value::Constant("/search?q=1");
    let mut both = Both::new(&[spec("GET", path, &HEADERS_GIVEN)], &[]);
    let (first_bytes, fields) = both.send(0, &[]);
    assert_eq!(fields, FIELDS_SENT);
    assert!(40 < first_bytes, "{first_bytes}");
    for _ in 0..3 {
        assert_eq!(both.send(0, &[]), (7, FIELDS_SENT.map(str::to_owned).to_vec()));
    }
    // Nothing more enters the table.
    assert_eq!(both.server.table().count(), 5);
}

#[test]
fn requests_share_what_they_have_in_common_whichever_comes_first() {
    let specs = [
        spec("GET", Value::Constant("/a"), &HEADERS_GIVEN),
        spec("POST", Value::Constant("/b"), &HEADERS_GIVEN[..2]),
        spec("GET", Value::Varies, &[("x-token", Value::Constant("abcdef")), ("v", Value::Varies)]),
    ];
    let expected = |request: usize| -> Vec<&str> {
        match request {
            0 => vec![
                ":method: GET",
                ":scheme: http",
                ":authority: example.com",
                ":path: /a",
                "user-agent: truetail",
                "x-token: abcdef",
                "accept: */*",
            ],
            1 => vec![
                ":method: POST",
                ":scheme: http",
                ":authority: example.com",
                ":path: /b",
                "user-agent: truetail",
                "x-token: abcdef",
            ],
            _ => vec![
                ":method: GET",
                ":scheme: http",
                ":authority: example.com",
                ":path: /p",
                "x-token: abcdef",
                "v: w",
            ],
        }
    };
    for order in [[0, 1, 2, 0, 1, 2], [2, 1, 0, 2, 2, 1], [1, 1, 2, 0, 1, 0]] {
        let mut both = Both::new(&specs, &[]);
        for request in order {
            let values: &[&str] = if request == 2 { &["/p", "w"] } else { &[] };
            assert_eq!(both.send(request, values).1, expected(request), "{order:?}");
        }
        let table: Vec<_> = both.server.table().map(|field| field.name.clone()).collect();
        assert_eq!(table, [&b"x-token"[..], b":authority"], "what all have");
    }
}

#[test]
fn fields_in_different_orders_keep_theirs() {
    let (a, b) = (("a", Value::Constant("1")), ("b", Value::Constant("2")));
    let twice = [a, b, a];
    let turned = [b, a];
    let specs =
        [spec("GET", Value::Constant("/"), &twice), spec("GET", Value::Constant("/"), &turned)];
    for order in [[0, 1, 0, 1], [1, 0, 1, 0]] {
        let mut both = Both::new(&specs, &[]);
        for request in order {
            let expected: &[&str] =
                if request == 0 { &["a: 1", "b: 2", "a: 1"] } else { &["b: 2", "a: 1"] };
            assert_eq!(both.send(request, &[]).1[4..], *expected, "{order:?}");
        }
    }
}

#[test]
fn the_servers_table_is_obeyed() {
    let path = Value::Constant("/search?q=1");
    // The shared fields take 43 + 42 + ... bytes: none fits into 60, all into 300.
    for (table, later_bytes) in [(0, 63), (60, 63), (300, 7), (4_096, 7), (65_536, 7)] {
        let mut both = Both::new(&[spec("GET", path, &HEADERS_GIVEN)], &[(1, table)]);
        for place in 0..3 {
            let (bytes, fields) = both.send(0, &[]);
            assert_eq!(fields, FIELDS_SENT, "with a table of {table}");
            assert!(both.server.table_bytes() <= table as usize);
            let is_short = bytes <= 7;
            assert_eq!(is_short, later_bytes == 7 && 0 < place, "{table}: {bytes} bytes");
        }
    }
}

#[test]
fn a_table_that_shrinks_during_the_run_is_obeyed() {
    let path = Value::Constant("/search?q=1");
    let mut both = Both::new(&[spec("GET", path, &HEADERS_GIVEN)], &[]);
    both.send(0, &[]);
    assert_eq!(both.send(0, &[]).0, 7);
    both.client.receive(&settings(&[(1, 300)]));
    // Three bytes for the new limit, once.
    assert_eq!(both.send(0, &[]).0, 10);
    assert_eq!(both.send(0, &[]).0, 7);
    both.client.receive(&settings(&[(1, 0), (1, 4_096)]));
    for _ in 0..2 {
        let (bytes, fields) = both.send(0, &[]);
        assert_eq!(fields, FIELDS_SENT);
        assert!(40 < bytes, "{bytes}");
        assert_eq!(both.server.table_bytes(), 0);
    }
}

#[test]
fn fields_beyond_the_table_are_sent_as_text() {
    let (long, short) = ("l".repeat(3_000), "s".repeat(900));
    let headers = [
        ("cookie", Value::Constant(long.as_str())),
        ("x-b", Value::Constant(long.as_str())),
        ("x-c", Value::Constant(short.as_str())),
    ];
    let mut both = Both::new(&[spec("GET", Value::Constant("/"), &headers)], &[]);
    let fields = both.send(0, &[]).1;
    assert_eq!(both.send(0, &[]).1, fields);
    let table: Vec<_> = both.server.table().map(|field| field.name.clone()).collect();
    assert_eq!(table, [&b"x-c"[..], b"cookie", b":authority"]);
}

#[test]
fn a_long_block_leaves_in_several_frames() {
    let long = "\u{7f}".repeat(0) + &"{".repeat(40_000);
    let headers = [("x", Value::Constant(long.as_str()))];
    let requests = Requests::render(&[spec("GET", Value::Constant("/"), &headers)]).expect("valid");
    let mut client = Client::new(1);
    client.receive(&settings(&[]));
    let mut out = http2::client::PREFACE.to_vec();
    client.begin(&requests, 0, &[], 9, 1, &mut out).expect("room");
    let (first, rest) = (sent(&out, HEADERS), sent(&out, CONTINUATION));
    let shape = |frames: &[(u8, u32, Vec<u8>)]| -> Vec<(u8, u32, bool)> {
        frames
            .iter()
            .map(|(flags, stream, block)| (*flags, *stream, block.len() == 16_384))
            .collect()
    };
    assert_eq!(shape(&first), [(0, 1, true)]);
    assert_eq!(shape(&rest), [(0, 1, true), (END_HEADERS, 1, false)]);
    let block: Vec<u8> = first.into_iter().chain(rest).flat_map(|(_, _, block)| block).collect();
    let mut server = Full::new();
    server.decode(&block).expect("valid");
    assert_eq!(server.fields().last().map(|field| field.value.len()), Some(40_000));
    assert_eq!(client.receive(&ok(1)).0, 10);
}

#[test]
fn what_http2_cannot_carry_is_refused() {
    let check = |method: &str, headers: &[(&str, Value)], expected: RequestError| {
        let good = spec("GET", Value::Constant("/"), &[]);
        let result = Requests::render(&[good, spec(method, Value::Constant("/"), headers)]);
        assert_eq!(result.err(), Some((1, expected)));
    };
    let one = Value::Constant("1");
    check("G T", &[], RequestError::Method("G T".to_owned()));
    check("CONNECT", &[], RequestError::Connect);
    check("GET", &[("a b", one)], RequestError::HeaderName("a b".to_owned()));
    check("GET", &[("", one)], RequestError::HeaderName(String::new()));
    check("GET", &[(":path", one)], RequestError::HeaderName(":path".to_owned()));
    check("GET", &[("Host", one)], RequestError::Host);
    for name in ["Connection", "keep-alive", "Upgrade", "Transfer-Encoding", "Proxy-Connection"] {
        check("GET", &[(name, one)], RequestError::ConnectionField(name.to_owned()));
    }
    check("GET", &[("TE", one)], RequestError::ConnectionField("TE".to_owned()));
    for value in ["a\r\nb", "a\0", " a", "a\t"] {
        let value = Value::Constant(value);
        check("GET", &[("x", value)], RequestError::Value("x".to_owned()));
    }
    let te = [("te", Value::Constant("trailers"))];
    assert!(Requests::render(&[spec("GET", Value::Constant("/"), &te)]).is_ok());
}
