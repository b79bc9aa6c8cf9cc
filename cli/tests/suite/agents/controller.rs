//! The controller's command line: its flags, its refusals, and how it ends.

use engine::sys::placement::allowed_cores;
use engine::sys::units::CoreList;

use super::processes::{Agent, Ended, LONGEST, Place, Target, addresses, controller};
use crate::support::{binary, bounded, document, said};

/// A load of a second, as short as a run can be.
pub const SHORT: [&str; 8] =
    ["--rate", "200", "--duration", "1s", "--warmup", "100ms", "--settle", "100ms"];

/// The end of a command that must end by itself.
fn ends(args: &[&str]) -> Ended {
    let mut command = binary();
    super::processes::Process::start(command.args(args)).ends_within(LONGEST)
}

#[test]
fn bad_flags_are_a_usage_error_before_an_agent_is_contacted() {
    let url = "http://127.0.0.1:9/";
    let folder = tempfile::tempdir().expect("a folder");
    let short_key = folder.path().join("key");
    std::fs::write(&short_key, "short").expect("written");
    let short_key = short_key.to_str().expect("text");
    // Nothing listens on these ports.
    let (one, two) = ("127.0.0.1:9", "127.0.0.1:10");
    let both = format!("{one},{two}");
    for (command, args, words) in [
        ("controller", &[][..], "--agents: missing; give the agents, e.g. --agents host1:7070"),
        (
            "controller",
            &["--agents", one, "--cores", "0"],
            "--cores 0: it is the agent's own; omit",
        ),
        (
            "controller",
            &["--agents", one, "--source-addresses", "127.0.0.2"],
            "--source-addresses 127.0.0.2: it is the agent's own; omit",
        ),
        (
            "controller",
            &["--agents", one, "--cacert", "ca.pem"],
            "--cacert ca.pem: an agent reads no file that a controller names; omit it; start",
        ),
        (
            "controller",
            &["--agents", one, "--flamegraph", "a.svg"],
            "--flamegraph a.svg: a profile is of one machine; omit it, or use `truetail run` there",
        ),
        (
            "controller",
            &["--agents", one, "--calibration", "a.json"],
            "--calibration a.json: a calibration is of one machine; omit it, or use",
        ),
        (
            "controller",
            &["--agents", "one:port"],
            "--agents one:port: invalid address: give HOST or HOST:PORT, e.g.",
        ),
        ("controller", &["--agents", &format!("{one},{one}")], "is agent 1 and 2; name each"),
        (
            "controller",
            &["--agents", &both, "--weights", "1,2,3"],
            "--weights 1,2,3: there are 2 agents; give one weight for each",
        ),
        ("controller", &["--agents", one, "--weights", "0"], "--weights 0: invalid number: give a"),
        (
            "controller",
            &["--agents", one, "--agents-dns", two],
            "--agents: doesn't go with --agents-dns; omit one",
        ),
        (
            "controller",
            &["--agents-file", "hosts", "--agents-slurm"],
            "--agents-file: doesn't go with --agents-slurm; omit one",
        ),
        (
            "controller",
            &["--agents-file", "/nowhere"],
            "--agents-file /nowhere: can't be read (No such file or directory (os error 2)); name",
        ),
        ("controller", &["--agents-file", short_key, "--allow-fewer"], "--agents-wait <DURATION>"),
        (
            "controller",
            &["--agents-slurm"],
            "--agents-slurm: SLURM_JOB_NODELIST is missing; run this within a Slurm job, or give",
        ),
        (
            "controller",
            &["--agents", one, "--key-file", short_key],
            "a key of 5 bytes, must be 32 to 1024; make one with `openssl rand -hex 32`",
        ),
        ("controller", &["--agents", one, "--duration", "0s"], "--duration 0s: an empty window"),
        (
            "controller",
            &["--agents", one, "--raw", "/dev/null"],
            "--raw /dev/null: 127.0.0.1_9.bin",
        ),
        ("sweep", &["--rates", "1..2", "--weights", "1,2"], "--weights: there are no agents; give"),
        ("sweep", &["--rates", "1..2", "--expect", "3"], "--expect 3: there are no agents; give"),
        (
            "sweep",
            &["--rates", "1..2", "--agents-wait", "5m"],
            "--agents-wait 5m: there are no agents; give",
        ),
        (
            "sweep",
            &["--rates", "1..2", "--key-file", "k"],
            "--key-file k: there are no agents; give --agents, or omit it",
        ),
        (
            "sweep",
            &["--rates", "1..2", "--agents", one, "--on-agent-loss", "continue"],
            "--on-agent-loss: a step without an agent would be of another load",
        ),
        ("sweep", &["--rates", "1..2", "--agents", one, "--cores", "0"], "--cores 0: it is the"),
    ] {
        let mut line = vec![command, url];
        if !args.contains(&"--rates") {
            line.extend(SHORT.iter().filter(|_| !args.contains(&"--duration")));
        }
        line.extend(args);
        let ended = ends(&line);
        assert_eq!(ended.code, Some(2), "{line:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(words), "{line:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
    let ended = ends(&["controller", "https://127.0.0.1:9/", "--agents", one, "--http", "auto"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let words = "--http auto: each agent's target would choose, and a report is of one version; \
                 give --http 2 or --http 1.1";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    let ended = ends(&["ceiling", "--null", "--agents", one]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("--null: the null target serves this machine alone; start"));
}

#[test]
fn agents_that_cannot_be_reached_are_named_in_one_line() {
    let url = "http://127.0.0.1:9/";
    let agents = "127.0.0.1:9,127.0.0.1:10";
    let mut line = vec!["controller", url, "--agents", agents, "--quiet"];
    line.extend(SHORT);
    let ended = ends(&line);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("agent 127.0.0.1:9: can't be reached ("), "{}", ended.stderr);
    assert!(ended.stderr.contains("; 127.0.0.1:10 can't be used either"), "{}", ended.stderr);
    let ended = ends(&["sweep", url, "--rates", "10..20", "--agents", agents]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
}

#[test]
fn a_signal_stops_the_agents_and_the_report_shows_it() {
    let target = Target::start(Place::Here);
    let all = CoreList::new(allowed_cores()).to_string();
    let agents = [Agent::start(Place::Here, &[]), Agent::start(Place::Here, &["--cores", &all])];
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("report.json");
    let out_text = out.to_str().expect("text");
    let (url, named) = (target.url(), addresses(&agents));
    let load = ["--rate", "200", "--duration", "100s", "--warmup", "0s", "--wait", "sleep"];
    let args = [&[url.as_str(), "--agents", &named, "--out", out_text][..], &load].concat();
    let mut run = controller(Place::Here, &args);
    run.wait_until("the load runs", |_| 20 <= target.received());
    run.signal("INT");
    let ended = run.ends_within(LONGEST);
    assert_eq!(ended.code, Some(130), "{}{}", ended.stdout, ended.stderr);
    let report = document(&out);
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["per_agent"].as_array().map(Vec::len), Some(2));
    assert!(20 <= report["counts"]["intended"].as_u64().expect("a count") + 10);
    // Both serve the next controller.
    let again = folder.path().join("again.json");
    let again_text = again.to_str().expect("text");
    let args = [&[url.as_str(), "--agents", &named, "--out", again_text][..], &SHORT].concat();
    let args = [&args[..], &["--allow-invalid", "--details"]].concat();
    let ended = controller(Place::Here, &args).ends_within(LONGEST);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    // The second one has no core left for its control plane.
    let report = document(&again);
    let found = |agent: usize| report["per_agent"][agent]["findings"].to_string();
    assert!(found(1).contains("control core: core "), "{}", found(1));
    let of_one = format!("Found on {}: control core: core ", agents[1].address);
    let of_all = "Found on all agents: control core: core ".to_owned();
    assert!([of_one, of_all].iter().any(|text| ended.stdout.contains(text)), "{}", ended.stdout);
}

#[test]
fn the_steps_of_a_series_are_made_by_agents() {
    let target = Target::start(Place::Here);
    let agents = [Agent::start(Place::Here, &[]), Agent::start(Place::Here, &[])];
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("steps.json");
    let out = out.to_str().expect("text");
    let (url, named) = (target.url(), addresses(&agents));
    let common = ["--agents", &named, "--weights", "2,1", "--out", out, "--cooldown", "0s"];
    let step = ["--duration", "1s", "--warmup", "100ms", "--settle", "100ms", "--wait", "sleep"];
    let sweep = ["sweep", &url, "--rates", "100..200", "--steps", "2", "--refine", "0"];
    let search = ["search", &url, "--rate", "100", "--max-rate", "150", "--slo", "errors<50%"];
    let ceiling = ["ceiling", &url, "--rate", "100", "--max-rate", "150", "--repeats", "0"];
    for (command, steps) in [(&sweep, 2), (&search, 1), (&ceiling, 1)] {
        let mut line = binary();
        line.args(command).args(common).args(step);
        let ended = super::processes::Process::start(&mut line).ends_within(3 * LONGEST);
        let code = ended.code.expect("it ends by itself");
        // It is an answer, too, if no rate holds here.
        assert!([0, 4].contains(&code), "{command:?}: {code}: {}{}", ended.stdout, ended.stderr);
        let document = document(std::path::Path::new(out));
        assert_eq!(document["interrupted"], false, "{command:?}");
        let made = document["steps"].as_array().expect("steps");
        assert!(steps <= made.len(), "{command:?}");
    }
}

#[test]
fn the_help_shows_the_flags_of_agents() {
    let help = |command: &str| {
        let mut line = binary();
        let child = line.args([command, "--help"]).stdout(std::process::Stdio::piped()).spawn();
        said(&bounded(child.expect("the binary runs")))
    };
    let controller = help("controller");
    for words in ["--agents <HOST:PORT,…>", "--weights", "--on-agent-loss", "--raw <FOLDER>"] {
        assert!(controller.contains(words), "{words}: {controller}");
    }
    for own in ["--cores", "--source-addresses", "--flamegraph", "--calibration"] {
        assert!(!controller.contains(&format!("  {own}")), "{own}: {controller}");
    }
    for command in ["sweep", "search", "ceiling"] {
        assert!(help(command).contains("--agents <HOST:PORT,…>"), "{command}");
        assert!(!help(command).contains("--on-agent-loss"), "{command}");
    }
    assert!(!help("run").contains("--agents"));
}

#[test]
fn the_lines_and_the_figures_of_a_run_on_agents_are_those_of_its_report() {
    let target = Target::start(Place::Here);
    let agents: Vec<Agent> = (0..2).map(|_| Agent::start(Place::Here, &[])).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let [out, lines, prom] = ["report.json", "run.ndjson", "run.prom"]
        .map(|name| folder.path().join(name).to_str().expect("text").to_owned());
    let (url, agents) = (target.url(), addresses(&agents));
    let args = [&url, "--agents", &agents, "--out", &out, "--ndjson", &lines, "--prom", &prom];
    let load = ["--rate", "200", "--duration", "2s", "--warmup", "100ms", "--settle", "100ms"];
    let load = [&load[..], &["--allow-invalid", "--quiet"]].concat();
    let ended = controller(Place::Here, &[&args[..], &load].concat()).ends_within(LONGEST);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report = document(out.as_ref());
    let lines = std::fs::read_to_string(lines).expect("lines");
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(2 <= lines.len(), "{lines:?}");
    for name in ["intended", "sent", "unsent", "answered", "timed_out", "failed", "abandoned"] {
        let sum: i64 = lines.iter().map(|line| line[name].as_i64().expect("a count")).sum();
        assert_eq!(Some(sum), report["counts"][name].as_i64(), "{name}");
    }
    let prom = std::fs::read_to_string(prom).expect("metrics");
    let answered = format!("outcome=\"answered\"}} {}.0\n", report["counts"]["answered"]);
    assert!(prom.contains(&answered), "{answered}: {prom}");
}
