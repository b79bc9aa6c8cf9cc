//! The binary `truetail`: words in, words out. It turns arguments into a plan, has the engine run it, and renders the report.
#![forbid(unsafe_code)]

mod args;
mod csv;
mod demo;
mod doctor;
mod failure;
mod hlog;
mod json;
mod null_target;
mod output;
mod planning;
mod progress;
mod run;
mod samples;
mod signals;
mod text;
mod verify;
mod witness;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use args::Command;
use clap::error::ErrorKind;
use engine::sys::placement;
use engine::sys::units::CoreList;
use failure::{EXIT_USAGE, Failure};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let cli = match args::parse(&args) {
        Ok(cli) => cli,
        Err(error) if tells_its_words(error.kind()) => {
            // Help that nobody reads to its end is no failure.
            let _ = error.print();
            return if error.use_stderr() { EXIT_USAGE.into() } else { ExitCode::SUCCESS };
        }
        Err(error) => {
            return Failure::Usage(args::one_line(&error, &args::help_for(&args))).report();
        }
    };
    let ended = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Samples(args) => samples::samples(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Doctor => doctor::doctor(),
        Command::Target(args) => witness::serve(args),
        Command::NullTarget(args) => null_target::serve(args),
        Command::Demo(args) => demo::demo(args),
        Command::Completions { shell } => words::completions(shell),
        Command::Man { command } => words::man(command.as_deref()),
    };
    ended.unwrap_or_else(|failure| failure.report())
}

/// Whether what the parser says is the help or the version, asked for or in place of a command that is missing.
fn tells_its_words(kind: ErrorKind) -> bool {
    use ErrorKind as Kind;
    matches!(
        kind,
        Kind::DisplayHelp | Kind::DisplayVersion | Kind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// The cores that a server was given, or the first allowed one: a run takes the last ones by default.
fn first_core_unless(given: Option<CoreList>) -> Vec<usize> {
    match given {
        Some(cores) => cores.as_slice().to_vec(),
        None => placement::allowed_cores()[..1].to_vec(),
    }
}
