//! The summary of a run: verdict, requests, rates and latency table first, then what differs, what
//! the verdict's reasons mean, and details.

use engine::plan::{Arrivals, Model};
use engine::report::{Rates, Report};

use super::details::details;
use super::explain;
use super::figures::{count, megabytes, rate, things, time};
use super::layout::{LABEL, NO_BREAK, Text, sections, wrap};
use super::parts::{scenarios, stages};
use super::per_agent::per_agent;
use super::slo::{self, objectives};
use super::table::table;
use super::verdict::{meanings, notes, verdict};

/// From this share on, what was due in the window isn't told apart from all that happened in it: a
/// few requests of the warm-up are always answered after its end.
const NEARLY_ALL: f64 = 0.99;

/// The summary of a run; `written` names the files with the results.
pub(crate) fn summary(report: &Report, written: &[String]) -> String {
    sections([
        head(report),
        format!("{}\n{}", subject(report).join("\n"), per_second(report)),
        table("latency", &report.whole.naive, &report.whole.corrected),
        wrap(&explain::difference(report)),
        stages(&report.whole, &report.config.plan, report.config.window_s()),
        scenarios(&report.whole),
        report
            .slo
            .as_ref()
            .map_or_else(String::new, |slo| objectives(slo, report.config.window_s())),
        report.whole.successes.as_ref().map_or_else(String::new, |successes| {
            table("successes", &successes.naive, &successes.corrected)
        }),
        per_agent(report),
        meanings(&report.verdict),
        notes(&report.verdict),
        details(report, written),
    ])
}

/// The verdict, and the objectives that aren't met.
fn head(report: &Report) -> String {
    let of_verdict = verdict(&report.verdict);
    let (headline, reasons) = of_verdict.split_once('\n').unwrap_or((&of_verdict, ""));
    wrap(&slo::headline(headline, report.slo.as_ref())) + reasons
}

/// Rates of requests, and of bytes.
fn per_second(report: &Report) -> String {
    let of = &report.whole.rate;
    let mut rates = Vec::new();
    rates.extend(of.target.map(|target| format!("planned {}", rate(target))));
    rates.push(format!("intended {}", rate(of.intended)));
    rates.push(format!("sent {}", rate(of.sent)));
    rates.push(format!("answered {}", rate(of.answered)));
    rates.extend(due(of));
    let traffic = &report.traffic;
    if 0 < traffic.received_bytes {
        rates.push(format!("in {}", megabytes(traffic.received_bytes_per_s)));
        rates.push(format!("out {}", megabytes(traffic.sent_bytes_per_s)));
    }
    // A rate stays with its name.
    let rates: Vec<String> = rates.iter().map(|rate| rate.replace(' ', NO_BREAK)).collect();
    let mut text = Text::new();
    text.field(LABEL, "per second", rates.join("  "));
    text.done()
}

/// How much of what was sent and answered in the window was due in it, where that isn't nearly all:
/// the rest is what the warm-up had left over.
fn due(rates: &Rates) -> Option<String> {
    let Rates { sent, sent_due, answered, answered_due, .. } = *rates;
    let is_nearly_all = |due: f64, all: f64| NEARLY_ALL * all <= due;
    (!is_nearly_all(sent_due, sent) || !is_nearly_all(answered_due, answered)).then(|| {
        let (sent, answered) = (rate(sent_due), rate(answered_due));
        format!("(due in the window: sent {sent}, answered {answered})")
    })
}

/// What was run, and the counts of its requests.
pub(super) fn subject(report: &Report) -> [String; 2] {
    let config = &report.config;
    let plan = &config.plan;
    let counts = &report.whole.counts;
    let is_cut_short = report.interrupted && config.window_s() < plan.duration.as_secs_f64();
    let length = match (plan.requests, is_cut_short) {
        (None, false) => plan.duration.to_string(),
        (None, true) => {
            format!("interrupted after {:.1} s of {}", config.window_s(), plan.duration)
        }
        (Some(requests), false) => match counts.intended < requests {
            true => format!("{} of {} requests", plan.duration, count(requests)),
            false => {
                format!("{} in {}", things(requests, "request"), time(config.window_s() * 1e6))
            }
        },
        (Some(requests), true) => {
            let (intended, requests) = (count(counts.intended), count(requests));
            format!("interrupted after {intended} of {requests} requests")
        }
    };
    let load = match (plan.model(), plan.period) {
        (Model::Open, _) => {
            let arrivals = match plan.arrivals {
                Arrivals::Poisson => "Poisson",
                Arrivals::Constant => "constant",
            };
            format!("{arrivals} arrivals, seed {}", plan.seed)
        }
        (Model::Closed, None) => {
            let in_flight = match plan.pipeline {
                1 => String::new(),
                pipeline => format!(", {pipeline} requests in flight on each"),
            };
            format!("closed loop, {}{in_flight}", things(plan.conns() as u64, "connection"))
        }
        (Model::Closed, Some(period)) => {
            let conns = things(plan.conns() as u64, "connection");
            format!("closed loop, {conns}, one request every {period}")
        }
    };
    let socket = plan.unix.as_ref().map(|path| format!("  over {}", path.display()));
    let scenarios = match plan.scenario.len() {
        0 => String::new(),
        scenarios => format!("  {}", things(scenarios as u64, "scenario")),
    };
    let stages = match plan.stage.len() {
        0 => String::new(),
        stages => format!(", {}", things(stages as u64, "stage")),
    };
    let target = format!("{}{scenarios}{}", plan.target, socket.unwrap_or_default());
    [format!("{length}  {load}{stages}  {target}"), requests(report)]
}

/// How many requests there were, and what was bad about those that had no good answer: a response
/// in time, with a status that was expected.
fn requests(report: &Report) -> String {
    let counts = &report.whole.counts;
    let redirects = counts.redirects(&report.config.plan.expect_status);
    let others = counts.unexpected_status.saturating_sub(redirects);
    let kinds = [
        (redirects, format!("3xx: {}, not followed", count(redirects))),
        (others, format!("{} with an unexpected status", count(others))),
        (counts.ended_in_error(), things(counts.ended_in_error(), "error")),
        (counts.unsent, format!("{} unsent", count(counts.unsent))),
    ];
    let some = kinds.into_iter().filter(|(number, _)| 0 < *number);
    let some: Vec<String> = some.map(|(_, kind)| kind).collect();
    let bad = counts.bad();
    let good = counts.intended.saturating_sub(bad);
    let why = if some.is_empty() { String::new() } else { format!(" ({})", some.join("; ")) };
    format!("{}: {} good, {} bad{why}", things(counts.intended, "request"), count(good), count(bad))
}

#[cfg(test)]
mod tests {
    use engine::record::outcome::Cause;
    use engine::report::Successes;
    use engine::report::slo::{JudgedObjective, Judgement, Slo};

    use super::super::reports::{part, report, times};
    use super::*;

    #[test]
    fn an_open_run_is_read_from_the_top() {
        let report = report(true, part(1_020, 182_000, 3, 181_000));
        insta::assert_snapshot!(summary(&report, &["report.json".to_owned()]), @r"
        valid

        30s  Poisson arrivals, seed 1  http://127.0.0.1:8080/
        10,000 requests: 10,000 good, 0 bad
        per second       planned 5,000  intended 333.3  sent 333.3  answered 333.2

        latency       naive    corrected
        p50         1.02 ms       182 ms  [182 ms, 182 ms]
        p75         1.02 ms       182 ms  [182 ms, 182 ms]
        p90         1.02 ms       182 ms  [182 ms, 182 ms]
        p95         1.02 ms       182 ms  [182 ms, 182 ms]
        p99         1.02 ms       182 ms  [182 ms, 182 ms]
        p99.9       1.02 ms       182 ms  [182 ms, 182 ms]
        max         1.02 ms       182 ms
        mean        1.02 ms       182 ms
        [ ] 95 % interval of corrected, from ranks: requests don't depend on each other

        At p50 users waited 182 ms, 178 times the naive 1.02 ms. Naive latency omits the
        wait before sending (coordinated omission): its clock starts when a request is
        sent, not when it was due. They waited for a connection (connection wait 181 ms
        in the mean; 0 arrivals found none free): the target's backlog, not the
        generator (pacer lateness 3.00 µs).

        pacer lateness   p50 3.00 µs, p99 3.00 µs
        connection wait  p50 181 ms, p99 181 ms
        receive lateness p50 40.0 µs, p99 40.0 µs
        stamps           9,993 by the kernel, 7 by the program
        client share     the generator added 3.00 µs of the 182 ms at p50 (0.0 %),
                         3.00 µs of the 182 ms at p90 (0.0 %), 3.00 µs of the 182 ms at
                         p99 (0.0 %), 3.00 µs of the 182 ms at p99.9 (0.0 %); without
                         kernel stamps they would have read 182 ms, 182 ms, 182 ms,
                         182 ms
        intended         10,000 sent + 0 unsent
        sent             10,000 answered + 0 timed out + 0 failed + 0 abandoned
        status           200: 9,990, 503: 10
        errors           none
        connections      40 opened, 0 of them in the window
        generator        busiest core 1 at 12.3 %, longest gap 85.0 µs
        calibration      none that fits is saved (core 1, --wait hybrid, this kernel and
                         processor); `truetail calibrate` makes one
        schedule         arrivals were Poisson(5000/s) as planned: figures
        Little's law     mean in flight 0.412, throughput × latency 0.413: off by 0.2 %;
                         0.400 at the target
        stationarity     window too short to tell
        written          report.json
        ");
    }

    #[test]
    fn a_closed_run_asks_for_a_rate() {
        let mut part = part(250, 250, 0, 0);
        part.rate.target = None;
        insta::assert_snapshot!(summary(&report(false, part), &[]), @r"
        valid

        30s  closed loop, 64 connections  http://127.0.0.1:8080/
        10,000 requests: 10,000 good, 0 bad
        per second       intended 333.3  sent 333.3  answered 333.2

        latency       naive    corrected
        p50          250 µs       250 µs  [250 µs, 250 µs]
        p75          250 µs       250 µs  [250 µs, 250 µs]
        p90          250 µs       250 µs  [250 µs, 250 µs]
        p95          250 µs       250 µs  [250 µs, 250 µs]
        p99          250 µs       250 µs  [250 µs, 250 µs]
        p99.9        250 µs       250 µs  [250 µs, 250 µs]
        max          250 µs       250 µs
        mean         250 µs       250 µs
        [ ] 95 % interval of corrected, from ranks: requests don't depend on each other

        In a closed loop they are the same by construction, but for waits for a
        connection: a user sends the next request only after a response, so both leave
        out the requests that users would have sent during a stall (coordinated
        omission). Use --rate to measure what independent users wait.

        pacer lateness   p50 0 ns, p99 0 ns
        connection wait  p50 0 ns, p99 0 ns
        receive lateness p50 40.0 µs, p99 40.0 µs
        stamps           9,993 by the kernel, 7 by the program
        client share     the generator added 0 ns of the 250 µs at p50 (0.0 %), 0 ns of
                         the 250 µs at p90 (0.0 %), 0 ns of the 250 µs at p99 (0.0 %),
                         0 ns of the 250 µs at p99.9 (0.0 %); without kernel stamps they
                         would have read 290 µs, 290 µs, 290 µs, 290 µs
        intended         10,000 sent + 0 unsent
        sent             10,000 answered + 0 timed out + 0 failed + 0 abandoned
        status           200: 9,990, 503: 10
        errors           none
        connections      40 opened, 0 of them in the window
        generator        busiest core 1 at 12.3 %, longest gap 85.0 µs, users waited for
                         it 2.2 % of their time
        calibration      none that fits is saved (core 1, --wait hybrid, this kernel and
                         processor); `truetail calibrate` makes one
        Little's law     mean in flight 0.412, throughput × latency 0.413: off by 0.2 %;
                         0.400 at the target
        stationarity     window too short to tell
        ");
    }

    #[test]
    fn an_interrupted_run_says_so_first_and_how_far_it_came() {
        let mut report = report(true, part(250, 250, 1, 2));
        report.interrupted = true;
        report.config.schedule_until = 8.2;
        let counts = &mut report.whole.counts;
        (counts.failed, counts.timed_out, counts.abandoned) = (1, 7, 3);
        counts.errors = [(Cause::Reset, 1), (Cause::TimedOut, 7)].into();
        let text = summary(&report, &[]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].starts_with("interrupted after 3.2 s of 30s"), "{text}");
        assert!(lines[3].ends_with("(11 errors)"), "{text}");
        assert!(text.contains("errors           timed_out: 7, abandoned: 3, reset: 1"), "{text}");
    }

    #[test]
    fn an_objective_that_is_not_met_stands_in_the_headline_of_text_and_page() {
        let mut report = report(true, part(250, 260, 1, 2));
        let judged = |metric: &str, judgement| JudgedObjective {
            metric: metric.to_owned(),
            unit: "us".to_owned(),
            bound: 20_000.0,
            figure: None,
            interval: [None; 2],
            needed: None,
            needed_s: None,
            may_lie_above: false,
            beyond: None,
            beyond_interval: None,
            judgement,
        };
        for (judgement, headline) in [
            (Judgement::Met, "valid"),
            (Judgement::Undecided, "valid; objectives undecided: p99 < 20.0 ms"),
            (Judgement::Missed, "valid; objectives MISSED: p99 < 20.0 ms"),
        ] {
            let objectives = vec![judged("p50", Judgement::Met), judged("p99", judgement)];
            report.slo = Some(Slo::new(objectives));
            assert_eq!(summary(&report, &[]).lines().next(), Some(headline));
            assert_eq!(super::super::page::headline(&report), headline);
        }
    }

    #[test]
    fn rates_come_with_bytes() {
        let mut report = report(true, part(250, 260, 1, 2));
        report.traffic.received_bytes = 48_600_000;
        report.traffic.received_bytes_per_s = 1_620_000.0;
        report.traffic.sent_bytes_per_s = 250_000_000.0;
        let text = summary(&report, &[]).replace("\n                 ", "  ");
        assert!(text.contains("  answered 333.2  in 1.62 MB/s  out 250 MB/s\n"), "{text}");
    }

    #[test]
    fn unexpected_statuses_stand_in_the_header() {
        let mut part = part(250, 260, 1, 2);
        part.counts.unexpected_status = 9_990;
        let text = summary(&report(true, part), &[]);
        let header = text.lines().nth(3).expect("a header");
        assert_eq!(header, "10,000 requests: 10 good, 9,990 bad (9,990 with an unexpected status)");
    }

    #[test]
    fn redirects_stand_apart_unless_they_are_expected() {
        let mut part = part(250, 260, 1, 2);
        part.counts.status = [(200, 9_000), (302, 400), (308, 100), (304, 490), (404, 10)].into();
        part.counts.unexpected_status = 1_000;
        let mut report = report(true, part);
        let header = |report: &Report| summary(report, &[]).lines().nth(3).map(str::to_owned);
        assert_eq!(
            header(&report).expect("a header"),
            "10,000 requests: 9,000 good, 1,000 bad (3xx: 500, not followed; 500 with an \
             unexpected status)"
        );
        report.config.plan.expect_status = "2xx,302".parse().expect("a set");
        report.whole.counts.unexpected_status = 600;
        assert!(header(&report).is_some_and(|line| line.contains("(3xx: 100, not followed; 500 ")));
    }

    #[test]
    fn successes_have_a_table_where_they_differ() {
        let mut part = part(250, 260, 1, 2);
        let (naive, corrected) = (times(240, 9_990), times(245, 9_990));
        part.successes = Some(Successes { naive, corrected });
        let text = summary(&report(true, part), &[]);
        let after = text.split("successes").nth(1).expect("a second table");
        assert!(after.contains("p99          240 µs       245 µs"), "{text}");
        assert!(
            !summary(&report(true, super::super::reports::part(1, 1, 1, 1)), &[])
                .contains("successes")
        );
    }

    #[test]
    fn an_empty_window_has_no_latencies() {
        let mut part = part(1, 1, 1, 1);
        let empty = engine::stats::distribution::Distribution::new();
        part.naive = engine::report::DistributionPart::alone(&empty, Some(false));
        part.corrected = part.naive.clone();
        let text = summary(&report(true, part), &[]);
        assert!(text.contains("n/a") && text.contains("nothing to compare"), "{text}");
    }
}
