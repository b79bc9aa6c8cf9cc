//! Experiments, scaled down, as a user runs them: the shortest, or with `TEST_EXPERIMENTS=all`
//! every one. What a busy machine disturbs isn't judged, and an experiment that fails is repeated:
//! no figure may be off each time. One is performed twice, and comes out the same.

#[path = "suite/support.rs"]
mod support;

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use calibration::experiments;
use calibration::findings::{self, FILE};
use calibration::judgement::Judgement;
use calibration::lab::result::{ExperimentResult, judge};
use support::{binary, said, signal};

/// Those that take seconds; all together take about five minutes.
const SHORTEST: [&str; 3] = ["merge", "warm-up", "sketches"];
/// That which is performed twice.
const REPEATED: &str = "merge";
/// How often an experiment is repeated whose figures are off.
const RUNS_MAX: usize = 4;
/// The longest that an experiment may take to begin, and to end once it is interrupted.
const LONGEST: Duration = Duration::from_secs(60);

/// Experiments run one at a time: each needs the cores to itself.
static CORES: Mutex<()> = Mutex::new(());

#[test]
fn each_experiment_is_judged_and_every_number_of_the_findings_stands_in_a_result() {
    let _cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
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
    assert_eq!(page, findings::page(&results, "").expect("a page"));
    assert_eq!(findings::unfounded(&page, &results), Vec::<String>::new());
    assert!(page.contains("These are quick results."));
    assert_eq!(page_elsewhere(folder.path()), findings::page(&results, "../").expect("a page"));
    for (experiment, result) in performed.into_iter().zip(&results) {
        assert!(result.quick && !result.commands.is_empty() && !result.judgements.is_empty());
        let definition = experiment.definition().expect("a definition");
        let judged = judge(&definition, &result.figures, &result.runs);
        assert_eq!(judged.expect("judged"), result.judgements, "{}", result.name);
        verify(&folder.path().join(experiment.name), result);
    }
    let repeated = results.iter().find(|result| result.name == REPEATED);
    repeat(repeated.expect("one of the shortest"));
}

/// The page that is written anew in a folder below that of the results, without running anything.
fn page_elsewhere(results: &Path) -> String {
    let folder = results.join("page");
    fs::create_dir(&folder).expect("a folder");
    let page = folder.join("page.md");
    let mut command = binary();
    command.args(["experiment", "page", "--out"]).arg(results).arg("--page").arg(&page);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(said(&output), format!("written  {}\n", page.display()));
    fs::read_to_string(page).expect("the page")
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

/// Performs the experiment of a result again: what is judged is the same, and so is how it comes out,
/// unless others on the machine can have been the cause.
fn repeat(one: &ExperimentResult) {
    let folder = tempfile::tempdir().expect("a folder");
    perform(&one.name, folder.path());
    let results = findings::results(folder.path()).expect("results");
    let [other] = <[ExperimentResult; 1]>::try_from(results).expect("one result");
    assert!(one.began < other.began && one.definition == other.definition);
    assert_eq!(one.judgements.len(), other.judgements.len());
    for (one, other) in one.judgements.iter().zip(&other.judgements) {
        assert_eq!((&one.what, &one.figure), (&other.what, &other.figure));
        let both = [one.judgement, other.judgement];
        assert!(both[0] == both[1] || both.contains(&Judgement::NotJudged), "{one:?} {other:?}");
    }
}

/// What a user mistypes ends before anything runs.
#[test]
fn a_page_that_cannot_be_written_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().join("results");
    fs::create_dir(&results).expect("a folder");
    let refused = |words: &[&str], page: Option<&Path>, expected: &str| {
        let mut command = binary();
        command.arg("experiment").args(words).arg("--out").arg(&results);
        if let Some(page) = page {
            command.arg("--page").arg(page);
        }
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{words:?}: {}", said(&output));
    };
    refused(&["page"], None, "no experiment has a result there");
    refused(&["page", "--quick"], None, "--quick: `page` runs nothing; omit --quick");
    refused(&["merge"], Some(&results), "is a folder; name a file in it");
    refused(&["all"], Some(&results.join("none/FINDINGS.md")), "can't be written");
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
    let _cores = CORES.lock().unwrap_or_else(PoisonError::into_inner);
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
