//! Properties for any bytes: no panic, the same events for every split, bounded memory.

use crate::conversation::run;
use crate::frames::*;
use crate::random_blocks::Random;

/// A seeded sequence of frames of all kinds, for the streams that a conversation has and for
/// others, most of them possible.
fn frames_of(random: &mut Random) -> Vec<u8> {
    let mut stream = if random.below(20) == 0 { Vec::new() } else { settings(&[]) };
    for _ in 0..random.below(24) {
        stream.extend(random_frame(random));
    }
    if random.below(4) == 0 && !stream.is_empty() {
        let place = random.below(stream.len());
        stream[place] ^= 1 << random.below(8);
    }
    stream
}

fn random_frame(random: &mut Random) -> Vec<u8> {
    let number = |random: &mut Random, limit: usize| {
        u32::try_from(random.below(limit)).expect("a small number")
    };
    let id = if random.below(30) == 0 { number(random, 20) } else { 2 * number(random, 4) + 1 };
    let end = if random.below(2) == 0 { END_STREAM } else { 0 };
    let statuses = ["200", "200", "204", "103", "500"];
    let status = statuses[random.below(statuses.len())];
    let lengths = ["0", "3", "5"];
    let length = lengths[random.below(lengths.len())];
    match random.below(20) {
        0..4 => headers(end, id, &[(":status", status)]),
        4 => headers(end, id, &[(":status", status), ("content-length", length)]),
        5 => frame(HEADERS, END_HEADERS | end, id, [0x88, 0x40, 1, b'x', 1, b'y']),
        6 => frame(HEADERS, END_HEADERS | end, id, [0x88, 0xbe]),
        7 => [
            frame(HEADERS, end, id, [0x88]),
            frame(CONTINUATION, END_HEADERS, id, [0x00, 1, b'x', 1, b'y']),
        ]
        .concat(),
        8..12 => data(end, id, "abc"),
        12 => data(end | PADDED, id, "\x02abc\0\0"),
        13 => data(0, id, vec![0; random.below(400)]),
        14 => headers(END_STREAM, id, &[("trailer", "x")]),
        15 => window_update(if end == 0 { id } else { 0 }, 1 + number(random, 50_000)),
        16 => settings(&[(4, number(random, 100_000)), (3, number(random, 4))]),
        17 => frame(PING, 0, 0, [0; 8]),
        18 => reset(id, number(random, 14)),
        _ if random.below(4) == 0 => go_away(id, number(random, 3)),
        _ => {
            frame(u8::try_from(random.below(12)).expect("small"), 0, id, vec![0; random.below(12)])
        }
    }
}

#[test]
fn any_frames_give_the_same_events_at_every_split() {
    let mut random = Random(4);
    let mut input = Vec::new();
    for _ in 0..6_000 {
        input.clear();
        input.push(u8::try_from(random.below(256)).expect("a byte"));
        input.extend(frames_of(&mut random));
        run(&input);
    }
}

#[test]
fn any_bytes_give_the_same_events_at_every_split() {
    let mut random = Random(5);
    for _ in 0..2_000 {
        let length = random.below(60);
        let bytes = (0..length).map(|_| u8::try_from(random.below(256)).expect("a byte"));
        let input: Vec<u8> = [7].into_iter().chain(settings(&[])).chain(bytes).collect();
        run(&input);
    }
}
