//! The command `agent`: offers load for controllers, until a signal ends it.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use agents::admission::Admission;
use agents::agent::{self, AgentConfig, AgentError, End, Over};
use agents::key::{KEY_VARIABLE, Key};
use agents::listener::ListenError;
use humantime::format_rfc3339_millis;

use crate::args::AgentArgs;
use crate::failure::{EXIT_COULD_NOT_RUN, EXIT_INTERRUPTED, Failure, complain};
use crate::output::say;
use crate::signals::{self, StopRequest};

/// Serves controllers.
pub(crate) fn agent(args: AgentArgs) -> Result<ExitCode, Failure> {
    let stop = StopRequest::listen()?;
    signals::end_with_parent(args.end_with_parent)?;
    let config = config(args)?;
    let mut unsaid = None;
    let served = agent::serve(
        config,
        move || stop.asked(),
        |at, event| {
            // What controllers send must not make a line of its own.
            let line: String = event.to_string().chars().filter(|it| !it.is_control()).collect();
            // The reader is gone, or the disk is full: the agent goes on.
            if let Err(failure) = say(&format!("{} {line}\n", format_rfc3339_millis(at))) {
                unsaid.get_or_insert(failure);
            }
        },
    );
    if let Some(failure) = unsaid {
        complain(&failure.to_string());
    }
    Ok(match served.map_err(not_served)? {
        End::Asked { cut_short: true } => ExitCode::from(EXIT_INTERRUPTED),
        End::Asked { cut_short: false } | End::Once(Over::Collected) => ExitCode::SUCCESS,
        End::Once(_) => ExitCode::from(EXIT_COULD_NOT_RUN),
    })
}

fn config(args: AgentArgs) -> Result<AgentConfig, Failure> {
    let key = Key::find(args.key_file.as_deref(), env::var_os(KEY_VARIABLE).as_deref());
    let key = key.map_err(|error| Failure::Usage(error.to_string()))?;
    let state_dir = args.state_dir.or_else(state_folder).ok_or_else(|| {
        Failure::Usage(
            "--state-dir '': there is no home folder, and XDG_STATE_HOME isn't an absolute path; \
             name a folder"
                .to_owned(),
        )
    })?;
    Ok(AgentConfig {
        listen: args.listen,
        key,
        admission: Admission {
            targets: args.allow_targets,
            rate_max: args.max_rate,
            conns_max: args.max_conns,
            duration_max: args.max_duration,
            files_max: args.max_files.map(|mebibytes| mebibytes << 20),
        },
        cores: args.cores,
        source_addresses: args.source_addresses,
        state_dir,
        once: args.once,
    })
}

/// The user's folder for persistent state; `None` if there is none.
fn state_folder() -> Option<PathBuf> {
    let named = env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    // By the XDG Base Directory Specification, a relative path counts as none.
    let named = named.filter(|path| path.is_absolute());
    let state = named.or_else(|| Some(env::home_dir()?.join(".local/state")))?;
    state.is_absolute().then(|| state.join("truetail"))
}

fn not_served(error: AgentError) -> Failure {
    let line = error.to_string();
    match error {
        AgentError::Key(_)
        | AgentError::Placement(_)
        | AgentError::StateDir { .. }
        | AgentError::Listen(ListenError::Key(_)) => Failure::Usage(line),
        AgentError::Host(_)
        | AgentError::Listen(ListenError::Address { .. })
        | AgentError::Thread(_) => Failure::CouldNotRun(line),
    }
}
