//! Several hosts on agents: each agent connects to each of them, and all must be allowed.

use std::fs;

use super::processes::{Agent, LONGEST, Place, addresses, controller};
use crate::routes::counts;
use crate::support::{Target, binary, document, said};

#[test]
fn agents_load_each_host_as_one_machine_does_and_refuse_one_that_is_not_allowed() {
    let (one, two) = (Target::start(&[]), Target::start(&[]));
    let folder = tempfile::tempdir().expect("a folder");
    let targets = format!("{}\n{}b\n", one.url, two.url);
    fs::write(folder.path().join("targets"), targets).expect("written");
    let flags = ["--targets", "targets", "-R", "300", "-d", "1s", "--warmup", "0s", "--seed", "3"];
    let (first, second) = (one.address().to_owned(), two.address().to_owned());
    let allow = |address: &str| ["--allow-target".to_owned(), address.to_owned()].to_vec();
    let start = |args: &[String]| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Agent::start(Place::Here, &args)
    };
    let agents = [start(&[allow(&first), allow(&second)].concat()), start(&[])];
    let run = |args: &[&str]| {
        let output = binary()
            .args(args)
            .args(flags)
            .args(["--allow-invalid", "--out", "report.json"])
            .current_dir(folder.path())
            .output()
            .expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        document(&folder.path().join("report.json"))
    };
    let alone = run(&["run"]);
    let together = run(&["controller", "--agents", &addresses(&agents)]);
    assert_eq!(counts(&together, "sent"), counts(&alone, "sent"));
    for (at, address) in [&first, &second].into_iter().enumerate() {
        let all = &together["endpoints"][at];
        assert_eq!(all["address"], address.as_str());
        let of_agents = together["per_agent"].as_array().expect("agents").iter();
        let connects = of_agents.map(|agent| agent["endpoints"][at]["connects"].as_u64());
        assert_eq!(all["connects"].as_u64(), connects.sum::<Option<u64>>());
    }
    let verified = binary().args(["verify", "report.json"]).current_dir(folder.path()).output();
    let verified = verified.expect("the binary runs");
    assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));

    let before = [one.received(), two.received()];
    let strict = start(&allow(&first));
    let targets = folder.path().join("targets").display().to_string();
    let args = ["--agents", &strict.address.to_string(), "--targets", &targets, "-R", "9"];
    let ended = controller(Place::Here, &args).ends_within(LONGEST);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    let words = format!("--target {second}: it stands for 127.0.0.1, which this agent may not");
    assert!(ended.stderr.contains(&words), "{ended:?}");
    assert_eq!([one.received(), two.received()], before);
}
