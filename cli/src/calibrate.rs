//! The command `calibrate` without `--truth`: the generator's floor on this machine.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{self, ExitCode};

use calibration::cases::Size;
use calibration::floor::{Calibration, Display, Section, Setup};
use engine::plan::Plan;
use engine::plan::body::SharedBody;
use engine::run::Finished;

use crate::args::CalibrateArgs;
use crate::drive::{Extras, drive, drive_with, drive_with_extras};
use crate::failure::{EXIT_INTERRUPTED, Failure, complain, judged};
use crate::flamegraph::Flamegraph;
use crate::gate::Gate;
use crate::hidden_terminal::HiddenTerminal;
use crate::null_process::{NullTarget, cores_apart};
use crate::output::{self, OutputFile, Results, say};
use crate::progress::{Announce, ProgressLine, Shown, View};
use crate::signals::StopRequest;
use crate::sink::{EndedRun, Sinks};
use crate::text::calibrate as text;
use crate::{json, saved};

/// Measures section by section, and prints each as it ends.
pub(crate) fn calibrate(args: &CalibrateArgs) -> Result<ExitCode, Failure> {
    let shown = args.progress.shown()?;
    let stop = StopRequest::listen()?;
    let files = [("--out", args.out.as_ref()), ("--flamegraph", args.flamegraph.as_ref())];
    let named = files.into_iter().filter_map(|(flag, file)| Some((flag, file?.clone())));
    output::require_distinct(&named.collect::<Vec<_>>())?;
    let out = args.out.as_ref().map(|path| OutputFile::open("--out", path, &stop)).transpose()?;
    let mut flamegraph =
        args.flamegraph.as_ref().map(|path| Flamegraph::alone(path, &stop)).transpose()?;
    let (cores, target_cores) = cores_apart(args.cores.as_ref())?;
    let null_target = NullTarget::start(&target_cores)?;
    let raw = RawFile::named(&stop)?;
    let setup = Setup {
        null_target: null_target.address,
        target_cores,
        cores,
        wait: args.wait,
        size: if args.quick { Size::Smoke } else { Size::Full },
        raw: raw.0.clone(),
    };
    let mut calibration = Calibration::new(&setup);
    say(&text::head(&calibration))?;
    let mut results = Results::default();
    for section in Section::ALL {
        let run = |plan, display| run(plan, display, &stop, shown);
        let measured = calibration.measure(section, &setup, run);
        say(&text::section(&calibration, section))?;
        match measured {
            Ok(()) => {}
            Err(Failure::Interrupted) => calibration.interrupted = true,
            Err(failure) => {
                calibration.interrupted = true;
                results.failures.push(failure);
            }
        }
        if section == Section::Capacity
            && !calibration.interrupted
            && let Some(flamegraph) = flamegraph.take()
        {
            match profile(&mut calibration, &setup, flamegraph, &stop, shown, &mut results) {
                Err(Failure::Interrupted) => calibration.interrupted = true,
                made => results.failures.extend(made.err()),
            }
        }
        if calibration.interrupted {
            break;
        }
    }
    if let Some(out) = out {
        results.add(out.finish(|writer| json::write(&calibration, writer)));
    }
    let saved = if calibration.interrupted { None } else { save(&calibration, &stop) };
    say(&text::end(&calibration, &results.written, saved.as_deref()))?;
    let interrupted = calibration.interrupted.then(|| ExitCode::from(EXIT_INTERRUPTED));
    Ok(results.exit_code(interrupted.unwrap_or_else(|| judged(calibration.judgement()))))
}

/// Profiles the best closed loop, and writes the profile. A signal ends both the profile and the
/// calibration.
fn profile(
    calibration: &mut Calibration,
    setup: &Setup,
    mut flamegraph: Sinks,
    stop: &StopRequest,
    shown: Shown,
    results: &mut Results,
) -> Result<(), Failure> {
    let plan = calibration.plateau(setup).expect("the capacity was measured");
    let extras = Extras { sinks: Some(&mut flamegraph), ..Extras::default() };
    let body = SharedBody::default();
    let (finished, began) = drive_with_extras(plan, &body, stop, View::of(shown), extras)?;
    let report = &finished.report;
    calibration.interrupted |= report.interrupted;
    calibration.profile.clone_from(&report.profile);
    if let Some(profile) = &calibration.profile {
        say(&text::profile(profile))?;
    }
    flamegraph.finish(&EndedRun { finished: &finished, began, gate: &Gate::default() }, results);
    Ok(())
}

/// Saves the calibration for later runs, if possible: without that its figures are as good.
fn save(calibration: &Calibration, stop: &StopRequest) -> Option<PathBuf> {
    let saved = saved::save(calibration, stop);
    saved.inspect_err(|why| complain(&format!("the calibration isn't saved: {why}"))).ok()
}

fn run(
    plan: Plan,
    display: Display,
    stop: &StopRequest,
    shown: Shown,
) -> Result<Finished, Failure> {
    let body = SharedBody::default();
    let driven = match display {
        Display::User => drive(plan, &body, stop, View::of(shown)),
        Display::Off => drive(plan, &body, stop, View::of(Shown::Nothing)),
        Display::Hidden => {
            let hidden = HiddenTerminal::open().map_err(|error| {
                Failure::CouldNotRun(format!(
                    "the progress line: no terminal to draw it on ({error}); mount /dev/pts"
                ))
            })?;
            let term = hidden.term();
            let line = |plan: &Plan| Ok(ProgressLine::on(plan, term));
            drive_with(plan, &body, stop, Announce::Nothing, line, Extras::default())
        }
    };
    driven.map(|(finished, _)| finished)
}

/// The name of a file for raw samples, in the folder for temporary files. The file is removed with
/// it.
struct RawFile(PathBuf);

impl RawFile {
    fn named(stop: &StopRequest) -> Result<RawFile, Failure> {
        let path = env::temp_dir().join(format!("truetail-calibrate-{}.raw", process::id()));
        stop.covering(|| Ok((RawFile(path.clone()), Some(path))))
    }
}

impl Drop for RawFile {
    fn drop(&mut self) {
        // It exists only if a run with raw samples was made.
        let _ = fs::remove_file(&self.0);
    }
}
