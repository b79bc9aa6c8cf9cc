//! Experiments, scaled down, as a user runs them: the shortest, or with `TEST_EXPERIMENTS=all` every
//! one. What a busy machine disturbs isn't judged, and an experiment that fails is repeated: no figure
//! may be off each time.

#[path = "suite/support.rs"]
mod support;

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use calibration::experiments;
use calibration::lab::findings::{self, FILE};
use calibration::lab::result::ExperimentResult;
use support::{binary, said, signal};

/// Those that take seconds; all together take about five minutes.
const SHORTEST: [&str; 3] = ["merge", "warm-up", "sketches"];
/// How often an experiment is repeated whose figures are off.
const RUNS_MAX: usize = 4;
/// The longest that an experiment may take to begin, and to end once it is interrupted.
const LONGEST: Duration = Duration::from_secs(60);

#[test]
fn each_experiment_is_judged_and_every_number_of_the_findings_stands_in_a_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = std::env::var("TEST_EXPERIMENTS").is_ok_and(|which| which == "all");
    let is_performed = |name: &str| all || SHORTEST.contains(&name);
    let performed: Vec<_> =
        experiments::ALL.iter().filter(|experiment| is_performed(experiment.name)).collect();
    assert!(SHORTEST.len() <= performed.len());
    for experiment in &performed {
        perform(experiment.name, folder.path());
    }
    let results = findings::results(folder.path()).expect("results");
    assert_eq!(results.len(), performed.len());
    let page = fs::read_to_string(folder.path().join(FILE)).expect("the findings");
    assert_eq!(page, findings::page(&results).expect("a page"));
    assert_eq!(findings::unfounded(&page, &results), Vec::<String>::new());
    assert!(page.contains("These are quick results."));
    for (experiment, result) in performed.into_iter().zip(&results) {
        assert!(result.quick && !result.commands.is_empty() && !result.judgements.is_empty());
        let definition = experiment.definition().expect("a definition");
        let judged = definition.judge(&result.figures, !result.disturbed.is_empty());
        assert_eq!(judged.expect("judged"), result.judgements, "{}", result.name);
        verify(&folder.path().join(experiment.name), result);
    }
}

/// Performs an experiment until no figure is off.
fn perform(name: &str, folder: &Path) {
    for run in 1..=RUNS_MAX {
        let mut command = binary();
        command.args(["experiment", name, "--quick", "--quiet", "--out"]).arg(folder);
        let output = command.output().expect("it runs");
        match output.status.code() {
            Some(0 | 3) => return,
            Some(1) if run < RUNS_MAX && folder.join(name).join("result.json").exists() => {}
            code => panic!("{name}: exit code {code:?}: {}", said(&output)),
        }
    }
}

/// Each run left a report that can be verified.
fn verify(folder: &Path, result: &ExperimentResult) {
    for run in &result.runs {
        let report = folder.join(format!("{}.json", run.name));
        let output = binary().arg("verify").arg(&report).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}: {}", report.display(), said(&output));
    }
}

/// A process that is killed by its id when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already when the test went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_interrupt_ends_the_run_under_way_and_the_servers() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = binary();
    let output = folder.path().join("stdout");
    let stdout = fs::File::create(&output).expect("a file");
    command.args(["experiment", "merge", "--out"]).arg(folder.path().join("out"));
    let mut process = Process(command.stdout(Stdio::from(stdout)).spawn().expect("it runs"));
    let started = Instant::now();
    let words = loop {
        let said = fs::read_to_string(&output).expect("text");
        if let Some(line) = said.lines().find(|line| line.starts_with("$ truetail controller")) {
            break line.to_owned();
        }
        assert!(started.elapsed() < LONGEST, "no run begins: {said}");
        thread::sleep(Duration::from_millis(10));
    };
    signal(&process.0, "INT");
    let asked = Instant::now();
    let status = loop {
        if let Some(status) = process.0.try_wait().expect("it is ours") {
            break status;
        }
        assert!(asked.elapsed() < LONGEST, "it doesn't end");
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(130), "{}", fs::read_to_string(&output).expect("text"));
    let url = words.split(' ').find_map(|word| word.strip_prefix("http://0.0.0.0:"));
    let port = url.expect("a URL").trim_end_matches('/').parse::<u16>().expect("a port");
    // Another test's server may have the port meanwhile, for as long as its run takes.
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {
        assert!(asked.elapsed() < LONGEST, "the target still listens");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!folder.path().join("out/merge/result.json").exists());
}
