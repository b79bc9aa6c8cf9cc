//! Plots of the experiments as SVG: lines, each in a colour of its own, over two axes.

pub use probe::chart::{Axis, Line};
use probe::chart::{Chart, NotDrawn};

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

impl From<NotDrawn> for LabError {
    fn from(why: NotDrawn) -> LabError {
        LabError::figures(format!("the plot can't be drawn ({why})"))
    }
}

/// A plot of these lines.
///
/// # Errors
/// There is nothing to draw, or the library fails.
pub fn lines(
    file: &str,
    title: &str,
    x: Axis,
    y: Axis,
    lines: Vec<Line>,
) -> Result<Plot, LabError> {
    let lines = lines.into_iter().enumerate().map(|(colour, line)| Line { colour, ..line });
    let lines = lines.collect();
    let chart = Chart { title, x, y, lines, columns: 2, bounds: Vec::new(), zone: None };
    Ok(Plot { file: file.to_owned(), title: title.to_owned(), svg: chart.svg()? })
}
