//! The summary of a run: a screen, the verdict first, and on demand the details below.

use std::collections::BTreeMap;

use engine::plan::data::End;
use engine::plan::{Arrivals, Model, Plan};
use engine::record::counts::leads_elsewhere;
use engine::report::{CheckPart, Report};

use super::details::{self, generator};
use super::extent::Extent;
use super::figures::{count, listed, megabytes, rate, things, time};
use super::layout::{SCREEN, Text, fitting, sections, wrap};
use super::parts::{holders, scenarios, sessions, stages};
use super::table::table;
use super::{explain, per_agent, slo, verdict};

/// The most causes of bad requests shown.
const CAUSES_MAX: usize = 4;

/// The most scenarios, and the most stages, without details.
const ROWS_MAX: usize = 12;

/// The summary of a run; `written` names the files with the results.
pub(crate) fn summary(report: &Report, written: &[String], extent: Extent) -> String {
    let difference = explain::briefly(report);
    let rows_max = match extent {
        Extent::Screen => Some(ROWS_MAX),
        Extent::Details => None,
    };
    // In a closed loop naive repeats corrected, unless requests waited for connections.
    let is_unpaced = report.config.plan.model() == Model::Closed
        && report.config.plan.period.is_none()
        && difference.is_none();
    let naive = (!is_unpaced).then_some(&report.whole.naive);
    sections([
        head(report),
        subject(report).map(|text| wrap(&text)).concat() + &per_second(report),
        table("latency", naive, &report.whole.corrected),
        difference.map_or_else(String::new, |text| wrap(&text)),
        stages(&report.whole, &report.config.plan, report.config.window_s(), rows_max),
        scenarios(&report.whole, rows_max) + &holders(report),
        sessions(report),
        per_agent::table(report),
        end(report, written),
        extent.details(|| details::all(report)),
    ])
}

/// The verdict with its reasons, and the objectives.
fn head(report: &Report) -> String {
    let slo = report.slo.as_ref();
    let of = &report.verdict;
    let [whole, alone] = [verdict::headline(of), verdict::headline_alone(of)];
    let open = slo.map(|slo| slo.judgement).map(slo::judgement);
    let open = open.map_or(String::new(), |open| format!("; objectives {open}"));
    let headline = fitting(&[
        slo::headline(&whole, slo),
        slo::headline(&alone, slo),
        format!("{alone}{open}"),
    ]);
    let objectives = slo.map(|slo| slo::briefly(slo, report.config.window_s()));
    verdict::brief(of, &headline) + &objectives.unwrap_or_default()
}

/// Rates of requests, and of bytes where there is room for them.
fn per_second(report: &Report) -> String {
    let of = &report.whole.rate;
    let unit = if report.whole.scenarios.is_empty() { "" } else { " sessions" };
    let asked = of.target.map_or(String::new(), |it| format!("asked {}{unit}  ", rate(it)));
    let (sent, answered) = (rate(of.sent), rate(of.answered));
    let requests = format!("{:<SCREEN$}{asked}sent {sent}  answered {answered}", "per second");
    let traffic = &report.traffic;
    if traffic.received_bytes == 0 {
        return requests + "\n";
    }
    let [received, sent] = [traffic.received_bytes_per_s, traffic.sent_bytes_per_s].map(megabytes);
    fitting(&[format!("{requests}  in {received}  out {sent}"), requests]) + "\n"
}

/// The outcome, the generator's busy time, and the files.
fn end(report: &Report, written: &[String]) -> String {
    let counts = &report.whole.counts;
    let mut text = Text::new();
    text.field(SCREEN, "status", listed(&counts.status));
    let (all, within) = (count(counts.connects), count(counts.connects_in_window));
    let tls = report.whole.tls.as_ref().map_or_else(String::new, |tls| {
        let any = if tls.insecure { " with any certificate (--insecure)" } else { "" };
        format!("; {}{any}", tls.version)
    });
    text.field(SCREEN, "connections", format!("{all} opened, {within} of them in the window{tls}"));
    if let Some(generator) = generator(report) {
        text.field(SCREEN, "generator", generator);
    }
    if !written.is_empty() {
        text.field(SCREEN, "written", written.join(", "));
    }
    text.done()
}

/// The run, and the counts of its requests.
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
                let stops = plan.data.iter().find(|(_, data)| data.end == End::Stop);
                let rows = stops.map(|(name, _)| format!(", each with its own row of {name}"));
                let (sent, took) = (things(requests, "request"), time(config.window_s() * 1e6));
                format!("{sent} in {took}{}", rows.unwrap_or_default())
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
                Arrivals::Poisson => "Poisson arrivals".to_owned(),
                Arrivals::Constant => "constant arrivals".to_owned(),
                Arrivals::Log => {
                    let unreadable = report.replay.as_ref().map_or(0, |log| log.unreadable);
                    let left_out = match unreadable {
                        0 => String::new(),
                        lines => format!(", {} unreadable", things(lines, "line")),
                    };
                    format!("arrivals of a log at {}{left_out}", plan.speed())
                }
            };
            let to_one = report.replay.as_ref().map(|log| details::all_to_one(log, plan));
            format!("{arrivals}, seed {}{}", plan.seed, to_one.unwrap_or_default())
        }
        (Model::Closed, None) => {
            let in_flight = match plan.pipeline {
                1 => String::new(),
                pipeline => format!(", {pipeline} requests in flight on each"),
            };
            format!("closed loop, {}{in_flight}", users(plan))
        }
        (Model::Closed, Some(period)) => {
            format!("closed loop, {}, one request every {period}", users(plan))
        }
    };
    let socket = plan.unix.as_ref().map(|path| format!("  over {}", path.display()));
    let scenarios = match plan.scenario.len() {
        0 => String::new(),
        scenarios => format!("  {}", things(scenarios as u64, "route")),
    };
    let stages = match plan.stage.len() {
        0 => String::new(),
        stages => format!(", {}", things(stages as u64, "stage")),
    };
    let http = report.whole.http2.as_ref().map_or_else(String::new, |http2| {
        let depth = plan.depth() as u64;
        // It may have been lowered during the run.
        let limit = http2.limit.map(u64::from).filter(|limit| *limit <= depth);
        let streams = things(limit.unwrap_or(depth), "stream");
        let whose = if limit.is_some() { ", the target's limit" } else { "" };
        format!(", HTTP/2 with {streams} on each{whose}")
    });
    let target = format!("{}{scenarios}{}", plan.target, socket.unwrap_or_default());
    [format!("{length}  {load}{http}{stages}  {target}"), requests(report)]
}

/// The users of a closed loop, as connections, or the most of those who come and go.
fn users(plan: &Plan) -> String {
    let conns = plan.conns() as u64;
    match plan.stages_of_users() {
        None => things(conns, "connection"),
        Some(_) => format!("up to {}", things(conns, "user")),
    }
}

/// The number of requests, and the causes of bad ones: those without a timely response that has an
/// expected status and passes all checks.
fn requests(report: &Report) -> String {
    let counts = &report.whole.counts;
    let bad = counts.bad();
    let good = counts.intended.saturating_sub(bad);
    let why = match causes(report).as_slice() {
        [] => String::new(),
        causes => format!(" ({})", causes.join(", ")),
    };
    format!("{}: {} good, {} bad{why}", things(counts.intended, "request"), count(good), count(bad))
}

/// The causes of bad requests, the most frequent first: `503: 10`, `timed out: 7`.
fn causes(report: &Report) -> Vec<String> {
    let counts = &report.whole.counts;
    let expected = &report.config.plan.expect_status;
    let redirects = counts.redirects(expected);
    let unexpected = counts.status.iter().filter(|(status, _)| !expected.holds(*status));
    let mut statuses: Vec<(String, u64)> = unexpected
        .filter(|(status, _)| !leads_elsewhere(*status))
        .map(|(status, number)| (status.to_string(), number))
        .chain([("3xx not followed".to_owned(), redirects)])
        .collect();
    // A scenario may expect others than the plan.
    let all: u64 = statuses.iter().map(|(_, number)| number).sum();
    if all != counts.unexpected_status {
        statuses = vec![("unexpected status".to_owned(), counts.unexpected_status)];
    }
    // Several scenarios may have the same check.
    let mut checks: BTreeMap<&str, u64> = BTreeMap::new();
    for CheckPart { check, failed, .. } in &report.whole.checks {
        *checks.entry(check).or_default() += failed;
    }
    let checks = checks.into_iter().map(|(name, failed)| (format!("check failed: {name}"), failed));
    let errors = counts.errors.by_name().into_iter();
    let errors = errors.map(|(cause, number)| (cause.replace('_', " "), number));
    let others = [("abandoned", counts.abandoned), ("never sent", counts.unsent)];
    let others = others.map(|(name, number)| (name.to_owned(), number));
    let mut causes: Vec<(String, u64)> =
        statuses.into_iter().chain(checks).chain(errors).chain(others).collect();
    causes.retain(|(_, number)| 0 < *number);
    // A stable sort keeps the order of equal counts.
    causes.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let rest: u64 = causes.iter().skip(CAUSES_MAX).map(|(_, number)| number).sum();
    causes.truncate(CAUSES_MAX);
    causes.extend((0 < rest).then(|| ("others".to_owned(), rest)));
    causes.iter().map(|(name, number)| format!("{name}: {}", count(*number))).collect()
}

#[cfg(test)]
mod tests {
    use engine::record::outcome::Cause;
    use engine::report::Successes;
    use engine::report::slo::{JudgedObjective, Judgement, Slo};
    use engine::report::verdict::{Code, Level, Reason, Verdict};

    use super::super::reports::{part, report, times};
    use super::*;

    fn screen(report: &Report) -> String {
        summary(report, &["report.json".to_owned()], Extent::Screen)
    }

    /// The line that counts the requests, with its continuation.
    fn requests_of(report: &Report) -> String {
        let text = screen(report);
        let lines = text.lines().skip_while(|line| !line.contains(" good, "));
        let lines = lines.take_while(|line| !line.starts_with("per second"));
        lines.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_open_run_is_read_from_the_top() {
        let report = report(true, part(1_020, 182_000, 3, 181_000));
        insta::assert_snapshot!(screen(&report), @r"
        valid

        30s  Poisson arrivals, seed 1  http://127.0.0.1:8080/
        10,000 requests: 10,000 good, 0 bad
        per second   asked 5,000  sent 333.3  answered 333.2

        latency, ms     naive   corrected   95 % interval
        p50              1.02         182   [182, 182]
        p75              1.02         182   [182, 182]
        p90              1.02         182   [182, 182]
        p95              1.02         182   [182, 182]
        p99              1.02         182   [182, 182]
        p99.9            1.02         182   [182, 182]
        max              1.02         182
        mean             1.02         182

        Users waited 182 ms at p50, not the naive 1.02 ms, which omits the wait for a
        connection: the target's backlog, not the generator.

        status       200: 9,990, 503: 10
        connections  40 opened, 0 of them in the window
        generator    core 1 busy 12.3 %; added 3.00 µs to p50 and 3.00 µs to p99
        written      report.json
        ");
    }

    #[test]
    fn a_closed_run_shows_one_latency() {
        let mut part = part(250, 250, 0, 0);
        part.rate.target = None;
        insta::assert_snapshot!(summary(&report(false, part), &[], Extent::Screen), @r"
        valid

        30s  closed loop, 64 connections  http://127.0.0.1:8080/
        10,000 requests: 10,000 good, 0 bad
        per second   sent 333.3  answered 333.2

        latency          µs   95 % interval
        p50             250   [250, 250]
        p75             250   [250, 250]
        p90             250   [250, 250]
        p95             250   [250, 250]
        p99             250   [250, 250]
        p99.9           250   [250, 250]
        max             250
        mean            250

        status       200: 9,990, 503: 10
        connections  40 opened, 0 of them in the window
        generator    core 1 busy 12.3 %; users waited for it 2.2 % of their time
        ");
    }

    #[test]
    fn details_are_below_the_first_screen() {
        let report = report(true, part(1_020, 182_000, 3, 181_000));
        let text = summary(&report, &["report.json".to_owned()], Extent::Details);
        let details = text.strip_prefix(&screen(&report)).expect("the screen comes first");
        insta::assert_snapshot!(details, @r"
        details

        At p50 users waited 182 ms, 178 times the naive 1.02 ms. Naive latency omits the
        wait before sending (coordinated omission): its clock starts when a request is
        sent, not when it was due. They waited for a connection (connection wait 181 ms
        in the mean; 0 arrivals found none free): the target's backlog, not the
        generator (pacer lateness 3.00 µs).

        [ ] 95 % interval of corrected, from ranks: requests don't depend on each other

        due per second   333.3, of which 333.3 sent, 333.2 answered
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
        ");
    }

    fn objective(metric: &str, judgement: Judgement) -> JudgedObjective {
        JudgedObjective {
            of: None,
            metric: metric.to_owned(),
            unit: "us".to_owned(),
            bound: 20_000.0,
            figure: Some(12_300.0),
            interval: [Some(11_900.0), Some(13_000.0)],
            needed: None,
            needed_s: None,
            may_lie_above: false,
            beyond: None,
            beyond_interval: None,
            judgement,
        }
    }

    fn reason(code: Code, level: Level) -> Reason {
        let rule = code.rule();
        Reason {
            code,
            agent: None,
            level,
            touches: rule.touches.to_vec(),
            evidence:
                "1,234 of 10,000 requests (12.34 %) were not as they should be; the limit is \
                       1.00 %; and a statistic that only its author reads is 0.319"
                    .to_owned(),
            figure: 0.1234,
            threshold: 0.01,
            unit: rule.unit,
            meaning: rule.meaning.to_owned(),
            cure: rule.cure.to_owned(),
        }
    }

    #[test]
    fn a_run_fits_on_a_screen() {
        let mut valid = report(true, part(1_020, 182_000, 3, 181_000));
        valid.traffic.received_bytes = 48_600_000;
        valid.traffic.received_bytes_per_s = 1_620_000.0;
        valid.traffic.sent_bytes_per_s = 250_000.0;
        let fits = |text: &str, most: usize| {
            assert!(text.lines().count() <= most, "{} lines: {text}", text.lines().count());
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        };
        fits(&screen(&valid), 23);
        // A line for each objective, and one for what those that are met assume.
        valid.slo = Some(Slo::new(vec![objective("p99", Judgement::Met)]));
        fits(&screen(&valid), 25);
        let codes = engine::report::RULES.iter().map(|rule| rule.code);
        let all: Vec<Reason> = codes.map(|code| reason(code, Level::Invalid)).collect();
        for reasons in all.chunks(1).chain(all.chunks(3)).chain([&all[..]]) {
            let level = Level::Invalid;
            let reasons = reasons.to_vec();
            valid.verdict =
                Verdict { level, reasons, notes: vec![reason(Code::CpuContended, level)] };
            fits(&screen(&valid), 34);
        }
    }

    #[test]
    fn an_interruption_comes_first_with_how_far_the_run_came() {
        let mut report = report(true, part(250, 250, 1, 2));
        report.interrupted = true;
        report.config.schedule_until = 8.2;
        let counts = &mut report.whole.counts;
        (counts.failed, counts.timed_out, counts.abandoned) = (1, 7, 3);
        counts.errors = [(Cause::Reset, 1), (Cause::TimedOut, 7)].into();
        let text = screen(&report);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].starts_with("interrupted after 3.2 s of 30s"), "{text}");
        assert!(lines[3].ends_with("(timed out: 7, abandoned: 3, reset: 1)"), "{text}");
    }

    #[test]
    fn an_objective_that_is_not_met_is_in_the_headline_of_text_and_page() {
        let mut report = report(true, part(250, 260, 1, 2));
        for (judgement, headline) in [
            (Judgement::Met, "valid; objectives met"),
            (Judgement::Undecided, "valid; objectives undecided: p99 < 20.0 ms"),
            (Judgement::Missed, "valid; objectives MISSED: p99 < 20.0 ms"),
        ] {
            let objectives = vec![objective("p50", Judgement::Met), objective("p99", judgement)];
            report.slo = Some(Slo::new(objectives));
            assert_eq!(screen(&report).lines().next(), Some(headline));
            assert_eq!(super::super::page::headline(&report), headline);
        }
        let many = ["p50", "p75", "p90", "p95", "p99"].map(|of| objective(of, Judgement::Missed));
        report.slo = Some(Slo::new(many.to_vec()));
        assert_eq!(screen(&report).lines().next(), Some("valid; objectives MISSED"));
    }

    #[test]
    fn the_screen_states_once_what_met_assumes() {
        let mut report = report(true, part(250, 260, 1, 2));
        let assumed =
            "\n  met if the window is typical: events rarer than every 10.0 s may be missing\n";
        let max = JudgedObjective { metric: "max".to_owned(), ..objective("p99", Judgement::Met) };
        for (objectives, times) in [
            (vec![objective("p50", Judgement::Met), objective("p99", Judgement::Met)], 1),
            (vec![objective("p50", Judgement::Missed), objective("p99", Judgement::Met)], 1),
            (vec![objective("p99", Judgement::Missed)], 0),
            (vec![objective("p99", Judgement::Undecided)], 0),
            // The run's own figure assumes nothing.
            (vec![max], 0),
        ] {
            report.slo = Some(Slo::new(objectives));
            let text = screen(&report);
            assert_eq!(text.matches(assumed).count(), times, "{text}");
            assert_eq!(text.matches("typical").count(), times, "{text}");
        }
    }

    #[test]
    fn rates_come_with_bytes() {
        let mut report = report(true, part(250, 260, 1, 2));
        report.traffic.received_bytes = 48_600_000;
        report.traffic.received_bytes_per_s = 1_620_000.0;
        report.traffic.sent_bytes_per_s = 250_000_000.0;
        let text = screen(&report);
        assert!(text.contains("  answered 333.2  in 1.62 MB  out 250 MB\n"), "{text}");
    }

    #[test]
    fn bad_requests_come_with_their_causes() {
        let mut part = part(250, 260, 1, 2);
        part.counts.unexpected_status = 10;
        let mut report = report(true, part);
        let line = "10,000 requests: 9,990 good, 10 bad (503: 10)";
        assert_eq!(requests_of(&report), line);
        // Some scenario expects others than the plan.
        report.whole.counts.unexpected_status = 9_990;
        let line = "10,000 requests: 10 good, 9,990 bad (unexpected status: 9,990)";
        assert_eq!(requests_of(&report), line);
        let counts = &mut report.whole.counts;
        counts.unexpected_status = 10;
        (counts.failed, counts.timed_out, counts.abandoned, counts.unsent) = (40, 7, 3, 60);
        counts.answered = 9_890;
        counts.errors = [(Cause::Reset, 30), (Cause::CutShort, 10), (Cause::TimedOut, 7)].into();
        assert_eq!(
            requests_of(&report),
            "10,000 requests: 9,880 good, 120 bad (never sent: 60, reset: 30, 503: 10, cut short: \
             10, others: 10)"
        );
    }

    #[test]
    fn redirects_are_counted_apart_unless_expected() {
        let mut part = part(250, 260, 1, 2);
        part.counts.status = [(200, 8_990), (302, 400), (308, 100), (304, 10), (404, 500)].into();
        part.counts.unexpected_status = 1_000;
        let mut report = report(true, part);
        let bad =
            |report: &Report| requests_of(report).split_once('(').map(|(_, bad)| bad.to_owned());
        assert_eq!(bad(&report).as_deref(), Some("404: 500, 3xx not followed: 500)"));
        report.config.plan.expect_status = "2xx,302".parse().expect("a set");
        report.whole.counts.unexpected_status = 610;
        assert_eq!(bad(&report).as_deref(), Some("404: 500, 3xx not followed: 100, 304: 10)"));
    }

    #[test]
    fn successes_have_a_table_where_they_differ() {
        let mut some = part(250, 260, 1, 2);
        let (naive, corrected) = (times(240, 9_990), times(245, 9_990));
        some.successes = Some(Successes { naive, corrected });
        let details = |part| summary(&report(true, part), &[], Extent::Details);
        let text = details(some);
        let after = text.split("successes").nth(1).expect("a second table");
        assert!(after.contains("\np99               240         245"), "{text}");
        assert!(!details(part(1, 1, 1, 1)).contains("successes"));
    }

    #[test]
    fn an_empty_window_has_no_latencies() {
        let mut part = part(1, 1, 1, 1);
        let empty = engine::stats::distribution::Distribution::new();
        part.naive = engine::report::DistributionPart::alone(&empty, Some(false));
        part.corrected = part.naive.clone();
        let text = summary(&report(true, part), &[], Extent::Details);
        assert!(text.contains("n/a") && text.contains("nothing to compare"), "{text}");
    }
}
