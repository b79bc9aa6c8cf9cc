//! The files that a profile can be written to, told apart by their names.

use std::path::Path;

/// A file format of profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A flamegraph to look at in a browser: `.svg`.
    Svg,
    /// Folded stacks, one a line, with their cost in picoseconds per request: `.folded`.
    Folded,
    /// The protobuf of pprof, compressed, for `go tool pprof` and its like: `.pb.gz`.
    Pprof,
}

impl Format {
    /// The endings, as a user is told them.
    pub const ENDINGS: &str = ".svg, .folded or .pb.gz";

    /// The format that a file's name asks for.
    pub fn of(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_str()?;
        [(".svg", Format::Svg), (".folded", Format::Folded), (".pb.gz", Format::Pprof)]
            .into_iter()
            .find_map(|(ending, format)| name.ends_with(ending).then_some(format))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides() {
        for (name, format) in [
            ("a.svg", Some(Format::Svg)),
            ("x/b.c.folded", Some(Format::Folded)),
            ("/tmp/p.pb.gz", Some(Format::Pprof)),
            ("p.gz", None),
            ("p.pb", None),
            ("svg", None),
            ("a.svg/", Some(Format::Svg)),
            ("a.SVG", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(Format::of(Path::new(name)), format, "{name}");
        }
    }
}
