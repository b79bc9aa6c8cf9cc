//! Text about agents: running ones, and lost ones.

use agents::controller::live::AgentLive;
use agents::message::Ready;
use agents::run_id::RunId;
use engine::run::{Phase, RunProgress};

use super::figures::{coarse, count, rate};
use super::layout::Column::{self, Left, Right, Time};
use super::layout::{Text, widest};
use super::progress::phase;

/// The most agents shown while they run: more wouldn't fit on the screen.
const ROWS_MAX: usize = 20;

/// The progress of all agents, a line each; `all` is their total.
pub(crate) fn live(agents: &[AgentLive], all: Option<&RunProgress>) -> String {
    let width = widest(agents.iter().map(|agent| &*agent.name).chain(["agent"]));
    let columns = |figure: fn(usize) -> Column| {
        [Left(width + 2), Right(11), figure(12), figure(12), Right(10), Right(10)]
    };
    let mut text = Text::new();
    text.line(match all {
        None => "setting up".to_owned(),
        Some(RunProgress { phase: Phase::Setup, .. }) => "setup".to_owned(),
        Some(RunProgress { phase: now, elapsed_ns, .. }) => {
            format!("{} {:.1} s", phase(*now), *elapsed_ns as f64 / 1e9)
        }
    });
    text.row(&columns(Right), &["agent", "per second", "p50", "p99", "errors", "in flight"]);
    for agent in &agents[..agents.len().min(ROWS_MAX)] {
        match (&agent.lost, &agent.total) {
            (Some(why), _) => text.field_whole(width + 2, &agent.name, &format!("lost: {why}")),
            (None, None) => {
                let setup = match &agent.ready {
                    None => "setting up",
                    Some(Ready { settled: Some(false) }) => "ready, its connections never settled",
                    Some(_) => "ready",
                };
                text.field_whole(width + 2, &agent.name, setup);
            }
            (None, Some(progress)) => {
                let per_second = agent.answered_per_s();
                text.row(&columns(Time), &row(&agent.name, progress, per_second));
            }
        }
    }
    if let Some(more @ 1..) = agents.len().checked_sub(ROWS_MAX) {
        text.line(format!("and {more} more"));
    }
    if let Some(all) = all {
        let per_second = agents.iter().map(AgentLive::answered_per_s).sum();
        text.row(&columns(Time), &row("all", all, per_second));
    }
    let mut text = text.done();
    text.truncate(text.trim_end().len());
    text
}

/// The cells of a line.
fn row(name: &str, now: &RunProgress, per_second: f64) -> [String; 6] {
    let shown = |quantile| coarse(&now.latency, quantile);
    [
        name.to_owned(),
        rate(per_second),
        shown(0.5),
        shown(0.99),
        count(now.errors),
        count(now.in_flight),
    ]
}

/// The failure of an agent that can't be used; `others` can't be used either.
pub(crate) fn unusable(name: &str, why: &str, others: &[&str]) -> String {
    match others {
        [] => format!("agent {name}: {why}"),
        others => format!("agent {name}: {why}; {} can't be used either", others.join(", ")),
    }
}

/// The note that an agent was lost, and the run goes on.
pub(crate) fn goes_on(name: &str, why: &str) -> String {
    format!("agent {name}: {why}; the others go on, and the result is partial")
}

/// The note that an agent has nothing of a run that is resumed.
pub(crate) fn missing(name: &str, why: &str) -> String {
    format!("agent {name}: {why}")
}

/// How to find this run again.
pub(crate) fn resumable(run: RunId) -> String {
    format!("Run {run}: if this controller is lost, `--resume {run}` collects what agents keep.")
}

/// The note that agents have raw samples that weren't asked for.
pub(crate) fn has_samples(run: RunId) -> String {
    format!("The agents have also kept raw samples of run {run}; --raw FOLDER collects them.")
}

/// How many agents are there so far; `from` is where they are named.
pub(crate) fn awaited(
    from: &str,
    here: usize,
    expected: usize,
    missing: &[String],
    longest: &str,
) -> String {
    let agents = if expected == 1 { "agent" } else { "agents" };
    let missing = match missing {
        [] => String::new(),
        [one] => format!(", missing: {one}"),
        [first, others @ ..] => format!(", missing: {first} and {} more", others.len()),
    };
    format!("{from}: {here} of {expected} {agents} so far{missing}; waiting up to {longest}")
}

/// The agents that are missing after the longest wait, if there was one.
pub(crate) fn too_few(
    from: &str,
    here: usize,
    expected: usize,
    missing: &[String],
    longest: Option<&str>,
) -> String {
    let agents = if expected == 1 { "agent" } else { "agents" };
    let after = longest.map(|longest| format!(" after {longest}")).unwrap_or_default();
    let missing = missing.join(", ");
    format!("{from}: {here} of {expected} {agents}{after}, missing: {missing}")
}

#[cfg(test)]
mod tests {
    use agents::controller::live::total;
    use engine::shard::CoarseHistogram;

    use super::*;

    fn shown(agents: &[AgentLive]) -> String {
        live(agents, total(agents).as_ref())
    }

    fn agent(name: &str, frames: u64) -> AgentLive {
        let mut agent = AgentLive::new(name.to_owned());
        let mut latency = CoarseHistogram::default();
        (0..200).for_each(|_| latency.record(250_000));
        for frame in 1..=frames {
            let elapsed_ns = 250_000_000 * frame;
            let (intended, answered, in_flight) = (751, 750, 1_004);
            let (phase, errors, latency) = (Phase::Steady, 1, latency.clone());
            let counts = Default::default();
            agent.add(&RunProgress {
                phase,
                elapsed_ns,
                intended,
                answered,
                errors,
                in_flight,
                counts,
                latency,
            });
        }
        agent
    }

    #[test]
    fn all_agents_are_on_one_screen() {
        let mut lost = agent("10.77.0.4:7070", 3);
        lost.lost = Some("nothing came from it for 3s".to_owned());
        let agents = [agent("10.77.0.2:7070", 8), agent("host:7070", 7), lost];
        insta::assert_snapshot!(shown(&agents), @r"
        steady 1.8 s
        agent            per second         p50         p99    errors in flight
        10.77.0.2:7070        3,000      254 µs      254 µs         8     1,004
        host:7070             3,000      254 µs      254 µs         7     1,004
        10.77.0.4:7070  lost: nothing came from it for 3s
        all                   6,000      254 µs      254 µs        18     2,008
        ");
        let mut waiting = ["a:7070", "b:7070", "c:7070"].map(|name| agent(name, 0));
        waiting[1].ready = Some(Ready { settled: None });
        waiting[2].ready = Some(Ready { settled: Some(false) });
        insta::assert_snapshot!(shown(&waiting), @r"
        setting up
        agent    per second         p50         p99    errors in flight
        a:7070  setting up
        b:7070  ready
        c:7070  ready, its connections never settled
        ");
        let many: Vec<AgentLive> = (0..100).map(|n| agent(&format!("agent-{n}:7070"), 1)).collect();
        let text = shown(&many);
        assert_eq!(text.lines().count(), 2 + ROWS_MAX + 2);
        assert!(text.contains("\nand 80 more\nall "), "{text}");
    }

    #[test]
    fn one_line_names_all_unusable_agents() {
        insta::assert_snapshot!(unusable("a:1", "it left", &["b:1", "c:1"]), @"agent a:1: it left; b:1, c:1 can't be used either");
        insta::assert_snapshot!(unusable("a:1", "it left", &[]), @"agent a:1: it left");
        insta::assert_snapshot!(goes_on("a:1", "it left"), @"agent a:1: it left; the others go on, and the result is partial");
    }

    #[test]
    fn missing_agents_are_named() {
        let missing = ["b:1 (Connection refused)", "c:1 (timed out)"].map(str::to_owned);
        let awaited = |missing| awaited("--agents-file hosts", 1, 3, missing, "5m");
        insta::assert_snapshot!(awaited(&[]), @"--agents-file hosts: 1 of 3 agents so far; waiting up to 5m");
        insta::assert_snapshot!(awaited(&missing[..1]), @"--agents-file hosts: 1 of 3 agents so far, missing: b:1 (Connection refused); waiting up to 5m");
        insta::assert_snapshot!(awaited(&missing), @"--agents-file hosts: 1 of 3 agents so far, missing: b:1 (Connection refused) and 1 more; waiting up to 5m");
        insta::assert_snapshot!(too_few("--agents-dns a:1", 0, 1, &missing[..1], None), @"--agents-dns a:1: 0 of 1 agent, missing: b:1 (Connection refused)");
        insta::assert_snapshot!(too_few("--agents-slurm n[1-3]", 1, 3, &missing, Some("5m")), @"--agents-slurm n[1-3]: 1 of 3 agents after 5m, missing: b:1 (Connection refused), c:1 (timed out)");
    }
}
