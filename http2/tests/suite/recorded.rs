//! What real servers sent, at every split.
//!
//! Each recording answers GET `/index.html` of six bytes, HEAD of the same, GET `/moved` or of the
//! same again, GET `/none`, and GET `/index.html`, on one connection with the default settings.

use http2::client::Client;
use http2::event::{Event, Response};
use http2::request::{RequestSpec, Requests, Value};

/// The bytes of a recording.
fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| {
        let pair: String = pair.iter().collect();
        u8::from_str_radix(&pair, 16).expect("hexadecimal")
    };
    digits.chunks(2).map(byte).collect()
}

/// The responses in what a server sent in these pieces: key, status, header and body bytes.
fn responses<'a>(fully: bool, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<(u64, u16, u64, u64)> {
    let spec = |method| RequestSpec {
        method,
        scheme: "http",
        authority: Value::Constant("localhost"),
        path: Value::Constant("/"),
        headers: &[],
    };
    let requests = Requests::render(&["GET", "HEAD"].map(spec)).expect("valid");
    let mut client = Client::new(5);
    if fully {
        client.decode_fully();
    }
    let mut responses = Vec::new();
    for piece in pieces {
        let mut rest = piece;
        loop {
            let (taken, event) = client.receive(rest);
            rest = &rest[taken..];
            match event {
                Event::NeedMore => break,
                Event::Settings => {
                    for (key, request) in (1..).zip([0, 1, 0, 0, 0]) {
                        let out = &mut Vec::new();
                        client.begin(&requests, request, &[], 0, key, out).expect("room");
                    }
                }
                Event::Done(request, response) => {
                    let Response { status, header_bytes, body_bytes, .. } = response;
                    responses.push((request.key, status, header_bytes, body_bytes));
                }
                Event::Head(..) | Event::Data { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    responses.sort_unstable();
    responses
}

/// Checks a recording in every split, and by both decoders.
fn check(hex: &str, expected: [(u64, u16, u64, u64); 5]) {
    let stream = bytes(hex);
    for fully in [false, true] {
        for length in 1..40 {
            assert_eq!(responses(fully, stream.chunks(length)), expected, "pieces of {length}");
        }
        for cut in 0..=stream.len() {
            let (left, right) = stream.split_at(cut);
            assert_eq!(responses(fully, [left, right].into_iter()), expected, "cut at {cut}");
        }
    }
}

#[test]
fn nginx() {
    check(include_str!("recorded/nginx.hex"), NGINX);
}

#[test]
fn nghttpd() {
    check(include_str!("recorded/nghttpd.hex"), NGHTTPD);
}

const NGINX: [(u64, u16, u64, u64); 5] =
    [(1, 200, 107, 6), (2, 200, 106, 0), (3, 302, 81, 145), (4, 404, 51, 153), (5, 200, 106, 6)];

const NGHTTPD: [(u64, u16, u64, u64); 5] =
    [(1, 200, 96, 6), (2, 200, 10, 0), (3, 200, 10, 6), (4, 404, 29, 148), (5, 200, 10, 6)];
