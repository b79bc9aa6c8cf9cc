//! A plan with files on agents: the files come from the controller, and three agents send what one
//! machine does.

use std::fs;

use serde_json::Value;

use super::processes::{Agent, Ended, LONGEST, Place, addresses, controller};
use crate::support::{Target, binary, document, said};

/// Three routes, two of which have files as bodies.
const PLAN: &str = "\
rate = 300\nduration = '1500ms'\nwarmup = '0s'\nseed = 5\nwait = 'sleep'\n\
[[scenario]]\nname = 'home'\nweight = 6\n[[scenario.step]]\nurl = '/'\n\
[[scenario]]\nname = 'search'\nweight = 3\n\
[[scenario.step]]\nurl = '/search'\nmethod = 'POST'\nbody = '@query.json'\n\
[[scenario]]\nname = 'orders'\nweight = 1\n\
[[scenario.step]]\nurl = '/orders'\nmethod = 'POST'\nbody = '@order.bin'\n";

/// The requests of each route that the target received, in the order of its ledger.
fn received(target: &Target) -> Vec<u64> {
    let ledger = target.ledger();
    let routes = ledger["routes"].as_array().expect("routes").iter();
    routes.map(|route| route["received"].as_u64().expect("a count")).collect()
}

#[test]
fn three_agents_send_each_route_as_often_as_one_machine_with_files_of_the_controller() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("plan.toml"), PLAN).expect("written");
    fs::write(path("query.json"), r#"{"q": "shoes"}"#).expect("written");
    fs::write(path("order.bin"), vec![b'x'; 400_000]).expect("written");
    let target = Target::start(&[
        "--base-latency",
        "1ms",
        "--route",
        "/search:base=2ms",
        "--route",
        "/orders:base=3ms",
    ]);
    let agents: Vec<Agent> = (0..3).map(|_| Agent::start(Place::Here, &[])).collect();
    let run = |args: &[&str]| -> (Vec<u64>, Value) {
        let before = received(&target);
        let output = binary()
            .args(args)
            .args(["--plan", "plan.toml", "--allow-invalid", "--out", "report.json"])
            .current_dir(folder.path())
            .output()
            .expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let now = received(&target);
        let each = now.iter().zip(before).map(|(now, before)| now - before).collect();
        (each, document(&path("report.json")))
    };
    let (alone, report) = run(&["run", &target.url]);
    let all = addresses(&agents);
    // The second time, the agents have the files.
    for _ in 0..2 {
        let (each, of_agents) = run(&["controller", &target.url, "--agents", &all]);
        assert_eq!(each, alone, "/search, /orders, other paths");
        for digest in ["/config/schedule_digest", "/config/scenario"] {
            let of = |report: &Value| report.pointer(digest).cloned().expect("it is there");
            assert_eq!(of(&of_agents), of(&report), "{digest}");
        }
        let parts = of_agents["parts"].as_array().expect("parts");
        let sent: Vec<u64> =
            parts.iter().filter_map(|part| part["counts"]["sent"].as_u64()).collect();
        assert_eq!(sent, [alone[2], alone[0], alone[1]]);
    }
}

#[test]
fn a_file_that_no_agent_takes_is_refused_before_any_is_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::File::create(path("large")).and_then(|it| it.set_len((64 << 20) + 1)).expect("a hole");
    for (name, words) in [
        ("large", "the file has 67108865 bytes; an agent takes 67108864 (64 MiB); give a smaller"),
        ("missing", "can't read the file (No such file or directory"),
    ] {
        let body = format!("@{}", path(name));
        // Nothing listens there.
        let args = ["http://127.0.0.1:1/", "--agents", "127.0.0.1:9", "-R", "10", "--body", &body];
        let ended = controller(Place::Here, &args).ends_within(LONGEST);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(&format!("--body {body}: {words}")), "{ended:?}");
    }
}

#[test]
fn an_agents_limit_for_files_is_its_own() {
    let target = Target::start(&[]);
    let agents = [Agent::start(Place::Here, &["--max-files", "0"])];
    let all = addresses(&agents);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("body");
    fs::write(&file, "12345").expect("written");
    let body = format!("@{}", file.display());
    let args = [&*target.url, "--agents", &all, "-R", "10", "-d", "1s", "--body", &body];
    let ended: Ended = controller(Place::Here, &args).ends_within(LONGEST);
    assert_eq!(ended.code, Some(5), "{ended:?}");
    let words = "refused: the plan's files have 5 bytes, above this agent's --max-files 0 MiB; use \
                 smaller ones, or start the agent with a higher --max-files";
    assert!(ended.stderr.contains(words), "{ended:?}");
    assert_eq!(target.received(), 0);
}
