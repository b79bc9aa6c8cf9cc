//! The command `null-target`: the cheapest possible server, until a signal ends it.

use std::process::ExitCode;

use calibration::null_target::{self, NullConfig};

use crate::args::NullTargetArgs;
use crate::failure::Failure;
use crate::output::say;
use crate::signals::{self, StopRequest};
use crate::target_server::{file, not_started, write};

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
    let target = null_target::start(config).map_err(|error| not_started(error, cores))?;
    write(issuer, target.issuer().unwrap_or_default())?;
    say(&format!("listening on {scheme}://{}/\n", target.local_addr()))?;
    stop.wait();
    let counts = target.stop();
    say(&format!("answered {} requests on {} connections\n", counts.requests, counts.connections))?;
    Ok(ExitCode::SUCCESS)
}
