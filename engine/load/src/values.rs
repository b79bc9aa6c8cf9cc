//! The bytes of requests with fields, as a function of seed and number: any shard or agent that has
//! a request's number makes the same bytes.
//!
//! Each field takes a hash of the seed, the request's number and its own position, so that two of a
//! kind are drawn independently. All columns of one file come from one row, which follows from
//! seed, number and the file's position among the plan's.

use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

use plan::data::{Data, Pick, Table};
use plan::template::{COOKIE, Escape, LENGTH_DIGITS, Part, Template, UrlEscape, Value, hex};
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Zipf};
use rand_xoshiro::SplitMix64;

use super::carried::Carried;
use super::cookies::Full;
use super::schedule::mix;

/// Gives fields random values independent of the schedule's.
const FIELD_SEED: u64 = 0x6669_656c_6400_0000;
/// Gives rows random values independent of the fields'.
const ROW_SEED: u64 = 0x726f_7700_0000_0000;
/// Gives trace ids random values independent of all others.
const TRACE_SEED: u64 = 0x7472_6163_6500_0000;

/// A request of which some bytes follow from its number.
#[derive(Clone, Debug)]
pub struct Rendering {
    bytes: Vec<u8>,
    pieces: Vec<Piece>,
    trace: u64,
    site: Site,
    longest: usize,
}

/// Where requests with cookies go, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The host, without port.
    pub host: String,
    /// True with TLS.
    pub secure: bool,
    /// True if a header without a value keeps its line, and the protocol leaves it out.
    pub keeps_lines: bool,
}

/// A part of a request.
#[derive(Clone, Debug)]
enum Piece {
    Bytes(Range<usize>),
    Seq,
    /// A number from `low` on, of `count` in all.
    Rand {
        low: i64,
        count: u128,
    },
    Zipf {
        ranks: Zipf<f64>,
        most: u32,
    },
    Uuid,
    Column {
        rows: Rows,
        column: usize,
        escape: Escape,
    },
    TraceId,
    ParentId,
    Captured {
        place: usize,
        escape: Escape,
    },
    Cookies,
    BodyLength,
}

/// The rows of a file that requests take.
#[derive(Clone, Debug)]
struct Rows {
    table: Arc<Table>,
    count: u64,
    pick: RowPick,
    seed: u64,
}

#[derive(Clone, Debug)]
enum RowPick {
    ByNumber,
    AtRandom,
    Zipf(Zipf<f64>),
}

impl Rendering {
    /// The requests of a template that takes its rows from `data`, and that go to this site;
    /// `trace` is the plan's.
    pub fn new(template: &Template, data: &[Data], trace: Option<u64>, site: Site) -> Rendering {
        let piece = |part: &Part| match part {
            Part::Bytes(bytes) => Piece::Bytes(bytes.clone()),
            Part::BodyLength => Piece::BodyLength,
            Part::Field(field) => match field.value {
                Value::Seq => Piece::Seq,
                Value::Rand { low, high } => {
                    let count = i128::from(high) - i128::from(low) + 1;
                    Piece::Rand { low, count: count.unsigned_abs() }
                }
                Value::Zipf { exponent, most } => {
                    Piece::Zipf { ranks: ranks(most, exponent), most }
                }
                Value::Uuid => Piece::Uuid,
                Value::Column { data: at, column } => {
                    Piece::Column { rows: Rows::new(at, &data[at]), column, escape: field.escape }
                }
                Value::TraceId => Piece::TraceId,
                Value::ParentId => Piece::ParentId,
                Value::Captured(place) => Piece::Captured { place, escape: field.escape },
                Value::Cookies => Piece::Cookies,
            },
        };
        Rendering {
            bytes: template.bytes().to_vec(),
            pieces: template.parts().iter().map(piece).collect(),
            trace: trace.unwrap_or(0),
            site,
            longest: template.longest(),
        }
    }

    /// Writes the request with this number to `out`, from its start, with what its session carries.
    /// If `out` has room for the longest one, nothing is allocated.
    pub fn render(&self, seed: u64, number: u64, carried: Option<&Carried>, out: &mut Vec<u8>) {
        out.clear();
        let mut length_at = None;
        let mut leaves_line = false;
        for (position, piece) in (0_u64..).zip(&self.pieces) {
            let value = || hash(seed ^ FIELD_SEED, position, number);
            match piece {
                Piece::Bytes(bytes) => {
                    let ended = if leaves_line { LINE_END.len() } else { 0 };
                    out.extend_from_slice(&self.bytes[bytes.start + ended..bytes.end]);
                    leaves_line = false;
                }
                Piece::Seq => decimal(number, out),
                Piece::Rand { low, count } => {
                    let above = (u128::from(value()) * count) >> 64;
                    let above = u64::try_from(above).expect("below the count");
                    write!(out, "{}", low.wrapping_add_unsigned(above)).expect("memory");
                }
                Piece::Zipf { ranks, most } => decimal(rank(ranks, value(), (*most).into()), out),
                Piece::Uuid => uuid(value(), out),
                Piece::Column { rows, column, escape } => {
                    let text = rows.table.value(rows.row(seed, number), *column);
                    escape.write(text.as_bytes(), out);
                }
                Piece::TraceId => {
                    trace_id(seed, self.trace, number).iter().for_each(|byte| digits(*byte, out))
                }
                Piece::ParentId => {
                    let id = hash(run_key(seed, self.trace), 1, number).max(1);
                    id.to_be_bytes().iter().for_each(|byte| digits(*byte, out));
                }
                Piece::Captured { place, escape } => {
                    let value = carried.and_then(|carried| carried.value(*place));
                    write_captured(value.unwrap_or_default(), *escape, out);
                }
                Piece::Cookies => {
                    let Site { host, secure, keeps_lines } = &self.site;
                    let is_any = carried.is_some_and(|carried| {
                        carried.cookies.write(host, path(out), *secure, out)
                    });
                    if !is_any && !keeps_lines {
                        out.truncate(out.len() - COOKIE.len() - ": ".len());
                        leaves_line = true;
                    }
                }
                Piece::BodyLength => {
                    length_at = Some(out.len());
                    out.extend_from_slice(&[b' '; LENGTH_DIGITS]);
                }
            }
        }
        if let Some(at) = length_at {
            put_length(out, at);
        }
        debug_assert!(out.len() <= self.longest, "values are bounded by how they are written");
    }
}

impl Rendering {
    /// The path of the request with this seed and number, without its query; `room` is memory to
    /// render it into.
    pub fn path(
        &self,
        (seed, number): (u64, u64),
        carried: Option<&Carried>,
        room: &mut Vec<u8>,
    ) -> Vec<u8> {
        self.render(seed, number, carried, room);
        room[path(room)].to_vec()
    }

    /// Keeps the cookies of a response, the values of its `Set-Cookie` headers, which came at this
    /// time. `room` is memory to render the request into.
    ///
    /// # Errors
    /// They are too many or too long.
    pub fn keep_cookies<'a>(
        &self,
        (seed, number): (u64, u64),
        lines: impl Iterator<Item = &'a [u8]>,
        now_s: i64,
        carried: &mut Carried,
        room: &mut Vec<u8>,
    ) -> Result<(), Full> {
        let mut lines = lines.peekable();
        if lines.peek().is_none() {
            return Ok(());
        }
        self.render(seed, number, Some(carried), room);
        let (Site { host, secure, .. }, path) = (&self.site, &room[path(room)]);
        lines.try_for_each(|line| carried.cookies.set(line, host, path, *secure, now_s))
    }
}

const LINE_END: &str = "\r\n";

/// Where the path of a request stands, without its query.
fn path(request: &[u8]) -> Range<usize> {
    let from = request.iter().position(|byte| *byte == b' ').map_or(0, |at| at + 1);
    let is_end = |byte: &u8| matches!(byte, b' ' | b'?');
    let length = request[from..].iter().position(is_end).unwrap_or(0);
    from..from + length
}

/// Writes a captured value. In a URL, one that begins with a slash continues a path that ends with
/// one.
fn write_captured(value: &[u8], escape: Escape, out: &mut Vec<u8>) {
    let is_path = escape.url == UrlEscape::Raw && out.ends_with(b"/");
    let value = value.strip_prefix(b"/").filter(|_| is_path).unwrap_or(value);
    escape.write(value, out);
}

/// Puts the length of the body, which follows the head's end, where room was left for it.
fn put_length(out: &mut Vec<u8>, at: usize) {
    let end = out[at..].windows(4).position(|window| window == b"\r\n\r\n");
    let mut length = out.len() - (at + end.expect("a head has an end") + 4);
    let mut digit = at + LENGTH_DIGITS;
    while digit == at + LENGTH_DIGITS || 0 < length {
        digit -= 1;
        out[digit] = b'0' + u8::try_from(length % 10).expect("a digit");
        length /= 10;
    }
    out.drain(at..digit);
}

/// The trace id of the request with this number, in a run with this seed and plan's `trace`. Its
/// first half is the run's.
pub fn trace_id(seed: u64, trace: u64, number: u64) -> [u8; 16] {
    let key = run_key(seed, trace);
    let id = u128::from(key.max(1)) << 64 | u128::from(hash(key, 0, number));
    id.to_be_bytes()
}

fn run_key(seed: u64, trace: u64) -> u64 {
    mix(trace ^ mix(seed ^ TRACE_SEED))
}

/// A random value for a purpose and a number.
#[inline]
fn hash(seed: u64, purpose: u64, number: u64) -> u64 {
    mix(number ^ mix(seed ^ purpose))
}

/// The distribution of the numbers from 1 to `most`.
fn ranks(most: u32, exponent: f64) -> Zipf<f64> {
    Zipf::new(most.into(), exponent).expect("the plan checks both")
}

/// A number from 1 to `most`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank is a whole number, and the cast saturates"
)]
fn rank(ranks: &Zipf<f64>, value: u64, most: u64) -> u64 {
    (ranks.sample(&mut SplitMix64::seed_from_u64(value)) as u64).clamp(1, most)
}

impl Rows {
    fn new(at: usize, data: &Data) -> Rows {
        let rows = u32::try_from(data.table.rows()).expect("a GiB has fewer rows");
        let pick = match data.of.pick {
            Pick::ByNumber => RowPick::ByNumber,
            Pick::AtRandom => RowPick::AtRandom,
            Pick::Zipf(exponent) => RowPick::Zipf(ranks(rows, exponent)),
        };
        Rows { table: data.table.clone(), count: rows.into(), pick, seed: ROW_SEED ^ at as u64 }
    }

    /// The row of the request with this number.
    #[inline]
    fn row(&self, seed: u64, number: u64) -> u64 {
        let value = || hash(seed, self.seed, number);
        match &self.pick {
            RowPick::ByNumber => number % self.count,
            RowPick::AtRandom => {
                let row = (u128::from(value()) * u128::from(self.count)) >> 64;
                u64::try_from(row).expect("below the number of rows")
            }
            RowPick::Zipf(ranks) => rank(ranks, value(), self.count) - 1,
        }
    }
}

fn decimal(number: u64, out: &mut Vec<u8>) {
    write!(out, "{number}").expect("memory");
}

/// Writes a byte as two hexadecimal digits.
#[inline]
fn digits(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[hex(byte >> 4), hex(byte)]);
}

/// Writes a UUID of version 4 (RFC 9562): another one for each value.
fn uuid(value: u64, out: &mut Vec<u8>) {
    let mut bytes = (u128::from(value) << 64 | u128::from(mix(value))).to_be_bytes();
    bytes[6] = 0x40 | bytes[6] & 0x0f;
    bytes[8] = 0x80 | bytes[8] & 0x3f;
    for (at, byte) in bytes.into_iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            out.push(b'-');
        }
        digits(byte, out);
    }
}

#[cfg(test)]
mod tests {
    use plan::Plan;
    use plan::template::{Compiled, Scope};

    use super::*;

    /// The bodies of the first requests with this body.
    fn bodies(seed: u64, body: &str, data: &[Data], requests: u64) -> Vec<String> {
        let body = Some(body.to_owned());
        let plan = Plan { target: "http://h/".to_owned(), body, trace: Some(7), ..Plan::default() };
        let scope = Scope { data, ..Scope::default() };
        let compiled = Compiled::new(&plan, scope).expect("fields").expect("some");
        let head = b"POST / HTTP/1.1\r\nContent-Length: 1\r\ntraceparent: {{0}}{{1}}\r\n\r\n";
        let template = compiled.template(head, b"", data).expect("it is short");
        let rendering = Rendering::new(&template, data, plan.trace, Site::default());
        let mut out = Vec::with_capacity(template.longest());
        let body = |number| {
            rendering.render(seed, number, None, &mut out);
            assert!(out.len() <= template.longest() && out.capacity() == template.longest());
            let text = String::from_utf8(out.clone()).expect("text");
            let (head, body) = text.split_once("\r\n\r\n").expect("a head");
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
            body.to_owned()
        };
        (0..requests).map(body).collect()
    }

    fn table(text: &str, options: &str) -> Data {
        let of = format!("t.csv{options}").parse().expect("a data file");
        let table = Table::read("t", text.as_bytes()).expect("a table").into();
        Data { name: "t".to_owned(), of, table, is_encoded: false }
    }

    /// A changed byte changes what every plan with this seed sends.
    #[test]
    fn values_are_these_for_this_seed() {
        let body = "{{seq}} {{rand -5 5}} {{rand 1 1000000}} {{zipf 1.1 1000}} {{uuid}}";
        let first = "0 1 550570 1 3bea7f54-e262-418e-a38b-c03b5d183d88";
        let second = "1 1 855965 5 db8c23f5-df7b-4cb6-8260-46a644ef8f39";
        assert_eq!(bodies(1, body, &[], 2), [first, second]);
        let [first, second] = [
            "0b39357feb6bac9060906cef6a60d574 b23f4807a3d6be8c",
            "0b39357feb6bac909e918ecc2edec2c8 c0dd5f83c7882deb",
        ];
        assert_eq!(bodies(1, "{{trace_id}} {{parent_id}}", &[], 2), [first, second]);
    }

    #[test]
    fn two_fields_of_a_kind_differ_and_columns_share_their_row() {
        for pair in bodies(1, "{{rand 1 1000000}} {{rand 1 1000000}}", &[], 100) {
            let (one, other) = pair.split_once(' ').expect("two");
            assert_ne!(one, other);
        }
        let rows: String = (0..50).map(|row| format!("{row},{row}\n")).collect();
        for options in ["", ",random", ",zipf=1"] {
            let data = [table(&format!("a,b\n{rows}"), options)];
            for pair in bodies(1, "{{t.a}} {{t.b}}", &data, 100) {
                let (one, other) = pair.split_once(' ').expect("two");
                assert_eq!(one, other, "{options}");
            }
        }
    }

    #[test]
    fn rows_are_taken_by_number_and_again() {
        let data = [table("a\nx\n\"y, \"\"\"\nz\n", ",stop")];
        assert_eq!(bodies(1, "{{t.a}}", &data, 5), ["x", "y, \"", "z", "x", "y, \""]);
        assert_eq!(bodies(9, "{{json:t.a}}", &data, 2), ["x", "y, \\\""]);
    }

    #[test]
    fn random_values_are_spread_as_asked() {
        let mut counts = [0_u32; 4];
        for value in bodies(3, "{{rand -1 2}}", &[], 40_000) {
            counts[usize::try_from(value.parse::<i8>().expect("a number") + 1).expect("0 to 3")] +=
                1;
        }
        // Five standard deviations of a binomial count.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 433), "{counts:?}");
        let rows = "a\n1\n2\n3\n4\n";
        for (of, data) in [("{{zipf 1 4}}", vec![]), ("{{t.a}}", vec![table(rows, ",zipf=1")])] {
            let mut counts = [0_u32; 4];
            for value in bodies(3, of, &data, 25_000) {
                counts[value.parse::<usize>().expect("a number") - 1] += 1;
            }
            for (count, expected) in counts.into_iter().zip([12_000_u32, 6_000, 4_000, 3_000]) {
                assert!(count.abs_diff(expected) < 400, "{of}: {counts:?}");
            }
        }
        for value in bodies(3, "{{t.a}}", &[table(rows, ",random")], 40_000) {
            counts[value.parse::<usize>().expect("a number") - 1] += 1;
        }
        assert!(counts.iter().all(|count| count.abs_diff(20_000) < 866), "{counts:?}");
    }

    #[test]
    fn a_range_may_have_all_numbers_of_64_bits() {
        let body = format!("{{{{rand {} {}}}}}", i64::MIN, i64::MAX);
        let values: Vec<i64> =
            bodies(1, &body, &[], 100).iter().map(|value| value.parse().expect(value)).collect();
        assert!(values.iter().any(|value| *value < 0) && values.iter().any(|value| 0 < *value));
        assert_eq!(bodies(1, "{{rand 7 7}}", &[], 2), ["7", "7"]);
    }
}
