//! Plots of the experiments as SVG: lines, each in a colour of its own, over two axes.

pub use probe::chart::Scale;
use probe::chart::{self, Chart, NotDrawn};

use super::error::LabError;

/// The usual name of latencies, with their unit.
pub const LATENCY: &str = "latency, ms";

/// A plot.
#[derive(Debug)]
pub struct Plot {
    /// The name of its file.
    pub file: String,
    /// Its title.
    pub title: String,
    /// The drawing.
    pub svg: String,
}

/// An axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a> {
    /// Its quantity, with the unit.
    pub name: &'a str,
    /// Its scale.
    pub scale: Scale,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its points, from left to right. Those that a logarithmic axis can't show aren't drawn.
    pub points: Vec<(f64, f64)>,
    /// True if it is dashed.
    pub dashed: bool,
}

impl From<NotDrawn> for LabError {
    fn from(why: NotDrawn) -> LabError {
        LabError::figures(format!("the plot can't be drawn ({why})"))
    }
}

/// Latencies by percentile: `latency` names them, with the unit.
///
/// # Errors
/// As for [`lines`].
pub fn by_percentile(
    file: &str,
    title: &str,
    latency: &str,
    latencies: &[Line],
) -> Result<Plot, LabError> {
    let x = Axis { name: "percentile", scale: Scale::Percentiles };
    lines(file, title, x, Axis { name: latency, scale: Scale::Log }, latencies)
}

/// Lines.
///
/// # Errors
/// There is nothing to draw, or the library fails.
pub fn lines(file: &str, title: &str, x: Axis, y: Axis, lines: &[Line]) -> Result<Plot, LabError> {
    let lines = lines.iter().enumerate().map(|(colour, line)| chart::Line {
        name: line.name.to_owned(),
        colour,
        dashed: line.dashed,
        points: line.points.clone(),
        ..chart::Line::default()
    });
    let lines = lines.collect();
    let chart =
        Chart { title, x: x.of(), y: y.of(), lines, columns: 2, bounds: Vec::new(), zone: None };
    Ok(Plot { file: file.to_owned(), title: title.to_owned(), svg: chart.svg()? })
}

impl<'a> Axis<'a> {
    fn of(self) -> chart::Axis<'a> {
        match self.scale {
            Scale::Linear => chart::Axis::linear(self.name),
            Scale::Log => chart::Axis::log(self.name),
            Scale::Percentiles => chart::Axis::percentiles(self.name),
        }
    }
}
