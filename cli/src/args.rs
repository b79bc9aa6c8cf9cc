//! The command line: one definition feeds the parser, the help, the man pages and the completions.
//!
//! The flags of a run are the plan's fields, see [`PlanFlags`].

mod file_values;
mod plan_flags;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use engine::sys::placement;
use engine::sys::units::{CoreList, Nanos};
use serde::de::value::Error as NameError;
use serde::de::{DeserializeOwned, IntoDeserializer as _};

pub(crate) use plan_flags::PlanFlags;

const FIRST_STEPS: &str = "\
First steps:
  truetail demo
  truetail run http://127.0.0.1:8080/ --rate 5k --duration 10s";

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    the run could not start, or verify found a difference
  2    usage error
  3    the verdict is invalid: don't trust the numbers
  130  interrupted; what was measured so far is written and marked";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "truetail",
    version,
    max_term_width = 110,
    about = "Measures HTTP latency from when a request was due, not from when it was sent",
    long_about = "Measures HTTP latency from when a request was due, not from when it was sent: \
        load by arrival rate from pinned cores over io_uring, and a report that can be verified.",
    after_help = FIRST_STEPS,
    after_long_help = format!("{EXIT_CODES}\n\n{FIRST_STEPS}")
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load a URL and report its latency
    #[command(after_help = "\
Durations: 250us, 5ms, 1.5s, 2m, 1m30s
Rates, per second: 500, 20k, 1.5M
Cores: 0,1 or 0-3")]
    Run(Box<RunArgs>),
    /// Print a run's raw samples as CSV or JSON Lines
    Samples(SamplesArgs),
    /// Recompute a report's numbers from itself and from raw samples
    Verify(VerifyArgs),
    /// Check whether this machine is fit for load tests, and say how to fix what isn't
    Doctor,
    /// Run a server with known latency that keeps a ledger of what it did
    Target(TargetArgs),
    /// Run the cheapest possible server, to find the limits of the generator itself
    NullTarget(NullTargetArgs),
    /// Show coordinated omission: measure one stalling target in a closed loop and by arrival rate
    Demo(DemoArgs),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the man page of truetail or of one of its commands
    Man {
        /// The command [default: truetail itself]
        command: Option<String>,
    },
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) flags: PlanFlags,

    /// Read the plan from a TOML file; flags override it
    #[arg(
        long,
        value_name = "FILE.toml",
        value_parser = file(),
        help_heading = PLAN,
        long_help = "Read the plan from a TOML file; flags override it. Its keys are the \
            flags' names, with - or _ between words, and take the same values: \
            target = \"http://127.0.0.1:8080/\", rate = \"20k\", queue-max = \"5ms\", \
            quiet = true. A flag that can be repeated takes a list, also under its plural: \
            headers = [\"A: b\"]. Thresholds are a table: [thresholds] busy = 0.9. A flag that \
            selects the other model drops the file's keys for the first: --period drops its rate. \
            Paths are relative to the working directory"
    )]
    pub(crate) plan: Option<PathBuf>,
}

/// Where the results of a run go, and its exit code: no part of the plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResultArgs {
    /// The report as JSON.
    pub(crate) out: Option<PathBuf>,
    /// The run over time as CSV.
    pub(crate) csv: Option<PathBuf>,
    /// The HdrHistogram interval log.
    pub(crate) hdr: Option<PathBuf>,
    /// Whether to exit with 0 even if the verdict is invalid.
    pub(crate) allow_invalid: bool,
    /// Whether to hide the progress line.
    pub(crate) quiet: bool,
}

const JUDGEMENT: &str = "Verdict";
const PLAN: &str = "Plan";
const RESULTS: &str = "Results";
const LATENCY: &str = "Latency";
const STALLS: &str = "Stalls";

/// Arguments of `samples`.
#[derive(Debug, Args)]
pub(crate) struct SamplesArgs {
    /// The file written by `run --raw`
    pub(crate) file: PathBuf,

    /// Print CSV, the default: a header, then one line per request; times are ns since the start of
    /// the run
    #[arg(long, group = "format")]
    pub(crate) csv: bool,

    /// Print JSON Lines: one object per request
    #[arg(long, group = "format")]
    pub(crate) json: bool,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The report written by `run --out`
    pub(crate) report: PathBuf,

    /// The raw samples written by `run --raw`, one file per agent
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) raw: Vec<PathBuf>,
}

/// Where a server listens and runs.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Address to listen on, IP:PORT; port 0 picks a free port
    #[arg(
        long,
        value_name = "ADDRESS",
        value_parser = socket_address,
        default_value = "127.0.0.1:8080"
    )]
    pub(crate) listen: SocketAddr,

    /// Cores to serve from, such as 0 or 0-3 [default: the first allowed, which a run leaves free]
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<CoreList>,
}

impl Place {
    /// The cores named, or the first allowed one, which a run leaves free by default.
    pub(crate) fn cores(&self) -> Vec<usize> {
        match &self.cores {
            Some(cores) => cores.as_slice().to_vec(),
            None => placement::allowed_cores()[..1].to_vec(),
        }
    }
}

/// Arguments of `target`.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// Where it listens and runs.
    #[command(flatten)]
    pub(crate) place: Place,

    /// Size of each response body, in bytes
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = whole_number::<usize>(COUNT_MAX),
        default_value = "128"
    )]
    pub(crate) body_size: usize,

    /// Write the ledger as JSON on exit; it is always served at /__ledger
    #[arg(long, value_name = "FILE", value_parser = file())]
    pub(crate) ledger: Option<PathBuf>,

    /// Time from a request to its response
    #[arg(long, value_name = "DURATION", default_value = "5ms", help_heading = LATENCY)]
    pub(crate) base_latency: Nanos,

    /// Fraction of requests, 0 to 1, that take --tail-latency instead of --base-latency
    #[arg(
        long,
        value_name = "FRACTION",
        value_parser = fraction,
        default_value = "0",
        help_heading = LATENCY
    )]
    pub(crate) tail_fraction: f64,

    /// Latency of the requests in the tail
    #[arg(long, value_name = "DURATION", default_value = "50ms", help_heading = LATENCY)]
    pub(crate) tail_latency: Nanos,

    /// Seed that picks the requests in the tail
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<u64>(WHOLE_MAX),
        default_value = "1",
        help_heading = LATENCY
    )]
    pub(crate) seed: u64,

    /// Serve one request at a time, in order, across all connections
    #[arg(long, help_heading = LATENCY)]
    pub(crate) serial: bool,

    /// Time from the start of one stall to the start of the next [default: no stalls]
    #[arg(long, value_name = "DURATION", requires = "stall_for", help_heading = STALLS)]
    pub(crate) stall_every: Option<Nanos>,

    /// Length of a stall; requests that arrive during a stall wait for its end
    #[arg(long, value_name = "DURATION", requires = "stall_every", help_heading = STALLS)]
    pub(crate) stall_for: Option<Nanos>,

    /// Pause before every Nth request; implies --serial [default: no pauses]
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<u64>(WHOLE_MAX),
        requires = "pause_for",
        help_heading = STALLS
    )]
    pub(crate) pause_every_requests: Option<u64>,

    /// Length of each pause
    #[arg(long, value_name = "DURATION", requires = "pause_every_requests", help_heading = STALLS)]
    pub(crate) pause_for: Option<Nanos>,
}

/// Arguments of `null-target`.
#[derive(Debug, Args)]
pub(crate) struct NullTargetArgs {
    /// Where it listens and runs.
    #[command(flatten)]
    pub(crate) place: Place,

    /// Most connections per core; any beyond that are closed
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(COUNT_MAX),
        default_value = "4096"
    )]
    pub(crate) conns: usize,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Folder for the two reports
    #[arg(long, value_name = "FOLDER", value_parser = file(), default_value = "truetail-demo")]
    pub(crate) out_dir: PathBuf,

    /// Length of each run
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) duration: Nanos,

    /// Hide the progress line
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Reads the arguments.
///
/// # Errors
/// What the parser reports, help and version included.
pub(crate) fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&command().try_get_matches_from(args)?)
}

/// The definition, with one rule for all flags: the word after a flag is its value, even `-5`, so
/// that the error is about that flag.
fn command() -> clap::Command {
    Cli::command().mut_subcommands(|command| {
        command.mut_args(|arg| {
            let values = arg.get_num_args().map_or(1, |count| count.max_values());
            let one = arg.get_action().takes_values() && values == 1;
            if one && !arg.is_positional() { arg.allow_hyphen_values(true) } else { arg }
        })
    })
}

/// The command that shows the help for these arguments, which include the program's name.
pub(crate) fn help_for(args: &[OsString]) -> String {
    let name = args.get(1).and_then(|name| name.to_str()).unwrap_or_default();
    match Cli::command().find_subcommand(name) {
        Some(_) => format!("truetail {name} --help"),
        None => "truetail --help".to_owned(),
    }
}

/// A path to a file.
fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.to_str() {
        Some(name) => file_name(name),
        None => Ok(path),
    })
}

/// A path that has to be text.
fn file_name(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix('-') {
        Some(_) => Err(format!("invalid file name `{text}`: looks like a flag, write ./{text}")),
        None if text.is_empty() => Err("invalid file name ``: name a file".to_owned()),
        None => Ok(PathBuf::from(text)),
    }
}

/// A whole number from 0 to a bound.
fn whole_number<T: TryFrom<u64>>(max: u64) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number: &u64| *number <= max);
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("invalid number `{text}`: give a whole number from 0 to {max}"))
    }
}

/// The largest count of anything on one machine; its use decides how many are too many.
const COUNT_MAX: u64 = u32::MAX as u64;
/// The largest integer of a plan file: TOML's are signed.
const WHOLE_MAX: u64 = i64::MAX.cast_unsigned();

/// A choice by the name that serde knows it by.
fn by_name<T: DeserializeOwned>(name: &str) -> Result<T, NameError> {
    T::deserialize(name.into_deserializer())
}

/// One of this machine's addresses.
fn ip_address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| {
        format!("invalid address `{text}`: give IP addresses of this machine, e.g. 127.0.0.2")
    })
}

/// A fraction; its use decides its range.
fn fraction(text: &str) -> Result<f64, String> {
    text.parse()
        .map_err(|_| format!("invalid fraction `{text}`: give a number from 0 to 1, e.g. 0.01"))
}

/// An address to listen on.
fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("invalid address `{text}`: give IP:PORT, e.g. 127.0.0.1:8080"))
}

/// Whether a word is made as the names of commands and flags are.
pub(crate) fn is_bare(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// A usage error in one line: the flag, the value and the cure. `help` is the command for more.
pub(crate) fn one_line(error: &clap::Error, help: &str) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let flag = text(ContextKind::InvalidArg).map(|shown| {
        // `--rate <PER_SECOND>` names the flag and its value, `<SHELL>` an argument.
        let name = shown.split(" <").next().unwrap_or_default();
        name.trim_matches(['<', '>']).to_owned()
    });
    let value = text(ContextKind::InvalidValue);
    match (error.kind(), flag, value) {
        (ErrorKind::ValueValidation, Some(flag), Some(value)) => {
            let problem = std::error::Error::source(error)
                .map_or_else(|| "invalid value".to_owned(), ToString::to_string);
            // What parses names the value itself, and here it stands beside the flag.
            match problem.split_once(&format!(" `{value}`")) {
                Some((before, after)) => {
                    let shown = if value.is_empty() { "''" } else { &value };
                    format!("{flag} {shown}: {before}{after}; see `{help}`")
                }
                // What doesn't name it takes it for a secret.
                None => format!("{flag}: {problem}; see `{help}`"),
            }
        }
        // A word out of place may be a part of a header or a URL.
        (ErrorKind::UnknownArgument, Some(word), _) if !word.starts_with('-') => {
            let cure = "put a value with spaces in quotes";
            format!("unexpected word after the flags; {cure}; see `{help}`")
        }
        (ErrorKind::InvalidSubcommand, ..)
            if text(ContextKind::InvalidSubcommand).is_some_and(|word| !is_bare(&word)) =>
        {
            format!("unknown command; see `{help}`")
        }
        (ErrorKind::InvalidValue, Some(flag), Some(value)) if value.is_empty() => {
            format!("{flag}: missing value; give one after it; see `{help}`")
        }
        (ErrorKind::InvalidValue, Some(flag), Some(value)) => {
            let valid = text(ContextKind::ValidValue).unwrap_or_default();
            format!("{flag} {value}: unknown value; choose from {valid}")
        }
        _ => {
            // The first paragraph says what is wrong, a tip how to fix it; the rest is the usage.
            let rendered = error.to_string();
            let lines = rendered.lines().map(str::trim).filter(|line| !line.is_empty());
            let told: Vec<&str> = lines
                .take_while(|line| !line.starts_with("Usage:"))
                .map(|line| line.trim_start_matches("error: ").trim_start_matches("tip: "))
                .filter(|line| !line.starts_with("For more information"))
                .collect();
            format!("{}; see `{help}`", told.join("; ").replace(":; ", ": "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_for(args: &[&str]) -> String {
        let args = std::iter::once(&"truetail").chain(args).map(OsString::from);
        let args: Vec<OsString> = args.collect();
        one_line(&parse(&args).expect_err("a wrong line"), &help_for(&args))
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_wrong_value_is_told_in_one_line() {
        for (args, line) in [
            (
                ["run", "--rate", "0"],
                "--rate 0: invalid rate: must be above 0 requests per second, e.g. 500, 20k or \
                1.5M; see `truetail run --help`",
            ),
            (
                ["run", "--duration", "10"],
                "--duration 10: invalid duration: add a unit, e.g. 30s or 1.5ms; \
                see `truetail run --help`",
            ),
            (
                ["run", "--conns", "many"],
                "--conns many: invalid number: give a whole number from 0 to 4294967295; \
                see `truetail run --help`",
            ),
            (
                ["run", "--out", "--hdr"],
                "--out --hdr: invalid file name: looks like a flag, write ./--hdr; \
                see `truetail run --help`",
            ),
            (
                ["target", "--tail-fraction", "much"],
                "--tail-fraction much: invalid fraction: give a number from 0 to 1, e.g. 0.01; \
                see `truetail target --help`",
            ),
            (
                ["target", "--listen", "localhost:21000"],
                "--listen localhost:21000: invalid address: give IP:PORT, e.g. 127.0.0.1:8080; \
                see `truetail target --help`",
            ),
            (["run", "--model", "half"], "--model half: unknown value; choose from open, closed"),
        ] {
            assert_eq!(line_for(&args), line);
        }
        let line = "--rate: missing value; give one after it; see `truetail run --help`";
        assert_eq!(line_for(&["run", "--rate"]), line);
        assert!(line_for(&["completions", "dos"]).starts_with("SHELL dos: unknown value; choose"));
    }

    #[test]
    fn a_value_may_begin_with_a_dash_and_is_judged_by_its_flag() {
        for (args, start, cure) in [
            (["run", "--duration", "-5s"], "--duration -5s: invalid duration: give", "30s"),
            (["run", "--rate", "-5"], "--rate -5: invalid rate: give", "500, 20k or 1.5M"),
            (["run", "--rate", "--conns"], "--rate --conns: invalid rate: give", "20k or 1.5M"),
            (["run", "--rate", ""], "--rate '': invalid rate: give", "500, 20k or 1.5M"),
            (
                ["run", "--rate", "100000001"],
                "--rate 100000001: invalid rate: ",
                "at most 100000000",
            ),
            (["run", "--cores", "-1"], "--cores -1: invalid core list: give", "0-3"),
            (["run", "--cores", ""], "--cores '': invalid core list: give", "0-3"),
            (["run", "--conns", "-1"], "--conns -1: invalid number: give", "from 0 to 4294967295"),
            (["run", "--conns", ""], "--conns '': invalid number: give", "from 0 to 4294967295"),
            (["run", "--seed", "-1"], "--seed -1: ", "from 0 to 9223372036854775807"),
            (["run", "--seed", "1.5"], "--seed 1.5: invalid number: give", "from 0 to"),
            (["run", "--model", "-1"], "--model -1: unknown value", "choose from open, closed"),
            (["run", "--threshold", "-1"], "--threshold -1: invalid threshold: give", "NAME=VALUE"),
            (["run", "--expect-status", "-1"], "--expect-status -1: invalid status: give", "2xx"),
            (["run", "--source-addresses", "-1"], "--source-addresses -1: ", "127.0.0.2"),
            (["run", "--raw", "-"], "--raw -: invalid file name: looks like a flag", "./-"),
            (["run", "--raw", ""], "--raw '': invalid file name: name a file", ""),
            (["target", "--base-latency", "-5ms"], "--base-latency -5ms: ", "30s"),
            (["target", "--body-size", "-1"], "--body-size -1: invalid number: give", "from 0 to"),
            (
                ["target", "--body-size", "17m"],
                "--body-size 17m: invalid number: give",
                "from 0 to",
            ),
            (["null-target", "--conns", "-1"], "--conns -1: invalid number: give", "from 0 to"),
            (["demo", "--duration", "-1s"], "--duration -1s: ", "30s"),
        ] {
            let told = line_for(&args);
            assert!(told.starts_with(start) && told.contains(cure), "{told}");
            let help = format!("; see `truetail {} --help`", args[0]);
            assert!(told.ends_with(&help) || told.contains("choose from"), "{told}");
        }
        // A flag that takes several values ends where the next flag begins.
        assert!(line_for(&["verify", "r", "--raw", "a", "--nonsense"]).contains("--nonsense"));
    }

    #[test]
    fn a_word_out_of_place_is_not_repeated() {
        for args in [
            &["run", "http://h/", "http://h/?token=pa55"][..],
            &["run", "http://h/", "--header", "X-Key:", "pa55"],
            &["run", "http://h/", "--threshold", "Authorization: pa55"],
            &["run", "http://h/", "--threshold", "authorization=pa55"],
            &["run", "http://h/", "--headr=Authorization: pa55"],
            &["run", "http://h/", "--headr", "Authorization: pa55"],
            &["http://h/?token=pa55"],
        ] {
            let line = line_for(args);
            assert!(!line.contains("pa55") && line.contains("; see `truetail "), "{line}");
        }
    }

    #[test]
    fn a_wrong_flag_is_told_in_one_line() {
        for (args, words) in [
            (&["run", "http://x/", "--rat", "5"][..], "--rat"),
            (&["run", "http://x/", "--target", "http://y/"], "--target"),
            (&["run", "http://x/", "--rate"], "--rate"),
            (&["target", "--stall-every", "1s"], "--stall-for"),
            (&["rum"], "rum"),
            (&["--nonsense"], "see `truetail --help`"),
        ] {
            let line = line_for(args);
            assert!(line.contains(words) && !line.contains('\n'), "{line}");
        }
    }
}
