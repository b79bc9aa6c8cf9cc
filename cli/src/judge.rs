//! The command `judge`: a load generator against the cases of the crate `judge`, or the page of
//! several generators' results.

use std::fs::{self, File};
use std::io::{BufReader, Write as _};
use std::path::Path;
use std::process::ExitCode;

use calibration::judgement::Judgement;
use judge::suite::{self, Outcome, Setup, Suite};

use crate::args::{JudgeArgs, PAGE};
use crate::failure::{EXIT_INTERRUPTED, Failure, judged};
use crate::json;
use crate::output::{OutputFile, say};
use crate::page::judge::pages;
use crate::signals::StopRequest;
use crate::text::judge as text;

/// The file with the result.
const RESULT: &str = "result.json";

/// Judges the tool, prints each case as it ends, and writes the result; or writes the page.
pub(crate) fn judge(args: &JudgeArgs) -> Result<ExitCode, Failure> {
    if args.tool == PAGE {
        return page(args);
    }
    if let Some(file) = args.results.first() {
        return Err(Failure::Usage(format!(
            "{}: `judge` takes one tool; for results, give `{PAGE}` before their files",
            file.display()
        )));
    }
    let tool = suite::find(&args.tool).map_err(|error| Failure::Usage(error.to_string()))?;
    let cases = suite::named(&args.cases).map_err(|name| {
        let names = suite::names();
        Failure::Usage(format!("--case {name}: no such case; give some of {names}"))
    })?;
    create(&args.out)?;
    let stop = StopRequest::listen()?;
    let file = OutputFile::open("--out", &args.out.join(RESULT), &stop)?;
    say(&text::head(&tool.name, args.quick))?;
    let mut setup = Setup {
        folder: &args.out,
        quick: args.quick,
        asked: &|| stop.asked(),
        // A row that can't be printed is no loss: result.json has all of them.
        tell: &mut |result| drop(say(&text::case(result))),
    };
    let suite = suite::judge(&tool, &cases, &mut setup)
        .map_err(|error| Failure::CouldNotRun(error.to_string()))?;
    let written = file.finish(|file| json::write(&suite, file))?;
    say(&text::end(&suite, &written))?;
    Ok(match suite.interrupted {
        true => ExitCode::from(EXIT_INTERRUPTED),
        false => judged(worst(&suite)),
    })
}

/// Writes the page of results, as HTML and as Markdown.
fn page(args: &JudgeArgs) -> Result<ExitCode, Failure> {
    let unused = [("--case", !args.cases.is_empty()), ("--quick", args.quick)];
    if let Some((flag, _)) = unused.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::Usage(format!("{flag}: `{PAGE}` runs nothing; omit {flag}")));
    }
    if args.results.is_empty() {
        return Err(Failure::Usage(format!(
            "{PAGE}: no results; name the {RESULT} of each tool, as `judge` wrote it"
        )));
    }
    let suites = args.results.iter().map(|path| read(path));
    let suites: Vec<Suite> = suites.collect::<Result<_, Failure>>()?;
    create(&args.out)?;
    let written = pages(&suites).into_iter().map(|(name, page)| {
        let file = OutputFile::open("--out", &args.out.join(name), &StopRequest::default())?;
        file.finish(|file| file.write_all(page.as_bytes()))
    });
    say(&text::page(&written.collect::<Result<Vec<_>, Failure>>()?))?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Suite, Failure> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| {
        let cure = format!("name a {RESULT} that `judge` wrote");
        Failure::Usage(format!("{shown}: can't be read ({error}); {cure}"))
    })?;
    json::read_judged(BufReader::new(file))
        .map_err(|error| Failure::CouldNotRun(format!("{shown}: {error}")))
}

fn create(out: &Path) -> Result<(), Failure> {
    fs::create_dir_all(out).map_err(|error| {
        let out = out.display();
        let cure = "name a folder where you may write";
        Failure::Usage(format!("--out {out}: can't be created ({error}); {cure}"))
    })
}

fn worst(suite: &Suite) -> Judgement {
    let of = |outcome| match outcome {
        Outcome::Held | Outcome::NotClaimed => Judgement::Passed,
        Outcome::Disturbed => Judgement::NotJudged,
        Outcome::Failed | Outcome::Unread => Judgement::Failed,
    };
    suite.cases.iter().map(|result| of(result.outcome)).max().unwrap_or(Judgement::Passed)
}
