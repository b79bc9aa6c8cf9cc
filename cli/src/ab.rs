//! The command `ab`: loads two targets in alternating slices, and compares them.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use engine::plan::Plan;
use engine::plan::body::SharedBody;
use engine::plan::endpoint::Endpoint;
use engine::report::Report;
use probe::ab::{AbDocument, AbPlan, Name, Slice, Turn, turns};
use probe::compare::Change;

use crate::args::{AbArgs, ResultArgs, SLICES_MAX};
use crate::drive::{Extras, drive_with_extras, prepare};
use crate::failure::{EXIT_INTERRUPTED, EXIT_INVALID, EXIT_MISSED, Failure, complain, tell};
use crate::output::{OutputFile, Results, require_distinct, say};
use crate::progress::{Progress, Shown, View};
use crate::run::{check_files, note};
use crate::saved::Reference;
use crate::signals::StopRequest;
use crate::text::extent::Extent;
use crate::text::{ab as text, compare as compared, progress};
use crate::{json, planning};

/// Loads both targets in turn and compares them.
pub(crate) fn ab(args: &AbArgs) -> Result<ExitCode, Failure> {
    let (plan, wanted) = planning::plan(&["ab"], &args.run)?;
    let stop = StopRequest::listen()?;
    check_files(args.run.plan.as_ref(), &plan, &wanted, None)?;
    let reference = Reference::new(wanted.calibration.as_deref())?;
    if let Some(folder) = &args.reports {
        check_folder(folder, &wanted)?;
    }
    let out = wanted.files.get("out");
    let out = out.map(|out| OutputFile::open("--out", out, &stop)).transpose()?;
    let slices = Slices {
        args,
        plan,
        wanted: &wanted,
        shown: Progress::shown(wanted.progress, wanted.quiet)?,
        reference: &reference,
        body: SharedBody::default(),
        stop: &stop,
    };
    let takes = slices.check()?;
    if !wanted.quiet {
        tell(&takes);
    }
    let mut results = Results::default();
    let (document, failure) = slices.make(&mut results)?;
    wanted.assumed.iter().for_each(|assumed| complain(assumed));
    if let Some(out) = out {
        results.add(out.finish(|writer| json::write(&document, writer)));
    }
    let said = say(&text::ab(&document, &results.written, Extent::of(wanted.details)));
    results.failures.extend(said.err());
    let regressed = args.change.fail_on.is_some() && document.comparison.change == Change::Worse;
    Ok(results.exit_code(match failure {
        Some(failure) => failure.report(),
        None if document.interrupted => ExitCode::from(EXIT_INTERRUPTED),
        None if document.not_judged.is_some() => ExitCode::from(EXIT_INVALID),
        None if regressed => ExitCode::from(EXIT_MISSED),
        None if args.change.fail_on.is_some() && document.comparison.tells_nothing() => {
            complain(&compared::gate_lacks(&document.comparison));
            ExitCode::from(EXIT_INVALID)
        }
        None => ExitCode::SUCCESS,
    }))
}

/// Creates the folder for the slices' reports, and checks that no report is there already.
///
/// # Errors
/// The folder can't be used, or another flag names the same file.
fn check_folder(folder: &Path, wanted: &ResultArgs) -> Result<(), Failure> {
    let shown = folder.display();
    fs::create_dir_all(folder).map_err(|error| {
        let cure = "name a folder where you may write";
        Failure::Usage(format!("--reports {shown}: can't be created ({error}); {cure}"))
    })?;
    for turn in turns(SLICES_MAX) {
        let name = text::file_name(turn);
        let report = folder.join(&name);
        // Reports of a longer comparison would remain, and pass for slices of this one.
        if report.exists() {
            let cure = "name another folder, or remove the reports in it";
            return Err(Failure::Usage(format!("--reports {shown}: has {name} already; {cure}")));
        }
        if let Some(out) = wanted.files.get("out") {
            require_distinct(&[("--reports", report), ("--out", out.clone())])?;
        }
    }
    Ok(())
}

/// A failure of one side, whose URL isn't `--target` here.
fn of_side(failure: Failure, of: Name) -> Failure {
    let named = |line: String| match line.strip_prefix("--target ") {
        Some(rest) => format!("URL-{} {rest}", text::name(of)),
        None => line,
    };
    match failure {
        Failure::Usage(line) => Failure::Usage(named(line)),
        Failure::CouldNotRun(line) => Failure::CouldNotRun(named(line)),
        Failure::Lacks(what, line) => Failure::Lacks(what, named(line)),
        other => other,
    }
}

/// The slices to make.
struct Slices<'a> {
    args: &'a AbArgs,
    /// The plan of side A, except for its seed.
    plan: Plan,
    wanted: &'a ResultArgs,
    /// How a slice's progress is shown.
    shown: Shown,
    reference: &'a Reference,
    /// The body of all slices, which the first one reads.
    body: SharedBody,
    stop: &'a StopRequest,
}

impl Slices<'_> {
    /// Checks that either target can be loaded; returns the total length of all slices.
    ///
    /// # Errors
    /// The plan can't run against one of them, or a signal came.
    fn check(&self) -> Result<String, Failure> {
        self.check_routes()?;
        let first = |of| {
            let plan = self.plan_of(Turn { pair: 0, of });
            prepare(plan, self.body.clone(), self.stop).map_err(|failure| of_side(failure, of))
        };
        let a = first(Name::A)?;
        first(Name::B)?;
        self.check_urls()?;
        Ok(progress::slices_take(a.plan(), turns(self.args.slices).count() as u64))
    }

    /// Checks that two URLs make different requests on each route.
    fn check_routes(&self) -> Result<(), Failure> {
        let urls = |of| {
            let requests = self.plan_of(Turn { pair: 0, of }).requests().into_iter();
            requests.map(|request| request.target).collect::<Vec<String>>()
        };
        let same = urls(Name::A).into_iter().zip(urls(Name::B)).position(|(a, b)| a == b);
        if let Some(at) = same.filter(|_| self.plan.target != self.args.url_b) {
            return Err(Failure::Usage(format!(
                "--targets #{}: URL-A and URL-B lead to the same URL; give its path instead of a \
                 URL, and sides on different hosts",
                at + 1
            )));
        }
        Ok(())
    }

    /// Checks that two URLs on one server make different requests.
    fn check_urls(&self) -> Result<(), Failure> {
        let (flag, place) = match (self.plan.connect_to.first(), &self.plan.unix) {
            (Some(place), _) => ("--connect-to", place.clone()),
            (None, Some(socket)) => ("--unix", socket.display().to_string()),
            (None, None) => return Ok(()),
        };
        let (a, b) = (Endpoint::parse(&self.plan.target), Endpoint::parse(&self.args.url_b));
        if a != b {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "{flag} {place}: both URLs ask this server for the same; give them different hosts or \
             paths, or omit it"
        )))
    }

    /// The plan of a slice: both slices of a pair have the same seed.
    fn plan_of(&self, turn: Turn) -> Plan {
        let seed = self.plan.seed.wrapping_add(turn.pair as u64);
        let side = |target: &str| Plan { target: target.to_owned(), seed, ..self.plan.clone() };
        let (a, b) = (side(&self.plan.target), side(&self.args.url_b));
        let (mut plan, other) = match turn.of {
            Name::A => (a, b),
            Name::B => (b, a),
        };
        plan.drop_places_of(&other);
        plan
    }

    /// Makes the slices, to the end, to the first signal or to the first failure; returns the
    /// comparison, and the failure if there was one.
    ///
    /// # Errors
    /// The first slice failed: nothing was measured.
    fn make(&self, results: &mut Results) -> Result<(AbDocument, Option<Failure>), Failure> {
        let asked = AbPlan {
            pairs: self.args.slices,
            margin: self.args.change.margin,
            allow_invalid: self.wanted.allow_invalid,
        };
        let (mut first, mut slices) = (None, Vec::new());
        let (mut failure, mut interrupted) = (None, false);
        for turn in turns(self.args.slices) {
            let report = match self.slice(turn) {
                Ok(report) => report,
                Err(failure) if first.is_none() => return Err(failure),
                Err(Failure::Interrupted) => {
                    interrupted = true;
                    break;
                }
                Err(problem) => {
                    failure = Some(problem);
                    break;
                }
            };
            interrupted = report.interrupted;
            if 0 < turn.pair {
                self.write(turn, &report, results);
                // An interrupted slice has a shorter window than its partner.
                slices.extend((!interrupted).then(|| Slice::new(turn, &report)));
            }
            first.get_or_insert((report.config.plan, report.environment));
            if interrupted {
                break;
            }
        }
        let (plan, environment) = first.unzip();
        let document = AbDocument {
            interrupted: interrupted || failure.is_some(),
            error: failure.as_ref().map(ToString::to_string),
            plan,
            environment,
            reports: self.args.reports.clone(),
            ..AbDocument::new(&asked, slices)
        };
        Ok((document, failure))
    }

    fn slice(&self, turn: Turn) -> Result<Report, Failure> {
        let label = text::label(turn, self.args.slices);
        let extras = Extras { reference: Some(self.reference), ..Extras::default() };
        let (mut finished, _) = drive_with_extras(
            self.plan_of(turn),
            &self.body,
            self.stop,
            View { label: &label, ..View::of(self.shown) },
            extras,
        )
        .map_err(|failure| of_side(failure, turn.of))?;
        note(&mut finished.report, self.wanted);
        Ok(finished.report)
    }

    /// Writes the report of a slice, if asked for.
    fn write(&self, turn: Turn, report: &Report, results: &mut Results) {
        let Some(folder) = &self.args.reports else { return };
        let write = |path: &Path| {
            let file = OutputFile::open("--reports", path, self.stop)?;
            file.finish(|writer| json::write(report, writer))
        };
        match write(&folder.join(text::file_name(turn))) {
            Ok(_) => {}
            Err(failure) => results.failures.push(failure),
        }
    }
}
