//! The command `verify`: checks a report against itself and against the raw samples of its run, and
//! the document of a sweep, a search or a ceiling against its steps.

use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::report::{AgentPart, Report};
use engine::verify::{UNCHECKED, merge_proof, report_alone, with_samples};

use crate::args::VerifyArgs;
use crate::failure::{EXIT_COULD_NOT_RUN, Failure};
use crate::json::Document;
use crate::output::say;
use crate::text::extent::Extent;
use crate::{json, samples, text};

/// The checks of a report alone.
const REPORT: &str = "counts, percentiles, schedule and verdict follow from the report's own \
                      histograms and plan";
/// The checks of a report with its samples.
const SAMPLES: &str = "counts, percentiles, schedule and verdict follow from the report's own \
                       histograms and plan, and from the raw samples of each request";
/// The checks of a document of many runs.
const STEPS: &str = "the answer follows from the steps";

/// Prints the differences, or each check; the exit code is 1 if there is a difference.
pub(crate) fn verify(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let path = args.report.display();
    let cure = "name a file written by `run --out`";
    let file = File::open(&args.report).map_err(|error| {
        Failure::Usage(format!("REPORT {path}: can't be read ({error}); {cure}"))
    })?;
    for file in args.raw.iter().filter(|file| !file.is_dir()) {
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
    let mut proof = None;
    let (findings, checked, unchecked) = match document {
        Document::Sweep(sweep) => (probe::verify::sweep(&sweep), STEPS, probe::verify::UNCHECKED),
        Document::Search(search) => {
            (probe::verify::search(&search), STEPS, probe::verify::UNCHECKED)
        }
        Document::Ceiling(ceiling) => {
            (probe::verify::ceiling(&ceiling), STEPS, probe::verify::UNCHECKED_OF_CEILING)
        }
        Document::Report(report) => {
            let mut findings = report_alone(&report);
            if !args.raw.is_empty() {
                let files = files_of(&report, &args.raw)?;
                let files: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
                findings.extend(with_samples(&report, &files));
                // A file that can't be read has a finding.
                proof = merge_proof(&report, &files).ok().flatten();
            }
            (findings, if args.raw.is_empty() { REPORT } else { SAMPLES }, UNCHECKED)
        }
    };
    let differs = findings.iter().any(|finding| !finding.ok);
    if args.quiet {
        say(&text::verify::differing(&findings))?;
    } else {
        let extent = Extent::of(args.details);
        say(&text::verify::findings(&findings, checked, unchecked, extent))?;
        if let Some(proof) = proof.filter(|_| args.details) {
            say(&format!("\n{}", text::verify::merge_proof(&proof)))?;
        }
    }
    Ok(if differs { ExitCode::from(EXIT_COULD_NOT_RUN) } else { ExitCode::SUCCESS })
}

/// The files of samples, one for each agent in their order: from a folder by the names in the
/// report, else those named.
///
/// # Errors
/// An agent has none in the folder.
fn files_of(report: &Report, raw: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let name_of = |agent: &AgentPart| {
        let file = agent.samples.as_ref()?.file.as_ref()?;
        Path::new(file).file_name().map(OsStr::to_owned)
    };
    let folder = match raw {
        [folder] if folder.is_dir() => folder,
        files => {
            // A shell lists the files of a folder in an order of its own.
            let named = |agent: &AgentPart| {
                let name = name_of(agent)?;
                files.iter().find(|file| file.file_name() == Some(&name)).cloned()
            };
            let in_order: Option<Vec<PathBuf>> = report.per_agent.iter().map(named).collect();
            let in_order = in_order.filter(|in_order| in_order.len() == files.len());
            return Ok(in_order.unwrap_or_else(|| files.to_vec()));
        }
    };
    let of_agent = |agent: &AgentPart| {
        let name = name_of(agent).ok_or_else(|| {
            Failure::Usage(format!(
                "--raw {}: the report has no samples of agent {}; collect them with `controller \
                 --raw`",
                folder.display(),
                agent.name
            ))
        })?;
        let path = folder.join(name);
        samples::open("--raw", &path)?;
        Ok(path)
    };
    report.per_agent.iter().map(of_agent).collect()
}
