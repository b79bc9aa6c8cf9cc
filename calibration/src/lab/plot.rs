//! Plots of the experiments as SVG: lines over two axes, each linear, logarithmic or of
//! percentiles.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::{
    ChartBuilder, Color as _, DashedLineSeries, DrawingArea, DrawingAreaErrorKind, DrawingBackend,
    IntoDrawingArea as _, IntoFont as _, LineSeries, PathElement, RGBColor, SVGBackend, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use probe::axes::{TICKS_MAX, around, ticks};
use probe::numbers::number;

use super::LabError;

/// Width and height in the drawing's own units; the drawing is as wide as there is room.
const SIZE: (u32, u32) = (720, 480);
/// Height above the axes, of the title.
const HEAD: u32 = 40;
/// Height of a line of the legend.
const ROW: u32 = 24;
/// Lines of the legend side by side.
const COLUMNS: usize = 2;
/// Told apart with any sight of colours.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 119, 187),
    RGBColor(204, 51, 17),
    RGBColor(0, 120, 90),
    RGBColor(238, 119, 51),
    RGBColor(120, 60, 140),
    RGBColor(90, 90, 90),
];
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);
const FONT: &str = "sans-serif";

/// How numbers lie on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// By their logarithms.
    Log,
    /// Percentiles, each as the number of requests of which one lies beyond it: 100 for p99.
    Percentiles,
}

/// An axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a> {
    /// What it shows, with the unit.
    pub name: &'a str,
    /// How numbers lie on it.
    pub scale: Scale,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// What it is.
    pub name: &'a str,
    /// Its points, from left to right. Those that a logarithmic axis has no place for aren't drawn.
    pub points: Vec<(f64, f64)>,
    /// Whether it is dashed.
    pub dashed: bool,
}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for LabError {
    fn from(error: DrawingAreaErrorKind<E>) -> LabError {
        LabError::figures(format!("the plot can't be drawn ({error})"))
    }
}

impl Axis<'_> {
    /// The axis around these numbers; `None` without any that have a place on it.
    fn around(&self, numbers: impl Iterator<Item = f64>) -> Option<Span> {
        let scale = self.scale;
        match scale {
            Scale::Linear => {
                let top = numbers.fold(0.0, f64::max);
                (0.0 < top).then(|| Span { scale, range: 0.0..top * 1.05, ticks: even(top) })
            }
            Scale::Log => {
                let (low, high) = around(numbers.filter(|number| 0.0 < *number))?;
                Some(Span { scale, range: low..high, ticks: ticks(low, high) })
            }
            Scale::Percentiles => {
                let high = numbers.fold(10.0, f64::max);
                let decades = (1..8).map(|decade| 10_f64.powi(decade));
                let ticks = [1.0, 2.0].into_iter().chain(decades).filter(|tick| *tick <= high);
                Some(Span { scale, range: 1.0..high, ticks: ticks.collect() })
            }
        }
    }

    /// The label of a tick.
    fn label(&self, tick: f64) -> String {
        match self.scale {
            Scale::Linear | Scale::Log => number(tick),
            Scale::Percentiles => format!("p{}", (100.0 * (1.0 - 1.0 / tick) * 1e4).round() / 1e4),
        }
    }
}

/// An axis with its ends and ticks.
#[derive(Clone, Debug)]
struct Span {
    scale: Scale,
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Span {
    /// Whether a number has a place on it.
    fn has(&self, number: f64) -> bool {
        self.scale == Scale::Linear || 0.0 < number
    }

    fn place(&self, number: f64) -> f64 {
        if self.scale == Scale::Linear { number } else { number.log10() }
    }
}

impl Ranged for Span {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    #[expect(clippy::cast_possible_truncation, reason = "a place in a drawing")]
    fn map(&self, number: &f64, (from, to): (i32, i32)) -> i32 {
        let [low, high, at] = [self.range.start, self.range.end, *number].map(|n| self.place(n));
        from + (f64::from(to - from) * (at - low) / (high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Round numbers from zero to `top`: steps of 1, 2 or 5 times a power of ten.
fn even(top: f64) -> Vec<f64> {
    let decade = 10_f64.powf((top / 8.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|steps| steps * decade);
    let step = step.into_iter().find(|step| top / step <= 8.0).unwrap_or(top);
    (0..=8).map(|at| f64::from(at) * step).take_while(|tick| *tick <= top * 1.05).collect()
}

/// Draws lines.
///
/// # Errors
/// There is nothing to draw, or the library draws none.
pub fn lines(title: &str, x: Axis, y: Axis, lines: &[Line]) -> Result<String, LabError> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    draw(&area, title, x, y, lines)?;
    area.present()?;
    drop(area);
    let size = format!("width=\"{}\" height=\"{}\"", SIZE.0, SIZE.1);
    Ok(text.replacen(&size, "width=\"100%\"", 1))
}

fn draw<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    title: &str,
    x: Axis,
    y: Axis,
    lines: &[Line],
) -> Result<(), LabError>
where
    B::ErrorType: 'static,
{
    let points = || lines.iter().flat_map(|line| &line.points);
    let across = x.around(points().map(|point| point.0));
    let Some((across, up)) = across.zip(y.around(points().map(|point| point.1))) else {
        return Err(LabError::figures(format!("the plot `{title}` has nothing to draw")));
    };
    let rows = u32::try_from(lines.len().div_ceil(COLUMNS)).expect("a plot has few lines");
    area.fill(&plotters::style::WHITE)?;
    let (head, rest) = area.split_vertically(HEAD);
    let (body, legend) = rest.split_vertically(SIZE.1 - HEAD - rows * ROW - ROW / 2);
    let text = |size: u32| (FONT, size).into_font().color(&INK);
    let width = i32::try_from(SIZE.0).expect("the width is a constant");
    let centred = Pos::new(HPos::Center, VPos::Center);
    head.draw(&Text::new(title.to_owned(), (width / 2, 20), text(18).pos(centred)))?;
    let mut chart = ChartBuilder::on(&body)
        .margin_right(28)
        .margin_left(8)
        .x_label_area_size(52)
        .y_label_area_size(84)
        .build_cartesian_2d(across.clone(), up.clone())?;
    chart
        .configure_mesh()
        .x_desc(x.name)
        .y_desc(y.name)
        .x_label_formatter(&|tick| x.label(*tick))
        .y_label_formatter(&|tick| y.label(*tick))
        .x_labels(TICKS_MAX)
        .y_labels(TICKS_MAX)
        .bold_line_style(GRID)
        .light_line_style(plotters::style::TRANSPARENT)
        .axis_style(INK)
        .label_style(text(15))
        .axis_desc_style(text(16))
        .draw()?;
    for (at, line) in lines.iter().enumerate() {
        let style = COLOURS[at % COLOURS.len()].stroke_width(2);
        let drawn = line.points.iter().filter(|point| across.has(point.0) && up.has(point.1));
        let drawn = drawn.copied();
        if line.dashed {
            chart.draw_series(DashedLineSeries::new(drawn, 6, 4, style))?;
        } else {
            chart.draw_series(LineSeries::new(drawn, style))?;
        }
        let cell = |at: usize| i32::try_from(at).expect("a plot has few lines");
        let row = i32::try_from(ROW).expect("a height") * cell(at / COLUMNS) + 12;
        let column = 40 + cell(at % COLUMNS) * (width - 40) / cell(COLUMNS);
        let dash = if line.dashed { 6 } else { 36 };
        for from in (column..column + 36).step_by(if line.dashed { 10 } else { 36 }) {
            legend.draw(&PathElement::new([(from, row), (from + dash, row)], style))?;
        }
        let beside = text(15).pos(Pos::new(HPos::Left, VPos::Center));
        legend.draw(&Text::new(line.name.to_owned(), (column + 44, row), beside))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_axes_and_lines() {
        let naive = Line { name: "naive <1>", points: vec![(1.0, 1.0), (1e3, 2.0)], dashed: true };
        let points = vec![(1.0, 1.0), (100.0, 41.0), (1e3, 50.0)];
        let corrected = Line { name: "corrected", points, dashed: false };
        let x = Axis { name: "percentile", scale: Scale::Percentiles };
        let y = Axis { name: "latency, ms", scale: Scale::Log };
        let text = lines("stall", x, y, &[naive, corrected]).expect("it is drawn");
        for part in
            ["percentile", "latency, ms", ">\np99\n<", ">\np99.9\n<", ">\n10\n<", "naive &lt;1&gt;"]
        {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
        assert!(text.contains("width=\"100%\" viewBox") && text.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn what_has_no_points_is_not_drawn() {
        let axis = Axis { name: "x", scale: Scale::Log };
        assert!(lines("x", axis, axis, &[]).is_err());
        let zero = Line { name: "zero", points: vec![(1.0, 0.0)], dashed: false };
        assert!(lines("x", axis, axis, &[zero]).is_err());
    }

    #[test]
    fn ticks_of_a_linear_axis_are_round() {
        assert_eq!(even(8.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!(even(1_000.0), [0.0, 200.0, 400.0, 600.0, 800.0, 1_000.0]);
    }
}
