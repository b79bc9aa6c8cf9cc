//! A run in progress as JSON: one line per second, written at once.
//!
//! A line counts what was added since the last one, so the counts of all lines add up to the
//! report's. The last line has the rest when the report is made, and each part of a plan with
//! several, a step in a stage, and the sessions of each scenario, which aren't counted during the
//! run.

use std::array;
use std::ops::Range;
use std::path::PathBuf;
use std::time::SystemTime;

use engine::plan::Plan;
use engine::report::{Part, ScenarioPart, StageSpan, StepCounts, StepPart};
use engine::run::{Phase, RunProgress};
use engine::sys::clock;
use engine::sys::units::SECOND_NS;
use humantime::format_rfc3339_millis;
use serde::Serialize;

use crate::failure::Failure;
use crate::json;
use crate::output::OutputFile;
use crate::sink::{EndedRun, Sink};
use crate::text::progress::phase;

/// Approximate time from line to line, ns.
const INTERVAL_NS: u64 = SECOND_NS;

/// One line.
#[derive(Debug, Serialize)]
struct Line {
    /// Its time, RFC 3339, in UTC.
    time: String,
    /// Time since the load began, seconds.
    elapsed_s: f64,
    /// Time since the last line, seconds.
    interval_s: f64,
    phase: &'static str,
    /// Requests of the window, as in the report's counts: below 0 only in the last line, which
    /// takes back the reports of a lost agent.
    intended: i64,
    sent: i64,
    unsent: i64,
    answered: i64,
    unexpected_status: i64,
    failed_checks: i64,
    timed_out: i64,
    failed: i64,
    abandoned: i64,
    /// Requests of the warm-up.
    warmup_sent: i64,
    warmup_answered: i64,
    /// Requests awaiting their response.
    in_flight: u64,
    /// Corrected latency of the window's requests that ended, within 6.25 %; `None` with fewer than
    /// ten of them beyond it.
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    /// The stage at the end of the line by its name, or by its number if it has none; absent before
    /// and after the window, and if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<String>,
    /// The requests of each part, all of which are in the counts of the lines too: only in the last
    /// line, and absent if there is only one part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<LinePart>,
    /// The sessions of each scenario: only in the last line, and absent if no scenario has several
    /// steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scenarios: Vec<LineScenario>,
}

/// The requests of a part over the whole run, as in the report.
#[derive(Debug, Serialize)]
struct LinePart {
    scenario: String,
    /// The name of its stage, or its number if it has none; absent if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<String>,
    intended: u64,
    sent: u64,
    unsent: u64,
    answered: u64,
    unexpected_status: u64,
    failed_checks: u64,
    timed_out: u64,
    failed: u64,
    abandoned: u64,
    received_bytes: u64,
    sent_bytes: u64,
    /// Corrected latency; `None` if unknown.
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

/// The sessions of a scenario over the whole run, as in the report.
#[derive(Debug, Serialize)]
struct LineScenario {
    scenario: String,
    intended: u64,
    completed: u64,
    failed: u64,
    unfinished: u64,
    unsent: u64,
    /// Latency without think times; `None` if unknown.
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

impl LineScenario {
    fn new(of: &ScenarioPart) -> LineScenario {
        LineScenario {
            scenario: of.name.clone(),
            intended: of.intended,
            completed: of.completed,
            failed: of.failed(),
            unfinished: of.unfinished(),
            unsent: of.unsent,
            p50_us: of.latency.quantile_us(0.5),
            p99_us: of.latency.quantile_us(0.99),
        }
    }
}

impl LinePart {
    fn new(part: &StepPart) -> LinePart {
        let StepCounts { intended, sent, unsent, answered, .. } = part.counts;
        let StepCounts { unexpected_status, failed_checks, .. } = part.counts;
        let StepCounts { timed_out, failed, abandoned, .. } = part.counts;
        LinePart {
            scenario: part.name.clone(),
            stage: part.stage.as_ref().map(StageSpan::label),
            intended,
            sent,
            unsent,
            answered,
            unexpected_status,
            failed_checks,
            timed_out,
            failed,
            abandoned,
            received_bytes: part.received_bytes,
            sent_bytes: part.sent_bytes,
            p50_us: part.corrected.quantile_us(0.5),
            p99_us: part.corrected.quantile_us(0.99),
        }
    }
}

impl Line {
    /// The progress of a run between two snapshots; the second is of `time`.
    fn new(now: &RunProgress, before: &RunProgress, time: SystemTime) -> Line {
        let since = now.since(before);
        let us = |quantile| since.latency.known_ns(quantile).map(|ns| ns as f64 / 1e3);
        let [
            intended,
            sent,
            unsent,
            answered,
            timed_out,
            failed,
            abandoned,
            unexpected_status,
            failed_checks,
            warmup_sent,
            warmup_answered,
        ] = array::from_fn(|at| now.counts[at].wrapping_sub(before.counts[at]).cast_signed());
        let seconds = |ns: u64| ns as f64 / SECOND_NS as f64;
        Line {
            time: format_rfc3339_millis(time).to_string(),
            elapsed_s: seconds(now.elapsed_ns),
            interval_s: seconds(now.elapsed_ns.saturating_sub(before.elapsed_ns)),
            phase: phase(now.phase),
            intended,
            sent,
            unsent,
            answered,
            unexpected_status,
            failed_checks,
            timed_out,
            failed,
            abandoned,
            warmup_sent,
            warmup_answered,
            in_flight: now.in_flight,
            p50_us: us(0.5),
            p99_us: us(0.99),
            stage: None,
            parts: Vec::new(),
            scenarios: Vec::new(),
        }
    }
}

/// The lines of a run.
#[derive(Debug)]
pub(crate) struct Ndjson {
    file: OutputFile,
    /// The run at the last line.
    written: RunProgress,
    /// The run at the last snapshot.
    seen: RunProgress,
    /// The time of that, ns of CLOCK_MONOTONIC; `None` before the load.
    seen_ns: Option<u64>,
    /// When the next line is due, ns since the load began.
    due_ns: u64,
    /// The label of each stage, and its span, ns since the load began; empty if there is only one.
    stages: Vec<(String, Range<u64>)>,
    /// Why no more lines are written.
    failure: Option<Failure>,
}

impl Ndjson {
    /// Lines in this file of a run that has not begun.
    fn new(file: OutputFile) -> Ndjson {
        let (written, seen) = (RunProgress::default(), RunProgress::default());
        Ndjson {
            file,
            written,
            seen,
            seen_ns: None,
            due_ns: INTERVAL_NS,
            stages: Vec::new(),
            failure: None,
        }
    }

    /// The lines as a sink of the run.
    pub(crate) fn sink(file: OutputFile) -> Box<dyn Sink> {
        Box::new(Ndjson::new(file))
    }

    /// Writes the last line of a run that ended with these results, and returns the path of the
    /// file.
    ///
    /// # Errors
    /// A line could not be written.
    fn end(mut self, whole: &Part) -> Result<PathBuf, Failure> {
        let seen = std::mem::take(&mut self.seen);
        // The line is of the current time, after any snapshot, so its length isn't 0.
        let now_ns = clock::now_ns();
        let since_ns = self.seen_ns.replace(now_ns).map_or(0, |seen_ns| now_ns - seen_ns);
        let elapsed_ns = seen.elapsed_ns + since_ns;
        let counts = whole.counts.so_far();
        self.seen = RunProgress { phase: Phase::Done, elapsed_ns, in_flight: 0, counts, ..seen };
        let parts = whole.parts.iter().map(LinePart::new);
        self.write(parts.collect(), whole.scenarios.iter().map(LineScenario::new).collect());
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(self.file.shown().to_owned()),
        }
    }

    /// Writes the progress since the last line, and these parts and sessions.
    fn write(&mut self, parts: Vec<LinePart>, scenarios: Vec<LineScenario>) {
        if self.failure.is_some() {
            return;
        }
        let at_ns = self.seen_ns.unwrap_or_else(clock::now_ns);
        let line = Line::new(&self.seen, &self.written, clock::wall_time(at_ns));
        let now_ns = self.seen.elapsed_ns;
        let stage = self.stages.iter().find(|(_, span)| span.contains(&now_ns));
        let stage = stage.filter(|_| self.seen.phase == Phase::Steady);
        let stage = stage.map(|(label, _)| label.clone());
        let line = Line { stage, parts, scenarios, ..line };
        let mut bytes = Vec::new();
        json::write_line(&line, &mut bytes).expect("writing to memory can't fail");
        self.failure = self.file.append(&bytes).err();
        self.written = self.seen.clone();
    }
}

impl Sink for Ndjson {
    fn prepare(&mut self, plan: &Plan) -> Result<(), Failure> {
        if 1 < plan.stage.len() {
            let each = (1..).zip(plan.stages());
            self.stages = each.map(|(at, (_, span))| (plan.stage_label(at), span)).collect();
        }
        Ok(())
    }

    /// Writes a line if one is due. Requests before the load begins are in none.
    fn look(&mut self, now: &RunProgress) {
        self.look_last(now);
        if self.due_ns <= self.seen.elapsed_ns {
            self.due_ns = (now.elapsed_ns / INTERVAL_NS + 1) * INTERVAL_NS;
            self.write(Vec::new(), Vec::new());
        }
    }

    /// Takes the last snapshot of a run, whose line comes with its end.
    fn look_last(&mut self, now: &RunProgress) {
        if now.phase != Phase::Setup {
            self.seen = now.clone();
            self.seen_ns = Some(clock::now_ns());
        }
    }

    fn finish(self: Box<Self>, ended: &EndedRun<'_>) -> Result<Option<PathBuf>, Failure> {
        self.end(&ended.finished.report.whole).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::path::Path;
    use std::time::Duration;
    use std::{fs, io, thread};

    use engine::record::counts::{Counts, CountsSoFar};
    use engine::shard::CoarseHistogram;
    use serde_json::Value;

    use super::*;
    use crate::signals::StopRequest;
    use crate::text::reports::{part, sessions, two_by_two};

    fn progress(phase: Phase, elapsed_ms: u64, counts: CountsSoFar, latencies: u64) -> RunProgress {
        let mut latency = CoarseHistogram::default();
        (0..latencies).for_each(|_| latency.record(250_000));
        let elapsed_ns = elapsed_ms * 1_000_000;
        RunProgress { phase, elapsed_ns, counts, in_flight: 3, latency, ..RunProgress::default() }
    }

    /// The results of a run with these counts.
    fn of(counts: Counts) -> Part {
        Part { counts, ..part(1_000, 1_000, 3, 2) }
    }

    fn open(path: &Path) -> Ndjson {
        let file = OutputFile::open("--ndjson", path, &StopRequest::default());
        Ndjson::new(file.expect("it can be written"))
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn sum(lines: &[Value], name: &str) -> i64 {
        lines.iter().map(|line| line[name].as_i64().expect("a count")).sum()
    }

    const NONE: CountsSoFar = [0; 11];

    #[test]
    fn a_line_appears_when_its_second_is_over_and_all_add_up_to_the_report() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.ndjson");
        fs::write(&path, "the last run\n").expect("written");
        let mut ndjson = open(&path);
        ndjson.look(&progress(Phase::Setup, 5_000, NONE, 0));
        ndjson.look(&progress(Phase::Warmup, 900, [0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 8], 0));
        assert_eq!(fs::read_to_string(&path).expect("text"), "the last run\n", "no second is over");
        ndjson.look(&progress(Phase::Warmup, 1_100, [0, 0, 0, 0, 0, 0, 0, 0, 0, 11, 10], 0));
        assert_eq!(lines(&path).len(), 1);
        ndjson.look(&progress(Phase::Steady, 1_900, [4, 4, 0, 2, 0, 0, 0, 0, 0, 11, 11], 20));
        ndjson.look(&progress(Phase::Steady, 2_000, [6, 6, 0, 3, 1, 0, 0, 1, 0, 11, 11], 30));
        assert_eq!(lines(&path).len(), 2);
        // Although a second is over, the rest of the run is one line.
        ndjson.look_last(&progress(Phase::Done, 3_100, [9, 8, 0, 5, 1, 0, 0, 1, 0, 11, 11], 50));
        thread::sleep(Duration::from_millis(20));
        let mut counts = Counts::of_outcomes([9, 8, 1, 5, 1, 1, 1]);
        counts.unexpected_status = 2;
        (counts.warmup.sent, counts.warmup.answered) = (11, 11);
        assert_eq!(ndjson.end(&of(counts)).expect("written"), path);
        let lines = lines(&path);
        assert_eq!(lines.len(), 3);
        let number = |at: usize, name: &str| lines[at][name].as_f64().expect("a number");
        assert_eq!([0, 1].map(|at| number(at, "elapsed_s")), [1.1, 2.0]);
        // The last line is written later than its snapshot was taken.
        assert!((3.12..60.0).contains(&number(2, "elapsed_s")), "{:?}", lines[2]);
        let mut before_s = 0.0;
        for at in [0, 1, 2] {
            let since_s = number(at, "elapsed_s") - before_s;
            assert!((number(at, "interval_s") - since_s).abs() < 1e-9, "{:?}", lines[at]);
            before_s += since_s;
        }
        for (name, count) in [
            ("intended", 9),
            ("sent", 8),
            ("unsent", 1),
            ("answered", 5),
            ("timed_out", 1),
            ("failed", 1),
            ("abandoned", 1),
            ("unexpected_status", 2),
            ("warmup_sent", 11),
            ("warmup_answered", 11),
        ] {
            assert_eq!(sum(&lines, name), count, "{name}");
        }
        assert_eq!((&lines[0]["p50_us"], &lines[0]["phase"]), (&Value::Null, &"warm-up".into()));
        let p50_us = lines[1]["p50_us"].as_f64().expect("30 latencies");
        assert_eq!(lines[1]["p99_us"], Value::Null, "too few for it");
        assert!((p50_us / 250.0 - 1.0).abs() <= 0.0625, "{p50_us}");
        assert_eq!((&lines[2]["in_flight"], &lines[2]["phase"]), (&0.into(), &"done".into()));
    }

    #[test]
    fn lines_have_their_stage_and_the_last_one_each_part_and_the_sessions() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.ndjson");
        let mut ndjson = open(&path);
        let mut report = two_by_two();
        report.config.plan.stage[0].name = "quiet".to_owned();
        report.whole.scenarios = sessions();
        // A warm-up of 5 s, then stages of 10 s and 20 s.
        ndjson.prepare(&report.config.plan).expect("it needs nothing");
        for (phase, elapsed_ms) in [
            (Phase::Warmup, 4_900),
            (Phase::Steady, 6_000),
            (Phase::Steady, 15_000),
            (Phase::Drain, 35_000),
        ] {
            ndjson.look(&progress(phase, elapsed_ms, NONE, 0));
        }
        ndjson.end(&report.whole).expect("written");
        let lines = lines(&path);
        let stages: Vec<&Value> = lines.iter().map(|line| &line["stage"]).collect();
        assert_eq!(
            stages,
            [&Value::Null, &"quiet".into(), &"2".into(), &Value::Null, &Value::Null]
        );
        let has_either = |line: &Value| ["parts", "scenarios"].map(|key| line.get(key).is_some());
        assert!(lines[..4].iter().all(|line| has_either(line) == [false; 2]), "{lines:?}");
        let scenarios = lines[4]["scenarios"].as_array().expect("a list");
        assert_eq!(scenarios.len(), 2);
        insta::assert_snapshot!(scenarios[0], @r#"{"scenario":"shop, \"new\"","intended":1500,"completed":1490,"failed":7,"unfinished":1,"unsent":2,"p50_us":9000.0,"p99_us":9000.0}"#);
        let parts = lines[4]["parts"].as_array().expect("a list");
        assert_eq!(parts.len(), 4);
        insta::assert_snapshot!(parts[3], @r#"{"scenario":"POST /a, \"b\"","stage":"2","intended":2000,"sent":2000,"unsent":0,"answered":2000,"unexpected_status":5,"failed_checks":0,"timed_out":0,"failed":0,"abandoned":0,"received_bytes":400000,"sent_bytes":200000,"p50_us":8000.0,"p99_us":8000.0}"#);
    }

    #[test]
    fn a_lost_agents_reports_are_taken_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.ndjson");
        let mut ndjson = open(&path);
        ndjson.look(&progress(Phase::Steady, 1_000, [40, 40, 0, 30, 0, 0, 0, 0, 0, 0, 0], 0));
        ndjson.end(&of(Counts::of_outcomes([25, 25, 0, 25, 0, 0, 0]))).expect("written");
        let lines = lines(&path);
        assert_eq!(lines[1]["intended"], -15);
        assert!(lines[1]["interval_s"].as_f64().is_some_and(|length_s| 0.0 < length_s));
        assert_eq!((sum(&lines, "intended"), sum(&lines, "answered")), (25, 25));
    }

    #[test]
    fn a_run_that_never_began_leaves_the_last_ones_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.ndjson");
        fs::write(&path, "the last run\n").expect("written");
        drop(open(&path));
        assert_eq!(fs::read_to_string(&path).expect("text"), "the last run\n");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn a_reader_that_goes_away_ends_the_lines_and_is_reported_once() {
        let (reader, pipe) = io::pipe().expect("a pipe");
        let shown = format!("/proc/self/fd/{}", pipe.as_raw_fd());
        let mut ndjson = open(Path::new(&shown));
        drop(reader);
        ndjson.look(&progress(Phase::Steady, 1_000, NONE, 0));
        ndjson.look(&progress(Phase::Steady, 2_000, NONE, 0));
        let failure = ndjson.end(&of(Counts::default())).expect_err("no reader").to_string();
        let start = format!("--ndjson {shown}: could not be written (");
        assert!(failure.starts_with(&start), "{failure}");
    }
}
