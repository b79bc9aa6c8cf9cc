//! The binary `truetail`: arguments in, report out. It turns arguments into a plan, has the engine
//! run it, and renders the report.
//!
//! # Where to start
//!
//! `main` below parses the command line and calls the file of the command. Start with [`run`]: all
//! commands that load a URL work the same way.
//!
//! 1. [`args`] reads the command line; the flags of the commands that load a URL are the table
//!    `args/flags.rs`.
//! 2. [`planning`] lays flags over the plan file, and that over the defaults: the result is an
//!    `engine::plan::Plan`.
//! 3. [`sink`] opens the files of the results before anything runs.
//! 4. [`drive`] has `engine::run` make the run, to its end or to the first signal, while
//!    [`progress`] or [`live`] shows it. [`agent_group`] does the same for a run on agents.
//! 5. [`sink`] writes the files, [`text`] renders the summary, and [`gate`] decides the exit code.
//!
//! # The modules
//!
//! - **One run:** [`run`] here, [`controller`] on agents, [`demo`] as a demonstration.
//! - **Many runs from one plan,** which the crate `probe` decides: [`sweep`], [`search`] and
//!   [`ceiling`] over [`series`], and [`ab`].
//! - **Plans from other tools' files:** [`import`].
//! - **A run while it goes on:** [`drive`], [`agent_group`], [`progress`], [`live`], [`recent`],
//!   [`signals`].
//! - **Files of results:** [`sink`], [`output`]; one for each format: [`csv`], [`hgrm`], [`hlog`],
//!   [`junit`], [`ndjson`], [`prom`], [`flamegraph`].
//! - **Saved documents, read again:** [`report`], [`compare`], [`verify`], [`samples`],
//!   [`flamediff`], [`page`].
//! - **Whether the numbers are true,** by the crate `calibration`: [`calibrate`], [`truth`],
//!   [`experiment`], [`saved`].
//! - **Whether other load generators' numbers are true,** by the crate `judge`: [`mod@judge`].
//! - **Beside a run:** [`agent`], the servers [`target_server`] and [`null_target`], and [`doctor`]
//!   for this machine.
//! - **For all of them:** [`text`] alone lays out text, [`json`] alone knows JSON, [`failure`] is the
//!   one error, a whole line with an exit code, and [`panics`] ends the process on a fault of ours.
//!
//! The engine's errors are values, and it prints nothing: all text for users is from this crate.
//! ARCHITECTURE.md, in the repository's root, shows where to add a flag or a file of results.
#![forbid(unsafe_code)]

mod ab;
mod agent;
mod agent_group;
mod args;
mod calibrate;
mod ceiling;
mod compare;
mod controller;
mod csv;
mod demo;
mod discovery;
mod doctor;
mod drive;
mod experiment;
mod failure;
mod flamediff;
mod flamegraph;
mod gate;
mod generate;
mod hgrm;
mod hidden_terminal;
mod hlog;
mod import;
mod json;
mod judge;
mod junit;
mod live;
mod ndjson;
mod null_process;
mod null_target;
mod output;
mod page;
mod panics;
mod planning;
mod progress;
mod prom;
mod recent;
mod report;
mod run;
mod samples;
mod saved;
mod search;
mod series;
mod signals;
mod sink;
mod sweep;
mod target_server;
mod text;
mod truth;
mod verify;

use std::process::ExitCode;

use args::Command;
use clap::error::ErrorKind;
use console::Term;
use failure::{EXIT_USAGE, Failure};

fn main() -> ExitCode {
    panics::end_on_panic();
    if let Some((_, columns)) = Term::stdout().size_checked() {
        text::layout::fit(columns.into());
    }
    let args = args::completed(std::env::args_os().collect());
    if let Some(answer) = args::answer(&args) {
        return Failure::Usage(answer).report();
    }
    if let Err(line) = args::check_variables(&args) {
        return Failure::Usage(line).report();
    }
    let cli = match args::parse(&args) {
        Ok(cli) => cli,
        Err(error) if is_help_or_version(error.kind()) => {
            return match error.print().or_else(output::stdout_failed) {
                Ok(()) if error.use_stderr() => EXIT_USAGE.into(),
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => failure.report(),
            };
        }
        Err(error) => {
            return Failure::Usage(args::one_line(&error, &args)).report();
        }
    };
    let ended = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Controller(args) => controller::controller(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Search(args) => search::search(&args),
        Command::Ceiling(args) => ceiling::ceiling(&args),
        Command::Ab(args) => ab::ab(&args),
        Command::Samples(args) => samples::samples(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Report(args) => report::report(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Flamediff(args) => flamediff::flamediff(&args),
        Command::Import(args) => import::import(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Target(args) => target_server::serve(*args),
        Command::NullTarget(args) => null_target::serve(args),
        Command::Agent(args) => agent::agent(*args),
        Command::Calibrate(args) if args.truth => truth::truth(&args),
        Command::Calibrate(args) => calibrate::calibrate(&args),
        Command::Experiment(args) => experiment::experiment(&args),
        Command::Judge(args) => judge::judge(&args),
        Command::Demo(args) => demo::demo(args),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { out: Some(folder), .. } => generate::man_pages(&folder),
        Command::Man { command, out: None } => generate::man(command.as_deref()),
    };
    ended.unwrap_or_else(|failure| failure.report())
}

/// True if the parser's "error" is the help or the version, including the help shown when the
/// command is missing.
fn is_help_or_version(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}
