//! `--stages` through the binary: a run whose rate rises and falls, and its refusals.

use std::fs;

use crate::support::{Target, binary, document, said};

#[test]
fn a_run_has_results_for_each_of_its_stages() {
    let target = Target::start(&["--base-latency", "1ms", "--tail-fraction", "0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let output = binary()
        .args(["run", &target.url, "--stages", "100:500ms,100..500:1s,500:500ms"])
        .args(["--arrivals", "constant", "--warmup", "0s", "--allow-invalid"])
        .args(["--out", "run.json", "--raw", "run.raw"])
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let report = document(&folder.path().join("run.json"));
    let parts = report["parts"].as_array().expect("parts");
    let intended: Vec<u64> =
        parts.iter().filter_map(|part| part["counts"]["intended"].as_u64()).collect();
    assert_eq!(intended, [50, 300, 250]);
    assert_eq!(parts[1]["stage"]["from_per_s"], 100.0);
    assert_eq!(report["config"]["duration"], "2s");
    assert_eq!(target.received(), 600, "the target saw them");
    assert!(text.contains("constant arrivals, seed 1, 3 stages"), "{text}");
    let row = text.lines().find(|line| line.split_whitespace().nth(1) == Some("100..500"));
    assert!(row.is_some_and(|row| row.split_whitespace().count() == 9), "{text}");
    assert!(text.contains("Percentiles of a ramp mix its rates"), "{text}");

    let verified = binary()
        .args(["verify", "run.json", "--raw", "run.raw"])
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
}

#[test]
fn stages_are_read_from_a_plan_file_and_refused_where_meaningless() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = "[[stage]]\nrate = 100\nduration = '1s'\n\
        [[stage]]\nfrom = 100\nto = '1k'\nduration = '2s'\n";
    fs::write(folder.path().join("plan.toml"), file).expect("written");
    fs::write(folder.path().join("both.toml"), format!("rate = 5\n{file}")).expect("written");
    let url = "http://127.0.0.1:9/";
    let stages = ["--stages", "100:1s"];
    for (line, words) in [
        (vec!["run", url, "--plan", "plan.toml", "-d", "30s"], ["--duration 30s", "omit one"]),
        (vec!["run", url, "--plan", "plan.toml", "-n", "9"], ["--requests 9", "or --stages"]),
        (vec!["run", url, "--plan", "both.toml"], ["line 2", "contradicts `rate`"]),
        (vec!["run", url, "--stages", "100:1s", "-R", "5"], ["--stages", "--rate"]),
        (vec!["run", url, "--stages", "100:1s", "-d", "5s"], ["--stages", "--duration"]),
        (vec!["run", url, "--stages", "100"], ["--stages 100", "give RATE:DURATION"]),
        (vec!["run", url, "--stages", "100:1s", "--model", "closed"], ["--stages", "open"]),
        (vec!["search", url, "--plan", "plan.toml"], ["--stages", "has one rate"]),
        (
            [&["sweep", url, "--rates", "1..2"][..], &stages].concat(),
            ["--stages 100:1s", "has one rate"],
        ),
        ([&["ceiling", url][..], &stages].concat(), ["--stages 100:1s", "has one rate"]),
        ([&["ab", url, url][..], &stages].concat(), ["--stages 100:1s", "has one rate"]),
    ] {
        let output =
            binary().args(&line).current_dir(folder.path()).output().expect("the binary runs");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{line:?}: {text}");
    }
}
