//! The command `samples`: streams raw samples as CSV or JSON Lines.
//!
//! A sample has the number of its step. Names are in the report alone, so they are added if that is
//! named too.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use engine::plan::Plan;
use engine::record::config::RecorderConfig;
use engine::report::StageSpan;
use engine::report::steps::{PlannedPart, planned};
use engine::samples::{ReadError, Sample, SampleKind, SampleReader, cause_name, plan_digest};
use serde::Serialize;

use crate::args::SamplesArgs;
use crate::csv::quoted;
use crate::failure::{Failure, complain};
use crate::json;
use crate::output::stdout_failed;
use crate::text::figures::things;

/// The first line of the CSV.
const HEADER: &str = "intended_ns,noticed_ns,sent_ns,ended_ns,shard,status,outcome,cause,\
                      received_ns,handled_ns,stamped_by,step,number";
/// What the first line has after it with a report.
const NAMES: &str = ",scenario,stage";

/// One sample as printed: times are ns since the start of the run, and missing values are absent.
#[derive(Debug, Serialize)]
struct Line<'a> {
    intended_ns: u64,
    noticed_ns: u64,
    sent_ns: Option<u64>,
    ended_ns: u64,
    shard: u16,
    status: Option<u16>,
    outcome: &'static str,
    cause: Option<String>,
    received_ns: Option<u64>,
    handled_ns: Option<u64>,
    stamped_by: Option<&'static str>,
    step: u16,
    /// Its number in the run, or that of its session.
    number: u64,
    /// The scenario, with a report.
    #[serde(skip_serializing_if = "Option::is_none")]
    scenario: Option<&'a str>,
    /// The name of the stage, or its number if it has none, with a report; absent if there is only
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<String>,
}

/// The parts of a report's plan.
struct Names {
    config: RecorderConfig,
    parts: Vec<PlannedPart>,
    /// The names of each step's checks; empty if none has any.
    checks: Vec<Vec<String>>,
}

impl Names {
    fn new(plan: &Plan) -> Names {
        let (config, checks) = (RecorderConfig::of_plan(plan), plan.check_names());
        Names { config, parts: planned(plan), checks }
    }

    /// The part that a sample belongs to; `None` if the plan has no such step. The steps of a session
    /// belong to the stage in which its first one was due, which `began` notes.
    fn of(&self, sample: &Sample, began: &mut HashMap<u64, u64>) -> Option<&PlannedPart> {
        let Sample { step, number, intended_ns, .. } = *sample;
        let began_ns = match self.config.scenario_firsts.is_empty() {
            true => intended_ns,
            false if self.config.is_first(step) => {
                began.insert(number, intended_ns);
                intended_ns
            }
            false => began.get(&number).copied().unwrap_or(intended_ns),
        };
        self.parts.get(self.config.part(step, began_ns))
    }

    /// The check that a sample's response failed; `None` if it failed none that the plan has.
    fn check(&self, sample: &Sample) -> Option<String> {
        let of_step = self.checks.get(usize::from(sample.step))?;
        let name = of_step.get(usize::from(sample.check))?;
        (sample.kind == SampleKind::CheckFailed).then(|| name.clone())
    }
}

/// The number of the check that a sample's response failed, from 1, if its name isn't known.
fn check_number(sample: &Sample) -> Option<String> {
    let is_failed = sample.kind == SampleKind::CheckFailed;
    is_failed.then(|| format!("check {}", u16::from(sample.check) + 1))
}

impl<'a> Line<'a> {
    fn new(sample: &Sample, names: Option<&'a Names>, began: &mut HashMap<u64, u64>) -> Line<'a> {
        let part = names.map(|names| names.of(sample, began));
        // Only a response arrives, and is stamped.
        let arrival = Some(sample.ending).filter(|_| sample.is_answered());
        Line {
            intended_ns: sample.intended_ns,
            noticed_ns: sample.noticed_ns,
            sent_ns: (sample.kind != SampleKind::Unsent).then_some(sample.sent_ns),
            ended_ns: sample.ending.ended_ns(),
            shard: sample.shard,
            status: arrival.map(|_| sample.status),
            outcome: sample.kind.name(),
            cause: cause_name(sample.cause)
                .or_else(|| names?.check(sample))
                .or_else(|| check_number(sample)),
            received_ns: arrival.map(|arrival| arrival.received_ns),
            handled_ns: arrival.map(|arrival| arrival.handled_ns),
            stamped_by: arrival.map(|arrival| arrival.stamped_by.name()),
            step: sample.step,
            number: sample.number,
            scenario: part.map(|part| part.map_or("", |part| &part.name)),
            stage: part.flatten().and_then(|part| part.stage.as_ref()).map(StageSpan::label),
        }
    }

    fn write_csv(&self, writer: &mut impl Write) -> io::Result<()> {
        let Line { intended_ns, noticed_ns, ended_ns, shard, outcome, step, number, .. } = self;
        write!(writer, "{intended_ns},{noticed_ns},")?;
        if let Some(sent_ns) = self.sent_ns {
            write!(writer, "{sent_ns}")?;
        }
        write!(writer, ",{ended_ns},{shard},")?;
        if let Some(status) = self.status {
            write!(writer, "{status}")?;
        }
        // The name of a check may be any text.
        let cause = quoted(self.cause.as_deref().unwrap_or(""));
        write!(writer, ",{outcome},{cause},")?;
        match (self.received_ns, self.handled_ns, self.stamped_by) {
            (Some(received_ns), Some(handled_ns), Some(by)) => {
                write!(writer, "{received_ns},{handled_ns},{by},{step},{number}")?;
            }
            _ => write!(writer, ",,,{step},{number}")?,
        }
        if let Some(scenario) = self.scenario {
            write!(writer, ",{},", quoted(scenario))?;
            if let Some(stage) = &self.stage {
                write!(writer, "{}", quoted(stage))?;
            }
        }
        writeln!(writer)
    }
}

/// Why a file could not be streamed to its end.
enum Broken {
    /// The file is damaged.
    File(ReadError),
    /// Standard output could not be written.
    Output(io::Error),
}

/// Streams a file to standard output, a damaged one up to the damage.
pub(crate) fn samples(args: &SamplesArgs) -> Result<ExitCode, Failure> {
    let path = args.file.display();
    let damaged = |error: ReadError| Failure::CouldNotRun(format!("FILE {path}: {error}"));
    open("FILE", &args.file)?;
    let mut reader = SampleReader::open(&args.file).map_err(damaged)?;
    let names = args.report.as_deref().map(|report| names(report, &reader, args)).transpose()?;
    let mut writer = BufWriter::new(io::stdout().lock());
    let streamed = stream(&mut reader, &mut writer, args.csv || !args.json, names.as_ref());
    let flushed = writer.flush();
    match streamed.and_then(|()| flushed.map_err(Broken::Output)) {
        Ok(()) => {}
        Err(Broken::File(error)) => return Err(damaged(error)),
        Err(Broken::Output(error)) => return stdout_failed(error).map(|()| ExitCode::SUCCESS),
    }
    let lost = reader.end().map_or(0, |end| end.lost());
    if 0 < lost {
        complain(&format!("FILE {path}: the run lost {}", things(lost, "sample")));
    }
    Ok(ExitCode::SUCCESS)
}

/// The parts of the plan in this report of the samples' run.
///
/// # Errors
/// The report can't be read, or is of another plan.
fn names(
    report: &Path,
    samples: &SampleReader<impl Read>,
    args: &SamplesArgs,
) -> Result<Names, Failure> {
    let plan = crate::report::read(report)?.config.plan;
    if plan_digest(&plan) != samples.header().plan_digest {
        let (report, file) = (report.display(), args.file.display());
        return Err(Failure::Usage(format!(
            "--report {report}: its plan isn't that of {file}; name the report of the same run"
        )));
    }
    Ok(Names::new(&plan))
}

/// Opens the file of samples given as the argument `name`.
///
/// # Errors
/// A path that can't be read, as a usage error.
pub(crate) fn open(name: &str, path: &Path) -> Result<File, Failure> {
    let opened = File::open(path).and_then(|file| match file.metadata()?.is_dir() {
        true => Err(io::ErrorKind::IsADirectory.into()),
        false => Ok(file),
    });
    opened.map_err(|error| {
        let path = path.display();
        let cure = "name a file written by `run --raw` or `controller --raw`";
        Failure::Usage(format!("{name} {path}: can't be read ({error}); {cure}"))
    })
}

fn stream(
    samples: impl Iterator<Item = Result<Sample, ReadError>>,
    writer: &mut impl Write,
    csv: bool,
    names: Option<&Names>,
) -> Result<(), Broken> {
    if csv {
        let names = names.map_or("", |_| NAMES);
        writeln!(writer, "{HEADER}{names}").map_err(Broken::Output)?;
    }
    let mut began = HashMap::new();
    for sample in samples {
        let line = Line::new(&sample.map_err(Broken::File)?, names, &mut began);
        let written =
            if csv { line.write_csv(writer) } else { json::write_line(&line, &mut *writer) };
        written.map_err(Broken::Output)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine::record::stamps::{Ending, StampedBy};
    use engine::sys::units::Nanos;

    use super::*;
    use crate::text::reports::two_by_two;

    fn text(csv: bool, names: Option<&Names>) -> String {
        let answered = Sample {
            intended_ns: 1_000,
            noticed_ns: 1_200,
            sent_ns: 1_300,
            ending: Ending {
                received_ns: 250_000,
                handled_ns: 255_000,
                stamped_by: StampedBy::Kernel,
            },
            waited: false,
            shard: 1,
            step: 2,
            number: 7,
            status: 200,
            check: 0,
            kind: SampleKind::Answered,
            cause: 0,
        };
        let given_up = Ending::at(250_000);
        let failed =
            Sample { status: 0, kind: SampleKind::Failed, cause: 6, ending: given_up, ..answered };
        let unsent = Sample { sent_ns: 0, kind: SampleKind::Unsent, cause: 64, ..failed };
        let mut bytes = Vec::new();
        let samples = [answered, failed, unsent].into_iter().map(Ok);
        assert!(stream(samples, &mut bytes, csv, names).is_ok());
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn a_line_shows_what_a_request_has() {
        insta::assert_snapshot!(text(true, None), @r"
        intended_ns,noticed_ns,sent_ns,ended_ns,shard,status,outcome,cause,received_ns,handled_ns,stamped_by,step,number
        1000,1200,1300,250000,1,200,answered,,250000,255000,kernel,2,7
        1000,1200,1300,250000,1,,failed,reset,,,,2,7
        1000,1200,,250000,1,,unsent,dropped,,,,2,7
        ");
        insta::assert_snapshot!(text(false, None), @r#"
        {"intended_ns":1000,"noticed_ns":1200,"sent_ns":1300,"ended_ns":250000,"shard":1,"status":200,"outcome":"answered","cause":null,"received_ns":250000,"handled_ns":255000,"stamped_by":"kernel","step":2,"number":7}
        {"intended_ns":1000,"noticed_ns":1200,"sent_ns":1300,"ended_ns":250000,"shard":1,"status":null,"outcome":"failed","cause":"reset","received_ns":null,"handled_ns":null,"stamped_by":null,"step":2,"number":7}
        {"intended_ns":1000,"noticed_ns":1200,"sent_ns":null,"ended_ns":250000,"shard":1,"status":null,"outcome":"unsent","cause":"dropped","received_ns":null,"handled_ns":null,"stamped_by":null,"step":2,"number":7}
        "#);
    }

    #[test]
    fn a_report_adds_the_names_of_scenarios_and_stages() {
        let mut plan = two_by_two().config.plan;
        plan.warmup = Nanos(0);
        // The samples are of the third step.
        plan.scenario.insert(0, plan.scenario[0].clone());
        let names = Names::new(&plan);
        let csv = text(true, Some(&names));
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines[0].ends_with(",stamped_by,step,number,scenario,stage"), "{csv}");
        assert!(lines[1].ends_with(",kernel,2,7,\"POST /a, \"\"b\"\"\",1"), "{csv}");
        let json = text(false, Some(&names));
        assert!(
            json.contains(r#""step":2,"number":7,"scenario":"POST /a, \"b\"","stage":"1"}"#),
            "{json}"
        );
        plan.stage[0].name = "a, b".to_owned();
        let named = text(true, Some(&Names::new(&plan)));
        assert!(named.lines().nth(1).is_some_and(|line| line.ends_with(",\"a, b\"")), "{named}");
        // One stage has no number.
        plan.stage.clear();
        let csv = text(true, Some(&Names::new(&plan)));
        assert!(csv.lines().nth(1).is_some_and(|line| line.ends_with("\"\"b\"\"\",")), "{csv}");
    }

    #[test]
    fn causes_need_no_quotes() {
        let names: Vec<String> = (0..=u16::MAX).filter_map(cause_name).collect();
        assert!(10 < names.len());
        assert!(names.iter().all(|name| !name.contains([',', '"', '\n'])), "{names:?}");
    }
}
