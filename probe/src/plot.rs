//! Latency against the intended rate as SVG: both axes logarithmic, corrected latencies with their
//! confidence intervals as bands, naive ones dashed, the bounds of objectives, and the answer of
//! the series.

use plotters::coord::Shift;
use plotters::coord::combinators::{BindKeyPoints as _, IntoLogRange as _};
use plotters::prelude::{
    ChartBuilder, Circle, Color as _, DashedLineSeries, DrawingArea, DrawingAreaErrorKind,
    DrawingBackend, EmptyElement, IntoDrawingArea as _, IntoFont as _, LineSeries, PathElement,
    Polygon, RGBColor, Rectangle, SVGBackend, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::axes::{TICKS_MAX, around, ticks};
use crate::ceiling::Answer;
use crate::knee::Knee;
use crate::numbers::number;
use crate::search::Bracket;
use crate::step::{Latency, Step};
use crate::sweep::KNEE_WIDTH;

/// Width and height in the drawing's own units: letters of 17 of them are read at 400 pixels, and
/// the drawing is as wide as there is room.
const SIZE: (u32, u32) = (640, 520);
/// Height above the axes: of the title, and of the name of what is marked.
const HEAD: u32 = 56;
/// Height below the axes, of what the lines are.
const LEGEND: u32 = 60;
/// Room for the name of what is marked.
const LABEL: i32 = 180;
const CENTRED: Pos = Pos { h_pos: HPos::Center, v_pos: VPos::Center };
/// The percentiles drawn, each in its colour: told apart with any sight of colours.
const LINES: [(&str, f64, RGBColor); 3] = [
    ("p99.9", 0.999, RGBColor(204, 51, 17)),
    ("p99", 0.99, RGBColor(0, 119, 187)),
    ("p50", 0.5, RGBColor(0, 120, 90)),
];
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);
const FONT: &str = "sans-serif";

/// Why nothing could be drawn.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotDrawn(String);

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for NotDrawn {
    fn from(error: DrawingAreaErrorKind<E>) -> NotDrawn {
        NotDrawn(error.to_string())
    }
}

/// What a series found, to be marked.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// What it is: `knee`.
    pub name: &'static str,
    /// The rate; `None` if only the range below is known.
    pub rate: Option<f64>,
    /// What the rate lies between.
    pub between: (f64, f64),
}

impl Mark {
    /// The knee, if it was found; as a range, if it isn't narrow enough to be stated.
    pub fn of_knee(knee: &Knee) -> Option<Mark> {
        let (from, to) = knee.from.zip(knee.to)?;
        let rate = knee.rate.filter(|_| to <= KNEE_WIDTH * from);
        Some(Mark { name: "knee", rate, between: (from, to) })
    }

    /// The highest rate that passed, if one failed as well.
    pub fn of_bracket(bracket: &Bracket) -> Option<Mark> {
        let between = bracket.passed.zip(bracket.failed)?;
        Some(Mark { name: "holds up to", rate: Some(between.0), between })
    }

    /// The ceiling, if a rate passed and one failed.
    pub fn of_ceiling(answer: &Answer) -> Option<Mark> {
        let between = answer.passed.zip(answer.failed)?;
        Some(Mark { name: "ceiling", rate: Some(between.0), between })
    }
}

/// The plot of these steps, in any order.
///
/// # Errors
/// No step has a latency, or the library draws none.
pub fn svg(title: &str, steps: &[Step], mark: Option<&Mark>) -> Result<String, NotDrawn> {
    let mut steps: Vec<&Step> = steps.iter().collect();
    steps.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    draw(&area, title, &steps, mark)?;
    area.present()?;
    drop(area);
    let size = format!("width=\"{}\" height=\"{}\"", SIZE.0, SIZE.1);
    Ok(text.replacen(&size, "width=\"100%\"", 1))
}

fn draw<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    title: &str,
    steps: &[&Step],
    mark: Option<&Mark>,
) -> Result<(), NotDrawn>
where
    B::ErrorType: 'static,
{
    let rates = steps.iter().map(|step| step.rate);
    let mut latencies = steps.iter().flat_map(|step| ends(step)).peekable();
    let objectives = objectives(steps);
    // Bounds alone aren't worth a plot.
    let bounds = objectives.iter().filter(|_| latencies.peek().is_some()).map(|(_, us)| *us);
    let bounds: Vec<f64> = bounds.collect();
    let times = latencies.chain(bounds);
    let (Some((left, right)), Some((bottom, top))) = (around(rates), around(times)) else {
        return Err(NotDrawn("no step has a latency to draw".to_owned()));
    };
    let width = i32::try_from(SIZE.0).expect("the width is a constant");
    area.fill(&plotters::style::WHITE)?;
    let (head, rest) = area.split_vertically(HEAD);
    let (body, legend) = rest.split_vertically(SIZE.1 - HEAD - LEGEND);
    let centre = width / 2;
    let text = |size: u32| (FONT, size).into_font().color(&INK).pos(CENTRED);
    head.draw(&Text::new(title.to_owned(), (centre, 20), text(20)))?;
    let mut chart = ChartBuilder::on(&body)
        .margin_right(24)
        .margin_left(8)
        .x_label_area_size(54)
        .y_label_area_size(92)
        .build_cartesian_2d(
            (left..right).log_scale().with_key_points(ticks(left, right)),
            (bottom..top).log_scale().with_key_points(ticks(bottom, top)),
        )?;
    chart
        .configure_mesh()
        .x_desc("intended rate, requests per second")
        .y_desc("latency")
        .x_label_formatter(&|rate| number(*rate))
        .y_label_formatter(&|us| bound(*us))
        .x_labels(TICKS_MAX)
        .y_labels(TICKS_MAX)
        .bold_line_style(GRID)
        .light_line_style(plotters::style::TRANSPARENT)
        .axis_style(INK)
        .label_style((FONT, 17).into_font().color(&INK))
        .axis_desc_style((FONT, 18).into_font().color(&INK))
        .draw()?;
    if let Some(Mark { name, rate, between: (from, to) }) = mark {
        let zone = [(*from, bottom), (*to, top)];
        chart.draw_series([Rectangle::new(zone, INK.mix(0.12).filled())])?;
        if let Some(rate) = *rate {
            chart.draw_series([PathElement::new(vec![(rate, bottom), (rate, top)], INK)])?;
        }
        let whole = |rate: f64| number(rate.round());
        let label = match rate {
            Some(rate) => format!("{name} {}/s", whole(*rate)),
            None => format!("{name} {}–{}/s", whole(*from), whole(*to)),
        };
        // Above the axes, where no latency is drawn.
        let (x, _) = chart.backend_coord(&(rate.unwrap_or((from * to).sqrt()), top));
        let at = (x.clamp(LABEL / 2, width - LABEL / 2), 44);
        head.draw(&Text::new(label, at, text(17)))?;
    }
    for (_, q, colour) in LINES {
        for (latency, of) in LATENCIES {
            let is_naive = of == "naive";
            let band = band(steps, latency, q);
            let opacity = if is_naive { 0.08 } else { 0.2 };
            if 4 <= band.len() {
                chart.draw_series([Polygon::new(band, colour.mix(opacity).filled())])?;
            }
            let runs = steps
                .iter()
                .filter_map(|step| Some((step.rate, latency(step).percentiles.at(q).value?)));
            let style = colour.stroke_width(2);
            let line = medians(runs.clone());
            if is_naive {
                chart.draw_series(DashedLineSeries::new(line, 4, 4, style))?;
            } else {
                chart.draw_series(LineSeries::new(line, style))?;
                chart.draw_series(runs.map(|run| Circle::new(run, 3, style)))?;
            }
        }
    }
    for (label, bound) in objectives {
        let line = [(left, bound), (right, bound)];
        chart.draw_series(DashedLineSeries::new(line, 10, 4, INK.stroke_width(1)))?;
        let above = text(17).pos(Pos::new(HPos::Left, VPos::Bottom));
        let at_left = |at| EmptyElement::at(at) + Text::new(label.clone(), (6, -2), above.clone());
        chart.draw_series([at_left(line[0])])?;
    }
    for (row, (_, of)) in (0..).zip(LATENCIES) {
        for (column, (name, _, colour)) in (0..).zip(LINES.into_iter().rev()) {
            let (x, y) = (40 + column * (width - 40) / 3, 14 + row * 24);
            let style = colour.stroke_width(2);
            if of == "naive" {
                for dash in (x..x + 36).step_by(8) {
                    legend.draw(&PathElement::new([(dash, y), (dash + 4, y)], style))?;
                }
            } else {
                legend.draw(&PathElement::new([(x, y), (x + 36, y)], style))?;
                legend.draw(&Circle::new((x + 18, y), 3, style))?;
            }
            let beside = text(17).pos(Pos::new(HPos::Left, VPos::Center));
            legend.draw(&Text::new(format!("{name} {of}"), (x + 44, y), beside))?;
        }
    }
    Ok(())
}

/// The latencies that the objectives of a series bound, microseconds, each as it is written.
fn objectives(steps: &[&Step]) -> Vec<(String, f64)> {
    let slo = steps.iter().find_map(|step| step.slo.as_ref());
    let bounds = slo.into_iter().flat_map(|slo| &slo.objectives);
    let bounds = bounds.filter(|one| one.unit == "us" && 0.0 < one.bound);
    bounds.map(|one| (format!("{} < {}", one.metric, bound(one.bound)), one.bound)).collect()
}

/// A time that somebody chose, not measured, so without digits that say nothing: `1 ms`, `1.5 ms`.
fn bound(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 0.999_5 => (us * 1e3, "ns"),
        us if us < 999.5 => (us, "µs"),
        us if us < 999_500.0 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    format!("{} {unit}", (value * 100.0).round() / 100.0)
}

/// The line through the runs of a series, ascending by rate: where a rate had several, through
/// their median.
fn medians(runs: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let runs: Vec<(f64, f64)> = runs.collect();
    let of_rate = |runs: &[(f64, f64)]| {
        let mut times: Vec<f64> = runs.iter().map(|(_, us)| *us).collect();
        times.sort_by(f64::total_cmp);
        (runs[0].0, f64::midpoint(times[(times.len() - 1) / 2], times[times.len() / 2]))
    };
    runs.chunk_by(|one, other| one.0 == other.0).map(of_rate).collect()
}

/// Which latency of a step.
type Of = fn(&Step) -> &Latency;

/// What is drawn of each percentile.
const LATENCIES: [(Of, &str); 2] = [(corrected, "corrected"), (naive, "naive")];

fn corrected(step: &Step) -> &Latency {
    &step.corrected
}

fn naive(step: &Step) -> &Latency {
    &step.naive
}

/// The outline of the confidence intervals: their upper ends from left to right, then their lower
/// ends back.
fn band(steps: &[&Step], latency: Of, q: f64) -> Vec<(f64, f64)> {
    let intervals = |end: usize| {
        let each = steps.iter();
        medians(each.filter_map(move |step| {
            Some((step.rate, latency(step).percentiles.at(q).interval?[end]))
        }))
    };
    let (lower, upper) = (intervals(0), intervals(1));
    upper.into_iter().chain(lower.into_iter().rev()).filter(|(_, us)| 0.0 < *us).collect()
}

/// Every time of a step that is drawn.
fn ends(step: &Step) -> Vec<f64> {
    let of = |latency: &Latency| {
        let percentiles = LINES.map(|(_, q, _)| *latency.percentiles.at(q));
        percentiles
            .into_iter()
            .flat_map(|known| known.value.into_iter().chain(known.interval.into_iter().flatten()))
    };
    let all = of(&step.naive).chain(of(&step.corrected));
    all.filter(|us| 0.0 < *us).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knee::knee;
    use crate::queues::{Queue, asked};

    fn steps() -> Vec<Step> {
        ["100", "400", "900", "1200"].map(|rate| Queue::serial_ms().run(&asked(rate, 10))).to_vec()
    }

    #[test]
    fn chosen_times_are_written_as_briefly_as_they_were_chosen() {
        let times = [0.5, 20.0, 1_000.0, 1_500.0, 2e6].map(bound);
        assert_eq!(times, ["500 ns", "20 µs", "1 ms", "1.5 ms", "2 s"]);
    }

    #[test]
    fn a_plot_has_its_axes_lines_bands_and_knee() {
        let steps = steps();
        let text = svg("http://h/?a=1&b=<2>", &steps, Mark::of_knee(&knee(&steps)).as_ref())
            .expect("it is drawn");
        for part in [
            "intended rate, requests per second",
            "latency",
            ">\n500\n<",
            ">\n1 ms\n<",
            ">\n10 ms\n<",
            "p99.9 corrected",
            "p50 naive",
            "<polygon",
            "knee 900–1,200/s",
            "width=\"100%\" viewBox=\"0 0 640 520\"",
            "a=1&amp;b=&lt;2&gt;",
        ] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
        assert!(text.trim_end().ends_with("</svg>"));
        let narrow = Knee { to: Some(920.0), rate: Some(909.9), ..knee(&steps) };
        let text = svg("x", &steps, Mark::of_knee(&narrow).as_ref()).expect("it is drawn");
        assert!(text.contains("knee 910/s"), "{text}");
        let without = svg("x", &steps, None).expect("it is drawn");
        assert!(!without.contains("knee"));
        let bracket = Bracket {
            passed: Some(880.0),
            failed: Some(916.0),
            undecided: Vec::new(),
            ended_by: None,
            complete: true,
        };
        let text = svg("x", &steps, Mark::of_bracket(&bracket).as_ref()).expect("it is drawn");
        assert!(text.contains("holds up to 880/s"), "{text}");
    }

    #[test]
    fn the_bounds_of_objectives_are_drawn_and_labelled() {
        let queue = Queue { slo_ms: Some(20.0), ..Queue::serial_ms() };
        let steps = ["100", "900"].map(|rate| queue.run(&asked(rate, 10)));
        let text = svg("x", &steps, None).expect("it is drawn");
        assert!(text.contains("p99 &lt; 20 ms"), "{text}");
        // A bound far from all latencies is on the plot as well.
        let far = Queue { slo_ms: Some(30_000.0), ..queue };
        let steps = [far.run(&asked("100", 10))];
        let text = svg("x", &steps, None).expect("it is drawn");
        assert!(text.contains("p99 &lt; 30 s") && text.contains(">\n10 s\n<"), "{text}");
        assert!(
            !svg("x", &[Queue::serial_ms().run(&asked("100", 10))], None)
                .expect("it is drawn")
                .contains("&lt;")
        );
    }

    #[test]
    fn a_line_passes_through_the_median_of_a_rate() {
        let runs = [(100.0, 2.0), (200.0, 9.0), (200.0, 3.0), (200.0, 4.0), (400.0, 5.0)];
        assert_eq!(medians(runs.into_iter()), [(100.0, 2.0), (200.0, 4.0), (400.0, 5.0)]);
        assert_eq!(medians([(100.0, 2.0), (100.0, 5.0)].into_iter()), [(100.0, 3.5)]);
    }

    #[test]
    fn what_has_no_latency_is_not_drawn() {
        assert!(svg("x", &[], None).is_err());
        let one = &steps()[..1];
        svg("x", one, None).expect("one step is a plot");
    }
}
