//! The experiment on peers: other load generators' reports of a target that stalls and of one that
//! costs nothing, compared with truetail and the target's ledger.

mod output;

use std::time::Duration;

use engine::report::Report;
use engine::sys::placement;
use serde::Serialize;
use target::Ledger;

use self::output::Printed;
use crate::lab::latencies::Requests;
use crate::lab::plot::{Axis, LATENCY, Line, lines};
use crate::lab::{Computed, Lab, LabError, Observed, Plot};
use crate::truth::Truth;

/// How long a program may take beyond the length of its run.
const LONGER: Duration = Duration::from_secs(60);

/// The largest share that rounding adds to a printed rate times a printed mean.
const ROUNDING: f64 = 0.05;

/// Another load generator.
struct Peer {
    name: &'static str,
    /// Its command line, before the rate and the URL.
    command: &'static str,
    /// Its flag for a rate, of all connections or of each; empty if it can't keep one.
    rate: &'static str,
    read: fn(&str) -> Printed,
}

/// The load for a program.
struct Load<'a> {
    url: &'a str,
    conns: f64,
    /// Requests per second; `None` for as many as there are responses.
    rate: Option<f64>,
    seconds: f64,
}

/// All known peers. ab's -t stops after 50,000 requests unless -n follows with more, for which it
/// allocates memory.
const PEERS: [Peer; 5] = [
    Peer {
        name: "wrk",
        command: "wrk -t1 -c{conns} -d{seconds}s --latency",
        rate: "",
        read: output::wrk,
    },
    Peer {
        name: "h2load",
        command: "h2load --h1 -t1 -c{conns} -D{seconds}",
        rate: "--rps={each}",
        read: output::h2load,
    },
    Peer {
        name: "hey",
        command: "hey -cpus 1 -c {conns} -z {seconds}s",
        rate: "-q {each}",
        read: output::hey,
    },
    Peer {
        name: "ab",
        command: "ab -q -k -c {conns} -t {seconds} -n 10000000",
        rate: "",
        read: output::ab,
    },
    Peer {
        name: "oha",
        command: "oha --no-tui -c {conns} -z {seconds}s",
        rate: "-q {all}",
        read: output::hey,
    },
];

impl Peer {
    /// Its command line for a load, at a rate if it can keep one.
    fn words(&self, load: &Load) -> String {
        let mut words = self.command.to_owned();
        if let Some(rate) = load.rate.filter(|_| !self.rate.is_empty()) {
            let flag = self.rate.replace("{all}", &rate.to_string());
            words += &format!(" {}", flag.replace("{each}", &(rate / load.conns).to_string()));
        }
        let words = words.replace("{conns}", &load.conns.to_string());
        format!("{} {}", words.replace("{seconds}", &load.seconds.to_string()), load.url)
    }
}

#[derive(Debug, Serialize)]
struct Figures {
    stalling: Vec<Row>,
    null: Vec<Row>,
    missing: Vec<String>,
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
    /// True if that is more than its connections can have.
    above_conns: bool,
    /// Responses that the target sent; `None` for the null target, which keeps no ledger.
    ledger_requests: Option<u64>,
    ledger_p99_ms: Option<f64>,
    /// Why the program has no figures.
    problem: Option<String>,
}

/// Runs the other programs, and computes the figures.
pub(super) fn compute(lab: &mut Lab) -> Result<Computed, LabError> {
    let (installed, missing): (Vec<&Peer>, Vec<&Peer>) =
        PEERS.iter().partition(|peer| lab.has(peer.name));
    let missing = missing.iter().map(|peer| peer.name.to_owned()).collect();
    let Observed { report, ledger } = lab.observed("stalling-open")?;
    let mut stalling = vec![Row::of("truetail, by arrival rate", &report, Some(&ledger))];
    let window = Requests::read(&lab.file("stalling-open.raw"))?.window;
    let users = Truth::hold(lab.setting("base_ms")?, &ledger.stalls, window);
    let Observed { report, ledger } = lab.observed("stalling-closed")?;
    stalling.push(Row::of("truetail, closed loop", &report, Some(&ledger)));
    let (rate, conns) = (lab.setting("rate")?, lab.setting("conns")?);
    let seconds = lab.setting("length_s")?;
    for peer in &installed {
        let target = lab.target("stalling", peer.name)?;
        let said = ran(lab, peer, &Load { url: &target.url, conns, rate: Some(rate), seconds })?;
        let ledger = target.stop()?;
        let kept = if peer.rate.is_empty() { String::new() } else { format!("{rate}/s") };
        stalling.push(Row::read(peer, &kept, conns, said, ledger.as_ref()));
    }
    let (conns, seconds) = (lab.setting("null_conns")?, lab.setting("null_length_s")?);
    let report = lab.document("null-closed")?;
    let mut null = vec![
        Row::of("truetail, by the kernel's stamps", &report, None),
        Row::by_program("truetail, by its own stamps", &report),
    ];
    let target = lab.target("null", "null")?;
    for peer in &installed {
        let said = ran(lab, peer, &Load { url: &target.url, conns, rate: None, seconds })?;
        null.push(Row::read(peer, "", conns, said, None));
    }
    target.stop()?;
    let plots = vec![plot(&users, &stalling)?];
    let figures = Figures { stalling, null, missing };
    Ok(Computed::new(&figures, plots))
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
fn ran(lab: &mut Lab, peer: &Peer, load: &Load) -> Result<Result<Printed, String>, LabError> {
    let allowed = placement::allowed_cores();
    let core = allowed[allowed.len() - 1].to_string();
    let mut args = vec!["-c".to_owned(), core];
    args.extend(peer.words(load).split_whitespace().map(str::to_owned));
    let longest = Duration::from_secs_f64(load.seconds) + LONGER;
    let said = lab.program("taskset", &args, longest)?;
    let printed = (peer.read)(&said.stdout);
    Ok(if printed == Printed::default() {
        let why = said.stderr.lines().last().unwrap_or("it printed nothing").to_owned();
        Err(format!("no figures: {why}"))
    } else {
        Ok(printed)
    })
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
        peer: &Peer,
        rate: &str,
        conns: f64,
        said: Result<Printed, String>,
        ledger: Option<&Ledger>,
    ) -> Row {
        let both = if rate.is_empty() { String::new() } else { format!(", {rate}") };
        let (printed, problem) = match said {
            Ok(printed) => (printed, None),
            Err(problem) => (Printed::default(), Some(problem)),
        };
        let in_flight = in_flight(&printed);
        Row {
            program: peer.name.to_owned(),
            load: format!("{conns} connections{both}"),
            above_conns: in_flight.is_some_and(|count| conns * (1.0 + ROUNDING) < count),
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

    #[test]
    fn every_program_gets_url_connections_and_length_and_a_rate_if_it_keeps_one() {
        let load = |rate| Load { url: "http://a/", conns: 5.0, rate, seconds: 3.0 };
        let at_rate = PEERS.map(|peer| peer.words(&load(Some(500.0))));
        assert_eq!(
            at_rate,
            [
                "wrk -t1 -c5 -d3s --latency http://a/",
                "h2load --h1 -t1 -c5 -D3 --rps=100 http://a/",
                "hey -cpus 1 -c 5 -z 3s -q 100 http://a/",
                "ab -q -k -c 5 -t 3 -n 10000000 http://a/",
                "oha --no-tui -c 5 -z 3s -q 500 http://a/",
            ]
        );
        let at_most = PEERS.map(|peer| peer.words(&load(None)));
        assert_eq!(at_most[0], at_rate[0]);
        assert_eq!(at_most[1], "h2load --h1 -t1 -c5 -D3 http://a/");
    }

    #[test]
    fn a_mean_times_a_rate_above_the_connections_is_seen() {
        let row = |mean_ms| {
            let printed =
                Printed { per_s: Some(450.0), mean_ms: Some(mean_ms), ..Printed::default() };
            Row::read(&PEERS[0], "", 5.0, Ok(printed), None)
        };
        let (of_requests, of_more) = (row(11.1), row(18.8));
        assert_eq!((of_requests.in_flight, of_requests.above_conns), (Some(4.995), false));
        assert_eq!((of_more.in_flight, of_more.above_conns), (Some(8.46), true));
        let none = Row::read(&PEERS[0], "", 5.0, Ok(Printed::default()), None);
        assert_eq!((none.in_flight, none.above_conns), (None, false));
    }
}
