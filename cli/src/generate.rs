//! Shell completions and man pages, generated from the definition of the flags.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap_complete::Shell;

use crate::args;
use crate::failure::Failure;
use crate::output::say;

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut args::definition(), "truetail", &mut text);
    say(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the man page of the program or of one of its commands.
pub(crate) fn man(command: Option<&str>) -> Result<ExitCode, Failure> {
    let mut program = args::definition();
    program.build();
    let subject = match command {
        None => &program,
        Some(name) => program.find_subcommand(name).ok_or_else(|| {
            Failure::Usage(format!("COMMAND {name}: unknown command; see `truetail --help`"))
        })?,
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(subject.clone()).render(&mut text).expect("writing to memory succeeds");
    say(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the man pages of the program and of all its commands to a folder, one file each.
pub(crate) fn man_pages(folder: &Path) -> Result<ExitCode, Failure> {
    let written = fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(args::definition(), folder));
    written.map_err(|error| {
        let folder = folder.display();
        let cure = "name a folder where you may write";
        Failure::Usage(format!("--out {folder}: can't be written ({error}); {cure}"))
    })?;
    Ok(ExitCode::SUCCESS)
}
