//! The command `judge`: a load generator against the cases of the crate `judge`.

use std::fs;
use std::process::ExitCode;

use calibration::judgement::Judgement;
use judge::suite::{self, Outcome, Setup, Suite};

use crate::args::JudgeArgs;
use crate::failure::{EXIT_INTERRUPTED, Failure, judged};
use crate::json;
use crate::output::{OutputFile, say};
use crate::signals::StopRequest;
use crate::text::judge as text;

/// The file with the result.
const RESULT: &str = "result.json";

/// Judges the tool, prints each case as it ends, and writes the result.
pub(crate) fn judge(args: &JudgeArgs) -> Result<ExitCode, Failure> {
    let tool = suite::find(&args.tool).map_err(|error| Failure::Usage(error.to_string()))?;
    let cases = suite::named(&args.cases).map_err(|name| {
        let names = suite::names();
        Failure::Usage(format!("--case {name}: no such case; give some of {names}"))
    })?;
    fs::create_dir_all(&args.out).map_err(|error| {
        let out = args.out.display();
        let cure = "name a folder where you may write";
        Failure::Usage(format!("--out {out}: can't be created ({error}); {cure}"))
    })?;
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

fn worst(suite: &Suite) -> Judgement {
    let of = |outcome| match outcome {
        Outcome::Held | Outcome::NotClaimed => Judgement::Passed,
        Outcome::Disturbed => Judgement::NotJudged,
        Outcome::Failed | Outcome::Unread => Judgement::Failed,
    };
    suite.cases.iter().map(|result| of(result.outcome)).max().unwrap_or(Judgement::Passed)
}
