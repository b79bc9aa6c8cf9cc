//! The agents of a run, a line each: its load and results, how late it began, and whether its own
//! numbers can be trusted. The details have the rest.

use std::fmt::Write as _;

use engine::report::{AgentPart, Report};

use super::figures::{count, percent, rate, things, time};
use super::layout::{Column, Text, widest};
use super::scale::Scale;
use super::verdict::word;

/// A longer name has a line of its own.
const NAME_MAX: usize = 18;
/// The most agents that are named with a shared finding.
const NAMED_MAX: usize = 3;

/// The most agents that the first screen shows.
const SHOWN_MAX: usize = 12;

/// The table of the agents; empty for a run without agents.
pub(crate) fn table(report: &Report) -> String {
    if !has_agents(report) {
        return String::new();
    }
    let agents = &report.per_agent;
    let names = agents.iter().map(|agent| &*agent.name);
    let names = names.filter(|name| name.chars().count() <= NAME_MAX).chain(["agent"]);
    let times = |agent: &AgentPart| [0.5, 0.99].map(|q| agent.part.corrected.quantile_us(q));
    let scale = Scale::of(agents.iter().flat_map(times).flatten());
    let columns = [7, 8, 9, 9, 7, 7, 8].map(Column::Right);
    let columns: Vec<Column> = [Column::Left(widest(names))].into_iter().chain(columns).collect();
    let mut text = Text::new();
    let [p50, p99] = ["p50", "p99"].map(|name| format!("{name} {}", scale.unit));
    text.row(
        &columns,
        &["agent", "share", "sent/s", &p50, &p99, "errors", "busy", "skew", " verdict"],
    );
    for agent in agents.iter().take(SHOWN_MAX) {
        line(&mut text, &columns, &agent.name, &figures(agent, scale));
    }
    if let Some(more @ 1..) = agents.len().checked_sub(SHOWN_MAX) {
        text.line(format!("and {more} more: see `per_agent` in the report"));
    }
    for lost in &report.agent_lost {
        let answered = lost.reported.as_ref().map_or(0, |reported| reported.answered);
        let what = match answered {
            0 => " with all its measurements".to_owned(),
            answered => format!("; not counted: {}", things(answered, "response")),
        };
        let what = format!(" lost after {:.1} s{what}", lost.at_s);
        line(&mut text, &columns[..2], &lost.name, &[percent(lost.load), what]);
    }
    let own = report.environment.tool_version.as_str();
    let versions = agents.iter().map(|agent| (&*agent.environment.tool_version, &*agent.name));
    for (version, names) in shared(versions.filter(|(version, _)| *version != own)) {
        let whose = whose(&names, agents.len());
        text.item(0, format!("truetail {version} on {whose}, {own} on the controller"));
    }
    text.done()
}

fn has_agents(report: &Report) -> bool {
    report.is_joint() || report.per_agent.iter().any(|agent| agent.synchronization.is_some())
}

/// The details: the agents' clocks, and problems of their machines.
pub(crate) fn more(report: &Report) -> String {
    if !has_agents(report) {
        return String::new();
    }
    let agents = &report.per_agent;
    let mut text = Text::new();
    text.wrapped(clocks(agents));
    for (finding, names) in findings(agents) {
        let whose = whose(&names, agents.len());
        text.item(0, format!("Found on {whose}: {finding}."));
    }
    if report.is_joint() {
        text.line("The merged histogram of corrected latency has the digest");
        text.line(format!("{}.", report.corrected_digest));
    }
    text.done()
}

/// An agent's line, with its name in front or above.
fn line(text: &mut Text, columns: &[Column], name: &str, cells: &[String]) {
    let is_short = matches!(columns[0], Column::Left(width) if name.chars().count() <= width);
    if !is_short {
        text.line(name);
    }
    let name = if is_short { name } else { "" };
    let cells: Vec<&str> = [name].into_iter().chain(cells.iter().map(String::as_str)).collect();
    text.row(columns, &cells);
}

fn figures(agent: &AgentPart, scale: Scale) -> [String; 8] {
    let AgentPart { part, config, generator, .. } = agent;
    let corrected = &part.corrected;
    let shown = |q| scale.percentile(corrected, corrected.quantile_us(q));
    let busy = generator.shards.iter().map(|shard| shard.busy).fold(0.0, f64::max);
    [
        percent(config.share.fraction()),
        rate(part.rate.sent),
        shown(0.5),
        shown(0.99),
        count(part.counts.ended_in_error()),
        percent(busy),
        agent.start_skew_us.map_or("n/a".to_owned(), time),
        format!(" {}", word(agent.verdict.level)),
    ]
}

/// The meaning of the skew, and how far apart the clocks may have been.
fn clocks(agents: &[AgentPart]) -> String {
    let mut text =
        "Skew: from when an agent's first request was due to when it was sent.".to_owned();
    let known = || agents.iter().filter_map(|agent| agent.synchronization);
    let apart = |errors_ns: Vec<u64>| time(apart_ns(errors_ns) as f64 / 1e3);
    let starts: Vec<u64> = known().map(|clock| clock.offset_error_ns).collect();
    if starts.is_empty() {
        return text;
    }
    let whose = if starts.len() == 1 { "Its clock and the controller's" } else { "Their clocks" };
    let _ = write!(text, " {whose} agreed to within {} at the start", apart(starts));
    let ends: Vec<u64> = known().filter_map(|clock| clock.end_error_ns).collect();
    if !ends.is_empty() {
        let _ = write!(text, " and {} at the end", apart(ends));
    }
    let drifts = agents.iter().filter_map(|agent| {
        let clock = agent.synchronization?;
        let (ppm, error_ppm) = (clock.drift_ppm?, clock.drift_error_ppm?);
        // A drift below its error is unknown.
        (error_ppm < ppm.abs()).then_some((&agent.name, ppm, error_ppm))
    });
    if let Some((name, ppm, error_ppm)) = drifts.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())) {
        let _ = write!(text, "; that of {name} drifted by {ppm:.1} ± {error_ppm:.1} ppm");
    }
    text.push('.');
    text
}

/// How far apart any two of these clocks may have been, given how far each may be off the
/// controller's; for a single one, that distance itself.
fn apart_ns(mut errors_ns: Vec<u64>) -> u64 {
    errors_ns.sort_unstable_by(|one, other| other.cmp(one));
    errors_ns.into_iter().take(2).fold(0, u64::saturating_add)
}

/// The problems that `doctor` finds, with their agents.
fn findings(agents: &[AgentPart]) -> Vec<(&str, Vec<&str>)> {
    shared(agents.iter().flat_map(|agent| {
        agent.findings.iter().map(|finding| (finding.as_str(), agent.name.as_str()))
    }))
}

/// What agents have, each with the names of those that have it.
fn shared<'a>(had: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for (what, name) in had {
        match all.iter_mut().find(|(known, _)| *known == what) {
            Some((_, names)) => names.push(name),
            None => all.push((what, vec![name])),
        }
    }
    all
}

/// The owners among this many agents, by name if they are few.
fn whose(names: &[&str], agents: usize) -> String {
    if names.len() == agents && 1 < agents {
        return "all agents".to_owned();
    }
    let (shown, rest) = names.split_at(names.len().min(NAMED_MAX));
    match rest.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use engine::load::share::Share;
    use engine::record::outcome::Outcome;
    use engine::record::stamps::{Ending, Stamps};
    use engine::report::Microseconds;
    use engine::report::collected::{AgentRun, LostAgent, RunFacts, Synchronization};
    use engine::report::{AgentReported, merge};

    use super::super::made_up;
    use super::super::reports;
    use super::*;

    /// A run on an agent whose requests all took this long, ns.
    fn agent(name: &str, units: std::ops::Range<u32>, took_ns: u64) -> AgentRun {
        let plan = reports::plan(true);
        let share = Share::units(units, 6);
        let fate = move |due_ns: u64| {
            let stamps = Stamps {
                intended_ns: due_ns,
                noticed_ns: due_ns,
                sent_ns: due_ns,
                waited: false,
                step: 0,
                session: None,
            };
            (stamps, Ending::at(due_ns + took_ns), Outcome::Answered(200))
        };
        let recorded = made_up::record_share(&plan, share.clone(), fate, |_, _, _| {});
        let mut run = made_up::agent(&plan, (name, share), vec![recorded], None);
        let stats = &mut run.shards[0];
        (stats.busy, stats.first_due_us, stats.first_sent_us) = (0.125, Some(80.0), Some(101.0));
        run.synchronization = Some(Synchronization {
            pings: 16,
            offset_error_ns: 43_000,
            end_error_ns: Some(51_000),
            drift_ppm: Some(-1.25),
            drift_error_ppm: Some(0.55),
        });
        run
    }

    #[test]
    fn each_agent_has_a_line_and_lost_ones_are_marked() {
        let runs = [
            agent("10.0.0.1:7070", 0..1, 1_000_000),
            agent("agents-1.agents.default.svc:7070", 1..3, 1_200_000),
        ];
        let name = "10.0.0.3:7070".to_owned();
        let reported = Some(AgentReported {
            unit: Microseconds::Us,
            until_s: 12.25,
            intended: 60_000,
            answered: 41_232,
            errors: 0,
            in_flight: 12,
            p50: None,
            p99: None,
        });
        let lost = LostAgent { name, at_s: 12.34, share: Share::units(3..6, 6), reported };
        let lost = vec![lost];
        let facts = RunFacts { lost, ..RunFacts::default() };
        let (report, _) = merge::report(runs, &facts);
        let text = table(&report) + &more(&report);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let (above, digest) = text.split_once("The merged").expect("the digest comes last");
        assert!(digest.ends_with(&format!("\n{}.\n", report.corrected_digest)), "{digest}");
        insta::assert_snapshot!(above, @r"
        agent          share  sent/s   p50 ms   p99 ms errors   busy    skew verdict
        10.0.0.1:7070 16.7 %   833.1     1.00     1.00      0 12.5 % 21.0 µs suspect
        agents-1.agents.default.svc:7070
                      33.3 %   1,662     1.20     1.20      0 12.5 % 21.0 µs suspect
        10.0.0.3:7070 50.0 % lost after 12.3 s; not counted: 41,232 responses
        Skew: from when an agent's first request was due to when it was sent. Their
        clocks agreed to within 86.0 µs at the start and 102 µs at the end; that of
        agents-1.agents.default.svc:7070 drifted by -1.2 ± 0.6 ppm.
        ");
    }

    #[test]
    fn any_two_clocks_may_be_off_both_ways_and_an_unknown_drift_is_hidden() {
        assert_eq!([apart_ns(vec![5]), apart_ns(vec![1, 7, 5])], [5, 12]);
        let shown = |runs: Vec<AgentRun>| {
            more(&merge::report(runs, &RunFacts::default()).0).replace('\n', " ")
        };
        let mut noisy = agent("a:1", 0..6, 1_000_000);
        let clock = noisy.synchronization.as_mut().expect("synchronized");
        clock.drift_error_ppm = Some(1.3);
        let text = shown(vec![noisy]);
        let words = "Its clock and the controller's agreed to within 43.0 µs at the start and \
                     51.0 µs at the end. ";
        assert!(text.contains(words), "{text}");
    }

    #[test]
    fn a_finding_is_shown_once_for_all_agents_that_have_it() {
        let mut runs: Vec<AgentRun> =
            (0..6).map(|n| agent(&format!("10.0.0.{n}:7070"), n..n + 1, 1_000_000)).collect();
        for (n, run) in runs.iter_mut().enumerate() {
            run.findings.push("clock source: hpet; slow to read; boot with tsc".to_owned());
            if 0 < n {
                run.findings.push("swap: is on; pages may be missing; swapoff -a".to_owned());
            }
        }
        runs[3].findings.push("control core: core 1 carries a shard too".to_owned());
        let (report, _) = merge::report(runs, &RunFacts::default());
        let text = more(&report);
        let from = text.find("Found on").expect("findings");
        let to = text.find("The merged").expect("the digest comes last");
        insta::assert_snapshot!(&text[from..to], @r"
        Found on all agents: clock source: hpet; slow to read; boot with tsc.
        Found on 10.0.0.1:7070, 10.0.0.2:7070, 10.0.0.3:7070 and 2 more: swap: is on;
          pages may be missing; swapoff -a.
        Found on 10.0.0.3:7070: control core: core 1 carries a shard too.
        ");
    }

    #[test]
    fn agents_of_another_version_are_named() {
        let mut runs: Vec<AgentRun> =
            (0..3).map(|n| agent(&format!("10.0.0.{n}:7070"), n..n + 1, 1_000_000)).collect();
        let controller = Some(runs[0].head.environment.clone());
        runs[1].head.environment.tool_version = "9.9.9".to_owned();
        let facts = RunFacts { controller, ..RunFacts::default() };
        let (mut report, _) = merge::report(runs, &facts);
        report.environment.tool_version = "0.3.0".to_owned();
        let text = table(&report);
        let own = &report.per_agent[0].environment.tool_version;
        let lines = [
            format!("truetail {own} on 10.0.0.0:7070, 10.0.0.2:7070, 0.3.0 on the controller\n"),
            "truetail 9.9.9 on 10.0.0.1:7070, 0.3.0 on the controller\n".to_owned(),
        ];
        assert!(text.ends_with(&lines.concat()), "{text}");
        report.per_agent.iter_mut().for_each(|agent| {
            agent.environment.tool_version = "0.3.0".to_owned();
        });
        assert!(!table(&report).contains("truetail "), "{text}");
    }

    #[test]
    fn a_run_without_agents_has_no_table() {
        let part = reports::part(250, 250, 1, 2);
        let report = reports::report(true, part);
        assert_eq!(table(&report) + &more(&report), "");
    }
}
