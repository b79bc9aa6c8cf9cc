//! Many runs from one plan, as `sweep`, `search` and `ceiling` make them: to the end, to the first
//! signal, or to the first run that fails. What was measured until then is kept.

use std::fmt;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use engine::plan::body::SharedBody;
use engine::plan::{Model, Plan};
use engine::report::Report;
use engine::sys::units::{CoreList, Nanos};
use probe::document::{Made, SCHEMA};
use probe::plot::Mark;
use probe::proof::Trial;
use probe::step::{Step, none_is_valid};
use probe::{Ask, Change, Outlook, Series, make_runs};
use serde::Serialize;

use crate::args::{CrewArgs, ResultArgs, RunArgs};
use crate::crew::{Crew, Meanwhile, require_for_agents};
use crate::drive::{Beside, Results, drive_with};
use crate::failure::{EXIT_INTERRUPTED, EXIT_INVALID, EXIT_MISSED, Failure, complain};
use crate::output::{OutputFile, say};
use crate::progress::{Announce, ProgressLine, Shown, View};
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
    /// Opens those that were asked for.
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
            out: open("--out", wanted.out.as_ref())?,
            csv: open("--csv", wanted.csv.as_ref())?,
            svg: open("--svg", svg)?,
            assumed: wanted.assumed.clone(),
        })
    }

    /// Writes what was found: the document, the steps as CSV with the trials of a ceiling behind
    /// them, and the plot with its mark. Without a step that has a latency there is no plot. Says
    /// what the plan assumed.
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
            // A series that was stopped may have nothing to draw; that it was stopped is said.
            Err(_) if made.interrupted => {}
            Err(problem) => results.failures.push(Failure::CouldNotRun(format!(
                "--svg: not written ({problem}); give the steps a longer --duration"
            ))),
        }
    }
}

/// The plan of the steps, without what only one run can have.
///
/// # Errors
/// A flag, or a key of the plan file, that a series of open runs has no use for.
pub(crate) fn plan(args: &RunArgs) -> Result<(Plan, ResultArgs), Failure> {
    let (plan, wanted) = open_plan(planning::plan(args)?)?;
    match &wanted.flamegraph {
        Some(file) => Err(refused("--flamegraph", file.display(), "a profile is of one run")),
        None => Ok((plan, wanted)),
    }
}

/// The plan, unless it has what no series of open runs has a use for.
///
/// # Errors
/// The flag, or the key of the plan file.
pub(crate) fn open_plan((plan, wanted): (Plan, ResultArgs)) -> Result<(Plan, ResultArgs), Failure> {
    // Each field is named, so that a new one has to be refused, or to mean something to a series.
    let ResultArgs {
        out: _,
        csv: _,
        flamegraph: _,
        quiet: _,
        progress: _,
        live,
        calibration: _,
        assumed: _,
        hdr,
        label,
        tags,
        junit,
        ndjson,
        prom,
        fail_on,
        allow_invalid,
    } = &wanted;
    let Plan {
        model,
        period,
        requests,
        backfill,
        raw,
        target: _,
        rate: _,
        arrivals: _,
        seed: _,
        conns: _,
        pipeline: _,
        duration: _,
        warmup: _,
        timeout: _,
        method: _,
        headers: _,
        body: _,
        cores: _,
        wait: _,
        stamps: _,
        stamp_sends: _,
        flush: _,
        overload: _,
        queue_max: _,
        deadline: _,
        keepalive: _,
        requests_per_connection: _,
        connect_to: _,
        resolve: _,
        unix: _,
        cacert: _,
        cert: _,
        key: _,
        insecure: _,
        tls_session: _,
        source_addresses: _,
        settle: _,
        settle_min: _,
        prewarm: _,
        spare: _,
        expect_status: _,
        slo: _,
        thresholds: _,
    } = &plan;
    let file = |file: &Option<PathBuf>| file.as_ref().map(|file| file.display().to_string());
    let (no_rate, one_run) =
        ("a closed model has no rate to change", "a file holds one run, not many");
    let useless = [
        (
            "--model",
            model.filter(|model| *model == Model::Closed).map(|_| "closed".into()),
            no_rate,
        ),
        ("--period", period.map(|period| period.to_string()), no_rate),
        (
            "--requests",
            requests.map(|requests| requests.to_string()),
            "the steps of a series are as long as --duration says",
        ),
        ("--backfill", (!backfill.is_off()).then(|| "on".into()), no_rate),
        ("--raw", file(raw), one_run),
        ("--hdr", file(hdr), one_run),
        ("--label", label.clone(), one_run),
        ("--tag", tags.keys().next().cloned(), one_run),
        (
            "--allow-invalid",
            allow_invalid.then(String::new),
            "a series has a verdict for each step, and none of its own",
        ),
        (
            "--fail-on",
            (!fail_on.is_empty()).then(String::new),
            "a series judges its steps, and its exit code says what it found",
        ),
        ("--junit", file(junit), one_run),
        ("--live", live.then(String::new), "the view is of one run"),
        ("--ndjson", file(ndjson), one_run),
        ("--prom", file(prom), one_run),
    ];
    for (flag, value, problem) in useless {
        if let Some(value) = value {
            return Err(refused(flag, value, problem));
        }
    }
    Ok((plan, wanted))
}

/// The agents that make the runs of a series, if any are named.
///
/// # Errors
/// A flag that says something of agents where there are none, or that a series of runs on agents
/// has no use for; or too few agents.
pub(crate) fn crew(
    args: &CrewArgs,
    plan: &Plan,
    wanted: &ResultArgs,
    stop: &StopRequest,
) -> Result<Option<Crew>, Failure> {
    let key = args.key_file.as_ref().map(|file| file.display().to_string());
    let others = [
        ("--weights", (!args.weights.is_empty()).then(String::new)),
        ("--key-file", key),
        ("--expect", args.expect.map(|expected| expected.to_string())),
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
    require_for_agents(plan, wanted)?;
    Crew::gather(args, stop).map(Some)
}

/// A flag that a command which makes many runs has no use for.
pub(crate) fn refused(flag: &str, value: impl fmt::Display, problem: &str) -> Failure {
    let given = format!("{flag} {value}");
    Failure::Usage(format!("{}: {problem}; omit it, or use `truetail run`", given.trim_end()))
}

/// Makes the runs of a series.
pub(crate) struct Runs<'a> {
    /// The plan of each but for its rate, window and seed.
    pub(crate) plan: Plan,
    /// The body of all of them, which the first reads.
    pub(crate) body: SharedBody,
    /// Rest between two runs.
    pub(crate) cooldown: Nanos,
    /// What is shown while one goes on.
    pub(crate) shown: Shown,
    /// Whether it is said before the first how long all take.
    pub(crate) announced: bool,
    /// What each is held against.
    pub(crate) reference: Option<Reference>,
    /// The agents that make them; `None` if this machine does.
    pub(crate) crew: Option<Crew>,
    /// What stops them.
    pub(crate) stop: &'a StopRequest,
}

/// How a series ended, before it is known what it found.
pub(crate) struct Ended {
    /// The steps, and whether they are all.
    pub(crate) made: Made,
    /// Why the last run failed, if it did.
    pub(crate) failure: Option<Failure>,
}

/// What a series that is done has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// What it looked for.
    Something,
    /// No rate that passes.
    Nothing,
    /// Nothing that could be judged.
    NotJudged,
}

/// The exit code, given what a series has found if it is done.
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

impl Runs<'_> {
    /// Makes them: prints the `head` once the first can run, and the row of each as it ends, told
    /// whether a signal cut it short. `steps` are those of the series.
    ///
    /// # Errors
    /// That of the first run: then nothing was measured.
    pub(crate) fn make<S: Series>(
        &self,
        series: &mut S,
        head: &str,
        steps: impl Fn(&S) -> &[Step],
        row: impl Fn(&Step, bool) -> String,
    ) -> Result<Ended, Failure> {
        let mut first: Option<Report> = None;
        let mut unfinished = None;
        // A row that can't be printed ends the series, once its step is kept.
        let mut said = Ok(());
        let ended = make_runs(series, |ask, outlook| {
            std::mem::replace(&mut said, Ok(()))?;
            if first.is_some() && !self.rest() {
                return Ok(ControlFlow::Break(()));
            }
            let (head, announce) = match (&first, self.announced) {
                (None, true) => (head, Announce::Series(outlook, self.cooldown)),
                (None, false) => (head, Announce::Nothing),
                (Some(_), _) => ("", Announce::Nothing),
            };
            let report = match self.run(ask, outlook, announce, head) {
                Err(Failure::Interrupted) if first.is_some() => {
                    return Ok(ControlFlow::Break(()));
                }
                report => report?,
            };
            let step = Step::new(&report);
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
        outlook: Outlook,
        announce: Announce,
        head: &str,
    ) -> Result<Report, Failure> {
        let between = self.plan.warmup.0 + self.plan.settle.0 + self.cooldown.0;
        let label = text::label(ask, outlook, Nanos(between));
        let plan = self.plan_of(ask);
        if let Some(crew) = &self.crew {
            let view = View { label: &label, announce, ..View::of(self.shown) };
            let driven = crew.drive(plan, self.stop, view, head, Meanwhile::default())?;
            // What an agent fewer offered is another load.
            return driven.failure.map_or(Ok(driven.finished.report), Err);
        }
        let beside = Beside { reference: self.reference.as_ref(), ..Beside::default() };
        let line = |plan: &Plan| {
            say(head)?;
            Ok(ProgressLine::new(plan, View { label: &label, ..View::of(self.shown) }))
        };
        let (finished, _) = drive_with(plan, &self.body, self.stop, announce, line, beside)?;
        Ok(finished.report)
    }

    /// The plan of one run.
    pub(crate) fn plan_of(&self, ask: &Ask) -> Plan {
        let Ask { rate, duration, seed, ref change } = *ask;
        let plan = Plan { rate: Some(rate), duration, seed, ..self.plan.clone() };
        match change {
            Change::None => plan,
            Change::Cores(cores) => Plan { cores: Some(CoreList::new(cores.clone())), ..plan },
            Change::Conns(conns) => Plan { conns: Some(*conns), ..plan },
        }
    }

    /// Rests before the next run; false if a signal came.
    pub(crate) fn rest(&self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < self.cooldown.as_duration() && !self.stop.asked() {
            thread::sleep(POLL_INTERVAL.min(self.cooldown.as_duration()));
        }
        !self.stop.asked()
    }
}
