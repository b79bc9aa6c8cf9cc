//! The run over time as CSV: a header, then a row for each interval of the window; and the parts of
//! its plan and the sessions of its scenarios, a row for each.
//!
//! A request counts in the interval in which it was due. Only `sends` and `answers` count by when
//! the window's requests were sent and answered, whenever they were due; requests due in the
//! warm-up are in no interval. A part is a step in a stage. Neither it nor a session is kept by
//! intervals, so each has a file of its own.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use engine::report::{
    DistributionPart, Part, Report, ScenarioPart, SeriesPart, StageLoad, StageSpan, StepPart,
};
use engine::stats::percentiles::PERCENTILES;

use crate::failure::Failure;
use crate::output::{self, OutputFile};
use crate::sink::{EndedRun, Sink};

/// The columns, in order, as groups of names with a description; all of them are numbers.
const COLUMNS: [(&[&str], &str); 11] = [
    (&["start_s"], "seconds since the start of the window"),
    (&["length_s"], "length of the interval, seconds; the last one ends with the window"),
    (&["intended"], "requests that were due"),
    (&["sent", "unsent"], "of the intended, sent and never sent"),
    (&["answered", "errors"], "of the sent, answered; timed out, failed or abandoned"),
    (&["unexpected_status"], "of the answered, with a status that isn't a success"),
    (&["failed_checks"], "of the answered, with an expected status and a failed check"),
    (&["in_flight"], "responses still awaited at the end of the interval, whenever due"),
    (&["p50_us", "p99_us", "max_us"], "corrected latency, µs, to two digits; empty if unknown"),
    (&["sends", "answers"], "sent and answered in the interval, of all requests due in the window"),
    (&["late_p50_us", "late_p99_us", "late_max_us"], "receive lateness, µs; empty if unknown"),
];

/// The names of the columns, in order.
fn names() -> impl Iterator<Item = &'static str> {
    COLUMNS.into_iter().flat_map(|(names, _)| names).copied()
}

/// The description of each column, in one sentence.
pub(crate) fn columns() -> String {
    let group = |(names, content): &(&[&str], &str)| format!("{}: {content}", names.join(", "));
    COLUMNS.iter().map(group).collect::<Vec<_>>().join(". ")
}

/// Writes the run of this report over time.
///
/// # Errors
/// Those of the writer.
pub(crate) fn of_run(report: &Report, writer: impl Write) -> io::Result<()> {
    write(writer, &report.series, report.config.window_s())
}

/// Writes the series of a window of this length.
///
/// # Errors
/// Those of the writer.
fn write(mut writer: impl Write, series: &SeriesPart, window_s: f64) -> io::Result<()> {
    writeln!(writer, "{}", names().collect::<Vec<_>>().join(","))?;
    for interval in &series.intervals {
        let start_s = interval.start_s;
        let length_s = series.interval_s.min(window_s - start_s).max(0.0);
        let counts = [
            interval.counts.intended,
            interval.counts.sent,
            interval.counts.unsent,
            interval.counts.answered,
            interval.counts.errors,
            interval.counts.unexpected_status,
            interval.counts.failed_checks,
            interval.in_flight,
        ];
        let times = [interval.p50, interval.p99, interval.max];
        let cells = counts.iter().map(u64::to_string);
        let cell = |us: &Option<f64>| us.map_or(String::new(), |us| us.to_string());
        let late = [
            interval.receive_lateness_p50,
            interval.receive_lateness_p99,
            interval.receive_lateness_max,
        ];
        let happened = [interval.counts.sends, interval.counts.answers];
        let cells = cells.chain(times.iter().map(cell)).chain(happened.iter().map(u64::to_string));
        let cells: Vec<String> = cells.chain(late.iter().map(cell)).collect();
        // Nine digits are a nanosecond; more would be the rounding error of a difference.
        writeln!(writer, "{start_s},{length_s:.9},{}", cells.join(","))?;
    }
    Ok(())
}

/// The file of the parts next to that of the run over time; a device or a pipe has none.
pub(crate) fn parts_path(csv: &Path) -> Option<PathBuf> {
    beside(csv, "parts.csv")
}

/// The file of the sessions next to it.
pub(crate) fn sessions_path(csv: &Path) -> Option<PathBuf> {
    beside(csv, "sessions.csv")
}

fn beside(csv: &Path, extension: &str) -> Option<PathBuf> {
    let is_stream = csv == Path::new(output::STDOUT) || output::is_written_through(csv);
    (!is_stream).then(|| csv.with_extension(extension))
}

/// The cells of a row, each with the name of its column; what is unknown is empty.
type Cells = Vec<(Cow<'static, str>, String)>;

/// A file of rows beside that of the run over time, which stays unwritten if there are none.
struct Rows {
    file: OutputFile,
    of: fn(&Part) -> Vec<Cells>,
}

/// The parts as a sink of the run.
pub(crate) fn parts(file: OutputFile) -> Box<dyn Sink> {
    Box::new(Rows { file, of: |whole| whole.parts.iter().map(cells).collect() })
}

/// The sessions of each scenario as a sink of the run.
pub(crate) fn sessions(file: OutputFile) -> Box<dyn Sink> {
    Box::new(Rows { file, of: |whole| whole.scenarios.iter().map(cells_of_sessions).collect() })
}

impl Sink for Rows {
    fn finish(self: Box<Self>, ended: &EndedRun<'_>) -> Result<Option<PathBuf>, Failure> {
        let rows = (self.of)(&ended.finished.report.whole);
        match rows.is_empty() {
            true => Ok(None),
            false => self.file.finish(|writer| write_rows(writer, rows)).map(Some),
        }
    }
}

/// Writes a header, and these rows.
///
/// # Errors
/// Those of the writer.
fn write_rows(mut writer: impl Write, rows: Vec<Cells>) -> io::Result<()> {
    for (at, row) in rows.into_iter().enumerate() {
        let (names, cells): (Vec<Cow<'static, str>>, Vec<String>) = row.into_iter().unzip();
        if at == 0 {
            writeln!(writer, "{}", names.join(","))?;
        }
        writeln!(writer, "{}", cells.join(","))?;
    }
    Ok(())
}

/// The cells of a scenario's sessions, whose latencies have no intervals.
fn cells_of_sessions(of: &ScenarioPart) -> Cells {
    let mut cells: Cells = [
        ("scenario", quoted(&of.name).into_owned()),
        ("planned", of.planned.to_string()),
        ("intended", of.intended.to_string()),
        ("completed", of.completed.to_string()),
        ("failed", of.failed().to_string()),
        ("unfinished", of.unfinished().to_string()),
        ("unsent", of.unsent.to_string()),
    ]
    .map(|(name, cell)| (Cow::Borrowed(name), cell))
    .into();
    let figure = |what, us| of_latency("latency", what, us);
    cells.push(figure("mean", of.latency.mean));
    cells.extend(PERCENTILES.map(|one| figure(one.label, of.latency.quantile_us(one.q))));
    cells.push(figure("max", of.latency.max));
    cells
}

/// The cells of a part, with the ends of the 95 % intervals.
fn cells(part: &StepPart) -> Cells {
    let stage = |of: fn(&StageSpan) -> String| part.stage.as_ref().map_or(String::new(), of);
    let none = || [String::new(), String::new()];
    let (rates, users) = match part.stage.as_ref().map(|stage| stage.load) {
        None => (none(), none()),
        Some(StageLoad::Rates { from, to }) => ([from, to].map(|rate| rate.to_string()), none()),
        Some(StageLoad::Users { from, to }) => (none(), [from, to].map(|users| users.to_string())),
    };
    let counts = &part.counts;
    let count = |count: u64| count.to_string();
    let mut cells: Cells = [
        ("scenario", quoted(&part.name).into_owned()),
        ("stage", stage(|it| quoted(&it.label()).into_owned())),
        ("from_per_s", rates[0].clone()),
        ("to_per_s", rates[1].clone()),
        ("from_users", users[0].clone()),
        ("to_users", users[1].clone()),
        ("start_s", stage(|it| it.start.to_string())),
        ("duration_s", stage(|it| it.duration.to_string())),
        ("planned", part.planned.to_string()),
        ("intended", count(counts.intended)),
        ("sent", count(counts.sent)),
        ("unsent", count(counts.unsent)),
        ("answered", count(counts.answered)),
        ("timed_out", count(counts.timed_out)),
        ("failed", count(counts.failed)),
        ("abandoned", count(counts.abandoned)),
        ("unexpected_status", count(counts.unexpected_status)),
        ("failed_checks", count(counts.failed_checks)),
        ("bad", count(part.bad)),
        ("capped", count(counts.capped)),
        ("held", count(part.held)),
        ("received_bytes", count(part.received_bytes)),
        ("sent_bytes", count(part.sent_bytes)),
    ]
    .map(|(name, cell)| (Cow::Borrowed(name), cell))
    .into();
    for (kind, of) in [("corrected", &part.corrected), ("naive", &part.naive)] {
        cells.extend(times(kind, of));
    }
    cells
}

/// The cells of a kind of latency, µs.
fn times(kind: &str, of: &DistributionPart) -> Cells {
    let mut cells = vec![of_latency(kind, "mean", of.mean)];
    for quantile in PERCENTILES {
        let name = quantile.label;
        let found = of.percentiles.at(quantile.q);
        cells.push(of_latency(kind, name, found.value));
        let ends =
            [("low", found.interval.map(|it| it[0])), ("high", found.interval.map(|it| it[1]))];
        cells.extend(ends.map(|(end, us)| of_latency(kind, &format!("{name}_{end}"), us)));
    }
    cells.push(of_latency(kind, "max", of.max));
    cells
}

/// The cell of a figure of a kind of latency, µs.
fn of_latency(kind: &str, what: &str, us: Option<f64>) -> (Cow<'static, str>, String) {
    let name = Cow::Owned(format!("{kind}_{}_us", what.replace('.', "")));
    (name, us.map_or(String::new(), |us| us.to_string()))
}

/// A text as a cell, in quotes if it has to be (RFC 4180).
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\n', '\r']) {
        true => Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use engine::record::outcome::{Outcome, UnsentReason};
    use engine::record::series::Series;

    use super::*;
    use crate::text::reports::{sessions as made_up, two_by_two};

    #[test]
    fn each_interval_is_a_row_of_numbers() {
        let mut series = Series::new();
        let later_ns = 2 * series.interval_ns();
        for at_ns in [0, 1, later_ns] {
            series.intended(at_ns);
        }
        series.sent(0);
        series.send(10_000);
        series.ended(0, 1_000_000, Outcome::Answered(200), None);
        series.unexpected(0);
        series.answer(later_ns - 10_000);
        series.ended(1, 5_000_000, Outcome::Unsent(UnsentReason::Deadline), None);
        series.sent(later_ns);
        series.send(later_ns + 10_000);
        series.in_flight(later_ns, 1);
        series.ended(later_ns, 250_000, Outcome::Abandoned, None);
        let mut bytes = Vec::new();
        write(&mut bytes, &SeriesPart::new(&series), 0.3).expect("writing to memory succeeds");
        insta::assert_snapshot!(String::from_utf8(bytes).expect("text"), @r"
        start_s,length_s,intended,sent,unsent,answered,errors,unexpected_status,failed_checks,in_flight,p50_us,p99_us,max_us,sends,answers,late_p50_us,late_p99_us,late_max_us
        0,0.125000000,2,1,1,1,0,1,0,0,1003.519,5013.503,5013.503,1,0,,,
        0.125,0.125000000,0,0,0,0,0,0,0,0,,,,0,1,,,
        0.25,0.050000000,1,1,0,0,1,0,0,1,250.879,250.879,250.879,1,0,,,
        ");
    }

    #[test]
    fn each_part_is_a_row_whose_name_is_quoted() {
        let mut bytes = Vec::new();
        let report = two_by_two();
        let rows = report.whole.parts.iter().map(cells).collect();
        write_rows(&mut bytes, rows).expect("writing to memory succeeds");
        let text = String::from_utf8(bytes).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        let columns: Vec<&str> = lines[0].split(',').collect();
        insta::assert_snapshot!(columns[..25].join(","), @"scenario,stage,from_per_s,to_per_s,from_users,to_users,start_s,duration_s,planned,intended,sent,unsent,answered,timed_out,failed,abandoned,unexpected_status,failed_checks,bad,capped,held,received_bytes,sent_bytes,corrected_mean_us,corrected_p50_us");
        assert_eq!(columns.last(), Some(&"naive_max_us"));
        let shown: Vec<&str> = lines[1..].iter().map(|line| &line[..56]).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        home,1,100,100,,,0,10,0.15000000000000002,1500,1500,0,15
        home,2,100,300,,,10,20,0.6000000000000001,6000,6000,0,60
        "POST /a, ""b""",1,100,100,,,0,10,0.05,500,500,0,500,0,0
        "POST /a, ""b""",2,100,300,,,10,20,0.2,2000,2000,0,2000,
        "#);
        assert_eq!(lines[1].split(',').count(), columns.len());
        let mut named = report.whole.parts[0].clone();
        named.stage.as_mut().expect("a stage").name = Some("busy, late".to_owned());
        let mut bytes = Vec::new();
        write_rows(&mut bytes, vec![cells(&named)]).expect("writing to memory succeeds");
        let text = String::from_utf8(bytes).expect("text");
        assert!(text.contains("\nhome,\"busy, late\",100,"), "{text}");
    }

    #[test]
    fn the_sessions_of_each_scenario_are_a_row() {
        let mut bytes = Vec::new();
        let rows = made_up().iter().map(cells_of_sessions).collect();
        write_rows(&mut bytes, rows).expect("writing to memory succeeds");
        insta::assert_snapshot!(String::from_utf8(bytes).expect("text"), @r#"
        scenario,planned,intended,completed,failed,unfinished,unsent,latency_mean_us,latency_p50_us,latency_p75_us,latency_p90_us,latency_p95_us,latency_p99_us,latency_p999_us,latency_p9999_us,latency_max_us
        "shop, ""new""",0.75,1500,1490,7,1,2,9000,9000,9000,9000,9000,9000,,,9000
        home,0.25,500,500,0,0,0,1000,1000,1000,1000,1000,,,,1000
        "#);
    }

    #[test]
    fn a_pipe_and_standard_output_have_no_file_of_parts() {
        assert_eq!(parts_path(Path::new("a/run.csv")), Some("a/run.parts.csv".into()));
        assert_eq!(sessions_path(Path::new("a/run.csv")), Some("a/run.sessions.csv".into()));
        assert_eq!(sessions_path(Path::new("-")), None);
        assert_eq!(parts_path(Path::new("-")), None);
        assert_eq!(parts_path(Path::new("/dev/stdout")), None);
        assert_eq!(parts_path(Path::new("/dev/null")), None);
    }
}
