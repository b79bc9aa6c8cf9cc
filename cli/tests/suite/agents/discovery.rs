//! Agents that a controller finds: in a file, on standard input, behind a name or in a Slurm job,
//! at once or after a wait.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::Command;
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::controller::SHORT;
use super::processes::{Agent, Ended, LONGEST, Place, Process, Target, controller};
use crate::support::{BINARY, NO_CACHE, binary, document};

/// How late an agent is.
const LATE: Duration = Duration::from_secs(2);

/// An address that refuses connections, and the socket that keeps it from others meanwhile.
fn refusing() -> (Socket, String) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    socket.bind(&any.into()).expect("a port");
    let address = socket.local_addr().expect("an address").as_socket().expect("of a port");
    (socket, address.to_string())
}

/// A short run on the agents that these flags name.
fn start(url: &str, args: &[&str]) -> Process {
    controller(Place::Here, &[&[url, "--allow-invalid"][..], args, &SHORT].concat())
}

/// The end of a controller in a Slurm job with these nodes, of which it runs on `node1`.
fn in_job(nodes: &str, args: &[&str]) -> Ended {
    let mut command = binary();
    command.env("SLURM_JOB_NODELIST", nodes).env("SLURMD_NODENAME", "node1");
    command.args(["controller", "http://127.0.0.1:9/", "--agents-slurm"]).args(args);
    Process::start(&mut command).ends_within(LONGEST)
}

#[test]
fn a_file_or_standard_input_lists_the_agents() {
    let target = Target::start(Place::Here);
    let agents = [Agent::start(Place::Here, &[]), Agent::start(Place::Here, &[])];
    let folder = tempfile::tempdir().expect("a folder");
    let [hosts, out] =
        ["hosts", "report.json"].map(|name| folder.path().join(name).display().to_string());
    let list = format!("# both\n\n{} # one\n{}\n", agents[0].address, agents[1].address);
    fs::write(&hosts, &list).expect("written");
    let url = target.url();
    let mut piped = Command::new("sh");
    piped.args(["-c", "\"$0\" \"$@\" <\"$HOSTS\"", BINARY, "controller", &url, "--allow-invalid"]);
    piped.args(["--agents-file", "-", "--out", &out]).args(SHORT);
    piped.envs(NO_CACHE).env("HOSTS", &hosts);
    let mut named = binary();
    named.args(["controller", &url, "--allow-invalid", "--agents-file", &hosts, "--expect", "2"]);
    for command in [named.args(["--out", &out]).args(SHORT), &mut piped] {
        let ended = Process::start(command).ends_within(LONGEST);
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        let report = document(out.as_ref());
        let names = report["per_agent"].as_array().expect("agents");
        let names: Vec<&str> = names.iter().filter_map(|agent| agent["name"].as_str()).collect();
        assert_eq!(names, agents.each_ref().map(|agent| agent.address.to_string()));
    }
    let ended = start(&url, &["--agents-file", &hosts, "--expect", "3"]).ends_within(LONGEST);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let words = ": 2 of 3 agents, missing: 1 unnamed; name the others, or lower --expect";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
}

#[test]
fn a_late_agent_is_waited_for() {
    let target = Target::start(Place::Here);
    let early = Agent::start(Place::Here, &[]);
    let (held, late) = refusing();
    let both = format!("{},{late}", early.address);
    let url = target.url();
    let ended = start(&url, &["--agents", &both]).ends_within(LONGEST);
    assert_eq!(ended.code, Some(5), "without a wait: {}", ended.stderr);
    let mut run = start(&url, &["--agents", &both, "--agents-wait", "1m"]);
    let words = format!("--agents: 1 of 2 agents so far, missing: {late} (Connection refused");
    run.wait_until("it says who is missing", |run| run.stderr().contains(&words));
    thread::sleep(LATE);
    drop(held);
    let _late = Agent::start_at(&mut binary(), &late, &[]);
    let ended = run.ends_within(LONGEST);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("; waiting up to 1m\n"), "{}", ended.stderr);
}

#[test]
fn a_missing_agent_is_an_error_unless_fewer_are_allowed() {
    let target = Target::start(Place::Here);
    let agent = Agent::start(Place::Here, &[]);
    let (_held, missing) = refusing();
    let folder = tempfile::tempdir().expect("a folder");
    let [hosts, out] =
        ["hosts", "report.json"].map(|name| folder.path().join(name).display().to_string());
    fs::write(&hosts, format!("{missing}\n{}\n", agent.address)).expect("written");
    let args = ["--agents-file", &hosts, "--agents-wait", "1s"];
    let problem = format!(
        "truetail: --agents-file {hosts}: 1 of 2 agents after 1s, missing: {missing} (Connection \
         refused (os error 111)); "
    );
    let ended = start(&target.url(), &args).ends_within(LONGEST);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let cure = "check that `truetail agent` listens there, wait longer, or give --allow-fewer\n";
    assert!(ended.stderr.ends_with(&format!("{problem}{cure}")), "{}", ended.stderr);
    let fewer = [&args[..], &["--allow-fewer", "--out", &out]].concat();
    let ended = start(&target.url(), &fewer).ends_within(LONGEST);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let note = format!("{problem}the run begins without them\n");
    assert!(ended.stderr.contains(&note), "{}", ended.stderr);
    let report = document(out.as_ref());
    assert_eq!(report["per_agent"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["per_agent"][0]["name"], agent.address.to_string());
    let (_held, other) = refusing();
    fs::write(&hosts, format!("{missing}\n{other}\n")).expect("written");
    let ended = start(&target.url(), &fewer).ends_within(LONGEST);
    assert_eq!(ended.code, Some(1), "at least one must be there: {}", ended.stderr);
    assert!(ended.stderr.contains("0 of 2 agents after 1s, missing: "), "{}", ended.stderr);
}

#[test]
fn each_address_of_a_name_is_an_agent() {
    let target = Target::start(Place::Here);
    let agent = Agent::start(Place::Here, &[]);
    let (url, name) = (target.url(), format!("localhost:{}", agent.address.port()));
    let addresses = name.to_socket_addrs().expect("addresses").collect::<Vec<_>>();
    // Where the name has an IPv6 address, too, nothing listens there.
    let has_others = addresses.iter().any(|address| *address != agent.address);
    let fewer: &[&str] =
        if has_others { &["--agents-wait", "1s", "--allow-fewer"] } else { &["--expect", "1"] };
    let ended = start(&url, &[&["--agents-dns", &name][..], fewer].concat()).ends_within(LONGEST);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn a_name_is_resolved_until_there_are_enough() {
    let url = "http://127.0.0.1:9/";
    let args = ["--agents-dns", "nobody.invalid:7070", "--expect", "2"];
    let ended = start(url, &args).ends_within(LONGEST);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let words = "--agents-dns nobody.invalid:7070: 0 of 2 agents, missing: nobody.invalid:7070 (";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("listens there, or give --agents-wait, e.g. 5m"),
        "{}",
        ended.stderr
    );
    let mut run = start(url, &[&args[..], &["--agents-wait", "5m"]].concat());
    run.wait_until("it waits", |run| {
        let stderr = run.stderr();
        stderr.contains(": 0 of 2 agents so far, missing: nobody.invalid:7070 (")
            && stderr.contains("); waiting up to 5m")
    });
    run.signal("INT");
    assert_eq!(run.ends_within(LONGEST).code, Some(130));
}

#[test]
fn a_slurm_job_has_agents_on_its_other_nodes() {
    let ended = in_job("node[1-3]", &["--expect", "4"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let words = "--agents-slurm node[1-3]: 2 of 4 agents, missing: 2 unnamed; name the others";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    let ended = in_job("node1", &[]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let words = "--agents-slurm node1: the job has only this node; ask for more";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
}
