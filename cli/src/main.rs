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

use std::process::ExitCode;

use args::Command;
use engine::placement;
use engine::units::CoreList;
use failure::Failure;

fn main() -> ExitCode {
    let cli = match args::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            return Failure::Usage(args::one_line(&error)).report();
        }
        Err(help) => {
            // Help that nobody reads to its end is no failure.
            let _ = help.print();
            return ExitCode::SUCCESS;
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

/// The cores that a server was given, or the first allowed one: a run takes the last ones by default.
fn first_core_unless(given: Option<CoreList>) -> Vec<usize> {
    match given {
        Some(cores) => cores.as_slice().to_vec(),
        None => placement::allowed_cores()[..1].to_vec(),
    }
}
