//! The HdrHistogram interval log of a run: one entry tagged `corrected` per interval of the window,
//! and one each tagged `naive`, `receive_lateness` and, for a sample, `send_path` for the whole
//! window. Each part, a step in a stage, has two for its part of the window, tagged
//! `corrected/NAME/STAGE` and `naive/NAME/STAGE`, without what there is only one of; the sessions of
//! a scenario have one for the whole window, tagged `session/NAME`. Spaces and commas, which a tag
//! can't have, are percent-encoded.
//!
//! `HistogramLogProcessor` and the other standard tools read it: version 1.3, values in ns. Its
//! column of maxima is in milliseconds, as those tools write it; they take the values from the
//! histograms. They add up the entries of one tag, so intervals and the whole must not share one.
//! In an interval, a value above 60 s counts as 60 s.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use engine::plan::Plan;
use engine::report::merge::Measured;
use engine::report::{HistogramError, ScenarioPart, StepPart};
use engine::run::Finished;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::text::figures::things;

/// The unit of the column of maxima, ns: a millisecond, the default of the standard tools.
const MAX_VALUE_DIVISOR_NS: f64 = 1e6;

/// What a tag can't have, and the sign that stands for it.
const NOT_IN_TAGS: &AsciiSet = &CONTROLS.add(b' ').add(b',').add(b'%');

/// One line of the log.
struct Entry {
    /// The tag, without spaces and commas.
    tag: String,
    /// Start of its interval, from the start time of the log.
    begin: Duration,
    /// Length of its interval.
    length: Duration,
    /// The values within the range.
    histogram: Histogram<u64>,
    /// The number of values above the range.
    overflow: u64,
}

/// The entries of a run whose window began `begin` after its start and lasted `length`.
fn entries(measured: &Measured, begin: Duration, length: Duration) -> Vec<Entry> {
    let sampled = Some(("send_path", &measured.send_path)).filter(|(_, of)| 0 < of.count());
    let whole = [("naive", &measured.naive), ("receive_lateness", &measured.receive_lateness)];
    let whole = whole.into_iter().chain(sampled).map(|(tag, of)| Entry {
        tag: tag.to_owned(),
        begin,
        length,
        histogram: of.histogram(),
        overflow: of.overflow(),
    });
    let interval = Duration::from_nanos(measured.series.interval_ns());
    let intervals = (0_u32..).zip(measured.series.slots()).map(|(at, slot)| Entry {
        tag: "corrected".to_owned(),
        begin: begin + interval * at,
        // The window may end within its last interval.
        length: interval.min(length.saturating_sub(interval * at)),
        histogram: slot.latency.histogram(),
        overflow: 0,
    });
    whole.chain(intervals).collect()
}

/// The entries of the parts of a window that began `begin` after the start of the run and lasted
/// `length`.
///
/// # Errors
/// A histogram can't be read.
fn of_parts(
    parts: &[StepPart],
    begin: Duration,
    length: Duration,
) -> Result<Vec<Entry>, HistogramError> {
    let mut entries = Vec::new();
    for part in parts {
        let (start, length) = part.stage.as_ref().map_or((Duration::ZERO, length), |stage| {
            let start = Duration::from_secs_f64(stage.start);
            // The run may have ended within it.
            (start, length.saturating_sub(start).min(Duration::from_secs_f64(stage.duration)))
        });
        let name = utf8_percent_encode(&part.name, NOT_IN_TAGS);
        let stage = part.stage.as_ref().map_or(String::new(), |stage| {
            format!("/{}", utf8_percent_encode(&stage.label(), NOT_IN_TAGS))
        });
        for (kind, of) in [("corrected", &part.corrected), ("naive", &part.naive)] {
            entries.push(Entry {
                tag: format!("{kind}/{name}{stage}"),
                begin: begin + start,
                length,
                histogram: of.decode_histogram()?,
                overflow: of.overflow,
            });
        }
    }
    Ok(entries)
}

/// The entries of the sessions of a window that began `begin` after the start of the run and lasted
/// `length`.
///
/// # Errors
/// A histogram can't be read.
fn of_sessions(
    scenarios: &[ScenarioPart],
    begin: Duration,
    length: Duration,
) -> Result<Vec<Entry>, HistogramError> {
    let entry = |ScenarioPart { name, latency, .. }: &ScenarioPart| {
        Ok(Entry {
            tag: format!("session/{}", utf8_percent_encode(name, NOT_IN_TAGS)),
            begin,
            length,
            histogram: latency.decode_histogram()?,
            overflow: latency.overflow,
        })
    };
    scenarios.iter().map(entry).collect()
}

/// Writes the log of a run that began at this time.
///
/// # Errors
/// Those of the writer.
pub(crate) fn of_run(finished: &Finished, began: SystemTime, writer: impl Write) -> io::Result<()> {
    let config = &finished.report.config;
    let (begin, length) = window(&config.plan, config.schedule_until);
    let mut entries = entries(&finished.measured, begin, length);
    let whole = &finished.report.whole;
    entries.extend(of_parts(&whole.parts, begin, length).map_err(io::Error::other)?);
    entries.extend(of_sessions(&whole.scenarios, begin, length).map_err(io::Error::other)?);
    write(writer, began, &entries)
}

/// The start of the recorded window, from the start of the run, and its length.
fn window(plan: &Plan, schedule_until_s: f64) -> (Duration, Duration) {
    let begin = plan.warmup.as_duration();
    let until = Duration::from_secs_f64(schedule_until_s);
    (begin, until.saturating_sub(begin))
}

fn write(mut writer: impl Write, start: SystemTime, entries: &[Entry]) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(concat!(
            "[Logged with truetail ",
            env!("CARGO_PKG_VERSION"),
            ", values in ns]"
        ))
        .with_start_time(start)
        .with_max_value_divisor(MAX_VALUE_DIVISOR_NS)
        .begin_log_with(&mut writer, &mut serializer)?;
    for entry in entries {
        let tag = Tag::new(&entry.tag).expect("a tag has no spaces and commas");
        log.write_histogram(&entry.histogram, entry.begin, entry.length, Some(tag))
            .map_err(|error| io::Error::other(error.to_string()))?;
        if 0 < entry.overflow {
            let above = things(entry.overflow, "value");
            log.write_comment(&format!("[{}: {above} above 60 s]", entry.tag))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::UNIX_EPOCH;

    use base64::Engine as _;
    use engine::record::outcome::Outcome;
    use engine::record::series::Series;
    use engine::stats::distribution::Distribution;
    use engine::sys::units::Nanos;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::text::reports::{sessions, two_by_two};

    /// Two intervals and a half: 99 requests of 1 ms in the first, one of 250 ms in the last.
    fn log() -> String {
        let mut naive = Distribution::new();
        naive.record_n(1_000_000, 99);
        naive.record(250_000_000);
        naive.record(100_000_000_000);
        let mut series = Series::new();
        for _ in 0..99 {
            series.ended(0, 1_000_000, Outcome::Answered(200), None);
        }
        series.ended(2 * series.interval_ns(), 250_000_000, Outcome::Answered(200), None);
        let mut receive_lateness = Distribution::new();
        receive_lateness.record_n(20_000, 99);
        let mut send_path = Distribution::new();
        send_path.record(5_000);
        let corrected = naive.clone();
        let measured = Measured { naive, corrected, send_path, receive_lateness, series };
        let (begin, length) = (Duration::from_millis(1_500), Duration::from_micros(312_500));
        let mut bytes = Vec::new();
        let start = UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        let entries = entries(&measured, begin, length);
        write(&mut bytes, start, &entries).expect("writing to memory succeeds");
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn the_window_begins_after_the_warm_up_and_ends_where_the_schedule_did() {
        let plan = Plan { warmup: Nanos::from_secs(5), ..Plan::default() };
        assert_eq!(window(&plan, 8.5), (Duration::from_secs(5), Duration::from_millis(3_500)));
        assert_eq!(window(&plan, 3.0), (Duration::from_secs(5), Duration::ZERO));
    }

    #[test]
    fn the_log_has_the_standard_tools_keywords() {
        let log = log();
        let shown: Vec<&str> =
            log.lines().map(|line| line.split(",HIST").next().expect("a part")).collect();
        insta::assert_snapshot!(shown.join("\n"), @r"
        #[Histogram log format version 1.3]
        #[Logged with truetail 0.1.0, values in ns]
        #[StartTime: 1700000000.250 (seconds since epoch)]
        #[MaxValueDivisor: 1000000.000]
        Tag=naive,1.500,0.312,250.085
        #[naive: 1 value above 60 s]
        Tag=receive_lateness,1.500,0.312,0.020
        Tag=send_path,1.500,0.312,0.005
        Tag=corrected,1.500,0.125,1.004
        Tag=corrected,1.625,0.125,0.000
        Tag=corrected,1.750,0.062,250.610
        ");
    }

    #[test]
    fn a_part_has_a_tag_of_its_own_and_its_stages_time() {
        let report = two_by_two();
        let (begin, length) = (Duration::from_secs(5), Duration::from_secs(25));
        let entries = of_parts(&report.whole.parts, begin, length).expect("histograms");
        let shown: Vec<String> = entries
            .iter()
            .map(|Entry { tag, begin, length, histogram, .. }| {
                format!("{tag} {begin:?} {length:?} {}", histogram.len())
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        corrected/home/1 5s 10s 1500
        naive/home/1 5s 10s 1500
        corrected/home/2 15s 15s 6000
        naive/home/2 15s 15s 6000
        corrected/POST%20/a%2C%20"b"/1 5s 10s 500
        naive/POST%20/a%2C%20"b"/1 5s 10s 500
        corrected/POST%20/a%2C%20"b"/2 15s 15s 2000
        naive/POST%20/a%2C%20"b"/2 15s 15s 2000
        "#);
        let mut bytes = Vec::new();
        write(&mut bytes, UNIX_EPOCH, &entries).expect("writing to memory succeeds");
        let text = String::from_utf8(bytes).expect("text");
        let tags = IntervalLogIterator::new(text.as_bytes()).map(|entry| match entry {
            Ok(LogEntry::Interval(interval)) => {
                interval.tag().expect("each has one").as_str().to_owned()
            }
            other => format!("{other:?}"),
        });
        let named: Vec<&str> = entries.iter().map(|entry| entry.tag.as_str()).collect();
        assert_eq!(tags.filter(|tag| !tag.contains("StartTime")).collect::<Vec<String>>(), named);
    }

    #[test]
    fn the_sessions_of_a_scenario_have_a_tag_of_their_own() {
        let (begin, length) = (Duration::from_secs(5), Duration::from_secs(25));
        let entries = of_sessions(&sessions(), begin, length).expect("histograms");
        let shown = entries.iter().map(|Entry { tag, begin, length, histogram, .. }| {
            format!("{tag} {begin:?} {length:?} {}", histogram.len())
        });
        insta::assert_snapshot!(shown.collect::<Vec<String>>().join("\n"), @r#"
        session/shop%2C%20"new" 5s 25s 1498
        session/home 5s 25s 500
        "#);
    }

    #[test]
    fn its_histograms_come_back_and_add_up_by_tag() {
        let log = log();
        let mut by_tag: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            let LogEntry::Interval(interval) = entry.expect("well formed") else { continue };
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(interval.encoded_histogram())
                .expect("base64");
            let histogram: Histogram<u64> =
                Deserializer::new().deserialize(&mut bytes.as_slice()).expect("a histogram");
            let tag = interval.tag().expect("each has one").as_str().to_owned();
            match by_tag.get_mut(&tag) {
                None => drop(by_tag.insert(tag, histogram)),
                Some(sum) => sum.add(&histogram).expect("the same bounds"),
            }
        }
        let late = by_tag.remove("receive_lateness").expect("a tag of its own");
        assert_eq!((late.len(), late.equivalent(late.max(), 20_000)), (99, true));
        assert_eq!(by_tag.remove("send_path").expect("a tag of its own").len(), 1);
        assert_eq!(by_tag.keys().collect::<Vec<_>>(), ["corrected", "naive"]);
        for (tag, sum) in &by_tag {
            assert_eq!(sum.len(), 100, "{tag}");
            assert!(sum.equivalent(sum.value_at_quantile(0.5), 1_000_000), "{tag}");
            assert!(sum.equivalent(sum.max(), 250_000_000), "{tag}");
        }
    }
}
