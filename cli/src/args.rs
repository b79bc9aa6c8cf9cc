//! The command line: one definition feeds the parser, the help, the man pages and the completions.
//!
//! The flags of the commands that load a URL are a table, `flags`; `flag` is the type of its rows.
//! No other list names all flags.

mod ab_flags;
mod agent_flags;
mod agents;
mod commands;
mod flag;
mod flags;
mod foreign;
mod foreign_flags;
mod given;
mod headings;
mod series_flags;
pub(crate) mod target_route;
mod targets;
mod usage;
mod values;
mod variables;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use engine::plan::scenario::SCENARIOS_MAX;
use engine::plan::{Switch, Wait};
use engine::sys::placement;
use engine::sys::units::{CoreList, Nanos};
use judge::SHIPPED;
use target::FaultKind;

use crate::failure::Failure;
use crate::progress::{Progress, Shown};
use ab_flags::ChangeArgs;
pub(crate) use ab_flags::{AbArgs, SLICES_MAX};
pub(crate) use agent_flags::AgentArgs;
pub(crate) use agents::{AgentGroupArgs, ControllerArgs};
use commands::LOADING;
pub(crate) use flag::{Flag, ResultArgs, Settings};
pub(crate) use flags::{FIRST_RATE, FIRST_RATE_OF_CEILING, defaults};
pub(crate) use given::{Given, RunArgs, files, flag_of, key_like, result_files};
use headings::{FAULTS, HTTP2, LATENCY, ROUTES, STALLS};
pub(crate) use series_flags::{CeilingArgs, SearchArgs, SweepArgs};
pub(crate) use targets::{scenarios, unsendable};
pub(crate) use usage::is_bare;
use values::{
    COUNT_MAX, FAULT_KINDS, WAITS, WHOLE_MAX, choice, file, fraction, name_or_stdout, path,
    profile_name, socket_address, whole_amount, whole_number,
};
pub(crate) use values::{is_named, url};

const CALIBRATE: &str = "\
Measure the generator's own limits and overhead on this machine, in little more than a minute.

It loads the null target, on the cores that the generator leaves free, and measures the clocks, \
how late the generator wakes up, the highest rate it can offer, the latency of a target that does \
no work, the CPU time of a request and of optional features, and the generator's share of a known \
latency. The result is saved, and later runs are checked against it.

With --truth, load targets whose latency follows from arithmetic instead, and compare.";

const CEILING: &str = "\
Find the highest rate that generator and target sustain, and what limits it.

The rate quadruples until a step fails: it sends less than 98 % of what is due, its backlog grows by \
more than 1 % of the arrivals, the generator is more than 1 ms late for half of the requests, \
more than 1 % of them have no good answer, or answers stop. The next step is then \
at the rate that a failed one delivered, or halves the interval in between. Runs above the ceiling with other numbers of shards and connections show \
what limits it.

The bound is one of generator_core, target, cap (--conns), ports, files, link, none_reached.";

const AB: &str = "\
Load two URLs in alternating slices, and compare their latencies percentile by percentile.

Each slice is a run of its own, warm-up included. The first slice of each side isn't compared; \
then slices follow in the order A B B A A B, so that drift on the machine affects both sides \
alike. With --rate, the two slices of a pair have the same arrivals, and the next pair has \
different ones.

The target's errors count in every pair; requests that were never sent, or that failed because \
this machine lacked ports, files or memory, are shown separately. A pair's latencies are left out \
if the generator or its machine made one of its slices invalid; if fewer than 5 pairs are left, \
or fewer than half, latencies aren't judged. If the target may have made a slice invalid, the \
only change reported is that B is worse. It exits 3 if too few pairs of slices count, or the \
target may be the cause of invalid ones; with --fail-on regression also if no percentile has an \
interval.";

const EXPERIMENT: &str = "\
Repeat one of the project's experiments on measuring latency, or all of them.

An experiment starts its own servers, agents and runs, and judges the figures that it computes. \
It writes its reports, plots and result.json to a folder of its name; FINDINGS.md beside these \
folders presents all results. `page` runs nothing: it judges the existing results again, by the \
limits of this version, and rewrites FINDINGS.md.

Exits 1 if a figure is outside its limits, and 3 if other load on the machine may be the cause or \
the figure wasn't measured; `page` exits 0.";

/// The help of `judge`, with the tools that it knows.
fn judge_about() -> String {
    let known = SHIPPED.map(|(name, _)| name).join(", ");
    format!(
        "Check whether a load generator reports what happened, case by case.\n\n\
         It runs the tool against servers whose latency follows from arithmetic and whose ledger \
         counts every request, and compares what the tool prints. Known tools, if they are \
         installed: {known}. Any other is described by a file of ten lines, as docs/judge.md \
         shows. All cases take about two minutes.\n\n\
         `page` runs nothing: it makes a table of several tools' results, tools across and cases \
         down, and writes it as judge.html and as Markdown.\n\n\
         Exits 1 if a case failed or could not be read, and 3 if other load on the machine may \
         be why."
    )
}

/// The argument that stands for all experiments.
pub(crate) const ALL_EXPERIMENTS: &str = "all";
/// The argument that runs no experiment or tool and writes the page of existing results.
pub(crate) const PAGE: &str = "page";

const AGENT: &str = "\
By default an agent listens on loopback, needs no key and loads loopback targets only. If its \
controller is silent for 3s, it stops the run and keeps the report in --state-dir.

Exits 0 if a signal stops it, or 130 if that cut a run short. With --once, exits 0 if the run's \
report was collected, else 1.";

const CONTROLLER: &str = "\
Load a URL from many machines, each with an agent, and report one distribution of latencies.

The flags are those of `truetail run` and apply to all agents together: with --rate 9k, three \
equal agents send 3,000 requests per second each. The arrivals are those of a single machine with \
the same seed, dealt out to the agents. Once all agents are ready, they begin at the same moment; \
afterwards their histograms are merged.

Cores, source addresses and permitted targets are set on each agent: see `truetail agent --help`.";

const COMPARE: &str = "\
The sides may differ in target, seed, objectives, thresholds and the results that they keep. Runs \
differ even if nothing has changed. Several runs per side, made in turn, show by how much, and \
with five or more per side the intervals include it. With one run per side it is unknown, so \
--fail-on exits 3 unless --accept-one-run is given.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "truetail",
    version,
    max_term_width = 110,
    about = "Measures HTTP latency from when a request was due, not from when it was sent",
    long_about = "Measures HTTP latency from when a request was due, not from when it was sent. \
        Load comes at a set rate from pinned cores over io_uring, and each report can be verified.",
    after_help = commands::EXAMPLES,
    after_long_help = format!("{}\n\n{}", commands::EXIT_CODES, commands::EXAMPLES)
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
    Run(Box<RunArgs>),
    /// Show what coordinated omission hides, on a server that stalls
    ///
    /// It loads one stalling server twice, in a closed loop and by arrival rate, and compares the
    /// percentiles.
    Demo(DemoArgs),
    /// Check whether this machine is fit for load tests, and what to fix
    Doctor(DoctorArgs),
    /// Find the highest rate that meets the objectives of --slo
    #[command(after_help = "\
Each step is an open run, and passes if it meets the objectives.
Exits 0 if a rate passed, 4 if none did, and 3 if no valid step decided anything.")]
    Search(Box<SearchArgs>),
    /// Compare reports of two or more runs: which percentiles changed
    #[command(
        override_usage = "truetail compare [OPTIONS] <A.json> <B.json>\n       \
            truetail compare [OPTIONS] <A.json>... --with <B.json>...",
        after_help = COMPARE
    )]
    Compare(CompareArgs),
    /// Load a URL at many rates, and find the knee of its latency
    #[command(after_help = "Each step is an open run.")]
    Sweep(Box<SweepArgs>),
    /// Find the highest rate possible, and what limits it
    #[command(
        override_usage = "truetail ceiling [OPTIONS] <URL|--null>",
        long_about = CEILING,
        after_help = "Each step is an open run."
    )]
    Ceiling(Box<CeilingArgs>),
    /// Load two URLs in alternating slices, and compare their latencies
    #[command(
        override_usage = "truetail ab [OPTIONS] <URL-A> <URL-B>",
        long_about = AB,
        after_help = "\
Exits 0 whatever changed, 4 with --fail-on regression if B is worse, and 3 if too few pairs count."
    )]
    Ab(Box<AbArgs>),
    /// Load a URL from many machines, each with an agent
    #[command(long_about = CONTROLLER)]
    Controller(Box<ControllerArgs>),
    /// Generate load for a controller, within limits set here
    #[command(after_help = AGENT)]
    Agent(Box<AgentArgs>),
    /// Show saved reports again: as text, as a page or as charts
    #[command(after_help = "\
Without --html and --svg it prints the summary that the run printed.")]
    Report(ReportArgs),
    /// Recompute a report's figures and check that they agree
    ///
    /// It recomputes the figures of a report from the report itself and from its raw samples, and
    /// those of a sweep, a search or a ceiling from its steps.
    Verify(VerifyArgs),
    /// Print a run's raw samples as CSV or JSON Lines
    Samples(SamplesArgs),
    /// Make a plan from an access log, a HAR file or a curl line
    #[command(override_usage = "\
truetail import [OPTIONS] <LOG|->
       truetail import [OPTIONS] --har <FILE>
       truetail import [OPTIONS] --curl <LINE>")]
    Import(ImportArgs),
    /// Compare the CPU profiles of two runs, function by function
    Flamediff(FlamediffArgs),
    /// Run a server with known latency, which keeps a ledger
    ///
    /// The ledger records how many requests came, and how long the server held them.
    Target(Box<TargetArgs>),
    /// Run the cheapest possible server, to test the generator's limits
    NullTarget(NullTargetArgs),
    /// Measure the generator's own limits and overhead on this machine
    #[command(long_about = CALIBRATE)]
    Calibrate(CalibrateArgs),
    /// Repeat one of the project's experiments on measuring latency
    #[command(long_about = EXPERIMENT)]
    Experiment(ExperimentArgs),
    /// Check whether a load generator reports what happened
    #[command(
        override_usage = "truetail judge [OPTIONS] <TOOL|FILE.toml>\n       \
            truetail judge page [--out <DIR>] <RESULT.json>...",
        long_about = judge_about()
    )]
    Judge(JudgeArgs),
    /// Print the man page of truetail or of one of its commands
    Man {
        /// The command [default: truetail itself]
        #[arg(conflicts_with = "out")]
        command: Option<String>,
        /// Write the pages of truetail and of all its commands to this folder
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// How the progress of a command is shown.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ProgressArgs {
    /// How to show progress, on stderr: as a bar, as a line every 10 s, or not at all [default: bar
    /// on a terminal, else lines]
    #[arg(
        long,
        value_name = "HOW",
        value_parser = choice::<Progress>(&Progress::NAMES),
        conflicts_with = "quiet"
    )]
    pub(crate) progress: Option<Progress>,

    /// The same as --progress off
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl ProgressArgs {
    /// The progress display.
    ///
    /// # Errors
    /// A bar was asked for without a terminal.
    pub(crate) fn shown(&self) -> Result<Shown, Failure> {
        Progress::shown(self.progress, self.quiet)
    }
}

/// Arguments of `samples`.
#[derive(Debug, Args)]
pub(crate) struct SamplesArgs {
    /// The file written by `run --raw`
    pub(crate) file: PathBuf,

    /// Print CSV (the default): a header, then one line per request; times are in ns since the
    /// start of the run
    #[arg(long, group = "format")]
    pub(crate) csv: bool,

    /// Print JSON Lines: one object per request
    #[arg(long, group = "format")]
    pub(crate) json: bool,

    /// Add the name of each request's scenario and the number of its stage, by this report of the
    /// run
    #[arg(long, value_name = "REPORT")]
    pub(crate) report: Option<PathBuf>,
}

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The report written by `run --out`, or the document written by `sweep --out`, `search --out`,
    /// `ceiling --out`, `compare --out` or `ab --out`
    pub(crate) report: PathBuf,

    /// The raw samples written by `run --raw`, or the folder of all agents' samples that
    /// `controller --raw` collected
    #[arg(long, value_name = "FILE|DIR", num_args = 1..)]
    pub(crate) raw: Vec<PathBuf>,

    /// Print only differences
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Print each check, and what can't be checked
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) details: bool,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Reports written by `run --out`; several are shown side by side, on the same axes
    #[arg(required = true, value_name = "REPORT")]
    pub(crate) reports: Vec<PathBuf>,

    /// Write a self-contained HTML page with tables and charts
    #[arg(long, value_name = "FILE.html", value_parser = file())]
    pub(crate) html: Option<PathBuf>,

    /// Write each chart as an SVG file in this folder
    #[arg(long, value_name = "DIR", value_parser = file())]
    pub(crate) svg: Option<PathBuf>,

    /// Print everything that is known about each run: the reasons in full, lateness, connections,
    /// and the checks of the run on itself
    #[arg(long, conflicts_with_all = ["html", "svg"])]
    pub(crate) details: bool,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print all checks, not only problems
    #[arg(long, conflicts_with = "json")]
    pub(crate) details: bool,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Reports of side A, written by `run --out`; without --with, the second of two is side B
    #[arg(value_name = "A.json", required = true, hide_possible_values = true)]
    pub(crate) reports: Vec<PathBuf>,

    /// Reports of side B, if a side has more than one
    #[arg(long, value_name = "B.json", num_args = 1..)]
    pub(crate) with: Vec<PathBuf>,

    /// The size of a change that counts.
    #[command(flatten)]
    pub(crate) change: ChangeArgs,

    /// Let --fail-on decide from one run per side, although runs of the same target differ
    #[arg(long, requires = "fail_on")]
    pub(crate) accept_one_run: bool,

    /// Compare runs even if their plans differ
    #[arg(long)]
    pub(crate) allow_different_plans: bool,

    /// Also print the smallest change that such runs can show, and how the intervals were made
    #[arg(long)]
    pub(crate) details: bool,

    /// Compare runs even if their verdict is invalid or they were interrupted
    #[arg(long)]
    pub(crate) allow_invalid: bool,

    /// Write the comparison as JSON; with -, to standard output, and the text to stderr
    #[arg(long, short = 'o', value_name = "FILE|-", value_parser = path(name_or_stdout))]
    pub(crate) out: Option<PathBuf>,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The access log, or - for standard input: common or combined format, also with nginx's
    /// $request_time at the end, or JSON lines with time, method and path
    #[arg(
        value_name = "LOG|-",
        value_parser = path(name_or_stdout),
        required_unless_present_any = ["har", "curl"],
        conflicts_with_all = ["har", "curl"]
    )]
    pub(crate) log: Option<PathBuf>,

    /// Read the requests that a browser saved as a HAR file, to whichever hosts; those beside the
    /// first one's are listed
    #[arg(long, value_name = "FILE", value_parser = file(), conflicts_with = "curl")]
    pub(crate) har: Option<PathBuf>,

    /// Read a curl line, in quotes
    #[arg(long, value_name = "LINE")]
    pub(crate) curl: Option<String>,

    /// Whether paths of a log that differ only in numbers, UUIDs or long hexadecimal ids are one
    /// route, whatever their query [default: on]
    #[arg(
        long,
        value_name = "on|off",
        value_parser = choice::<Switch>(&["on", "off"]),
        hide_possible_values = true,
        conflicts_with_all = ["har", "curl"]
    )]
    fold: Option<Switch>,

    /// The most routes of a log's plan, the most frequent ones; fewer allow shorter stages
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_amount(1..=SCENARIOS_MAX),
        default_value_t = SCENARIOS_MAX
    )]
    pub(crate) routes: usize,

    /// Write the plan to this file; with -, to standard output, and the text to stderr
    #[arg(
        long,
        short = 'o',
        value_name = "FILE|-",
        value_parser = path(name_or_stdout),
        default_value = "-"
    )]
    pub(crate) out: PathBuf,
}

impl ImportArgs {
    /// True if paths that differ only in ids are one route.
    pub(crate) fn fold(&self) -> bool {
        self.fold != Some(Switch::Off)
    }
}

/// Arguments of `flamediff`.
#[derive(Debug, Args)]
pub(crate) struct FlamediffArgs {
    /// The first profile, a .folded or .pb.gz file written by `run --flamegraph`
    pub(crate) before: PathBuf,

    /// The second profile
    pub(crate) after: PathBuf,

    /// Draw the second profile, and stacks that only the first has; red costs more than before,
    /// blue less
    #[arg(long, value_name = "FILE.svg", value_parser = file())]
    pub(crate) out: Option<PathBuf>,

    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// The address and the cores of a server.
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

    /// Cores to serve from, e.g. 0 or 0-3 [default: the first one allowed, which a run leaves free]
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

/// The TLS flags of a server.
#[derive(Debug, Args)]
pub(crate) struct TlsServer {
    /// Serve HTTPS, with a certificate generated at the start
    #[arg(long)]
    pub(crate) tls: bool,

    /// Write the certificate of the server's issuer, as PEM, for clients to trust
    #[arg(long, value_name = "FILE", value_parser = file(), requires = "tls")]
    pub(crate) write_cacert: Option<PathBuf>,
}

impl TlsServer {
    /// The URL scheme of the server.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }
}

/// Arguments of `target`.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// Where it listens and runs.
    #[command(flatten)]
    pub(crate) place: Place,

    /// Whether it speaks TLS.
    #[command(flatten)]
    pub(crate) tls: TlsServer,

    /// Size of each response body, in bytes
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = whole_number(0..=COUNT_MAX),
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
        value_parser = whole_number(0..=WHOLE_MAX),
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
        value_parser = whole_number(0..=WHOLE_MAX),
        requires = "pause_for",
        help_heading = STALLS
    )]
    pub(crate) pause_every_requests: Option<u64>,

    /// Length of each pause
    #[arg(long, value_name = "DURATION", requires = "pause_every_requests", help_heading = STALLS)]
    pub(crate) pause_for: Option<Nanos>,

    /// How many of the first requests take --cold-latency longer [default: no cold start]
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(0..=WHOLE_MAX),
        requires = "cold_latency",
        help_heading = LATENCY
    )]
    pub(crate) cold_requests: Option<u64>,

    /// How much longer each of these requests takes
    #[arg(long, value_name = "DURATION", requires = "cold_requests", help_heading = LATENCY)]
    pub(crate) cold_latency: Option<Nanos>,

    /// What every Nth request over HTTP/1.1 gets: a reset of its connection, half of its response,
    /// or its response twice [default: no faults]
    #[arg(
        long,
        value_name = "KIND",
        value_parser = choice::<FaultKind>(&FAULT_KINDS),
        requires = "fault_every",
        help_heading = FAULTS
    )]
    pub(crate) fault: Option<FaultKind>,

    /// Requests from one fault to the next, 1 for all; each core counts its own
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(0..=WHOLE_MAX),
        requires = "fault",
        help_heading = FAULTS
    )]
    pub(crate) fault_every: Option<u64>,

    /// Most streams that an HTTP/2 connection may have open at once [default: no limit]
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(0..=u32::MAX),
        help_heading = HTTP2
    )]
    pub(crate) max_streams: Option<u32>,

    /// Send a graceful GOAWAY after N requests of an HTTP/2 connection [default: never]
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(0..=WHOLE_MAX),
        help_heading = HTTP2
    )]
    pub(crate) goaway_every: Option<u64>,

    /// Refuse every Nth stream of an HTTP/2 connection (REFUSED_STREAM) [default: none]
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(0..=WHOLE_MAX),
        help_heading = HTTP2
    )]
    pub(crate) refuse: Option<u64>,

    /// Bytes of a body that an HTTP/2 client may send before it must wait for a window update
    /// [default: 65,535]
    #[arg(
        long,
        value_name = "BYTES",
        value_parser = whole_number(0..=u32::MAX),
        help_heading = HTTP2
    )]
    pub(crate) window: Option<u32>,

    /// Let a path, and all below it, behave in its own way, with counts of its own in the ledger:
    /// PATH:base=5ms,tail=50ms,tail-fraction=0.01,stall-every=2s,stall-for=200ms,serial,
    /// fault=reset,fault-every=10,body-size=128,status=503, or some of these; the rest as without
    /// --route. Repeatable
    #[arg(long, value_name = "PATH:KEY=VALUE,...", help_heading = ROUTES)]
    pub(crate) route: Vec<String>,

    /// Be a shop too: give users a token, a cookie, ids and CSRF values, and check that their next
    /// steps bring those along (/login, /search, /items/ID, /basket, /pay)
    #[arg(long, help_heading = ROUTES)]
    pub(crate) shop: bool,

    /// Exit when the parent process exits
    #[arg(long, hide = true)]
    pub(crate) end_with_parent: bool,
}

/// The null target's default limit of connections per core.
pub(crate) const NULL_CONNS: &str = "4096";

/// Arguments of `null-target`.
#[derive(Debug, Args)]
pub(crate) struct NullTargetArgs {
    /// Where it listens and runs.
    #[command(flatten)]
    pub(crate) place: Place,

    /// Whether it speaks TLS.
    #[command(flatten)]
    pub(crate) tls: TlsServer,

    /// Most connections per core; any beyond that are closed
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(0..=COUNT_MAX),
        default_value = NULL_CONNS
    )]
    pub(crate) conns: usize,

    /// Exit when the parent process exits
    #[arg(long, hide = true)]
    pub(crate) end_with_parent: bool,
}

/// Arguments of `calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Load targets that stall, pause and queue, and compare each measured latency with the one
    /// that arithmetic gives, in about five minutes
    #[arg(long)]
    pub(crate) truth: bool,

    /// Cores of the generator [default: those of a run]
    #[arg(long, value_name = "LIST", conflicts_with = "truth")]
    pub(crate) cores: Option<CoreList>,

    /// Take a fraction of the time: figures scatter more, bands are wider, and the result doesn't
    /// replace a full calibration
    #[arg(long)]
    pub(crate) quick: bool,

    /// How a shard waits for the next arrival
    #[arg(long, value_parser = choice::<Wait>(&WAITS), default_value = "hybrid")]
    pub(crate) wait: Wait,

    /// Write all figures as JSON
    #[arg(long, value_name = "FILE", value_parser = file())]
    pub(crate) out: Option<PathBuf>,

    /// Profile the best closed loop in a run of its own, and write where its CPU time went:
    /// FILE.svg, FILE.folded or FILE.pb.gz
    #[arg(long, value_name = "FILE", value_parser = path(profile_name), conflicts_with = "truth")]
    pub(crate) flamegraph: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

/// Arguments of `experiment`.
#[derive(Debug, Args)]
pub(crate) struct ExperimentArgs {
    /// The experiment's name, `all` or `page`
    #[arg(value_parser = experiment_name())]
    pub(crate) name: String,

    /// Scale it down to seconds: figures scatter more, and limits that depend on the number of
    /// requests are wider
    #[arg(long)]
    pub(crate) quick: bool,

    /// Folder for the results
    #[arg(
        long,
        value_name = "DIR",
        value_parser = file(),
        default_value = "truetail-experiments"
    )]
    pub(crate) out: PathBuf,

    /// File for the page with all results in DIR [default: DIR/FINDINGS.md]
    #[arg(long, value_name = "FILE", value_parser = file())]
    pub(crate) page: Option<PathBuf>,

    /// Don't print the commands as they run
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Arguments of `judge`.
#[derive(Debug, Args)]
pub(crate) struct JudgeArgs {
    /// The tool's name, a file that describes it, or `page`
    #[arg(value_name = "TOOL|FILE.toml")]
    pub(crate) tool: String,

    /// After `page`: a result.json of each tool, in the order of the columns
    #[arg(value_name = "RESULT.json")]
    pub(crate) results: Vec<PathBuf>,

    /// Run only these cases, e.g. rate,freeze [default: all]
    #[arg(long = "case", value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) cases: Vec<String>,

    /// Folder for result.json and what the tool prints, or for the page
    #[arg(long, value_name = "DIR", value_parser = file(), default_value = "truetail-judge")]
    pub(crate) out: PathBuf,

    /// Make each run half as long: figures scatter more, and bands are wider
    #[arg(long)]
    pub(crate) quick: bool,
}

/// The name of an experiment, `all`, or `page`.
fn experiment_name() -> PossibleValuesParser {
    let names = calibration::experiments::ALL.map(|experiment| experiment.name);
    PossibleValuesParser::new(names.into_iter().chain([ALL_EXPERIMENTS, PAGE]))
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

    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
}

/// The arguments, with the command `run` inserted if they begin with one of its flags or a URL.
pub(crate) fn completed(mut args: Vec<OsString>) -> Vec<OsString> {
    let about_all = ["-h", "--help", "-V", "--version"];
    let first = args.get(1).and_then(|first| first.to_str()).unwrap_or_default();
    let is_of_run = match first.starts_with('-') {
        true => !about_all.contains(&first),
        // No command's name has the dots, colons and slashes of a URL, and no URL has spaces but
        // in its fields.
        false => {
            let url = first.split("{{").next().unwrap_or_default();
            url.contains(['.', ':', '/']) && !url.contains(char::is_whitespace)
        }
    };
    if is_of_run {
        args.insert(1, "run".into());
    }
    args
}

/// For arguments of another load generator: their meaning here, and the line to type.
pub(crate) fn answer(args: &[OsString]) -> Option<String> {
    let words: Option<Vec<String>> =
        args.iter().skip(1).map(|word| word.to_str().map(str::to_owned)).collect();
    foreign::answer(&words?, &definition())
}

/// A usage error in these arguments in one line: the flag, the value and the cure.
pub(crate) fn one_line(error: &clap::Error, args: &[OsString]) -> String {
    usage::one_line(error, args, &definition())
}

/// Parses the arguments.
///
/// # Errors
/// Whatever the parser reports, including help and version.
pub(crate) fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    let args = &without_repetition(args);
    Cli::from_arg_matches(&command(args).try_get_matches_from(args)?)
}

/// The arguments without a `--progress off` beside `--quiet`, which implies it.
fn without_repetition(args: &[OsString]) -> Vec<OsString> {
    let typed = variables::typed(plain(), args);
    let mut args = args.to_vec();
    if ["quiet", "progress"].iter().all(|flag| typed.iter().any(|id| id == flag)) {
        args.retain(|word| word != "--progress=off");
        if let Some(at) = args.windows(2).position(|two| two == ["--progress", "off"]) {
            args.drain(at..at + 2);
        }
    }
    args
}

/// Refuses an environment variable that stands for no flag, and two that exclude each other.
///
/// # Errors
/// A line that names them.
pub(crate) fn check_variables(args: &[OsString]) -> Result<(), String> {
    let name = args.get(1).and_then(|name| name.to_str()).unwrap_or_default();
    if !LOADING.contains(&name) {
        return Ok(());
    }
    let names: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
    if let Some(name) = variables::unknown(&definition(), names.iter().cloned()) {
        return Err(format!(
            "{name}: unknown variable; variables are named after flags, e.g. TRUETAIL_RATE for \
             --rate; unset it, or see `{}`",
            usage::help_for(args, &definition())
        ));
    }
    let (plain, typed) = (plain(), variables::typed(plain(), args));
    let own = plain.find_subcommand(name).expect("one of the commands");
    match variables::at_odds(own, &typed, &names) {
        None => Ok(()),
        Some([one, other]) => {
            Err(format!("{one} and {other}: they exclude each other; unset one of them"))
        }
    }
}

/// The definition for these arguments, with the variables that may replace missing flags.
fn command(args: &[OsString]) -> clap::Command {
    let typed = variables::typed(plain(), args);
    plain().mut_subcommands(|command| match LOADING.contains(&command.get_name()) {
        true => variables::with_variables(command, &typed),
        false => command,
    })
}

/// The definition, with one rule for all flags: the word after a flag is its value, even `-5`, so
/// that the error concerns that flag.
fn plain() -> clap::Command {
    definition().mut_subcommands(|command| {
        command.mut_args(|arg| {
            let values = arg.get_num_args().map_or(1, |count| count.max_values());
            let one = arg.get_action().takes_values() && values == 1;
            if one && !arg.is_positional() { arg.allow_hyphen_values(true) } else { arg }
        })
    })
}

/// The definition.
pub(crate) fn definition() -> clap::Command {
    let program = Cli::command()
        .mut_subcommand("sweep", series_flags::of_series)
        .mut_subcommand("search", series_flags::of_series)
        .mut_subcommand("ceiling", series_flags::of_ceiling)
        .mut_subcommands(commands::with_short_help);
    let template = commands::template(&program);
    program.help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command(&[]).debug_assert();
    }
}
