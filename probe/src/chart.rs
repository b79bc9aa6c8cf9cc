//! Charts as SVG: lines with bands over two axes, each linear, logarithmic or of percentiles.
//!
//! A chart has one set of colours, so that a page can replace them for dark mode.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::{
    ChartBuilder, Circle, Color as _, DashedLineSeries, DrawingArea, DrawingAreaErrorKind,
    DrawingBackend, EmptyElement, IntoDrawingArea as _, IntoFont as _, LineSeries, PathElement,
    Polygon, RGBColor, Rectangle, SVGBackend, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::numbers::number;

/// Width and height in the drawing's own units. Letters of 17 units are legible at 400 pixels, and
/// the drawing fills the available width.
const SIZE: (u32, u32) = (640, 520);
/// Height above the axes: of the title, and of the marked zone's name.
const HEAD: u32 = 56;
/// Height of a line of the legend.
const ROW: u32 = 24;
/// Room for the marked zone's name.
const LABEL: i32 = 180;
const CENTRED: Pos = Pos { h_pos: HPos::Center, v_pos: VPos::Center };
/// Distinguishable by the colour-blind.
pub const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 119, 187),
    RGBColor(204, 51, 17),
    RGBColor(0, 120, 90),
    RGBColor(238, 119, 51),
    RGBColor(120, 60, 140),
    RGBColor(90, 90, 90),
];
/// The colour of text, axes and marks.
pub const INK: RGBColor = RGBColor(40, 40, 40);
/// The colour of the grid.
pub const GRID: RGBColor = RGBColor(225, 225, 225);
/// The colour of the background.
pub const PAPER: RGBColor = plotters::style::WHITE;
const FONT: &str = "sans-serif";
/// The most ticks of an axis.
const TICKS_MAX: usize = 12;
/// The most decades of percentiles that each have a label.
const DECADES_MAX: i32 = 5;

/// Why nothing could be drawn.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotDrawn(String);

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for NotDrawn {
    fn from(error: DrawingAreaErrorKind<E>) -> NotDrawn {
        NotDrawn(error.to_string())
    }
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// By their logarithms.
    Log,
    /// Percentiles, each as the number of requests per one beyond it: 100 for p99.
    Percentiles,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis<'a> {
    /// Its quantity, with the unit unless the labels have one.
    pub name: &'a str,
    /// Its scale.
    pub scale: Scale,
    /// The format of a number.
    pub label: fn(f64) -> String,
    /// The range of the charts beside this one, which its axis covers as well.
    pub reach: Option<(f64, f64)>,
}

/// A line.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// The index of its colour.
    pub colour: usize,
    /// True if it is dashed.
    pub dashed: bool,
    /// Its points, from left to right. Those that a logarithmic axis can't show aren't drawn.
    pub points: Vec<(f64, f64)>,
    /// Points near the line, each drawn as a dot.
    pub dots: Vec<(f64, f64)>,
    /// The band around its points, from left to right.
    pub band: Vec<(f64, [f64; 2])>,
}

/// A reference value, drawn across the chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Its name.
    pub name: String,
    /// Its position on the vertical axis.
    pub at: f64,
}

/// A marked range of the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// Its name, above the axes.
    pub name: String,
    /// Its ends.
    pub between: (f64, f64),
    /// The position of a line in it.
    pub at: Option<f64>,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// The title; empty for none.
    pub title: &'a str,
    /// The horizontal axis.
    pub x: Axis<'a>,
    /// The vertical axis.
    pub y: Axis<'a>,
    /// The lines, in the order of the legend.
    pub lines: Vec<Line>,
    /// Names per row of the legend.
    pub columns: usize,
    /// Reference values.
    pub bounds: Vec<Bound>,
    /// The marked range.
    pub zone: Option<Zone>,
}

impl Chart<'_> {
    /// True if there is nothing to draw: no line has a point that both axes can show.
    pub fn is_empty(&self) -> bool {
        self.spans().is_none()
    }

    /// The least and the greatest value along each axis; `None` if there are none.
    pub fn ends(&self) -> Option<[(f64, f64); 2]> {
        let along = |axis: &Axis, of: fn((f64, f64)) -> f64| {
            ends(self.drawn().map(of).filter(|number| axis.scale.has(*number)))
        };
        Some([along(&self.x, |point| point.0)?, along(&self.y, |point| point.1)?])
    }

    /// Every point that the lines draw.
    fn drawn(&self) -> impl Iterator<Item = (f64, f64)> {
        self.lines.iter().flat_map(|line| {
            let bands = line.band.iter().flat_map(|(x, ends)| ends.map(|end| (*x, end)));
            line.points.iter().chain(&line.dots).copied().chain(bands)
        })
    }

    /// Draws it.
    ///
    /// # Errors
    /// There is nothing to draw, or the library fails.
    pub fn svg(&self) -> Result<String, NotDrawn> {
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        self.draw(&area)?;
        area.present()?;
        drop(area);
        let size = format!("width=\"{}\" height=\"{}\"", SIZE.0, SIZE.1);
        Ok(text.replacen(&size, "width=\"100%\"", 1))
    }

    /// The two axes around the points; `None` without any that they can show.
    fn spans(&self) -> Option<(Span, Span)> {
        let of_bounds = self.bounds.iter().map(|bound| bound.at);
        let across = self.x.around(self.drawn().map(|point| point.0))?;
        let up = self.y.around(self.drawn().map(|point| point.1).chain(of_bounds))?;
        let is_shown = |(x, y): (f64, f64)| self.x.scale.has(x) && self.y.scale.has(y);
        self.drawn().any(is_shown).then_some((across, up))
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), NotDrawn>
    where
        B::ErrorType: 'static,
    {
        let nothing = || NotDrawn(format!("`{}` has nothing to draw", self.title));
        let (across, up) = self.spans().ok_or_else(nothing)?;
        let width = i32::try_from(SIZE.0).expect("the width is a constant");
        let rows = u32::try_from(self.lines.len().div_ceil(self.columns)).expect("few lines");
        let head = if self.title.is_empty() && self.zone.is_none() { HEAD / 4 } else { HEAD };
        area.fill(&PAPER)?;
        let (head, rest) = area.split_vertically(head);
        let (body, legend) = rest
            .split_vertically(SIZE.1.saturating_sub(head.dim_in_pixel().1 + rows * ROW + ROW / 2));
        head.draw(&Text::new(self.title.to_owned(), (width / 2, 20), text(20).pos(CENTRED)))?;
        let mut chart = ChartBuilder::on(&body)
            .margin_right(24)
            .margin_left(8)
            .x_label_area_size(54)
            .y_label_area_size(92)
            .build_cartesian_2d(across.clone(), up.clone())?;
        chart
            .configure_mesh()
            .x_desc(self.x.name)
            .y_desc(self.y.name)
            .x_label_formatter(&|tick| (self.x.label)(*tick))
            .y_label_formatter(&|tick| (self.y.label)(*tick))
            .x_labels(TICKS_MAX)
            .y_labels(TICKS_MAX)
            .bold_line_style(GRID)
            .light_line_style(plotters::style::TRANSPARENT)
            .axis_style(INK)
            .label_style(text(17))
            .axis_desc_style(text(18))
            .draw()?;
        let (left, right) = (across.range.start, across.range.end);
        let (bottom, top) = (up.range.start, up.range.end);
        if let Some(Zone { name, between: (from, to), at }) = &self.zone {
            let zone = [(*from, bottom), (*to, top)];
            chart.draw_series([Rectangle::new(zone, INK.mix(0.12).filled())])?;
            if let Some(at) = *at {
                chart.draw_series([PathElement::new(vec![(at, bottom), (at, top)], INK)])?;
            }
            // Above the axes, where no line is drawn.
            let (x, _) = chart.backend_coord(&(at.unwrap_or((from * to).sqrt()), top));
            let above = (x.clamp(LABEL / 2, width - LABEL / 2), 44);
            head.draw(&Text::new(name.clone(), above, text(17).pos(CENTRED)))?;
        }
        let has_place = |(x, y): &(f64, f64)| across.scale.has(*x) && up.scale.has(*y);
        for line in &self.lines {
            let colour = COLOURS[line.colour % COLOURS.len()];
            let style = colour.stroke_width(2);
            let band: Vec<(f64, f64)> = line.outline().filter(has_place).collect();
            if 4 <= band.len() {
                let opacity = if line.dashed { 0.08 } else { 0.2 };
                chart.draw_series([Polygon::new(band, colour.mix(opacity).filled())])?;
            }
            let points = line.points.iter().copied().filter(has_place);
            if line.dashed {
                chart.draw_series(DashedLineSeries::new(points, 5, 4, style))?;
            } else {
                chart.draw_series(LineSeries::new(points, style))?;
            }
            let dots = line.dots.iter().copied().filter(has_place);
            chart.draw_series(dots.map(|dot| Circle::new(dot, 3, style)))?;
        }
        for Bound { name, at } in &self.bounds {
            let line = [(left, *at), (right, *at)];
            chart.draw_series(DashedLineSeries::new(line, 10, 4, INK.stroke_width(1)))?;
            let above = text(17).pos(Pos::new(HPos::Left, VPos::Bottom));
            let named = EmptyElement::at(line[0]) + Text::new(name.clone(), (6, -2), above);
            chart.draw_series([named])?;
        }
        for (at, line) in self.lines.iter().enumerate() {
            let cell = |at: usize| i32::try_from(at).expect("a chart has few lines");
            let row = i32::try_from(ROW).expect("a height") * cell(at / self.columns) + 14;
            let column = 40 + cell(at % self.columns) * (width - 40) / cell(self.columns);
            let style = COLOURS[line.colour % COLOURS.len()].stroke_width(2);
            let (dash, step) = if line.dashed { (5, 9) } else { (36, 36) };
            for from in (column..column + 36).step_by(step) {
                legend.draw(&PathElement::new([(from, row), (from + dash, row)], style))?;
            }
            if !line.dots.is_empty() {
                legend.draw(&Circle::new((column + 18, row), 3, style))?;
            }
            let style = text(17).pos(Pos::new(HPos::Left, VPos::Center));
            legend.draw(&Text::new(line.name.clone(), (column + 44, row), style))?;
        }
        Ok(())
    }
}

impl Line {
    /// The outline of its band: the upper ends from left to right, then the lower ends back.
    fn outline(&self) -> impl Iterator<Item = (f64, f64)> {
        let upper = self.band.iter().map(|(x, ends)| (*x, ends[1]));
        upper.chain(self.band.iter().rev().map(|(x, ends)| (*x, ends[0])))
    }
}

impl<'a> Axis<'a> {
    /// A linear axis of plain numbers.
    pub fn linear(name: &'a str) -> Axis<'a> {
        Axis { name, scale: Scale::Linear, label: number, reach: None }
    }

    /// A logarithmic axis of plain numbers.
    pub fn log(name: &'a str) -> Axis<'a> {
        Axis { scale: Scale::Log, ..Axis::linear(name) }
    }

    /// An axis of percentiles.
    pub fn percentiles(name: &'a str) -> Axis<'a> {
        Axis { scale: Scale::Percentiles, label: percentile, ..Axis::linear(name) }
    }

    /// The axis around these numbers; `None` if it can show none of them.
    fn around(&self, numbers: impl Iterator<Item = f64>) -> Option<Span> {
        let scale = self.scale;
        let reach = self.reach.into_iter().flat_map(|(low, high)| [low, high]);
        let (low, high) = ends(numbers.chain(reach).filter(|number| scale.has(*number)))?;
        match scale {
            Scale::Linear => {
                (0.0 < high).then(|| Span { scale, range: 0.0..high * 1.05, ticks: even(high) })
            }
            Scale::Log => {
                let margin = (high / low).powf(0.04).max(1.1);
                let (low, high) = (low / margin, high * margin);
                Some(Span { scale, range: low..high, ticks: round(low, high) })
            }
            Scale::Percentiles => {
                let high = high.max(10.0);
                let decades = (1..=12).map(|decade| 10_f64.powi(decade));
                let every = if 10_f64.powi(DECADES_MAX) < high { 2 } else { 1 };
                let ticks = [1.0, 2.0].into_iter().chain(decades.step_by(every));
                let ticks = ticks.filter(|tick| *tick <= high).collect();
                Some(Span { scale, range: 1.0..high, ticks })
            }
        }
    }
}

impl Scale {
    /// True if it can show a number.
    fn has(self, number: f64) -> bool {
        number.is_finite() && (self == Scale::Linear || 0.0 < number)
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

/// A text of this size.
fn text(size: u32) -> plotters::style::TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

/// The least and the greatest of some numbers; `None` if there are none.
pub fn ends(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    numbers.fold(None, |ends, number| match ends {
        None => Some((number, number)),
        Some((low, high)) => Some((low.min(number), high.max(number))),
    })
}

/// The name of a percentile with one request in `one_in` beyond it: `p99.9`.
fn percentile(one_in: f64) -> String {
    format!("p{}", (100.0 * (1.0 - 1.0 / one_in) * 1e10).round() / 1e10)
}

/// Round numbers from zero to `top`: steps of 1, 2 or 5 times a power of ten.
fn even(top: f64) -> Vec<f64> {
    let decade = 10_f64.powf((top / 8.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|steps| steps * decade);
    let step = step.into_iter().find(|step| top / step <= 8.0).unwrap_or(top);
    (0..=8).map(|at| f64::from(at) * step).take_while(|tick| *tick <= top * 1.05).collect()
}

/// Round numbers on a logarithmic axis: 1, 2 and 5 times powers of ten, or as many of them as fit.
fn round(low: f64, high: f64) -> Vec<f64> {
    let within = |steps: &[f64]| -> Vec<f64> {
        #[expect(clippy::cast_possible_truncation, reason = "a decade of a latency or a rate")]
        let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
        decades
            .flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)))
            .filter(|tick| (low..=high).contains(tick))
            .collect()
    };
    let fine: [&[f64]; 4] =
        [&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    let mut choices = fine.map(within).into_iter();
    choices.find(|ticks| ticks.len() <= TICKS_MAX).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(lines: Vec<Line>) -> Chart<'static> {
        Chart {
            title: "stall <1>",
            x: Axis::percentiles("percentile"),
            y: Axis::log("latency, ms"),
            lines,
            columns: 2,
            bounds: Vec::new(),
            zone: None,
        }
    }

    fn line(name: &str, points: &[(f64, f64)]) -> Line {
        Line { name: name.to_owned(), points: points.to_vec(), ..Line::default() }
    }

    #[test]
    fn a_chart_has_its_axes_lines_and_bands() {
        let naive = Line { dashed: true, ..line("naive", &[(1.0, 1.0), (1e3, 2.0)]) };
        let band = vec![(1.0, [0.5, 2.0]), (1e3, [30.0, 70.0])];
        let corrected = Line { band, ..line("corrected", &[(1.0, 1.0), (1e3, 50.0)]) };
        let text = chart(vec![naive, corrected]).svg().expect("it is drawn");
        for part in
            ["percentile", "latency, ms", ">\np99\n<", ">\np99.9\n<", ">\n10\n<", "stall &lt;1&gt;"]
        {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
        assert!(text.contains("<polygon"), "{text}");
        assert!(text.contains("width=\"100%\" viewBox=\"0 0 640 520\""), "{text}");
        assert!(text.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn an_axis_covers_the_range_of_those_beside_it() {
        let mut wide = chart(vec![line("x", &[(1.0, 1.0), (1e3, 2.0)])]);
        wide.x.reach = Some((1.0, 1e4));
        wide.y.reach = Some((1.0, 1e3));
        let text = wide.svg().expect("it is drawn");
        for label in [">\np99.99\n<", ">\n1,000\n<"] {
            assert!(text.contains(label), "`{label}` is missing in: {text}");
        }
    }

    #[test]
    fn a_chart_without_points_is_not_drawn() {
        assert!(chart(Vec::new()).svg().is_err());
        let zero = || chart(vec![line("zero", &[(1.0, 0.0)])]);
        let rates = Chart { y: Axis { scale: Scale::Linear, ..zero().y }, ..zero() };
        for none in [zero(), rates] {
            assert!(none.is_empty() && none.svg().is_err());
        }
        let bound = vec![Bound { name: "p99 < 1 ms".to_owned(), at: 1.0 }];
        assert!(Chart { bounds: bound, ..chart(Vec::new()) }.svg().is_err());
    }

    #[test]
    fn percentiles_have_their_names() {
        assert_eq!([1.0, 2.0, 1e3, 1e7].map(percentile), ["p0", "p50", "p99.9", "p99.99999"]);
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(
            round(90.0, 1_100.0),
            [100.0, 150.0, 200.0, 300.0, 400.0, 500.0, 600.0, 800.0, 1_000.0]
        );
        assert_eq!(
            round(0.9, 11_000.0),
            [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0]
        );
        assert_eq!(even(8.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!(even(1_000.0), [0.0, 200.0, 400.0, 600.0, 800.0, 1_000.0]);
    }
}
