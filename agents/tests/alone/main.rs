//! The memory that a peer can make this side hold, counted by an allocator in a process of its own.
#![allow(unsafe_code, reason = "a global allocator can't be written without it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use agents::frame::{FrameReader, Kind};
use agents::versions::PROTOCOL;

struct Counting;

/// Bytes allocated now, and the most so far.
static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn grown(by: usize) {
    let held = HELD.fetch_add(by, Ordering::Relaxed) + by;
    MOST.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches atomics only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks exist while the bytes are moved.
        grown(size);
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.realloc(address, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory for a stream, per byte of it: an empty text in a list is three bytes of JSON,
/// and 24 in memory, twice while the list grows; of a document that is refused, two trees of values
/// come on top, to name the field.
const PER_BYTE_MAX: usize = 64;
/// The most on top of that: a list with all possible cores.
const ANY_MAX: usize = 1 << 20;

/// A frame with this payload, which claims to have `length` bytes.
fn frame(kind: Kind, length: usize, payload: &[u8]) -> Vec<u8> {
    let number = Kind::ALL.iter().position(|of| *of == kind).expect("a type");
    let mut bytes = [&b"TTAG"[..], &PROTOCOL.to_le_bytes()].concat();
    bytes.push(u8::try_from(number).expect("few types"));
    bytes.extend(u32::try_from(length).expect("32 bits").to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// A whole frame with this payload.
fn whole(kind: Kind, payload: &[u8]) -> Vec<u8> {
    frame(kind, payload.len(), payload)
}

/// Bytes as a payload has them, after their length.
fn counted(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("32 bits");
    [&[0xFC][..], &length.to_le_bytes(), bytes].concat()
}

/// The most memory held while a stream is read and decoded, and whether it could be.
fn most_held(stream: &[u8]) -> (usize, bool) {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let mut reader = FrameReader::default();
    reader.authenticate();
    let mut understood = false;
    for mut piece in stream.chunks(1_000) {
        while let Ok(Some(frame)) = reader.feed(&mut piece) {
            understood = frame.message().is_ok();
        }
    }
    (MOST.load(Ordering::Relaxed) - before, understood)
}

#[test]
fn no_stream_takes_more_memory_than_its_length_allows() {
    let huge = [0xFD, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F];
    // What precedes the number of agents, and the name of the first file.
    let kept = [&[20, 1, b'1', 6, 2, 18, 0xFD][..], &7_u64.to_le_bytes()].concat();
    let file = [8, 2, 5, 7, 0, 1];
    let prepare = |json: &str| {
        let payload = [&[8, 2, 5, 7, 0, 0][..], &counted(json.as_bytes())].concat();
        whole(Kind::Prepare, &payload)
    };
    let cores = vec!["0-65535"; 7_000].join(",");
    let headers = vec!["\"\""; 20_000].join(",");
    for (name, stream, is_message) in [
        ("16 MiB claimed", frame(Kind::Report, 16 << 20, &[16]), false),
        ("4 GiB claimed", frame(Kind::Report, u32::MAX as usize, &[16; 5_000]), false),
        ("bytes without end", whole(Kind::Part, &[&[10, 0, 0][..], &huge].concat()), false),
        ("files without end", whole(Kind::Prepare, &[&[8, 2, 5, 7, 0][..], &huge].concat()), false),
        ("a document without end", whole(Kind::Hello, &[&[4][..], &huge].concat()), false),
        ("a version without end", whole(Kind::Kept, &[&[20][..], &huge].concat()), false),
        ("a name without end", whole(Kind::Kept, &[&kept[..], &[1], &huge].concat()), false),
        ("a file's name without end", whole(Kind::Prepare, &[&file[..], &huge].concat()), false),
        ("samples", whole(Kind::Part, &[&[10, 0, 0][..], &counted(&[7; 200_000])].concat()), true),
        // Decoded, and then refused: a plan has all its fields.
        ("cores", prepare(&format!(r#"{{"cores": "{cores}"}}"#)), false),
        ("headers", prepare(&format!(r#"{{"headers": [{headers}]}}"#)), false),
        (
            "a deep document",
            whole(Kind::Hello, &[&[4][..], &counted(&[b'['; 60_000])].concat()),
            false,
        ),
    ] {
        let (held, understood) = most_held(&stream);
        assert!(held <= PER_BYTE_MAX * stream.len() + ANY_MAX, "{name}: {held} bytes");
        assert_eq!(understood, is_message, "{name}");
    }
    let (held, _) = most_held(&frame(Kind::Report, 16 << 20, &[16; 100_000]));
    assert!((100_000..300_000).contains(&held), "what is held is counted: {held}");
}
