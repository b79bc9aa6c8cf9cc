//! The command `target`: a server of known latency, until a signal ends it.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use engine::sys::units::Nanos;
use target::{
    Cold, Fault, Http2, Ledger, Pause, ShopErrors, Stall, Target, TargetConfig, TargetError,
};

use crate::args::{TargetArgs, target_route};
use crate::failure::{Failure, complain, refused};
use crate::output::{OutputFile, say};
use crate::signals::{self, StopRequest};
use crate::text::figures::{count, things, time};

/// Serves until a signal comes, then writes the ledger if a file is named.
pub(crate) fn serve(args: TargetArgs) -> Result<ExitCode, Failure> {
    let stop = StopRequest::listen()?;
    signals::end_with_parent(args.end_with_parent)?;
    let scheme = args.tls.scheme();
    let ledger_file = file("--ledger", args.ledger.as_deref(), &stop)?;
    let issuer = file("--write-cacert", args.tls.write_cacert.as_deref(), &stop)?;
    let target = start(config(args)?)?;
    write(issuer, target.issuer().unwrap_or_default())?;
    say(&format!("listening on {scheme}://{}/, ledger at /__ledger\n", target.local_addr()))?;
    stop.wait();
    let ledger = target.stop().map_err(|error| Failure::CouldNotRun(error.to_string()))?;
    write(ledger_file, &(ledger.to_json() + "\n"))?;
    say(&format!("received {} requests, answered {}\n", ledger.received, ledger.answered))?;
    say(&faults(&ledger))?;
    say(&provoked(&ledger))?;
    say(&routes(&ledger))?;
    say(&shop(&ledger))?;
    if let Some(line) = starved(&ledger) {
        complain(&line);
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens a server's file, if one is named, before the server starts.
///
/// # Errors
/// It can't be written.
pub(crate) fn file(
    flag: &str,
    path: Option<&Path>,
    stop: &StopRequest,
) -> Result<Option<OutputFile>, Failure> {
    path.map(|path| OutputFile::open(flag, path, stop)).transpose()
}

/// Writes a server's file, if there is one.
///
/// # Errors
/// The file system fails.
pub(crate) fn write(file: Option<OutputFile>, text: &str) -> Result<(), Failure> {
    file.map_or(Ok(()), |file| file.finish(|file| file.write_all(text.as_bytes())).map(drop))
}

/// What was wrong with responses: a line, if anything was.
fn faults(ledger: &Ledger) -> String {
    let (faulty, repeated) = (ledger.faulty, ledger.repeated);
    if faulty == 0 && repeated == 0 {
        return String::new();
    }
    let left = things(faulty, "request");
    format!("left {left} without a whole response, answered {} twice\n", count(repeated))
}

/// What was done to HTTP/2 clients apart from answering: a line, if there was any of it.
fn provoked(ledger: &Ledger) -> String {
    let (refused, goaways) = (ledger.refused, ledger.connections.goaways);
    if refused == 0 && goaways == 0 {
        return String::new();
    }
    format!("refused {}, sent {}\n", things(refused, "stream"), things(goaways, "GOAWAY"))
}

/// A line for each route, and one for all other paths.
fn routes(ledger: &Ledger) -> String {
    let lines = ledger.routes.iter().map(|route| {
        let path = route.path.as_deref().unwrap_or("other paths");
        let received = things(route.received, "request");
        let held = match (route.held.p50, route.held.p99, route.held.max) {
            (Some(p50), Some(p99), Some(max)) => {
                format!(", held p50 {}, p99 {}, max {}", time(p50), time(p99), time(max))
            }
            _ => String::new(),
        };
        format!("{path}: received {received}, answered {}{held}\n", count(route.answered))
    });
    lines.collect()
}

/// A line about the users of the shop, if there is one: how many came, and what they did wrong.
fn shop(ledger: &Ledger) -> String {
    let Some(shop) = &ledger.shop else { return String::new() };
    let ShopErrors { wrong_token, wrong_cookie, wrong_value, out_of_order } = shop.errors;
    format!(
        "shop: {}, {}; requests with a wrong token {}, cookie {}, value {}, out of order {}\n",
        things(shop.sessions, "session"),
        things(shop.requests.values().sum(), "request"),
        count(wrong_token),
        count(wrong_cookie),
        count(wrong_value),
        count(out_of_order),
    )
}

/// The warning about connections that could not be accepted: to a client they look like slow
/// responses.
fn starved(ledger: &Ledger) -> Option<String> {
    let errors = ledger.connections.accept_errors;
    (0 < errors).then(|| {
        format!(
            "could not accept a connection {errors} times, for lack of file descriptors or memory, \
             and its clients waited; raise the limit of open files (ulimit -n, as root above the \
             hard limit) or use fewer connections"
        )
    })
}

fn config(args: TargetArgs) -> Result<TargetConfig, Failure> {
    let pair = |every: Option<Nanos>, hold: Option<Nanos>| every.zip(hold);
    let mut config = TargetConfig {
        listen: args.place.listen,
        base_latency: args.base_latency.as_duration(),
        tail_fraction: args.tail_fraction,
        tail_latency: args.tail_latency.as_duration(),
        stall: pair(args.stall_every, args.stall_for)
            .map(|(every, hold)| Stall { every: every.as_duration(), hold: hold.as_duration() }),
        pause: args
            .pause_every_requests
            .zip(args.pause_for)
            .map(|(every_requests, hold)| Pause { every_requests, hold: hold.as_duration() }),
        cold: args
            .cold_requests
            .zip(args.cold_latency)
            .map(|(requests, latency)| Cold { requests, latency: latency.as_duration() }),
        fault: args.fault.zip(args.fault_every).map(|(kind, every)| Fault { kind, every }),
        // A server that pauses between requests serves them one at a time.
        serial: args.serial || args.pause_every_requests.is_some(),
        seed: args.seed,
        body_size: args.body_size,
        cores: args.place.cores(),
        tls: args.tls.tls,
        http2: Http2 {
            max_streams: args.max_streams,
            goaway_every: args.goaway_every,
            refuse: args.refuse,
            window: args.window,
        },
        shop: args.shop,
        routes: Vec::new(),
    };
    let routes = args.route.iter().map(|given| {
        target_route::read(given, &config)
            .map_err(|problem| Failure::Usage(format!("--route {given}: {problem}")))
    });
    config.routes = routes.collect::<Result<_, _>>()?;
    Ok(config)
}

/// Starts a target.
///
/// # Errors
/// A value is impossible, or the machine lacks something.
pub(crate) fn start(config: TargetConfig) -> Result<Target, Failure> {
    let cores = config.cores.len();
    target::start(config).map_err(|error| not_started(error, cores))
}

/// The failure of a server on this many cores that didn't start.
pub(crate) fn not_started(error: TargetError, cores: usize) -> Failure {
    let line = error.to_string();
    match error {
        TargetError::Usage(_) => Failure::Usage(line),
        TargetError::Refused(_) => refused(cores, &line),
        TargetError::Failed(_) | TargetError::Certificate(_) => Failure::CouldNotRun(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_could_not_be_accepted_are_reported_with_the_cure() {
        let listen = "127.0.0.1:0".parse().expect("an address");
        let target = target::start(TargetConfig::new(listen)).expect("it starts");
        let mut ledger = target.stop().expect("a ledger");
        assert_eq!(starved(&ledger), None);
        ledger.connections.accept_errors = 47;
        let line = starved(&ledger).expect("a line");
        assert!(line.contains(" 47 times,") && line.contains("ulimit -n"), "{line}");
    }

    #[test]
    fn what_the_shops_users_did_wrong_has_a_line_of_its_own() {
        let listen = "127.0.0.1:0".parse().expect("an address");
        let config = TargetConfig { shop: true, ..TargetConfig::new(listen) };
        let target = target::start(config).expect("it starts");
        let mut ledger = target.stop().expect("a ledger");
        let counts = ledger.shop.as_mut().expect("a shop");
        counts.sessions = 1_000;
        counts.requests.insert("pay".to_owned(), 1);
        counts.errors.wrong_value = 2;
        let line = "shop: 1,000 sessions, 1 request; requests with a wrong token 0, cookie 0, \
                    value 2, out of order 0\n";
        assert_eq!(shop(&ledger), line);
        ledger.shop = None;
        assert_eq!(shop(&ledger), "");
    }

    #[test]
    fn faults_have_a_line_of_their_own() {
        let listen = "127.0.0.1:0".parse().expect("an address");
        let target = target::start(TargetConfig::new(listen)).expect("it starts");
        let mut ledger = target.stop().expect("a ledger");
        assert_eq!(faults(&ledger), "");
        ledger.repeated = 1_500;
        let line = "left 0 requests without a whole response, answered 1,500 twice\n";
        assert_eq!(faults(&ledger), line);
        ledger.faulty = 1;
        ledger.repeated = 0;
        let line = "left 1 request without a whole response, answered 0 twice\n";
        assert_eq!(faults(&ledger), line);
    }

    #[test]
    fn refused_streams_and_goaways_have_a_line_of_their_own() {
        let listen = "127.0.0.1:0".parse().expect("an address");
        let target = target::start(TargetConfig::new(listen)).expect("it starts");
        let mut ledger = target.stop().expect("a ledger");
        assert_eq!(provoked(&ledger), "");
        ledger.connections.goaways = 1;
        assert_eq!(provoked(&ledger), "refused 0 streams, sent 1 GOAWAY\n");
        ledger.refused = 1_500;
        assert_eq!(provoked(&ledger), "refused 1,500 streams, sent 1 GOAWAY\n");
    }
}
