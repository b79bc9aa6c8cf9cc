//! Many runs from one plan, for `sweep`, `search` and `ceiling`: to the end, to the first signal,
//! or to the first run that fails. Results until then are kept.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use engine::plan::Plan;
use engine::plan::body::SharedBody;
use engine::report::Report;
use engine::sys::units::{CoreList, Nanos};
use probe::document::{Made, SCHEMA};
use probe::plot::Mark;
use probe::proof::Trial;
use probe::step::{Step, none_is_valid};
use probe::{Ask, Change, Series, SeriesProgress, make_runs};
use serde::Serialize;

use crate::agent_group::{AgentGroup, RunFiles, require_for_agents};
use crate::args::{AgentGroupArgs, ResultArgs, RunArgs};
use crate::drive::{Extras, drive_with};
use crate::failure::{EXIT_INTERRUPTED, EXIT_INVALID, EXIT_MISSED, Failure, complain};
use crate::output::{OutputFile, Results, say};
use crate::progress::{Announce, Progress, ProgressLine, Shown, View};
use crate::run::check_files;
use crate::saved::Reference;
use crate::signals::{POLL_INTERVAL, StopRequest};
use crate::text::series as text;
use crate::{json, planning};

/// The files of a series, opened before its first run.
pub(crate) struct Files {
    out: Option<OutputFile>,
    csv: Option<OutputFile>,
    svg: Option<OutputFile>,
    assumed: Option<String>,
}

impl Files {
    /// Opens the requested files.
    ///
    /// # Errors
    /// One that can't be written, or is named twice.
    pub(crate) fn open(
        args: &RunArgs,
        plan: &Plan,
        wanted: &ResultArgs,
        svg: Option<&PathBuf>,
        stop: &StopRequest,
    ) -> Result<Files, Failure> {
        check_files(args.plan.as_ref(), plan, wanted, svg)?;
        let open = |flag, path: Option<&PathBuf>| {
            path.map(|path| OutputFile::open(flag, path, stop)).transpose()
        };
        Ok(Files {
            out: open("--out", wanted.files.get("out"))?,
            csv: open("--csv", wanted.files.get("csv"))?,
            svg: open("--svg", svg)?,
            assumed: wanted.assumed.clone(),
        })
    }

    /// Writes the results: the document, the steps as CSV followed by the trials of a ceiling, and
    /// the plot with its mark. Without a step that has a latency there is no plot. Notes the plan's
    /// assumptions.
    pub(crate) fn write(
        self,
        document: &impl Serialize,
        made: &Made,
        trials: &[Trial],
        mark: Option<&Mark>,
        results: &mut Results,
    ) {
        self.assumed.iter().for_each(|assumed| complain(assumed));
        if let Some(out) = self.out {
            results.add(out.finish(|writer| json::write(document, writer)));
        }
        if let Some(csv) = self.csv {
            results.add(csv.finish(|writer| probe::csv::write(writer, &made.steps, trials)));
        }
        let Some(svg) = self.svg else { return };
        let title = made.plan.as_ref().map_or(String::new(), |plan| plan.target.clone());
        match probe::plot::svg(&title, &made.steps, mark) {
            Ok(plot) => results.add(svg.finish(|writer| writer.write_all(plot.as_bytes()))),
            // A stopped series may have nothing to draw, and is already reported as stopped.
            Err(_) if made.interrupted => {}
            Err(problem) => results.failures.push(Failure::CouldNotRun(format!(
                "--svg: not written ({problem}); give the steps a longer --duration"
            ))),
        }
    }
}

/// The plan of this command's steps, without anything that only a single run has.
///
/// # Errors
/// A flag, or a key of the plan file, that the command can't use, or that needs a run on this
/// machine although there are agents.
pub(crate) fn plan(
    command: &'static str,
    args: &RunArgs,
    agents: &AgentGroupArgs,
) -> Result<(Plan, ResultArgs), Failure> {
    let (plan, results) = match agents.are_named() {
        true => planning::plan(&[command, "controller"], args),
        false => planning::plan(&[command], args),
    }?;
    if plan.has_sessions() {
        let problem = "sessions go on after the window, and each step of a series is judged by what \
                       was sent in it";
        return Err(Failure::Usage(format!("[[scenario]]: {problem}; {OR_RUN}")));
    }
    Ok((plan, results))
}

/// The cure where only a single run will do.
const OR_RUN: &str = "give each scenario one step, or use `truetail run`";

/// The agents that make the runs of a series, if any are named.
///
/// # Errors
/// A flag concerns agents although there are none, or can't be used by a series on agents; or there
/// are too few agents.
fn agent_group(
    args: &AgentGroupArgs,
    plan: &Plan,
    stop: &StopRequest,
) -> Result<Option<AgentGroup>, Failure> {
    let key = args.key_file.as_ref().map(|file| file.display().to_string());
    let others = [
        ("--weights", (!args.weights.is_empty()).then(String::new)),
        ("--key-file", key),
        ("--expect", args.expect.map(|expected| expected.to_string())),
        ("--agents-wait", args.agents_wait.map(|longest| longest.to_string())),
    ];
    for (flag, value) in others {
        if let (Some(value), false) = (value, args.are_named()) {
            let given = format!("{flag} {value}");
            let line = format!("{}: there are no agents; give --agents, or omit it", given.trim());
            return Err(Failure::Usage(line));
        }
    }
    if args.on_agent_loss.is_some() {
        return Err(Failure::Usage(
            "--on-agent-loss: a step without an agent would be of another load, so a lost one ends \
             the series; omit it"
                .to_owned(),
        ));
    }
    if !args.are_named() {
        return Ok(None);
    }
    require_for_agents(plan)?;
    AgentGroup::gather(args, stop).map(Some)
}

/// Makes the runs of a series.
pub(crate) struct Runs<'a> {
    /// The plan of each, except for its rate, window and seed.
    pub(crate) plan: Plan,
    /// The body of all runs, which the first one reads.
    pub(crate) body: SharedBody,
    /// Rest between two runs.
    pub(crate) cooldown: Nanos,
    /// The progress display of a run.
    pub(crate) shown: Shown,
    /// True if the length of the series is announced before the first run.
    pub(crate) announced: bool,
    /// The calibration for each.
    pub(crate) reference: Option<Reference>,
    /// The agents that make them; `None` if this machine does.
    pub(crate) agents: Option<AgentGroup>,
    /// The request to stop them.
    pub(crate) stop: &'a StopRequest,
}

/// The end of a series, before its result is known.
pub(crate) struct Ended {
    /// The steps, and whether they are complete.
    pub(crate) made: Made,
    /// The failure of the last run, if any.
    pub(crate) failure: Option<Failure>,
}

/// The result of a complete series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// An answer.
    Something,
    /// No rate that passes.
    Nothing,
    /// No step could be judged.
    NotJudged,
}

/// The exit code, given the result of a series if it is complete.
pub(crate) fn exit_code(
    failure: Option<&Failure>,
    made: &Made,
    results: &Results,
    found: Found,
) -> ExitCode {
    results.exit_code(match failure {
        Some(failure) => failure.report(),
        None if made.interrupted => ExitCode::from(EXIT_INTERRUPTED),
        None if none_is_valid(&made.steps) => ExitCode::from(EXIT_INVALID),
        None => match found {
            Found::Something => ExitCode::SUCCESS,
            Found::Nothing => ExitCode::from(EXIT_MISSED),
            Found::NotJudged => ExitCode::from(EXIT_INVALID),
        },
    })
}

impl<'a> Runs<'a> {
    /// Opens the display, and the agents that make the runs.
    ///
    /// # Errors
    /// The display, the agents or the calibration can't be used.
    pub(crate) fn open(
        plan: Plan,
        args: &AgentGroupArgs,
        wanted: &ResultArgs,
        cooldown: Nanos,
        stop: &'a StopRequest,
    ) -> Result<Runs<'a>, Failure> {
        let shown = Progress::shown(wanted.progress, wanted.quiet)?;
        let agents = agent_group(args, &plan, stop)?;
        let reference = match &agents {
            // A calibration is of one machine.
            Some(_) => None,
            None => Some(Reference::new(wanted.calibration.as_deref())?),
        };
        let (body, announced) = (SharedBody::default(), !wanted.quiet);
        Ok(Runs { plan, body, cooldown, shown, announced, reference, agents, stop })
    }

    /// Makes the runs: prints the `head` once the first can run, and the row of each as it ends,
    /// marked if a signal interrupted it. `steps` are those of the series.
    ///
    /// # Errors
    /// The first run failed: nothing was measured.
    pub(crate) fn make<S: Series>(
        &self,
        series: &mut S,
        head: &str,
        steps: impl Fn(&S) -> &[Step],
        row: impl Fn(&Step, bool) -> String,
    ) -> Result<Ended, Failure> {
        let mut first: Option<Report> = None;
        let mut unfinished = None;
        let mut since = Instant::now();
        // A row that can't be printed ends the series, once its step is kept.
        let mut said = Ok(());
        let ended = make_runs(series, |ask, progress| {
            std::mem::replace(&mut said, Ok(()))?;
            if first.is_some() && !self.rest(ask.rest) {
                return Ok(ControlFlow::Break(()));
            }
            let (head, announce) = match (&first, self.announced) {
                (None, true) => (head, Announce::Series(progress)),
                (None, false) => (head, Announce::Nothing),
                (Some(_), _) => ("", Announce::Nothing),
            };
            let report = match self.run(ask, progress, announce, head) {
                Err(Failure::Interrupted) if first.is_some() => {
                    return Ok(ControlFlow::Break(()));
                }
                report => report?,
            };
            let took_s = since.elapsed().as_secs_f64();
            let step = Step { took_s, ..Step::new(&report) };
            since = Instant::now();
            let interrupted = report.interrupted;
            first.get_or_insert(report);
            said = say(&row(&step, interrupted));
            if interrupted {
                unfinished = Some(step);
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(step))
        });
        let (interrupted, failure) = match ended {
            Ok(ended) => (ended.is_break(), said.err()),
            Err(failure) if first.is_none() => return Err(failure),
            Err(failure) => (true, Some(failure)),
        };
        let (plan, environment) =
            first.map(|report| (report.config.plan, report.environment)).unzip();
        Ok(Ended {
            made: Made {
                schema: SCHEMA,
                interrupted,
                error: failure.as_ref().map(ToString::to_string),
                plan,
                environment,
                cooldown: self.cooldown,
                steps: steps(series).to_vec(),
                unfinished,
            },
            failure,
        })
    }

    fn run(
        &self,
        ask: &Ask,
        progress: SeriesProgress,
        announce: Announce,
        head: &str,
    ) -> Result<Report, Failure> {
        let label = text::label(ask, progress);
        let plan = self.plan_of(ask);
        if let Some(agents) = &self.agents {
            let view = View { label: &label, announce, ..View::of(self.shown) };
            let driven = agents.drive(plan, self.stop, view, head, RunFiles::default())?;
            // With one agent fewer, the load was different.
            return driven.failure.map_or(Ok(driven.finished.report), Err);
        }
        let extras = Extras { reference: self.reference.as_ref(), ..Extras::default() };
        let line = |plan: &Plan| {
            say(head)?;
            Ok(ProgressLine::new(plan, View { label: &label, ..View::of(self.shown) }))
        };
        let (finished, _) = drive_with(plan, &self.body, self.stop, announce, line, extras)?;
        Ok(finished.report)
    }

    /// The plan of one run.
    pub(crate) fn plan_of(&self, ask: &Ask) -> Plan {
        let Ask { rate, duration, seed, ref change, rest: _ } = *ask;
        let plan = Plan { rate: Some(rate), duration, seed, ..self.plan.clone() };
        match change {
            Change::None => plan,
            Change::Cores(cores) => Plan { cores: Some(CoreList::new(cores.clone())), ..plan },
            Change::Conns(conns) => Plan { conns: Some(*conns), ..plan },
        }
    }

    /// Rests before the next run, for the cooldown and at least `least`; false if a signal came.
    pub(crate) fn rest(&self, least: Nanos) -> bool {
        let begun = Instant::now();
        let rest = self.cooldown.max(least).as_duration();
        while begun.elapsed() < rest && !self.stop.asked() {
            thread::sleep(POLL_INTERVAL.min(rest));
        }
        !self.stop.asked()
    }
}
