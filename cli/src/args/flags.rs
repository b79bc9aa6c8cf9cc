//! The table of flags of the commands that load a URL. A row has everything about its flag: clap's
//! argument and help, whether `-h` shows it, the plan file's key, the variable, its effect, and the
//! commands that describe it differently or refuse it. A file of results is a row too, with the
//! source of its content.
//!
//! All are optional, and named like the plan's fields: a missing one is left to the plan file, then
//! to the plan's own defaults. So there is no second set of defaults.
//!
//! A usual flag has a help of one line, and a long help where there is more to know.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Arg;
use engine::plan::body::BODY_MAX;
use engine::plan::check::{BODY_MAX_DEFAULT, BODY_MAX_MAX};
use engine::plan::replay::{Speed, Spread};
use engine::plan::slo::Objectives;
use engine::plan::status::StatusSet;
use engine::plan::thresholds::{Bound, Thresholds};
use engine::plan::{
    Arrivals, CONNS_CLOSED_DEFAULT, CONNS_MAX, CONNS_OPEN_DEFAULT, FLUSH_CLOSED_DEFAULT, FLUSH_MAX,
    FLUSH_OPEN_DEFAULT, Http, Model, Order, Overload, PIPELINE_MAX, Plan, QUEUE_MAX_DEFAULT,
    SESSIONS_MAX_DEFAULT, SESSIONS_MAX_MAX, SLOWEST_DEFAULT, SLOWEST_MAX, STAMP_SENDS_DEFAULT,
    STREAMS_DEFAULT, STREAMS_MAX, StampSource, Switch, TlsSession, Wait,
};
use engine::report::decided_by;
use engine::report::verdict::Code;
use engine::sys::units::{CoreList, Nanos, OneIn, Rate};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::flag::{Flag, file, flag, list, option, results, switch};
use super::headings::{CONNECTIONS, LOAD, MACHINE, REQUEST, RESULTS, TLS, VERDICT};
use super::targets;
use super::values::{
    NEW_TRACE, WAITS, WHOLE_MAX, by_name, credentials, data, file_name, ip_address, is_named,
    name_or_stdout, profile_name, prom_name, stages, tag, trace, url, whole_amount,
};
use crate::flamegraph::Flamegraph;
use crate::gate::FailOn;
use crate::ndjson::Ndjson;
use crate::progress::Progress;
use crate::sink::Content::{OfEnd, OfRun};
use crate::{csv, hgrm, hlog, json, junit, prom};

/// The commands whose steps are open runs.
const SERIES: [&str; 3] = ["sweep", "search", "ceiling"];
/// The commands that make many runs.
const MANY_RUNS: [&str; 4] = ["sweep", "search", "ceiling", "ab"];

const OR_RUN: &str = "omit it, or use `truetail run`";
const OR_RUN_THERE: &str = "omit it, or use `truetail run` there";
const NO_RATE: &str = "a closed model has no rate to change";
const ONE_RUN: &str = "a file holds one run, not many";
const ONE_SLICE: &str =
    "a file holds one run, not many slices (--reports writes the report of each)";

/// The first rate of a search if no flag gives it.
pub(crate) const FIRST_RATE: &str = "1k";
/// The first rate of a ceiling if no flag gives it. It is low, because a target that was asked for
/// far more than it can do works on that for long after.
pub(crate) const FIRST_RATE_OF_CEILING: &str = "10";

/// The plan of a command before flags and plan file change it: each of many runs is short.
pub(crate) fn defaults(command: &str) -> Plan {
    let (duration_s, warmup_s) = match command {
        "sweep" | "search" => (10, 2),
        "ceiling" => (5, 1),
        "ab" => (10, 1),
        _ => return Plan::default(),
    };
    let (duration, warmup) = (Nanos::from_secs(duration_s), Nanos::from_secs(warmup_s));
    Plan { duration, warmup, ..Plan::default() }
}

/// All flags, in the order of the help.
pub(super) static FLAGS: LazyLock<Vec<Flag>> = LazyLock::new(table);

/// The table.
fn table() -> Vec<Flag> {
    vec![
        flag(
            Arg::new("url")
                .conflicts_with("target")
                .value_name("URL")
                .help_heading(REQUEST)
                .display_order(0)
                .help("The URL, http://HOST[:PORT]/PATH or https://…"),
            |to, given| put(&mut to.plan.target, text(given).map(|given| url(&given))),
        )
        .usual()
        .shown(&["ab"], |arg, _| arg.value_name("URL-A").required(true).help("The URL of side A")),
        flag(
            option("target", REQUEST)
                .value_name("URL")
                .display_order(1)
                .help("The URL, instead of the argument"),
            |to, given| put(&mut to.plan.target, text(given).map(|given| url(&given))),
        )
        .hidden(&["ab"]),
        flag(
            option("model", LOAD).help(
                "What triggers requests: a schedule (open) or responses (closed) [default: \
                    open with --rate or --stages, else closed]",
            ),
            |to, given| put(&mut to.plan.model, choice::<Model>(given)),
        )
        .choices(&["open", "closed"])
        .refused_if("closed", &SERIES, NO_RATE, OR_RUN),
        flag(
            option("rate", LOAD)
                .short('R')
                .aliases(["rps", "qps"])
                .value_name("PER_SECOND")
                .help("Requests per second, e.g. 500 or 20k (open model)")
                .long_help(
                    "Requests per second, e.g. 500, 20k or 1.5M. They are sent when they are due, \
                    whether or not the target keeps up (open model). Without a rate, each \
                    connection sends its next request once the last is answered (closed model)",
                ),
            |to, given| put(&mut to.plan.rate, parsed::<Rate>(given)),
        )
        .usual()
        .refused(
            &["sweep"],
            "a sweep has many rates",
            "omit it: --rates gives the rates of all steps",
        )
        .shown(&["search"], |arg, _| {
            arg.help(format!("The first rate to try [default: {FIRST_RATE}]"))
        })
        .shown(&["ceiling"], |arg, _| {
            arg.help(format!("The first rate to try [default: {FIRST_RATE_OF_CEILING}]"))
        }),
        flag(
            option("stages", LOAD)
                .value_name("LOAD:TIME,…")
                .help("Load over time, rates or users: 0..1k:2m,1k:5m")
                .long_help(
                    "A load that changes over time, instead of --rate and --duration: \
                    100:30s,100..1000:2m,1000:30s is 100/s for 30s, a ramp to 1,000/s in 2m, then \
                    1,000/s for 30s; with --model closed or --period, 100 users instead of 100/s, \
                    who come and go one at a time. steady=1000:30s has a name, for results and \
                    --slo. The window is as long as all stages together, and each has results of \
                    its own. The warm-up has the load with which the first stage begins, and \
                    setup opens connections for the highest",
                ),
            |to, given| put(&mut to.plan.stage, text(given).and_then(|given| stages(&given))),
        )
        .usual()
        .tables("stage")
        .excludes(&["rate", "requests", "duration"])
        .refused(&MANY_RUNS, "each of its runs has one rate", OR_RUN),
        flag(
            option("replay", LOAD).value_name("LOG").help(
                "Open model: send the requests of an access log again, each when it came: common \
                    or combined format, also with nginx's $request_time at the end, or JSON lines \
                    with time, method and path. The window ends a second after the log's last \
                    request; a shorter --duration cuts it. There is no warm-up",
            ),
            |to, given| put(&mut to.plan.replay, file_name(last(given)).map(Some)),
        )
        .excludes(&["rate", "stages", "period", "requests", "targets"])
        .refused(&SERIES, "each of its runs has one rate", OR_RUN)
        .shown(&["ab"], |arg, _| {
            arg.help(
                "Open model: send the requests of an access log again, each when it came, in each \
                    slice to one side: the first --duration of the log",
            )
        }),
        flag(
            option("speed", LOAD).value_name("N").help(
                "How much faster than in the log of --replay requests come, e.g. 2x or 0.5x \
                    [default: 1x]",
            ),
            |to, given| put(&mut to.plan.speed, parsed::<Speed>(given)),
        )
        .hidden(&SERIES),
        flag(
            option("spread", LOAD).value_name("HOW").help(
                "How the requests of one second come if the log of --replay has only whole \
                    seconds: spread over it (even), or together (none) [default: even]",
            ),
            |to, given| put(&mut to.plan.spread, choice::<Spread>(given)),
        )
        .choices(&["even", "none"])
        .hidden(&SERIES),
        flag(
            option("arrivals", LOAD).help(with_default(
                "Open model: how arrivals are spaced, at random, evenly, or as in the log of \
                    --replay",
                Plan::default().arrivals,
            )),
            |to, given| put(&mut to.plan.arrivals, choice::<Arrivals>(given)),
        )
        .choices(&["poisson", "constant", "log"]),
        flag(
            option("seed", LOAD).value_name("N").help(with_default(
                "Open model: seed of the schedule; the same seed gives the same arrivals",
                Plan::default().seed,
            )),
            |to, given| put(&mut to.plan.seed, amount(given, 0..=WHOLE_MAX)),
        )
        .shown(&SERIES, |arg, _| {
            arg.help("Seed of the first step's schedule; each later step has the next seed")
        })
        .shown(&["ab"], |arg, _| {
            arg.help(with_default(
                "Open model: seed of the schedule of the first pair of slices, which isn't \
                    compared; each later pair has the next seed",
                Plan::default().seed,
            ))
        }),
        flag(
            option("conns", LOAD)
                .short('c')
                .alias("connections")
                .value_name("N")
                .help(format!(
                    "Most connections [default: {CONNS_OPEN_DEFAULT} open, \
                    {CONNS_CLOSED_DEFAULT} closed]"
                ))
                .long_help(format!(
                    "Open model: the most connections, and with them the most requests in flight; \
                    closed model: the number of users, unless --stages have it, over HTTP/2 times \
                    --streams [default: {CONNS_OPEN_DEFAULT} open, \
                    {CONNS_CLOSED_DEFAULT} closed]"
                )),
            |to, given| put(&mut to.plan.conns, amount(given, 1..=CONNS_MAX)),
        )
        .usual(),
        flag(
            option("period", LOAD).value_name("DURATION").help(
                "Closed model: each user sends one request per period, or as soon as a late \
                    response arrives [default: as soon as each response arrives]",
            ),
            |to, given| put(&mut to.plan.period, parsed::<Nanos>(given)),
        )
        // They select different models.
        .excludes(&["rate"])
        .refused(&SERIES, NO_RATE, OR_RUN),
        flag(
            option("requests", LOAD)
                .short('n')
                .value_name("N")
                .help("End after N requests [default: after --duration]")
                .long_help(
                    "End the window after exactly N intended requests, or after --duration if \
                    that is given and comes first. The target gets no others: there is no \
                    warm-up, unless --warmup asks for one, which sends more. With --rate or \
                    --period, the window ends when the next request would be due; a closed loop \
                    ends when the last one has been answered, each shard with its part of N \
                    [default: after --duration]",
                ),
            |to, given| put(&mut to.plan.requests, amount(given, 1..=WHOLE_MAX)),
        )
        .usual()
        .refused(&SERIES, "each step of a series lasts for --duration", OR_RUN)
        .shown(&["ab"], |arg, _| arg.help("End each slice after N intended requests")),
        flag(
            option("duration", LOAD)
                .short('d')
                .value_name("DURATION")
                .help(with_default("Length of the recorded window", Plan::default().duration)),
            |to, given| put(&mut to.plan.duration, parsed::<Nanos>(given)),
        )
        .usual()
        .shown(&SERIES, |arg, command| {
            arg.help(with_default("Length of each step", defaults(command).duration)).long_help(
                with_default("Length of each step's recorded window", defaults(command).duration),
            )
        })
        .shown(&["ab"], |arg, command| {
            arg.help(with_default("Length of each slice", defaults(command).duration)).long_help(
                with_default("Length of each slice's recorded window", defaults(command).duration),
            )
        }),
        flag(
            option("warmup", LOAD)
                .value_name("DURATION")
                .help(with_default("Unrecorded load before the window", Plan::default().warmup))
                .long_help(format!(
                    "Length of the warm-up before the window, which isn't recorded [default: {}, \
                    none with --requests]",
                    Plan::default().warmup
                )),
            |to, given| put(&mut to.plan.warmup, parsed::<Nanos>(given)),
        )
        .usual()
        .shown(&SERIES, |arg, command| {
            arg.help(with_default("Unrecorded load before each step", defaults(command).warmup))
                .long_help(with_default(
                    "Length of each step's warm-up, which isn't recorded",
                    defaults(command).warmup,
                ))
        })
        .shown(&["ab"], |arg, command| {
            arg.help(with_default("Unrecorded load before each slice", defaults(command).warmup))
                .long_help(format!(
                    "Length of each slice's warm-up, which isn't recorded [default: {}, none \
                    with --requests]",
                    defaults(command).warmup
                ))
        }),
        flag(
            option("timeout", LOAD)
                .short('t')
                .value_name("DURATION")
                .help(with_default("Longest wait for a response", Plan::default().timeout))
                .long_help(with_default(
                    "Longest time from when a request was sent to the end of its response; one \
                    that takes longer counts as timed out, with this latency",
                    Plan::default().timeout,
                )),
            |to, given| put(&mut to.plan.timeout, parsed::<Nanos>(given)),
        )
        .usual(),
        flag(
            option("method", REQUEST)
                .short('m')
                .short_alias('X')
                .help("HTTP method [default: GET, POST with a body]")
                .long_help(
                    "HTTP method; lower case is converted to capitals. -X is the same flag \
                    [default: GET, POST with a body]",
                ),
            |to, given| {
                put(&mut to.plan.method, text(given).map(|given| given.to_ascii_uppercase()))
            },
        )
        .usual(),
        flag(
            list("header", REQUEST)
                .short('H')
                .value_name("NAME: VALUE")
                .help("Request header; repeatable")
                .long_help("Request header; repeatable. Replaces all headers of the plan file"),
            |to, given| put(&mut to.plan.headers, each(given, str::parse::<String>)),
        )
        .usual()
        .plural("headers")
        .free_text(),
        flag(
            option("user", REQUEST)
                .short('u')
                .value_name("USER:PASSWORD")
                .help("Basic authentication")
                .long_help(
                    "Send this name and password as basic authentication; the report has only \
                    their hash",
                ),
            |to, given| authorize(&mut to.plan, as_text(last(given))?),
        )
        .free_text(),
        flag(
            option("body", REQUEST)
                .short('b')
                .value_name("TEXT|@FILE|-")
                .help("Request body: text, @FILE, or - for stdin")
                .long_help(format!(
                    "Request body: literal text, @FILE for a file's content, at most {} GiB, or - \
                    for standard input; the file must not change during the run. Without --method \
                    the body is posted, as application/x-www-form-urlencoded unless a header \
                    names another type [default: none]",
                    BODY_MAX >> 30
                )),
            |to, given| put(&mut to.plan.body, text(given).map(from_stdin)),
        )
        .usual()
        .free_text()
        .shown(&["controller"], |arg, _| {
            arg.value_name("TEXT").help("Request body: literal text [default: none]")
        }),
        flag(
            option("targets", REQUEST)
                .value_name("FILE|-")
                .help("Load several URLs, listed in a file")
                .long_help(
                    "Load the requests that a file lists, each with results of its own: a URL a \
                    line, vegeta's http format, or its JSON lines, to which \"name\", \
                    \"weight\", \"expect\" (statuses, or a table of status, body and header), \
                    \"timeout\" and \"slo\" may be added. Only JSON lines and plan files have weights. URL, --method, --header \
                    and --body are their defaults",
                ),
            |to, given| put(&mut to.targets, text(given).and_then(targets::checked)),
        )
        .usual()
        .tables("scenario"),
        flag(
            option("order", REQUEST)
                .help(with_default(
                    "How the requests of --targets follow each other: drawn by weight, or in turn",
                    Plan::default().order,
                ))
                .long_help(with_default(
                    "How the requests of --targets follow each other: each drawn by weight, \
                    independently of the others, or in turn, each as often as it weighs; Poisson \
                    arrivals that are due within the same millisecond may swap turns",
                    Plan::default().order,
                )),
            |to, given| put(&mut to.plan.order, choice::<Order>(given)),
        )
        .choices(&["weighted", "round-robin"]),
        flag(
            list("data", REQUEST)
                .value_name("NAME=FILE")
                .help("CSV file for fields such as {{users.id}}")
                .long_help(
                    "A CSV file with a header line, whose values URLs, headers and bodies take: \
                    with users=users.csv, {{users.id}} is the value of the column `id`, and \
                    {{json:users.name}} one to stand in a JSON string. A request takes the row \
                    with its number, from the first again after the last. Repeatable. After the \
                    file: `,random` takes any row, `,zipf=S` row k as often as k to the power of \
                    -S; `,stop` ends the run after the last row, `,fail` refuses one that needs \
                    more rows. Other fields: {{seq}}, {{rand 1 100}}, {{zipf 1.1 1000}}, {{uuid}}",
                ),
            |to, given| put(&mut to.plan.data, each(given, data).map(BTreeMap::from_iter)),
        )
        .usual()
        .table("data")
        .free_text(),
        flag(
            option("trace", REQUEST)
                .value_name("N")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value(NEW_TRACE)
                .help("Send a W3C traceparent with each request")
                .long_help(
                    "Send a W3C traceparent with each request. Its trace id follows from the \
                    seed, the request's number and N, which is another one for each run, and in \
                    the report; the same N gives the same ids [default: none]",
                ),
            |to, given| put(&mut to.plan.trace, trace(as_text(last(given))?)),
        ),
        flag(
            option("cores", MACHINE)
                .value_name("LIST")
                .help("Cores, e.g. 0,1 or 0-3 [default: all but the first]")
                .long_help(
                    "Cores to run on, one shard each, e.g. 0,1 or 0-3 [default: one hardware \
                    thread of each physical core but the first, near the network interface, \
                    without those that serve its interrupts]",
                ),
            |to, given| put(&mut to.plan.cores, parsed::<CoreList>(given)),
        )
        .usual()
        .hidden(&["controller"]),
        flag(
            option("wait", MACHINE).help(with_default(
                "How a shard waits for the next arrival: better timing takes more CPU time",
                Plan::default().wait,
            )),
            |to, given| put(&mut to.plan.wait, choice::<Wait>(given)),
        )
        .choices(&WAITS),
        flag(
            option("stamps", MACHINE).value_name("WHOSE").help(
                "Who timestamps the arrival of a response: the kernel's stamps keep the \
                    client's wake-up and queue out of latencies [default: kernel, or user if the \
                    kernel has no stamps]",
            ),
            |to, given| put(&mut to.plan.stamps, choice::<StampSource>(given)),
        )
        .choices(&["kernel", "user"]),
        flag(
            option("stamp-sends", MACHINE).value_name("1/N|off").help(format!(
                "Have the kernel timestamp one request in N as it leaves the host, to measure \
                    the error of the send stamps; each costs one more system call [default: \
                    {STAMP_SENDS_DEFAULT}, off with --stamps user and where the kernel can't]"
            )),
            |to, given| put(&mut to.plan.stamp_sends, parsed::<OneIn>(given)),
        ),
        flag(
            option("flush", MACHINE).value_name("N").help(format!(
                "Most sends per system call: more save CPU time, fewer keep the send stamps \
                    exact [default: {FLUSH_OPEN_DEFAULT} open, {FLUSH_CLOSED_DEFAULT} closed]"
            )),
            |to, given| put(&mut to.plan.flush, amount(given, 1..=FLUSH_MAX)),
        ),
        flag(
            option("pipeline", CONNECTIONS).value_name("N").help(with_default(
                &format!(
                    "Most requests in flight on one connection, 1 to {PIPELINE_MAX}; a closed \
                    model keeps that many in flight on each"
                ),
                Plan::default().pipeline,
            )),
            |to, given| put(&mut to.plan.pipeline, amount(given, 1..=PIPELINE_MAX)),
        ),
        flag(
            option("http", CONNECTIONS).value_name("VERSION").help(
                "Version of HTTP: 2 is agreed on by ALPN for https URLs and needs no agreement for \
                    http URLs; auto, only for https, is 2 if all hosts choose it [default: 1.1]",
            ),
            |to, given| {
                put(&mut to.plan.http, choice::<Http>(given))?;
                // A plan file's streams are of its own version.
                to.plan.streams = to.plan.streams.filter(|_| !to.plan.http.is_1());
                Ok(())
            },
        )
        .choices(&["1.1", "2", "auto"]),
        flag(
            option("streams", CONNECTIONS).value_name("N").help(format!(
                "With HTTP/2: most requests in flight on one connection, 1 to {STREAMS_MAX}, or \
                    the target's limit if lower; a closed model keeps that many in flight on each \
                    [default: {STREAMS_DEFAULT}]"
            )),
            |to, given| put(&mut to.plan.streams, amount(given, 1..=STREAMS_MAX)),
        ),
        flag(
            option("deadline", LOAD).value_name("DURATION").help(
                "Longest time from when a request was due to the end of its response; one \
                    that takes longer counts as timed out, separately from --timeout [default: \
                    none]",
            ),
            |to, given| put(&mut to.plan.deadline, parsed::<Nanos>(given)),
        ),
        flag(
            option("overload", LOAD).help(with_default(
                "Open model: an arrival that finds no idle connection waits and is sent \
                    late (queue), or waits at most --queue-max and then counts as unsent \
                    (drop)",
                Plan::default().overload,
            )),
            |to, given| {
                put(&mut to.plan.overload, choice::<Overload>(given))?;
                // A plan file's limit applies to its own `drop`; one given with this flag is set
                // after it.
                to.plan.queue_max =
                    to.plan.queue_max.filter(|_| to.plan.overload == Overload::Drop);
                Ok(())
            },
        )
        .choices(&["queue", "drop"]),
        flag(
            option("queue-max", LOAD).value_name("DURATION").help(format!(
                "With --overload drop: longest wait for a connection [default: \
                    {QUEUE_MAX_DEFAULT}]"
            )),
            |to, given| put(&mut to.plan.queue_max, parsed::<Nanos>(given)),
        ),
        flag(
            option("keepalive", CONNECTIONS)
                .help(with_default("Whether to reuse connections", Plan::default().keepalive)),
            |to, given| put(&mut to.plan.keepalive, choice::<Switch>(given)),
        )
        .choices(&["on", "off"]),
        flag(
            option("requests-per-connection", CONNECTIONS).value_name("N").help(
                "Close a connection after this many requests [default: when the target \
                    closes it]",
            ),
            |to, given| put(&mut to.plan.requests_per_connection, amount(given, 1..=WHOLE_MAX)),
        ),
        flag(
            option("connection-lifetime", CONNECTIONS).value_name("DURATION").help(
                "Close a connection after about this time, so that a load balancer's new servers \
                    get some; each lives for 0.5 to 1.5 times that [default: until the target \
                    closes it]",
            ),
            |to, given| put(&mut to.plan.connection_lifetime, parsed::<Nanos>(given)),
        ),
        flag(
            list("connect-to", CONNECTIONS)
                .value_name("HOST:PORT")
                .help(
                    "Connect to this host and port instead of the URL's; the requests stay the \
                        same. Repeatable, with HOST1:PORT1:HOST2:PORT2 for the URLs of one host",
                )
                .long_help(
                    "Connect to this host and port instead of the URL's; the requests stay the \
                        same. HOST1:PORT1:HOST2:PORT2 is for the URLs of HOST1:PORT1 alone, as \
                        curl's flag is: an empty HOST1 or PORT1 stands for any, an empty HOST2 or \
                        PORT2 for the URL's own. Repeatable: the first that fits a URL decides",
                ),
            |to, given| put(&mut to.plan.connect_to, each(given, str::parse::<String>)),
        ),
        flag(
            list("resolve", CONNECTIONS).value_name("HOST:PORT:ADDRESS").help(
                "Connect to this address for the URL's host and port, instead of asking the \
                    resolver, e.g. api.test:80:10.0.0.2. Repeatable, for several hosts",
            ),
            |to, given| put(&mut to.plan.resolve, each(given, str::parse::<String>)),
        ),
        flag(
            option("unix", CONNECTIONS).value_name("PATH").help(
                "Connect to this Unix-domain socket instead of the URL's host and port; the \
                    requests stay the same. The kernel has no timestamps for it: latencies end \
                    when the response is handled, as with --stamps user, and the verdict notes \
                    it",
            ),
            |to, given| put(&mut to.plan.unix, file_name(last(given))),
        )
        .hidden(&["controller"]),
        file(
            option("cacert", TLS)
                .value_name("FILE")
                .help("Trust the certificate authorities in this PEM file, besides the system's"),
            |to| &mut to.plan.cacert,
        ),
        file(
            option("cert", TLS).value_name("FILE").help(
                "Client certificate and those of its issuers, a PEM file; needs --key [default: \
                    none]",
            ),
            |to| &mut to.plan.cert,
        ),
        file(
            option("key", TLS).value_name("FILE").help("Private key of --cert, a PEM file"),
            |to| &mut to.plan.key,
        ),
        flag(
            switch("insecure", TLS).short('k').help("Accept any certificate; the report notes it"),
            |to, _| put(&mut to.plan.insecure, Ok(true)),
        )
        .usual(),
        flag(
            option("tls-session", TLS).value_name("WHICH").help(with_default(
                "Handshake of each connection: a full one, or one that resumes the session of \
                    an earlier connection",
                Plan::default().tls_session,
            )),
            |to, given| put(&mut to.plan.tls_session, choice::<TlsSession>(given)),
        )
        .choices(&["full", "resume"]),
        flag(
            list("source-addresses", CONNECTIONS).value_name("LIST").value_delimiter(',').help(
                "Local addresses to connect from, in turn, e.g. 127.0.0.2,127.0.0.3 \
                    [default: the kernel chooses]",
            ),
            |to, given| put(&mut to.plan.source_addresses, each(given, ip_address)),
        )
        .hidden(&["controller"]),
        flag(
            option("settle", CONNECTIONS).value_name("DURATION").help(with_default(
                "Open model: start the warm-up once no connection has been added for this long",
                Plan::default().settle,
            )),
            |to, given| put(&mut to.plan.settle, parsed::<Nanos>(given)),
        ),
        flag(
            option("settle-min", CONNECTIONS)
                .value_name("DURATION")
                .help("Open model: start the warm-up after at least this long [default: 0s]"),
            |to, given| put(&mut to.plan.settle_min, parsed::<Nanos>(given)),
        ),
        flag(
            option("prewarm", CONNECTIONS)
                .value_name("N")
                .help("Open model: connections to open before the first request [default: 0]"),
            |to, given| put(&mut to.plan.prewarm, amount(given, 0..=CONNS_MAX)),
        ),
        flag(
            option("spare", CONNECTIONS)
                .value_name("N")
                .help("Open model: idle connections to add once the load has settled [default: 0]"),
            |to, given| put(&mut to.plan.spare, amount(given, 0..=CONNS_MAX)),
        ),
        flag(
            option("expect-status", VERDICT)
                .value_name("LIST")
                .help(with_default("Statuses that count as success", Plan::default().expect_status))
                .long_help(with_default(
                    "Statuses that count as success: codes and classes, e.g. 200,404 or 2xx",
                    Plan::default().expect_status,
                )),
            |to, given| put(&mut to.plan.expect_status, parsed::<StatusSet>(given)),
        )
        .usual(),
        flag(
            list("expect-body", VERDICT).value_name("CHECK").help(
                "A check of each response's body: 'contains TEXT', 'regex PATTERN', \
                    'json:/POINTER = VALUE', 'json:/POINTER' or 'sha256 HEX'; \
                    repeatable. A response that fails one is bad, and has a latency",
            ),
            |to, given| put(&mut to.plan.expect_body, each(given, str::parse::<String>)),
        )
        .free_text(),
        flag(
            list("expect-header", VERDICT).value_name("CHECK").help(
                "A check of each response's headers: 'Name', 'Name: VALUE', 'Name: contains \
                    TEXT' or 'Name: regex PATTERN'; repeatable",
            ),
            |to, given| put(&mut to.plan.expect_header, each(given, str::parse::<String>)),
        )
        .free_text(),
        flag(
            option("body-max", VERDICT).value_name("BYTES").help(with_default(
                "The longest body that is kept for its checks; a longer one fails them",
                BODY_MAX_DEFAULT,
            )),
            |to, given| put(&mut to.plan.body_max, amount(given, 1..=BODY_MAX_MAX)),
        ),
        flag(
            switch("decompress", VERDICT)
                .help("Decompress bodies with gzip for their checks, which they fail else"),
            |to, _| put(&mut to.plan.decompress, Ok(true)),
        ),
        flag(
            option("sessions-max", LOAD).value_name("N").help(format!(
                "Scenarios of several steps: the most sessions at once on each core \
                    [default: {SESSIONS_MAX_DEFAULT}]"
            )),
            |to, given| put(&mut to.plan.sessions_max, amount(given, 1..=SESSIONS_MAX_MAX)),
        ),
        flag(
            option("slo", VERDICT)
                .value_name("METRIC<BOUND,…")
                .help("Objectives, e.g. 'p99<20ms,errors<0.1%'")
                .long_help(
                    "Objectives that the run must meet, e.g. \
                    'p99<20ms,p99.9<100ms,errors<0.1%': a percentile, mean or max of corrected \
                    latency; errors, the share of the intended requests without a good answer; \
                    or rate>=0.99, the share of them that is answered before the window ends. \
                    After a name and a colon, it is for one scenario or stage: 'search: p99<50ms'. \
                    Each is met, missed or undecided, at a confidence of 95 %; max and rate are \
                    exact. Failed requests have no latency, so add a bound on errors to each \
                    bound on latency. Exits 4 if an objective is missed, but 3 if the verdict is \
                    invalid. An undecided objective doesn't fail the run, unless --fail-on \
                    undecided is given; a longer --duration decides it [default: none]",
                ),
            |to, given| put(&mut to.plan.slo, parsed::<Objectives>(given)),
        )
        .usual()
        .shown(&SERIES, |arg, _| {
            arg.help("Objectives of each step: 'p99<20ms,errors<0.1%'").long_help(
                "Objectives of each step, e.g. 'p99<20ms,errors<0.1%'; see `truetail run --help`",
            )
        })
        .refused(&["ceiling"], "a ceiling has no objectives", "omit it, or use `truetail search`")
        .refused(&["ab"], "a comparison has no objectives", OR_RUN),
        flag(
            list("fail-on", VERDICT).value_name("WHAT,…").value_delimiter(',').help(
                "Also exit 4 if an objective is undecided, or 3 if the verdict is suspect; \
                    repeatable [default: neither]",
            ),
            |to, given| put(&mut to.results.fail_on, each(given, by_name::<FailOn>)),
        )
        .choices(&["undecided", "suspect"])
        .refused(&SERIES, "a series judges its steps, and its exit code is their result", OR_RUN)
        .replaced(&["ab"], "a comparison fails only on `regression`", OR_RUN),
        flag(
            list("threshold", VERDICT).value_name("NAME=VALUE").help(format!(
                "A threshold of the verdict; repeatable. Overrides the plan file's. Shares are \
                    fractions of 1, names in _us are in microseconds. The defaults, and the \
                    reasons that each decides: {}",
                default_thresholds()
            )),
            |to, given| {
                // One threshold leaves the others unchanged.
                each(given, str::parse::<Bound>)?
                    .iter()
                    .for_each(|bound| to.plan.thresholds.set(bound));
                Ok(())
            },
        )
        .table("thresholds")
        .free_text(),
        file(
            option("calibration", VERDICT).value_name("FILE").help(
                "Calibration of this machine to check the run against, written by \
                    `truetail calibrate --out`; the reasons near_ceiling and below_floor need \
                    it. It must have been made with this version, kernel, processor, --cores and \
                    --wait [default: the last such one, which `truetail calibrate` saved in \
                    $XDG_CACHE_HOME or ~/.cache; without one, these two reasons aren't judged]",
            ),
            |to| &mut to.results.calibration,
        )
        .refused(&["controller"], "a calibration is of one machine", OR_RUN_THERE)
        .refused(
            &["ceiling"],
            "a ceiling is measured, not checked against a calibration",
            "omit it",
        ),
        file(
            option("raw", RESULTS).value_name("FILE").help(
                "Write raw samples: the timestamps of every request in the window, 48 bytes \
                    each [default: none]",
            ),
            |to| &mut to.plan.raw,
        )
        .refused(&SERIES, ONE_RUN, OR_RUN)
        .refused(&["ab"], ONE_SLICE, OR_RUN)
        .shown(&["controller"], |arg, _| {
            arg.value_name("FOLDER").help(
                "Collect the agents' raw samples in this folder, one file each: the \
                    timestamps of every request in the window, 48 bytes each [default: none]",
            )
        }),
        results(
            option("out", RESULTS)
                .short('o')
                .alias("output")
                .value_name("FILE|-")
                .help("Write the report as JSON")
                .long_help(
                    "Write the report as JSON; with -, to standard output, and the summary to \
                    stderr",
                ),
            name_or_stdout,
            OfEnd(|ended, writer| json::write(&ended.finished.report, writer)),
        )
        .usual()
        .shown(&SERIES, |arg, _| arg.help("Write the steps and the answer as JSON"))
        .shown(&["ab"], |arg, _| {
            arg.help("Write the comparison as JSON")
                .long_help("Write the comparison as JSON; with -, to standard output")
        }),
        results(
            option("csv", RESULTS)
                .value_name("FILE|-")
                .help("Write the run over time as CSV")
                .long_help(format!(
                    "Write the run over time as CSV: a header, then one row for each of at most \
                    512 intervals of the window. A request counts in the interval in which it \
                    was due. With -, the CSV goes to standard output, and the summary to stderr. \
                    Columns: {}. With several scenarios or stages, a second file, \
                    run.parts.csv for run.csv, has a row for each, with counts, latencies and \
                    their intervals; with scenarios of several steps, run.sessions.csv has one \
                    for the sessions of each. There are none with -",
                    csv::columns()
                )),
            name_or_stdout,
            OfEnd(|ended, writer| csv::of_run(&ended.finished.report, writer)),
        )
        .also_writes(csv::parts_path, OfRun(csv::parts))
        .also_writes(csv::sessions_path, OfRun(csv::sessions))
        .usual()
        .refused(&["ab"], ONE_SLICE, OR_RUN)
        .shown(&SERIES, |arg, _| {
            arg.help("Write the steps as CSV, one row each").long_help(format!(
                "Write the steps as CSV: a header, then one row for each. Columns: {}",
                probe::csv::columns()
            ))
        }),
        of_one_run(
            results(
                option("hdr", RESULTS)
                    .value_name("FILE.hlog")
                    .help("Write the latencies as an HdrHistogram log")
                    .long_help(
                        "Write an HdrHistogram interval log in ns, with tags: corrected latency \
                        per interval, naive latency overall, both of each route and stage if \
                        there are several, and that of sessions; beside it FILE.hgrm, the \
                        percentiles of corrected latency",
                    ),
                file_name,
                OfEnd(|ended, writer| hlog::of_run(ended.finished, ended.began, writer)),
            )
            .usual()
            .also_writes(
                hgrm::path,
                OfEnd(|ended, writer| hgrm::write(writer, &ended.finished.measured.corrected)),
            ),
        ),
        flag(
            option("label", RESULTS)
                .value_name("TEXT")
                .help("Name of the run in its report [default: none]"),
            |to, given| put(&mut to.results.label, text(given)),
        )
        .refused(&SERIES, ONE_RUN, OR_RUN)
        .free_text()
        .shown(&["ab"], |arg, _| arg.help("Name of each slice in its report [default: none]")),
        flag(
            list("tag", RESULTS).value_name("NAME=VALUE").help(
                "A note in the report, e.g. commit=1a2b3c; repeatable. Replaces all tags of \
                    the plan file",
            ),
            |to, given| put(&mut to.results.tags, each(given, tag).map(BTreeMap::from_iter)),
        )
        .refused(&SERIES, ONE_RUN, OR_RUN)
        .table("tags")
        .free_text(),
        of_one_run(results(
            option("junit", RESULTS).value_name("FILE.xml").help(
                "Write the verdict and each objective as a test case of a JUnit file. A \
                    missed objective is a failure; an undecided one is skipped, or a failure \
                    with --fail-on undecided. An invalid verdict is an error, or skipped with \
                    --allow-invalid; a suspect one is a failure with --fail-on suspect",
            ),
            file_name,
            OfEnd(|ended, writer| junit::write(writer, &ended.finished.report, ended.gate)),
        )),
        of_one_run(results(
            option("ndjson", RESULTS).value_name("FILE|-").help(
                "Write a line of JSON each second during the run, warm-up included. A line \
                    has what was added since the line before, under the report's names: the \
                    counts of all lines add up to the report's. p50_us and p99_us are corrected \
                    latencies of the requests that ended, within 6.25 %, and null with fewer \
                    than 20 and 1,000 of them. With -, the lines go to standard output, and the \
                    summary to stderr",
            ),
            name_or_stdout,
            OfRun(Ndjson::sink),
        )),
        of_one_run(results(
            option("prom", RESULTS).value_name("FILE.prom").help(
                "Write the figures for Prometheus, in the format of the node exporter's textfile \
                    collector",
            ),
            prom_name,
            OfEnd(|ended, writer| prom::write(writer, &ended.finished.report, ended.began)),
        )),
        results(
            option("flamegraph", RESULTS).value_name("FILE").help(
                "Profile the window and write where the CPU time went, per request. The \
                    ending decides the format: .svg is a flamegraph for a browser; .folded has a \
                    line for each stack, with its picoseconds of CPU time per request; .pb.gz is \
                    pprof's protobuf. `truetail flamediff` compares two .folded or .pb.gz files. \
                    perf samples the stacks, those of the kernel included; where it can't be \
                    used, a signal samples the user space of truetail's own threads. Sampling \
                    costs CPU time, so the verdict of such a run is at best suspect",
            ),
            profile_name,
            OfRun(Flamegraph::sink),
        )
        .refused(&["controller"], "a profile is of one machine", OR_RUN_THERE)
        .refused(&["sweep", "search", "ab"], "a profile is of one run", OR_RUN)
        .shown(&["ceiling"], |arg, _| {
            arg.help(
                "Profile a run at the rate that passed, and write where its CPU time went: \
                    FILE.svg, FILE.folded or FILE.pb.gz",
            )
        }),
        flag(
            switch("allow-invalid", VERDICT)
                .help("Exit 0 even if the verdict is invalid [default: exit 3]"),
            |to, _| put(&mut to.results.allow_invalid, Ok(true)),
        )
        .refused(&SERIES, "a series has a verdict for each step, and none of its own", OR_RUN)
        .shown(&["ab"], |arg, _| arg.help("Count slices even if their verdict is invalid")),
        flag(
            option("slowest", RESULTS).value_name("N").help(format!(
                "How many of the slowest requests the report lists, of each route in each stage, \
                    at most {SLOWEST_MAX} [default: {SLOWEST_DEFAULT}]"
            )),
            |to, given| put(&mut to.plan.slowest, amount(given, 0..=SLOWEST_MAX)),
        ),
        flag(
            switch("details", RESULTS)
                .help("Print everything that is known about the run")
                .long_help(
                    "Print everything that is known about the run: the reasons in full, lateness, \
                    connections, and the checks of the run on itself",
                ),
            |to, _| put(&mut to.results.details, Ok(true)),
        )
        .usual(),
        flag(
            option("progress", RESULTS).value_name("HOW").help(
                "How to show progress, on stderr: as a bar, as a line every 10 s, or not at all \
                    [default: bar on a terminal, else lines]",
            ),
            |to, given| {
                to.results.quiet = false;
                put(&mut to.results.progress, choice::<Progress>(given))
            },
        )
        .choices(&Progress::NAMES),
        flag(
            switch("live", RESULTS).help("Watch the run on the whole screen").long_help(
                "Watch the run on the whole screen, second by second: requests intended and \
                    answered, latencies, requests in flight, and how late the generator is. If \
                    a core without a shard is allowed, that one draws it. q or Esc leaves the \
                    view, and the run goes on with what --progress shows; Ctrl-C ends the run, \
                    as always",
            ),
            |to, _| {
                to.results.quiet = false;
                put(&mut to.results.live, Ok(true))
            },
        )
        .usual()
        .refused(
            &["controller"],
            "the view shows this machine's shards",
            "omit it: a terminal shows each agent",
        )
        .refused(&MANY_RUNS, "the view shows one run", OR_RUN),
        flag(
            switch("quiet", RESULTS).short('q').help("Print the summary alone, and no progress"),
            |to, _| {
                (to.results.live, to.results.progress) = (false, None);
                put(&mut to.results.quiet, Ok(true))
            },
        )
        .usual()
        .excludes(&["progress", "live"]),
    ]
}

/// A flag for a file of one run, which a command that makes many runs refuses.
fn of_one_run(flag: Flag) -> Flag {
    flag.refused(&SERIES, ONE_RUN, OR_RUN).refused(&["ab"], ONE_SLICE, OR_RUN)
}

/// Sets a field to a value, unless that is invalid.
fn put<T, F: From<T>>(field: &mut F, value: Result<T, String>) -> Result<(), String> {
    *field = value?.into();
    Ok(())
}

/// The value of a flag with one value: the last.
fn last(given: &[OsString]) -> &OsStr {
    given.last().map(OsString::as_os_str).unwrap_or_default()
}

fn as_text(word: &OsStr) -> Result<&str, String> {
    word.to_str().ok_or_else(|| "not UTF-8; give text".to_owned())
}

fn text(given: &[OsString]) -> Result<String, String> {
    as_text(last(given)).map(str::to_owned)
}

fn parsed<T: FromStr<Err: Display>>(given: &[OsString]) -> Result<T, String> {
    as_text(last(given))?.parse().map_err(|error: T::Err| error.to_string())
}

fn amount<T>(given: &[OsString], range: RangeInclusive<T>) -> Result<T, String>
where
    T: TryFrom<u64> + PartialOrd + Display + Clone,
{
    whole_amount(range)(as_text(last(given))?)
}

fn choice<T: DeserializeOwned>(given: &[OsString]) -> Result<T, String> {
    by_name(as_text(last(given))?).map_err(|error| error.to_string())
}

/// Applies each value of a repeatable flag.
fn each<T, E: Display>(
    given: &[OsString],
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, String> {
    let values = given.iter();
    values.map(|word| read(as_text(word)?).map_err(|error| error.to_string())).collect()
}

fn authorize(plan: &mut Plan, user: &str) -> Result<(), String> {
    let user = BASE64_STANDARD.encode(credentials(user)?);
    plan.headers.retain(|line| !is_named(line, "Authorization"));
    plan.headers.push(format!("Authorization: Basic {user}"));
    Ok(())
}

/// The body as the plan writes it: standard input is a file.
fn from_stdin(body: String) -> String {
    if ["-", "@-"].contains(&body.as_str()) { "@/dev/stdin".to_owned() } else { body }
}

/// The thresholds by name, with their defaults and the reasons that they decide.
fn default_thresholds() -> String {
    let entry = |(name, value): (String, f64)| {
        let reasons: Vec<String> = decided_by(&name).iter().map(Code::to_string).collect();
        format!("{name}={value} ({})", reasons.join(", "))
    };
    let entries = Thresholds::default().entries();
    entries.into_iter().map(entry).collect::<Vec<_>>().join("; ")
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
