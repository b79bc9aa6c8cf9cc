//! The experiment on peers: other load generators' reports of a target that stalls and of one that
//! costs nothing, compared with truetail and the target's ledger.

use std::time::Duration;

use engine::report::Report;
use engine::sys::placement;
use judge::{Asked, Load, Mode, Tool};
use serde::Serialize;
use target::Ledger;

use crate::lab::latencies::Requests;
use crate::lab::plot::{Axis, LATENCY, Line, lines};
use crate::lab::{Computed, Lab, LabError, Observed, Plot};
use crate::truth::Truth;

/// How long a program may take beyond the length of its run.
const LONGER: Duration = Duration::from_secs(60);

/// The largest share that rounding adds to a printed rate times a printed mean.
const ROUNDING: f64 = 0.05;

/// The other load generators.
const PEERS: [&str; 5] = ["wrk", "h2load", "hey", "ab", "oha"];

#[derive(Debug, Serialize)]
struct Figures {
    stalling: Vec<Row>,
    null: Vec<Row>,
    missing: Vec<String>,
}

/// A program's own figures of a run: `None` for one that it doesn't print.
#[derive(Debug, Default, Serialize)]
struct Printed {
    /// Responses, of any status.
    requests: Option<f64>,
    /// The same per second.
    per_s: Option<f64>,
    mean_ms: Option<f64>,
    p50_ms: Option<f64>,
    p90_ms: Option<f64>,
    p99_ms: Option<f64>,
    max_ms: Option<f64>,
}

/// A program's own figures, and those of the target's ledger for the same run.
#[derive(Debug, Serialize)]
struct Row {
    program: String,
    load: String,
    #[serde(flatten)]
    printed: Printed,
    /// L = λW, the printed rate times the printed mean: the average number of requests in flight,
    /// if the mean is that of its requests.
    in_flight: Option<f64>,
    /// True if that is more than its connections can have, and its mean is of requests that were
    /// sent.
    above_conns: bool,
    /// Responses that the target sent; `None` for the null target, which keeps no ledger.
    ledger_requests: Option<u64>,
    ledger_p99_ms: Option<f64>,
    /// Why the program has no figures.
    problem: Option<String>,
}

/// Runs the other programs, and computes the figures.
pub(super) fn compute(lab: &mut Lab) -> Result<Computed, LabError> {
    let (installed, missing): (Vec<&str>, Vec<&str>) = PEERS.iter().partition(|name| lab.has(name));
    let missing = missing.into_iter().map(str::to_owned).collect();
    let tools: Vec<Tool> = installed.into_iter().map(tool).collect();
    let Observed { report, ledger } = lab.observed("stalling-open")?;
    let mut stalling = vec![Row::of("truetail, by arrival rate", &report, Some(&ledger))];
    let window = Requests::read(&lab.file("stalling-open.raw"))?.window;
    let users = Truth::hold(lab.setting("base_ms")?, &ledger.stalls, window);
    let Observed { report, ledger } = lab.observed("stalling-closed")?;
    stalling.push(Row::of("truetail, closed loop", &report, Some(&ledger)));
    let (connections, seconds) = (lab.count("conns")?, lab.count("length_s")?);
    let load = Load::at(lab.setting("rate")?, connections, seconds);
    for tool in &tools {
        let mode = rate_first(tool);
        let target = lab.target("stalling", &tool.name)?;
        let said = ran(lab, tool, mode, &load, &target.url)?;
        let ledger = target.stop()?;
        stalling.push(Row::read(tool, mode, &load, said, ledger.as_ref()));
    }
    let (connections, seconds) = (lab.count("null_conns")?, lab.count("null_length_s")?);
    let load = Load { connections, seconds, ..load };
    let report = lab.document("null-closed")?;
    let mut null = vec![
        Row::of("truetail, by the kernel's stamps", &report, None),
        Row::by_program("truetail, by its own stamps", &report),
    ];
    let target = lab.target("null", "null")?;
    for tool in &tools {
        let said = ran(lab, tool, Mode::Closed, &load, &target.url)?;
        null.push(Row::read(tool, Mode::Closed, &load, said, None));
    }
    target.stop()?;
    let plots = vec![plot(&users, &stalling)?];
    let figures = Figures { stalling, null, missing };
    Ok(Computed::new(&figures, plots))
}

/// One of the other load generators, with one thread.
fn tool(name: &str) -> Tool {
    let mut tool = Tool::find(name).expect("the judge knows it");
    tool.threads = 1;
    tool
}

/// Its command for a rate, or else the one for as many requests as there are responses.
fn rate_first(tool: &Tool) -> Mode {
    if tool.has(Mode::Open) { Mode::Open } else { Mode::Closed }
}

/// The percentiles that each program prints for the target that stalls, and those of the users.
fn plot(users: &Truth, rows: &[Row]) -> Result<Plot, LabError> {
    let line = |name: &str, dashed: bool, percentiles: [(f64, Option<f64>); 3]| {
        // Each by the number of requests per request beyond it.
        let points = percentiles.into_iter().filter_map(|(beyond, ms)| Some((beyond, ms?)));
        Line { name: name.to_owned(), points: points.collect(), dashed, ..Line::default() }
    };
    let [p50, p99] = [0.5, 0.99].map(|q| Some(users.quantile_ms(q)));
    let mut of_lines =
        vec![line("users, by arithmetic", true, [(2.0, p50), (10.0, None), (100.0, p99)])];
    of_lines.extend(rows.iter().map(|row| {
        let Printed { p50_ms, p90_ms, p99_ms, .. } = row.printed;
        line(&row.program, false, [(2.0, p50_ms), (10.0, p90_ms), (100.0, p99_ms)])
    }));
    of_lines.retain(|line| !line.points.is_empty());
    let title = "one target that stalls, as each program reports it";
    let (x, y) = (Axis::percentiles("percentile"), Axis::log(LATENCY));
    lines("stalling.svg", title, x, y, of_lines)
}

/// Runs a program on the last core, where truetail's shard would be; returns its output, or why
/// there is none.
fn ran(
    lab: &mut Lab,
    tool: &Tool,
    mode: Mode,
    load: &Load,
    url: &str,
) -> Result<Result<Printed, String>, LabError> {
    let allowed = placement::allowed_cores();
    let core = allowed[allowed.len() - 1].to_string();
    let mut args = vec!["-c".to_owned(), core];
    let (words, _) = tool.command(mode, &Asked::of(*load, url)).expect("a mode that it has");
    args.extend(words);
    let longest = Duration::from_secs(load.seconds.into()) + LONGER;
    let said = lab.program("taskset", &args, longest)?;
    let figures = judge::Figures::read(tool, &said.stdout);
    Ok(figures.map(|figures| Printed::of(&figures)).map_err(|error| {
        let why = said.stderr.lines().last().map_or(error.to_string(), str::to_owned);
        format!("no figures: {why}")
    }))
}

impl Printed {
    fn of(figures: &judge::Figures) -> Printed {
        let at = |percent| figures.percentile(percent).map(|found| found.ms);
        Printed {
            requests: figures.answered,
            per_s: figures.per_s,
            mean_ms: figures.mean_ms,
            p50_ms: at(50.0),
            p90_ms: at(90.0),
            p99_ms: at(99.0),
            max_ms: at(100.0),
        }
    }
}

impl Row {
    /// From a run of truetail.
    fn of(name: &str, report: &Report, ledger: Option<&Ledger>) -> Row {
        let plan = &report.config.plan;
        let load = match plan.rate {
            Some(rate) => format!("{}/s", rate.per_second()),
            None => format!("{} connections", plan.conns()),
        };
        let whole = &report.whole;
        let corrected = &whole.corrected;
        let at = |q: f64| corrected.quantile_us(q).map(ms);
        let printed = Printed {
            requests: Some(whole.counts.answered as f64),
            per_s: Some(whole.rate.answered),
            mean_ms: corrected.mean.map(ms),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            max_ms: corrected.max.map(ms),
        };
        let in_flight = in_flight(&printed);
        Row { program: name.to_owned(), load, printed, in_flight, ..Row::ledger(ledger) }
    }

    /// The same run with the program's stamps instead of the kernel's.
    fn by_program(name: &str, report: &Report) -> Row {
        let of = Row::of(name, report, None);
        let share = report.whole.client_share.as_ref();
        let printed = Printed {
            requests: of.printed.requests,
            per_s: of.printed.per_s,
            p50_ms: share.map(|share| ms(share.p50.when_handled)),
            p99_ms: share.and_then(|share| Some(ms(share.p99.as_ref()?.when_handled))),
            ..Printed::default()
        };
        Row { in_flight: in_flight(&printed), printed, ..of }
    }

    /// From another program's output.
    fn read(
        tool: &Tool,
        mode: Mode,
        load: &Load,
        said: Result<Printed, String>,
        ledger: Option<&Ledger>,
    ) -> Row {
        let Load { rate, connections, .. } = load;
        let kept = if mode == Mode::Open { format!(", {rate}/s") } else { String::new() };
        let is_of_sent = mode == Mode::Closed || !tool.is_corrected;
        let conns = f64::from(*connections);
        let (printed, problem) = match said {
            Ok(printed) => (printed, None),
            Err(problem) => (Printed::default(), Some(problem)),
        };
        let in_flight = in_flight(&printed);
        Row {
            program: tool.name.clone(),
            load: format!("{connections} connections{kept}"),
            above_conns: is_of_sent
                && in_flight.is_some_and(|count| conns * (1.0 + ROUNDING) < count),
            printed,
            in_flight,
            problem,
            ..Row::ledger(ledger)
        }
    }

    /// From a ledger alone.
    fn ledger(ledger: Option<&Ledger>) -> Row {
        Row {
            program: String::new(),
            load: String::new(),
            printed: Printed::default(),
            in_flight: None,
            above_conns: false,
            ledger_requests: ledger.map(|ledger| ledger.answered),
            ledger_p99_ms: ledger.and_then(|ledger| ledger.held.p99).map(|us| us / 1e3),
            problem: None,
        }
    }
}

/// L = λW: the rate times the mean.
fn in_flight(printed: &Printed) -> Option<f64> {
    Some(printed.per_s? * printed.mean_ms? / 1e3)
}

fn ms(us: f64) -> f64 {
    us / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load = Load::at(500.0, 5, 3);

    #[test]
    fn each_program_is_a_tool_with_one_thread() {
        for name in PEERS {
            assert!(tool(name).has(Mode::Closed), "{name}");
        }
        let (words, _) =
            tool("wrk").command(Mode::Closed, &Asked::of(LOAD, "http://a/")).expect("wrk");
        assert_eq!(words.join(" "), "wrk -t 1 -c 5 -d 3s --latency http://a/");
    }

    #[test]
    fn a_mean_times_a_rate_above_the_connections_is_seen() {
        let row = |name: &str, mean_ms| {
            let printed =
                Printed { per_s: Some(450.0), mean_ms: Some(mean_ms), ..Printed::default() };
            let tool = tool(name);
            Row::read(&tool, rate_first(&tool), &LOAD, Ok(printed), None)
        };
        let (of_requests, of_more) = (row("wrk", 11.1), row("wrk", 18.8));
        assert_eq!((of_requests.in_flight, of_requests.above_conns), (Some(4.995), false));
        assert_eq!((of_more.in_flight, of_more.above_conns), (Some(8.46), true));
        assert!(!row("oha", 18.8).above_conns, "requests that wait to be sent are in its mean");
        let wrk = tool("wrk");
        let none = Row::read(&wrk, Mode::Closed, &LOAD, Ok(Printed::default()), None);
        assert_eq!((none.in_flight, none.above_conns), (None, false));
    }
}
