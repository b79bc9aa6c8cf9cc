//! Flamegraphs as SVG.

use std::collections::BTreeMap;
use std::io::{self, Write};

use inferno::flamegraph::color::{Color, MultiPalette, Palette, PaletteMap};
use inferno::flamegraph::{Options, TextTruncateDirection, from_lines};

use crate::cost::Cost;
use crate::names::label;

/// The caption of a graph: a title and a line below it.
pub(crate) struct Caption {
    /// The title.
    pub(crate) title: String,
    /// The line below it.
    pub(crate) subtitle: String,
    /// The unit of a frame's figure, and the factor from the cost's unit.
    pub(crate) unit: (&'static str, f64),
}

/// The unit of a cost per request.
pub(crate) const PER_REQUEST: (&str, f64) = ("ns per request", 1e-3);

fn options<'a>(caption: Caption) -> Options<'a> {
    let mut options = Options::default();
    options.title = caption.title;
    options.subtitle = Some(caption.subtitle);
    (options.count_name, options.factor) = (caption.unit.0.to_owned(), caption.unit.1);
    // Kernel functions, inlined ones, other Rust and the rest each have a colour, and a function
    // has the same shade in every graph.
    options.colors = Palette::Multi(MultiPalette::Java);
    options.hash = true;
    // The start of a name is more informative than its end, above all for kernel functions.
    options.text_truncate_direction = TextTruncateDirection::Right;
    options
}

/// Draws one profile.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write(cost: &Cost, caption: Caption, writer: impl Write) -> io::Result<()> {
    let frames = |stack: &str| stack.split(';').map(label).collect::<Vec<&str>>().join(";");
    let lines: Vec<String> =
        cost.iter().map(|(stack, ps)| format!("{} {ps}", frames(stack))).collect();
    from_lines(&mut options(caption), lines.iter().map(String::as_str), writer)
}

/// Draws stacks whose frames are shaded from blue at -1 over grey to red at 1, by their names.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write_shaded(
    lines: &[String],
    shades: &BTreeMap<String, f64>,
    caption: Caption,
    writer: impl Write,
) -> io::Result<()> {
    let mut palette = PaletteMap::default();
    for (frame, shade) in shades {
        palette.insert(frame, colour(*shade));
    }
    let mut options = options(caption);
    options.palette_map = Some(&mut palette);
    from_lines(&mut options, lines.iter().map(String::as_str), writer)
}

const BLUE: [f64; 3] = [80.0, 120.0, 255.0];
const GREY: [f64; 3] = [230.0, 230.0, 230.0];
const RED: [f64; 3] = [255.0, 90.0, 80.0];

/// The colour of a shade. Any change at all is clearly different from grey.
fn colour(shade: f64) -> Color {
    let full = if shade < 0.0 { BLUE } else { RED };
    let part = if shade == 0.0 { 0.0 } else { 0.2 + 0.8 * shade.abs().min(1.0) };
    let mix = |at: usize| GREY[at] + (full[at] - GREY[at]) * part;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255")]
    let byte = |at: usize| mix(at).round() as u8;
    Color { r: byte(0), g: byte(1), b: byte(2) }
}
