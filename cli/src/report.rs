//! The command `report`: shows saved reports again, as text, as a page or as plots.
//!
//! Every command that reads a report uses this file, and refuses one that `verify` finds
//! inconsistent.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::report::{HistogramError, Report};
use engine::verify::{Finding, report_in_brief};

use crate::args::ReportArgs;
use crate::failure::Failure;
use crate::json::{self, Document};
use crate::output::{OutputFile, require_distinct, say};
use crate::page::{self, Named};
use crate::signals::StopRequest;
use crate::text::extent::Extent;
use crate::text::slo::shown_as;
use crate::text::summary::summary;
use crate::text::verdict::coloured;

/// Writes the page, the plots or both; without either, prints the summaries.
pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let files = args.reports.iter().map(|path| ("REPORT", path.clone()));
    // A report may be compared with itself, but not overwritten.
    let files: BTreeSet<(&str, PathBuf)> = files.collect();
    let mut files: Vec<(&str, PathBuf)> = files.into_iter().collect();
    files.extend(args.html.clone().map(|html| ("--html", html)));
    require_distinct(&files)?;
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Named { name, report: read(path)? })
    };
    let reports = args.reports.iter().map(named);
    let reports: Vec<Named> = reports.collect::<Result<_, Failure>>()?;
    if args.html.is_none() && args.svg.is_none() {
        return print(&reports, Extent::of(args.details));
    }
    let unreadable =
        |error: HistogramError| Failure::CouldNotRun(format!("REPORT: {error}; write it again"));
    if let Some(path) = &args.html {
        let file = OutputFile::open("--html", path, &StopRequest::default())?;
        let page = page::page(&reports).map_err(unreadable)?;
        file.finish(|writer| writer.write_all(page.as_bytes()))?;
    }
    if let Some(folder) = &args.svg {
        fs::create_dir_all(folder).map_err(|error| {
            Failure::Usage(format!(
                "--svg {}: can't be made ({error}); name a folder where you may write",
                folder.display()
            ))
        })?;
        let each = page::plots(&reports).map_err(unreadable)?;
        for (prefix, plots) in prefixes(&reports).iter().zip(each) {
            for plot in plots {
                let path = folder.join(format!("{prefix}{}.svg", plot.name));
                let file = OutputFile::open("--svg", &path, &StopRequest::default())?;
                file.finish(|writer| writer.write_all(plot.svg.as_bytes()))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The report of a run in a file given as REPORT.
///
/// # Errors
/// A file can't be read, as a usage error; it isn't a report; or the report contradicts itself.
pub(crate) fn read(path: &Path) -> Result<Report, Failure> {
    let shown = path.display();
    let cure = "name a file written by `run --out`";
    let file = File::open(path).map_err(|error| {
        Failure::Usage(format!("REPORT {shown}: can't be read ({error}); {cure}"))
    })?;
    let refuse = |problem: String| Failure::CouldNotRun(format!("REPORT {shown}: {problem}"));
    match json::read_document(BufReader::new(file)).map_err(|error| refuse(error.to_string()))? {
        Document::Report(report) => match report_in_brief(&report).iter().find(|it| !it.ok) {
            None => Ok(*report),
            Some(Finding { what, expected, found, .. }) => Err(refuse(format!(
                "contradicts itself: {what} is {found}, where {expected} follows from the rest; \
                 see `truetail verify {shown}`, and use the file as the run wrote it"
            ))),
        },
        Document::Sweep(_) | Document::Search(_) | Document::Ceiling(_) => {
            Err(refuse(format!("of many runs, where this takes one; {cure}")))
        }
        Document::Comparison(_) | Document::Ab(_) => {
            Err(refuse("a comparison, not a report; name the reports that it is of".to_owned()))
        }
    }
}

/// Prints the summaries, each below the name of its file if there are several.
fn print(reports: &[Named], extent: Extent) -> Result<ExitCode, Failure> {
    for (at, Named { name, report }) in reports.iter().enumerate() {
        if 1 < reports.len() {
            let gap = if at == 0 { "" } else { "\n" };
            say(&format!("{gap}{name}\n"))?;
        }
        let text = summary(report, &[], extent);
        say(&coloured(&text, shown_as(report.verdict.level, report.slo.as_ref())))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The prefix of the names of each report's plots: for several reports the name of its file, with a
/// number where two are equal.
fn prefixes(reports: &[Named]) -> Vec<String> {
    if reports.len() == 1 {
        return vec![String::new()];
    }
    let mut taken = BTreeSet::new();
    let prefix = |named: &Named| {
        let stem = named.name.strip_suffix(".json").unwrap_or(&named.name);
        let numbered = (2_usize..).map(|number| format!("{stem}-{number}-"));
        let mut names = std::iter::once(format!("{stem}-")).chain(numbered);
        let free = names.find(|name| taken.insert(name.clone()));
        free.expect("there are more numbers than reports")
    };
    reports.iter().map(prefix).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::reports::{part, report};

    #[test]
    fn plots_of_several_reports_have_names_of_their_own() {
        let named =
            |name: &str| Named { name: name.to_owned(), report: report(true, part(1, 1, 1, 1)) };
        assert_eq!(prefixes(&[named("a.json")]), [""]);
        let several = [named("a.json"), named("b"), named("a.json"), named("a.json")];
        assert_eq!(prefixes(&several), ["a-", "b-", "a-2-", "a-3-"]);
    }
}
