//! Profiles in pprof's format: protobuf, compressed by gzip.
//!
//! The messages are those of github.com/google/pprof's `profile.proto`, as far as used.

use std::collections::HashMap;
use std::io::{self, Read as _, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use prost::Message;

use crate::conditions::Conditions;
use crate::cost::{Cost, NotAProfile};
use crate::names::plain;
use crate::recording::Recording;

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// The innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    /// The name with the suffix that folded stacks have.
    #[prost(int64, tag = "3")]
    system_name: i64,
}

/// Values of each sample, with their units. Two profiles are compared by the last.
const VALUES: [(&str, &str); 3] =
    [("samples", "count"), ("cpu", "nanoseconds"), (PER_REQUEST, "picoseconds")];
const PER_REQUEST: &str = "cpu_per_request";
const THREAD: &str = "thread";

/// The strings of a profile, each once; the first is empty.
struct Strings {
    table: Vec<String>,
    places: HashMap<String, i64>,
}

impl Strings {
    fn place(&mut self, text: &str) -> i64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = whole(self.table.len() as u64);
        self.table.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

/// A count as the format has it.
fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Writes a recording with its cost per request.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write(recording: &Recording, cost: &Cost, writer: impl Write) -> io::Result<()> {
    let mut strings = Strings { table: Vec::new(), places: HashMap::new() };
    strings.place("");
    let value_type = |strings: &mut Strings, (kind, unit): (&str, &str)| ValueType {
        kind: strings.place(kind),
        unit: strings.place(unit),
    };
    let mut profile = Profile {
        sample_type: VALUES.map(|value| value_type(&mut strings, value)).to_vec(),
        period_type: Some(value_type(&mut strings, VALUES[1])),
        period: 1_000_000_000 / i64::from(recording.sampling.frequency.max(1)),
        duration_nanos: nanoseconds(recording.sampling.observed_s),
        default_sample_type: strings.place(VALUES[1].0),
        comment: [recording.described(), cost.conditions().line()]
            .map(|comment| strings.place(&comment))
            .to_vec(),
        ..Profile::default()
    };
    let thread_key = strings.place(THREAD);
    let mut places: HashMap<String, u64> = HashMap::new();
    let all = recording.stacks.samples() as f64;
    for ((stack, samples), (_, ps)) in std::iter::zip(recording.stacks.iter(), cost.iter()) {
        let (thread, frames) = stack.split_once(';').unwrap_or((stack, ""));
        let mut location_id = Vec::new();
        for frame in frames.rsplit(';') {
            let next = places.len() as u64 + 1;
            let id = *places.entry(frame.to_owned()).or_insert(next);
            if id == next {
                let (name, system_name) = (strings.place(plain(frame).0), strings.place(frame));
                profile.function.push(Function { id, name, system_name });
                profile.location.push(Location { id, line: vec![Line { function_id: id }] });
            }
            location_id.push(id);
        }
        let cpu_ns = nanoseconds(recording.sampling.cpu_s * samples as f64 / all);
        profile.sample.push(Sample {
            location_id,
            value: vec![whole(samples), cpu_ns, whole(ps)],
            label: vec![Label { key: thread_key, text: strings.place(thread) }],
        });
    }
    profile.string_table = strings.table;
    let mut compressed = GzEncoder::new(writer, Compression::default());
    compressed.write_all(&profile.encode_to_vec())?;
    compressed.finish().map(drop)
}

#[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
fn nanoseconds(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

/// More than any profile written here, unpacked.
const UNPACKED_MAX: u64 = 1 << 28;

/// The cost per request in a file.
///
/// # Errors
/// It isn't such a file.
pub(crate) fn read(bytes: &[u8]) -> Result<Cost, String> {
    let mut unpacked = Vec::new();
    let mut reader = GzDecoder::new(bytes).take(UNPACKED_MAX);
    reader.read_to_end(&mut unpacked).map_err(|error| format!("no gzip file ({error})"))?;
    let profile = Profile::decode(unpacked.as_slice());
    let profile = profile.map_err(|error| format!("no profile of pprof ({error})"))?;
    let text = |place: i64| {
        let place = usize::try_from(place).ok();
        place.and_then(|place| profile.string_table.get(place)).map(String::as_str)
    };
    let value = profile.sample_type.iter().position(|value| text(value.kind) == Some(PER_REQUEST));
    let value = value.ok_or_else(|| format!("a profile without `{PER_REQUEST}`"))?;
    let broken = || "a profile of pprof with a reference to nothing".to_owned();
    let functions: HashMap<u64, i64> =
        profile.function.iter().map(|function| (function.id, function.system_name)).collect();
    let frames: HashMap<u64, &str> = profile
        .location
        .iter()
        .map(|location| {
            let function = location.line.first().and_then(|line| functions.get(&line.function_id));
            Ok((location.id, function.and_then(|name| text(*name)).ok_or_else(broken)?))
        })
        .collect::<Result<_, String>>()?;
    let mut comments = profile.comment.iter().filter_map(|place| text(*place));
    let conditions = comments.find_map(Conditions::of_line);
    let conditions = conditions.ok_or_else(|| NotAProfile::of_others().to_string());
    let mut cost = Cost::none(conditions?);
    for sample in &profile.sample {
        let label = sample.label.iter().find(|label| text(label.key) == Some(THREAD));
        let mut stack = label.and_then(|label| text(label.text)).ok_or_else(broken)?.to_owned();
        for id in sample.location_id.iter().rev() {
            stack.push(';');
            stack.push_str(frames.get(id).ok_or_else(broken)?);
        }
        let ps = sample.value.get(value).and_then(|ps| u64::try_from(*ps).ok());
        cost.add(stack, ps.ok_or_else(broken)?);
    }
    Ok(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::tests::conditions;
    use crate::recording::tests::recording;
    use crate::stacks::Stacks;

    fn written(stacks: Stacks) -> (Cost, Vec<u8>) {
        let recording = Recording { stacks, ..recording() };
        let cost = Cost::new(&recording.stacks, &recording.profile(5_000.0), conditions(10));
        let mut bytes = Vec::new();
        write(&recording, &cost, &mut bytes).expect("written");
        (cost, bytes)
    }

    #[test]
    fn a_written_file_reads_back() {
        let (cost, bytes) = written(recording().stacks);
        assert_eq!(read(&bytes).expect("a profile"), cost);
    }

    #[test]
    fn pprof_can_read_the_file() {
        let (_, bytes) = written(recording().stacks);
        let mut unpacked = Vec::new();
        GzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked).expect("gzip");
        let profile = Profile::decode(unpacked.as_slice()).expect("a profile");
        let text = |place: i64| &*profile.string_table[usize::try_from(place).expect("a place")];
        assert_eq!(text(0), "");
        assert_eq!(text(profile.default_sample_type), "cpu");
        let names: Vec<_> =
            profile.function.iter().map(|it| (text(it.name), text(it.system_name))).collect();
        assert!(names.contains(&("send", "send_[k]")), "{names:?}");
        // 6 of 10 samples, of 2 s and of 200 µs per request; the innermost function comes first.
        let sample = &profile.sample[0];
        assert_eq!(sample.value, [6, 1_200_000_000, 120_000_000]);
        let first = &profile.location[usize::try_from(sample.location_id[0]).expect("an id") - 1];
        assert_eq!(first.line[0].function_id, 1);
        assert_eq!(names[0].0, "send");
    }

    #[test]
    fn a_broken_file_is_an_error() {
        let pack = |profile: &Profile| {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            packed.write_all(&profile.encode_to_vec()).expect("memory");
            packed.finish().expect("memory")
        };
        assert!(read(b"").expect_err("empty").contains("gzip"));
        assert!(read(&pack(&Profile::default())).expect_err("empty").contains(PER_REQUEST));
        let (_, bytes) = written(recording().stacks);
        let mut unpacked = Vec::new();
        GzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked).expect("gzip");
        let whole = Profile::decode(unpacked.as_slice()).expect("a profile");
        type Breaks = fn(&mut Profile);
        let mut foreign = whole.clone();
        foreign.comment.clear();
        assert!(read(&pack(&foreign)).expect_err("foreign").contains("doesn't say what"));
        let breaks: [Breaks; 6] = [
            |profile| profile.function.clear(),
            |profile| profile.location.clear(),
            |profile| profile.sample[0].value.truncate(2),
            |profile| profile.sample[0].value[2] = -1,
            |profile| profile.sample[0].label.clear(),
            |profile| profile.function[0].system_name = 1_000,
        ];
        for (at, breaks) in breaks.into_iter().enumerate() {
            let mut broken = whole.clone();
            breaks(&mut broken);
            assert!(read(&pack(&broken)).expect_err("broken").contains("nothing"), "{at}");
        }
    }
}
