//! Runs a tool through the cases, and what came of it, as one document.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};
use target::{Ledger, TargetConfig, TargetError};
use thiserror::Error;

use crate::cases::{CASES, Case, Finding, Judged, log, said};
use crate::figures::Figures;
use crate::process::{Conditions, Ended, ProcessError, run};
use crate::quiet::{Noise, Sleeper};
use crate::tool::{Asked, Load, Mode, Tool, ToolError};

/// The version of the document.
pub const SCHEMA: u32 = 1;
/// How long a tool may take beyond its run: to connect, to wait for slow responses, to print.
const LONGER: Duration = Duration::from_secs(20);
/// How long the target stands still before its ledger counts that, ms.
const STANDSTILL_MS: f64 = 300.0;
/// The longest that a tool's version may take.
const VERSION_MAX: Duration = Duration::from_secs(5);

/// How a tool is judged.
pub struct Setup<'a> {
    /// The folder for what it prints, which exists.
    pub folder: &'a Path,
    /// Half the length of each run: figures scatter more, and bands are wider.
    pub quick: bool,
    /// True if the user asked to stop.
    pub asked: &'a dyn Fn() -> bool,
    /// Called with each case as it has been judged.
    pub tell: &'a mut dyn FnMut(&CaseResult),
}

/// What came of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Each figure is within its bounds.
    Held,
    /// One isn't.
    Failed,
    /// The tool doesn't claim what the case is about.
    NotClaimed,
    /// There are no figures to judge.
    Unread,
    /// A figure is out of its bounds by no more than what the machine may have been late.
    Disturbed,
}

/// A case and what came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CaseResult {
    /// The case.
    pub case: String,
    /// What must hold.
    #[serde(default)]
    pub holds: String,
    /// How the truth is known.
    #[serde(default)]
    pub truth: String,
    /// How far a figure may be from it.
    #[serde(default)]
    pub tolerance: String,
    /// What the maintainers of a tool could reply; may be empty.
    #[serde(default)]
    pub reply: String,
    /// The flags with which the tool was judged as well.
    #[serde(default)]
    pub flags: String,
    /// What came of it.
    pub outcome: Outcome,
    /// Why, if no figure says it.
    pub why: Option<String>,
    /// The command line.
    pub command: Option<String>,
    /// Each figure with its bounds.
    pub findings: Vec<Finding>,
    /// What the tool printed.
    pub figures: Option<Figures>,
    /// What the target did.
    pub target: Option<Counts>,
    /// What disturbed it.
    pub noise: Option<Noise>,
}

/// The counts of the target's ledger.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// Requests read.
    pub received: u64,
    /// Requests answered.
    pub answered: u64,
    /// Requests whose connection was closed first.
    pub closed_by_peer_unanswered: u64,
    /// Requests still held when the tool had ended.
    pub open: u64,
}

/// A tool and what came of each case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Suite {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The tool.
    pub tool: String,
    /// The first line of its version, if it has one.
    pub version: Option<String>,
    /// The version of the judge.
    pub judge: String,
    /// Half the length of each run.
    pub quick: bool,
    /// The machine.
    pub machine: Machine,
    /// True if the user asked to stop: later cases are missing.
    pub interrupted: bool,
    /// The cases, in order.
    pub cases: Vec<CaseResult>,
}

/// The machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's version.
    pub kernel: String,
    /// The processor's name, if it has one.
    pub processor: Option<String>,
    /// The cores that this process may use.
    pub cores: usize,
}

/// Why there is no result.
#[derive(Debug, Error)]
pub enum JudgeError {
    /// The tool's program can't be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The target can't be run.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The access log can't be written, or /proc not read.
    #[error("the access log of the case replay, or /proc: {0}")]
    System(#[from] io::Error),
}

/// Judges a tool by these cases.
///
/// # Errors
/// If the tool isn't installed, or the target can't start, and the tool has run in no case.
pub fn judge(
    tool: &Tool,
    cases: &[&'static Case],
    setup: &mut Setup<'_>,
) -> Result<Suite, JudgeError> {
    let version = match &tool.version {
        None => None,
        Some(words) => {
            let output = (setup.folder, "version");
            let ran = run(words, "", VERSION_MAX, output, Conditions::default(), setup.asked)?;
            let line = |text: &str| text.lines().find(|line| !line.is_empty()).map(str::to_owned);
            // Some print it as an error, and some with one, where others say how they are used.
            let other = line(&ran.stderr).filter(|_| !ran.has_failed(&[0]));
            line(&ran.stdout).or(other)
        }
    };
    let (mut results, mut interrupted) = (Vec::new(), false);
    let all = cases
        .iter()
        .flat_map(|case| tool.flags(case.name).into_iter().map(move |flags| (*case, flags)));
    for (case, flags) in all {
        let result = match judge_case(tool, case, flags, setup) {
            Ok(Some(result)) => result,
            Ok(None) => {
                interrupted = true;
                break;
            }
            Err(error) if results.iter().all(|one: &CaseResult| one.command.is_none()) => {
                return Err(error);
            }
            // What has been judged is kept.
            Err(error) => {
                let (outcome, why) = (Outcome::Unread, Some(error.to_string()));
                CaseResult { outcome, why, ..CaseResult::of(case, flags) }
            }
        };
        (setup.tell)(&result);
        results.push(result);
    }
    Ok(Suite {
        schema: SCHEMA,
        tool: tool.name.clone(),
        version,
        judge: env!("CARGO_PKG_VERSION").to_owned(),
        quick: setup.quick,
        machine: Machine::this(),
        interrupted,
        cases: results,
    })
}

/// The tool of this name that is shipped, or else the one in this file.
///
/// # Errors
/// If there is neither, or the file can't be used.
pub fn find(name_or_file: &str) -> Result<Tool, ToolError> {
    let tool = Tool::find(name_or_file)?;
    let unknown = tool.also().find(|name| CASES.iter().all(|case| case.name != *name));
    match unknown {
        None => Ok(tool),
        Some(name) => {
            let problem = format!("also.{name}: no such case; give one of {}", names());
            Err(ToolError { file: format!("{}.toml", tool.name), problem })
        }
    }
}

/// The names of all cases.
pub fn names() -> String {
    let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
    names.join(", ")
}

/// The cases of these names, or all without any.
///
/// # Errors
/// A name that no case has.
pub fn named(names: &[String]) -> Result<Vec<&'static Case>, String> {
    if names.is_empty() {
        return Ok(CASES.iter().collect());
    }
    let find = |name: &String| CASES.iter().find(|case| case.name == name).ok_or(name.clone());
    names.iter().map(find).collect()
}

/// Judges a tool by a case; `None` if the user asked to stop.
fn judge_case(
    tool: &Tool,
    case: &'static Case,
    flags: &str,
    setup: &mut Setup<'_>,
) -> Result<Option<CaseResult>, JudgeError> {
    let mut result = CaseResult::of(case, flags);
    let mode = (case.mode)(tool).and_then(|mode| {
        let prints = case.figures.is_empty() || tool.prints(case.figures);
        let lacks = || format!("its file names no figure of {}", case.figures.join(" or "));
        prints.then_some(mode).ok_or_else(lacks)
    });
    let mode = match mode {
        Ok(mode) => mode,
        Err(why) => return Ok(Some(CaseResult { why: Some(why), ..result })),
    };
    let seconds = if setup.quick { case.load.seconds.div_ceil(2) } else { case.load.seconds };
    let load = Load { seconds, ..case.load };
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    // Tools that pin themselves leave the first core free.
    let config = TargetConfig { cores: vec![first_core()?], ..TargetConfig::new(loopback) };
    let config = (case.target)(config, f64::from(seconds));
    let target = target::start(config)?;
    let url = format!("http://{}/", target.local_addr());
    let access_log = setup.folder.join("access.log");
    if mode == Mode::Replay {
        fs::write(&access_log, log(seconds))?;
    }
    let access_log = access_log.to_string_lossy();
    let asked = Asked { load, url: &url, log: &access_log, flags };
    let (words, stdin) = tool.command(mode, &asked).expect("a case's mode has its command");
    let command = shlex::try_join(words.iter().map(String::as_str)).unwrap_or(words.join(" "));
    result.command = Some(command);
    let conditions = (case.conditions)(f64::from(seconds));
    let sleeper = Sleeper::start()?;
    let longest = Duration::from_secs(seconds.into()) + LONGER;
    let name = if flags.is_empty() { case.name.to_owned() } else { format!("{}-also", case.name) };
    let output = (setup.folder, name.as_str());
    let ran = run(&words, &stdin, longest, output, conditions, setup.asked);
    let noise = sleeper.noise()?;
    let ledger = target.stop()?;
    // A target that stood still was late itself.
    let noise = match ledger.standstills {
        0 => noise,
        _ => Noise { late_ms: noise.late_ms.max(STANDSTILL_MS), ..noise },
    };
    let ran = ran?;
    if ran.ended == Ended::Stopped {
        return Ok(None);
    }
    result.target = Some(Counts::of(&ledger));
    result.noise = Some(noise);
    result.outcome = Outcome::Unread;
    result.why = ran.problem(&tool.exits);
    if case.may_fail && ran.has_failed(&tool.exits) {
        // Unless it always fails.
        let works = works(tool, mode, asked, setup)?;
        if works == Some(true) {
            (result.outcome, result.findings, result.why) = (Outcome::Held, vec![said()], None);
        }
        return Ok(works.map(|_| result));
    }
    // Where the ledger alone decides, no request is a figure like any other.
    if ledger.received == 0 && !case.figures.is_empty() {
        result.why.get_or_insert("none of its requests reached the target".to_owned());
    }
    if result.why.is_some() {
        return Ok(Some(result));
    }
    let figures = match Figures::read(tool, &ran.stdout) {
        Ok(figures) => figures,
        Err(error) => return Ok(Some(CaseResult { why: Some(error.to_string()), ..result })),
    };
    result.findings = (case.judge)(&Judged {
        tool,
        load,
        figures: &figures,
        ledger: &ledger,
        warned: tool.has_warned(&ran),
        stopped: &ran.stopped,
    });
    result.figures = Some(figures);
    let failed = || result.findings.iter().filter(|finding| !finding.holds());
    result.outcome = if result.findings.is_empty() {
        result.why = Some("it printed none of the figures that this case judges".to_owned());
        Outcome::Unread
    } else if failed().next().is_none() {
        Outcome::Held
    } else if failed().all(|finding| finding.may_be_disturbed(&noise)) {
        Outcome::Disturbed
    } else {
        Outcome::Failed
    };
    Ok(Some(result))
}

/// True if the tool runs without a case's conditions, for a second; `None` if the user
/// asked to stop.
fn works(
    tool: &Tool,
    mode: Mode,
    asked: Asked<'_>,
    setup: &mut Setup<'_>,
) -> Result<Option<bool>, JudgeError> {
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let target = target::start(TargetConfig::new(loopback))?;
    let url = format!("http://{}/", target.local_addr());
    let load = Load { seconds: 1, ..asked.load };
    let asked = Asked { load, url: &url, ..asked };
    let (words, stdin) = tool.command(mode, &asked).expect("it has run");
    let output = (setup.folder, "without-conditions");
    let longest = Duration::from_secs(1) + LONGER;
    let ran = run(&words, &stdin, longest, output, Conditions::default(), setup.asked)?;
    let works = ran.problem(&tool.exits).is_none() && 0 < target.stop()?.received;
    Ok((ran.ended != Ended::Stopped).then_some(works))
}

/// The first core that this process may use.
fn first_core() -> Result<usize, ProcessError> {
    let allowed = sched_getaffinity(None).map_err(io::Error::from)?;
    Ok((0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core)).unwrap_or_default())
}

impl CaseResult {
    /// A case that hasn't been run.
    fn of(case: &'static Case, flags: &str) -> CaseResult {
        CaseResult {
            case: case.name.to_owned(),
            holds: case.holds.to_owned(),
            truth: case.truth.to_owned(),
            tolerance: case.tolerance.to_owned(),
            reply: case.reply.to_owned(),
            flags: flags.to_owned(),
            outcome: Outcome::NotClaimed,
            why: None,
            command: None,
            findings: Vec::new(),
            figures: None,
            target: None,
            noise: None,
        }
    }
}

impl Counts {
    fn of(ledger: &Ledger) -> Counts {
        Counts {
            received: ledger.received,
            answered: ledger.answered,
            closed_by_peer_unanswered: ledger.closed_by_peer_unanswered,
            open: ledger.in_flight,
        }
    }
}

impl Machine {
    fn this() -> Machine {
        let names = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = names.lines().find_map(|line| line.strip_prefix("model name"));
        Machine {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            processor: name.map(|name| name.trim_start_matches([' ', '\t', ':']).to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}
