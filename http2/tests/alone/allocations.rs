//! Nothing is allocated for a request, nor for a response whose frames arrive in one piece.
#![allow(unsafe_code, reason = "a global allocator can't be written without it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use http2::client::Client;
use http2::event::Event;
use http2::request::{RequestSpec, Requests, Value};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged; counting touches an atomic only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(address, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A frame of a server.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// What a server sends as the answer on a stream: a literal that enters the table, text in the
/// Huffman code, data, trailers, and frames of the connection.
fn answer(stream: u32) -> Vec<u8> {
    let date = [
        0x61, 0x96, 0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04,
        0x0b, 0x81, 0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff,
    ];
    [
        frame(0x6, 0, 0, b"12345678"),
        frame(0x1, 0x4, stream, &[&[0x88][..], &date].concat()),
        frame(0x0, 0, stream, &[b'x'; 1_000]),
        frame(0x8, 0, 0, &[0, 0, 0, 9]),
        frame(0x0, 0x8, stream, b"\x02abc\0\0"),
        frame(0x1, 0x5, stream, &[0xbe]),
    ]
    .concat()
}

#[test]
fn nothing_is_allocated_for_a_request_and_its_response() {
    let spec = RequestSpec {
        method: "POST",
        scheme: "http",
        authority: Value::Constant("localhost"),
        path: Value::Varies,
        headers: &[("accept", Value::Constant("*/*"))],
    };
    let requests = Requests::render(&[spec]).expect("valid");
    let mut client = Client::new(16);
    client.receive(&frame(0x4, 0, 0, &[]));
    let answers: Vec<Vec<u8>> = (0..10_000).map(|number| answer(2 * number + 1)).collect();
    let mut out = Vec::with_capacity(4_096);

    let mut talk = |answer: &[u8], key: u64| {
        out.clear();
        client.begin(&requests, 0, &[b"/path"], 100, key, &mut out).expect("room");
        while let Some(part) = client.next_body_part(64) {
            out.extend_from_slice(&part.head);
        }
        let (taken, event) = client.receive(answer);
        assert_eq!(taken, answer.len());
        assert!(matches!(event, Event::Done(request, _) if request.key == key), "{event:?}");
        client.write(&mut out);
        // The window is widened by what was sent.
        client.receive(&[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 100]);
    };
    talk(&answers[0], 0);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for (key, answer) in (1..).zip(&answers[1..]) {
        talk(answer, key);
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before, "allocations of 9,999 requests");
    drop(Vec::<u8>::with_capacity(1));
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before + 1, "the counter counts");
}
