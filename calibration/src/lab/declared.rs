//! The figures and plots that a definition declares, evaluated over its runs' documents.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::definition::{Definition, LineDefinition, PlotDefinition, as_text};
use super::error::LabError;
use super::expressions::{Expressions, set};
use super::latencies::percentiles;
use super::plot::{Axis, Line, Plot, lines};

/// The figures, added to the computed ones: those of tables first, since others derive from them.
///
/// # Errors
/// An expression leads nowhere, or a figure can't be at its path.
pub(super) fn figures(
    definition: &Definition,
    expressions: &mut Expressions,
    computed: Value,
) -> Result<Value, LabError> {
    let mut figures = computed;
    expressions.learn_all("figures", &figures);
    for table in &definition.tables {
        for (row, it) in &table.rows {
            let it = as_text(row, it)?;
            let pointer = format!("/{}", row.replace('.', "/"));
            for (name, expression) in &table.figures {
                let so_far = figures.pointer(&pointer);
                let value = expressions.in_row(as_text(name, expression)?, it, so_far)?;
                set(&mut figures, &format!("{row}.{name}"), value)?;
            }
        }
        expressions.learn_all("figures", &figures);
    }
    for (path, expression) in &definition.figures {
        let value = expressions.value(as_text(path, expression)?)?;
        set(&mut figures, path, value)?;
        expressions.learn_all("figures", &figures);
    }
    Ok(figures)
}

/// The plots; those that runs write are in `folder`.
///
/// # Errors
/// A line leads nowhere, or a plot has nothing to draw.
pub(super) fn plots(
    definition: &Definition,
    expressions: &Expressions,
    folder: &Path,
) -> Result<Vec<Plot>, LabError> {
    let mut plots = Vec::new();
    for plot in &definition.plots {
        if !plot.lines.is_empty() {
            plots.push(drawn(plot, expressions)?);
        } else if let Ok(svg) = fs::read_to_string(folder.join(&plot.file)) {
            plots.push(Plot { file: plot.file.clone(), title: plot.title.clone(), svg });
        }
    }
    Ok(plots)
}

fn drawn(plot: &PlotDefinition, expressions: &Expressions) -> Result<Plot, LabError> {
    let line = |line: &LineDefinition| {
        let value = expressions.value(&line.of)?;
        let points = if value.is_array() {
            serde_json::from_value(value).map_err(LabError::figures)?
        } else {
            percentiles(&serde_json::from_value(value).map_err(LabError::figures)?)?
        };
        Ok(Line { name: line.name.clone(), points, dashed: line.dashed, ..Line::default() })
    };
    let of_lines = plot.lines.iter().map(line).collect::<Result<Vec<_>, LabError>>()?;
    let x = plot.x.as_deref().map_or(Axis::percentiles("percentile"), Axis::linear);
    let y = if plot.log.unwrap_or(plot.x.is_none()) { Axis::log } else { Axis::linear };
    lines(&plot.file, &plot.title, x, y(&plot.y), of_lines)
}
