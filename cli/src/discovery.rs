//! Finds the agents of a command where they are named, and waits until they can be reached.
//!
//! Without a wait nothing is contacted here: the run itself says best why an agent can't be used.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use agents::controller::address::AgentAddress;
use agents::controller::order::AGENTS_MAX;
use agents::message::HostFacts;

use crate::args::AgentGroupArgs;
use crate::failure::{Failure, complain};
use crate::output::STDOUT;
use crate::signals::{POLL_INTERVAL, StopRequest};
use crate::text::agents as text;

/// How often to look for the agents that are missing.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long an agent may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// The most nodes of a job: the agents', and the controller's own.
const NODES_MAX: usize = AGENTS_MAX + 1;
/// The variable with the nodes of a job.
const NODES_VARIABLE: &str = "SLURM_JOB_NODELIST";

/// Where agents are named.
enum Named<'a> {
    /// One by one.
    Each(Vec<AgentAddress>),
    /// By a name, whose addresses they are.
    Behind(&'a AgentAddress),
}

/// The agents of a command, once as many are there as it needs.
///
/// # Errors
/// They are named wrongly, there are too few when the wait is over, or a signal came.
pub(crate) fn agents(
    args: &AgentGroupArgs,
    stop: &StopRequest,
) -> Result<Vec<AgentAddress>, Failure> {
    let (from, named) = named(args)?;
    let expected = args.expect.unwrap_or(1);
    if let Named::Each(agents) = &named {
        check(&from, agents)?;
        // No wait brings more.
        if agents.len() < expected && !args.allow_fewer {
            let missing = [unnamed(expected - agents.len())];
            let problem = text::too_few(&from, agents.len(), expected, &missing, None);
            let cure = "name the others, or lower --expect";
            return Err(Failure::CouldNotRun(format!("{problem}; {cure}")));
        }
    }
    let begun = Instant::now();
    let mut reached = BTreeSet::new();
    let mut shown = None;
    loop {
        let mut missing = Vec::new();
        let mut here = match &named {
            Named::Each(agents) => agents.clone(),
            // Before its agents are up, the name may not exist.
            Named::Behind(name) => name.behind().unwrap_or_else(|error| {
                missing.push(format!("{name} ({error})"));
                Vec::new()
            }),
        };
        check(&from, &here)?;
        let expected = expected.max(here.len());
        if here.len() < expected && missing.is_empty() {
            missing.push(unnamed(expected - here.len()));
        }
        if args.agents_wait.is_some() {
            let unreachable = reach(&here, &mut reached);
            here.retain(|agent| reached.contains(agent));
            missing.splice(0..0, unreachable);
        }
        if missing.is_empty() {
            return Ok(here);
        }
        let longest = args.agents_wait.unwrap_or_default();
        if longest.as_duration() <= begun.elapsed() {
            let waited = args.agents_wait.map(|longest| longest.to_string());
            let problem = text::too_few(&from, here.len(), expected, &missing, waited.as_deref());
            if args.allow_fewer && !here.is_empty() {
                complain(&format!("{problem}; the run begins without them"));
                return Ok(here);
            }
            let cure = match (args.agents_wait, args.allow_fewer) {
                (None, _) => ", or give --agents-wait, e.g. 5m",
                (Some(_), false) => ", wait longer, or give --allow-fewer",
                (Some(_), true) => ", or wait longer",
            };
            let cure = format!("check that `truetail agent` listens there{cure}");
            return Err(Failure::CouldNotRun(format!("{problem}; {cure}")));
        }
        let line = text::awaited(&from, here.len(), expected, &missing, &longest.to_string());
        if shown.as_ref() != Some(&line) {
            complain(&line);
            shown = Some(line);
        }
        let looked = Instant::now();
        while looked.elapsed() < LOOK_INTERVAL {
            if stop.asked() {
                return Err(Failure::Interrupted);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

fn unnamed(count: usize) -> String {
    format!("{count} unnamed")
}

/// The agents as named, and the flag that does so, with its value.
fn named(args: &AgentGroupArgs) -> Result<(String, Named<'_>), Failure> {
    if let Some(name) = &args.agents_dns {
        return Ok((format!("--agents-dns {name}"), Named::Behind(name)));
    }
    let (from, agents) = if let Some(file) = &args.agents_file {
        let from = format!("--agents-file {}", file.display());
        (from, listed(file))
    } else if args.agents_slurm {
        let list = env::var(NODES_VARIABLE).unwrap_or_default();
        let own = env::var("SLURMD_NODENAME").unwrap_or_else(|_| HostFacts::here().name);
        (format!("--agents-slurm {list}").trim_end().to_owned(), of_job(&list, &own))
    } else {
        ("--agents".to_owned(), Ok(args.agents.clone()))
    };
    match agents {
        Ok(agents) => Ok((from, Named::Each(agents))),
        Err(problem) => Err(Failure::Usage(format!("{from}: {problem}"))),
    }
}

/// Refuses agents that are named twice, or more of them than a run can have.
fn check(from: &str, agents: &[AgentAddress]) -> Result<(), Failure> {
    let problem = if AGENTS_MAX < agents.len() {
        format!("{} agents; a run has at most {AGENTS_MAX}", agents.len())
    } else if let Some((at, twice)) =
        agents.iter().enumerate().find(|(at, agent)| agents[..*at].contains(agent))
    {
        let first = agents.iter().position(|agent| agent == twice).unwrap_or(0) + 1;
        let second = at + 1;
        format!(
            "{twice} is agent {first} and {second}; name each agent once, and give it more of the \
             load by --weights"
        )
    } else {
        return Ok(());
    };
    Err(Failure::Usage(format!("{from}: {problem}")))
}

/// Adds the agents that accept a connection; the others are returned, each with its reason. One
/// that has been reached isn't asked again, since it prints a line for each such connection.
fn reach(agents: &[AgentAddress], reached: &mut BTreeSet<AgentAddress>) -> Vec<String> {
    let others: Vec<&AgentAddress> =
        agents.iter().filter(|agent| !reached.contains(agent)).collect();
    // Resolving a name may take seconds, so each has a thread.
    let tried: Vec<io::Result<()>> = thread::scope(|scope| {
        let threads: Vec<_> = others
            .iter()
            .map(|agent| thread::Builder::new().spawn_scoped(scope, || connect(agent)))
            .collect();
        let joined = threads.into_iter().map(|thread| {
            thread.and_then(|thread| thread.join().expect("connecting doesn't panic"))
        });
        joined.collect()
    });
    let mut missing = Vec::new();
    for (agent, tried) in others.into_iter().zip(tried) {
        match tried {
            Ok(()) => {
                reached.insert(agent.clone());
            }
            Err(error) => missing.push(format!("{agent} ({error})")),
        }
    }
    missing
}

fn connect(agent: &AgentAddress) -> io::Result<()> {
    let mut last = io::Error::other("it has no address");
    for address in agent.resolve()? {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The agents that a file lists, or standard input.
fn listed(file: &Path) -> Result<Vec<AgentAddress>, String> {
    let name = if file == Path::new(STDOUT) { Path::new("/dev/stdin") } else { file };
    let text = fs::read_to_string(name)
        .map_err(|error| format!("can't be read ({error}); name a readable text file"))?;
    of_lines(&text)
}

fn of_lines(text: &str) -> Result<Vec<AgentAddress>, String> {
    let mut agents = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let agent = line.split('#').next().unwrap_or_default().trim();
        if !agent.is_empty() {
            agents.push(agent.parse().map_err(|error| format!("line {number}: {error}"))?);
        }
    }
    match agents.is_empty() {
        true => Err("it names no agent; write HOST or HOST:PORT, one a line".to_owned()),
        false => Ok(agents),
    }
}

/// The agents of a Slurm job with these nodes, on all but the controller's own.
fn of_job(list: &str, own: &str) -> Result<Vec<AgentAddress>, String> {
    if list.is_empty() {
        let cure = "run this within a Slurm job, or give --agents-file";
        return Err(format!("{NODES_VARIABLE} is missing; {cure}"));
    }
    let nodes = by_scontrol(list).or_else(|| nodes(list)).ok_or_else(|| {
        let problem = format!("not a list of up to {NODES_MAX} nodes, e.g. node[1-3,7]");
        format!("{problem}; check {NODES_VARIABLE}, or give --agents-file")
    })?;
    // Either name may have a domain.
    let is_short = |short: &str, long: &str| {
        let rest = long.strip_prefix(short);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let others = nodes.iter().filter(|node| !is_short(node, own) && !is_short(own, node));
    let agents: Result<Vec<AgentAddress>, _> = others.map(|node| node.parse()).collect();
    match agents {
        Ok(agents) if agents.is_empty() => {
            Err("the job has only this node; ask for more, e.g. --nodes 3".to_owned())
        }
        Ok(agents) => Ok(agents),
        Err(error) => Err(error.to_string()),
    }
}

/// The nodes of a list as Slurm's own program reads it, where it is installed and works.
fn by_scontrol(list: &str) -> Option<Vec<String>> {
    let output = Command::new("scontrol").args(["show", "hostnames", list]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.lines().map(str::to_owned).collect())
}

/// The nodes of a list in Slurm's compact form, e.g. `rack[0-1]node[001-012,020],other`.
fn nodes(list: &str) -> Option<Vec<String>> {
    let mut is_inside = false;
    let parts = list.split(|letter| {
        is_inside = (is_inside || letter == '[') && letter != ']';
        letter == ',' && !is_inside
    });
    let mut nodes = Vec::new();
    for part in parts {
        let (mut names, mut rest) = (vec![String::new()], part);
        while let Some((before, after)) = rest.split_once('[') {
            let (ranges, after) = after.split_once(']')?;
            let numbers = numbers(ranges)?;
            if NODES_MAX < names.len() * numbers.len() {
                return None;
            }
            let with = |name: &String| {
                let named = numbers.iter().map(|number| format!("{name}{before}{number}"));
                named.collect::<Vec<String>>()
            };
            names = names.iter().flat_map(with).collect();
            rest = after;
        }
        nodes.extend(names.into_iter().map(|name| name + rest));
        if NODES_MAX < nodes.len() {
            return None;
        }
    }
    Some(nodes)
}

/// The numbers of ranges such as `001-012,020`, each as long as the first of its range.
fn numbers(ranges: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if ![first, last].iter().all(|end| end.bytes().all(|byte| byte.is_ascii_digit())) {
            return None;
        }
        let width = first.len();
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if NODES_MAX <= last.checked_sub(first)? || NODES_MAX < numbers.len() {
            return None;
        }
        numbers.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lists_an_agent_a_line() {
        let text = "# two nodes\r\nNode1\n\n  node2:7071  # the second\n[::1]\n";
        let agents = of_lines(text).expect("a list");
        let agents: Vec<String> = agents.iter().map(ToString::to_string).collect();
        assert_eq!(agents, ["node1:7070", "node2:7071", "[::1]:7070"]);
        let problem = |text| of_lines(text).expect_err("no list");
        assert!(problem("a\n\nb c\n").starts_with("line 3: invalid address `b c`: give HOST"));
        assert!(problem("# none\n").starts_with("it names no agent; write HOST"));
    }

    #[test]
    fn the_compact_form_is_read_as_slurm_does() {
        for (list, expected) in [
            ("node[1-3,7],other", "node1 node2 node3 node7 other"),
            ("n[98-102]", "n98 n99 n100 n101 n102"),
            ("n[9-011]", "n9 n10 n11"),
            ("r[0-1]n[08-10]", "r0n08 r0n09 r0n10 r1n08 r1n09 r1n10"),
            ("n[0-1][0-1]", "n00 n01 n10 n11"),
            ("n[001-003],a.test,b-[2]", "n001 n002 n003 a.test b-2"),
        ] {
            assert_eq!(nodes(list).expect("a list").join(" "), expected, "{list}");
        }
        assert_eq!(nodes("node[001-012]").expect("a list").last().expect("nodes"), "node012");
        assert_eq!(nodes("n[0-1000]").map(|nodes| nodes.len()), Some(NODES_MAX));
        for list in [
            "n[3-1]",
            "n[1-2",
            "n[]",
            "n[a-b]",
            "n[+1]",
            "n[1-2-3]",
            "n[1-99999999999999999999]",
            "n[0-1001]",
            "n[0-99][0-99]",
            "n[0-1000],a",
        ] {
            assert_eq!(nodes(list), None, "{list}");
        }
    }

    #[test]
    fn a_job_has_agents_on_all_nodes_but_the_controllers_own() {
        let agents = |list, own| {
            let agents = of_job(list, own)?;
            Ok::<_, String>(agents.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        let both = Ok("node1:7070 node12:7070".to_owned());
        assert_eq!(agents("node1,node2,node12", "node2"), both);
        assert_eq!(agents("node1,node2,node12", "node2.cluster.test"), both);
        assert_eq!(agents("node1,node2.cluster.test,node12", "node2"), both);
        // The controller may run where the job was asked for.
        assert_eq!(agents("node1,node12", "login"), both);
        for (list, words) in [
            ("", "SLURM_JOB_NODELIST is missing; run this within a Slurm job"),
            ("node2", "the job has only this node"),
            ("node[1", "not a list of up to 1001 nodes"),
            ("node1,a b", "invalid address `a b`"),
        ] {
            let problem = agents(list, "node2").expect_err("no agents");
            assert!(problem.starts_with(words), "{list}: {problem}");
        }
    }

    #[test]
    fn an_agent_is_named_once() {
        let agents = |text| of_lines(text).expect("a list");
        assert!(check("--agents-file f", &agents("a\nb")).is_ok());
        let problem = check("--agents-file f", &agents("a\nb\na:7070")).expect_err("twice");
        let expected = "--agents-file f: a:7070 is agent 1 and 3; name each agent once, and give \
                        it more of the load by --weights";
        assert_eq!(problem.to_string(), expected);
        let many: String = (0..=AGENTS_MAX).map(|number| format!("n{number}\n")).collect();
        assert!(check("--agents-file f", &agents(&many)).is_err());
    }
}
