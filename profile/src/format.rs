//! The file formats of profiles, recognised by their names.

use std::io::{self, Write};
use std::path::Path;
use std::{fs, str};

use engine::report::Report;

use crate::conditions::Conditions;
use crate::cost::{Cost, NotAProfile};
use crate::recording::Recording;
use crate::{pprof_file, svg};

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
    /// The endings, for messages.
    pub const ENDINGS: &str = ".svg, .folded or .pb.gz";

    /// The format of a file, by its name.
    pub fn of(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_str()?;
        [(".svg", Format::Svg), (".folded", Format::Folded), (".pb.gz", Format::Pprof)]
            .into_iter()
            .find_map(|(ending, format)| name.ends_with(ending).then_some(format))
    }
}

impl Recording {
    /// Writes the profile of this run in a format.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, report: &Report, format: Format, writer: impl Write) -> io::Result<()> {
        let profile = self.profile(report.whole.rate.answered);
        let cost = Cost::new(&self.stacks, &profile, Conditions::new(&profile, report));
        match format {
            Format::Svg => svg::write(&cost, self.caption(&profile), writer),
            Format::Folded => cost.write_folded(writer),
            Format::Pprof => pprof_file::write(self, &cost, writer),
        }
    }
}

impl Cost {
    /// Reads a file that was written as [`Format::Folded`] or [`Format::Pprof`].
    ///
    /// # Errors
    /// It isn't one.
    pub fn read(path: &Path) -> Result<Cost, NotAProfile> {
        let bytes = || fs::read(path).map_err(NotAProfile::Unreadable);
        let cost = match Format::of(path) {
            Some(Format::Pprof) => pprof_file::read(&bytes()?).map_err(NotAProfile::Contents)?,
            Some(Format::Folded) => {
                let bytes = bytes()?;
                let text = str::from_utf8(&bytes);
                Cost::of_folded(text.map_err(|error| NotAProfile::Contents(error.to_string()))?)?
            }
            Some(Format::Svg) | None => return Err(NotAProfile::Ending),
        };
        match cost.whole() {
            0 => Err(NotAProfile::Contents("it holds no stacks".to_owned())),
            _ if !cost.conditions().per_request => Err(NotAProfile::WithoutRequests),
            _ => Ok(cost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::tests::conditions;

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

    #[test]
    fn errors_name_what_is_wrong_with_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, contents: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, contents).expect("written");
            path
        };
        let read = |name: &str, contents: &[u8]| Cost::read(&write(name, contents));
        let said = |name: &str, contents: &[u8]| {
            let error = read(name, contents).expect_err(name).to_string();
            assert!(error.contains("`run --flamegraph`"), "{error}");
            error
        };
        assert!(said("a.svg", b"<svg/>").contains("name a .folded or .pb.gz file"));
        assert!(said("a.json", b"{}").contains("by its name"));
        let with = |stacks: &str, conditions: Conditions| {
            format!("{}\n{stacks}", conditions.line()).into_bytes()
        };
        let per_request = |stacks: &str| with(stacks, conditions(3));
        assert!(said("a.folded", b"main;foo 100\n").contains("doesn't say what its figures are"));
        let time = Conditions { per_request: false, ..conditions(3) };
        assert!(
            Cost::read(&write("a.folded", &with("a;b 1\n", time)))
                .expect_err("no answers")
                .to_string()
                .contains("its run had no answers")
        );
        assert!(said("a.folded", &per_request("")).contains("no stacks"));
        assert!(said("a.folded", &per_request("a;b 0\n")).contains("no stacks"));
        assert!(said("a.folded", &per_request("a;b 1\n\na;c\n")).contains("line 4"));
        assert!(said("a.folded", &per_request("a;b -1\n")).contains("line 2"));
        assert!(said("a.folded", b"\xff 1\n").contains("utf-8"));
        assert!(said("a.pb.gz", b"no").contains("gzip"));
        let missing = Cost::read(&folder.path().join("none.folded")).expect_err("missing");
        assert!(missing.to_string().contains("can't be read"), "{missing}");
        let cost = read("a.folded", &per_request("a b;c 1\na b;c 2\n")).expect("a profile");
        assert_eq!((cost.whole(), cost.conditions()), (3, &conditions(3)));
        let most = format!("a {0}\nb {0}\n", u64::MAX);
        assert_eq!(read("a.folded", &per_request(&most)).expect("a profile").whole(), u64::MAX);
    }
}
