//! Several hosts in one run through the binary, by a file of targets and by a plan file.

use std::fs;

use crate::routes::{counts, run_in};
use crate::support::{Target, binary, said};

#[test]
fn each_host_of_a_file_of_targets_gets_its_own_requests() {
    let (one, two) = (Target::start(&[]), Target::start(&[]));
    let port = |target: &Target| target.address().rsplit_once(':').expect("a port").1.to_owned();
    let hosts = [("a.invalid", port(&one)), ("b.invalid", port(&two))];
    let urls = hosts.clone().map(|(host, port)| format!("http://{host}:{port}/x"));
    let resolve = hosts.map(|(host, port)| format!("{host}:{port}:127.0.0.1"));
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("targets"), urls.join("\n")).expect("written");
    let given = ["--targets", "targets", "--resolve", &resolve[0], "--resolve", &resolve[1]];
    let (text, report) = run_in(folder.path(), &[&given[..], &["-n", "200", "--details"]].concat());
    let sent = counts(&report, "sent");
    assert_eq!(sent.iter().map(|(_, count)| count).sum::<u64>(), 200);
    assert_eq!(sent[0].0, "GET /x");
    assert!(sent[1].0.starts_with("GET b.invalid:"), "{sent:?}");
    assert_eq!([sent[0].1, sent[1].1], [one.received(), two.received()]);
    assert_eq!(report["config"]["target"], urls[0]);
    for (at, (url, target)) in urls.iter().zip([&one, &two]).enumerate() {
        let endpoint = &report["endpoints"][at];
        assert_eq!(endpoint["name"], url[..url.len() - 2]);
        assert_eq!(endpoint["address"], target.address());
        let name = endpoint["name"].as_str().expect("a name");
        let line = format!("endpoint      {name} at {}: ", target.address());
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&line), "{text}");
    }
    let verify = |name: &str| {
        let output = binary().args(["verify", name]).current_dir(folder.path()).output();
        let output = output.expect("the binary runs");
        (output.status.code(), said(&output))
    };
    let (code, text) = verify("run.json");
    assert_eq!(code, Some(0), "{text}");
    let mut other = report.clone();
    let connects = report["endpoints"][1]["connects"].as_u64().expect("a count");
    other["endpoints"][1]["connects"] = (connects + 1).into();
    fs::write(folder.path().join("other.json"), other.to_string()).expect("written");
    let (code, text) = verify("other.json");
    assert!(code == Some(1) && text.contains("connects"), "{text}");
}

#[test]
fn a_plan_file_names_several_hosts_and_where_they_are() {
    let (one, two) = (Target::start(&[]), Target::start(&[]));
    let folder = tempfile::tempdir().expect("a folder");
    let plan = format!(
        "target = \"http://a.invalid/\"\nrequests = 60\nconns = 4\norder = \"round-robin\"\n\
         connect_to = [\"a.invalid:80:{}\", \"b.invalid::{}\"]\n\n\
         [[scenario]]\nweight = 2\n[[scenario.step]]\nurl = \"/one\"\n\n\
         [[scenario]]\n[[scenario.step]]\nurl = \"http://b.invalid:8000/two\"\n",
        one.address(),
        two.address()
    );
    fs::write(folder.path().join("plan.toml"), plan).expect("written");
    let (_, report) = run_in(folder.path(), &["--plan", "plan.toml", "-R", "500"]);
    assert_eq!([one.received(), two.received()], [40, 20]);
    assert_eq!(counts(&report, "answered"), [("GET /one", 40), ("GET b.invalid:8000/two", 20)]);
}

#[test]
fn a_host_that_cannot_be_reached_is_named_before_anything_is_sent() {
    let one = Target::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let targets = format!("{}\nhttp://127.0.0.1:1/x\n", one.url);
    fs::write(folder.path().join("targets"), targets).expect("written");
    for (flags, words) in [
        (&[][..], "--targets http://127.0.0.1:1/x: 127.0.0.1:1 accepts no connection"),
        (&["--resolve", "h:80:::1"], "--resolve h:80:::1: no URL is at that host and port; give"),
    ] {
        let output = binary()
            .args(["run", "--targets", "targets", "-n", "5"])
            .args(flags)
            .current_dir(folder.path())
            .output()
            .expect("the binary runs");
        let text = said(&output);
        assert_ne!(output.status.code(), Some(0), "{text}");
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(one.received(), 0);
}
