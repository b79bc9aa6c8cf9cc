//! The command `null-target`: the cheapest possible server, until a signal ends it.

use std::process::ExitCode;

use calibration::null_target::{self, NullConfig, NullError};
use target::CertificateError;

use crate::args::NullTargetArgs;
use crate::failure::{Failure, refused};
use crate::output::say;
use crate::signals::{self, StopRequest};

/// Serves until a signal comes.
pub(crate) fn serve(args: NullTargetArgs) -> Result<ExitCode, Failure> {
    let stop = StopRequest::listen()?;
    signals::end_with_parent(args.end_with_parent)?;
    let scheme = args.tls.scheme();
    let config = NullConfig {
        listen: args.place.listen,
        cores: args.place.cores(),
        conns_max: args.conns,
        tls: args.tls.tls,
        cacert: args.tls.write_cacert,
    };
    let cores = config.cores.len();
    let target = null_target::start(config).map_err(|error| match error {
        NullError::NoCores
        | NullError::Core { .. }
        | NullError::Conns { .. }
        | NullError::OpenFiles { .. }
        | NullError::RaiseOpenFiles { .. }
        | NullError::Certificate(CertificateError::Write { .. }) => {
            Failure::Usage(error.to_string())
        }
        NullError::Ring { .. } => refused(cores, &error),
        NullError::Listen { .. } | NullError::Certificate(_) => {
            Failure::CouldNotRun(error.to_string())
        }
    })?;
    say(&format!("listening on {scheme}://{}/\n", target.local_addr()))?;
    stop.wait();
    let counts = target.stop();
    say(&format!("answered {} requests on {} connections\n", counts.requests, counts.connections))?;
    Ok(ExitCode::SUCCESS)
}
