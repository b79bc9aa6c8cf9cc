//! Flamegraphs as SVG.

use std::io::{self, Write};

use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{Options, from_lines};

use crate::Cost;

/// What a graph is of: a title and a line below it.
pub(crate) struct Caption {
    /// The title.
    pub(crate) title: String,
    /// The line below it.
    pub(crate) subtitle: String,
    /// What a frame's figure is: its unit, and how many of the cost's make one.
    pub(crate) unit: (&'static str, f64),
}

/// The unit of a cost per request.
pub(crate) const PER_REQUEST: (&str, f64) = ("ns per request", 1e-3);

fn options(caption: Caption) -> Options<'static> {
    let mut options = Options::default();
    options.title = caption.title;
    options.subtitle = Some(caption.subtitle);
    (options.count_name, options.factor) = (caption.unit.0.to_owned(), caption.unit.1);
    // Kernel functions, inlined ones, other Rust and the rest each have a colour, and a function
    // has the same shade in every graph.
    options.colors = Palette::Multi(MultiPalette::Java);
    options.hash = true;
    options
}

/// Draws one profile.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write(cost: &Cost, caption: Caption, writer: impl Write) -> io::Result<()> {
    let lines: Vec<String> = cost.iter().map(|(stack, ps)| format!("{stack} {ps}")).collect();
    from_lines(&mut options(caption), lines.iter().map(String::as_str), writer)
}

/// Draws the second of two profiles, coloured by what each frame costs more or less than in the
/// first. `lines` are stacks with both costs.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write_difference(
    lines: &[String],
    caption: Caption,
    writer: impl Write,
) -> io::Result<()> {
    from_lines(&mut options(caption), lines.iter().map(String::as_str), writer)
}
