//! The command `samples`: streams raw samples as CSV or JSON Lines.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use engine::samples::{ReadError, Sample, SampleKind, SampleReader, cause_name};
use serde::Serialize;

use crate::args::SamplesArgs;
use crate::failure::{Failure, complain};
use crate::json;
use crate::output::stdout_failed;

/// The first line of the CSV.
const HEADER: &str = "intended_ns,noticed_ns,sent_ns,ended_ns,shard,status,outcome,cause,\
                      received_ns,handled_ns,stamped_by,step";

/// One sample as printed: times are ns since the start of the run, and missing values are absent.
#[derive(Debug, Serialize)]
struct Line {
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
}

impl Line {
    fn new(sample: &Sample) -> Line {
        // Only a response arrives, and is stamped.
        let arrival = Some(sample.ending).filter(|_| sample.kind == SampleKind::Answered);
        Line {
            intended_ns: sample.intended_ns,
            noticed_ns: sample.noticed_ns,
            sent_ns: (sample.kind != SampleKind::Unsent).then_some(sample.sent_ns),
            ended_ns: sample.ending.ended_ns(),
            shard: sample.shard,
            status: arrival.map(|_| sample.status),
            outcome: sample.kind.name(),
            cause: cause_name(sample.cause),
            received_ns: arrival.map(|arrival| arrival.received_ns),
            handled_ns: arrival.map(|arrival| arrival.handled_ns),
            stamped_by: arrival.map(|arrival| arrival.stamped_by.name()),
            step: sample.step,
        }
    }

    fn write_csv(&self, writer: &mut impl Write) -> io::Result<()> {
        let Line { intended_ns, noticed_ns, ended_ns, shard, outcome, step, .. } = self;
        write!(writer, "{intended_ns},{noticed_ns},")?;
        if let Some(sent_ns) = self.sent_ns {
            write!(writer, "{sent_ns}")?;
        }
        write!(writer, ",{ended_ns},{shard},")?;
        if let Some(status) = self.status {
            write!(writer, "{status}")?;
        }
        // Causes are words joined by colons and underscores, which need no quotes.
        write!(writer, ",{outcome},{},", self.cause.as_deref().unwrap_or(""))?;
        match (self.received_ns, self.handled_ns, self.stamped_by) {
            (Some(received_ns), Some(handled_ns), Some(by)) => {
                writeln!(writer, "{received_ns},{handled_ns},{by},{step}")
            }
            _ => writeln!(writer, ",,,{step}"),
        }
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
    let file = open("FILE", &args.file)?;
    let mut reader = SampleReader::new(BufReader::new(file)).map_err(damaged)?;
    let mut writer = BufWriter::new(io::stdout().lock());
    let streamed = stream(&mut reader, &mut writer, args.csv || !args.json);
    let flushed = writer.flush();
    match streamed.and_then(|()| flushed.map_err(Broken::Output)) {
        Ok(()) => {}
        Err(Broken::File(error)) => return Err(damaged(error)),
        Err(Broken::Output(error)) => return stdout_failed(error).map(|()| ExitCode::SUCCESS),
    }
    let lost = reader.end().map_or(0, |end| end.lost());
    if 0 < lost {
        complain(&format!("FILE {path}: {lost} samples were lost during the run"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the file of samples given as the argument `name`.
/// Opens the file of samples given as the argument `name`.
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
) -> Result<(), Broken> {
    if csv {
        writeln!(writer, "{HEADER}").map_err(Broken::Output)?;
    }
    for sample in samples {
        let line = Line::new(&sample.map_err(Broken::File)?);
        let written =
            if csv { line.write_csv(writer) } else { json::write_line(&line, &mut *writer) };
        written.map_err(Broken::Output)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine::record::stamps::{Ending, StampedBy};

    use super::*;

    fn text(csv: bool) -> String {
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
            status: 200,
            kind: SampleKind::Answered,
            cause: 0,
        };
        let given_up = Ending::at(250_000);
        let failed =
            Sample { status: 0, kind: SampleKind::Failed, cause: 6, ending: given_up, ..answered };
        let unsent = Sample { sent_ns: 0, kind: SampleKind::Unsent, cause: 64, ..failed };
        let mut bytes = Vec::new();
        let samples = [answered, failed, unsent].into_iter().map(Ok);
        assert!(stream(samples, &mut bytes, csv).is_ok());
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn a_line_shows_what_a_request_has() {
        insta::assert_snapshot!(text(true), @r"
        intended_ns,noticed_ns,sent_ns,ended_ns,shard,status,outcome,cause,received_ns,handled_ns,stamped_by,step
        1000,1200,1300,250000,1,200,answered,,250000,255000,kernel,2
        1000,1200,1300,250000,1,,failed,reset,,,,2
        1000,1200,,250000,1,,unsent,dropped,,,,2
        ");
        insta::assert_snapshot!(text(false), @r#"
        {"intended_ns":1000,"noticed_ns":1200,"sent_ns":1300,"ended_ns":250000,"shard":1,"status":200,"outcome":"answered","cause":null,"received_ns":250000,"handled_ns":255000,"stamped_by":"kernel","step":2}
        {"intended_ns":1000,"noticed_ns":1200,"sent_ns":1300,"ended_ns":250000,"shard":1,"status":null,"outcome":"failed","cause":"reset","received_ns":null,"handled_ns":null,"stamped_by":null,"step":2}
        {"intended_ns":1000,"noticed_ns":1200,"sent_ns":null,"ended_ns":250000,"shard":1,"status":null,"outcome":"unsent","cause":"dropped","received_ns":null,"handled_ns":null,"stamped_by":null,"step":2}
        "#);
    }

    #[test]
    fn causes_need_no_quotes() {
        let names: Vec<String> = (0..=u16::MAX).filter_map(cause_name).collect();
        assert!(10 < names.len());
        assert!(names.iter().all(|name| !name.contains([',', '"', '\n'])), "{names:?}");
    }
}
