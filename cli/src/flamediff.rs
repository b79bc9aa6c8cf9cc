//! The command `flamediff`: the difference between the profiles of two runs, per request.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use profile::{Cost, Difference, Format};

use crate::args::FlamediffArgs;
use crate::failure::{Failure, complain};
use crate::output::{OutputFile, require_distinct, say, stdout_failed};
use crate::signals::StopRequest;
use crate::{json, text};

/// Compares two profiles, prints the largest changes, and draws the difference.
pub(crate) fn flamediff(args: &FlamediffArgs) -> Result<ExitCode, Failure> {
    let mut files = vec![("BEFORE", args.before.clone()), ("AFTER", args.after.clone())];
    // One profile may be compared with itself, but not overwritten.
    files.dedup_by(|a, b| a.1 == b.1);
    files.extend(args.out.clone().map(|out| ("--out", out)));
    require_distinct(&files)?;
    if let Some(out) = args.out.as_ref().filter(|out| Format::of(out) != Some(Format::Svg)) {
        return Err(Failure::Usage(format!("--out {}: name it .svg", out.display())));
    }
    let (before, after) = (read("BEFORE", &args.before)?, read("AFTER", &args.after)?);
    let difference = Difference::new(&before, &after);
    if let Some(out) = &args.out {
        let file = OutputFile::open("--out", out, &StopRequest::default())?;
        file.finish(|writer| difference.write_svg(&before, &after, writer))?;
    }
    if args.json {
        json::write(&difference, io::stdout().lock()).or_else(stdout_failed)?;
    } else {
        say(&text::flamediff::difference(&difference))?;
    }
    if difference.one_without_kernel {
        complain(
            "only one of the profiles shows the kernel: in the other, its time counts for its \
             callers",
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn read(name: &str, path: &Path) -> Result<Cost, Failure> {
    Cost::read(path).map_err(|error| Failure::Usage(format!("{name} {}: {error}", path.display())))
}
