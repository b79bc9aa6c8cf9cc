//! The command line: one definition feeds the parser, the help, the man pages and the completions.
//!
//! The flags of a run are the plan's fields, see [`PlanFlags`].

mod plan_flags;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgGroup, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use engine::sys::units::{CoreList, Nanos};

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
    /// Print the raw samples of a run
    Samples(SamplesArgs),
    /// Check a report against itself and against the raw samples of its run
    Verify(VerifyArgs),
    /// Check that this machine can run a load test, and say how to fix what is missing
    Doctor,
    /// Serve responses of known latency, and keep a ledger of them
    Target(TargetArgs),
    /// Serve the cheapest possible response, to find the limits of the generator itself
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

    /// Read the plan from a file; flags override it
    #[arg(
        long,
        value_name = "FILE.toml",
        value_parser = file(),
        help_heading = PLAN,
        long_help = "Read the plan from a file; flags override it. Its keys are the flags' names, those of the results too, with \
            - or _ between words, and its values are theirs: target = \"http://127.0.0.1:8080/\", rate = \"20k\", \
            queue-max = \"5ms\", quiet = true. What may be given several times is a list, also under the plural: \
            headers = [\"A: b\"]; the bounds are a table: [thresholds] busy = 0.9. A flag that asks for the other model drops \
            what only the file's model has, as --period drops its rate. Files are found from the working folder"
    )]
    pub(crate) plan: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// Where the results of a run go, and what its end says. A plan file may hold them, but they are no part of the plan.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ResultArgs {
    /// Write the report as JSON
    #[arg(long, value_name = "FILE", value_parser = file(), help_heading = RESULTS)]
    pub(crate) out: Option<PathBuf>,

    /// Write the run over time as CSV, a row for each interval of the window
    #[arg(
        long,
        value_name = "FILE",
        value_parser = file(),
        help_heading = RESULTS,
        long_help = "Write the run over time as CSV: a header, then a row for each of at most 512 intervals of the window. A \
            request belongs to the interval in which it was due. Columns: start_s and length_s in seconds since the start of \
            the window; the counts intended, sent, unsent, answered, errors (timed out, failed or abandoned) and in_flight (at \
            the interval's end); p50_us, p99_us, max_us: corrected latency in microseconds, empty without a value"
    )]
    pub(crate) csv: Option<PathBuf>,

    /// Write an HdrHistogram interval log, values in ns: corrected for each interval, naive as a whole, each under its tag
    #[arg(long, value_name = "FILE.hlog", value_parser = file(), help_heading = RESULTS)]
    pub(crate) hdr: Option<PathBuf>,

    /// Exit with 0 where the verdict is invalid, which else gives 3
    #[arg(long, help_heading = JUDGEMENT)]
    pub(crate) allow_invalid: bool,

    /// Show no progress; the summary is still printed
    #[arg(long, short, help_heading = RESULTS)]
    pub(crate) quiet: bool,
}

impl ResultArgs {
    /// These, and where they say nothing, those of the file.
    pub(crate) fn over(self, file: ResultArgs) -> ResultArgs {
        ResultArgs {
            out: self.out.or(file.out),
            csv: self.csv.or(file.csv),
            hdr: self.hdr.or(file.hdr),
            allow_invalid: self.allow_invalid || file.allow_invalid,
            quiet: self.quiet || file.quiet,
        }
    }
}

const JUDGEMENT: &str = "Judgement";
const PLAN: &str = "Plan";
const RESULTS: &str = "Results";
const LATENCY: &str = "Latency";
const STALLS: &str = "Stalls";

/// Arguments of `samples`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("format").required(true)))]
pub(crate) struct SamplesArgs {
    /// The file written by `run --raw`
    pub(crate) file: PathBuf,

    /// Print CSV: a header, then one line per request; times are ns since the start of the run
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
    /// Address to listen on, IP:PORT; port 0 picks a free one
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

    /// Fraction of requests, 0 to 1, that take --tail-latency instead
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

    /// Stall periodically: time from the start of one stall to the start of the next
    #[arg(long, value_name = "DURATION", requires = "stall_for", help_heading = STALLS)]
    pub(crate) stall_every: Option<Nanos>,

    /// Length of a stall; every request that arrives in it waits for its end
    #[arg(long, value_name = "DURATION", requires = "stall_every", help_heading = STALLS)]
    pub(crate) stall_for: Option<Nanos>,

    /// Pause before every N-th request; implies --serial
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

    /// Maximum connections per core; further ones are closed
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

/// Whether `run` has a flag of this name.
pub(crate) fn is_flag_of_run(name: &str) -> bool {
    let program = Cli::command();
    let run = program.find_subcommand("run").expect("the program has it");
    run.get_arguments().any(|arg| arg.get_long() == Some(name))
}

/// What shows the help for these arguments, those of the program included.
pub(crate) fn help_for(args: &[OsString]) -> String {
    let name = args.get(1).and_then(|name| name.to_str()).unwrap_or_default();
    match Cli::command().find_subcommand(name) {
        Some(_) => format!("truetail {name} --help"),
        None => "truetail --help".to_owned(),
    }
}

/// A file that is written or read.
fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.to_str() {
        Some(name) => file_name(name).map(PathBuf::from),
        None => Ok(path),
    })
}

/// The name of one, where it has to be text.
fn file_name(text: &str) -> Result<String, &'static str> {
    match text.strip_prefix('-') {
        Some(_) => Err("begins like a flag; name a file, as ./-name where it begins so"),
        None => Ok(text.to_owned()),
    }
}

/// A whole number from 0 to a bound.
fn whole_number<T: TryFrom<u64>>(max: u64) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number: &u64| *number <= max);
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("is no whole number; give one from 0 to {max}"))
    }
}

/// A number of things that a machine can hold; what it is for decides how many are too many.
const COUNT_MAX: u64 = u32::MAX as u64;
/// The largest whole number of a plan file, where they are signed.
const WHOLE_MAX: u64 = i64::MAX.cast_unsigned();

/// A part of the whole; what it is for decides whether it can be meant.
fn fraction(text: &str) -> Result<f64, &'static str> {
    text.parse().map_err(|_| "is no number; give one from 0 to 1, such as 0.01")
}

/// Where to listen.
fn socket_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "is no IP address with a port; give IP:PORT, such as 127.0.0.1:8080")
}

/// A usage error in one line: the flag, the value and the cure. `help` is what shows more.
pub(crate) fn one_line(error: &clap::Error, help: &str) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let flag = text(ContextKind::InvalidArg).map(|shown| {
        // `--rate <PER_SECOND>` names the flag and its value.
        shown.split(" <").next().unwrap_or_default().to_owned()
    });
    let value = text(ContextKind::InvalidValue);
    match (error.kind(), flag, value) {
        (ErrorKind::ValueValidation, Some(flag), Some(value)) => {
            let problem = std::error::Error::source(error)
                .map_or_else(|| "can't be read".to_owned(), ToString::to_string);
            // The engine's own types name the value already.
            let problem = problem.strip_prefix(&format!("`{value}` ")).unwrap_or(&problem);
            let shown = if value.is_empty() { "''" } else { &value };
            format!("{flag} {shown}: {problem}; see `{help}`")
        }
        (ErrorKind::InvalidValue, Some(flag), Some(value)) if value.is_empty() => {
            format!("{flag}: has no value; give one after it")
        }
        (ErrorKind::InvalidValue, Some(flag), Some(value)) => {
            let valid = text(ContextKind::ValidValue).unwrap_or_default();
            format!("{flag} {value}: is unknown; choose from {valid}")
        }
        _ => {
            // The first paragraph says what is wrong, a tip how to cure it; the rest repeats the usage.
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

    fn check(args: &[&str], line: &str) {
        assert_eq!(line_for(args), line);
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_wrong_value_is_told_in_one_line() {
        check(
            &["run", "http://x/", "--rate", "0"],
            "--rate 0: is not above zero; give requests per second above 0, such as 500, 20k or 1.5M; see `truetail run --help`",
        );
        check(
            &["run", "http://x/", "--rate", "-5"],
            "--rate -5: is no rate; give requests per second above 0, such as 500, 20k or 1.5M; see `truetail run --help`",
        );
        check(
            &["run", "http://x/", "--duration", "10"],
            "--duration 10: is no duration; write a number with ns, us, ms, s, m or h, such as 30s or 1.5ms; see `truetail run --help`",
        );
        check(
            &["run", "http://x/", "--threshold", "busy=much"],
            "--threshold busy=much: has no number behind the =; give one, such as busy=0.9; see `truetail run --help`",
        );
        check(
            &["run", "http://x/", "--model", "half"],
            "--model half: is unknown; choose from open, closed",
        );
    }

    #[test]
    fn a_value_may_begin_with_a_dash_and_is_judged_by_its_flag() {
        for (args, line) in [
            (["run", "--duration", "-5s"], "--duration -5s: is no duration"),
            (
                ["run", "--conns", "-1"],
                "--conns -1: is no whole number; give one from 0 to 4294967295",
            ),
            (["run", "--cores", "-1"], "--cores -1: is no list of cores"),
            (
                ["run", "--seed", "-1"],
                "--seed -1: is no whole number; give one from 0 to 9223372036854775807",
            ),
            (["run", "--seed", "1.5"], "--seed 1.5: is no whole number"),
            (["run", "--model", "-1"], "--model -1: is unknown; choose from open, closed"),
            (["run", "--threshold", "-1"], "--threshold -1: has no =; give NAME=VALUE"),
            (["run", "--expect-status", "-1"], "--expect-status -1: "),
            (["run", "--source-addresses", "-1"], "--source-addresses -1: is no IP address; give"),
            (["run", "--rate", "--conns"], "--rate --conns: is no rate"),
            (["run", "--out", "--hdr"], "--out --hdr: begins like a flag; name a file"),
            (["run", "--raw", "-"], "--raw -: begins like a flag; name a file"),
            (["run", "--rate", ""], "--rate '': is no rate; give requests per second"),
            (
                ["run", "--rate", "100000001"],
                "--rate 100000001: is above 100000000 a second, more than one machine can send; give",
            ),
            (["run", "--cores", ""], "--cores '': is no list of cores"),
            (["run", "--conns", ""], "--conns '': is no whole number"),
            (["target", "--base-latency", "-5ms"], "--base-latency -5ms: is no duration"),
            (
                ["target", "--tail-fraction", "much"],
                "--tail-fraction much: is no number; give one from 0 to 1",
            ),
            (["target", "--body-size", "-1"], "--body-size -1: is no whole number"),
            (
                ["target", "--body-size", "17m"],
                "--body-size 17m: is no whole number; give one from 0 to",
            ),
            (
                ["target", "--listen", "localhost:21000"],
                "--listen localhost:21000: is no IP address with a port; give IP:PORT, such as 127.0.0.1:8080",
            ),
            (["null-target", "--conns", "-1"], "--conns -1: is no whole number"),
            (["demo", "--duration", "-1s"], "--duration -1s: is no duration"),
        ] {
            let told = line_for(&args);
            assert!(told.starts_with(line), "{told}");
            let help = format!("; see `truetail {} --help`", args[0]);
            assert!(told.ends_with(&help) || told.contains("choose from"), "{told}");
        }
        // A flag that takes several values ends where the next flag begins.
        assert!(line_for(&["verify", "r", "--raw", "a", "--nonsense"]).contains("--nonsense"));
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
