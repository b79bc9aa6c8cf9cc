//! The command `verify`: checks a report against itself and against the raw samples of its run, the
//! document of a sweep, a search or a ceiling against its steps, and that of a comparison against
//! its own figures and the reports that it is of, if they are still there.

use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::report::{AgentPart, Report};
use engine::samples::{last_segment, segment_path};
use engine::verify::{
    Finding, UNCHECKED, UNCHECKED_ALONE, merge_proof, missing_log, report_alone, with_samples,
};
use probe::ab::{AbDocument, Turn};
use probe::compare::Comparison;
use probe::verify_comparison;

use crate::args::VerifyArgs;
use crate::failure::{EXIT_COULD_NOT_RUN, Failure};
use crate::json::Document;
use crate::output::say;
use crate::report::read;
use crate::text::extent::Extent;
use crate::text::verify::Unchecked;
use crate::{json, samples, text};

/// What the checks of a document of many runs show, and what a difference shows.
const STEPS: [&str; 2] =
    ["the answer follows from the steps", "the answer doesn't follow from the steps"];
/// The same for a comparison without its reports.
const COMPARISON: [&str; 2] = [
    "what is called follows from the figures; the reports that it is of are not beside it",
    "what is called doesn't follow from the figures",
];
/// The same for a comparison with its reports.
const COMPARISON_OF_REPORTS: [&str; 2] = [
    "every figure follows from the reports that it is of",
    "not every figure follows from the reports that it is of",
];
/// The same for a comparison by slices without their reports.
const SLICES: [&str; 2] =
    ["every change follows from the slices", "not every change follows from the slices"];
/// The same for a comparison by slices with their reports.
const SLICES_OF_REPORTS: [&str; 2] = [
    "every change follows from the slices, and they from their reports",
    "not every change follows from the slices, and they from their reports",
];

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
    let of_many = |findings, shown: [&str; 2], unchecked: &str| {
        let unchecked = Unchecked { brief: "", whole: unchecked.to_owned() };
        (findings, shown.map(str::to_owned), unchecked)
    };
    let (findings, checked, unchecked) = match document {
        Document::Sweep(sweep) => {
            of_many(probe::verify::sweep(&sweep), STEPS, probe::verify::UNCHECKED)
        }
        Document::Search(search) => {
            of_many(probe::verify::search(&search), STEPS, probe::verify::UNCHECKED)
        }
        Document::Ceiling(ceiling) => {
            of_many(probe::verify::ceiling(&ceiling), STEPS, probe::verify::UNCHECKED_OF_CEILING)
        }
        Document::Comparison(comparison) => {
            let (findings, has_reports) = of_runs(&args.report, &comparison);
            let checked = if has_reports { COMPARISON_OF_REPORTS } else { COMPARISON };
            of_many(findings, checked, verify_comparison::UNCHECKED)
        }
        Document::Ab(ab) => {
            let (findings, has_reports) = of_slices(&args.report, &ab);
            let checked = if has_reports { SLICES_OF_REPORTS } else { SLICES };
            of_many(findings, checked, verify_comparison::UNCHECKED_OF_SLICES)
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
            let log = missing_log(&report);
            let has_samples = !args.raw.is_empty();
            (findings, of_report(log, has_samples), unchecked(log, has_samples))
        }
    };
    let differs = findings.iter().any(|finding| !finding.ok);
    if args.quiet {
        say(&text::verify::differing(&findings))?;
    } else {
        let extent = Extent::of(args.details);
        say(&text::verify::findings(&findings, &checked, &unchecked, extent))?;
        if let Some(proof) = proof.filter(|_| args.details) {
            say(&format!("\n{}", text::verify::merge_proof(&proof)))?;
        }
    }
    Ok(if differs { ExitCode::from(EXIT_COULD_NOT_RUN) } else { ExitCode::SUCCESS })
}

/// The checks of a comparison of runs, and whether the reports that it is of are there.
fn of_runs(document: &Path, comparison: &Comparison) -> (Vec<Finding>, bool) {
    let files = [&comparison.a, &comparison.b]
        .map(|side| side.reports.iter().map(|named| beside(document, named)).collect::<Vec<_>>());
    let are_there = files.iter().all(|side| !side.is_empty() && side.iter().all(|it| it.is_file()));
    if !are_there {
        return (verify_comparison::of_runs(comparison, None), false);
    }
    let read = |side: &Vec<PathBuf>| side.iter().map(|path| read(path)).collect();
    let sides: Result<Vec<Vec<Report>>, Failure> = files.iter().map(read).collect();
    let findings = match sides.as_deref() {
        Ok([a, b]) => verify_comparison::of_runs(comparison, Some([a, b])),
        Ok(_) => unreachable!("there are two sides"),
        Err(problem) => {
            let mut findings = verify_comparison::of_runs(comparison, None);
            findings.push(Finding::new("reports", "those compared", problem, false));
            findings
        }
    };
    (findings, true)
}

/// The checks of a comparison by slices, and whether their reports are there.
fn of_slices(document: &Path, ab: &AbDocument) -> (Vec<Finding>, bool) {
    let folder = ab.reports.as_ref().map(|named| beside(document, named));
    let folder = folder.filter(|folder| folder.is_dir());
    let report = |turn: Turn| {
        let path = folder.as_ref()?.join(text::ab::file_name(turn));
        Some(read(&path).map_err(|problem| problem.to_string()))
    };
    (verify_comparison::of_slices(ab, report), folder.is_some())
}

/// A file that a document names: in the document's folder, if one of this name is there, else where
/// it was when the document was written.
fn beside(document: &Path, named: &Path) -> PathBuf {
    let near = named.file_name().map(|name| document.with_file_name(name));
    near.filter(|near| near.exists()).unwrap_or_else(|| named.to_owned())
}

/// What the checks of a report show, and what a difference shows; without the log that was
/// replayed, the schedule isn't among them.
fn of_report(missing_log: Option<&Path>, has_samples: bool) -> [String; 2] {
    let (subject, log) = match missing_log {
        None => ("counts, percentiles, schedule and verdict", String::new()),
        Some(log) => (
            "counts, percentiles and verdict",
            format!("; the schedule wasn't checked, since {} can't be read", log.display()),
        ),
    };
    let samples = if has_samples { ", and from the raw samples of each request" } else { "" };
    ["follow", "don't all follow"].map(|verb| {
        format!("{subject} {verb} from the report's own histograms, plan and figures{samples}{log}")
    })
}

/// What the checks of a report leave out.
fn unchecked(missing_log: Option<&Path>, has_samples: bool) -> Unchecked {
    let log =
        missing_log.map(|log| format!("what was read of {}, and the schedule", log.display()));
    let alone = (!has_samples).then(|| UNCHECKED_ALONE.to_owned());
    let parts: Vec<String> = log.into_iter().chain(alone).chain([UNCHECKED.to_owned()]).collect();
    let brief = match has_samples {
        true => "the generator's own figures, label, start, address, machine",
        false => "URLs, the generator's own figures, label, address, machine",
    };
    Unchecked { brief, whole: parts.join("; ") }
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
            // A shell lists later segments too, which belong to the first one's file.
            let mut later = Vec::new();
            for first in files {
                later.extend((2..=last_segment(first)).map(|segment| segment_path(first, segment)));
            }
            let files: Vec<PathBuf> =
                files.iter().filter(|file| !later.contains(file)).cloned().collect();
            // A shell lists the files of a folder in an order of its own.
            let named = |agent: &AgentPart| {
                let name = name_of(agent)?;
                files.iter().find(|file| file.file_name() == Some(&name)).cloned()
            };
            let in_order: Option<Vec<PathBuf>> = report.per_agent.iter().map(named).collect();
            let in_order = in_order.filter(|in_order| in_order.len() == files.len());
            return Ok(in_order.unwrap_or(files));
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

#[cfg(test)]
mod tests {
    use engine::plan::Plan;
    use engine::plan::scenario::{Scenario, Step};
    use engine::record::outcome::Outcome;
    use engine::record::stamps::{Ending, StampedBy, Stamps};
    use engine::sys::units::Nanos;
    use probe::ab::{AbPlan, Name, Slice};
    use probe::compare::{Allowed, MARGIN, compare};
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::*;
    use crate::text::made_up;

    /// The report of a run of two scenarios, in which responses take this many times 100 µs.
    fn run(seed: u64, factor: u64) -> Report {
        let scenario = |name: &str| Scenario {
            name: name.to_owned(),
            weight: 1,
            step: vec![Step { url: Some(format!("/{name}")), ..Step::default() }],
            ..Scenario::default()
        };
        let plan = Plan {
            target: "http://127.0.0.1:1/".to_owned(),
            scenario: vec![scenario("home"), scenario("search")],
            rate: Some("200".parse().expect("a rate")),
            duration: Nanos::from_secs(6),
            warmup: Nanos(0),
            seed,
            ..Plan::default()
        };
        let plan = plan.complete(&[0]).expect("a plan that runs");
        let fate = |due_ns: u64| {
            let (noticed_ns, sent_ns) = (due_ns + 100, due_ns + 200);
            let stamps = Stamps {
                intended_ns: due_ns,
                noticed_ns,
                sent_ns,
                waited: false,
                step: 0,
                session: None,
            };
            let received_ns = sent_ns + factor * (100_000 + due_ns % 20_011);
            let ending =
                Ending { received_ns, handled_ns: received_ns, stamped_by: StampedBy::Kernel };
            let status = if due_ns.is_multiple_of(8) { 503 } else { 200 };
            (stamps, ending, Outcome::Answered(status))
        };
        let recorded = made_up::record(&plan, (0, 1), fate, |_, _, _| {});
        made_up::report(&plan, vec![recorded], None)
    }

    /// The paths of all values in a document, without lists and objects.
    fn value_paths(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                map.iter()
                    .for_each(|(key, value)| value_paths(value, &format!("{path}/{key}"), found));
            }
            Value::Array(list) => {
                let values = list.iter().enumerate();
                values.for_each(|(at, value)| value_paths(value, &format!("{path}/{at}"), found));
            }
            _ => found.push(path.to_owned()),
        }
    }

    /// The paths whose value may be changed without a finding.
    fn unseen<T>(document: &T, findings: impl Fn(&T) -> Vec<Finding>) -> Vec<String>
    where
        T: Serialize + DeserializeOwned,
    {
        let wrong = |document: &T| findings(document).into_iter().filter(|it| !it.ok);
        assert_eq!(wrong(document).collect::<Vec<Finding>>(), []);
        let document = serde_json::to_value(document).expect("a document");
        let mut paths = Vec::new();
        value_paths(&document, "", &mut paths);
        assert!(100 < paths.len(), "{}", paths.len());
        paths.retain(|path| {
            let mut changed = document.clone();
            let value = changed.pointer_mut(path).expect("a value");
            *value = match &*value {
                Value::Null => Value::from(0.5),
                Value::Bool(truth) => Value::from(!truth),
                Value::Number(number) => match number.as_u64() {
                    Some(count) => Value::from(count + 1),
                    None => Value::from(number.as_f64().expect("a number") * 1.02 + 0.001),
                },
                Value::String(text) if path.ends_with("/change") => {
                    Value::from(if text == "same" { "worse" } else { "same" })
                }
                Value::String(text) => Value::from(format!("{text}0")),
                other => other.clone(),
            };
            let changed = serde_json::from_value::<T>(changed);
            changed.is_ok_and(|changed| wrong(&changed).next().is_none())
        });
        paths
    }

    #[test]
    fn each_changed_figure_of_a_comparison_is_found_by_its_reports() {
        let (a, b) = ([run(1, 1), run(2, 1)], [run(3, 2), run(4, 2)]);
        let allowed = Allowed { invalid: true, ..Allowed::default() };
        let comparison = compare(&a, &b, MARGIN, allowed).expect("runs of one plan");
        assert_eq!(comparison.parts.len(), 2);
        let by_reports =
            |it: &Comparison| verify_comparison::of_runs(it, Some([a.as_slice(), b.as_slice()]));
        // Without any interval, another margin calls the same.
        let by_reports = unseen(&comparison, by_reports);
        assert!(by_reports.iter().all(|path| path == "/margin"), "{by_reports:?}");
        // Without them, what is called still follows from the figures.
        for path in unseen(&comparison, |it| verify_comparison::of_runs(it, None)) {
            let follows = ["/change", "/ratio", "/difference", "/schema", "/confidence", "/unit"];
            assert!(follows.iter().all(|name| !path.ends_with(name)), "{path} was not found");
        }
    }

    #[test]
    fn each_changed_figure_of_slices_is_found_by_their_reports() {
        let factor = |of: Name| if of == Name::A { 1 } else { 2 };
        let turns = probe::ab::turns(5).filter(|turn| 0 < turn.pair);
        let made: Vec<(Turn, Report)> =
            turns.map(|turn| (turn, run(turn.pair as u64, factor(turn.of)))).collect();
        let slices = made.iter().map(|(turn, report)| Slice::new(*turn, report)).collect();
        let asked = AbPlan { pairs: 5, margin: MARGIN, allow_invalid: true };
        let document = AbDocument::new(&asked, slices);
        assert_eq!(document.comparison.parts.len(), 2);
        let report = |turn: Turn| {
            let found = made.iter().find(|(other, _)| *other == turn);
            found.map(|(_, report)| Ok(report.clone()))
        };
        let by_reports = |it: &AbDocument| verify_comparison::of_slices(it, report);
        // Whether invalid slices count makes no difference without one that the generator spoilt.
        let makes_none = "/allow_invalid";
        let by_reports = unseen(&document, by_reports);
        assert!(by_reports.iter().all(|path| path == makes_none), "{by_reports:?}");
        for path in unseen(&document, |it| verify_comparison::of_slices(it, |_| None)) {
            assert!(path.starts_with("/slices/") || path == makes_none, "{path} was not found");
        }
    }
}
