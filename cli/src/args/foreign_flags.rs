//! The table of other load generators' flags, and their meaning here.
//!
//! A flag that truetail has too counts as another tool's only if its value shows it (`-q 50` is a
//! rate, `-q` alone is quiet) or if the line begins with the tool's name. The first row that fits a
//! flag decides.

use std::net::IpAddr;

use engine::sys::units::Nanos;

/// A row: the tool, if the flags count only in a line with its name; the flags; the kind of their
/// value; and their meaning here.
pub(super) type Foreign = (&'static str, &'static str, Value, Here);

/// The value of a flag.
pub(super) enum Value {
    /// It has none, or `=true` or `=false` as in Go's tools.
    Bare,
    /// It has one, of any kind.
    Any,
    /// It has one, and the flag is the other tool's if this returns true for it.
    If(fn(&str) -> bool),
}

/// The meaning of a flag here.
pub(super) enum Here {
    /// This flag of ours, with this value if there is one: `{}` stands for the given one.
    As(&'static str),
    /// This flag, whose number is for the whole run, and the difference from the other tool's.
    OfWhole(&'static str, &'static str),
    /// `--targets`, whose file the other tool reads from its first request to its last, again and
    /// again.
    InTurn,
    /// `--streams` if the line speaks HTTP/2, else this.
    Depth(&'static Here),
    /// Nothing: why it isn't needed, or what to do instead.
    Omit(&'static str),
}

use Here::{As, Depth, InTurn, OfWhole, Omit};
use Value::{Any, Bare, If};

/// The tools recognised by the first word of the line, or by the first two.
pub(super) const TOOLS: [(&str, &str); 8] = [
    ("wrk", ""),
    ("wrk2", ""),
    ("hey", ""),
    ("oha", ""),
    ("vegeta", "attack"),
    ("k6", "run"),
    ("h2load", ""),
    ("ab", ""),
];

/// Their flags that truetail doesn't have.
pub(super) const FLAGS: &[Foreign] = &[
    ("ab", "-k", Bare, Omit(KEPT)),
    ("ab", "-t", Any, As("--duration {}")),
    ("ab", "-u", Any, Omit("--method PUT with --body @FILE uploads a file")),
    ("ab", "-b", Any, Omit("the kernel sizes the buffers")),
    ("ab", "-d -S -q", Bare, Omit("the summary is always the same")),
    ("ab", "-X -P", Any, Omit(PROXY)),
    ("h2load", "-d --data", Any, As("--body @{}")),
    ("h2load", "-r --rate", Any, Omit(OPENED)),
    ("h2load", "-T", Any, Omit("a connection lives until the run ends")),
    ("h2load", "-p", Any, Omit(VERSION)),
    ("h2load", "-B --base-uri", Any, As("--target {}")),
    ("h2load", "--rps", Any, OfWhole("--rate", "h2load's is per client")),
    (
        "h2load",
        "--timing-script-file",
        Any,
        Omit("times and paths are sent as a log is: --replay FILE, of JSON lines"),
    ),
    ("oha", "-q", If(is_number), As("--rate {}")),
    ("oha", "-u --time-unit", Any, Omit("each latency is printed with its unit")),
    ("k6", "-c", Any, Omit(PLAN_FILE)),
    ("vegeta", "--rate", If(is_nothing), Omit(NO_RATE)),
    ("vegeta", "--keepalive", If(is_false), As("--keepalive off")),
    ("vegeta", "--body", Any, As("--body @{}")),
    ("wrk2", "-B", Bare, Omit(EACH)),
    ("", "-z", Any, As("--duration {}")),
    ("", "-duration", If(is_nothing), Omit("a run must end (--duration)")),
    ("", "-duration", Any, As("--duration {}")),
    ("", "-D", If(is_duration), As("--duration {}")),
    ("", "-D -body", Any, As("--body @{}")),
    ("", "-d", If(is_no_duration), As("--body {}")),
    ("", "-rate", If(is_nothing), Omit(NO_RATE)),
    ("", "-rate", Any, As("--rate {}")),
    ("", "-q", If(is_number), OfWhole("--rate", "hey's is per worker")),
    ("", "--vus", Any, As("--conns {}")),
    ("", "-u", If(is_number), As("--conns {}")),
    ("", "-max-connections -max-workers", Any, As("--conns {}")),
    ("", "--iterations", Any, As("--requests {}")),
    ("", "-i", If(is_number), As("--requests {}")),
    ("", "-i", If(is_file), InTurn),
    ("", "-i", Bare, As("--method HEAD")),
    ("", "-m", If(is_number), Depth(&As("--pipeline {}"))),
    ("", "--warm-up-time", Any, As("--warmup {}")),
    ("", "-timeout", Any, As("--timeout {}")),
    ("", "-header", Any, As("--header {}")),
    ("", "-A", If(is_user), As("--user {}")),
    ("", "-A", Any, As("--header Accept: {}")),
    ("", "-T -N", If(is_duration), Omit("a slow response times out (--timeout)")),
    ("", "-T", Any, As("--header Content-Type: {}")),
    ("", "-C", If(is_pair), As("--header Cookie: …")),
    ("", "-host --host", Any, As("--header Host: {}")),
    ("", "-a", Any, As("--user {}")),
    ("", "-laddr", Any, As("--source-addresses {}")),
    ("", "-B", If(is_address), As("--source-addresses {}")),
    ("", "--batch_latency", Bare, Omit(EACH)),
    ("", "-U", If(is_user), Omit(PROXY)),
    ("", "-U --user-agent", If(is_no_url), As("--header User-Agent: {}")),
    ("", "-p", If(is_number), Depth(&Omit("a connection has one request in flight (--pipeline)"))),
    ("", "-p --no-tls-proto", If(is_protocol), Omit(VERSION)),
    ("", "-p", If(is_file), As("--body @{}")),
    ("", "-unix-socket --unix-socket", Any, As("--unix {}")),
    ("", "-o --out", If(is_output_of_k6), Omit("--ndjson FILE has a line for each second")),
    ("", "-output --summary-export", Any, As("--out {}")),
    ("", "-o", If(|value| value == "csv"), As("--csv -")),
    ("", "-j --json", Bare, As("--out -")),
    ("", "--output-format", If(|value| value == "json"), As("--out -")),
    ("", "--output-format", If(|value| value == "csv"), As("--csv -")),
    ("", "-name", Any, As("--label {}")),
    ("", "--no-tui --no-summary", Bare, As("--quiet")),
    (
        "",
        "-disable-keepalive --disable-keepalive --no-connection-reuse",
        Bare,
        As("--keepalive off"),
    ),
    ("", "-keepalive", If(is_false), As("--keepalive off")),
    ("", "-keepalive", Bare, Omit(KEPT)),
    (
        "",
        "-t",
        If(is_number),
        Omit(
            "threads are cores here, by default all but the first (--cores); a timeout needs a \
             unit (-t 5s), and a time limit is --duration",
        ),
    ),
    (
        "",
        "--threads -cpus",
        Any,
        Omit("threads are cores here, by default all but the first (--cores)"),
    ),
    ("", "-workers -connections", Any, Omit(OPENED)),
    ("", "--latency -L", Bare, Omit("percentiles are always printed")),
    ("", "--u_latency -U", Bare, Omit("latency from the send is always printed too, as naive")),
    ("", "--stats-success-breakdown", Bare, Omit("percentiles cover all answered requests")),
    ("", "--summary-trend-stats", Any, Omit("the percentiles are always the same")),
    ("", "-g -e", If(is_file), Omit("the report has the percentiles (--out FILE)")),
    ("", "--latency-correction", Bare, Omit("latency always starts when a request was due")),
    ("", "-disable-redirects --disable-redirects", Bare, Omit("redirects are never followed")),
    (
        "",
        "-redirects --redirect",
        Any,
        Omit("redirects are never followed: load the URL that they lead to"),
    ),
    (
        "",
        "-r",
        If(is_number),
        Omit("redirects are never followed, and connections are opened as the load needs them"),
    ),
    ("", "-r", Bare, Omit("errors never end a run")),
    ("", "-l", Bare, Omit("responses may differ in length")),
    (
        "",
        "-disable-compression --disable-compression",
        Bare,
        Omit("compression is off unless a header asks for it"),
    ),
    ("", "--h1", Bare, Omit(HTTP1)),
    ("", "--npn-list --alpn-list", Any, Omit(VERSION)),
    ("", "--http-version", If(|value| value == "2"), As("--http 2")),
    ("", "--http-version", Any, Omit(VERSION)),
    ("", "-w -W", If(is_number), Omit("windows for responses are always 1 GiB")),
    ("", "-w", Bare, Omit("a run always waits for the last responses, for up to --timeout")),
    ("", HTTP2, Bare, As("--http 2")),
    (
        "",
        "--http3 -http3 --h3 -h3 --quic",
        Bare,
        Omit(
            "only HTTP/1.1 and HTTP/2 are spoken, over TCP; for HTTP/3 and QUIC use h2load or oha",
        ),
    ),
    ("", "--ktls -ktls", Bare, Omit("TLS is handled by the program, not by the kernel")),
    ("", "-insecure --insecure-skip-tls-verify", Bare, As("--insecure")),
    ("", "-session-tickets", Bare, As("--tls-session resume")),
    ("", "-root-certs", Any, As("--cacert {}")),
    ("", "-cert", Any, As("--cert {}")),
    ("", "-key", Any, As("--key {}")),
    ("", "-x --proxy", Any, Omit(PROXY)),
    ("", "-targets --input-file", Any, InTurn),
    ("", "-format", Any, Omit("the format of --targets is detected")),
    ("", URLS_FROM_FILE, Bare, Omit("the file is --targets here, whose requests are drawn too")),
    ("", RAND_REGEX_URL, Bare, Omit(PATTERNS)),
    ("", "--max-repeat --dump-urls", Any, Omit(PATTERNS)),
    (
        "",
        "-Z",
        If(is_file),
        Omit("bodies come from a CSV file: --data NAME=FILE.csv --body '{{NAME.COLUMN}}'"),
    ),
    (
        "",
        "-F --form",
        Any,
        Omit("there are no forms: give the body (--body @FILE) and its Content-Type (--header)"),
    ),
    (
        "",
        "--burst-delay --burst-rate",
        Any,
        Omit("arrivals are random or evenly spaced (--arrivals), not in bursts"),
    ),
    ("", "--no-color", Bare, Omit("NO_COLOR=1 in the environment turns colours off")),
    ("", "--no-thresholds", Bare, Omit("objectives are judged only with --slo")),
    (
        "",
        "-max-body -dns-ttl -resolvers -prometheus-addr -proxy-header",
        Any,
        Omit("there is no such flag here"),
    ),
    ("", "-connect-to", Any, As("--connect-to {}")),
    ("", "-chunked", Bare, Omit("a body is sent with its length")),
    (
        "",
        "-lazy",
        Bare,
        Omit("targets are read before the run, and begin again after the last (--requests N)"),
    ),
    ("", "-s", If(is_stage), Omit(STAGES)),
    ("", "--stage", Any, Omit(STAGES)),
    ("", "--no-usage-report", Bare, Omit("no usage is reported")),
    ("", "-s", If(is_number), As("--timeout {}")),
    ("", "-s --script", Any, Omit(SCRIPT)),
    ("", "-e --env", If(is_pair), Omit(SCRIPT)),
    ("", "--config", Any, Omit(PLAN_FILE)),
];

/// The flags that choose HTTP/2.
pub(super) const HTTP2: &str = "--http2 --h2 -http2 -h2 -h2c";
/// The flag of oha that makes its argument a file.
pub(super) const URLS_FROM_FILE: &str = "--urls-from-file";
/// The flag of oha that makes its argument a pattern.
pub(super) const RAND_REGEX_URL: &str = "--rand-regex-url";

pub(super) const SCRIPT: &str = "there are no scripts: --targets FILE lists requests, and fields \
     such as {{seq}} make them differ; for logic use k6";
const PATTERNS: &str =
    "there are no patterns: a URL may have fields, such as {{rand 1 100}} or {{users.id}}";
pub(super) const KEPT: &str = "connections are kept (--keepalive off closes them)";
const PROXY: &str =
    "there are no proxies: load the server, or the proxy as a server (--connect-to)";
const HTTP1: &str = "HTTP/1.1 is the default here";
const VERSION: &str = "the version is --http here, 1.1 by default";
const OPENED: &str = "connections are opened as the load needs them, up to --conns";
const PLAN_FILE: &str = "flags may come from a file (--plan FILE.toml)";
const EACH: &str = "each request has its own latency";
const STAGES: &str = "users who come and go are --model closed --stages 0..20:30s,20:5m";
const NO_RATE: &str = "without a rate, each connection sends again once it is answered";

pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_duration(text: &str) -> bool {
    text.parse::<Nanos>().is_ok()
}

/// As vegeta writes it: `0`, `0s`, `0/1s` or `infinity`.
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

/// As h2load names them.
fn is_protocol(text: &str) -> bool {
    ["http/1.1", "h2c"].contains(&text)
}

/// As k6 writes them: `10s:100,1m:5`.
fn is_stage(text: &str) -> bool {
    text.split(',').all(|stage| {
        stage.split_once(':').is_some_and(|(length, users)| is_duration(length) && is_number(users))
    })
}

/// As k6 writes it: `json=FILE`, `cloud`.
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

/// Nor an invalid one, whose error is more helpful: a body seldom begins with a digit.
fn is_no_duration(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit() || "-.".contains(first))
        && !text.contains("://")
}
