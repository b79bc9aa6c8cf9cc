//! The charts of a report, and of several side by side: with the same axes, so that lengths
//! compare.

use engine::report::spectrum::{Point, spectrum};
use engine::report::{HistogramError, IntervalPart, Report, StepPart};
use probe::chart::{Axis, COLOURS, Chart, Line, ends};
use probe::numbers::plain_time;

use crate::text::parts::{NAME_MAX, name_in};

/// The horizontal axis of latencies.
const PERCENTILE: &str = "percentile";
/// The horizontal axis of a run over time.
const SECONDS: &str = "seconds since the start of the window";
/// A last interval shorter than this share of the others has no rate.
const LENGTH_MIN: f64 = 0.5;

/// The chart of one report among those of a kind.
pub(super) struct Drawing {
    /// Its name in the name of a file.
    pub(super) name: &'static str,
    /// Its heading.
    pub(super) title: &'static str,
    /// The chart; empty if there is nothing to draw.
    pub(super) chart: Chart<'static>,
}

/// The charts of each report, in the same order. Those of one kind have the same axes.
///
/// # Errors
/// A histogram of a report can't be read.
pub(super) fn charts(reports: &[&Report]) -> Result<Vec<Vec<Drawing>>, HistogramError> {
    let has_parts = reports.iter().any(|report| !report.whole.parts.is_empty());
    let each = reports.iter().map(|report| of_report(report, has_parts));
    let mut each: Vec<Vec<Drawing>> = each.collect::<Result<_, HistogramError>>()?;
    let kinds = each.first().map_or(0, Vec::len);
    for kind in 0..kinds {
        let found: Vec<[(f64, f64); 2]> =
            each.iter().filter_map(|drawings| drawings[kind].chart.ends()).collect();
        let reach = |axis: usize| {
            let along = found.iter().map(|both| both[axis]);
            ends(along.flat_map(|(low, high)| [low, high]))
        };
        for drawings in &mut each {
            let chart = &mut drawings[kind].chart;
            (chart.x.reach, chart.y.reach) = (reach(0), reach(1));
        }
    }
    Ok(each)
}

fn of_report(report: &Report, has_parts: bool) -> Result<Vec<Drawing>, HistogramError> {
    let parts = has_parts.then(|| parts(report)).transpose()?;
    let mut drawings = vec![latency(report)?];
    drawings.extend(parts);
    drawings.extend([
        latency_over_time(report),
        rates(report),
        latenesses(report)?,
        in_flight(report),
    ]);
    Ok(drawings)
}

/// A chart of lines in the order of the colours, from the first.
fn chart(x: Axis<'static>, y: Axis<'static>, lines: Vec<Line>) -> Chart<'static> {
    let lines = lines.into_iter().filter(|line| !line.points.is_empty());
    Chart { title: "", x, y, lines: lines.collect(), columns: 2, bounds: Vec::new(), zone: None }
}

fn times(name: &'static str) -> Axis<'static> {
    Axis { label: plain_time, ..Axis::log(name) }
}

fn points(of: &[Point]) -> Vec<(f64, f64)> {
    of.iter().map(|point| (point.one_in, point.us)).collect()
}

/// Naive against corrected, to the maximum.
fn latency(report: &Report) -> Result<Drawing, HistogramError> {
    let part = &report.whole;
    let corrected = report.corrected_spectrum()?;
    let band = corrected.iter().filter_map(|point| Some((point.one_in, point.interval?)));
    let mut lines = vec![
        Line {
            name: "corrected, 95 % interval".to_owned(),
            colour: 1,
            points: points(&corrected),
            band: band.collect(),
            ..Line::default()
        },
        Line {
            name: "naive".to_owned(),
            dashed: true,
            points: points(&spectrum(&part.naive)?),
            ..Line::default()
        },
    ];
    if let Some(successes) = &part.successes {
        lines.push(Line {
            name: "corrected, successes".to_owned(),
            colour: 2,
            points: points(&spectrum(&successes.corrected)?),
            ..Line::default()
        });
    }
    let chart = chart(Axis::percentiles(PERCENTILE), times("latency"), lines);
    Ok(Drawing { name: "spectrum", title: "Latency by percentile", chart })
}

/// Corrected latency of the parts with the longest tails, as many as there are colours.
fn parts(report: &Report) -> Result<Drawing, HistogramError> {
    let tail = |part: &StepPart| part.corrected.quantile_us(0.99).or(part.corrected.max);
    let mut parts: Vec<&StepPart> = report.whole.parts.iter().collect();
    parts.sort_by(|one, other| tail(other).unwrap_or(0.0).total_cmp(&tail(one).unwrap_or(0.0)));
    let mut lines = Vec::new();
    for (colour, part) in parts.into_iter().take(COLOURS.len()).enumerate() {
        let stage = part.stage.as_ref();
        let stage = stage.map_or(String::new(), |of| format!(", stage {}", of.label()));
        let name = format!("{}{stage}", name_in(&part.name, NAME_MAX));
        let points = points(&spectrum(&part.corrected)?);
        lines.push(Line { name, colour, points, ..Line::default() });
    }
    let chart = chart(Axis::percentiles(PERCENTILE), times("latency"), lines);
    Ok(Drawing {
        name: "parts",
        title: "Corrected latency of the parts with the longest tails",
        chart,
    })
}

/// Corrected latency of the requests that were due in each interval.
fn latency_over_time(report: &Report) -> Drawing {
    let line = |name: &str, colour, of: fn(&IntervalPart) -> Option<f64>| {
        let intervals = report.series.intervals.iter();
        let points = intervals.filter_map(|interval| Some((interval.start_s, of(interval)?)));
        Line { name: name.to_owned(), colour, points: points.collect(), ..Line::default() }
    };
    let lines = vec![
        // The rarest first, below the others.
        line("max corrected", 1, |interval| interval.max),
        line("p99 corrected", 0, |interval| interval.p99),
        line("p50 corrected", 2, |interval| interval.p50),
    ];
    let chart = chart(Axis::linear(SECONDS), times("latency"), lines);
    Drawing { name: "latency-over-time", title: "Latency over time", chart }
}

/// The rates intended, sent, answered and bad in each interval.
fn rates(report: &Report) -> Drawing {
    let (series, window_s) = (&report.series, report.config.window_s());
    let line = |name: &str, colour, of: fn(&IntervalPart) -> u64| {
        let rate = |interval: &IntervalPart| {
            let length_s = series.interval_s.min(window_s - interval.start_s);
            let is_whole = LENGTH_MIN * series.interval_s <= length_s;
            is_whole.then(|| (interval.start_s, of(interval) as f64 / length_s))
        };
        let points = series.intervals.iter().filter_map(rate).collect();
        Line { name: name.to_owned(), colour, points, ..Line::default() }
    };
    let mut lines = vec![
        line("intended", 5, |interval| interval.counts.intended),
        line("sent", 0, |interval| interval.counts.sends),
        line("answered", 2, |interval| interval.counts.answers),
    ];
    let bad = line("bad, by when due", 1, |interval| {
        let counts = &interval.counts;
        counts.errors + counts.not_good() + counts.unsent
    });
    if bad.points.iter().any(|(_, rate)| 0.0 < *rate) {
        lines.push(bad);
    }
    let chart = chart(Axis::linear(SECONDS), Axis::linear("requests per second"), lines);
    Drawing { name: "rates", title: "Requests per second", chart }
}

/// The generator's lateness, and how long requests waited for a connection.
fn latenesses(report: &Report) -> Result<Drawing, HistogramError> {
    let part = &report.whole;
    let parts = [
        ("pacer lateness", &part.pacer_lateness),
        ("connection wait", &part.connection_wait),
        ("receive lateness", &part.receive_lateness),
        ("send path", &part.send_path),
    ];
    let mut lines = Vec::new();
    for (colour, (name, of)) in parts.into_iter().enumerate() {
        let points = points(&spectrum(of)?);
        lines.push(Line { name: name.to_owned(), colour, points, ..Line::default() });
    }
    let chart = chart(Axis::percentiles(PERCENTILE), times("lateness"), lines);
    Ok(Drawing { name: "latenesses", title: "Latenesses by percentile", chart })
}

/// Requests in flight at the end of each interval.
fn in_flight(report: &Report) -> Drawing {
    let intervals = report.series.intervals.iter();
    let end = |interval: &IntervalPart| interval.start_s + report.series.interval_s;
    let points = intervals.map(|interval| (end(interval), interval.in_flight as f64)).collect();
    let line = Line { name: "in flight".to_owned(), points, ..Line::default() };
    let chart = chart(Axis::linear(SECONDS), Axis::linear("requests in flight"), vec![line]);
    Drawing { name: "in-flight", title: "Requests in flight", chart }
}
