//! The flags of `run`, which are the keys of a plan file too: one struct, read by clap and by
//! serde.
//!
//! They are named like the plan's fields and all optional: what isn't given is left to the plan
//! file, then to the plan's own defaults. So there is no second configuration, and no second set of
//! defaults.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use engine::plan::body::BODY_MAX;
use engine::plan::slo::Objectives;
use engine::plan::status::StatusSet;
use engine::plan::thresholds::{Bound, Thresholds};
use engine::plan::{
    Arrivals, CONNS_CLOSED_DEFAULT, CONNS_MAX, CONNS_OPEN_DEFAULT, FLUSH_CLOSED_DEFAULT, FLUSH_MAX,
    FLUSH_OPEN_DEFAULT, Model, Overload, Overrides, PIPELINE_MAX, Plan, QUEUE_MAX_DEFAULT,
    STAMP_SENDS_DEFAULT, StampSource, Switch, TlsSession, Wait,
};
use engine::report::moves::MOVES;
use engine::report::verdict::Code;
use engine::sys::units::{CoreList, Nanos, OneIn, Rate};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::headings::{CONNECTIONS, LOAD, MACHINE, REQUEST, RESULTS, TLS, VERDICT};
use super::values::{
    WHOLE_MAX, by_name, credentials, file, file_name, file_or_stdout, ip_address, profile_name,
    prom_name, tag, whole_number,
};
use super::{ResultArgs, file_values};
use crate::csv;
use crate::progress::Progress;

const THRESHOLD: &str = "A threshold of the verdict; repeatable. Overrides the plan file's";

/// How a shard may wait, by name.
pub(super) const WAITS: [&str; 3] = ["sleep", "hybrid", "spin"];

/// What fails a run beside missed objectives and an invalid verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FailOn {
    /// An objective that is neither met nor missed.
    Undecided,
    /// A suspect verdict.
    Suspect,
    /// A side B that is worse: of `ab` alone, so no key of a file knows it.
    #[serde(skip)]
    Regression,
}

/// The plan's fields, and where the results go, as far as they were given.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct PlanFlags {
    #[arg(
        value_name = "URL",
        conflicts_with = "target",
        help = "The URL to request, http://HOST[:PORT]/PATH or https://…"
    )]
    #[serde(skip)]
    pub(crate) url: Option<String>,

    #[arg(
        long,
        value_name = "URL",
        help_heading = REQUEST,
        help = "The URL to request, instead of the argument",
    )]
    #[serde(deserialize_with = "file_values::text")]
    pub(crate) target: Option<String>,

    #[arg(
        long,
        value_parser = choice::<Model>(&["open", "closed"]),
        help_heading = LOAD,
        help = "What triggers requests: a schedule (open) or responses (closed) [default: open \
            with --rate, else closed]",
    )]
    #[serde(deserialize_with = "file_values::choice")]
    pub(crate) model: Option<Model>,

    #[arg(
        long,
        short = 'R',
        aliases = ["rps", "qps"],
        value_name = "PER_SECOND",
        help_heading = LOAD,
        help = "Open model: requests per second, e.g. 500, 20k or 1.5M",
    )]
    pub(crate) rate: Option<Rate>,

    #[arg(
        long,
        value_parser = choice::<Arrivals>(&["poisson", "constant"]),
        help_heading = LOAD,
        help = with_default("Open model: how arrivals are spaced", Plan::default().arrivals),
    )]
    #[serde(deserialize_with = "file_values::choice")]
    pub(crate) arrivals: Option<Arrivals>,

    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(0..=WHOLE_MAX),
        help_heading = LOAD,
        help = with_default(
            "Open model: seed of the schedule; the same seed gives the same arrivals",
            Plan::default().seed
        ),
    )]
    #[serde(deserialize_with = "file_values::whole::<0, _>")]
    pub(crate) seed: Option<u64>,

    #[arg(
        long,
        short = 'c',
        alias = "connections",
        value_name = "N",
        value_parser = whole_number(1..=CONNS_MAX),
        help_heading = LOAD,
        help = format!(
            "Open model: most connections, so most requests in flight; closed model: number of \
                users [default: {CONNS_OPEN_DEFAULT} open, {CONNS_CLOSED_DEFAULT} closed]"
        ),
    )]
    #[serde(deserialize_with = "file_values::count::<1, CONNS_MAX, _>")]
    pub(crate) conns: Option<usize>,

    #[arg(
        long,
        value_name = "DURATION",
        help_heading = LOAD,
        help = "Closed model: each user sends one request per period, or as soon as a late \
            response arrives [default: as soon as any response arrives]",
    )]
    pub(crate) period: Option<Nanos>,

    #[arg(
        long,
        short = 'n',
        value_name = "N",
        value_parser = whole_number(1..=WHOLE_MAX),
        help_heading = LOAD,
        help = "End the window after N intended requests [default: after --duration]",
        long_help = "End the window after N intended requests, exactly, or after --duration if that \
            is given and comes first. The target gets no others: there is no warm-up unless \
            --warmup asks for one, which sends more. By arrival rate, and with --period, the window \
            ends when the next one would be due; a closed loop ends when the last has been \
            answered, each shard with its part of N [default: after --duration]",
    )]
    #[serde(deserialize_with = "file_values::whole::<1, _>")]
    pub(crate) requests: Option<u64>,

    #[arg(
        long,
        short = 'd',
        value_name = "DURATION",
        help_heading = LOAD,
        help = with_default("Length of the recorded window", Plan::default().duration),
    )]
    pub(crate) duration: Option<Nanos>,

    #[arg(
        long,
        value_name = "DURATION",
        help_heading = LOAD,
        help = format!(
            "Length of the warm-up before the window; it isn't recorded [default: {}, none with \
                --requests]",
            Plan::default().warmup
        ),
    )]
    pub(crate) warmup: Option<Nanos>,

    #[arg(
        long,
        short = 't',
        value_name = "DURATION",
        help_heading = LOAD,
        help = with_default(
            "Longest time from when a request was sent to the end of its response; one that \
                takes longer counts as timed out, with this latency",
            Plan::default().timeout
        ),
    )]
    pub(crate) timeout: Option<Nanos>,

    #[arg(
        long,
        short = 'm',
        visible_short_alias = 'X',
        help_heading = REQUEST,
        help = "The HTTP method, in capitals whatever is given [default: GET, POST with a body]",
    )]
    #[serde(deserialize_with = "file_values::text")]
    pub(crate) method: Option<String>,

    #[arg(
        long = "header",
        short = 'H',
        value_name = "NAME: VALUE",
        help_heading = REQUEST,
        help = "A request header; repeatable. Replaces all headers of the plan file",
    )]
    #[serde(rename = "header", deserialize_with = "file_values::headers")]
    pub(crate) headers: Option<Vec<String>>,

    #[arg(
        long,
        short = 'u',
        value_name = "USER:PASSWORD",
        value_parser = credentials,
        help_heading = REQUEST,
        help = "Send this name and password as basic authorization; the report has their hash",
    )]
    #[serde(deserialize_with = "file_values::credentials_text")]
    pub(crate) user: Option<String>,

    #[arg(
        long,
        short = 'b',
        alias = "data",
        value_name = "TEXT|@FILE|-",
        help_heading = REQUEST,
        help = format!(
            "The request body: literal text, @FILE for a file's content, at most {} GiB, or - for \
                standard input; the file must not change during the run. Without \
                --method it is posted, as application/x-www-form-urlencoded unless a header names \
                another type [default: none]",
            BODY_MAX >> 30
        ),
    )]
    #[serde(deserialize_with = "file_values::text")]
    pub(crate) body: Option<String>,

    #[arg(
        long,
        value_name = "LIST",
        help_heading = MACHINE,
        help = "Cores to run on, one shard each, e.g. 0,1 or 0-3 [default: one hardware thread of \
            each physical core but the first, near the interface and not those that serve its \
            interrupts]",
    )]
    pub(crate) cores: Option<CoreList>,

    #[arg(
        long,
        value_parser = choice::<Wait>(&WAITS),
        help_heading = MACHINE,
        help = with_default(
            "How a shard waits for the next arrival: better timing takes more CPU",
            Plan::default().wait
        ),
    )]
    #[serde(deserialize_with = "file_values::choice")]
    pub(crate) wait: Option<Wait>,

    #[arg(
        long,
        value_name = "WHOSE",
        value_parser = choice::<StampSource>(&["kernel", "hardware", "user"]),
        help_heading = MACHINE,
        help = "Whose stamp a response's arrival has: the kernel's keeps the client's wake-up and \
            queue out of latencies; hardware is the interface's, whose clock phc2sys must keep on \
            the wall clock (never tried on such an interface) [default: kernel, or user where the \
            kernel stamps nothing]",
    )]
    #[serde(deserialize_with = "file_values::choice")]
    pub(crate) stamps: Option<StampSource>,

    #[arg(
        long,
        value_name = "1/N|off",
        help_heading = MACHINE,
        help = format!(
            "Have the kernel say of one request in N when it left the host: how far the send stamps \
                are off. Each costs a system call more [default: {STAMP_SENDS_DEFAULT}, off with \
                --stamps user and where the kernel can't]"
        ),
    )]
    pub(crate) stamp_sends: Option<OneIn>,

    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(1..=FLUSH_MAX),
        help_heading = MACHINE,
        help = format!(
            "Most sends per system call: more saves CPU, fewer keep the send stamps exact \
                [default: {FLUSH_OPEN_DEFAULT} open, {FLUSH_CLOSED_DEFAULT} closed]"
        ),
    )]
    #[serde(deserialize_with = "file_values::count::<1, FLUSH_MAX, _>")]
    pub(crate) flush: Option<usize>,

    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(1..=PIPELINE_MAX),
        help_heading = CONNECTIONS,
        help = with_default(
            &format!(
                "Most requests in flight on one connection, 1 to {PIPELINE_MAX}; a closed model \
                    keeps that many in flight on each"
            ),
            Plan::default().pipeline
        ),
    )]
    #[serde(deserialize_with = "file_values::count::<1, PIPELINE_MAX, _>")]
    pub(crate) pipeline: Option<usize>,

    #[arg(
        long,
        value_name = "DURATION",
        help_heading = LOAD,
        help = "Longest time from when a request was due to the end of its response; one that \
            takes longer counts as timed out, apart from --timeout [default: none]",
    )]
    pub(crate) deadline: Option<Nanos>,

    #[arg(
        long,
        value_parser = choice::<Overload>(&["queue", "drop"]),
        help_heading = LOAD,
        help = with_default(
            "Open model: an arrival that finds no idle connection waits and is sent late (queue), \
                or waits at most --queue-max and then counts as unsent (drop)",
            Plan::default().overload
        ),
    )]
    #[serde(deserialize_with = "file_values::choice")]
    pub(crate) overload: Option<Overload>,

    #[arg(
        long,
        value_name = "DURATION",
        help_heading = LOAD,
        help = format!("With --overload drop: longest wait for a connection [default: \
            {QUEUE_MAX_DEFAULT}]"),
    )]
    pub(crate) queue_max: Option<Nanos>,

    #[arg(
        long,
        value_parser = choice::<Switch>(&["on", "off"]),
        help_heading = LOAD,
        help = "Closed model with --period: correct by back-filling (HdrHistogram's \
            record_correct) instead of by intended times [default: off]",
    )]
    #[serde(deserialize_with = "file_values::choice")]
    pub(crate) backfill: Option<Switch>,

    #[arg(
        long,
        value_parser = choice::<Switch>(&["on", "off"]),
        help_heading = CONNECTIONS,
        help = with_default("Whether connections are reused", Plan::default().keepalive),
    )]
    #[serde(deserialize_with = "file_values::choice")]
    pub(crate) keepalive: Option<Switch>,

    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(1..=WHOLE_MAX),
        help_heading = CONNECTIONS,
        help = "Close a connection after this many requests [default: when the target closes it]",
    )]
    #[serde(deserialize_with = "file_values::whole::<1, _>")]
    pub(crate) requests_per_connection: Option<u64>,

    #[arg(
        long,
        value_name = "HOST:PORT",
        help_heading = CONNECTIONS,
        help = "Connect there instead of to the URL's host and port; requests stay as they are",
    )]
    #[serde(deserialize_with = "file_values::text")]
    pub(crate) connect_to: Option<String>,

    #[arg(
        long,
        value_name = "HOST:PORT:ADDRESS",
        help_heading = CONNECTIONS,
        help = "The address of the URL's host and port, e.g. api.test:80:10.0.0.2, instead of the \
            resolver's",
    )]
    #[serde(deserialize_with = "file_values::text")]
    pub(crate) resolve: Option<String>,

    #[arg(
        long,
        value_name = "PATH",
        value_parser = file_name,
        help_heading = CONNECTIONS,
        help = "Connect to this Unix-domain socket instead of the URL's host and port; requests stay \
            as they are",
        long_help = "Connect to this Unix-domain socket instead of the URL's host and port; requests \
            stay as they are. The kernel stamps nothing that passes it: latencies end where the \
            response is handled, as with --stamps user, and the verdict says so",
    )]
    #[serde(deserialize_with = "file_values::path")]
    pub(crate) unix: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FILE",
        value_parser = file(),
        help_heading = TLS,
        help = "Trust the issuers whose certificates this PEM file has, beside the system's",
    )]
    #[serde(deserialize_with = "file_values::path")]
    pub(crate) cacert: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FILE",
        value_parser = file(),
        help_heading = TLS,
        help = "The client's certificate and those of its issuers, a PEM file; with --key \
            [default: none]",
    )]
    #[serde(deserialize_with = "file_values::path")]
    pub(crate) cert: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FILE",
        value_parser = file(),
        help_heading = TLS,
        help = "The key of --cert, a PEM file",
    )]
    #[serde(deserialize_with = "file_values::path")]
    pub(crate) key: Option<PathBuf>,

    #[arg(
        long,
        short = 'k',
        help_heading = TLS,
        help = "Accept any certificate; the report says so",
    )]
    pub(crate) insecure: bool,

    #[arg(
        long,
        value_name = "WHICH",
        value_parser = choice::<TlsSession>(&["full", "resume"]),
        help_heading = TLS,
        help = with_default(
            "What each connection's handshake is: full, or that of a client who comes again and \
                resumes a session",
            Plan::default().tls_session
        ),
    )]
    #[serde(deserialize_with = "file_values::choice")]
    pub(crate) tls_session: Option<TlsSession>,

    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = ip_address,
        help_heading = CONNECTIONS,
        help = "Local addresses to connect from, in turn, e.g. 127.0.0.2,127.0.0.3 [default: the \
            kernel chooses]",
    )]
    #[serde(deserialize_with = "file_values::addresses")]
    pub(crate) source_addresses: Option<Vec<IpAddr>>,

    #[arg(
        long,
        value_name = "DURATION",
        help_heading = CONNECTIONS,
        help = with_default(
            "Open model with a warm-up: start it once no connection has been added for this \
                long",
            Plan::default().settle
        ),
    )]
    pub(crate) settle: Option<Nanos>,

    #[arg(
        long,
        value_name = "DURATION",
        help_heading = CONNECTIONS,
        help = "Open model with a warm-up: start it after at least this long [default: 0s]",
    )]
    pub(crate) settle_min: Option<Nanos>,

    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(0..=CONNS_MAX),
        help_heading = CONNECTIONS,
        help = "Open model: connections to open before the first request [default: 0]",
    )]
    #[serde(deserialize_with = "file_values::count::<0, CONNS_MAX, _>")]
    pub(crate) prewarm: Option<usize>,

    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(0..=CONNS_MAX),
        help_heading = CONNECTIONS,
        help = "Open model: idle connections to add once the load has settled [default: 0]",
    )]
    #[serde(deserialize_with = "file_values::count::<0, CONNS_MAX, _>")]
    pub(crate) spare: Option<usize>,

    #[arg(
        long,
        value_name = "LIST",
        help_heading = VERDICT,
        help = with_default(
            "Statuses that count as success: codes and classes, e.g. 200,404 or 2xx",
            Plan::default().expect_status
        ),
    )]
    pub(crate) expect_status: Option<StatusSet>,

    #[arg(
        long,
        value_name = "METRIC<BOUND,…",
        help_heading = VERDICT,
        help = "Objectives that the report judges, e.g. 'p99<20ms,p99.9<100ms,errors<0.1%'; exit \
            4 if one is missed [default: none]",
        long_help = "Objectives that the report judges, e.g. 'p99<20ms,p99.9<100ms,errors<0.1%': a \
            percentile, mean or max of corrected latency; errors, the share of the intended \
            requests without a good answer; or rate>=0.99, the share of them that was answered \
            before the window's end. Each is judged at a confidence of 95 %, but for max and rate, \
            which are exact: met, missed, or undecided. Requests that failed have no latency, so \
            add a bound on errors to each bound on latency. Exit 4 if an objective is missed; an \
            invalid verdict is 3 all the same. An undecided objective doesn't fail the run: \
            nothing speaks against it yet. A longer --duration decides, and --fail-on undecided makes it 4 [default: none]",
    )]
    pub(crate) slo: Option<Objectives>,

    #[arg(
        long,
        value_name = "WHAT,…",
        value_delimiter = ',',
        value_parser = choice::<FailOn>(&["undecided", "suspect"]),
        help_heading = VERDICT,
        help = "Fail a run for more than missed objectives and an invalid verdict: exit 4 if an \
            objective is undecided, 3 if the verdict is suspect; repeatable [default: neither]",
    )]
    #[serde(deserialize_with = "file_values::choices")]
    pub(crate) fail_on: Option<Vec<FailOn>>,

    #[arg(
        long = "threshold",
        value_name = "NAME=VALUE",
        help_heading = VERDICT,
        help = THRESHOLD,
        long_help = format!(
            "{THRESHOLD}. Shares are fractions of 1, names in _us are in microseconds. The \
                defaults, and the reasons that each decides on: {}",
            default_thresholds()
        ),
    )]
    #[serde(rename = "threshold", deserialize_with = "file_values::bounds")]
    pub(crate) thresholds: Option<Vec<Bound>>,

    #[arg(
        long,
        value_name = "FILE",
        value_parser = file(),
        help_heading = VERDICT,
        help = "A calibration of this machine, written by `truetail calibrate --out`, that the run \
            is held against [default: the last that fits]",
        long_help = "A calibration of this machine, written by `truetail calibrate --out`, that the \
            run is held against: near_ceiling and below_floor rest on it. It must be of this \
            version, kernel, processor, --cores and --wait [default: the last that fits, as \
            `truetail calibrate` saved it in $XDG_CACHE_HOME or ~/.cache; without one these two \
            aren't judged]",
    )]
    #[serde(deserialize_with = "file_values::path")]
    pub(crate) calibration: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FILE",
        value_parser = file_name,
        help_heading = RESULTS,
        help = "Write the raw samples: the timestamps of every request in the window, 40 bytes \
            each [default: none]",
    )]
    #[serde(deserialize_with = "file_values::path")]
    pub(crate) raw: Option<PathBuf>,

    #[arg(
        long,
        short = 'o',
        alias = "output",
        value_name = "FILE|-",
        value_parser = file_or_stdout(),
        help_heading = RESULTS,
        help = "Write the report as JSON; - for standard output, and the summary goes to stderr",
    )]
    #[serde(deserialize_with = "file_values::path_or_stdout")]
    pub(crate) out: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FILE|-",
        value_parser = file_or_stdout(),
        help_heading = RESULTS,
        help = "Write the run over time as CSV, one row per interval of the window; - for standard \
            output",
        long_help = format!(
            "Write the run over time as CSV: a header, then one row for each of at most 512 \
                intervals of the window. A request counts in the interval in which it was due. \
                With -, it goes to standard output, and the summary to stderr. Columns: {}",
            csv::columns()
        ),
    )]
    #[serde(deserialize_with = "file_values::path_or_stdout")]
    pub(crate) csv: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FILE.hlog",
        value_parser = file(),
        help_heading = RESULTS,
        help = "Write an HdrHistogram interval log in ns, with tags: corrected latency per \
            interval, naive latency overall; and beside it the percentiles of corrected latency, \
            FILE.hgrm",
    )]
    #[serde(deserialize_with = "file_values::path")]
    pub(crate) hdr: Option<PathBuf>,

    #[arg(
        long,
        value_name = "TEXT",
        help_heading = RESULTS,
        help = "What to call the run in its report [default: nothing]",
    )]
    #[serde(deserialize_with = "file_values::text")]
    pub(crate) label: Option<String>,

    #[arg(
        long = "tag",
        value_name = "NAME=VALUE",
        value_parser = tag,
        help_heading = RESULTS,
        help = "A note in the report, e.g. commit=1a2b3c; repeatable. Replaces all tags of the plan \
            file",
    )]
    #[serde(rename = "tag", deserialize_with = "file_values::tags")]
    pub(crate) tags: Option<Vec<(String, String)>>,

    #[arg(
        long,
        value_name = "FILE.xml",
        value_parser = file(),
        help_heading = RESULTS,
        help = "Write the verdict and each objective as a test case of a JUnit file",
        long_help = "Write the verdict and each objective as a test case of a JUnit file. A missed \
            objective is a failure, an undecided one skipped, or a failure with --fail-on undecided; \
            an invalid verdict is an error, unless --allow-invalid skips it, and a suspect one a \
            failure with --fail-on suspect",
    )]
    #[serde(deserialize_with = "file_values::path")]
    pub(crate) junit: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FILE|-",
        value_parser = file_or_stdout(),
        help_heading = RESULTS,
        help = "Write a line of JSON each second while the run goes on; - for standard output",
        long_help = "Write a line of JSON each second while the run goes on, warm-up included. A \
            line has what was added since the line before: the counts of all lines add up to the \
            report's, in whose words they are. p50_us and p99_us are corrected latencies of the \
            requests that ended, within 6.25 %, null below 20 and 1,000 of them. With -, lines go \
            to standard output, and the summary to stderr",
    )]
    #[serde(deserialize_with = "file_values::path_or_stdout")]
    pub(crate) ndjson: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FILE.prom",
        value_parser = prom_name,
        help_heading = RESULTS,
        help = "Write the figures for Prometheus, as the node exporter's textfile collector reads \
            them",
    )]
    #[serde(deserialize_with = "file_values::prom")]
    pub(crate) prom: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FILE",
        value_parser = profile_name,
        help_heading = RESULTS,
        help = "Profile the window and write where the CPU time went: FILE.svg, FILE.folded or \
            FILE.pb.gz",
        long_help = "Profile the window and write where the CPU time went, per request. The name \
            decides the format: .svg is a flamegraph for a browser; .folded has a line for each \
            stack, with its picoseconds of CPU per request; .pb.gz is pprof's protobuf. `truetail \
            flamediff` compares two .folded or .pb.gz files. Stacks are sampled by perf, down into \
            the kernel; where perf can't be used, by a signal in truetail's own threads, which sees \
            user space only. Samples cost CPU: the verdict of such a run is at best suspect"
    )]
    #[serde(deserialize_with = "file_values::profile")]
    pub(crate) flamegraph: Option<PathBuf>,

    #[arg(
        long,
        help_heading = VERDICT,
        help = "Exit 0 even if the verdict is invalid (default: 3)",
    )]
    pub(crate) allow_invalid: bool,

    #[arg(
        long,
        value_name = "HOW",
        value_parser = choice::<Progress>(&Progress::NAMES),
        conflicts_with = "quiet",
        help_heading = RESULTS,
        help = "How progress is shown, on stderr: a bar, a line every 10 s, or not at all \
            [default: bar on a terminal, else lines]",
    )]
    #[serde(deserialize_with = "file_values::choice")]
    pub(crate) progress: Option<Progress>,

    #[arg(
        long,
        conflicts_with = "quiet",
        help_heading = RESULTS,
        help = "Show the run on the whole screen while it goes on; q leaves that, and the run goes \
            on",
        long_help = "Show the run on the whole screen while it goes on, second by second: requests \
            intended and answered, latencies, requests in flight, and how late the generator is. It \
            is drawn from a core without a shard where one is allowed. q or Esc leaves the view, and \
            the run goes on with what --progress shows; Ctrl-C ends the run, as always",
    )]
    pub(crate) live: bool,

    #[arg(
        long,
        short,
        help_heading = RESULTS,
        help = "Like --progress off, and don't say how long it will take; the summary is still \
            printed",
    )]
    pub(crate) quiet: bool,
}

impl PlanFlags {
    /// Lays what was given over a plan, and over where its results go.
    pub(crate) fn lay_over(self, plan: &mut Plan, results: &mut ResultArgs) {
        fn set<T>(field: &mut T, given: Option<T>) {
            if let Some(given) = given {
                *field = given;
            }
        }
        fn set_some<T>(field: &mut Option<T>, given: Option<T>) {
            if given.is_some() {
                *field = given;
            }
        }
        // Each flag is named here: one that went nowhere would be an unused variable.
        let PlanFlags {
            url,
            target,
            model,
            rate,
            arrivals,
            seed,
            conns,
            period,
            requests,
            duration,
            warmup,
            timeout,
            method,
            headers,
            user,
            body,
            cores,
            wait,
            stamps,
            stamp_sends,
            flush,
            pipeline,
            deadline,
            overload,
            queue_max,
            backfill,
            keepalive,
            requests_per_connection,
            connect_to,
            resolve,
            unix,
            cacert,
            cert,
            key,
            insecure,
            tls_session,
            source_addresses,
            settle,
            settle_min,
            prewarm,
            spare,
            expect_status,
            slo,
            fail_on,
            thresholds,
            calibration,
            raw,
            out,
            csv,
            hdr,
            label,
            tags,
            junit,
            ndjson,
            prom,
            flamegraph,
            allow_invalid,
            progress,
            live,
            quiet,
        } = self;
        set(&mut plan.target, url.or(target));
        set(&mut plan.arrivals, arrivals);
        set(&mut plan.seed, seed);
        set(&mut plan.duration, duration);
        set(&mut plan.warmup, warmup);
        set(&mut plan.timeout, timeout);
        set(&mut plan.method, method.map(|method| method.to_ascii_uppercase()));
        set(&mut plan.headers, headers);
        if let Some(user) = user {
            plan.headers.retain(|line| !is_named(line, "Authorization"));
            plan.headers.push(format!("Authorization: Basic {}", BASE64_STANDARD.encode(user)));
        }
        set(&mut plan.wait, wait);
        set(&mut plan.overload, overload);
        set(&mut plan.backfill, backfill);
        set(&mut plan.keepalive, keepalive);
        plan.insecure |= insecure;
        set(&mut plan.tls_session, tls_session);
        set(&mut plan.source_addresses, source_addresses);
        set(&mut plan.settle, settle);
        set(&mut plan.expect_status, expect_status);
        set_some(&mut plan.slo, slo);
        set_some(&mut plan.model, model);
        set_some(&mut plan.rate, rate);
        set_some(&mut plan.conns, conns);
        set_some(&mut plan.period, period);
        set_some(&mut plan.requests, requests);
        set_some(&mut plan.body, body.map(from_stdin));
        set_some(&mut plan.cores, cores);
        set_some(&mut plan.stamps, stamps);
        set_some(&mut plan.stamp_sends, stamp_sends);
        set_some(&mut plan.flush, flush);
        set(&mut plan.pipeline, pipeline);
        set_some(&mut plan.deadline, deadline);
        set_some(&mut plan.queue_max, queue_max);
        set_some(&mut plan.requests_per_connection, requests_per_connection);
        set_some(&mut plan.connect_to, connect_to);
        set_some(&mut plan.resolve, resolve);
        set_some(&mut plan.unix, unix);
        set_some(&mut plan.cacert, cacert);
        set_some(&mut plan.cert, cert);
        set_some(&mut plan.key, key);
        set_some(&mut plan.prewarm, prewarm);
        set_some(&mut plan.spare, spare);
        set_some(&mut plan.settle_min, settle_min);
        set_some(&mut plan.raw, raw);
        // One threshold leaves the others as they are.
        thresholds.iter().flatten().for_each(|bound| plan.thresholds.set(bound));
        set_some(&mut results.calibration, calibration);
        set_some(&mut results.out, out);
        set_some(&mut results.csv, csv);
        set_some(&mut results.hdr, hdr);
        set_some(&mut results.label, label);
        set(&mut results.tags, tags.map(BTreeMap::from_iter));
        set_some(&mut results.junit, junit);
        set_some(&mut results.ndjson, ndjson);
        set_some(&mut results.prom, prom);
        set_some(&mut results.flamegraph, flamegraph);
        set(&mut results.fail_on, fail_on);
        results.allow_invalid |= allow_invalid;
        // Of two that contradict each other, the flag drops what the file says.
        if progress.is_some() || live || quiet {
            results.quiet = quiet;
            results.live = !quiet && (live || results.live);
            results.progress = progress.or(results.progress).filter(|_| !quiet);
        }
    }

    /// Those that can contradict a plan file.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            model: self.model,
            rate: self.rate,
            period: self.period,
            overload: self.overload,
            keepalive: self.keepalive,
            requests_per_connection: self.requests_per_connection,
            pipeline: self.pipeline,
            backfill: self.backfill,
        }
    }
}

/// Whether a header has this name.
pub(crate) fn is_named(line: &str, name: &str) -> bool {
    line.split_once(':').is_some_and(|(found, _)| found.trim_end().eq_ignore_ascii_case(name))
}

/// The body as the plan has it: standard input is a file.
fn from_stdin(body: String) -> String {
    if ["-", "@-"].contains(&body.as_str()) { "@/dev/stdin".to_owned() } else { body }
}

/// A choice among these names, which are serde's.
pub(super) fn choice<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    names: &'static [&'static str],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names).try_map(|name| by_name(&name))
}

/// The thresholds by name, with their defaults and the reasons of the verdict that they decide on.
fn default_thresholds() -> String {
    let entries = std::iter::zip(Thresholds::default().entries(), MOVES);
    let entry = |((name, value), (_, reasons)): ((String, f64), (&str, &[Code]))| {
        let reasons: Vec<String> = reasons.iter().map(Code::to_string).collect();
        format!("{name}={value} ({})", reasons.join(", "))
    };
    entries.map(entry).collect::<Vec<_>>().join("; ")
}

/// A flag's help with the plan's own default.
fn with_default(help: &str, default: impl Serialize) -> String {
    struct Shown<T>(T);
    impl<T: Serialize> fmt::Display for Shown<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.serialize(f)
        }
    }
    format!("{help} [default: {}]", Shown(default))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::super::Cli;
    use super::*;

    /// The names that serde knows: its error about an unknown one lists them.
    fn names(unknown: impl fmt::Display) -> Vec<String> {
        unknown.to_string().split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }

    fn run() -> clap::Command {
        Cli::command().find_subcommand("run").expect("the command").clone()
    }

    #[test]
    fn every_field_of_the_plan_is_a_flag() {
        let fields = names(toml::from_str::<Plan>("unknown = 1").expect_err("no field").message());
        assert!(fields.iter().any(|field| field == "target") && 10 < fields.len(), "{fields:?}");
        for field in fields {
            assert!(run().get_arguments().any(|flag| *flag.get_id() == field), "{field}");
        }
    }

    #[test]
    fn every_flag_but_the_file_itself_is_a_key_of_it() {
        let unknown = toml::from_str::<PlanFlags>("unknown = 1").expect_err("no key");
        let mut keys = names(unknown.message());
        let run = run();
        let mut flags: Vec<_> = run.get_arguments().filter_map(clap::Arg::get_long).collect();
        flags.retain(|flag| *flag != "plan");
        keys.sort();
        flags.sort();
        assert_eq!(keys, flags);
    }

    #[test]
    fn the_names_of_choices_are_serdes() {
        fn known<T: DeserializeOwned + fmt::Debug>() -> Vec<String> {
            names(by_name::<T>("unknown").expect_err("no choice"))
        }
        for (flag, known) in [
            ("model", known::<Model>()),
            ("arrivals", known::<Arrivals>()),
            ("wait", known::<Wait>()),
            ("stamps", known::<StampSource>()),
            ("overload", known::<Overload>()),
            ("keepalive", known::<Switch>()),
            ("backfill", known::<Switch>()),
            ("tls_session", known::<TlsSession>()),
            ("fail_on", known::<FailOn>()),
            ("progress", known::<Progress>()),
        ] {
            let run = run();
            let flag = run.get_arguments().find(|arg| *arg.get_id() == flag).expect(flag);
            let offered = flag.get_possible_values();
            let offered: Vec<_> =
                offered.iter().map(clap::builder::PossibleValue::get_name).collect();
            assert_eq!(offered, known);
        }
    }
}
