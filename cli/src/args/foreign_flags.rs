//! What the flags of other load generators mean here: one table.
//!
//! A flag that is one of ours as well is another tool's only if its value says so, `-q 50` is a
//! rate and `-q` alone is quiet, or if the line begins with the tool's name. Of the rows of a flag
//! the first that fits holds.

use std::net::IpAddr;

use engine::sys::units::Nanos;

/// A flag of another tool.
pub(super) struct Foreign {
    /// The tool, if only the line of one that is named has the flag.
    pub(super) of: Option<&'static str>,
    /// As it is typed.
    pub(super) names: &'static [&'static str],
    /// Its value, if it has one.
    pub(super) value: Value,
    /// What to type instead.
    pub(super) here: Here,
}

/// The value of a flag.
pub(super) enum Value {
    /// It has none, or as Go's tools have it `=true` or `=false`.
    None,
    /// Whatever is given.
    Any,
    /// It has one, and is the other tool's if that fits.
    If(fn(&str) -> bool),
}

/// What a flag is here.
pub(super) enum Here {
    /// A flag of ours with this value, in which `{}` stands for the one that was given.
    As(&'static str, &'static str),
    /// This flag, whose number is of the whole run: hey's is that of each worker.
    OfWhole(&'static str),
    /// Nothing: why it isn't needed, or what there is instead.
    Omit(&'static str),
}

use Here::{As, OfWhole, Omit};
use Value::{Any, If};

const fn flag(names: &'static [&'static str], value: Value, here: Here) -> Foreign {
    Foreign { of: None, names, value, here }
}

const fn of(
    tool: &'static str,
    names: &'static [&'static str],
    value: Value,
    here: Here,
) -> Foreign {
    Foreign { of: Some(tool), names, value, here }
}

/// The flags of wrk, wrk2, hey, oha, vegeta, k6, h2load and ab that aren't ours.
pub(super) const FLAGS: &[Foreign] = &[
    of("ab", &["-k"], Value::None, Omit(KEPT)),
    of("ab", &["-t"], Any, As("--duration", "{}")),
    of("ab", &["-u"], Any, Omit("--method PUT with --body @FILE puts a file")),
    of("ab", &["-b"], Any, Omit("the kernel sizes its buffers")),
    of("ab", &["-d", "-S", "-q"], Value::None, Omit("the summary is always the same")),
    of("ab", &["-X", "-P"], Any, Omit(PROXY)),
    of("h2load", &["-d", "--data"], Any, As("--body", "@{}")),
    of("h2load", &["-r", "--rate"], Any, Omit(OPENED)),
    of("h2load", &["-T"], Any, Omit("a connection lives until the run ends")),
    of("h2load", &["-p"], Any, Omit(HTTP1)),
    of("oha", &["-q"], If(is_number), As("--rate", "{}")),
    of("oha", &["-u", "--time-unit"], Any, Omit("each latency has its unit")),
    of("k6", &["-c"], Any, Omit(PLAN_FILE)),
    of("vegeta", &["--rate"], If(is_nothing), Omit(NO_RATE)),
    of("vegeta", &["--keepalive"], If(is_false), As("--keepalive", "off")),
    of("vegeta", &["--body"], Any, As("--body", "@{}")),
    of("wrk2", &["-B"], Value::None, Omit(EACH)),
    flag(&["-z"], Any, As("--duration", "{}")),
    flag(&["-duration"], If(is_nothing), Omit("a run has an end (--duration)")),
    flag(&["-duration"], Any, As("--duration", "{}")),
    flag(&["-D"], If(is_duration), As("--duration", "{}")),
    flag(&["-D", "-body"], Any, As("--body", "@{}")),
    flag(&["-d"], If(is_no_duration), As("--body", "{}")),
    flag(&["-rate"], If(is_nothing), Omit(NO_RATE)),
    flag(&["-rate"], Any, As("--rate", "{}")),
    flag(&["-q"], If(is_number), OfWhole("--rate")),
    flag(&["--vus"], Any, As("--conns", "{}")),
    flag(&["-u"], If(is_number), As("--conns", "{}")),
    flag(&["-max-connections", "-max-workers"], Any, As("--conns", "{}")),
    flag(&["--iterations"], Any, As("--requests", "{}")),
    flag(&["-i"], If(is_number), As("--requests", "{}")),
    flag(&["-i"], If(is_file), Omit(ONE_URL)),
    flag(&["-i"], Value::None, As("--method", "HEAD")),
    flag(&["-m"], If(is_number), As("--pipeline", "{}")),
    flag(&["--warm-up-time"], Any, As("--warmup", "{}")),
    flag(&["-timeout"], Any, As("--timeout", "{}")),
    flag(&["-header"], Any, As("--header", "{}")),
    flag(&["-A"], If(is_user), As("--user", "{}")),
    flag(&["-A"], Any, As("--header", "Accept: {}")),
    flag(&["-T", "-N"], If(is_duration), Omit("a slow response times out (--timeout)")),
    flag(&["-T"], Any, As("--header", "Content-Type: {}")),
    flag(&["-C"], If(is_pair), As("--header", "Cookie: …")),
    flag(&["-host", "--host"], Any, As("--header", "Host: {}")),
    flag(&["-a"], Any, As("--user", "{}")),
    flag(&["-laddr"], Any, As("--source-addresses", "{}")),
    flag(&["-B"], If(is_address), As("--source-addresses", "{}")),
    flag(&["--batch_latency"], Value::None, Omit(EACH)),
    flag(&["-U"], If(is_user), Omit(PROXY)),
    flag(&["-U", "--user-agent"], If(is_no_url), As("--header", "User-Agent: {}")),
    flag(&["-p"], If(is_number), Omit("a connection has one request in flight (--pipeline)")),
    flag(&["-p", "--no-tls-proto"], If(is_protocol), Omit(HTTP1)),
    flag(&["-p"], If(is_file), As("--body", "@{}")),
    flag(&["-unix-socket", "--unix-socket"], Any, As("--unix", "{}")),
    flag(&["-o", "--out"], If(is_output_of_k6), Omit("--ndjson FILE has a line for each second")),
    flag(&["-output", "--summary-export"], Any, As("--out", "{}")),
    flag(&["-o"], If(|value| value == "csv"), As("--csv", "-")),
    flag(&["-j", "--json"], Value::None, As("--out", "-")),
    flag(&["--output-format"], If(|value| value == "json"), As("--out", "-")),
    flag(&["--output-format"], If(|value| value == "csv"), As("--csv", "-")),
    flag(&["-name"], Any, As("--label", "{}")),
    flag(&["--no-tui", "--no-summary"], Value::None, As("--quiet", "")),
    flag(
        &["-disable-keepalive", "--disable-keepalive", "--no-connection-reuse"],
        Value::None,
        As("--keepalive", "off"),
    ),
    flag(&["-keepalive"], If(is_false), As("--keepalive", "off")),
    flag(&["-keepalive"], Value::None, Omit(KEPT)),
    flag(
        &["-t"],
        If(is_number),
        Omit(
            "threads are cores here, by default all but the first (--cores); a timeout has a unit \
             (-t 5s), and a time limit is --duration",
        ),
    ),
    flag(
        &["--threads", "-cpus"],
        Any,
        Omit("threads are cores here, by default all but the first (--cores)"),
    ),
    flag(&["-workers", "-connections"], Any, Omit(OPENED)),
    flag(&["--latency", "-L"], Value::None, Omit("percentiles are always printed")),
    flag(
        &["--u_latency", "-U"],
        Value::None,
        Omit("latency from the send is always printed too, as naive"),
    ),
    flag(
        &["--stats-success-breakdown"],
        Value::None,
        Omit("the percentiles are of all answered requests"),
    ),
    flag(&["--summary-trend-stats"], Any, Omit("the percentiles are always the same")),
    flag(&["-g", "-e"], If(is_file), Omit("the report has the percentiles (--out FILE)")),
    flag(
        &["--latency-correction"],
        Value::None,
        Omit("latency always starts when a request was due"),
    ),
    flag(
        &["-disable-redirects", "--disable-redirects"],
        Value::None,
        Omit("redirects are never followed"),
    ),
    flag(
        &["-redirects", "--redirect"],
        Any,
        Omit("redirects aren't followed: load the URL that they lead to"),
    ),
    flag(
        &["-r"],
        If(is_number),
        Omit("redirects aren't followed, and connections are opened as the load needs them"),
    ),
    flag(&["-r"], Value::None, Omit("an error ends no run")),
    flag(&["-l"], Value::None, Omit("responses may differ in length")),
    flag(
        &["-disable-compression", "--disable-compression"],
        Value::None,
        Omit("no compression is asked for unless a header does"),
    ),
    flag(&["--h1"], Value::None, Omit(HTTP1)),
    flag(&["--npn-list", "--alpn-list"], Any, Omit(HTTP1)),
    flag(&["-w", "-W"], If(is_number), Omit("HTTP/1.1 is what is spoken: it has no windows")),
    flag(&["-w"], Value::None, Omit("responses are awaited after the end, for up to --timeout")),
    flag(
        &["--http2", "--h2", "-http2", "-h2", "-h2c"],
        Value::None,
        Omit("only HTTP/1.1 is spoken; for HTTP/2 use h2load"),
    ),
    flag(
        &["--http3", "-http3", "--h3", "-h3", "--quic"],
        Value::None,
        Omit("only HTTP/1.1 is spoken, over TCP; for HTTP/3 and QUIC use h2load or oha"),
    ),
    flag(
        &["--ktls", "-ktls"],
        Value::None,
        Omit("TLS is spoken by the program, not by the kernel"),
    ),
    flag(&["-insecure", "--insecure-skip-tls-verify"], Value::None, As("--insecure", "")),
    flag(&["-session-tickets"], Value::None, As("--tls-session", "resume")),
    flag(&["-root-certs"], Any, As("--cacert", "{}")),
    flag(&["-cert"], Any, As("--cert", "{}")),
    flag(&["-key"], Any, As("--key", "{}")),
    flag(&["-x", "--proxy"], Any, Omit(PROXY)),
    flag(&["-targets", "-format", "--urls-from-file", "--input-file"], Any, Omit(ONE_URL)),
    flag(&["--rand-regex-url"], Value::None, Omit(ONE_URL)),
    flag(
        &["-F", "--form"],
        Any,
        Omit("no forms are made: give the body (--body @FILE) with its Content-Type (--header)"),
    ),
    flag(
        &["--burst-delay", "--burst-rate"],
        Any,
        Omit("arrivals are random or evenly spaced (--arrivals), not in bursts"),
    ),
    flag(&["--no-color"], Value::None, Omit("NO_COLOR=1 in the environment turns colours off")),
    flag(&["--no-thresholds"], Value::None, Omit("objectives are judged only with --slo")),
    flag(
        &["-max-body", "-dns-ttl", "-resolvers", "-prometheus-addr", "-proxy-header"],
        Any,
        Omit("nothing here does the same"),
    ),
    flag(&["-connect-to"], Any, Omit("--connect-to HOST:PORT is where connections go")),
    flag(&["-chunked"], Value::None, Omit("a body is sent with its length")),
    flag(&["-lazy"], Value::None, Omit("nothing is read while a run goes on")),
    flag(&["-s"], If(is_stage), Omit(STAGES)),
    flag(&["--stage"], Any, Omit(STAGES)),
    flag(&["--no-usage-report"], Value::None, Omit("no usage is reported")),
    flag(&["-s"], If(is_number), As("--timeout", "{}")),
    flag(&["-s", "--script"], Any, Omit(SCRIPT)),
    flag(&["-e", "--env"], If(is_pair), Omit(SCRIPT)),
    flag(&["--config"], Any, Omit(PLAN_FILE)),
];

pub(super) const SCRIPT: &str =
    "no scripts: a run sends one request (--method, --header, --body); for scripts use k6";
pub(super) const KEPT: &str = "connections are kept (--keepalive off closes them)";
const PROXY: &str = "no proxies: load the server, or the proxy as a server (--connect-to)";
const HTTP1: &str = "HTTP/1.1 is what is spoken";
const OPENED: &str = "connections are opened as the load needs them, up to --conns";
const PLAN_FILE: &str = "flags can stand in a file (--plan FILE.toml)";
const EACH: &str = "each request has its own latency";
const ONE_URL: &str = "a run requests one URL: give it as the argument";
const STAGES: &str = "`truetail sweep` changes the rate in steps";
const NO_RATE: &str = "without a rate, each connection asks again once it is answered";

pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_duration(text: &str) -> bool {
    text.parse::<Nanos>().is_ok()
}

/// As vegeta has it: `0`, `0s`, `0/1s` or `infinity`.
fn is_nothing(text: &str) -> bool {
    let rest = text.strip_prefix('0');
    text == "infinity"
        || rest.is_some_and(|rest| rest.is_empty() || rest == "s" || rest.starts_with('/'))
}

fn is_false(text: &str) -> bool {
    text == "false"
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// As h2load has them.
fn is_protocol(text: &str) -> bool {
    ["http/1.1", "h2c"].contains(&text)
}

/// As k6 has them: `10s:100,1m:5`.
fn is_stage(text: &str) -> bool {
    text.split(',').all(|stage| {
        stage.split_once(':').is_some_and(|(length, users)| is_duration(length) && is_number(users))
    })
}

/// As k6 has it: `json=FILE`, `cloud`.
fn is_output_of_k6(text: &str) -> bool {
    let (kind, file) = text.split_once('=').unzip();
    let alone = ["cloud", "opentelemetry", "statsd"];
    match kind.unwrap_or(text) {
        kind if kind.starts_with("experimental-") || alone.contains(&kind) => true,
        kind => file.is_some() && ["json", "csv", "influxdb"].contains(&kind),
    }
}

/// `NAME=VALUE`.
fn is_pair(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// A name and a password: a media type has no colon.
fn is_user(text: &str) -> bool {
    text.contains(':') && is_no_url(text)
}

fn is_file(text: &str) -> bool {
    text.contains(['.', '/']) && !is_pair(text) && is_no_url(text)
}

fn is_no_url(text: &str) -> bool {
    !text.contains("://") && !text.starts_with('-')
}

/// Also not a wrong one, whose error says more: a body seldom begins with a digit.
fn is_no_duration(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit() || "-.".contains(first))
        && !text.contains("://")
}
