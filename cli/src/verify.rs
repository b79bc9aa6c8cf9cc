//! The command `verify`: checks a report against itself and against the raw samples of its run, and
//! the document of a sweep, a search or a ceiling against its steps.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use engine::verify::{UNCHECKED, report_alone, with_samples};

use crate::args::VerifyArgs;
use crate::failure::{EXIT_COULD_NOT_RUN, Failure};
use crate::json::Document;
use crate::output::say;
use crate::{json, samples, text};

/// Prints each check; the exit code is 1 if one found a difference.
pub(crate) fn verify(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let path = args.report.display();
    let cure = "name a file written by `run --out`";
    let file = File::open(&args.report).map_err(|error| {
        Failure::Usage(format!("REPORT {path}: can't be read ({error}); {cure}"))
    })?;
    for file in &args.raw {
        samples::open("--raw", file)?;
    }
    let document = json::read_document(BufReader::new(file))
        .map_err(|error| Failure::CouldNotRun(format!("REPORT {path}: {error}")))?;
    let is_of_one = matches!(document, Document::Report(_));
    if let (Some(raw), false) = (args.raw.first(), is_of_one) {
        return Err(Failure::Usage(format!(
            "--raw {}: {path} is of many runs, which have no raw samples; omit it",
            raw.display()
        )));
    }
    let (findings, unchecked) = match document {
        Document::Sweep(sweep) => (probe::verify::sweep(&sweep), probe::verify::UNCHECKED),
        Document::Search(search) => (probe::verify::search(&search), probe::verify::UNCHECKED),
        Document::Ceiling(ceiling) => {
            (probe::verify::ceiling(&ceiling), probe::verify::UNCHECKED_OF_CEILING)
        }
        Document::Report(report) => {
            let mut findings = report_alone(&report);
            if !args.raw.is_empty() {
                let files: Vec<&Path> = args.raw.iter().map(AsRef::as_ref).collect();
                findings.extend(with_samples(&report, &files));
            }
            (findings, UNCHECKED)
        }
    };
    say(&text::verify::findings(&findings, unchecked))?;
    let differs = findings.iter().any(|finding| !finding.ok);
    Ok(if differs { ExitCode::from(EXIT_COULD_NOT_RUN) } else { ExitCode::SUCCESS })
}
