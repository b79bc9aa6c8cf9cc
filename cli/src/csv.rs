//! The run over time as CSV: a header, then a row for each interval of the window.
//!
//! A request counts in the interval in which it was due. Only `sends` and `answers` count by when
//! the window's requests were sent and answered, whenever they were due; requests due in the
//! warm-up are in no interval.

use std::io::{self, Write};

use engine::report::{Report, SeriesPart};

/// The columns, in order, as groups of names with a description; all of them are numbers.
const COLUMNS: [(&[&str], &str); 10] = [
    (&["start_s"], "seconds since the start of the window"),
    (&["length_s"], "length of the interval, seconds; the last one ends with the window"),
    (&["intended"], "requests that were due"),
    (&["sent", "unsent"], "of the intended, sent and never sent"),
    (&["answered", "errors"], "of the sent, answered; timed out, failed or abandoned"),
    (&["unexpected_status"], "of the answered, with a status that isn't a success"),
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

#[cfg(test)]
mod tests {
    use engine::record::outcome::{Outcome, UnsentReason};
    use engine::record::series::Series;

    use super::*;

    #[test]
    fn each_interval_is_a_row_of_numbers() {
        let mut series = Series::new();
        let later_ns = 2 * series.interval_ns();
        for at_ns in [0, 1, later_ns] {
            series.intended(at_ns);
        }
        series.sent(0);
        series.send(10_000);
        series.ended(0, 1_000_000, Outcome::Answered(200));
        series.unexpected(0);
        series.answer(later_ns - 10_000);
        series.ended(1, 5_000_000, Outcome::Unsent(UnsentReason::Deadline));
        series.sent(later_ns);
        series.send(later_ns + 10_000);
        series.in_flight(later_ns, 1);
        series.ended(later_ns, 250_000, Outcome::Abandoned);
        let mut bytes = Vec::new();
        write(&mut bytes, &SeriesPart::new(&series), 0.3).expect("writing to memory succeeds");
        insta::assert_snapshot!(String::from_utf8(bytes).expect("text"), @r"
        start_s,length_s,intended,sent,unsent,answered,errors,unexpected_status,in_flight,p50_us,p99_us,max_us,sends,answers,late_p50_us,late_p99_us,late_max_us
        0,0.125000000,2,1,1,1,0,1,0,1003.519,5013.503,5013.503,1,0,,,
        0.125,0.125000000,0,0,0,0,0,0,0,,,,0,1,,,
        0.25,0.050000000,1,1,0,0,1,0,1,250.879,250.879,250.879,1,0,,,
        ");
    }
}
