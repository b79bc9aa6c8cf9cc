//! The command `null-target`: the cheapest possible server, until a signal ends it.

use std::process::ExitCode;

use calibration::null_target::{self, NullConfig, NullError};

use crate::args::NullTargetArgs;
use crate::failure::{Failure, refused};
use crate::output::say;
use crate::signals::{self, StopRequest};
use crate::target_server::{file, write};

/// Serves until a signal comes.
pub(crate) fn serve(args: NullTargetArgs) -> Result<ExitCode, Failure> {
    let stop = StopRequest::listen()?;
    signals::end_with_parent(args.end_with_parent)?;
    let scheme = args.tls.scheme();
    let issuer = file("--write-cacert", args.tls.write_cacert.as_deref(), &stop)?;
    let config = NullConfig {
        listen: args.place.listen,
        cores: args.place.cores(),
        conns_max: args.conns,
        tls: args.tls.tls,
    };
    let cores = config.cores.len();
    let target = null_target::start(config).map_err(|error| match error {
        NullError::NoCores
        | NullError::Core { .. }
        | NullError::Conns { .. }
        | NullError::OpenFiles { .. }
        | NullError::RaiseOpenFiles { .. } => Failure::Usage(error.to_string()),
        NullError::Ring { .. } => refused(cores, &error),
        NullError::Listen { .. } | NullError::Certificate(_) => {
            Failure::CouldNotRun(error.to_string())
        }
    })?;
    write(issuer, target.issuer().unwrap_or_default())?;
    say(&format!("listening on {scheme}://{}/\n", target.local_addr()))?;
    stop.wait();
    let counts = target.stop();
    say(&format!("answered {} requests on {} connections\n", counts.requests, counts.connections))?;
    Ok(ExitCode::SUCCESS)
}
