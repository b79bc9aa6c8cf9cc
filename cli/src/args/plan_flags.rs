//! The plan's fields as flags under the same names, all optional: what is not given stays with the plan file or the plan's own
//! default. So there is no second configuration and no second set of defaults.

use std::net::IpAddr;

use clap::Args;
use clap::builder::PossibleValuesParser;
use engine::plan::status::StatusSet;
use engine::plan::thresholds::Thresholds;
use engine::plan::{
    CONNS_CLOSED_DEFAULT, CONNS_OPEN_DEFAULT, FLUSH_CLOSED_DEFAULT, FLUSH_OPEN_DEFAULT, Plan,
    QUEUE_MAX_DEFAULT,
};
use engine::sys::units::{CoreList, Nanos, Rate};
use serde::{Serialize, Serializer};

use super::{COUNT_MAX, JUDGEMENT, RESULTS, WHOLE_MAX, file_name, whole_number};

const LOAD: &str = "Load";
const CONNECTIONS: &str = "Connections";
const REQUEST: &str = "Request";
const MACHINE: &str = "Machine";

/// The plan's fields as flags. What is given here is laid over the plan file, under the names of the plan's fields.
#[derive(Debug, Default, Args, Serialize)]
pub(crate) struct PlanFlags {
    /// The URL to ask for, http://HOST:PORT/PATH
    #[arg(value_name = "URL", conflicts_with = "target")]
    #[serde(skip)]
    pub(crate) url: Option<String>,

    #[arg(long, value_name = "URL", help_heading = REQUEST, help = "The URL, as a flag")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,

    #[arg(
        long,
        value_parser = PossibleValuesParser::new(["open", "closed"]),
        help_heading = LOAD,
        help = "What drives the load: arrivals, or responses [default: open with --rate, else closed]"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,

    #[arg(
        long,
        value_name = "PER_SECOND",
        help_heading = LOAD,
        help = "Open model: requests per second, such as 500, 20k or 1.5M"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<Rate>,

    #[arg(
        long,
        value_parser = PossibleValuesParser::new(["poisson", "constant"]),
        help_heading = LOAD,
        help = with_default("Open model: how the arrivals are spaced", "arrivals")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arrivals: Option<String>,

    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<u64>(WHOLE_MAX),
        help_heading = LOAD,
        help = with_default("Open model: the seed of the schedule; one seed, one schedule", "seed")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,

    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(COUNT_MAX),
        help_heading = LOAD,
        help = format!(
            "Connections: the in-flight cap of the open model, the users of the closed one \
            [default: {CONNS_OPEN_DEFAULT} and {CONNS_CLOSED_DEFAULT}]"
        )
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) conns: Option<usize>,

    #[arg(
        long,
        value_name = "DURATION",
        help_heading = LOAD,
        help = "Closed model: each connection asks once a period, or as soon as its late response has come [default: at once]"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) period: Option<Nanos>,

    #[arg(
        long,
        value_name = "DURATION",
        help_heading = LOAD,
        help = with_default("Length of the recorded window", "duration")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration: Option<Nanos>,

    #[arg(
        long,
        value_name = "DURATION",
        help_heading = LOAD,
        help = with_default("Load before the window that is offered and not recorded", "warmup")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warmup: Option<Nanos>,

    #[arg(
        long,
        value_name = "DURATION",
        help_heading = LOAD,
        help = with_default(
            "From sent to the end of the response; after it the request counts as timed out, at this time",
            "timeout"
        )
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<Nanos>,

    #[arg(long, help_heading = REQUEST, help = with_default("The method", "method"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<String>,

    #[arg(
        long = "header",
        value_name = "NAME: VALUE",
        help_heading = REQUEST,
        help = "A header; may be given several times, and then replaces those of the plan file"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) headers: Option<Vec<String>>,

    #[arg(
        long,
        value_name = "TEXT|@FILE",
        help_heading = REQUEST,
        help = "The body: a text, or @ and a file's name [default: none]"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<String>,

    #[arg(
        long,
        value_name = "LIST",
        help_heading = MACHINE,
        help = "The cores to run on, one shard each, such as 0,1 or 0-3 [default: all allowed but one, at least one]"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cores: Option<CoreList>,

    #[arg(
        long,
        value_parser = PossibleValuesParser::new(["sleep", "hybrid", "spin"]),
        help_heading = MACHINE,
        help = with_default("How a core waits for the next arrival: punctual costs CPU", "wait")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wait: Option<String>,

    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(COUNT_MAX),
        help_heading = MACHINE,
        help = format!(
            "Requests that one system call may carry: more is cheaper, fewer keeps the stamps exact \
            [default: {FLUSH_OPEN_DEFAULT} open, {FLUSH_CLOSED_DEFAULT} closed]"
        )
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flush: Option<usize>,

    #[arg(
        long,
        value_name = "DURATION",
        help_heading = LOAD,
        help = "From intended to the end of the response, the user's patience; after it the request counts as timed out, apart \
            from --timeout [default: none]"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<Nanos>,

    #[arg(
        long,
        value_parser = PossibleValuesParser::new(["queue", "drop"]),
        help_heading = LOAD,
        help = with_default(
            "Open model: an arrival that finds no connection waits and is sent late, or waits --queue-max at most and counts \
             as unsent",
            "overload"
        )
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) overload: Option<String>,

    #[arg(
        long,
        value_name = "DURATION",
        help_heading = LOAD,
        help = format!("With --overload drop: the longest wait for a connection [default: {QUEUE_MAX_DEFAULT}]")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue_max: Option<Nanos>,

    #[arg(
        long,
        value_parser = PossibleValuesParser::new(["on", "off"]),
        help_heading = LOAD,
        help = "Closed model with --period: correct by back-filling (HdrHistogram's record_correct) instead of by intended \
            times [default: off]"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backfill: Option<String>,

    #[arg(
        long,
        value_parser = PossibleValuesParser::new(["on", "off"]),
        help_heading = CONNECTIONS,
        help = with_default("Whether a connection carries more than one request", "keepalive")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keepalive: Option<String>,

    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<u64>(WHOLE_MAX),
        help_heading = CONNECTIONS,
        help = "Close a connection after this many requests [default: when the target closes it]"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requests_per_connection: Option<u64>,

    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = ip_address,
        help_heading = CONNECTIONS,
        help = "Local addresses to connect from, in turn, such as 127.0.0.2,127.0.0.3 [default: the kernel's choice]"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source_addresses: Option<Vec<IpAddr>>,

    #[arg(
        long,
        value_name = "DURATION",
        help_heading = CONNECTIONS,
        help = with_default(
            "Open model with a warm-up: before it, load is offered until no connection has been added for this long",
            "settle"
        )
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settle: Option<Nanos>,

    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number::<usize>(COUNT_MAX),
        help_heading = CONNECTIONS,
        help = "Open model: connections to open before anything is sent [default: 0]"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prewarm: Option<usize>,

    #[arg(
        long,
        value_name = "LIST",
        help_heading = JUDGEMENT,
        help = with_default("Statuses that count as success: codes and classes, such as 200,404 or 2xx", "expect_status")
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expect_status: Option<StatusSet>,

    #[arg(
        long = "threshold",
        value_name = "NAME=VALUE",
        value_parser = threshold,
        help_heading = JUDGEMENT,
        help = "A bound of the verdict; may be given several times, and overrides the plan file's of that name",
        long_help = format!(
            "A bound of the verdict; may be given several times, and overrides the plan file's of that name. Shares are of 1, \
             names in _us are in microseconds. [default: {}]",
            threshold_names("=")
        )
    )]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_table")]
    pub(crate) thresholds: Option<Vec<(String, f64)>>,

    #[arg(
        long,
        value_name = "FILE",
        value_parser = file_name,
        help_heading = RESULTS,
        help = "Write the stamps of every request of the window, 40 bytes each [default: none]"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw: Option<String>,
}

/// One of this machine's addresses.
fn ip_address(text: &str) -> Result<IpAddr, &'static str> {
    text.parse()
        .map_err(|_| "is no IP address; give those of this machine, such as 127.0.0.2,127.0.0.3")
}

/// A bound of the verdict, `NAME=VALUE`, among those that the engine knows.
fn threshold(text: &str) -> Result<(String, f64), String> {
    let (name, value) =
        text.split_once('=').ok_or("has no =; give NAME=VALUE, such as busy=0.9".to_owned())?;
    if !default_thresholds().contains_key(name) {
        return Err(format!("is unknown; the names are {}", threshold_names("")));
    }
    value
        .parse()
        .map(|value| (name.to_owned(), value))
        .map_err(|_| "has no number behind the =; give one, such as busy=0.9".to_owned())
}

/// The bounds' own defaults, by name.
fn default_thresholds() -> toml::Table {
    toml::Table::try_from(Thresholds::default()).expect("bounds can be written as TOML")
}

/// The bounds' names, each with its default where `equals` stands between.
fn threshold_names(equals: &str) -> String {
    let defaults = default_thresholds();
    let names = defaults.iter().map(|(name, value)| match equals {
        "" => name.clone(),
        _ => format!("{name}{equals}{value}"),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Bounds as the plan file has them: a table.
fn as_table<S: Serializer>(
    bounds: &Option<Vec<(String, f64)>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(bounds.iter().flatten().map(|(name, value)| (name, value)))
}

/// A flag's help with the plan's own default behind it.
fn with_default(help: &str, field: &str) -> String {
    let defaults = toml::Table::try_from(Plan::default()).expect("a plan can be written as TOML");
    let default = match &defaults[field] {
        toml::Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    format!("{help} [default: {default}]")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::super::Cli;
    use super::*;

    #[test]
    fn every_field_of_the_plan_is_a_flag() {
        // The error about an unknown word lists the words that a plan knows.
        let unknown = toml::from_str::<Plan>("? = 1".replace('?', "unknown").as_str());
        let message = unknown.expect_err("an unknown word").message().to_owned();
        let fields: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
        assert!(fields.contains(&"target") && 10 < fields.len(), "{message}");
        let command = Cli::command();
        let run = command.find_subcommand("run").expect("the command");
        for field in fields {
            assert!(run.get_arguments().any(|flag| flag.get_id() == field), "{field}");
        }
    }
}
