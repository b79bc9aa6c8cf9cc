//! The command `import`: a plan file from an access log, a HAR file or a curl line.
//!
//! Each source has a file of its own, which decides what the plan gets and counts what it can't
//! have. Nothing is loaded.

pub(crate) mod curl;
pub(crate) mod har;
pub(crate) mod log;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::plan::redact;
use engine::plan::scenario::Scenario;
use engine::plan::stage::Stage;
use serde::Serialize;

use crate::args::ImportArgs;
use crate::failure::Failure;
use crate::output::{OutputFile, STDOUT, require_distinct, say};
use crate::signals::StopRequest;
use crate::text;

/// What an import writes: the keys of a plan file that a source can give.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct PlanFile {
    /// The URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    /// The method of the only request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<String>,
    /// The headers of all requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) headers: Vec<String>,
    /// Name and password of all requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    /// The body of the only request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<String>,
    /// The longest wait for a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<String>,
    /// Whether any certificate is accepted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) insecure: bool,
    /// The rates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stage: Vec<Stage>,
    /// The requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) scenario: Vec<Scenario>,
}

/// Writes the plan file, and what it has and lacks.
pub(crate) fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let ImportArgs { log, har, curl, .. } = args;
    let sources = [("LOG", log), ("--har", har)];
    let mut files: Vec<(&str, PathBuf)> = sources
        .into_iter()
        .filter_map(|(name, file)| {
            Some((name, file.clone().filter(|it| *it != Path::new(STDOUT))?))
        })
        .collect();
    files.push(("--out", args.out.clone()));
    require_distinct(&files)?;
    let (plan, found, has_secrets) = match (log, har, curl) {
        (Some(log), ..) => {
            let refuse = |problem| refused("LOG", log, problem);
            let of = log::read(&mut open("LOG", log)?, args.fold(), args.routes).map_err(refuse)?;
            let found = text::import::log(log, &of);
            (of.plan, found, false)
        }
        (_, Some(har), _) => {
            let of =
                har::read(open("--har", har)?).map_err(|problem| refused("--har", har, problem))?;
            let found = text::import::har(har, &of);
            (of.plan, found, !of.secrets.is_empty())
        }
        (.., Some(line)) => {
            let of =
                curl::read(line).map_err(|problem| Failure::Usage(format!("--curl: {problem}")))?;
            let found = text::import::curl(&of);
            (of.plan, found, !of.secrets.is_empty())
        }
        (None, None, None) => unreachable!("one of them is required"),
    };
    let file = OutputFile::open("--out", &args.out, &StopRequest::default())?;
    if has_secrets {
        file.keep_private()?;
    }
    let toml = toml::to_string(&plan).expect("a plan can be written as TOML");
    let written = file.finish(|writer| writer.write_all(toml.as_bytes()))?;
    say(&match args.out == Path::new(STDOUT) {
        true => found,
        false => text::import::written(&found, &written, plan.target.is_none()),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The names of the headers of these lines that may hold a secret, each once, in order.
fn secrets<'a>(lines: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let names = lines.into_iter().filter_map(|line| line.split_once(':')).map(|(name, _)| name);
    let names: BTreeSet<&str> = names.filter(|name| !redact::is_shown(name)).collect();
    names.into_iter().map(str::to_owned).collect()
}

fn open(flag: &str, path: &Path) -> Result<BufReader<File>, Failure> {
    let name = if path == Path::new(STDOUT) { Path::new("/dev/stdin") } else { path };
    let opened = File::open(name).and_then(|file| match file.metadata()?.is_dir() {
        true => Err(std::io::ErrorKind::IsADirectory.into()),
        false => Ok(BufReader::new(file)),
    });
    opened.map_err(|error| refused(flag, path, format!("can't be read ({error}); name a file")))
}

fn refused(flag: &str, path: &Path, problem: String) -> Failure {
    Failure::Usage(format!("{flag} {}: {problem}", path.display()))
}
